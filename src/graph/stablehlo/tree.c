/* Words, types and attributes of MLIR's text. */
#include "graph/stablehlo/tree.h"

#include <ctype.h>
#include <string.h>

/* ---- pieces ---- */

shoal_status hlo_grow(hlo_reader *r, void **data, size_t count, size_t *room, size_t item) {
    if (count < *room) return SHOAL_OK;
    size_t more = *room ? 2 * *room : 2;
    void *bigger = base_arena_alloc_array(&r->p.arena, item, more);
    if (!bigger) return SHOAL_NO_MEMORY;
    if (count) memcpy(bigger, *data, count * item);
    *data = bigger;
    *room = more;
    return SHOAL_OK;
}

bool hlo_is_called(const hlo_op *op, const char *name) {
    const char *dot = strchr(op->name, '.');
    return dot && !strcmp(dot + 1, name);
}

bool hlo_is(hlo_text text, const char *word) {
    return strlen(word) == text.n && !memcmp(text.at, word, text.n);
}

bool hlo_is_foreign(const char *name) {
    static const char *const known[] = {"stablehlo.",  "mhlo.",          "chlo.",
                                        "func.",       "builtin.",       "sdy.",
                                        "ml_program.", "arith.constant", "tensor.cast"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(name, known[i], strlen(known[i]))) return false;
    return strchr(name, '.') != NULL;
}

char *hlo_copy(hlo_text text, char *out, size_t room) {
    size_t n = text.n < room ? text.n : room - 1;
    if (n) memcpy(out, text.at, n);
    out[n] = 0;
    base_text_clean(out, false);
    return out;
}

const hlo_attr *hlo_find(const hlo_attr *list, const char *name) {
    for (; list; list = list->next)
        if (hlo_is(list->name, name)) return list;
    return NULL;
}

shoal_status hlo_enter(hlo_reader *r) {
    if (++r->depth <= HLO_MAX_NESTING) return SHOAL_OK;
    return parse_fail(&r->p, "lists and regions are nested deeper than 32");
}

void hlo_leave(hlo_reader *r) { r->depth--; }

static bool continues(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '$';
}

bool hlo_take_word(hlo_reader *r, const char *word) {
    parse_state *p = &r->p;
    parse_space(p);
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n)) return false;
    if ((size_t)(p->end - p->at) > n && continues(p->at[n])) return false;
    p->at += n;
    return true;
}

shoal_status hlo_read_word(hlo_reader *r, hlo_text *out) {
    parse_state *p = &r->p;
    parse_space(p);
    *out = (hlo_text){p->at, 0};
    while (p->at < p->end && continues(*p->at)) p->at++;
    out->n = (size_t)(p->at - out->at);
    return out->n ? SHOAL_OK : parse_fail(p, "expected a word");
}

shoal_status hlo_read_name(hlo_reader *r, hlo_text *out) {
    parse_state *p = &r->p;
    SHOAL_TRY(parse_need(p, "%"));
    *out = (hlo_text){p->at, 0};
    while (p->at < p->end && (continues(*p->at) || *p->at == '-')) p->at++;
    out->n = (size_t)(p->at - out->at);
    return out->n ? SHOAL_OK : parse_fail(p, "expected a name");
}

/* Behind the first quote: up to the one that closes it. */
static shoal_status quoted(hlo_reader *r, hlo_text *out) {
    parse_state *p = &r->p;
    const char *from = p->at;
    while (p->at < p->end && *p->at != '"') p->at += *p->at == '\\' && p->end - p->at > 1 ? 2 : 1;
    if (p->at >= p->end) {
        p->at = from;
        return parse_fail(p, "the string does not end");
    }
    *out = (hlo_text){from, (size_t)(p->at - from)};
    p->at++;
    return SHOAL_OK;
}

/* Brackets are counted, not matched by kind: what is passed over means nothing here. "->" holds
 * none. */
