/* Where the paths of a link lead: the side that connected tries the addresses of the other, one
 * connection to each, again and again; the other side lets in who proves to be the one that has the
 * link. */
#include "wire/paths.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_WAIT BASE_SECOND
#define LONGEST_WAIT (30 * BASE_SECOND)
/* A path that ends sooner is as good as none: it would be lost again and again, each time with what
 * is on its way. */
#define LASTING (5 * BASE_SECOND)

static void timer_ready(wire_watch *watch) {}
static void timer_expired(wire_watch *watch) { wire_routes_look(watch->context); }

/* The first of the paths of a link is its own connection. */
static wire_paths *begin(wire_framed *own, uint64_t id) {
    wire_paths *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    *p = (wire_paths){.lead = &own->base,
                      .id = id,
                      .incarnation = own->hello->incarnation,
                      .accepting = own->accepting,
                      .open = {own},
                      .n_open = 1};
    p->timer = (wire_watch){.fd = -1, .ready = timer_ready, .expired = timer_expired, .context = p};
    own->path.ready = true;
    if (wire_watch_add(own->base.peer, &p->timer) == SHOAL_OK) {
        own->base.paths = p;
        return p;
    }
    free(p);
    return NULL;
}

/* ---- the accepting side ---- */

uint64_t wire_routes_offer(wire_framed *own) {
    const wire_peer *peer = own->base.peer;
    size_t n = 0;
    uint64_t id = 0;
    for (size_t i = 0; i < peer->listeners.count; i++)
        n += !strncmp(peer->listeners.data[i].address, "tcp://", 6);
    if (!own->carrier->join || n < 2 || base_os_random(&id, sizeof id) != SHOAL_OK) return 0;
    return begin(own, id) ? id : 0;
}

static wire_link *find(const wire_peer *peer, uint64_t id) {
    for (size_t i = 0; i < peer->links.count; i++) {
        wire_link *link = peer->links.data[i];
        const wire_paths *p = link->paths;
        if (p && p->accepting && p->id == id && link->state == WIRE_OPEN && !link->closing)
            return link;
    }
    return NULL;
}

static bool is_used(const wire_paths *p, uint32_t number) {
    bool used = !number;
    for (uint32_t i = 0; i < p->n_open; i++) used |= p->open[i]->path.number == number;
    for (uint32_t i = 0; i < p->n_lost; i++) used |= p->lost[i].number == number;
    return used;
}

shoal_status wire_routes_check(wire_link *link, const Shoal__Hello *hello, bool accepting) {
    wire_link *lead = accepting ? find(link->peer, hello->joins) : link->lead;
    const wire_paths *p = lead ? lead->paths : NULL;
    if (!p || lead->state != WIRE_OPEN)
        return base_fail(SHOAL_LOST, "there is no such link, or not any more");
    if (link->transport != lead->transport || !wire_link_same_holder(link, lead) ||
        hello->incarnation != p->incarnation)
        return base_fail(SHOAL_DENIED, "%s is not the other end of that link", hello->name);
    wire_framed *own = (wire_framed *)link; /* as those of the link are */
    uint32_t number = accepting ? hello->path : own->path.number;
    if (p->n_open == WIRE_MAX_PATHS || is_used(p, number))
        return base_fail(SHOAL_BUSY, "the link has %u paths, or had this one, number %u", p->n_open,
                         number);
    link->lead = lead;
    own->path.number = number;
    link->proof.number = lead->proof.number;
    return SHOAL_OK;
}

/* ---- the connecting side ---- */

/* Names are looked up by the thread that carries all connections, which have to wait for that:
 * where a network has just failed, longer than the others are patient. So none is tried again and
 * again. */
static bool in_numbers(const char *address) {
    return !strncmp(address, "tcp://", 6) && base_os_socket_numbers(address + 6);
}

