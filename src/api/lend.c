/* Running a worker: which hub, joining it, and joining again when it was gone. */
#include "api/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "wire/beacon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A beacon comes every second. The pause between attempts grows from the least to the most. */
enum { REFUSALS = 4 }; /* that one who was in asks again after, before it gives up */
enum { JOIN_MS = 5000, FIND_MS = 2500, LEAST_PAUSE_MS = 200, MOST_PAUSE_MS = 5000, ADDRESS = 1024 };

typedef struct lend {
    shoal_worker_options options;
    api_devices devices;
    const char *named; /* the hub, if the user named one */
    uint16_t port;     /* where beacons come, 0: off */
    bool trusts_hub;   /* for artifacts */
    char name[64];     /* that the hub gave, to be asked for again */
    char hub[ADDRESS]; /* joined last, or tried */
    bool joined;       /* this time */
    bool ever;         /* joined */
    int refusals;      /* in a row */
} lend;

static shoal_status find_devices(const shoal_worker_options *options, api_devices *out) {
    if (!(options->weight >= 0) || options->weight > 1e12)
        return base_fail(SHOAL_INVALID, "weight %g; give a number over 0", options->weight);
    SHOAL_TRY(api_devices_find(options->devices ? options->devices : api_devices_default(), out));
    for (uint32_t i = 0; i < out->n; i++) {
        out->list[i].threads = options->threads;
        out->list[i].weight = options->weight;
        out->list[i].memory = options->memory;
    }
    return SHOAL_OK;
}

static shoal_status find_trust(const char *given, bool *out) {
    if (!given) given = getenv("SHOAL_ARTIFACTS");
    *out = given && !strcmp(given, "hub");
    if (!given || !*given || *out || !strcmp(given, "own")) return SHOAL_OK;
    return base_fail(SHOAL_INVALID, "artifacts of '%.64s'; there are those of own and of hub",
                     given);
}

static bool stopped(const lend *l) { return base_stopped(l->options.stop); }

/* ---- one life ---- */

/* Without keys, for people. */
static void show(const char *addresses, char out[ADDRESS]) {
    size_t n = 0;
    for (const char *at = addresses; *at && n + 1 < ADDRESS;) {
        if (!strncmp(at, "tcp://", 6))
            for (int i = 0; i < 6 && n + 1 < ADDRESS; i++) out[n++] = *at++;
        while (*at && *at != ',' && *at != '/' && n + 1 < ADDRESS) out[n++] = *at++;
        at += strcspn(at, ",");
        if (*at && n + 1 < ADDRESS) out[n++] = *at++;
    }
    out[n] = 0;
}

static void tell_joined(lend *l, worker *self) {
    char shown[ADDRESS];
    show(l->hub, shown);
    snprintf(l->name, sizeof l->name, "%s", worker_name(self));
    base_log(BASE_INFO, l->name, "joined %s%s", shown, l->ever ? " again" : "");
    l->joined = l->ever = true;
    /* When it joins again, it does so with those that are left. */
    for (uint32_t i = 0; i < l->devices.n; i++) l->devices.list[i].dispensable = true;
    if (l->options.ready) l->options.ready(l->options.context, l->name, shown);
}

/* Others reach a worker the ways that lead to its hub, unless it is told others. */
static shoal_status listen_for(lend *l, wire_peer *wire) {
    const char *listen = l->options.listen ? l->options.listen : getenv("SHOAL_LISTEN");
    const char *tcp = listen ? NULL : strstr(l->hub, "tcp://");
    char host[64], own[64], all[256] = "";
    for (; tcp; tcp = strstr(tcp + 1, "tcp://")) {
        snprintf(host, sizeof host, "%.*s", (int)strcspn(tcp + 6, ":"), tcp + 6);
        if (!base_os_route(host, own, sizeof own) || !strncmp(own, "127.", 4) || strstr(all, own) ||
            strlen(all) + strlen(own) + 2 > sizeof all)
            continue;
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? "," : "", own);
    }
    return wire_listen_for(wire, l->hub, *all ? all : listen);
}

/* Joins the hub at l->hub, and works until told to stop (OK) or until the hub is gone. */
static shoal_status live(lend *l) {
    worker_options w = {.name = *l->name ? l->name : l->options.name,
                        .role = SHOAL__ROLE__WORKER,
                        .models = l->options.models,
                        .trusts_hub = l->trusts_hub,
                        .devices = l->devices.list,
                        .n_devices = l->devices.n};
    worker *self = NULL;
    SHOAL_TRY(worker_new(&w, &self));
    wire_peer *wire = worker_wire(self);
    char address[64];
    snprintf(address, sizeof address, "shm:worker-%ld-%llx", (long)getpid(),
             (unsigned long long)wire_incarnation(wire));
    shoal_status status = wire_listen(wire, address);
    if (status == SHOAL_OK) status = listen_for(l, wire);
    if (status == SHOAL_OK) status = wire_start(wire);
    if (status == SHOAL_OK) status = worker_join(self, l->hub, JOIN_MS);
    if (status == SHOAL_OK) tell_joined(l, self);
    /* Not at the pump: that is for the threads that run programs. */
    while (status == SHOAL_OK && !stopped(l)) {
        nanosleep(&(struct timespec){.tv_nsec = 100 * BASE_MS}, NULL);
        status = worker_state(self);
    }
    if (status == SHOAL_OK) base_log(BASE_INFO, worker_name(self), "ends, as it was asked to");
    worker_destroy(&self);
    return status;
}

