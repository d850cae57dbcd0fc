/* How long the steps of a plan take when what can go on at once does: each slot computes one after
 * another in the order of its program, each peer sends and receives one box after another, and a
 * step begins when what it reads is there. And no sooner than the cores of each machine are through
 * with what its slots compute and its links encrypt. */
#include "plan/draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct stretch {
    double begin, end;
} stretch;

/* When one side of a peer's links is in use: in order, with gaps between. */
typedef struct line {
    BASE_VEC(stretch) used;
} line;

typedef struct timing {
    plan_draft *d;
    double *busy;   /* per place in the pool: the slot computes until then, */
    double *worked; /* per place: seconds that the slot computes */
    double *sealed; /* per first slot of a peer: seconds of a core that its links take */
    line *out, *in; /* the same: what it sends and receives */
    double end;
} timing;

/* Uses the first gap that is long enough; *end: when it is over. */
static shoal_status use(line *l, double from, double seconds, double *end) {
    size_t at = 0;
    double begin = from;
    for (; at < l->used.count && l->used.data[at].begin < begin + seconds; at++)
        begin = fmax(begin, l->used.data[at].end);
    *end = begin + seconds;
    if (at && l->used.data[at - 1].end >= begin) { /* it goes on */
        l->used.data[at - 1].end = *end;
        return SHOAL_OK;
    }
    if (!base_vec_push(&l->used, ((stretch){begin, *end}))) return SHOAL_NO_MEMORY;
    for (size_t i = l->used.count - 1; i > at; i--) l->used.data[i] = l->used.data[i - 1];
    l->used.data[at] = (stretch){begin, *end};
    return SHOAL_OK;
}

