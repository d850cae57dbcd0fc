/* The text form of a graph: what is parsed has been verified, and prints to what parses again. */
#include "fuzz.h"
#include "graph/graph.h"

enum { LIMIT = 1 << 18 };

size_t fuzz_limit(size_t size) { return 4 * LIMIT + 64 * size; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    graph *g, *back;
    if (graph_parse((const char *)data, size, LIMIT, &g) != SHOAL_OK) return 0;
    fuzz_accepted++;
    FUZZ_CHECK(graph_verify(graph_data(g)) == SHOAL_OK);
    base_str text = {0};
    FUZZ_CHECK(graph_print(graph_data(g), &text) == SHOAL_OK);
    FUZZ_CHECK(graph_parse(text.data, text.size, 4 * LIMIT, &back) == SHOAL_OK);
    base_str_fini(&text);
    graph_destroy(&back);
    graph_destroy(&g);
    return 0;
}
