/* The cpu backend: compiles a graph to a list of steps and runs them on a pool of threads.
 *
 * Reading order: device.c (the table, memory), plan.c (from graph to steps), place.c (where values
 * lie), then the steps: region.c (elementwise operations of a kernel), row.c (composites along
 * rows), attention.c, move.c (copies), index.c, reduce.c, dot.c with product.c, convolve.c with
 * convolve_run.c, window.c, order.c. kernels.c is compiled once per instruction set. What has no
 * fast step runs by the reference's kernel. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "backend/cache.h"
#include "backend/cpu/pools.h"
#include "backend/cpu/products.h"
#include "backend/fuse/fuse.h"
#include "backend/place.h"
#include "backend/ref/ref.h"
#include "base/block.h"
#include "base/pool.h"
#include "graph/graph.h"

extern const shoal_backend backend_cpu;

/* ---- kernels.c ---- */

/* n elements: out = op(in...). Bit i of `scalars`: operand i is one element for all. out may be an
 * operand. ahead: n times 4 bytes that will be read soon, or NULL; kernels that compute for long
 * ask for them meanwhile. */
typedef void (*cpu_map_kernel)(void *out, const void *const *in, int64_t n, unsigned scalars,
                               const char *ahead);
/* Per row of n > 0 elements, one after the other: acc[row] = op(x[0], …, x[n-1]), or with `more`
 * op(acc[row], x[0], …). Of 16-bit numbers acc is float. Elements are joined in blocks of
 * CPU_FOLD_BLOCK, so that several calls give the bits of one if all but the last take whole blocks.
 */
typedef void (*cpu_fold_kernel)(void *acc, const void *x, int64_t rows, int64_t n, bool more);
enum { CPU_FOLD_BLOCK = 512 };
/* c[m][n] = sum over k of a * b, for matrices with any strides (in elements); c has unit stride
 * along n. */
typedef void (*cpu_matmul_kernel)(int64_t m, int64_t n, int64_t k, const void *a,
                                  const int64_t *a_strides, const void *b, const int64_t *b_strides,
                                  void *c, int64_t c_stride);

/* One row of n elements of f32; what is not named by the operation's operands is NULL. */
typedef struct cpu_row_call {
    float *out;     /* a row; an element for cross_entropy; sums for gradients of scales */
    const float *x; /* a row; may be `out` */
    const float *g; /* a row; for cross_entropy_gradient an element */
    const float *scale, *bias; /* of the row's length, or NULL */
    int64_t n, label;          /* label: any number, -1 is no class */
    double epsilon;
} cpu_row_call;
typedef void (*cpu_row_kernel)(const cpu_row_call *call);

/* Rows of n scores, a query each, on their way to be softmax's weights; keys come in blocks. Rows
 * have room for whole groups of CPU_LANES elements, and so have those of masks. */
enum { CPU_LANES = 32 };
typedef struct cpu_scores {
    float *x;
    int64_t rows, n, row;       /* row: elements between rows */
    const int64_t *seen;        /* per row: keys from there on are hidden */
    float scale;                /* of the scores; then */
    const float *added;         /* this is added, */
    const uint8_t *flags;       /* or keys hidden where this is 0; NULL: not */
    int64_t mask_row;           /* elements between rows of either */
    float *most, *sum, *factor; /* per row, see below */
} cpu_scores;

/* Maps by the element type of the last operand; NULL: none. */
typedef struct cpu_maps {
    cpu_map_kernel map[GRAPH_OP_BUILT_IN][SHOAL_DTYPE_COUNT];
    cpu_map_kernel compare[6][SHOAL_DTYPE_COUNT]; /* EQ, NE, LT, LE, GT, GE */
    cpu_map_kernel gelu_tanh[SHOAL_DTYPE_COUNT], gelu_tanh_gradient[SHOAL_DTYPE_COUNT];
} cpu_maps;

enum { CPU_MAPS = 3 };

