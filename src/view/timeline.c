#include "view/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    LEFT = 176,
    RIGHT = 28,
    HEAD = 64,
    LEGEND_ROW = 20,
    GAP = 8,
    NEWS = 20, /* the strip for who came and went, where there is something in it */
    AXIS = 40,
    WORKER_LANE = 60,
    CLIENT_LANE = 38,
    MOST_WORKERS = 64,
    MOST_CLIENTS = 16,
    OPERATIONS = 9,
    COLOURS = OPERATIONS + 1,
    TEXT = 256
};

/* Ten that are told apart, also by who sees few colours; the last is for all the rest. */
static const uint32_t palette[COLOURS] = {0x4e79a7, 0xf28e2b, 0x59a14f, 0xe15759, 0xb07aa1,
                                          0xedc948, 0x76b7b2, 0xff9da7, 0x9c755f, 0xa8adb4};
static const uint32_t ink = 0x1f2328, grey = 0x6a737d, pale = 0xf4f6f8, grid = 0xdfe3e8,
                      waits = 0xd3d9e0, compiles = 0x444c56, comes = 0x2f9bd8, goes = 0x9ac9e8,
                      reads = 0xcbb8e0, went = 0xcf222e, came = 0x1a7f37;

typedef struct drawing {
    const view_record *record;
    const view_canvas *canvas;
    double width, plot;                     /* plot: pixels of the record */
    char operations[OPERATIONS][VIEW_NAME]; /* by time, the longest first */
    double times[COLOURS];                  /* seconds, of each colour */
    uint32_t n_operations;
    uint8_t *colours; /* per label */
    double *bins;     /* per pixel and colour: seconds of what is too narrow to be drawn */
} drawing;

/* ---- which colour ---- */

typedef struct operation {
    char name[VIEW_NAME];
    double seconds;
} operation;

static int longest_first(const void *a, const void *b) {
    const operation *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Which of `n` operations is called so; n when none is. */
static uint32_t operation_at(const operation *operations, uint32_t n, const char *name) {
    uint32_t at = 0;
    while (at < n && strcmp(operations[at].name, name) != 0) at++;
    return at;
}

/* The operations that name what was computed, by their time in all; `room` at most. */
static uint32_t add_up(const view_record *record, const view_operation_sum *sums, uint32_t n,
                       operation *out, uint32_t room) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        char name[VIEW_NAME];
        view_operation(record->labels[sums[i].label], name, sizeof name);
        uint32_t at = operation_at(out, found, name);
        if (at == room) continue;
        if (at == found) {
            out[found] = (operation){0};
            snprintf(out[found++].name, VIEW_NAME, "%s", name);
        }
        out[at].seconds += sums[i].seconds;
    }
    if (found > 0) qsort(out, found, sizeof *out, longest_first);
    return found;
}

static bool choose_colours(drawing *d) {
    static const double least = 1e-3; /* of the time, for a colour of its own */
    enum { MOST = 256 };
    const view_record *record = d->record;
    double total = 0;
    view_operation_sum *sums = calloc((size_t)record->n_labels + 1, sizeof *sums);
    operation *operations = calloc(MOST, sizeof *operations);
    d->colours = calloc((size_t)record->n_labels + 1, 1);
    bool good = sums != NULL && operations != NULL && d->colours != NULL;
    uint32_t n = good ? view_operations(record, sums, record->n_labels) : 0;
    uint32_t found = good ? add_up(record, sums, n, operations, MOST) : 0;
    for (uint32_t i = 0; i < n; i++) total += sums[i].seconds;
    while (d->n_operations < found && d->n_operations < OPERATIONS &&
           operations[d->n_operations].seconds >= least * total) {
        memcpy(d->operations[d->n_operations], operations[d->n_operations].name, VIEW_NAME);
        d->n_operations++;
    }
    for (uint32_t i = 0; i < n; i++) {
        char name[VIEW_NAME];
        view_operation(record->labels[sums[i].label], name, sizeof name);
        uint32_t at = operation_at(operations, d->n_operations, name);
        uint8_t colour = (uint8_t)(at < d->n_operations ? at : COLOURS - 1);
        d->colours[sums[i].label] = colour;
        d->times[colour] += sums[i].seconds;
    }
    free(operations);
    free(sums);
    return good;
}

/* ---- words ---- */

