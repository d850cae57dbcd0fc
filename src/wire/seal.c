/* Sealed frames: see seal.h. */
#include "wire/seal.h"

#include "base/clock.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(WIRE_SEAL_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES, "");
_Static_assert(WIRE_KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES, "");
_Static_assert(WIRE_KEY == crypto_scalarmult_BYTES, "");

/* The chain goes on; with it comes a key that nothing else gives. */
static void mix(wire_seal *seal, const void *data, size_t n, uint8_t *key) {
    uint8_t both[2 * WIRE_KEY];
    crypto_generichash(both, sizeof both, data, n, seal->chain, sizeof seal->chain);
    memcpy(seal->chain, both, WIRE_KEY);
    if (key) memcpy(key, both + WIRE_KEY, WIRE_KEY);
    sodium_memzero(both, sizeof both);
}

static shoal_status mix_shared(wire_seal *seal, const uint8_t *secret, const uint8_t *public,
                               uint8_t *key) {
    uint8_t shared[WIRE_KEY];
    if (crypto_scalarmult(shared, secret, public))
        return base_fail(SHOAL_DENIED, "a public key is none");
    mix(seal, shared, sizeof shared, key);
    sodium_memzero(shared, sizeof shared);
    return SHOAL_OK;
}

static void number(uint64_t n, uint8_t out[crypto_aead_chacha20poly1305_ietf_NPUBBYTES]) {
    memset(out, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
    for (int i = 0; i < 8; i++) out[4 + i] = (uint8_t)(n >> 8 * i);
}

static void put(const uint8_t *key, uint64_t n, const void *in, size_t size, uint8_t *out) {
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    number(n, nonce);
    crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, in, size, NULL, 0, NULL, nonce, key);
}

static bool take(const uint8_t *key, uint64_t n, const uint8_t *in, size_t size, uint8_t *out) {
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
    number(n, nonce);
    return !crypto_aead_chacha20poly1305_ietf_decrypt(out, NULL, NULL, in, size, NULL, 0, nonce,
                                                      key);
}

shoal_status wire_seal_begin(wire_seal *seal, bool accepting, const wire_key_pair *own,
                             const uint8_t *peer, const void *context, size_t n) {
    static const char name[] = "shoal relay 1, Noise KK";
    *seal = (wire_seal){.accepting = accepting};
    memcpy(seal->peer, peer, WIRE_KEY);
    memcpy(seal->chain, name, sizeof name);
    mix(seal, context, n, NULL);
    mix(seal, accepting ? peer : own->public, WIRE_KEY, NULL);
    mix(seal, accepting ? own->public : peer, WIRE_KEY, NULL);
    return wire_key_pair_new(&seal->fresh);
}

/* The connecting side's: es, ss. */
static shoal_status first_key(wire_seal *seal, const wire_key_pair *own, const uint8_t *fresh,
                              uint8_t *key) {
    mix(seal, fresh, WIRE_KEY, NULL);
    SHOAL_TRY(mix_shared(seal, seal->accepting ? own->secret : seal->fresh.secret,
                         seal->accepting ? fresh : seal->peer, NULL));
    return mix_shared(seal, own->secret, seal->peer, key);
}

/* The accepting side's: ee, se; and the keys of what follows. */
static shoal_status second_key(wire_seal *seal, const wire_key_pair *own, const uint8_t *fresh,
                               const uint8_t *theirs, uint8_t *key) {
    mix(seal, fresh, WIRE_KEY, NULL);
    SHOAL_TRY(mix_shared(seal, seal->fresh.secret, theirs, NULL));
    SHOAL_TRY(mix_shared(seal, seal->accepting ? seal->fresh.secret : own->secret,
                         seal->accepting ? seal->peer : theirs, key));
    mix(seal, "connecting", 10, seal->accepting ? seal->in : seal->out);
    mix(seal, "accepting", 9, seal->accepting ? seal->out : seal->in);
    sodium_memzero(&seal->fresh, sizeof seal->fresh);
    return SHOAL_OK;
}

shoal_status wire_seal_hello(wire_seal *seal, const wire_key_pair *own, const void *in, size_t n,
                             uint8_t *out) {
    uint8_t key[WIRE_KEY];
    memcpy(out, seal->fresh.public, WIRE_KEY);
    /* Where a fresh key of the other side has been opened, it lies where the first key was. */
    SHOAL_TRY(seal->accepting ? second_key(seal, own, seal->fresh.public, seal->in, key)
                              : first_key(seal, own, seal->fresh.public, key));
    put(key, 0, in, n, out + WIRE_KEY);
    sodium_memzero(key, sizeof key);
    return SHOAL_OK;
}

shoal_status wire_seal_open_hello(wire_seal *seal, const wire_key_pair *own, const uint8_t *in,
                                  size_t n, uint8_t *out) {
    uint8_t key[WIRE_KEY];
    if (n < WIRE_SEAL_HELLO) return base_fail(SHOAL_FORMAT, "a sealed Hello of %zu bytes", n);
    SHOAL_TRY(seal->accepting ? first_key(seal, own, in, key) : second_key(seal, own, in, in, key));
    bool opened = take(key, 0, in + WIRE_KEY, n - WIRE_KEY, out);
    sodium_memzero(key, sizeof key);
    if (!opened) return base_fail(SHOAL_DENIED, "it was not sealed with the keys of the two");
    if (seal->accepting) memcpy(seal->in, in, WIRE_KEY);
    return SHOAL_OK;
}

void wire_seal_put(wire_seal *seal, const void *in, size_t n, uint8_t *out) {
    put(seal->out, seal->sent++, in, n, out);
}

shoal_status wire_seal_open(wire_seal *seal, const uint8_t *in, size_t n, uint8_t *out) {
    if (n < WIRE_SEAL_TAG || !take(seal->in, seal->received, in, n, out))
        return base_fail(SHOAL_FORMAT,
                         "what came was not sealed by the other side, or is not next");
    seal->received++;
    return SHOAL_OK;
}

void wire_seal_fini(wire_seal *seal) { sodium_memzero(seal, sizeof *seal); }

static pthread_once_t measured = PTHREAD_ONCE_INIT;
static double speed;

/* The quickest of some turns: others may have been interrupted. */
static void measure(void) {
    enum { BYTES = 64 << 10, TURNS = 8 };
    uint8_t tag[crypto_secretbox_MACBYTES], nonce[crypto_secretbox_NONCEBYTES] = {0};
    uint8_t key[crypto_secretbox_KEYBYTES] = {0}, *bytes = calloc(BYTES, 1);
    int64_t least = INT64_MAX;
    for (int i = 0; bytes && i < TURNS; i++) {
        int64_t from = base_now();
        crypto_secretbox_detached(bytes, tag, bytes, BYTES, nonce, key);
        int64_t took = base_now() - from;
        if (took > 0 && took < least) least = took;
    }
    free(bytes);
    speed = least < INT64_MAX ? (double)BYTES / (double)least * BASE_SECOND : 0;
}

double wire_sealing_speed(void) {
    pthread_once(&measured, measure);
    return speed;
}
