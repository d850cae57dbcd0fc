/* What the tests of this folder share: a whole worker, whose hub and members are those of the fuzz
 * targets. */
#ifndef TEST_MALICE_MEMBER_TESTING_H
#define TEST_MALICE_MEMBER_TESTING_H

#include "../fuzz/others.h"
#include "graph/testing.h"
#include "wire/transport.h"

extern worker *w;
/* What the hub was told last: the instance that is through, the one that waits, or waits for who is
 * slow, why one has failed. */
extern _Atomic uint64_t done, waits, slow;
extern char failure[512];

int begin(void **state);
int end(void **state);
/* Whether something holds soon. Lock held when it is asked. */
bool soon(bool (*holds)(void));
/* Bytes of a box, by a member: BY_OWES, BY_OTHER. */
shoal_status say(uint32_t who, uint64_t instance, uint64_t bytes);
/* Messages and data of a member that were dropped. */
uint64_t strange(uint32_t who);
worker_peer *peer(uint32_t number);

#endif