static const char *seconds_text(double seconds, char out[TEXT]) {
    if (seconds >= 0.9995)
        snprintf(out, TEXT, "%.3g s", seconds);
    else if (seconds >= 0.9995e-3)
        snprintf(out, TEXT, "%.3g ms", seconds * 1e3);
    else
        snprintf(out, TEXT, "%.3g \xC2\xB5s", seconds * 1e6);
    return out;
}

static double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* What is told of a span when somebody points at it. */
static const char *span_title(const drawing *d, const view_span *span, char out[TEXT]) {
    char time[TEXT], bytes[TEXT], peer[TEXT] = "";
    const view_lane *other = view_lane_of_slot(d->record, span->peer);
    const char *label = span->label < d->record->n_labels ? d->record->labels[span->label] : "";
    if (other != NULL) view_lane_name(d->record, other, peer, sizeof peer);
    seconds_text(span->to - span->from, time);
    shoal_bytes_text(span->bytes, bytes);
    switch (span->kind) {
    case SHOAL_EVENT_SEND: snprintf(out, TEXT, "%.60s to %.80s, %.40s", bytes, peer, time); break;
    case SHOAL_EVENT_RECEIVE:
        snprintf(out, TEXT, "%.60s from %.80s, %.40s", bytes, peer, time);
        break;
    case SHOAL_EVENT_COMPUTE: snprintf(out, TEXT, "%.120s, %.40s", label, time); break;
    default: snprintf(out, TEXT, "%s %.120s, %.40s", shoal_event_name(span->kind), label, time);
    }
    return out;
}

/* ---- rows ---- */

static double x_of(const drawing *d, double seconds) {
    return LEFT + (d->record->seconds > 0 ? seconds / d->record->seconds * d->plot : 0);
}

/* Adds a span's time to the pixels that it lies in. */
static void add_to_bins(drawing *d, const view_span *span, int colour) {
    double each = d->record->seconds / d->plot;
    int first = (int)(span->from / each), last = (int)(span->to / each);
    for (int i = first; i <= last && i < (int)d->plot; i++) {
        double from = fmax(span->from, i * each), to = fmin(span->to, (i + 1) * each);
        if (to > from) d->bins[i * COLOURS + colour] += to - from;
    }
}

/* Pixels alike side by side are one rectangle. */
static void draw_bins(drawing *d, double y, double height, const uint32_t *colours) {
    enum { LEVELS = 6 };
    double each = d->record->seconds / d->plot;
    int start = 0, colour_before = 0, level_before = 0;
    for (int i = 0; i <= (int)d->plot; i++) {
        int colour = 0, level = 0;
        double sum = 0;
        for (int c = 0; c < COLOURS && i < (int)d->plot; c++) {
            double part = d->bins[i * COLOURS + c];
            sum += part;
            if (part > d->bins[i * COLOURS + colour]) colour = c;
        }
        if (sum > 0) level = 1 + (int)(fmin(sum / each, 1) * (LEVELS - 1) + 0.5);
        if (level == level_before && (colour == colour_before || level == 0)) continue;
        if (level_before > 0)
            d->canvas->rectangle(d->canvas->context, LEFT + start, y, i - start, height,
                                 colours[colour_before],
                                 0.15 + 0.85 * (level_before - 1) / (LEVELS - 1), 0, NULL);
        start = i;
        colour_before = colour;
        level_before = level;
    }
}

/* The spans of one kind in one lane. `colours`: by operation, or one for all. */
static void draw_row(drawing *d, uint32_t lane, uint8_t kind, double y, double height,
                     const uint32_t *colours, bool by_operation) {
    static const double narrow = 2;
    const view_canvas *canvas = d->canvas;
    char title[TEXT];
    memset(d->bins, 0, (size_t)(d->plot + 1) * COLOURS * sizeof *d->bins);
    for (size_t i = 0; i < d->record->n_spans; i++) {
        const view_span *span = &d->record->spans[i];
        if (span->lane != lane || span->kind != kind || span->mark) continue;
        int colour =
            by_operation && span->label < d->record->n_labels ? d->colours[span->label] : 0;
        double x = x_of(d, span->from), width = x_of(d, span->to) - x;
        if (width < narrow) {
            add_to_bins(d, span, colour);
            continue;
        }
        canvas->rectangle(canvas->context, x, y, width - 0.6, height, colours[colour], 1,
                          height > 20 ? 2 : 0, span_title(d, span, title));
        if (height < 20 || width < 44 || span->label >= d->record->n_labels) continue;
        bool dark = kind == SHOAL_EVENT_COMPUTE && colours[colour] != palette[5];
        canvas->text(canvas->context, x + 6, y + height / 2 + 4, 11, false, VIEW_LEFT,
                     dark ? 0xffffff : ink, width - 10, d->record->labels[span->label]);
    }
    draw_bins(d, y, height, colours);
}

