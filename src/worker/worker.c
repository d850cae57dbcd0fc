/* The worker: its slots, its handlers on the wire, and what a client asks of it. */
#include "worker/state.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- messages ---- */

worker_slot *worker_slot_of(worker *w, uint32_t number) {
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].number == number) return &w->slots[i];
    return NULL;
}

static shoal_status program_of(worker_slot *slot, const Shoal__SlotRun *run, worker_program **out) {
    *out = base_map_get(&slot->programs, run->program);
    if (*out) return SHOAL_OK;
    SHOAL_TRY(worker_program_new(slot, run->program, run->graph.data, run->graph.len, out));
    shoal_status status = base_map_set(&slot->programs, run->program, *out);
    if (status != SHOAL_OK) worker_program_destroy(slot, out);
    return status;
}

/* Inputs that came along, but for those that are here already. Lock held. */
static shoal_status take_smalls(worker_slot *slot, const Shoal__SlotRun *run) {
    for (size_t i = 0; i < run->n_smalls; i++) {
        const Shoal__Small *small = run->smalls[i];
        if (small->input >= run->n_inputs)
            return base_fail(SHOAL_FORMAT, "a run brings input %u of %zu", small->input,
                             run->n_inputs);
        uint64_t value = run->inputs[small->input];
        if (slot->home || base_map_get(&slot->pieces, value)) continue;
        worker_buffer *buffer;
        SHOAL_TRY(worker_buffer_for(slot, small->data.len, &buffer));
        shoal_status status = worker_buffer_fill(buffer, small->data.data, small->data.len);
        worker_piece *piece = status == SHOAL_OK ? worker_piece_add(slot, value) : NULL;
        if (!piece) {
            worker_buffer_release(buffer);
            return status == SHOAL_OK ? SHOAL_NO_MEMORY : status;
        }
        piece->buffer = buffer;
    }
    return SHOAL_OK;
}

/* Lock held. What a task has to have to be run, and be it only to fail. */
static shoal_status task_begin(worker_task *task, const Shoal__SlotRun *run) {
    const shoal_graph *g = graph_data(task->program->graph);
    if (run->n_inputs != g->n_inputs || run->n_outputs != g->n_outputs)
        return base_fail(SHOAL_FORMAT, "program %llu takes %u values and makes %u, not %zu and %zu",
                         (unsigned long long)run->program, g->n_inputs, g->n_outputs, run->n_inputs,
                         run->n_outputs);
    task->inputs = calloc(g->n_inputs + 1, sizeof *task->inputs);
    task->outputs = calloc(g->n_outputs + 1, sizeof *task->outputs);
    task->values = calloc(g->n_values + 1, sizeof *task->values);
    task->waiting = calloc(task->program->n_steps + 1, sizeof *task->waiting);
    if (!task->inputs || !task->outputs || !task->values || !task->waiting)
        return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        task->outputs[i] = worker_piece_add(task->slot, run->outputs[i]);
        if (!task->outputs[i]) return SHOAL_NO_MEMORY;
        task->outputs[i]->refs++;
    }
    return SHOAL_OK;
}

/* Lock held. */
static shoal_status task_make(worker_task *task, const Shoal__SlotRun *run) {
    worker_slot *slot = task->slot;
    SHOAL_TRY(take_smalls(slot, run));
    for (size_t i = 0; i < run->n_inputs; i++) {
        task->inputs[i] = base_map_get(&slot->pieces, run->inputs[i]);
        if (!task->inputs[i])
            return base_fail(SHOAL_INTERNAL, "value %llx is unknown on slot %u",
                             (unsigned long long)run->inputs[i], slot->number);
        task->inputs[i]->refs++;
    }
    return worker_receives_make(task);
}

/* Lock held. */
static shoal_status loop_begin(worker *w, const Shoal__Run *run, worker_instance **out) {
    worker_program **programs = calloc(run->n_slots + 1, sizeof *programs);
    worker_slot **slots = calloc(run->n_slots + 1, sizeof *slots);
    shoal_status status =
        programs && slots ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a loop");
    for (size_t i = 0; status == SHOAL_OK && i < run->n_slots; i++) {
        slots[i] = worker_slot_of(w, run->slots[i]->slot);
        if (!slots[i])
            status = base_fail(SHOAL_FORMAT, "slot %u is not of this worker", run->slots[i]->slot);
        if (status == SHOAL_OK) status = program_of(slots[i], run->slots[i], &programs[i]);
        if (status == SHOAL_OK) status = take_smalls(slots[i], run->slots[i]);
    }
    if (status == SHOAL_OK) status = worker_loop_begin(w, run, programs, slots, out);
    free(programs);
    free(slots);
    return status;
}

