/* The door: ØMQ puts every handshake to it (ZAP). A key gets in that is a member's, as the hub
 * tells, or this user's own; at a hub also one that has enrolled, and an unused token's. All others
 * hear no more than "no"; and when the files of keys cannot be read just now, nobody hears that he
 * is a stranger: the connection ends, and may be tried again. The hub tells members of a new one
 * while that dials them already: at a member whom nobody knows yet waits for a moment.
 *
 * A thread of its own looks at the files and writes them, so that neither a flood of strangers nor
 * a slow disk keeps the pump from its work. */
#include "wire/zmq_link.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 100, MAX_JOBS = 16, MAX_UNKNOWN = 32, PATIENCE_MS = 3000 };
#define TELL_AGAIN (10 * BASE_SECOND)

enum { ROUTE, EMPTY, VERSION, REQUEST, DOMAIN, ADDRESS, IDENTITY, MECHANISM, KEY, PARTS };

typedef struct question {
    char parts[PARTS][256];
    size_t sizes[PARTS];
    int count;
} question;

/* Asked by a key that nobody knows yet. */
typedef struct unknown {
    struct unknown *next;
    int64_t until;
    question q;
} unknown;

typedef struct job {
    struct job *next;
    zmq_listener *listener;
    uint8_t id[16];
    size_t n;
    uint8_t token[WIRE_KEY], key[WIRE_KEY];
    char name[WIRE_MAX_NAME + 1];
    shoal_status status;
    char text[WIRE_MAX_REASON];
} job;

typedef struct zmq_door {
    wire_peer *peer;
    void *asked;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    bool stopping;
    job *first, *last;
    size_t jobs;
    unknown *unknown; /* the thread's own */
    size_t n_unknown;
    uint64_t refused; /* since it was told of in the log */
    int64_t told;
} zmq_door;

static bool is_hub(const wire_peer *peer) { return peer->handled[WIRE_HUB]; }

/* Strangers must not fill the log: the first is told of, then how many there were. Lock held. */
static void tell(zmq_door *door, const char *who, const char *why) {
    int64_t now = base_now();
    bool often = door->told && now - door->told < TELL_AGAIN;
    if (often) {
        door->refused++;
        base_log(BASE_DEBUG, door->peer->hello->name, "refused a connection%s%s: %s",
                 *who ? " from " : "", who, why);
        return;
    }
    door->told = now;
    if (door->refused)
        base_log(BASE_WARN, door->peer->hello->name,
                 "refused a connection%s%s: %s; and %llu others since that was last told",
                 *who ? " from " : "", who, why, (unsigned long long)door->refused);
    else
        base_log(BASE_WARN, door->peer->hello->name, "refused a connection%s%s: %s",
                 *who ? " from " : "", who, why);
    door->refused = 0;
}

void wire_zmq_refused(wire_peer *peer) {
    zmq_door *door = peer->zmq->door;
    pthread_mutex_lock(&door->lock);
    tell(door, "", "what came is no handshake with the right keys");
    pthread_mutex_unlock(&door->lock);
}

/* ---- who ---- */

static bool familiar(wire_peer *peer, const uint8_t *key, wire_guest *out) {
    bool own = !sodium_memcmp(key, peer->zmq->own.public, WIRE_KEY);
    if (!own && !wire_member_key(peer, key)) {
        *out = (wire_guest){.standing = WIRE_STRANGER, .name = "unknown key"};
        return false;
    }
    *out = (wire_guest){.standing = WIRE_ENROLLED, .role = WIRE_ROLE_BOTH};
    snprintf(out->name, sizeof out->name, own ? "this user" : "a member");
    return true;
}

void wire_zmq_known(wire_peer *peer, const uint8_t *key, wire_guest *out) {
    if (!familiar(peer, key, out) && is_hub(peer)) wire_keys_known(key, out);
}

/* ---- questions ---- */

/* One question of ØMQ's; false when there is none. */
static bool next_question(void *socket, question *q) {
    int more = 1;
    q->count = 0;
    while (more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&part);
            return false;
        }
        size_t n = zmq_msg_size(&part);
        if (q->count < PARTS && n < sizeof q->parts[0]) {
            memcpy(q->parts[q->count], zmq_msg_data(&part), n);
            q->parts[q->count][n] = 0;
            q->sizes[q->count++] = n;
        }
        more = zmq_msg_more(&part);
        zmq_msg_close(&part);
    }
    return true;
}

