/* Functions, names and regions: from the tree of a text to a graph, built through graph_add, which
 * checks every node. Calls are written out where they stand. Bodies of Shoal's graphs see their
 * arguments alone, so that what a region takes from around it is handed over, or made again. */
#define _XOPEN_SOURCE 700
#include "graph/stablehlo/import.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_CALLS = 64, MAX_CONSTANT = 4096 };

typedef struct entry {
    hlo_text name;
    const uint32_t *values;
    uint32_t count;
    const struct entry *items; /* of a tuple: its elements, `count` of them; else NULL */
} entry;

/* ---- failures ---- */

static shoal_status fail(const hlo_call *c, const char *at, const char *format, va_list list) {
    char message[512];
    vsnprintf(message, sizeof message, format, list);
    base_fail(SHOAL_FORMAT, "'%.64s': %s", c->op->name, message);
    return parse_at_place(&c->s->in->r.p, at, SHOAL_FORMAT);
}

shoal_status hlo_fail(const hlo_call *c, const char *format, ...) {
    va_list list;
    va_start(list, format);
    shoal_status status = fail(c, c->op->at, format, list);
    va_end(list);
    return status;
}

shoal_status hlo_fail_at(const hlo_call *c, const char *at, const char *format, ...) {
    va_list list;
    va_start(list, format);
    shoal_status status = fail(c, at, format, list);
    va_end(list);
    return status;
}

/* Of what is recorded already, by who does not know the place. */
static shoal_status place(const hlo_call *c, shoal_status status) {
    if (status == SHOAL_OK || !strncmp(shoal_error_message(), "line ", 5)) return status;
    base_fail_prefix(status, "'%.64s': ", c->op->name);
    return parse_at_place(&c->s->in->r.p, c->op->at, status);
}

/* ---- names ---- */

static entry *find(const base_map *names, hlo_text name, uint64_t *key) {
    entry *e;
    *key = base_hash(name.at, name.n);
    while ((e = base_map_get(names, *key)) &&
           (e->name.n != name.n || memcmp(e->name.at, name.at, name.n)))
        ++*key;
    return e;
}

static shoal_status fail_name(const hlo_scope *s, hlo_text name, const char *what) {
    char text[64];
    base_fail(SHOAL_FORMAT, "the name %%%s %s", hlo_copy(name, text, sizeof text), what);
    return parse_at_place(&s->in->r.p, name.at, SHOAL_FORMAT);
}

static shoal_status define_entry(hlo_scope *s, hlo_text name, const entry *from) {
    uint64_t key;
    if (find(&s->names, name, &key)) return fail_name(s, name, "is defined twice");
    entry *e = base_arena_copy(&s->in->r.p.arena, from, sizeof *e);
    if (!e) return SHOAL_NO_MEMORY;
    e->name = name;
    return base_map_set(&s->names, key, e);
}

static shoal_status define(hlo_scope *s, hlo_text name, const uint32_t *values, uint32_t count) {
    const uint32_t *kept = base_arena_copy(&s->in->r.p.arena, values, count * sizeof *values);
    if (!kept) return SHOAL_NO_MEMORY;
    return define_entry(s, name, &(entry){.values = kept, .count = count});
}

static shoal_status use(const hlo_scope *s, const hlo_name *name, uint32_t *value) {
    uint64_t key;
    const entry *e = find(&s->names, name->text, &key);
    int64_t index = name->number < 0 ? 0 : name->number;
    if (!e) return fail_name(s, name->text, "is not defined");
    if (e->items) return fail_name(s, name->text, "is a tuple; get_tuple_element takes from it");
    if (name->number < 0 && e->count != 1)
        return fail_name(s, name->text, "stands for several results; choose one with '#'");
    if (index >= e->count) return fail_name(s, name->text, "has no such result");
    *value = e->values[index];
    return SHOAL_OK;
}

static bool fits(const hlo_type *stated, const shoal_type *is) {
    if (!stated->tensor || stated->type.dtype != is->dtype || stated->type.rank != is->rank)
        return false;
    for (uint32_t i = 0; i < is->rank; i++)
        if (stated->type.dims[i] >= 0 && stated->type.dims[i] != is->dims[i]) return false;
    return true;
}