typedef struct cpu_kernels {
    const char *name;
    const cpu_maps *maps[CPU_MAPS];                     /* of kernels.c, integers.c, halves.c */
    const cpu_map_kernel (*convert)[SHOAL_DTYPE_COUNT]; /* [from][to]; NULL: none */
    const cpu_fold_kernel (*fold)[SHOAL_DTYPE_COUNT];   /* [operation][element type]; NULL: none */
    cpu_matmul_kernel matmul[SHOAL_DTYPE_COUNT];        /* NULL: none */
    const cpu_gemm *gemm[CPU_FLOATS];
    const cpu_grouped *bytes, *bfloats; /* to 32 bits, and to f32 */
    const cpu_taps *taps[CPU_FLOATS];
    const cpu_pools *pools;
    const ref_random_kernels *random;
    const cpu_block_kernel *blocks; /* per format */
    const cpu_digits_kernel *digits;
    /* Of three operands, two roundings: x y + z and z - x y. */
    cpu_map_kernel multiply_add[CPU_FLOATS], multiply_subtract[CPU_FLOATS];
    bool (*computes_long)(cpu_map_kernel kernel); /* those of functions.c */
    cpu_row_kernel row[GRAPH_OP_BUILT_IN];        /* of f32, along the last axis */
    /* What attention needs between its products, in f32 (weights.c). */
    /* Scores become weights e^(score - most), most being the largest so far; sum is that of
     * weights, factor what earlier ones are to be multiplied by. Begins with most = -infinity, sum
     * = 0; once these are final, so are weights but for 1 / sum. */
    void (*weigh)(const cpu_scores *scores);
    /* Weights become final, and their gradients w (moved - less) scale: those of products q k. */
    void (*turn)(const cpu_scores *scores, float *moved, const float *less);
    void (*scale_rows)(float *x, int64_t rows, int64_t n, const float *factors);
    void (*dot_rows)(const float *x, int64_t x_row, const float *y, int64_t y_row, int64_t rows,
                     int64_t n, float *out);
    /* memcpy past the caches, for what is not read again soon; then `fence`. */
    void (*stream)(void *to, const void *from, size_t bytes);
    void (*fence)(void);
} cpu_kernels;

/* ---- device.c ---- */

enum { CPU_MOST_SETS = 5 };
/* The kernels of the instruction sets that this processor has, the plainest first and the best
 * last; returns how many there are. */
size_t cpu_kernel_sets(const cpu_kernels *out[CPU_MOST_SETS]);

struct shoal_device {
    const shoal_host *host;
    base_pool *pool;
    const cpu_kernels *kernels;
    backend_cache cache; /* fresh pages are slow */
};

struct shoal_memory {
    void *data;
    size_t bytes;
    size_t room; /* of the block, which may be larger */
    bool imported;
};

/* The instruction set that a device opened now computes with, by name. Fails with INVALID where
 * SHOAL_CPU names none. */
shoal_status cpu_instructions(const char **out) SHOAL_CHECK_RESULT;

shoal_status cpu_memory_new(shoal_device *device, size_t bytes,
                            shoal_memory **out) SHOAL_CHECK_RESULT;
/* The same for the time of a run: programs with workspaces of several sizes share the largest. */
shoal_status cpu_workspace_new(shoal_device *device, size_t bytes,
                               shoal_memory **out) SHOAL_CHECK_RESULT;
void cpu_memory_free(shoal_device *device, shoal_memory *memory);

/* Calls work(context, part, begin, end) for parts of 0..count-1, on several threads where there are
 * at least two parts of `grain`. part counts from 0 and is below the number of threads. */
typedef void (*cpu_range)(void *context, uint32_t part, int64_t begin, int64_t end);
void cpu_parallel(shoal_device *device, int64_t count, int64_t grain, cpu_range work,
                  void *context);

/* ---- plan.c ---- */

enum { CPU_ALIGN = 64, CPU_MAX_OPERANDS = 3 };

/* Tiles are so many elements; a register holds one tile of elements of up to 8 bytes. */
enum { CPU_TILE = 1024, CPU_REGISTER = CPU_TILE * 8 };
/* Most operations and sources of a region. What an operation reads or writes is a number: a source,
 * or from these on a register, or a result. */
enum { CPU_OPERATIONS = 64, CPU_SOURCES = 40, CPU_AT_REGISTER = 64, CPU_AT_RESULT = 128 };

/* A region: the elementwise operations of a kernel, done tile by tile. Operands that come from
 * memory, or count, are sources, what stays within a tile is in registers, what leaves it is a
 * result. */
