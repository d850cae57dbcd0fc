// The extension module `tensor_ops_cpp`: kernels of shoal/kernels.h on NumPy arrays.
//
// It calls the library that the package `shoal` has loaded already, so that a process has one
// Shoal, one set of threads and one version. Nothing is linked, and neither pybind11 nor NumPy's
// headers are needed:
//
//     python setup.py build_ext --inplace
//
// C++11, and Python's C API. A reference is held by an `object`, which gives it back.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef __has_include
#if !__has_include("shoal/kernels.h")
#error                                                                                             \
    "Shoal's headers are not found: install libshoal-dev, or `export CPATH=include` in this folder"
#endif
#endif
#include "shoal/kernels.h"
#include "shoal/shoal.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace {

// A reference to a Python object, or to none where a call has failed.
class object {
  public:
    explicit object(PyObject *owned = nullptr) : held(owned) {}
    object(object &&other) : held(other.release()) {}
    object &operator=(const object &) = delete;
    ~object() { Py_XDECREF(held); }
    PyObject *get() const { return held; }
    PyObject *release() {
        PyObject *given = held;
        held = nullptr;
        return given;
    }
    void reset(PyObject *owned) {
        Py_XDECREF(held);
        held = owned;
    }
    explicit operator bool() const { return held != nullptr; }

  private:
    PyObject *held;
};

// ---- the library, and the modules that are asked ----

// Every function that is used: the names of the public headers.
#define LIBRARY_MAP(XX)                                                                            \
    XX(shoal_version)                                                                              \
    XX(shoal_error_message)                                                                        \
    XX(shoal_status_name)                                                                          \
    XX(shoal_dtype_find)                                                                           \
    XX(shoal_kernels_threads)                                                                      \
    XX(shoal_kernels_instructions)                                                                 \
    XX(shoal_kernel_rms_norm)                                                                      \
    XX(shoal_kernel_silu)                                                                          \
    XX(shoal_kernel_gelu)

struct {
#define XX(name) decltype(&::name) name;
    LIBRARY_MAP(XX)
#undef XX
} library;

PyObject *numpy, *kernels, *error_classes; // held for good

bool find_library() {
    object extension(PyImport_ImportModule("shoal._shoal"));
    object file(extension ? PyObject_GetAttrString(extension.get(), "__file__") : nullptr);
    const char *path = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
    if (!path) return false;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL); // open already, and kept open
    bool found = handle != nullptr;
    void *symbol;
#define XX(name)                                                                                   \
    symbol = found ? dlsym(handle, #name) : nullptr;                                               \
    found = symbol != nullptr;                                                                     \
    std::memcpy(&library.name, &symbol, sizeof symbol);
    LIBRARY_MAP(XX)
#undef XX
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
    const char *built = TEXT_OF(SHOAL_VERSION_MAJOR) "." TEXT_OF(SHOAL_VERSION_MINOR) "." TEXT_OF(
        SHOAL_VERSION_PATCH);
    if (found && !std::strcmp(library.shoal_version(), built)) return true;
    PyErr_Format(PyExc_ImportError,
                 "tensor_ops_cpp was built for Shoal %s, and %s is of version %s: build it again "
                 "(python setup.py build_ext --inplace)",
                 built, path, found ? library.shoal_version() : "unknown");
    return false;
}

bool find_modules() {
    object errors(PyImport_ImportModule("shoal.errors"));
    numpy = PyImport_ImportModule("numpy");
    kernels = PyImport_ImportModule("shoal.kernels");
    error_classes = errors ? PyObject_GetAttrString(errors.get(), "CLASSES") : nullptr;
    return numpy && kernels && error_classes;
}

// The exception of the package for a failed call; returns nullptr.
PyObject *raise(shoal_status status) {
    PyObject *of_status = PyDict_GetItemString(error_classes, library.shoal_status_name(status));
    PyErr_SetString(of_status ? of_status : PyExc_RuntimeError, library.shoal_error_message());
    return nullptr;
}

PyObject *invalid(const char *text, PyObject *value) {
    PyErr_Format(PyDict_GetItemString(error_classes, "INVALID"), text, value);
    return nullptr;
}

// ---- arrays ----

