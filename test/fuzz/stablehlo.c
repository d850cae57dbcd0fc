/* StableHLO's text of anybody's: what is read has been verified, and is written and read again. */
#include "backend/ref/ref.h"
#include "fuzz.h"
#include "graph/stablehlo/stablehlo.h"

enum { LIMIT = 1 << 20 };

/* The tree, the graph, those of constants that are computed, and tables of names. */
size_t fuzz_limit(size_t size) { return 8 * LIMIT + 256 * size; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    graph *g, *back;
    hlo_import_options options = {.file = "fuzz.mlir", .limit = LIMIT, .evaluate = ref_evaluate};
    if (hlo_import_text((const char *)data, size, &options, &g) != SHOAL_OK) return 0;
    fuzz_accepted++;
    FUZZ_CHECK(graph_verify(graph_data(g)) == SHOAL_OK);
    base_str text = {0};
    if (hlo_export_text(graph_data(g), &text) == SHOAL_OK) {
        options.limit = 0;
        FUZZ_CHECK(hlo_import_text(text.data, text.size, &options, &back) == SHOAL_OK);
        graph_destroy(&back);
    }
    base_str_fini(&text);
    graph_destroy(&g);
    return 0;
}
