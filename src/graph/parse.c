/* From StableHLO's text to a graph. One pass, one token ahead; the only recursion is into regions
 * and into the lists of a constant, and both have a limit. Everything is built through graph_add,
 * which checks it; the parser compares the types that the text states with the inferred ones. */
#define _XOPEN_SOURCE 700
#include "graph/parse.h"
#include "graph/rules.h"

#include "base/map.h"

#include <ctype.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REGIONS = 64 };

/* A function or region while it is read. */
typedef struct scope {
    graph *g;
    base_map names; /* hash of a name -> its entry */
    uint32_t depth;
} scope;

typedef struct entry {
    const char *name;
    size_t length;
    uint32_t first; /* value */
    uint32_t count; /* values that share the name */
} entry;

typedef struct operation {
    const char *result; /* its name, without % */
    size_t result_length;
    uint32_t n_named; /* results that the text names */
    const graph_op_def *def;
    uint16_t op;
    parse_numbers inputs;
    uint16_t n_attrs, n_regions;
    shoal_attr attrs[SHOAL_ATTR_KEY_COUNT];
    const shoal_graph *regions[MAX_REGIONS];
    shoal_type constant; /* the type that the elements of VALUE are of */
    const char *scope, *location;
} operation;

static shoal_status differ(const parse_state *p, const char *at, const shoal_type *stated,
                           const shoal_type *is) {
    char a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
    base_fail(SHOAL_FORMAT, "the type is stated as %s, but is %s", base_type_text(stated, a),
              base_type_text(is, b));
    return parse_at_place(p, at, SHOAL_FORMAT);
}

/* "(tensor<f32>, …)", compared with the types of values; only read when values is NULL. */
static shoal_status types_of(parse_state *p, const scope *s, const uint32_t *values, size_t n) {
    SHOAL_TRY(parse_need(p, "("));
    size_t i = 0;
    if (!parse_take(p, ")")) {
        do {
            shoal_type type;
            parse_space(p);
            const char *from = p->at;
            SHOAL_TRY(parse_type_of(p, &type));
            if (!values) continue;
            if (i == n) return parse_fail(p, "more types than values");
            const shoal_type *is = &graph_data(s->g)->values[values[i++]].type;
            if (!base_type_equal(&type, is)) return differ(p, from, &type, is);
        } while (parse_take(p, ","));
        SHOAL_TRY(parse_need(p, ")"));
    }
    return values && i < n ? parse_fail(p, "fewer types than values") : SHOAL_OK;
}

/* ---- names ---- */

static shoal_status name_of(parse_state *p, const char **name, size_t *length) {
    char ignored[GRAPH_MAX_ELEMENT_TEXT + 1];
    SHOAL_TRY(parse_need(p, "%"));
    *name = p->at;
    if (p->at == p->end || isspace((unsigned char)*p->at)) return parse_fail(p, "expected a name");
    SHOAL_TRY(parse_word(p, "_", ignored));
    *length = (size_t)(p->at - *name);
    return SHOAL_OK;
}

/* The entry of a name, or NULL; *key is where it is or would be. */
static entry *find(const scope *s, const char *name, size_t length, uint64_t *key) {
    entry *e;
    *key = base_hash(name, length);
    while ((e = base_map_get(&s->names, *key)) &&
           (e->length != length || memcmp(e->name, name, length)))
        ++*key;
    return e;
}

static shoal_status define(parse_state *p, scope *s, const char *name, size_t length,
                           uint32_t first, uint32_t count) {
    uint64_t key;
    if (find(s, name, length, &key)) {
        p->at = name;
        return parse_fail(p, "the name is defined twice");
    }
    entry *e = base_arena_alloc(&p->arena, sizeof *e);
    if (!e) return SHOAL_NO_MEMORY;
    *e = (entry){name, length, first, count};
    return base_map_set(&s->names, key, e);
}

