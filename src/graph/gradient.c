/* Reverse mode, graph to graph: from the last node to the first, each node whose results have a
 * gradient hands gradients to its operands, by the rule of its row. What several nodes hand to one
 * value is added. Nodes that no asked-for value leads to are never looked at.
 *
 * A rule reads the values of the forward pass. Those that are not kept are computed again, from
 * values that are, just before the rule that reads them. */
#include "base/vec.h"
#include "graph/maker.h"
#include "graph/rules.h"

#include <stdlib.h>

/* The gradient of a slice along one axis: it waits until all slices of the value have theirs. */
typedef struct part {
    uint32_t node, gradient; /* the slice */
    uint32_t axis;
    int64_t start, limit;
    uint32_t next; /* number + 1 of another part of the value */
} part;

/* The walk through one graph. The arrays have an element per value that was there at its start. */
typedef struct walk {
    maker m;
    uint32_t first_node, n_values;
    bool *depends;   /* on a value whose gradient is asked for */
    uint32_t *sums;  /* the gradient so far */
    uint32_t *parts; /* number + 1 of a part, 0: none */
    BASE_VEC(part) list;
    const bool *kept;
    uint32_t *again; /* the copy of a value that is not kept */
    bool *missing;   /* while copies are made: whether the value needs one */
} walk;

GRADIENT(zero) { return SHOAL_OK; }

bool graph_is_smooth(uint16_t op) { return graph_op(op)->gradient != graph_gradient_zero; }

/* What joins by adding is linear: its gradient reads indices alone. */
uint32_t graph_reads_of(const graph_call *call) {
    const graph_op_def *def = graph_op(call->op);
    bool adds = call->n_regions == 1 && graph_body_op(call->regions[0]) == GRAPH_ADD;
    return adds ? 0 : def->reads;
}

static const shoal_node *node_of(const walk *w, uint32_t n) {
    return &graph_data(w->m.g)->nodes[n];
}

static bool is_float(const walk *w, uint32_t value) {
    return graph_kind(type_of(&w->m, value)) == 'f';
}

/* The sum with a box of updates in zeros: of the sum only the box changes, which a backend may do
 * in place. So the way back of a loop that reads a row in each round adds rows, and not as many
 * whole tensors. */
static bool add_box(walk *w, uint32_t *sum, uint32_t gradient) {
    const shoal_graph *g = graph_data(w->m.g);
    const shoal_node *made =
        g->values[gradient].node == SHOAL_NO_NODE ? NULL : &g->nodes[g->values[gradient].node];
    if (!made || made->op != GRAPH_DYNAMIC_UPDATE_SLICE ||
        !graph_is_identity(g, made->inputs[0], GRAPH_ADD))
        return false;
    uint32_t n = made->n_inputs - 1, inputs[2 + SHOAL_MAX_RANK] = {*sum, *sum};
    const shoal_type *update = &g->values[made->inputs[1]].type;
    shoal_attr sizes = graph_ints(SHOAL_ATTR_SLICE_SIZES, update->dims, update->rank);
    memcpy(inputs + 2, made->inputs + 2, (n - 1) * sizeof *inputs);
    uint32_t added = made->inputs[1];
    uint32_t box = node(&w->m, GRAPH_DYNAMIC_SLICE, inputs + 1, n, &sizes, 1, NULL);
    inputs[1] = add(&w->m, box, added);
    *sum = node(&w->m, GRAPH_DYNAMIC_UPDATE_SLICE, inputs, n + 1, NULL, 0, NULL);
    return true;
}

static void add_to(walk *w, uint32_t value, uint32_t gradient) {
    uint32_t *sum = &w->sums[value];
    if (*sum == GRAPH_NO_VALUE)
        *sum = gradient;
    else if (w->m.status || !add_box(w, sum, gradient))
        *sum = two(&w->m, GRAPH_ADD, *sum, gradient);
}

/* ---- values that are computed again ---- */

