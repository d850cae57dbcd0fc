/* Noise: by how much two kernels may differ in a node, for these operands. */
#include "hunt.h"

#include "backend/ref/ref.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- how exact element types and operations are ---- */

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

/* What lies beyond is infinite. */
static double most_of(uint8_t dtype) {
    switch (dtype) {
    case SHOAL_F16: return 65504;
    case SHOAL_BF16: return 0x1.fep127;
    case SHOAL_F32: return FLT_MAX;
    default: return DBL_MAX;
    }
}

/* Units by which an elementwise operation may differ: none where IEEE 754 says the result. */
static double units_of(uint16_t op, uint8_t dtype) {
    double few = dtype == SHOAL_F32 || dtype == SHOAL_F64 ? 8 : 1;
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

static bool has_few_digits(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

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

static double as_it_is(double x) { return x; }

/* Processors' products of bfloat16 take subnormal numbers for zeros. */
static double flushed(double x) { return fabs(x) < FLT_MIN ? copysign(0, x) : x; }

/* Of numbers beside NaN and infinity: what they are for those, and how large they are themselves.
 */
static double sign_alone(double x) { return isfinite(x) && x != 0 ? copysign(1, x) : x; }
static double finite_alone(double x) { return isfinite(x) ? fabs(x) : 0; }
static double finite_above_one(double x) { return isfinite(x) ? above_one(x) : 1; }
static double finite_below_one(double x) { return isfinite(x) ? below_one(x) : 1; }

static shoal_type wide(const shoal_type *type) {
    shoal_type made = *type;
    if (is_float(type->dtype)) made.dtype = SHOAL_F64;
    return made;
}

/* A body that does the same in float64. */
static const shoal_graph *wide_body(graph *g, const shoal_graph *body) {
    graph *made;
    uint32_t *values = hunt_alloc((body->n_values + 1) * sizeof *values), inputs[64];
    hunt_must(graph_add_region(g, &made));
    for (uint32_t i = 0; i < body->n_inputs; i++) {
        shoal_type type = wide(&body->values[body->inputs[i]].type);
        hunt_must(graph_add_input(made, &type, &values[body->inputs[i]]));
    }
    for (uint32_t i = 0; i < body->n_nodes; i++) {
        const shoal_node *node = &body->nodes[i];
        uint32_t first;
        for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = values[node->inputs[k]];
        hunt_must(graph_add(made, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                            NULL, 0, &first));
        for (uint16_t k = 0; k < node->n_outputs; k++) values[node->first_output + k] = first + k;
    }
    for (uint32_t i = 0; i < body->n_outputs; i++)
        hunt_must(graph_add_output(made, values[body->outputs[i]]));
    free(values);
    return graph_data(made);
}

/* A node again, of other numbers, in float64: results are float64. */
static shoal_status run_again(const ref_call *call, taking take, hunt_results *out) {
    const shoal_graph *g = call->graph;
    const shoal_node *node = call->node;
    graph *made;
    void *data[160] = {0};
    uint32_t inputs[160], first;
    const shoal_graph *bodies[2];
    if (node->n_inputs > 160 || node->n_regions > 2)
        return base_fail(SHOAL_INTERNAL, "hunt: over 160 operands or 2 bodies");
    hunt_must(graph_new(0, &made));
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const shoal_type *from = &g->values[node->inputs[i]].type;
        shoal_type type = wide(from);
        bool selects = node->op == GRAPH_SELECT_AND_SCATTER && i == 0;
        hunt_must(graph_add_input(made, &type, &inputs[i]));
        data[i] = hunt_alloc((size_t)base_type_bytes(&type));
        if (!is_float(from->dtype)) {
            memcpy(data[i], call->inputs[i], (size_t)base_type_bytes(&type));
            continue;
        }
        for (int64_t e = 0; e < base_type_count(&type); e++) {
            double x = hunt_number(from->dtype, call->inputs[i], e);
            ((double *)data[i])[e] = selects ? x : take(x);
        }
    }
    for (uint16_t i = 0; i < node->n_regions; i++) bodies[i] = wide_body(made, node->regions[i]);
    hunt_must(graph_add(made, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs, bodies,
                        node->n_regions, &first));
    for (uint16_t i = 0; i < node->n_outputs; i++) hunt_must(graph_add_output(made, first + i));
    const shoal_graph *again = graph_data(made);
    *out = hunt_results_new(again);
    ref_call wider = {again, &again->nodes[0], (const void *const *)data, out->data};
    shoal_status status = ref_kernel_of(node->op)(&wider);
    for (uint32_t i = 0; i < node->n_inputs; i++) free(data[i]);
    graph_destroy(&made);
    return status;
}

/* Whether the sign of a zero that an operation gives is known. */
static bool signs_zero(uint16_t op) {
    switch (op) {
    case GRAPH_NEGATE:
    case GRAPH_ABS:
    case GRAPH_SIGN:
    case GRAPH_SQRT:
    case GRAPH_CEIL:
    case GRAPH_FLOOR:
    case GRAPH_ROUND_NEAREST_AFZ:
    case GRAPH_ROUND_NEAREST_EVEN:
    case GRAPH_ADD:
    case GRAPH_SUBTRACT:
    case GRAPH_MULTIPLY:
    case GRAPH_DIVIDE: return true;
    default: return false;
    }
}

/* Whether a zero stands for what is too small to be a number, of which another kernel may make the
 * least one. */
static bool underflows(const ref_call *call, int64_t i) {
    uint16_t op = call->node->op;
    if (op != GRAPH_POWER && op != GRAPH_EXPONENTIAL && op != GRAPH_LOGISTIC) return false;
    double x = hunt_number(ref_input(call, 0)->dtype, call->inputs[0], i);
    return x != 0 && isfinite(x);
}

/* An element moved by up to `amount`; what has no size of its own, in a way of its own. NaN mostly
 * have one sign throughout a run, as a kernel makes them, and bits of their own or those of an
 * operand. */
static double moved(hunt_noise *noise, double x, double amount) {
    if (x != x)
        return copysign(noise->any % 2 ? NAN : x,
                        hunt_chance(&noise->random, 90) == (noise->any / 2 % 2) ? -1.0 : 1.0);
    if (isinf(x)) return x;
    double by = amount > 0 ? amount * hunt_uniform(&noise->random) : 0;
    if (x == 0 && amount == 0 && noise->signs) return x;
    /* Whole numbers matter, to a power above all: another kernel may meet them exactly. */
    double whole = rint(x);
    bool meets = fabs(x - whole) < amount && hunt_chance(&noise->random, noise->vanishing);
    if (meets && whole != 0) return whole;
    if (meets || (x == 0 && by == 0)) return hunt_chance(&noise->random, 50) ? 0.0 : -0.0;
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
    double units = has_few_digits(dtype) ? 4 : 64; /* those of few digits were rounded just now */
    for (int64_t i = 0; i < base_type_count(ref_output(call)); i++) {
        double size, away = fabs(distance(call, i, &size));
        if (away == 0 || !isfinite(size)) continue;
        if (!(away <= units * unit_of(dtype) * (equality ? size + 1 : size))) continue;
        bool zero = hunt_chance(&noise->random, noise->vanishing);
        if (equality)
            ((bool *)call->outputs[0])[i] = zero == !strcmp(way->u.string, "EQ");
        else if (zero)
            hunt_put(dtype, call->outputs[0], i, 0);
    }
}

/* What may be any number, what it is among them: mostly the same throughout a run, or always.
 * Thirds have bits in all of their bytes, which somebody may look at, and subnormal numbers have
 * few; a number of some size is none that functions are special for. */
static double anything(hunt_noise *noise, uint8_t dtype, double is) {
    double few = ldexp(least_of(dtype), (int)hunt_below(&noise->random, 24));
    const double any[HUNT_ANY] = {NAN, INFINITY, -INFINITY,
                                  0,   1.0 / 3,  -2.0 / 3,
                                  is,  few,      1000 * hunt_uniform(&noise->random)};
    bool usual = noise->alike || hunt_chance(&noise->random, 70);
    return any[(usual ? noise->any : hunt_below(&noise->random, HUNT_ANY)) % HUNT_ANY];
}

/* What a node that joins numbers says about how exactly its results are known. */
typedef struct joined {
    double terms; /* 0: it joins none */
    bool multiplies, wide;
    /* In float64: of the numbers, of the largest, the smallest. */
    hunt_results exact, most, least;
    /* Where some is NaN or infinite: of signs alone, and of the finite ones. */
    hunt_results special, finite, tiny;
    hunt_results flushed; /* of products of bfloat16 */
} joined;

static bool any_is_beyond(const shoal_graph *g, const shoal_node *node, const hunt_results *most) {
    for (uint16_t k = 0; k < node->n_outputs; k++) {
        const shoal_type *type = &g->values[node->first_output + k].type;
        for (int64_t i = 0; is_float(type->dtype) && i < base_type_count(type); i++)
            if (!isfinite(((double *)most->data[k])[i])) return true;
    }
    return false;
}

static shoal_status join(const ref_call *call, joined *out) {
    const shoal_graph *body = body_of(call->node);
    *out = (joined){.terms = terms_of(call->graph, call->node)};
    /* Operands of no elements may have extents too large for the same in float64. */
    if (!base_type_count(ref_output(call))) out->terms = 0;
    if (out->terms <= 0) return SHOAL_OK;
    out->multiplies = body && rounding_of(body) == GRAPH_MULTIPLY;
    out->wide = call->node->op == GRAPH_DOT_GENERAL || call->node->op == GRAPH_CONVOLUTION;
    SHOAL_TRY(run_again(call, as_it_is, &out->exact));
    if (call->node->op == GRAPH_DOT_GENERAL &&
        call->graph->values[call->node->inputs[0]].type.dtype == SHOAL_BF16)
        SHOAL_TRY(run_again(call, flushed, &out->flushed));
    SHOAL_TRY(run_again(call, out->multiplies ? above_one : fabs, &out->most));
    if (out->multiplies) SHOAL_TRY(run_again(call, below_one, &out->least));
    if (!any_is_beyond(call->graph, call->node, &out->most)) return SHOAL_OK;
    SHOAL_TRY(run_again(call, sign_alone, &out->special));
    SHOAL_TRY(run_again(call, out->multiplies ? finite_above_one : finite_alone, &out->finite));
    return out->multiplies ? run_again(call, finite_below_one, &out->tiny) : SHOAL_OK;
}

static void joined_fini(joined *j) {
    hunt_results *all[] = {&j->exact,  &j->most, &j->least,  &j->special,
                           &j->finite, &j->tiny, &j->flushed};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) hunt_results_fini(all[i]);
}

