/* A worker among others that say to it what the tests want. */
#include "member_testing.h"

#include "backend/registry.h"
#include "base/clock.h"

#include <time.h>

uint64_t fuzz_accepted; /* of others.c */

worker *w;
_Atomic uint64_t done;  /* the instance of which the hub was told last that it is through */
_Atomic uint64_t waits; /* the one that was said last to wait, */
_Atomic uint64_t slow;  /* and to wait for who takes a little */
char failure[512];      /* what the hub was told last of a failure */

static void on_asked(Shoal__Kind kind, const void *body, size_t n) {
    if (kind == SHOAL__KIND__WAITS) {
        Shoal__Waits *message = shoal__waits__unpack(NULL, n, body);
        assert_int_equal(message->peer, OWES);
        *(message->slow ? &slow : &waits) = message->instance;
        shoal__waits__free_unpacked(message, NULL);
    }
    if (kind == SHOAL__KIND__FAILED) {
        Shoal__Failed *message = shoal__failed__unpack(NULL, n, body);
        snprintf(failure, sizeof failure, "%s", message->error->message);
        shoal__failed__free_unpacked(message, NULL);
    }
    if (kind != SHOAL__KIND__DONE) return;
    Shoal__Done *message = shoal__done__unpack(NULL, n, body);
    done = message->instance;
    shoal__done__free_unpacked(message, NULL);
}

int begin(void **state) {
    (void)state;
    worker_device device = {.threads = 1};
    worker_options options = {.name = "w",
                              .role = SHOAL__ROLE__WORKER,
                              .models = "/nonexistent",
                              .devices = &device,
                              .n_devices = 1};
    setenv("SHOAL_LOG", "error", 1);
    ok(backend_find("null", &device.backend));
    ok(worker_new(&options, &w));
    done = waits = slow = 0;
    failure[0] = 0;
    others_begin(w, on_asked);
    others_link();
    return 0;
}

int end(void **state) {
    (void)state;
    others_end();
    worker_destroy(&w);
    return 0;
}

/* Whether something holds soon. */
bool soon(bool (*holds)(void)) {
    for (int64_t until = base_now() + 30 * BASE_SECOND; base_now() < until;) {
        others_hold();
        others_turn();
        others_release();
        pthread_mutex_lock(&w->lock);
        bool held = holds();
        pthread_mutex_unlock(&w->lock);
        if (held) return true;
        nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
    }
    return false;
}

shoal_status say(uint32_t who, uint64_t instance, uint64_t bytes) {
    static const float zeros[SIDE * SIDE];
    wire_transfer transfer = {.instance = instance, .bytes = bytes};
    size_t n = bytes < sizeof zeros ? (size_t)bytes : sizeof zeros;
    others_hold();
    shoal_status status = worker_data(w, others_end_of(who), &transfer, 0, zeros, n);
    others_release();
    return status;
}

uint64_t strange(uint32_t who) { return others_end_of(who)->strange; }

worker_peer *peer(uint32_t number) { return base_map_get(&w->peers, (uint64_t)number + 1); }
