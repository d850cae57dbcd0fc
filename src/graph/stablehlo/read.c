/* Operations of MLIR's text, in pretty and in generic form. Most pretty forms are alike: operands,
 * words, attributes with names, then types; those that are not have a reader of their own. What the
 * pretty forms call their attributes is kept: who looks for one knows both names. */
#include "graph/stablehlo/tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Words and attributes of a pretty form: what has more is no operation, but what follows one. */
enum { MAX_ITEMS = 32 };

static shoal_status operation(hlo_reader *r, hlo_op **out);

/* ---- parts ---- */

static shoal_status add_attr(hlo_reader *r, hlo_op *op, const char *name, hlo_kind kind,
                             hlo_text text, hlo_attr **out) {
    hlo_attr **at = &op->attrs;
    while (*at) at = &(*at)->next;
    *at = base_arena_alloc(&r->p.arena, sizeof **at);
    if (!*at) return SHOAL_NO_MEMORY;
    **at = (hlo_attr){.name = {name, strlen(name)}, .kind = kind, .text = text};
    if (out) *out = *at;
    return SHOAL_OK;
}

/* "%3#1" */
static shoal_status use(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    hlo_name name = {.number = -1};
    SHOAL_TRY(hlo_read_name(r, &name.text));
    if (p->at < p->end && *p->at == '#') {
        p->at++;
        SHOAL_TRY(parse_integer(p, &name.number));
    }
    SHOAL_TRY(HLO_ROOM(r, &op->operands));
    op->operands.data[op->operands.count++] = name;
    return SHOAL_OK;
}

static shoal_status type_list(hlo_reader *r, hlo_op *op, const char *close) {
    if (close && parse_take(&r->p, close)) return SHOAL_OK;
    do {
        hlo_type type;
        SHOAL_TRY(hlo_read_type(r, &type));
        SHOAL_TRY(HLO_ROOM(r, &op->types));
        op->types.data[op->types.count++] = type;
    } while (parse_take(&r->p, ","));
    return close ? parse_need(&r->p, close) : SHOAL_OK;
}

/* Behind the colon: "t", "t, t", "(t, t) -> t", "t -> (t, t)". */
static shoal_status types(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    SHOAL_TRY(type_list(r, op, parse_take(p, "(") ? ")" : NULL));
    op->before = op->types.count;
    op->arrow = parse_take(p, "->");
    if (!op->arrow) return SHOAL_OK;
    return type_list(r, op, parse_take(p, "(") ? ")" : NULL);
}

static shoal_status add_argument(hlo_reader *r, hlo_region *region, hlo_text name) {
    hlo_argument argument = {.name = name};
    SHOAL_TRY(hlo_read_type(r, &argument.type));
    SHOAL_TRY(HLO_ROOM(r, &region->arguments));
    region->arguments.data[region->arguments.count++] = argument;
    return SHOAL_OK;
}

/* "%a: t {...} loc(...), ..." up to the bracket. */
static shoal_status arguments(hlo_reader *r, hlo_region *region) {
    parse_state *p = &r->p;
    if (parse_take(p, ")")) return SHOAL_OK;
    do {
        hlo_text name;
        SHOAL_TRY(hlo_read_name(r, &name));
        SHOAL_TRY(parse_need(p, ":"));
        SHOAL_TRY(add_argument(r, region, name));
        if (parse_take(p, "{")) SHOAL_TRY(hlo_skip(r, NULL));
        SHOAL_TRY(hlo_skip_place(r));
    } while (parse_take(p, ","));
    return parse_need(p, ")");
}

static shoal_status add_region(hlo_reader *r, hlo_op *op, hlo_region **out) {
    hlo_region **at = &op->regions;
    if (op->n_regions == HLO_MAX_BODIES)
        return parse_fail(&r->p, "an operation has over 1024 bodies");
    while (*at) at = &(*at)->next;
    *at = base_arena_alloc(&r->p.arena, sizeof **at);
    if (!*at) return SHOAL_NO_MEMORY;
    op->n_regions++;
    *out = *at;
    return SHOAL_OK;
}

