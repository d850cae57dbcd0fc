#include "graph/element.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bits of the exponent and of the fraction of a floating type. */
typedef struct layout {
    int exponent, fraction;
} layout;

static layout layout_of(shoal_dtype dtype) {
    switch (dtype) {
    case SHOAL_F16: return (layout){5, 10};
    case SHOAL_BF16: return (layout){8, 7};
    case SHOAL_F32: return (layout){8, 23};
    default: return (layout){11, 52};
    }
}

static uint64_t mask(int bits) { return (UINT64_C(1) << bits) - 1; }

/* The number that the bits stand for; false for NaN and infinity. */
static bool widen(uint64_t bits, layout l, double *out) {
    uint64_t field = bits >> l.fraction & mask(l.exponent), fraction = bits & mask(l.fraction);
    if (field == mask(l.exponent)) return false;
    int bias = (int)mask(l.exponent - 1);
    /* Subnormal numbers have the exponent of field 1 and no hidden bit. */
    uint64_t digits = field ? fraction | UINT64_C(1) << l.fraction : fraction;
    double value = ldexp((double)digits, (field ? (int)field : 1) - bias - l.fraction);
    *out = bits >> (l.exponent + l.fraction) & 1 ? -value : value;
    return true;
}

/* The nearest number of a type, ties to even; false when that is infinity. */
static bool narrow(double value, layout l, uint64_t *out) {
    int exponent, bias = (int)mask(l.exponent - 1);
    frexp(value, &exponent);
    if (--exponent < 1 - bias || value == 0) exponent = 1 - bias;
    double digits = rint(ldexp(fabs(value), l.fraction - exponent));
    /* The hidden bit, or a carry out of the digits, counts the exponent's field up. */
    uint64_t bits = (uint64_t)digits + ((uint64_t)(exponent + bias - 1) << l.fraction);
    *out = bits | (uint64_t)(signbit(value) != 0) << (l.exponent + l.fraction);
    return bits < mask(l.exponent) << l.fraction;
}

static bool parse_float(shoal_dtype dtype, const char *text, uint64_t *bits) {
    char *end;
    size_t digits = strspn(text[0] == '-' || text[0] == '+' ? text + 1 : text, "0123456789");
    if (!digits) return false; /* strtod would take "inf" */
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        size_t size = 2 * shoal_dtype_size(dtype);
        if (strlen(text + 2) != size || strspn(text + 2, "0123456789abcdefABCDEF") != size)
            return false;
        *bits = strtoull(text + 2, NULL, 16);
        return true;
    }
    if (strpbrk(text, "xX")) return false;
    /* f32 by its own function: through double it would be rounded twice. */
    double value = dtype == SHOAL_F32 ? (double)strtof(text, &end) : strtod(text, &end);
    if (*end || !isfinite(value)) return false;
    if (dtype == SHOAL_F64) {
        memcpy(bits, &value, sizeof value);
        return true;
    }
    return narrow(value, layout_of(dtype), bits);
}

static void print_float(shoal_dtype dtype, uint64_t bits, base_str *out) {
    double value;
    if (dtype == SHOAL_F64 && (bits >> 52 & 0x7ff) != 0x7ff) {
        memcpy(&value, &bits, sizeof value);
    } else if (!widen(bits, layout_of(dtype), &value)) {
        base_str_format(out, "0x%0*llX", 2 * (int)shoal_dtype_size(dtype),
                        (unsigned long long)bits);
        return;
    }
    char text[GRAPH_MAX_ELEMENT_TEXT + 1];
    uint64_t again;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits, value);
        if (parse_float(dtype, text, &again) && again == bits) break;
    }
    base_str_text(out, text);
}

void graph_element_print(shoal_dtype dtype, const void *element, base_str *out) {
    uint64_t bits = 0;
    size_t size = shoal_dtype_size(dtype);
    memcpy(&bits, element, size); /* little-endian, as all of Shoal's data */
    switch (shoal_dtype_kind(dtype)) {
    case 'b': base_str_text(out, bits ? "true" : "false"); break;
    case 'u': base_str_format(out, "%llu", (unsigned long long)bits); break;
    case 'f': print_float(dtype, bits, out); break;
    default: {
        int unused = 64 - 8 * (int)size; /* sign extension */
        base_str_format(out, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    }
    }
}

static bool parse_integer(shoal_dtype dtype, const char *text, uint64_t *bits) {
    size_t width = 8 * shoal_dtype_size(dtype);
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (!*digits || digits[strspn(digits, "0123456789")]) return false;
    errno = 0;
    if (shoal_dtype_kind(dtype) == 'u') {
        if (text[0] == '-') return false;
        *bits = strtoull(text, NULL, 10);
        return !errno && (width == 64 || *bits <= mask((int)width));
    }
    long long value = strtoll(text, NULL, 10);
    *bits = (uint64_t)value;
    int64_t most = (int64_t)mask((int)width - 1);
    return !errno && value <= most && value >= -most - 1;
}

bool graph_element_parse(shoal_dtype dtype, const char *text, void *element) {
    uint64_t bits = 0;
    bool good;
    switch (shoal_dtype_kind(dtype)) {
    case 'b':
        bits = !strcmp(text, "true");
        good = bits || !strcmp(text, "false");
        break;
    case 'f': good = parse_float(dtype, text, &bits); break;
    default: good = parse_integer(dtype, text, &bits);
    }
    if (good) memcpy(element, &bits, shoal_dtype_size(dtype));
    return good;
}
