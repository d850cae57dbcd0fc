/* Programs for each index of a batch: computed for all indices at once, by the batch rules, as the
 * package's vmap does it, against the program for one index. There are one or two batches, one
 * within the other; which inputs differ from index to index follows from the seed. */
#include "hunt.h"

#include "shoal/shoal.h"

#include <stdlib.h>
#include <string.h>

enum { SESSIONS = 2, LEVELS = 2, MOST_INDICES = 3, TURNS = 4, DEADLINE_MS = 60000 };

typedef struct batches {
    shoal_session *sessions[SESSIONS]; /* of one worker, and of three */
    uint64_t compared, without;
    char why[512], reason[200];
} batches;

/* One run of a program. */
typedef struct run {
    batches *b;
    shoal_session *session;
    hunt_random random;
    const hunt_program *program;
    uint32_t n[LEVELS];      /* indices of each batch; 1, and no operand has it: there is none */
    bool turns;              /* inputs that differ hold other elements for each index */
    bool (*differs)[LEVELS]; /* per input */
    shoal_tensor **values;   /* per value of the graph: for one index */
    bool lacks, failed;      /* a batch rule; anything else */
} run;

void *hunt_batch_new(void) {
    batches *b = hunt_alloc(sizeof *b);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        shoal_options options = {.size = sizeof options,
                                 .hub = "embedded",
                                 .workers = 1 + 2 * i,
                                 .threads = 1 + 2 * i,
                                 .timeout_ms = DEADLINE_MS};
        hunt_must(shoal_session_open(&options, &b->sessions[i]));
    }
    return b;
}

void hunt_batch_free(void *context) {
    batches *b = context;
    printf("%llu indices compared", (unsigned long long)b->compared);
    if (b->without)
        printf("; %llu programs were not, the last for: %s", (unsigned long long)b->without,
               b->reason);
    printf("\n");
    for (uint32_t i = 0; i < SESSIONS; i++) shoal_session_close(&b->sessions[i]);
    free(b);
}

/* Notes the first failure; the want of a rule is none. */
static bool fine(run *r, const char *what, shoal_status status) {
    if (!status) return !r->failed && !r->lacks;
    if (status == SHOAL_UNSUPPORTED && strstr(shoal_error_message(), "no batch rule")) {
        snprintf(r->b->reason, sizeof r->b->reason, "%s", shoal_error_message());
        r->lacks = true;
    } else if (!r->failed) {
        snprintf(r->b->why, sizeof r->b->why, "%s: %s: %.300s", what, shoal_status_name(status),
                 shoal_error_message());
        r->failed = true;
    }
    return false;
}

/* ---- inputs ---- */

/* What an input holds for an index of each batch: its elements, turned further for each. */
static void fill_index(const run *r, uint32_t i, const uint32_t *at, char *to) {
    const shoal_graph *g = graph_data(r->program->graph);
    const shoal_type *type = &g->values[g->inputs[i]].type;
    size_t size = shoal_dtype_size((shoal_dtype)type->dtype);
    int64_t count = base_type_count(type), by = 0;
    for (uint32_t l = 0; l < LEVELS; l++)
        if (r->differs[i][l] && r->turns) by += (l ? 3 : 1) * (int64_t)at[l];
    for (int64_t e = 0; e < count; e++)
        memcpy(to + (size_t)e * size,
               (const char *)r->program->inputs[i] + (size_t)((e + by) % count) * size, size);
}

