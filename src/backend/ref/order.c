/* Along one axis: sort, top_k, argmax, argmin, cumulate. Sorting is stable, always. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

#include <stdlib.h>

/* The rows along an axis: how many, how long, and where each begins and steps. */
typedef struct rows {
    int64_t count, length, stride, inner;
} rows;

static rows rows_of(const shoal_type *type, int64_t axis) {
    rows r = {.count = 1, .length = type->dims[axis], .stride = 1};
    for (uint32_t i = 0; i < type->rank; i++) {
        if (i != axis) r.count *= type->dims[i];
        if (i > axis) r.stride *= type->dims[i];
    }
    r.inner = r.stride;
    return r;
}

/* The element `at` of row number `row`. */
static int64_t element(const rows *r, int64_t row, int64_t at) {
    return row / r->inner * r->inner * r->length + row % r->inner + at * r->stride;
}

static int64_t axis_of(const ref_call *call) { return ref_attr(call, SHOAL_ATTR_DIMENSION)->u.i; }

/* ---- comparing ---- */

static double number(uint8_t dtype, const void *data, int64_t at) {
    ref_chunk one;
    ref_load(&one, dtype, data, at, 1);
    return ref_class_of(dtype) == REF_D ? one.d[0] : (double)one.f[0];
}

/* Whether element x of the data comes before y when the largest come first (`falling`) or last;
 * NaN is the largest when falling, and the smallest otherwise: it is always in front. */
static bool in_front(uint8_t dtype, const void *data, int64_t x, int64_t y, bool falling) {
    if (shoal_dtype_kind((shoal_dtype)dtype) == 'f') {
        double a = number(dtype, data, x), b = number(dtype, data, y);
        if (a != a || b != b) return a != a && b == b;
        return falling ? a > b : a < b;
    }
    ref_chunk a, b;
    ref_load(&a, dtype, data, x, 1);
    ref_load(&b, dtype, data, y, 1);
    if (ref_class_of(dtype) == REF_I) return falling ? a.i[0] > b.i[0] : a.i[0] < b.i[0];
    return falling ? a.u[0] > b.u[0] : a.u[0] < b.u[0];
}

typedef struct sorting {
    const ref_call *call;
    rows rows;
    int64_t row;
    ref_frame *frame; /* of the comparator; NULL: the largest first, by in_front */
    shoal_status status;
} sorting;

/* Whether the element of the row at x must be before that at y. */
static bool before(sorting *s, int64_t x, int64_t y) {
    const ref_call *call = s->call;
    int64_t left = element(&s->rows, s->row, x), right = element(&s->rows, s->row, y);
    if (!s->frame) return in_front(ref_input(call, 0)->dtype, call->inputs[0], left, right, true);
    const void *in[2 * GRAPH_MAX_JOINED];
    uint64_t result = 0;
    for (uint32_t k = 0; k < call->node->n_inputs; k++) {
        size_t bytes = shoal_dtype_size((shoal_dtype)ref_input(call, k)->dtype);
        in[2 * k] = (const char *)call->inputs[k] + (size_t)left * bytes;
        in[2 * k + 1] = (const char *)call->inputs[k] + (size_t)right * bytes;
    }
    if (!s->status) s->status = ref_frame_run(s->frame, in, (void *const[]){&result});
    return *(const uint8_t *)&result != 0;
}

/* Sorts the numbers 0 to length - 1 by merging runs; `order` and `spare` hold that many. Returns
 * the one that has the result. */
static int64_t *merge_sort(sorting *s, int64_t *order, int64_t *spare) {
    int64_t n = s->rows.length;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t from = 0; from < n; from += 2 * run) {
            int64_t middle = from + run < n ? from + run : n;
            int64_t end = middle + run < n ? middle + run : n;
            for (int64_t at = from, i = from, j = middle; at < end; at++) {
                bool right = i == middle || (j < end && before(s, order[j], order[i]));
                spare[at] = order[right ? j++ : i++];
            }
        }
        int64_t *swap = order;
        order = spare;
        spare = swap;
    }
    return order;
}