shoal_status hlo_skip(hlo_reader *r, hlo_text *inside) {
    parse_state *p = &r->p;
    const char *from = p->at;
    hlo_text ignored;
    for (size_t depth = 1; p->at < p->end; p->at++) {
        char c = *p->at;
        if (c == '"') {
            p->at++;
            SHOAL_TRY(quoted(r, &ignored));
            p->at--;
        } else if (c == '-' && p->end - p->at > 1 && p->at[1] == '>') {
            p->at++;
        } else if (c == '<' || c == '(' || c == '[' || c == '{') {
            depth++;
        } else if ((c == '>' || c == ')' || c == ']' || c == '}') && !--depth) {
            if (inside) *inside = (hlo_text){from, (size_t)(p->at - from)};
            p->at++;
            return SHOAL_OK;
        }
    }
    p->at = from;
    return parse_fail(p, "the bracket does not close");
}

shoal_status hlo_skip_place(hlo_reader *r) {
    if (!hlo_take_word(r, "loc")) return SHOAL_OK;
    SHOAL_TRY(parse_need(&r->p, "("));
    return hlo_skip(r, NULL);
}

/* ---- aliases: they are defined before they are used ---- */

typedef struct alias {
    hlo_text name;
    char sign;
    hlo_type type;   /* of '!' */
    hlo_attr *value; /* of '#', and of RESOURCE */
} alias;

enum { RESOURCE = '{' };

static alias *find_alias(const hlo_reader *r, char sign, hlo_text name, uint64_t *key) {
    alias *a;
    *key = base_hash(name.at, name.n) + (unsigned char)sign;
    while ((a = base_map_get(&r->aliases, *key)) &&
           (a->sign != sign || a->name.n != name.n || memcmp(a->name.at, name.at, name.n)))
        ++*key;
    return a;
}

shoal_status hlo_read_alias(hlo_reader *r, char sign) {
    parse_state *p = &r->p;
    uint64_t key;
    alias *a = base_arena_alloc(&p->arena, sizeof *a);
    if (!a) return SHOAL_NO_MEMORY;
    a->sign = sign;
    SHOAL_TRY(hlo_read_word(r, &a->name));
    if (find_alias(r, sign, a->name, &key)) {
        char name[64];
        base_fail(SHOAL_FORMAT, "the alias %c%s is defined twice", sign,
                  hlo_copy(a->name, name, sizeof name));
        return parse_at_place(p, a->name.at - 1, SHOAL_FORMAT);
    }
    SHOAL_TRY(parse_need(p, "="));
    SHOAL_TRY(sign == '!' ? hlo_read_type(r, &a->type) : hlo_read_attr(r, a->name, &a->value));
    return base_map_set(&r->aliases, key, a);
}

shoal_status hlo_add_resource(hlo_reader *r, hlo_text name, hlo_attr *value) {
    uint64_t key;
    alias *a = find_alias(r, RESOURCE, name, &key);
    if (!a) {
        const alias new = {.name = name, .sign = RESOURCE};
        a = base_arena_copy(&r->p.arena, &new, sizeof new);
        if (!a) return SHOAL_NO_MEMORY;
        SHOAL_TRY(base_map_set(&r->aliases, key, a));
    }
    a->value = value;
    return SHOAL_OK;
}

const hlo_attr *hlo_find_resource(const hlo_reader *r, hlo_text name) {
    uint64_t key;
    const alias *a = find_alias(r, RESOURCE, name, &key);
    return a ? a->value : NULL;
}

/* An item of a list stands for no other list: such lists could be as long as they like. */
static void follow_alias(const hlo_reader *r, hlo_attr *attr) {
    uint64_t key;
    const alias *a = find_alias(r, '#', attr->text, &key);
    if (!a || (!attr->name.n && a->value->items)) return;
    attr->kind = a->value->kind;
    attr->text = a->value->text;
    attr->items = a->value->items;
    attr->type = a->value->type;
}

/* ---- types ---- */