static void task_queue(worker_task *task) {
    task->next = NULL;
    *task->slot->tail = task;
    atomic_store(&task->slot->queued, true);
    task->slot->tail = &task->next;
}

/* An instance that there is, known or not; made when there is none. Lock held; NULL with a message.
 */
static worker_instance *instance_of(worker *w, uint64_t id) {
    worker_instance *instance = base_map_get(&w->instances, id);
    if (instance) return instance;
    instance = calloc(1, sizeof *instance);
    if (!instance) {
        base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
        return NULL;
    }
    instance->id = id;
    if (base_map_set(&w->instances, id, instance) == SHOAL_OK) return instance;
    free(instance);
    return NULL;
}

/* Tasks with what they have to have. Lock held. */
static shoal_status instance_begin(worker *w, worker_instance *instance, const Shoal__Run *run) {
    instance->session = run->session;
    instance->tasks = calloc(run->n_slots + 1, sizeof *instance->tasks);
    if (!instance->tasks) return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    for (size_t i = 0; i < run->n_slots; i++) {
        worker_task *task = &instance->tasks[i];
        task->slot = worker_slot_of(w, run->slots[i]->slot);
        if (!task->slot)
            return base_fail(SHOAL_FORMAT, "slot %u is not of this worker", run->slots[i]->slot);
        SHOAL_TRY(program_of(task->slot, run->slots[i], &task->program));
        task->instance = instance;
        task->program->users++;
        instance->n_tasks++;
        SHOAL_TRY(task_begin(task, run->slots[i]));
    }
    return SHOAL_OK;
}

/* Lock held. */
static void forget(worker *w, const uint64_t *values, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t s = 0; s < w->n_slots; s++) worker_piece_forget(&w->slots[s], values[i]);
}

/* Tasks in their slots' queues. Lock held. */
static worker_slot *queue_all(worker *w, worker_instance *instance) {
    worker_slot *home = NULL;
    for (uint32_t i = 0; i < instance->n_tasks; i++) {
        worker_task *task = &instance->tasks[i];
        if (task->slot->home) home = task->slot;
        worker_event(task, SHOAL_EVENT_RUN, SHOAL_EVENT_AT, 0);
        task_queue(task);
    }
    worker_peers_call(w, instance);
    pthread_cond_broadcast(&w->changed);
    return home;
}

/* A loop; what cannot be begun is refused as an instance is. Lock held. */
static worker_slot *run_loop(worker *w, const Shoal__Run *run) {
    worker_instance *first = NULL;
    shoal_status status = loop_begin(w, run, &first);
    if (status == SHOAL_OK) {
        forget(w, run->donated, run->n_donated);
        return queue_all(w, first);
    }
    char *message = strdup(shoal_error_message());
    worker_instance *instance = instance_of(w, run->instance);
    if (instance) worker_instance_refuse(w, instance, status, message ? message : "no memory");
    free(message);
    return NULL;
}

/* What cannot even be begun, as a program that cannot be read, fails; it ends nothing else. */
static shoal_status on_run(worker *w, const Shoal__Run *run) {
    worker_slot *home = NULL;
    if (run->pool != w->pool) return base_fail(SHOAL_FORMAT, "a program of another pool");
    pthread_mutex_lock(&w->lock);
    worker_low(w, run->low);
    if (run->rounds) {
        home = run_loop(w, run);
        pthread_mutex_unlock(&w->lock);
        if (home) worker_home_advance(home);
        return SHOAL_OK;
    }
    worker_instance *instance = instance_of(w, run->instance);
    shoal_status status = instance ? SHOAL_OK : SHOAL_NO_MEMORY;
    if (status == SHOAL_OK && instance->tasks)
        status = base_fail(SHOAL_FORMAT, "instance %llu has come twice",
                           (unsigned long long)run->instance);
    if (status != SHOAL_OK) {
        pthread_mutex_unlock(&w->lock);
        return status;
    }
    status = instance_begin(w, instance, run);
    if (status != SHOAL_OK) {
        base_fail_prefix(status, "worker %s: ", w->name);
        worker_instance_refuse(w, instance, status, shoal_error_message());
        pthread_mutex_unlock(&w->lock);
        return SHOAL_OK;
    }
    instance->known = true;
    instance->came = base_now();
    for (uint32_t i = 0; i < instance->n_tasks; i++) {
        worker_task *task = &instance->tasks[i];
        shoal_status made = task_make(task, run->slots[i]);
        if (made != SHOAL_OK) worker_task_fail(task, made, shoal_error_message());
    }
    forget(w, run->donated, run->n_donated); /* the tasks hold them */
    worker_staged_apply(w, instance);
    home = queue_all(w, instance);
    pthread_mutex_unlock(&w->lock);
    if (home) worker_home_advance(home);
    return SHOAL_OK;
}

