/* The cpu backend: compiles a graph to a list of steps and runs them on a pool of threads.
 *
 * Reading order: device.c (the table, memory), plan.c (from graph to steps, and where values lie),
 * then the steps: map.c (elementwise), move.c (copies), reduce.c, dot.c with blas.c. kernels.c is
 * compiled once per instruction set. What has no fast step runs by the reference's kernel. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "backend/ref/ref.h"
#include "base/pool.h"
#include "graph/graph.h"

#include <pthread.h>

extern const shoal_backend backend_cpu;

/* ---- kernels.c ---- */

/* n elements: out = op(in...). Bit i of `scalars`: operand i is one element for all. out may be an
 * operand. */
typedef void (*cpu_map_kernel)(void *out, const void *const *in, int64_t n, unsigned scalars);
/* *acc = op(*acc, x[0], …, x[n-1]) in an order of the kernel's own. */
typedef void (*cpu_fold_kernel)(void *acc, const void *x, int64_t n);
/* c[m][n] = sum over k of a * b, for matrices with any strides (in elements); c has unit stride
 * along n. */
typedef void (*cpu_matmul_kernel)(int64_t m, int64_t n, int64_t k, const void *a,
                                  const int64_t *a_strides, const void *b, const int64_t *b_strides,
                                  void *c, int64_t c_stride);

enum { CPU_F32, CPU_F64, CPU_FLOATS };

typedef struct cpu_kernels {
    const char *name;
    cpu_map_kernel map[GRAPH_OP_BUILT_IN][CPU_FLOATS]; /* NULL: none */
    cpu_map_kernel compare[6][CPU_FLOATS];             /* EQ, NE, LT, LE, GT, GE */
    cpu_map_kernel select[CPU_FLOATS];                 /* any elements of 4 and of 8 bytes */
    cpu_fold_kernel fold[GRAPH_OP_BUILT_IN][CPU_FLOATS];
    cpu_matmul_kernel matmul[CPU_FLOATS];
} cpu_kernels;

extern const cpu_kernels cpu_kernels_base;
#ifdef __x86_64__
extern const cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
#endif

/* ---- blas.c ---- */

typedef struct cpu_blas {
    const char *name; /* the library */
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
    void (*sgemv)(int order, int trans, int m, int n, float alpha, const float *a, int lda,
                  const float *x, int incx, float beta, float *y, int incy);
    void (*dgemv)(int order, int trans, int m, int n, double alpha, const double *a, int lda,
                  const double *x, int incx, double beta, double *y, int incy);
} cpu_blas;

/* Single-threaded BLAS, opened at the first call; NULL where there is none. Any thread. */
const cpu_blas *cpu_blas_get(void);

/* ---- device.c ---- */

enum { CPU_KEPT_BLOCKS = 64 };

/* Large blocks that were freed, kept because fresh pages are slow. */
typedef struct cpu_cache {
    pthread_mutex_t lock; /* memory comes and goes on any thread */
    size_t n, bytes;
    struct {
        void *data;
        size_t room;
        int64_t since;
    } blocks[CPU_KEPT_BLOCKS]; /* oldest first */
} cpu_cache;

struct shoal_device {
    const shoal_host *host;
    base_pool *pool;
    const cpu_kernels *kernels;
    cpu_cache cache;
};

struct shoal_memory {
    void *data;
    size_t bytes;
    size_t room; /* of pages from base_pages_new; 0: from the heap, or imported */
    bool imported;
};

shoal_status cpu_memory_new(shoal_device *device, size_t bytes,
                            shoal_memory **out) SHOAL_CHECK_RESULT;
void cpu_memory_free(shoal_device *device, shoal_memory *memory);

/* Calls work(context, begin, end) for parts of 0..count-1, on several threads where there are at
 * least two parts of `grain`. */
typedef void (*cpu_range)(void *context, int64_t begin, int64_t end);
void cpu_parallel(shoal_device *device, int64_t count, int64_t grain, cpu_range work,
                  void *context);

/* ---- plan.c ---- */

enum { CPU_ALIGN = 64, CPU_MAX_OPERANDS = 3 };

