/* Elements picked by numbers that lie in memory: dynamic_slice, dynamic_update_slice, gather and
 * scatter. What the kernels do is what ref/index.c does, with all that is known of the shapes
 * written out. Operands are x0, x1, … in the kernels, results y0. */
#include "backend/gpu/gpu.h"
#include "backend/ref/ref.h"

enum { SERIAL = 4096, WIDE = 16 }; /* updates that one work-item makes; work-items that pay */

static const shoal_type *type_of(const shoal_graph *g, uint32_t value) {
    return &g->values[value].type;
}

/* ---- text ---- */

/* Elements as their bits: what is moved alone is not looked at. */
static const char *bits_type(uint8_t dtype) {
    switch (shoal_dtype_size((shoal_dtype)dtype)) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    default: return "u64";
    }
}

/* The head of a kernel: operands from number `indices` on are numbers, others are moved. */
static void open_kernel(const shoal_graph *g, const uint32_t *args, uint32_t n_reads,
                        uint32_t indices, uint32_t n_indices, const char *result, base_str *out) {
    base_str_text(out, "KERNEL NAME(");
    for (uint32_t i = 0; i < n_reads; i++) {
        uint8_t dtype = type_of(g, args[i])->dtype;
        bool is_index = i >= indices && i < indices + n_indices;
        base_str_format(out, "POINTER(const %s, x%u), ",
                        is_index ? fuse_memory_type(dtype) : result, i);
    }
    base_str_format(out, "POINTER(%s, y0) PARAMETERS) {\n", result);
    for (uint32_t i = 0; i < n_reads; i++) base_str_format(out, "START(x%u)\n", i);
    base_str_text(out, "START(y0)\nITEM_BEGIN\n");
}

/* An index as int64: what that does not hold is its largest number. */
static void render_index(uint8_t dtype, uint32_t operand, const char *at, base_str *out) {
    if (dtype == SHOAL_U64)
        base_str_format(out, "(x%u[%s] >> 63 ? (i64)((~(u64)0) >> 1) : (i64)x%u[%s])", operand, at,
                        operand, at);
    else
        base_str_format(out, "(i64)x%u[%s]", operand, at);
}

/* NAME is moved so that a box of `size` lies inside an axis. */
static void render_clamp(const char *name, uint32_t axis, int64_t most, base_str *out) {
    base_str_format(out, "%s%u = %s%u < 0 ? 0 : %s%u > %lld ? %lld : %s%u;\n", name, axis, name,
                    axis, name, axis, (long long)most, (long long)most, name, axis);
}

/* ---- boxes at given indices ---- */

/* s0, s1, …: where the box begins, by scalar operands from number `first` on. */
static void render_starts(const shoal_graph *g, const shoal_node *node, uint32_t first,
                          const shoal_type *whole, const shoal_type *box, base_str *out) {
    for (uint32_t i = 0; i < whole->rank; i++) {
        base_str_format(out, "i64 s%u = ", i);
        render_index(type_of(g, node->inputs[first + i])->dtype, first + i, "0", out);
        base_str_text(out, ";\n");
        render_clamp("s", i, whole->dims[i] - box->dims[i], out);
    }
}

static void render_inside(const shoal_type *whole, base_str *out) {
    int64_t strides[SHOAL_MAX_RANK];
    ref_strides(whole, strides);
    for (uint32_t i = 0; i < whole->rank; i++)
        base_str_format(out, " + (s%u + a%u) * (i64)%lld", i, i, (long long)strides[i]);
}

static shoal_status add_slice(gpu_program *p, const shoal_node *node) {
    bool updates = node->op == GRAPH_DYNAMIC_UPDATE_SLICE;
    uint32_t out = node->first_output, first = updates ? 2 : 1, n = node->n_inputs;
    uint32_t *args = base_arena_array(&p->arena, uint32_t, n + (size_t)1);
    if (!args) return SHOAL_NO_MEMORY;
    /* The operand of an update is copied before, and read no more, so that the result may have its
     * memory: the update stands for it. */
    for (uint32_t i = 0; i < n; i++) args[i] = node->inputs[updates && !i ? 1 : i];
    args[n] = out;
    const shoal_type *whole = type_of(p->g, node->inputs[0]);
    const shoal_type *box = type_of(p->g, updates ? node->inputs[1] : out);
    gpu_launch *launch;
    base_str text;
    base_str_init(&text);
    if (updates) SHOAL_TRY(gpu_launch_copy(p, out, node->inputs[0]));
    open_kernel(p->g, args, n, first, n - first, bits_type(whole->dtype), &text);
    gpu_render_coordinates(box, NULL, "item", &text);
    render_starts(p->g, node, first, whole, box, &text);
    base_str_text(&text, updates ? "y0[0" : "y0[item] = x0[0");
    render_inside(whole, &text);
    base_str_text(&text, updates ? "] = x1[item];\nITEM_END\n}\n" : "];\nITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(p, &text, args, n, 1, 0, &launch));
    gpu_spread(p, launch, base_type_count(box));
    return SHOAL_OK;
}

/* ---- gather and scatter ---- */

static bool names(const shoal_attr *list, int64_t axis) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->u.ints[i] == axis) return true;
    return false;
}

