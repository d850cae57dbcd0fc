/* What the files of this folder share. Everything here is guarded by worker->lock, but for what is
 * said otherwise. */
#ifndef WORKER_STATE_H
#define WORKER_STATE_H

#include "base/box.h"
#include "base/map.h"
#include "base/speed.h"
#include "base/vec.h"
#include "graph/graph.h"
#include "model/map.h"
#include "shoal/shoal.h"
#include "worker/artifact.h"
#include "worker/files.h"
#include "worker/worker.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- devices ---- */

/* An opened device, and how far it has got with its work. */
typedef struct worker_queue {
    const shoal_backend *backend;
    shoal_device *handle;
    shoal_device_info info;
    char name[64];        /* "cpu", "lag:1" */
    bool host;            /* the host reaches its memory by address */
    pthread_mutex_t turn; /* of calls that one thread makes at a time: others may hand it work */
    shoal_fence *line;    /* the points of what is run; NULL: all is done when a call returns */
    uint64_t submitted;   /* the last point of the line; the thread that runs programs */
    atomic_bool lost;     /* nothing is asked of it any more, */
    atomic_bool stuck;    /* nor given back, as it may stand still in the middle of what it is at */
    char why[160];        /* it is lost; to be read once `lost` is set */
    pthread_mutex_t lock;
    struct worker_transit *transits; /* boxes on their way between it and the host */
    struct worker_kept *kept;        /* copies of what comes from files, the latest used first */
    uint64_t progress;               /* as it was seen last, */
    int64_t moved;                   /* and when it rose */
    int64_t patience;                /* nanoseconds that it may stand still */
} worker_queue;

/* ---- buffers and pieces ---- */

/* A counted block of device memory, or of a user's. The count may be changed without the lock. */
typedef struct worker_buffer {
    atomic_int refs;
    worker_queue *queue; /* whose device the memory is of; NULL: a user's */
    shoal_memory *memory;
    unsigned char *host; /* its address; NULL: the device alone reaches it */
    size_t bytes;
    shoal_point ready;    /* where its bytes are there; no fence: they are */
    atomic_uint arriving; /* boxes on their way into it, before it is ready */
    bool read_only;       /* nothing is written there, ever */
    const model_map *map; /* the file that it lies in, which may have been cut off; NULL: none */
    void (*release)(void *context);
    void *context;
} worker_buffer;

/* The part of a value that a slot holds. */
typedef struct worker_piece {
    uint32_t refs;
    uint64_t value;
    worker_buffer *buffer; /* NULL until it is there */
    shoal_status status;   /* of a failed one */
    char *error;
    uint32_t unreachable; /* as of the task that failed to make it */
} worker_piece;

/* ---- programs ---- */

/* A step for one device. */
typedef struct worker_compiled {
    shoal_executable *executable;
    int32_t
        *in_place; /* per output: the input that ends here and whose memory it may take; or -1 */
} worker_compiled;

typedef struct worker_step {
    bool exchange;
    /* computing: a part of the graph without exchanges; compiled when it first runs, for the slot's
     * device or for the one beside it */
    graph *graph;
    bool aside; /* the slot's device cannot do it */
    worker_compiled compiled[2];
    shoal_binding *bindings; /* room for a run */
    shoal_point *wait;       /* room for the points it waits for */
    uint32_t first, last;    /* its nodes, of the program's graph */
    const char *label;       /* what it does; NULL until somebody records */
    uint32_t n_inputs, n_outputs;
    const uint32_t *inputs;  /* values of the program */
    const uint32_t *outputs; /* (of an exchange: its results) */
    const bool *frozen;      /* per input: it comes from a file */
    /* exchange */
    uint32_t channel;
    bool has_operand;
    uint32_t operand;
    uint32_t rank;
    uint32_t n_moves, n_receives;
    const int64_t *moves; /* as the attribute lists them */
    uint32_t after;       /* the exchange that brings its operand, to be passed on; or NO_NODE */
    bool copies;          /* some of it stays in the slot */
    /* exchanges before this step whose results it is the first to read */
    uint32_t n_awaited;
    const uint32_t *awaited;
    /* values that nothing needs after this step */
    uint32_t n_dead;
    const uint32_t *dead;
} worker_step;

