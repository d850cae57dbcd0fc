/* What members tell of their paths. */
#ifndef HUB_NEWS_H
#define HUB_NEWS_H

#include "hub/state.h"

/* News of all members with the names of both ends of their paths, while they are told. */
typedef struct hub_news {
    Shoal__News *news, **pointers;
    Shoal__Path *paths, **path_pointers;
} hub_news;

/* Keeps what a member tells of itself, which comes onto everybody's screen; false: it makes no
 * sense, and is the caller's still. */
bool hub_news_take(hub_peer *peer, Shoal__News *news, size_t bytes);
/* Puts them into an answer, which they are part of until hub_news_fini. */
void hub_news_tell(const hub *h, Shoal__Status *status, hub_news *news);
void hub_news_fini(hub_news *news);

#endif
