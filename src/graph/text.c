/* From a graph to StableHLO's text. Values are numbered in canonical order: inputs, then results
 * node by node. The names of a region's values begin with a letter that tells how deep it is, for
 * MLIR does not allow a body to use a name of its surroundings again. */
#define _XOPEN_SOURCE 700
#include "graph/element.h"
#include "graph/rules.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* Where a value is found in text: its name's number, and which of several results it is. */
typedef struct label {
    uint32_t number;
    uint16_t of; /* results that share the name */
    uint16_t index;
    uint32_t depth; /* of the body that it is of */
} label;

typedef struct printer {
    base_str *out;
    const shoal_graph *g;
    const label *names;
    uint32_t depth;
    bool standard; /* as others read it: see graph_print_standard */
} printer;

static void print_name(const printer *p, const label *name) {
    base_str_text(p->out, "%");
    if (name->depth) base_str_format(p->out, "%c", (char)('a' + name->depth - 1));
    base_str_format(p->out, "%u", name->number);
}

static void print_value(const printer *p, uint32_t value) {
    const label *n = &p->names[value];
    print_name(p, n);
    if (n->of > 1) base_str_format(p->out, "#%u", n->index);
}

static void print_type(base_str *out, const shoal_type *type) {
    base_str_text(out, "tensor<");
    for (unsigned i = 0; i < type->rank; i++)
        base_str_format(out, "%lldx", (long long)type->dims[i]);
    base_str_format(out, "%s>", base_dtype_mlir((shoal_dtype)type->dtype));
}

/* "(tensor<f32>, tensor<f32>)" */
static void print_types(const printer *p, const uint32_t *values, uint32_t n) {
    base_str_text(p->out, "(");
    for (uint32_t i = 0; i < n; i++) {
        if (i) base_str_text(p->out, ", ");
        print_type(p->out, &p->g->values[values[i]].type);
    }
    base_str_text(p->out, ")");
}

static void print_values(const printer *p, const uint32_t *values, uint32_t n) {
    base_str_text(p->out, "(");
    for (uint32_t i = 0; i < n; i++) {
        if (i) base_str_text(p->out, ", ");
        print_value(p, values[i]);
    }
    base_str_text(p->out, ")");
}

/* "(%0: tensor<f32>, %1: tensor<f32>)" */
static void print_parameters(const printer *p) {
    base_str_text(p->out, "(");
    for (uint32_t i = 0; i < p->g->n_inputs; i++) {
        if (i) base_str_text(p->out, ", ");
        print_value(p, p->g->inputs[i]);
        base_str_text(p->out, ": ");
        print_type(p->out, &p->g->values[p->g->inputs[i]].type);
    }
    base_str_text(p->out, ")");
}

static void print_string(base_str *out, const char *text) {
    base_str_text(out, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\' || c < ' ' || c > '~')
            base_str_format(out, "\\%02X", c);
        else
            base_str_bytes(out, text, 1);
    }
    base_str_text(out, "\"");
}

static void indent(const printer *p, uint32_t more) {
    for (uint32_t i = 0; i < 2 * p->depth + more; i++) base_str_text(p->out, "  ");
}

/* ---- attributes ---- */

static void print_numbers(base_str *out, const shoal_attr *attr, const char *before,
                          const char *after) {
    for (uint32_t i = 0; i < attr->count; i++)
        base_str_format(out, "%s%lld", i ? ", " : before, (long long)attr->u.ints[i]);
    base_str_text(out, after);
}

/* Brackets of nested lists, as many as axes begin or end at this element. */
static void print_brackets(base_str *out, const shoal_type *type, int64_t at, char bracket) {
    for (unsigned i = type->rank; i-- > 0; at /= type->dims[i]) {
        if (at % type->dims[i]) return;
        base_str_bytes(out, &bracket, 1);
    }
}

static void print_dense(base_str *out, const shoal_attr *value, const shoal_type *type) {
    shoal_dtype dtype = (shoal_dtype)type->dtype;
    size_t size = shoal_dtype_size(dtype);
    const char *bytes = value->u.bytes;
    int64_t count = base_type_count(type);
    bool splat = value->count == size;
    base_str_text(out, "dense<");
    if (splat) graph_element_print(dtype, bytes, out);
    for (int64_t i = 0; !splat && i < count; i++) {
        if (i) base_str_text(out, ", ");
        print_brackets(out, type, i, '[');
        graph_element_print(dtype, bytes + (size_t)i * size, out);
        print_brackets(out, type, i + 1, ']');
    }
    base_str_text(out, "> : ");
    print_type(out, type);
}

/* Empty lists, and the number 0, are left out. */
static void print_group(base_str *out, const shoal_node *node, const graph_key_group *group) {
    base_str_format(out, "%s = #stablehlo.%s<", group->attribute, group->type);
    const char *separator = "";
    for (uint16_t i = 0; i < node->n_attrs; i++) {
        const shoal_attr *attr = &node->attrs[i];
        bool is_list = attr->kind == SHOAL_ATTR_KIND_INTS;
        if (!graph_group_has(group, attr->key) || !(is_list ? attr->count : attr->u.i)) continue;
        base_str_format(out, "%s%s = ", separator, graph_attr_name(attr->key));
        if (is_list)
            print_numbers(out, attr, "[", "]");
        else
            base_str_format(out, "%lld", (long long)attr->u.i);
        separator = ", ";
    }
    base_str_text(out, ">");
}

