/* Factors of matrices, made column by column in a loop, whose text is as long for all sizes. What
 * is chosen of two ways is computed both ways, and the gradient of the other, infinite or NaN,
 * would not vanish where it is multiplied by 0: so nothing is divided by 0, and no root of 0 is
 * taken, where the result is not used. */
#include "graph/stablehlo/matrix.h"

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

/* Sizes of 1 as those of another tensor. */
static uint32_t repeated(maker *m, uint32_t x, uint32_t as) {
    int64_t axes[3];
    uint32_t n = 0;
    if (m->status) return 0;
    shoal_type shape = *type_of(m, as), own = *type_of(m, x), less = {.dtype = own.dtype};
    for (uint32_t i = 0; i < 3; i++)
        if (own.dims[i] == shape.dims[i]) {
            less.dims[less.rank++] = own.dims[i];
            axes[n++] = i;
        }
    shape.dtype = own.dtype;
    return spread(m, reshape(m, x, &less), &shape, axes);
}

/* Whether the number of the row (axis 1) or column (axis 2) of an element is GT, GE, EQ or LT i. */
static uint32_t lies(maker *m, uint32_t x, uint32_t axis, const char *direction, uint32_t i) {
    if (m->status) return 0;
    const shoal_type type = *type_of(m, x);
    uint32_t numbers_ = numbers(m, &type, axis);
    uint32_t other = m->status ? 0 : spread(m, i, type_of(m, numbers_), NULL);
    return compare(m, direction, numbers_, other);
}

/* x, or a number, as the flag says. */
static uint32_t where(maker *m, uint32_t flags, uint32_t x, double otherwise) {
    return choose(m, flags, x, m->status ? 0 : like(m, x, otherwise));
}

static uint32_t is_zero(maker *m, uint32_t x) {
    return m->status ? 0 : compare(m, "EQ", x, like(m, x, 0));
}

/* x / y, which is x where y is 0. */
static uint32_t over_if(maker *m, uint32_t x, uint32_t y) {
    uint32_t unit = m->status ? 0 : like(m, y, 1);
    return over(m, x, repeated(m, choose(m, is_zero(m, y), unit, y), x));
}

/* ---- loops: "for i below n", which carries i and a state ---- */

enum { MOST_STATE = 3 };

typedef struct loop {
    int64_t n;
    bool unit, upper; /* of a triangle: the diagonal is 1; from the last row on */
    bool of_qr;       /* of reflections: that one has made them */
} loop;

/* Changes the state. */
typedef void step(maker *m, const loop *l, uint32_t i, uint32_t *state);

static const shoal_graph *body_of(maker *m, const loop *l, const uint32_t *carried, uint32_t n,
                                  step *make) {
    graph *g = NULL;
    uint32_t in[1 + MOST_STATE] = {0};
    if (!m->status) m->status = graph_add_region(m->g, &g);
    for (uint32_t i = 0; i < n && !m->status; i++) {
        const shoal_type type = *type_of(m, carried[i]);
        m->status = graph_add_input(g, &type, &in[i]);
    }
    if (m->status) return NULL;
    maker b = {g, SHOAL_OK};
    if (!make) {
        uint32_t more = compare(&b, "LT", in[0], like(&b, in[0], (double)l->n));
        if (!b.status) b.status = graph_add_output(g, more);
    } else {
        make(&b, l, in[0], in + 1);
        in[0] = plus(&b, in[0], 1);
        for (uint32_t i = 0; i < n && !b.status; i++) b.status = graph_add_output(g, in[i]);
    }
    m->status = b.status;
    return graph_data(g);
}

static void run(maker *m, const loop *l, uint32_t *state, uint32_t n, step *make) {
    uint32_t carried[1 + MOST_STATE], first = 0;
    if (m->status) return;
    carried[0] = splat(m, (shoal_type){.dtype = SHOAL_I64}, 0);
    memcpy(carried + 1, state, n * sizeof *state);
    const shoal_graph *bodies[] = {body_of(m, l, carried, 1 + n, NULL),
                                   body_of(m, l, carried, 1 + n, make)};
    if (!m->status)
        m->status = graph_add(m->g, GRAPH_WHILE, carried, 1 + n, NULL, 0, bodies, 2, &first);
    for (uint32_t i = 0; i < n; i++) state[i] = first + 1 + i;
}

