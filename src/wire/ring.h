/* One direction of a link in shared memory: a ring of bytes with one writer and one reader.
 *
 * Everything in the shared part is written by the other process and not to be trusted: each side
 * keeps its own position in private memory, checks the other's on every read, and calls the ring
 * broken when it cannot be. The bytes are mapped twice in a row, so whatever lies in the ring is
 * contiguous.
 *
 * Waking. A reader that is about to sleep stores `reader_sleeps` and then looks at `tail` once
 * more; a writer stores `tail` and then looks at `reader_sleeps`. All four are sequentially
 * consistent, so at least one of the two sees the other's store: either the reader does not sleep
 * or the writer rings its doorbell. The same holds for a writer without room (`wake_at`, a position
 * of `head`) and a reader that makes room. While nobody sleeps, nobody makes a system call. */
#ifndef WIRE_RING_H
#define WIRE_RING_H

#include "base/status.h"

#include <stdatomic.h>

enum { WIRE_RING_BYTES = 8 << 20, WIRE_RING_HEADER = 64 << 10 };

/* What the memory file holds: twice this header and the bytes. */
typedef struct wire_ring_shared {
    _Alignas(64) _Atomic uint64_t tail; /* bytes ever written */
    _Atomic uint64_t wake_at;           /* ring the writer when head gets here; 0: no need */
    _Alignas(64) _Atomic uint64_t head; /* bytes ever read */
    _Atomic uint32_t reader_sleeps;
} wire_ring_shared;

_Static_assert(offsetof(wire_ring_shared, head) == 64 && sizeof(wire_ring_shared) == 128,
               "both processes have it alike, whatever each was compiled for");

enum { WIRE_RING_FILE = 2 * (WIRE_RING_HEADER + WIRE_RING_BYTES) };

/* One side's view of one ring. Used by one thread at a time. */
typedef struct wire_ring {
    wire_ring_shared *shared;
    uint8_t *bytes;
    uint64_t at;      /* own position: tail of a writer, head of a reader */
    uint64_t other;   /* the other's position when last looked at */
    uint64_t blocked; /* writer: what wake_at was set to; 0: not waiting */
    bool broken;
} wire_ring;

/* Maps ring 0 or 1 of a memory file. */
shoal_status wire_ring_init(wire_ring *ring, int fd, int index) SHOAL_CHECK_RESULT;
void wire_ring_fini(wire_ring *ring);

/* Writer: room for `bytes` contiguous bytes (at most WIRE_RING_BYTES / 4), or NULL: then the
 * reader will ring when there is. */
void *wire_ring_reserve(wire_ring *ring, size_t bytes);
/* Hands `bytes` written bytes over. True: the reader sleeps, ring its doorbell. */
bool wire_ring_commit(wire_ring *ring, size_t bytes);
/* Whether the writer has to go on waiting for room. */
bool wire_ring_blocked(const wire_ring *ring);

/* Reader: what can be read, contiguous; *bytes is 0 when there is nothing. */
const void *wire_ring_peek(wire_ring *ring, size_t *bytes);
/* Gives `bytes` bytes back. True: the writer waits for room, ring its doorbell. */
bool wire_ring_consume(wire_ring *ring, size_t bytes);
/* Whether there may be something to read. */
bool wire_ring_pending(const wire_ring *ring);
/* The reader is about to sleep, or awake again. */
void wire_ring_sleep(wire_ring *ring, bool sleeps);

#endif