/* By how many units, of the sum of magnitudes, sums may differ: rounding errors of either sign add
 * up as random steps do, those of equal numbers, which are all alike, as steps in one direction;
 * float64, of which the reference is no better, has room for that. Kernels add numbers of few
 * digits in wider ones and round at the end, and those who join parts once more for each. */
static double units_of_sum(double terms, uint8_t dtype) {
    if (has_few_digits(dtype)) return 1 + sqrt(terms) * unit_of(SHOAL_F32) / unit_of(dtype);
    double walk = 8 + 2 * sqrt(terms);
    return dtype == SHOAL_F64 ? fmax(walk, terms / 8) : walk;
}

/* The result where no order of joining goes out of range: most, least: of what is joined. */
static bool stays_in_range(const joined *j, uint8_t dtype, double most, double least) {
    return most < most_of(dtype) && (!j->multiplies || least >= least_of(dtype) / unit_of(dtype));
}

/* Whether NaN or infinity among what is joined say what the result is, in any order. */
static bool is_decided(const joined *j, uint8_t dtype, uint16_t k, int64_t i) {
    if (!j->special.n) return false;
    double exact = ((double *)j->exact.data[k])[i], special = ((double *)j->special.data[k])[i];
    double tiny = j->multiplies ? ((double *)j->tiny.data[k])[i] : INFINITY;
    bool same = isnan(special) ? isnan(exact) : isinf(special) && special == exact;
    return same && stays_in_range(j, dtype, ((double *)j->finite.data[k])[i], tiny);
}