/* "4x?x" in front of the element type. */
static shoal_status dimensions(hlo_reader *r, shoal_type *type, bool *known) {
    parse_state *p = &r->p;
    while (p->at < p->end && (isdigit((unsigned char)*p->at) || *p->at == '?')) {
        if (type->rank == SHOAL_MAX_RANK)
            return parse_fail(p, "a tensor of Shoal's has at most 8 dimensions");
        int64_t *dim = &type->dims[type->rank++];
        if (*p->at == '?') {
            p->at++;
            *dim = -1;
            *known = false;
        } else {
            SHOAL_TRY(parse_integer(p, dim));
        }
        if (p->at == p->end || *p->at++ != 'x')
            return parse_fail(p, "expected 'x' after a dimension");
    }
    return SHOAL_OK;
}

/* Behind "tensor<". */
static shoal_status tensor_type(hlo_reader *r, hlo_type *out) {
    parse_state *p = &r->p;
    const char *from = p->at;
    hlo_text rest;
    bool known = true;
    SHOAL_TRY(dimensions(r, &out->type, &known));
    const char *element = p->at;
    SHOAL_TRY(hlo_skip(r, &rest));
    const char *comma = memchr(element, ',', rest.n); /* what follows is an encoding */
    hlo_text name = {element, comma ? (size_t)(comma - element) : rest.n};
    uint64_t key;
    const alias *a =
        *element == '!' ? find_alias(r, '!', (hlo_text){element + 1, name.n - 1}, &key) : NULL;
    if (a) name = a->type.text;
    for (int i = 0; i < SHOAL_DTYPE_COUNT && !out->tensor; i++) {
        out->tensor = hlo_is(name, base_dtype_mlir((shoal_dtype)i));
        out->type.dtype = (uint8_t)i;
    }
    if (!out->tensor && hlo_is(name, "index")) {
        out->tensor = true;
        out->type.dtype = SHOAL_I64;
    }
    int64_t elements;
    if (!out->tensor || !known) return SHOAL_OK;
    shoal_status status = base_type_elements(&out->type, &elements);
    return status == SHOAL_OK ? SHOAL_OK : parse_at_place(p, from, status);
}

/* The name of an alias, as it has neither a dot nor brackets behind. */
static shoal_status type_of_alias(hlo_reader *r, hlo_text name, hlo_type *out) {
    uint64_t key;
    char text[64];
    const alias *a = find_alias(r, '!', name, &key);
    if (a) {
        *out = a->type;
        return SHOAL_OK;
    }
    base_fail(SHOAL_FORMAT, "the type !%s is not defined before",
              hlo_copy(name, text, sizeof text));
    return parse_at_place(&r->p, name.at - 1, SHOAL_FORMAT);
}

shoal_status hlo_read_type(hlo_reader *r, hlo_type *out) {
    parse_state *p = &r->p;
    hlo_text word;
    *out = (hlo_type){0};
    parse_space(p);
    const char *from = p->at;
    if (parse_take(p, "(")) { /* of a function */
        SHOAL_TRY(hlo_skip(r, NULL));
        SHOAL_TRY(parse_need(p, "->"));
        if (parse_take(p, "(")) {
            SHOAL_TRY(hlo_skip(r, NULL));
        } else {
            hlo_type result;
            SHOAL_TRY(hlo_enter(r));
            SHOAL_TRY(hlo_read_type(r, &result));
            hlo_leave(r);
        }
    } else {
        bool is_marked = parse_take(p, "!");
        SHOAL_TRY(hlo_read_word(r, &word));
        if (p->at < p->end && *p->at == '<') {
            p->at++;
            SHOAL_TRY(hlo_is(word, "tensor") ? tensor_type(r, out) : hlo_skip(r, NULL));
        } else if (is_marked && !memchr(word.at, '.', word.n)) {
            SHOAL_TRY(type_of_alias(r, word, out));
        }
    }
    out->at = from;
    if (!out->text.n) out->text = (hlo_text){from, (size_t)(p->at - from)};
    return SHOAL_OK;
}

/* ---- attributes ---- */

static shoal_status list_of(hlo_reader *r, const char *close, hlo_attr **items) {
    SHOAL_TRY(hlo_enter(r));
    while (!parse_take(&r->p, close)) {
        if (*items) SHOAL_TRY(parse_need(&r->p, ","));
        while (*items) items = &(*items)->next;
        SHOAL_TRY(hlo_read_attr(r, (hlo_text){0}, items));
    }
    hlo_leave(r);
    return SHOAL_OK;
}