typedef struct cpu_source {
    uint32_t value, load;            /* the kernel's */
    size_t bytes;                    /* of an element */
    bool counts;                     /* an element is its index itself (FUSE_POSITION), */
    cpu_map_kernel count_in;         /* from int64 on; NULL: it is one */
    int64_t start;                   /* of what counts */
    int64_t strides[SHOAL_MAX_RANK]; /* over the region's axes, in elements; 0 repeats */
    bool dense, scalar;              /* else a broadcast along some axes */
} cpu_source;
typedef struct cpu_operation {
    cpu_map_kernel kernel;
    uint8_t n_operands, operands[CPU_MAX_OPERANDS], to;
} cpu_operation;
typedef struct cpu_result {
    uint32_t value; /* the kernel's */
    size_t bytes;
    int from; /* register that is streamed to memory; -1: its operation writes there */
} cpu_result;
typedef struct cpu_region {
    const fuse_kernel *kernel;
    uint32_t rank, n_sources, n_operations, n_results, n_registers;
    int64_t dims[SHOAL_MAX_RANK];
    int carrier;  /* operation that asks for the next tile of the first source, or -1 */
    bool by_rows; /* tiles end where rows of the innermost axis do */
    cpu_source *sources;
    cpu_operation *operations;
    cpu_result *results; /* in the order of the kernel's stores */
    size_t scratch;      /* offset in the workspace of the registers, thread after thread */
} cpu_region;

/* A reduction whose operand is seen as [outer, joined, inner]. Joined elements are taken in chunks,
 * each giving a partial result; chunks, and what else is joined among `outer`, are joined at the
 * end. All of this follows from the shape alone: no number of threads, and nothing that is fused or
 * not, changes a bit. */
typedef struct cpu_reduce {
    cpu_fold_kernel fold;
    cpu_map_kernel join, widen, narrow; /* widen, narrow: of 16-bit numbers, else NULL */
    size_t bytes, in_bytes, out_bytes;  /* of a partial result; of an element of the operand, and
                                           of the result */
    int64_t outer, joined, inner, chunk, n_chunks;
    ref_axes kept, rest; /* of the partial results: kept, and still to be joined */
    bool direct;         /* partial results are results, but for the initial value */
    size_t partial;      /* else: their offset in the workspace */
    cpu_region *region;  /* computes the operand, tile by tile; NULL: it lies in memory */
    size_t scratch;      /* offset of what each thread needs, see cpu_reduce_scratch */
} cpu_reduce;

/* One operand of a matrix product, as a strided matrix per batch. */
typedef struct cpu_matrix {
    int64_t row_stride, column_stride;
    bool pack;     /* copied by `view` to `scratch` first: it is no matrix, or has to be widened */
    bool is_dense; /* and `view` would copy it as it lies */
    ref_view view;
    int64_t count;        /* elements to copy */
    cpu_map_kernel widen; /* NULL: no conversion */
    size_t scratch; /* offset in the workspace: the copy, or the wide form and then the copy */
    size_t scratch_bytes;
} cpu_matrix;

/* How a product by a cpu_gemm is divided: k in parts of `depth`, n in parts of `width`, and of
 * these the parts of one thread are rows x columns, for `group` batches at a time. All of it but
 * the order of sums along k, which `depth` decides, is a matter of speed. */
typedef struct cpu_blocks {
    const cpu_gemm *gemm; /* NULL: none */
    /* What is multiplied: the operands, or, turned, both of them transposed and exchanged, which
     * gives the transposed result. */
    bool turned;
    int64_t m, n;
    int64_t lhs_strides[2], rhs_strides[2], out_strides[2];
    int64_t depth, width, rows, columns, group;
    bool pack_lhs, pack_rhs;
    bool own_rhs; /* each thread packs what it multiplies: bytes per thread on the right, too */
    size_t lhs, lhs_each, rhs, rhs_each; /* offsets in the workspace; bytes per thread, per batch */
    size_t decoded, decoded_each;        /* and of a panel of a right operand that is coded */
} cpu_blocks;

