/* .npy: NumPy's format for one array, versions 1.0 to 3.0
 * (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The header is the text
 * of a Python dict with three keys; it is read here, never evaluated. */
#include "model/file.h"

#include "base/str.h"

#include <string.h>

static const char magic[] = "\x93NUMPY";

bool model_is_npy(const shoal_file *file) {
    return file->bytes >= 6 && !memcmp(file->data, magic, 6);
}

/* ---- the header ---- */

typedef struct header {
    const char *at, *end;
    const char *path;
} header;

static shoal_status bad(const header *h, const char *what) {
    return base_fail(SHOAL_FORMAT, "%s: the header of the .npy is malformed: %s", h->path, what);
}

static void blank(header *h) {
    while (h->at < h->end && strchr(" \t\r\n", *h->at) && *h->at) h->at++;
}

static bool take(header *h, char c) {
    blank(h);
    if (h->at == h->end || *h->at != c) return false;
    h->at++;
    return true;
}

/* A quoted string without escapes, as NumPy writes keys and types. */
static shoal_status text_of(header *h, char *out, size_t room) {
    blank(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"'))
        return bad(h, h->at < h->end && *h->at == '['
                          ? "arrays of records cannot be read; save a plain array"
                          : "a string was expected");
    char quote = *h->at++;
    size_t n = 0;
    for (; h->at < h->end && *h->at != quote; h->at++) {
        if (*h->at == '\\' || n + 1 >= room) return bad(h, "a string is too long or escaped");
        out[n++] = *h->at;
    }
    out[n] = 0;
    return take(h, quote) ? SHOAL_OK : bad(h, "a string does not end");
}

static shoal_status shape_of(header *h, shoal_type *type) {
    if (!take(h, '(')) return bad(h, "'shape' is not a tuple");
    while (!take(h, ')')) {
        blank(h);
        int64_t dim = 0;
        const char *first = h->at;
        for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
            if (base_mul_overflow(dim, 10, &dim) || base_add_overflow(dim, *h->at - '0', &dim))
                return bad(h, "a dimension is too large");
        if (h->at == first) return bad(h, "a dimension is not a number");
        if (h->at < h->end && *h->at == 'L') h->at++; /* Python 2 wrote 3L */
        if (type->rank == SHOAL_MAX_RANK)
            return base_fail(SHOAL_UNSUPPORTED, "%s has more than %d axes", h->path,
                             SHOAL_MAX_RANK);
        type->dims[type->rank++] = dim;
        if (take(h, ',')) continue;
        if (!take(h, ')')) return bad(h, "'shape' does not end");
        break;
    }
    return SHOAL_OK;
}

static shoal_status descr_of(header *h, const char *text, model_tensor *t) {
    static const struct {
        const char *code;
        shoal_dtype dtype;
    } codes[] = {{"b1", SHOAL_BOOL}, {"i1", SHOAL_I8},  {"i2", SHOAL_I16}, {"i4", SHOAL_I32},
                 {"i8", SHOAL_I64},  {"u1", SHOAL_U8},  {"u2", SHOAL_U16}, {"u4", SHOAL_U32},
                 {"u8", SHOAL_U64},  {"f2", SHOAL_F16}, {"f4", SHOAL_F32}, {"f8", SHOAL_F64}};
    for (size_t i = 0; *text && i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(text + 1, codes[i].code) || !strchr("<>=|", *text)) continue;
        t->type.dtype = (uint8_t)codes[i].dtype;
        t->encoding = model_encoding_plain(codes[i].dtype);
        t->swapped = *text == '>' && t->encoding->bytes > 1;
        return SHOAL_OK;
    }
    return base_fail(SHOAL_UNSUPPORTED,
                     "%s holds elements of type '%s'; bool, int8 to int64, uint8 to uint64 and "
                     "float16 to float64 can be read",
                     h->path, text);
}

