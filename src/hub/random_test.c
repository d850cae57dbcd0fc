/* A hub under random events: programs that fail, have no end or move things in, of which results
 * are let go of while workers come and go. Nothing that is held fails but for what it derives from,
 * and nothing is left in the end.
 *
 * SHOAL_HUB_RANDOM: how many runs (100), or A-B, which. */
#include "hub/hub_testing.h"

#include "graph/testing.h"

enum { RUNS = 100, STEPS = 90, N = TEST_N, MOST = 600, PROGRAMS = 48, BASE = 1000, ROOM = 1 << 28 };

typedef enum form_kind { IOTA, NEGATES, CHECKS, ENDLESS, LOOP } form_kind;

/* A value of the session, number BASE and its place in the list. */
typedef struct thing {
    bool held, failed, endless;
    bool may;           /* have failed: it is gone, or what failed is not known to concern it */
    bool lost;          /* it is not there, and cannot be made again, */
    uint32_t why;       /* for this failure of what it derives from */
    bool upload, known; /* the hub has heard of it */
    uint32_t cause;     /* the failure that it is known to have had; 0: none */
    uint32_t of[TEST_ALL], n_of;
    uint32_t with[TEST_ALL], n_with; /* all that its program reads: it is made again whole */
    uint32_t line;                   /* bits: the checks within its program that it derives from */
} thing;

typedef struct told {
    form_kind kind;
    uint32_t n_inputs;
    bool home, known;
} told;

/* Whether workers leave, and there is room for copies, in a run. */
typedef enum mode { CALM, ALONE, LOSSES, MODES } mode;

typedef struct run {
    pool *p;
    uint64_t dice, seed;
    mode mode;
    thing things[MOST];
    uint32_t n, submissions, injected;
    told programs[PROGRAMS];
    uint32_t workers[64], n_workers;
    bool lost; /* a worker has been, ever */
    const char *doing;
} run;

static const char *const MODE_NAMES[] = {"calm", "alone", "losses"};

#define wrong(r, ...)                                                                              \
    do {                                                                                           \
        print_error("run %llu (%s), %s:\n", (unsigned long long)(r)->seed, MODE_NAMES[(r)->mode],  \
                    (r)->doing);                                                                   \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

static uint32_t roll(run *r, uint32_t n) { return (uint32_t)(test_random(&r->dice) >> 11) % n; }

static hub_value *find(const run *r, uint32_t k) {
    return base_map_get(&r->p->h->values, number_of(r->p, BASE + k));
}

/* ---- programs ---- */

static const shoal_type TYPE = {.dtype = SHOAL_I64, .rank = 1, .dims = {N}};

/* bodies: two, to be destroyed after the graph. */
static uint32_t endless(graph *g, uint32_t x, graph **bodies) {
    for (int i = 0; i < 2; i++) {
        ok(graph_new(0, &bodies[i]));
        uint32_t y = test_input(bodies[i], TYPE);
        if (!i) y = test_constant(bodies[i], SCALAR(BOOL), &(uint8_t){1}, 1);
        ok(graph_add_output(bodies[i], y));
    }
    const shoal_graph *regions[] = {graph_data(bodies[0]), graph_data(bodies[1])};
    uint32_t y;
    ok(graph_add(g, GRAPH_WHILE, &x, 1, NULL, 0, regions, 2, &y));
    return y;
}

/* Its outputs, and for each: which inputs it is of (bits), which checks, whether it has an end. */
typedef struct form {
    uint32_t n, of[TEST_ALL + 1], line[TEST_ALL + 1];
    bool endless[TEST_ALL + 1];
} form;

static void out(graph *g, form *f, uint32_t value, uint32_t of, uint32_t line, bool goes_on) {
    ok(graph_add_output(g, value));
    f->of[f->n] = of;
    f->line[f->n] = line;
    f->endless[f->n++] = goes_on;
}

static uint32_t sum(graph *g, uint32_t a, uint32_t b) {
    return test_add(g, GRAPH_ADD, VALUES(a, b), NULL, 0);
}

static uint32_t minus(graph *g, uint32_t a) {
    return test_add(g, GRAPH_NEGATE, VALUES(a), NULL, 0);
}

static void build(form_kind kind, uint32_t n, base_str *text, form *f) {
    graph *g, *bodies[2] = {NULL};
    uint32_t in[TEST_ALL] = {0}, all = (1u << n) - 1;
    *f = (form){0};
    ok(graph_new(0, &g));
    for (uint32_t i = 0; i < n; i++) in[i] = test_input(g, TYPE);
    if (kind == IOTA)
        out(g, f,
            test_add(g, GRAPH_IOTA, NULL, 0,
                     ATTRS(graph_int(SHOAL_ATTR_IOTA_DIMENSION, 0),
                           graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64), INTS(SHAPE, N))),
            0, 0, false);
    for (uint32_t i = 0; i < n && (kind == NEGATES || kind == LOOP); i++)
        out(g, f, minus(g, in[i]), kind == LOOP ? all : 1u << i, 0, false);
    if (kind == NEGATES) out(g, f, sum(g, in[0], in[n - 1]), 1 | 1u << (n - 1), 0, false);
    if (kind == CHECKS) {
        uint32_t one = check(g, "<node 1>", in[0]), two = check(g, "<node 2>", in[n - 1]);
        out(g, f, sum(g, in[0], in[n - 1]), 1 | 1u << (n - 1), 0, false);
        out(g, f, minus(g, one), 1, 1, false);
        out(g, f, minus(g, two), 1u << (n - 1), 2, false);
        out(g, f, sum(g, one, two), 1 | 1u << (n - 1), 3, false);
    }
    if (kind == ENDLESS) {
        uint32_t y = endless(g, in[0], bodies), w = minus(g, in[n - 1]);
        out(g, f, y, 1, 0, true);
        out(g, f, w, 1u << (n - 1), 0, false);
        out(g, f, sum(g, y, w), 1 | 1u << (n - 1), 0, true);
    }
    base_str_init(text);
    ok(graph_encode(graph_data(g), true, text));
    graph_destroy(&g);
    for (int i = 0; i < 2; i++) graph_destroy(&bodies[i]);
}

