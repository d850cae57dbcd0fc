/* .safetensors: the length of a header, the header as JSON, and the elements
 * (https://github.com/huggingface/safetensors, "Format"). What is not a tensor there is metadata:
 * texts by name. */
#include "model/file.h"

#include <cjson/cJSON.h>
#include <string.h>

/* The format's own limit is 100 MB. */
enum { LENGTH = 8, MOST_HEADER = 100 << 20 };

static const struct {
    const char *code;
    shoal_dtype dtype;
} codes[] = {{"BOOL", SHOAL_BOOL}, {"I8", SHOAL_I8},   {"I16", SHOAL_I16},   {"I32", SHOAL_I32},
             {"I64", SHOAL_I64},   {"U8", SHOAL_U8},   {"U16", SHOAL_U16},   {"U32", SHOAL_U32},
             {"U64", SHOAL_U64},   {"F16", SHOAL_F16}, {"BF16", SHOAL_BF16}, {"F32", SHOAL_F32},
             {"F64", SHOAL_F64}};
enum { CODES = sizeof codes / sizeof *codes };

static uint64_t header_length(const shoal_file *file) {
    uint64_t length = 0;
    for (int i = LENGTH - 1; i >= 0; i--) length = length << 8 | file->data[i];
    return length;
}

/* There is no magic number: a length that can be one, and an object. */
bool model_is_safetensors(const shoal_file *file) {
    return file->bytes > LENGTH && file->data[LENGTH] == '{' && header_length(file) <= MOST_HEADER;
}

static shoal_status bad(const shoal_file *file, const char *name, const char *what) {
    return base_fail(SHOAL_FORMAT, "%s: '%.200s' in the header of the .safetensors %s", file->path,
                     name, what);
}

