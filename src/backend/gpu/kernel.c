/* Launches of what fuse has formed: which work-items run which iterations.
 *
 * Without reductions a work-item runs some iterations, a group's width apart, and reads for all of
 * them first: a device's memory is as fast as there are reads under way. Of a reduction a group of
 * `lanes` x `wide` work-items runs `wide` iterations, whose lanes share the reduced loops and join
 * what they found in local memory. Neighbours read neighbouring elements: they are lanes where
 * memory runs along the reduced loops, else iterations. Where that gives the device too little to
 * do, slices of the reduced loops are summed by as many groups, and joined by a second launch. */
#include "backend/gpu/gpu.h"

enum {
    AHEAD = 32,        /* bytes that a work-item reads before it computes, about */
    MOST_EACH = 8,     /* iterations that these are at most */
    WARP = 32,         /* neighbours whose reads are joined */
    WIDEST = 1024,     /* work-items of a group at most */
    BUSY = 1024,       /* work-items that a unit should have at least */
    MOST_KEPT = 24,    /* registers in which a work-item keeps what several passes read */
    MOST_TEXT = 768,   /* steps of iterations that are written out, which compilers take time for */
    LEAST_REDUCED = 16 /* elements that are worth a group */
};

/* How a kernel is given to work-items. */
typedef struct layout {
    fuse_work work;
    size_t lanes, wide; /* 1, 1: no groups */
    bool across;        /* neighbours are iterations, not lanes */
} layout;

static bool is_reduction(const fuse_operation *op) { return op->op == GRAPH_REDUCE; }

/* The largest power of two that is not larger, between `least` and `most`. */
static size_t power_of_two(int64_t n, size_t least, size_t most) {
    size_t power = 1;
    while (2 * power <= most && (power < least || 2 * (int64_t)power <= n)) power *= 2;
    return power;
}

/* ---- which work-items ---- */

/* The sum of truth values is "or", which bytes do not show. */
static bool may_join(const fuse_kernel *k) {
    for (uint32_t i = 0; i < k->n_operations; i++)
        if (is_reduction(&k->operations[i]) && k->operations[i].sum == SHOAL_BOOL) return false;
    return k->passes > 0;
}

static bool is_memory(const fuse_load *load) {
    return load->kind == FUSE_MEMORY || load->kind == FUSE_RESULT;
}

/* Each iteration reads another element, which no cache has. */
static bool is_new(const fuse_kernel *k, const fuse_load *load) {
    for (uint32_t l = 0; l < k->n_loops; l++)
        if (!load->index.strides[l] && k->loops[l].extent > 1) return false;
    return is_memory(load);
}

/* Whether most of what is read lies along the loops that are not reduced. */
static bool lies_across(const fuse_kernel *k) {
    int64_t along = 0, across = 0;
    for (uint32_t i = 0; i < k->n_loads; i++) {
        const fuse_load *load = &k->loads[i];
        if (!load->inner || !is_memory(load)) continue;
        for (uint32_t l = 0; l < k->n_loops; l++) {
            int64_t stride = load->index.strides[l];
            if (stride != 1 && stride != -1) continue;
            *(k->loops[l].reduced ? &along : &across) += shoal_dtype_size(load->dtype);
        }
    }
    return across > along;
}

/* About how many steps a compiler makes of an operation on floats: some have slow paths for large
 * operands. */
static int64_t steps_of(const fuse_operation *op) {
    if (shoal_dtype_kind((shoal_dtype)op->dtype) != 'f') return 4;
    switch (op->op) {
    case GRAPH_SINE:
    case GRAPH_COSINE:
    case GRAPH_TAN:
    case GRAPH_POWER:
    case GRAPH_ATAN2:
    case GRAPH_REMAINDER: return 40;
    case GRAPH_TANH:
    case GRAPH_ERF:
    case GRAPH_GELU:
    case GRAPH_GELU_GRADIENT:
    case GRAPH_LOG:
    case GRAPH_LOG_PLUS_ONE:
    case GRAPH_EXPONENTIAL_MINUS_ONE:
    case GRAPH_CBRT: return 16;
    case GRAPH_EXPONENTIAL:
    case GRAPH_LOGISTIC:
    case GRAPH_SILU:
    case GRAPH_SILU_GRADIENT:
    case GRAPH_SQRT:
    case GRAPH_RSQRT:
    case GRAPH_DIVIDE: return 8;
    default: return 2;
    }
}