static void draw_marks(const drawing *d, uint32_t lane, uint8_t kind, double y, double height,
                       uint32_t colour) {
    double before = -1;
    for (size_t i = 0; i < d->record->n_spans; i++) {
        const view_span *span = &d->record->spans[i];
        double x = floor(x_of(d, span->from)) + 0.5;
        if (span->lane != lane || span->kind != kind || !span->mark || x < before + 2) continue;
        d->canvas->line(d->canvas->context, x, y, x, y + height, colour, 1, false);
        before = x;
    }
}

/* ---- lanes ---- */

static void draw_worker(drawing *d, uint32_t i, double y) {
    const view_lane *lane = &d->record->lanes[i];
    const view_canvas *c = d->canvas;
    view_lane_sum sum = view_sum(d->record, i);
    char name[VIEW_NAME + 32], line[TEXT + TEXT + 32], in[TEXT], out[TEXT];
    view_lane_name(d->record, lane, name, sizeof name);
    c->text(c->context, 20, y + 18, 13, true, VIEW_LEFT, ink, LEFT - 32, name);
    snprintf(line, sizeof line, "%s%s%.0f %% busy%s", lane->what, lane->what[0] != 0 ? ", " : "",
             share(sum.busy, d->record->seconds), lane->lost ? ", left" : "");
    c->text(c->context, 20, y + 33, 10.5, false, VIEW_LEFT, lane->lost ? went : grey, LEFT - 32,
            line);
    snprintf(line, sizeof line, "in %s, out %s", shoal_bytes_text(sum.received, in),
             shoal_bytes_text(sum.sent, out));
    c->text(c->context, 20, y + 47, 10.5, false, VIEW_LEFT, grey, LEFT - 32, line);
    draw_row(d, i, SHOAL_EVENT_WAIT, y + 6, 28, &waits, false);
    draw_row(d, i, SHOAL_EVENT_COMPUTE, y + 6, 28, palette, true);
    draw_row(d, i, SHOAL_EVENT_COMPILE, y + 6, 28, &compiles, false);
    draw_row(d, i, SHOAL_EVENT_RECEIVE, y + 37, 5, &comes, false);
    draw_row(d, i, SHOAL_EVENT_SEND, y + 44, 5, &goes, false);
}

static void draw_client(drawing *d, uint32_t i, double y) {
    const view_lane *lane = &d->record->lanes[i];
    const view_canvas *c = d->canvas;
    char name[VIEW_NAME + 32], line[TEXT];
    uint64_t programs = 0;
    for (size_t k = 0; k < d->record->n_spans; k++)
        programs += d->record->spans[k].lane == i && d->record->spans[k].kind == SHOAL_EVENT_SUBMIT;
    view_lane_name(d->record, lane, name, sizeof name);
    c->text(c->context, 20, y + 14, 12, true, VIEW_LEFT, ink, LEFT - 32, name);
    snprintf(line, sizeof line, "client, %llu program%s", (unsigned long long)programs,
             programs == 1 ? "" : "s");
    c->text(c->context, 20, y + 27, 10.5, false, VIEW_LEFT, grey, LEFT - 32, line);
    draw_row(d, i, SHOAL_EVENT_READ, y + 6, 14, &reads, false);
    draw_marks(d, i, SHOAL_EVENT_SUBMIT, y + 21, 6, 0x6f42c1);
}

typedef enum shown { NOT_SHOWN, AS_WORKER, AS_CLIENT } shown;

/* A client's lane is worth its room when it did something. */
static shown shows(const view_record *record, uint32_t i) {
    if (record->lanes[i].role == VIEW_WORKER) return AS_WORKER;
    if (record->lanes[i].role == VIEW_HUB) return NOT_SHOWN;
    for (size_t k = 0; k < record->n_spans; k++)
        if (record->spans[k].lane == i && (record->spans[k].kind == SHOAL_EVENT_SUBMIT ||
                                           record->spans[k].kind == SHOAL_EVENT_READ))
            return AS_CLIENT;
    return NOT_SHOWN;
}

typedef enum pass_kind { MEASURE, BACKGROUNDS, CONTENTS } pass_kind;

