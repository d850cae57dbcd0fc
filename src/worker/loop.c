/* Loops: a program that follows itself, without a message of the hub.
 *
 * Each round is an instance of its own, with the next number, made here: when a slot gets to it, or
 * when data for it comes. Outputs that are carried are inputs of the next round, whose task has
 * them alone: so they are written over. A slot goes on with the next round at once, and is never
 * more than `ahead` rounds before others of this process, or those it sends to, who say how far
 * they are (Pace). Waiting for a round that is further back cannot close a cycle. */
#include "worker/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* ---- finding and making ---- */

worker_loop *worker_loop_of(const worker *w, uint64_t instance) {
    for (size_t i = 0; i < w->loops.count; i++) {
        worker_loop *loop = w->loops.data[i];
        if (instance >= loop->first && instance - loop->first < loop->rounds) return loop;
    }
    return NULL;
}

static uint32_t lap_number(const worker_task *task) {
    const worker_loop *loop = task->instance->loop;
    uint32_t i = 0;
    while (loop->laps[i].slot != task->slot) i++;
    return i;
}

static worker_lap *lap_of(const worker_task *task) {
    return &task->instance->loop->laps[lap_number(task)];
}

static worker_piece *piece_new(void) {
    worker_piece *piece = calloc(1, sizeof *piece);
    if (piece) piece->refs = 1;
    return piece;
}

static shoal_status round_task(worker_task *task, worker_instance *instance,
                               const worker_lap *lap) {
    const shoal_graph *g = graph_data(lap->program->graph);
    *task = (worker_task){.instance = instance, .slot = lap->slot, .program = lap->program};
    lap->program->users++;
    task->inputs = calloc((size_t)g->n_inputs + 1, sizeof *task->inputs);
    task->outputs = calloc((size_t)g->n_outputs + 1, sizeof *task->outputs);
    task->values = calloc((size_t)g->n_values + 1, sizeof *task->values);
    task->waiting = calloc((size_t)lap->program->n_steps + 1, sizeof *task->waiting);
    if (!task->inputs || !task->outputs || !task->values || !task->waiting)
        return base_fail(SHOAL_NO_MEMORY, "no memory for a round");
    for (uint32_t o = 0; o < g->n_outputs; o++)
        if (!(task->outputs[o] = piece_new()))
            return base_fail(SHOAL_NO_MEMORY, "no memory for a round");
    return worker_receives_make(task);
}

/* A failure to make it is the loop's. NULL with a message: there is none at all. */
worker_instance *worker_loop_round(worker *w, worker_loop *loop, uint64_t round) {
    worker_instance **live = &loop->live[round % (loop->ahead + 2)];
    if (*live && (*live)->round == round) return *live;
    worker_instance *instance = base_map_get(&w->instances, loop->first + round);
    bool made = !instance;
    if (made) instance = calloc(1, sizeof *instance);
    worker_task *tasks = calloc((size_t)loop->n_laps + 1, sizeof *tasks);
    shoal_status status =
        instance && tasks ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a round");
    if (status == SHOAL_OK && made)
        status = base_map_set(&w->instances, loop->first + round, instance);
    if (status != SHOAL_OK) {
        if (made) free(instance);
        free(tasks);
        return NULL;
    }
    instance->id = loop->first + round;
    instance->session = loop->session;
    instance->known = true;
    instance->loop = loop;
    instance->round = round;
    instance->tasks = tasks;
    *live = instance;
    loop->n_live++;
    for (uint32_t i = 0; i < loop->n_laps; i++) {
        instance->n_tasks++;
        shoal_status task = round_task(&tasks[i], instance, &loop->laps[i]);
        if (status == SHOAL_OK) status = task;
    }
    if (status == SHOAL_OK)
        worker_staged_apply(w, instance);
    else
        worker_loop_fail(w, loop, round, status, shoal_error_message(), 0);
    return instance;
}

/* Rounds that are over, or further ahead, are nobody's to make. */
bool worker_loop_expects(const worker_loop *loop, uint32_t peer, uint64_t instance) {
    uint64_t round = instance - loop->first;
    bool sends = false;
    for (size_t i = 0; i < loop->senders.count; i++) sends |= loop->senders.data[i] == peer;
    return sends && round >= loop->through && round <= loop->through + loop->ahead;
}

/* ---- pace ---- */

