/* Regions: the elementwise operations of a kernel (fuse/fuse.h), done together in tiles that stay
 * in the first cache, on numbers from memory or on their indices. Each operation is one call per
 * tile, so that fusing changes no bit.
 *
 * Axes that all sources step through alike are merged. Tiles end with the rows of the innermost
 * axis where these are long; else they run across rows, and sources that repeat are spread out
 * first. Results that are larger than the caches go to memory past them: nothing is read for what
 * is overwritten anyway. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>

enum {
    LONG_ROW = CPU_TILE / 4,
    STREAMED = 8 << 20, /* bytes of a result from which on it is streamed */
    GRAIN = 1 << 15,    /* elements: some 10 us of work, less than waking a thread twice */
};

static int float_of(uint8_t dtype) {
    return dtype == SHOAL_F32 ? CPU_F32 : dtype == SHOAL_F64 ? CPU_F64 : CPU_FLOATS;
}

/* Of a node's operation for elements of type `type`, in one table. */
static cpu_map_kernel find_map(const cpu_maps *maps, const shoal_node *node, uint8_t type) {
    static const char directions[6][3] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    const shoal_attr *form = shoal_node_attr(node, SHOAL_ATTR_APPROXIMATE);
    if (form && !strcmp(form->u.string, "tanh"))
        return (node->op == GRAPH_GELU ? maps->gelu_tanh : maps->gelu_tanh_gradient)[type];
    if (node->op != GRAPH_COMPARE) return maps->map[node->op][type];
    const char *direction = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    for (int i = 0; i < 6; i++)
        if (!strcmp(direction, directions[i])) return maps->compare[i][type];
    return NULL;
}

cpu_map_kernel cpu_map_kernel_of(const cpu_kernels *kernels, const shoal_graph *g,
                                 const shoal_node *node) {
    if (node->op >= GRAPH_OP_BUILT_IN || !node->n_inputs || node->n_inputs > CPU_MAX_OPERANDS)
        return NULL;
    uint8_t type = g->values[node->inputs[node->n_inputs - 1]].type.dtype;
    if (node->op == GRAPH_CONVERT)
        return kernels->convert[type][g->values[node->first_output].type.dtype];
    cpu_map_kernel kernel = NULL;
    for (int i = 0; i < CPU_MAPS && !kernel; i++) kernel = find_map(kernels->maps[i], node, type);
    return kernel;
}

cpu_map_kernel cpu_find_map(const cpu_kernels *kernels, uint16_t op, uint8_t dtype) {
    cpu_map_kernel kernel = NULL;
    for (int i = 0; i < CPU_MAPS && !kernel; i++) kernel = kernels->maps[i]->map[op][dtype];
    return kernel;
}

/* ---- building ---- */

typedef struct builder {
    cpu_program *p;
    const cpu_kernels *kernels;
    const fuse_kernel *kernel;
    cpu_region *region;
    bool busy[CPU_OPERATIONS]; /* per register */
    struct made {
        uint8_t to;
        uint32_t reads, last; /* by operations of the region, and the last of them */
        uint32_t store;       /* its result + 1; 0: nobody else reads it */
        uint32_t product;     /* of a sum: the operation whose product it adds + 1, */
        uint8_t side;         /* and which operand that is */
        bool within;          /* of such a product: it is no operation of its own */
    } made[CPU_OPERATIONS];
} builder;

/* The operations of a kernel that are done in tiles: a reduction comes behind them. */
static uint32_t n_operations(const fuse_kernel *k) { return k->n_operations - (k->passes > 0); }

static size_t element_bytes(uint8_t dtype) { return shoal_dtype_size((shoal_dtype)dtype); }

/* The operation that a number names, counted from 1; 0 for a load. */
static uint32_t maker(const builder *b, uint16_t number) {
    return number < b->kernel->n_loads ? 0 : number - b->kernel->n_loads + 1;
}

