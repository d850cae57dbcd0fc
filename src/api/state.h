/* What the files of this folder share: the session, its trace, its tensors. */
#ifndef API_STATE_H
#define API_STATE_H

#include "base/box.h"
#include "base/map.h"
#include "base/vec.h"
#include "graph/graph.h"
#include "hub/hub.h"
#include "shoal/shoal.h"
#include "worker/worker.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    API_NO_VALUE = 0,
    API_TRACE_NODES = 4096,
    API_WHOLE_NODES = 1 << 18, /* of a scope that is one program */
    API_PROGRAMS = 256,
    API_OUTSTANDING = 64,
    API_TIMES = 128,
    API_RECENT = 2048
};

/* How a tensor came to be, kept for gradients: an operation with its operands, or nothing but a
 * name (a leaf: a tensor that gradients are asked for). Handles to its floating-point results hold
 * it; it holds its operands. All origins together are the tape. Guarded by the session's lock. */
typedef struct api_origin {
    struct api_origin *next, *previous; /* all of the session */
    uint32_t refs;
    uint64_t number; /* later ones have higher ones */
    uint16_t op, n_outputs, n_attrs, n_regions;
    uint32_t n_inputs;
    bool leaf;
    bool again; /* results are computed again rather than kept */
    bool spent; /* its operands have been given back */
    shoal_tensor **inputs;
    shoal_tensor **outputs; /* not held, NULL when gone; of integers and bool: held */
    uint64_t links;         /* operands (63: and behind) that are held for their origins alone */
    uint64_t watched;       /* results whose gradients are asked for */
    const shoal_attr *attrs;
    graph **bodies; /* per region */
    const char *location;
    const char *backward; /* the signal of its gradient, or NULL */
    /* Of the gradient at hand. */
    uint64_t mark;
    uint32_t first;    /* its first result, or the first use of a leaf + 1 */
    shoal_tensor *via; /* by which it was found */
} api_origin;

/* A tensor in a file, or a box of one. Handles to it have no value: each trace that uses it reads
 * it from the file, so that nothing is held of it. */
typedef struct api_stored {
    atomic_int refs;
    shoal_file *file; /* held */
    uint64_t index;
    uint64_t number; /* told as the value's: it is of no value */
    bool decode;     /* its blocks are numbers, not bytes */
    shoal_type type, stored;
    base_box box; /* of the stored elements */
    uint8_t digest[SHOAL_DIGEST];
    char name[256]; /* for messages */
} api_stored;

/* A handle. The session's lock guards everything but refs and next_free. */
struct shoal_tensor {
    atomic_int refs;
    uint16_t result; /* which one of its origin's */
    bool saved;      /* the gradient of its origin reads it */
    bool gone;       /* was not kept when the trace went to the hub */
    bool donated;    /* the value was given away */
    uint32_t era;    /* its session's when it was made */
    uint32_t links;  /* of refs, those of origins that can do without the value */
    bool shared;     /* a copy of a parameter, made for a signal */
    bool is_number;  /* it is a whole number that the program states, as loops begin with */
    int64_t whole_number;
    const char *signal; /* under which it was placed or computed; NULL: none. Names stay for ever */
    struct shoal_tensor
        *base;          /* another handle, which has the value; held. NULL: this one has it */
    api_stored *source; /* that it is; NULL: it is computed, or was given */
    struct shoal_tensor
        *whole;         /* of one index of a batch: all of them; held. NULL: it is no such */
    uint32_t level;     /* of that batch, 0 for none; those inside have higher ones */
    bool each;          /* `whole` has the batch as its first axis; else all are the same */
    api_origin *origin; /* NULL: gradients do not pass through it */
    struct shoal_tensor *next_free; /* given back, to be drained by the next call */
    shoal_session *session;
    shoal_type type;
    uint64_t number;  /* of the handle, for the instruction log */
    uint64_t value;   /* its number at the hub; API_NO_VALUE: it is in the trace */
    uint32_t traced;  /* value in the trace */
    size_t pending;   /* index in session->pending while it is in the trace */
    uint64_t program; /* that computes it, for its times */
};