/* A value that comes from a file. */
typedef struct worker_source {
    graph_source at;
    shoal_type type;
    uint8_t file[SHOAL_DIGEST];
    uint64_t hash; /* of all this but the name */
} worker_source;

typedef struct worker_program {
    struct worker_program *next; /* among those to be freed */
    uint32_t users;              /* tasks */
    uint64_t id;
    graph *graph;
    base_arena arena;
    const worker_source **sources; /* per value; NULL: it comes from elsewhere */
    uint32_t n_steps, n_receives;
    uint64_t n_nodes; /* that compute */
    worker_step *steps;
} worker_program;

/* ---- instances ---- */

typedef struct worker_receive {
    uint32_t channel, ordinal; /* sorted by these */
    uint32_t from;             /* slot */
    uint32_t step;
    worker_buffer *buffer; /* NULL: it has come, and a step has waited for it */
    int64_t dims[SHOAL_MAX_RANK];
    base_box box;
    size_t element;
    uint64_t bytes, have;
    uint64_t *chunks;      /* which are there, as bits, once they come in no order; else NULL */
    int64_t began, ended;  /* when the first and the last byte came, */
    uint64_t first;        /* the bytes that came first, */
    int64_t timed;         /* and when they were there */
    bool busy;             /* another slot's executor is writing */
    unsigned char *staged; /* what has come for memory that the host does not reach */
} worker_receive;

typedef enum worker_task_state {
    TASK_QUEUED,
    TASK_RUNNING,
    TASK_SUBMITTED, /* its device is at it, the thread that runs programs is through */
    TASK_DONE
} worker_task_state;

/* One slot's part of an instance. */
typedef struct worker_task {
    struct worker_instance *instance;
    struct worker_slot *slot;
    struct worker_task *next; /* in the slot's queue, or among those that its device is at */
    worker_program *program;
    worker_piece **inputs, **outputs;
    worker_buffer **values; /* per value of the program; only the thread that runs the task */
    uint32_t step;
    uint32_t *waiting; /* per step, of exchanges: receives not complete, and copies not made */
    struct worker_passing *passing; /* exchanges whose operands have not come */
    uint32_t n_receives;
    worker_receive *receives;
    worker_task_state state;
    uint64_t before;   /* the point of the device's line when it began, */
    shoal_point end;   /* and the one at its end, */
    bool reached;      /* which was reached */
    shoal_status last; /* so */
    int64_t began;     /* when the first of it was submitted */
    atomic_bool ended; /* there is a status, or `unmade`: to be seen without the lock */
    char *unmade;      /* why what it was to send was not made, while it still runs */
    shoal_status status;
    char *error;
    uint32_t unreachable; /* the peer because of which it failed; 0: another reason */
    uint64_t busy;        /* nanoseconds of computing */
    bool stops;           /* of a loop: its result says that this round is the last */
    bool remote;          /* it receives from other processes */
    bool waits;           /* for others, to begin or to go on */
} worker_task;

/* Data that came before its program did. */
typedef struct worker_staged {
    struct worker_staged *next;
    uint32_t peer; /* who sent it: whether that is who owes it shows when the program comes */
    uint32_t channel, ordinal;
    uint64_t bytes;  /* of all of it */
    uint64_t offset; /* of what is there: in no order it is several of these */
    base_str data;   /* what is there */
    int64_t began, ended;
} worker_staged;

typedef struct worker_instance {
    uint64_t id, session;
    bool known;               /* its program has arrived */
    struct worker_loop *loop; /* of which it is a round; NULL: none */
    uint64_t round;
    int64_t since, came; /* when its first data came, if that was before, and its program */
    uint32_t n_tasks, n_done, n_passing; /* n_passing: exchanges that are passed on right now */
    atomic_uint sends; /* boxes that have not gone out, and a bit for `over`: see leave.c */
    struct worker_instance *gone; /* the next of those of which all has */
    bool over;                    /* all tasks are through, and boxes have not gone out; */
    int64_t over_since;
    base_str report; /* then the hub is told this Done, unless it is a round of a loop */
    worker_task *tasks;
    worker_staged *staged;
    shoal_status status; /* the first failure */
    char *error;
} worker_instance;

