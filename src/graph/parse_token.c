/* Tokens, types and elements of the text form: see parse.c. */
#include "graph/parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

void parse_space(parse_state *p) {
    while (p->at < p->end) {
        if (isspace((unsigned char)*p->at)) {
            p->at++;
        } else if (p->end - p->at >= 2 && p->at[0] == '/' && p->at[1] == '/') {
            while (p->at < p->end && *p->at != '\n') p->at++;
        } else {
            return;
        }
    }
}

/* "line 3, column 7: " before the recorded message. */
shoal_status parse_at_place(const parse_state *p, const char *at, shoal_status status) {
    size_t line = 1, column = 1;
    for (const char *c = p->text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return base_fail_prefix(status, "line %zu, column %zu: ", line, column);
}

shoal_status parse_fail(const parse_state *p, const char *what) {
    base_fail(SHOAL_FORMAT, "%s", what);
    return parse_at_place(p, p->at, SHOAL_FORMAT);
}

bool parse_take(parse_state *p, const char *token) {
    size_t length = strlen(token);
    parse_space(p);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, token, length)) return false;
    p->at += length;
    return true;
}

shoal_status parse_need(parse_state *p, const char *token) {
    if (parse_take(p, token)) return SHOAL_OK;
    base_fail(SHOAL_FORMAT, "expected '%s'", token);
    return parse_at_place(p, p->at, SHOAL_FORMAT);
}

bool parse_ahead(parse_state *p, char c) {
    parse_space(p);
    return p->at < p->end && *p->at == c;
}

/* Letters, digits and the given others, zero-terminated into `out` of 64 bytes. */
shoal_status parse_word(parse_state *p, const char *others, char *out) {
    size_t n = 0;
    parse_space(p);
    const char *from = p->at;
    while (p->at < p->end && (isalnum((unsigned char)*p->at) || (*p->at && strchr(others, *p->at))))
        p->at++;
    n = (size_t)(p->at - from);
    if (n == 0 || n > GRAPH_MAX_ELEMENT_TEXT) {
        p->at = from;
        return parse_fail(p, n ? "the word is too long" : "expected a word");
    }
    memcpy(out, from, n);
    out[n] = 0;
    return SHOAL_OK;
}

shoal_status parse_integer(parse_state *p, int64_t *out) {
    parse_space(p);
    const char *from = p->at;
    bool negative = parse_take(p, "-");
    if (p->at == p->end || !isdigit((unsigned char)*p->at))
        return parse_fail(p, "expected a number");
    int64_t value = 0;
    for (; p->at < p->end && isdigit((unsigned char)*p->at); p->at++) {
        int digit = *p->at - '0';
        /* Downwards, as the least number has no opposite. */
        if (base_mul_overflow(value, 10, &value) || base_add_overflow(value, -digit, &value)) {
            p->at = from;
            return parse_fail(p, "the number is over 64 bits");
        }
    }
    if (!negative && value == INT64_MIN) return parse_fail(p, "the number is over 64 bits");
    *out = negative ? value : -value;
    return SHOAL_OK;
}

shoal_status parse_push(parse_state *p, parse_numbers *list, int64_t number) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 8;
        int64_t *data = base_arena_array(&p->arena, int64_t, room);
        if (!data) return SHOAL_NO_MEMORY;
        if (list->count) memcpy(data, list->data, list->count * sizeof *data);
        list->data = data;
        list->room = room;
    }
    list->data[list->count++] = number;
    return SHOAL_OK;
}

/* Numbers up to `close`. */
shoal_status parse_integers(parse_state *p, const char *close, parse_numbers *list) {
    *list = (parse_numbers){0};
    if (parse_take(p, close)) return SHOAL_OK;
    do {
        int64_t number;
        SHOAL_TRY(parse_integer(p, &number));
        SHOAL_TRY(parse_push(p, list, number));
    } while (parse_take(p, ","));
    return parse_need(p, close);
}

static int hex(const char *at) {
    char digits[3] = {at[0], at[1], 0};
    return strspn(digits, "0123456789abcdefABCDEF") == 2 ? (int)strtol(digits, NULL, 16) : -1;
}