static bool needs_copy(const walk *w, uint32_t value) {
    return value < w->n_values && !w->kept[value] && w->again[value] == GRAPH_NO_VALUE &&
           graph_data(w->m.g)->values[value].node != SHOAL_NO_NODE;
}

static uint32_t latest(const walk *w, uint32_t value) {
    return value < w->n_values && w->again[value] != GRAPH_NO_VALUE ? w->again[value] : value;
}

/* A scope that no node of the forward pass has: else the first one would be found and taken. */
static shoal_status enter_again(walk *w, const shoal_node *node) {
    base_str scope = {0};
    base_str_format(&scope, "%s%sagain", node->scope ? node->scope : "", node->scope ? "/" : "");
    shoal_status status = base_str_status(&scope);
    if (!status) status = graph_at(w->m.g, node->location, scope.data);
    base_str_fini(&scope);
    return status;
}

static shoal_status copy_node(walk *w, uint32_t n) {
    graph *g = w->m.g;
    const shoal_node *node = node_of(w, n);
    uint32_t first, *inputs = base_arena_array(graph_arena(g), uint32_t, node->n_inputs);
    if (!inputs) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = latest(w, node->inputs[i]);
    SHOAL_TRY(enter_again(w, node));
    SHOAL_TRY(graph_add(g, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                        node->regions, node->n_regions, &first));
    for (uint16_t i = 0; i < node->n_outputs; i++) {
        w->again[node->first_output + i] = first + i;
        w->missing[node->first_output + i] = false;
    }
    return SHOAL_OK;
}

/* The value, or its copy, which is made with all that it depends on. */
static shoal_status recall(walk *w, uint32_t *value) {
    if (!w->kept || !needs_copy(w, *value)) {
        if (w->kept) *value = latest(w, *value);
        return SHOAL_OK;
    }
    const shoal_graph *data = graph_data(w->m.g);
    uint32_t last = data->values[*value].node, first = last, waiting = 1;
    w->missing[*value] = true;
    for (uint32_t n = last + 1; n-- > 0 && waiting;) {
        const shoal_node *node = node_of(w, n);
        bool wanted = false;
        for (uint16_t i = 0; i < node->n_outputs; i++) {
            bool missing = w->missing[node->first_output + i];
            waiting -= missing;
            wanted = wanted || missing;
        }
        for (uint32_t i = 0; wanted && i < node->n_inputs; i++)
            if (needs_copy(w, node->inputs[i]) && !w->missing[node->inputs[i]]) {
                w->missing[node->inputs[i]] = true;
                waiting++;
            }
        if (wanted) first = n;
    }
    for (uint32_t n = first; n <= last; n++) {
        bool wanted = false;
        for (uint16_t i = 0; i < node_of(w, n)->n_outputs; i++)
            wanted = wanted || w->missing[node_of(w, n)->first_output + i];
        if (wanted) SHOAL_TRY(copy_node(w, n));
    }
    *value = w->again[*value];
    return SHOAL_OK;
}

/* The operands and results that the rule reads are there. */
static shoal_status recall_all(walk *w, const graph_call *call, uint32_t *inputs, uint32_t *outputs,
                               uint16_t n_outputs) {
    uint32_t reads = graph_reads_of(call);
    if (!w->kept) return SHOAL_OK;
    for (uint32_t i = 0; i < call->n_inputs; i++)
        if ((reads & GRAPH_READS(i)) || graph_kind(&call->inputs[i]) != 'f')
            SHOAL_TRY(recall(w, &inputs[i]));
    for (uint16_t i = 0; i < n_outputs; i++)
        if ((reads & GRAPH_READS_RESULTS) || !is_float(w, outputs[i]))
            SHOAL_TRY(recall(w, &outputs[i]));
    return SHOAL_OK;
}

/* ---- slices ---- */

