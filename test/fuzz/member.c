/* A worker, or a client, that two other members talk to, and whose hub says what it likes but for
 * programs, of which there is one, and a loop if the input says so. The input: a byte for the role
 * and what is under way, then a row of messages and boxes, each a byte (kind, and above that who
 * says it), two bytes of length and the body; of a box the body begins with its numbers. */
#include "backend/registry.h"
#include "fuzz.h"
#include "others.h"

enum { CLIENT = 1, EARLY = 2, LOOP = 4, FILE_COMES = 8 };
enum { ROUNDS = 4, FILE_BYTES = 100 };

size_t fuzz_limit(size_t size) { return 64 * size + (24 << 20); }

static shoal_status client_message(void *context, Shoal__Kind kind, const void *body,
                                   size_t bytes) {
    return SHOAL_OK;
}

static void note_answer(Shoal__Kind kind, const void *body, size_t n) { fuzz_accepted++; }

static worker *setup(bool client) {
    const shoal_backend *backend;
    worker_device device = {.threads = 1};
    worker_client callbacks = {.message = client_message};
    worker *w;
    setenv("SHOAL_LOG", "error", 1);
    FUZZ_CHECK(backend_find("null", &backend) == SHOAL_OK);
    device.backend = backend;
    worker_options options = {.name = "fuzzed",
                              .models = "/nonexistent",
                              .role = client ? SHOAL__ROLE__CLIENT : SHOAL__ROLE__WORKER,
                              .devices = &device,
                              .n_devices = !client};
    FUZZ_CHECK(worker_new(&options, &w) == SHOAL_OK);
    if (client) worker_set_client(w, &callbacks);
    others_begin(w, note_answer);
    others_link();
    return w;
}

/* What each says changes only what is its own, within bounds. */
static void check(worker *w) {
    pthread_mutex_lock(&w->lock);
    FUZZ_CHECK(w->staged_bytes <= WORKER_MAX_STAGED);
    const worker_file_part *part = &w->fetch.parts[0];
    FUZZ_CHECK(part->have <= part->bytes && part->bytes <= FILE_BYTES);
    for (size_t i = 0; i < w->loops.count; i++) {
        const worker_loop *loop = w->loops.data[i];
        uint32_t live = 0;
        for (uint32_t r = 0; r < loop->ahead + 2; r++) {
            if (!loop->live[r]) continue;
            live++;
            FUZZ_CHECK(loop->live[r]->round >= loop->through);
            FUZZ_CHECK(loop->live[r]->round <= loop->through + loop->ahead + 1);
        }
        FUZZ_CHECK(live == loop->n_live);
        for (size_t k = 0; k < loop->paced.count; k++)
            FUZZ_CHECK(loop->paced.data[k].through <= ROUNDS);
    }
    pthread_mutex_unlock(&w->lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    bool client = data[0] & CLIENT, early = data[0] & EARLY, loop = data[0] & LOOP;
    worker_stream *stream = NULL;
    const uint64_t last = 78;
    const uint8_t *body;
    uint8_t how;
    size_t n;
    worker *w = setup(client);
    if (client && loop) FUZZ_CHECK(worker_stream_open(w, &last, 1, 1000, &stream) == SHOAL_OK);
    others_hold();
    if (!early) others_run(INSTANCE, 1, 0, 77);
    if (loop) others_loop(INSTANCE + 1, 2, 77, last, ROUNDS);
    others_release();
    if (data[0] & FILE_COMES) others_fetch(FILE_BYTES);
    for (data++, size--; others_next(&data, &size, &body, &n, &how);) {
        bool by_hub = how >> 6 == BY_HUB, there = others_joined();
        others_hold();
        others_say(client, body, n, how);
        others_turn();
        others_release();
        /* What a member says is no reason to leave the hub. */
        FUZZ_CHECK(by_hub || !there || others_joined());
        check(w);
    }
    others_end();
    worker_stream_close(w, &stream);
    worker_destroy(&w);
    return 0;
}