/* ---- cholesky ---- */

/* Column i of the factor: that of the matrix, less what the columns before it make of it, divided
 * by the root of its own diagonal element, which stands there itself: inf / inf would be NaN. */
static void cholesky_step(maker *m, const loop *l, uint32_t i, uint32_t *state) {
    (void)l;
    uint32_t so_far = state[1], made = product(m, so_far, line_of(m, so_far, 1, i), 1, 2, 2);
    uint32_t column = sub(m, line_of(m, state[0], 2, i), made);
    column = where(m, lies(m, column, 1, "GE", i), column, 0); /* above it may be anything */
    uint32_t root = one(m, GRAPH_SQRT, line_of(m, column, 1, i));
    column = with_line(m, over(m, column, repeated(m, root, column)), 1, i, root);
    state[1] = with_line(m, so_far, 2, i, column);
}

uint32_t hlo_cholesky(maker *m, uint32_t x, bool lower) {
    if (m->status || !base_type_count(type_of(m, x))) return x;
    const shoal_type type = *type_of(m, x);
    const loop l = {.n = type.dims[type.rank - 1]};
    uint32_t a = as_batch(m, widen(m, x));
    if (!lower) a = turned(m, a);
    uint32_t state[] = {a, m->status ? 0 : like(m, a, 0)};
    run(m, &l, state, 2, cholesky_step);
    uint32_t y = lower ? state[1] : turned(m, state[1]);
    return convert(m, reshape(m, y, &type), type.dtype);
}

/* ---- systems of equations ---- */

/* The last comes first. */
static uint32_t from_end(maker *m, const loop *l, uint32_t i) {
    return m->status ? 0 : sub(m, like(m, i, (double)(l->n - 1)), i);
}

/* A row of the solution, from the rows that are solved. Of the matrix, only what belongs to those
 * is multiplied: NaN and inf elsewhere times rows that are still 0 would be NaN. */
static void solve_step(maker *m, const loop *l, uint32_t i, uint32_t *state) {
    if (l->upper) i = from_end(m, l, i);
    uint32_t row = line_of(m, state[0], 1, i);
    uint32_t solved = where(m, lies(m, row, 2, l->upper ? "GT" : "LT", i), row, 0);
    uint32_t x = sub(m, line_of(m, state[1], 1, i), product(m, solved, state[2], 1, 2, 1));
    if (!l->unit) x = over(m, x, repeated(m, line_of(m, row, 2, i), x));
    state[2] = with_line(m, state[2], 1, i, x);
}

/* From the right, both are turned. */
uint32_t hlo_triangular_solve(maker *m, uint32_t matrix, uint32_t right, const hlo_triangle *how) {
    if (m->status || !base_type_count(type_of(m, right))) return right;
    const shoal_type type = *type_of(m, right);
    bool turn = how->transposed == how->left;
    const loop l = {.n = type_of(m, matrix)->dims[type.rank - 1],
                    .unit = how->unit,
                    .upper = how->lower == turn};
    uint32_t a = as_batch(m, widen(m, matrix)), b = as_batch(m, widen(m, right));
    if (!how->left) b = turned(m, b);
    if (turn) a = turned(m, a);
    uint32_t state[] = {a, b, m->status ? 0 : like(m, b, 0)};
    run(m, &l, state, 3, solve_step);
    uint32_t x = how->left ? state[2] : turned(m, state[2]);
    return convert(m, reshape(m, x, &type), type.dtype);
}

/* ---- lu ---- */

