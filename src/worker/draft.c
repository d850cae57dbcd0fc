/* Files on their way from other members, at their place but under another name. A draft holds the
 * bytes of the file and behind them, for each part, its checksum, or 0 where it is missing; so who
 * is broken off goes on later from what is there, part by part checked. Of those that nobody goes
 * on with a few are kept, for some days, while the disk has room. */
#define _GNU_SOURCE
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    SPARE_SHARE = 20,             /* a part of the disk stays free */
    MOST_KEPT = 4,                /* drafts that nobody goes on with, */
    LONGEST_KEPT = 7 * 24 * 3600, /* for so many seconds */
    SUM = sizeof(uint64_t),
    FOLDER_ROOM = WORKER_PATH_ROOM - 128
};
#define ENDING ".part"

uint64_t worker_file_sum(const void *bytes, size_t n) { return base_hash(bytes, n) | 1; }

uint64_t worker_draft_parts(const worker_draft *d) {
    return d->bytes / WIRE_CHUNK + (d->bytes % WIRE_CHUNK != 0);
}

uint32_t worker_draft_size(const worker_draft *d, uint64_t part) {
    uint64_t left = d->bytes - part * WIRE_CHUNK;
    return left < WIRE_CHUNK ? (uint32_t)left : WIRE_CHUNK;
}

/* ---- bytes ---- */

static shoal_status put(const worker_draft *d, const void *bytes, size_t n, uint64_t offset) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(d->fd, (const char *)bytes + done, n - done, (off_t)(offset + done));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return base_fail_errno(k ? errno : ENOSPC, "writing %s", d->path);
        done += (size_t)k;
    }
    return SHOAL_OK;
}

static shoal_status get(const worker_draft *d, void *bytes, size_t n, uint64_t offset) {
    for (size_t done = 0; done < n;) {
        ssize_t k = pread(d->fd, (char *)bytes + done, n - done, (off_t)(offset + done));
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return base_fail_errno(k ? errno : EIO, "reading %s", d->path);
        done += (size_t)k;
    }
    return SHOAL_OK;
}

static shoal_status put_sum(worker_draft *d, uint64_t part, uint64_t sum) {
    SHOAL_TRY(put(d, &sum, SUM, d->bytes + part * SUM));
    uint32_t n = worker_draft_size(d, part);
    d->there += (sum ? n : 0) - (d->sums[part] ? n : 0);
    d->sums[part] = sum;
    return SHOAL_OK;
}

shoal_status worker_draft_clear(worker_draft *d) {
    memset(d->sums, 0, (size_t)worker_draft_parts(d) * SUM);
    d->there = d->front = 0;
    d->room = false;
    crypto_generichash_init(&d->hash, NULL, 0, SHOAL_DIGEST);
    return ftruncate(d->fd, 0) ? base_fail_errno(errno, "writing %s", d->path) : SHOAL_OK;
}

/* Once a member has shown that it has the file. */
static shoal_status make_room(worker_draft *d) {
    uint64_t all = d->bytes + worker_draft_parts(d) * SUM;
    int error = d->room ? 0 : posix_fallocate(d->fd, 0, (off_t)all);
    d->room = !error;
    return error ? base_fail_errno(error, "making room for %" PRIu64 " bytes at %s", all, d->path)
                 : SHOAL_OK;
}

static void add_front(worker_draft *d, const void *bytes, size_t n) {
    crypto_generichash_update(&d->hash, bytes, n);
    d->front += n;
}

shoal_status worker_draft_put(worker_draft *d, uint64_t part, const void *bytes) {
    uint32_t n = worker_draft_size(d, part);
    SHOAL_TRY(make_room(d));
    SHOAL_TRY(put(d, bytes, n, part * WIRE_CHUNK));
    SHOAL_TRY(put_sum(d, part, worker_file_sum(bytes, n)));
    if (part * WIRE_CHUNK == d->front) add_front(d, bytes, n);
    return SHOAL_OK;
}