/* ---- loops ---- */

/* A slot's part of a loop. */
typedef struct worker_lap {
    struct worker_slot *slot;
    worker_program *program;
    worker_piece **inputs;  /* of the first round, or, unless they are carried, of each */
    worker_piece **carried; /* per input: from the round before, for the next */
    worker_piece **outputs; /* of the last round */
    uint32_t *carry;        /* per input: 1 + the output that it is in the next round, or 0 */
    uint32_t stop;          /* 1 + the output that ends the loop, or 0 */
    worker_stream *stream;  /* of a client's memory, as long as it is open; not held */
    uint64_t round;         /* that it is at */
    uint64_t busy;
    bool ended;
} worker_lap;

/* Somebody who receives from here, and the rounds that it is through with. */
typedef struct worker_paced {
    uint32_t peer;
    uint64_t through;
} worker_paced;

typedef struct worker_way {
    uint32_t from, to; /* slots */
    uint64_t bytes, ns;
} worker_way;

typedef struct worker_loop {
    uint64_t session;
    uint64_t first, rounds; /* numbers of instances: the first, and how many there may be; */
    uint64_t upto;          /* rounds that are made: those before the first that failed */
    uint32_t ahead;         /* rounds that one slot may be before another */
    uint32_t n_laps, n_ended;
    worker_lap *laps;
    worker_instance *
        *live; /* rounds that are made, by number modulo ahead + 2: one waits to begin */
    uint32_t n_live;
    uint64_t through, told; /* rounds that are over here; as it was told last */
    bool stalled;           /* the memory slot waits for others of this process */
    BASE_VEC(worker_paced) paced;
    BASE_VEC(uint32_t) senders; /* peers that want to be told */
    BASE_VEC(worker_way) traffic;
    shoal_status status; /* the first failure */
    char *error;
} worker_loop;

struct worker_stream {
    atomic_int holders; /* the worker, and who reads it, of which either may end first */
    uint32_t n;
    uint64_t *values;
    BASE_VEC(worker_buffer *) queue; /* n for each round */
    uint64_t next, taken;            /* rounds that have come, and that the reader has */
    int64_t taken_at, patience; /* the last change; nanoseconds that the loop waits for another */
    bool full, wide, ended;
    uint64_t rounds; /* in all, once it has ended */
    shoal_status status;
    char *error;
};

/* ---- the worker ---- */

typedef struct worker_slot {
    struct worker *worker;
    uint32_t number;
    bool home, parted; /* the process's memory: no device, no thread; lost, and the hub knows */
    worker_device device;
    worker_queue own;    /* its device, */
    worker_queue *aside; /* and the processor, which does what that cannot; NULL: nothing does */
    bool told[GRAPH_OP_BUILT_IN]; /* operations that its device lacks, which are done aside */
    uint32_t n_told;              /* failures of it whose work went aside */
    uint64_t last_told;           /* hash of what was said of the last one */
    base_map pieces;              /* value -> worker_piece */
    base_map programs;            /* id -> worker_program */
    worker_program *garbage;      /* to be freed by the thread that runs programs */
    worker_task *head, **tail;
    worker_task **turn; /* between rounds of a loop: from there on others have not had theirs, */
    int64_t left;       /* and may take so many nanoseconds; NULL: all */
    worker_task *submitted, **submitted_end; /* that its device is at, */
    int64_t idle_at;                         /* which was through with the last of those before; */
    bool awaited;                            /* somebody waits until they have ended */
    atomic_bool queued;                      /* there is a head: to be seen without the lock */
    uint32_t measure;      /* what the hub wants to know of it: bits of base_figure */
    bool advancing, again; /* home: some thread is at it */
    pthread_t thread;
    bool has_thread;
} worker_slot;