/* By how much the reference itself may be off, at most: as one does who adds one after the other.
 */
static double own_error(const joined *j, uint8_t dtype, double exact, double size) {
    double unit = unit_of(j->wide && has_few_digits(dtype) ? SHOAL_F32 : dtype);
    return j->terms * 2 * (unit * size + least_of(dtype)) + 2 * unit_of(dtype) * fabs(exact);
}

/* What subnormal numbers among what is joined may move, where they count as zeros. */
static double amount_of_subnormal(const joined *j, uint16_t k, int64_t i) {
    if (!j->flushed.n) return 0;
    double exact = ((double *)j->exact.data[k])[i], other = ((double *)j->flushed.data[k])[i];
    if (isnan(exact) ? isnan(other) : exact == other) return j->terms * FLT_MIN;
    return isfinite(exact - other) ? fabs(exact - other) + j->terms * FLT_MIN : INFINITY;
}

/* Element i of output k of a node that joins numbers: what may move it; infinity: anything. */
static double amount_of(const joined *j, uint8_t dtype, uint16_t k, int64_t i, double is) {
    double exact = ((double *)j->exact.data[k])[i], most = ((double *)j->most.data[k])[i];
    double least = j->multiplies ? ((double *)j->least.data[k])[i] : INFINITY;
    if (!stays_in_range(j, dtype, most, least)) return is_decided(j, dtype, k, i) ? 0 : INFINITY;
    double size = j->multiplies ? fabs(exact) : most;
    /* Who adds one after the other, as the reference does, may leave the range by rounding alone.
     */
    bool leaves = isinf(is) && size + own_error(j, dtype, exact, size) >= most_of(dtype);
    if (leaves && isfinite(exact)) return INFINITY;
    return units_of_sum(j->terms, dtype) * 2 * unit_of(dtype) * size +
           fmin(fabs(is - exact), own_error(j, dtype, exact, size));
}

