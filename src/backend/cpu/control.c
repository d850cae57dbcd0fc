/* Control flow: bodies are programs of their own, which run in a part of the step's workspace. */
#include "backend/cpu/cpu.h"

#include "backend/pool.h"

#include <stdlib.h>

bool cpu_control_fits(const shoal_node *node) {
    return node->op == GRAPH_WHILE || node->op == GRAPH_IF || node->op == GRAPH_CASE;
}

static size_t padded(size_t bytes) { return (bytes + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN; }

static size_t bytes_of(const cpu_program *p, uint32_t value) {
    return padded((size_t)base_type_bytes(&p->g->values[value].type));
}

shoal_status cpu_control_prepare(shoal_device *device, cpu_program *p, cpu_step *step) {
    const shoal_node *node = step->node;
    cpu_control *c = &step->u.control;
    cpu_program **bodies = base_arena_array(&p->arena, cpu_program *, node->n_regions);
    if (!bodies) return SHOAL_NO_MEMORY;
    for (uint16_t i = 0; i < node->n_regions; i++) bodies[i] = NULL;
    *c = (cpu_control){.bodies = bodies, .n_bodies = node->n_regions};
    step->run = cpu_control_run;
    bool loops = node->op == GRAPH_WHILE;
    int32_t *in_place = base_arena_array(&p->arena, int32_t, node->n_outputs);
    bool *stays = base_arena_array(&p->arena, bool, node->n_outputs);
    if (!in_place || !stays) return SHOAL_NO_MEMORY;
    for (uint16_t i = 0; i < node->n_regions; i++) {
        shoal_compile_report report = {.size = sizeof report};
        if (loops && i == 1) report.in_place = in_place;
        SHOAL_TRY(cpu_program_new(device, node->regions[i], NULL, &report, &bodies[i]));
        if (report.workspace > c->of_bodies) c->of_bodies = padded(report.workspace);
    }
    c->bytes = c->of_bodies;
    c->stays = stays;
    for (uint32_t i = 0; loops && i < node->n_inputs; i++) {
        const shoal_graph *body = node->regions[1];
        stays[i] = body->outputs[i] == body->inputs[i] || in_place[i] == (int32_t)i;
        if (!stays[i]) c->bytes += bytes_of(p, node->inputs[i]);
    }
    return SHOAL_OK;
}

void cpu_control_fini(cpu_control *c) {
    for (uint16_t i = 0; i < c->n_bodies; i++) cpu_program_destroy(&c->bodies[i]);
}

/* Operands and results together may be three times what a loop carries. */
static shoal_status run_branch(const cpu_run *run, const cpu_step *step) {
    const shoal_node *node = step->node;
    const cpu_control *c = &step->u.control;
    void *few[256], **buffers = few;
    size_t room = (size_t)node->n_inputs + node->n_outputs;
    uint32_t n = 0;
    if (room > sizeof few / sizeof *few && !(buffers = malloc(room * sizeof *buffers)))
        return base_fail(SHOAL_NO_MEMORY, "%s: no memory for %zu operands and results",
                         shoal_op_name(node->op), room);
    for (uint32_t i = 1; i < node->n_inputs; i++) buffers[n++] = run->at[node->inputs[i]];
    for (uint32_t i = 0; i < node->n_outputs; i++) buffers[n++] = run->at[node->first_output + i];
    const cpu_program *body = c->bodies[ref_branch_of(node, run->at[node->inputs[0]])];
    shoal_status status = cpu_program_run_in(run->device, body, buffers, run->workspace + c->at);
    if (buffers != few) free(buffers);
    return status;
}

/* Values go to and fro between the results and a second set, but for those that stay. */
static shoal_status run_while(const cpu_run *run, const cpu_step *step) {
    const shoal_node *node = step->node;
    const cpu_control *c = &step->u.control;
    const uint32_t n = node->n_inputs;
    void *values[2][GRAPH_MAX_OUTPUTS], *buffers[2 * GRAPH_MAX_OUTPUTS];
    char *workspace = run->workspace + c->at, *spare = workspace + c->of_bodies;
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes = (size_t)base_type_bytes(&run->program->g->values[node->inputs[i]].type);
        values[0][i] = values[1][i] = run->at[node->first_output + i];
        memcpy(values[0][i], run->at[node->inputs[i]], bytes);
        if (c->stays[i]) continue;
        values[1][i] = spare;
        spare += padded(bytes);
    }
    int now = 0;
    for (;; now = !now) {
        _Alignas(CPU_ALIGN) uint8_t more[CPU_ALIGN];
        memcpy(buffers, values[now], n * sizeof *buffers);
        buffers[n] = more;
        SHOAL_TRY(cpu_program_run_in(run->device, c->bodies[0], buffers, workspace));
        if (!more[0]) break;
        SHOAL_TRY(backend_go_on()); /* it may have no end */
        memcpy(buffers + n, values[!now], n * sizeof *buffers);
        SHOAL_TRY(cpu_program_run_in(run->device, c->bodies[1], buffers, workspace));
    }
    for (uint32_t i = 0; i < n && now; i++)
        if (values[0][i] != values[1][i])
            memcpy(values[0][i], values[1][i],
                   (size_t)base_type_bytes(&run->program->g->values[node->inputs[i]].type));
    return SHOAL_OK;
}

shoal_status cpu_control_run(const cpu_run *run, const cpu_step *step) {
    return step->node->op == GRAPH_WHILE ? run_while(run, step) : run_branch(run, step);
}
