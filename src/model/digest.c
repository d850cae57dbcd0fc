/* The digest of a file, by which machines know that they have the same: BLAKE2b over all its bytes.
 *
 * It is kept in the cache folder, in a file named after the path, with all that changes when the
 * file does: size, both times, device and inode. A file that changed a moment ago could change
 * again without another time, so that its digest is not kept. */
#define _GNU_SOURCE
#include "base/os.h"
#include "model/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, TEXT = 256, HEX = 2 * SHOAL_DIGEST + 1, SETTLED_SECONDS = 2 };

/* ---- kept ---- */

/* The file that keeps a digest; false when there is no such place. */
static bool kept_path(const char *path, bool make, char *out, size_t room) {
    uint8_t name[16];
    char folder[1024], hex[2 * sizeof name + 1], *whole = realpath(path, NULL);
    bool fine = whole && base_os_cache_folder(make, folder, sizeof folder) == SHOAL_OK;
    if (fine) {
        crypto_generichash(name, sizeof name, (const uint8_t *)whole, strlen(whole), NULL, 0);
        sodium_bin2hex(hex, sizeof hex, name, sizeof name);
        strncat(folder, "/digests", sizeof folder - strlen(folder) - 1);
        if (make) mkdir(folder, 0700); /* that it failed shows when a file is made in it */
        int used = snprintf(out, room, "%s/%s", folder, hex);
        fine = used > 0 && (size_t)used < room;
    }
    free(whole);
    return fine;
}

/* The link that leads to the file of a digest. */
static bool link_path(const char *digest, bool make, char *out, size_t room) {
    char folder[1024];
    if (base_os_cache_folder(make, folder, sizeof folder) != SHOAL_OK) return false;
    strncat(folder, "/digests", sizeof folder - strlen(folder) - 1);
    if (make) mkdir(folder, 0700);
    int used = snprintf(out, room, "%s/%s", folder, digest);
    return used > 0 && (size_t)used < room;
}

bool model_digest_link(const char *digest, char *out, size_t room) {
    char path[1200];
    ssize_t n = link_path(digest, false, path, sizeof path) ? readlink(path, out, room - 1) : -1;
    if (n > 0) out[n] = 0;
    return n > 0;
}

void model_digest_note(const uint8_t *digest, const char *path) {
    char hex[HEX], at[1200], draft[1300], old[4096];
    sodium_bin2hex(hex, sizeof hex, digest, SHOAL_DIGEST);
    if (model_digest_link(hex, old, sizeof old) && !strcmp(old, path)) return;
    if (!link_path(hex, true, at, sizeof at)) return;
    snprintf(draft, sizeof draft, "%s.%ld", at, (long)getpid());
    if (!symlink(path, draft) && rename(draft, at)) unlink(draft);
}

