/* Graphs as JSON, for programs in Python that compute them again. */
#ifndef CONFORMANCE_DESCRIBE_H
#define CONFORMANCE_DESCRIBE_H

#include "base/str.h"
#include "graph/graph.h"

/* Appends an object: values (element type and shape of each), nodes (operation, attributes, numbers
 * of the values that they read and make, bodies as graphs), and which values are inputs and
 * outputs. Bytes are hexadecimal. */
void describe_graph(const shoal_graph *g, base_str *to);

#endif
