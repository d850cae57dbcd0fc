/* The files of keys: see keys.h. Each is lines of words; one that cannot be read is passed over and
 * told of, so that a broken line lets nobody in and hides nobody else. */
#include "wire/keys_file.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { MOST = 1 << 20, LOCK_MS = 5000 };

char *wire_key_text(const uint8_t *key, char *out) {
    for (int i = 0; i < WIRE_KEY; i++) snprintf(out + 2 * i, 3, "%02x", key[i]);
    return out;
}

bool wire_key_parse(const char *text, uint8_t *out) {
    for (int i = 0; i < WIRE_KEY; i++) {
        if (!isxdigit((unsigned char)text[2 * i]) || !isxdigit((unsigned char)text[2 * i + 1]))
            return false;
        const char byte[] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return true;
}

shoal_status wire_key_pair_new(wire_key_pair *out) {
    char public[41], secret[41];
    if (zmq_curve_keypair(public, secret))
        return base_fail(SHOAL_UNSUPPORTED, "libzmq has no CURVE here: install one with libsodium");
    zmq_z85_decode(out->public, public);
    zmq_z85_decode(out->secret, secret);
    sodium_memzero(secret, sizeof secret);
    return SHOAL_OK;
}

shoal_status wire_key_pair_derive(wire_key_pair *out) {
    char public[41], secret[41];
    zmq_z85_encode(secret, out->secret, WIRE_KEY);
    bool failed = zmq_curve_public(public, secret);
    sodium_memzero(secret, sizeof secret);
    if (failed) return base_fail(SHOAL_FORMAT, "a secret key is none");
    zmq_z85_decode(out->public, public);
    return SHOAL_OK;
}

/* ---- files ---- */

shoal_status wire_file_path(const char *name, char *out, size_t room) {
    SHOAL_TRY(base_os_config_folder(true, out, room));
    size_t used = strlen(out);
    snprintf(out + used, room - used, "/%s", name);
    return SHOAL_OK;
}

/* All of a file; nothing when there is none. */
shoal_status wire_file_read(const char *name, base_str *out) {
    char path[PATH_MAX];
    SHOAL_TRY(wire_file_path(name, path, sizeof path));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT ? SHOAL_OK : base_fail_errno(errno, "opening %s", path);
    struct stat st;
    shoal_status status = SHOAL_OK;
    if (fstat(fd, &st))
        status = base_fail_errno(errno, "looking at %s", path);
    else if (st.st_uid != geteuid() || st.st_mode & 077)
        status = base_fail(SHOAL_DENIED, "%s is open to others (mode %03o): chmod 600 it", path,
                           (unsigned)st.st_mode & 0777);
    else if (st.st_size > MOST)
        status = base_fail(SHOAL_FORMAT, "%s has %lld bytes: it is no file of ours", path,
                           (long long)st.st_size);
    char bytes[4096];
    ssize_t n = 0;
    while (status == SHOAL_OK && out->size <= MOST && (n = read(fd, bytes, sizeof bytes)) > 0)
        base_str_bytes(out, bytes, (size_t)n);
    if (status == SHOAL_OK && n < 0) status = base_fail_errno(errno, "reading %s", path);
    sodium_memzero(bytes, sizeof bytes);
    close(fd);
    return status == SHOAL_OK ? base_str_status(out) : status;
}

void wire_file_forget(base_str *text) {
    if (text->data) sodium_memzero(text->data, text->size);
    base_str_fini(text);
}

/* Under another name first: a reader sees the old file or the new one. */
shoal_status wire_file_write(const char *name, const base_str *lines) {
    char path[PATH_MAX], hidden[PATH_MAX + 8];
    SHOAL_TRY(base_str_status(lines));
    SHOAL_TRY(wire_file_path(name, path, sizeof path));
    snprintf(hidden, sizeof hidden, "%s.new", path);
    int fd = open(hidden, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return base_fail_errno(errno, "writing %s", hidden);
    bool written = !lines->size || write(fd, lines->data, lines->size) == (ssize_t)lines->size;
    written = !fsync(fd) && written;
    written = !close(fd) && written;
    shoal_status status =
        written ? base_os_rename(hidden, path) : base_fail_errno(errno, "writing %s", path);
    if (status != SHOAL_OK) unlink(hidden);
    return status;
}

/* None waits for ever for another that is stopped. */
shoal_status wire_file_lock(int *out) {
    char path[PATH_MAX];
    SHOAL_TRY(wire_file_path("lock", path, sizeof path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return base_fail_errno(errno, "opening %s", path);
    int64_t end = base_now() + LOCK_MS * BASE_MS;
    /* Not a lock of fcntl's, which lets in all threads of a process, and goes with any of them. */
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        int error = errno;
        if (error != EWOULDBLOCK && error != EINTR) {
            close(fd);
            return base_fail_errno(error, "locking %s", path);
        }
        if (base_now() > end) {
            close(fd);
            return base_fail(SHOAL_BUSY, "%s has been held by another process for %d s", path,
                             LOCK_MS / 1000);
        }
        nanosleep(&(struct timespec){.tv_nsec = 10 * BASE_MS}, NULL);
    }
    *out = fd;
    return SHOAL_OK;
}

int wire_file_line(wire_file_cursor *c) {
    while (c->at && *c->at) {
        char *line = c->at, *end = strchr(line, '\n'), *rest = NULL;
        c->at = end ? end + 1 : NULL;
        c->line++;
        if (end) *end = 0;
        int n = 0;
        for (char *word = strtok_r(line, " \t\r", &rest); word && n < WIRE_FILE_WORDS;
             word = strtok_r(NULL, " \t\r", &rest))
            c->words[n++] = word;
        if (n) return n;
    }
    return 0;
}

/* ---- own key ---- */

static bool parse_own(char *text, wire_key_pair *out) {
    wire_file_cursor c = {.at = text};
    bool public = false, secret = false;
    for (int n; (n = wire_file_line(&c));) {
        if (n != 2) continue;
        if (!strcmp(c.words[0], "public")) public = wire_key_parse(c.words[1], out->public);
        if (!strcmp(c.words[0], "secret")) secret = wire_key_parse(c.words[1], out->secret);
    }
    return public && secret;
}

static shoal_status make_own(wire_key_pair *out) {
    char public[WIRE_KEY_TEXT], secret[WIRE_KEY_TEXT];
    base_str text = {0};
    SHOAL_TRY(wire_key_pair_new(out));
    base_str_format(&text, "public %s\nsecret %s\n", wire_key_text(out->public, public),
                    wire_key_text(out->secret, secret));
    shoal_status status = wire_file_write("key", &text);
    wire_file_forget(&text);
    sodium_memzero(secret, sizeof secret);
    return status;
}

shoal_status wire_keys_own(wire_key_pair *out) {
    base_str text = {0};
    int lock;
    SHOAL_TRY(wire_file_lock(&lock));
    shoal_status status = wire_file_read("key", &text);
    if (status == SHOAL_OK && !text.size)
        status = make_own(out);
    else if (status == SHOAL_OK && !parse_own(text.data, out))
        status = base_fail(SHOAL_FORMAT, "the file 'key' in the configuration folder holds no key "
                                         "pair: remove it and enrol anew");
    wire_file_forget(&text);
    close(lock);
    return status;
}

/* ---- the key for artifacts ---- */

/* Under a name that is not taken: the process that makes it first has made it, and those in Python,
 * which do the same, take no lock. */
static shoal_status make_artifacts(void) {
    char draft[64], from[PATH_MAX], to[PATH_MAX], hex[WIRE_KEY_TEXT];
    uint8_t seed[WIRE_KEY];
    base_str text = {0};
    snprintf(draft, sizeof draft, "artifacts.%ld", (long)getpid());
    SHOAL_TRY(wire_file_path(draft, from, sizeof from));
    SHOAL_TRY(wire_file_path("artifacts", to, sizeof to));
    SHOAL_TRY(base_os_random(seed, sizeof seed));
    base_str_format(&text, "secret %s\n", wire_key_text(seed, hex));
    shoal_status status = wire_file_write(draft, &text);
    if (status == SHOAL_OK && link(from, to) && errno != EEXIST)
        status = base_fail_errno(errno, "writing %s", to);
    unlink(from);
    wire_file_forget(&text);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(hex, sizeof hex);
    return status;
}

/* False: there is none. */
static shoal_status read_artifacts(uint8_t out[WIRE_KEY], bool *found) {
    base_str text = {0};
    uint8_t seed[WIRE_KEY] = {0}, secret[crypto_sign_SECRETKEYBYTES];
    shoal_status status = wire_file_read("artifacts", &text);
    wire_file_cursor c = {.at = status == SHOAL_OK ? text.data : NULL};
    *found = status == SHOAL_OK && text.size;
    if (*found && (wire_file_line(&c) != 2 || strcmp(c.words[0], "secret") != 0 ||
                   strlen(c.words[1]) != WIRE_KEY_TEXT - 1 || !wire_key_parse(c.words[1], seed)))
        status = base_fail(SHOAL_FORMAT, "the file 'artifacts' in the configuration folder holds "
                                         "no key: remove it, then a new one is made");
    if (status == SHOAL_OK && *found) crypto_sign_seed_keypair(out, secret, seed);
    wire_file_forget(&text);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    return status;
}

shoal_status wire_keys_artifacts(uint8_t out[WIRE_KEY]) {
    bool found;
    if (sodium_init() < 0) return base_fail(SHOAL_UNSUPPORTED, "libsodium cannot be used here");
    SHOAL_TRY(read_artifacts(out, &found));
    if (found) return SHOAL_OK;
    SHOAL_TRY(make_artifacts());
    SHOAL_TRY(read_artifacts(out, &found));
    return found ? SHOAL_OK : base_fail(SHOAL_IO, "the key for artifacts was removed at once");
}

/* ---- hubs ---- */

shoal_status wire_keys_add_hub(const char *addresses, const uint8_t *key) {
    base_str text = {0}, kept = {0};
    char hex[WIRE_KEY_TEXT];
    int lock;
    SHOAL_TRY(wire_file_lock(&lock));
    shoal_status status = wire_file_read("hubs", &text);
    wire_file_cursor c = {.at = text.data};
    for (int n; status == SHOAL_OK && (n = wire_file_line(&c));)
        if (n == 2 && strcmp(c.words[0], addresses) != 0)
            base_str_format(&kept, "%s %s\n", c.words[0], c.words[1]);
    base_str_format(&kept, "%s %s\n", addresses, wire_key_text(key, hex));
    if (status == SHOAL_OK) status = wire_file_write("hubs", &kept);
    base_str_fini(&text);
    base_str_fini(&kept);
    close(lock);
    return status;
}

/* Whether a list with commas has this entry. */
static bool listed(const char *list, const char *entry) {
    size_t n = strlen(entry);
    for (const char *at = list; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        if (!strncmp(at, entry, n) && (!at[n] || at[n] == ',')) return true;
    }
    return false;
}

bool wire_keys_hub(const char *address, uint8_t *out) {
    base_str text = {0};
    bool found = false;
    wire_file_cursor c = {.at = wire_file_read("hubs", &text) == SHOAL_OK ? text.data : NULL};
    for (int n; (n = wire_file_line(&c));)
        if (n == 2 && listed(c.words[0], address)) found |= wire_key_parse(c.words[1], out);
    base_str_fini(&text);
    return found;
}

shoal_status wire_keys_each_hub(void (*each)(void *context, const char *addresses,
                                             const uint8_t *key),
                                void *context) {
    base_str text = {0};
    uint8_t key[WIRE_KEY];
    shoal_status status = wire_file_read("hubs", &text);
    wire_file_cursor c = {.at = status == SHOAL_OK ? text.data : NULL};
    for (int n; (n = wire_file_line(&c));)
        if (n == 2 && wire_key_parse(c.words[1], key)) each(context, c.words[0], key);
    base_str_fini(&text);
    return status;
}

shoal_status wire_keys_set_listening(const char *addresses) {
    base_str text = {0};
    base_str_format(&text, "%s\n", addresses);
    int lock = -1;
    shoal_status status = wire_file_lock(&lock);
    if (status == SHOAL_OK) status = wire_file_write("hub", &text);
    if (lock >= 0) close(lock);
    base_str_fini(&text);
    return status;
}

void wire_keys_listening(char *out, size_t room) {
    base_str text = {0};
    *out = 0;
    wire_file_cursor c = {.at = wire_file_read("hub", &text) == SHOAL_OK ? text.data : NULL};
    while (wire_file_line(&c)) snprintf(out, room, "%s", c.words[0]);
    base_str_fini(&text);
}
