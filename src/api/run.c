/* Running a hub; folders, and what this machine has for workers (lend.c runs those). */
#include "api/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/str.h"
#include "wire/beacon.h"
#include "wire/keys.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const default_hub = "shm:hub";

static bool asked_to_stop(void *context) {
    return base_stopped(*(const volatile int *const *)context);
}

static shoal_status listen_at(wire_peer *wire, const char *listen) {
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
    return status;
}

/* For other machines: says so in the user's configuration, for tokens. */
static shoal_status listen_wide(wire_peer *wire, const char *listen) {
    char *list = strdup(listen), *rest = NULL;
    shoal_status status = list ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for addresses");
    for (char *at = list ? strtok_r(list, ",", &rest) : NULL; at && status == SHOAL_OK;
         at = strtok_r(NULL, ",", &rest))
        status = listen_at(wire, at);
    free(list);
    SHOAL_TRY(status);
    char *all = wire_addresses(wire);
    status = all ? wire_keys_set_listening(all) : SHOAL_NO_MEMORY;
    free(all);
    return status;
}

/* What killed processes left in the runtime folder goes when a hub starts. */
static void sweep(void) {
    char folder[PATH_MAX];
    if (base_os_runtime_folder(true, folder, sizeof folder) == SHOAL_OK)
        base_os_socket_sweep(folder);
}

static shoal_status tell_ready(const wire_peer *wire, const shoal_hub_options *options) {
    char *all = wire_addresses(wire);
    if (!all) return SHOAL_NO_MEMORY;
    base_log(BASE_INFO, "hub", "listening at %s", all);
    if (options->ready) options->ready(options->context, all);
    free(all);
    return SHOAL_OK;
}

/* A hub that cannot be heard of is still found by its address. */
static void announce(const wire_peer *wire, uint16_t port, wire_announcer *out) {
    char *all = wire_addresses(wire);
    if (all && wire_announcer_init(out, all, port) == SHOAL_OK)
        base_log(BASE_INFO, "hub", "announces itself on its networks, UDP port %u", port);
    else
        base_log(BASE_WARN, "hub", "does not announce itself: %s",
                 all ? shoal_error_message() : "no memory");
    free(all);
}

static shoal_status keep_artifacts(hub *h) {
    uint8_t key[WIRE_KEY];
    SHOAL_TRY(wire_keys_artifacts(key));
    hub_keep_artifacts(h, key);
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
    uint16_t port = 0;
    if (options.listen) SHOAL_TRY(wire_beacon_port(options.beacon, &port));
    wire_announcer announcer = {0};
    wire_peer *wire = NULL;
    hub *h = NULL;
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.role = SHOAL__ROLE__HUB;
    hello.name = (char *)"hub";
    sweep();
    SHOAL_TRY(wire_peer_new(&hello, &wire));
    shoal_status status = hub_new(wire, &h);
    if (status == SHOAL_OK) status = hub_set_panels(h, options.panels);
    if (status == SHOAL_OK && options.artifacts) status = keep_artifacts(h);
    if (status == SHOAL_OK)
        status = wire_listen(wire, options.address ? options.address : default_hub);
    if (status == SHOAL_OK && options.listen) status = listen_wide(wire, options.listen);
    if (status == SHOAL_OK) status = wire_start(wire);
    if (status == SHOAL_OK) status = tell_ready(wire, &options);
    if (status == SHOAL_OK && port) announce(wire, port, &announcer);
    while (status == SHOAL_OK && !base_stopped(options.stop)) {
        status = wire_wait(wire, asked_to_stop, (void *)&options.stop, base_now() + 100 * BASE_MS);
        if (status == SHOAL_TIMEOUT) status = SHOAL_OK;
        wire_announcer_tick(&announcer);
    }
    wire_announcer_fini(&announcer);
    if (status == SHOAL_OK) base_log(BASE_INFO, "hub", "ends, as it was asked to");
    wire_peer_destroy(&wire);
    hub_destroy(&h);
    if (options.listen && wire_keys_set_listening("") != SHOAL_OK)
        base_log(BASE_WARN, "hub", "%s", shoal_error_message());
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

static void tell_devices(const shoal_backend *backend,
                         void (*each)(void *context, const shoal_found *found), void *context) {
    shoal_found found = {.backend = backend->name, .summary = backend->summary};
    uint32_t n = backend->device_count(backend_host());
    if (!n) {
        found.reason = shoal_error_message();
        each(context, &found);
    }
    for (uint32_t d = 0; d < n; d++) {
        shoal_device_info info;
        found.index = d;
        if (backend->device_info(backend_host(), d, &info) == SHOAL_OK) {
            found.device = info.name;
            found.memory = info.memory;
            found.threads = info.threads;
            found.flags = info.flags;
        } else {
            found.device = NULL;
            found.reason = shoal_error_message();
        }
        each(context, &found);
    }
}

static void tell_unasked(const shoal_backend *backend,
                         void (*each)(void *context, const shoal_found *found), void *context) {
    char why[256];
    snprintf(why, sizeof why,
             "not asked, as its library may end the process that opens it: 'shoal backends %s' "
             "does",
             backend->name);
    each(context, &(shoal_found){.backend = backend->name,
                                 .summary = backend->summary,
                                 .reason = why,
                                 .unasked = true});
}

shoal_status shoal_backends(const char *name, void (*each)(void *context, const shoal_found *found),
                            void *context) {
    const shoal_backend *backend;
    shoal_found missing = {0};
    if (name) {
        SHOAL_TRY(backend_find(name, &backend));
        tell_devices(backend, each, context);
        return SHOAL_OK;
    }
    /* What is found by that is among the others afterwards. */
    for (size_t i = 0; (missing.backend = backend_in_python(i, &missing.summary)); i++) {
        if (backend_find(missing.backend, &backend) == SHOAL_OK) continue;
        missing.reason = shoal_error_message();
        each(context, &missing);
    }
    for (size_t i = 0; (backend = backend_at(i)); i++)
        (backend_may_end_process(backend) ? tell_unasked : tell_devices)(backend, each, context);
    return SHOAL_OK;
}
