/* How much the comparison lets pass: random programs, one element of whose results is altered as a
 * user would call wrong: a number by a hundredth of it and of what lies beside it, a whole number
 * by one, a flag into the other. Few may be taken for right; those are printed with -v. */
#include "hunt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of these; and of those with NaN or infinity in the place of which there is 0.5, where more is
 * open: what goes out of range on the way, or in composites. */
enum { PROGRAMS = 120, MOST_TAKEN = 8, MOST_OPEN = 30 };

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

/* Puts 0.5 in the place of an element that is NaN or infinite; false: there is none. */
static bool replace(hunt_random *random, const shoal_type *type, void *data, int64_t *at) {
    int64_t count = base_type_count(type), known = 0;
    if (shoal_dtype_kind((shoal_dtype)type->dtype) != 'f') return false;
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(hunt_number(type->dtype, data, i)) &&
            hunt_below(random, (uint32_t)++known) == 0)
            *at = i;
    if (known) hunt_put(type->dtype, data, *at, 0.5);
    return known > 0;
}

/* Whether one altered element is taken for right. *tried: there was one to alter. */
static bool taken(uint64_t seed, const hunt_program *program, bool special, bool *tried,
                  bool shows) {
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
    *tried = (special ? replace : alter)(&random, &g->values[value].type, results.data[o], &at);
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

/* Whether few enough altered results are taken for right. */
static bool is_strict(bool special, uint32_t most, bool shows) {
    const hunt_shape shape = {HUNT_NARROW, 30};
    uint32_t n = 0, wrong = 0;
    for (uint64_t seed = 1; n < PROGRAMS; seed++) {
        hunt_program program;
        bool tried;
        hunt_make(seed, &shape, &program);
        wrong += taken(seed, &program, special, &tried, shows);
        n += tried;
        hunt_program_fini(&program);
    }
    printf("%u of %u altered %s were taken for right, %u may be\n", wrong, PROGRAMS,
           special ? "elements that are no numbers" : "results", most);
    return wrong <= most;
}

int main(int argc, char **argv) {
    bool shows = argc > 1 && !strcmp(argv[1], "-v");
    bool numbers = is_strict(false, MOST_TAKEN, shows);
    return !(is_strict(true, MOST_OPEN, shows) && numbers);
}
