/* Backends that are written in Python, as tables of shoal/backend.h. Devices have the host's
 * memory, which Python sees without a copy, and are done when a call returns.
 *
 * Only opening a device, compiling, running and giving back what came of that need the
 * interpreter's lock; a worker does these holding no lock that others wait for. What is asked at
 * any time, by any thread (memory, moving boxes, supports()) does without: supports() answers from
 * the table that the backend gave when it was added. So nobody who has the interpreter's lock waits
 * for somebody who waits for it (decision 113). */
#include "hosted.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BACKENDS = 16, MOST_DEVICES = 16, MOST_ROWS = 512 };

typedef struct row {
    char name[64];
    uint32_t dtypes; /* a bit for each that operands and results may have */
} row;

/* A backend. Never freed, as the table of a backend is not. */
typedef struct hosted {
    PyObject *object;
    char name[48], summary[160], why[512]; /* why: there is no device */
    uint32_t n_devices;
    shoal_device_info devices[MOST_DEVICES];
    uint32_t n_rows;
    row rows[MOST_ROWS]; /* in order of their names */
    shoal_backend table;
} hosted;

static hosted *backends[MOST_BACKENDS];
static uint32_t n_backends; /* guarded by the interpreter's lock */

struct shoal_device {
    atomic_int refs; /* of the owner, and of each block of memory */
    const shoal_host *host;
    const hosted *backend;
    PyObject *object;
    const shoal_backend *memory; /* `cpu`, whose memory it uses */
    shoal_device *inner;
};

struct shoal_memory {
    atomic_int refs;
    shoal_device *device;
    shoal_memory *inner;
    size_t bytes;
    bool read_only;
};

struct shoal_executable {
    PyObject *program;
    uint32_t n_inputs, n_outputs;
    size_t bytes[]; /* of inputs, then outputs */
};

/* ---- errors ---- */

/* Takes the exception off this thread: its text, and the status that it stands for. */
shoal_status hosted_take_exception(char *out, size_t room) {
    PyObject *type, *value, *trace;
    shoal_status status = SHOAL_IO;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    bool ours = false;
    for (int i = 1; value && !ours && i < SHOAL_STATUS_COUNT; i++) {
        if (i == SHOAL_INTERRUPTED || !errors[i]) continue; /* the base class of all */
        ours = PyErr_GivenExceptionMatches(value, errors[i]);
        if (ours) status = (shoal_status)i;
    }
    if (!ours && value && PyErr_GivenExceptionMatches(value, PyExc_MemoryError))
        status = SHOAL_NO_MEMORY;
    PyObject *text = value ? PyObject_Str(value) : NULL;
    PyObject *name = type ? PyType_GetName((PyTypeObject *)type) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *kind = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (ours)
        snprintf(out, room, "%s", utf8 && *utf8 ? utf8 : kind ? kind : "?");
    else
        snprintf(out, room, "%s: %s", kind ? kind : "?", utf8 ? utf8 : "?");
    Py_XDECREF(text);
    Py_XDECREF(name);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyErr_Clear();
    return status;
}

static shoal_status fail_by_exception(const shoal_host *host, const char *who) {
    char text[800];
    shoal_status status = hosted_take_exception(text, sizeof text);
    return host->fail(status, "%s: %s", who, text);
}

/* The interpreter's lock, for a while. A session may be closed by a thread that has an exception on
 * its way, which is none of ours. */
hosted_entry hosted_enter(void) {
    hosted_entry e = {.state = PyGILState_Ensure()};
    PyErr_Fetch(&e.type, &e.value, &e.trace);
    return e;
}

void hosted_leave(hosted_entry e) {
    PyErr_Restore(e.type, e.value, e.trace);
    PyGILState_Release(e.state);
}

/* ---- devices ---- */

static uint32_t count_devices(const hosted *b, const shoal_host *host) {
    if (!b->n_devices) host->fail(SHOAL_NOT_FOUND, "%s", b->why);
    return b->n_devices;
}