/* Another process of the pool. */
typedef struct worker_peer {
    uint32_t number;
    uint32_t user;        /* the same number for the same user on the same machine */
    bool client;          /* it computes nothing: what it owes it has */
    bool callable, calls; /* we can call it, as far as addresses go; it can call us */
    size_t staged_bytes;  /* of its data that came early */
    uint32_t staged;      /* and how many pieces */
    wire_account *asked;  /* parts of files that it has asked for, on their way; NULL: none yet */
    uint32_t asking;      /* its questions that wait for an answer */
    char *name;
    char *address;
    wire_link *link;
    uint64_t taken;      /* bytes that it has been sent when something was seen to leave last, */
    int64_t taken_at;    /* and when; 0: nothing waits for it; */
    uint64_t slow_taken; /* and so at the beginning of a time in which much has to leave */
    int64_t slow_at;
    bool connecting, gone;
    BASE_VEC(struct worker_outgoing) waiting; /* until the link is there */
} worker_peer;

typedef struct worker_outgoing {
    wire_transfer transfer;
    wire_source source;
} worker_outgoing;

/* Where a read goes. */
typedef struct worker_expected {
    worker_buffer *buffer;
    bool done;
} worker_expected;

struct worker {
    base_events events; /* needs no lock */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* receives complete, tasks queued, stop */
    uint32_t pumping;       /* executors that wait at the pump instead */
    int64_t silence; /* nanoseconds: who waits in vain for longer says so: 60 s, but in tests */
    wire_peer *wire;
    wire_link *hub;
    bool heard;      /* the hub listens to News, */
    uint64_t news;   /* which had this hash last, */
    int64_t news_at; /* at this time */
    worker_client client;
    char *name;
    uint32_t number, session;
    uint32_t user; /* see worker_peer */
    char *address; /* as the others are told */
    uint64_t pool, epoch;
    uint64_t low; /* no instance below this one is under way any more */
    uint32_t n_slots;
    worker_slot *slots;
    worker_queue *processor; /* beside devices that are none; a slot's, or the one below */
    worker_queue spare;
    base_map instances;              /* id -> worker_instance */
    base_map cancelled;              /* id -> itself, for data that is still on its way */
    uint32_t n_leaving;              /* instances that are over but for what they send */
    _Atomic(worker_instance *) gone; /* of which all has gone out, as it is found by any thread; */
    worker_instance *ending;         /* and those that rounds of their loop are before */
    uint64_t staged_bytes;
    base_map peers;    /* number + 1 -> worker_peer */
    base_map peer_of;  /* slot + 1 -> worker_peer */
    base_map expected; /* value -> worker_expected */
    char *models;      /* folders with colons between them: where files are looked for */
    base_map files;    /* the beginning of a digest -> worker_file */
    uint32_t n_files, n_foreign, n_mapped;
    uint64_t files_used, files_wanted; /* counts */
    worker_fetch fetch;
    uint64_t file_transfers;          /* the last number that a part was asked for by */
    struct file_ask *asks, *last_ask; /* of others, about files that are here: in order */
    pthread_t seekers[2]; /* look for files: what is needed here, and fetch it; what others need */
    bool seeks[2];
    worker_artifacts artifacts;
    base_map streams; /* first value -> worker_stream */
    BASE_VEC(worker_loop *) loops;
    shoal_status lost; /* why the hub is gone */
    char *lost_message;
    bool joined, refused;
    atomic_bool stopping; /* set under the lock */
};

enum {
    WORKER_MAX_STAGED =
        1536 << 20,            /* bytes of early data: one user's at most half of what is left, */
    WORKER_MAX_PIECES = 16384, /* in so many pieces, */
    WORKER_MAX_EARLY_S = 120,  /* for so long */
    WORKER_SILENT_BYTES =
        60 << 10, /* of a client's link in one silence, each way: else it owes, or takes, in vain */
    /* In LATE silences more has to have come, or gone, while somebody else waits. */
    WORKER_LATE = 10,
    WORKER_LATE_BYTES = WORKER_LATE * 60 * (64 << 10),
    WORKER_GRAPH_LIMIT = 256 << 20
};

/* devices.c */
/* Without a device: the process's own memory. */
shoal_status worker_slot_open(worker *w, worker_slot *slot, const worker_device *device);
/* Opens the devices as slots, and what stands beside them. Those that can be left out are, where
 * they cannot be opened, as long as one is left. */
shoal_status worker_devices_open(worker *w, const worker_options *options);
/* Bytes for values: of the device itself (*near) and, where that has its own memory, of the
 * machine's for what does not fit, of which n slots have equal shares. */
