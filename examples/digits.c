/* Trains a perceptron on handwritten digits, on the pool SHOAL_HUB names, else inside this process.
 *
 *     cc digits.c -lshoal -lm -o digits && ./digits images.npy labels.npy
 *
 * images: float32, a row of points for each digit; labels: int64, 0 to 9. Every fifth digit is kept
 * for the test. A step is gradient descent with momentum; from the second one on it repeats one
 * program. */
#include <shoal/shoal.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 64, CLASSES = 10, BATCH = 64, STEPS = 1000, MOST = 64, PARAMETERS = 4 };

/* Tensors on the way to a result; after a failure nothing more is computed. */
typedef struct work {
    shoal_session *session;
    shoal_status status;
    shoal_tensor *made[MOST];
    int n;
} work;

static shoal_tensor *keep(work *w, shoal_tensor *made) {
    if (made) w->made[w->n++] = made;
    return made;
}

static void clear(work *w) {
    while (w->n) shoal_tensor_free(&w->made[--w->n]);
}

#define BINARY(name)                                                                               \
    static shoal_tensor *name(work *w, shoal_tensor *a, shoal_tensor *b) {                         \
        shoal_tensor *out = NULL;                                                                  \
        if (!w->status) w->status = shoal_##name(a, b, &out);                                      \
        return keep(w, out);                                                                       \
    }
BINARY(add)
BINARY(subtract)
BINARY(multiply)
BINARY(maximum)
BINARY(matmul)

static shoal_tensor *number(work *w, float value) {
    shoal_tensor *out = NULL;
    if (!w->status) w->status = shoal_tensor_new(w->session, SHOAL_F32, 0, NULL, &value, &out);
    return keep(w, out);
}

/* Rows of x at indices. */
static shoal_tensor *rows(work *w, shoal_tensor *x, const int64_t *at, int64_t n) {
    shoal_tensor *indices = NULL, *out = NULL;
    if (!w->status) w->status = shoal_tensor_new(w->session, SHOAL_I64, 1, &n, at, &indices);
    keep(w, indices);
    if (!w->status) w->status = shoal_take(x, indices, 0, &out);
    return keep(w, out);
}

static shoal_tensor *logits(work *w, shoal_tensor *const *net, shoal_tensor *x) {
    shoal_tensor *hidden = add(w, matmul(w, x, net[0]), net[1]);
    return add(w, matmul(w, maximum(w, hidden, number(w, 0)), net[2]), net[3]);
}

/* Parameters begin evenly spread over +-1 / sqrt(rows), velocities as zeros. */
static shoal_tensor *parameter(work *w, int64_t n, int64_t m, int seed) {
    float bound = 1 / sqrtf((float)n);
    int64_t number_of = seed;
    shoal_tensor *key = NULL, *drawn = NULL, *out = NULL;
    if (!w->status) w->status = shoal_tensor_new(w->session, SHOAL_I64, 0, NULL, &number_of, &key);
    keep(w, key);
    if (!w->status)
        w->status =
            shoal_random(key, NULL, "UNIFORM", SHOAL_F32, m ? 2 : 1, (int64_t[]){n, m}, &drawn);
    keep(w, drawn);
    out = subtract(w, multiply(w, drawn, number(w, 2 * bound)), number(w, bound));
    if (!w->status) w->status = shoal_tensor_require_gradient(out, true);
    return out ? shoal_tensor_retain(out) : NULL;
}

static void step(work *w, shoal_tensor **net, shoal_tensor **velocity, shoal_tensor *x,
                 shoal_tensor *labels, float rate) {
    shoal_tensor *losses = NULL, *loss = NULL, *gradients[PARAMETERS] = {NULL};
    shoal_tensor *made = logits(w, net, x);
    if (!w->status) w->status = shoal_cross_entropy(made, labels, 1, NULL, &losses);
    keep(w, losses);
    if (!w->status) w->status = shoal_reduce(losses, "add", NULL, 0, false, &loss);
    loss = multiply(w, keep(w, loss), number(w, 1.0f / BATCH));
    if (!w->status) w->status = shoal_gradients(&loss, NULL, 1, net, PARAMETERS, NULL, gradients);
    shoal_gradient_mode was = shoal_set_gradients(SHOAL_GRADIENTS_OFF);
    shoal_tensor *momentum = number(w, 0.9f), *lr = number(w, rate);
    for (int i = 0; i < PARAMETERS; i++) {
        keep(w, gradients[i]);
        shoal_tensor *moved = add(w, multiply(w, velocity[i], momentum), gradients[i]);
        if (w->status) break;
        w->status = shoal_tensor_assign(&velocity[i], moved);
        shoal_tensor *value = subtract(w, net[i], multiply(w, moved, lr));
        if (!w->status) w->status = shoal_tensor_assign(&net[i], value);
    }
    if (!w->status) w->status = shoal_start(net[0]);
    shoal_set_gradients(was);
    clear(w);
}

