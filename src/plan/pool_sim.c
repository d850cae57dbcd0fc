/* See pool_sim.h: a node is run by the reference's kernel; then the pool around it. */
#include "plan/pool_sim.h"

#include "backend/ref/ref.h"
#include "base/vec.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sim_array_init(sim_array *array, const shoal_type *type) {
    array->type = *type;
    array->data = calloc((size_t)base_type_count(type) + 1, sizeof *array->data);
    assert(array->data);
}

void sim_array_fini(sim_array *array) {
    free(array->data);
    array->data = NULL;
}

/* ---- one node ---- */

static const int64_t *ints(const shoal_node *node, shoal_attr_key key, uint32_t *n) {
    const shoal_attr *attr = shoal_node_attr(node, key);
    if (n) *n = attr ? attr->count : 0;
    return attr ? attr->u.ints : NULL;
}

static void unravel(const shoal_type *type, int64_t index, int64_t *at) {
    for (uint32_t a = type->rank; a-- > 0; index /= type->dims[a]) at[a] = index % type->dims[a];
}

static int64_t ravel(const shoal_type *type, const int64_t *at) {
    int64_t index = 0;
    for (uint32_t a = 0; a < type->rank; a++) index = index * type->dims[a] + at[a];
    return index;
}

/* Elements as their type has them; to be freed. */
static void *to_bytes(const sim_array *array) {
    int64_t n = base_type_count(&array->type);
    char *bytes = calloc((size_t)n + 1, 8);
    assert(bytes);
    for (int64_t e = 0; e < n; e++) {
        ref_chunk one = {.d = {array->data[e]}};
        ref_convert_chunk(&one, REF_D, array->type.dtype, 1);
        ref_store(&one, array->type.dtype, bytes, e, 1);
    }
    return bytes;
}

static void from_bytes(const void *bytes, sim_array *array) {
    for (int64_t e = 0; e < base_type_count(&array->type); e++) {
        ref_chunk one;
        ref_load(&one, array->type.dtype, bytes, e, 1);
        ref_convert_chunk(&one, ref_class_of(array->type.dtype), SHOAL_F64, 1);
        array->data[e] = one.d[0];
    }
}

/* One node, by the reference's kernel. */
static void run_values(const shoal_graph *g, const shoal_node *node, sim_array *values) {
    void *in[64] = {0}, *out[8] = {0};
    assert(node->n_inputs <= 64 && node->n_outputs <= 8);
    for (uint32_t i = 0; i < node->n_inputs; i++) in[i] = to_bytes(&values[node->inputs[i]]);
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        sim_array *array = &values[node->first_output + o];
        sim_array_init(array, &g->values[node->first_output + o].type);
        out[o] = calloc((size_t)base_type_count(&array->type) + 1, 8);
        assert(out[o]);
    }
    ref_call call = {g, node, (const void *const *)in, out};
    ref_kernel kernel = ref_kernel_of(node->op);
    assert(kernel);
    shoal_status status = kernel(&call);
    assert(!status);
    for (uint32_t o = 0; o < node->n_outputs && !status; o++) {
        from_bytes(out[o], &values[node->first_output + o]);
        free(out[o]);
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) free(in[i]);
}

static void copy_array(sim_array *to, const sim_array *from) {
    sim_array_init(to, &from->type);
    memcpy(to->data, from->data, (size_t)base_type_count(&from->type) * sizeof *to->data);
}

static graph *primitives(const shoal_graph *g) {
    graph *out;
    shoal_status status = graph_new(0, &out);
    if (!status) status = graph_decompose(g, NULL, NULL, out);
    assert(!status);
    return out;
}