/* A string in quotes, its escapes undone. */
shoal_status parse_string(parse_state *p, const char **out) {
    SHOAL_TRY(parse_need(p, "\""));
    const char *from = p->at;
    for (; p->at < p->end && *p->at != '"'; p->at++)
        if (*p->at == '\\' && p->end - p->at > 1) p->at++;
    if (p->at >= p->end) {
        p->at = from;
        return parse_fail(p, "the string does not end");
    }
    char *text = base_arena_alloc(&p->arena, (size_t)(p->at - from) + 1), *to = text;
    if (!text) return SHOAL_NO_MEMORY;
    const char *close = p->at;
    for (const char *c = from; c < close; c++) {
        int code = (unsigned char)*c;
        if (*c == '\\') {
            bool plain = c[1] == '"' || c[1] == '\\';
            code = plain ? c[1] : close - c >= 3 ? hex(c + 1) : -1;
            c += plain ? 1 : 2;
        }
        if (code <= 0) {
            p->at = from;
            return parse_fail(p, "the string has a malformed escape or a zero byte");
        }
        *to++ = (char)code;
    }
    p->at++;
    *out = text;
    return SHOAL_OK;
}

/* ---- types ---- */

shoal_status parse_dtype_of(parse_state *p, uint8_t *out) {
    char name[GRAPH_MAX_ELEMENT_TEXT + 1];
    const char *from = p->at;
    SHOAL_TRY(parse_word(p, "", name));
    for (int i = 0; i < SHOAL_DTYPE_COUNT; i++)
        if (!strcmp(name, base_dtype_mlir((shoal_dtype)i))) {
            *out = (uint8_t)i;
            return SHOAL_OK;
        }
    p->at = from;
    base_fail(SHOAL_FORMAT, "element type '%s' is unknown", name);
    return parse_at_place(p, from, SHOAL_FORMAT);
}

shoal_status parse_type_of(parse_state *p, shoal_type *type) {
    int64_t elements;
    *type = (shoal_type){0};
    parse_space(p);
    const char *from = p->at;
    SHOAL_TRY(parse_need(p, "tensor"));
    SHOAL_TRY(parse_need(p, "<"));
    while (p->at < p->end && isdigit((unsigned char)*p->at)) {
        if (type->rank == SHOAL_MAX_RANK) return parse_fail(p, "the rank is over 8");
        SHOAL_TRY(parse_integer(p, &type->dims[type->rank++]));
        if (p->at == p->end || *p->at++ != 'x')
            return parse_fail(p, "expected 'x' after a dimension");
    }
    SHOAL_TRY(parse_dtype_of(p, &type->dtype));
    SHOAL_TRY(parse_need(p, ">"));
    shoal_status status = base_type_elements(type, &elements);
    return status == SHOAL_OK ? SHOAL_OK : parse_at_place(p, from, status);
}

/* ---- elements ---- */

shoal_status parse_element(parse_state *p, const shoal_type *type, void *to) {
    char text[GRAPH_MAX_ELEMENT_TEXT + 1];
    parse_space(p);
    const char *from = p->at;
    SHOAL_TRY(parse_word(p, "+-.", text));
    if (graph_element_parse((shoal_dtype)type->dtype, text, to)) return SHOAL_OK;
    p->at = from;
    base_fail(SHOAL_FORMAT, "'%s' is no %s", text, shoal_dtype_name((shoal_dtype)type->dtype));
    return parse_at_place(p, from, SHOAL_FORMAT);
}

/* The lists of axis `axis` and, inside them, of those that follow. */
static shoal_status elements(parse_state *p, const shoal_type *type, unsigned axis, char **to) {
    if (axis == type->rank) {
        SHOAL_TRY(parse_element(p, type, *to));
        *to += shoal_dtype_size((shoal_dtype)type->dtype);
        return SHOAL_OK;
    }
    SHOAL_TRY(parse_need(p, "["));
    for (int64_t i = 0; i < type->dims[axis]; i++) {
        if (i) SHOAL_TRY(parse_need(p, ","));
        SHOAL_TRY(elements(p, type, axis + 1, to));
    }
    return parse_need(p, "]");
}

shoal_status parse_elements(parse_state *p, const shoal_type *type, const char *close,
                            const void **data, size_t *bytes) {
    parse_space(p);
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    int64_t count = base_type_count(type);
    bool empty = p->at == close, splat = !empty && *p->at != '[';
    /* An element takes at least a byte of text: no memory for what is not there. */
    if (!splat && count > close - p->at) return parse_fail(p, "fewer elements than the type has");
    if (empty && count) return parse_fail(p, "the constant has no elements");
    *bytes = splat ? size : (size_t)count * size;
    char *to = base_arena_alloc(&p->arena, *bytes + 8);
    if (!to) return SHOAL_NO_MEMORY;
    *data = to;
    if (splat)
        SHOAL_TRY(parse_element(p, type, to));
    else if (!empty)
        SHOAL_TRY(elements(p, type, 0, &to));
    parse_space(p);
    return p->at == close ? SHOAL_OK : parse_fail(p, "expected '>'");
}
