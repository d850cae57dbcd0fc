/* The parts of the opencl backend: any vendor's devices, by the ICD loader that the system has.
 *
 * A graph becomes a list of launches: kernels that fuse/ forms and renders, products (product.c)
 * and what has a kernel of its own (own.c, index.c). Work waits on the host until its points are
 * reached (queue.c), then goes to one of two in-order queues of the driver: launches and copies to
 * one, boxes from and to the host to the other.
 *
 * Reading order: library.c (the loader, errors), device.c (the table), memory.c, queue.c, build.c
 * (kernels from source, kept on disk), program.c (a graph as launches), kernel.c (what fuse
 * formed), then the launches of single nodes: product.c, index.c, own.c.
 *
 * Locks: device->lock guards lists and counts; device->launching is held while kernels get their
 * arguments and are enqueued; device->building while kernels are made. Nothing waits for the device
 * with `lock` held. */
#ifndef OPENCL_DEVICE_H
#define OPENCL_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "backend/cache.h"
#include "backend/fuse/render.h"
#include "backend/opencl/opencl.h"
#include "backend/place.h"
#include "base/map.h"
#include "graph/graph.h"
#include "shoal/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* ---- library.c ---- */

/* What is called of OpenCL 1.2. */
#define OPENCL_FUNCTIONS(X)                                                                        \
    X(BuildProgram)                                                                                \
    X(CreateBuffer)                                                                                \
    X(CreateCommandQueue)                                                                          \
    X(CreateContext)                                                                               \
    X(CreateKernel)                                                                                \
    X(CreateProgramWithBinary)                                                                     \
    X(CreateProgramWithSource)                                                                     \
    X(EnqueueCopyBuffer)                                                                           \
    X(EnqueueCopyBufferRect)                                                                       \
    X(EnqueueMarkerWithWaitList)                                                                   \
    X(EnqueueNDRangeKernel)                                                                        \
    X(EnqueueReadBufferRect)                                                                       \
    X(EnqueueWriteBufferRect)                                                                      \
    X(Finish)                                                                                      \
    X(Flush)                                                                                       \
    X(GetDeviceIDs)                                                                                \
    X(GetDeviceInfo)                                                                               \
    X(GetPlatformIDs)                                                                              \
    X(GetPlatformInfo)                                                                             \
    X(GetProgramBuildInfo)                                                                         \
    X(GetProgramInfo)                                                                              \
    X(ReleaseCommandQueue)                                                                         \
    X(ReleaseContext)                                                                              \
    X(ReleaseEvent)                                                                                \
    X(ReleaseKernel)                                                                               \
    X(ReleaseMemObject)                                                                            \
    X(ReleaseProgram)                                                                              \
    X(SetEventCallback)                                                                            \
    X(SetKernelArg)

typedef struct opencl_library {
#define FIELD(name) __typeof__(cl##name) *name;
    OPENCL_FUNCTIONS(FIELD)
#undef FIELD
} opencl_library;

/* The loader's functions, found at the first call; it stays open. Fails with NOT_FOUND, saying what
 * to install. */
shoal_status opencl_open(const opencl_library **out) SHOAL_CHECK_RESULT;
/* Number `index` of all devices of all platforms, in their order; *count: how many there are. Fails
 * with NOT_FOUND, giving the reason, where there are none. */
shoal_status opencl_find(const opencl_library *cl, uint32_t index, cl_device_id *device,
                         uint32_t *count) SHOAL_CHECK_RESULT;
/* A text that the driver has about a device, "?" where it has none; returns `out`. */
char *opencl_text(const opencl_library *cl, cl_device_id device, cl_device_info what, char *out,
                  size_t room);
/* Numbers about a device, 0 where there are none. */
uint64_t opencl_number(const opencl_library *cl, cl_device_id device, cl_device_info what);
/* Whether an error of the driver says that there is no memory. */
bool opencl_is_memory(cl_int code);
/* NO_MEMORY or LOST, with "NAME: FUNCTION: cause". */
shoal_status opencl_fail(const shoal_device *device, const char *function, cl_int code);

/* ---- device.c ---- */

