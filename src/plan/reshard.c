/* Resharding: each target box is covered by the source boxes that meet it.
 *
 * The source is a grid, so the boxes that meet a target box are a range of parts per axis, found
 * by bisection; the work is proportional to the moves that come out. */
#include "plan/reshard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MOVES = 1 << 22 };

typedef struct owner {
    uint32_t slot, index; /* index: into the layout's slots */
} owner;

/* What the walk needs: who owns each box of the source, and how much each owner sends so far. */
typedef struct planner {
    const plan_layout *from, *to;
    uint32_t *first;  /* first[box]..first[box + 1]: the owners of a box, in `owners` */
    uint32_t *owners; /* indices into from->slots */
    uint32_t *peers;  /* of from->slots */
    int64_t *sent;    /* elements, of from->slots */
    plan_moves *moves;
} planner;

/* Box number of an owner: row-major over the axes, the summand last. */
static size_t box_of(const plan_layout *layout, const uint32_t *at) {
    size_t box = 0;
    for (uint32_t a = 0; a <= layout->rank; a++) box = box * layout->parts[a] + at[a];
    return box;
}

static int by_slot(const void *a, const void *b) {
    const owner *x = a, *y = b;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

static owner *sorted_owners(base_arena *arena, const plan_layout *layout) {
    owner *sorted = base_arena_array(arena, owner, layout->n_slots);
    if (!sorted) return NULL;
    for (uint32_t i = 0; i < layout->n_slots; i++) sorted[i] = (owner){layout->slots[i], i};
    qsort(sorted, layout->n_slots, sizeof *sorted, by_slot);
    return sorted;
}

/* Groups the source's owners by box. */
static shoal_status index_owners(base_arena *arena, planner *p) {
    const plan_layout *from = p->from;
    size_t boxes = 1;
    for (uint32_t a = 0; a <= from->rank; a++) boxes *= from->parts[a];
    p->first = base_arena_array(arena, uint32_t, boxes + 2);
    p->owners = base_arena_array(arena, uint32_t, from->n_slots);
    p->peers = base_arena_array(arena, uint32_t, from->n_slots);
    p->sent = base_arena_array(arena, int64_t, from->n_slots);
    if (!p->first || !p->owners || !p->peers || !p->sent) return SHOAL_NO_MEMORY;
    /* Counting sort; counts stand two places on, so that filling moves them one place back. */
    for (uint32_t i = 0; i < from->n_slots; i++)
        p->first[box_of(from, from->coords + (size_t)i * (from->rank + 1)) + 2]++;
    for (size_t box = 1; box < boxes; box++) p->first[box + 1] += p->first[box];
    for (uint32_t i = 0; i < from->n_slots; i++)
        p->owners[p->first[box_of(from, from->coords + (size_t)i * (from->rank + 1)) + 1]++] = i;
    return SHOAL_OK;
}

/* The owner of a source box that serves a target slot. */
static uint32_t choose(const planner *p, size_t box, uint32_t slot, uint32_t peer) {
    uint32_t best = p->owners[p->first[box]];
    bool best_near = false;
    for (uint32_t o = p->first[box]; o < p->first[box + 1]; o++) {
        uint32_t i = p->owners[o];
        if (p->from->slots[i] == slot) return i;
        bool near = p->peers[i] == peer;
        if ((near && !best_near) || (near == best_near && p->sent[i] < p->sent[best])) {
            best = i;
            best_near = near;
        }
    }
    return best;
}

/* The first part that ends after `at`, and the first from there on that begins at or after `end`.
 */
static void parts_range(const int64_t *cuts, uint32_t parts, int64_t at, int64_t end,
                        uint32_t *first, uint32_t *last) {
    uint32_t low = 0, high = parts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cuts[middle + 1] > at)
            high = middle;
        else
            low = middle + 1;
    }
    *first = low;
    high = parts;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cuts[middle] >= end)
            high = middle;
        else
            low = middle + 1;
    }
    *last = low;
}

/* The ranges of source parts that meet a target box; returns how many boxes that is, 0 when the
 * target box is empty. */
