/* `shoal status`: who is in a pool and what they hold. */
#include "status.h"

#include "text.h"

enum { STATUS_TIMEOUT_MS = 5000 };

typedef struct input {
    const char *hub;
} input;

static const struct argp_option options[] = {
    {"hub", 'H', "ADDRESS", 0, "The pool's hub (default: SHOAL_HUB, else shm:hub)", 0},
    CMD_OPTION_WIDE,
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'H') in->hub = arg;
}

static const text_column columns[] = {
    {"slot", "SLOT", NULL, false},
    {"worker", "WORKER", NULL, false},
    {"host", "HOST", NULL, false},
    {"pid", "PID", NULL, true},
    {"name", "DEVICE", NULL, false},
    {"device", "WHAT IT IS", NULL, true},
    {"threads", "THREADS", NULL, false},
    {"weight", "WEIGHT", text_show_fixed, true},
    {"bytes", "HELD", text_show_bytes, false},
    {"memory", "LIMIT", text_show_bytes, false},
    {"instances", "RUNS", text_show_count, false},
    {"busy_seconds", "BUSY", text_show_seconds, false},
    {"sent_bytes", "OUT", text_show_bytes, true},
    {"received_bytes", "IN", text_show_bytes, true},
    {"relayed_bytes", "BY HUB", text_show_bytes, true},
    {"paths", "PATHS", NULL, true},
    {"queued", "QUEUED", NULL, true},
};

static void add_slot(cJSON *rows, const shoal_slot *slot) {
    cJSON *row = cJSON_CreateObject();
    cJSON_AddNumberToObject(row, "slot", slot->slot);
    cJSON_AddStringToObject(row, "worker", slot->worker);
    cJSON_AddStringToObject(row, "host", slot->host);
    cJSON_AddNumberToObject(row, "pid", slot->pid);
    cJSON_AddStringToObject(row, "backend", slot->backend);
    cJSON_AddStringToObject(row, "name", slot->name);
    cJSON_AddStringToObject(row, "device", slot->device);
    cJSON_AddNumberToObject(row, "threads", slot->threads);
    cJSON_AddNumberToObject(row, "weight", slot->weight);
    cJSON_AddBoolToObject(row, "weighted", slot->weighted);
    cJSON_AddNumberToObject(row, "bytes", (double)slot->bytes);
    if (slot->memory != 0)
        cJSON_AddNumberToObject(row, "memory", (double)slot->memory);
    else
        cJSON_AddNullToObject(row, "memory");
    cJSON_AddNumberToObject(row, "instances", (double)slot->instances);
    cJSON_AddNumberToObject(row, "busy_seconds", (double)slot->busy_ns * 1e-9);
    cJSON_AddNumberToObject(row, "nodes", (double)slot->nodes);
    cJSON_AddNumberToObject(row, "sent_bytes", (double)slot->sent);
    cJSON_AddNumberToObject(row, "received_bytes", (double)slot->received);
    cJSON_AddNumberToObject(row, "relayed_bytes", (double)slot->relayed);
    cJSON_AddNumberToObject(row, "paths", slot->paths);
    cJSON_AddNumberToObject(row, "paths_lost", (double)slot->paths_lost);
    cJSON_AddNumberToObject(row, "queued", slot->queued);
    cJSON_AddNumberToObject(row, "fetching_bytes", (double)slot->fetching);
    cJSON_AddNumberToObject(row, "fetched_bytes", (double)slot->fetched);
    cJSON_AddBoolToObject(row, "maps_files", slot->maps);
    if (slot->machine != 0)
        cJSON_AddNumberToObject(row, "machine_memory", (double)slot->machine);
    else
        cJSON_AddNullToObject(row, "machine_memory");
    cJSON_AddItemToArray(rows, row);
}

/* A client's memory is a slot too, but nothing that anyone can use: the table leaves it out. */
static cJSON *list_workers(const cmd_pool *pool) {
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < pool->status.n_slots; i++)
        if (pool->slots[i].compute) add_slot(rows, &pool->slots[i]);
    return rows;
}

static const text_column path_columns[] = {
    {"worker", "FROM", NULL, false},
    {"other", "TO", NULL, false},
    {"address", "PATH", NULL, false},
    {"bytes_per_second", "PER SECOND", text_show_bytes, false},
    {"sent_bytes", "SENT", text_show_bytes, false},
    {"saved_bytes", "SAVED", text_show_bytes, false},
};

static cJSON *list_paths(const cmd_pool *pool) {
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < pool->n_paths; i++) {
        const shoal_path *path = &pool->paths[i];
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "worker", path->worker);
        cJSON_AddStringToObject(row, "other", path->other);
        cJSON_AddStringToObject(row, "address", path->address);
        if (path->speed > 0)
            cJSON_AddNumberToObject(row, "bytes_per_second", path->speed);
        else
            cJSON_AddNullToObject(row, "bytes_per_second");
        cJSON_AddNumberToObject(row, "sent_bytes", (double)path->sent);
        cJSON_AddNumberToObject(row, "saved_bytes", (double)path->saved);
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

