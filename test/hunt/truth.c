/* The truth: what the reference gives, node by node, and how far rounding may move it.
 *
 * How exactly a result is known depends on all that led to it: a sum that cancels, a comparison of
 * two numbers that are nearly equal. So no tolerance is written anywhere. A program is run again
 * with noise, each result of each node moved at random by what kernels may differ in just there
 * (stochastic arithmetic: Vignes, 1993), and how far that spreads is what may differ. */
#include "hunt.h"

#include "backend/ref/ref.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- small things ---- */

uint64_t hunt_next(hunt_random *random) { /* splitmix64 */
    uint64_t x = random->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint32_t hunt_below(hunt_random *random, uint32_t n) {
    return (uint32_t)((hunt_next(random) >> 32) * n >> 32);
}

bool hunt_chance(hunt_random *random, uint32_t percent) {
    return hunt_below(random, 100) < percent;
}

double hunt_uniform(hunt_random *random) {
    return (double)(int64_t)(hunt_next(random) >> 11) * 0x1p-52 - 1;
}

void hunt_must(shoal_status status) {
    if (!status) return;
    fprintf(stderr, "hunt: %s: %s\n", shoal_status_name(status), shoal_error_message());
    abort();
}

void *hunt_alloc(size_t bytes) {
    void *data = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    if (!data) hunt_must(SHOAL_NO_MEMORY);
    memset(data, 0, (bytes + 127) & ~(size_t)63);
    return data;
}

double hunt_number(uint8_t dtype, const void *data, int64_t at) {
    ref_chunk chunk;
    if (dtype == SHOAL_F32) return (double)((const float *)data)[at];
    if (dtype == SHOAL_F64) return ((const double *)data)[at];
    ref_load(&chunk, dtype, data, at, 1);
    switch (ref_class_of(dtype)) {
    case REF_I: return (double)chunk.i[0];
    case REF_U: return (double)chunk.u[0];
    case REF_F: return (double)chunk.f[0];
    default: return chunk.d[0];
    }
}

void hunt_put(uint8_t dtype, void *data, int64_t at, double value) {
    ref_chunk chunk;
    switch (dtype) {
    case SHOAL_F16: ((uint16_t *)data)[at] = ref_to_half(value); break;
    case SHOAL_BF16: ((uint16_t *)data)[at] = ref_to_bfloat(value); break;
    case SHOAL_F32: ((float *)data)[at] = (float)value; break;
    case SHOAL_F64: ((double *)data)[at] = value; break;
    default:
        chunk.d[0] = value;
        ref_convert_chunk(&chunk, REF_D, dtype, 1);
        ref_store(&chunk, dtype, data, at, 1);
    }
}

hunt_results hunt_results_new(const shoal_graph *g) {
    hunt_results results = {.n = g->n_outputs};
    results.data = hunt_alloc((g->n_outputs + 1) * sizeof *results.data);
    results.bytes = hunt_alloc((g->n_outputs + 1) * sizeof *results.bytes);
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        results.bytes[i] = (size_t)base_type_bytes(&g->values[g->outputs[i]].type);
        results.data[i] = hunt_alloc(results.bytes[i]);
    }
    return results;
}

void hunt_results_fini(hunt_results *results) {
    for (uint32_t i = 0; i < results->n; i++) free(results->data[i]);
    free(results->data);
    free(results->bytes);
    *results = (hunt_results){0};
}

void **hunt_values_new(const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    void **values = hunt_alloc((g->n_values + 1) * sizeof *values);
    for (uint32_t v = 0; v < g->n_values; v++)
        values[v] = hunt_alloc((size_t)base_type_bytes(&g->values[v].type));
    for (uint32_t i = 0; i < g->n_inputs; i++)
        memcpy(values[g->inputs[i]], program->inputs[i],
               (size_t)base_type_bytes(&g->values[g->inputs[i]].type));
    return values;
}

void hunt_values_free(const hunt_program *program, void ***values) {
    for (uint32_t v = 0; *values && v < graph_data(program->graph)->n_values; v++)
        free((*values)[v]);
    free(*values);
    *values = NULL;
}

