/* Functions, and what their recording has to know of Python's objects: which tensors were read,
 * which were made, and which have changed. */
#include "module.h"

#include "shoal/stablehlo.h"

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

/* ---- loops ---- */

typedef struct loop_object {
    PyObject_HEAD shoal_loop *loop;
    PyObject *session;
    bool busy; /* a thread waits for a round */
} loop_object;

static PyTypeObject *loop_type;

static void loop_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    loop_object *self = (loop_object *)object;
    Py_BEGIN_ALLOW_THREADS shoal_loop_free(&self->loop);
    Py_END_ALLOW_THREADS Py_XDECREF(self->session);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* next(buffers) -> whether there was a round: what it streams is in the buffers */
static PyObject *loop_next(PyObject *object, PyObject *buffers) {
    loop_object *self = (loop_object *)object;
    Py_ssize_t n = PyList_Check(buffers) ? PyList_Size(buffers) : -1, held = 0;
    if (n < 0) return PyErr_Format(PyExc_TypeError, "next(list of buffers)");
    if (self->busy) return PyErr_Format(PyExc_ValueError, "another thread waits for the loop");
    Py_buffer *views = calloc((size_t)n + 1, sizeof *views);
    void **data = calloc((size_t)n + 1, sizeof *data);
    size_t *bytes = calloc((size_t)n + 1, sizeof *bytes);
    bool room = views && data && bytes, more = false;
    shoal_status status = SHOAL_OK;
    if (!room) PyErr_NoMemory();
    for (; room && held < n; held++) {
        if (PyObject_GetBuffer(PyList_GetItem(buffers, held), &views[held],
                               PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS))
            break;
        data[held] = views[held].buf;
        bytes[held] = (size_t)views[held].len;
    }
    room = room && held == n;
    self->busy = true;
    if (room) {
        Py_BEGIN_ALLOW_THREADS status = shoal_loop_next(self->loop, data, bytes, &more);
        Py_END_ALLOW_THREADS
    }
    self->busy = false;
    while (held > 0) PyBuffer_Release(&views[--held]);
    free(views);
    free(data);
    free(bytes);
    if (status != SHOAL_OK) return raise(status);
    return room ? PyBool_FromLong(more) : NULL;
}

static PyObject *loop_rounds(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(shoal_loop_rounds(((loop_object *)self)->loop));
}

static PyObject *loop_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_status status = shoal_loop_cancel(((loop_object *)self)->loop);
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyMethodDef loop_methods[] = {{"next", loop_next, METH_O, NULL},
                                     {"rounds", loop_rounds, METH_NOARGS, NULL},
                                     {"cancel", loop_cancel, METH_NOARGS, NULL},
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot loop_slots[] = {
    {Py_tp_dealloc, loop_dealloc}, {Py_tp_methods, loop_methods}, {0, NULL}};
static PyType_Spec loop_spec = {"shoal._shoal.Loop", sizeof(loop_object), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, loop_slots};

/* Numbers of a list, which are freed with free(). */
static uint32_t *numbers_of(PyObject *list, uint32_t *n) {
    Py_ssize_t count = PyList_Size(list);
    uint32_t *numbers = calloc((size_t)count + 1, sizeof *numbers);
    if (!numbers) return PyErr_NoMemory(), NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned long number = PyLong_AsUnsignedLong(PyList_GetItem(list, i));
        numbers[i] = number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
    }
    *n = (uint32_t)count;
    if (!PyErr_Occurred()) return numbers;
    free(numbers);
    return NULL;
}

static PyObject *started(shoal_loop *loop, shoal_tensor **outputs, const function_object *f) {
    if (!loop_type) loop_type = (PyTypeObject *)PyType_FromSpec(&loop_spec);
    loop_object *object =
        loop_type ? (loop_object *)((allocfunc)PyType_GetSlot(loop_type, Py_tp_alloc))(loop_type, 0)
                  : NULL;
    PyObject *tensors = tensors_of(outputs, f->n_outputs, f->session);
    if (object) {
        object->loop = loop;
        object->session = Py_NewRef(f->session);
    } else {
        shoal_loop_free(&loop);
    }
    PyObject *result = object && tensors ? PyTuple_Pack(2, object, tensors) : NULL;
    Py_XDECREF((PyObject *)object);
    Py_XDECREF(tensors);
    return result;
}

