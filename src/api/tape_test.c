/* The tape: what it keeps and gives back, and that steps of training are programs that repeat. */
#include "api/state.h"

#include "api/testing.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static shoal_tensor *numbers(shoal_session *s, int64_t rows, int64_t columns, double step) {
    double data[256];
    shoal_tensor *t;
    for (int64_t i = 0; i < rows * columns; i++) data[i] = (double)(i % 23 - 11) * step;
    ok(shoal_tensor_new(s, SHOAL_F64, 2, (int64_t[]){rows, columns}, data, &t));
    return t;
}

static shoal_tensor *leaf(shoal_session *s, int64_t rows, int64_t columns, double step) {
    shoal_tensor *t = numbers(s, rows, columns, step);
    ok(shoal_tensor_require_gradient(t, true));
    return t;
}

static void reads(shoal_tensor *t, double *out) {
    ok(shoal_read(t, out, (size_t)base_type_bytes(shoal_tensor_type(t))));
}

static size_t origins(const shoal_session *s) {
    size_t n = 0;
    for (const api_origin *o = s->origins; o; o = o->next) n++;
    return n;
}

static void drain(shoal_session *s) {
    pthread_mutex_lock(&s->lock);
    api_drain(s);
    pthread_mutex_unlock(&s->lock);
}

/* y = sum(tanh(x w)); frees what is in between. */
static shoal_tensor *forward(shoal_tensor *x, shoal_tensor *w) {
    shoal_tensor *product, *bent, *sum;
    ok(shoal_matmul(x, w, &product));
    ok(shoal_tanh(product, &bent));
    ok(shoal_reduce(bent, "add", NULL, 0, false, &sum));
    shoal_tensor_free(&product);
    shoal_tensor_free(&bent);
    return sum;
}

static void check_gradient(shoal_tensor *x, shoal_tensor *w, shoal_tensor *gradient) {
    double a[256], b[256], got[256];
    reads(x, a);
    reads(w, b);
    reads(gradient, got);
    const int64_t *d = shoal_tensor_type(x)->dims, n = shoal_tensor_type(w)->dims[1];
    for (int64_t k = 0; k < d[1]; k++)
        for (int64_t j = 0; j < n; j++) {
            double want = 0;
            for (int64_t i = 0; i < d[0]; i++) {
                double sum = 0;
                for (int64_t t = 0; t < d[1]; t++) sum += a[i * d[1] + t] * b[t * n + j];
                want += a[i * d[1] + k] * (1 - tanh(sum) * tanh(sum));
            }
            assert_float_equal(got[k * n + j], want, 1e-9);
        }
}

static void test_values_and_memory(void **state) {
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        shoal_session *s = open_pool(workers);
        shoal_tensor *x = numbers(s, 6, 4, 0.1), *w = leaf(s, 4, 3, 0.07), *gradient;
        for (int read_before = 0; read_before < 2; read_before++) {
            shoal_tensor *y = forward(x, w);
            double loss;
            if (read_before) reads(y, &loss);
            assert_int_equal(origins(s), 4); /* the leaf and three operations */
            ok(shoal_gradients(&y, NULL, 1, &w, 1, NULL, &gradient));
            says(shoal_gradients(&y, NULL, 1, &w, 1, NULL, &(shoal_tensor *){NULL}), SHOAL_INVALID,
                 "retain_graph");
            assert_false(shoal_tensor_requires_gradient(gradient));
            check_gradient(x, w, gradient);
            shoal_tensor_free(&y);
            shoal_tensor_free(&gradient);
            drain(s);
            assert_int_equal(origins(s), 1);
        }
        shoal_tensor_free(&x);
        shoal_tensor_free(&w);
        drain(s);
        assert_null(s->origins);
        shoal_session_close(&s);
    }
}

