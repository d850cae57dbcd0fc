/* What the rounds of a loop bring to a client's memory, until it is taken. Bounded: the loop's slot
 * here does not begin a round that there is no room for. There is more while the client waits for
 * something else, which may be behind the loop: whoever is to take it may be who waits. */
#include "worker/state.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 4096, MOST_BYTES = 64 << 20, WIDER = 4 };

bool worker_stream_has_room(const worker_stream *stream) {
    size_t bytes = stream->n ? stream->n * sizeof(void *) : 1;
    for (uint32_t i = 0; i < stream->n && stream->queue.count; i++)
        bytes += stream->queue.data[i]->bytes;
    size_t waiting = (size_t)(stream->next - stream->taken), times = stream->wide ? WIDER : 1;
    return !waiting || (waiting < times * MOST_ROUNDS && waiting < times * MOST_BYTES / bytes);
}

void worker_stream_push(worker_stream *stream, const worker_lap *lap, const worker_task *task) {
    /* What an earlier attempt has brought is not brought again. */
    if (lap->round != stream->next + 1) return;
    const shoal_graph *g = graph_data(lap->program->graph);
    for (uint32_t i = 0; i < stream->n; i++)
        for (uint32_t o = 0; o < g->n_outputs; o++) {
            if (lap->outputs[o]->value != stream->values[i]) continue;
            worker_buffer *buffer = worker_buffer_retain(task->outputs[o]->buffer);
            if (base_vec_push(&stream->queue, buffer)) break;
            worker_buffer_release(buffer);
            worker_stream_end(stream, stream->next);
            stream->status = SHOAL_NO_MEMORY;
            return;
        }
    stream->next++;
    stream->taken_at = base_now();
}

/* The loop that waits for its reader, for too long; 0: none. Lock held. */
static uint64_t overdue(const worker *w) {
    for (size_t i = 0; i < w->loops.count; i++)
        for (uint32_t k = 0; k < w->loops.data[i]->n_laps; k++) {
            const worker_stream *stream = w->loops.data[i]->laps[k].stream;
            if (stream && w->loops.data[i]->upto && !worker_stream_has_room(stream) &&
                base_now() - stream->taken_at > stream->patience)
                return w->loops.data[i]->first;
        }
    return 0;
}

void worker_streams_watch(worker *w) {
    pthread_mutex_lock(&w->lock);
    uint64_t loop = overdue(w);
    pthread_mutex_unlock(&w->lock);
    if (loop)
        worker_instance_cancel(
            w, loop, SHOAL_TIMEOUT,
            "nobody has taken the results of a loop's rounds for so long that it "
            "was ended: what comes behind it waits as well",
            0);
}

void worker_stream_end(worker_stream *stream, uint64_t rounds) {
    stream->ended = true;
    stream->rounds = rounds;
}

shoal_status worker_stream_open(worker *w, const uint64_t *values, uint32_t n, uint32_t patience_ms,
                                worker_stream **out) {
    worker_stream *stream = calloc(1, sizeof *stream + n * sizeof *values);
    if (!stream) return base_fail(SHOAL_NO_MEMORY, "no memory for the results of a loop");
    atomic_init(&stream->holders, 2);
    stream->n = n;
    stream->patience = (int64_t)patience_ms * (BASE_SECOND / 1000);
    stream->values = (uint64_t *)(stream + 1);
    memcpy(stream->values, values, n * sizeof *values);
    pthread_mutex_lock(&w->lock);
    shoal_status status = base_map_set(&w->streams, values[0], stream);
    pthread_mutex_unlock(&w->lock);
    if (status != SHOAL_OK)
        free(stream);
    else
        *out = stream;
    return status;
}

static void stream_empty(worker_stream *stream) {
    for (size_t i = 0; i < stream->queue.count; i++) worker_buffer_release(stream->queue.data[i]);
    stream->queue.count = 0;
}

static void stream_release(worker_stream *stream) {
    if (atomic_fetch_sub(&stream->holders, 1) != 1) return;
    free(stream->queue.data);
    free(stream->error);
    free(stream);
}

void worker_streams_end(worker *w) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&w->streams, &at, &key, &item)) {
        worker_stream *stream = item;
        stream_empty(stream);
        stream->next = stream->taken;
        if (stream->status == SHOAL_OK) stream->status = SHOAL_CLOSED;
        stream_release(stream);
    }
    base_map_fini(&w->streams);
}

