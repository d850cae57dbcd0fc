/* `shoal doctor`: what this machine has, what is missing, and what to do about it. */
#include "backends.h"
#include "doctor.h"
#include "text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_LISTEN = 0x100 };

typedef struct input {
    const char *hub, *listen;
} input;

static const struct argp_option options[] = {
    {"hub", 'H', "ADDRESS", 0, "The hub to check (default: SHOAL_HUB, else shm:hub)", 0},
    {"listen", KEY_LISTEN, "HOST:PORT", 0, "Check whether a hub could listen at this address", 0},
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'H') in->hub = arg;
    if (key == KEY_LISTEN) in->listen = arg;
}

void doctor_add(cJSON *rows, const char *what, const char *state, const char *detail,
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

static const char *text_at(const cJSON *row, const char *key) {
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(row, key);
    return cJSON_IsString(text) ? text->valuestring : NULL;
}

static double number_at(const cJSON *row, const char *key) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(row, key);
    return cJSON_IsNumber(number) ? number->valuedouble : 0;
}

/* Whether it is a device. */
static bool check_device(cJSON *rows, const cJSON *row) {
    char what[96], detail[1200], memory[TEXT_ROOM];
    const char *device = text_at(row, "device");
    int n = snprintf(what, sizeof what, "backend %.64s", text_at(row, "backend"));
    double index = number_at(row, "index"), bytes = number_at(row, "memory");
    if (index > 0) snprintf(what + n, sizeof what - (size_t)n, ":%.0f", index);
    if (device == NULL) {
        snprintf(detail, sizeof detail, "%.200s: %.900s", text_at(row, "summary"),
                 text_at(row, "reason"));
        doctor_add(rows, what, "none", detail, NULL);
        return false;
    }
    snprintf(detail, sizeof detail, "%.1000s%s%s", device, bytes > 0 ? ", " : "",
             bytes > 0 ? text_bytes((uint64_t)bytes, memory) : "");
    doctor_add(rows, what, "ok", detail, NULL);
    return true;
}

static void check_backends(cJSON *rows) {
    cJSON *all = backends_rows(NULL);
    const cJSON *row;
    int found = 0;
    cJSON_ArrayForEach(row, all) found += check_device(rows, row);
    cJSON_Delete(all);
    if (found == 0)
        doctor_add(rows, "backends", "trouble", "no device that can compute",
                   "install a build of Shoal for this machine: `cpu` needs no drivers");
}

/* A folder that only this user may read; the library makes it when it is first needed. */
static void check_folder(cJSON *rows, shoal_folder which, const char *what, const char *variable) {
    char folder[512], base[512], detail[1200], advice[256];
    struct stat info;
    const char *set = getenv(variable);
    bool named = set != NULL && set[0] == '/';
    shoal_status status = shoal_folder_path(which, false, folder, sizeof folder);
    snprintf(advice, sizeof advice, "set %s to a folder of yours%s", variable,
             named ? ", or unset it" : "");
    if (folder[0] == 0 || status == SHOAL_INVALID) {
        doctor_add(rows, what, "trouble", shoal_error_message(), advice);
        return;
    }
    bool made = lstat(folder, &info) == 0;
    /* Else it is made in the nearest folder that is there; one that was named has to be. */
    snprintf(base, sizeof base, "%s", folder);
    for (char *slash = strrchr(base, '/'); !made && slash > base; slash = strrchr(base, '/')) {
        *slash = 0;
        if (named || stat(base, &info) == 0) break;
    }
    if (made && (!S_ISDIR(info.st_mode) || info.st_uid != getuid())) {
        snprintf(detail, sizeof detail, "%s is not a folder of user %u", folder,
                 (unsigned)getuid());
        doctor_add(rows, what, "trouble", detail, advice);
    } else if (made && (info.st_mode & 077) != 0) {
        snprintf(detail, sizeof detail, "%s is open to others (mode %03o)", folder,
                 (unsigned)info.st_mode & 0777);
        snprintf(advice, sizeof advice, "chmod 700 it");
        doctor_add(rows, what, "trouble", detail, advice);
    } else if (access(base, W_OK | X_OK) != 0) {
        snprintf(detail, sizeof detail, "%s: %s", base, strerror(errno));
        doctor_add(rows, what, "trouble", detail, advice);
    } else {
        snprintf(detail, sizeof detail, "%s%s", folder, made ? "" : ", made when needed");
        doctor_add(rows, what, "ok", detail, NULL);
    }
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
        const char *what = cJSON_GetObjectItemCaseSensitive(row, "what")->valuestring;
        if (!cJSON_IsString(advice)) continue;
        text_wrapped(advice->valuestring, printf("%s: ", what), 4);
    }
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {0};
    cmd_parse(self, argc, argv, &in);
    cJSON *rows = cJSON_CreateArray();
    char detail[96];
    snprintf(detail, sizeof detail, "%s, %ld cores", shoal_version(),
             sysconf(_SC_NPROCESSORS_ONLN));
    doctor_add(rows, "shoal", "ok", detail, NULL);
    check_backends(rows);
    check_folder(rows, SHOAL_FOLDER_RUNTIME, "runtime folder", "XDG_RUNTIME_DIR");
    check_folder(rows, SHOAL_FOLDER_CONFIG, "key folder", "XDG_CONFIG_HOME");
    check_folder(rows, SHOAL_FOLDER_STATE, "log folder", "XDG_STATE_HOME");
    doctor_network(rows, in.hub, in.listen);
    int troubles = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const cJSON *state = cJSON_GetObjectItemCaseSensitive(row, "state");
        troubles += cJSON_IsString(state) && strcmp(state->valuestring, "trouble") == 0;
    }
    if (cmd_json) {
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
    .group = CMD_SEE,
    .summary = "Check this machine and the hub; name the fix of each problem",
    .doc = "The exit code is 1 if there is a problem. A backend without a device is not one.",
    .options = options,
    .take = take,
    .run = run};
