/* Shoal: one tensor computer out of whatever machines you have.
 *
 * The whole public API for C. A session is a connection to a pool; without an address it is a pool
 * of its own inside this process. A call on tensors checks shapes and types at once, records one
 * operation and returns a handle; work starts when a value is read, or at shoal_sync.
 *
 *     shoal_session *s;
 *     shoal_session_open(NULL, &s);
 *     shoal_tensor *a, *b, *c;
 *     shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){2, 3}, a_data, &a);
 *     shoal_tensor_new(s, SHOAL_F32, 2, (int64_t[]){3, 2}, b_data, &b);
 *     shoal_matmul(a, b, &c);
 *     shoal_read(c, result, sizeof result);
 *
 * Errors: every function that can fail returns a shoal_status; shoal_error_message() tells what was
 * wrong. An operation that fails while it runs makes the values that derive from it fail: the first
 * cause is returned by every read or sync of those values.
 * Threads: a session and its tensors may be used from any thread.
 * Ownership: `_new`, `_open` and operations hand out an object that the caller gives back with
 * `_free` or `_close`, which null the caller's pointer. */
#ifndef SHOAL_H
#define SHOAL_H

#include "shoal/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0" */
SHOAL_API const char *shoal_version(void);

/* ---- sessions ---- */

typedef struct shoal_session shoal_session;
typedef struct shoal_tensor shoal_tensor;

typedef struct shoal_options {
    size_t size;         /* sizeof(shoal_options) */
    const char *hub;     /* address of the pool; NULL: the variable SHOAL_HUB; "embedded" or unset:
                            a pool inside this process */
    uint32_t workers;    /* embedded: how many workers (slots); 0: one */
    uint32_t threads;    /* embedded: compute threads in all; 0: the cores of this machine */
    const char *backend; /* embedded: "cpu" (default) or "ref" */
    uint32_t timeout_ms; /* of every wait; 0: 10 minutes. Connecting takes 5 s at most, and waits
                            end at once when a peer is lost */
    const char *name;    /* of this client, for status; NULL: the process's name */
    /* Asked about ten times a second by a thread that waits, on that thread; true ends the wait
     * with INTERRUPTED (the work goes on). May be NULL. */
    bool (*interrupted)(void *context);
    void *context;
} shoal_options;

/* Opens a session. options may be NULL. Fails with NOT_FOUND when no hub answers at the address,
 * VERSION when it speaks another protocol, TIMEOUT. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_session_open(const shoal_options *options,
                                                             shoal_session **out);
/* Ends the session; its tensors become invalid for everything but shoal_tensor_free. */
SHOAL_API void shoal_session_close(shoal_session **session);
/* Waits until everything recorded has run. Returns the first failure since the last sync. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_sync(shoal_session *session);

/* Notes where in the user's program the following operations of this thread come from
 * ("train.py:12"); part of error messages. The text is copied. NULL: unknown. */
SHOAL_API void shoal_location(const char *location);

/* A device that can hold parts of tensors. */
typedef struct shoal_slot {
    uint32_t slot; /* its number in the pool */
    uint32_t pid;
    char worker[64]; /* name of its worker */
    char host[64];
    char backend[32];
    char device[96];
    uint32_t threads;
    bool compute; /* false: memory of a client */
    double weight;
    uint64_t memory; /* bytes, 0: unknown */
    uint64_t bytes;  /* held by values */
    uint64_t instances;
    uint64_t busy_ns;
    uint64_t nodes; /* operations executed */
} shoal_slot;

typedef struct shoal_pool_status {
    size_t size; /* sizeof(shoal_pool_status) */
    char version[32];
    char address[256];
    uint64_t epoch, instances, uptime_ms, values, bytes;
    uint32_t sessions;
    uint32_t n_slots; /* in the pool; the call fills at most `room` of them */
} shoal_pool_status;

/* slots may be NULL when room is 0. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_status_of(shoal_session *session,
                                                          shoal_pool_status *status,
                                                          shoal_slot *slots, uint32_t room);

/* ---- tensors ---- */

/* A tensor from memory, dense and row-major. The data is copied. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_new(shoal_session *session,
                                                           shoal_dtype dtype, uint32_t rank,
                                                           const int64_t *dims, const void *data,
                                                           shoal_tensor **out);
/* The same without a copy: the data must stay unchanged until `release(context)` is called, which
 * happens once, on any thread, also when this call fails. The callback may neither wait nor call
 * the library. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_borrow(shoal_session *session,
                                                              shoal_dtype dtype, uint32_t rank,
                                                              const int64_t *dims, const void *data,
                                                              void (*release)(void *context),
                                                              void *context, shoal_tensor **out);
/* Another handle to the same value. */
SHOAL_API shoal_tensor *shoal_tensor_retain(shoal_tensor *tensor);
/* Gives a handle back; never blocks and never fails. NULL inside is fine. */
SHOAL_API void shoal_tensor_free(shoal_tensor **tensor);

