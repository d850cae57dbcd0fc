/* Bodies of messages: the first byte says which of shoal.proto's, what is unpacked packs again. */
#include "fuzz.h"
#include "wire/transport.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &shoal__hello__descriptor,     &shoal__welcome__descriptor,
    &shoal__peers__descriptor,     &shoal__submit__descriptor,
    &shoal__release__descriptor,   &shoal__run__descriptor,
    &shoal__done__descriptor,      &shoal__failed__descriptor,
    &shoal__finished__descriptor,  &shoal__status_ask__descriptor,
    &shoal__status__descriptor,    &shoal__explain_ask__descriptor,
    &shoal__explained__descriptor, &shoal__events_ask__descriptor,
    &shoal__record__descriptor,    &shoal__events__descriptor,
    &shoal__relay__descriptor,     &shoal__artifact_ask__descriptor,
    &shoal__artifact__descriptor,
};

size_t fuzz_limit(size_t size) { return WIRE_UNPACK_FACTOR * size + WIRE_UNPACK_LEAST + 4096; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof types / sizeof *types)];
    ProtobufCMessage *message;
    if (wire_unpack(type, data + 1, size - 1, &message) != SHOAL_OK) return 0;
    fuzz_accepted++;
    FUZZ_CHECK(protobuf_c_message_check(message));
    FUZZ_CHECK(protobuf_c_message_get_packed_size(message) <= 16 * size);
    wire_unpacked_free(message);
    return 0;
}
