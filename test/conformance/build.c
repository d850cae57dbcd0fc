/* Building cases: see build.h. */
#include "build.h"

#include "backend/ref/number.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static case_visitor visitor;
static void *visitor_context;
static uint64_t random_state;

uint64_t build_random(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = random_state ^ random_state >> 33;
    return x * UINT64_C(0xff51afd7ed558ccd) ^ x >> 29;
}

/* ---- inputs ---- */

static const double specials[] = {
    0.0,          -0.0,    NAN,      INFINITY, -INFINITY, 1,      -1,     0.5,    -2.5,  3,
    1e-3,         FLT_MAX, -FLT_MAX, 1e-45,    FLT_MIN,   65504,  -1e300, 1e300,  255.5, -128.5,
    2147483648.0, 1e-310,  65520,    0.1,      87.5,      -103.5, 9.3e18, -9.3e18};
enum { N_SPECIALS = sizeof specials / sizeof specials[0] };

bool build_flushes;

bool build_is_subnormal(uint8_t dtype, double value) {
    return value != 0 && fabs(value) < (dtype == SHOAL_F64 ? DBL_MIN : FLT_MIN);
}

void build_put_float(uint8_t dtype, void *to, int64_t at, double value) {
    if (build_flushes && build_is_subnormal(dtype, value)) value = 0;
    switch (dtype) {
    case SHOAL_F16: ((uint16_t *)to)[at] = ref_to_half(value); break;
    case SHOAL_BF16: ((uint16_t *)to)[at] = ref_to_bfloat(value); break;
    case SHOAL_F32: ((float *)to)[at] = (float)value; break;
    default: ((double *)to)[at] = value; break;
    }
}

static uint64_t special_integer(uint64_t which, int bits, bool has_sign) {
    uint64_t most = UINT64_MAX >> (64 - bits);
    switch (which % 8) {
    case 0: return 0;
    case 1: return 1;
    case 2: return most; /* -1, or the largest */
    case 3: return has_sign ? most >> 1 : most;
    case 4: return has_sign ? (most >> 1) + 1 : most >> 1;
    case 5: return 2;
    case 6: return most - 1;
    default: return build_random();
    }
}

void *build_input(const shoal_type *type, fill how, uint64_t turn) {
    int64_t count = base_type_count(type);
    size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
    char kind = shoal_dtype_kind((shoal_dtype)type->dtype);
    char *data = aligned_alloc(64, ((size_t)count * bytes + 64) & ~(size_t)63);
    if (!data) exit(2);
    for (int64_t i = 0; i < count; i++) {
        uint64_t pick = turn ? (uint64_t)i / (kind == 'f' ? N_SPECIALS : 8) : (uint64_t)i;
        double random = (double)(int64_t)(build_random() >> 12) * 0x1p-51 - 1;
        bool special = how == FILL_SPECIAL && build_random() % 4;
        if (kind == 'f') {
            double value = how == FILL_INDEX ? (double)i : how == FILL_TAME ? random : random * 6;
            build_put_float(type->dtype, data, i, special ? specials[pick % N_SPECIALS] : value);
        } else if (kind == 'b') {
            data[i] = (char)(build_random() & 1);
        } else {
            uint64_t value = how == FILL_INDEX ? (uint64_t)i : build_random() % 7;
            if (special) value = special_integer(pick, 8 * (int)bytes, kind == 'i');
            memcpy(data + (size_t)i * bytes, &value, bytes); /* the low bytes */
        }
    }
    return data;
}

/* ---- building ---- */

shoal_type build_type(uint8_t dtype, const int64_t *dims, int rank) {
    shoal_type type = {.dtype = dtype, .rank = (uint8_t)rank};
    for (int i = 0; i < rank; i++) type.dims[i] = dims[i];
    return type;
}

shoal_attr build_ints(shoal_attr_key key, const int64_t *values, int count) {
    return graph_ints(key, values, (size_t)count);
}

void build_visit_and_free(test_case *c) {
    visitor(visitor_context, c);
    graph_destroy(&c->graph);
    for (int i = 0; i < MAX_INPUTS; i++) free(c->inputs[i]);
}

void build_name(test_case *c, const char *op, const shoal_type *types, uint32_t n) {
    char text[BASE_TYPE_TEXT];
    size_t used = (size_t)snprintf(c->name, sizeof c->name, "%s", op);
    for (uint32_t i = 0; i < n && used < sizeof c->name; i++)
        used += (size_t)snprintf(c->name + used, sizeof c->name - used, " %s",
                                 base_type_text(&types[i], text));
}

void build_must(shoal_status status) {
    if (!status) return;
    fprintf(stderr, "conformance: cannot build a case: %s\n", shoal_error_message());
    exit(2);
}

bool build_node(uint16_t op, const shoal_type *types, uint32_t n_inputs, const shoal_attr *attrs,
                uint16_t n_attrs, closeness close, int64_t terms, fill how) {
    graph_call call = {.op = op, .n_inputs = n_inputs, .inputs = types, .n_attrs = n_attrs};
    shoal_attr sorted[8];
    if (n_attrs) memcpy(sorted, attrs, n_attrs * sizeof *attrs);
    for (int i = 1; i < n_attrs; i++)
        for (int j = i; j > 0 && sorted[j].key < sorted[j - 1].key; j--) {
            shoal_attr swap = sorted[j];
            sorted[j] = sorted[j - 1], sorted[j - 1] = swap;
        }
    call.attrs = sorted;
    shoal_type out[4];
    uint16_t n_out;
    if (graph_infer(&call, out, 4, &n_out)) return false;
    test_case c = {.close = close, .terms = terms};
    uint32_t values[MAX_INPUTS], result;
    build_name(&c, shoal_op_name(op), types, n_inputs);
    build_must(graph_new(0, &c.graph));
    for (uint32_t i = 0; i < n_inputs; i++) {
        build_must(graph_add_input(c.graph, &types[i], &values[i]));
        c.inputs[i] = build_input(&types[i], how, i % 2);
    }
    build_must(graph_add(c.graph, op, values, n_inputs, sorted, n_attrs, NULL, 0, &result));
    for (uint16_t i = 0; i < n_out; i++) build_must(graph_add_output(c.graph, result + i));
    build_visit_and_free(&c);
    return true;
}

void build_begin(case_visitor visit, void *context) {
    visitor = visit;
    visitor_context = context;
    random_state = 20260101;
}

shoal_status each_case(case_visitor visit, void *context) {
    build_begin(visit, context);
    cases_basic();
    cases_composite();
    cases_index();
    cases_window();
    cases_large();
    return SHOAL_OK;
}
