/* Windows: convolution, reduce_window, select_and_scatter. What the text leaves out has the
 * standard's default. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

#include <stdlib.h>

/* A list of the text, or `count` times the default. */
static shoal_status list_of(const hlo_call *c, const hlo_attr *attr, size_t count,
                            int64_t otherwise, shoal_attr_key key, shoal_attr *out) {
    parse_numbers list;
    SHOAL_TRY(hlo_ints(c, attr, &list));
    for (size_t i = 0; i < count && !attr; i++)
        SHOAL_TRY(parse_push(&c->s->in->r.p, &list, otherwise));
    *out = graph_ints(key, list.data, list.count);
    return SHOAL_OK;
}

/* ---- reduce_window ---- */

enum { WINDOW, STRIDES, BASE, DILATIONS, PADDING, WINDOW_ATTRS };

static shoal_status window_attrs(const hlo_call *c, uint32_t rank, shoal_attr *attrs) {
    static const struct {
        const char *name;
        shoal_attr_key key;
        int64_t otherwise;
    } all[WINDOW_ATTRS] = {{"window_dimensions", SHOAL_ATTR_WINDOW_DIMENSIONS, 1},
                           {"window_strides", SHOAL_ATTR_WINDOW_STRIDES, 1},
                           {"base_dilations", SHOAL_ATTR_BASE_DILATIONS, 1},
                           {"window_dilations", SHOAL_ATTR_WINDOW_DILATIONS, 1},
                           {"padding", SHOAL_ATTR_PADDING, 0}};
    for (int i = 0; i < WINDOW_ATTRS; i++)
        SHOAL_TRY(list_of(c, hlo_attr_of(c, all[i].name, NULL),
                          i == PADDING ? 2 * (size_t)rank : rank, all[i].otherwise, all[i].key,
                          &attrs[i]));
    return SHOAL_OK;
}

static bool all_one(const shoal_attr *attr) {
    for (uint32_t i = 0; i < attr->count; i++)
        if (attr->u.ints[i] != 1) return false;
    return true;
}

/* Whether each window holds all elements up to one along an axis (or from it on: *backward), as a
 * cumulative sum is written. */
static bool accumulates(const shoal_attr *attrs, const shoal_type *type, uint32_t *axis,
                        bool *backward) {
    uint32_t found = 0;
    if (!all_one(&attrs[STRIDES]) || !all_one(&attrs[BASE]) || !all_one(&attrs[DILATIONS]) ||
        attrs[WINDOW].count != type->rank || attrs[PADDING].count != 2u * type->rank)
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t window = attrs[WINDOW].u.ints[i];
        const int64_t *padding = attrs[PADDING].u.ints + 2 * (size_t)i;
        bool whole = window > 1 && window == type->dims[i] && padding[0] + padding[1] == window - 1;
        if (window == 1 && !padding[0] && !padding[1]) continue;
        if (!whole || (padding[0] && padding[1])) return false;
        *axis = i;
        *backward = padding[1] != 0;
        found++;
    }
    return found == 1;
}

static shoal_status reduce_window(hlo_call *c) {
    shoal_attr attrs[WINDOW_ATTRS];
    const shoal_graph *body;
    uint32_t axis;
    bool backward;
    if (!c->n_in) return hlo_fail(c, "it has no operands");
    const shoal_type type = *hlo_type_of(c, 0);
    SHOAL_TRY(window_attrs(c, type.rank, attrs));
    SHOAL_TRY(hlo_reducer(c, c->op->regions, &body));
    if (c->n_in != 2 || c->n_out != 1 || !accumulates(attrs, &type, &axis, &backward))
        return hlo_row(c, GRAPH_REDUCE_WINDOW, attrs, WINDOW_ATTRS, &body, 1);
    maker m = {c->s->g, SHOAL_OK};
    const int64_t along = axis;
    const shoal_attr turn = graph_ints(SHOAL_ATTR_DIMENSIONS, &along, 1);
    const shoal_attr at = graph_int(SHOAL_ATTR_DIMENSION, along);
    uint32_t in[] = {c->in[0], c->in[1]};
    if (backward) in[0] = node(&m, GRAPH_REVERSE, in, 1, &turn, 1, NULL);
    c->out[0] = node(&m, GRAPH_CUMULATE, in, 2, &at, 1, body);
    if (backward) c->out[0] = node(&m, GRAPH_REVERSE, c->out, 1, &turn, 1, NULL);
    return m.status;
}

static shoal_status select_and_scatter(hlo_call *c) {
    shoal_attr attrs[WINDOW_ATTRS];
    const shoal_graph *bodies[2];
    SHOAL_TRY(hlo_need(c, 3, 1));
    if (c->op->n_regions != 2) return hlo_fail(c, "it has %u bodies, not 2", c->op->n_regions);
    SHOAL_TRY(window_attrs(c, hlo_type_of(c, 0)->rank, attrs));
    SHOAL_TRY(hlo_reducer(c, c->op->regions, &bodies[0]));
    SHOAL_TRY(hlo_reducer(c, c->op->regions->next, &bodies[1]));
    attrs[BASE] = attrs[PADDING];
    return hlo_row(c, GRAPH_SELECT_AND_SCATTER, attrs, 3, bodies, 2);
}

