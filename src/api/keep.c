/* The keeper of artifacts: a client without values, whom the hub hands the questions of workers. */
#include "api/state.h"

#include "base/clock.h"
#include "model/file.h"
#include "wire/keys.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JOIN_MS = 5000 };

typedef struct question {
    struct question *next;
    Shoal__ArtifactAsk *ask;
    char *text; /* with a 0 behind it */
    char made_of[2 * WIRE_DIGEST + 1];
} question;

struct shoal_keeper {
    worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    question *first, **last; /* in the order in which they came; the hub limits how many */
    question *current;       /* that was handed out last */
};

static void question_free(question *q) {
    if (!q) return;
    wire_unpacked_free(&q->ask->base);
    free(q->text);
    free(q);
}

static shoal_status take(shoal_keeper *k, Shoal__ArtifactAsk *ask) {
    question *q = calloc(1, sizeof *q);
    char *text = ask->text.len ? malloc(ask->text.len + 1) : NULL;
    if (!q || (ask->text.len && !text) || ask->made_of.len != WIRE_DIGEST) {
        free(q);
        free(text);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a question for an artifact");
    }
    *q = (question){.ask = ask, .text = text};
    sodium_bin2hex(q->made_of, sizeof q->made_of, ask->made_of.data, WIRE_DIGEST);
    if (text) {
        memcpy(text, ask->text.data, ask->text.len);
        text[ask->text.len] = 0;
    }
    pthread_mutex_lock(&k->lock);
    *k->last = q;
    k->last = &q->next;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return SHOAL_OK;
}

static shoal_status on_message(void *context, Shoal__Kind kind, const void *body, size_t bytes) {
    ProtobufCMessage *ask;
    if (kind != SHOAL__KIND__ARTIFACT_WANTED)
        return base_fail(SHOAL_UNSUPPORTED, "the keeper of artifacts is told nothing else");
    SHOAL_TRY(wire_unpack(&shoal__artifact_ask__descriptor, body, bytes, &ask));
    shoal_status status = take(context, (Shoal__ArtifactAsk *)ask);
    if (status != SHOAL_OK) wire_unpacked_free(ask);
    return status;
}