/* Loads are numbered in the order in which operations read them. */
static uint8_t source_of(builder *b, uint16_t load) {
    cpu_region *r = b->region;
    for (uint32_t i = 0; i < r->n_sources; i++)
        if (r->sources[i].load == load) return (uint8_t)i;
    const fuse_load *from = &b->kernel->loads[load];
    cpu_source *source = &r->sources[r->n_sources];
    *source = (cpu_source){.value = from->value, .load = load, .bytes = element_bytes(from->dtype)};
    memcpy(source->strides, from->index.strides, sizeof source->strides);
    if (from->kind == FUSE_POSITION) {
        source->counts = true;
        source->start = from->index.start;
        if (from->dtype != SHOAL_I64)
            source->count_in = b->kernels->convert[SHOAL_I64][from->dtype];
    }
    return (uint8_t)r->n_sources++;
}

static uint8_t take_register(builder *b) {
    uint32_t i = 0;
    while (b->busy[i]) i++;
    b->busy[i] = true;
    if (i >= b->region->n_registers) b->region->n_registers = i + 1;
    return (uint8_t)(CPU_AT_REGISTER + i);
}

/* Where what is stored is written: at once, or by way of a register that is kept to the end of the
 * tile. */
static uint8_t target_of_store(builder *b, uint32_t number) {
    cpu_region *r = b->region;
    const fuse_store *store = &b->kernel->stores[number];
    cpu_result *result = &r->results[number];
    *result = (cpu_result){.value = store->value, .bytes = element_bytes(store->dtype), .from = -1};
    if (base_type_bytes(&b->p->g->values[store->value].type) < STREAMED)
        return (uint8_t)(CPU_AT_RESULT + number);
    uint8_t at = take_register(b);
    result->from = at - CPU_AT_REGISTER;
    return at;
}

/* Where operation i writes. */
static uint8_t target_of(builder *b, uint32_t i) {
    if (!b->made[i].store) return take_register(b);
    uint8_t at = target_of_store(b, b->made[i].store - 1);
    if (at < CPU_AT_RESULT) b->made[i].last = UINT32_MAX;
    return at;
}

/* Finds who reads what, and products that only one sum reads, or one difference takes away: both
 * are one operation. */
static void find_reads(builder *b) {
    const fuse_kernel *k = b->kernel;
    for (uint32_t i = 0; i < k->n_stores; i++) {
        uint32_t from = maker(b, k->stores[i].from);
        if (from && from <= n_operations(k)) b->made[from - 1].store = i + 1;
    }
    for (uint32_t i = 0; i < n_operations(k); i++)
        for (uint32_t a = 0; a < k->operations[i].n_args; a++) {
            uint32_t from = maker(b, k->operations[i].args[a]);
            if (!from) continue;
            b->made[from - 1].last = i;
            b->made[from - 1].reads++;
        }
    for (uint32_t i = 0; i < n_operations(k); i++) {
        const fuse_operation *sum = &k->operations[i];
        uint32_t first = sum->op == GRAPH_ADD ? 0 : sum->op == GRAPH_SUBTRACT ? 1 : 2;
        for (uint32_t a = first; a < 2 && !b->made[i].product; a++) {
            uint32_t from = maker(b, sum->args[a]);
            const fuse_operation *factor = from ? &k->operations[from - 1] : NULL;
            if (!factor || factor->op != GRAPH_MULTIPLY || b->made[from - 1].reads > 1 ||
                b->made[from - 1].store || float_of(sum->dtype) == CPU_FLOATS)
                continue;
            b->made[i].product = from;
            b->made[i].side = (uint8_t)a;
            b->made[from - 1].within = true;
            /* What the product is made of is read here, and not before. */
            for (uint32_t f = 0; f < 2; f++) {
                uint32_t of = maker(b, factor->args[f]);
                if (of && b->made[of - 1].last < i) b->made[of - 1].last = i;
            }
        }
    }
}

