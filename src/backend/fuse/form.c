/* Which nodes become one kernel.
 *
 * A region gathers nodes over one shape until something else reads one of its values, or nothing
 * more can; then it becomes a step. A node that reads several joins them. So regions that are open
 * never depend on each other.
 *
 * Where the backend takes several passes, reductions stay within: what they give is *outer*, it has
 * no reduced axes, and is read by operations of its own shape or, repeated, by those of the whole.
 */
#include "backend/fuse/fuse.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* Joining operands that are many is a step of its own. */
enum { MOST_JOINED = 64 };

typedef struct region {
    BASE_VEC(uint32_t) nodes;
    const shoal_type *space; /* over whose axes it runs */
    uint32_t head;           /* node whose result goes on, or SHOAL_NO_NODE */
    uint32_t loads;          /* at most */
    int64_t pending;         /* reads of its values that are still to come */
    bool open, reduces;
    bool reduced[SHOAL_MAX_RANK]; /* axes of the space, if it reduces */
} region;

typedef struct former {
    const shoal_graph *g;
    const fuse_choice *choices;
    const fuse_limits *limits;
    base_arena *arena;
    fuse_plan *plan;
    fuse_value *values;
    fuse_step *steps;
    BASE_VEC(region) regions;
    uint8_t *needs;
    uint32_t *region_of; /* per value: number of its region + 1 */
    uint32_t *reads;     /* per value: operands of nodes that it is, or that are the same as it */
    uint32_t *inside;    /* of these, nodes of its own region */
    bool *same;          /* per value: its reads are counted as its root's */
    bool *output;        /* per value: it is one */
    bool *used;          /* scratch of close_region */
    bool *outer;         /* per value: made by its region without the reduced axes, */
    uint8_t *pass;       /* after so many reductions */
} former;

/* ---- what can be in a kernel ---- */

static fuse_role reduce_role(const shoal_node *node) {
    if (node->n_inputs != 2) return FUSE_OWN;
    switch (graph_body_op(node->regions[0])) {
    case GRAPH_ADD:
    case GRAPH_MULTIPLY:
    case GRAPH_MAXIMUM:
    case GRAPH_MINIMUM:
    case GRAPH_AND:
    case GRAPH_OR:
    case GRAPH_XOR: return FUSE_REDUCE;
    default: return FUSE_OWN;
    }
}

fuse_role fuse_may_take(const shoal_graph *g, const shoal_node *node) {
    static const char *const elementwise[] = {"unary", "binary", "compare", "select", "convert"};
    if (node->op >= GRAPH_OP_BUILT_IN) return FUSE_OWN;
    switch (node->op) {
    case GRAPH_REDUCE: return reduce_role(node);
    case GRAPH_CONCATENATE: return node->n_inputs > MOST_JOINED ? FUSE_OWN : FUSE_MAP;
    case GRAPH_BITCAST_CONVERT:
        return shoal_dtype_size((shoal_dtype)g->values[node->inputs[0]].type.dtype) ==
                       shoal_dtype_size((shoal_dtype)g->values[node->first_output].type.dtype)
                   ? FUSE_MAP
                   : FUSE_OWN;
    case GRAPH_SILU:
    case GRAPH_SILU_GRADIENT:
    case GRAPH_GELU:
    case GRAPH_GELU_GRADIENT: return FUSE_MAP;
    default: break;
    }
    if (fuse_is_move(node->op)) return FUSE_MAP;
    for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++)
        if (!strcmp(graph_op(node->op)->category, elementwise[i])) return FUSE_MAP;
    return FUSE_OWN;
}

/* ---- regions ---- */

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool is_used(const former *f, uint32_t value) {
    return f->output[value] || f->reads[value] > f->inside[value];
}

