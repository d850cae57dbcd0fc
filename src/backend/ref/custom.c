/* Operations of the user's own: called by their names, if this process has them. */
#include "backend/common.h"
#include "backend/custom.h"
#include "backend/ref/ref.h"
#include "backend/registry.h"
#include "graph/graph.h"

shoal_status ref_custom(const ref_call *call) {
    const char *name = ref_attr(call, SHOAL_ATTR_NAME)->u.string;
    const shoal_operation *operation = backend_custom_find(name);
    shoal_type types[GRAPH_MAX_CUSTOM_INPUTS];
    if (!operation) return backend_cannot_run("ref", call->node);
    for (uint32_t i = 0; i < call->node->n_inputs; i++) types[i] = *ref_input(call, i);
    shoal_status status = operation->run(backend_host(), operation->context, types, call->inputs,
                                         call->node->n_inputs, ref_output(call), call->outputs[0]);
    return status == SHOAL_OK ? status : base_fail_prefix(status, "%s: ", name);
}
