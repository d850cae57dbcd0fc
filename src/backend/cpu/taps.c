/* The inner parts of convolutions of f32, and by way of taps_f64.c of f64, compiled once per
 * instruction set. Elements under windows are found by two lists of offsets: that of a window's
 * element, and that of a place; their sum is the offset in a box. */
#include "backend/cpu/vectors.h"

/* ---- panels of a product's right operand ---- */

/* Places that lie side by side are copied together, whole vectors: what is copied too much is
 * overwritten by the next ones. */
static void copy_panel(int64_t k, const void *box, const int64_t *rows, int64_t n,
                       const int64_t *columns, void *data) {
    const real *x = box;
    real *to = data;
    int64_t from[PANEL];
    int at[PANEL], count = 0;
    for (int64_t j = 0, some; j < n; j += some) {
        for (some = 1; some < WIDTH && j + some < n; some++)
            if (columns[j + some] != columns[j] + some) break;
        from[count] = columns[j];
        at[count++] = (int)j;
    }
    if (count == 2 && at[1] == WIDTH) {
        for (int64_t p = 0; p < k; p++, to += PANEL) {
            store(to, load(x + rows[p] + from[0]));
            store(to + WIDTH, load(x + rows[p] + from[1]));
        }
        return;
    }
    for (int64_t p = 0; p < k; p++, to += PANEL)
        for (int i = 0; i < count; i++) store(to + at[i], load(x + rows[p] + from[i]));
}

/* Elements of a window that lie side by side are turned together. */
static void turn_panel(int64_t k, const void *box, const int64_t *rows, int64_t n,
                       const int64_t *columns, void *data) {
    const real *x = box;
    real *to = data;
    for (int64_t p = 0, some; p < k; p += some) {
        for (some = 1; some < WIDTH && p + some < k; some++)
            if (rows[p + some] != rows[p] + some) break;
        for (int half = 0; half < PANEL && half < n; half += WIDTH) {
            vec lines[WIDTH];
            for (int i = 0; i < WIDTH; i++)
                lines[i] = load(x + rows[p] + columns[half + i < n ? half + i : n - 1]);
            transpose_rows(lines, to + p * PANEL + half, PANEL);
        }
    }
}

/* ---- few features ---- */

/* `vectors` of places side by side, each the sum over k elements of the window. */
INLINE void sum_vectors(int vectors, int64_t k, const real *a, const int64_t *rows, const real *x,
                        vec *sums) {
    for (int v = 0; v < vectors; v++) sums[v] = (vec){0};
    for (int64_t p = 0; p < k; p++) {
        const real *from = x + rows[p];
        for (int v = 0; v < vectors; v++) sums[v] += a[p] * load(from + v * WIDTH);
    }
}

static void sum_places(int64_t n, int64_t k, const void *weights, const int64_t *rows,
                       const void *box, void *to, bool add) {
    enum { TOGETHER = 4 };
    const real *a = weights, *x = box;
    real *y = to;
    int64_t j = 0;
    for (; j + TOGETHER * WIDTH <= n; j += TOGETHER * WIDTH) {
        vec sums[TOGETHER];
        sum_vectors(TOGETHER, k, a, rows, x + j, sums);
        for (int v = 0; v < TOGETHER; v++)
            store(y + j + v * WIDTH, add ? load(y + j + v * WIDTH) + sums[v] : sums[v]);
    }
    for (; j + 2 * WIDTH <= n; j += 2 * WIDTH) {
        vec sums[2];
        sum_vectors(2, k, a, rows, x + j, sums);
        for (int v = 0; v < 2; v++)
            store(y + j + v * WIDTH, add ? load(y + j + v * WIDTH) + sums[v] : sums[v]);
    }
    for (; j < n; j += WIDTH) {
        real last[WIDTH];
        vec sum;
        sum_vectors(1, k, a, rows, x + j, &sum);
        store(last, sum);
        for (int i = 0; i < WIDTH && j + i < n; i++) y[j + i] = add ? y[j + i] + last[i] : last[i];
    }
}

/* `count` places, a constant: each is the sum over lines of n elements of the window that lie side
 * by side. */
INLINE void sum_lines(int count, int64_t lines, int64_t n, const real *a, const int64_t *rows,
                      const real *x, const int64_t *columns, real *y, bool add) {
    vec sums[9];
    const real *from[9];
    for (int i = 0; i < count; i++) {
        sums[i] = (vec){0};
        from[i] = x + columns[i];
    }
    for (int64_t l = 0; l < lines; l++, a += n) {
        int64_t at = rows[l * n], i = 0;
        for (; i + WIDTH <= n; i += WIDTH)
            for (int c = 0; c < count; c++) sums[c] += load(a + i) * load(from[c] + at + i);
        if (i == n) continue;
        /* What is left, beside zeros: what lies behind it may be no number. */
        real rest[WIDTH] = {0};
        memcpy(rest, a + i, (size_t)(n - i) * sizeof *rest);
        for (int c = 0; c < count; c++) {
            real other[WIDTH] = {0};
            memcpy(other, from[c] + at + i, (size_t)(n - i) * sizeof *other);
            sums[c] += load(rest) * load(other);
        }
    }
    for (int i = 0; i < count; i++) y[i] = add ? y[i] + sum_of(sums[i]) : sum_of(sums[i]);
}

static void sum_window(int64_t lines, int64_t n, const void *a, const int64_t *rows,
                       const void *box, int64_t count, const int64_t *columns, void *to, bool add) {
    const real *x = box;
    real *y = to;
    int64_t j = 0;
    for (; j + 9 <= count; j += 9) sum_lines(9, lines, n, a, rows, x, columns + j, y + j, add);
    for (; j + 3 <= count; j += 3) sum_lines(3, lines, n, a, rows, x, columns + j, y + j, add);
    for (; j < count; j++) sum_lines(1, lines, n, a, rows, x, columns + j, y + j, add);
}

/* ---- boxes ---- */

/* n elements from `from` on between zeros, line after line. Zeros are whole vectors: what is too
 * much is overwritten by what follows. */
static void copy_lines(int64_t lines, int64_t before, int64_t n, int64_t after, const void *data,
                       int64_t step, void *box, int64_t box_step) {
    const real *from = data;
    real *to = box;
    for (int64_t l = 0; l < lines; l++, from += step, to += box_step) {
        int64_t i = 0;
        for (int64_t z = 0; z < before; z += WIDTH) store(to + z, (vec){0});
        for (; i + WIDTH <= n; i += WIDTH) store(to + before + i, load(from + i));
        if (i < n) memcpy(to + before + i, from + i, (size_t)(n - i) * sizeof *to);
        for (int64_t z = 0; z < after; z += WIDTH) store(to + before + n + z, (vec){0});
    }
}

/* ---- weights ---- */

/* Zero times anything else is NaN, which no comparison finds equal to what it is compared with. */
static bool finite(int64_t n, const void *data) {
    const real *x = data;
    vec sums = {0};
    real sum = 0;
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) sums += 0 * load(x + i);
    for (; i < n; i++) sum += 0 * x[i];
    return sum + sum_of(sums) == 0;
}

const cpu_taps NAME(taps) = {.slack = WIDTH * PANEL,
                             .copy_panel = copy_panel,
                             .turn_panel = turn_panel,
                             .sum_places = sum_places,
                             .sum_window = sum_window,
                             .finite = finite,
                             .copy_lines = copy_lines};
