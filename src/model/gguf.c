/* .gguf, versions 2 and 3: metadata and tensors of a language model
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Little endian. Dimensions are listed
 * fastest first; types here are row-major, so they are reversed. */
#include "model/file.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 1 << 20, MAX_META = 1 << 20, MAX_DIMS = 4 };

/* Types of metadata values, by number: how many bytes, 0 for strings (8) and arrays (9). */
enum { META_BOOL = 7, META_STRING = 8, META_ARRAY = 9, META_TYPES = 13 };
static const struct {
    const char *name;
    uint8_t bytes;
} meta_types[META_TYPES] = {{"uint8", 1},  {"int8", 1},  {"uint16", 2},  {"int16", 2},
                            {"uint32", 4}, {"int32", 4}, {"float32", 4}, {"bool", 1},
                            {"string", 0}, {"array", 0}, {"uint64", 8},  {"int64", 8},
                            {"float64", 8}};

bool model_is_gguf(const shoal_file *file) {
    return file->bytes >= 4 && !memcmp(file->data, "GGUF", 4);
}

/* A place in the file; `failed` once anything ran over the end. */
typedef struct cursor {
    const shoal_file *file;
    uint64_t at;
    bool failed;
} cursor;

static bool room(cursor *c, uint64_t bytes) {
    if (c->failed || bytes > c->file->bytes - c->at) c->failed = true;
    return !c->failed;
}

static uint64_t number_at(const shoal_file *file, uint64_t at, unsigned bytes) {
    uint64_t n = 0;
    for (unsigned i = bytes; i-- > 0;) n = n << 8 | file->data[at + i];
    return n;
}

static uint64_t take(cursor *c, unsigned bytes) {
    if (!room(c, bytes)) return 0;
    uint64_t n = number_at(c->file, c->at, bytes);
    c->at += bytes;
    return n;
}

static void skip(cursor *c, uint64_t bytes) {
    if (room(c, bytes)) c->at += bytes;
}

/* A string, copied with a final zero; NULL when it runs over the end or there is no memory. */
static const char *string_of(cursor *c, base_arena *arena) {
    uint64_t n = take(c, 8);
    if (!room(c, n)) return NULL;
    char *text = base_arena_alloc(arena, n + 1);
    if (text) memcpy(text, c->file->data + c->at, n);
    c->at += n;
    return text;
}

static shoal_status cut_off(const shoal_file *file, const char *where) {
    return base_fail(SHOAL_FORMAT, "%s is cut off or damaged: its %s run over the end", file->path,
                     where);
}

/* ---- metadata ---- */

static shoal_status one_meta(shoal_file *file, cursor *c, struct model_meta *meta) {
    meta->key = string_of(c, &file->arena);
    meta->type = (uint32_t)take(c, 4);
    meta->count = 1;
    if (!c->failed && !meta->key) return SHOAL_NO_MEMORY;
    if (meta->type == META_ARRAY) {
        meta->array = true;
        meta->type = (uint32_t)take(c, 4);
        meta->count = take(c, 8);
    }
    if (c->failed) return cut_off(file, "metadata");
    if (meta->type == META_ARRAY)
        return base_fail(SHOAL_UNSUPPORTED, "%s: '%s' is an array of arrays", file->path,
                         meta->key);
    if (meta->type >= META_TYPES)
        return base_fail(SHOAL_FORMAT, "%s: '%s' is of type %u, which does not exist", file->path,
                         meta->key, meta->type);
    meta->kind = meta_types[meta->type].name;
    meta->offset = c->at;
    uint64_t each = meta->type == META_STRING ? 8 : meta_types[meta->type].bytes;
    if (meta->count > (file->bytes - c->at) / each) return cut_off(file, "metadata");
    if (meta->type != META_STRING) {
        skip(c, meta->count * each);
        return SHOAL_OK;
    }
    meta->starts = base_arena_array(&file->arena, uint64_t, meta->count);
    if (!meta->starts) return SHOAL_NO_MEMORY;
    for (uint64_t i = 0; i < meta->count && !c->failed; i++) {
        meta->starts[i] = c->at;
        skip(c, take(c, 8));
    }
    return c->failed ? cut_off(file, "metadata") : SHOAL_OK;
}

shoal_status model_gguf_meta(const shoal_file *file, const struct model_meta *meta, uint64_t index,
                             base_str *out) {
    unsigned bytes = meta_types[meta->type].bytes;
    uint64_t at = meta->type == META_STRING ? meta->starts[index] : meta->offset + index * bytes;
    uint64_t bits = number_at(file, at, bytes ? bytes : 8);
    float single;
    double full;
    uint32_t low = (uint32_t)bits;
    /* It was looked at when the file was opened, and may have been written to since. */
    if (meta->type == META_STRING && bits > file->bytes - at - 8) return cut_off(file, "metadata");
    switch (meta->type) {
    case META_STRING: base_str_bytes(out, file->data + at + 8, bits); break;
    case META_BOOL: base_str_text(out, bits ? "true" : "false"); break;
    case 6:
        memcpy(&single, &low, sizeof single);
        base_str_format(out, "%.9g", (double)single);
        break;
    case 12:
        memcpy(&full, &bits, sizeof full);
        base_str_format(out, "%.17g", full);
        break;
    case 1: base_str_format(out, "%d", (int)(int8_t)bits); break;
    case 3: base_str_format(out, "%d", (int)(int16_t)bits); break;
    case 5: base_str_format(out, "%d", (int)(int32_t)low); break;
    case 11: base_str_format(out, "%lld", (long long)bits); break;
    default: base_str_format(out, "%llu", (unsigned long long)bits);
    }
    return SHOAL_OK;
}