static shoal_status find_device(const hosted *b, const shoal_host *host, uint32_t index,
                                shoal_device_info *out) {
    if (index >= b->n_devices)
        return host->fail(SHOAL_NOT_FOUND, "%s: there are %u devices, no number %u", b->name,
                          b->n_devices, index);
    *out = b->devices[index];
    return SHOAL_OK;
}

static void device_release(shoal_device *device) {
    if (atomic_fetch_sub(&device->refs, 1) != 1) return;
    device->memory->device_free(device->inner);
    free(device);
}

static shoal_status open_device(const hosted *b, const shoal_host *host, uint32_t index,
                                uint32_t threads, shoal_device **out) {
    shoal_device_info info;
    shoal_status status = find_device(b, host, index, &info);
    if (status) return status;
    shoal_device *device = calloc(1, sizeof *device);
    if (!device) return host->fail(SHOAL_NO_MEMORY, "%s: no memory for a device", b->name);
    atomic_init(&device->refs, 1);
    device->host = host;
    device->backend = b;
    status = host->backend_find("cpu", &device->memory);
    if (!status) status = device->memory->device_new(host, 0, 1, &device->inner);
    if (status) {
        free(device);
        return status;
    }
    hosted_entry inside_python = hosted_enter();
    device->object = PyObject_CallMethod(b->object, "open", "II", index, threads);
    if (!device->object) status = fail_by_exception(host, b->name);
    hosted_leave(inside_python);
    if (status)
        device_release(device);
    else
        *out = device;
    return status;
}

static void device_free(shoal_device *device) {
    if (!device) return;
    hosted_entry inside_python = hosted_enter();
    PyObject *closed = PyObject_CallMethod(device->object, "close", NULL);
    if (!closed) PyErr_WriteUnraisable(device->object);
    Py_XDECREF(closed);
    Py_CLEAR(device->object);
    hosted_leave(inside_python);
    device_release(device);
}

/* ---- memory ---- */

static shoal_status wrap_memory(shoal_device *device, shoal_memory *inner, size_t bytes,
                                bool read_only, shoal_memory **out) {
    shoal_memory *memory = malloc(sizeof *memory);
    if (!memory) {
        device->memory->memory_free(device->inner, inner);
        return device->host->fail(SHOAL_NO_MEMORY, "%s: no memory for a block",
                                  device->backend->name);
    }
    *memory =
        (shoal_memory){.device = device, .inner = inner, .bytes = bytes, .read_only = read_only};
    atomic_init(&memory->refs, 1);
    atomic_fetch_add(&device->refs, 1);
    *out = memory;
    return SHOAL_OK;
}

static shoal_status memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    shoal_memory *inner;
    shoal_status status = device->memory->memory_new(device->inner, bytes, &inner);
    return status ? status : wrap_memory(device, inner, bytes, false, out);
}

static shoal_status memory_import(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out) {
    shoal_memory *inner;
    shoal_status status = device->memory->memory_import(device->inner, from, &inner);
    return status ? status : wrap_memory(device, inner, from->bytes, from->read_only, out);
}

void hosted_memory_retain(shoal_memory *memory) { atomic_fetch_add(&memory->refs, 1); }

void hosted_memory_release(shoal_memory *memory) {
    if (atomic_fetch_sub(&memory->refs, 1) != 1) return;
    shoal_device *device = memory->device;
    device->memory->memory_free(device->inner, memory->inner);
    free(memory);
    device_release(device);
}

static void memory_free(shoal_device *device, shoal_memory *memory) {
    if (memory) hosted_memory_release(memory);
}

static void *memory_host(shoal_device *device, shoal_memory *memory) {
    return device->memory->memory_host(device->inner, memory->inner);
}

static shoal_binding inside(shoal_binding place) {
    return (shoal_binding){place.memory->inner, place.offset};
}

