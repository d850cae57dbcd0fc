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
 * Errors: every function that can fail returns a shoal_status; shoal_error_message() gives the
 * reason. An operation that fails while it runs makes every value that derives from it fail:
 * reading or syncing such a value returns the first cause.
 *
 * Threads: a session and its tensors may be used from any thread.
 *
 * Ownership: `_new`, `_open` and operations return an object that the caller releases with `_free`
 * or `_close`, which set the caller's pointer to NULL. */
#ifndef SHOAL_H
#define SHOAL_H

#include "shoal/event.h"
#include "shoal/file.h"
#include "shoal/ir.h"
#include "shoal/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library, "MAJOR.MINOR.PATCH"; SHOAL_VERSION_NUMBER is that of its headers. */
SHOAL_API const char *shoal_version(void);

/* ---- sessions ---- */

typedef struct shoal_options {
    size_t size;         /* sizeof(shoal_options) */
    const char *hub;     /* address of the pool; NULL: the variable SHOAL_HUB; "embedded" or unset:
                            a pool inside this process */
    uint32_t workers;    /* embedded: how many workers (slots); 0: one per device */
    uint32_t threads;    /* embedded: compute threads in all; 0: the cores of this machine */
    const char *backend; /* embedded: devices, as shoal_worker_options.devices names them; workers
                            take them in turn. NULL: SHOAL_BACKEND, else "cpu" */
    uint32_t timeout_ms; /* of every wait; 0: 10 minutes. Connecting takes 5 s at most, and waits
                            end within 3 s when the hub is lost */
    const char *name;    /* of this client, for status; NULL: the process's name */
    /* Called about ten times a second by a waiting thread, on that thread; true ends the wait with
     * INTERRUPTED (the work continues). May be NULL. */
    bool (*interrupted)(void *context);
    void *context;
    /* At most how many bytes of this process's memory hold copies of the workers' values, with
     * which the session survives their loss; 0: a quarter of the machine's memory. */
    uint64_t spare;
    uint32_t panels; /* embedded, for tests: as of shoal_hub_options */
} shoal_options;

/* Opens a session. options may be NULL. Fails with NOT_FOUND when no hub answers at the address,
 * VERSION when it speaks another protocol, TIMEOUT.
 *
 * When the hub is lost, calls fail with LOST within 3 s, and the session keeps trying to rejoin it
 * until it is closed. Once the hub, or another one at its address, answers, calls work again; but
 * earlier tensors were lost with the hub: calls that use them fail with LOST. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_session_open(const shoal_options *options,
                                                             shoal_session **out);
/* Ends the session. Its tensors can only be freed from then on. NULL inside is allowed. */
SHOAL_API void shoal_session_close(shoal_session **session);
/* Waits until everything recorded has run. Returns the first failure since the last sync. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_sync(shoal_session *session);

/* What a session has sent since it was opened. */
typedef struct shoal_counts {
    size_t size;       /* sizeof(shoal_counts) */
    uint64_t programs; /* programs run */
    uint64_t fresh;    /* of these, sent in full; the others repeated one, by its number */
} shoal_counts;
SHOAL_API void shoal_session_counts(shoal_session *session, shoal_counts *out);

/* Sets the place in the user's program ("train.py:12") of this thread's following operations, for
 * error messages. NULL: unknown. */
SHOAL_API void shoal_location(const char *location);

