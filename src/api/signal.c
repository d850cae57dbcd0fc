/* Signals: scopes of this thread, and what they do to operands and results.
 *
 * Descriptions are the process's, guarded by a lock of their own; names are kept for ever, so that
 * tensors and the tape may point to them. */
#include "api/state.h"

#include "base/clock.h"
#include "plan/signal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SCOPES = 64, ASK_AGAIN_S = 1 };
static const double CHANGED = 0.2; /* part by which a speed has to change to change shares */

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static plan_signals described;
static BASE_VEC(char *) names;

/* The one copy of a name; NULL without memory. Write lock held. */
static const char *intern(const char *name) {
    for (size_t i = 0; i < names.count; i++)
        if (!strcmp(names.data[i], name)) return names.data[i];
    char *copy = strdup(name);
    if (copy && base_vec_push(&names, copy)) return copy;
    free(copy);
    base_fail(SHOAL_NO_MEMORY, "no memory for a signal");
    return NULL;
}

/* ---- descriptions ---- */

shoal_status shoal_signals_parse(const char *text, size_t bytes, const char *source) {
    plan_signals read;
    pthread_rwlock_wrlock(&lock);
    shoal_status status = plan_signals_parse(text, bytes, source, &described, &read);
    for (size_t i = 0; status == SHOAL_OK && i < read.list.count; i++) {
        status = plan_signal_set(&described, read.list.data[i]);
        if (status == SHOAL_OK) read.list.data[i] = NULL;
    }
    plan_signals_fini(&read);
    pthread_rwlock_unlock(&lock);
    return status;
}

shoal_status shoal_signals_load(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) return base_fail_errno(errno, "signals: cannot open %s", path);
    char *text = malloc(PLAN_SIGNAL_TEXT + 1);
    if (!text) {
        fclose(file);
        return base_fail(SHOAL_NO_MEMORY, "no memory for signals");
    }
    size_t n = fread(text, 1, PLAN_SIGNAL_TEXT + 1, file);
    shoal_status status =
        ferror(file) ? base_fail(SHOAL_IO, "signals: cannot read %s", path) : SHOAL_OK;
    fclose(file);
    if (status == SHOAL_OK) status = shoal_signals_parse(text, n, path);
    free(text);
    return status;
}

static shoal_status check_given(const shoal_signal *s) {
    double sum = 0;
    if (!s->name || !*s->name) return base_fail(SHOAL_INVALID, "a signal needs a name");
    if (s->axis < -SHOAL_MAX_RANK || s->axis >= SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "signal '%s': axis %d; give %d to %d", s->name, s->axis,
                         -SHOAL_MAX_RANK, SHOAL_MAX_RANK - 1);
    for (uint32_t i = 0; i < s->n_workers; i++)
        for (uint32_t k = 0; k < i; k++)
            if (s->workers[i] == s->workers[k])
                return base_fail(SHOAL_INVALID, "signal '%s' names worker %u twice", s->name,
                                 s->workers[i]);
    for (uint32_t i = 0; s->shares && i < s->n_shares; i++) {
        if (!(s->shares[i] >= 0) || !isfinite(s->shares[i]))
            return base_fail(SHOAL_INVALID, "signal '%s': a share of %g", s->name, s->shares[i]);
        sum += s->shares[i];
    }
    if (s->shares && (!(sum > 0) || (s->n_workers && s->n_workers != s->n_shares)))
        return base_fail(SHOAL_INVALID, "signal '%s': %u shares, of %g in all, for %u workers",
                         s->name, s->n_shares, sum, s->n_workers);
    return SHOAL_OK;
}