void sim_run(const shoal_graph *composite, const sim_array *inputs, sim_array *outputs) {
    graph *own = primitives(composite);
    const shoal_graph *g = graph_data(own);
    sim_array *values = calloc(g->n_values + 1, sizeof *values);
    assert(values);
    for (uint32_t i = 0; i < g->n_inputs; i++) copy_array(&values[g->inputs[i]], &inputs[i]);
    for (uint32_t n = 0; n < g->n_nodes; n++) run_values(g, &g->nodes[n], values);
    for (uint32_t o = 0; o < g->n_outputs; o++) copy_array(&outputs[o], &values[g->outputs[o]]);
    for (uint32_t v = 0; v < g->n_values; v++) sim_array_fini(&values[v]);
    free(values);
    graph_destroy(&own);
}

/* ---- the pool ---- */

/* A box on its way; both ends name it alike. */
typedef struct letter {
    int64_t channel, ordinal, from, to;
    double *data;
    int64_t count;
    bool taken;
} letter;

typedef struct machine {
    const plan_program *program;
    graph *own; /* the program's graph, without composites */
    const shoal_graph *g;
    sim_array *values;
    uint32_t at; /* the next node */
    bool sent;   /* it is an exchange, and has sent */
} machine;

typedef struct pool {
    machine *machines;
    uint32_t n;
    BASE_VEC(letter) letters;
    const char *problem;
} pool;

/* One move of an exchange, read from MOVES. */
typedef struct step {
    shoal_move move;
    base_box in, out;
} step;

static step read_move(const int64_t *at, uint32_t rank) {
    step s = {.move = {at[0], at[1], at[2], at[3]}, .in.rank = rank, .out.rank = rank};
    for (uint32_t a = 0; a < rank; a++) {
        s.in.start[a] = at[4 + a];
        s.out.start[a] = at[4 + rank + a];
        s.in.size[a] = s.out.size[a] = at[4 + 2 * rank + a];
    }
    return s;
}

static bool lies_in(const base_box *box, const shoal_type *type) {
    for (uint32_t a = 0; a < box->rank; a++)
        if (box->start[a] < 0 || box->size[a] < 0 || box->start[a] + box->size[a] > type->dims[a])
            return false;
    return true;
}

static bool send(pool *p, machine *m, int64_t channel, const step *s, const sim_array *from) {
    letter l = {.channel = channel,
                .ordinal = s->move.ordinal,
                .from = m->program->slot,
                .to = s->move.slot,
                .count = base_box_count(&s->in)};
    if (!lies_in(&s->in, &from->type)) return false;
    l.data = calloc((size_t)l.count + 1, sizeof *l.data);
    assert(l.data);
    base_box_gather(l.data, from->data, from->type.dims, &s->in, sizeof *l.data, 0,
                    (size_t)l.count * sizeof *l.data);
    for (size_t i = 0; i < p->letters.count; i++)
        if (p->letters.data[i].channel == channel && p->letters.data[i].ordinal == l.ordinal)
            p->problem = "an ordinal is used twice";
    bool fine = base_vec_push(&p->letters, l);
    assert(fine);
    return fine;
}

static letter *find_letter(pool *p, const machine *m, int64_t channel, const step *s) {
    for (size_t i = 0; i < p->letters.count; i++) {
        letter *l = &p->letters.data[i];
        if (l->channel == channel && l->ordinal == s->move.ordinal && !l->taken &&
            l->from == s->move.slot && l->to == m->program->slot)
            return l;
    }
    return NULL;
}

/* Writes a received or local box; elements of results start as NaN and are written once. */
static bool deliver(sim_array *to, const base_box *box, const double *stream) {
    int64_t n = base_box_count(box);
    if (!lies_in(box, &to->type)) return false;
    double *before = calloc((size_t)n + 1, sizeof *before);
    assert(before);
    base_box_gather(before, to->data, to->type.dims, box, sizeof *before, 0,
                    (size_t)n * sizeof *before);
    bool fresh = true;
    for (int64_t e = 0; e < n; e++) fresh = fresh && isinf(before[e]) && before[e] < 0;
    free(before);
    base_box_scatter(to->data, stream, to->type.dims, box, sizeof *stream, 0,
                     (size_t)n * sizeof *stream);
    return fresh;
}

