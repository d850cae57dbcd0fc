/* Tensors: made from memory, placed, read. */
#include "api/state.h"

#include "backend/cache.h"
#include "base/clock.h"
#include "base/os_cpu.h"
#include "plan/layout.h"

#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

static shoal_status make_type(shoal_dtype dtype, uint32_t rank, const int64_t *dims,
                              shoal_type *out) {
    *out = (shoal_type){.dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    if ((unsigned)dtype >= SHOAL_DTYPE_COUNT)
        return base_fail(SHOAL_INVALID, "element type %u does not exist", (unsigned)dtype);
    if (rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "rank %u is over the limit of %d", rank, SHOAL_MAX_RANK);
    if (rank) memcpy(out->dims, dims, rank * sizeof *dims);
    int64_t count;
    return base_type_elements(out, &count);
}

static shoal_status note_upload(shoal_session *session, uint64_t value, const shoal_type *type,
                                const void *data) {
    if (session->n_uploads == session->room_uploads &&
        !base_vec_grow((void **)&session->uploads, &session->room_uploads,
                       sizeof *session->uploads))
        return SHOAL_NO_MEMORY;
    session->uploads[session->n_uploads++] = (struct api_upload){value, *type, data, false};
    return SHOAL_OK;
}

shoal_status api_borrow(shoal_session *session, const shoal_type *type, const void *data,
                        const model_map *map, void (*release)(void *context), void *context,
                        shoal_tensor **out) {
    *out = NULL;
    shoal_tensor *tensor = NULL;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) status = api_tensor_alloc(session, type, &tensor);
    if (status == SHOAL_OK) {
        tensor->value = session->next_value++;
        status = note_upload(session, tensor->value, type, data);
    }
    if (status == SHOAL_OK)
        status = worker_offer(session->worker, tensor->value, type, data, map, release, context);
    else if (release)
        release(context);
    if (status == SHOAL_OK) status = api_scope_adopt(api_scope_now(), tensor, out);
    pthread_mutex_unlock(&session->lock);
    shoal_tensor_free(&tensor);
    return status;
}

shoal_status shoal_tensor_borrow(shoal_session *session, shoal_dtype dtype, uint32_t rank,
                                 const int64_t *dims, const void *data,
                                 void (*release)(void *context), void *context,
                                 shoal_tensor **out) {
    shoal_type type;
    shoal_status status = make_type(dtype, rank, dims, &type);
    if (status == SHOAL_OK) return api_borrow(session, &type, data, NULL, release, context, out);
    *out = NULL;
    if (release) release(context);
    return status;
}

/* Of a large copy most of the time is that of first touching its pages: huge ones are fewer, and
 * those of the last copies are there already. */
#define KEPT_BYTES ((size_t)1 << 28)
static backend_cache spares;
static pthread_once_t spares_begun = PTHREAD_ONCE_INIT;

typedef struct pages {
    void *data;
    size_t bytes;
} pages;

static void free_spare(void *context, void *block, size_t room) {
    (void)context;
    base_pages_free(block, room);
}

static void begin_spares(void) { backend_cache_init(&spares, KEPT_BYTES, free_spare, NULL); }

void api_spares_clear(void) {
    pthread_once(&spares_begun, begin_spares);
    backend_cache_clear(&spares);
}

static void free_pages(void *context) {
    pages *p = context;
    backend_cache_keep(&spares, p->data, p->bytes);
    free(p);
}

static shoal_status copy_pages(shoal_session *session, const shoal_type *type, size_t bytes,
                               const void *data, shoal_tensor **out) {
    pages *copy = malloc(sizeof *copy);
    size_t room = bytes + (size_t)(-bytes & (BASE_PAGES_GRAIN - 1));
    pthread_once(&spares_begun, begin_spares);
    void *to = copy ? backend_cache_take(&spares, &room, false) : NULL;
    if (copy && !to) to = base_pages_new(room);
    if (!to) {
        free(copy);
        return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    }
    *copy = (pages){to, room};
    memcpy(to, data, bytes);
    return shoal_tensor_borrow(session, (shoal_dtype)type->dtype, type->rank, type->dims, to,
                               free_pages, copy, out);
}

shoal_status shoal_tensor_new(shoal_session *session, shoal_dtype dtype, uint32_t rank,
                              const int64_t *dims, const void *data, shoal_tensor **out) {
    *out = NULL;
    shoal_type type;
    SHOAL_TRY(make_type(dtype, rank, dims, &type));
    size_t bytes = (size_t)base_type_bytes(&type);
    if (bytes >= BASE_PAGES_UNIT) return copy_pages(session, &type, bytes, data, out);
    void *copy = malloc(bytes ? bytes : 1);
    if (!copy) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    if (bytes) memcpy(copy, data, bytes);
    return shoal_tensor_borrow(session, dtype, rank, dims, copy, free, copy, out);
}

