/* A file from another member: asked for in parts of at most WIRE_CHUNK bytes, several at a time,
 * each of which comes as data with its checksum, and written to a draft, until all of it is there
 * and is what its digest says. One file comes at a time. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_WRONG = 8, /* parts that were changed on their way, until their sender is left */
    /* Parts and multiples of the worker's silence, a minute: */
    ANSWER_PART = 4,              /* a member that answers nothing for so long is left; */
    TURN_PART = 30,               /* one that looks for the file is asked again after all others, */
    LOOK_TIMES = 10,              /* for so long, and as long as it takes to read the file */
    LOOK_BYTES = 16 << 20,        /* at this rate a second; */
    SLOW_BYTES = 60 * (64 << 10), /* and one that brings less than this in each is left */
    TELL_S = 5                    /* between two lines of the log */
};

/* By its number: what is known of a member may go whenever the lock is not held. */
static worker_peer *member_of(const worker *w, uint32_t number) {
    worker_peer *peer = base_map_get(&w->peers, (uint64_t)number + 1);
    return peer && !peer->gone ? peer : NULL;
}

/* ---- what comes ---- */

static bool is_whole(const worker_file_part *part) {
    return part->transfer && part->data && part->have == part->bytes;
}

void worker_fetch_drop(worker_fetch *f) {
    for (int i = 0; i < WORKER_FILE_PARTS; i++) {
        free(f->parts[i].data);
        f->parts[i] = (worker_file_part){0};
    }
}

/* Bytes of a part that lie within it, each of which comes once. */
static shoal_status put(worker_fetch *f, worker_file_part *part, uint64_t offset, const void *bytes,
                        size_t n) {
    if (!part->data && !(part->data = malloc(part->bytes)))
        return base_fail(SHOAL_NO_MEMORY, "no memory for a part of %s", f->file->name);
    uint32_t first = (uint32_t)(offset / WIRE_GRAIN);
    uint32_t end = (uint32_t)((offset + n + WIRE_GRAIN - 1) / WIRE_GRAIN);
    uint32_t grains = (UINT32_C(1) << end) - (UINT32_C(1) << first);
    if (offset % WIRE_GRAIN || !n || part->grains & grains)
        return base_fail(SHOAL_FORMAT, "pieces of a part that do not fit");
    memcpy(part->data + offset, bytes, n);
    part->grains |= grains;
    part->have += (uint32_t)n;
    return SHOAL_OK;
}

void worker_file_data(worker *w, wire_link *link, const wire_transfer *transfer, uint64_t offset,
                      const void *bytes, size_t n) {
    worker_fetch *f = &w->fetch;
    worker_file_part *part = NULL;
    for (int i = 0; f->file && i < WORKER_FILE_PARTS; i++)
        if (f->parts[i].transfer == transfer->instance) part = &f->parts[i];
    if (!part && transfer->instance <= w->file_transfers) return; /* late: it was given up */
    if (!part || wire_link_proof(link)->number != f->peer) {
        wire_link_strange(link, "a part of a file that was not asked for");
        return;
    }
    pthread_cond_broadcast(&w->changed);
    part->sum = (uint64_t)transfer->channel << 32 | transfer->ordinal;
    if (transfer->bytes != part->bytes || offset > part->bytes || n > part->bytes - offset)
        f->answer = SHOAL_FORMAT;
    else if (f->answer == SHOAL_OK)
        f->answer = put(f, part, offset, bytes, n);
}