bool worker_lap_may_begin(const worker_task *task) {
    const worker_loop *loop = task->instance->loop;
    uint64_t round = task->instance->round;
    if (!loop || task->status != SHOAL_OK) return true;
    for (size_t i = 0; i < loop->paced.count; i++)
        if (round > loop->paced.data[i].through + loop->ahead) return false;
    const worker_stream *stream = lap_of(task)->stream;
    return round <= loop->through + loop->ahead && (!stream || worker_stream_has_room(stream));
}

static void tell_pace(worker *w, worker_loop *loop) {
    Shoal__Pace pace = SHOAL__PACE__INIT;
    pace.loop = loop->first;
    pace.through = loop->told = loop->through;
    for (size_t i = 0; i < loop->senders.count; i++) {
        const worker_peer *peer = base_map_get(&w->peers, (uint64_t)loop->senders.data[i] + 1);
        if (peer && peer->link && wire_send(peer->link, SHOAL__KIND__PACE, &pace.base) != SHOAL_OK)
            base_log(BASE_DEBUG, w->name, "%s", shoal_error_message());
    }
}

static void advance_home(void *slot) { worker_home_advance(slot); }

/* All slots have got on. */
static void note_through(worker *w, worker_loop *loop) {
    loop->through++;
    /* Who submits to a device with a line may be `ahead` rounds before it, and wait for this. */
    if (loop->n_laps > 1 || loop->laps[0].slot->own.line) worker_changed(w);
    for (uint32_t i = 0; i < loop->n_laps && loop->stalled; i++)
        if (loop->laps[i].slot->home &&
            wire_post(w->wire, advance_home, loop->laps[i].slot) != SHOAL_OK)
            base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    loop->stalled = false;
    if (loop->n_ended < loop->n_laps && loop->through - loop->told > loop->ahead / 2)
        tell_pace(w, loop);
}

void worker_pace(worker *w, wire_link *link, const Shoal__Pace *pace) {
    uint32_t number = wire_link_proof(link)->number;
    worker_slot *home = NULL;
    bool known = false;
    pthread_mutex_lock(&w->lock);
    worker_loop *loop = worker_loop_of(w, pace->loop);
    for (size_t i = 0; loop && i < loop->paced.count; i++) {
        if (loop->paced.data[i].peer != number) continue;
        known = true;
        if (pace->through > loop->paced.data[i].through && pace->through <= loop->rounds)
            loop->paced.data[i].through = pace->through;
    }
    for (uint32_t i = 0; loop && i < loop->n_laps; i++)
        if (loop->laps[i].slot->home) home = loop->laps[i].slot;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (loop && !known) wire_link_strange(link, "how far it is in a loop that it has no part in");
    if (home) worker_home_advance(home);
}

/* ---- the end ---- */

static void lap_fini(worker_lap *lap) {
    const shoal_graph *g = graph_data(lap->program->graph);
    for (uint32_t i = 0; lap->inputs && i < g->n_inputs; i++) worker_piece_release(lap->inputs[i]);
    for (uint32_t i = 0; lap->carried && i < g->n_inputs; i++)
        worker_piece_release(lap->carried[i]);
    for (uint32_t o = 0; lap->outputs && o < g->n_outputs; o++)
        worker_piece_release(lap->outputs[o]);
    free(lap->inputs);
    free(lap->carried);
    free(lap->outputs);
    free(lap->carry);
    lap->program->users--;
}

void worker_loop_free(worker_loop *loop) {
    for (uint32_t i = 0; i < loop->n_laps; i++)
        if (loop->laps[i].program) lap_fini(&loop->laps[i]);
    free(loop->laps);
    free(loop->live);
    free(loop->paced.data);
    free(loop->senders.data);
    free(loop->traffic.data);
    free(loop->error);
    free(loop);
}