/* How many iterations may be written out; each pass computes again what it needs. */
static int64_t most_each(const fuse_kernel *k) {
    int64_t steps = 1;
    for (uint32_t i = 0; i < k->n_operations; i++)
        if (k->operations[i].inner || !k->passes) steps += steps_of(&k->operations[i]);
    return MOST_TEXT / (steps * (k->passes ? k->passes : 1));
}

/* How many iterations are read at once, of `count` that a work-item has. */
static uint32_t each_of(const fuse_kernel *k, int64_t count) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (is_new(k, &k->loads[i])) bytes += shoal_dtype_size(k->loads[i].dtype);
    int64_t each = bytes ? AHEAD / (int64_t)bytes : MOST_EACH / 2, most = most_each(k);
    if (each > most) each = most;
    return (uint32_t)power_of_two(each < count ? each : count, 1, MOST_EACH);
}

/* How many iterations of a lane fit its registers, where several passes read again. */
static int64_t most_kept(const fuse_kernel *k) {
    int64_t words = 0, most = most_each(k);
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (k->loads[i].inner && is_memory(&k->loads[i]))
            words += ((int64_t)shoal_dtype_size(k->loads[i].dtype) + 3) / 4;
    int64_t kept = k->passes > 1 ? MOST_KEPT / (words ? words : 1) : 0;
    return kept < most ? kept : most;
}

/* All that a lane has, where these are no more; else 0. */
static uint32_t all_of(const fuse_kernel *k, int64_t lanes) {
    int64_t each = (fuse_reduced_count(k) + lanes - 1) / lanes;
    return each <= most_kept(k) ? (uint32_t)each : 0;
}

/* A core that runs a whole group has vectors for it, but no more cores. */
static layout on_processor(const shoal_device *device, const fuse_kernel *k) {
    layout x = {.work.each = 1, .lanes = 1, .wide = 1};
    if (may_join(k) && fuse_reduced_count(k) >= 2 * GPU_GROUP && device->most_local >= GPU_GROUP &&
        fuse_items(k) < (int64_t)device->units * GPU_GROUP)
        x.lanes = GPU_GROUP;
    return x;
}

static void choose_group(const shoal_device *device, const fuse_kernel *k, layout *x) {
    int64_t count = fuse_reduced_count(k), items = fuse_items(k);
    size_t most = device->most_local < WIDEST ? device->most_local : WIDEST;
    if (!may_join(k) || count < LEAST_REDUCED || most < 2 * WARP) return;
    x->across = items > 1 && lies_across(k);
    if (x->across) {
        x->wide = power_of_two(items, 1, WARP);
        x->lanes = power_of_two(count / 4, 1, most / x->wide);
    } else if (count < 4 * WARP) {
        x->lanes = power_of_two(count, 1, WARP);
        x->wide = power_of_two(items, 1, (most < 4 * WARP ? most : 4 * WARP) / x->lanes);
    } else {
        /* What several passes read again is in a cache where few groups are under way. */
        size_t enough = k->passes > 1 || items < device->units ? most : 8 * WARP;
        int64_t each = most_kept(k) > 2 * MOST_EACH ? 2 * MOST_EACH : MOST_EACH;
        int64_t all = (count + each - 1) / each;
        x->lanes = power_of_two(2 * all - 1, WARP, enough < most ? enough : most);
    }
}