/* ---- reading ---- */

/* Why the program that was to bring a value home has failed. */
static shoal_status failure_of(shoal_session *session, uint64_t value) {
    pthread_mutex_lock(&session->news);
    const api_failure *failure = base_map_get(&session->failures, value);
    shoal_status status = failure ? base_fail(failure->status, "%s", failure->message) : SHOAL_OK;
    pthread_mutex_unlock(&session->news);
    return status;
}

static bool read_over(void *context) {
    shoal_reading *r = context;
    if (worker_expected_done(r->session->worker, r->value)) return true;
    r->status = failure_of(r->session, r->value);
    if (r->status == SHOAL_OK) r->status = worker_state(r->session->worker);
    return r->status != SHOAL_OK;
}

static void note_read(const shoal_tensor *tensor, size_t bytes, shoal_event_phase phase) {
    char text[BASE_TYPE_TEXT];
    worker *w = tensor->session->worker;
    if (!base_events_on(worker_events(w))) return;
    shoal_event event = {.kind = SHOAL_EVENT_READ,
                         .phase = (uint8_t)phase,
                         .instance = tensor->number,
                         .bytes = bytes,
                         .slot = worker_home(w),
                         .peer = SHOAL_NO_SLOT};
    base_event_label(&event, "%s", base_type_text(&tensor->type, text));
    base_events_put(worker_events(w), &event);
}

static shoal_status begin(shoal_tensor *tensor, void *data, size_t bytes, shoal_reading *r) {
    char text[BASE_TYPE_TEXT];
    shoal_session *session = tensor->session;
    size_t want = (size_t)base_type_bytes(&tensor->type);
    *r = (shoal_reading){
        .session = session, .tensor = tensor, .bytes = bytes, .value = API_NO_VALUE};
    if (bytes != want)
        return base_fail(SHOAL_INVALID, "read: %s has %zu bytes; room for %zu was given",
                         base_type_text(&tensor->type, text), want, bytes);
    if (api_base(tensor)->source) return api_stored_read(api_base(tensor)->source, data);
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) note_read(tensor, want, SHOAL_EVENT_BEGIN);
    if (status == SHOAL_OK) status = api_flush(session, tensor, data, bytes, &r->value);
    r->listed = status == SHOAL_OK;
    if (r->listed) r->next = session->readings;
    if (r->listed) session->readings = r;
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* Session's lock held. */
static void unlist(shoal_reading *r) {
    shoal_reading **at = &r->session->readings;
    if (!r->listed) return;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    r->listed = false;
}

void api_readings_give_up(shoal_session *session, shoal_status why) {
    while (session->readings) {
        shoal_reading *r = session->readings;
        unlist(r);
        r->status = worker_collect(session->worker, r->value, why);
        api_failure_forget(session, r->value);
        r->value = API_NO_VALUE;
    }
}

/* After it the memory is not written to any more, whatever it returns. */
static shoal_status end(shoal_reading *r) {
    shoal_session *session = r->session;
    if (!api_is_here(session)) return api_check(session);
    pthread_mutex_lock(&session->lock);
    unlist(r);
    bool over = r->value == API_NO_VALUE;
    shoal_status status = api_wait_begin(session, over ? r->status : SHOAL_OK);
    if (status == SHOAL_LOST)
        return base_fail(status, "read: the pool that the value was in is gone; the session has "
                                 "joined another one meanwhile");
    if (status != SHOAL_OK) return base_fail(status, "read: the session is closed");
    if (!over) {
        status = api_wait(session, read_over, r);
        if (status == SHOAL_OK) status = r->status;
        status = worker_collect(session->worker, r->value, status);
        api_failure_forget(session, r->value);
        note_read(r->tensor, r->bytes, SHOAL_EVENT_END);
    }
    api_wait_end(session);
    return status;
}

shoal_status shoal_read(shoal_tensor *tensor, void *data, size_t bytes) {
    shoal_reading r;
    SHOAL_TRY(begin(tensor, data, bytes, &r));
    return end(&r);
}

shoal_status shoal_read_begin(shoal_tensor *tensor, void *data, size_t bytes, shoal_reading **out) {
    shoal_reading *r = malloc(sizeof *r);
    *out = NULL;
    if (!r) return base_fail(SHOAL_NO_MEMORY, "no memory to read a value");
    shoal_status status = begin(tensor, data, bytes, r);
    if (status == SHOAL_OK) {
        r->tensor = shoal_tensor_retain(tensor);
        *out = r;
    } else {
        free(r);
    }
    return status;
}