/* Of operand 1, %x, or the like; a result has no name here. */
static shoal_status check_type(const hlo_call *c, const char *what, size_t i, hlo_text name,
                               const hlo_type *stated, uint32_t value) {
    char is[BASE_TYPE_TEXT], text[96], called[64];
    const shoal_type *type = &graph_data(c->s->g)->values[value].type;
    if (fits(stated, type)) return SHOAL_OK;
    return hlo_fail(c, "the type of %s %zu%s%s%s is stated as %s, but is %s", what, i,
                    name.n ? ", %" : "", hlo_copy(name, called, sizeof called), name.n ? "," : "",
                    hlo_copy(stated->text, text, sizeof text), base_type_text(type, is));
}

static shoal_status check_result(const hlo_call *c, size_t i, uint32_t value) {
    return check_type(c, "result", i, (hlo_text){0}, &c->types[i], value);
}

static shoal_status check_operand(const hlo_call *c, size_t i, uint32_t value) {
    const hlo_op *op = c->op;
    return check_type(c, "operand", i, op->operands.data[i].text, &op->types.data[i], value);
}

/* ---- operations ---- */

static bool is_return(const char *name) {
    const char *dot = strrchr(name, '.');
    return !strcmp(dot ? dot + 1 : name, "return");
}

/* The places of nodes are those of the operations in the text. */
static shoal_status note_place(const hlo_call *c) {
    char place[300];
    const char *file = c->s->in->options->file;
    if (!file) return SHOAL_OK;
    snprintf(place, sizeof place, "line %zu, column %zu%s%.200s", c->op->line, c->op->column,
             *file ? " of " : "", file);
    return graph_at(c->s->g, place, NULL);
}

static shoal_status count_results(hlo_call *c) {
    const hlo_op *op = c->op;
    int64_t named = 0;
    for (size_t i = 0; i < op->results.count; i++) named += op->results.data[i].number;
    size_t stated = op->arrow ? op->types.count - op->before : op->types.count;
    if (op->arrow && !op->results.count) named = (int64_t)stated;
    if (named > GRAPH_MAX_OUTPUTS) return hlo_fail(c, "it has over %d results", GRAPH_MAX_OUTPUTS);
    if (op->arrow && (size_t)named != stated)
        return hlo_fail(c, "it has %lld results and %zu types of them", (long long)named, stated);
    c->n_out = (uint32_t)named;
    const hlo_type *types = op->types.data;
    if (op->arrow)
        c->types = types + op->before;
    else if (named && stated == c->n_out)
        c->types = types;
    else if (named == 1 && stated)
        c->types = types + stated - 1;
    return SHOAL_OK;
}

static shoal_status operands(hlo_call *c, uint32_t **in) {
    const hlo_op *op = c->op;
    base_arena *arena = &c->s->in->r.p.arena;
    c->n_in = (uint32_t)op->operands.count;
    *in = base_arena_array(arena, uint32_t, (size_t)c->n_in);
    if (!*in) return SHOAL_NO_MEMORY;
    c->in = *in;
    for (uint32_t i = 0; i < c->n_in; i++) SHOAL_TRY(use(c->s, &op->operands.data[i], &(*in)[i]));
    bool stated = op->arrow || hlo_is_called(op, "while");
    for (uint32_t i = 0; i < c->n_in && stated && op->before == c->n_in; i++)
        SHOAL_TRY(check_operand(c, i, c->in[i]));
    return SHOAL_OK;
}

static shoal_status define_results(const hlo_call *c) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < c->n_out && c->types; i++) SHOAL_TRY(check_result(c, i, c->out[i]));
    for (size_t i = 0; i < c->op->results.count; i++) {
        const hlo_name *name = &c->op->results.data[i];
        SHOAL_TRY(define(c->s, name->text, c->out + at, (uint32_t)name->number));
        at += (uint32_t)name->number;
    }
    return SHOAL_OK;
}

/* ---- tuples: names for several things, no values ---- */

static shoal_status tuple(const hlo_call *c) {
    hlo_scope *s = c->s;
    const hlo_op *op = c->op;
    base_arena *arena = &s->in->r.p.arena;
    entry *items = base_arena_array(arena, entry, op->operands.count + 1);
    if (!items) return SHOAL_NO_MEMORY;
    if (op->results.count != 1) return hlo_fail(c, "it has one result");
    for (size_t i = 0; i < op->operands.count; i++) {
        uint64_t key;
        uint32_t value;
        const entry *e = find(&s->names, op->operands.data[i].text, &key);
        if (e && e->items) {
            items[i] = *e;
            continue;
        }
        SHOAL_TRY(use(s, &op->operands.data[i], &value));
        items[i].values = base_arena_copy(arena, &value, sizeof value);
        items[i].count = 1;
        if (!items[i].values) return SHOAL_NO_MEMORY;
    }
    const entry all = {.items = items, .count = (uint32_t)op->operands.count};
    return define_entry(s, op->results.data[0].text, &all);
}

