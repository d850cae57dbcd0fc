/* What the attributes and types of an operation say, as numbers and elements. */
#include "graph/stablehlo/import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const shoal_type *hlo_type_of(const hlo_call *c, uint32_t input) {
    return &graph_data(c->s->g)->values[c->in[input]].type;
}

shoal_status hlo_need(const hlo_call *c, uint32_t inputs, uint32_t outputs) {
    if (c->n_in != inputs) return hlo_fail(c, "it has %u operands, not %u", c->n_in, inputs);
    if (c->n_out != outputs) return hlo_fail(c, "it has %u results, not %u", c->n_out, outputs);
    return SHOAL_OK;
}

/* ---- attributes ---- */

const hlo_attr *hlo_attr_of(const hlo_call *c, const char *name, const char *pretty) {
    const hlo_attr *attr = hlo_find(c->op->attrs, name);
    return attr || !pretty ? attr : hlo_find(c->op->attrs, pretty);
}

static shoal_status number(const hlo_call *c, hlo_text text, int64_t *out) {
    char copy[32], *end;
    *out = hlo_is(text, "true");
    if (*out || hlo_is(text, "false")) return SHOAL_OK;
    hlo_copy(text, copy, sizeof copy);
    errno = 0;
    *out = strtoll(copy, &end, 10);
    if (text.n && text.n < sizeof copy && !*end && !errno) return SHOAL_OK;
    return hlo_fail(c, "'%s' is no whole number", copy);
}

/* An element of whole numbers as one. */
static int64_t widen(shoal_dtype dtype, const void *element) {
    uint64_t bits = 0;
    size_t size = shoal_dtype_size(dtype);
    memcpy(&bits, element, size);
    int unused = 64 - 8 * (int)size;
    if (shoal_dtype_kind(dtype) != 'i') return (int64_t)bits;
    return (int64_t)(bits << unused) >> unused;
}

static shoal_status widen_all(const hlo_call *c, const shoal_type *type, const char *data,
                              size_t bytes, parse_numbers *out) {
    parse_state *p = &c->s->in->r.p;
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    int64_t count = base_type_count(type);
    if (shoal_dtype_kind((shoal_dtype)type->dtype) == 'f')
        return hlo_fail(c, "whole numbers are needed, not %s",
                        shoal_dtype_name((shoal_dtype)type->dtype));
    if (count > 1024) return hlo_fail(c, "a list has over 1024 numbers");
    for (int64_t i = 0; i < count; i++)
        SHOAL_TRY(parse_push(
            p, out,
            widen((shoal_dtype)type->dtype, data + (bytes == size ? 0 : (size_t)i * size))));
    return SHOAL_OK;
}

/* Lists in lists are one. */
static shoal_status flatten(const hlo_call *c, const hlo_attr *list, parse_numbers *out) {
    for (const hlo_attr *item = list; item; item = item->next) {
        int64_t value;
        if (item->kind == HLO_LIST) {
            SHOAL_TRY(flatten(c, item->items, out));
            continue;
        }
        SHOAL_TRY(number(c, item->text, &value));
        SHOAL_TRY(parse_push(&c->s->in->r.p, out, value));
    }
    return SHOAL_OK;
}

shoal_status hlo_ints(const hlo_call *c, const hlo_attr *attr, parse_numbers *out) {
    *out = (parse_numbers){0};
    if (!attr) return SHOAL_OK;
    char name[64];
    hlo_copy(attr->name, name, sizeof name);
    if (attr->kind == HLO_LIST) return flatten(c, attr->items, out);
    if (attr->kind == HLO_WORD) {
        int64_t value;
        SHOAL_TRY(number(c, attr->text, &value));
        return parse_push(&c->s->in->r.p, out, value);
    }
    if (attr->kind != HLO_DENSE || !attr->type || !attr->type->tensor)
        return hlo_fail(c, "attribute %s is no list of numbers", name);
    const void *data;
    size_t bytes;
    SHOAL_TRY(hlo_elements(c, attr, &attr->type->type, &data, &bytes));
    return widen_all(c, &attr->type->type, data, bytes, out);
}

