/* Graphs as JSON. */
#include "describe.h"

static void describe_list(base_str *s, const char *name, const uint32_t *list, uint32_t n) {
    base_str_format(s, "\"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) base_str_format(s, "%s%u", i ? ", " : "", list[i]);
    base_str_text(s, "]");
}

static void describe_attr(const shoal_attr *attr, base_str *s) {
    base_str_format(s, "\"%s\": ", graph_attr_name(attr->key));
    switch (attr->kind) {
    case SHOAL_ATTR_KIND_INT: base_str_format(s, "%lld", (long long)attr->u.i); break;
    case SHOAL_ATTR_KIND_STRING: base_str_format(s, "\"%s\"", attr->u.string); break;
    case SHOAL_ATTR_KIND_INTS:
        base_str_text(s, "[");
        for (uint32_t i = 0; i < attr->count; i++)
            base_str_format(s, "%s%lld", i ? ", " : "", (long long)attr->u.ints[i]);
        base_str_text(s, "]");
        break;
    case SHOAL_ATTR_KIND_BOOL: base_str_text(s, attr->u.i ? "true" : "false"); break;
    case SHOAL_ATTR_KIND_FLOAT: base_str_format(s, "%.17g", attr->u.f); break;
    default:
        base_str_text(s, "\"");
        for (uint32_t i = 0; i < attr->count; i++)
            base_str_format(s, "%02x", ((const unsigned char *)attr->u.bytes)[i]);
        base_str_text(s, "\"");
    }
}

static void describe_node(const shoal_node *node, base_str *s) {
    base_str_format(s, "{\"op\": \"%s\", ", shoal_op_name(node->op));
    describe_list(s, "inputs", node->inputs, node->n_inputs);
    base_str_text(s, ", \"outputs\": [");
    for (uint16_t i = 0; i < node->n_outputs; i++)
        base_str_format(s, "%s%u", i ? ", " : "", node->first_output + i);
    base_str_text(s, "], \"attrs\": {");
    for (uint16_t i = 0; i < node->n_attrs; i++) {
        if (i) base_str_text(s, ", ");
        describe_attr(&node->attrs[i], s);
    }
    base_str_text(s, "}, \"regions\": [");
    for (uint16_t i = 0; i < node->n_regions; i++) {
        if (i) base_str_text(s, ", ");
        describe_graph(node->regions[i], s);
    }
    base_str_text(s, "]}");
}

void describe_graph(const shoal_graph *g, base_str *to) {
    base_str_text(to, "{\"values\": [");
    for (uint32_t v = 0; v < g->n_values; v++) {
        const shoal_type *type = &g->values[v].type;
        base_str_format(to, "%s[\"%s\", [", v ? ", " : "",
                        shoal_dtype_name((shoal_dtype)type->dtype));
        for (int i = 0; i < type->rank; i++)
            base_str_format(to, "%s%lld", i ? ", " : "", (long long)type->dims[i]);
        base_str_text(to, "]]");
    }
    base_str_text(to, "], ");
    describe_list(to, "inputs", g->inputs, g->n_inputs);
    base_str_text(to, ", ");
    describe_list(to, "outputs", g->outputs, g->n_outputs);
    base_str_text(to, ", \"nodes\": [");
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        if (n) base_str_text(to, ", ");
        describe_node(&g->nodes[n], to);
    }
    base_str_text(to, "]}");
}
