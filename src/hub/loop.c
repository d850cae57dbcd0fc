/* Loops: a program that runs for many rounds as one instance. Its rounds have numbers of their own,
 * which the hub leaves free, and are otherwise the workers' business. A loop of which nobody can
 * ever see anything is ended: what comes behind it would wait for nothing.
 *
 * From round to round nothing may move but what the program itself exchanges: so what is carried
 * has the layout of the input that it becomes, and inputs from a client's memory move in before. */
#include "hub/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is asked ---- */

static shoal_status read_carry(const Shoal__Submit *submit, hub_program *program, bool *carried) {
    const shoal_type *outputs = program->types + program->n_inputs;
    for (uint32_t i = 0; i < program->n_inputs; i++) {
        uint32_t o = program->carry[i] = submit->carry[i];
        if (!o) continue;
        if (o > program->n_outputs || carried[o - 1] || program->home[o - 1] ||
            !base_type_equal(&program->types[i], &outputs[o - 1]))
            return base_fail(SHOAL_FORMAT,
                             "input %u of a loop cannot be output %u of the round "
                             "before",
                             i, o - 1);
        carried[o - 1] = true;
    }
    return SHOAL_OK;
}

bool hub_may_go_on(const shoal_graph *g) {
    for (uint32_t n = 0; n < g->n_nodes; n++)
        if (graph_may_go_on(&g->nodes[n])) return true;
    return false;
}

shoal_status hub_loop_read(const Shoal__Submit *submit, const shoal_graph *g,
                           hub_program *program) {
    const shoal_type *outputs = program->types + program->n_inputs;
    program->loops = submit->rounds > 0;
    program->unbounded = program->loops || hub_may_go_on(g);
    program->stop = submit->stop;
    if (!program->loops) return SHOAL_OK;
    if (submit->n_carry != program->n_inputs || submit->stop > program->n_outputs)
        return base_fail(SHOAL_FORMAT, "a loop that does not fit its program");
    if (submit->stop && (outputs[submit->stop - 1].dtype != SHOAL_BOOL ||
                         outputs[submit->stop - 1].rank || program->home[submit->stop - 1]))
        return base_fail(SHOAL_FORMAT, "output %u cannot end a loop", submit->stop - 1);
    program->carry = calloc((size_t)program->n_inputs + 1, sizeof *program->carry);
    bool *carried = calloc((size_t)program->n_outputs + 1, sizeof *carried);
    shoal_status status = program->carry && carried
                              ? read_carry(submit, program, carried)
                              : base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    if (status == SHOAL_OK && submit->stop && carried[submit->stop - 1])
        status = base_fail(SHOAL_FORMAT, "what ends a loop is carried");
    free(carried);
    return status;
}

shoal_status hub_loop_check(const Shoal__Submit *submit, const hub_program *program) {
    if (submit->rounds > HUB_MAX_ROUNDS || program->loops != (submit->rounds > 0))
        return base_fail(SHOAL_FORMAT, "a loop of %llu rounds; it may have 1 to %d",
                         (unsigned long long)submit->rounds, HUB_MAX_ROUNDS);
    return SHOAL_OK;
}

/* ---- moving in ---- */

shoal_status hub_loop_settle(hub *h, const hub_record *record) {
    const hub_peer *client = base_map_get(&h->sessions, record->session);
    hub_value **values = calloc((size_t)record->n_inputs + 1, sizeof *values);
    hub_program *program = NULL;
    hub_record *moving = NULL;
    uint32_t n = 0;
    if (!values) return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    for (uint32_t i = 0; client && i < record->n_inputs; i++) {
        hub_value *value = record->inputs[i];
        bool there = false;
        for (uint32_t k = 0; k < n; k++) there |= values[k] == value;
        if (!there && !value->absent && !value->data.size && value->status == SHOAL_OK &&
            hub_value_at_client(client, value))
            values[n++] = value;
    }
    shoal_status status = SHOAL_OK;
    if (n) status = hub_program_moving(h, record->session, values, n, false, &program);
    if (status == SHOAL_OK && n) status = hub_record_new(h, program, values, NULL, &moving);
    if (status == SHOAL_OK && n) status = hub_instance_start(h, moving, HUB_REMADE, false);
    if (moving)
        hub_record_release(h, moving);
    else if (program)
        hub_program_free(program);
    free(values);
    return status;
}

