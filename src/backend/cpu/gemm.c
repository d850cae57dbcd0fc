/* The inner parts of matrix products of f32, and by way of gemm_f64.c of f64, compiled once per
 * instruction set. After K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix
 * Multiplication: the right operand lies in panels of PANEL columns, packed row after row; a tile
 * of up to ROWS rows times a panel is summed in registers. Every element is summed along k in one
 * order, whatever the blocks are. */
#include "backend/cpu/vectors.h"

/* XX(rows): the tiles there are. Of 32 registers a tile takes up to 28, of 16 12. */
#define TILES_TO_6(XX) XX(1) XX(2) XX(3) XX(4) XX(5) XX(6)
#define TILES_TO_12(XX) TILES_TO_6(XX) XX(7) XX(8) XX(9) XX(10) XX(11) XX(12)
#if defined(__AVX512F__)
enum { ROWS = 14 };
#define TILES(XX) TILES_TO_12(XX) XX(13) XX(14)
#elif defined(CPU_NEON)
enum { ROWS = 12 };
#define TILES(XX) TILES_TO_12(XX)
#else
enum { ROWS = 6 };
#define TILES(XX) TILES_TO_6(XX)
#endif
enum { LINE = 64 }; /* bytes that come from memory together */

/* ---- packing ---- */

/* n <= PANEL columns of k rows. */
static void pack_panel(int64_t k, int n, const real *b, int64_t row, int64_t column, real *to) {
    int64_t p = 0;
    if (column == 1 && n == PANEL) {
        for (; p < k; p++) {
            store(to + p * PANEL, load(b + p * row));
            store(to + p * PANEL + WIDTH, load(b + p * row + WIDTH));
        }
        return;
    }
    for (; row == 1 && p + WIDTH <= k; p += WIDTH)
        for (int half = 0; half < PANEL; half += WIDTH) {
            int some = n - half < WIDTH ? n - half : WIDTH;
            transpose(b + half * column + p, column, some, to + p * PANEL + half, PANEL);
        }
    for (; p < k; p++)
        for (int j = 0; j < PANEL; j++) to[p * PANEL + j] = j < n ? b[p * row + j * column] : 0;
}

/* Rows that lie as they are read are taken some at a time, to walk along them. */
static void pack_b(int64_t k, int64_t n, const void *b_data, const int64_t *strides, void *to) {
    const real *b = b_data;
    int64_t some = strides[1] == 1 ? 8 : k;
    for (int64_t p = 0; p < k; p += some) {
        if (some > k - p) some = k - p;
        for (int64_t j = 0; j < n; j += PANEL)
            pack_panel(some, n - j < PANEL ? (int)(n - j) : PANEL,
                       b + p * strides[0] + j * strides[1], strides[0], strides[1],
                       (real *)to + j * k + p * PANEL);
    }
}

/* k columns of m elements side by side; `some` at a time, a constant, of which the last ones may be
 * copied twice. */
INLINE void pack_columns(int some, int m, int64_t k, const real *a, int64_t column, real *to) {
    for (int64_t p = 0; p < k; p++, a += column, to += m) {
        for (int i = 0; i < m - some; i += some) memcpy(to + i, a + i, (size_t)some * sizeof *to);
        memcpy(to + m - some, a + m - some, (size_t)some * sizeof *to);
    }
}

/* m <= ROWS rows of k columns, one column after the other. Less than a vector is written behind the
 * last. */
static void pack_rows(int m, int64_t k, const real *a, int64_t row, int64_t column, real *to) {
    int64_t p = 0;
    if (column != 1) {
        if (m >= WIDTH)
            pack_columns(WIDTH, m, k, a, column, to);
        else if (m >= WIDTH / 2)
            pack_columns(WIDTH / 2, m, k, a, column, to);
        else
            pack_columns(1, m, k, a, column, to);
        return;
    }
    /* The last rows first: what they write too much is overwritten by the first ones. */
    for (; p + WIDTH <= k; p += WIDTH)
        for (int i = (m - 1) / WIDTH * WIDTH; i >= 0; i -= WIDTH)
            transpose(a + i * row + p, row, m - i < WIDTH ? m - i : WIDTH, to + p * m + i, m);
    for (; p < k; p++)
        for (int i = 0; i < m; i++) to[p * m + i] = a[i * row + p];
}

