/* What devices with a compiler and queues of their own have in common, whoever's driver it is:
 * `opencl` and `cuda` are two tables of driver calls below this.
 *
 * A graph becomes a list of launches: kernels that fuse/ forms and renders, products (product.c)
 * and what has a kernel of its own (index.c, custom.c). Work waits on the host until its points are
 * reached (queue.c), then goes to one of two in-order queues of the driver: launches and copies to
 * one, boxes from and to the host to the other.
 *
 * Reading order: this, device.c (opening and closing), memory.c, queue.c, build.c (kernels from
 * source, kept on disk), program.c (a graph as launches), kernel.c (what fuse formed), then the
 * launches of single nodes: product.c, windows.c, index.c, random.c, custom.c.
 *
 * Locks: device->lock guards lists and counts; device->launching is held while kernels get their
 * arguments and are enqueued; device->building while kernels are made. Nothing waits for the device
 * with `lock` held. */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#include "backend/cache.h"
#include "backend/fuse/render.h"
#include "backend/place.h"
#include "base/map.h"
#include "graph/graph.h"
#include "shoal/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- what a driver does ---- */

enum {
    GPU_ALIGN = 128, /* of values, in bytes */
    GPU_GROUP = 64,  /* work-items of a group that share a reduction; a power of two */
    GPU_SCRATCH = 2, /* most parts of scratch of a launch */
    GPU_PATIENCE = 5 /* seconds without an answer, after which nothing more is waited for */
};

typedef enum gpu_queue { GPU_LINE, GPU_MOVES } gpu_queue; /* of launches and copies; of boxes */
typedef enum gpu_direction { GPU_READ, GPU_WRITE, GPU_COPY } gpu_direction;

/* A place in the device's memory, and the bytes of an element that lies there. */
typedef struct gpu_spot {
    void *mem;
    size_t at, unit;
} gpu_spot;

/* A box of three axes: bytes of a row, rows, slices. */
typedef struct gpu_rectangle {
    size_t size[3];
    struct {
        void *mem;  /* of the device, or the host's */
        size_t at;  /* of the first byte */
        size_t row; /* how far rows are apart, and slices */
        size_t slice;
    } to, from;
} gpu_rectangle;

/* A product of matrices as a library takes it: batch by batch, C = A B, rows of C follow on one
 * another. */
typedef struct gpu_matrices {
    uint8_t dtype;
    int64_t batch, m, n, k;
    bool transposed[2]; /* of A, B: it lies column by column */
    int64_t lead[2];    /* how far its rows, or columns, are apart */
    int64_t apart[2];   /* and its matrices */
} gpu_matrices;

/* What is done when all work in a queue is: with LOST and a message where it failed. */
typedef void (*gpu_answer)(void *context, shoal_status status);

/* The calls of a driver. Those that return a status fail with NO_MEMORY, after which they may be
 * tried again when there is more, UNSUPPORTED, when a kernel cannot be built, or LOST, and name the
 * driver's error. */