/* The shape of a number for each row of the smaller side. */
static shoal_type for_side(const shoal_type *matrix, shoal_dtype dtype) {
    shoal_type type = *matrix;
    int64_t last = type.dims[type.rank - 1];
    type.rank--;
    if (last < type.dims[type.rank - 1]) type.dims[type.rank - 1] = last;
    type.dtype = (uint8_t)dtype;
    return type;
}

/* The same as a batch of rows. */
static shoal_type side_of(const maker *m, uint32_t batch, shoal_dtype dtype) {
    shoal_type type = for_side(type_of(m, batch), dtype);
    type.rank = 3;
    type.dims[2] = type.dims[1];
    type.dims[1] = 1;
    return type;
}

/* The number of the row, from i on, whose element of a column is the largest. */
static uint32_t find_pivot(maker *m, uint32_t column, uint32_t i) {
    uint32_t size = where(m, lies(m, column, 1, "GE", i), one(m, GRAPH_ABS, column), -1);
    const shoal_attr attrs[] = {graph_int(SHOAL_ATTR_DIMENSION, 1),
                                graph_int(SHOAL_ATTR_DTYPE, SHOAL_I64)};
    uint32_t at = node(m, GRAPH_ARGMAX, &size, 1, attrs, 2, NULL);
    if (m->status) return 0;
    shoal_type single = *type_of(m, column);
    single.dtype = SHOAL_I64;
    single.dims[1] = 1;
    return reshape(m, at, &single);
}

/* Rows (axis 1) or columns (axis 2) i and `at`, of which each matrix has its own, change places. */
static uint32_t exchanged(maker *m, uint32_t x, uint32_t axis, uint32_t i, uint32_t at) {
    if (m->status) return 0;
    const shoal_type type = *type_of(m, x);
    uint32_t own = line_of(m, x, axis, i);
    uint32_t places = numbers(m, &type, axis),
             is_other = compare(m, "EQ", places, repeated(m, at, x));
    uint32_t other = join(m, GRAPH_ADD, where(m, is_other, x, 0), axis);
    if (m->status) return 0;
    other = reshape(m, other, type_of(m, own));
    return with_line(m, choose(m, is_other, repeated(m, own, x), x), axis, i, other);
}

/* Column i of the lower factor, and the matrix less what it makes of row i: of what is done
 * already, which may be infinite, nothing is taken. */
static void lu_step(maker *m, const loop *l, uint32_t i, uint32_t *state) {
    (void)l;
    uint32_t at = find_pivot(m, line_of(m, state[0], 2, i), i),
             a = exchanged(m, state[0], 1, i, at);
    uint32_t row = line_of(m, a, 1, i), column = line_of(m, a, 2, i);
    uint32_t is_below = lies(m, column, 1, "GT", i);
    uint32_t factors = over_if(m, where(m, is_below, column, 0), line_of(m, row, 2, i));
    uint32_t rest = sub(m, a, mul(m, repeated(m, factors, a), repeated(m, row, a)));
    rest = choose(m, lies(m, a, 1, "GT", i), choose(m, lies(m, a, 2, "GT", i), rest, a), a);
    state[0] = with_line(m, rest, 2, i, choose(m, is_below, factors, column));
    state[1] = with_line(m, state[1], 2, i, convert(m, at, SHOAL_I32));
}

void hlo_lu(maker *m, uint32_t x, uint32_t *factors, uint32_t *pivots) {
    if (m->status) return;
    const shoal_type type = *type_of(m, x), side = for_side(&type, SHOAL_I32);
    *factors = x;
    *pivots = splat(m, side, 0);
    if (!base_type_count(&type)) return;
    uint32_t a = as_batch(m, widen(m, x));
    if (m->status) return;
    const loop l = {.n = side.dims[side.rank - 1]};
    uint32_t state[] = {a, splat(m, side_of(m, a, SHOAL_I32), 0)};
    run(m, &l, state, 2, lu_step);
    *factors = convert(m, reshape(m, state[0], &type), type.dtype);
    *pivots = reshape(m, state[1], &side);
}

