/* Tests of steps: where a program is cut, what each step waits for, and that a device goes on while
 * something is on its way. The worker is a whole one, but no hub: its runs are made here. */
#include "graph/testing.h"

#include "backend/registry.h"
#include "base/clock.h"
#include "base/str.h"
#include "wire/transport.h"
#include "worker/state.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SIDE = 512, SLOT = 5, FAR = 9, FAR_PEER = 3, INSTANCE = 77 };

/* ---- programs ---- */

/* A result of n rows that comes from slot FAR. */
static uint32_t receive(graph *g, int64_t channel, int64_t rows) {
    return test_add(g, GRAPH_EXCHANGE, NULL, 0,
                    ATTRS(graph_int(SHOAL_ATTR_CHANNEL, channel),
                          INTS(MOVES, SHOAL_MOVE_RECEIVE, 0, 0, FAR, 0, 0, 0, 0, rows, SIDE),
                          INTS(TYPES, SHOAL_F32, 2, rows, SIDE)));
}

static uint32_t product(graph *g, uint32_t a, uint32_t b) {
    return test_add(g, GRAPH_DOT_GENERAL, VALUES(a, b),
                    ATTRS(NONE(LHS_BATCHING_DIMENSIONS), NONE(RHS_BATCHING_DIMENSIONS),
                          INTS(LHS_CONTRACTING_DIMENSIONS, 1),
                          INTS(RHS_CONTRACTING_DIMENSIONS, 0)));
}

static worker_program *program_of(graph *g) {
    base_str bytes = {0};
    worker_program *program;
    ok(graph_encode(graph_data(g), false, &bytes));
    ok(worker_program_new(NULL, 1, bytes.data, bytes.size, &program));
    base_str_fini(&bytes);
    graph_destroy(&g);
    return program;
}

/* What is on its way, product, sum of both. */
static worker_program *late_program(void) {
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, SIDE, SIDE)), y = receive(g, 0, SIDE), xx = product(g, x, x);
    uint32_t sum = test_add(g, GRAPH_ADD, VALUES(xx, y), NULL, 0);
    ok(graph_add_output(g, sum));
    return program_of(g);
}

static void steps_await_what_they_read(void **state) {
    (void)state;
    worker_program *program = late_program();
    /* Exchange; the product, worth its own step while the exchange is on its way; the sum. */
    assert_int_equal(program->n_steps, 3);
    assert_true(program->steps[0].exchange);
    assert_int_equal(program->steps[0].n_awaited, 0);
    assert_int_equal(program->steps[1].n_awaited, 0);
    assert_int_equal(program->steps[2].n_awaited, 1);
    assert_int_equal(program->steps[2].awaited[0], 0);
    worker_program_destroy(NULL, &program);
}

/* Little work is not worth a step; what one step has waited for no other waits for; what is sent on
 * has to be there. */
static void few_steps(void **state) {
    (void)state;
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2, SIDE)), y = receive(g, 0, 2), z = receive(g, 1, 2);
    uint32_t sum = test_add(g, GRAPH_ADD, VALUES(x, x), NULL, 0);
    sum = test_add(g, GRAPH_ADD, VALUES(sum, y), NULL, 0);
    test_add(g, GRAPH_EXCHANGE, VALUES(z),
             ATTRS(graph_int(SHOAL_ATTR_CHANNEL, 2),
                   INTS(MOVES, SHOAL_MOVE_SEND, 0, 0, FAR, 0, 0, 0, 0, 2, SIDE), NONE(TYPES)));
    sum = test_add(g, GRAPH_ADD, VALUES(sum, y), NULL, 0);
    ok(graph_add_output(g, test_add(g, GRAPH_ADD, VALUES(sum, z), NULL, 0)));
    worker_program *program = program_of(g);
    assert_int_equal(program->n_steps, 5);
    assert_int_equal(program->steps[2].n_awaited, 1);
    assert_int_equal(program->steps[2].awaited[0], 0);
    assert_true(program->steps[3].exchange);
    assert_int_equal(program->steps[3].n_awaited, 1);
    assert_int_equal(program->steps[3].awaited[0], 1);
    assert_int_equal(program->steps[4].n_awaited, 0);
    worker_program_destroy(NULL, &program);
}

/* What only turns or spreads what is there, or is made of nothing, is made in each step that reads
 * it; so nothing is handed from one step to the next but what has been computed. */
