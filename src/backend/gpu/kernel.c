/* Launches of what fuse has formed: one work-item for each iteration; of a reduction also a group,
 * whose work-items share the reduced loops and join what they found in local memory. */
#include "backend/gpu/gpu.h"

static int64_t reduced_count(const fuse_kernel *k) {
    int64_t count = 1;
    for (uint32_t l = 0; l < k->n_loops; l++)
        if (k->loops[l].reduced) count *= k->loops[l].extent;
    return count;
}

static bool is_reduction(const fuse_operation *op) { return op->op == GRAPH_REDUCE; }

/* Groups pay where there are more work-items than iterations to give them. A core that runs a whole
 * group has vectors for it, but no more cores. */
static bool takes_groups(const shoal_device *device, const fuse_kernel *k) {
    if (!k->passes || reduced_count(k) < 2 * GPU_GROUP || device->most_local < GPU_GROUP)
        return false;
    /* The sum of truth values is "or", which bytes do not show. */
    for (uint32_t i = 0; i < k->n_operations; i++)
        if (is_reduction(&k->operations[i]) && k->operations[i].sum == SHOAL_BOOL) return false;
    return !device->is_cpu || fuse_items(k) < (int64_t)device->units * GPU_GROUP;
}

/* The functions that JOIN names, once per program. */
static void render_joins(const fuse_kernel *k, base_str *out) {
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        if (!is_reduction(op)) continue;
        const char *name = shoal_op_name(op->combine), *type = fuse_register_type(op->sum);
        base_str_format(out,
                        "#ifndef JOIN_%s_%s\n#define JOIN_%s_%s\n"
                        "FUNCTION %s join_%s_%s(%s x, SHARED_POINTER(%s) all) {\n"
                        "all[LANE] = x;\n"
                        "for (i32 n = LANES / 2; n; n /= 2) {\n"
                        "BARRIER;\n"
                        "if (LANE < n) { const %s a = all[LANE], b = all[LANE + n]; all[LANE] = ",
                        name, type, name, type, type, name, type, type, type, type);
        fuse_render_join(op, "a", "b", out);
        base_str_text(out, "; }\n}\nBARRIER;\nx = all[0];\n"
                           "BARRIER;\nreturn x;\n}\n#endif\n");
    }
}

static void undefine(base_str *out) {
    base_str_text(out, "#undef LANE\n#undef LANES\n#undef JOIN\n#undef GROUP_BEGIN\n");
}

static void render_in_groups(const fuse_kernel *k, base_str *out) {
    undefine(out);
    base_str_format(out,
                    "#define LANE LOCAL_0\n#define LANES %d\n"
                    "#define JOIN(operation, type, x) "
                    "join_##operation##_##type(x, (SHARED_POINTER(type))shared)\n"
                    "#define GROUP_BEGIN SHARED u64 shared[LANES];\\\n"
                    "{ i64 item = GROUP_0; if (item < items) {\n",
                    GPU_GROUP);
    render_joins(k, out);
    fuse_render(k, "NAME", out);
    undefine(out);
    base_str_text(out, "#define LANE 0\n#define LANES 1\n#define JOIN(operation, type, x) (x)\n"
                       "#define GROUP_BEGIN ITEM_BEGIN\n");
}

shoal_status gpu_kernel_add(gpu_program *p, const fuse_kernel *k) {
    bool groups = takes_groups(p->device, k);
    uint32_t *args = base_arena_array(&p->arena, uint32_t, k->n_loads + k->n_stores + (size_t)1);
    uint32_t n = 0;
    gpu_launch *launch;
    base_str text;
    if (!args) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (k->loads[i].kind == FUSE_MEMORY || k->loads[i].kind == FUSE_RESULT)
            args[n++] = k->loads[i].value;
    for (uint32_t i = 0; i < k->n_stores; i++) args[n + i] = k->stores[i].value;
    base_str_init(&text);
    if (groups)
        render_in_groups(k, &text);
    else
        fuse_render(k, "NAME", &text);
    SHOAL_TRY(gpu_launch_new(p, &text, args, n, k->n_stores, 0, &launch));
    launch->formed = k;
    gpu_spread(p, launch, fuse_items(k));
    if (groups) {
        launch->local[0] = GPU_GROUP;
        launch->global[0] = (size_t)launch->items * GPU_GROUP;
    }
    return SHOAL_OK;
}
