/* dot_general. By the library of the device's vendor, where there is one and the operands lie as it
 * takes them; else by one of these kernels, by the shape and the device:
 *
 * - reduction: with a vector, which is but reading, as kernel.c does that.
 * - direct: a work-item for each element of the result. Any type; the rest is for floats that are
 *   worth it.
 * - tiled: groups of 16 x 16 work-items with 4 x 4 results each bring 64 x 16 elements of either
 *   side to local memory. For devices with many lanes.
 * - panels: both sides are first laid out as panels of 8 rows and of two vectors' columns, padded
 *   with zeros, then a work-item makes the results of two panels in registers. For processors.
 *
 * Operands are any views; the result is dense: batch, rows, columns. Sums are in f32, or f64 for
 * f64; their order along k follows from the shape alone.
 *
 * A convolution is such a product, too (windows.c), done directly or tiled: each element of the
 * left side is found by the window that its row stands for, or is 0. */
#include "backend/gpu/product.h"

enum {
    TILE = 64,  /* tiled: results of a group along either side */
    DEPTH = 16, /* and how deep it goes at a time; also work-items along either side */
    EACH = TILE / DEPTH,
    ROWS = 8,           /* panels: rows of one of the left side */
    WORTH = 1 << 15,    /* multiplications from which on that is not done directly */
    MOST_GROUPS = 65535 /* along the second axis, of a launch for CUDA */
};
#define LONG_WORK 1e11 /* multiplications of one launch: a second or so */

static bool is_half(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

bool gpu_product_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    return node->op == GRAPH_DOT_GENERAL &&
           (device->dialect.has_f64 || g->values[node->first_output].type.dtype != SHOAL_F64);
}

static product product_of(gpu_program *p, const shoal_node *node) {
    const fuse_index lhs = fuse_index_of(&p->plan, node->inputs[0]);
    const fuse_index rhs = fuse_index_of(&p->plan, node->inputs[1]);
    product x = {.p = p,
                 .dtype = p->g->values[node->first_output].type.dtype,
                 .args = {node->inputs[0], node->inputs[1], node->first_output}};
    x.axes = ref_dot_of_views(p->g, node, (const int64_t *const[2]){lhs.strides, rhs.strides});
    x.batch = x.axes.batch.count;
    x.m = x.axes.lhs_free.count;
    x.n = x.axes.rhs_free.count;
    x.k = x.axes.contracting.count;
    x.number = fuse_register_type(x.dtype);
    return x;
}

/* ---- text ---- */

/* How far element number `number` of some axes is from the first, in operand `side`. */
static void render_offset(const ref_axes *axes, int side, const char *number, base_str *out) {
    int64_t inner = 1;
    bool some = false;
    for (uint32_t i = axes->n; i-- > 0;) {
        int64_t size = axes->size[i], stride = axes->stride[side][i];
        /* Those that follow on one another are one. */
        while (i > 0 && axes->stride[side][i - 1] == stride * size) size *= axes->size[--i];
        if (size > 1 && stride) {
            bool outermost = inner * size == axes->count;
            base_str_format(out, "%s(%s", some ? " + " : "", number);
            if (inner > 1) base_str_format(out, " / %lld", (long long)inner);
            if (!outermost) base_str_format(out, " %% %lld", (long long)size);
            base_str_format(out, ") * (i64)%lld", (long long)stride);
            some = true;
        }
        inner *= size;
    }
    if (!some) base_str_text(out, "0");
}

/* Coordinate number `i` of some axes. */
static void render_coordinate(const ref_axes *axes, uint32_t i, const char *number, base_str *out) {
    int64_t inner = 1;
    for (uint32_t k = i + 1; k < axes->n; k++) inner *= axes->size[k];
    base_str_format(out, axes->count < INT32_MAX ? "((u32)%s" : "(%s", number);
    if (inner > 1) base_str_format(out, " / %lldu", (long long)inner);
    if (inner * axes->size[i] < axes->count)
        base_str_format(out, " %% %lldu", (long long)axes->size[i]);
    base_str_text(out, ")");
}

/* Where the input lies that element `k` of the window of row `m` has, along spatial axis `i`:
 * times in_gap. */
