/* A session with uploads, programs and reads under way, whose hub and whose pool's members answer
 * with what the input says: a row of messages and boxes as in member.c. Some come whenever the
 * session asks for something, or has waited for a while. */
#include "api/state.h"
#include "fuzz.h"
#include "others.h"
#include "shoal/function.h"

#include <string.h>

enum { PER_QUESTION = 6, TURNS = 20, ROWS = 1024 };

size_t fuzz_limit(size_t size) { return 64 * size + (24 << 20); }

static shoal_session *session;
static const uint8_t *data;
static size_t size;
static uint64_t instances;
static int silent; /* turns of the pump in which nothing was said; -1: it is all over */

/* What the input has for this question; the hub is gone once there is no more. */
static void answer(void) {
    const uint8_t *body;
    uint8_t how;
    size_t n;
    for (int i = 0; i < PER_QUESTION; i++) {
        bool there = others_joined();
        if (!others_next(&data, &size, &body, &n, &how)) {
            others_leave();
            return;
        }
        others_say(true, body, n, how);
        FUZZ_CHECK(how >> 6 == BY_HUB || !there || others_joined());
        if (!others_joined()) return;
    }
}

static void listen(void *context) {
    if (silent < 0) return;
    if (++silent > TURNS) {
        silent = 0;
        answer();
    }
    if (others_joined())
        FUZZ_CHECK(wire_post(worker_wire(session->worker), listen, NULL) == SHOAL_OK);
}

/* Programs bring home what is to be read, and take along what was uploaded. */
static void on_asked(Shoal__Kind kind, const void *body, size_t n) {
    ProtobufCMessage *message = NULL;
    if (kind == SHOAL__KIND__SUBMIT) {
        FUZZ_CHECK(wire_unpack(&shoal__submit__descriptor, body, n, &message) == SHOAL_OK);
        const Shoal__Submit *submit = (const Shoal__Submit *)message;
        instances++;
        if (submit->rounds) {
            others_loop(instances, instances, 0,
                        submit->n_home ? submit->outputs[submit->home[0] % submit->n_outputs] : 7,
                        submit->rounds);
            instances += submit->rounds - 1;
        } else if (submit->n_home || submit->n_uploads)
            others_run(instances, instances, submit->n_uploads ? submit->uploads[0]->value : 0,
                       submit->n_outputs ? submit->outputs[submit->n_outputs - 1] : 7);
        wire_unpacked_free(message);
    }
    if (kind == SHOAL__KIND__RELEASE || kind == SHOAL__KIND__DONE || kind == SHOAL__KIND__FAILED ||
        kind == SHOAL__KIND__RECORDED)
        return; /* nobody waits for an answer to these */
    silent = TURNS;
}

/* Whatever the hub says, a status is one of ours. */
static bool tried(shoal_status status) {
    FUZZ_CHECK(status < SHOAL_STATUS_COUNT);
    return status == SHOAL_OK;
}

static void each(void *context, const shoal_event_source *source, const shoal_event *events,
                 size_t n) {
    FUZZ_CHECK(source->name);
}

/* A loop whose rounds are read, for as long as there are any; the last is left to be cancelled. */
static void repeat(shoal_tensor *x) {
    float out[SIDE * SIDE];
    void *places[] = {out};
    const size_t bytes[] = {sizeof out};
    const shoal_carry carry[] = {{0, 0}};
    const uint32_t stream[] = {0};
    shoal_repeat options = {.size = sizeof options,
                            .rounds = 4,
                            .carry = carry,
                            .n_carry = 1,
                            .stream = stream,
                            .n_stream = 1,
                            .patience_ms = 100};
    shoal_tensor *y = NULL, *made = NULL;
    shoal_function *f = NULL;
    shoal_loop *loop = NULL;
    bool more = tried(shoal_add(x, x, &y)) &&
                tried(shoal_function_new(session, &x, 1, &y, 1, &f)) &&
                tried(shoal_function_repeat(f, &x, &options, &made, &loop));
    for (int i = 0; i < 3 && more && others_joined(); i++)
        if (!tried(shoal_loop_next(loop, places, bytes, &more))) break;
    if (loop && others_joined()) tried(shoal_loop_cancel(loop));
    if (loop) fuzz_accepted += shoal_loop_rounds(loop) > 0;
    shoal_loop_free(&loop);
    shoal_function_free(&f);
    shoal_tensor_free(&y);
    shoal_tensor_free(&made);
}

static void use(void) {
    float a[SIDE * SIDE] = {1}, out[SIDE * SIDE];
    static float large[ROWS * 64];
    const int64_t dims[] = {SIDE, SIDE}, more[] = {ROWS, 64};
    shoal_tensor *x = NULL, *y = NULL, *z = NULL;
    shoal_pool_status pool = {.size = sizeof pool};
    shoal_slot slots[4];
    shoal_slot_time times[4];
    uint32_t n_times = 4;
    char *text = NULL;
    tried(shoal_tensor_new(session, SHOAL_F32, 2, dims, a, &x));
    tried(shoal_tensor_new(session, SHOAL_F32, 2, more, large, &z));
    if (x) tried(shoal_add(x, x, &y));
    if (y) fuzz_accepted += tried(shoal_read(y, out, sizeof out));
    if (others_joined()) tried(shoal_status_of(session, &pool, slots, 4));
    if (others_joined() && y) tried(shoal_explain(y, false, &text));
    if (others_joined()) tried(shoal_events(session, 10, each, NULL));
    shoal_tensor_free(&y);
    if (others_joined() && z) tried(shoal_add(z, z, &y));
    if (others_joined() && y) tried(shoal_start(y));
    if (others_joined() && y) tried(shoal_tensor_times(y, times, &n_times));
    if (others_joined()) tried(shoal_sync(session));
    if (others_joined() && x) tried(shoal_read(x, out, sizeof out));
    if (others_joined() && x) repeat(x);
    free(text);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t n) {
    shoal_options options = {.size = sizeof options, .hub = "fuzzed", .name = "fuzzed"};
    setenv("SHOAL_LOG", "error", 1);
    data = input;
    size = n;
    instances = 0;
    FUZZ_CHECK(api_session_new(&options, &session) == SHOAL_OK);
    FUZZ_CHECK(api_worker_new(session, false, &session->worker) == SHOAL_OK);
    others_begin(session->worker, on_asked);
    others_link();
    api_number_from(session);
    silent = 0;
    listen(NULL);
    use();
    silent = -1;
    others_end();
    shoal_session_close(&session);
    return 0;
}