typedef struct cpu_dot {
    uint8_t dtype, operand_dtype; /* of what is computed, and of what is multiplied */
    int64_t m, n, k;
    ref_axes batch;
    cpu_matrix lhs, rhs;   /* m x k, k x n */
    cpu_map_kernel narrow; /* NULL: no conversion */
    size_t wide;           /* offset of the result before it is narrowed */
    cpu_blocks blocks;     /* unless a loop of our own is taken */
    /* Of an operand that is quantised blocks, row after row along k: what decodes them, and their
     * values and bytes. It is the right one as it is multiplied. NULL: none. */
    base_block_decode decode;
    int64_t values, bytes;
    bool turned; /* then: the left operand is */
} cpu_dot;

/* A convolution: a group's weights times the windows at its places, which are columns. An item is
 * the places of some batches, or some of one batch along the first axis. Their windows are done in
 * chunks: some channels, or some of one channel's window along the first axis, whose part of the
 * input is copied to a box first, with its padding. All of it follows from the shapes alone: no
 * number of threads changes a bit. */
enum { CPU_COPIED, CPU_TURNED, CPU_BY_PLACE, CPU_BY_WINDOW };
enum { CPU_BESIDE = 32 }; /* lanes at most */
typedef struct cpu_convolution {
    const ref_windows *windows;
    const cpu_gemm *gemm;
    const cpu_taps *taps;
    const cpu_pools *pools;
    cpu_map_kernel join;
    size_t bytes;                            /* of an element */
    uint8_t how;                             /* panels copied or turned and multiplied; sums */
    int64_t groups, features, batch, places; /* features, batch: of a group; places: of a batch */
    int64_t some_batch, some_first;          /* of an item, */
    int64_t across, items;                   /* and items along the first axis, and of a group */
    int64_t some_channels, some_window;      /* of a chunk, */
    int64_t chunks, parts;                   /* of a group; parts are summed apart */
    int64_t n, k, depth;                     /* most places of an item, elements of a window of a
                                                chunk, and of these at a time */
    int64_t phases;                          /* of the last axis, each with its elements in a row */
    int64_t box, box_batch, box_channel, box_steps[SHOAL_MAX_RANK]; /* in elements */
    int64_t *rows, *columns, *outs, *weights; /* offsets: in the box, the result, and the weights */
    int64_t weight_step; /* between elements of a window in the weights; 0: there is no one step */
    bool dense;          /* columns of a group lie side by side in the result */
    int64_t block;       /* rows that are packed together */
    size_t packed_each;  /* bytes of a packed block */
    size_t scratch_each, panels, raw, blocks, tile; /* of a thread, and offsets within */
} cpu_convolution;

/* A convolution of a dilated input is done without the zeros between its elements (polyphase
 * decomposition): at the places of one remainder, by the period of each axis, every so many
 * elements of the window meet elements of the input, which is a convolution that is not dilated. */
typedef struct cpu_remainder {
    int64_t number, first; /* first: element of the window that meets elements of the input */
    uint32_t shape;        /* of the axis: those of the same extents are prepared once */
} cpu_remainder;
typedef struct cpu_convolutions {
    ref_windows whole;
    struct {
        int64_t gap, period, every; /* dilation; of places, and of elements of the window */
        int64_t count;              /* remainders that meet elements of the input */
        uint32_t n_shapes;
        cpu_remainder *remainders;
    } axis[SHOAL_MAX_RANK];
    cpu_convolution *shapes; /* each shape of an axis with each of the next ones; NULL: no sums */
    uint32_t n_shapes;
    int64_t count;         /* remainders of all axes, */
    int64_t items, blocks; /* and of each at most: items, and blocks that are packed */
    bool dilated, zeros; /* zeros: some places meet no element of the input, or there are no sums */
    int64_t lanes; /* of results along the last axis that lie between each other: summed side by
                      side, and written together; 1: each is written where it belongs */
    const cpu_taps *taps;
    size_t bytes;                                /* of an element */
    cpu_map_kernel widen, narrow;                /* of 16-bit numbers, else NULL */
    size_t packed, packed_each, sums, sums_each; /* in the workspace; of each remainder */
    size_t scratch, scratch_each, lane_each;     /* of a thread: lanes, and what an item needs */
    size_t wide[3], wide_bytes[3]; /* offsets of widened operands, and of the result before */
} cpu_convolutions;