static shoal_status tuple_element(hlo_call *c) {
    uint64_t key;
    int64_t index;
    const hlo_op *op = c->op;
    if (op->operands.count != 1 || op->results.count != 1)
        return hlo_fail(c, "it has one operand and one result");
    hlo_text name = op->operands.data[0].text;
    const entry *e = find(&c->s->names, name, &key);
    if (!e) return fail_name(c->s, name, "is not defined");
    if (!e->items) return fail_name(c->s, name, "is no tuple");
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "index", NULL), -1, &index));
    if (index < 0 || index >= e->count)
        return hlo_fail(c, "there is no element %lld, only %u", (long long)index, e->count);
    const entry *item = &e->items[index];
    if (!item->items && c->types) SHOAL_TRY(check_result(c, 0, item->values[0]));
    return define_entry(c->s, op->results.data[0].text, item);
}

static shoal_status lower_call(hlo_call *c) {
    uint32_t *in;
    hlo_import *whole = c->s->in;
    if (++whole->steps > GRAPH_MAX_NODES)
        return hlo_fail(c, "with all calls written out there are over %d operations",
                        GRAPH_MAX_NODES);
    if (hlo_is_called(c->op, "tuple")) return tuple(c);
    if (hlo_is_called(c->op, "get_tuple_element")) {
        SHOAL_TRY(count_results(c));
        return tuple_element(c);
    }
    hlo_rule *rule = hlo_rule_of(c->op->name);
    if (!rule) return hlo_refuse(c);
    SHOAL_TRY(operands(c, &in));
    SHOAL_TRY(count_results(c));
    c->out = base_arena_array(&whole->r.p.arena, uint32_t, (size_t)c->n_out);
    if (!c->out) return SHOAL_NO_MEMORY;
    SHOAL_TRY(note_place(c));
    SHOAL_TRY(rule(c));
    return define_results(c);
}

static shoal_status operation(hlo_scope *s, const hlo_op *op) {
    hlo_call c = {.s = s, .op = op};
    return place(&c, lower_call(&c));
}

/* Up to the return: *last. */
static shoal_status block(hlo_scope *s, const hlo_region *region, const hlo_op **last) {
    const hlo_op *op = region->first;
    for (; op && !is_return(op->name); op = op->next) SHOAL_TRY(operation(s, op));
    *last = op;
    if (op && !op->next) return SHOAL_OK;
    return parse_at_place(&s->in->r.p, op ? op->next->at : s->in->r.p.at,
                          base_fail(SHOAL_FORMAT, "a body ends with its one return"));
}

/* What number i of a return is; its type is as stated, if that is. */
static shoal_status use_returned(hlo_scope *s, const hlo_op *last, size_t i, uint32_t *value) {
    const hlo_call c = {.s = s, .op = last};
    if (last->types.count && last->before != last->operands.count)
        return hlo_fail(&c, "it returns %zu values, and states %zu types", last->operands.count,
                        last->before);
    SHOAL_TRY(use(s, &last->operands.data[i], value));
    return last->types.count ? check_operand(&c, i, *value) : SHOAL_OK;
}

static shoal_status returned(hlo_scope *s, const hlo_op *last, uint32_t n, uint32_t *values) {
    const hlo_call c = {.s = s, .op = last};
    if (last->operands.count != n)
        return hlo_fail(&c, "it returns %zu values; %u are needed", last->operands.count, n);
    for (uint32_t i = 0; i < n; i++) SHOAL_TRY(use_returned(s, last, i, &values[i]));
    return SHOAL_OK;
}

