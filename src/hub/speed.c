/* How fast devices and links are: assumed, then measured when a plan first depends on it. */
#include "hub/state.h"

#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Assumed until they are measured: a link of an ordinary machine. */
static const double LINK_BYTES = 3e9, LINK_DELAY = 100e-6;
/* What a byte takes of a core by way of an encrypted link, beside encrypting it: it is copied, and
 * goes through the system's network. */
static const double SEALED = 2;
/* Transfers that are long enough to tell, and how far plans may be off before they are made anew.
 */
enum { TELLING = 1 << 20 };
static const double OFF = 2;

/* Of one slot, those that it was not asked for yet. */
static void ask(hub_slot *slot, uint32_t what) {
    Shoal__Measure measure = SHOAL__MEASURE__INIT;
    uint32_t figures[BASE_FIGURES];
    if (!slot->compute) return;
    for (uint32_t f = 0; f < BASE_FIGURES; f++)
        if ((what & ~slot->asked) >> f & 1) figures[measure.n_what++] = f;
    if (!measure.n_what) return;
    slot->asked |= what;
    measure.what = figures;
    measure.slots = &slot->number;
    measure.n_slots = 1;
    if (wire_send(slot->peer->link, SHOAL__KIND__MEASURE, &measure.base) != SHOAL_OK)
        base_log(BASE_WARN, "hub", "%s: %s", slot->label, shoal_error_message());
}

void hub_measure(hub *h, uint32_t what) {
    for (size_t p = 0; p < h->peers.count; p++)
        for (uint32_t i = 0; i < h->peers.data[p]->n_slots; i++)
            ask(h->peers.data[p]->slots[i], what);
}

bool hub_figures_take(Shoal__Figure *const *figures, size_t n, base_speeds *to) {
    base_speeds taken = *to;
    for (size_t i = 0; i < n; i++) {
        const Shoal__Figure *figure = figures[i];
        if (figure->what >= BASE_FIGURES || !(figure->value > 0) || figure->value > HUB_MOST_SPEED)
            return false;
        taken.of[figure->what] = figure->value;
    }
    *to = taken;
    return true;
}

void hub_speed(hub *h, hub_peer *peer, const Shoal__Speed *speed) {
    hub_slot *slot = hub_slot_of(h, speed->slot);
    uint32_t told = 0;
    for (size_t i = 0; i < speed->n_figures; i++)
        told |= speed->figures[i]->what < BASE_FIGURES ? 1u << speed->figures[i]->what : 0;
    if (!slot || slot->peer != peer || !told || (told & (~slot->asked | slot->answered)) ||
        !hub_figures_take(speed->figures, speed->n_figures, &slot->speeds)) {
        hub_strange(peer, "a speed that it was not asked for");
        return;
    }
    slot->answered |= told;
    h->speeds++;
    for (uint32_t f = 0; f < BASE_FIGURES; f++)
        if (told >> f & 1)
            base_log(BASE_INFO, "hub", "%s: %s %.3g %s", slot->label, base_figure_name(f),
                     slot->speeds.of[f], base_figure_unit(f));
}

/* The link, made when there is none; NULL: no memory, which is not worth a failure. */
static hub_link *link_between(hub *h, const hub_peer *from, const hub_peer *to) {
    uint64_t key = plan_link_key(from->number, to->number);
    hub_link *link = base_map_get(&h->links, key);
    if (link) return link;
    link = calloc(1, sizeof *link);
    if (link && base_map_set(&h->links, key, link) == SHOAL_OK) {
        *link = (hub_link){.from = from->number,
                           .to = to->number,
                           .bytes = LINK_BYTES,
                           .planned = LINK_BYTES,
                           .sealed = !hub_on_one_machine(from, to)};
        return link;
    }
    free(link);
    return NULL;
}

void hub_learn_relay(hub *h, const hub_peer *from, const hub_peer *to) {
    hub_link *link = link_between(h, from, to);
    if (!link || link->relayed) return;
    link->relayed = true;
    bool workers = from->role == SHOAL__ROLE__WORKER && to->role == SHOAL__ROLE__WORKER;
    base_log(workers ? BASE_WARN : BASE_INFO, "hub",
             "%s reaches %s by way of the hub only, which is slower: open TCP ports between %s and "
             "%s, or give --listen an address that both reach",
             from->name, to->name, from->host, to->host);
}