/* ---- which hub ---- */

static void count(void *context, const char *addresses, const uint8_t *key) { ++*(int *)context; }

/* Whether there is a hub elsewhere that could announce itself to this user. */
static bool has_joined(void) {
    int hubs = 0;
    return wire_keys_each_hub(count, &hubs) == SHOAL_OK && hubs;
}

/* The hub whose beacon is heard. A beacon may be false: then the next one may be true. */
static shoal_status try_beacons(lend *l) {
    int64_t deadline = base_now() + FIND_MS * BASE_MS;
    shoal_status status = SHOAL_OK, tried = SHOAL_OK;
    char why[512] = "";
    while (!stopped(l)) {
        status = wire_beacon_find(l->port, deadline, l->options.stop, l->hub, sizeof l->hub);
        if (status != SHOAL_OK) break;
        status = live(l);
        if (status == SHOAL_OK || l->joined) return status;
        tried = status;
        snprintf(why, sizeof why, "%s", shoal_error_message());
        base_log(BASE_INFO, "worker", "%s", why);
    }
    if (stopped(l)) return SHOAL_OK;
    return tried == SHOAL_OK ? status : base_fail(tried, "%s", why);
}

/* The hub that was named; else the one of this machine; else one that announces itself. */
static shoal_status try_hubs(lend *l) {
    char message[512], why[512];
    l->joined = false;
    snprintf(l->hub, sizeof l->hub, "%s", l->named ? l->named : "shm:hub");
    shoal_status status = live(l);
    if (status != SHOAL_NOT_FOUND || l->joined || l->named || !l->port) return status;
    snprintf(message, sizeof message, "%s", shoal_error_message());
    if (!has_joined()) return base_fail(status, "%s", message);
    status = try_beacons(l);
    if (status != SHOAL_NOT_FOUND) return status;
    snprintf(why, sizeof why, "%s", shoal_error_message());
    return base_fail(status, "%s; and elsewhere: %s", message, why);
}

bool api_may_pass(shoal_status status) {
    switch (status) {
    case SHOAL_NOT_FOUND:
    case SHOAL_IO:
    case SHOAL_TIMEOUT:
    case SHOAL_LOST:
    case SHOAL_CLOSED:
    case SHOAL_BUSY: return true;
    default: return false;
    }
}

/* Whether it is worth while to try again. Before it has joined any, only a hub that does not answer
 * is waited for: the rest is told at once. */
static bool tries_again(lend *l, shoal_status status) {
    if (!l->ever) return l->options.wait && status != SHOAL_IO && api_may_pass(status);
    /* A mistake of the hub's, or its owner's, may be mended. */
    return l->options.rejoin &&
           (api_may_pass(status) || (status == SHOAL_DENIED && l->refusals++ < REFUSALS));
}

static void rest(const lend *l, uint32_t ms) {
    const struct timespec moment = {.tv_nsec = 20 * BASE_MS};
    int64_t end = base_now() + ms * BASE_MS;
    while (!stopped(l) && base_now() < end) nanosleep(&moment, NULL);
}

shoal_status shoal_worker_run(const shoal_worker_options *given) {
    lend l = {0};
    if (!given->size || given->size > sizeof l.options)
        return base_fail(SHOAL_INVALID,
                         "shoal_worker_options.size is %zu; set it to "
                         "sizeof(shoal_worker_options)",
                         given->size);
    memcpy(&l.options, given, given->size);
    SHOAL_TRY(find_devices(&l.options, &l.devices));
    SHOAL_TRY(wire_beacon_port(l.options.beacon, &l.port));
    SHOAL_TRY(find_trust(l.options.artifacts, &l.trusts_hub));
    l.named = l.options.hub ? l.options.hub : getenv("SHOAL_HUB");
    if (l.named && !*l.named) l.named = NULL;
    if (l.named && strlen(l.named) >= sizeof l.hub)
        return base_fail(SHOAL_INVALID, "the address of the hub has %zu letters; at most %d fit",
                         strlen(l.named), ADDRESS - 1);
    uint32_t pause = LEAST_PAUSE_MS;
    bool told = false;
    while (true) {
        shoal_status status = try_hubs(&l);
        if (status == SHOAL_OK || !tries_again(&l, status)) return status;
        if (status == SHOAL_DENIED) pause = MOST_PAUSE_MS;
        if (l.joined) l.refusals = 0;
        if (l.joined && status != SHOAL_DENIED) {
            pause = LEAST_PAUSE_MS;
            told = false;
        }
        const char *name = *l.name ? l.name : "worker"; /* it gets its own as it joins */
        base_log(told ? BASE_DEBUG : BASE_WARN, name, "%s; tries to join%s%s",
                 shoal_error_message(), l.ever ? " again" : "", told ? "" : ", until it can");
        told = true;
        rest(&l, pause);
        if (stopped(&l)) {
            base_log(BASE_INFO, name, "ends, as it was asked to");
            return SHOAL_OK;
        }
        pause = pause * 2 < MOST_PAUSE_MS ? pause * 2 : MOST_PAUSE_MS;
    }
}
