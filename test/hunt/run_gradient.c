/* Gradients: of random programs in float64, once and twice differentiated, against differences of
 * the reference's results; and on cpu, as the programs that they are. */
#include "hunt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 7, SAMPLES = 8, MOST_INPUTS = 64, MOST_BYTES = 4 << 20 };

typedef struct gradients {
    void *cpu;
    /* rough: differences say nothing there; excused: nor where a node is singular, or a stair */
    uint64_t compared, rough, excused, without;
    char why[512];
} gradients;

void *hunt_gradient_new(void) {
    gradients *c = hunt_alloc(sizeof *c);
    c->cpu = hunt_cpu_new();
    return c;
}

void hunt_gradient_free(void *context) {
    gradients *c = context;
    printf("%llu slopes compared with differences; %llu programs are not smooth enough for that, "
           "%llu lie at a pole or on stairs, %llu have no gradient\n",
           (unsigned long long)c->compared, (unsigned long long)c->rough,
           (unsigned long long)c->excused, (unsigned long long)c->without);
    hunt_cpu_free(c->cpu);
    free(c);
}

static bool is_float(const shoal_type *type) {
    return shoal_dtype_kind((shoal_dtype)type->dtype) == 'f';
}

/* ---- the program of the gradients ---- */

static void random_numbers(hunt_random *random, const shoal_type *type, void *data) {
    for (int64_t i = 0; i < base_type_count(type); i++)
        hunt_put(type->dtype, data, i, hunt_uniform(random));
}

shoal_status hunt_differentiate(const hunt_program *program, hunt_program *out, uint32_t *of) {
    hunt_program made = hunt_copy(program);
    const shoal_graph *g = graph_data(made.graph);
    hunt_random random = {program->seed ^ 0x5eed};
    uint32_t outputs[MOST_INPUTS], seeds[MOST_INPUTS], wrt[MOST_INPUTS], results[MOST_INPUTS];
    uint32_t n = 0, n_wrt = 0, n_results = 0;
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (is_float(&g->values[g->outputs[i]].type)) outputs[n++] = g->outputs[i];
    for (uint32_t i = 0; i < g->n_inputs; i++)
        if (is_float(&g->values[g->inputs[i]].type)) {
            of[n_wrt] = i;
            wrt[n_wrt++] = g->inputs[i];
        }
    void **inputs = hunt_alloc((made.n_inputs + n + 1) * sizeof *inputs);
    memcpy(inputs, made.inputs, made.n_inputs * sizeof *inputs);
    free(made.inputs);
    made.inputs = inputs;
    for (uint32_t i = 0; i < n; i++) {
        shoal_type type = graph_data(made.graph)->values[outputs[i]].type;
        hunt_must(graph_add_input(made.graph, &type, &seeds[i]));
        made.inputs[made.n_inputs] = hunt_alloc((size_t)base_type_bytes(&type));
        random_numbers(&random, &type, made.inputs[made.n_inputs++]);
    }
    shoal_status status =
        graph_differentiate(made.graph, outputs, seeds, n, wrt, n_wrt, NULL, results);
    if (status) {
        hunt_program_fini(&made);
        return status;
    }
    graph_clear_outputs(made.graph);
    for (uint32_t i = 0; i < n_wrt; i++) {
        if (results[i] == GRAPH_NO_VALUE) continue;
        of[n_results++] = of[i];
        hunt_must(graph_add_output(made.graph, results[i]));
    }
    made.n_outputs = n_results;
    if (!n || !n_results) {
        hunt_program_fini(&made);
        return SHOAL_UNSUPPORTED;
    }
    *out = made;
    return SHOAL_OK;
}

/* ---- differences ---- */

/* The inputs of a program at x + h * direction. */
static void **inputs_at(const hunt_program *program, void *const *direction, double h) {
    const shoal_graph *g = graph_data(program->graph);
    void **at = hunt_alloc((program->n_inputs + 1) * sizeof *at);
    for (uint32_t i = 0; i < program->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        size_t bytes = (size_t)base_type_bytes(type);
        at[i] = hunt_alloc(bytes);
        memcpy(at[i], program->inputs[i], bytes);
        for (int64_t k = 0; direction[i] && k < base_type_count(type); k++)
            ((double *)at[i])[k] += h * ((double *)direction[i])[k];
    }
    return at;
}

static void free_inputs(const hunt_program *program, void **at) {
    for (uint32_t i = 0; i < program->n_inputs; i++) free(at[i]);
    free(at);
}

/* The sum of all results, each times its seed, at x + h * direction. seeds: inputs of `slope`
 * behind those of the program. */
static double weighed_sum(const hunt_program *program, const hunt_program *slope,
                          void *const *direction, double h, hunt_noise *noise) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_results results = hunt_results_new(g);
    void **at = inputs_at(program, direction, h);
    double sum = 0;
    hunt_must(hunt_run_graph(g, (const void *const *)at, noise, &results));
    uint32_t seed = program->n_inputs;
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        const shoal_type *type = &g->values[g->outputs[o]].type;
        if (!is_float(type)) continue;
        const double *weights = slope->inputs[seed++];
        for (int64_t k = 0; k < base_type_count(type); k++)
            sum += weights[k] * ((double *)results.data[o])[k];
    }
    free_inputs(program, at);
    hunt_results_fini(&results);
    return sum;
}

