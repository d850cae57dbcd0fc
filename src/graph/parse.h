/* What the files of the parser share (parse.c, parse_token.c, stablehlo). */
#ifndef GRAPH_PARSE_H
#define GRAPH_PARSE_H

#include "graph/element.h"
#include "graph/graph.h"

#include "base/vec.h"

typedef struct parse_state {
    const char *text, *at, *end;
    base_arena arena; /* what is needed until the graph is made */
} parse_state;

typedef struct parse_numbers {
    int64_t *data;
    size_t count, room;
} parse_numbers;

void parse_space(parse_state *p);
/* "line 3, column 7: " before the recorded message. */
shoal_status parse_at_place(const parse_state *p, const char *at, shoal_status status);
shoal_status parse_fail(const parse_state *p, const char *what);
bool parse_take(parse_state *p, const char *token);
shoal_status parse_need(parse_state *p, const char *token);
bool parse_ahead(parse_state *p, char c);
/* Letters, digits and the given others, zero-terminated into `out` of 64 bytes. */
shoal_status parse_word(parse_state *p, const char *others, char *out);
shoal_status parse_integer(parse_state *p, int64_t *out);
shoal_status parse_push(parse_state *p, parse_numbers *list, int64_t number);
/* Numbers up to `close`. */
shoal_status parse_integers(parse_state *p, const char *close, parse_numbers *list);
/* A string in quotes, its escapes undone. */
shoal_status parse_string(parse_state *p, const char **out);
/* An element of the type, written to `to`. */
shoal_status parse_element(parse_state *p, const shoal_type *type, void *to);
/* The elements of a constant, "[[1, 2], [3, 4]]", or one for all, up to `close`: row-major. */
shoal_status parse_elements(parse_state *p, const shoal_type *type, const char *close,
                            const void **data, size_t *bytes);
shoal_status parse_dtype_of(parse_state *p, uint8_t *out);
shoal_status parse_type_of(parse_state *p, shoal_type *type);

#endif
