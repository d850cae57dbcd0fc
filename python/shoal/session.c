/* Sessions, and tensors from what Python has in memory. */
#include "module.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- buffers in ---- */

static const struct {
    char format;
    shoal_dtype dtype;
} native[] = {
    {'?', SHOAL_BOOL}, {'b', SHOAL_I8},  {'B', SHOAL_U8},  {'h', SHOAL_I16}, {'H', SHOAL_U16},
    {'i', SHOAL_I32},  {'I', SHOAL_U32}, {'q', SHOAL_I64}, {'Q', SHOAL_U64}, {'l', SHOAL_I64},
    {'L', SHOAL_U64},  {'e', SHOAL_F16}, {'f', SHOAL_F32}, {'d', SHOAL_F64},
};

int dtype_of(const Py_buffer *view, shoal_dtype *out) {
    const char *format = view->format ? view->format : "B";
    bool swapped = *format == '>' || *format == '!';
    if (strchr("<>=@!|", *format)) format++;
    for (size_t i = 0; i < sizeof native / sizeof *native && format[0] && !format[1]; i++) {
        if (native[i].format != *format) continue;
        *out = native[i].dtype;
        /* 'l' has 4 bytes where the platform says so. */
        if ((*format == 'l' || *format == 'L') && view->itemsize == 4)
            *out = *format == 'l' ? SHOAL_I32 : SHOAL_U32;
        if (swapped && view->itemsize > 1) break;
        if (shoal_dtype_size(*out) == (size_t)view->itemsize) return 0;
    }
    PyErr_Format(errors[SHOAL_INVALID],
                 "a buffer of format '%s' has no element type here; convert it first (known: bool, "
                 "int8 to int64, uint8 to uint64, float16, float32, float64 in this machine's byte "
                 "order)",
                 view->format ? view->format : "B");
    return -1;
}

/* A borrowed buffer. The library gives it back on any thread and under locks of its own, where
 * waiting for the interpreter could wait for ever: it is put on a list, for the next call. */
typedef struct borrowed {
    Py_buffer view;
    struct borrowed *next;
} borrowed;

static _Atomic(borrowed *) given_back;

static void release_view(void *context) {
    borrowed *buffer = context, *head = atomic_load(&given_back);
    do {
        buffer->next = head;
    } while (!atomic_compare_exchange_weak(&given_back, &head, buffer));
}

void release_buffers(void) {
    borrowed *buffer = atomic_exchange(&given_back, NULL);
    while (buffer) {
        borrowed *next = buffer->next;
        PyBuffer_Release(&buffer->view);
        free(buffer);
        buffer = next;
    }
}

/* Of so many integers that come from here it is noted between which they lie: as indices they need
 * no check where they are used. */
enum { MOST_KNOWN = 1 << 16 };

static bool extent_of(shoal_dtype dtype, int64_t count, const void *elements, int64_t *least,
                      int64_t *most) {
    if (count < 1 || count > MOST_KNOWN) return false;
    switch (dtype) {
#define XX(name, ctype)                                                                            \
    case SHOAL_##name: {                                                                           \
        const ctype *items = elements;                                                             \
        ctype low = items[0], high = items[0];                                                     \
        for (int64_t i = 1; i < count; i++) {                                                      \
            low = items[i] < low ? items[i] : low;                                                 \
            high = items[i] > high ? items[i] : high;                                              \
        }                                                                                          \
        *least = low;                                                                              \
        *most = high;                                                                              \
        return true;                                                                               \
    }
        XX(I8, int8_t)
        XX(I16, int16_t)
        XX(I32, int32_t)
        XX(I64, int64_t)
        XX(U8, uint8_t)
        XX(U16, uint16_t)
        XX(U32, uint32_t)
#undef XX
    default: return false;
    }
}

static void note_extent(PyObject *object, int64_t least, int64_t most) {
    tensor_object *self = (tensor_object *)object;
    PyObject *known = Py_BuildValue("(KLL)", (unsigned long long)shoal_tensor_value(self->tensor),
                                    (long long)least, (long long)most);
    if (!known) return PyErr_Clear();
    Py_DECREF(self->notes[NOTE_known]);
    self->notes[NOTE_known] = known;
}

