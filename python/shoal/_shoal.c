/* The C half of the Python package: sessions, tensor handles and files over shoal.h.
 *
 * It is written against the limited API of Python 3.11, so that one build serves all later ones.
 * Everything convenient (operators, NumPy, defaults) is in the Python half; what is here is what
 * needs speed, the buffer protocol or the interpreter's lock. Every call that may wait gives the
 * lock up. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "shoal/shoal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct session_object {
    PyObject_HEAD shoal_session *session;
} session_object;

typedef struct tensor_object {
    PyObject_HEAD shoal_tensor *tensor;
    PyObject *session; /* keeps it open */
} tensor_object;

typedef struct file_object {
    PyObject_HEAD shoal_file *file;
} file_object;

static PyTypeObject *session_type, *tensor_type, *file_type;
static PyTypeObject *tensor_class; /* the Python half's subclass, once it is known */
static PyObject *errors[SHOAL_STATUS_COUNT];
static char *package_folder; /* frames in here are not the user's */

/* ---- errors ---- */

static PyObject *raise(shoal_status status) {
    /* An interruption has its exception set already (KeyboardInterrupt). */
    if (status == SHOAL_INTERRUPTED && PyErr_Occurred()) return NULL;
    PyObject *class = (unsigned)status < SHOAL_STATUS_COUNT ? errors[status] : NULL;
    PyErr_SetString(class ? class : PyExc_RuntimeError, shoal_error_message());
    return NULL;
}

/* Asked by a waiting thread, which has given the interpreter's lock up. */
static bool interrupted(void *context) {
    (void)context;
    PyGILState_STATE state = PyGILState_Ensure();
    bool yes = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return yes;
}

/* Tells the library the first line outside this package: part of its messages. */
static void note_location(void) {
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    char text[160] = "";
    while (frame && frame != Py_None) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        PyObject *name = PyObject_GetAttrString(code, "co_filename");
        const char *path = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        bool ours =
            path && package_folder && !strncmp(path, package_folder, strlen(package_folder));
        if (path && !ours) {
            const char *base = strrchr(path, '/');
            snprintf(text, sizeof text, "%s:%d", base ? base + 1 : path,
                     PyFrame_GetLineNumber((PyFrameObject *)frame));
        }
        PyObject *back = ours ? PyObject_GetAttrString(frame, "f_back") : NULL;
        Py_XDECREF(name);
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    shoal_location(*text ? text : NULL);
}

/* ---- small conversions ---- */

/* A sequence of integers; at most `room`. Returns their number, or -1 with an exception. */
static Py_ssize_t ints_of(PyObject *sequence, int64_t *out, Py_ssize_t room, const char *what) {
    PyObject *fast = PySequence_Tuple(sequence);
    if (!fast) return -1;
    Py_ssize_t n = PyTuple_Size(fast);
    if (n > room) {
        PyErr_Format(errors[SHOAL_INVALID], "%s: %zd numbers; at most %zd", what, n, room);
        n = -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *index = PyNumber_Index(PyTuple_GetItem(fast, i));
        out[i] = index ? PyLong_AsLongLong(index) : -1;
        Py_XDECREF(index);
        if (PyErr_Occurred()) n = -1;
    }
    Py_DECREF(fast);
    return n;
}