/* The pretty form of a function states its results; the generic one leaves that to the return. */
static shoal_status check_results(hlo_scope *s, const hlo_function *f, const uint32_t *values,
                                  uint32_t n) {
    char name[64], text[96], is[BASE_TYPE_TEXT];
    const hlo_op *last = f->op->regions->first;
    if (!f->op->is_pretty) return SHOAL_OK;
    while (last->next) last = last->next;
    const hlo_call c = {.s = s, .op = last};
    hlo_copy(f->name, name, sizeof name);
    if (f->op->types.count != n)
        return hlo_fail(&c, "it returns %u values; @%s states %zu results", n, name,
                        f->op->types.count);
    for (uint32_t i = 0; i < n; i++) {
        const hlo_type *stated = &f->op->types.data[i];
        const shoal_type *type = &graph_data(s->g)->values[values[i]].type;
        if (!fits(stated, type))
            return hlo_fail(&c, "it returns %s; @%s states %s as its result %u",
                            base_type_text(type, is), name,
                            hlo_copy(stated->text, text, sizeof text), i);
    }
    return SHOAL_OK;
}

/* ---- regions ---- */

static shoal_status splice(hlo_scope *s, const hlo_call *c, const hlo_region *region,
                           const uint32_t *arguments, uint32_t *outputs, uint32_t n) {
    const hlo_op *last;
    for (size_t i = 0; i < region->arguments.count; i++) {
        const hlo_argument *argument = &region->arguments.data[i];
        SHOAL_TRY(check_type(c, "argument", i, argument->name, &argument->type, arguments[i]));
        SHOAL_TRY(define(s, argument->name, &arguments[i], 1));
    }
    SHOAL_TRY(block(s, region, &last));
    return returned(s, last, n, outputs);
}

shoal_status hlo_splice(const hlo_call *c, const hlo_region *region, const uint32_t *arguments,
                        uint32_t *outputs, uint32_t n_outputs) {
    hlo_scope s = {.in = c->s->in, .g = c->s->g, .depth = c->s->depth};
    base_map_init(&s.names);
    shoal_status status = splice(&s, c, region, arguments, outputs, n_outputs);
    base_map_fini(&s.names);
    return status;
}

static hlo_function *find_function(const hlo_import *in, hlo_text name, uint64_t *key) {
    hlo_function *f;
    *key = base_hash(name.at, name.n);
    while ((f = base_map_get(&in->named, *key)) &&
           (f->name.n != name.n || memcmp(f->name.at, name.at, name.n)))
        ++*key;
    return f;
}

/* A function that may be called. */
static shoal_status find_callee(const hlo_call *c, hlo_text name, hlo_function **out) {
    char text[64];
    uint64_t key;
    const hlo_function *f = *out = find_function(c->s->in, name, &key);
    hlo_copy(name, text, sizeof text);
    if (!f) return hlo_fail(c, "there is no function @%s", text);
    if (f->active) return hlo_fail(c, "@%s calls itself, which has no end here", text);
    if (f->op->regions) return SHOAL_OK;
    return hlo_fail(c, "@%s is only declared; its body is not in the text", text);
}

shoal_status hlo_inline(hlo_call *c, hlo_text name) {
    char text[64];
    hlo_import *in = c->s->in;
    hlo_function *f;
    SHOAL_TRY(find_callee(c, name, &f));
    const hlo_region *region = f->op->regions;
    if (region->arguments.count != c->n_in)
        return hlo_fail(c, "@%s takes %zu arguments, not %u", hlo_copy(name, text, sizeof text),
                        region->arguments.count, c->n_in);
    if (in->calls == MAX_CALLS) return hlo_fail(c, "calls are nested deeper than %d", MAX_CALLS);
    f->active = true;
    in->calls++;
    shoal_status status = hlo_splice(c, region, c->in, c->out, c->n_out);
    if (status == SHOAL_OK) status = check_results(c->s, f, c->out, c->n_out);
    in->calls--;
    f->active = false;
    return status;
}

/* ---- what regions take from around them ---- */

typedef struct search {
    const hlo_call *c;
    base_map defined, found; /* hash of a name -> something */
    hlo_captures *out;
} search;

/* A body whose names have one hash is refused for a name that is not defined, at worst. */
static shoal_status note_defined(search *s, const hlo_region *region) {
    for (; region; region = region->next) {
        for (size_t i = 0; i < region->arguments.count; i++) {
            hlo_text name = region->arguments.data[i].name;
            SHOAL_TRY(base_map_set(&s->defined, base_hash(name.at, name.n), s));
        }
        for (const hlo_op *op = region->first; op; op = op->next) {
            for (size_t i = 0; i < op->results.count; i++) {
                hlo_text name = op->results.data[i].text;
                SHOAL_TRY(base_map_set(&s->defined, base_hash(name.at, name.n), s));
            }
            SHOAL_TRY(note_defined(s, op->regions));
        }
    }
    return SHOAL_OK;
}