/* ---- lowering ---- */

/* Whole on all slots that have a part in a plan, or, all: that compute; and in the client's memory.
 */
static shoal_status on_all(const plan_result *plan, const plan_pool *pool, bool all,
                           base_arena *arena, plan_layout *out) {
    uint32_t *slots = base_arena_array(arena, uint32_t, pool->n_slots), n = 0;
    if (!slots) return SHOAL_NO_MEMORY;
    for (uint32_t s = 0; s < pool->n_slots; s++) {
        bool takes_part = !pool->slots[s].compute || all;
        for (uint32_t i = 0; i < plan->n_programs; i++)
            takes_part |= plan->programs[i].slot == pool->slots[s].slot;
        if (takes_part) slots[n++] = pool->slots[s].slot;
    }
    return plan_layout_whole(arena, 0, NULL, slots, n, out);
}

static bool covers(const plan_result *plan, const plan_layout *layout) {
    for (uint32_t i = 0; i < plan->n_programs; i++)
        if (plan_layout_find(layout, plan->programs[i].slot) < 0) return false;
    return true;
}

/* What cannot be as it has to. */
static shoal_status check(const hub_program *program, const plan_layout *inputs,
                          const plan_layout *stop, const plan_result *plan) {
    for (uint32_t i = 0; i < program->n_inputs; i++)
        if (program->carry[i] &&
            !plan_layout_equal(&inputs[i], &plan->outputs[program->carry[i] - 1]))
            return base_fail(SHOAL_UNSUPPORTED,
                             "input %u of a loop lies in a way in which no "
                             "result can: place it anew before",
                             i);
    if (stop && !covers(plan, stop))
        return base_fail(SHOAL_INTERNAL, "a slot of a loop cannot know when it ends");
    return SHOAL_OK;
}

shoal_status hub_loop_lower(const hub_program *program, const shoal_graph *g, const plan_pool *pool,
                            const plan_layout *inputs, const plan_layout **wanted,
                            base_arena *arena, plan_result *out) {
    for (uint32_t i = 0; i < program->n_inputs; i++)
        if (program->carry[i]) wanted[program->carry[i] - 1] = &inputs[i];
    SHOAL_TRY(plan_lower(g, pool, inputs, wanted, out));
    plan_layout stop;
    shoal_status status = SHOAL_OK;
    /* Who takes part is known now; on others the plan may only fall back on all. */
    for (int all = 0; program->stop && all < 2 && status == SHOAL_OK; all++) {
        status = on_all(out, pool, all, arena, &stop);
        wanted[program->stop - 1] = &stop;
        plan_result_fini(out);
        if (status == SHOAL_OK) status = plan_lower(g, pool, inputs, wanted, out);
        if (status != SHOAL_OK) {
            *out = (plan_result){0};
            return status;
        }
        if (covers(out, &stop)) break;
    }
    return check(program, inputs, program->stop ? &stop : NULL, out);
}

/* ---- handing out ---- */

uint32_t hub_loop_ahead(const hub *h, const plan_result *plan, const uint64_t *needs) {
    enum { BYTES = 16 << 20, MOST = 32, SHARE = 16 };
    uint64_t rounds = plan->bytes_moved ? BYTES / plan->bytes_moved : MOST;
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const hub_slot *slot = hub_slot_of(h, plan->programs[i].slot);
        uint64_t exchanged = plan->programs[i].exchanged;
        if (!slot || !slot->memory || !exchanged) continue;
        uint64_t taken = slot->used + slot->reserved + needs[i];
        uint64_t room = slot->memory > taken ? slot->memory - taken : 0;
        uint64_t most = slot->memory / SHARE < room ? slot->memory / SHARE : room;
        if (most / exchanged < rounds) rounds = most / exchanged;
    }
    return rounds < 1 ? 1 : rounds > MOST ? MOST : (uint32_t)rounds;
}

