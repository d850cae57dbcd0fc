/* Operations on matrices and statistics that are several of Shoal's: cholesky, triangular_solve,
 * batch_norm. A factor is made column by column in a loop, whose text is as long for all sizes. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

/* ---- matrices: one batch axis, rows, columns ---- */

static uint32_t as_batch(maker *m, uint32_t x) {
    if (m->status) return x;
    const shoal_type type = *type_of(m, x);
    shoal_type to = {.dtype = type.dtype, .rank = 3, .dims = {1, 0, 0}};
    for (uint32_t i = 0; i + 2 < type.rank; i++) to.dims[0] *= type.dims[i];
    for (uint32_t i = 0; i < 2; i++) to.dims[1 + i] = type.dims[type.rank - 2 + i];
    return reshape(m, x, &to);
}

static uint32_t turned(maker *m, uint32_t x) {
    static const int64_t order[] = {0, 2, 1};
    shoal_attr attr = graph_ints(SHOAL_ATTR_PERMUTATION, order, 3);
    return node(m, GRAPH_TRANSPOSE, &x, 1, &attr, 1, NULL);
}

static uint32_t backward(maker *m, uint32_t x, uint32_t n_axes) {
    static const int64_t axes[] = {1, 2};
    shoal_attr attr = graph_ints(SHOAL_ATTR_DIMENSIONS, axes, n_axes);
    return node(m, GRAPH_REVERSE, &x, 1, &attr, 1, NULL);
}

/* Row (axis 1) or column (axis 2) number i. */
static uint32_t line_of(maker *m, uint32_t x, uint32_t axis, uint32_t i) {
    if (m->status) return x;
    shoal_type type = *type_of(m, x);
    uint32_t zero = splat(m, (shoal_type){.dtype = SHOAL_I64}, 0);
    uint32_t in[] = {x, zero, axis == 1 ? i : zero, axis == 2 ? i : zero};
    type.dims[axis] = 1;
    shoal_attr sizes = graph_ints(SHOAL_ATTR_SLICE_SIZES, type.dims, 3);
    return node(m, GRAPH_DYNAMIC_SLICE, in, 4, &sizes, 1, NULL);
}

static uint32_t with_line(maker *m, uint32_t x, uint32_t axis, uint32_t i, uint32_t line) {
    uint32_t zero = splat(m, (shoal_type){.dtype = SHOAL_I64}, 0);
    uint32_t in[] = {x, line, zero, axis == 1 ? i : zero, axis == 2 ? i : zero};
    return node(m, GRAPH_DYNAMIC_UPDATE_SLICE, in, 5, NULL, 0, NULL);
}

/* ---- loops: "for i below n", which carries i, two tensors that stay, and the result ---- */

typedef struct loop {
    int64_t n;
    bool unit; /* the diagonal is 1 */
} loop;

enum { COUNT, MATRIX, RIGHT, RESULT, CARRIED };
typedef uint32_t step(maker *m, const loop *l, const uint32_t *in);

static const shoal_graph *body_of(maker *m, const loop *l, const uint32_t *carried, step *make) {
    graph *g = NULL;
    uint32_t in[CARRIED] = {0};
    if (!m->status) m->status = graph_add_region(m->g, &g);
    for (int i = 0; i < CARRIED && !m->status; i++) {
        const shoal_type type = *type_of(m, carried[i]);
        m->status = graph_add_input(g, &type, &in[i]);
    }
    if (m->status) return NULL;
    maker b = {g, SHOAL_OK};
    if (!make) {
        uint32_t more = compare(&b, "LT", in[COUNT], like(&b, in[COUNT], (double)l->n));
        if (!b.status) b.status = graph_add_output(g, more);
    } else {
        in[RESULT] = make(&b, l, in);
        in[COUNT] = plus(&b, in[COUNT], 1);
        for (int i = 0; i < CARRIED && !b.status; i++) b.status = graph_add_output(g, in[i]);
    }
    m->status = b.status;
    return graph_data(g);
}

static uint32_t run(maker *m, const loop *l, uint32_t matrix, uint32_t right, step *make) {
    if (m->status) return 0;
    uint32_t carried[CARRIED] = {splat(m, (shoal_type){.dtype = SHOAL_I64}, 0), matrix, right};
    carried[RESULT] = m->status ? 0 : like(m, right, 0);
    const shoal_graph *bodies[] = {body_of(m, l, carried, NULL), body_of(m, l, carried, make)};
    uint32_t first = 0;
    if (!m->status)
        m->status = graph_add(m->g, GRAPH_WHILE, carried, CARRIED, NULL, 0, bodies, 2, &first);
    return first + RESULT;
}

