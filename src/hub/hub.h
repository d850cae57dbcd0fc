/* The hub: who is in the pool, where values lie, which program runs when. It plans programs,
 * numbers their instances and hands out the parts; tensor bytes never pass through it.
 *
 * Threads: everything happens under the pump of the wire it is attached to, so it has no lock. */
#ifndef HUB_HUB_H
#define HUB_HUB_H

#include "wire/wire.h"

typedef struct hub hub;

/* Attaches a hub to a peer, as its WIRE_HUB part; call before the wire starts. */
shoal_status hub_new(wire_peer *wire, hub **out) SHOAL_CHECK_RESULT;
/* For tests: as shoal_hub_options.panels. Fails with INVALID when there are too many. */
shoal_status hub_set_panels(hub *h, uint32_t panels) SHOAL_CHECK_RESULT;
/* Members are told the key by which artifacts are signed, and a process of this hub's own user may
 * be the keeper, whom they are asked of. */
void hub_keep_artifacts(hub *h, const uint8_t key[WIRE_KEY]);
/* After the wire has been destroyed. */
void hub_destroy(hub **h);

#endif