static shoal_status add_noise(const ref_call *call, hunt_noise *noise) {
    const shoal_graph *g = call->graph;
    const shoal_node *node = call->node;
    const char *category = graph_op(node->op)->category;
    joined j;
    SHOAL_TRY(join(call, &j));
    bool rounds = !strcmp(category, "unary") || !strcmp(category, "binary") ||
                  node->op == GRAPH_RANDOM || node->op == GRAPH_CLAMP;
    if (!(rounds && !noise->sums_alone) && !(j.terms > 0)) return SHOAL_OK;
    if (j.terms > 0 && noise->sums_stay && !noise->composite) {
        joined_fini(&j);
        return SHOAL_OK;
    }
    hunt_noise here = *noise;
    here.signs = noise->signs && !noise->composite && signs_zero(node->op);
    for (uint16_t k = 0; k < node->n_outputs; k++) {
        const shoal_type *type = &g->values[node->first_output + k].type;
        if (!is_float(type->dtype)) continue;
        bool small = has_few_digits(type->dtype);
        double unit = unit_of(type->dtype), units = units_of(node->op, type->dtype);
        double least = small ? 1 : 8;
        if (noise->composite && units < least) units = least;
        for (int64_t i = 0; i < base_type_count(type); i++) {
            double x = hunt_number(type->dtype, call->outputs[k], i);
            double amount =
                j.terms > 0 ? amount_of(&j, type->dtype, k, i, x) + amount_of_subnormal(&j, k, i)
                            : 0;
            if (amount == INFINITY) { /* depends on the order */
                hunt_put(type->dtype, call->outputs[k], i, anything(&here, type->dtype, x));
                continue;
            }
            amount += units * fabs(x) * 2 * unit;
            if (noise->composite) {
                double of = 0;
                if (node->op == GRAPH_ADD || node->op == GRAPH_SUBTRACT) distance(call, i, &of);
                amount +=
                    (small ? 1 : 4) * unit * of + (type->dtype == SHOAL_F64 ? DBL_MIN : FLT_MIN);
            }
            bool small_zero = x == 0 && units > 0 && underflows(call, i);
            if ((amount > 0 || small_zero) && amount < least_of(type->dtype))
                amount = 2 * least_of(type->dtype);
            hunt_put(type->dtype, call->outputs[k], i, moved(&here, x, amount));
        }
    }
    noise->random = here.random;
    joined_fini(&j);
    return SHOAL_OK;
}

shoal_status hunt_add_noise(const ref_call *call, hunt_noise *noise) {
    SHOAL_TRY(add_noise(call, noise));
    cancel(call, noise);
    return SHOAL_OK;
}

/* ---- composites ---- */

