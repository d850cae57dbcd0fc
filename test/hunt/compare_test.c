/* How much the comparison lets pass: random programs, one element of whose results is altered as a
 * user would call wrong: a number by a hundredth of it and of what lies beside it, a whole number
 * by one, a flag into the other. Few may be taken for right; those are printed with -v. */
#include "hunt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 120, MOST_TAKEN = 8 }; /* of these */

/* Alters an element; false: there is none that is a number. */
static bool alter(hunt_random *random, const shoal_type *type, void *data, int64_t *at) {
    int64_t count = base_type_count(type), known = 0;
    bool is_float = shoal_dtype_kind((shoal_dtype)type->dtype) == 'f';
    double size = 0;
    for (int64_t i = 0; i < count && is_float; i++) {
        double x = hunt_number(type->dtype, data, i);
        if (!isfinite(x)) continue;
        known++;
        size += fabs(x);
    }
    if (!count || (is_float && !known)) return false;
    do *at = hunt_below(random, (uint32_t)count);
    while (is_float && !isfinite(hunt_number(type->dtype, data, *at)));
    char *element = (char *)data + (size_t)*at * shoal_dtype_size((shoal_dtype)type->dtype);
    if (!is_float) {
        *element ^= 1;
        return true;
    }
    double x = hunt_number(type->dtype, data, *at), by = (fabs(x) + size / (double)known) / 100;
    if (by == 0) by = 1;
    if (type->dtype == SHOAL_BF16) by *= 4; /* it has two digits */
    hunt_put(type->dtype, data, *at, x + by);
    return hunt_number(type->dtype, data, *at) != x;
}

/* Whether one altered element is taken for right. *tried: there was one to alter. */
static bool taken(uint64_t seed, const hunt_program *program, bool *tried, bool shows) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_random random = {seed * 31 + 7};
    hunt_truth truth;
    hunt_must(hunt_truth_init(&truth, program));
    truth.signs = true;
    hunt_results results = hunt_results_new(g);
    uint32_t o = hunt_below(&random, g->n_outputs), value = g->outputs[o];
    int64_t at = 0;
    for (uint32_t i = 0; i < g->n_outputs; i++)
        memcpy(results.data[i], truth.must.data[i], results.bytes[i]);
    *tried = alter(&random, &g->values[value].type, results.data[o], &at);
    bool passes = *tried && !hunt_compare(&truth, &results);
    if (passes && shows) {
        uint8_t dtype = g->values[value].type.dtype;
        uint32_t node = g->values[value].node;
        char text[BASE_TYPE_TEXT];
        double *may = hunt_alloc((size_t)base_type_count(&g->values[value].type) * sizeof *may);
        hunt_tolerance(&truth, o, may);
        printf("seed %llu: %s (%s), element %lld: %.9g is taken for %.9g (± %.3g)\n",
               (unsigned long long)seed,
               node == SHOAL_NO_NODE ? "an input" : shoal_op_name(g->nodes[node].op),
               base_type_text(&g->values[value].type, text), (long long)at,
               hunt_number(dtype, results.data[o], at), hunt_number(dtype, truth.must.data[o], at),
               may[at]);
        free(may);
    }
    hunt_results_fini(&results);
    hunt_truth_fini(&truth);
    return passes;
}

int main(int argc, char **argv) {
    const hunt_shape shape = {HUNT_NARROW, 30};
    bool shows = argc > 1 && !strcmp(argv[1], "-v");
    uint32_t n = 0, wrong = 0;
    for (uint64_t seed = 1; n < PROGRAMS; seed++) {
        hunt_program program;
        bool tried;
        hunt_make(seed, &shape, &program);
        wrong += taken(seed, &program, &tried, shows);
        n += tried;
        hunt_program_fini(&program);
    }
    printf("%u of %u altered results were taken for right, %u may be\n", wrong, PROGRAMS,
           MOST_TAKEN);
    return wrong > MOST_TAKEN;
}
