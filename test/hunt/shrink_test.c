/* Cutting down: failing programs of 40 nodes and more become five nodes at most within 30 seconds.
 * What fails is a way that is wrong on purpose: the reference, one of whose operations gets its
 * first element wrong; or only where it reads what another operation made. */
#include "hunt.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAMS = 12, LEAST_NODES = 40, MOST_LEFT = 5 };
/* Sanitized programs take several times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SECONDS = 150 };
#else
enum { SECONDS = 30 };
#endif

static void spoil(const shoal_type *type, void *data) {
    if (!base_type_count(type)) return;
    if (type->dtype == SHOAL_BOOL)
        *(bool *)data = !*(bool *)data;
    else
        hunt_put(type->dtype, data, 0, hunt_number(type->dtype, data, 0) + 3);
}

typedef struct fault {
    uint16_t op, maker; /* maker GRAPH_OP_BUILT_IN: any */
} fault;

static bool strikes(const fault *f, const shoal_graph *g, const shoal_node *node) {
    bool reads = f->maker == GRAPH_OP_BUILT_IN;
    for (uint32_t i = 0; i < node->n_inputs && !reads; i++) {
        uint32_t maker = g->values[node->inputs[i]].node;
        reads = maker != SHOAL_NO_NODE && g->nodes[maker].op == f->maker;
    }
    return reads && node->op == f->op;
}

static const char *run_wrong(void *context, const hunt_program *program) {
    static char why[256];
    const shoal_graph *g = graph_data(program->graph);
    hunt_truth truth;
    hunt_must(hunt_truth_init(&truth, program));
    void **values = hunt_values_new(program);
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        hunt_must(hunt_run_node(g, node, values, NULL));
        if (strikes(context, g, node))
            spoil(&g->values[node->first_output].type, values[node->first_output]);
    }
    hunt_results results = hunt_results_new(g);
    for (uint32_t o = 0; o < g->n_outputs; o++)
        memcpy(results.data[o], values[g->outputs[o]], results.bytes[o]);
    const char *what = hunt_compare(&truth, &results);
    if (what) snprintf(why, sizeof why, "%s", what);
    hunt_values_free(program, &values);
    hunt_results_fini(&results);
    hunt_truth_fini(&truth);
    return what ? why : NULL;
}

int main(void) {
    const hunt_shape shape = {HUNT_NARROW, 90};
    uint32_t passed = 0, failed = 0;
    for (uint64_t seed = 1; passed + failed < PROGRAMS; seed++) {
        hunt_program program;
        hunt_make(seed, &shape, &program);
        const shoal_graph *g = graph_data(program.graph);
        uint32_t before = g->n_nodes;
        const shoal_node *node = &g->nodes[before ? seed % before : 0];
        fault f = {before ? node->op : 0, GRAPH_OP_BUILT_IN};
        uint32_t maker = before && node->n_inputs ? g->values[node->inputs[0]].node : SHOAL_NO_NODE;
        if (seed % 2 && maker != SHOAL_NO_NODE) f.maker = g->nodes[maker].op;
        const hunt_way way = {"wrong", run_wrong, &f};
        if (before >= LEAST_NODES && run_wrong(&f, &program)) {
            int64_t begin = base_now();
            hunt_shrink(&way, &program, SECONDS);
            uint32_t after = graph_data(program.graph)->n_nodes;
            const char *why = run_wrong(&f, &program);
            bool fine = after <= MOST_LEFT && why;
            *(fine ? &passed : &failed) += 1;
            bool any = f.maker == GRAPH_OP_BUILT_IN;
            printf("%s: %s%s%s is wrong, seed %llu: %u nodes became %u in %.1f s\n",
                   fine ? "passed" : "FAILED", shoal_op_name(f.op), any ? "" : " of ",
                   any ? "" : shoal_op_name(f.maker), (unsigned long long)seed, before, after,
                   (double)(base_now() - begin) / 1e9);
            if (!fine) hunt_write(&program, "wrong", why ? why : "it does not fail", stdout);
        }
        hunt_program_fini(&program);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