static void render_place(const product *x, uint32_t i, const char *m, const char *k,
                         base_str *out) {
    const ref_windows_axis *axis = &x->windows->axis[i];
    base_str_text(out, "((i64)");
    render_coordinate(&x->axes.lhs_free, 1 + i, m, out);
    base_str_format(out, " * %lld + (i64)", (long long)axis->stride);
    render_coordinate(&x->axes.contracting, x->first_window + i, k, out);
    base_str_format(out, " * %lld - (%lld))", (long long)axis->window_gap, (long long)axis->before);
}

/* Element (m, k) of the left side; x0 points to its batch's first. */
static void render_left(const product *x, const char *m, const char *k, base_str *out) {
    base_str at, place;
    base_str_init(&at);
    render_offset(&x->axes.lhs_free, 0, m, &at);
    base_str_text(&at, " + ");
    render_offset(&x->axes.contracting, 0, k, &at);
    for (uint32_t i = 0; x->windows && i < x->windows->spatial; i++) {
        const ref_windows_axis *axis = &x->windows->axis[i];
        base_str_init(&place);
        render_place(x, i, m, k, &place);
        const char *text = place.data ? place.data : "0";
        base_str_format(out, "%s%s >= 0 && %s / %lld < %lld", i ? " && " : "(", text, text,
                        (long long)axis->in_gap, (long long)axis->in);
        if (axis->in_gap > 1)
            base_str_format(out, " && %s %% %lld == 0", text, (long long)axis->in_gap);
        base_str_format(&at, " + %s / %lld * (i64)%lld", text, (long long)axis->in_gap,
                        (long long)axis->in_step);
        base_str_fini(&place);
    }
    if (x->windows && x->windows->spatial) base_str_text(out, " ? ");
    gpu_render_element(x->dtype, 0, at.data ? at.data : "0", out);
    if (x->windows && x->windows->spatial) base_str_text(out, " : 0)");
    base_str_fini(&at);
}

/* Where element (b, m, n) of the result lies. */
static void render_target(const product *x, base_str *out) {
    if (!x->windows) {
        base_str_format(out, "(b * %lld + m) * (i64)%lld + n", (long long)x->m, (long long)x->n);
        return;
    }
    render_offset(&x->result[0], 0, "b", out);
    base_str_text(out, " + ");
    render_offset(&x->result[1], 0, "m", out);
    base_str_text(out, " + ");
    render_offset(&x->result[2], 0, "n", out);
}

/* More to a sum: floats in one rounding where the device is fast at that. */
static void render_sum(const product *x, const char *sum, const char *a, const char *b,
                       base_str *out) {
    switch (shoal_dtype_kind((shoal_dtype)x->dtype)) {
    case 'f': base_str_format(out, "%s = MAD(%s, %s, %s);\n", sum, a, b, sum); break;
    case 'b': base_str_format(out, "%s |= %s & %s;\n", sum, a, b); break;
    default:
        base_str_format(out, "%s = (%s)((u64)%s + (u64)%s * (u64)%s);\n", sum, x->number, sum, a,
                        b);
    }
}

static void render_mad(const product *x, base_str *out) {
    const char *fast = x->dtype == SHOAL_F64 ? "FP_FAST_FMA" : "FP_FAST_FMAF";
    base_str_format(out,
                    "#undef MAD\n#if defined(%s) || defined(__FMA__) || "
                    "defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)\n#define MAD(a, b, c) "
                    "MATH_%s(fma)(a, b, c)\n#else\n"
                    "#define MAD(a, b, c) ((a) * (b) + (c))\n#endif\n",
                    fast, x->number);
}

static void render_head(const product *x, const char *kernel, base_str *out) {
    const char *type = fuse_memory_type(x->dtype);
    base_str_format(out,
                    "%s NAME(POINTER(const %s, x0), POINTER(const %s, x1), POINTER(%s, y0) "
                    "PARAMETERS) {\nSTART(x0)\nSTART(x1)\nSTART(y0)\n",
                    kernel, type, type, type);
}

/* ---- direct ---- */

