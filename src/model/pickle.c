/* The interpreter: one function per form of operation, and the table of the operations that data
 * needs. */
#include "model/pickle.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_LINE = 4096, LONGEST_NAME = 100 };

shoal_status pickle_bad(const pickle *p, const char *what) {
    return base_fail(SHOAL_FORMAT, "%s: data.pkl is malformed at byte %llu: %s", p->path,
                     (unsigned long long)p->at, what);
}

static int shown(const pickle_text *text) {
    return text->length > LONGEST_NAME ? LONGEST_NAME : (int)text->length;
}

shoal_status pickle_foreign(const pickle *p, const pickle_name *name) {
    return base_fail(SHOAL_FORMAT,
                     "%s: it holds an object of %.*s.%.*s, not data alone; save a state_dict() "
                     "instead of the object",
                     p->path, shown(&name->module), name->module.data, shown(&name->name),
                     name->name.data);
}

bool pickle_is(const pickle_name *name, const char *text) {
    size_t length = strlen(text), module = name->module.length;
    return length == module + 1 + name->name.length && !memcmp(text, name->module.data, module) &&
           text[module] == ' ' && !memcmp(text + module + 1, name->name.data, name->name.length);
}

shoal_status pickle_new(const pickle *p, pickle_kind kind, pickle_value *out) {
    *out = (pickle_value){.kind = kind, .u.items = base_arena_array(p->arena, pickle_items, 1)};
    return out->u.items ? SHOAL_OK : SHOAL_NO_MEMORY;
}

shoal_status pickle_append(const pickle *p, pickle_items *to, const pickle_value *value) {
    pickle_item *item = base_arena_array(p->arena, pickle_item, 1);
    if (!item) return SHOAL_NO_MEMORY;
    item->value = *value;
    if (to->last)
        to->last->next = item;
    else
        to->first = item;
    to->last = item;
    to->count++;
    return SHOAL_OK;
}

const pickle_value *pickle_at(const pickle_items *items, uint64_t i) {
    const pickle_item *item = items->first;
    while (item && i--) item = item->next;
    return item ? &item->value : NULL;
}

/* ---- the code and the stack ---- */

static shoal_status take(pickle *p, uint64_t bytes, const uint8_t **out) {
    *out = p->code + p->at;
    if (bytes > p->bytes - p->at) return pickle_bad(p, "it is cut off");
    p->at += bytes;
    return SHOAL_OK;
}

static shoal_status take_number(pickle *p, unsigned bytes, uint64_t *out) {
    const uint8_t *from;
    *out = 0;
    SHOAL_TRY(take(p, bytes, &from));
    for (; bytes-- > 0;) *out = *out << 8 | from[bytes];
    return SHOAL_OK;
}

