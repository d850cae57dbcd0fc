/* What has gone out and is kept: pieces, and the items that they are of. The lock of the link is
 * held throughout. */
#ifndef WIRE_FLIGHT_H
#define WIRE_FLIGHT_H

#include "wire/framed.h"

void wire_flight_push(wire_flight *flight, wire_piece *piece);
wire_piece *wire_flight_pop(wire_flight *flight);
/* A piece is not needed any more: frees it, and puts its item on `through` when it was the last. */
void wire_piece_end(wire_piece *piece, wire_list *through);
/* One piece of an item less; the same. */
void wire_item_release(wire_item *item, wire_list *through);
/* Frees those of a list; without the lock. */
void wire_items_free(wire_list *list);

#endif