/* ---- what the model says ---- */

static bool any_failed(const run *r, const uint32_t *list, uint32_t n, uint32_t *cause) {
    for (uint32_t i = 0; i < n; i++) {
        const thing *of = &r->things[list[i]];
        if (!of->failed && !of->cause && !of->may && !of->lost) continue;
        *cause = of->lost ? of->why : of->cause;
        return true;
    }
    return false;
}

static bool reads_failed(const run *r, const thing *t, uint32_t *cause) {
    return any_failed(r, t->of, t->n_of, cause);
}

static bool derives_endless(const run *r, uint32_t k) {
    const thing *t = &r->things[k];
    if (t->endless) return true;
    for (uint32_t i = 0; i < t->n_of; i++)
        if (derives_endless(r, t->of[i])) return true;
    return false;
}

/* An operand that nobody holds was given away, and fails with who had it. */
static bool reads_given(const run *r, const thing *t) {
    for (uint32_t i = 0; i < t->n_of; i++)
        if (!r->things[t->of[i]].held) return true;
    return false;
}

/* What has failed in this event had a reason to. */
static void look(run *r, bool may_fail) {
    for (uint32_t k = 0; k < r->n; k++) {
        thing *t = &r->things[k];
        const hub_value *v = find(r, k);
        uint32_t cause = 0;
        if (t->held && !v && (t->known || !t->upload)) wrong(r, "value %u is not there", k);
        t->lost = (!v || v->absent) && any_failed(r, t->with, t->n_with, &t->why);
        /* What fails and nobody holds is gone at once, and who reads it fails as well. */
        t->may |= !v && reads_failed(r, t, &cause);
        if (t->failed || !v || v->status == SHOAL_OK) continue;
        bool why = t->cause || t->may || t->lost || reads_failed(r, t, &cause) ||
                   (!t->held && v->status == SHOAL_INTERRUPTED);
        if (!t->cause) t->cause = cause ? cause : t->why;
        t->failed = true;
        if (why || !t->held) continue;
        if (r->lost && r->mode != CALM && v->status == SHOAL_LOST) continue;
        if (may_fail && r->mode != CALM && reads_given(r, t)) continue;
        wrong(r, "value %u fails: %s", k, v->error);
    }
}