shoal_status shoal_signal_describe(const shoal_signal *given) {
    shoal_signal s = {0};
    if (!given->size || given->size > sizeof s)
        return base_fail(SHOAL_INVALID, "shoal_signal.size is %zu; set it to sizeof(shoal_signal)",
                         given->size);
    memcpy(&s, given, given->size);
    SHOAL_TRY(check_given(&s));
    const plan_signal from = {.name = (char *)s.name,
                              .source = (char *)"a call",
                              .shard = s.shard,
                              .axis = s.axis,
                              .replicated = s.replicated,
                              .n_workers = s.n_workers,
                              .workers = s.n_workers ? (uint32_t *)s.workers : NULL,
                              .n_shares = s.shares ? s.n_shares : 0,
                              .shares = (double *)s.shares,
                              .backward = (char *)s.backward,
                              .compile = s.compile};
    plan_signal *copy = NULL;
    SHOAL_TRY(plan_signal_copy(&from, &copy));
    pthread_rwlock_wrlock(&lock);
    shoal_status status = plan_signal_set(&described, copy);
    pthread_rwlock_unlock(&lock);
    if (status != SHOAL_OK) plan_signal_free(copy);
    return status;
}

void shoal_signals_each(void (*each)(void *context, const shoal_signal *signal), void *context) {
    pthread_rwlock_rdlock(&lock);
    for (size_t i = 0; i < described.list.count; i++) {
        const plan_signal *from = described.list.data[i];
        const shoal_signal signal = {.size = sizeof signal,
                                     .name = from->name,
                                     .shard = from->shard,
                                     .axis = from->axis,
                                     .replicated = from->replicated,
                                     .workers = from->workers,
                                     .n_workers = from->n_workers,
                                     .shares = from->shares,
                                     .n_shares = from->n_shares,
                                     .backward = from->backward,
                                     .compile = from->compile};
        each(context, &signal);
    }
    pthread_rwlock_unlock(&lock);
}

void shoal_signals_clear(void) {
    pthread_rwlock_wrlock(&lock);
    plan_signals_fini(&described);
    pthread_rwlock_unlock(&lock);
}

/* ---- scopes ---- */

static _Thread_local api_scope scopes[MAX_SCOPES];
static _Thread_local uint32_t n_scopes;

const api_scope *api_scope_now(void) {
    return n_scopes && scopes[n_scopes - 1].name ? &scopes[n_scopes - 1] : NULL;
}

void api_scope_of(const char *text, api_scope *out) {
    static const char again[] = "/again";
    *out = (api_scope){0};
    size_t n = text ? strlen(text) : 0, end = sizeof again - 1;
    if (n > end && !strcmp(text + n - end, again)) n -= end;
    pthread_rwlock_rdlock(&lock);
    for (size_t i = 0; text && i < names.count; i++)
        if (!strncmp(names.data[i], text, n) && !names.data[i][n])
            out->name = out->backward = names.data[i];
    pthread_rwlock_unlock(&lock);
}

shoal_status api_scope_push(const api_scope *scope) {
    if (n_scopes == MAX_SCOPES)
        return base_fail(SHOAL_INVALID, "signals: more than %d scopes inside each other",
                         MAX_SCOPES);
    scopes[n_scopes++] = *scope;
    return SHOAL_OK;
}

void api_scope_pop(void) { n_scopes--; }

bool shoal_signal_scope(uint32_t i, const char **name, const char **backward) {
    if (i >= n_scopes) return false;
    *name = scopes[n_scopes - 1 - i].name;
    *backward = scopes[n_scopes - 1 - i].backward;
    return true;
}

/* The scope of a name, by what is described of it. */
static shoal_status make_scope(const char *name, const char *backward, api_scope *out) {
    *out = (api_scope){0};
    if (!name) return SHOAL_OK;
    pthread_rwlock_wrlock(&lock);
    const plan_signal *signal = plan_signal_find(&described, name);
    if (!backward && signal) backward = signal->backward;
    out->name = intern(name);
    out->backward = intern(backward ? backward : name);
    out->whole = signal && signal->compile;
    pthread_rwlock_unlock(&lock);
    return out->name && out->backward ? SHOAL_OK : SHOAL_NO_MEMORY;
}