static bool is_attention(const ref_call *call) {
    return call->node->op == GRAPH_ATTENTION || call->node->op == GRAPH_ATTENTION_GRADIENT;
}

/* What a composite makes of its operands part by part: an element of a part is of no matter to the
 * others. */
typedef struct parts {
    int64_t n, inner, length;
} parts;

static int64_t part_of(parts p, int64_t element) {
    return element / (p.inner * p.length) * p.inner + element % p.inner;
}

static parts parts_of(const ref_call *call, const shoal_type *type) {
    int64_t count = base_type_count(type), axis, inner = 1;
    switch (call->node->op) {
    case GRAPH_SILU:
    case GRAPH_GELU:
    case GRAPH_SILU_GRADIENT:
    case GRAPH_GELU_GRADIENT:
    case GRAPH_ADAM: return (parts){count, 1, 1};
    case GRAPH_SOFTMAX:
    case GRAPH_LOG_SOFTMAX:
    case GRAPH_RMS_NORM:
    case GRAPH_LAYER_NORM:
    case GRAPH_SOFTMAX_GRADIENT:
    case GRAPH_RMS_NORM_GRADIENT:
    case GRAPH_LAYER_NORM_GRADIENT:
        axis = ref_attr(call, SHOAL_ATTR_DIMENSION)->u.i;
        if (!type->dims[axis]) break;
        for (int64_t i = axis + 1; i < type->rank; i++) inner *= type->dims[i];
        return (parts){count / type->dims[axis], inner, type->dims[axis]};
    case GRAPH_ATTENTION:
    case GRAPH_ATTENTION_GRADIENT: /* by batch */
        if (type->rank < 3 || !type->dims[0]) break;
        return (parts){type->dims[0], 1, count / type->dims[0]};
    default: break;
    }
    return (parts){1, 1, count};
}

/* Whether a value is divided as the first operand is: of the same shape, or of as many batches. */
static bool is_divided(const ref_call *call, const shoal_type *type) {
    const shoal_type *first = ref_input(call, 0);
    return type->rank == first->rank &&
           !memcmp(type->dims, first->dims,
                   (is_attention(call) ? 1u : type->rank) * sizeof *type->dims);
}

enum { HAS_NAN = 1, HAS_HUGE = 2 }; /* marks of parts */

/* Marks the parts for which a composite is not known: where numbers go out of range on the way, or
 * 0 meets infinity, each form of it does so in its own way. False: all are known. */
static bool mark_unknown(const ref_call *call, uint8_t *marks) {
    uint16_t op = call->node->op;
    bool strict = op == GRAPH_SILU || op == GRAPH_GELU || op == GRAPH_SOFTMAX ||
                  op == GRAPH_LOG_SOFTMAX || op == GRAPH_CROSS_ENTROPY || op == GRAPH_ROPE;
    bool any = false;
    int64_t n = parts_of(call, ref_input(call, 0)).n;
    for (uint32_t k = 0; k < call->node->n_inputs; k++) {
        const shoal_type *type = ref_input(call, k);
        if (!is_float(type->dtype)) continue;
        bool masks =
            (op == GRAPH_ATTENTION && k == 3) || (op == GRAPH_ATTENTION_GRADIENT && k == 5);
        bool rates = op == GRAPH_ADAM && k == 4; /* which are of all elements */
        bool divided = is_divided(call, type) && !masks && !rates;
        parts p = parts_of(call, type);
        for (int64_t i = 0; i < base_type_count(type); i++) {
            double x = hunt_number(type->dtype, call->inputs[k], i), size = fabs(x);
            if (isfinite(x) ? size <= (type->dtype == SHOAL_F16 ? 1e3 : 1e12)
                            : strict || (masks && x < 0))
                continue;
            uint8_t mark = isnan(x) ? HAS_NAN : HAS_HUGE;
            any = true;
            if (divided)
                marks[part_of(p, i)] |= mark;
            else
                for (int64_t part = 0; part < n; part++) marks[part] |= mark;
        }
    }
    return any;
}

