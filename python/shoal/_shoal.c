/* The C half of the Python package: sessions, tensor handles and files over shoal.h.
 *
 * It is written against the limited API of Python 3.11, so that one build serves all later ones.
 * Everything convenient (operators, NumPy, defaults) is in the Python half; what is here is what
 * needs speed, the buffer protocol or the interpreter's lock. Every call that may wait gives the
 * lock up. */
#include "hosted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *session_type, *tensor_type, *file_type, *module_type;
PyTypeObject *tensor_class; /* the Python half's subclass, once it is known */
PyObject *shape_class, *dtypes[SHOAL_DTYPE_COUNT];
PyObject *errors[SHOAL_STATUS_COUNT];
/* Frames in these are not the user's: of the package, and of one that is built on it. */
static char *package_folder, *other_folder;

/* ---- errors ---- */

PyObject *raise(shoal_status status) {
    /* An interruption has its exception set already (KeyboardInterrupt). */
    if (status == SHOAL_INTERRUPTED && PyErr_Occurred()) return NULL;
    PyObject *class = (unsigned)status < SHOAL_STATUS_COUNT ? errors[status] : NULL;
    PyErr_SetString(class ? class : PyExc_RuntimeError, shoal_error_message());
    return NULL;
}

/* Asked by a waiting thread, which has given the interpreter's lock up. */
bool interrupted(void *context) {
    (void)context;
    PyGILState_STATE state = PyGILState_Ensure();
    bool yes = PyErr_CheckSignals() != 0;
    PyGILState_Release(state);
    return yes;
}

/* ---- where the user's program is ---- */

/* Lines that were found last; the codes are held, so that their addresses stay theirs. */
enum { PLACES = 64 };
static struct place {
    PyObject *code;
    int at; /* the instruction */
    char text[160];
} places[PLACES];
static PyObject *name_back, *name_filename, *name_at;

static bool lies_in(const char *path, const char *folder) {
    return path && folder && !strncmp(path, folder, strlen(folder));
}

/* The same of codes: whether they are of this package. */
enum { CODES = 512 };
static struct known_code {
    PyObject *code;
    bool ours;
} known_codes[CODES];

static bool is_ours(PyObject *code) {
    struct known_code *known = &known_codes[(uintptr_t)code / 64 % CODES];
    if (known->code == code) return known->ours;
    PyObject *name = PyObject_GetAttr(code, name_filename);
    const char *path = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    bool ours = lies_in(path, package_folder) || lies_in(path, other_folder);
    Py_XDECREF(name);
    PyObject *was = known->code;
    *known = (struct known_code){Py_NewRef(code), ours};
    Py_XDECREF(was);
    return ours;
}

static const char *line_of(PyObject *frame, PyObject *code) {
    PyObject *number = PyObject_GetAttr(frame, name_at);
    int at = number ? (int)PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    struct place *place = &places[((uintptr_t)code / 16 + (unsigned)at) % PLACES];
    if (place->code == code && place->at == at) return place->text;
    PyObject *name = PyObject_GetAttr(code, name_filename);
    const char *path = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const char *base = path ? strrchr(path, '/') : NULL;
    Py_XDECREF(place->code);
    place->code = Py_NewRef(code);
    place->at = at;
    snprintf(place->text, sizeof place->text, "%s:%d",
             base   ? base + 1
             : path ? path
                    : "?",
             PyFrame_GetLineNumber((PyFrameObject *)frame));
    Py_XDECREF(name);
    return place->text;
}

static _Thread_local const char *noted;

const char *noted_location(void) { return noted; }

/* Tells the library the first line outside this package: part of its messages. */
void note_location(void) {
    const char *text = NULL;
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    if (!name_back) {
        name_back = PyUnicode_InternFromString("f_back");
        name_filename = PyUnicode_InternFromString("co_filename");
        name_at = PyUnicode_InternFromString("f_lasti");
    }
    Py_XINCREF(frame);
    while (frame && frame != Py_None && name_back && name_filename && name_at && !text) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame), *back = NULL;
        if (is_ours(code))
            back = PyObject_GetAttr(frame, name_back);
        else
            text = line_of(frame, code);
        Py_DECREF(code);
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    noted = text; /* in `places`, which is never freed */
    shoal_location(text);
}

