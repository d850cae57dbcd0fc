/* The ring in shared memory; its protocol is told in ring.h. */
#include "wire/ring.h"

#include "base/os.h"

shoal_status wire_ring_init(wire_ring *ring, int fd, int index) {
    *ring = (wire_ring){0};
    size_t start = (size_t)index * (WIRE_RING_HEADER + WIRE_RING_BYTES);
    void *shared, *bytes;
    SHOAL_TRY(base_os_shared_map(fd, start, WIRE_RING_HEADER, 1, &shared));
    shoal_status status =
        base_os_shared_map(fd, start + WIRE_RING_HEADER, WIRE_RING_BYTES, 2, &bytes);
    if (status != SHOAL_OK) {
        base_os_shared_unmap(shared, WIRE_RING_HEADER, 1);
        return status;
    }
    ring->shared = shared;
    ring->bytes = bytes;
    return SHOAL_OK;
}

void wire_ring_fini(wire_ring *ring) {
    base_os_shared_unmap(ring->shared, WIRE_RING_HEADER, 1);
    base_os_shared_unmap(ring->bytes, WIRE_RING_BYTES, 2);
    *ring = (wire_ring){0};
}

/* The writer's look at the reader's position; true when `bytes` fit. */
static bool fits(wire_ring *ring, size_t bytes) {
    if (WIRE_RING_BYTES - (ring->at - ring->other) >= bytes) return true;
    uint64_t head = atomic_load(&ring->shared->head);
    if (ring->at - head > WIRE_RING_BYTES) {
        ring->broken = true;
        return false;
    }
    ring->other = head;
    return WIRE_RING_BYTES - (ring->at - head) >= bytes;
}

void *wire_ring_reserve(wire_ring *ring, size_t bytes) {
    if (ring->broken) return NULL;
    if (!fits(ring, bytes)) {
        /* A quarter of the ring at a time: fewer bells than one per frame. */
        ring->blocked = ring->at - WIRE_RING_BYTES + WIRE_RING_BYTES / 4;
        atomic_store(&ring->shared->wake_at, ring->blocked);
        if (!fits(ring, bytes)) return NULL;
    }
    if (ring->blocked) {
        ring->blocked = 0;
        atomic_store(&ring->shared->wake_at, 0);
    }
    return ring->bytes + ring->at % WIRE_RING_BYTES;
}

bool wire_ring_commit(wire_ring *ring, size_t bytes) {
    ring->at += bytes;
    atomic_store(&ring->shared->tail, ring->at);
    return atomic_load(&ring->shared->reader_sleeps) &&
           atomic_exchange(&ring->shared->reader_sleeps, 0);
}

bool wire_ring_blocked(const wire_ring *ring) {
    return ring->blocked && (int64_t)(atomic_load(&ring->shared->head) - ring->blocked) < 0;
}

const void *wire_ring_peek(wire_ring *ring, size_t *bytes) {
    *bytes = 0;
    if (ring->broken) return NULL;
    if (ring->other == ring->at) {
        uint64_t tail = atomic_load(&ring->shared->tail);
        if (tail - ring->at > WIRE_RING_BYTES) {
            ring->broken = true;
            return NULL;
        }
        ring->other = tail;
    }
    *bytes = (size_t)(ring->other - ring->at);
    return ring->bytes + ring->at % WIRE_RING_BYTES;
}

bool wire_ring_consume(wire_ring *ring, size_t bytes) {
    ring->at += bytes;
    atomic_store(&ring->shared->head, ring->at);
    uint64_t wake_at = atomic_load(&ring->shared->wake_at);
    return wake_at && (int64_t)(ring->at - wake_at) >= 0 &&
           atomic_exchange(&ring->shared->wake_at, 0);
}

bool wire_ring_pending(const wire_ring *ring) {
    return !ring->broken && atomic_load(&ring->shared->tail) != ring->at;
}

void wire_ring_sleep(wire_ring *ring, bool sleeps) {
    atomic_store(&ring->shared->reader_sleeps, sleeps);
}
