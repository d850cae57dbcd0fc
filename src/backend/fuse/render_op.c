/* The expressions of operations, in the words that every dialect's prelude has. */
#include "backend/fuse/render.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* In an expression: $0, $1, $2 are operands, $T is the operands' type, $U the unsigned one of its
 * width, $N its bits. NULL: there is none. */
typedef struct expression {
    const char *of_float, *of_signed, *of_unsigned, *of_bool;
} expression;

#define MATH(name) "MATH_$T(" name ")($0)"
#define MATH_2(name) "MATH_$T(" name ")($0, $1)"
#define WRAP(operator) "($T)((u64)$0 " operator" (u64)$1)"
#define SAME(text) text, text
#define ALL(text) text, text, text, text

static const expression expressions[GRAPH_OP_BUILT_IN] = {
    [GRAPH_NEGATE] = {"-$0", SAME("($T)(0 - (u64)$0)"), NULL},
    [GRAPH_ABS] = {MATH("fabs"), "$0 < 0 ? ($T)(0 - (u64)$0) : $0", "$0", NULL},
    [GRAPH_EXPONENTIAL] = {.of_float = MATH("exp")},
    [GRAPH_LOG] = {.of_float = MATH("log")},
    [GRAPH_SQRT] = {.of_float = MATH("sqrt")},
    [GRAPH_RSQRT] = {.of_float = "1 / MATH_$T(sqrt)($0)"},
    [GRAPH_TANH] = {.of_float = MATH("tanh")},
    [GRAPH_ERF] = {.of_float = MATH("erf")},
    [GRAPH_COSINE] = {.of_float = MATH("cos")},
    [GRAPH_SINE] = {.of_float = MATH("sin")},
    [GRAPH_TAN] = {.of_float = MATH("tan")},
    [GRAPH_CBRT] = {.of_float = MATH("cbrt")},
    [GRAPH_CEIL] = {.of_float = MATH("ceil")},
    [GRAPH_FLOOR] = {.of_float = MATH("floor")},
    [GRAPH_EXPONENTIAL_MINUS_ONE] = {.of_float = MATH("expm1")},
    [GRAPH_LOG_PLUS_ONE] = {.of_float = MATH("log1p")},
    [GRAPH_ROUND_NEAREST_AFZ] = {.of_float = MATH("round")},
    [GRAPH_ROUND_NEAREST_EVEN] = {.of_float = MATH("rint")},
    [GRAPH_LOGISTIC] = {.of_float = "logistic_$T($0)"},
    [GRAPH_SIGN] = {"$0 > 0 ? 1 : $0 < 0 ? -1 : $0", "($T)(($0 > 0) - ($0 < 0))", "($T)($0 > 0)",
                    NULL},
    [GRAPH_IS_FINITE] = {.of_float = "(u8)($0 - $0 == 0)"},
    [GRAPH_ADD] = {"$0 + $1", SAME(WRAP("+")), "$0 | $1"},
    [GRAPH_SUBTRACT] = {"$0 - $1", SAME(WRAP("-")), NULL},
    [GRAPH_MULTIPLY] = {"$0 * $1", SAME(WRAP("*")), "$0 & $1"},
    [GRAPH_DIVIDE] = {"$0 / $1", "$1 == 0 ? ($T)-1 : $1 == -1 ? ($T)(0 - (u64)$0) : ($T)($0 / $1)",
                      "$1 == 0 ? ($T)-1 : ($T)($0 / $1)", NULL},
    [GRAPH_REMAINDER] = {MATH_2("fmod"), "$1 == 0 ? $0 : $1 == -1 ? ($T)0 : ($T)($0 % $1)",
                         "$1 == 0 ? $0 : ($T)($0 % $1)", NULL},
    [GRAPH_MAXIMUM] = {"max_$T($0, $1)", SAME("$0 > $1 ? $0 : $1"), "$0 | $1"},
    [GRAPH_MINIMUM] = {"min_$T($0, $1)", SAME("$0 < $1 ? $0 : $1"), "$0 & $1"},
    [GRAPH_POWER] = {MATH_2("pow"), "($T)power_i64($0, $1)", "($T)power_u64($0, $1)", NULL},
    [GRAPH_ATAN2] = {.of_float = MATH_2("atan2")},
    [GRAPH_AND] = {NULL, SAME("($T)($0 & $1)"), "$0 & $1"},
    [GRAPH_OR] = {NULL, SAME("($T)($0 | $1)"), "$0 | $1"},
    [GRAPH_XOR] = {NULL, SAME("($T)($0 ^ $1)"), "$0 ^ $1"},
    [GRAPH_NOT] = {NULL, SAME("($T)~$0"), "(u8)!$0"},
    [GRAPH_POPCNT] = {NULL, SAME("($T)count_bits(($U)$0)"), NULL},
    [GRAPH_COUNT_LEADING_ZEROS] = {NULL, SAME("($T)leading_zeros(($U)$0, $N)"), NULL},
    [GRAPH_SHIFT_LEFT] = {NULL, SAME("($T)shift_left(($U)$0, (u64)$1, $N)"), NULL},
    [GRAPH_SHIFT_RIGHT_LOGICAL] = {NULL, SAME("($T)shift_right(($U)$0, (u64)$1, $N)"), NULL},
    [GRAPH_SHIFT_RIGHT_ARITHMETIC] = {NULL, SAME("($T)shift_sign(($U)$0, (u64)$1, $N)"), NULL},
    [GRAPH_SELECT] = {ALL("$0 ? $1 : $2")},
    [GRAPH_CLAMP] = {"min_$T(max_$T($1, $0), $2)",
                     SAME("($1 > $0 ? $1 : $0) < $2 ? ($1 > $0 ? $1 : $0) : $2"), NULL},
    [GRAPH_COMPARE] = {ALL("(u8)($0 $C $1)")},
};

