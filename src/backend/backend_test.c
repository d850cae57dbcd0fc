/* Backends beside their numbers, which test/conformance proves: the registry, memory, copies,
 * errors with their texts, fences around runs, and reuse of memory. */
#include "backend/registry.h"

#include "backend/cpu/cpu.h"
#include "backend/null/null.h"
#include "base/fence.h"
#include "graph/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define assert_ok(expression)                                                                      \
    do {                                                                                           \
        shoal_status status_ = (expression);                                                       \
        if (status_) print_error("%s\n", shoal_error_message());                                   \
        assert_int_equal(status_, SHOAL_OK);                                                       \
    } while (0)
#define assert_fails(expression, expected, text)                                                   \
    do {                                                                                           \
        assert_int_equal(expression, expected);                                                    \
        if (!strstr(shoal_error_message(), text)) fail_msg("message: %s", shoal_error_message());  \
    } while (0)

static void test_registry(void **state) {
    const shoal_backend *backend;
    assert_ok(backend_find("ref", &backend));
    assert_string_equal(backend->name, "ref");
    assert_fails(backend_find("gpu", &backend), SHOAL_NOT_FOUND,
                 "unknown backend 'gpu'; known: cpu, cuda, opencl, ggml, ref, null");
    assert_null(backend);
    static shoal_backend mine;
    mine = backend_null;
    assert_fails(shoal_backend_add(&mine), SHOAL_INVALID, "'null' exists already");
    mine.name = "mine";
    mine.abi = 7;
    assert_fails(shoal_backend_add(&mine), SHOAL_VERSION, "ABI 7");
    mine.abi = SHOAL_BACKEND_ABI;
    mine.run = NULL;
    assert_fails(shoal_backend_add(&mine), SHOAL_INVALID, "'mine' lacks a function");
    mine.run = backend_null.run;
    assert_ok(shoal_backend_add(&mine));
    assert_ok(backend_find("mine", &backend));
    assert_ptr_equal(backend, &mine);
    assert_ptr_equal(backend_at(6), &mine);
    assert_null(backend_at(7));
}

static shoal_status run_own(const shoal_host *host, void *context, const shoal_type *types,
                            const void *const *inputs, uint32_t n_inputs, const shoal_type *type,
                            void *output) {
    return SHOAL_OK;
}

/* Plug-ins may know less of the table than this library. */
static void test_operations_of_older_plugins(void **state) {
    static shoal_operation old = {.name = "old", .run = run_own};
    old.size = offsetof(shoal_operation, cuda) - 1;
    assert_fails(shoal_operation_add(&old), SHOAL_INVALID, "lacks a name or a function");
    old.size = offsetof(shoal_operation, cuda);
    assert_ok(shoal_operation_add(&old));
    assert_fails(shoal_operation_add(&old), SHOAL_INVALID, "'old' exists already");
}

/* ---- one device, and graphs for it ---- */

typedef struct fixture {
    const shoal_backend *backend;
    shoal_device *device;
} fixture;

static fixture open_device(const char *name) {
    fixture f;
    shoal_device_info info;
    assert_ok(backend_find(name, &f.backend));
    assert_int_equal(f.backend->device_count(backend_host()), 1);
    assert_ok(f.backend->device_info(backend_host(), 0, &info));
    assert_true(info.name[0] && info.threads >= 1 && info.alignment == 64);
    assert_fails(f.backend->device_new(backend_host(), 3, 0, &f.device), SHOAL_NOT_FOUND,
                 "no device 3");
    assert_ok(f.backend->device_new(backend_host(), 0, 2, &f.device));
    return f;
}

static shoal_memory *new_memory(const fixture *f, size_t bytes, void **data) {
    shoal_memory *memory;
    assert_ok(f->backend->memory_new(f->device, bytes, &memory));
    *data = f->backend->memory_host(f->device, memory);
    assert_non_null(*data);
    assert_true((uintptr_t)*data % 64 == 0);
    return memory;
}

static const char *const names[] = {"null", "ref", "cpu"};

