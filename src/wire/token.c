/* Tokens: how a user enrols at a hub. The text is base64url of the hub's public key, the token's
 * secret key, when it expires, a checksum, and the hub's addresses. */
#include "wire/keys.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/str.h"
#include "wire/zmq_link.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PREFIX "shoal-"
enum { EXPIRES = 2 * WIRE_KEY, CHECK = EXPIRES + 8, HEAD = CHECK + 4, MOST = 2048 };
enum { JOIN_MS = 2000 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(const uint8_t *bytes, size_t n, base_str *out) {
    uint32_t bits = 0;
    int count = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6)
            base_str_bytes(out, &letters[bits >> (count - 6) & 63], 1);
    }
    if (count) base_str_bytes(out, &letters[bits << (6 - count) & 63], 1);
}

/* Bytes of the text, at most `room`; 0 when it is none. */
static size_t decode(const char *text, uint8_t *out, size_t room) {
    uint32_t bits = 0;
    int count = 0;
    size_t n = 0;
    for (; *text; text++) {
        const char *letter = strchr(letters, *text);
        if (!letter || n == room) return 0;
        bits = bits << 6 | (uint32_t)(letter - letters);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        out[n++] = (uint8_t)(bits >> count);
    }
    return count < 6 && !(bits & ((1u << count) - 1)) ? n : 0;
}

/* For mistakes in copying; CURVE sees to the rest. */
static uint32_t checksum(const uint8_t *bytes, size_t n) {
    uint8_t copy[MOST];
    memcpy(copy, bytes, n);
    memset(copy + CHECK, 0, 4);
    uint32_t sum = (uint32_t)base_hash(copy, n);
    sodium_memzero(copy, n);
    return sum;
}

static char *write_token(const uint8_t *hub, const wire_key_pair *token, uint64_t expires,
                         const char *addresses, size_t length) {
    uint8_t bytes[MOST] = {0};
    size_t n = HEAD + length;
    memcpy(bytes, hub, WIRE_KEY);
    memcpy(bytes + WIRE_KEY, token->secret, WIRE_KEY);
    memcpy(bytes + EXPIRES, &expires, 8);
    memcpy(bytes + HEAD, addresses, length);
    uint32_t check = checksum(bytes, n);
    memcpy(bytes + CHECK, &check, 4);
    base_str text = {0};
    base_str_text(&text, PREFIX);
    encode(bytes, n, &text);
    sodium_memzero(bytes, sizeof bytes);
    return base_str_take(&text, NULL);
}

shoal_status wire_token_new(const char *addresses, uint64_t seconds, wire_role role, char **out) {
    wire_key_pair own, token;
    size_t length = strlen(addresses);
    *out = NULL;
    if (!length || length >= sizeof((wire_token *)0)->addresses)
        return base_fail(SHOAL_INVALID, "a token needs addresses of at most 1023 letters");
    SHOAL_TRY(wire_keys_own(&own));
    sodium_memzero(own.secret, sizeof own.secret);
    SHOAL_TRY(wire_key_pair_new(&token));
    uint64_t expires = (uint64_t)time(NULL) + seconds;
    shoal_status status = wire_keys_add_token(token.public, expires, role);
    if (status == SHOAL_OK) {
        *out = write_token(own.public, &token, expires, addresses, length);
        if (!*out) status = SHOAL_NO_MEMORY;
    }
    sodium_memzero(&token, sizeof token);
    return status;
}

static shoal_status take_apart(const uint8_t *bytes, size_t n, wire_token *out) {
    uint32_t check;
    if (n <= HEAD || n - HEAD >= sizeof out->addresses)
        return base_fail(SHOAL_FORMAT,
                         "this is no token, or not all of one: it starts with '" PREFIX
                         "' and was printed "
                         "by `shoal invite`");
    memcpy(&check, bytes + CHECK, 4);
    if (check != checksum(bytes, n))
        return base_fail(SHOAL_FORMAT, "the token has a letter too many, too few or wrong: copy it "
                                       "again");
    memcpy(out->hub, bytes, WIRE_KEY);
    memcpy(out->pair.secret, bytes + WIRE_KEY, WIRE_KEY);
    memcpy(&out->expires, bytes + EXPIRES, 8);
    memcpy(out->addresses, bytes + HEAD, n - HEAD);
    out->addresses[n - HEAD] = 0;
    return wire_key_pair_derive(&out->pair);
}

