/* Kernels on arrays: anything with the buffer protocol. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "shoal/backend.h"
#include "shoal/kernels.h"
#include "shoal/pool.h"

typedef struct held {
    Py_buffer view;
    bool taken;
    void *copy; /* of an operand whose strides are no multiples of its elements; NULL: none */
    int64_t dims[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
} held;

/* An array from (buffer, name of its element type or None). */
static int take(PyObject *pair, bool writable, held *h, shoal_array *out) {
    PyObject *buffer;
    const char *name;
    int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (!PyArg_ParseTuple(pair, "Oz", &buffer, &name)) return -1;
    if (PyObject_GetBuffer(buffer, &h->view, flags)) return -1;
    h->taken = true;
    shoal_status status = name ? shoal_dtype_find(name, &out->dtype) : SHOAL_OK;
    if (status) return raise(status), -1;
    if (!name && dtype_of(&h->view, &out->dtype)) return -1;
    Py_ssize_t size = h->view.itemsize;
    if (h->view.ndim > SHOAL_MAX_RANK || (size_t)size != shoal_dtype_size(out->dtype)) {
        PyErr_Format(errors[SHOAL_INVALID],
                     "an array of %d axes and elements of %zd bytes; at most %d axes are possible, "
                     "and %s has %zu bytes",
                     h->view.ndim, size, SHOAL_MAX_RANK, shoal_dtype_name(out->dtype),
                     shoal_dtype_size(out->dtype));
        return -1;
    }
    bool fits = true;
    for (int i = 0; i < h->view.ndim; i++) {
        h->dims[i] = h->view.shape[i];
        h->strides[i] = h->view.strides[i] / size;
        fits = fits && h->view.strides[i] % size == 0;
    }
    *out = (shoal_array){out->dtype, (uint32_t)h->view.ndim, h->dims, h->strides, h->view.buf};
    if (fits) return 0;
    if (writable) {
        PyErr_SetString(errors[SHOAL_INVALID],
                        "the strides of the array for the result are no multiples of its "
                        "elements; give another");
        return -1;
    }
    h->copy = malloc((size_t)h->view.len + 1);
    if (!h->copy) return PyErr_NoMemory(), -1;
    out->strides = NULL;
    out->data = h->copy;
    return PyBuffer_ToContiguous(h->copy, &h->view, h->view.len, 'C');
}

static int take_all(PyObject *pairs, bool writable, held *all, shoal_array *out, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++)
        if (take(PyTuple_GetItem(pairs, i), writable, &all[i], &out[i])) return -1;
    return 0;
}

static void give_back(held *all, Py_ssize_t n) {
    for (Py_ssize_t i = 0; all && i < n; i++) {
        free(all[i].copy);
        if (all[i].taken) PyBuffer_Release(&all[i].view);
    }
    free(all);
}

/* What is no operation of the table: its name, and how many operands it has. format: NULL, or that
 * of blocks. */
static shoal_status call_named(const char *name, const shoal_array *in, Py_ssize_t n_in,
                               const char *format, const shoal_array *out, Py_ssize_t n_out,
                               bool *known) {
    *known = true;
    if (n_out == 1 && n_in == 2 && !strcmp(name, "matmul"))
        return shoal_kernel_matmul(&in[0], &in[1], out);
    if (n_out == 1 && n_in == 2 && format && !strcmp(name, "matmul_packed"))
        return shoal_kernel_matmul_packed(&in[0], &in[1], format, out);
    if (n_out == 1 && n_in == 1 && format && !strcmp(name, "quantize"))
        return shoal_kernel_quantize(&in[0], format, out);
    *known = false;
    return SHOAL_OK;
}

/* kernel(name, operands, attrs or None, results): arrays as pairs of a buffer and the name of its
 * element type, or None. */