static void views_are_made_anew(void **state) {
    (void)state;
    const float one = 1;
    graph *g;
    ok(graph_new(0, &g));
    uint32_t x = test_input(g, T(F32, 2, SIDE)), y = receive(g, 0, 2);
    uint32_t t = test_add(g, GRAPH_TRANSPOSE, VALUES(x), ATTRS(INTS(PERMUTATION, 1, 0)));
    uint32_t s = test_add(g, GRAPH_TRANSPOSE, VALUES(y), ATTRS(INTS(PERMUTATION, 1, 0)));
    uint32_t c = test_constant(g, T(F32, SIDE, 2), &one, sizeof one);
    uint32_t sum = test_add(g, GRAPH_ADD, VALUES(t, c), NULL, 0);
    uint32_t turned = test_add(g, GRAPH_TRANSPOSE, VALUES(sum), ATTRS(INTS(PERMUTATION, 1, 0)));
    uint32_t z = receive(g, 1, 2);
    uint32_t more = test_add(g, GRAPH_ADD, VALUES(t, s), NULL, 0);
    more = test_add(g, GRAPH_ADD, VALUES(more, c), NULL, 0);
    uint32_t last = test_add(g, GRAPH_ADD, VALUES(turned, z), NULL, 0);
    ok(graph_add_output(g, more));
    ok(graph_add_output(g, last));
    worker_program *program = program_of(g);
    assert_int_equal(program->n_steps, 4);
    /* The sum, turned, was computed: that is handed on. */
    assert_int_equal(program->steps[1].n_inputs, 1);
    assert_int_equal(program->steps[1].inputs[0], x);
    assert_int_equal(program->steps[1].n_outputs, 1);
    assert_int_equal(program->steps[1].outputs[0], turned);
    assert_int_equal(program->steps[1].n_awaited, 0);
    assert_int_equal(program->steps[3].n_inputs, 4);
    assert_int_equal(program->steps[3].n_awaited, 2);
    worker_program_destroy(NULL, &program);
}

/* ---- running ---- */

static worker *start(void) {
    worker_device device = {.threads = 1};
    worker *w;
    ok(backend_find("cpu", &device.backend));
    worker_options options = {
        .name = "w", .role = SHOAL__ROLE__WORKER, .devices = &device, .n_devices = 1};
    ok(worker_new(&options, &w));
    w->slots[0].number = SLOT;
    ok(base_events_record(&w->events, base_now() + 60 * BASE_SECOND));
    return w;
}

/* Queues late_program with a matrix of ones; *out: the piece that it makes, with a reference. */
static void run_late(worker *w, worker_piece **out) {
    worker_slot *slot = &w->slots[0];
    worker_instance *instance = calloc(1, sizeof *instance);
    worker_task *task = calloc(1, sizeof *task);
    worker_program *program = late_program();
    assert_true(instance && task);
    *instance = (worker_instance){.id = INSTANCE, .known = true, .n_tasks = 1, .tasks = task};
    *task = (worker_task){.instance = instance, .slot = slot, .program = program};
    pthread_mutex_lock(&w->lock);
    task->inputs = calloc(1, sizeof *task->inputs);
    task->outputs = calloc(1, sizeof *task->outputs);
    task->values = calloc(graph_data(program->graph)->n_values, sizeof *task->values);
    task->waiting = calloc(program->n_steps + 1, sizeof *task->waiting);
    assert_true(task->inputs && task->outputs && task->values && task->waiting);
    task->inputs[0] = worker_piece_add(slot, 1);
    task->outputs[0] = *out = worker_piece_add(slot, 2);
    assert_true(task->inputs[0] && *out);
    ok(worker_buffer_new(&slot->own, SIDE * SIDE * sizeof(float), &task->inputs[0]->buffer));
    float *ones = (float *)task->inputs[0]->buffer->host;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) ones[i] = 1;
    task->inputs[0]->refs++;
    (*out)->refs += 2;
    ok(base_map_set(&slot->programs, 1, program));
    ok(base_map_set(&w->instances, INSTANCE, instance));
    ok(worker_receives_make(task));
    *slot->tail = task;
    slot->tail = &task->next;
    atomic_store(&slot->queued, true);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 5 * BASE_MS}, NULL); }