/* ---- convolution ---- */

/* "[b, 0, 1, f]" as axes: that of each of the two letters, then the spatial ones. */
static shoal_status axes_of(const hlo_call *c, const hlo_attr *list, const char *letters,
                            uint32_t rank, int64_t *axes) {
    uint32_t i = 0, seen = 0;
    for (const hlo_attr *item = list ? list->items : NULL; item; item = item->next, i++) {
        char word[16], *end;
        hlo_copy(item->text, word, sizeof word);
        unsigned long at = strtoul(word, &end, 10) + 2;
        if (item->text.n == 1 && !word[1] && (*word == letters[0] || *word == letters[1]))
            at = *word == letters[1];
        else if (*end || !*word || at < 2)
            at = rank;
        if (i >= rank || at >= rank || seen >> at & 1)
            return hlo_fail(c, "dimension numbers: '%s' is unknown, or twice there", word);
        seen |= 1u << at;
        axes[at] = i;
    }
    return i == rank ? SHOAL_OK
                     : hlo_fail(c, "dimension numbers name %u axes; there are %u", i, rank);
}

static shoal_status dimension_numbers(const hlo_call *c, uint32_t rank, int64_t *axes) {
    static const char *const letters[] = {"bf", "io", "bf"};
    const hlo_attr *numbers = hlo_attr_of(c, "dimension_numbers", "dim_numbers");
    /* In the generic form the three lists are inside #stablehlo.conv<...>. */
    if (numbers && numbers->kind == HLO_OTHER) numbers = numbers->items;
    const hlo_attr *list = numbers ? numbers->items : NULL;
    for (int i = 0; i < 3; i++) {
        SHOAL_TRY(axes_of(c, list, letters[i], rank, axes + (size_t)i * rank));
        list = list ? list->next : NULL;
    }
    return SHOAL_OK;
}

/* dynamic_conv has its padding as an operand, which has to follow from constants. */
static shoal_status convolution(hlo_call *c) {
    static const struct {
        const char *name, *pretty;
        shoal_attr_key key;
        int64_t otherwise;
    } lists[] = {{"window_strides", "stride", SHOAL_ATTR_WINDOW_STRIDES, 1},
                 {"padding", "pad", SHOAL_ATTR_PADDING, 0},
                 {"lhs_dilation", "lhs_dilate", SHOAL_ATTR_LHS_DILATION, 1},
                 {"rhs_dilation", "rhs_dilate", SHOAL_ATTR_RHS_DILATION, 1},
                 {"window_reversal", "reverse", SHOAL_ATTR_WINDOW_REVERSAL, 0}};
    enum { N = sizeof lists / sizeof *lists };
    shoal_attr attrs[N + 3];
    int64_t axes[3 * SHOAL_MAX_RANK], groups[2];
    bool is_dynamic = !strcmp(strchr(c->op->name, '.'), ".dynamic_conv");
    parse_numbers padding;
    SHOAL_TRY(hlo_need(c, is_dynamic ? 3 : 2, 1));
    uint32_t rank = hlo_type_of(c, 0)->rank;
    if (rank < 2) return hlo_fail(c, "the operand has no batch and feature axes");
    const hlo_attr *window = hlo_attr_of(c, "window", NULL);
    for (int i = 0; i < N; i++) {
        size_t count = (lists[i].key == SHOAL_ATTR_PADDING ? 2 : 1) * (size_t)(rank - 2);
        const hlo_attr *attr = window ? hlo_find(window->items, lists[i].pretty) : NULL;
        SHOAL_TRY(list_of(c, attr ? attr : hlo_attr_of(c, lists[i].name, NULL), count,
                          lists[i].otherwise, lists[i].key, &attrs[i]));
    }
    if (is_dynamic) {
        SHOAL_TRY(hlo_known(c, 2, &padding));
        attrs[1] = graph_ints(SHOAL_ATTR_PADDING, padding.data, padding.count);
    }
    SHOAL_TRY(dimension_numbers(c, rank, axes));
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "feature_group_count", NULL), 1, &groups[0]));
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "batch_group_count", NULL), 1, &groups[1]));
    attrs[N] = graph_ints(SHOAL_ATTR_CONVOLUTION_DIMENSIONS, axes, 3 * (size_t)rank);
    attrs[N + 1] = graph_int(SHOAL_ATTR_FEATURE_GROUP_COUNT, groups[0]);
    attrs[N + 2] = graph_int(SHOAL_ATTR_BATCH_GROUP_COUNT, groups[1]);
    return hlo_product(c, GRAPH_CONVOLUTION, attrs, N + 3);
}

hlo_rule *hlo_window_rule(const char *name) {
    static const hlo_named_rule rules[] = {{"stablehlo.reduce_window", reduce_window},
                                           {"stablehlo.select_and_scatter", select_and_scatter},
                                           {"stablehlo.convolution", convolution},
                                           {"stablehlo.dynamic_conv", convolution},
                                           {NULL, NULL}};
    return hlo_look_up(rules, name);
}