static void discard(worker_slot *slot, worker_program *program) {
    program->next = slot->garbage;
    slot->garbage = program;
}

static void on_free(worker *w, const Shoal__Release *release) {
    if (base_events_on(&w->events)) {
        shoal_event event = {
            .kind = SHOAL_EVENT_FREE, .slot = w->slots[0].number, .peer = SHOAL_NO_SLOT};
        base_event_label(&event, "%zu values, %zu programs", release->n_values,
                         release->n_programs);
        base_events_put(&w->events, &event);
    }
    pthread_mutex_lock(&w->lock);
    forget(w, release->values, release->n_values);
    /* The hub drops a program after its last instance; its executable is the executor's to free. */
    for (size_t i = 0; i < release->n_programs; i++)
        for (uint32_t s = 0; s < w->n_slots; s++) {
            worker_slot *slot = &w->slots[s];
            worker_program *program = base_map_remove(&slot->programs, release->programs[i]);
            if (!program) continue;
            discard(slot, program);
            if (slot->home) worker_collect_garbage(slot);
        }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* The executor does it before its next task. */
static void on_measure(worker *w, const Shoal__Measure *measure) {
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < measure->n_slots; i++) {
        worker_slot *slot = worker_slot_of(w, measure->slots[i]);
        for (size_t f = 0; slot && !slot->home && f < measure->n_what; f++)
            if (measure->what[f] < BASE_FIGURES) slot->measure |= 1u << measure->what[f];
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static shoal_status handle(worker *w, Shoal__Kind kind, const ProtobufCMessage *message) {
    switch (kind) {
    case SHOAL__KIND__RUN: return on_run(w, (const Shoal__Run *)message);
    case SHOAL__KIND__PEERS: worker_peers_update(w, (const Shoal__Peers *)message); return SHOAL_OK;
    case SHOAL__KIND__FREE: on_free(w, (const Shoal__Release *)message); return SHOAL_OK;
    case SHOAL__KIND__MEASURE: on_measure(w, (const Shoal__Measure *)message); return SHOAL_OK;
    case SHOAL__KIND__RECORD: worker_record(w, (const Shoal__Record *)message); return SHOAL_OK;
    case SHOAL__KIND__RELAYED:
        wire_relayed(w->wire, (const Shoal__Relay *)message);
        return SHOAL_OK;
    default: {
        const Shoal__Failed *failed = (const Shoal__Failed *)message;
        const Shoal__Error *error = failed->error;
        worker_instance_cancel(w, failed->instance + failed->rounds,
                               error && error->status ? (shoal_status)error->status : SHOAL_LOST,
                               error && error->message ? error->message : "cancelled", 0);
        return SHOAL_OK;
    }
    }
}

static shoal_status on_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                               size_t bytes) {
    worker *w = context;
    if (kind == SHOAL__KIND__FILE_ASK || kind == SHOAL__KIND__FILE_PART)
        return worker_file_message(w, link, kind, body, bytes);
    if (kind == SHOAL__KIND__PACE) {
        ProtobufCMessage *pace;
        SHOAL_TRY(wire_unpack(&shoal__pace__descriptor, body, bytes, &pace));
        worker_pace(w, link, (const Shoal__Pace *)pace);
        wire_unpacked_free(pace);
        return SHOAL_OK;
    }
    if (link != w->hub) {
        wire_link_strange(link, "an order, as only the hub may");
        return SHOAL_OK;
    }
    if (kind == SHOAL__KIND__ARTIFACT_GIVEN) {
        ProtobufCMessage *artifact;
        SHOAL_TRY(wire_unpack(&shoal__artifact__descriptor, body, bytes, &artifact));
        worker_artifact_given(w, (Shoal__Artifact *)artifact); /* it is kept */
        return SHOAL_OK;
    }
    const ProtobufCMessageDescriptor *type = NULL;
    switch (kind) {
    case SHOAL__KIND__RUN: type = &shoal__run__descriptor; break;
    case SHOAL__KIND__PEERS: type = &shoal__peers__descriptor; break;
    case SHOAL__KIND__FREE: type = &shoal__release__descriptor; break;
    case SHOAL__KIND__MEASURE: type = &shoal__measure__descriptor; break;
    case SHOAL__KIND__RECORD: type = &shoal__record__descriptor; break;
    case SHOAL__KIND__CANCEL: type = &shoal__failed__descriptor; break;
    case SHOAL__KIND__RELAYED: type = &shoal__relay__descriptor; break;
    default: {
        shoal_status status = w->client.message
                                  ? w->client.message(w->client.context, kind, body, bytes)
                                  : base_fail(SHOAL_UNSUPPORTED, "this is no client");
        if (status != SHOAL_UNSUPPORTED) return status;
        wire_link_strange(link, "a message of a kind that is not for this member");
        return SHOAL_OK;
    }
    }
    ProtobufCMessage *message;
    SHOAL_TRY(wire_unpack(type, body, bytes, &message));
    shoal_status status = handle(w, kind, message);
    wire_unpacked_free(message);
    return status;
}

/* ---- links ---- */

enum { HUB_COOKIE = 0x7fffffff };

/* What the hub answered: our numbers. */
static shoal_status joined(worker *w, wire_link *link, const Shoal__Welcome *welcome) {
    uint32_t expected = w->n_slots;
    if (welcome->n_slots != expected)
        return base_fail(SHOAL_FORMAT, "the hub numbered %zu slots of %u", welcome->n_slots,
                         expected);
    pthread_mutex_lock(&w->lock);
    w->hub = link;
    w->number = welcome->peer;
    w->session = welcome->session;
    w->pool = welcome->pool;
    for (uint32_t i = 0; i < w->n_slots; i++) w->slots[i].number = welcome->slots[i];
    free(w->name);
    w->name = strdup(welcome->name ? welcome->name : "");
    worker_artifacts_joined(w, welcome);
    w->joined = true;
    base_events_name(&w->events, w->name);
    pthread_mutex_unlock(&w->lock);
    wire_set_number(w->wire, welcome->peer, welcome->pool);
    wire_relay_by(link);
    return SHOAL_OK;
}

static shoal_status on_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                              Shoal__Welcome *welcome, bool accepting) {
    worker *w = context;
    if (!accepting && wire_link_cookie(link) == HUB_COOKIE) {
        w->heard = hello->features & WIRE_NEWS;
        return joined(w, link, welcome);
    }
    /* In an embedded pool the accepting end of the link to oneself is the hub's. */
    if (accepting && hello->incarnation == wire_incarnation(w->wire)) return SHOAL_OK;
    if (accepting && !hello->peer) return SHOAL_OK; /* a newcomer, for the hub in this process */
    uint32_t number = wire_link_proof(link)->number;
    if (!number || (!accepting && number != wire_link_cookie(link)))
        return base_fail(SHOAL_DENIED, "%s is not the member that was called", hello->name);
    worker_peer_opened(w, link, number);
    return SHOAL_OK;
}

