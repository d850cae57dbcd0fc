/* Tests of resharding: random layouts, whose moves are carried out on arrays and compared. */
#include "plan/reshard.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

static base_arena arena;

static int fresh(void **state) {
    base_arena_init(&arena, 0);
    srand(42);
    return 0;
}

static int finish(void **state) {
    base_arena_fini(&arena);
    return 0;
}

#define OK(call) assert_int_equal(call, SHOAL_OK)

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A random layout on slots 0..39, in random order: uneven cuts, empty parts, copies, summands. */
static plan_layout random_layout(uint32_t rank, const int64_t *dims, uint32_t summands) {
    plan_layout l = {.rank = rank};
    uint32_t boxes = summands;
    l.parts[rank] = summands;
    for (uint32_t a = 0; a < rank; a++) {
        l.parts[a] = boxes <= 6 ? 1 + (uint32_t)rand() % 3 : 1;
        boxes *= l.parts[a];
        int64_t *cuts = base_arena_array(&arena, int64_t, l.parts[a] + 1);
        for (uint32_t i = 1; i < l.parts[a]; i++) cuts[i] = rand() % (dims[a] + 1);
        cuts[l.parts[a]] = dims[a];
        qsort(cuts, l.parts[a] + 1, sizeof *cuts, by_value);
        l.cuts[a] = cuts;
    }
    uint32_t copies = boxes <= 10 ? 1 + (uint32_t)rand() % 3 : 1;
    l.n_slots = boxes * copies;
    uint32_t *slots = base_arena_array(&arena, uint32_t, 40);
    uint32_t *coords = base_arena_array(&arena, uint32_t, l.n_slots * (rank + 1));
    for (uint32_t i = 0; i < 40; i++) slots[i] = i;
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t j = (uint32_t)rand() % 40, slot = slots[i];
        slots[i] = slots[j];
        slots[j] = slot;
    }
    for (uint32_t i = 0; i < l.n_slots; i++) {
        uint32_t box = i % boxes;
        for (uint32_t a = rank + 1; a-- > 0; box /= l.parts[a])
            coords[i * (rank + 1) + a] = box % l.parts[a];
    }
    l.slots = slots;
    l.coords = coords;
    OK(plan_layout_verify(&l, rank, dims));
    return l;
}

static uint32_t peer_of(void *context, uint32_t slot) { return slot / 4; }

/* Where an element of the whole tensor lies in a box. */
static int64_t inside(const base_box *box, const int64_t *at) {
    int64_t index = 0;
    for (uint32_t a = 0; a < box->rank; a++) index = index * box->size[a] + at[a] - box->start[a];
    return index;
}

/* Follows every move element by element: sources hold what they send, and each element of each
 * target, for each summand, comes exactly once. */
static void check(const plan_layout *from, const plan_layout *to, const plan_moves *moves) {
    uint32_t summands = from->parts[from->rank];
    int *got[40] = {0};
    for (uint32_t i = 0; i < to->n_slots; i++) {
        base_box box = plan_layout_box(to, i);
        got[to->slots[i]] =
            base_arena_array(&arena, int, base_box_count(&box) * (int64_t)summands + 1);
    }
    for (size_t m = 0; m < moves->count; m++) {
        const plan_move *move = &moves->moves[m];
        int s = plan_layout_find(from, move->from), t = plan_layout_find(to, move->to);
        assert_true(s >= 0 && t >= 0);
        assert_int_equal(plan_layout_summand(from, (uint32_t)s), move->summand);
        base_box source = plan_layout_box(from, (uint32_t)s), common;
        base_box target = plan_layout_box(to, (uint32_t)t);
        assert_true(base_box_intersect(&source, &move->box, &common));
        assert_memory_equal(&common, &move->box, sizeof common.rank);
        assert_int_equal(base_box_count(&common), base_box_count(&move->box));
        assert_true(base_box_intersect(&target, &move->box, &common));
        assert_int_equal(base_box_count(&common), base_box_count(&move->box));
        for (int64_t e = 0; e < base_box_count(&move->box); e++) {
            int64_t at[SHOAL_MAX_RANK], rest = e;
            for (uint32_t a = move->box.rank; a-- > 0; rest /= move->box.size[a])
                at[a] = move->box.start[a] + rest % move->box.size[a];
            got[move->to][inside(&target, at) * summands + move->summand]++;
        }
        if (m == 0) continue;
        const plan_move *before = move - 1; /* the order that both ends rely on */
        assert_true(before->to < move->to ||
                    (before->to == move->to && before->summand <= move->summand));
        if (before->to == move->to && before->summand == move->summand) {
            uint32_t a = 0;
            while (before->box.start[a] == move->box.start[a]) a++;
            assert_true(a < move->box.rank && before->box.start[a] < move->box.start[a]);
        }
    }
    for (uint32_t i = 0; i < to->n_slots; i++) {
        base_box box = plan_layout_box(to, i);
        for (int64_t e = 0; e < base_box_count(&box) * (int64_t)summands; e++)
            assert_int_equal(got[to->slots[i]][e], 1);
    }
}

