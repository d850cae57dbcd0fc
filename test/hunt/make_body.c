/* Bodies: what joins elements, and what puts them in order. */
#include "make.h"

#include <string.h>

const shoal_graph *make_join(maker *m, uint8_t dtype, bool sums) {
    static const uint16_t any[] = {GRAPH_ADD, GRAPH_ADD, GRAPH_MULTIPLY, GRAPH_MAXIMUM,
                                   GRAPH_MINIMUM};
    static const uint16_t bits[] = {GRAPH_AND, GRAPH_OR, GRAPH_XOR};
    bool is_float = shoal_dtype_kind((shoal_dtype)dtype) == 'f';
    uint16_t op = sums ? GRAPH_ADD : any[MAKE_BELOW(5)];
    if (!sums && !is_float && MAKE_CHANCE(20)) op = bits[MAKE_BELOW(3)];
    const shoal_graph *body;
    hunt_must(graph_add_body(m->g, op, (shoal_dtype)dtype, &body));
    return body;
}

/* Begins a body of two arguments per operand: all left ones and then all right ones, as `joins` has
 * them, or side by side. */
static graph *begin(maker *m, const uint32_t *in, uint32_t n, bool joins, uint32_t *arguments) {
    graph *body;
    hunt_must(graph_add_region(m->g, &body));
    for (uint32_t i = 0; i < 2 * n; i++) {
        shoal_type scalar = {.dtype = make_type(m, in[joins ? i % n : i / 2])->dtype};
        hunt_must(graph_add_input(body, &scalar, &arguments[i]));
    }
    return body;
}

static uint32_t both(graph *body, uint16_t op, uint32_t a, uint32_t b) {
    uint32_t in[] = {a, b}, out;
    hunt_must(graph_add(body, op, in, 2, NULL, 0, NULL, 0, &out));
    return out;
}

static uint32_t compared(graph *body, uint32_t a, uint32_t b, const char *direction) {
    uint32_t in[] = {a, b}, out;
    shoal_attr way = graph_string(SHOAL_ATTR_COMPARISON_DIRECTION, direction);
    hunt_must(graph_add(body, GRAPH_COMPARE, in, 2, &way, 1, NULL, 0, &out));
    return out;
}

static uint32_t one(graph *body, uint16_t op, uint32_t x) {
    hunt_must(graph_add(body, op, &x, 1, NULL, 0, NULL, 0, &x));
    return x;
}

/* Of two sets (x, i, ...) the one with the larger x. */
static const shoal_graph *larger_body(maker *m, const uint32_t *in, uint32_t n) {
    uint32_t x[2 * MAKE_JOINED], value;
    graph *body = begin(m, in, n, true, x);
    uint32_t less = compared(body, x[0], x[n], "LT");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of[] = {less, x[n + i], x[i]};
        hunt_must(graph_add(body, GRAPH_SELECT, of, 3, NULL, 0, NULL, 0, &value));
        hunt_must(graph_add_output(body, value));
    }
    return graph_data(body);
}

const shoal_graph *make_joint(maker *m, const uint32_t *in, uint32_t n) {
    static const uint16_t any[] = {GRAPH_ADD, GRAPH_MAXIMUM, GRAPH_MINIMUM, GRAPH_MULTIPLY};
    if (MAKE_CHANCE(40)) return larger_body(m, in, n);
    uint32_t x[2 * MAKE_JOINED];
    graph *body = begin(m, in, n, true, x);
    for (uint32_t i = 0; i < n; i++) {
        /* The noise takes a body for one that adds, or for one that multiplies. */
        bool is_float = shoal_dtype_kind((shoal_dtype)make_type(m, in[i])->dtype) == 'f';
        uint16_t op = any[MAKE_BELOW(is_float ? 3 : 4)];
        hunt_must(graph_add_output(body, both(body, op, x[i], x[n + i])));
    }
    return graph_data(body);
}

/* Of two numbers the larger magnitude, by two nodes. */
const shoal_graph *make_magnitude(maker *m, uint8_t dtype) {
    graph *body;
    uint32_t in[2];
    hunt_must(graph_add_region(m->g, &body));
    shoal_type scalar = {.dtype = dtype};
    for (int i = 0; i < 2; i++) hunt_must(graph_add_input(body, &scalar, &in[i]));
    for (int i = 0; i < 2; i++) in[i] = one(body, GRAPH_ABS, in[i]);
    hunt_must(graph_add_output(body, both(body, GRAPH_MAXIMUM, in[0], in[1])));
    return graph_data(body);
}

