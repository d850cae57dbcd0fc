/* The order of a finished draft's steps, which is that of every program: where exchanges stand.
 *
 * A slot starts the sends of an exchange when it comes to it and waits when something reads what it
 * brings, so an exchange should stand well before that. But each stands between two parts of
 * computing, which are then two programs for a device. So exchanges that are ready are gathered,
 * and stand together: before the first step that reads one of them, or where enough has come
 * together to keep the links busy for a while. Those of the graph's inputs, which are all ready at
 * the start, follow each other so that as much as that is on its way ahead of who reads it. */
#include "plan/draft.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A batch takes a link this many times its delay. */
static const double BATCH_DELAYS = 2;

/* An exchange of an input. */
typedef struct early {
    uint32_t step, reader;
} early;

typedef struct order {
    plan_draft *d;
    plan_step **from; /* as drafted */
    uint32_t n;
    uint32_t *reader; /* per step: of an exchange, the first computation that it is for; n: none */
    uint32_t *next;   /* per step: of an exchange, the next of the same maker, plus 1 */
    uint32_t *exchange; /* per step: of a computation, the first exchange of a result, plus 1 */
    bool *placed;
    BASE_VEC(early) early;      /* exchanges of inputs, by their readers */
    BASE_VEC(uint32_t) waiting; /* ready since a computation before */
    size_t n_early;             /* those that are placed */
    double ahead;               /* what those take that are placed and not yet read */
    double gathered;            /* what those take that wait */
} order;

/* What an exchange's bytes take, in batches; where nothing is lost by it, each is one by itself. */
static double transfer(const order *o, uint32_t i) {
    const plan_step *step = o->from[i];
    return step->delay > 0 ? plan_transfer(step) / (BATCH_DELAYS * step->delay) : 1;
}

/* Notes who makes each form, and whom each exchange is for. */
static void find_readers(order *o) {
    const shoal_graph *g = o->d->g;
    for (uint32_t i = 0; i < o->n; i++) {
        plan_step *step = o->from[i];
        o->reader[i] = o->n;
        step->drafted = i;
        if (!step->live) continue;
        if (plan_is_exchange(step))
            step->to->maker = i + 1;
        else
            for (uint32_t k = 0; k < g->nodes[step->node].n_outputs; k++)
                step->outputs[k]->maker = i + 1;
    }
    for (uint32_t i = o->n; i-- > 0;) {
        const plan_step *step = o->from[i];
        if (!step->live) continue;
        uint32_t n_inputs = plan_is_exchange(step) ? 1 : g->nodes[step->node].n_inputs;
        for (uint32_t k = 0; k < n_inputs; k++) {
            plan_form *form = plan_is_exchange(step) ? step->from : step->inputs[k];
            for (uint32_t p = 0; p < plan_n_parts(form); p++) {
                uint32_t maker = plan_part(form, p)->maker;
                if (maker) o->reader[maker - 1] = plan_is_exchange(step) ? o->reader[i] : i;
            }
        }
    }
}

/* The computation behind which an exchange may stand, plus 1, by way of other exchanges; 0: it may
 * stand at the beginning. */
static uint32_t root_of(const order *o, const plan_step *step) {
    uint32_t last = 0;
    for (uint32_t p = 0; p < plan_n_parts(step->from); p++) {
        uint32_t maker = plan_part(step->from, p)->maker, root = maker;
        if (maker && plan_is_exchange(o->from[maker - 1])) root = root_of(o, o->from[maker - 1]);
        last = root > last ? root : last;
    }
    return last;
}

