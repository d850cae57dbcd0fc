/* Chunks of data that go compressed, by LZ4, where the other side has them sooner for that: on slow
 * connections with another machine, and of data of which a small part shows that it gets much
 * smaller. What is fast sends chunks as they are, and nothing is tried. */
#include "wire/paths.h"

#include "base/clock.h"

#include <lz4.h>
#include <string.h>

enum {
    PROBE = 16 << 10, /* bytes that are compressed to see whether it is worth it */
    HEADING = sizeof(uint32_t),
    LEAST_SAVED = 8, /* a part of a chunk; else it goes as it is */
};
/* From this speed on, bytes a second, nothing is tried: between WiFi and Ethernet of 1 Gb/s. */
#define FAST 80e6

_Static_assert(LZ4_MAX_INPUT_SIZE > WIRE_CHUNK, "a chunk is one block");

/* Whether some bytes of a chunk, which took so long and became so few, tell that the chunk is there
 * sooner compressed. Expanding takes no longer than compressing. */
static bool is_worth_it(size_t few, double took, double speed) {
    double saved = (double)(PROBE - few) / speed;
    return few < PROBE - PROBE / LEAST_SAVED && 2 * took < saved;
}

/* The middle tells more of a chunk than its ends. */
static bool probe(const char *chunk, size_t n, double speed, char *out) {
    int64_t start = base_now();
    int few = LZ4_compress_default(chunk + (n - PROBE) / 2, out, PROBE, PROBE);
    return few > 0 && is_worth_it((size_t)few, (double)(base_now() - start) * 1e-9, speed);
}

uint8_t *wire_compress(wire_framed *own, const wire_writer *writer, wire_frame *frame,
                       uint8_t *to) {
    /* A path is measured first, with chunks as they are. */
    bool measured = !wire_paths_kept(&own->base) || own->path.measures;
    bool may = own->expands && measured && frame->bytes >= PROBE;
    double speed = may ? own->carrier->speed(own) : 0;
    if (speed <= 0 || speed >= FAST) return to;
    const char *chunk = (const char *)to + sizeof *frame;
    uint32_t n = frame->bytes, room = n - n / LEAST_SAVED;
    char *out = own->base.peer->scratch;
    if (!probe(chunk, n, speed, out)) return to;
    int few = LZ4_compress_default(chunk, out, (int)n, (int)room);
    uint8_t *place =
        few > 0 ? writer->shorten(&own->base, wire_frame_bytes(HEADING + (size_t)few)) : NULL;
    if (!place) return to;
    uint8_t *body = place + sizeof *frame;
    frame->type = WIRE_FRAME_COMPRESSED;
    frame->bytes = HEADING + (uint32_t)few;
    memcpy(body, &n, HEADING);
    memcpy(body + HEADING, out, (size_t)few);
    memset(body + frame->bytes, 0, wire_frame_bytes(frame->bytes) - sizeof *frame - frame->bytes);
    own->path.saved += n - frame->bytes;
    atomic_fetch_add_explicit(&wire_lead(&own->base)->saved_out, n - frame->bytes,
                              memory_order_relaxed);
    return place;
}

shoal_status wire_expand(const wire_link *link, wire_frame *frame, const void *bytes) {
    uint32_t n = 0;
    if (frame->bytes >= HEADING) memcpy(&n, bytes, HEADING);
    const char *block = (const char *)bytes + HEADING;
    char *out = link->peer->scratch;
    bool whole = n && n <= WIRE_CHUNK &&
                 LZ4_decompress_safe(block, out, (int)(frame->bytes - HEADING), (int)n) == (int)n;
    if (!whole)
        return base_fail(SHOAL_FORMAT, "%s: %u bytes are no compressed chunk of %u", link->name,
                         frame->bytes, n);
    frame->type = WIRE_FRAME_DATA;
    frame->bytes = n;
    return SHOAL_OK;
}