/* Neighbours are columns; of a convolution rows, whose results lie together. */
static shoal_status add_direct(const product *x) {
    gpu_launch *launch;
    base_str text, at;
    int64_t inner = x->windows ? x->m : x->n, outer = x->windows ? x->n : x->m;
    base_str_init(&text);
    render_mad(x, &text);
    render_head(x, "KERNEL", &text);
    base_str_format(&text,
                    "ITEM_BEGIN\nconst i64 %s = item %% %lld, %s = item / %lld %% %lld, b = item / "
                    "%lld;\nx0 += ",
                    x->windows ? "m" : "n", (long long)inner, x->windows ? "n" : "m",
                    (long long)inner, (long long)outer, (long long)(x->n * x->m));
    render_offset(&x->axes.batch, 0, "b", &text);
    base_str_text(&text, ";\nx1 += ");
    render_offset(&x->axes.batch, 1, "b", &text);
    base_str_text(&text, " + ");
    render_offset(&x->axes.rhs_free, 1, "n", &text);
    base_str_format(&text, " + %lld;\n%s sum = 0;\nfor (i64 k = 0; k < %lld; k++) {\nconst %s p = ",
                    (long long)x->first_right, x->number, (long long)x->k, x->number);
    render_left(x, "m", "k", &text);
    base_str_text(&text, ", q = ");
    base_str_init(&at);
    render_offset(&x->axes.contracting, 1, "k", &at);
    gpu_render_element(x->dtype, 1, at.data ? at.data : "0", &text);
    base_str_fini(&at);
    base_str_text(&text, ";\n");
    render_sum(x, "sum", "p", "q", &text);
    base_str_text(&text, "}\n");
    base_str_init(&at);
    render_target(x, &at);
    gpu_render_result(x->dtype, at.data ? at.data : "0", "sum", &text);
    base_str_fini(&at);
    base_str_text(&text, "ITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(x->p, &text, x->args, 2, 1, 0, &launch));
    gpu_spread(x->p, launch, x->batch * x->m * x->n);
    return SHOAL_OK;
}

/* ---- tiled ---- */

/* Brings a tile of one side to local memory, along the axis in which memory goes on. */
static void render_bring(const product *x, int side, base_str *out) {
    const ref_axes *free = side ? &x->axes.rhs_free : &x->axes.lhs_free;
    const ref_axes *deep = &x->axes.contracting;
    bool along_k = deep->n && deep->stride[side][deep->n - 1] == 1;
    base_str_format(out,
                    "for (i32 e = local_id; e < %d; e += %d) {\n"
                    "const i32 f = e %s %d, d = e %s %d;\n"
                    "const i64 free = %s0 + f, k = k0 + d;\n"
                    "t%d[d][f] = free < %lld && k < %lld ? ",
                    TILE * DEPTH, DEPTH * DEPTH, along_k ? "/" : "%", along_k ? DEPTH : TILE,
                    along_k ? "%" : "/", along_k ? DEPTH : TILE, side ? "n" : "m", side,
                    (long long)(side ? x->n : x->m), (long long)x->k);
    base_str at;
    base_str_init(&at);
    if (side) {
        render_offset(free, side, "free", &at);
        base_str_text(&at, " + ");
        render_offset(deep, side, "k", &at);
        gpu_render_element(x->dtype, (uint32_t)side, at.data ? at.data : "0", out);
    } else {
        render_left(x, "free", "k", out);
    }
    base_str_text(out, " : 0;\n}\n");
    base_str_fini(&at);
}

static shoal_status add_tiled(const product *x) {
    int64_t rows = (x->m + TILE - 1) / TILE, columns = (x->n + TILE - 1) / TILE;
    gpu_launch *launch;
    base_str text;
    char kernel[32];
    base_str_init(&text);
    render_mad(x, &text);
    /* So that the compiler does not take more registers than so many work-items have. */
    snprintf(kernel, sizeof kernel, "KERNEL_OF(%d, %d)", DEPTH, DEPTH);
    render_head(x, kernel, &text);
    base_str_format(&text,
                    "SHARED %s t0[%d][%d], t1[%d][%d];\n"
                    "const i32 c = LOCAL_0, r = LOCAL_1, local_id = r * %d + c;\n"
                    "const i64 tile = GROUP_1 + items / %d, b = tile / %lld;\n"
                    "const i64 m0 = tile %% %lld * %d, n0 = GROUP_0 * %d;\n"
                    "%s sums[%d][%d];\n"
                    "for (i32 i = 0; i < %d; i++) for (i32 j = 0; j < %d; j++) sums[i][j] = 0;\n",
                    x->number, DEPTH, TILE + 1, DEPTH, TILE + 1, DEPTH, DEPTH, (long long)rows,
                    (long long)rows, TILE, TILE, x->number, EACH, EACH, EACH, EACH);
    for (int side = 0; side < 2; side++) {
        base_str_format(&text, "x%d += ", side);
        render_offset(&x->axes.batch, side, "b", &text);
        base_str_format(&text, " + %lld;\n", side ? (long long)x->first_right : 0LL);
    }
    base_str_format(&text, "for (i64 k0 = 0; k0 < %lld; k0 += %d) {\n", (long long)x->k, DEPTH);
    render_bring(x, 0, &text);
    render_bring(x, 1, &text);
    base_str_format(&text,
                    "BARRIER;\n"
                    "for (i32 d = 0; d < %d; d++)\nfor (i32 i = 0; i < %d; i++)\n"
                    "for (i32 j = 0; j < %d; j++)\n",
                    DEPTH, EACH, EACH);
    render_sum(x, "sums[i][j]", "t0[d][r + 16 * i]", "t1[d][c + 16 * j]", &text);
    base_str_format(&text,
                    "BARRIER;\n}\n"
                    "for (i32 i = 0; i < %d; i++) for (i32 j = 0; j < %d; j++) {\n"
                    "const i64 m = m0 + r + 16 * i, n = n0 + c + 16 * j;\n"
                    "if (m < %lld && n < %lld) ",
                    EACH, EACH, (long long)x->m, (long long)x->n);
    base_str at;
    base_str_init(&at);
    render_target(x, &at);
    gpu_render_result(x->dtype, at.data ? at.data : "0", "sums[i][j]", &text);
    base_str_fini(&at);
    base_str_text(&text, "}\n}\n");
    SHOAL_TRY(gpu_launch_new(x->p, &text, x->args, 2, 1, 0, &launch));
    launch->items = 1;
    launch->local[0] = launch->local[1] = DEPTH;
    launch->global[0] = (size_t)columns * DEPTH;
    launch->global[1] = (size_t)(rows * x->batch) * DEPTH;
    double work = (double)TILE * (double)x->n * (double)x->k;
    double slab = LONG_WORK / work + 1;
    launch->slab = (size_t)(slab < MOST_GROUPS ? slab : MOST_GROUPS) * DEPTH;
    return SHOAL_OK;
}

/* ---- panels ---- */

typedef struct panels {
    int64_t width[2], count[2]; /* rows, columns of a panel of either side; panels of a batch */
    int64_t vector;             /* numbers of a vector */
    size_t bytes;               /* of a number */
} panels;

static panels panels_of(const product *x) {
    panels s = {.vector = x->dtype == SHOAL_F64 ? 8 : 16, .bytes = x->dtype == SHOAL_F64 ? 8 : 4};
    s.width[0] = ROWS;
    s.width[1] = 2 * s.vector;
    s.count[0] = (x->m + s.width[0] - 1) / s.width[0];
    s.count[1] = (x->n + s.width[1] - 1) / s.width[1];
    return s;
}

/* One side as panels, in f32 or f64: per batch and panel k times its width. A work-item copies a
 * row of a panel: numbers that lie together are read together. */
static shoal_status add_pack(const product *x, const panels *s, int side) {
    const ref_axes *free = side ? &x->axes.rhs_free : &x->axes.lhs_free;
    int64_t width = s->width[side], count = s->count[side], extent = side ? x->n : x->m;
    gpu_launch *launch;
    base_str text, at;
    base_str_init(&text);
    base_str_init(&at);
    base_str_format(&text,
                    "KERNEL NAME(POINTER(const %s, x%d), POINTER(%s, z0), POINTER(%s, z1) "
                    "PARAMETERS) {\nSTART(x%d)\nSTART(z%d)\nITEM_BEGIN\n"
                    "const i64 k = item %% %lld, panel = item / %lld %% %lld, b = item / %lld;\n"
                    "z%d += item * %lld;\nx%d += ",
                    fuse_memory_type(x->dtype), side, x->number, x->number, side, side,
                    (long long)x->k, (long long)x->k, (long long)count, (long long)(x->k * count),
                    side, (long long)width, side);
    render_offset(&x->axes.batch, side, "b", &text);
    base_str_text(&text, " + ");
    render_offset(&x->axes.contracting, side, "k", &text);
    render_offset(free, side, "free", &at);
    base_str_format(&text,
                    ";\nfor (i32 i = 0; i < %lld; i++) {\n"
                    "const i64 free = panel * %lld + i;\nz%d[i] = free < %lld ? ",
                    (long long)width, (long long)width, side, (long long)extent);
    gpu_render_element(x->dtype, (uint32_t)side, at.data ? at.data : "0", &text);
    base_str_text(&text, " : 0;\n}\nITEM_END\n}\n");
    shoal_status status = base_str_status(&at);
    base_str_fini(&at);
    if (status) {
        base_str_fini(&text);
        return status;
    }
    SHOAL_TRY(gpu_launch_new(x->p, &text, &x->args[side], 1, 0, GPU_SCRATCH, &launch));
    gpu_spread(x->p, launch, x->batch * count * x->k);
    if (side) {
        launch->shared = x->p->n_launches - 1;
        return SHOAL_OK;
    }
    launch->kept = 2;
    for (int i = 0; i < 2; i++) {
        launch->scratch[i].unit = s->bytes;
        launch->scratch[i].bytes = (size_t)(x->batch * s->count[i] * x->k * s->width[i]) * s->bytes;
    }
    return SHOAL_OK;
}

/* What lies outside of the result is not stored. */
static void render_stores(const product *x, const panels *s, base_str *out) {
    if (!is_half(x->dtype)) {
        base_str_format(out, "if (n0 + %lld <= %lld) {\n", (long long)s->width[1], (long long)x->n);
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < 2; j++)
                base_str_format(
                    out, "if (m0 + %d < %lld) vstore%lld(c%d%d, 0, y0 + (i64)%d * %lld + %lld);\n",
                    r, (long long)x->m, (long long)s->vector, r, j, r, (long long)x->n,
                    (long long)(j * s->vector));
        base_str_text(out, "return;\n}\n");
    }
    base_str_format(out, "%s edge[%lld];\n", x->number, (long long)s->width[1]);
    for (int r = 0; r < ROWS; r++) {
        char at[48];
        snprintf(at, sizeof at, "(i64)%d * %lld + j", r, (long long)x->n);
        for (int j = 0; j < 2; j++)
            base_str_format(out, "vstore%lld(c%d%d, %d, edge);\n", (long long)s->vector, r, j, j);
        base_str_format(out,
                        "for (i32 j = 0; j < %lld; j++)\nif (m0 + %d < %lld && n0 + j < %lld) ",
                        (long long)s->width[1], r, (long long)x->m, (long long)x->n);
        gpu_render_result(x->dtype, at, "edge[j]", out);
    }
}

