/* What is kept of users: a file is written under another name, in full, before it has its own, and
 * its folder is synced after: neither a crash nor a loss of power leaves half of one, or none. */
#define _GNU_SOURCE
#include "wire/keys_file.h"
#include "wire/wire_testing.h"

#include <sys/syscall.h>

/* In the place of those of the C library: what happens, in order. */
enum { MOST = 64 };
static struct {
    char what; /* 'f': a file was synced, 'r': one got its name, 'd': a folder was synced */
    char path[256];
} steps[MOST];
static size_t n_steps;

static void note(char what, const char *path) {
    if (n_steps == MOST) return;
    steps[n_steps].what = what;
    snprintf(steps[n_steps++].path, sizeof steps->path, "%s", path);
}

int fsync(int fd) {
    char link[64], path[256];
    struct stat st;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (!fstat(fd, &st)) note(S_ISDIR(st.st_mode) ? 'd' : 'f', path);
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    note('r', to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* One file of this name was written since the last look. */
static void was_kept(const char *name) {
    char file[PATH_MAX], where[PATH_MAX + 8], draft[PATH_MAX + 8];
    assert_int_equal(wire_file_path(name, file, sizeof file), SHOAL_OK);
    snprintf(draft, sizeof draft, "%s.new", file);
    snprintf(where, sizeof where, "%.*s", (int)(strrchr(file, '/') - file), file);
    assert_int_equal(n_steps, 3);
    assert_int_equal(steps[0].what, 'f');
    assert_string_equal(steps[0].path, draft);
    assert_int_equal(steps[1].what, 'r');
    assert_string_equal(steps[1].path, file);
    assert_int_equal(steps[2].what, 'd');
    assert_string_equal(steps[2].path, where);
    assert_int_equal(access(file, R_OK), 0);
    assert_int_equal(access(draft, F_OK), -1);
    n_steps = 0;
}

static void test_files_last(void **state) {
    wire_key_pair own, token, guest;
    char text[512], name[WIRE_MAX_NAME + 1] = "ann";
    n_steps = 0;
    assert_int_equal(wire_keys_own(&own), SHOAL_OK);
    was_kept("key");
    assert_int_equal(wire_key_pair_new(&token), SHOAL_OK);
    assert_int_equal(wire_key_pair_new(&guest), SHOAL_OK);
    assert_int_equal(wire_keys_add_token(token.public, 1ull << 40, WIRE_ROLE_BOTH), SHOAL_OK);
    was_kept("tokens");
    assert_int_equal(wire_keys_enrol(token.public, guest.public, name), SHOAL_OK);
    assert_int_equal(n_steps, 6); /* the peer and the token that has been used */
    n_steps = 0;
    assert_int_equal(wire_keys_set_role("ann", WIRE_ROLE_CLIENT), SHOAL_OK);
    was_kept("peers");
    assert_int_equal(wire_keys_revoke("ann"), SHOAL_OK);
    was_kept("peers");
    assert_int_equal(wire_keys_add_hub("tcp://127.0.0.1:1", own.public), SHOAL_OK);
    was_kept("hubs");
    assert_int_equal(wire_keys_set_listening("tcp://127.0.0.1:1"), SHOAL_OK);
    was_kept("hub");
    wire_keys_listening(text, sizeof text);
    assert_string_equal(text, "tcp://127.0.0.1:1");
}

/* When it cannot be written, what was there stays. */
static void test_failure(void **state) {
    char where[PATH_MAX + 8], file[PATH_MAX];
    base_str text = {0}, back = {0};
    assert_int_equal(wire_file_path("kept", file, sizeof file), SHOAL_OK);
    snprintf(where, sizeof where, "%s.new", file);
    base_str_format(&text, "first\n");
    assert_int_equal(wire_file_write("kept", &text), SHOAL_OK);
    assert_int_equal(mkdir(where, 0700), 0); /* stands where the draft is to be */
    base_str_format(&text, "second\n");
    assert_int_not_equal(wire_file_write("kept", &text), SHOAL_OK);
    assert_non_null(strstr(shoal_error_message(), "kept.new"));
    assert_int_equal(wire_file_read("kept", &back), SHOAL_OK);
    assert_int_equal(back.size, 6);
    assert_memory_equal(back.data, "first\n", 6);
    assert_int_equal(rmdir(where), 0);
    base_str_fini(&text);
    base_str_fini(&back);
}

/* Of threads, too, one at a time. */
static void test_lock_is_held(void **state) {
    int held;
    wire_key_pair own;
    assert_int_equal(wire_file_lock(&held), SHOAL_OK);
    int64_t start = base_now();
    assert_int_equal(wire_keys_own(&own), SHOAL_BUSY);
    assert_in_range((uint64_t)(base_now() - start), 4 * BASE_SECOND, 60 * BASE_SECOND);
    assert_non_null(strstr(shoal_error_message(), "lock has been held by another process for 5 s"));
    close(held);
    assert_int_equal(wire_keys_own(&own), SHOAL_OK);
}

static void *own_key(void *out) { return wire_keys_own(out) == SHOAL_OK ? out : NULL; }

/* Whoever is first makes the key that all have. */
static void test_one_key(void **state) {
    enum { THREADS = 8 };
    char path[PATH_MAX];
    pthread_t threads[THREADS];
    static wire_key_pair own[THREADS];
    for (int round = 0; round < 20; round++) {
        assert_int_equal(wire_file_path("key", path, sizeof path), SHOAL_OK);
        unlink(path);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, own_key, &own[i]), 0);
        for (int i = 0; i < THREADS; i++) {
            void *made;
            assert_int_equal(pthread_join(threads[i], &made), 0);
            assert_non_null(made);
            assert_memory_equal(&own[i], &own[0], sizeof own[0]);
        }
    }
}

/* The key for artifacts is made once, by whoever is first, and is the seed's that the file holds.
 */
static void test_artifacts(void **state) {
    /* The first test of RFC 8032. */
    static const char secret[] =
        "secret 9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n";
    static const char public[] = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    static const char *const files[] = {"secret 00\n", "public 00\n", "secret\n", "\n", secret};
    enum { FILES = sizeof files / sizeof *files };
    uint8_t key[WIRE_KEY], again[WIRE_KEY];
    char path[PATH_MAX];
    assert_int_equal(wire_file_path("artifacts", path, sizeof path), SHOAL_OK);
    assert_int_equal(wire_keys_artifacts(key), SHOAL_OK);
    assert_int_equal(wire_keys_artifacts(again), SHOAL_OK);
    assert_memory_equal(key, again, sizeof key);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(wire_keys_artifacts(again), SHOAL_DENIED);
    assert_non_null(strstr(shoal_error_message(), "is open to others (mode 644): chmod 600 it"));
    assert_int_equal(chmod(path, 0600), 0);
    for (size_t i = 0; i < FILES; i++) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(files[i], file);
        fclose(file);
        assert_int_equal(wire_keys_artifacts(key), i == FILES - 1 ? SHOAL_OK : SHOAL_FORMAT);
    }
    assert_true(wire_key_parse(public, again));
    assert_memory_equal(key, again, sizeof key);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_last),   cmocka_unit_test(test_failure),
        cmocka_unit_test(test_lock_is_held), cmocka_unit_test(test_one_key),
        cmocka_unit_test(test_artifacts),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
