/* Where values lie (backend/place.h), and what steps need for themselves. */
#include "backend/cpu/cpu.h"

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
    SHOAL_TRY(backend_take(parts, blocks->rhs_each * (size_t)blocks->group, 0, &blocks->rhs));
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
        SHOAL_TRY(backend_take(parts, c->kernel_bytes, 0, &c->kernel));
        SHOAL_TRY(backend_take(parts, c->matrix_bytes, 0, &c->matrix));
        return backend_take(parts, c->scratch_each * p->threads, 0, &c->scratch);
    }
    return step->run == cpu_dot_run ? place_dot(p, step, parts) : SHOAL_OK;
}

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
    SHOAL_TRY(backend_place_all(&places));
    p->workspace = places.workspace;
    return in_place ? backend_report_in_place(&places, frozen, in_place) : SHOAL_OK;
}