/* What is carried on a slot from a round to the next. */
static uint64_t carried(const hub_program *loop, const plan_result *plan, uint32_t i) {
    const plan_program *program = &plan->programs[i];
    const shoal_type *outputs = loop->types + loop->n_inputs;
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < program->n_inputs; k++) {
        uint32_t o = loop->carry[program->input_of[k]];
        int at = o ? plan_layout_find_from(&plan->outputs[o - 1], program->slot, i) : -1;
        if (at < 0) continue;
        shoal_type type = plan_layout_type(&plan->outputs[o - 1], (uint32_t)at, &outputs[o - 1]);
        bytes += (uint64_t)base_type_bytes(&type);
    }
    return bytes;
}

/* A round reads what the one before it made, which was the loop's operands at first: those that it
 * is given make room. What was sent may be on its way yet, and data of rounds to come be there. Of
 * one round, whose exchanges wait for each other, that is in all no more than the round has. */
shoal_status hub_loop_needs(const hub *h, hub_instance *loop) {
    const plan_result *plan = &loop->variant->plan;
    uint64_t *given = calloc(plan->n_programs + 1, sizeof *given);
    if (!given) return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    hub_donations_carried(h, loop, given);
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        uint64_t bytes = carried(loop->program, plan, i);
        loop->needs[i] += bytes - (given[i] < bytes ? given[i] : bytes);
    }
    free(given);
    loop->ahead = hub_loop_ahead(h, plan, loop->needs);
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const plan_program *program = &plan->programs[i];
        uint64_t need = loop->needs[i] + loop->ahead * program->exchanged;
        loop->needs[i] = loop->ahead > 1 || need < 2 * program->peak ? need : 2 * program->peak;
    }
    return SHOAL_OK;
}

shoal_status hub_loop_part(const hub_program *loop, const plan_program *program, base_arena *arena,
                           Shoal__SlotRun *part) {
    part->carry = base_arena_array(arena, uint32_t, program->n_inputs);
    if (!part->carry) return SHOAL_NO_MEMORY;
    part->n_carry = program->n_inputs;
    for (uint32_t o = 0; o < program->n_outputs; o++) {
        for (uint32_t i = 0; i < program->n_inputs; i++)
            if (loop->carry[program->input_of[i]] == program->output_of[o] + 1)
                part->carry[i] = o + 1;
        if (loop->stop == program->output_of[o] + 1) part->stop = o + 1;
    }
    return SHOAL_OK;
}

/* Marks the client's numbers of first outputs. A session has no more loops than HUB_MAX_WAITING. */
static bool list_cancelled(const uint64_t *values, size_t n, base_map *out) {
    for (size_t k = 0; k < n && k < HUB_MAX_WAITING; k++)
        if (values[k] && base_map_set(out, values[k], out) != SHOAL_OK) return false;
    return true;
}

void hub_loops_cancel(hub *h, const hub_peer *peer, const uint64_t *values, size_t n) {
    base_map cancelled;
    base_map_init(&cancelled);
    if (!list_cancelled(values, n, &cancelled))
        base_log(BASE_WARN, "hub", "loops are not cancelled: %s", shoal_error_message());
    bool any = false;
    for (hub_instance *i = n ? h->first : NULL; i; i = i->next) {
        if (i->session != peer->session || !i->program->loops) continue;
        /* It was begun anew since, or is through, and is made again for what was lost of it. */
        if (!hub_instance_runs(i) || i->purpose != HUB_ASKED) continue;
        if (!i->first || !base_map_remove(&cancelled, i->first)) continue;
        hub_instance_fail(h, i, SHOAL_INTERRUPTED, "the loop was cancelled");
        any = true;
    }
    if (any) hub_settle_ended(h);
    base_map_fini(&cancelled);
}