/* Draws the lanes, or only adds their heights up. */
static double each_lane(drawing *d, pass_kind pass, double y) {
    const view_record *record = d->record;
    const view_canvas *c = d->canvas;
    int workers = 0, clients = 0;
    for (int role = AS_WORKER; role <= AS_CLIENT; role++)
        for (uint32_t i = 0; i < record->n_lanes; i++) {
            if ((int)shows(record, i) != role) continue;
            bool worker = role == AS_WORKER;
            if (worker ? workers++ >= MOST_WORKERS : clients++ >= MOST_CLIENTS) continue;
            double height = worker ? WORKER_LANE : CLIENT_LANE;
            if (pass == BACKGROUNDS)
                c->rectangle(c->context, 8, y, d->width - 16, height - 6, pale, 1, 4, NULL);
            if (pass == CONTENTS && worker) draw_worker(d, i, y);
            if (pass == CONTENTS && !worker) draw_client(d, i, y);
            y += height;
        }
    return y;
}

/* ---- the rest ---- */

static void draw_axis(const drawing *d, double top, double bottom) {
    const view_canvas *c = d->canvas;
    double seconds = d->record->seconds, least = seconds * 90 / d->plot, step = 1;
    char text[TEXT];
    if (seconds > 0) {
        static const double of_ten[] = {1, 2, 5, 10};
        double power = pow(10, floor(log10(least)));
        int i = 0;
        while (i < 3 && of_ten[i] * power < least) i++;
        step = of_ten[i] * power;
    }
    for (double at = 0; at <= seconds * 1.0001; at += step) {
        double x = floor(x_of(d, at)) + 0.5;
        c->line(c->context, x, top, x, bottom + 4, grid, 1, false);
        c->text(c->context, x, bottom + 18, 10.5, false, VIEW_MIDDLE, grey, 0,
                at == 0 ? "0" : seconds_text(at, text));
    }
}