shoal_status shoal_signal_enter(shoal_session *session, const char *name, const char *backward) {
    api_scope scope;
    SHOAL_TRY(make_scope(name, backward, &scope));
    SHOAL_TRY(api_scope_push(&scope));
    if (!scope.whole) return SHOAL_OK;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) status = api_flush(session, NULL, NULL, 0, NULL);
    if (status == SHOAL_OK) session->whole++;
    pthread_mutex_unlock(&session->lock);
    if (status != SHOAL_OK) api_scope_pop();
    return status;
}

shoal_status shoal_signal_exit(shoal_session *session, const char *name) {
    const api_scope *scope = n_scopes ? &scopes[n_scopes - 1] : NULL;
    const char *inner = scope && scope->name ? scope->name : "";
    if (!scope || (name ? strcmp(inner, name) != 0 : scope->name != NULL))
        return base_fail(SHOAL_INVALID, "signal: leaving '%s' while %s%s%s", name ? name : "",
                         scope ? "'" : "no scope is open", inner,
                         scope ? "' is the innermost" : "");
    bool whole = scope->whole;
    api_scope_pop();
    if (!whole) return SHOAL_OK;
    pthread_mutex_lock(&session->lock);
    session->whole--;
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) status = api_flush(session, NULL, NULL, 0, NULL);
    pthread_mutex_unlock(&session->lock);
    return status;
}

bool api_trace_is_full(const shoal_session *session) {
    if (!session->trace) return false;
    uint32_t n = graph_data(session->trace)->n_nodes;
    return n >= API_TRACE_NODES && (!session->whole || n >= API_WHOLE_NODES);
}

/* ---- the workers that signals count ---- */

static void note_worker(shoal_session *session, const Shoal__SlotStatus *slot) {
    double weight = slot->device ? slot->device->weight : 1;
    api_worker_slot *free_place = NULL;
    for (size_t i = 0; i < session->workers.count; i++) {
        api_worker_slot *known = &session->workers.data[i];
        if (known->slot == slot->slot) {
            known->gone = false;
            if (fabs(known->weight - weight) > CHANGED * known->weight) known->weight = weight;
            return;
        }
        if (known->gone && !free_place) free_place = known;
    }
    api_worker_slot fresh = {slot->slot, weight, false};
    if (free_place)
        *free_place = fresh;
    else if (!base_vec_push(&session->workers, fresh))
        return; /* it is noted the next time */
}

/* Asks the hub when the pool has changed, or a while has passed: speeds may be known by now. */
shoal_status api_scope_refresh(shoal_session *session) {
    pthread_rwlock_rdlock(&lock);
    bool scoped = described.list.count;
    pthread_rwlock_unlock(&lock);
    if (!scoped) return SHOAL_OK;
    uint64_t epoch = worker_epoch(session->worker);
    int64_t now = base_now();
    if (session->workers.count && epoch == session->workers_epoch &&
        now - session->workers_asked < ASK_AGAIN_S * BASE_SECOND)
        return SHOAL_OK;
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ProtobufCMessage *answer;
    SHOAL_TRY(api_ask(session, SHOAL__KIND__STATUS_ASK, &ask.base, &ask.token, &answer));
    const Shoal__Status *status = (const Shoal__Status *)answer;
    for (size_t i = 0; i < session->workers.count; i++) {
        api_worker_slot *known = &session->workers.data[i];
        known->gone = true;
        for (size_t k = 0; k < status->n_slots; k++)
            if (status->slots[k]->slot == known->slot) known->gone = false;
    }
    for (size_t i = 0; i < status->n_slots; i++)
        if (status->slots[i]->compute) note_worker(session, status->slots[i]);
    wire_unpacked_free(answer);
    session->workers_epoch = epoch;
    session->workers_asked = now;
    return SHOAL_OK;
}

/* ---- placing ---- */

