/* Devices that fail: each call of a backend in turn, in each way. What comes out is right, since
 * another device has done it, or it is one clear error; nothing hangs, and nothing is left over.
 *
 * SHOAL_FAILURES: how many calls are tried of each way (40 over lag, 15 over drivers; 0: all); of
 * those after which the device stands still, a sixth, and 6 at most. */
#include "backend/gpu/gpu.h"
#include "backend/registry.h"
#include "base/clock.h"
#include "base/status.h"
#include "shoal/function.h"
#include "shoal/shoal.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

enum { N = 6, M = 5, K = 7, ROUNDS = 5 };

/* A device that stands still keeps what it has, which is no leak; of others faults_alive() counts
 * what is left. */
SHOAL_API int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }

static void (*faults_tell)(const char *text);
static unsigned long (*faults_calls)(void);
static long (*faults_alive)(void);

static const char *backend; /* lag; opencl by opencl_faults.c; cuda by cuda_standin.c */
static char mixed[32];
static unsigned long opening; /* calls by which a device is opened */
static unsigned long most;    /* calls that are tried of each way; 0: all */

static int open_device(void **state) {
    static const struct {
        const char *variable, *backend;
        unsigned long opening, most;
    } ways[] = {{"SHOAL_OPENCL_LIBRARY", "opencl", 3, 15},
                {"SHOAL_CUDA_LIBRARY", "cuda", 9, 15},
                {"SHOAL_BACKENDS", "lag", 1, 40}};
    const char *count = getenv("SHOAL_FAILURES");
    size_t way = 0;
    while (way < 2 && !getenv(ways[way].variable)) way++;
    most = count ? strtoul(count, NULL, 10) : ways[way].most;
    backend = ways[way].backend;
    opening = ways[way].opening;
    snprintf(mixed, sizeof mixed, "cpu,%s:0,ref", backend);
    /* It is loaded again at its first use: this is the same one. */
    void *library = dlopen(getenv(ways[way].variable), RTLD_NOW | RTLD_LOCAL);
    if (!library) return -1;
    *(void **)&faults_tell = dlsym(library, "faults_tell");
    *(void **)&faults_calls = dlsym(library, "faults_calls");
    *(void **)&faults_alive = dlsym(library, "faults_alive");
    return faults_tell && faults_calls && faults_alive ? 0 : -1;
}

/* ---- a program that makes use of everything ---- */

static shoal_status cut(shoal_tensor *x, shoal_tensor **out) {
    const uint32_t parts[] = {2, 1};
    const double weights[] = {1, 2, 1};
    shoal_layout layout = {.size = sizeof layout, .parts = parts, .weights = weights};
    return shoal_place(x, &layout, out);
}

static bool is(const float *have, const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (have[i] != want[i]) return false;
    return true;
}

/* x @ w, cut over two devices, three times over, and its sum. *right: no result was another. */
static shoal_status work(shoal_session *s, bool *right) {
    float x[N * M], w[M * K], product[N * K] = {0}, have[N * K], sum;
    for (int i = 0; i < N * M; i++) x[i] = (float)(i % 7 - 3);
    for (int i = 0; i < M * K; i++) w[i] = (float)(i % 5 - 2);
    float total = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < K; j++) {
            for (int k = 0; k < M; k++) product[i * K + j] += x[i * M + k] * w[k * K + j];
            total += product[i * K + j];
        }
    shoal_tensor *t[7] = {0};
    shoal_status status = SHOAL_OK;
    const int64_t axes[] = {0, 1};
    const int64_t of_x[] = {N, M}, of_w[] = {M, K};
    for (int turn = 0; turn < 3 && status == SHOAL_OK; turn++) {
        status = shoal_tensor_new(s, SHOAL_F32, 2, of_x, x, &t[0]);
        if (status == SHOAL_OK) status = shoal_tensor_new(s, SHOAL_F32, 2, of_w, w, &t[1]);
        if (status == SHOAL_OK) status = cut(t[0], &t[2]);
        if (status == SHOAL_OK) status = shoal_matmul(t[2], t[1], &t[3]);
        if (status == SHOAL_OK) status = cut(t[3], &t[4]);
        if (status == SHOAL_OK) status = shoal_reduce(t[4], "add", axes, 2, false, &t[5]);
        if (status == SHOAL_OK) status = shoal_read(t[4], have, sizeof have);
        if (status == SHOAL_OK) *right &= is(have, product, N * K);
        if (status == SHOAL_OK) status = shoal_read(t[5], &sum, sizeof sum);
        if (status == SHOAL_OK) *right &= sum == total;
        for (int i = 0; i < 7; i++) shoal_tensor_free(&t[i]);
    }
    return status;
}

/* The rounds of a loop by hand: y = x @ w + x, and its sum. */
static void reckon(float *x, const float *w, float *sums) {
    for (int round = 0; round < ROUNDS; round++) {
        float y[N * M];
        memcpy(y, x, sizeof y);
        for (int i = 0; i < N * M; i++)
            for (int k = 0; k < M; k++) y[i] += x[i / M * M + k] * w[k * M + i % M];
        memcpy(x, y, sizeof y);
        sums[round] = 0;
        for (int i = 0; i < N * M; i++) sums[round] += y[i];
    }
}

