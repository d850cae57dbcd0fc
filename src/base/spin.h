/* Waiting a little without sleeping: waking a thread costs some 40 us, most answers come sooner. */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <stdbool.h>

/* Asks `ready` again and again for at most 60 us; returns what it said last. It yields in between,
 * so that with more threads than cores the one that has the answer to give need not wait for those
 * who are waiting for it. Returns at once on a machine of one core. */
bool base_spin(bool (*ready)(void *context), void *context);

#endif