/* ---- events ---- */

static uint32_t pick(run *r, bool held) {
    for (int i = 0; i < 20 && r->n; i++) {
        /* mostly of late */
        uint32_t k = roll(r, 3) && r->n > 12 ? r->n - 1 - roll(r, 12) : roll(r, r->n);
        if (r->things[k].held == held) return k;
    }
    return MOST;
}

static uint32_t upload(run *r) {
    r->things[r->n] = (thing){.held = true, .upload = true};
    return r->n++;
}

static void submit_some(run *r, form_kind kind, const uint32_t *of, uint32_t n, bool home,
                        bool anew, bool keeps) {
    base_str text;
    form f;
    uint64_t inputs[TEST_ALL], outputs[TEST_ALL + 1];
    uint32_t slot = roll(r, PROGRAMS), first = 0, carry[TEST_ALL] = {0};
    for (uint32_t i = 0; i < PROGRAMS && !anew; i++) {
        const told *q = &r->programs[(slot + i) % PROGRAMS];
        if (!q->known || q->kind != kind || q->n_inputs != n || q->home != home) continue;
        slot = (slot + i) % PROGRAMS;
        break;
    }
    told *q = &r->programs[slot];
    bool again = q->known && q->kind == kind && q->n_inputs == n && q->home == home;
    uint64_t number = number_of(r->p, 1 + slot);
    if (q->known && !again) {
        Shoal__Release release = SHOAL__RELEASE__INIT;
        release.programs = &number;
        release.n_programs = 1;
        deliver(r->p, 0, SHOAL__KIND__RELEASE, &release.base);
        q->known = false;
    }
    if (!again && base_map_get(&r->p->h->programs, number)) return; /* it is used still */
    build(kind, n, &text, &f);
    *q = (told){kind, n, home, true};
    Shoal__Upload ups[TEST_ALL], *all[TEST_ALL];
    int64_t dims[] = {N};
    Shoal__Submit submit = SHOAL__SUBMIT__INIT;
    submit.program = number;
    if (!again) submit.graph = (ProtobufCBinaryData){text.size, (uint8_t *)text.data};
    for (uint32_t i = 0; i < n; i++) {
        inputs[i] = number_of(r->p, BASE + of[i]);
        bool twice = false;
        for (uint32_t k = 0; k < i; k++) twice |= of[k] == of[i];
        if (twice || !r->things[of[i]].upload || find(r, of[i])) continue;
        Shoal__Upload *up = all[submit.n_uploads] = &ups[submit.n_uploads];
        submit.n_uploads++;
        r->things[of[i]].known = true;
        shoal__upload__init(up);
        up->value = inputs[i];
        up->dtype = SHOAL_I64;
        up->dims = dims;
        up->n_dims = 1;
    }
    submit.uploads = all;
    for (uint32_t o = 0; o < f.n; o++) {
        thing *t = &r->things[r->n];
        *t = (thing){.held = true, .endless = f.endless[o], .line = f.line[o]};
        for (uint32_t i = 0; i < n; i++)
            if (f.of[o] >> i & 1) t->of[t->n_of++] = of[i];
        for (uint32_t i = 0; i < n; i++) t->with[t->n_with++] = of[i];
        outputs[o] = number_of(r->p, BASE + r->n++);
    }
    submit.inputs = inputs;
    submit.n_inputs = n;
    submit.outputs = outputs;
    submit.n_outputs = f.n;
    submit.home = &first;
    submit.n_home = home;
    submit.rounds = kind == LOOP ? 1 + roll(r, 5) : 0;
    submit.carry = carry;
    submit.n_carry = kind == LOOP ? n : 0;
    uint64_t given[TEST_ALL];
    submit.release = given; /* what it reads may be given to it */
    for (uint32_t i = 0; i < n && !keeps; i++) {
        if (!r->things[of[i]].held || roll(r, 2)) continue;
        r->things[of[i]].held = false;
        given[submit.n_release++] = inputs[i];
    }
    r->submissions++;
    deliver(r->p, 0, SHOAL__KIND__SUBMIT, &submit.base);
    base_str_fini(&text);
    if (!client_of(r->p)) wrong(r, "refused: %s", r->p->reason);
}