void hub_count(hub *h, const hub_traffic *traffic) {
    hub_slot *from = hub_slot_of(h, traffic->from), *to = hub_slot_of(h, traffic->to);
    if (from) from->sent += traffic->bytes;
    if (to) to->received += traffic->bytes;
}

/* Whether more than one device computes. */
static bool has_choice(const hub *h) {
    uint32_t n = 0;
    for (size_t p = 0; p < h->peers.count; p++)
        for (uint32_t i = 0; i < h->peers.data[p]->n_slots; i++)
            n += h->peers.data[p]->slots[i]->compute;
    return n > 1;
}

/* What a program must take, nanoseconds, and how much of it products, for its time to tell. */
enum { TELLING_NS = 10000000 };
static const double TELLING_SHARE = 0.8;
/* A program counts for so much of what is known by then, and is no more than so far off it: a
 * machine may have slept meanwhile. */
static const double NEWS = 0.25, MOST_NEWS = 4;
/* A slot that is so much faster than measured was measured at a bad moment: plans are made with
 * what it shows. One that is slower is so for a while; plans stay, and with them the order in which
 * numbers are added up. */
static const double FASTER = 1.5;

void hub_learn_products(hub *h, hub_slot *slot, const plan_program *program, uint64_t ns) {
    base_figure f = program->figure;
    double used = slot->speeds.of[f], known = slot->learnt.of[f] > 0 ? slot->learnt.of[f] : used;
    if (ns < TELLING_NS || !(used > 0) || !(program->bound > 0) ||
        program->bound < TELLING_SHARE * program->seconds)
        return;
    double share = program->bound / program->seconds;
    double rate = program->products / ((double)ns * 1e-9 * share);
    rate = fmax(known / MOST_NEWS, fmin(rate, known * MOST_NEWS));
    known = fmin(known + NEWS * (rate - known), HUB_MOST_SPEED);
    slot->learnt.of[f] = known;
    if (known < used * FASTER) return;
    slot->speeds.of[f] = known;
    h->speeds += has_choice(h);
    base_log(BASE_INFO, "hub", "%s: %s %.3g %s, by what its programs took", slot->label,
             base_figure_name(f), known, base_figure_unit(f));
}

static double rate_of(const hub_traffic *t) {
    return t->timed_ns ? (double)t->timed / (double)t->timed_ns * 1e9 : 0;
}

/* What a peer had under way: from this time on at this rate in all, and bytes up to then. */
typedef struct flow {
    uint64_t side; /* twice the peer's number; and one: what it received */
    uint64_t at;
    double rate; /* by how much it changes there, until they are summed up */
    double bytes;
} flow;

static int by_side_and_time(const void *a, const void *b) {
    const flow *x = a, *y = b;
    if (x->side != y->side) return x->side < y->side ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static uint64_t side_of(const hub_peer *peer, bool receives) {
    return 2 * (uint64_t)peer->number + receives;
}

static double seconds(uint64_t from, uint64_t to) { return (double)(to - from) / BASE_SECOND; }

/* Those of a list of transfers, in order; each is one or more beginnings and ends. */
static size_t list_flows(const hub *h, const hub_traffic *list, size_t n, flow *out) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const hub_slot *from = hub_slot_of(h, list[i].from), *to = hub_slot_of(h, list[i].to);
        double rate = rate_of(&list[i]);
        if (!from || !to || from->peer == to->peer || !(rate > 0) || list[i].end <= list[i].begin)
            continue;
        for (int receives = 0; receives < 2; receives++) {
            uint64_t side = side_of(receives ? to->peer : from->peer, receives);
            out[count++] = (flow){.side = side, .at = list[i].begin, .rate = rate};
            out[count++] = (flow){.side = side, .at = list[i].end, .rate = -rate};
        }
    }
    if (count) qsort(out, count, sizeof *out, by_side_and_time);
    for (size_t i = 1; i < count; i++) {
        if (out[i].side != out[i - 1].side) continue;
        out[i].bytes = out[i - 1].bytes + out[i - 1].rate * seconds(out[i - 1].at, out[i].at);
        out[i].rate += out[i - 1].rate;
    }
    return count;
}