/* Sums over rows may be made in parts, each rounded to an element type of few digits. */
static void round_parts(const ref_call *call, hunt_noise *noise) {
    const shoal_node *node = call->node;
    const shoal_type *of = ref_input(call, 0), *type = ref_output(call);
    bool adds =
        node->op == GRAPH_RMS_NORM_SCALE_GRADIENT || node->op == GRAPH_LAYER_NORM_SCALE_GRADIENT;
    if (!adds || !has_few_digits(type->dtype)) return;
    int64_t n = base_type_count(type), inner = 1;
    for (uint32_t i = (uint32_t)ref_attr(call, SHOAL_ATTR_DIMENSION)->u.i + 1; i < of->rank; i++)
        inner *= of->dims[i];
    double *sums = hunt_alloc((size_t)n * sizeof *sums); /* no row has a number above its root */
    for (int64_t i = 0; i < base_type_count(of); i++)
        sums[i / inner % n] += fabs(hunt_number(of->dtype, call->inputs[0], i));
    for (int64_t i = 0; i < n; i++) {
        double amount = unit_of(type->dtype) * sums[i] * sqrt((double)n);
        if (sums[i] != 0 && amount < least_of(type->dtype)) amount = 2 * least_of(type->dtype);
        hunt_put(type->dtype, call->outputs[0], i,
                 moved(noise, hunt_number(type->dtype, call->outputs[0], i), amount));
    }
    free(sums);
}

/* Anything; also what it was made of: an activation of a huge number is that number. */
static void scatter(const ref_call *call, uint16_t k, int64_t i, bool alike, hunt_noise *noise) {
    uint8_t dtype = call->graph->values[call->node->first_output + k].type.dtype;
    double is = hunt_number(dtype, call->outputs[k], i);
    if (alike && hunt_chance(&noise->random, 25))
        is = hunt_number(ref_input(call, 0)->dtype, call->inputs[0], i);
    else
        is = anything(noise, dtype, is);
    hunt_put(dtype, call->outputs[k], i, is);
}

/* An angle of rope that is so large that its rounding shows points anywhere. */
static void scatter_far(const ref_call *call, hunt_noise *noise) {
    const shoal_type *type = ref_output(call), *places = ref_input(call, 1);
    const shoal_type *rates = call->node->n_inputs > 2 ? ref_input(call, 2) : NULL;
    double unit = unit_of(type->dtype == SHOAL_F64 ? SHOAL_F64 : SHOAL_F32), rate = rates ? 0 : 1;
    int64_t axis = ref_attr(call, SHOAL_ATTR_DIMENSION)->u.i, inner = 1;
    for (int64_t i = axis + 1; i < type->rank; i++) inner *= type->dims[i];
    for (int64_t i = 0; rates && i < base_type_count(rates); i++)
        rate = fmax(rate, fabs(hunt_number(rates->dtype, call->inputs[2], i)));
    for (int64_t i = 0; i < base_type_count(type); i++) {
        double place = hunt_number(places->dtype, call->inputs[1], i / inner % type->dims[axis]);
        if (fabs(place) * rate * unit > 1e-3) scatter(call, 0, i, true, noise);
    }
}

/* Where a part is not known. But what NaN alone have made NaN stays NaN, unless attention leaves
 * them out. */
static void scatter_results(const ref_call *call, const uint8_t *marks, hunt_noise *noise) {
    const shoal_type *of = ref_input(call, 0);
    for (uint16_t k = 0; k < call->node->n_outputs; k++) {
        const shoal_type *type = &call->graph->values[call->node->first_output + k].type;
        bool alike = base_type_count(of) == base_type_count(type), divided = is_divided(call, type);
        parts p = parts_of(call, type);
        for (int64_t i = 0; i < base_type_count(type); i++) {
            double is = hunt_number(type->dtype, call->outputs[k], i);
            uint8_t mark = divided ? marks[part_of(p, i)] : HAS_HUGE;
            if (!mark || (mark == HAS_NAN && isnan(is) && !is_attention(call))) continue;
            scatter(call, k, i, alike, noise);
        }
    }
}

void hunt_add_composite_noise(const ref_call *call, hunt_noise *noise) {
    uint8_t *marks = hunt_alloc((size_t)parts_of(call, ref_input(call, 0)).n + 1);
    round_parts(call, noise);
    if (mark_unknown(call, marks)) scatter_results(call, marks, noise);
    if (call->node->op == GRAPH_ROPE) scatter_far(call, noise);
    free(marks);
}