static void answer(void *socket, const question *q, const char *code, const char *user) {
    const char *parts[] = {
        q->parts[ROUTE], "", "1.0", q->parts[REQUEST], code, *code == '2' ? "OK" : "no", user, ""};
    const int n_parts = sizeof parts / sizeof *parts;
    for (int i = 0; i < n_parts; i++) {
        size_t n = i == 0 ? q->sizes[ROUTE] : i == 3 ? q->sizes[REQUEST] : strlen(parts[i]);
        zmq_send(socket, parts[i], n, ZMQ_DONTWAIT | (i + 1 < n_parts ? ZMQ_SNDMORE : 0));
    }
}

/* False: no answer yet, as the hub may be about to tell of the key. */
static bool take_question(zmq_door *door, const question *q, bool may_wait) {
    wire_guest guest = {.standing = WIRE_STRANGER, .name = "no key"};
    char text[WIRE_KEY_TEXT] = "";
    if (q->count == PARTS && q->sizes[KEY] == WIRE_KEY && !strcmp(q->parts[MECHANISM], "CURVE")) {
        const uint8_t *key = (const uint8_t *)q->parts[KEY];
        bool is_known = familiar(door->peer, key, &guest);
        if (!is_known && is_hub(door->peer))
            wire_keys_who(key, &guest);
        else if (!is_known && may_wait)
            return false;
        wire_key_text(key, text);
    }
    bool let_in = guest.standing == WIRE_ENROLLED || guest.standing == WIRE_TOKEN;
    if (!let_in) {
        pthread_mutex_lock(&door->lock);
        tell(door, q->count == PARTS ? q->parts[ADDRESS] : "", guest.name);
        pthread_mutex_unlock(&door->lock);
    }
    answer(door->asked, q, let_in ? "200" : guest.standing == WIRE_UNREAD ? "300" : "400", text);
    return true;
}

/* Those that come to be known are let in; the others are told "no" in the end, and at once where
 * many wait. */
static void take_questions(zmq_door *door) {
    question q;
    for (int i = 0; i < 64 && next_question(door->asked, &q); i++) {
        unknown *u = door->n_unknown < MAX_UNKNOWN ? malloc(sizeof *u) : NULL;
        if (take_question(door, &q, u != NULL)) {
            free(u);
            continue;
        }
        *u = (unknown){door->unknown, base_now() + PATIENCE_MS * BASE_MS, q};
        door->unknown = u;
        door->n_unknown++;
    }
    for (unknown **at = &door->unknown; *at;) {
        unknown *u = *at;
        if (take_question(door, &u->q, base_now() < u->until)) {
            *at = u->next;
            free(u);
            door->n_unknown--;
        } else {
            at = &u->next;
        }
    }
}

/* ---- enrolment ---- */

void wire_zmq_answer(zmq_listener *listener, const void *id, size_t n, shoal_status status,
                     const char *text) {
    struct {
        wire_frame frame;
        char text[WIRE_MAX_REASON];
    } back = {.frame = {.type = WIRE_FRAME_ENROLLED, .kind = (uint16_t)status}};
    back.frame.bytes = (uint32_t)snprintf(back.text, sizeof back.text, "%s", text);
    if (back.frame.bytes >= sizeof back.text) back.frame.bytes = sizeof back.text - 1;
    if (!listener->end.socket) return;
    wire_zmq *zmq = listener->end.peer->zmq;
    wire_zmq_enter(zmq);
    zmq_send(listener->end.socket, id, n, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(listener->end.socket, &back, wire_frame_bytes(back.frame.bytes), ZMQ_DONTWAIT);
    wire_zmq_leave(zmq);
}

/* Under the pump. */
static void enrolled(void *context) {
    job *j = context;
    wire_zmq_answer(j->listener, j->id, j->n, j->status, j->text);
    free(j);
}

shoal_status wire_zmq_enrol(zmq_listener *listener, zmq_msg_t *id, const uint8_t *token,
                            const uint8_t *key, const char *name) {
    zmq_door *door = listener->end.peer->zmq->door;
    job *j = calloc(1, sizeof *j);
    if (!j || zmq_msg_size(id) > sizeof j->id) {
        free(j);
        return base_fail(SHOAL_NO_MEMORY, "the hub has no memory to enrol anybody");
    }
    j->listener = listener;
    j->n = zmq_msg_size(id);
    memcpy(j->id, zmq_msg_data(id), j->n);
    memcpy(j->token, token, WIRE_KEY);
    memcpy(j->key, key, WIRE_KEY);
    snprintf(j->name, sizeof j->name, "%s", name);
    pthread_mutex_lock(&door->lock);
    bool room = door->jobs < MAX_JOBS;
    if (room) {
        door->jobs++;
        if (door->last)
            door->last->next = j;
        else
            door->first = j;
        door->last = j;
    }
    pthread_mutex_unlock(&door->lock);
    if (room) return SHOAL_OK;
    free(j);
    return base_fail(SHOAL_BUSY, "the hub is enrolling others: try again");
}

static job *next_job(zmq_door *door) {
    pthread_mutex_lock(&door->lock);
    job *j = door->first;
    if (j) {
        door->first = j->next;
        if (!j->next) door->last = NULL;
        door->jobs--;
    }
    pthread_mutex_unlock(&door->lock);
    return j;
}

static void do_job(zmq_door *door, job *j) {
    j->status = wire_keys_enrol(j->token, j->key, j->name);
    snprintf(j->text, sizeof j->text, "%s",
             j->status == SHOAL_OK ? j->name : shoal_error_message());
    if (j->status == SHOAL_OK)
        base_log(BASE_INFO, j->listener->address, "%s has enrolled", j->name);
    else
        base_log(BASE_WARN, j->listener->address, "refused to enrol: %s", j->text);
    if (wire_post(door->peer, enrolled, j) != SHOAL_OK) free(j);
}

/* ---- the thread ---- */

/* Who was let in may have been revoked since, or may be another thing now. Under the pump. */
static void look_again(void *context) {
    wire_peer *peer = context;
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *link = peer->links.data[i];
        zmq_link *own = (zmq_link *)link;
        wire_guest guest;
        if (link->transport != &wire_zmq_transport || !own->framed.accepting ||
            link->state == WIRE_GONE)
            continue;
        wire_zmq_known(peer, link->proof.key, &guest);
        if (guest.standing == WIRE_STRANGER || guest.standing == WIRE_TOKEN)
            wire_close(link, SHOAL_DENIED, "the key of this user was revoked");
        else if (guest.standing == WIRE_ENROLLED && guest.role != own->role)
            wire_close(link, SHOAL_DENIED, "the role of this user's key was changed");
    }
}

