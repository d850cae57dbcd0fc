#include "wire/beacon.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/os.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'H', 'U', 'B'};
enum { VERSION = 1, MOST_ADDRESSES = 8, WAIT_MS = 200 };

uint64_t wire_beacon_fingerprint(const uint8_t *key) { return base_hash(key, WIRE_KEY); }

/* ---- the datagram ---- */

/* Length of "tcp://HOST:PORT" in numbers at the start of the text; 0 when there is none. */
static size_t address_length(const char *text) {
    if (strncmp(text, "tcp://", 6) != 0) return 0;
    const char *host = text + 6;
    bool six = *host == '[';
    size_t n = strspn(host + six, six ? "0123456789abcdef:." : "0123456789.");
    if (!n || n > 45 || (six && host[1 + n] != ']')) return 0;
    const char *port = host + n + 2 * six;
    size_t digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
    if (!digits || digits > 5) return 0;
    unsigned long number = strtoul(port + 1, NULL, 10);
    return number && number <= 65535 ? (size_t)(port + 1 + digits - text) : 0;
}

static bool right_addresses(const char *text) {
    for (int count = 1;; count++) {
        size_t n = address_length(text);
        if (!n || count > MOST_ADDRESSES) return false;
        text += n;
        if (!*text) return true;
        if (*text++ != ',') return false;
    }
}

static void put(uint8_t *at, uint64_t value, int bytes) {
    while (bytes--) *at++ = (uint8_t)(value >> 8 * bytes);
}

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *at++;
    return value;
}

size_t wire_beacon_write(const wire_beacon *beacon, uint8_t out[WIRE_BEACON_MOST]) {
    size_t n = strlen(beacon->addresses);
    if (!right_addresses(beacon->addresses)) return 0;
    memcpy(out, magic, sizeof magic);
    put(out + 8, VERSION, 2);
    put(out + 10, n, 2);
    put(out + 12, beacon->fingerprint, 8);
    memcpy(out + WIRE_BEACON_HEAD, beacon->addresses, n);
    return WIRE_BEACON_HEAD + n;
}

bool wire_beacon_read(const uint8_t *bytes, size_t n, wire_beacon *out) {
    if (n <= WIRE_BEACON_HEAD || n > WIRE_BEACON_MOST) return false;
    if (memcmp(bytes, magic, sizeof magic) != 0 || get(bytes + 8, 2) != VERSION) return false;
    size_t length = (size_t)get(bytes + 10, 2);
    if (length != n - WIRE_BEACON_HEAD || memchr(bytes + WIRE_BEACON_HEAD, 0, length)) return false;
    out->fingerprint = get(bytes + 12, 8);
    memcpy(out->addresses, bytes + WIRE_BEACON_HEAD, length);
    out->addresses[length] = 0;
    return right_addresses(out->addresses);
}

shoal_status wire_beacon_port(const char *given, uint16_t *port) {
    const char *variable = getenv("SHOAL_BEACON");
    bool named = given != NULL;
    if (!given) given = variable && *variable ? variable : NULL;
    *port = WIRE_BEACON_PORT;
    if (!given) return SHOAL_OK;
    char *end;
    unsigned long number = strtoul(given, &end, 10);
    if (!strcmp(given, "off"))
        number = 0;
    else if (*given < '0' || *given > '9' || *end || !number || number > 65535)
        return base_fail(SHOAL_INVALID, "%s '%s': must be off or a UDP port, 1 to 65535",
                         named ? "the beacon" : "SHOAL_BEACON", given);
    *port = (uint16_t)number;
    return SHOAL_OK;
}

/* ---- at a hub ---- */

/* Once in the network of each address: a machine may be in one of them alone. */
static shoal_status announce_in(wire_announcer *out, const char *addresses, uint16_t port) {
    char host[64];
    shoal_status status = SHOAL_OK;
    for (const char *at = addresses; at && out->n_fds < WIRE_BEACON_NETWORKS;) {
        snprintf(host, sizeof host, "%.*s", (int)strcspn(at + 6, ":"), at + 6);
        status = base_os_broadcast_open(host, port, &out->fds[out->n_fds]);
        out->n_fds += status == SHOAL_OK;
        at = strstr(at + 6, "tcp://");
    }
    return out->n_fds ? SHOAL_OK : status;
}