void hunt_program_fini(hunt_program *program) {
    for (uint32_t i = 0; i < program->n_inputs; i++) free(program->inputs[i]);
    free(program->inputs);
    graph_destroy(&program->graph);
}

hunt_program hunt_copy(const hunt_program *program) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_program copy = *program;
    hunt_must(graph_new(0, &copy.graph));
    hunt_must(graph_extract(g, g->inputs, g->n_inputs, g->outputs, g->n_outputs, copy.graph));
    copy.inputs = hunt_alloc((copy.n_inputs + 1) * sizeof *copy.inputs);
    for (uint32_t i = 0; i < copy.n_inputs; i++) {
        size_t bytes = (size_t)base_type_bytes(&g->values[g->inputs[i]].type);
        copy.inputs[i] = hunt_alloc(bytes);
        memcpy(copy.inputs[i], program->inputs[i], bytes);
    }
    return copy;
}

hunt_program hunt_cut(const hunt_program *program, const uint32_t *values, uint32_t n) {
    const shoal_graph *g = graph_data(program->graph);
    hunt_program cut = *program;
    void **data = hunt_values_new(program);
    uint32_t *inputs = hunt_alloc((g->n_inputs + n + 1) * sizeof *inputs);
    for (uint32_t i = 0; i < g->n_inputs; i++) inputs[i] = g->inputs[i];
    memcpy(inputs + g->n_inputs, values, n * sizeof *inputs);
    for (uint32_t i = 0; i < g->n_nodes; i++) hunt_must(hunt_run_node(g, &g->nodes[i], data, NULL));
    cut.n_inputs = g->n_inputs + n;
    cut.inputs = hunt_alloc((cut.n_inputs + 1) * sizeof *cut.inputs);
    for (uint32_t i = 0; i < cut.n_inputs; i++) {
        size_t bytes = (size_t)base_type_bytes(&g->values[inputs[i]].type);
        cut.inputs[i] = hunt_alloc(bytes);
        memcpy(cut.inputs[i], data[inputs[i]], bytes);
    }
    hunt_must(graph_new(0, &cut.graph));
    hunt_must(graph_extract(g, inputs, cut.n_inputs, g->outputs, g->n_outputs, cut.graph));
    hunt_values_free(program, &data);
    free(inputs);
    return cut;
}

/* ---- noise ---- */

static bool is_float(uint8_t dtype) { return shoal_dtype_kind((shoal_dtype)dtype) == 'f'; }

/* Half the distance of 1 to the next number. */
static double unit_of(uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F16: return 0x1p-11;
    case SHOAL_BF16: return 0x1p-8;
    case SHOAL_F32: return 0x1p-24;
    default: return 0x1p-53;
    }
}

static double least_of(uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F16: return 0x1p-24;
    case SHOAL_BF16: return 0x1p-133;
    case SHOAL_F32: return 0x1p-149;
    default: return 0x1p-1074;
    }
}

/* Units by which an elementwise operation may differ: none where IEEE 754 says the result. */
static double units_of(uint16_t op, uint8_t dtype) {
    double few = dtype == SHOAL_F32 || dtype == SHOAL_F64 ? 8 : 2;
    switch (op) {
    case GRAPH_EXPONENTIAL:
    case GRAPH_LOG:
    case GRAPH_TANH:
    case GRAPH_LOGISTIC:
    case GRAPH_POWER:
    case GRAPH_ERF:
    case GRAPH_RSQRT:
    case GRAPH_COSINE:
    case GRAPH_SINE:
    case GRAPH_TAN:
    case GRAPH_CBRT:
    case GRAPH_EXPONENTIAL_MINUS_ONE:
    case GRAPH_LOG_PLUS_ONE:
    case GRAPH_ATAN2: return few;
    case GRAPH_RANDOM: return 4 * few; /* NORMAL, by logarithm and cosine */
    default: return 0;
    }
}

static double product(const shoal_attr *list) {
    double n = 1;
    for (uint32_t i = 0; list && i < list->count; i++) n *= (double)list->u.ints[i];
    return n;
}

static double count_of(const shoal_graph *g, uint32_t value) {
    return (double)base_type_count(&g->values[value].type);
}