static shoal_status times_of(timing *c, plan_form *form, double **out) {
    if (!form->at) form->at = base_arena_array(&c->d->arena, double, form->layout.n_slots);
    *out = form->at;
    return form->at ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* When the slot with index i has a form. */
static double there(const plan_form *form, uint32_t i) {
    double last = form->at ? form->at[i] : 0;
    for (uint32_t p = 0; p < plan_n_parts(form); p++) {
        const plan_form *part = plan_part((plan_form *)form, p);
        if (part->at) last = fmax(last, part->at[i]);
    }
    return last;
}

static shoal_status compute(timing *c, const plan_step *step) {
    const shoal_node *node = &c->d->g->nodes[step->node];
    for (uint32_t i = 0; i < step->division.n_slots; i++) {
        bool needed = false;
        for (uint32_t o = 0; o < node->n_outputs; o++) needed |= step->outputs[o]->needed[i];
        if (!needed) continue;
        uint32_t at = plan_pool_index(c->d, step->division.slots[i]);
        double begin = c->busy[at];
        for (uint32_t k = 0; k < node->n_inputs; k++)
            begin = fmax(begin, there(step->inputs[k], i));
        double seconds = plan_work_seconds(&c->d->pool->slots[at], &step->work,
                                           plan_share(step->axes, &step->division, i));
        c->worked[at] += seconds;
        c->busy[at] = begin + seconds;
        c->end = fmax(c->end, c->busy[at]);
        for (uint32_t o = 0; o < node->n_outputs; o++) {
            double *times;
            SHOAL_TRY(times_of(c, step->outputs[o], &times));
            times[i] = c->busy[at];
        }
    }
    return SHOAL_OK;
}

/* Bytes go from one peer to another; what is known of the way back holds for it, too. */
static void seal(timing *c, uint32_t sender, uint32_t receiver, uint64_t bytes) {
    const plan_slot *from = &c->d->pool->slots[sender], *to = &c->d->pool->slots[receiver];
    const plan_link *link = plan_link_between(c->d, from->peer, to->peer);
    if (!link) link = plan_link_between(c->d, to->peer, from->peer);
    if (!link || !link->sealed) return;
    c->sealed[sender] += (double)bytes * from->per_byte;
    c->sealed[receiver] += (double)bytes * to->per_byte;
}

/* When the cores of a machine that its peers may use are through. Slots that have more threads in
 * all than there are cores were measured as if they had them. */
static double cores_through(const timing *c, uint64_t machine) {
    double worked = 0, threads = 0, sealed = 0, granted = 0, online = 1;
    for (uint32_t i = 0; i < c->d->pool->n_slots; i++) {
        const plan_slot *other = &c->d->pool->slots[i];
        if (other->machine != machine) continue;
        online = fmax(online, other->online);
        if (i == plan_first_slot(c->d, other->slot)) granted += other->cores;
        worked += c->worked[i] * other->threads;
        sealed += c->sealed[i];
        if (c->worked[i] > 0) threads += other->threads;
    }
    double cores = fmax(1, fmin(online, granted));
    if (threads > cores) worked *= cores / threads;
    return sealed > 0 ? (worked + sealed) / cores : 0;
}

static shoal_status exchange(timing *c, plan_step *step) {
    const shoal_type *type = &c->d->g->values[step->from->value].type;
    double *times;
    SHOAL_TRY(times_of(c, step->to, &times));
    for (size_t m = 0; m < step->moves.count; m++) {
        const plan_move *move = &step->moves.moves[m];
        SHOAL_TRY(plan_patience(c->d));
        uint32_t from = (uint32_t)plan_layout_find(&step->from->layout, move->from);
        uint32_t to = (uint32_t)plan_layout_find(&step->to->layout, move->to);
        if (!step->to->needed[to]) continue;
        double begin = there(step->from, from);
        if (move->from != move->to) {
            uint32_t sender = plan_first_slot(c->d, move->from);
            uint32_t receiver = plan_first_slot(c->d, move->to);
            double seconds, delay;
            uint64_t bytes;
            plan_moves one = {(plan_move *)move, 1};
            plan_moves_cost(c->d, &one, NULL, shoal_dtype_size((shoal_dtype)type->dtype), &seconds,
                            &delay, &bytes);
            seal(c, sender, receiver, bytes);
            double sent;
            SHOAL_TRY(use(&c->out[sender], begin, seconds - delay, &sent));
            SHOAL_TRY(use(&c->in[receiver], sent - (seconds - delay), seconds - delay, &begin));
            begin += delay;
        }
        times[to] = fmax(times[to], begin);
        c->end = fmax(c->end, begin);
    }
    return SHOAL_OK;
}

/* Also what an earlier count has found. */
static void nothing_has_come(const plan_draft *d) {
    for (size_t i = 0; i < d->steps.count; i++) {
        const plan_step *step = d->steps.data[i];
        uint32_t n = plan_is_exchange(step) ? 0 : d->g->nodes[step->node].n_outputs;
        if (plan_is_exchange(step)) step->to->at = NULL;
        for (uint32_t o = 0; o < n; o++) step->outputs[o]->at = NULL;
    }
}

static shoal_status run(timing *c) {
    nothing_has_come(c->d);
    for (size_t i = 0; i < c->d->steps.count; i++) {
        plan_step *step = c->d->steps.data[i];
        if (!step->live) continue;
        SHOAL_TRY(plan_is_exchange(step) ? exchange(c, step) : compute(c, step));
        base_arena_clear(&c->d->scratch);
    }
    return SHOAL_OK;
}

shoal_status plan_span(plan_draft *d, double *out) {
    uint32_t n = d->pool->n_slots;
    timing c = {.d = d};
    c.busy = base_arena_array(&d->arena, double, n);
    c.worked = base_arena_array(&d->arena, double, n);
    c.sealed = base_arena_array(&d->arena, double, n);
    c.out = base_arena_array(&d->arena, line, n);
    c.in = base_arena_array(&d->arena, line, n);
    bool memory = c.busy && c.worked && c.sealed && c.out && c.in;
    shoal_status status = memory ? run(&c) : SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n && c.out && c.in; i++) {
        free(c.out[i].used.data);
        free(c.in[i].used.data);
    }
    for (uint32_t i = 0; i < n && status == SHOAL_OK; i++)
        if (d->pool->slots[i].machine)
            c.end = fmax(c.end, cores_through(&c, d->pool->slots[i].machine));
    *out = c.end;
    return status;
}
