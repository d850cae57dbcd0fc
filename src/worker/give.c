/* Files that other members ask for: parts of those that are here, on a thread that may wait for the
 * disk. They go as data, by all paths of the link; to who does not say that it takes them so, as
 * messages. */
#include "worker/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_ANSWERS = 16 * WIRE_CHUNK, /* bytes of answers that may wait on a link, */
    MOST_ASKED = 192 * WIRE_CHUNK,  /* and in all: one user's at most half of what is left; */
    MOST_ASKS = 64                  /* and questions of a member that are not answered */
};

/* A question of a member, about a file that is here. */
typedef struct file_ask {
    struct file_ask *next;
    uint32_t peer;
    shoal_status status; /* BUSY: no room for an answer */
    uint8_t digest[SHOAL_DIGEST];
    uint64_t bytes, offset, transfer;
} file_ask;

/* A part on its way: its bytes are as they were when their checksum was made. */
typedef struct gift {
    wire_account *account;
    size_t n;
    uint64_t sum;
    uint8_t data[];
} gift;

static void answer(const worker *w, wire_link *link, const uint8_t *digest, uint64_t offset,
                   shoal_status status, const gift *given, wire_account *account) {
    Shoal__FilePart part = SHOAL__FILE_PART__INIT;
    part.digest = (ProtobufCBinaryData){SHOAL_DIGEST, (uint8_t *)digest};
    part.offset = offset;
    part.status = (uint32_t)status;
    if (given) part.data = (ProtobufCBinaryData){given->n, (uint8_t *)given->data};
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
    later->transfer = ask->transfer;
    peer->asking++;
    if (w->asks)
        w->last_ask->next = later;
    else
        w->asks = later;
    w->last_ask = later;
    pthread_cond_broadcast(&w->changed);
}

void worker_file_ask(worker *w, worker_peer *peer, wire_link *link, const Shoal__FileAsk *ask) {
    if (ask->digest.len != SHOAL_DIGEST || ask->offset >= ask->bytes ||
        (ask->transfer && ask->transfer < WIRE_FILE) || wire_link_queued(link) > MOST_ANSWERS ||
        peer->asking >= MOST_ASKS) {
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
               NULL, NULL);
}

/* The part that was asked for, from the disk; NULL: the file has changed, or there is no memory. */
static gift *read_part(const model_map *map, uint64_t offset) {
    uint64_t left = map->bytes - offset;
    size_t n = left < WIRE_CHUNK ? (size_t)left : WIRE_CHUNK;
    gift *given = model_map_check(map) == SHOAL_OK ? malloc(sizeof *given + n) : NULL;
    if (!given) return NULL;
    memcpy(given->data, map->data + offset, n);
    *given = (gift){.n = n, .sum = worker_file_sum(given->data, n)};
    return given;
}

static void gift_read(void *context, uint64_t offset, void *to, size_t n) {
    memcpy(to, ((const gift *)context)->data + offset, n);
}

static void gift_done(void *context) {
    gift *given = context;
    wire_account_take(given->account, given->n);
    free(given);
}

/* The part is the link's from then on. Lock held. */
static void give(const worker *w, const worker_peer *peer, const file_ask *ask, gift *given) {
    wire_transfer transfer = {ask->transfer, (uint32_t)(given->sum >> 32), (uint32_t)given->sum,
                              given->n};
    wire_source source = {given, gift_read, gift_done};
    given->account = peer->asked;
    wire_account_add(given->account, given->n);
    if (wire_send_data(peer->link, &transfer, &source) != SHOAL_OK)
        base_log(BASE_WARN, w->name, "%s", shoal_error_message());
}

bool worker_asked_serve(worker *w) {
    file_ask *ask = w->asks;
    if (!ask) return false;
    w->asks = ask->next;
    worker_file *file = worker_file_find(w, ask->digest, ask->bytes);
    model_map *map = NULL;
    gift *given = NULL;
    bool here = ask->status == SHOAL_OK && file && file->state == FILE_HERE &&
                worker_file_map(w, file, &map) == SHOAL_OK && map->bytes == ask->bytes;
    if (here) {
        pthread_mutex_unlock(&w->lock);
        given = read_part(map, ask->offset);
        pthread_mutex_lock(&w->lock);
    }
    worker_peer *peer = base_map_get(&w->peers, (uint64_t)ask->peer + 1);
    bool known = peer && !peer->gone;
    if (known) peer->asking--;
    if (known && peer->link && given && ask->transfer) {
        give(w, peer, ask, given);
        given = NULL;
    } else if (known && peer->link) {
        shoal_status why = ask->status == SHOAL_OK ? SHOAL_NOT_FOUND : ask->status;
        answer(w, peer->link, ask->digest, ask->offset, given ? SHOAL_OK : why, given, peer->asked);
    }
    free(given);
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
