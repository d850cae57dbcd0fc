/* Any graph in terms of the standard alone. Composites are written in primitives; Shoal's own
 * operations are replaced by what they mean; then the graph is printed. */
#include "graph/stablehlo/stablehlo.h"

#include "graph/stablehlo/random.h"

#include <stdlib.h>

typedef struct writer {
    maker m;
    const shoal_graph *from;
    uint32_t *map; /* value of `from` -> value of the copy */
} writer;

static shoal_status copy_graph(const shoal_graph *from, graph *to);

static const shoal_type *result_of(const writer *w, const shoal_node *node) {
    return &w->from->values[node->first_output].type;
}

/* ---- what has other words ---- */

/* Elements count from a number per axis: that of the iota's axis is added. */
static uint32_t iota(writer *w, const shoal_node *node) {
    maker *m = &w->m;
    const shoal_type type = *result_of(w, node);
    const shoal_attr *start = shoal_node_attr(node, SHOAL_ATTR_START_INDICES);
    int64_t axis = shoal_node_attr(node, SHOAL_ATTR_IOTA_DIMENSION)->u.i;
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_IOTA_DIMENSION, axis),
                                graph_ints(SHOAL_ATTR_SHAPE, type.dims, type.rank),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64)};
    uint32_t x = 0;
    if (!m->status) m->status = graph_add(m->g, GRAPH_IOTA, NULL, 0, attrs, 3, NULL, 0, &x);
    if (!m->status) x = plus(m, x, (double)start->u.ints[axis]);
    return convert(m, x, type.dtype);
}

/* Sums up to each element, and the like: windows that end there. */
static uint32_t cumulate(writer *w, const shoal_node *node, const uint32_t *inputs,
                         const shoal_graph *body) {
    maker *m = &w->m;
    const shoal_type type = *result_of(w, node);
    int64_t window[SHOAL_MAX_RANK], ones[SHOAL_MAX_RANK], padding[2 * SHOAL_MAX_RANK] = {0};
    int64_t axis = shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i;
    uint32_t out = 0;
    for (uint32_t i = 0; i < type.rank; i++) window[i] = ones[i] = 1;
    if (type.dims[axis] > 1) window[axis] = type.dims[axis];
    padding[2 * axis] = window[axis] - 1;
    const shoal_attr attrs[] = {graph_ints(SHOAL_ATTR_WINDOW_DIMENSIONS, window, type.rank),
                                graph_ints(SHOAL_ATTR_WINDOW_STRIDES, ones, type.rank),
                                graph_ints(SHOAL_ATTR_BASE_DILATIONS, ones, type.rank),
                                graph_ints(SHOAL_ATTR_WINDOW_DILATIONS, ones, type.rank),
                                graph_ints(SHOAL_ATTR_PADDING, padding, 2 * (size_t)type.rank)};
    if (!m->status)
        m->status = graph_add(m->g, GRAPH_REDUCE_WINDOW, inputs, 2, attrs, 5, &body, 1, &out);
    return out;
}

/* The better of two elements and their indices: NaN before all, then the smaller index. */
static const shoal_graph *better(maker *m, uint8_t dtype, uint8_t index, const char *direction) {
    graph *body = NULL;
    uint32_t in[4] = {0};
    const shoal_type types[] = {{.dtype = dtype}, {.dtype = index}};
    if (!m->status) m->status = graph_add_region(m->g, &body);
    for (int i = 0; i < 4 && !m->status; i++)
        m->status = graph_add_input(body, &types[i % 2], &in[i]);
    if (m->status) return NULL;
    maker b = {body, SHOAL_OK};
    uint32_t nan_left = compare(&b, "NE", in[0], in[0]),
             nan_right = compare(&b, "NE", in[2], in[2]);
    uint32_t wins = two(&b, GRAPH_OR, compare(&b, direction, in[0], in[2]),
                        two(&b, GRAPH_AND, nan_left, one(&b, GRAPH_NOT, nan_right)));
    uint32_t even =
        two(&b, GRAPH_OR, compare(&b, "EQ", in[0], in[2]), two(&b, GRAPH_AND, nan_left, nan_right));
    uint32_t first = two(&b, GRAPH_AND, even, compare(&b, "LT", in[1], in[3]));
    uint32_t left = two(&b, GRAPH_OR, wins, first);
    for (int i = 0; i < 2 && !b.status; i++) {
        uint32_t y = choose(&b, left, in[i], in[2 + i]);
        if (!b.status) b.status = graph_add_output(body, y);
    }
    m->status = b.status;
    return graph_data(body);
}

