/* Operations on tensors. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* ---- operations ---- */

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
        } else if (keys[k].kind == SHOAL_ATTR_KIND_BOOL) {
            attr->u.i = PyObject_IsTrue(value);
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

int attrs_of(PyObject *dict, attr_store *store) {
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

void attrs_fini(attr_store *store) {
    for (int i = 0; i < store->n + (store->n < MAX_ATTRS); i++) free(store->ints[i]);
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
    attrs_fini(&store);
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

/* None: the element types differ, and the caller is to make them alike. */
static PyObject *call_binary(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    size_t number = n == 3 ? PyLong_AsSize_t(args[0]) : SIZE_MAX;
    if (number >= sizeof binaries / sizeof *binaries)
        return PyErr_Format(PyExc_TypeError, "binary(number, tensor, tensor)");
    shoal_tensor *a = tensor_of(args[1]), *b = tensor_of(args[2]), *out;
    if (!a || !b) return NULL;
    if (shoal_tensor_type(a)->dtype != shoal_tensor_type(b)->dtype &&
        binaries[number].call != shoal_matmul)
        Py_RETURN_NONE;
    note_location();
    return finish(binaries[number].call(a, b, &out), &out, args[1]);
}

/* compare(direction, tensor, tensor); None as of `binary`. */
static PyObject *call_compare(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    const char *direction = n == 3 ? PyUnicode_AsUTF8AndSize(args[0], NULL) : NULL;
    if (!direction) return PyErr_Format(PyExc_TypeError, "compare(direction, tensor, tensor)");
    shoal_tensor *a = tensor_of(args[1]), *b = tensor_of(args[2]), *out;
    if (!a || !b) return NULL;
    if (shoal_tensor_type(a)->dtype != shoal_tensor_type(b)->dtype) Py_RETURN_NONE;
    note_location();
    return finish(shoal_compare(a, b, direction, &out), &out, args[1]);
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

/* sort(x, axis, falling) -> (values, indices) */
static PyObject *call_sort(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x;
    long long axis;
    int falling;
    if (!PyArg_ParseTuple(args, "OLp", &x, &axis, &falling)) return NULL;
    shoal_tensor *a = tensor_of(x), *values, *indices;
    if (!a) return NULL;
    note_location();
    shoal_status status = shoal_sort(a, axis, falling, &values, &indices);
    if (status != SHOAL_OK) return raise(status);
    PyObject *owner = ((tensor_object *)x)->session;
    PyObject *first = wrap(values, owner), *second = wrap(indices, owner);
    return Py_BuildValue("(NN)", first, second);
}

/* cumulate(x, op, axis) */
static PyObject *call_cumulate(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x;
    const char *op;
    long long axis;
    if (!PyArg_ParseTuple(args, "OsL", &x, &op, &axis)) return NULL;
    shoal_tensor *a = tensor_of(x), *out;
    if (!a) return NULL;
    note_location();
    return finish(shoal_cumulate(a, op, axis, &out), &out, x);
}

/* reduce_window(x, op, window, strides, padding, dilation): of the last axes */
static PyObject *call_reduce_window(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *lists[4];
    const char *op;
    int64_t numbers[4][2 * SHOAL_MAX_RANK];
    if (!PyArg_ParseTuple(args, "OsOOOO", &x, &op, &lists[0], &lists[1], &lists[2], &lists[3]))
        return NULL;
    shoal_tensor *a = tensor_of(x), *out;
    if (!a) return NULL;
    Py_ssize_t n = ints_of(lists[0], numbers[0], SHOAL_MAX_RANK, "window");
    for (int i = 1; i < 4; i++) {
        Py_ssize_t want = i == 2 ? 2 * n : n;
        Py_ssize_t got = n < 0 ? -1 : ints_of(lists[i], numbers[i], 2 * SHOAL_MAX_RANK, "window");
        if (got < 0) return NULL;
        if (got != want)
            return PyErr_Format(errors[SHOAL_INVALID], "reduce_window: %zd numbers; %zd are needed",
                                got, want);
    }
    note_location();
    return finish(shoal_reduce_window(a, op, (uint32_t)n, numbers[0], numbers[1], numbers[2],
                                      numbers[3], &out),
                  &out, x);
}

/* convolve(x, kernels, strides, padding, dilation, groups) */
static PyObject *call_convolve(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *y, *lists[3];
    long long groups;
    int64_t numbers[3][2 * SHOAL_MAX_RANK];
    if (!PyArg_ParseTuple(args, "OOOOOL", &x, &y, &lists[0], &lists[1], &lists[2], &groups))
        return NULL;
    shoal_tensor *a = tensor_of(x), *kernels = tensor_of(y), *out;
    if (!a || !kernels) return NULL;
    Py_ssize_t n = shoal_tensor_type(a)->rank - 2;
    for (int i = 0; i < 3; i++) {
        Py_ssize_t got = ints_of(lists[i], numbers[i], 2 * SHOAL_MAX_RANK, "convolve");
        if (got < 0) return NULL;
        if (got != (i == 1 ? 2 * n : n))
            return PyErr_Format(errors[SHOAL_INVALID], "convolve: %zd numbers for %zd axes", got,
                                n);
    }
    note_location();
    return finish(shoal_convolve(a, kernels, numbers[0], numbers[1], numbers[2], groups, &out),
                  &out, x);
}

/* take(x, indices, axis) */
static PyObject *call_take(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *y;
    long long axis;
    if (!PyArg_ParseTuple(args, "OOL", &x, &y, &axis)) return NULL;
    shoal_tensor *a = tensor_of(x), *indices = tensor_of(y), *out;
    if (!a || !indices) return NULL;
    note_location();
    return finish(shoal_take(a, indices, axis, &out), &out, x);
}

/* scatter(x, indices, updates, axis, op) */
static PyObject *call_scatter(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *y, *z;
    const char *op;
    long long axis;
    if (!PyArg_ParseTuple(args, "OOOLs", &x, &y, &z, &axis, &op)) return NULL;
    shoal_tensor *a = tensor_of(x), *indices = tensor_of(y), *updates = tensor_of(z), *out;
    if (!a || !indices || !updates) return NULL;
    note_location();
    return finish(shoal_scatter(a, indices, updates, axis, op, &out), &out, x);
}

/* scatter_along(x, indices, updates, axis, op) */
static PyObject *call_scatter_along(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *y, *z;
    const char *op;
    long long axis;
    if (!PyArg_ParseTuple(args, "OOOLs", &x, &y, &z, &axis, &op)) return NULL;
    shoal_tensor *a = tensor_of(x), *indices = tensor_of(y), *updates = tensor_of(z), *out;
    if (!a || !indices || !updates) return NULL;
    note_location();
    return finish(shoal_scatter_along(a, indices, updates, axis, op, &out), &out, x);
}

/* scatter_points(x, axes, indices, updates, op) */
static PyObject *call_scatter_points(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *x, *sequence, *y, *z;
    const char *op;
    int64_t axes[SHOAL_MAX_RANK];
    if (!PyArg_ParseTuple(args, "OOOOs", &x, &sequence, &y, &z, &op)) return NULL;
    shoal_tensor *a = tensor_of(x), *indices = tensor_of(y), *updates = tensor_of(z), *out;
    Py_ssize_t n = a && indices && updates ? ints_of(sequence, axes, SHOAL_MAX_RANK, "axes") : -1;
    if (n < 0) return NULL;
    note_location();
    return finish(shoal_scatter_points(a, axes, (uint32_t)n, indices, updates, op, &out), &out, x);
}

/* operations() -> [(name, category, summary)], the whole table */
static PyObject *list_operations(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (uint16_t op = 0; list && op < shoal_op_count(); op++) {
        PyObject *row =
            Py_BuildValue("(sss)", shoal_op_name(op), shoal_op_category(op), shoal_op_summary(op));
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *names(const char *const *first, size_t count, size_t step) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple && i < count; i++) {
        const char *name = *(const char *const *)((const char *)first + i * step);
        if (PyTuple_SetItem(tuple, (Py_ssize_t)i, PyUnicode_FromString(name))) Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *operation_names(void) {
    return Py_BuildValue(
        "(NN)", names(&unaries[0].name, sizeof unaries / sizeof *unaries, sizeof *unaries),
        names(&binaries[0].name, sizeof binaries / sizeof *binaries, sizeof *binaries));
}

PyMethodDef operation_functions[] = {
    {"apply", apply, METH_VARARGS, NULL},
    {"unary", (PyCFunction)(void (*)(void))call_unary, METH_FASTCALL, NULL},
    {"binary", (PyCFunction)(void (*)(void))call_binary, METH_FASTCALL, NULL},
    {"compare", (PyCFunction)(void (*)(void))call_compare, METH_FASTCALL, NULL},
    {"select", call_select, METH_VARARGS, NULL},
    {"reduce", call_reduce, METH_VARARGS, NULL},
    {"sort", call_sort, METH_VARARGS, NULL},
    {"cumulate", call_cumulate, METH_VARARGS, NULL},
    {"reduce_window", call_reduce_window, METH_VARARGS, NULL},
    {"convolve", call_convolve, METH_VARARGS, NULL},
    {"take", call_take, METH_VARARGS, NULL},
    {"scatter", call_scatter, METH_VARARGS, NULL},
    {"scatter_along", call_scatter_along, METH_VARARGS, NULL},
    {"scatter_points", call_scatter_points, METH_VARARGS, NULL},
    {"operations", list_operations, METH_NOARGS, NULL},
    {"broadcast", call_broadcast, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
