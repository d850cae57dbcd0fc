/* The hub's state. It changes in hub_apply and nowhere else, from one event at a time, so that a
 * journal of events is enough to rebuild it. */
#ifndef HUB_STATE_H
#define HUB_STATE_H

#include "base/clock.h"
#include "base/events.h"
#include "base/map.h"
#include "base/speed.h"
#include "base/vec.h"
#include "hub/artifacts.h"
#include "hub/hub.h"
#include "hub/limits.h"
#include "plan/lower.h"
#include "shoal/shoal.h"

/* Programs of a user that a slot has been given and that are not through. */
typedef struct hub_share {
    uint32_t user, in_flight;
} hub_share;

/* A slot of a peer. Numbers are never used again. */
typedef struct hub_slot {
    uint32_t number;
    struct hub_peer *peer;
    bool compute;
    char *backend, *device;
    char *id;    /* "opencl:1" */
    char *label; /* "w1/opencl:1" */
    uint32_t threads;
    double weight;            /* given; 0: by its speed */
    base_speeds speeds;       /* that plans are made with; 0: not measured yet */
    base_speeds learnt;       /* by what its programs took; 0: nothing */
    uint32_t asked, answered; /* to measure: bits of base_figure */
    uint64_t memory;          /* 0: no limit known */
    uint64_t near;            /* of these on the device itself */
    bool maps;                /* it computes with files where they are mapped */
    uint64_t used;            /* by values */
    uint64_t reserved;        /* by instances on their way */
    uint32_t in_flight;
    BASE_VEC(hub_share) shares; /* the same by users */
    uint64_t instances, busy_ns, nodes;
    uint64_t sent, received; /* bytes */
} hub_slot;

/* Whose members are; kept while there are any, or what they sent waits for others. */
typedef struct hub_user {
    uint32_t number;
    uint8_t key[WIRE_KEY]; /* of others than this hub's own user */
    uint32_t members;
    wire_account *relayed; /* bytes that wait for others, by way of the hub */
    uint64_t held;         /* bytes that the hub has for its sessions */
    uint64_t wanted;       /* what its questions for artifacts count that are not answered */
    int64_t asked_at;      /* when its members asked for something last, */
    int64_t free_at;       /* and when they have waited for the hub's time that they had */
} hub_user;

/* A message that waits for its turn. */
typedef struct hub_ask {
    Shoal__Kind kind;
    size_t bytes;
    uint8_t *body;
} hub_ask;

typedef struct hub_peer {
    uint32_t number, pid;
    wire_link *link;
    Shoal__Role role;
    char *name, *host, *address;
    char *owner;           /* whose it is, for people */
    struct hub_user *user; /* the same for the same user on the same machine */
    uint8_t key[WIRE_KEY]; /* of its process: what members know it by */
    uint64_t memory;  /* bytes, of its machine or of what it may take of it; 0: it has not told */
    uint64_t machine; /* which that is, and what it has of it: see Hello */
    uint32_t cores, online;
    double sealing;
    uint32_t session; /* of a client; 0: none */
    bool lends;       /* a worker, or a client that computes: all are told of it, and it of all */
    bool known;       /* it has been told of the others, and they of it, */
    uint64_t epoch;   /* in this one, last */
    uint32_t n_slots;
    hub_slot **slots;
    BASE_VEC(uint64_t) free_values, free_programs; /* to be told at the end of this event */
    /* Of a client: what may lie in its memory to make lost values again, and what does. */
    uint64_t spare, kept;
    uint64_t records, replay_ns; /* how long the way back is: see hub_record */
    uint64_t recorded;           /* bytes that count on its user for that */
    uint64_t kept_before;        /* after the last cut */
    double cut_after;            /* nanoseconds of replay that are worth a cut */
    bool cutting;
    bool bare;         /* some of its values may neither have a copy nor be made again */
    uint64_t relayed;  /* bytes that came to it by way of the hub */
    Shoal__News *news; /* the last that it has told, or NULL */
    uint64_t read;     /* bytes that it had been sent when it was last looked at, */
    int64_t unread;    /* and since when it has read no more; 0: nothing waits */
    uint32_t waiting;  /* what it asked for that is not through, */
    uint32_t queued;   /* and its instances that are not handed out */
    BASE_VEC(Shoal__Outcome *) outcomes; /* of those that are, to be told */
    base_arena told;                     /* what they consist of */
    bool blocked;      /* while handing out: its next instance has to wait for memory */
    uint64_t strange;  /* messages that were dropped */
    int64_t events_at; /* when it last asked for events, and how often in quick succession */
    uint32_t events_many;
    uint64_t events_token;          /* of its last question for events */
    BASE_VEC(uint32_t) events_from; /* who is yet to answer it */
    BASE_VEC(hub_ask) asks;         /* that wait for its user's turn, */
    size_t next_ask;                /* from here on */
} hub_peer;