static void submit_any(run *r) {
    static const form_kind kinds[] = {IOTA,   NEGATES, NEGATES, NEGATES, CHECKS,
                                      CHECKS, ENDLESS, ENDLESS, LOOP};
    form_kind kind = kinds[roll(r, sizeof kinds / sizeof *kinds)];
    uint32_t of[TEST_ALL], n = 0;
    uint32_t most = kind == IOTA ? 0 : kind == NEGATES ? 1 + roll(r, TEST_ALL) : 1 + roll(r, 2);
    if (r->n + 2 * TEST_ALL + 2 >= MOST - 100) return;
    for (; n < most; n++) {
        of[n] = roll(r, 5) ? pick(r, true) : upload(r);
        if (of[n] == MOST) of[n] = upload(r);
    }
    submit_some(r, kind, of, n, kind != IOTA && !roll(r, 6), roll(r, 2), roll(r, 3));
}

static int end_of(const run *r, const hub_peer *peer) {
    for (uint32_t m = 0; m < r->p->n_ends; m++)
        if (r->p->ends[m] && wire_link_get(r->p->ends[m], WIRE_HUB) == peer) return (int)m;
    return -1;
}

/* Whether what it reads is made by nobody who is still at it. */
static bool may_end(const run *r, const hub_instance *i) {
    if (!i->dispatched) return false;
    if (i->status != SHOAL_OK || !i->record) return true;
    if (i->program->unbounded && !i->program->loops) return false;
    for (const hub_instance *e = r->p->h->first; e && e != i; e = e->next) {
        uint32_t n = e->program->n_outputs + (e->variant ? e->variant->n_moved : 0);
        for (uint32_t o = 0; o < n; o++)
            for (uint32_t k = 0; k < i->record->n_inputs; k++)
                if (i->input_ids[k] == e->output_ids[o]) return false;
    }
    return true;
}

static hub_instance *any_instance(run *r, bool ends) {
    hub_instance *list[512];
    uint32_t n = 0;
    for (hub_instance *i = r->p->h->first; i && n < 512; i = i->next)
        if (ends ? may_end(r, i) : i->dispatched && i->status == SHOAL_OK) list[n++] = i;
    return n ? list[roll(r, 2) ? roll(r, n) : 0] : NULL;
}

/* One who takes part has done that. */
static bool finish_part(run *r) {
    const hub_instance *i = any_instance(r, true);
    Shoal__Done done = SHOAL__DONE__INIT;
    if (!i) return false;
    done.instance = i->id;
    uint32_t at = roll(r, i->n_parts + 1);
    for (uint32_t k = 0; k < i->n_parts; k++) {
        const hub_part *part = &i->parts[(at + k) % i->n_parts];
        int m = part->peer && !part->through ? end_of(r, part->peer) : -1;
        if (m < 0) continue;
        deliver(r->p, m, SHOAL__KIND__DONE, &done.base);
        return true;
    }
    return false;
}

/* Notes which of its results fail with it: by a line, where it has such. */
static void note_cause(run *r, const hub_instance *i, uint32_t line) {
    bool any = false;
    for (int pass = 0; pass < 2 && !any; pass++)
        for (uint32_t o = 0; o < i->record->n_outputs; o++) {
            uint64_t k = i->outputs[o]->id - number_of(r->p, BASE);
            if (k >= r->n || (!pass && line && !(r->things[k].line & line))) continue;
            if (!r->things[k].cause) r->things[k].cause = r->injected;
            any = true;
        }
}