/* ---- what nobody needs ---- */

/* An instance, and what it reads for what was held of it when that was looked up. */
typedef struct looked {
    hub_instance *i;
    bool *held, *reads; /* NULL: it was not */
    bool goes_on;
    bool less; /* it may begin anew with that alone */
} looked;

typedef BASE_VEC(looked) instances;

static const char UNHELD[] = "nobody holds what it makes";

static bool may_go_on(const hub_instance *i) {
    return i->program->unbounded && i->record && hub_instance_runs(i);
}

/* What may have no end and nobody needs. */
static bool is_dropped(const hub_instance *i) { return i->unneeded && may_go_on(i); }

/* What a loop that failed still makes is what comes home of the rounds before; of one that failed a
 * check no record is left. */
static bool comes_home(const hub *h, const hub_instance *i) {
    for (uint32_t o = 0; o < i->program->n_outputs; o++) {
        if (!i->program->home[o]) continue;
        const hub_value *value = base_map_get(&h->values, i->output_ids[o]);
        if (value && !value->released) return true;
    }
    return false;
}

/* Whether a client, a record beside those of instances, or a needed instance has it. */
static bool is_held(const hub_value *value) {
    return !value->released || value->needed || value->holds > value->reads;
}

/* Something made again that nobody reads now: it can be made again once more. Who makes the way
 * back of something counts as no reader, and is one where it is needed itself. */
static bool is_idle(const hub_instance *instance) {
    bool reads = instance->purpose != HUB_REMADE || instance->status != SHOAL_OK;
    for (uint32_t o = 0; o < instance->record->n_outputs; o++)
        reads |= instance->outputs[o]->reads || instance->outputs[o]->needed;
    return !reads;
}

/* Whether somebody has what it makes. Who reads what is made again may also be before it, and have
 * what was there before. */
static bool is_for(const hub_value *value, const hub_instance *instance) {
    return is_held(value) || (instance->purpose == HUB_REMADE && value->may_be);
}

/* What only moves gives its inputs to who reads them behind it. */
static bool gives_something(const hub_instance *instance) {
    const hub_record *record = instance->record;
    bool gives = false, idle = is_idle(instance);
    for (uint32_t o = 0; o < record->n_outputs; o++) {
        const hub_value *value = instance->outputs[o];
        gives |= idle ? !value->released : is_for(value, instance);
    }
    for (uint32_t n = 0; instance->program->moves && n < record->n_inputs; n++)
        gives |= record->inputs[n]->needed;
    return gives;
}

/* Marks the outputs that somebody has; how many those are. */
static uint32_t find_held(const hub_instance *instance, bool *held) {
    uint32_t n = 0;
    for (uint32_t o = 0; o < instance->record->n_outputs; o++)
        n += held[o] = is_for(instance->outputs[o], instance);
    return n;
}

/* Whether it may be under way for something that it could begin anew without: a loop could not, nor
 * what is made again by itself. What is made again beside the run that is awaited begins anew with
 * that. */
static bool may_do_with_less(const hub_instance *i) {
    bool waits = i->program->unbounded;
    if (i->status != SHOAL_OK || !i->record->awaited || i->program->loops) return false;
    for (uint32_t n = 0; n < i->record->n_inputs && !waits; n++)
        waits = !i->record->inputs[n]->counted;
    return waits;
}

/* Bytes of graphs that are decoded at a time to find what is read for nothing: others of the pool
 * wait meanwhile. */
enum { MOST_DECODED = 1 << 20 };

/* What cannot begin anew stays as it is, and so does what it reads: all of that is needed. */
static void keep_as_it_is(hub_instance *i) {
    i->unneeded = false;
    for (uint32_t n = 0; n < i->record->n_inputs; n++)
        i->record->inputs[n]->needed = i->record->inputs[n]->stays = true;
}

