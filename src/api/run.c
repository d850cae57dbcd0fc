/* Running a pool's processes: a hub, a worker; and what this machine has for them. */
#include "api/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/str.h"
#include "wire/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const default_hub = "shm:hub";

static bool asked_to_stop(void *context) {
    const volatile int *stop = *(const volatile int *const *)context;
    return stop && *stop;
}

/* For other machines: says so in the user's configuration, for tokens. */
static shoal_status listen_wide(wire_peer *wire, const char *listen) {
    base_str address = {0};
    const char *port = strrchr(listen, ':');
    if (!port || !strncmp(listen, "0.0.0.0", 7) || *listen == '*')
        return base_fail(SHOAL_INVALID,
                         "listening at '%s': name one interface and a port, as "
                         "192.168.1.5:7400",
                         listen);
    base_str_format(&address, "tcp://%.*s:%s", (int)(port - listen), listen,
                    strcmp(port + 1, "0") ? port + 1 : "*");
    shoal_status status = base_str_status(&address);
    if (status == SHOAL_OK) status = wire_listen_wide(wire, address.data);
    base_str_fini(&address);
    SHOAL_TRY(status);
    char *all = wire_addresses(wire);
    status = all ? wire_keys_set_listening(all) : SHOAL_NO_MEMORY;
    free(all);
    return status;
}

static shoal_status tell_ready(const wire_peer *wire, const shoal_hub_options *options) {
    char *all = wire_addresses(wire);
    if (!all) return SHOAL_NO_MEMORY;
    base_log(BASE_INFO, "hub", "listening at %s", all);
    if (options->ready) options->ready(options->context, all);
    free(all);
    return SHOAL_OK;
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
    if (status == SHOAL_OK && options.listen) status = listen_wide(wire, options.listen);
    if (status == SHOAL_OK) status = wire_start(wire);
    if (status == SHOAL_OK) status = tell_ready(wire, &options);
    while (status == SHOAL_OK && !(options.stop && *options.stop)) {
        status = wire_wait(wire, asked_to_stop, (void *)&options.stop, base_now() + 100 * BASE_MS);
        if (status == SHOAL_TIMEOUT) status = SHOAL_OK;
    }
    if (status == SHOAL_OK) base_log(BASE_INFO, "hub", "ends, as it was asked to");
    wire_peer_destroy(&wire);
    hub_destroy(&h);
    if (options.listen && wire_keys_set_listening("") != SHOAL_OK)
        base_log(BASE_WARN, "hub", "%s", shoal_error_message());
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
    const char *listen = options.listen ? options.listen : getenv("SHOAL_LISTEN");
    shoal_status status = wire_listen(wire, address);
    if (status == SHOAL_OK) status = wire_listen_for(wire, options.hub, listen);
    if (status == SHOAL_OK) status = wire_start(wire);
    if (status == SHOAL_OK) status = worker_join(self, options.hub, 5000);
    if (status == SHOAL_OK) base_log(BASE_INFO, worker_name(self), "joined %s", options.hub);
    if (status == SHOAL_OK && options.ready) options.ready(options.context, worker_name(self));
    ending e = {self, options.stop};
    while (status == SHOAL_OK && !(options.stop && *options.stop)) {
        status = wire_wait(wire, ended, &e, base_now() + 100 * BASE_MS);
        if (status == SHOAL_TIMEOUT) status = SHOAL_OK;
        if (status == SHOAL_OK) status = worker_state(self);
    }
    if (status == SHOAL_OK) base_log(BASE_INFO, worker_name(self), "ends, as it was asked to");
    worker_destroy(&self);
    return status;
}

shoal_status shoal_folder_path(shoal_folder folder, bool create, char *out, size_t room) {
    if (!room) return base_fail(SHOAL_INVALID, "no room for the path of a folder");
    *out = 0;
    switch (folder) {
    case SHOAL_FOLDER_RUNTIME: return base_os_runtime_folder(create, out, room);
    case SHOAL_FOLDER_CONFIG: return base_os_config_folder(create, out, room);
    case SHOAL_FOLDER_STATE: return base_os_state_folder(create, out, room);
    }
    return base_fail(SHOAL_INVALID, "there is no folder %d", (int)folder);
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