/* Elements of a column from number i on; zeros before. */
static uint32_t from_row(maker *m, uint32_t column, uint32_t i) {
    if (m->status) return 0;
    const shoal_type type = *type_of(m, column);
    uint32_t row = numbers(m, &type, 1), least = spread(m, i, &type, NULL);
    return choose(m, compare(m, "GE", row, least), column, m->status ? 0 : like(m, column, 0));
}

/* Column i of the factor: that of the matrix, less what the columns before it make of it, divided
 * by the root of its own diagonal element. */
static uint32_t cholesky_step(maker *m, const loop *l, const uint32_t *in) {
    (void)l;
    uint32_t i = in[COUNT], so_far = in[RESULT];
    uint32_t made = product(m, so_far, line_of(m, so_far, 1, i), 1, 2, 2);
    uint32_t column = sub(m, line_of(m, in[MATRIX], 2, i), made);
    uint32_t root = one(m, GRAPH_SQRT, line_of(m, column, 1, i));
    if (m->status) return 0;
    static const int64_t axes[] = {0, 1, 2};
    const shoal_type single = *type_of(m, root), type = *type_of(m, column);
    const shoal_type batch = {.dtype = single.dtype, .rank = 1, .dims = {single.dims[0]}};
    root = spread(m, reshape(m, root, &batch), &type, axes);
    return with_line(m, so_far, 2, i, from_row(m, over(m, column, root), i));
}

/* Row i of the solution, from the rows before it. */
static uint32_t solve_step(maker *m, const loop *l, const uint32_t *in) {
    static const int64_t axes[] = {0};
    uint32_t i = in[COUNT], row = line_of(m, in[MATRIX], 1, i);
    uint32_t x = sub(m, line_of(m, in[RIGHT], 1, i), product(m, row, in[RESULT], 1, 2, 1));
    if (!l->unit && !m->status) {
        uint32_t diagonal = line_of(m, row, 2, i);
        if (m->status) return 0;
        const shoal_type type = *type_of(m, x);
        const shoal_type batch = {.dtype = type.dtype, .rank = 1, .dims = {type.dims[0]}};
        x = over(m, x, spread(m, reshape(m, diagonal, &batch), &type, axes));
    }
    return with_line(m, in[RESULT], 1, i, x);
}

/* Matrices in a floating type, square unless said. */
static shoal_status need_matrix(const hlo_call *c, uint32_t input, bool square) {
    const shoal_type *type = hlo_type_of(c, input);
    char text[BASE_TYPE_TEXT];
    bool fits = type->rank >= 2 && shoal_dtype_kind((shoal_dtype)type->dtype) == 'f' &&
                (!square || type->dims[type->rank - 1] == type->dims[type->rank - 2]);
    if (fits) return SHOAL_OK;
    return hlo_fail(c, "operand %u is %s, which is no %s of floating numbers", input,
                    base_type_text(type, text), square ? "square matrix" : "matrix");
}

static shoal_status flag_of(const hlo_call *c, const char *name, bool *out) {
    int64_t value;
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, name, NULL), 0, &value));
    *out = value != 0;
    return SHOAL_OK;
}

static shoal_status cholesky(hlo_call *c) {
    bool lower;
    SHOAL_TRY(hlo_need(c, 1, 1));
    SHOAL_TRY(need_matrix(c, 0, true));
    SHOAL_TRY(flag_of(c, "lower", &lower));
    const shoal_type type = *hlo_type_of(c, 0);
    const loop l = {.n = type.dims[type.rank - 1]};
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = c->in[0];
    if (!base_type_count(&type)) return SHOAL_OK;
    uint32_t x = as_batch(&m, widen(&m, c->in[0]));
    if (!lower) x = turned(&m, x);
    uint32_t y = run(&m, &l, x, x, cholesky_step);
    if (!lower) y = turned(&m, y);
    c->out[0] = convert(&m, reshape(&m, y, &type), type.dtype);
    return m.status;
}

/* The part of a matrix on and below its diagonal: what lies above may be anything. */
static uint32_t below(maker *m, uint32_t x) {
    if (m->status) return 0;
    const shoal_type type = *type_of(m, x);
    uint32_t inside = compare(m, "GE", numbers(m, &type, 1), numbers(m, &type, 2));
    return choose(m, inside, x, m->status ? 0 : like(m, x, 0));
}