static void choose_slices(const shoal_device *device, const fuse_kernel *k, layout *x) {
    int64_t items = fuse_items(k), groups = (items + (int64_t)x->wide - 1) / (int64_t)x->wide;
    if (!groups) return;
    int64_t busy = (int64_t)device->units * BUSY / (groups * (int64_t)(x->lanes * x->wide));
    int64_t most = fuse_reduced_count(k) / (2 * (int64_t)x->lanes * x->work.each);
    uint32_t reductions = 0;
    for (uint32_t i = 0; i < k->n_operations; i++) reductions += is_reduction(&k->operations[i]);
    if (k->passes != 1 || reductions > GPU_SCRATCH || x->lanes * x->wide == 1) return;
    if (busy > most) busy = most;
    if (busy > 1) x->work = (fuse_work){x->work.each, FUSE_PARTS, (uint32_t)busy, false};
}

static layout layout_of(const shoal_device *device, const fuse_kernel *k) {
    if (device->is_cpu) return on_processor(device, k);
    layout x = {.lanes = 1, .wide = 1};
    choose_group(device, k, &x);
    int64_t count = k->passes ? fuse_reduced_count(k) / (int64_t)x.lanes : fuse_items(k);
    x.work.each = all_of(k, (int64_t)x.lanes);
    x.work.keeps = x.work.each > 1;
    if (!x.work.keeps) x.work.each = each_of(k, count);
    choose_slices(device, k, &x);
    return x;
}

/* Of the launch that joins slices: neighbours are iterations. */
static layout layout_of_join(const shoal_device *device, const fuse_kernel *k,
                             const layout *parts) {
    size_t most = device->most_local < 8 * WARP ? device->most_local : 8 * WARP;
    layout x = {.work = {1, FUSE_JOINED, parts->work.slices, false}, .across = true};
    x.wide = power_of_two(fuse_items(k), 1, WARP);
    x.lanes = power_of_two(x.work.slices, 1, most / x.wide);
    return x;
}

/* ---- text ---- */

/* The functions that JOIN names, once per program. `all` is of a group's iteration, whose lanes are
 * `step` apart: first a few of them join what `some` lie apart, then each lane joins that. So there
 * are few barriers, at which all lanes wait for memory. */
static void render_joins(const fuse_kernel *k, base_str *out) {
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        if (!is_reduction(op)) continue;
        const char *name = shoal_op_name(op->combine), *type = fuse_register_type(op->sum);
        base_str_format(out,
                        "#ifndef JOIN_%s_%s\n#define JOIN_%s_%s\n"
                        "FUNCTION %s join_%s_%s(%s x, SHARED_POINTER(%s) all, i32 lane, i32 lanes, "
                        "i32 some, i32 step) {\n"
                        "all[lane * step] = x;\nBARRIER;\n"
                        "if (lane < some) {\n"
                        "UNROLL for (i32 n = lane + some; n < lanes; n += some) x = ",
                        name, type, name, type, type, name, type, type, type);
        fuse_render_join(op, "x", "all[n * step]", out);
        base_str_text(out, ";\nall[lane * step] = x;\n}\nBARRIER;\nx = all[0];\n"
                           "UNROLL for (i32 n = 1; n < some; n++) x = ");
        fuse_render_join(op, "x", "all[n * step]", out);
        base_str_text(out, ";\nBARRIER;\nreturn x;\n}\n#endif\n");
    }
}

static const char *const macros[][2] = {{"FORMED", "FORMED KERNEL"},
                                        {"LANE", "LANE 0"},
                                        {"LANES", "LANES 1"},
                                        {"MINE", "MINE 1"},
                                        {"JOIN", "JOIN(operation, type, x) (x)"},
                                        {"GROUP_BEGIN", "GROUP_BEGIN ITEM_BEGIN"}};
enum { N_MACROS = sizeof macros / sizeof *macros };

static void undefine(base_str *out) {
    for (size_t i = 0; i < N_MACROS; i++) base_str_format(out, "#undef %s\n", macros[i][0]);
}

/* Barriers are met by all: a work-item beyond the last iteration computes that, and writes nothing.
 */