static PyObject *tuple_of(const int64_t *values, uint32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (uint32_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(values[i]);
        if (!number || PyTuple_SetItem(tuple, i, number)) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static shoal_session *session_of(PyObject *object) {
    if (!PyObject_TypeCheck(object, session_type)) {
        PyErr_SetString(PyExc_TypeError, "a Session was expected");
        return NULL;
    }
    shoal_session *session = ((session_object *)object)->session;
    if (!session) PyErr_SetString(errors[SHOAL_CLOSED], "the session is closed");
    return session;
}

static shoal_tensor *tensor_of(PyObject *object) {
    if (PyObject_TypeCheck(object, tensor_type)) return ((tensor_object *)object)->tensor;
    PyErr_Format(PyExc_TypeError, "a Tensor was expected, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

/* Takes the handle over, also when it fails. */
static PyObject *wrap(shoal_tensor *tensor, PyObject *session) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(tensor_class, Py_tp_alloc);
    tensor_object *self = (tensor_object *)alloc(tensor_class, 0);
    if (!self) {
        shoal_tensor_free(&tensor);
        return NULL;
    }
    self->tensor = tensor;
    self->session = session;
    Py_INCREF(session);
    return (PyObject *)self;
}

/* ---- buffers in ---- */

static const struct {
    char format;
    shoal_dtype dtype;
} native[] = {
    {'?', SHOAL_BOOL}, {'b', SHOAL_I8},  {'B', SHOAL_U8},  {'h', SHOAL_I16}, {'H', SHOAL_U16},
    {'i', SHOAL_I32},  {'I', SHOAL_U32}, {'q', SHOAL_I64}, {'Q', SHOAL_U64}, {'l', SHOAL_I64},
    {'L', SHOAL_U64},  {'e', SHOAL_F16}, {'f', SHOAL_F32}, {'d', SHOAL_F64},
};

static int dtype_of(const Py_buffer *view, shoal_dtype *out) {
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

static void release_view(void *context) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(context);
    PyGILState_Release(state);
    free(context);
}

/* from_buffer(object, borrow): a tensor from anything with the buffer protocol. */
static PyObject *session_from_buffer(PyObject *self, PyObject *args) {
    PyObject *object;
    int borrow;
    shoal_session *session = session_of(self);
    if (!session || !PyArg_ParseTuple(args, "Op", &object, &borrow)) return NULL;
    Py_buffer *view = calloc(1, sizeof *view);
    if (!view) return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, view, PyBUF_STRIDES | PyBUF_FORMAT)) {
        free(view);
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
    if (!dense || !borrow) {
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
    if (copy) {
        status = shoal_tensor_borrow(session, dtype, (uint32_t)view->ndim, dims, copy, free, copy,
                                     &tensor);
    } else {
        status = shoal_tensor_borrow(session, dtype, (uint32_t)view->ndim, dims, view->buf,
                                     release_view, view, &tensor);
        view = NULL; /* the library gives it back */
    }
    result = status == SHOAL_OK ? wrap(tensor, self) : raise(status);
out:
    if (view) PyBuffer_Release(view);
    free(view);
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
    static char *names[] = {"hub", "workers", "threads", "backend", "timeout_ms", "name", NULL};
    session_object *self = (session_object *)object;
    shoal_options options = {.size = sizeof options, .interrupted = interrupted};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|zIIzIz", names, &options.hub,
                                     &options.workers, &options.threads, &options.backend,
                                     &options.timeout_ms, &options.name))
        return -1;
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
    shoal_session *session = session_of(self);
    if (!session) return NULL;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_sync(session);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
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
            "{sIsIsssssssssIsNsdsKsKsKsK}", "slot", s->slot, "pid", s->pid, "worker", s->worker,
            "host", s->host, "backend", s->backend, "device", s->device, "threads", s->threads,
            "compute", PyBool_FromLong(s->compute), "weight", s->weight, "memory",
            (unsigned long long)s->memory, "bytes", (unsigned long long)s->bytes, "instances",
            (unsigned long long)s->instances, "busy_ns", (unsigned long long)s->busy_ns);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    free(slots);
    if (!list) return NULL;
    return Py_BuildValue(
        "{sssssKsKsKsKsKsIsN}", "version", pool.version, "address", pool.address, "epoch",
        (unsigned long long)pool.epoch, "instances", (unsigned long long)pool.instances,
        "uptime_ms", (unsigned long long)pool.uptime_ms, "values", (unsigned long long)pool.values,
        "bytes", (unsigned long long)pool.bytes, "sessions", pool.sessions, "slots", list);
}

/* ---- operations ---- */

/* Fills attrs from a dict; `store` holds what they point to. Returns their number or -1. */
enum { MAX_ATTRS = 16, MAX_INTS = 4096 };
typedef struct attr_store {
    shoal_attr attrs[MAX_ATTRS];
    int64_t *ints[MAX_ATTRS];
    int n;
} attr_store;

static const struct {
    const char *name;
    shoal_attr_kind kind;
} keys[] = {
#define XX(name, text, kind) {text, SHOAL_ATTR_KIND_##kind},
    SHOAL_ATTR_MAP(XX)
#undef XX
};

