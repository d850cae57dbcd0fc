/* Files of tensors. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

static int file_init(PyObject *object, PyObject *args, PyObject *keywords) {
    PyObject *path;
    if (keywords && PyDict_Size(keywords)) {
        PyErr_SetString(PyExc_TypeError, "File(path) takes no keywords");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return -1;
    shoal_status status;
    shoal_file *file;
    const char *name = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS status = shoal_file_open(name, &file);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (status != SHOAL_OK) return raise(status), -1;
    ((file_object *)object)->file = file;
    return 0;
}

static void file_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    shoal_file_close(&((file_object *)object)->file);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* A list with a row for each tensor. */
static PyObject *rows(PyObject *self, PyObject *(*row_of)(const shoal_file_tensor *t)) {
    shoal_file *file = ((file_object *)self)->file;
    PyObject *list = PyList_New(0);
    for (uint64_t i = 0; list && i < shoal_file_count(file); i++) {
        shoal_file_tensor t;
        shoal_status status = shoal_file_tensor_at(file, i, &t);
        if (status != SHOAL_OK) {
            Py_DECREF(list);
            return raise(status);
        }
        PyObject *row = row_of(&t);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* A name is whatever bytes the file has. */
static PyObject *name_of(const shoal_file_tensor *t) {
    return PyUnicode_DecodeUTF8(t->name, (Py_ssize_t)strlen(t->name), "replace");
}

static PyObject *what_of(const shoal_file_tensor *t) {
    return Py_BuildValue("(NNss)", name_of(t), tuple_of(t->type.dims, t->type.rank),
                         shoal_dtype_name((shoal_dtype)t->type.dtype), t->encoding);
}

static PyObject *place_of(const shoal_file_tensor *t) {
    return Py_BuildValue("(NKK)", name_of(t), (unsigned long long)t->offset,
                         (unsigned long long)t->bytes);
}

static PyObject *file_tensors(PyObject *self, PyObject *unused) {
    (void)unused;
    return rows(self, what_of);
}

/* places() -> [(name, offset in the file, bytes)], in the order of tensors() */
static PyObject *file_places(PyObject *self, PyObject *unused) {
    (void)unused;
    return rows(self, place_of);
}

static PyObject *file_meta(PyObject *self, PyObject *args) {
    const char *key;
    unsigned long long index = 0;
    char *text;
    if (!PyArg_ParseTuple(args, "s|K", &key, &index)) return NULL;
    shoal_status status = shoal_file_meta(((file_object *)self)->file, key, index, &text);
    if (status != SHOAL_OK) return raise(status);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    free(text);
    return result;
}

/* facts() -> [(key, type, number of elements or None)] */
static PyObject *file_facts(PyObject *self, PyObject *unused) {
    (void)unused;
    shoal_file *file = ((file_object *)self)->file;
    PyObject *list = PyList_New(0);
    for (uint64_t i = 0; list && i < shoal_file_fact_count(file); i++) {
        shoal_file_fact fact;
        shoal_status status = shoal_file_fact_at(file, i, &fact);
        if (status != SHOAL_OK) {
            Py_DECREF(list);
            return raise(status);
        }
        PyObject *row = Py_BuildValue(
            "(NsN)", PyUnicode_DecodeUTF8(fact.key, (Py_ssize_t)strlen(fact.key), "replace"),
            fact.type, fact.array ? PyLong_FromUnsignedLongLong(fact.count) : Py_NewRef(Py_None));
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* load(session, name, packed) */
static PyObject *file_load(PyObject *self, PyObject *args) {
    PyObject *owner;
    const char *name;
    int packed;
    if (!PyArg_ParseTuple(args, "Ozp", &owner, &name, &packed)) return NULL;
    shoal_session *session = session_of(owner);
    if (!session) return NULL;
    shoal_file *file = ((file_object *)self)->file;
    shoal_tensor *tensor;
    uint64_t index;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_file_find(file, name, &index);
    if (status == SHOAL_OK)
        status = packed ? shoal_file_load_stored(file, index, session, &tensor)
                        : shoal_file_load(file, index, session, &tensor);
    Py_END_ALLOW_THREADS return status == SHOAL_OK ? wrap(tensor, owner) : raise(status);
}

/* write_npy(path, dtype, shape, buffer) */
PyObject *write_npy(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path, *shape;
    const char *name;
    Py_buffer view;
    if (!PyArg_ParseTuple(args, "O&sOy*", PyUnicode_FSConverter, &path, &name, &shape, &view))
        return NULL;
    int64_t dims[SHOAL_MAX_RANK];
    Py_ssize_t rank = ints_of(shape, dims, SHOAL_MAX_RANK, "shape");
    shoal_dtype dtype = SHOAL_F32;
    shoal_status status = rank < 0 ? SHOAL_INVALID : shoal_dtype_find(name, &dtype);
    size_t want = shoal_dtype_size(dtype);
    for (Py_ssize_t i = 0; i < rank; i++) want *= (size_t)dims[i];
    bool fits = want == (size_t)view.len;
    if (status == SHOAL_OK && fits) {
        const char *to = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS status = shoal_npy_write(to, dtype, (uint32_t)rank, dims, view.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&view);
    Py_DECREF(path);
    if (rank < 0) return NULL;
    if (status != SHOAL_OK) return raise(status);
    if (!fits) return PyErr_Format(errors[SHOAL_INVALID], "the bytes do not fit the shape");
    Py_RETURN_NONE;
}

/* block_formats() -> [(name, values, bytes, fields)] */
PyObject *block_formats(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    const shoal_block_format *format;
    for (uint32_t i = 0; list && (format = shoal_block_format_at(i)); i++) {
        PyObject *row =
            Py_BuildValue("(sIIs)", format->name, format->values, format->bytes, format->fields);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* file_digest(path) -> bytes */
PyObject *file_digest(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *path;
    uint8_t digest[SHOAL_DIGEST];
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    const char *name = PyBytes_AsString(path);
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = shoal_file_digest(name, NULL, NULL, digest);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    if (status != SHOAL_OK) return raise(status);
    return PyBytes_FromStringAndSize((const char *)digest, sizeof digest);
}

static PyMethodDef file_methods[] = {
    {"tensors", file_tensors, METH_NOARGS, "(name, shape, dtype, encoding) of each tensor."},
    {"meta", file_meta, METH_VARARGS, "meta(key, index=0): a metadata value as text."},
    {"_places", file_places, METH_NOARGS, NULL},
    {"_facts", file_facts, METH_NOARGS, NULL},
    {"_load", file_load, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyType_Slot file_slots[] = {{Py_tp_init, file_init},
                                   {Py_tp_dealloc, file_dealloc},
                                   {Py_tp_methods, file_methods},
                                   {0, NULL}};
PyType_Spec file_spec = {"shoal._shoal.File", sizeof(file_object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, file_slots};