const char *fuse_register_type(uint8_t dtype) {
    static const char *const names[SHOAL_DTYPE_COUNT] = {
        [SHOAL_BOOL] = "u8", [SHOAL_I8] = "i8",   [SHOAL_I16] = "i16",  [SHOAL_I32] = "i32",
        [SHOAL_I64] = "i64", [SHOAL_U8] = "u8",   [SHOAL_U16] = "u16",  [SHOAL_U32] = "u32",
        [SHOAL_U64] = "u64", [SHOAL_F16] = "f32", [SHOAL_BF16] = "f32", [SHOAL_F32] = "f32",
        [SHOAL_F64] = "f64"};
    return names[dtype];
}

static const char *unsigned_type(uint8_t dtype) {
    switch (shoal_dtype_size((shoal_dtype)dtype)) {
    case 1: return "u8";
    case 2: return "u16";
    case 4: return "u32";
    default: return "u64";
    }
}

static char kind_of(uint8_t dtype) { return shoal_dtype_kind((shoal_dtype)dtype); }

static int bits_of(uint8_t dtype) { return 8 * (int)shoal_dtype_size((shoal_dtype)dtype); }

static bool is_half(uint8_t dtype) { return dtype == SHOAL_F16 || dtype == SHOAL_BF16; }

static const char *find(uint16_t op, uint8_t dtype) {
    const expression *e = op < GRAPH_OP_BUILT_IN ? &expressions[op] : NULL;
    if (!e) return NULL;
    switch (kind_of(dtype)) {
    case 'f': return e->of_float;
    case 'i': return e->of_signed;
    case 'u': return e->of_unsigned;
    default: return e->of_bool;
    }
}

bool fuse_has_expression(uint16_t op, uint8_t from, uint8_t dtype) {
    return op == GRAPH_CONVERT || op == GRAPH_BITCAST_CONVERT || op == GRAPH_REDUCE_PRECISION ||
           find(op, from);
}