/* The derivative along the direction, from differences; *doubt: by how much it may be wrong, or
 * infinity where there is none; *reach: how far to both sides they look. */
static double difference(const hunt_program *program, const hunt_program *slope,
                         void *const *direction, double *doubt, double *reach) {
    double at[STEPS + 1], best = 0, h = 1e-3;
    double middle = weighed_sum(program, slope, direction, 0, NULL), error = 1e-15 * fabs(middle);
    for (uint64_t i = 0; i < SAMPLES; i++) { /* by how much rounding may move the sum */
        hunt_noise noise = {.random = {i}};
        double away = fabs(weighed_sum(program, slope, direction, 0, &noise) - middle);
        error = isnan(away) ? INFINITY : fmax(error, away);
    }
    *doubt = INFINITY;
    *reach = 0;
    for (int i = 0; i <= STEPS; i++, h /= 4) {
        double up = weighed_sum(program, slope, direction, h, NULL);
        double down = weighed_sum(program, slope, direction, -h, NULL);
        at[i] = (up - down) / (2 * h);
        /* A kink: both sides go their own way, however near. */
        double bend = fabs(up + down - 2 * middle) / h;
        if (i < 2 || !isfinite(at[i]) || bend > 1e-2 * (fabs(at[i]) + 1)) continue;
        double last = at[i - 1] + (at[i - 1] - at[i - 2]) / 15;
        double now = at[i] + (at[i] - at[i - 1]) / 15, away = fabs(now - last) + error / h;
        if (away < *doubt) *doubt = away, *reach = 16 * h, best = now;
    }
    return best;
}

/* The derivative along the direction, from the gradients; *size: the sum of magnitudes. */
static double along(const hunt_program *slope, const uint32_t *of, void *const *direction,
                    hunt_noise *noise, double *size) {
    const shoal_graph *g = graph_data(slope->graph);
    hunt_results results = hunt_results_new(g);
    hunt_must(hunt_run_graph(g, (const void *const *)slope->inputs, noise, &results));
    double sum = 0;
    *size = 0;
    for (uint32_t o = 0; o < g->n_outputs; o++)
        for (int64_t k = 0; k < base_type_count(&g->values[g->outputs[o]].type); k++) {
            double part = ((double *)results.data[o])[k] * ((double *)direction[of[o]])[k];
            sum += part;
            *size += fabs(part);
        }
    hunt_results_fini(&results);
    return sum;
}

/* What has an infinite slope, or none, at 0 or below it. */
static bool is_root(uint16_t op) {
    return op == GRAPH_SQRT || op == GRAPH_CBRT || op == GRAPH_RSQRT || op == GRAPH_POWER ||
           op == GRAPH_ATAN2 || op == GRAPH_ADAM;
}

static bool has_root(const shoal_graph *g) {
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (is_root(node->op)) return true;
        for (uint16_t r = 0; r < node->n_regions; r++)
            if (has_root(node->regions[r])) return true;
    }
    return false;
}

/* Whether a node has an operand at which its slope is no number: the root of 0, a negative number's
 * power for its exponent; or may have one in a body. */
static bool is_singular(const shoal_graph *g, const shoal_node *node, void *const *values) {
    for (uint16_t r = 0; r < node->n_regions; r++)
        if (has_root(node->regions[r])) return true;
    for (uint32_t k = 0; is_root(node->op) && k < node->n_inputs; k++) {
        const shoal_type *type = &g->values[node->inputs[k]].type;
        for (int64_t i = 0; i < base_type_count(type); i++) {
            double x = hunt_number(type->dtype, values[node->inputs[k]], i);
            if (fabs(x) < 1e-12 || (x < 0 && node->op == GRAPH_POWER && !k)) return true;
        }
    }
    return false;
}

/* All values of a program at x + h * direction, run by the reference. Freed by hunt_values_free. */
static void **values_at(const hunt_program *program, void *const *direction, double h) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_program moved = *program;
    moved.inputs = inputs_at(program, direction, h);
    void **values = hunt_values_new(&moved);
    free_inputs(program, moved.inputs);
    for (uint32_t n = 0; n < g->n_nodes; n++)
        hunt_must(hunt_run_node(g, &g->nodes[n], values, NULL));
    return values;
}

static bool has_singular(const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    void *nowhere[MOST_INPUTS] = {0}, **values = values_at(program, nowhere, 0);
    bool found = false;
    for (uint32_t n = 0; n < g->n_nodes && !found; n++)
        found = is_singular(g, &g->nodes[n], values);
    hunt_values_free(program, &values);
    return found;
}

