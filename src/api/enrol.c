/* Enrolment: the functions of shoal.h over the keys and tokens of the wire. */
#include "shoal/shoal.h"
#include "wire/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

shoal_status shoal_invite(uint32_t seconds, char **token) {
    char addresses[1024];
    *token = NULL;
    wire_keys_listening(addresses, sizeof addresses);
    const char *tcp = strstr(addresses, "tcp://");
    if (!tcp)
        return base_fail(SHOAL_NOT_FOUND,
                         "no hub of this user listens for other machines: start one "
                         "with `shoal hub --listen HOST:PORT`");
    return wire_token_new(tcp, seconds, token);
}

shoal_status shoal_join(const char *token, const char *name, char *hub, size_t room) {
    char own[WIRE_MAX_NAME + 1], host[WIRE_MAX_NAME + 1] = "?";
    const char *user = getenv("USER");
    wire_token parsed;
    SHOAL_TRY(wire_token_parse(token, &parsed));
    if (gethostname(host, sizeof host - 1)) snprintf(host, sizeof host, "machine");
    if (name)
        snprintf(own, sizeof own, "%s", name);
    else
        snprintf(own, sizeof own, "%.30s.%.30s", user && *user ? user : "user", host);
    SHOAL_TRY(wire_token_join(token, own));
    snprintf(hub, room, "%s", parsed.addresses);
    return SHOAL_OK;
}

shoal_status shoal_peers(void (*each)(void *context, const char *name, const char *key),
                         void *context) {
    return wire_keys_each(each, context);
}

shoal_status shoal_revoke(const char *name) { return wire_keys_revoke(name); }