cJSON *status_json(const cmd_pool *pool) {
    const shoal_pool_status *status = &pool->status;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "address", status->address);
    cJSON_AddStringToObject(root, "version", status->version);
    cJSON_AddNumberToObject(root, "epoch", (double)status->epoch);
    cJSON_AddNumberToObject(root, "uptime_seconds", (double)status->uptime_ms * 1e-3);
    cJSON_AddNumberToObject(root, "sessions", status->sessions);
    cJSON_AddNumberToObject(root, "instances", (double)status->instances);
    cJSON_AddNumberToObject(root, "values", (double)status->values);
    cJSON_AddNumberToObject(root, "bytes", (double)status->bytes);
    cJSON_AddNumberToObject(root, "losses", (double)status->losses);
    cJSON_AddNumberToObject(root, "reruns", (double)status->reruns);
    cJSON_AddItemToObject(root, "slots", list_workers(pool));
    cJSON_AddItemToObject(root, "paths", list_paths(pool));
    return root;
}

/* Names the workers whose data cannot come straight; nothing when there are none. */
static void tell_relayed(const cJSON *rows) {
    const char *before = "";
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        if (cJSON_GetNumberValue(cJSON_GetObjectItem(row, "relayed_bytes")) <= 0) continue;
        printf("%s%s", before, cJSON_GetStringValue(cJSON_GetObjectItem(row, "worker")));
        before = ", ";
    }
    if (*before) printf(": data goes through the hub, which is slower; see: shoal doctor\n");
}

/* Names the workers of which a way to the hub failed while another went on. */
static void tell_paths(const cJSON *rows) {
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        double lost = cJSON_GetNumberValue(cJSON_GetObjectItem(row, "paths_lost"));
        double paths = cJSON_GetNumberValue(cJSON_GetObjectItem(row, "paths"));
        if (lost > 0)
            printf("%s has %.0f path%s to the hub; one was lost %.0f time%s\n",
                   cJSON_GetStringValue(cJSON_GetObjectItem(row, "worker")), paths,
                   paths == 1 ? "" : "s", lost, lost == 1 ? "" : "s");
    }
}

static void tell_fetches(const cJSON *rows) {
    char all[TEXT_ROOM], there[TEXT_ROOM];
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        double bytes = cJSON_GetNumberValue(cJSON_GetObjectItem(row, "fetching_bytes"));
        double come = cJSON_GetNumberValue(cJSON_GetObjectItem(row, "fetched_bytes"));
        if (bytes > 0)
            printf("%s fetches a file: %s of %s are there\n",
                   cJSON_GetStringValue(cJSON_GetObjectItem(row, "worker")),
                   text_bytes((uint64_t)come, there), text_bytes((uint64_t)bytes, all));
    }
}

static void print_text(const cmd_pool *pool) {
    const shoal_pool_status *status = &pool->status;
    cJSON *rows = list_workers(pool), *paths = list_paths(pool);
    char uptime[TEXT_ROOM], values[TEXT_ROOM], bytes[TEXT_ROOM];
    printf("pool %s: version %s, up %s, %s values (%s), %u session%s\n", status->address,
           status->version, text_seconds((double)status->uptime_ms * 1e-3, uptime),
           text_count((int64_t)status->values, values), text_bytes(status->bytes, bytes),
           status->sessions, status->sessions == 1 ? "" : "s");
    if (status->losses)
        printf("%llu worker%s lost; %llu program%s run again\n", (unsigned long long)status->losses,
               status->losses == 1 ? "" : "s", (unsigned long long)status->reruns,
               status->reruns == 1 ? " was" : "s were");
    tell_relayed(rows);
    tell_paths(rows);
    tell_fetches(rows);
    if (cJSON_GetArraySize(rows) == 0)
        printf("no workers yet; start one with: shoal worker --hub %s\n", status->address);
    else
        text_table(rows, columns, sizeof columns / sizeof *columns);
    if (cmd_wide && cJSON_GetArraySize(paths) > 0) {
        putchar('\n');
        text_table(paths, path_columns, sizeof path_columns / sizeof *path_columns);
    }
    cJSON_Delete(rows);
    cJSON_Delete(paths);
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {0};
    cmd_parse(self, argc, argv, &in);
    const shoal_options session = {
        .size = sizeof session, .hub = cmd_hub_address(in.hub), .timeout_ms = STATUS_TIMEOUT_MS};
    cmd_pool pool;
    if (cmd_try(pool_open(&session, &pool)) != CMD_OK) return CMD_FAILED;
    int code = CMD_OK;
    if (cmd_json)
        code = text_json(status_json(&pool));
    else
        print_text(&pool);
    pool_close(&pool);
    return code;
}

const cmd_command cmd_status = {.name = "status",
                                .group = CMD_SEE,
                                .summary = "Show the workers of a pool, and what they hold",
                                .options = options,
                                .take = take,
                                .run = run};