shoal_status hlo_int(const hlo_call *c, const hlo_attr *attr, int64_t otherwise, int64_t *out) {
    *out = otherwise;
    if (!attr) return SHOAL_OK;
    parse_numbers list;
    SHOAL_TRY(hlo_ints(c, attr, &list));
    if (list.count != 1) {
        char name[64];
        return hlo_fail(c, "attribute %s has %zu numbers; it is one",
                        hlo_copy(attr->name, name, sizeof name), list.count);
    }
    *out = list.data[0];
    return SHOAL_OK;
}

/* ---- elements ---- */

static int digit(char d) {
    if (d >= '0' && d <= '9') return d - '0';
    if (d >= 'a' && d <= 'f') return d - 'a' + 10;
    return d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
}

/* "0x0123..." without quotes: bytes, of which the first `skipped` are not elements. */
static shoal_status from_hex(const hlo_call *c, hlo_text hex, size_t skipped,
                             const shoal_type *type, const void **data, size_t *bytes) {
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    size_t count = (size_t)base_type_count(type), n = hex.n / 2 - 1 - skipped;
    if (hex.n < 2 + 2 * skipped || hex.n % 2 || memcmp(hex.at, "0x", 2))
        return hlo_fail(c, "the constant's bytes are not written as \"0x...\"");
    bool packed = type->dtype == SHOAL_BOOL && n != count && n == (count + 7) / 8;
    if (n != count * size && n != size && !packed)
        return hlo_fail(c, "the constant has %zu bytes; its type has %zu", n, count * size);
    char *to = base_arena_alloc(&c->s->in->r.p.arena, (packed ? count : n) + 8);
    if (!to) return SHOAL_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const char *at = hex.at + 2 + 2 * (i + skipped);
        int high = digit(at[0]), low = digit(at[1]);
        if (high < 0 || low < 0) return hlo_fail(c, "the constant has a malformed byte");
        int byte = high << 4 | low;
        for (size_t k = 8 * i; packed && k < count && k < 8 * (i + 1); k++)
            to[k] = (char)(byte >> k % 8 & 1);
        if (!packed) to[i] = (char)(type->dtype == SHOAL_BOOL ? byte != 0 : byte);
    }
    *data = to;
    *bytes = packed ? count : n;
    return SHOAL_OK;
}

static shoal_status from_resource(const hlo_call *c, const hlo_attr *attr, const shoal_type *type,
                                  const void **data, size_t *bytes) {
    char name[64];
    const hlo_attr *found = hlo_find_resource(&c->s->in->r, attr->text);
    if (found) return from_hex(c, found->text, 4, type, data, bytes);
    return hlo_fail(c, "dense_resource<%s> is not among the dialect_resources at the end",
                    hlo_copy(attr->text, name, sizeof name));
}

shoal_status hlo_elements(const hlo_call *c, const hlo_attr *attr, const shoal_type *type,
                          const void **data, size_t *bytes) {
    if (attr->kind == HLO_RESOURCE) return from_resource(c, attr, type, data, bytes);
    hlo_text text = attr->text;
    while (text.n && (*text.at == ' ' || *text.at == '\n'))
        text = (hlo_text){text.at + 1, text.n - 1};
    if (attr->kind == HLO_DENSE && text.n > 1 && *text.at == '"') {
        const char *close = memchr(text.at + 1, '"', text.n - 1);
        if (!close) return hlo_fail(c, "the constant's bytes do not end");
        return from_hex(c, (hlo_text){text.at + 1, (size_t)(close - text.at - 1)}, 0, type, data,
                        bytes);
    }
    if (attr->kind != HLO_DENSE && attr->kind != HLO_WORD)
        return hlo_fail(c, "its value is no dense<...>");
    parse_state *p = &c->s->in->r.p;
    const char *end = p->end;
    p->at = text.at;
    p->end = text.at + text.n;
    shoal_status status = parse_elements(p, type, p->end, data, bytes);
    p->end = end;
    return status;
}

/* ---- types ---- */

