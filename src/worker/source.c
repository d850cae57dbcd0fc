/* Values that come from files: used where they lie in the mapped file when the device can, else
 * copied. Copies on a device with memory of its own stay there for later programs, as long as there
 * is room; they can always be made again. */
#include "worker/state.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/* ---- which values they are ---- */

static shoal_status source_new(worker_program *program, const shoal_node *node,
                               const shoal_type *type, const worker_source **out) {
    worker_source *s = base_arena_array(&program->arena, worker_source, 1);
    if (!s) return SHOAL_NO_MEMORY;
    size_t bytes;
    s->type = *type;
    graph_source_of(node, type, &s->at);
    if (sodium_hex2bin(s->file, sizeof s->file, s->at.file, strlen(s->at.file), NULL, &bytes,
                       NULL) ||
        bytes != sizeof s->file)
        return base_fail(SHOAL_FORMAT, "a source of no file");
    const uint64_t rest[] = {base_hash(s->file, sizeof s->file), s->at.offset, type->dtype,
                             type->rank, s->at.swapped};
    s->hash = base_hash(rest, sizeof rest) ^ base_hash(type->dims, type->rank * sizeof *type->dims);
    s->hash = s->hash * 31 + base_hash(s->at.strides, type->rank * sizeof *s->at.strides);
    *out = s;
    return SHOAL_OK;
}

shoal_status worker_sources_find(worker_program *program, const shoal_graph *g) {
    program->sources = base_arena_array(&program->arena, const worker_source *, g->n_values);
    if (!program->sources) return SHOAL_NO_MEMORY;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        uint32_t value = g->nodes[n].first_output;
        if (g->nodes[n].op == GRAPH_SOURCE)
            SHOAL_TRY(source_new(program, &g->nodes[n], &g->values[value].type,
                                 &program->sources[value]));
    }
    return SHOAL_OK;
}

static bool same(const worker_source *a, const worker_source *b) {
    return a->hash == b->hash && !memcmp(a->file, b->file, sizeof a->file) &&
           a->at.offset == b->at.offset && a->at.swapped == b->at.swapped &&
           base_type_equal(&a->type, &b->type) &&
           !memcmp(a->at.strides, b->at.strides, a->type.rank * sizeof *a->at.strides);
}

/* ---- copies on devices ---- */

typedef struct worker_kept {
    struct worker_kept *next;
    worker_source source;
    int64_t strides[SHOAL_MAX_RANK];
    worker_buffer *buffer;
} worker_kept;

/* A copy that is there, with a reference more; NULL: there is none. */
static worker_buffer *kept_find(worker_queue *queue, const worker_source *source) {
    worker_buffer *found = NULL;
    pthread_mutex_lock(&queue->lock);
    worker_kept **at = &queue->kept;
    while (*at && !same(&(*at)->source, source)) at = &(*at)->next;
    worker_kept *kept = *at;
    if (kept) {
        *at = kept->next;
        kept->next = queue->kept;
        queue->kept = kept;
        found = worker_buffer_retain(kept->buffer);
    }
    pthread_mutex_unlock(&queue->lock);
    return found;
}

/* Without memory for the entry the next program copies again. */
static void keep(worker_queue *queue, const worker_source *source, worker_buffer *buffer) {
    worker_kept *kept = malloc(sizeof *kept);
    if (!kept) return;
    *kept = (worker_kept){.source = *source, .buffer = worker_buffer_retain(buffer)};
    memcpy(kept->strides, source->at.strides, source->type.rank * sizeof *kept->strides);
    kept->source.at.strides = kept->strides;
    kept->source.at.file = kept->source.at.name = NULL; /* the program's */
    pthread_mutex_lock(&queue->lock);
    kept->next = queue->kept;
    queue->kept = kept;
    pthread_mutex_unlock(&queue->lock);
}

static void kept_free(worker_kept *kept) {
    worker_buffer_release(kept->buffer);
    free(kept);
}

bool worker_kept_drop(worker_queue *queue) {
    worker_kept **spare = NULL, *kept = NULL;
    pthread_mutex_lock(&queue->lock);
    for (worker_kept **at = &queue->kept; *at; at = &(*at)->next)
        if (atomic_load(&(*at)->buffer->refs) == 1) spare = at;
    if (spare) {
        kept = *spare;
        *spare = kept->next;
    }
    pthread_mutex_unlock(&queue->lock);
    if (kept) kept_free(kept);
    return kept;
}

void worker_kept_fini(worker_queue *queue) {
    while (queue->kept) {
        worker_kept *kept = queue->kept;
        queue->kept = kept->next;
        kept_free(kept);
    }
}

/* ---- buffers ---- */