/* Behind the brace. */
static shoal_status block(hlo_reader *r, hlo_region *region) {
    parse_state *p = &r->p;
    hlo_op **next = &region->first;
    SHOAL_TRY(hlo_enter(r));
    if (parse_take(p, "^")) {
        hlo_text label;
        SHOAL_TRY(hlo_read_word(r, &label));
        if (parse_take(p, "(")) SHOAL_TRY(arguments(r, region));
        SHOAL_TRY(parse_need(p, ":"));
    }
    while (!parse_take(p, "}")) {
        if (parse_ahead(p, '^'))
            return parse_fail(p, "the region has several blocks; StableHLO's have one");
        SHOAL_TRY(operation(r, next));
        next = &(*next)->next;
    }
    hlo_leave(r);
    return SHOAL_OK;
}

static shoal_status braced_region(hlo_reader *r, hlo_op *op) {
    hlo_region *region = NULL;
    SHOAL_TRY(parse_need(&r->p, "{"));
    SHOAL_TRY(add_region(r, op, &region));
    return block(r, region);
}

/* ---- the generic form ---- */

static shoal_status generic(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    SHOAL_TRY(parse_need(p, "("));
    while (!parse_take(p, ")")) {
        if (op->operands.count) SHOAL_TRY(parse_need(p, ","));
        SHOAL_TRY(use(r, op));
    }
    if (parse_take(p, "[")) SHOAL_TRY(hlo_skip(r, NULL)); /* blocks to go on with */
    if (parse_take(p, "<{")) {
        SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
        SHOAL_TRY(parse_need(p, ">"));
    }
    if (parse_take(p, "(")) {
        do SHOAL_TRY(braced_region(r, op));
        while (parse_take(p, ","));
        SHOAL_TRY(parse_need(p, ")"));
    }
    if (parse_take(p, "{")) SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
    SHOAL_TRY(parse_need(p, ":"));
    return types(r, op);
}

/* ---- pretty forms of their own ---- */

static shoal_status module(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    hlo_attr *name;
    if (parse_ahead(p, '@')) SHOAL_TRY(hlo_read_attr(r, (hlo_text){0}, &name));
    if (hlo_take_word(r, "attributes")) {
        SHOAL_TRY(parse_need(p, "{"));
        SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
    }
    return braced_region(r, op);
}

/* Behind the arrow: "t", "(t {...}, t)". */
static shoal_status function_results(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    bool several = parse_take(p, "(");
    if (several && parse_take(p, ")")) return SHOAL_OK;
    do {
        hlo_type type;
        SHOAL_TRY(hlo_read_type(r, &type));
        SHOAL_TRY(HLO_ROOM(r, &op->types));
        op->types.data[op->types.count++] = type;
        if (several && parse_take(p, "{")) SHOAL_TRY(hlo_skip(r, NULL));
        if (several) SHOAL_TRY(hlo_skip_place(r));
    } while (several && parse_take(p, ","));
    return several ? parse_need(p, ")") : SHOAL_OK;
}

static shoal_status function(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    hlo_region *region = NULL;
    hlo_attr *name;
    op->is_pretty = true;
    if (!hlo_take_word(r, "public") && !hlo_take_word(r, "private")) hlo_take_word(r, "nested");
    if (!parse_ahead(p, '@')) return parse_fail(p, "expected '@' and the function's name");
    SHOAL_TRY(hlo_read_attr(r, (hlo_text){0}, &name));
    SHOAL_TRY(add_attr(r, op, "sym_name", HLO_STRING, name->text, NULL));
    SHOAL_TRY(parse_need(p, "("));
    const char *from = p->at;
    bool declared = !parse_ahead(p, '%') && !parse_ahead(p, ')');
    if (declared) { /* a declaration may leave the names out */
        p->at = from;
        SHOAL_TRY(hlo_skip(r, NULL));
    } else {
        SHOAL_TRY(add_region(r, op, &region));
        SHOAL_TRY(arguments(r, region));
    }
    if (parse_take(p, "->")) SHOAL_TRY(function_results(r, op));
    if (hlo_take_word(r, "attributes")) {
        SHOAL_TRY(parse_need(p, "{"));
        SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
    }
    if (!declared && parse_take(p, "{")) return block(r, region);
    op->regions = NULL;
    op->n_regions = 0;
    return SHOAL_OK;
}

