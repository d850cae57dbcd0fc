/* nvrtc PATTERN [EVERY [FIRST]]: renders the kernels of the conformance cases, or of each EVERYth
 * from number FIRST on, for CUDA, and compiles all of them with NVRTC, which needs no GPU. PATTERN:
 * of files that may be the library (glob), beside those that the system finds. */
#include "cases.h"

#include "backend/fuse/render.h"
#include "base/dl.h"
#include "base/map.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 200 /* kernels of a program */, LOADS = 48, PASSES = 8, LOG_ROOM = 1500 };

typedef struct nvrtc_program nvrtc_program;
static struct {
    int (*create)(nvrtc_program **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(nvrtc_program *, int, const char *const *);
    int (*destroy)(nvrtc_program **);
    int (*log_size)(nvrtc_program *, size_t *);
    int (*log)(nvrtc_program *, char *);
    int (*version)(int *, int *);
} nvrtc;

typedef struct tally {
    uint32_t every, first, number; /* of cases: which are rendered; which it is */
    uint32_t cases, kernels, batch, failed;
    base_map seen; /* hashes of kernels */
    base_str source;
} tally;

static void fail(tally *t, const char *what, const char *why) {
    t->failed++;
    printf("FAILED %s: %s\n", what, why);
}

/* ---- the library ---- */

static shoal_status load(base_dl *library) {
    SHOAL_TRY(base_dl_symbol(library, "nvrtcCreateProgram", &nvrtc.create));
    SHOAL_TRY(base_dl_symbol(library, "nvrtcCompileProgram", &nvrtc.compile));
    SHOAL_TRY(base_dl_symbol(library, "nvrtcDestroyProgram", &nvrtc.destroy));
    SHOAL_TRY(base_dl_symbol(library, "nvrtcGetProgramLogSize", &nvrtc.log_size));
    SHOAL_TRY(base_dl_symbol(library, "nvrtcGetProgramLog", &nvrtc.log));
    return base_dl_symbol(library, "nvrtcVersion", &nvrtc.version);
}

static shoal_status open_nvrtc(const char *pattern, base_dl **out) {
    const char *const known[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
    glob_t found = {0};
    if (!glob(pattern, 0, NULL, &found) &&
        base_dl_open((const char *const *)found.gl_pathv, found.gl_pathc, out) == SHOAL_OK) {
        globfree(&found);
        return SHOAL_OK;
    }
    globfree(&found);
    return base_dl_open(known, sizeof known / sizeof *known, out);
}

/* ---- compiling ---- */

static void tell_log(tally *t, nvrtc_program *program, int code) {
    size_t size = 0;
    char *log = NULL;
    if (!nvrtc.log_size(program, &size) && (log = calloc(1, size + 1))) nvrtc.log(program, log);
    const char *first = log ? strstr(log, ": error") : NULL; /* after any number of warnings */
    printf("error %d of NVRTC%.*s\n", code, LOG_ROOM, first ? first : "");
    free(log);
    fail(t, "a program", "does not compile");
}

/* What is rendered so far; then begins a new program. */
static void compile(tally *t) {
    static const char *const options[] = {"--gpu-architecture=sm_80", "--fmad=false"};
    nvrtc_program *program = NULL;
    if (t->batch && base_str_status(&t->source)) exit(2);
    int code = t->batch ? nvrtc.create(&program, t->source.data, "kernels.cu", 0, NULL, NULL) : 0;
    if (!code && program) code = nvrtc.compile(program, 2, options);
    if (code) tell_log(t, program, code);
    if (program) nvrtc.destroy(&program);
    base_str_fini(&t->source);
    base_str_init(&t->source);
    fuse_render_prelude(&fuse_dialect_cuda, &t->source);
    t->batch = 0;
}

/* A kernel that was not there before: cases have many alike. */
static void add_kernel(tally *t, const fuse_kernel *k) {
    char name[32];
    base_str text;
    base_str_init(&text);
    fuse_render(k, "NAME", &text);
    if (base_str_status(&text)) exit(2);
    uint64_t hash = base_hash(text.data, text.size);
    if (!base_map_get(&t->seen, hash)) {
        if (base_map_set(&t->seen, hash, t) != SHOAL_OK) exit(2);
        snprintf(name, sizeof name, "k%u", t->kernels++);
        base_str_format(&t->source, "#define NAME %s\n%s#undef NAME\n", name, text.data);
        if (++t->batch == BATCH) compile(t);
    }
    base_str_fini(&text);
}

/* ---- cases ---- */

static bool renders(void *context, const shoal_graph *g, const shoal_node *node) {
    return fuse_renders(&fuse_dialect_cuda, g, node) != FUSE_OWN;
}

static shoal_status render_graph(tally *t, const shoal_graph *g, base_arena *arena) {
    const fuse_limits limits = {
        .operations = LOADS, .loads = LOADS, .passes = PASSES, .any_stride = true};
    fuse_plan plan;
    fuse_choice *choices = base_arena_array(arena, fuse_choice, g->n_nodes + (size_t)1);
    if (!choices) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        uint8_t role = (uint8_t)fuse_renders(&fuse_dialect_cuda, g, &g->nodes[n]);
        choices[n] = (fuse_choice){.role = role, .views = role != FUSE_OWN ? UINT32_MAX : 0};
    }
    SHOAL_TRY(fuse_plan_make(g, choices, &limits, arena, &plan));
    for (uint32_t s = 0; s < plan.n_steps; s++)
        if (plan.steps[s].kernel) add_kernel(t, plan.steps[s].kernel);
    return SHOAL_OK;
}

static void render_case(void *context, const test_case *c) {
    tally *t = context;
    uint32_t number = t->number++;
    if (number < t->first || (number - t->first) % t->every) return;
    graph *own;
    base_arena arena;
    base_arena_init(&arena, 0);
    shoal_status status = graph_new(0, &own);
    if (status) exit(2);
    status = graph_decompose(graph_data(c->graph), renders, NULL, own);
    if (!status) status = render_graph(t, graph_data(own), &arena);
    if (status) fail(t, c->name, shoal_error_message());
    graph_destroy(&own);
    base_arena_fini(&arena);
    t->cases++;
}

int main(int argc, char **argv) {
    base_dl *library;
    int major = 0, minor = 0;
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: nvrtc PATTERN [EVERY [FIRST]]\n");
        return 2;
    }
    tally t = {.every = argc > 2 ? (uint32_t)atoi(argv[2]) : 1,
               .first = argc > 3 ? (uint32_t)atoi(argv[3]) : 0};
    if (!t.every) t.every = 1;
    if (open_nvrtc(argv[1], &library)) {
        printf("SKIP: no NVRTC (pip install nvidia-cuda-nvrtc-cu12): %s\n", shoal_error_message());
        return 77;
    }
    if (load(library) || nvrtc.version(&major, &minor)) {
        printf("FAILED %s: %s\n", base_dl_name(library), shoal_error_message());
        return 1;
    }
    base_map_init(&t.seen);
    base_str_init(&t.source);
    compile(&t);
    if (each_case(render_case, &t)) fail(&t, "cases", shoal_error_message());
    compile(&t);
    printf("NVRTC %d.%d: %u kernels of %u cases\n", major, minor, t.kernels, t.cases);
    printf("%u passed, %u failed\n", t.kernels, t.failed);
    base_str_fini(&t.source);
    base_map_fini(&t.seen);
    return t.failed || !t.kernels ? 1 : 0;
}
