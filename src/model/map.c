/* Files mapped into memory, and the list of those that are. */
#define _GNU_SOURCE
#include "model/map.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static model_map *open_maps;

model_stamp model_stamp_of(const struct stat *st) {
    return (model_stamp){(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
                         (int64_t)st->st_mtim.tv_sec, (int64_t)st->st_mtim.tv_nsec};
}

bool model_stamp_equal(const model_stamp *a, const model_stamp *b) {
    return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

model_map *model_map_retain(model_map *map) {
    pthread_mutex_lock(&lock);
    map->refs++;
    pthread_mutex_unlock(&lock);
    return map;
}

void model_map_release(void *pointer) {
    model_map *map = pointer;
    if (!map) return;
    pthread_mutex_lock(&lock);
    bool last = --map->refs == 0;
    if (last && map->previous)
        map->previous->next = map->next;
    else if (last)
        open_maps = map->next;
    if (last && map->next) map->next->previous = map->previous;
    pthread_mutex_unlock(&lock);
    if (!last) return;
    munmap((void *)map->data, map->bytes);
    if (map->fd >= 0) close(map->fd);
    free(map->path);
    free(map);
}

/* One that is open, with a reference more. */
static model_map *find(const model_stamp *stamp) {
    pthread_mutex_lock(&lock);
    model_map *map = open_maps;
    while (map && !model_stamp_equal(&map->stamp, stamp)) map = map->next;
    if (map) map->refs++;
    pthread_mutex_unlock(&lock);
    return map;
}

/* A descriptor of our own, as long as half of those that there may be are left to others. */
static int keep(int fd) {
    struct rlimit most;
    if (getrlimit(RLIMIT_NOFILE, &most)) return -1;
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (kept < 0 || (rlim_t)kept < most.rlim_cur / 2) return kept;
    close(kept);
    return -1;
}

static shoal_status map_new(const char *path, int fd, const struct stat *st, model_map **out) {
    model_map *map = calloc(1, sizeof *map);
    char *whole = realpath(path, NULL);
    if (!whole) whole = strdup(path);
    if (!map || !whole) {
        free(map);
        free(whole);
        return base_fail(SHOAL_NO_MEMORY, "no memory to open %s", path);
    }
    *map = (model_map){.refs = 1, .path = whole, .stamp = model_stamp_of(st)};
    map->bytes = (uint64_t)st->st_size;
    void *data = mmap(NULL, map->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        shoal_status status = base_fail_errno(errno, "mapping %s", path);
        free(map->path);
        free(map);
        return status;
    }
    map->data = data;
    map->fd = keep(fd);
    pthread_mutex_lock(&lock);
    map->next = open_maps;
    if (open_maps) open_maps->previous = map;
    open_maps = map;
    pthread_mutex_unlock(&lock);
    *out = map;
    return SHOAL_OK;
}

static shoal_status open_fd(const char *path, int fd, model_map **out) {
    struct stat st;
    if (fstat(fd, &st)) return base_fail_errno(errno, "opening %s", path);
    if (!S_ISREG(st.st_mode)) return base_fail(SHOAL_INVALID, "%s is not a file", path);
    if (!st.st_size) return base_fail(SHOAL_FORMAT, "%s is empty", path);
    model_stamp stamp = model_stamp_of(&st);
    *out = find(&stamp);
    return *out ? SHOAL_OK : map_new(path, fd, &st, out);
}

shoal_status model_map_open(const char *path, model_map **out) {
    *out = NULL;
    /* What is no file may keep whoever opens it waiting. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return base_fail_errno(errno, "opening %s", path);
    shoal_status status = open_fd(path, fd, out);
    close(fd);
    return status;
}

shoal_status model_map_again(const char *path, const model_stamp *stamp, model_map **out) {
    *out = find(stamp);
    if (*out) return SHOAL_OK;
    SHOAL_TRY(model_map_open(path, out));
    if (model_stamp_equal(&(*out)->stamp, stamp)) return SHOAL_OK;
    model_map_release(*out);
    *out = NULL;
    return base_fail(SHOAL_IO, "%s is not the file that it was: open it again", path);
}

/* Where another file has taken its name, or nobody has, what is mapped stays as it was; but its own
 * name may not be the only one. */
shoal_status model_map_check(const model_map *map) {
    struct stat st;
    if (map->fd >= 0 ? fstat(map->fd, &st) : stat(map->path, &st)) return SHOAL_OK;
    model_stamp now = model_stamp_of(&st);
    if (now.device != map->stamp.device || now.inode != map->stamp.inode ||
        model_stamp_equal(&now, &map->stamp))
        return SHOAL_OK;
    return base_fail(SHOAL_IO,
                     "%s was written to after it was opened (%llu bytes then, %llu now): open it "
                     "again",
                     map->path, (unsigned long long)map->stamp.bytes,
                     (unsigned long long)now.bytes);
}

shoal_status model_map_glance(model_map *map) {
    enum { EVERY_MS = 5 };
    int64_t now = base_now();
    if (now - atomic_load(&map->checked) < EVERY_MS * BASE_MS) return SHOAL_OK;
    SHOAL_TRY(model_map_check(map));
    atomic_store(&map->checked, now);
    return SHOAL_OK;
}
