/* Running a pool's processes: a hub, a worker; and what this machine has for them. */
#include "api/state.h"

#include "backend/registry.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const default_hub = "shm:hub";

static bool asked_to_stop(void *context) {
    const volatile int *stop = *(const volatile int *const *)context;
    return stop && *stop;
}

shoal_status shoal_hub_run(const shoal_hub_options *given) {
    shoal_hub_options options = {0};
    if (!given->size || given->size > sizeof options)
        return base_fail(SHOAL_INVALID,
                         "shoal_hub_options.size is %zu; set it to "
                         "sizeof(shoal_hub_options)",
                         given->size);
    memcpy(&options, given, given->size);
    wire_peer *wire = NULL;
    hub *h = NULL;
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.role = SHOAL__ROLE__HUB;
    hello.name = (char *)"hub";
    SHOAL_TRY(wire_peer_new(&hello, &wire));
    shoal_status status = hub_new(wire, &h);
    if (status == SHOAL_OK)
        status = wire_listen(wire, options.address ? options.address : default_hub);
    if (status == SHOAL_OK) status = wire_start(wire);
    if (status == SHOAL_OK && options.ready) options.ready(options.context, wire_address(wire));
    while (status == SHOAL_OK && !(options.stop && *options.stop)) {
        status = wire_wait(wire, asked_to_stop, (void *)&options.stop, base_now() + 100 * BASE_MS);
        if (status == SHOAL_TIMEOUT) status = SHOAL_OK;
    }
    wire_peer_destroy(&wire);
    hub_destroy(&h);
    return status;
}

static shoal_status worker_device_of(const shoal_worker_options *options, worker_device *out) {
    const char *name = options->backend ? options->backend : "cpu";
    *out = (worker_device){.index = options->device,
                           .threads = options->threads,
                           .weight = options->weight,
                           .memory = options->memory};
    if (!(options->weight >= 0) || options->weight > 1e12)
        return base_fail(SHOAL_INVALID, "weight %g; give a number over 0", options->weight);
    return backend_find(name, &out->backend);
}

typedef struct ending {
    worker *w;
    const volatile int *stop;
} ending;

static bool ended(void *context) {
    const ending *e = context;
    return (e->stop && *e->stop) || worker_state(e->w) != SHOAL_OK;
}

shoal_status shoal_worker_run(const shoal_worker_options *given) {
    shoal_worker_options options = {0};
    if (!given->size || given->size > sizeof options)
        return base_fail(SHOAL_INVALID,
                         "shoal_worker_options.size is %zu; set it to "
                         "sizeof(shoal_worker_options)",
                         given->size);
    memcpy(&options, given, given->size);
    if (!options.hub) options.hub = getenv("SHOAL_HUB");
    if (!options.hub || !*options.hub) options.hub = default_hub;
    worker_device device;
    SHOAL_TRY(worker_device_of(&options, &device));
    worker_options w = {
        .name = options.name, .role = SHOAL__ROLE__WORKER, .devices = &device, .n_devices = 1};
    worker *self = NULL;
    SHOAL_TRY(worker_new(&w, &self));
    wire_peer *wire = worker_wire(self);
    char address[64];
    snprintf(address, sizeof address, "shm:worker-%ld-%llx", (long)getpid(),
             (unsigned long long)wire_incarnation(wire));
    shoal_status status = wire_listen(wire, address);
    if (status == SHOAL_OK) status = wire_start(wire);
    if (status == SHOAL_OK) status = worker_join(self, options.hub, 5000);
    if (status == SHOAL_OK && options.ready) options.ready(options.context, worker_name(self));
    ending e = {self, options.stop};
    while (status == SHOAL_OK && !(options.stop && *options.stop)) {
        status = wire_wait(wire, ended, &e, base_now() + 100 * BASE_MS);
        if (status == SHOAL_TIMEOUT) status = SHOAL_OK;
        if (status == SHOAL_OK) status = worker_state(self);
    }
    worker_destroy(&self);
    return status;
}

void shoal_backends(void (*each)(void *context, const shoal_found *found), void *context) {
    const shoal_backend *backend;
    for (uint32_t i = 0; (backend = backend_at(i)); i++) {
        shoal_found found = {.backend = backend->name, .summary = backend->summary};
        uint32_t n = backend->device_count(backend_host());
        if (!n) {
            found.reason = shoal_error_message();
            each(context, &found);
        }
        for (uint32_t d = 0; d < n; d++) {
            shoal_device_info info;
            if (backend->device_info(backend_host(), d, &info) == SHOAL_OK) {
                found.device = info.name;
                found.memory = info.memory;
                found.threads = info.threads;
            } else {
                found.device = NULL;
                found.reason = shoal_error_message();
            }
            each(context, &found);
        }
    }
}