uint64_t worker_capacity(const worker_slot *slot, uint32_t n, uint64_t *near);
/* Tells the hub of devices that are lost, and lets go of what they held: before anything that came
 * of it is told. Lock held. */
void worker_part(worker *w);

/* queue.c */
/* Nanoseconds, as a variable of the environment says in whole seconds. */
int64_t worker_patience(const char *variable, int64_t otherwise);
/* Opens a device. */
shoal_status worker_queue_open(worker_queue *queue, const worker_device *device);
/* Waits for what is under way, as long as the device gets on. */
void worker_queue_settle(worker_queue *queue);
/* Does so, and closes it. */
void worker_queue_close(worker_queue *queue);
/* Calls of the backend of which a device takes one at a time, in the slot's thread or that of a
 * slot which it stands beside. */
shoal_status worker_queue_compile(worker_queue *queue, const shoal_graph *g,
                                  const shoal_compile_options *options,
                                  shoal_compile_report *report, shoal_executable **out);
void worker_queue_executable_free(worker_queue *queue, shoal_executable *executable);
bool worker_queue_supports(worker_queue *queue, const shoal_graph *g, const shoal_node *node);
/* Runs with these points to wait for, whose order it changes. Where one of them fails, it does. */
shoal_status worker_queue_run(worker_queue *queue, shoal_executable *executable,
                              const shoal_binding *bindings, size_t n, shoal_point *wait,
                              size_t n_wait);
/* Copies a box within the device, in the order of its line, when the source is ready. */
shoal_status worker_queue_copy(worker_queue *queue, const worker_buffer *to,
                               const worker_buffer *from, const shoal_box *box);
/* Where all that was run is done. */
shoal_point worker_queue_end(const worker_queue *queue);
/* The device has said by a status that it is lost (another status: nothing happens): all that is
 * under way there has failed, or will. The message is this thread's. */
void worker_queue_note(worker_queue *queue, shoal_status status);
/* The same for the end of what cannot be done on another device: a move, or what was run before. A
 * device that fails there (IO) is not to be relied on any more. */
void worker_queue_ended(worker_queue *queue, shoal_status status);
/* Looks whether the device gets on. When it has not for long, it is lost: all that is waited for
 * fails. */
void worker_queue_watch(worker_queue *queue);
/* Waits for a point, while the device gets on; gives up with CLOSED when *stop becomes true. */
shoal_status worker_queue_wait(worker_queue *queue, shoal_point point, const atomic_bool *stop);

/* The end of a move: status and message, and the packed box, which is the callee's. */
typedef void (*worker_moved)(void *context, shoal_status status, void *packed);
/* Reads a box of a buffer once that is ready, as packed elements; `then` is called at the end, in
 * any thread, maybe before this returns. Fails, without calling, without memory. */
shoal_status worker_box_read(worker_buffer *buffer, const int64_t *dims, const base_box *box,
                             size_t element, worker_moved then, void *context);
/* Writes packed elements, which are freed by free(); one of those that the buffer waits for. */
shoal_status worker_box_write(worker_buffer *buffer, const int64_t *dims, const base_box *box,
                              size_t element, void *packed);

/* place.c: only the thread that runs programs. */
/* Copies a box between two values of a task; the target expects it. */
shoal_status worker_copy(worker_task *task, uint32_t to, uint32_t from, const shoal_box *box);
/* Has a value lie on a device. */
shoal_status worker_bring(worker_task *task, uint32_t value, worker_queue *queue);

/* buffer.c */
shoal_status worker_buffer_new(worker_queue *queue, size_t bytes, worker_buffer **out);
/* On the slot's device, or beside it when that has no memory left. */
shoal_status worker_buffer_for(worker_slot *slot, size_t bytes, worker_buffer **out);
shoal_status worker_buffer_wrap(void *data, size_t bytes, void (*release)(void *), void *context,
                                worker_buffer **out);
worker_buffer *worker_buffer_retain(worker_buffer *buffer);
void worker_buffer_release(worker_buffer *buffer);
/* The buffer is ready once one more box has been written to it; nothing where the host reaches it.
 */
