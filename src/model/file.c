/* Opening files and reading what is in them, whatever their format. */
#include "model/file.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

static shoal_status map_file(shoal_file *file) {
    SHOAL_TRY(model_map_open(file->path, &file->map));
    file->data = file->map->data;
    file->bytes = file->map->bytes;
    return SHOAL_OK;
}

/* The formats, by what tells them. */
static const struct {
    const char *name;
    bool (*is)(const shoal_file *file);
    shoal_status (*open)(shoal_file *file);
} formats[] = {{"npy", model_is_npy, model_npy_open},
               {"gguf", model_is_gguf, model_gguf_open},
               {"safetensors", model_is_safetensors, model_safetensors_open},
               {"pt", model_is_pt, model_pt_open},
               {"bin", model_is_matrix, model_matrix_open}};

static shoal_status read_table(shoal_file *file) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!formats[i].is(file)) continue;
        file->format = formats[i].name;
        return formats[i].open(file);
    }
    return base_fail(SHOAL_FORMAT,
                     "%s is neither a .npy, a .safetensors, a .gguf, a .pt nor a .bin of a matrix",
                     file->path);
}

const char *model_ending(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && !strchr(dot, '/') ? dot : "";
}

const char *shoal_file_format(const shoal_file *file) { return file->format; }

shoal_status shoal_file_open(const char *path, shoal_file **out) {
    *out = NULL;
    shoal_file *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        return base_fail(SHOAL_NO_MEMORY, "no memory to open %s", path);
    }
    atomic_init(&file->refs, 1);
    shoal_status status = map_file(file);
    /* What is made of a file may be a few times as large as the file, and no larger. */
    base_arena_init(&file->arena, file->bytes > SIZE_MAX / 16 ? 0 : 16 * file->bytes + (1 << 16));
    if (status == SHOAL_OK) status = read_table(file);
    if (status != SHOAL_OK)
        shoal_file_close(&file);
    else
        *out = file;
    return status;
}

shoal_file *model_file_retain(shoal_file *file) {
    atomic_fetch_add(&file->refs, 1);
    return file;
}

void shoal_file_close(shoal_file **out) {
    shoal_file *file = *out;
    *out = NULL;
    model_file_release(file);
}

void model_file_release(void *pointer) {
    shoal_file *file = pointer;
    if (!file || atomic_fetch_sub(&file->refs, 1) != 1) return;
    model_map_release(file->map);
    base_arena_fini(&file->arena);
    free(file->path);
    free(file);
}

uint64_t shoal_file_count(const shoal_file *file) { return file->n_tensors; }

shoal_status shoal_file_tensor_at(const shoal_file *file, uint64_t index, shoal_file_tensor *out) {
    if (index >= file->n_tensors)
        return base_fail(SHOAL_INVALID, "%s has %llu tensors; there is no number %llu", file->path,
                         (unsigned long long)file->n_tensors, (unsigned long long)index);
    const model_tensor *t = &file->tensors[index];
    *out = (shoal_file_tensor){.name = t->name,
                               .type = t->type,
                               .encoding = t->encoding->name,
                               .stored = model_stored_type(t),
                               .offset = t->offset,
                               .bytes = t->bytes,
                               .direct = t->encoding->format == MODEL_PLAIN &&
                                         model_file_direct(file, index)};
    return SHOAL_OK;
}

shoal_status shoal_file_find(const shoal_file *file, const char *name, uint64_t *index) {
    bool only = !name || !*name;
    for (uint64_t i = 0; i < file->n_tensors; i++)
        if (only ? file->n_tensors == 1 : !strcmp(file->tensors[i].name, name)) {
            *index = i;
            return SHOAL_OK;
        }
    base_str some;
    base_str_init(&some);
    for (uint64_t i = 0; i < file->n_tensors && i < 5; i++)
        base_str_format(&some, "%s%s", i ? ", " : "",
                        *file->tensors[i].name ? file->tensors[i].name : "(unnamed)");
    base_fail(SHOAL_NOT_FOUND,
              only ? "%s has %llu tensors: name one%s of them (%s%s)"
                   : "%s has no tensor among its %llu called '%s'; there are %s%s",
              file->path, (unsigned long long)file->n_tensors, only ? "" : name,
              some.data ? some.data : "", file->n_tensors > 5 ? ", …" : "");
    base_str_fini(&some);
    return SHOAL_NOT_FOUND;
}

shoal_type model_stored_type(const model_tensor *t) {
    shoal_type type = t->type;
    if (t->encoding->format == MODEL_PLAIN) return type;
    type.dtype = SHOAL_U8;
    type.dims[type.rank - 1] = type.dims[type.rank - 1] / t->encoding->values * t->encoding->bytes;
    return type;
}

