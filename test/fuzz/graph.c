/* Canonical bytes of a graph: what is decoded has been verified, and encodes to what decodes again.
 */
#include "fuzz.h"
#include "graph/graph.h"

enum { LIMIT = 1 << 18 };

size_t fuzz_limit(size_t size) { return 4 * LIMIT + 64 * size; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    graph *g, *back;
    if (graph_decode(data, size, LIMIT, &g) != SHOAL_OK) return 0;
    fuzz_accepted++;
    FUZZ_CHECK(graph_verify(graph_data(g)) == SHOAL_OK);
    base_str encoded = {0};
    FUZZ_CHECK(graph_encode(graph_data(g), true, &encoded) == SHOAL_OK);
    FUZZ_CHECK(graph_decode(encoded.data, encoded.size, 4 * LIMIT, &back) == SHOAL_OK);
    base_str_fini(&encoded);
    graph_destroy(&back);
    graph_destroy(&g);
    return 0;
}
