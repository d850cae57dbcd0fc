/* A part of a program fails: a check that its data did not pass, or an operand that was never made.
 * What derives from it has failed as well, and nothing else: the rest is made by a program of the
 * hub's own, which is the client's cut down to what is well.
 *
 * Each time at least one output fewer is left, so this ends; after HUB_MAX_CUTS failures of one
 * program no check is waited for any more. A program whose data passes costs nothing. */
#include "hub/state.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t SHARED_CHECK = UINT64_C(1) << 63;

/* Whether what derives from it may be left out of a program that begins anew: it may fail, or have
 * no end and be dropped (loop.c). */
static bool may_be_left(const shoal_node *node) {
    return graph_may_fail(node) || graph_may_go_on(node);
}

/* Notes the checks that values derive from, a bit each, and what may have no end; those that are
 * too many for it have the last one together. Returns all of them. */
static uint64_t note_checks(const shoal_graph *g, uint64_t *checks) {
    uint64_t all = 0, next = 1;
    for (uint32_t n = 0; n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        uint64_t found = 0;
        if (may_be_left(node)) {
            found = next;
            next <<= next != SHARED_CHECK;
        }
        all |= found;
        for (uint32_t i = 0; i < node->n_inputs; i++) found |= checks[node->inputs[i]];
        for (uint32_t o = 0; o < node->n_outputs; o++) checks[node->first_output + o] = found;
    }
    return all;
}

/* An input is kept for the outputs that some check may leave well. */
static shoal_status note_kept(const shoal_graph *g, const uint64_t *checks, uint64_t all,
                              bool **keeps) {
    bool *needed = calloc((size_t)g->n_values + 1, sizeof *needed);
    *keeps = calloc((size_t)g->n_inputs + 1, sizeof **keeps);
    for (uint32_t o = 0; needed && *keeps && o < g->n_outputs; o++)
        needed[g->outputs[o]] |= (checks[g->outputs[o]] & ~SHARED_CHECK) != all;
    if (needed) graph_mark_needed(g, needed);
    for (uint32_t i = 0; needed && *keeps && i < g->n_inputs; i++)
        (*keeps)[i] = needed[g->inputs[i]];
    bool made = needed && *keeps;
    free(needed);
    return made ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a program");
}

shoal_status hub_rest_read(const shoal_graph *g, hub_program *program) {
    for (uint32_t n = 0; n < g->n_nodes && !program->checks; n++)
        program->checks = may_be_left(&g->nodes[n]);
    if (!program->checks || program->loops) return SHOAL_OK; /* a loop fails as a whole */
    uint64_t *checks = calloc((size_t)g->n_values + 1, sizeof *checks);
    if (!checks) return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    uint64_t all = note_checks(g, checks);
    shoal_status status = note_kept(g, checks, all, &program->keeps);
    free(checks);
    return status;
}

/* ---- what has failed ---- */

/* What has failed: nodes at the line that a message names, or, where it names none, checks without
 * a line, as those in bodies are; or every check. */
typedef struct failed {
    const hub_value *failure; /* what is said of it; NULL: nothing has */
    const char *line;
    size_t length;
    bool every;
} failed;

static bool is_at(const shoal_node *node, const failed *f) {
    if (!f->failure) return false;
    if (f->every) return graph_may_fail(node);
    if (!f->line) return (!node->location || node->n_regions) && graph_may_fail(node);
    return node->location && strlen(node->location) == f->length &&
           !memcmp(node->location, f->line, f->length);
}

/* What each value derives from that has failed: the first operand, or the failure of a node. */
static const hub_value **trace(const hub_record *record, const shoal_graph *g, const failed *f) {
    const hub_value **cause = calloc((size_t)g->n_values + 1, sizeof *cause);
    for (uint32_t i = 0; cause && i < g->n_inputs; i++)
        if (record->inputs[i]->status != SHOAL_OK) cause[g->inputs[i]] = record->inputs[i];
    for (uint32_t n = 0; cause && n < g->n_nodes; n++) {
        const shoal_node *node = &g->nodes[n];
        const hub_value *found = is_at(node, f) ? f->failure : NULL;
        for (uint32_t i = 0; !found && i < node->n_inputs; i++) found = cause[node->inputs[i]];
        for (uint32_t o = 0; o < node->n_outputs; o++) cause[node->first_output + o] = found;
    }
    return cause;
}

/* Of a loop, whose rounds hand on what they make, all outputs derive from what has failed. */
static const hub_value *cause_of_all(const hub_record *record, const hub_value *failure) {
    for (uint32_t i = 0; i < record->n_inputs && !failure; i++)
        if (record->inputs[i]->status != SHOAL_OK) failure = record->inputs[i];
    return failure;
}

/* Poisons the outputs that derive from what has failed; how many that are, with those that had
 * failed of something else: they are not made anew either. A failure that is of none of the nodes
 * is one of the whole. Fails without memory. */
