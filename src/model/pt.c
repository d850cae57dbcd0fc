/* .pt: checkpoints of torch since 1.6, a zip archive of `data.pkl` and of the bytes of each
 * storage, which lie there uncompressed. A tensor shows a storage, or a part of it, by strides. Its
 * name is made of the keys and positions that lead to it: "model.layers.0.weight"; "" when it is
 * all that the file holds. Nothing in a file is executed (pickle.h). */
#include "model/pickle.h"
#include "model/zip.h"

#include <string.h>

enum { MOST_DEPTH = 100, LEAST_TENSOR = 1 << 20, EXPANDED = 64 };

static const struct {
    const char *storage;
    shoal_dtype dtype;
} storages[] = {
    {"FloatStorage", SHOAL_F32},     {"DoubleStorage", SHOAL_F64}, {"HalfStorage", SHOAL_F16},
    {"BFloat16Storage", SHOAL_BF16}, {"LongStorage", SHOAL_I64},   {"IntStorage", SHOAL_I32},
    {"ShortStorage", SHOAL_I16},     {"CharStorage", SHOAL_I8},    {"ByteStorage", SHOAL_U8},
    {"BoolStorage", SHOAL_BOOL},     {"UntypedStorage", SHOAL_U8}};

/* The objects of a pickle. */
typedef struct pt_object {
    bool is_tensor;
    const model_entry *entry; /* of a storage */
    shoal_dtype dtype;
    model_tensor tensor;
} pt_object;

typedef struct reader {
    shoal_file *file;
    base_arena arena; /* what the pickle makes */
    model_zip zip;
    const model_entry *code;
    bool swapped;
    uint64_t seen; /* values on the way to names */
} reader;

/* A checkpoint from before torch 1.6 begins with a number that marks it. */
static bool is_old(const shoal_file *file) {
    return file->bytes > 4 && file->data[0] == 0x80 && file->data[2] == 0x8a &&
           file->data[3] == 0x0a;
}

bool model_is_pt(const shoal_file *file) { return model_is_zip(file) || is_old(file); }

/* ---- the archive ---- */

/* An entry of the folder in which data.pkl is. */
static const model_entry *find_entry(const reader *r, const char *part, const char *name,
                                     uint64_t length) {
    base_str path;
    base_str_init(&path);
    base_str_bytes(&path, r->code->name, r->code->length - strlen("data.pkl"));
    base_str_text(&path, part);
    base_str_bytes(&path, name, length);
    const model_entry *e =
        base_str_status(&path) == SHOAL_OK ? model_zip_find(&r->zip, path.data, path.size) : NULL;
    base_str_fini(&path);
    return e;
}

static shoal_status check_entry(const reader *r, const model_entry *e) {
    if (!e->packed) return SHOAL_OK;
    return base_fail(SHOAL_FORMAT, "%s: the entry '%.*s' is compressed or encrypted", r->file->path,
                     (int)e->length, e->name);
}

/* data.pkl, which is the only one of its name, in a folder or without. */
static shoal_status find_code(reader *r) {
    static const char name[] = "data.pkl";
    const size_t length = sizeof name - 1;
    for (uint64_t i = 0; i < r->zip.count; i++) {
        const model_entry *e = &r->zip.entries[i];
        if (e->length < length || memcmp(e->name + e->length - length, name, length)) continue;
        const char *slash = memchr(e->name, '/', e->length);
        if (slash ? slash != e->name + e->length - length - 1 : e->length != length) continue;
        if (r->code)
            return base_fail(SHOAL_FORMAT, "%s: the archive has more than one data.pkl",
                             r->file->path);
        r->code = e;
    }
    if (!r->code)
        return base_fail(SHOAL_FORMAT,
                         "%s is an archive, but no checkpoint of torch: it has no data.pkl",
                         r->file->path);
    return check_entry(r, r->code);
}

static shoal_status find_order(reader *r) {
    const model_entry *e = find_entry(r, "byteorder", "", 0);
    if (!e) return SHOAL_OK;
    SHOAL_TRY(check_entry(r, e));
    const char *order = (const char *)r->file->data + e->offset;
    r->swapped = e->bytes == 3 && !memcmp(order, "big", 3);
    if (r->swapped || (e->bytes == 6 && !memcmp(order, "little", 6))) return SHOAL_OK;
    return base_fail(SHOAL_FORMAT, "%s: the byte order '%.*s' is neither 'little' nor 'big'",
                     r->file->path, e->bytes > 20 ? 20 : (int)e->bytes, order);
}

/* ---- storages and tensors ---- */