/* from_buffer(object, borrow): a tensor from anything with the buffer protocol. */
static PyObject *session_from_buffer(PyObject *self, PyObject *args) {
    PyObject *object;
    int borrow;
    shoal_session *session = session_of(self);
    if (!session || !PyArg_ParseTuple(args, "Op", &object, &borrow)) return NULL;
    release_buffers();
    borrowed *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return PyErr_NoMemory();
    Py_buffer *view = &buffer->view;
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT)) {
        free(buffer);
        return NULL;
    }
    shoal_dtype dtype = SHOAL_U8;
    int64_t dims[SHOAL_MAX_RANK];
    void *copy = NULL;
    shoal_tensor *tensor = NULL;
    PyObject *result = NULL;
    bool dense = PyBuffer_IsContiguous(view, 'C');
    if (dtype_of(view, &dtype)) goto out;
    if (view->ndim > SHOAL_MAX_RANK) {
        PyErr_Format(errors[SHOAL_INVALID], "rank %d is over the limit of %d", view->ndim,
                     SHOAL_MAX_RANK);
        goto out;
    }
    for (int i = 0; i < view->ndim; i++) dims[i] = view->shape[i];
    const bool large = dense && !borrow && view->len > MOST_KNOWN * 8;
    if (!dense || (!borrow && !large)) {
        copy = malloc(view->len ? (size_t)view->len : 1);
        if (!copy) {
            PyErr_NoMemory();
            goto out;
        }
        if (dense) {
            Py_BEGIN_ALLOW_THREADS memcpy(copy, view->buf, (size_t)view->len);
            Py_END_ALLOW_THREADS
        } else if (PyBuffer_ToContiguous(copy, view, view->len, 'C')) {
            free(copy);
            goto out;
        }
    }
    shoal_status status;
    int64_t least = 0, most = 0;
    const bool known =
        copy && extent_of(dtype, view->len / (int64_t)shoal_dtype_size(dtype), copy, &least, &most);
    if (large) { /* which copies it in the best way that there is */
        Py_BEGIN_ALLOW_THREADS status =
            shoal_tensor_new(session, dtype, (uint32_t)view->ndim, dims, view->buf, &tensor);
        Py_END_ALLOW_THREADS
    } else if (copy) {
        status = shoal_tensor_borrow(session, dtype, (uint32_t)view->ndim, dims, copy, free, copy,
                                     &tensor);
    } else {
        status = shoal_tensor_borrow(session, dtype, (uint32_t)view->ndim, dims, view->buf,
                                     release_view, buffer, &tensor);
        buffer = NULL; /* the library gives it back */
    }
    result = status == SHOAL_OK ? wrap(tensor, self) : raise(status);
    if (result && known) note_extent(result, least, most);
out:
    if (buffer) PyBuffer_Release(&buffer->view);
    free(buffer);
    return result;
}

/* from_bytes(bytes, dtype, shape) */
static PyObject *session_from_bytes(PyObject *self, PyObject *args) {
    const char *data, *name;
    Py_ssize_t bytes;
    PyObject *shape;
    shoal_session *session = session_of(self);
    if (!session || !PyArg_ParseTuple(args, "y#sO", &data, &bytes, &name, &shape)) return NULL;
    int64_t dims[SHOAL_MAX_RANK];
    Py_ssize_t rank = ints_of(shape, dims, SHOAL_MAX_RANK, "shape");
    if (rank < 0) return NULL;
    shoal_dtype dtype;
    shoal_status status = shoal_dtype_find(name, &dtype);
    if (status != SHOAL_OK) return raise(status);
    size_t want = shoal_dtype_size(dtype);
    for (Py_ssize_t i = 0; i < rank; i++) want *= (size_t)dims[i];
    if (want != (size_t)bytes)
        return PyErr_Format(errors[SHOAL_INVALID], "%zd bytes do not fit the shape", bytes);
    shoal_tensor *tensor;
    status = shoal_tensor_new(session, dtype, (uint32_t)rank, dims, data, &tensor);
    return status == SHOAL_OK ? wrap(tensor, self) : raise(status);
}

/* ---- sessions ---- */

static int session_init(PyObject *object, PyObject *args, PyObject *keywords) {
    static char *names[] = {"hub",        "workers", "threads", "backend",
                            "timeout_ms", "name",    "spare",   NULL};
    session_object *self = (session_object *)object;
    shoal_options options = {.size = sizeof options, .interrupted = interrupted};
    unsigned long long spare = 0;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zIIzIzK", names, &options.hub,
                                     &options.workers, &options.threads, &options.backend,
                                     &options.timeout_ms, &options.name, &spare))
        return -1;
    options.spare = spare;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_session_open(&options, &self->session);
    Py_END_ALLOW_THREADS if (status == SHOAL_OK) return 0;
    raise(status);
    return -1;
}

