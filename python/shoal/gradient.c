/* Gradients: what tensors say about how they came to be, and asking for them. */
#include "module.h"

#include <stdlib.h>

/* ---- tensors ---- */

PyObject *tensor_requires_grad(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(shoal_tensor_requires_gradient(((tensor_object *)self)->tensor));
}

PyObject *tensor_is_leaf(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(shoal_tensor_is_leaf(((tensor_object *)self)->tensor));
}

/* The name of the operation that a tensor is a result of, or None. */
PyObject *tensor_origin(PyObject *self, void *unused) {
    (void)unused;
    const char *name = shoal_tensor_origin(((tensor_object *)self)->tensor);
    if (name) return PyUnicode_FromString(name);
    Py_RETURN_NONE;
}

PyObject *tensor_identity(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(shoal_tensor_identity(((tensor_object *)self)->tensor));
}

/* _require(bool) */
PyObject *tensor_require(PyObject *self, PyObject *required) {
    int yes = PyObject_IsTrue(required);
    if (yes < 0) return NULL;
    shoal_status status = shoal_tensor_require_gradient(((tensor_object *)self)->tensor, yes != 0);
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

PyObject *tensor_watch(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_status status = shoal_tensor_watch_gradient(((tensor_object *)self)->tensor);
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

PyObject *tensor_detach(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_tensor *out;
    note_seen(self);
    return finish(shoal_detach(((tensor_object *)self)->tensor, &out), &out, self);
}

PyObject *tensor_detach_self(PyObject *object, PyObject *unused) {
    (void)unused;
    tensor_object *self = (tensor_object *)object;
    shoal_tensor *out, *was = self->tensor;
    shoal_status status = shoal_detach(was, &out);
    if (status != SHOAL_OK) return raise(status);
    note_seen(object);
    self->tensor = out;
    shoal_tensor_free(&was);
    Py_INCREF(object);
    return object;
}

/* _assign(other): from now on this object stands for the other's value, of the same type. */
PyObject *tensor_rebind(PyObject *self, PyObject *other) {
    shoal_tensor *value = tensor_of(other);
    if (!value) return NULL;
    shoal_status status = shoal_tensor_assign(&((tensor_object *)self)->tensor, value);
    if (status != SHOAL_OK) return raise(status);
    Py_CLEAR(((tensor_object *)self)->shape);
    note_changed(self);
    Py_RETURN_NONE;
}

/* _rebind(other): this object, and all that shares its elements, changes in place. */
PyObject *tensor_change(PyObject *self, PyObject *other) {
    PyObject **notes = ((tensor_object *)self)->notes;
    if (notes[NOTE_view] == Py_None && notes[NOTE_views] == Py_None)
        return tensor_rebind(self, other);
    return PyObject_CallMethod(self, "_written", "O", other);
}

/* swap(other): each object stands for what the other stood for, of whatever type. */
PyObject *tensor_swap(PyObject *self, PyObject *other) {
    shoal_tensor *theirs = tensor_of(other);
    if (!theirs) return NULL;
    ((tensor_object *)other)->tensor = ((tensor_object *)self)->tensor;
    ((tensor_object *)self)->tensor = theirs;
    Py_CLEAR(((tensor_object *)other)->shape);
    Py_CLEAR(((tensor_object *)self)->shape);
    note_changed(self);
    Py_RETURN_NONE;
}

/* ---- the module ---- */

/* set_gradients(mode) -> what it was */
static PyObject *set_gradients(PyObject *module, PyObject *mode) {
    (void)module;
    long number = PyLong_AsLong(mode);
    if (number == -1 && PyErr_Occurred()) return NULL;
    if (number < 0 || number > SHOAL_GRADIENTS_AGAIN)
        return PyErr_Format(PyExc_ValueError, "there is no mode %ld", number);
    return PyLong_FromLong((long)shoal_set_gradients((shoal_gradient_mode)number));
}

static PyObject *gradients_mode(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    return PyLong_FromLong((long)shoal_gradients_mode());
}

/* gradients(outputs, seeds or None, inputs, retain_graph, create_graph, allow_unused) -> list. The
 * sequences are lists or tuples. */
static PyObject *gradients(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *ends, *weights, *inputs, *session = NULL, *result = NULL;
    int retain, create, unused;
    if (!PyArg_ParseTuple(args, "OOOppp", &ends, &weights, &inputs, &retain, &create, &unused))
        return NULL;
    Py_ssize_t n = 0, n_seeds = 0, n_wrt = 0;
    shoal_tensor **outputs = handles_of(ends, &n), **seeds = NULL, **wrt = NULL, **out = NULL;
    bool ready = outputs != NULL;
    if (ready && weights != Py_None) ready = (seeds = handles_of(weights, &n_seeds)) != NULL;
    if (ready) ready = (wrt = handles_of(inputs, &n_wrt)) != NULL;
    if (ready) ready = (out = calloc((size_t)n_wrt + 1, sizeof *out)) != NULL;
    if (ready && (!n || (seeds && n_seeds != n))) {
        PyErr_Format(errors[SHOAL_INVALID], "gradient: %zd seeds for %zd outputs", n_seeds, n);
        ready = false;
    }
    if (ready) {
        const shoal_gradient_options options = {sizeof options, retain != 0, create != 0,
                                                unused != 0};
        PyObject *first = PySequence_GetItem(ends, 0);
        session = first ? ((tensor_object *)first)->session : NULL;
        Py_XINCREF(session);
        Py_XDECREF(first);
        shoal_status status =
            shoal_gradients(outputs, seeds, (uint32_t)n, wrt, (uint32_t)n_wrt, &options, out);
        result = status == SHOAL_OK ? tensors_of(out, n_wrt, session) : raise(status);
    }
    Py_XDECREF(session);
    free(outputs);
    free(seeds);
    free(wrt);
    free(out);
    return result;
}

/* targets(outputs) -> the leaves and watched results that they derive from */
static PyObject *targets(PyObject *module, PyObject *ends) {
    (void)module;
    Py_ssize_t n = 0;
    uint32_t count = 64, room = 0;
    shoal_tensor **outputs = handles_of(ends, &n), **found = NULL;
    PyObject *result = NULL, *first = outputs ? PySequence_GetItem(ends, 0) : NULL;
    while (first && room < count) {
        room = count;
        free(found);
        found = calloc(room, sizeof *found);
        shoal_status status =
            found ? shoal_gradient_targets(outputs, (uint32_t)n, found, &count) : SHOAL_NO_MEMORY;
        if (status != SHOAL_OK) {
            raise(status);
            break;
        }
        for (uint32_t i = 0; count > room && i < room; i++) shoal_tensor_free(&found[i]);
        if (count <= room)
            result = tensors_of(found, (Py_ssize_t)count, ((tensor_object *)first)->session);
        if (count <= room) break;
    }
    Py_XDECREF(first);
    free(outputs);
    free(found);
    return result;
}

/* ---- batches ---- */

/* batch(tensor, level, each): one index of a tensor, or one that is the same for all */
static PyObject *batch(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *like;
    unsigned level;
    int each;
    if (!PyArg_ParseTuple(args, "OIp", &like, &level, &each)) return NULL;
    shoal_tensor *tensor = tensor_of(like), *out;
    if (!tensor) return NULL;
    note_seen(like);
    return finish(shoal_tensor_batch(tensor, level, each, &out), &out, like);
}

/* whole(tensor) -> (what an index of a batch stands for, level, each, number of its handle), or
 * None
 */
static PyObject *whole(PyObject *module, PyObject *like) {
    (void)module;
    uint32_t level;
    bool each;
    shoal_tensor *tensor = tensor_of(like), *found;
    if (!tensor) return NULL;
    found = shoal_tensor_whole(tensor, &level, &each);
    if (!found) Py_RETURN_NONE;
    void *number = found;
    PyObject *made = finish(SHOAL_OK, &found, like);
    return made ? Py_BuildValue("(NIOn)", made, level, each ? Py_True : Py_False,
                                (Py_ssize_t)(intptr_t)number)
                : NULL;
}

PyMethodDef gradient_functions[] = {{"set_gradients", set_gradients, METH_O, NULL},
                                    {"gradients_mode", gradients_mode, METH_NOARGS, NULL},
                                    {"gradients", gradients, METH_VARARGS, NULL},
                                    {"targets", targets, METH_O, NULL},
                                    {"batch", batch, METH_VARARGS, NULL},
                                    {"whole", whole, METH_O, NULL},
                                    {NULL, NULL, 0, NULL}};