/* Pairs of numbers, per axis. */
static void print_pairs(base_str *out, const shoal_attr *attr) {
    base_str_text(out, "dense<");
    for (uint32_t i = 0; i < attr->count; i++)
        base_str_format(out, "%s%lld%s",
                        i % 2 ? ", "
                        : i   ? ", ["
                              : "[[",
                        (long long)attr->u.ints[i], i % 2 ? "]" : "");
    base_str_format(out, "%s> : tensor<%ux2xi64>", attr->count ? "]" : "", attr->count / 2);
}

/* "#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>" */
static void print_convolution(base_str *out, const shoal_attr *attr) {
    static const char *const between[] = {"#stablehlo.conv<[", "]x[", "]->["};
    static const char letters[] = "bfiobf";
    uint32_t rank = attr->count / 3;
    for (uint32_t part = 0; part < 3; part++) {
        const int64_t *axes = attr->u.ints + (size_t)part * rank;
        base_str_text(out, between[part]);
        for (uint32_t axis = 0; axis < rank; axis++) {
            uint32_t at = 0;
            while (axes[at] != axis) at++;
            if (axis) base_str_text(out, ", ");
            if (at < 2)
                base_str_format(out, "%c", letters[2 * part + at]);
            else
                base_str_format(out, "%u", at - 2);
        }
    }
    base_str_text(out, "]>");
}

/* Where the standard writes an attribute in another way; false: it does not. */
static bool print_standard(const printer *p, const shoal_attr *attr) {
    switch (attr->key) {
    case SHOAL_ATTR_PADDING:
        base_str_text(p->out, "padding = ");
        print_pairs(p->out, attr);
        return true;
    case SHOAL_ATTR_WINDOW_REVERSAL:
        base_str_text(p->out, "window_reversal = array<i1");
        for (uint32_t i = 0; i < attr->count; i++)
            base_str_format(p->out, "%s%s", i ? ", " : ": ", attr->u.ints[i] ? "true" : "false");
        base_str_text(p->out, ">");
        return true;
    case SHOAL_ATTR_CONVOLUTION_DIMENSIONS:
        base_str_text(p->out, "dimension_numbers = ");
        print_convolution(p->out, attr);
        return true;
    case SHOAL_ATTR_EXPONENT_BITS:
    case SHOAL_ATTR_MANTISSA_BITS:
        base_str_format(p->out, "%s = %lld : i32", graph_attr_name(attr->key),
                        (long long)attr->u.i);
        return true;
    default: return false;
    }
}

static void print_attr(const printer *p, const shoal_node *node, const shoal_attr *attr) {
    base_str *out = p->out;
    const char *name = graph_attr_name(attr->key);
    if (p->standard && print_standard(p, attr)) return;
    base_str_format(out, "%s = ", name);
    switch (graph_attr_kind(attr->key)) {
    case SHOAL_ATTR_KIND_INT: base_str_format(out, "%lld : i64", (long long)attr->u.i); break;
    case SHOAL_ATTR_KIND_INTS:
        base_str_text(out, "array<i64");
        print_numbers(out, attr, ": ", ">");
        break;
    case SHOAL_ATTR_KIND_STRING:
        if (graph_attr_quoted(attr->key))
            print_string(out, attr->u.string);
        else
            base_str_format(out, "#stablehlo<%s %s>", name, attr->u.string);
        break;
    case SHOAL_ATTR_KIND_BYTES:
        print_dense(out, attr, &p->g->values[node->first_output].type);
        break;
    case SHOAL_ATTR_KIND_FLOAT:
        graph_element_print(SHOAL_F64, &attr->u.f, out);
        base_str_text(out, " : f64");
        break;
    case SHOAL_ATTR_KIND_BOOL: base_str_text(out, attr->u.i ? "true" : "false"); break;
    }
}

static void print_attrs(const printer *p, const shoal_node *node) {
    const char *separator = " {";
    const graph_key_group *group = graph_group_of(graph_op(node->op));
    if (group) {
        base_str_text(p->out, separator);
        print_group(p->out, node, group);
        separator = ", ";
    }
    for (uint16_t i = 0; i < node->n_attrs; i++) {
        uint16_t key = node->attrs[i].key;
        if (graph_attr_implied(key) || graph_group_has(group, key)) continue;
        base_str_text(p->out, separator);
        print_attr(p, node, &node->attrs[i]);
        separator = ", ";
    }
    if (node->scope && !p->standard) {
        base_str_format(p->out, "%sshoal.scope = ", separator);
        print_string(p->out, node->scope);
        separator = ", ";
    }
    if (separator[0] == ',') base_str_text(p->out, "}");
}

/* ---- nodes ---- */