static shoal_status read_box(shoal_device *device, void *to, shoal_binding from,
                             const shoal_box *box, const shoal_points *points) {
    return device->memory->read(device->inner, to, inside(from), box, points);
}

static shoal_status write_box(shoal_device *device, shoal_binding to, const void *from,
                              const shoal_box *box, const shoal_points *points) {
    return device->memory->write(device->inner, inside(to), from, box, points);
}

static shoal_status copy_box(shoal_device *device, shoal_binding to, shoal_binding from,
                             const shoal_box *box, const shoal_points *points) {
    return device->memory->copy(device->inner, inside(to), inside(from), box, points);
}

/* ---- programs ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static bool supports(shoal_device *device, const shoal_graph *graph, const shoal_node *node) {
    const hosted *b = device->backend;
    row key;
    uint32_t has = 0;
    if (!hosted_operation(device->host, node, key.name, sizeof key.name)) return false;
    const row *found = bsearch(&key, b->rows, b->n_rows, sizeof key, by_name);
    if (!found) return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        has |= 1u << graph->values[node->inputs[i]].type.dtype;
    for (uint32_t i = 0; i < node->n_outputs; i++)
        has |= 1u << graph->values[node->first_output + i].type.dtype;
    return !(has & ~found->dtypes);
}

static size_t type_bytes(const shoal_type *type) {
    size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    for (uint32_t i = 0; i < type->rank; i++) bytes *= (size_t)type->dims[i];
    return bytes;
}

static _Thread_local const shoal_host *compiling;

const shoal_host *hosted_compiling(void) { return compiling; }

/* The text of a graph, for a backend that says that it wants it; else None. NULL with an exception,
 * or with the host's message. */
static PyObject *text_object(const shoal_device *device, const shoal_graph *g) {
    PyObject *wants = PyObject_GetAttrString(device->object, "wants_text");
    int wanted = wants ? PyObject_IsTrue(wants) : -1;
    char *text = NULL;
    Py_XDECREF(wants);
    if (wanted < 0) return NULL;
    if (!wanted) Py_RETURN_NONE;
    if (device->host->graph_text(g, &text) != SHOAL_OK) return NULL;
    PyObject *made = PyUnicode_FromString(text);
    free(text);
    return made;
}

/* (program, bytes of workspace) of compile(graph, frozen). */
static shoal_status compile_object(shoal_device *device, const shoal_graph *g, const bool *frozen,
                                   PyObject **program, size_t *workspace) {
    PyObject *text = text_object(device, g), *graph, *flags;
    *program = NULL;
    if (!text && !PyErr_Occurred()) return SHOAL_UNSUPPORTED;
    graph = text ? hosted_graph_object(device->host, g) : NULL;
    flags = PyTuple_New(g->n_inputs);
    for (uint32_t i = 0; flags && i < g->n_inputs; i++)
        if (PyTuple_SetItem(flags, i, PyBool_FromLong(frozen && frozen[i]))) Py_CLEAR(flags);
    const shoal_host *before = compiling;
    compiling = device->host;
    PyObject *made =
        graph && flags ? PyObject_CallMethod(device->object, "_compile", "OOO", graph, flags, text)
                       : NULL;
    compiling = before;
    unsigned long long bytes = 0;
    if (made && PyArg_ParseTuple(made, "OK", program, &bytes)) Py_INCREF(*program);
    *workspace = (size_t)bytes;
    Py_XDECREF(text);
    Py_XDECREF(graph);
    Py_XDECREF(flags);
    Py_XDECREF(made);
    return *program ? SHOAL_OK : fail_by_exception(device->host, device->backend->name);
}