shoal_status worker_draft_step(worker_draft *d, const char *who, bool *went) {
    uint64_t part = d->front / WIRE_CHUNK;
    *went = d->front < d->bytes && d->sums[part];
    if (!*went) return SHOAL_OK;
    uint32_t n = worker_draft_size(d, part);
    uint8_t *bytes = malloc(n);
    if (!bytes) return base_fail(SHOAL_NO_MEMORY, "no memory to check a part of %s", d->path);
    shoal_status status = get(d, bytes, n, d->front);
    *went = status == SHOAL_OK && worker_file_sum(bytes, n) == d->sums[part];
    if (*went) {
        add_front(d, bytes, n);
    } else if (status == SHOAL_OK) {
        base_log(BASE_WARN, who,
                 "%s: bytes %" PRIu64 " to %" PRIu64
                 " are not what was written there: they are fetched again",
                 d->path, d->front, d->front + n);
        status = put_sum(d, part, 0);
    }
    free(bytes);
    return status;
}

/* ---- the folder ---- */

typedef struct kept {
    char path[WORKER_PATH_ROOM];
    time_t at;
} kept;

/* Who goes on with a draft has locked it. */
static void drop(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return;
    if (!flock(fd, LOCK_EX | LOCK_NB)) unlink(path);
    close(fd);
}

static bool is_draft(const char *name) {
    enum { HEX = 2 * SHOAL_DIGEST };
    return strspn(name, "0123456789abcdef") == HEX && !strcmp(name + HEX, ENDING);
}

/* The newest are kept, all others dropped. */
static void tidy(const char *folder, const char *own, size_t most) {
    kept newest[MOST_KEPT], next;
    size_t n = 0;
    time_t now = time(NULL);
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));) {
        struct stat st;
        int used = snprintf(next.path, sizeof next.path, "%s/%s", folder, entry->d_name);
        if (!is_draft(entry->d_name) || used >= (int)sizeof next.path || lstat(next.path, &st) ||
            !S_ISREG(st.st_mode) || (own && !strcmp(next.path, own)))
            continue;
        next.at = st.st_mtime;
        size_t at = n;
        while (at && newest[at - 1].at < next.at) at--;
        if (at >= most || now - next.at > LONGEST_KEPT) {
            drop(next.path);
            continue;
        }
        if (n == most) drop(newest[--n].path);
        memmove(newest + at + 1, newest + at, (n++ - at) * sizeof *newest);
        newest[at] = next;
    }
    if (list) closedir(list);
}

/* The first of the folders of models; false: there is none. */
static bool first_folder(const char *models, char out[FOLDER_ROOM]) {
    size_t n = strcspn(models, ":");
    bool fits = n && n < FOLDER_ROOM;
    snprintf(out, FOLDER_ROOM, "%.*s", fits ? (int)n : 0, models);
    return fits;
}

void worker_drafts_tidy(const char *models) {
    char folder[FOLDER_ROOM];
    if (first_folder(models, folder)) tidy(folder, NULL, MOST_KEPT);
}

static shoal_status check_room(const worker_draft *d, const char *folder, const char *name) {
    struct statvfs disk;
    struct stat own;
    if (statvfs(folder, &disk) || fstat(d->fd, &own))
        return base_fail_errno(errno, "looking at %s", folder);
    double room = (double)disk.f_bavail * (double)disk.f_frsize + 512.0 * (double)own.st_blocks;
    double spare = (double)disk.f_blocks * (double)disk.f_frsize / SPARE_SHARE;
    if ((double)d->bytes + spare <= room) return SHOAL_OK;
    return base_fail(SHOAL_NO_MEMORY,
                     "%s has %.1f GB free, too little for %s (%.1f GB) as %d %% stay free: make "
                     "room, or name another folder with --models",
                     folder, room / 1e9, name, (double)d->bytes / 1e9, 100 / SPARE_SHARE);
}

/* ---- beginning ---- */

/* The folder that files are fetched to, made when it is not there. */
static shoal_status name_it(const worker *w, const worker_file *file, worker_draft *d,
                            char folder[FOLDER_ROOM]) {
    char hex[2 * SHOAL_DIGEST + 1];
    if (!first_folder(w->models, folder))
        return base_fail(SHOAL_NOT_FOUND,
                         "there is no folder for %s: name one with --models or SHOAL_MODELS",
                         file->name);
    for (char *slash = folder; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(folder, 0700); /* that it failed shows below */
        *slash = '/';
    }
    mkdir(folder, 0700);
    worker_digest_text(file->digest, hex);
    snprintf(d->name, sizeof d->name, "%s/%s", folder, hex);
    snprintf(d->path, sizeof d->path, "%s/%s" ENDING, folder, hex);
    return SHOAL_OK;
}