/* The least of all (the greatest, if `least` is false), where a reduction begins. */
static uint32_t worst(maker *m, uint8_t dtype, bool least) {
    shoal_type scalar = {.dtype = dtype};
    char kind = shoal_dtype_kind((shoal_dtype)dtype);
    int bits = 8 * (int)shoal_dtype_size((shoal_dtype)dtype);
    if (kind == 'f') return splat(m, scalar, least ? -INFINITY : INFINITY);
    uint64_t top = kind == 'i' ? UINT64_C(1) << (bits - 1) : 0;
    uint64_t value = least ? top : kind == 'b' ? 1 : ~top;
    const shoal_attr attrs[] = {
        graph_bytes(SHOAL_ATTR_VALUE, &value, shoal_dtype_size((shoal_dtype)dtype)),
        graph_ints(SHOAL_ATTR_SHAPE, NULL, 0), graph_int(SHOAL_ATTR_DTYPE, dtype)};
    return node(m, GRAPH_CONSTANT, NULL, 0, attrs, 3, NULL);
}

static uint32_t argmax(writer *w, const shoal_node *from, uint32_t x) {
    maker *m = &w->m;
    if (m->status) return 0;
    const shoal_type type = *type_of(m, x);
    uint8_t index = result_of(w, from)->dtype;
    int64_t axis = shoal_node_attr(from, SHOAL_ATTR_DIMENSION)->u.i;
    bool largest = from->op == GRAPH_ARGMAX;
    const shoal_graph *body = better(m, type.dtype, index, largest ? "GT" : "LT");
    uint32_t places = convert(m, numbers(m, &type, axis), index);
    uint32_t start = worst(m, type.dtype, largest);
    uint32_t end = splat(m, (shoal_type){.dtype = index}, INT32_MAX);
    shoal_attr along = graph_ints(SHOAL_ATTR_DIMENSIONS, &axis, 1);
    return node(m, GRAPH_REDUCE, (uint32_t[]){x, places, start, end}, 4, &along, 1, body) + 1;
}

static uint32_t random_numbers(writer *w, const shoal_node *from, const uint32_t *inputs) {
    maker *m = &w->m;
    const char *how = shoal_node_attr(from, SHOAL_ATTR_RNG_DISTRIBUTION)->u.string;
    uint32_t seed = convert(m, inputs[0], SHOAL_U64);
    uint32_t stream = from->n_inputs > 1 ? convert(m, inputs[1], SHOAL_U64)
                                         : splat(m, (shoal_type){.dtype = SHOAL_U64}, 0);
    return hlo_random(m, how, result_of(w, from), seed, stream);
}

/* ---- the copy ---- */

static shoal_status refuse(const shoal_node *node) {
    const char *at = node->location;
    return base_fail(SHOAL_UNSUPPORTED, "%s%s%s: StableHLO has no words for it", at ? at : "",
                     at ? ": " : "", shoal_op_name(node->op));
}

static shoal_status copy_plain(writer *w, const shoal_node *node, const uint32_t *inputs,
                               const shoal_graph *const *regions, uint32_t *first) {
    SHOAL_TRY(graph_at(w->m.g, node->location, NULL));
    return graph_add(w->m.g, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs, regions,
                     node->n_regions, first);
}