static shoal_status push(pickle *p, pickle_value value) {
    return base_vec_push(&p->stack, value) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* What lies on top, which is no mark; NULL: nothing does. */
static pickle_value *top(pickle *p) {
    pickle_value *v = p->stack.count ? &p->stack.data[p->stack.count - 1] : NULL;
    return v && v->kind != PICKLE_MARK ? v : NULL;
}

static shoal_status pop(pickle *p, pickle_value *out) {
    const pickle_value *v = top(p);
    *out = v ? *v : (pickle_value){PICKLE_PLAIN};
    if (!v) return pickle_bad(p, "nothing is on the stack");
    p->stack.count--;
    return SHOAL_OK;
}

/* The number of the first value above the last mark. */
static shoal_status group(pickle *p, size_t *first) {
    *first = 0;
    for (size_t i = p->stack.count; i-- > 0;)
        if (p->stack.data[i].kind == PICKLE_MARK) {
            *first = i + 1;
            return SHOAL_OK;
        }
    return pickle_bad(p, "a group has no beginning");
}

/* ---- operations, with the number that the table has for them ---- */

static shoal_status skip(pickle *p, unsigned bytes) {
    const uint8_t *from;
    return take(p, bytes, &from);
}

static shoal_status constant(pickle *p, unsigned kind) {
    return push(p, (pickle_value){.kind = (pickle_kind)kind});
}

static shoal_status container(pickle *p, unsigned kind) {
    pickle_value made;
    SHOAL_TRY(pickle_new(p, (pickle_kind)kind, &made));
    return push(p, made);
}

static shoal_status plain(pickle *p, unsigned bytes) {
    SHOAL_TRY(skip(p, bytes));
    return constant(p, PICKLE_PLAIN);
}

static shoal_status unsigned_number(pickle *p, unsigned bytes) {
    uint64_t n;
    SHOAL_TRY(take_number(p, bytes, &n));
    return push(p, (pickle_value){.kind = PICKLE_NUMBER, .u.number = (int64_t)n});
}

static shoal_status signed_number(pickle *p, unsigned bytes) {
    uint64_t n;
    SHOAL_TRY(take_number(p, bytes, &n));
    return push(p, (pickle_value){.kind = PICKLE_NUMBER, .u.number = (int32_t)(uint32_t)n});
}

/* An integer of any length, two's complement; `bytes` say how long it is. */
static shoal_status long_number(pickle *p, unsigned bytes) {
    uint64_t length, n;
    SHOAL_TRY(take_number(p, bytes, &length));
    if (length > sizeof n) {
        const uint8_t *from;
        SHOAL_TRY(take(p, length, &from));
        return constant(p, PICKLE_PLAIN);
    }
    SHOAL_TRY(take_number(p, (unsigned)length, &n));
    if (length && length < sizeof n && n >> (8 * length - 1)) n |= UINT64_MAX << 8 * length;
    return push(p, (pickle_value){.kind = PICKLE_NUMBER, .u.number = (int64_t)n});
}

static shoal_status text(pickle *p, unsigned bytes) {
    uint64_t length;
    const uint8_t *from;
    SHOAL_TRY(take_number(p, bytes, &length));
    SHOAL_TRY(take(p, length, &from));
    return push(p, (pickle_value){PICKLE_TEXT, (uint32_t)length, {.text = (const char *)from}});
}

static shoal_status raw(pickle *p, unsigned bytes) {
    uint64_t length;
    const uint8_t *from;
    SHOAL_TRY(take_number(p, bytes, &length));
    SHOAL_TRY(take(p, length, &from));
    return constant(p, PICKLE_PLAIN);
}

/* Notes what is on top; bytes 0: under the next number. */
static shoal_status note(pickle *p, unsigned bytes) {
    uint64_t number = p->memo.count;
    const pickle_value *v = top(p);
    if (bytes) SHOAL_TRY(take_number(p, bytes, &number));
    if (!v) return pickle_bad(p, "nothing is on the stack");
    /* There are no more notes than bytes, which bounds what is allocated. */
    if (number >= p->bytes) return pickle_bad(p, "a note has too large a number");
    while (p->memo.count <= number)
        if (!base_vec_push(&p->memo, (pickle_value){PICKLE_MARK})) return SHOAL_NO_MEMORY;
    p->memo.data[number] = *v;
    return SHOAL_OK;
}

static shoal_status fetch(pickle *p, unsigned bytes) {
    uint64_t number;
    SHOAL_TRY(take_number(p, bytes, &number));
    if (number >= p->memo.count || p->memo.data[number].kind == PICKLE_MARK)
        return pickle_bad(p, "nothing was noted under a number");
    return push(p, p->memo.data[number]);
}

/* Makes the values from the one with number `first` on a list, tuple or dict. */
static shoal_status collect(pickle *p, size_t first, pickle_kind kind, pickle_value *out) {
    SHOAL_TRY(pickle_new(p, kind, out));
    for (size_t i = first; i < p->stack.count; i++)
        SHOAL_TRY(pickle_append(p, out->u.items, &p->stack.data[i]));
    p->stack.count = first;
    return SHOAL_OK;
}

static shoal_status marked(pickle *p, unsigned kind) {
    size_t first;
    pickle_value made;
    SHOAL_TRY(group(p, &first));
    SHOAL_TRY(collect(p, first, (pickle_kind)kind, &made));
    if (kind == PICKLE_DICT && made.u.items->count % 2) return pickle_bad(p, "a key has no value");
    p->stack.count--;
    return push(p, made);
}

static shoal_status tuple(pickle *p, unsigned count) {
    pickle_value made;
    for (size_t i = 0; i < count; i++)
        if (p->stack.count <= i || p->stack.data[p->stack.count - 1 - i].kind == PICKLE_MARK)
            return pickle_bad(p, "nothing is on the stack");
    SHOAL_TRY(collect(p, p->stack.count - count, PICKLE_TUPLE, &made));
    return push(p, made);
}

/* Puts the values from the one with number `first` on into what lies below them and, if there is
 * one, the mark. */
static shoal_status extend(pickle *p, size_t first, size_t below, pickle_kind kind) {
    if (!below || p->stack.data[below - 1].kind != kind)
        return pickle_bad(p, kind == PICKLE_LIST ? "a list was expected" : "a dict was expected");
    if (kind == PICKLE_DICT && (p->stack.count - first) % 2)
        return pickle_bad(p, "a key has no value");
    pickle_items *to = p->stack.data[below - 1].u.items;
    for (size_t i = first; i < p->stack.count; i++)
        SHOAL_TRY(pickle_append(p, to, &p->stack.data[i]));
    p->stack.count = below;
    return SHOAL_OK;
}

static shoal_status extend_marked(pickle *p, unsigned kind) {
    size_t first;
    SHOAL_TRY(group(p, &first));
    return extend(p, first, first - 1, (pickle_kind)kind);
}

static shoal_status extend_top(pickle *p, unsigned kind) {
    size_t count = kind == PICKLE_DICT ? 2 : 1;
    for (size_t i = 0; i <= count; i++)
        if (p->stack.count <= i || p->stack.data[p->stack.count - 1 - i].kind == PICKLE_MARK)
            return pickle_bad(p, "nothing is on the stack");
    return extend(p, p->stack.count - count, p->stack.count - count, (pickle_kind)kind);
}

static shoal_status line(pickle *p, pickle_text *out) {
    uint64_t most = p->bytes - p->at < LONGEST_LINE ? p->bytes - p->at : LONGEST_LINE;
    const uint8_t *from = p->code + p->at, *end = most ? memchr(from, '\n', most) : NULL;
    if (!end) return pickle_bad(p, "a name does not end");
    *out = (pickle_text){(const char *)from, (uint64_t)(end - from)};
    p->at += out->length + 1;
    return SHOAL_OK;
}

static shoal_status push_name(pickle *p, pickle_text module, pickle_text name) {
    pickle_name *made = base_arena_array(p->arena, pickle_name, 1);
    if (!made) return SHOAL_NO_MEMORY;
    *made = (pickle_name){module, name};
    return push(p, (pickle_value){.kind = PICKLE_NAME, .u.name = made});
}

static shoal_status named(pickle *p, unsigned unused) {
    pickle_text module, name;
    SHOAL_TRY(line(p, &module));
    SHOAL_TRY(line(p, &name));
    return push_name(p, module, name);
}

static shoal_status named_on_stack(pickle *p, unsigned unused) {
    pickle_value module, name;
    SHOAL_TRY(pop(p, &name));
    SHOAL_TRY(pop(p, &module));
    if (module.kind != PICKLE_TEXT || name.kind != PICKLE_TEXT)
        return pickle_bad(p, "a name is no text");
    return push_name(p, (pickle_text){module.u.text, module.length},
                     (pickle_text){name.u.text, name.length});
}

static shoal_status call(pickle *p, unsigned unused) {
    pickle_value args, what, made = {PICKLE_PLAIN};
    SHOAL_TRY(pop(p, &args));
    SHOAL_TRY(pop(p, &what));
    if (what.kind != PICKLE_NAME || args.kind != PICKLE_TUPLE)
        return pickle_bad(p, "what is called is no name, or its arguments are no tuple");
    SHOAL_TRY(p->call(p, what.u.name, args.u.items, &made));
    return push(p, made);
}

static shoal_status persistent(pickle *p, unsigned unused) {
    pickle_value number, made = {PICKLE_PLAIN};
    SHOAL_TRY(pop(p, &number));
    SHOAL_TRY(p->persistent(p, &number, &made));
    return push(p, made);
}

static shoal_status drop(pickle *p, unsigned unused) {
    pickle_value value;
    return pop(p, &value);
}

/* An object of a class: what it is is in its name. */
static shoal_status object(pickle *p, unsigned unused) {
    pickle_value args, what;
    SHOAL_TRY(pop(p, &args));
    SHOAL_TRY(pop(p, &what));
    return what.kind == PICKLE_NAME ? pickle_foreign(p, what.u.name)
                                    : pickle_bad(p, "an object of what is no class");
}

/* Each operation that data needs, by its letter. */
static const struct {
    shoal_status (*step)(pickle *p, unsigned number);
    unsigned number;
} steps[256] = {
    [0x80] = {skip, 1}, /* the version */
    [0x95] = {skip, 8}, /* how long what follows is */
    ['('] = {constant, PICKLE_MARK},
    ['N'] = {constant, PICKLE_PLAIN},
    [0x88] = {constant, PICKLE_PLAIN},
    [0x89] = {constant, PICKLE_PLAIN},
    ['}'] = {container, PICKLE_DICT},
    [']'] = {container, PICKLE_LIST},
    [')'] = {container, PICKLE_TUPLE},
    ['J'] = {signed_number, 4},
    ['K'] = {unsigned_number, 1},
    ['M'] = {unsigned_number, 2},
    ['G'] = {plain, 8},
    [0x8a] = {long_number, 1},
    [0x8b] = {long_number, 4},
    ['X'] = {text, 4},
    [0x8c] = {text, 1},
    [0x8d] = {text, 8},
    ['U'] = {text, 1},
    ['T'] = {text, 4},
    ['C'] = {raw, 1},
    ['B'] = {raw, 4},
    [0x8e] = {raw, 8},
    ['q'] = {note, 1},
    ['r'] = {note, 4},
    [0x94] = {note, 0},
    ['h'] = {fetch, 1},
    ['j'] = {fetch, 4},
    ['t'] = {marked, PICKLE_TUPLE},
    ['l'] = {marked, PICKLE_LIST},
    ['d'] = {marked, PICKLE_DICT},
    [0x85] = {tuple, 1},
    [0x86] = {tuple, 2},
    [0x87] = {tuple, 3},
    ['a'] = {extend_top, PICKLE_LIST},
    ['e'] = {extend_marked, PICKLE_LIST},
    ['s'] = {extend_top, PICKLE_DICT},
    ['u'] = {extend_marked, PICKLE_DICT},
    ['c'] = {named, 0},
    [0x93] = {named_on_stack, 0},
    ['R'] = {call, 0},
    [0x81] = {object, 0},
    ['b'] = {drop, 0}, /* the state of an object: those that are known need none */
    ['Q'] = {persistent, 0},
    ['0'] = {drop, 0},
};

static shoal_status interpret(pickle *p, pickle_value *out) {
    for (;;) {
        const uint8_t *code;
        SHOAL_TRY(take(p, 1, &code));
        if (*code == '.') return pop(p, out);
        if (!steps[*code].step)
            return base_fail(SHOAL_FORMAT,
                             "%s: data.pkl has the operation %u at byte %llu, which no data needs",
                             p->path, *code, (unsigned long long)p->at - 1);
        SHOAL_TRY(steps[*code].step(p, steps[*code].number));
    }
}

shoal_status pickle_run(pickle *p, pickle_value *out) {
    shoal_status status =
        p->bytes < UINT32_MAX ? interpret(p, out) : pickle_bad(p, "it has 4 GiB or more");
    free(p->stack.data);
    free(p->memo.data);
    return status;
}
