/* The hub on the wire: messages become events, hub_apply changes the state, and what it leaves to
 * be told is sent. */
#include "hub/news.h"
#include "hub/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/os.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* Tells peers which local parts can go: all those of an event in one message at its end. */
static void send_frees(hub *h) {
    for (size_t i = 0; i < h->peers.count; i++) {
        hub_peer *peer = h->peers.data[i];
        if (!peer->free_values.count && !peer->free_programs.count) continue;
        Shoal__Release release = SHOAL__RELEASE__INIT;
        release.values = peer->free_values.data;
        release.n_values = peer->free_values.count;
        release.programs = peer->free_programs.data;
        release.n_programs = peer->free_programs.count;
        hub_send(peer, SHOAL__KIND__FREE, &release.base);
        peer->free_values.count = peer->free_programs.count = 0;
    }
    h->freed = 0;
}

/* What is handed out next may want the memory. For less it would not be worth a message of its own,
 * which wakes the members once more. */
static void send_large_frees(hub *h) {
    if (h->freed >= HUB_MUCH_FREED) send_frees(h);
}

/* Everyone hears of newcomers: soon, and before anything that a newcomer asks for is handed out. */
static void tell_of_newcomers(void *context) {
    hub *h = context;
    if (h->newcomers) hub_peers_tell(h, NULL);
}

shoal_status hub_apply(hub *h, const hub_event *event) {
    shoal_status status = SHOAL_OK;
    switch (event->kind) {
    case HUB_JOIN: status = hub_join(h, event->peer); break;
    case HUB_LEAVE: hub_leave(h, event->peer, event->u.leave.why, event->u.leave.reason); break;
    case HUB_SUBMIT:
        status = hub_submit(h, event->peer, event->u.submit);
        send_large_frees(h);
        if (status == SHOAL_OK) hub_dispatch(h);
        break;
    case HUB_RELEASE:
        hub_release(h, event->peer, event->u.release);
        send_large_frees(h);
        hub_dispatch(h); /* what was freed may be what the next one waits for */
        break;
    case HUB_DONE: hub_done(h, event->peer, event->u.done); break;
    case HUB_SPEED: hub_speed(h, event->peer, event->u.speed); break;
    case HUB_FAILED: hub_failed(h, event->peer, event->u.failed); break;
    case HUB_DEVICE_LOST: hub_device_lost(h, event->peer, event->u.device_lost); break;
    case HUB_WAITS: hub_waits(h, event->peer, event->u.waits); break;
    case HUB_TICK:
        tell_of_newcomers(h);
        hub_doubts_judge(h);
        hub_variants_prune(h);
        hub_dispatch(h); /* who has waited for memory long enough goes first, or is told */
        for (size_t i = 0; i < h->peers.count; i++) hub_outcomes_send(h->peers.data[i]);
        break;
    }
    send_frees(h);
    return status;
}

/* ---- questions: they change nothing ---- */

/* Those that are somewhere, and that a session has numbered: copies that the hub has made come and
 * go when it sees fit. */
static uint64_t count_values(const hub *h) {
    uint64_t n = 0, key;
    size_t at = 0;
    void *item;
    while (base_map_next(&h->values, &at, &key, &item)) {
        const hub_value *value = item;
        n += !value->absent && key >> 40 == value->session;
    }
    return n;
}

