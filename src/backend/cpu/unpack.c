/* Numbers of quantised blocks, with the bits of the decomposition. What is rounded to 16 bits, or
 * goes to memory past the caches, is made in tiles. */
#include "backend/cpu/cpu.h"

enum { GRAIN = 1 << 14, STREAMED = 8 << 20 };

const shoal_block_format *cpu_unpacked_format(const shoal_node *node, uint32_t *number) {
    if (node->op != GRAPH_DEQUANTIZE) return NULL;
    const shoal_attr *name = shoal_node_attr(node, SHOAL_ATTR_FORMAT);
    bool known = shoal_block_format_find(name->u.string, number) == SHOAL_OK;
    return known ? shoal_block_format_at(*number) : NULL;
}

bool cpu_unpack_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step) {
    uint32_t format;
    const shoal_block_format *f = cpu_unpacked_format(step->node, &format);
    if (!f) return false;
    const shoal_type *to = &program->g->values[step->node->first_output].type;
    step->u.unpack = (cpu_unpack){
        .decode = kernels->blocks[format].decode,
        .narrow = to->dtype == SHOAL_F32 ? NULL : kernels->convert[SHOAL_F32][to->dtype],
        .size = shoal_dtype_size((shoal_dtype)to->dtype),
        .values = f->values,
        .bytes = f->bytes,
        .blocks = base_type_count(to) / f->values};
    step->scratch_bytes = program->threads * CPU_TILE * (sizeof(float) + sizeof(float));
    step->run = cpu_unpack_run;
    return to->dtype == SHOAL_F32 || step->u.unpack.narrow;
}

typedef struct job {
    const cpu_unpack *unpack;
    const cpu_kernels *kernels;
    const uint8_t *from;
    char *to;
    float *scratch;
    bool streamed;
} job;

static void run_blocks(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    const cpu_unpack *u = j->unpack;
    float *tile = j->scratch + 2 * (size_t)part * CPU_TILE, *narrow = tile + CPU_TILE;
    int64_t most = CPU_TILE / u->values;
    for (int64_t at = begin; at < end; at += most) {
        int64_t blocks = end - at < most ? end - at : most, n = blocks * u->values;
        char *to = j->to + (size_t)(at * u->values) * u->size;
        const uint8_t *from = j->from + at * u->bytes;
        if (!u->narrow && !j->streamed) {
            u->decode(from, (float *)to, (size_t)blocks);
            continue;
        }
        void *made = j->streamed ? (void *)narrow : to;
        u->decode(from, tile, (size_t)blocks);
        if (u->narrow) u->narrow(made, (const void *const[]){tile}, n, 0, NULL);
        if (j->streamed) j->kernels->stream(to, u->narrow ? made : tile, (size_t)n * u->size);
    }
    if (j->streamed) j->kernels->fence();
}

shoal_status cpu_unpack_run(const cpu_run *run, const cpu_step *step) {
    const cpu_unpack *u = &step->u.unpack;
    job j = {.unpack = u,
             .kernels = run->device->kernels,
             .from = run->at[step->reads[0]],
             .to = run->at[step->writes[0]],
             .scratch = (float *)(run->workspace + step->scratch)};
    j.streamed = (size_t)(u->blocks * u->values) * u->size >= STREAMED;
    if (u->blocks) cpu_parallel(run->device, u->blocks, 1 + GRAIN / u->values, run_blocks, &j);
    return SHOAL_OK;
}