shoal_status worker_buffer_expect(worker_buffer *buffer);
/* One of those boxes is there, or never will be. */
void worker_buffer_arrived(worker_buffer *buffer, shoal_status status);
/* The buffer is ready at a point. */
void worker_buffer_at(worker_buffer *buffer, shoal_point point);
/* Fills all of it. */
shoal_status worker_buffer_fill(worker_buffer *buffer, const void *bytes, size_t n);
/* Pieces; all with the lock held. */
worker_piece *worker_piece_add(worker_slot *slot, uint64_t value);
void worker_piece_release(worker_piece *piece);
void worker_piece_forget(worker_slot *slot, uint64_t value);

/* program.c: under the pump. */
/* slot: whose device is asked what it can do; NULL: it can do everything. */
shoal_status worker_program_new(worker_slot *slot, uint64_t id, const void *bytes, size_t n,
                                worker_program **out);
void worker_program_destroy(worker_slot *slot, worker_program **program);
shoal_move worker_move(const worker_step *step, uint32_t i);
/* start_in, start_out, size of move i: rank numbers each. */
const int64_t *worker_move_box(const worker_step *step, uint32_t i);
/* Floating-point operations of a node, or elements that it moves. */
double worker_node_cost(const shoal_graph *g, const shoal_node *node);

/* receive.c */
/* Makes the receives of a task; lock held. */
shoal_status worker_receives_make(worker_task *task);
/* The receive of an instance that a box is for; NULL: there is none. Lock held. */
worker_receive *worker_receive_find(worker_instance *instance, uint32_t channel, uint32_t ordinal,
                                    worker_task **task);
/* Takes bytes of a box: straight to where they belong, or to where they wait until all have come,
 * when the host does not reach that. Without the lock, while the receive is busy. */
shoal_status worker_receive_put(worker_receive *receive, uint64_t offset, const void *bytes,
                                size_t n);
/* All of a box is there. Lock held. */
void worker_receive_complete(worker_task *task, worker_receive *receive);
/* Tells the hub what has changed: once a second at most. Under the pump. */
void worker_news(worker *w);
shoal_status worker_data(void *context, wire_link *link, const wire_transfer *transfer,
                         uint64_t offset, const void *bytes, size_t n);
/* What came early for an instance that is now known; lock held. */
void worker_staged_apply(worker *w, worker_instance *instance);
void worker_staged_drop(worker *w, worker_instance *instance);
/* What came early from a member that has left: of instances that the hub has not told of, as it
 * would have done before it told of the leaving. Lock held. */
void worker_staged_forget(worker *w, uint32_t peer);
/* No instance below this number is under way any more: what was kept for such can go. Lock held. */
void worker_low(worker *w, uint64_t low);

/* send.c */
/* Starts the sends of the task's current exchange, and does its copies; without the lock. */
shoal_status worker_exchange_send(worker_task *task);
/* Passes on what has come for exchanges that did not wait for it, whereupon the instance may be
 * over and the task gone. Lock held, but not meanwhile. */
void worker_pass_on(worker_task *task);
void worker_passing_drop(worker_task *task);

/* source.c: only the thread that runs programs, but for the first */
/* Notes which values of a program come from files. */
shoal_status worker_sources_find(worker_program *program, const shoal_graph *g);
/* Has a value that comes from a file lie on a device, or where the host reaches it (NULL). */
shoal_status worker_source_bind(worker_task *task, uint32_t value, worker_queue *queue);
/* Whether it computes with files where they are mapped. */
bool worker_maps(const worker_queue *queue);
/* Has those that are results of a task lie on its device. */
shoal_status worker_sources_output(worker_task *task);
/* Gives back the copy that was not used for longest; false when there is none to spare. Any thread.
 */
bool worker_kept_drop(worker_queue *queue);
void worker_kept_fini(worker_queue *queue);

/* leave.c */
/* Ends an instance if its tasks are done, as soon as what they send has gone out. Lock held. */
void worker_instance_end(worker *w, worker_instance *instance);
/* Tells the hub that this process's part of an instance is through. Lock held. */
void worker_report_done(worker *w, worker_instance *instance);
/* A box has gone out, or will not. Any thread, with the lock or without. */
void worker_sent(worker *w, worker_instance *instance);
/* Gives up what an instance still sends. Lock held. */
void worker_sends_drop(worker *w, uint64_t instance);
/* Under the pump, now and then: who takes nothing of what waits for it is told of to the hub. */
void worker_leaving_watch(worker *w);

