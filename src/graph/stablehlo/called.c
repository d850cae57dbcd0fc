/* Functions that a text only names: notes for compilers, and what is known of libraries. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

#include <stdio.h>

hlo_text hlo_target(const hlo_call *c) {
    const hlo_attr *target = hlo_attr_of(c, "call_target_name", "symbol");
    return target ? target->text : (hlo_text){0};
}

const hlo_attr *hlo_setting(const hlo_call *c, const char *name) {
    static const char *const lists[] = {"mhlo.backend_config", "backend_config"};
    const hlo_attr *found = NULL;
    for (int i = 0; i < 2 && !found; i++) {
        const hlo_attr *list = hlo_attr_of(c, lists[i], NULL);
        found = list && list->kind == HLO_GROUP ? hlo_find(list->items, name) : NULL;
    }
    return found;
}

/* ---- the largest elements ---- */

/* "GT" or "LT", where a comparator does nothing but that to its first two numbers; else NULL. */
static const char *direction_of(const shoal_graph *body) {
    const shoal_node *node = body->nodes;
    if (body->n_nodes != 1 || node->op != GRAPH_COMPARE || body->outputs[0] != node->first_output ||
        node->inputs[0] != body->inputs[0] || node->inputs[1] != body->inputs[1])
        return NULL;
    const char *direction = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    return !strcmp(direction, "GT") || !strcmp(direction, "LT") ? direction : NULL;
}

/* Whether it takes two numbers of each operand, and says whether the first of them come first. */
static bool compares(const shoal_graph *body, const hlo_call *c, uint32_t n) {
    static const shoal_type flag = {.dtype = SHOAL_BOOL};
    bool does = body->n_inputs == 2 * n && body->n_outputs == 1 &&
                base_type_equal(&body->values[body->outputs[0]].type, &flag);
    for (uint32_t i = 0; does && i < 2 * n; i++) {
        const shoal_type number = {.dtype = hlo_type_of(c, i / 2)->dtype};
        does = base_type_equal(&body->values[body->inputs[i]].type, &number);
    }
    return does;
}

/* Whether an operand's elements are their numbers along the axis. */
static bool is_numbers(const hlo_call *c, uint32_t input, int64_t axis) {
    const shoal_graph *g = graph_data(c->s->g);
    uint32_t n = g->values[c->in[input]].node;
    const shoal_node *node = n == SHOAL_NO_NODE ? NULL : &g->nodes[n];
    return node && node->op == GRAPH_IOTA && hlo_type_of(c, input)->dtype == SHOAL_I32 &&
           !shoal_node_attr(node, SHOAL_ATTR_START_INDICES) &&
           shoal_node_attr(node, SHOAL_ATTR_IOTA_DIMENSION)->u.i == axis;
}

/* x with the axis as the last one, or back. */
static uint32_t last_axis(maker *m, uint32_t x, int64_t axis) {
    int64_t order[SHOAL_MAX_RANK];
    if (m->status) return 0;
    uint32_t rank = type_of(m, x)->rank;
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    order[axis] = rank - 1;
    order[rank - 1] = axis;
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, order, rank);
    return node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL);
}

/* The most common case, which is no whole sort. */
static shoal_status largest_of(hlo_call *c, int64_t axis, int64_t k, bool smallest) {
    maker m = {c->s->g, SHOAL_OK};
    uint32_t x = last_axis(&m, smallest ? one(&m, GRAPH_NEGATE, c->in[0]) : c->in[0], axis);
    shoal_attr attr = graph_int(SHOAL_ATTR_K, k);
    uint32_t values = node(&m, GRAPH_TOP_K, &x, 1, &attr, 1, NULL);
    c->out[0] = last_axis(&m, values, axis);
    if (smallest) c->out[0] = one(&m, GRAPH_NEGATE, c->out[0]);
    c->out[1] = last_axis(&m, values + 1, axis);
    return m.status;
}

/* Of operands that are as many as initial values, what a comparator puts first: in order, which is
 * more than is asked for. As many as the result has, of which there may be more than are wanted. */