/* A device that can hold parts of tensors. */
typedef struct shoal_slot {
    uint32_t slot; /* its number in the pool */
    uint32_t pid;
    char worker[64]; /* name of its worker */
    char host[64];
    char backend[32];
    char name[64];   /* of the device, as `shoal worker --device` takes it: "opencl:1" */
    char device[96]; /* what it is: "AMD EPYC 9654, 2 threads" */
    uint32_t threads;
    bool compute; /* false: memory of a client */
    double weight;
    uint64_t memory; /* bytes, 0: unknown */
    uint64_t bytes;  /* held by values; for a client, also by copies of the workers' values */
    uint64_t instances;
    uint64_t busy_ns;
    uint64_t nodes;          /* operations executed */
    uint64_t sent, received; /* bytes that went to other slots, and came from them */
    uint32_t queued;         /* programs sent to it that have not finished */
    uint64_t relayed;        /* bytes that its process received through the hub */
    uint32_t paths;          /* connections that its process has with the hub, used together */
    uint64_t paths_lost;     /* such that ended while others went on */
    uint64_t fetching;       /* bytes of a file that its process fetches from another; 0: none, */
    uint64_t fetched;        /* and of these, that are there */
    bool maps; /* it is of this user on this machine, and computes with files where they lie */
    uint64_t machine; /* bytes of its machine's memory, or of what its control group may take of
                         it; 0: unknown */
    bool weighted;    /* its weight was given (`shoal worker --weight`), not measured */
} shoal_slot;

/* A connection of a process of the pool with another, which may have several, each by a network of
 * its own. Each end tells of it what it has sent. */
typedef struct shoal_path {
    char worker[64], other[64]; /* whose it is, and with whom: "hub" */
    char address[128];
    double speed; /* bytes a second that went out while there was enough to send; 0: not measured */
    uint64_t sent, saved; /* bytes; those that did not have to go out, as they were compressed */
} shoal_path;

typedef struct shoal_pool_status {
    size_t size; /* sizeof(shoal_pool_status) */
    char version[32];
    char address[256];
    uint64_t epoch, instances, uptime_ms, values, bytes;
    uint32_t sessions;
    uint32_t n_slots; /* in the pool; the call fills at most `room` of them */
    uint64_t losses;  /* workers that left */
    uint64_t reruns;  /* programs that were run again because of that */
    uint64_t unix_ms; /* the hub's time of day: milliseconds since 1970 */
    uint64_t pool;    /* random, of this hub: one that takes its place has another */
} shoal_pool_status;

/* The connections between the pool's processes, as these have told in the last seconds: their
 * number, and at most `room` of them. paths may be NULL when room is 0. Fails with LOST or TIMEOUT.
 */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_paths_of(shoal_session *session, shoal_path *paths,
                                                         uint32_t room, uint32_t *n);
/* The pool's state and its slots. slots may be NULL when room is 0. Fails with LOST or TIMEOUT. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_status_of(shoal_session *session,
                                                          shoal_pool_status *status,
                                                          shoal_slot *slots, uint32_t room);

/* ---- events ---- */

/* A process of the pool that reports events. */
typedef struct shoal_event_source {
    uint32_t peer; /* its number in the pool; 0: the hub */
    const char *name;
    bool answered;  /* false: it did not, within a second */
    int64_t now;    /* its clock when it answered, in nanoseconds */
    int64_t offset; /* its clock minus the hub's, in nanoseconds */
    uint64_t doubt; /* the largest error of that offset, in nanoseconds */
    uint64_t lost;  /* events that were overwritten before they could be fetched */
} shoal_event_source;
/* Fetches the events that the processes of the pool have recorded since this session's last call,
 * oldest first for each process; the first call only starts the recording, which continues for
 * keep_ms (at most a minute) after each call. A process keeps its latest 16,384 events. Calls
 * `each` once per process, the hub first, on this thread; its arguments are valid during that call
 * only. Waits until 20 ms have passed since the last call: each is a question to every process.
 * Fails with TIMEOUT when the hub does not answer within a second. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_events(shoal_session *session, uint32_t keep_ms,
             void (*each)(void *context, const shoal_event_source *source,
                          const shoal_event *events, size_t n_events),
             void *context);

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
/* Releases a handle; never blocks and never fails. NULL inside is allowed. */
SHOAL_API void shoal_tensor_free(shoal_tensor **tensor);

/* Element type and shape, valid as long as the handle. */
SHOAL_API const shoal_type *shoal_tensor_type(const shoal_tensor *tensor);
/* The session that it belongs to; not a new reference. */
SHOAL_API shoal_session *shoal_tensor_session(const shoal_tensor *tensor);