static int64_t cover(const plan_layout *from, const base_box *box, uint32_t *first,
                     uint32_t *last) {
    int64_t count = 1;
    for (uint32_t a = 0; a < from->rank; a++) {
        if (box->size[a] == 0) return 0;
        parts_range(from->cuts[a], from->parts[a], box->start[a], box->start[a] + box->size[a],
                    &first[a], &last[a]);
        count *= last[a] - first[a];
    }
    return count;
}

/* Adds the moves of one summand into one target box. */
static void add_moves(planner *p, uint32_t slot, uint32_t peer, uint32_t summand,
                      const base_box *target, const uint32_t *first, const uint32_t *last) {
    const plan_layout *from = p->from;
    uint32_t at[PLAN_MAX_AXES], rank = from->rank;
    memcpy(at, first, rank * sizeof *at);
    at[rank] = summand;
    for (;;) {
        base_box source = {.rank = rank}, common;
        for (uint32_t a = 0; a < rank; a++) {
            source.start[a] = from->cuts[a][at[a]];
            source.size[a] = from->cuts[a][at[a] + 1] - source.start[a];
        }
        if (base_box_intersect(&source, target, &common)) {
            uint32_t i = choose(p, box_of(from, at), slot, peer);
            if (from->slots[i] != slot) p->sent[i] += base_box_count(&common);
            p->moves->moves[p->moves->count++] = (plan_move){from->slots[i], slot, summand, common};
        }
        uint32_t a = rank;
        while (a > 0 && ++at[a - 1] == last[a - 1]) {
            a--;
            at[a] = first[a];
        }
        if (a == 0) return;
    }
}

shoal_status plan_reshard(base_arena *arena, const plan_layout *from, const plan_layout *to,
                          uint32_t (*peer_of)(void *context, uint32_t slot), void *context,
                          plan_moves *out) {
    if (from->rank != to->rank || to->rank > SHOAL_MAX_RANK)
        return base_fail(SHOAL_INVALID, "a layout of rank %u cannot become one of rank %u",
                         from->rank, to->rank);
    if (to->parts[to->rank] != 1)
        return base_fail(SHOAL_INVALID, "a tensor cannot be resharded into %u summands",
                         to->parts[to->rank]);
    for (uint32_t a = 0; a < from->rank; a++)
        if (from->cuts[a][from->parts[a]] != to->cuts[a][to->parts[a]])
            return base_fail(SHOAL_INVALID,
                             "axis %u is %" PRId64 " long in one layout and %" PRId64
                             " in the other",
                             a, from->cuts[a][from->parts[a]], to->cuts[a][to->parts[a]]);
    *out = (plan_moves){0};
    planner p = {.from = from, .to = to, .moves = out};
    SHOAL_TRY(index_owners(arena, &p));
    owner *targets = sorted_owners(arena, to);
    if (!targets) return SHOAL_NO_MEMORY;
    for (uint32_t i = 0; i < from->n_slots; i++)
        p.peers[i] = peer_of ? peer_of(context, from->slots[i]) : from->slots[i];

    uint32_t summands = from->parts[from->rank], first[SHOAL_MAX_RANK], last[SHOAL_MAX_RANK];
    int64_t most = 0;
    for (uint32_t i = 0; i < to->n_slots; i++) {
        base_box box = plan_layout_box(to, i);
        most += cover(from, &box, first, last) * summands;
    }
    if (most > MOST_MOVES)
        return base_fail(SHOAL_INVALID, "%" PRId64 " moves to reshard one tensor; at most %d", most,
                         MOST_MOVES);
    out->moves = base_arena_array(arena, plan_move, most);
    if (!out->moves) return SHOAL_NO_MEMORY;
    for (uint32_t t = 0; t < to->n_slots; t++) {
        base_box box = plan_layout_box(to, targets[t].index);
        if (!cover(from, &box, first, last)) continue;
        uint32_t slot = targets[t].slot, peer = peer_of ? peer_of(context, slot) : slot;
        for (uint32_t s = 0; s < summands; s++) add_moves(&p, slot, peer, s, &box, first, last);
    }
    return SHOAL_OK;
}

int64_t plan_moves_elements(const plan_moves *moves) {
    int64_t elements = 0;
    for (size_t i = 0; i < moves->count; i++)
        if (moves->moves[i].from != moves->moves[i].to)
            elements += base_box_count(&moves->moves[i].box);
    return elements;
}
