/* Programs handed in by clients. */
#include "hub/state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* Its bytes, and its graph while that is there. */
static uint64_t held(size_t encoded) { return HUB_PROGRAM_HELD + 2 * (uint64_t)encoded; }

void hub_program_free(hub_program *program) {
    for (size_t i = 0; i < program->variants.count; i++)
        hub_variant_free(program, program->variants.data[i]);
    hub_let_go(program->user, held(program->encoded.size));
    if (program->whole && program->whole->part == program) program->whole->part = NULL;
    if (program->part) program->part->whole = NULL;
    free(program->variants.data);
    free(program->home);
    free(program->taken);
    free(program->carry);
    free(program->keeps);
    free(program->reads);
    graph_destroy(&program->graph);
    free(program->types);
    base_str_fini(&program->encoded);
    free(program);
}

shoal_status hub_program_moving(hub *h, uint32_t session, hub_value *const *values, uint32_t n,
                                bool home, hub_program **out) {
    hub_program *program = calloc(1, sizeof *program);
    if (!program) return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    program->id = h->next_value++;
    program->session = session;
    program->released = true;
    program->moves = !home;
    program->n_inputs = n;
    program->n_outputs = home ? n : 0;
    program->types = calloc(2 * (size_t)n + 1, sizeof *program->types);
    program->home = calloc((size_t)n + 1, sizeof *program->home);
    shoal_status status = program->types && program->home
                              ? graph_new(0, &program->graph)
                              : base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    for (uint32_t i = 0; status == SHOAL_OK && i < n; i++) {
        uint32_t value;
        program->types[i] = values[i]->type;
        status = graph_add_input(program->graph, &values[i]->type, &value);
        if (!home || status != SHOAL_OK) continue;
        program->types[n + i] = values[i]->type;
        program->home[i] = true;
        status = graph_add_output(program->graph, value);
    }
    if (status != SHOAL_OK)
        hub_program_free(program);
    else
        *out = program;
    return status;
}

static shoal_status take_part(const hub_program *whole, const shoal_graph *g, hub_program *part) {
    uint32_t n_inputs = part->n_inputs, n_outputs = part->n_outputs;
    const uint32_t *inputs = part->taken, *outputs = part->taken + n_inputs;
    size_t n = (size_t)n_inputs + n_outputs + 1;
    uint32_t *values = calloc(n, sizeof *values);
    part->types = calloc(n, sizeof *part->types);
    part->home = calloc(n, sizeof *part->home);
    shoal_status status = values && part->types && part->home
                              ? graph_new(0, &part->graph)
                              : base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    for (uint32_t i = 0; status == SHOAL_OK && i < n_inputs + n_outputs; i++) {
        values[i] = i < n_inputs ? g->inputs[inputs[i]] : g->outputs[outputs[i - n_inputs]];
        part->types[i] = g->values[values[i]].type;
        if (i >= n_inputs) part->home[i - n_inputs] = whole->home[outputs[i - n_inputs]];
    }
    if (status == SHOAL_OK)
        status = graph_extract(g, values, n_inputs, values + n_inputs, n_outputs, part->graph);
    if (status == SHOAL_OK) status = hub_rest_read(graph_data(part->graph), part);
    part->binds = whole->binds;
    if (status == SHOAL_OK) part->unbounded = hub_may_go_on(graph_data(part->graph));
    if (status == SHOAL_OK) status = graph_encode(graph_data(part->graph), true, &part->encoded);
    free(values);
    return status;
}

shoal_status hub_program_part(hub *h, hub_program *whole, const shoal_graph *g,
                              const uint32_t *inputs, uint32_t n_inputs, const uint32_t *outputs,
                              uint32_t n_outputs, hub_program **out) {
    hub_program *part = calloc(1, sizeof *part);
    if (!part) return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    part->id = h->next_value++;
    part->session = whole->session;
    part->released = true;
    part->n_inputs = n_inputs;
    part->n_outputs = n_outputs;
    part->taken = calloc((size_t)n_inputs + n_outputs + 1, sizeof *part->taken);
    base_str_init(&part->encoded);
    shoal_status status =
        part->taken ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    for (uint32_t i = 0; part->taken && i < n_inputs + n_outputs; i++)
        part->taken[i] = i < n_inputs ? inputs[i] : outputs[i - n_inputs];
    if (status == SHOAL_OK) status = take_part(whole, g, part);
    if (status == SHOAL_OK) status = hub_hold(h, whole->user, held(part->encoded.size));
    if (status == SHOAL_OK) {
        part->user = whole->user;
        status = base_map_set(&h->parts, part->id, part);
    }
    if (status != SHOAL_OK) {
        hub_program_free(part);
        return status;
    }
    if (whole->part) whole->part->whole = NULL;
    part->whole = whole;
    whole->part = part;
    *out = part;
    return SHOAL_OK;
}