static int one_attr(attr_store *store, const char *name, PyObject *value) {
    for (uint16_t k = 0; k < SHOAL_ATTR_KEY_COUNT; k++) {
        if (strcmp(name, keys[k].name)) continue;
        shoal_attr *attr = &store->attrs[store->n];
        *attr = (shoal_attr){.key = k, .kind = (uint16_t)keys[k].kind};
        if (keys[k].kind == SHOAL_ATTR_KIND_INT && PyUnicode_Check(value)) {
            shoal_dtype dtype; /* an element type by its name */
            const char *text = PyUnicode_AsUTF8AndSize(value, NULL);
            shoal_status status = text ? shoal_dtype_find(text, &dtype) : SHOAL_INVALID;
            if (status != SHOAL_OK) return raise(status), -1;
            attr->u.i = dtype;
        } else if (keys[k].kind == SHOAL_ATTR_KIND_INT) {
            attr->u.i = PyLong_AsLongLong(value);
        } else if (keys[k].kind == SHOAL_ATTR_KIND_FLOAT) {
            attr->u.f = PyFloat_AsDouble(value);
        } else if (keys[k].kind == SHOAL_ATTR_KIND_INTS) {
            Py_ssize_t n = PySequence_Size(value);
            if (n < 0) return -1;
            store->ints[store->n] = malloc(((size_t)n + 1) * sizeof(int64_t));
            if (!store->ints[store->n]) return PyErr_NoMemory(), -1;
            if (ints_of(value, store->ints[store->n], n, name) < 0) return -1;
            attr->u.ints = store->ints[store->n];
            attr->count = (uint32_t)n;
        } else if (keys[k].kind == SHOAL_ATTR_KIND_STRING) {
            Py_ssize_t n;
            attr->u.string = PyUnicode_AsUTF8AndSize(value, &n);
            attr->count = (uint32_t)n;
        } else {
            Py_ssize_t n;
            char *bytes;
            if (PyBytes_AsStringAndSize(value, &bytes, &n)) return -1;
            attr->u.bytes = bytes;
            attr->count = (uint32_t)n;
        }
        store->n++;
        return PyErr_Occurred() ? -1 : 0;
    }
    PyErr_Format(errors[SHOAL_INVALID], "there is no attribute '%s'", name);
    return -1;
}

static int attrs_of(PyObject *dict, attr_store *store) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (dict != Py_None && PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name) return -1;
        if (store->n == MAX_ATTRS) {
            PyErr_SetString(errors[SHOAL_INVALID], "too many attributes");
            return -1;
        }
        if (one_attr(store, name, value)) return -1;
    }
    return 0;
}

/* apply(session, op, tensors, attrs or None, n_outputs) -> tuple of tensors */
static PyObject *apply(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *owner, *inputs, *dict;
    const char *name;
    unsigned n_outputs;
    if (!PyArg_ParseTuple(args, "OsOOI", &owner, &name, &inputs, &dict, &n_outputs)) return NULL;
    shoal_session *session = session_of(owner);
    uint16_t op;
    if (!session) return NULL;
    shoal_status status = shoal_op_find(name, &op);
    if (status != SHOAL_OK) return raise(status);
    PyObject *fast = PySequence_Tuple(inputs), *result = NULL;
    Py_ssize_t n = fast ? PyTuple_Size(fast) : 0;
    shoal_tensor **tensors = calloc((size_t)n + 1, sizeof *tensors);
    shoal_tensor *outputs[16] = {NULL};
    attr_store store = {.n = 0};
    if (!fast || !tensors || n_outputs > 16) goto out;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(tensors[i] = tensor_of(PyTuple_GetItem(fast, i)))) goto out;
    if (attrs_of(dict, &store)) goto out;
    note_location();
    status = shoal_apply(session, op, tensors, (uint32_t)n, store.attrs, (uint16_t)store.n, NULL, 0,
                         outputs, (uint16_t)n_outputs);
    if (status != SHOAL_OK) {
        raise(status);
        goto out;
    }
    result = PyTuple_New(n_outputs);
    for (unsigned i = 0; i < n_outputs; i++) {
        PyObject *tensor = wrap(outputs[i], owner);
        if (!result || !tensor || PyTuple_SetItem(result, i, tensor)) Py_CLEAR(result);
    }
out:
    for (int i = 0; i < store.n + (store.n < MAX_ATTRS); i++) free(store.ints[i]);
    free(tensors);
    Py_XDECREF(fast);
    return result;
}

typedef shoal_status (*unary_call)(shoal_tensor *, shoal_tensor **);
typedef shoal_status (*binary_call)(shoal_tensor *, shoal_tensor *, shoal_tensor **);