static void test_random(void **state) {
    int zero = 0;
    for (int round = 0; round < 4000; round++) {
        int64_t dims[4], count = 1;
        uint32_t rank = (uint32_t)rand() % 5;
        for (uint32_t a = 0; a < rank; a++) count *= dims[a] = rand() % 7;
        zero += count == 0;
        plan_layout from = random_layout(rank, dims, 1 + (uint32_t)(rand() % 3 == 0) * 2);
        plan_layout to = random_layout(rank, dims, 1);
        plan_moves moves;
        OK(plan_reshard(&arena, &from, &to, round % 2 ? peer_of : NULL, NULL, &moves));
        check(&from, &to, &moves);
        /* A slot that holds what it needs does not ask others for it. */
        for (size_t m = 0; m < moves.count; m++) {
            const plan_move *move = &moves.moves[m];
            int own = plan_layout_find(&from, move->to);
            if (move->from == move->to || own < 0) continue;
            base_box box = plan_layout_box(&from, (uint32_t)own), common;
            assert_false(plan_layout_summand(&from, (uint32_t)own) == move->summand &&
                         base_box_intersect(&box, &move->box, &common));
        }
        base_arena_fini(&arena);
    }
    assert_true(zero > 100);
}

static void test_choice(void **state) {
    int64_t dims[] = {8};
    plan_layout from, to;
    plan_moves moves;
    /* Copies on 0, 4 and 8; wanted on 1 and 2 (peer 0), 5 (peer 1) and 12..14 (no copy near). */
    OK(plan_layout_whole(&arena, 1, dims, (uint32_t[]){0, 4, 8}, 3, &from));
    OK(plan_layout_whole(&arena, 1, dims, (uint32_t[]){8, 14, 13, 12, 5, 2, 1}, 7, &to));
    OK(plan_reshard(&arena, &from, &to, peer_of, NULL, &moves));
    assert_int_equal(moves.count, 7);
    uint32_t sources[] = {0, 0, 4, 8, 8, 4, 8}; /* of 1, 2, 5, 8, 12, 13, 14 */
    for (int i = 0; i < 7; i++) assert_int_equal(moves.moves[i].from, sources[i]);
    assert_int_equal(plan_moves_elements(&moves), 6 * 8);
    assert_int_equal(plan_reshard(&arena, &to, &(plan_layout){.rank = 2, .parts = {1, 1, 1}}, NULL,
                                  NULL, &moves),
                     SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "rank 1 cannot become one of rank 2"));
    int64_t other[] = {9};
    OK(plan_layout_whole(&arena, 1, other, (uint32_t[]){1}, 1, &to));
    assert_int_equal(plan_reshard(&arena, &from, &to, NULL, NULL, &moves), SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "axis 0 is 8 long"));
}

/* Thousands of parts: the moves stay proportional to the parts. */
static void test_many_parts(void **state) {
    enum { N = PLAN_MAX_PARTS };
    static uint32_t slots[N];
    static double weights[N];
    int64_t dims[] = {3 * N, 2};
    for (uint32_t i = 0; i < N; i++) {
        slots[i] = (i * 7) % N;
        weights[i] = 1 + rand() % 5;
    }
    plan_layout from, to;
    plan_moves moves;
    OK(plan_layout_split(&arena, 2, dims, 0, 1, slots, weights, N, &from));
    OK(plan_layout_split(&arena, 2, dims, 0, 1, slots, NULL, N, &to));
    OK(plan_reshard(&arena, &from, &to, NULL, NULL, &moves));
    assert_true(moves.count >= N && moves.count <= 2 * N);
    int64_t elements = 0;
    for (size_t i = 0; i < moves.count; i++) elements += base_box_count(&moves.moves[i].box);
    assert_int_equal(elements, 2 * dims[0]);
    OK(plan_layout_whole(&arena, 2, dims, slots, N, &to));
    assert_int_equal(plan_reshard(&arena, &from, &to, NULL, NULL, &moves), SHOAL_INVALID);
    assert_non_null(strstr(shoal_error_message(), "moves to reshard one tensor"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random, fresh, finish),
        cmocka_unit_test_setup_teardown(test_choice, fresh, finish),
        cmocka_unit_test_setup_teardown(test_many_parts, fresh, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
