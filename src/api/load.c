/* Tensors of files: read where they are used, by each program anew. */
#include "api/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "model/file.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sources ---- */

api_stored *api_stored_retain(api_stored *source) {
    atomic_fetch_add(&source->refs, 1);
    return source;
}

void api_stored_release(api_stored *source) {
    if (!source || atomic_fetch_sub(&source->refs, 1) != 1) return;
    model_file_release(source->file);
    free(source);
}

void api_stored_forget(shoal_session *session) {
    for (size_t i = 0; i < session->stored.count; i++) api_stored_release(session->stored.data[i]);
    session->stored.count = 0;
    base_map_fini(&session->traced_stored);
}

/* The node, and the one that makes numbers of blocks. */
static shoal_status add_nodes(graph *g, const api_stored *source, uint32_t *value) {
    const shoal_type *type = &source->stored;
    char digest[2 * SHOAL_DIGEST + 1];
    model_region at;
    SHOAL_TRY(model_file_region(source->file, source->index, &source->box, &at));
    sodium_bin2hex(digest, sizeof digest, source->digest, sizeof source->digest);
    shoal_attr attrs[8] = {graph_ints(SHOAL_ATTR_STRIDES, at.strides, type->rank),
                           graph_ints(SHOAL_ATTR_SHAPE, type->dims, type->rank),
                           graph_int(SHOAL_ATTR_DTYPE, type->dtype),
                           graph_string(SHOAL_ATTR_FILE, digest),
                           graph_int(SHOAL_ATTR_FILE_BYTES, (int64_t)source->file->bytes),
                           graph_int(SHOAL_ATTR_OFFSET, (int64_t)at.offset),
                           graph_string(SHOAL_ATTR_NAME, source->name),
                           graph_bool(SHOAL_ATTR_SWAPPED, true)};
    SHOAL_TRY(graph_at(g, NULL, NULL));
    SHOAL_TRY(graph_add(g, GRAPH_SOURCE, NULL, 0, attrs, 7 + at.swapped, NULL, 0, value));
    if (!source->decode) return SHOAL_OK;
    const char *format = source->file->tensors[source->index].encoding->name;
    const shoal_attr how[] = {graph_int(SHOAL_ATTR_DTYPE, source->type.dtype),
                              graph_string(SHOAL_ATTR_FORMAT, format)};
    return graph_add(g, GRAPH_DEQUANTIZE, value, 1, how, 2, NULL, 0, value);
}

shoal_status api_stored_add(shoal_session *session, graph *g, const api_stored *source,
                            uint32_t *value) {
    SHOAL_TRY(model_map_check(source->file->map));
    SHOAL_TRY(worker_offer_file(session->worker, source->digest, source->file->map));
    return add_nodes(g, source, value);
}

shoal_status api_stored_value(shoal_session *session, api_stored *source, uint32_t *value) {
    if (!session->trace) SHOAL_TRY(graph_new(0, &session->trace));
    uintptr_t known = (uintptr_t)base_map_get(&session->traced_stored, (uintptr_t)source);
    if (known) {
        *value = (uint32_t)(known - 1);
        return SHOAL_OK;
    }
    SHOAL_TRY(api_stored_add(session, session->trace, source, value));
    if (!base_vec_push(&session->stored, source)) return SHOAL_NO_MEMORY;
    api_stored_retain(source);
    return base_map_set(&session->traced_stored, (uintptr_t)source,
                        (void *)((uintptr_t)*value + 1));
}

shoal_status api_stored_read(const api_stored *source, void *data) {
    SHOAL_TRY(model_map_check(source->file->map));
    if (!source->decode) return model_file_copy(source->file, source->index, &source->box, data);
    return shoal_file_read(source->file, source->index, 0, (uint64_t)base_type_count(&source->type),
                           data);
}

/* ---- what the file is known by ---- */

typedef struct telling {
    const char *path;
    int64_t told;
} telling;

static bool tell(void *context, uint64_t done, uint64_t all) {
    telling *t = context;
    int64_t now = base_now();
    if (now - t->told < BASE_SECOND) return true;
    t->told = now;
    base_log(BASE_INFO, "client", "reading %s for its digest: %.1f of %.1f GB", t->path,
             (double)done / 1e9, (double)all / 1e9);
    return true;
}

/* In a process that is a pool by itself nobody else has to know the file: it need not be read. */
static shoal_status digest_of(const shoal_session *session, const model_map *map, uint8_t *out) {
    if (session->hub) {
        crypto_generichash(out, SHOAL_DIGEST, (const uint8_t *)&map->stamp, sizeof map->stamp, NULL,
                           0);
        return SHOAL_OK;
    }
    telling t = {map->path, base_now()};
    SHOAL_TRY(model_map_digest(map, tell, &t, out));
    model_digest_note(out, map->path);
    return SHOAL_OK;
}

/* "model.gguf: blk.0.weight", of letters that messages may show. */
static void name_of(const shoal_file *file, uint64_t index, char *out, size_t room) {
    const char *slash = strrchr(file->path, '/'), *tensor = file->tensors[index].name;
    snprintf(out, room, "%s%s%s", slash ? slash + 1 : file->path, *tensor ? ": " : "", tensor);
    for (char *at = out; *at; at++)
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\') *at = '?';
}