static void report(worker *w, const worker_loop *loop) {
    Shoal__Done done = SHOAL__DONE__INIT;
    size_t n = loop->n_laps, m = loop->traffic.count;
    Shoal__SlotTime *times = calloc(n + 1, sizeof *times), **slots = calloc(n + 1, sizeof *slots);
    Shoal__Traffic *traffic = calloc(m + 1, sizeof *traffic), **ways = calloc(m + 1, sizeof *ways);
    bool room = times && slots && traffic && ways;
    for (size_t i = 0; room && i < n; i++) {
        shoal__slot_time__init(slots[i] = &times[i]);
        times[i].slot = loop->laps[i].slot->number;
        times[i].nanoseconds = loop->laps[i].busy;
        times[i].nodes = loop->laps[i].program->n_nodes * loop->laps[i].round;
    }
    for (size_t i = 0; room && i < m; i++) {
        shoal__traffic__init(ways[i] = &traffic[i]);
        traffic[i].from = loop->traffic.data[i].from;
        traffic[i].to = loop->traffic.data[i].to;
        traffic[i].bytes = loop->traffic.data[i].bytes;
        traffic[i].nanoseconds = loop->traffic.data[i].ns;
        traffic[i].timed = traffic[i].bytes;
        traffic[i].timed_ns = traffic[i].nanoseconds;
    }
    done.instance = loop->first;
    done.slots = slots;
    done.n_slots = room ? n : 0;
    done.traffic = ways;
    done.n_traffic = room ? m : 0;
    if (w->hub && wire_send(w->hub, SHOAL__KIND__DONE, &done.base) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    free(times);
    free(slots);
    free(traffic);
    free(ways);
}

/* The hub is told once all slots are through with all rounds. */
static void settle(worker *w, worker_loop *loop) {
    if (loop->n_live || loop->n_ended < loop->n_laps) return;
    for (size_t i = 0; i < w->loops.count; i++)
        if (w->loops.data[i] == loop) w->loops.data[i] = w->loops.data[--w->loops.count];
    if (loop->status != SHOAL_OK && base_map_set(&w->cancelled, loop->first, w) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    report(w, loop);
    worker_loop_free(loop);
}

void worker_loop_round_end(worker *w, worker_instance *instance) {
    worker_loop *loop = instance->loop;
    for (uint32_t t = 0; t < instance->n_tasks; t++) {
        const worker_task *task = &instance->tasks[t];
        loop->laps[t].busy += task->busy;
        for (uint32_t i = 0; i < task->n_receives; i++) {
            const worker_receive *receive = &task->receives[i];
            if (!receive->ended) continue; /* from a slot of this process */
            size_t at = 0;
            while (at < loop->traffic.count && (loop->traffic.data[at].from != receive->from ||
                                                loop->traffic.data[at].to != task->slot->number))
                at++;
            worker_way way = {receive->from, task->slot->number, 0, 0};
            if (at == loop->traffic.count && !base_vec_push(&loop->traffic, way)) continue;
            loop->traffic.data[at].bytes += receive->bytes;
            loop->traffic.data[at].ns += (uint64_t)(receive->ended - receive->began);
        }
    }
    loop->live[instance->round % (loop->ahead + 2)] = NULL;
    loop->n_live--;
    base_map_remove(&w->instances, instance->id);
    worker_instance_free(w, instance);
    note_through(w, loop);
    settle(w, loop);
}

/* Its results are those of a last round that there is none of now. */
static void fail_results(worker_loop *loop, shoal_status status, const char *message,
                         uint32_t unreachable) {
    loop->status = status;
    loop->error = strdup(message);
    for (uint32_t i = 0; i < loop->n_laps; i++) {
        const worker_lap *lap = &loop->laps[i];
        for (uint32_t o = 0; o < graph_data(lap->program->graph)->n_outputs; o++) {
            worker_piece *piece = lap->outputs[o];
            worker_buffer_release(piece->buffer);
            piece->buffer = NULL;
            piece->status = status;
            piece->error = strdup(message);
            piece->unreachable = unreachable;
        }
    }
}

void worker_loop_fail(worker *w, worker_loop *loop, uint64_t round, shoal_status status,
                      const char *message, uint32_t unreachable) {
    uint64_t upto = loop->upto;
    if (unreachable) round = 0; /* all is to be begun anew */
    if (round >= upto) return;
    loop->upto = round;
    if (loop->status == SHOAL_OK) fail_results(loop, status, message, unreachable);
    worker_report_failure(w, loop->first, round, status, message, unreachable);
    for (uint32_t i = 0; i < loop->ahead + 2; i++) {
        worker_instance *instance = loop->live[i];
        if (instance && instance->round >= round && instance->round < upto)
            worker_instance_end_tasks(instance, status, message, unreachable);
    }
    worker_changed(w);
}

/* ---- from round to round ---- */

/* What the next round has of this one. */
static void carry(worker_task *task, worker_lap *lap) {
    const shoal_graph *g = graph_data(lap->program->graph);
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        if (!lap->carry[i]) continue;
        lap->carried[i] = task->outputs[lap->carry[i] - 1];
        task->outputs[lap->carry[i] - 1] = NULL;
    }
    /* Its memory is to be written over, whatever else of this round goes on; other results are
     * those of the last round. */
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        worker_piece_release(task->outputs[o]);
        task->outputs[o] = NULL;
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        worker_buffer_release(task->values[v]);
        task->values[v] = NULL;
    }
}

