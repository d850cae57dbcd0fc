/* Beacons: their bytes, what is ignored, and one that goes over loopback. */
#include "wire/beacon.h"

#include "base/clock.h"
#include "base/os.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char golden[] = "SHOALHUB"
                             "\x00\x01"
                             "\x00\x25"
                             "\x01\x02\x03\x04\x05\x06\x07\x08"
                             "tcp://1.2.3.4:7400,tcp://[fd00::1]:80";

static size_t make(const char *addresses, uint8_t *out) {
    wire_beacon beacon = {.fingerprint = UINT64_C(0x0102030405060708)};
    snprintf(beacon.addresses, sizeof beacon.addresses, "%s", addresses);
    return wire_beacon_write(&beacon, out);
}

static void test_bytes(void **state) {
    uint8_t bytes[WIRE_BEACON_MOST];
    wire_beacon back;
    size_t n = make("tcp://1.2.3.4:7400,tcp://[fd00::1]:80", bytes);
    assert_int_equal(n, sizeof golden - 1);
    assert_memory_equal(bytes, golden, n);
    assert_true(wire_beacon_read(bytes, n, &back));
    assert_int_equal(back.fingerprint, UINT64_C(0x0102030405060708));
    assert_string_equal(back.addresses, "tcp://1.2.3.4:7400,tcp://[fd00::1]:80");
    for (size_t less = 0; less < n; less++) assert_false(wire_beacon_read(bytes, less, &back));
    for (size_t i = 0; i < 12; i++) { /* its head has no bit to spare */
        bytes[i] ^= 0x40;
        assert_false(wire_beacon_read(bytes, n, &back));
        bytes[i] ^= 0x40;
    }
}