/* What operation i reads, what a product within it does first. */
static uint32_t operands_of(const builder *b, uint32_t i, uint16_t out[CPU_MAX_OPERANDS]) {
    const fuse_operation *op = &b->kernel->operations[i];
    if (!b->made[i].product) {
        memcpy(out, op->args, op->n_args * sizeof *out);
        return op->n_args;
    }
    const fuse_operation *factor = &b->kernel->operations[b->made[i].product - 1];
    out[0] = factor->args[0];
    out[1] = factor->args[1];
    out[2] = op->args[1 - b->made[i].side];
    return 3;
}

/* Frees the registers that operation i reads last, of elements at least as wide as `width` or of
 * narrower ones. */
static void free_registers(builder *b, uint32_t i, const uint16_t *operands, uint32_t n,
                           size_t width, bool at_least) {
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = maker(b, operands[k]);
        if (!from || b->made[from - 1].last > i || b->made[from - 1].to >= CPU_AT_RESULT) continue;
        if ((element_bytes(b->kernel->operations[from - 1].dtype) >= width) != at_least) continue;
        b->busy[b->made[from - 1].to - CPU_AT_REGISTER] = false;
    }
}

static void add_operation(builder *b, uint32_t i) {
    const cpu_kernels *kernels = b->kernels;
    const fuse_operation *from_op = &b->kernel->operations[i];
    uint16_t operands[CPU_MAX_OPERANDS];
    uint32_t n = operands_of(b, i, operands);
    cpu_operation *op = &b->region->operations[b->region->n_operations++];
    *op = (cpu_operation){.kernel = cpu_map_kernel_of(kernels, b->p->g, from_op->node),
                          .n_operands = (uint8_t)n};
    if (b->made[i].product)
        op->kernel =
            (from_op->op == GRAPH_ADD ? kernels->multiply_add
                                      : kernels->multiply_subtract)[float_of(from_op->dtype)];
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = maker(b, operands[k]);
        op->operands[k] = from ? b->made[from - 1].to : source_of(b, operands[k]);
    }
    /* A kernel may write over what it reads, unless it writes wider elements than it reads: these
     * would run ahead. */
    size_t width = element_bytes(from_op->dtype);
    free_registers(b, i, operands, n, width, true);
    op->to = b->made[i].to = target_of(b, i);
    free_registers(b, i, operands, n, width, false);
}

#define COPY(bytes)                                                                                \
    static void copy_##bytes(void *to, const void *const *in, int64_t n, unsigned scalars,         \
                             const char *ahead) {                                                  \
        memcpy(to, in[0], (size_t)n *bytes);                                                       \
    }
COPY(1)
COPY(2)
COPY(4)
COPY(8)

/* A load that is a result as it is, or what a reduction joins: what counts is, which no tile has as
 * one element for all. */
static void add_copy(builder *b, uint16_t load, uint8_t to) {
    size_t bytes = element_bytes(b->kernel->loads[load].dtype);
    b->region->operations[b->region->n_operations++] =
        (cpu_operation){.kernel = bytes == 1   ? copy_1
                                  : bytes == 2 ? copy_2
                                  : bytes == 4 ? copy_4
                                               : copy_8,
                        .n_operands = 1,
                        .operands = {source_of(b, load)},
                        .to = to};
}

static void add_copies(builder *b) {
    const fuse_kernel *k = b->kernel;
    for (uint32_t i = 0; i < k->n_stores; i++)
        if (!maker(b, k->stores[i].from)) add_copy(b, k->stores[i].from, target_of_store(b, i));
    if (k->passes && !n_operations(k)) add_copy(b, k->operations[0].args[0], take_register(b));
}