static void permutation_step(maker *m, const loop *l, uint32_t i, uint32_t *state) {
    (void)l;
    uint32_t at = convert(m, line_of(m, state[0], 2, i), SHOAL_I64);
    state[1] = exchanged(m, state[1], 2, i, at);
}

uint32_t hlo_permutation(maker *m, uint32_t pivots, int64_t n) {
    if (m->status) return 0;
    shoal_type type = *type_of(m, pivots),
               batch = {.dtype = type.dtype, .rank = 3, .dims = {1, 1, 0}};
    const loop l = {.n = batch.dims[2] = type.dims[type.rank - 1]};
    for (uint32_t i = 0; i + 1 < type.rank; i++) batch.dims[0] *= type.dims[i];
    uint32_t rows = reshape(m, pivots, &batch);
    batch.dims[2] = type.dims[type.rank - 1] = n;
    uint32_t state[] = {rows, convert(m, numbers(m, &batch, 2), type.dtype)};
    if (base_type_count(&batch) && l.n) run(m, &l, state, 2, permutation_step);
    return reshape(m, state[1], &type);
}

/* ---- qr ---- */

/* The vector of reflection i: 1 on the diagonal, what column i has below it, 0 above. */
static uint32_t vector_of(maker *m, uint32_t column, uint32_t i) {
    uint32_t unit = m->status ? 0 : like(m, column, 1);
    uint32_t inside = where(m, lies(m, column, 1, "EQ", i), unit, 0);
    return choose(m, lies(m, column, 1, "GT", i), column, inside);
}

/* x - scale v (v^T x) */
static uint32_t reflected(maker *m, uint32_t x, uint32_t v, uint32_t scale) {
    uint32_t row = product(m, v, x, 1, 1, 1);
    return sub(m, x, mul(m, repeated(m, mul(m, v, repeated(m, scale, v)), x), repeated(m, row, x)));
}

/* The same for v of column i. Where nothing had to go (`flat`), v is of the diagonal alone, and the
 * scale of 0 would hide the slope of what makes the factors of matrices nearby: there the sign of
 * row i changes twice, by a whole reflection and by itself, before it if it is `back` (H x, else
 * H^T x). That leaves all numbers as they are, also those that are not finite. */
static uint32_t reflected_at(maker *m, uint32_t x, uint32_t v, uint32_t scale, uint32_t i,
                             uint32_t flat, bool back) {
    uint32_t square = product(m, v, v, 1, 1, 1);
    if (m->status) return 0;
    uint32_t stays = repeated(m, flat, x);
    uint32_t turns = two(m, GRAPH_AND, stays, lies(m, x, 1, "EQ", i));
    uint32_t from = back ? choose(m, turns, one(m, GRAPH_NEGATE, x), x) : x;
    scale = choose(m, flat, over(m, like(m, square, 2), square), scale);
    uint32_t y = reflected(m, from, v, scale);
    if (!back) y = choose(m, turns, one(m, GRAPH_NEGATE, y), y);
    if (m->status) return 0;
    uint32_t differs = two(m, GRAPH_AND, stays, compare(m, "NE", y, x));
    return choose(m, differs, x, y);
}

/* The reflection that leaves of column i nothing below the diagonal. Its squares are summed after
 * division by its largest element: of 1e200 they are infinite, and of 1e-200 they are 0. */
