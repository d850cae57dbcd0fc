/* Shape rules of Shoal's own operations, place and exchange: their lists of numbers are checked
 * here once, so that those who read them need not. */
#include "graph/rules.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BOXES = 4096 };

/* CUTS: parts per axis, then per axis its parts + 1 cut points, from 0 to the extent. */
static shoal_status check_cuts(const shoal_type *type, const int64_t *cuts, uint32_t count,
                               int64_t *boxes) {
    char text[BASE_TYPE_TEXT];
    base_type_text(type, text);
    uint32_t at = type->rank;
    *boxes = 1;
    if (count < at)
        return base_fail(SHOAL_INVALID, "place: cuts has %u numbers; %s has %u axes", count, text,
                         type->rank);
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        int64_t parts = cuts[axis];
        if (parts < 1 || parts > MAX_BOXES / *boxes)
            return base_fail(SHOAL_INVALID, "place: cuts: %lld parts of %s axis %u; 1 to %d boxes",
                             (long long)parts, text, axis, MAX_BOXES);
        *boxes *= parts;
        if (count - at < (uint32_t)parts + 1)
            return base_fail(SHOAL_INVALID, "place: cuts ends in the points of axis %u", axis);
        const int64_t *points = &cuts[at];
        at += (uint32_t)parts + 1;
        for (int64_t i = 0; i < parts; i++)
            if (points[i] > points[i + 1])
                return base_fail(SHOAL_INVALID, "place: cuts: axis %u falls from %lld to %lld",
                                 axis, (long long)points[i], (long long)points[i + 1]);
        if (points[0] != 0 || points[parts] != type->dims[axis])
            return base_fail(SHOAL_INVALID,
                             "place: cuts: axis %u goes from %lld to %lld, in %s from 0 to %lld",
                             axis, (long long)points[0], (long long)points[parts], text,
                             (long long)type->dims[axis]);
    }
    if (at != count)
        return base_fail(SHOAL_INVALID, "place: cuts has %u numbers more than %s needs", count - at,
                         text);
    return SHOAL_OK;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static shoal_status check_once(const int64_t *slots, uint32_t n) {
    int64_t sorted[MAX_BOXES];
    memcpy(sorted, slots, n * sizeof *slots);
    qsort(sorted, n, sizeof *sorted, by_size);
    for (uint32_t i = 1; i < n; i++)
        if (sorted[i] == sorted[i - 1])
            return base_fail(SHOAL_INVALID, "place: slot %lld is named twice",
                             (long long)sorted[i]);
    return SHOAL_OK;
}

INFER(place) {
    uint32_t n_cuts, n_slots;
    int64_t boxes;
    const int64_t *cuts = graph_call_ints(call, SHOAL_ATTR_CUTS, &n_cuts);
    const int64_t *slots = graph_call_ints(call, SHOAL_ATTR_SLOTS, &n_slots);
    SHOAL_TRY(check_cuts(&call->inputs[0], cuts, n_cuts, &boxes));
    if (!n_slots || n_slots > MAX_BOXES || n_slots % boxes)
        return base_fail(SHOAL_INVALID, "place: %u slots for %lld boxes; give a multiple", n_slots,
                         (long long)boxes);
    for (uint32_t i = 0; i < n_slots; i++)
        if (slots[i] < 0 || slots[i] > UINT32_MAX)
            return base_fail(SHOAL_INVALID, "place: slot %lld does not exist", (long long)slots[i]);
    SHOAL_TRY(check_once(slots, n_slots));
    if (!max_outputs) return base_fail(SHOAL_INVALID, "place: no room for a result");
    outputs[0] = call->inputs[0];
    *n_outputs = 1;
    return SHOAL_OK;
}

/* TYPES: per result its dtype, rank and dims. */
static shoal_status read_types(const graph_call *call, shoal_type *outputs, uint16_t max_outputs,
                               uint16_t *n_outputs) {
    uint32_t count, n = 0;
    const int64_t *list = graph_call_ints(call, SHOAL_ATTR_TYPES, &count);
    for (uint32_t at = 0; at < count; n++) {
        if (n == max_outputs)
            return base_fail(SHOAL_INVALID, "exchange: more than %u results", max_outputs);
        if (count - at < 2 || list[at] < 0 || list[at] >= SHOAL_DTYPE_COUNT || list[at + 1] < 0 ||
            list[at + 1] > SHOAL_MAX_RANK || count - at - 2 < list[at + 1])
            return base_fail(SHOAL_INVALID, "exchange: types: result %u is no type", n);
        shoal_type *type = &outputs[n];
        *type = (shoal_type){.dtype = (uint8_t)list[at], .rank = (uint8_t)list[at + 1]};
        memcpy(type->dims, &list[at + 2], type->rank * sizeof type->dims[0]);
        at += 2 + type->rank;
        int64_t elements;
        shoal_status status = base_type_elements(type, &elements);
        if (status != SHOAL_OK) return base_fail_prefix(status, "exchange: types: result %u: ", n);
    }
    *n_outputs = (uint16_t)n;
    return SHOAL_OK;
}

/* A move as MOVES lists it, after its first four numbers. */
typedef struct boxes {
    const int64_t *in, *out, *size;
} boxes;

static boxes boxes_of(const int64_t *move, uint32_t rank) {
    return (boxes){move + 4, move + 4 + rank, move + 4 + 2 * rank};
}