typedef struct gpu_driver {
    const char *name; /* of the backend */
    /* Makes queues for a device that is described; `close` also takes what has failed half way. */
    shoal_status (*open)(shoal_device *device);
    void (*close)(shoal_device *device);

    /* Memory; host: it lies there, where the device shares the host's; else NULL. */
    shoal_status (*allocate)(shoal_device *device, size_t bytes, void *host, bool read_only,
                             void **mem);
    void (*release)(shoal_device *device, void *mem);

    /* Enqueues a box; to or from the host it may also be in GPU_MOVES. Waits for nothing there. */
    shoal_status (*move)(shoal_device *device, gpu_queue queue, gpu_direction direction,
                         const gpu_rectangle *box);
    /* Enqueues a copy of bytes, in GPU_LINE. */
    shoal_status (*copy)(shoal_device *device, gpu_spot to, gpu_spot from, size_t bytes);

    /* A program from source, or from what `binary` gave of another, NULL where the driver does not
     * take it; `binary` is to be freed, and NULL where there is none. */
    shoal_status (*build)(shoal_device *device, const base_str *source, void **program);
    void *(*load)(shoal_device *device, const void *binary, size_t size);
    void *(*binary)(shoal_device *device, void *program, size_t *size);
    void (*unload)(shoal_device *device, void *program);
    shoal_status (*kernel)(shoal_device *device, void *program, const char *name, void **kernel);
    void (*forget)(shoal_device *device, void *kernel);

    /* Enqueues a kernel with its arguments and a number, in GPU_LINE. */
    shoal_status (*launch)(shoal_device *device, void *kernel, const gpu_spot *args,
                           uint32_t n_args, int64_t number, const size_t *global,
                           const size_t *local);
    /* Enqueues a product by a library of the driver's vendor. NULL: there is none. */
    shoal_status (*multiply)(shoal_device *device, const gpu_matrices *product,
                             const gpu_spot *args);

    /* Calls `then` when all that was enqueued before is done, in a thread of its own. Where it
     * fails, it does not. */
    shoal_status (*ask)(shoal_device *device, gpu_queue queue, gpu_answer then, void *context);
    /* Lets the driver begin; waits until the queue is empty. */
    void (*flush)(shoal_device *device, gpu_queue queue);
    void (*finish)(shoal_device *device, gpu_queue queue);

    const char *(*source_of)(const shoal_operation *operation); /* of a user's; NULL: it has none */
} gpu_driver;

/* ---- device.c ---- */

typedef struct gpu_work gpu_work;
typedef struct gpu_kernel gpu_kernel;
typedef struct gpu_program gpu_program;

/* What a driver's own device begins with. The driver describes it before it is opened. */
struct shoal_device {
    const shoal_host *host;
    const gpu_driver *driver;
    char name[96];
    uint64_t identity; /* of device, driver and options: part of what binaries are */
    fuse_dialect dialect;
    bool is_cpu;       /* a group of work-items is run by one core, which has vectors */
    bool shares;       /* and the host's memory is its own */
    bool multiplies;   /* driver->multiply is of use */
    uint32_t units;    /* that compute */
    uint32_t loads;    /* most operands of a kernel */
    size_t most_local; /* work-items of a group at most; how many where they share nothing */
    size_t local;
    size_t most; /* bytes that programs may use */

    pthread_mutex_t lock, launching, building;
    pthread_cond_t changed;
    pthread_t thread;                         /* starts what could not start at once */
    gpu_work *queued, **queued_end, *waiting; /* the line in order; boxes in any */
    unsigned under_way, freeing; /* pieces of work; memories given back that work still uses */
    size_t used;                 /* bytes */
    bool closing;
    atomic_bool lost;
    char why[256]; /* it is lost: the first cause */
    atomic_ullong progress;
    backend_cache cache;     /* of blocks of memory */
    shoal_memory *workspace; /* of all programs, which run one after the other */
    base_map kernels;        /* by the hash of their text */
    gpu_kernel *pending;     /* those that are not built */
};

/* Opens a device that the driver has described; taken, also when it fails. */
shoal_status gpu_device_open(const shoal_host *host, shoal_device *described,
                             shoal_device **out) SHOAL_CHECK_RESULT;
void gpu_device_free(shoal_device *device);
void *gpu_memory_host(shoal_device *device, shoal_memory *memory);
uint64_t gpu_progress(shoal_device *device);
/* The bytes that programs may use of those that there are, by a variable in MiB. */
uint64_t gpu_memory_limit(const char *variable, uint64_t bytes);
/* NO_MEMORY of the host, for `what`. */
shoal_status gpu_fail_memory(const shoal_device *device, const char *what);

/* The table of a backend that is a driver below this. */
#define GPU_BACKEND(name_, summary_, count, info, open)                                            \
    {                                                                                              \
        .abi = SHOAL_BACKEND_ABI, .size = sizeof(shoal_backend), .name = name_,                    \
        .summary = summary_, .device_count = count, .device_info = info, .device_new = open,       \
        .device_free = gpu_device_free, .memory_new = gpu_memory_new,                              \
        .memory_import = gpu_memory_import, .memory_free = gpu_memory_free,                        \
        .memory_host = gpu_memory_host, .read = gpu_read, .write = gpu_write, .copy = gpu_copy,    \
        .supports = gpu_supports, .compile = gpu_compile, .executable_free = gpu_executable_free,  \
        .run = gpu_run, .progress = gpu_progress                                                   \
    }

