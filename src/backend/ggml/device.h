/* The ggml backend. libggml is opened at run time (library.c) and used by its functions alone: its
 * structures differ between versions, so that all of them are handles here. A device is one that
 * ggml registers; its memory are ggml's buffers (memory.c). A graph becomes a list of steps, each
 * a few operations of ggml (node.c), and all of a run is one graph of ggml (program.c): it is made
 * at each run, since ggml's tensors cannot be moved to other memory.
 *
 * ggml ends its process where it finds something wrong, or has no memory of its own. So everything
 * is checked before it is called, and its devices are lent by who names them alone.
 *
 * Locks: none but the cache's. What ggml may not do on two threads at once, the contract of
 * backend.h keeps apart. */
#ifndef GGML_DEVICE_H
#define GGML_DEVICE_H

#include "backend/cache.h"
#include "backend/common.h"
#include "backend/ggml/ggml.h"
#include "backend/place.h"
#include "graph/graph.h"

/* ---- library.c ---- */

/* Numbers that the format of .gguf files fixes. */
enum { GGML_F32 = 0, GGML_F16 = 1, GGML_I8 = 24, GGML_BF16 = 30 };
/* A product's precision: a hint, which versions with another number do not take. */
enum { GGML_SUMS_OF_F32 = 10 };

/* Passed by value: the one structure of ggml's that is known here. */
typedef struct ggml_settings {
    size_t bytes;
    void *memory;
    bool no_alloc;
} ggml_settings;

/* Contexts, tensors, graphs, devices, kinds of buffers, buffers, backends and registries. */
typedef void ggml_context, ggml_tensor, ggml_graph, ggml_dev, ggml_kind, ggml_buffer, ggml_engine,
    ggml_registry;

