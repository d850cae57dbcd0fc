/* Artifacts as Python has them: what a backend asks the pool for, and the keeper's side of it. */
#include "hosted.h"
#include "shoal/pool.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- for backends ---- */

/* The host of whoever has this thread compile, if it knows of artifacts; NULL with an exception. */
static const shoal_host *asked_host(void) {
    const shoal_host *host = hosted_compiling();
    if (host && host->size >= offsetof(shoal_host, artifact_fetch) + sizeof host->artifact_fetch)
        return host;
    PyErr_SetString(errors[SHOAL_NOT_FOUND], "there is no pool to ask for artifacts");
    return NULL;
}

/* The exception of a call of the host, which may be of another library than this one's. */
static PyObject *raise_of(const shoal_host *host, shoal_status status) {
    PyObject *class = (unsigned)status < SHOAL_STATUS_COUNT ? errors[status] : NULL;
    PyErr_SetString(class ? class : PyExc_RuntimeError, host->error_message());
    return NULL;
}

/* artifact_key() -> (public key, whether it is trusted whoever has it) */
static PyObject *artifact_key(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    const shoal_host *host = asked_host();
    uint8_t key[32];
    bool trusted = false;
    if (!host) return NULL;
    shoal_status status = host->artifact_key(key, &trusted);
    if (status != SHOAL_OK) return raise_of(host, status);
    return Py_BuildValue("(y#N)", (const char *)key, (Py_ssize_t)sizeof key,
                         PyBool_FromLong(trusted));
}

/* artifact_fetch(made_of, target, device, compiler, text) -> (path, note) */
static PyObject *artifact_fetch(PyObject *module, PyObject *args) {
    (void)module;
    const shoal_host *host = asked_host();
    shoal_artifact_ask ask = {{0}};
    shoal_artifact got;
    const char *made_of;
    Py_ssize_t n;
    if (!host || !PyArg_ParseTuple(args, "y#sssz", &made_of, &n, &ask.target, &ask.device,
                                   &ask.compiler, &ask.text))
        return NULL;
    if (n != sizeof ask.made_of)
        return PyErr_Format(errors[SHOAL_INVALID], "a digest of %zd bytes", n);
    memcpy(ask.made_of, made_of, sizeof ask.made_of);
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS status = host->artifact_fetch(&ask, &got);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise_of(host, status);
    PyObject *path = PyUnicode_DecodeFSDefault(got.path);
    PyObject *result =
        path ? Py_BuildValue("(Ny#)", path, got.note, (Py_ssize_t)got.note_bytes) : NULL;
    free(got.path);
    free(got.note);
    return result;
}

/* ---- the keeper ---- */

static const char capsule_name[] = "shoal._shoal.keeper";

static void keeper_free(PyObject *capsule) {
    shoal_keeper *keeper = PyCapsule_GetPointer(capsule, capsule_name);
    Py_BEGIN_ALLOW_THREADS shoal_keeper_close(&keeper);
    Py_END_ALLOW_THREADS
}

/* keeper_open(hub, folder) -> keeper */
static PyObject *keeper_open(PyObject *module, PyObject *args) {
    (void)module;
    const char *hub;
    PyObject *folder;
    shoal_keeper *keeper;
    if (!PyArg_ParseTuple(args, "zO&", &hub, PyUnicode_FSConverter, &folder)) return NULL;
    shoal_status status;
    const char *path = PyBytes_AsString(folder);
    Py_BEGIN_ALLOW_THREADS status = shoal_keeper_open(hub, path, &keeper);
    Py_END_ALLOW_THREADS Py_DECREF(folder);
    return status == SHOAL_OK ? PyCapsule_New(keeper, capsule_name, keeper_free) : raise(status);
}

/* keeper_next(keeper, ms) -> (token, made_of, target, device, compiler, text, user), or None */
static PyObject *keeper_next(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    unsigned ms;
    shoal_wanted wanted;
    shoal_status status;
    if (!PyArg_ParseTuple(args, "OI", &capsule, &ms)) return NULL;
    shoal_keeper *keeper = PyCapsule_GetPointer(capsule, capsule_name);
    if (!keeper) return NULL;
    Py_BEGIN_ALLOW_THREADS status = shoal_keeper_next(keeper, ms, &wanted);
    Py_END_ALLOW_THREADS if (status == SHOAL_TIMEOUT) Py_RETURN_NONE;
    if (status != SHOAL_OK) return raise(status);
    /* Bytes: nobody has looked into them. */
    return Py_BuildValue("(Kyyyyy#I)", (unsigned long long)wanted.token, wanted.made_of,
                         wanted.target, wanted.device, wanted.compiler, wanted.text,
                         (Py_ssize_t)wanted.text_bytes, wanted.user);
}

/* keeper_give(keeper, token, path, note) */
static PyObject *keeper_give(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *path;
    unsigned long long token;
    const char *note;
    Py_ssize_t n;
    shoal_status status;
    if (!PyArg_ParseTuple(args, "OKO&y#", &capsule, &token, PyUnicode_FSConverter, &path, &note,
                          &n))
        return NULL;
    shoal_keeper *keeper = PyCapsule_GetPointer(capsule, capsule_name);
    const char *name = PyBytes_AsString(path);
    if (keeper) {
        Py_BEGIN_ALLOW_THREADS status = shoal_keeper_give(keeper, token, name, note, (size_t)n);
        Py_END_ALLOW_THREADS if (status != SHOAL_OK) raise(status);
    }
    Py_DECREF(path);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* keeper_refuse(keeper, token, message, again, wanted): there is none, it may be asked again, or
 * the text is to be sent. */
static PyObject *keeper_refuse(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    unsigned long long token;
    const char *message;
    int again, wanted;
    shoal_status status;
    if (!PyArg_ParseTuple(args, "OKspp", &capsule, &token, &message, &again, &wanted)) return NULL;
    shoal_keeper *keeper = PyCapsule_GetPointer(capsule, capsule_name);
    if (!keeper) return NULL;
    shoal_status why = wanted ? SHOAL_OK : again ? SHOAL_BUSY : SHOAL_NOT_FOUND;
    Py_BEGIN_ALLOW_THREADS status = shoal_keeper_refuse(keeper, token, why, message);
    Py_END_ALLOW_THREADS if (status != SHOAL_OK) return raise(status);
    Py_RETURN_NONE;
}

PyMethodDef artifact_functions[] = {{"artifact_key", artifact_key, METH_NOARGS, NULL},
                                    {"artifact_fetch", artifact_fetch, METH_VARARGS, NULL},
                                    {"keeper_open", keeper_open, METH_VARARGS, NULL},
                                    {"keeper_next", keeper_next, METH_VARARGS, NULL},
                                    {"keeper_give", keeper_give, METH_VARARGS, NULL},
                                    {"keeper_refuse", keeper_refuse, METH_VARARGS, NULL},
                                    {NULL, NULL, 0, NULL}};
