/* Kernels as source: the loops around expressions, which are in render_op.c. */
#include "backend/fuse/render.h"

#include "backend/fuse/prelude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const fuse_dialect fuse_dialect_c = {"c", prelude_c, true};
const fuse_dialect fuse_dialect_opencl = {"opencl", prelude_opencl, true};
const fuse_dialect fuse_dialect_cuda = {"cuda", prelude_cuda, true};

void fuse_render_prelude(const fuse_dialect *dialect, base_str *out) {
    base_str_text(out, dialect->prelude);
    base_str_text(out, prelude_shared);
    base_str_text(out, prelude_narrow);
}

static bool has_type(const fuse_dialect *dialect, const shoal_graph *g, uint32_t value) {
    return dialect->has_f64 || g->values[value].type.dtype != SHOAL_F64;
}

fuse_role fuse_renders(const fuse_dialect *dialect, const shoal_graph *g, const shoal_node *node) {
    fuse_role role = fuse_may_take(g, node);
    if (role == FUSE_OWN || !has_type(dialect, g, node->first_output)) return FUSE_OWN;
    for (uint32_t k = 0; k < node->n_inputs; k++)
        if (!has_type(dialect, g, node->inputs[k])) return FUSE_OWN;
    if (fuse_is_move(node->op)) return role;
    uint8_t to = g->values[node->first_output].type.dtype;
    uint8_t from = g->values[node->inputs[node->n_inputs - 1]].type.dtype;
    uint16_t op = role == FUSE_REDUCE ? graph_body_op(node->regions[0]) : node->op;
    return fuse_has_expression(op, from, to) ? role : FUSE_OWN;
}

int64_t fuse_items(const fuse_kernel *k) {
    int64_t items = 1;
    for (uint32_t l = 0; l < k->n_loops; l++)
        if (!k->loops[l].reduced) items *= k->loops[l].extent;
    return items;
}

int64_t fuse_reduced_count(const fuse_kernel *k) {
    int64_t count = 1;
    for (uint32_t l = 0; l < k->n_loops; l++)
        if (k->loops[l].reduced) count *= k->loops[l].extent;
    return count;
}

/* ---- indices ---- */

typedef struct renderer {
    const fuse_kernel *k;
    base_str *out;
    const fuse_work *work;
    const char *index; /* the type of indices */
    bool *wanted;      /* per number: scratch of render_pass */
    bool *kept;        /* per number: it has been read for all passes */
    bool ahead;        /* what iterations read was read before */
} renderer;

/* The largest distance from the first element, or a number beyond 32 bits. */
static int64_t reach(const fuse_kernel *k, const fuse_index *index) {
    int64_t most = index->start < 0 ? -index->start : index->start;
    for (uint32_t l = 0; l < k->n_loops; l++) {
        int64_t stride = index->strides[l] < 0 ? -index->strides[l] : index->strides[l], step;
        if (base_mul_overflow(stride, k->loops[l].extent, &step) ||
            base_add_overflow(most, step, &most))
            return INT64_MAX;
    }
    return most;
}

/* Indices of 32 bits are several times faster where processors divide and multiply by such. */
static const char *index_type(const fuse_kernel *k) {
    int64_t most = 1;
    for (uint32_t l = 0; l < k->n_loops; l++)
        if (base_mul_overflow(most, k->loops[l].extent, &most)) return "i64";
    for (uint32_t i = 0; i < k->n_loads; i++) {
        const fuse_load *load = &k->loads[i];
        int64_t far = reach(k, &load->index);
        if (far > most) most = far;
        for (uint32_t l = 0; l < k->n_loops && load->bounded; l++) {
            if (load->end[l] > most) most = load->end[l];
            if (-load->begin[l] > most) most = -load->begin[l];
            if (load->every[l] > most) most = load->every[l];
        }
    }
    return most < INT32_MAX / 4 ? "i32" : "i64";
}