/* XX(result, name, arguments): the functions whose names begin with ggml_. */
#define GGML_FUNCTIONS(XX)                                                                         \
    XX(void, log_set, (void (*log)(int level, const char *text, void *context), void *context))    \
    XX(ggml_context *, init, (ggml_settings settings))                                             \
    XX(void, free, (ggml_context *))                                                               \
    XX(size_t, tensor_overhead, (void))                                                            \
    XX(size_t, graph_overhead_custom, (size_t nodes, bool gradients))                              \
    XX(size_t, nbytes, (const ggml_tensor *))                                                      \
    XX(ggml_tensor *, new_tensor, (ggml_context *, int type, int rank, const int64_t *dims))       \
    XX(ggml_tensor *, permute, (ggml_context *, ggml_tensor *, int a, int b, int c, int d))        \
    XX(ggml_tensor *, cont, (ggml_context *, ggml_tensor *))                                       \
    XX(ggml_tensor *, cast, (ggml_context *, ggml_tensor *, int type))                             \
    XX(ggml_tensor *, repeat, (ggml_context *, ggml_tensor *, ggml_tensor * shape))                \
    XX(ggml_tensor *, mul_mat, (ggml_context *, ggml_tensor *, ggml_tensor *))                     \
    XX(void, mul_mat_set_prec, (ggml_tensor *, int precision))                                     \
    XX(ggml_tensor *, add, (ggml_context *, ggml_tensor *, ggml_tensor *))                         \
    XX(ggml_tensor *, sub, (ggml_context *, ggml_tensor *, ggml_tensor *))                         \
    XX(ggml_tensor *, mul, (ggml_context *, ggml_tensor *, ggml_tensor *))                         \
    XX(ggml_tensor *, div, (ggml_context *, ggml_tensor *, ggml_tensor *))                         \
    XX(ggml_tensor *, neg, (ggml_context *, ggml_tensor *))                                        \
    XX(ggml_tensor *, abs, (ggml_context *, ggml_tensor *))                                        \
    XX(ggml_tensor *, exp, (ggml_context *, ggml_tensor *))                                        \
    XX(ggml_tensor *, log, (ggml_context *, ggml_tensor *))                                        \
    XX(ggml_tensor *, sqrt, (ggml_context *, ggml_tensor *))                                       \
    XX(ggml_tensor *, tanh, (ggml_context *, ggml_tensor *))                                       \
    XX(ggml_tensor *, sigmoid, (ggml_context *, ggml_tensor *))                                    \
    XX(ggml_tensor *, silu, (ggml_context *, ggml_tensor *))                                       \
    XX(ggml_tensor *, gelu_erf, (ggml_context *, ggml_tensor *))                                   \
    XX(ggml_tensor *, soft_max, (ggml_context *, ggml_tensor *))                                   \
    XX(ggml_tensor *, rms_norm, (ggml_context *, ggml_tensor *, float epsilon))                    \
    XX(ggml_tensor *, norm, (ggml_context *, ggml_tensor *, float epsilon))                        \
    XX(ggml_graph *, new_graph_custom, (ggml_context *, size_t nodes, bool gradients))             \
    XX(void, build_forward_expand, (ggml_graph *, ggml_tensor *))                                  \
    XX(size_t, backend_dev_count, (void))                                                          \
    XX(ggml_dev *, backend_dev_get, (size_t index))                                                \
    XX(const char *, backend_dev_name, (ggml_dev *))                                               \
    XX(const char *, backend_dev_description, (ggml_dev *))                                        \
    XX(void, backend_dev_memory, (ggml_dev *, size_t * free, size_t * total))                      \
    XX(ggml_engine *, backend_dev_init, (ggml_dev *, const char *arguments))                       \
    XX(ggml_kind *, backend_dev_buffer_type, (ggml_dev *))                                         \
    XX(bool, backend_dev_supports_op, (ggml_dev *, const ggml_tensor *))                           \
    XX(ggml_registry *, backend_dev_backend_reg, (ggml_dev *))                                     \
    XX(void *, backend_reg_get_proc_address, (ggml_registry *, const char *name))                  \
    XX(ggml_buffer *, backend_buft_alloc_buffer, (ggml_kind *, size_t bytes))                      \
    XX(size_t, backend_buft_get_alignment, (ggml_kind *))                                          \
    XX(size_t, backend_buft_get_alloc_size, (ggml_kind *, const ggml_tensor *))                    \
    XX(size_t, backend_buft_get_max_size, (ggml_kind *))                                           \
    XX(bool, backend_buft_is_host, (ggml_kind *))                                                  \
    XX(void *, backend_buffer_get_base, (ggml_buffer *))                                           \
    XX(void, backend_buffer_free, (ggml_buffer *))                                                 \
    XX(int, backend_tensor_alloc, (ggml_buffer *, ggml_tensor *, void *at))                        \
    XX(int, backend_view_init, (ggml_tensor *))                                                    \
    XX(void, backend_tensor_set, (ggml_tensor *, const void *, size_t offset, size_t bytes))       \
    XX(void, backend_tensor_get, (const ggml_tensor *, void *, size_t offset, size_t bytes))       \
    XX(int, backend_graph_compute, (ggml_engine *, ggml_graph *))                                  \
    XX(void, backend_free, (ggml_engine *))                                                        \
    XX(ggml_registry *, backend_load, (const char *path))                                          \
    XX(void, backend_load_all_from_path, (const char *folder))

typedef struct ggml_library {
#define MEMBER(result, name, arguments) result(*name) arguments;
    GGML_FUNCTIONS(MEMBER)
#undef MEMBER
    char version[24]; /* "0.13.1", or "?" of one that does not tell */
} ggml_library;

/* Opens the library, once. Fails with NOT_FOUND or VERSION, saying what to install. */
shoal_status ggml_open(const ggml_library **out) SHOAL_CHECK_RESULT;

/* ---- device.c ---- */

struct shoal_device {
    const shoal_host *host;
    const ggml_library *ggml;
    ggml_dev *dev;
    ggml_kind *kind; /* of its buffers */
    ggml_engine *engine;
    char name[96];
    size_t alignment, most; /* bytes; most: of memory */
    bool shares;            /* its memory is the host's */
    bool on_host;           /* it is a processor, whatever it is used as */
    backend_cache cache;
    shoal_memory *workspace; /* of runs, as large as the largest was; or NULL */
};

