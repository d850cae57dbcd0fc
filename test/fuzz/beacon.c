/* A beacon from anybody on the network: what is taken is written back the same, and its addresses
 * are numbers. */
#include "fuzz.h"
#include "wire/beacon.h"

#include <string.h>

size_t fuzz_limit(size_t size) { return 0; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    wire_beacon beacon;
    uint8_t again[WIRE_BEACON_MOST];
    if (!wire_beacon_read(data, size, &beacon)) return 0;
    fuzz_accepted++;
    FUZZ_CHECK(strlen(beacon.addresses) < sizeof beacon.addresses);
    FUZZ_CHECK(strspn(beacon.addresses, "tcp:/0123456789abcdef.[],") == strlen(beacon.addresses));
    FUZZ_CHECK(wire_beacon_write(&beacon, again) == size && !memcmp(again, data, size));
    return 0;
}