/* The place of a load's element: from where it begins, if it is bounded. */
static void render_place(const renderer *r, const fuse_load *load, base_str *out) {
    bool some = load->index.start != 0;
    if (some) base_str_format(out, "%lld", (long long)load->index.start);
    for (uint32_t l = 0; l < r->k->n_loops; l++) {
        int64_t stride = load->index.strides[l];
        if (!stride) continue;
        if (some) base_str_text(out, " + ");
        some = true;
        if (!load->bounded || (!load->begin[l] && load->every[l] == 1))
            base_str_format(out, "i%u", l);
        else if (load->every[l] == 1)
            base_str_format(out, "(i%u - (%lld))", l, (long long)load->begin[l]);
        else
            base_str_format(out, "(i%u - (%lld)) / %lld", l, (long long)load->begin[l],
                            (long long)load->every[l]);
        if (stride != 1) base_str_format(out, " * (%lld)", (long long)stride);
    }
    if (!some) base_str_text(out, "0");
}

/* ---- loads and stores ---- */

static void render_load(const renderer *r, uint32_t number);

static void render_element(const renderer *r, uint32_t number) {
    const fuse_load *load = &r->k->loads[number];
    base_str place;
    if (load->kind == FUSE_LITERAL) {
        fuse_render_literal(load->dtype, load->literal, r->out);
        return;
    }
    base_str_init(&place);
    render_place(r, load, &place);
    const char *at = place.data ? place.data : "";
    if (load->kind == FUSE_POSITION) {
        base_str wide;
        base_str_init(&wide);
        base_str_format(&wide, "(i64)(%s)", at);
        fuse_render_convert(SHOAL_I64, load->dtype, wide.data ? wide.data : "", r->out);
        base_str_fini(&wide);
    } else if (load->dtype == SHOAL_F16 || load->dtype == SHOAL_BF16) {
        base_str_format(r->out, "f32_of_%s(l%u[%s])", load->dtype == SHOAL_F16 ? "f16" : "bf16",
                        number, at);
    } else if (load->dtype == SHOAL_BOOL) {
        base_str_format(r->out, "(u8)(l%u[%s] != 0)", number, at);
    } else {
        base_str_format(r->out, "l%u[%s]", number, at);
    }
    base_str_fini(&place);
}

/* Whether each iteration lies inside, as far as one loop can say. */
static bool is_free(const fuse_kernel *k, const fuse_load *load, uint32_t l) {
    return load->begin[l] <= 0 && load->end[l] >= k->loops[l].extent && load->every[l] == 1;
}

static void render_load(const renderer *r, uint32_t number) {
    const fuse_load *load = &r->k->loads[number];
    /* The last of several stands where all the others do not. */
    if (!load->bounded || load->outside == FUSE_NOWHERE) {
        render_element(r, number);
        return;
    }
    base_str_text(r->out, "(1");
    for (uint32_t l = 0; l < r->k->n_loops; l++) {
        if (is_free(r->k, load, l)) continue;
        base_str_format(r->out, " && i%u >= %lld && i%u < %lld", l, (long long)load->begin[l], l,
                        (long long)load->end[l]);
        if (load->every[l] != 1)
            base_str_format(r->out, " && (i%u - (%lld)) %% %lld == 0", l, (long long)load->begin[l],
                            (long long)load->every[l]);
    }
    base_str_text(r->out, " ? ");
    render_element(r, number);
    base_str_text(r->out, " : ");
    render_load(r, load->outside);
    base_str_text(r->out, ")");
}

static void render_store(const renderer *r, uint32_t number) {
    const fuse_store *store = &r->k->stores[number];
    const fuse_load place = {.index = store->index};
    base_str_format(r->out, "s%u[", number);
    render_place(r, &place, r->out);
    base_str_text(r->out, "] = ");
    if (store->dtype == SHOAL_F16 || store->dtype == SHOAL_BF16)
        base_str_format(r->out, "%s_of_f32(v%u);\n", store->dtype == SHOAL_F16 ? "f16" : "bf16",
                        store->from);
    else
        base_str_format(r->out, "v%u;\n", store->from);
}

/* ---- numbers ---- */

/* Whether a number comes from memory, though perhaps not in each iteration. */
static bool is_read(const fuse_kernel *k, uint32_t number) {
    const fuse_load *load = number < k->n_loads ? &k->loads[number] : NULL;
    return load && (load->kind == FUSE_MEMORY || load->kind == FUSE_RESULT ||
                    (load->bounded && load->outside != FUSE_NOWHERE));
}