/* reduce_window and select_and_scatter. */
typedef struct cpu_window_axis {
    int64_t in, out, in_step, window, stride, before, base, gap; /* base, gap: dilations */
} cpu_window_axis;
typedef struct cpu_windows {
    const cpu_pools *pools;
    cpu_map_kernel join;
    size_t bytes;
    uint32_t rank, outer, apart; /* axes; those before a line's; those without a window in front */
    bool in_line;                /* windows reach along lines */
    uint8_t order;               /* what select_and_scatter selects */
    int64_t line, lines, elements;
    cpu_window_axis axis[SHOAL_MAX_RANK];
} cpu_windows;

/* gather and scatter. Places are the positions that have an index; a box is taken at each of them.
 * The first axes are those of places, the others the box's; elements along the last one, a run, are
 * side by side. Strides are in elements. */
typedef struct cpu_index_axis {
    int64_t size, result, index, operand; /* strides in the result, or updates, and so on */
} cpu_index_axis;
typedef struct cpu_indexing {
    cpu_list_kernel list;
    cpu_take_kernel take; /* of a gather */
    cpu_put_kernel put;   /* of a scatter, for single elements; NULL: by `join` */
    cpu_map_kernel join;  /* of a scatter; NULL: it overwrites */
    size_t bytes, index_bytes;
    uint32_t places, rank, n_chosen; /* axes: of places, of all */
    uint32_t cut;                    /* the axis that threads share */
    bool by_rows;  /* of a scatter: threads begin with the operand as they come to its parts */
    bool streamed; /* of a gather: the result goes past the caches */
    cpu_index_axis axis[SHOAL_MAX_RANK + 2];
    cpu_chosen chosen[SHOAL_MAX_RANK];
    int64_t index_step; /* from the index for one axis to that for the next */
    int64_t count;      /* elements of the result, or updates; by_rows: and of the operand */
} cpu_indexing;

/* What goes along the rows of one axis: `count` rows of `length` elements that are `inner` apart.
 */
typedef struct cpu_order {
    const cpu_pools *pools;
    cpu_fold_kernel fold; /* argmax, argmin */
    cpu_map_kernel join;  /* cumulate */
    cpu_map_kernel
        widen; /* sort, top_k: narrow elements to four bytes; argmax, argmin: elements to
                  the type that they are compared as; NULL: they are as they have to be */
    uint8_t dtype, as;
    bool falling;    /* the largest first */
    bool by_columns; /* argmax, argmin and cumulate: columns are looked at side by side */
    size_t bytes;
    int64_t count, length, inner;
    size_t scratch, scratch_each; /* offset in the workspace of what each thread needs */
} cpu_order;

/* while, if and case. */
typedef struct cpu_control {
    struct cpu_program **bodies;
    uint16_t n_bodies;
    size_t at, bytes; /* its part of the workspace: first that of the bodies, */
    size_t of_bodies; /* then values of `while` that change, */
    bool *stays;      /* but for those that are handed on as they are, or changed in place */
} cpu_control;

/* A composite along the rows of dense tensors. Sums over rows are made for `chunk` rows at a time,
 * then joined, so that no number of threads changes a bit. */
typedef struct cpu_row {
    cpu_row_kernel kernel;
    cpu_map_kernel widen, add; /* labels to int64; what joins sums */
    const char *roles;         /* per operand, see row.c */
    int64_t rows, n, chunk;
    double epsilon;
    int64_t ignored; /* label */
    bool ignores, element;
    size_t label_bytes;
} cpu_row;

/* Numbers of quantised blocks, float32 or narrowed. */
typedef struct cpu_unpack {
    base_block_decode decode;
    cpu_map_kernel narrow; /* NULL: no conversion */
    size_t size;           /* of a number */
    int64_t values, bytes, blocks;
} cpu_unpack;

/* A product of rows with quantised blocks. */
typedef struct cpu_packed {
    const cpu_block_kernel *kernel;
    const cpu_digits_kernel *digits; /* or NULL */
    cpu_matrix x;                    /* m rows */
    cpu_block_product product;
    size_t row;                      /* bytes of a row of blocks */
    size_t prepared, prepared_bytes; /* offset in the workspace; 0: rows are not prepared */
} cpu_packed;

typedef struct cpu_program cpu_program;
typedef struct cpu_step cpu_step;

