/* Programs as files: lines that begin with #, then the graph as text. */
#include "hunt.h"

#include <stdlib.h>
#include <string.h>

void hunt_write(const hunt_program *program, const char *way, const char *why, FILE *to) {
    const shoal_graph *g = graph_data(program->graph);
    base_str text;
    base_str_init(&text);
    hunt_must(graph_print(g, &text));
    fprintf(to, "# way %s\n# seed %llu\n# %s\n", way, (unsigned long long)program->seed, why);
    for (uint32_t i = 0; i < program->n_inputs; i++) {
        size_t bytes = (size_t)base_type_bytes(&g->values[g->inputs[i]].type);
        fprintf(to, "# input ");
        for (size_t k = 0; k < bytes; k++)
            fprintf(to, "%02x", ((const unsigned char *)program->inputs[i])[k]);
        fprintf(to, "\n");
    }
    fwrite(text.data, 1, text.size, to);
    base_str_fini(&text);
}

/* Variants in which a program from a file is tried. */
enum { TRIES = 15, MOST_BYTES = 64 << 20 };

/* Ends the command, unless the file is as it should be. */
static void need(const char *path, shoal_status status) {
    if (!status) return;
    fprintf(stderr, "hunt: %s: %s\n", path, shoal_error_message());
    exit(2);
}

static char *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    long end = -1;
    if (file && !fseek(file, 0, SEEK_END)) end = ftell(file);
    if (end < 0 || end > MOST_BYTES)
        need(path, end < 0
                       ? base_fail(SHOAL_IO, "it cannot be read")
                       : base_fail(SHOAL_FORMAT, "a program has %d MiB at most", MOST_BYTES >> 20));
    *size = (size_t)end;
    rewind(file);
    char *text = hunt_alloc(*size + 1);
    if (fread(text, 1, *size, file) != *size) need(path, base_fail(SHOAL_IO, "it cannot be read"));
    fclose(file);
    return text;
}

static void *from_hex(const char *path, const char *hex, size_t bytes) {
    unsigned char *data = hunt_alloc(bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned value;
        if (sscanf(hex + 2 * i, "%2x", &value) != 1)
            need(path, base_fail(SHOAL_FORMAT, "an input has %zu of %zu bytes", i, bytes));
        data[i] = (unsigned char)value;
    }
    return data;
}

void hunt_read(const char *path, hunt_program *out, char *way) {
    size_t size;
    char *text = read_all(path, &size), *at = text;
    const char *hex[64];
    uint32_t n = 0;
    unsigned long long seed = 0;
    way[0] = 0;
    while (*at == '#') {
        char *end = strchr(at, '\n');
        if (!end) need(path, base_fail(SHOAL_FORMAT, "there is no graph"));
        *end = 0;
        if (!strncmp(at, "# input ", 8) && n < 64) hex[n++] = at + 8;
        if (!strncmp(at, "# seed ", 7)) seed = strtoull(at + 7, NULL, 10);
        if (!strncmp(at, "# way ", 6)) snprintf(way, 32, "%s", at + 6);
        at = end + 1;
    }
    *out = (hunt_program){.seed = seed, .tries = TRIES};
    need(path, graph_parse(at, size - (size_t)(at - text), 0, &out->graph));
    const shoal_graph *g = graph_data(out->graph);
    if (g->n_inputs != n)
        need(path, base_fail(SHOAL_FORMAT, "%u inputs, %u are needed", n, g->n_inputs));
    out->n_inputs = n;
    out->n_outputs = g->n_outputs;
    out->inputs = hunt_alloc((n + 1) * sizeof *out->inputs);
    for (uint32_t i = 0; i < n; i++)
        out->inputs[i] =
            from_hex(path, hex[i], (size_t)base_type_bytes(&g->values[g->inputs[i]].type));
    free(text);
}