static shoal_status note_used(search *s, const hlo_region *region) {
    hlo_reader *r = &s->c->s->in->r;
    for (; region; region = region->next)
        for (const hlo_op *op = region->first; op; op = op->next) {
            for (size_t i = 0; i < op->operands.count; i++) {
                hlo_text name = op->operands.data[i].text;
                uint64_t key = base_hash(name.at, name.n);
                if (base_map_get(&s->defined, key) || base_map_get(&s->found, key)) continue;
                SHOAL_TRY(base_map_set(&s->found, key, s));
                SHOAL_TRY(HLO_ROOM(r, &s->out->names));
                s->out->names.data[s->out->names.count++] = name;
            }
            SHOAL_TRY(note_used(s, op->regions));
        }
    return SHOAL_OK;
}

/* A small constant is made again where it is used: then bodies tell what they do. */
static bool is_small_constant(const shoal_graph *g, uint32_t value) {
    uint32_t n = g->values[value].node;
    if (n == SHOAL_NO_NODE || g->nodes[n].op != GRAPH_CONSTANT) return false;
    return shoal_node_attr(&g->nodes[n], SHOAL_ATTR_VALUE)->count <= MAX_CONSTANT;
}

/* All values of a name are captured: which of them are meant is said where they are used. */
static shoal_status resolve(const hlo_call *c, hlo_captures *out) {
    base_arena *arena = &c->s->in->r.p.arena;
    const shoal_graph *g = graph_data(c->s->g);
    for (size_t i = 0; i < out->names.count; i++) {
        uint64_t key;
        const entry *e = find(&c->s->names, out->names.data[i], &key);
        if (!e) return fail_name(c->s, out->names.data[i], "is not defined");
        if (e->items)
            return fail_name(c->s, out->names.data[i],
                             "is a tuple; bodies use elements that get_tuple_element took before");
        out->count += e->count;
    }
    out->values = base_arena_array(arena, uint32_t, (size_t)out->count);
    out->is_constant = base_arena_array(arena, bool, (size_t)out->count);
    if (!out->values || !out->is_constant) return SHOAL_NO_MEMORY;
    for (size_t i = 0, n = 0; i < out->names.count; i++) {
        uint64_t key;
        const entry *e = find(&c->s->names, out->names.data[i], &key);
        for (uint32_t k = 0; k < e->count; k++, n++) {
            out->values[n] = e->values[k];
            out->is_constant[n] = is_small_constant(g, e->values[k]);
            out->handed += !out->is_constant[n];
        }
    }
    return SHOAL_OK;
}

shoal_status hlo_capture(const hlo_call *c, const hlo_region *regions, hlo_captures *out) {
    *out = (hlo_captures){0};
    search s = {.c = c, .out = out};
    base_map_init(&s.defined);
    base_map_init(&s.found);
    shoal_status status = note_defined(&s, regions);
    if (status == SHOAL_OK) status = note_used(&s, regions);
    base_map_fini(&s.defined);
    base_map_fini(&s.found);
    return status == SHOAL_OK ? resolve(c, out) : status;
}

/* Defines the captured names inside; handed: the values there of those that are handed over. */
static shoal_status bring_in(hlo_scope *s, const hlo_call *c, const hlo_captures *captures,
                             uint32_t *handed) {
    const shoal_graph *outer = graph_data(c->s->g);
    uint32_t *values = base_arena_array(&s->in->r.p.arena, uint32_t, (size_t)captures->count);
    if (!values) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0, n = 0; i < captures->count; i++) {
        const shoal_value *value = &outer->values[captures->values[i]];
        if (captures->is_constant[i]) {
            const shoal_node *node = &outer->nodes[value->node];
            SHOAL_TRY(graph_add(s->g, GRAPH_CONSTANT, NULL, 0, node->attrs, node->n_attrs, NULL, 0,
                                &values[i]));
        } else {
            SHOAL_TRY(graph_add_input(s->g, &value->type, &values[i]));
            handed[n++] = values[i];
        }
    }
    uint32_t at = 0;
    for (size_t i = 0; i < captures->names.count; i++) {
        uint64_t key;
        const entry *e = find(&c->s->names, captures->names.data[i], &key);
        SHOAL_TRY(define(s, captures->names.data[i], values + at, e->count));
        at += e->count;
    }
    return SHOAL_OK;
}

