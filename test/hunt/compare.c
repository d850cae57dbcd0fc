/* Results against the truth. Equal bits are equal; otherwise the program is run with noise, a few
 * times, then often, and what that spreads to is how far results may lie apart. */
#include "hunt.h"

#include <math.h>
#include <string.h>

/* By how much the spread of the samples may be passed: errors may add up that noise of random sign
 * does not. */
static const double SLACK = 8;
enum { FEW = 6, MANY = 64 }; /* and HUNT_SAMPLES: where one rounding went the other way */

shoal_status hunt_truth_init(hunt_truth *truth, const hunt_program *program) {
    *truth = (hunt_truth){.program = program, .must = hunt_results_new(graph_data(program->graph))};
    return hunt_run_graph(graph_data(program->graph), (const void *const *)program->inputs, NULL,
                          &truth->must);
}

void hunt_truth_fini(hunt_truth *truth) {
    hunt_results_fini(&truth->must);
    for (uint32_t i = 0; i < truth->n_samples; i++) hunt_results_fini(&truth->samples[i]);
}

static void sample(hunt_truth *truth, uint32_t n) {
    static const uint32_t vanishing[] = {0, 0, 25, 100};
    const shoal_graph *g = graph_data(truth->program->graph);
    while (truth->n_samples < n) {
        hunt_noise noise = {.random = {truth->program->seed + 977 * truth->n_samples},
                            .any = truth->n_samples,
                            .alike = truth->n_samples / HUNT_ANY % 2,
                            .vanishing = vanishing[truth->n_samples % 4],
                            .composite = truth->free,
                            .signs = truth->signs,
                            .sums_alone = truth->n_samples % 16 >= 12,
                            .composites_stay = truth->n_samples % 32 >= 28,
                            .sums_stay = truth->n_samples % 16 / 4 == 2};
        hunt_results *to = &truth->samples[truth->n_samples++];
        *to = hunt_results_new(g);
        hunt_must(hunt_run_graph(g, (const void *const *)truth->program->inputs, &noise, to));
    }
}

static double tolerance_at(const hunt_truth *truth, uint32_t o, uint8_t dtype, int64_t i,
                           double must) {
    double most = 0;
    bool is_float = shoal_dtype_kind((shoal_dtype)dtype) == 'f';
    size_t size = shoal_dtype_size((shoal_dtype)dtype);
    for (uint32_t s = 0; s < truth->n_samples; s++) {
        const void *data = truth->samples[s].data[o];
        double x = hunt_number(dtype, data, i);
        if (!is_float) {
            const char *a = (const char *)data + (size_t)i * size;
            if (!memcmp(a, (const char *)truth->must.data[o] + (size_t)i * size, size)) continue;
            if (dtype == SHOAL_BOOL) return INFINITY;
            most = fmax(most, fmax(1, fabs(x - must))); /* 1: it may be less than float64 shows */
        } else if (x != must && !(x != x && must != must)) {
            double away = fabs(x - must);
            if (!isfinite(away)) return INFINITY;
            if (away > most) most = away;
        }
    }
    return SLACK * most;
}

void hunt_tolerance(hunt_truth *truth, uint32_t output, double *out) {
    const shoal_graph *g = graph_data(truth->program->graph);
    const shoal_type *type = &g->values[g->outputs[output]].type;
    sample(truth, FEW);
    for (int64_t i = 0; i < base_type_count(type); i++)
        out[i] = tolerance_at(truth, output, type->dtype, i,
                              hunt_number(type->dtype, truth->must.data[output], i));
}

/* Whether the sign of an element that is zero is anybody's guess. */
static bool sign_is_open(const hunt_truth *truth, uint32_t o, uint8_t dtype, int64_t i,
                         double must) {
    for (uint32_t s = 0; s < truth->n_samples; s++) {
        double x = hunt_number(dtype, truth->samples[s].data[o], i);
        if (x == 0 && must == 0 && signbit(x) != signbit(must)) return true;
    }
    return false;
}

/* How many samples there are at most: fewer of what takes long. */
static uint32_t most_samples(const hunt_truth *truth) {
    const int64_t work = INT64_C(1) << 28;
    const shoal_graph *g = graph_data(truth->program->graph);
    int64_t elements = 1;
    for (uint32_t v = 0; v < g->n_values; v++) elements += base_type_count(&g->values[v].type);
    int64_t most = work / elements;
    return most < MANY ? MANY : most < HUNT_SAMPLES ? (uint32_t)most : HUNT_SAMPLES;
}

static bool agrees(hunt_truth *truth, uint32_t o, uint8_t dtype, int64_t i, double is,
                   double must) {
    /* A sum beside the middle of two numbers is rounded away from there by few of the samples, or
     * by those alone in which the largest of a row stays as it is; few go where the others do not,
     * when nothing but the size of a number is known; and few decide as another kernel may: which
     * of equals is selected. */
    const uint32_t counts[] = {FEW, MANY, most_samples(truth)};
    for (uint32_t turn = 0; turn < 3; turn++) {
        sample(truth, counts[turn]);
        double may = tolerance_at(truth, o, dtype, i, must);
        /* Of what spreads by more than its size no digit is known: it is bits of something else,
         * near a pole, where it may go much further, or about to overflow. */
        bool near =
            is == must ? may > 0 || sign_is_open(truth, o, dtype, i, must) : fabs(is - must) <= may;
        if (may == INFINITY || may > SLACK * (fabs(must) + 1) || near) return true;
    }
    return false;
}

const char *hunt_compare(hunt_truth *truth, const hunt_results *is) {
    static char why[256];
    const shoal_graph *g = graph_data(truth->program->graph);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        const shoal_type *type = &g->values[g->outputs[o]].type;
        uint8_t dtype = type->dtype;
        bool is_float = shoal_dtype_kind((shoal_dtype)dtype) == 'f';
        size_t size = shoal_dtype_size((shoal_dtype)dtype);
        if (!memcmp(is->data[o], truth->must.data[o], truth->must.bytes[o])) continue;
        for (int64_t i = 0; i < base_type_count(type); i++) {
            const char *a = (const char *)is->data[o] + (size_t)i * size;
            const char *b = (const char *)truth->must.data[o] + (size_t)i * size;
            if (!memcmp(a, b, size)) continue;
            double x = hunt_number(dtype, is->data[o], i);
            double y = hunt_number(dtype, truth->must.data[o], i);
            bool same = truth->signs && x == 0 ? signbit(x) == signbit(y) : x == y;
            if (is_float && ((x == y && same) || (x != x && y != y))) continue;
            if (agrees(truth, o, dtype, i, x, y)) continue;
            char text[BASE_TYPE_TEXT];
            snprintf(why, sizeof why, "output %u (%s), element %lld is %.17g, not %.17g (± %.3g)",
                     o, base_type_text(type, text), (long long)i, x, y,
                     tolerance_at(truth, o, dtype, i, y));
            return why;
        }
    }
    return NULL;
}
