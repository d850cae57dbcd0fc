/* Reading the values of options. A wrong one ends the process by cmd_usage, with `what` (the
 * option's name), the value and what would be right. */
#ifndef CMD_ARGS_H
#define CMD_ARGS_H

#include "cmd.h"

enum { ARGS_MOST_SLOTS = 1024 };

/* A whole number from `least` to `most`. */
int64_t args_count(const char *what, const char *text, int64_t least, int64_t most);
/* A finite number above zero. */
double args_positive(const char *what, const char *text);
/* Bytes: "8G", "1.5GiB", "512M"; K, M, G, T are powers of 1024. */
uint64_t args_size(const char *what, const char *text);
/* Rows "I:J": from I up to but without J. */
typedef struct args_range {
    int64_t first, last; /* last -1: not given */
} args_range;
args_range args_rows(const char *what, const char *text);

/* Shares of the work: "50,30,20", "50%,30%,20%" or "50%,-,-", where those that are left out divide
 * the rest among themselves. */
typedef struct args_share {
    const char *text; /* as given */
    uint32_t count;   /* 0: not given */
    double values[ARGS_MOST_SLOTS];
    bool open[ARGS_MOST_SLOTS]; /* left out */
    bool some_open;
} args_share;
void args_shares(const char *what, const char *text, args_share *out);

/* Slots by name, each with a share or without: "desk/cpu,desk/opencl,laptop=30%". */
typedef struct args_slots {
    uint32_t count; /* 0: not given */
    const char *names[ARGS_MOST_SLOTS];
    args_share share; /* count 0: none has any */
} args_slots;
/* The text is cut up, and stays. */
void args_named_slots(const char *what, char *text, args_slots *out);

/* How a product is divided: `rows` x `columns` blocks of the result, each a sum of `inner` parts.
 * 0 stands for as many as there are slots. */
typedef struct args_split {
    uint32_t rows, columns, inner;
} args_split;
args_split args_splits(const char *what, const char *text);
/* "MxKxN": whether it is one. */
bool args_shape(const char *text, int64_t out[3]);

/* An option that may be given several times: adds its value to the list, with a comma; the list. */
typedef struct args_list {
    char text[512];
} args_list;
const char *args_more(const char *what, args_list *list, const char *value);

#endif
