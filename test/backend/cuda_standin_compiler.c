/* NVRTC's half of the stand-in, modules and launches (cuda_standin.h). What is compiled is a shared
 * library for this machine, behind a head that says for which architecture it was asked. Machine
 * code that NVRTC itself has made is a module, too, which has the kernels that it names and cannot
 * run any. */
#include "cuda_standin.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- what CUDA C++ has that C++ has not ---- */

static const char prelude[] =
    "#define __CUDACC__ 1\n"
    "#define __device__\n"
    "#define __constant__\n"
    "#define __forceinline__ inline\n"
    "#define __shared__ static\n"
    "#define __launch_bounds__(n)\n"
    "struct standin_index { unsigned x, y, z; };\n"
    "extern \"C\" {\n"
    "standin_index threadIdx, blockIdx, blockDim, gridDim;\n"
    "void (*standin_barrier)(void);\n"
    "void *memcpy(void *, const void *, decltype(sizeof 0));\n"
    "#define ONE(name) double name(double); float name##f(float);\n"
    "#define TWO(name) double name(double, double); float name##f(float, float);\n"
    "ONE(fabs) ONE(exp) ONE(log) ONE(sqrt) ONE(tanh) ONE(erf) ONE(cos) ONE(sin) ONE(tan)\n"
    "ONE(cbrt) ONE(ceil) ONE(floor) ONE(expm1) ONE(log1p) ONE(round) ONE(rint)\n"
    "TWO(fmod) TWO(pow) TWO(atan2) TWO(fmax) TWO(fmin)\n"
    "double fma(double, double, double); float fmaf(float, float, float);\n"
    "}\n"
    "static inline float fmax(float x, float y) { return fmaxf(x, y); }\n"
    "static inline void __syncthreads() { standin_barrier(); }\n"
    "#define BITS(name, To, From) static inline To name(From x) "
    "{ To y; memcpy(&y, &x, sizeof y); return y; }\n"
    "BITS(__float_as_uint, unsigned, float)\n"
    "BITS(__uint_as_float, float, unsigned)\n"
    "BITS(__double_as_longlong, long long, double)\n"
    "BITS(__longlong_as_double, double, long long)\n"
    "#undef BITS\n"
    "#undef ONE\n"
    "#undef TWO\n"
    "template <class T> struct standin_of { static T get(void *p) { return *(T *)p; } };\n"
    "template <class T> struct standin_of<T *> { static T *get(void *p) {\n"
    "    return (T *)(*(unsigned long long *)p - STANDIN_OFFSET); } };\n"
    "template <unsigned... I> struct standin_numbers {};\n"
    "template <unsigned N, unsigned... I> struct standin_to : standin_to<N - 1, N - 1, I...> {};\n"
    "template <unsigned... I> struct standin_to<0, I...> { typedef standin_numbers<I...> list; };\n"
    "template <class... A, unsigned... I>\n"
    "static void standin_call(void (*f)(A...), void **p, standin_numbers<I...>) {\n"
    "    f(standin_of<A>::get(p[I])...);\n"
    "}\n"
    "template <class... A> static void standin_call(void (*f)(A...), void **p) {\n"
    "    standin_call(f, p, typename standin_to<sizeof...(A)>::list());\n"
    "}\n"
    "template <class... A> constexpr unsigned standin_count(void (*)(A...)) "
    "{ return sizeof...(A); }\n";

/* Behind each kernel. */
static const char wrapper[] =
    "extern \"C\" void standin_call_%s(void **p) { standin_call(%s, p); }\n"
    "extern \"C\" { extern const unsigned standin_count_%s; "
    "const unsigned standin_count_%s = standin_count(%s); }\n";

/* ---- compiling ---- */

typedef struct head {
    char magic[16];
    char architecture[16]; /* "sm_80", "compute_80" */
    size_t size;           /* of what follows */
} head;
static const char magic[16] = "CUDA stand-in 1";

struct nvrtc_program {
    char *source, *log, *image;
    size_t size;
};

static char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    if ((data = calloc(1, *size + 1)) && fread(data, 1, *size, file) != *size) {
        free(data);
        data = NULL;
    }
    fclose(file);
    return data;
}

static bool write_all(const char *path, const char *first, size_t n, const char *second) {
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    bool written = fwrite(first, 1, n, file) == n && (!second || fputs(second, file) >= 0);
    return fclose(file) == 0 && written;
}

static bool run(const char *folder, const char *command) {
    const char *told = getenv("CXX");
    char line[1024];
    snprintf(line, sizeof line, "cd %s && %s %s 2>log", folder, told && *told ? told : "c++",
             command);
    return system(line) == 0;
}