/* peers.c */
void worker_peers_update(worker *w, const Shoal__Peers *peers);
/* Calls a peer. Who cannot be called, but can call, does so once it knows that something is to come
 * (worker_peers_call): it is given the time before it is reached by way of the hub. Lock held. */
shoal_status worker_peer_connect(worker *w, worker_peer *peer, bool may_wait);
/* Calls those from whom the instance has something to come, and who cannot call. Lock held. */
void worker_peers_call(worker *w, const worker_instance *instance);
void worker_peer_opened(worker *w, wire_link *link, uint32_t number);
void worker_peer_free(worker_peer *peer);
/* A link to another worker ended or could not be made. */
void worker_peer_closed(worker *w, worker_peer *peer, shoal_status why, const char *message);

/* measure.c */
/* Figures as a message has them: those that are known, and how many. */
size_t worker_figures(const base_speeds *speeds, Shoal__Figure room[BASE_FIGURES],
                      Shoal__Figure *out[BASE_FIGURES]);
/* What was measured by earlier processes; 0 for what was not. */
base_speeds worker_speeds_kept(const worker_slot *slot);
/* Measures figures (bits), and keeps them; out: 0 for those that the device does not have. Only the
 * thread that runs programs. */
shoal_status worker_speeds_measure(worker_slot *slot, uint32_t what, base_speeds *out);
/* Measures what the hub has asked for, and tells it. Lock held, but not while measuring. */
void worker_measure(worker_slot *slot);

/* record.c */
/* The hub asks what there is. Under the pump. */
void worker_record(worker *w, const Shoal__Record *record);
/* Of a task; a box that goes; one that comes. Notes nothing while nobody records; at 0: now. */
void worker_event(const worker_task *task, shoal_event_kind kind, shoal_event_phase phase,
                  int64_t at);
void worker_event_send(worker *w, shoal_event_phase phase, const wire_transfer *transfer,
                       uint32_t from, uint32_t to);
void worker_event_receive(const worker_task *task, const worker_receive *receive,
                          shoal_event_phase phase, int64_t at);
/* What came over links, per pair of slots, to be freed; nothing without memory. Lock held. */
void worker_count_traffic(const worker_instance *instance, Shoal__Traffic **out,
                          Shoal__Traffic ***pointers, size_t *count);

/* loop.c: all with the lock held, but worker_pace */
/* The loop, under way, that an instance is of; NULL: none. */
worker_loop *worker_loop_of(const worker *w, uint64_t instance);
/* Begins one; *out: its first round, to be queued, even when the loop has failed already. */
shoal_status worker_loop_begin(worker *w, const Shoal__Run *run, worker_program *const *programs,
                               worker_slot *const *slots, worker_instance **out);
/* A round, made when it is not there; NULL with a message. */
worker_instance *worker_loop_round(worker *w, worker_loop *loop, uint64_t round);
/* Whether data for a round may come by now from a member. */
bool worker_loop_expects(const worker_loop *loop, uint32_t peer, uint64_t instance);
/* Fails it from a round on: those before are made and brought, unless some member cannot be
 * reached. The first failure is the loop's; the hub is told of each that is of an earlier round. */
void worker_loop_fail(worker *w, worker_loop *loop, uint64_t round, shoal_status status,
                      const char *message, uint32_t unreachable);
/* Whether the task's slot is not too far ahead; true for what is no round of a loop. */
bool worker_lap_may_begin(const worker_task *task);
/* The thread that runs programs is through with a round: the task of the next, or NULL. */
worker_task *worker_lap_end(worker_task *task);
/* All tasks of a round are done: frees it, and the loop with its last. */
void worker_loop_round_end(worker *w, worker_instance *instance);
void worker_loop_free(worker_loop *loop);
/* A member says how far it is. */
void worker_pace(worker *w, wire_link *link, const Shoal__Pace *pace);