/* Computes the value, waits for it, and copies it to `data`, dense and row-major; bytes must be the
 * tensor's size. The value stays where it is. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_read(shoal_tensor *tensor, void *data,
                                                     size_t bytes);
/* The same in two halves: it begins, and returns; `data` is written to until its end, which waits.
 * Results of several programs are read one behind the other so, while others compute. Each that has
 * begun must be ended, also when it fails, and before `data` is freed; the end sets *reading to
 * NULL. */
typedef struct shoal_reading shoal_reading;
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_read_begin(shoal_tensor *tensor, void *data,
                                                           size_t bytes, shoal_reading **out);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_read_end(shoal_reading **reading);
/* Starts everything that is recorded, among it this tensor, and returns. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_start(shoal_tensor *tensor);
/* Donates a value: its memory may be reused once the work that has been started has read it. Using
 * the tensor afterwards, by any handle, fails with INVALID. Starts what is recorded. A tensor of a
 * file is unaffected: it holds no memory. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_donate(shoal_tensor *tensor);
/* The number of the tensor's value in the pool; 0 while it is only recorded. */
SHOAL_API uint64_t shoal_tensor_value(const shoal_tensor *tensor);
/* Whether it is a tensor of a file, which is read where it is used. */
SHOAL_API bool shoal_tensor_from_file(const shoal_tensor *tensor);

/* What one slot did for a program. */
typedef struct shoal_slot_time {
    uint32_t slot;
    uint64_t busy_ns;
    uint64_t nodes;
} shoal_slot_time;
/* Times of the program that computed this value; waits for it. *count: in: room, out: slots. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_times(shoal_tensor *tensor,
                                                             shoal_slot_time *times,
                                                             uint32_t *count);

/* What one slot sent to another while a value was computed, and the time from the first byte to the
 * last, in nanoseconds. */
typedef struct shoal_link_time {
    uint32_t from, to; /* slots */
    uint64_t bytes;
    uint64_t ns;
} shoal_link_time;
/* Transfers of the program that computed this value; waits for it. *count: in: room, out: pairs. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_links(shoal_tensor *tensor,
                                                             shoal_link_time *links,
                                                             uint32_t *count);

/* ---- operations ----
 *
 * Each records one operation and returns a handle to its result. All fail with INVALID, naming the
 * operation, the shapes and the fix, where shapes, element types or attributes do not fit, and
 * where operands are of different sessions. doc/operations.md has the exact meaning of each. */

/* Applies any operation of the table (shoal_op_find). attrs in any order; regions for operations
 * that have bodies. n_outputs must be the number of results. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_apply(shoal_session *session, uint16_t op, shoal_tensor *const *inputs, uint32_t n_inputs,
            const shoal_attr *attrs, uint16_t n_attrs, const shoal_graph *const *regions,
            uint16_t n_regions, shoal_tensor **outputs, uint16_t n_outputs);

/* Element by element, with NumPy's broadcasting between shapes; element types must be equal. */
/* clang-format off */
#define SHOAL_UNARY_MAP(XX)                                                                        \
    XX(negate) XX(exponential) XX(log) XX(sqrt) XX(tanh) XX(logistic) XX(abs) XX(erf) XX(rsqrt)    \
    XX(cosine) XX(sine) XX(tan) XX(cbrt) XX(ceil) XX(floor) XX(exponential_minus_one)              \
    XX(log_plus_one) XX(round_nearest_afz) XX(round_nearest_even) XX(sign) XX(not) XX(popcnt)      \
    XX(count_leading_zeros) XX(is_finite) XX(silu)
#define SHOAL_BINARY_MAP(XX)                                                                       \
    XX(add) XX(subtract) XX(multiply) XX(divide) XX(maximum) XX(minimum) XX(power) XX(and) XX(or)  \
    XX(xor) XX(atan2) XX(remainder) XX(shift_left) XX(shift_right_arithmetic)                      \
    XX(shift_right_logical)
