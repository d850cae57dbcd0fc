/* The contract of a backend: the code that drives one kind of device.
 *
 * A backend is a table of functions. Shoal's own (`ref`, `cpu`, …) and a plug-in's are the same
 * thing. `src/backend/null` is the commented skeleton to copy, `src/backend/ref` defines what every
 * operation means, and the conformance suite (`test/conformance`) proves any backend against it.
 *
 * Threads: the memory functions of a device, `read`, `write`, `progress` and `supports` may be
 * called by any thread at any time; its other functions are called by one thread at a time. Errors:
 * a function that fails returns a status and leaves a message by `host->fail`. What fails after the
 * function has returned reaches its points with the status and the message. Work that a device has
 * taken and then cannot do, for whatever reason, loses the device, since others count on it by
 * then: SHOAL_LOST, for all that is under way. A call that fails at once leaves nothing under way
 * and need not reach its points. Order: `run` and `copy` of a device are done one after the other,
 * as they were called. `read` and `write` are ordered by their points alone, and go on while a
 * `run` waits. Each starts its work once all points to wait for are reached (where one of them has
 * failed it does not, and fails likewise) and reaches its own points when it is done, also when it
 * failed. A device without SHOAL_DEVICE_ASYNC is done when the function returns. Ownership: `x_new`
 * hands the object to the caller, who gives it back with `x_free`. Memory and executables may be
 * given back while work that was started before uses them: they stay until it is done, and no new
 * memory is memory that anything under way uses. */
#ifndef SHOAL_BACKEND_H
#define SHOAL_BACKEND_H

#include "shoal/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_BACKEND_ABI 2

/* Capability bits of a device. */
enum shoal_device_capability {
    SHOAL_DEVICE_HOST_MEMORY = 1 << 0, /* device memory is host memory: memory_host() tells where */
    SHOAL_DEVICE_ASYNC = 1 << 1,       /* functions return before the work is done */
    SHOAL_DEVICE_IMPORT_HOST = 1 << 2, /* memory_import() takes host memory without copying */
    SHOAL_DEVICE_IMPORT_FILE = 1 << 3, /* and mapped files */
    SHOAL_DEVICE_SAME_CORES = 1 << 4,  /* computes on what another has: lent only by name */
};

typedef struct shoal_device_info {
    char name[96];      /* "AMD EPYC 9654, 2 threads" */
    uint64_t memory;    /* bytes that programs may use; 0: unknown */
    uint32_t threads;   /* compute threads or units */
    uint32_t flags;     /* SHOAL_DEVICE_* */
    uint32_t alignment; /* of memory, in bytes: a power of two */
} shoal_device_info;

/* A fence counts upwards. A point is a value on it; it is reached once the fence is at or past
 * that value. A NULL fence is always reached. */
typedef struct shoal_fence shoal_fence;
typedef struct shoal_point {
    shoal_fence *fence;
    uint64_t value;
} shoal_point;

struct shoal_backend;
struct shoal_operation;

/* A question for an artifact: machine code that was made of a program for a kind of device. */
typedef struct shoal_artifact_ask {
    uint8_t made_of[32]; /* digest of all that it is made of */
    const char *target, *device, *compiler;
    const char *text; /* what it is made of; NULL: none is to be made */
} shoal_artifact_ask;

/* What the pool has of it: the file, on this machine by now, and the note that the hub's keeper has
 * signed. Neither was looked into but for the file's digest. */
typedef struct shoal_artifact {
    char *path; /* these two are freed with free() */
    char *note;
    size_t note_bytes;
} shoal_artifact;

