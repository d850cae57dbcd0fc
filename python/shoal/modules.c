/* Modules of StableHLO: what stablehlo.py is written in terms of. */
#include "module.h"

#include "shoal/stablehlo.h"

#include <stdlib.h>

/* The function that a module is in a session. Threads that run it use it, too: another one may
 * meanwhile need that of another session. Counted with the interpreter's lock. */
typedef struct prepared {
    size_t uses;
    shoal_function *function;
    PyObject *session;
} prepared;

typedef struct module_object {
    PyObject_HEAD shoal_module *module;
    prepared *prepared; /* of the session in which it ran last, or NULL */
} module_object;

static void release(prepared **p) {
    prepared *was = *p;
    *p = NULL;
    if (!was || --was->uses) return;
    shoal_function_free(&was->function);
    Py_XDECREF(was->session);
    free(was);
}

static void module_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    module_object *self = (module_object *)object;
    release(&self->prepared);
    shoal_module_free(&self->module);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Module(text, file or None, function or None): text is str or bytes. */
static int module_init(PyObject *object, PyObject *args, PyObject *keywords) {
    module_object *self = (module_object *)object;
    const char *text, *file, *function;
    Py_ssize_t bytes;
    if (keywords || !PyArg_ParseTuple(args, "s#zz", &text, &bytes, &file, &function)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "Module(text, file, function)");
        return -1;
    }
    if (self->module) {
        PyErr_SetString(PyExc_TypeError, "the module has been read already");
        return -1;
    }
    shoal_status status;
    shoal_module *module = NULL;
    Py_BEGIN_ALLOW_THREADS status =
        shoal_module_parse(text, (size_t)bytes, file, function, &module);
    Py_END_ALLOW_THREADS self->module = module;
    if (status != SHOAL_OK) raise(status);
    return status == SHOAL_OK ? 0 : -1;
}

static shoal_module *module_of(PyObject *object) {
    shoal_module *module = ((module_object *)object)->module;
    if (!module) PyErr_SetString(PyExc_ValueError, "the module was not read");
    return module;
}

PyObject *wrap_module(shoal_module *module) {
    PyTypeObject *type = module_type;
    module_object *self = (module_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->module = module;
    else
        shoal_module_free(&module);
    return (PyObject *)self;
}

static PyObject *types_of(const shoal_graph *g, const uint32_t *values, uint32_t n) {
    PyObject *list = PyList_New(n);
    for (uint32_t i = 0; list && i < n; i++) {
        const shoal_type *type = &g->values[values[i]].type;
        PyObject *shape = tuple_of(type->dims, type->rank);
        PyObject *item =
            shape ? Py_BuildValue("(sN)", shoal_dtype_name((shoal_dtype)type->dtype), shape) : NULL;
        if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
    }
    return list;
}

/* types() -> (of inputs, of outputs): lists of (dtype, shape) */
static PyObject *module_types(PyObject *self, PyObject *unused) {
    (void)unused;
    const shoal_module *module = module_of(self);
    if (!module) return NULL;
    const shoal_graph *g = shoal_module_graph(module);
    PyObject *inputs = types_of(g, g->inputs, g->n_inputs);
    PyObject *outputs = inputs ? types_of(g, g->outputs, g->n_outputs) : NULL;
    if (outputs) return Py_BuildValue("(NN)", inputs, outputs);
    Py_XDECREF(inputs);
    return NULL;
}

/* gradient(output, inputs) -> Module */
static PyObject *module_gradient(PyObject *self, PyObject *args) {
    unsigned output;
    PyObject *list;
    const shoal_module *module = module_of(self);
    if (!module || !PyArg_ParseTuple(args, "IO!", &output, &PyList_Type, &list)) return NULL;
    Py_ssize_t n = PyList_Size(list);
    int64_t *numbers = calloc((size_t)n + 1, sizeof *numbers);
    uint32_t *wrt = calloc((size_t)n + 1, sizeof *wrt);
    shoal_module *made = NULL;
    PyObject *result = NULL;
    if (!numbers || !wrt) {
        PyErr_NoMemory();
    } else if (ints_of(list, numbers, n, "inputs") >= 0) {
        for (Py_ssize_t i = 0; i < n; i++)
            wrt[i] = numbers[i] < 0 || numbers[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)numbers[i];
        shoal_status status;
        Py_BEGIN_ALLOW_THREADS status =
            shoal_module_gradient(module, output, wrt, (uint32_t)n, &made);
        Py_END_ALLOW_THREADS result = status == SHOAL_OK ? wrap_module(made) : raise(status);
    }
    free(numbers);
    free(wrt);
    return result;
}

/* bind(first, list of bytes) -> Module: inputs from `first` on are constants */
static PyObject *module_bind(PyObject *self, PyObject *args) {
    unsigned first;
    PyObject *list, *result = NULL;
    const shoal_module *module = module_of(self);
    if (!module || !PyArg_ParseTuple(args, "IO!", &first, &PyList_Type, &list)) return NULL;
    const shoal_graph *g = shoal_module_graph(module);
    Py_ssize_t n = PyList_Size(list);
    const void **data = calloc((size_t)n + 1, sizeof *data);
    if (!data) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        char *bytes = NULL;
        Py_ssize_t size = -1;
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &bytes, &size)) break;
        data[i] = bytes;
        int64_t needed = 0;
        if (first + (size_t)i < g->n_inputs) {
            const shoal_type *type = &g->values[g->inputs[first + (size_t)i]].type;
            needed = (int64_t)shoal_dtype_size((shoal_dtype)type->dtype);
            for (uint32_t k = 0; k < type->rank; k++) needed *= type->dims[k];
        }
        if (size != needed) PyErr_Format(PyExc_ValueError, "input %zd has %zd bytes", i, size);
    }
    if (!PyErr_Occurred() && first + (size_t)n != g->n_inputs)
        PyErr_Format(PyExc_ValueError, "%zd inputs are bound, not %u", n, g->n_inputs - first);
    if (!PyErr_Occurred()) {
        shoal_module *made;
        shoal_status status = shoal_module_bind(module, first, data, &made);
        result = status == SHOAL_OK ? wrap_module(made) : raise(status);
    }
    free(data);
    return result;
}

