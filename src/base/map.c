#include "base/map.h"

#include "base/os.h"

#include <stdatomic.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct base_map_entry {
    uint64_t key;
    void *value; /* NULL: free; &gone: removed */
};

static char gone;

uint64_t base_hash(const void *data, size_t bytes) { return XXH3_64bits(data, bytes); }

void base_map_init(base_map *map) { *map = (base_map){0}; }

void base_map_fini(base_map *map) {
    free(map->entries);
    base_map_init(map);
}

/* Of this process: keys are others' numbers, and nobody outside can choose ones that collide. */
static uint64_t seed(void) {
    static _Atomic uint64_t kept;
    uint64_t s = atomic_load_explicit(&kept, memory_order_relaxed);
    if (s) return s;
    if (base_os_random(&s, sizeof s) != SHOAL_OK) s = (uint64_t)(uintptr_t)&kept;
    uint64_t none = 0;
    s |= 1;
    return atomic_compare_exchange_strong(&kept, &none, s) ? s : none;
}

/* The entry of the key, or the first free one on its way. */
static struct base_map_entry *find(const base_map *map, uint64_t key) {
    /* Two rounds of multiplying: ids count up, and neighbours must not cluster. */
    uint64_t hash = (key ^ seed()) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    size_t at = (size_t)(hash >> 20) & (map->room - 1);
    while (map->entries[at].value &&
           (map->entries[at].value == &gone || map->entries[at].key != key))
        at = (at + 1) & (map->room - 1);
    return &map->entries[at];
}

void *base_map_get(const base_map *map, uint64_t key) {
    return map->room ? find(map, key)->value : NULL;
}

static shoal_status rehash(base_map *map, size_t room) {
    base_map bigger = {.room = room};
    bigger.entries = calloc(room, sizeof *bigger.entries);
    if (!bigger.entries) return base_fail(SHOAL_NO_MEMORY, "no memory for a table of %zu", room);
    for (size_t i = 0; i < map->room; i++) {
        void *value = map->entries[i].value;
        if (!value || value == &gone) continue;
        *find(&bigger, map->entries[i].key) = map->entries[i];
        bigger.count++;
    }
    bigger.used = bigger.count;
    free(map->entries);
    *map = bigger;
    return SHOAL_OK;
}

shoal_status base_map_set(base_map *map, uint64_t key, void *value) {
    if (4 * (map->used + 1) > 3 * map->room) {
        size_t room = 16;
        while (room < 3 * (map->count + 1)) room *= 2;
        SHOAL_TRY(rehash(map, room));
    }
    struct base_map_entry *entry = find(map, key);
    if (!entry->value) {
        map->count++;
        map->used++;
    }
    *entry = (struct base_map_entry){key, value};
    return SHOAL_OK;
}

void *base_map_remove(base_map *map, uint64_t key) {
    if (!map->room) return NULL;
    struct base_map_entry *entry = find(map, key);
    void *value = entry->value;
    if (value) {
        entry->value = &gone;
        map->count--;
    }
    return value;
}

bool base_map_next(const base_map *map, size_t *at, uint64_t *key, void **value) {
    for (; *at < map->room; ++*at) {
        struct base_map_entry *entry = &map->entries[*at];
        if (!entry->value || entry->value == &gone) continue;
        *key = entry->key;
        *value = entry->value;
        ++*at;
        return true;
    }
    return false;
}