SHOAL_API const shoal_type *shoal_tensor_type(const shoal_tensor *tensor);
SHOAL_API shoal_session *shoal_tensor_session(const shoal_tensor *tensor);

/* Computes the value and copies it out; bytes must be the tensor's size. Each read moves the value
 * once; reading leaves it where it is. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_read(shoal_tensor *tensor, void *data,
                                                     size_t bytes);
/* Starts the work on everything recorded and returns. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_start(shoal_tensor *tensor);

/* What ran last, per slot: for reports. */
typedef struct shoal_slot_time {
    uint32_t slot;
    uint64_t busy_ns;
    uint64_t nodes;
} shoal_slot_time;
/* Times of the program that computed this value; waits for it. *count: in: room, out: slots. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_times(shoal_tensor *tensor,
                                                             shoal_slot_time *times,
                                                             uint32_t *count);

/* ---- operations ---- */

/* Applies any operation of the table (shoal_op_find). attrs in any order; regions for operations
 * that have bodies. n_outputs must be the number of results. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_apply(shoal_session *session, uint16_t op, shoal_tensor *const *inputs, uint32_t n_inputs,
            const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *const *regions,
            uint16_t n_regions, shoal_tensor **outputs, uint16_t n_outputs);

/* Element by element, with NumPy's broadcasting between shapes; element types must be equal. */
#define SHOAL_UNARY_MAP(XX)                                                                        \
    XX(negate) XX(exponential) XX(log) XX(sqrt) XX(tanh) XX(logistic) XX(abs)
#define SHOAL_BINARY_MAP(XX)                                                                       \
    XX(add) XX(subtract) XX(multiply) XX(divide) XX(maximum) XX(minimum) XX(power)
#define XX(name)                                                                                   \
    SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_##name(shoal_tensor *x, shoal_tensor **out);
SHOAL_UNARY_MAP(XX)
#undef XX
#define XX(name)                                                                                   \
    SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_##name(shoal_tensor *a, shoal_tensor *b,       \
                                                           shoal_tensor **out);
SHOAL_BINARY_MAP(XX)
#undef XX

/* direction: "EQ", "NE", "LT", "LE", "GT", "GE"; the result is bool. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_compare(shoal_tensor *a, shoal_tensor *b,
                                                        const char *direction, shoal_tensor **out);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_select(shoal_tensor *condition, shoal_tensor *yes,
                                                       shoal_tensor *no, shoal_tensor **out);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_convert(shoal_tensor *x, shoal_dtype dtype,
                                                        shoal_tensor **out);
/* NumPy's matmul for every rank >= 1: the last axis of a against the last but one of b, leading
 * axes broadcast. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_matmul(shoal_tensor *a, shoal_tensor *b,
                                                       shoal_tensor **out);
/* permutation NULL: axes reversed. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_transpose(shoal_tensor *x,
                                                          const int64_t *permutation,
                                                          shoal_tensor **out);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_reshape(shoal_tensor *x, uint32_t rank,
                                                        const int64_t *dims, shoal_tensor **out);
/* NumPy's broadcast_to. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_broadcast(shoal_tensor *x, uint32_t rank,
                                                          const int64_t *dims, shoal_tensor **out);
/* start, limit, stride per axis (stride NULL: 1). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_slice(shoal_tensor *x, const int64_t *start,
                                                      const int64_t *limit, const int64_t *stride,
                                                      shoal_tensor **out);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_concatenate(shoal_tensor *const *inputs,
                                                            uint32_t n_inputs, int64_t axis,
                                                            shoal_tensor **out);
/* op: "add", "multiply", "maximum", "minimum". axes: n_axes of them, negative ones count from the
 * end; n_axes 0: all. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_reduce(shoal_tensor *x, const char *op,
                                                       const int64_t *axes, uint32_t n_axes,
                                                       bool keep_axes, shoal_tensor **out);
/* 0, 1, 2, … along one axis. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_iota(shoal_session *session, shoal_dtype dtype,
                                                     uint32_t rank, const int64_t *dims,
                                                     uint32_t axis, shoal_tensor **out);
/* All elements the same; `value` points to one element. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_full(shoal_session *session, shoal_dtype dtype,
                                                     uint32_t rank, const int64_t *dims,
                                                     const void *value, shoal_tensor **out);

/* ---- where tensors lie ---- */

/* How a tensor is to be spread. parts[i] says into how many parts axis i is cut; the grid of parts
 * is laid over `slots` in row-major order, `copies` slots per part. weights: per axis parts[i]
 * shares one after another, NULL for equal ones. cuts instead of weights: per axis parts[i] + 1
 * points. slots NULL: the pool's compute slots in rising order. */
typedef struct shoal_layout {
    size_t size;           /* sizeof(shoal_layout) */
    const uint32_t *parts; /* rank numbers; NULL: 1 for each axis */
    const double *weights;
    const int64_t *cuts;
    uint32_t copies; /* 0: as many as the slots allow */
    const uint32_t *slots;
    uint32_t n_slots;
} shoal_layout;