/* GRAPH_ADD or GRAPH_MULTIPLY where a body rounds by that; else UINT16_MAX. */
static uint16_t rounding_of(const shoal_graph *body) {
    for (uint32_t i = 0; i < body->n_nodes; i++) {
        uint16_t op = body->nodes[i].op;
        if ((op == GRAPH_ADD || op == GRAPH_MULTIPLY) &&
            is_float(body->values[body->nodes[i].first_output].type.dtype))
            return op;
    }
    return UINT16_MAX;
}

static const shoal_graph *body_of(const shoal_node *node) {
    return node->n_regions ? node->regions[node->n_regions - 1] : NULL;
}

/* How many numbers are joined to one, in an order that is the kernel's; 0: none are. */
static double terms_of(const shoal_graph *g, const shoal_node *node) {
    const shoal_graph *body = body_of(node);
    const shoal_type *out = &g->values[node->first_output].type;
    if (body && rounding_of(body) == UINT16_MAX) return 0;
    double results = (double)base_type_count(out);
    switch (node->op) {
    case GRAPH_DOT_GENERAL: {
        const shoal_attr *axes = shoal_node_attr(node, SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS);
        double n = is_float(out->dtype);
        for (uint32_t i = 0; i < axes->count; i++)
            n *= (double)g->values[node->inputs[0]].type.dims[axes->u.ints[i]];
        return n;
    }
    case GRAPH_CONVOLUTION: return is_float(out->dtype) * count_of(g, node->inputs[1]);
    case GRAPH_REDUCE: return results > 0 ? count_of(g, node->inputs[0]) / results + 1 : 0;
    case GRAPH_REDUCE_WINDOW:
    case GRAPH_SELECT_AND_SCATTER:
        return product(shoal_node_attr(node, SHOAL_ATTR_WINDOW_DIMENSIONS)) + 1;
    case GRAPH_CUMULATE:
        return (double)out->dims[shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i] + 1;
    case GRAPH_SCATTER: return count_of(g, node->inputs[node->n_inputs - 1]) + 1;
    default: return 0;
    }
}

/* What numbers are taken for: sums are as exact as the sum of magnitudes; a product is, unless what
 * is above 1, or what is below, goes out of range. */
typedef double (*taking)(double x);
static double above_one(double x) { return fabs(x) > 1 ? fabs(x) : 1; }
static double below_one(double x) { return fabs(x) < 1 && x != 0 ? fabs(x) : 1; }

/* A node again, of other numbers. */
static shoal_status run_again(const ref_call *call, taking take, hunt_results *out) {
    const shoal_graph *g = call->graph;
    const shoal_node *node = call->node;
    void *inputs[160] = {0};
    if (node->n_inputs > 160) return base_fail(SHOAL_INTERNAL, "hunt: over 160 operands");
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const shoal_type *type = &g->values[node->inputs[i]].type;
        bool selects = node->op == GRAPH_SELECT_AND_SCATTER && i == 0;
        size_t bytes = (size_t)base_type_bytes(type);
        inputs[i] = hunt_alloc(bytes);
        memcpy(inputs[i], call->inputs[i], bytes);
        if (!is_float(type->dtype) || selects) continue;
        for (int64_t e = 0; e < base_type_count(type); e++)
            hunt_put(type->dtype, inputs[i], e, take(hunt_number(type->dtype, inputs[i], e)));
    }
    *out = (hunt_results){.n = node->n_outputs};
    out->data = hunt_alloc(node->n_outputs * sizeof *out->data);
    out->bytes = hunt_alloc(node->n_outputs * sizeof *out->bytes);
    for (uint16_t i = 0; i < node->n_outputs; i++)
        out->data[i] = hunt_alloc((size_t)base_type_bytes(&g->values[node->first_output + i].type));
    ref_call again = {g, node, (const void *const *)inputs, out->data};
    shoal_status status = ref_kernel_of(node->op)(&again);
    for (uint32_t i = 0; i < node->n_inputs; i++) free(inputs[i]);
    return status;
}

