/* Creating and moving elements: constant, iota, and everything that only changes where elements
 * lie. The latter are all one strided copy. */
#include "backend/ref/ref.h"

#include "graph/graph.h"

void ref_strides(const shoal_type *type, int64_t *strides) {
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0; stride *= type->dims[i]) strides[i] = stride;
}

void ref_copy_view(const ref_view *v, void *to, const void *from, size_t element_bytes) {
    int64_t count = 1, index[SHOAL_MAX_RANK] = {0};
    for (uint32_t i = 0; i < v->rank; i++) count *= v->dims[i];
    int64_t t = v->to_start, f = v->from_start;
    for (int64_t n = 0; n < count; n++) {
        memcpy((char *)to + (size_t)t * element_bytes,
               (const char *)from + (size_t)f * element_bytes, element_bytes);
        for (uint32_t i = v->rank; i-- > 0;) {
            t += v->to[i];
            f += v->from[i];
            if (++index[i] < v->dims[i]) break;
            t -= v->to[i] * v->dims[i];
            f -= v->from[i] * v->dims[i];
            index[i] = 0;
        }
    }
}

static const int64_t *ints(const shoal_node *node, shoal_attr_key key) {
    return shoal_node_attr(node, key)->u.ints;
}

ref_view ref_view_of(const shoal_graph *g, const shoal_node *node, uint32_t input) {
    const shoal_type *in = &g->values[node->inputs[input]].type;
    const shoal_type *out = &g->values[node->first_output].type;
    int64_t strides[SHOAL_MAX_RANK];
    ref_view v = {.rank = out->rank};
    memcpy(v.dims, out->dims, sizeof v.dims);
    ref_strides(out, v.to);
    ref_strides(in, strides);
    switch (node->op) {
    case GRAPH_TRANSPOSE:
        for (uint32_t i = 0; i < v.rank; i++)
            v.from[i] = strides[ints(node, SHOAL_ATTR_PERMUTATION)[i]];
        break;
    case GRAPH_BROADCAST_IN_DIM:
        for (uint32_t i = 0; i < in->rank; i++)
            if (in->dims[i] != 1)
                v.from[ints(node, SHOAL_ATTR_BROADCAST_DIMENSIONS)[i]] = strides[i];
        break;
    case GRAPH_SLICE:
        for (uint32_t i = 0; i < v.rank; i++) {
            v.from_start += ints(node, SHOAL_ATTR_START_INDICES)[i] * strides[i];
            /* An axis of one element needs no stride, and a huge one might overflow. */
            v.from[i] = v.dims[i] > 1 ? ints(node, SHOAL_ATTR_STRIDES)[i] * strides[i] : 0;
        }
        break;
    case GRAPH_CONCATENATE: {
        int64_t axis = shoal_node_attr(node, SHOAL_ATTR_DIMENSION)->u.i;
        for (uint32_t i = 0; i < input; i++)
            v.to_start += g->values[node->inputs[i]].type.dims[axis] * v.to[axis];
        v.dims[axis] = in->dims[axis];
        memcpy(v.from, strides, sizeof v.from);
        break;
    }
    default: /* the elements stay in order */ memcpy(v.from, v.to, sizeof v.from); break;
    }
    return v;
}

static shoal_status move(const ref_call *call) {
    size_t bytes = shoal_dtype_size((shoal_dtype)ref_output(call)->dtype);
    for (uint32_t i = 0; i < call->node->n_inputs; i++) {
        ref_view view = ref_view_of(call->graph, call->node, i);
        ref_copy_view(&view, call->outputs[0], call->inputs[i], bytes);
    }
    return SHOAL_OK;
}

shoal_status ref_broadcast_in_dim(const ref_call *call) { return move(call); }
shoal_status ref_reshape(const ref_call *call) { return move(call); }
shoal_status ref_transpose(const ref_call *call) { return move(call); }
shoal_status ref_slice(const ref_call *call) { return move(call); }
shoal_status ref_concatenate(const ref_call *call) { return move(call); }
shoal_status ref_place(const ref_call *call) { return move(call); }

shoal_status ref_constant(const ref_call *call) {
    const shoal_attr *value = ref_attr(call, SHOAL_ATTR_VALUE);
    size_t size = shoal_dtype_size((shoal_dtype)ref_output(call)->dtype);
    int64_t count = base_type_count(ref_output(call));
    bool splat = value->count == size;
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)call->outputs[0] + (size_t)i * size,
               (const char *)value->u.bytes + (splat ? 0 : (size_t)i * size), size);
    return SHOAL_OK;
}

shoal_status ref_iota(const ref_call *call) {
    const shoal_type *type = ref_output(call);
    int64_t axis = ref_attr(call, SHOAL_ATTR_IOTA_DIMENSION)->u.i;
    const shoal_attr *start = ref_attr(call, SHOAL_ATTR_START_INDICES);
    int64_t strides[SHOAL_MAX_RANK], count = base_type_count(type);
    ref_strides(type, strides);
    ref_chunk a;
    for (int64_t at = 0; at < count; at += REF_CHUNK) {
        int64_t n = count - at < REF_CHUNK ? count - at : REF_CHUNK;
        for (int64_t i = 0; i < n; i++)
            a.i[i] =
                (at + i) / strides[axis] % type->dims[axis] + (start ? start->u.ints[axis] : 0);
        ref_convert_chunk(&a, REF_I, type->dtype, n);
        ref_store(&a, type->dtype, call->outputs[0], at, n);
    }
    return SHOAL_OK;
}
