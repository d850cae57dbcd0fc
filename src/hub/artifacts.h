/* Questions for artifacts, which the keeper answers: what hub.c and users.c need of artifacts.c.
 * Under the pump. */
#ifndef HUB_ARTIFACTS_H
#define HUB_ARTIFACTS_H

#include "base/vec.h"
#include "hub/hub.h"

struct hub_peer;
struct hub_user;

/* A question that the keeper has not answered. */
typedef struct hub_wanted {
    uint64_t token, asked; /* for the keeper; for who asked */
    uint32_t peer;
    struct hub_user *user;
    uint64_t held; /* what it counts */
} hub_wanted;

typedef struct hub_artifacts {
    bool given;               /* there may be a keeper: */
    uint8_t signer[WIRE_KEY]; /* who signs what it has */
    struct hub_peer *keeper;  /* NULL: there is none now */
    int64_t expected;         /* until then one may come */
    uint64_t last;            /* token */
    BASE_VEC(hub_wanted) wanted;
} hub_artifacts;

/* The messages are changed, and sent on. */
void hub_artifact_ask(hub *h, struct hub_peer *peer, Shoal__ArtifactAsk *ask);
/* A question that may not wait for its turn. */
shoal_status hub_artifact_refuse(struct hub_peer *peer, const void *body,
                                 size_t bytes) SHOAL_CHECK_RESULT;
/* Of the keeper: that it is one, or an answer. */
void hub_artifact_take(hub *h, struct hub_peer *peer, Shoal__Artifact *artifact);
/* A member has left: it was the keeper, or needs no answer. */
void hub_artifacts_leave(hub *h, const struct hub_peer *gone);

#endif