/* "(%iterArg = %0, ...) : t, ... cond {...} do {...}" */
static shoal_status while_loop(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    hlo_region *regions[2];
    for (int i = 0; i < 2; i++) SHOAL_TRY(add_region(r, op, &regions[i]));
    SHOAL_TRY(parse_need(p, "("));
    while (!parse_take(p, ")")) {
        hlo_text name;
        if (op->operands.count) SHOAL_TRY(parse_need(p, ","));
        SHOAL_TRY(hlo_read_name(r, &name));
        SHOAL_TRY(parse_need(p, "="));
        SHOAL_TRY(use(r, op));
        for (int i = 0; i < 2; i++) {
            SHOAL_TRY(HLO_ROOM(r, &regions[i]->arguments));
            regions[i]->arguments.data[regions[i]->arguments.count++] =
                (hlo_argument){.name = name};
        }
    }
    if (parse_take(p, ":")) SHOAL_TRY(types(r, op));
    if (op->types.count != op->operands.count)
        return parse_fail(p, "the loop has another number of types than of operands");
    for (size_t i = 0; i < op->operands.count; i++)
        for (int k = 0; k < 2; k++) regions[k]->arguments.data[i].type = op->types.data[i];
    if (hlo_take_word(r, "attributes")) {
        SHOAL_TRY(parse_need(p, "{"));
        SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
    }
    SHOAL_TRY(parse_need(p, "cond"));
    SHOAL_TRY(parse_need(p, "{"));
    SHOAL_TRY(block(r, regions[0]));
    SHOAL_TRY(parse_need(p, "do"));
    SHOAL_TRY(parse_need(p, "{"));
    return block(r, regions[1]);
}

/* "reducer(%a: t, %b: t) (%c: t, %d: t) {...}": the first of all pairs come before the second. */
static shoal_status reducer(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    hlo_region *region = NULL, pairs = {0};
    SHOAL_TRY(add_region(r, op, &region));
    while (parse_take(p, "(")) {
        size_t before = pairs.arguments.count;
        SHOAL_TRY(arguments(r, &pairs));
        if (pairs.arguments.count != before + 2)
            return parse_fail(p, "a reducer takes its arguments in pairs");
    }
    for (size_t half = 0; half < 2; half++)
        for (size_t i = half; i < pairs.arguments.count; i += 2) {
            SHOAL_TRY(HLO_ROOM(r, &region->arguments));
            region->arguments.data[region->arguments.count++] = pairs.arguments.data[i];
        }
    SHOAL_TRY(parse_need(p, "{"));
    return block(r, region);
}

/* "(%0 init: %1), ... applies stablehlo.add across dimensions = [2] : types", or with a body
 * behind.
 */
static shoal_status reduce(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    hlo_op initial = {0};
    hlo_attr *dimensions;
    do {
        SHOAL_TRY(parse_need(p, "("));
        SHOAL_TRY(use(r, op));
        SHOAL_TRY(parse_need(p, "init"));
        SHOAL_TRY(parse_need(p, ":"));
        SHOAL_TRY(use(r, &initial));
        SHOAL_TRY(parse_need(p, ")"));
    } while (parse_take(p, ","));
    for (size_t i = 0; i < initial.operands.count; i++) {
        SHOAL_TRY(HLO_ROOM(r, &op->operands));
        op->operands.data[op->operands.count++] = initial.operands.data[i];
    }
    if (hlo_take_word(r, "applies")) {
        hlo_text body;
        SHOAL_TRY(hlo_read_word(r, &body));
        SHOAL_TRY(add_attr(r, op, "applies", HLO_WORD, body, NULL));
    }
    SHOAL_TRY(parse_need(p, "across"));
    SHOAL_TRY(parse_need(p, "dimensions"));
    SHOAL_TRY(parse_need(p, "="));
    SHOAL_TRY(hlo_read_value(r, (hlo_text){"dimensions", 10}, &dimensions));
    dimensions->next = op->attrs;
    op->attrs = dimensions;
    if (parse_take(p, "{")) SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
    SHOAL_TRY(parse_need(p, ":"));
    SHOAL_TRY(types(r, op));
    return hlo_take_word(r, "reducer") ? reducer(r, op) : SHOAL_OK;
}

