/* Random numbers, as ref/random.c makes them: each work-item makes the block of its element anew.
 * Normal ones, whose logarithms and cosines are in f64, are left to the processor. */
#include "backend/gpu/gpu.h"

bool gpu_random_fits(const shoal_graph *g, const shoal_node *node) {
    return node->op == GRAPH_RANDOM &&
           shoal_node_attr(node, SHOAL_ATTR_RNG_DISTRIBUTION)->u.string[0] != 'N';
}

/* `number`: of the element, in the whole tensor of which this may be a part. */
static void render_number(const shoal_node *node, const shoal_type *type, base_str *out) {
    const shoal_attr *start = shoal_node_attr(node, SHOAL_ATTR_START_INDICES);
    const shoal_attr *whole = shoal_node_attr(node, SHOAL_ATTR_WHOLE_SHAPE);
    if (!start || !whole) {
        base_str_text(out, "const u64 number = (u64)item;\n");
        return;
    }
    int64_t apart = 1;
    base_str_text(out, "i64 rest = item;\nu64 number = 0;\n");
    for (uint32_t i = type->rank; i-- > 0; apart *= whole->u.ints[i])
        base_str_format(out, "number += (u64)(rest %% %lld + %lld) * %lluu; rest /= %lld;\n",
                        (long long)type->dims[i], (long long)start->u.ints[i],
                        (unsigned long long)apart, (long long)type->dims[i]);
}

static void render_philox(base_str *out) {
    base_str_text(out, "#ifndef PHILOX\n#define PHILOX\n"
                       "FUNCTION void philox(u64 key, u64 block, u64 stream, u32 *w) {\n"
                       "u32 low = (u32)key, high = (u32)(key >> 32);\n"
                       "w[0] = (u32)block; w[1] = (u32)(block >> 32);\n"
                       "w[2] = (u32)stream; w[3] = (u32)(stream >> 32);\n"
                       "for (i32 round = 0; round < 10; round++) {\n"
                       "const u64 a = (u64)0xD2511F53u * w[0], b = (u64)0xCD9E8D57u * w[2];\n"
                       "w[0] = (u32)(b >> 32) ^ w[1] ^ low; w[2] = (u32)(a >> 32) ^ w[3] ^ high;\n"
                       "w[1] = (u32)b; w[3] = (u32)a;\n"
                       "low += 0x9E3779B9u; high += 0xBB67AE85u;\n"
                       "}\n}\n#endif\n");
}

/* As many of the upper bits as the mantissa holds. */
static void render_uniform(uint8_t dtype, base_str *out) {
    int kept = dtype == SHOAL_F16 ? 11 : dtype == SHOAL_BF16 ? 8 : dtype == SHOAL_F32 ? 24 : 53;
    int unused = (dtype == SHOAL_F64 ? 64 : 32) - kept;
    const char *type = fuse_register_type(dtype);
    char value[64];
    snprintf(value, sizeof value, "(%s)(bits >> %d) / (%s)((u64)1 << %d)", type, unused, type,
             kept);
    gpu_render_result(dtype, "item", value, out);
}

shoal_status gpu_random_add(gpu_program *p, const shoal_node *node) {
    const shoal_type *type = &p->g->values[node->first_output].type;
    const uint32_t args[] = {node->inputs[0], node->inputs[node->n_inputs - 1], node->first_output};
    bool wide = shoal_dtype_size((shoal_dtype)type->dtype) == 8;
    gpu_launch *launch;
    base_str text;
    base_str_init(&text);
    render_philox(&text);
    base_str_text(&text, "KERNEL NAME(");
    for (uint32_t i = 0; i < 2; i++)
        base_str_format(&text, "POINTER(const %s, x%u), ",
                        fuse_memory_type(p->g->values[args[i]].type.dtype), i);
    base_str_format(&text, "POINTER(%s, y0) PARAMETERS) {\nSTART(x0)\nSTART(x1)\nSTART(y0)\n",
                    fuse_memory_type(type->dtype));
    base_str_text(&text, "ITEM_BEGIN\n");
    render_number(node, type, &text);
    base_str_format(&text, "u32 w[4];\nphilox((u64)x0[0], number / %d, %s, w);\n", wide ? 2 : 4,
                    node->n_inputs > 1 ? "(u64)x1[0]" : "0");
    base_str_text(&text, wide ? "const i32 at = (i32)(number % 2) * 2;\n"
                                "const u64 bits = (u64)w[at] << 32 | w[at + 1];\n"
                              : "const u32 bits = w[number % 4];\n");
    if (shoal_node_attr(node, SHOAL_ATTR_RNG_DISTRIBUTION)->u.string[0] == 'U')
        render_uniform(type->dtype, &text);
    else
        base_str_format(&text, "y0[item] = (%s)(bits%s);\n", fuse_register_type(type->dtype),
                        type->dtype == SHOAL_BOOL ? " & 1" : "");
    base_str_text(&text, "ITEM_END\n}\n");
    SHOAL_TRY(gpu_launch_new(p, &text, args, 2, 1, 0, &launch));
    gpu_spread(p, launch, base_type_count(type));
    return SHOAL_OK;
}