static bool has_nan(const maker *m, uint32_t value) {
    const shoal_type *type = make_type(m, value);
    if (shoal_dtype_kind((shoal_dtype)type->dtype) != 'f') return false;
    for (int64_t i = 0; i < base_type_count(type); i++) {
        double x = hunt_number(type->dtype, m->at[value], i);
        if (x != x) return true;
    }
    return false;
}

/* Whether no two elements along an axis are equal; false where there are many. */
static bool are_distinct(const maker *m, uint32_t value, int64_t axis) {
    const shoal_type *type = make_type(m, value);
    int64_t inner = 1, length = type->dims[axis];
    for (uint32_t i = (uint32_t)axis + 1; i < type->rank; i++) inner *= type->dims[i];
    if (length > 64 || base_type_count(type) > 1 << 12) return false;
    for (int64_t i = 0; i < base_type_count(type); i++)
        for (int64_t k = i / inner % length + 1, at = i + inner; k < length; k++, at += inner)
            if (hunt_number(type->dtype, m->at[value], i) ==
                hunt_number(type->dtype, m->at[value], at))
                return false;
    return true;
}

/* Whether a is in front of b; NaN are in front of all numbers or behind all. */
static uint32_t with_nan(graph *body, uint32_t a, uint32_t b, const char *direction,
                         bool in_front) {
    uint32_t first = in_front ? a : b, other = in_front ? b : a;
    uint32_t apart = both(body, GRAPH_AND, compared(body, first, first, "NE"),
                          compared(body, other, other, "EQ"));
    return both(body, GRAPH_OR, compared(body, a, b, direction), apart);
}

const shoal_graph *make_comparator(maker *m, const uint32_t *in, uint32_t n, int64_t axis,
                                   bool *stable) {
    enum { PLAIN, SWAPPED, DENIED, CLOSED, NAN_IN_FRONT, NAN_BEHIND };
    static const uint8_t ways[] = {PLAIN,  PLAIN,  PLAIN,  PLAIN,        SWAPPED,
                                   DENIED, CLOSED, CLOSED, NAN_IN_FRONT, NAN_BEHIND};
    static const char *const strict[] = {"LT", "GT"}, *const closed[] = {"LE", "GE"};
    uint32_t x[2 * MAKE_JOINED], key = n > 1 && MAKE_CHANCE(20), falls = MAKE_BELOW(2), out;
    char kind = shoal_dtype_kind((shoal_dtype)make_type(m, in[key])->dtype);
    bool nan = has_nan(m, in[key]), distinct = are_distinct(m, in[key], axis);
    uint8_t how = ways[MAKE_BELOW(sizeof ways)];
    /* Of equals in front of each other, and of NaN for who only compares, there is no order. */
    if (nan) how = MAKE_CHANCE(50) ? NAN_IN_FRONT : NAN_BEHIND;
    if ((how == CLOSED && !distinct) || (how >= NAN_IN_FRONT && kind != 'f')) how = PLAIN;
    graph *body = begin(m, in, n, false, x);
    uint32_t a = x[2 * key], b = x[2 * key + 1];
    *stable = !distinct || MAKE_CHANCE(70);
    if (how != CLOSED && strchr("if", kind) && MAKE_CHANCE(20)) {
        uint16_t op = MAKE_CHANCE(70) ? GRAPH_ABS : GRAPH_NEGATE;
        a = one(body, op, a), b = one(body, op, b);
        *stable = true;
    }
    switch (how) {
    case SWAPPED: out = compared(body, b, a, strict[!falls]); break;
    case DENIED: out = one(body, GRAPH_NOT, compared(body, a, b, closed[!falls])); break;
    case CLOSED: out = compared(body, a, b, closed[falls]); break;
    case NAN_IN_FRONT:
    case NAN_BEHIND: out = with_nan(body, a, b, strict[falls], how == NAN_IN_FRONT); break;
    default: out = compared(body, a, b, strict[falls]);
    }
    if (how != CLOSED && n > 1 && MAKE_CHANCE(20) && !has_nan(m, in[!key])) {
        uint32_t next = compared(body, x[2 * !key], x[2 * !key + 1], strict[MAKE_BELOW(2)]);
        out = both(body, GRAPH_OR, out, both(body, GRAPH_AND, compared(body, a, b, "EQ"), next));
    }
    hunt_must(graph_add_output(body, out));
    return graph_data(body);
}
