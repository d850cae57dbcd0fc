/* Trains a network of two layers on images, on a pool: the one SHOAL_HUB names, else one inside
 * this process.
 *
 *     cc mlp.c -lshoal -o mlp && ./mlp images.npy labels.npy
 *
 * images: float32, a row each; labels: int64, 0 to 9. The last fifth is not trained on: it is what
 * the network is judged by. Each step (forward, gradients, update) is recorded and sent as one
 * program, which the pool knows from the second time on. */
#include <shoal/shoal.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 64, CLASSES = 10, BATCH = 64, STEPS = 600, PARAMETERS = 4 };

/* Ends the program with Shoal's message when a call fails. */
static void must(shoal_status status) {
    if (status == SHOAL_OK) return;
    fprintf(stderr, "mlp: %s\n", shoal_error_message());
    exit(1);
}

static shoal_tensor *load(const char *path, shoal_session *session) {
    shoal_file *file;
    shoal_tensor *tensor;
    must(shoal_file_open(path, &file));
    must(shoal_file_load(file, 0, session, &tensor));
    shoal_file_close(&file);
    return tensor;
}

static shoal_tensor *number(shoal_session *session, float value) {
    shoal_tensor *tensor;
    must(shoal_tensor_new(session, SHOAL_F32, 0, NULL, &value, &tensor));
    return tensor;
}

/* Replaces *x by what a function of two tensors makes of it and y. */
static void become(shoal_status (*call)(shoal_tensor *, shoal_tensor *, shoal_tensor **),
                   shoal_tensor **x, shoal_tensor *y) {
    shoal_tensor *result;
    must(call(*x, y, &result));
    shoal_tensor_free(x);
    *x = result;
}

/* Evenly spread over [-1, 1] / sqrt(rows), with gradients asked for. */
static shoal_tensor *parameter(shoal_session *session, int64_t rows, int64_t columns,
                               int64_t number_of) {
    shoal_tensor *seed, *x, *scale = number(session, 2 / sqrtf((float)rows));
    shoal_tensor *half = number(session, 0.5f);
    const int64_t dims[] = {rows, columns};
    must(shoal_tensor_new(session, SHOAL_I64, 0, NULL, &number_of, &seed));
    must(shoal_random(seed, NULL, "UNIFORM", SHOAL_F32, 2, dims, &x));
    become(shoal_subtract, &x, half);
    become(shoal_multiply, &x, scale);
    must(shoal_tensor_require_gradient(x, true));
    shoal_tensor_free(&seed);
    shoal_tensor_free(&scale);
    shoal_tensor_free(&half);
    return x;
}

/* The score of each class, a row per image. */
static shoal_tensor *forward(shoal_tensor *images, shoal_tensor *const *p) {
    shoal_tensor *x, *zero = number(shoal_tensor_session(images), 0);
    must(shoal_matmul(images, p[0], &x));
    become(shoal_add, &x, p[1]);
    become(shoal_maximum, &x, zero);
    become(shoal_matmul, &x, p[2]);
    become(shoal_add, &x, p[3]);
    shoal_tensor_free(&zero);
    return x;
}

/* The mean loss of the images with these numbers; records their gradients and the update. */
static shoal_tensor *train(shoal_tensor *images, shoal_tensor *labels, const int64_t *numbers,
                           shoal_tensor **p, float rate) {
    shoal_session *session = shoal_tensor_session(images);
    shoal_tensor *chosen, *x, *y, *losses, *loss, *gradients[PARAMETERS];
    shoal_tensor *share = number(session, 1.0f / BATCH), *step = number(session, rate);
    must(shoal_tensor_new(session, SHOAL_I64, 1, (const int64_t[]){BATCH}, numbers, &chosen));
    must(shoal_take(images, chosen, 0, &x));
    must(shoal_take(labels, chosen, 0, &y));
    shoal_tensor *scores = forward(x, p);
    must(shoal_cross_entropy(scores, y, -1, NULL, &losses));
    must(shoal_reduce(losses, "add", NULL, 0, false, &loss));
    become(shoal_multiply, &loss, share);
    must(shoal_gradients(&loss, NULL, 1, p, PARAMETERS, NULL, gradients));
    shoal_set_gradients(SHOAL_GRADIENTS_OFF); /* what follows is no part of the loss */
    for (int i = 0; i < PARAMETERS; i++) {
        shoal_tensor *next;
        become(shoal_multiply, &gradients[i], step);
        must(shoal_subtract(p[i], gradients[i], &next));
        must(shoal_tensor_assign(&p[i], next));
        shoal_tensor_free(&next);
        shoal_tensor_free(&gradients[i]);
    }
    shoal_set_gradients(SHOAL_GRADIENTS_ON);
    shoal_tensor *all[] = {chosen, x, y, scores, losses, share, step};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) shoal_tensor_free(&all[i]);
    return loss;
}

/* The share of images, from `first` on, whose greatest score is at their label. */
static double judge(shoal_tensor *images, shoal_tensor *labels, int64_t first,
                    shoal_tensor *const *p) {
    const int64_t n = shoal_tensor_type(images)->dims[0];
    const int64_t pixels = shoal_tensor_type(images)->dims[1];
    shoal_tensor *x, *y, *best, *same, *hits;
    must(shoal_slice(images, (const int64_t[]){first, 0}, (const int64_t[]){n, pixels}, NULL, &x));
    must(shoal_slice(labels, &first, &n, NULL, &y));
    shoal_tensor *scores = forward(x, p);
    must(shoal_argmax(scores, 1, &best));
    must(shoal_compare(best, y, "EQ", &same));
    must(shoal_convert(same, SHOAL_F32, &hits));
    shoal_tensor *sum;
    float right;
    must(shoal_reduce(hits, "add", NULL, 0, false, &sum));
    must(shoal_read(sum, &right, sizeof right));
    shoal_tensor *all[] = {x, y, scores, best, same, hits, sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) shoal_tensor_free(&all[i]);
    return (double)right / (double)(n - first);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: mlp images.npy labels.npy\n");
        return 2;
    }
    shoal_session *session;
    must(shoal_session_open(NULL, &session));
    shoal_tensor *images = load(argv[1], session), *labels = load(argv[2], session);
    const int64_t n = shoal_tensor_type(images)->dims[0];
    const int64_t pixels = shoal_tensor_type(images)->dims[1], trained = n - n / 5;
    shoal_tensor *p[PARAMETERS] = {
        parameter(session, pixels, HIDDEN, 1), parameter(session, 1, HIDDEN, 2),
        parameter(session, HIDDEN, CLASSES, 3), parameter(session, 1, CLASSES, 4)};
    uint32_t random = 1;
    for (int step = 1; step <= STEPS; step++) {
        int64_t numbers[BATCH];
        for (int i = 0; i < BATCH; i++) {
            random = random * 1664525u + 1013904223u;
            numbers[i] = (int64_t)(random >> 8) % trained;
        }
        shoal_tensor *loss = train(images, labels, numbers, p, 0.5f / (1 + (float)step / 300));
        if (step % 100 == 0) {
            float value;
            must(shoal_read(loss, &value, sizeof value));
            printf("step %d: loss %.4f\n", step, (double)value);
        }
        shoal_tensor_free(&loss);
    }
    printf("%.1f %% of %lld images are recognised\n", 100 * judge(images, labels, trained, p),
           (long long)(n - trained));
    for (int i = 0; i < PARAMETERS; i++) shoal_tensor_free(&p[i]);
    shoal_tensor_free(&images);
    shoal_tensor_free(&labels);
    shoal_session_close(&session);
    return 0;
}
