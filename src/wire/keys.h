/* Keys and who may come in. Everything lies in the user's configuration folder, which nobody else
 * can read:
 *
 *   key     the key pair of this user on this machine, made when first needed
 *   peers   at a hub: name, public key and role of each user that has enrolled
 *   tokens  at a hub: public keys of tokens, when each expires, whether it was used, its role
 *   hub     at a hub: its addresses, for tokens
 *   hubs    elsewhere: address and public key of each hub that this user has joined
 *   artifacts  the seed of the key that signs this user's artifacts (python/shoal/hosted)
 *
 * A token is a key pair of its own: whoever connects with it may enrol a key, once, and nothing
 * else. So there is one way to be recognised (CURVE), and strangers are turned away before they can
 * say anything. Files are small, and read when they have changed: what another process writes
 * counts at once.
 *
 * Any thread; writing takes a lock between processes. */
#ifndef WIRE_KEYS_H
#define WIRE_KEYS_H

#include "base/status.h"

enum { WIRE_KEY = 32, WIRE_KEY_TEXT = 2 * WIRE_KEY + 1, WIRE_MAX_NAME = 63 };

typedef struct wire_key_pair {
    uint8_t public[WIRE_KEY], secret[WIRE_KEY];
} wire_key_pair;

/* Hexadecimal, into `out` of WIRE_KEY_TEXT bytes; returns it. */
char *wire_key_text(const uint8_t *key, char *out);
/* False when the first 64 characters are no key. */
bool wire_key_parse(const char *text, uint8_t *out);
shoal_status wire_key_pair_new(wire_key_pair *out) SHOAL_CHECK_RESULT;
/* The public key that belongs to out->secret. */
shoal_status wire_key_pair_derive(wire_key_pair *out) SHOAL_CHECK_RESULT;
/* This user's own; made when there is none. */
shoal_status wire_keys_own(wire_key_pair *out) SHOAL_CHECK_RESULT;

/* The public key by which this user signs artifacts (Ed25519); made when there is none. */
shoal_status wire_keys_artifacts(uint8_t out[WIRE_KEY]) SHOAL_CHECK_RESULT;

/* ---- at a hub (guests.c) ---- */

/* What a key may be in a pool, as bits. */
typedef enum wire_role { WIRE_ROLE_CLIENT = 1, WIRE_ROLE_WORKER = 2, WIRE_ROLE_BOTH = 3 } wire_role;
/* "client", "worker", "both". */
const char *wire_role_name(wire_role role);
/* False for other words. */
bool wire_role_parse(const char *text, wire_role *out);

typedef enum wire_standing {
    WIRE_STRANGER, /* unknown, or its token has expired or was used */
    WIRE_ENROLLED,
    WIRE_TOKEN,  /* may enrol */
    WIRE_UNREAD, /* the files cannot be read now: who it is is not known */
} wire_standing;

typedef struct wire_guest {
    wire_standing standing;
    wire_role role;
    char name[WIRE_MAX_NAME + 1]; /* of a stranger: why it is one */
} wire_guest;

/* Who has this key, by files that have been looked at now. */
void wire_keys_who(const uint8_t *key, wire_guest *out);
/* The same by what was last read: nothing is opened, and nothing waits. */
void wire_keys_known(const uint8_t *key, wire_guest *out);
/* Reads what has changed; true when anything has. */
bool wire_keys_refresh(void);
/* Enrols a key with a token, which is used up, for the token's role. The name is changed when it is
 * taken. */
shoal_status wire_keys_enrol(const uint8_t *token, const uint8_t *key,
                             char name[WIRE_MAX_NAME + 1]) SHOAL_CHECK_RESULT;
/* Takes a key out; NOT_FOUND names those that are there. */
shoal_status wire_keys_revoke(const char *name) SHOAL_CHECK_RESULT;
shoal_status wire_keys_set_role(const char *name, wire_role role) SHOAL_CHECK_RESULT;
shoal_status wire_keys_each(void (*each)(void *context, const char *name, const char *key,
                                         wire_role role),
                            void *context) SHOAL_CHECK_RESULT;

/* Addresses that this user's hub is reached at from elsewhere, for tokens; "" when there is none.
 */
shoal_status wire_keys_set_listening(const char *addresses) SHOAL_CHECK_RESULT;
void wire_keys_listening(char *out, size_t room);

/* ---- tokens (token.c) ---- */

typedef struct wire_token {
    uint8_t hub[WIRE_KEY]; /* its public key */
    wire_key_pair pair;
    uint64_t expires;     /* seconds since 1970 */
    char addresses[1024]; /* with commas between them */
} wire_token;

/* Makes a token for `seconds` and notes it at the hub; `out` as text, to be freed. */
shoal_status wire_token_new(const char *addresses, uint64_t seconds, wire_role role,
                            char **out) SHOAL_CHECK_RESULT;
/* Fails with FORMAT when a letter is wrong or missing, DENIED when it has expired. */
shoal_status wire_token_parse(const char *text, wire_token *out) SHOAL_CHECK_RESULT;
/* Enrols this user at the token's hub, as `name`; what the hub calls it comes back. */
shoal_status wire_token_join(const char *text, char name[WIRE_MAX_NAME + 1]) SHOAL_CHECK_RESULT;
/* Notes a token's public key. */
shoal_status wire_keys_add_token(const uint8_t *key, uint64_t expires,
                                 wire_role role) SHOAL_CHECK_RESULT;
/* Those that can still be used: the token's public key as text. */
shoal_status wire_keys_each_token(void (*each)(void *context, const char *key, uint64_t expires,
                                               wire_role role),
                                  void *context) SHOAL_CHECK_RESULT;
/* Those whose key begins so can be used no more; NOT_FOUND when there is none, INVALID when there
 * are several. */
shoal_status wire_keys_cancel_token(const char *beginning) SHOAL_CHECK_RESULT;

/* ---- elsewhere ---- */

/* Notes a hub's key for its addresses. */
shoal_status wire_keys_add_hub(const char *addresses, const uint8_t *key) SHOAL_CHECK_RESULT;
/* Hubs that this user has joined: addresses as noted, and key. */
shoal_status wire_keys_each_hub(void (*each)(void *context, const char *addresses,
                                             const uint8_t *key),
                                void *context) SHOAL_CHECK_RESULT;
/* The key of the hub at an address; false when this user has not joined there. */
bool wire_keys_hub(const char *address, uint8_t *out);

#endif