/* From the coordinates a0, … of the result: s0, …, where a box begins in the operand, and d0, …,
 * where inside of it. The indices are operand number `input`. */
static void render_places(const ref_indexing *x, uint32_t input, base_str *out) {
    uint32_t batch[SHOAL_MAX_RANK + 1] = {0}, window[SHOAL_MAX_RANK], n_batch = 0, n_window = 0;
    int64_t strides[SHOAL_MAX_RANK];
    ref_strides(x->indices, strides);
    for (uint32_t i = 0; i < x->result->rank; i++) {
        if (names(x->window, i)) {
            window[n_window++] = i;
            continue;
        }
        n_batch += n_batch == x->vector;
        batch[n_batch++] = i;
    }
    base_str_text(out, "const i64 at = 0");
    for (uint32_t i = 0; i < x->indices->rank; i++)
        if (i != x->vector)
            base_str_format(out, " + a%u * (i64)%lld", batch[i], (long long)strides[i]);
    base_str_text(out, ";\n");
    for (uint32_t i = 0, k = 0; i < x->operand->rank; i++) {
        bool inside = !names(x->dropped, i) && !names(x->operand_batching, i);
        if (inside)
            base_str_format(out, "i64 s%u = 0; const i64 d%u = a%u;\n", i, i, window[k++]);
        else
            base_str_format(out, "i64 s%u = 0; const i64 d%u = 0;\n", i, i);
    }
    for (uint32_t i = 0; i < x->operand_batching->count; i++)
        base_str_format(out, "s%lld = a%u;\n", (long long)x->operand_batching->u.ints[i],
                        batch[x->index_batching->u.ints[i]]);
    for (uint32_t i = 0; i < x->map->count; i++) {
        char at[48];
        bool has = x->vector < x->indices->rank;
        snprintf(at, sizeof at, "at + %lld", has ? (long long)(i * strides[x->vector]) : 0LL);
        base_str_format(out, "s%lld = ", (long long)x->map->u.ints[i]);
        render_index(x->indices->dtype, input, at, out);
        base_str_text(out, ";\n");
    }
}

static void render_element(const shoal_type *whole, base_str *out) {
    int64_t strides[SHOAL_MAX_RANK];
    ref_strides(whole, strides);
    for (uint32_t i = 0; i < whole->rank; i++)
        base_str_format(out, " + (s%u + d%u) * (i64)%lld", i, i, (long long)strides[i]);
}