/* y = x @ w + x and its sum, in t[3] and t[4], as a function of t[1] and t[2]; x is donated. */
static shoal_status record(shoal_session *s, shoal_tensor **t, shoal_function **f) {
    const int64_t axes[] = {0, 1};
    SHOAL_TRY(shoal_matmul(t[1], t[2], &t[0]));
    SHOAL_TRY(shoal_add(t[0], t[1], &t[3]));
    SHOAL_TRY(shoal_reduce(t[3], "add", axes, 2, false, &t[4]));
    SHOAL_TRY(shoal_function_new(s, t + 1, 2, t + 3, 2, f));
    return shoal_function_donate(*f, 0, SHOAL_DONATE_ALWAYS);
}

/* Rounds on the workers, whose operand is written over, against the same by hand. */
static shoal_status repeat(shoal_session *s, shoal_tensor **t, shoal_function **f,
                           shoal_loop **loop, bool *right) {
    float x[N * M], w[M * M], y[N * M], have[N * M], sums[ROUNDS], sum;
    const int64_t of_x[] = {N, M}, of_w[] = {M, M};
    const shoal_carry carry = {.output = 0, .input = 0};
    const uint32_t stream = 1;
    shoal_repeat rounds = {.size = sizeof rounds,
                           .rounds = ROUNDS,
                           .n_carry = 1,
                           .n_stream = 1,
                           .carry = &carry,
                           .stream = &stream};
    for (int i = 0; i < N * M; i++) x[i] = y[i] = (float)(i % 5 - 2);
    for (int i = 0; i < M * M; i++) w[i] = (float)(i % 3 - 1);
    reckon(y, w, sums);
    SHOAL_TRY(shoal_tensor_new(s, SHOAL_F32, 2, of_x, x, &t[5]));
    SHOAL_TRY(cut(t[5], &t[1]));
    SHOAL_TRY(shoal_tensor_new(s, SHOAL_F32, 2, of_w, w, &t[2]));
    SHOAL_TRY(shoal_start(t[1]));
    SHOAL_TRY(record(s, t, f));
    for (int i = 3; i < 5; i++) shoal_tensor_free(&t[i]);
    SHOAL_TRY(shoal_function_repeat(*f, t + 1, &rounds, t + 3, loop));
    for (int round = 0; round < ROUNDS; round++) {
        void *data = &sum;
        const size_t bytes = sizeof sum;
        bool more = false;
        SHOAL_TRY(shoal_loop_next(*loop, &data, &bytes, &more));
        *right &= more && sum == sums[round];
    }
    SHOAL_TRY(shoal_read(t[3], have, sizeof have));
    *right &= is(have, y, N * M);
    return SHOAL_OK;
}

static shoal_status loop(shoal_session *s, bool *right) {
    shoal_tensor *t[6] = {0};
    shoal_function *f = NULL;
    shoal_loop *rounds = NULL;
    shoal_status status = repeat(s, t, &f, &rounds, right);
    shoal_loop_free(&rounds);
    shoal_function_free(&f);
    for (int i = 0; i < 6; i++) shoal_tensor_free(&t[i]);
    return status;
}

static char failure[512]; /* the message of the last one */
static uint32_t panels;   /* that all is done in; 0: where it pays */

/* One session; its status. */
static shoal_status try(const char *devices, const char *text, unsigned long *calls) {
    shoal_session *s = NULL;
    bool right = true;
    shoal_options options = {.size = sizeof options,
                             .hub = "embedded",
                             .workers = 3, /* two are needed, and one may be lost */
                             .backend = devices,
                             .panels = panels,
                             .timeout_ms = 60000};
    faults_tell(text);
    shoal_status status = shoal_session_open(&options, &s);
    if (status == SHOAL_OK) status = work(s, &right);
    if (status == SHOAL_OK) status = loop(s, &right);
    snprintf(failure, sizeof failure, "%s", status == SHOAL_OK ? "" : shoal_error_message());
    if (calls) *calls = faults_calls();
    shoal_session_close(&s);
    if (!right) fail_msg("%s: a result is wrong", text);
    /* The device's name says what it is, too. */
    bool names = strstr(failure, backend) || strstr(failure, "OpenCL driver") ||
                 strstr(failure, "CUDA driver");
    if (status != SHOAL_OK && !names) fail_msg("%s: %s", text, failure);
    if (status == SHOAL_TIMEOUT) fail_msg("%s: hangs: %s", text, failure);
    return status;
}

/* Each call, or as many spread over all. Another device does it, or the pool goes on without this
 * one; only one that cannot be opened is an error. */