/* A program that the hub has been given. */
typedef struct api_program {
    uint64_t id;
    uint64_t hash;
    base_str key; /* graph and homes: compared in full */
    uint64_t used;
} api_program;

/* Why a program has failed. */
typedef struct api_failure {
    shoal_status status;
    char *message;
} api_failure;

typedef struct api_times {
    uint64_t program;
    uint32_t n, n_links;
    shoal_slot_time slots[64];
    shoal_link_time links[64];
} api_times;

/* A place in the list that signals count. One that has left keeps it until another takes it over,
 * so that the numbers of the others stay. */
typedef struct api_worker_slot {
    uint32_t slot;
    double weight;
    bool gone;
} api_worker_slot;

/* What a process of the pool has told of events. */
typedef struct api_source {
    uint32_t peer;
    char *name;
    uint64_t next;
    bool asked; /* by the question at hand */
    Shoal__Events *answer;
} api_source;

/* What was recorded of a program: where its lines are. Shared, counted. */
typedef struct api_recorded {
    atomic_int refs;
    graph *graph;
    api_stored **stored; /* that it reads, held: their files stay mapped */
    size_t n_stored;
} api_recorded;

/* A question that a thread of the session waits for the answer of. */
typedef struct api_question {
    shoal_session *session;
    uint64_t token;
    Shoal__Kind kind;         /* of the answer */
    ProtobufCMessage *answer; /* NULL until it is there */
} api_question;

/* A read that has begun. While it is listed, what the worker expects for it is to be taken before
 * the worker goes. */
struct shoal_reading {
    struct shoal_reading *next;
    bool listed;
    shoal_session *session;
    shoal_tensor *tensor; /* held, and its session with it */
    size_t bytes;
    uint64_t value;      /* API_NO_VALUE: nothing is expected any more, and it ends with */
    shoal_status status; /* this */
};

struct shoal_session {
    pthread_mutex_t lock;
    uint32_t life;                /* of the process that opened it: see api_is_here */
    shoal_session *older, *newer; /* of this process */
    atomic_int refs;              /* the session itself and each tensor */
    atomic_bool closed;
    worker *worker;
    hub *hub;                /* of an embedded pool */
    shoal_options options;   /* settled; texts are owned */
    uint32_t waits;          /* calls that wait for the worker without the lock */
    shoal_reading *readings; /* that have begun, and that nobody waits for yet */
    pthread_cond_t calm;     /* waits fell to 0, or an attempt to join again has ended */
    /* Joining again, when the hub was lost. */
    uint32_t era; /* how often that was done: what is older was lost with its hub */
    bool rejoining;
    bool started; /* the thread below, and it has not been joined */
    pthread_t rejoiner;
    uint32_t attempts;
    char *failed; /* why the last attempt did not succeed, */
    char *ended;  /* and why the session before ended */
    uint64_t next_value, next_program, next_number;
    _Atomic(shoal_tensor *) freed;

    graph *trace;
    api_origin *origins;
    uint64_t next_origin, mark;
    base_map inputs;                  /* value -> input of the trace + 1 */
    BASE_VEC(uint64_t) input_values;  /* per input of the trace */
    base_map traced_stored;           /* api_stored -> value of the trace + 1 */
    BASE_VEC(api_stored *) stored;    /* of the trace, held */
    BASE_VEC(shoal_tensor *) pending; /* handles to values of the trace, NULL when given back */
    BASE_VEC(uint64_t) released;      /* values to be told with the next message */
    struct api_upload {
        uint64_t value;
        shoal_type type;
        const void *data; /* in place until the value is released */
        bool withdrawn;   /* while those are taken out that were given back */
    } * uploads;          /* values the hub has not heard of, by number */
    size_t n_uploads, room_uploads;
    BASE_VEC(api_program) programs;
    uint64_t clock;