typedef struct cpu_run {
    shoal_device *device;
    const cpu_program *program;
    void **at; /* per value */
    char *workspace;
} cpu_run;

struct cpu_step {
    shoal_status (*run)(const cpu_run *run, const cpu_step *step);
    const shoal_node *node; /* NULL: a region */
    uint32_t n_reads, n_writes;
    const uint32_t *reads, *writes; /* values */
    size_t scratch, scratch_bytes;  /* what a row or attention needs for itself: offset in the
                                       workspace, bytes */
    union {
        cpu_region region;
        cpu_row row;
        cpu_unpack unpack;
        cpu_packed packed;
        cpu_reduce reduce;
        cpu_dot dot;
        cpu_convolutions *convolutions;
        cpu_control control;
        cpu_windows *windows;
        cpu_indexing *indexing;
        struct cpu_attention *attention;
        cpu_order order;
    } u;
};

struct cpu_program {
    graph *graph; /* a copy: the caller's may go */
    const shoal_graph *g;
    base_arena arena;
    fuse_plan plan;
    uint32_t *packed; /* per node: of a product with blocks the node that decodes them, of that
                         and of one that only products of bytes read itself; else SHOAL_NO_NODE */
    backend_place *values;
    void **at; /* of the run that is going on: per value, its address */
    cpu_step *steps;
    uint32_t n_steps;
    uint32_t threads;
    size_t workspace;
};

/* The value in whose memory a value lies. */
static inline uint32_t cpu_root_of(const cpu_program *p, uint32_t value) {
    return p->plan.values[value].root;
}

/* Whether a node runs here: primitives at least by the reference's kernel, composites only by one
 * of our own. */
bool cpu_supports(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
shoal_status cpu_program_new(shoal_device *device, const shoal_graph *g,
                             const shoal_compile_options *options, shoal_compile_report *report,
                             cpu_program **out) SHOAL_CHECK_RESULT;
void cpu_program_destroy(cpu_program **program);
/* at: the addresses of inputs and outputs. */
shoal_status cpu_program_run(shoal_device *device, const cpu_program *program,
                             void *const *buffers) SHOAL_CHECK_RESULT;
/* The same in memory of the caller: program->workspace bytes. */
shoal_status cpu_program_run_in(shoal_device *device, const cpu_program *program,
                                void *const *buffers, char *workspace) SHOAL_CHECK_RESULT;

/* ---- place.c ---- */

/* Gives every value its memory, and steps their part of the workspace. in_place: as
 * shoal_compile_report has it, or NULL; frozen: inputs that may not be written, or NULL. */
shoal_status cpu_place_values(cpu_program *program, const bool *frozen,
                              int32_t *in_place) SHOAL_CHECK_RESULT;

/* ---- region.c ---- */

/* Whether a node is elementwise with a kernel; its operands may then be views. */
cpu_map_kernel cpu_map_kernel_of(const cpu_kernels *kernels, const shoal_graph *g,
                                 const shoal_node *node);
/* The kernel of an operation without attributes, for operands of one element type; NULL: none. */
cpu_map_kernel cpu_find_map(const cpu_kernels *kernels, uint16_t op, uint8_t dtype);
/* Makes a region of a kernel's operations, but for a reduction that ends it. */
shoal_status cpu_region_prepare(cpu_program *program, const cpu_kernels *kernels,
                                const fuse_kernel *kernel, cpu_region *region) SHOAL_CHECK_RESULT;
/* Bytes of one thread's registers. */
size_t cpu_region_scratch(const cpu_region *region);
/* Whether result number `result` may be written over the memory of value `root`: each element of
 * that is read before the same element is written. */
bool cpu_region_may_overwrite(const cpu_program *program, const cpu_region *region, uint32_t result,
                              uint32_t root);
shoal_status cpu_region_run(const cpu_run *run, const cpu_step *step);
/* Elements [at, at + n) of what a reduction joins, in the scratch memory; n <= CPU_TILE. */
const char *cpu_region_tile(const cpu_run *run, const cpu_region *region, int64_t at, int64_t n,
                            char *scratch);

/* ---- steps: what prepares them (false: no fast step) and what runs them ---- */

bool cpu_row_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step);
shoal_status cpu_row_run(const cpu_run *run, const cpu_step *step);