static shoal_status check_sides(const hlo_call *c, bool left) {
    const shoal_type *a = hlo_type_of(c, 0), *b = hlo_type_of(c, 1);
    char texts[2][BASE_TYPE_TEXT];
    bool fits = a->rank == b->rank && a->dtype == b->dtype &&
                a->dims[a->rank - 1] == b->dims[b->rank - (left ? 2 : 1)];
    for (uint32_t i = 0; fits && i + 2 < a->rank; i++) fits = a->dims[i] == b->dims[i];
    if (fits) return SHOAL_OK;
    return hlo_fail(c, "%s and %s do not fit each other on the %s side",
                    base_type_text(a, texts[0]), base_type_text(b, texts[1]),
                    left ? "left" : "right");
}

/* All forms are the one of a lower triangle on the left: from the right, both are turned; an upper
 * triangle is a lower one from the end. */
static shoal_status triangular_solve(hlo_call *c) {
    bool left, lower;
    loop l = {0};
    const hlo_attr *how = hlo_attr_of(c, "transpose_a", NULL);
    SHOAL_TRY(hlo_need(c, 2, 1));
    SHOAL_TRY(need_matrix(c, 0, true));
    SHOAL_TRY(need_matrix(c, 1, false));
    SHOAL_TRY(flag_of(c, "left_side", &left));
    SHOAL_TRY(flag_of(c, "lower", &lower));
    SHOAL_TRY(flag_of(c, "unit_diagonal", &l.unit));
    SHOAL_TRY(check_sides(c, left));
    bool is_turned = how && (hlo_is(how->text, "TRANSPOSE") || hlo_is(how->text, "ADJOINT"));
    if (how && !is_turned && !hlo_is(how->text, "NO_TRANSPOSE"))
        return hlo_fail(c, "transpose_a is none of NO_TRANSPOSE, TRANSPOSE, ADJOINT");
    const shoal_type type = *hlo_type_of(c, 1);
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = c->in[1];
    if (!base_type_count(&type)) return SHOAL_OK;
    l.n = hlo_type_of(c, 0)->dims[type.rank - 1];
    uint32_t a = as_batch(&m, widen(&m, c->in[0])), b = as_batch(&m, widen(&m, c->in[1]));
    if (!left) b = turned(&m, b);
    bool turn = is_turned == left;
    if (turn) a = turned(&m, a);
    bool upper = lower == turn;
    if (upper) a = backward(&m, a, 2);
    if (upper) b = backward(&m, b, 1);
    uint32_t x = run(&m, &l, below(&m, a), b, solve_step);
    if (upper) x = backward(&m, x, 1);
    if (!left) x = turned(&m, x);
    c->out[0] = convert(&m, reshape(&m, x, &type), type.dtype);
    return m.status;
}

/* ---- batch_norm: statistics over all axes but one ---- */

typedef struct norm {
    maker m;
    shoal_type type; /* of the operand, in the type that is computed in */
    uint8_t dtype;   /* of the operand */
    int64_t axis;
    int64_t others[SHOAL_MAX_RANK];
    double epsilon, count;
} norm;

static shoal_status start_norm(const hlo_call *c, uint32_t results, uint32_t inputs, norm *n) {
    const void *data;
    size_t bytes;
    char text[BASE_TYPE_TEXT];
    const shoal_type number = {.dtype = SHOAL_F64};
    const hlo_attr *epsilon = hlo_attr_of(c, "epsilon", NULL);
    SHOAL_TRY(hlo_need(c, inputs, results));
    const shoal_type type = *hlo_type_of(c, 0);
    *n = (norm){.m = {c->s->g, SHOAL_OK}, .type = type, .dtype = type.dtype, .count = 1};
    SHOAL_TRY(hlo_int(c, hlo_attr_of(c, "feature_index", NULL), -1, &n->axis));
    if (!epsilon) return hlo_fail(c, "its epsilon is missing");
    SHOAL_TRY(hlo_elements(c, epsilon, &number, &data, &bytes));
    memcpy(&n->epsilon, data, sizeof n->epsilon);
    if (n->axis < 0 || n->axis >= type.rank)
        return hlo_fail(c, "there is no axis %lld", (long long)n->axis);
    if (shoal_dtype_kind((shoal_dtype)type.dtype) != 'f')
        return hlo_fail(c, "it works on floating types, not on %s",
                        shoal_dtype_name((shoal_dtype)type.dtype));
    const shoal_type row = {.dtype = type.dtype, .rank = 1, .dims = {type.dims[n->axis]}};
    for (uint32_t i = 1; i < inputs; i++) {
        bool whole = inputs == 5 && results == 3 && i == 4; /* the gradient of the result */
        if (!base_type_equal(hlo_type_of(c, i), whole ? &type : &row))
            return hlo_fail(c, "operand %u is %s; it does not fit the first operand", i,
                            base_type_text(hlo_type_of(c, i), text));
    }
    for (uint32_t i = 0, k = 0; i < type.rank; i++) {
        if (i == n->axis) continue;
        n->others[k++] = i;
        n->count *= (double)type.dims[i];
    }
    n->type.dtype = wide(type.dtype);
    return SHOAL_OK;
}

