/* conformance BACKEND[:NUMBER] [--partial|--flushes] [EVERY [FIRST [large]]]: runs every case on a
 * backend's device (the first, if no number is given), or each EVERYth from number FIRST on, and
 * all that are `large`, and compares the results with the reference's. All of them are compiled
 * before the first is run: a backend may build what it needs for many at once. --partial: it need
 * not support every operation.
 * --flushes: nor subnormal numbers, which may count as zeros.
 *
 * conformance --cases: writes the cases with the reference's results to standard output, for
 * golden.py, which compares them with NumPy's: per case one line of JSON, then the bytes of the
 * inputs and of the outputs. */
#include "build.h"
#include "cases.h"
#include "describe.h"

#include "backend/ref/ref.h"
#include "backend/registry.h"
#include "base/fence.h"
#include "base/str.h"
#include "base/vec.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OUTPUTS = 16, DEADLINE_MS = 60000 };

typedef struct target {
    const shoal_backend *backend;
    shoal_device *device;
} target;

typedef struct compiled {
    shoal_executable *executable; /* NULL: for the reason */
    int32_t in_place[MOST_OUTPUTS];
    char why[400];
} compiled;

typedef struct tally {
    target reference, tested;
    uint32_t passed, failed;
    bool partial;
    uint32_t aside;                /* cases that the backend does not support */
    uint32_t every, first, number; /* of cases: which are run; which it is */
    bool large;                    /* and those */
    uint32_t at;                   /* of those that are run */
    BASE_VEC(compiled) compiled;   /* of those that are run, on the tested backend */
    bool seen[GRAPH_OP_BUILT_IN];  /* operations that a case has */
} tally;

static void fail(const test_case *c, tally *t, const char *what, const char *why) {
    t->failed++;
    if (t->failed <= 40) printf("FAILED %s: %s: %s\n", c->name, what, why);
}

static shoal_status open_target(const char *name, target *t) {
    char backend[64] = "";
    uint32_t index = 0;
    sscanf(name, "%63[^:]:%" SCNu32, backend, &index);
    SHOAL_TRY(backend_find(backend, &t->backend));
    uint32_t count = t->backend->device_count(backend_host());
    if (!count) return SHOAL_NOT_FOUND;
    if (index >= count)
        return base_fail(SHOAL_NOT_FOUND, "there are %u devices, no number %u", count, index);
    return t->backend->device_new(backend_host(), index, 2, &t->device);
}

/* ---- running a case ---- */

static size_t output_bytes(const shoal_graph *g, uint32_t i) {
    return (size_t)base_type_bytes(&g->values[g->outputs[i]].type);
}

static shoal_status copy_out(const target *t, shoal_memory *memory, void *to, size_t bytes) {
    const int64_t size = (int64_t)bytes, zero = 0;
    const shoal_box all = {1, 1, &size, &size, &zero, &size, &zero};
    shoal_fence *fence;
    SHOAL_TRY(base_fence_new(&fence));
    const shoal_point done = {fence, 1};
    shoal_status status = t->backend->read(t->device, to, (shoal_binding){memory, 0}, &all,
                                           &(shoal_points){.signal = &done, .n_signal = 1});
    if (!status) status = base_fence_wait(done, DEADLINE_MS);
    base_fence_release(&fence);
    return status;
}

static shoal_status new_block(const target *t, const void *data, size_t bytes, shoal_memory **out) {
    const int64_t size = (int64_t)bytes, zero = 0;
    const shoal_box all = {1, 1, &size, &size, &zero, &size, &zero};
    shoal_fence *fence;
    SHOAL_TRY(t->backend->memory_new(t->device, bytes, out));
    void *from = malloc(bytes + 1);
    if (!from) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    if (data)
        memcpy(from, data, bytes);
    else
        memset(from, 0xa5, bytes);
    shoal_status status = base_fence_new(&fence);
    const shoal_point done = {fence, 1};
    if (!status)
        status = t->backend->write(t->device, (shoal_binding){*out, 0}, from, &all,
                                   &(shoal_points){.signal = &done, .n_signal = 1});
    if (!status) status = base_fence_wait(done, DEADLINE_MS);
    base_fence_release(&fence);
    free(from);
    return status;
}