static void answer_status(hub *h, hub_peer *peer, const Shoal__StatusAsk *ask) {
    Shoal__Status status = SHOAL__STATUS__INIT;
    Shoal__SlotStatus *slots = calloc(h->slots.count + 1, sizeof *slots);
    Shoal__SlotStatus **pointers = calloc(h->slots.count + 1, sizeof *pointers);
    Shoal__Device *devices = calloc(h->slots.count + 1, sizeof *devices);
    const hub_slot **list = calloc(h->slots.count + 1, sizeof *list);
    base_figure products = (base_figure)(ask->products - 1);
    bool weighed = ask->products && ask->products <= BASE_FIGURES, assumed;
    if (weighed) hub_measure(h, 1u << products);
    if (slots && pointers && devices && list) {
        hub_slots_list(h, list);
        for (size_t n = 0; n < h->slots.count; n++) {
            const hub_slot *slot = list[n];
            status.n_slots++;
            shoal__slot_status__init(&slots[n]);
            shoal__device__init(&devices[n]);
            pointers[n] = &slots[n];
            slots[n].slot = slot->number;
            slots[n].peer = slot->peer->number;
            slots[n].peer_name = slot->peer->name;
            slots[n].host = slot->peer->host;
            slots[n].pid = slot->peer->pid;
            slots[n].maps = slot->maps && hub_on_one_machine(peer, slot->peer);
            slots[n].machine = slot->peer->memory;
            slots[n].weighted = slot->weight > 0;
            slots[n].device = &devices[n];
            /* Copies that a client keeps lie in its own memory, and are no part of a layout. */
            slots[n].bytes = slot->used + (slot->compute ? 0 : slot->peer->kept);
            slots[n].instances = slot->instances;
            slots[n].busy_ns = slot->busy_ns;
            slots[n].nodes = slot->nodes;
            slots[n].compute = slot->compute;
            slots[n].sent = slot->sent;
            slots[n].received = slot->received;
            slots[n].queued = slot->in_flight;
            slots[n].relayed = slot->peer->relayed;
            if (slot->peer->news) {
                slots[n].fetching = slot->peer->news->fetching;
                slots[n].fetched = slot->peer->news->fetched;
            }
            if (slot->peer->link) {
                wire_path_count paths = wire_link_paths(slot->peer->link);
                slots[n].paths = paths.open;
                slots[n].paths_lost = paths.lost;
            }
            devices[n].backend = slot->backend;
            devices[n].id = slot->id;
            devices[n].name = slot->device;
            devices[n].near = slot->near;
            devices[n].memory = slot->memory;
            devices[n].threads = slot->threads;
            devices[n].weight = hub_weight(h, slot);
            if (weighed) slots[n].share = hub_weigh(h, slot, products, &assumed);
            slots[n].assumed = weighed && assumed;
            status.bytes += slots[n].bytes;
        }
        status.slots = pointers;
    }
    status.token = ask->token;
    status.version = (char *)SHOAL_PACKAGE_VERSION;
    status.epoch = h->epoch;
    status.instances = h->next_instance - 1;
    status.pool = h->pool;
    status.uptime_ms = (uint64_t)((base_now() - h->started) / BASE_MS);
    status.unix_ms = (uint64_t)(base_time() / BASE_MS);
    status.sessions = (uint32_t)h->sessions.count;
    status.address = (char *)wire_address(h->wire);
    status.values = count_values(h);
    status.losses = h->losses;
    status.reruns = h->reruns;
    hub_news news = {0};
    if (ask->paths) hub_news_tell(h, &status, &news);
    hub_send(peer, SHOAL__KIND__STATUS, &status.base);
    hub_news_fini(&news);
    free(slots);
    free(pointers);
    free(list);
    free(devices);
}

static void answer_explain(hub *h, hub_peer *peer, const Shoal__ExplainAsk *ask) {
    Shoal__Explained answer = SHOAL__EXPLAINED__INIT;
    Shoal__Error error = SHOAL__ERROR__INIT;
    char *text = NULL, *json = NULL;
    shoal_status status = ask->submit ? hub_explain(h, peer, ask->submit, &text, &json)
                                      : base_fail(SHOAL_FORMAT, "nothing to explain");
    answer.token = ask->token;
    if (status != SHOAL_OK) {
        error.status = status;
        error.message = (char *)shoal_error_message();
        answer.error = &error;
    }
    if (text) answer.text = text;
    if (json) answer.json = json;
    hub_send(peer, SHOAL__KIND__EXPLAINED, &answer.base);
    free(text);
    free(json);
}