/* The elements, packed and in this machine's byte order. */
static void gather(const worker_source *source, const model_map *map, unsigned char *to) {
    const shoal_type *type = &source->type;
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    const unsigned char *from = map->data + source->at.offset;
    uint32_t rank = type->rank;
    int64_t at[SHOAL_MAX_RANK] = {0};
    /* Axes at the end that lie without gaps go at once. */
    int64_t run = (int64_t)size;
    while (rank && !source->at.swapped &&
           (type->dims[rank - 1] == 1 || source->at.strides[rank - 1] == run))
        run *= type->dims[--rank];
    for (int64_t left = base_type_bytes(type); left > 0; left -= run, to += run) {
        const unsigned char *row = from;
        for (uint32_t a = 0; a < rank; a++) row += at[a] * source->at.strides[a];
        if (source->at.swapped)
            for (size_t b = 0; b < size; b++) to[b] = row[size - 1 - b];
        else
            memcpy(to, row, (size_t)run);
        for (uint32_t a = rank; a-- > 0 && ++at[a] == type->dims[a];) at[a] = 0;
    }
}

/* Where it lies in the map; the buffer holds the map. */
static shoal_status import(worker_queue *queue, const worker_source *source, model_map *map,
                           worker_buffer **out) {
    size_t bytes = (size_t)base_type_bytes(&source->type);
    void *data = (unsigned char *)map->data + source->at.offset;
    SHOAL_TRY(worker_buffer_wrap(data, bytes, model_map_release, model_map_retain(map), out));
    (*out)->read_only = true;
    if (!queue) return SHOAL_OK;
    const shoal_import from = {SHOAL_IMPORT_FILE, data, bytes, true};
    shoal_status status = queue->backend->memory_import(queue->handle, &from, &(*out)->memory);
    if (status == SHOAL_OK)
        (*out)->queue = queue;
    else
        worker_buffer_release(*out);
    return status;
}

static shoal_status copy(worker_queue *queue, const worker_source *source, const model_map *map,
                         worker_buffer **out) {
    size_t bytes = (size_t)base_type_bytes(&source->type);
    unsigned char *packed = NULL;
    if (!queue || !queue->host) {
        packed = malloc(bytes + 1);
        if (!packed) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    }
    shoal_status status = queue ? worker_buffer_new(queue, bytes, out)
                                : worker_buffer_wrap(packed, bytes, free, packed, out);
    if (status != SHOAL_OK) {
        if (queue) free(packed);
        return status;
    }
    gather(source, map, (*out)->host ? (*out)->host : packed);
    (*out)->read_only = true;
    if ((*out)->host) return SHOAL_OK;
    base_box all = {.rank = 1, .size = {(int64_t)bytes}};
    status = worker_buffer_expect(*out);
    if (status == SHOAL_OK)
        status = worker_box_write(*out, all.size, &all, 1, packed);
    else
        free(packed);
    if (status == SHOAL_OK)
        keep(queue, source, *out);
    else
        worker_buffer_release(*out);
    return status;
}

bool worker_maps(const worker_queue *queue) {
    return queue->host && queue->info.flags & SHOAL_DEVICE_IMPORT_FILE;
}

/* Whether it may be used where it lies. */
static bool in_place(const worker_queue *queue, const worker_source *source, const model_map *map) {
    uintptr_t at = (uintptr_t)map->data + source->at.offset;
    if (!source->at.dense || at % shoal_dtype_size((shoal_dtype)source->type.dtype)) return false;
    return !queue || worker_maps(queue);
}

shoal_status worker_source_bind(worker_task *task, uint32_t value, worker_queue *queue) {
    const worker_source *source = task->program->sources[value];
    worker_buffer *have = task->values[value], *buffer = NULL;
    if (have && (queue ? have->queue == queue : have->host && !have->ready.fence)) return SHOAL_OK;
    if (queue) buffer = kept_find(queue, source);
    if (!buffer) {
        model_map *map;
        SHOAL_TRY(worker_file_get(task, source, &map));
        shoal_status status = in_place(queue, source, map) ? import(queue, source, map, &buffer)
                                                           : copy(queue, source, map, &buffer);
        model_map_release(map);
        if (status != SHOAL_OK) return base_fail_prefix(status, "%s: ", source->at.name);
    }
    worker_buffer_release(have);
    task->values[value] = buffer;
    return SHOAL_OK;
}

shoal_status worker_sources_output(worker_task *task) {
    const shoal_graph *g = graph_data(task->program->graph);
    for (uint32_t o = 0; o < g->n_outputs; o++)
        if (task->program->sources[g->outputs[o]])
            SHOAL_TRY(worker_source_bind(task, g->outputs[o], &task->slot->own));
    return SHOAL_OK;
}