/* Whether the node takes a range of one axis, every element of it. */
static bool is_range(const walk *w, const shoal_node *node, part *out) {
    if (node->op != GRAPH_SLICE) return false;
    const shoal_type *in = type_of(&w->m, node->inputs[0]);
    const int64_t *start = shoal_node_attr(node, SHOAL_ATTR_START_INDICES)->u.ints;
    const int64_t *limit = shoal_node_attr(node, SHOAL_ATTR_LIMIT_INDICES)->u.ints;
    const int64_t *stride = shoal_node_attr(node, SHOAL_ATTR_STRIDES)->u.ints;
    uint32_t cut = 0;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (!start[i] && limit[i] == in->dims[i] && stride[i] == 1) continue;
        if (cut++ || stride[i] != 1) return false;
        *out = (part){.axis = i, .start = start[i], .limit = limit[i]};
    }
    return cut == 1;
}

static shoal_status pad_part(walk *w, const part *p) {
    shoal_node node = *node_of(w, p->node);
    shoal_type type;
    graph_call call = graph_node_call(graph_data(w->m.g), &node, &type);
    uint32_t gradient = GRAPH_NO_VALUE;
    const graph_backward b = {.g = w->m.g,
                              .call = &call,
                              .inputs = node.inputs,
                              .outputs = &node.first_output,
                              .n_outputs = 1,
                              .seeds = &p->gradient,
                              .wanted = (const bool[]){true},
                              .gradients = &gradient};
    SHOAL_TRY(graph_at(w->m.g, node.location, node.scope));
    SHOAL_TRY(graph_gradient_slice(&b));
    add_to(w, node.inputs[0], gradient);
    return w->m.status;
}

/* The parts of a value side by side, with zeros where nothing was taken. */
static void concatenate_parts(walk *w, uint32_t value, const part *const *parts, uint32_t n) {
    maker *m = &w->m;
    shoal_type type = *type_of(m, value);
    uint32_t axis = parts[0]->axis, count = 0;
    uint32_t *rows = base_arena_array(graph_arena(m->g), uint32_t, 2 * (size_t)n + 1);
    if (!rows) {
        m->status = SHOAL_NO_MEMORY;
        return;
    }
    int64_t at = 0, end = type.dims[axis];
    for (uint32_t i = 0; i <= n; i++) {
        int64_t start = i < n ? parts[i]->start : end;
        type.dims[axis] = start - at;
        if (start > at) rows[count++] = splat(m, type, 0);
        if (i < n) rows[count++] = parts[i]->gradient;
        at = i < n ? parts[i]->limit : end;
    }
    shoal_attr attr = graph_int(SHOAL_ATTR_DIMENSION, axis);
    add_to(w, value, node(m, GRAPH_CONCATENATE, rows, count, &attr, 1, NULL));
}

enum { MOST_PARTS = 64 };

/* A value's parts, from number `at` - 1 on, in the order in which they lie; false when some
 * overlap, or lie along different axes. */