/* How long an instance waits for memory that only its client or another can let go of, and how long
 * others may go before it. */
#define HUB_PATIENCE BASE_SECOND

/* A value of a session and where it lies. It may be absent: lost with a worker, or released while a
 * record still needs it; the next use makes it again. */
typedef struct hub_value {
    uint64_t id;
    uint64_t stored; /* its number at the workers: another one after it has moved */
    uint64_t kept;   /* its number in its client's memory, where it lies beside; 0: it does not */
    uint32_t session;
    hub_user *user; /* on whom it counts; NULL: nobody */
    shoal_type type;
    base_arena arena; /* of the layout, */
    uint64_t laid;    /* and what that counts */
    plan_layout layout;
    bool absent;               /* no layout: it is nowhere, or kept */
    bool counted;              /* as memory that its slots use */
    struct hub_record *origin; /* how it was made; NULL: not to be made again */
    uint32_t holds;            /* records that read it, */
    uint32_t remakes;          /* and those of them by which others may be made again */
    base_str data;  /* of a small one, which lies on all devices: sent with each run that uses it */
    uint64_t epoch; /* in which those devices were all there are */
    uint32_t users; /* instances that read or write it and are not through */
    uint64_t last_user;  /* the one with the highest number, */
    bool twice;          /* which reads it more than once */
    uint64_t maker;      /* the last instance that has made it, or is at it */
    uint64_t checked;    /* the instance that makes it, where a check may have it run again, */
    uint32_t rereads;    /* and how many such read it and are not through */
    uint64_t donated_to; /* the instance that was given its memory; 0: none */
    bool released;       /* the client has let go */
    uint32_t reads;      /* while loops are looked through: records of instances that read it, */
    bool needed, may_be; /* whether one of these is needed, or seemed to be before, */
    bool anew, stays;    /* and whether it fails then, or comes of what begins anew, or may not */
    bool bound;          /* to the slots where it lies: it is there or nowhere */
    shoal_status status;
    char *error;
    bool quiet; /* its failure is nobody's concern */
} hub_value;

/* A program as lowered for given layouts of its inputs. */
typedef struct hub_variant {
    uint64_t number; /* of the lowered programs, at the workers */
    base_str key;    /* epoch, input layouts and more: compared in full */
    plan_result plan;
    uint32_t n_moved; /* values that leave the client's memory: first input and extra output */
    uint32_t (*moved)[2];
    bool *sent;
    uint64_t held;
    uint32_t users; /* instances that are not through */
    bool broken;    /* not for other instances: a participant failed, and may not have what was
                       sent; or a link that it depends on has got faster or slower */
} hub_variant;

typedef struct hub_program {
    uint64_t id;
    uint32_t session;
    hub_user *user;   /* on whom it counts, with its variants and records; NULL: nobody */
    base_str encoded; /* its graph */
    graph *graph;     /* decoded: until it is lowered for the first time */
    bool explained;   /* its variants tell what they do */
    uint32_t n_inputs, n_outputs;
    shoal_type *types; /* of the inputs, then of the outputs */
    bool *home;
    bool loops;      /* run in rounds: see carry and stop */
    bool unbounded;  /* it may run for as long as it likes: in rounds, or by `while` */
    uint32_t *taken; /* by a part: which inputs and outputs of the whole; else NULL; see rest.c */
    struct hub_program *whole, *part; /* what it is of, and was made of it last; NULL: gone */
    bool moves;                       /* nothing but inputs that move in from their client */
    bool binds;                       /* something to slots */
    bool checks;                      /* a part may fail a check, or be dropped: see rest.c; */
    bool *keeps;     /* then, per input: outputs that this may leave well need it; NULL: none */
    bool *reads;     /* outputs that hub_rest_reads was last asked of, then its answer, */
    bool goes_on;    /* and whether that may have no end */
    uint32_t *carry; /* per input: 1 + the output that it is in the next round, or 0 */
    uint32_t stop;   /* 1 + the output that ends it, or 0 */
    BASE_VEC(hub_variant *) variants;
    uint32_t users;
    bool released;
} hub_program;

typedef enum hub_way { HUB_WAY_UNKNOWN, HUB_WAY_BACK, HUB_NO_WAY } hub_way;