/* "array<i64: 1, 2>", behind the word. */
static shoal_status array_of(hlo_reader *r, hlo_attr *out) {
    hlo_text element;
    out->kind = HLO_LIST;
    SHOAL_TRY(parse_need(&r->p, "<"));
    SHOAL_TRY(hlo_read_word(r, &element));
    if (parse_take(&r->p, ":")) return list_of(r, ">", &out->items);
    return parse_need(&r->p, ">");
}

/* "#stablehlo.gather<...>", "#stablehlo<precision DEFAULT>", "#loc3", behind the sign. */
static shoal_status marked(hlo_reader *r, hlo_attr *out) {
    static const char *const groups[] = {"stablehlo.dot", "stablehlo.gather", "stablehlo.scatter",
                                         "mhlo.dot",      "mhlo.gather",      "mhlo.scatter"};
    parse_state *p = &r->p;
    SHOAL_TRY(hlo_read_word(r, &out->text));
    out->kind = HLO_ALIAS;
    if (p->at == p->end || *p->at != '<') return SHOAL_OK;
    hlo_text kind = out->text;
    p->at++;
    out->kind = HLO_GROUP;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (hlo_is(kind, groups[i])) return hlo_read_attrs(r, ">", &out->items);
    bool conv = hlo_is(kind, "stablehlo.conv") || hlo_is(kind, "mhlo.conv");
    out->kind = HLO_OTHER;
    const char *from = p->at;
    SHOAL_TRY(hlo_skip(r, &out->text));
    if (conv) { /* "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" */
        p->at = from;
        SHOAL_TRY(hlo_read_attr(r, (hlo_text){0}, &out->items));
        return parse_need(p, ">");
    }
    if (!hlo_is(kind, "stablehlo") && !hlo_is(kind, "mhlo") && !hlo_is(kind, "chlo"))
        return SHOAL_OK;
    const char *space = memchr(out->text.at, ' ', out->text.n);
    if (!space) return SHOAL_OK;
    out->kind = HLO_WORD;
    out->text = (hlo_text){space + 1, out->text.n - (size_t)(space + 1 - out->text.at)};
    return SHOAL_OK;
}

/* A number, a word or a type; a word may be followed by something in brackets. */
static shoal_status plain(hlo_reader *r, hlo_attr *out) {
    parse_state *p = &r->p;
    hlo_text word;
    out->kind = HLO_WORD;
    const char *from = p->at;
    parse_take(p, "-");
    parse_take(p, "!");
    SHOAL_TRY(hlo_read_word(r, &word));
    /* The exponent of a number may have a sign. */
    bool number = isdigit((unsigned char)*word.at) && !(word.n > 1 && word.at[1] == 'x');
    if (number && p->at < p->end && (*p->at == '-' || *p->at == '+') &&
        (p->at[-1] == 'e' || p->at[-1] == 'E')) {
        p->at++;
        SHOAL_TRY(hlo_read_word(r, &word));
    }
    out->text = (hlo_text){from, (size_t)(p->at - from)};
    if (hlo_is(out->text, "array")) return array_of(r, out);
    if (p->at == p->end || *p->at != '<') {
        if (!hlo_is(out->text, "loc")) return SHOAL_OK;
        out->kind = HLO_OTHER;
        SHOAL_TRY(parse_need(p, "("));
        return hlo_skip(r, NULL);
    }
    out->kind = hlo_is(out->text, "dense")            ? HLO_DENSE
                : hlo_is(out->text, "dense_resource") ? HLO_RESOURCE
                                                      : HLO_OTHER;
    p->at++;
    return hlo_skip(r, &out->text);
}