const void *model_file_direct(const shoal_file *file, uint64_t index) {
    const model_tensor *t = &file->tensors[index];
    shoal_type stored = model_stored_type(t);
    const uint8_t *at = file->data + t->offset;
    bool is_aligned = (uintptr_t)at % shoal_dtype_size((shoal_dtype)stored.dtype) == 0;
    return is_aligned && !t->swapped && !t->strided ? at : NULL;
}

/* Whole blocks through the encoding's decoder; the range may begin and end inside one. */
static void read_blocks(const shoal_file *file, const model_tensor *t, uint64_t first,
                        uint64_t count, void *data) {
    const model_encoding *e = t->encoding;
    base_block_decode decode = base_block_decoder((base_block_number)e->format);
    float one[BASE_BLOCK_VALUES], *out = data;
    const uint8_t *from = file->data + t->offset;
    while (count) {
        uint64_t block = first / e->values, skip = first % e->values, n = e->values - skip;
        if (skip == 0 && count >= e->values) {
            n = count / e->values * e->values;
            decode(from + block * e->bytes, out, n / e->values);
        } else {
            if (n > count) n = count;
            decode(from + block * e->bytes, one, 1);
            memcpy(out, one + skip, n * sizeof *out);
        }
        first += n;
        count -= n;
        out += n;
    }
}

static shoal_status unread(const shoal_file *file, const model_tensor *t) {
    return base_fail(SHOAL_UNSUPPORTED,
                     "%s: '%s' is stored as %s, which is not read; plain numbers are, and"
#define XX(NAME, name, ...) " " #name
                     BASE_BLOCK_MAP(XX) ": quantise the model to one of these",
#undef XX
                     file->path, t->name, t->encoding->name);
}

/* What was cut off cannot be read: between stretches of so many bytes the file is looked at. */
enum { AT_ONCE = 16 << 20 };

shoal_status shoal_file_read(const shoal_file *file, uint64_t index, uint64_t first, uint64_t count,
                             void *data) {
    shoal_file_tensor info;
    SHOAL_TRY(shoal_file_tensor_at(file, index, &info));
    const model_tensor *t = &file->tensors[index];
    uint64_t all = (uint64_t)base_type_count(&t->type);
    if (first > all || count > all - first)
        return base_fail(SHOAL_INVALID, "%s: elements %llu to %llu of '%s', which has %llu",
                         file->path, (unsigned long long)first, (unsigned long long)(first + count),
                         t->name, (unsigned long long)all);
    if (t->encoding->format == MODEL_UNREAD) return unread(file, t);
    uint64_t size = shoal_dtype_size((shoal_dtype)t->type.dtype);
    for (uint64_t done = 0, n; done < count; done += n) {
        n = count - done < AT_ONCE / size ? count - done : AT_ONCE / size;
        SHOAL_TRY(model_map_check(file->map));
        uint8_t *to = (uint8_t *)data + done * size;
        if (t->encoding->format != MODEL_PLAIN)
            read_blocks(file, t, first + done, n, to);
        else
            model_read_plain(file, t, first + done, n, to);
    }
    return SHOAL_OK;
}

/* ---- metadata ---- */

const struct model_meta *model_meta_find(const shoal_file *file, const char *key) {
    for (uint64_t i = 0; i < file->n_meta; i++)
        if (!strcmp(file->meta[i].key, key)) return &file->meta[i];
    return NULL;
}

shoal_status shoal_file_meta(const shoal_file *file, const char *key, uint64_t index, char **out) {
    *out = NULL;
    const struct model_meta *meta = model_meta_find(file, key);
    if (!meta) return base_fail(SHOAL_NOT_FOUND, "%s has no metadata '%s'", file->path, key);
    if (index >= meta->count)
        return base_fail(SHOAL_NOT_FOUND, "%s: '%s' has %llu elements; there is no number %llu",
                         file->path, key, (unsigned long long)meta->count,
                         (unsigned long long)index);
    base_str text;
    base_str_init(&text);
    shoal_status status = SHOAL_OK;
    if (meta->text)
        base_str_text(&text, meta->text);
    else if ((status = model_map_glance(file->map)) == SHOAL_OK)
        status = model_gguf_meta(file, meta, index, &text);
    if (status == SHOAL_OK && !(*out = base_str_take(&text, NULL))) status = SHOAL_NO_MEMORY;
    base_str_fini(&text);
    return status;
}

uint64_t shoal_file_fact_count(const shoal_file *file) { return file->n_meta; }

shoal_status shoal_file_fact_at(const shoal_file *file, uint64_t index, shoal_file_fact *out) {
    if (index >= file->n_meta)
        return base_fail(SHOAL_INVALID, "%s has %llu metadata values; there is no number %llu",
                         file->path, (unsigned long long)file->n_meta, (unsigned long long)index);
    const struct model_meta *meta = &file->meta[index];
    *out = (shoal_file_fact){meta->key, meta->kind, meta->array, meta->count};
    return SHOAL_OK;
}