static void fail_any(run *r) {
    hub_instance *i = any_instance(r, false);
    if (!i) return;
    uint32_t line = i->program->checks && roll(r, 4) ? 1 + roll(r, 2) : 0;
    char text[100];
    snprintf(text, sizeof text, line ? "<node %u>: injected #%u#" : "%u: injected #%u#", line,
             ++r->injected);
    const shoal_status others[] = {SHOAL_NO_MEMORY, SHOAL_INTERNAL, SHOAL_IO};
    Shoal__Error error = SHOAL__ERROR__INIT;
    error.status = line ? SHOAL_RANGE : others[roll(r, 3)];
    error.message = text;
    Shoal__Failed failed = SHOAL__FAILED__INIT;
    failed.instance = i->id;
    failed.error = &error;
    for (uint32_t k = 0; k < i->n_parts; k++) {
        int m = i->parts[k].peer && !i->parts[k].through ? end_of(r, i->parts[k].peer) : -1;
        if (m < 0) continue;
        /* With what is made again fails the client's own run of it, where that is of its data. */
        const hub_instance *asked = i->purpose == HUB_REMADE ? r->p->h->first : NULL;
        while (asked && (asked->record != i->record || asked->purpose != HUB_ASKED ||
                         asked->status != SHOAL_OK))
            asked = asked->next;
        if (asked && line) note_cause(r, asked, line);
        for (uint32_t o = 0; asked && !line && o < asked->record->n_outputs; o++) {
            uint64_t at = asked->outputs[o]->id - number_of(r->p, BASE);
            if (at < r->n) r->things[at].may = true;
        }
        /* Alone it fails whole: what has passed a check once does so again. */
        bool alone = i->purpose == HUB_REMADE;
        if (i->purpose != HUB_CUT && !(line && asked)) note_cause(r, i, alone ? 0 : line);
        deliver(r->p, m, SHOAL__KIND__FAILED, &failed.base);
        return;
    }
}

static void drop(run *r, const uint32_t *ks, uint32_t n) {
    uint64_t values[MOST];
    uint32_t some = 0;
    for (uint32_t i = 0; i < n; i++) {
        r->things[ks[i]].held = false;
        if (find(r, ks[i])) values[some++] = number_of(r->p, BASE + ks[i]);
    }
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.values = values;
    release.n_values = some;
    deliver(r->p, 0, SHOAL__KIND__RELEASE, &release.base);
}

static void drop_any(run *r) {
    uint32_t ks[8], n = 1 + roll(r, 8), some = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = pick(r, true);
        bool twice = k == MOST || (r->things[k].upload && !find(r, k));
        for (uint32_t j = 0; j < some; j++) twice |= ks[j] == k;
        if (!twice) ks[some++] = k;
    }
    drop(r, ks, some);
}

static void join(run *r) {
    uint32_t before = r->p->n_ends;
    if (r->n_workers == 64 || before + 1 >= MEMBERS + MORE) return;
    wire_link *link = add_worker(r->p);
    assert_non_null(link);
    hub_peer *peer = wire_link_get(link, WIRE_HUB);
    for (uint32_t s = 0; s < peer->n_slots; s++) peer->slots[s]->memory = ROOM;
    r->workers[r->n_workers++] = before;
}

static void lose(run *r) {
    if (!r->n_workers || (r->mode == CALM && r->n_workers < 2)) return;
    uint32_t i = roll(r, r->n_workers), m = r->workers[i];
    r->workers[i] = r->workers[--r->n_workers];
    r->lost = true;
    wire_close(r->p->ends[m], roll(r, 2) ? SHOAL_LOST : SHOAL_CLOSED, "it was killed");
    pump(r->p);
    r->p->ends[m] = NULL;
}

static void tick(run *r) {
    const hub_event event = {.kind = HUB_TICK};
    ok(hub_apply(r->p->h, &event));
    pump(r->p);
}

static void step(run *r) {
    uint32_t what = roll(r, 100);
    bool may_fail = true;
    if (what < 40) {
        r->doing = "submit";
        submit_any(r);
    } else if (what < 65) {
        r->doing = "finish";
        finish_part(r);
    } else if (what < 72) {
        r->doing = "fail";
        fail_any(r);
    } else if (what < 90) {
        r->doing = "let go";
        drop_any(r);
        may_fail = false;
    } else if (what < 94) {
        r->doing = "join";
        if (r->mode != ALONE) join(r);
        may_fail = false;
    } else if (what < 97) {
        r->doing = "lose";
        if (r->mode != ALONE) lose(r);
    } else {
        r->doing = "tick";
        tick(r);
        may_fail = false;
    }
    look(r, may_fail);
}

/* ---- the end ---- */

