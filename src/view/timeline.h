/* A record as a picture: a lane per worker and client, what was done when, coloured by operation.
 */
#ifndef VIEW_TIMELINE_H
#define VIEW_TIMELINE_H

#include "view/canvas.h"
#include "view/record.h"

enum { VIEW_TIMELINE_LEAST = 480, VIEW_TIMELINE_MOST = 8000 };

/* The height of the picture of that width. */
double view_timeline_height(const view_record *record, double width);
/* Draws it. However much there is in a record, a pixel's column takes a few rectangles per lane:
 * what is narrower than that is shown by how much of the time it takes. False without memory. */
bool view_timeline_draw(const view_record *record, double width, const view_canvas *canvas);

#endif
