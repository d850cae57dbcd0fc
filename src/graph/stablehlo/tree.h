/* A text of StableHLO as a tree: operations with names, operands, attributes and regions, before
 * any of it means something. Pretty and generic forms give the same tree. Pieces of text are those
 * of the source, which has to live as long. */
#ifndef GRAPH_STABLEHLO_TREE_H
#define GRAPH_STABLEHLO_TREE_H

#include "graph/parse.h"

#include "base/map.h"

enum { HLO_MAX_NESTING = 32, HLO_MAX_BODIES = 1024 };

typedef struct hlo_text {
    const char *at;
    size_t n;
} hlo_text;

/* A type. Where it is no tensor that Shoal has, `tensor` is false and the text says what it is. */
typedef struct hlo_type {
    shoal_type type; /* a dimension of -1 is not known */
    bool tensor;
    hlo_text text;  /* where an alias stands for it, that of the alias's definition */
    const char *at; /* its place */
} hlo_type;

typedef enum hlo_kind {
    HLO_WORD,     /* a number, true, LT */
    HLO_STRING,   /* text: between the quotes, escapes as they are */
    HLO_LIST,     /* items */
    HLO_GROUP,    /* items with names: a dictionary, #stablehlo.gather<...> */
    HLO_SYMBOL,   /* @f: text is f */
    HLO_DENSE,    /* dense<...>: what is between the brackets */
    HLO_RESOURCE, /* dense_resource<name> */
    HLO_ALIAS,    /* #name, which no alias of the text is called */
    HLO_OTHER,    /* anything that nobody here looks into */
} hlo_kind;

typedef struct hlo_attr {
    struct hlo_attr *next;
    hlo_text name; /* empty for items of a list */
    hlo_kind kind;
    hlo_text text;
    struct hlo_attr *items;
    const hlo_type *type; /* as stated behind a colon; NULL: it is not */
} hlo_attr;

/* An operand, "%3#1"; or the name of results, "%3:2", with `number` of them. */
typedef struct hlo_name {
    hlo_text text;
    int64_t number;
} hlo_name;

typedef struct hlo_argument {
    hlo_text name;
    hlo_type type;
} hlo_argument;

#define HLO_LIST_OF(T)                                                                             \
    struct {                                                                                       \
        T *data;                                                                                   \
        size_t count, room;                                                                        \
    }

typedef struct hlo_region {
    struct hlo_region *next;
    HLO_LIST_OF(hlo_argument) arguments;
    struct hlo_op *first;
} hlo_region;

typedef struct hlo_op {
    struct hlo_op *next;
    const char *at;      /* its place */
    size_t line, column; /* from 1 */
    const char *name;
    HLO_LIST_OF(hlo_name) results;
    HLO_LIST_OF(hlo_name) operands;
    HLO_LIST_OF(hlo_type) types; /* before and after the arrow */
    size_t before;               /* how many of them are before it; all, when there is none */
    bool arrow;
    bool is_pretty; /* of functions: types are those of the results */
    hlo_attr *attrs;
    hlo_region *regions;
    uint32_t n_regions;
} hlo_op;

typedef struct hlo_reader {
    parse_state p;
    base_map aliases;    /* hash of a name and its sign -> what it stands for; also resources */
    uint32_t depth;      /* of lists and regions */
    const char *line_at; /* up to where lines are counted; NULL: the text's begin */
    const char *line_begin;
    size_t lines;          /* line breaks up to there */
    const hlo_op *foreign; /* the last operation that is none of StableHLO's, if none followed it */
    bool is_within;        /* it is being read */
} hlo_reader;

/* Reads all of the text: the operations outside of any other, one after the other. What it makes is
 * of the reader's arena; its map is the caller's to free, also after a failure. */
shoal_status hlo_read(hlo_reader *r, hlo_op **first) SHOAL_CHECK_RESULT;

/* ---- of tree.c ---- */

shoal_status hlo_grow(hlo_reader *r, void **data, size_t count, size_t *room,
                      size_t item) SHOAL_CHECK_RESULT;
/* Room for one more at the end of a list, which the caller fills and counts. */
#define HLO_ROOM(r, list)                                                                          \
    hlo_grow(r, (void **)&(list)->data, (list)->count, &(list)->room, sizeof *(list)->data)

bool hlo_is(hlo_text text, const char *word);
/* Whether an operation's name is that of a dialect that nobody here knows. */
bool hlo_is_foreign(const char *name);
#define HLO_FOREIGN                                                                                \
    "this is no operation of StableHLO; only programs of StableHLO, CHLO and func are imported"
/* Whether it is the operation `name` of a dialect, whichever that is. */
bool hlo_is_called(const hlo_op *op, const char *name);
/* Copies a piece of text into `out`, cut off where it is longer. Returns out. */
char *hlo_copy(hlo_text text, char *out, size_t room);
/* The attribute of a name, of a list of them; NULL when there is none. */
const hlo_attr *hlo_find(const hlo_attr *list, const char *name);

/* Takes a word that nothing continues. */
bool hlo_take_word(hlo_reader *r, const char *word);
/* What is between here and the bracket that closes the one before, which is passed over. */
shoal_status hlo_skip(hlo_reader *r, hlo_text *inside) SHOAL_CHECK_RESULT;
shoal_status hlo_read_type(hlo_reader *r, hlo_type *out) SHOAL_CHECK_RESULT;
shoal_status hlo_read_value(hlo_reader *r, hlo_text name, hlo_attr **out) SHOAL_CHECK_RESULT;
/* A value, and the type behind a colon. An alias is read as what it stands for. */
shoal_status hlo_read_attr(hlo_reader *r, hlo_text name, hlo_attr **out) SHOAL_CHECK_RESULT;
/* "name = value, name, ..." up to `close`; appended to the list. */
shoal_status hlo_read_attrs(hlo_reader *r, const char *close, hlo_attr **list) SHOAL_CHECK_RESULT;
/* "#name = value" or "!name = type", behind the sign. */
shoal_status hlo_read_alias(hlo_reader *r, char sign) SHOAL_CHECK_RESULT;
/* A string of dialect_resources, which may be there several times: the last one counts. */
shoal_status hlo_add_resource(hlo_reader *r, hlo_text name, hlo_attr *value) SHOAL_CHECK_RESULT;
/* NULL when there is none. */
const hlo_attr *hlo_find_resource(const hlo_reader *r, hlo_text name);
/* Letters, digits, '_', '.' and '$'. */
shoal_status hlo_read_word(hlo_reader *r, hlo_text *out) SHOAL_CHECK_RESULT;
/* "%name" without the sign. */
shoal_status hlo_read_name(hlo_reader *r, hlo_text *out) SHOAL_CHECK_RESULT;
/* "loc(...)", if there is one. */
shoal_status hlo_skip_place(hlo_reader *r) SHOAL_CHECK_RESULT;
/* Counts lists and regions inside each other; refused at a limit. */
shoal_status hlo_enter(hlo_reader *r) SHOAL_CHECK_RESULT;
void hlo_leave(hlo_reader *r);

#endif
