/* Events as messages carry them: what is unpacked has kinds and labels that exist, and packs again.
 */
#include "base/clock.h"
#include "base/str.h"
#include "fuzz.h"
#include "wire/transport.h"

#include <string.h>

size_t fuzz_limit(size_t size) {
    return 4 * (WIRE_UNPACK_FACTOR * size + WIRE_UNPACK_LEAST) + 4096;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    shoal_event *events, *again;
    size_t n, m;
    base_str packed = {0};
    if (wire_events_unpack(data, size, &events, &n) != SHOAL_OK) return 0;
    fuzz_accepted++;
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(events[i].kind < SHOAL_EVENT_COUNT && events[i].phase < SHOAL_EVENT_PHASES);
        FUZZ_CHECK(events[i].at >= 0 && events[i].at <= BASE_CLOCK_MOST);
        FUZZ_CHECK(memchr(events[i].label, 0, sizeof events[i].label));
        for (const char *c = events[i].label; *c; c++)
            FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 127);
    }
    FUZZ_CHECK(wire_events_pack(events, n, &packed) == SHOAL_OK);
    FUZZ_CHECK(wire_events_unpack(packed.data, packed.size, &again, &m) == SHOAL_OK && m == n);
    for (size_t i = 0; i < n; i++) /* behind its end a label may hold anything */
        FUZZ_CHECK(again[i].at == events[i].at && again[i].instance == events[i].instance &&
                   again[i].bytes == events[i].bytes && again[i].key == events[i].key &&
                   !strcmp(again[i].label, events[i].label));
    free(again);
    free(events);
    base_str_fini(&packed);
    return 0;
}