static void hub_lost(worker *w, shoal_status why, const char *message) {
    pthread_mutex_lock(&w->lock);
    w->hub = NULL;
    /* Whether it has ended or was cut off is all the same to who needs it; the message tells. */
    w->lost = why == SHOAL_OK || why == SHOAL_CLOSED ? SHOAL_LOST : why;
    free(w->lost_message);
    w->lost_message = strdup(message);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (w->client.lost) w->client.lost(w->client.context, w->lost, message);
}

static void on_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    worker *w = context;
    worker_peer *peer = base_map_get(&w->peers, (uintptr_t)wire_link_get(link, WIRE_WORKER));
    if (link == w->hub)
        hub_lost(w, why, message);
    else if (peer && peer->link == link)
        worker_peer_closed(w, peer, why, message);
}

static void on_connect_failed(void *context, uint64_t cookie, shoal_status why,
                              const char *message) {
    worker *w = context;
    worker_peer *peer = cookie == HUB_COOKIE ? NULL : base_map_get(&w->peers, cookie + 1);
    if (peer && peer->link) return; /* it has reached us meanwhile */
    if (peer)
        worker_peer_closed(w, peer, why, message);
    else if (cookie == HUB_COOKIE)
        hub_lost(w, why, message);
}

/* ---- life ---- */

static void watch(void *context) {
    worker *w = context;
    worker_streams_watch(w);
    worker_leaving_watch(w);
    worker_news(w);
    if (w->client.tick) w->client.tick(w->client.context);
}

