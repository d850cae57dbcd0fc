/* `shoal doctor`: what this machine has, what is missing, and what to do about it. */
#include "pool.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_JSON = 0x100, DOCTOR_TIMEOUT_MS = 3000 };

typedef struct input {
    const char *hub;
    bool json;
} input;

static const struct argp_option options[] = {
    {"hub", 'H', "ADDRESS", 0, "The hub to look for (default: SHOAL_HUB, else shm:hub)", 0},
    {"json", KEY_JSON, NULL, 0, "Print JSON", 0},
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'H') in->hub = arg;
    if (key == KEY_JSON) in->json = true;
}

/* One finding. `trouble` makes the command fail; `advice` NULL when there is nothing to do. */
static void add(cJSON *rows, const char *what, const char *state, const char *detail,
                const char *advice) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "what", what);
    cJSON_AddStringToObject(row, "state", state);
    cJSON_AddStringToObject(row, "detail", detail);
    if (advice != NULL)
        cJSON_AddStringToObject(row, "advice", advice);
    else
        cJSON_AddNullToObject(row, "advice");
    cJSON_AddItemToArray(rows, row);
}

typedef struct devices {
    cJSON *rows;
    int found;
} devices;

static void add_device(void *context, const shoal_found *found) {
    devices *all = context;
    char what[96], detail[512], memory[TEXT_ROOM];
    snprintf(what, sizeof what, "backend %s", found->backend);
    if (found->device == NULL) {
        snprintf(detail, sizeof detail, "%s: %s", found->summary,
                 found->reason != NULL ? found->reason : "no device");
        add(all->rows, what, "none", detail, NULL);
        return;
    }
    int n = snprintf(detail, sizeof detail, "%s", found->device);
    if (found->threads > 0 && n < 400)
        n += snprintf(detail + n, sizeof detail - (size_t)n, ", %u thread%s", found->threads,
                      found->threads == 1 ? "" : "s");
    if (found->memory > 0 && n < 400)
        snprintf(detail + n, sizeof detail - (size_t)n, ", %s", text_bytes(found->memory, memory));
    add(all->rows, what, "ok", detail, NULL);
    all->found++;
}

static void check_backends(cJSON *rows) {
    devices all = {rows, 0};
    shoal_backends(add_device, &all);
    if (all.found == 0)
        add(rows, "backends", "trouble", "no device that can compute",
            "install a build of Shoal for this machine: `cpu` needs no drivers");
}

/* Where this user's sockets live: $XDG_RUNTIME_DIR/shoal, else /tmp/shoal-UID. The library makes
 * the last part when it is first needed. */
static void check_runtime_folder(cJSON *rows) {
    const char *base = getenv("XDG_RUNTIME_DIR");
    bool named = base != NULL && base[0] == '/';
    char folder[512], detail[1024];
    struct stat info;
    if (!named) base = "/tmp";
    if (named)
        snprintf(folder, sizeof folder, "%s/shoal", base);
    else
        snprintf(folder, sizeof folder, "%s/shoal-%u", base, (unsigned)getuid());
    const char *advice = named ? "set XDG_RUNTIME_DIR to a folder of yours, or unset it"
                               : "set XDG_RUNTIME_DIR to a folder of yours";
    bool made = lstat(folder, &info) == 0;
    if (made && (!S_ISDIR(info.st_mode) || info.st_uid != getuid())) {
        snprintf(detail, sizeof detail, "%s is not a folder of user %u", folder,
                 (unsigned)getuid());
        add(rows, "runtime folder", "trouble", detail, advice);
    } else if (made && (info.st_mode & 077) != 0) {
        snprintf(detail, sizeof detail, "%s is open to others (mode %03o)", folder,
                 (unsigned)info.st_mode & 0777);
        add(rows, "runtime folder", "trouble", detail, "chmod 700 it");
    } else if (access(made ? folder : base, W_OK | X_OK) != 0) {
        snprintf(detail, sizeof detail, "%s: %s", made ? folder : base, strerror(errno));
        add(rows, "runtime folder", "trouble", detail, advice);
    } else {
        snprintf(detail, sizeof detail, "%s%s", folder, made ? "" : ", made when needed");
        add(rows, "runtime folder", "ok", detail, NULL);
    }
}

/* A hub that was not asked for may well not run: that is a note, not a trouble. */
static void check_hub(cJSON *rows, const char *given) {
    const char *address = cmd_hub_address(given);
    bool asked = given != NULL || getenv("SHOAL_HUB") != NULL;
    char detail[1024], advice[512];
    const shoal_options session = {
        .size = sizeof session, .hub = address, .timeout_ms = DOCTOR_TIMEOUT_MS};
    cmd_pool pool;
    shoal_status status = pool_open(&session, &pool);
    if (status != SHOAL_OK) {
        snprintf(detail, sizeof detail, "%s", shoal_error_message());
        snprintf(advice, sizeof advice,
                 asked ? "start it: shoal hub --address %s"
                       : "a program alone needs none; to pool processes: shoal hub --address %s",
                 address);
        add(rows, "hub", asked ? "trouble" : "none", detail, advice);
        return;
    }
    uint32_t workers = 0;
    for (uint32_t i = 0; i < pool.status.n_slots; i++) workers += pool.slots[i].compute;
    snprintf(detail, sizeof detail, "%s, version %s, %u worker%s", pool.status.address,
             pool.status.version, workers, workers == 1 ? "" : "s");
    if (strcmp(pool.status.version, shoal_version()) != 0)
        add(rows, "hub", "note", detail, "run one version everywhere");
    else
        add(rows, "hub", workers > 0 ? "ok" : "note", detail,
            workers > 0 ? NULL : "start a worker: shoal worker");
    pool_close(&pool);
}

static const text_column columns[] = {
    {"what", "WHAT", NULL},
    {"state", "STATE", NULL},
    {"detail", "DETAIL", NULL},
};

static void print_text(const cJSON *rows) {
    const cJSON *row;
    text_table(rows, columns, sizeof columns / sizeof *columns);
    cJSON_ArrayForEach(row, rows) {
        const cJSON *advice = cJSON_GetObjectItemCaseSensitive(row, "advice");
        if (cJSON_IsString(advice))
            printf("%s: %s\n", cJSON_GetObjectItemCaseSensitive(row, "what")->valuestring,
                   advice->valuestring);
    }
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {0};
    cmd_parse(self, argc, argv, &in);
    cJSON *rows = cJSON_CreateArray();
    char detail[96];
    snprintf(detail, sizeof detail, "%s, %ld cores", shoal_version(),
             sysconf(_SC_NPROCESSORS_ONLN));
    add(rows, "shoal", "ok", detail, NULL);
    check_backends(rows);
    check_runtime_folder(rows);
    check_hub(rows, in.hub);
    int troubles = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const cJSON *state = cJSON_GetObjectItemCaseSensitive(row, "state");
        troubles += cJSON_IsString(state) && strcmp(state->valuestring, "trouble") == 0;
    }
    if (in.json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddItemToObject(root, "findings", rows);
        cJSON_AddNumberToObject(root, "troubles", troubles);
        int code = text_json(root);
        return code != CMD_OK || troubles == 0 ? code : CMD_FAILED;
    }
    print_text(rows);
    cJSON_Delete(rows);
    return troubles == 0 ? CMD_OK : CMD_FAILED;
}

const cmd_command cmd_doctor = {
    .name = "doctor",
    .summary = "Show what this machine offers, what is missing and what to do about it",
    .doc = "Fails (1) when something is in trouble. A backend without a device is none.",
    .options = options,
    .take = take,
    .run = run};
