/* Chunks that go compressed: when they do, that they are what they were, and that what somebody
 * else makes of one is refused. */
#include "wire/paths_testing.h"

enum { SLOW = 1000000, FASTER = 110000000 };

/* What waits at the other end of the only connection. */
static packet *first_data(void) {
    end *to = ((end *)near.link)->other;
    for (packet *p = to->first; p; p = p->next)
        if (p->frame.type == WIRE_FRAME_DATA || p->frame.type == WIRE_FRAME_COMPRESSED) return p;
    return NULL;
}

static void begin_one(double speed, size_t every) {
    paths_speed = speed;
    dense = every;
    begin_houses(1, 1);
}

static void end_one(void) {
    paths_speed = 0;
    dense = PAGE;
    end_houses();
}

/* One transfer; the type of its first frame, before all of it comes. */
static uint16_t send_one(uint64_t bytes) {
    assert_true(give_bytes(&near, 0, bytes));
    turn(&near);
    uint16_t type = first_data()->frame.type;
    settle();
    assert_int_equal(far.bytes, bytes);
    assert_int_equal(near.done, 1);
    return type;
}

static void test_when(void **state) {
    static const struct {
        double speed;
        size_t every; /* so many bytes is one word that is not zero */
        uint64_t bytes;
        bool compressed;
    } cases[] = {
        {SLOW, PAGE, WIRE_CHUNK, true},    {SLOW, 64, WIRE_CHUNK, true},
        {SLOW, PAGE, 16 << 10, true},      {SLOW, PAGE, 5 * WIRE_CHUNK + 12345, true},
        {SLOW, 8, WIRE_CHUNK, false},      /* noise */
        {SLOW, PAGE, 16383, false},        /* too little to tell anything */
        {FASTER, PAGE, WIRE_CHUNK, false}, /* as Ethernet is */
        {0, PAGE, WIRE_CHUNK, false},      /* nothing is known, or it is the same machine */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_one(cases[i].speed, cases[i].every);
        uint16_t type = send_one(cases[i].bytes);
        assert_int_equal(type, cases[i].compressed ? WIRE_FRAME_COMPRESSED : WIRE_FRAME_DATA);
        wire_count count = wire_link_count(near.link);
        assert_int_equal(count.saved_out > 0, cases[i].compressed);
        assert_int_equal(count.bytes_out + count.saved_out, cases[i].bytes);
        end_one();
    }
}

/* The middle promises more than the whole keeps: it goes as it is. */
static void half_read(void *context, uint64_t offset, void *to, size_t n) {
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t w = i < n / 2 + (64 << 10) && i > n / 2 - (64 << 10) ? 0 : word(0, i / 8);
        memcpy((char *)to + i, &w, 8);
    }
}

static shoal_status ignore(void *context, wire_link *link, const wire_transfer *transfer,
                           uint64_t offset, const void *bytes, size_t n) {
    (void)link;
    (void)transfer;
    (void)offset;
    (void)bytes;
    ((house *)context)->bytes += n;
    return SHOAL_OK;
}

static void test_the_middle_is_no_promise(void **state) {
    begin_one(SLOW, PAGE);
    far.peer->handlers[WIRE_WORKER].data = ignore;
    wire_transfer transfer = {5, 1, 0, WIRE_CHUNK};
    wire_source source = {NULL, half_read, NULL};
    assert_int_equal(wire_send_data(near.link, &transfer, &source), SHOAL_OK);
    turn(&near);
    assert_int_equal(first_data()->frame.type, WIRE_FRAME_DATA);
    settle();
    assert_int_equal(far.bytes, WIRE_CHUNK);
    end_one();
}

/* Who does not say that it takes them gets none. */
static void test_the_other_side_cannot(void **state) {
    begin_one(SLOW, PAGE);
    ((end *)near.link)->framed.expands = false;
    assert_int_equal(send_one(WIRE_CHUNK), WIRE_FRAME_DATA);
    end_one();
    begin_one(SLOW, PAGE);
    assert_true(((end *)near.link)->framed.expands);
    assert_int_equal(((end *)near.link)->framed.hello->features, WIRE_FEATURES);
    end_one();
}

/* Without memory for the smaller frame, the larger goes. */
static void read_then_none(void *context, uint64_t offset, void *to, size_t n) {
    counted_read(context, offset, to, n);
    no_memory = true;
}

static void test_no_memory_for_it(void **state) {
    begin_one(SLOW, PAGE);
    counted c = {&near, 0};
    near.sizes[0] = WIRE_CHUNK;
    wire_transfer transfer = {5, 1, 0, WIRE_CHUNK};
    wire_source source = {&c, read_then_none, NULL};
    assert_int_equal(wire_send_data(near.link, &transfer, &source), SHOAL_OK);
    turn(&near);
    no_memory = false;
    assert_int_equal(first_data()->frame.type, WIRE_FRAME_DATA);
    settle();
    assert_int_equal(far.bytes, WIRE_CHUNK);
    end_one();
}

/* What is no compressed chunk, or is not what it says, ends the link. */
static void test_bad_chunks(void **state) {
    /* how far the frame is cut, what is added to its number of bytes, which byte is changed */
    static const struct {
        uint32_t cut, more, at;
    } cases[] = {{1, 0, 0},
                 {9, 0, 0},
                 {1 << 20, 0, 0},
                 {0, 1, 0},
                 {0, -1, 0},
                 {0, 1 << 20, 0},
                 {0, -(uint32_t)WIRE_CHUNK, 0},
                 {0, 1U << 31, 0},
                 {0, 0, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_one(SLOW, PAGE);
        assert_true(give_bytes(&near, 0, WIRE_CHUNK));
        turn(&near);
        packet *p = first_data();
        uint32_t n, cut = cases[i].cut;
        memcpy(&n, p->payload, sizeof n);
        assert_int_equal(n, WIRE_CHUNK);
        n += cases[i].more;
        memcpy(p->payload, &n, sizeof n);
        p->payload[cases[i].at] ^= cases[i].at ? 0xff : 0;
        p->frame.bytes = cut < p->frame.bytes ? p->frame.bytes - cut : 2;
        settle();
        assert_int_equal(far.bytes, 0);
        assert_int_equal(near.closed, 1);
        assert_non_null(strstr(near.text, "are no compressed chunk of"));
        end_one();
    }
}

/* A chunk expands to what its transfer has room for, and no further. */
static void test_a_chunk_beyond_its_transfer(void **state) {
    begin_one(SLOW, PAGE);
    assert_true(give_bytes(&near, 0, WIRE_CHUNK));
    turn(&near);
    first_data()->frame.total = WIRE_CHUNK - 1;
    settle();
    assert_int_equal(far.bytes, 0);
    assert_non_null(strstr(near.text, "of a transfer of 1048575 bytes"));
    end_one();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when),
        cmocka_unit_test(test_the_middle_is_no_promise),
        cmocka_unit_test(test_the_other_side_cannot),
        cmocka_unit_test(test_no_memory_for_it),
        cmocka_unit_test(test_bad_chunks),
        cmocka_unit_test(test_a_chunk_beyond_its_transfer),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
