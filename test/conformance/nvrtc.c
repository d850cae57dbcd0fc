/* nvrtc PATTERN [EVERY [FIRST]]: compiles with NVRTC, which needs no GPU, all kernels that the cuda
 * backend makes of the conformance cases, or of each EVERYth from number FIRST on, of products of
 * each kind, and of a user's operation. PATTERN: of files that may be the library (glob), beside
 * those that the system finds. The driver is a stand-in (test/backend/cuda_standin.h), which takes
 * what NVRTC makes and runs none of it. */
#include "build.h"

#include "backend/cuda/cuda.h"
#include "backend/gpu/gpu.h"
#include "backend/registry.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 150 /* programs that are compiled at once */ };

typedef struct tally {
    shoal_device *device;
    uint32_t every, first, number; /* of cases: which are rendered; which it is */
    uint32_t cases, kernels, failed, n;
    shoal_executable *batch[BATCH];
} tally;

static void fail(tally *t, const char *what, const char *why) {
    t->failed++;
    printf("FAILED %s: %s\n", what, why);
}

static uint32_t unbuilt(const tally *t) {
    uint32_t n = 0;
    for (const gpu_kernel *k = t->device->pending; k; k = k->next) n++;
    return n;
}

/* All that wait: a user's operation for itself, the others as one program. */
static void build(tally *t) {
    t->kernels += unbuilt(t);
    for (uint32_t i = 0; i < t->n; i++) {
        if (gpu_build(&t->batch[i]->program)) fail(t, "a program", shoal_error_message());
        if (unbuilt(t)) fail(t, "a program", "some kernels are left");
    }
    for (uint32_t i = 0; i < t->n; i++) backend_cuda.executable_free(t->device, t->batch[i]);
    t->n = 0;
}

static bool supports(void *context, const shoal_graph *g, const shoal_node *node) {
    return backend_cuda.supports(context, g, node);
}

/* Compiles a graph, if the backend takes all of it. */
static void add(tally *t, const char *name, const shoal_graph *g) {
    int32_t in_place[MAX_INPUTS * 8];
    shoal_compile_options options = {.size = sizeof options};
    shoal_compile_report report = {.size = sizeof report, .in_place = in_place};
    graph *own;
    if (graph_new(0, &own)) exit(2);
    shoal_status status = graph_decompose(g, supports, t->device, own);
    if (!status)
        status =
            backend_cuda.compile(t->device, graph_data(own), &options, &report, &t->batch[t->n]);
    if (!status && ++t->n == BATCH) build(t);
    if (status && status != SHOAL_UNSUPPORTED) fail(t, name, shoal_error_message());
    t->cases += !status;
    graph_destroy(&own);
}

static void add_case(void *context, const test_case *c) {
    tally *t = context;
    uint32_t number = t->number++;
    if (number >= t->first && (number - t->first) % t->every == 0)
        add(t, c->name, graph_data(c->graph));
}

static void add_every(void *context, const test_case *c) {
    add(context, c->name, graph_data(c->graph));
}

/* ---- what is in few cases, or in none ---- */

/* Two that are alike, and one by tiles: of both kinds of floats, and of what is not dense. */
static void add_products(tally *t) {
    static const uint8_t types[] = {SHOAL_F16, SHOAL_BF16, SHOAL_F32, SHOAL_F64};
    static const int64_t none[] = {0};
    for (size_t i = 0; i < sizeof types; i++)
        for (int64_t side = 0; side < 2; side++) {
            const shoal_type of[] = {TYPE(types[i], 70, 90), TYPE(types[i], 90, 90)};
            const shoal_attr attrs[] = {
                build_ints(SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, none, 0),
                build_ints(SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, none, 0),
                INTS(LHS_CONTRACTING_DIMENSIONS, 1),
                build_ints(SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS, &side, 1)};
            if (!build_node(GRAPH_DOT_GENERAL, of, 2, attrs, 4, CLOSE_SUM, 90, FILL_TAME))
                fail(t, "dot_general", "it cannot be built");
        }
}

static shoal_status run_nowhere(const shoal_host *host, void *context, const shoal_type *types,
                                const void *const *inputs, uint32_t n_inputs,
                                const shoal_type *type, void *output) {
    return host->fail(SHOAL_UNSUPPORTED, "it is compiled alone");
}

static const shoal_operation own = {
    .size = sizeof own,
    .name = "nvrtc.own",
    .run = run_nowhere,
    .cuda = "__device__ float half_of(float x) { return x / 2; }\n"
            "__device__ void operation(long long item, const x0_t *x0, y0_t *y0) {\n"
            "    y0[item] = half_of(x0[item]) + x0_dims[0] + y0_rank;\n}\n"};

static void add_own(tally *t) {
    const shoal_type type = TYPE(SHOAL_F32, 5, 7);
    const shoal_attr name = graph_string(SHOAL_ATTR_NAME, own.name);
    if (!build_node(GRAPH_CUSTOM, &type, 1, &name, 1, CLOSE_EXACT, 0, FILL_TAME))
        fail(t, "custom", "it cannot be built");
}

/* ---- the library ---- */

/* Kernels are compiled here, whatever was kept; ours are, where cuBLAS would be used. */
static void choose(const char *pattern) {
    glob_t found = {0};
    if (!glob(pattern, 0, NULL, &found) && found.gl_pathc)
        setenv("SHOAL_CUDA_NVRTC", found.gl_pathv[0], 1);
    globfree(&found);
    setenv("SHOAL_CUDA_CUBLAS", "/nowhere/libcublas.so", 1);
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: nvrtc PATTERN [EVERY [FIRST]]\n");
        return 2;
    }
    tally t = {.every = argc > 2 ? (uint32_t)atoi(argv[2]) : 1,
               .first = argc > 3 ? (uint32_t)atoi(argv[3]) : 0};
    if (!t.every) t.every = 1;
    choose(argv[1]);
    if (backend_cuda.device_new(backend_host(), 0, 0, &t.device)) {
        printf("SKIP: no NVRTC (pip install nvidia-cuda-nvrtc-cu12): %s\n", shoal_error_message());
        return 77;
    }
    if (shoal_operation_add(&own) || each_case(add_case, &t))
        fail(&t, "cases", shoal_error_message());
    build_begin(add_every, &t);
    add_products(&t);
    add_own(&t);
    build(&t);
    backend_cuda.device_free(t.device);
    printf("NVRTC: %u kernels of %u cases\n", t.kernels, t.cases);
    printf("%u passed, %u failed\n", t.kernels, t.failed);
    return t.failed || !t.kernels ? 1 : 0;
}