static shoal_status add_multiply(const product *x, const panels *s) {
    gpu_launch *launch;
    base_str text;
    char vector[32];
    snprintf(vector, sizeof vector, "%s%lld", x->dtype == SHOAL_F64 ? "double" : "float",
             (long long)s->vector);
    base_str_init(&text);
    render_mad(x, &text);
    base_str_format(&text,
                    "KERNEL NAME(POINTER(%s, y0), POINTER(const %s, z0), POINTER(const %s, z1) "
                    "PARAMETERS) {\nSTART(y0)\nSTART(z0)\nSTART(z1)\n"
                    "const i64 row = get_global_id(0), column = get_global_id(1) + items;\n"
                    "const i64 b = column / %lld, m0 = row * %d, n0 = column %% %lld * %lld;\n"
                    "z0 += (b * %lld + row) * (i64)%lld;\nz1 += column * (i64)%lld;\n"
                    "y0 += (b * %lld + m0) * (i64)%lld + n0;\n",
                    fuse_memory_type(x->dtype), x->number, x->number, (long long)s->count[1], ROWS,
                    (long long)s->count[1], (long long)s->width[1], (long long)s->count[0],
                    (long long)(x->k * ROWS), (long long)(x->k * s->width[1]), (long long)x->m,
                    (long long)x->n);
    for (int r = 0; r < ROWS; r++) base_str_format(&text, "%s c%d0 = 0, c%d1 = 0;\n", vector, r, r);
    base_str_format(&text,
                    "for (i64 k = 0; k < %lld; k++) {\n"
                    "const %s b0 = vload%lld(0, z1), b1 = vload%lld(1, z1);\n",
                    (long long)x->k, vector, (long long)s->vector, (long long)s->vector);
    for (int r = 0; r < ROWS; r++)
        for (int j = 0; j < 2; j++)
            base_str_format(&text, "c%d%d = MAD((%s)z0[%d], b%d, c%d%d);\n", r, j, vector, r, j, r,
                            j);
    base_str_format(&text, "z0 += %d;\nz1 += %lld;\n}\n", ROWS, (long long)s->width[1]);
    render_stores(x, s, &text);
    base_str_text(&text, "}\n");
    SHOAL_TRY(gpu_launch_new(x->p, &text, &x->args[2], 0, 1, GPU_SCRATCH, &launch));
    launch->shared = x->p->n_launches - 2;
    launch->items = 1;
    launch->global[0] = (size_t)s->count[0];
    launch->global[1] = (size_t)(s->count[1] * x->batch);
    double work = (double)s->width[1] * (double)x->m * (double)x->k;
    launch->slab = (size_t)(LONG_WORK / work + 1);
    return SHOAL_OK;
}