/* What the host offers a backend, so that a plug-in links against nothing. */
typedef struct shoal_host {
    uint32_t abi; /* SHOAL_BACKEND_ABI */
    uint32_t size;
    /* Records the message of a failure on this thread and returns `status`. */
    shoal_status (*fail)(shoal_status status, const char *format, ...) SHOAL_PRINTF(2, 3);
    /* Reaches a point; `status` other than SHOAL_OK marks everything that waits on it as failed. */
    void (*fence_signal)(shoal_point point, shoal_status status, const char *message);
    /* Waits for a point at most timeout_ms; returns the status it was reached with, or TIMEOUT. */
    shoal_status (*fence_wait)(shoal_point point, uint32_t timeout_ms);
    /* Calls `then` once, when the point is reached, with the status it was reached with: at once if
     * it is, else in the thread that reaches it, which it must not keep. Fails with NO_MEMORY, and
     * then does not call. */
    shoal_status (*fence_then)(shoal_point point, void (*then)(void *context, shoal_status status),
                               void *context);
    const char *(*op_name)(uint16_t op);
    /* What the last failure on this thread said. */
    const char *(*error_message)(void);
    /* Another backend, to stand on: "ref" for what a device cannot do. */
    shoal_status (*backend_find)(const char *name, const struct shoal_backend **out);
    /* shoal_operation_add */
    shoal_status (*operation_add)(const struct shoal_operation *operation);
    /* A graph as the text of a StableHLO module, in terms of the standard alone; the caller frees
     * *out with free(). Fails with UNSUPPORTED for what the standard has no words for. */
    shoal_status (*graph_text)(const shoal_graph *graph, char **out);
    /* Of the pool for which this thread compiles: the public key (Ed25519) by which its hub signs
     * artifacts, and whether this process takes them for that alone. NOT_FOUND where there is no
     * such pool. This and the next one came later: a host may be smaller. */
    shoal_status (*artifact_key)(uint8_t out[32], bool *trusted);
    /* Asks that pool for an artifact, and waits for it. Fails with NOT_FOUND where it has none,
     * BUSY where it may be asked again later, TIMEOUT, LOST, CLOSED. */
    shoal_status (*artifact_fetch)(const shoal_artifact_ask *ask, shoal_artifact *out);
    /* Whether nobody needs any more what this thread computes in run(): its program was cancelled,
     * or the process ends. What may take for ever asks from time to time, and fails with
     * INTERRUPTED. This came later too. */
    bool (*run_ended)(void);
} shoal_host;

typedef struct shoal_device shoal_device;         /* an opened device */
typedef struct shoal_memory shoal_memory;         /* a block of device memory */
typedef struct shoal_executable shoal_executable; /* a compiled graph */

/* A value in device memory: dense, row-major. */
typedef struct shoal_binding {
    shoal_memory *memory;
    size_t offset;
} shoal_binding;

typedef struct shoal_compile_options {
    uint32_t size; /* of this structure, so that it can grow */
    /* Inputs that keep the same bytes over many runs (weights): one flag per graph input, or NULL.
     * A backend may pack them; it says so in shoal_compile_report.packed. */
    const bool *frozen;
} shoal_compile_options;

typedef struct shoal_compile_report {
    uint32_t size;
    size_t workspace; /* peak bytes that one run needs beside its inputs and outputs */
    size_t packed;    /* bytes kept for packed forms of frozen inputs */
    /* in_place[o] = the input whose memory output o may take over, or -1. The caller provides
     * n_outputs elements and may share memory between such a pair. */
    int32_t *in_place;
} shoal_compile_report;

/* Where imported memory comes from. */
typedef enum shoal_import_kind { SHOAL_IMPORT_HOST, SHOAL_IMPORT_FILE } shoal_import_kind;
typedef struct shoal_import {
    shoal_import_kind kind;
    void *data; /* stays valid and in place until memory_free */
    size_t bytes;
    bool read_only;
} shoal_import;

/* A box of elements in two dense row-major tensors of one element size. The arrays have `rank`
 * numbers each. */
typedef struct shoal_box {
    uint32_t rank;
    size_t element_bytes;
    const int64_t *size;                   /* of the box */
    const int64_t *to_dims, *to_start;     /* of the tensor it goes to; where it lies in that */
    const int64_t *from_dims, *from_start; /* of the tensor it comes from */
} shoal_box;

/* When work may start, and what it reaches when it is done. The fences to wait for need not live
 * longer than the call: what waits later does so by fence_then(), which keeps them. */
typedef struct shoal_points {
    const shoal_point *wait;
    size_t n_wait;
    const shoal_point *signal;
    size_t n_signal;
} shoal_points;