/* ---- memory.c ---- */

struct shoal_memory {
    atomic_uint refs; /* of the owner, and of each piece of work on it */
    shoal_device *device;
    void *mem;                 /* the driver's */
    size_t bytes, room, asked; /* room: of the block, which may be larger than was asked for */
    void *host;                /* where the device and the host share it */
    void *block;               /* of device->cache; NULL: it is imported */
    bool given_back;
};

shoal_status gpu_memory_new(shoal_device *device, size_t bytes, shoal_memory **out);
shoal_status gpu_memory_import(shoal_device *device, const shoal_import *from, shoal_memory **out);
void gpu_memory_free(shoal_device *device, shoal_memory *memory);
shoal_memory *gpu_memory_retain(shoal_memory *memory);
void gpu_memory_release(shoal_memory *memory);
/* For device->cache. */
void gpu_memory_drop(void *device, void *block, size_t room);

/* ---- queue.c ---- */

shoal_status gpu_read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                      const shoal_points *points);
shoal_status gpu_write(shoal_device *device, shoal_binding to, const void *from,
                       const shoal_box *box, const shoal_points *points);
shoal_status gpu_copy(shoal_device *device, shoal_binding to, shoal_binding from,
                      const shoal_box *box, const shoal_points *points);
shoal_status gpu_run(shoal_device *device, shoal_executable *program, const shoal_binding *buffers,
                     size_t n_buffers, const shoal_points *points);
/* The device's thread; returns when the device closes and nothing is queued. */
void *gpu_serve(void *device);
/* LOST, with its cause, of a device that is lost. */
shoal_status gpu_fail_lost(shoal_device *device);
/* Waits for a change; false: the driver has answered nothing for so long since *since, 0 at first.
 * device->lock is held. */
bool gpu_wait(shoal_device *device, int64_t *since, uint64_t *seen);
/* Waits until nothing is under way; false: something is, of which the driver does not tell. */
bool gpu_settle(shoal_device *device);
/* Writes to memory, in the line. Takes `from`, which free() gives back. */
shoal_status gpu_upload(shoal_device *device, shoal_memory *to, void *from,
                        size_t bytes) SHOAL_CHECK_RESULT;
/* Asks the driver to tell device->progress when what is in the line is done. */
void gpu_count(shoal_device *device);
/* Whether what a call of the driver had no memory for is to be tried again: once, after the queue
 * is empty and all memory that is kept is given back. */
bool gpu_again(shoal_device *device, gpu_queue queue, shoal_status status, bool *again);

/* ---- build.c ---- */

typedef struct gpu_built {
    void *program;
    uint32_t refs; /* kernels of it */
} gpu_built;

/* A kernel by its text, in which its name is NAME. Programs share it. */
struct gpu_kernel {
    uint64_t hash;
    uint32_t refs;
    void *kernel; /* the driver's; NULL: it is not built */
    gpu_built *program;
    char *text;
    bool is_pending;
    gpu_kernel *next; /* of those that are to be built */
};

/* text: of one kernel; taken. It is built later, by gpu_build. */
shoal_status gpu_kernel_new(shoal_device *device, base_str *text, bool alone,
                            gpu_kernel **out) SHOAL_CHECK_RESULT;
void gpu_kernel_release(shoal_device *device, gpu_kernel *kernel);
/* Builds the kernels of the program and all others that wait for it, as one program of the
 * driver, which takes half a second for one, whatever it contains. */
shoal_status gpu_build(gpu_program *p) SHOAL_CHECK_RESULT;

/* ---- program.c ---- */

/* A kernel over values. Its parameters are its arguments, then `i64 items`: where it is launched in
 * slabs, the first work-item of the second axis instead. */