static PyObject *session_close(PyObject *object, PyObject *unused) {
    (void)unused;
    session_object *self = (session_object *)object;
    shoal_session *session = self->session;
    self->session = NULL;
    Py_BEGIN_ALLOW_THREADS shoal_session_close(&session);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void session_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(session_close(object, NULL));
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *session_sync(PyObject *self, PyObject *unused) {
    (void)unused;
    note_read();
    shoal_session *session = session_of(self);
    if (!session) return NULL;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_sync(session);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyObject *session_counts(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_session *session = session_of(self);
    if (!session) return NULL;
    shoal_counts counts = {.size = sizeof counts};
    shoal_session_counts(session, &counts);
    return Py_BuildValue("(KK)", (unsigned long long)counts.programs,
                         (unsigned long long)counts.fresh);
}

/* Adds (number, op, inputs, shape, dtype, location) to a list. */
static void add_entry(void *context, const shoal_tape_entry *entry) {
    PyObject **list = context;
    if (!*list) return;
    PyObject *inputs = PyTuple_New(entry->n_inputs);
    for (uint32_t i = 0; inputs && i < entry->n_inputs; i++)
        if (PyTuple_SetItem(inputs, i, PyLong_FromUnsignedLongLong(entry->inputs[i])))
            Py_CLEAR(inputs);
    PyObject *row =
        inputs ? Py_BuildValue("(KsNNsz)", (unsigned long long)entry->number, entry->op, inputs,
                               tuple_of(entry->type->dims, entry->type->rank),
                               shoal_dtype_name((shoal_dtype)entry->type->dtype), entry->location)
               : NULL;
    if (!row || PyList_Append(*list, row)) Py_CLEAR(*list);
    Py_XDECREF(row);
}

static PyObject *session_tape(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_session *session = session_of(self);
    PyObject *list = session ? PyList_New(0) : NULL;
    if (!list) return NULL;
    shoal_status status = shoal_tape_each(session, add_entry, &list);
    if (status == SHOAL_OK) return list;
    Py_XDECREF(list);
    return raise(status);
}

static PyObject *session_paths(PyObject *self, PyObject *unused) {
    (void)unused;
    enum { ROOM = 4096 };
    uint32_t n = 0;
    shoal_session *session = session_of(self);
    if (!session) return NULL;
    shoal_path *paths = malloc(ROOM * sizeof *paths);
    if (!paths) return PyErr_NoMemory();
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_paths_of(session, paths, ROOM, &n);
    Py_END_ALLOW_THREADS PyObject *list = status == SHOAL_OK ? PyList_New(0) : NULL;
    for (uint32_t i = 0; list && i < n && i < ROOM; i++) {
        const shoal_path *p = &paths[i];
        PyObject *row =
            Py_BuildValue("{sssssssdsKsK}", "worker", p->worker, "other", p->other, "address",
                          p->address, "speed", p->speed, "sent", (unsigned long long)p->sent,
                          "saved", (unsigned long long)p->saved);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(paths);
    return status == SHOAL_OK ? list : raise(status);
}

static PyObject *session_status(PyObject *self, PyObject *unused) {
    (void)unused;
    enum { ROOM = 1024 };
    shoal_session *session = session_of(self);
    if (!session) return NULL;
    shoal_pool_status pool = {.size = sizeof pool};
    shoal_slot *slots = malloc(ROOM * sizeof *slots);
    if (!slots) return PyErr_NoMemory();
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_status_of(session, &pool, slots, ROOM);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) {
        free(slots);
        return raise(status);
    }
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < pool.n_slots && i < ROOM; i++) {
        const shoal_slot *s = &slots[i];
        PyObject *row = Py_BuildValue(
            "{sIsIsssssssssssIsNsdsKsKsKsKsKsKsKsIsKsIsKsKsKsNsKsN}", "slot", s->slot, "pid",
            s->pid, "worker", s->worker, "host", s->host, "backend", s->backend, "name", s->name,
            "device", s->device, "threads", s->threads, "compute", PyBool_FromLong(s->compute),
            "weight", s->weight, "memory", (unsigned long long)s->memory, "bytes",
            (unsigned long long)s->bytes, "instances", (unsigned long long)s->instances, "busy_ns",
            (unsigned long long)s->busy_ns, "nodes", (unsigned long long)s->nodes, "sent",
            (unsigned long long)s->sent, "received", (unsigned long long)s->received, "queued",
            s->queued, "relayed", (unsigned long long)s->relayed, "paths", s->paths, "paths_lost",
            (unsigned long long)s->paths_lost, "fetching", (unsigned long long)s->fetching,
            "fetched", (unsigned long long)s->fetched, "maps", PyBool_FromLong(s->maps), "machine",
            (unsigned long long)s->machine, "weighted", PyBool_FromLong(s->weighted));
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(slots);
    if (!list) return NULL;
    return Py_BuildValue(
        "{sssssKsKsKsKsKsIsKsKsKsN}", "version", pool.version, "address", pool.address, "epoch",
        (unsigned long long)pool.epoch, "instances", (unsigned long long)pool.instances,
        "uptime_ms", (unsigned long long)pool.uptime_ms, "values", (unsigned long long)pool.values,
        "bytes", (unsigned long long)pool.bytes, "sessions", pool.sessions, "losses",
        (unsigned long long)pool.losses, "reruns", (unsigned long long)pool.reruns, "pool",
        (unsigned long long)pool.pool, "slots", list);
}

/* _find(names) -> numbers of slots */
static PyObject *session_find(PyObject *self, PyObject *names) {
    shoal_session *session = session_of(self);
    PyObject *list = session ? PySequence_Tuple(names) : NULL;
    if (!list) return NULL;
    Py_ssize_t n = PyTuple_Size(list);
    const char **texts = calloc((size_t)n + 1, sizeof *texts);
    uint32_t *slots = calloc((size_t)n + 1, sizeof *slots);
    PyObject *result = texts && slots ? PyList_New(0) : PyErr_NoMemory();
    for (Py_ssize_t i = 0; result && i < n; i++)
        if (!(texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(list, i), NULL))) Py_CLEAR(result);
    if (result) {
        shoal_status status;
        Py_BEGIN_ALLOW_THREADS status = shoal_slots_find(session, texts, (uint32_t)n, slots);
        Py_END_ALLOW_THREADS if (status != SHOAL_OK) {
            Py_CLEAR(result);
            raise(status);
        }
    }
    for (Py_ssize_t i = 0; result && i < n; i++) {
        PyObject *number = PyLong_FromUnsignedLong(slots[i]);
        if (!number || PyList_Append(result, number)) Py_CLEAR(result);
        Py_XDECREF(number);
    }
    Py_DECREF(list);
    free(texts);
    free(slots);
    return result;
}

/* _weigh(dtype, slots) -> weights */
static PyObject *session_weigh(PyObject *self, PyObject *args) {
    enum { MOST = 1024 };
    const char *name;
    PyObject *numbers;
    shoal_dtype dtype;
    int64_t given[MOST];
    uint32_t slots[MOST];
    double weights[MOST];
    shoal_session *session = session_of(self);
    if (!session || !PyArg_ParseTuple(args, "sO", &name, &numbers)) return NULL;
    shoal_status status = shoal_dtype_find(name, &dtype);
    if (status != SHOAL_OK) return raise(status);
    Py_ssize_t n = ints_of(numbers, given, MOST, "slots");
    if (n < 0) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) slots[i] = (uint32_t)given[i];
    Py_BEGIN_ALLOW_THREADS status = shoal_slots_weigh(session, dtype, slots, (uint32_t)n, weights);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *weight = PyFloat_FromDouble(weights[i]);
        if (!weight || PyList_Append(list, weight)) Py_CLEAR(list);
        Py_XDECREF(weight);
    }
    return list;
}

static PyMethodDef session_methods[] = {
    {"close", session_close, METH_NOARGS, "Ends the session."},
    {"sync", session_sync, METH_NOARGS, "Waits until everything recorded has run."},
    {"_tape", session_tape, METH_NOARGS, NULL},
    {"_events", session_events, METH_VARARGS, NULL},
    {"_counts", session_counts, METH_NOARGS, NULL},
    {"_status", session_status, METH_NOARGS, NULL},
    {"_paths", session_paths, METH_NOARGS, NULL},
    {"_find", session_find, METH_O, NULL},
    {"_weigh", session_weigh, METH_VARARGS, NULL},
    {"_from_buffer", session_from_buffer, METH_VARARGS, NULL},
    {"_from_bytes", session_from_bytes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot session_slots[] = {{Py_tp_init, session_init},
                                      {Py_tp_dealloc, session_dealloc},
                                      {Py_tp_methods, session_methods},
                                      {0, NULL}};
PyType_Spec session_spec = {"shoal._shoal.Session", sizeof(session_object), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, session_slots};