static bool inside(const shoal_type *type, const int64_t *start, const int64_t *size) {
    for (uint32_t i = 0; i < type->rank; i++)
        if (start[i] < 0 || size[i] < 0 || size[i] > type->dims[i] ||
            start[i] > type->dims[i] - size[i])
            return false;
    return true;
}

static shoal_status check_move(const graph_call *call, const int64_t *move, uint32_t index,
                               uint32_t rank, const shoal_type *outputs, uint16_t n_outputs) {
    boxes box = boxes_of(move, rank);
    int64_t kind = move[0], output = move[2];
    bool sends = kind == SHOAL_MOVE_SEND || kind == SHOAL_MOVE_LOCAL;
    bool receives = kind == SHOAL_MOVE_RECEIVE || kind == SHOAL_MOVE_LOCAL;
    if (!sends && !receives)
        return base_fail(SHOAL_INVALID, "exchange: move %u has no kind %lld", index,
                         (long long)kind);
    if (move[1] < 0 || move[1] > UINT32_MAX || move[3] < 0 || move[3] > UINT32_MAX)
        return base_fail(SHOAL_INVALID, "exchange: move %u: ordinal %lld or slot %lld is negative",
                         index, (long long)move[1], (long long)move[3]);
    if (sends && !call->n_inputs)
        return base_fail(SHOAL_INVALID, "exchange: move %u sends, but there is no operand", index);
    if (output < 0 || (receives && output >= n_outputs) || (!receives && output))
        return base_fail(SHOAL_INVALID, "exchange: move %u: there is no result %lld", index,
                         (long long)output);
    if (sends && !inside(&call->inputs[0], box.in, box.size))
        return base_fail(SHOAL_INVALID, "exchange: the box of move %u is not inside the operand",
                         index);
    if (receives && !inside(&outputs[output], box.out, box.size))
        return base_fail(SHOAL_INVALID, "exchange: the box of move %u is not inside result %lld",
                         index, (long long)output);
    return SHOAL_OK;
}

static bool meet(boxes a, boxes b, uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++)
        if (!b.size[i] || a.out[i] >= b.out[i] + b.size[i] || b.out[i] >= a.out[i] + a.size[i])
            return false;
    return true;
}

/* Boxes that do not meet and have as many elements as the result cover it exactly once. */
static shoal_status check_cover(const int64_t *moves, uint32_t n, uint32_t rank, uint16_t output,
                                const shoal_type *type) {
    uint32_t step = 4 + 3 * rank;
    int64_t missing = base_type_count(type);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t *move = moves + (size_t)i * step;
        if (move[0] == SHOAL_MOVE_SEND || move[2] != output) continue;
        boxes box = boxes_of(move, rank);
        int64_t elements = 1;
        for (uint32_t k = 0; k < rank; k++) elements *= box.size[k];
        if (!elements) continue;
        missing -= elements;
        if (missing < 0) break;
        for (uint32_t j = 0; j < i; j++) {
            const int64_t *other = moves + (size_t)j * step;
            if (other[0] == SHOAL_MOVE_SEND || other[2] != output) continue;
            if (meet(box, boxes_of(other, rank), rank))
                return base_fail(SHOAL_INVALID, "exchange: moves %u and %u overlap in result %u", j,
                                 i, output);
        }
    }
    if (missing)
        return base_fail(SHOAL_INVALID, "exchange: the moves cover result %u %s", output,
                         missing > 0 ? "only in part" : "more than once");
    return SHOAL_OK;
}

INFER(exchange) {
    if (graph_call_attr(call, SHOAL_ATTR_CHANNEL)->u.i < 0 ||
        graph_call_attr(call, SHOAL_ATTR_CHANNEL)->u.i > UINT32_MAX)
        return base_fail(SHOAL_INVALID, "exchange: channel %lld is out of range",
                         (long long)graph_call_attr(call, SHOAL_ATTR_CHANNEL)->u.i);
    SHOAL_TRY(read_types(call, outputs, max_outputs, n_outputs));
    if (!call->n_inputs && !*n_outputs)
        return base_fail(SHOAL_INVALID, "exchange: has neither an operand nor a result");
    const shoal_type *first = call->n_inputs ? &call->inputs[0] : &outputs[0];
    for (uint16_t i = 0; i < *n_outputs; i++)
        if (outputs[i].dtype != first->dtype || outputs[i].rank != first->rank)
            return base_fail(SHOAL_INVALID,
                             "exchange: result %u differs from the others in element type or rank",
                             i);
    uint32_t count, step = 4 + 3 * (uint32_t)first->rank;
    const int64_t *moves = graph_call_ints(call, SHOAL_ATTR_MOVES, &count);
    uint32_t n = count / step;
    if (count % step || n > MAX_BOXES)
        return base_fail(SHOAL_INVALID, "exchange: moves has %u numbers: %u per move, %d moves",
                         count, step, MAX_BOXES);
    for (uint32_t i = 0; i < n; i++)
        SHOAL_TRY(check_move(call, moves + (size_t)i * step, i, first->rank, outputs, *n_outputs));
    for (uint16_t i = 0; i < *n_outputs; i++)
        SHOAL_TRY(check_cover(moves, n, first->rank, i, &outputs[i]));
    return SHOAL_OK;
}