void hub_program_settle(hub *h, hub_program *program) {
    if (!program->released || program->users) return;
    base_map_remove(program->taken ? &h->parts : &h->programs, program->id);
    while (program->variants.count)
        hub_variant_drop(h, program, program->variants.data[--program->variants.count]);
    hub_program_free(program);
}

/* Reads what is asked of every program: types of inputs and outputs, and which come home. */
static shoal_status read_program(const Shoal__Submit *submit, const shoal_graph *g,
                                 hub_program *program) {
    program->n_inputs = g->n_inputs;
    program->n_outputs = g->n_outputs;
    program->types = calloc((size_t)g->n_inputs + g->n_outputs + 1, sizeof *program->types);
    program->home = calloc((size_t)g->n_outputs + 1, sizeof *program->home);
    if (!program->types || !program->home)
        return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    for (uint32_t i = 0; i < g->n_inputs; i++) program->types[i] = g->values[g->inputs[i]].type;
    for (uint32_t o = 0; o < g->n_outputs; o++)
        program->types[g->n_inputs + o] = g->values[g->outputs[o]].type;
    for (size_t i = 0; i < submit->n_home; i++) {
        if (submit->home[i] >= g->n_outputs)
            return base_fail(SHOAL_FORMAT, "output %u does not exist", submit->home[i]);
        program->home[submit->home[i]] = true;
    }
    SHOAL_TRY(hub_loop_read(submit, g, program));
    SHOAL_TRY(hub_rest_read(g, program));
    program->binds = hub_graph_binds(g);
    base_str_bytes(&program->encoded, submit->graph.data, submit->graph.len);
    return base_str_status(&program->encoded);
}

static shoal_status program_new(const Shoal__Submit *submit, uint32_t session, bool explained,
                                hub_program **out) {
    hub_program *program = calloc(1, sizeof *program);
    if (!program) return base_fail(SHOAL_NO_MEMORY, "no memory for a program");
    program->id = submit->program;
    program->session = session;
    program->explained = explained;
    base_str_init(&program->encoded);
    shoal_status status =
        graph_decode(submit->graph.data, submit->graph.len, HUB_GRAPH_LIMIT, &program->graph);
    if (status == SHOAL_OK) status = read_program(submit, graph_data(program->graph), program);
    if (status != SHOAL_OK)
        hub_program_free(program);
    else
        *out = program;
    return status;
}

static shoal_status find_program(hub *h, hub_peer *peer, const Shoal__Submit *submit,
                                 hub_program **out) {
    hub_program *program = base_map_get(&h->programs, submit->program);
    if (!program && submit->graph.len) {
        if (submit->program >> 40 != peer->session)
            return base_fail(SHOAL_DENIED, "program %llx is not of this session",
                             (unsigned long long)submit->program);
        SHOAL_TRY(program_new(submit, peer->session, false, &program));
        shoal_status status = hub_hold(h, peer->user, held(program->encoded.size));
        if (status == SHOAL_OK) {
            program->user = peer->user;
            status = base_map_set(&h->programs, submit->program, program);
        }
        if (status != SHOAL_OK) {
            hub_program_free(program);
            return status;
        }
    }
    if (!program || program->session != peer->session)
        return base_fail(SHOAL_FORMAT, "program %llx is unknown",
                         (unsigned long long)submit->program);
    if (submit->n_inputs != program->n_inputs || submit->n_outputs != program->n_outputs)
        return base_fail(
            SHOAL_FORMAT, "a program of %u inputs and %u outputs was given %zu and %zu",
            program->n_inputs, program->n_outputs, submit->n_inputs, submit->n_outputs);
    *out = program;
    return hub_loop_check(submit, program);
}

/* ---- uploads: values that a client holds in its memory ---- */

static shoal_status upload_type(const Shoal__Upload *upload, shoal_type *out) {
    if (upload->n_dims > SHOAL_MAX_RANK || upload->dtype >= SHOAL_DTYPE_COUNT)
        return base_fail(SHOAL_FORMAT, "an upload has a type that does not exist");
    *out = (shoal_type){.dtype = (uint8_t)upload->dtype, .rank = (uint8_t)upload->n_dims};
    if (upload->n_dims) memcpy(out->dims, upload->dims, upload->n_dims * sizeof *out->dims);
    int64_t count;
    SHOAL_TRY(base_type_elements(out, &count));
    if (upload->data.len &&
        (upload->data.len > WIRE_SMALL || upload->data.len != (size_t)base_type_bytes(out)))
        return base_fail(SHOAL_FORMAT, "an upload of %zu bytes is not what its type says",
                         upload->data.len);
    return SHOAL_OK;
}