/* Why there are no tensors of such elements, by how their name begins. */
static const struct {
    const char *element, *why;
} lacking[] = {
    {"complex<", "there are no complex numbers; carry the two parts as two tensors"},
    {"!quant.", "there are no quantized types of MLIR; write scale and offset as operations"},
    {"i", "integers have 8, 16, 32 or 64 bits"},
    {"si", "integers have 8, 16, 32 or 64 bits"},
    {"ui", "integers have 8, 16, 32 or 64 bits"},
    {"f", "floating types are f16, bf16, f32 and f64"},
    {"tf", "floating types are f16, bf16, f32 and f64"},
    {"*", "its rank has to be known"},
};

shoal_status hlo_refuse_type(const hlo_call *c, const char *at, const hlo_type *type) {
    static const char tensor[] = "tensor<";
    char text[96];
    hlo_copy(type->text, text, sizeof text);
    const char *why = "it is no tensor", *element = text;
    if (!strncmp(text, tensor, sizeof tensor - 1)) {
        why = "there are no such elements";
        element += sizeof tensor - 1;
        while (strchr("0123456789?x", *element) && *element) element++;
    }
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking && element != text; i++)
        if (!strncmp(element, lacking[i].element, strlen(lacking[i].element))) {
            why = lacking[i].why;
            break;
        }
    return hlo_fail_at(c, at, "%s is no type of Shoal's: %s", text, why);
}

shoal_status hlo_stated(const hlo_call *c, uint32_t output, shoal_type *out) {
    if (!c->types || output >= c->n_out) return hlo_fail(c, "the type of its result is not stated");
    const hlo_type *type = &c->types[output];
    if (!type->tensor) return hlo_refuse_type(c, c->op->at, type);
    *out = type->type;
    return SHOAL_OK;
}

/* A value without inputs, computed: its node becomes a constant. */
static shoal_status compute(const hlo_call *c, uint32_t value, graph *from, graph *to) {
    const hlo_import_options *options = c->s->in->options;
    SHOAL_TRY(graph_extract(graph_data(c->s->g), NULL, 0, &value, 1, from));
    return graph_rewrite(graph_data(from), options->evaluate, options->context, to);
}

shoal_status hlo_known(const hlo_call *c, uint32_t input, parse_numbers *out) {
    char name[64];
    hlo_copy(c->op->operands.data[input].text, name, sizeof name);
    *out = (parse_numbers){0};
    graph *from = NULL, *to = NULL;
    shoal_status status = graph_new(1 << 20, &from);
    if (status == SHOAL_OK) status = graph_new(1 << 20, &to);
    if (status == SHOAL_OK) status = compute(c, c->in[input], from, to);
    const shoal_graph *g = status == SHOAL_OK ? graph_data(to) : NULL;
    const shoal_value *value = g ? &g->values[g->outputs[0]] : NULL;
    const shoal_node *node = value && value->node != SHOAL_NO_NODE ? &g->nodes[value->node] : NULL;
    if (node && node->op == GRAPH_CONSTANT) {
        const shoal_attr *data = shoal_node_attr(node, SHOAL_ATTR_VALUE);
        status = widen_all(c, &value->type, data->u.bytes, data->count, out);
    } else if (status != SHOAL_NO_MEMORY) {
        status = hlo_fail(c, "operand %u, %%%s, does not follow from constants, as a shape must",
                          input, name);
    }
    graph_destroy(&from);
    graph_destroy(&to);
    return status;
}

static bool is_known(const shoal_type *type) {
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i] < 0) return false;
    return true;
}

shoal_status hlo_shape(const hlo_call *c, uint32_t input, shoal_type *out) {
    int64_t elements;
    parse_numbers list;
    SHOAL_TRY(hlo_stated(c, 0, out));
    if (is_known(out)) return SHOAL_OK;
    if (input >= c->n_in) return hlo_fail(c, "the shape of its result is not stated in full");
    SHOAL_TRY(hlo_known(c, input, &list));
    if (list.count != out->rank)
        return hlo_fail(c, "the shape has %zu numbers; the type has %u dimensions", list.count,
                        out->rank);
    for (uint32_t i = 0; i < out->rank; i++) {
        if (list.data[i] < 0) return hlo_fail(c, "a dimension of the shape is below 0");
        out->dims[i] = list.data[i];
    }
    if (base_type_elements(out, &elements) != SHOAL_OK)
        return hlo_fail(c, "the shape is larger than 2^63 bytes");
    return SHOAL_OK;
}