static shoal_status new_orders(int64_t length, int64_t **out) {
    *out = malloc(((size_t)length * 2 + 1) * sizeof **out);
    return *out ? SHOAL_OK
                : base_fail(SHOAL_NO_MEMORY, "sort: no memory for %lld numbers", (long long)length);
}

shoal_status ref_sort(const ref_call *call) {
    sorting s = {.call = call, .rows = rows_of(ref_input(call, 0), axis_of(call))};
    int64_t *orders;
    SHOAL_TRY(new_orders(s.rows.length, &orders));
    s.status = ref_frame_new(call->node->regions[0], &s.frame);
    for (; s.row < s.rows.count && !s.status; s.row++) {
        const int64_t *order = merge_sort(&s, orders, orders + s.rows.length);
        for (uint32_t k = 0; k < call->node->n_inputs; k++) {
            size_t bytes = shoal_dtype_size((shoal_dtype)ref_input(call, k)->dtype);
            for (int64_t i = 0; i < s.rows.length; i++)
                memcpy((char *)call->outputs[k] + (size_t)element(&s.rows, s.row, i) * bytes,
                       (const char *)call->inputs[k] +
                           (size_t)element(&s.rows, s.row, order[i]) * bytes,
                       bytes);
        }
    }
    ref_frame_destroy(&s.frame);
    free(orders);
    return s.status;
}

shoal_status ref_top_k(const ref_call *call) {
    const shoal_type *in = ref_input(call, 0), *out = ref_output(call);
    sorting s = {.call = call, .rows = rows_of(in, in->rank - 1)};
    size_t bytes = shoal_dtype_size((shoal_dtype)in->dtype);
    int64_t k = out->dims[out->rank - 1], *orders;
    SHOAL_TRY(new_orders(s.rows.length, &orders));
    for (; s.row < s.rows.count; s.row++) {
        const int64_t *order = merge_sort(&s, orders, orders + s.rows.length);
        for (int64_t i = 0; i < k; i++) {
            int64_t to = s.row * k + i, from = element(&s.rows, s.row, order[i]);
            memcpy((char *)call->outputs[0] + (size_t)to * bytes,
                   (const char *)call->inputs[0] + (size_t)from * bytes, bytes);
            ((int32_t *)call->outputs[1])[to] = (int32_t)order[i];
        }
    }
    free(orders);
    return SHOAL_OK;
}

static shoal_status extreme(const ref_call *call, bool largest) {
    rows r = rows_of(ref_input(call, 0), axis_of(call));
    for (int64_t row = 0; row < r.count; row++) {
        int64_t best = 0;
        for (int64_t i = 1; i < r.length; i++)
            if (in_front(ref_input(call, 0)->dtype, call->inputs[0], element(&r, row, i),
                         element(&r, row, best), largest))
                best = i;
        ref_chunk one = {.i = {best}};
        ref_store(&one, ref_output(call)->dtype, call->outputs[0], row, 1);
    }
    return SHOAL_OK;
}

shoal_status ref_argmax(const ref_call *call) { return extreme(call, true); }
shoal_status ref_argmin(const ref_call *call) { return extreme(call, false); }

/* ---- cumulate ---- */

shoal_status ref_cumulate(const ref_call *call) {
    rows r = rows_of(ref_input(call, 0), axis_of(call));
    size_t bytes = shoal_dtype_size((shoal_dtype)ref_output(call)->dtype);
    ref_frame *frame;
    SHOAL_TRY(ref_frame_new(call->node->regions[0], &frame));
    shoal_status status = SHOAL_OK;
    for (int64_t row = 0; row < r.count; row++) {
        const void *so_far = call->inputs[1];
        for (int64_t i = 0; i < r.length && !status; i++) {
            size_t at = (size_t)element(&r, row, i) * bytes;
            void *to = (char *)call->outputs[0] + at;
            status = ref_frame_run(
                frame, (const void *const[]){so_far, (const char *)call->inputs[0] + at},
                (void *const[]){to});
            so_far = to;
        }
    }
    ref_frame_destroy(&frame);
    return status;
}