/* The standard's choices hand nothing to their bodies: these use the names around them. */
static bool is_choice(const printer *p, const shoal_node *node) {
    return p->standard && node && (node->op == GRAPH_IF || node->op == GRAPH_CASE);
}

/* outer: the printer of what is around a body, and `node` is whose it is; NULL: nothing is. */
static shoal_status print_graph(const shoal_graph *g, const printer *outer, const shoal_node *node,
                                base_str *out, bool standard);

static shoal_status print_node(const printer *p, const shoal_node *node) {
    indent(p, 2);
    if (node->n_outputs) {
        print_name(p, &p->names[node->first_output]);
        if (node->n_outputs > 1) base_str_format(p->out, ":%u", node->n_outputs);
        base_str_text(p->out, " = ");
    }
    base_str_format(p->out, "\"%s.%s\"", graph_dialect(node->op), shoal_op_name(node->op));
    uint32_t n_inputs = is_choice(p, node) ? 1 : node->n_inputs;
    print_values(p, node->inputs, n_inputs);
    for (uint16_t i = 0; i < node->n_regions; i++) {
        base_str_text(p->out, i ? ", {\n" : " ({\n");
        SHOAL_TRY(print_graph(node->regions[i], p, node, p->out, p->standard));
        indent(p, 2);
        base_str_text(p->out, i + 1 < node->n_regions ? "}" : "})");
    }
    print_attrs(p, node);
    base_str_text(p->out, " : ");
    print_types(p, node->inputs, n_inputs);
    base_str_text(p->out, " -> ");
    if (node->n_outputs != 1) base_str_text(p->out, "(");
    for (uint16_t i = 0; i < node->n_outputs; i++) {
        if (i) base_str_text(p->out, ", ");
        print_type(p->out, &p->g->values[node->first_output + i].type);
    }
    if (node->n_outputs != 1) base_str_text(p->out, ")");
    if (node->location) {
        base_str_text(p->out, " loc(");
        print_string(p->out, node->location);
        base_str_text(p->out, ")");
    }
    base_str_text(p->out, "\n");
    return SHOAL_OK;
}

static void name_values(const printer *p, const printer *outer, const shoal_node *of,
                        label *names) {
    const shoal_graph *g = p->g;
    uint32_t next = 0;
    for (uint32_t i = 0; i < g->n_inputs; i++)
        names[g->inputs[i]] =
            is_choice(p, of) ? outer->names[of->inputs[i + 1]] : (label){next++, 1, 0, p->depth};
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint16_t i = 0; i < node->n_outputs; i++)
            names[node->first_output + i] = (label){next, node->n_outputs, i, p->depth};
        next += node->n_outputs > 0;
    }
}

static shoal_status print_body(const printer *p, const shoal_node *node) {
    const shoal_graph *g = p->g;
    if (!is_choice(p, node)) {
        indent(p, 1);
        base_str_text(p->out, p->depth      ? "^bb0"
                              : p->standard ? "func.func public @main"
                                            : "func.func @main");
        print_parameters(p);
    }
    if (p->depth) {
        if (!is_choice(p, node)) base_str_text(p->out, ":\n");
    } else {
        base_str_text(p->out, " -> ");
        print_types(p, g->outputs, g->n_outputs);
        base_str_text(p->out, " {\n");
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) SHOAL_TRY(print_node(p, &g->nodes[i]));
    indent(p, 2);
    base_str_text(p->out, p->depth ? "\"stablehlo.return\"" : "\"func.return\"");
    print_values(p, g->outputs, g->n_outputs);
    base_str_text(p->out, " : ");
    print_types(p, g->outputs, g->n_outputs);
    base_str_text(p->out, " -> ()\n");
    return SHOAL_OK;
}

static shoal_status print_graph(const shoal_graph *g, const printer *outer, const shoal_node *node,
                                base_str *out, bool standard) {
    uint32_t depth = outer ? outer->depth + 1 : 0;
    if (depth > GRAPH_MAX_DEPTH)
        return base_fail(SHOAL_INVALID, "regions are nested deeper than %d", GRAPH_MAX_DEPTH);
    label *names = malloc((g->n_values + (size_t)1) * sizeof *names);
    if (!names) return base_fail(SHOAL_NO_MEMORY, "no memory for %u names", g->n_values);
    printer p = {out, g, names, depth, standard};
    name_values(&p, outer, node, names);
    shoal_status status = print_body(&p, node);
    free(names);
    return status;
}

static shoal_status print_module(const shoal_graph *g, bool standard, base_str *out) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return base_fail(SHOAL_NO_MEMORY, "no memory for a locale");
    locale_t before = uselocale(c);
    base_str_text(out, "module {\n");
    shoal_status status = print_graph(g, NULL, NULL, out, standard);
    base_str_text(out, "  }\n}\n");
    uselocale(before);
    freelocale(c);
    return status == SHOAL_OK ? base_str_status(out) : status;
}

shoal_status graph_print(const shoal_graph *g, base_str *out) {
    return print_module(g, false, out);
}

shoal_status graph_print_standard(const shoal_graph *g, base_str *out) {
    return print_module(g, true, out);
}