static const struct {
    const char *name;
    unary_call call;
} unaries[] = {
#define XX(name) {#name, shoal_##name},
    SHOAL_UNARY_MAP(XX)
#undef XX
};
static const struct {
    const char *name;
    binary_call call;
} binaries[] = {
#define XX(name) {#name, shoal_##name},
    SHOAL_BINARY_MAP(XX)
#undef XX
        {"matmul", shoal_matmul},
};

/* The result of a call that has filled *tensor. */
static PyObject *finish(shoal_status status, shoal_tensor *const *tensor, PyObject *like) {
    if (status != SHOAL_OK) return raise(status);
    return wrap(*tensor, ((tensor_object *)like)->session);
}

/* unary(number, x), binary(number, a, b): numbers from the lists of names. */
static PyObject *call_unary(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    size_t number = n == 2 ? PyLong_AsSize_t(args[0]) : SIZE_MAX;
    if (number >= sizeof unaries / sizeof *unaries)
        return PyErr_Format(PyExc_TypeError, "unary(number, tensor)");
    shoal_tensor *x = tensor_of(args[1]), *out;
    if (!x) return NULL;
    note_location();
    return finish(unaries[number].call(x, &out), &out, args[1]);
}

static PyObject *call_binary(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    size_t number = n == 3 ? PyLong_AsSize_t(args[0]) : SIZE_MAX;
    if (number >= sizeof binaries / sizeof *binaries)
        return PyErr_Format(PyExc_TypeError, "binary(number, tensor, tensor)");
    shoal_tensor *a = tensor_of(args[1]), *b = tensor_of(args[2]), *out;
    if (!a || !b) return NULL;
    note_location();
    return finish(binaries[number].call(a, b, &out), &out, args[1]);
}

static PyObject *call_compare(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *y;
    const char *direction;
    if (!PyArg_ParseTuple(args, "OOs", &x, &y, &direction)) return NULL;
    shoal_tensor *a = tensor_of(x), *b = tensor_of(y), *out;
    if (!a || !b) return NULL;
    note_location();
    return finish(shoal_compare(a, b, direction, &out), &out, x);
}

static PyObject *call_select(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *y, *z;
    if (!PyArg_ParseTuple(args, "OOO", &x, &y, &z)) return NULL;
    shoal_tensor *c = tensor_of(x), *a = tensor_of(y), *b = tensor_of(z), *out;
    if (!a || !b || !c) return NULL;
    note_location();
    return finish(shoal_select(c, a, b, &out), &out, y);
}

static PyObject *call_reduce(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *sequence;
    const char *op;
    int keep;
    if (!PyArg_ParseTuple(args, "OsOp", &x, &op, &sequence, &keep)) return NULL;
    int64_t axes[SHOAL_MAX_RANK];
    shoal_tensor *a = tensor_of(x), *out;
    Py_ssize_t n = a ? ints_of(sequence, axes, SHOAL_MAX_RANK, "axis") : -1;
    if (n < 0) return NULL;
    note_location();
    return finish(shoal_reduce(a, op, axes, (uint32_t)n, keep, &out), &out, x);
}

static PyObject *call_broadcast(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *shape;
    if (!PyArg_ParseTuple(args, "OO", &x, &shape)) return NULL;
    int64_t dims[SHOAL_MAX_RANK];
    shoal_tensor *a = tensor_of(x), *out;
    Py_ssize_t n = a ? ints_of(shape, dims, SHOAL_MAX_RANK, "shape") : -1;
    if (n < 0) return NULL;
    note_location();
    return finish(shoal_broadcast(a, (uint32_t)n, dims, &out), &out, x);
}

/* ---- tensors ---- */

static void tensor_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tensor_object *self = (tensor_object *)object;
    shoal_tensor_free(&self->tensor);
    Py_XDECREF(self->session);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *tensor_shape(PyObject *self, void *unused) {
    (void)unused;
    const shoal_type *type = shoal_tensor_type(((tensor_object *)self)->tensor);
    return tuple_of(type->dims, type->rank);
}

static PyObject *tensor_dtype(PyObject *self, void *unused) {
    (void)unused;
    const shoal_type *type = shoal_tensor_type(((tensor_object *)self)->tensor);
    return PyUnicode_FromString(shoal_dtype_name((shoal_dtype)type->dtype));
}

static PyObject *tensor_session(PyObject *self, void *unused) {
    (void)unused;
    PyObject *session = ((tensor_object *)self)->session;
    Py_INCREF(session);
    return session;
}