/* Tiles know of no reduced loops, which are kept apart in a kernel. */
static void merge_axes(cpu_region *r) {
    int64_t *strides[CPU_SOURCES];
    for (uint32_t k = 0; k < r->n_sources; k++) strides[k] = r->sources[k].strides;
    uint32_t n = r->rank = fuse_merge_loops(r->rank, r->dims, NULL, strides, r->n_sources);
    r->by_rows = !n || n == 1 || r->dims[n - 1] >= LONG_ROW;
    for (uint32_t k = 0; k < r->n_sources; k++) {
        cpu_source *source = &r->sources[k];
        int64_t stride = 1;
        source->dense = source->scalar = true;
        for (uint32_t i = n; i-- > 0; stride *= r->dims[i]) {
            source->dense &= source->strides[i] == stride;
            source->scalar &= source->strides[i] == 0;
        }
    }
}

/* The processor's own prefetching starts anew with every tile, so that short operations which read
 * memory wait for it. A later one that computes for long can ask for the next tile meanwhile; when
 * it is the first to read, there is nothing to gain. */
static int find_carrier(const cpu_region *r, const cpu_kernels *kernels) {
    bool waits = false;
    if (!r->sources[0].dense || r->sources[0].counts || r->sources[0].bytes != 4) return -1;
    for (uint32_t i = 0; i < r->n_operations; i++) {
        const cpu_operation *op = &r->operations[i];
        if (waits && kernels->computes_long(op->kernel)) return (int)i;
        for (uint32_t k = 0; k < op->n_operands; k++) waits |= op->operands[k] == 0;
    }
    return -1;
}

shoal_status cpu_region_prepare(cpu_program *p, const cpu_kernels *kernels,
                                const fuse_kernel *kernel, cpu_region *r) {
    cpu_source sources[CPU_SOURCES];
    cpu_result results[CPU_OPERATIONS];
    builder b = {.p = p, .kernels = kernels, .kernel = kernel, .region = r};
    *r = (cpu_region){
        .kernel = kernel, .rank = kernel->n_loops, .sources = sources, .results = results};
    for (uint32_t i = 0; i < r->rank; i++) r->dims[i] = kernel->loops[i].extent;
    if (!kernel->passes) r->n_results = kernel->n_stores; /* else a reduction's */
    r->operations =
        base_arena_array(&p->arena, cpu_operation, kernel->n_operations + kernel->n_stores);
    if (!r->operations) return SHOAL_NO_MEMORY;
    find_reads(&b);
    for (uint32_t i = 0; i < n_operations(kernel); i++)
        if (!b.made[i].within) add_operation(&b, i);
    add_copies(&b);
    merge_axes(r);
    r->carrier = find_carrier(r, kernels);
    /* Pieces of a reduction are cut as it needs them, not where rows end. */
    if (kernel->passes) r->by_rows = r->rank <= 1;
    r->sources = base_arena_copy(&p->arena, sources, r->n_sources * sizeof *sources);
    r->results = base_arena_copy(&p->arena, results, r->n_results * sizeof *results);
    return r->sources && r->results ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Sources that are spread out, or count, have a register of their own behind the others. */
static bool is_spread(const cpu_region *r, const cpu_source *source) {
    return source->counts || (!r->by_rows && !source->dense && !source->scalar);
}

size_t cpu_region_scratch(const cpu_region *r) {
    size_t registers = r->n_registers;
    for (uint32_t k = 0; k < r->n_sources; k++) registers += is_spread(r, &r->sources[k]);
    return registers * CPU_REGISTER;
}

bool cpu_region_may_overwrite(const cpu_program *p, const cpu_region *r, uint32_t result,
                              uint32_t root) {
    const cpu_result *to = &r->results[result];
    uint32_t writer = 0;
    while (to->from < 0 && r->operations[writer].to != CPU_AT_RESULT + result) writer++;
    for (uint32_t k = 0; k < r->n_sources; k++) {
        const cpu_source *source = &r->sources[k];
        if (source->counts || p->plan.values[source->value].root != root) continue;
        if (!fuse_may_overwrite(r->kernel, result, source->load)) return false;
        for (uint32_t i = writer + 1; i < r->n_operations && to->from < 0; i++)
            for (uint32_t o = 0; o < r->operations[i].n_operands; o++)
                if (r->operations[i].operands[o] == k) return false;
    }
    return true;
}

/* ---- running ---- */

typedef struct job {
    const cpu_run *run;
    const cpu_region *region;
    int64_t count, row, tiles_per_row; /* elements; of a row, or of all; tiles of one */
    char *scratch;
    size_t scratch_each;
} job;

/* Where the row that element `at` lies in begins in a source. */
static int64_t row_offset(const cpu_region *r, const cpu_source *source, int64_t at) {
    int64_t offset = 0, rest = at / (r->rank ? r->dims[r->rank - 1] : 1);
    for (uint32_t i = r->rank; i-- > 1; rest /= r->dims[i - 1])
        offset += rest % r->dims[i - 1] * source->strides[i - 1];
    return offset;
}

/* One element n times. */
static void repeat(char *to, const char *element, int64_t n, size_t bytes) {
    switch (bytes) {
#define REPEAT(type)                                                                               \
    {                                                                                              \
        type x;                                                                                    \
        memcpy(&x, element, sizeof x);                                                             \
        for (int64_t i = 0; i < n; i++) ((type *)to)[i] = x;                                       \
        break;                                                                                     \
    }
    case 1: REPEAT(uint8_t)
    case 2: REPEAT(uint16_t)
    case 4: REPEAT(uint32_t)
    default: REPEAT(uint64_t)
#undef REPEAT
    }
}

/* n numbers from `first` on, that are `step` apart. */
static void count(void *to, int64_t first, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++) ((int64_t *)to)[i] = first + i * step;
}

