/* The files that keys lie in: lines of words, in the user's configuration folder. Any thread. */
#ifndef WIRE_KEYS_FILE_H
#define WIRE_KEYS_FILE_H

#include "base/str.h"
#include "wire/keys.h"

enum { WIRE_FILE_WORDS = 4 };

shoal_status wire_file_path(const char *name, char *out, size_t room) SHOAL_CHECK_RESULT;
/* All of it; nothing when there is none. Fails with DENIED when others can read it. */
shoal_status wire_file_read(const char *name, base_str *out) SHOAL_CHECK_RESULT;
/* Zeroes and frees what was read. */
void wire_file_forget(base_str *text);
/* Replaces it; call with the lock. */
shoal_status wire_file_write(const char *name, const base_str *lines) SHOAL_CHECK_RESULT;
/* One thread of one process at a time; *out is to be closed. BUSY: another has held it for seconds.
 */
shoal_status wire_file_lock(int *out) SHOAL_CHECK_RESULT;
/* Reading a file line by line; it starts at the text, which is cut up. */
typedef struct wire_file_cursor {
    char *at;
    unsigned line; /* of `words`, from 1 */
    char *words[WIRE_FILE_WORDS];
} wire_file_cursor;
/* The number of words in the next line that has any; 0 at the end. */
int wire_file_line(wire_file_cursor *c);

#endif
