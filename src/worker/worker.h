/* A worker: tensor parts on the devices of one process, and the programs that run on them.
 *
 * Every process of a pool has one, a client too: a client's worker offers no device, only its
 * memory, so that uploads and reads are exchanges like any other. In an embedded pool the client's
 * worker has the devices as well.
 *
 * Threads: messages arrive under the pump of the wire; each device has an executor thread of its
 * own that runs its instances in the order in which the hub sent them. The memory slot needs no
 * thread: it only copies. */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "base/events.h"
#include "model/map.h"
#include "shoal/backend.h"
#include "wire/wire.h"

typedef struct worker worker;

typedef struct worker_device {
    const shoal_backend *backend;
    uint32_t index;
    uint32_t threads;
    double weight;
    uint64_t memory;  /* most bytes for values; 0: what there is */
    uint32_t share;   /* of how many that share the device this is one; 0: 1 */
    bool dispensable; /* left out when it cannot be opened */
} worker_device;

typedef struct worker_options {
    const char *name; /* NULL: the hub gives one */
    Shoal__Role role;
    const worker_device *devices;
    uint32_t n_devices;
    const char *models; /* folders of files, with colons between them; NULL: the usual ones */
    uint64_t spare;  /* most bytes of a client's memory for copies; 0: a quarter of the machine's */
    bool trusts_hub; /* artifacts that the hub signs are run, whoever runs it */
} worker_options;

/* Opens the devices and makes the peer. On success the worker owns everything it made. */
shoal_status worker_new(const worker_options *options, worker **out) SHOAL_CHECK_RESULT;
/* Closes the links, ends the executors and frees everything. */
void worker_destroy(worker **w);
/* The peer of this process, for listening, waiting and, in an embedded pool, for the hub's part. */
wire_peer *worker_wire(worker *w);
/* Connects to the hub and waits until the pool has accepted this worker. */
shoal_status worker_join(worker *w, const char *address, uint32_t timeout_ms) SHOAL_CHECK_RESULT;
/* Sends to the hub; fails as worker_state when it is gone. Any thread. */
shoal_status worker_send(worker *w, Shoal__Kind kind,
                         const ProtobufCMessage *message) SHOAL_CHECK_RESULT;
/* SHOAL_OK while the hub is there; else why not (LOST, or why it refused), with the message left on
 * this thread. */
shoal_status worker_state(worker *w) SHOAL_CHECK_RESULT;
const char *worker_name(const worker *w);
uint32_t worker_session(const worker *w);
/* The key by which artifacts of the hub are signed; NOT_FOUND when it has none. */
shoal_status worker_signer(worker *w, uint8_t out[WIRE_KEY]) SHOAL_CHECK_RESULT;
/* Of the pool, as the hub has last told: another one when a worker has come or gone. */
uint64_t worker_epoch(worker *w);
/* The slot of the process's own memory. Clients only. */
uint32_t worker_home(const worker *w);

/* The instruction log of this process. */
base_events *worker_events(worker *w);
/* What nodes [first, last) of a graph do, for people: operations, those that cost most first, with
 * the shape of the first one's result: "dot_general[64,256], add x3, maximum". */
void worker_label(const shoal_graph *g, uint32_t first, uint32_t last, shoal_event *out);

/* Messages of the hub that are not the worker's own business (FINISHED, STATUS and such) go here,
 * under the pump; `lost` when the hub is gone. Callbacks may be NULL. */
typedef struct worker_client {
    void *context;
    shoal_status (*message)(void *context, Shoal__Kind kind, const void *body, size_t bytes);
    void (*lost)(void *context, shoal_status why, const char *message);
    void (*tick)(void *context); /* several times a second */
} worker_client;
void worker_set_client(worker *w, const worker_client *client);

/* Makes a value of this process's memory known, before a program that uses it is submitted. The
 * memory stays in place until release(context) is called (once, on any thread, also on failure).
 * map: of the file that it lies in, held until then; programs fail when that was written to. */
shoal_status worker_offer(worker *w, uint64_t value, const shoal_type *type, const void *data,
                          const model_map *map, void (*release)(void *context),
                          void *context) SHOAL_CHECK_RESULT;
/* Gives back the memory of a value that was offered and that no program was submitted with. */
void worker_withdraw(worker *w, uint64_t value);
/* Makes a file known by its digest, for programs that read from it here or at other members. Its
 * map need not stay open: it is opened again when it is needed. */
shoal_status worker_offer_file(worker *w, const uint8_t *digest,
                               const model_map *map) SHOAL_CHECK_RESULT;

/* Says where a value that a program will bring home is to be written: `data` stays valid until
 * worker_collect. */
shoal_status worker_expect(worker *w, uint64_t value, void *data, size_t bytes) SHOAL_CHECK_RESULT;
/* Whether the expected value is there: for worker_collect not to wait. */
bool worker_expected_done(worker *w, uint64_t value);
/* Takes the expected value: SHOAL_OK when it is there; `otherwise`, with the message that this
 * thread has, when it is not, or when that is INTERRUPTED. After it returns, whatever it returns,
 * the memory is not written any more. */
shoal_status worker_collect(worker *w, uint64_t value, shoal_status otherwise) SHOAL_CHECK_RESULT;

/* ---- stream.c: what the rounds of a loop bring home ---- */

typedef struct worker_stream worker_stream;
/* Of the loop that makes these values (at least one) in the client's memory; before it is
 * submitted. Fails with TIMEOUT when nothing is taken for so long while the loop waits for that. */
shoal_status worker_stream_open(worker *w, const uint64_t *values, uint32_t n, uint32_t patience_ms,
                                worker_stream **out) SHOAL_CHECK_RESULT;
/* What still comes is dropped, and the loop goes on. w: NULL when it has ended meanwhile, or is
 * about to. */
void worker_stream_close(worker *w, worker_stream **stream);
/* The loop whose first value this is has failed. */
void worker_stream_fail(worker *w, uint64_t value, shoal_status status, const char *message);
/* The client waits: streams take up more, each until something is taken of it. */
void worker_streams_widen(worker *w);
/* Whether worker_stream_take has something to tell. */
bool worker_stream_ready(worker *w, const worker_stream *stream);
/* Copies what the next round has brought, in the order of the values (data[i] NULL: not); *more:
 * whether there was one. At the end of a loop that failed, its error. */
shoal_status worker_stream_take(worker *w, worker_stream *stream, void *const *data,
                                const size_t *bytes, bool *more) SHOAL_CHECK_RESULT;
/* Rounds that there were, so far. */
uint64_t worker_stream_rounds(worker *w, const worker_stream *stream);

#endif
