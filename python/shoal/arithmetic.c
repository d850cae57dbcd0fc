/* Python's operators, and numbers as operands. What is common (tensors of one element type, a
 * number that this type holds) is done here; for all else the tensor's method `_operated` is
 * called. */
#include "module.h"

#include <float.h>
#include <math.h>
#include <stdint.h>

/* *made: the number as a scalar of a tensor's element type, or NULL where Python's half has to see
 * to it. A failure of the library is returned. */
static shoal_status number_like(shoal_tensor *like, shoal_session *session, PyObject *number,
                                shoal_tensor **made) {
    const shoal_dtype dtype = (shoal_dtype)shoal_tensor_type(like)->dtype;
    const bool whole = PyLong_CheckExact(number);
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
    } element;
    *made = NULL;
    if (dtype == SHOAL_F32 || dtype == SHOAL_F64) {
        if (!whole && !PyFloat_CheckExact(number)) return SHOAL_OK;
        double value = whole ? PyLong_AsDouble(number) : PyFloat_AsDouble(number);
        if (whole && value == -1 && PyErr_Occurred()) return PyErr_Clear(), SHOAL_OK;
        if (dtype == SHOAL_F64) {
            element.f64 = value;
        } else {
            if (isfinite(value) && fabs(value) > FLT_MAX) return SHOAL_OK;
            element.f32 = (float)value;
        }
    } else if ((dtype == SHOAL_I64 || dtype == SHOAL_I32) && whole) {
        int overflow;
        long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
        if (overflow || (dtype == SHOAL_I32 && (value < INT32_MIN || value > INT32_MAX)))
            return SHOAL_OK;
        if (dtype == SHOAL_I32)
            element.i32 = (int32_t)value;
        else
            element.i64 = value;
    } else {
        return SHOAL_OK;
    }
    return shoal_tensor_new(session, dtype, 0, NULL, &element, made);
}

/* number(tensor, number) -> the number as a tensor of that one's element type, or None */
static PyObject *number_of(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    (void)module;
    if (n != 2) return PyErr_Format(PyExc_TypeError, "number(tensor, number)");
    shoal_tensor *like = tensor_of(args[0]), *made;
    if (!like) return NULL;
    PyObject *owner = ((tensor_object *)args[0])->session;
    shoal_session *session = session_of(owner);
    if (!session) return NULL;
    shoal_status status = number_like(like, session, args[1], &made);
    if (status != SHOAL_OK) return raise(status);
    if (!made) Py_RETURN_NONE;
    return wrap(made, owner);
}

typedef shoal_status (*binary_call)(shoal_tensor *, shoal_tensor *, shoal_tensor **);

static PyObject *operated(const char *name, PyObject *a, PyObject *b) {
    bool first = PyObject_TypeCheck(a, tensor_type);
    return PyObject_CallMethod(first ? a : b, "_operated", "sOO", name, first ? b : a,
                               first ? Py_False : Py_True);
}

static PyObject *operator(const char *name, binary_call call, PyObject *a, PyObject *b) {
    PyObject *both[] = {a, b};
    shoal_tensor *operands[2], *number = NULL, *out;
    bool are[2];
    for (int i = 0; i < 2; i++) {
        are[i] = PyObject_TypeCheck(both[i], tensor_type);
        operands[i] = are[i] ? ((tensor_object *)both[i])->tensor : NULL;
    }
    const int mine = are[0] ? 0 : 1;
    const shoal_dtype dtype = (shoal_dtype)shoal_tensor_type(operands[mine])->dtype;
    if (call == shoal_divide && shoal_dtype_kind(dtype) != 'f') return operated(name, a, b);
    if (are[0] && are[1]) {
        if (shoal_tensor_type(operands[1])->dtype != dtype) return operated(name, a, b);
    } else {
        /* While a function is recorded, numbers have to be objects, which are noted. */
        shoal_session *session = session_of(((tensor_object *)both[mine])->session);
        if (!session) return NULL;
        shoal_status status = SHOAL_OK;
        if (!recording()) status = number_like(operands[mine], session, both[1 - mine], &number);
        if (status != SHOAL_OK) return raise(status);
        if (!number) return operated(name, a, b);
        operands[1 - mine] = number;
    }
    for (int i = 0; i < 2; i++)
        if (are[i]) note_seen(both[i]);
    note_location();
    PyObject *result = finish(call(operands[0], operands[1], &out), &out, both[mine]);
    shoal_tensor_free(&number);
    return result;
}

PyObject *tensor_add(PyObject *a, PyObject *b) { return operator("add", shoal_add, a, b); }
PyObject *tensor_subtract(PyObject *a, PyObject *b) {
    return operator("subtract", shoal_subtract, a, b);
}
PyObject *tensor_multiply(PyObject *a, PyObject *b) {
    return operator("multiply", shoal_multiply, a, b);
}
PyObject *tensor_divide(PyObject *a, PyObject *b) { return operator("divide", shoal_divide, a, b); }

PyMethodDef arithmetic_functions[] = {
    {"number", (PyCFunction)(void (*)(void))number_of, METH_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