/* "%3" or "%3#1" */
static shoal_status use(parse_state *p, const scope *s, uint32_t *value) {
    const char *name;
    size_t length = 0;
    uint64_t key;
    int64_t index = 0;
    SHOAL_TRY(name_of(p, &name, &length));
    const entry *e = find(s, name, length, &key);
    if (!e) {
        p->at = name;
        return parse_fail(p, "the name is not defined");
    }
    if (p->at < p->end && *p->at == '#') {
        p->at++;
        SHOAL_TRY(parse_integer(p, &index));
    } else if (e->count != 1) {
        return parse_fail(p, "one of several results must be chosen with '#'");
    }
    if (index < 0 || index >= e->count) return parse_fail(p, "there is no such result");
    *value = e->first + (uint32_t)index;
    return SHOAL_OK;
}

/* "(%0, %1)", as value numbers. */
static shoal_status operands(parse_state *p, const scope *s, parse_numbers *list) {
    *list = (parse_numbers){0};
    SHOAL_TRY(parse_need(p, "("));
    if (parse_take(p, ")")) return SHOAL_OK;
    do {
        uint32_t value = 0;
        SHOAL_TRY(use(p, s, &value));
        SHOAL_TRY(parse_push(p, list, value));
    } while (parse_take(p, ","));
    return parse_need(p, ")");
}

static uint32_t *as_values(parse_state *p, const parse_numbers *list) {
    uint32_t *values = base_arena_array(&p->arena, uint32_t, list->count);
    for (size_t i = 0; values && i < list->count; i++) values[i] = (uint32_t)list->data[i];
    return values;
}

/* "(%0: tensor<f32>, …)" */
static shoal_status parameters(parse_state *p, scope *s) {
    SHOAL_TRY(parse_need(p, "("));
    if (parse_take(p, ")")) return SHOAL_OK;
    do {
        const char *name;
        size_t length = 0;
        shoal_type type;
        uint32_t value;
        SHOAL_TRY(name_of(p, &name, &length));
        SHOAL_TRY(parse_need(p, ":"));
        SHOAL_TRY(parse_type_of(p, &type));
        SHOAL_TRY(graph_add_input(s->g, &type, &value));
        SHOAL_TRY(define(p, s, name, length, value, 1));
    } while (parse_take(p, ","));
    return parse_need(p, ")");
}

/* ---- constants ---- */

/* "dense<…> : tensor<…>". The type is needed to read the elements before it. */
static shoal_status dense(parse_state *p, shoal_type *type, shoal_attr *out) {
    SHOAL_TRY(parse_need(p, "dense"));
    SHOAL_TRY(parse_need(p, "<"));
    parse_space(p);
    const char *body = p->at, *close = memchr(body, '>', (size_t)(p->end - body));
    if (!close) return parse_fail(p, "the constant does not end");
    p->at = close + 1;
    SHOAL_TRY(parse_need(p, ":"));
    SHOAL_TRY(parse_type_of(p, type));
    const char *after = p->at;
    const void *data;
    size_t bytes;
    p->at = body;
    SHOAL_TRY(parse_elements(p, type, close, &data, &bytes));
    p->at = after;
    *out = graph_bytes(SHOAL_ATTR_VALUE, data, bytes);
    return SHOAL_OK;
}

/* ---- attributes ---- */

static shoal_status add_attr(parse_state *p, operation *o, shoal_attr attr) {
    if (o->n_attrs == SHOAL_ATTR_KEY_COUNT) return parse_fail(p, "too many attributes");
    o->attrs[o->n_attrs++] = attr;
    return SHOAL_OK;
}

static shoal_status key_of(parse_state *p, const char *at, const char *name, shoal_attr_key *out) {
    for (uint16_t key = 0; key < SHOAL_ATTR_KEY_COUNT; key++)
        if (!graph_attr_implied(key) && !strcmp(name, graph_attr_name(key))) {
            *out = (shoal_attr_key)key;
            return SHOAL_OK;
        }
    base_fail(SHOAL_FORMAT, "attribute '%s' is unknown", name);
    return parse_at_place(p, at, SHOAL_FORMAT);
}

