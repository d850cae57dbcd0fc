/* Labels of events, each kept once. */
#include "view/record.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *text) {
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* The bucket of a text: where it is, or where it would go. */
static uint32_t *bucket_of(const view_labels *table, const char *text) {
    uint32_t at = hash(text) & (table->buckets - 1);
    while (table->index[at] != 0 && strcmp(table->texts[table->index[at] - 1], text) != 0)
        at = (at + 1) & (table->buckets - 1);
    return &table->index[at];
}

static bool grow(view_labels *table) {
    uint32_t room = table->room > 0 ? 2 * table->room : 64;
    char **texts = realloc(table->texts, room * sizeof *texts);
    if (texts == NULL) return false;
    table->texts = texts;
    uint32_t *index = calloc(2 * (size_t)room, sizeof *index);
    if (index == NULL) return false;
    free(table->index);
    table->index = index;
    table->buckets = 2 * room;
    table->room = room;
    for (uint32_t i = 0; i < table->n; i++) *bucket_of(table, table->texts[i]) = i + 1;
    return true;
}

uint32_t view_label(view_labels *table, const char *text) {
    if (table->n == table->room && !grow(table)) return UINT32_MAX;
    uint32_t *bucket = bucket_of(table, text);
    if (*bucket != 0) return *bucket - 1;
    char *copy = strdup(text);
    if (copy == NULL) return UINT32_MAX;
    table->texts[table->n++] = copy;
    *bucket = table->n;
    return table->n - 1;
}

void view_labels_free(view_labels *table) {
    for (uint32_t i = 0; i < table->n; i++) free(table->texts[i]);
    free(table->texts);
    free(table->index);
    *table = (view_labels){0};
}

void view_operation(const char *label, char *out, size_t room) {
    size_t n = strcspn(label, "[ ,(");
    if (n >= room) n = room - 1;
    memcpy(out, label, n);
    out[n] = 0;
}