static void qr_step(maker *m, const loop *l, uint32_t i, uint32_t *state) {
    (void)l;
    uint32_t a = state[0], column = line_of(m, a, 2, i), first = line_of(m, column, 1, i);
    uint32_t below = lies(m, column, 1, "GT", i), rest = where(m, below, column, 0);
    uint32_t inside = where(m, lies(m, column, 1, "GE", i), one(m, GRAPH_ABS, column), 0);
    if (m->status) return;
    const shoal_type number = *type_of(m, first);
    uint32_t size = reshape(m, join(m, GRAPH_MAXIMUM, inside, 1), &number);
    uint32_t most = reshape(m, join(m, GRAPH_MAXIMUM, one(m, GRAPH_ABS, rest), 1), &number);
    if (m->status) return;
    uint32_t flat = is_zero(m, most), unit = like(m, size, 1);
    size = choose(m, is_zero(m, size), unit, size);
    rest = over(m, rest, repeated(m, size, rest));
    uint32_t scaled = over(m, first, size);
    uint32_t sum = reshape(m, join(m, GRAPH_ADD, mul(m, rest, rest), 1), &number);
    uint32_t square = add(m, sum, mul(m, scaled, scaled)), is_nothing = is_zero(m, square);
    uint32_t norm = one(m, GRAPH_SQRT, choose(m, is_nothing, unit, square));
    uint32_t negative = m->status ? 0 : compare(m, "LT", first, like(m, first, 0));
    uint32_t end = choose(m, negative, norm, one(m, GRAPH_NEGATE, norm));
    uint32_t scale = where(m, one(m, GRAPH_NOT, flat), over(m, sub(m, end, scaled), end), 0);
    uint32_t apart = choose(m, is_nothing, unit, sub(m, scaled, end));
    uint32_t v = vector_of(m, over(m, rest, repeated(m, apart, rest)), i);
    uint32_t after = reflected_at(m, a, v, scale, i, flat, false);
    after = choose(m, lies(m, a, 2, "GT", i), after, a);
    uint32_t on_it = mul(m, choose(m, flat, one(m, GRAPH_NEGATE, end), end), size);
    uint32_t top = with_line(m, column, 1, i, choose(m, is_nothing, first, on_it));
    state[0] = with_line(m, after, 2, i, choose(m, below, v, top));
    state[1] = with_line(m, state[1], 2, i, scale);
}

void hlo_qr(maker *m, uint32_t x, uint32_t *factors, uint32_t *scales) {
    if (m->status) return;
    const shoal_type type = *type_of(m, x), side = for_side(&type, (shoal_dtype)type.dtype);
    *factors = x;
    *scales = splat(m, side, 0);
    if (!base_type_count(&type)) return;
    uint32_t a = as_batch(m, widen(m, x));
    if (m->status) return;
    const loop l = {.n = side.dims[side.rank - 1]};
    uint32_t state[] = {a, splat(m, side_of(m, a, (shoal_dtype)type_of(m, a)->dtype), 0)};
    run(m, &l, state, 2, qr_step);
    *factors = convert(m, reshape(m, state[0], &type), type.dtype);
    *scales = convert(m, reshape(m, state[1], &side), type.dtype);
}

/* The last reflection comes first. */
static void reflection_step(maker *m, const loop *l, uint32_t i, uint32_t *state) {
    i = from_end(m, l, i);
    uint32_t v = vector_of(m, line_of(m, state[0], 2, i), i);
    uint32_t scale = line_of(m, state[1], 2, i);
    if (!l->of_qr) {
        state[2] = reflected(m, state[2], v, scale);
        return;
    }
    state[2] = reflected_at(m, state[2], v, scale, i, is_zero(m, scale), true);
}

uint32_t hlo_reflections(maker *m, uint32_t factors, uint32_t scales, bool of_qr) {
    if (m->status || !base_type_count(type_of(m, factors))) return factors;
    const shoal_type type = *type_of(m, factors);
    uint32_t a = as_batch(m, widen(m, factors)), by = widen(m, scales);
    if (m->status) return 0;
    const shoal_type batch = *type_of(m, a), own = *type_of(m, scales);
    const loop l = {.n = own.dims[own.rank - 1], .of_qr = of_qr};
    const shoal_type row = {.dtype = batch.dtype, .rank = 3, .dims = {batch.dims[0], 1, l.n}};
    uint32_t is_diagonal = compare(m, "EQ", numbers(m, &batch, 1), numbers(m, &batch, 2));
    uint32_t state[] = {a, reshape(m, by, &row), convert(m, is_diagonal, batch.dtype)};
    if (l.n) run(m, &l, state, 3, reflection_step);
    return convert(m, reshape(m, state[2], &type), type.dtype);
}