static bool has_to_stay(const hub_instance *i) {
    bool has = i->stays;
    for (uint32_t o = 0; o < i->record->n_outputs; o++) has |= i->outputs[o]->stays;
    for (uint32_t m = 0; i->variant && m < i->variant->n_moved; m++)
        has |= i->record->inputs[i->variant->moved[m][0]]->stays; /* which comes with it */
    return has && hub_instance_runs(i);
}

/* Looks up what is read for what is held, as far as the budget goes; `held` is the callee's. */
static void look_up(looked *l, bool *held, size_t *budget) {
    const hub_record *record = l->i->record;
    uint32_t n_held = record->n_outputs, n_read = record->n_inputs;
    bool known = l->held && !memcmp(l->held, held, n_held * sizeof *held);
    const bool *reads = NULL;
    if (!known && *budget) reads = hub_rest_reads(record->program, held, budget, &l->goes_on);
    bool *copy = reads ? malloc((n_read + (size_t)1) * sizeof *copy) : NULL;
    l->less = known || copy;
    if (copy) {
        memcpy(copy, reads, n_read * sizeof *copy);
        free(l->held);
        free(l->reads);
        l->held = held;
        l->reads = copy;
    } else {
        free(held);
    }
}

/* What an instance reads for what is needed of it: what only moves, for who reads the same behind
 * it. budget: it may begin anew without what it reads for nothing, and without what may have no end
 * and is made for nothing, as far as this goes. */
static void note_needed(looked *l, size_t *budget) {
    hub_instance *i = l->i;
    const hub_record *record = i->record;
    i->unneeded = !hub_instance_runs(i) || !gives_something(i);
    bool *held = calloc((size_t)record->n_outputs + 1, sizeof *held);
    uint32_t n_held = held ? find_held(i, held) : 0;
    if (n_held && n_held < record->n_outputs && may_do_with_less(i))
        look_up(l, held, budget);
    else
        free(held);
    i->record->shed |= l->less && i->purpose == HUB_ASKED && i->program->unbounded && !l->goes_on;
    for (uint32_t n = 0; !i->program->moves && n < record->n_inputs; n++)
        record->inputs[n]->needed |= !i->unneeded && (!l->less || l->reads[n]);
}

typedef void value_act(hub_value *value);

static void each_value(const instances *list, value_act *act) {
    for (size_t k = 0; k < list->count; k++) {
        const hub_instance *i = list->data[k].i;
        for (uint32_t n = 0; n < i->record->n_inputs; n++) act(i->record->inputs[n]);
        for (uint32_t o = 0; o < i->record->n_outputs; o++) act(i->outputs[o]);
    }
}

static void forget_reads(hub_value *value) {
    value->reads = 0;
    value->needed = false;
}

static void keep_needed(hub_value *value) { value->may_be = value->needed; }

static void forget_needed(hub_value *value) { value->needed = value->anew = value->stays = false; }

/* Whether its record is also the way back of something that is there, and that somebody has. */
static bool is_way_back(const hub_instance *i) {
    bool is = false;
    for (uint32_t o = 0; o < i->record->n_outputs; o++) {
        const hub_value *value = i->record->outputs[o];
        is |= value && value != i->outputs[o] && (!value->released || value->holds);
    }
    return is;
}

/* Counts the reads of each value that are for what is made now, of all at first: who was dropped
 * may be listed before what was begun anew since. */
static void count_reads(const instances *list) {
    each_value(list, forget_reads);
    for (size_t k = 0; k < list->count; k++)
        list->data[k].i->record->read = list->data[k].i->record->awaited = false;
    for (size_t k = 0; k < list->count; k++) {
        const hub_instance *i = list->data[k].i;
        hub_record *record = i->record;
        bool counts = !record->read && !is_way_back(i); /* it may be made again meanwhile */
        for (uint32_t n = 0; n < record->n_inputs; n++) {
            record->inputs[n]->reads += counts;
            record->inputs[n]->needed = true;
        }
        record->read = true;
        record->awaited |= i->purpose == HUB_ASKED && hub_instance_runs(i);
    }
}