static PyObject *module_text(PyObject *self, PyObject *unused) {
    (void)unused;
    char *text;
    const shoal_module *module = module_of(self);
    if (!module) return NULL;
    shoal_status status = shoal_module_text(module, &text);
    if (status != SHOAL_OK) return raise(status);
    PyObject *result = PyUnicode_FromString(text);
    free(text);
    return result;
}

/* The function of a session is kept while the pool is as it was. Released by who uses it. */
static shoal_status prepare(module_object *self, PyObject *owner, shoal_session *session,
                            prepared **out) {
    prepared *p = self->prepared;
    if (!p || p->session != owner || !shoal_function_is_current(p->function)) {
        p = calloc(1, sizeof *p);
        if (!p) return SHOAL_NO_MEMORY;
        p->uses = 1;
        p->session = Py_NewRef(owner);
        release(&self->prepared);
        self->prepared = p;
        shoal_status status = shoal_module_function(self->module, session, &p->function);
        if (status != SHOAL_OK) {
            release(&self->prepared);
            return status;
        }
    }
    p->uses++;
    *out = p;
    return SHOAL_OK;
}

/* run(session, inputs, recorded) -> outputs; recorded: operation by operation, for gradients */
static PyObject *module_run(PyObject *object, PyObject *args) {
    module_object *self = (module_object *)object;
    PyObject *owner, *ins, *result = NULL;
    int recorded;
    if (!module_of(object) ||
        !PyArg_ParseTuple(args, "OO!p", &owner, &PyList_Type, &ins, &recorded))
        return NULL;
    const shoal_graph *g = shoal_module_graph(self->module);
    shoal_session *session = session_of(owner);
    Py_ssize_t n = 0;
    shoal_tensor **inputs = session ? handles_of(ins, &n) : NULL;
    shoal_tensor **outputs = inputs ? calloc((size_t)g->n_outputs + 1, sizeof *outputs) : NULL;
    if (!inputs) return NULL;
    if (n != g->n_inputs) {
        PyErr_Format(errors[SHOAL_INVALID], "module: %zd inputs; it has %u", n, g->n_inputs);
    } else if (!outputs) {
        PyErr_NoMemory();
    } else {
        prepared *p = NULL;
        shoal_status status = recorded ? SHOAL_OK : prepare(self, owner, session, &p);
        if (status == SHOAL_OK) {
            Py_BEGIN_ALLOW_THREADS status =
                recorded ? shoal_module_apply(self->module, session, inputs, outputs)
                         : shoal_function_run(p->function, inputs, outputs);
            Py_END_ALLOW_THREADS
        }
        release(&p);
        result = status == SHOAL_OK ? tensors_of(outputs, g->n_outputs, owner) : raise(status);
    }
    free(inputs);
    free(outputs);
    return result;
}

static PyMethodDef module_methods[] = {
    {"types", module_types, METH_NOARGS, NULL}, {"gradient", module_gradient, METH_VARARGS, NULL},
    {"bind", module_bind, METH_VARARGS, NULL},  {"text", module_text, METH_NOARGS, NULL},
    {"run", module_run, METH_VARARGS, NULL},    {NULL, NULL, 0, NULL}};
static PyType_Slot module_slots[] = {{Py_tp_dealloc, module_dealloc},
                                     {Py_tp_init, module_init},
                                     {Py_tp_methods, module_methods},
                                     {0, NULL}};
PyType_Spec module_spec = {"shoal._shoal.Module", sizeof(module_object), 0, Py_TPFLAGS_DEFAULT,
                           module_slots};
