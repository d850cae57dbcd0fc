/* `shoal trace`: some seconds of a pool, event by event: a file for a viewer, and a summary. */
#include "args.h"
#include "output.h"
#include "record.h"
#include "text.h"
#include "view/chrome.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_EVENTS = 0x100, MOST_OPERATIONS = 12 };

typedef struct input {
    const char *hub, *output;
    double seconds;
    int64_t events;
    bool quiet, force;
} input;

static const struct argp_option options[] = {
    {"hub", 'H', "ADDRESS", 0, "The pool's hub (default: SHOAL_HUB, else shm:hub)", 0},
    {"output", 'o', "FILE", 0, "Write all events to FILE, in Chrome's trace format", 0},
    OUTPUT_OPTION_FORCE,
    {"events", KEY_EVENTS, "N", 0, "Stop after N events", 0},
    {"quiet", 'q', NULL, 0, "Print no progress", 0},
    CMD_OPTION_WIDE,
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'H') in->hub = arg;
    if (key == 'o') in->output = arg;
    if (key == KEY_EVENTS) in->events = args_count("--events", arg, 1, VIEW_MOST_EVENTS);
    if (key == 'q') in->quiet = true;
    if (key == OUTPUT_KEY_FORCE) in->force = true;
    if (key == ARGP_KEY_ARG && in->seconds > 0) cmd_usage("trace takes one number, SECONDS");
    if (key == ARGP_KEY_ARG) in->seconds = record_seconds(arg);
}

/* ---- the summary ---- */

static const text_column lane_columns[] = {
    {"worker", "WORKER", NULL},
    {"slot", "SLOT", NULL},
    {"busy", "BUSY", text_show_percent},
    {"waiting", "WAITING", text_show_percent, false},
    {"runs", "PROGRAMS", text_show_count},
    {"received_bytes", "IN", text_show_bytes},
    {"sent_bytes", "OUT", text_show_bytes},
    {"state", "", NULL},
};
static const text_column operation_columns[] = {
    {"seconds", "TIME", text_show_seconds},
    {"share", "OF BUSY", text_show_percent},
    {"count", "COUNT", text_show_count},
    {"operations", "OPERATIONS", NULL},
};

/* One digit after the point: what a record of seconds can tell. */
static double percent(double part, double whole) {
    return whole > 0 ? (double)(int64_t)(1000 * part / whole + 0.5) / 10 : 0;
}

static cJSON *list_lanes(const view_record *record, double *busy) {
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < record->n_lanes; i++) {
        const view_lane *lane = &record->lanes[i];
        if (lane->role != VIEW_WORKER) continue;
        view_lane_sum sum = view_sum(record, i);
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "worker", lane->name);
        cJSON_AddNumberToObject(row, "slot", lane->slot);
        cJSON_AddNumberToObject(row, "busy", percent(sum.busy, record->seconds));
        cJSON_AddNumberToObject(row, "busy_seconds", sum.busy);
        cJSON_AddNumberToObject(row, "waiting", percent(sum.waiting, record->seconds));
        cJSON_AddNumberToObject(row, "waiting_seconds", sum.waiting);
        cJSON_AddNumberToObject(row, "compiling_seconds", sum.compiling);
        cJSON_AddNumberToObject(row, "runs", (double)sum.runs);
        cJSON_AddNumberToObject(row, "received_bytes", (double)sum.received);
        cJSON_AddNumberToObject(row, "sent_bytes", (double)sum.sent);
        cJSON_AddStringToObject(row, "state", lane->lost ? "left" : "");
        cJSON_AddItemToArray(rows, row);
        *busy += sum.busy;
    }
    return rows;
}

static cJSON *list_operations(const view_record *record, double busy) {
    view_operation_sum sums[MOST_OPERATIONS];
    uint32_t n = view_operations(record, sums, MOST_OPERATIONS);
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddNumberToObject(row, "seconds", sums[i].seconds);
        cJSON_AddNumberToObject(row, "share", percent(sums[i].seconds, busy));
        cJSON_AddNumberToObject(row, "count", (double)sums[i].count);
        cJSON_AddStringToObject(row, "operations", record->labels[sums[i].label]);
        cJSON_AddItemToArray(rows, row);
    }
    return rows;
}

static int print_json(const view_record *record, cJSON *lanes, cJSON *operations) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "seconds", record->seconds);
    cJSON_AddNumberToObject(root, "events", (double)record->n_spans);
    cJSON_AddNumberToObject(root, "lost", (double)record->lost);
    cJSON_AddNumberToObject(root, "clock_doubt_seconds", record->doubt);
    cJSON_AddItemToObject(root, "workers", lanes);
    cJSON_AddItemToObject(root, "operations", operations);
    return text_json(root);
}

static int print_text(const view_record *record, cJSON *lanes, cJSON *operations) {
    char events[TEXT_ROOM], lost[TEXT_ROOM], seconds[TEXT_ROOM];
    printf("%s: %s events", text_seconds(record->seconds, seconds),
           text_count((int64_t)record->n_spans, events));
    if (record->lost > 0)
        printf(", and %s that were lost because they came too fast",
               text_count((int64_t)record->lost, lost));
    if (record->doubt > 0) printf("; clocks agree within %s", text_seconds(record->doubt, seconds));
    fputs("\n\n", stdout);
    text_table(lanes, lane_columns, sizeof lane_columns / sizeof *lane_columns);
    if (cJSON_GetArraySize(operations) > 0) {
        putchar('\n');
        text_table(operations, operation_columns,
                   sizeof operation_columns / sizeof *operation_columns);
    }
    cJSON_Delete(lanes);
    cJSON_Delete(operations);
    return CMD_OK;
}

static int write_file(const view_record *record, const char *path) {
    char *beside;
    FILE *file = output_open(path, &beside);
    if (file == NULL) return CMD_FAILED;
    if (view_chrome_write(file, record)) return output_commit(file, beside, path);
    output_drop(file, beside);
    return cmd_fail("no memory to write %s", path);
}

static int run(const cmd_command *self, int argc, char **argv) {
    input in = {.events = VIEW_MOST_EVENTS};
    cmd_parse(self, argc, argv, &in);
    if (in.force && in.output == NULL) cmd_usage("--force: there is no --output to overwrite");
    view_record record = {0};
    if (in.output != NULL && output_check(in.output, in.force) != CMD_OK) return CMD_FAILED;
    int code = record_pool(in.hub, in.seconds > 0 ? in.seconds : 2, in.events, in.quiet, &record);
    if (code == CMD_OK && in.output != NULL) code = write_file(&record, in.output);
    if (code == CMD_OK) {
        double busy = 0;
        cJSON *lanes = list_lanes(&record, &busy), *operations = list_operations(&record, busy);
        code = cmd_json ? print_json(&record, lanes, operations)
                        : print_text(&record, lanes, operations);
    }
    if (code == CMD_OK && in.output != NULL && !cmd_json)
        printf("\nwritten to %s: open it in chrome://tracing or https://ui.perfetto.dev\n",
               in.output);
    view_record_fini(&record);
    return code;
}

const cmd_command cmd_trace = {.name = "trace",
                               .group = CMD_SEE,
                               .args = "[SECONDS]",
                               .summary = "Record what a pool does, for some seconds (default: 2)",
                               .doc = "Prints what each worker did, and which operations took the "
                                      "time. Ctrl-C stops early and keeps what was recorded.",
                               .options = options,
                               .take = take,
                               .run = run};