static shoal_status close_region(former *f, region *r) {
    fuse_step *step = &f->steps[f->plan->n_steps++];
    shoal_status status = SHOAL_OK;
    *step = (fuse_step){.node = r->head};
    r->open = false;
    if (r->nodes.count) {
        fuse_part part = {.nodes = r->nodes.data,
                          .n_nodes = (uint32_t)r->nodes.count,
                          .head = r->head,
                          .space = r->space,
                          .used = f->used,
                          .outer = f->outer};
        if (r->reduces) memcpy(part.reduced, r->reduced, sizeof part.reduced);
        qsort(r->nodes.data, r->nodes.count, sizeof *r->nodes.data, ascending);
        for (size_t i = 0; i < r->nodes.count; i++) {
            uint32_t v = f->g->nodes[r->nodes.data[i]].first_output;
            f->used[v] = is_used(f, v);
        }
        if (r->head != SHOAL_NO_NODE) {
            uint32_t v = f->g->nodes[r->head].first_output;
            f->used[v] = is_used(f, v);
        }
        status = fuse_kernel_make(f->plan, &part, f->arena, &step->kernel);
        /* What nobody reads is no step. */
        if (!status && !step->kernel->n_stores && r->head == SHOAL_NO_NODE) f->plan->n_steps--;
    }
    free(r->nodes.data);
    r->nodes.data = NULL;
    return status;
}

/* The region, if it is open, that makes what an operand is made of. */
static region *maker_of(former *f, uint32_t operand) {
    uint32_t number = f->region_of[f->values[operand].root];
    return number && f->regions.data[number - 1].open ? &f->regions.data[number - 1] : NULL;
}

static uint32_t number_of(const former *f, const region *r) {
    return (uint32_t)(r - f->regions.data) + 1;
}

static region *new_region(former *f, const shoal_type *space) {
    region fresh = {.open = true, .space = space, .head = SHOAL_NO_NODE};
    if (!base_vec_push(&f->regions, fresh)) return NULL;
    return &f->regions.data[f->regions.count - 1];
}

/* Everything that a node reads is to be there. */
static shoal_status close_operands(former *f, const shoal_node *node) {
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        region *r = maker_of(f, node->inputs[k]);
        if (r) SHOAL_TRY(close_region(f, r));
    }
    return SHOAL_OK;
}

/* ---- reading what a region makes ---- */

static const shoal_type *type_of(const former *f, uint32_t value) {
    return &f->g->values[value].type;
}

/* Whether a shape is that of a region's outer values, apart from axes of one element. */
static bool has_outer_shape(const region *r, const shoal_type *type) {
    uint32_t axis = 0;
    for (uint32_t i = 0; i < r->space->rank; i++) {
        if (r->reduced[i] || r->space->dims[i] == 1) continue;
        while (axis < type->rank && type->dims[axis] == 1) axis++;
        if (axis == type->rank || type->dims[axis++] != r->space->dims[i]) return false;
    }
    while (axis < type->rank && type->dims[axis] == 1) axis++;
    return axis == type->rank;
}

/* Whether an operand is an outer value of the region, repeated along the reduced axes. */
static bool repeats_outer(const former *f, const region *r, uint32_t operand) {
    int64_t strides[SHOAL_MAX_RANK];
    const shoal_type *type = type_of(f, operand), *made = type_of(f, f->values[operand].root);
    if (!fuse_same_shape(type, r->space)) return false;
    fuse_index index = fuse_index_of(f->plan, operand), lies = fuse_dense(made);
    fuse_spread(r->space, r->reduced, made, &lies, strides);
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i] != 1 && index.strides[i] != strides[i]) return false;
    return index.start == 0;
}

/* Whether an operation over `type` can read an operand, which the region makes, on its way. */
static bool can_read(const former *f, const region *r, uint32_t operand, const shoal_type *type,
                     bool outer) {
    uint32_t root = f->values[operand].root;
    const shoal_type *read = type_of(f, operand);
    bool direct = !f->values[operand].is_view;
    if (outer) return f->outer[root] && direct && has_outer_shape(r, read);
    if (f->outer[root]) return fuse_same_shape(type, r->space) && repeats_outer(f, r, operand);
    return direct && fuse_same_shape(read, type) && fuse_same_shape(type_of(f, root), type);
}