static void draw_head(const drawing *d) {
    const view_record *record = d->record;
    const view_canvas *c = d->canvas;
    double busy = 0, moved = 0;
    unsigned long long programs = 0;
    int workers = 0;
    char title[TEXT + 16], line[TEXT + TEXT], bytes[TEXT], when[64] = "", length[TEXT];
    for (uint32_t i = 0; i < record->n_lanes; i++) {
        view_lane_sum sum = view_sum(record, i);
        moved += (double)sum.received;
        if (record->lanes[i].role != VIEW_WORKER) continue;
        workers++;
        busy += sum.busy;
    }
    for (size_t i = 0; i < record->n_spans; i++)
        programs += record->spans[i].kind == SHOAL_EVENT_FINISH;
    time_t at = (time_t)(record->unix_ms / 1000);
    struct tm utc;
    if (record->unix_ms > 0 && gmtime_r(&at, &utc) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC, ", &utc);
    snprintf(title, sizeof title, "%s of a pool", seconds_text(record->seconds, length));
    c->text(c->context, 20, 30, 18, true, VIEW_LEFT, ink, d->width - 40, title);
    snprintf(line, sizeof line, "%s%d worker%s, %llu program%s, %.0f %% busy, %s moved", when,
             workers, workers == 1 ? "" : "s", programs, programs == 1 ? "" : "s",
             share(busy, workers * record->seconds), shoal_bytes_text((uint64_t)moved, bytes));
    if (record->lost > 0)
        snprintf(line + strlen(line), sizeof line - strlen(line), "; %llu events are missing",
                 (unsigned long long)record->lost);
    c->text(c->context, 20, 50, 12, false, VIEW_LEFT, grey, d->width - 40, line);
}

/* One entry of the legend; on the next row when this one is full. */
static void draw_key(const drawing *d, double *x, double *y, uint32_t colour, const char *text) {
    const view_canvas *c = d->canvas;
    double width = view_text_width(text, 11) + 34;
    if (*x + width > d->width - RIGHT && *x > 20) {
        *x = 20;
        *y += LEGEND_ROW;
    }
    if (c != NULL) {
        c->rectangle(c->context, *x, *y - 10, 12, 12, colour, 1, 2, NULL);
        c->text(c->context, *x + 18, *y, 11, false, VIEW_LEFT, ink, 0, text);
    }
    *x += width;
}

static bool has(const view_record *record, uint8_t kind) {
    for (size_t i = 0; i < record->n_spans; i++)
        if (record->spans[i].kind == kind) return true;
    return false;
}

/* Draws the legend, or only measures; returns where it ends. */
static double draw_legend(const drawing *d) {
    double x = 20, y = HEAD + 12, busy = 0;
    char text[VIEW_NAME + 32];
    for (int i = 0; i < COLOURS; i++) busy += d->times[i];
    for (uint32_t i = 0; i < COLOURS; i++) {
        if (i < OPERATIONS ? i >= d->n_operations : d->times[i] <= 5e-4 * busy) continue;
        snprintf(text, sizeof text, "%s %.*f %%", i < OPERATIONS ? d->operations[i] : "others",
                 share(d->times[i], busy) < 9.95 ? 1 : 0, share(d->times[i], busy));
        draw_key(d, &x, &y, palette[i], text);
    }
    static const struct {
        uint8_t kind;
        const uint32_t *colour;
        const char *text;
    } others[] = {{SHOAL_EVENT_COMPILE, &compiles, "compiling"},
                  {SHOAL_EVENT_WAIT, &waits, "waiting for others"},
                  {SHOAL_EVENT_RECEIVE, &comes, "receiving"},
                  {SHOAL_EVENT_SEND, &goes, "sending"},
                  {SHOAL_EVENT_READ, &reads, "client waits for a value"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has(d->record, others[i].kind)) draw_key(d, &x, &y, *others[i].colour, others[i].text);
    return y + GAP;
}

/* Of the hub, and for everyone to see. */
static bool is_news(const view_record *record, const view_span *span) {
    bool worth = span->kind == SHOAL_EVENT_LOSS || span->kind == SHOAL_EVENT_JOIN ||
                 span->kind == SHOAL_EVENT_FAIL || span->kind == SHOAL_EVENT_RERUN;
    return worth && record->lanes[span->lane].role == VIEW_HUB;
}

static double news_height(const view_record *record) {
    for (size_t i = 0; i < record->n_spans; i++)
        if (is_news(record, &record->spans[i])) return NEWS;
    return GAP;
}

/* Who came, who went, what failed: lines through all lanes. */
static void draw_news(const drawing *d, double top, double bottom) {
    const view_canvas *c = d->canvas;
    double before = 0;
    char text[TEXT];
    for (size_t i = 0; i < d->record->n_spans; i++) {
        const view_span *span = &d->record->spans[i];
        if (!is_news(d->record, span)) continue;
        uint32_t colour = span->kind == SHOAL_EVENT_JOIN ? came : went;
        double x = floor(x_of(d, span->from)) + 0.5;
        const char *label = span->label < d->record->n_labels ? d->record->labels[span->label] : "";
        if (x < before + 3 && before > 0) continue;
        c->line(c->context, x, top + 4, x, bottom, colour, 1, true);
        snprintf(text, sizeof text, "%s: %.120s", shoal_event_name(span->kind), label);
        bool late = x > LEFT + 0.6 * d->plot;
        c->text(c->context, late ? x - 4 : x + 4, top + 13, 10.5, false,
                late ? VIEW_RIGHT : VIEW_LEFT, colour, late ? x - LEFT : d->width - x - 12, text);
        before = x + view_text_width(text, 10.5);
    }
}

static bool prepare(drawing *d, const view_record *record, double width) {
    *d = (drawing){.record = record, .width = width, .plot = floor(width - LEFT - RIGHT)};
    return choose_colours(d);
}

double view_timeline_height(const view_record *record, double width) {
    drawing d;
    double height = HEAD + AXIS;
    if (prepare(&d, record, width))
        height = each_lane(&d, MEASURE, draw_legend(&d) + news_height(record)) + AXIS;
    free(d.colours);
    return height;
}

bool view_timeline_draw(const view_record *record, double width, const view_canvas *canvas) {
    drawing d;
    bool ready = prepare(&d, record, width);
    d.canvas = canvas;
    d.bins = calloc((size_t)(d.plot + 2) * COLOURS, sizeof *d.bins);
    if (ready && d.bins != NULL) {
        double height = view_timeline_height(record, width);
        canvas->rectangle(canvas->context, 0, 0, width, height, 0xffffff, 1, 0, NULL);
        draw_head(&d);
        double news = news_height(record), top = draw_legend(&d) + news, bottom = height - AXIS;
        each_lane(&d, BACKGROUNDS, top);
        draw_axis(&d, top, bottom);
        each_lane(&d, CONTENTS, top);
        draw_news(&d, top - news, bottom);
        if (record->n_spans == 0)
            canvas->text(canvas->context, LEFT + d.plot / 2, top + 24, 13, false, VIEW_MIDDLE, grey,
                         d.plot, "nothing happened");
    }
    ready = ready && d.bins != NULL;
    free(d.bins);
    free(d.colours);
    return ready;
}