static shoal_status add_object(const pickle *p, pickle_value *out, pt_object **object) {
    *object = base_arena_array(p->arena, pt_object, 1);
    *out = (pickle_value){.kind = PICKLE_OBJECT, .u.object = *object};
    return *object ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static bool is_text(const pickle_value *v, const char *text) {
    return v && v->kind == PICKLE_TEXT && v->length == strlen(text) &&
           !memcmp(v->u.text, text, v->length);
}

/* A storage, from ("storage", type, key, place, number of elements). */
static shoal_status make_storage(pickle *p, const pickle_value *number, pickle_value *out) {
    const reader *r = p->context;
    bool told = number->kind == PICKLE_TUPLE && is_text(pickle_at(number->u.items, 0), "storage");
    const pickle_value *kind = told ? pickle_at(number->u.items, 1) : NULL;
    const pickle_value *key = told ? pickle_at(number->u.items, 2) : NULL;
    const pickle_value *count = told ? pickle_at(number->u.items, 4) : NULL;
    if (!count || number->u.items->count > 6 || kind->kind != PICKLE_NAME ||
        key->kind != PICKLE_TEXT || count->kind != PICKLE_NUMBER)
        return pickle_bad(p, "a storage is named in a form that is not known");
    const pickle_text *name = &kind->u.name->name;
    size_t i = 0, n = sizeof storages / sizeof *storages;
    while (i < n && (strlen(storages[i].storage) != name->length ||
                     memcmp(storages[i].storage, name->data, name->length)))
        i++;
    if (i == n)
        return base_fail(SHOAL_UNSUPPORTED,
                         "%s: a storage of %.*s: there is no such element type "
                         "here",
                         p->path, name->length > 60 ? 60 : (int)name->length, name->data);
    pt_object *object;
    SHOAL_TRY(add_object(p, out, &object));
    object->dtype = storages[i].dtype;
    object->entry = find_entry(r, "data/", key->u.text, key->length);
    int key_length = key->length > 60 ? 60 : (int)key->length;
    if (!object->entry)
        return base_fail(SHOAL_FORMAT, "%s: the storage '%.*s' is missing", p->path, key_length,
                         key->u.text);
    SHOAL_TRY(check_entry(r, object->entry));
    uint64_t size = shoal_dtype_size(object->dtype), bytes = object->entry->bytes;
    if (count->u.number >= 0 && (uint64_t)count->u.number == bytes / size && bytes % size == 0)
        return SHOAL_OK;
    return base_fail(SHOAL_FORMAT,
                     "%s: the storage '%.*s' has %llu bytes, where %lld elements of %s are needed",
                     p->path, key_length, key->u.text, (unsigned long long)bytes,
                     (long long)count->u.number, shoal_dtype_name(object->dtype));
}

static bool numbers_of(const pickle_value *v, int64_t *out, uint32_t *count) {
    if (!v || v->kind != PICKLE_TUPLE || v->u.items->count > SHOAL_MAX_RANK) return false;
    *count = 0;
    for (const pickle_item *item = v->u.items->first; item; item = item->next) {
        if (item->value.kind != PICKLE_NUMBER || item->value.u.number < 0) return false;
        out[(*count)++] = item->value.u.number;
    }
    return true;
}

/* Whether the strides are those of a dense tensor; turns them from elements into bytes. */
static bool is_strided(model_tensor *t) {
    int64_t size = t->encoding->bytes, expected = size;
    bool strided = false;
    for (uint32_t a = t->type.rank; a-- > 0; expected *= t->type.dims[a]) {
        /* An axis of one element may be stepped through in any way. */
        t->strides[a] = t->type.dims[a] > 1 ? size * t->strides[a] : expected;
        if (t->strides[a] != expected) strided = true;
    }
    return strided;
}

/* The last element lies in the storage, which a tensor may show many times, but not for ever. */
static shoal_status place_tensor(const pickle *p, const model_entry *storage, int64_t first,
                                 model_tensor *t) {
    int64_t size = t->encoding->bytes, have = (int64_t)storage->bytes / size, last = first, way;
    int64_t count;
    bool fits = base_type_elements(&t->type, &count) == SHOAL_OK;
    for (uint32_t a = 0; fits && count && a < t->type.rank; a++)
        fits = !base_mul_overflow(t->type.dims[a] - 1, t->strides[a], &way) &&
               !base_add_overflow(last, way, &last);
    char text[BASE_TYPE_TEXT];
    if (!fits || (count && last >= have) ||
        (have < INT64_MAX / EXPANDED - LEAST_TENSOR && count > EXPANDED * have + LEAST_TENSOR))
        return base_fail(SHOAL_FORMAT,
                         "%s: a tensor %s does not lie in its storage of %lld elements", p->path,
                         base_type_text(&t->type, text), (long long)have);
    t->offset = storage->offset + (count ? (uint64_t)(first * size) : 0);
    t->bytes = count ? (uint64_t)((last - first + 1) * size) : 0;
    t->strided = count && is_strided(t);
    return SHOAL_OK;
}

/* dtype NULL: the storage's. */
static shoal_status make_tensor(pickle *p, const pickle_items *args, const shoal_dtype *dtype,
                                pickle_value *out) {
    const reader *r = p->context;
    const pickle_value *storage = pickle_at(args, 0), *first = pickle_at(args, 1);
    uint32_t rank = 0, n = 0;
    pt_object *object, *of = storage && storage->kind == PICKLE_OBJECT ? storage->u.object : NULL;
    if (!of || of->is_tensor) return pickle_bad(p, "a tensor without a storage");
    SHOAL_TRY(add_object(p, out, &object));
    object->is_tensor = true;
    model_tensor *t = &object->tensor;
    if (!first || first->kind != PICKLE_NUMBER || first->u.number < 0 ||
        first->u.number > INT64_MAX / 16 || !numbers_of(pickle_at(args, 2), t->type.dims, &rank) ||
        !numbers_of(pickle_at(args, 3), t->strides, &n) || rank != n)
        return pickle_bad(p, "a tensor whose shape, strides or place are no whole numbers, or with "
                             "more than 8 axes");
    shoal_dtype kind = dtype ? *dtype : of->dtype;
    t->type.dtype = (uint8_t)kind;
    t->type.rank = (uint8_t)rank;
    t->encoding = model_encoding_plain(kind);
    t->swapped = r->swapped && t->encoding->bytes > 1;
    return place_tensor(p, of->entry, first->u.number, t);
}

/* A tensor whose element type is a name: torch.uint16. */
static shoal_status make_typed(pickle *p, const pickle_items *args, pickle_value *out) {
    const pickle_value *v = pickle_at(args, 6);
    char name[32] = "";
    shoal_dtype dtype;
    if (!v || v->kind != PICKLE_NAME) return pickle_bad(p, "a tensor without an element type");
    const pickle_text *text = &v->u.name->name;
    if (text->length < sizeof name) memcpy(name, text->data, text->length);
    if (shoal_dtype_find(name, &dtype) == SHOAL_OK) return make_tensor(p, args, &dtype, out);
    return base_fail(SHOAL_UNSUPPORTED, "%s: a tensor of %.*s: there is no such element type here",
                     p->path, text->length > 60 ? 60 : (int)text->length, text->data);
}

static shoal_status make_parameter(pickle *p, const pickle_items *args, pickle_value *out) {
    const pickle_value *v = pickle_at(args, 0);
    const pt_object *object = v && v->kind == PICKLE_OBJECT ? v->u.object : NULL;
    if (!object || !object->is_tensor) return pickle_bad(p, "a parameter without a tensor");
    *out = *v;
    return SHOAL_OK;
}

static shoal_status make_dict(pickle *p, const pickle_items *args, pickle_value *out) {
    const pickle_value *pairs = pickle_at(args, 0);
    SHOAL_TRY(pickle_new(p, PICKLE_DICT, out));
    if (!pairs) return SHOAL_OK;
    if (pairs->kind != PICKLE_LIST && pairs->kind != PICKLE_TUPLE)
        return pickle_bad(p, "an OrderedDict of what is no list");
    for (const pickle_item *item = pairs->u.items->first; item; item = item->next) {
        const pickle_value *pair = &item->value;
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->u.items->count != 2)
            return pickle_bad(p, "an OrderedDict of what are no pairs");
        for (uint64_t i = 0; i < 2; i++)
            SHOAL_TRY(pickle_append(p, out->u.items, pickle_at(pair->u.items, i)));
    }
    return SHOAL_OK;
}