/* Waits until the log has an event. */
static void await_event(worker *w, uint64_t *from, shoal_event_kind kind, shoal_event_phase phase) {
    static shoal_event events[BASE_EVENTS_ROOM];
    uint64_t lost = 0;
    for (int tries = 0; tries < 2000; tries++) {
        size_t n = base_events_read(&w->events, from, events, BASE_EVENTS_ROOM, &lost);
        for (size_t i = 0; i < n; i++)
            if (events[i].kind == kind && events[i].phase == phase) return;
        nap();
    }
    fail_msg("no event of kind %d came", (int)kind);
}

static bool is_there(worker *w, const worker_piece *piece) {
    pthread_mutex_lock(&w->lock);
    bool there = piece->buffer || piece->status != SHOAL_OK;
    pthread_mutex_unlock(&w->lock);
    return there;
}

static void await_piece(worker *w, const worker_piece *piece) {
    for (int tries = 0; tries < 2000 && !is_there(w, piece); tries++) nap();
    assert_true(is_there(w, piece));
}

static void release(worker *w, worker_piece *piece) {
    pthread_mutex_lock(&w->lock);
    worker_piece_release(piece);
    pthread_mutex_unlock(&w->lock);
    worker_destroy(&w);
}

/* The link of the member that has slot FAR. */
static wire_link far_away = {.proof = {.number = FAR_PEER}}, stranger = {.name = "a stranger"};

static worker_peer *know_far(worker *w) {
    worker_peer *peer = calloc(1, sizeof *peer);
    peer->number = FAR_PEER;
    ok(base_map_set(&w->peers, FAR_PEER + 1, peer));
    ok(base_map_set(&w->peer_of, FAR + 1, peer));
    return peer;
}

static void goes_on_while_something_comes(void **state) {
    (void)state;
    static float late[SIDE * SIDE];
    worker *w = start();
    uint64_t from = 1;
    worker_piece *piece;
    know_far(w);
    run_late(w, &piece);
    await_event(w, &from, SHOAL_EVENT_COMPUTE, SHOAL_EVENT_END); /* the product is there */
    assert_false(is_there(w, piece));
    /* Others than the one that owes it are not heard. */
    wire_transfer wrong = {.instance = INSTANCE, .bytes = sizeof late};
    far_away.peer = stranger.peer = w->wire;
    memset(late, 0xff, sizeof late);
    ok(worker_data(w, &stranger, &wrong, 0, late, sizeof late));
    stranger.proof.number = FAR_PEER + 1;
    ok(worker_data(w, &stranger, &wrong, 0, late, sizeof late));
    stranger.proof.number = FAR_PEER + 2;
    worker_peer *other = calloc(1, sizeof *other);
    other->number = FAR_PEER + 2;
    ok(base_map_set(&w->peers, FAR_PEER + 3, other));
    ok(worker_data(w, &stranger, &wrong, 0, late, sizeof late));
    assert_int_equal(stranger.strange, 3);
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) late[i] = (float)i;
    wire_transfer transfer = {.instance = INSTANCE, .bytes = sizeof late};
    ok(worker_data(w, &far_away, &transfer, 0, late, sizeof late / 2));
    assert_false(is_there(w, piece));
    ok(worker_data(w, &far_away, &transfer, sizeof late / 2, late + SIDE * SIDE / 2,
                   sizeof late / 2));
    await_piece(w, piece);
    assert_int_equal(piece->status, SHOAL_OK);
    const float *sum = (const float *)piece->buffer->host;
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++)
        if (sum[i] != SIDE + (float)i) fail_msg("element %zu is %g", i, (double)sum[i]);
    release(w, piece);
}

/* A new hub at the same address counts from the beginning, as the old one did: what is late of the
 * old pool meets no instance of the new one, neither one that waits for just that nor one to come.
 */
