/* Enrolment: the functions of shoal.h over the keys and tokens of the wire. */
#include "base/status.h"
#include "shoal/shoal.h"
#include "wire/keys.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)SHOAL_ROLE_BOTH == (int)WIRE_ROLE_BOTH, "roles are the wire's");

const char *shoal_role_name(shoal_role role) {
    bool known = role >= SHOAL_ROLE_CLIENT && role <= SHOAL_ROLE_BOTH;
    return known ? wire_role_name((wire_role)role) : NULL;
}

shoal_status shoal_role_parse(const char *text, shoal_role *out) {
    wire_role role;
    if (!wire_role_parse(text, &role))
        return base_fail(SHOAL_INVALID, "'%s' is not a role: use client, worker or both", text);
    *out = (shoal_role)role;
    return SHOAL_OK;
}

shoal_status shoal_invite(uint32_t seconds, shoal_role role, char **token) {
    char addresses[1024];
    *token = NULL;
    wire_keys_listening(addresses, sizeof addresses);
    const char *tcp = strstr(addresses, "tcp://");
    if (!tcp)
        return base_fail(SHOAL_NOT_FOUND,
                         "no hub of this user listens for other machines: start one "
                         "with `shoal hub --listen HOST:PORT`");
    if (!shoal_role_name(role)) return base_fail(SHOAL_INVALID, "there is no role %d", (int)role);
    return wire_token_new(tcp, seconds, (wire_role)role, token);
}

shoal_status shoal_join(const char *token, const char *name, char *hub, size_t room) {
    char own[WIRE_MAX_NAME + 1], host[WIRE_MAX_NAME + 1] = "?";
    const char *user = getenv("USER");
    wire_token parsed;
    SHOAL_TRY(wire_token_parse(token, &parsed));
    sodium_memzero(&parsed.pair, sizeof parsed.pair);
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "machine");
    if (name)
        snprintf(own, sizeof own, "%s", name);
    else
        snprintf(own, sizeof own, "%.30s.%.30s", user && *user ? user : "user", host);
    SHOAL_TRY(wire_token_join(token, own));
    snprintf(hub, room, "%s", parsed.addresses);
    return SHOAL_OK;
}

/* ---- lists ---- */

typedef struct telling {
    void (*peer)(void *context, const char *name, const char *key, shoal_role role);
    void (*token)(void *context, const char *name, uint64_t expires, shoal_role role);
    void *context;
} telling;

static void tell_peer(void *context, const char *name, const char *key, wire_role role) {
    const telling *t = context;
    t->peer(t->context, name, key, (shoal_role)role);
}

static void tell_token(void *context, const char *key, uint64_t expires, wire_role role) {
    const telling *t = context;
    char name[17];
    snprintf(name, sizeof name, "%s", key);
    t->token(t->context, name, expires, (shoal_role)role);
}

shoal_status shoal_peers(void (*each)(void *context, const char *name, const char *key,
                                      shoal_role role),
                         void *context) {
    telling t = {.peer = each, .context = context};
    return wire_keys_each(tell_peer, &t);
}

shoal_status shoal_tokens(void (*each)(void *context, const char *name, uint64_t expires,
                                       shoal_role role),
                          void *context) {
    telling t = {.token = each, .context = context};
    return wire_keys_each_token(tell_token, &t);
}

shoal_status shoal_token_cancel(const char *name) { return wire_keys_cancel_token(name); }

shoal_status shoal_peer_role(const char *name, shoal_role role) {
    if (!shoal_role_name(role)) return base_fail(SHOAL_INVALID, "there is no role %d", (int)role);
    return wire_keys_set_role(name, (wire_role)role);
}

shoal_status shoal_revoke(const char *name) { return wire_keys_revoke(name); }
