/* What became of the messages of a target, per role of who says them and kind: printed at the end.
 */
#ifndef TEST_FUZZ_TALLY_H
#define TEST_FUZZ_TALLY_H

#include "wire/transport.h"

typedef enum tally_fate {
    TALLY_TAKEN,
    TALLY_DROPPED, /* not the sender's to say, or out of place: counted as strange */
    TALLY_REFUSED, /* the link was closed */
    TALLY_FATES
} tally_fate;

/* Tensor data beside the kinds of messages. */
enum { TALLY_DATA = 127, TALLY_KINDS };

/* The role has to be a literal: its pointer is kept. */
void tally(const char *role, uint32_t kind, tally_fate fate);

#endif