/* clang-format on */
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
/* `yes` where the condition (bool) is true, else `no`; broadcast. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_select(shoal_tensor *condition, shoal_tensor *yes,
                                                       shoal_tensor *no, shoal_tensor **out);
/* Each element converted to another type. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_convert(shoal_tensor *x, shoal_dtype dtype,
                                                        shoal_tensor **out);
/* NumPy's matmul for every rank >= 1: the last axis of a against the last but one of b, leading
 * axes broadcast. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_matmul(shoal_tensor *a, shoal_tensor *b,
                                                       shoal_tensor **out);
/* Axis i of the result is axis permutation[i] of x; NULL: in reverse order. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_transpose(shoal_tensor *x,
                                                          const int64_t *permutation,
                                                          shoal_tensor **out);
/* The same elements, in row-major order, in another shape. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_reshape(shoal_tensor *x, uint32_t rank,
                                                        const int64_t *dims, shoal_tensor **out);
/* NumPy's broadcast_to. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_broadcast(shoal_tensor *x, uint32_t rank,
                                                          const int64_t *dims, shoal_tensor **out);
/* Per axis the indices start, start + stride, … below limit; stride NULL: 1. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_slice(shoal_tensor *x, const int64_t *start,
                                                      const int64_t *limit, const int64_t *stride,
                                                      shoal_tensor **out);
/* One after another along an axis; the other axes must agree. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_concatenate(shoal_tensor *const *inputs,
                                                            uint32_t n_inputs, int64_t axis,
                                                            shoal_tensor **out);
/* Sums and the like over axes. op: "add", "multiply", "maximum", "minimum". Negative axes count
 * from the end; n_axes 0: all axes. keep_axes: they stay, with length 1. */
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