shoal_status shoal_read_end(shoal_reading **reading) {
    shoal_reading *r = *reading;
    *reading = NULL;
    if (!r) return base_fail(SHOAL_INVALID, "read: none has begun that could end");
    shoal_status status = end(r);
    shoal_tensor_free(&r->tensor);
    free(r);
    return status;
}

shoal_status shoal_start(shoal_tensor *tensor) {
    shoal_session *session = tensor->session;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK && !api_base(tensor)->source) status = api_check_era(api_base(tensor));
    if (status == SHOAL_OK && api_base(tensor)->value == API_NO_VALUE)
        status = api_flush(session, NULL, NULL, 0, NULL);
    pthread_mutex_unlock(&session->lock);
    return status;
}

static bool all_through(void *context) {
    shoal_session *session = context;
    pthread_mutex_lock(&session->news);
    bool through = session->outstanding == 0;
    pthread_mutex_unlock(&session->news);
    return through || worker_state(session->worker) != SHOAL_OK;
}

shoal_status shoal_sync(shoal_session *session) {
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) status = api_flush(session, NULL, NULL, 0, NULL);
    SHOAL_TRY(api_wait_begin(session, status));
    status = api_wait(session, all_through, session);
    if (status == SHOAL_OK) status = worker_state(session->worker);
    api_wait_end(session);
    SHOAL_TRY(status);
    pthread_mutex_lock(&session->news);
    if (session->first_failure.message)
        status = base_fail(session->first_failure.status, "%s", session->first_failure.message);
    free(session->first_failure.message);
    session->first_failure = (api_failure){0};
    pthread_mutex_unlock(&session->news);
    return status;
}

typedef struct timing {
    shoal_session *session;
    uint64_t program;
    const api_times *found;
} timing;

/* The program's times are here, or will not come: nothing is on its way any more. */
static bool times_known(void *context) {
    timing *t = context;
    pthread_mutex_lock(&t->session->news);
    for (size_t i = 0; i < API_TIMES && t->program; i++)
        if (t->session->times[i].program == t->program) t->found = &t->session->times[i];
    bool known = t->found || !t->session->outstanding;
    pthread_mutex_unlock(&t->session->news);
    return known || worker_state(t->session->worker) != SHOAL_OK;
}

/* Waits until the program that computes a value is through, and copies what is known of it. */
static shoal_status times_of(shoal_tensor *tensor, api_times *out) {
    shoal_session *session = tensor->session;
    SHOAL_TRY(shoal_start(tensor));
    timing t = {session, api_base(tensor)->program, NULL};
    pthread_mutex_lock(&session->lock);
    SHOAL_TRY(api_wait_begin(session, SHOAL_OK));
    shoal_status status = api_wait(session, times_known, &t);
    if (status == SHOAL_OK) status = worker_state(session->worker);
    api_wait_end(session);
    SHOAL_TRY(status);
    if (!t.found) return base_fail(SHOAL_NOT_FOUND, "the times of this value are not known");
    pthread_mutex_lock(&session->news);
    *out = *t.found;
    pthread_mutex_unlock(&session->news);
    return SHOAL_OK;
}

shoal_status shoal_tensor_times(shoal_tensor *tensor, shoal_slot_time *times, uint32_t *count) {
    uint32_t room = *count;
    api_times found;
    *count = 0;
    SHOAL_TRY(times_of(tensor, &found));
    *count = found.n < room ? found.n : room;
    memcpy(times, found.slots, *count * sizeof *times);
    return SHOAL_OK;
}

shoal_status shoal_tensor_links(shoal_tensor *tensor, shoal_link_time *links, uint32_t *count) {
    uint32_t room = *count;
    api_times found;
    *count = 0;
    SHOAL_TRY(times_of(tensor, &found));
    *count = found.n_links < room ? found.n_links : room;
    memcpy(links, found.links, *count * sizeof *links);
    return SHOAL_OK;
}

/* ---- placing ---- */

/* The slots that are meant when none are named. */
static shoal_status compute_slots(shoal_session *session, uint32_t **out, uint32_t *n) {
    Shoal__StatusAsk ask = SHOAL__STATUS_ASK__INIT;
    ProtobufCMessage *answer;
    SHOAL_TRY(api_ask(session, SHOAL__KIND__STATUS_ASK, &ask.base, &ask.token, &answer));
    const Shoal__Status *status = (const Shoal__Status *)answer;
    *n = 0;
    *out = calloc(status->n_slots + 1, sizeof **out);
    for (size_t i = 0; *out && i < status->n_slots; i++)
        if (status->slots[i]->compute) (*out)[(*n)++] = status->slots[i]->slot;
    wire_unpacked_free(answer);
    return *out ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a layout");
}

