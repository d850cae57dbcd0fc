#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void base_str_init(base_str *s) { *s = (base_str){0}; }

void base_str_fini(base_str *s) {
    free(s->data);
    base_str_init(s);
}

void base_str_clear(base_str *s) {
    s->size = 0;
    s->failed = false;
    if (s->data) s->data[0] = 0;
}

static bool reserve(base_str *s, size_t more) {
    if (s->failed) return false;
    if (more < s->room - s->size) return true;
    size_t room = s->room ? s->room * 2 : 64;
    if (room < s->size + more + 1) room = s->size + more + 1;
    char *data = more < SIZE_MAX / 4 ? realloc(s->data, room) : NULL;
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->room = room;
    return true;
}

char *base_str_more(base_str *s, size_t bytes) {
    if (!reserve(s, bytes)) return NULL;
    char *more = s->data + s->size;
    s->size += bytes;
    s->data[s->size] = 0;
    return more;
}

void base_str_bytes(base_str *s, const void *data, size_t bytes) {
    char *more = base_str_more(s, bytes);
    if (more && bytes) memcpy(more, data, bytes);
}

void base_str_text(base_str *s, const char *text) { base_str_bytes(s, text, strlen(text)); }

void base_str_format_list(base_str *s, const char *format, va_list list) {
    va_list again;
    va_copy(again, list);
    int need = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (need < 0) {
        s->failed = true;
    } else if (reserve(s, (size_t)need)) {
        vsnprintf(s->data + s->size, (size_t)need + 1, format, list);
        s->size += (size_t)need;
    }
}

void base_str_format(base_str *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    base_str_format_list(s, format, list);
    va_end(list);
}

shoal_status base_str_status(const base_str *s) {
    return s->failed ? base_fail(SHOAL_NO_MEMORY, "no memory for %zu bytes of text", s->size)
                     : SHOAL_OK;
}

char *base_str_take(base_str *s, size_t *size) {
    if (reserve(s, 0) && s->size == 0) s->data[0] = 0;
    if (base_str_status(s) != SHOAL_OK) {
        base_str_fini(s);
        return NULL;
    }
    char *data = s->data;
    if (size) *size = s->size;
    base_str_init(s);
    return data;
}

/* Bytes of the character at `text`, 0 when it is none: too long a form, half of a pair, cut off. */
static size_t character(const unsigned char *text) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = *text < 0x80 ? 1 : *text < 0xc0 ? 0 : *text < 0xe0 ? 2 : *text < 0xf0 ? 3 : 4;
    if (n <= 1) return n;
    uint32_t code = *text & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool control = code < 0xa0, half = code >= 0xd800 && code < 0xe000;
    return *text >= 0xf8 || code < least[n] || code > 0x10ffff || control || half ? 0 : n;
}

void base_text_clean(char *text, bool lines) {
    for (unsigned char *at = (unsigned char *)text; *at;) {
        size_t n = character(at);
        bool line = *at == '\n' || *at == '\t';
        if (!n || (n == 1 && (*at < ' ' || *at == 127) && !(line && lines))) {
            *at = '?';
            n = 1;
        }
        at += n;
    }
}
