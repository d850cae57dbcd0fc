/* The files that this process knows by their digests, and the threads that look for those that are
 * needed: one on this machine, then at other members, for what is needed here, and one on this
 * machine for what others ask for. Who needs one waits until it is there, or until the task is
 * over. */
#include "worker/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 65536, MOST_FOREIGN = 64, MOST_MAPPED = 64 };

/* ---- the table ---- */

static uint64_t key_of(const uint8_t *digest) { return base_hash(digest, SHOAL_DIGEST) | 1; }

worker_file *worker_file_find(worker *w, const uint8_t *digest, uint64_t bytes) {
    worker_file *file = base_map_get(&w->files, key_of(digest));
    while (file && (file->bytes != bytes || memcmp(file->digest, digest, sizeof file->digest)))
        file = file->next;
    return file;
}

/* The one after `file`, in no particular order; NULL: the first, and after the last. *at: 0. */
static worker_file *next(const worker *w, size_t *at, const worker_file *file) {
    uint64_t key;
    void *value;
    if (file && file->next) return file->next;
    return base_map_next(&w->files, at, &key, &value) ? value : NULL;
}

static void unmap(worker *w, worker_file *file) {
    if (file->map) w->n_mapped--;
    model_map_release(file->map);
    file->map = NULL;
}

/* Address space and descriptors are for those in use: the one that was not used for longest goes.
 */
static void unmap_oldest(worker *w) {
    size_t at = 0;
    worker_file *oldest = NULL;
    for (worker_file *file = NULL; (file = next(w, &at, file));)
        if (file->map && (!oldest || file->used < oldest->used)) oldest = file;
    if (oldest) unmap(w, oldest);
}

static void file_free(worker *w, worker_file *file) {
    unmap(w, file);
    free(file->name);
    free(file->path);
    free(file->error);
    free(file);
}

/* It is needed, or here. */
static void adopt(worker *w, worker_file *file) {
    if (file->foreign) w->n_foreign--;
    file->foreign = false;
}

static void forget(worker *w, worker_file *file) {
    uint64_t key = key_of(file->digest);
    worker_file *first = base_map_get(&w->files, key);
    adopt(w, file);
    w->n_files--;
    if (first == file && !file->next) {
        base_map_remove(&w->files, key);
    } else if (first == file) {
        /* The key is there: this takes no memory. */
        if (base_map_set(&w->files, key, file->next) != SHOAL_OK) return;
    } else {
        while (first->next != file) first = first->next;
        first->next = file->next;
    }
    file_free(w, file);
}

/* One that is not here, and that nobody waits for; foreign: of those that others have asked for. */
static worker_file *find_absent(worker *w, bool foreign) {
    size_t at = 0;
    worker_file *file = NULL;
    while ((file = next(w, &at, file)))
        if (file->state == FILE_ABSENT && !file->waiting && (file->foreign || !foreign)) break;
    return file;
}

static worker_file *add(worker *w, const uint8_t *digest, uint64_t bytes, const char *name) {
    worker_file *old = w->n_files < MOST_FILES ? NULL : find_absent(w, false);
    if (old) forget(w, old);
    worker_file *file = w->n_files < MOST_FILES ? calloc(1, sizeof *file) : NULL;
    if (!file) {
        base_fail(SHOAL_NO_MEMORY, "no room to note %s: %u files are known", name, w->n_files);
        return NULL;
    }
    memcpy(file->digest, digest, sizeof file->digest);
    file->bytes = bytes;
    file->name = strdup(name);
    file->next = base_map_get(&w->files, key_of(digest));
    if (file->name && base_map_set(&w->files, key_of(digest), file) == SHOAL_OK) {
        w->n_files++;
        return file;
    }
    free(file->name);
    free(file);
    return NULL;
}

