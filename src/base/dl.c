#include "base/dl.h"

#include "base/str.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct base_dl {
    void *handle;
    char name[];
};

static shoal_status keep(void *handle, const char *name, base_dl **out) {
    size_t bytes = strlen(name) + 1;
    *out = malloc(sizeof **out + bytes);
    if (!*out) {
        dlclose(handle);
        return base_fail(SHOAL_NO_MEMORY, "no memory for library %s", name);
    }
    (*out)->handle = handle;
    memcpy((*out)->name, name, bytes);
    return SHOAL_OK;
}

shoal_status base_dl_open(const char *const *names, size_t n_names, base_dl **out) {
    base_str reasons;
    base_str_init(&reasons);
    for (size_t i = 0; i < n_names; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            base_str_format(&reasons, "%s%s", i ? "; " : "", dlerror());
            continue;
        }
        base_str_fini(&reasons);
        return keep(handle, names[i], out);
    }
    base_fail(SHOAL_NOT_FOUND, "library not found: %s", reasons.data ? reasons.data : "no name");
    base_str_fini(&reasons);
    return SHOAL_NOT_FOUND;
}

shoal_status base_dl_open_global(const char *name, base_dl **out) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!handle) return base_fail(SHOAL_NOT_FOUND, "library not found: %s", dlerror());
    return keep(handle, name ? name : "of this process", out);
}

void base_dl_close(base_dl **library) {
    if (!*library) return;
    dlclose((*library)->handle);
    free(*library);
    *library = NULL;
}

/* POSIX promises that dlsym's pointer holds a function's address too; C does not know such a
 * conversion, so the bytes are copied. */
void base_dl_optional(base_dl *library, const char *symbol, void *out) {
    void *address = dlsym(library->handle, symbol);
    memcpy(out, &address, sizeof address);
}

shoal_status base_dl_symbol(base_dl *library, const char *symbol, void *out) {
    void *address = dlsym(library->handle, symbol);
    if (!address)
        return base_fail(SHOAL_NOT_FOUND, "library %s has no '%s': install a newer one",
                         library->name, symbol);
    memcpy(out, &address, sizeof address);
    return SHOAL_OK;
}

const char *base_dl_name(const base_dl *library) { return library->name; }