static shoal_status spread(const hub_record *record, const shoal_graph *g, const hub_value *failure,
                           const char *message, uint32_t *n) {
    failed f = {.failure = failure, .every = record->cuts > HUB_MAX_CUTS};
    bool known = false;
    if (failure) f.line = graph_find_line(message, &f.length);
    for (uint32_t k = 0; k < g->n_nodes && !known; k++) known = is_at(&g->nodes[k], &f);
    bool whole = record->program->loops || (failure && !known);
    const hub_value *all = whole ? cause_of_all(record, failure) : NULL;
    const hub_value **cause = trace(record, g, &f);
    if (!cause) return base_fail(SHOAL_NO_MEMORY, "no memory for what has failed");
    *n = 0;
    for (uint32_t o = 0; o < record->n_outputs; o++) {
        const hub_value *why = all ? all : cause[g->outputs[o]];
        if (!why || !record->outputs[o]) continue;
        ++*n;
        if (record->outputs[o]->status != SHOAL_OK) continue;
        record->outputs[o]->quiet |= why->quiet;
        hub_value_poison(record->outputs[o], why->status, why->error);
    }
    free(cause);
    return SHOAL_OK;
}

static shoal_status decode(const hub_program *program, graph **out) {
    return graph_decode(program->encoded.data, program->encoded.size, HUB_GRAPH_LIMIT, out);
}

/* What values are said to have failed of; to be freed. NULL: no memory. */
static char *reason_of(const hub_instance *instance, const char *message) {
    base_str text = {0};
    if (instance->record->cuts > HUB_MAX_CUTS)
        base_str_format(&text,
                        "more than %d checks of one program have failed, so that nothing is made "
                        "which derives from any; at last: ",
                        HUB_MAX_CUTS);
    base_str_text(&text, message);
    char *reason = base_str_status(&text) == SHOAL_OK
                       ? hub_instance_stamp(instance, text.data ? text.data : "")
                       : NULL;
    base_str_fini(&text);
    return reason;
}

/* The run that a client awaits: where it is under way, what is made again of its program meanwhile
 * fails alike. NULL: it is through. */
static hub_instance *find_asked(const hub *h, const hub_instance *instance) {
    hub_instance *found = h->first;
    while (found && (found->record != instance->record || found->purpose != HUB_ASKED ||
                     found->status != SHOAL_OK))
        found = found->next;
    return found;
}

bool hub_rest_fail(hub *h, hub_instance *instance, shoal_status status, const char *message) {
    graph *g = NULL;
    uint32_t n_failed = 0;
    int64_t start = base_now();
    if (!(instance = find_asked(h, instance))) return false;
    hub_user *user = instance->program->user;
    instance->record->cuts++;
    char *text = reason_of(instance, message);
    shoal_status read = text ? decode(instance->program, &g) : SHOAL_NO_MEMORY;
    const hub_value failure = {.status = status, .error = text};
    if (read == SHOAL_OK)
        read = spread(instance->record, graph_data(g), &failure, message, &n_failed);
    graph_destroy(&g);
    if (n_failed) {
        hub_note(h, SHOAL_EVENT_FAIL, instance->id, "%s", text);
        hub_rerun_rest(h, instance, status, text);
    }
    hub_user_charge(h, user, start); /* a worker told it, but it is not that one's program */
    free(text);
    return n_failed;
}

/* ---- the rest ---- */

static bool is_whole(const hub_record *record) {
    for (uint32_t i = 0; i < record->n_inputs; i++)
        if (record->inputs[i]->status != SHOAL_OK) return false;
    for (uint32_t o = 0; o < record->n_outputs; o++)
        if (record->outputs[o] && record->outputs[o]->status != SHOAL_OK) return false;
    return true;
}

/* What makes these outputs of a program, from the inputs that they need. */
static shoal_status make_part(hub *h, hub_program *whole, const shoal_graph *g,
                              const uint32_t *outputs, uint32_t n_outputs, hub_program **out) {
    bool *needed = calloc((size_t)g->n_values + 1, sizeof *needed);
    uint32_t *inputs = calloc((size_t)g->n_inputs + 1, sizeof *inputs), n_inputs = 0;
    shoal_status status = base_fail(SHOAL_NO_MEMORY, "no memory for the rest of a program");
    for (uint32_t o = 0; needed && o < n_outputs; o++) needed[g->outputs[outputs[o]]] = true;
    if (needed) graph_mark_needed(g, needed);
    for (uint32_t i = 0; needed && inputs && i < g->n_inputs; i++)
        if (needed[g->inputs[i]]) inputs[n_inputs++] = i;
    if (needed && inputs)
        status = hub_program_part(h, whole, g, inputs, n_inputs, outputs, n_outputs, out);
    free(inputs);
    free(needed);
    return status;
}

/* Of a program that is run again and again all runs lose the same: they share the part that is
 * left, and its plans. */
static hub_program *find_part(const hub_program *whole, const uint32_t *outputs, uint32_t n) {
    hub_program *part = whole->part;
    if (!part || part->n_outputs != n) return NULL;
    return memcmp(part->taken + part->n_inputs, outputs, n * sizeof *outputs) ? NULL : part;
}