/* Elements [at, at + n) of a source that repeats, or counts, one after another. */
static void spread(const cpu_region *r, const cpu_source *source, const char *from, int64_t at,
                   int64_t n, char *to) {
    int64_t row = r->rank ? r->dims[r->rank - 1] : 1;
    int64_t inner = r->rank ? source->strides[r->rank - 1] : 0;
    int64_t inside = at % row, offset = row_offset(r, source, at);
    size_t bytes = source->counts ? sizeof(int64_t) : source->bytes;
    char *numbers = to;
    for (int64_t end = at + n, some; at < end; at += some, inside = 0) {
        some = row - inside < end - at ? row - inside : end - at;
        int64_t begin = offset + inside * inner;
        if (source->counts)
            count(to, source->start + begin, inner, some);
        else if (inner == 1)
            memcpy(to, from + (size_t)begin * bytes, (size_t)some * bytes);
        else
            repeat(to, from + (size_t)begin * bytes, some, bytes);
        to += (size_t)some * bytes;
        offset = r->rank == 2 ? offset + source->strides[0] : row_offset(r, source, at + some);
    }
    if (source->counts && source->count_in)
        source->count_in(numbers, (const void *const[]){numbers}, n, 0, NULL);
}

/* Points the sources at elements [at, at + n); returns the bits of those that are one element. */
static uint64_t aim_sources(const job *j, int64_t at, int64_t n, char *spare, char **where) {
    const cpu_region *r = j->region;
    uint64_t scalars = 0;
    for (uint32_t k = 0; k < r->n_sources; k++) {
        const cpu_source *source = &r->sources[k];
        char *data = j->run->at[source->value];
        if (source->counts) {
            spread(r, source, NULL, at, n, spare);
            where[k] = spare;
            spare += CPU_REGISTER;
        } else if (source->dense) {
            where[k] = data + (size_t)at * source->bytes;
        } else if (source->scalar) {
            where[k] = data;
            scalars |= UINT64_C(1) << k;
        } else if (r->by_rows) {
            int64_t inner = source->strides[r->rank - 1];
            where[k] =
                data + (size_t)(row_offset(r, source, at) + at % r->dims[r->rank - 1] * inner) *
                           source->bytes;
            if (!inner) scalars |= UINT64_C(1) << k;
        } else {
            spread(r, source, data, at, n, spare);
            where[k] = spare;
            spare += CPU_REGISTER;
        }
    }
    /* One element is no reason for the slower loops. */
    return n == 1 ? 0 : scalars;
}

