/* What a worker or a session that is tried has around it: a hub that says what it is told to, two
 * members, and what becomes of what they say. One at a time. */
#ifndef TEST_FUZZ_OTHERS_H
#define TEST_FUZZ_OTHERS_H

#include "worker/state.h"

/* Numbers of members and slots; the slot of a member is OWN_SLOT + 1, + 2. */
enum { SELF = 1, OWES = 3, OTHER = 4, OWN_SLOT = 5, INSTANCE = 2, POOL = 9, AHEAD = 2 };
enum { BY_HUB, BY_OWES, BY_OTHER, BOXES };
/* The kind of message that a byte stands for: those of workers and clients, and one on each side.
 */
#define OTHERS_KIND(how)                                                                           \
    (((how)&63u) % (SHOAL__KIND__ARTIFACT_GIVEN - SHOAL__KIND__HUB_END + 3) +                      \
     SHOAL__KIND__HUB_END - 1)
/* The sides of a box. */
enum { SIDE = 4 };

/* Something that the hub says. */
void others_tell(Shoal__Kind kind, const ProtobufCMessage *message);
/* Who hears what is said to the hub from here on. */
void others_asked(void (*asked)(Shoal__Kind kind, const void *body, size_t n));
/* What a member is told from here on: called for each message, with what it counts on. NULL: no
 * more. */
void others_hear(void (*heard)(wire_link *link, Shoal__Kind kind, const ProtobufCMessage *message));
/* Members read what waits for them: until then it counts on who asked for it. */
void others_read(void);
/* Boxes for members wait from here on; false: they have gone, as do those to come. */
void others_keep(bool keep);
/* Joins the worker, which has one slot, to the hub. asked: what is said to the hub; may be NULL. */
void others_begin(worker *w, void (*asked)(Shoal__Kind kind, const void *body, size_t n));
/* Who is no handler holds the pump while something is said, and lets those look who wait there. */
void others_hold(void);
void others_release(void);
/* The members have links with the worker from here on. */
void others_link(void);
/* Ends those; before the worker is destroyed. */
void others_end(void);
/* Turns of the pump. */
void others_turn(void);
/* Whether the hub's link is there. */
bool others_joined(void);
/* The hub closes it. */
void others_leave(void);
/* The hub has one slot run a program that sends `input` (0: nothing) to OWES and receives `output`
 * from there, boxes of floats. */
void others_run(uint64_t instance, uint64_t program, uint64_t input, uint64_t output);
/* The same for a loop of so many rounds, whose output is the input of the next one. */
void others_loop(uint64_t instance, uint64_t program, uint64_t input, uint64_t output,
                 uint64_t rounds);
/* From here on OWES is asked for a file of this many bytes, whose digest is all zeros. */
void others_fetch(uint64_t bytes);
/* The worker's end of the link with a member: BY_OWES, BY_OTHER. */
wire_link *others_end_of(uint32_t who);
/* A message or a box of the input: its first byte is who and what, see BY_HUB. client: which it is,
 * for the tally. */
void others_say(bool client, const uint8_t *data, size_t n, uint8_t how);
/* The next of a row of such: the byte, two bytes of length, the body. False at the end. */
bool others_next(const uint8_t **data, size_t *size, const uint8_t **body, size_t *n, uint8_t *how);

#endif
