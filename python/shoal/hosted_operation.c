/* Operations of users that Python computes (shoal.hosted.register_op), as tables of
 * shoal/backend.h. They run with the interpreter's lock, in a worker that holds no other. */
#include "hosted.h"

#include <stdio.h>
#include <stdlib.h>

/* Never freed, as the table of an operation is not. */
typedef struct own_operation {
    shoal_operation table;
    PyObject *function, *opencl, *cuda; /* the function; its source as text, or None */
    char name[64];
} own_operation;

/* (bytes, element type, shape) of a tensor. */
static PyObject *array_of(const shoal_type *type, const void *data, bool writable) {
    size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    PyObject *shape = PyTuple_New(type->rank);
    for (uint32_t a = 0; shape && a < type->rank; a++) {
        bytes *= (size_t)type->dims[a];
        PyTuple_SetItem(shape, a, PyLong_FromLongLong(type->dims[a]));
    }
    if (!shape) return NULL;
    PyObject *view = PyMemoryView_FromMemory((char *)data, (Py_ssize_t)bytes,
                                             writable ? PyBUF_WRITE : PyBUF_READ);
    return Py_BuildValue("(NsN)", view, shoal_dtype_name((shoal_dtype)type->dtype), shape);
}

static shoal_status run_operation(const shoal_host *host, void *context, const shoal_type *types,
                                  const void *const *inputs, uint32_t n_inputs,
                                  const shoal_type *type, void *output) {
    const own_operation *mine = context;
    hosted_entry inside_python = hosted_enter();
    shoal_status status = SHOAL_OK;
    PyObject *package = PyImport_ImportModule("shoal.hosted"), *made = NULL;
    PyObject *operands = package ? PyTuple_New(n_inputs) : NULL;
    for (uint32_t i = 0; operands && i < n_inputs; i++) {
        PyObject *operand = array_of(&types[i], inputs[i], false);
        if (!operand)
            Py_CLEAR(operands);
        else
            PyTuple_SetItem(operands, i, operand);
    }
    PyObject *result = operands ? array_of(type, output, true) : NULL;
    if (result)
        made = PyObject_CallMethod(package, "_run", "OOO", mine->function, operands, result);
    if (!made) {
        char text[480];
        status = hosted_take_exception(text, sizeof text);
        host->fail(status, "%s", text);
    }
    Py_XDECREF(made);
    Py_XDECREF(result);
    Py_XDECREF(operands);
    Py_XDECREF(package);
    hosted_leave(inside_python);
    return status;
}

/* NULL with an exception. */
static const shoal_operation *make_operation(PyObject *told) {
    const char *name;
    PyObject *function, *opencl, *cuda;
    if (!PyArg_ParseTuple(told, "sOOO", &name, &function, &opencl, &cuda)) return NULL;
    const char *texts[2] = {NULL, NULL};
    PyObject *const sources[] = {opencl, cuda};
    for (int i = 0; i < 2; i++)
        if (sources[i] != Py_None && !(texts[i] = PyUnicode_AsUTF8AndSize(sources[i], NULL)))
            return NULL;
    own_operation *mine = calloc(1, sizeof *mine);
    if (!mine) return (const shoal_operation *)PyErr_NoMemory();
    snprintf(mine->name, sizeof mine->name, "%s", name);
    mine->function = Py_NewRef(function);
    mine->opencl = Py_NewRef(opencl);
    mine->cuda = Py_NewRef(cuda);
    mine->table =
        (shoal_operation){sizeof mine->table, mine->name, run_operation, mine, texts[0], texts[1]};
    return &mine->table;
}

PyObject *hosted_add_operation(PyObject *module, PyObject *told) {
    (void)module;
    const shoal_operation *made = make_operation(told);
    if (!made) return NULL;
    shoal_status status = shoal_operation_add(made);
    if (status) return raise(status);
    Py_RETURN_NONE;
}

shoal_status hosted_load_operations(const shoal_host *host, PyObject *package) {
    shoal_status status = SHOAL_OK;
    if (host->operation_add == shoal_operation_add) return SHOAL_OK;
    PyObject *all = PyObject_CallMethod(package, "_take_operations", NULL);
    for (Py_ssize_t i = 0; all && !status && i < PyList_Size(all); i++) {
        const shoal_operation *made = make_operation(PyList_GetItem(all, i));
        status = made ? host->operation_add(made) : SHOAL_NO_MEMORY;
    }
    if (!all) status = SHOAL_INTERNAL;
    Py_XDECREF(all);
    return status;
}