/* An input for all indices, and the handle of one. */
static void make_input(run *r, uint32_t i) {
    const shoal_graph *g = graph_data(r->program->graph);
    const shoal_type *one = &g->values[g->inputs[i]].type;
    shoal_type type = {.dtype = one->dtype};
    uint32_t counts[LEVELS];
    for (uint32_t l = 0; l < LEVELS; l++) {
        counts[l] = r->differs[i][l] ? r->n[l] : 1;
        if (r->differs[i][l]) type.dims[type.rank++] = r->n[l];
    }
    memcpy(type.dims + type.rank, one->dims, one->rank * sizeof *one->dims);
    type.rank = (uint8_t)(type.rank + one->rank);
    size_t bytes = (size_t)base_type_bytes(one);
    char *data = hunt_alloc(counts[0] * counts[1] * bytes);
    for (uint32_t k = 0; k < counts[0] * counts[1]; k++)
        fill_index(r, i, (uint32_t[]){k / counts[1], k % counts[1]}, data + k * bytes);
    shoal_tensor *x, *inner;
    if (fine(r, "input",
             shoal_tensor_new(r->session, (shoal_dtype)type.dtype, type.rank, type.dims, data, &x)))
        r->values[g->inputs[i]] = x;
    for (uint32_t l = 0; l < LEVELS && !r->failed; l++) {
        if (!r->differs[i][l] && hunt_chance(&r->random, 50)) continue; /* it is of no batch */
        if (fine(r, "batch", shoal_tensor_batch(x, l + 1, r->differs[i][l], &inner))) {
            shoal_tensor_free(&x);
            r->values[g->inputs[i]] = x = inner;
        }
    }
    free(data);
}

/* ---- results ---- */

/* The values of a result for all indices; has: which batches they have an axis of. */
static char *read_all(run *r, shoal_tensor *y, const shoal_type *one, bool *has) {
    shoal_tensor *whole = shoal_tensor_retain(y), *next;
    shoal_type want = *one, is;
    uint32_t level;
    bool each;
    has[0] = has[1] = false;
    while ((next = shoal_tensor_whole(whole, &level, &each))) {
        has[level - 1] = each;
        shoal_tensor_free(&whole);
        whole = next;
    }
    is = *shoal_tensor_type(whole);
    for (uint32_t l = LEVELS; l-- > 0;) {
        if (!has[l]) continue;
        memmove(want.dims + 1, want.dims, want.rank++ * sizeof *want.dims);
        want.dims[0] = r->n[l];
    }
    char *data = hunt_alloc((size_t)base_type_bytes(&want)), a[BASE_TYPE_TEXT], b[BASE_TYPE_TEXT];
    if (!base_type_equal(&is, &want))
        fine(r, "result",
             base_fail(SHOAL_INTERNAL, "all indices together are %s, not %s",
                       base_type_text(&is, a), base_type_text(&want, b)));
    else
        fine(r, "read", shoal_read(whole, data, (size_t)base_type_bytes(&want)));
    shoal_tensor_free(&whole);
    return data;
}

static const char *compare_index(run *r, const uint32_t *at, char *const *data,
                                 bool (*const has)[LEVELS]) {
    static char why[400];
    hunt_program one = hunt_copy(r->program);
    const shoal_graph *g = graph_data(one.graph);
    hunt_truth truth;
    for (uint32_t i = 0; i < g->n_inputs; i++) fill_index(r, i, at, one.inputs[i]);
    hunt_must(hunt_truth_init(&truth, &one));
    hunt_results results = hunt_results_new(g);
    for (uint32_t o = 0; o < g->n_outputs; o++) {
        size_t k = (has[o][0] ? at[0] : 0) * (has[o][1] ? r->n[1] : 1) + (has[o][1] ? at[1] : 0);
        memcpy(results.data[o], data[o] + k * results.bytes[o], results.bytes[o]);
    }
    const char *wrong = hunt_compare(&truth, &results);
    if (wrong)
        snprintf(why, sizeof why, "%u x %u indices, at %u, %u: %s", r->n[0], r->n[1], at[0], at[1],
                 wrong);
    r->b->compared++;
    hunt_results_fini(&results);
    hunt_truth_fini(&truth);
    hunt_program_fini(&one);
    return wrong ? why : NULL;
}