static void render_number(const renderer *r, uint32_t number) {
    const fuse_kernel *k = r->k;
    base_str_format(r->out, "const %s v%u = ", fuse_register_type(fuse_dtype_of(k, number)),
                    number);
    if (r->ahead && is_read(k, number)) {
        base_str_format(r->out, "a%u[e]", number);
    } else if (number < k->n_loads) {
        render_load(r, number);
    } else {
        const fuse_operation *op = &k->operations[number - k->n_loads];
        char names[FUSE_MAX_ARGS][16];
        const char *args[FUSE_MAX_ARGS];
        for (uint32_t a = 0; a < op->n_args; a++) {
            snprintf(names[a], sizeof names[a], "v%u", op->args[a]);
            args[a] = names[a];
        }
        fuse_render_operation(op, args, r->out);
    }
    base_str_text(r->out, ";\n");
}

static uint32_t pass_of(const fuse_kernel *k, uint32_t number) {
    return number < k->n_loads ? 0 : k->operations[number - k->n_loads].pass;
}

static bool is_reduction(const fuse_kernel *k, uint32_t number) {
    return number >= k->n_loads && k->operations[number - k->n_loads].op == GRAPH_REDUCE;
}

/* What loops do not change, and can be known after so many passes. Loads that others fall back on
 * are written where those are. */
static void render_outer(const renderer *r, uint32_t pass) {
    const fuse_kernel *k = r->k;
    for (uint32_t n = 0; n < k->n_loads + k->n_operations; n++)
        if (r->wanted[n] && !fuse_is_inner(k, n) && pass_of(k, n) == pass && !is_reduction(k, n))
            render_number(r, n);
}

/* Marks what is needed of a number's operands, of those that are inner or of all. */
static void want(const renderer *r, uint32_t number, bool inner) {
    const fuse_kernel *k = r->k;
    r->wanted[number] = true;
    for (uint32_t n = k->n_loads + k->n_operations; n-- > k->n_loads;) {
        const fuse_operation *op = &k->operations[n - k->n_loads];
        if (!r->wanted[n] || (inner && (!op->inner || op->op == GRAPH_REDUCE))) continue;
        for (uint32_t a = 0; a < op->n_args; a++) r->wanted[op->args[a]] = true;
    }
}

/* ---- iterations ---- */

static void render_indices(const renderer *r, bool reduced, const char *from) {
    const fuse_kernel *k = r->k;
    uint32_t left = 0;
    for (uint32_t l = 0; l < k->n_loops; l++) left += k->loops[l].reduced == reduced;
    /* Without signs, by which dividing takes several steps more. */
    const char *whole = !strcmp(r->index, "i32") ? "u32" : "u64";
    base_str_format(r->out, "%s rest%s = (%s)%s;\n", whole, reduced ? "_reduced" : "", whole, from);
    for (uint32_t l = k->n_loops; l-- > 0;) {
        if (k->loops[l].reduced != reduced) continue;
        const char *rest = reduced ? "rest_reduced" : "rest";
        if (!--left) {
            base_str_format(r->out, "const %s i%u = (%s)%s;\n", r->index, l, r->index, rest);
            break;
        }
        base_str_format(r->out, "const %s i%u = (%s)(%s %% %lldu); %s /= %lldu;\n", r->index, l,
                        r->index, rest, (long long)k->loops[l].extent, rest,
                        (long long)k->loops[l].extent);
    }
}

/* Whether a number is read for `each` iterations at once, where they begin. */
static bool reads_ahead(const renderer *r, uint32_t number, bool inner) {
    return r->wanted[number] && !r->kept[number] && is_read(r->k, number) &&
           fuse_is_inner(r->k, number) == inner;
}

/* Reads what `each` iterations need of memory: what lies beyond the last is the last once more. `e`
 * is the iteration, `of` its number. */
static void render_reads(const renderer *r, bool inner, const char *of, const char *end) {
    const fuse_kernel *k = r->k;
    const char *name = inner ? "inner" : "item", *index = r->index;
    bool some = false;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (reads_ahead(r, i, inner)) {
            base_str_format(r->out, "%s a%u[%u];\n", fuse_register_type(fuse_dtype_of(k, i)), i,
                            r->work->each);
            some = true;
        }
    if (!some) return;
    base_str_format(r->out,
                    "UNROLL for (i32 e = 0; e < %u; e++) {\n"
                    "const %s far = (%s)(%s), %s = far < (%s)%s ? far : (%s)%s - 1;\n",
                    r->work->each, index, index, of, name, index, end, index, end);
    render_indices(r, inner, name);
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (reads_ahead(r, i, inner)) {
            base_str_format(r->out, "a%u[e] = ", i);
            render_load(r, i);
            base_str_text(r->out, ";\n");
        }
    base_str_text(r->out, "}\n");
}

