/* What members tell of themselves, for people: their paths to others, and what they fetch. The last
 * word of each is kept, and means nothing to the hub. */
#include "hub/news.h"

#include <stdlib.h>

enum { MOST_NEWS = 64 << 10, MOST_PATHS = 256 };

static bool is_shown(const char *text) {
    for (; *text; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

bool hub_news_take(hub_peer *peer, Shoal__News *news, size_t bytes) {
    bool fits = bytes <= MOST_NEWS && news->n_paths <= MOST_PATHS && !*news->name &&
                news->fetched <= news->fetching;
    for (size_t i = 0; fits && i < news->n_paths; i++)
        fits = is_shown(news->paths[i]->address) && !*news->paths[i]->name &&
               news->paths[i]->speed >= 0 && news->paths[i]->speed <= 1e15;
    if (!fits) {
        hub_strange(peer, "news that make no sense");
        return false;
    }
    if (peer->news) wire_unpacked_free(&peer->news->base);
    peer->news = news;
    return true;
}

void hub_news_fini(hub_news *t) {
    free(t->news);
    free(t->pointers);
    free(t->paths);
    free(t->path_pointers);
}

static const char *name_of(const hub *h, uint32_t number) {
    const hub_peer *peer = number ? hub_peer_find(h, number) : NULL;
    return !number ? "hub" : peer ? peer->name : "";
}

void hub_news_tell(const hub *h, Shoal__Status *status, hub_news *t) {
    size_t n = 0, all = 0;
    for (size_t i = 0; i < h->peers.count; i++)
        if (h->peers.data[i]->news) all += h->peers.data[i]->news->n_paths;
    t->news = calloc(h->peers.count + 1, sizeof *t->news);
    t->pointers = calloc(h->peers.count + 1, sizeof *t->pointers);
    t->paths = calloc(all + 1, sizeof *t->paths);
    t->path_pointers = calloc(all + 1, sizeof *t->path_pointers);
    if (!t->news || !t->pointers || !t->paths || !t->path_pointers) return;
    all = 0;
    for (size_t i = 0; i < h->peers.count; i++) {
        const hub_peer *peer = h->peers.data[i];
        if (!peer->news) continue;
        Shoal__News *news = t->pointers[n] = &t->news[n];
        *news = *peer->news;
        news->name = peer->name;
        news->paths = &t->path_pointers[all];
        for (size_t k = 0; k < news->n_paths; k++, all++) {
            t->path_pointers[all] = &t->paths[all];
            t->paths[all] = *peer->news->paths[k];
            t->paths[all].name = (char *)name_of(h, t->paths[all].peer);
        }
        n++;
    }
    status->news = t->pointers;
    status->n_news = n;
}