/* ---- tiles ---- */

typedef struct tile {
    int64_t k;
    const real *a;
    int64_t a_row, a_column;
    const real *b;
    int64_t b_row;
    const real *second;  /* with a list: the right half of the panel, */
    const int64_t *list; /* and where its rows are, from b and this on */
    real *c;
    int64_t c_row;
    bool add; /* to what is in c */
    /* A line of memory that will be read soon is asked for after every `often` columns. */
    const char *ahead;
    int64_t often;
} tile;

/* Rows of a that are side by side and fill vectors, where instructions take one element of a vector
 * as a factor; returns how many there were. */
INLINE int multiply_lanes(const real *a, int rows, int vectors, const vec *right, vec (*sums)[2]) {
#ifdef CPU_NEON
#pragma GCC unroll 6
    for (int g = 0; g < rows / WIDTH; g++) {
        vec left = load(a + g * WIDTH);
#pragma GCC unroll 4
        for (int i = 0; i < WIDTH; i++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sums[g * WIDTH + i][v] += left[i] * right[v];
    }
    return rows / WIDTH * WIDTH;
#else
    return 0;
#endif
}

/* `rows`, `vectors` and `listed` are constants. near: rows of a are side by side; else its columns
 * are. Then rows are addressed from a few pointers with the factors that the processor has, or
 * there would be more of them than registers. */
INLINE void multiply_tile(const tile *t, int rows, int vectors, bool near, bool listed) {
    vec sums[ROWS][2];
    const real *a = t->a, *b = t->b;
    const char *from[5];
    const int64_t row = t->a_row * (int64_t)sizeof(real), k = t->k;
    const int64_t a_column = t->a_column, b_row = t->b_row;
    for (int g = 0; g < 5; g++) from[g] = (const char *)a + (3 * g < rows ? 3 * g : 0) * row;
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) {
            sums[i][v] = (vec){0};
            __builtin_prefetch(t->c + i * t->c_row + v * WIDTH, 1); /* it is needed at the end */
        }
    const char *ahead = t->ahead;
    for (int64_t p = 0; p < k; ahead += LINE) {
        int64_t end = k - p < t->often ? k : p + t->often;
        __builtin_prefetch(ahead, 0, 2);
        for (; p < end; p++) {
            vec right[2];
            if (listed) {
                right[0] = load(b + t->list[p]);
                right[1] = load(t->second + t->list[p]);
            } else {
                for (int v = 0; v < vectors; v++) right[v] = load(b + v * WIDTH);
                b += b_row;
            }
            int first = near ? multiply_lanes(a, rows, vectors, right, sums) : 0;
#pragma GCC unroll 14
            for (int i = first; i < rows; i++) {
                real x = near ? a[i] : *(const real *)(from[i < 12 ? i / 3 : 4] + i % 3 * row);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++) sums[i][v] += x * right[v];
            }
            if (near)
                a += a_column;
            else
                for (int g = 0; g < 5; g++) {
                    from[g] += sizeof(real);
                    __asm__(""
                            : "+r"(from[g])); /* a pointer of its own: no new ones are made of it */
                }
        }
    }
#pragma GCC unroll 14
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) {
            real *c = t->c + i * t->c_row + v * WIDTH;
            store(c, t->add ? load(c) + sums[i][v] : sums[i][v]);
        }
}

#define TILE(rows)                                                                                 \
    static void tile_##rows##_near(const tile *t) { multiply_tile(t, rows, 2, true, false); }      \
    static void tile_##rows##_far(const tile *t) { multiply_tile(t, rows, 2, false, false); }      \
    static void thin_##rows##_near(const tile *t) { multiply_tile(t, rows, 1, true, false); }      \
    static void thin_##rows##_far(const tile *t) { multiply_tile(t, rows, 1, false, false); }      \
    static void tile_##rows##_listed(const tile *t) { multiply_tile(t, rows, 2, true, true); }