static void old_bytes_meet_nothing(void **state) {
    (void)state;
    static float late[SIDE * SIDE];
    enum { OLD = 11, NEW = 12 };
    worker *w = start();
    worker_piece *piece;
    wire_link far = {.peer = worker_wire(w),
                     .name = (char *)"far",
                     .state = WIRE_OPEN,
                     .proof = {.number = FAR_PEER}};
    know_far(w);
    wire_set_number(worker_wire(w), 1, OLD);
    wire_frame frame = {.type = WIRE_FRAME_DATA,
                        .kind = wire_pool_tag(worker_wire(w)),
                        .bytes = sizeof late,
                        .total = sizeof late,
                        .instance = INSTANCE};
    wire_set_number(worker_wire(w), 1, NEW);
    run_late(w, &piece);
    for (int next = 0; next < 2; next++) {
        frame.instance = INSTANCE + (uint64_t)next;
        wire_link_deliver(&far, &frame, late);
        assert_int_equal(far.strange, next + 1);
        assert_false(far.closing);
        assert_false(is_there(w, piece));
        assert_int_equal(w->staged_bytes, 0);
        assert_int_equal(w->instances.count, 1);
    }
    /* The same from the new pool. */
    frame.kind = wire_pool_tag(worker_wire(w));
    frame.instance = INSTANCE;
    wire_link_deliver(&far, &frame, late);
    await_piece(w, piece);
    assert_int_equal(piece->status, SHOAL_OK);
    assert_int_equal(far.strange, 2);
    release(w, piece);
}

/* What has begun to wait ends when the instance is given up. */
static void gives_up(void **state) {
    (void)state;
    worker *w = start();
    uint64_t from = 1;
    worker_piece *piece;
    run_late(w, &piece);
    await_event(w, &from, SHOAL_EVENT_WAIT, SHOAL_EVENT_BEGIN);
    worker_instance_cancel(w, INSTANCE, SHOAL_LOST, "the sender is gone", 3);
    await_piece(w, piece);
    assert_int_equal(piece->status, SHOAL_LOST);
    assert_string_equal(piece->error, "the sender is gone");
    assert_int_equal(piece->unreachable, 3);
    release(w, piece);
}

/* Of what comes before its program only what is there takes memory, however much is announced. */
static void keeps_what_is_early(void **state) {
    (void)state;
    worker *w = start();
    const worker_peer *peer = know_far(w);
    far_away.peer = w->wire;
    const float some[1000] = {1};
    wire_transfer large = {.instance = INSTANCE, .bytes = UINT64_C(1) << 40};
    wire_transfer larger = {.instance = INSTANCE, .channel = 1, .bytes = UINT64_C(1) << 50};
    for (uint64_t i = 0; i < 3; i++)
        ok(worker_data(w, &far_away, &large, i * sizeof some, some, sizeof some));
    ok(worker_data(w, &far_away, &larger, 0, some, sizeof some));
    assert_int_equal(w->staged_bytes, 4 * sizeof some);
    assert_int_equal(peer->staged_bytes, 4 * sizeof some);
    assert_int_equal(peer->staged, 2);
    assert_int_equal(worker_data(w, &far_away, &larger, 4, some, sizeof some), SHOAL_FORMAT);
    worker_instance_cancel(w, INSTANCE, SHOAL_LOST, "given up", 0);
    assert_int_equal(w->staged_bytes, 0);
    ok(worker_data(w, &far_away, &large, 3 * sizeof some, some, sizeof some)); /* nobody wants it */
    assert_int_equal(w->staged_bytes, 0);
    /* The hub says what cannot come any more: it goes, and is not taken again. */
    for (uint64_t i = 0; i < 5; i++) {
        wire_transfer early = {.instance = INSTANCE + 1 + i, .bytes = sizeof some};
        ok(worker_data(w, &far_away, &early, 0, some, sizeof some));
    }
    assert_int_equal(w->cancelled.count, 1);
    pthread_mutex_lock(&w->lock);
    worker_low(w, INSTANCE + 4);
    pthread_mutex_unlock(&w->lock);
    assert_int_equal(w->staged_bytes, 2 * sizeof some);
    assert_int_equal(w->instances.count, 2);
    assert_int_equal(w->cancelled.count, 0);
    wire_transfer late = {.instance = INSTANCE + 3, .bytes = sizeof some};
    ok(worker_data(w, &far_away, &late, 0, some, sizeof some));
    assert_int_equal(w->staged_bytes, 2 * sizeof some);
    /* And of one peer there are so many pieces at most. */
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 1; i <= WORKER_MAX_PIECES && status == SHOAL_OK; i++) {
        wire_transfer piece = {.instance = INSTANCE + 9, .ordinal = i, .bytes = 1};
        status = worker_data(w, &far_away, &piece, 0, some, 1);
    }
    assert_int_equal(status, SHOAL_NO_MEMORY);
    worker_destroy(&w);
}