/* An element moved by up to `amount`; what has no size of its own, in a way of its own. NaN mostly
 * have one sign throughout a run, as a kernel makes them. */
static double moved(hunt_noise *noise, double x, double amount) {
    if (x != x)
        return copysign(x, hunt_chance(&noise->random, 90) == (noise->any / 2 % 2) ? -1.0 : 1.0);
    if (isinf(x)) return x;
    double by = amount > 0 ? amount * hunt_uniform(&noise->random) : 0;
    bool vanishes = fabs(x) < amount && (hunt_chance(&noise->random, noise->vanishing));
    if (vanishes || (x == 0 && by == 0)) return hunt_chance(&noise->random, 50) ? 0.0 : -0.0;
    return x + by;
}

/* What is left where two numbers are nearly equal may be nothing at all in another kernel, and a
 * comparison of the two may say that they are. */
static double distance(const ref_call *call, int64_t i, double *size) {
    const shoal_type *types[2] = {ref_input(call, 0), ref_input(call, 1)};
    double x = hunt_number(types[0]->dtype, call->inputs[0], i);
    double y = hunt_number(types[1]->dtype, call->inputs[1], i);
    *size = fabs(x) + fabs(y);
    return call->node->op == GRAPH_ADD ? x + y : x - y;
}

static void cancel(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    const shoal_attr *way = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION);
    bool equality = way && (!strcmp(way->u.string, "EQ") || !strcmp(way->u.string, "NE"));
    if (!equality && node->op != GRAPH_ADD && node->op != GRAPH_SUBTRACT) return;
    uint8_t dtype = ref_input(call, 0)->dtype;
    if (!is_float(dtype)) return;
    for (int64_t i = 0; i < base_type_count(ref_output(call)); i++) {
        double size, away = fabs(distance(call, i, &size));
        if (away == 0 || !isfinite(size)) continue;
        if (!(away <= 64 * unit_of(dtype) * (equality ? size + 1 : size))) continue;
        bool zero = hunt_chance(&noise->random, noise->vanishing);
        if (equality)
            ((bool *)call->outputs[0])[i] = zero == !strcmp(way->u.string, "EQ");
        else if (zero)
            hunt_put(dtype, call->outputs[0], i, 0);
    }
}

/* What may be any number, what it is among them: mostly the same throughout a run. Thirds have bits
 * in all of their bytes, which somebody may look at. */
static double anything(hunt_noise *noise, double is) {
    const double any[] = {NAN, INFINITY, -INFINITY, 0, 1.0 / 3, -2.0 / 3, is};
    uint32_t which = hunt_chance(&noise->random, 70) ? noise->any : hunt_below(&noise->random, 7);
    return any[which % 7];
}

static shoal_status add_noise(const ref_call *call, hunt_noise *noise) {
    const shoal_graph *g = call->graph;
    const shoal_node *node = call->node;
    const char *category = graph_op(node->op)->category;
    double terms = terms_of(g, node);
    bool computes = !strcmp(category, "unary") || !strcmp(category, "binary") || terms > 0 ||
                    node->op == GRAPH_RANDOM;
    if (!computes) return SHOAL_OK;
    hunt_results sizes = {0}, least = {0};
    const shoal_graph *body = body_of(node);
    bool multiplies = terms > 0 && body && rounding_of(body) == GRAPH_MULTIPLY;
    if (terms > 0) SHOAL_TRY(run_again(call, multiplies ? above_one : fabs, &sizes));
    if (multiplies) SHOAL_TRY(run_again(call, below_one, &least));
    for (uint16_t k = 0; k < node->n_outputs; k++) {
        const shoal_type *type = &g->values[node->first_output + k].type;
        if (!is_float(type->dtype)) continue;
        double unit = unit_of(type->dtype), units = units_of(node->op, type->dtype);
        if (noise->composite && units < 8) units = 8;
        for (int64_t i = 0; i < base_type_count(type); i++) {
            double x = hunt_number(type->dtype, call->outputs[k], i), amount = units * fabs(x);
            double size = terms > 0 ? hunt_number(type->dtype, sizes.data[k], i) : 0;
            if (terms > 0) amount = (terms + 8) * (multiplies ? fabs(x) : size);
            bool tiny = multiplies &&
                        hunt_number(type->dtype, least.data[k], i) < least_of(type->dtype) / unit;
            if (terms > 0 && (!isfinite(size) || tiny)) { /* depends on the order */
                hunt_put(type->dtype, call->outputs[k], i, anything(noise, x));
                continue;
            }
            amount *= 2 * unit;
            if (noise->composite) {
                double of = 0;
                if (node->op == GRAPH_ADD || node->op == GRAPH_SUBTRACT) distance(call, i, &of);
                amount += 4 * unit * of + (type->dtype == SHOAL_F64 ? DBL_MIN : FLT_MIN);
            }
            if (amount > 0 && amount < least_of(type->dtype)) amount = 2 * least_of(type->dtype);
            hunt_put(type->dtype, call->outputs[k], i, moved(noise, x, amount));
        }
    }
    hunt_results_fini(&sizes);
    hunt_results_fini(&least);
    return SHOAL_OK;
}