/* The share of digits that are read rightly. */
static double right(work *w, shoal_tensor *const *net, shoal_tensor *x, const int64_t *labels,
                    const int64_t *at, int64_t n) {
    shoal_tensor *guess = NULL;
    int64_t *guesses = calloc((size_t)n, sizeof *guesses), count = 0;
    shoal_tensor *made = logits(w, net, rows(w, x, at, n));
    if (!w->status) w->status = shoal_argmax(made, 1, &guess);
    keep(w, guess);
    if (!w->status && guesses) w->status = shoal_read(guess, guesses, (size_t)n * sizeof *guesses);
    for (int64_t i = 0; guesses && i < n; i++) count += guesses[i] == labels[at[i]];
    free(guesses);
    clear(w);
    return n ? (double)count / (double)n : 0;
}

static shoal_tensor *load(work *w, const char *path, shoal_dtype dtype, uint32_t rank) {
    shoal_file *file = NULL;
    shoal_tensor *out = NULL;
    if (!w->status) w->status = shoal_file_open(path, &file);
    if (!w->status) w->status = shoal_file_load(file, 0, w->session, &out);
    shoal_file_close(&file);
    if (w->status) return NULL;
    const shoal_type *type = shoal_tensor_type(out);
    if (type->dtype == dtype && type->rank == rank && type->dims[0] > 5 * BATCH) return out;
    fprintf(stderr, "digits: %s: %s with %u axes and more than %d rows is needed\n", path,
            shoal_dtype_name(dtype), rank, 5 * BATCH);
    exit(1);
}

static void train(work *w, const char *images, const char *labels_path) {
    shoal_tensor *x = load(w, images, SHOAL_F32, 2), *y = load(w, labels_path, SHOAL_I64, 1);
    if (w->status) return;
    int64_t n = shoal_tensor_type(x)->dims[0], width = shoal_tensor_type(x)->dims[1], n_test = 0;
    int64_t *labels = calloc((size_t)n, sizeof *labels), *test = calloc((size_t)n, sizeof *test);
    if (!labels || !test || shoal_tensor_type(y)->dims[0] != n) exit(1);
    w->status = shoal_read(y, labels, (size_t)n * sizeof *labels);
    for (int64_t i = 0; i < n; i += 5) test[n_test++] = i;
    shoal_tensor *net[PARAMETERS] = {parameter(w, width, HIDDEN, 1), parameter(w, HIDDEN, 0, 2),
                                     parameter(w, HIDDEN, CLASSES, 3), parameter(w, CLASSES, 0, 4)};
    shoal_tensor *velocity[PARAMETERS] = {NULL};
    for (int i = 0; i < PARAMETERS; i++) {
        shoal_tensor *still = multiply(w, net[i], number(w, 0));
        if (!w->status) w->status = shoal_detach(still, &velocity[i]);
    }
    clear(w);
    uint64_t random = 1;
    for (int k = 0; k < STEPS && !w->status; k++) {
        int64_t at[BATCH];
        for (int i = 0; i < BATCH; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            int64_t any = (int64_t)((random >> 33) % (uint64_t)n);
            at[i] = any % 5 ? any : (any + 1) % n % 5 ? (any + 1) % n : 1; /* not of the test */
        }
        float rate = 0.1f * (1 - (float)k / STEPS);
        step(w, net, velocity, rows(w, x, at, BATCH), rows(w, y, at, BATCH), rate);
        if ((k + 1) % 250 == 0)
            printf("step %4d: %.1f %% of unseen digits right\n", k + 1,
                   100 * right(w, net, x, labels, test, n_test));
    }
    for (int i = 0; i < PARAMETERS; i++) {
        shoal_tensor_free(&net[i]);
        shoal_tensor_free(&velocity[i]);
    }
    shoal_tensor_free(&x);
    shoal_tensor_free(&y);
    free(labels);
    free(test);
}

int main(int argc, char **argv) {
    work w = {NULL, SHOAL_OK, {NULL}, 0};
    if (argc != 3) {
        fprintf(stderr, "usage: digits IMAGES.npy LABELS.npy\n");
        return 2;
    }
    w.status = shoal_session_open(NULL, &w.session);
    if (!w.status) train(&w, argv[1], argv[2]);
    clear(&w);
    if (w.status) fprintf(stderr, "digits: %s\n", shoal_error_message());
    if (w.session) shoal_session_close(&w.session);
    return w.status != SHOAL_OK;
}