/* least <= x <= most, element by element; the bounds are scalars or broadcast to x's shape. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_clamp(shoal_tensor *x, shoal_tensor *least,
                                                      shoal_tensor *most, shoal_tensor **out);
/* The same bytes as another type; a smaller type adds a last axis, a larger one removes it. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_bitcast(shoal_tensor *x, shoal_dtype dtype,
                                                        shoal_tensor **out);
/* Rounded to a floating-point format of so many bits. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_reduce_precision(shoal_tensor *x, int exponent_bits,
                                                                 int mantissa_bits,
                                                                 shoal_tensor **out);
/* value: a scalar of x's type. low, high: elements added per axis, or removed when negative;
 * interior (NULL: none): added between two elements. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_pad(shoal_tensor *x, shoal_tensor *value,
                                                    const int64_t *low, const int64_t *high,
                                                    const int64_t *interior, shoal_tensor **out);
/* The elements along the given axes in reverse order. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_reverse(shoal_tensor *x, const int64_t *axes,
                                                        uint32_t n_axes, shoal_tensor **out);
/* A box of `sizes` at `starts`, one integer scalar per axis, all of one type. A box that would lie
 * partly outside is moved inside. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_dynamic_slice(shoal_tensor *x,
                                                              shoal_tensor *const *starts,
                                                              const int64_t *sizes,
                                                              shoal_tensor **out);
/* x with such a box replaced by `update`. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_dynamic_update_slice(shoal_tensor *x,
                                                                     shoal_tensor *update,
                                                                     shoal_tensor *const *starts,
                                                                     shoal_tensor **out);
/* NumPy's take: the elements at integer indices along an axis, which the axes of the indices
 * replace. Indices that are out of range are clamped. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_take(shoal_tensor *x, shoal_tensor *indices,
                                                     int64_t axis, shoal_tensor **out);
/* x combined with updates at indices, a vector, along an axis. op: "add", "multiply", "maximum",
 * "minimum" or "set". Indices out of range are skipped; of equal indices the last is set. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_scatter(shoal_tensor *x, shoal_tensor *indices,
                                                        shoal_tensor *updates, int64_t axis,
                                                        const char *op, shoal_tensor **out);
/* NumPy's put_along_axis: indices and updates have x's shape except for the length of the axis; x
 * is combined with each update at its index along the axis. Otherwise as shoal_scatter. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_scatter_along(shoal_tensor *x,
                                                              shoal_tensor *indices,
                                                              shoal_tensor *updates, int64_t axis,
                                                              const char *op, shoal_tensor **out);
/* x combined with updates at points: the last axis of the indices has one number per axis in
 * `axes`; updates have the other axes of the indices, then the axes of x that `axes` does not name.
 * Otherwise as shoal_scatter. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_scatter_points(shoal_tensor *x, const int64_t *axes,
                                                               uint32_t n_axes,
                                                               shoal_tensor *indices,
                                                               shoal_tensor *updates,
                                                               const char *op, shoal_tensor **out);
/* Sorts along an axis; stable, NaN as the largest. indices (may be NULL): the old places, int64. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_sort(shoal_tensor *x, int64_t axis, bool falling,
                                                     shoal_tensor **values, shoal_tensor **indices);
/* The k largest elements along the last axis, in descending order, and their indices (int32). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_top_k(shoal_tensor *x, int64_t k,
                                                      shoal_tensor **values,
                                                      shoal_tensor **indices);
/* The index, int64, of the largest or smallest along an axis; of equal ones, or NaN, the first. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_argmax(shoal_tensor *x, int64_t axis,
                                                       shoal_tensor **out);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_argmin(shoal_tensor *x, int64_t axis,
                                                       shoal_tensor **out);
/* Combines each element with all before it along an axis: "add" gives cumulative sums. ops as in
 * shoal_reduce. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_cumulate(shoal_tensor *x, const char *op,
                                                         int64_t axis, shoal_tensor **out);
/* Reduces each window over the last n axes of x to one element; ops as in shoal_reduce. Per axis:
 * the window's length, the step between windows (strides NULL: 1), neutral elements added before
 * and after (padding: 2 n numbers; NULL: none), and the distance between elements within a window
 * (dilation NULL: 1). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_reduce_window(
    shoal_tensor *x, const char *op, uint32_t n, const int64_t *window, const int64_t *strides,
    const int64_t *padding, const int64_t *dilation, shoal_tensor **out);
/* Cross-correlation of x [N, C, ...] with kernels [O, C / groups, ...]: [N, O, ...]. strides,
 * padding and dilation of the axes from the third on, as shoal_reduce_window. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_convolve(shoal_tensor *x, shoal_tensor *kernels,
                                                         const int64_t *strides,
                                                         const int64_t *padding,
                                                         const int64_t *dilation, int64_t groups,
                                                         shoal_tensor **out);
/* distribution: "UNIFORM" in [0, 1), "NORMAL", or "BITS" of integers and bool. seed and stream
 * (may be NULL) are integer scalars; equal ones give equal numbers, in any layout. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_random(shoal_tensor *seed, shoal_tensor *stream,
                                                       const char *distribution, shoal_dtype dtype,
                                                       uint32_t rank, const int64_t *dims,
                                                       shoal_tensor **out);

/* ---- composites: floating-point types; float16 and bfloat16 are computed in float32 ---- */

