/* Operations of users that have source for the device (shoal/backend.h): their text, between what
 * it may use and a kernel that calls it for each element. */
#include "backend/custom.h"
#include "backend/gpu/gpu.h"

static bool is_half(const shoal_graph *g, uint32_t value) {
    uint8_t dtype = g->values[value].type.dtype;
    return dtype == SHOAL_F16 || dtype == SHOAL_BF16;
}

static const shoal_operation *operation_of(const shoal_node *node) {
    return backend_custom_find(shoal_node_attr(node, SHOAL_ATTR_NAME)->u.string);
}

bool gpu_custom_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    if (node->op != GRAPH_CUSTOM || is_half(g, node->first_output)) return false;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        if (is_half(g, node->inputs[i])) return false;
    const shoal_operation *operation = operation_of(node);
    return operation && device->driver->source_of(operation);
}

/* x0_t, x0_rank and x0_dims of a value. */
static void render_type(const shoal_type *type, char letter, uint32_t n, base_str *out) {
    base_str_format(out, "typedef %s %c%u_t;\n#define %c%u_rank %u\nCONSTANT i64 %c%u_dims[] = {",
                    fuse_memory_type(type->dtype), letter, n, letter, n, type->rank, letter, n);
    for (uint32_t a = 0; a < type->rank; a++)
        base_str_format(out, "%lld, ", (long long)type->dims[a]);
    base_str_text(out, "1};\n");
}

shoal_status gpu_custom_add(gpu_program *p, const shoal_node *node) {
    const shoal_operation *operation = operation_of(node);
    const shoal_type *type = &p->g->values[node->first_output].type;
    uint32_t n = node->n_inputs;
    uint32_t *args = base_arena_array(&p->arena, uint32_t, n + (size_t)1);
    gpu_launch *launch;
    base_str text;
    if (!args) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) args[i] = node->inputs[i];
    args[n] = node->first_output;
    base_str_init(&text);
    for (uint32_t i = 0; i < n; i++) render_type(&p->g->values[args[i]].type, 'x', i, &text);
    render_type(type, 'y', 0, &text);
    base_str_format(&text, "#line 1\n%s\nKERNEL NAME(", p->device->driver->source_of(operation));
    for (uint32_t i = 0; i < n; i++) base_str_format(&text, "POINTER(const x%u_t, x%u), ", i, i);
    base_str_text(&text, "POINTER(y0_t, y0) PARAMETERS) {\n");
    for (uint32_t i = 0; i < n; i++) base_str_format(&text, "START(x%u)\n", i);
    base_str_text(&text, "START(y0)\nITEM_BEGIN\noperation(item");
    for (uint32_t i = 0; i < n; i++) base_str_format(&text, ", x%u", i);
    base_str_text(&text, ", y0);\nITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_custom(p, &text, operation->name, args, n, &launch));
    gpu_spread(p, launch, base_type_count(type));
    return SHOAL_OK;
}