/* How a node can join a region that makes some of its operands: over its whole space, or outside
 * of the reduced axes. */
typedef enum level { APART, WHOLE, OUTER } level;
static level level_of(former *f, region *r, const shoal_node *node, const shoal_type *type) {
    bool whole = fuse_same_shape(type, r->space), outer = r->reduces && node->op != GRAPH_REDUCE;
    outer = outer && has_outer_shape(r, type_of(f, node->first_output));
    uint32_t n = node->op == GRAPH_REDUCE ? 1 : node->n_inputs; /* initial values are apart */
    for (uint32_t k = 0; k < n; k++) {
        if (maker_of(f, node->inputs[k]) != r) continue;
        whole = whole && can_read(f, r, node->inputs[k], type, false);
        outer = outer && can_read(f, r, node->inputs[k], type, true);
    }
    return outer ? OUTER : whole ? WHOLE : APART;
}

/* ---- joining ---- */

static shoal_status absorb(former *f, region *into, region *from) {
    for (size_t i = 0; i < from->nodes.count; i++) {
        uint32_t node = from->nodes.data[i];
        if (!base_vec_push(&into->nodes, node)) return SHOAL_NO_MEMORY;
        f->region_of[f->g->nodes[node].first_output] = number_of(f, into);
    }
    if (from->head != SHOAL_NO_NODE) {
        into->head = from->head;
        f->region_of[f->g->nodes[from->head].first_output] = number_of(f, into);
    }
    if (from->reduces) memcpy(into->reduced, from->reduced, sizeof into->reduced);
    into->reduces |= from->reduces;
    into->loads += from->loads;
    into->pending += from->pending;
    from->open = false;
    free(from->nodes.data);
    from->nodes.data = NULL;
    return SHOAL_OK;
}

static bool can_absorb(const region *into, const region *from) {
    if (into->head != SHOAL_NO_NODE && from->head != SHOAL_NO_NODE) return false;
    if (!fuse_same_shape(into->space, from->space)) return false;
    return !into->reduces || !from->reduces ||
           !memcmp(into->reduced, from->reduced, sizeof into->reduced);
}

/* The region that a node joins, which may be a new one; those it cannot join but reads are closed.
 */
static shoal_status find_region(former *f, const shoal_node *node, level *at, region **out) {
    const shoal_type *type = type_of(f, node->first_output);
    region *home = NULL;
    *at = WHOLE;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        region *r = maker_of(f, node->inputs[k]);
        if (!r || r == home) continue;
        level here = level_of(f, r, node, type);
        size_t nodes = r->nodes.count + (home ? home->nodes.count : 0) + 1;
        uint32_t loads = r->loads + (home ? home->loads : 0) + node->n_inputs;
        if (here == APART || nodes > f->limits->operations || loads > f->limits->loads ||
            (home && (here != *at || !can_absorb(home, r))))
            SHOAL_TRY(close_region(f, r));
        else if (home)
            SHOAL_TRY(absorb(f, home, r));
        else {
            home = r;
            *at = here;
        }
    }
    if (!home) home = new_region(f, type);
    *out = home;
    return home ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* Puts a node into a region that is open. */
static shoal_status join(former *f, uint32_t n, region *r, bool outer) {
    const shoal_node *node = &f->g->nodes[n];
    uint32_t number = number_of(f, r), v = node->first_output;
    if (!base_vec_push(&r->nodes, n)) return SHOAL_NO_MEMORY;
    f->outer[v] = outer;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
        uint32_t root = f->values[node->inputs[k]].root;
        if (f->region_of[root] == number) {
            f->inside[root]++;
            r->pending--;
            if (f->pass[root] > f->pass[v]) f->pass[v] = f->pass[root];
        } else {
            r->loads++;
        }
    }
    r->loads += node->op == GRAPH_IOTA; /* which loads nothing from memory, but is a load */
    f->region_of[v] = number;
    r->pending += f->reads[v];
    return SHOAL_OK;
}

