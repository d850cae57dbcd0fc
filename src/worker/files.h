/* Files that a process knows by their digests: what files.c, find.c and fetch.c share with others.
 * Guarded as state.h says. */
#ifndef WORKER_FILES_H
#define WORKER_FILES_H

#include "model/map.h"
#include "shoal/shoal.h"
#include "worker/worker.h"

typedef struct worker_peer worker_peer;
typedef struct worker_source worker_source;
typedef struct worker_task worker_task;

typedef enum worker_file_state {
    FILE_ABSENT,  /* not found; looked for again when it is needed again */
    FILE_WANTED,  /* to be looked for by the thread that does so */
    FILE_LOOKED,  /* that thread is at it, on this machine, */
    FILE_FETCHED, /* or at other members */
    FILE_HERE
} worker_file_state;

/* A file that somebody has opened or needs, known by its digest. */
typedef struct worker_file {
    struct worker_file *next; /* of equal keys */
    uint8_t digest[SHOAL_DIGEST];
    uint64_t bytes;
    worker_file_state state;
    uint32_t waiting;     /* tasks that need it */
    bool foreign;         /* noted only because others have asked for it: */
    uint32_t asker, user; /* the member that did, and whose it is */
    uint64_t wanted;      /* a count: when it was wanted last */
    char *name;           /* for people */
    char *path;           /* HERE: where, */
    model_stamp stamp;
    model_map *map;         /* and mapped, while it was used lately */
    uint64_t used, checked; /* counts; the instance that has looked whether it has changed */
    shoal_status status;    /* ABSENT: why */
    char *error;
} worker_file;

/* A file on its way from another member: one at a time. */
typedef struct worker_fetch {
    const worker_file *file; /* NULL: none */
    uint32_t peer;
    uint64_t asked, come;    /* bytes */
    struct file_part *parts; /* that have come and are to be written, */
    struct file_part **last;
    shoal_status answer; /* OK, or why the member does not give it */
} worker_fetch;

/* files.c */
/* The file, mapped: waits until it is found or fetched, or the task is ended. Without the lock. */
shoal_status worker_file_get(worker_task *task, const worker_source *source, model_map **out);
/* The entry of a digest and a size, as nobody's word for the size of a file binds others; NULL when
 * there is none. Lock held. */
worker_file *worker_file_find(worker *w, const uint8_t *digest, uint64_t bytes);
/* Such an entry for another member, looked for once; NULL: too many are looked for. Lock held. */
worker_file *worker_file_asked(worker *w, const worker_peer *peer, const uint8_t *digest,
                               uint64_t bytes);
/* Starts the thread that does what others ask for; false with a message. Lock held. */
bool worker_asked_start(worker *w);
/* Maps what is HERE, or has been. Lock held. */
shoal_status worker_file_map(worker *w, worker_file *file, model_map **out);
/* Notes where it lies. Lock held. */
shoal_status worker_file_here(worker *w, worker_file *file, model_map *map);
/* Ends the threads; then frees what there is. */
void worker_files_end(worker *w);
void worker_files_fini(worker *w);

/* find.c: without the lock */
/* The folders where files are looked for, with colons; to be freed. given: NULL: the default. */
char *worker_models_of(const char *given);
/* Looks on this machine; *out NULL: it is not there. Stops when `stopped`. */
shoal_status worker_file_look(const char *models, const worker_file *file,
                              bool (*going)(void *context), void *context, model_map **out);
/* Writes a digest as text. */
void worker_digest_text(const uint8_t *digest, char out[2 * SHOAL_DIGEST + 1]);

/* fetch.c */
/* Answers a member's question, if there is one: on a thread that may wait for the disk. Lock held,
 * but not while it does. */
bool worker_asked_serve(worker *w);
void worker_asked_drop(worker *w);
/* Fetches a file from whoever has it, to the first of the folders. The thread that looks for files,
 * without the lock. */
shoal_status worker_file_fetch(worker *w, worker_file *file, model_map **out);
/* What has come, and is not written. */
void worker_fetch_drop(worker_fetch *f);
/* A member asks for a part of a file, or answers. Under the pump. */
shoal_status worker_file_message(worker *w, wire_link *link, Shoal__Kind kind, const void *body,
                                 size_t bytes);

#endif
