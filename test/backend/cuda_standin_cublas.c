/* cuBLAS's half of the stand-in (cuda_standin.h): the product, as three loops over columns. */
#include "cuda_standin.h"

#include <math.h>
#include <string.h>

struct cublas_handle {
    cuda_stream *stream;
};

#define CALL(name, ...)                                                                            \
    SHOAL_API int name(__VA_ARGS__);                                                               \
    int name(__VA_ARGS__)

CALL(cublasCreate_v2, cublas_handle **handle) {
    cuda_code code;
    if (standin_fails(&code)) return CUBLAS_NO_MEMORY;
    if (!(*handle = calloc(1, sizeof **handle))) return CUBLAS_NO_MEMORY;
    standin_count(1);
    return 0;
}

CALL(cublasDestroy_v2, cublas_handle *handle) {
    free(handle);
    standin_count(-1);
    return 0;
}

CALL(cublasSetStream_v2, cublas_handle *handle, cuda_stream *stream) {
    cuda_code code;
    handle->stream = stream;
    return standin_fails(&code) ? CUBLAS_NO_MEMORY : 0;
}

CALL(cublasSetMathMode, cublas_handle *handle, int mode) {
    cuda_code code;
    return standin_fails(&code) ? CUBLAS_NO_MEMORY : 0;
}

/* ---- numbers ---- */

static float of_half(uint16_t x) {
    int exponent = x >> 10 & 31, rest = x & 1023;
    float size = exponent == 31 ? (rest ? NAN : INFINITY)
                 : exponent     ? ldexpf((float)(rest | 1024), exponent - 25)
                                : ldexpf((float)rest, -24);
    return x & 0x8000 ? -size : size;
}

/* The nearest, of two the even one; what is too large is infinite. */
static uint16_t to_half(float x) {
    int exponent;
    float size = fabsf(x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return 0x7e00;
    if (size >= 65520) return sign | 0x7c00;
    frexpf(size, &exponent);
    if (size < 0x1p-14f) return (uint16_t)(sign | (int)rintf(ldexpf(size, 24)));
    return (uint16_t)(sign + ((exponent + 13) << 10) + (int)rintf(ldexpf(size, 11 - exponent)));
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t without(uint32_t bits, int lost) {
    return bits + (UINT32_C(1) << (lost - 1)) - 1 + (bits >> lost & 1);
}

static double load(const void *at, long long index, int type) {
    switch (type) {
    case CUBLAS_F64: return ((const double *)at)[index];
    case CUBLAS_F16: return of_half(((const uint16_t *)at)[index]);
    case CUBLAS_BF16: return of_bits((uint32_t)((const uint16_t *)at)[index] << 16);
    default: return ((const float *)at)[index];
    }
}

static void store(void *at, long long index, int type, double x) {
    float narrow = (float)x;
    switch (type) {
    case CUBLAS_F64: ((double *)at)[index] = x; break;
    case CUBLAS_F16: ((uint16_t *)at)[index] = to_half(narrow); break;
    case CUBLAS_BF16:
        ((uint16_t *)at)[index] =
            isnan(narrow) ? 0x7fc0 : (uint16_t)(without(bits_of(narrow), 16) >> 16);
        break;
    default: ((float *)at)[index] = narrow;
    }
}

/* ---- the product ---- */

typedef struct product {
    int op_a, op_b, m, n, k, type, lead_a, lead_b, lead_c, batch, compute;
    long long apart_a, apart_b, apart_c;
    cuda_address a, b, c;
} product;

static size_t size_of(int type) { return type == CUBLAS_F64 ? 8 : type == CUBLAS_F32 ? 4 : 2; }

/* A matrix of so many columns of `lead`, checked to lie in memory. */
static void *matrix(cuda_address at, int type, long long rows, long long columns, int lead) {
    return standin_host(at, (size_t)((columns - 1) * lead + rows) * size_of(type));
}

/* TF32 has 10 bits of a mantissa. */
static double narrowed(const product *x, double number) {
    if (x->compute != CUBLAS_COMPUTE_TF32) return number;
    return of_bits(without(bits_of((float)number), 13) & ~UINT32_C(0x1fff));
}

static double sum_of(const product *x, const void *a, const void *b, int row, int column) {
    double wide = 0;
    float narrow = 0;
    for (long long i = 0; i < x->k; i++) {
        double p = narrowed(
            x, load(a, x->op_a ? row * (long long)x->lead_a + i : i * x->lead_a + row, x->type));
        double q = narrowed(
            x,
            load(b, x->op_b ? i * x->lead_b + column : column * (long long)x->lead_b + i, x->type));
        wide += p * q;
        narrow += (float)p * (float)q;
    }
    return x->compute == CUBLAS_COMPUTE_F64 ? wide : narrow;
}

static void multiply(void *context) {
    const product *x = context;
    for (int t = 0; t < x->batch; t++) {
        size_t bytes = size_of(x->type);
        const void *a = matrix(x->a + (size_t)(t * x->apart_a) * bytes, x->type,
                               x->op_a ? x->k : x->m, x->op_a ? x->m : x->k, x->lead_a);
        const void *b = matrix(x->b + (size_t)(t * x->apart_b) * bytes, x->type,
                               x->op_b ? x->n : x->k, x->op_b ? x->k : x->n, x->lead_b);
        void *c = matrix(x->c + (size_t)(t * x->apart_c) * bytes, x->type, x->m, x->n, x->lead_c);
        for (int column = 0; column < x->n; column++)
            for (int row = 0; row < x->m; row++)
                store(c, column * (long long)x->lead_c + row, x->type,
                      sum_of(x, a, b, row, column));
    }
}

CALL(cublasGemmStridedBatchedEx, cublas_handle *handle, int op_a, int op_b, int m, int n, int k,
     const void *alpha, cuda_address a, int type_a, int lead_a, long long apart_a, cuda_address b,
     int type_b, int lead_b, long long apart_b, const void *beta, cuda_address c, int type_c,
     int lead_c, long long apart_c, int batch, int compute, int algorithm) {
    bool wide = compute == CUBLAS_COMPUTE_F64;
    bool plain = wide ? *(const double *)alpha == 1 && *(const double *)beta == 0
                      : *(const float *)alpha == 1 && *(const float *)beta == 0;
    if (!plain || type_a != type_b || type_a != type_c || wide != (type_a == CUBLAS_F64) ||
        lead_a < (op_a ? k : m) || lead_b < (op_b ? n : k) || lead_c < m)
        return 7; /* CUBLAS_STATUS_INVALID_VALUE */
    product *x = malloc(sizeof *x);
    if (!x) return CUBLAS_NO_MEMORY;
    *x = (product){op_a,  op_b,    m,       n,       k,       type_a, lead_a, lead_b, lead_c,
                   batch, compute, apart_a, apart_b, apart_c, a,      b,      c};
    standin_count_launch(true);
    cuda_code code = standin_enqueue(handle->stream, multiply, x);
    return !code ? 0 : code == CUDA_OUT_OF_MEMORY ? CUBLAS_NO_MEMORY : 14;
}