/* Where it lies: a small one on all devices, another in the client's memory. */
static shoal_status lay_upload(hub *h, hub_peer *client, const Shoal__Upload *upload,
                               hub_value *value) {
    if (!upload->data.len) return hub_value_whole_at_client(h, client, value);
    base_str_bytes(&value->data, upload->data.data, upload->data.len);
    SHOAL_TRY(base_str_status(&value->data));
    return hub_value_everywhere(h, client, value);
}

/* Those that a program uses for the first time. */
static shoal_status uploads(hub *h, hub_peer *peer, const Shoal__Submit *submit) {
    for (size_t i = 0; i < submit->n_uploads; i++) {
        const Shoal__Upload *upload = submit->uploads[i];
        shoal_type type;
        hub_value *value;
        SHOAL_TRY(upload_type(upload, &type));
        SHOAL_TRY(hub_value_new(h, upload->value, peer->session, &type, &value));
        SHOAL_TRY(lay_upload(h, peer, upload, value));
        hub_value_count(h, value);
    }
    return SHOAL_OK;
}

static shoal_status input_values(hub *h, hub_peer *peer, const hub_program *program,
                                 const Shoal__Submit *submit, hub_value **out) {
    for (size_t i = 0; i < submit->n_inputs; i++) {
        hub_value *value = base_map_get(&h->values, submit->inputs[i]);
        if (!value || value->session != peer->session || value->released)
            return base_fail(SHOAL_FORMAT, "value %llx is unknown",
                             (unsigned long long)submit->inputs[i]);
        if (!base_type_equal(&value->type, &program->types[i]))
            return base_fail(SHOAL_FORMAT, "input %zu is not of the program's type", i);
        out[i] = value;
    }
    return SHOAL_OK;
}

/* Everything that is wrong with a submission itself: the client's fault. */
static shoal_status read_submit(hub *h, hub_peer *peer, const Shoal__Submit *submit,
                                hub_program *program, hub_value **values, hub_record **out) {
    SHOAL_TRY(input_values(h, peer, program, submit, values));
    hub_value **outputs = values + submit->n_inputs;
    for (uint32_t o = 0; o < program->n_outputs; o++)
        SHOAL_TRY(hub_value_new(h, submit->outputs[o], peer->session,
                                &program->types[program->n_inputs + o], &outputs[o]));
    return hub_record_new(h, program, values, outputs, out);
}

shoal_status hub_submit(hub *h, hub_peer *peer, const Shoal__Submit *submit) {
    if (!peer->session) {
        hub_strange(peer, "a program, as only clients may");
        return SHOAL_OK;
    }
    if (peer->waiting >= HUB_MAX_WAITING)
        return base_fail(SHOAL_BUSY, "%s has %u programs waiting, and sends more", peer->name,
                         peer->waiting);
    SHOAL_TRY(uploads(h, peer, submit));
    hub_program *program = NULL;
    SHOAL_TRY(find_program(h, peer, submit, &program));
    hub_value **values = calloc(submit->n_inputs + submit->n_outputs + 1, sizeof *values);
    if (!values) return base_fail(SHOAL_NO_MEMORY, "no memory for an instance");
    hub_record *record = NULL;
    shoal_status status = read_submit(h, peer, submit, program, values, &record);
    free(values);
    SHOAL_TRY(status);
    record->rounds = submit->rounds;
    record->run = submit->n_outputs ? submit->outputs[0] : 0;
    hub_recover(h, record->inputs, record->n_inputs);
    hub_record *rest;
    hub_rest(h, record, &rest);
    if (rest) {
        if (hub_recovers(h)) hub_record_adopt(h, rest);
        status = hub_instance_start(h, rest, HUB_ASKED, false);
        hub_record_release(h, rest);
    }
    hub_record_release(h, record);
    /* After its users were counted: what the client has let go may be what this program reads. */
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.values = submit->release;
    release.n_values = submit->n_release;
    hub_release(h, peer, &release);
    return status;
}

/* ---- explain: planned as if it were to run, on copies of what is known of the inputs ---- */