static void render_in_groups(const fuse_kernel *k, const layout *x, base_str *out) {
    int lanes = (int)x->lanes, wide = (int)x->wide, some = 1;
    while (some * some < lanes) some *= 2;
    undefine(out);
    base_str_format(
        out,
        "#define FORMED KERNEL_OF(%d, %d)\n"
        "#define LANE LOCAL_%d\n#define LANES %d\n#define MINE mine\n#define SLICE GROUP_1\n"
        "#define JOIN(operation, type, x) join_##operation##_##type(x, "
        "(SHARED_POINTER(type))shared + LOCAL_%d * %d, LANE, LANES, %d, %d)\n"
        "#define GROUP_BEGIN SHARED u64 shared[%d];\\\n"
        "{ const i64 own = GROUP_0 * %d + LOCAL_%d; const i32 mine = own < items;\\\n"
        "const i64 item = mine ? own : items - 1; {\n",
        x->across ? wide : lanes, x->across ? lanes : wide, x->across, lanes, !x->across,
        x->across ? 1 : lanes, some, x->across ? wide : 1, lanes * wide, wide, !x->across);
    render_joins(k, out);
    fuse_render(k, &x->work, "NAME", out);
    undefine(out);
    base_str_text(out, "#undef SLICE\n");
    for (size_t i = 0; i < N_MACROS; i++) base_str_format(out, "#define %s\n", macros[i][1]);
}

/* ---- launches ---- */

static shoal_status add(gpu_program *p, const fuse_kernel *k, const layout *x, const uint32_t *args,
                        uint32_t n_reads, gpu_launch **out) {
    bool groups = x->lanes * x->wide > 1;
    int64_t items = fuse_items(k), each = k->passes ? 1 : x->work.each;
    uint32_t scratch = 0;
    gpu_launch *launch;
    base_str text;
    for (uint32_t i = 0; i < k->n_operations && x->work.stage; i++)
        scratch += is_reduction(&k->operations[i]);
    base_str_init(&text);
    if (groups)
        render_in_groups(k, x, &text);
    else
        fuse_render(k, &x->work, "NAME", &text);
    SHOAL_TRY(gpu_launch_new(p, &text, args, n_reads, k->n_stores, scratch, &launch));
    launch->formed = k;
    gpu_spread(p, launch, (items + each - 1) / each);
    launch->items = items;
    if (groups) {
        launch->local[x->across] = x->lanes;
        launch->local[!x->across] = x->wide;
        launch->global[0] = ((size_t)items + x->wide - 1) / x->wide * launch->local[0];
        launch->global[1] = launch->local[1];
        if (x->work.stage == FUSE_PARTS) launch->global[1] *= x->work.slices;
    }
    *out = launch;
    return SHOAL_OK;
}

/* Sums of slices, and what joins them. */
static shoal_status add_in_slices(gpu_program *p, const fuse_kernel *k, const layout *parts,
                                  const uint32_t *args, uint32_t n_reads) {
    const layout join = layout_of_join(p->device, k, parts);
    uint32_t first = p->n_launches, n = 0;
    gpu_launch *launch;
    SHOAL_TRY(add(p, k, parts, args, n_reads, &launch));
    launch->kept = 1;
    for (uint32_t i = 0; i < k->n_operations; i++) {
        if (!is_reduction(&k->operations[i])) continue;
        size_t unit = shoal_dtype_size(k->operations[i].sum);
        launch->scratch[n].unit = unit;
        launch->scratch[n++].bytes = (size_t)launch->items * parts->work.slices * unit;
    }
    SHOAL_TRY(add(p, k, &join, args, n_reads, &launch));
    launch->shared = first + 1;
    return SHOAL_OK;
}

shoal_status gpu_kernel_add(gpu_program *p, const fuse_kernel *k) {
    const layout x = layout_of(p->device, k);
    uint32_t *args = base_arena_array(&p->arena, uint32_t, k->n_loads + k->n_stores + (size_t)1);
    uint32_t n = 0;
    gpu_launch *launch;
    if (!args) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (is_memory(&k->loads[i])) args[n++] = k->loads[i].value;
    for (uint32_t i = 0; i < k->n_stores; i++) args[n + i] = k->stores[i].value;
    return x.work.stage ? add_in_slices(p, k, &x, args, n) : add(p, k, &x, args, n, &launch);
}