/* Lock held. */
static void on_part(worker *w, wire_link *link, const Shoal__FilePart *said) {
    worker_fetch *f = &w->fetch;
    worker_file_part *part = NULL;
    bool asked = f->file && wire_link_proof(link)->number == f->peer &&
                 said->digest.len == SHOAL_DIGEST &&
                 !memcmp(said->digest.data, f->file->digest, SHOAL_DIGEST);
    for (int i = 0; asked && i < WORKER_FILE_PARTS; i++)
        if (f->parts[i].transfer && !f->parts[i].data && f->parts[i].offset == said->offset)
            part = &f->parts[i];
    if (!part) {
        /* Or late: the answer to a question that was given up. */
        wire_link_strange(link, "a part of a file that was not asked for");
        return;
    }
    pthread_cond_broadcast(&w->changed);
    if (said->status) {
        f->answer = said->status == SHOAL_BUSY ? SHOAL_BUSY : SHOAL_NOT_FOUND;
        *part = (worker_file_part){0}; /* it may be asked for again */
    } else if (said->data.len != part->bytes) {
        f->answer = SHOAL_FORMAT;
    } else if (f->answer == SHOAL_OK) {
        part->sum = worker_file_sum(said->data.data, said->data.len);
        f->answer = put(f, part, 0, said->data.data, said->data.len);
    }
}

shoal_status worker_file_message(worker *w, wire_link *link, Shoal__Kind kind, const void *body,
                                 size_t bytes) {
    bool asks = kind == SHOAL__KIND__FILE_ASK;
    ProtobufCMessage *message;
    uint32_t number = wire_link_proof(link)->number;
    SHOAL_TRY(wire_unpack(asks ? &shoal__file_ask__descriptor : &shoal__file_part__descriptor, body,
                          bytes, &message));
    pthread_mutex_lock(&w->lock);
    worker_peer *peer = number ? base_map_get(&w->peers, (uint64_t)number + 1) : NULL;
    if (!peer)
        wire_link_strange(link, "a question for a file, without being a member");
    else if (asks)
        worker_file_ask(w, peer, link, (const Shoal__FileAsk *)message);
    else
        on_part(w, link, (const Shoal__FilePart *)message);
    pthread_mutex_unlock(&w->lock);
    wire_unpacked_free(message);
    return SHOAL_OK;
}

/* ---- asking ---- */

static bool is_asked(const worker_fetch *f, uint64_t number) {
    for (int i = 0; i < WORKER_FILE_PARTS; i++)
        if (f->parts[i].transfer && f->parts[i].offset == number * WIRE_CHUNK) return true;
    return false;
}

/* Parts that are missing, as many as there is room for. Lock held. */
static shoal_status ask_more(worker *w, const worker_peer *peer, const worker_draft *d) {
    worker_fetch *f = &w->fetch;
    uint64_t parts = worker_draft_parts(d), next = d->front / WIRE_CHUNK;
    /* The first answer says whether there is more to ask for. */
    for (int i = 0; i < (f->come ? WORKER_FILE_PARTS : 1); i++) {
        worker_file_part *part = &f->parts[i];
        if (part->transfer) continue;
        while (next < parts && (d->sums[next] || is_asked(f, next))) next++;
        if (next == parts) break;
        *part = (worker_file_part){.transfer = ++w->file_transfers,
                                   .offset = next * WIRE_CHUNK,
                                   .bytes = worker_draft_size(d, next)};
        Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
        ask.digest = (ProtobufCBinaryData){SHOAL_DIGEST, (uint8_t *)f->file->digest};
        ask.bytes = f->file->bytes;
        ask.offset = part->offset;
        ask.transfer = part->transfer;
        if (wire_send(peer->link, SHOAL__KIND__FILE_ASK, &ask.base) != SHOAL_OK)
            return base_fail(SHOAL_LOST, "it was lost");
    }
    return SHOAL_OK;
}

/* Waits for a change, for at most so long. Lock held. */
static void rest(worker *w, int64_t until) {
    struct timespec at = base_timespec(until);
    pthread_cond_timedwait(&w->changed, &w->lock, &at);
}

static bool is_over(const worker *w, const worker_file *file) {
    return w->stopping || !file->waiting;
}

/* Members may say for so long that they look for a file that nobody else has. */
static int64_t looking(const worker *w, const worker_file *file) {
    return LOOK_TIMES * w->silence + (int64_t)(file->bytes / LOOK_BYTES) * BASE_SECOND;
}