/* Of a member that has left, what came before its program goes with it; what others sent stays. */
static void forgets_what_is_early_of_who_has_left(void **state) {
    (void)state;
    enum { OTHER = FAR_PEER + 1 };
    worker *w = start();
    wire_link other = {.peer = w->wire, .proof = {.number = OTHER}};
    worker_peer *peer = calloc(1, sizeof *peer);
    peer->number = OTHER;
    ok(base_map_set(&w->peers, OTHER + 1, peer));
    know_far(w);
    far_away.peer = w->wire;
    const float some[100] = {1};
    for (uint64_t i = 0; i < 3; i++) {
        wire_transfer early = {.instance = INSTANCE + i, .bytes = sizeof some};
        ok(worker_data(w, &far_away, &early, 0, some, sizeof some));
        early.channel = 1;
        if (i) ok(worker_data(w, &other, &early, 0, some, sizeof some));
    }
    assert_int_equal(w->staged_bytes, 5 * sizeof some);
    Shoal__Peers peers = SHOAL__PEERS__INIT;
    uint32_t left = FAR_PEER;
    peers.change = true;
    peers.left = &left;
    peers.n_left = 1;
    worker_peers_update(w, &peers);
    assert_int_equal(w->staged_bytes, 2 * sizeof some);
    assert_int_equal(peer->staged_bytes, 2 * sizeof some);
    assert_int_equal(w->instances.count, 2);
    left = OTHER;
    worker_peers_update(w, &peers);
    assert_int_equal(w->staged_bytes, 0);
    assert_int_equal(w->instances.count, 0);
    worker_destroy(&w);
}

/* ---- with a hub ---- */

static struct {
    wire_link *link;
    _Atomic uint32_t done, unreachable;
} hub;

static shoal_status hub_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                               Shoal__Welcome *welcome, bool accepting) {
    (void)context, (void)hello;
    if (!accepting) return SHOAL_OK;
    hub.link = link;
    welcome->peer = 1;
    welcome->name = strdup("w");
    welcome->n_slots = 1;
    welcome->slots = malloc(sizeof *welcome->slots);
    welcome->slots[0] = SLOT;
    return SHOAL_OK;
}

static shoal_status hub_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                                size_t bytes) {
    (void)context, (void)link;
    if (kind == SHOAL__KIND__DONE) hub.done = 1;
    if (kind != SHOAL__KIND__FAILED) return SHOAL_OK;
    Shoal__Failed *failed = shoal__failed__unpack(NULL, bytes, body);
    assert_int_equal(failed->instance, INSTANCE);
    assert_int_equal(hub.done, 0); /* that is only told afterwards */
    hub.unreachable = failed->peer;
    shoal__failed__free_unpacked(failed, NULL);
    return SHOAL_OK;
}

static bool failed(void *context) {
    (void)context;
    return hub.unreachable != 0 && hub.done;
}

static bool has_come(void *context) {
    worker *w = context;
    pthread_mutex_lock(&w->lock);
    bool there = base_map_get(&w->slots[0].programs, 1);
    pthread_mutex_unlock(&w->lock);
    return there;
}

static bool is_through(worker *w) {
    pthread_mutex_lock(&w->lock);
    const worker_instance *instance = base_map_get(&w->instances, INSTANCE);
    bool through = !instance || instance->over;
    pthread_mutex_unlock(&w->lock);
    return through;
}

static void join(worker *w) {
    wire_handlers handlers = {.opened = hub_opened, .message = hub_message};
    wire_handle(worker_wire(w), WIRE_HUB, &handlers);
    ok(worker_join(w, "inproc", 1000));
}

/* There are n others, whom nobody can reach: `first`, of slot FAR, and so on. */
static void tell_peers(uint32_t n, uint32_t first) {
    enum { MOST = 50 };
    Shoal__Peers peers = SHOAL__PEERS__INIT;
    Shoal__PeerInfo infos[MOST], *pointers[MOST];
    char *address = (char *)"relay:4";
    uint32_t slots[MOST];
    assert_true(n <= MOST);
    for (uint32_t i = 0; i < n; i++) {
        shoal__peer_info__init(&infos[i]);
        pointers[i] = &infos[i];
        slots[i] = FAR + i;
        infos[i].peer = first + i;
        infos[i].name = (char *)"far";
        infos[i].n_addresses = infos[i].n_slots = 1;
        infos[i].addresses = &address;
        infos[i].slots = &slots[i];
    }
    peers.n_peers = n;
    peers.peers = pointers;
    ok(wire_send(hub.link, SHOAL__KIND__PEERS, &peers.base));
}