void worker_stream_close(worker *w, worker_stream **out) {
    worker_stream *stream = *out;
    *out = NULL;
    if (!stream) return;
    if (!w) {
        stream_release(stream);
        return;
    }
    worker_slot *home = &w->slots[w->n_slots - 1];
    pthread_mutex_lock(&w->lock);
    base_map_remove(&w->streams, stream->values[0]);
    for (size_t i = 0; i < w->loops.count; i++)
        for (uint32_t k = 0; k < w->loops.data[i]->n_laps; k++)
            if (w->loops.data[i]->laps[k].stream == stream) w->loops.data[i]->laps[k].stream = NULL;
    stream_empty(stream);
    pthread_mutex_unlock(&w->lock);
    stream_release(stream);
    stream_release(stream);
    worker_home_advance(home); /* it may have waited for room */
}

void worker_stream_fail(worker *w, uint64_t value, shoal_status status, const char *message) {
    pthread_mutex_lock(&w->lock);
    worker_stream *stream = base_map_get(&w->streams, value);
    if (stream && stream->status == SHOAL_OK && !stream->ended) {
        stream->status = status;
        stream->error = strdup(message);
    }
    pthread_mutex_unlock(&w->lock);
}

/* Whether more may come: also of a loop that has failed, what was before that. Lock held. */
static bool is_brought(const worker *w, const worker_stream *stream) {
    for (size_t i = 0; i < w->loops.count; i++)
        for (uint32_t k = 0; k < w->loops.data[i]->n_laps; k++)
            if (w->loops.data[i]->laps[k].stream == stream) return true;
    return false;
}

void worker_streams_widen(worker *w) {
    size_t at = 0;
    uint64_t key;
    void *item;
    bool wider = false;
    pthread_mutex_lock(&w->lock);
    while (base_map_next(&w->streams, &at, &key, &item)) {
        worker_stream *stream = item;
        wider |= !stream->wide;
        stream->wide = true;
    }
    pthread_mutex_unlock(&w->lock);
    if (wider) worker_home_advance(&w->slots[w->n_slots - 1]);
}

bool worker_stream_ready(worker *w, const worker_stream *stream) {
    pthread_mutex_lock(&w->lock);
    bool ready = stream->next > stream->taken || stream->ended ||
                 (stream->status != SHOAL_OK && !is_brought(w, stream));
    pthread_mutex_unlock(&w->lock);
    return ready;
}

shoal_status worker_stream_take(worker *w, worker_stream *stream, void *const *data,
                                const size_t *bytes, bool *more) {
    worker_buffer **taken = calloc(stream->n + 1, sizeof *taken);
    if (!taken) return base_fail(SHOAL_NO_MEMORY, "no memory to take the results of a round");
    pthread_mutex_lock(&w->lock);
    shoal_status status = SHOAL_OK;
    *more = stream->next > stream->taken;
    if (*more) {
        stream->wide = false;
        bool full = !worker_stream_has_room(stream);
        memcpy(taken, stream->queue.data, stream->n * sizeof *taken);
        stream->queue.count -= stream->n;
        memmove(stream->queue.data, stream->queue.data + stream->n,
                stream->queue.count * sizeof *taken);
        stream->taken++;
        stream->taken_at = base_now();
        stream->full = full;
    } else if (stream->status != SHOAL_OK) {
        status = base_fail(stream->status, "%s", stream->error ? stream->error : "no memory");
    } else if (!stream->ended) {
        status = base_fail(SHOAL_INTERNAL, "nothing has come of the loop");
    }
    bool advance = stream->full;
    stream->full = false;
    pthread_mutex_unlock(&w->lock);
    for (uint32_t i = 0; i < stream->n && *more; i++) {
        if (taken[i]->bytes != bytes[i])
            status = base_fail(SHOAL_INTERNAL, "result %u of a round has %zu bytes, not %zu", i,
                               taken[i]->bytes, bytes[i]);
        else if (data[i])
            memcpy(data[i], taken[i]->host, bytes[i]);
        worker_buffer_release(taken[i]);
    }
    free(taken);
    if (advance) worker_home_advance(&w->slots[w->n_slots - 1]);
    return status;
}

uint64_t worker_stream_rounds(worker *w, const worker_stream *stream) {
    pthread_mutex_lock(&w->lock);
    uint64_t rounds = stream->ended ? stream->rounds : stream->next;
    pthread_mutex_unlock(&w->lock);
    return rounds;
}
