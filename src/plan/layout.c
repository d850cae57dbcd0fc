/* Layouts: built from weights or numbers, checked, encoded, shown.
 *
 * A layout never has more owners than PLAN_MAX_PARTS; as each box of each summand needs an owner,
 * that bounds the grid as well, and a table of all boxes fits on the stack. */
#include "plan/layout.h"

#include "shoal/ir.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

shoal_status plan_cuts(int64_t extent, int64_t granule, const double *weights, uint32_t n,
                       int64_t *cuts) {
    if (extent < 0 || n == 0 || n > PLAN_MAX_PARTS)
        return base_fail(SHOAL_INVALID, "an axis of %" PRId64 " cannot be cut into %u parts",
                         extent, n);
    if (granule < 1 || extent % granule)
        return base_fail(SHOAL_INVALID,
                         "granule %" PRId64 " does not divide the axis of %" PRId64
                         "; use a divisor of it",
                         granule, extent);
    double most = 0, total = 0;
    for (uint32_t i = 0; i < n; i++) {
        double weight = weights ? weights[i] : 1;
        if (!isfinite(weight) || weight < 0)
            return base_fail(SHOAL_INVALID, "weight %u is %g; weights are finite and not negative",
                             i, weight);
        if (weight > most) most = weight;
    }
    if (most == 0)
        return base_fail(SHOAL_INVALID, "all %u weights are zero; at least one must be positive",
                         n);
    /* Divided by the largest first, so that no sum overflows. The second sum repeats the first in
     * the same order: the last cut is the extent exactly, and zero weights get nothing. */
    for (uint32_t i = 0; i < n; i++) total += (weights ? weights[i] : 1) / most;
    double sum = 0;
    int64_t units = extent / granule;
    cuts[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (weights ? weights[i] : 1) / most;
        int64_t unit = sum == total ? units : (int64_t)llround(sum / total * (double)units);
        cuts[i + 1] = (unit < units ? unit : units) * granule;
    }
    return SHOAL_OK;
}

/* A layout with room for its owners; every axis whole, all coordinates 0. */
static shoal_status start(base_arena *arena, uint32_t rank, const int64_t *dims, uint32_t n_slots,
                          plan_layout *out, uint32_t **slots, uint32_t **coords) {
    if (rank >= PLAN_MAX_AXES)
        return base_fail(SHOAL_INVALID, "a layout of rank %u; at most %d", rank, PLAN_MAX_AXES - 1);
    if (n_slots == 0 || n_slots > PLAN_MAX_PARTS)
        return base_fail(SHOAL_INVALID, "a layout on %u slots; there must be 1 to %d", n_slots,
                         PLAN_MAX_PARTS);
    *out = (plan_layout){.rank = rank, .n_slots = n_slots};
    *slots = base_arena_array(arena, uint32_t, n_slots);
    *coords = base_arena_array(arena, uint32_t, (size_t)n_slots * (rank + 1));
    int64_t *ends = base_arena_array(arena, int64_t, 2 * (size_t)rank);
    if (!*slots || !*coords || !ends) return SHOAL_NO_MEMORY;
    out->slots = *slots;
    out->coords = *coords;
    for (uint32_t a = 0; a <= rank; a++) {
        out->parts[a] = 1;
        if (a == rank) break;
        ends[2 * a + 1] = dims[a];
        out->cuts[a] = ends + 2 * (size_t)a;
    }
    return SHOAL_OK;
}

shoal_status plan_layout_whole(base_arena *arena, uint32_t rank, const int64_t *dims,
                               const uint32_t *slots, uint32_t n_slots, plan_layout *out) {
    uint32_t *owners = NULL, *coords;
    SHOAL_TRY(start(arena, rank, dims, n_slots, out, &owners, &coords));
    memcpy(owners, slots, n_slots * sizeof *slots);
    return plan_layout_verify(out, rank, dims);
}

