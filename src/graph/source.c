/* Values that come from files: which bytes of which file, checked once, so that those who read them
 * need not. */
#include "graph/rules.h"

#include <string.h>

enum { DIGEST_TEXT = 64, MOST_NAME = 255 };

static shoal_status check_file(const char *digest, const char *name) {
    if (strlen(digest) != DIGEST_TEXT || strspn(digest, "0123456789abcdef") != DIGEST_TEXT)
        return base_fail(SHOAL_INVALID,
                         "source: file '%.80s' is no digest of %d digits of 0-9 and a-f", digest,
                         DIGEST_TEXT);
    if (strlen(name) > MOST_NAME)
        return base_fail(SHOAL_INVALID, "source: a name of %zu letters; at most %d", strlen(name),
                         MOST_NAME);
    for (const char *at = name; *at; at++)
        if (*at < ' ' || *at > '~' || *at == '"' || *at == '\\')
            return base_fail(SHOAL_INVALID,
                             "source: the name has a letter (%02x) that is not "
                             "printed",
                             (unsigned)(unsigned char)*at);
    return SHOAL_OK;
}

/* The last byte of the box lies in the file. */
static bool fits(const shoal_type *type, const graph_source *source) {
    int64_t size = (int64_t)shoal_dtype_size((shoal_dtype)type->dtype), end, way;
    if (!base_type_count(type)) return source->offset <= source->file_bytes;
    if (__builtin_add_overflow((int64_t)source->offset, size, &end)) return false;
    for (uint32_t a = 0; a < type->rank; a++)
        if (__builtin_mul_overflow(type->dims[a] - 1, source->strides[a], &way) ||
            __builtin_add_overflow(end, way, &end))
            return false;
    return (uint64_t)end <= source->file_bytes;
}

INFER(source) {
    shoal_type type = {0};
    int64_t elements;
    uint32_t n;
    SHOAL_TRY(graph_get_dtype(call, &type));
    SHOAL_TRY(graph_get_shape(call, &type, &elements));
    const int64_t *strides = graph_call_ints(call, SHOAL_ATTR_STRIDES, &n);
    int64_t size = (int64_t)shoal_dtype_size((shoal_dtype)type.dtype);
    if (n != type.rank)
        return base_fail(SHOAL_INVALID, "source: %u strides for %s", n, GRAPH_TEXT(&type));
    for (uint32_t a = 0; a < n; a++)
        if (strides[a] < size && strides[a] != 0) /* 0: one element shown many times */
            return base_fail(SHOAL_INVALID,
                             "source: a stride of %lld bytes along axis %u of %s; elements have "
                             "%lld",
                             (long long)strides[a], a, GRAPH_TEXT(&type), (long long)size);
    int64_t offset = graph_call_attr(call, SHOAL_ATTR_OFFSET)->u.i;
    int64_t bytes = graph_call_attr(call, SHOAL_ATTR_FILE_BYTES)->u.i;
    graph_source source = {.file_bytes = (uint64_t)bytes, .offset = (uint64_t)offset};
    source.strides = strides;
    const shoal_attr *name = graph_call_attr(call, SHOAL_ATTR_NAME);
    SHOAL_TRY(
        check_file(graph_call_attr(call, SHOAL_ATTR_FILE)->u.string, name ? name->u.string : ""));
    if (offset < 0 || bytes < 0 || !fits(&type, &source))
        return base_fail(SHOAL_INVALID, "source: %s at byte %lld does not lie in a file of %lld",
                         GRAPH_TEXT(&type), (long long)offset, (long long)bytes);
    return GRAPH_ONE(&type);
}

/* The part begins further on. */
LOCALISE(source) {
    shoal_attr *offset = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_OFFSET);
    const int64_t *strides = graph_find_attr(attrs, *n_attrs, SHOAL_ATTR_STRIDES)->u.ints;
    for (uint32_t a = 0; a < axes->n_loops; a++)
        if (size[a]) offset->u.i += start[a] * strides[a];
    return graph_localise_shape(call, axes, start, size, arena, attrs, n_attrs);
}

void graph_source_of(const shoal_node *node, const shoal_type *type, graph_source *out) {
    const shoal_attr *swapped = shoal_node_attr(node, SHOAL_ATTR_SWAPPED);
    const shoal_attr *name = shoal_node_attr(node, SHOAL_ATTR_NAME);
    *out = (graph_source){.file = shoal_node_attr(node, SHOAL_ATTR_FILE)->u.string,
                          .name = name ? name->u.string : "a file",
                          .strides = shoal_node_attr(node, SHOAL_ATTR_STRIDES)->u.ints,
                          .file_bytes = (uint64_t)shoal_node_attr(node, SHOAL_ATTR_FILE_BYTES)->u.i,
                          .offset = (uint64_t)shoal_node_attr(node, SHOAL_ATTR_OFFSET)->u.i,
                          .swapped = swapped && swapped->u.i};
    out->dense = !out->swapped;
    int64_t expected = (int64_t)shoal_dtype_size((shoal_dtype)type->dtype);
    for (uint32_t a = type->rank; a-- > 0 && base_type_count(type);) {
        /* An axis of one element may be stepped through in any way. */
        if (type->dims[a] > 1 && out->strides[a] != expected) out->dense = false;
        expected *= type->dims[a];
    }
}

bool graph_is_mapped(const shoal_graph *g, const shoal_node *node) {
    graph_source source;
    if (node->op != GRAPH_SOURCE) return false;
    graph_source_of(node, &g->values[node->first_output].type, &source);
    return source.dense;
}