/* x Phi(x); tanh: by the approximation with tanh (arXiv:1606.08415). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_gelu(shoal_tensor *x, bool tanh,
                                                     shoal_tensor **out);
/* e^x divided by its sum along an axis; negative axes count from the end. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_softmax(shoal_tensor *x, int64_t axis,
                                                        shoal_tensor **out);
/* x minus the logarithm of the sum of e^x along an axis. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_log_softmax(shoal_tensor *x, int64_t axis,
                                                            shoal_tensor **out);
/* x / sqrt(mean(x^2) + epsilon) along an axis, times scale [dims[axis]], or NULL. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_rms_norm(shoal_tensor *x, shoal_tensor *scale,
                                                         int64_t axis, double epsilon,
                                                         shoal_tensor **out);
/* (x - mean) / sqrt(variance + epsilon) along an axis, times scale, plus bias: each [dims[axis]] or
 * NULL; a bias needs a scale. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_layer_norm(shoal_tensor *x, shoal_tensor *scale,
                                                           shoal_tensor *bias, int64_t axis,
                                                           double epsilon, shoal_tensor **out);
/* One loss per label: -log_softmax of the logits at the labels, integers of the logits' shape
 * without the axis. ignored (may be NULL): the label whose loss is 0; other labels that are no
 * class give NaN. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_cross_entropy(shoal_tensor *logits,
                                                              shoal_tensor *labels, int64_t axis,
                                                              const int64_t *ignored,
                                                              shoal_tensor **out);
typedef struct shoal_attention_options {
    size_t size;          /* sizeof(shoal_attention_options) */
    shoal_tensor *mask;   /* bool: true is seen; or of q's type: added. Its axes are the last of
                             [..., S, T], or 1. May be NULL */
    shoal_tensor *length; /* integer scalar: keys from there on are hidden. May be NULL */
    bool causal;          /* query i sees keys up to i + (length or T) - S */
    double scale;         /* 0: 1 / sqrt(D) */
} shoal_attention_options;
/* softmax(scale q k^T) v for q [..., S, D], k [..., T, D], v [..., T, E]; q may have one axis more
 * before S, heads that share k and v. options may be NULL. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_attention(shoal_tensor *q, shoal_tensor *k,
                                                          shoal_tensor *v,
                                                          const shoal_attention_options *options,
                                                          shoal_tensor **out);
/* Turns the pairs of the last axis by position * frequency. positions: one integer per index of
 * `axis`. frequencies: float32, one per pair; NULL: theta^(-2i/D), with theta 0: 10000.
 * interleaved: pairs are neighbours, not halves. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_rope(shoal_tensor *x, shoal_tensor *positions,
                                                     shoal_tensor *frequencies, int64_t axis,
                                                     double theta, bool interleaved,
                                                     shoal_tensor **out);
/* The numbers of quantised blocks. bytes: uint8, whole blocks along the last axis, which gets the
 * length of their values; format: the name of one of shoal_block_format_at; dtype: float32, or
 * float16 or bfloat16, to which float32 is rounded. Parts of the bytes may be cut, sliced and
 * gathered like those of any tensor. Fails with INVALID, naming the fix. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_dequantize(shoal_tensor *bytes, const char *format,
                                                           shoal_dtype dtype, shoal_tensor **out);

/* ---- signals ----
 *
 * Named scopes, which say where values are stored and computed. Between shoal_signal_enter and
 * shoal_signal_exit, on this thread, new tensors and the results of operations are split or
 * replicated as the signal says. Operands from outside are redistributed: leaves that require
 * gradients are replicated, unless another signal has placed them, all others split. Gradients are
 * computed under the signal's `backward`. A tensor without the axis to be split is replicated. A
 * scope whose name has no description changes nothing. */

typedef struct shoal_signal {
    size_t size; /* sizeof(shoal_signal) */
    const char *name;
    bool shard;              /* without it, only the rest counts */
    int32_t axis;            /* to be split; negative ones count from the end */
    bool replicated;         /* whole copies instead of parts */
    const uint32_t *workers; /* in the order in which they joined; n_workers 0: all */
    uint32_t n_workers;
    const double *shares; /* one per worker, in any unit; NULL: by their speeds */
    uint32_t n_shares;
    const char *backward; /* NULL: itself */
    bool compile;         /* a scope is a program of its own */
} shoal_signal;

/* Describes signals by a YAML file, or by a text, which messages call `source`. A description
 * replaces the earlier one of the same name. Fails with IO, or FORMAT with line and column, and
 * then changes nothing. Opening a session reads the file that the variable SHOAL_CONFIG names. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signals_load(const char *path);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signals_parse(const char *text, size_t bytes,
                                                              const char *source);
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signal_describe(const shoal_signal *signal);
/* Calls `each` with every description, valid during the call, which may not describe signals. */
SHOAL_API void shoal_signals_each(void (*each)(void *context, const shoal_signal *signal),
                                  void *context);
/* Forgets all descriptions. */
SHOAL_API void shoal_signals_clear(void);

/* backward: instead of the described one; may be NULL. name NULL: a scope without a signal. At most
 * 64 scopes may be nested. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signal_enter(shoal_session *session,
                                                             const char *name,
                                                             const char *backward);
/* Leaves the innermost scope. Fails with INVALID, and leaves none, when its name is another. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signal_exit(shoal_session *session,
                                                            const char *name);
/* Name and backward signal of scope i of this thread, 0 being the innermost; false: there is none.
 * Either may be set to NULL. */