/* A link to a member. Lock held. */
static shoal_status reach(worker *w, const worker_file *file, uint32_t number) {
    int64_t until = base_now() + w->silence / ANSWER_PART;
    worker_peer *peer = member_of(w, number);
    if (!peer) return base_fail(SHOAL_LOST, "it has left");
    if (!peer->link && !peer->connecting) SHOAL_TRY(worker_peer_connect(w, peer, false));
    while (peer && !peer->link && peer->connecting && base_now() < until && !is_over(w, file)) {
        rest(w, until);
        peer = member_of(w, number);
    }
    return peer && peer->link ? SHOAL_OK : base_fail(SHOAL_LOST, "it cannot be reached");
}

static void tell(worker *w, const worker_file *file, const char *from, uint64_t done) {
    base_log(BASE_INFO, w->name, "%s: %.1f of %.1f MB have come from %s", file->name,
             (double)done / 1e6, (double)file->bytes / 1e6, from);
}

/* What a member has answered but bytes, and whether it is worth to wait for more. Lock held. */
static shoal_status heed(worker *w, int64_t began) {
    worker_fetch *f = &w->fetch;
    int64_t took = base_now() - began;
    if (f->answer == SHOAL_BUSY) { /* it is looking, or has others to answer */
        if (!f->come && took > w->silence / TURN_PART)
            return base_fail(SHOAL_BUSY, "it is still looking for it");
        f->answer = SHOAL_OK;
        rest(w, base_now() + (w->silence / TURN_PART) / 10);
    }
    if (f->answer != SHOAL_OK && f->answer != SHOAL_BUSY)
        return base_fail(f->answer, f->answer == SHOAL_NOT_FOUND ? "it does not have it"
                                                                 : "it does not answer well");
    if (f->come < (uint64_t)(took / w->silence) * SLOW_BYTES)
        return base_fail(SHOAL_TIMEOUT, "it brings less than %d KiB a second",
                         SLOW_BYTES / 60 >> 10);
    return SHOAL_OK;
}

/* Takes a part that is whole out of those that were asked for; false: there is none. Lock held. */
static bool take_whole(worker_fetch *f, worker_file_part *out) {
    for (int i = 0; i < WORKER_FILE_PARTS; i++) {
        if (!is_whole(&f->parts[i])) continue;
        *out = f->parts[i];
        f->parts[i] = (worker_file_part){0};
        return true;
    }
    return false;
}

/* Writes a part that has come. INVALID: it was changed on its way, and is to be asked for again. */
static shoal_status settle(const worker *w, const worker_file *file, const char *from,
                           const worker_file_part *part, worker_draft *d) {
    if (worker_file_sum(part->data, part->bytes) == part->sum)
        return worker_draft_put(d, part->offset / WIRE_CHUNK, part->data);
    base_log(BASE_WARN, w->name,
             "%s: bytes %" PRIu64 " to %" PRIu64 " were changed on their way from %s: they are "
             "asked for again",
             file->name, part->offset, part->offset + part->bytes, from);
    return base_fail(SHOAL_INVALID, "what it sends is changed on its way");
}

/* Lock held, but not while it reads and writes. */
static shoal_status fetch_from(worker *w, const worker_file *file, uint32_t number,
                               const char *from, worker_draft *d) {
    worker_fetch *f = &w->fetch;
    worker_file_part part = {0};
    SHOAL_TRY(reach(w, file, number));
    int64_t told = base_now(), heard = told, began = told;
    while (d->front < file->bytes) {
        if (f->answer == SHOAL_BUSY) heard = base_now();
        SHOAL_TRY(heed(w, began));
        const worker_peer *peer = member_of(w, number);
        if (is_over(w, file)) return base_fail(SHOAL_CLOSED, "nobody needs it any more");
        if (!peer || !peer->link) return base_fail(SHOAL_LOST, "it was lost");
        f->there = d->there;
        SHOAL_TRY(ask_more(w, peer, d));
        bool come = take_whole(f, &part), went = false;
        if (come) f->come += part.bytes;
        pthread_mutex_unlock(&w->lock);
        shoal_status status =
            come ? settle(w, file, from, &part, d) : worker_draft_step(d, w->name, &went);
        if (come) free(part.data);
        if (come || went) heard = base_now();
        if (come && heard - told > TELL_S * BASE_SECOND) {
            tell(w, file, from, d->there);
            told = heard;
        }
        pthread_mutex_lock(&w->lock);
        if (status == SHOAL_INVALID && ++f->wrong < MOST_WRONG) status = SHOAL_OK;
        SHOAL_TRY(status);
        if (come || went) continue;
        if (base_now() - heard > w->silence / ANSWER_PART)
            return base_fail(SHOAL_TIMEOUT, "it has not answered for %d s",
                             (int)(w->silence / ANSWER_PART / BASE_SECOND));
        rest(w, base_now() + w->silence / ANSWER_PART / 30);
    }
    return SHOAL_OK;
}