static shoal_status make_call(pickle *p, const pickle_name *name, const pickle_items *args,
                              pickle_value *out) {
    static const char *const plain[] = {"_codecs encode",  "torch Size",
                                        "torch device",    "builtins set",
                                        "__builtin__ set", "torch.serialization _get_layout"};
    if (pickle_is(name, "torch._utils _rebuild_tensor_v2") ||
        pickle_is(name, "torch._utils _rebuild_tensor"))
        return make_tensor(p, args, NULL, out);
    if (pickle_is(name, "torch._utils _rebuild_tensor_v3")) return make_typed(p, args, out);
    if (pickle_is(name, "torch._utils _rebuild_parameter") ||
        pickle_is(name, "torch._utils _rebuild_parameter_with_state"))
        return make_parameter(p, args, out);
    if (pickle_is(name, "collections OrderedDict")) return make_dict(p, args, out);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (pickle_is(name, plain[i])) return SHOAL_OK; /* *out is PLAIN */
    return pickle_foreign(p, name);
}

/* ---- names ---- */

static shoal_status add_tensor(reader *r, const pt_object *object, const base_str *name) {
    shoal_file *file = r->file;
    uint64_t number = file->n_tensors++;
    if (!object->is_tensor)
        return base_fail(SHOAL_FORMAT, "%s: '%s' is a storage, not a tensor", file->path,
                         name->size ? name->data : "");
    if (!file->tensors) return SHOAL_OK; /* they are counted first */
    model_tensor *t = &file->tensors[number];
    *t = object->tensor;
    t->name = base_arena_string(&file->arena, name->size ? name->data : "");
    return t->name ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Appends a key; false: it is neither a text nor a number. */
static bool add_key(const pickle_value *key, base_str *name) {
    if (name->size) base_str_text(name, ".");
    if (key->kind == PICKLE_NUMBER) base_str_format(name, "%lld", (long long)key->u.number);
    if (key->kind == PICKLE_TEXT) base_str_bytes(name, key->u.text, key->length);
    return key->kind == PICKLE_NUMBER ||
           (key->kind == PICKLE_TEXT && !memchr(key->u.text, 0, key->length));
}

static shoal_status add_value(reader *r, const pickle *p, const pickle_value *v, base_str *name,
                              int depth);

static shoal_status add_items(reader *r, const pickle *p, const pickle_value *v, base_str *name,
                              int depth) {
    size_t size = name->size;
    uint64_t number = 0;
    for (const pickle_item *item = v->u.items->first; item; item = item->next, number++) {
        const pickle_value at = {.kind = PICKLE_NUMBER, .u.number = (int64_t)number};
        bool is_dict = v->kind == PICKLE_DICT, named = add_key(is_dict ? &item->value : &at, name);
        uint64_t before = r->file->n_tensors;
        if (is_dict) item = item->next;
        SHOAL_TRY(base_str_status(name));
        SHOAL_TRY(add_value(r, p, &item->value, name, depth + 1));
        if (!named && r->file->n_tensors > before)
            return base_fail(SHOAL_UNSUPPORTED,
                             "%s: below '%.*s' a tensor has a key that is neither a text nor a "
                             "number: it has no name here",
                             p->path, (int)size, size ? name->data : "");
        name->size = size;
        if (name->data) name->data[size] = 0;
    }
    return SHOAL_OK;
}

/* Tensors below a value, under a name that is given back as it was. What is shown many times takes
 * its time, so that there are limits to that. */
static shoal_status add_value(reader *r, const pickle *p, const pickle_value *v, base_str *name,
                              int depth) {
    if (depth > MOST_DEPTH || r->seen++ > p->bytes)
        return base_fail(SHOAL_FORMAT,
                         "%s: data.pkl holds something that holds itself, or lies over %d levels "
                         "deep",
                         p->path, MOST_DEPTH);
    switch (v->kind) {
    case PICKLE_OBJECT: return add_tensor(r, v->u.object, name);
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_DICT: return add_items(r, p, v, name, depth);
    case PICKLE_NAME: /* torch.float32 is data, and os.system is not */
        return v->u.name->module.length == 5 && !memcmp(v->u.name->module.data, "torch", 5)
                   ? SHOAL_OK
                   : pickle_foreign(p, v->u.name);
    default: return SHOAL_OK;
    }
}

static shoal_status add_names(reader *r, const pickle *p, const pickle_value *root) {
    base_str name;
    base_str_init(&name);
    shoal_status status = add_value(r, p, root, &name, 0);
    if (status == SHOAL_OK) {
        r->file->tensors = base_arena_array(&r->file->arena, model_tensor, r->file->n_tensors);
        r->file->n_tensors = r->seen = 0;
        status = r->file->tensors ? add_value(r, p, root, &name, 0) : SHOAL_NO_MEMORY;
    }
    base_str_fini(&name);
    return status;
}

static shoal_status read_all(reader *r) {
    pickle_value root;
    SHOAL_TRY(model_zip_open(r->file, &r->arena, &r->zip));
    SHOAL_TRY(find_code(r));
    SHOAL_TRY(find_order(r));
    pickle p = {.path = r->file->path,
                .code = r->file->data + r->code->offset,
                .bytes = r->code->bytes,
                .arena = &r->arena,
                .call = make_call,
                .persistent = make_storage,
                .context = r};
    SHOAL_TRY(pickle_run(&p, &root));
    return add_names(r, &p, &root);
}

shoal_status model_pt_open(shoal_file *file) {
    reader r = {.file = file};
    if (is_old(file))
        return base_fail(SHOAL_UNSUPPORTED,
                         "%s is a checkpoint from before torch 1.6: shoal.load in Python reads it, "
                         "or save it again with a newer torch",
                         file->path);
    /* A few times as large as the archive, as the tensors are. */
    base_arena_init(&r.arena, file->bytes > SIZE_MAX / 128 ? 0 : 64 * file->bytes + (1 << 16));
    shoal_status status = read_all(&r);
    base_arena_fini(&r.arena);
    if (status == SHOAL_NO_MEMORY) status = base_fail_prefix(SHOAL_NO_MEMORY, "%s: ", file->path);
    return status;
}
