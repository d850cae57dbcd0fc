/* Gradients of loops whose number of rounds follows from constants. Their rounds are made once
 * more, and what the way back reads of each is kept, beside that of the others; then a loop from
 * the last round to the first hands the gradients of what is carried from the results of a round to
 * its operands. What stays the same in all rounds, and what only counts, is not kept. */
#include "graph/maker.h"
#include "graph/rules.h"

typedef struct loop {
    const graph_backward *b;
    const shoal_graph *condition, *body;
    uint32_t n; /* tensors that are carried */
    int64_t rounds;
    bool *stays;     /* a round returns what it was given */
    bool *active;    /* its gradient goes round */
    bool *read;      /* the way back reads what it was before the round */
    bool *kept;      /* ... and that has to be kept */
    bool *made;      /* the rounds that are made once more need it */
    uint32_t *stack; /* what was kept, of all rounds */
    const shoal_graph
        *back;         /* one round back: the operands of a round, then gradients of its results */
    uint32_t *results; /* of `back`: the gradients of active operands */
    uint32_t n_active;
} loop;

static bool *flags(const loop *l) { return base_arena_array(graph_arena(l->b->g), bool, l->n); }

/* ---- how often ---- */

/* Numbers below are exact where they are computed. */
static const int64_t far = INT64_C(1) << 50;

static bool fits(uint8_t dtype, int64_t value) {
    int bits = 8 * (int)shoal_dtype_size((shoal_dtype)dtype);
    bool is_signed = shoal_dtype_kind((shoal_dtype)dtype) == 'i';
    int64_t most = bits == 64 ? INT64_MAX : (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
    return value <= most && value >= (is_signed ? -most - 1 : 0);
}

/* The whole number that a value is. */
static bool constant_of(const shoal_graph *g, uint32_t value, int64_t *out) {
    const shoal_type *type = &g->values[value].type;
    const shoal_node *node =
        g->values[value].node == SHOAL_NO_NODE ? NULL : &g->nodes[g->values[value].node];
    if (type->rank || (graph_kind(type) != 'i' && graph_kind(type) != 'u') || !node) return false;
    if (node->op == GRAPH_CONVERT || node->op == GRAPH_RESHAPE)
        return constant_of(g, node->inputs[0], out) && fits(type->dtype, *out);
    if (node->op != GRAPH_CONSTANT) return false;
    uint64_t bits = 0;
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    memcpy(&bits, shoal_node_attr(node, SHOAL_ATTR_VALUE)->u.bytes, size);
    int unused = 64 - 8 * (int)size;
    *out = graph_kind(type) == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    return *out >= 0 || graph_kind(type) == 'i';
}

/* Which argument of a body a value is; n: none. */
static uint32_t argument_of(const loop *l, const shoal_graph *body, uint32_t value) {
    uint32_t i = 0;
    while (i < l->n && body->inputs[i] != value) i++;
    return i;
}

/* A number that a body uses: a constant of its own, or one around it that stays. */
static bool number_in(const loop *l, const shoal_graph *body, uint32_t value, int64_t *out) {
    if (constant_of(body, value, out)) return true;
    uint32_t i = argument_of(l, body, value);
    return i < l->n && l->stays[i] && constant_of(graph_data(l->b->g), l->b->inputs[i], out);
}

/* Whether what is carried as number i begins with a number, to which each round adds another. */
static bool counts(const loop *l, uint32_t i, int64_t *start, int64_t *step) {
    const shoal_graph *body = l->body;
    uint32_t n = body->values[body->outputs[i]].node;
    if (n == SHOAL_NO_NODE || !constant_of(graph_data(l->b->g), l->b->inputs[i], start))
        return false;
    const shoal_node *node = &body->nodes[n];
    if (node->op != GRAPH_ADD && node->op != GRAPH_SUBTRACT) return false;
    bool second = node->op == GRAPH_ADD && node->inputs[1] == body->inputs[i];
    if (node->inputs[second] != body->inputs[i] || !number_in(l, body, node->inputs[!second], step))
        return false;
    if (*start <= -far || *start >= far || *step <= -far || *step >= far) return false;
    if (node->op == GRAPH_SUBTRACT) *step = -*step;
    return true;
}

/* Rounds of "while start, start + step, ... is below (or, is not) the bound". */
static bool rounds_to(int64_t start, int64_t step, int64_t bound, bool exactly, int64_t *out) {
    if (bound <= -far || bound >= far) return false;
    *out = 0;
    if (bound <= start && !exactly) return true;
    if (step <= 0 || bound < start) return false;
    *out = (bound - start + step - 1) / step;
    return !exactly || (bound - start) % step == 0;
}

static bool count_rounds(const loop *l, int64_t *out) {
    const shoal_graph *c = l->condition;
    uint32_t n = c->values[c->outputs[0]].node;
    int64_t bound, start, step;
    if (n == SHOAL_NO_NODE || c->nodes[n].op != GRAPH_COMPARE) return false;
    const shoal_node *node = &c->nodes[n];
    const char *how = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    uint32_t i = argument_of(l, c, node->inputs[0]);
    bool second = i == l->n || l->stays[i];
    if (second) i = argument_of(l, c, node->inputs[1]);
    if (i == l->n || !counts(l, i, &start, &step) ||
        !number_in(l, c, node->inputs[!second], &bound))
        return false;
    bool exactly = !strcmp(how, "NE"), upwards = (*how == 'L') != second;
    if (!exactly && *how != 'L' && *how != 'G') return false;
    int64_t sign = (exactly ? step < 0 : !upwards) ? -1 : 1;
    bool reaches = !exactly && how[1] == 'E';
    if (!rounds_to(sign * start, sign * step, sign * bound + reaches, exactly, out)) return false;
    /* Beyond the numbers of its type it would begin anew. */
    return fits(l->b->call->inputs[i].dtype, start + *out * step);
}

/* ---- what depends on what ---- */

/* Marks in `needed`, per value of g, what the marked values are computed of. */
static void reach(const shoal_graph *g, bool *needed) {
    for (uint32_t n = g->n_nodes; n-- > 0;) {
        const shoal_node *node = &g->nodes[n];
        bool wanted = false;
        for (uint16_t i = 0; i < node->n_outputs; i++) wanted |= needed[node->first_output + i];
        for (uint32_t i = 0; i < node->n_inputs && wanted; i++) needed[node->inputs[i]] = true;
    }
}

/* Adds to `set` what a round reads of its operands to make the results that are in the set, and so
 * on. */
static shoal_status close_backward(const loop *l, bool *set) {
    const shoal_graph *body = l->body;
    bool *needed = base_arena_array(graph_arena(l->b->g), bool, body->n_values);
    if (!needed) return SHOAL_NO_MEMORY;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < l->n; i++)
            if (set[i]) needed[body->outputs[i]] = true;
        reach(body, needed);
        for (uint32_t i = 0; i < l->n; i++) {
            if (!needed[body->inputs[i]] || set[i]) continue;
            set[i] = more = true;
        }
    }
    return SHOAL_OK;
}