/* ---- the wire ---- */

static const struct {
    Shoal__Kind kind;
    const ProtobufCMessageDescriptor *type;
} kinds[] = {
    {SHOAL__KIND__SUBMIT, &shoal__submit__descriptor},
    {SHOAL__KIND__RELEASE, &shoal__release__descriptor},
    {SHOAL__KIND__DONE, &shoal__done__descriptor},
    {SHOAL__KIND__FAILED, &shoal__failed__descriptor},
    {SHOAL__KIND__SPEED, &shoal__speed__descriptor},
    {SHOAL__KIND__STATUS_ASK, &shoal__status_ask__descriptor},
    {SHOAL__KIND__EXPLAIN_ASK, &shoal__explain_ask__descriptor},
    {SHOAL__KIND__EVENTS_ASK, &shoal__events_ask__descriptor},
    {SHOAL__KIND__RECORDED, &shoal__events__descriptor},
    {SHOAL__KIND__RELAY, &shoal__relay__descriptor},
    {SHOAL__KIND__DEVICE_LOST, &shoal__device_lost__descriptor},
    {SHOAL__KIND__WAITS, &shoal__waits__descriptor},
    {SHOAL__KIND__NEWS, &shoal__news__descriptor},
    {SHOAL__KIND__ARTIFACT_ASK, &shoal__artifact_ask__descriptor},
    {SHOAL__KIND__ARTIFACT, &shoal__artifact__descriptor},
};

shoal_status hub_handle(hub *h, hub_peer *peer, Shoal__Kind kind, const void *body, size_t bytes) {
    const ProtobufCMessageDescriptor *type = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind) type = kinds[i].type;
    if (!type) {
        hub_strange(peer, "a message of a kind that is not for a hub");
        return SHOAL_OK;
    }
    ProtobufCMessage *message;
    SHOAL_TRY(wire_unpack(type, body, bytes, &message));
    hub_event event = {.peer = peer};
    shoal_status status = SHOAL_OK;
    tell_of_newcomers(h);
    switch (kind) {
    case SHOAL__KIND__SUBMIT:
        event.kind = HUB_SUBMIT;
        event.u.submit = (const Shoal__Submit *)message;
        break;
    case SHOAL__KIND__RELEASE:
        event.kind = HUB_RELEASE;
        event.u.release = (const Shoal__Release *)message;
        break;
    case SHOAL__KIND__DONE:
        event.kind = HUB_DONE;
        event.u.done = (const Shoal__Done *)message;
        break;
    case SHOAL__KIND__FAILED:
        event.kind = HUB_FAILED;
        event.u.failed = (const Shoal__Failed *)message;
        break;
    case SHOAL__KIND__SPEED:
        event.kind = HUB_SPEED;
        event.u.speed = (const Shoal__Speed *)message;
        break;
    case SHOAL__KIND__DEVICE_LOST:
        event.kind = HUB_DEVICE_LOST;
        event.u.device_lost = (const Shoal__DeviceLost *)message;
        break;
    case SHOAL__KIND__WAITS:
        event.kind = HUB_WAITS;
        event.u.waits = (const Shoal__Waits *)message;
        break;
    case SHOAL__KIND__STATUS_ASK:
        answer_status(h, peer, (const Shoal__StatusAsk *)message);
        goto out;
    case SHOAL__KIND__EVENTS_ASK:
        hub_events_ask(h, peer, (const Shoal__EventsAsk *)message);
        goto out;
    case SHOAL__KIND__RELAY: status = hub_relay(h, peer, (const Shoal__Relay *)message); goto out;
    case SHOAL__KIND__NEWS:
        if (!hub_news_take(peer, (Shoal__News *)message, bytes)) goto out;
        return SHOAL_OK; /* it is kept */
    case SHOAL__KIND__RECORDED: hub_events_pass(h, peer, (Shoal__Events *)message); goto out;
    case SHOAL__KIND__ARTIFACT_ASK:
        hub_artifact_ask(h, peer, (Shoal__ArtifactAsk *)message);
        goto out;
    case SHOAL__KIND__ARTIFACT: hub_artifact_take(h, peer, (Shoal__Artifact *)message); goto out;
    default: answer_explain(h, peer, (const Shoal__ExplainAsk *)message); goto out;
    }
    status = hub_apply(h, &event);