/* Where in_place is given, such outputs lie in their inputs' memory. */
static shoal_status run_once(const target *t, const test_case *c, shoal_executable *executable,
                             const int32_t *in_place, void **results) {
    const shoal_graph *g = graph_data(c->graph);
    shoal_binding buffers[MAX_INPUTS + MOST_OUTPUTS] = {{0}};
    shoal_fence *fence;
    SHOAL_TRY(base_fence_new(&fence));
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; !status && i < g->n_inputs; i++)
        status = new_block(t, c->inputs[i], (size_t)base_type_bytes(&g->values[g->inputs[i]].type),
                           &buffers[i].memory);
    for (uint32_t i = 0; !status && i < g->n_outputs; i++)
        if (in_place && in_place[i] >= 0)
            buffers[g->n_inputs + i] = buffers[in_place[i]];
        else
            status = new_block(t, NULL, output_bytes(g, i), &buffers[g->n_inputs + i].memory);
    shoal_point done = {fence, 1};
    if (!status)
        status = t->backend->run(t->device, executable, buffers, (size_t)g->n_inputs + g->n_outputs,
                                 &(shoal_points){.signal = &done, .n_signal = 1});
    if (!status) status = base_fence_wait(done, DEADLINE_MS);
    for (uint32_t i = 0; !status && i < g->n_outputs; i++)
        status = copy_out(t, buffers[g->n_inputs + i].memory, results[i], output_bytes(g, i));
    for (uint32_t i = 0; i < g->n_inputs + g->n_outputs; i++) {
        bool shared = i >= g->n_inputs && in_place && in_place[i - g->n_inputs] >= 0;
        if (buffers[i].memory && !shared) t->backend->memory_free(t->device, buffers[i].memory);
    }
    base_fence_release(&fence);
    return status;
}

static bool supports(void *context, const shoal_graph *g, const shoal_node *node) {
    const target *t = context;
    return t->backend->supports(t->device, g, node);
}

static shoal_status compile(const target *t, const test_case *c, int32_t *in_place,
                            shoal_executable **out) {
    graph *own;
    SHOAL_TRY(graph_new(0, &own));
    shoal_status status =
        graph_decompose(graph_data(c->graph), supports, (void *)(uintptr_t)t, own);
    const shoal_graph *g = graph_data(own);
    for (uint32_t i = 0; i < g->n_nodes && !status; i++)
        if (!t->backend->supports(t->device, g, &g->nodes[i]))
            status = base_fail(SHOAL_UNSUPPORTED, "supports() says no");
    shoal_compile_options options = {.size = sizeof options};
    shoal_compile_report report = {.size = sizeof report, .in_place = in_place};
    if (!status) status = t->backend->compile(t->device, g, &options, &report, out);
    graph_destroy(&own);
    return status;
}

static shoal_status run_reference(const target *t, const test_case *c, void **results) {
    int32_t in_place[MOST_OUTPUTS];
    shoal_executable *executable;
    SHOAL_TRY(compile(t, c, in_place, &executable));
    shoal_status status = run_once(t, c, executable, NULL, results);
    t->backend->executable_free(t->device, executable);
    return status;
}

/* ---- comparing ---- */

static double number_at(uint8_t dtype, const void *data, int64_t i) {
    ref_chunk chunk;
    ref_load(&chunk, dtype, data, i, 1);
    return ref_class_of(dtype) == REF_D ? chunk.d[0] : (double)chunk.f[0];
}

/* Distance of two numbers to its neighbour at `x`. */
static double unit_at(uint8_t dtype, double x) {
    static const int digits[] = {
        [SHOAL_F16] = 11, [SHOAL_BF16] = 8, [SHOAL_F32] = 24, [SHOAL_F64] = 53};
    static const int least[] = {
        [SHOAL_F16] = -24, [SHOAL_BF16] = -133, [SHOAL_F32] = -149, [SHOAL_F64] = -1074};
    int exponent;
    frexp(x, &exponent);
    exponent -= digits[dtype];
    return ldexp(1, exponent > least[dtype] ? exponent : least[dtype]);
}