/* Whether the thread goes on; *busy: somebody waits to be enrolled. */
static bool goes_on(zmq_door *door, bool *busy) {
    pthread_mutex_lock(&door->lock);
    bool on = !door->stopping;
    *busy = door->first;
    pthread_mutex_unlock(&door->lock);
    return on;
}

static void *run(void *context) {
    zmq_door *door = context;
    int64_t next = 0;
    bool busy;
    base_os_thread_name("shoal-door");
    while (goes_on(door, &busy)) {
        zmq_pollitem_t item = {.socket = door->asked, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, busy ? 0 : LOOK_MS / 5);
        take_questions(door);
        job *j = next_job(door);
        if (j) do_job(door, j);
        if (!is_hub(door->peer) || base_now() < next) continue;
        next = base_now() + LOOK_MS * BASE_MS;
        if (wire_keys_refresh() && wire_post(door->peer, look_again, door->peer) != SHOAL_OK)
            base_log(BASE_ERROR, "keys", "%s", shoal_error_message());
    }
    return NULL;
}

shoal_status wire_zmq_door_open(wire_peer *peer) {
    wire_zmq *zmq = peer->zmq;
    zmq_door *door = calloc(1, sizeof *door);
    if (!door) return base_fail(SHOAL_NO_MEMORY, "no memory for encrypted links");
    door->peer = peer;
    zmq->door = door;
    pthread_mutex_init(&door->lock, NULL);
    door->asked = zmq_socket(zmq->context, ZMQ_ROUTER);
    if (!door->asked || zmq_bind(door->asked, "inproc://zeromq.zap.01"))
        return wire_zmq_fail("starting ØMQ");
    if (is_hub(peer)) wire_keys_refresh();
    sigset_t all, before;
    sigfillset(&all); /* signals are the host's affair */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&door->thread, NULL, run, door);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    door->started = !error;
    return error ? base_fail_errno(error, "starting a thread for the door") : SHOAL_OK;
}

void wire_zmq_door_stop(wire_zmq *zmq) {
    zmq_door *door = zmq->door;
    if (!door || !door->started) return;
    pthread_mutex_lock(&door->lock);
    door->stopping = true;
    pthread_mutex_unlock(&door->lock);
    pthread_join(door->thread, NULL);
    door->started = false;
}

void wire_zmq_door_close(wire_zmq *zmq) {
    zmq_door *door = zmq->door;
    if (!door) return;
    wire_zmq_door_stop(zmq);
    if (door->asked) {
        int none = 0;
        zmq_setsockopt(door->asked, ZMQ_LINGER, &none, sizeof none);
        zmq_close(door->asked);
    }
    for (job *j; (j = next_job(door));) free(j);
    for (unknown *u; (u = door->unknown); free(u)) door->unknown = u->next;
    pthread_mutex_destroy(&door->lock);
    free(door);
    zmq->door = NULL;
}