static shoal_status add_panels(const product *x) {
    const panels s = panels_of(x);
    SHOAL_TRY(add_pack(x, &s, 0));
    SHOAL_TRY(add_pack(x, &s, 1));
    return add_multiply(x, &s);
}

/* ---- with a vector ---- */

enum { MOST_AXES = 4 * SHOAL_MAX_RANK };

/* The loops of a product, and how far apart the elements of lhs, rhs and result are along each. */
static uint32_t loops_of(const product *x, int64_t *extents, bool *reduced,
                         int64_t strides[3][MOST_AXES]) {
    const ref_axes *const parts[] = {&x->axes.batch, &x->axes.lhs_free, &x->axes.rhs_free,
                                     &x->axes.contracting};
    uint32_t n = 0;
    for (int part = 0; part < 4; part++)
        for (uint32_t i = 0; i < parts[part]->n; i++, n++) {
            extents[n] = parts[part]->size[i];
            reduced[n] = part == 3;
            for (int side = 0; side < 2; side++) strides[side][n] = parts[part]->stride[side][i];
        }
    int64_t dense = 1;
    for (uint32_t l = n; l-- > 0;) {
        strides[2][l] = reduced[l] ? 0 : dense;
        if (!reduced[l]) dense *= extents[l];
    }
    return fuse_merge_loops(n, extents, reduced,
                            (int64_t *const[]){strides[0], strides[1], strides[2]}, 3);
}