static shoal_status copy_node(writer *w, const shoal_node *node, const uint32_t *inputs,
                              const shoal_graph *const *regions) {
    uint32_t first = 0;
    switch (node->op) {
    case GRAPH_PLACE:
    case GRAPH_IN_RANGE: first = inputs[0]; break;
    case GRAPH_CUMULATE: first = cumulate(w, node, inputs, regions[0]); break;
    case GRAPH_ARGMAX:
    case GRAPH_ARGMIN: first = argmax(w, node, inputs[0]); break;
    case GRAPH_RANDOM: /* parts of larger tensors are of programs that are divided already */
        if (shoal_node_attr(node, SHOAL_ATTR_START_INDICES)) return refuse(node);
        first = random_numbers(w, node, inputs);
        break;
    case GRAPH_IOTA:
        if (shoal_node_attr(node, SHOAL_ATTR_START_INDICES)) {
            first = iota(w, node);
            break;
        }
        SHOAL_TRY(copy_plain(w, node, inputs, regions, &first));
        break;
    default:
        if (!graph_op_is_standard(node->op)) return refuse(node);
        SHOAL_TRY(copy_plain(w, node, inputs, regions, &first));
    }
    for (uint16_t i = 0; i < node->n_outputs; i++) w->map[node->first_output + i] = first + i;
    return w->m.status;
}

static shoal_status copy_nodes(writer *w) {
    graph *to = w->m.g;
    const shoal_graph *from = w->from;
    for (uint32_t n = 0; n < from->n_nodes; n++) {
        const shoal_node *node = &from->nodes[n];
        uint32_t *inputs = base_arena_array(graph_arena(to), uint32_t, node->n_inputs);
        const shoal_graph **regions =
            base_arena_alloc_array(graph_arena(to), sizeof *regions, node->n_regions);
        if (!inputs || !regions) return SHOAL_NO_MEMORY;
        for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = w->map[node->inputs[i]];
        for (uint16_t i = 0; i < node->n_regions; i++) {
            graph *region;
            SHOAL_TRY(graph_add_region(to, &region));
            SHOAL_TRY(copy_graph(node->regions[i], region));
            regions[i] = graph_data(region);
        }
        SHOAL_TRY(copy_node(w, node, inputs, regions));
    }
    return SHOAL_OK;
}

static shoal_status copy_graph(const shoal_graph *from, graph *to) {
    writer w = {.m = {to, SHOAL_OK}, .from = from};
    w.map = malloc((from->n_values + (size_t)1) * sizeof *w.map);
    if (!w.map) return base_fail(SHOAL_NO_MEMORY, "no memory for %u values", from->n_values);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 0; i < from->n_inputs && status == SHOAL_OK; i++)
        status = graph_add_input(to, &from->values[from->inputs[i]].type, &w.map[from->inputs[i]]);
    if (status == SHOAL_OK) status = copy_nodes(&w);
    for (uint32_t i = 0; i < from->n_outputs && status == SHOAL_OK; i++)
        status = graph_add_output(to, w.map[from->outputs[i]]);
    free(w.map);
    return status;
}

shoal_status hlo_export_text(const shoal_graph *g, base_str *out) {
    graph *primitive = NULL, *standard = NULL;
    shoal_status status = graph_new(0, &primitive);
    if (status == SHOAL_OK) status = graph_new(0, &standard);
    if (status == SHOAL_OK) status = graph_decompose(g, NULL, NULL, primitive);
    if (status == SHOAL_OK) status = copy_graph(graph_data(primitive), standard);
    if (status == SHOAL_OK) status = graph_print_standard(graph_data(standard), out);
    graph_destroy(&primitive);
    graph_destroy(&standard);
    return status;
}

shoal_status hlo_graph_text(const shoal_graph *g, char **out) {
    base_str text;
    base_str_init(&text);
    shoal_status status = hlo_export_text(g, &text);
    *out = status == SHOAL_OK ? base_str_take(&text, NULL) : NULL;
    base_str_fini(&text);
    return status != SHOAL_OK || *out ? status : SHOAL_NO_MEMORY;
}
