/* Slots of a pool: by the names that people give them, and weighed by what they can do. */
#include "api/state.h"

#include "base/clock.h"
#include "base/speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t MOST_WAIT = 5 * BASE_SECOND, AGAIN = 10 * BASE_MS;
enum { MOST_LISTED = 8 };

static shoal_status ask(shoal_session *session, uint32_t products, Shoal__Status **out) {
    Shoal__StatusAsk question = SHOAL__STATUS_ASK__INIT;
    ProtobufCMessage *answer = NULL;
    question.products = products;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK)
        status =
            api_ask(session, SHOAL__KIND__STATUS_ASK, &question.base, &question.token, &answer);
    pthread_mutex_unlock(&session->lock);
    *out = (Shoal__Status *)answer;
    return status;
}

/* ---- names ---- */

static bool is_part(const char *text, size_t length, const char *name) {
    return name && strlen(name) == length && !memcmp(text, name, length);
}

/* "desk", "desk/opencl", "/opencl:1" or a number. */
static bool is_named(const Shoal__SlotStatus *slot, const char *name) {
    char *end;
    const char *slash = strchr(name, '/');
    if (!slash && *name >= '0' && *name <= '9' && slot->slot == strtoull(name, &end, 10) && !*end)
        return true;
    size_t length = slash ? (size_t)(slash - name) : strlen(name);
    bool any = slash == name;
    if (!any && !is_part(name, length, slot->peer_name) && !is_part(name, length, slot->host))
        return false;
    return !slash ||
           (slot->device && (is_part(slash + 1, strlen(slash + 1), slot->device->id) ||
                             is_part(slash + 1, strlen(slash + 1), slot->device->backend)));
}

static shoal_status missing(const Shoal__Status *pool, const char *name, bool taken) {
    base_str some;
    uint32_t n = 0;
    base_str_init(&some);
    for (size_t i = 0; i < pool->n_slots; i++) {
        const Shoal__SlotStatus *slot = pool->slots[i];
        if (!slot->compute || n++ >= MOST_LISTED) continue;
        base_str_format(&some, "%s%s/%s", n > 1 ? ", " : "", slot->peer_name,
                        slot->device ? slot->device->id : "?");
    }
    base_fail(SHOAL_NOT_FOUND, "no slot '%.80s' %s; there %s %s%s", name,
              taken ? "is left in the pool: others of the list have taken it" : "is in the pool",
              n == 1 ? "is" : "are", n ? some.data ? some.data : "" : "none",
              n > MOST_LISTED ? ", …" : "");
    base_str_fini(&some);
    return SHOAL_NOT_FOUND;
}

/* The first slot that fits and that no earlier name has taken. */
static shoal_status find(const Shoal__Status *pool, const char *name, bool *taken, uint32_t *out) {
    bool others = false;
    for (size_t i = 0; i < pool->n_slots; i++) {
        if (!pool->slots[i]->compute || !is_named(pool->slots[i], name)) continue;
        others |= taken[i];
        if (taken[i]) continue;
        taken[i] = true;
        *out = pool->slots[i]->slot;
        return SHOAL_OK;
    }
    return missing(pool, name, others);
}

shoal_status shoal_slots_find(shoal_session *session, const char *const *names, uint32_t n,
                              uint32_t *slots) {
    Shoal__Status *pool;
    SHOAL_TRY(ask(session, 0, &pool));
    bool *taken = calloc(pool->n_slots + 1, sizeof *taken);
    shoal_status status =
        taken ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory to find %u slots", n);
    for (uint32_t i = 0; i < n && status == SHOAL_OK; i++)
        status = find(pool, names[i], taken, &slots[i]);
    free(taken);
    wire_unpacked_free(&pool->base);
    return status;
}

/* ---- weights ---- */

static shoal_status weigh(const Shoal__Status *pool, const uint32_t *slots, uint32_t n,
                          double *weights, bool *assumed) {
    *assumed = false;
    for (uint32_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < pool->n_slots && pool->slots[at]->slot != slots[i]) at++;
        if (at == pool->n_slots || !pool->slots[at]->compute)
            return base_fail(SHOAL_NOT_FOUND, "slot %u is none that computes in this pool",
                             slots[i]);
        weights[i] = pool->slots[at]->share;
        *assumed |= pool->slots[at]->assumed;
    }
    return SHOAL_OK;
}

shoal_status shoal_slots_weigh(shoal_session *session, shoal_dtype dtype, const uint32_t *slots,
                               uint32_t n, double *weights) {
    int64_t deadline = base_now() + MOST_WAIT;
    if ((unsigned)dtype >= SHOAL_DTYPE_COUNT)
        return base_fail(SHOAL_INVALID, "there is no element type %d", (int)dtype);
    for (;;) {
        Shoal__Status *pool;
        bool assumed;
        SHOAL_TRY(ask(session, 1 + (uint32_t)base_figure_of(dtype), &pool));
        shoal_status status = weigh(pool, slots, n, weights, &assumed);
        wire_unpacked_free(&pool->base);
        if (status != SHOAL_OK || !assumed || base_now() >= deadline) return status;
        if (session->options.interrupted && session->options.interrupted(session->options.context))
            return base_fail(SHOAL_INTERRUPTED, "the wait was interrupted");
        nanosleep(&(struct timespec){.tv_nsec = AGAIN}, NULL);
    }
}