/* ---- running ---- */

/* A body, or what a composite consists of: its outputs are the node's. */
static shoal_status run_inner(const shoal_graph *inner, const void *const *inputs,
                              void *const *outputs, hunt_noise *noise) {
    hunt_results results = hunt_results_new(inner);
    shoal_status status = hunt_run_graph(inner, inputs, noise, &results);
    for (uint32_t i = 0; !status && i < results.n; i++)
        memcpy(outputs[i], results.data[i], results.bytes[i]);
    hunt_results_fini(&results);
    return status;
}

static shoal_status run_while(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    const shoal_graph *test = node->regions[0], *body = node->regions[1];
    hunt_results now = hunt_results_new(body), next = hunt_results_new(body);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < now.n; i++) memcpy(now.data[i], call->inputs[i], now.bytes[i]);
    for (int turn = 0; !status && turn < 10000; turn++) {
        bool go = false;
        void *flag[] = {&go};
        status = run_inner(test, (const void *const *)now.data, flag, noise);
        if (status || !go) break;
        status = hunt_run_graph(body, (const void *const *)now.data, noise, &next);
        hunt_results swap = now;
        now = next, next = swap;
    }
    for (uint32_t i = 0; i < now.n; i++) memcpy(call->outputs[i], now.data[i], now.bytes[i]);
    hunt_results_fini(&now);
    hunt_results_fini(&next);
    return status;
}

/* Whether a composite is known for such operands at all: where numbers go out of range on the way,
 * or 0 meets infinity, each form of it does so in its own way. */
static bool is_known(const ref_call *call) {
    uint16_t op = call->node->op;
    bool strict = op == GRAPH_SILU || op == GRAPH_GELU || op == GRAPH_SOFTMAX ||
                  op == GRAPH_LOG_SOFTMAX || op == GRAPH_CROSS_ENTROPY || op == GRAPH_ROPE;
    for (uint32_t k = 0; k < call->node->n_inputs; k++) {
        const shoal_type *type = &call->graph->values[call->node->inputs[k]].type;
        if (!is_float(type->dtype)) continue;
        bool infinite = strict || (op == GRAPH_ATTENTION && k == 3);
        for (int64_t i = 0; i < base_type_count(type); i++) {
            double x = fabs(hunt_number(type->dtype, call->inputs[k], i));
            if (isfinite(x) ? x > (type->dtype == SHOAL_F16 ? 1e3 : 1e12) : !infinite) return false;
        }
    }
    return true;
}

/* Sums over rows may be made in parts, each rounded to an element type of few digits. */
static void round_parts(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    const shoal_type *of = ref_input(call, 0), *type = ref_output(call);
    bool sums =
        node->op == GRAPH_RMS_NORM_SCALE_GRADIENT || node->op == GRAPH_LAYER_NORM_SCALE_GRADIENT;
    if (!sums || (type->dtype != SHOAL_F16 && type->dtype != SHOAL_BF16)) return;
    double most = 0, n = (double)base_type_count(type);
    for (int64_t i = 0; i < base_type_count(of); i++)
        most += fabs(hunt_number(of->dtype, call->inputs[0], i));
    double amount = 4 * unit_of(type->dtype) * most * sqrt(n);
    for (int64_t i = 0; i < base_type_count(type); i++)
        hunt_put(type->dtype, call->outputs[0], i,
                 moved(noise, hunt_number(type->dtype, call->outputs[0], i), amount));
}