static int by_reader(const void *a, const void *b) {
    const early *x = a, *y = b;
    if (x->reader != y->reader) return x->reader < y->reader ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Lists the exchanges of inputs by their readers, and links those of each computation to it. */
static shoal_status sort_exchanges(order *o) {
    for (uint32_t i = o->n; i-- > 0;) {
        const plan_step *step = o->from[i];
        if (!step->live || !plan_is_exchange(step)) continue;
        uint32_t root = root_of(o, step), maker = step->from->maker;
        bool in_parts = plan_n_parts(step->from) > 1;
        if (!in_parts && (!maker || (step->whole && !root))) {
            early e = {i, o->reader[i]};
            if (!base_vec_push(&o->early, e)) return SHOAL_NO_MEMORY;
        } else if (in_parts ? root > 0 : !plan_is_exchange(o->from[maker - 1])) {
            maker = in_parts ? root : maker;
            o->next[i] = o->exchange[maker - 1];
            o->exchange[maker - 1] = i + 1;
        }
    }
    if (o->early.count) qsort(o->early.data, o->early.count, sizeof *o->early.data, by_reader);
    return SHOAL_OK;
}

static shoal_status place(order *o, uint32_t i);

/* Places all exchanges that bring a form. */
static shoal_status place_makers(order *o, plan_form *form) {
    for (uint32_t p = 0; p < plan_n_parts(form); p++) {
        uint32_t maker = plan_part(form, p)->maker;
        if (!maker || !plan_is_exchange(o->from[maker - 1])) continue;
        const plan_joint *joint = o->from[maker - 1]->joint;
        for (uint32_t k = 0; joint && k < joint->n; k++)
            SHOAL_TRY(place(o, joint->steps[k]->drafted));
        SHOAL_TRY(place(o, maker - 1));
    }
    return SHOAL_OK;
}

/* Places an exchange, behind those that bring its operand. */
static shoal_status place(order *o, uint32_t i) {
    if (o->placed[i]) return SHOAL_OK;
    o->placed[i] = true;
    plan_step *step = o->from[i];
    SHOAL_TRY(place_makers(o, step->from));
    if (!step->from->maker) o->ahead += transfer(o, i);
    return base_vec_push(&o->d->steps, step) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static shoal_status place_waiting(order *o) {
    for (size_t i = 0; i < o->waiting.count; i++) SHOAL_TRY(place(o, o->waiting.data[i]));
    o->waiting.count = 0;
    o->gathered = 0;
    return SHOAL_OK;
}

/* Exchanges of inputs, until as much is on its way as is in two batches; the panels of an operand
 * follow each other, as what stands before them must not delay those who pass them on. */
static shoal_status place_early(order *o) {
    bool panels = false;
    for (; o->n_early < o->early.count; o->n_early++) {
        uint32_t i = o->early.data[o->n_early].step;
        if (o->ahead >= 2 && !(panels && o->from[i]->whole)) break;
        panels = o->from[i]->whole;
        SHOAL_TRY(place(o, i));
    }
    return SHOAL_OK;
}

/* What has to stand before computation i, and may as well. */
static shoal_status place_before(order *o, uint32_t i) {
    const plan_step *step = o->from[i];
    bool urgent = false, reads_early = false;
    for (uint32_t k = 0; k < o->d->g->nodes[step->node].n_inputs; k++) {
        size_t before = o->d->steps.count;
        SHOAL_TRY(place_makers(o, step->inputs[k]));
        urgent |= o->d->steps.count > before;
        uint32_t maker = step->inputs[k]->maker;
        if (!maker || plan_n_parts(step->inputs[k]) > 1) continue;
        if (!plan_is_exchange(o->from[maker - 1])) continue;
        if (o->from[maker - 1]->from->maker || o->reader[maker - 1] != i) continue;
        o->reader[maker - 1] = o->n; /* counted */
        o->ahead = fmax(0, o->ahead - transfer(o, maker - 1));
        reads_early = true;
    }
    if (urgent) SHOAL_TRY(place_waiting(o));
    if (urgent || (reads_early && o->ahead < 1)) SHOAL_TRY(place_early(o));
    return SHOAL_OK;
}

/* A computation behind the last exchange, and the last exchange that it depends on. */
typedef struct late {
    plan_step *step;
    uint32_t after, at;
} late;

static int by_exchange(const void *a, const void *b) {
    const late *x = a, *y = b;
    if (x->after != y->after) return x->after < y->after ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* What is computed behind all exchanges comes in the order of those that it depends on, so that
 * much is done while the last are on their way. What depends on another comes no earlier than that.
 */
static shoal_status sort_tail(order *o) {
    plan_step **steps = o->d->steps.data;
    uint32_t first = (uint32_t)o->d->steps.count, count = first;
    while (first && !plan_is_exchange(steps[first - 1])) first--;
    uint32_t *after = base_arena_array(&o->d->arena, uint32_t, o->n); /* by number as drafted */
    late *tail = base_arena_array(&o->d->arena, late, count - first);
    if (!after || !tail) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < first; i++)
        if (plan_is_exchange(steps[i])) after[steps[i]->to->maker - 1] = i + 1;
    for (uint32_t i = first; i < count; i++) {
        const shoal_node *node = &o->d->g->nodes[steps[i]->node];
        uint32_t last = 0;
        for (uint32_t k = 0; k < node->n_inputs; k++) {
            for (uint32_t p = 0; p < plan_n_parts(steps[i]->inputs[k]); p++) {
                uint32_t maker = plan_part(steps[i]->inputs[k], p)->maker;
                if (maker && after[maker - 1] > last) last = after[maker - 1];
            }
        }
        for (uint32_t k = 0; k < node->n_outputs; k++)
            after[steps[i]->outputs[k]->maker - 1] = last;
        tail[i - first] = (late){steps[i], last, i};
    }
    if (count > first) qsort(tail, count - first, sizeof *tail, by_exchange);
    for (uint32_t i = first; i < count; i++) steps[i] = tail[i - first].step;
    return SHOAL_OK;
}

static shoal_status run(order *o) {
    find_readers(o);
    SHOAL_TRY(sort_exchanges(o));
    SHOAL_TRY(place_early(o));
    for (uint32_t i = 0; i < o->n; i++) {
        const plan_step *step = o->from[i];
        if (!step->live || plan_is_exchange(step)) continue;
        SHOAL_TRY(place_before(o, i));
        if (!base_vec_push(&o->d->steps, o->from[i])) return SHOAL_NO_MEMORY;
        for (uint32_t e = o->exchange[i]; e; e = o->next[e - 1]) {
            if (!base_vec_push(&o->waiting, e - 1)) return SHOAL_NO_MEMORY;
            o->gathered += transfer(o, e - 1);
        }
        if (o->waiting.count && o->gathered >= 1) SHOAL_TRY(place_waiting(o));
    }
    for (uint32_t i = 0; i < o->n; i++)
        if (o->from[i]->live && plan_is_exchange(o->from[i])) SHOAL_TRY(place(o, i));
    return sort_tail(o);
}

shoal_status plan_order(plan_draft *d) {
    order o = {.d = d, .from = d->steps.data, .n = (uint32_t)d->steps.count};
    memset(&d->steps, 0, sizeof d->steps);
    o.reader = base_arena_array(&d->arena, uint32_t, o.n);
    o.next = base_arena_array(&d->arena, uint32_t, o.n);
    o.exchange = base_arena_array(&d->arena, uint32_t, o.n);
    o.placed = base_arena_array(&d->arena, bool, o.n);
    shoal_status status = o.reader && o.next && o.exchange && o.placed ? run(&o) : SHOAL_NO_MEMORY;
    free(o.from);
    free(o.early.data);
    free(o.waiting.data);
    return status;
}
