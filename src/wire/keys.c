/* The files of keys: see keys.h. Each is lines of words; a line that cannot be read is passed over,
 * so that a broken file lets nobody in who was not in before. */
#include "wire/keys.h"

#include "base/os.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { MOST = 1 << 20, KEEP_TOKENS = 7 * 24 * 3600 };

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
    return SHOAL_OK;
}

shoal_status wire_key_pair_derive(wire_key_pair *out) {
    char public[41], secret[41];
    zmq_z85_encode(secret, out->secret, WIRE_KEY);
    if (zmq_curve_public(public, secret)) return base_fail(SHOAL_FORMAT, "a secret key is none");
    zmq_z85_decode(out->public, public);
    return SHOAL_OK;
}

/* ---- files ---- */

static shoal_status name_file(const char *name, char *out, size_t room) {
    SHOAL_TRY(base_os_config_folder(true, out, room));
    size_t used = strlen(out);
    snprintf(out + used, room - used, "/%s", name);
    return SHOAL_OK;
}

/* All of a file; nothing when there is none. */
static shoal_status read_lines(const char *name, base_str *out) {
    char path[PATH_MAX];
    SHOAL_TRY(name_file(name, path, sizeof path));
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
    ssize_t n;
    while (status == SHOAL_OK && out->size <= MOST && (n = read(fd, bytes, sizeof bytes)) > 0)
        base_str_bytes(out, bytes, (size_t)n);
    close(fd);
    return status == SHOAL_OK ? base_str_status(out) : status;
}

/* Under another name first: a reader sees the old file or the new one. */
static shoal_status write_lines(const char *name, const base_str *lines) {
    char path[PATH_MAX], hidden[PATH_MAX + 8];
    SHOAL_TRY(base_str_status(lines));
    SHOAL_TRY(name_file(name, path, sizeof path));
    snprintf(hidden, sizeof hidden, "%s.new", path);
    int fd = open(hidden, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return base_fail_errno(errno, "writing %s", hidden);
    bool written = !lines->size || write(fd, lines->data, lines->size) == (ssize_t)lines->size;
    written = !fsync(fd) && written;
    written = !close(fd) && written;
    if (!written || rename(hidden, path)) {
        int error = errno;
        unlink(hidden);
        return base_fail_errno(error, "writing %s", path);
    }
    return SHOAL_OK;
}

/* One process at a time changes files. -1 with a message. */
static int lock_folder(void) {
    char path[PATH_MAX];
    if (name_file("lock", path, sizeof path) != SHOAL_OK) return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fd >= 0 && !fcntl(fd, F_SETLKW, &all)) return fd;
    base_fail_errno(errno, "locking %s", path);
    if (fd >= 0) close(fd);
    return -1;
}

/* The next line's words, at most three; 0 at the end. The text is cut up. */
static int next_line(char **at, char *words[3]) {
    while (*at && **at) {
        char *line = *at, *end = strchr(line, '\n'), *rest = NULL;
        *at = end ? end + 1 : NULL;
        if (end) *end = 0;
        int n = 0;
        for (char *word = strtok_r(line, " \t\r", &rest); word && n < 3;
             word = strtok_r(NULL, " \t\r", &rest))
            words[n++] = word;
        if (n) return n;
    }
    return 0;
}

/* ---- own key ---- */

static bool parse_own(char *text, wire_key_pair *out) {
    char *words[3];
    bool public = false, secret = false;
    for (int n; (n = next_line(&text, words));) {
        if (n == 2 && !strcmp(words[0], "public")) public = wire_key_parse(words[1], out->public);
        if (n == 2 && !strcmp(words[0], "secret")) secret = wire_key_parse(words[1], out->secret);
    }
    return public && secret;
}

static shoal_status make_own(wire_key_pair *out) {
    char public[WIRE_KEY_TEXT], secret[WIRE_KEY_TEXT];
    base_str text = {0};
    SHOAL_TRY(wire_key_pair_new(out));
    base_str_format(&text, "public %s\nsecret %s\n", wire_key_text(out->public, public),
                    wire_key_text(out->secret, secret));
    shoal_status status = write_lines("key", &text);
    base_str_fini(&text);
    return status;
}

shoal_status wire_keys_own(wire_key_pair *out) {
    base_str text = {0};
    int lock = lock_folder();
    if (lock < 0) return SHOAL_IO;
    shoal_status status = read_lines("key", &text);
    if (status == SHOAL_OK && !text.size)
        status = make_own(out);
    else if (status == SHOAL_OK && !parse_own(text.data, out))
        status = base_fail(SHOAL_FORMAT, "the file 'key' in the configuration folder holds no key "
                                         "pair: remove it and enrol anew");
    base_str_fini(&text);
    close(lock);
    return status;
}

