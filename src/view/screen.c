#include "view/screen.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 24, BAR = 10, LINE = 512, NAME = 16, NARROW = 80 };

/* "950", "12.3k", "4.56M": three digits that count. */
static const char *short_count(double value, char out[ROOM]) {
    static const char units[] = " kMGTPE";
    int unit = 0;
    for (; value >= 999.5 && unit < 6; unit++) value /= 1000;
    snprintf(out, ROOM, "%.*f%.*s",
             value < 9.995   ? 2
             : value < 99.95 ? 1
                             : 0,
             value, unit > 0, &units[unit]);
    if (unit == 0) snprintf(out, ROOM, value < 9.95 && value > 0 ? "%.1f" : "%.0f", value);
    return out;
}

/* The look before of the same device: a slot's number may be another's by now. */
static const shoal_slot *same_slot(const view_look *before, const shoal_slot *slot) {
    for (uint32_t i = 0; before != NULL && i < before->status.n_slots; i++)
        if (before->slots[i].slot == slot->slot && before->slots[i].pid == slot->pid &&
            before->slots[i].nodes <= slot->nodes)
            return &before->slots[i];
    return NULL;
}

static view_rates slot_rates(const view_look *before, const view_look *now,
                             const shoal_slot *slot) {
    const shoal_slot *old = same_slot(before, slot);
    double seconds = before != NULL ? now->at - before->at : 0;
    if (old == NULL || seconds <= 0) return (view_rates){0};
    double busy = (double)(slot->busy_ns - old->busy_ns) * 1e-9 / seconds;
    return (view_rates){.busy = busy < 1 ? busy : 1,
                        .nodes = (double)(slot->nodes - old->nodes) / seconds,
                        .runs = (double)(slot->instances - old->instances) / seconds,
                        .received = (double)(slot->received - old->received) / seconds,
                        .sent = (double)(slot->sent - old->sent) / seconds};
}

/* ---- smoothing ---- */

static void follow(double *rate, double now, double part) { *rate += part * (now - *rate); }

/* The rates of a device, NULL while there are none. */
static const view_rates *smooth_rates(const view_smooth *s, const shoal_slot *slot) {
    for (uint32_t i = 0; i < s->n; i++)
        if (s->slots[i].slot == slot->slot && s->slots[i].pid == slot->pid)
            return &s->slots[i].rates;
    return NULL;
}

bool view_smooth_take(view_smooth *s, const view_look *before, const view_look *now) {
    uint32_t n = now->status.n_slots;
    struct view_smooth_slot *slots = calloc(n + 1, sizeof *slots);
    if (slots == NULL) return false;
    for (uint32_t i = 0; i < n; i++) {
        const shoal_slot *slot = &now->slots[i];
        const view_rates *old = same_slot(before, slot) != NULL ? smooth_rates(s, slot) : NULL;
        view_rates r = slot_rates(before, now, slot), *to = &slots[i].rates;
        slots[i].slot = slot->slot;
        slots[i].pid = slot->pid;
        *to = old != NULL ? *old : r;
        follow(&to->busy, r.busy, s->part);
        follow(&to->nodes, r.nodes, s->part);
        follow(&to->runs, r.runs, s->part);
        follow(&to->received, r.received, s->part);
        follow(&to->sent, r.sent, s->part);
    }
    free(s->slots);
    s->slots = slots;
    s->n = n;
    double programs = 0, seconds = now->at - before->at;
    if (seconds > 0 && now->status.instances > before->status.instances)
        programs = (double)(now->status.instances - before->status.instances) / seconds;
    follow(&s->programs, programs, s->begun ? s->part : 1);
    s->begun = true;
    return true;
}

void view_smooth_fini(view_smooth *s) {
    free(s->slots);
    *s = (view_smooth){.part = s->part};
}

/* ---- lines ---- */

/* A line, cut to the width, with nothing in it that could steer a terminal. */
static void put(FILE *out, const char *line, int columns) {
    for (int i = 0; line[i] != 0 && i < columns; i++)
        fputc((unsigned char)line[i] < ' ' || (unsigned char)line[i] >= 127 ? '?' : line[i], out);
    fputc('\n', out);
}

static void put_pool(FILE *out, const view_look *now, uint32_t workers, int columns) {
    char line[LINE], bytes[ROOM];
    const shoal_pool_status *s = &now->status;
    uint64_t up = s->uptime_ms / 1000;
    snprintf(line, sizeof line, "pool %.200s, version %.31s, up %llu:%02u:%02u, epoch %llu",
             s->address, s->version, (unsigned long long)(up / 3600), (unsigned)(up / 60 % 60),
             (unsigned)(up % 60), (unsigned long long)s->epoch);
    put(out, line, columns);
    snprintf(line, sizeof line,
             "%u device%s, %u session%s, %llu values (%s), %llu lost worker%s, %llu rerun%s",
             workers, workers == 1 ? "" : "s", s->sessions, s->sessions == 1 ? "" : "s",
             (unsigned long long)s->values, shoal_bytes_text(s->bytes, bytes),
             (unsigned long long)s->losses, s->losses == 1 ? "" : "s",
             (unsigned long long)s->reruns, s->reruns == 1 ? "" : "s");
    put(out, line, columns);
}