/* How values were made: a program and what it read. Values hold the record that made them, records
 * hold the values that they read (without their data), so that what nobody can come to need is gone
 * by itself. Only pools that recover (hub_recovers) keep records for longer than an instance. */
typedef struct hub_record {
    uint64_t number; /* rises in the order in which clients submitted */
    uint32_t session;
    uint32_t refs; /* values that it made, and the instance that runs it */
    hub_program *program;
    uint64_t run;    /* the first value that it made, by which its client knows its lines */
    uint64_t rounds; /* of a loop, at most; else 0 */
    uint32_t reruns; /* since it was through last */
    uint32_t cuts;   /* how often its data did not pass a check */
    uint32_t n_inputs, n_outputs;
    hub_value **inputs;
    hub_value **outputs; /* NULL: nobody needs it any more */
    uint64_t ns;         /* that it took */
    bool wanted;         /* to be run again: while a way back is looked for */
    hub_way way;         /* what is known of that: while many are asked for */
    bool read;           /* while loops are looked through: what it reads has been counted, */
    bool awaited;        /* whether the run that its client awaits is under way, */
    bool shed, anew;     /* and begins anew without what in it may have no end, or with another */
    bool bound;          /* what it makes is bound, and not made again */
    bool adopted;        /* what it makes may be made again by it */
    struct hub_record *next_dying;
} hub_record;

/* Those of which it is known whether they can be made again, until hub_ways_forget. */
typedef BASE_VEC(hub_record *) hub_ways;

/* What went from one slot to another; as of Traffic. */
typedef struct hub_traffic {
    uint32_t from, to;
    uint64_t timed, timed_ns; /* what the speed of the link follows from */
    uint64_t begin, end, bytes, ns;
} hub_traffic;

/* Memory of an operand that an instance was given: reserved until it is through. */
typedef struct hub_donation {
    uint32_t slot;
    uint64_t bytes;
} hub_donation;

typedef enum hub_purpose {
    HUB_ASKED,  /* a client waits for it */
    HUB_REMADE, /* to have values again */
    HUB_CUT     /* to have copies of values in their client's memory */
} hub_purpose;

/* Somebody who takes part in an instance. */
typedef struct hub_part {
    hub_peer *peer; /* NULL: gone */
    bool through;
    int64_t waits; /* when it said last that it waits for another; 0: it has not */
} hub_part;

typedef struct hub_instance {
    struct hub_instance *next;
    uint64_t id;
    uint32_t session;
    uint32_t user; /* whose it was when it was handed out */
    hub_purpose purpose;
    hub_program *program;
    hub_variant *variant;
    hub_record *record;   /* NULL: given up, the participants have yet to say so */
    hub_value **outputs;  /* the record's, or others in the place of those that nobody needs */
    uint64_t *input_ids;  /* as stored when it was planned */
    uint64_t *output_ids; /* of the program and of what moves */
    uint64_t first;       /* what its client calls its first output; 0: nobody asks for that */
    bool dispatched, told;
    bool again;           /* not the first time */
    bool checked;         /* a check may have it run again: its own, or one that it waits for */
    int64_t blocked;      /* since when it has waited for memory; 0: it has not */
    bool concerned;       /* by what was lost or has failed in this event */
    bool doubted;         /* it failed where one member could not reach another: see doubt.c */
    bool unneeded, stays; /* beside loops: nobody sees what comes of it; it cannot begin anew */
    bool quiet;           /* its failure is nobody's concern: the client is told that it is over */
    uint32_t n_parts, n_waiting;
    hub_part *parts;
    uint64_t *needs;        /* per program of the plan: bytes that are reserved for it */
    uint32_t ahead;         /* of a loop: rounds that may be sent before they are waited for */
    uint64_t well;          /* of a loop that failed: rounds before that one, still to be made */
    shoal_slot_time *times; /* per program of the plan */
    BASE_VEC(hub_traffic) traffic;
    BASE_VEC(hub_donation) donations;
    shoal_status status;
    char *error;
} hub_instance;

/* The way from one peer to another, as transfers have shown it. */
typedef struct hub_link {
    uint32_t from, to;
    double bytes;   /* per second, lately */
    double planned; /* what plans are made with */
    bool measured;
    bool relayed; /* by way of the hub */
    bool sealed;  /* it leaves a machine */
} hub_link;

/* One member says that it cannot reach another. */
typedef struct hub_doubt {
    uint64_t instance;
    uint32_t accuser, accused; /* peers */
    uint32_t user;             /* of the accuser */
    int64_t at;
    bool judged;      /* kept for a while, to see whether it comes again */
    char reason[200]; /* what the accuser says */
} hub_doubt;

