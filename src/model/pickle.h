/* Python's pickle format, read as data (https://docs.python.org/3/library/pickletools.html).
 *
 * A pickle is a program for a machine with a stack. The usual interpreter calls whatever the file
 * names; this one calls nothing. It knows the operations that data needs, and leaves to its user
 * what a named function with arguments, or a persistent number, stands for. */
#ifndef MODEL_PICKLE_H
#define MODEL_PICKLE_H

#include "base/arena.h"
#include "base/vec.h"

#include <stdint.h>

typedef enum pickle_kind {
    PICKLE_MARK,   /* where a group begins: on the stack alone */
    PICKLE_PLAIN,  /* None, a bool, a float, bytes: nothing that anybody asks for */
    PICKLE_NUMBER, /* an integer; those over 64 bits are PLAIN */
    PICKLE_TEXT,
    PICKLE_NAME, /* of a class or function */
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT,  /* keys and values by turns */
    PICKLE_OBJECT /* of the user's */
} pickle_kind;

typedef struct pickle_text {
    const char *data; /* in the code, without a final zero */
    uint64_t length;
} pickle_text;

typedef struct pickle_name {
    pickle_text module, name;
} pickle_name;

typedef struct pickle_value {
    pickle_kind kind;
    uint32_t length; /* of a text */
    union {
        int64_t number;
        const char *text;
        const pickle_name *name;
        struct pickle_items *items; /* of lists, tuples and dicts */
        void *object;
    } u;
} pickle_value;

typedef struct pickle_item {
    struct pickle_item *next;
    pickle_value value;
} pickle_item;

typedef struct pickle_items {
    pickle_item *first, *last;
    uint64_t count;
} pickle_items;

typedef struct pickle {
    /* Given: */
    const char *path; /* for messages */
    const uint8_t *code;
    uint64_t bytes;
    base_arena *arena; /* what is made lives there */
    /* What `name` makes of a tuple of arguments. */
    shoal_status (*call)(struct pickle *p, const pickle_name *name, const pickle_items *args,
                         pickle_value *out);
    /* What a persistent number, any value, stands for. */
    shoal_status (*persistent)(struct pickle *p, const pickle_value *number, pickle_value *out);
    void *context;
    /* Its own: */
    uint64_t at;
    BASE_VEC(pickle_value) stack;
    BASE_VEC(pickle_value) memo;
} pickle;

/* Interprets the code; *out is what it leaves. Fails with FORMAT. Frees its stacks. */
shoal_status pickle_run(pickle *p, pickle_value *out) SHOAL_CHECK_RESULT;

/* FORMAT, with the place in the code. */
shoal_status pickle_bad(const pickle *p, const char *what);
/* FORMAT: of a file that holds more than data. */
shoal_status pickle_foreign(const pickle *p, const pickle_name *name);
/* "module name" */
bool pickle_is(const pickle_name *name, const char *text);
/* A list, tuple or dict without items. */
shoal_status pickle_new(const pickle *p, pickle_kind kind, pickle_value *out) SHOAL_CHECK_RESULT;
shoal_status pickle_append(const pickle *p, pickle_items *to,
                           const pickle_value *value) SHOAL_CHECK_RESULT;
/* Item i; NULL: there are not so many. */
const pickle_value *pickle_at(const pickle_items *items, uint64_t i);

#endif