// The kernels' type of a NumPy one; false with an exception. NumPy makes a type's name anew each
// time, which takes longer than a kernel's call, so the type that came last is kept.
bool find_type(PyObject *dtype, shoal_dtype *out) {
    static PyObject *last;
    static shoal_dtype type;
    if (dtype != last) {
        object name(PyObject_GetAttrString(dtype, "name"));
        object native(name ? PyObject_GetAttrString(dtype, "isnative") : nullptr);
        const char *text = native ? PyUnicode_AsUTF8(name.get()) : nullptr;
        if (!text) return false;
        if (native.get() != Py_True)
            return invalid("elements of %R are in another machine's order of bytes; use "
                           "x.astype(x.dtype.newbyteorder('='))",
                           dtype);
        shoal_dtype found;
        if (library.shoal_dtype_find(text, &found))
            return invalid("there are no kernels for elements of %R; use x.astype('float32')",
                           dtype);
        type = found;
        Py_XDECREF(last);
        last = Py_NewRef(dtype);
    }
    *out = type;
    return true;
}

// A NumPy array as kernels take it. Its memory stays as long as this does.
class array {
  public:
    array() : kept(), view(), taken(false), shape(), dims(), strides() {}
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array() {
        if (taken) PyBuffer_Release(&view);
    }
    // Anything that NumPy makes an array of; false with an exception.
    bool take(PyObject *from) {
        kept.reset(PyObject_CallMethod(numpy, "asarray", "O", from));
        return kept && describe(true);
    }
    // A new one, of the shape and type of another.
    bool make_like(const array &other) {
        object wanted(other.attribute("shape")), dtype(other.attribute("dtype"));
        if (!wanted || !dtype) return false;
        kept.reset(PyObject_CallMethod(numpy, "empty", "OO", wanted.get(), dtype.get()));
        return kept && describe(false);
    }
    const shoal_array *get() const { return &shape; }
    PyObject *release() { return kept.release(); }

  private:
    object kept;
    Py_buffer view;
    bool taken;
    shoal_array shape;
    int64_t dims[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];

    object attribute(const char *name) const {
        return object(PyObject_GetAttrString(kept.get(), name));
    }

    bool describe(bool may_copy) {
        object dtype(attribute("dtype"));
        if (!dtype || !find_type(dtype.get(), &shape.dtype)) return false;
        // Buffers have no name for this type.
        object bits(shape.dtype != SHOAL_BF16
                        ? Py_NewRef(kept.get())
                        : PyObject_CallMethod(kept.get(), "view", "s", "uint16"));
        return bits && lay_out(bits.get(), may_copy);
    }

    bool lay_out(PyObject *bits, bool may_copy) {
        if (PyObject_GetBuffer(bits, &view, PyBUF_STRIDES)) return false;
        taken = true;
        bool fits = true;
        for (int i = 0; i < view.ndim && i < SHOAL_MAX_RANK; i++) {
            dims[i] = view.shape[i];
            strides[i] = view.strides[i] / view.itemsize;
            fits = fits && view.strides[i] % view.itemsize == 0;
        }
        if (view.ndim > SHOAL_MAX_RANK)
            return invalid("an array has more than 8 axes: %R", kept.get());
        shape.rank = static_cast<uint32_t>(view.ndim);
        shape.dims = dims;
        shape.strides = strides;
        shape.data = view.buf;
        if (fits || !may_copy) return true;
        // A field of records, for example.
        PyBuffer_Release(&view);
        taken = false;
        kept.reset(PyObject_CallMethod(numpy, "ascontiguousarray", "O", kept.get()));
        return kept && describe(false);
    }
};

// The result of a kernel on x, computed without the interpreter's lock.
template <typename kernel> PyObject *compute(const array &x, kernel run) {
    array out;
    if (!out.make_like(x)) return nullptr;
    shoal_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = run(x.get(), out.get());
    Py_END_ALLOW_THREADS;
    return status ? raise(status) : out.release();
}

// ---- the functions ----

PyObject *rms_norm(PyObject *, PyObject *args, PyObject *keywords) {
    static const char *names[] = {"x", "weight", "eps", nullptr};
    PyObject *given, *scale;
    double eps = 1e-6;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|d:rms_norm", const_cast<char **>(names),
                                     &given, &scale, &eps))
        return nullptr;
    array x, weight;
    if (!x.take(given) || !weight.take(scale)) return nullptr;
    return compute(x, [&](const shoal_array *in, const shoal_array *out) {
        return library.shoal_kernel_rms_norm(in, weight.get(), -1, eps, out);
    });
}

PyObject *silu(PyObject *, PyObject *given) {
    array x;
    if (!x.take(given)) return nullptr;
    return compute(x, [](const shoal_array *in, const shoal_array *out) {
        return library.shoal_kernel_silu(in, out);
    });
}