typedef struct gpu_launch {
    gpu_kernel *kernel; /* NULL: a product, or the bytes of args[0] are copied to args[1] */
    uint32_t n_args, n_reads, n_writes;
    const uint32_t *args; /* values that it reads, then those that it writes, then its scratch */
    int64_t items;
    size_t global[2], local[2]; /* work-items */
    size_t slab;                /* of global[1] at a time, where all would take seconds; 0: all */
    struct {
        size_t bytes, at, unit; /* offset in the workspace; of an element */
    } scratch[GPU_SCRATCH];
    uint32_t kept;                /* for so many launches more */
    uint32_t shared;              /* number of the launch whose scratch it is, + 1; 0: its own */
    const fuse_kernel *formed;    /* says what may be overwritten; NULL: nothing */
    const char *custom;           /* the operation of a user's whose source it is; NULL: our own */
    const gpu_matrices *matrices; /* a product by a library, instead of a kernel */
} gpu_launch;

struct gpu_program {
    atomic_uint refs;
    shoal_device *device;
    graph *graph; /* a copy: the caller's may go */
    const shoal_graph *g;
    base_arena arena;
    fuse_plan plan;
    backend_place *values;
    gpu_launch *launches;
    uint32_t n_launches, room;
    shoal_memory *constants;
    size_t workspace;
    bool built;
};

struct shoal_executable {
    gpu_program program;
};

bool gpu_supports(shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status gpu_compile(shoal_device *device, const shoal_graph *g,
                         const shoal_compile_options *options, shoal_compile_report *report,
                         shoal_executable **out);
void gpu_program_release(gpu_program *program);
void gpu_executable_free(shoal_device *device, shoal_executable *executable);
/* Enqueues all of it. Fails with some of it enqueued. `launching` is held. */
shoal_status gpu_enqueue(gpu_program *program, const shoal_binding *buffers,
                         shoal_memory *workspace) SHOAL_CHECK_RESULT;

/* For those that add launches: an item of the program's arena, of one value or several. */
shoal_status gpu_launch_new(gpu_program *p, base_str *text, const uint32_t *args, uint32_t n_reads,
                            uint32_t n_writes, uint32_t n_scratch,
                            gpu_launch **out) SHOAL_CHECK_RESULT;
/* The same of an operation of a user's. */
shoal_status gpu_launch_custom(gpu_program *p, base_str *text, const char *name,
                               const uint32_t *args, uint32_t n_reads,
                               gpu_launch **out) SHOAL_CHECK_RESULT;
/* A product of two values by the driver's library. Takes neither. */
shoal_status gpu_launch_multiply(gpu_program *p, const uint32_t *args,
                                 const gpu_matrices *matrices) SHOAL_CHECK_RESULT;
/* A copy of the bytes of one value to another. */
shoal_status gpu_launch_copy(gpu_program *p, uint32_t to, uint32_t from) SHOAL_CHECK_RESULT;
/* One work-item for each of so many. */
void gpu_spread(const gpu_program *p, gpu_launch *launch, int64_t items);

/* ---- words that kernels of single nodes have in common: operands x0, x1, …, the result y0 ---- */

/* An element of an operand as it is computed with; `value` as an element of the result. */
void gpu_render_element(uint8_t dtype, uint32_t operand, const char *at, base_str *out);
void gpu_render_result(uint8_t dtype, const char *at, const char *value, base_str *out);
/* a0, a1, …: the coordinates of `number` over some axes of a shape; skip: axes left out. */
void gpu_render_coordinates(const shoal_type *type, const bool *skip, const char *number,
                            base_str *out);

/* ---- launches of single nodes: whether they fit, and what adds them ---- */

bool gpu_product_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status gpu_product_add(gpu_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
bool gpu_windows_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status gpu_windows_add(gpu_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
bool gpu_index_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status gpu_index_add(gpu_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
bool gpu_random_fits(const shoal_graph *g, const shoal_node *node);
shoal_status gpu_random_add(gpu_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
bool gpu_custom_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status gpu_custom_add(gpu_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
shoal_status gpu_kernel_add(gpu_program *p, const fuse_kernel *k) SHOAL_CHECK_RESULT;

#endif
