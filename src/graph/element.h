/* Elements of constants as text. Both directions want the locale "C": they use printf and strtod.
 */
#ifndef GRAPH_ELEMENT_H
#define GRAPH_ELEMENT_H

#include "base/str.h"

enum { GRAPH_MAX_ELEMENT_TEXT = 63 };

/* true, -5, 1.5e+00; the fewest digits that give the same element back; NaN and infinity by their
 * bits, as 0x7F800000. */
void graph_element_print(shoal_dtype dtype, const void *element, base_str *out);
/* False when the text is none, or out of the type's range. */
bool graph_element_parse(shoal_dtype dtype, const char *text, void *element);

#endif