enum {
    OPENCL_ALIGN = 128, /* of values, in bytes */
    OPENCL_GROUP = 64,  /* work-items of a group that share a reduction; a power of two */
    OPENCL_SCRATCH = 2, /* most parts of scratch of a launch */
    OPENCL_PATIENCE = 5 /* seconds without an answer, after which nothing more is waited for */
};

typedef struct opencl_work opencl_work;
typedef struct opencl_kernel opencl_kernel;
typedef struct opencl_program opencl_program;

struct shoal_device {
    const shoal_host *host;
    const opencl_library *cl;
    char name[96];
    cl_device_id id;
    cl_context context;
    cl_command_queue line, moves; /* of launches and copies; of boxes */
    uint64_t identity;            /* of device, driver and options: part of what binaries are */
    char options[128];            /* of its compiler */
    fuse_dialect dialect;
    bool is_cpu;       /* a group of work-items is run by one core, which has vectors */
    bool shares;       /* and the host's memory is its own */
    uint32_t units;    /* that compute */
    uint32_t loads;    /* most operands of a kernel */
    size_t most_local; /* work-items of a group at most; how many where they share nothing */
    size_t local;

    pthread_mutex_t lock, launching, building;
    pthread_cond_t changed;
    pthread_t thread;                            /* starts what could not start at once */
    opencl_work *queued, **queued_end, *waiting; /* the line in order; boxes in any */
    unsigned under_way, freeing; /* pieces of work; memories given back that work still uses */
    size_t used, most;           /* bytes */
    bool closing;
    atomic_bool lost;
    atomic_ullong progress;
    backend_cache cache;     /* of cl_mem */
    shoal_memory *workspace; /* of all programs, which run one after the other */
    base_map kernels;        /* by the hash of their text */
    opencl_kernel *pending;  /* those that are not built */
};

/* ---- memory.c ---- */

struct shoal_memory {
    atomic_uint refs; /* of the owner, and of each piece of work on it */
    shoal_device *device;
    cl_mem mem;
    size_t bytes, room, asked; /* room: of the block, which may be larger than was asked for */
    void *host;                /* where the device and the host share it */
    void *block;               /* of device->cache; NULL: it is imported */
    bool given_back;
};

shoal_status opencl_memory_new(shoal_device *device, size_t bytes, shoal_memory **out);
shoal_status opencl_memory_import(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out);
void opencl_memory_free(shoal_device *device, shoal_memory *memory);
shoal_memory *opencl_memory_retain(shoal_memory *memory);
void opencl_memory_release(shoal_memory *memory);
/* For device->cache. */
void opencl_memory_drop(void *device, void *mem, size_t room);

/* ---- queue.c ---- */

shoal_status opencl_read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                         const shoal_points *points);
shoal_status opencl_write(shoal_device *device, shoal_binding to, const void *from,
                          const shoal_box *box, const shoal_points *points);
shoal_status opencl_copy(shoal_device *device, shoal_binding to, shoal_binding from,
                         const shoal_box *box, const shoal_points *points);
shoal_status opencl_run(shoal_device *device, shoal_executable *program,
                        const shoal_binding *buffers, size_t n_buffers, const shoal_points *points);
/* The device's thread; returns when the device closes and nothing is queued. */
void *opencl_serve(void *device);
/* Waits for a change; false: the driver has answered nothing for so long since *since, 0 at first.
 * device->lock is held. */
bool opencl_wait(shoal_device *device, int64_t *since, uint64_t *seen);
/* Waits until nothing is under way; false: something is, of which the driver does not tell. */
bool opencl_settle(shoal_device *device);
/* Writes to memory, in the line. Takes `from`, which free() gives back. */
shoal_status opencl_upload(shoal_device *device, shoal_memory *to, void *from,
                           size_t bytes) SHOAL_CHECK_RESULT;
/* Asks the driver to tell device->progress when the event is done, and releases it. */
void opencl_count(shoal_device *device, cl_event event);
/* Whether what a call of the driver had no memory for is to be tried again: once, after the queue
 * is empty and all memory that is kept is given back. */
bool opencl_again(shoal_device *device, cl_command_queue queue, cl_int code, bool *again);

/* ---- build.c ---- */

typedef struct opencl_built {
    cl_program program;
    uint32_t refs; /* kernels of it */
} opencl_built;