/* The width of the first column: the longest name, as far as there is room. */
static int name_width(const view_look *now, int columns) {
    int longest = NAME, room = columns - (columns >= VIEW_SCREEN_WIDE ? VIEW_SCREEN_WIDE : NARROW);
    for (uint32_t i = 0; i < now->status.n_slots; i++) {
        int length = (int)strlen(now->slots[i].worker);
        if (now->slots[i].compute && length > longest) longest = length;
    }
    return room < 0 ? NAME : longest - NAME > room ? NAME + room : longest;
}

/* "2"; "1(3)" when three were lost. */
static const char *paths_text(const shoal_slot *slot, char out[ROOM]) {
    int n = snprintf(out, ROOM, "%u", slot->paths);
    if (slot->paths_lost > 0)
        snprintf(out + n, ROOM - (size_t)n, "(%.0f)", (double)slot->paths_lost);
    return out;
}

static void put_slot(FILE *out, const shoal_slot *slot, const view_rates *r, int name,
                     int columns) {
    char line[LINE], bar[BAR + 1], nodes[ROOM], runs[ROOM], in[ROOM], to[ROOM], held[ROOM],
        limit[ROOM], paths[ROOM];
    int n = 0;
    bool wide = columns >= VIEW_SCREEN_WIDE;
    for (int i = 0; i < BAR; i++) bar[i] = i < (int)(r->busy * BAR + 0.5) ? '#' : '.';
    bar[BAR] = 0;
    n += snprintf(line, sizeof line, "%-*.*s", name, name, slot->worker);
    if (wide)
        n +=
            snprintf(line + n, sizeof line - (size_t)n, " %-10.10s %-8.8s", slot->host, slot->name);
    n += snprintf(line + n, sizeof line - (size_t)n, " %s %3.0f%% %7s %6s %9s %9s %9s", bar,
                  100 * r->busy, short_count(r->nodes, nodes), short_count(r->runs, runs),
                  shoal_bytes_text((uint64_t)r->received, in),
                  shoal_bytes_text((uint64_t)r->sent, to), shoal_bytes_text(slot->bytes, held));
    if (wide)
        n += snprintf(line + n, sizeof line - (size_t)n, " %9s %6u %6s",
                      slot->memory > 0 ? shoal_bytes_text(slot->memory, limit) : "-", slot->queued,
                      paths_text(slot, paths));
    put(out, line, columns);
}

/* Those by which anything has gone. */
static void put_paths(FILE *out, const view_look *now, int columns) {
    char line[LINE], speed[ROOM], sent[ROOM], saved[ROOM];
    for (uint32_t i = 0; i < now->n_paths; i++) {
        const shoal_path *path = &now->paths[i];
        if (path->sent == 0) continue;
        snprintf(line, sizeof line, "%-10.10s to %-10.10s by %-26.26s %9s/s  sent %9s, %9s less",
                 path->worker, path->other, path->address,
                 path->speed > 0 ? shoal_bytes_text((uint64_t)path->speed, speed) : "-",
                 shoal_bytes_text(path->sent, sent), shoal_bytes_text(path->saved, saved));
        put(out, line, columns);
    }
}

void view_screen_write(FILE *out, const view_smooth *smooth, const view_look *now, int columns) {
    char line[LINE], nodes[ROOM], runs[ROOM], moved[ROOM];
    static const view_rates none;
    view_rates sum = {0};
    uint32_t devices = 0;
    for (uint32_t i = 0; i < now->status.n_slots; i++) {
        const shoal_slot *slot = &now->slots[i];
        const view_rates *r = smooth_rates(smooth, slot);
        if (r == NULL) r = &none;
        sum.received += r->received; /* clients' memory receives as well */
        if (!slot->compute) continue;
        devices++;
        sum.busy += r->busy;
        sum.nodes += r->nodes;
    }
    put_pool(out, now, devices, columns);
    snprintf(line, sizeof line, "%s operations/s, %s programs/s, %s/s moved, %.0f %% busy",
             short_count(sum.nodes, nodes), short_count(smooth->programs, runs),
             shoal_bytes_text((uint64_t)sum.received, moved),
             devices > 0 ? 100 * sum.busy / devices : 0.0);
    put(out, line, columns);
    put(out, "", columns);
    bool wide = columns >= VIEW_SCREEN_WIDE;
    int name = name_width(now, columns);
    snprintf(line, sizeof line, "%-*s%s %-*s %7s %6s %9s %9s %9s%s", name, "WORKER",
             wide ? " HOST       DEVICE  " : "", BAR + 5, "BUSY", "OPS/S", "RUNS/S", "IN/S",
             "OUT/S", "HELD", wide ? "     LIMIT  QUEUE  PATHS" : "");
    put(out, line, columns);
    for (uint32_t i = 0; i < now->status.n_slots; i++) {
        const view_rates *r = smooth_rates(smooth, &now->slots[i]);
        if (now->slots[i].compute)
            put_slot(out, &now->slots[i], r != NULL ? r : &none, name, columns);
    }
    if (devices == 0) put(out, "no workers yet", columns);
    if (wide) put_paths(out, now, columns);
}