static shoal_status index_uploads(const Shoal__Submit *submit, uint32_t session, base_map *out) {
    for (size_t i = 0; i < submit->n_uploads; i++) {
        Shoal__Upload *upload = submit->uploads[i];
        if (upload->value >> 40 != session)
            return base_fail(SHOAL_FORMAT, "value %llx is not one of session %u",
                             (unsigned long long)upload->value, session);
        SHOAL_TRY(base_map_set(out, upload->value, upload));
    }
    return SHOAL_OK;
}

/* The layout that a value will have when it is used. */
static shoal_status lay_copy(hub *h, hub_peer *client, const hub_value *value, hub_value *copy) {
    char text[BASE_TYPE_TEXT];
    if (value->status != SHOAL_OK) return base_fail(value->status, "%s", value->error);
    copy->type = value->type;
    if (value->data.size) return hub_value_everywhere(h, client, copy);
    if (!value->absent) return hub_value_layout(h, copy, &value->layout);
    if (value->kept) return hub_value_whole_at_client(h, client, copy);
    return base_fail(SHOAL_LOST,
                     "%s was lost with a worker, and where it lies is known once it is made again: "
                     "use it, then explain",
                     base_type_text(&value->type, text));
}

static shoal_status copy_inputs(hub *h, hub_peer *peer, const hub_program *program,
                                const Shoal__Submit *submit, const base_map *uploads,
                                hub_value *copies) {
    for (size_t i = 0; i < submit->n_inputs; i++) {
        const Shoal__Upload *upload = base_map_get(uploads, submit->inputs[i]);
        const hub_value *value = base_map_get(&h->values, submit->inputs[i]);
        copies[i].user = peer->user;
        if (upload) {
            SHOAL_TRY(upload_type(upload, &copies[i].type));
            SHOAL_TRY(lay_upload(h, peer, upload, &copies[i]));
        } else if (value && value->session == peer->session && !value->released) {
            SHOAL_TRY(lay_copy(h, peer, value, &copies[i]));
        } else {
            return base_fail(SHOAL_FORMAT, "value %llx is unknown",
                             (unsigned long long)submit->inputs[i]);
        }
        if (!base_type_equal(&copies[i].type, &program->types[i]))
            return base_fail(SHOAL_FORMAT, "input %zu is not of the program's type", i);
    }
    return SHOAL_OK;
}

static shoal_status explain(hub *h, hub_peer *peer, hub_program *program,
                            const Shoal__Submit *submit, char **text, char **json) {
    if (submit->n_inputs != program->n_inputs)
        return base_fail(SHOAL_FORMAT, "the inputs do not fit the program");
    uint64_t held = submit->n_inputs * (uint64_t)HUB_VALUE_HELD;
    SHOAL_TRY(hub_hold(h, peer->user, held));
    hub_value *copies = calloc(submit->n_inputs + 1, sizeof *copies);
    const hub_value **inputs = calloc(submit->n_inputs + 1, sizeof *inputs);
    base_map uploads;
    base_map_init(&uploads);
    hub_variant *variant = NULL;
    shoal_status status =
        copies && inputs ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory to plan");
    for (size_t i = 0; status == SHOAL_OK && i < submit->n_inputs; i++) inputs[i] = &copies[i];
    if (status == SHOAL_OK) status = index_uploads(submit, peer->session, &uploads);
    if (status == SHOAL_OK) status = copy_inputs(h, peer, program, submit, &uploads, copies);
    if (status == SHOAL_OK) status = hub_variant_find(h, program, inputs, &variant);
    if (status == SHOAL_OK) {
        *text = strdup(variant->plan.explain ? variant->plan.explain : "");
        *json = strdup(variant->plan.explain_json ? variant->plan.explain_json : "{}");
    }
    for (size_t i = 0; copies && i < submit->n_inputs; i++) {
        hub_let_go(peer->user, copies[i].laid);
        base_arena_fini(&copies[i].arena);
        base_str_fini(&copies[i].data);
    }
    hub_let_go(peer->user, held);
    base_map_fini(&uploads);
    free(copies);
    free(inputs);
    return status;
}

shoal_status hub_explain(hub *h, hub_peer *peer, const Shoal__Submit *submit, char **text,
                         char **json) {
    if (!peer->session) return base_fail(SHOAL_DENIED, "only clients have programs explained");
    hub_program *program = NULL;
    SHOAL_TRY(program_new(submit, peer->session, true, &program));
    shoal_status status = explain(h, peer, program, submit, text, json);
    hub_program_free(program);
    return status;
}
