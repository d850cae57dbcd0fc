/* Where values lie (backend/place.h), and what steps need for themselves. */
#include "backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

/* What in_range hands on lies where it was, and needs no memory. */
static backend_touch touch(void *context, uint32_t s) {
    const cpu_program *p = context;
    const cpu_step *step = &p->steps[s];
    uint32_t n_writes = step->run == cpu_in_range_run ? 0 : step->n_writes;
    return (backend_touch){step->n_reads, n_writes, step->reads, step->writes};
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
    SHOAL_TRY(backend_take(parts, blocks->decoded_each * p->threads, 0, &blocks->decoded));
    size_t results = (size_t)base_type_count(&p->g->values[step->writes[0]].type);
    return dot->narrow ? backend_take(parts, results * shoal_dtype_size((shoal_dtype)dot->dtype), 0,
                                      &dot->wide)
                       : SHOAL_OK;
}

static shoal_status place_convolutions(const cpu_program *p, cpu_step *step, backend_parts *parts) {
    cpu_convolutions *all = step->u.convolutions;
    size_t count = (size_t)all->count;
    for (int i = 0; i < 3; i++)
        SHOAL_TRY(backend_take(parts, all->wide_bytes[i], 0, &all->wide[i]));
    SHOAL_TRY(backend_take(parts, count * all->packed_each, 0, &all->packed));
    SHOAL_TRY(backend_take(parts, count * all->sums_each, 0, &all->sums));
    return backend_take(parts, all->scratch_each * p->threads, 0, &all->scratch);
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
    if (step->run == cpu_convolve_run) return place_convolutions(p, step, parts);
    if (step->run == cpu_packed_run) {
        cpu_packed *packed = &step->u.packed;
        SHOAL_TRY(backend_take(parts, packed->x.scratch_bytes, 0, &packed->x.scratch));
        return backend_take(parts, packed->prepared_bytes, 0, &packed->prepared);
    }
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

/* The last step that reads what a step updates, if that is behind it and nobody has read the result
 * by then; else the step itself. first: per value, the first step that reads it. */
static uint32_t last_before_update(const cpu_program *p, uint32_t s, const uint32_t *first) {
    const cpu_step *step = &p->steps[s];
    if (step->n_writes != 1 || !step->n_reads) return s;
    uint32_t root = cpu_root_of(p, step->reads[0]), last = p->values[root].last;
    bool later = last > s && last < p->n_steps && last < first[step->writes[0]];
    return later && cpu_updates_operand(p, step, root) ? last : s;
}

static void find_first_uses(const cpu_program *p, uint32_t *first) {
    for (uint32_t v = 0; v < p->g->n_values; v++) first[v] = UINT32_MAX;
    for (uint32_t s = p->n_steps; s-- > 0;)
        for (uint32_t i = 0; i < p->steps[s].n_reads; i++)
            first[cpu_root_of(p, p->steps[s].reads[i])] = s;
}

/* Where each step goes, by its number in `at`: 2 s is where step s is, 2 s + 1 is behind it. Steps
 * that end values go directly behind those that make what they read, so that it need not be kept:
 * then a step of training has a few gradients at a time and not all. Behind those as well that read
 * the same inputs before, whose memory an output may have. Steps that update an operand in part go
 * behind those that read it as it was, as they may then do so where it lies. users: per value, the
 * place + 1 of the last step that wrote it or, of an input, read it. */
static void choose_places(const cpu_program *p, uint32_t *at, uint32_t *users,
                          const uint32_t *first) {
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const cpu_step *step = &p->steps[s];
        uint32_t most = 0, last = last_before_update(p, s, first);
        for (uint32_t i = 0; i < step->n_reads; i++)
            if (users[cpu_root_of(p, step->reads[i])] > most)
                most = users[cpu_root_of(p, step->reads[i])];
        at[s] = last > s ? 2 * last + 1 : 2 * s;
        /* What it reads may come from behind what it is itself read by. */
        if (last == s && most && most - 1 < at[s] && ends_values(p, s)) at[s] = most - 1;
        for (uint32_t i = 0; i < step->n_reads; i++) {
            uint32_t root = cpu_root_of(p, step->reads[i]);
            bool input = p->values[root].kind == BACKEND_INPUT;
            if (input && users[root] < at[s] + 1) users[root] = at[s] + 1;
        }
        for (uint32_t i = 0; i < step->n_writes; i++)
            users[cpu_root_of(p, step->writes[i])] = at[s] + 1;
    }
}

static shoal_status order_steps(cpu_program *p) {
    size_t n = p->n_steps, n_values = p->g->n_values;
    uint32_t *at = calloc(3 * n + 2 * n_values + 1, sizeof *at);
    cpu_step *steps = calloc(n + 1, sizeof *steps);
    if (!at || !steps) {
        free(at);
        free(steps);
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory to order %u steps", p->n_steps);
    }
    uint32_t *count = at + n, *users = count + 2 * n, *first = users + n_values;
    find_first_uses(p, first);
    choose_places(p, at, users, first);
    for (size_t s = 0; s < n; s++)
        if (at[s] + 1 < 2 * n) count[at[s] + 1]++;
    for (size_t i = 1; i < 2 * n; i++) count[i] += count[i - 1];
    for (size_t s = 0; s < n; s++) steps[count[at[s]]++] = p->steps[s];
    memcpy(p->steps, steps, n * sizeof *steps);
    free(steps);
    free(at);
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