/* What changes when a file does. */
static void stamp_of(const struct stat *st, char out[TEXT]) {
    snprintf(out, TEXT, "%lld %lld.%09ld %lld.%09ld %llu %llu ", (long long)st->st_size,
             (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
             st->st_ctim.tv_nsec, (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
}

static bool is_kept(const char *path, const struct stat *st, uint8_t *out) {
    char kept[1100], stamp[TEXT], line[2 * TEXT];
    if (!kept_path(path, false, kept, sizeof kept)) return false;
    FILE *file = fopen(kept, "re");
    bool fine = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    stamp_of(st, stamp);
    size_t n = strlen(stamp), bytes = 0;
    return fine && !strncmp(line, stamp, n) &&
           !sodium_hex2bin(out, SHOAL_DIGEST, line + n, HEX - 1, NULL, &bytes, NULL) &&
           bytes == SHOAL_DIGEST;
}

/* That a digest cannot be kept costs time alone. */
static void keep(const char *path, const struct stat *st, const uint8_t *digest) {
    char kept[1100], draft[1200], stamp[TEXT], hex[HEX];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (now.tv_sec - st->st_mtim.tv_sec < SETTLED_SECONDS ||
        now.tv_sec - st->st_ctim.tv_sec < SETTLED_SECONDS ||
        !kept_path(path, true, kept, sizeof kept))
        return;
    snprintf(draft, sizeof draft, "%s.%ld", kept, (long)getpid());
    FILE *file = fopen(draft, "we");
    if (!file) return;
    stamp_of(st, stamp);
    fprintf(file, "%s%s\n", stamp, sodium_bin2hex(hex, sizeof hex, digest, SHOAL_DIGEST));
    if (fclose(file) || rename(draft, kept)) unlink(draft);
}

/* ---- made ---- */

typedef bool (*told)(void *context, uint64_t done, uint64_t all);

static shoal_status read_all(int fd, const char *path, uint64_t all, told progress, void *context,
                             uint8_t *digest) {
    crypto_generichash_state state;
    uint8_t *chunk = malloc(CHUNK);
    if (!chunk) return base_fail(SHOAL_NO_MEMORY, "no memory to read %s", path);
    crypto_generichash_init(&state, NULL, 0, SHOAL_DIGEST);
    shoal_status status = SHOAL_OK;
    for (uint64_t done = 0; status == SHOAL_OK;) {
        ssize_t n = pread(fd, chunk, CHUNK, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = base_fail_errno(errno, "reading %s", path);
        if (n <= 0) break;
        crypto_generichash_update(&state, chunk, (size_t)n);
        done += (uint64_t)n;
        if (progress && !progress(context, done, all))
            status = base_fail(SHOAL_INTERRUPTED, "reading %s was stopped", path);
    }
    crypto_generichash_final(&state, digest, SHOAL_DIGEST);
    free(chunk);
    return status;
}

static shoal_status digest_of(int fd, const char *path, told progress, void *context,
                              uint8_t *out) {
    struct stat before, after;
    char was[TEXT], is[TEXT];
    if (fstat(fd, &before)) return base_fail_errno(errno, "reading %s", path);
    if (!S_ISREG(before.st_mode)) return base_fail(SHOAL_INVALID, "%s is not a file", path);
    if (is_kept(path, &before, out)) return SHOAL_OK;
    SHOAL_TRY(read_all(fd, path, (uint64_t)before.st_size, progress, context, out));
    if (fstat(fd, &after)) return base_fail_errno(errno, "reading %s", path);
    stamp_of(&before, was);
    stamp_of(&after, is);
    if (strcmp(was, is))
        return base_fail(SHOAL_BUSY, "%s changed while it was read; try again when it is complete",
                         path);
    keep(path, &after, out);
    return SHOAL_OK;
}

/* The same of what is mapped, which cannot be read where it was cut off. */
static shoal_status read_mapped(const model_map *map, told progress, void *context,
                                uint8_t *digest) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, SHOAL_DIGEST);
    for (uint64_t done = 0, n; done < map->bytes; done += n) {
        n = map->bytes - done < CHUNK ? map->bytes - done : CHUNK;
        SHOAL_TRY(model_map_check(map));
        crypto_generichash_update(&state, map->data + done, n);
        if (progress && !progress(context, done + n, map->bytes))
            return base_fail(SHOAL_INTERRUPTED, "reading %s was stopped", map->path);
    }
    crypto_generichash_final(&state, digest, SHOAL_DIGEST);
    return SHOAL_OK;
}

shoal_status model_map_digest(const model_map *map, told progress, void *context, uint8_t *out) {
    struct stat st;
    if (sodium_init() < 0) return base_fail(SHOAL_UNSUPPORTED, "libsodium cannot be used here");
    bool there = !stat(map->path, &st);
    model_stamp now = there ? model_stamp_of(&st) : (model_stamp){0};
    there = there && model_stamp_equal(&now, &map->stamp);
    if (there && is_kept(map->path, &st, out)) return SHOAL_OK;
    SHOAL_TRY(map->fd >= 0 ? read_all(map->fd, map->path, map->bytes, progress, context, out)
                           : read_mapped(map, progress, context, out));
    SHOAL_TRY(model_map_check(map));
    if (there) keep(map->path, &st, out);
    return SHOAL_OK;
}

shoal_status shoal_file_digest(const char *path, told progress, void *context,
                               uint8_t out[SHOAL_DIGEST]) {
    if (sodium_init() < 0) return base_fail(SHOAL_UNSUPPORTED, "libsodium cannot be used here");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return base_fail_errno(errno, "opening %s", path);
    shoal_status status = digest_of(fd, path, progress, context, out);
    close(fd);
    return status;
}