out:
    wire_unpacked_free(message);
    return status;
}

static shoal_status on_message(void *context, wire_link *link, Shoal__Kind kind, const void *body,
                               size_t bytes) {
    hub_peer *peer = wire_link_get(link, WIRE_HUB);
    if (!peer) return base_fail(SHOAL_DENIED, "this link is not of a member of the pool");
    return hub_turn(context, peer, kind, body, bytes);
}

/* What a newcomer says of itself goes into everybody's plans and onto everybody's screen. */
static shoal_status check_device(const Shoal__Device *device) {
    if (!(device->weight >= 0 && device->weight <= HUB_MOST_SPEED))
        return base_fail(SHOAL_INVALID, "the weight of a device is %g; it must be from 0 to %g",
                         device->weight, HUB_MOST_SPEED);
    base_speeds speeds = {{0}};
    if (!hub_figures_take(device->figures, device->n_figures, &speeds))
        return base_fail(SHOAL_INVALID, "a device with figures that there are not");
    if (strlen(device->backend) > HUB_MAX_NAME || strlen(device->name) > HUB_MAX_NAME ||
        strlen(device->id) > HUB_MAX_NAME)
        return base_fail(SHOAL_INVALID, "the name of a device has more than %d letters",
                         HUB_MAX_NAME);
    return SHOAL_OK;
}

static shoal_status check_hello(const hub *h, const Shoal__Hello *hello) {
    bool client = hello->role == SHOAL__ROLE__CLIENT;
    if (!client && hello->role != SHOAL__ROLE__WORKER)
        return base_fail(SHOAL_INVALID, "a member is a worker or a client, not of role %d",
                         (int)hello->role);
    if (hello->n_devices > HUB_MAX_DEVICES || (!client && !hello->n_devices))
        return base_fail(SHOAL_INVALID, "a worker offers 1 to %d devices, not %zu", HUB_MAX_DEVICES,
                         hello->n_devices);
    if (strlen(hello->name) > HUB_MAX_NAME || strlen(hello->host) > HUB_MAX_HOST)
        return base_fail(SHOAL_INVALID, "a member's name has at most %d letters, its host's %d",
                         HUB_MAX_NAME, HUB_MAX_HOST);
    for (size_t i = 0; i < hello->n_devices; i++) SHOAL_TRY(check_device(hello->devices[i]));
    /* Members of an embedded pool are one process. */
    bool self = hello->incarnation == wire_incarnation(h->wire);
    for (size_t i = 0; i < h->peers.count && !self; i++)
        if (!memcmp(h->peers.data[i]->key, hello->key.data, WIRE_KEY))
            return base_fail(SHOAL_DENIED, "the key of this process is another member's");
    return SHOAL_OK;
}

/* A member's words for itself come onto everybody's screen. */
static char *clean_copy(const char *text) {
    char *copy = strdup(text);
    if (copy) base_text_clean(copy, false);
    return copy;
}

