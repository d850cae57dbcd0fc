/* Messages from bytes of anybody. An empty message within a message takes two bytes on the wire and
 * some fifty in memory, so that the size of what came is no limit by itself: protobuf-c allocates
 * through an allocator that has one. */
#include "wire/transport.h"

#include <stdlib.h>

typedef struct budget {
    size_t left;
    bool refused;
} budget;

static void *allocate(void *context, size_t bytes) {
    budget *b = context;
    void *at = bytes <= b->left ? malloc(bytes ? bytes : 1) : NULL;
    if (at)
        b->left -= bytes;
    else
        b->refused = true;
    return at;
}

static void release(void *context, void *at) { free(at); }

shoal_status wire_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t n,
                         ProtobufCMessage **out) {
    budget b = {.left = WIRE_UNPACK_LEAST + WIRE_UNPACK_FACTOR * n};
    ProtobufCAllocator allocator = {allocate, release, &b};
    *out = protobuf_c_message_unpack(type, &allocator, n, bytes);
    if (*out) return SHOAL_OK;
    return b.refused
               ? base_fail(SHOAL_NO_MEMORY, "no memory, or over the limit, for a %s of %zu bytes",
                           type->short_name, n)
               : base_fail(SHOAL_FORMAT, "%zu bytes are no %s that can be read", n,
                           type->short_name);
}

void wire_unpacked_free(ProtobufCMessage *message) {
    ProtobufCAllocator allocator = {allocate, release, NULL};
    if (message) protobuf_c_message_free_unpacked(message, &allocator);
}