static void scatter_results(const ref_call *call, hunt_noise *noise) {
    for (uint16_t k = 0; k < call->node->n_outputs; k++) {
        const shoal_type *type = &call->graph->values[call->node->first_output + k].type;
        for (int64_t i = 0; i < base_type_count(type); i++)
            hunt_put(type->dtype, call->outputs[k], i,
                     anything(noise, hunt_number(type->dtype, call->outputs[k], i)));
    }
}

static shoal_status run_composite(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    graph *whole, *parts;
    uint32_t inputs[64], first;
    hunt_must(graph_new(0, &whole));
    hunt_must(graph_new(0, &parts));
    for (uint32_t i = 0; i < node->n_inputs; i++)
        hunt_must(graph_add_input(whole, &call->graph->values[node->inputs[i]].type, &inputs[i]));
    hunt_must(graph_add(whole, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs, NULL,
                        0, &first));
    for (uint16_t i = 0; i < node->n_outputs; i++) hunt_must(graph_add_output(whole, first + i));
    hunt_must(graph_decompose(graph_data(whole), NULL, NULL, parts));
    bool outer = noise && noise->composite;
    if (noise) noise->composite = true;
    shoal_status status = run_inner(graph_data(parts), call->inputs, call->outputs, noise);
    if (noise) noise->composite = outer;
    if (noise) round_parts(call, noise);
    if (noise && !is_known(call)) scatter_results(call, noise);
    graph_destroy(&whole);
    graph_destroy(&parts);
    return status;
}

shoal_status hunt_run_node(const shoal_graph *g, const shoal_node *node, void *const *values,
                           hunt_noise *noise) {
    const void *few[16], **inputs = few;
    if (node->n_inputs > 16) inputs = hunt_alloc(node->n_inputs * sizeof *inputs);
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = values[node->inputs[i]];
    ref_call call = {g, node, inputs, &values[node->first_output]};
    ref_kernel kernel = ref_kernel_of(node->op);
    shoal_status status;
    if (node->op == GRAPH_WHILE) {
        status = run_while(&call, noise);
    } else if (node->op == GRAPH_IF || node->op == GRAPH_CASE) {
        const shoal_graph *body = node->regions[ref_branch_of(node, inputs[0])];
        status = run_inner(body, inputs + 1, call.outputs, noise);
    } else if (kernel) {
        status = kernel(&call);
        if (!status && noise) status = add_noise(&call, noise);
        if (!status && noise) cancel(&call, noise);
    } else {
        status = run_composite(&call, noise);
    }
    if (inputs != few) free(inputs);
    return status;
}

shoal_status hunt_run_graph(const shoal_graph *g, const void *const *inputs, hunt_noise *noise,
                            hunt_results *results) {
    size_t bytes = 0, at = 0;
    for (uint32_t v = 0; v < g->n_values; v++)
        bytes += ((size_t)base_type_bytes(&g->values[v].type) + 63) & ~(size_t)63;
    char *storage = hunt_alloc(bytes);
    void **values = hunt_alloc((g->n_values + 1) * sizeof *values);
    for (uint32_t v = 0; v < g->n_values; v++) {
        values[v] = storage + at;
        at += ((size_t)base_type_bytes(&g->values[v].type) + 63) & ~(size_t)63;
    }
    for (uint32_t i = 0; i < g->n_inputs; i++) values[g->inputs[i]] = (void *)inputs[i];
    shoal_status status = SHOAL_OK;
    for (uint32_t n = 0; !status && n < g->n_nodes; n++)
        status = hunt_run_node(g, &g->nodes[n], values, noise);
    for (uint32_t i = 0; !status && i < g->n_outputs; i++)
        memcpy(results->data[i], values[g->outputs[i]], results->bytes[i]);
    free(values);
    free(storage);
    return status;
}