static shoal_status dict_of(header *h, model_tensor *t, bool *fortran) {
    unsigned seen = 0;
    char key[32], text[64];
    if (!take(h, '{')) return bad(h, "it is not a dict");
    while (!take(h, '}')) {
        SHOAL_TRY(text_of(h, key, sizeof key));
        if (!take(h, ':')) return bad(h, "a key has no value");
        unsigned bit = !strcmp(key, "descr")           ? 1
                       : !strcmp(key, "fortran_order") ? 2
                       : !strcmp(key, "shape")         ? 4
                                                       : 0;
        if (!bit || seen & bit) return bad(h, "a key is unknown or stands twice");
        seen |= bit;
        if (bit == 1) {
            SHOAL_TRY(text_of(h, text, sizeof text));
            SHOAL_TRY(descr_of(h, text, t));
        } else if (bit == 2) {
            blank(h);
            size_t n = (size_t)(h->end - h->at);
            *fortran = n >= 4 && !memcmp(h->at, "True", 4);
            if (!*fortran && (n < 5 || memcmp(h->at, "False", 5)))
                return bad(h, "'fortran_order' is neither True nor False");
            h->at += *fortran ? 4 : 5;
        } else {
            SHOAL_TRY(shape_of(h, &t->type));
        }
        if (take(h, ',')) continue;
        if (!take(h, '}')) return bad(h, "the dict does not end");
        break;
    }
    blank(h);
    if (h->at != h->end) return bad(h, "something follows the dict");
    return seen == 7 ? SHOAL_OK : bad(h, "a key is missing");
}

shoal_status model_npy_open(shoal_file *file) {
    const uint8_t *d = file->data;
    unsigned major = file->bytes > 7 ? d[6] : 0;
    uint64_t length = 0, from = major == 1 ? 10 : 12;
    if (major < 1 || major > 3)
        return base_fail(SHOAL_UNSUPPORTED, "%s is of .npy version %u; 1 to 3 can be read",
                         file->path, major);
    if (file->bytes >= from)
        length = major == 1
                     ? (uint64_t)(d[8] | d[9] << 8)
                     : d[8] | (uint64_t)d[9] << 8 | (uint64_t)d[10] << 16 | (uint64_t)d[11] << 24;
    if (file->bytes < from || length > file->bytes - from)
        return base_fail(SHOAL_FORMAT, "%s is cut off inside its header", file->path);
    model_tensor *t = base_arena_array(&file->arena, model_tensor, 1);
    if (!t) return SHOAL_NO_MEMORY;
    header h = {(const char *)d + from, (const char *)d + from + length, file->path};
    bool fortran = false;
    int64_t count;
    SHOAL_TRY(dict_of(&h, t, &fortran));
    shoal_status status = base_type_elements(&t->type, &count);
    if (status != SHOAL_OK) return base_fail_prefix(SHOAL_FORMAT, "%s: ", file->path);
    t->name = "";
    t->offset = from + length;
    t->bytes = (uint64_t)base_type_bytes(&t->type);
    if (t->bytes > file->bytes - t->offset)
        return base_fail(SHOAL_FORMAT,
                         "%s is cut off: %llu bytes of elements are there, %llu are "
                         "needed",
                         file->path, (unsigned long long)(file->bytes - t->offset),
                         (unsigned long long)t->bytes);
    t->strided = fortran && t->type.rank > 1; /* the first axis varies fastest */
    int64_t step = t->encoding->bytes;
    for (uint32_t a = 0; a < t->type.rank; step *= t->type.dims[a++]) t->strides[a] = step;
    file->tensors = t;
    file->n_tensors = 1;
    return SHOAL_OK;
}

/* ---- writing ---- */

shoal_status model_npy_header(const shoal_type *type, base_str *out) {
    shoal_dtype dtype = (shoal_dtype)type->dtype;
    unsigned size = (unsigned)shoal_dtype_size(dtype);
    base_str dict;
    if (dtype == SHOAL_BF16)
        return base_fail(SHOAL_UNSUPPORTED, ".npy has no bfloat16; convert to float32 first");
    base_str_init(&dict);
    base_str_format(&dict, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
                    size == 1 ? '|' : '<', shoal_dtype_kind(dtype), size);
    for (uint32_t i = 0; i < type->rank; i++)
        base_str_format(&dict, i ? ", %lld" : "%lld", (long long)type->dims[i]);
    base_str_text(&dict, type->rank == 1 ? ",), }" : "), }");
    /* Elements begin at a multiple of 64, after a line end. */
    while ((10 + dict.size + 1) % 64 && !dict.failed) base_str_text(&dict, " ");
    base_str_text(&dict, "\n");
    const char start[10] = {
        '\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, (char)dict.size, (char)(dict.size >> 8)};
    base_str_bytes(out, start, sizeof start);
    base_str_bytes(out, dict.data, dict.size);
    shoal_status status = base_str_status(&dict);
    base_str_fini(&dict);
    return status == SHOAL_OK ? base_str_status(out) : status;
}