/* Returns where the last operation wrote. */
static char *run_tile(const job *j, int64_t at, int64_t n, char *scratch) {
    const cpu_region *r = j->region;
    char *where[CPU_AT_RESULT + CPU_OPERATIONS];
    for (uint32_t i = 0; i < r->n_registers; i++)
        where[CPU_AT_REGISTER + i] = scratch + (size_t)i * CPU_REGISTER;
    uint64_t single = aim_sources(j, at, n, scratch + (size_t)r->n_registers * CPU_REGISTER, where);
    for (uint32_t i = 0; i < r->n_results; i++)
        where[CPU_AT_RESULT + i] =
            (char *)j->run->at[r->results[i].value] + (size_t)at * r->results[i].bytes;
    const char *ahead = at + 2 * n <= j->count ? where[0] + (size_t)n * r->sources[0].bytes : NULL;
    for (uint32_t i = 0; i < r->n_operations; i++) {
        const cpu_operation *op = &r->operations[i];
        const void *in[CPU_MAX_OPERANDS];
        unsigned scalars = 0;
        for (uint32_t k = 0; k < op->n_operands; k++) {
            uint8_t from = op->operands[k];
            in[k] = where[from];
            scalars |= (unsigned)(from < CPU_AT_REGISTER && single >> from & 1) << k;
        }
        op->kernel(where[op->to], in, n, scalars, (int)i == r->carrier ? ahead : NULL);
    }
    for (uint32_t i = 0; i < r->n_results; i++)
        if (r->results[i].from >= 0)
            j->run->device->kernels->stream(where[CPU_AT_RESULT + i],
                                            where[CPU_AT_REGISTER + r->results[i].from],
                                            (size_t)n * r->results[i].bytes);
    return where[r->operations[r->n_operations - 1].to];
}

const char *cpu_region_tile(const cpu_run *run, const cpu_region *r, int64_t at, int64_t n,
                            char *scratch) {
    job j = {.run = run, .region = r, .count = 1};
    for (uint32_t i = 0; i < r->rank; i++) j.count *= r->dims[i];
    return run_tile(&j, at, n, scratch);
}

static void run_tiles(void *context, uint32_t part, int64_t begin, int64_t end) {
    const job *j = context;
    char *scratch = j->scratch + part * j->scratch_each;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t inside = tile % j->tiles_per_row * CPU_TILE;
        int64_t at = tile / j->tiles_per_row * j->row + inside;
        run_tile(j, at, j->row - inside < CPU_TILE ? j->row - inside : CPU_TILE, scratch);
    }
    j->run->device->kernels->fence();
}

shoal_status cpu_region_run(const cpu_run *run, const cpu_step *step) {
    const cpu_region *r = &step->u.region;
    job j = {.run = run,
             .region = r,
             .count = 1,
             .scratch = run->workspace + r->scratch,
             .scratch_each = cpu_region_scratch(r)};
    for (uint32_t i = 0; i < r->rank; i++) j.count *= r->dims[i];
    if (!j.count) return SHOAL_OK;
    j.row = r->by_rows && r->rank ? r->dims[r->rank - 1] : j.count;
    j.tiles_per_row = (j.row + CPU_TILE - 1) / CPU_TILE;
    int64_t tiles = j.count / j.row * j.tiles_per_row;
    cpu_parallel(run->device, tiles, 1 + GRAIN / CPU_TILE / (int64_t)r->n_operations, run_tiles,
                 &j);
    return SHOAL_OK;
}