struct hub {
    wire_peer *wire;
    base_events events;
    uint64_t pool; /* random: what came of another hub's numbers is not for this one's members */
    uint64_t epoch;
    int64_t started;
    uint64_t planned;  /* bytes of plans since memory was last given back; */
    int64_t plan_made; /* when there was one last */
    uint64_t freed;    /* bytes of values that members have not been told to free yet */
    uint32_t panels;   /* see plan_pool */
    uint32_t next_peer, next_slot, next_session, next_user;
    uint64_t next_instance, next_variant, next_value, next_record;
    BASE_VEC(hub_peer *) peers;
    BASE_VEC(hub_user *) users;
    bool newcomers;    /* there are members that are not known yet */
    bool backlog;      /* messages wait for their users' turn; */
    size_t turn;       /* the members take turns */
    int64_t ticked;    /* when time passed last */
    base_map slots;    /* number + 1 -> hub_slot */
    base_map sessions; /* session -> hub_peer of the client */
    base_map links;    /* plan_link_key of peers -> hub_link */
    uint64_t speeds;   /* counts what was learnt of devices: plans made before are made anew */
    base_map values;
    base_map programs, parts;    /* by number: those of clients, and the hub's own parts of them */
    hub_instance *first, **last; /* in order of number: waiting and in flight, */
    base_map instances;          /* and by number */
    base_map gone;     /* numbers that will not come, until who reads them has been given up */
    hub_record *dying; /* by next_dying */
    bool burying;
    char *loss; /* the last one, for messages */
    BASE_VEC(hub_doubt) doubts;
    uint64_t pruned_epoch, pruned_speeds; /* when variants were last pruned */
    bool breakage;                        /* variants have broken since */
    uint64_t losses, reruns;              /* workers that left, programs run again for that */
    hub_artifacts artifacts;
};

/* ---- events ---- */

typedef enum hub_event_kind {
    HUB_JOIN,
    HUB_LEAVE,
    HUB_SUBMIT,
    HUB_RELEASE,
    HUB_DONE,
    HUB_FAILED,
    HUB_SPEED,
    HUB_DEVICE_LOST,
    HUB_WAITS,
    HUB_TICK /* time passes; it is about nobody */
} hub_event_kind;

typedef struct hub_event {
    hub_event_kind kind;
    hub_peer *peer; /* who it is about; for HUB_JOIN it has been filled in, but for its numbers */
    union {
        const Shoal__Submit *submit;
        const Shoal__Release *release;
        const Shoal__Done *done;
        const Shoal__Failed *failed;
        const Shoal__Speed *speed;
        const Shoal__DeviceLost *device_lost;
        const Shoal__Waits *waits;
        struct {
            shoal_status why; /* CLOSED: it said goodbye */
            const char *reason;
        } leave;
    } u;
} hub_event;

/* Applies an event and sends what follows. A failure is the peer's: its link is to be closed. */
shoal_status hub_apply(hub *h, const hub_event *event);

/* The lowest number of an instance that is under way, or of the next one. */
static inline uint64_t hub_low(const hub *h) { return h->first ? h->first->id : h->next_instance; }

/* events.c: the instruction log */
/* Notes an event, while somebody records; the label as printf makes it. */
void hub_note(hub *h, shoal_event_kind kind, uint64_t instance, const char *label, ...)
    SHOAL_PRINTF(4, 5);
/* Asks every member for what it has noted, and tells what the hub has. */
void hub_events_ask(hub *h, hub_peer *asker, const Shoal__EventsAsk *ask);
/* A member's answer goes on to who asked. */
void hub_events_pass(hub *h, hub_peer *peer, Shoal__Events *events);
/* Nobody waits for the answer of who has left. */
void hub_events_gone(hub *h, const hub_peer *gone);