/* Says in *fits whether it has few enough axes to be one. */
static shoal_status add_reduction(const product *x, bool *fits) {
    static const uint64_t zero;
    int64_t extents[MOST_AXES], strides[3][MOST_AXES];
    bool reduced[MOST_AXES];
    uint8_t sum = x->dtype == SHOAL_F64 ? SHOAL_F64 : SHOAL_F32;
    uint32_t n = loops_of(x, extents, reduced, strides);
    *fits = n <= SHOAL_MAX_RANK;
    if (!*fits) return SHOAL_OK;
    fuse_kernel *k = base_arena_array(&x->p->arena, fuse_kernel, 1);
    fuse_load *loads = base_arena_array(&x->p->arena, fuse_load, 3);
    fuse_operation *operations = base_arena_array(&x->p->arena, fuse_operation, 2);
    fuse_store *store = base_arena_array(&x->p->arena, fuse_store, 1);
    if (!k || !loads || !operations || !store) return SHOAL_NO_MEMORY;
    for (int side = 0; side < 2; side++) {
        const uint32_t value = x->args[side];
        loads[side] = (fuse_load){.kind = FUSE_MEMORY,
                                  .dtype = x->dtype,
                                  .inner = true,
                                  .outside = FUSE_NOWHERE,
                                  .value = value,
                                  .index.start = fuse_index_of(&x->p->plan, value).start};
        memcpy(loads[side].index.strides, strides[side], n * sizeof **strides);
    }
    loads[2] = (fuse_load){
        .kind = FUSE_LITERAL, .dtype = x->dtype, .outside = FUSE_NOWHERE, .literal = &zero};
    operations[0] = (fuse_operation){.op = GRAPH_MULTIPLY,
                                     .dtype = sum,
                                     .from = sum,
                                     .n_args = 2,
                                     .inner = true,
                                     .args = {0, 1}};
    operations[1] = (fuse_operation){.op = GRAPH_REDUCE,
                                     .dtype = x->dtype,
                                     .from = x->dtype,
                                     .n_args = 2,
                                     .pass = 1,
                                     .sum = sum,
                                     .combine = GRAPH_ADD,
                                     .args = {3, 2}};
    *store = (fuse_store){.value = x->args[2], .from = 4, .dtype = x->dtype};
    memcpy(store->index.strides, strides[2], n * sizeof **strides);
    *k = (fuse_kernel){.n_loops = n,
                       .n_loads = 3,
                       .n_operations = 2,
                       .n_stores = 1,
                       .passes = 1,
                       .loads = loads,
                       .operations = operations,
                       .stores = store};
    for (uint32_t l = 0; l < n; l++) k->loops[l] = (fuse_loop){extents[l], reduced[l]};
    return gpu_kernel_add(x->p, k);
}