static shoal_status compile(shoal_device *device, const shoal_graph *g,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out) {
    const shoal_host *host = device->host;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!supports(device, g, &g->nodes[i]))
            return host->fail(SHOAL_UNSUPPORTED, "%s: cannot run operation '%s'",
                              device->backend->name, host->op_name(g->nodes[i].op));
    shoal_executable *e =
        calloc(1, sizeof *e + ((size_t)g->n_inputs + g->n_outputs) * sizeof e->bytes[0]);
    if (!e)
        return host->fail(SHOAL_NO_MEMORY, "%s: no memory for a program", device->backend->name);
    e->n_inputs = g->n_inputs;
    e->n_outputs = g->n_outputs;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        e->bytes[i] = type_bytes(&g->values[g->inputs[i]].type);
    for (uint32_t i = 0; i < g->n_outputs; i++)
        e->bytes[g->n_inputs + i] = type_bytes(&g->values[g->outputs[i]].type);
    hosted_entry inside_python = hosted_enter();
    shoal_status status = compile_object(device, g, options ? options->frozen : NULL, &e->program,
                                         &report->workspace);
    hosted_leave(inside_python);
    report->packed = 0;
    for (uint32_t i = 0; report->in_place && i < g->n_outputs; i++) report->in_place[i] = -1;
    if (status)
        free(e);
    else
        *out = e;
    return status;
}

static void executable_free(shoal_device *device, shoal_executable *e) {
    if (!e) return;
    hosted_entry inside_python = hosted_enter();
    Py_CLEAR(e->program);
    hosted_leave(inside_python);
    free(e);
}

/* A list of buffers; inputs are read-only. */
static PyObject *bind(shoal_device *device, const shoal_binding *places, const size_t *bytes,
                      uint32_t n, bool read_only) {
    PyObject *list = PyList_New(n);
    for (uint32_t i = 0; list && i < n; i++) {
        shoal_memory *memory = places[i].memory;
        char *data = memory_host(device, memory);
        PyObject *buffer = hosted_buffer_object(memory, data + places[i].offset, bytes[i],
                                                read_only || memory->read_only);
        if (!buffer || PyList_SetItem(list, i, buffer)) Py_CLEAR(list);
    }
    return list;
}

static shoal_status check_places(shoal_device *device, const shoal_executable *e,
                                 const shoal_binding *places, size_t n) {
    const char *name = device->backend->name;
    if (n != (size_t)e->n_inputs + e->n_outputs)
        return device->host->fail(SHOAL_INVALID, "%s: %zu buffers for %u inputs and %u outputs",
                                  name, n, e->n_inputs, e->n_outputs);
    for (size_t i = 0; i < n; i++) {
        size_t room = places[i].memory->bytes;
        if (places[i].offset > room || room - places[i].offset < e->bytes[i])
            return device->host->fail(
                SHOAL_INVALID, "%s: buffer %zu needs %zu bytes from %zu on, its memory has %zu",
                name, i, e->bytes[i], places[i].offset, room);
    }
    return SHOAL_OK;
}

static shoal_status call_program(shoal_device *device, shoal_executable *e,
                                 const shoal_binding *places) {
    hosted_entry inside_python = hosted_enter();
    shoal_status status = SHOAL_OK;
    PyObject *in = bind(device, places, e->bytes, e->n_inputs, true);
    PyObject *out = bind(device, places + e->n_inputs, e->bytes + e->n_inputs, e->n_outputs, false);
    PyObject *done =
        in && out ? PyObject_CallFunctionObjArgs(e->program, in, out, (PyObject *)NULL) : NULL;
    if (!done) status = fail_by_exception(device->host, device->backend->name);
    Py_XDECREF(done);
    Py_XDECREF(in);
    Py_XDECREF(out);
    hosted_leave(inside_python);
    return status;
}

static shoal_status run(shoal_device *device, shoal_executable *e, const shoal_binding *places,
                        size_t n, const shoal_points *points) {
    const shoal_host *host = device->host;
    shoal_status status = SHOAL_OK;
    for (size_t i = 0; points && !status && i < points->n_wait; i++)
        status = host->fence_wait(points->wait[i], UINT32_MAX);
    if (!status) status = check_places(device, e, places, n);
    if (!status) status = call_program(device, e, places);
    for (size_t i = 0; points && i < points->n_signal; i++)
        host->fence_signal(points->signal[i], status, status ? host->error_message() : NULL);
    return status;
}

