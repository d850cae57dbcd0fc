/* Artifacts of the pool, which backends ask for: what worker.c needs of artifact.c. */
#ifndef WORKER_ARTIFACT_H
#define WORKER_ARTIFACT_H

#include "backend/pool.h"
#include "worker/worker.h"

/* Guarded by the worker's lock, but for `pool`. */
typedef struct worker_artifacts {
    backend_pool pool;         /* whom backends ask while they compile: this worker */
    bool there;                /* the hub has artifacts, */
    uint8_t signer[WIRE_KEY];  /* signed by this key; */
    bool trusted;              /* and they are taken, whoever runs it */
    struct worker_want *wants; /* questions that wait for their answers */
    uint64_t last;             /* token */
} worker_artifacts;

void worker_artifacts_begin(worker *w, bool trusted);
/* What the hub says of artifacts; lock held. */
void worker_artifacts_joined(worker *w, const Shoal__Welcome *welcome);
/* An answer of the hub, which is the callee's. */
void worker_artifact_given(worker *w, Shoal__Artifact *artifact);

#endif