SHOAL_API bool shoal_signal_scope(uint32_t i, const char **name, const char **backward);
/* x placed as the signal says. `name` must be described with `shard`, and x must have the axis. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signal_place(shoal_tensor *x, const char *name,
                                                             shoal_tensor **out);
/* x placed as a new tensor of the innermost scope: x itself where that does not place. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_signal_adopt(shoal_tensor *x, shoal_tensor **out);

/* ---- gradients ----
 *
 * Reverse mode. For tensors that require gradients, and for results of operations on them, the
 * session notes how they were made, until they are freed or a gradient has been taken.
 * shoal_gradients records operations that compute gradients from values already computed. */

/* Whether operations on this thread are noted for gradients. AGAIN: they are, but their results are
 * not kept: they are computed a second time when needed, which saves memory and costs time. */
typedef enum shoal_gradient_mode {
    SHOAL_GRADIENTS_OFF,
    SHOAL_GRADIENTS_ON, /* at first */
    SHOAL_GRADIENTS_AGAIN,
} shoal_gradient_mode;
/* Returns the previous mode. */
SHOAL_API shoal_gradient_mode shoal_set_gradients(shoal_gradient_mode mode);
SHOAL_API shoal_gradient_mode shoal_gradients_mode(void);

/* Asks for gradients with respect to x, which becomes a leaf. Fails with INVALID for integers and
 * bool, and when `required` is false for a result. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_require_gradient(shoal_tensor *x,
                                                                        bool required);
/* Whether x is such a tensor or derives from one. */
SHOAL_API bool shoal_tensor_requires_gradient(const shoal_tensor *x);
/* Whether x is not the result of an operation that gradients pass through. */
SHOAL_API bool shoal_tensor_is_leaf(const shoal_tensor *x);
/* The name of that operation; NULL for a leaf. */
SHOAL_API const char *shoal_tensor_origin(const shoal_tensor *x);
/* A number that is the same for handles to the same leaf, also after it was changed in place, or to
 * the same result; 0 for what does not require gradients. */
SHOAL_API uint64_t shoal_tensor_identity(const shoal_tensor *x);
/* Makes x, a result, one of the tensors that shoal_gradient_targets lists. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_watch_gradient(shoal_tensor *x);

/* An operation that gradients would pass through. */
typedef struct shoal_tape_entry {
    uint64_t number; /* of its result; numbers rise */
    const char *op;
    const shoal_type *type; /* of its first result */
    const uint64_t *inputs; /* numbers of operands that gradients pass on to */
    uint32_t n_inputs;
    const char *location; /* "train.py:12", or NULL */
} shoal_tape_entry;
/* Calls `each` with every entry of a session's tape, the oldest first. An entry is valid during its
 * call, which may not use the session. Fails with NO_MEMORY. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status
shoal_tape_each(shoal_session *session, void (*each)(void *context, const shoal_tape_entry *entry),
                void *context);

/* A handle that stands for one index of a batch. It has x's type without the first axis (each), or
 * x's type where x is the same for all indices. What is computed from it stands for the results of
 * all indices, which are computed at once. level: 1, or for nested batches more than those of x; an
 * operation belongs to the innermost batch of its operands. Reading fails with UNSUPPORTED, as do
 * operations without a batch rule. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_batch(shoal_tensor *x, uint32_t level,
                                                             bool each, shoal_tensor **out);
/* A new reference to the tensor behind such a handle: the batch is its first axis (each), or it is
 * the same for all indices. For other handles NULL, and level 0. */
SHOAL_API shoal_tensor *shoal_tensor_whole(shoal_tensor *x, uint32_t *level, bool *each);

