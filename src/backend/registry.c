#include "backend/registry.h"

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/ggml/ggml.h"
#include "backend/null/null.h"
#include "backend/opencl/opencl.h"
#include "backend/pool.h"
#include "backend/python.h"
#include "backend/ref/ref.h"
#include "base/fence.h"
#include "base/log.h"
#include "base/str.h"
#include "graph/stablehlo/stablehlo.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BACKENDS = 64 };

/* Entries are only ever appended, so that readers need no lock. */
static const shoal_backend *backends[MAX_BACKENDS] = {&backend_cpu,  &backend_cuda, &backend_opencl,
                                                      &backend_ggml, &backend_ref,  &backend_null};
static atomic_size_t n_backends = 6;
static pthread_mutex_t registering = PTHREAD_MUTEX_INITIALIZER;

static const shoal_host host = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_host),
    .fail = base_fail,
    .fence_signal = base_fence_signal,
    .fence_wait = base_fence_wait,
    .fence_then = base_fence_then,
    .op_name = shoal_op_name,
    .error_message = shoal_error_message,
    .backend_find = backend_find,
    .operation_add = shoal_operation_add,
    .graph_text = hlo_graph_text,
    .artifact_key = backend_artifact_key,
    .artifact_fetch = backend_artifact_fetch,
    .run_ended = backend_run_ended,
};

bool backend_is_lent(const shoal_backend *backend) {
    return backend != &backend_ref && backend != &backend_null && !backend_may_end_process(backend);
}

bool backend_may_end_process(const shoal_backend *backend) { return backend == &backend_ggml; }

const char *backend_in_python(size_t index, const char **summary) {
    static const struct {
        const char *name, *summary;
    } list[] = {{"torch", "PyTorch's devices"}, {"iree", "IREE's devices"}};
    if (index >= sizeof list / sizeof list[0]) return NULL;
    *summary = list[index].summary;
    return list[index].name;
}

const shoal_host *backend_host(void) { return &host; }

/* ---- plug-ins ---- */

static bool is_python(const char *path) {
    size_t n = strlen(path);
    return (n > 3 && !strcmp(path + n - 3, ".py")) || (!strchr(path, '/') && !strstr(path, ".so"));
}

static shoal_status load(const char *path) {
    if (is_python(path)) {
        shoal_status loaded_it = backend_python_load(path);
        return loaded_it ? base_fail_prefix(loaded_it, "SHOAL_BACKENDS: ") : SHOAL_OK;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return base_fail(SHOAL_NOT_FOUND, "SHOAL_BACKENDS: %s", dlerror());
    const shoal_backend *backend = dlsym(library, SHOAL_PLUGIN);
    const shoal_operation *const *operations = dlsym(library, SHOAL_PLUGIN_OPERATIONS);
    if (!backend && !operations)
        return base_fail(SHOAL_INVALID,
                         "SHOAL_BACKENDS: %s exports neither " SHOAL_PLUGIN
                         " nor " SHOAL_PLUGIN_OPERATIONS,
                         path);
    shoal_status status = backend ? shoal_backend_add(backend) : SHOAL_OK;
    for (; status == SHOAL_OK && operations && *operations; operations++)
        status = shoal_operation_add(*operations);
    return status == SHOAL_OK ? status : base_fail_prefix(status, "SHOAL_BACKENDS: %s: ", path);
}

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

/* One that cannot be loaded is told, and not there. */
static void load_all(void) {
    const char *list = getenv("SHOAL_BACKENDS");
    char *copy = list ? strdup(list) : NULL, *rest = copy;
    for (char *path; copy && (path = strtok_r(rest, ":", &rest));)
        if (load(path) != SHOAL_OK) base_log(BASE_ERROR, "backends", "%s", shoal_error_message());
    free(copy);
}

void backend_plugins_load(void) { pthread_once(&loaded, load_all); }

/* ---- finding ---- */

const shoal_backend *backend_at(size_t index) {
    pthread_once(&loaded, load_all);
    return index < atomic_load(&n_backends) ? backends[index] : NULL;
}

static const shoal_backend *known(size_t index) {
    return index < atomic_load(&n_backends) ? backends[index] : NULL;
}

static const shoal_backend *find(const char *name) {
    const shoal_backend *backend;
    for (size_t i = 0; (backend = known(i)); i++)
        if (!strcmp(backend->name, name)) return backend;
    return NULL;
}

static shoal_status fail_unknown(const char *name) {
    base_str names;
    const shoal_backend *backend;
    const char *more, *summary;
    base_str_init(&names);
    for (size_t i = 0; (backend = known(i)); i++)
        base_str_format(&names, "%s%s", i ? ", " : "", backend->name);
    for (size_t i = 0; (more = backend_in_python(i, &summary)); i++)
        if (!find(more)) base_str_format(&names, ", %s", more);
    base_fail(SHOAL_NOT_FOUND, "unknown backend '%.64s'; known: %s", name,
              names.data ? names.data : "none");
    base_str_fini(&names);
    return SHOAL_NOT_FOUND;
}

/* Those of Shoal itself are found without waiting for plug-ins, which ask for them. */
shoal_status backend_find(const char *name, const shoal_backend **out) {
    const char *other, *summary;
    if ((*out = find(name))) return SHOAL_OK;
    pthread_once(&loaded, load_all);
    if ((*out = find(name))) return SHOAL_OK;
    for (size_t i = 0; (other = backend_in_python(i, &summary)); i++) {
        char module[64];
        if (strcmp(other, name)) continue;
        snprintf(module, sizeof module, "shoal.hosted.%s", name);
        shoal_status status = backend_python_load(module);
        if ((*out = find(name))) return SHOAL_OK; /* maybe by another thread */
        return base_fail_prefix(status ? status : SHOAL_NOT_FOUND, "backend %s: ", name);
    }
    return fail_unknown(name);
}

static bool is_complete(const shoal_backend *b) {
    return b->name && b->summary && b->device_count && b->device_info && b->device_new &&
           b->device_free && b->memory_new && b->memory_import && b->memory_free &&
           b->memory_host && b->read && b->write && b->copy && b->supports && b->compile &&
           b->executable_free && b->run;
}

static shoal_status append(const shoal_backend *backend) {
    size_t count = atomic_load(&n_backends);
    if (find(backend->name))
        return base_fail(SHOAL_INVALID, "backend '%.64s' exists already", backend->name);
    if (count == MAX_BACKENDS)
        return base_fail(SHOAL_NO_MEMORY, "backend '%.64s' is over the limit of %d backends",
                         backend->name, MAX_BACKENDS);
    backends[count] = backend;
    atomic_store(&n_backends, count + 1);
    return SHOAL_OK;
}

shoal_status shoal_backend_add(const shoal_backend *backend) {
    if (backend->abi != SHOAL_BACKEND_ABI)
        return base_fail(SHOAL_VERSION,
                         "a backend speaks ABI %u, this Shoal %d: build it against the "
                         "installed shoal/backend.h",
                         backend->abi, SHOAL_BACKEND_ABI);
    if (backend->size < sizeof *backend || !is_complete(backend))
        return base_fail(SHOAL_INVALID, "backend '%.64s' lacks a function: fill its whole table",
                         backend->name ? backend->name : "?");
    pthread_mutex_lock(&registering);
    shoal_status status = append(backend);
    pthread_mutex_unlock(&registering);
    return status;
}
