/* Files mapped into memory, read-only. One that is open already is not mapped again: those of a
 * process are in one list, where they are also found when their names have gone. Any thread. */
#ifndef MODEL_MAP_H
#define MODEL_MAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* What tells a file from what it was before. */
typedef struct model_stamp {
    uint64_t device, inode, bytes;
    int64_t seconds, nanoseconds; /* of its last change */
} model_stamp;

typedef struct model_map {
    struct model_map *next, *previous;
    uint32_t refs;
    char *path; /* absolute, unless the folder cannot be told */
    const uint8_t *data;
    uint64_t bytes;
    model_stamp stamp;
    int fd; /* of the file, whatever its name is by now; -1: there are too many open */
    _Atomic int64_t checked; /* base_now of the last model_map_glance */
} model_map;

model_stamp model_stamp_of(const struct stat *st);
bool model_stamp_equal(const model_stamp *a, const model_stamp *b);
/* Fails with FORMAT for an empty file, INVALID for what is no file. */
shoal_status model_map_open(const char *path, model_map **out) SHOAL_CHECK_RESULT;
/* The file as it was: one that is open, else the one at the path. Fails with NOT_FOUND, or IO when
 * it is another by now. */
shoal_status model_map_again(const char *path, const model_stamp *stamp,
                             model_map **out) SHOAL_CHECK_RESULT;
model_map *model_map_retain(model_map *map);
/* NULL is fine. */
void model_map_release(void *map);
/* Fails with IO, naming the file, when it was written to since it was opened, also by another
 * name. */
shoal_status model_map_check(const model_map *map) SHOAL_CHECK_RESULT;
/* The same for reads of a few bytes, of which there are many: it looks every few milliseconds. */
shoal_status model_map_glance(model_map *map) SHOAL_CHECK_RESULT;
/* As shoal_file_digest, of what is mapped. */
shoal_status model_map_digest(const model_map *map,
                              bool (*progress)(void *context, uint64_t done, uint64_t all),
                              void *context, uint8_t *out) SHOAL_CHECK_RESULT;

/* Where a process of this user has last had the file of a digest (64 hexadecimal digits): a hint,
 * to be checked. false: nowhere. */
bool model_digest_link(const char *digest, char *out, size_t room);
/* Notes where it is. That it cannot be noted costs time alone. */
void model_digest_note(const uint8_t *digest, const char *path);

#endif
