#include "progress.h"

#include "text.h"

#include <string.h>

static const double first_after = 1, terminal_every = 0.1, lines_every = 3;

void progress_begin(cmd_progress *p, bool quiet) {
    *p = (cmd_progress){.on = !quiet, .terminal = cmd_columns(stderr) > 0};
    p->next = cmd_now() + first_after;
}

void progress_phase(cmd_progress *p, const char *what) {
    p->what = what;
    p->start = cmd_now();
    p->done = p->total = 0;
}

static char *clock_text(double seconds, char out[TEXT_ROOM]) {
    long long s = seconds < 0 ? 0 : seconds > 1e9 ? (long long)1e9 : (long long)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, TEXT_ROOM, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(out, TEXT_ROOM, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return out;
}

/* "multiplying  43 % [#####     ] 182.4 GFLOP/s  0:12, 0:16 left", less where there is no room. */
static void draw_line(const cmd_progress *p, const char *rate, const char *times, int columns) {
    char bar[64], line[256];
    int room = columns - 1;
    int fixed = (int)(strlen(p->what) + strlen(rate) + strlen(times)) + 12;
    int width = room - fixed < 40 ? room - fixed : 40;
    snprintf(line, sizeof line, "%s", p->what);
    if (p->total > 0) snprintf(line, sizeof line, "%s %3.0f %%", p->what, p->done / p->total * 100);
    if (width >= 8 && p->total > 0) {
        int full = (int)(p->done / p->total * width);
        memset(bar, ' ', (size_t)width);
        memset(bar, '#', (size_t)full);
        bar[width] = 0;
        snprintf(line + strlen(line), sizeof line - strlen(line), " [%s]", bar);
    }
    if ((int)(strlen(line) + strlen(rate)) + 1 < room) strcat(strcat(line, " "), rate);
    if ((int)(strlen(line) + strlen(times)) + 2 < room) strcat(strcat(line, "  "), times);
    fprintf(stderr, "\r\x1b[K%.*s", room, line);
    fflush(stderr);
}

/* Where there is no terminal. */
static void print_line(const cmd_progress *p, const char *rate, const char *times) {
    fprintf(stderr, "%s: ", p->what);
    if (p->total > 0) fprintf(stderr, "%.0f %%, ", p->done / p->total * 100);
    fprintf(stderr, "%s%s%s\n", rate, rate[0] != 0 ? ", " : "", times);
}

void progress_wait(cmd_progress *p) {
    double now = cmd_now(), elapsed = now - p->start;
    char rate[TEXT_ROOM] = "", times[2 * TEXT_ROOM + 8], spent[TEXT_ROOM], left[TEXT_ROOM];
    if (!p->on || now < p->next) return;
    p->next = now + (p->terminal ? terminal_every : lines_every);
    if (p->done > 0 && elapsed > 0) {
        if (p->bytes)
            strcat(text_bytes((uint64_t)(p->done / elapsed), rate), "/s");
        else
            snprintf(rate, sizeof rate, "%.1f GFLOP/s", p->done / elapsed * 1e-9);
        snprintf(times, sizeof times, "%s, %s left", clock_text(elapsed, spent),
                 clock_text(elapsed * (p->total - p->done) / p->done, left));
    } else {
        snprintf(times, sizeof times, "%s", clock_text(elapsed, spent));
    }
    if (p->terminal)
        draw_line(p, rate, times, cmd_columns(stderr));
    else
        print_line(p, rate, times);
    p->drawn = true;
}

void progress_update(cmd_progress *p, double done, double total) {
    p->done = total > 0 ? done : 1;
    p->total = total > 0 ? total : 1;
    progress_wait(p);
}

void progress_end(cmd_progress *p) {
    if (p->drawn && p->terminal) {
        fputs("\r\x1b[K", stderr);
        fflush(stderr);
    }
    p->drawn = false;
}
