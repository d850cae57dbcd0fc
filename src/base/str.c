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

void base_str_bytes(base_str *s, const void *data, size_t bytes) {
    if (!reserve(s, bytes)) return;
    if (bytes) memcpy(s->data + s->size, data, bytes);
    s->size += bytes;
    s->data[s->size] = 0;
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
