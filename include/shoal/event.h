/* Events: what the processes of a pool do, reported while a client records (shoal_events) or
 * SHOAL_INSTRUCTION_LOG names a file. Plain data; all functions may be called from any thread. */
#ifndef SHOAL_EVENT_H
#define SHOAL_EVENT_H

#include "shoal/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one list of kinds: XX(NAME, name, who: what it means, its label). The order is part of the
 * wire format: append only. */
#define SHOAL_EVENT_MAP(XX)                                                                        \
    XX(OP, "op", "client: an operation is recorded; result, operands and type")                    \
    XX(SUBMIT, "submit", "client: a program goes to the hub; its operations")                      \
    XX(READ, "read", "client: waits for a value; its type")                                        \
    XX(ACCEPT, "accept", "hub: a program becomes an instance; whose")                              \
    XX(START, "start", "hub: an instance is handed out; on how many slots")                        \
    XX(FINISH, "finish", "hub: an instance is through")                                            \
    XX(RUN, "run", "worker: its part of an instance has come")                                     \
    XX(COMPILE, "compile", "worker: compiles a part of a program; its operations")                 \
    XX(COMPUTE, "compute", "worker: runs it; its operations, the costliest first")                 \
    XX(WAIT, "wait", "worker: waits for what others send")                                         \
    XX(SEND, "send", "a box of a tensor goes to another slot; its shape")                          \
    XX(RECEIVE, "receive", "it comes; from the first byte to the last")                            \
    XX(FREE, "free", "parts of values can go; how many")                                           \
    XX(MEASURE, "measure", "worker: measures how fast its device is")                              \
    XX(FAIL, "fail", "an instance fails; why")                                                     \
    XX(JOIN, "join", "hub: a member has come; its name")                                           \
    XX(LOSS, "loss", "hub: a member has gone; why")                                                \
    XX(RERUN, "rerun", "hub: a program is run again")

typedef enum shoal_event_kind {
#define XX(name, text, help) SHOAL_EVENT_##name,
    SHOAL_EVENT_MAP(XX)
#undef XX
        SHOAL_EVENT_COUNT
} shoal_event_kind;

/* Whatever takes time has two events, BEGIN and END, of the same kind, slot, instance and key. */
typedef enum shoal_event_phase {
    SHOAL_EVENT_AT,
    SHOAL_EVENT_BEGIN,
    SHOAL_EVENT_END,
    SHOAL_EVENT_PHASES
} shoal_event_phase;

#define SHOAL_NO_SLOT UINT32_MAX

typedef struct shoal_event {
    int64_t at; /* nanoseconds of its process's clock, CLOCK_MONOTONIC */
    uint64_t
        instance;   /* the run that it belongs to; for OP, SUBMIT, READ: the client's own count */
    uint64_t bytes; /* sent, received or read */
    uint32_t slot;  /* where; SHOAL_NO_SLOT: on no particular slot */
    uint32_t peer;  /* SEND, RECEIVE: the other slot; else SHOAL_NO_SLOT */
    uint32_t key;   /* tells things of one kind, slot and instance apart */
    uint8_t kind, phase;
    char label[82]; /* "dot_general[64,256], add x3": zero-terminated, printable */
} shoal_event;

/* The name of a kind, "compute"; "?" for a value that is none. */
SHOAL_API const char *shoal_event_name(unsigned kind);
/* The meaning of a kind, in one line: "worker: runs it; …"; "?" for a value that is none. */
SHOAL_API const char *shoal_event_help(unsigned kind);

#ifdef __cplusplus
}
#endif
#endif