/* repeat(inputs, rounds, outputs carried, inputs carried to, outputs streamed, inputs fed, output
 * that stops or -1) -> (Loop, outputs of the last round): all lists */
static PyObject *function_repeat(PyObject *object, PyObject *args) {
    function_object *self = (function_object *)object;
    PyObject *ins, *lists[4];
    unsigned long long rounds;
    int stop;
    if (!PyArg_ParseTuple(args, "O!KO!O!O!O!i", &PyList_Type, &ins, &rounds, &PyList_Type,
                          &lists[0], &PyList_Type, &lists[1], &PyList_Type, &lists[2], &PyList_Type,
                          &lists[3], &stop))
        return NULL;
    if (PyList_Size(lists[0]) != PyList_Size(lists[1]))
        return PyErr_Format(PyExc_ValueError, "outputs and inputs that are carried come in pairs");
    Py_ssize_t n_inputs = 0;
    uint32_t *numbers[4] = {NULL}, count[4] = {0};
    shoal_tensor **inputs = handles_of(ins, &n_inputs);
    shoal_tensor **outputs = calloc((size_t)self->n_outputs + 1, sizeof *outputs);
    bool well = inputs && outputs;
    for (int i = 0; well && i < 4; i++) well = (numbers[i] = numbers_of(lists[i], &count[i]));
    shoal_carry *carry = calloc((size_t)count[0] + 1, sizeof *carry);
    PyObject *result = NULL;
    if (well && n_inputs != self->n_inputs) {
        PyErr_Format(errors[SHOAL_INVALID], "function: %zd inputs; it has %zd", n_inputs,
                     self->n_inputs);
    } else if (well && carry) {
        for (uint32_t i = 0; i < count[0]; i++)
            carry[i] = (shoal_carry){numbers[0][i], numbers[1][i]};
        const shoal_repeat repeat = {.size = sizeof repeat,
                                     .rounds = rounds,
                                     .n_carry = count[0],
                                     .carry = carry,
                                     .n_stream = count[2],
                                     .stream = numbers[2],
                                     .n_feed = count[3],
                                     .feed = numbers[3],
                                     .stops = stop >= 0,
                                     .stop = stop < 0 ? 0 : (uint32_t)stop};
        shoal_loop *loop = NULL;
        shoal_status status;
        Py_BEGIN_ALLOW_THREADS status =
            shoal_function_repeat(self->function, inputs, &repeat, outputs, &loop);
        Py_END_ALLOW_THREADS result =
            status == SHOAL_OK ? started(loop, outputs, self) : raise(status);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    for (int i = 0; i < 4; i++) free(numbers[i]);
    free(carry);
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

/* module() -> Module: what it computes */
static PyObject *function_module(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_module *module;
    shoal_status status = shoal_module_of(((function_object *)self)->function, &module);
    return status == SHOAL_OK ? wrap_module(module) : raise(status);
}

static PyMethodDef function_methods[] = {{"run", function_run, METH_O, NULL},
                                         {"repeat", function_repeat, METH_VARARGS, NULL},
                                         {"donate", function_donate, METH_VARARGS, NULL},
                                         {"uses", function_uses, METH_O, NULL},
                                         {"current", function_current, METH_NOARGS, NULL},
                                         {"module", function_module, METH_NOARGS, NULL},
                                         {NULL, NULL, 0, NULL}};
static PyType_Slot function_slots[] = {{Py_tp_dealloc, function_dealloc},
                                       {Py_tp_init, function_init},
                                       {Py_tp_methods, function_methods},
                                       {0, NULL}};
PyType_Spec function_spec = {"shoal._shoal.Function", sizeof(function_object), 0,
                             Py_TPFLAGS_DEFAULT, function_slots};

PyMethodDef replay_functions[] = {{"record", record, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