static void each_call(const char *devices, const char *how, bool leaves) {
    char text[80];
    unsigned long calls;
    unsigned long right = 0, tried = 0;
    snprintf(text, sizeof text, "delay=20,fail=0,how=%s,without=,memory=1024", how);
    assert_int_equal(try(devices, text, &calls), SHOAL_OK);
    long before = faults_alive();
    if (!leaves) assert_int_equal(before, 0);
    unsigned long opened = devices == mixed ? opening : 3 * opening; /* by the first calls */
    if (!strcmp(how, "refused")) opened = 0;
    unsigned long step = most && calls > most ? calls / most : 1;
    static unsigned long turn; /* each begins at another call, so that together they try more */
    for (unsigned long n = 1 + turn++ % step; n <= calls; n += step, tried++) {
        snprintf(text, sizeof text, "delay=20,fail=%lu,how=%s", n, how);
        shoal_status status = try(devices, text, NULL);
        if (status && n > opened) fail_msg("%s: %s", text, failure);
        right += status == SHOAL_OK;
        if (!leaves && faults_alive()) fail_msg("%s: %ld things are left", text, faults_alive());
    }
    print_message("%s, %s, %u panels: %lu of %lu calls made to fail: %lu times right, else an "
                  "error\n",
                  devices, how, panels, tried, calls, right);
    assert_true(tried > 10 || leaves);
}

/* Alone, and in the middle of three; in panels. */
static void each_way(const char *how, bool leaves) {
    panels = 0;
    each_call(backend, how, leaves);
    each_call(mixed, how, leaves);
    panels = 2;
    each_call(backend, how, leaves);
    panels = 0;
}
static void at_once(void **state) { each_way("now", false); }
static void later(void **state) { each_way("late", false); }
static void lost(void **state) { each_way("lost", false); }

static void keep_answer(void *context, shoal_status status) {
    atomic_store((atomic_int *)context, (int)status);
}

/* Two threads move boxes: both boxes are enqueued before either answer is asked for. The first
 * fails, and nothing is there for the second. */
static void each_answer(void **state) {
    const shoal_backend *devices;
    shoal_device *device;
    shoal_memory *memory;
    if (!strcmp(backend, "lag")) return;
    assert_int_equal(backend_find(backend, &devices), SHOAL_OK);
    faults_tell("fail=0,how=lost");
    assert_int_equal(devices->device_new(backend_host(), 0, 0, &device), SHOAL_OK);
    assert_int_equal(devices->memory_new(device, sizeof(float), &memory), SHOAL_OK);
    const gpu_driver *driver = device->driver;
    float to[2];
    atomic_int answers[2] = {-1, -1};
    faults_tell("fail=1");
    for (int i = 0; i < 2; i++) {
        gpu_rectangle box = {{sizeof(float), 1, 1},
                             {&to[i], 0, sizeof(float), sizeof(float)},
                             {memory->mem, 0, sizeof(float), sizeof(float)}};
        shoal_status status = driver->move(device, GPU_MOVES, GPU_READ, &box);
        if (status) answers[i] = status;
    }
    for (int i = 0; i < 2; i++)
        if (answers[i] == -1 && driver->ask(device, GPU_MOVES, keep_answer, &answers[i]))
            answers[i] = SHOAL_LOST;
    driver->flush(device, GPU_MOVES);
    int64_t until = base_now() + 10 * BASE_SECOND;
    for (int i = 0; i < 2; i++) {
        while (answers[i] == -1 && base_now() < until)
            nanosleep(&(struct timespec){.tv_nsec = BASE_MS}, NULL);
        assert_int_equal(answers[i], i && strcmp(backend, "cuda") ? SHOAL_OK : SHOAL_LOST);
    }
    devices->memory_free(device, memory);
    devices->device_free(device);
    assert_int_equal(faults_alive(), 0);
}

/* A program that cannot be built, or has no memory to work in, has begun nothing: its operands are
 * as they were, also where its result was to take their memory. */
static void refused(void **state) {
    if (strcmp(backend, "lag")) return; /* whose runs alone can be made to fail */
    each_way("refused", false);
}

/* A device that stands still is given up; its process can end. */
static void stuck(void **state) {
    setenv("SHOAL_DEVICE_PATIENCE", "1", 1);
    most = most && most < 36 ? (most + 5) / 6 : 6; /* each takes the second */
    each_way("stuck", true);
    unsetenv("SHOAL_DEVICE_PATIENCE");
}

/* What a device does not support, or has no memory for, is done beside it. */
static void aside(void **state) {
    if (strcmp(backend, "lag")) return; /* that is told what to support */
    const char *const devices[] = {"lag", mixed};
    for (int d = 0; d < 2; d++) {
        assert_int_equal(try(devices[d], "delay=20,fail=0,without=dot_general+exchange", NULL),
                         SHOAL_OK);
        assert_int_equal(try(devices[d], "delay=20,fail=0,without=reduce", NULL), SHOAL_OK);
        assert_int_equal(try(devices[d], "delay=20,fail=0,without=,memory=0", NULL), SHOAL_OK);
    }
    faults_tell("memory=1024");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_once),     cmocka_unit_test(later),   cmocka_unit_test(lost),
        cmocka_unit_test(each_answer), cmocka_unit_test(refused), cmocka_unit_test(aside),
        cmocka_unit_test(stuck),
    };
    return cmocka_run_group_tests(tests, open_device, NULL);
}
