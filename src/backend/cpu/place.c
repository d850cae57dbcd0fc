/* Where values lie: in the caller's outputs, or in one workspace whose parts are reused as soon as
 * their value was read for the last time. */
#include "backend/cpu/cpu.h"

#include "base/vec.h"

#include <stdlib.h>

static size_t bytes_of(const cpu_program *p, uint32_t value) {
    return (size_t)base_type_bytes(&p->g->values[value].type);
}

static uint32_t root_of(const cpu_program *p, uint32_t value) { return p->plan.values[value].root; }

static void find_last_uses(cpu_program *p) {
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const cpu_step *step = &p->steps[s];
        for (uint32_t i = 0; i < step->n_writes; i++) p->values[step->writes[i]].last = s;
        for (uint32_t i = 0; i < step->n_reads; i++) p->values[root_of(p, step->reads[i])].last = s;
    }
    for (uint32_t i = 0; i < p->g->n_outputs; i++)
        p->values[root_of(p, p->g->outputs[i])].last = p->n_steps;
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
        const cpu_value *in = &p->values[root_of(p, step->reads[i])];
        ends |= in->kind == CPU_NOWHERE && in->last == s;
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
            if (users[root_of(p, step->reads[i])] > most) most = users[root_of(p, step->reads[i])];
        behind[s] = most && ends_values(p, s) ? most - 1 : s;
        for (uint32_t i = 0; i < step->n_reads; i++) {
            uint32_t root = root_of(p, step->reads[i]);
            bool input = p->values[root].kind == CPU_INPUT;
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

/* Whether a step may write its result number w over the memory of value `root`. */
static bool may_overwrite(const cpu_program *p, const cpu_step *step, uint32_t w, uint32_t root) {
    if (bytes_of(p, root) != bytes_of(p, step->writes[w])) return false;
    return step->run == cpu_region_run ? cpu_region_may_overwrite(p, &step->u.region, w, root)
                                       : cpu_updates_operand(p, step, root);
}

/* What a step updates in part, and nobody reads later, lies where its result does: so a chain of
 * updates moves nothing but these. */
static void place_updated(cpu_program *p) {
    for (uint32_t s = p->n_steps; s-- > 0;) {
        const cpu_step *step = &p->steps[s];
        if (step->n_writes != 1 || p->values[step->writes[0]].kind != CPU_OUTPUT) continue;
        uint32_t root = step->n_reads ? root_of(p, step->reads[0]) : 0;
        cpu_value *in = &p->values[root];
        if (!step->n_reads || in->kind != CPU_NOWHERE || in->last != s ||
            !cpu_updates_operand(p, step, root) || !may_overwrite(p, step, 0, root))
            continue;
        in->kind = CPU_OUTPUT;
        in->place = p->values[step->writes[0]].place;
    }
}

/* A value that a step computes goes straight to the first output that wants it. */
static void place_outputs(cpu_program *p) {
    for (uint32_t i = 0; i < p->g->n_outputs; i++) {
        cpu_value *root = &p->values[root_of(p, p->g->outputs[i])];
        if (root->kind != CPU_NOWHERE) continue;
        root->kind = CPU_OUTPUT;
        root->place = i;
    }
    place_updated(p);
}

/* A part of the workspace that is taken. */
typedef struct part {
    size_t from, to;
    uint32_t last; /* step after which it is free */
} part;
typedef BASE_VEC(part) part_list; /* in rising order */

static shoal_status take(cpu_program *p, part_list *parts, size_t bytes, uint32_t last,
                         size_t *from) {
    size_t at = 0, i = 0;
    bytes = (bytes + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;
    while (i < parts->count && parts->data[i].from - at < bytes) at = parts->data[i++].to;
    if (!base_vec_reserve(parts)) return SHOAL_NO_MEMORY;
    memmove(&parts->data[i + 1], &parts->data[i], (parts->count - i) * sizeof parts->data[0]);
    parts->data[i] = (part){at, at + bytes, last};
    parts->count++;
    if (at + bytes > p->workspace) p->workspace = at + bytes;
    *from = at;
    return SHOAL_OK;
}

static void release(part_list *parts, uint32_t step) {
    size_t kept = 0;
    for (size_t i = 0; i < parts->count; i++)
        if (parts->data[i].last > step) parts->data[kept++] = parts->data[i];
    parts->count = kept;
}

/* Gives result w of step s the memory of an operand that ends here. */
static bool take_over(cpu_program *p, uint32_t s, uint32_t w, part_list *parts) {
    const cpu_step *step = &p->steps[s];
    cpu_value *out = &p->values[step->writes[w]];
    for (uint32_t k = 0; k < step->n_reads; k++) {
        uint32_t root = root_of(p, step->reads[k]);
        const cpu_value *in = &p->values[root];
        if (in->kind != CPU_WORKSPACE || in->last != s || !may_overwrite(p, step, w, root))
            continue;
        for (size_t i = 0; i < parts->count; i++) {
            part *kept = &parts->data[i];
            /* Not if another result of this step has it already. */
            if (kept->from != in->place || kept->to == in->place || kept->last != s) continue;
            out->place = in->place;
            kept->last = out->last > s ? out->last : s + 1;
            return true;
        }
    }
    return false;
}

static shoal_status place_dot(cpu_program *p, uint32_t s, part_list *parts) {
    cpu_dot *dot = &p->steps[s].u.dot;
    cpu_blocks *blocks = &dot->blocks;
    for (int side = 0; side < 2; side++) {
        cpu_matrix *x = side ? &dot->rhs : &dot->lhs;
        if (x->pack) SHOAL_TRY(take(p, parts, x->scratch_bytes, s, &x->scratch));
    }
    SHOAL_TRY(take(p, parts, blocks->lhs_each * p->threads, s, &blocks->lhs));
    SHOAL_TRY(take(p, parts, blocks->rhs_each * (size_t)blocks->group, s, &blocks->rhs));
    return dot->narrow ? take(p, parts, 2 * bytes_of(p, p->steps[s].writes[0]), s, &dot->wide)
                       : SHOAL_OK;
}

/* What a step needs for itself, while it runs. */
static shoal_status place_scratch(cpu_program *p, uint32_t s, part_list *parts) {
    cpu_step *step = &p->steps[s];
    if (step->run == cpu_region_run)
        return take(p, parts, cpu_region_scratch(&step->u.region) * p->threads, s,
                    &step->u.region.scratch);
    if (step->scratch_bytes) return take(p, parts, step->scratch_bytes, s, &step->scratch);
    if (step->run == cpu_reduce_run) {
        cpu_reduce *r = &step->u.reduce;
        SHOAL_TRY(take(p, parts, cpu_reduce_partial(r), s, &r->partial));
        return take(p, parts, cpu_reduce_scratch(r) * p->threads, s, &r->scratch);
    }
    if (step->run == cpu_order_run)
        return take(p, parts, step->u.order.scratch_each * p->threads, s, &step->u.order.scratch);
    if (step->run == cpu_control_run)
        return take(p, parts, step->u.control.bytes, s, &step->u.control.at);
    if (step->run == cpu_convolve_run) {
        cpu_convolution *c = &step->u.convolution;
        SHOAL_TRY(take(p, parts, c->kernel_bytes, s, &c->kernel));
        SHOAL_TRY(take(p, parts, c->matrix_bytes, s, &c->matrix));
        return take(p, parts, c->scratch_each * p->threads, s, &c->scratch);
    }
    return step->run == cpu_dot_run ? place_dot(p, s, parts) : SHOAL_OK;
}

static shoal_status place_step(cpu_program *p, uint32_t s, part_list *parts) {
    const cpu_step *step = &p->steps[s];
    for (uint32_t w = 0; w < step->n_writes; w++) {
        cpu_value *value = &p->values[step->writes[w]];
        if (value->kind != CPU_NOWHERE) continue;
        value->kind = CPU_WORKSPACE;
        if (!take_over(p, s, w, parts))
            SHOAL_TRY(take(p, parts, bytes_of(p, step->writes[w]), value->last, &value->place));
    }
    SHOAL_TRY(place_scratch(p, s, parts));
    release(parts, s);
    return SHOAL_OK;
}

shoal_status cpu_place_values(cpu_program *p) {
    part_list parts = {0};
    find_last_uses(p);
    shoal_status status = order_steps(p);
    find_last_uses(p);
    place_outputs(p);
    for (uint32_t s = 0; !status && s < p->n_steps; s++) status = place_step(p, s, &parts);
    free(parts.data);
    return status;
}

/* ---- outputs in place of inputs ---- */

static bool may_share(const cpu_program *p, uint32_t output, uint32_t s, uint32_t w,
                      uint32_t input) {
    uint32_t v = p->g->inputs[input];
    if (bytes_of(p, v) != bytes_of(p, p->g->outputs[output])) return false;
    uint32_t last = p->values[v].last;
    return last < s || (last == s && may_overwrite(p, &p->steps[s], w, v));
}

shoal_status cpu_report_in_place(const cpu_program *p, const bool *frozen, int32_t *in_place) {
    /* Inputs that some output has taken over, then outputs that something has been written to. */
    bool *taken = calloc((size_t)p->g->n_inputs + p->g->n_outputs + 1, sizeof *taken);
    if (!taken) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory to compile");
    bool *written = taken + p->g->n_inputs;
    for (uint32_t o = 0; o < p->g->n_outputs; o++) in_place[o] = -1;
    for (uint32_t s = 0; s < p->n_steps; s++)
        for (uint32_t w = 0; w < p->steps[s].n_writes; w++) {
            const cpu_value *value = &p->values[p->steps[s].writes[w]];
            if (value->kind != CPU_OUTPUT) continue;
            uint32_t o = (uint32_t)value->place;
            if (written[o]) continue;
            written[o] = true;
            for (uint32_t i = 0; i < p->g->n_inputs && in_place[o] < 0; i++)
                if (!taken[i] && !(frozen && frozen[i]) && may_share(p, o, s, w, i)) {
                    in_place[o] = (int32_t)i;
                    taken[i] = true;
                }
        }
    free(taken);
    return SHOAL_OK;
}
