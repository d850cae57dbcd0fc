/* Batch normalisation: statistics over all axes but one. */
#include "graph/stablehlo/import.h"

#include "graph/maker.h"

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

hlo_rule *hlo_norm_rule(const char *name) {
    static const hlo_named_rule rules[] = {{"stablehlo.batch_norm_inference", batch_norm_inference},
                                           {"stablehlo.batch_norm_training", batch_norm_training},
                                           {"stablehlo.batch_norm_grad", batch_norm_grad},
                                           {NULL, NULL}};
    return hlo_look_up(rules, name);
}