    /* The workers that signals count, in the order in which they joined. */
    BASE_VEC(api_worker_slot) workers;
    uint64_t workers_epoch;
    int64_t workers_asked;
    uint32_t whole; /* scopes that are one program */

    /* Guarded by `news`, written under the pump. */
    pthread_mutex_t news;
    uint32_t outstanding;
    base_map failures; /* value -> api_failure */
    base_map recorded; /* first output of a run that is on its way or failed -> api_recorded */
    uint64_t recent[API_RECENT]; /* these outputs, in turn */
    uint64_t n_recent;
    api_failure first_failure; /* since the last sync */
    api_times times[API_TIMES];
    uint64_t n_times;
    BASE_VEC(api_question *) questions;
    uint64_t next_token;
    uint64_t events_token;          /* of the question for events; 0: none */
    int64_t events_asked;           /* when; `listening` held */
    bool hub_told;                  /* the hub has answered that one */
    BASE_VEC(api_source *) sources; /* changed with `listening` held as well */
    pthread_mutex_t listening;      /* one thread at a time asks for events; before `news` */
};

/* events.c */
/* What a process tells; takes the message over. Under the pump. */
void api_events_take(shoal_session *session, Shoal__Events *events);
/* Forgets who has told; nobody asks meanwhile. */
void api_events_forget(shoal_session *session);
/* Notes that an operation was recorded, if somebody records; session's lock held. */
void api_event_op(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                  uint32_t n_inputs, const shoal_tensor *output);

/* session.c */
/* Whether the session was opened by this process, and not by one that this was forked from: its
 * threads are there alone, and what goes out on its links is that one's to say. */
bool api_is_here(const shoal_session *session);
/* A session without a worker. */
shoal_status api_session_new(const shoal_options *given, shoal_session **out);
/* Its worker, which tells it what the hub says, and has joined no hub yet. */
shoal_status api_worker_new(shoal_session *session, bool embedded, worker **out);
/* What an error that came says; never OK. */
shoal_status api_status_of(const Shoal__Error *error);
/* Makes the worker of a session, an embedded pool's too, and joins its hub. */
shoal_status api_join(shoal_session *session, worker **out);
/* Numbers values and programs from the first that the hub has left to this session. */
void api_number_from(shoal_session *session);
/* Around a wait without the lock. The first gives the lock up, and counts the wait unless `status`
 * is a failure, which it returns: then there is nothing to wait for, and nothing to end. */
shoal_status api_wait_begin(shoal_session *session, shoal_status status) SHOAL_CHECK_RESULT;
void api_wait_end(shoal_session *session);
/* The same for who holds the lock again. */
void api_wait_over(shoal_session *session);
void api_session_release(shoal_session *session);
void api_failure_forget(shoal_session *session, uint64_t value);
/* Waits until done(context), the session's timeout, its interruption or its end. Without the lock.
 */
shoal_status api_wait(const shoal_session *session, bool (*done)(void *context), void *context);
/* Asks the hub and waits for the answer, to be freed with wire_unpacked_free; called with the lock,
 * which is given up for the wait. */
shoal_status api_ask(shoal_session *session, Shoal__Kind kind, ProtobufCMessage *question,
                     uint64_t *token, ProtobufCMessage **answer);

/* lend.c: whether the same attempt to join a hub may end otherwise when made again. */

/* devices.c */
enum { API_MAX_DEVICES = 64 };
typedef struct api_devices {
    worker_device list[API_MAX_DEVICES];
    uint32_t n;
} api_devices;
/* The names where none are given: SHOAL_BACKEND; NULL when that is not set. */
const char *api_devices_default(void);
/* Devices by names with commas between them: "cpu", all of a backend; "lag:1", one. NULL: all that
 * are found, but for those of `ref` and `null`. Fails with NOT_FOUND, or INVALID. */
shoal_status api_devices_find(const char *names, api_devices *out) SHOAL_CHECK_RESULT;
bool api_may_pass(shoal_status status);