/* What no gradient reads is not kept when the forward pass is sent off. */
static void test_what_is_kept(void **state) {
    shoal_session *s = open_pool(1);
    shoal_tensor *x = leaf(s, 4, 4, 0.1), *one = numbers(s, 4, 4, 0.2);
    shoal_tensor *sum, *twice, *bent, *loss, *gradient;
    ok(shoal_add(x, one, &sum));     /* add reads nothing ... */
    ok(shoal_add(sum, one, &twice)); /* ... and tanh its result alone */
    ok(shoal_tanh(twice, &bent));
    ok(shoal_reduce(bent, "add", NULL, 0, false, &loss));
    shoal_tensor *const weak[] = {sum, twice, bent};
    for (int i = 0; i < 3; i++) shoal_tensor_free(&(shoal_tensor *){weak[i]});
    double value, out[16];
    reads(loss, &value);
    assert_true(weak[0]->gone);
    assert_true(weak[1]->gone);
    assert_false(weak[2]->gone);
    ok(shoal_gradients(&loss, NULL, 1, &x, 1, NULL, &gradient));
    reads(gradient, out);
    for (int i = 0; i < 16; i++) {
        double t = tanh((double)(i % 23 - 11) * 0.5);
        assert_float_equal(out[i], 1 - t * t, 1e-12);
    }
    shoal_tensor *all[] = {x, one, loss, gradient};
    for (int i = 0; i < 4; i++) shoal_tensor_free(&all[i]);
    /* A value that is gone after all is made again: here the user takes a gradient at it. */
    x = leaf(s, 2, 2, 0.5);
    ok(shoal_set_gradients(SHOAL_GRADIENTS_AGAIN) == SHOAL_GRADIENTS_ON ? SHOAL_OK : SHOAL_INVALID);
    ok(shoal_exponential(x, &bent));
    ok(shoal_multiply(bent, bent, &twice));
    assert_int_equal(shoal_set_gradients(SHOAL_GRADIENTS_ON), SHOAL_GRADIENTS_AGAIN);
    ok(shoal_reduce(twice, "add", NULL, 0, false, &loss));
    shoal_tensor_free(&bent);
    shoal_tensor_free(&twice);
    reads(loss, &value);
    ok(shoal_gradients(&loss, NULL, 1, &x, 1, NULL, &gradient));
    reads(gradient, out);
    for (int i = 0; i < 4; i++) assert_float_equal(out[i], 2 * exp((i - 11)), 1e-12);
    shoal_tensor *rest[] = {x, loss, gradient};
    for (int i = 0; i < 3; i++) shoal_tensor_free(&rest[i]);
    shoal_session_close(&s);
}

/* w -= rate * gradient, in place. */
static void descend(shoal_tensor **w, shoal_tensor *gradient, shoal_tensor *rate) {
    shoal_tensor *step, *next;
    shoal_gradient_mode was = shoal_set_gradients(SHOAL_GRADIENTS_OFF);
    ok(shoal_multiply(gradient, rate, &step));
    ok(shoal_subtract(*w, step, &next));
    ok(shoal_tensor_assign(w, next));
    shoal_set_gradients(was);
    shoal_tensor_free(&step);
    shoal_tensor_free(&next);
}

/* Forward, backward and update are one program, the same one each time. */
static void test_steps_repeat(void **state) {
    shoal_session *s = open_pool(2);
    shoal_tensor *x = numbers(s, 6, 4, 0.1), *w = leaf(s, 4, 3, 0.07);
    uint64_t identity = shoal_tensor_identity(w), instances = 0;
    size_t programs = 0;
    double loss, first = 0;
    for (int step = 0; step < 20; step++) {
        double rate = 0.01 + 0.001 * step;
        shoal_tensor *y = forward(x, w), *gradient, *scalar;
        ok(shoal_gradients(&y, NULL, 1, &w, 1, NULL, &gradient));
        ok(shoal_tensor_new(s, SHOAL_F64, 0, NULL, &rate, &scalar));
        descend(&w, gradient, scalar);
        shoal_tensor_free(&gradient);
        shoal_tensor_free(&scalar);
        reads(y, &loss);
        shoal_tensor_free(&y);
        assert_int_equal(shoal_tensor_identity(w), identity);
        assert_true(shoal_tensor_is_leaf(w) && shoal_tensor_requires_gradient(w));
        shoal_pool_status pool = {.size = sizeof pool};
        ok(shoal_status_of(s, &pool, NULL, 0));
        if (step == 3) {
            programs = s->programs.count;
            first = loss;
        } else if (step > 3) {
            assert_int_equal(s->programs.count, programs);
            assert_int_equal(pool.instances, instances + 1);
        }
        instances = pool.instances;
    }
    assert_true(loss < first);
    assert_true(origins(s) <= 5);
    shoal_tensor_free(&x);
    shoal_tensor_free(&w);
    shoal_session_close(&s);
}