/* ---- peers and tokens ---- */

static bool same_key(const char *text, const uint8_t *key) {
    uint8_t other[WIRE_KEY];
    return wire_key_parse(text, other) && !memcmp(other, key, WIRE_KEY);
}

static bool enrolled(const uint8_t *key, char *name) {
    base_str text = {0};
    char *words[3];
    bool found = false;
    if (read_lines("peers", &text) == SHOAL_OK)
        for (char *at = text.data; !found && next_line(&at, words) == 2;)
            if ((found = same_key(words[1], key)))
                snprintf(name, WIRE_MAX_NAME + 1, "%s", words[0]);
    base_str_fini(&text);
    return found;
}

static wire_guest token_state(const uint8_t *key, char *why) {
    base_str text = {0};
    char *words[3];
    wire_guest guest = WIRE_GUEST_STRANGER;
    snprintf(why, WIRE_MAX_NAME + 1, "unknown key");
    if (read_lines("tokens", &text) == SHOAL_OK)
        for (char *at = text.data; next_line(&at, words) == 3;) {
            if (!same_key(words[0], key)) continue;
            bool used = !strcmp(words[2], "used");
            bool expired = strtoull(words[1], NULL, 10) <= (uint64_t)time(NULL);
            if (!used && !expired) guest = WIRE_GUEST_TOKEN;
            snprintf(why, WIRE_MAX_NAME + 1,
                     used      ? "a token that has been used"
                     : expired ? "an expired token"
                               : "a token");
        }
    base_str_fini(&text);
    return guest;
}

wire_guest wire_keys_who(const uint8_t *key, char name[WIRE_MAX_NAME + 1]) {
    return enrolled(key, name) ? WIRE_GUEST_ENROLLED : token_state(key, name);
}

/* Copies the tokens that still matter; the one with this key becomes used. */
static shoal_status use_token(const uint8_t *key) {
    base_str text = {0}, kept = {0};
    char *words[3];
    bool found = false;
    uint64_t now = (uint64_t)time(NULL);
    shoal_status status = read_lines("tokens", &text);
    for (char *at = text.data; status == SHOAL_OK && next_line(&at, words) == 3;) {
        uint64_t expires = strtoull(words[1], NULL, 10);
        if (expires + KEEP_TOKENS < now) continue;
        bool this = same_key(words[0], key);
        found |= this && expires > now && strcmp(words[2], "used") != 0;
        base_str_format(&kept, "%s %s %s\n", words[0], words[1], this ? "used" : words[2]);
    }
    if (status == SHOAL_OK && !found)
        status =
            base_fail(SHOAL_DENIED, "the token has been used or has expired: ask for a new one");
    if (status == SHOAL_OK) status = write_lines("tokens", &kept);
    base_str_fini(&text);
    base_str_fini(&kept);
    return status;
}

/* Letters, digits and ".-_"; others become "-". */
static void clean_name(char *name) {
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".-_", *at)) *at = '-';
    if (!*name) snprintf(name, WIRE_MAX_NAME + 1, "guest");
}

static bool name_there(const base_str *peers, const char *name) {
    size_t n = strlen(name);
    for (const char *at = peers->data; at && *at; at = strchr(at, '\n') + 1) {
        if (!strncmp(at, name, n) && at[n] == ' ') return true;
        if (!strchr(at, '\n')) break;
    }
    return false;
}

static shoal_status add_peer(const uint8_t *key, char *name) {
    base_str peers = {0};
    char text[WIRE_KEY_TEXT], plain[WIRE_MAX_NAME - 4];
    shoal_status status = read_lines("peers", &peers);
    if (status == SHOAL_OK && peers.size && peers.data[peers.size - 1] != '\n')
        base_str_text(&peers, "\n");
    clean_name(name);
    snprintf(plain, sizeof plain, "%s", name);
    for (unsigned n = 2; name_there(&peers, name) && n < 1000; n++)
        snprintf(name, WIRE_MAX_NAME + 1, "%s-%u", plain, n);
    base_str_format(&peers, "%s %s\n", name, wire_key_text(key, text));
    if (status == SHOAL_OK) status = write_lines("peers", &peers);
    base_str_fini(&peers);
    return status;
}