static void test_memory(void **state) {
    for (int i = 0; i < 3; i++) {
        fixture f = open_device(names[i]);
        const size_t sizes[] = {0, 1, 64, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
        for (int k = 0; k < 7; k++) {
            void *data;
            shoal_memory *memory = new_memory(&f, sizes[k], &data);
            memset(data, 1, sizes[k]);
            f.backend->memory_free(f.device, memory);
        }
        shoal_memory *memory;
        assert_fails(f.backend->memory_new(f.device, SIZE_MAX - 100, &memory), SHOAL_NO_MEMORY,
                     "no memory for");
        assert_fails(f.backend->memory_new(f.device, SIZE_MAX, &memory), SHOAL_NO_MEMORY,
                     "no memory for");
        float host[4] = {1, 2, 3, 4};
        shoal_import from = {SHOAL_IMPORT_HOST, host, sizeof host, false};
        assert_ok(f.backend->memory_import(f.device, &from, &memory));
        assert_ptr_equal(f.backend->memory_host(f.device, memory), host);
        f.backend->memory_free(f.device, memory);
        f.backend->device_free(f.device);
    }
}

static void test_cpu_keeps_large_blocks(void **state) {
    fixture f = open_device("cpu");
    void *first, *second, *small;
    shoal_memory *memory = new_memory(&f, 8 << 20, &first);
    f.backend->memory_free(f.device, memory);
    assert_int_equal(f.device->cache.bytes, 8 << 20);
    memory = new_memory(&f, (7 << 20) + 1, &second);
    assert_ptr_equal(first, second);
    assert_int_equal(f.device->cache.bytes, 0);
    f.backend->memory_free(f.device, memory);
    memory = new_memory(&f, 3 << 20, &small); /* would waste more than a quarter */
    assert_ptr_not_equal(first, small);
    f.backend->memory_free(f.device, memory);
    assert_int_equal(f.device->cache.n, 2);
    /* Of equal ones the newest, so that those grow old that nobody needs. */
    memory = new_memory(&f, 16 << 20, &first);
    shoal_memory *other = new_memory(&f, 16 << 20, &second);
    f.backend->memory_free(f.device, memory);
    f.backend->memory_free(f.device, other);
    memory = new_memory(&f, 16 << 20, &first);
    assert_ptr_equal(first, second);
    f.backend->memory_free(f.device, memory);
    shoal_memory *many[BACKEND_KEPT_BLOCKS + 8];
    for (int i = 0; i < BACKEND_KEPT_BLOCKS + 8; i++) many[i] = new_memory(&f, 2 << 20, &small);
    for (int i = 0; i < BACKEND_KEPT_BLOCKS + 8; i++) f.backend->memory_free(f.device, many[i]);
    assert_int_equal(f.device->cache.n, BACKEND_KEPT_BLOCKS);
    assert_true(f.device->cache.bytes <= (size_t)BACKEND_KEPT_BLOCKS * (4 << 20));
    f.backend->device_free(f.device);
}

static void test_copy(void **state) {
    for (int i = 1; i < 3; i++) {
        fixture f = open_device(names[i]);
        void *from_data, *to_data;
        shoal_binding from = {new_memory(&f, 6 * 4, &from_data), 0};
        shoal_binding to = {new_memory(&f, 4 + 12 * 4, &to_data), 4};
        for (int k = 0; k < 6; k++) ((int32_t *)from_data)[k] = k;
        memset(to_data, 0, 4 + 12 * 4);
        int64_t at[] = {1, 2};
        const int64_t size[] = {2, 2}, to_dims[] = {3, 4}, dims[] = {2, 3}, start[] = {0, 1};
        const shoal_box box = {2, 4, size, to_dims, at, dims, start};
        assert_ok(f.backend->copy(f.device, to, from, &box, NULL));
        const int32_t expected[] = {0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 4, 5};
        assert_memory_equal(to_data, expected, sizeof expected);
        /* Out of it, and into it again. */
        int32_t here[12] = {0};
        assert_ok(f.backend->read(f.device, here, from, &box, NULL));
        assert_memory_equal(here, expected + 1, sizeof here);
        memset(to_data, 0, 4 + 12 * 4);
        for (int k = 0; k < 6; k++) here[k] = k;
        assert_ok(f.backend->write(f.device, to, here, &box, NULL));
        assert_memory_equal(to_data, expected, sizeof expected);
        at[1] = 3;
        shoal_fence *fence;
        assert_ok(base_fence_new(&fence));
        shoal_point done = {fence, 1};
        assert_fails(f.backend->copy(f.device, to, from, &box, &(shoal_points){NULL, 0, &done, 1}),
                     SHOAL_INVALID, "copy target: 3+2 is outside axis 1 of 4");
        assert_fails(base_fence_wait(done, 0), SHOAL_INVALID, "outside axis 1");
        at[1] = 2;
        to.offset = 8;
        assert_fails(f.backend->copy(f.device, to, from, &box, NULL), SHOAL_INVALID,
                     "needs 48 bytes from 8 on, but its memory has 52 bytes");
        base_fence_release(&fence);
        f.backend->memory_free(f.device, from.memory);
        f.backend->memory_free(f.device, to.memory);
        f.backend->device_free(f.device);
    }
}

/* n times: x = -x; then the sum with the input. */
static graph *chain(uint32_t n, int64_t elements) {
    graph *g;
    shoal_type type = {.dtype = SHOAL_F32, .rank = 1, .dims = {elements}};
    uint32_t input, x, sum;
    assert_ok(graph_new(0, &g));
    assert_ok(graph_add_input(g, &type, &input));
    x = input;
    for (uint32_t i = 0; i < n; i++)
        assert_ok(graph_add(g, GRAPH_NEGATE, &x, 1, NULL, 0, NULL, 0, &x));
    assert_ok(graph_add(g, GRAPH_ADD, (uint32_t[]){x, input}, 2, NULL, 0, NULL, 0, &sum));
    assert_ok(graph_add_output(g, sum));
    return g;
}

static void test_run(void **state) {
    for (int i = 0; i < 3; i++) {
        fixture f = open_device(names[i]);
        graph *g = chain(2, 3);
        int32_t in_place = 9;
        shoal_compile_report report = {.size = sizeof report, .in_place = &in_place};
        shoal_executable *executable;
        assert_ok(f.backend->compile(f.device, graph_data(g), NULL, &report, &executable));
        graph_destroy(&g); /* the program keeps what it needs */
        assert_true(in_place == -1 || in_place == 0);
        float host[3] = {1, 2, -3};
        void *data;
        shoal_binding buffers[2] = {{0}};
        shoal_import from = {SHOAL_IMPORT_HOST, host, sizeof host, true};
        assert_ok(f.backend->memory_import(f.device, &from, &buffers[0].memory));
        buffers[1].memory = new_memory(&f, sizeof host, &data);
        shoal_fence *fence;
        assert_ok(base_fence_new(&fence));
        shoal_point ready = {fence, 1}, done = {fence, 2}, again = {fence, 3};
        base_fence_signal(ready, SHOAL_OK, NULL);
        assert_ok(
            f.backend->run(f.device, executable, buffers, 2, &(shoal_points){&ready, 1, &done, 1}));
        assert_ok(base_fence_wait(done, 1000));
        const float doubled[3] = {2, 4, -6}, zeros[3] = {0};
        assert_memory_equal(data, i ? doubled : zeros, sizeof host);
        assert_int_equal(
            f.backend->run(f.device, executable, buffers, 1, &(shoal_points){NULL, 0, &again, 1}),
            SHOAL_INVALID);
        assert_fails(base_fence_wait(again, 0), SHOAL_INVALID, "buffers");
        /* A failed wait fails what is signalled. */
        shoal_point broken = {fence, 4}, after = {fence, 5};
        base_fence_signal(broken, SHOAL_LOST, "worker 3 died");
        assert_int_equal(f.backend->run(f.device, executable, buffers, 2,
                                        &(shoal_points){&broken, 1, &after, 1}),
                         SHOAL_LOST);
        assert_int_equal(base_fence_wait(after, 0), SHOAL_LOST);
        if (i) assert_string_equal(shoal_error_message(), "worker 3 died");
        if (i) {
            buffers[1].offset = 2;
            assert_fails(f.backend->run(f.device, executable, buffers, 2, NULL), SHOAL_INVALID,
                         "output 0 needs 12 bytes from 2 on");
            buffers[0].offset = 4;
            assert_fails(f.backend->run(f.device, executable, buffers, 2, NULL), SHOAL_INVALID,
                         "input 0 needs 12 bytes from 4 on");
        }
        base_fence_release(&fence);
        f.backend->memory_free(f.device, buffers[0].memory);
        f.backend->memory_free(f.device, buffers[1].memory);
        f.backend->executable_free(f.device, executable);
        f.backend->device_free(f.device);
    }
}

static void test_misaligned_input(void **state) {
    fixture f = open_device("cpu");
    graph *g = chain(1, 2);
    shoal_compile_report report = {.size = sizeof report};
    shoal_executable *executable;
    assert_ok(f.backend->compile(f.device, graph_data(g), NULL, &report, &executable));
    void *data;
    shoal_memory *memory = new_memory(&f, 64, &data);
    shoal_binding buffers[] = {{memory, 2}, {memory, 32}};
    assert_fails(f.backend->run(f.device, executable, buffers, 2, NULL), SHOAL_INVALID,
                 "input 0 is not aligned to its elements of 4 bytes");
    f.backend->memory_free(f.device, memory);
    f.backend->executable_free(f.device, executable);
    f.backend->device_free(f.device);
    graph_destroy(&g);
}

static void test_unsupported(void **state) {
    for (int i = 1; i < 3; i++) {
        fixture f = open_device(names[i]);
        /* Built by hand: an exchange never reaches a backend by the way of the planner. */
        shoal_node node = {.op = GRAPH_EXCHANGE};
        shoal_graph g = {.n_nodes = 1, .nodes = &node};
        shoal_compile_report report = {.size = sizeof report};
        shoal_executable *executable;
        assert_false(f.backend->supports(f.device, &g, &node));
        assert_fails(f.backend->compile(f.device, &g, NULL, &report, &executable),
                     SHOAL_UNSUPPORTED, "cannot run operation 'exchange'");
        f.backend->device_free(f.device);
    }
}

static void test_cpu_reuses_memory(void **state) {
    fixture f = open_device("cpu");
    graph *g = chain(100, 1000);
    int32_t in_place;
    bool frozen = true;
    shoal_compile_options options = {sizeof options, &frozen};
    shoal_compile_report report = {.size = sizeof report, .in_place = &in_place};
    shoal_executable *executable;
    assert_ok(f.backend->compile(f.device, graph_data(g), NULL, &report, &executable));
    /* The chain works in place: one value's bytes, rounded up to 64, and a register per thread. */
    assert_true(report.workspace <= 4032 + 2 * 8192);
    assert_int_equal(in_place, 0);
    f.backend->executable_free(f.device, executable);
    assert_ok(f.backend->compile(f.device, graph_data(g), &options, &report, &executable));
    assert_int_equal(in_place, -1);
    f.backend->executable_free(f.device, executable);
    f.backend->device_free(f.device);
    graph_destroy(&g);
}

/* A chain of updates of boxes moves nothing but these: the result may have the operand's memory. */
static void test_cpu_updates_in_place(void **state) {
    fixture f = open_device("cpu");
    const shoal_type type = {.dtype = SHOAL_F32, .rank = 2, .dims = {300, 100}};
    const shoal_type row = {.dtype = SHOAL_F32, .rank = 2, .dims = {1, 100}};
    const shoal_type index = {.dtype = SHOAL_I32};
    graph *g;
    uint32_t x, y, at;
    int32_t in_place = 9;
    shoal_executable *executable;
    assert_ok(graph_new(0, &g));
    assert_ok(graph_add_input(g, &type, &x));
    assert_ok(graph_add_input(g, &row, &y));
    assert_ok(graph_add_input(g, &index, &at));
    for (int i = 0; i < 3; i++)
        assert_ok(graph_add(g, GRAPH_DYNAMIC_UPDATE_SLICE, (uint32_t[]){x, y, at, at}, 4, NULL, 0,
                            NULL, 0, &x));
    assert_ok(graph_add_output(g, x));
    shoal_compile_report report = {.size = sizeof report, .in_place = &in_place};
    assert_ok(f.backend->compile(f.device, graph_data(g), NULL, &report, &executable));
    assert_int_equal(in_place, 0);
    assert_int_equal(report.workspace, 0);
    f.backend->executable_free(f.device, executable);
    graph_destroy(&g);
    f.backend->device_free(f.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registry),
        cmocka_unit_test(test_operations_of_older_plugins),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_cpu_keeps_large_blocks),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_misaligned_input),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_cpu_reuses_memory),
        cmocka_unit_test(test_cpu_updates_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
