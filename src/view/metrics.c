#include "view/metrics.h"

#include "view/text.h"

#include <string.h>

typedef struct pool {
    const shoal_pool_status *status;
    const shoal_slot *slots;
    uint32_t n_slots, watchers;
} pool;

/* ---- the tables: what is told of the pool, and of each device in it ---- */

typedef struct pool_metric {
    const char *name, *type, *help;
    double (*value)(const pool *pool);
} pool_metric;

typedef struct device_metric {
    const char *name, *type, *help;
    double (*value)(const shoal_slot *slot);
} device_metric;

static double epoch(const pool *p) { return (double)p->status->epoch; }
static double uptime(const pool *p) { return (double)p->status->uptime_ms * 1e-3; }
static double instances(const pool *p) { return (double)p->status->instances; }
static double losses(const pool *p) { return (double)p->status->losses; }
static double reruns(const pool *p) { return (double)p->status->reruns; }
static double values(const pool *p) { return (double)p->status->values; }
static double bytes(const pool *p) { return (double)p->status->bytes; }

static double sessions(const pool *p) {
    return p->status->sessions > p->watchers ? p->status->sessions - p->watchers : 0;
}

static double devices(const pool *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) count += p->slots[i].compute;
    return count;
}

/* A worker may lend several devices; its name is its own. */
static double workers(const pool *p) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        bool seen = !p->slots[i].compute;
        for (uint32_t j = 0; j < i && !seen; j++)
            seen = p->slots[j].compute && strcmp(p->slots[j].worker, p->slots[i].worker) == 0;
        count += !seen;
    }
    return count;
}

static const pool_metric pool_metrics[] = {
    {"shoal_uptime_seconds", "gauge", "Time since the hub was started.", uptime},
    {"shoal_epoch", "gauge", "Rises when workers join or are lost.", epoch},
    {"shoal_workers", "gauge", "Workers in the pool.", workers},
    {"shoal_slots", "gauge", "Devices in the pool that compute.", devices},
    {"shoal_sessions", "gauge", "Clients that are connected.", sessions},
    {"shoal_values", "gauge", "Values that are held.", values},
    {"shoal_value_bytes", "gauge", "Bytes of values, in clients' memory too.", bytes},
    {"shoal_instances_total", "counter", "Runs of programs that were numbered.", instances},
    {"shoal_losses_total", "counter", "Workers that left.", losses},
    {"shoal_reruns_total", "counter", "Programs run again because of that.", reruns},
};

static double one(const shoal_slot *s) { return 1; }
static double memory(const shoal_slot *s) { return (double)s->memory; }
static double held(const shoal_slot *s) { return (double)s->bytes; }
static double runs(const shoal_slot *s) { return (double)s->instances; }
static double nodes(const shoal_slot *s) { return (double)s->nodes; }
static double busy(const shoal_slot *s) { return (double)s->busy_ns * 1e-9; }
static double sent(const shoal_slot *s) { return (double)s->sent; }
static double received(const shoal_slot *s) { return (double)s->received; }
static double relayed(const shoal_slot *s) { return (double)s->relayed; }
static double paths(const shoal_slot *s) { return s->paths; }
static double paths_lost(const shoal_slot *s) { return (double)s->paths_lost; }
static double queued(const shoal_slot *s) { return s->queued; }

static const device_metric device_metrics[] = {
    {"shoal_device_info", "gauge", "What a slot is; always 1.", one},
    {"shoal_device_memory_bytes", "gauge", "Most bytes for values; 0 when unknown.", memory},
    {"shoal_device_value_bytes", "gauge", "Bytes of values held.", held},
    {"shoal_device_instances_total", "counter", "Runs it took part in.", runs},
    {"shoal_device_nodes_total", "counter", "Operations executed.", nodes},
    {"shoal_device_busy_seconds_total", "counter", "Time spent computing.", busy},
    {"shoal_device_sent_bytes_total", "counter", "Bytes of tensors sent to other slots.", sent},
    {"shoal_device_received_bytes_total", "counter", "Bytes of tensors received from them.",
     received},
    {"shoal_device_relayed_bytes_total", "counter",
     "Bytes that came to its process by way of the hub.", relayed},
    {"shoal_device_paths", "gauge", "Connections of its process with the hub, used together.",
     paths},
    {"shoal_device_paths_lost_total", "counter",
     "Connections of its process with the hub that ended while others went on.", paths_lost},
    {"shoal_device_queue", "gauge", "Programs handed out to it that are not through.", queued},
};

/* ---- the text ---- */

/* Names come from other machines: one bad byte in one of them would spoil the whole page. */
static void put_label(FILE *out, const char *name, const char *value) {
    fprintf(out, "%s=\"", name);
    for (const unsigned char *at = (const unsigned char *)value; *at != 0;) {
        int size = view_character(at);
        if (*at == '\n')
            fputs("\\n", out);
        else if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (size == 0 || *at < ' ' || *at == 127)
            fputc('?', out);
        else
            fwrite(at, 1, (size_t)size, out);
        at += size > 0 ? size : 1;
    }
    fputc('"', out);
}

/* Whole numbers in full, as far as they are exact. */
static void put_value(FILE *out, double value) {
    bool whole = value >= 0 && value < 0x1p53 && value == (double)(uint64_t)value;
    fprintf(out, whole ? " %.0f\n" : " %.15g\n", value);
}

static void put_head(FILE *out, const char *name, const char *type, const char *help) {
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_device(FILE *out, const device_metric *metric, const shoal_slot *slot) {
    fprintf(out, "%s{slot=\"%u\",", metric->name, slot->slot);
    put_label(out, "worker", slot->worker);
    if (metric->value == one) {
        fputc(',', out);
        put_label(out, "host", slot->host);
        fputc(',', out);
        put_label(out, "backend", slot->backend);
        fputc(',', out);
        put_label(out, "device", slot->device);
    }
    fputc('}', out);
    put_value(out, metric->value(slot));
}

void view_metrics_write(FILE *out, const shoal_pool_status *status, const shoal_slot *slots,
                        uint32_t n_slots, uint32_t watchers) {
    const pool p = {status, slots, n_slots, watchers};
    put_head(out, "shoal_build_info", "gauge", "The hub's version; always 1.");
    fputs("shoal_build_info{", out);
    put_label(out, "version", status->version);
    fputs("} 1\n", out);
    for (size_t m = 0; m < sizeof pool_metrics / sizeof *pool_metrics; m++) {
        const pool_metric *metric = &pool_metrics[m];
        put_head(out, metric->name, metric->type, metric->help);
        fputs(metric->name, out);
        put_value(out, metric->value(&p));
    }
    for (size_t m = 0; m < sizeof device_metrics / sizeof *device_metrics; m++) {
        const device_metric *metric = &device_metrics[m];
        put_head(out, metric->name, metric->type, metric->help);
        for (uint32_t i = 0; i < n_slots; i++)
            if (slots[i].compute) put_device(out, metric, &slots[i]);
    }
}