/* Then each of these iterations, but for those beyond the last. */
static void begin_each(const renderer *r, bool inner, const char *of, const char *end) {
    const char *name = inner ? "inner" : "item";
    base_str_format(r->out,
                    "UNROLL for (i32 e = 0; e < %u; e++) {\n"
                    "const %s %s = (%s)(%s);\nif (%s < (%s)%s) {\n",
                    r->work->each, r->index, name, r->index, of, name, r->index, end);
}

/* ---- sums ---- */

static void begin_sums(const renderer *r, uint32_t pass) {
    const fuse_kernel *k = r->k;
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        if (op->op != GRAPH_REDUCE || op->pass != pass + 1) continue;
        base_str_format(r->out, "%s sum%u = ", fuse_register_type(op->sum), k->n_loads + i);
        fuse_render_identity(op, r->out);
        base_str_text(r->out, ";\n");
    }
}

static void add_to_sums(const renderer *r, uint32_t pass) {
    const fuse_kernel *k = r->k;
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        char sum[24], more[24];
        if (op->op != GRAPH_REDUCE || op->pass != pass + 1) continue;
        snprintf(sum, sizeof sum, "sum%u", k->n_loads + i);
        snprintf(more, sizeof more, "v%u", op->args[0]);
        base_str_format(r->out, "%s = ", sum);
        fuse_render_join(op, sum, more, r->out);
        base_str_text(r->out, ";\n");
    }
}

static void end_sums(const renderer *r, uint32_t pass) {
    const fuse_kernel *k = r->k;
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        char all[96], initial[24], sum[24];
        uint32_t number = k->n_loads + i;
        if (op->op != GRAPH_REDUCE || op->pass != pass + 1) continue;
        snprintf(all, sizeof all, "JOIN(%s, %s, sum%u)", shoal_op_name(op->combine),
                 fuse_register_type(op->sum), number);
        snprintf(sum, sizeof sum, "all%u", number);
        snprintf(initial, sizeof initial, "v%u", op->args[1]);
        base_str_format(r->out, "const %s %s = %s;\n", fuse_register_type(op->sum), sum, all);
        base_str_format(r->out, "const %s v%u = ", fuse_register_type(op->dtype), number);
        if (op->sum != op->dtype)
            base_str_text(r->out, op->dtype == SHOAL_F16 ? "round_f16(" : "round_bf16(");
        fuse_render_join(op, initial, sum, r->out);
        base_str_text(r->out, op->sum != op->dtype ? ");\n" : ";\n");
    }
}

/* Sums of a slice are left for those who join the slices. */
static void leave_parts(const renderer *r) {
    const fuse_kernel *k = r->k;
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        if (op->op != GRAPH_REDUCE) continue;
        const char *type = fuse_register_type(op->sum);
        base_str_format(r->out,
                        "const %s all%u = JOIN(%s, %s, sum%u);\n"
                        "if (LANE == 0 && MINE) p%u[SLICE * items + item] = all%u;\n",
                        type, k->n_loads + i, shoal_op_name(op->combine), type, k->n_loads + i, i,
                        k->n_loads + i);
    }
}

static void join_parts(const renderer *r) {
    const fuse_kernel *k = r->k;
    begin_sums(r, 0);
    base_str_format(r->out, "for (i32 slice = LANE; slice < %u; slice += LANES) {\n",
                    r->work->slices);
    for (uint32_t i = 0; i < k->n_operations; i++) {
        const fuse_operation *op = &k->operations[i];
        char sum[24], part[24];
        if (op->op != GRAPH_REDUCE) continue;
        snprintf(sum, sizeof sum, "sum%u", k->n_loads + i);
        snprintf(part, sizeof part, "part%u", k->n_loads + i);
        base_str_format(r->out, "const %s %s = p%u[slice * items + item];\n%s = ",
                        fuse_register_type(op->sum), part, i, sum);
        fuse_render_join(op, sum, part, r->out);
        base_str_text(r->out, ";\n");
    }
    base_str_text(r->out, "}\n");
    end_sums(r, 0);
}