static shoal_status body(hlo_scope *s, const hlo_call *c, const hlo_region *region,
                         const shoal_type *types, const hlo_captures *captures, bool carries) {
    const hlo_op *last;
    uint32_t *handed = base_arena_array(&s->in->r.p.arena, uint32_t, (size_t)captures->handed);
    if (!handed) return SHOAL_NO_MEMORY;
    for (size_t i = 0; i < region->arguments.count; i++) {
        const hlo_argument *argument = &region->arguments.data[i];
        uint32_t value;
        if (!argument->type.tensor) return hlo_refuse_type(c, argument->type.at, &argument->type);
        SHOAL_TRY(graph_add_input(s->g, types ? &types[i] : &argument->type.type, &value));
        SHOAL_TRY(define(s, argument->name, &value, 1));
    }
    SHOAL_TRY(bring_in(s, c, captures, handed));
    SHOAL_TRY(block(s, region, &last));
    for (size_t i = 0; i < last->operands.count; i++) {
        uint32_t value;
        SHOAL_TRY(use_returned(s, last, i, &value));
        SHOAL_TRY(graph_add_output(s->g, value));
    }
    for (uint32_t i = 0; i < captures->handed && carries; i++)
        SHOAL_TRY(graph_add_output(s->g, handed[i]));
    return SHOAL_OK;
}

shoal_status hlo_body(const hlo_call *c, const hlo_region *region, const shoal_type *types,
                      const hlo_captures *captures, bool carries, const shoal_graph **out) {
    hlo_scope s = {.in = c->s->in, .depth = c->s->depth + 1};
    if (s.depth > GRAPH_MAX_DEPTH)
        return hlo_fail(c, "bodies are nested deeper than %d", GRAPH_MAX_DEPTH);
    SHOAL_TRY(graph_add_region(c->s->g, &s.g));
    base_map_init(&s.names);
    shoal_status status = body(&s, c, region, types, captures, carries);
    base_map_fini(&s.names);
    *out = graph_data(s.g);
    return status;
}

shoal_status hlo_reducer(const hlo_call *c, const hlo_region *region, const shoal_graph **out) {
    hlo_captures captures;
    char name[64];
    if (!region) return hlo_fail(c, "its body is missing");
    const hlo_region alone = {.arguments.data = region->arguments.data,
                              .arguments.count = region->arguments.count,
                              .first = region->first};
    SHOAL_TRY(hlo_capture(c, &alone, &captures));
    for (uint32_t i = 0; i < captures.count; i++)
        if (!captures.is_constant[i])
            return hlo_fail(c,
                            "its body uses %%%s of around it, which is no constant; such a body "
                            "may use its arguments and constants",
                            hlo_copy(captures.names.data[i], name, sizeof name));
    return hlo_body(c, region, NULL, &captures, false, out);
}

shoal_status hlo_comparator(const hlo_call *c, hlo_text name, const shoal_graph **out) {
    const hlo_captures none = {0};
    hlo_function *f;
    SHOAL_TRY(find_callee(c, name, &f));
    f->active = true;
    shoal_status status = hlo_body(c, f->op->regions, NULL, &none, false, out);
    f->active = false;
    return status;
}

/* ---- the module ---- */

static shoal_status add_function(hlo_import *in, const hlo_op *op) {
    const hlo_attr *name = hlo_find(op->attrs, "sym_name");
    hlo_function *f = base_arena_alloc(&in->r.p.arena, sizeof *f);
    if (!f) return SHOAL_NO_MEMORY;
    if (!name) {
        base_fail(SHOAL_FORMAT, "'%.64s': the function has no sym_name", op->name);
        return parse_at_place(&in->r.p, op->at, SHOAL_FORMAT);
    }
    *f = (hlo_function){.next = in->functions, .name = name->text, .op = op};
    in->functions = f;
    uint64_t key;
    find_function(in, f->name, &key);
    return base_map_set(&in->named, key, f);
}