/* A kernel by its text, in which its name is NAME. Programs share it. */
struct opencl_kernel {
    uint64_t hash;
    uint32_t refs;
    cl_kernel kernel; /* NULL: it is not built */
    opencl_built *program;
    char *text;
    bool is_pending;
    opencl_kernel *next; /* of those that are to be built */
};

/* text: of one kernel; taken. It is built later, by opencl_build. */
shoal_status opencl_kernel_new(shoal_device *device, base_str *text, bool alone,
                               opencl_kernel **out) SHOAL_CHECK_RESULT;
void opencl_kernel_release(shoal_device *device, opencl_kernel *kernel);
/* Builds the kernels of the program and all others that wait for it, as one program of the
 * driver, which takes half a second for one, whatever it contains. */
shoal_status opencl_build(opencl_program *p) SHOAL_CHECK_RESULT;

/* ---- program.c ---- */

/* A kernel over values. Its parameters are per argument a buffer and the number of the first
 * element, then `i64 items`. */
typedef struct opencl_launch {
    opencl_kernel *kernel; /* NULL: the bytes of args[0] are copied to args[1] */
    uint32_t n_args, n_reads, n_writes;
    const uint32_t *args; /* values that it reads, then those that it writes, then its scratch */
    int64_t items;
    size_t global[2], local[2]; /* work-items */
    size_t slab;                /* of global[1] at a time, where all would take seconds */
    struct {
        size_t bytes, at, unit; /* offset in the workspace; of an element */
    } scratch[OPENCL_SCRATCH];
    uint32_t kept;             /* for so many launches more */
    uint32_t shared;           /* number of the launch whose scratch it is, + 1; 0: its own */
    const fuse_kernel *formed; /* says what may be overwritten; NULL: nothing */
    const char *custom;        /* the operation of a user's whose source it is; NULL: our own */
} opencl_launch;

struct opencl_program {
    atomic_uint refs;
    shoal_device *device;
    graph *graph; /* a copy: the caller's may go */
    const shoal_graph *g;
    base_arena arena;
    fuse_plan plan;
    backend_place *values;
    opencl_launch *launches;
    uint32_t n_launches, room;
    shoal_memory *constants;
    size_t workspace;
    bool built;
};

struct shoal_executable {
    opencl_program program;
};

bool opencl_supports(shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status opencl_compile(shoal_device *device, const shoal_graph *g,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out);
void opencl_program_release(opencl_program *program);
void opencl_executable_free(shoal_device *device, shoal_executable *executable);
/* Enqueues all of it. Fails with some of it enqueued. `launching` is held. */
shoal_status opencl_enqueue(opencl_program *program, const shoal_binding *buffers,
                            shoal_memory *workspace) SHOAL_CHECK_RESULT;

/* For those that add launches: an item of the program's arena, of one value or several. */
shoal_status opencl_launch_new(opencl_program *p, base_str *text, const uint32_t *args,
                               uint32_t n_reads, uint32_t n_writes, uint32_t n_scratch,
                               opencl_launch **out) SHOAL_CHECK_RESULT;
/* The same of an operation of a user's. */
shoal_status opencl_launch_custom(opencl_program *p, base_str *text, const char *name,
                                  const uint32_t *args, uint32_t n_reads,
                                  opencl_launch **out) SHOAL_CHECK_RESULT;
/* A copy of the bytes of one value to another. */
shoal_status opencl_launch_copy(opencl_program *p, uint32_t to, uint32_t from) SHOAL_CHECK_RESULT;
/* One work-item for each of so many. */
void opencl_spread(const opencl_program *p, opencl_launch *launch, int64_t items);
/* ---- launches of single nodes: whether they fit, and what adds them ---- */

bool opencl_product_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status opencl_product_add(opencl_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
bool opencl_index_fits(const shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status opencl_index_add(opencl_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
bool opencl_custom_fits(const shoal_graph *g, const shoal_node *node);
shoal_status opencl_custom_add(opencl_program *p, const shoal_node *node) SHOAL_CHECK_RESULT;
shoal_status opencl_kernel_add(opencl_program *p, const fuse_kernel *k) SHOAL_CHECK_RESULT;

#endif