/* "#stablehlo.dot<lhs_batching_dimensions = [0], …>"; what is left out is empty, or 0. */
static shoal_status group_of(parse_state *p, operation *o, const graph_key_group *group) {
    graph_keys seen = 0;
    SHOAL_TRY(parse_need(p, "#stablehlo."));
    SHOAL_TRY(parse_need(p, group->type));
    SHOAL_TRY(parse_need(p, "<"));
    while (!parse_take(p, ">")) {
        char name[GRAPH_MAX_ELEMENT_TEXT + 1];
        shoal_attr_key key = 0;
        parse_numbers list;
        int64_t number;
        if (seen) SHOAL_TRY(parse_need(p, ","));
        parse_space(p);
        const char *from = p->at;
        SHOAL_TRY(parse_word(p, "_", name));
        SHOAL_TRY(key_of(p, from, name, &key));
        if (!graph_group_has(group, (uint16_t)key) || seen >> key & 1) {
            p->at = from;
            return parse_fail(p, "this does not belong here, or is given twice");
        }
        seen |= (graph_keys)1 << key;
        SHOAL_TRY(parse_need(p, "="));
        if (graph_attr_kind((uint16_t)key) == SHOAL_ATTR_KIND_INT) {
            SHOAL_TRY(parse_integer(p, &number));
            SHOAL_TRY(add_attr(p, o, graph_int(key, number)));
            continue;
        }
        SHOAL_TRY(parse_need(p, "["));
        SHOAL_TRY(parse_integers(p, "]", &list));
        SHOAL_TRY(add_attr(p, o, graph_ints(key, list.data, list.count)));
    }
    for (uint16_t key = 0; key < SHOAL_ATTR_KEY_COUNT; key++) {
        if (!graph_group_has(group, key) || seen >> key & 1) continue;
        bool is_number = graph_attr_kind(key) == SHOAL_ATTR_KIND_INT;
        SHOAL_TRY(add_attr(p, o,
                           is_number ? graph_int((shoal_attr_key)key, 0)
                                     : graph_ints((shoal_attr_key)key, NULL, 0)));
    }
    return SHOAL_OK;
}

static shoal_status attr_value(parse_state *p, operation *o, shoal_attr_key key) {
    shoal_attr attr = {0};
    parse_numbers list;
    int64_t number;
    char *text;
    switch (graph_attr_kind((uint16_t)key)) {
    case SHOAL_ATTR_KIND_INT:
        SHOAL_TRY(parse_integer(p, &number));
        if (parse_take(p, ":")) SHOAL_TRY(parse_need(p, "i64"));
        attr = graph_int(key, number);
        break;
    case SHOAL_ATTR_KIND_INTS:
        SHOAL_TRY(parse_need(p, "array<i64"));
        if (parse_take(p, ":")) {
            if (parse_ahead(p, '>')) return parse_fail(p, "expected a number");
            SHOAL_TRY(parse_integers(p, ">", &list));
        } else {
            list = (parse_numbers){0};
            SHOAL_TRY(parse_need(p, ">"));
        }
        attr = graph_ints(key, list.data, list.count);
        break;
    case SHOAL_ATTR_KIND_STRING:
        if (graph_attr_quoted((uint16_t)key)) {
            const char *quoted;
            SHOAL_TRY(parse_string(p, &quoted));
            attr = graph_string(key, quoted);
            break;
        }
        text = base_arena_alloc(&p->arena, GRAPH_MAX_ELEMENT_TEXT + 1);
        if (!text) return SHOAL_NO_MEMORY;
        SHOAL_TRY(parse_need(p, "#stablehlo<"));
        SHOAL_TRY(parse_need(p, graph_attr_name((uint16_t)key)));
        SHOAL_TRY(parse_word(p, "_", text));
        SHOAL_TRY(parse_need(p, ">"));
        attr = graph_string(key, text);
        break;
    case SHOAL_ATTR_KIND_BYTES: SHOAL_TRY(dense(p, &o->constant, &attr)); break;
    case SHOAL_ATTR_KIND_FLOAT: {
        shoal_type real = {.dtype = SHOAL_F64};
        double value;
        SHOAL_TRY(parse_element(p, &real, &value));
        if (parse_take(p, ":")) SHOAL_TRY(parse_need(p, "f64"));
        attr = graph_float(key, value);
        break;
    }
    case SHOAL_ATTR_KIND_BOOL: {
        shoal_type flag = {.dtype = SHOAL_BOOL};
        char value;
        SHOAL_TRY(parse_element(p, &flag, &value));
        attr = graph_bool(key, value);
        break;
    }
    }
    return add_attr(p, o, attr);
}