/* Adds to `set` the results of a round that have a gradient by operands in the set, and so on. */
static shoal_status close_forward(const loop *l, bool *set) {
    const shoal_graph *body = l->body;
    bool *depends = base_arena_array(graph_arena(l->b->g), bool, body->n_values);
    if (!depends) return SHOAL_NO_MEMORY;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < l->n; i++)
            if (set[i]) depends[body->inputs[i]] = true;
        for (uint32_t n = 0; n < body->n_nodes; n++) {
            const shoal_node *node = &body->nodes[n];
            bool leads = false;
            for (uint32_t i = 0; i < node->n_inputs; i++) leads |= depends[node->inputs[i]];
            for (uint16_t i = 0; i < node->n_outputs && leads && graph_is_smooth(node->op); i++)
                if (graph_kind(&body->values[node->first_output + i].type) == 'f')
                    depends[node->first_output + i] = true;
        }
        for (uint32_t i = 0; i < l->n; i++) {
            if (!depends[body->outputs[i]] || set[i]) continue;
            set[i] = more = true;
        }
    }
    return SHOAL_OK;
}

/* What leads from a wanted operand to a result that has a gradient. */
static shoal_status find_active(loop *l) {
    const graph_backward *b = l->b;
    bool *matters = flags(l);
    l->active = flags(l);
    if (!matters || !l->active) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < l->n; i++) {
        matters[i] = b->seeds[i] != GRAPH_NO_VALUE;
        l->active[i] = b->wanted[i] && graph_kind(&b->call->inputs[i]) == 'f';
    }
    SHOAL_TRY(close_backward(l, matters));
    SHOAL_TRY(close_forward(l, l->active));
    for (uint32_t i = 0; i < l->n; i++) {
        l->active[i] = l->active[i] && matters[i];
        l->n_active += l->active[i];
    }
    return SHOAL_OK;
}

