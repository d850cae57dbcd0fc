/* A record as a file: Chrome's Trace Event Format in its JSON object form, which chrome://tracing,
 * https://ui.perfetto.dev and others show.
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#ifndef VIEW_CHROME_H
#define VIEW_CHROME_H

#include "view/record.h"

/* False without memory; errors of writing show in ferror. */
bool view_chrome_write(FILE *out, const view_record *record);
/* Reads what view_chrome_write wrote; bytes from anybody. False with a message in `error`. Freed
 * with view_record_fini, also then. */
bool view_chrome_read(const char *text, size_t bytes, view_record *out, char *error, size_t room);

#endif