/* An elementwise step over merged axes; operand strides are in elements, 0 repeats. */
typedef struct cpu_map {
    cpu_map_kernel kernel;
    uint32_t rank, n_operands;
    int64_t dims[SHOAL_MAX_RANK];
    int64_t strides[CPU_MAX_OPERANDS][SHOAL_MAX_RANK];
    size_t bytes[CPU_MAX_OPERANDS], out_bytes; /* of an element */
} cpu_map;

typedef struct cpu_reduce {
    cpu_fold_kernel fold;
    cpu_map_kernel join;
    size_t bytes;
    int64_t row;            /* the innermost merged axis, */
    bool row_is_kept;       /* and whether it survives */
    ref_axes kept, reduced; /* the other axes */
} cpu_reduce;

/* One operand of a matrix product, as a strided matrix per batch. */
typedef struct cpu_matrix {
    int64_t row_stride, column_stride;
    bool pack; /* it is none: copied by `view` to `scratch` first */
    ref_view view;
    size_t scratch; /* offset in the workspace */
} cpu_matrix;

typedef struct cpu_dot {
    uint8_t dtype;
    int64_t m, n, k;
    ref_axes batch;
    cpu_matrix lhs, rhs; /* m x k, k x n */
} cpu_dot;

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
    const shoal_node *node;
    union {
        cpu_map map;
        cpu_reduce reduce;
        cpu_dot dot;
    } u;
};

/* Where a value lies during a run. */
typedef enum cpu_kind { CPU_NOWHERE, CPU_INPUT, CPU_OUTPUT, CPU_CONSTANT, CPU_WORKSPACE } cpu_kind;
typedef struct cpu_value {
    uint32_t root;    /* the value whose memory it shares; itself for most */
    bool is_view;     /* shares it by `strides`, not element by element */
    bool needs_dense; /* some user cannot read a view */
    uint32_t last;    /* for roots: number of the last step that reads it */
    cpu_kind kind;
    size_t place; /* input, output number or offset in the workspace */
    const void *constant;
    int64_t strides[SHOAL_MAX_RANK]; /* of a view */
} cpu_value;

struct cpu_program {
    graph *graph; /* a copy: the caller's may go */
    const shoal_graph *g;
    cpu_value *values;
    void **at; /* of the run that is going on: per value, its address */
    cpu_step *steps;
    uint32_t n_steps;
    size_t workspace;
};

shoal_status cpu_program_new(shoal_device *device, const shoal_graph *g,
                             const shoal_compile_options *options, shoal_compile_report *report,
                             cpu_program **out) SHOAL_CHECK_RESULT;
void cpu_program_destroy(cpu_program **program);
/* at: the addresses of inputs and outputs. */
shoal_status cpu_program_run(shoal_device *device, const cpu_program *program,
                             void *const *buffers) SHOAL_CHECK_RESULT;

/* ---- steps: what prepares them (false: no fast step) and what runs them ---- */

/* Whether a node has a map kernel; operands may then be views. */
cpu_map_kernel cpu_map_kernel_of(const cpu_kernels *kernels, const shoal_graph *g,
                                 const shoal_node *node);
void cpu_map_prepare(const cpu_program *program, cpu_map_kernel kernel, cpu_step *step);
shoal_status cpu_map_run(const cpu_run *run, const cpu_step *step);

bool cpu_reduce_prepare(const cpu_kernels *kernels, const cpu_program *program, cpu_step *step);
shoal_status cpu_reduce_run(const cpu_run *run, const cpu_step *step);

bool cpu_dot_prepare(const cpu_program *program, cpu_step *step);
shoal_status cpu_dot_run(const cpu_run *run, const cpu_step *step);

/* Transposes, slices, broadcasts, concatenations. */
bool cpu_is_move(uint16_t op);
shoal_status cpu_move_run(const cpu_run *run, const cpu_step *step);
void cpu_copy_view(shoal_device *device, const ref_view *view, void *to, const void *from,
                   size_t element_bytes);
/* Drops axes of size 1 and joins neighbours that are one axis to `to` and `from` alike. */
void cpu_merge_view(ref_view *view);

#endif