/* ---- unpack.c ---- */

/* The format that a node's numbers are decoded from; NULL: it is no such node. */
const shoal_block_format *cpu_unpacked_format(const shoal_node *node, uint32_t *number);
bool cpu_unpack_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step);
shoal_status cpu_unpack_run(const cpu_run *run, const cpu_step *step) SHOAL_CHECK_RESULT;

/* ---- packed.c ---- */

/* Has nodes that widen bytes for products alone as steps of their own. */
void cpu_packed_choose(const cpu_kernels *kernels, const shoal_graph *g, fuse_choice *choices);
/* Finds the products with blocks, and of bytes, that nobody else reads, whose numbers then never go
 * to memory: program->packed. */
shoal_status cpu_packed_find(const cpu_kernels *kernels, cpu_program *program);
shoal_status cpu_packed_prepare(const cpu_kernels *kernels, cpu_program *program, cpu_step *step);
shoal_status cpu_packed_run(const cpu_run *run, const cpu_step *step);

/* Whether attention, or its gradient, runs here: of f32. Its operands q, k, v, and the gradient and
 * result, may be any views: operand number `input`. */
bool cpu_attention_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
bool cpu_attention_reads_view(const shoal_node *node, uint32_t input);
shoal_status cpu_attention_prepare(const cpu_kernels *kernels, cpu_program *program,
                                   cpu_step *step) SHOAL_CHECK_RESULT;

bool cpu_reduce_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
/* region: computes the operand, which nobody else reads; NULL: it lies in memory, and is what the
 * step reads first. That may be 16-bit numbers which the node's own operand is made of by widening
 * them. */
void cpu_reduce_prepare(const cpu_kernels *kernels, const cpu_program *program,
                        const shoal_node *node, cpu_region *region, cpu_step *step);
/* Bytes that each thread needs, and those of partial results. */
size_t cpu_reduce_scratch(const cpu_reduce *reduce);
size_t cpu_reduce_partial(const cpu_reduce *reduce);
shoal_status cpu_reduce_run(const cpu_run *run, const cpu_step *step);

/* The axes of a product, with the strides of its operands where they lie. */
ref_dot cpu_dot_axes(const cpu_program *p, const shoal_node *node);
/* Whether axes are one axis to an operand; *stride is its stride, 0 for at most one element. */
bool cpu_axes_collapse(const ref_axes *axes, int side, int64_t *stride);
/* Makes the operand a dense copy of itself, batch by batch, `columns` being its last axis. */
void cpu_matrix_pack(cpu_matrix *x, ref_axes *batch, const ref_axes *rows, const ref_axes *columns,
                     int side);
/* Elements of one type as those of another, by all threads. */
void cpu_convert(shoal_device *device, cpu_map_kernel kernel, const char *from, size_t from_bytes,
                 char *to, size_t to_bytes, int64_t count);
/* An operand as the product wants it; `bytes` are those of its elements in memory. */
const char *cpu_matrix_ready(const cpu_run *run, const cpu_matrix *x, const char *data,
                             size_t bytes);
bool cpu_dot_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
shoal_status cpu_dot_prepare(const cpu_kernels *kernels, cpu_program *program, cpu_step *step);
/* A product whose operand number `side` is blocks; step->node is set. */
void cpu_dot_prepare_decoded(const cpu_kernels *kernels, const cpu_program *p, int side,
                             base_block_number format, cpu_step *step);
shoal_status cpu_dot_run(const cpu_run *run, const cpu_step *step);
/* Whether a node makes 32 bits of bytes, and a product may take the bytes of both operands. */
bool cpu_widens_bytes(const shoal_graph *g, const shoal_node *node);
bool cpu_dot_takes_bytes(const cpu_kernels *kernels, const cpu_program *p, const shoal_node *node);
shoal_status cpu_widen_run(const cpu_run *run, const cpu_step *step);

/* Numbers along axes, the last one the fastest. */
void cpu_split(int64_t number, uint32_t n, const int64_t *sizes, int64_t *index);
bool cpu_convolve_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
shoal_status cpu_convolve_prepare(const cpu_kernels *kernels, cpu_program *program,
                                  cpu_step *step) SHOAL_CHECK_RESULT;