static shoal_status bare(hlo_reader *r, hlo_attr *out) {
    parse_state *p = &r->p;
    parse_space(p);
    char c = p->at < p->end ? *p->at : 0;
    switch (c) {
    case '"':
        p->at++;
        out->kind = HLO_STRING;
        return quoted(r, &out->text);
    case '[':
        p->at++;
        out->kind = HLO_LIST;
        return list_of(r, "]", &out->items);
    case '{':
        p->at++;
        out->kind = HLO_GROUP;
        return hlo_read_attrs(r, "}", &out->items);
    case '@':
        p->at++;
        out->kind = HLO_SYMBOL;
        if (p->at < p->end && *p->at == '"') {
            p->at++;
            return quoted(r, &out->text);
        }
        return hlo_read_word(r, &out->text);
    case '#': p->at++; return marked(r, out);
    case '<':
        p->at++;
        out->kind = HLO_OTHER;
        return hlo_skip(r, &out->text);
    case '(': {
        hlo_type type;
        out->kind = HLO_OTHER;
        return hlo_read_type(r, &type);
    }
    default: return plain(r, out);
    }
}

/* "[0] x [1]" and "[b, f]x[i, o]->[b, f]" are lists of lists. */
static shoal_status products(hlo_reader *r, hlo_attr *out) {
    parse_state *p = &r->p;
    hlo_attr *first = NULL, **next = &first;
    while (parse_ahead(p, 'x') ? p->at++, true : parse_take(p, "->")) {
        if (!first) {
            first = base_arena_alloc(&p->arena, sizeof *first);
            if (!first) return SHOAL_NO_MEMORY;
            *first = (hlo_attr){.kind = HLO_LIST, .items = out->items};
            next = &first->next;
        }
        SHOAL_TRY(parse_need(p, "["));
        hlo_attr *list = base_arena_alloc(&p->arena, sizeof *list);
        if (!list) return SHOAL_NO_MEMORY;
        list->kind = HLO_LIST;
        SHOAL_TRY(list_of(r, "]", &list->items));
        *next = list;
        next = &list->next;
    }
    if (first) out->items = first;
    return SHOAL_OK;
}

shoal_status hlo_read_value(hlo_reader *r, hlo_text name, hlo_attr **out) {
    hlo_attr *attr = base_arena_alloc(&r->p.arena, sizeof *attr);
    if (!attr) return SHOAL_NO_MEMORY;
    attr->name = name;
    *out = attr;
    SHOAL_TRY(bare(r, attr));
    if (attr->kind == HLO_ALIAS) {
        follow_alias(r, attr);
        return SHOAL_OK;
    }
    return attr->kind == HLO_LIST ? products(r, attr) : SHOAL_OK;
}

shoal_status hlo_read_attr(hlo_reader *r, hlo_text name, hlo_attr **out) {
    SHOAL_TRY(hlo_read_value(r, name, out));
    hlo_kind kind = (*out)->kind;
    if ((kind != HLO_WORD && kind != HLO_DENSE && kind != HLO_RESOURCE && kind != HLO_STRING) ||
        !parse_take(&r->p, ":"))
        return SHOAL_OK;
    hlo_type *type = base_arena_alloc(&r->p.arena, sizeof *type);
    if (!type) return SHOAL_NO_MEMORY;
    (*out)->type = type;
    return hlo_read_type(r, type);
}

shoal_status hlo_read_attrs(hlo_reader *r, const char *close, hlo_attr **list) {
    parse_state *p = &r->p;
    SHOAL_TRY(hlo_enter(r));
    for (bool first = true; !parse_take(p, close); first = false) {
        hlo_text name;
        if (!first) SHOAL_TRY(parse_need(p, ","));
        while (*list) list = &(*list)->next;
        if (parse_take(p, "\""))
            SHOAL_TRY(quoted(r, &name));
        else
            SHOAL_TRY(hlo_read_word(r, &name));
        if (parse_take(p, "=")) {
            SHOAL_TRY(hlo_read_attr(r, name, list));
            continue;
        }
        *list = base_arena_alloc(&p->arena, sizeof **list);
        if (!*list) return SHOAL_NO_MEMORY;
        **list = (hlo_attr){.name = name, .kind = HLO_WORD};
    }
    hlo_leave(r);
    return SHOAL_OK;
}
