/* The directory of a zip archive, found from the end of the file, also in its 64-bit form. */
#include "model/zip.h"

#include <stdlib.h>
#include <string.h>

enum {
    END = 0x06054b50,
    END_64 = 0x06064b50,
    LOCATOR_64 = 0x07064b50,
    CENTRAL = 0x02014b50,
    LOCAL = 0x04034b50,
    END_BYTES = 22,
    END_64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    MOST_COMMENT = 65535,
    EXTRA_64 = 1,
    ENCRYPTED = 1
};

static uint64_t number(const uint8_t *at, unsigned bytes) {
    uint64_t n = 0;
    for (unsigned i = bytes; i-- > 0;) n = n << 8 | at[i];
    return n;
}

static bool is_at(const shoal_file *file, uint64_t at, uint64_t bytes, uint32_t signature) {
    return at <= file->bytes && bytes <= file->bytes - at &&
           number(file->data + at, 4) == signature;
}

bool model_is_zip(const shoal_file *file) { return is_at(file, 0, 4, LOCAL); }

static shoal_status bad(const shoal_file *file, const char *what) {
    return base_fail(SHOAL_FORMAT, "%s: the archive is malformed or cut off: %s", file->path, what);
}

typedef struct directory {
    uint64_t at, bytes, count;
} directory;

/* The record at the end of the file, before a comment of any length. */
static shoal_status find_directory(const shoal_file *file, directory *out) {
    uint64_t least =
        file->bytes > END_BYTES + MOST_COMMENT ? file->bytes - END_BYTES - MOST_COMMENT : 0;
    uint64_t at = file->bytes < END_BYTES ? 0 : file->bytes - END_BYTES;
    while (at > least && !is_at(file, at, END_BYTES, END)) at--;
    if (!is_at(file, at, END_BYTES, END)) return bad(file, "it has no directory at its end");
    const uint8_t *d = file->data + at;
    *out = (directory){number(d + 16, 4), number(d + 12, 4), number(d + 10, 2)};
    if (at >= LOCATOR_BYTES && is_at(file, at - LOCATOR_BYTES, LOCATOR_BYTES, LOCATOR_64)) {
        uint64_t wide = number(d - LOCATOR_BYTES + 8, 8);
        if (!is_at(file, wide, END_64_BYTES, END_64))
            return bad(file, "its 64-bit directory is not where it says");
        d = file->data + wide;
        *out = (directory){number(d + 48, 8), number(d + 40, 8), number(d + 32, 8)};
    }
    if (out->at > file->bytes || out->bytes > file->bytes - out->at)
        return bad(file, "its directory lies beyond its end");
    /* Each takes at least its header, which bounds what is allocated. */
    if (out->count > out->bytes / CENTRAL_BYTES)
        return bad(file, "it announces more entries than its directory holds");
    return SHOAL_OK;
}

/* A field that says 2^32 - 1 stands in the extra part, as 64 bits. */
static bool widen(const uint8_t *extra, uint64_t bytes, uint64_t *fields[3]) {
    while (bytes >= 4) {
        uint64_t id = number(extra, 2), size = number(extra + 2, 2);
        if (size > bytes - 4) return false;
        const uint8_t *at = extra + 4, *end = at + size;
        for (int i = 0; id == EXTRA_64 && i < 3; i++) {
            if (*fields[i] != UINT32_MAX) continue;
            if (end - at < 8) return false;
            *fields[i] = number(at, 8);
            at += 8;
        }
        extra = end;
        bytes -= 4 + size;
    }
    return true;
}

/* The entry's own header says where its bytes begin. */
static shoal_status find_bytes(const shoal_file *file, model_entry *e) {
    if (!is_at(file, e->header, LOCAL_BYTES, LOCAL))
        return bad(file, "an entry is not where the directory says");
    const uint8_t *d = file->data + e->header;
    e->offset = e->header + LOCAL_BYTES + number(d + 26, 2) + number(d + 28, 2);
    if (e->offset > file->bytes || e->bytes > file->bytes - e->offset)
        return bad(file, "an entry runs over the end");
    return SHOAL_OK;
}

/* Reads an entry of the directory; *at moves behind it. */
static shoal_status read_entry(const shoal_file *file, uint64_t *at, uint64_t end, model_entry *e) {
    if (end - *at < CENTRAL_BYTES || !is_at(file, *at, CENTRAL_BYTES, CENTRAL))
        return bad(file, "its directory is damaged");
    const uint8_t *d = file->data + *at;
    uint64_t extra = number(d + 30, 2), all = number(d + 24, 4);
    e->length = (uint32_t)number(d + 28, 2);
    uint64_t size = CENTRAL_BYTES + e->length + extra + number(d + 32, 2);
    if (size > end - *at) return bad(file, "its directory is damaged");
    e->name = (const char *)d + CENTRAL_BYTES;
    e->bytes = number(d + 20, 4);
    e->header = number(d + 42, 4);
    uint64_t *fields[3] = {&all, &e->bytes, &e->header};
    if (!widen(d + CENTRAL_BYTES + e->length, extra, fields))
        return bad(file, "its directory is damaged");
    e->packed = number(d + 10, 2) != 0 || number(d + 8, 2) & ENCRYPTED;
    if (!e->packed && all != e->bytes) return bad(file, "an entry has two sizes");
    *at += size;
    return find_bytes(file, e);
}

static int by_place(const void *left, const void *right) {
    const model_entry *a = left, *b = right;
    return (a->header > b->header) - (a->header < b->header);
}

static int compare(const char *a, size_t a_length, const char *b, size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int by_name(const void *left, const void *right) {
    const model_entry *a = left, *b = right;
    return compare(a->name, a->length, b->name, b->length);
}

static shoal_status check_unique(const shoal_file *file, model_zip *zip) {
    qsort(zip->entries, zip->count, sizeof *zip->entries, by_place);
    for (uint64_t i = 1; i < zip->count; i++) {
        const model_entry *a = &zip->entries[i - 1], *b = &zip->entries[i];
        if (b->header < a->offset + a->bytes)
            return base_fail(SHOAL_FORMAT,
                             "%s: the entries '%.*s' and '%.*s' of the archive overlap", file->path,
                             (int)a->length, a->name, (int)b->length, b->name);
    }
    qsort(zip->entries, zip->count, sizeof *zip->entries, by_name);
    for (uint64_t i = 1; i < zip->count; i++)
        if (!by_name(&zip->entries[i - 1], &zip->entries[i]))
            return base_fail(SHOAL_FORMAT, "%s: the archive has two entries '%.*s'", file->path,
                             (int)zip->entries[i].length, zip->entries[i].name);
    return SHOAL_OK;
}

shoal_status model_zip_open(const shoal_file *file, base_arena *arena, model_zip *out) {
    directory d = {0};
    SHOAL_TRY(find_directory(file, &d));
    out->entries = base_arena_array(arena, model_entry, d.count);
    if (!out->entries) return SHOAL_NO_MEMORY;
    uint64_t at = d.at;
    for (out->count = 0; out->count < d.count; out->count++)
        SHOAL_TRY(read_entry(file, &at, d.at + d.bytes, &out->entries[out->count]));
    return check_unique(file, out);
}

const model_entry *model_zip_find(const model_zip *zip, const char *name, size_t length) {
    uint64_t first = 0, last = zip->count;
    while (first < last) {
        uint64_t middle = first + (last - first) / 2;
        const model_entry *e = &zip->entries[middle];
        int order = compare(name, length, e->name, e->length);
        if (!order) return e;
        if (order < 0)
            last = middle;
        else
            first = middle + 1;
    }
    return NULL;
}