shoal_status plan_layout_split(base_arena *arena, uint32_t rank, const int64_t *dims, uint32_t axis,
                               int64_t granule, const uint32_t *slots, const double *weights,
                               uint32_t n_slots, plan_layout *out) {
    uint32_t *owners, *coords;
    if (axis >= rank)
        return base_fail(SHOAL_INVALID, "axis %u of a tensor of rank %u cannot be cut", axis, rank);
    SHOAL_TRY(start(arena, rank, dims, n_slots, out, &owners, &coords));
    memcpy(owners, slots, n_slots * sizeof *slots);
    int64_t *cuts = base_arena_array(arena, int64_t, (size_t)n_slots + 1);
    if (!cuts) return SHOAL_NO_MEMORY;
    SHOAL_TRY(plan_cuts(dims[axis], granule, weights, n_slots, cuts));
    out->parts[axis] = n_slots;
    out->cuts[axis] = cuts;
    for (uint32_t i = 0; i < n_slots; i++) coords[i * (rank + 1) + axis] = i;
    return plan_layout_verify(out, rank, dims);
}

/* Reads parts and cut points of `place`; *boxes: 1, times the parts. */
static shoal_status read_cuts(base_arena *arena, const int64_t *ints, size_t n_ints,
                              plan_layout *out, size_t *boxes) {
    size_t at = out->rank;
    if (n_ints < out->rank)
        return base_fail(SHOAL_INVALID, "cuts hold %zu numbers; a tensor of rank %u needs more",
                         n_ints, out->rank);
    for (uint32_t a = 0; a < out->rank; a++) {
        if (ints[a] < 1 || ints[a] > PLAN_MAX_PARTS)
            return base_fail(SHOAL_INVALID, "axis %u cut into %" PRId64 " parts; 1 to %d are meant",
                             a, ints[a], PLAN_MAX_PARTS);
        size_t points = (size_t)ints[a] + 1;
        if (n_ints - at < points)
            return base_fail(SHOAL_INVALID, "cut points of axis %u: %zu numbers left, %zu needed",
                             a, n_ints - at, points);
        out->parts[a] = (uint32_t)ints[a];
        out->cuts[a] = base_arena_copy(arena, ints + at, points * sizeof *ints);
        if (!out->cuts[a]) return SHOAL_NO_MEMORY;
        at += points;
        *boxes *= (size_t)ints[a];
        if (*boxes > PLAN_MAX_PARTS)
            return base_fail(SHOAL_INVALID, "a grid of more than %d boxes", PLAN_MAX_PARTS);
    }
    if (at != n_ints)
        return base_fail(SHOAL_INVALID, "cuts hold %zu numbers; %zu are meant", n_ints, at);
    return SHOAL_OK;
}

shoal_status plan_layout_from_ints(base_arena *arena, uint32_t rank, const int64_t *dims,
                                   const int64_t *ints, size_t n_ints, const int64_t *slots,
                                   size_t n_slots, plan_layout *out) {
    uint32_t *owners, *coords;
    if (n_slots == 0 || n_slots > PLAN_MAX_PARTS)
        return base_fail(SHOAL_INVALID, "a layout on %zu slots; there must be 1 to %d", n_slots,
                         PLAN_MAX_PARTS);
    SHOAL_TRY(start(arena, rank, dims, (uint32_t)n_slots, out, &owners, &coords));
    size_t boxes = 1;
    SHOAL_TRY(read_cuts(arena, ints, n_ints, out, &boxes));
    if (n_slots % boxes)
        return base_fail(SHOAL_INVALID, "%zu slots for %zu boxes; give each box as many", n_slots,
                         boxes);
    size_t copies = n_slots / boxes;
    for (size_t i = 0; i < n_slots; i++) {
        if (slots[i] < 0 || slots[i] > UINT32_MAX)
            return base_fail(SHOAL_INVALID, "slot %" PRId64 " is no slot number", slots[i]);
        owners[i] = (uint32_t)slots[i];
        size_t box = i / copies;
        for (uint32_t a = rank; a-- > 0; box /= out->parts[a])
            coords[i * (rank + 1) + a] = (uint32_t)(box % out->parts[a]);
    }
    return plan_layout_verify(out, rank, dims);
}

