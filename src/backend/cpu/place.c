/* Where values lie (backend/place.h), and what steps need for themselves. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

static backend_touch touch(void *context, uint32_t s) {
    const cpu_step *step = &((const cpu_program *)context)->steps[s];
    return (backend_touch){step->n_reads, step->n_writes, step->reads, step->writes};
}

static bool may_overwrite(void *context, uint32_t s, uint32_t w, uint32_t root) {
    const cpu_program *p = context;
    const cpu_step *step = &p->steps[s];
    return step->run == cpu_region_run ? cpu_region_may_overwrite(p, &step->u.region, w, root)
                                       : cpu_updates_operand(p, step, root);
}

static bool updates(void *context, uint32_t s, uint32_t root) {
    const cpu_program *p = context;
    return cpu_updates_operand(p, &p->steps[s], root);
}

static shoal_status place_dot(const cpu_program *p, cpu_step *step, backend_parts *parts) {
    cpu_dot *dot = &step->u.dot;
    cpu_blocks *blocks = &dot->blocks;
    for (int side = 0; side < 2; side++) {
        cpu_matrix *x = side ? &dot->rhs : &dot->lhs;
        if (x->pack) SHOAL_TRY(backend_take(parts, x->scratch_bytes, 0, &x->scratch));
    }
    SHOAL_TRY(backend_take(parts, blocks->lhs_each * p->threads, 0, &blocks->lhs));
    size_t packed = blocks->own_rhs ? p->threads : (size_t)blocks->group;
    SHOAL_TRY(backend_take(parts, blocks->rhs_each * packed, 0, &blocks->rhs));
    return dot->narrow
               ? backend_take(parts,
                              2 * (size_t)base_type_bytes(&p->g->values[step->writes[0]].type), 0,
                              &dot->wide)
               : SHOAL_OK;
}

/* What a step needs for itself, while it runs. */
static shoal_status place_scratch(void *context, uint32_t s, backend_parts *parts) {
    const cpu_program *p = context;
    cpu_step *step = &p->steps[s];
    if (step->run == cpu_region_run)
        return backend_take(parts, cpu_region_scratch(&step->u.region) * p->threads, 0,
                            &step->u.region.scratch);
    if (step->scratch_bytes) return backend_take(parts, step->scratch_bytes, 0, &step->scratch);
    if (step->run == cpu_reduce_run) {
        cpu_reduce *r = &step->u.reduce;
        SHOAL_TRY(backend_take(parts, cpu_reduce_partial(r), 0, &r->partial));
        return backend_take(parts, cpu_reduce_scratch(r) * p->threads, 0, &r->scratch);
    }
    if (step->run == cpu_order_run)
        return backend_take(parts, step->u.order.scratch_each * p->threads, 0,
                            &step->u.order.scratch);
    if (step->run == cpu_control_run)
        return backend_take(parts, step->u.control.bytes, 0, &step->u.control.at);
    if (step->run == cpu_convolve_run) {
        cpu_convolution *c = &step->u.convolution;
        for (int i = 0; i < 3; i++)
            SHOAL_TRY(backend_take(parts, c->wide_bytes[i], 0, &c->wide[i]));
        SHOAL_TRY(backend_take(parts, cpu_convolve_packed(c), 0, &c->packed));
        SHOAL_TRY(backend_take(parts, cpu_convolve_sums(c), 0, &c->sums));
        return backend_take(parts, c->scratch_each * p->threads, 0, &c->scratch);
    }
    if (step->run == cpu_packed_run)
        return backend_take(parts, step->u.packed.x.scratch_bytes, 0, &step->u.packed.x.scratch);
    return step->run == cpu_dot_run ? place_dot(p, step, parts) : SHOAL_OK;
}

/* ---- the order of steps ---- */

/* Whether a step does nothing but make outputs of the program, from something computed that nobody
 * reads later: as the update of a parameter does, from its gradient. */
static bool ends_values(const cpu_program *p, uint32_t s) {
    const cpu_step *step = &p->steps[s];
    bool ends = false;
    for (uint32_t i = 0; i < step->n_writes; i++)
        if (p->values[step->writes[i]].last < p->n_steps) return false;
    for (uint32_t i = 0; i < step->n_reads; i++) {
        const backend_place *in = &p->values[cpu_root_of(p, step->reads[i])];
        ends |= in->kind == BACKEND_NOWHERE && in->last == s;
    }
    return ends;
}

/* Such steps go directly behind those that make what they read, so that it need not be kept: then a
 * step of training has a few gradients at a time and not all. Behind those as well that read the
 * same inputs before, whose memory an output may have. */
static shoal_status order_steps(cpu_program *p) {
    /* Per step: the one it goes behind, or itself; per value: the last that wrote or read it. */
    uint32_t *behind = calloc(2 * (size_t)p->n_steps + p->g->n_values + 1, sizeof *behind);
    cpu_step *steps = calloc((size_t)p->n_steps + 1, sizeof *steps);
    if (!behind || !steps) {
        free(behind);
        free(steps);
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory to order %u steps", p->n_steps);
    }
    uint32_t *count = behind + p->n_steps, *users = count + p->n_steps;
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const cpu_step *step = &p->steps[s];
        uint32_t most = 0; /* of step numbers from 1: 0 is none */
        for (uint32_t i = 0; i < step->n_reads; i++)
            if (users[cpu_root_of(p, step->reads[i])] > most)
                most = users[cpu_root_of(p, step->reads[i])];
        behind[s] = most && ends_values(p, s) ? most - 1 : s;
        for (uint32_t i = 0; i < step->n_reads; i++) {
            uint32_t root = cpu_root_of(p, step->reads[i]);
            bool input = p->values[root].kind == BACKEND_INPUT;
            if (input && users[root] < behind[s] + 1) users[root] = behind[s] + 1;
        }
        for (uint32_t i = 0; i < step->n_writes; i++) users[step->writes[i]] = behind[s] + 1;
        if (behind[s] + 1 < p->n_steps) count[behind[s] + 1]++;
    }
    for (uint32_t s = 1; s < p->n_steps; s++) count[s] += count[s - 1];
    for (uint32_t s = 0; s < p->n_steps; s++) steps[count[behind[s]]++] = p->steps[s];
    memcpy(p->steps, steps, p->n_steps * sizeof *steps);
    free(steps);
    free(behind);
    return SHOAL_OK;
}

/* ---- places ---- */

shoal_status cpu_place_values(cpu_program *p, const bool *frozen, int32_t *in_place) {
    backend_places places = {.plan = &p->plan,
                             .values = p->values,
                             .n_steps = p->n_steps,
                             .align = CPU_ALIGN,
                             .context = p,
                             .touch = touch,
                             .may_overwrite = may_overwrite,
                             .updates = updates,
                             .scratch = place_scratch};
    backend_find_last_uses(&places);
    SHOAL_TRY(order_steps(p));
    SHOAL_TRY(backend_place_all(&places));
    p->workspace = places.workspace;
    return backend_report_in_place(&places, frozen, in_place);
}