static shoal_status fetch_rest(worker *w, const worker_file *file, uint32_t number,
                               const char *from, worker_draft *d, model_map **out) {
    worker_fetch *f = &w->fetch;
    pthread_mutex_lock(&w->lock);
    *f = (worker_fetch){.file = file, .peer = number};
    shoal_status status = fetch_from(w, file, number, from, d);
    worker_fetch_drop(f);
    f->file = NULL;
    pthread_mutex_unlock(&w->lock);
    return status == SHOAL_OK ? worker_draft_end(d, file, from, out) : status;
}

/* From one member, what is missing, checked as a whole. Is it not the file, others may have given
 * what is wrong: then it gives all of it. */
static shoal_status fetch(worker *w, const worker_file *file, uint32_t number, const char *from,
                          worker_draft *d, model_map **out) {
    bool alone = !d->there;
    shoal_status status = fetch_rest(w, file, number, from, d, out);
    if (status == SHOAL_DENIED && !alone) {
        base_log(BASE_WARN, w->name,
                 "%s: what was there, with what has come, is not the file: all of it is fetched "
                 "from %s",
                 file->name, from);
        SHOAL_TRY(worker_draft_clear(d));
        status = fetch_rest(w, file, number, from, d, out);
    }
    if (status == SHOAL_DENIED && worker_draft_clear(d) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    return status;
}

typedef struct member {
    uint32_t number, user;
    char name[64], why[256];
    shoal_status answer; /* OK: it was not asked yet */
} member;

/* Those that there are, each worker beginning with another one, but for who is known to have it. */
static shoal_status list_members(worker *w, uint32_t first, member **out, size_t *n) {
    size_t at = 0;
    uint64_t key;
    void *value;
    pthread_mutex_lock(&w->lock);
    *n = 0;
    *out = calloc(w->peers.count + 1, sizeof **out);
    while (*out && base_map_next(&w->peers, &at, &key, &value)) {
        const worker_peer *peer = value;
        if (peer->gone) continue;
        (*out)[*n].number = peer->number;
        (*out)[*n].user = peer->user;
        snprintf((*out)[(*n)++].name, sizeof(*out)->name, "%s", peer->name ? peer->name : "?");
    }
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 1; first && i < *n; i++)
        if ((*out)[i].number == first) {
            member other = (*out)[0];
            (*out)[0] = (*out)[i];
            (*out)[i] = other;
        }
    return *out ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory to ask for a file");
}

/* Whether another member may do better, or the same one later. */
static bool may_go_on(shoal_status status) {
    return status == SHOAL_NOT_FOUND || status == SHOAL_LOST || status == SHOAL_TIMEOUT ||
           status == SHOAL_FORMAT || status == SHOAL_DENIED || status == SHOAL_INVALID ||
           status == SHOAL_BUSY;
}

/* Whether a member of the same user has answered so. */
static bool has_answered(const member *members, size_t n, uint32_t user, shoal_status answer) {
    for (size_t i = 0; user && i < n; i++)
        if (members[i].user == user && members[i].answer == answer) return true;
    return false;
}

/* Who has given other bytes is not asked again by another name; who is silent, after all others;
 * and who looks for it, again and again. */
static bool is_next(const member *members, size_t n, size_t i, bool first) {
    const member *m = &members[i];
    if (has_answered(members, n, m->user, SHOAL_DENIED)) return false;
    return m->answer == SHOAL_BUSY ||
           (m->answer == SHOAL_OK && !(first && has_answered(members, n, m->user, SHOAL_TIMEOUT)));
}

