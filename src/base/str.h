/* A growing string of bytes. A failed allocation is remembered: append as much as you like, then
 * ask base_str_status once. */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/status.h"

#include <stdarg.h>

typedef struct base_str {
    char *data; /* zero-terminated once anything was appended; NULL when empty */
    size_t size;
    size_t room;
    bool failed;
} base_str;

void base_str_init(base_str *s);
void base_str_fini(base_str *s);
void base_str_clear(base_str *s);
void base_str_bytes(base_str *s, const void *data, size_t bytes);
/* Makes it longer by so many bytes, to be written there; NULL: no memory. */
char *base_str_more(base_str *s, size_t bytes);
void base_str_text(base_str *s, const char *text);
void base_str_format(base_str *s, const char *format, ...) SHOAL_PRINTF(2, 3);
void base_str_format_list(base_str *s, const char *format, va_list list);
/* OK, or NO_MEMORY when any append failed. */
shoal_status base_str_status(const base_str *s) SHOAL_CHECK_RESULT;
/* Hands over the bytes (to be freed with free()); the string is empty afterwards. NULL with a
 * message when any append failed. Never NULL for an empty string. */
char *base_str_take(base_str *s, size_t *size);

/* Makes text of anybody's fit to be shown: what is not UTF-8, or controls a screen, becomes '?'.
 * lines: ends of lines and tabs stay. */
void base_text_clean(char *text, bool lines);

#endif