/* ---- one round back ---- */

static shoal_status make_back(loop *l) {
    graph *back;
    base_arena *arena = graph_arena(l->b->g);
    uint32_t *values = base_arena_array(arena, uint32_t, 3 * (size_t)l->n_active), n = 0;
    uint32_t *seeds = values + l->n_active, *wrt = seeds + l->n_active;
    l->results = base_arena_array(arena, uint32_t, l->n_active);
    if (!values || !l->results) return SHOAL_NO_MEMORY;
    SHOAL_TRY(graph_add_region(l->b->g, &back));
    SHOAL_TRY(graph_extract(l->body, l->body->inputs, l->n, l->body->outputs, l->n, back));
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->active[i]) continue;
        values[n] = graph_data(back)->outputs[i];
        wrt[n] = graph_data(back)->inputs[i];
        SHOAL_TRY(graph_add_input(back, &l->b->call->inputs[i], &seeds[n++]));
    }
    SHOAL_TRY(graph_differentiate(back, values, seeds, n, wrt, n, NULL, l->results));
    maker m = {back, SHOAL_OK};
    for (uint32_t i = 0; i < n; i++)
        if (l->results[i] == GRAPH_NO_VALUE) l->results[i] = like(&m, wrt[i], 0);
    l->back = graph_data(back);
    return m.status;
}

static shoal_status find_kept(loop *l) {
    base_arena *arena = graph_arena(l->b->g);
    bool *needed = base_arena_array(arena, bool, l->back->n_values);
    int64_t start, step;
    l->read = flags(l);
    l->kept = flags(l);
    l->made = flags(l);
    if (!needed || !l->read || !l->kept || !l->made) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < l->n_active; i++) needed[l->results[i]] = true;
    reach(l->back, needed);
    for (uint32_t i = 0; i < l->n; i++) {
        l->read[i] = needed[l->back->inputs[i]];
        l->kept[i] = l->made[i] = l->read[i] && !l->stays[i] && !counts(l, i, &start, &step);
        if (l->kept[i] && l->b->call->inputs[i].rank == SHOAL_MAX_RANK)
            return base_fail(SHOAL_UNSUPPORTED,
                             "operand %u, %s, is kept for each round, which needs one more axis; "
                             "there may be %d",
                             i, GRAPH_TEXT(&l->b->call->inputs[i]), SHOAL_MAX_RANK);
    }
    return close_backward(l, l->made);
}

/* ---- loops over all rounds ---- */

/* A loop while it is built: what it carries, the round first, and the two bodies. */
typedef struct building {
    maker m; /* of the body that makes a round */
    graph *condition, *body;
    uint32_t *operands, *results, n;
} building;

static shoal_status begin(const loop *l, size_t most, building *out) {
    graph *g = l->b->g;
    *out = (building){.operands = base_arena_array(graph_arena(g), uint32_t, most + 1),
                      .results = base_arena_array(graph_arena(g), uint32_t, most + 1)};
    if (!out->operands || !out->results) return SHOAL_NO_MEMORY;
    SHOAL_TRY(graph_add_region(g, &out->condition));
    SHOAL_TRY(graph_add_region(g, &out->body));
    out->m = (maker){out->body, SHOAL_OK};
    return SHOAL_OK;
}

/* Carries a value: *inside is what it is in a round. A round returns that, if nothing else. */
static shoal_status carry(const loop *l, building *w, uint32_t value, uint32_t *inside) {
    uint32_t unused;
    const shoal_type type = graph_data(l->b->g)->values[value].type;
    w->operands[w->n] = value;
    SHOAL_TRY(graph_add_input(w->condition, &type, &unused));
    SHOAL_TRY(graph_add_input(w->body, &type, inside));
    w->results[w->n++] = *inside;
    return SHOAL_OK;
}

