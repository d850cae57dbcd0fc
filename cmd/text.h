/* Tables and numbers for people: and the same tables as JSON. */
#ifndef CMD_TEXT_H
#define CMD_TEXT_H

#include "cmd.h"

#include <cjson/cJSON.h>

/* Room for any of the texts below. */
#define TEXT_ROOM 48
/* "1,234,567"; "1.5 GiB"; "1.24 s", "2:05 min". They return `out`. */
char *text_count(int64_t value, char out[TEXT_ROOM]);
char *text_bytes(uint64_t bytes, char out[TEXT_ROOM]);
char *text_seconds(double seconds, char out[TEXT_ROOM]);

/* A table is built as a JSON array of objects, one per row, and shown from it: both forms tell the
 * same. A column names the key in the objects, its title, and how a number is shown. */
typedef struct text_column {
    const char *key, *title;
    char *(*show)(double value, char out[TEXT_ROOM]); /* NULL: a plain number */
    bool wide;                                        /* shown with --wide alone */
} text_column;
char *text_show_count(double value, char out[TEXT_ROOM]);
char *text_show_bytes(double value, char out[TEXT_ROOM]);
char *text_show_seconds(double value, char out[TEXT_ROOM]);
char *text_show_fixed(double value, char out[TEXT_ROOM]);
char *text_show_percent(double value, char out[TEXT_ROOM]);

/* Prints text that comes from elsewhere (a name, a token): nothing in it may steer the terminal. */
void text_print(const char *text);
/* The same and a newline, from column `at` on; words that are beyond the terminal's width go to
 * further lines, at column `indent`. Without a terminal there is one line. */
void text_wrapped(const char *text, int at, int indent);
/* Prints rows under titles, numbers to the right; as one block per row where the terminal is too
 * narrow. Without --wide only the columns that usually fit into 80. */
void text_table(const cJSON *rows, const text_column *columns, int n_columns);
/* Prints JSON and a newline; deletes it. Returns an exit code. */
int text_json(cJSON *json);
/* The same on one line: for what comes bit by bit. */
int text_json_line(cJSON *json);
/* An object with one string. */
int text_json_pair(const char *key, const char *value);
/* Ends a list: rows, which it frees, as JSON with --json; else says what there is when there are
 * none. code: of making it; returned, but for what printing comes to. */
int text_list(cJSON *rows, int code, const char *none);

#endif