static shoal_status read_token(const char *text, wire_token *out) {
    uint8_t bytes[MOST];
    bool prefix = !strncmp(text, PREFIX, strlen(PREFIX));
    size_t n = prefix ? decode(text + strlen(PREFIX), bytes, sizeof bytes) : 0;
    shoal_status status = take_apart(bytes, n, out);
    sodium_memzero(bytes, sizeof bytes);
    return status;
}

shoal_status wire_token_parse(const char *text, wire_token *out) {
    SHOAL_TRY(read_token(text, out));
    uint64_t now = (uint64_t)time(NULL);
    if (out->expires <= now)
        return base_fail(SHOAL_DENIED, "the token expired %llu s ago: ask for a new one",
                         (unsigned long long)(now - out->expires));
    return SHOAL_OK;
}

/* ---- joining ---- */

/* What came of one attempt. */
typedef struct attempt {
    const char *address;
    shoal_status status;
    bool connected, done;
    char *name;
} attempt;

static void on_enrolled(attempt *a, zmq_msg_t *body) {
    wire_frame frame;
    size_t n = zmq_msg_size(body);
    const char *text = (const char *)zmq_msg_data(body) + sizeof frame;
    a->done = true;
    a->status = SHOAL_FORMAT;
    if (n >= sizeof frame) memcpy(&frame, zmq_msg_data(body), sizeof frame);
    if (n < sizeof frame || frame.type != WIRE_FRAME_ENROLLED || frame.bytes > WIRE_MAX_REASON ||
        wire_frame_bytes(frame.bytes) != n)
        base_fail(SHOAL_FORMAT, "%s: what came is no answer of a hub", a->address);
    else if (frame.kind != SHOAL_OK)
        a->status =
            base_fail(frame.kind < SHOAL_STATUS_COUNT ? (shoal_status)frame.kind : SHOAL_DENIED,
                      "%s refuses: %.*s", a->address, (int)frame.bytes, text);
    else if (frame.bytes <= WIRE_MAX_NAME) {
        snprintf(a->name, WIRE_MAX_NAME + 1, "%.*s", (int)frame.bytes, text);
        a->status = SHOAL_OK;
    }
}

static void on_event(attempt *a, uint16_t event) {
    a->done = event != ZMQ_EVENT_CONNECTED && event != ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    a->connected |= event == ZMQ_EVENT_CONNECTED;
    if (!a->done) return;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        a->status = base_fail(SHOAL_DENIED,
                              "%s refuses the token: it has been used or has expired; "
                              "ask for a new one",
                              a->address);
    else if (a->connected)
        a->status = base_fail(SHOAL_DENIED, "%s is not the hub that made this token", a->address);
    else
        a->status = base_fail(SHOAL_NOT_FOUND, "no hub answers at %s", a->address);
}

static bool set(void *socket, int option, const void *value, size_t n) {
    return !zmq_setsockopt(socket, option, value, n);
}

static bool configure(void *socket, const wire_token *token) {
    int none = 0, never = -1, handshake = WIRE_ZMQ_HANDSHAKE_MS;
    int64_t most = 1 << 16;
    return set(socket, ZMQ_LINGER, &none, sizeof none) &&
           set(socket, ZMQ_RECONNECT_IVL, &never, sizeof never) &&
           set(socket, ZMQ_HANDSHAKE_IVL, &handshake, sizeof handshake) &&
           set(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) &&
           set(socket, ZMQ_CURVE_SERVERKEY, token->hub, WIRE_KEY) &&
           set(socket, ZMQ_CURVE_PUBLICKEY, token->pair.public, WIRE_KEY) &&
           set(socket, ZMQ_CURVE_SECRETKEY, token->pair.secret, WIRE_KEY);
}

