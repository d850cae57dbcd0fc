/* Links over whole frames: the handshake and credits. */
#include "wire/paths.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that are worth saying that they have come. */
enum { MUCH_NEWS = 256 << 10 };

shoal_status wire_framed_add(wire_framed *own, wire_peer *peer, const wire_transport *transport,
                             const wire_carrier *carrier, const char *address, uint64_t attempt) {
    own->carrier = carrier;
    own->may_send = own->may_come = WIRE_FIRST_CREDIT;
    own->address = strdup(address);
    shoal_status status = own->address ? wire_link_add(&own->base, peer, transport, attempt)
                                       : base_fail(SHOAL_NO_MEMORY, "no memory for a link");
    if (status != SHOAL_OK) free(own->address);
    return status;
}

void wire_framed_fini(wire_framed *own) {
    if (own->hello) wire_unpacked_free(&own->hello->base);
    free(own->address);
    own->hello = NULL;
    own->address = NULL;
}

/* ---- the handshake ---- */

void wire_framed_give_up(wire_framed *own, shoal_status why) {
    wire_link_give_up(&own->base, own->accepting, own->address, why);
}

shoal_status wire_framed_hello(wire_framed *own, const Shoal__Welcome *welcome) {
    base_str text = {0};
    const wire_link *lead = welcome ? NULL : own->base.lead;
    shoal_status status =
        wire_peer_hello(own->base.peer, lead ? lead->paths->id : 0, own->path.number, &text);
    wire_frame frame = {.type = WIRE_FRAME_HELLO, .offset = text.size};
    if (status == SHOAL_OK && welcome) {
        size_t n = shoal__welcome__get_packed_size(welcome);
        uint8_t *packed = n <= WIRE_MAX_HELLO ? malloc(n + 1) : NULL;
        if (packed) base_str_bytes(&text, packed, shoal__welcome__pack(welcome, packed));
        status = packed ? base_str_status(&text)
                        : base_fail(SHOAL_NO_MEMORY, "no memory for a Welcome of %zu bytes", n);
        free(packed);
        frame.type = WIRE_FRAME_WELCOME;
    }
    frame.bytes = (uint32_t)text.size;
    if (status == SHOAL_OK) status = own->carrier->put(own, &frame, text.data);
    base_str_fini(&text);
    return status;
}

static shoal_status take_hello(wire_framed *own, const uint8_t *bytes, size_t n) {
    if (n > WIRE_MAX_HELLO) return base_fail(SHOAL_FORMAT, "a Hello of %zu bytes", n);
    ProtobufCMessage *message;
    SHOAL_TRY(wire_unpack(&shoal__hello__descriptor, bytes, n, &message));
    own->hello = (Shoal__Hello *)message;
    return wire_hello_check(&own->base, own->hello, own->accepting, own->address);
}

static void refuse(wire_framed *own, shoal_status why) {
    Shoal__Error error = SHOAL__ERROR__INIT;
    Shoal__Welcome welcome = SHOAL__WELCOME__INIT;
    char message[WIRE_MAX_REASON];
    snprintf(message, sizeof message, "%s", shoal_error_message());
    error.status = why;
    error.message = message;
    welcome.error = &error;
    if (wire_framed_hello(own, &welcome) != SHOAL_OK)
        base_log(BASE_DEBUG, own->address, "telling of a refusal: %s", shoal_error_message());
    base_fail(why, "%s", message);
    wire_framed_give_up(own, why);
}

/* Both sides: from here on frames count. */
static void begin(wire_framed *own) {
    own->expands = own->hello->features & WIRE_FEATURES & WIRE_COMPRESSED;
    own->carrier->begin(own);
    own->window = own->carrier->window(own);
    wire_framed_tell(own, true);
}

void wire_framed_guest(wire_framed *own, const uint8_t *bytes, size_t n) {
    Shoal__Welcome *welcome = malloc(sizeof *welcome);
    shoal_status status = take_hello(own, bytes, n);
    if (status == SHOAL_OK && !welcome) status = base_fail(SHOAL_NO_MEMORY, "no memory");
    if (welcome) shoal__welcome__init(welcome);
    if (status == SHOAL_OK)
        status = wire_link_call(&own->base, own->address, own->hello, own->hello->pid);
    bool joins = status == SHOAL_OK && own->base.lead;
    if (joins) wire_paths_join(own);
    if (status == SHOAL_OK && !joins) {
        welcome->link = wire_routes_offer(own);
        status = wire_link_open(&own->base, own->hello, welcome, true);
    }
    if (status != SHOAL_OK) {
        refuse(own, status);
    } else if ((status = wire_framed_hello(own, welcome)) != SHOAL_OK) {
        char reason[WIRE_MAX_REASON];
        snprintf(reason, sizeof reason, "%s", shoal_error_message());
        wire_link_finish(&own->base, SHOAL_LOST, reason);
    } else {
        begin(own);
    }
    if (welcome) wire_unpacked_free(&welcome->base);
}

static shoal_status enter(wire_framed *own, const Shoal__Welcome *welcome) {
    SHOAL_TRY(wire_welcome_check(welcome, own->address));
    return wire_link_call(&own->base, own->address, own->hello, own->hello->pid);
}

