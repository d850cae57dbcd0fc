/* Functions, and what their recording has to know of Python's objects: which tensors were read,
 * which were made, and which have changed. */
#include "module.h"

#include <stdlib.h>

/* ---- what is noted while a function is recorded ---- */

/* Of the thread that records, or NULL. */
static _Thread_local PyObject *seen;    /* dict: handle -> (object, handle as it was, value) */
static _Thread_local PyObject *made;    /* list of (weak reference, line) */
static _Thread_local PyObject *changed; /* dict: object's address -> weak reference */
static _Thread_local PyObject *reads;   /* list of lines */

bool recording(void) { return seen != NULL; }

/* A failure here is one of memory: what was not noted makes the recording fail, or the function. */
void note_seen(PyObject *object) {
    shoal_tensor *tensor = ((tensor_object *)object)->tensor;
    uint64_t value = seen ? shoal_tensor_value(tensor) : 0;
    PyObject *key = value ? PyLong_FromVoidPtr(tensor) : NULL;
    if (!key) return;
    if (!PyDict_GetItemWithError(seen, key) && !PyErr_Occurred()) {
        PyObject *was = wrap(shoal_tensor_retain(tensor), ((tensor_object *)object)->session);
        PyObject *entry =
            was ? Py_BuildValue("(OOK)", object, was, (unsigned long long)value) : NULL;
        if (entry) PyDict_SetItem(seen, key, entry);
        Py_XDECREF(was);
        Py_XDECREF(entry);
    }
    Py_DECREF(key);
}

void note_made(PyObject *object, const char *line) {
    PyObject *reference = made ? PyWeakref_NewRef(object, NULL) : NULL;
    PyObject *entry = reference ? Py_BuildValue("(Nz)", reference, line) : NULL;
    if (entry) PyList_Append(made, entry);
    Py_XDECREF(entry);
}

void note_changed(PyObject *object) {
    PyObject *key = changed ? PyLong_FromVoidPtr(object) : NULL;
    PyObject *reference = key ? PyWeakref_NewRef(object, NULL) : NULL;
    if (reference) PyDict_SetItem(changed, key, reference);
    Py_XDECREF(key);
    Py_XDECREF(reference);
}

void note_read(void) {
    if (!reads) return;
    note_location();
    const char *line = noted_location();
    PyObject *text = PyUnicode_FromString(line ? line : "?");
    if (text) PyList_Append(reads, text);
    Py_XDECREF(text);
}

/* record(seen, made, changed, reads), or record() to end it: this thread. */
static PyObject *record(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *to[4] = {NULL}, **from[4] = {&seen, &made, &changed, &reads};
    if (!PyArg_ParseTuple(args, "|O!O!O!O!", &PyDict_Type, &to[0], &PyList_Type, &to[1],
                          &PyDict_Type, &to[2], &PyList_Type, &to[3]))
        return NULL;
    for (int i = 0; i < 4; i++) {
        PyObject *was = *from[i];
        *from[i] = Py_XNewRef(to[i]);
        Py_XDECREF(was);
    }
    Py_RETURN_NONE;
}

/* ---- functions ---- */

typedef struct function_object {
    PyObject_HEAD shoal_function *function;
    PyObject *session;
    Py_ssize_t n_inputs, n_outputs;
} function_object;

static void function_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    function_object *self = (function_object *)object;
    shoal_function_free(&self->function);
    Py_XDECREF(self->session);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Function(session, inputs, outputs): lists of tensors */
static int function_init(PyObject *object, PyObject *args, PyObject *keywords) {
    function_object *self = (function_object *)object;
    PyObject *owner, *ins, *outs;
    if (keywords ||
        !PyArg_ParseTuple(args, "OO!O!", &owner, &PyList_Type, &ins, &PyList_Type, &outs))
        return PyErr_SetString(PyExc_TypeError, "Function(session, inputs, outputs)"), -1;
    shoal_session *session = session_of(owner);
    if (!session || self->function) return -1;
    shoal_tensor **inputs = handles_of(ins, &self->n_inputs), **outputs = NULL;
    if (inputs) outputs = handles_of(outs, &self->n_outputs);
    shoal_status status = SHOAL_OK;
    if (outputs)
        status = shoal_function_new(session, inputs, (uint32_t)self->n_inputs, outputs,
                                    (uint32_t)self->n_outputs, &self->function);
    self->session = Py_NewRef(owner);
    free(inputs);
    free(outputs);
    if (status != SHOAL_OK) raise(status);
    return self->function ? 0 : -1;
}

/* run(inputs) -> list of outputs */
static PyObject *function_run(PyObject *object, PyObject *ins) {
    function_object *self = (function_object *)object;
    Py_ssize_t n = 0;
    shoal_tensor **inputs = handles_of(ins, &n);
    shoal_tensor **outputs = inputs ? calloc((size_t)self->n_outputs + 1, sizeof *outputs) : NULL;
    PyObject *result = NULL;
    if (!inputs) return NULL;
    if (n != self->n_inputs) {
        PyErr_Format(errors[SHOAL_INVALID], "function: %zd inputs; it has %zd", n, self->n_inputs);
    } else if (!outputs) {
        PyErr_NoMemory();
    } else {
        shoal_status status;
        Py_BEGIN_ALLOW_THREADS status = shoal_function_run(self->function, inputs, outputs);
        Py_END_ALLOW_THREADS result = status == SHOAL_OK
                                          ? tensors_of(outputs, self->n_outputs, self->session)
                                          : raise(status);
    }
    free(inputs);
    free(outputs);
    return result;
}

/* donate(input, always) */
static PyObject *function_donate(PyObject *self, PyObject *args) {
    unsigned input;
    int always;
    if (!PyArg_ParseTuple(args, "Ip", &input, &always)) return NULL;
    shoal_status status =
        shoal_function_donate(((function_object *)self)->function, input,
                              always ? SHOAL_DONATE_ALWAYS : SHOAL_DONATE_IF_LAST);
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyObject *function_uses(PyObject *self, PyObject *number) {
    long i = PyLong_AsLong(number);
    if (i == -1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(shoal_function_uses(((function_object *)self)->function, (uint32_t)i));
}

static PyObject *function_current(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(shoal_function_is_current(((function_object *)self)->function));
}

static PyMethodDef function_methods[] = {{"run", function_run, METH_O, NULL},
                                         {"donate", function_donate, METH_VARARGS, NULL},
                                         {"uses", function_uses, METH_O, NULL},
                                         {"current", function_current, METH_NOARGS, NULL},
                                         {NULL, NULL, 0, NULL}};
static PyType_Slot function_slots[] = {{Py_tp_dealloc, function_dealloc},
                                       {Py_tp_init, function_init},
                                       {Py_tp_methods, function_methods},
                                       {0, NULL}};
PyType_Spec function_spec = {"shoal._shoal.Function", sizeof(function_object), 0,
                             Py_TPFLAGS_DEFAULT, function_slots};

PyMethodDef replay_functions[] = {{"record", record, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