/* Whether less is needed of what is made again than seemed so. */
static bool less_needed(const instances *list) {
    bool less = false;
    for (size_t k = 0; k < list->count; k++) {
        const hub_instance *i = list->data[k].i;
        for (uint32_t o = 0; i->purpose == HUB_REMADE && o < i->record->n_outputs; o++)
            less |= i->outputs[o]->may_be && !i->outputs[o]->needed;
    }
    return less;
}

/* From the last on: who is needed and reads what another makes is behind it. Only of what is made
 * again who reads it may be before it: that is needed as the time before. */
static void find_unneeded(const instances *list, size_t *budget) {
    enum { MOST = 8 };
    count_reads(list);
    for (int times = 0; times < MOST && (!times || less_needed(list)); times++) {
        each_value(list, keep_needed);
        each_value(list, forget_needed);
        for (size_t k = 0; k < list->count; k++) list->data[k].i->record->shed = false;
        for (size_t k = list->count; k-- > 0;) {
            looked *l = &list->data[k];
            l->less = false;
            if (has_to_stay(l->i))
                keep_as_it_is(l->i);
            else
                note_needed(l, budget);
        }
    }
}

/* Whether one that begins anew has what it reads for what is needed: operands that were given away
 * are gone. */
static bool has_operands(const hub *h, const looked *l, hub_ways *ways) {
    const hub_instance *i = l->i;
    for (uint32_t n = 0; !i->unneeded && n < i->record->n_inputs; n++) {
        const hub_value *value = i->record->inputs[n];
        bool reads = i->program->moves ? value->needed : !l->less || l->reads[n];
        bool gone = reads && value->absent && !value->anew;
        if (gone && !hub_can_recover(h, value, ways)) return false;
    }
    return true;
}

/* What an instance that is dropped or begins anew takes along; false: it has not what it needs. */
static bool begins_anew(const hub *h, const looked *l, hub_ways *ways) {
    const hub_instance *i = l->i;
    const hub_record *record = i->record;
    for (uint32_t o = 0; o < record->n_outputs; o++) i->outputs[o]->anew = true;
    for (uint32_t m = 0; i->variant && m < i->variant->n_moved; m++)
        record->inputs[i->variant->moved[m][0]]->anew = true; /* it comes with another */
    return has_operands(h, l, ways);
}

/* Whether all that is needed and begins anew, as something that it reads is dropped or begins anew,
 * has its operands; what has not is marked to stay. From the first on, and again: what is made
 * again takes the awaited run of its record along, which is before it. */
static bool can_begin_anew(const hub *h, const instances *list) {
    hub_ways ways = {0};
    bool can = true, more = true;
    for (size_t k = 0; k < list->count; k++) list->data[k].i->record->anew = false;
    while (more) {
        more = false;
        for (size_t k = 0; k < list->count; k++) {
            hub_instance *i = list->data[k].i;
            hub_record *record = i->record;
            bool anew = record->shed || record->anew;
            for (uint32_t n = 0; n < record->n_inputs; n++) anew |= record->inputs[n]->anew;
            if (!anew && !is_dropped(i)) continue;
            bool has = begins_anew(h, &list->data[k], &ways);
            i->stays |= !has;
            can &= has;
            if (is_dropped(i)) continue;
            more |= !record->anew;
            record->anew = true;
        }
    }
    hub_ways_forget(&ways);
    return can;
}

/* Whether it reads what was dropped, for nothing: else that would be needed. */
static bool reads_dropped(const hub_instance *i) {
    bool reads = false;
    for (uint32_t n = 0; n < i->record->n_inputs; n++) reads |= i->record->inputs[n]->quiet;
    return reads && i->status == SHOAL_OK;
}