/* ---- tables ---- */

/* Three functions of a table are not told whose they are. */
/* clang-format off */
#define EACH_SLOT(XX) \
    XX(0) XX(1) XX(2) XX(3) XX(4) XX(5) XX(6) XX(7) \
    XX(8) XX(9) XX(10) XX(11) XX(12) XX(13) XX(14) XX(15)
/* clang-format on */
#define XX(n)                                                                                      \
    static uint32_t count_##n(const shoal_host *host) { return count_devices(backends[n], host); } \
    static shoal_status info_##n(const shoal_host *host, uint32_t index, shoal_device_info *out) { \
        return find_device(backends[n], host, index, out);                                         \
    }                                                                                              \
    static shoal_status new_##n(const shoal_host *host, uint32_t index, uint32_t threads,          \
                                shoal_device **out) {                                              \
        return open_device(backends[n], host, index, threads, out);                                \
    }
EACH_SLOT(XX)
#undef XX
static const struct {
    uint32_t (*count)(const shoal_host *);
    shoal_status (*info)(const shoal_host *, uint32_t, shoal_device_info *);
    shoal_status (*open)(const shoal_host *, uint32_t, uint32_t, shoal_device **);
} own[MOST_BACKENDS] = {
#define XX(n) {count_##n, info_##n, new_##n},
    EACH_SLOT(XX)
#undef XX
};

static const shoal_backend table = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .device_free = device_free,
    .memory_new = memory_new,
    .memory_import = memory_import,
    .memory_free = memory_free,
    .memory_host = memory_host,
    .read = read_box,
    .write = write_box,
    .copy = copy_box,
    .supports = supports,
    .compile = compile,
    .executable_free = executable_free,
    .run = run,
};

/* ---- adding ---- */

static int copy_text(PyObject *object, const char *name, char *out, size_t room) {
    PyObject *value = PyObject_GetAttrString(object, name);
    const char *text = value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    if (text && (!*text || strlen(text) >= room)) {
        PyErr_Format(PyExc_ValueError, "%R: its %s must have 1 to %zu bytes", object, name,
                     room - 1);
        text = NULL;
    }
    if (text) snprintf(out, room, "%s", text);
    Py_XDECREF(value);
    return text ? 0 : -1;
}

/* (name, bytes of memory, threads, whether it computes on the cores of `cpu`). */
static int take_device(PyObject *item, shoal_device_info *out) {
    const char *name;
    unsigned long long memory;
    unsigned threads;
    int same_cores;
    if (!PyArg_ParseTuple(item, "sKIp", &name, &memory, &threads, &same_cores)) return -1;
    snprintf(out->name, sizeof out->name, "%s", name);
    out->memory = memory;
    out->threads = threads;
    out->flags = SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST | SHOAL_DEVICE_IMPORT_FILE |
                 (same_cores ? SHOAL_DEVICE_SAME_CORES : 0u);
    out->alignment = 64;
    return 0;
}

static void take_devices(hosted *b) {
    PyObject *list = PyObject_CallMethod(b->object, "_devices", NULL);
    Py_ssize_t n = list ? PyList_Size(list) : -1;
    snprintf(b->why, sizeof b->why, "its devices() names none");
    for (Py_ssize_t i = 0; i < n && i < MOST_DEVICES; i++) {
        if (take_device(PyList_GetItem(list, i), &b->devices[i])) break;
        b->n_devices = (uint32_t)i + 1;
    }
    if (PyErr_Occurred()) {
        b->n_devices = 0;
        hosted_take_exception(b->why, sizeof b->why);
    }
    Py_XDECREF(list);
}