/* What is not of a function, such as a mesh: up to the end of its line, or of its brackets. */
static shoal_status foreign(hlo_reader *r) {
    parse_state *p = &r->p;
    while (p->at < p->end && *p->at != '\n' && *p->at != '}') {
        bool opens = strchr("<([{", *p->at) && *p->at;
        p->at++;
        if (opens) SHOAL_TRY(hlo_skip(r, NULL));
    }
    return SHOAL_OK;
}

/* ---- the pretty form of all others ---- */

/* "[0:4, 0:8:2]" of slice, behind the bracket. */
static shoal_status ranges(hlo_reader *r, hlo_op *op) {
    static const char *const names[] = {"start_indices", "limit_indices", "strides"};
    static const hlo_text once = {"1", 1};
    parse_state *p = &r->p;
    hlo_attr *lists[3], **next[3];
    for (int i = 0; i < 3; i++) {
        SHOAL_TRY(add_attr(r, op, names[i], HLO_LIST, (hlo_text){0}, &lists[i]));
        next[i] = &lists[i]->items;
    }
    for (bool first = true; !parse_take(p, "]"); first = false) {
        if (!first) SHOAL_TRY(parse_need(p, ","));
        for (int i = 0; i < 3; i++) {
            hlo_text number = once;
            bool given = i < 2 || parse_ahead(p, ':');
            if (i && given) SHOAL_TRY(parse_need(p, ":"));
            if (given) SHOAL_TRY(hlo_read_word(r, &number));
            *next[i] = base_arena_alloc(&p->arena, sizeof **next[i]);
            if (!*next[i]) return SHOAL_NO_MEMORY;
            **next[i] = (hlo_attr){.kind = HLO_WORD, .text = number};
            next[i] = &(*next[i])->next;
        }
    }
    return SHOAL_OK;
}

/* "[1]" of get_tuple_element, behind the bracket. */
static shoal_status index_of(hlo_reader *r, hlo_op *op) {
    hlo_text number;
    SHOAL_TRY(hlo_read_word(r, &number));
    SHOAL_TRY(add_attr(r, op, "index", HLO_WORD, number, NULL));
    return parse_need(&r->p, "]");
}

/* A word, "name = value", or a constant, which has its type with it. */
static shoal_status word_or_attr(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    const char *from = p->at;
    hlo_text word = {0};
    hlo_attr *value, **at = &op->attrs;
    if (*from != '-' && *from != '#') SHOAL_TRY(hlo_read_word(r, &word));
    if (hlo_is(word, "attributes") && parse_take(p, "{")) return hlo_read_attrs(r, "}", at);
    while (*at) at = &(*at)->next;
    if (word.n && parse_take(p, "=")) return hlo_read_value(r, word, at);
    const char *last = strrchr(op->name, '.');
    if (!last || strcmp(last, ".constant")) return add_attr(r, op, "word", HLO_WORD, word, NULL);
    p->at = from;
    SHOAL_TRY(hlo_read_attr(r, (hlo_text){"value", 5}, &value));
    *at = value;
    if (!value->type) return SHOAL_OK;
    SHOAL_TRY(HLO_ROOM(r, &op->types));
    op->types.data[op->types.count++] = *value->type;
    op->before = op->types.count;
    return SHOAL_OK;
}