#define NAMES(rows)                                                                                \
    {{thin_##rows##_far, thin_##rows##_near, tile_##rows##_listed},                                \
     {tile_##rows##_far, tile_##rows##_near, tile_##rows##_listed}},
TILES(TILE)

typedef void (*tile_kernel)(const tile *t);
static const tile_kernel kernels[ROWS][2][3] = {TILES(NAMES)};

/* A tile of a result whose columns are side by side: summed beside c, and turned on its way. */
static void multiply_turned(const tile *whole, int rows, int columns, bool near, int64_t c_column) {
    /* Whole vectors of rows, though only those that exist are read. */
    real sums[(ROWS + WIDTH - 1) / WIDTH * WIDTH * PANEL], turned[PANEL * WIDTH];
    tile t = *whole;
    t.c = sums;
    t.c_row = PANEL;
    t.add = false;
    kernels[rows - 1][columns > WIDTH][near](&t);
    for (int i = 0; i < rows; i += WIDTH) {
        int some = rows - i < WIDTH ? rows - i : WIDTH;
        for (int j = 0; j < columns; j += WIDTH)
            transpose(sums + i * PANEL + j, PANEL, some, turned + j * WIDTH, WIDTH);
        for (int j = 0; j < columns; j++) {
            real *c = whole->c + i + j * c_column;
            const real *from = turned + j * WIDTH;
            if (whole->add)
                for (int r = 0; r < some; r++) c[r] += from[r];
            else
                memcpy(c, from, (size_t)some * sizeof *c);
        }
    }
}

/* A tile at the right edge: summed beside c, since only some of its columns exist. */
static void multiply_edge(const tile *whole, int rows, int columns, bool near) {
    real sums[ROWS * PANEL];
    tile t = *whole;
    t.c = sums;
    t.c_row = PANEL;
    t.add = false;
    kernels[rows - 1][columns > WIDTH][near](&t);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            real *c = whole->c + i * whole->c_row + j;
            *c = whole->add ? *c + sums[i * PANEL + j] : sums[i * PANEL + j];
        }
}

/* ---- blocks ---- */

static void pack_a(int64_t m, int64_t k, const void *a, const int64_t *as, void *to) {
    cpu_row_panels rows = cpu_divide_rows(m, ROWS);
    for (int64_t i = 0, at = 0, some; i < rows.count; i++, at += some) {
        some = rows.small + (i < rows.larger);
        pack_rows((int)some, k, (const real *)a + at * as[0], as[0], as[1], (real *)to + at * k);
    }
}

static void block(int64_t m, int64_t n, int64_t k, const void *a_data, const int64_t *as,
                  const void *b, int64_t b_row, int64_t b_panel, void *c, const int64_t *cs,
                  bool add) {
    const real *a = a_data;
    cpu_row_panels rows = cpu_divide_rows(m, ROWS);
    bool near = !as || as[0] == 1;
    for (int64_t j = 0; j < n; j += PANEL) {
        int columns = n - j < PANEL ? (int)(n - j) : PANEL;
        tile t = {.k = k,
                  .b = (const real *)b + j / PANEL * b_panel,
                  .b_row = b_row,
                  .c_row = cs[0],
                  .add = add,
                  .often = rows.count > 1 ? rows.count * LINE / (PANEL * (int)sizeof(real)) : 1};
        /* The next panel comes from further away than this one, and is wanted all at once. */
        const real *next = (const real *)b + (j / PANEL + (j + PANEL < n)) * b_panel;
        for (int64_t i = 0, at = 0, some; i < rows.count; i++, at += some) {
            some = rows.small + (i < rows.larger);
            t.a = a + at * (as ? as[0] : k);
            t.a_row = as ? as[0] : 1;
            t.a_column = as ? as[1] : some;
            t.c = (real *)c + at * cs[0] + j * cs[1];
            t.ahead = (const char *)(next + k * PANEL / rows.count * i);
            if (cs[1] != 1)
                multiply_turned(&t, (int)some, columns, near, cs[1]);
            else if (columns == PANEL)
                kernels[some - 1][1][near](&t);
            else
                multiply_edge(&t, (int)some, columns, near);
        }
    }
}

static void block_listed(int64_t m, int64_t k, const void *a, const int64_t *list, const void *b,
                         const void *second, void *c, int64_t c_row, bool add) {
    cpu_row_panels rows = cpu_divide_rows(m, ROWS);
    tile t = {.k = k,
              .a_row = 1,
              .b = b,
              .second = second,
              .list = list,
              .c_row = c_row,
              .add = add,
              .ahead = a,
              .often = k};
    for (int64_t i = 0, at = 0; i < rows.count; i++, at += t.a_column) {
        t.a_column = rows.small + (i < rows.larger);
        t.a = (const real *)a + at * k;
        t.c = (real *)c + at * c_row;
        kernels[t.a_column - 1][1][2](&t);
    }
}

/* ---- with a vector ---- */

enum { TOGETHER = 4 }; /* rows that are read side by side */

/* Rows of unit stride: each is multiplied with x and summed. */
INLINE void dots(int rows, int64_t k, const real *a, int64_t row, const real *x, real *y) {
    vec sums[TOGETHER][2];
    int64_t p = 0;
    for (int i = 0; i < rows; i++) sums[i][0] = sums[i][1] = (vec){0};
    for (; p + PANEL <= k; p += PANEL)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < 2; v++)
                sums[i][v] += load(a + i * row + p + v * WIDTH) * load(x + p + v * WIDTH);
    for (int i = 0; i < rows; i++) y[i] = sum_of(sums[i][0] + sums[i][1]);
    for (; p < k; p++)
        for (int i = 0; i < rows; i++) y[i] += a[i * row + p] * x[p];
}

static void times_rows(int64_t n, int64_t k, const real *a, int64_t row, const real *x, real *y) {
    int64_t i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER) dots(TOGETHER, k, a + i * row, row, x, y + i);
    for (; i < n; i++) dots(1, k, a + i * row, row, x, y + i);
}