shoal_status plan_layout_copy(base_arena *arena, const plan_layout *from, plan_layout *to) {
    *to = *from;
    for (uint32_t a = 0; a < from->rank; a++) {
        to->cuts[a] =
            base_arena_copy(arena, from->cuts[a], ((size_t)from->parts[a] + 1) * sizeof **to->cuts);
        if (!to->cuts[a]) return SHOAL_NO_MEMORY;
    }
    to->slots = base_arena_copy(arena, from->slots, from->n_slots * sizeof *from->slots);
    to->coords = base_arena_copy(arena, from->coords,
                                 (size_t)from->n_slots * (from->rank + 1) * sizeof *from->coords);
    return to->slots && to->coords ? SHOAL_OK : SHOAL_NO_MEMORY;
}

/* ---- the flat form: little-endian 64-bit numbers, as ENCODED lists them ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "layouts are little-endian");

static char *put(char *at, uint64_t value) {
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

/* The hub encodes those of all operands each time that a program is sent: in one piece. */
shoal_status plan_layout_encode(const plan_layout *layout, base_str *out) {
    size_t coords = (size_t)layout->n_slots * (layout->rank + 1);
    size_t n = 3 + (layout->rank + 1) + layout->n_slots + coords;
    for (uint32_t a = 0; a < layout->rank; a++) n += layout->parts[a] + 1;
    char *at = base_str_more(out, n * sizeof(uint64_t));
    if (!at) return base_str_status(out);
    at = put(at, layout->rank);
    at = put(at, layout->combine | (uint32_t)layout->given << 16);
    at = put(at, layout->n_slots);
    for (uint32_t a = 0; a <= layout->rank; a++) at = put(at, layout->parts[a]);
    for (uint32_t a = 0; a < layout->rank; a++)
        for (uint32_t i = 0; i <= layout->parts[a]; i++) at = put(at, (uint64_t)layout->cuts[a][i]);
    for (uint32_t i = 0; i < layout->n_slots; i++) at = put(at, layout->slots[i]);
    for (size_t i = 0; i < coords; i++) at = put(at, layout->coords[i]);
    return SHOAL_OK;
}

typedef struct reader {
    const unsigned char *at;
    size_t left; /* numbers */
} reader;

static uint64_t get(reader *r) {
    uint64_t value;
    memcpy(&value, r->at, sizeof value);
    r->at += sizeof value;
    r->left--;
    return value;
}

static shoal_status get_u32s(reader *r, uint32_t *to, size_t count, uint64_t most,
                             const char *what) {
    if (r->left < count)
        return base_fail(SHOAL_FORMAT, "a layout ends in its %s: %zu of %zu numbers", what, r->left,
                         count);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = get(r);
        if (value > most)
            return base_fail(SHOAL_FORMAT, "a layout with %s %" PRIu64 "; at most %" PRIu64, what,
                             value, most);
        to[i] = (uint32_t)value;
    }
    return SHOAL_OK;
}

shoal_status plan_layout_decode(base_arena *arena, const void *data, size_t bytes,
                                plan_layout *out) {
    if (bytes % 8)
        return base_fail(SHOAL_FORMAT, "a layout of %zu bytes; they come in eights", bytes);
    reader r = {data, bytes / 8};
    uint32_t rank, combine, n_slots, *slots, *coords;
    int64_t dims[PLAN_MAX_AXES] = {0};
    SHOAL_TRY(get_u32s(&r, &rank, 1, PLAN_MAX_AXES - 1, "rank"));
    SHOAL_TRY(get_u32s(&r, &combine, 1, 2 * UINT16_MAX + 1, "combine"));
    SHOAL_TRY(get_u32s(&r, &n_slots, 1, PLAN_MAX_PARTS, "slot count"));
    SHOAL_TRY(start(arena, rank, dims, n_slots, out, &slots, &coords));
    out->combine = (uint16_t)combine;
    out->given = combine >> 16;
    SHOAL_TRY(get_u32s(&r, out->parts, rank + 1, PLAN_MAX_PARTS, "parts"));
    for (uint32_t a = 0; a < rank; a++) {
        size_t points = (size_t)out->parts[a] + 1;
        if (r.left < points)
            return base_fail(SHOAL_FORMAT, "a layout ends in the cut points of axis %u", a);
        int64_t *cuts = base_arena_array(arena, int64_t, points);
        if (!cuts) return SHOAL_NO_MEMORY;
        for (size_t i = 0; i < points; i++) cuts[i] = (int64_t)get(&r);
        out->cuts[a] = cuts;
        dims[a] = cuts[points - 1];
    }
    SHOAL_TRY(get_u32s(&r, slots, n_slots, UINT32_MAX, "slots"));
    SHOAL_TRY(get_u32s(&r, coords, (size_t)n_slots * (rank + 1), PLAN_MAX_PARTS, "coordinates"));
    if (r.left) return base_fail(SHOAL_FORMAT, "a layout with %zu numbers too many", r.left);
    return plan_layout_verify(out, rank, dims);
}