/* The same value, spread so. What is computed from it is divided in the same way; where operands
 * were placed differently, as one of them, whichever is cheapest. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_place(shoal_tensor *x, const shoal_layout *layout,
                                                      shoal_tensor **out);

/* The plan for computing and reading a value, as text or as JSON, without running it. The caller
 * frees *out with free(). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_explain(shoal_tensor *tensor, bool json,
                                                        char **out);

/* ---- files ---- */

/* An open file of tensors: .npy or .gguf, told by its contents. Mapped into memory. */
typedef struct shoal_file shoal_file;
typedef struct shoal_file_tensor {
    const char *name;     /* "" in a .npy */
    shoal_type type;      /* of the values once decoded */
    const char *encoding; /* "float32", "q8_0", … : as stored */
    uint64_t bytes;       /* as stored */
} shoal_file_tensor;

SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_open(const char *path, shoal_file **out);
SHOAL_API void shoal_file_close(shoal_file **file);
SHOAL_API uint64_t shoal_file_count(const shoal_file *file);
/* The strings live as long as the file is open. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_tensor_at(const shoal_file *file,
                                                               uint64_t index,
                                                               shoal_file_tensor *out);
/* Fails with NOT_FOUND and names some that are there. name NULL or "": the only one. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_find(const shoal_file *file, const char *name,
                                                          uint64_t *index);
/* Elements [first, first + count) of a tensor, decoded to its type, in row-major order. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_read(const shoal_file *file, uint64_t index,
                                                          uint64_t first, uint64_t count,
                                                          void *data);
/* A metadata value of a .gguf as text: for an array the element `index`. The caller frees it with
 * free(). Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_meta(const shoal_file *file, const char *key,
                                                          uint64_t index, char **out);
/* The whole tensor in a session; mapped where the encoding allows. The file may be closed then. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_file_load(shoal_file *file, uint64_t index,
                                                          shoal_session *session,
                                                          shoal_tensor **out);
/* Writes a .npy beside the path and renames it into place. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_npy_write(const char *path, shoal_dtype dtype,
                                                          uint32_t rank, const int64_t *dims,
                                                          const void *data);

/* ---- running a pool ---- */

typedef struct shoal_hub_options {
    size_t size;
    const char *address; /* NULL: "shm:hub" */
    /* Called once the addresses are held, before the call blocks; may be NULL. They are a list with
     * commas between them, which serves as an address of the hub. */
    void (*ready)(void *context, const char *addresses);
    void *context;
    const volatile int *stop; /* the call returns soon after *stop becomes non-zero */
    /* NULL: this machine only. "HOST:PORT" of one of its interfaces, which may be open to a
     * network: it listens there, too, encrypted, for who has enrolled. PORT may be 0: any. */
    const char *listen;
} shoal_hub_options;
/* Runs a hub in this thread until stopped. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_hub_run(const shoal_hub_options *options);

typedef struct shoal_worker_options {
    size_t size;
    const char *hub;     /* NULL: SHOAL_HUB, else "shm:hub" */
    const char *name;    /* NULL: the hub gives one */
    const char *backend; /* NULL: "cpu" */
    uint32_t device;
    uint32_t threads; /* 0: all cores */
    double weight;    /* 0: 1 */
    uint64_t memory;  /* most bytes for values; 0: three quarters of the machine's */
    void (*ready)(void *context, const char *name);
    void *context;
    const volatile int *stop;
    /* The interface ("HOST" or "HOST:PORT") at which others of the pool may reach this worker when
     * the hub is on another machine. NULL: SHOAL_LISTEN, else it only reaches out. */
    const char *listen;
} shoal_worker_options;
/* Runs a worker in this thread until stopped, or until the hub is gone (LOST). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_worker_run(const shoal_worker_options *options);

/* ---- enrolment: who may come in from other machines ----
 *
 * Keys lie in $XDG_CONFIG_HOME/shoal (~/.config/shoal), for this user alone. */

/* A token for one user on one machine, good for so many seconds, at the hub that this user runs
 * here with `listen`; to be freed with free(). Fails with NOT_FOUND when there was none. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_invite(uint32_t seconds, char **token);
/* Enrols this user at the token's hub, under a name (NULL: USER.HOST). The hub's addresses, for the
 * options above, are written to `hub`, of `room` bytes. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_join(const char *token, const char *name, char *hub,
                                                     size_t room);
/* Who has enrolled at this user's hub: name and public key (64 hexadecimal digits). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_peers(void (*each)(void *context, const char *name,
                                                                   const char *key),
                                                      void *context);
/* Shuts somebody out; links that are there end within a second. Fails with NOT_FOUND. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_revoke(const char *name);

/* Backends of this build and the devices they find: for `doctor`. Calls back per device, and once
 * with device NULL and the reason for a backend that finds none. */
typedef struct shoal_found {
    const char *backend, *summary;
    const char *device; /* NULL: none found */
    const char *reason; /* why none */
    uint64_t memory;
    uint32_t threads;
} shoal_found;
SHOAL_API void shoal_backends(void (*each)(void *context, const shoal_found *found), void *context);

#ifdef __cplusplus
}
#endif
#endif