/* Waits for the answer, or for the monitor to say that none comes. */
static void wait_for_answer(attempt *a, void *socket, void *monitor) {
    int64_t end = base_now() + JOIN_MS * BASE_MS;
    zmq_pollitem_t items[] = {{socket, 0, ZMQ_POLLIN, 0}, {monitor, 0, ZMQ_POLLIN, 0}};
    while (!a->done && base_now() < end) {
        if (zmq_poll(items, 2, (long)((end - base_now()) / BASE_MS) + 1) <= 0) continue;
        zmq_msg_t body;
        zmq_msg_init(&body);
        if (items[0].revents && zmq_msg_recv(&body, socket, ZMQ_DONTWAIT) >= 0) {
            on_enrolled(a, &body);
        } else if (zmq_msg_recv(&body, monitor, ZMQ_DONTWAIT) >= 0 && zmq_msg_size(&body) >= 2) {
            uint16_t event;
            memcpy(&event, zmq_msg_data(&body), sizeof event);
            if (zmq_msg_more(&body)) on_event(a, event);
        }
        zmq_msg_close(&body);
    }
    if (!a->done)
        a->status =
            base_fail(SHOAL_TIMEOUT, "%s has not answered in %d s", a->address, JOIN_MS / 1000);
}

static shoal_status ask(void *context, const wire_token *token, const wire_key_pair *own,
                        attempt *a) {
    struct {
        wire_frame frame;
        uint8_t key[WIRE_KEY];
        char name[WIRE_MAX_NAME + 8];
    } question = {.frame = {.type = WIRE_FRAME_ENROL}};
    memcpy(question.key, own->public, WIRE_KEY);
    int length = snprintf(question.name, WIRE_MAX_NAME + 1, "%s", a->name);
    question.frame.bytes = WIRE_KEY + (uint32_t)length;
    void *socket = zmq_socket(context, ZMQ_DEALER), *monitor = zmq_socket(context, ZMQ_PAIR);
    int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
                 ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
    if (!socket || !monitor || !configure(socket, token) ||
        zmq_socket_monitor(socket, "inproc://join", events) ||
        zmq_connect(monitor, "inproc://join") || zmq_connect(socket, a->address) ||
        zmq_send(socket, &question, wire_frame_bytes(question.frame.bytes), ZMQ_DONTWAIT) < 0)
        a->status = wire_zmq_fail(a->address);
    else
        wait_for_answer(a, socket, monitor);
    if (socket) zmq_socket_monitor(socket, NULL, 0);
    if (monitor) zmq_close(monitor);
    if (socket) zmq_close(socket);
    return a->status;
}

shoal_status wire_token_join(const char *text, char name[WIRE_MAX_NAME + 1]) {
    wire_token token;
    wire_key_pair own;
    SHOAL_TRY(wire_token_parse(text, &token));
    shoal_status status = wire_keys_own(&own);
    sodium_memzero(own.secret, sizeof own.secret);
    if (status != SHOAL_OK) {
        sodium_memzero(&token, sizeof token);
        return status;
    }
    char addresses[sizeof token.addresses], *rest = NULL;
    memcpy(addresses, token.addresses, sizeof addresses);
    /* The first that answers decides. */
    for (char *at = strtok_r(addresses, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
        void *context = zmq_ctx_new();
        if (!context) {
            status = wire_zmq_fail("starting ØMQ");
            break;
        }
        attempt a = {.address = at, .name = name};
        status = ask(context, &token, &own, &a);
        zmq_ctx_term(context);
        if (status != SHOAL_NOT_FOUND && status != SHOAL_TIMEOUT) break;
    }
    sodium_memzero(token.pair.secret, sizeof token.pair.secret);
    return status == SHOAL_OK ? wire_keys_add_hub(token.addresses, token.hub) : status;
}