/* It begins anew with what is held, if anything is. */
static void shed(hub_instance *i) {
    for (uint32_t o = 0; o < i->record->n_outputs; o++) {
        if (is_held(i->outputs[o])) continue;
        i->outputs[o]->quiet = true;
        hub_value_poison(i->outputs[o], SHOAL_INTERRUPTED, UNHELD);
    }
    i->concerned = true;
}

/* Failed loops make no more rounds that nobody sees. Whether others are left that may have no end.
 */
static bool shorten_unseen(hub *h, uint32_t session) {
    bool any = false;
    for (hub_instance *i = h->first; i; i = i->next) {
        if (i->session != session || !i->program->unbounded) continue;
        if (i->well && !comes_home(h, i)) hub_instance_shorten(i, 0);
        any |= may_go_on(i);
    }
    return any;
}

/* What reads for nothing what was dropped, or derives from it, begins anew without; also the
 * awaited run of a record that is made again, which may be before that. Whether there is any. */
static bool shed_all(const instances *list, bool *moved) {
    bool any = false, more = true;
    while (more) {
        more = false;
        for (size_t k = 0; k < list->count; k++) {
            hub_instance *i = list->data[k].i;
            bool sheds = i->record->shed || reads_dropped(i);
            if (!sheds || i->status != SHOAL_OK || is_dropped(i)) continue;
            shed(i);
            *moved |= i->variant && i->variant->n_moved;
            more |= !i->record->shed;
            any = i->record->shed = true;
        }
    }
    return any;
}

/* What nobody needs, but for what stays with those that cannot begin anew without it: what such a
 * one reads may be all that another lacks. */
static bool find_what_goes(const hub *h, const instances *list, size_t *budget) {
    enum { MOST = 32 };
    bool goes = false;
    for (size_t k = 0; k < list->count; k++) list->data[k].i->stays = false;
    for (int times = 0; times < MOST && !goes; times++) {
        find_unneeded(list, budget);
        goes = can_begin_anew(h, list);
    }
    return goes;
}

/* Whether there was any. All are dropped before others are begun anew, once for all of them. */
static bool drop_unneeded(hub *h, uint32_t session, size_t *budget) {
    instances list = {0};
    bool can = true, dropped = false, due = false, moved = false;
    for (hub_instance *i = h->first; i; i = i->next)
        if (i->session == session && i->record) can &= base_vec_push(&list, (looked){.i = i});
    can = can && find_what_goes(h, &list, budget);
    /* With a loop fails what reads it, which nobody needs either. */
    for (size_t k = 0; can && k < list.count; k++)
        list.data[k].i->quiet |= list.data[k].i->unneeded;
    for (size_t k = 0; can && k < list.count; k++) {
        hub_instance *i = list.data[k].i;
        if (!is_dropped(i)) continue;
        moved |= i->variant && i->variant->n_moved;
        if (is_idle(i))
            due = i->concerned = true; /* its results have not failed */
        else
            due |= hub_instance_fail_only(h, i, SHOAL_INTERRUPTED, UNHELD);
        dropped = true;
    }
    if (can && shed_all(&list, &moved)) due = dropped = true;
    if (due) hub_rerun_concerned(h, SHOAL_INTERRUPTED, UNHELD, moved);
    for (size_t k = 0; k < list.count; k++) {
        hub_instance *i = list.data[k].i;
        if (can) i->quiet &= i->status != SHOAL_OK;
        free(list.data[k].held);
        free(list.data[k].reads);
    }
    free(list.data);
    return dropped;
}

void hub_loops_drop(hub *h, uint32_t session) {
    enum { MOST = 16 }; /* the next time that something is let go of goes on */
    size_t budget = MOST_DECODED;
    /* What is begun anew may have loops made again that nobody needs either. */
    int k = 0;
    while (k < MOST && shorten_unseen(h, session) && drop_unneeded(h, session, &budget)) k++;
    if (k) hub_settle_ended(h);
}
