/* Graphs and blocks of memory as Python objects, for backends that are written in Python. */
#include "hosted.h"

#include <stdio.h>
#include <string.h>

/* ---- buffers ---- */

typedef struct buffer_object {
    PyObject_HEAD shoal_memory *memory;
    void *data;
    size_t bytes;
    bool read_only;
} buffer_object;

PyTypeObject *hosted_buffer_type;

PyObject *hosted_buffer_object(shoal_memory *memory, void *data, size_t bytes, bool read_only) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(hosted_buffer_type, Py_tp_alloc);
    buffer_object *self = (buffer_object *)alloc(hosted_buffer_type, 0);
    if (!self) return NULL;
    hosted_memory_retain(memory);
    self->memory = memory;
    self->data = data;
    self->bytes = bytes;
    self->read_only = read_only;
    return (PyObject *)self;
}

static void buffer_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    buffer_object *self = (buffer_object *)object;
    if (self->memory) hosted_memory_release(self->memory);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static int buffer_get(PyObject *object, Py_buffer *view, int flags) {
    buffer_object *self = (buffer_object *)object;
    return PyBuffer_FillInfo(view, object, self->data, (Py_ssize_t)self->bytes, self->read_only,
                             flags);
}

static Py_ssize_t buffer_length(PyObject *object) {
    return (Py_ssize_t)((buffer_object *)object)->bytes;
}

static PyType_Slot buffer_slots[] = {
    {Py_tp_dealloc, buffer_dealloc},
    {Py_bf_getbuffer, buffer_get},
    {Py_sq_length, buffer_length},
    {Py_tp_doc, "Memory of a device: bytes by the buffer protocol, which stay while it lives."},
    {0, NULL}};
PyType_Spec hosted_buffer_spec = {"shoal._shoal.Buffer", sizeof(buffer_object), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  buffer_slots};

/* ---- graphs ---- */

static PyObject *numbers(const uint32_t *values, uint32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (uint32_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromUnsignedLong(values[i]);
        if (!number || PyTuple_SetItem(tuple, i, number)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *attribute(const shoal_attr *attr) {
    if (attr->key == SHOAL_ATTR_DTYPE)
        return PyUnicode_FromString(shoal_dtype_name((shoal_dtype)attr->u.i));
    switch (attr->kind) {
    case SHOAL_ATTR_KIND_INT: return PyLong_FromLongLong(attr->u.i);
    case SHOAL_ATTR_KIND_BOOL: return PyBool_FromLong(attr->u.i != 0);
    case SHOAL_ATTR_KIND_FLOAT: return PyFloat_FromDouble(attr->u.f);
    case SHOAL_ATTR_KIND_INTS: return tuple_of(attr->u.ints, attr->count);
    case SHOAL_ATTR_KIND_STRING:
        return PyUnicode_DecodeUTF8(attr->u.string, attr->count, "replace");
    default: return PyBytes_FromStringAndSize(attr->u.bytes, attr->count);
    }
}

static PyObject *attributes(const shoal_node *node) {
    static const char *const names[] = {
#define XX(name, text, kind) text,
        SHOAL_ATTR_MAP(XX)
#undef XX
    };
    PyObject *dict = PyDict_New();
    for (uint16_t i = 0; dict && i < node->n_attrs; i++) {
        PyObject *value = attribute(&node->attrs[i]);
        if (!value || PyDict_SetItemString(dict, names[node->attrs[i].key], value)) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *bodies(const shoal_host *host, const shoal_node *node) {
    PyObject *tuple = PyTuple_New(node->n_regions);
    for (uint16_t i = 0; tuple && i < node->n_regions; i++) {
        PyObject *body = hosted_graph_object(host, node->regions[i]);
        if (!body || PyTuple_SetItem(tuple, i, body)) Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *node_object(const shoal_host *host, const shoal_node *node) {
    char name[96];
    uint32_t results[64];
    if (node->n_outputs > 64) {
        PyErr_Format(PyExc_ValueError, "%s has %u results; at most 64 are possible",
                     host->op_name(node->op), node->n_outputs);
        return NULL;
    }
    for (uint16_t i = 0; i < node->n_outputs; i++) results[i] = node->first_output + i;
    if (!hosted_operation(host, node, name, sizeof name))
        snprintf(name, sizeof name, "%s", host->op_name(node->op));
    PyObject *in = numbers(node->inputs, node->n_inputs), *out = numbers(results, node->n_outputs);
    PyObject *attrs = attributes(node), *regions = bodies(host, node);
    if (in && out && attrs && regions)
        return Py_BuildValue("(sNNNNz)", name, in, out, attrs, regions, node->location);
    Py_XDECREF(in);
    Py_XDECREF(out);
    Py_XDECREF(attrs);
    Py_XDECREF(regions);
    return NULL;
}

PyObject *hosted_graph_object(const shoal_host *host, const shoal_graph *g) {
    PyObject *values = PyTuple_New(g->n_values), *nodes = PyTuple_New(g->n_nodes);
    for (uint32_t i = 0; values && i < g->n_values; i++) {
        const shoal_type *type = &g->values[i].type;
        PyObject *value = Py_BuildValue("(sN)", shoal_dtype_name((shoal_dtype)type->dtype),
                                        tuple_of(type->dims, type->rank));
        if (!value || PyTuple_SetItem(values, i, value)) Py_CLEAR(values);
    }
    for (uint32_t i = 0; nodes && i < g->n_nodes; i++) {
        PyObject *node = node_object(host, &g->nodes[i]);
        if (!node || PyTuple_SetItem(nodes, i, node)) Py_CLEAR(nodes);
    }
    if (values && nodes)
        return Py_BuildValue("(NNNN)", values, numbers(g->inputs, g->n_inputs),
                             numbers(g->outputs, g->n_outputs), nodes);
    Py_XDECREF(values);
    Py_XDECREF(nodes);
    return NULL;
}

/* ---- names of operations ---- */

/* What a body does, where that is one operation on its first two arguments, or hands on the
 * second. */
static const char *body_name(const shoal_host *host, const shoal_graph *body) {
    if (body->n_outputs != 1 || body->n_inputs < 2) return NULL;
    if (!body->n_nodes) return body->outputs[0] == body->inputs[1] ? "second" : NULL;
    const shoal_node *node = &body->nodes[0];
    if (body->n_nodes > 1 || node->n_inputs != 2 || body->outputs[0] != node->first_output ||
        node->inputs[0] != body->inputs[0] || node->inputs[1] != body->inputs[1])
        return NULL;
    const shoal_attr *direction = NULL;
    for (uint16_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].key == SHOAL_ATTR_COMPARISON_DIRECTION) direction = &node->attrs[i];
    return direction ? direction->u.string : host->op_name(node->op);
}

bool hosted_operation(const shoal_host *host, const shoal_node *node, char *out, size_t room) {
    const char *name = host->op_name(node->op);
    if (!name) return false;
    if (!node->n_regions) return (size_t)snprintf(out, room, "%s", name) < room;
    size_t n = (size_t)snprintf(out, room, "%s", name);
    for (uint16_t i = 0; i < node->n_regions && n < room; i++) {
        const char *body = body_name(host, node->regions[i]);
        if (!body) return false;
        n += (size_t)snprintf(out + n, room - n, ".%s", body);
    }
    return n < room;
}