/* What an axis is at the places of a remainder; rhs, out: where weights and results begin. */
ref_windows_axis cpu_convolve_axis(const cpu_convolutions *all, uint32_t axis,
                                   const cpu_remainder *remainder, int64_t *rhs, int64_t *out);
int64_t cpu_convolve_blocks(const cpu_convolution *c); /* blocks of weights that are packed ahead */
shoal_status cpu_convolve_run(const cpu_run *run, const cpu_step *step);

bool cpu_order_prepare(const cpu_kernels *kernels, cpu_program *program, cpu_step *step);
shoal_status cpu_order_run(const cpu_run *run, const cpu_step *step);

bool cpu_windows_fits(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
shoal_status cpu_windows_prepare(const cpu_kernels *kernels, cpu_program *program,
                                 cpu_step *step) SHOAL_CHECK_RESULT;
shoal_status cpu_windows_run(const cpu_run *run, const cpu_step *step);

bool cpu_scatter_windows_fits(const shoal_graph *g, const shoal_node *node);
shoal_status cpu_scatter_windows_prepare(const cpu_kernels *kernels, cpu_program *program,
                                         cpu_step *step) SHOAL_CHECK_RESULT;
shoal_status cpu_scatter_windows_run(const cpu_run *run, const cpu_step *step);

/* The operands of a gather or scatter that may be views, as bits; 0: it has no fast step. */
uint32_t cpu_index_views(const cpu_kernels *kernels, const shoal_graph *g, const shoal_node *node);
/* false: no fast step; else *status says whether there was memory. */
bool cpu_index_prepare(const cpu_kernels *kernels, cpu_program *program, cpu_step *step,
                       shoal_status *status);
shoal_status cpu_in_range_run(const cpu_run *run, const cpu_step *step) SHOAL_CHECK_RESULT;
shoal_status cpu_gather_run(const cpu_run *run, const cpu_step *step);
shoal_status cpu_scatter_run(const cpu_run *run, const cpu_step *step);
shoal_status cpu_update_run(const cpu_run *run, const cpu_step *step);
/* Whether a step's result is its first operand, value `root`, but for some of it: then it may have
 * the memory of that. */
bool cpu_updates_operand(const cpu_program *program, const cpu_step *step, uint32_t root);

bool cpu_control_fits(const shoal_node *node);
/* Compiles the bodies; fini is for what it has compiled, failed or not. */
shoal_status cpu_control_prepare(shoal_device *device, cpu_program *program,
                                 cpu_step *step) SHOAL_CHECK_RESULT;
void cpu_control_fini(cpu_control *control);
shoal_status cpu_control_run(const cpu_run *run, const cpu_step *step);

/* ---- product.c ---- */

enum { CPU_TINY_PRODUCT = 1024 }; /* multiplications that a loop does as well */

/* Sets dot->blocks, except where its parts of the workspace lie. gemms: for the operands as they
 * are, and exchanged. */
void cpu_product_prepare(const cpu_gemm *const gemms[2], uint32_t threads, cpu_dot *dot);
/* c = a * b for every batch, c being dense. */
void cpu_product_run(const cpu_run *run, const cpu_dot *dot, const char *a, const char *b, char *c);

/* Transposes, slices, reverses, broadcasts, concatenations. */
bool cpu_is_move(uint16_t op);
shoal_status cpu_move_run(const cpu_run *run, const cpu_step *step);
void cpu_copy_view(shoal_device *device, const ref_view *view, void *to, const void *from,
                   size_t element_bytes);
/* A block of rows x columns elements, written along columns; distances are in elements. */
void cpu_copy_block(char *to, const char *from, int64_t rows, int64_t columns, int64_t to_row,
                    int64_t to_column, int64_t from_row, int64_t from_column, size_t bytes);
/* A value as it lies in memory: `from` are its strides. */
ref_view cpu_view_of(const cpu_program *program, uint32_t value);
/* The view of an operand from which a node that only moves elements takes its result. */
ref_view cpu_moved_view(const cpu_program *program, const shoal_node *node, uint32_t input);
/* Drops axes of size 1 and joins neighbours that are one axis to `to` and `from` alike. */
void cpu_merge_view(ref_view *view);

#endif
