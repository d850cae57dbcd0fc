/* Linear algebra: the standard's cholesky and triangular_solve, and the libraries' functions that
 * JAX calls for what is more. */
#include "graph/stablehlo/import.h"

#include "graph/stablehlo/matrix.h"

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
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = hlo_cholesky(&m, c->in[0], lower);
    return m.status;
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

static shoal_status solve(hlo_call *c, const hlo_triangle *how) {
    SHOAL_TRY(hlo_need(c, 2, 1));
    SHOAL_TRY(need_matrix(c, 0, true));
    SHOAL_TRY(need_matrix(c, 1, false));
    SHOAL_TRY(check_sides(c, how->left));
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = hlo_triangular_solve(&m, c->in[0], c->in[1], how);
    return m.status;
}

static shoal_status triangular_solve(hlo_call *c) {
    hlo_triangle how;
    const hlo_attr *transpose = hlo_attr_of(c, "transpose_a", NULL);
    SHOAL_TRY(flag_of(c, "left_side", &how.left));
    SHOAL_TRY(flag_of(c, "lower", &how.lower));
    SHOAL_TRY(flag_of(c, "unit_diagonal", &how.unit));
    how.transposed =
        transpose && (hlo_is(transpose->text, "TRANSPOSE") || hlo_is(transpose->text, "ADJOINT"));
    if (transpose && !how.transposed && !hlo_is(transpose->text, "NO_TRANSPOSE"))
        return hlo_fail(c, "transpose_a is none of NO_TRANSPOSE, TRANSPOSE, ADJOINT");
    return solve(c, &how);
}

hlo_rule *hlo_linear_rule(const char *name) {
    static const hlo_named_rule rules[] = {{"stablehlo.cholesky", cholesky},
                                           {"stablehlo.triangular_solve", triangular_solve},
                                           {NULL, NULL}};
    return hlo_look_up(rules, name);
}

/* ---- what libraries are called for ---- */

/* The attribute of a call is a letter, of which the first stands for true. */
static shoal_status letter_of(const hlo_call *c, const char *name, const char *letters, bool *out) {
    int64_t value;
    SHOAL_TRY(hlo_int(c, hlo_setting(c, name), -1, &value));
    for (const char *at = letters; *at; at++) {
        *out = at == letters;
        if (value == *at) return SHOAL_OK;
    }
    return hlo_fail(c, "%s is none of the letters %s", name, letters);
}

/* Which triangle: the letter of LAPACK, or a flag. */
static shoal_status is_lower(const hlo_call *c, bool *out) {
    int64_t value;
    if (!hlo_setting(c, "lower")) return letter_of(c, "uplo", "LU", out);
    SHOAL_TRY(hlo_int(c, hlo_setting(c, "lower"), 0, &value));
    *out = value != 0;
    return SHOAL_OK;
}

/* The number, from 1 on, of the first element of the diagonal that is not well; 0: all are. */
static uint32_t first_wrong(maker *m, uint32_t x, const char *wrong, bool negated) {
    if (m->status) return 0;
    const shoal_type type = *type_of(m, x);
    int64_t axes[] = {type.rank - 2, type.rank - 1}, n = type.dims[type.rank - 1];
    uint32_t rows = numbers(m, &type, axes[0]), columns = numbers(m, &type, axes[1]);
    uint32_t flags = compare(m, wrong, x, like(m, x, 0));
    if (negated) flags = one(m, GRAPH_NOT, flags);
    flags = two(m, GRAPH_AND, flags, compare(m, "EQ", rows, columns));
    if (m->status) return 0;
    /* -i of those, of which the largest is the first; -(n + 1) of the others */
    uint32_t number = one(m, GRAPH_NEGATE, plus(m, rows, 1));
    number = choose(m, flags, number, like(m, number, -(double)(n + 1)));
    uint32_t found =
        one(m, GRAPH_NEGATE, join_axes(m, GRAPH_MAXIMUM, convert(m, number, SHOAL_F64), axes, 2));
    if (m->status) return 0;
    uint32_t none = compare(m, "GT", found, like(m, found, (double)n));
    return convert(m, choose(m, none, like(m, found, 0), found), SHOAL_I32);
}

/* The other triangle stays as it is. */
static shoal_status potrf(hlo_call *c) {
    bool lower;
    SHOAL_TRY(hlo_need(c, 1, 2));
    SHOAL_TRY(need_matrix(c, 0, true));
    SHOAL_TRY(is_lower(c, &lower));
    maker m = {c->s->g, SHOAL_OK};
    const shoal_type type = *hlo_type_of(c, 0);
    uint32_t factor = hlo_cholesky(&m, c->in[0], lower);
    uint32_t rows = numbers(&m, &type, type.rank - 2), columns = numbers(&m, &type, type.rank - 1);
    uint32_t inside = compare(&m, lower ? "GE" : "LE", rows, columns);
    c->out[0] = choose(&m, inside, factor, c->in[0]);
    c->out[1] = first_wrong(&m, factor, "GT", true);
    return m.status;
}