PyObject *gelu(PyObject *, PyObject *given) {
    array x;
    if (!x.take(given)) return nullptr;
    return compute(x, [](const shoal_array *in, const shoal_array *out) {
        return library.shoal_kernel_gelu(in, true, out);
    });
}

PyObject *matmul(PyObject *, PyObject *args, PyObject *keywords) {
    static const char *names[] = {"a", "b", nullptr};
    PyObject *a, *b;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:matmul", const_cast<char **>(names), &a,
                                     &b))
        return nullptr;
    return PyObject_CallMethod(kernels, "matmul", "OO", a, b);
}

// ---- what there is ----

// Instruction sets by Shoal's names, and what is said of them.
struct level {
    const char *name, *shown;
    bool fma;
};
const level levels[] = {{"avx512_bf16", "AVX-512", true},
                        {"avx512_vnni", "AVX-512", true},
                        {"avx512", "AVX-512", true},
                        {"avx2", "AVX2", true},
#ifdef __aarch64__
                        {"neon_i8mm", "NEON", true},
                        {"neon_dot", "NEON", true},
                        {"neon", "NEON", true},
                        {"base", "NEON", true},
#endif
                        {"base", "Scalar", false}};

const level *current_level() {
    const char *name;
    if (shoal_status status = library.shoal_kernels_instructions(&name)) {
        raise(status);
        return nullptr;
    }
    const level *found = levels;
    while (std::strcmp(found->name, name) && found < levels + sizeof levels / sizeof *levels - 1)
        found++;
    return found;
}

PyObject *get_optimization_info(PyObject *, PyObject *) {
    const level *now = current_level();
    if (!now) return nullptr;
    return PyUnicode_FromFormat("Tensor Operations Optimization Info:\n"
                                "  SIMD Level: %s\n"
                                "  OpenMP: not used; Shoal's own threads: %u (OMP_NUM_THREADS)\n"
                                "  FMA: %s",
                                now->shown, static_cast<unsigned>(library.shoal_kernels_threads()),
                                now->fma ? "Yes" : "No");
}

bool add_flag(PyObject *module, const char *name, bool value) {
    return !PyModule_AddObjectRef(module, name, value ? Py_True : Py_False);
}

int fill(PyObject *module) {
    if (!find_library() || !find_modules()) return -1;
    const level *now = current_level();
    if (!now) return -1;
    const std::string shown = now->shown;
    bool done = !PyModule_AddStringConstant(module, "simd_level", now->shown) &&
                !PyModule_AddStringConstant(module, "backend", "cpp") &&
                add_flag(module, "has_simd", shown != "Scalar") &&
                add_flag(module, "has_avx512", shown == "AVX-512") &&
                add_flag(module, "has_avx2", shown == "AVX2") &&
                add_flag(module, "has_avx", shown == "AVX") &&
                add_flag(module, "has_neon", shown == "NEON") &&
                add_flag(module, "has_fma", now->fma) && add_flag(module, "has_openmp", true);
    return done ? 0 : -1;
}

// How Python writes a function that takes keywords.
PyCFunction with_keywords(PyObject *(*function)(PyObject *, PyObject *, PyObject *)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef functions[] = {
    {"rms_norm", with_keywords(rms_norm), METH_VARARGS | METH_KEYWORDS,
     "rms_norm(x, weight, eps=1e-6)\n\nx / sqrt(mean(x^2) + eps) along the last axis, times weight "
     "[x.shape[-1]]."},
    {"silu", silu, METH_O, "silu(x)\n\nx / (1 + e^-x)."},
    {"gelu", gelu, METH_O, "gelu(x)\n\nx * Phi(x) by the tanh formula of arXiv:1606.08415."},
    {"matmul", with_keywords(matmul), METH_VARARGS | METH_KEYWORDS, "matmul(a, b)\n\nNumPy's."},
    {"get_optimization_info", get_optimization_info, METH_NOARGS,
     "get_optimization_info()\n\nInstruction set and threads, as text."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void *>(fill)}, {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "tensor_ops_cpp",
                          "Shoal's kernels on the processor, on NumPy arrays of any strides.",
                          0,
                          functions,
                          slots,
                          nullptr,
                          nullptr,
                          nullptr};

} // namespace

PyMODINIT_FUNC PyInit_tensor_ops_cpp() { return PyModuleDef_Init(&definition); }