static bool take(machine *m, const shoal_node *node, const step *s, letter *l) {
    sim_array *to = &m->values[node->first_output + s->move.output];
    if (s->move.output < 0 || s->move.output >= node->n_outputs) return false;
    if (s->move.kind == SHOAL_MOVE_RECEIVE) {
        l->taken = true;
        return l->count == base_box_count(&s->out) && deliver(to, &s->out, l->data);
    }
    const sim_array *from = &m->values[node->inputs[0]];
    int64_t n = base_box_count(&s->in);
    double *stream = calloc((size_t)n + 1, sizeof *stream);
    assert(stream);
    bool fine = lies_in(&s->in, &from->type);
    if (fine)
        base_box_gather(stream, from->data, from->type.dims, &s->in, sizeof *stream, 0,
                        (size_t)n * sizeof *stream);
    fine = fine && deliver(to, &s->out, stream);
    free(stream);
    return fine;
}

/* Sends all, then receives all or waits. Returns whether the exchange is done. */
static bool exchange(pool *p, machine *m, const shoal_node *node) {
    uint32_t n;
    const int64_t *moves = ints(node, SHOAL_ATTR_MOVES, &n);
    int64_t channel = shoal_node_attr(node, SHOAL_ATTR_CHANNEL)->u.i;
    uint32_t rank = m->g->values[node->n_inputs ? node->inputs[0] : node->first_output].type.rank;
    uint32_t each = 4 + 3 * rank;
    for (uint32_t i = 0; i < n && !m->sent; i += each) {
        step s = read_move(moves + i, rank);
        if (s.move.kind == SHOAL_MOVE_SEND && !send(p, m, channel, &s, &m->values[node->inputs[0]]))
            p->problem = "a box that is sent lies outside";
    }
    m->sent = true;
    for (uint32_t i = 0; i < n; i += each) {
        step s = read_move(moves + i, rank);
        if (s.move.kind == SHOAL_MOVE_RECEIVE && !find_letter(p, m, channel, &s)) return false;
    }
    for (uint32_t o = 0; o < node->n_outputs; o++) {
        sim_array *to = &m->values[node->first_output + o];
        sim_array_init(to, &m->g->values[node->first_output + o].type);
        for (int64_t e = 0; e < base_type_count(&to->type); e++) to->data[e] = -INFINITY;
    }
    for (uint32_t i = 0; i < n; i += each) {
        step s = read_move(moves + i, rank);
        if (s.move.kind == SHOAL_MOVE_SEND) continue;
        letter *l = s.move.kind == SHOAL_MOVE_RECEIVE ? find_letter(p, m, channel, &s) : NULL;
        if (!take(m, node, &s, l)) p->problem = "an element is written twice or outside";
    }
    m->sent = false;
    return true;
}

/* Runs a machine until it waits or ends; whether it did anything. */
static bool advance(pool *p, machine *m) {
    uint32_t before = m->at;
    while (m->at < m->g->n_nodes && !p->problem) {
        const shoal_node *node = &m->g->nodes[m->at];
        bool had_sent = m->sent;
        if (node->op == GRAPH_EXCHANGE) {
            if (!exchange(p, m, node)) return m->at > before || !had_sent;
        } else {
            run_values(m->g, node, m->values);
        }
        m->at++;
    }
    return m->at > before;
}

graph *sim_program(const plan_program *program) {
    graph *out = NULL;
    shoal_status status = graph_decode(program->encoded.data, program->encoded.size, 0, &out);
    assert(status == SHOAL_OK);
    return out;
}

