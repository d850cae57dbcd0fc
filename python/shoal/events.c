/* What the pool's processes have noted, for `shoal.debug`. */
#include "module.h"

#include <string.h>

/* (kind, phase, at, instance, bytes, slot, peer, key, label); slots -1 for none. */
static PyObject *event_row(const shoal_event *e) {
    PyObject *label = PyUnicode_DecodeUTF8(e->label, (Py_ssize_t)strlen(e->label), "replace");
    if (!label) return NULL;
    return Py_BuildValue("(siLKKLLIN)", shoal_event_name(e->kind), (int)e->phase, (long long)e->at,
                         (unsigned long long)e->instance, (unsigned long long)e->bytes,
                         e->slot == SHOAL_NO_SLOT ? -1LL : (long long)e->slot,
                         e->peer == SHOAL_NO_SLOT ? -1LL : (long long)e->peer, e->key, label);
}

typedef struct gathering {
    PyObject *list; /* NULL once something has failed */
    PyThreadState *thread;
} gathering;

/* Adds (peer, name, answered, now, offset, doubt, lost, events). */
static void add_source(void *context, const shoal_event_source *source, const shoal_event *events,
                       size_t n) {
    gathering *g = context;
    PyEval_RestoreThread(g->thread);
    PyObject *rows = g->list ? PyList_New(0) : NULL;
    for (size_t i = 0; rows && i < n; i++) {
        PyObject *row = event_row(&events[i]);
        if (!row || PyList_Append(rows, row)) Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    PyObject *all =
        rows ? Py_BuildValue("(IsNLLKKN)", source->peer, source->name,
                             PyBool_FromLong(source->answered), (long long)source->now,
                             (long long)source->offset, (unsigned long long)source->doubt,
                             (unsigned long long)source->lost, rows)
             : NULL;
    if (g->list && (!all || PyList_Append(g->list, all))) Py_CLEAR(g->list);
    Py_XDECREF(all);
    g->thread = PyEval_SaveThread();
}

PyObject *session_events(PyObject *self, PyObject *args) {
    unsigned keep_ms;
    shoal_session *session = session_of(self);
    if (!session || !PyArg_ParseTuple(args, "I", &keep_ms)) return NULL;
    gathering g = {.list = PyList_New(0)};
    if (!g.list) return NULL;
    g.thread = PyEval_SaveThread();
    shoal_status status = shoal_events(session, keep_ms, add_source, &g);
    PyEval_RestoreThread(g.thread);
    if (status != SHOAL_OK) {
        Py_XDECREF(g.list);
        PyErr_Clear();
        return raise(status);
    }
    return g.list;
}

PyObject *event_kinds(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *kinds = PyDict_New();
    for (unsigned kind = 0; kinds && kind < SHOAL_EVENT_COUNT; kind++) {
        PyObject *help = PyUnicode_FromString(shoal_event_help(kind));
        if (!help || PyDict_SetItemString(kinds, shoal_event_name(kind), help)) Py_CLEAR(kinds);
        Py_XDECREF(help);
    }
    return kinds;
}