static bool lie_apart(const walk *w, uint32_t at, const part **sorted, uint32_t *count) {
    uint32_t n = 0;
    for (; at; at = w->list.data[at - 1].next) {
        const part *p = &w->list.data[at - 1];
        if (n == MOST_PARTS) return false;
        uint32_t place = n++;
        for (; place && sorted[place - 1]->start > p->start; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = p;
    }
    for (uint32_t i = 1; i < n; i++)
        if (sorted[i]->axis != sorted[0]->axis || sorted[i - 1]->limit > sorted[i]->start)
            return false;
    *count = n;
    return true;
}

/* Adds the gradients of a value's slices: at once when they lie beside each other (as those of
 * `split` do), else each with zeros around it. */
static shoal_status settle(walk *w, uint32_t value) {
    const part *sorted[MOST_PARTS];
    uint32_t n = 0, at = w->parts[value];
    w->parts[value] = 0;
    bool apart = at && w->list.data[at - 1].next && lie_apart(w, at, sorted, &n);
    if (apart) concatenate_parts(w, value, sorted, n);
    for (; at && !apart; at = w->list.data[at - 1].next)
        SHOAL_TRY(pad_part(w, &w->list.data[at - 1]));
    return w->m.status;
}

/* Whether the gradient of the node waits with others of its operand. */
static bool waits(walk *w, uint32_t n) {
    const shoal_node *node = node_of(w, n);
    part p;
    if (!is_range(w, node, &p)) return false;
    uint32_t value = node->inputs[0];
    p.node = n;
    p.gradient = w->sums[node->first_output];
    p.next = w->parts[value];
    if (base_vec_push(&w->list, p))
        w->parts[value] = (uint32_t)w->list.count;
    else
        w->m.status = SHOAL_NO_MEMORY;
    return true;
}

/* ---- one node ---- */

static shoal_status no_gradient(const shoal_node *node) {
    return base_fail(SHOAL_UNSUPPORTED, "%s%s%s%s has no gradient", shoal_op_name(node->op),
                     node->location ? " (" : "", node->location ? node->location : "",
                     node->location ? ")" : "");
}

/* Arrays of one node: what its rule is given, and fills. */
static shoal_status apply_rule(walk *w, uint32_t n, graph_backward *b, shoal_type *types,
                               uint32_t *inputs, uint32_t *outputs, bool *wanted) {
    shoal_node node = *node_of(w, n);
    const graph_op_def *def = graph_op(node.op);
    if (!def->gradient && !def->decompose) return no_gradient(&node);
    graph_call call = graph_node_call(graph_data(w->m.g), &node, types);
    for (uint32_t i = 0; i < node.n_inputs; i++) {
        inputs[i] = node.inputs[i];
        wanted[i] = w->depends[node.inputs[i]];
        b->gradients[i] = GRAPH_NO_VALUE;
    }
    for (uint16_t i = 0; i < node.n_outputs; i++) outputs[i] = node.first_output + i;
    SHOAL_TRY(recall_all(w, &call, inputs, outputs, node.n_outputs));
    SHOAL_TRY(graph_at(w->m.g, node.location, node.scope));
    b->g = w->m.g;
    b->call = &call;
    b->inputs = inputs;
    b->outputs = outputs;
    b->n_outputs = node.n_outputs;
    b->seeds = w->sums + node.first_output;
    b->wanted = wanted;
    shoal_status status = (def->gradient ? def->gradient : graph_gradient_composite)(b);
    if (status)
        return base_fail_prefix(status, "the gradient of %s%s%s%s: ", def->name,
                                node.location ? " (" : "", node.location ? node.location : "",
                                node.location ? ")" : "");
    for (uint32_t i = 0; i < node.n_inputs; i++) {
        if (!wanted[i] || b->gradients[i] == GRAPH_NO_VALUE) continue;
        if (!base_type_equal(type_of(&w->m, b->gradients[i]), &types[i]))
            return base_fail(SHOAL_INTERNAL, "the gradient of %s for operand %u is %s, not %s",
                             def->name, i, GRAPH_TEXT(type_of(&w->m, b->gradients[i])),
                             GRAPH_TEXT(&types[i]));
        add_to(w, node.inputs[i], b->gradients[i]);
    }
    return w->m.status;
}

/* Of results without elements comes nothing, so that no rule has to think of them. */
static shoal_status give_zeros(walk *w, shoal_node node) {
    for (uint32_t i = 0; i < node.n_inputs; i++)
        if (w->depends[node.inputs[i]])
            add_to(w, node.inputs[i], splat(&w->m, *type_of(&w->m, node.inputs[i]), 0));
    return w->m.status;
}

static shoal_status visit(walk *w, uint32_t n) {
    bool reached = false, leads = false, empty = true;
    for (uint16_t i = 0; i < node_of(w, n)->n_outputs; i++) {
        uint32_t value = node_of(w, n)->first_output + i;
        SHOAL_TRY(settle(w, value));
        if (w->sums[value] == GRAPH_NO_VALUE) continue;
        reached = true;
        empty = empty && !base_type_count(type_of(&w->m, value));
    }
    const shoal_node *node = node_of(w, n);
    for (uint32_t i = 0; i < node->n_inputs; i++) leads = leads || w->depends[node->inputs[i]];
    if (!reached || !leads || !graph_is_smooth(node->op)) return SHOAL_OK;
    if (empty) return give_zeros(w, *node);
    if (waits(w, n)) return w->m.status;
    /* Most nodes have few operands. */
    enum { FEW = 8 };
    shoal_type few_types[FEW];
    uint32_t few[2 * FEW], outputs[GRAPH_MAX_OUTPUTS];
    bool few_wanted[FEW];
    if (node->n_inputs <= FEW) {
        graph_backward b = {.gradients = few + FEW};
        return apply_rule(w, n, &b, few_types, few, outputs, few_wanted);
    }
    size_t count = node->n_inputs;
    shoal_type *types = malloc(count * sizeof *types);
    uint32_t *values = malloc(2 * count * sizeof *values);
    bool *wanted = malloc(count);
    graph_backward b = {.gradients = values + count};
    shoal_status status = types && values && wanted
                              ? apply_rule(w, n, &b, types, values, outputs, wanted)
                              : base_fail(SHOAL_NO_MEMORY, "no memory for %zu operands", count);
    free(types);
    free(values);
    free(wanted);
    return status;
}

/* ---- the walk ---- */

static shoal_status begin(walk *w, const uint32_t *outputs, const uint32_t *seeds,
                          uint32_t n_outputs, const uint32_t *wrt, uint32_t n_wrt) {
    for (uint32_t i = 0; i < n_wrt; i++) {
        if (wrt[i] >= w->n_values)
            return base_fail(SHOAL_INVALID, "gradient: there is no value %u", wrt[i]);
        if (!is_float(w, wrt[i]))
            return base_fail(SHOAL_INVALID, "gradient: %s has none; only floating-point types do",
                             GRAPH_TEXT(type_of(&w->m, wrt[i])));
        w->depends[wrt[i]] = true;
    }
    uint32_t n_nodes = graph_data(w->m.g)->n_nodes;
    for (uint32_t n = w->first_node; n < n_nodes; n++) {
        const shoal_node *node = node_of(w, n);
        bool leads = false;
        for (uint32_t i = 0; i < node->n_inputs; i++) leads = leads || w->depends[node->inputs[i]];
        if (!leads || !graph_is_smooth(node->op)) continue;
        for (uint16_t i = 0; i < node->n_outputs; i++)
            if (is_float(w, node->first_output + i)) w->depends[node->first_output + i] = true;
    }
    for (uint32_t i = 0; i < n_outputs; i++) {
        if (outputs[i] >= w->n_values || seeds[i] >= w->n_values)
            return base_fail(SHOAL_INVALID, "gradient: there is no output or seed %u", i);
        if (!base_type_equal(type_of(&w->m, outputs[i]), type_of(&w->m, seeds[i])))
            return base_fail(SHOAL_INVALID, "gradient: the seed of output %u is %s; the output %s",
                             i, GRAPH_TEXT(type_of(&w->m, seeds[i])),
                             GRAPH_TEXT(type_of(&w->m, outputs[i])));
        if (w->depends[outputs[i]]) add_to(w, outputs[i], seeds[i]);
    }
    return w->m.status;
}

shoal_status graph_differentiate_from(graph *g, uint32_t first_node, const uint32_t *outputs,
                                      const uint32_t *seeds, uint32_t n_outputs,
                                      const uint32_t *wrt, uint32_t n_wrt, const bool *kept,
                                      uint32_t *gradients) {
    size_t n = graph_data(g)->n_values;
    uint32_t n_nodes = graph_data(g)->n_nodes;
    walk w = {{g, SHOAL_OK}, first_node, (uint32_t)n, .kept = kept};
    w.depends = calloc(2 * n + 1, sizeof *w.depends);
    w.sums = malloc((3 * n + 1) * sizeof *w.sums);
    shoal_status status = w.depends && w.sums
                              ? SHOAL_OK
                              : base_fail(SHOAL_NO_MEMORY, "no memory for %zu gradients", n);
    if (!status) {
        memset(w.sums, 0xff, 2 * n * sizeof *w.sums); /* GRAPH_NO_VALUE */
        w.again = w.sums + n;
        w.parts = w.sums + 2 * n;
        memset(w.parts, 0, n * sizeof *w.parts);
        w.missing = w.depends + n;
        status = begin(&w, outputs, seeds, n_outputs, wrt, n_wrt);
    }
    for (uint32_t at = n_nodes; at-- > first_node && !status;) status = visit(&w, at);
    for (uint32_t i = 0; i < n_wrt && !status; i++) status = settle(&w, wrt[i]);
    for (uint32_t i = 0; i < n_wrt && !status; i++) gradients[i] = w.sums[wrt[i]];
    if (!status) status = graph_at(g, NULL, NULL);
    free(w.list.data);
    free(w.depends);
    free(w.sums);
    return status;
}

shoal_status graph_differentiate(graph *g, const uint32_t *outputs, const uint32_t *seeds,
                                 uint32_t n_outputs, const uint32_t *wrt, uint32_t n_wrt,
                                 const bool *kept, uint32_t *gradients) {
    return graph_differentiate_from(g, 0, outputs, seeds, n_outputs, wrt, n_wrt, kept, gradients);
}

/* ---- what is written for it ---- */

shoal_status graph_gradient_written(const graph_backward *b, uint32_t first,
                                    const uint32_t *outputs) {
    const graph_call *call = b->call;
    base_arena *arena = graph_arena(b->g);
    uint32_t *of = base_arena_array(arena, uint32_t, (size_t)call->n_inputs), n_wrt = 0, n = 0;
    uint32_t *wrt = base_arena_array(arena, uint32_t, (size_t)call->n_inputs);
    uint32_t *gradients = base_arena_array(arena, uint32_t, (size_t)call->n_inputs);
    uint32_t reached[GRAPH_MAX_OUTPUTS], seeds[GRAPH_MAX_OUTPUTS];
    if (!of || !wrt || !gradients) return SHOAL_NO_MEMORY;
    for (uint16_t o = 0; o < b->n_outputs; o++) {
        if (b->seeds[o] == GRAPH_NO_VALUE) continue;
        reached[n] = outputs[o];
        seeds[n++] = b->seeds[o];
    }
    for (uint32_t i = 0; i < call->n_inputs; i++) {
        bool twice = false;
        for (uint32_t k = 0; k < n_wrt; k++) twice = twice || wrt[k] == b->inputs[i];
        if (!b->wanted[i] || twice) continue;
        of[n_wrt] = i;
        wrt[n_wrt++] = b->inputs[i];
    }
    SHOAL_TRY(
        graph_differentiate_from(b->g, first, reached, seeds, n, wrt, n_wrt, NULL, gradients));
    for (uint32_t k = 0; k < n_wrt; k++) b->gradients[of[k]] = gradients[k];
    return SHOAL_OK;
}

/* What a composite means, from the operands on. */
GRADIENT(composite) {
    const graph_call *call = b->call;
    uint32_t outputs[GRAPH_MAX_OUTPUTS], first = graph_data(b->g)->n_nodes;
    if (call->n_inputs > GRAPH_MAX_COMPOSITE_INPUTS)
        return base_fail(SHOAL_INVALID, "a composite has at most %d operands",
                         GRAPH_MAX_COMPOSITE_INPUTS);
    SHOAL_TRY(graph_op(call->op)->decompose(call, b->g, b->inputs, outputs));
    return graph_gradient_written(b, first, outputs);
}