static hub_slot *slot_new(const Shoal__Device *device) {
    hub_slot *slot = calloc(1, sizeof *slot);
    if (!slot) return NULL;
    slot->compute = device != NULL;
    slot->backend = clean_copy(device ? device->backend : "memory");
    slot->device = clean_copy(device ? device->name : "client memory");
    slot->threads = device && device->threads ? device->threads : 1;
    slot->weight = device ? device->weight : 0;
    slot->memory = device ? device->memory : 0;
    slot->near = device && device->near ? device->near : slot->memory;
    slot->maps = device && device->maps;
    slot->id = clean_copy(!device ? "memory" : *device->id ? device->id : device->backend);
    if (device && !hub_figures_take(device->figures, device->n_figures, &slot->speeds))
        slot->speeds = (base_speeds){{0}};
    if (slot->backend && slot->device && slot->id) return slot;
    hub_slot_free(slot);
    return NULL;
}

/* "tcp://HOST:PORT", or "shm:NAME": nothing that leads into a list of addresses, or out of it. */
static bool is_address(const char *text) {
    bool tcp = !strncmp(text, "tcp://", 6);
    size_t n = strlen(text);
    if (n > HUB_MAX_ADDRESS || (!tcp && strncmp(text, "shm:", 4))) return false;
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~' || *c == ',' || (tcp && *c == '/' && c >= text + 6)) return false;
    return true;
}

/* The addresses of a member as others get them, a list with commas: those of TCP with the key of
 * the member's process, which is in no address that a member gives. NULL with a message. */
static char *list_addresses(const Shoal__Hello *hello) {
    char key[WIRE_KEY_TEXT];
    base_str list = {0};
    base_str_text(&list, "");
    for (size_t i = 0; i < hello->n_addresses && i < HUB_MAX_ADDRESSES; i++) {
        const char *address = hello->addresses[i];
        if (!is_address(address)) {
            base_log(BASE_WARN, "hub", "%s names an address that is none: '%.80s'", hello->name,
                     address);
            continue;
        }
        base_str_format(&list, "%s%s", list.size ? "," : "", address);
        if (address[0] == 't') base_str_format(&list, "/%s", wire_key_text(hello->key.data, key));
    }
    return base_str_take(&list, NULL);
}