static shoal_status trsm(hlo_call *c) {
    hlo_triangle how;
    bool plain;
    SHOAL_TRY(letter_of(c, "side", "LR", &how.left));
    SHOAL_TRY(letter_of(c, "uplo", "LU", &how.lower));
    SHOAL_TRY(letter_of(c, "diag", "UN", &how.unit));
    SHOAL_TRY(letter_of(c, "trans_x", "NTC", &plain));
    how.transposed = !plain;
    return solve(c, &how);
}

static shoal_status lu(hlo_call *c) {
    bool counts_from_one = !hlo_is(hlo_target(c), "LuDecomposition");
    SHOAL_TRY(hlo_need(c, 1, 3));
    SHOAL_TRY(need_matrix(c, 0, false));
    maker m = {c->s->g, SHOAL_OK};
    const shoal_type type = *hlo_type_of(c, 0);
    hlo_lu(&m, c->in[0], &c->out[0], &c->out[1]);
    c->out[2] = counts_from_one ? first_wrong(&m, c->out[0], "EQ", false)
                                : hlo_permutation(&m, c->out[1], type.dims[type.rank - 2]);
    if (counts_from_one && !m.status) c->out[1] = plus(&m, c->out[1], 1);
    return m.status;
}

static shoal_status permutation(hlo_call *c) {
    shoal_type to;
    SHOAL_TRY(hlo_need(c, 1, 1));
    SHOAL_TRY(hlo_shape(c, UINT32_MAX, &to));
    const shoal_type type = *hlo_type_of(c, 0);
    if (type.rank != to.rank || !type.rank || type.dtype != SHOAL_I32 ||
        to.dims[to.rank - 1] < type.dims[to.rank - 1])
        return hlo_fail(c, "its operand has no int32 for each of the first rows");
    maker m = {c->s->g, SHOAL_OK};
    c->out[0] = hlo_permutation(&m, c->in[0], to.dims[to.rank - 1]);
    return m.status;
}

static uint64_t key_of(const hlo_call *c, uint32_t value) {
    const uint64_t of[] = {(uintptr_t)c->s->g, value};
    return base_hash((const char *)of, sizeof of);
}

static shoal_status qr(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 1, 2));
    SHOAL_TRY(need_matrix(c, 0, false));
    maker m = {c->s->g, SHOAL_OK};
    hlo_qr(&m, c->in[0], &c->out[0], &c->out[1]);
    SHOAL_TRY(m.status);
    return base_map_set(&c->s->in->of_qr, key_of(c, c->out[1]), c->s->in);
}

static shoal_status reflections(hlo_call *c) {
    SHOAL_TRY(hlo_need(c, 2, 1));
    SHOAL_TRY(need_matrix(c, 0, false));
    const shoal_type *a = hlo_type_of(c, 0), *scales = hlo_type_of(c, 1);
    bool fits = scales->rank + 1 == a->rank && scales->dtype == a->dtype &&
                scales->dims[scales->rank - 1] <= a->dims[a->rank - 1] &&
                scales->dims[scales->rank - 1] <= a->dims[a->rank - 2];
    for (uint32_t i = 0; fits && i + 1 < scales->rank; i++) fits = scales->dims[i] == a->dims[i];
    if (!fits) return hlo_fail(c, "operand 1 has no factor for each reflection of operand 0");
    maker m = {c->s->g, SHOAL_OK};
    bool of_qr = base_map_get(&c->s->in->of_qr, key_of(c, c->in[1]));
    c->out[0] = hlo_reflections(&m, c->in[0], c->in[1], of_qr);
    return m.status;
}

/* JAX's names of functions: those of LAPACK for the processor, others for each kind of GPU and for
 * TPUs. */
hlo_rule *hlo_library_rule(const char *target) {
    static const hlo_named_rule rules[] = {{"potrf_ffi", potrf},       {"trsm_ffi", trsm},
                                           {"getrf_ffi", lu},          {"geqrf_ffi", qr},
                                           {"orgqr_ffi", reflections}, {NULL, NULL}};
    static const hlo_named_rule whole[] = {
        {"LuDecomposition", lu},
        {"cu_lu_pivots_to_permutation", permutation},
        {"hip_lu_pivots_to_permutation", permutation},
        {"Qr", qr},
        {"ProductOfElementaryHouseholderReflectors", reflections},
        {NULL, NULL}};
    static const char *const prefixes[] = {"lapack_s", "lapack_d", "cusolver_", "hipsolver_"};
    hlo_rule *rule = hlo_look_up(whole, target);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !rule; i++)
        if (!strncmp(target, prefixes[i], strlen(prefixes[i])))
            rule = hlo_look_up(rules, target + strlen(prefixes[i]));
    return rule;
}
