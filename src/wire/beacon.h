/* Beacons: a hub that lets other machines in says so on its network about once a second, so that
 * who has enrolled finds it without an address. A beacon is a datagram that says "the hub with this
 * fingerprint is at these addresses", and nothing else. Anybody can send one: whoever takes an
 * address from it demands the key that it has known since it enrolled, and the encrypted handshake
 * proves it. So a false beacon costs a connection in vain.
 *
 *   bytes 0..7    "SHOALHUB"
 *   bytes 8..9    version, 1
 *   bytes 10..11  length of the addresses
 *   bytes 12..19  fingerprint of the hub's public key
 *   bytes 20..    "tcp://1.2.3.4:7400", several with commas between them; numbers are big-endian */
#ifndef WIRE_BEACON_H
#define WIRE_BEACON_H

#include "wire/keys.h"

enum {
    WIRE_BEACON_PORT = 7400,
    WIRE_BEACON_MS = 1000,
    WIRE_BEACON_HEAD = 20,
    WIRE_BEACON_TEXT = 512, /* with the end of the string */
    WIRE_BEACON_MOST = WIRE_BEACON_HEAD + WIRE_BEACON_TEXT - 1
};

typedef struct wire_beacon {
    uint64_t fingerprint;
    char addresses[WIRE_BEACON_TEXT];
} wire_beacon;

uint64_t wire_beacon_fingerprint(const uint8_t *key);
/* Bytes written; 0 when there is no address in numbers to tell, or too many. */
size_t wire_beacon_write(const wire_beacon *beacon, uint8_t out[WIRE_BEACON_MOST]);
/* False for everything that wire_beacon_write does not write. No address in it is a name, so
 * nothing from outside makes this machine ask anybody anything. */
bool wire_beacon_read(const uint8_t *bytes, size_t n, wire_beacon *out);

/* The UDP port: `given` ("off" or a number), else SHOAL_BEACON, else WIRE_BEACON_PORT. 0: off. */
shoal_status wire_beacon_port(const char *given, uint16_t *port) SHOAL_CHECK_RESULT;

/* ---- at a hub ---- */

/* Networks in which a hub announces itself. */
enum { WIRE_BEACON_NETWORKS = 4 };

typedef struct wire_announcer {
    int fds[WIRE_BEACON_NETWORKS];
    int n_fds; /* 0: off */
    int64_t next;
    uint8_t bytes[WIRE_BEACON_MOST];
    size_t n;
} wire_announcer;

/* Announces `addresses` (a list; those of TCP) on the networks of their interfaces, the first ones,
 * and on no others. Fails where none has a way to reach all of a network, as a tunnel has not. */
shoal_status wire_announcer_init(wire_announcer *out, const char *addresses,
                                 uint16_t port) SHOAL_CHECK_RESULT;
/* Sends a beacon when it is time. Never waits. */
void wire_announcer_tick(wire_announcer *announcer);
void wire_announcer_fini(wire_announcer *announcer);

/* ---- elsewhere ---- */

/* Listens for a beacon of a hub that this user has joined until the deadline (of base_now) or
 * *stop; writes its addresses, each with the key that it has to prove. NOT_FOUND when none came,
 * or when this user has joined no hub. */
shoal_status wire_beacon_find(uint16_t port, int64_t deadline, const volatile int *stop, char *out,
                              size_t room) SHOAL_CHECK_RESULT;

#endif