/* speed.c */
/* Asks the devices of the pool for figures that they have not told yet; bits of base_figure. */
void hub_measure(hub *h, uint32_t what);
/* False, and nothing taken, for figures that there are not. */
bool hub_figures_take(Shoal__Figure *const *figures, size_t n, base_speeds *to);
void hub_speed(hub *h, hub_peer *peer, const Shoal__Speed *speed);
/* Counts what a slot has sent and received. */
void hub_count(hub *h, const hub_traffic *traffic);
/* The speed of a slot, from the time that its program took; of links, from what one has moved. */
void hub_learn_products(hub *h, hub_slot *slot, const plan_program *program, uint64_t ns);
void hub_learn(hub *h, const hub_traffic *list, size_t n);
/* Frames between the two go by way of the hub. */
void hub_learn_relay(hub *h, const hub_peer *from, const hub_peer *to);
bool hub_on_one_machine(const hub_peer *a, const hub_peer *b); /* and of one user */
/* A new member's links are taken to be as fast as those of another on its machine. */
void hub_links_join(hub *h, const hub_peer *peer);
void hub_links_forget(hub *h, const hub_peer *peer);
void hub_links_fini(hub *h);
/* The share of a slot where none is said: given, or by its speed. */
double hub_weight(const hub *h, const hub_slot *slot);
/* In proportion to which it gets work of a class of products: by weights, where anybody has given
 * some, else by speeds. *assumed: that speed has not been measured yet. */
double hub_weigh(const hub *h, const hub_slot *slot, base_figure products, bool *assumed);
/* The pool as the planner sees it for one session. */
shoal_status hub_pool(const hub *h, uint32_t session, base_arena *arena, plan_pool *out);

/* members.c */
shoal_status hub_join(hub *h, hub_peer *peer);
void hub_leave(hub *h, hub_peer *peer, shoal_status why, const char *reason);
/* A device of a peer gets on with nothing any more: its slot goes. With its last one a worker goes,
 * which may join again. */
void hub_device_lost(hub *h, hub_peer *peer, const Shoal__DeviceLost *lost);
void hub_slot_free(hub_slot *slot);
void hub_peer_free(hub_peer *peer);
/* Whether a device of it runs programs: a client may have some, too. */
bool hub_peer_computes(const hub_peer *peer);
/* Tells newcomers of everybody, and everybody of newcomers and of one that has left (NULL: none);
 * but clients, who have nothing to do with one another, of those that lend. */
void hub_peers_tell(hub *h, const hub_peer *left);
/* Sends; who does not read what it is sent is no member for long. */
void hub_send(hub_peer *peer, Shoal__Kind kind, const ProtobufCMessage *message);
/* A message that is not the peer's to send, or out of place, was dropped: counts it, and says so in
 * the log the first time. */
void hub_strange(hub_peer *peer, const char *what);
/* Passes a frame on, or tells the sender why not. Fails for what is no frame. */
shoal_status hub_relay(hub *h, hub_peer *from, const Shoal__Relay *relay) SHOAL_CHECK_RESULT;
hub_peer *hub_peer_find(const hub *h, uint32_t number);
hub_slot *hub_slot_of(const hub *h, uint32_t number);
/* All of them, by number. Room for slots.count. */
void hub_slots_list(const hub *h, const hub_slot **out);
void hub_session_end(hub *h, uint32_t session);

/* users.c: whose the members are, and what they may have waiting */
/* The user of a key, or of this hub's own (NULL); with a member more. NULL: no memory. */
hub_user *hub_user_of(hub *h, const uint8_t *key);
/* A member less. */
void hub_user_leave(hub *h, hub_user *user);
void hub_users_fini(hub *h);
/* Whether a user may have so many bytes more on their way by way of the hub: one has at most half
 * of what is left, so that there is always room for another's. */
bool hub_user_may_relay(const hub *h, const hub_user *user, size_t bytes);
/* Programs of a user that a slot has and that are not through; counts one more or less. */
uint32_t hub_share_of(const hub_slot *slot, uint32_t user);
void hub_share_count(hub_slot *slot, uint32_t user, int sign);
/* Counts what the hub is to have for a session of a user (NULL: of nobody). Fails with BUSY. */
shoal_status hub_hold(hub *h, hub_user *user, uint64_t bytes) SHOAL_CHECK_RESULT;
/* Whether that is half of what it may already. */
bool hub_user_has_half(const hub *h, const hub_user *user);
void hub_let_go(hub_user *user, uint64_t bytes);
/* Members that read nothing of what waits for them go, and so do those of a user who has more
 * waiting than half of what is left. */
void hub_users_look(hub *h);

/* turns.c: users have like parts of the hub's time */
/* Does what a member asks for: at once, or when it is its user's turn. */
shoal_status hub_turn(hub *h, hub_peer *peer, Shoal__Kind kind, const void *body,
                      size_t bytes) SHOAL_CHECK_RESULT;
/* What waits, as far as it is somebody's turn. */
void hub_turns_serve(hub *h);
void hub_asks_drop(hub_peer *peer);
/* What the hub was at since `start` was for this user; NULL: for nobody. */
void hub_user_charge(const hub *h, hub_user *user, int64_t start);
/* Bytes of a member are passed on, which takes time for its user, too: who is far ahead of its part
 * while there are others sends no more than a window until it is its turn. */
