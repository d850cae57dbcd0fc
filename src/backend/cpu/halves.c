/* Maps over float16 and bfloat16: blocks are widened, go through the kernel for float32 and are
 * rounded once. */
#include "backend/cpu/loops.h"

enum { BLOCK = 256, OPERANDS = 3 };

INLINE void run_half(uint8_t type, cpu_map_kernel kernel, int n_operands, bool to_bool, void *to,
                     const void *const *in, int64_t n, unsigned scalars) {
    cpu_map_kernel widen = CPU_OF_SET(converts)[type][SHOAL_F32];
    cpu_map_kernel narrow = CPU_OF_SET(converts)[SHOAL_F32][type];
    _Alignas(64) float wide[OPERANDS][BLOCK];
    const void *operands[OPERANDS] = {wide[0], wide[1], wide[2]};
    /* The result goes where an operand was, but not over one that is for all. */
    _Alignas(64) float apart[BLOCK], *out = apart;
    for (int k = n_operands; k-- > 0;)
        if (!(scalars >> k & 1)) out = wide[k];
    for (int k = 0; k < n_operands; k++)
        if (scalars >> k & 1) widen(wide[k], &in[k], 1, 0, NULL);
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t some = n - at < BLOCK ? n - at : BLOCK;
        for (int k = 0; k < n_operands; k++) {
            const void *from = (const uint16_t *)in[k] + at;
            if (!(scalars >> k & 1)) widen(wide[k], &from, some, 0, NULL);
        }
        if (to_bool) {
            kernel((uint8_t *)to + at, operands, some, scalars, NULL);
            continue;
        }
        kernel(out, operands, some, scalars, NULL);
        narrow((uint16_t *)to + at, (const void *const[]){out}, some, 0, NULL);
    }
}

#define HALF(name, type, table, n_operands, to_bool)                                               \
    static void name(void *to, const void *const *in, int64_t n, unsigned scalars,                 \
                     const char *ahead) {                                                          \
        run_half(SHOAL_##type, table[SHOAL_F32], n_operands, to_bool, to, in, n, scalars);         \
    }
#define FLOAT_MAP(NAME) CPU_OF_SET(float_maps).map[GRAPH_##NAME]
#define BOTH(NAME, n_operands)                                                                     \
    HALF(f16_##NAME, F16, FLOAT_MAP(NAME), n_operands, false)                                      \
    HALF(bf16_##NAME, BF16, FLOAT_MAP(NAME), n_operands, false)

/* What float_maps has for float32. */
/* clang-format off */
#define UNARIES(XX)                                                                                \
    XX(NEGATE) XX(ABS) XX(SQRT) XX(RSQRT) XX(EXPONENTIAL) XX(EXPONENTIAL_MINUS_ONE) XX(LOG)        \
    XX(LOG_PLUS_ONE) XX(TANH) XX(LOGISTIC) XX(ERF) XX(SINE) XX(COSINE) XX(TAN) XX(CBRT) XX(SIGN)   \
    XX(ROUND_NEAREST_EVEN) XX(ROUND_NEAREST_AFZ) XX(FLOOR) XX(CEIL) XX(SILU) XX(GELU)
#define BINARIES(XX)                                                                               \
    XX(ADD) XX(SUBTRACT) XX(MULTIPLY) XX(DIVIDE) XX(MAXIMUM) XX(MINIMUM) XX(POWER)                 \
    XX(ATAN2) XX(REMAINDER)                                                                        \
    XX(SILU_GRADIENT) XX(GELU_GRADIENT)
/* clang-format on */
#define XX(NAME) BOTH(NAME, 1)
UNARIES(XX)
#undef XX
#define XX(NAME) BOTH(NAME, 2)
BINARIES(XX)
#undef XX

BOTH(CLAMP, 3)
HALF(f16_IS_FINITE, F16, FLOAT_MAP(IS_FINITE), 1, true)
HALF(bf16_IS_FINITE, BF16, FLOAT_MAP(IS_FINITE), 1, true)

HALF(f16_gelu_tanh, F16, CPU_OF_SET(float_maps).gelu_tanh, 1, false)
HALF(bf16_gelu_tanh, BF16, CPU_OF_SET(float_maps).gelu_tanh, 1, false)
HALF(f16_gelu_tanh_gradient, F16, CPU_OF_SET(float_maps).gelu_tanh_gradient, 2, false)
HALF(bf16_gelu_tanh_gradient, BF16, CPU_OF_SET(float_maps).gelu_tanh_gradient, 2, false)

#define COMPARE(number)                                                                            \
    HALF(f16_compare_##number, F16, CPU_OF_SET(float_maps).compare[number], 2, true)               \
    HALF(bf16_compare_##number, BF16, CPU_OF_SET(float_maps).compare[number], 2, true)
COMPARE(0)
COMPARE(1)
COMPARE(2)
COMPARE(3)
COMPARE(4)
COMPARE(5)

#define ROW(k)                                                                                     \
    { [SHOAL_F16] = f16_##k, [SHOAL_BF16] = bf16_##k }

const cpu_maps CPU_OF_SET(half_maps) = {
#define XX(NAME) [GRAPH_##NAME] = ROW(NAME),
    .map = {UNARIES(XX) BINARIES(XX) XX(CLAMP) XX(IS_FINITE)},
#undef XX
    .compare = {ROW(compare_0), ROW(compare_1), ROW(compare_2), ROW(compare_3), ROW(compare_4),
                ROW(compare_5)},
    .gelu_tanh = ROW(gelu_tanh),
    .gelu_tanh_gradient = ROW(gelu_tanh_gradient),
};
