/* A hub whose members are links of this process to itself; nobody runs what is handed out. For the
 * tests of this folder. */
#ifndef HUB_TESTING_H
#define HUB_TESTING_H

#include "graph/graph.h"
#include "base/clock.h"
#include "hub/state.h"
#include "wire/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MEMBERS = 2, MORE = HUB_MAX_MEMBERS };
/* Elements of what is submitted, and most operands. */
enum { TEST_N = 4, TEST_ALL = 4 };

typedef struct pool {
    wire_peer *peer;
    hub *h;
    wire_link *ends[MEMBERS + MORE]; /* the hub's ends */
    uint32_t sessions[MEMBERS + MORE];
    uint32_t n_ends;
    uint32_t runs[MEMBERS + 1]; /* instances handed out, by session */
    uint64_t last[MEMBERS + 1];
    size_t news, outcomes;      /* messages of what is through, and what they told, */
    size_t parts;               /* of which so many are of parts of programs */
    size_t cancels;             /* messages that an instance is given up, */
    uint64_t rounds;            /* and what the last said of the rounds before */
    size_t freed;               /* values that members were told to free, */
    size_t freed_before;        /* and those before the last run */
    Shoal__Relay *relayed;      /* the last */
    Shoal__ArtifactAsk *wanted; /* what the keeper was asked last, */
    Shoal__Artifact *given;     /* and what was answered, */
    size_t n_wanted, n_given;   /* and how often */
    bool has_signer;            /* the last that joined was told a key for artifacts, */
    uint8_t signer[WIRE_KEY];   /* this one */
    bool turns; /* users wait for theirs: else nobody does, however slow this machine is */
    shoal_status why;
    char reason[256];
    char explained[512];        /* why not, last */
    uint32_t gone;              /* who left before it told of events, last */
    uint64_t values;            /* as the last status counted them, */
    Shoal__Status *told;        /* and that */
    size_t rolls, called, left; /* messages of who is there, members they told of, and who left */
} pool;

void pump(pool *p);
int setup(void **state);
int teardown(void **state);
/* -iota of n floats. */
void program(uint32_t n, base_str *out);
void deliver(pool *p, int m, Shoal__Kind kind, const ProtobufCMessage *message);
/* Member m submits -iota(n), as its k-th value. */
void submit(pool *p, int m, uint32_t n, uint64_t k);
/* The same for so many rounds. */
void submit_loop(pool *p, int m, uint64_t rounds, uint64_t k);
/* Whoever has the oldest instance, and is there, has done its part. */
void finish_oldest(pool *p);
/* A worker that joins beside the members. */
wire_link *add_worker(pool *p);
/* As a member of another user. */
hub_peer *of_another(pool *p, int member, uint8_t user);

/* ---- what the first member's session submits, its values by their numbers in it ---- */

uint64_t number_of(const pool *p, uint64_t k);
hub_value *value_of(const pool *p, uint64_t k);
bool can_recover(const hub *h, const hub_value *value);
/* Its session, as the hub knows it. */
hub_peer *client_of(const pool *p);
/* x, once it has been checked that all of it lies in 0 to 8, at a line or (NULL) at none. */
uint32_t check(graph *g, const char *line, uint32_t x);
/* Its inputs, negated each, and the sum of the first and the last. */
void negates(uint32_t n, shoal_dtype dtype, base_str *out);
/* Program k of values, of which `upload` comes with it (0: none), makes n values from k on. rounds:
 * of a loop; 0: it is none. */
void submit_of(pool *p, base_str *text, uint64_t k, const uint64_t *of, uint32_t n_inputs,
               uint32_t n, uint64_t rounds, uint64_t upload);
/* Of values from `from` on. */
void submit_graph(pool *p, base_str *text, uint64_t k, uint64_t from, uint32_t n_inputs,
                  uint32_t n);
/* The first instance of a purpose that has not failed. */
hub_instance *first_of(const pool *p, hub_purpose purpose);
/* It fails, from who takes part. */
void fail_first_of(pool *p, hub_purpose purpose, shoal_status status, const char *message);
void fail_first(pool *p, shoal_status status, const char *message);
void finish_all(pool *p);
/* Which of n values from k on have failed. */
void assert_failed(const pool *p, uint64_t k, uint32_t n, const char *which);
void let_go(pool *p, const uint64_t *ks, size_t n);

#endif