/* Another handle to the value of x, through which no gradients pass. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_detach(shoal_tensor *x, shoal_tensor **out);
/* Gives *x another value of the same type, in place: the handle is freed and replaced by one to
 * `value`. A leaf stays that leaf, and may be changed only while gradients are off. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_tensor_assign(shoal_tensor **x,
                                                              shoal_tensor *value);

typedef struct shoal_gradient_options {
    size_t size;       /* sizeof(shoal_gradient_options) */
    bool retain_graph; /* gradients may be taken again; else what they need is freed */
    bool create_graph; /* gradients of gradients may be taken; includes retain_graph */
    bool allow_unused; /* gradients[i] is NULL where nothing derives from wrt[i]; else that fails */
} shoal_gradient_options;
/* The gradients of the sum of outputs[i] * seeds[i] with respect to n_wrt tensors. A seed has the
 * output's type; NULL, and seeds NULL: 1, for an output of one element. options may be NULL. Fails
 * with UNSUPPORTED where an operation has no gradient, and with INVALID where no output derives
 * from a tensor that requires gradients, or what they need has been freed. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_gradients(shoal_tensor *const *outputs,
                                                          shoal_tensor *const *seeds,
                                                          uint32_t n_outputs,
                                                          shoal_tensor *const *wrt, uint32_t n_wrt,
                                                          const shoal_gradient_options *options,
                                                          shoal_tensor **gradients);
/* The leaves that outputs derive from, and the watched results, in the order in which they were
 * made; new references. *count: in: the room in `targets`, out: how many there are. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_gradient_targets(shoal_tensor *const *outputs,
                                                                 uint32_t n_outputs,
                                                                 shoal_tensor **targets,
                                                                 uint32_t *count);

/* ---- where tensors are stored ---- */

/* How a tensor is to be distributed. Axis i is split into parts[i] parts; the parts are assigned to
 * `slots` in row-major order, `copies` slots per part. weights: the shares of the parts, parts[i]
 * for each axis, one axis after another; NULL: equal. cuts, instead of weights: parts[i] + 1 cut
 * points for each axis. slots NULL: the pool's compute slots in ascending order. */
typedef struct shoal_layout {
    size_t size;           /* sizeof(shoal_layout) */
    const uint32_t *parts; /* rank numbers; NULL: 1 for each axis */
    const double *weights;
    const int64_t *cuts;
    uint32_t copies; /* 0: as many as the slots allow */
    const uint32_t *slots;
    uint32_t n_slots;
    /* The value belongs to these slots: it is there or nowhere. A program that binds a value, or
     * uses one, is computed on slots of bound values alone, and all that it makes is bound as well:
     * read or sync before what is not to be part of it. Once a slot has left the pool, using what
     * was on it fails with LOST. Other values are made again elsewhere, which takes copies and
     * records of how they were made; of those that are bound there are none. */
    bool bound;
} shoal_layout;

/* Slots by name: "desk" is a slot of the worker or the host desk, "desk/opencl" its device or
 * backend of that name, "/opencl" anybody's, and "3" slot 3. Each of the n names takes the first
 * slot that fits and that no earlier one has taken, so that a machine may be named once for each of
 * its devices. Fails with NOT_FOUND, listing what there is. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_slots_find(shoal_session *session,
                                                           const char *const *names, uint32_t n,
                                                           uint32_t *slots);
/* In proportion to which n slots get work of a type when nobody says how much: by the weights that
 * workers were given, or else by speed, in operations per second. What has not been measured is,
 * which takes some tens of milliseconds; a slot that has not answered within 5 s, as it computes
 * something long, counts as an ordinary machine of its threads. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_slots_weigh(shoal_session *session,
                                                            shoal_dtype dtype,
                                                            const uint32_t *slots, uint32_t n,
                                                            double *weights);

/* The same value in this layout. Operations on it are divided in the same way; where operands were
 * placed differently, as whichever of them is cheapest. */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_place(shoal_tensor *x, const shoal_layout *layout,
                                                      shoal_tensor **out);

/* The plan for computing and reading a value, as text or as JSON, without running it. The caller
 * frees *out with free(). */
SHOAL_API SHOAL_CHECK_RESULT shoal_status shoal_explain(shoal_tensor *tensor, bool json,
                                                        char **out);

#ifdef __cplusplus
}
#endif
#endif