/* "name = value, …" up to `close`. */
static shoal_status attributes(parse_state *p, operation *o, const char *close) {
    if (parse_take(p, close)) return SHOAL_OK;
    do {
        char name[GRAPH_MAX_ELEMENT_TEXT + 1];
        parse_space(p);
        const char *from = p->at;
        SHOAL_TRY(parse_word(p, "._", name));
        SHOAL_TRY(parse_need(p, "="));
        const graph_key_group *group = graph_group_of(o->def);
        if (group && !strcmp(name, group->attribute)) {
            SHOAL_TRY(group_of(p, o, group));
        } else if (!strcmp(name, "shoal.scope")) {
            SHOAL_TRY(parse_string(p, &o->scope));
        } else {
            shoal_attr_key key = 0;
            SHOAL_TRY(key_of(p, from, name, &key));
            SHOAL_TRY(attr_value(p, o, key));
        }
    } while (parse_take(p, ","));
    return parse_need(p, close);
}

/* SHAPE, DTYPE and TYPES, which the results' types say. */
static shoal_status imply(parse_state *p, operation *o, const shoal_type *results, uint16_t n) {
    graph_keys has = o->def->attrs_required | o->def->attrs_optional;
    if (has >> SHOAL_ATTR_DTYPE & 1 && n)
        SHOAL_TRY(add_attr(p, o, graph_int(SHOAL_ATTR_DTYPE, results[0].dtype)));
    if (has >> SHOAL_ATTR_SHAPE & 1 && n)
        SHOAL_TRY(add_attr(p, o, graph_ints(SHOAL_ATTR_SHAPE, results[0].dims, results[0].rank)));
    if (!(has >> SHOAL_ATTR_TYPES & 1)) return SHOAL_OK;
    parse_numbers list = {0};
    for (uint16_t i = 0; i < n; i++) {
        SHOAL_TRY(parse_push(p, &list, results[i].dtype));
        SHOAL_TRY(parse_push(p, &list, results[i].rank));
        for (unsigned k = 0; k < results[i].rank; k++)
            SHOAL_TRY(parse_push(p, &list, results[i].dims[k]));
    }
    return add_attr(p, o, graph_ints(SHOAL_ATTR_TYPES, list.data, list.count));
}

/* ---- operations ---- */

static shoal_status body_of(parse_state *p, scope *s);

/* "{^bb0(%a: …): …}" */
static shoal_status region(parse_state *p, scope *outer, const shoal_graph **out) {
    scope s = {.depth = outer->depth + 1};
    if (s.depth > GRAPH_MAX_DEPTH) return parse_fail(p, "regions are nested deeper than 8");
    SHOAL_TRY(parse_need(p, "{"));
    SHOAL_TRY(graph_add_region(outer->g, &s.g));
    base_map_init(&s.names);
    shoal_status status = SHOAL_OK;
    if (parse_take(p, "^bb0")) {
        if (parse_ahead(p, '(')) status = parameters(p, &s);
        if (status == SHOAL_OK) status = parse_need(p, ":");
    }
    if (status == SHOAL_OK) status = body_of(p, &s);
    base_map_fini(&s.names);
    *out = graph_data(s.g);
    return status;
}