/* (name of an operation, its element types). */
static int take_row(PyObject *item, row *out) {
    const char *name;
    PyObject *types;
    if (!PyArg_ParseTuple(item, "sO!", &name, &PyTuple_Type, &types)) return -1;
    out->dtypes = 0;
    snprintf(out->name, sizeof out->name, "%s", name);
    for (Py_ssize_t i = 0; i < PyTuple_Size(types); i++) {
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(types, i), NULL);
        shoal_dtype dtype;
        if (!text) return -1;
        shoal_status status = shoal_dtype_find(text, &dtype);
        if (status) {
            raise(status);
            return -1;
        }
        out->dtypes |= 1u << dtype;
    }
    return 0;
}

static int take_rows(hosted *b) {
    PyObject *list = PyObject_CallMethod(b->object, "_table", NULL);
    Py_ssize_t n = list ? PyList_Size(list) : -1;
    int result = n < 0 ? -1 : 0;
    if (n > MOST_ROWS) {
        PyErr_Format(PyExc_ValueError, "backend %s lists %zd operations; at most %d are possible",
                     b->name, n, MOST_ROWS);
        result = -1;
    }
    for (Py_ssize_t i = 0; !result && i < n; i++)
        result = take_row(PyList_GetItem(list, i), &b->rows[b->n_rows++]);
    Py_XDECREF(list);
    qsort(b->rows, b->n_rows, sizeof b->rows[0], by_name);
    return result;
}

/* The table of a Python object, in the next slot; NULL with an exception. */
static const shoal_backend *make_table(PyObject *object) {
    hosted *b = n_backends < MOST_BACKENDS ? calloc(1, sizeof *b) : NULL;
    if (!b) {
        PyErr_Format(PyExc_MemoryError, "more than %d backends in Python, or no memory",
                     MOST_BACKENDS);
        return NULL;
    }
    b->object = Py_NewRef(object);
    if (copy_text(object, "name", b->name, sizeof b->name) ||
        copy_text(object, "summary", b->summary, sizeof b->summary) || take_rows(b)) {
        Py_DECREF(object);
        free(b);
        return NULL;
    }
    take_devices(b);
    uint32_t slot = n_backends++;
    backends[slot] = b;
    b->table = table;
    b->table.name = b->name;
    b->table.summary = b->summary;
    b->table.device_count = own[slot].count;
    b->table.device_info = own[slot].info;
    b->table.device_new = own[slot].open;
    return &b->table;
}

static shoal_status load(const shoal_host *host, const char *module,
                         shoal_status (*add)(const shoal_backend *backend)) {
    hosted_entry inside_python = hosted_enter();
    shoal_status status = SHOAL_OK;
    PyObject *package = PyImport_ImportModule("shoal.hosted");
    PyObject *found = package ? PyObject_CallMethod(package, "_load", "s", module) : NULL;
    Py_ssize_t n = found ? PyList_Size(found) : -1;
    for (Py_ssize_t i = 0; !status && i < n; i++) {
        const shoal_backend *made = make_table(PyList_GetItem(found, i));
        if (made) status = add(made);
        if (!made) n = -1;
    }
    if (n < 0) status = fail_by_exception(host, module);
    if (!status) status = hosted_load_operations(host, package);
    Py_XDECREF(package);
    Py_XDECREF(found);
    hosted_leave(inside_python);
    return status;
}

static PyObject *add_backend(PyObject *module, PyObject *object) {
    (void)module;
    const shoal_backend *made = make_table(object);
    if (!made) return NULL;
    shoal_status status = shoal_backend_add(made);
    if (status) return raise(status);
    Py_RETURN_NONE;
}

PyMethodDef hosted_functions[] = {{"add_backend", add_backend, METH_O, NULL},
                                  {"add_operation", hosted_add_operation, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

PyObject *hosted_capsule(void) {
    static const shoal_python offered = {SHOAL_BACKEND_ABI, load};
    return PyCapsule_New((void *)&offered, SHOAL_PYTHON_CAPSULE, NULL);
}
