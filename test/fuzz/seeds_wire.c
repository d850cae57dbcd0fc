/* What arrives on the connections of a link: frames, and the scripts of the target `paths`. */
#include "seeds.h"

/* 64 zeros, compressed: how many they are, one of them, 58 copies of it, and the last five. */
static const uint8_t zeros[] = {64, 0, 0, 0, 0x1f, 0, 1, 0, 39, 0x50, 0, 0, 0, 0, 0};

static wire_frame compressed(uint64_t instance) {
    return (wire_frame){
        .type = WIRE_FRAME_COMPRESSED, .bytes = sizeof zeros, .total = 64, .instance = instance};
}

void seeds_frames(void) {
    base_str out = {0};
    static const char body[64] = "the body of a message, or a part of a transfer";
    wire_frame frame = {.type = WIRE_FRAME_MESSAGE, .kind = 70, .bytes = 16, .total = 48};
    for (; frame.offset < 48; frame.offset += 16) {
        base_str_bytes(&out, &frame, sizeof frame);
        base_str_bytes(&out, body, 16);
    }
    frame = (wire_frame){.type = WIRE_FRAME_DATA, .bytes = 64, .total = 128, .instance = 3};
    for (; frame.offset < 128; frame.offset += 64) {
        base_str_bytes(&out, &frame, sizeof frame);
        base_str_bytes(&out, body, 64);
    }
    frame = compressed(5);
    base_str_bytes(&out, &frame, sizeof frame);
    base_str_bytes(&out, zeros, sizeof zeros);
    frame = (wire_frame){.type = WIRE_FRAME_CLOSE, .kind = SHOAL_LOST, .bytes = 8};
    base_str_bytes(&out, &frame, sizeof frame);
    base_str_bytes(&out, body, 8);
    seeds_put("frame", "all", out.data, out.size);
    base_str_fini(&out);
}

/* A step of the target `paths`, with a frame if it is one. */
static void path_step(base_str *out, int connection, int what, const wire_frame *frame,
                      const void *payload) {
    base_str_bytes(out, &(uint8_t){(uint8_t)(connection | what << 2)}, 1);
    if (frame) base_str_bytes(out, frame, sizeof *frame);
    if (frame && frame->bytes) base_str_bytes(out, payload, frame->bytes);
}

/* Something is sent, one path ends, its other side says what came, and another path joins. */
void seeds_paths(void) {
    enum { FRAME, END, SEND, DROP, TURN };
    uint8_t packed[256] = {0};
    base_str out = {0};
    for (int i = 0; i < 3; i++) path_step(&out, 0, SEND, NULL, NULL);
    path_step(&out, 0, TURN, NULL, NULL);
    wire_frame credit = {.type = WIRE_FRAME_CREDIT, .total = 8 << 20, .offset = 96};
    path_step(&out, 0, FRAME, &credit, NULL);
    wire_frame data = {.type = WIRE_FRAME_DATA, .bytes = 64, .total = 64, .instance = 5};
    path_step(&out, 1, FRAME, &data, packed);
    wire_frame small = compressed(5);
    path_step(&out, 1, FRAME, &small, zeros);
    path_step(&out, 0, END, NULL, NULL);
    wire_frame lost = {.type = WIRE_FRAME_LOST, .kind = 1, .total = 96};
    path_step(&out, 1, FRAME, &lost, NULL);
    path_step(&out, 1, TURN, NULL, NULL);
    Shoal__Hello hello = SHOAL__HELLO__INIT;
    seeds_fill(&hello);
    hello.incarnation = 7;
    hello.joins = 99;
    hello.path = 2;
    wire_frame join = {.type = WIRE_FRAME_HELLO,
                       .bytes = (uint32_t)shoal__hello__pack(&hello, packed)};
    path_step(&out, 2, FRAME, &join, packed);
    path_step(&out, 2, FRAME, &credit, NULL);
    path_step(&out, 2, TURN, NULL, NULL);
    lost = (wire_frame){.type = WIRE_FRAME_LOST, .instance = 1, .total = 0};
    path_step(&out, 2, FRAME, &lost, NULL);
    path_step(&out, 2, DROP, NULL, NULL);
    path_step(&out, 2, TURN, NULL, NULL);
    seeds_put("paths", "lost", out.data, out.size);
    base_str_fini(&out);
}

/* A client keeps artifacts, others ask it, it answers; and one that does not says so, too. */
void seeds_artifacts(void) {
    enum { BOTH, CLIENT, WORKER };
    base_str out = {0};
    uint8_t digest[WIRE_DIGEST] = {1};
    Shoal__ArtifactAsk ask = SHOAL__ARTIFACT_ASK__INIT;
    ask.token = 9;
    ask.made_of = (ProtobufCBinaryData){sizeof digest, digest};
    ask.target = (char *)"llvm-cpu";
    ask.device = (char *)"x86_64+avx";
    ask.compiler = (char *)"1.0";
    Shoal__Artifact artifact = SHOAL__ARTIFACT__INIT;
    seeds_pack(&out, SHOAL__KIND__ARTIFACT_ASK | WORKER << 6, true, &ask.base);
    seeds_pack(&out, SHOAL__KIND__ARTIFACT | CLIENT << 6, true, &artifact.base);
    seeds_pack(&out, SHOAL__KIND__ARTIFACT_ASK | WORKER << 6, true, &ask.base);
    artifact.token = 1;
    artifact.wanted = true;
    seeds_pack(&out, SHOAL__KIND__ARTIFACT | CLIENT << 6, true, &artifact.base);
    ask.text = (ProtobufCBinaryData){6, (uint8_t *)"module"};
    seeds_pack(&out, SHOAL__KIND__ARTIFACT_ASK | BOTH << 6, true, &ask.base);
    artifact.token = 2;
    artifact.wanted = false;
    artifact.note = (ProtobufCBinaryData){2, (uint8_t *)"{}"};
    artifact.digest = ask.made_of;
    artifact.bytes = 1000;
    seeds_pack(&out, SHOAL__KIND__ARTIFACT | WORKER << 6, true, &artifact.base);
    seeds_pack(&out, SHOAL__KIND__ARTIFACT | CLIENT << 6, true, &artifact.base);
    seeds_put("hub", "artifacts", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, 17, false, &ask.base);
    seeds_put("message", "artifact_ask", out.data, out.size);
    base_str_clear(&out);
    seeds_pack(&out, 18, false, &artifact.base);
    seeds_put("message", "artifact", out.data, out.size);
    base_str_fini(&out);
}