/* Operands, words and attributes, up to what begins none of them. */
static shoal_status items(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    bool takes_one = hlo_is_called(op, "get_tuple_element");
    bool is_constant = hlo_is_called(op, "constant");
    for (uint32_t others = 0; others <= MAX_ITEMS;) {
        parse_space(p);
        char c = p->at < p->end ? *p->at : 0;
        hlo_attr *value;
        others += c != '%' && c != ',';
        if (c == '%') {
            SHOAL_TRY(use(r, op));
            if (parse_take(p, "[")) SHOAL_TRY(takes_one ? index_of(r, op) : ranges(r, op));
        } else if (c == '(' || c == ')' || c == ',') {
            p->at++;
        } else if (c == '{') {
            p->at++;
            SHOAL_TRY(hlo_read_attrs(r, "}", &op->attrs));
        } else if (c == '@' || c == '"') {
            SHOAL_TRY(hlo_read_attr(r, (hlo_text){0}, &value));
            SHOAL_TRY(add_attr(r, op, "symbol", value->kind, value->text, NULL));
        } else if (c == '<') {
            p->at++;
            SHOAL_TRY(hlo_skip(r, NULL));
        } else if (c == '-' || (c == '#' && is_constant) || isalnum((unsigned char)c)) {
            const char *from = p->at;
            if (hlo_take_word(r, "loc") && parse_ahead(p, '(')) {
                p->at = from;
                return SHOAL_OK;
            }
            p->at = from;
            SHOAL_TRY(word_or_attr(r, op));
            if (op->types.count) return SHOAL_OK;
        } else {
            return SHOAL_OK;
        }
    }
    return parse_fail(p, "expected ':' and types");
}

/* "arith.constant true", whose type is not stated; other constants have one behind a colon. */
static shoal_status truth(hlo_reader *r, hlo_op *op, bool *found) {
    static const hlo_type type = {.text = {"i1", 2}};
    static const char *const words[] = {"true", "false"};
    hlo_attr *value;
    *found = false;
    for (int i = 0; i < 2 && !*found && !strcmp(op->name, "arith.constant"); i++) {
        *found = hlo_take_word(r, words[i]);
        if (!*found) continue;
        SHOAL_TRY(
            add_attr(r, op, "value", HLO_WORD, (hlo_text){words[i], strlen(words[i])}, &value));
        value->type = &type;
    }
    return SHOAL_OK;
}

static shoal_status pretty(hlo_reader *r, hlo_op *op) {
    bool is_truth;
    static const struct {
        const char *name;
        shoal_status (*read)(hlo_reader *r, hlo_op *op);
    } forms[] = {{"module", module},
                 {"builtin.module", module},
                 {"func.func", function},
                 {"stablehlo.while", while_loop},
                 {"mhlo.while", while_loop}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(op->name, forms[i].name)) return forms[i].read(r, op);
    if (!strcmp(op->name, "stablehlo.reduce") || !strcmp(op->name, "mhlo.reduce"))
        return reduce(r, op);
    if (!strcmp(op->name, "sdy.mesh") || !strcmp(op->name, "ml_program.global")) return foreign(r);
    SHOAL_TRY(truth(r, op, &is_truth));
    if (is_truth) return SHOAL_OK;
    SHOAL_TRY(items(r, op));
    return parse_take(&r->p, ":") ? types(r, op) : SHOAL_OK;
}

/* ---- an operation ---- */

/* "%0, %1:2 = " */
static shoal_status results(hlo_reader *r, hlo_op *op) {
    parse_state *p = &r->p;
    if (!parse_ahead(p, '%')) return SHOAL_OK;
    do {
        hlo_name name = {.number = 1};
        SHOAL_TRY(hlo_read_name(r, &name.text));
        if (parse_take(p, ":")) SHOAL_TRY(parse_integer(p, &name.number));
        if (name.number < 0 || name.number > GRAPH_MAX_OUTPUTS) {
            char why[96];
            snprintf(why, sizeof why, "an operation of %lld results, where 0 to %d are possible",
                     (long long)name.number, GRAPH_MAX_OUTPUTS);
            return parse_fail(p, why);
        }
        SHOAL_TRY(HLO_ROOM(r, &op->results));
        op->results.data[op->results.count++] = name;
    } while (parse_take(p, ","));
    return parse_need(p, "=");
}

/* Operations come one behind the other, so that lines are counted once. */
static void place(hlo_reader *r, hlo_op *op, const char *at) {
    const char *from = r->line_at ? r->line_at : r->p.text;
    if (!r->line_at) r->line_begin = from;
    while (from < at && (from = memchr(from, '\n', (size_t)(at - from)))) {
        r->lines++;
        r->line_begin = ++from;
    }
    r->line_at = op->at = at;
    op->line = r->lines + 1;
    op->column = (size_t)(at - r->line_begin) + 1;
}

/* Whether what seems to be an operation is the rest of one of another dialect, such as "to i64". */
static bool is_rest(const hlo_reader *r, const char *name) {
    static const char *const words[] = {"module", "call", "return"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(name, words[i])) return false;
    return r->foreign && !strchr(name, '.');
}

