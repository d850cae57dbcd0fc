/* Signals: descriptions, scopes of this thread, placing. */
#include "module.h"

#include <stdlib.h>

static PyObject *none_or(shoal_status status) {
    if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

static PyObject *load(PyObject *module, PyObject *args) {
    const char *path;
    (void)module;
    return PyArg_ParseTuple(args, "s", &path) ? none_or(shoal_signals_load(path)) : NULL;
}

static PyObject *parse(PyObject *module, PyObject *args) {
    const char *text, *source;
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "s#s", &text, &n, &source)) return NULL;
    return none_or(shoal_signals_parse(text, (size_t)n, source));
}

/* Numbers of a sequence, or NULL: with *n 0 for None, with an exception otherwise. */
static double *numbers_of(PyObject *sequence, uint32_t *n) {
    *n = 0;
    if (sequence == Py_None) return NULL;
    PyObject *items = PySequence_Tuple(sequence);
    if (!items) return NULL;
    Py_ssize_t count = PyTuple_Size(items);
    double *numbers = count < 1 << 16 ? calloc((size_t)count + 1, sizeof *numbers) : NULL;
    if (!numbers) PyErr_NoMemory();
    for (Py_ssize_t i = 0; numbers && i < count; i++) {
        numbers[i] = PyFloat_AsDouble(PyTuple_GetItem(items, i));
        if (PyErr_Occurred()) {
            free(numbers);
            numbers = NULL;
        }
    }
    Py_DECREF(items);
    if (numbers) *n = (uint32_t)count;
    return numbers;
}

/* describe(name, shard, axis, replicated, workers, shares, backward, compile) */
static PyObject *describe(PyObject *module, PyObject *args) {
    shoal_signal signal = {.size = sizeof signal};
    PyObject *workers, *shares;
    int shard, replicated, compile;
    uint32_t n = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "spipOOzp", &signal.name, &shard, &signal.axis, &replicated,
                          &workers, &shares, &signal.backward, &compile))
        return NULL;
    signal.shard = shard;
    signal.replicated = replicated;
    signal.compile = compile;
    double *given = numbers_of(workers, &n);
    if (PyErr_Occurred()) return NULL;
    uint32_t *numbers = calloc(n + (size_t)1, sizeof *numbers);
    double *parts = numbers_of(shares, &signal.n_shares);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; numbers && i < n; i++) {
        if (!(given[i] >= 0 && given[i] < 1e6)) {
            PyErr_Format(errors[SHOAL_INVALID],
                         "signal '%s': %R are no workers; give numbers from 0", signal.name,
                         workers);
            break;
        }
        numbers[i] = (uint32_t)given[i];
    }
    signal.workers = numbers;
    signal.n_workers = n;
    signal.shares = parts;
    if (!numbers) PyErr_NoMemory();
    if (!PyErr_Occurred()) status = shoal_signal_describe(&signal);
    free(given);
    free(numbers);
    free(parts);
    return PyErr_Occurred() ? NULL : none_or(status);
}

static PyObject *list_of(const shoal_signal *s, bool shares) {
    uint32_t n = shares ? s->n_shares : s->n_workers;
    if (!n || (shares && !s->shares)) Py_RETURN_NONE;
    PyObject *list = PyList_New(n);
    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *number =
            shares ? PyFloat_FromDouble(s->shares[i]) : PyLong_FromUnsignedLong(s->workers[i]);
        if (!number || PyList_SetItem(list, i, number)) Py_CLEAR(list);
    }
    return list;
}

static void append(void *list, const shoal_signal *s) {
    if (PyErr_Occurred()) return;
    PyObject *row = Py_BuildValue(
        "{sssNsisNsNsNszsN}", "name", s->name, "shard", PyBool_FromLong(s->shard), "axis", s->axis,
        "replicated", PyBool_FromLong(s->replicated), "workers", list_of(s, false), "shares",
        list_of(s, true), "backward", s->backward, "compile", PyBool_FromLong(s->compile));
    if (row) PyList_Append(list, row);
    Py_XDECREF(row);
}

static PyObject *signals(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    if (list) shoal_signals_each(append, list);
    if (PyErr_Occurred()) Py_CLEAR(list);
    return list;
}

static PyObject *clear(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    shoal_signals_clear();
    Py_RETURN_NONE;
}

/* enter(session, name, backward), leave(session, name) */
static PyObject *enter(PyObject *module, PyObject *args) {
    PyObject *object;
    const char *name, *backward;
    (void)module;
    if (!PyArg_ParseTuple(args, "Ozz", &object, &name, &backward)) return NULL;
    shoal_session *session = session_of(object);
    if (!session) return NULL;
    shoal_status status;
    /* Scopes are the thread's, which stays this one. */
    Py_BEGIN_ALLOW_THREADS status = shoal_signal_enter(session, name, backward);
    Py_END_ALLOW_THREADS return none_or(status);
}

static PyObject *leave(PyObject *module, PyObject *args) {
    PyObject *object;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oz", &object, &name)) return NULL;
    shoal_session *session = session_of(object);
    if (!session) return NULL;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_signal_exit(session, name);
    Py_END_ALLOW_THREADS return none_or(status);
}

/* scopes(): (name, backward) of each, the innermost first. */
static PyObject *scopes(PyObject *module, PyObject *unused) {
    const char *name, *backward;
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && shoal_signal_scope(i, &name, &backward); i++) {
        PyObject *row = Py_BuildValue("(zz)", name, backward);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *place(PyObject *module, PyObject *args) {
    PyObject *object;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "Os", &object, &name)) return NULL;
    shoal_tensor *x = tensor_of(object), *out = NULL;
    if (!x) return NULL;
    note_location();
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_signal_place(x, name, &out);
    Py_END_ALLOW_THREADS return finish(status, &out, object);
}

/* adopt(x): x, or x placed as the innermost scope says. */
static PyObject *adopt(PyObject *module, PyObject *object) {
    const char *name, *backward;
    shoal_tensor *x = tensor_of(object), *out = NULL;
    (void)module;
    if (!x) return NULL;
    if (!shoal_signal_scope(0, &name, &backward) || !name) {
        Py_INCREF(object);
        return object;
    }
    note_location();
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_signal_adopt(x, &out);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK || out != x) return finish(status, &out, object);
    shoal_tensor_free(&out);
    Py_INCREF(object);
    return object;
}

PyMethodDef signal_functions[] = {{"signals_load", load, METH_VARARGS, NULL},
                                  {"signals_parse", parse, METH_VARARGS, NULL},
                                  {"signal_describe", describe, METH_VARARGS, NULL},
                                  {"signals", signals, METH_NOARGS, NULL},
                                  {"signals_clear", clear, METH_NOARGS, NULL},
                                  {"signal_enter", enter, METH_VARARGS, NULL},
                                  {"signal_exit", leave, METH_VARARGS, NULL},
                                  {"signal_scopes", scopes, METH_NOARGS, NULL},
                                  {"signal_place", place, METH_VARARGS, NULL},
                                  {"signal_adopt", adopt, METH_O, NULL},
                                  {NULL, NULL, 0, NULL}};