/* Bytes of a side up to a time. */
static double carried(const flow *flows, size_t n, uint64_t side, uint64_t at) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (flows[middle].side < side || (flows[middle].side == side && flows[middle].at <= at))
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || flows[low - 1].side != side) return 0;
    return flows[low - 1].bytes + flows[low - 1].rate * seconds(flows[low - 1].at, at);
}

/* What a link would have carried alone: a peer that sent to several at once, or received from
 * several, shared its cable between them. So it is what the peer sent meanwhile, or received. */
static double alone(const hub_peer *from, const hub_peer *to, const hub_traffic *t,
                    const flow *flows, size_t n) {
    double best = rate_of(t);
    for (int receives = 0; receives < 2 && t->end > t->begin; receives++) {
        uint64_t side = side_of(receives ? to : from, receives);
        double bytes = carried(flows, n, side, t->end) - carried(flows, n, side, t->begin);
        best = fmax(best, bytes / seconds(t->begin, t->end));
    }
    return fmin(best, HUB_MOST_SPEED);
}

/* Whether the link is no longer what plans were made with. */
static bool has_moved(hub_link *link) {
    if (link->bytes < link->planned * OFF && link->bytes * OFF > link->planned) return false;
    link->planned = link->bytes;
    return true;
}

bool hub_on_one_machine(const hub_peer *a, const hub_peer *b) {
    return a->user == b->user && !strcmp(a->host, b->host);
}

/* Two machines have one cable between them, whoever of them uses it: a link that has carried
 * nothing yet is taken to be as fast as another between the same two. */
static bool spread(hub *h, const hub_peer *from, const hub_peer *to, double bytes,
                   base_map *moved) {
    bool noted = true;
    if (hub_on_one_machine(from, to)) return true;
    for (size_t i = 0; i < h->peers.count; i++) {
        const hub_peer *a = h->peers.data[i];
        for (size_t j = 0; j < h->peers.count && hub_on_one_machine(a, from); j++) {
            const hub_peer *b = h->peers.data[j];
            hub_link *link = hub_on_one_machine(b, to) ? link_between(h, a, b) : NULL;
            if (!link || link->measured) continue;
            link->bytes = bytes;
            if (has_moved(link))
                noted &= base_map_set(moved, plan_link_key(a->number, b->number), link) == SHOAL_OK;
        }
    }
    return noted;
}

/* What the new one's links are taken to be: as those of another on its machine. */
static void take_over(hub *h, const hub_peer *from, const hub_peer *to, const hub_peer *a,
                      const hub_peer *b) {
    const hub_link *known = base_map_get(&h->links, plan_link_key(from->number, to->number));
    hub_link *link = known ? link_between(h, a, b) : NULL;
    if (link && !link->measured) link->bytes = link->planned = known->planned;
}

void hub_links_join(hub *h, const hub_peer *peer) {
    const hub_peer *like = NULL;
    for (size_t i = 0; i < h->peers.count && !like; i++)
        if (h->peers.data[i] != peer && hub_on_one_machine(h->peers.data[i], peer))
            like = h->peers.data[i];
    for (size_t i = 0; i < h->peers.count && like; i++) {
        const hub_peer *other = h->peers.data[i];
        if (hub_on_one_machine(other, peer)) continue;
        take_over(h, like, other, peer, other);
        take_over(h, other, like, other, peer);
    }
}

void hub_learn(hub *h, const hub_traffic *list, size_t n) {
    base_map moved; /* plan_link_key */
    base_map_init(&moved);
    flow *flows = n ? malloc(4 * n * sizeof *flows) : NULL;
    size_t n_flows = flows ? list_flows(h, list, n, flows) : 0;
    bool all = false;
    for (size_t i = 0; i < n && flows; i++) {
        const hub_slot *from = hub_slot_of(h, list[i].from), *to = hub_slot_of(h, list[i].to);
        if (!from || !to || from->peer == to->peer || list[i].timed < TELLING || !list[i].timed_ns)
            continue;
        hub_link *link = link_between(h, from->peer, to->peer);
        if (!link) continue;
        double bytes = alone(from->peer, to->peer, &list[i], flows, n_flows);
        link->bytes = link->measured ? (link->bytes + bytes) / 2 : bytes;
        link->measured = true;
        if (!has_moved(link)) continue;
        base_log(BASE_INFO, "hub", "%s to %s: %.3g MB/s", from->peer->name, to->peer->name,
                 link->bytes * 1e-6);
        all |= base_map_set(&moved, plan_link_key(from->peer->number, to->peer->number), link) !=
               SHOAL_OK;
        if (!link->relayed) all |= !spread(h, from->peer, to->peer, link->bytes, &moved);
    }
    if (moved.count || all) hub_variants_outdate(h, all ? NULL : &moved);
    base_map_fini(&moved);
    free(flows);
}