static void test_in_place(void **state) {
    shoal_session *s = open_pool(1);
    shoal_tensor *x = leaf(s, 2, 2, 1), *y, *detached, *z;
    ok(shoal_multiply(x, x, &y));
    says(shoal_tensor_assign(&x, y), SHOAL_INVALID, "leaf that requires gradients");
    says(shoal_tensor_require_gradient(y, false), SHOAL_INVALID, "result of multiply");
    ok(shoal_detach(y, &detached));
    assert_false(shoal_tensor_requires_gradient(detached));
    assert_string_equal(shoal_tensor_origin(y), "multiply");
    assert_null(shoal_tensor_origin(x));
    shoal_tensor *row = numbers(s, 1, 2, 1);
    says(shoal_tensor_assign(&detached, row), SHOAL_INVALID,
         "float64[2, 2] cannot become float64[1, 2]");
    ok(shoal_add(y, y, &z));
    ok(shoal_tensor_assign(&detached, z)); /* takes the way it came to be over, too */
    assert_string_equal(shoal_tensor_origin(detached), "add");
    double a[4], b[4];
    reads(detached, a);
    reads(x, b);
    for (int i = 0; i < 4; i++) assert_float_equal(a[i], 2 * b[i] * b[i], 0);
    ok(shoal_tensor_require_gradient(x, false));
    assert_false(shoal_tensor_requires_gradient(x));
    shoal_tensor *all[] = {x, y, z, detached, row};
    for (int i = 0; i < 5; i++) shoal_tensor_free(&all[i]);
    shoal_session_close(&s);
}

static void test_targets(void **state) {
    shoal_session *s = open_pool(1);
    shoal_tensor *a = leaf(s, 2, 2, 1), *b = leaf(s, 2, 2, 2), *c = leaf(s, 2, 2, 3), *sum, *y;
    ok(shoal_add(b, a, &sum));
    ok(shoal_multiply(sum, a, &y));
    ok(shoal_tensor_watch_gradient(sum));
    shoal_tensor *found[4];
    uint32_t count = 2;
    ok(shoal_gradient_targets(&y, 1, found, &count)); /* too little room: two of three */
    assert_int_equal(count, 3);
    for (int i = 0; i < 2; i++) shoal_tensor_free(&found[i]);
    count = 4;
    ok(shoal_gradient_targets(&y, 1, found, &count));
    assert_int_equal(count, 3);
    assert_int_equal(shoal_tensor_identity(found[0]), shoal_tensor_identity(a));
    assert_int_equal(shoal_tensor_identity(found[1]), shoal_tensor_identity(b));
    assert_int_equal(shoal_tensor_identity(found[2]), shoal_tensor_identity(sum));
    for (uint32_t i = 0; i < count; i++) shoal_tensor_free(&found[i]);
    shoal_tensor *plain = numbers(s, 1, 1, 1);
    says(shoal_tensor_watch_gradient(plain), SHOAL_INVALID, "does not require");
    shoal_tensor *gradients[2];
    const shoal_gradient_options options = {.size = sizeof options, .allow_unused = true};
    says(shoal_gradients(&y, &b, 1, (shoal_tensor *[]){a, c}, 2, NULL, gradients), SHOAL_INVALID,
         "no output derives from input 1");
    ok(shoal_gradients(&y, &b, 1, (shoal_tensor *[]){a, c}, 2, &options, gradients));
    assert_non_null(gradients[0]);
    assert_null(gradients[1]);
    shoal_tensor *all[] = {a, b, c, sum, y, gradients[0], plain};
    for (int i = 0; i < 7; i++) shoal_tensor_free(&all[i]);
    shoal_session_close(&s);
}