static void test_addresses(void **state) {
    uint8_t bytes[WIRE_BEACON_MOST];
    static const char *const wrong[] = {
        "",
        "tcp://",
        "shm:hub",
        "tcp://hub.example.org:7400", /* a name would be asked for */
        "tcp://1.2.3.4",
        "tcp://1.2.3.4:",
        "tcp://1.2.3.4:0",
        "tcp://1.2.3.4:65536",
        "tcp://1.2.3.4:7400,",
        ",tcp://1.2.3.4:7400",
        "tcp://1.2.3.4:7400/00",
        "tcp://[fd00::1:7400",
        "tcp://[]:7400",
        "tcp://1.2.3.4:7400 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (make(wrong[i], bytes) != 0) fail_msg("'%s' was taken", wrong[i]);
    char many[WIRE_BEACON_TEXT] = "tcp://1.2.3.4:1";
    for (int i = 1; i < 8; i++) strcat(many, ",tcp://1.2.3.4:1");
    assert_int_not_equal(make(many, bytes), 0);
    strcat(many, ",tcp://1.2.3.4:1");
    assert_int_equal(make(many, bytes), 0);
}

static void test_ports(void **state) {
    uint16_t port;
    unsetenv("SHOAL_BEACON");
    assert_int_equal(wire_beacon_port(NULL, &port), SHOAL_OK);
    assert_int_equal(port, WIRE_BEACON_PORT);
    assert_int_equal(wire_beacon_port("off", &port), SHOAL_OK);
    assert_int_equal(port, 0);
    setenv("SHOAL_BEACON", "7555", 1);
    assert_int_equal(wire_beacon_port(NULL, &port), SHOAL_OK);
    assert_int_equal(port, 7555);
    assert_int_equal(wire_beacon_port("65535", &port), SHOAL_OK);
    assert_int_equal(port, 65535);
    static const char *const wrong[] = {"", "0", "65536", "-1", " 7", "7x", "on"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(wire_beacon_port(wrong[i], &port), SHOAL_INVALID);
        assert_non_null(strstr(shoal_error_message(), "must be off or a UDP port, 1 to 65535"));
    }
    setenv("SHOAL_BEACON", "loud", 1);
    assert_int_equal(wire_beacon_port(NULL, &port), SHOAL_INVALID);
    assert_string_equal(shoal_error_message(),
                        "SHOAL_BEACON 'loud': must be off or a UDP port, 1 to 65535");
    unsetenv("SHOAL_BEACON");
}

/* A folder of keys of its own. */
static char folder[] = "/tmp/shoal-beacon-XXXXXX";

static int set_up(void **state) {
    if (!mkdtemp(folder)) return -1;
    return setenv("XDG_CONFIG_HOME", folder, 1);
}

static int tear_down(void **state) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static uint16_t some_port(void) { return (uint16_t)(20000 + getpid() % 20000); }

static void test_found_on_loopback(void **state) {
    wire_announcer announcer;
    wire_key_pair own;
    char found[1024], expected[256], hex[WIRE_KEY_TEXT];
    uint16_t port = some_port();
    assert_int_equal(wire_beacon_find(port, base_now() + BASE_SECOND, NULL, found, sizeof found),
                     SHOAL_NOT_FOUND);
    assert_non_null(strstr(shoal_error_message(), "has joined no hub"));
    assert_int_equal(wire_keys_own(&own), SHOAL_OK);
    uint8_t other[WIRE_KEY] = {7};
    assert_int_equal(wire_keys_add_hub("tcp://10.9.9.9:1", other), SHOAL_OK);
    assert_int_equal(
        wire_announcer_init(&announcer, "shm:hub,tcp://127.0.0.1:7411,tcp://host:7411", port),
        SHOAL_OK);
    /* Of a hub that was never joined nothing is taken, whatever it says. */
    int64_t before = base_now();
    int fd;
    assert_int_equal(base_os_broadcast_listen(port, &fd), SHOAL_OK);
    wire_announcer_tick(&announcer);
    uint8_t heard[WIRE_BEACON_MOST + 1];
    assert_int_equal(base_os_broadcast_receive(fd, heard, sizeof heard, 2000), announcer.n);
    wire_announcer_tick(&announcer); /* too early */
    assert_int_equal(base_os_broadcast_receive(fd, heard, sizeof heard, 100), 0);
    close(fd);
    volatile int stop = 1;
    assert_int_equal(wire_beacon_find(port, before + 60 * BASE_SECOND, &stop, found, sizeof found),
                     SHOAL_NOT_FOUND);
    assert_int_equal(wire_beacon_find(port, base_now() + 300 * BASE_MS, NULL, found, sizeof found),
                     SHOAL_NOT_FOUND);
    assert_non_null(strstr(shoal_error_message(), "no hub that this user has joined announces"));
    /* One that was joined at an address it no longer has. */
    assert_int_equal(wire_keys_add_hub("tcp://10.8.8.8:1", own.public), SHOAL_OK);
    volatile int go = 0;
    shoal_status status = SHOAL_NOT_FOUND;
    for (int i = 0; i < 20 && status == SHOAL_NOT_FOUND; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            nanosleep(&(struct timespec){.tv_nsec = 100 * BASE_MS}, NULL);
            wire_announcer_tick(&announcer);
            _exit(0);
        }
        status = wire_beacon_find(port, base_now() + 500 * BASE_MS, &go, found, sizeof found);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    assert_int_equal(status, SHOAL_OK);
    snprintf(expected, sizeof expected, "tcp://127.0.0.1:7411/%s", wire_key_text(own.public, hex));
    assert_string_equal(found, expected);
    wire_announcer_fini(&announcer);
}

static void test_where_nothing_can_be_announced(void **state) {
    wire_announcer announcer;
    assert_int_equal(wire_announcer_init(&announcer, "shm:hub,tcp://host:7400", 7400),
                     SHOAL_INVALID);
    assert_int_equal(wire_announcer_init(&announcer, "tcp://192.0.2.77:7400", 7400),
                     SHOAL_UNSUPPORTED);
    assert_non_null(strstr(shoal_error_message(), "192.0.2.77 is on no network with broadcasts"));
    wire_announcer_tick(&announcer);
    wire_announcer_fini(&announcer);
}

/* In the network of each address, as far as it has broadcasts. */
static void test_all_networks(void **state) {
    wire_announcer announcer;
    uint8_t heard[WIRE_BEACON_MOST + 1];
    uint16_t port = some_port();
    int fd;
    assert_int_equal(wire_announcer_init(&announcer,
                                         "shm:hub,tcp://192.0.2.77:7400,tcp://127.0.0.1:7411,"
                                         "tcp://[fd00::5]:7400,tcp://127.0.0.1:7412",
                                         port),
                     SHOAL_OK);
    assert_int_equal(base_os_broadcast_listen(port, &fd), SHOAL_OK);
    wire_announcer_tick(&announcer);
    for (int i = 0; i < 2; i++)
        assert_int_equal(base_os_broadcast_receive(fd, heard, sizeof heard, 2000), announcer.n);
    assert_int_equal(base_os_broadcast_receive(fd, heard, sizeof heard, 100), 0);
    close(fd);
    wire_announcer_fini(&announcer);
    assert_int_equal(announcer.n_fds, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_addresses),
                                       cmocka_unit_test(test_ports),
                                       cmocka_unit_test(test_found_on_loopback),
                                       cmocka_unit_test(test_where_nothing_can_be_announced),
                                       cmocka_unit_test(test_all_networks)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
