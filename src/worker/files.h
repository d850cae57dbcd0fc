/* Files that a process knows by their digests: what files.c, find.c and fetch.c share with others.
 * Guarded as state.h says. */
#ifndef WORKER_FILES_H
#define WORKER_FILES_H

#include "model/map.h"
#include "shoal/shoal.h"
#include "worker/worker.h"

#include <sodium.h>

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
    uint32_t from;        /* the member that has it, to be asked first; 0: it is not known */
    char *name;           /* for people */
    char *path;           /* HERE: where, */
    model_stamp stamp;
    model_map *map;         /* and mapped, while it was used lately */
    uint64_t used, checked; /* counts; the instance that has looked whether it has changed */
    shoal_status status;    /* ABSENT: why */
    char *error;
} worker_file;

enum { WORKER_PATH_ROOM = 4096, WORKER_FILE_PARTS = 16 };

/* A part of a file that was asked for. */
typedef struct worker_file_part {
    uint64_t transfer; /* by which it comes; 0: none was asked for */
    uint64_t offset;
    uint32_t bytes, have;
    uint32_t grains; /* a bit for each that has come */
    uint64_t sum;    /* as the other side says */
    uint8_t *data;
} worker_file_part;

/* A file on its way from another member: one at a time. */
typedef struct worker_fetch {
    const worker_file *file; /* NULL: none */
    uint32_t peer;
    worker_file_part parts[WORKER_FILE_PARTS];
    uint64_t come;       /* bytes */
    uint64_t there;      /* of the file, whoever has given them */
    uint32_t wrong;      /* parts that were changed on their way */
    shoal_status answer; /* OK, or why the member does not give it */
} worker_fetch;

/* A file under way, at its place but under another name. */
typedef struct worker_draft {
    char path[WORKER_PATH_ROOM], name[WORKER_PATH_ROOM];
    int fd;
    uint64_t bytes, there, front;  /* of the file; that there are; checked, without a gap */
    uint64_t *sums;                /* of each part; 0: it is missing */
    bool room;                     /* all of it has its place on the disk */
    crypto_generichash_state hash; /* of what is in front */
} worker_draft;

/* files.c */
/* The file, mapped: waits until it is found or fetched, or the task is ended. Without the lock. */
shoal_status worker_file_get(worker_task *task, const worker_source *source, model_map **out);
/* The path of a file that a member has: waits until it is fetched, for so long (base_now time).
 * name: for people. *out is freed with free(). Without the lock. */
shoal_status worker_file_bring(worker *w, const uint8_t *digest, uint64_t bytes, const char *name,
                               uint32_t from, int64_t until, char **out);
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

/* give.c */
/* Answers a member's question, if there is one: on a thread that may wait for the disk. Lock held,
 * but not while it does. */
bool worker_asked_serve(worker *w);
void worker_asked_drop(worker *w);
/* A member asks for a part of a file. Lock held. */
void worker_file_ask(worker *w, worker_peer *peer, wire_link *link, const Shoal__FileAsk *ask);

/* fetch.c */
/* Fetches a file from whoever has it, to the first of the folders. The thread that looks for files,
 * without the lock. */
shoal_status worker_file_fetch(worker *w, worker_file *file, model_map **out);
/* What has come, and is not written. */
void worker_fetch_drop(worker_fetch *f);
/* A member asks for a part of a file, or answers. Under the pump. */
shoal_status worker_file_message(worker *w, wire_link *link, Shoal__Kind kind, const void *body,
                                 size_t bytes);
/* Bytes of a part have come: transfer->instance is WIRE_FILE or more. Under the pump; lock held. */
void worker_file_data(worker *w, wire_link *link, const wire_transfer *transfer, uint64_t offset,
                      const void *bytes, size_t n);

/* draft.c: the thread that fetches, without the lock */
uint64_t worker_file_sum(const void *bytes, size_t n);
uint64_t worker_draft_parts(const worker_draft *d);
uint32_t worker_draft_size(const worker_draft *d, uint64_t part);
/* Waits for who fetches the same into the same folder; *out: what that has brought. To be ended by
 * worker_draft_fini, also when it fails. */
shoal_status worker_draft_open(const worker *w, const worker_file *file, worker_draft *d,
                               model_map **out);
/* Begins anew, with nothing. */
shoal_status worker_draft_clear(worker_draft *d);
shoal_status worker_draft_put(worker_draft *d, uint64_t part, const void *bytes);
/* Checks one more part of what is there; *went: false: the one after those in front is missing. */
shoal_status worker_draft_step(worker_draft *d, const char *who, bool *went);
/* All of it is in front: is it the file? DENIED: it is not. */
shoal_status worker_draft_end(worker_draft *d, const worker_file *file, const char *from,
                              model_map **out);
/* Keeps what is there for another time, unless it is done. */
void worker_draft_fini(worker_draft *d, bool done);
/* Drops drafts that were left, but for a few new ones. */
void worker_drafts_tidy(const char *models);

#endif
