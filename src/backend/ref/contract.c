/* Joining elements: reduce and dot_general.
 *
 * reduce starts from the initial value and applies the body to the result so far and the next
 * element, in row-major order of the reduced axes; in float16 and bfloat16 each step rounds.
 * dot_general adds products in row-major order of the contracting axes: in double for float64, in
 * float for the other floating-point types (rounded once at the end), wrapping for integers, and as
 * "or" of "and" for bool. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

/* ---- axes ---- */

int64_t ref_axes_at(const ref_axes *axes, int64_t index, int side) {
    int64_t at = 0;
    for (uint32_t i = axes->n; i-- > 0; index /= axes->size[i])
        at += index % axes->size[i] * axes->stride[side][i];
    return at;
}

static void add_axis(ref_axes *axes, int64_t size, int64_t lhs, int64_t rhs) {
    axes->size[axes->n] = size;
    axes->stride[0][axes->n] = lhs;
    axes->stride[1][axes->n++] = rhs;
    axes->count *= size;
}

static bool names(const shoal_attr *list, int64_t axis) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->u.ints[i] == axis) return true;
    return false;
}

ref_dot ref_dot_of_views(const shoal_graph *g, const shoal_node *node,
                         const int64_t *const stride[2]) {
    static const shoal_attr_key keys[2][2] = {
        {SHOAL_ATTR_LHS_BATCHING_DIMENSIONS, SHOAL_ATTR_LHS_CONTRACTING_DIMENSIONS},
        {SHOAL_ATTR_RHS_BATCHING_DIMENSIONS, SHOAL_ATTR_RHS_CONTRACTING_DIMENSIONS}};
    const shoal_type *type[2];
    const shoal_attr *list[2][2];
    for (int side = 0; side < 2; side++) {
        type[side] = &g->values[node->inputs[side]].type;
        for (int k = 0; k < 2; k++) list[side][k] = shoal_node_attr(node, keys[side][k]);
    }
    ref_dot dot = {{.count = 1}, {.count = 1}, {.count = 1}, {.count = 1}};
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < list[0][k]->count; i++) {
            int64_t lhs = list[0][k]->u.ints[i], rhs = list[1][k]->u.ints[i];
            add_axis(k ? &dot.contracting : &dot.batch, type[0]->dims[lhs], stride[0][lhs],
                     stride[1][rhs]);
        }
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < type[side]->rank; i++)
            if (!names(list[side][0], i) && !names(list[side][1], i))
                add_axis(side ? &dot.rhs_free : &dot.lhs_free, type[side]->dims[i],
                         side ? 0 : stride[0][i], side ? stride[1][i] : 0);
    return dot;
}

ref_dot ref_dot_of(const shoal_graph *g, const shoal_node *node) {
    int64_t stride[2][SHOAL_MAX_RANK];
    for (int side = 0; side < 2; side++)
        ref_strides(&g->values[node->inputs[side]].type, stride[side]);
    return ref_dot_of_views(g, node, (const int64_t *const[2]){stride[0], stride[1]});
}

/* ---- dot_general ---- */

static void dot_one(const ref_call *call, const ref_dot *dot, int64_t lhs, int64_t rhs,
                    int64_t out) {
    uint8_t dtype = ref_output(call)->dtype;
    ref_class class = ref_class_of(dtype);
    ref_chunk a, b, sum;
    memset(&sum.u[0], 0, sizeof sum.u[0]);
    if (class == REF_F) sum.f[0] = 0;
    if (class == REF_D) sum.d[0] = 0;
    for (int64_t k = 0; k < dot->contracting.count; k++) {
        ref_load(&a, dtype, call->inputs[0], lhs + ref_axes_at(&dot->contracting, k, 0), 1);
        ref_load(&b, dtype, call->inputs[1], rhs + ref_axes_at(&dot->contracting, k, 1), 1);
        switch (class) {
        case REF_F: sum.f[0] += a.f[0] * b.f[0]; break;
        case REF_D: sum.d[0] += a.d[0] * b.d[0]; break;
        default: sum.u[0] += a.u[0] * b.u[0]; break;
        }
        if (dtype == SHOAL_BOOL) sum.u[0] = sum.u[0] != 0;
    }
    ref_store(&sum, dtype, call->outputs[0], out, 1);
}