/* ---- passes ---- */

/* Whether a pass writes an inner result: as soon as it is known. */
static bool writes(const fuse_kernel *k, uint32_t store, uint32_t pass) {
    return k->stores[store].inner && pass_of(k, k->stores[store].from) == pass;
}

static void want_of_pass(const renderer *r, uint32_t pass) {
    const fuse_kernel *k = r->k;
    memset(r->wanted, 0, (k->n_loads + k->n_operations) * sizeof *r->wanted);
    for (uint32_t i = 0; i < k->n_operations; i++)
        if (k->operations[i].op == GRAPH_REDUCE && k->operations[i].pass == pass + 1)
            want(r, k->operations[i].args[0], true);
    for (uint32_t i = 0; i < k->n_stores; i++)
        if (writes(k, i, pass)) want(r, k->stores[i].from, true);
}

/* Reads what several passes need, where a lane's iterations are all read at once. */
static void render_kept(const renderer *r) {
    const fuse_kernel *k = r->k;
    bool *again = r->kept;
    char end[24];
    for (uint32_t pass = 0; pass < k->passes; pass++) {
        want_of_pass(r, pass);
        for (uint32_t i = 0; i < k->n_loads; i++) again[i] |= r->wanted[i] && pass > 0;
    }
    want_of_pass(r, 0);
    for (uint32_t i = 0; i < k->n_loads; i++) {
        r->wanted[i] = r->wanted[i] && again[i];
        again[i] = false;
    }
    snprintf(end, sizeof end, "%lld", (long long)fuse_reduced_count(k));
    render_reads(r, true, "LANE + e * LANES", end);
    for (uint32_t i = 0; i < k->n_loads; i++)
        r->kept[i] = r->wanted[i] && is_read(k, i) && fuse_is_inner(k, i);
}

/* The slice's part of the reduced loops. */
static void render_slice(const renderer *r, int64_t count) {
    int64_t slice = (count + r->work->slices - 1) / r->work->slices;
    base_str_format(r->out,
                    "const %s begin = (%s)SLICE * %lld, end = begin + %lld < %lld ? begin + "
                    "%lld : %lld;\n",
                    r->index, r->index, (long long)slice, (long long)slice, (long long)count,
                    (long long)slice, (long long)count);
}

static void render_pass(const renderer *r, uint32_t pass) {
    const fuse_kernel *k = r->k;
    bool sliced = r->work->stage == FUSE_PARTS;
    int64_t count = fuse_reduced_count(k);
    const char *from = sliced ? "begin + LANE" : "LANE", *of = "first + e * LANES";
    renderer in = *r;
    char end[24];
    snprintf(end, sizeof end, "%lld", (long long)count);
    want_of_pass(r, pass);
    begin_sums(r, pass);
    if (sliced) {
        render_slice(r, count);
        snprintf(end, sizeof end, "end");
    }
    in.ahead = r->work->each > 1;
    if (r->work->keeps)
        base_str_format(r->out, "{ const %s first = LANE;\n", r->index);
    else
        base_str_format(r->out, "for (%s %s = %s; %s < %s; %s += LANES * %u) {\n", r->index,
                        in.ahead ? "first" : "inner", from, in.ahead ? "first" : "inner", end,
                        in.ahead ? "first" : "inner", r->work->each);
    if (in.ahead) {
        render_reads(r, true, of, end);
        begin_each(r, true, of, end);
    }
    render_indices(r, true, "inner");
    for (uint32_t i = 0; i < k->n_loads + k->n_operations; i++)
        if (r->wanted[i] && fuse_is_inner(k, i)) render_number(&in, i);
    add_to_sums(r, pass);
    for (uint32_t i = 0; i < k->n_stores; i++)
        if (writes(k, i, pass)) {
            base_str_text(r->out, "if (MINE) ");
            render_store(r, i);
        }
    base_str_text(r->out, in.ahead ? "}\n}\n}\n" : "}\n");
    if (sliced)
        leave_parts(r);
    else
        end_sums(r, pass);
}

/* Whether it is the iterations of the outer loops that are read ahead. */
static bool goes_ahead(const fuse_kernel *k, const fuse_work *work) {
    return !k->passes && work->each > 1;
}