static uint32_t wide_of(norm *n, uint32_t x) { return convert(&n->m, x, n->type.dtype); }

static uint32_t over_all(norm *n, uint32_t row) { return spread(&n->m, row, &n->type, &n->axis); }

static uint32_t sum_of(norm *n, uint32_t x) {
    if (n->m.status) return 0;
    return join_axes(&n->m, GRAPH_ADD, x, n->others, n->type.rank - 1u);
}

static uint32_t mean_of(norm *n, uint32_t x) {
    uint32_t sum = sum_of(n, x);
    return over(&n->m, sum, n->m.status ? 0 : like(&n->m, sum, n->count));
}

/* 1 / sqrt(variance + epsilon) */
static uint32_t scale_of(norm *n, uint32_t variance) {
    if (n->m.status) return 0;
    return one(&n->m, GRAPH_RSQRT, plus(&n->m, variance, n->epsilon));
}

static uint32_t normalised(norm *n, uint32_t x, uint32_t gain, uint32_t offset, uint32_t mean_x,
                           uint32_t variance) {
    maker *m = &n->m;
    uint32_t factor = mul(m, scale_of(n, variance), gain);
    uint32_t y = mul(m, sub(m, x, over_all(n, mean_x)), over_all(n, factor));
    return convert(m, add(m, y, over_all(n, offset)), n->dtype);
}

static shoal_status batch_norm_inference(hlo_call *c) {
    norm n;
    uint32_t x[5];
    SHOAL_TRY(start_norm(c, 1, 5, &n));
    for (int i = 0; i < 5; i++) x[i] = wide_of(&n, c->in[i]);
    c->out[0] = normalised(&n, x[0], x[1], x[2], x[3], x[4]);
    return n.m.status;
}

static shoal_status batch_norm_training(hlo_call *c) {
    norm n;
    uint32_t x[3];
    SHOAL_TRY(start_norm(c, 3, 3, &n));
    for (int i = 0; i < 3; i++) x[i] = wide_of(&n, c->in[i]);
    uint32_t mean_x = mean_of(&n, x[0]), apart = sub(&n.m, x[0], over_all(&n, mean_x));
    uint32_t variance = mean_of(&n, mul(&n.m, apart, apart));
    c->out[0] = normalised(&n, x[0], x[1], x[2], mean_x, variance);
    c->out[1] = convert(&n.m, mean_x, n.dtype);
    c->out[2] = convert(&n.m, variance, n.dtype);
    return n.m.status;
}

/* With u = (x - mean) / sqrt(variance + epsilon) and the gradient g of the result: of x, gain /
 * sqrt(variance + epsilon) (g - mean(g) - u mean(g u)); of the gain, sum(g u); of the offset,
 * sum(g). */
static shoal_status batch_norm_grad(hlo_call *c) {
    norm n;
    uint32_t x[5];
    SHOAL_TRY(start_norm(c, 3, 5, &n));
    maker *m = &n.m;
    for (int i = 0; i < 5; i++) x[i] = wide_of(&n, c->in[i]);
    uint32_t factor = scale_of(&n, x[3]);
    uint32_t u = mul(m, sub(m, x[0], over_all(&n, x[2])), over_all(&n, factor));
    uint32_t gu = mul(m, x[4], u);
    uint32_t rest = sub(m, x[4], over_all(&n, mean_of(&n, x[4])));
    rest = sub(m, rest, mul(m, u, over_all(&n, mean_of(&n, gu))));
    c->out[0] = convert(m, mul(m, rest, over_all(&n, mul(m, factor, x[1]))), n.dtype);
    c->out[1] = convert(m, sum_of(&n, gu), n.dtype);
    c->out[2] = convert(m, sum_of(&n, x[4]), n.dtype);
    return m->status;
}

hlo_rule *hlo_matrix_rule(const char *name) {
    static const hlo_named_rule rules[] = {{"stablehlo.cholesky", cholesky},
                                           {"stablehlo.triangular_solve", triangular_solve},
                                           {"stablehlo.batch_norm_inference", batch_norm_inference},
                                           {"stablehlo.batch_norm_training", batch_norm_training},
                                           {"stablehlo.batch_norm_grad", batch_norm_grad},
                                           {NULL, NULL}};
    return hlo_look_up(rules, name);
}