static void bind_round(worker_task *task, worker_lap *lap) {
    const shoal_graph *g = graph_data(lap->program->graph);
    for (uint32_t i = 0; task->inputs && i < g->n_inputs; i++) {
        worker_piece **from = lap->carried[i] ? &lap->carried[i] : &lap->inputs[i];
        task->inputs[i] = *from;
        if (lap->carry[i])
            *from = NULL; /* the task's alone */
        else
            task->inputs[i]->refs++;
    }
}

/* Rounds that were made because data came, and that this slot will not get to. */
static void drop_ahead(worker_loop *loop, uint32_t number) {
    for (uint32_t i = 0; i < loop->ahead + 2; i++) {
        worker_instance *instance = loop->live[i];
        if (!instance || instance->round < loop->laps[number].round) continue;
        if (instance->tasks[number].state != TASK_DONE) worker_task_done(&instance->tasks[number]);
    }
}

/* The last round is through. */
static void lap_give(worker_loop *loop, worker_lap *lap, const worker_task *task) {
    loop->rounds = loop->upto = lap->round; /* data for others is none of the loop */
    for (uint32_t o = 0; o < graph_data(lap->program->graph)->n_outputs; o++)
        lap->outputs[o]->buffer = worker_buffer_retain(task->outputs[o]->buffer);
    if (lap->stream) worker_stream_end(lap->stream, lap->round);
}

worker_task *worker_lap_end(worker_task *task) {
    worker *w = task->slot->worker;
    worker_loop *loop = task->instance->loop;
    uint32_t number = lap_number(task);
    worker_lap *lap = &loop->laps[number];
    bool well = task->status == SHOAL_OK;
    lap->round++;
    if (well && lap->stream) worker_stream_push(lap->stream, lap, task);
    worker_instance *next = NULL;
    if (well && !task->stops && lap->round < loop->upto) {
        carry(task, lap);
        next = worker_loop_round(w, loop, lap->round);
        if (!next) worker_loop_fail(w, loop, lap->round, SHOAL_NO_MEMORY, shoal_error_message(), 0);
    } else if (well && loop->status == SHOAL_OK) {
        lap_give(loop, lap, task);
    }
    if (next && lap->round < loop->upto) { /* making it may have failed */
        bind_round(&next->tasks[number], lap);
        return &next->tasks[number];
    }
    lap->stream = NULL;
    lap->ended = true;
    loop->n_ended++;
    drop_ahead(loop, number);
    return NULL;
}

/* ---- the beginning ---- */

static shoal_status note_peer(worker *w, worker_loop *loop, const shoal_move *move) {
    const worker_peer *peer = base_map_get(&w->peer_of, (uint64_t)move->slot + 1);
    if (!peer || worker_slot_of(w, (uint32_t)move->slot)) return SHOAL_OK;
    bool there = false;
    if (move->kind == SHOAL_MOVE_SEND) {
        for (size_t i = 0; i < loop->paced.count; i++)
            there |= loop->paced.data[i].peer == peer->number;
        worker_paced paced = {peer->number, 0};
        return there || base_vec_push(&loop->paced, paced) ? SHOAL_OK : SHOAL_NO_MEMORY;
    }
    for (size_t i = 0; i < loop->senders.count; i++) there |= loop->senders.data[i] == peer->number;
    return there || base_vec_push(&loop->senders, peer->number) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Who sends to whom. */
static shoal_status note_peers(worker *w, worker_loop *loop, const worker_program *program) {
    for (uint32_t s = 0; s < program->n_steps; s++) {
        const worker_step *step = &program->steps[s];
        for (uint32_t i = 0; step->exchange && i < step->n_moves; i++) {
            shoal_move move = worker_move(step, i);
            if (move.kind != SHOAL_MOVE_LOCAL) SHOAL_TRY(note_peer(w, loop, &move));
        }
    }
    return SHOAL_OK;
}

static shoal_status lap_check(const worker_lap *lap, const Shoal__SlotRun *run) {
    const shoal_graph *g = graph_data(lap->program->graph);
    if (run->n_inputs != g->n_inputs || run->n_outputs != g->n_outputs ||
        run->n_carry != g->n_inputs || run->stop > g->n_outputs)
        return base_fail(SHOAL_FORMAT, "a loop that does not fit its program");
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        uint32_t o = run->carry[i];
        if (!o) continue;
        if (o > g->n_outputs ||
            !base_type_equal(&g->values[g->inputs[i]].type, &g->values[g->outputs[o - 1]].type))
            return base_fail(SHOAL_FORMAT, "a loop carries an output to another type");
        for (uint32_t k = 0; k < i; k++)
            if (run->carry[k] == o)
                return base_fail(SHOAL_FORMAT, "a loop carries an output to two inputs");
    }
    return SHOAL_OK;
}

