/* Windows: convolution, reduce_window and select_and_scatter, for devices with many lanes.
 *
 * A convolution is a product whose left side is read through windows: rows are the places of all
 * pictures, columns the features, k the channels and elements of a window, batches the groups. */
#include "backend/gpu/product.h"

/* ---- convolution ---- */

/* One more axis, whose neighbours are so far apart in lhs (or the result) and rhs. */
static void add_axis(ref_axes *axes, int64_t size, int64_t lhs, int64_t rhs) {
    axes->size[axes->n] = size;
    axes->stride[0][axes->n] = lhs;
    axes->stride[1][axes->n++] = rhs;
    axes->count *= size;
}

static product product_of(gpu_program *p, const shoal_node *node, const ref_windows *w) {
    int64_t groups = w->feature_groups * w->batch_groups, features = w->features / groups;
    int64_t batches = w->batch / w->batch_groups;
    int64_t apart = w->feature_groups > 1 ? w->channels * w->lhs_channel : batches * w->lhs_batch;
    uint8_t dtype = p->g->values[node->first_output].type.dtype;
    product x = {.p = p,
                 .dtype = dtype,
                 .number = fuse_register_type(dtype),
                 .args = {node->inputs[0], node->inputs[1], node->first_output},
                 .windows = w};
    ref_axes *const all[] = {&x.axes.batch, &x.axes.lhs_free, &x.axes.rhs_free, &x.axes.contracting,
                             &x.result[0],  &x.result[1],     &x.result[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->count = 1;
    add_axis(&x.axes.batch, groups, apart, features * w->rhs_feature);
    add_axis(&x.result[0], groups, features * w->out_feature, 0);
    add_axis(&x.axes.rhs_free, features, 0, w->rhs_feature);
    add_axis(&x.result[2], features, w->out_feature, 0);
    add_axis(&x.axes.lhs_free, batches, w->lhs_batch, 0);
    add_axis(&x.result[1], batches, w->out_batch, 0);
    /* Innermost is what lies together. */
    x.first_window = w->lhs_channel != 1;
    if (x.first_window) add_axis(&x.axes.contracting, w->channels, w->lhs_channel, w->rhs_channel);
    for (uint32_t i = 0; i < w->spatial; i++) {
        const ref_windows_axis *axis = &w->axis[i];
        add_axis(&x.axes.lhs_free, axis->out, 0, 0);
        add_axis(&x.result[1], axis->out, axis->out_step, 0);
        add_axis(&x.axes.contracting, axis->window, 0,
                 axis->reversed ? -axis->window_step : axis->window_step);
        if (axis->reversed) x.first_right += (axis->window - 1) * axis->window_step;
    }
    if (!x.first_window) add_axis(&x.axes.contracting, w->channels, w->lhs_channel, w->rhs_channel);
    x.batch = x.axes.batch.count;
    x.m = x.axes.lhs_free.count;
    x.n = x.axes.rhs_free.count;
    x.k = x.axes.contracting.count;
    return x;
}

static shoal_status add_convolution(gpu_program *p, const shoal_node *node) {
    const ref_windows w = ref_windows_of(p->g, node);
    const product x = product_of(p, node, &w);
    return gpu_product_by_us(&x);
}

/* ---- reduce_window, select_and_scatter ---- */

/* sum = sum OP with, rounded each time, as ref does it. */
static void render_joined(uint16_t combine, uint8_t dtype, const char *with, base_str *out) {
    const fuse_operation op = {.combine = combine, .sum = dtype};
    if (dtype == SHOAL_F16 || dtype == SHOAL_BF16)
        base_str_text(out, dtype == SHOAL_F16 ? "sum = round_f16(" : "sum = round_bf16(");
    else
        base_str_format(out, "sum = (%s)(", fuse_register_type(dtype));
    fuse_render_join(&op, "sum", with, out);
    base_str_text(out, ");\n");
}

static bool joins(const shoal_graph *body) {
    uint16_t op = graph_body_op(body);
    return op == GRAPH_ADD || op == GRAPH_MULTIPLY || op == GRAPH_MAXIMUM || op == GRAPH_MINIMUM ||
           op == GRAPH_AND || op == GRAPH_OR;
}

static const int64_t *ints(const shoal_node *node, shoal_attr_key key) {
    const shoal_attr *attr = shoal_node_attr(node, key);
    return attr ? attr->u.ints : NULL;
}

/* The head of a kernel over all elements of `type`, whose coordinates are a0, a1, … */
static void open_kernel(uint8_t dtype, uint32_t n, const shoal_type *type, base_str *out) {
    base_str_text(out, "KERNEL NAME(");
    for (uint32_t i = 0; i < n; i++)
        base_str_format(out, "POINTER(const %s, x%u), ", fuse_memory_type(dtype), i);
    base_str_format(out, "POINTER(%s, y0) PARAMETERS) {\n", fuse_memory_type(dtype));
    for (uint32_t i = 0; i < n; i++) base_str_format(out, "START(x%u)\n", i);
    base_str_text(out, "START(y0)\nITEM_BEGIN\n");
    gpu_render_coordinates(type, NULL, "item", out);
}

/* Loops over the elements of a window, w0, w1, …, at places named PLACE0, …: `at` is where one
 * lies, and `there` whether it does. */
static void open_window(const shoal_node *node, const shoal_type *in, const char *place,
                        base_str *out) {
    const int64_t *base = ints(node, SHOAL_ATTR_BASE_DILATIONS);
    const int64_t *gaps = ints(node, SHOAL_ATTR_WINDOW_DILATIONS);
    int64_t steps[SHOAL_MAX_RANK];
    ref_strides(in, steps);
    for (uint32_t i = 0; i < in->rank; i++)
        base_str_format(out, "for (i64 w%u = 0; w%u < %lld; w%u++)\n", i, i,
                        (long long)ints(node, SHOAL_ATTR_WINDOW_DIMENSIONS)[i], i);
    base_str_text(out, "{\nconst i32 there = 1");
    base_str at;
    base_str_init(&at);
    for (uint32_t i = 0; i < in->rank; i++) {
        int64_t apart = base ? base[i] : 1;
        char text[128];
        snprintf(text, sizeof text, "(%s%u * %lld + w%u * %lld - (%lld))", place, i,
                 (long long)ints(node, SHOAL_ATTR_WINDOW_STRIDES)[i], i,
                 (long long)(gaps ? gaps[i] : 1),
                 (long long)ints(node, SHOAL_ATTR_PADDING)[2 * (size_t)i]);
        base_str_format(out, " && %s >= 0 && %s / %lld < %lld", text, text, (long long)apart,
                        (long long)in->dims[i]);
        if (apart > 1) base_str_format(out, " && %s %% %lld == 0", text, (long long)apart);
        base_str_format(&at, " + %s / %lld * (i64)%lld", text, (long long)apart,
                        (long long)steps[i]);
    }
    base_str_format(out, ";\nconst i64 at = 0%s;\n", at.data ? at.data : "");
    base_str_fini(&at);
}

static bool pools_fit(const shoal_graph *g, const shoal_node *node) {
    if (node->op == GRAPH_REDUCE_WINDOW)
        return node->n_inputs == 2 && joins(node->regions[0]) &&
               base_type_count(&g->values[node->inputs[0]].type) > 0;
    const shoal_graph *selects = node->regions[0];
    const shoal_attr *how =
        selects->n_nodes == 1 && selects->nodes[0].op == GRAPH_COMPARE
            ? shoal_node_attr(&selects->nodes[0], SHOAL_ATTR_COMPARISON_DIRECTION)
            : NULL;
    return how && how->count == 2 && !memcmp(how->u.string, "GE", 2) &&
           selects->nodes[0].inputs[0] == selects->inputs[0] &&
           selects->nodes[0].inputs[1] == selects->inputs[1] && joins(node->regions[1]);
}

/* What lies outside of the operand is the initial value once more. */
static shoal_status add_reduce_window(gpu_program *p, const shoal_node *node) {
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    const shoal_type *type = &p->g->values[node->first_output].type;
    const uint32_t args[] = {node->inputs[0], node->inputs[1], node->first_output};
    const char *number = fuse_register_type(type->dtype);
    gpu_launch *launch;
    base_str text;
    base_str_init(&text);
    open_kernel(type->dtype, 2, type, &text);
    base_str_format(&text, "const %s first = ", number);
    gpu_render_element(type->dtype, 1, "0", &text);
    base_str_format(&text, ";\n%s sum = first;\n", number);
    open_window(node, in, "a", &text);
    base_str_format(&text, "const %s with = there ? ", number);
    gpu_render_element(type->dtype, 0, "at", &text);
    base_str_text(&text, " : first;\n");
    render_joined(graph_body_op(node->regions[0]), type->dtype, "with", &text);
    base_str_text(&text, "}\n");
    gpu_render_result(type->dtype, "item", "sum", &text);
    base_str_text(&text, "ITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(p, &text, args, 2, 1, 0, &launch));
    gpu_spread(p, launch, base_type_count(type));
    return SHOAL_OK;
}

/* Each element of the operand looks at all windows that it lies in, in their order, and joins the
 * sources of those that keep it: the first of which the others are not larger. */
static shoal_status add_select_and_scatter(gpu_program *p, const shoal_node *node) {
    const shoal_type *in = &p->g->values[node->inputs[0]].type;
    const shoal_type *source = &p->g->values[node->inputs[1]].type;
    const uint32_t args[] = {node->inputs[0], node->inputs[1], node->inputs[2], node->first_output};
    const int64_t *strides = ints(node, SHOAL_ATTR_WINDOW_STRIDES);
    const int64_t *padding = ints(node, SHOAL_ATTR_PADDING);
    const int64_t *window = ints(node, SHOAL_ATTR_WINDOW_DIMENSIONS);
    const char *number = fuse_register_type(in->dtype);
    int64_t steps[SHOAL_MAX_RANK];
    gpu_launch *launch;
    base_str text, from;
    base_str_init(&text);
    base_str_init(&from);
    ref_strides(source, steps);
    open_kernel(in->dtype, 3, in, &text);
    base_str_format(&text, "%s sum = ", number);
    gpu_render_element(in->dtype, 2, "0", &text);
    base_str_text(&text, ";\n");
    for (uint32_t i = 0; i < in->rank; i++)
        base_str_format(&text,
                        "i64 e%u = a%u + %lld - %lld; e%u = e%u > 0 ? (e%u + %lld) / %lld : 0;\n",
                        i, i, (long long)padding[2 * (size_t)i], (long long)(window[i] - 1), i, i,
                        i, (long long)(strides[i] - 1), (long long)strides[i]);
    for (uint32_t i = 0; i < in->rank; i++) {
        base_str_format(&text,
                        "for (i64 p%u = e%u; p%u < %lld && p%u * %lld <= a%u + %lld; p%u++)\n", i,
                        i, i, (long long)source->dims[i], i, (long long)strides[i], i,
                        (long long)padding[2 * (size_t)i], i);
        base_str_format(&from, " + p%u * (i64)%lld", i, (long long)steps[i]);
    }
    base_str_text(&text, "{\ni64 kept = -1;\n");
    open_window(node, in, "p", &text);
    base_str_text(&text, "if (!there) continue;\nif (kept >= 0) {\n");
    base_str_format(&text, "const %s one = ", number);
    gpu_render_element(in->dtype, 0, "kept", &text);
    base_str_text(&text, ", other = ");
    gpu_render_element(in->dtype, 0, "at", &text);
    base_str_text(&text, ";\nif (one >= other) continue;\n}\nkept = at;\n}\n"
                         "if (kept != item) continue;\n");
    base_str_format(&text, "const i64 from = 0%s;\nconst %s with = ", from.data ? from.data : "",
                    number);
    base_str_fini(&from);
    gpu_render_element(in->dtype, 1, "from", &text);
    base_str_text(&text, ";\n");
    render_joined(graph_body_op(node->regions[1]), in->dtype, "with", &text);
    base_str_text(&text, "}\n");
    gpu_render_result(in->dtype, "item", "sum", &text);
    base_str_text(&text, "ITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(p, &text, args, 3, 1, 0, &launch));
    gpu_spread(p, launch, base_type_count(in));
    return SHOAL_OK;
}

/* ---- which ---- */

bool gpu_windows_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    if (device->is_cpu) return false;
    switch (node->op) {
    case GRAPH_CONVOLUTION:
        return shoal_node_attr(node, SHOAL_ATTR_FEATURE_GROUP_COUNT)->u.i == 1 ||
               shoal_node_attr(node, SHOAL_ATTR_BATCH_GROUP_COUNT)->u.i == 1;
    case GRAPH_REDUCE_WINDOW:
    case GRAPH_SELECT_AND_SCATTER: return pools_fit(g, node);
    default: return false;
    }
}

shoal_status gpu_windows_add(gpu_program *p, const shoal_node *node) {
    switch (node->op) {
    case GRAPH_CONVOLUTION: return add_convolution(p, node);
    case GRAPH_REDUCE_WINDOW: return add_reduce_window(p, node);
    default: return add_select_and_scatter(p, node);
    }
}