/* A node whose results are steps of a stair, or lie on them. */
static bool is_stair(const shoal_graph *g, const shoal_node *node) {
    return (node->op == GRAPH_REMAINDER && is_float(&g->values[node->first_output].type)) ||
           node->op == GRAPH_FLOOR || node->op == GRAPH_CEIL ||
           node->op == GRAPH_ROUND_NEAREST_AFZ || node->op == GRAPH_ROUND_NEAREST_EVEN;
}

/* Which step an element lies on. */
static double step_of(const shoal_graph *g, const shoal_node *node, void *const *values,
                      int64_t i) {
    uint8_t dtype = g->values[node->first_output].type.dtype;
    if (node->op != GRAPH_REMAINDER) return hunt_number(dtype, values[node->first_output], i);
    return trunc(hunt_number(dtype, values[node->inputs[0]], i) /
                 hunt_number(dtype, values[node->inputs[1]], i));
}

/* Whether a node goes up a stair between x - h * direction and x + h * direction: steps that are
 * small beside h look like a slope. */
static bool has_stair(const hunt_program *program, void *const *direction, double h) {
    const shoal_graph *g = graph_data(program->graph);
    void **low = values_at(program, direction, -h), **high = values_at(program, direction, h);
    bool found = false;
    for (uint32_t n = 0; n < g->n_nodes && !found; n++) {
        const shoal_node *node = &g->nodes[n];
        if (!is_stair(g, node)) continue;
        int64_t count = base_type_count(&g->values[node->first_output].type);
        for (int64_t i = 0; i < count && !found; i++) {
            double before = step_of(g, node, low, i), behind = step_of(g, node, high, i);
            found = before != behind && !(isnan(before) && isnan(behind));
        }
    }
    hunt_values_free(program, &low);
    hunt_values_free(program, &high);
    return found;
}

/* origin: the program that was differentiated, once or twice. */
static const char *check_slope(gradients *c, const hunt_program *origin,
                               const hunt_program *program, const hunt_program *slope,
                               const uint32_t *of, const char *what) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_random random = {program->seed ^ 0xd1};
    void *direction[MOST_INPUTS] = {0};
    double doubt, size, reach;
    for (uint32_t i = 0; i < program->n_inputs; i++) {
        const shoal_type *type = &g->values[g->inputs[i]].type;
        if (!is_float(type)) continue;
        direction[i] = hunt_alloc((size_t)base_type_bytes(type));
        random_numbers(&random, type, direction[i]);
    }
    double is = along(slope, of, direction, NULL, &size), unused;
    double must = difference(program, slope, direction, &doubt, &reach);
    for (uint64_t i = 0; i < SAMPLES && fabs(is - must) > doubt; i++) {
        hunt_noise noise = {.random = {i}};
        double away = fabs(along(slope, of, direction, &noise, &unused) - is);
        doubt = isnan(away) ? INFINITY : fmax(doubt, away);
    }
    bool rough = doubt > 1e-4 * (fabs(must) + 1);
    bool equal = fabs(is - must) <= 100 * doubt + 1e-6 * (size + fabs(must) + 1);
    bool excused = !rough && !equal &&
                   (has_stair(program, direction, reach) || (isnan(is) && has_singular(origin)));
    for (uint32_t i = 0; i < program->n_inputs; i++) free(direction[i]);
    c->rough += rough;
    c->compared += !rough;
    c->excused += excused;
    if (rough || equal || excused) return NULL;
    snprintf(c->why, sizeof c->why, "%s: the slope is %.12g, differences say %.12g (± %.3g)", what,
             is, must, doubt);
    return c->why;
}

/* Bytes of all values: gradients of gradients of products take much. */
static bool is_large(const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    double bytes = 0;
    for (uint32_t v = 0; v < g->n_values; v++) bytes += (double)base_type_bytes(&g->values[v].type);
    return bytes > MOST_BYTES;
}

/* Where there is no gradient, that is said by UNSUPPORTED alone. */
static const char *refused(gradients *c, shoal_status status) {
    c->without++;
    if (status == SHOAL_UNSUPPORTED) return NULL;
    snprintf(c->why, sizeof c->why, "%s: %.400s", shoal_status_name(status), shoal_error_message());
    return c->why;
}

const char *hunt_gradient_run(void *context, const hunt_program *program) {
    gradients *c = context;
    uint32_t of[MOST_INPUTS], of_second[MOST_INPUTS];
    hunt_program first, second;
    shoal_status status = hunt_differentiate(program, &first, of);
    if (status) {
        hunt_not_compared();
        return refused(c, status);
    }
    const char *why = check_slope(c, program, program, &first, of, "gradient");
    if (!why) why = hunt_cpu_run(c->cpu, &first);
    status = why ? SHOAL_UNSUPPORTED : hunt_differentiate(&first, &second, of_second);
    if (status) {
        if (!why) why = refused(c, status);
    } else {
        if (!is_large(&second))
            why = check_slope(c, program, &first, &second, of_second, "second gradient");
        if (!why && !is_large(&second)) why = hunt_cpu_run(c->cpu, &second);
        hunt_program_fini(&second);
    }
    hunt_program_fini(&first);
    return why;
}