static bool agree(const test_case *c, uint8_t dtype, double is, double must) {
    if (is != is || must != must) return is != is && must != must;
    if (build_flushes && (!must || build_is_subnormal(dtype, must)) &&
        (!is || build_is_subnormal(dtype, is)) && is != must)
        return true;
    if (is == must) return is != 0 || !signbit(is) == !signbit(must) || c->close >= CLOSE_UNITS;
    if (c->close == CLOSE_EXACT || isinf(is) || isinf(must)) return false;
    if (c->close == CLOSE_ULPS) {
        int ulps = dtype == SHOAL_F32 || dtype == SHOAL_F64 ? 4 : 1;
        return fabs(is - must) <= ulps * unit_at(dtype, must);
    }
    double terms = (double)c->terms;
    if (c->close == CLOSE_UNITS) {
        double size = fabs(must) > 1 ? fabs(must) : 1;
        return fabs(is - must) <= terms * unit_at(dtype, size);
    }
    return fabs(is - must) <= (terms + 8) * unit_at(dtype, terms);
}

static void compare(tally *t, const test_case *c, const char *how, void *const *is,
                    void *const *must) {
    const shoal_graph *g = graph_data(c->graph);
    char why[160];
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        const shoal_type *type = &g->values[g->outputs[o]].type;
        bool bits = c->close == CLOSE_BITS || shoal_dtype_kind((shoal_dtype)type->dtype) != 'f';
        size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
        for (int64_t i = 0; i < base_type_count(type); i++) {
            const char *a = (const char *)is[o] + (size_t)i * bytes;
            const char *b = (const char *)must[o] + (size_t)i * bytes;
            if (!memcmp(a, b, bytes)) continue;
            if (bits) {
                snprintf(why, sizeof why, "output %u, element %lld differs", o, (long long)i);
            } else {
                double x = number_at(type->dtype, is[o], i), y = number_at(type->dtype, must[o], i);
                if (agree(c, type->dtype, x, y)) continue;
                snprintf(why, sizeof why, "output %u, element %lld is %.17g, not %.17g", o,
                         (long long)i, x, y);
            }
            fail(c, t, how, why);
            return;
        }
    }
    t->passed++;
}

/* Every operation that has a kernel or a decomposition must have a case; place moves nothing. */
static void report_coverage(tally *t) {
    uint32_t covered = 0;
    for (uint16_t op = 0; op < GRAPH_OP_BUILT_IN; op++) {
        covered += t->seen[op];
        if (t->seen[op] || op == GRAPH_PLACE) continue;
        if (!ref_kernel_of(op) && !graph_op(op)->decompose) continue;
        t->failed++;
        printf("FAILED %s: has no case\n", shoal_op_name(op));
    }
    printf("cases of %u operations\n", covered);
}

static bool is_chosen(tally *t, const test_case *c) {
    uint32_t number = t->number++;
    return (number >= t->first && (number - t->first) % t->every == 0) || (t->large && c->large);
}

static void compile_one(void *context, const test_case *c) {
    tally *t = context;
    compiled new = {0};
    if (!is_chosen(t, c)) return;
    if (compile(&t->tested, c, new.in_place, &new.executable)) {
        new.executable = NULL;
        snprintf(new.why, sizeof new.why, "%s", shoal_error_message());
    }
    if (!base_vec_push(&t->compiled, new)) exit(2);
}

static void run_tested(tally *t, const test_case *c, const compiled *own, void *const *must,
                       void **is) {
    uint32_t n = graph_data(c->graph)->n_outputs;
    bool shared = false;
    for (uint32_t o = 0; o < n; o++) shared = shared || own->in_place[o] >= 0;
    if (run_once(&t->tested, c, own->executable, NULL, is))
        fail(c, t, "run", shoal_error_message());
    else
        compare(t, c, "result", is, must);
    if (shared && run_once(&t->tested, c, own->executable, own->in_place, is))
        fail(c, t, "run in place", shoal_error_message());
    else if (shared)
        compare(t, c, "result in place", is, must);
}