/* rejoin.c */

/* Whether the session is open and its hub there; begins to join it again when it is not. In a
 * scope, also learns which workers there are. At the beginning of a call, with the lock held, which
 * may be given up for a while. */
shoal_status api_check(shoal_session *session);
/* Whether the tensor's value may still be there; with the lock held. */
shoal_status api_check_era(const shoal_tensor *tensor);
/* Forgets what a hub that is gone knew; nobody waits for it. */
void api_forget(shoal_session *session);
/* Ends the attempts of a session that is closed. */
void api_rejoin_end(shoal_session *session);

/* signal.c: with the session's lock held. */

typedef struct api_scope {
    const char *name, *backward; /* NULL: none */
    bool whole;
} api_scope;

/* The innermost scope of this thread in which a signal counts, or NULL. */
const api_scope *api_scope_now(void);
/* The scope that a node of a graph was made in, by what the graph says of it. */
void api_scope_of(const char *text, api_scope *out);
/* Before operands are brought anywhere: learns which workers there are, where signals are
 * described. May give the lock up and wait for the hub. */
shoal_status api_scope_refresh(shoal_session *session);
/* Until api_scope_pop, operations are those of the scope. */
shoal_status api_scope_push(const api_scope *scope);
void api_scope_pop(void);
/* Brings operands into the scope: placed[i] is a new handle, or the operand with a reference more.
 */
shoal_status api_scope_operands(shoal_session *session, const api_scope *scope,
                                shoal_tensor *const *inputs, uint32_t n, shoal_tensor **placed);
/* x placed as a value that a scope makes, as a new handle. */
shoal_status api_scope_adopt(const api_scope *scope, shoal_tensor *x, shoal_tensor **out);
/* Whether what is recorded has to go to the hub. */
bool api_trace_is_full(const shoal_session *session);

/* tensor.c */
/* As shoal_tensor_borrow. map: of the file that the data lie in; NULL: of none. */
shoal_status api_borrow(shoal_session *session, const shoal_type *type, const void *data,
                        const model_map *map, void (*release)(void *context), void *context,
                        shoal_tensor **out);
/* With the session's lock held. */
shoal_status api_place(shoal_tensor *x, const shoal_layout *layout, shoal_tensor **out);
/* Gives memory of copies back that is kept for the next ones; any thread, without a lock. */
void api_spares_clear(void);

/* tape.c: with the session's lock held. */

static inline shoal_tensor *api_base(shoal_tensor *tensor) {
    return tensor->base ? tensor->base : tensor;
}
/* Whether operations of this thread are noted. */
int *api_mode(void);
/* Notes an operation that has been recorded, if gradients pass through it. at: its place, or NULL.
 */
shoal_status api_note(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                      uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                      const shoal_graph *const *regions, uint16_t n_regions, const char *at,
                      shoal_tensor *const *outputs, uint16_t n_outputs);
/* A handle gives its origin up. */
void api_origin_release(shoal_session *session, shoal_tensor *tensor);
/* Gives the operands back: gradients no longer pass through it. */
void api_origin_spend(api_origin *origin);
/* Another handle to the value of x, without an origin. */
shoal_status api_alias(shoal_tensor *x, shoal_tensor **out);
/* A leaf for the handle. */
shoal_status api_origin_leaf(shoal_session *session, shoal_tensor *tensor);

/* batch.c: with the session's lock held. */
/* The innermost batch that an operand is of; 0 for none. */
uint32_t api_batch_level(shoal_tensor *const *inputs, uint32_t n_inputs);
/* A call (whose types are the handles') for all indices of that batch. */
shoal_status api_batch_apply(shoal_session *session, uint32_t level, const graph_call *call,
                             shoal_tensor *const *inputs, const char *at, const char *scope,
                             shoal_tensor **outputs, uint16_t n_outputs);
/* api_alias, through which gradients do not pass outside of the batches either. */
shoal_status api_batch_detach(shoal_tensor *x, shoal_tensor **out);

