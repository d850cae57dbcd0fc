/* A file from another member: asked for in parts of at most WIRE_CHUNK bytes, a few at a time, and
 * written under another name, until all of it is there and is what its digest says. Who has it
 * answers from its map, on a thread that may wait for the disk; who does not says so. One file
 * comes at a time. */
#define _GNU_SOURCE
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    AHEAD = 4 * WIRE_CHUNK,         /* bytes that are asked for and have not come */
    MOST_ANSWERS = 16 * WIRE_CHUNK, /* bytes of answers that may wait on a link, */
    MOST_ASKED = 192 * WIRE_CHUNK,  /* and in all: one user's at most half of what is left; */
    MOST_ASKS = 64,                 /* and questions of a member that are not answered */
    /* Parts and multiples of the worker's silence, a minute: */
    ANSWER_PART = 4,              /* a member that answers nothing for so long is left; */
    TURN_PART = 30,               /* one that looks for the file is asked again after all others, */
    LOOK_TIMES = 10,              /* for so long, and as long as it takes to read the file */
    LOOK_BYTES = 16 << 20,        /* at this rate a second; */
    SLOW_BYTES = 60 * (64 << 10), /* and one that brings less than this in each is left */
    TELL_S = 5,                   /* between two lines of the log */
    SPARE_SHARE = 20,             /* a part of the disk stays free */
    PATH_ROOM = 4096
};

typedef struct file_part {
    struct file_part *next;
    uint64_t bytes;
    uint8_t data[];
} file_part;

/* ---- who has it ---- */

/* By its number: what is known of a member may go whenever the lock is not held. */
static worker_peer *member_of(const worker *w, uint32_t number) {
    worker_peer *peer = base_map_get(&w->peers, (uint64_t)number + 1);
    return peer && !peer->gone ? peer : NULL;
}

/* A question of a member, about a file that is here. */
typedef struct file_ask {
    struct file_ask *next;
    uint32_t peer;
    shoal_status status; /* BUSY: no room for an answer */
    uint8_t digest[SHOAL_DIGEST];
    uint64_t bytes, offset;
} file_ask;