static void finish_what_ends(run *r) {
    for (int i = 0; i < 5000 && finish_part(r); i++) look(r, true);
}

/* What is under way; h: held. */
static void show(const run *r) {
    for (const hub_instance *i = r->p->h->first; i; i = i->next) {
        print_message(
            "instance %llu, purpose %u, %s, waits for %u of %u:", (unsigned long long)i->id,
            i->purpose, shoal_status_name(i->status), i->n_waiting, i->n_parts);
        for (uint32_t o = 0; i->record && o < i->record->n_outputs; o++) {
            uint64_t k = i->outputs[o]->id - number_of(r->p, BASE);
            if (k < r->n) print_message(" %u%s", (uint32_t)k, r->things[k].held ? "h" : "");
        }
        print_message("\n");
    }
}

static void drop_all(run *r, bool only_endless) {
    uint32_t ks[MOST], n = 0;
    for (uint32_t k = 0; k < r->n; k++)
        if (r->things[k].held && find(r, k) && (!only_endless || derives_endless(r, k)))
            ks[n++] = k;
    drop(r, ks, n);
}

/* As a session does again and again: what is needed is looked at then. */
static void drop_nothing(run *r) {
    Shoal__Release release = SHOAL__RELEASE__INIT;
    uint64_t unknown = number_of(r->p, BASE + MOST + 1);
    release.values = &unknown;
    release.n_values = 1;
    deliver(r->p, 0, SHOAL__KIND__RELEASE, &release.base);
}

/* Who reads what cannot be made again by now, as it or what it is made of was given away, does not
 * begin anew, and waits. */
static bool waits_for_given(const run *r) {
    const hub *h = r->p->h;
    bool waits = false;
    for (const hub_instance *i = h->first; i; i = i->next)
        for (uint32_t n = 0; i->record && n < i->record->n_inputs; n++) {
            const hub_value *value = i->record->inputs[n];
            waits |= value->absent && !can_recover(h, value);
        }
    return waits;
}

static void settle(run *r) {
    r->doing = "finish in the end";
    finish_what_ends(r);
    r->doing = "let go of what has no end";
    drop_all(r, true);
    look(r, false);
    r->doing = "finish in the end";
    finish_what_ends(r);
    tick(r);
    finish_what_ends(r);
    drop_nothing(r);
    finish_what_ends(r);
    if (waits_for_given(r)) {
        drop_all(r, false);
        look(r, false);
        finish_what_ends(r);
    }
    if (r->p->h->first) {
        show(r);
        wrong(r, "something does not end");
    }
    assert_int_equal(client_of(r->p)->waiting, 0);
    assert_int_equal(client_of(r->p)->queued, 0);
    if (r->p->outcomes - r->p->parts != r->submissions)
        wrong(r, "%zu of %u outcomes", r->p->outcomes - r->p->parts, r->submissions);
}

/* All that is held and well is there, or made again. */
static void use_all(run *r) {
    uint32_t n = r->n;
    r->doing = "use";
    for (uint32_t k = 0; k < n; k++) {
        const hub_value *v = r->things[k].held ? find(r, k) : NULL;
        if (!v || r->n + 2 >= MOST) continue;
        if (r->things[k].cause && v->status == SHOAL_OK) wrong(r, "value %u has not failed", k);
        if (v->status != SHOAL_OK) {
            /* On a way back there may be several reasons, of which one is told. */
            bool one = r->things[k].cause && !r->things[k].lost;
            if (one && v->status != SHOAL_LOST && !strstr(v->error, "injected"))
                wrong(r, "value %u has failed of: %s", k, v->error);
            continue;
        }
        uint32_t made = r->n;
        submit_some(r, NEGATES, &k, 1, false, false, true);
        look(r, false);
        finish_what_ends(r);
        if (r->n == made) continue;
        const hub_value *of = find(r, made);
        if (of->status == SHOAL_OK && (of->absent || !of->counted))
            wrong(r, "value %u is not there", made);
    }
    if (r->p->h->first) {
        show(r);
        wrong(r, "what reads does not end");
    }
}