/* ---- by a library ---- */

/* The one stride of some axes in an operand; false: they have several. */
static bool one_stride(const ref_axes *axes, int side, int64_t *stride) {
    int64_t inner = 0;
    *stride = 0;
    for (uint32_t i = axes->n; i-- > 0;) {
        if (axes->size[i] == 1) continue;
        if (inner && axes->stride[side][i] != *stride * inner) return false;
        if (!inner) *stride = axes->stride[side][i];
        inner = (inner ? inner : 1) * axes->size[i];
    }
    return true;
}

/* A matrix, row by row or column by column, whose rows or columns do not overlap. */
static bool lies(int64_t rows, int64_t row, int64_t columns, int64_t column, bool *transposed,
                 int64_t *lead) {
    *transposed = columns > 1 && column != 1;
    if (*transposed && rows > 1 && row != 1) return false;
    int64_t along = *transposed ? rows : columns, across = *transposed ? columns : rows;
    *lead = across == 1 ? along : *transposed ? column : row;
    return *lead >= along && *lead <= INT32_MAX;
}

static bool as_matrices(const product *x, gpu_matrices *out) {
    int64_t m, n, k[2], b[2];
    *out = (gpu_matrices){.dtype = x->dtype, .batch = x->batch, .m = x->m, .n = x->n, .k = x->k};
    if (x->batch > MOST_GROUPS || x->m > INT32_MAX || x->n > INT32_MAX || x->k > INT32_MAX)
        return false;
    for (int side = 0; side < 2; side++) {
        if (!one_stride(&x->axes.contracting, side, &k[side]) ||
            !one_stride(&x->axes.batch, side, &b[side]) || b[side] < 0)
            return false;
        out->apart[side] = b[side];
    }
    return one_stride(&x->axes.lhs_free, 0, &m) && one_stride(&x->axes.rhs_free, 1, &n) &&
           lies(x->m, m, x->k, k[0], &out->transposed[0], &out->lead[0]) &&
           lies(x->k, k[1], x->n, n, &out->transposed[1], &out->lead[1]);
}

/* ---- which ---- */

static bool is_worth(const product *x) {
    double work = (double)x->m * (double)x->n * (double)x->k * (double)x->batch;
    return shoal_dtype_kind((shoal_dtype)x->dtype) == 'f' && work >= WORTH;
}

shoal_status gpu_product_by_us(const product *x) {
    bool tiles = is_worth(x) && x->m >= ROWS / 2 && x->n >= ROWS / 2 && !x->p->device->is_cpu &&
                 x->p->device->most_local >= DEPTH * DEPTH;
    return tiles ? add_tiled(x) : add_direct(x);
}

shoal_status gpu_product_add(gpu_program *p, const shoal_node *node) {
    const product x = product_of(p, node);
    if (!is_worth(&x)) return add_direct(&x);
    if ((x.m == 1 || x.n == 1) && !p->device->is_cpu) {
        bool fits;
        shoal_status status = add_reduction(&x, &fits);
        if (status || fits) return status;
    }
    gpu_matrices matrices;
    if (p->device->multiplies && as_matrices(&x, &matrices))
        return gpu_launch_multiply(p, x.args, &matrices);
    if (p->device->is_cpu && x.m >= ROWS / 2 && x.n >= ROWS / 2) return add_panels(&x);
    return gpu_product_by_us(&x);
}
