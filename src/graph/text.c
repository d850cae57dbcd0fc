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
} label;

typedef struct printer {
    base_str *out;
    const shoal_graph *g;
    const label *names;
    uint32_t depth;
} printer;

static void print_name(const printer *p, uint32_t number) {
    base_str_text(p->out, "%");
    if (p->depth) base_str_format(p->out, "%c", (char)('a' + p->depth - 1));
    base_str_format(p->out, "%u", number);
}

static void print_value(const printer *p, uint32_t value) {
    const label *n = &p->names[value];
    print_name(p, n->number);
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

static void print_attr(const printer *p, const shoal_node *node, const shoal_attr *attr) {
    base_str *out = p->out;
    const char *name = graph_attr_name(attr->key);
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
    if (node->scope) {
        base_str_format(p->out, "%sshoal.scope = ", separator);
        print_string(p->out, node->scope);
        separator = ", ";
    }
    if (separator[0] == ',') base_str_text(p->out, "}");
}

/* ---- nodes ---- */

static shoal_status print_graph(const shoal_graph *g, uint32_t depth, base_str *out);

static shoal_status print_node(const printer *p, const shoal_node *node) {
    indent(p, 2);
    if (node->n_outputs) {
        print_name(p, p->names[node->first_output].number);
        if (node->n_outputs > 1) base_str_format(p->out, ":%u", node->n_outputs);
        base_str_text(p->out, " = ");
    }
    base_str_format(p->out, "\"%s.%s\"", graph_dialect(node->op), shoal_op_name(node->op));
    print_values(p, node->inputs, node->n_inputs);
    for (uint16_t i = 0; i < node->n_regions; i++) {
        base_str_text(p->out, i ? ", {\n" : " ({\n");
        SHOAL_TRY(print_graph(node->regions[i], p->depth + 1, p->out));
        indent(p, 2);
        base_str_text(p->out, i + 1 < node->n_regions ? "}" : "})");
    }
    print_attrs(p, node);
    base_str_text(p->out, " : ");
    print_types(p, node->inputs, node->n_inputs);
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

static void name_values(const shoal_graph *g, label *names) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < g->n_inputs; i++) names[g->inputs[i]] = (label){next++, 1, 0};
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        for (uint16_t i = 0; i < node->n_outputs; i++)
            names[node->first_output + i] = (label){next, node->n_outputs, i};
        next += node->n_outputs > 0;
    }
}

static shoal_status print_body(const printer *p) {
    const shoal_graph *g = p->g;
    indent(p, 1);
    base_str_text(p->out, p->depth ? "^bb0" : "func.func @main");
    print_parameters(p);
    if (p->depth) {
        base_str_text(p->out, ":\n");
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

static shoal_status print_graph(const shoal_graph *g, uint32_t depth, base_str *out) {
    if (depth > GRAPH_MAX_DEPTH)
        return base_fail(SHOAL_INVALID, "regions are nested deeper than %d", GRAPH_MAX_DEPTH);
    label *names = malloc((g->n_values + (size_t)1) * sizeof *names);
    if (!names) return base_fail(SHOAL_NO_MEMORY, "no memory for %u names", g->n_values);
    name_values(g, names);
    printer p = {out, g, names, depth};
    shoal_status status = print_body(&p);
    free(names);
    return status;
}

shoal_status graph_print(const shoal_graph *g, base_str *out) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return base_fail(SHOAL_NO_MEMORY, "no memory for a locale");
    locale_t before = uselocale(c);
    base_str_text(out, "module {\n");
    shoal_status status = print_graph(g, 0, out);
    base_str_text(out, "  }\n}\n");
    uselocale(before);
    freelocale(c);
    return status == SHOAL_OK ? base_str_status(out) : status;
}