/* box: NULL: all of it. */
static shoal_status source_new(shoal_file *file, uint64_t index, const base_box *box,
                               const shoal_session *session, bool decode, api_stored **out) {
    const model_tensor *t = &file->tensors[index];
    api_stored *source = calloc(1, sizeof *source);
    if (!source) return base_fail(SHOAL_NO_MEMORY, "no memory to load a tensor");
    atomic_init(&source->refs, 1);
    source->file = model_file_retain(file);
    source->index = index;
    source->stored = model_stored_type(t);
    source->box = box ? *box : base_box_whole(source->stored.rank, source->stored.dims);
    memcpy(source->stored.dims, source->box.size, source->box.rank * sizeof *source->box.size);
    source->decode = decode && t->encoding->format != MODEL_PLAIN;
    source->type = source->decode ? t->type : source->stored;
    name_of(file, index, source->name, sizeof source->name);
    shoal_status status = digest_of(session, file->map, source->digest);
    if (status != SHOAL_OK)
        api_stored_release(source);
    else
        *out = source;
    return status;
}

/* ---- loading ---- */

/* What has no elements lies nowhere. */
static shoal_status load_empty(shoal_session *session, const shoal_type *type, shoal_tensor **out) {
    return shoal_tensor_new(session, (shoal_dtype)type->dtype, type->rank, type->dims, NULL, out);
}

static shoal_status load(shoal_file *file, uint64_t index, const base_box *box,
                         shoal_session *session, bool decode, shoal_tensor **out) {
    api_stored *source = NULL;
    shoal_tensor *tensor = NULL;
    shoal_file_tensor info;
    *out = NULL;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    const model_encoding *encoding = file->tensors[index].encoding;
    if (decode && encoding->format == MODEL_UNREAD) return shoal_file_read(file, index, 0, 0, NULL);
    shoal_type type = decode ? info.type : info.stored;
    if (box) memcpy(type.dims, box->size, box->rank * sizeof *box->size);
    if (!base_type_count(&type)) return load_empty(session, &type, out);
    SHOAL_TRY(source_new(file, index, box, session, decode, &source));
    pthread_mutex_lock(&session->lock);
    shoal_status status = api_check(session);
    if (status == SHOAL_OK) status = api_tensor_alloc(session, &type, &tensor);
    if (status == SHOAL_OK) {
        tensor->source = source;
        source->number = session->next_value++;
        status = api_scope_adopt(api_scope_now(), tensor, out);
    } else {
        api_stored_release(source);
    }
    pthread_mutex_unlock(&session->lock);
    shoal_tensor_free(&tensor);
    return status;
}

static shoal_status borrow_stored(shoal_file *file, uint64_t index, shoal_session *session,
                                  shoal_tensor **out) {
    const shoal_type type = model_stored_type(&file->tensors[index]);
    const void *direct = model_file_direct(file, index);
    size_t bytes = (size_t)base_type_bytes(&type);
    SHOAL_TRY(model_map_check(file->map));
    /* Small ones travel with messages, for which nobody looks at the file any more. */
    if (direct && bytes > WIRE_SMALL)
        return api_borrow(session, &type, direct, file->map, model_file_release,
                          model_file_retain(file), out);
    void *data = malloc(bytes ? bytes : 1);
    if (!data) return base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes", bytes);
    base_box whole = base_box_whole(type.rank, type.dims);
    shoal_status status = model_file_copy(file, index, &whole, data);
    if (status == SHOAL_OK) return api_borrow(session, &type, data, NULL, free, data, out);
    free(data);
    return status;
}

shoal_status shoal_file_borrow(shoal_file *file, uint64_t index, shoal_session *session,
                               shoal_tensor **out) {
    shoal_file_tensor info;
    shoal_tensor *stored;
    *out = NULL;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    const model_encoding *encoding = file->tensors[index].encoding;
    if (encoding->format == MODEL_UNREAD) return shoal_file_read(file, index, 0, 0, NULL);
    SHOAL_TRY(borrow_stored(file, index, session, &stored));
    if (encoding->format == MODEL_PLAIN) {
        *out = stored;
        return SHOAL_OK;
    }
    shoal_status status =
        shoal_dequantize(stored, encoding->name, (shoal_dtype)info.type.dtype, out);
    shoal_tensor_free(&stored);
    return status;
}

shoal_status shoal_file_load_stored(shoal_file *file, uint64_t index, shoal_session *session,
                                    shoal_tensor **out) {
    return load(file, index, NULL, session, false, out);
}

shoal_status shoal_file_load(shoal_file *file, uint64_t index, shoal_session *session,
                             shoal_tensor **out) {
    return load(file, index, NULL, session, true, out);
}

shoal_status shoal_file_load_box(shoal_file *file, uint64_t index, const int64_t *start,
                                 const int64_t *limit, shoal_session *session, shoal_tensor **out) {
    shoal_file_tensor info;
    *out = NULL;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    base_box box = {.rank = info.type.rank};
    if (file->tensors[index].encoding->format != MODEL_PLAIN)
        return base_fail(SHOAL_INVALID,
                         "%s: '%s' is %s: a box is loaded of numbers, not of blocks; load all of "
                         "it, and take a slice",
                         file->path, info.name, info.encoding);
    for (uint32_t a = 0; a < box.rank; a++) {
        if (start[a] < 0 || limit[a] < start[a] || limit[a] > info.type.dims[a])
            return base_fail(SHOAL_INVALID,
                             "%s: elements %lld to %lld along axis %u of '%s', which has %lld",
                             file->path, (long long)start[a], (long long)limit[a], a, info.name,
                             (long long)info.type.dims[a]);
        box.start[a] = start[a];
        box.size[a] = limit[a] - start[a];
    }
    return load(file, index, &box, session, true, out);
}
