#include "backend/place.h"

#include "base/status.h"
#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

static const shoal_graph *graph_of(const backend_places *p) { return p->plan->graph; }

static size_t bytes_of(const backend_places *p, uint32_t value) {
    return (size_t)base_type_bytes(&graph_of(p)->values[value].type);
}

static uint32_t root_of(const backend_places *p, uint32_t value) {
    return p->plan->values[value].root;
}

void backend_find_last_uses(backend_places *p) {
    const shoal_graph *g = graph_of(p);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const backend_touch step = p->touch(p->context, s);
        for (uint32_t i = 0; i < step.n_writes; i++) p->values[step.writes[i]].last = s;
        for (uint32_t i = 0; i < step.n_reads; i++) p->values[root_of(p, step.reads[i])].last = s;
    }
    for (uint32_t i = 0; i < g->n_outputs; i++)
        p->values[root_of(p, g->outputs[i])].last = p->n_steps;
}

static bool may_overwrite(const backend_places *p, uint32_t s, uint32_t w, uint32_t root,
                          uint32_t value) {
    return bytes_of(p, root) == bytes_of(p, value) && p->may_overwrite(p->context, s, w, root);
}

/* What a step updates in part, and nobody reads later, lies where its result does: so a chain of
 * updates moves nothing but these. */
static void place_updated(backend_places *p) {
    for (uint32_t s = p->n_steps; s-- > 0;) {
        const backend_touch step = p->touch(p->context, s);
        if (step.n_writes != 1 || !step.n_reads) continue;
        const backend_place *out = &p->values[step.writes[0]];
        uint32_t root = root_of(p, step.reads[0]);
        backend_place *in = &p->values[root];
        if (out->kind != BACKEND_OUTPUT || in->kind != BACKEND_NOWHERE || in->last != s ||
            !p->updates(p->context, s, root) || !may_overwrite(p, s, 0, root, step.writes[0]))
            continue;
        in->kind = BACKEND_OUTPUT;
        in->place = out->place;
    }
}

/* A value that a step computes goes straight to the first output that wants it. */
static void place_outputs(backend_places *p) {
    for (uint32_t i = 0; i < graph_of(p)->n_outputs; i++) {
        backend_place *root = &p->values[root_of(p, graph_of(p)->outputs[i])];
        if (root->kind != BACKEND_NOWHERE) continue;
        root->kind = BACKEND_OUTPUT;
        root->place = i;
    }
    if (p->updates) place_updated(p);
}

/* A part of the workspace that is taken. */
typedef struct part {
    size_t from, to;
    uint32_t last; /* step after which it is free */
} part;

struct backend_parts {
    backend_places *places;
    uint32_t step;
    BASE_VEC(part) list; /* in rising order */
};

static shoal_status take(backend_parts *parts, size_t bytes, uint32_t last, size_t *from) {
    backend_places *p = parts->places;
    size_t at = 0, i = 0;
    bytes = (bytes + p->align - 1) / p->align * p->align;
    while (i < parts->list.count && parts->list.data[i].from - at < bytes)
        at = parts->list.data[i++].to;
    if (!base_vec_reserve(&parts->list))
        return base_fail(SHOAL_NO_MEMORY, "no memory to place %zu bytes", bytes);
    memmove(&parts->list.data[i + 1], &parts->list.data[i],
            (parts->list.count - i) * sizeof parts->list.data[0]);
    parts->list.data[i] = (part){at, at + bytes, last};
    parts->list.count++;
    if (at + bytes > p->workspace) p->workspace = at + bytes;
    *from = at;
    return SHOAL_OK;
}

shoal_status backend_take(backend_parts *parts, size_t bytes, uint32_t more, size_t *from) {
    return take(parts, bytes, parts->step + more, from);
}

static void release(backend_parts *parts) {
    size_t kept = 0;
    for (size_t i = 0; i < parts->list.count; i++)
        if (parts->list.data[i].last > parts->step) parts->list.data[kept++] = parts->list.data[i];
    parts->list.count = kept;
}