/* Opens the draft, and waits for another process that fetches the same. *is_one: it still has its
 * name, as it has not when the other has ended. */
static shoal_status lock_it(const worker *w, worker_draft *d, bool *is_one) {
    struct stat mine, named;
    d->fd = open(d->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->fd < 0) return base_fail_errno(errno, "writing %s", d->path);
    while (flock(d->fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return base_fail_errno(errno, "locking %s", d->path);
        if (atomic_load(&w->stopping)) return base_fail(SHOAL_CLOSED, "the worker is ending");
        nanosleep(&(struct timespec){.tv_nsec = 50 * BASE_MS}, NULL);
    }
    *is_one = !fstat(d->fd, &mine) && !stat(d->path, &named) && mine.st_ino == named.st_ino;
    return SHOAL_OK;
}

/* What was there before, which nobody has looked at yet. */
static shoal_status take_over(worker_draft *d) {
    struct stat st;
    uint64_t parts = worker_draft_parts(d);
    d->sums = calloc((size_t)parts + 1, SUM);
    if (!d->sums) return base_fail(SHOAL_NO_MEMORY, "no memory for what is there of %s", d->path);
    if (fstat(d->fd, &st)) return base_fail_errno(errno, "reading %s", d->path);
    SHOAL_TRY((uint64_t)st.st_size == d->bytes + parts * SUM
                  ? get(d, d->sums, (size_t)parts * SUM, d->bytes)
                  : SHOAL_OK);
    for (uint64_t i = 0; i < parts; i++)
        if (d->sums[i]) d->there += worker_draft_size(d, i);
    if (!d->there) return worker_draft_clear(d);
    crypto_generichash_init(&d->hash, NULL, 0, SHOAL_DIGEST);
    return SHOAL_OK;
}

shoal_status worker_draft_open(const worker *w, const worker_file *file, worker_draft *d,
                               model_map **out) {
    uint8_t digest[SHOAL_DIGEST];
    char folder[FOLDER_ROOM];
    *d = (worker_draft){.fd = -1, .bytes = file->bytes};
    SHOAL_TRY(name_it(w, file, d, folder));
    for (bool is_one = false; !is_one;) {
        if (d->fd >= 0) close(d->fd);
        SHOAL_TRY(lock_it(w, d, &is_one));
    }
    if (model_map_open(d->name, out) == SHOAL_OK) {
        if (model_map_digest(*out, NULL, NULL, digest) == SHOAL_OK &&
            !memcmp(digest, file->digest, sizeof digest))
            return SHOAL_OK;
        model_map_release(*out);
        *out = NULL;
    }
    SHOAL_TRY(take_over(d));
    tidy(folder, d->path, MOST_KEPT);
    if (check_room(d, folder, file->name) == SHOAL_OK) return SHOAL_OK;
    tidy(folder, d->path, 0);
    return check_room(d, folder, file->name);
}

/* ---- ending ---- */

shoal_status worker_draft_end(worker_draft *d, const worker_file *file, const char *from,
                              model_map **out) {
    uint8_t digest[SHOAL_DIGEST];
    char hex[2 * SHOAL_DIGEST + 1];
    crypto_generichash_state hash = d->hash;
    crypto_generichash_final(&hash, digest, sizeof digest);
    worker_digest_text(file->digest, hex);
    if (memcmp(digest, file->digest, sizeof digest) != 0)
        return base_fail(SHOAL_DENIED,
                         "%s: what %s has sent is not the file with digest %s: it is not used",
                         file->name, from, hex);
    if (ftruncate(d->fd, (off_t)d->bytes) || fdatasync(d->fd))
        return base_fail_errno(errno, "writing %s", d->name);
    SHOAL_TRY(base_os_rename(d->path, d->name));
    return model_map_open(d->name, out);
}

/* The disk gets back what was set aside for parts that have not come. */
static void give_back(const worker_draft *d) {
    for (uint64_t i = 0; d->room && i < worker_draft_parts(d); i++)
        if (!d->sums[i]) base_os_file_release(d->fd, i * WIRE_CHUNK, worker_draft_size(d, i));
}

void worker_draft_fini(worker_draft *d, bool done) {
    if (d->fd >= 0) {
        if (!done && !d->there) unlink(d->path);
        if (!done && d->there) give_back(d);
        close(d->fd);
    }
    free(d->sums);
}