/* Asks as another member does; whether it is known not to be here. */
static bool asked_in_vain(worker *w, uint32_t number) {
    uint8_t digest[SHOAL_DIGEST] = {(uint8_t)number, (uint8_t)(number >> 8)};
    pthread_mutex_lock(&w->lock);
    const worker_peer one = {.number = 9, .user = 9};
    const worker_file *file = worker_file_asked(w, &one, digest, 1);
    bool absent = file && file->state == FILE_ABSENT;
    assert_true(w->n_files <= 64 && w->n_foreign == w->n_files);
    pthread_mutex_unlock(&w->lock);
    return absent;
}

/* Others may ask for any number of files that are not here: few are noted, each looked for once. */
static void notes_few_files_for_others(void **state) {
    (void)state;
    setenv("SHOAL_MODELS", "/nonexistent", 1);
    worker *w = start();
    unsetenv("SHOAL_MODELS");
    for (uint32_t i = 0; i < 1000; i++) asked_in_vain(w, i);
    int64_t until = base_now() + 30 * BASE_SECOND;
    while (!asked_in_vain(w, 7777) && base_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(asked_in_vain(w, 7777));
    worker_destroy(&w);
}

typedef struct getter {
    worker *w;
    shoal_status status;
} getter;

static char gone[] = "/tmp/shoal-gone-XXXXXX";
static const uint8_t gone_digest[SHOAL_DIGEST] = {1};

static void *get_file(void *context) {
    getter *g = context;
    worker_instance instance = {.id = INSTANCE};
    worker_task task = {.instance = &instance, .slot = &g->w->slots[0]};
    worker_source source = {.at = {.file_bytes = sizeof gone, .name = "gone"}};
    model_map *map = NULL;
    memcpy(source.file, gone_digest, sizeof source.file);
    g->status = worker_file_get(&task, &source, &map);
    return NULL;
}

/* A file goes as soon as it has been found: of all who have waited for it none gets it. */
static void several_wait_for_a_file(void **state) {
    (void)state;
    enum { MANY = 3 };
    worker *w = start();
    pthread_t threads[MANY];
    getter getters[MANY];
    model_map *map;
    int written = mkstemp(gone);
    assert_int_equal(write(written, gone, sizeof gone), sizeof gone);
    close(written);
    ok(model_map_open(gone, &map));
    ok(worker_offer_file(w, gone_digest, map));
    model_map_release(map);
    pthread_mutex_lock(&w->lock);
    worker_file *file = worker_file_find(w, gone_digest, sizeof gone);
    assert_non_null(file);
    file->state = FILE_LOOKED; /* as if a thread were at it */
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < MANY; i++) {
        getters[i] = (getter){.w = w};
        assert_int_equal(pthread_create(&threads[i], NULL, get_file, &getters[i]), 0);
    }
    for (bool all = false; !all; nap()) {
        pthread_mutex_lock(&w->lock);
        all = file->waiting == MANY;
        pthread_mutex_unlock(&w->lock);
    }
    unlink(gone);
    pthread_mutex_lock(&w->lock);
    file->state = FILE_HERE;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_not_equal(getters[i].status, SHOAL_OK);
        assert_int_equal(getters[i].status, getters[0].status);
    }
    worker_destroy(&w);
}

/* Runs a program that sends to a member whom nobody can reach, until it is through but for that. */
static worker *run_sending(void) {
    worker *w = start();
    join(w);
    tell_peers(1, 4);
    graph *g;
    const float one = 1;
    ok(graph_new(0, &g));
    uint32_t c = test_constant(g, T(F32, 2, SIDE), &one, sizeof one);
    test_add(g, GRAPH_EXCHANGE, VALUES(c),
             ATTRS(graph_int(SHOAL_ATTR_CHANNEL, 0),
                   INTS(MOVES, SHOAL_MOVE_SEND, 0, 0, FAR, 0, 0, 0, 0, 2, SIDE), NONE(TYPES)));
    base_str bytes = {0};
    ok(graph_encode(graph_data(g), false, &bytes));
    graph_destroy(&g);
    Shoal__Run run = SHOAL__RUN__INIT;
    Shoal__SlotRun part = SHOAL__SLOT_RUN__INIT, *parts[] = {&part};
    part.slot = SLOT;
    part.program = 1;
    part.graph = (ProtobufCBinaryData){bytes.size, (uint8_t *)bytes.data};
    run.instance = INSTANCE;
    run.n_slots = 1;
    run.slots = parts;
    ok(wire_send(hub.link, SHOAL__KIND__RUN, &run.base));
    /* There is no I/O thread: nothing is tried before the program is through. */
    ok(wire_wait(worker_wire(w), has_come, w, base_now() + 30 * BASE_SECOND));
    for (int tries = 0; tries < 2000 && !is_through(w); tries++) nap();
    assert_true(is_through(w));
    base_str_fini(&bytes);
    return w;
}