/* ---- tensors ---- */

static shoal_status one_tensor(shoal_file *file, cursor *c, model_tensor *t) {
    t->name = string_of(c, &file->arena);
    uint32_t n = (uint32_t)take(c, 4);
    if (c->failed) return cut_off(file, "tensors");
    if (!t->name) return SHOAL_NO_MEMORY;
    if (n > MAX_DIMS)
        return base_fail(SHOAL_FORMAT, "%s: '%s' has %u dimensions; the format allows %d",
                         file->path, t->name, n, MAX_DIMS);
    t->type.rank = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) t->type.dims[n - 1 - i] = (int64_t)take(c, 8);
    uint32_t number = (uint32_t)take(c, 4);
    t->offset = take(c, 8);
    if (c->failed) return cut_off(file, "tensors");
    t->encoding = model_encoding_gguf(number);
    if (!t->encoding)
        return base_fail(SHOAL_UNSUPPORTED, "%s: '%s' is stored in encoding %u, which is unknown",
                         file->path, t->name, number);
    t->type.dtype = (uint8_t)t->encoding->dtype;
    int64_t count;
    shoal_status status = base_type_elements(&t->type, &count);
    if (status != SHOAL_OK)
        return base_fail_prefix(SHOAL_FORMAT, "%s: '%s': ", file->path, t->name);
    int64_t row = n ? t->type.dims[n - 1] : 1;
    if (row % t->encoding->values)
        return base_fail(SHOAL_FORMAT,
                         "%s: rows of '%s' have %lld elements, not whole blocks of %u", file->path,
                         t->name, (long long)row, t->encoding->values);
    t->bytes = (uint64_t)count / t->encoding->values * t->encoding->bytes;
    return SHOAL_OK;
}

/* Offsets count from the first aligned byte after the tensor list. */
static shoal_status set_offsets(shoal_file *file, uint64_t after, uint64_t alignment) {
    uint64_t start = (after + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < file->n_tensors; i++) {
        model_tensor *t = &file->tensors[i];
        if (start > file->bytes || t->offset > file->bytes - start ||
            t->bytes > file->bytes - start - t->offset)
            return base_fail(SHOAL_FORMAT, "%s is cut off: '%s' lies beyond its end", file->path,
                             t->name);
        if (t->offset % alignment)
            return base_fail(SHOAL_FORMAT, "%s: '%s' is not aligned to %llu bytes", file->path,
                             t->name, (unsigned long long)alignment);
        t->offset += start;
    }
    return SHOAL_OK;
}

shoal_status model_gguf_open(shoal_file *file) {
    cursor c = {.file = file, .at = 4};
    uint32_t version = (uint32_t)take(&c, 4);
    uint64_t n_tensors = take(&c, 8), n_meta = take(&c, 8);
    if (c.failed) return cut_off(file, "first fields");
    if (version != 2 && version != 3)
        return base_fail(SHOAL_UNSUPPORTED, "%s is of .gguf version %u; 2 and 3 can be read%s",
                         file->path, version,
                         version == 0x03000000 || version == 0x02000000
                             ? " (it is big endian: convert it with gguf-convert-endian)"
                             : "");
    /* The least that each takes in the file bounds what may be allocated for it. */
    if (n_tensors > MAX_TENSORS || n_meta > MAX_META || n_tensors > file->bytes / 24 ||
        n_meta > file->bytes / 13)
        return base_fail(SHOAL_FORMAT,
                         "%s is damaged: %llu tensors and %llu metadata values are "
                         "announced",
                         file->path, (unsigned long long)n_tensors, (unsigned long long)n_meta);
    file->meta = base_arena_array(&file->arena, struct model_meta, n_meta);
    file->tensors = base_arena_array(&file->arena, model_tensor, n_tensors);
    if (!file->meta || !file->tensors) return SHOAL_NO_MEMORY;
    for (; file->n_meta < n_meta; file->n_meta++)
        SHOAL_TRY(one_meta(file, &c, &file->meta[file->n_meta]));
    for (; file->n_tensors < n_tensors; file->n_tensors++)
        SHOAL_TRY(one_tensor(file, &c, &file->tensors[file->n_tensors]));
    const struct model_meta *given = model_meta_find(file, "general.alignment");
    uint64_t alignment = 32;
    if (given && given->type == 4) alignment = number_at(file, given->offset, 4);
    if (!alignment || alignment & (alignment - 1))
        return base_fail(SHOAL_FORMAT, "%s: an alignment of %llu, not a power of two", file->path,
                         (unsigned long long)alignment);
    return set_offsets(file, c.at, alignment);
}