/* ---- small conversions ---- */

/* A sequence of integers; at most `room`. Returns their number, or -1 with an exception. */
Py_ssize_t ints_of(PyObject *sequence, int64_t *out, Py_ssize_t room, const char *what) {
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

PyObject *tuple_of(const int64_t *values, uint32_t n) {
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

shoal_session *session_of(PyObject *object) {
    if (!PyObject_TypeCheck(object, session_type)) {
        PyErr_SetString(PyExc_TypeError, "a Session was expected");
        return NULL;
    }
    shoal_session *session = ((session_object *)object)->session;
    if (!session) PyErr_SetString(errors[SHOAL_CLOSED], "the session is closed");
    return session;
}

shoal_tensor *tensor_of(PyObject *object) {
    if (PyObject_TypeCheck(object, tensor_type)) {
        note_seen(object);
        return ((tensor_object *)object)->tensor;
    }
    PyErr_Format(PyExc_TypeError, "a Tensor was expected, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

/* Takes the handle over, also when it fails. */
PyObject *wrap(shoal_tensor *tensor, PyObject *session) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(tensor_class, Py_tp_alloc);
    tensor_object *self = (tensor_object *)alloc(tensor_class, 0);
    if (!self) {
        shoal_tensor_free(&tensor);
        return NULL;
    }
    self->tensor = tensor;
    self->session = Py_NewRef(session);
    for (int i = 0; i < TENSOR_NOTES; i++) self->notes[i] = Py_NewRef(Py_None);
    note_made((PyObject *)self, noted);
    return (PyObject *)self;
}

/* The result of a call that has filled *tensor. */
PyObject *finish(shoal_status status, shoal_tensor *const *tensor, PyObject *like) {
    if (status != SHOAL_OK) return raise(status);
    return wrap(*tensor, ((tensor_object *)like)->session);
}

shoal_tensor **handles_of(PyObject *sequence, Py_ssize_t *n) {
    PyObject *fast = PySequence_Tuple(sequence);
    if (!fast) return NULL;
    *n = PyTuple_Size(fast);
    shoal_tensor **handles = calloc((size_t)*n + 1, sizeof *handles);
    for (Py_ssize_t i = 0; handles && i < *n; i++) {
        PyObject *item = PyTuple_GetItem(fast, i);
        if (item == Py_None) continue;
        handles[i] = tensor_of(item);
        if (handles[i]) continue;
        free(handles);
        handles = NULL;
    }
    Py_DECREF(fast); /* the sequence itself holds the tensors */
    if (!handles && !PyErr_Occurred()) PyErr_NoMemory();
    return handles;
}

PyObject *tensors_of(shoal_tensor **handles, Py_ssize_t n, PyObject *session) {
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = Py_None;
        if (!handles[i])
            Py_INCREF(item);
        else
            item = wrap(handles[i], session);
        if (!item) {
            Py_CLEAR(list);
        } else if (!list) {
            Py_DECREF(item);
        } else if (PyList_SetItem(list, i, item)) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* ---- the module ---- */

/* setup(errors, tensor class, shape class, dtypes, folder): what the Python half brings. errors:
 * per status a class; dtypes: by their names. */
static PyObject *setup(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *classes, *class, *shapes, *kinds;
    const char *folder;
    if (!PyArg_ParseTuple(args, "O!OOO!s", &PyTuple_Type, &classes, &class, &shapes, &PyDict_Type,
                          &kinds, &folder))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_Size(classes) && i < SHOAL_STATUS_COUNT; i++) {
        Py_XDECREF(errors[i]);
        errors[i] = PyTuple_GetItem(classes, i);
        Py_INCREF(errors[i]);
    }
    for (int i = 0; i < SHOAL_DTYPE_COUNT; i++) {
        PyObject *kind = PyDict_GetItemString(kinds, shoal_dtype_name((shoal_dtype)i));
        Py_XDECREF(dtypes[i]);
        dtypes[i] = Py_XNewRef(kind);
    }
    Py_XDECREF(shape_class);
    shape_class = Py_NewRef(shapes);
    Py_INCREF(class);
    tensor_class = (PyTypeObject *)class;
    free(package_folder);
    package_folder = strdup(folder);
    Py_RETURN_NONE;
}

/* use_class(class, folder): what tensors are from now on, and where that package lies; returns what
 * they were. */
static PyObject *use_class(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *class;
    const char *folder;
    if (!PyArg_ParseTuple(args, "Os", &class, &folder)) return NULL;
    free(other_folder);
    other_folder = strdup(folder);
    for (int i = 0; i < CODES; i++) Py_CLEAR(known_codes[i].code);
    PyObject *before = (PyObject *)tensor_class; /* its reference goes to the caller */
    Py_INCREF(class);
    tensor_class = (PyTypeObject *)class;
    return before;
}

static PyObject *names_of(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *statuses = PyTuple_New(SHOAL_STATUS_COUNT), *operations = operation_names();
    for (int i = 0; statuses && operations && i < SHOAL_STATUS_COUNT; i++)
        if (PyTuple_SetItem(statuses, i, PyUnicode_FromString(shoal_status_name((shoal_status)i))))
            Py_CLEAR(statuses);
    if (statuses && operations)
        return Py_BuildValue("(sNN)", shoal_version(), statuses, operations);
    Py_XDECREF(statuses);
    Py_XDECREF(operations);
    return NULL;
}

static PyMethodDef functions[] = {{"setup", setup, METH_VARARGS, NULL},
                                  {"use_class", use_class, METH_VARARGS, NULL},
                                  {"event_kinds", event_kinds, METH_NOARGS, NULL},
                                  {"block_formats", block_formats, METH_NOARGS, NULL},
                                  {"file_digest", file_digest, METH_VARARGS, NULL},
                                  {"names", names_of, METH_NOARGS, NULL},
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
    PyTypeObject *function_type = (PyTypeObject *)PyType_FromSpec(&function_spec);
    module_type = (PyTypeObject *)PyType_FromSpec(&module_spec);
    PyObject *tuple = PyTuple_Pack(1, &PyTuple_Type);
    PyObject *lengths_type = tuple ? PyType_FromSpecWithBases(&lengths_spec, tuple) : NULL;
    Py_XDECREF(tuple);
    hosted_buffer_type = (PyTypeObject *)PyType_FromSpec(&hosted_buffer_spec);
    PyObject *hosting = hosted_capsule();
    tensor_class = tensor_type;
    if (!hosted_buffer_type || !hosting || !lengths_type || !session_type || !tensor_type ||
        !file_type || !function_type || !module_type ||
        PyModule_AddFunctions(module, operation_functions) ||
        PyModule_AddFunctions(module, arithmetic_functions) ||
        PyModule_AddFunctions(module, gradient_functions) ||
        PyModule_AddFunctions(module, signal_functions) ||
        PyModule_AddFunctions(module, replay_functions) ||
        PyModule_AddFunctions(module, kernel_functions) ||
        PyModule_AddFunctions(module, hosted_functions) ||
        PyModule_AddFunctions(module, artifact_functions) ||
        PyModule_AddObjectRef(module, "Buffer", (PyObject *)hosted_buffer_type) ||
        PyModule_AddObjectRef(module, "hosting", hosting) ||
        PyModule_AddObjectRef(module, "Function", (PyObject *)function_type) ||
        PyModule_AddObjectRef(module, "Module", (PyObject *)module_type) ||
        PyModule_AddObjectRef(module, "Lengths", lengths_type) ||
        PyModule_AddObjectRef(module, "Session", (PyObject *)session_type) ||
        PyModule_AddObjectRef(module, "Tensor", (PyObject *)tensor_type) ||
        PyModule_AddObjectRef(module, "File", (PyObject *)file_type)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
