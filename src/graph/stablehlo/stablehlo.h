/* StableHLO's text, as others write it and read it. */
#ifndef GRAPH_STABLEHLO_H
#define GRAPH_STABLEHLO_H

#include "graph/graph.h"

typedef struct hlo_import_options {
    const char *file;        /* what the text is called, for the places of nodes; "": nothing;
                              * NULL: nodes have no places */
    const char *function;    /* the one to read; NULL: main, or the only one */
    size_t limit;            /* most bytes for the tree, and for the graph; 0: no limit */
    graph_evaluate evaluate; /* computes nodes of constants; NULL: shapes must be written out */
    void *context;
} hlo_import_options;

/* Reads what JAX, torch-mlir and others write; see the README. An error names line, column and
 * operation. */
shoal_status hlo_import_text(const char *text, size_t bytes, const hlo_import_options *options,
                             graph **out) SHOAL_CHECK_RESULT;

/* Writes a graph in terms of the standard alone: composites are decomposed. Fails with UNSUPPORTED,
 * naming the operation, for what the standard has no words for. */
shoal_status hlo_export_text(const shoal_graph *g, base_str *out) SHOAL_CHECK_RESULT;
/* The same as a string of its own, for free(). */
shoal_status hlo_graph_text(const shoal_graph *g, char **out) SHOAL_CHECK_RESULT;

#endif