static shoal_status result_types(parse_state *p, shoal_type *types, uint16_t *n) {
    *n = 0;
    if (!parse_take(p, "(")) {
        *n = 1;
        return parse_type_of(p, &types[0]);
    }
    if (parse_take(p, ")")) return SHOAL_OK;
    do {
        if (*n == GRAPH_MAX_OUTPUTS) return parse_fail(p, "too many results");
        SHOAL_TRY(parse_type_of(p, &types[(*n)++]));
    } while (parse_take(p, ","));
    return parse_need(p, ")");
}

/* Appends the operation, now that all of it is read; `at` is where it begins. */
static shoal_status finish(parse_state *p, scope *s, operation *o, const uint32_t *values,
                           const shoal_type *results, uint16_t n, const char *at) {
    SHOAL_TRY(imply(p, o, results, n));
    if (o->constant.dtype < SHOAL_DTYPE_COUNT && (!n || !base_type_equal(&o->constant, results)))
        return differ(p, at, results, &o->constant);
    SHOAL_TRY(graph_at(s->g, o->location, o->scope));
    uint32_t first;
    shoal_status status = graph_add(s->g, o->op, values, (uint32_t)o->inputs.count, o->attrs,
                                    o->n_attrs, o->regions, o->n_regions, &first);
    if (status != SHOAL_OK) return parse_at_place(p, at, status);
    const shoal_graph *g = graph_data(s->g);
    uint32_t count = g->n_values - first;
    p->at = o->result ? o->result : p->at;
    if (count != n) return parse_fail(p, "the operation has another number of results");
    if (o->n_named != n) return parse_fail(p, "the results are not all named");
    for (uint32_t i = 0; i < count; i++)
        if (!base_type_equal(&results[i], &g->values[first + i].type))
            return differ(p, at, &results[i], &g->values[first + i].type);
    return o->result ? define(p, s, o->result, o->result_length, first, count) : SHOAL_OK;
}

/* What follows the operands, up to the colon. */
static shoal_status middle(parse_state *p, scope *s, operation *o) {
    if (parse_take(p, "<{")) {
        SHOAL_TRY(attributes(p, o, "}"));
        SHOAL_TRY(parse_need(p, ">"));
    }
    if (parse_take(p, "(")) {
        do {
            if (o->n_regions == MAX_REGIONS) return parse_fail(p, "too many regions");
            SHOAL_TRY(region(p, s, &o->regions[o->n_regions++]));
        } while (parse_take(p, ","));
        SHOAL_TRY(parse_need(p, ")"));
    }
    if (parse_take(p, "{")) SHOAL_TRY(attributes(p, o, "}"));
    return parse_need(p, ":");
}

static shoal_status result_name(parse_state *p, operation *o) {
    if (!parse_ahead(p, '%')) return SHOAL_OK;
    int64_t count = 1;
    SHOAL_TRY(name_of(p, &o->result, &o->result_length));
    if (parse_take(p, ":")) SHOAL_TRY(parse_integer(p, &count));
    if (count < 1 || count > GRAPH_MAX_OUTPUTS)
        return parse_fail(p, "the number of results is wrong");
    o->n_named = (uint32_t)count;
    return parse_need(p, "=");
}

static shoal_status find_operation(parse_state *p, const char *at, const char *name, operation *o) {
    const char *dot_at = strchr(name, '.');
    shoal_status status = shoal_op_find(dot_at ? dot_at + 1 : name, &o->op);
    if (status == SHOAL_OK && dot_at && (size_t)(dot_at - name) == strlen(graph_dialect(o->op)) &&
        !strncmp(name, graph_dialect(o->op), (size_t)(dot_at - name))) {
        o->def = graph_op(o->op);
        return SHOAL_OK;
    }
    base_fail(SHOAL_FORMAT, "there is no operation '%.64s'", name);
    return parse_at_place(p, at, SHOAL_FORMAT);
}

