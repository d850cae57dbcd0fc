/* The screen of `shoal top`: rates between two looks, widths, names from elsewhere. */
#include "view/screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *text_of(const view_look *before, const view_look *now, int columns) {
    view_smooth smooth = {.part = 1};
    if (before != NULL) assert_true(view_smooth_take(&smooth, before, now));
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    view_screen_write(out, &smooth, now, columns);
    view_smooth_fini(&smooth);
    assert_int_equal(fclose(out), 0);
    assert_non_null(text);
    return text;
}

static void has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("no '%s' in:\n%s", part, text);
}

static const shoal_slot old_slots[] = {{.slot = 0,
                                        .pid = 10,
                                        .compute = true,
                                        .worker = "left",
                                        .host = "vm",
                                        .backend = "cpu",
                                        .name = "cpu",
                                        .nodes = 100,
                                        .instances = 10},
                                       {.slot = 1, .pid = 11, .worker = "client"},
                                       {.slot = 2, .pid = 12, .compute = true, .nodes = 1000000}};
static const shoal_slot new_slots[] = {
    {.slot = 0,
     .pid = 10,
     .compute = true,
     .worker = "left",
     .host = "vm",
     .backend = "cpu",
     .name = "cpu",
     .queued = 3,
     .paths = 1,
     .paths_lost = 3,
     .nodes = 25100,
     .instances = 30,
     .busy_ns = 1000000000,
     .received = 4 << 20,
     .sent = 1 << 20,
     .bytes = 3 << 20,
     .memory = UINT64_C(8) << 30},
    {.slot = 1, .pid = 11, .worker = "client", .received = 1 << 20},
    {.slot = 2,
     .pid = 99, /* another process has the number now */
     .compute = true,
     .worker = "new\x1b[2J\xc3\xa4",
     .paths = 2,
     .nodes = 5}};
static const shoal_path paths[] = {
    {.worker = "left",
     .other = "client",
     .address = "tcp://10.0.0.1:7400",
     .speed = 3 << 20,
     .sent = 5 << 20,
     .saved = 1 << 20},
    {.worker = "left", .other = "hub", .address = "shm", .sent = 100},
    {.worker = "left", .other = "new", .address = "tcp://10.0.0.2:7400"}};
static const view_look before = {
    .status = {.n_slots = 3, .instances = 40}, .slots = old_slots, .at = 5};
static const view_look now = {.status = {.n_slots = 3,
                                         .instances = 60,
                                         .sessions = 1,
                                         .values = 7,
                                         .bytes = 3 << 20,
                                         .losses = 1,
                                         .reruns = 2,
                                         .epoch = 4,
                                         .uptime_ms = 3725000,
                                         .version = "1.2",
                                         .address = "shm:hub"},
                              .slots = new_slots,
                              .paths = paths,
                              .n_paths = 3,
                              .at = 7};

static void test_rates(void **state) {
    char *text = text_of(&before, &now, 200);
    has(text, "pool shm:hub, version 1.2, up 1:02:05, epoch 4\n");
    has(text, "2 devices, 1 session, 7 values (3.0 MiB), 1 lost worker, 2 reruns\n");
    has(text, "12.5k operations/s, 10 programs/s, 2.5 MiB/s moved, 25 % busy\n");
    has(text,
        "left             vm         cpu      #####.....  50%   12.5k     10   2.0 MiB   512 KiB   "
        "3.0 MiB   8.0 GiB      3   1(3)\n");
    /* Of who has come since then nothing is known, and its name cannot do anything. */
    has(text, "new?[2J??        ");
    has(text,
        "..........   0%       0      0       0 B       0 B       0 B         -      0      2\n");
    /* Paths by which something has gone. */
    has(text,
        "left       to client     by tcp://10.0.0.1:7400          3.0 MiB/s  sent   5.0 MiB,   "
        "1.0 MiB less\n");
    has(text,
        "left       to hub        by shm                                -/s  sent     100 B,");
    assert_null(strstr(text, "10.0.0.2"));
    assert_null(strstr(text, "\nclient"));
    free(text);
    text = text_of(NULL, &now, 200);
    has(text, "0 operations/s, 0 programs/s, 0 B/s moved, 0 % busy\n");
    free(text);
}

/* Long names are shown as far as there is room. */
static void test_long_names(void **state) {
    shoal_slot slot = {.compute = true, .worker = "a-machine-in-the-attic-1"};
    const view_look one = {.status = {.n_slots = 1}, .slots = &slot};
    char *text = text_of(NULL, &one, 80);
    has(text, "\na-machine-in-the ..........");
    free(text);
    text = text_of(NULL, &one, 84);
    has(text, "\nWORKER               BUSY ");
    has(text, "\na-machine-in-the-att ..........");
    free(text);
    text = text_of(NULL, &one, 200);
    has(text, "\nWORKER                   HOST ");
    has(text, "\na-machine-in-the-attic-1  ");
    free(text);
}

/* A part of 0.25: the first rates are taken as they are, later ones are followed. */
static void test_smooth(void **state) {
    view_smooth smooth = {.part = 0.25};
    shoal_slot slots[3];
    memcpy(slots, new_slots, sizeof slots);
    view_look next = now;
    next.slots = slots;
    next.at = 8;
    assert_true(view_smooth_take(&smooth, &before, &now));
    assert_true(smooth.slots[0].rates.nodes == 12500 && smooth.programs == 10);
    slots[0].nodes += 500;
    next.status.instances += 30;
    assert_true(view_smooth_take(&smooth, &now, &next));
    assert_true(smooth.slots[0].rates.nodes == 9500 && smooth.programs == 15);
    assert_true(smooth.slots[0].rates.busy == 0.375);
    slots[0].pid = 98; /* another process: nothing of the old one */
    assert_true(view_smooth_take(&smooth, &now, &next));
    assert_true(smooth.slots[0].rates.nodes == 0);
    view_smooth_fini(&smooth);
}

static void test_width(void **state) {
    char *text = text_of(&before, &now, 40);
    size_t longest = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        longest = strlen(line) > longest ? strlen(line) : longest;
    assert_int_equal(longest, 40);
    free(text);
    /* On a usual screen nothing is cut: some columns are left out. */
    text = text_of(&before, &now, 80);
    has(text, "left             #####.....  50%   12.5k     10   2.0 MiB   512 KiB   3.0 MiB\n");
    free(text);
}

static void test_empty(void **state) {
    const view_look none = {.status = {.version = "1", .address = "shm:hub"}};
    char *text = text_of(NULL, &none, 80);
    has(text, "0 devices, 0 sessions, 0 values (0 B)");
    has(text, "no workers yet\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates), cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_smooth), cmocka_unit_test(test_width), cmocka_unit_test(test_empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