static shoal_status no_worker(const plan_signal *signal, uint32_t number, size_t n) {
    base_fail(SHOAL_INVALID, "signal '%s' names worker %u; the pool has %zu, numbered from 0",
              signal->name, number, n);
    return signal->workers_at.line
               ? base_fail_prefix(SHOAL_INVALID, "%s:%u:%u: ", signal->source,
                                  signal->workers_at.line, signal->workers_at.column)
               : SHOAL_INVALID;
}

/* Slots and weights of the workers of a signal. */
static shoal_status list_workers(shoal_session *session, const plan_signal *signal, uint32_t *slots,
                                 double *weights, uint32_t *n) {
    size_t known = session->workers.count;
    const api_worker_slot *workers = session->workers.data;
    *n = 0;
    for (uint32_t i = 0; i < signal->n_workers; i++) {
        if (signal->workers[i] >= known) return no_worker(signal, signal->workers[i], known);
        slots[*n] = workers[signal->workers[i]].slot;
        weights[*n] = signal->shares ? signal->shares[i] : workers[signal->workers[i]].weight;
        ++*n;
    }
    for (size_t i = 0; !signal->n_workers && i < known; i++) {
        if (workers[i].gone) continue;
        slots[*n] = workers[i].slot;
        weights[*n] =
            signal->shares && *n < signal->n_shares ? signal->shares[*n] : workers[i].weight;
        ++*n;
    }
    if (!*n)
        return base_fail(SHOAL_LOST, "no worker is in the pool: start one with `shoal worker`");
    if (signal->shares && signal->n_shares != *n)
        return base_fail(SHOAL_INVALID, "signal '%s' has %u shares; the pool has %u workers",
                         signal->name, signal->n_shares, *n);
    return SHOAL_OK;
}

/* copies: whole on each of the signal's workers, whatever it says. */
static shoal_status place_by(const plan_signal *signal, shoal_tensor *x, bool copies,
                             shoal_tensor **out) {
    shoal_session *session = x->session;
    size_t room = session->workers.count + signal->n_workers + 1;
    uint32_t *slots = calloc(room, sizeof *slots), parts[SHOAL_MAX_RANK], n = 0;
    double *weights = calloc(room + SHOAL_MAX_RANK, sizeof *weights);
    shoal_status status = slots && weights ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory");
    if (status == SHOAL_OK) status = list_workers(session, signal, slots, weights, &n);
    if (status == SHOAL_OK) {
        int32_t rank = x->type.rank, axis = signal->axis + (signal->axis < 0 ? rank : 0);
        bool cut = !copies && !signal->replicated && axis >= 0 && axis < rank;
        shoal_layout layout = {
            .size = sizeof layout, .slots = slots, .n_slots = n, .copies = cut ? 1 : n};
        if (cut) {
            /* Per axis as many weights as parts: one for each of those that are not cut. */
            memmove(weights + axis, weights, n * sizeof *weights);
            for (int32_t a = 0; a < rank; a++) {
                parts[a] = a == axis ? n : 1;
                if (a != axis) weights[a < axis ? a : a + (int32_t)n - 1] = 1;
            }
            layout.parts = parts;
            layout.weights = weights;
        }
        status = api_place(x, &layout, out);
    }
    if (status == SHOAL_OK) {
        (*out)->signal = NULL;
        (*out)->shared = copies;
    }
    free(slots);
    free(weights);
    return status;
}

static shoal_status keep(shoal_tensor *x, shoal_tensor **out) {
    *out = shoal_tensor_retain(x);
    return SHOAL_OK;
}

static bool is_leaf(const shoal_tensor *x) { return x->origin && x->origin->leaf; }

/* Read lock held. */
static shoal_status bring(const api_scope *scope, const plan_signal *signal, shoal_tensor *x,
                          shoal_tensor **out) {
    bool placed = x->signal == scope->name || (x->signal && is_leaf(x));
    if (placed || base_type_count(&x->type) <= 1) return keep(x, out);
    SHOAL_TRY(place_by(signal, x, is_leaf(x) || x->shared, out));
    (*out)->signal = scope->name;
    return SHOAL_OK;
}

