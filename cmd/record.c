#include "record.h"

#include "args.h"
#include "pool.h"
#include "text.h"

#include <poll.h>

/* CALM: events of one process between two questions; of more its ring may not hold all. */
enum { TIMEOUT_MS = 3000, EVERY_MS = 100, LEAST_MS = 25, KEEP_MS = 3000, CALM = 4096 };

double record_seconds(const char *text) {
    double seconds = args_positive("SECONDS", text);
    if (seconds < 0.05 || seconds > 600) cmd_usage("SECONDS '%s': from 0.05 to 600", text);
    return seconds;
}

/* "recording 1.2 of 3.0 s: 12,345 events", on a terminal in place. */
static void tell(double done, double seconds, size_t events, double *next) {
    char count[TEXT_ROOM];
    bool terminal = cmd_columns(stderr) > 0;
    if (done < *next) return;
    *next = done + (terminal ? 0.2 : 3);
    fprintf(stderr,
            terminal ? "\r\x1b[Krecording %.1f of %.1f s: %s events"
                     : "recording %.1f of %.1f s: %s events\n",
            done, seconds, text_count((int64_t)events, count));
    fflush(stderr);
}

static int listen_to(cmd_pool *pool, double seconds, int64_t most_events, bool quiet,
                     view_recorder *recorder) {
    int pause = EVERY_MS / 2;
    shoal_status status = shoal_events(pool->session, KEEP_MS, view_recorder_take, recorder);
    double begin = cmd_now(), next = 1, done = 0; /* everyone has been told */
    while (status == SHOAL_OK && done < seconds && cmd_stop == 0 &&
           (int64_t)view_recorder_count(recorder) < most_events) {
        if (!quiet && seconds > 1) tell(done, seconds, view_recorder_count(recorder), &next);
        double rest = (seconds - done) * 1e3;
        size_t most = view_recorder_most(recorder);
        if (most > CALM && pause > LEAST_MS) pause /= 2;
        if (most < CALM / 4 && pause < EVERY_MS) pause *= 2;
        poll(NULL, 0, rest < pause ? (int)rest + 1 : pause);
        done = cmd_now() - begin; /* before the answers: they may be older than their arrival */
        status = shoal_events(pool->session, KEEP_MS, view_recorder_take, recorder);
    }
    if (!quiet && next > 1 && cmd_columns(stderr) > 0) fputs("\r\x1b[K", stderr);
    /* Who has come meanwhile. */
    if (status == SHOAL_OK) status = pool_look(pool);
    if (status == SHOAL_OK) view_recorder_slots(recorder, pool->slots, pool->status.n_slots);
    return cmd_try(status);
}

static uint32_t count_devices(const cmd_pool *pool) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < pool->status.n_slots; i++) n += pool->slots[i].compute;
    return n;
}

int record_pool(const char *hub, double seconds, int64_t most, bool quiet, view_record *out) {
    const shoal_options options = {.size = sizeof options,
                                   .hub = cmd_hub_address(hub),
                                   .timeout_ms = TIMEOUT_MS,
                                   .name = "trace"};
    cmd_pool pool;
    *out = (view_record){0};
    int code = cmd_try(pool_open(&options, &pool));
    if (code != CMD_OK) return code;
    view_recorder *recorder = view_recorder_new();
    if (count_devices(&pool) == 0)
        code = cmd_fail("the pool at %s has no worker: start one with `shoal worker`", options.hub);
    else if (recorder == NULL)
        code = cmd_fail("no memory to record");
    if (code == CMD_OK) {
        cmd_catch_signals();
        view_recorder_slots(recorder, pool.slots, pool.status.n_slots);
        code = listen_to(&pool, seconds, most, quiet, recorder);
    }
    if (code == CMD_OK && !view_recorder_close(recorder, out))
        code = cmd_fail("no memory for what was recorded");
    if (code == CMD_OK && pool.status.unix_ms > (uint64_t)(out->seconds * 1e3))
        out->unix_ms = pool.status.unix_ms - (uint64_t)(out->seconds * 1e3);
    view_recorder_free(recorder);
    pool_close(&pool);
    return code;
}