static shoal_status approx_top_k(hlo_call *c) {
    int64_t axis;
    const shoal_graph *body;
    const hlo_attr *called = hlo_attr_of(c, "called_computations", NULL);
    uint32_t n = c->n_out, first;
    SHOAL_TRY(hlo_need(c, 2 * n, n));
    SHOAL_TRY(hlo_int(c, hlo_setting(c, "reduction_dim"), -1, &axis));
    if (!n || axis < 0 || axis >= hlo_type_of(c, 0)->rank)
        return hlo_fail(c, "its reduction_dim is none of an operand");
    if (!called || !called->items || called->items->kind != HLO_SYMBOL || called->items->next)
        return hlo_fail(c, "it does not say by which function elements are compared");
    SHOAL_TRY(hlo_comparator(c, called->items->text, &body));
    for (uint32_t i = 0; i < n; i++) {
        const hlo_type *of = c->types ? &c->types[i] : NULL;
        const shoal_type *is = hlo_type_of(c, i);
        bool fits = of && of->tensor && of->type.rank == is->rank && axis < is->rank &&
                    of->type.dims[axis] >= 0 && of->type.dims[axis] <= is->dims[axis];
        if (!fits) return hlo_fail(c, "result %u is not some of operand %u", i, i);
        const shoal_type number = {.dtype = is->dtype};
        if (!base_type_equal(hlo_type_of(c, n + i), &number))
            return hlo_fail(c, "operand %u is no number of operand %u's type", n + i, i);
    }
    if (!compares(body, c, n)) {
        char name[64];
        return hlo_fail(c, "@%s does not take two numbers of each operand and return one i1",
                        hlo_copy(called->items->text, name, sizeof name));
    }
    const char *direction = direction_of(body);
    int64_t k = c->types->type.dims[axis];
    if (n == 2 && direction && is_numbers(c, 1, axis) &&
        shoal_dtype_kind((shoal_dtype)hlo_type_of(c, 0)->dtype) == 'f' &&
        k == c->types[1].type.dims[axis])
        return largest_of(c, axis, k, *direction == 'L');
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, axis),
                                graph_bool(SHOAL_ATTR_IS_STABLE, 1)};
    SHOAL_TRY(graph_add(c->s->g, GRAPH_SORT, c->in, n, attrs, 2, &body, 1, &first));
    maker m = {c->s->g, SHOAL_OK};
    for (uint32_t i = 0; i < n; i++)
        c->out[i] = slice_along(&m, first + i, axis, 0, c->types[i].type.dims[axis], 1);
    return m.status;
}

/* ---- operations of CHLO, as functions ---- */

/* XLA and torch_xla hand over "chlo.erf" as @mhlo.erf, and "chlo.top_k" as @mhlo.topk, which may be
 * of the smallest, with attributes of their own. */
static shoal_status older_name(hlo_call *c, const char *name) {
    char own[64];
    snprintf(own, sizeof own, "chlo.%.50s", strcmp(name, "mhlo.topk") ? name + 5 : "top_k");
    hlo_rule *rule = hlo_rule_of(own);
    if (!rule) return hlo_fail(c, "@%s cannot be imported: there is no such operation", name);
    const hlo_attr *attrs = hlo_attr_of(c, "mhlo.attributes", NULL);
    const hlo_attr *largest = attrs ? hlo_find(attrs->items, "largest") : NULL;
    bool smallest = largest && hlo_is(largest->text, "false");
    hlo_op op = *c->op;
    hlo_call call = *c;
    op.name = own;
    op.attrs = attrs ? attrs->items : NULL;
    call.op = &op;
    if (!smallest) return rule(&call);
    int64_t k;
    SHOAL_TRY(hlo_need(c, 1, 2));
    SHOAL_TRY(hlo_int(&call, hlo_attr_of(&call, "k", NULL), -1, &k));
    if (!hlo_type_of(c, 0)->rank || shoal_dtype_kind((shoal_dtype)hlo_type_of(c, 0)->dtype) != 'f')
        return hlo_fail(c, "it takes floating numbers along a last axis");
    return largest_of(c, hlo_type_of(c, 0)->rank - 1, k, true);
}

/* ---- which ---- */

/* Why others cannot be, by what is in their names. */
static const struct {
    const char *part, *why;
} refused[] = {
#define FACTORS                                                                                    \
    "eigenvalues and singular values are not computed here; compute them outside, and hand them "  \
    "over as arguments"
    {"sytrd", FACTORS},
    {"syev", FACTORS},
    {"gesdd", FACTORS},
    {"gesvd", FACTORS},
    {"geev", FACTORS},
    {"gehrd", FACTORS},
    {"gees", FACTORS},
    {"Eigh", FACTORS},
#undef FACTORS
    {"gtsv", "of this function JAX writes plain operations for TPUs: jax.export.export(jax.jit(f), "
             "platforms=['tpu'])"},
    {"callback", "it calls Python, as jax.debug.print and jax.pure_callback do; leave that out of "
                 "what is exported"},
};

static shoal_status refuse(const hlo_call *c, const char *name) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strstr(name, refused[i].part))
            return hlo_fail(c, "@%s cannot be imported: %s", name, refused[i].why);
    return hlo_fail(c, "@%s cannot be imported: what it computes is not in the text", name);
}

/* Notes for compilers leave values as they are; what others do is not in the text. */
shoal_status hlo_custom_call(hlo_call *c) {
    static const char *const notes[] = {"Sharding",
                                        "SPMDFullToShardShape",
                                        "SPMDShardToFullShape",
                                        "annotate_device_placement",
                                        "LayoutConstraint",
                                        "MoveToHost",
                                        "MoveToDevice",
                                        "shape_assertion"};
    char name[96];
    hlo_text target = hlo_target(c);
    if (!target.n) return hlo_fail(c, "it does not say what is called");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (hlo_is(target, notes[i]) && c->n_out <= c->n_in) {
            for (uint32_t k = 0; k < c->n_out; k++) c->out[k] = c->in[k];
            return SHOAL_OK;
        }
    hlo_copy(target, name, sizeof name);
    if (!strcmp(name, "ApproxTopK")) return approx_top_k(c);
    if (!strncmp(name, "mhlo.", 5)) return older_name(c, name);
    hlo_rule *rule = hlo_library_rule(name);
    return rule ? rule(c) : refuse(c, name);
}