/* Parts and cut points, as `place` takes them. */
static shoal_status layout_cuts(const shoal_type *type, const shoal_layout *layout,
                                base_arena *arena, int64_t **cuts, size_t *n_cuts, int64_t *boxes) {
    size_t n = type->rank, given = 0;
    *boxes = 1;
    for (uint32_t a = 0; a < type->rank; a++) {
        uint32_t parts = layout->parts ? layout->parts[a] : 1;
        if (!parts || parts > PLAN_MAX_PARTS)
            return base_fail(SHOAL_INVALID, "place: %u parts along axis %u; give 1 to %d", parts, a,
                             PLAN_MAX_PARTS);
        n += parts + 1;
        *boxes *= parts;
    }
    *n_cuts = n;
    *cuts = base_arena_array(arena, int64_t, n);
    if (!*cuts) return SHOAL_NO_MEMORY;
    int64_t *at = *cuts + type->rank;
    for (uint32_t a = 0; a < type->rank; a++) {
        uint32_t parts = layout->parts ? layout->parts[a] : 1;
        (*cuts)[a] = parts;
        if (layout->cuts) {
            memcpy(at, layout->cuts + given, (parts + 1) * sizeof *at);
            given += parts + 1;
        } else {
            const double *weights = layout->weights ? layout->weights + given : NULL;
            SHOAL_TRY(plan_cuts(type->dims[a], 1, weights, parts, at));
            given += parts;
        }
        at += parts + 1;
    }
    return SHOAL_OK;
}

static shoal_status layout_slots(shoal_session *session, const shoal_layout *layout, int64_t boxes,
                                 base_arena *arena, int64_t **slots, size_t *n_slots) {
    uint32_t *found = NULL, n = layout->n_slots;
    const uint32_t *from = layout->slots;
    if (!from) {
        SHOAL_TRY(compute_slots(session, &found, &n));
        from = found;
    }
    int64_t copies = layout->copies ? layout->copies : (boxes ? n / boxes : 0);
    shoal_status status = SHOAL_OK;
    if (!copies || boxes * copies > n)
        status = base_fail(SHOAL_INVALID,
                           "place: %lld parts of %lld copies each need %lld slots; "
                           "there are %u",
                           (long long)boxes, (long long)(copies ? copies : 1),
                           (long long)(boxes * (copies ? copies : 1)), n);
    if (status == SHOAL_OK) {
        *n_slots = (size_t)(boxes * copies);
        *slots = base_arena_array(arena, int64_t, *n_slots);
        if (!*slots) status = SHOAL_NO_MEMORY;
    }
    for (size_t i = 0; status == SHOAL_OK && i < *n_slots; i++) (*slots)[i] = from[i];
    free(found);
    return status;
}

shoal_status api_place(shoal_tensor *x, const shoal_layout *layout, shoal_tensor **out) {
    shoal_session *session = x->session;
    base_arena arena;
    base_arena_init(&arena, 0);
    int64_t *cuts = NULL, *slots = NULL, boxes;
    size_t n_cuts = 0, n_slots = 0;
    *out = NULL;
    shoal_status status = layout_cuts(&x->type, layout, &arena, &cuts, &n_cuts, &boxes);
    if (status == SHOAL_OK) status = layout_slots(session, layout, boxes, &arena, &slots, &n_slots);
    if (status == SHOAL_OK) {
        shoal_attr attrs[4] = {graph_ints(SHOAL_ATTR_CUTS, cuts, n_cuts),
                               graph_ints(SHOAL_ATTR_SLOTS, slots, n_slots)};
        uint16_t n_attrs = 2;
        if (!layout->cuts && boxes > 1) attrs[n_attrs++] = graph_bool(SHOAL_ATTR_SHARES, 1);
        if (layout->bound) attrs[n_attrs++] = graph_bool(SHOAL_ATTR_BOUND, 1);
        status = api_apply(session, GRAPH_PLACE, &x, 1, attrs, n_attrs, NULL, 0, out, 1);
    }
    base_arena_fini(&arena);
    return status;
}

shoal_status shoal_place(shoal_tensor *x, const shoal_layout *layout, shoal_tensor **out) {
    *out = NULL;
    shoal_layout l = {0};
    if (!layout->size || layout->size > sizeof l)
        return base_fail(SHOAL_INVALID, "shoal_layout.size is %zu; set it to sizeof(shoal_layout)",
                         layout->size);
    memcpy(&l, layout, layout->size);
    pthread_mutex_lock(&x->session->lock);
    shoal_status status = api_check(x->session);
    if (status == SHOAL_OK) status = api_place(x, &l, out);
    pthread_mutex_unlock(&x->session->lock);
    return status;
}

shoal_status shoal_explain(shoal_tensor *tensor, bool json, char **out) {
    *out = NULL;
    shoal_session *session = tensor->session;
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) status = api_flush_explain(session, tensor, json, out);
    pthread_mutex_unlock(&session->lock);
    return status;
}