/* trace.c: with the session's lock held. */
void api_drain(shoal_session *session);
shoal_status api_trace_value(shoal_tensor *tensor, uint32_t *value);
/* A handle to a value of the trace. */
shoal_status api_tensor_traced(shoal_session *session, uint32_t value, shoal_tensor **out);
shoal_status api_tensor_alloc(shoal_session *session, const shoal_type *type, shoal_tensor **out);

/* load.c */
api_stored *api_stored_retain(api_stored *source);
/* NULL is fine. */
void api_stored_release(api_stored *source);
/* The value of a graph that is a tensor of a file. Session's lock held. */
shoal_status api_stored_add(shoal_session *session, graph *g, const api_stored *source,
                            uint32_t *value);
/* The same, of the trace. */
shoal_status api_stored_value(shoal_session *session, api_stored *source, uint32_t *value);
/* Ends the reads that have begun, before their worker goes: they will say so. Session's lock held.
 */
void api_readings_give_up(shoal_session *session, shoal_status why);
/* Forgets the sources of a trace. Session's lock held. */
void api_stored_forget(shoal_session *session);
/* Reads a tensor of a file, here. */
shoal_status api_stored_read(const api_stored *source, void *data);

/* submit.c: with the session's lock held. */

/* A program on its way to the hub. Its arrays are freed by api_submission_fini. */
typedef struct api_submission {
    Shoal__Submit message; /* inputs and outputs are the caller's to fill in */
    uint64_t *inputs;      /* for the caller, or NULL */
    uint64_t *outputs;
    base_str simplified; /* the graph of a program that is new */
    Shoal__Upload *uploads;
    Shoal__Upload **upload_pointers;
} api_submission;

void api_submission_fini(api_submission *s);
/* Back-pressure, at the beginning of what may submit: when too many programs are on their way,
 * waits until half of them are through, rather than to be woken by each. The lock is given up
 * meanwhile, so that whoever is asked for an interruption may wait for a thread that wants it. */
shoal_status api_room(shoal_session *session) SHOAL_CHECK_RESULT;
/* Takes the graph over, and holds the n sources that it reads; with one reference. */
shoal_status api_recorded_new(api_stored *const *stored, size_t n, graph **g,
                              api_recorded **out) SHOAL_CHECK_RESULT;
/* NULL is fine. */
void api_recorded_release(api_recorded *recorded);
/* Nothing is on its way any more; `news` held. */
void api_recorded_forget(shoal_session *session);
/* Sends it with what has been uploaded and given back since the last one. key: what the program is
 * known by. After a failure it was not sent, and nothing is noted of it. */
shoal_status api_submission_send(shoal_session *session, api_recorded *recorded,
                                 const base_str *key, api_submission *s);
/* Submits what is recorded. home: also brings this value into the client's memory, as value
 * *home_value, at `data`. */
shoal_status api_flush(shoal_session *session, shoal_tensor *home, void *data, size_t bytes,
                       uint64_t *home_value);

/* Tells what was given back while no call does, or one waits: for its memory, perhaps, or for the
 * end of a loop. Under the pump; of a session. */
void api_idle(void *session);
/* The same as api_flush, only planned. */
shoal_status api_flush_explain(shoal_session *session, shoal_tensor *home, bool json, char **out);
/* Calls between lock and unlock; *out NULL on failure. */
shoal_status api_apply(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                       uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                       const shoal_graph *const *regions, uint16_t n_regions,
                       shoal_tensor **outputs, uint16_t n_outputs);
const char *api_location(void);
/* The same with a location and a scope of its own. */
shoal_status api_apply_at(shoal_session *session, uint16_t op, shoal_tensor *const *inputs,
                          uint32_t n_inputs, const shoal_attr *attrs, uint16_t n_attrs,
                          const shoal_graph *const *regions, uint16_t n_regions, const char *at,
                          const char *scope, shoal_tensor **outputs, uint16_t n_outputs);

#endif