/* stream.c: with the lock held */
bool worker_stream_has_room(const worker_stream *stream);
void worker_stream_push(worker_stream *stream, const worker_lap *lap, const worker_task *task);
void worker_stream_end(worker_stream *stream, uint64_t rounds);
/* Ends a loop that waits for its reader for too long. Without the lock. */
void worker_streams_watch(worker *w);
/* The worker ends: its buffers go, streams stay with who has them. */
void worker_streams_end(worker *w);

/* place.c */
/* Whether the result that ends a loop is true; waits for it. */
shoal_status worker_stops(worker_task *task, uint32_t output, bool *stops);

/* worker.c */
/* The slot of this process with a number of the pool's; NULL: it is another's. */
worker_slot *worker_slot_of(worker *w, uint32_t number);

/* home.c */
/* Has whoever runs the pump look again at what it waits for. */
void worker_wake_pump(worker *w);
/* Goes on with the memory slot's tasks, as far as they go; without the lock, any thread. */
void worker_home_advance(worker_slot *slot);

/* owed.c */
/* What somebody had brought when a task began to wait for it; all 0 at first. */
typedef struct worker_owed {
    int64_t since, late_since;
    uint64_t link, brought;
} worker_owed;
/* Tells the hub when the task has waited for another member for long. To be called now and then by
 * who waits; lock held. */
void worker_owed_watch(const worker_task *task, worker_owed *owed);

/* executor.c */
/* Has executors look again at what they wait for, when it was not a handler that changed it. Lock
 * held. */
void worker_changed(worker *w);
void *worker_executor(void *slot);
/* Binds the inputs of a task; by now everything before it has run. Lock held. */
shoal_status worker_task_bind(worker_task *task);
/* Receives not complete that the task's current step needs: at the end, all of them. Lock held. */
uint32_t worker_task_missing(const worker_task *task);
/* Whether a receive is one that the task's current step needs. */
bool worker_task_awaits(const worker_task *task, const worker_receive *receive);
/* Lets go of the values that end with a step. */
void worker_task_bury(worker_task *task, const worker_step *step);
/* Has a loop's task say whether its round is the last. */
shoal_status worker_task_stop(worker_task *task);
/* Gives the outputs to their pieces, as soon as they will be there in any case. Lock held. */
void worker_task_give(worker_task *task);
/* A task is through, well or not. Lock held. */
void worker_task_done(worker_task *task);
/* Puts a task into its slot's queue, and takes one out. Lock held. */
void worker_task_put(worker_task *task, worker_task **at);
void worker_task_take(worker_task **at);
/* Where the task stands that is next on a slot that has some; NULL: the first, which cannot begin
 * yet. Its turn ends with taking it out. Lock held. */
worker_task **worker_next(worker_slot *slot);
void worker_turn_end(worker_task *task, worker_task **at);
/* Fails the tasks of an instance that are not done. Lock held. */
void worker_instance_end_tasks(worker_instance *instance, shoal_status status, const char *message,
                               uint32_t unreachable);
/* rounds: of a loop, those before the one that failed. */
void worker_report_failure(worker *w, uint64_t instance, uint64_t rounds, shoal_status status,
                           const char *message, uint32_t unreachable);
/* Frees the programs that the hub has dropped, once no task runs them, whatever the hub says; the
 * executor, lock held but while the device frees. */
void worker_collect_garbage(worker_slot *slot);
bool worker_has_garbage(worker_slot *slot);
/* Takes a finished or failed task off its instance; lock held. Returns the instance when it is
 * complete: report and free it with worker_instance_finish, without the lock. */
void worker_task_fail(worker_task *task, shoal_status status, const char *message);
/* unreachable: the peer that is the reason, or 0. A round's number: its loop, from there on. */
void worker_instance_cancel(worker *w, uint64_t id, shoal_status status, const char *message,
                            uint32_t unreachable);
void worker_instance_free(worker *w, worker_instance *instance);
/* Frees its tasks alone. Lock held. */
void worker_tasks_fini(worker_instance *instance);
/* One that could not be begun: the hub is told, and it is forgotten. Lock held. */
void worker_instance_refuse(worker *w, worker_instance *instance, shoal_status status,
                            const char *message);

#endif
