/* A session whose hub was lost joins it again once it is back. The attempts are made by a thread of
 * the session's own, begun by the first call that finds the hub gone; that call waits for the first
 * of them. What tensors held was lost with the hub: each belongs to an era, and calls that are
 * given one of an earlier era say so. */
#include "api/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_MS = 2000, LEAST_PAUSE_MS = 50, MOST_PAUSE_MS = 5000 };

/* ---- the swap ---- */

void api_forget(shoal_session *session) {
    size_t at = 0;
    uint64_t key;
    void *item;
    graph_destroy(&session->trace);
    base_map_fini(&session->inputs);
    api_stored_forget(session);
    session->input_values.count = session->pending.count = session->released.count = 0;
    session->n_uploads = 0;
    for (size_t i = 0; i < session->programs.count; i++)
        base_str_fini(&session->programs.data[i].key);
    session->programs.count = 0;
    for (size_t i = 0; i < session->workers.count; i++) session->workers.data[i].gone = true;
    session->workers_asked = INT64_MIN / 2;
    api_events_forget(session);
    pthread_mutex_lock(&session->news);
    session->outstanding = 0;
    while (base_map_next(&session->failures, &at, &key, &item)) {
        free(((api_failure *)item)->message);
        free(item);
    }
    base_map_fini(&session->failures);
    api_recorded_forget(session);
    free(session->first_failure.message);
    session->first_failure = (api_failure){0};
    session->n_times = 0;
    memset(session->times, 0, sizeof session->times);
    pthread_mutex_unlock(&session->news);
}

/* Puts the worker that has joined in the place of the one that has not: *fresh is that one then. */
static void swap(shoal_session *session, worker **fresh) {
    while (session->waits) pthread_cond_wait(&session->calm, &session->lock);
    api_readings_give_up(session, SHOAL_LOST);
    api_forget(session);
    worker *lost = session->worker;
    free(session->ended);
    session->ended = worker_state(lost) == SHOAL_OK ? NULL : strdup(shoal_error_message());
    session->worker = *fresh;
    *fresh = lost;
    session->era++;
    api_number_from(session);
    base_log(BASE_INFO, "client", "joined %s again", session->options.hub);
}

/* ---- the attempts ---- */

static void pause_for(shoal_session *session, int64_t ms) {
    struct timespec until = base_timespec(base_now() + ms * BASE_MS);
    while (!session->closed && !pthread_cond_timedwait(&session->calm, &session->lock, &until)) {
    }
}

static void note_attempt(shoal_session *session, shoal_status status) {
    free(session->failed);
    session->failed = status == SHOAL_OK ? NULL : strdup(shoal_error_message());
    session->attempts++;
    pthread_cond_broadcast(&session->calm);
}

static void *rejoin(void *context) {
    shoal_session *session = context;
    int64_t pause = LEAST_PAUSE_MS;
    pthread_mutex_lock(&session->lock);
    while (!session->closed) {
        worker *fresh = NULL;
        pthread_mutex_unlock(&session->lock);
        shoal_status status = api_join(session, &fresh);
        pthread_mutex_lock(&session->lock);
        if (status == SHOAL_OK && !session->closed) swap(session, &fresh);
        bool more = status != SHOAL_OK && api_may_pass(status);
        note_attempt(session, status);
        pthread_mutex_unlock(&session->lock);
        /* Not under the lock: it calls back to who has lent memory. */
        worker_destroy(&fresh);
        pthread_mutex_lock(&session->lock);
        /* Last: who begins anew joins this thread, with the lock. */
        if (!more) session->rejoining = false;
        if (!more) break;
        pause_for(session, pause);
        pause = pause * 2 < MOST_PAUSE_MS ? pause * 2 : MOST_PAUSE_MS;
    }
    pthread_mutex_unlock(&session->lock);
    return NULL;
}

/* ---- calls ---- */

static shoal_status begin(shoal_session *session) {
    if (session->started) pthread_join(session->rejoiner, NULL);
    session->started = !pthread_create(&session->rejoiner, NULL, rejoin, session);
    if (!session->started) return base_fail(SHOAL_NO_MEMORY, "no thread to join the hub again");
    session->rejoining = true;
    struct timespec until = base_timespec(base_now() + FIRST_MS * BASE_MS);
    uint32_t before = session->attempts;
    while (session->attempts == before && !session->closed &&
           !pthread_cond_timedwait(&session->calm, &session->lock, &until)) {
    }
    return SHOAL_OK;
}

shoal_status api_check(shoal_session *session) {
    if (!api_is_here(session))
        return base_fail(SHOAL_CLOSED, "the session is of the process that this one was forked "
                                       "from: open another one here");
    if (session->closed) return base_fail(SHOAL_CLOSED, "the session is closed");
    shoal_status status = worker_state(session->worker);
    if (status == SHOAL_OK && api_scope_now()) status = api_scope_refresh(session);
    if (status == SHOAL_OK || session->hub) return status;
    if (!session->rejoining) SHOAL_TRY(begin(session));
    if (session->closed) return base_fail(SHOAL_CLOSED, "the session is closed");
    status = worker_state(session->worker);
    if (status == SHOAL_OK || !session->failed) return status;
    base_str text;
    base_str_init(&text);
    base_str_format(&text, "%s; joining it again: %s", shoal_error_message(), session->failed);
    if (base_str_status(&text) == SHOAL_OK) base_fail(status, "%s", text.data);
    base_str_fini(&text);
    return status;
}

shoal_status api_check_era(const shoal_tensor *tensor) {
    char text[BASE_TYPE_TEXT];
    if (tensor->donated)
        return base_fail(SHOAL_INVALID,
                         "this tensor (%s) was donated to a function, whose result has its memory: "
                         "use that result, or do not donate it",
                         base_type_text(&tensor->type, text));
    if (tensor->whole)
        return base_fail(SHOAL_UNSUPPORTED,
                         "vmap: this tensor (%s) stands for one index of a batch: within the "
                         "function its values cannot be read, nor used after it",
                         base_type_text(&tensor->type, text));
    if (tensor->era == tensor->session->era) return SHOAL_OK;
    const shoal_session *session = tensor->session;
    bool last = tensor->era + 1 == session->era && session->ended;
    return base_fail(SHOAL_LOST,
                     "the value of this tensor (%s) was lost with its session at %s, which ended "
                     "(%s) and was joined anew: make the tensor again, or load it",
                     base_type_text(&tensor->type, text), session->options.hub,
                     last ? session->ended : "some time ago");
}

void api_rejoin_end(shoal_session *session) {
    pthread_cond_broadcast(&session->calm);
    if (!session->started) return;
    pthread_mutex_unlock(&session->lock);
    pthread_join(session->rejoiner, NULL);
    pthread_mutex_lock(&session->lock);
    session->started = false;
}