/* Whether an address that somebody gives of itself may lead there from here. */
static bool is_of_use(const char *address, const char *reached) {
    static const char *const any[] = {"tcp://0.0.0.0:", "tcp://[::]:"};
    if (!in_numbers(address) || strlen(address) >= WIRE_MAX_ADDRESS) return false;
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        if (!strncmp(address, any[i], strlen(any[i]))) return false;
    return !wire_on_loopback(address) || wire_on_loopback(reached);
}

static void add(wire_route *routes, uint32_t *n, const char *address, wire_link *link) {
    for (uint32_t i = 0; i < *n; i++)
        if (!strcmp(routes[i].address, address)) return;
    if (*n == WIRE_MAX_PATHS) return;
    wire_route *route = &routes[(*n)++];
    int64_t now = base_now();
    *route = (wire_route){.link = link, .since = now, .at = now, .wait = FIRST_WAIT};
    snprintf(route->address, sizeof route->address, "%s", address);
}

void wire_routes_find(wire_framed *own, uint64_t id) {
    wire_route routes[WIRE_MAX_PATHS];
    char reached[WIRE_MAX_ADDRESS];
    uint32_t n = 0;
    if (!own->carrier->join || strncmp(own->address, "tcp://", 6) != 0) return;
    if (!own->carrier->reached(own, reached, sizeof reached))
        snprintf(reached, sizeof reached, "%s", own->address);
    const char *first = in_numbers(own->address) ? own->address : reached;
    if (!is_of_use(first, first)) return;
    add(routes, &n, first, &own->base);
    for (size_t i = 0; i < own->hello->n_addresses; i++) {
        const char *address = own->hello->addresses[i];
        if (is_of_use(address, first) && strcmp(address, reached) != 0)
            add(routes, &n, address, NULL);
    }
    wire_paths *p = n > 1 ? begin(own, id) : NULL;
    if (!p) return;
    memcpy(p->routes, routes, n * sizeof *routes);
    p->n_routes = n;
    wire_routes_look(p);
}

static void try_later(wire_paths *p, wire_route *route) {
    route->link = NULL;
    route->at = base_now() + route->wait;
    route->wait = 2 * route->wait < LONGEST_WAIT ? 2 * route->wait : LONGEST_WAIT;
    if (!p->timer.deadline || route->at < p->timer.deadline) p->timer.deadline = route->at;
}

static void dial(wire_paths *p, wire_route *route) {
    route->since = base_now();
    wire_framed *made = p->open[0]->carrier->join(p->open[0], route->address, p->numbers + 1);
    p->numbers++;
    route->link = made ? &made->base : NULL;
    if (made) return;
    base_log(BASE_DEBUG, p->lead->name, "%s: %s", route->address, shoal_error_message());
    try_later(p, route);
}

void wire_routes_look(wire_paths *p) {
    int64_t now = base_now();
    if (p->lead->state != WIRE_OPEN) return;
    int64_t next = wire_paths_overdue(p);
    if (p->lead->state != WIRE_OPEN) return;
    for (uint32_t i = 0; i < p->n_routes && !p->lead->closing; i++) {
        wire_route *route = &p->routes[i];
        if (!route->link && route->at <= now) dial(p, route);
        if (!route->link && (!next || route->at < next)) next = route->at;
    }
    p->timer.deadline = next;
}

static wire_route *route_of(wire_paths *p, const wire_link *link) {
    for (uint32_t i = 0; i < p->n_routes; i++)
        if (p->routes[i].link == link) return &p->routes[i];
    return NULL;
}

void wire_routes_missed(const wire_link *link) {
    wire_paths *p = link->lead ? link->lead->paths : NULL;
    wire_route *route = p ? route_of(p, link) : NULL;
    if (route) try_later(p, route);
}

void wire_routes_ended(wire_paths *p, const wire_link *link) {
    wire_route *route = route_of(p, link);
    if (!route) return;
    if (base_now() - route->since >= LASTING) route->wait = FIRST_WAIT;
    try_later(p, route);
}