/* Fills the hello; its strings belong to the caller's stack or the worker. */
static shoal_status make_wire(worker *w, const worker_options *options) {
    bool client = options->role == SHOAL__ROLE__CLIENT;
    uint32_t n = w->n_slots - client;
    Shoal__Device *devices = calloc(n + 1, sizeof *devices);
    Shoal__Device **pointers = calloc(n + 1, sizeof *pointers);
    Shoal__Figure(*room)[BASE_FIGURES] = calloc(n + 1, sizeof *room);
    Shoal__Figure *(*figures)[BASE_FIGURES] = calloc(n + 1, sizeof *figures);
    if (!devices || !pointers || !room || !figures) {
        free(devices);
        free(pointers);
        free(room);
        free(figures);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a worker");
    }
    for (uint32_t i = 0; i < n; i++) {
        const worker_slot *slot = &w->slots[i];
        shoal__device__init(&devices[i]);
        pointers[i] = &devices[i];
        devices[i].backend = (char *)slot->device.backend->name;
        devices[i].name = (char *)slot->own.info.name;
        devices[i].id = (char *)slot->own.name;
        devices[i].memory = worker_capacity(slot, n, &devices[i].near);
        devices[i].maps = worker_maps(&slot->own);
        devices[i].threads = slot->device.threads ? slot->device.threads : slot->own.info.threads;
        devices[i].weight = slot->device.weight;
        if (client) continue;
        base_speeds kept = worker_speeds_kept(slot);
        devices[i].figures = figures[i];
        devices[i].n_figures = worker_figures(&kept, room[i], figures[i]);
    }
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    hello.role = options->role;
    hello.name = (char *)(options->name ? options->name : "");
    hello.n_devices = n;
    hello.devices = pointers;
    if (client)
        hello.spare =
            options->spare ? options->spare : w->slots[w->n_slots - 1].own.info.memory / 4;
    shoal_status status = wire_peer_new(&hello, &w->wire);
    free(devices);
    free(pointers);
    free(room);
    free(figures);
    if (status != SHOAL_OK) return status;
    wire_handlers handlers = {w, on_opened, on_message, worker_data, on_closed, on_connect_failed};
    wire_handle(w->wire, WIRE_WORKER, &handlers);
    wire_tick(w->wire, WIRE_WORKER, client ? 100 : 1000, watch);
    return SHOAL_OK;
}

static shoal_status start(worker *w, const worker_options *options) {
    base_condition_init(&w->changed);
    pthread_mutex_init(&w->lock, NULL);
    bool client = options->role == SHOAL__ROLE__CLIENT;
    w->slots = calloc(options->n_devices + 1, sizeof *w->slots);
    if (!w->slots) return base_fail(SHOAL_NO_MEMORY, "no memory for a worker");
    SHOAL_TRY(worker_devices_open(w, options));
    if (client) {
        /* The memory slot allocates as a CPU does; nothing runs there. */
        worker_slot *home = &w->slots[w->n_slots++];
        SHOAL_TRY(worker_slot_open(w, home, NULL));
        home->device.threads = 1;
        SHOAL_TRY(backend_find("cpu", &home->device.backend));
        SHOAL_TRY(worker_queue_open(&home->own, &home->device));
    }
    SHOAL_TRY(make_wire(w, options));
    for (uint32_t i = 0; i < w->n_slots; i++) {
        worker_slot *slot = &w->slots[i];
        if (slot->home) continue;
        int error = pthread_create(&slot->thread, NULL, worker_executor, slot);
        if (error) return base_fail_errno(error, "starting an executor");
        slot->has_thread = true;
    }
    return SHOAL_OK;
}

shoal_status worker_new(const worker_options *options, worker **out) {
    worker *w = calloc(1, sizeof *w);
    if (!w) return base_fail(SHOAL_NO_MEMORY, "no memory for a worker");
    bool client = options->role == SHOAL__ROLE__CLIENT;
    w->file_transfers = WIRE_FILE;
    worker_artifacts_begin(w, options->trusts_hub);
    w->silence = worker_patience("SHOAL_MEMBER_PATIENCE", 60);
    shoal_status status = base_events_init(&w->events, client ? "client" : "worker");
    if (status != SHOAL_OK) {
        free(w);
        return status;
    }
    w->name = strdup(options->name ? options->name : "");
    w->models = worker_models_of(options->models);
    status = w->models ? start(w, options) : base_fail(SHOAL_NO_MEMORY, "no memory for a worker");
    if (status != SHOAL_OK)
        worker_destroy(&w);
    else
        *out = w;
    return status;
}