shoal_status api_scope_operands(shoal_session *session, const api_scope *scope,
                                shoal_tensor *const *inputs, uint32_t n, shoal_tensor **placed) {
    shoal_status status = SHOAL_OK;
    memset(placed, 0, n * sizeof *placed);
    pthread_rwlock_rdlock(&lock);
    const plan_signal *signal = plan_signal_find(&described, scope->name);
    for (uint32_t i = 0; i < n && status == SHOAL_OK; i++)
        status = signal && signal->shard && inputs[i]->session == session
                     ? bring(scope, signal, inputs[i], &placed[i])
                     : keep(inputs[i], &placed[i]);
    pthread_rwlock_unlock(&lock);
    for (uint32_t i = 0; i < n && status != SHOAL_OK; i++) shoal_tensor_free(&placed[i]);
    return status;
}

shoal_status api_scope_adopt(const api_scope *scope, shoal_tensor *x, shoal_tensor **out) {
    shoal_status status = SHOAL_OK;
    *out = NULL;
    pthread_rwlock_rdlock(&lock);
    const plan_signal *signal = scope ? plan_signal_find(&described, scope->name) : NULL;
    if (!signal || !signal->shard || x->signal == scope->name || base_type_count(&x->type) <= 1)
        keep(x, out);
    else
        status = place_by(signal, x, false, out);
    pthread_rwlock_unlock(&lock);
    if (status == SHOAL_OK && *out != x) (*out)->signal = scope->name;
    return status;
}

shoal_status shoal_signal_adopt(shoal_tensor *x, shoal_tensor **out) {
    *out = NULL;
    pthread_mutex_lock(&x->session->lock);
    shoal_status status = api_check(x->session);
    if (status == SHOAL_OK) status = api_scope_adopt(api_scope_now(), x, out);
    pthread_mutex_unlock(&x->session->lock);
    return status;
}

static shoal_status place_named(shoal_tensor *x, const char *name, shoal_tensor **out) {
    char text[BASE_TYPE_TEXT];
    api_scope scope;
    SHOAL_TRY(make_scope(name, NULL, &scope));
    pthread_rwlock_rdlock(&lock);
    const plan_signal *signal = plan_signal_find(&described, name);
    shoal_status status = SHOAL_OK;
    if (!signal || !signal->shard) {
        status =
            base_fail(SHOAL_NOT_FOUND, "signal '%s' %s", name,
                      signal ? "does not say where values lie: give it `shard`"
                             : "has not been described: load a file that does, or describe it");
    } else {
        int32_t rank = x->type.rank, axis = signal->axis + (signal->axis < 0 ? rank : 0);
        if (!signal->replicated && (axis < 0 || axis >= rank)) {
            status = base_fail(SHOAL_INVALID, "signal '%s' cuts axis %d; the tensor is %s", name,
                               signal->axis, base_type_text(&x->type, text));
            if (signal->axis_at.line)
                base_fail_prefix(status, "%s:%u:%u: ", signal->source, signal->axis_at.line,
                                 signal->axis_at.column);
        } else {
            status = place_by(signal, x, false, out);
        }
    }
    pthread_rwlock_unlock(&lock);
    if (status == SHOAL_OK) (*out)->signal = scope.name;
    return status;
}

shoal_status shoal_signal_place(shoal_tensor *x, const char *name, shoal_tensor **out) {
    *out = NULL;
    pthread_mutex_lock(&x->session->lock);
    shoal_status status = api_check(x->session);
    if (status == SHOAL_OK) status = api_scope_refresh(x->session);
    if (status == SHOAL_OK) status = place_named(x, name, out);
    pthread_mutex_unlock(&x->session->lock);
    return status;
}