/* ---- memory.c ---- */

struct shoal_memory {
    ggml_buffer *buffer;
    char *base; /* an address of the device's: the host may use it where the device shares */
    size_t bytes, room;
};

shoal_status ggml_memory_new(shoal_device *device, size_t bytes,
                             shoal_memory **out) SHOAL_CHECK_RESULT;
shoal_status ggml_memory_import(shoal_device *device, const shoal_import *from,
                                shoal_memory **out) SHOAL_CHECK_RESULT;
void ggml_memory_free(shoal_device *device, shoal_memory *memory);
/* Frees a block of the device's cache. */
void ggml_memory_drop(void *context, void *block, size_t room);
shoal_status ggml_read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                       const shoal_points *points) SHOAL_CHECK_RESULT;
shoal_status ggml_write(shoal_device *device, shoal_binding to, const void *from,
                        const shoal_box *box, const shoal_points *points) SHOAL_CHECK_RESULT;
shoal_status ggml_copy(shoal_device *device, shoal_binding to, shoal_binding from,
                       const shoal_box *box, const shoal_points *points) SHOAL_CHECK_RESULT;
/* Bytes from one place of the device to another, which they do not overlap; from the host. */
shoal_status ggml_move(shoal_device *device, shoal_binding to, shoal_binding from,
                       size_t bytes) SHOAL_CHECK_RESULT;
shoal_status ggml_upload(shoal_device *device, shoal_binding to, const void *from,
                         size_t bytes) SHOAL_CHECK_RESULT;

/* ---- node.c ---- */

enum { GGML_SCRATCH = 4, GGML_TENSORS = 12 /* that a step makes, at most */ };

/* Numbers that stand for no value of the graph: a constant's only element, and a step's scratch. */
static const uint32_t GGML_LITERAL = SHOAL_NO_NODE;
static inline uint32_t ggml_scratch(uint32_t number) { return SHOAL_NO_NODE - 1 - number; }

typedef struct ggml_step {
    const shoal_node *node;
    uint32_t write; /* its result */
    size_t literal; /* where a constant's only element lies among the constants */
    struct {
        size_t bytes, at; /* offset in the workspace */
    } scratch[GGML_SCRATCH];
} ggml_step;

/* What a step is built with: to find out whether a device does it and what scratch it needs, or
 * (`at` is set) to run it. */
typedef struct ggml_builder ggml_builder;
struct ggml_builder {
    const shoal_device *device;
    const shoal_graph *g;
    ggml_step *step;
    ggml_context *context;
    ggml_graph *graph;
    bool refused; /* by the device: it does not do this, or has no place for a tensor */
    /* Where a value lies, or one of the above. */
    shoal_binding (*at)(const ggml_builder *b, uint32_t value);
    const void *owner;
};

/* Whether a node has a form in ggml at all, whatever the device. */
bool ggml_fits(const shoal_graph *g, const shoal_node *node);
/* Whether it takes no step: its result is its operand's memory, or lies among the constants. */
bool ggml_is_still(const shoal_graph *g, const shoal_node *node);
/* Whether its results may be written over its operands. */
bool ggml_is_elementwise(const shoal_node *node);
/* Adds the operations of a step. */
void ggml_build(ggml_builder *b);
/* The bytes that a context needs for so many steps. */
size_t ggml_context_bytes(const ggml_library *ggml, size_t steps);

/* ---- program.c ---- */

bool ggml_supports(shoal_device *device, const shoal_graph *g, const shoal_node *node);
shoal_status ggml_compile(shoal_device *device, const shoal_graph *g,
                          const shoal_compile_options *options, shoal_compile_report *report,
                          shoal_executable **out) SHOAL_CHECK_RESULT;
void ggml_executable_free(shoal_device *device, shoal_executable *executable);
shoal_status ggml_run(shoal_device *device, shoal_executable *executable,
                      const shoal_binding *buffers, size_t n_buffers,
                      const shoal_points *points) SHOAL_CHECK_RESULT;

#endif