void hub_links_forget(hub *h, const hub_peer *peer) {
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->links, &at, &key, &item)) {
        hub_link *link = item;
        if (link->from != peer->number && link->to != peer->number) continue;
        base_map_remove(&h->links, key);
        free(link);
    }
}

void hub_links_fini(hub *h) {
    size_t at = 0;
    uint64_t key;
    void *link;
    while (base_map_next(&h->links, &at, &key, &link)) free(link);
    base_map_fini(&h->links);
}

/* Whether nobody has given weights, and all speeds are known, if they have to be. */
static bool follows_speeds(const hub *h, bool known) {
    for (size_t p = 0; p < h->peers.count; p++)
        for (uint32_t i = 0; i < h->peers.data[p]->n_slots; i++) {
            const hub_slot *slot = h->peers.data[p]->slots[i];
            if (slot->compute &&
                (slot->weight > 0 || (known && !(slot->speeds.of[BASE_PRODUCTS_F32] > 0))))
                return false;
        }
    return true;
}

double hub_weigh(const hub *h, const hub_slot *slot, base_figure products, bool *assumed) {
    *assumed = false;
    if (!slot->compute || !follows_speeds(h, false)) return hub_weight(h, slot);
    *assumed = !(slot->speeds.of[products] > 0);
    return base_speeds_assumed(&slot->speeds, slot->threads).of[products];
}

double hub_weight(const hub *h, const hub_slot *slot) {
    if (!slot->compute) return 0;
    if (!follows_speeds(h, true)) return slot->weight > 0 ? slot->weight : 1;
    return slot->speeds.of[BASE_PRODUCTS_F32] * 1e-9;
}

static shoal_status list_links(const hub *h, base_arena *arena, plan_pool *out) {
    plan_link *links = base_arena_array(arena, plan_link, h->links.count);
    if (!links) return SHOAL_NO_MEMORY;
    size_t at = 0;
    uint64_t key;
    void *item;
    while (base_map_next(&h->links, &at, &key, &item)) {
        const hub_link *link = item;
        links[out->n_links++] = (plan_link){.from = link->from,
                                            .to = link->to,
                                            .bytes = link->planned,
                                            .relayed = link->relayed,
                                            .sealed = link->sealed};
    }
    out->links = links;
    return SHOAL_OK;
}

shoal_status hub_pool(const hub *h, uint32_t session, base_arena *arena, plan_pool *out) {
    plan_slot *slots = base_arena_array(arena, plan_slot, h->slots.count);
    base_speeds *shown = base_arena_array(arena, base_speeds, h->slots.count);
    if (!slots || !shown) return SHOAL_NO_MEMORY;
    *out = (plan_pool){.slots = slots,
                       .shown = shown,
                       .by_speed = follows_speeds(h, true),
                       .link_bytes = LINK_BYTES,
                       .link_delay = LINK_DELAY,
                       .most = HUB_PLAN_LIMIT,
                       .panels = h->panels};
    const hub_slot **list = base_arena_array(arena, const hub_slot *, h->slots.count);
    if (!list) return SHOAL_NO_MEMORY;
    hub_slots_list(h, list);
    for (size_t i = 0; i < h->slots.count; i++) {
        const hub_slot *slot = list[i];
        if (!slot->compute && slot->peer->session != session) continue;
        shown[out->n_slots] = slot->learnt;
        slots[out->n_slots++] =
            (plan_slot){.slot = slot->number,
                        .peer = slot->peer->number,
                        .compute = slot->compute,
                        .weight = hub_weight(h, slot),
                        .speeds = base_speeds_assumed(&slot->speeds, slot->threads),
                        .memory = slot->near,
                        .name = slot->label,
                        .machine = slot->peer->machine,
                        .cores = slot->peer->cores,
                        .online = slot->peer->online,
                        .threads = slot->maps ? slot->threads : 0, /* else they are the device's */
                        .per_byte = slot->peer->sealing > 0 ? SEALED / slot->peer->sealing : 0};
    }
    return list_links(h, arena, out);
}