static void load(pool *p, const plan_result *result, const plan_layout *layouts,
                 const sim_array *inputs) {
    p->n = result->n_programs;
    p->machines = calloc(p->n + 1, sizeof *p->machines);
    assert(p->machines);
    for (uint32_t i = 0; i < p->n; i++) {
        machine *m = &p->machines[i];
        *m = (machine){.program = &result->programs[i]};
        graph *composite = sim_program(m->program);
        m->own = primitives(graph_data(composite));
        graph_destroy(&composite);
        m->g = graph_data(m->own);
        m->values = calloc(m->g->n_values + 1, sizeof *m->values);
        assert(m->values);
        for (uint32_t v = 0; v < m->g->n_inputs; v++) {
            uint32_t which = m->program->input_of[v];
            const plan_layout *layout = &layouts[which];
            int at = plan_layout_find(layout, m->program->slot);
            assert(at >= 0);
            base_box box = plan_layout_box(layout, (uint32_t)at);
            sim_array *to = &m->values[m->g->inputs[v]];
            sim_array_init(to, &m->g->values[m->g->inputs[v]].type);
            assert(base_type_count(&to->type) == base_box_count(&box));
            if (plan_layout_summand(layout, (uint32_t)at) > 0) continue; /* all in the first */
            base_box_gather(to->data, inputs[which].data, inputs[which].type.dims, &box,
                            sizeof *to->data, 0, (size_t)base_box_count(&box) * sizeof *to->data);
        }
    }
}

/* Puts the pieces of one output together; copies must be equal. */
static void gather_output(pool *p, const plan_layout *layout, uint32_t number, sim_array *out) {
    int64_t n = base_type_count(&out->type), seen = 0;
    bool *there = calloc((size_t)n + 1, sizeof *there);
    assert(there);
    for (uint32_t i = 0; i < layout->n_slots; i++) {
        const machine *m = NULL;
        const sim_array *piece = NULL;
        for (uint32_t k = 0; k < p->n; k++)
            if (p->machines[k].program->slot == layout->slots[i]) m = &p->machines[k];
        for (uint32_t o = 0; m && o < m->g->n_outputs; o++)
            if (m->program->output_of[o] == number) piece = &m->values[m->g->outputs[o]];
        base_box box = plan_layout_box(layout, i);
        if (!piece || base_type_count(&piece->type) != base_box_count(&box)) {
            p->problem = "a piece of an output is missing";
            break;
        }
        shoal_type type = plan_layout_type(layout, i, &out->type);
        for (int64_t e = 0; e < base_box_count(&box); e++) {
            int64_t at[SHOAL_MAX_RANK];
            unravel(&type, e, at);
            for (uint32_t a = 0; a < type.rank; a++) at[a] += box.start[a];
            int64_t index = ravel(&out->type, at);
            if (there[index] && memcmp(&out->data[index], &piece->data[e], sizeof(double)))
                p->problem = "copies differ";
            seen += !there[index];
            there[index] = true;
            out->data[index] = piece->data[e];
        }
    }
    if (!p->problem && seen != n) p->problem = "an output has holes";
    free(there);
}

static void unload(pool *p) {
    for (uint32_t i = 0; i < p->n; i++) {
        for (uint32_t v = 0; v < p->machines[i].g->n_values; v++)
            sim_array_fini(&p->machines[i].values[v]);
        free(p->machines[i].values);
        graph_destroy(&p->machines[i].own);
    }
    for (size_t i = 0; i < p->letters.count; i++) free(p->letters.data[i].data);
    free(p->letters.data);
    free(p->machines);
}

const char *sim_run_pool(const shoal_graph *g, const plan_result *result,
                         const plan_layout *layouts, const sim_array *inputs, sim_array *outputs) {
    pool p = {0};
    load(&p, result, layouts, inputs);
    bool moving = true;
    while (moving && !p.problem) {
        moving = false;
        for (uint32_t i = 0; i < p.n && !p.problem; i++) moving |= advance(&p, &p.machines[i]);
    }
    for (uint32_t i = 0; i < p.n && !p.problem; i++)
        if (p.machines[i].at < p.machines[i].g->n_nodes) p.problem = "a slot waits for ever";
    for (size_t i = 0; i < p.letters.count && !p.problem; i++)
        if (!p.letters.data[i].taken) p.problem = "something is sent that nobody receives";
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        sim_array_init(&outputs[o], &g->values[g->outputs[o]].type);
        if (!p.problem) gather_output(&p, &result->outputs[o], o, &outputs[o]);
    }
    unload(&p);
    return p.problem;
}