shoal_status wire_announcer_init(wire_announcer *out, const char *addresses, uint16_t port) {
    wire_beacon beacon = {0};
    wire_key_pair own;
    size_t used = 0;
    *out = (wire_announcer){0};
    SHOAL_TRY(wire_keys_own(&own));
    beacon.fingerprint = wire_beacon_fingerprint(own.public);
    for (const char *at = strstr(addresses, "tcp://"); at; at = strstr(at + 1, "tcp://")) {
        size_t n = address_length(at);
        if (!n || used + n + 2 > sizeof beacon.addresses) continue;
        used += (size_t)snprintf(beacon.addresses + used, sizeof beacon.addresses - used, "%s%.*s",
                                 used ? "," : "", (int)n, at);
    }
    out->n = wire_beacon_write(&beacon, out->bytes);
    if (!out->n)
        return base_fail(SHOAL_INVALID, "%s: no address in numbers that could be announced",
                         addresses);
    return announce_in(out, beacon.addresses, port);
}

void wire_announcer_tick(wire_announcer *announcer) {
    int64_t now = base_now();
    if (!announcer->n_fds || now < announcer->next) return;
    announcer->next = now + WIRE_BEACON_MS * BASE_MS;
    for (int i = 0; i < announcer->n_fds; i++)
        base_os_broadcast_send(announcer->fds[i], announcer->bytes, announcer->n);
}

void wire_announcer_fini(wire_announcer *announcer) {
    while (announcer->n_fds) close(announcer->fds[--announcer->n_fds]);
}

/* ---- elsewhere ---- */

typedef struct search {
    const wire_beacon *beacon; /* NULL: only count */
    int hubs;
    bool found;
    uint8_t key[WIRE_KEY];
} search;

static void compare(void *context, const char *addresses, const uint8_t *key) {
    search *s = context;
    s->hubs++;
    if (!s->beacon || s->found || wire_beacon_fingerprint(key) != s->beacon->fingerprint) return;
    s->found = true;
    memcpy(s->key, key, WIRE_KEY);
}

/* "tcp://HOST:PORT/KEY" for each address. */
static shoal_status with_keys(const wire_beacon *beacon, const uint8_t *key, char *out,
                              size_t room) {
    char hex[WIRE_KEY_TEXT];
    base_str text = {0};
    wire_key_text(key, hex);
    const char *at = beacon->addresses;
    do {
        int n = (int)strcspn(at, ",");
        base_str_format(&text, "%s%.*s/%s", text.size ? "," : "", n, at, hex);
        at += n;
    } while (*at++ == ',');
    shoal_status status = base_str_status(&text);
    if (status == SHOAL_OK && text.size >= room)
        status = base_fail(SHOAL_INVALID, "the addresses of the hub need %zu bytes", text.size + 1);
    if (status == SHOAL_OK) memcpy(out, text.data, text.size + 1);
    base_str_fini(&text);
    return status;
}

shoal_status wire_beacon_find(uint16_t port, int64_t deadline, const volatile int *stop, char *out,
                              size_t room) {
    search known = {0};
    shoal_status listed = wire_keys_each_hub(compare, &known);
    if (listed != SHOAL_OK && listed != SHOAL_NOT_FOUND) return listed;
    if (!known.hubs)
        return base_fail(SHOAL_NOT_FOUND, "this user has joined no hub: run `shoal join` with a "
                                          "token from `shoal invite`");
    int fd;
    SHOAL_TRY(base_os_broadcast_listen(port, &fd));
    shoal_status status = SHOAL_NOT_FOUND;
    while (status == SHOAL_NOT_FOUND && base_now() < deadline && !base_stopped(stop)) {
        uint8_t bytes[WIRE_BEACON_MOST + 1]; /* one more, so that what is longer shows */
        size_t n = base_os_broadcast_receive(fd, bytes, sizeof bytes, WAIT_MS);
        wire_beacon beacon;
        if (!n || !wire_beacon_read(bytes, n, &beacon)) continue;
        search s = {.beacon = &beacon};
        status = wire_keys_each_hub(compare, &s);
        if (status != SHOAL_OK) break;
        status = s.found ? with_keys(&beacon, s.key, out, room) : SHOAL_NOT_FOUND;
    }
    close(fd);
    if (status == SHOAL_NOT_FOUND)
        base_fail(SHOAL_NOT_FOUND,
                  "no hub that this user has joined announces itself on the "
                  "network (UDP port %u)",
                  port);
    return status;
}