/* A whole number that a double holds exactly. */
static bool whole(const cJSON *item, int64_t *out) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53))
        return false;
    *out = (int64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

static shoal_status read_shape(const shoal_file *file, const cJSON *row, shoal_type *type) {
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(row, "shape"), *dim;
    if (!cJSON_IsArray(shape)) return bad(file, row->string, "has no shape");
    cJSON_ArrayForEach(dim, shape) {
        if (type->rank == SHOAL_MAX_RANK)
            return base_fail(SHOAL_UNSUPPORTED, "%s: '%.200s' has more than %d axes", file->path,
                             row->string, SHOAL_MAX_RANK);
        if (!whole(dim, &type->dims[type->rank++]))
            return bad(file, row->string, "has a dimension that is none");
    }
    return SHOAL_OK;
}

static shoal_status read_row(shoal_file *file, const cJSON *row, uint64_t from, model_tensor *t) {
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(row, "dtype");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(row, "data_offsets");
    const char *code = cJSON_IsString(dtype) ? dtype->valuestring : "none";
    int64_t begin, end, count;
    int i = 0;
    while (i < CODES && strcmp(codes[i].code, code)) i++;
    if (i == CODES)
        return base_fail(SHOAL_UNSUPPORTED,
                         "%s: '%.200s' is of type '%.40s'; BOOL, I8 to I64, U8 to U64, F16, BF16, "
                         "F32 and F64 can be read",
                         file->path, row->string, code);
    t->type.dtype = (uint8_t)codes[i].dtype;
    t->encoding = model_encoding_plain(codes[i].dtype);
    SHOAL_TRY(read_shape(file, row, &t->type));
    shoal_status status = base_type_elements(&t->type, &count);
    if (status != SHOAL_OK) return base_fail_prefix(SHOAL_FORMAT, "%s: ", file->path);
    if (cJSON_GetArraySize(offsets) != 2 || !whole(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !whole(cJSON_GetArrayItem(offsets, 1), &end) || end < begin)
        return bad(file, row->string, "does not say where its elements are");
    t->bytes = (uint64_t)base_type_bytes(&t->type);
    t->offset = from + (uint64_t)begin;
    if ((uint64_t)(end - begin) != t->bytes)
        return bad(file, row->string, "has another size than its shape says");
    if ((uint64_t)end > file->bytes - from)
        return base_fail(SHOAL_FORMAT, "%s is cut off: '%.200s' ends at byte %lld of %llu",
                         file->path, row->string, (long long)end,
                         (unsigned long long)(file->bytes - from));
    t->name = base_arena_string(&file->arena, row->string);
    return t->name ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static shoal_status read_meta(shoal_file *file, const cJSON *metadata) {
    const cJSON *item;
    uint64_t n = 0;
    if (cJSON_IsNull(metadata)) return SHOAL_OK;
    if (!cJSON_IsObject(metadata)) return bad(file, metadata->string, "is no object");
    cJSON_ArrayForEach(item, metadata) n++;
    file->meta = base_arena_array(&file->arena, struct model_meta, n);
    if (!file->meta) return SHOAL_NO_MEMORY;
    cJSON_ArrayForEach(item, metadata) {
        struct model_meta *meta = &file->meta[file->n_meta];
        if (!cJSON_IsString(item)) return bad(file, item->string, "is metadata that is no text");
        *meta = (struct model_meta){.key = base_arena_string(&file->arena, item->string),
                                    .kind = "string",
                                    .text = base_arena_string(&file->arena, item->valuestring),
                                    .count = 1};
        if (!meta->key || !meta->text) return SHOAL_NO_MEMORY;
        file->n_meta++;
    }
    return SHOAL_OK;
}

static shoal_status read_rows(shoal_file *file, const cJSON *header, uint64_t from) {
    const cJSON *row;
    uint64_t n = 0;
    cJSON_ArrayForEach(row, header) n++;
    file->tensors = base_arena_array(&file->arena, model_tensor, n);
    if (!file->tensors) return SHOAL_NO_MEMORY;
    cJSON_ArrayForEach(row, header) {
        if (!strcmp(row->string, "__metadata__")) {
            if (file->meta) return bad(file, row->string, "stands twice");
            SHOAL_TRY(read_meta(file, row));
            continue;
        }
        SHOAL_TRY(read_row(file, row, from, &file->tensors[file->n_tensors]));
        file->n_tensors++;
    }
    return SHOAL_OK;
}

shoal_status model_safetensors_open(shoal_file *file) {
    uint64_t length = header_length(file);
    if (length > file->bytes - LENGTH)
        return base_fail(SHOAL_FORMAT, "%s is cut off inside its header", file->path);
    cJSON *header = cJSON_ParseWithLength((const char *)file->data + LENGTH, (size_t)length);
    shoal_status status =
        cJSON_IsObject(header)
            ? read_rows(file, header, LENGTH + length)
            : base_fail(SHOAL_FORMAT, "%s: the header of the .safetensors is no JSON object",
                        file->path);
    cJSON_Delete(header);
    return status;
}

/* ---- writing ---- */

shoal_status model_safetensors_header(const shoal_type *type, const char *name, base_str *out) {
    int i = 0;
    while (i < CODES - 1 && codes[i].dtype != (shoal_dtype)type->dtype) i++;
    cJSON *root = cJSON_CreateObject(), *row = cJSON_AddObjectToObject(root, name);
    cJSON_AddStringToObject(row, "dtype", codes[i].code);
    cJSON *shape = cJSON_AddArrayToObject(row, "shape");
    cJSON *offsets = cJSON_AddArrayToObject(row, "data_offsets");
    for (uint32_t a = 0; a < type->rank; a++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)type->dims[a]));
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber(0));
    cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)base_type_bytes(type)));
    char *text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (!text) return base_fail(SHOAL_NO_MEMORY, "no memory for the header of a .safetensors");
    size_t length = strlen(text), padded = (length + 7) / 8 * 8; /* elements are aligned */
    char start[LENGTH];
    for (int b = 0; b < LENGTH; b++) start[b] = (char)((uint64_t)padded >> 8 * b);
    base_str_bytes(out, start, sizeof start);
    base_str_bytes(out, text, length);
    for (; length < padded; length++) base_str_text(out, " ");
    cJSON_free(text);
    return base_str_status(out);
}