shoal_status ref_dot_general(const ref_call *call) {
    ref_dot dot = ref_dot_of(call->graph, call->node);
    int64_t out = 0;
    for (int64_t b = 0; b < dot.batch.count; b++)
        for (int64_t m = 0; m < dot.lhs_free.count; m++)
            for (int64_t n = 0; n < dot.rhs_free.count; n++)
                dot_one(call, &dot,
                        ref_axes_at(&dot.batch, b, 0) + ref_axes_at(&dot.lhs_free, m, 0),
                        ref_axes_at(&dot.batch, b, 1) + ref_axes_at(&dot.rhs_free, n, 1), out++);
    return SHOAL_OK;
}

/* ---- reduce ---- */

typedef struct reduction {
    const ref_call *call;
    uint32_t n;        /* operands */
    ref_binary binary; /* a body that is one operation, or */
    ref_frame *frame;  /* any other */
    ref_axes kept, reduced;
} reduction;

static size_t bytes_of(const reduction *r, uint32_t k) {
    return shoal_dtype_size((shoal_dtype)ref_input(r->call, k)->dtype);
}

/* so_far = body(so_far, elements), rounded as stored values are. */
static shoal_status step(const reduction *r, uint64_t *so_far, int64_t at) {
    const ref_call *call = r->call;
    if (r->binary) {
        uint8_t dtype = ref_input(call, 0)->dtype;
        ref_chunk a, b;
        ref_load(&a, dtype, so_far, 0, 1);
        ref_load(&b, dtype, call->inputs[0], at, 1);
        r->binary(ref_class_of(dtype), &a, &b, &a, 1);
        ref_store(&a, dtype, so_far, 0, 1);
        return SHOAL_OK;
    }
    const void *in[2 * GRAPH_MAX_JOINED];
    void *out[GRAPH_MAX_JOINED];
    uint64_t results[GRAPH_MAX_JOINED];
    for (uint32_t k = 0; k < r->n; k++) {
        in[k] = &so_far[k];
        in[r->n + k] = (const char *)call->inputs[k] + (size_t)at * bytes_of(r, k);
        out[k] = &results[k];
    }
    SHOAL_TRY(ref_frame_run(r->frame, in, out));
    memcpy(so_far, results, r->n * sizeof *so_far);
    return SHOAL_OK;
}

static shoal_status reduce(const reduction *r) {
    const ref_call *call = r->call;
    for (int64_t i = 0; i < r->kept.count; i++) {
        uint64_t so_far[GRAPH_MAX_JOINED] = {0};
        for (uint32_t k = 0; k < r->n; k++)
            memcpy(&so_far[k], call->inputs[r->n + k], bytes_of(r, k));
        int64_t first = ref_axes_at(&r->kept, i, 0);
        for (int64_t j = 0; j < r->reduced.count; j++)
            SHOAL_TRY(step(r, so_far, first + ref_axes_at(&r->reduced, j, 0)));
        for (uint32_t k = 0; k < r->n; k++)
            memcpy((char *)call->outputs[k] + (size_t)i * bytes_of(r, k), &so_far[k],
                   bytes_of(r, k));
    }
    return SHOAL_OK;
}

shoal_status ref_reduce(const ref_call *call) {
    const shoal_graph *body = call->node->regions[0];
    const shoal_type *in = ref_input(call, 0);
    const shoal_attr *axes = ref_attr(call, SHOAL_ATTR_DIMENSIONS);
    int64_t strides[SHOAL_MAX_RANK];
    ref_strides(in, strides);
    reduction r = {.call = call,
                   .n = call->node->n_inputs / 2,
                   .kept.count = 1,
                   .reduced.count = 1,
                   .binary = ref_binary_of(graph_body_op(body))};
    for (uint32_t i = 0; i < in->rank; i++)
        add_axis(names(axes, i) ? &r.reduced : &r.kept, in->dims[i], strides[i], 0);
    if (!r.binary) SHOAL_TRY(ref_frame_new(body, &r.frame));
    shoal_status status = reduce(&r);
    ref_frame_destroy(&r.frame);
    return status;
}
