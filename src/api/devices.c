/* Which devices a process lends: from names, as users write them, to devices. */
#include "api/state.h"

#include "backend/registry.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *api_devices_default(void) {
    const char *names = getenv("SHOAL_BACKEND");
    return names && *names ? names : NULL;
}

static shoal_status add(api_devices *to, const shoal_backend *backend, uint32_t index, bool named) {
    for (uint32_t i = 0; i < to->n; i++)
        if (to->list[i].backend == backend && to->list[i].index == index)
            return base_fail(SHOAL_INVALID, "device %s:%u is named twice", backend->name, index);
    if (to->n == API_MAX_DEVICES)
        return base_fail(SHOAL_INVALID, "more than %d devices; name those to lend",
                         API_MAX_DEVICES);
    to->list[to->n++] = (worker_device){.backend = backend, .index = index, .dispensable = !named};
    return SHOAL_OK;
}

/* One device, "lag:0", or all of a backend, "lag". */
static shoal_status add_named(api_devices *to, const char *name) {
    const shoal_backend *backend;
    char text[64];
    const char *number = strchr(name, ':');
    size_t n = number ? (size_t)(number - name) : strlen(name);
    if (!n || n >= sizeof text)
        return base_fail(SHOAL_INVALID, "device '%.64s'; name one as cpu or opencl:0", name);
    memcpy(text, name, n);
    text[n] = 0;
    SHOAL_TRY(backend_find(text, &backend));
    uint32_t count = backend->device_count(backend_host());
    if (!count) return base_fail_prefix(SHOAL_NOT_FOUND, "backend %s: ", backend->name);
    if (!number) {
        for (uint32_t i = 0; i < count; i++) SHOAL_TRY(add(to, backend, i, true));
        return SHOAL_OK;
    }
    char *end;
    errno = 0;
    unsigned long index = strtoul(number + 1, &end, 10);
    if (number[1] < '0' || number[1] > '9' || *end || errno)
        return base_fail(SHOAL_INVALID, "device '%.64s': '%.32s' is no number", name, number + 1);
    if (index >= count)
        return base_fail(SHOAL_NOT_FOUND,
                         "backend %s has %u device%s, numbered from 0; there is no number %lu",
                         backend->name, count, count == 1 ? "" : "s", index);
    return add(to, backend, (uint32_t)index, true);
}

/* Two devices on the same cores would only be in each other's way. */
static bool is_lent(const shoal_backend *backend, uint32_t index) {
    shoal_device_info info;
    return backend->device_info(backend_host(), index, &info) != SHOAL_OK ||
           !(info.flags & SHOAL_DEVICE_SAME_CORES);
}

/* All that is found; what cannot be opened will be left out. */
static shoal_status add_found(api_devices *to) {
    const shoal_backend *backend;
    for (size_t b = 0; (backend = backend_at(b)); b++) {
        if (!backend_is_lent(backend)) continue;
        uint32_t count = backend->device_count(backend_host());
        for (uint32_t i = 0; i < count; i++)
            if (is_lent(backend, i)) SHOAL_TRY(add(to, backend, i, false));
    }
    return to->n ? SHOAL_OK
                 : base_fail(SHOAL_NOT_FOUND, "no device was found; `shoal doctor` tells why");
}

shoal_status api_devices_find(const char *names, api_devices *out) {
    out->n = 0;
    backend_plugins_load(); /* operations of users are for any device */
    if (!names) return add_found(out);
    for (const char *at = names; at;) {
        char name[64];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name), at);
        SHOAL_TRY(add_named(out, name));
        at = at[n] ? at + n + 1 : NULL;
    }
    return SHOAL_OK;
}