void hub_turn_relay(hub *h, hub_peer *from, size_t bytes);

/* hub.c */
shoal_status hub_handle(hub *h, hub_peer *peer, Shoal__Kind kind, const void *body,
                        size_t bytes) SHOAL_CHECK_RESULT;
/* Whether something waits that is to be looked at often. */
void hub_tick_often(hub *h, bool often);

/* values.c */
shoal_status hub_value_new(hub *h, uint64_t id, uint32_t session, const shoal_type *type,
                           hub_value **out);
/* The layout that it has, or will have once its instance is through: only then, and after
 * everywhere and home, does it count as what its slots hold. */
shoal_status hub_value_layout(hub *h, hub_value *value, const plan_layout *layout);
void hub_value_count(hub *h, hub_value *value);
void hub_value_uncount(hub *h, hub_value *value);
/* It lies nowhere any more; nobody is told. */
void hub_value_nowhere(hub *h, hub_value *value);
/* Lays a small value out on all devices of the pool, or in its client's memory while it has none;
 * not counted yet. */
shoal_status hub_value_everywhere(hub *h, const hub_peer *client, hub_value *value);
/* The same for one that lies whole in its client's memory. */
shoal_status hub_value_whole_at_client(hub *h, const hub_peer *client, hub_value *value);
void hub_value_poison(hub_value *value, shoal_status status, const char *message);
/* Takes the data away: the value is absent. */
void hub_value_drop(hub *h, hub_value *value);
/* Drops the value if nobody needs it any more; if it has failed, what it was to be made of. */
void hub_value_settle(hub *h, hub_value *value);
void hub_value_free(hub_value *value);
/* A value that goes when its instance is through. */
shoal_status hub_value_scratch(hub *h, uint32_t session, const shoal_type *type, hub_value **out);
/* Whether it lies whole in its client's memory. */
bool hub_value_at_client(const hub_peer *client, const hub_value *value);
/* Notes that a copy lies in the client's memory as number `stored`; frees that copy. */
void hub_value_keep(hub *h, hub_value *value, uint64_t stored);
void hub_value_unkeep(hub *h, hub_value *value);
/* A value that is kept lies in its client's memory again, and nowhere else. */
shoal_status hub_value_home(hub *h, hub_value *value);
void hub_release(hub *h, hub_peer *peer, const Shoal__Release *release);

/* submit.c */
shoal_status hub_submit(hub *h, hub_peer *peer, const Shoal__Submit *submit);
void hub_program_free(hub_program *program);
/* A program of the hub's own, which only has values move: to the client's memory (home), or from
 * there to where they are computed with. */
shoal_status hub_program_moving(hub *h, uint32_t session, hub_value *const *values, uint32_t n,
                                bool home, hub_program **out);
/* A program of the hub's own, which makes some of the outputs of another from some of its inputs.
 * g: the other's graph; inputs, outputs: their numbers, of which these outputs need no others. */
shoal_status hub_program_part(hub *h, hub_program *whole, const shoal_graph *g,
                              const uint32_t *inputs, uint32_t n_inputs, const uint32_t *outputs,
                              uint32_t n_outputs, hub_program **out);
void hub_program_settle(hub *h, hub_program *program);
/* Plans a program without running it: text and JSON, to be freed by the caller. */
shoal_status hub_explain(hub *h, hub_peer *peer, const Shoal__Submit *submit, char **text,
                         char **json);

/* record.c */
/* Whether values can be lost and made again: more than one worker is there, or a device beside
 * others that is lost by itself. */
bool hub_recovers(const hub *h);
/* With one reference, the caller's. */
shoal_status hub_record_new(hub *h, hub_program *program, hub_value *const *inputs,
                            hub_value *const *outputs, hub_record **out);
/* The values that it makes are to be made again by it. */
void hub_record_adopt(hub *h, hub_record *record);
void hub_record_release(hub *h, hub_record *record);
/* The value is not to be made again by what made it. */
void hub_value_disown(hub *h, hub_value *value);

/* recover.c */
/* Sees to it that values are there, or will be before what is started next; those that cannot be
 * are poisoned. */
void hub_recover(hub *h, hub_value *const *values, uint32_t n);
/* Whether a value is there, or hub_recover could see to it, also later: what only runs under way
 * read goes with them. ways: what has been found before, nothing having changed since. */