/* What the key is enrolled for; whose it is. */
static shoal_status identify(hub *h, const Shoal__Hello *hello, hub_peer *peer) {
    const wire_proof *proof = wire_link_proof(peer->link);
    unsigned need = hello->role == SHOAL__ROLE__CLIENT
                        ? WIRE_ROLE_CLIENT | (hello->n_devices ? WIRE_ROLE_WORKER : 0)
                        : WIRE_ROLE_WORKER;
    wire_guest guest;
    if (proof->local) {
        peer->owner = strdup("this user");
        peer->user = hub_user_of(h, NULL);
        return peer->owner && peer->user ? SHOAL_OK
                                         : base_fail(SHOAL_NO_MEMORY, "no memory for a member");
    }
    wire_keys_known(proof->key, &guest);
    if (!proof->keyed || guest.standing != WIRE_ENROLLED)
        return base_fail(SHOAL_DENIED, "the key of this user is not enrolled here");
    if (need & ~(unsigned)guest.role)
        return base_fail(
            SHOAL_DENIED,
            "the key of %s is enrolled as %s: ask the owner of the hub for `shoal peers "
            "%s --role both`",
            guest.name, wire_role_name(guest.role), guest.name);
    char key[WIRE_KEY_TEXT];
    base_str owner = {0};
    base_str_format(&owner, "%s, key %.16s", guest.name, wire_key_text(proof->key, key));
    peer->owner = base_str_take(&owner, NULL);
    peer->user = hub_user_of(h, proof->key);
    return peer->owner && peer->user ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static hub_peer *peer_new(wire_link *link, const Shoal__Hello *hello) {
    hub_peer *peer = calloc(1, sizeof *peer);
    if (!peer) return NULL;
    bool client = hello->role == SHOAL__ROLE__CLIENT;
    peer->link = link;
    peer->role = hello->role;
    peer->name = clean_copy(hello->name);
    peer->host = clean_copy(hello->host);
    peer->address = list_addresses(hello);
    memcpy(peer->key, hello->key.data, WIRE_KEY); /* checked by the wire */
    peer->pid = hello->pid;
    peer->spare = hello->spare;
    peer->memory = hello->memory;
    peer->machine = hello->machine;
    peer->cores = hello->cores;
    peer->online = hello->online;
    peer->sealing =
        hello->sealing > HUB_LEAST_SEALING && hello->sealing < HUB_MOST_SPEED ? hello->sealing : 0;
    peer->slots = calloc(hello->n_devices + client + 1, sizeof *peer->slots);
    for (size_t i = 0; peer->slots && i < hello->n_devices + client; i++) {
        peer->slots[i] = slot_new(i < hello->n_devices ? hello->devices[i] : NULL);
        if (!peer->slots[i]) break;
        peer->n_slots++;
    }
    if (peer->name && peer->host && peer->address && peer->slots &&
        peer->n_slots == hello->n_devices + client)
        return peer;
    hub_peer_free(peer);
    return NULL;
}

static shoal_status fill_welcome(const hub *h, const hub_peer *peer, Shoal__Welcome *welcome) {
    welcome->peer = peer->number;
    welcome->epoch = h->epoch;
    welcome->pool = h->pool;
    welcome->session = peer->session;
    welcome->name = strdup(peer->name);
    welcome->slots = malloc((peer->n_slots + 1) * sizeof *welcome->slots);
    if (!welcome->name || !welcome->slots) return base_fail(SHOAL_NO_MEMORY, "no memory");
    for (uint32_t i = 0; i < peer->n_slots; i++) welcome->slots[i] = peer->slots[i]->number;
    welcome->n_slots = peer->n_slots;
    if (!h->artifacts.given) return SHOAL_OK;
    welcome->artifacts = (ProtobufCBinaryData){WIRE_KEY, malloc(WIRE_KEY)};
    if (!welcome->artifacts.data) return base_fail(SHOAL_NO_MEMORY, "no memory");
    memcpy(welcome->artifacts.data, h->artifacts.signer, WIRE_KEY);
    return SHOAL_OK;
}

/* A member is gone, or has not got in after all. */
static void leave(hub *h, hub_peer *peer, shoal_status why, const char *reason) {
    int64_t start = base_now();
    peer->link = NULL;
    hub_event event = {.kind = HUB_LEAVE, .peer = peer, .u.leave = {why, reason}};
    if (hub_apply(h, &event) != SHOAL_OK) base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    hub_user_charge(h, peer->user, start);
    hub_artifacts_leave(h, peer);
    hub_asks_drop(peer);
    hub_user_leave(h, peer->user);
    hub_peer_free(peer);
}

static shoal_status on_opened(void *context, wire_link *link, const Shoal__Hello *hello,
                              Shoal__Welcome *welcome, bool accepting) {
    hub *h = context;
    /* A process that has a number is in the pool already: this link is between workers. */
    if (!accepting || hello->peer) return SHOAL_OK;
    SHOAL_TRY(check_hello(h, hello));
    hub_peer *peer = peer_new(link, hello);
    if (!peer) return base_fail(SHOAL_NO_MEMORY, "no memory for a member");
    hub_event event = {.kind = HUB_JOIN, .peer = peer};
    shoal_status status = identify(h, hello, peer);
    if (status == SHOAL_OK) status = hub_apply(h, &event);
    if (status != SHOAL_OK) {
        hub_user_leave(h, peer->user);
        hub_peer_free(peer);
        return status;
    }
    status = fill_welcome(h, peer, welcome);
    /* The newcomer has to hear its own numbers before it hears of others. */
    h->newcomers = true;
    if (status == SHOAL_OK) status = wire_post(h->wire, tell_of_newcomers, h);
    if (status == SHOAL_OK)
        wire_link_set(link, WIRE_HUB, peer);
    else
        leave(h, peer, status, shoal_error_message());
    return status;
}

static void on_closed(void *context, wire_link *link, shoal_status why, const char *message) {
    hub *h = context;
    hub_peer *peer = wire_link_get(link, WIRE_HUB);
    if (!peer) return;
    wire_link_set(link, WIRE_HUB, NULL);
    leave(h, peer, why, message);
}

enum { TICK_MS = 250, OFTEN_MS = 5 };

/* Once its members have what was planned, too, and nothing more is. */
static void trim(hub *h) {
    if (h->planned < HUB_MUCH_PLANNED || h->ticked - h->plan_made < BASE_SECOND) return;
    h->planned = 0;
    base_arena_trim();
    base_os_memory_trim();
}

static void tick(void *context) {
    hub *h = context;
    hub_event event = {.kind = HUB_TICK};
    hub_turns_serve(h);
    if (h->backlog && base_now() - h->ticked < TICK_MS * BASE_MS) return;
    h->ticked = base_now();
    if (hub_apply(h, &event) != SHOAL_OK) base_log(BASE_ERROR, "hub", "%s", shoal_error_message());
    hub_users_look(h);
    trim(h);
}

void hub_tick_often(hub *h, bool often) {
    wire_tick(h->wire, WIRE_HUB, often ? OFTEN_MS : TICK_MS, tick);
}

shoal_status hub_set_panels(hub *h, uint32_t panels) {
    if (panels == 1 || panels > PLAN_MOST_PANELS)
        return base_fail(SHOAL_INVALID, "%u panels; there are 2 to %d, or 0 for as many as pay",
                         panels, PLAN_MOST_PANELS);
    h->panels = panels;
    return SHOAL_OK;
}

shoal_status hub_new(wire_peer *wire, hub **out) {
    hub *h = calloc(1, sizeof *h);
    if (!h) return base_fail(SHOAL_NO_MEMORY, "no memory for a hub");
    shoal_status status = base_events_init(&h->events, "hub");
    if (status != SHOAL_OK) {
        free(h);
        return status;
    }
    h->wire = wire;
    status = base_os_random(&h->pool, sizeof h->pool);
    if (status != SHOAL_OK) {
        base_events_fini(&h->events);
        free(h);
        return status;
    }
    h->started = base_now();
    h->next_peer = h->next_session = h->next_user = 1;
    h->next_instance = h->next_variant = h->next_record = h->epoch = 1;
    /* Numbers that the hub gives to values lie above those of any session. */
    h->next_value = UINT64_C(0xFFFFFF) << 40;
    h->last = &h->first;
    wire_handlers handlers = {
        .context = h, .opened = on_opened, .message = on_message, .closed = on_closed};
    wire_handle(wire, WIRE_HUB, &handlers);
    hub_tick_often(h, false);
    *out = h;
    return SHOAL_OK;
}

void hub_destroy(hub **out) {
    hub *h = *out;
    *out = NULL;
    if (!h) return;
    /* Nobody is told any more. */
    base_map_fini(&h->sessions);
    while (h->first) {
        h->first->told = true;
        hub_instance_settle(h, h->first);
    }
    size_t at = 0;
    uint64_t key;
    void *item;
    hub_links_fini(h);
    for (at = 0; base_map_next(&h->values, &at, &key, &item);) {
        ((hub_value *)item)->released = true;
        hub_value_settle(h, item);
    }
    for (at = 0; base_map_next(&h->programs, &at, &key, &item);) hub_program_free(item);
    for (size_t i = 0; i < h->peers.count; i++) hub_peer_free(h->peers.data[i]);
    free(h->peers.data);
    hub_users_fini(h);
    base_map_fini(&h->instances);
    base_map_fini(&h->values);
    base_map_fini(&h->gone);
    base_map_fini(&h->programs);
    base_map_fini(&h->parts);
    base_map_fini(&h->slots);
    base_events_fini(&h->events);
    free(h->doubts.data);
    free(h->artifacts.wanted.data);
    free(h->loss);
    free(h);
}