/* A record of the outputs that are well. Its place among the others is the whole's. */
static shoal_status cut(hub *h, const hub_record *record, const shoal_graph *g, hub_record **out) {
    uint32_t *outputs = calloc((size_t)record->n_outputs + 1, sizeof *outputs), n_outputs = 0;
    size_t most = (size_t)record->n_inputs + record->n_outputs + 1;
    hub_value **values = calloc(most, sizeof *values);
    hub_program *program = NULL;
    shoal_status status = outputs && values
                              ? SHOAL_OK
                              : base_fail(SHOAL_NO_MEMORY, "no memory for the rest of a program");
    for (uint32_t o = 0; status == SHOAL_OK && o < record->n_outputs; o++)
        if (record->outputs[o] && record->outputs[o]->status == SHOAL_OK) outputs[n_outputs++] = o;
    if (status == SHOAL_OK && n_outputs) program = find_part(record->program, outputs, n_outputs);
    if (status == SHOAL_OK && n_outputs && !program)
        status = make_part(h, record->program, g, outputs, n_outputs, &program);
    if (program) {
        uint32_t n_inputs = program->n_inputs;
        for (uint32_t i = 0; i < n_inputs; i++) values[i] = record->inputs[program->taken[i]];
        for (uint32_t o = 0; o < n_outputs; o++) values[n_inputs + o] = record->outputs[outputs[o]];
        status = hub_record_new(h, program, values, values + n_inputs, out);
        if (status != SHOAL_OK) hub_program_settle(h, program);
    }
    if (*out) {
        (*out)->number = record->number;
        (*out)->run = record->run;
        (*out)->reruns = record->reruns;
        (*out)->cuts = record->cuts;
    }
    free(outputs);
    free(values);
    return status;
}

/* Marks the inputs that marked outputs are made of. */
static shoal_status find_reads(const shoal_graph *g, const bool *outputs, bool *inputs,
                               bool *goes_on) {
    bool *needed = calloc((size_t)g->n_values + 1, sizeof *needed);
    if (!needed) return base_fail(SHOAL_NO_MEMORY, "no memory for what a program reads");
    for (uint32_t o = 0; o < g->n_outputs; o++) needed[g->outputs[o]] |= outputs[o];
    graph_mark_needed(g, needed);
    for (uint32_t i = 0; i < g->n_inputs; i++) inputs[i] = needed[g->inputs[i]];
    *goes_on = false;
    for (uint32_t n = 0; n < g->n_nodes; n++)
        for (uint32_t o = 0; o < g->nodes[n].n_outputs && graph_may_go_on(&g->nodes[n]); o++)
            *goes_on |= needed[g->nodes[n].first_output + o];
    free(needed);
    return SHOAL_OK;
}

/* A program that is run again and again is asked of the same outputs, and decoded once for that. */
const bool *hub_rest_reads(hub_program *program, const bool *outputs, size_t *budget,
                           bool *goes_on) {
    size_t n = program->n_outputs;
    if (!program->reads || memcmp(program->reads, outputs, n * sizeof *outputs) != 0) {
        graph *g = NULL;
        if (program->encoded.size > *budget) return NULL;
        *budget -= program->encoded.size;
        free(program->reads);
        program->reads = malloc((n + program->n_inputs + 1) * sizeof *program->reads);
        shoal_status status = program->reads ? decode(program, &g) : SHOAL_NO_MEMORY;
        if (status == SHOAL_OK)
            status = find_reads(graph_data(g), outputs, program->reads + n, &program->goes_on);
        graph_destroy(&g);
        if (status != SHOAL_OK) {
            free(program->reads);
            program->reads = NULL;
            return NULL;
        }
        memcpy(program->reads, outputs, n * sizeof *outputs);
    }
    *goes_on = program->goes_on;
    return program->reads + n;
}

static void tell_failed(hub *h, const hub_record *record) {
    for (uint32_t o = 0; o < record->n_outputs; o++)
        if (record->outputs[o] && record->outputs[o]->status != SHOAL_OK &&
            !record->outputs[o]->quiet)
            hub_failure_tell(h, record, record->outputs[o]);
}

void hub_rest_none(hub *h, const hub_record *record, shoal_status status) {
    for (uint32_t o = 0; o < record->n_outputs; o++)
        if (record->outputs[o]) hub_value_poison(record->outputs[o], status, shoal_error_message());
    tell_failed(h, record);
    hub_failure_tell(h, record, NULL);
}

void hub_rest(hub *h, hub_record *record, hub_record **out) {
    graph *g = NULL;
    uint32_t n_failed;
    *out = NULL;
    if (is_whole(record)) {
        record->refs++;
        *out = record;
        return;
    }
    shoal_status status = decode(record->program, &g);
    if (status == SHOAL_OK) status = spread(record, graph_data(g), NULL, NULL, &n_failed);
    if (status == SHOAL_OK) status = cut(h, record, graph_data(g), out);
    graph_destroy(&g);
    if (status != SHOAL_OK) {
        hub_rest_none(h, record, status);
        return;
    }
    tell_failed(h, record);
    if (!*out) hub_failure_tell(h, record, NULL);
}
