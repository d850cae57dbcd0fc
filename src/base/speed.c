#include "base/speed.h"

#include <math.h>

/* One core of an ordinary machine, in f32; and the others as parts of that. */
static const double CORE_PRODUCTS = 5e10, CORE_STREAM = 5e9;
static const double parts[BASE_STREAM] = {
    [BASE_PRODUCTS_F32] = 1,    [BASE_PRODUCTS_F64] = 0.5,  [BASE_PRODUCTS_F16] = 0.5,
    [BASE_PRODUCTS_BF16] = 0.5, [BASE_PRODUCTS_INT] = 0.25,
};

const char *base_figure_name(base_figure figure) {
    static const char *const names[] = {
#define X(NAME, text, unit) text,
        BASE_FIGURE_TABLE(X)
#undef X
    };
    return figure < BASE_FIGURES ? names[figure] : "?";
}

const char *base_figure_unit(base_figure figure) {
    static const char *const units[] = {
#define X(NAME, text, unit) unit,
        BASE_FIGURE_TABLE(X)
#undef X
    };
    return figure < BASE_FIGURES ? units[figure] : "?";
}

base_figure base_figure_of(shoal_dtype dtype) {
    switch (dtype) {
    case SHOAL_F64: return BASE_PRODUCTS_F64;
    case SHOAL_F16: return BASE_PRODUCTS_F16;
    case SHOAL_BF16: return BASE_PRODUCTS_BF16;
    case SHOAL_F32: return BASE_PRODUCTS_F32;
    default: return BASE_PRODUCTS_INT;
    }
}

base_speeds base_speeds_assumed(const base_speeds *measured, uint32_t threads) {
    base_speeds out = *measured;
    double f32 =
        out.of[BASE_PRODUCTS_F32] > 0 ? out.of[BASE_PRODUCTS_F32] : CORE_PRODUCTS * threads;
    for (int f = 0; f < BASE_STREAM; f++)
        if (!(out.of[f] > 0)) out.of[f] = f32 * parts[f];
    if (!(out.of[BASE_STREAM] > 0)) out.of[BASE_STREAM] = CORE_STREAM * threads;
    return out;
}

double base_speeds_seconds(const base_speeds *speeds, base_figure products, double operations,
                           double bytes) {
    double memory = speeds->of[BASE_STREAM] > 0 ? bytes / speeds->of[BASE_STREAM] : 0;
    return fmax(operations / speeds->of[products], memory);
}