static void answer(const worker *w, wire_link *link, const uint8_t *digest, uint64_t offset,
                   shoal_status status, const uint8_t *data, size_t n, wire_account *account) {
    Shoal__FilePart part = SHOAL__FILE_PART__INIT;
    part.digest = (ProtobufCBinaryData){SHOAL_DIGEST, (uint8_t *)digest};
    part.offset = offset;
    part.status = (uint32_t)status;
    part.data = (ProtobufCBinaryData){n, (uint8_t *)data};
    if (wire_send_on(link, SHOAL__KIND__FILE_PART, &part.base, account) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}

/* Whether so many bytes more may be on their way to the members of a peer's user. Lock held. */
static bool may_answer(const worker *w, worker_peer *peer, size_t n) {
    size_t at = 0, own = n, all = n;
    uint64_t key;
    void *item;
    if (!peer->asked && !(peer->asked = wire_account_new())) return false;
    while (base_map_next(&w->peers, &at, &key, &item)) {
        const worker_peer *other = item;
        size_t bytes = other->asked ? wire_account_bytes(other->asked) : 0;
        bytes += (size_t)other->asking * WIRE_CHUNK;
        all += bytes;
        if (other == peer || (peer->user && other->user == peer->user)) own += bytes;
    }
    return all < MOST_ASKED && own <= (MOST_ASKED - all) / 2;
}

/* Behind those that there are, so that parts come in order. Lock held. */
static void ask_later(worker *w, worker_peer *peer, const Shoal__FileAsk *ask) {
    file_ask *later = calloc(1, sizeof *later);
    if (!later) {
        base_log(BASE_WARN, w->name, "no memory for a question about a file");
        return; /* it is asked again, or somebody else is */
    }
    later->peer = peer->number;
    later->status = may_answer(w, peer, WIRE_CHUNK) ? SHOAL_OK : SHOAL_BUSY;
    memcpy(later->digest, ask->digest.data, SHOAL_DIGEST);
    later->bytes = ask->bytes;
    later->offset = ask->offset;
    peer->asking++;
    if (w->asks)
        w->last_ask->next = later;
    else
        w->asks = later;
    w->last_ask = later;
    pthread_cond_broadcast(&w->changed);
}

/* Lock held. */
static void on_ask(worker *w, worker_peer *peer, wire_link *link, const Shoal__FileAsk *ask) {
    if (ask->digest.len != SHOAL_DIGEST || ask->offset >= ask->bytes ||
        wire_link_queued(link) > MOST_ANSWERS || peer->asking >= MOST_ASKS) {
        wire_link_strange(link, "a question for a file that makes no sense");
        return;
    }
    worker_file *file = worker_file_asked(w, peer, ask->digest.data, ask->bytes);
    if (file && file->state == FILE_HERE && worker_asked_start(w))
        ask_later(w, peer, ask);
    else
        answer(w, link, ask->digest.data, ask->offset,
               !file || file->state == FILE_WANTED || file->state == FILE_LOOKED ? SHOAL_BUSY
                                                                                 : SHOAL_NOT_FOUND,
               NULL, 0, NULL);
}

/* Bytes that lie on a disk are brought here, as nobody is to wait for that with the lock. */
static void bring(const uint8_t *data, size_t n) {
    enum { PAGE = 4096 };
    volatile uint8_t any;
    for (size_t at = 0; at < n; at += PAGE) any = data[at];
    if (n) any = data[n - 1];
    (void)any;
}

bool worker_asked_serve(worker *w) {
    file_ask *ask = w->asks;
    if (!ask) return false;
    w->asks = ask->next;
    worker_file *file = worker_file_find(w, ask->digest, ask->bytes);
    model_map *map = NULL;
    bool here = ask->status == SHOAL_OK && file && file->state == FILE_HERE &&
                worker_file_map(w, file, &map) == SHOAL_OK && map->bytes == ask->bytes;
    size_t n = 0;
    if (here) {
        pthread_mutex_unlock(&w->lock);
        n = map->bytes - ask->offset < WIRE_CHUNK ? (size_t)(map->bytes - ask->offset) : WIRE_CHUNK;
        here = model_map_check(map) == SHOAL_OK;
        if (here) bring(map->data + ask->offset, n);
        pthread_mutex_lock(&w->lock);
    }
    worker_peer *peer = member_of(w, ask->peer);
    if (peer) peer->asking--;
    if (peer && peer->link)
        answer(w, peer->link, ask->digest, ask->offset,
               here                      ? SHOAL_OK
               : ask->status != SHOAL_OK ? ask->status
                                         : SHOAL_NOT_FOUND,
               here ? map->data + ask->offset : NULL, here ? n : 0, peer->asked);
    model_map_release(map);
    free(ask);
    return true;
}

void worker_asked_drop(worker *w) {
    while (w->asks) {
        file_ask *ask = w->asks;
        w->asks = ask->next;
        free(ask);
    }
}

/* ---- who needs it ---- */

/* Lock held. */
static void on_part(worker *w, wire_link *link, const Shoal__FilePart *part) {
    worker_fetch *f = &w->fetch;
    if (!f->file || wire_link_proof(link)->number != f->peer || part->digest.len != SHOAL_DIGEST ||
        memcmp(part->digest.data, f->file->digest, SHOAL_DIGEST) != 0 || f->come >= f->asked) {
        /* Or late: the answer to a question that was given up. */
        wire_link_strange(link, "a part of a file that was not asked for");
        return;
    }
    uint64_t left = f->file->bytes - f->come, due = left < WIRE_CHUNK ? left : WIRE_CHUNK;
    pthread_cond_broadcast(&w->changed);
    if (part->status)
        f->answer = part->status == SHOAL_BUSY ? SHOAL_BUSY : SHOAL_NOT_FOUND;
    else if (part->offset != f->come || part->data.len != due)
        f->answer = SHOAL_FORMAT;
    if (f->answer != SHOAL_OK) return;
    file_part *come = malloc(sizeof *come + due);
    if (!come) {
        f->answer = SHOAL_NO_MEMORY;
        return;
    }
    *come = (file_part){.bytes = due};
    memcpy(come->data, part->data.data, due);
    *f->last = come;
    f->last = &come->next;
    f->come += due;
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
        on_ask(w, peer, link, (const Shoal__FileAsk *)message);
    else
        on_part(w, link, (const Shoal__FilePart *)message);
    pthread_mutex_unlock(&w->lock);
    wire_unpacked_free(message);
    return SHOAL_OK;
}

/* ---- the draft ---- */

/* A file under way, at its place but under another name; whoever fetches the same waits. */
typedef struct draft {
    char path[PATH_ROOM], name[PATH_ROOM];
    int fd;
    uint64_t written;
    crypto_generichash_state hash;
} draft;

static shoal_status check_room(const char *folder, const worker_file *file) {
    struct statvfs disk;
    if (statvfs(folder, &disk)) return base_fail_errno(errno, "looking at %s", folder);
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    double spare = (double)disk.f_blocks * (double)disk.f_frsize / SPARE_SHARE;
    if ((double)file->bytes + spare <= room) return SHOAL_OK;
    return base_fail(SHOAL_NO_MEMORY,
                     "%s has %.1f GB free, too little for %s (%.1f GB) as %d %% stay free: make "
                     "room, or name another folder with --models",
                     folder, room / 1e9, file->name, (double)file->bytes / 1e9, 100 / SPARE_SHARE);
}

/* The folder that files are fetched to: the first, made when it is not there. */
static shoal_status draft_name(const worker *w, const worker_file *file, draft *d) {
    char folder[PATH_ROOM], hex[2 * SHOAL_DIGEST + 1];
    size_t n = strcspn(w->models, ":");
    if (!n || n >= PATH_ROOM - 128)
        return base_fail(SHOAL_NOT_FOUND,
                         "there is no folder for %s: name one with --models or SHOAL_MODELS",
                         file->name);
    memcpy(folder, w->models, n);
    folder[n] = 0;
    for (char *slash = folder; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(folder, 0700); /* that it failed shows below */
        *slash = '/';
    }
    mkdir(folder, 0700);
    worker_digest_text(file->digest, hex);
    memcpy(d->name, folder, n);
    snprintf(d->name + n, sizeof d->name - n, "/%s", hex);
    memcpy(d->path, folder, n);
    snprintf(d->path + n, sizeof d->path - n, "/%s.part", hex);
    return check_room(folder, file);
}

/* Opens the draft, and waits for another process that fetches the same. *is_one: it still has its
 * name, as it has not when the other has ended. */
static shoal_status draft_lock(const worker *w, draft *d, bool *is_one) {
    struct stat mine, named;
    d->fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->fd < 0) return base_fail_errno(errno, "writing %s", d->path);
    while (flock(d->fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return base_fail_errno(errno, "locking %s", d->path);
        if (atomic_load(&w->stopping)) return base_fail(SHOAL_CLOSED, "the worker is ending");
        nanosleep(&(struct timespec){.tv_nsec = 50 * BASE_MS}, NULL);
    }
    *is_one = !fstat(d->fd, &mine) && !stat(d->path, &named) && mine.st_ino == named.st_ino;
    return SHOAL_OK;
}

/* *out: what another process has fetched meanwhile. */
static shoal_status draft_open(const worker *w, const worker_file *file, draft *d,
                               model_map **out) {
    uint8_t digest[SHOAL_DIGEST];
    d->fd = -1;
    SHOAL_TRY(draft_name(w, file, d));
    for (bool is_one = false; !is_one;) {
        if (d->fd >= 0) close(d->fd);
        SHOAL_TRY(draft_lock(w, d, &is_one));
    }
    if (model_map_open(d->name, out) != SHOAL_OK) return SHOAL_OK;
    if (model_map_digest(*out, NULL, NULL, digest) == SHOAL_OK &&
        !memcmp(digest, file->digest, sizeof digest))
        return SHOAL_OK;
    model_map_release(*out);
    *out = NULL;
    return SHOAL_OK;
}

static shoal_status draft_begin(draft *d) {
    d->written = 0;
    crypto_generichash_init(&d->hash, NULL, 0, SHOAL_DIGEST);
    return ftruncate(d->fd, 0) ? base_fail_errno(errno, "writing %s", d->path) : SHOAL_OK;
}

/* Once a member has shown that it has the file. */
static shoal_status draft_room(const draft *d, const worker_file *file) {
    int error = posix_fallocate(d->fd, 0, (off_t)file->bytes);
    return error ? base_fail_errno(error, "making room for %" PRIu64 " bytes at %s", file->bytes,
                                   d->path)
                 : SHOAL_OK;
}

static shoal_status draft_write(draft *d, const file_part *part) {
    for (uint64_t done = 0; done < part->bytes;) {
        ssize_t n =
            pwrite(d->fd, part->data + done, part->bytes - done, (off_t)(d->written + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return base_fail_errno(n ? errno : ENOSPC, "writing %s", d->path);
        done += (uint64_t)n;
    }
    crypto_generichash_update(&d->hash, part->data, part->bytes);
    d->written += part->bytes;
    return SHOAL_OK;
}

/* All of it has come: is it the file? */
static shoal_status draft_end(draft *d, const worker_file *file, const char *from,
                              model_map **out) {
    uint8_t digest[SHOAL_DIGEST];
    char hex[2 * SHOAL_DIGEST + 1];
    crypto_generichash_final(&d->hash, digest, sizeof digest);
    worker_digest_text(file->digest, hex);
    if (memcmp(digest, file->digest, sizeof digest) != 0)
        return base_fail(SHOAL_DENIED,
                         "%s: what %s has sent is not the file with digest %s: it is not used",
                         file->name, from, hex);
    if (fdatasync(d->fd)) return base_fail_errno(errno, "writing %s", d->name);
    SHOAL_TRY(base_os_rename(d->path, d->name));
    return model_map_open(d->name, out);
}

static void draft_fini(draft *d, bool done) {
    if (d->fd < 0) return;
    if (!done) unlink(d->path);
    close(d->fd);
}

/* ---- asking ---- */

void worker_fetch_drop(worker_fetch *f) {
    while (f->parts) {
        file_part *part = f->parts;
        f->parts = part->next;
        free(part);
    }
    f->last = &f->parts;
}

/* Lock held. */
static shoal_status ask_more(worker *w, const worker_file *file, const worker_peer *peer) {
    worker_fetch *f = &w->fetch;
    /* The first answer says whether there is more to ask for. */
    uint64_t ahead = f->come ? AHEAD : WIRE_CHUNK;
    while (f->asked < file->bytes && f->asked - f->come < ahead) {
        Shoal__FileAsk ask = SHOAL__FILE_ASK__INIT;
        ask.digest = (ProtobufCBinaryData){SHOAL_DIGEST, (uint8_t *)file->digest};
        ask.bytes = file->bytes;
        ask.offset = f->asked;
        SHOAL_TRY(wire_send(peer->link, SHOAL__KIND__FILE_ASK, &ask.base));
        uint64_t left = file->bytes - f->asked;
        f->asked += left < WIRE_CHUNK ? left : WIRE_CHUNK;
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
static shoal_status heed(worker *w, int64_t began, const draft *d) {
    worker_fetch *f = &w->fetch;
    int64_t took = base_now() - began;
    if (f->answer == SHOAL_BUSY) { /* it is looking, or has others to answer */
        if (!f->come && took > w->silence / TURN_PART)
            return base_fail(SHOAL_BUSY, "it is still looking for it");
        f->answer = SHOAL_OK;
        f->asked = f->come;
        rest(w, base_now() + (w->silence / TURN_PART) / 10);
    }
    if (f->answer != SHOAL_OK)
        return base_fail(f->answer, f->answer == SHOAL_NOT_FOUND ? "it does not have it"
                                                                 : "it does not answer well");
    if (d->written < (uint64_t)(took / w->silence) * SLOW_BYTES)
        return base_fail(SHOAL_TIMEOUT, "it brings less than %d KiB a second",
                         SLOW_BYTES / 60 >> 10);
    return SHOAL_OK;
}

/* Lock held, but not while it writes. */
static shoal_status fetch_from(worker *w, const worker_file *file, uint32_t number,
                               const char *from, draft *d) {
    worker_fetch *f = &w->fetch;
    SHOAL_TRY(reach(w, file, number));
    int64_t told = base_now(), heard = told, began = told;
    while (d->written < file->bytes) {
        if (f->answer == SHOAL_BUSY) heard = base_now();
        SHOAL_TRY(heed(w, began, d));
        const worker_peer *peer = member_of(w, number);
        if (is_over(w, file)) return base_fail(SHOAL_CLOSED, "nobody needs it any more");
        if (!peer || !peer->link) return base_fail(SHOAL_LOST, "it was lost");
        SHOAL_TRY(ask_more(w, file, peer));
        file_part *part = f->parts;
        if (!part) {
            if (base_now() - heard > w->silence / ANSWER_PART)
                return base_fail(SHOAL_TIMEOUT, "it has not answered for %d s",
                                 (int)(w->silence / ANSWER_PART / BASE_SECOND));
            rest(w, base_now() + w->silence / ANSWER_PART / 30);
            continue;
        }
        f->parts = part->next;
        if (!f->parts) f->last = &f->parts;
        pthread_mutex_unlock(&w->lock);
        shoal_status status = d->written ? SHOAL_OK : draft_room(d, file);
        if (status == SHOAL_OK) status = draft_write(d, part);
        free(part);
        heard = base_now();
        if (heard - told > TELL_S * BASE_SECOND) {
            tell(w, file, from, d->written);
            told = heard;
        }
        pthread_mutex_lock(&w->lock);
        SHOAL_TRY(status);
    }
    return SHOAL_OK;
}

/* From one member, whole and checked. */
static shoal_status fetch(worker *w, const worker_file *file, uint32_t number, const char *from,
                          draft *d, model_map **out) {
    worker_fetch *f = &w->fetch;
    SHOAL_TRY(draft_begin(d));
    pthread_mutex_lock(&w->lock);
    *f = (worker_fetch){.file = file, .peer = number};
    f->last = &f->parts;
    shoal_status status = fetch_from(w, file, number, from, d);
    f->file = NULL;
    worker_fetch_drop(f);
    pthread_mutex_unlock(&w->lock);
    return status == SHOAL_OK ? draft_end(d, file, from, out) : status;
}

typedef struct member {
    uint32_t number, user;
    char name[64], why[256];
    shoal_status answer; /* OK: it was not asked yet */
} member;

/* Those that there are, each worker beginning with another one. */
static shoal_status list_members(worker *w, member **out, size_t *n) {
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

static shoal_status ask_one(worker *w, const worker_file *file, member *from, draft *d,
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
                             draft *d, model_map **out) {
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

static shoal_status ask_all(worker *w, const worker_file *file, draft *d, model_map **out) {
    member *members;
    size_t n;
    base_str why = {0};
    bool wrong = false;
    char hex[2 * SHOAL_DIGEST + 1];
    SHOAL_TRY(list_members(w, &members, &n));
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

shoal_status worker_file_fetch(worker *w, worker_file *file, model_map **out) {
    draft d;
    shoal_status status = draft_open(w, file, &d, out);
    bool there = *out;
    if (status == SHOAL_OK && !there) status = ask_all(w, file, &d, out);
    draft_fini(&d, *out && !there);
    return status;
}