/* read(buffer): computes and writes the elements into a writable buffer of the right size. */
static PyObject *tensor_read(PyObject *self, PyObject *target) {
    Py_buffer view;
    if (PyObject_GetBuffer(target, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)) return NULL;
    shoal_status status;
    shoal_tensor *tensor = ((tensor_object *)self)->tensor;
    Py_BEGIN_ALLOW_THREADS status = shoal_read(tensor, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS PyBuffer_Release(&view);
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyObject *tensor_start(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_status status;
    shoal_tensor *tensor = ((tensor_object *)self)->tensor;
    Py_BEGIN_ALLOW_THREADS status = shoal_start(tensor);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyObject *tensor_explain(PyObject *self, PyObject *args) {
    int json;
    char *text;
    if (!PyArg_ParseTuple(args, "p", &json)) return NULL;
    shoal_status status;
    shoal_tensor *tensor = ((tensor_object *)self)->tensor;
    Py_BEGIN_ALLOW_THREADS status = shoal_explain(tensor, json, &text);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    PyObject *result = PyUnicode_FromString(text);
    free(text);
    return result;
}

static PyObject *tensor_times(PyObject *self, PyObject *unused) {
    (void)unused;
    enum { ROOM = 64 };
    shoal_slot_time times[ROOM];
    uint32_t n = ROOM;
    shoal_status status;
    shoal_tensor *tensor = ((tensor_object *)self)->tensor;
    Py_BEGIN_ALLOW_THREADS status = shoal_tensor_times(tensor, times, &n);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *row = Py_BuildValue("(IKK)", times[i].slot, (unsigned long long)times[i].busy_ns,
                                      (unsigned long long)times[i].nodes);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* place(parts, weights or None, cuts or None, copies, slots or None) */
static PyObject *tensor_place(PyObject *self, PyObject *args) {
    enum { MOST = 8192 };
    PyObject *parts, *weights, *cuts, *slots;
    unsigned copies;
    if (!PyArg_ParseTuple(args, "OOOIO", &parts, &weights, &cuts, &copies, &slots)) return NULL;
    const shoal_type *type = shoal_tensor_type(((tensor_object *)self)->tensor);
    int64_t numbers[SHOAL_MAX_RANK];
    uint32_t counts[SHOAL_MAX_RANK];
    Py_ssize_t n = ints_of(parts, numbers, SHOAL_MAX_RANK, "parts");
    if (n < 0) return NULL;
    if (n != type->rank)
        return PyErr_Format(errors[SHOAL_INVALID], "place: %zd numbers of parts for rank %d", n,
                            type->rank);
    int64_t *points = malloc(2 * MOST * sizeof *points), *owners = points ? points + MOST : NULL;
    double *shares = malloc(MOST * sizeof *shares);
    uint32_t *ids = malloc(MOST * sizeof *ids);
    PyObject *result = NULL, *fast = NULL;
    shoal_layout layout = {.size = sizeof layout, .parts = counts, .copies = copies};
    size_t need = 0;
    if (!points || !shares || !ids) {
        PyErr_NoMemory();
        goto out;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        counts[i] = numbers[i] > 0 && numbers[i] < MOST ? (uint32_t)numbers[i] : 0;
        need += counts[i];
    }
    if (weights != Py_None) {
        fast = PySequence_Tuple(weights);
        if (!fast) goto out;
        if ((size_t)PyTuple_Size(fast) != need) {
            PyErr_Format(errors[SHOAL_INVALID], "place: %zd shares for %zu parts",
                         PyTuple_Size(fast), need);
            goto out;
        }
        for (size_t i = 0; i < need; i++)
            shares[i] = PyFloat_AsDouble(PyTuple_GetItem(fast, (Py_ssize_t)i));
        if (PyErr_Occurred()) goto out;
        layout.weights = shares;
    }
    if (cuts != Py_None) {
        Py_ssize_t count = ints_of(cuts, points, MOST, "cuts");
        if (count < 0) goto out;
        if ((size_t)count != need + (size_t)n) {
            PyErr_Format(errors[SHOAL_INVALID], "place: %zd cut points for %zu parts of %zd axes",
                         count, need, n);
            goto out;
        }
        layout.cuts = points;
    }
    if (slots != Py_None) {
        Py_ssize_t count = ints_of(slots, owners, MOST, "slots");
        if (count < 0) goto out;
        for (Py_ssize_t i = 0; i < count; i++) ids[i] = (uint32_t)owners[i];
        layout.slots = ids;
        layout.n_slots = (uint32_t)count;
    }
    note_location();
    shoal_tensor *tensor = ((tensor_object *)self)->tensor, *out;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_place(tensor, &layout, &out);
    Py_END_ALLOW_THREADS result = finish(status, &out, self);
out:
    Py_XDECREF(fast);
    free(points);
    free(shares);
    free(ids);
    return result;
}

/* ---- files ---- */

static int file_init(PyObject *object, PyObject *args, PyObject *keywords) {
    PyObject *path;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "File(path) takes no keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return -1;
    shoal_status status;
    shoal_file *file;
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS status = shoal_file_open(name, &file);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (status != SHOAL_OK) return raise(status), -1;
    ((file_object *)object)->file = file;
    return 0;
}

static void file_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    shoal_file_close(&((file_object *)object)->file);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *file_tensors(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_file *file = ((file_object *)self)->file;
    PyObject *list = PyList_New(0);
    for (uint64_t i = 0; list && i < shoal_file_count(file); i++) {
        shoal_file_tensor t;
        shoal_status status = shoal_file_tensor_at(file, i, &t);
        if (status != SHOAL_OK) {
            Py_DECREF(list);
            return raise(status);
        }
        /* A name is whatever bytes the file has. */
        PyObject *row = Py_BuildValue(
            "(NNss)", PyUnicode_DecodeUTF8(t.name, (Py_ssize_t)strlen(t.name), "replace"),
            tuple_of(t.type.dims, t.type.rank), shoal_dtype_name((shoal_dtype)t.type.dtype),
            t.encoding);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *file_meta(PyObject *self, PyObject *args) {
    const char *key;
    unsigned long long index = 0;
    char *text;
    if (!PyArg_ParseTuple(args, "s|K", &key, &index)) return NULL;
    shoal_status status = shoal_file_meta(((file_object *)self)->file, key, index, &text);
    if (status != SHOAL_OK) return raise(status);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    free(text);
    return result;
}

/* load(session, name) */
static PyObject *file_load(PyObject *self, PyObject *args) {
    PyObject *owner;
    const char *name;
    if (!PyArg_ParseTuple(args, "Oz", &owner, &name)) return NULL;
    shoal_session *session = session_of(owner);
    if (!session) return NULL;
    shoal_file *file = ((file_object *)self)->file;
    shoal_tensor *tensor;
    uint64_t index;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_file_find(file, name, &index);
    if (status == SHOAL_OK) status = shoal_file_load(file, index, session, &tensor);
    Py_END_ALLOW_THREADS return status == SHOAL_OK ? wrap(tensor, owner) : raise(status);
}

/* write_npy(path, dtype, shape, buffer) */
static PyObject *write_npy(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path, *shape;
    const char *name;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "O&sOy*", PyUnicode_FSConverter, &path, &name, &shape, &view))
        return NULL;
    int64_t dims[SHOAL_MAX_RANK];
    Py_ssize_t rank = ints_of(shape, dims, SHOAL_MAX_RANK, "shape");
    shoal_dtype dtype = SHOAL_F32;
    shoal_status status = rank < 0 ? SHOAL_INVALID : shoal_dtype_find(name, &dtype);
    size_t want = shoal_dtype_size(dtype);
    for (Py_ssize_t i = 0; i < rank; i++) want *= (size_t)dims[i];
    bool fits = want == (size_t)view.len;
    if (status == SHOAL_OK && fits) {
        const char *to = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS status = shoal_npy_write(to, dtype, (uint32_t)rank, dims, view.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    Py_DECREF(path);
    if (rank < 0) return NULL;
    if (status != SHOAL_OK) return raise(status);
    if (!fits) return PyErr_Format(errors[SHOAL_INVALID], "the bytes do not fit the shape");
    Py_RETURN_NONE;
}

/* ---- the module ---- */

/* setup(errors, tensor class, folder): what the Python half brings. errors: per status a class. */
static PyObject *setup(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *classes, *class;
    const char *folder;
    if (!PyArg_ParseTuple(args, "O!Os", &PyTuple_Type, &classes, &class, &folder)) return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(classes) && i < SHOAL_STATUS_COUNT; i++) {
        Py_XDECREF(errors[i]);
        errors[i] = PyTuple_GetItem(classes, i);
        Py_INCREF(errors[i]);
    }
    Py_INCREF(class);
    tensor_class = (PyTypeObject *)class;
    free(package_folder);
    package_folder = strdup(folder);
    Py_RETURN_NONE;
}

static PyObject *names_of(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *statuses = PyList_New(0), *one = PyList_New(0), *two = PyList_New(0);
    for (int i = 0; i < SHOAL_STATUS_COUNT; i++)
        PyList_Append(statuses, PyUnicode_FromString(shoal_status_name((shoal_status)i)));
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        PyList_Append(one, PyUnicode_FromString(unaries[i].name));
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        PyList_Append(two, PyUnicode_FromString(binaries[i].name));
    return Py_BuildValue("(sNNN)", shoal_version(), statuses, one, two);
}

static PyMethodDef session_methods[] = {
    {"close", session_close, METH_NOARGS, "Ends the session."},
    {"sync", session_sync, METH_NOARGS, "Waits until everything recorded has run."},
    {"_status", session_status, METH_NOARGS, NULL},
    {"_from_buffer", session_from_buffer, METH_VARARGS, NULL},
    {"_from_bytes", session_from_bytes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot session_slots[] = {{Py_tp_init, session_init},
                                      {Py_tp_dealloc, session_dealloc},
                                      {Py_tp_methods, session_methods},
                                      {0, NULL}};
static PyType_Spec session_spec = {"shoal._shoal.Session", sizeof(session_object), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, session_slots};

static PyMethodDef tensor_methods[] = {
    {"_read", tensor_read, METH_O, NULL},
    {"start", tensor_start, METH_NOARGS, "Starts the work on everything recorded, and returns."},
    {"_explain", tensor_explain, METH_VARARGS, NULL},
    {"_times", tensor_times, METH_NOARGS, NULL},
    {"_place", tensor_place, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef tensor_getters[] = {
    {"shape", tensor_shape, NULL, "The lengths of the axes, a tuple.", NULL},
    {"dtype", tensor_dtype, NULL, "The name of the element type, such as 'float32'.", NULL},
    {"session", tensor_session, NULL, "The session that the tensor belongs to.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, tensor_dealloc},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_getset, tensor_getters},
                                     {0, NULL}};
static PyType_Spec tensor_spec = {
    "shoal._shoal.Tensor", sizeof(tensor_object), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

static PyMethodDef file_methods[] = {
    {"tensors", file_tensors, METH_NOARGS, "(name, shape, dtype, encoding) of each tensor."},
    {"meta", file_meta, METH_VARARGS, "meta(key, index=0): a metadata value as text."},
    {"_load", file_load, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot file_slots[] = {{Py_tp_init, file_init},
                                   {Py_tp_dealloc, file_dealloc},
                                   {Py_tp_methods, file_methods},
                                   {0, NULL}};
static PyType_Spec file_spec = {"shoal._shoal.File", sizeof(file_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, file_slots};

static PyMethodDef functions[] = {
    {"setup", setup, METH_VARARGS, NULL},
    {"names", names_of, METH_NOARGS, NULL},
    {"apply", apply, METH_VARARGS, NULL},
    {"unary", (PyCFunction)(void (*)(void))call_unary, METH_FASTCALL, NULL},
    {"binary", (PyCFunction)(void (*)(void))call_binary, METH_FASTCALL, NULL},
    {"compare", call_compare, METH_VARARGS, NULL},
    {"select", call_select, METH_VARARGS, NULL},
    {"reduce", call_reduce, METH_VARARGS, NULL},
    {"broadcast", call_broadcast, METH_VARARGS, NULL},
    {"write_npy", write_npy, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_shoal", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__shoal(void);
PyMODINIT_FUNC PyInit__shoal(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    session_type = (PyTypeObject *)PyType_FromSpec(&session_spec);
    tensor_type = (PyTypeObject *)PyType_FromSpec(&tensor_spec);
    file_type = (PyTypeObject *)PyType_FromSpec(&file_spec);
    tensor_class = tensor_type;
    if (!session_type || !tensor_type || !file_type ||
        PyModule_AddObjectRef(module, "Session", (PyObject *)session_type) ||
        PyModule_AddObjectRef(module, "Tensor", (PyObject *)tensor_type) ||
        PyModule_AddObjectRef(module, "File", (PyObject *)file_type)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