/* Gives result w of the step the memory of an operand that ends here. */
static bool take_over(backend_parts *parts, const backend_touch *step, uint32_t w) {
    backend_places *p = parts->places;
    uint32_t s = parts->step;
    backend_place *out = &p->values[step->writes[w]];
    for (uint32_t k = 0; k < step->n_reads; k++) {
        uint32_t root = root_of(p, step->reads[k]);
        const backend_place *in = &p->values[root];
        if (in->kind != BACKEND_WORKSPACE || in->last != s ||
            !may_overwrite(p, s, w, root, step->writes[w]))
            continue;
        for (size_t i = 0; i < parts->list.count; i++) {
            part *kept = &parts->list.data[i];
            /* Not if another result of this step has it already. */
            if (kept->from != in->place || kept->to == in->place || kept->last != s) continue;
            out->place = in->place;
            kept->last = out->last > s ? out->last : s + 1;
            return true;
        }
    }
    return false;
}

static shoal_status place_step(backend_parts *parts) {
    backend_places *p = parts->places;
    const backend_touch step = p->touch(p->context, parts->step);
    for (uint32_t w = 0; w < step.n_writes; w++) {
        backend_place *value = &p->values[step.writes[w]];
        if (value->kind != BACKEND_NOWHERE) continue;
        value->kind = BACKEND_WORKSPACE;
        if (!take_over(parts, &step, w))
            SHOAL_TRY(take(parts, bytes_of(p, step.writes[w]), value->last, &value->place));
    }
    if (p->scratch) SHOAL_TRY(p->scratch(p->context, parts->step, parts));
    release(parts);
    return SHOAL_OK;
}

shoal_status backend_place_all(backend_places *p) {
    backend_parts parts = {.places = p};
    shoal_status status = SHOAL_OK;
    backend_find_last_uses(p);
    place_outputs(p);
    for (uint32_t s = 0; !status && s < p->n_steps; s++) {
        parts.step = s;
        status = place_step(&parts);
    }
    free(parts.list.data);
    return status;
}

/* ---- outputs in place of inputs ---- */

static bool may_share(const backend_places *p, uint32_t output, uint32_t s, uint32_t w,
                      uint32_t input) {
    uint32_t v = graph_of(p)->inputs[input], out = graph_of(p)->outputs[output];
    if (bytes_of(p, v) != bytes_of(p, out)) return false;
    uint32_t last = p->values[v].last;
    return last < s || (last == s && may_overwrite(p, s, w, v, out));
}

/* Outputs, in the order in which they are written, take over inputs that are done with. own: only
 * the one of the same number. */
static void share(const backend_places *p, const bool *frozen, bool own, bool *taken, bool *written,
                  int32_t *in_place) {
    const shoal_graph *g = graph_of(p);
    memset(written, 0, g->n_outputs * sizeof *written);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const backend_touch step = p->touch(p->context, s);
        for (uint32_t w = 0; w < step.n_writes; w++) {
            const backend_place *value = &p->values[step.writes[w]];
            if (value->kind != BACKEND_OUTPUT) continue;
            uint32_t o = (uint32_t)value->place;
            if (written[o]) continue;
            written[o] = true;
            uint32_t end = own && o < g->n_inputs ? o + 1 : g->n_inputs;
            for (uint32_t i = own ? o : 0; i < end && in_place[o] < 0; i++)
                if (!taken[i] && !(frozen && frozen[i]) && may_share(p, o, s, w, i)) {
                    in_place[o] = (int32_t)i;
                    taken[i] = true;
                }
        }
    }
}

shoal_status backend_report_in_place(const backend_places *p, const bool *frozen,
                                     int32_t *in_place) {
    const shoal_graph *g = graph_of(p);
    if (!in_place) return SHOAL_OK;
    /* Inputs that some output has taken over, then outputs that something has been written to. */
    bool *taken = calloc((size_t)g->n_inputs + g->n_outputs + 1, sizeof *taken);
    if (!taken) return base_fail(SHOAL_NO_MEMORY, "no memory to place outputs");
    for (uint32_t o = 0; o < g->n_outputs; o++) in_place[o] = -1;
    /* What a loop carries is to stay where it is. */
    share(p, frozen, true, taken, taken + g->n_inputs, in_place);
    share(p, frozen, false, taken, taken + g->n_inputs, in_place);
    free(taken);
    return SHOAL_OK;
}