bool hub_can_recover(const hub *h, const hub_value *value, hub_ways *ways);
void hub_ways_forget(hub_ways *ways);
/* After a peer is gone with its slots: instances that it took part in, and values that it held. */
void hub_lose(hub *h, hub_peer *peer, const char *reason);
/* The same after slots are gone, of a member that may still be there. what: who lost them, and why;
 * who: what was lost, for the log. */
void hub_lose_slots(hub *h, const char *what, const char *who);
/* Runs an instance again, and what derives from it. */
void hub_rerun(hub *h, hub_instance *instance, const char *reason);
void hub_gone(hub *h, uint64_t number); /* it will not come: who reads it is given up next */
/* Runs those again that are concerned by a failure, as far as they can be, and whose inputs were to
 * move in with what failed (moved). */
void hub_rerun_concerned(hub *h, shoal_status status, const char *reason, bool moved);
/* The same for one of which a part has failed, which its outputs show. */
void hub_rerun_rest(hub *h, hub_instance *instance, shoal_status status, const char *reason);

/* rest.c */
/* Finds what may fail in a program that has been decoded. */
shoal_status hub_rest_read(const shoal_graph *g, hub_program *program);
/* A check that the program's data did not pass: fails what derives from it, and has the rest made.
 * False when that cannot be told: it is a failure like any other. */
bool hub_rest_fail(hub *h, hub_instance *instance, shoal_status status, const char *message);
/* What can be made of a record whose inputs or outputs may have failed: the record itself, one of
 * fewer outputs, or NULL for nothing; with a reference. What cannot be made is poisoned, and the
 * client told. */
void hub_rest(hub *h, hub_record *record, hub_record **out);
/* Which inputs these outputs of a program are made of, until it is asked of others, and whether
 * that may have no end. budget: bytes of graphs that may be decoded for it, less what was. NULL: no
 * memory, or these do not suffice. */
const bool *hub_rest_reads(hub_program *program, const bool *outputs, size_t *budget,
                           bool *goes_on);
/* Nothing can be made of a record, for the thread's message: its client is told. */
void hub_rest_none(hub *h, const hub_record *record, shoal_status status);

/* doubt.c */
/* A member could not reach another for an instance: either the other's end will be known soon, or
 * it is judged that the two cannot go on together. False: members of its user have said so too
 * often lately, and it is a failure like any other. */
bool hub_doubt_note(hub *h, hub_instance *instance, const hub_peer *accuser,
                    const Shoal__Failed *failed);
void hub_doubts_judge(hub *h);

/* cut.c */
/* Copies what the session holds to its client's memory, when the way back has become long, or
 * there is none. */
void hub_cut(hub *h, hub_peer *client);
/* A cut is through; or it was given up, and is to be made anew. */
void hub_cut_done(hub *h, hub_instance *instance);
void hub_cut_failed(hub_peer *client);
/* From now on values can be made again, or come of copies (hub_recovers): those that sessions hold
 * of the time before are copied to their clients' memory, as far as there is room. */
void hub_cut_all_bare(hub *h);

/* variant.c */
/* Whether something is bound to slots in it. */
bool hub_graph_binds(const shoal_graph *g);
shoal_status hub_variant_find(hub *h, hub_program *program, const hub_value *const *inputs,
                              hub_variant **out);
void hub_variant_free(const hub_program *program, hub_variant *variant);
/* Tells the members who have parts of it that these can go, and frees it. */
void hub_variant_drop(hub *h, const hub_program *program, hub_variant *variant);
/* Drops those that can never match again: of another pool than there is now, or broken. */
void hub_variants_prune(hub *h);
/* The speeds of links (by plan_link_key; NULL: of any) have moved: what was planned with them is
 * planned anew when it is next run. */
void hub_variants_outdate(hub *h, const base_map *moved);

/* donate.c */
/* Gives an instance the memory of those operands that nobody needs after it: they lie nowhere any
 * more. donated: room for as many as it has; who takes part is to be told of the *n there. */
shoal_status hub_donate(hub *h, hub_instance *instance, uint64_t *donated, size_t *n);
/* Adds to bytes, one per program of the plan, what a loop would be given there by operands in whose
 * place others are carried. */
void hub_donations_carried(const hub *h, const hub_instance *instance, uint64_t *bytes);
/* It is through: that memory is not reserved for it any more. */
void hub_donated_end(hub *h, const hub_instance *instance);