static shoal_status add_map(former *f, uint32_t n) {
    const shoal_node *node = &f->g->nodes[n];
    region *r;
    level at = WHOLE;
    if (fuse_is_move(node->op)) { /* a load: what it reads has to lie in memory */
        SHOAL_TRY(close_operands(f, node));
        if (!(r = new_region(f, type_of(f, node->first_output)))) return SHOAL_NO_MEMORY;
    } else {
        SHOAL_TRY(find_region(f, node, &at, &r));
    }
    SHOAL_TRY(join(f, n, r, at == OUTER));
    return r->pending > 0 ? SHOAL_OK : close_region(f, r);
}

/* ---- reductions ---- */

/* Whether a region has no other result than the last of its values, which nobody reads but one
 * reduction. */
static bool has_sole_result(const former *f, const region *r, uint32_t value) {
    uint32_t last = 0;
    if (f->values[value].root != value || r->pending != 1 || f->reads[value] != 1) return false;
    for (size_t i = 0; i < r->nodes.count; i++) {
        uint32_t n = r->nodes.data[i], out = f->g->nodes[n].first_output;
        if (n > last) last = n;
        if (f->output[out] || (out != value && f->reads[out] > f->inside[out])) return false;
    }
    return f->g->nodes[last].first_output == value;
}

static bool can_reduce(former *f, region *r, const shoal_node *node, const bool *reduced) {
    uint32_t value = node->inputs[0];
    if (!f->limits->passes) return r->head == SHOAL_NO_NODE && has_sole_result(f, r, value);
    if (r->nodes.count + 1 > f->limits->operations || r->loads + 2 > f->limits->loads) return false;
    return level_of(f, r, node, type_of(f, value)) == WHOLE &&
           (!r->reduces || !memcmp(r->reduced, reduced, sizeof r->reduced)) &&
           f->pass[f->values[value].root] < f->limits->passes;
}

static shoal_status add_reduce(former *f, uint32_t n) {
    const shoal_node *node = &f->g->nodes[n];
    const shoal_attr *axes = shoal_node_attr(node, SHOAL_ATTR_DIMENSIONS);
    bool reduced[SHOAL_MAX_RANK] = {false};
    for (uint32_t i = 0; i < axes->count; i++) reduced[axes->u.ints[i]] = true;
    region *r = maker_of(f, node->inputs[0]);
    if (r && (maker_of(f, node->inputs[1]) == r || !can_reduce(f, r, node, reduced))) {
        SHOAL_TRY(close_region(f, r));
        r = NULL;
    }
    region *initial = maker_of(f, node->inputs[1]);
    if (initial) SHOAL_TRY(close_region(f, initial));
    if (!r && !(r = new_region(f, type_of(f, node->inputs[0])))) return SHOAL_NO_MEMORY;
    r->reduces = true;
    memcpy(r->reduced, reduced, sizeof reduced);
    SHOAL_TRY(join(f, n, r, true));
    f->pass[node->first_output]++;
    return r->pending > 0 && f->limits->passes ? SHOAL_OK : close_region(f, r);
}

/* ---- everything ---- */

/* A node without a step has read its operand, too. Who reads a value that is its operand element by
 * element, or an outer value of a region as that repeats it, reads that; who reads another view of
 * it reads memory, which the one read that made the view stands for. */
static shoal_status note_view(former *f, const shoal_node *node) {
    uint32_t value = node->first_output, root = f->values[value].root;
    if (root == value) return SHOAL_OK;
    region *r = maker_of(f, node->inputs[0]);
    f->same[value] =
        !f->values[value].is_view || (r && f->outer[root] && repeats_outer(f, r, value));
    bool counted = f->same[node->inputs[0]];
    if (f->same[value]) {
        f->output[root] |= f->output[value];
        f->reads[root] += f->reads[value] - counted;
    }
    if (!r) return SHOAL_OK;
    r->pending += (f->same[value] ? (int64_t)f->reads[value] : 0) - counted;
    return r->pending <= 0 ? close_region(f, r) : SHOAL_OK;
}