static const char *compare(run *r) {
    const shoal_graph *g = graph_data(r->program->graph);
    char **data = hunt_alloc((g->n_outputs + 1) * sizeof *data);
    bool(*has)[LEVELS] = hunt_alloc((g->n_outputs + 1) * sizeof *has);
    const char *why = NULL;
    for (uint32_t o = 0; o < g->n_outputs && !r->failed; o++)
        data[o] = read_all(r, r->values[g->outputs[o]], &g->values[g->outputs[o]].type, has[o]);
    for (uint32_t k = 0; k < r->n[0] * r->n[1] && !why && !r->failed; k++)
        why = compare_index(r, (uint32_t[]){k / r->n[1], k % r->n[1]}, data, has);
    for (uint32_t o = 0; o < g->n_outputs; o++) free(data[o]);
    free(data);
    free(has);
    return r->failed ? r->b->why : why;
}

/* ---- one run ---- */

static void record(run *r, const shoal_node *node) {
    shoal_tensor **inputs = hunt_alloc((node->n_inputs + 1) * sizeof *inputs);
    for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = r->values[node->inputs[k]];
    fine(r, shoal_op_name(node->op),
         shoal_apply(r->session, node->op, inputs, node->n_inputs, node->attrs, node->n_attrs,
                     node->regions, node->n_regions, &r->values[node->first_output],
                     node->n_outputs));
    free(inputs);
}

/* LT and GT are no order of NaN: turned inputs might bring some to where make.c has seen none. */
static bool sorts_floats(const shoal_graph *g) {
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        if (node->op == GRAPH_SORT) return true;
        for (uint16_t k = 0; k < node->n_regions; k++)
            if (sorts_floats(node->regions[k])) return true;
    }
    return false;
}

/* How many more axes all values can have. */
static uint32_t spare_axes(const shoal_graph *g) {
    uint32_t most = 0;
    for (uint32_t v = 0; v < g->n_values; v++)
        if (g->values[v].type.rank > most) most = g->values[v].type.rank;
    return SHOAL_MAX_RANK - most;
}

/* What differs from index to index; few: of one batch only, and less. */
static void choose(run *r, bool few) {
    const shoal_graph *g = graph_data(r->program->graph);
    uint32_t spare = spare_axes(g);
    bool nested = !few && spare > 1 && hunt_chance(&r->random, 40);
    for (uint32_t l = 0; l < LEVELS; l++)
        r->n[l] = l && !nested ? 1 : 1 + hunt_below(&r->random, MOST_INDICES);
    for (uint32_t i = 0; i < g->n_inputs; i++)
        for (uint32_t l = 0; l < LEVELS; l++)
            r->differs[i][l] = (l ? nested : spare > 0) && hunt_chance(&r->random, few ? 25 : 60);
}

static const char *run_once(run *r) {
    const shoal_graph *g = graph_data(r->program->graph);
    const char *why = NULL;
    r->lacks = false;
    for (uint32_t i = 0; i < g->n_inputs && !r->failed; i++) make_input(r, i);
    for (uint32_t n = 0; n < g->n_nodes && !r->failed && !r->lacks; n++) record(r, &g->nodes[n]);
    if (r->failed)
        why = r->b->why;
    else if (!r->lacks)
        why = compare(r);
    for (uint32_t v = 0; v < g->n_values; v++) shoal_tensor_free(&r->values[v]);
    return why;
}

const char *hunt_batch_run(void *context, const hunt_program *program) {
    batches *b = context;
    const shoal_graph *g = graph_data(program->graph);
    const char *why = NULL;
    uint64_t before = b->compared;
    for (uint32_t i = 0; i <= program->tries && !why; i++) {
        run r = {.b = b, .random = {program->seed + i * 7919}, .program = program};
        r.session = b->sessions[hunt_below(&r.random, SESSIONS)];
        r.turns = !sorts_floats(g);
        r.differs = hunt_alloc((g->n_inputs + 1) * sizeof *r.differs);
        r.values = hunt_alloc((g->n_values + 1) * sizeof *r.values);
        r.lacks = true;
        for (uint32_t turn = 0; turn < TURNS && r.lacks && !why; turn++) {
            choose(&r, turn > 1);
            why = run_once(&r);
        }
        b->without += r.lacks;
        free(r.differs);
        free(r.values);
    }
    if (b->compared == before) hunt_not_compared();
    return why;
}