/* A module has a name once. */
static shoal_status note_name(hlo_import *in, hlo_function *f, base_map *names) {
    uint64_t hash = base_hash(f->name.at, f->name.n);
    const hlo_function *other = base_map_get(names, hash);
    if (!other) return base_map_set(names, hash, f);
    if (other->name.n != f->name.n || memcmp(other->name.at, f->name.at, f->name.n))
        return SHOAL_OK;
    char name[64];
    base_fail(SHOAL_FORMAT, "'func.func': there is a function @%s already",
              hlo_copy(f->name, name, sizeof name));
    return parse_at_place(&in->r.p, f->op->at, SHOAL_FORMAT);
}

static shoal_status collect(hlo_import *in, const hlo_op *first);

/* Functions, also those of modules inside the module; of other things there only names are used. */
static shoal_status collect_named(hlo_import *in, const hlo_op *first, base_map *names) {
    for (const hlo_op *op = first; op; op = op->next) {
        if (!strcmp(op->name, "func.func")) {
            SHOAL_TRY(add_function(in, op));
            SHOAL_TRY(note_name(in, in->functions, names));
        } else if (!strcmp(op->name, "module") || !strcmp(op->name, "builtin.module")) {
            SHOAL_TRY(collect(in, op->regions ? op->regions->first : NULL));
        }
    }
    return SHOAL_OK;
}

static shoal_status collect(hlo_import *in, const hlo_op *first) {
    base_map names;
    base_map_init(&names);
    shoal_status status = collect_named(in, first, &names);
    base_map_fini(&names);
    return status;
}

static shoal_status choose(const hlo_import *in, hlo_function **out) {
    const char *wanted = in->options->function;
    hlo_function *f = in->functions;
    while (f && !hlo_is(f->name, wanted ? wanted : "main")) f = f->next;
    if (!f && !wanted && in->functions && !in->functions->next) f = in->functions;
    *out = f;
    if (f) return SHOAL_OK;
    if (!in->functions)
        return base_fail(SHOAL_FORMAT, "line 1, column 1: there is no function: this is no "
                                       "module of StableHLO");
    char name[64];
    return base_fail(SHOAL_FORMAT, "there is no function @%.64s, but for example @%s",
                     wanted ? wanted : "main", hlo_copy(in->functions->name, name, sizeof name));
}

static shoal_status lower(hlo_scope *s, hlo_function *f) {
    const hlo_call c = {.s = s, .op = f->op};
    const hlo_captures none = {0};
    const hlo_region *region = f->op->regions;
    if (!region) return hlo_fail(&c, "the function is only declared; its body is not in the text");
    for (size_t i = 0; i < region->arguments.count; i++) {
        const hlo_type *type = &region->arguments.data[i].type;
        for (uint32_t k = 0; k < type->type.rank; k++)
            if (type->type.dims[k] < 0)
                return hlo_fail_at(&c, type->at,
                                   "dimension %u of argument %zu is not known; shapes are static",
                                   k, i);
    }
    f->active = true;
    SHOAL_TRY(place(&c, body(s, &c, region, NULL, &none, false)));
    const shoal_graph *g = graph_data(s->g);
    return check_results(s, f, g->outputs, g->n_outputs);
}

static shoal_status import(hlo_import *in, graph *g) {
    hlo_op *first = NULL;
    hlo_function *f = NULL;
    hlo_scope s = {.in = in, .g = g};
    SHOAL_TRY(hlo_read(&in->r, &first));
    SHOAL_TRY(collect(in, first));
    SHOAL_TRY(choose(in, &f));
    base_map_init(&s.names);
    shoal_status status = lower(&s, f);
    base_map_fini(&s.names);
    return status;
}

shoal_status hlo_import_text(const char *text, size_t bytes, const hlo_import_options *options,
                             graph **out) {
    hlo_import in = {.r.p = {.text = text, .at = text, .end = text + bytes}, .options = options};
    graph *g = NULL;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return base_fail(SHOAL_NO_MEMORY, "no memory for a locale");
    locale_t before = uselocale(c);
    base_arena_init(&in.r.p.arena, options->limit);
    base_map_init(&in.r.aliases);
    base_map_init(&in.named);
    base_map_init(&in.of_qr);
    shoal_status status = graph_new(options->limit, &g);
    if (status == SHOAL_OK) status = import(&in, g);
    if (status != SHOAL_OK && g) graph_destroy(&g);
    *out = g;
    base_arena_fini(&in.r.p.arena);
    base_map_fini(&in.r.aliases);
    base_map_fini(&in.named);
    base_map_fini(&in.of_qr);
    uselocale(before);
    freelocale(c);
    return status;
}