/* A send waits for its link while its program ends; that there is no way then is told all the same:
 * who waits for the data cannot know. */
static void tells_what_it_could_not_deliver(void **state) {
    (void)state;
    worker *w = run_sending();
    ok(wire_wait(worker_wire(w), failed, NULL, base_now() + 30 * BASE_SECOND));
    assert_int_equal(hub.unreachable, 4);
    worker_destroy(&w);
}

/* Nor has the worker to wait for it. */
static void ends_before_it_could_deliver(void **state) {
    (void)state;
    worker *w = run_sending();
    const worker_peer *far = base_map_get(&w->peers, 4 + 1);
    assert_non_null(far);
    assert_int_equal(far->waiting.count, 1);
    worker_destroy(&w);
}

static bool knows_many(void *context) { return ((worker *)context)->peers.count == 50; }
static bool knows_nobody(void *context) { return ((worker *)context)->peers.count == 0; }

static bool is_lost(void *context) { return worker_state(context) != SHOAL_OK; }

/* Nor is a program of another pool run. */
static void old_programs_are_refused(void **state) {
    (void)state;
    worker *w = start();
    join(w);
    Shoal__Run run = SHOAL__RUN__INIT;
    run.instance = INSTANCE;
    run.pool = w->pool + 1;
    ok(wire_send(hub.link, SHOAL__KIND__RUN, &run.base));
    ok(wire_wait(worker_wire(w), is_lost, w, base_now() + 30 * BASE_SECOND));
    assert_non_null(strstr(w->lost_message, "a program of another pool"));
    worker_destroy(&w);
}

/* However many have come and gone. */
static void forgets_who_has_left(void **state) {
    (void)state;
    worker *w = start();
    join(w);
    for (uint32_t i = 0; i < 10; i++) {
        tell_peers(50, 4 + 50 * i);
        ok(wire_wait(worker_wire(w), knows_many, w, base_now() + 30 * BASE_SECOND));
        assert_int_equal(w->peer_of.count, 50);
    }
    tell_peers(0, 0);
    ok(wire_wait(worker_wire(w), knows_nobody, w, base_now() + 30 * BASE_SECOND));
    assert_int_equal(w->peer_of.count, 0);
    worker_destroy(&w);
}

/* A client that has joined another hub gives up what is of its old worker, which is about to end.
 */
static void streams_end_after_their_readers(void **state) {
    (void)state;
    const uint64_t first = 5, second = 6;
    worker *w = start();
    worker_stream *stream, *other;
    ok(worker_stream_open(w, &first, 1, 1000, &stream));
    ok(worker_stream_open(w, &second, 1, 1000, &other));
    worker_stream_close(NULL, &stream);
    assert_null(stream);
    pthread_mutex_lock(&w->lock);
    const worker_stream *known = base_map_get(&w->streams, first);
    assert_non_null(known);
    assert_int_equal(known->n, 1);
    assert_int_equal(known->values[0], first);
    pthread_mutex_unlock(&w->lock);
    worker_destroy(&w);
    worker_stream_close(NULL, &other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_await_what_they_read),
        cmocka_unit_test(few_steps),
        cmocka_unit_test(notes_few_files_for_others),
        cmocka_unit_test(several_wait_for_a_file),
        cmocka_unit_test(views_are_made_anew),
        cmocka_unit_test(goes_on_while_something_comes),
        cmocka_unit_test(old_bytes_meet_nothing),
        cmocka_unit_test(gives_up),
        cmocka_unit_test(keeps_what_is_early),
        cmocka_unit_test(forgets_what_is_early_of_who_has_left),
        cmocka_unit_test(tells_what_it_could_not_deliver),
        cmocka_unit_test(ends_before_it_could_deliver),
        cmocka_unit_test(old_programs_are_refused),
        cmocka_unit_test(forgets_who_has_left),
        cmocka_unit_test(streams_end_after_their_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