static void on_lost(void *context, shoal_status why, const char *message) {
    shoal_keeper *k = context;
    pthread_mutex_lock(&k->lock);
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

static shoal_status join(shoal_keeper *k, const char *to) {
    wire_peer *wire = worker_wire(k->worker);
    char address[64];
    snprintf(address, sizeof address, "shm:keeper-%ld-%llx", (long)getpid(),
             (unsigned long long)wire_incarnation(wire));
    SHOAL_TRY(wire_listen(wire, address));
    SHOAL_TRY(wire_listen_for(wire, to, getenv("SHOAL_LISTEN")));
    SHOAL_TRY(wire_start(wire));
    SHOAL_TRY(worker_join(k->worker, to, JOIN_MS));
    uint8_t own[WIRE_KEY], signer[WIRE_KEY];
    SHOAL_TRY(wire_keys_artifacts(own));
    if (worker_signer(k->worker, signer) != SHOAL_OK)
        return base_fail(SHOAL_NOT_FOUND,
                         "the hub at %s has no artifacts: shoal hub --artifacts kept", to);
    if (memcmp(own, signer, sizeof own) != 0)
        return base_fail(SHOAL_DENIED,
                         "the hub at %s has told its members of another key than this "
                         "user's: nobody would take what this one signs",
                         to);
    Shoal__Artifact begins = SHOAL__ARTIFACT__INIT;
    return worker_send(k->worker, SHOAL__KIND__ARTIFACT, &begins.base);
}

shoal_status shoal_keeper_open(const char *address, const char *folder, shoal_keeper **out) {
    worker_options options = {.name = "keeper", .role = SHOAL__ROLE__CLIENT, .models = folder};
    shoal_keeper *k = calloc(1, sizeof *k);
    if (!k) return base_fail(SHOAL_NO_MEMORY, "no memory for a keeper");
    pthread_mutex_init(&k->lock, NULL);
    base_condition_init(&k->changed);
    k->last = &k->first;
    shoal_status status = worker_new(&options, &k->worker);
    if (status == SHOAL_OK) {
        worker_client client = {.context = k, .message = on_message, .lost = on_lost};
        worker_set_client(k->worker, &client);
        status = join(k, address ? address : "shm:hub");
    }
    if (status == SHOAL_OK)
        *out = k;
    else
        shoal_keeper_close(&k);
    return status;
}

void shoal_keeper_close(shoal_keeper **out) {
    shoal_keeper *k = *out;
    *out = NULL;
    if (!k) return;
    worker_destroy(&k->worker);
    question_free(k->current);
    while (k->first) {
        question *q = k->first;
        k->first = q->next;
        question_free(q);
    }
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

shoal_status shoal_keeper_next(shoal_keeper *k, uint32_t timeout_ms, shoal_wanted *out) {
    struct timespec end = base_timespec(base_now() + timeout_ms * BASE_MS);
    bool late = false;
    pthread_mutex_lock(&k->lock);
    while (!k->first && !late && worker_state(k->worker) == SHOAL_OK)
        late = pthread_cond_timedwait(&k->changed, &k->lock, &end) != 0;
    question *q = k->first;
    if (q && !(k->first = q->next)) k->last = &k->first;
    if (q) {
        question_free(k->current);
        k->current = q;
    }
    pthread_mutex_unlock(&k->lock);
    if (!q) {
        SHOAL_TRY(worker_state(k->worker));
        return base_fail(SHOAL_TIMEOUT, "no question has come");
    }
    *out = (shoal_wanted){.token = q->ask->token,
                          .made_of = q->made_of,
                          .target = q->ask->target,
                          .device = q->ask->device,
                          .compiler = q->ask->compiler,
                          .text = q->text,
                          .text_bytes = q->ask->text.len,
                          .user = q->ask->user};
    return SHOAL_OK;
}

shoal_status shoal_keeper_give(shoal_keeper *k, uint64_t token, const char *path, const void *note,
                               size_t note_bytes) {
    uint8_t digest[SHOAL_DIGEST];
    Shoal__Artifact answer = SHOAL__ARTIFACT__INIT;
    model_map *map;
    if (!token || !note_bytes || note_bytes > WIRE_MOST_NOTE)
        return base_fail(SHOAL_INVALID, "a note of %zu bytes; it has 1 to %d", note_bytes,
                         WIRE_MOST_NOTE);
    SHOAL_TRY(model_map_open(path, &map));
    shoal_status status = model_map_digest(map, NULL, NULL, digest);
    if (status == SHOAL_OK) status = worker_offer_file(k->worker, digest, map);
    answer.token = token;
    answer.note = (ProtobufCBinaryData){note_bytes, (uint8_t *)(uintptr_t)note};
    answer.digest = (ProtobufCBinaryData){sizeof digest, digest};
    answer.bytes = map->bytes;
    if (status == SHOAL_OK) status = worker_send(k->worker, SHOAL__KIND__ARTIFACT, &answer.base);
    model_map_release(map);
    return status;
}

shoal_status shoal_keeper_refuse(shoal_keeper *k, uint64_t token, shoal_status why,
                                 const char *message) {
    Shoal__Artifact answer = SHOAL__ARTIFACT__INIT;
    Shoal__Error error = SHOAL__ERROR__INIT;
    char text[512];
    if (!token) return base_fail(SHOAL_INVALID, "no question has the number 0");
    snprintf(text, sizeof text, "%s", message ? message : "");
    base_text_clean(text, false);
    error.status = (uint32_t)why;
    error.message = text;
    answer.token = token;
    answer.wanted = why == SHOAL_OK;
    if (!answer.wanted) answer.error = &error;
    return worker_send(k->worker, SHOAL__KIND__ARTIFACT, &answer.base);
}
