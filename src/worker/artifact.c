/* Artifacts of the pool: a backend that compiles asks for one by the digest of all that it is made
 * of, the hub's keeper answers with a signed note, and the file is fetched as any other is. What
 * the note says is for the backend to judge. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAIT_TIMES = 2 /* multiples of the worker's silence, a minute: for an answer and the file */
};
/* The largest artifact that is taken. */
#define MOST_ARTIFACT (UINT64_C(1) << 30)

/* A question that waits for its answer, on the stack of who asks. */
typedef struct worker_want {
    struct worker_want *next;
    uint64_t token;
    Shoal__Artifact *answer;
} worker_want;

static worker_want **find(worker *w, uint64_t token) {
    worker_want **at = &w->artifacts.wants;
    while (*at && (*at)->token != token) at = &(*at)->next;
    return at;
}

void worker_artifact_given(worker *w, Shoal__Artifact *artifact) {
    pthread_mutex_lock(&w->lock);
    worker_want *want = *find(w, artifact->token);
    if (want && !want->answer) {
        want->answer = artifact;
        artifact = NULL;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    if (artifact) wire_unpacked_free(&artifact->base); /* late: nobody waits any more */
}

/* Lock held. */
static shoal_status await(worker *w, worker_want *want, int64_t until) {
    struct timespec end = base_timespec(until);
    bool late = false;
    while (!want->answer && w->hub && !w->stopping && !late)
        late = pthread_cond_timedwait(&w->changed, &w->lock, &end) != 0;
    *find(w, want->token) = want->next;
    if (want->answer) return SHOAL_OK;
    if (w->stopping) return base_fail(SHOAL_CLOSED, "the worker is ending");
    if (!w->hub) return base_fail(SHOAL_LOST, "the hub was lost before it answered");
    return base_fail(SHOAL_TIMEOUT, "the hub has not answered in time");
}

/* One question and its answer, which is the caller's. */
static shoal_status ask_hub(worker *w, const shoal_artifact_ask *ask, bool with_text, int64_t until,
                            Shoal__Artifact **out) {
    worker_want want = {0};
    Shoal__ArtifactAsk message = SHOAL__ARTIFACT_ASK__INIT;
    message.made_of = (ProtobufCBinaryData){WIRE_DIGEST, (uint8_t *)ask->made_of};
    message.target = (char *)ask->target;
    message.device = (char *)ask->device;
    message.compiler = (char *)ask->compiler;
    if (with_text)
        message.text = (ProtobufCBinaryData){strlen(ask->text), (uint8_t *)(uintptr_t)ask->text};
    pthread_mutex_lock(&w->lock);
    message.token = want.token = ++w->artifacts.last;
    shoal_status status = w->hub ? wire_send(w->hub, SHOAL__KIND__ARTIFACT_ASK, &message.base)
                                 : base_fail(SHOAL_LOST, "the hub is not connected");
    if (status == SHOAL_OK) {
        want.next = w->artifacts.wants;
        w->artifacts.wants = &want;
        status = await(w, &want, until);
    }
    pthread_mutex_unlock(&w->lock);
    *out = want.answer;
    return status;
}

/* What was said instead of giving it. */
static shoal_status refused(const Shoal__Artifact *answer) {
    shoal_status status = answer->error ? (shoal_status)answer->error->status : SHOAL_NOT_FOUND;
    char text[256];
    snprintf(text, sizeof text, "%s", answer->error ? answer->error->message : "there is none");
    base_text_clean(text, false);
    return base_fail(status == SHOAL_BUSY ? SHOAL_BUSY : SHOAL_NOT_FOUND, "%s", text);
}

static shoal_status check(const Shoal__Artifact *answer) {
    if (answer->error || answer->wanted || !answer->note.len) return refused(answer);
    if (answer->digest.len != WIRE_DIGEST || answer->note.len > WIRE_MOST_NOTE)
        return base_fail(SHOAL_FORMAT, "the hub's answer about an artifact makes no sense");
    if (!answer->bytes || answer->bytes > MOST_ARTIFACT)
        return base_fail(SHOAL_FORMAT, "an artifact of %llu bytes; at most %llu are taken",
                         (unsigned long long)answer->bytes, (unsigned long long)MOST_ARTIFACT);
    return SHOAL_OK;
}

static shoal_status take(worker *w, const shoal_artifact_ask *ask, const Shoal__Artifact *answer,
                         int64_t until, shoal_artifact *out) {
    char hex[2 * WIRE_DIGEST + 1], name[64];
    worker_digest_text(ask->made_of, hex);
    snprintf(name, sizeof name, "artifact %.16s", hex);
    *out = (shoal_artifact){.note_bytes = answer->note.len, .note = malloc(answer->note.len)};
    if (!out->note) return base_fail(SHOAL_NO_MEMORY, "no memory for the note of an artifact");
    memcpy(out->note, answer->note.data, answer->note.len);
    shoal_status status = worker_file_bring(w, answer->digest.data, answer->bytes, name,
                                            answer->peer, until, &out->path);
    if (status != SHOAL_OK) free(out->note);
    return status;
}

static shoal_status fetch(void *context, const shoal_artifact_ask *ask, shoal_artifact *out) {
    worker *w = context;
    Shoal__Artifact *answer = NULL;
    int64_t until = base_now() + WAIT_TIMES * w->silence;
    if (!w->artifacts.there) return base_fail(SHOAL_NOT_FOUND, "the hub has no artifacts");
    shoal_status status = ask_hub(w, ask, false, until, &answer);
    if (status == SHOAL_OK && answer->wanted && ask->text && strlen(ask->text) <= WIRE_MOST_TEXT) {
        wire_unpacked_free(&answer->base);
        status = ask_hub(w, ask, true, until, &answer);
    }
    if (status == SHOAL_OK) status = check(answer);
    if (status == SHOAL_OK) status = take(w, ask, answer, until, out);
    if (answer) wire_unpacked_free(&answer->base);
    return status;
}

static shoal_status key(void *context, uint8_t out[WIRE_KEY], bool *trusted) {
    worker *w = context;
    pthread_mutex_lock(&w->lock);
    bool found = w->artifacts.there;
    memcpy(out, w->artifacts.signer, WIRE_KEY);
    *trusted = w->artifacts.trusted;
    pthread_mutex_unlock(&w->lock);
    return found ? SHOAL_OK : base_fail(SHOAL_NOT_FOUND, "the hub has no artifacts");
}

shoal_status worker_signer(worker *w, uint8_t out[WIRE_KEY]) {
    bool trusted;
    return key(w, out, &trusted);
}

void worker_artifacts_begin(worker *w, bool trusted) {
    w->artifacts.pool = (backend_pool){w, key, fetch};
    w->artifacts.trusted = trusted;
}

void worker_artifacts_joined(worker *w, const Shoal__Welcome *welcome) {
    w->artifacts.there = welcome->artifacts.len == WIRE_KEY;
    if (w->artifacts.there) memcpy(w->artifacts.signer, welcome->artifacts.data, WIRE_KEY);
}