static void assert_nothing_left(const run *r) {
    const hub *h = r->p->h;
    size_t at = 0;
    uint64_t key;
    void *item;
    if (h->values.count || h->programs.count)
        wrong(r, "%zu values and %zu programs are left", (size_t)h->values.count,
              (size_t)h->programs.count);
    assert_int_equal(h->instances.count, 0);
    while (base_map_next(&h->slots, &at, &key, &item)) {
        const hub_slot *slot = item;
        if (slot->used || slot->reserved || slot->in_flight)
            wrong(r, "slot %u has %llu, %llu, %u", slot->number, (unsigned long long)slot->used,
                  (unsigned long long)slot->reserved, slot->in_flight);
    }
    for (size_t u = 0; u < h->users.count; u++) assert_int_equal(h->users.data[u]->held, 0);
}

static void drop_programs(run *r) {
    uint64_t numbers[PROGRAMS];
    size_t n = 0;
    for (uint32_t i = 0; i < PROGRAMS; i++)
        if (r->programs[i].known) numbers[n++] = number_of(r->p, 1 + i);
    Shoal__Release release = SHOAL__RELEASE__INIT;
    release.programs = numbers;
    release.n_programs = n;
    deliver(r->p, 0, SHOAL__KIND__RELEASE, &release.base);
}

/* The session ends with all that is under way. */
static void leave(run *r) {
    wire_close(r->p->ends[0], roll(r, 2) ? SHOAL_LOST : SHOAL_CLOSED, "it was killed");
    pump(r->p);
    r->p->ends[0] = NULL;
    for (int i = 0; i < 5000 && r->p->h->first && finish_part(r); i++) continue;
    if (r->p->h->first) {
        show(r);
        wrong(r, "it does not end with its session");
    }
    assert_nothing_left(r);
}

static void close_down(run *r) {
    settle(r);
    use_all(r);
    r->doing = "let go of all";
    drop_all(r, false);
    finish_what_ends(r);
    drop_programs(r);
    const hub_peer *client = client_of(r->p);
    assert_int_equal(client->kept, 0);
    assert_int_equal(client->records, 0);
    assert_int_equal(client->replay_ns, 0);
    assert_nothing_left(r);
}

static void run_one(uint64_t seed) {
    void *state;
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(setup(&state), 0);
    *r = (run){.p = state,
               .seed = seed,
               .dice = seed * 0x9E3779B97F4A7C15 + 1,
               .mode = (mode)(seed % MODES)};
    for (int i = 0; i < 8; i++) roll(r, 2);
    client_of(r->p)->spare = r->mode == CALM ? ROOM : roll(r, 2) * ROOM;
    for (uint32_t m = 0; m < MEMBERS; m++)
        for (uint32_t s = 0; s < r->p->h->peers.data[m]->n_slots; s++)
            r->p->h->peers.data[m]->slots[s]->memory = ROOM;
    if (r->mode == ALONE) {
        wire_close(r->p->ends[1], SHOAL_CLOSED, "it has left");
        r->p->ends[1] = NULL;
        pump(r->p);
    } else if (r->mode == LOSSES) {
        r->workers[r->n_workers++] = 1;
    }
    if (r->mode == CALM) join(r);
    for (uint32_t i = 0; i < STEPS; i++) step(r);
    if (roll(r, 4))
        close_down(r);
    else
        leave(r);
    assert_int_equal(teardown(&state), 0);
    free(r);
}

/* Runs that failed once. */
static const uint64_t ONCE[] = {257,   1326,  3926,  4382,  4899,  5831,  5880,  5913,  8730,
                                9431,  10562, 11109, 11495, 12134, 12968, 13557, 15491, 15729,
                                15771, 16248, 16332, 19331, 25865, 33299, 34642, 62318};

static void test_events(void **state) {
    (void)state;
    const char *runs = getenv("SHOAL_HUB_RANDOM");
    uint64_t first = 1, last = RUNS;
    if (runs) {
        char *end;
        uint64_t number = strtoull(runs, &end, 10);
        first = *end ? number : 1;
        last = *end ? strtoull(end + 1, NULL, 10) : number;
    }
    for (uint64_t seed = first; seed <= last; seed++) run_one(seed);
    for (size_t i = 0; !runs && i < sizeof ONCE / sizeof *ONCE; i++) run_one(ONCE[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_events)};
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
