/* Tensor handles: what they are, reading, placing. */
#include "module.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

/* ---- shapes ---- */

/* A tuple whose parts are of the class that shapes are of; the Python half derives it. */
static PyObject *lengths_item(PyObject *self, PyObject *key) {
    binaryfunc item = (binaryfunc)PyType_GetSlot(&PyTuple_Type, Py_mp_subscript);
    PyObject *found = item(self, key);
    if (!found || !PyTuple_CheckExact(found) || !shape_class) return found;
    PyObject *part = PyObject_CallFunctionObjArgs(shape_class, found, NULL);
    Py_DECREF(found);
    return part;
}

static PyType_Slot lengths_slots[] = {{Py_mp_subscript, lengths_item}, {0, NULL}};
PyType_Spec lengths_spec = {"shoal._shoal.Lengths", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                            lengths_slots};

/* ---- tensors ---- */

static int tensor_traverse(PyObject *object, visitproc visit, void *arg) {
    tensor_object *self = (tensor_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->session);
    for (int i = 0; i < TENSOR_NOTES; i++) Py_VISIT(self->notes[i]);
    return 0;
}

static int tensor_clear(PyObject *object) {
    tensor_object *self = (tensor_object *)object;
    for (int i = 0; i < TENSOR_NOTES; i++) {
        PyObject *was = self->notes[i];
        self->notes[i] = Py_NewRef(Py_None);
        Py_XDECREF(was);
    }
    return 0;
}

static void tensor_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    tensor_object *self = (tensor_object *)object;
    PyObject_GC_UnTrack(object);
    shoal_tensor_free(&self->tensor);
    release_buffers();
    for (int i = 0; i < TENSOR_NOTES; i++) Py_CLEAR(self->notes[i]);
    Py_XDECREF(self->shape);
    Py_XDECREF(self->session);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *tensor_shape(PyObject *object, void *unused) {
    (void)unused;
    tensor_object *self = (tensor_object *)object;
    if (self->shape) return Py_NewRef(self->shape);
    const shoal_type *type = shoal_tensor_type(self->tensor);
    PyObject *lengths = tuple_of(type->dims, type->rank);
    if (!lengths || !shape_class) return lengths;
    PyObject *shape = PyObject_CallFunctionObjArgs(shape_class, lengths, NULL);
    Py_DECREF(lengths);
    self->shape = Py_XNewRef(shape);
    return shape;
}

static PyObject *tensor_ndim(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(shoal_tensor_type(((tensor_object *)self)->tensor)->rank);
}

static PyObject *tensor_dtype(PyObject *self, void *unused) {
    (void)unused;
    const shoal_type *type = shoal_tensor_type(((tensor_object *)self)->tensor);
    if (dtypes[type->dtype]) return Py_NewRef(dtypes[type->dtype]);
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
    note_read();
    if (PyObject_GetBuffer(target, &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)) return NULL;
    shoal_status status;
    shoal_tensor *tensor = ((tensor_object *)self)->tensor;
    Py_BEGIN_ALLOW_THREADS status = shoal_read(tensor, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS PyBuffer_Release(&view);
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

/* While a function is recorded nothing is started before its end. */
static PyObject *tensor_start(PyObject *self, PyObject *unused) {
    (void)unused;
    if (recording()) Py_RETURN_NONE;
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

static PyObject *tensor_from_file(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(shoal_tensor_from_file(((tensor_object *)self)->tensor));
}

static PyObject *tensor_donate(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_status status;
    shoal_tensor *tensor = ((tensor_object *)self)->tensor;
    Py_BEGIN_ALLOW_THREADS status = shoal_tensor_donate(tensor);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyObject *tensor_value(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(shoal_tensor_value(((tensor_object *)self)->tensor));
}

/* place(parts, weights or None, cuts or None, copies, slots or None, bound) */
static PyObject *tensor_place(PyObject *self, PyObject *args) {
    enum { MOST = 8192 };
    PyObject *parts, *weights, *cuts, *slots;
    unsigned copies;
    int bound;
    if (!PyArg_ParseTuple(args, "OOOIOp", &parts, &weights, &cuts, &copies, &slots, &bound))
        return NULL;
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
    shoal_layout layout = {
        .size = sizeof layout, .parts = counts, .copies = copies, .bound = bound};
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
    note_seen(self);
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

static PyMethodDef tensor_methods[] = {
    {"_assign", tensor_rebind, METH_O, NULL},
    {"_rebind", tensor_change, METH_O, NULL},
    {"_swap", tensor_swap, METH_O, NULL},
    {"_read", tensor_read, METH_O, NULL},
    {"start", tensor_start, METH_NOARGS, "Starts the work on everything recorded, and returns."},
    {"_explain", tensor_explain, METH_VARARGS, NULL},
    {"_times", tensor_times, METH_NOARGS, NULL},
    {"_place", tensor_place, METH_VARARGS, NULL},
    {"_require", tensor_require, METH_O, NULL},
    {"_watch", tensor_watch, METH_NOARGS, NULL},
    {"_detach", tensor_detach, METH_NOARGS, NULL},
    {"_donate", tensor_donate, METH_NOARGS, NULL},
    {"detach_", tensor_detach_self, METH_NOARGS,
     "detach_($self, /)\n--\n\nIn place: no gradients pass through this object from now on; a leaf "
     "is none any more."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef tensor_getters[] = {
    {"shape", tensor_shape, NULL, "The lengths of the axes, a tuple.", NULL},
    {"ndim", tensor_ndim, NULL, "The number of axes.", NULL},
    {"dtype", tensor_dtype, NULL, "The element type, such as shoal.float32.", NULL},
    {"session", tensor_session, NULL, "The session that the tensor belongs to.", NULL},
    {"_requires", tensor_requires_grad, NULL, NULL, NULL},
    {"_is_leaf", tensor_is_leaf, NULL, NULL, NULL},
    {"_origin", tensor_origin, NULL, NULL, NULL},
    {"_identity", tensor_identity, NULL, NULL, NULL},
    {"_value", tensor_value, NULL, NULL, NULL},
    {"_from_file", tensor_from_file, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef tensor_members[] = {
#define XX(name)                                                                                   \
    {#name, T_OBJECT_EX, offsetof(tensor_object, notes) + NOTE##name * sizeof(PyObject *), 0, NULL},
    TENSOR_NOTE_MAP(XX)
#undef XX
        {NULL, 0, 0, 0, NULL}};
static PyType_Slot tensor_slots[] = {{Py_tp_dealloc, tensor_dealloc},
                                     {Py_tp_traverse, tensor_traverse},
                                     {Py_tp_clear, tensor_clear},
                                     {Py_tp_methods, tensor_methods},
                                     {Py_tp_members, tensor_members},
                                     {Py_tp_getset, tensor_getters},
                                     {Py_nb_add, tensor_add},
                                     {Py_nb_subtract, tensor_subtract},
                                     {Py_nb_multiply, tensor_multiply},
                                     {Py_nb_true_divide, tensor_divide},
                                     {0, NULL}};
PyType_Spec tensor_spec = {"shoal._shoal.Tensor", sizeof(tensor_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                               Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           tensor_slots};