static void render_whole(const renderer *r, const renderer *all) {
    const fuse_kernel *k = r->k;
    if (r->work->keeps) render_kept(r);
    for (uint32_t pass = 0; pass <= k->passes; pass++) {
        if (pass == 1 && r->work->stage == FUSE_PARTS) return;
        render_outer(all, pass);
        if (pass < k->passes && r->work->stage == FUSE_JOINED)
            join_parts(r);
        else if (pass < k->passes)
            render_pass(r, pass);
    }
    for (uint32_t i = 0; i < k->n_stores; i++) {
        if (k->passes && k->stores[i].inner) continue;
        if (k->passes) base_str_text(r->out, "if (LANE == 0 && MINE) ");
        render_store(r, i);
    }
}

static void render_body(const renderer *r) {
    const fuse_kernel *k = r->k;
    uint32_t n = k->n_loads + k->n_operations;
    renderer all = *r; /* everything that anything needs */
    all.wanted = r->wanted + n;
    for (uint32_t i = 0; i < k->n_stores; i++) all.wanted[k->stores[i].from] = true;
    if (n) want(&all, k->n_stores ? k->stores[0].from : 0, false);
    all.ahead = goes_ahead(k, r->work);
    if (all.ahead) {
        render_reads(&all, false, "EACH_ITEM(e)", "EACH_END");
        begin_each(&all, false, "EACH_ITEM(e)", "EACH_END");
    }
    render_indices(r, false, "item");
    render_whole(r, &all);
    if (all.ahead) base_str_text(r->out, "}\n}\n");
}

const char *fuse_memory_type(uint8_t dtype) {
    return dtype == SHOAL_F16 || dtype == SHOAL_BF16 ? "u16" : fuse_register_type(dtype);
}

static void render_parameters(const renderer *r) {
    const fuse_kernel *k = r->k;
    uint32_t parameters = 0;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (k->loads[i].kind == FUSE_MEMORY || k->loads[i].kind == FUSE_RESULT)
            base_str_format(r->out, "%sPOINTER(const %s, l%u)", parameters++ ? ", " : "",
                            fuse_memory_type(k->loads[i].dtype), i);
    for (uint32_t i = 0; i < k->n_stores; i++)
        base_str_format(r->out, "%sPOINTER(%s, s%u)", parameters++ ? ", " : "",
                        fuse_memory_type(k->stores[i].dtype), i);
    for (uint32_t i = 0; i < k->n_operations && r->work->stage != FUSE_WHOLE; i++)
        if (k->operations[i].op == GRAPH_REDUCE)
            base_str_format(r->out, "%sPOINTER(%s, p%u)", parameters++ ? ", " : "",
                            fuse_register_type(k->operations[i].sum), i);
}

static void render_starts(const renderer *r) {
    const fuse_kernel *k = r->k;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (k->loads[i].kind == FUSE_MEMORY || k->loads[i].kind == FUSE_RESULT)
            base_str_format(r->out, "START(l%u)\n", i);
    for (uint32_t i = 0; i < k->n_stores; i++) base_str_format(r->out, "START(s%u)\n", i);
    for (uint32_t i = 0; i < k->n_operations && r->work->stage != FUSE_WHOLE; i++)
        if (k->operations[i].op == GRAPH_REDUCE) base_str_format(r->out, "START(p%u)\n", i);
}

void fuse_render(const fuse_kernel *k, const fuse_work *work, const char *name, base_str *out) {
    uint32_t n = k->n_loads + k->n_operations;
    renderer r = {.k = k, .work = work, .out = out, .index = index_type(k)};
    r.wanted = calloc(3 * (size_t)n + 1, sizeof *r.wanted);
    if (!r.wanted) {
        out->failed = true;
        return;
    }
    r.kept = r.wanted + 2 * (size_t)n;
    base_str_format(out, "FORMED %s(", name);
    render_parameters(&r);
    base_str_text(out, " PARAMETERS) {\n");
    render_starts(&r);
    if (goes_ahead(k, work))
        base_str_format(out, "EACH_BEGIN(%u)\n", work->each);
    else
        base_str_text(out, k->passes ? "GROUP_BEGIN\n" : "ITEM_BEGIN\n");
    render_body(&r);
    base_str_text(out, "ITEM_END\n}\n");
    free(r.wanted);
}