/* The first value that is carried: how many rounds have been made. */
static shoal_status carry_round(const loop *l, building *w, uint32_t *round) {
    maker outside = {l->b->g, SHOAL_OK}, condition = {w->condition, SHOAL_OK};
    uint32_t zero = splat(&outside, (shoal_type){.dtype = SHOAL_I64}, 0);
    SHOAL_TRY(outside.status);
    SHOAL_TRY(carry(l, w, zero, round));
    uint32_t first = graph_data(w->condition)->inputs[0];
    uint32_t more = compare(&condition, "LT", first, like(&condition, first, (double)l->rounds));
    if (!condition.status) condition.status = graph_add_output(w->condition, more);
    w->results[0] = plus(&w->m, *round, 1);
    return condition.status ? condition.status : w->m.status;
}

static shoal_status finish(const loop *l, building *w, uint32_t *first) {
    const shoal_graph *bodies[] = {graph_data(w->condition), graph_data(w->body)};
    SHOAL_TRY(w->m.status);
    if (w->n > GRAPH_MAX_OUTPUTS)
        return base_fail(SHOAL_INVALID, "the way back carries %u tensors; there may be %d of them",
                         w->n, GRAPH_MAX_OUTPUTS);
    for (uint32_t i = 0; i < w->n; i++) SHOAL_TRY(graph_add_output(w->body, w->results[i]));
    bodies[1] = graph_data(w->body);
    return graph_add(l->b->g, GRAPH_WHILE, w->operands, w->n, NULL, 0, bodies, 2, first);
}

/* The operands of a slice or update at one round. */
static uint32_t at_round(maker *m, uint32_t round, uint32_t rank, uint32_t *inputs) {
    uint32_t zero = splat(m, (shoal_type){.dtype = SHOAL_I64}, 0);
    for (uint32_t i = 0; i < rank; i++) inputs[i] = i ? zero : round;
    return rank;
}

/* One round of what is kept: its shape with an axis of `extent` in front. */
static shoal_type stacked(const shoal_type *type, int64_t extent) {
    shoal_type out = {.dtype = type->dtype, .rank = (uint8_t)(type->rank + 1), .dims = {extent}};
    memcpy(out.dims + 1, type->dims, type->rank * sizeof *type->dims);
    return out;
}

static uint32_t with_round(maker *m, uint32_t stack, uint32_t value, uint32_t round) {
    uint32_t inputs[2 + SHOAL_MAX_RANK] = {stack};
    if (m->status) return 0;
    const shoal_type one_round = stacked(type_of(m, value), 1);
    inputs[1] = reshape(m, value, &one_round);
    uint32_t n = 2 + at_round(m, round, one_round.rank, inputs + 2);
    return node(m, GRAPH_DYNAMIC_UPDATE_SLICE, inputs, n, NULL, 0, NULL);
}

static uint32_t round_of(maker *m, uint32_t stack, const shoal_type *type, uint32_t round) {
    uint32_t inputs[1 + SHOAL_MAX_RANK] = {stack};
    const shoal_type one_round = stacked(type, 1);
    uint32_t n = 1 + at_round(m, round, one_round.rank, inputs + 1);
    shoal_attr sizes = graph_ints(SHOAL_ATTR_SLICE_SIZES, one_round.dims, one_round.rank);
    return reshape(m, node(m, GRAPH_DYNAMIC_SLICE, inputs, n, &sizes, 1, NULL), type);
}

/* The rounds once more, which keep what the way back reads. */
static shoal_status make_forward(loop *l) {
    building w;
    graph *g = l->b->g;
    base_arena *arena = graph_arena(g);
    uint32_t round, first, n = 0;
    uint32_t *inside = base_arena_array(arena, uint32_t, l->n);
    uint32_t *made = base_arena_array(arena, uint32_t, 2 * (size_t)l->n), *next = made + l->n;
    l->stack = base_arena_array(arena, uint32_t, l->n);
    if (!inside || !made || !l->stack) return SHOAL_NO_MEMORY;
    SHOAL_TRY(begin(l, 2 * (size_t)l->n + 1, &w));
    SHOAL_TRY(carry_round(l, &w, &round));
    for (uint32_t i = 0; i < l->n; i++) {
        inside[i] = GRAPH_NO_VALUE;
        if (!l->made[i]) continue;
        SHOAL_TRY(carry(l, &w, l->b->inputs[i], &inside[i]));
        made[n++] = l->body->outputs[i];
    }
    SHOAL_TRY(graph_append(l->body, inside, made, n, w.body, next));
    memcpy(w.results + 1, next, n * sizeof *next);
    maker outside = {g, SHOAL_OK};
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t stack;
        if (!l->kept[i]) continue;
        l->stack[i] = w.n; /* which result */
        SHOAL_TRY(
            carry(l, &w, splat(&outside, stacked(&l->b->call->inputs[i], l->rounds), 0), &stack));
        SHOAL_TRY(outside.status);
        w.results[l->stack[i]] = with_round(&w.m, stack, inside[i], round);
    }
    SHOAL_TRY(finish(l, &w, &first));
    for (uint32_t i = 0; i < l->n; i++) l->stack[i] += first;
    return SHOAL_OK;
}