static void test_one(void *context, const test_case *c) {
    tally *t = context;
    const shoal_graph *g = graph_data(c->graph);
    for (uint32_t i = 0; i < g->n_nodes; i++) t->seen[g->nodes[i].op] = true;
    if (!is_chosen(t, c)) return;
    const compiled *own = &t->compiled.data[t->at++];
    if (!own->executable) {
        /* What a device does not support is done beside it. */
        if (t->partial && strstr(own->why, "supports() says no"))
            t->aside++;
        else
            fail(c, t, "compile", own->why);
        return;
    }
    void *must[MOST_OUTPUTS], *is[MOST_OUTPUTS];
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        must[i] = malloc(output_bytes(g, i) + 1);
        is[i] = malloc(output_bytes(g, i) + 1);
        if (!must[i] || !is[i]) exit(2);
    }
    if (run_reference(&t->reference, c, must))
        fail(c, t, "reference", shoal_error_message());
    else
        run_tested(t, c, own, must, is);
    t->tested.backend->executable_free(t->tested.device, own->executable);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        free(must[i]);
        free(is[i]);
    }
}

/* ---- writing cases for NumPy ---- */

static void write_case(void *context, const test_case *c) {
    tally *t = context;
    const shoal_graph *g = graph_data(c->graph);
    void *results[MOST_OUTPUTS] = {0};
    bool fine = true;
    for (uint32_t i = 0; i < g->n_outputs; i++)
        fine = fine && (results[i] = malloc(output_bytes(g, i) + 1));
    if (!fine || run_reference(&t->reference, c, results)) {
        fprintf(stderr, "%s: %s\n", c->name, shoal_error_message());
        exit(2);
    }
    base_str s;
    base_str_init(&s);
    base_str_format(&s, "{\"name\": \"%s\", \"close\": %d, \"terms\": %lld, \"graph\": ", c->name,
                    (int)c->close, (long long)c->terms);
    describe_graph(g, &s);
    base_str_text(&s, "}\n");
    for (uint32_t i = 0; i < g->n_inputs; i++)
        base_str_bytes(&s, c->inputs[i], (size_t)base_type_bytes(&g->values[g->inputs[i]].type));
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        base_str_bytes(&s, results[i], output_bytes(g, i));
        free(results[i]);
    }
    if (base_str_status(&s) || fwrite(s.data, 1, s.size, stdout) != s.size) exit(2);
    base_str_fini(&s);
    t->passed++;
}

int main(int argc, char **argv) {
    build_flushes = argc > 2 && !strcmp(argv[2], "--flushes");
    bool partial = build_flushes || (argc > 2 && !strcmp(argv[2], "--partial"));
    int numbers = partial ? 3 : 2;
    bool large = argc == numbers + 3 && !strcmp(argv[numbers + 2], "large");
    if (argc < 2 || argc > numbers + 2 + large) {
        fprintf(stderr, "usage: conformance BACKEND[:NUMBER] [--partial|--flushes] "
                        "[EVERY [FIRST [large]]] | --cases\n");
        return 2;
    }
    tally t = {.partial = partial,
               .large = large,
               .every = argc > numbers ? (uint32_t)atoi(argv[numbers]) : 1,
               .first = argc > numbers + 1 ? (uint32_t)atoi(argv[numbers + 1]) : 0};
    if (!t.every) t.every = 1;
    bool writes = !strcmp(argv[1], "--cases");
    shoal_status status = open_target("ref", &t.reference);
    if (!status && !writes) status = open_target(argv[1], &t.tested);
    if (status) {
        printf("SKIP: backend '%s': %s\n", argv[1], shoal_error_message());
        return 77;
    }
    if (!writes) status = each_case(compile_one, &t);
    t.number = 0;
    if (!status) status = each_case(writes ? write_case : test_one, &t);
    if (!writes) {
        report_coverage(&t);
        printf("conformance %s: %u comparisons with ref\n", argv[1], t.passed + t.failed);
        if (t.aside) printf("%u cases are left to another device\n", t.aside);
        printf("%u passed, %u failed\n", t.passed, t.failed);
        free(t.compiled.data);
        t.tested.backend->device_free(t.tested.device);
    }
    t.reference.backend->device_free(t.reference.device);
    return status || t.failed ? 1 : 0;
}