/* Columns of unit stride: y is the sum of all, each multiplied with an element of x. */
INLINE void combine(int columns, int64_t n, const real *a, int64_t column, const real *x, real *y,
                    bool add) {
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        vec sum = add ? load(y + i) : (vec){0};
        for (int p = 0; p < columns; p++) sum += x[p] * load(a + p * column + i);
        store(y + i, sum);
    }
    for (; i < n; i++) {
        real sum = add ? y[i] : 0;
        for (int p = 0; p < columns; p++) sum += x[p] * a[p * column + i];
        y[i] = sum;
    }
}

static void times_columns(int64_t n, int64_t k, const real *a, int64_t column, const real *x,
                          real *y) {
    int64_t p = 0;
    for (; p + 2 * TOGETHER <= k; p += 2 * TOGETHER)
        combine(2 * TOGETHER, n, a + p * column, column, x + p, y, p > 0);
    for (; p < k; p++) combine(1, n, a + p * column, column, x + p, y, p > 0);
}

static void vector(int64_t n, int64_t k, const void *matrix, const int64_t *strides, const void *x,
                   void *y) {
    if (strides[1] == 1)
        times_rows(n, k, matrix, strides[0], x, y);
    else
        times_columns(n, k, matrix, strides[1], x, y);
}

const cpu_gemm NAME(gemm) = {.rows = ROWS,
                             .panel = PANEL,
                             .slack = WIDTH,
                             .group = 1,
                             .unit = (int)sizeof(real),
                             .pack_a = pack_a,
                             .pack_b = pack_b,
                             .block = block,
                             .block_listed = block_listed,
                             .vector = vector};