static shoal_status operation(hlo_reader *r, hlo_op **out) {
    parse_state *p = &r->p;
    hlo_op *op = base_arena_alloc(&p->arena, sizeof *op);
    if (!op) return SHOAL_NO_MEMORY;
    SHOAL_TRY(results(r, op));
    parse_space(p);
    place(r, op, p->at);
    bool is_generic = parse_ahead(p, '"');
    if (is_generic) {
        SHOAL_TRY(parse_string(p, &op->name));
    } else {
        hlo_text word;
        SHOAL_TRY(hlo_read_word(r, &word));
        op->name = base_arena_alloc(&p->arena, word.n + 1);
        if (!op->name) return SHOAL_NO_MEMORY;
        memcpy((char *)op->name, word.at, word.n);
    }
    bool is_outer = !r->is_within;
    if (is_outer && !is_rest(r, op->name)) {
        r->is_within = hlo_is_foreign(op->name);
        r->foreign = r->is_within ? op : NULL;
    }
    SHOAL_TRY(is_generic ? generic(r, op) : pretty(r, op));
    if (is_outer) r->is_within = false;
    *out = op;
    return hlo_skip_place(r);
}

/* ---- the whole text ---- */

/* "{-# dialect_resources: { builtin: { name: "0x...", ... } } #-}": only names and strings matter.
 */
static shoal_status resources(hlo_reader *r) {
    parse_state *p = &r->p;
    while (!parse_take(p, "#-}")) {
        hlo_text name;
        hlo_attr *value;
        if (parse_take(p, "{") || parse_take(p, "}") || parse_take(p, ",")) continue;
        if (parse_ahead(p, '"')) {
            SHOAL_TRY(hlo_read_attr(r, (hlo_text){0}, &value));
            name = value->text;
        } else {
            SHOAL_TRY(hlo_read_word(r, &name));
        }
        SHOAL_TRY(parse_need(p, ":"));
        if (parse_ahead(p, '{')) continue;
        SHOAL_TRY(hlo_read_attr(r, name, &value));
        SHOAL_TRY(hlo_add_resource(r, name, value));
    }
    return SHOAL_OK;
}

static shoal_status all(hlo_reader *r, hlo_op **first) {
    parse_state *p = &r->p;
    hlo_op **next = first;
    for (parse_space(p); p->at < p->end; parse_space(p)) {
        if (parse_take(p, "{-#")) {
            SHOAL_TRY(resources(r));
        } else if (parse_take(p, "#")) {
            SHOAL_TRY(hlo_read_alias(r, '#'));
        } else if (parse_take(p, "!")) {
            SHOAL_TRY(hlo_read_alias(r, '!'));
        } else {
            SHOAL_TRY(operation(r, next));
            next = &(*next)->next;
        }
    }
    return SHOAL_OK;
}

/* An operation of another dialect has a form that nobody here knows: what cannot be read of it, or
 * of what seems to follow, is due to it. */
shoal_status hlo_read(hlo_reader *r, hlo_op **first) {
    parse_state *p = &r->p;
    parse_space(p);
    if (hlo_take_word(r, "HloModule"))
        return base_fail(SHOAL_FORMAT, "this is XLA's HLO; what is read here is StableHLO: that of "
                                       "JAX is jax.jit(f).lower(...).as_text()");
    if (p->end - p->at >= 4 && !memcmp(p->at, "ML\xefR", 4))
        return base_fail(SHOAL_FORMAT, "this is MLIR's bytecode; what is read here is its text: "
                                       "write it again with mlir-opt, or as_text() in JAX, or "
                                       "have Python do so: shoal.stablehlo.load(...).save(...)");
    shoal_status status = all(r, first);
    if (status == SHOAL_FORMAT && r->foreign) {
        base_fail(status, "'%.64s': %s", r->foreign->name, HLO_FOREIGN);
        return parse_at_place(p, r->foreign->at, status);
    }
    if (status == SHOAL_OK || !strncmp(shoal_error_message(), "line ", 5)) return status;
    return parse_at_place(p, p->at, status);
}
