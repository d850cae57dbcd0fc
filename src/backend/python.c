/* Opening Python, for backends that are written in it. Nothing is linked: in a Python program its
 * functions are there already, and elsewhere libpython is opened when a backend in Python is first
 * asked for. All that needs Python's headers is in its extension, `shoal._shoal`, which offers it
 * in a capsule. */
#include "backend/python.h"

#include "backend/registry.h"
#include "base/dl.h"
#include "base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Of the stable ABI; declared as Python does. */
#define PYTHON_FUNCTIONS(XX)                                                                       \
    XX(int, IsInitialized, Py_, (void))                                                            \
    XX(void, InitializeEx, Py_, (int signals))                                                     \
    XX(wchar_t *, DecodeLocale, Py_, (const char *text, size_t *size))                             \
    XX(void, SetProgramName, Py_, (const wchar_t *name))                                           \
    XX(void *, SaveThread, PyEval_, (void))                                                        \
    XX(int, Ensure, PyGILState_, (void))                                                           \
    XX(void, Release, PyGILState_, (int state))                                                    \
    XX(void *, Import, PyCapsule_, (const char *name, int no_block))                               \
    XX(void, Fetch, PyErr_, (void **type, void **value, void **trace))                             \
    XX(void *, Str, PyObject_, (void *object))                                                     \
    XX(const char *, AsUTF8AndSize, PyUnicode_, (void *text, ptrdiff_t *size))                     \
    XX(void, DecRef, Py_, (void *object))
typedef struct python_library {
#define XX(result, name, prefix, arguments) result(*name) arguments;
    PYTHON_FUNCTIONS(XX)
#undef XX
} python_library;

static struct {
    pthread_mutex_t lock; /* nobody who has the interpreter's lock asks for it */
    const shoal_python *offered;
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

static shoal_status bind(base_dl *library, python_library *py) {
#define XX(result, name, prefix, arguments)                                                        \
    SHOAL_TRY(base_dl_symbol(library, #prefix #name, &py->name));
    PYTHON_FUNCTIONS(XX)
#undef XX
    return SHOAL_OK;
}

static const char *interpreter(void) {
    const char *told = getenv("SHOAL_PYTHON");
    return told && *told ? told : "python3";
}

/* Asks an interpreter for its library, and what it calls itself: two lines. */
static shoal_status ask(char *out, size_t room, char **library, char **program) {
    static const char question[] =
        "import os, sys, sysconfig\n"
        "v = sysconfig.get_config_vars()\n"
        "name = v.get('INSTSONAME') or v.get('LDLIBRARY') or ''\n"
        "folders = [v.get('LIBDIR') or '', os.path.join(v.get('LIBDIR') or '', "
        "v.get('MULTIARCH') or ''), os.path.join(sys.base_prefix, 'lib')]\n"
        "paths = [os.path.join(f, name) for f in folders]\n"
        "print(next((p for p in paths if name and os.path.isfile(p)), name))\n"
        "print(sys.executable)\n";
    const char *const command[] = {interpreter(), "-c", question, NULL};
    SHOAL_TRY(base_os_output(command, out, room));
    *library = out;
    *program = strchr(out, '\n');
    if (!*program) return base_fail(SHOAL_FORMAT, "%s gave no answer", interpreter());
    *(*program)++ = 0;
    (*program)[strcspn(*program, "\n")] = 0;
    return SHOAL_OK;
}

/* The library is never closed, as Python cannot be ended and begun again with all extensions. */
static shoal_status start(python_library *py) {
    char answer[4096], *path, *program;
    base_dl *library;
    SHOAL_TRY(ask(answer, sizeof answer, &path, &program));
    if (!strstr(path, ".so") && !strstr(path, ".dylib"))
        return base_fail(SHOAL_NOT_FOUND,
                         "%s has no shared library: install one that has (Debian: libpython3-dev), "
                         "or name another by SHOAL_PYTHON",
                         program);
    shoal_status status = base_dl_open_global(path, &library);
    if (status)
        return base_fail(status,
                         "%s; install it (Debian: libpython3-dev), or name another "
                         "interpreter by SHOAL_PYTHON",
                         shoal_error_message());
    SHOAL_TRY(bind(library, py));
    wchar_t *name = py->DecodeLocale(program, NULL);
    if (name) py->SetProgramName(name); /* it finds its packages by that, and keeps the text */
    py->InitializeEx(0);
    py->SaveThread();
    return SHOAL_OK;
}

/* Takes the exception off this thread: its text. */
static void take_exception(const python_library *py, char *out, size_t room) {
    void *parts[3] = {NULL}, *text;
    py->Fetch(&parts[0], &parts[1], &parts[2]);
    text = parts[1] ? py->Str(parts[1]) : NULL;
    const char *utf8 = text ? py->AsUTF8AndSize(text, NULL) : NULL;
    snprintf(out, room, "%s", utf8 ? utf8 : "an exception without a text");
    py->DecRef(text);
    for (int i = 0; i < 3; i++) py->DecRef(parts[i]);
}

static shoal_status import(const python_library *py) {
    char why[256];
    int state = py->Ensure();
    opened.offered = py->Import(SHOAL_PYTHON_CAPSULE, 0);
    if (!opened.offered) take_exception(py, why, sizeof why);
    py->Release(state);
    if (!opened.offered)
        return base_fail(SHOAL_NOT_FOUND,
                         "%s cannot import shoal (%s): install Shoal's Python package for it, or "
                         "name another interpreter by SHOAL_PYTHON",
                         interpreter(), why);
    if (opened.offered->abi == SHOAL_BACKEND_ABI) return SHOAL_OK;
    unsigned abi = opened.offered->abi;
    opened.offered = NULL;
    return base_fail(SHOAL_VERSION,
                     "the Python package speaks backend ABI %u, this Shoal %d: install the same "
                     "version of both",
                     abi, SHOAL_BACKEND_ABI);
}

static shoal_status open_python(void) {
    python_library py;
    base_dl *program;
    if (opened.offered) return SHOAL_OK;
    SHOAL_TRY(base_dl_open_global(NULL, &program));
    shoal_status status = bind(program, &py);
    base_dl_close(&program);
    if (status || !py.IsInitialized()) SHOAL_TRY(start(&py));
    return import(&py);
}

shoal_status backend_python_load(const char *module) {
    pthread_mutex_lock(&opened.lock);
    shoal_status status = open_python();
    if (status == SHOAL_OK)
        status = opened.offered->load(backend_host(), module, shoal_backend_add);
    pthread_mutex_unlock(&opened.lock);
    return status;
}