static PyObject *kernel(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *inputs, *dict, *outputs, *result = NULL;
    const char *name, *format = NULL;
    if (!PyArg_ParseTuple(args, "sO!OO!", &name, &PyTuple_Type, &inputs, &dict, &PyTuple_Type,
                          &outputs))
        return NULL;
    Py_ssize_t n_in = PyTuple_Size(inputs), n_out = PyTuple_Size(outputs), n = n_in + n_out;
    held *all = calloc((size_t)n + 1, sizeof *all);
    shoal_array *arrays = calloc((size_t)n + 1, sizeof *arrays);
    attr_store store = {.n = 0};
    if (!all || !arrays) {
        PyErr_NoMemory();
        goto out;
    }
    if (take_all(inputs, false, all, arrays, n_in)) goto out;
    if (take_all(outputs, true, all + n_in, arrays + n_in, n_out)) goto out;
    if (attrs_of(dict, &store)) goto out;
    for (int i = 0; i < store.n; i++)
        if (store.attrs[i].key == SHOAL_ATTR_FORMAT) format = store.attrs[i].u.string;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS;
    bool known;
    status = call_named(name, arrays, n_in, format, arrays + n_in, n_out, &known);
    uint16_t op;
    if (!known) status = shoal_op_find(name, &op);
    if (!known && !status)
        status = shoal_kernel(op, arrays, (uint32_t)n_in, store.attrs, (uint16_t)store.n,
                              arrays + n_in, (uint32_t)n_out);
    Py_END_ALLOW_THREADS;
    if (status)
        raise(status);
    else
        result = Py_NewRef(Py_None);
out:
    attrs_fini(&store);
    free(arrays);
    give_back(all, n);
    return result;
}

static PyObject *kernel_threads(PyObject *module, PyObject *args) {
    (void)module;
    int threads = -1;
    if (!PyArg_ParseTuple(args, "|i", &threads)) return NULL;
    shoal_status status;
    if (threads >= 0) {
        Py_BEGIN_ALLOW_THREADS status = shoal_kernels_set_threads((uint32_t)threads);
        Py_END_ALLOW_THREADS if (status) return raise(status);
    }
    return PyLong_FromUnsignedLong(shoal_kernels_threads());
}

static PyObject *kernel_use(PyObject *module, PyObject *args) {
    (void)module;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "|z", &name)) return NULL;
    shoal_status status = SHOAL_OK;
    if (PyTuple_Size(args)) {
        Py_BEGIN_ALLOW_THREADS status = shoal_kernels_use(name);
        Py_END_ALLOW_THREADS
    }
    return status ? raise(status) : PyUnicode_FromString(shoal_kernels_used());
}

static PyObject *kernel_instructions(PyObject *module, PyObject *args) {
    (void)module, (void)args;
    const char *name;
    shoal_status status = shoal_kernels_instructions(&name);
    return status ? raise(status) : PyUnicode_FromString(name);
}

/* Appends what was found to a list; after a failure, nothing. */
static void append_found(void *list, const shoal_found *found) {
    if (PyErr_Occurred()) return;
    PyObject *row =
        Py_BuildValue("(sIzzKIO)", found->backend, (unsigned)found->index, found->device,
                      found->reason, (unsigned long long)found->memory, (unsigned)found->threads,
                      found->flags & SHOAL_DEVICE_SAME_CORES ? Py_True : Py_False);
    if (row) PyList_Append(list, row);
    Py_XDECREF(row);
}

static PyObject *backends(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "z", &name) || !(list = PyList_New(0))) return NULL;
    shoal_status status = shoal_backends(name, append_found, list);
    if (PyErr_Occurred()) Py_CLEAR(list);
    if (list && status) {
        Py_DECREF(list);
        return raise(status);
    }
    return list;
}

PyMethodDef kernel_functions[] = {
    {"kernel", kernel, METH_VARARGS, "kernel(name, operands, attrs or None, results)"},
    {"kernel_threads", kernel_threads, METH_VARARGS, "kernel_threads([threads]) -> threads"},
    {"kernel_use", kernel_use, METH_VARARGS, "kernel_use([backend]) -> backend"},
    {"kernel_instructions", kernel_instructions, METH_NOARGS, "kernel_instructions() -> name"},
    {"backends", backends, METH_VARARGS,
     "backends(name or None) -> [(backend, index, device or None, reason or None, memory, threads, "
     "on this process's cores)]"},
    {NULL, NULL, 0, NULL},
};