void wire_framed_answer(wire_framed *own, const wire_frame *frame, const uint8_t *payload) {
    ProtobufCMessage *message = NULL;
    shoal_status status = SHOAL_OK;
    if (frame->type != WIRE_FRAME_WELCOME || frame->offset > frame->bytes)
        status = base_fail(SHOAL_FORMAT, "%s: a broken Welcome", own->address);
    size_t hello = (size_t)frame->offset;
    if (status == SHOAL_OK)
        status = wire_unpack(&shoal__welcome__descriptor, payload + hello, frame->bytes - hello,
                             &message);
    const Shoal__Welcome *welcome = (const Shoal__Welcome *)message;
    /* Why it refuses says more than that its version is another. */
    if (status == SHOAL_OK && !welcome->error) status = take_hello(own, payload, hello);
    if (status == SHOAL_OK) status = enter(own, welcome);
    if (status != SHOAL_OK) {
        wire_framed_give_up(own, status);
    } else {
        begin(own);
        status = own->base.lead
                     ? SHOAL_OK
                     : wire_link_open(&own->base, own->hello, (Shoal__Welcome *)message, false);
        if (status != SHOAL_OK)
            wire_close(&own->base, status, shoal_error_message());
        else if (own->base.lead)
            wire_paths_join(own);
        else if (welcome->link)
            wire_routes_find(own, welcome->link);
    }
    wire_unpacked_free(message);
}

/* ---- credits ---- */

/* What is kept is limited by what has come, too: the other side may say of more that it may go. */
bool wire_framed_room(wire_framed *own, size_t bytes) {
    uint64_t end = own->sent + bytes;
    own->blocked = end > own->may_send ||
                   (wire_paths_kept(&own->base) && end > own->path.acked + WIRE_MAX_UNTOLD);
    return !own->blocked;
}

void wire_framed_went(wire_framed *own, size_t bytes) { own->sent += bytes; }

void wire_framed_tell(wire_framed *own, bool at_once) {
    uint64_t news = own->received - own->path.told;
    int64_t held = wire_lead(&own->base)->held;
    /* The other side may have heard of a path that this one has not. */
    bool kept = wire_lead(&own->base)->paths && news >= (at_once ? 1 : MUCH_NEWS);
    uint64_t left = own->may_come - own->received;
    /* Of a small window a quarter can be less than the next frame, which would wait for ever. */
    bool more = (left <= own->window - own->window / 4 || left < WIRE_FIRST_CREDIT) &&
                (!held || held <= base_now());
    wire_frame frame = {.type = WIRE_FRAME_CREDIT, .total = own->may_come, .offset = own->received};
    if (more) {
        own->window = own->carrier->window(own);
        uint64_t total = own->received + own->window;
        more = total > own->may_come;
        if (more) frame.total = total;
    }
    if ((!more && !kept) || own->carrier->put(own, &frame, NULL) != SHOAL_OK) return;
    own->may_come = frame.total;
    own->path.told = frame.offset;
}

static void take_credit(wire_framed *own, uint64_t total, uint64_t come) {
    if (total < own->may_send) {
        base_fail(SHOAL_FORMAT, "%s: %llu bytes may be sent, where it was %llu", own->base.name,
                  (unsigned long long)total, (unsigned long long)own->may_send);
        wire_close(&own->base, SHOAL_FORMAT, shoal_error_message());
        return;
    }
    own->may_send = total;
    own->blocked = false;
    wire_paths_acked(own, come);
}

void wire_framed_take(wire_framed *own, const wire_frame *frame, const void *payload) {
    bool credit = frame->type == WIRE_FRAME_CREDIT, lost = frame->type == WIRE_FRAME_LOST;
    bool counts = frame->type != WIRE_FRAME_BEAT && !credit && !lost;
    if (!counts && frame->bytes) {
        wire_close(&own->base, SHOAL_FORMAT, "a beat, or a credit, with bytes");
        return;
    }
    if (credit) take_credit(own, frame->total, frame->offset);
    if (lost) wire_paths_told(own, frame);
    if (!counts) return;
    own->received += wire_frame_bytes(frame->bytes);
    if (own->received > own->may_come) {
        /* At once: who does not heed what it is told would go on while we say so. */
        wire_link_end(&own->base, SHOAL_LOST, "more bytes are under way than were allowed");
        return;
    }
    wire_link_deliver(&own->base, frame, payload);
    if (own->base.state == WIRE_OPEN && !own->base.down)
        wire_framed_tell(own, frame->type != WIRE_FRAME_MESSAGE);
}

/* ---- sending ---- */

static void *reserve_later(wire_link *link, size_t bytes) { return NULL; }
static void commit_later(wire_link *link, size_t bytes) {}
static const wire_writer queue = {reserve_later, commit_later};

shoal_status wire_framed_send(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message,
                              size_t bytes, wire_account *account) {
    return wire_outbox_send(link, &queue, kind, message, bytes, account);
}

shoal_status wire_framed_send_data(wire_link *link, const wire_transfer *transfer,
                                   const wire_source *source) {
    return wire_outbox_send_data(link, &queue, transfer, source);
}

bool wire_framed_pending(wire_link *link) {
    if (wire_paths_kept(link)) return wire_paths_pending((wire_framed *)link);
    return link->waiting && !((wire_framed *)link)->blocked;
}

void wire_framed_sleep(wire_link *link, bool sleeps) {}