static void slot_fini(worker_slot *slot) {
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&slot->pieces, &at, &key, &value)) worker_piece_release(value);
    for (at = 0; base_map_next(&slot->programs, &at, &key, &value);) discard(slot, value);
    for (worker_program *p = slot->garbage; p; p = p->next) p->users = 0; /* nobody runs any more */
    worker_collect_garbage(slot);
    base_map_fini(&slot->pieces);
    base_map_fini(&slot->programs);
}

void worker_destroy(worker **out) {
    worker *w = *out;
    *out = NULL;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    worker_changed(w);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n_slots; i++)
        if (w->slots[i].has_thread) pthread_join(w->slots[i].thread, NULL);
    worker_files_end(w);
    /* What devices are at reports, and sends, when it is done. */
    for (uint32_t i = 0; i < w->n_slots; i++) worker_queue_settle(&w->slots[i].own);
    wire_peer_destroy(&w->wire);
    w->hub = NULL;

    size_t at = 0;
    uint64_t key;
    void *value;
    /* What still waits to go to them is of instances. */
    while (base_map_next(&w->peers, &at, &key, &value)) worker_peer_free(value);
    base_map_fini(&w->peers);
    base_map_fini(&w->peer_of);
    pthread_mutex_lock(&w->lock);
    for (at = 0; base_map_next(&w->instances, &at, &key, &value);) worker_instance_free(w, value);
    for (size_t i = 0; i < w->loops.count; i++) worker_loop_free(w->loops.data[i]);
    free(w->loops.data);
    for (at = 0; base_map_next(&w->expected, &at, &key, &value);) {
        worker_expected *expected = value;
        worker_buffer_release(expected->buffer);
        free(expected);
    }
    worker_streams_end(w);
    for (uint32_t i = 0; i < w->n_slots; i++) slot_fini(&w->slots[i]);
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < w->n_slots; i++) worker_queue_close(&w->slots[i].own);
    worker_queue_close(&w->spare);
    worker_files_fini(w);
    base_map_fini(&w->instances);
    base_map_fini(&w->cancelled);
    base_map_fini(&w->expected);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    base_events_fini(&w->events);
    free(w->slots);
    free(w->lost_message);
    free(w->address);
    free(w->name);
    free(w);
}

wire_peer *worker_wire(worker *w) { return w->wire; }
const char *worker_name(const worker *w) { return w->name; }
uint32_t worker_session(const worker *w) { return w->session; }

uint64_t worker_epoch(worker *w) {
    pthread_mutex_lock(&w->lock);
    uint64_t epoch = w->epoch;
    pthread_mutex_unlock(&w->lock);
    return epoch;
}

uint32_t worker_home(const worker *w) { return w->slots[w->n_slots - 1].number; }

void worker_set_client(worker *w, const worker_client *client) { w->client = *client; }

shoal_status worker_state(worker *w) {
    pthread_mutex_lock(&w->lock);
    shoal_status status =
        w->lost == SHOAL_OK ? SHOAL_OK : base_fail(w->lost, "the hub is gone: %s", w->lost_message);
    pthread_mutex_unlock(&w->lock);
    return status;
}

shoal_status worker_send(worker *w, Shoal__Kind kind, const ProtobufCMessage *message) {
    SHOAL_TRY(worker_state(w));
    /* A link lives until its `closed` handler has run, and that one waits for the lock. */
    pthread_mutex_lock(&w->lock);
    shoal_status status = w->hub ? wire_send(w->hub, kind, message)
                                 : base_fail(SHOAL_CLOSED, "the hub is not connected");
    pthread_mutex_unlock(&w->lock);
    return status;
}

static bool join_over(void *context) {
    const worker *w = context;
    return w->joined || w->lost != SHOAL_OK;
}

shoal_status worker_join(worker *w, const char *address, uint32_t timeout_ms) {
    SHOAL_TRY(wire_connect(w->wire, address, HUB_COOKIE, timeout_ms));
    shoal_status status =
        wire_wait(w->wire, join_over, w, base_now() + (int64_t)timeout_ms * BASE_MS);
    if (status != SHOAL_OK) return base_fail_prefix(status, "joining the pool at %s: ", address);
    pthread_mutex_lock(&w->lock);
    if (!w->joined) status = base_fail(w->lost, "%s", w->lost_message);
    pthread_mutex_unlock(&w->lock);
    return status;
}
