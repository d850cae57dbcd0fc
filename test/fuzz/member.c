/* A worker, or a client, that two other members talk to, and whose hub says what it likes but for
 * programs, of which there is one. The input: a byte for the role, then a row of messages and
 * boxes, each a byte (kind, and above that who says it), two bytes of length and the body; of a box
 * the body begins with its numbers. */
#include "backend/registry.h"
#include "fuzz.h"
#include "others.h"

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
                              .role = client ? SHOAL__ROLE__CLIENT : SHOAL__ROLE__WORKER,
                              .devices = &device,
                              .n_devices = !client};
    FUZZ_CHECK(worker_new(&options, &w) == SHOAL_OK);
    if (client) worker_set_client(w, &callbacks);
    others_begin(w, note_answer);
    others_link();
    return w;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    bool client = data[0] & 1, early = data[0] & 2;
    const uint8_t *body;
    uint8_t how;
    size_t n;
    worker *w = setup(client);
    if (!early) others_run(INSTANCE, 1, 0, 77);
    for (data++, size--; others_next(&data, &size, &body, &n, &how);) {
        bool by_hub = how >> 6 == BY_HUB, there = others_joined();
        others_say(client, body, n, how);
        others_turn();
        /* What a member says is no reason to leave the hub. */
        FUZZ_CHECK(by_hub || !there || others_joined());
        FUZZ_CHECK(w->staged_bytes <= WORKER_MAX_STAGED);
    }
    others_end();
    worker_destroy(&w);
    return 0;
}
