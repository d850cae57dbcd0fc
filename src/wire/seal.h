/* Frames that a third one passes on and cannot read: links by way of the hub, between members that
 * know each other's public keys (from the hub) and have secret ones of their own.
 *
 * The handshake follows the pattern KK of Noise (https://noiseprotocol.org/noise.html, 7.5) with
 * X25519, BLAKE2b and ChaCha20-Poly1305 of libsodium: keys are mixed from the Diffie-Hellman
 * results of both sides' static and fresh keys, so that what was recorded stays unreadable when a
 * static key becomes known.
 *
 *   connecting side                     accepting side
 *   fresh key, sealed HELLO         ->
 *                                   <-  fresh key, sealed WELCOME
 *
 * After that each frame is sealed with the next number of its direction: what is changed, left out,
 * repeated or out of order cannot be opened. */
#ifndef WIRE_SEAL_H
#define WIRE_SEAL_H

#include "wire/keys.h"

enum {
    WIRE_SEAL_TAG = 16,                         /* bytes that sealing adds, */
    WIRE_SEAL_HELLO = WIRE_KEY + WIRE_SEAL_TAG, /* and in the handshake */
};

typedef struct wire_seal {
    bool accepting;
    wire_key_pair fresh;
    uint8_t peer[WIRE_KEY]; /* the other side's static key */
    uint8_t chain[WIRE_KEY];
    uint8_t out[WIRE_KEY], in[WIRE_KEY];
    uint64_t sent, received;
} wire_seal;

/* own: the static pair; peer: the other side's public key; context: what both know of this link. */
shoal_status wire_seal_begin(wire_seal *seal, bool accepting, const wire_key_pair *own,
                             const uint8_t *peer, const void *context, size_t n) SHOAL_CHECK_RESULT;
/* The connecting side's first; the accepting side's answer to what it has opened. `out` has room
 * for n + WIRE_SEAL_HELLO bytes; the plain bytes are `in`. */
shoal_status wire_seal_hello(wire_seal *seal, const wire_key_pair *own, const void *in, size_t n,
                             uint8_t *out) SHOAL_CHECK_RESULT;
/* Opens the other side's; `out` has room for n - WIRE_SEAL_HELLO bytes, and may be in + WIRE_KEY.
 * Fails with DENIED. */
shoal_status wire_seal_open_hello(wire_seal *seal, const wire_key_pair *own, const uint8_t *in,
                                  size_t n, uint8_t *out) SHOAL_CHECK_RESULT;
/* A frame; `out` has room for n + WIRE_SEAL_TAG bytes, and may be where `in` is. */
void wire_seal_put(wire_seal *seal, const void *in, size_t n, uint8_t *out);
/* Its n bytes; `out` has room for n - WIRE_SEAL_TAG. Fails with FORMAT. */
shoal_status wire_seal_open(wire_seal *seal, const uint8_t *in, size_t n,
                            uint8_t *out) SHOAL_CHECK_RESULT;
/* Zeroes it. */
void wire_seal_fini(wire_seal *seal);

/* Bytes a second that a core encrypts for a link to another machine (XSalsa20-Poly1305, the cipher
 * of CURVE), measured when it is first asked for, in about a millisecond. Any thread. */
double wire_sealing_speed(void);

#endif