static shoal_status add_own(former *f, uint32_t n) {
    const shoal_node *node = &f->g->nodes[n];
    SHOAL_TRY(close_operands(f, node));
    if (f->choices[n].role != FUSE_HEAD) {
        f->steps[f->plan->n_steps++] = (fuse_step){.node = n};
        return SHOAL_OK;
    }
    region *r = new_region(f, type_of(f, node->first_output));
    if (!r) return SHOAL_NO_MEMORY;
    r->head = n;
    r->loads = 1;
    r->pending = f->reads[node->first_output];
    f->region_of[node->first_output] = number_of(f, r);
    return r->pending > 0 ? SHOAL_OK : close_region(f, r);
}

static shoal_status form(former *f) {
    const shoal_graph *g = f->g;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t k = 0; k < g->nodes[n].n_inputs; k++) f->reads[g->nodes[n].inputs[k]]++;
    for (uint32_t i = 0; i < g->n_outputs; i++) f->output[g->outputs[i]] = true;
    for (uint32_t v = 0; v < g->n_values; v++) {
        f->values[v].root = v;
        f->same[v] = true;
    }
    fuse_mark_needs(g, f->choices, f->limits, f->needs);
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        if (fuse_share(g, &g->nodes[n], f->limits, f->needs, f->values))
            SHOAL_TRY(note_view(f, &g->nodes[n]));
        else if (f->choices[n].role == FUSE_MAP)
            SHOAL_TRY(add_map(f, n));
        else if (f->choices[n].role == FUSE_REDUCE)
            SHOAL_TRY(add_reduce(f, n));
        else
            SHOAL_TRY(add_own(f, n));
    }
    for (size_t i = 0; i < f->regions.count; i++)
        if (f->regions.data[i].open) SHOAL_TRY(close_region(f, &f->regions.data[i]));
    return SHOAL_OK;
}

shoal_status fuse_plan_make(const shoal_graph *g, const fuse_choice *choices,
                            const fuse_limits *limits, base_arena *arena, fuse_plan *out) {
    size_t n = (size_t)g->n_values + 1;
    former f = {.g = g,
                .choices = choices,
                .limits = limits,
                .arena = arena,
                .plan = out,
                .values = base_arena_array(arena, fuse_value, n),
                .steps = base_arena_array(arena, fuse_step, (size_t)g->n_nodes + 1),
                .needs = calloc(n, sizeof *f.needs),
                .region_of = calloc(n, sizeof *f.region_of),
                .reads = calloc(n, sizeof *f.reads),
                .inside = calloc(n, sizeof *f.inside),
                .same = calloc(n, sizeof *f.same),
                .output = calloc(n, sizeof *f.output),
                .used = calloc(n, sizeof *f.used),
                .outer = calloc(n, sizeof *f.outer),
                .pass = calloc(n, sizeof *f.pass)};
    *out = (fuse_plan){.graph = g, .steps = f.steps, .values = f.values};
    shoal_status status = f.values && f.steps ? SHOAL_OK : SHOAL_NO_MEMORY;
    if (!f.needs || !f.region_of || !f.reads || !f.inside || !f.same || !f.output || !f.used ||
        !f.outer || !f.pass)
        status = base_fail(SHOAL_NO_MEMORY, "no memory to form kernels");
    if (!status) status = form(&f);
    for (size_t i = 0; i < f.regions.count; i++) free(f.regions.data[i].nodes.data);
    free(f.regions.data);
    free(f.needs);
    free(f.region_of);
    free(f.reads);
    free(f.inside);
    free(f.same);
    free(f.output);
    free(f.used);
    free(f.outer);
    free(f.pass);
    return status;
}