/* ---- numbers ---- */

void fuse_render_literal(uint8_t dtype, const void *element, base_str *out) {
    uint64_t bits = 0;
    memcpy(&bits, element, shoal_dtype_size((shoal_dtype)dtype));
    switch (dtype) {
    case SHOAL_F16: base_str_format(out, "f32_of_f16(0x%" PRIx64 ")", bits); break;
    case SHOAL_BF16: base_str_format(out, "f32_of_bf16(0x%" PRIx64 ")", bits); break;
    case SHOAL_F32: base_str_format(out, "f32_of_bits(0x%" PRIx64 ")", bits); break;
    case SHOAL_F64: base_str_format(out, "f64_of_bits((u64)0x%" PRIx64 ")", bits); break;
    case SHOAL_BOOL: base_str_text(out, bits ? "1" : "0"); break;
    default: base_str_format(out, "(%s)0x%" PRIx64, fuse_register_type(dtype), bits);
    }
}

void fuse_render_identity(const fuse_operation *op, base_str *out) {
    bool is_float = kind_of(op->sum) == 'f', is_signed = kind_of(op->sum) == 'i';
    uint64_t half = UINT64_C(1) << (bits_of(op->sum) - 1), all = half - 1 + half;
    uint64_t bits = 0;
    switch (op->combine) {
    case GRAPH_MULTIPLY: bits = 1; break;
    case GRAPH_AND: bits = all; break;
    case GRAPH_MAXIMUM: bits = is_signed ? half : 0; break;
    case GRAPH_MINIMUM: bits = is_signed ? half - 1 : all; break;
    default: break;
    }
    if (op->sum == SHOAL_BOOL) bits &= 1;
    if (!is_float) {
        fuse_render_literal(op->sum, &bits, out);
        return;
    }
    double x = op->combine == GRAPH_MULTIPLY  ? 1
               : op->combine == GRAPH_MAXIMUM ? -INFINITY
               : op->combine == GRAPH_MINIMUM ? INFINITY
                                              : -0.0; /* leaves the sign of a zero */
    float single = (float)x;
    fuse_render_literal(op->sum, op->sum == SHOAL_F64 ? (void *)&x : (void *)&single, out);
}

/* ---- conversions ---- */

/* A float in the f32 that it is computed in, from which rounding to 16 bits is as from x. */
static void render_odd(uint8_t from, const char *x, base_str *out) {
    char kind = kind_of(from);
    if (from == SHOAL_F64)
        base_str_format(out, "odd_of_f64(%s)", x);
    else if (kind != 'f' && bits_of(from) >= 32)
        base_str_format(out, "odd_of_%s(%s)", kind == 'i' ? "i64" : "u64", x);
    else
        base_str_format(out, "(f32)%s", x);
}

void fuse_render_convert(uint8_t from, uint8_t to, const char *x, base_str *out) {
    const char *type = fuse_register_type(to);
    bool to_integer = kind_of(to) == 'i' || kind_of(to) == 'u';
    if (to == SHOAL_BOOL) {
        base_str_format(out, "(u8)(%s != 0)", x);
    } else if (is_half(to)) {
        base_str_text(out, to == SHOAL_F16 ? "round_f16(" : "round_bf16(");
        render_odd(from, x, out);
        base_str_text(out, ")");
    } else if (to_integer && kind_of(from) == 'f') {
        base_str_format(out, "(%s)%s_of_%s(%s, %d)", type,
                        kind_of(to) == 'i' ? "signed" : "unsigned", fuse_register_type(from), x,
                        bits_of(to));
    } else {
        base_str_format(out, "(%s)%s", type, x);
    }
}