/* loop.c */
/* What makes a program a loop, from who submits it. */
shoal_status hub_loop_read(const Shoal__Submit *submit, const shoal_graph *g, hub_program *program);
/* Whether there is a node in it that may have no end. */
bool hub_may_go_on(const shoal_graph *g);
/* Whether the rounds of a submission fit the program. */
shoal_status hub_loop_check(const Shoal__Submit *submit, const hub_program *program);
/* Has operands that lie in their client's memory move in, before a loop that reads them begins. */
shoal_status hub_loop_settle(hub *h, const hub_record *record);
/* Lowers a loop: what is carried lies as the input that it becomes; what ends it, on all slots that
 * take part. wanted: per output, to be completed. */
shoal_status hub_loop_lower(const hub_program *program, const shoal_graph *g, const plan_pool *pool,
                            const plan_layout *inputs, const plan_layout **wanted,
                            base_arena *arena, plan_result *out);
/* How many rounds one slot may be before another: what they exchange has to lie where there is room
 * beside `needs`, per program of the plan, in bytes. */
uint32_t hub_loop_ahead(const hub *h, const plan_result *plan, const uint64_t *needs);
/* What a slot is told of it. */
shoal_status hub_loop_part(const hub_program *loop, const plan_program *program, base_arena *arena,
                           Shoal__SlotRun *part);
/* Adds to what an instance needs for one run what a loop needs beside that; and how far ahead its
 * slots may be. Before it is handed out. */
shoal_status hub_loop_needs(const hub *h, hub_instance *loop);
/* Ends what may have no end, loops and `while`, where nobody of its session can see anything. */
void hub_loops_drop(hub *h, uint32_t session);
/* Ends a client's loops, each named by its first output. */
void hub_loops_cancel(hub *h, const hub_peer *peer, const uint64_t *values, size_t n);

/* instance.c */
bool hub_takes_part(const hub *h, const plan_result *plan, const hub_peer *peer);
/* Plans a run of a record and adds it to those that wait. A failure to plan is the instance's;
 * after another, which is returned, there is no instance. again: not its first. */
shoal_status hub_instance_start(hub *h, hub_record *record, hub_purpose purpose, bool again);
hub_instance *hub_instance_find(const hub *h, uint64_t id);
void hub_instance_free(hub_instance *instance);
/* Whether all who took part have said so, or are gone, and nothing is in doubt: to be settled. */
bool hub_instance_over(const hub_instance *instance);
void hub_instance_settle(hub *h, hub_instance *instance);
void hub_settle_ended(hub *h); /* all that are: what is given up before it was handed out is */
void hub_outcomes_send(hub_peer *client); /* tells it what is through */
/* Its values are no longer its concern: record becomes NULL. */
void hub_instance_detach(hub *h, hub_instance *instance);
/* Inputs that were to move in from their client stay there, and who reads them begins anew. */
void hub_instance_move_back(hub *h, hub_instance *instance);
/* Tells the participants to give it up; `status` and `error` say why. */
void hub_instance_cancel(const hub_instance *instance);
/* Of a loop that has failed no more than so many rounds are still to be made. */
void hub_instance_shorten(hub_instance *instance, uint64_t rounds);
/* Whether something is still made in it. */
bool hub_instance_runs(const hub_instance *instance);
/* Sends what fits, in order. */
void hub_dispatch(hub *h);
/* Memory and places in its slots' queues: taken (1) or given back (-1). */
void hub_reserve(hub *h, const hub_instance *instance, int sign);
void hub_done(hub *h, hub_peer *peer, const Shoal__Done *done);
void hub_failed(hub *h, hub_peer *peer, const Shoal__Failed *failed);
/* NULL: it takes no part. */
hub_part *hub_part_of(const hub_instance *instance, const hub_peer *peer);

/* waits.c */
/* A member has waited for another for long: who waits for a client alone fails. */
void hub_waits(hub *h, hub_peer *peer, const Shoal__Waits *waits);
/* A message, its lines said to be those of this run, to be freed; NULL: no memory. */
char *hub_instance_stamp(const hub_instance *instance, const char *message);
/* Tells a client that outputs of a program have failed, or, NULL, that nothing more comes of it. */
void hub_failure_tell(hub *h, const hub_record *record, const hub_value *failed);
/* Fails an instance and whatever in flight derives from it. */
void hub_instance_fail(hub *h, hub_instance *instance, shoal_status status, const char *message);
/* Fails all of a session, whose client is gone. */
void hub_session_fail(hub *h, uint32_t session, shoal_status status, const char *message);
/* The same as hub_instance_fail, but for who reads it, or what was to move in with it, and begins
 * anew: whether there may be such, for which hub_rerun_concerned is due. */
bool hub_instance_fail_only(hub *h, hub_instance *instance, shoal_status status,
                            const char *message);

#endif