shoal_status worker_file_here(worker *w, worker_file *file, model_map *map) {
    char *path = strdup(map->path);
    if (!path) return base_fail(SHOAL_NO_MEMORY, "no memory to note %s", file->name);
    adopt(w, file);
    free(file->path);
    file->path = path;
    file->stamp = map->stamp;
    file->state = FILE_HERE;
    file->checked = 0;
    if (file->map != map) unmap(w, file);
    return SHOAL_OK;
}

shoal_status worker_file_map(worker *w, worker_file *file, model_map **out) {
    if (!file->map) {
        SHOAL_TRY(model_map_again(file->path, &file->stamp, &file->map));
        if (++w->n_mapped > MOST_MAPPED) unmap_oldest(w);
        if (!file->map) /* the oldest was this one: it had never been used */
            return model_map_again(file->path, &file->stamp, out);
    }
    file->used = ++w->files_used;
    *out = model_map_retain(file->map);
    return SHOAL_OK;
}

shoal_status worker_offer_file(worker *w, const uint8_t *digest, const model_map *map) {
    const char *slash = strrchr(map->path, '/');
    pthread_mutex_lock(&w->lock);
    worker_file *file = worker_file_find(w, digest, map->bytes);
    if (!file) file = add(w, digest, map->bytes, slash ? slash + 1 : map->path);
    shoal_status status = file ? SHOAL_OK : SHOAL_NO_MEMORY;
    /* While it is looked for, the thread that does so says where it is. */
    if (file && (file->state == FILE_ABSENT || file->state == FILE_HERE))
        status = worker_file_here(w, file, (model_map *)map);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* ---- the thread ---- */

static bool going(void *w) { return !atomic_load(&((const worker *)w)->stopping); }

/* Reading a file to see what it is takes long: questions are answered in between. */
static bool going_between(void *context) {
    worker *w = context;
    pthread_mutex_lock(&w->lock);
    while (!w->stopping && worker_asked_serve(w)) continue;
    pthread_mutex_unlock(&w->lock);
    return going(w);
}

/* What has been wanted for longest. */
static worker_file *next_wanted(worker *w, bool foreign) {
    size_t at = 0;
    worker_file *wanted = NULL;
    for (worker_file *file = NULL; (file = next(w, &at, file));)
        if (file->state == FILE_WANTED && file->foreign == foreign &&
            (!wanted || file->wanted < wanted->wanted))
            wanted = file;
    return wanted;
}

/* For the message of this thread. */
static void note_absent(worker_file *file, shoal_status status) {
    file->state = FILE_ABSENT;
    file->status = status;
    free(file->error);
    file->error = strdup(shoal_error_message());
}

static void want_now(worker *w, worker_file *file) {
    file->state = FILE_WANTED;
    file->wanted = ++w->files_wanted;
    pthread_cond_broadcast(&w->changed);
}

/* Lock held, but not while it looks. */
static void seek(worker *w, worker_file *file, bool foreign) {
    model_map *map = NULL;
    file->state = FILE_LOOKED;
    pthread_mutex_unlock(&w->lock);
    shoal_status status =
        worker_file_look(w->models, file, foreign ? going_between : going, w, &map);
    pthread_mutex_lock(&w->lock);
    bool fetches = status == SHOAL_OK && !map && file->waiting && !w->stopping;
    if (fetches && foreign) { /* it has come to be needed here: that is the other thread's */
        want_now(w, file);
        return;
    }
    if (fetches) {
        file->state = FILE_FETCHED;
        pthread_mutex_unlock(&w->lock);
        status = worker_file_fetch(w, file, &map);
        pthread_mutex_lock(&w->lock);
    } else if (status == SHOAL_OK && !map) {
        status = base_fail(SHOAL_NOT_FOUND, "%s is not on this machine", file->name);
    }
    if (map) status = worker_file_here(w, file, map);
    model_map_release(map);
    if (status != SHOAL_OK) note_absent(file, status);
    pthread_cond_broadcast(&w->changed);
}

static void seek_all(worker *w, bool foreign) {
    base_os_thread_name(foreign ? "shoal-asked" : "shoal-files");
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        if (foreign && worker_asked_serve(w)) continue;
        worker_file *file = next_wanted(w, foreign);
        if (file)
            seek(w, file, foreign);
        else
            pthread_cond_wait(&w->changed, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

static void *seek_own(void *w) {
    worker_drafts_tidy(((const worker *)w)->models);
    seek_all(w, false);
    return NULL;
}

static void *seek_foreign(void *w) {
    seek_all(w, true);
    return NULL;
}

/* The thread, unless it is there. */
static bool start(worker *w, bool foreign) {
    if (w->seeks[foreign]) return true;
    int error = pthread_create(&w->seekers[foreign], NULL, foreign ? seek_foreign : seek_own, w);
    if (error)
        base_fail_errno(error, "starting to look for files");
    else
        w->seeks[foreign] = true;
    return w->seeks[foreign];
}

static worker_file *look_for(worker *w, worker_file *file) {
    if (!file || file->state != FILE_ABSENT) return file;
    if (!start(w, file->foreign)) return NULL;
    want_now(w, file);
    return file;
}

bool worker_asked_start(worker *w) { return start(w, true); }

/* Who needs it is told of it by the name that they gave: others have given theirs, or none. While
 * it is fetched, that thread reads the name. */
static shoal_status name_it(worker_file *file, const char *name) {
    if (file->state == FILE_FETCHED || !strcmp(file->name, name)) return SHOAL_OK;
    char *copy = strdup(name);
    if (!copy) return base_fail(SHOAL_NO_MEMORY, "no memory to note %s", name);
    free(file->name);
    file->name = copy;
    return SHOAL_OK;
}

static worker_file *want(worker *w, const uint8_t *digest, uint64_t bytes, const char *name) {
    worker_file *file = worker_file_find(w, digest, bytes);
    if (!file) file = add(w, digest, bytes, name);
    if (!file || name_it(file, name) != SHOAL_OK || !start(w, false)) return NULL;
    if (file->foreign) pthread_cond_broadcast(&w->changed); /* it is another thread's now */
    adopt(w, file);
    return look_for(w, file);
}

/* Whether one more may be looked for on behalf of a peer's user: at most half of what is left. */
static bool may_ask(worker *w, const worker_peer *peer) {
    size_t at = 0;
    uint32_t all = 1, own = 1;
    for (worker_file *file = NULL; (file = next(w, &at, file));) {
        if (!file->foreign || file->state == FILE_ABSENT) continue;
        all++;
        own += file->asker == peer->number || (peer->user && file->user == peer->user);
    }
    return all <= MOST_FOREIGN && own <= (MOST_FOREIGN - all) / 2;
}

worker_file *worker_file_asked(worker *w, const worker_peer *peer, const uint8_t *digest,
                               uint64_t bytes) {
    worker_file *file = worker_file_find(w, digest, bytes);
    if (file) return file; /* what was not found is not looked for again for others */
    if (!may_ask(w, peer)) return NULL;
    if (w->n_foreign >= MOST_FOREIGN) {
        worker_file *old = find_absent(w, true);
        if (!old) return NULL;
        forget(w, old);
    }
    file = add(w, digest, bytes, "a file");
    if (!file) return NULL;
    file->foreign = true;
    file->asker = peer->number;
    file->user = peer->user;
    w->n_foreign++;
    return look_for(w, file);
}

void worker_files_end(worker *w) {
    for (int i = 0; i < 2; i++) {
        if (w->seeks[i]) pthread_join(w->seekers[i], NULL);
        w->seeks[i] = false;
    }
}

void worker_files_fini(worker *w) {
    size_t at = 0;
    uint64_t key;
    void *value;
    while (base_map_next(&w->files, &at, &key, &value))
        for (worker_file *file = value, *next; file; file = next) {
            next = file->next;
            file_free(w, file);
        }
    base_map_fini(&w->files);
    worker_asked_drop(w);
    free(w->models);
}

/* ---- for programs ---- */

/* Waits until a file is here, or is not to be had. task: for which it is needed, until its end;
 * NULL: none, and it is waited for until then. Lock held. */
static shoal_status await(worker *w, worker_file *file, const worker_task *task, int64_t until) {
    struct timespec end = base_timespec(until);
    bool late = false;
    file->waiting++;
    while (file->state != FILE_HERE && file->state != FILE_ABSENT && !late && !w->stopping &&
           (!task || task->status == SHOAL_OK)) {
        if (task)
            pthread_cond_wait(&w->changed, &w->lock);
        else
            late = pthread_cond_timedwait(&w->changed, &w->lock, &end) == ETIMEDOUT;
    }
    file->waiting--;
    if (task && task->status != SHOAL_OK) return base_fail(task->status, "%s", task->error);
    if (w->stopping) return base_fail(SHOAL_CLOSED, "the worker is ending");
    if (file->state == FILE_ABSENT) return base_fail(file->status, "%s", file->error);
    if (file->state != FILE_HERE)
        return base_fail(SHOAL_TIMEOUT, "%s has not come in time", file->name);
    return SHOAL_OK;
}

/* Lock held. */
static shoal_status get_once(worker_task *task, const worker_source *source, model_map **out) {
    worker *w = task->slot->worker;
    worker_file *file = worker_file_find(w, source->file, source->at.file_bytes);
    if (!file || file->state != FILE_HERE) {
        file = want(w, source->file, source->at.file_bytes, source->at.name);
        if (!file) return SHOAL_NO_MEMORY;
        SHOAL_TRY(await(w, file, task, 0));
    }
    shoal_status status = worker_file_map(w, file, out);
    if (status == SHOAL_OK && file->checked != task->instance->id) {
        status = model_map_check(*out);
        if (status != SHOAL_OK) model_map_release(*out);
        file->checked = task->instance->id;
    }
    /* Who has waited for this one, too, is told the same. */
    if (status != SHOAL_OK) {
        note_absent(file, status);
        unmap(w, file);
    }
    return status;
}

/* One that was written to since it was found may still be the same, or be somewhere else as well:
 * it is looked for once more. Lock held. */
static shoal_status get(worker_task *task, const worker_source *source, model_map **out) {
    const worker_file *known =
        worker_file_find(task->slot->worker, source->file, source->at.file_bytes);
    bool was_here = known && known->state == FILE_HERE;
    shoal_status status = get_once(task, source, out);
    if (status == SHOAL_OK || !was_here || task->status != SHOAL_OK) return status;
    char *why = strdup(shoal_error_message());
    if (get_once(task, source, out) == SHOAL_OK)
        status = SHOAL_OK;
    else if (why)
        base_fail(status, "%s", why);
    free(why);
    return status;
}

shoal_status worker_file_get(worker_task *task, const worker_source *source, model_map **out) {
    worker *w = task->slot->worker;
    pthread_mutex_lock(&w->lock);
    shoal_status status = get(task, source, out);
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* Lock held. */
static shoal_status bring(worker *w, worker_file *file, int64_t until, char **out) {
    model_map *map;
    SHOAL_TRY(await(w, file, NULL, until));
    shoal_status status = worker_file_map(w, file, &map);
    if (status != SHOAL_OK) {
        note_absent(file, status);
        return status;
    }
    model_map_release(map);
    *out = strdup(file->path);
    return *out ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for a path");
}

shoal_status worker_file_bring(worker *w, const uint8_t *digest, uint64_t bytes, const char *name,
                               uint32_t from, int64_t until, char **out) {
    shoal_status status = SHOAL_NO_MEMORY;
    pthread_mutex_lock(&w->lock);
    worker_file *file = worker_file_find(w, digest, bytes);
    if (!file) file = add(w, digest, bytes, name);
    /* While it is looked for, that thread reads it. */
    if (file && file->state == FILE_ABSENT) file->from = from;
    if (file) file = want(w, digest, bytes, name);
    if (file) status = bring(w, file, until, out);
    pthread_mutex_unlock(&w->lock);
    return status;
}
