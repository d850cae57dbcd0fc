/* Text that comes from elsewhere, put into files of a form of their own: nothing in it can break
 * that form. Bytes that are no UTF-8, and control characters, become '?'. */
#ifndef VIEW_TEXT_H
#define VIEW_TEXT_H

#include <stdbool.h>
#include <stdio.h>

/* Bytes of the UTF-8 character at `text`; 0 when it is none. */
int view_character(const void *text);
/* Makes it so, in place. Returns text. */
char *view_valid(char *text);
/* Text or the value of an attribute of XML. */
void view_put_xml(FILE *out, const char *text);

#endif