/* The bits of a number, as the unsigned type of its width. */
static void render_bits(uint8_t dtype, const char *x, base_str *out) {
    if (is_half(dtype))
        base_str_format(out, "%s_of_f32(%s)", dtype == SHOAL_F16 ? "f16" : "bf16", x);
    else if (kind_of(dtype) == 'f')
        base_str_format(out, "bits_of_%s(%s)", fuse_register_type(dtype), x);
    else
        base_str_format(out, "(%s)%s", unsigned_type(dtype), x);
}

/* What stands in front of bits, and makes a number of them; a parenthesis closes it. */
static void open_number(uint8_t dtype, base_str *out) {
    if (is_half(dtype))
        base_str_text(out, dtype == SHOAL_F16 ? "f32_of_f16((u16)" : "f32_of_bf16((u16)");
    else if (kind_of(dtype) == 'f')
        base_str_format(out, "%s_of_bits((%s)", fuse_register_type(dtype), unsigned_type(dtype));
    else
        base_str_format(out, "(%s)(", fuse_register_type(dtype));
}

static void render_precision(const fuse_operation *op, const char *x, base_str *out) {
    static const struct {
        int exponent, mantissa;
    } formats[SHOAL_DTYPE_COUNT] = {[SHOAL_F16] = {5, 10},
                                    [SHOAL_BF16] = {8, 7},
                                    [SHOAL_F32] = {8, 23},
                                    [SHOAL_F64] = {11, 52}};
    open_number(op->dtype, out);
    base_str_text(out, "lessen(");
    render_bits(op->dtype, x, out);
    base_str_format(out, ", %d, %d, %d, %d))", formats[op->dtype].exponent,
                    formats[op->dtype].mantissa,
                    (int)shoal_node_attr(op->node, SHOAL_ATTR_EXPONENT_BITS)->u.i,
                    (int)shoal_node_attr(op->node, SHOAL_ATTR_MANTISSA_BITS)->u.i);
}

/* ---- expressions ---- */

static const char *comparison(const shoal_node *node) {
    static const char names[6][3] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    static const char *const operators[6] = {"==", "!=", "<", "<=", ">", ">="};
    const char *direction = shoal_node_attr(node, SHOAL_ATTR_COMPARISON_DIRECTION)->u.string;
    uint32_t i = 0;
    while (i < 5 && strcmp(direction, names[i])) i++;
    return operators[i];
}

static void fill(const char *text, uint8_t dtype, const shoal_node *node, const char *const *args,
                 base_str *out) {
    for (; *text; text++) {
        if (*text != '$') {
            base_str_bytes(out, text, 1);
            continue;
        }
        switch (*++text) {
        case 'T': base_str_text(out, fuse_register_type(dtype)); break;
        case 'U': base_str_text(out, unsigned_type(dtype)); break;
        case 'N': base_str_format(out, "%d", bits_of(dtype)); break;
        case 'C': base_str_text(out, comparison(node)); break;
        default: base_str_text(out, args[*text - '0']);
        }
    }
}

void fuse_render_operation(const fuse_operation *op, const char *const *args, base_str *out) {
    bool rounds = is_half(op->dtype) && op->op != GRAPH_SELECT;
    switch (op->op) {
    case GRAPH_CONVERT: fuse_render_convert(op->from, op->dtype, args[0], out); return;
    case GRAPH_REDUCE_PRECISION: render_precision(op, args[0], out); return;
    case GRAPH_BITCAST_CONVERT:
        open_number(op->dtype, out);
        render_bits(op->from, args[0], out);
        base_str_text(out, ")");
        return;
    default: break;
    }
    if (rounds) base_str_text(out, op->dtype == SHOAL_F16 ? "round_f16(" : "round_bf16(");
    fill(find(op->op, op->from), op->from, op->node, args, out);
    if (rounds) base_str_text(out, ")");
}

void fuse_render_join(const fuse_operation *op, const char *x, const char *y, base_str *out) {
    const char *const args[] = {x, y};
    fill(find(op->combine, op->sum), op->sum, op->node, args, out);
}