/* What operand i was before a round. */
static shoal_status recall(const loop *l, building *w, uint32_t i, uint32_t round, uint32_t *out) {
    uint32_t stack;
    int64_t start, step;
    maker *m = &w->m;
    if (!l->read[i]) return SHOAL_OK;
    if (l->stays[i]) return carry(l, w, l->b->inputs[i], out);
    if (l->kept[i]) {
        SHOAL_TRY(carry(l, w, l->stack[i], &stack));
        *out = round_of(m, stack, &l->b->call->inputs[i], round);
        return m->status;
    }
    counts(l, i, &start, &step);
    if (!m->status) *out = plus(m, times(m, round, (double)step), (double)start);
    *out = convert(m, *out, l->b->call->inputs[i].dtype);
    return m->status;
}

/* From the last round to the first. */
static shoal_status make_backward(loop *l) {
    building w;
    const graph_backward *b = l->b;
    base_arena *arena = graph_arena(b->g);
    uint32_t done, first, n = 0;
    uint32_t *inside = base_arena_array(arena, uint32_t, (size_t)l->n + l->n_active);
    uint32_t *next = base_arena_array(arena, uint32_t, l->n_active);
    if (!inside || !next) return SHOAL_NO_MEMORY;
    SHOAL_TRY(begin(l, 2 * (size_t)l->n + 1, &w));
    SHOAL_TRY(carry_round(l, &w, &done));
    maker outside = {b->g, SHOAL_OK};
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->active[i]) continue;
        uint32_t seed = b->seeds[i];
        if (seed == GRAPH_NO_VALUE) seed = splat(&outside, b->call->inputs[i], 0);
        SHOAL_TRY(outside.status);
        SHOAL_TRY(carry(l, &w, seed, &inside[l->n + n++]));
    }
    uint32_t last = splat(&w.m, (shoal_type){.dtype = SHOAL_I64}, (double)(l->rounds - 1));
    uint32_t round = two(&w.m, GRAPH_SUBTRACT, last, done);
    for (uint32_t i = 0; i < l->n; i++) {
        inside[i] = GRAPH_NO_VALUE;
        SHOAL_TRY(recall(l, &w, i, round, &inside[i]));
    }
    SHOAL_TRY(graph_append(l->back, inside, l->results, n, w.body, next));
    memcpy(w.results + 1, next, n * sizeof *next);
    SHOAL_TRY(finish(l, &w, &first));
    n = 0;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->active[i]) b->gradients[i] = first + 1 + n++;
    return SHOAL_OK;
}

GRADIENT(while) {
    const graph_call *call = b->call;
    loop l = {.b = b, .condition = call->regions[0], .body = call->regions[1], .n = call->n_inputs};
    l.stays = flags(&l);
    if (!l.stays) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < l.n; i++) l.stays[i] = l.body->outputs[i] == l.body->inputs[i];
    if (!count_rounds(&l, &l.rounds))
        return base_fail(SHOAL_UNSUPPORTED,
                         "how often it goes round does not follow from constants; what counts in "
                         "equal steps from one whole number to another has a gradient");
    if (!l.rounds) {
        for (uint32_t i = 0; i < l.n; i++) b->gradients[i] = b->seeds[i];
        return SHOAL_OK;
    }
    SHOAL_TRY(find_active(&l));
    if (!l.n_active) return SHOAL_OK;
    SHOAL_TRY(make_back(&l));
    SHOAL_TRY(find_kept(&l));
    SHOAL_TRY(make_forward(&l));
    return make_backward(&l);
}