/* A long tape is freed without recursion, and one that is still there ends with the session. */
static void test_long_tapes(void **state) {
    shoal_session *s = open_pool(1);
    for (int round = 0; round < 2; round++) {
        shoal_tensor *x = leaf(s, 2, 2, 0.1), *y = shoal_tensor_retain(x), *next, *loss, *gradient;
        for (int i = 0; i < 6000; i++) {
            ok(shoal_sine(y, &next));
            shoal_tensor_free(&y);
            y = next;
        }
        ok(shoal_reduce(y, "add", NULL, 0, false, &loss));
        shoal_tensor_free(&y);
        assert_int_equal(origins(s), 6002);
        if (round == 0) {
            double out[4];
            ok(shoal_gradients(&loss, NULL, 1, &x, 1, NULL, &gradient));
            reads(gradient, out);
            assert_true(fabs(out[0]) < 1);
            shoal_tensor_free(&gradient);
            shoal_tensor_free(&loss);
            shoal_tensor_free(&x);
            drain(s);
            assert_null(s->origins);
        } else {
            shoal_session_close(&s);
            says(shoal_gradients(&loss, NULL, 1, &x, 1, NULL, &gradient), SHOAL_CLOSED, "closed");
            shoal_tensor_free(&loss);
            shoal_tensor_free(&x);
        }
    }
}

static void note_entry(void *context, const shoal_tape_entry *entry) {
    char *text = context;
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, 400 - used, "%s", entry->op);
    for (uint32_t i = 0; i < entry->n_inputs; i++)
        used += (size_t)snprintf(text + used, 400 - used, " %llu",
                                 (unsigned long long)(entry->number - entry->inputs[i]));
    snprintf(text + used, 400 - used, " [%u];", entry->type->rank);
}

static void test_listing(void **state) {
    (void)state;
    char text[400] = "";
    shoal_session *s = open_pool(1);
    ok(shoal_tape_each(s, note_entry, text));
    assert_string_equal(text, "");
    shoal_tensor *x = leaf(s, 2, 2, 1), *y, *z, *gradient;
    ok(shoal_multiply(x, x, &y));
    ok(shoal_reduce(y, "add", NULL, 0, false, &z));
    ok(shoal_tape_each(s, note_entry, text));
    assert_string_equal(text, "multiply 1 1 [2];reduce 1 [0];");
    ok(shoal_gradients(&z, NULL, 1, &x, 1, NULL, &gradient));
    text[0] = 0;
    ok(shoal_tape_each(s, note_entry, text));
    assert_string_equal(text, ""); /* what it held has been given back */
    shoal_tensor_free(&gradient);
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    shoal_tensor_free(&z);
    shoal_session_close(&s);
}

/* Gradients of each row's sum of squares, by one call; and what is no tensor of its own. */
static void test_batches(void **state) {
    double got[6], want[6], single[3] = {0};
    uint32_t level;
    bool each;
    shoal_session *s = open_pool(2);
    shoal_tensor *x = numbers(s, 2, 3, 0.5), *row, *y, *z, *gradient, *all, *nested, *plain;
    ok(shoal_tensor_new(s, SHOAL_F64, 1, (int64_t[]){3}, single, &plain));
    ok(shoal_tensor_batch(x, 1, true, &row));
    assert_int_equal(shoal_tensor_type(row)->rank, 1);
    ok(shoal_tensor_require_gradient(row, true));
    ok(shoal_multiply(row, row, &y));
    ok(shoal_reduce(y, "add", NULL, 0, false, &z));
    ok(shoal_gradients(&z, NULL, 1, &row, 1, NULL, &gradient));
    all = shoal_tensor_whole(gradient, &level, &each);
    assert_true(all && level == 1 && each && !shoal_tensor_requires_gradient(all));
    reads(x, want);
    reads(all, got);
    for (int i = 0; i < 6; i++) assert_true(got[i] == 2 * want[i]);
    assert_null(shoal_tensor_whole(x, &level, &each));
    assert_int_equal(level, 0);
    says(shoal_read(row, single, sizeof single), SHOAL_UNSUPPORTED, "stands for one index");
    says(shoal_tensor_batch(row, 1, true, &nested), SHOAL_INVALID, "level 1 is not above");
    says(shoal_tensor_batch(z, 2, true, &nested), SHOAL_INVALID, "has no axis");
    says(shoal_tensor_assign(&plain, gradient), SHOAL_INVALID, "the same for all indices");
    shoal_tensor *const given[] = {x, row, y, z, gradient, all, plain};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        shoal_tensor_free(&(shoal_tensor *){given[i]});
    shoal_session_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_memory), cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_steps_repeat),      cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_listing),           cmocka_unit_test(test_targets),
        cmocka_unit_test(test_long_tapes),        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