static shoal_status lap_begin(worker *w, worker_lap *lap, const Shoal__SlotRun *run) {
    SHOAL_TRY(lap_check(lap, run));
    const shoal_graph *g = graph_data(lap->program->graph);
    lap->inputs = calloc((size_t)g->n_inputs + 1, sizeof *lap->inputs);
    lap->carried = calloc((size_t)g->n_inputs + 1, sizeof *lap->carried);
    lap->outputs = calloc((size_t)g->n_outputs + 1, sizeof *lap->outputs);
    lap->carry = calloc((size_t)g->n_inputs + 1, sizeof *lap->carry);
    if (!lap->inputs || !lap->carried || !lap->outputs || !lap->carry)
        return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    lap->stop = run->stop;
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        lap->carry[i] = run->carry[i];
        lap->inputs[i] = base_map_get(&lap->slot->pieces, run->inputs[i]);
        if (!lap->inputs[i])
            return base_fail(SHOAL_INTERNAL, "value %llx is unknown on slot %u",
                             (unsigned long long)run->inputs[i], lap->slot->number);
        lap->inputs[i]->refs++;
    }
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        lap->outputs[o] = worker_piece_add(lap->slot, run->outputs[o]);
        if (!lap->outputs[o]) return SHOAL_NO_MEMORY;
        lap->outputs[o]->refs++;
        worker_stream *stream = lap->slot->home ? base_map_get(&w->streams, run->outputs[o]) : NULL;
        if (stream && stream->values[0] == run->outputs[o]) lap->stream = stream;
    }
    return SHOAL_OK;
}

static shoal_status fill(worker *w, worker_loop *loop, const Shoal__Run *run,
                         worker_program *const *programs, worker_slot *const *slots) {
    loop->laps = calloc(run->n_slots + 1, sizeof *loop->laps);
    loop->live = calloc((size_t)loop->ahead + 2, sizeof(worker_instance *));
    if (!loop->laps || !loop->live) return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    for (size_t i = 0; i < run->n_slots; i++) {
        worker_lap *lap = &loop->laps[i];
        lap->program = programs[i];
        lap->program->users++; /* also between its rounds */
        lap->slot = slots[i];
        loop->n_laps++;
        SHOAL_TRY(lap_begin(w, lap, run->slots[i]));
        SHOAL_TRY(note_peers(w, loop, programs[i]));
    }
    return SHOAL_OK;
}

shoal_status worker_loop_begin(worker *w, const Shoal__Run *run, worker_program *const *programs,
                               worker_slot *const *slots, worker_instance **out) {
    enum { MOST_AHEAD = 1024 };
    if (run->ahead < 1 || run->ahead > MOST_AHEAD || run->rounds > UINT64_MAX - run->instance)
        return base_fail(SHOAL_FORMAT, "a loop of %llu rounds, %u ahead",
                         (unsigned long long)run->rounds, run->ahead);
    worker_loop *loop = calloc(1, sizeof *loop);
    if (!loop) return base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    loop->session = run->session;
    loop->first = run->instance;
    loop->rounds = loop->upto = run->rounds;
    loop->ahead = run->ahead;
    shoal_status status = fill(w, loop, run, programs, slots);
    if (status == SHOAL_OK && !base_vec_push(&w->loops, loop)) status = SHOAL_NO_MEMORY;
    if (status != SHOAL_OK) {
        worker_loop_free(loop);
        return status;
    }
    worker_instance *first = *out = worker_loop_round(w, loop, 0);
    if (!first) {
        w->loops.count--;
        status = base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
        worker_loop_free(loop);
        return status;
    }
    for (uint32_t i = 0; i < loop->n_laps; i++) bind_round(&first->tasks[i], &loop->laps[i]);
    /* Data may have come for later ones. */
    for (uint64_t r = 1; r <= loop->ahead && r < loop->rounds; r++)
        if (base_map_get(&w->instances, loop->first + r) && r < loop->upto)
            worker_loop_round(w, loop, r);
    return SHOAL_OK;
}