/* ---- checks and questions ---- */

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static shoal_status verify_slots(const plan_layout *layout) {
    uint32_t *sorted = malloc(layout->n_slots * sizeof *sorted);
    if (!sorted) return base_fail(SHOAL_NO_MEMORY, "no memory for %u slots", layout->n_slots);
    memcpy(sorted, layout->slots, layout->n_slots * sizeof *sorted);
    qsort(sorted, layout->n_slots, sizeof *sorted, by_number);
    shoal_status status = SHOAL_OK;
    for (uint32_t i = 1; i < layout->n_slots && status == SHOAL_OK; i++)
        if (sorted[i] == sorted[i - 1])
            status = base_fail(SHOAL_INVALID, "slot %u twice in a layout; a slot holds one box",
                               sorted[i]);
    free(sorted);
    return status;
}

static shoal_status verify_axis(const plan_layout *layout, uint32_t a, int64_t extent) {
    const int64_t *cuts = layout->cuts[a];
    uint32_t parts = layout->parts[a];
    if (parts < 1 || parts > PLAN_MAX_PARTS || !cuts)
        return base_fail(SHOAL_INVALID, "axis %u has %u parts; 1 to %d are meant", a, parts,
                         PLAN_MAX_PARTS);
    if (cuts[0] != 0 || cuts[parts] != extent)
        return base_fail(SHOAL_INVALID,
                         "axis %u is cut from %" PRId64 " to %" PRId64 "; its extent is %" PRId64,
                         a, cuts[0], cuts[parts], extent);
    for (uint32_t i = 0; i < parts; i++)
        if (cuts[i] > cuts[i + 1])
            return base_fail(SHOAL_INVALID,
                             "cut points of axis %u fall from %" PRId64 " to %" PRId64
                             "; they must rise",
                             a, cuts[i], cuts[i + 1]);
    return SHOAL_OK;
}

shoal_status plan_layout_verify(const plan_layout *layout, uint32_t rank, const int64_t *dims) {
    if (layout->rank != rank || rank >= PLAN_MAX_AXES)
        return base_fail(SHOAL_INVALID, "a layout of rank %u for a tensor of rank %u", layout->rank,
                         rank);
    if (layout->n_slots == 0 || layout->n_slots > PLAN_MAX_PARTS)
        return base_fail(SHOAL_INVALID, "a layout on %u slots; there must be 1 to %d",
                         layout->n_slots, PLAN_MAX_PARTS);
    if (layout->parts[rank] < 1)
        return base_fail(SHOAL_INVALID, "a layout of 0 summands; 1 or more are meant");
    size_t boxes = 1;
    for (uint32_t a = 0; a <= rank; a++) {
        if (a < rank) SHOAL_TRY(verify_axis(layout, a, dims[a]));
        boxes *= layout->parts[a];
        if (boxes > layout->n_slots)
            return base_fail(SHOAL_INVALID, "%u slots cannot own %zu boxes; name a slot for each",
                             layout->n_slots, boxes);
    }
    unsigned char owned[PLAN_MAX_PARTS];
    memset(owned, 0, boxes);
    for (uint32_t i = 0; i < layout->n_slots; i++) {
        size_t box = 0;
        for (uint32_t a = 0; a <= rank; a++) {
            uint32_t at = layout->coords[i * (rank + 1) + a];
            if (at >= layout->parts[a])
                return base_fail(SHOAL_INVALID, "slot %u is part %u of %u on axis %u",
                                 layout->slots[i], at, layout->parts[a], a);
            box = box * layout->parts[a] + at;
        }
        owned[box] = 1;
    }
    for (size_t box = 0; box < boxes; box++)
        if (!owned[box])
            return base_fail(SHOAL_INVALID, "box %zu of %zu has no owner; name a slot for it", box,
                             boxes);
    return verify_slots(layout);
}