shoal_status wire_keys_enrol(const uint8_t *token, const uint8_t *key,
                             char name[WIRE_MAX_NAME + 1]) {
    char before[WIRE_MAX_NAME + 1];
    int lock = lock_folder();
    if (lock < 0) return SHOAL_IO;
    shoal_status status = use_token(token);
    if (status == SHOAL_OK && enrolled(key, before))
        memcpy(name, before, sizeof before); /* it has come again */
    else if (status == SHOAL_OK)
        status = add_peer(key, name);
    close(lock);
    return status;
}

shoal_status wire_keys_add_token(const uint8_t *key, uint64_t expires) {
    base_str tokens = {0};
    char text[WIRE_KEY_TEXT];
    int lock = lock_folder();
    if (lock < 0) return SHOAL_IO;
    shoal_status status = read_lines("tokens", &tokens);
    base_str_format(&tokens, "%s %llu open\n", wire_key_text(key, text),
                    (unsigned long long)expires);
    if (status == SHOAL_OK) status = write_lines("tokens", &tokens);
    base_str_fini(&tokens);
    close(lock);
    return status;
}

shoal_status wire_keys_revoke(const char *name) {
    base_str text = {0}, kept = {0}, names = {0};
    char *words[3];
    bool found = false;
    int lock = lock_folder();
    if (lock < 0) return SHOAL_IO;
    shoal_status status = read_lines("peers", &text);
    for (char *at = text.data; status == SHOAL_OK && next_line(&at, words) == 2;) {
        if (!strcmp(words[0], name)) {
            found = true;
            continue;
        }
        base_str_format(&kept, "%s %s\n", words[0], words[1]);
        base_str_format(&names, "%s%s", names.size ? ", " : "", words[0]);
    }
    if (status == SHOAL_OK && !found)
        status = base_fail(SHOAL_NOT_FOUND, "nobody called '%s' has enrolled here; there %s%s",
                           name, names.size ? "are: " : "is nobody", names.size ? names.data : "");
    if (status == SHOAL_OK) status = write_lines("peers", &kept);
    base_str_fini(&text);
    base_str_fini(&kept);
    base_str_fini(&names);
    close(lock);
    return status;
}

shoal_status wire_keys_each(void (*each)(void *context, const char *name, const char *key),
                            void *context) {
    base_str text = {0};
    char *words[3];
    shoal_status status = read_lines("peers", &text);
    for (char *at = text.data; status == SHOAL_OK && next_line(&at, words) == 2;)
        each(context, words[0], words[1]);
    base_str_fini(&text);
    return status;
}

/* ---- hubs ---- */

shoal_status wire_keys_add_hub(const char *addresses, const uint8_t *key) {
    base_str text = {0}, kept = {0};
    char hex[WIRE_KEY_TEXT], *words[3];
    int lock = lock_folder();
    if (lock < 0) return SHOAL_IO;
    shoal_status status = read_lines("hubs", &text);
    for (char *at = text.data; status == SHOAL_OK && next_line(&at, words) == 2;)
        if (strcmp(words[0], addresses) != 0) base_str_format(&kept, "%s %s\n", words[0], words[1]);
    base_str_format(&kept, "%s %s\n", addresses, wire_key_text(key, hex));
    if (status == SHOAL_OK) status = write_lines("hubs", &kept);
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
    char *words[3];
    bool found = false;
    if (read_lines("hubs", &text) == SHOAL_OK)
        for (char *at = text.data; next_line(&at, words) == 2;)
            if (listed(words[0], address)) found |= wire_key_parse(words[1], out);
    base_str_fini(&text);
    return found;
}

shoal_status wire_keys_each_hub(void (*each)(void *context, const char *addresses,
                                             const uint8_t *key),
                                void *context) {
    base_str text = {0};
    char *words[3];
    uint8_t key[WIRE_KEY];
    shoal_status status = read_lines("hubs", &text);
    for (char *at = text.data; status == SHOAL_OK && next_line(&at, words) == 2;)
        if (wire_key_parse(words[1], key)) each(context, words[0], key);
    base_str_fini(&text);
    return status;
}

shoal_status wire_keys_set_listening(const char *addresses) {
    base_str text = {0};
    base_str_format(&text, "%s\n", addresses);
    int lock = lock_folder();
    shoal_status status = lock < 0 ? SHOAL_IO : write_lines("hub", &text);
    if (lock >= 0) close(lock);
    base_str_fini(&text);
    return status;
}

void wire_keys_listening(char *out, size_t room) {
    base_str text = {0};
    char *words[3];
    *out = 0;
    if (read_lines("hub", &text) == SHOAL_OK)
        for (char *at = text.data; next_line(&at, words) == 1;) snprintf(out, room, "%s", words[0]);
    base_str_fini(&text);
}