static shoal_status add_gather(gpu_program *p, const shoal_node *node) {
    const ref_call call = {.graph = p->g, .node = node};
    const ref_indexing x = ref_gather_of(&call);
    const int64_t *sizes = shoal_node_attr(node, SHOAL_ATTR_SLICE_SIZES)->u.ints;
    const uint32_t args[] = {node->inputs[0], node->inputs[1], node->first_output};
    gpu_launch *launch;
    base_str text;
    base_str_init(&text);
    open_kernel(p->g, args, 2, 1, 1, bits_type(x.operand->dtype), &text);
    gpu_render_coordinates(x.result, NULL, "item", &text);
    render_places(&x, 1, &text);
    for (uint32_t i = 0; i < x.operand->rank; i++)
        render_clamp("s", i, x.operand->dims[i] - sizes[i], &text);
    base_str_text(&text, "y0[item] = x0[0");
    render_element(x.operand, &text);
    base_str_text(&text, "];\nITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(p, &text, args, 2, 1, 0, &launch));
    gpu_spread(p, launch, base_type_count(x.result));
    return SHOAL_OK;
}

/* How a scatter's updates are shared out: work-items for the elements of a window, each of which
 * makes its updates in their order. Windows that may meet are one work-item's. */
typedef struct sharing {
    bool window[SHOAL_MAX_RANK]; /* axes of the updates: shared out */
    bool rest[SHOAL_MAX_RANK];
    int64_t items, each;
} sharing;

static sharing share(const ref_indexing *x) {
    sharing s = {.items = 1, .each = 1};
    bool apart = true;
    for (uint32_t i = 0; i < x->map->count; i++)
        apart = apart && names(x->dropped, x->map->u.ints[i]);
    for (uint32_t i = 0; i < x->result->rank; i++) {
        s.window[i] = apart && names(x->window, i);
        s.rest[i] = !s.window[i];
        *(s.window[i] ? &s.items : &s.each) *= x->result->dims[i];
    }
    return s;
}

/* Whether a body has the update itself as its result. */
static bool replaces(const shoal_graph *body) {
    return body->n_nodes == 0 && body->outputs[0] == body->inputs[1];
}

static bool scatter_fits(const shoal_graph *g, const shoal_node *node) {
    const ref_call call = {.graph = g, .node = node};
    if (node->n_inputs != 3) return false;
    const ref_indexing x = ref_scatter_of(&call);
    const sharing s = share(&x);
    uint16_t op = graph_body_op(node->regions[0]);
    bool joins = op != UINT16_MAX &&
                 (op == GRAPH_ADD || op == GRAPH_MULTIPLY || op == GRAPH_MAXIMUM ||
                  op == GRAPH_MINIMUM || op == GRAPH_AND || op == GRAPH_OR || op == GRAPH_XOR);
    return (joins || replaces(node->regions[0])) && (s.items >= WIDE || s.each <= SERIAL);
}

static void render_join(const shoal_node *node, uint8_t dtype, base_str *out) {
    bool half = dtype == SHOAL_F16 || dtype == SHOAL_BF16, plain = replaces(node->regions[0]);
    const char *name = dtype == SHOAL_F16 ? "f16" : "bf16", *type = fuse_register_type(dtype);
    const fuse_operation op = {.combine = graph_body_op(node->regions[0]), .sum = dtype};
    if (plain) {
        base_str_text(out, "y0[to] = x1[from];\n");
        return;
    }
    if (half)
        base_str_format(out, "const f32 a = f32_of_%s(y0[to]), b = f32_of_%s(x1[from]);\n", name,
                        name);
    else
        base_str_format(out, "const %s a = y0[to], b = x1[from];\n", type);
    if (half)
        base_str_format(out, "y0[to] = %s_of_f32(", name);
    else
        base_str_format(out, "y0[to] = (%s)(", type);
    fuse_render_join(&op, "a", "b", out);
    base_str_text(out, ");\n");
}

static shoal_status add_scatter(gpu_program *p, const shoal_node *node) {
    const ref_call call = {.graph = p->g, .node = node};
    const ref_indexing x = ref_scatter_of(&call);
    const sharing s = share(&x);
    const uint32_t args[] = {node->inputs[1], node->inputs[2], node->first_output};
    int64_t strides[SHOAL_MAX_RANK];
    gpu_launch *launch;
    base_str text;
    SHOAL_TRY(gpu_launch_copy(p, node->first_output, node->inputs[0]));
    if (!s.items || !s.each) return SHOAL_OK;
    base_str_init(&text);
    open_kernel(p->g, args, 2, 0, 1, fuse_memory_type(x.operand->dtype), &text);
    gpu_render_coordinates(x.result, s.rest, "item", &text);
    base_str_format(&text, "for (i64 update = 0; update < %lld; update++) {\n", (long long)s.each);
    gpu_render_coordinates(x.result, s.window, "update", &text);
    render_places(&x, 0, &text);
    /* Compared before it is added: an index may be the largest number there is. */
    for (uint32_t i = 0; i < x.operand->rank; i++)
        base_str_format(&text, "if (s%u >= %lld || s%u < -d%u || s%u + d%u >= %lld) continue;\n", i,
                        (long long)x.operand->dims[i], i, i, i, i, (long long)x.operand->dims[i]);
    base_str_text(&text, "const i64 to = 0");
    render_element(x.operand, &text);
    base_str_text(&text, ";\nconst i64 from = 0");
    ref_strides(x.result, strides);
    for (uint32_t i = 0; i < x.result->rank; i++)
        base_str_format(&text, " + a%u * (i64)%lld", i, (long long)strides[i]);
    base_str_text(&text, ";\n");
    render_join(node, x.operand->dtype, &text);
    base_str_text(&text, "}\nITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(p, &text, args, 2, 1, 0, &launch));
    gpu_spread(p, launch, s.items);
    return SHOAL_OK;
}

/* ---- which ---- */

bool gpu_index_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    switch (node->op) {
    case GRAPH_DYNAMIC_SLICE:
    case GRAPH_DYNAMIC_UPDATE_SLICE:
    case GRAPH_GATHER: return true;
    case GRAPH_SCATTER: return scatter_fits(g, node);
    default: return false;
    }
}

shoal_status gpu_index_add(gpu_program *p, const shoal_node *node) {
    switch (node->op) {
    case GRAPH_GATHER: return add_gather(p, node);
    case GRAPH_SCATTER: return add_scatter(p, node);
    default: return add_slice(p, node);
    }
}
