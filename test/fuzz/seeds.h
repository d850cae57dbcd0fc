/* Parts of what writes the corpora. */
#ifndef FUZZ_SEEDS_H
#define FUZZ_SEEDS_H

#include "wire/framed.h"

/* Writes an input of a target's corpus. */
void seeds_put(const char *target, const char *name, const void *data, size_t bytes);
/* What every Hello has. */
void seeds_fill(Shoal__Hello *hello);

/* Appends a packed message after a byte of kind, and two of length if wanted. */
void seeds_pack(base_str *out, int kind, bool length, const ProtobufCMessage *message);

void seeds_frames(void);
void seeds_paths(void);
void seeds_artifacts(void);

#endif