static shoal_status ask_one(worker *w, const worker_file *file, member *from, worker_draft *d,
                            model_map **out) {
    shoal_status before = from->answer, status = fetch(w, file, from->number, from->name, d, out);
    from->answer = status;
    snprintf(from->why, sizeof from->why, "%s", status == SHOAL_OK ? "" : shoal_error_message());
    if (status == SHOAL_OK) tell(w, file, from->name, file->bytes);
    if (status == SHOAL_DENIED) base_log(BASE_WARN, w->name, "%s", shoal_error_message());
    if (status == SHOAL_BUSY && before != SHOAL_BUSY)
        base_log(BASE_INFO, w->name, "%s: %s looks for it", file->name, from->name);
    return status;
}

/* All in turn, until one has given it, or none is left that may. */
static shoal_status ask_each(worker *w, const worker_file *file, member *members, size_t n,
                             worker_draft *d, model_map **out) {
    shoal_status status = base_fail(SHOAL_NOT_FOUND, "there is no other member");
    int64_t until = base_now() + looking(w, file);
    bool more = true;
    for (size_t pass = 0; pass < 2 || (more && base_now() < until); pass++) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            if (!is_next(members, n, i, !pass)) continue;
            status = ask_one(w, file, &members[i], d, out);
            if (*out || !may_go_on(status)) return status;
            more |= status == SHOAL_BUSY;
        }
    }
    return status;
}

static shoal_status ask_all(worker *w, const worker_file *file, worker_draft *d, model_map **out) {
    member *members;
    size_t n;
    base_str why = {0};
    bool wrong = false;
    char hex[2 * SHOAL_DIGEST + 1];
    SHOAL_TRY(list_members(w, file->from, &members, &n));
    shoal_status status = ask_each(w, file, members, n, d, out);
    for (size_t i = 0; i < n && !*out && may_go_on(status); i++) {
        wrong |= members[i].answer == SHOAL_DENIED;
        if (members[i].why[0])
            base_str_format(&why, "%s%s: %s", why.size ? "; " : "", members[i].name,
                            members[i].why);
    }
    free(members);
    worker_digest_text(file->digest, hex);
    if (!*out && may_go_on(status))
        status = base_fail(wrong ? SHOAL_DENIED : SHOAL_NOT_FOUND,
                           "%s, digest %s, is not on this machine (looked in %s), nor could it be "
                           "fetched: %s",
                           file->name, hex, w->models, why.size ? why.data : "nobody else is here");
    base_str_fini(&why);
    return status;
}

/* Looks at what was there before, until a part is missing. */
static shoal_status check_rest(worker *w, const worker_file *file, worker_draft *d) {
    bool over = false, went = true;
    if (!d->there) return SHOAL_OK;
    base_log(BASE_INFO, w->name, "%s: %.1f of %.1f MB are there from before", file->name,
             (double)d->there / 1e6, (double)file->bytes / 1e6);
    while (went && !over) {
        SHOAL_TRY(worker_draft_step(d, w->name, &went));
        pthread_mutex_lock(&w->lock);
        over = is_over(w, file);
        pthread_mutex_unlock(&w->lock);
    }
    return over ? base_fail(SHOAL_CLOSED, "nobody needs it any more") : SHOAL_OK;
}

/* What was there before may be all of it. */
static shoal_status fetch_into(worker *w, const worker_file *file, worker_draft *d,
                               model_map **out) {
    SHOAL_TRY(check_rest(w, file, d));
    if (d->there && d->front == file->bytes) {
        if (worker_draft_end(d, file, w->name, out) == SHOAL_OK) return SHOAL_OK;
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
        SHOAL_TRY(worker_draft_clear(d));
    }
    return ask_all(w, file, d, out);
}

shoal_status worker_file_fetch(worker *w, worker_file *file, model_map **out) {
    worker_draft d;
    shoal_status status = worker_draft_open(w, file, &d, out);
    bool there = *out;
    if (status == SHOAL_OK && !there) status = fetch_into(w, file, &d, out);
    worker_draft_fini(&d, *out && !there);
    return status;
}