bool plan_layout_equal(const plan_layout *a, const plan_layout *b) {
    if (a == b) return true;
    if (a->rank != b->rank || a->n_slots != b->n_slots ||
        memcmp(a->parts, b->parts, (a->rank + 1) * sizeof *a->parts))
        return false;
    if (a->parts[a->rank] > 1 && a->combine != b->combine) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (memcmp(a->cuts[i], b->cuts[i], ((size_t)a->parts[i] + 1) * sizeof **a->cuts))
            return false;
    return !memcmp(a->slots, b->slots, a->n_slots * sizeof *a->slots) &&
           !memcmp(a->coords, b->coords, (size_t)a->n_slots * (a->rank + 1) * sizeof *a->coords);
}

int plan_layout_find(const plan_layout *layout, uint32_t slot) {
    for (uint32_t i = 0; i < layout->n_slots; i++)
        if (layout->slots[i] == slot) return (int)i;
    return -1;
}

int plan_layout_find_from(const plan_layout *layout, uint32_t slot, uint32_t guess) {
    if (guess < layout->n_slots && layout->slots[guess] == slot) return (int)guess;
    return plan_layout_find(layout, slot);
}

base_box plan_layout_box(const plan_layout *layout, uint32_t i) {
    const uint32_t *at = layout->coords + (size_t)i * (layout->rank + 1);
    base_box box = {.rank = layout->rank};
    for (uint32_t a = 0; a < layout->rank && a < SHOAL_MAX_RANK; a++) {
        box.start[a] = layout->cuts[a][at[a]];
        box.size[a] = layout->cuts[a][at[a] + 1] - box.start[a];
    }
    return box;
}

uint32_t plan_layout_summand(const plan_layout *layout, uint32_t i) {
    return layout->coords[(size_t)i * (layout->rank + 1) + layout->rank];
}

shoal_type plan_layout_type(const plan_layout *layout, uint32_t i, const shoal_type *global) {
    const uint32_t *at = layout->coords + (size_t)i * (layout->rank + 1);
    shoal_type type = *global;
    for (uint32_t a = 0; a < type.rank; a++)
        type.dims[a] = layout->cuts[a][at[a] + 1] - layout->cuts[a][at[a]];
    return type;
}

enum { MOST_SHOWN = 8 }; /* more numbers than this are only counted */

static void show_axis(const plan_layout *layout, uint32_t a, base_str *out) {
    if (layout->rank == 2)
        base_str_text(out, a ? "columns" : "rows");
    else
        base_str_format(out, "axis %u", a);
    if (layout->parts[a] > MOST_SHOWN) {
        base_str_format(out, " in %u parts", layout->parts[a]);
        return;
    }
    for (uint32_t i = 0; i <= layout->parts[a]; i++)
        base_str_format(out, "%s%" PRId64, i ? ".." : " ", layout->cuts[a][i]);
}

void plan_layout_text(const plan_layout *layout, base_str *out) {
    size_t boxes = 1;
    const char *between = "";
    for (uint32_t a = 0; a < layout->rank; a++) {
        boxes *= layout->parts[a];
        if (layout->parts[a] == 1) continue;
        base_str_text(out, between);
        show_axis(layout, a, out);
        between = ", ";
    }
    uint32_t summands = layout->parts[layout->rank];
    if (boxes == 1) base_str_text(out, "whole");
    if (summands > 1) {
        const char *name = shoal_op_name(layout->combine);
        base_str_format(out, ", %u summands (%s)", summands, name ? name : "?");
    }
    base_str_text(out, " on ");
    for (uint32_t i = 0; i < layout->n_slots && i < MOST_SHOWN; i++)
        base_str_format(out, "%s%u", i ? "," : "", layout->slots[i]);
    if (layout->n_slots > MOST_SHOWN) base_str_format(out, ",... (%u slots)", layout->n_slots);
}