static shoal_status finish_body(parse_state *p, scope *s) {
    parse_numbers list;
    SHOAL_TRY(operands(p, s, &list));
    uint32_t *values = as_values(p, &list);
    if (!values) return SHOAL_NO_MEMORY;
    SHOAL_TRY(parse_need(p, ":"));
    SHOAL_TRY(types_of(p, s, values, list.count));
    SHOAL_TRY(parse_need(p, "->"));
    SHOAL_TRY(parse_need(p, "("));
    SHOAL_TRY(parse_need(p, ")"));
    for (size_t i = 0; i < list.count; i++) SHOAL_TRY(graph_add_output(s->g, values[i]));
    return parse_need(p, "}");
}

/* One operation; *done when it was the return that ends the body. */
static shoal_status statement(parse_state *p, scope *s, bool *done) {
    operation o = {.constant.dtype = SHOAL_DTYPE_COUNT};
    shoal_type results[GRAPH_MAX_OUTPUTS];
    uint16_t n;
    const char *name;
    SHOAL_TRY(result_name(p, &o));
    parse_space(p);
    const char *at = p->at;
    SHOAL_TRY(parse_string(p, &name));
    *done = !strcmp(name, s->depth ? "stablehlo.return" : "func.return");
    if (*done) return o.result ? parse_fail(p, "a return has no results") : finish_body(p, s);
    SHOAL_TRY(find_operation(p, at, name, &o));
    SHOAL_TRY(operands(p, s, &o.inputs));
    uint32_t *values = as_values(p, &o.inputs);
    if (!values) return SHOAL_NO_MEMORY;
    SHOAL_TRY(middle(p, s, &o));
    SHOAL_TRY(types_of(p, s, values, o.inputs.count));
    SHOAL_TRY(parse_need(p, "->"));
    SHOAL_TRY(result_types(p, results, &n));
    if (parse_take(p, "loc")) {
        SHOAL_TRY(parse_need(p, "("));
        SHOAL_TRY(parse_string(p, &o.location));
        SHOAL_TRY(parse_need(p, ")"));
    }
    const char *after = p->at;
    SHOAL_TRY(finish(p, s, &o, values, results, n, at));
    p->at = after;
    return SHOAL_OK;
}

/* Statements up to the return and the closing brace. */
static shoal_status body_of(parse_state *p, scope *s) {
    bool done = false;
    while (!done) SHOAL_TRY(statement(p, s, &done));
    return SHOAL_OK;
}

static shoal_status main_of(parse_state *p, scope *s) {
    bool module = parse_take(p, "module");
    if (module) SHOAL_TRY(parse_need(p, "{"));
    SHOAL_TRY(parse_need(p, "func.func"));
    parse_take(p, "public");
    SHOAL_TRY(parse_need(p, "@main"));
    SHOAL_TRY(parameters(p, s));
    SHOAL_TRY(parse_need(p, "->"));
    const char *declared = p->at;
    SHOAL_TRY(types_of(p, s, NULL, 0));
    SHOAL_TRY(parse_need(p, "{"));
    SHOAL_TRY(body_of(p, s));
    const char *after = p->at;
    p->at = declared; /* read once more, now that the outputs are known */
    uint32_t nothing = 0;
    const shoal_graph *g = graph_data(s->g);
    SHOAL_TRY(types_of(p, s, g->n_outputs ? g->outputs : &nothing, g->n_outputs));
    p->at = after;
    if (module) SHOAL_TRY(parse_need(p, "}"));
    parse_space(p);
    return p->at < p->end ? parse_fail(p, "expected the end") : SHOAL_OK;
}

shoal_status graph_parse(const char *text, size_t bytes, size_t limit, graph **out) {
    parse_state p = {.text = text, .at = text, .end = text + bytes};
    scope s = {0};
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return base_fail(SHOAL_NO_MEMORY, "no memory for a locale");
    locale_t before = uselocale(c);
    base_arena_init(&p.arena, limit);
    base_map_init(&s.names);
    shoal_status status = graph_new(limit, &s.g);
    if (status == SHOAL_OK) status = main_of(&p, &s);
    if (status == SHOAL_OK)
        *out = s.g;
    else
        graph_destroy(&s.g);
    base_map_fini(&s.names);
    base_arena_fini(&p.arena);
    uselocale(before);
    freelocale(c);
    return status;
}
