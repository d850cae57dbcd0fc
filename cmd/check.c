#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Some rows spread over the whole result, and one in each worker's part of some panel. */
int check_init(const cmd_product *product, cmd_check *out) {
    *out = (cmd_check){.product = product};
    double spread = fmin(CHECK_SPREAD, (double)product->m);
    int64_t panels = product->m / product->panel, before = 0;
    for (int i = 0; i < (int)spread; i++) {
        double place = ((double)i + fmod(0.5 + 0.618034 * i, 1)) / spread;
        out->rows[out->n_rows++] = (int64_t)(place * (double)product->m);
    }
    for (uint32_t r = 0; r < product->split.rows && panels > 0; r++) {
        int64_t rows = (int64_t)(product->rows_axis.shares[r] * (double)product->panel);
        int64_t panel = panels * r / product->split.rows;
        if (rows > 0) out->rows[out->n_rows++] = panel * product->panel + before + rows / 2;
        before += rows;
    }
    out->values = calloc((size_t)out->n_rows * (size_t)product->n + 1, sizeof *out->values);
    if (out->values == NULL) return cmd_fail("--check: not enough memory for the sampled rows");
    return CMD_OK;
}

void check_fini(cmd_check *check) {
    free(check->values);
    check->values = NULL;
}

void check_take(cmd_check *check, const cmd_block *part, const void *data) {
    const cmd_product *p = check->product;
    for (int i = 0; i < check->n_rows; i++) {
        int64_t row = check->rows[i] - part->row;
        if (row < 0 || row >= part->rows) continue;
        for (int64_t j = 0; j < part->columns; j++)
            check->values[i * p->n + part->column + j] =
                operand_element(p->result_dtype, data, row * part->columns + j);
    }
}

/* Unit roundoff of the type that the product is computed in. */
static double roundoff(shoal_dtype dtype) {
    switch (dtype) {
    case SHOAL_F64: return DBL_EPSILON / 2;
    case SHOAL_F32: return FLT_EPSILON / 2;
    case SHOAL_F16: return 0x1p-11;
    default: return 0x1p-8;
    }
}

/* What the recomputation works on: the sampled rows of A, the exact rows and the sums of |a b|. */
typedef struct exact {
    double *a;          /* [n_rows][k] */
    double *sum, *size; /* [n_rows][n] */
    double *b;          /* one stored row of B */
    void *room;
} exact;

/* Adds what one stored row of B brings: a row of B, or (when B is transposed) a column. */
static void add_row(const cmd_check *check, const exact *x, int64_t row) {
    const cmd_product *p = check->product;
    for (int s = 0; s < check->n_rows; s++) {
        const double *a = x->a + s * p->k;
        double *sum = x->sum + s * p->n, *size = x->size + s * p->n;
        if (p->b.transposed) {
            for (int64_t i = 0; i < p->k; i++) {
                sum[row] += a[i] * x->b[i];
                size[row] += fabs(a[i] * x->b[i]);
            }
        } else {
            for (int64_t j = 0; j < p->n; j++) {
                sum[j] += a[row] * x->b[j];
                size[j] += fabs(a[row] * x->b[j]);
            }
        }
    }
}

/* Infinities and NaNs must be where the exact product has them. */
static double error_of(double value, double wanted, double size) {
    if (value == wanted || (isnan(value) && isnan(wanted))) return 0;
    double error = fabs(value - wanted) / (size > 0 ? size : 1);
    return isnan(error) ? INFINITY : error;
}

static int recompute(cmd_check *check, const exact *x) {
    const cmd_product *p = check->product;
    int64_t stored_rows = p->b.transposed ? p->b.columns : p->b.rows;
    for (int s = 0; s < check->n_rows; s++)
        if (operand_row(&p->a, check->rows[s], x->room, x->a + s * p->k) != CMD_OK)
            return CMD_FAILED;
    for (int64_t row = 0; row < stored_rows; row++) {
        if (operand_stored_row(&p->b, row, x->room, x->b) != CMD_OK) return CMD_FAILED;
        add_row(check, x, row);
    }
    /* The factors are rounded too where they are stored in a wider type. */
    bool rounded =
        roundoff(p->dtype) > roundoff(p->a.dtype) || roundoff(p->dtype) > roundoff(p->b.dtype);
    check->limit = roundoff(p->dtype) * (8 * sqrt((double)p->k) + (rounded ? 4 : 2));
    for (int64_t i = 0; i < check->n_rows * p->n; i++) {
        double error = error_of(check->values[i], x->sum[i], x->size[i]);
        if (error > check->error) check->error = error;
    }
    return CMD_OK;
}

int check_finish(cmd_check *check) {
    const cmd_product *p = check->product;
    size_t rows = (size_t)check->n_rows;
    int64_t widest =
        p->a.stored_columns > p->b.stored_columns ? p->a.stored_columns : p->b.stored_columns;
    exact x = {.a = calloc(rows * (size_t)p->k + 1, sizeof(double)),
               .sum = calloc(rows * (size_t)p->n + 1, sizeof(double)),
               .size = calloc(rows * (size_t)p->n + 1, sizeof(double)),
               .b = calloc((size_t)p->b.stored_columns + 1, sizeof(double)),
               .room = calloc((size_t)widest + 1, sizeof(double))};
    int code = CMD_FAILED;
    if (x.a == NULL || x.sum == NULL || x.size == NULL || x.b == NULL || x.room == NULL)
        cmd_fail("--check: not enough memory for %d rows", check->n_rows);
    else
        code = recompute(check, &x);
    free(x.a);
    free(x.sum);
    free(x.size);
    free(x.b);
    free(x.room);
    return code;
}
