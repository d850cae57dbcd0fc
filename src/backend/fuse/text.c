/* Kernels as text, for people: one line for each load, operation and store. */
#include "backend/fuse/fuse.h"

#include "graph/element.h"

static const char *type_name(uint8_t dtype) { return base_dtype_mlir((shoal_dtype)dtype); }

static void print_index(const fuse_kernel *k, const fuse_index *index, base_str *out) {
    if (index->start) base_str_format(out, " at %lld", (long long)index->start);
    base_str_text(out, " [");
    for (uint32_t i = 0; i < k->n_loops; i++)
        base_str_format(out, "%s%lld", i ? ", " : "", (long long)index->strides[i]);
    base_str_text(out, "]");
}

static void print_load(const fuse_kernel *k, const fuse_load *load, base_str *out) {
    static const char *const kinds[] = {"load", "result", "literal", "position"};
    base_str_format(out, "%s %s ", kinds[load->kind], type_name(load->dtype));
    if (load->kind == FUSE_LITERAL)
        graph_element_print((shoal_dtype)load->dtype, load->literal, out);
    else
        base_str_format(out, "v%u", load->value);
    if (load->kind != FUSE_LITERAL) print_index(k, &load->index, out);
    for (uint32_t i = 0; i < k->n_loops && load->bounded; i++) {
        if (load->begin[i] <= 0 && load->end[i] >= k->loops[i].extent && load->every[i] == 1)
            continue;
        base_str_format(out, " loop %u in %lld..%lld", i, (long long)load->begin[i],
                        (long long)load->end[i]);
        if (load->every[i] != 1) base_str_format(out, " by %lld", (long long)load->every[i]);
    }
    if (load->bounded && load->outside != FUSE_NOWHERE)
        base_str_format(out, " else %%%u", load->outside);
}

static void print_operation(const fuse_operation *op, base_str *out) {
    const shoal_attr *direction = shoal_node_attr(op->node, SHOAL_ATTR_COMPARISON_DIRECTION);
    const char *name = shoal_op_name(op->op);
    if (op->op == GRAPH_REDUCE) {
        base_str_format(out, "reduce %s %s %%%u from %%%u", shoal_op_name(op->combine),
                        type_name(op->dtype), op->args[0], op->args[1]);
        if (op->sum != op->dtype) base_str_format(out, " in %s", type_name(op->sum));
    } else {
        base_str_format(out, "%s %s", name, type_name(op->dtype));
        if (direction) base_str_format(out, " %s", direction->u.string);
        for (uint32_t i = 0; i < op->n_args; i++)
            base_str_format(out, "%s %%%u", i ? "," : "", op->args[i]);
    }
    if (op->pass) base_str_format(out, " pass %u", op->pass);
}

void fuse_print_kernel(const fuse_kernel *k, base_str *out) {
    base_str_text(out, "kernel");
    for (uint32_t i = 0; i < k->n_loops; i++)
        base_str_format(out, "%s %lld%s", i ? "," : "", (long long)k->loops[i].extent,
                        k->loops[i].reduced ? " reduced" : "");
    if (k->passes > 1) base_str_format(out, "; %u passes", k->passes);
    base_str_text(out, "\n");
    for (uint32_t i = 0; i < k->n_loads; i++) {
        base_str_format(out, "  %%%u = ", i);
        print_load(k, &k->loads[i], out);
        base_str_text(out, "\n");
    }
    for (uint32_t i = 0; i < k->n_operations; i++) {
        base_str_format(out, "  %%%u = ", k->n_loads + i);
        print_operation(&k->operations[i], out);
        base_str_text(out, "\n");
    }
    for (uint32_t i = 0; i < k->n_stores; i++) {
        base_str_format(out, "  v%u = %%%u", k->stores[i].value, k->stores[i].from);
        print_index(k, &k->stores[i].index, out);
        base_str_text(out, "\n");
    }
}

void fuse_print(const fuse_plan *plan, base_str *out) {
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const fuse_step *step = &plan->steps[s];
        if (step->node != SHOAL_NO_NODE) {
            const shoal_node *node = &plan->graph->nodes[step->node];
            base_str_format(out, "node v%u = %s", node->first_output, shoal_op_name(node->op));
            for (uint32_t k = 0; k < node->n_inputs; k++)
                base_str_format(out, "%s v%u", k ? "," : "", node->inputs[k]);
            base_str_text(out, "\n");
        }
        if (step->kernel) fuse_print_kernel(step->kernel, out);
    }
}