/* Behind what the preprocessor gives, in which kernels are told by __global__. */
static bool add_wrappers(const char *path) {
    size_t size;
    char *text = read_all(path, &size);
    FILE *file = text ? fopen(path, "ab") : NULL;
    for (const char *at = text; file && (at = strstr(at, "__global__"));) {
        char name[128];
        int n = 0;
        at += strlen("__global__");
        if (sscanf(at, " void %127[A-Za-z0-9_] (%n", name, &n) == 1 && n)
            fprintf(file, wrapper, name, name, name, name, name);
    }
    free(text);
    return file && fclose(file) == 0;
}

static int compile_in(nvrtc_program *p, const char *folder) {
    char path[64], log[64], library[64];
    size_t size;
    snprintf(path, sizeof path, "%s/kernels.cu", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(library, sizeof library, "%s/kernels.so", folder);
    bool made = write_all(path, prelude, sizeof prelude - 1, p->source) &&
                run(folder, "-E -P -x c++ -DSTANDIN_OFFSET=72057594037927936ULL kernels.cu "
                            "-o kernels.ii");
    snprintf(path, sizeof path, "%s/kernels.ii", folder);
    made = made && add_wrappers(path) &&
           run(folder, "-shared -fPIC -O1 -w -std=c++11 -ffp-contract=off -fno-strict-aliasing "
                       "-fno-math-errno -D__global__= -x c++ kernels.ii -o kernels.so -lm");
    free(p->log);
    p->log = read_all(log, &size);
    p->image = made ? read_all(library, &p->size) : NULL;
    return p->image ? 0 : 6; /* NVRTC_ERROR_COMPILATION */
}

/* Puts the head in front. */
static int finish_image(nvrtc_program *p, const char *architecture) {
    head h = {.size = p->size};
    memcpy(h.magic, magic, sizeof magic);
    snprintf(h.architecture, sizeof h.architecture, "%s", architecture);
    char *whole = malloc(sizeof h + p->size);
    if (!whole) return 1;
    memcpy(whole, &h, sizeof h);
    memcpy(whole + sizeof h, p->image, p->size);
    free(p->image);
    p->image = whole;
    p->size += sizeof h;
    return 0;
}

#define CALL(name, ...)                                                                            \
    SHOAL_API int name(__VA_ARGS__);                                                               \
    int name(__VA_ARGS__)

CALL(nvrtcVersion, int *major, int *minor) { return *major = 12, *minor = 6, 0; }

CALL(nvrtcCreateProgram, nvrtc_program **program, const char *source, const char *name,
     int n_headers, const char *const *headers, const char *const *header_names) {
    cuda_code code;
    if (standin_fails(&code)) return 1; /* NVRTC_ERROR_OUT_OF_MEMORY */
    if (!(*program = calloc(1, sizeof **program))) return 1;
    (*program)->source = strdup(source);
    standin_count(1);
    return 0;
}

CALL(nvrtcCompileProgram, nvrtc_program *p, int n_options, const char *const *options) {
    static const char option[] = "--gpu-architecture=";
    const char *architecture = "";
    char folder[] = "/tmp/standin-XXXXXX", command[64];
    cuda_code code;
    if (standin_fails(&code)) return 1;
    for (int i = 0; i < n_options; i++)
        if (!strncmp(options[i], option, sizeof option - 1))
            architecture = options[i] + sizeof option - 1;
    if (!mkdtemp(folder)) return 1;
    int wrong = compile_in(p, folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (system(command)) return 1;
    return wrong ? wrong : finish_image(p, architecture);
}

CALL(nvrtcDestroyProgram, nvrtc_program **program) {
    free((*program)->source);
    free((*program)->log);
    free((*program)->image);
    free(*program);
    standin_count(-1);
    return 0;
}

CALL(nvrtcGetProgramLogSize, nvrtc_program *p, size_t *size) {
    return *size = p->log ? strlen(p->log) + 1 : 0, 0;
}
CALL(nvrtcGetProgramLog, nvrtc_program *p, char *log) {
    if (p->log) strcpy(log, p->log);
    return 0;
}
CALL(nvrtcGetPTXSize, nvrtc_program *p, size_t *size) { return *size = p->size, 0; }
CALL(nvrtcGetPTX, nvrtc_program *p, char *ptx) { return memcpy(ptx, p->image, p->size), 0; }
CALL(nvrtcGetCUBINSize, nvrtc_program *p, size_t *size) { return *size = p->size, 0; }
CALL(nvrtcGetCUBIN, nvrtc_program *p, char *cubin) { return memcpy(cubin, p->image, p->size), 0; }
CALL(nvrtcGetNumSupportedArchs, int *count) { return *count = 4, 0; }
CALL(nvrtcGetSupportedArchs, int *numbers) {
    static const int known[] = {50, 70, 80, 90};
    return memcpy(numbers, known, sizeof known), 0;
}

/* ---- modules ---- */

enum { MOST_KERNELS = 512 };
struct cuda_function {
    standin_kernel kernel;
};
struct cuda_module {
    void *library;
    char *code; /* by NVRTC itself: a copy */
    size_t size;
    cuda_function *functions[MOST_KERNELS];
    unsigned n;
};

/* Machine code is for one device, PTX for that and all that came later. */
static bool suits(const char *architecture) {
    int of = 0;
    if (sscanf(architecture, "sm_%d", &of) == 1) return of == standin_capability();
    return sscanf(architecture, "compute_%d", &of) == 1 && of <= standin_capability();
}

/* The bytes of an object file, at whose end its table of sections lies. */
static cuda_code load_code(const Elf64_Ehdr *elf, cuda_module **module) {
    cuda_module *m = calloc(1, sizeof *m);
    if (!m) return CUDA_OUT_OF_MEMORY;
    m->size = elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
    if (!(m->code = malloc(m->size))) return free(m), CUDA_OUT_OF_MEMORY;
    memcpy(m->code, elf, m->size);
    standin_count(1);
    *module = m;
    return CUDA_SUCCESS;
}

static bool names(const cuda_module *module, const char *name) {
    size_t n = strlen(name) + 1;
    for (size_t at = 0; at + n <= module->size; at++)
        if (!memcmp(module->code + at, name, n)) return true;
    return false;
}

CALL(cuModuleLoadData, cuda_module **module, const void *image) {
    char path[] = "/tmp/standin-XXXXXX";
    cuda_code code;
    head h;
    if (!memcmp(image, ELFMAG, SELFMAG)) return load_code(image, module);
    memcpy(h.magic, image, sizeof h.magic);
    if (standin_fails(&code)) return code;
    if (memcmp(h.magic, magic, sizeof magic) != 0) return CUDA_INVALID_IMAGE;
    memcpy(&h, image, sizeof h);
    if (!suits(h.architecture)) return CUDA_NO_BINARY;
    int file = mkstemp(path);
    if (file < 0) return CUDA_OUT_OF_MEMORY;
    bool written = write(file, (const char *)image + sizeof h, h.size) == (ssize_t)h.size;
    close(file);
    void *library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(path);
    if (!library) return CUDA_INVALID_IMAGE;
    if (!(*module = calloc(1, sizeof **module))) return CUDA_OUT_OF_MEMORY;
    (*module)->library = library;
    standin_count(1);
    return CUDA_SUCCESS;
}

CALL(cuModuleUnload, cuda_module *module) {
    for (unsigned i = 0; i < module->n; i++) free(module->functions[i]);
    if (module->library) dlclose(module->library);
    free(module->code);
    free(module);
    standin_count(-1);
    return CUDA_SUCCESS;
}

static void *symbol(const cuda_module *module, const char *kind, const char *name) {
    char whole[192];
    snprintf(whole, sizeof whole, "%s%s", kind, name);
    return dlsym(module->library, whole);
}

CALL(cuModuleGetFunction, cuda_function **function, cuda_module *module, const char *name) {
    cuda_code code;
    if (standin_fails(&code)) return code;
    if (module->code) {
        *function = (cuda_function *)module; /* is not called */
        return names(module, name) ? CUDA_SUCCESS : STANDIN_NOT_FOUND;
    }
    void *call = symbol(module, "standin_call_", name);
    const unsigned *count = symbol(module, "standin_count_", name);
    if (!call || !count || module->n == MOST_KERNELS) return STANDIN_NOT_FOUND;
    cuda_function *f = calloc(1, sizeof *f);
    if (!f) return CUDA_OUT_OF_MEMORY;
    *(void **)&f->kernel.call = call;
    f->kernel.n_arguments = *count;
    *(void **)&f->kernel.thread = symbol(module, "", "threadIdx");
    *(void **)&f->kernel.block = symbol(module, "", "blockIdx");
    *(void **)&f->kernel.block_size = symbol(module, "", "blockDim");
    *(void **)&f->kernel.grid = symbol(module, "", "gridDim");
    *(void **)&f->kernel.barrier = symbol(module, "", "standin_barrier");
    *function = module->functions[module->n++] = f;
    return CUDA_SUCCESS;
}

/* ---- threads of a block ---- */

enum { STACK = 64 << 10 };

/* One launch at a time: what its threads share is static. */
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const standin_kernel *kernel;
    void **arguments;
    ucontext_t outside, threads[STANDIN_MOST_THREADS];
    char *stacks;
    unsigned now;
    bool ended[STANDIN_MOST_THREADS];
    bool alone; /* the threads of this launch meet no barrier: they are called as they are */
} work;

static void barrier(void) {
    if (work.alone) {
        fprintf(stderr, "cuda stand-in: some threads meet a barrier that others do not\n");
        abort();
    }
    swapcontext(&work.threads[work.now], &work.outside);
}

static void thread_main(void) {
    work.kernel->call(work.arguments);
    work.ended[work.now] = true;
    swapcontext(&work.threads[work.now], &work.outside);
}

static void begin(unsigned t) {
    getcontext(&work.threads[t]);
    work.threads[t].uc_stack.ss_sp = work.stacks + (size_t)t * STACK;
    work.threads[t].uc_stack.ss_size = STACK;
    work.threads[t].uc_link = NULL;
    work.ended[t] = false;
    makecontext(&work.threads[t], thread_main, 0);
}

static void go_on(unsigned t, unsigned width) {
    work.now = t;
    work.kernel->thread->x = t % width;
    work.kernel->thread->y = t / width;
    swapcontext(&work.outside, &work.threads[t]);
}

static void run_alone(unsigned first, const unsigned *size) {
    for (unsigned t = first; t < size[0] * size[1]; t++) {
        work.kernel->thread->x = t % size[0];
        work.kernel->thread->y = t / size[0];
        work.kernel->call(work.arguments);
    }
}

/* All threads to the next barrier, in turns. Whether there is one the first thread shows. */
static void run_block(const unsigned *size) {
    unsigned n = size[0] * size[1], ended = 0;
    if (work.alone) {
        run_alone(0, size);
        return;
    }
    for (unsigned t = 0; t < n; t++) {
        begin(t);
        go_on(t, size[0]);
        ended += work.ended[t];
        if (t || !work.ended[0]) continue;
        work.alone = true;
        run_alone(1, size);
        return;
    }
    while (ended < n) {
        if (ended) {
            fprintf(stderr, "cuda stand-in: %u of %u threads end before a barrier\n", ended, n);
            abort();
        }
        for (unsigned t = 0; t < n; t++) {
            go_on(t, size[0]);
            ended += work.ended[t];
        }
    }
}

void standin_run(const standin_kernel *kernel, const unsigned *grid, const unsigned *block,
                 void **arguments) {
    pthread_mutex_lock(&running);
    if (!work.stacks) work.stacks = malloc((size_t)STANDIN_MOST_THREADS * STACK);
    work.kernel = kernel;
    work.arguments = arguments;
    work.alone = false;
    *kernel->barrier = barrier;
    kernel->block_size->x = block[0];
    kernel->block_size->y = block[1];
    kernel->block_size->z = kernel->grid->z = 1;
    kernel->grid->x = grid[0];
    kernel->grid->y = grid[1];
    for (unsigned y = 0; y < grid[1]; y++)
        for (unsigned x = 0; x < grid[0]; x++) {
            kernel->block->x = x;
            kernel->block->y = y;
            run_block(block);
        }
    pthread_mutex_unlock(&running);
}

/* ---- launches ---- */

typedef struct launch {
    standin_kernel kernel;
    unsigned grid[2], block[2];
    uint64_t values[]; /* of the arguments, which are all of 8 bytes */
} launch;

static void do_launch(void *context) {
    launch *l = context;
    void *arguments[256];
    for (unsigned i = 0; i < l->kernel.n_arguments; i++) arguments[i] = &l->values[i];
    standin_run(&l->kernel, l->grid, l->block, arguments);
}

CALL(cuLaunchKernel, cuda_function *f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
     cuda_stream *stream, void **arguments, void **extra) {
    unsigned n = f->kernel.n_arguments;
    if (!grid_x || !grid_y || !block_x || !block_y || grid_x > INT32_MAX || grid_y > UINT16_MAX ||
        block_x * block_y > (unsigned)standin_threads() || grid_z != 1 || block_z != 1 || n > 256)
        return STANDIN_INVALID_VALUE;
    launch *l = malloc(sizeof *l + n * sizeof *l->values);
    if (!l) return CUDA_OUT_OF_MEMORY;
    *l = (launch){f->kernel, {grid_x, grid_y}, {block_x, block_y}};
    for (unsigned i = 0; i < n; i++) memcpy(&l->values[i], arguments[i], sizeof l->values[i]);
    standin_count_launch(false);
    return standin_enqueue(stream, do_launch, l);
}
