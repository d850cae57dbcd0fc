/* What the files of the extension share. Every function is called with the interpreter's lock held,
 * but for `interrupted`. */
#ifndef SHOAL_PYTHON_MODULE_H
#define SHOAL_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "shoal/shoal.h"

/* What the Python half notes of a tensor, each None to begin with: there is no cheap way to ask a
 * Python object for an attribute that it has not. */
#define TENSOR_NOTE_MAP(XX) XX(_grad) XX(_hooks) XX(_known) XX(_view) XX(_views)
enum {
#define XX(name) NOTE##name,
    TENSOR_NOTE_MAP(XX)
#undef XX
        TENSOR_NOTES
};

typedef struct session_object {
    PyObject_HEAD shoal_session *session;
} session_object;

typedef struct tensor_object {
    PyObject_HEAD shoal_tensor *tensor;
    PyObject *session; /* keeps it open */
    PyObject *shape;   /* once it was asked for, or NULL */
    PyObject *notes[TENSOR_NOTES];
} tensor_object;

typedef struct file_object {
    PyObject_HEAD shoal_file *file;
} file_object;

extern PyTypeObject *session_type, *tensor_type, *file_type, *module_type;
extern PyTypeObject *tensor_class; /* the Python half's subclass, once it is known */
extern PyObject *shape_class;      /* what a shape is made of from a tuple */
extern PyObject *dtypes[SHOAL_DTYPE_COUNT];
extern PyObject *errors[SHOAL_STATUS_COUNT];

/* Sets the exception of a failed call and returns NULL. */
PyObject *raise(shoal_status status);
/* Asked by a waiting thread, which has given the interpreter's lock up. */
bool interrupted(void *context);
/* Tells the library the first line outside this package: part of its messages. */
void note_location(void);

/* That line, or NULL. */
const char *noted_location(void);

/* A sequence of integers; at most `room`. Returns their number, or -1 with an exception. */
Py_ssize_t ints_of(PyObject *sequence, int64_t *out, Py_ssize_t room, const char *what);
PyObject *tuple_of(const int64_t *values, uint32_t n);
/* The element type of a buffer; -1 with an exception when it has none here. */
int dtype_of(const Py_buffer *view, shoal_dtype *out);
/* Attributes, and the lists that they point to; strings are the dict's. */
enum { MAX_ATTRS = 16 };
typedef struct attr_store {
    shoal_attr attrs[MAX_ATTRS];
    int64_t *ints[MAX_ATTRS];
    int n;
} attr_store;
/* Adds those of a dict (or None) by name; -1 with an exception. attrs_fini in either case. */
int attrs_of(PyObject *dict, attr_store *store);
void attrs_fini(attr_store *store);
/* The handle inside an object; NULL with an exception when it is of another type, or closed. */
shoal_session *session_of(PyObject *object);
shoal_tensor *tensor_of(PyObject *object);
/* An object for a handle, which it takes over, also when it fails. */
PyObject *wrap(shoal_tensor *tensor, PyObject *session);
/* The result of a call that has filled *tensor. */
PyObject *finish(shoal_status status, shoal_tensor *const *tensor, PyObject *like);

/* The handles of a sequence of tensors (None: NULL), to be freed with free(). */
shoal_tensor **handles_of(PyObject *sequence, Py_ssize_t *n);
/* Tensors for handles, which are given up; None for NULL. */
PyObject *tensors_of(shoal_tensor **handles, Py_ssize_t n, PyObject *session);

/* What replay.c has to know while this thread records a function; nothing is noted otherwise. */
bool recording(void);
void note_seen(PyObject *tensor); /* an object is an operand */
void note_made(PyObject *tensor, const char *line);
void note_changed(PyObject *tensor); /* it stands for another value */
void note_read(void);                /* elements are asked for */

/* An object for a module, which it takes over, also when it fails. */
struct shoal_module;
PyObject *wrap_module(struct shoal_module *module);

/* Releases the buffers that the library has given back since. */
void release_buffers(void);

/* The types, for the module to make; and the module's functions. */
extern PyType_Spec lengths_spec, session_spec, tensor_spec, file_spec, function_spec, module_spec;
extern PyMethodDef operation_functions[], arithmetic_functions[], gradient_functions[],
    signal_functions[], replay_functions[], kernel_functions[];
PyObject *session_events(PyObject *self, PyObject *args);
PyObject *block_formats(PyObject *module, PyObject *unused);
PyObject *file_digest(PyObject *module, PyObject *args);
PyObject *event_kinds(PyObject *module, PyObject *unused);
PyObject *tensor_requires_grad(PyObject *self, void *unused);
PyObject *tensor_is_leaf(PyObject *self, void *unused);
PyObject *tensor_origin(PyObject *self, void *unused);
PyObject *tensor_identity(PyObject *self, void *unused);
PyObject *tensor_require(PyObject *self, PyObject *required);
PyObject *tensor_watch(PyObject *self, PyObject *unused);
PyObject *tensor_detach(PyObject *self, PyObject *unused);
PyObject *tensor_detach_self(PyObject *self, PyObject *unused);
PyObject *tensor_rebind(PyObject *self, PyObject *other);
PyObject *tensor_change(PyObject *self, PyObject *other);
PyObject *tensor_swap(PyObject *self, PyObject *other);
PyObject *operation_names(void);                /* (unary names, binary names) */
PyObject *tensor_add(PyObject *a, PyObject *b); /* the operators */
PyObject *tensor_subtract(PyObject *a, PyObject *b);
PyObject *tensor_multiply(PyObject *a, PyObject *b);
PyObject *tensor_divide(PyObject *a, PyObject *b);
PyObject *write_npy(PyObject *module, PyObject *args);

#endif