typedef struct shoal_backend {
    uint32_t abi;  /* SHOAL_BACKEND_ABI */
    uint32_t size; /* sizeof(shoal_backend) */
    const char *name;
    const char *summary; /* one line for `shoal doctor` */

    /* The number of devices that can be opened here: 0 when there are none, with the reason left by
     * host->fail. Must not take longer than it needs; loads nothing that it can avoid. */
    uint32_t (*device_count)(const shoal_host *host);
    shoal_status (*device_info)(const shoal_host *host, uint32_t index, shoal_device_info *out);
    /* threads: how many compute threads the device may use; 0: all cores. */
    shoal_status (*device_new)(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out);
    void (*device_free)(shoal_device *device);

    /* Memory is uninitialised. bytes may be 0. Waits for memory that is about to come free; fails
     * with NO_MEMORY. */
    shoal_status (*memory_new)(shoal_device *device, size_t bytes, shoal_memory **out);
    shoal_status (*memory_import)(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out);
    void (*memory_free)(shoal_device *device, shoal_memory *memory);
    /* Where the memory lies for the host, which may use it when no work on it is under way; NULL
     * for a device without SHOAL_DEVICE_HOST_MEMORY. */
    void *(*memory_host)(shoal_device *device, shoal_memory *memory);

    /* Move a box: into the host's memory, out of it, or between two tensors of the device, which do
     * not overlap. The arrays of the box are of use during the call alone, the host's memory until
     * the work is done. points may be NULL. */
    shoal_status (*read)(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                         const shoal_points *points);
    shoal_status (*write)(shoal_device *device, shoal_binding to, const void *from,
                          const shoal_box *box, const shoal_points *points);
    shoal_status (*copy)(shoal_device *device, shoal_binding to, shoal_binding from,
                         const shoal_box *box, const shoal_points *points);

    /* Whether compile() takes this node as it stands, with a kernel of its own. */
    bool (*supports)(shoal_device *device, const shoal_graph *graph, const shoal_node *node);
    /* Compiles a graph without exchange nodes. The graph may go afterwards. Fails with
     * UNSUPPORTED, naming the operation. */
    shoal_status (*compile)(shoal_device *device, const shoal_graph *graph,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out);
    void (*executable_free)(shoal_device *device, shoal_executable *executable);
    /* buffers: the graph's inputs, then its outputs, in order. Outputs are memory of the caller.
     * points may be NULL. UNSUPPORTED (kernels that cannot be built after all) and NO_MEMORY say
     * that nothing has begun: the operands are as they were, and another device does it. */
    shoal_status (*run)(shoal_device *device, shoal_executable *executable,
                        const shoal_binding *buffers, size_t n_buffers, const shoal_points *points);
    /* A number that rises while the device gets on with what was started. When it does not, for
     * long, the device counts as lost. NULL: the backend notices by itself when a device is lost.
     */
    uint64_t (*progress)(shoal_device *device);
} shoal_backend;

/* A plug-in is a shared library that exports its table by this name; SHOAL_BACKENDS lists the paths
 * of those to load, with colons between them. */
#define SHOAL_PLUGIN "shoal_plugin"

/* An operation of one's own. Programs have it as `custom`, with this name (doc/backends.md says how
 * its axes behave); only processes that it was added to can run it, so that no client brings code
 * to a worker. run: operands and result are dense, row-major, aligned to 64 and do not overlap; the
 * result depends on them alone. It is called for parts of tensors, by any thread, by several at
 * once. It fails by host->fail.
 *
 * opencl: OpenCL C for devices that have it, with a function that computes one element of the
 * result,
 *
 *     void operation(long item, const __global x0_t *x0, ..., __global y0_t *y0)
 *
 * item: the element's number, row-major. x0_t, y0_t are the element types, `x0_dims`, `y0_dims`
 * arrays of the extents and `x0_rank`, `y0_rank` their number, of the part that is computed. Where
 * operands or result are f16 or bf16, and where it is NULL, `run` computes beside the device.
 * Source that cannot be compiled fails with the compiler's words.
 *
 * cuda: the same in CUDA C++ for NVIDIA's own driver,
 *
 *     __device__ void operation(long long item, const x0_t *x0, ..., y0_t *y0)
 */
typedef struct shoal_operation {
    uint32_t size; /* sizeof(shoal_operation), or less: up to `cuda` */
    const char *name;
    shoal_status (*run)(const shoal_host *host, void *context, const shoal_type *types,
                        const void *const *inputs, uint32_t n_inputs, const shoal_type *type,
                        void *output);
    void *context;
    const char *opencl, *cuda;
} shoal_operation;

/* Adds one to those of this process; the table stays valid for ever. Fails with INVALID when the
 * name is taken or a function missing, NO_MEMORY when there are too many. Any thread. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_operation_add(const shoal_operation *operation);
/* What a plug-in calls the array of pointers to its operations, which NULL ends, beside its backend
 * or instead of one. */
#define SHOAL_PLUGIN_OPERATIONS "shoal_plugin_operations"

/* Backends may be written in Python (`shoal.hosted`): SHOAL_BACKENDS lists files that end in .py,
 * and names of modules, beside shared libraries. In a process that is no Python program the first
 * of them opens the interpreter that SHOAL_PYTHON names (python3). */

/* Adds a backend to those of this process; the table stays valid for ever. Fails with VERSION for
 * another ABI, INVALID when the name is taken or a function missing, NO_MEMORY when there are too
 * many. Any thread. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_backend_add(const shoal_backend *backend);

/* What Shoal's Python extension offers whoever opens it, in a capsule of this name: it adds the
 * backends of a Python module, or file, by `add`. Any thread; takes the interpreter's lock. Fails
 * with what the module raised. */
#define SHOAL_PYTHON_CAPSULE "shoal._shoal.hosting"
typedef struct shoal_python {
    uint32_t abi; /* SHOAL_BACKEND_ABI */
    shoal_status (*load)(const shoal_host *host, const char *module,
                         shoal_status (*add)(const shoal_backend *backend));
} shoal_python;

#ifdef __cplusplus
}
#endif
#endif
