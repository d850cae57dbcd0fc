/* `shoal show`: what is in a file of tensors. */
#include "progress.h"
#include "text.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_DIGEST = 0x100, FIRST = 8, LONGEST = 60 };

typedef struct show_input {
    const char *path;
    const char **patterns;
    int n_patterns;
    bool digest;
} show_input;

static const struct argp_option options[] = {
    {"digest", KEY_DIGEST, NULL, 0, "Also the digest of the whole file (BLAKE2b, 256 bits)", 0},
    CMD_OPTION_WIDE,
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    show_input *in = to;
    if (key == KEY_DIGEST) in->digest = true;
    if (key != ARGP_KEY_ARG) return;
    if (in->path == NULL)
        in->path = arg;
    else
        in->patterns[in->n_patterns++] = arg;
}

/* ---- tensors ---- */

static bool is_chosen(const show_input *in, const char *name) {
    for (int i = 0; i < in->n_patterns; i++)
        if (fnmatch(in->patterns[i], name, 0) == 0) return true;
    return in->n_patterns == 0;
}

static char *shape_text(const shoal_type *type, char *out, size_t room) {
    size_t at = (size_t)snprintf(out, room, "[");
    for (uint32_t i = 0; i < type->rank; i++)
        at +=
            (size_t)snprintf(out + at, room - at, i ? ", %lld" : "%lld", (long long)type->dims[i]);
    snprintf(out + at, room - at, "]");
    return out;
}

/* Rows of those that are chosen; *values: their numbers in all, *bytes likewise. */
static int list_tensors(const show_input *in, const shoal_file *file, cJSON *rows, double *values,
                        double *bytes) {
    for (uint64_t i = 0; i < shoal_file_count(file); i++) {
        shoal_file_tensor tensor;
        char shape[256];
        double count = 1;
        if (cmd_try(shoal_file_tensor_at(file, i, &tensor)) != CMD_OK) return CMD_FAILED;
        if (!is_chosen(in, tensor.name)) continue;
        cJSON *row = cJSON_CreateObject(), *dims = NULL;
        cJSON_AddStringToObject(row, "name", tensor.name);
        if (cmd_json)
            dims = cJSON_AddArrayToObject(row, "shape");
        else
            cJSON_AddStringToObject(row, "shape", shape_text(&tensor.type, shape, sizeof shape));
        for (uint32_t a = 0; a < tensor.type.rank; a++) {
            count *= (double)tensor.type.dims[a];
            if (dims) cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)tensor.type.dims[a]));
        }
        cJSON_AddStringToObject(row, "stored", tensor.encoding);
        cJSON_AddNumberToObject(row, "bytes", (double)tensor.bytes);
        cJSON_AddNumberToObject(row, "offset", (double)tensor.offset);
        cJSON_AddItemToArray(rows, row);
        *values += count;
        *bytes += (double)tensor.bytes;
    }
    return CMD_OK;
}

/* ---- what a .gguf says about itself ---- */

/* The first elements of an array. */
static int array_text(const shoal_file *file, const shoal_file_fact *fact, cJSON *row) {
    char line[4 * LONGEST] = "";
    cJSON *values = cmd_json ? cJSON_AddArrayToObject(row, "first") : NULL;
    for (uint64_t i = 0; i < fact->count && i < FIRST; i++) {
        char *text;
        if (cmd_try(shoal_file_meta(file, fact->key, i, &text)) != CMD_OK) return CMD_FAILED;
        if (values) cJSON_AddItemToArray(values, cJSON_CreateString(text));
        size_t used = strlen(line);
        if (used < LONGEST)
            snprintf(line + used, sizeof line - used, "%s%.*s", i ? ", " : "", LONGEST, text);
        free(text);
    }
    if (fact->count > FIRST && strlen(line) + 8 < sizeof line) strcat(line, ", …");
    if (!values) cJSON_AddStringToObject(row, "value", line);
    return CMD_OK;
}

/* A text is cut where it is long, at the beginning of a character. */
static void cut(char *text) {
    size_t n = LONGEST;
    if (strlen(text) <= LONGEST + 3) return;
    while (n && (text[n] & 0xc0) == 0x80) n--;
    memcpy(text + n, "…", sizeof "…");
}

static int list_facts(const shoal_file *file, cJSON *rows) {
    for (uint64_t i = 0; i < shoal_file_fact_count(file); i++) {
        shoal_file_fact fact;
        char type[64], *text;
        if (cmd_try(shoal_file_fact_at(file, i, &fact)) != CMD_OK) return CMD_FAILED;
        cJSON *row = cJSON_CreateObject();
        cJSON_AddItemToArray(rows, row);
        cJSON_AddStringToObject(row, "key", fact.key);
        snprintf(type, sizeof type, fact.array ? "%s[%llu]" : "%s", fact.type,
                 (unsigned long long)fact.count);
        cJSON_AddStringToObject(row, "type", type);
        if (fact.array) {
            if (array_text(file, &fact, row) != CMD_OK) return CMD_FAILED;
            continue;
        }
        if (cmd_try(shoal_file_meta(file, fact.key, 0, &text)) != CMD_OK) return CMD_FAILED;
        if (!cmd_json) cut(text);
        cJSON_AddStringToObject(row, "value", text);
        free(text);
    }
    return CMD_OK;
}

/* ---- the command ---- */

static bool tell(void *context, uint64_t done, uint64_t all) {
    progress_update(context, (double)done, (double)all);
    return cmd_stop == 0;
}

static int add_digest(const char *path, cJSON *answer) {
    cmd_progress progress;
    uint8_t digest[SHOAL_DIGEST];
    char hex[2 * SHOAL_DIGEST + 1];
    cmd_catch_signals();
    progress_begin(&progress, false);
    progress.bytes = true;
    progress_phase(&progress, "reading");
    shoal_status status = shoal_file_digest(path, tell, &progress, digest);
    progress_end(&progress);
    if (cmd_stop != 0) return cmd_end_by_signal();
    if (cmd_try(status) != CMD_OK) return CMD_FAILED;
    for (int i = 0; i < SHOAL_DIGEST; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    cJSON_AddStringToObject(answer, "digest", hex);
    return CMD_OK;
}

static void print(const show_input *in, const cJSON *answer, double values, double bytes) {
    static const text_column fact_columns[] = {{"key", "KEY", NULL, false},
                                               {"type", "TYPE", NULL, false},
                                               {"value", "VALUE", NULL, false}};
    static const text_column columns[] = {{"name", "TENSOR", NULL, false},
                                          {"shape", "SHAPE", NULL, false},
                                          {"stored", "STORED", NULL, false},
                                          {"bytes", "SIZE", text_show_bytes, false},
                                          {"offset", "OFFSET", text_show_count, true}};
    const cJSON *rows = cJSON_GetObjectItem(answer, "tensors");
    const cJSON *facts = cJSON_GetObjectItem(answer, "metadata");
    const cJSON *digest = cJSON_GetObjectItem(answer, "digest");
    char numbers[TEXT_ROOM], size[TEXT_ROOM], count[TEXT_ROOM];
    int n = cJSON_GetArraySize(rows);
    text_print(in->path);
    printf(": %s, %s tensor%s%s, %s numbers in %s\n",
           cJSON_GetObjectItem(answer, "format")->valuestring, text_count(n, count),
           n == 1 ? "" : "s", in->n_patterns ? " of these names" : "",
           text_count((int64_t)values, numbers), text_bytes((uint64_t)bytes, size));
    if (digest) printf("digest %s\n", digest->valuestring);
    if (cJSON_GetArraySize(facts) && !in->n_patterns) {
        putchar('\n');
        text_table(facts, fact_columns, sizeof fact_columns / sizeof *fact_columns);
    }
    if (n) {
        putchar('\n');
        text_table(rows, columns, sizeof columns / sizeof *columns);
    }
}

static int show(const show_input *in, const shoal_file *file, cJSON *answer) {
    double values = 0, bytes = 0;
    cJSON_AddStringToObject(answer, "file", in->path);
    cJSON_AddStringToObject(answer, "format", shoal_file_format(file));
    int code = list_facts(file, cJSON_AddArrayToObject(answer, "metadata"));
    cJSON *rows = cJSON_AddArrayToObject(answer, "tensors");
    if (code == CMD_OK) code = list_tensors(in, file, rows, &values, &bytes);
    if (code == CMD_OK && in->n_patterns && !cJSON_GetArraySize(rows))
        code = cmd_fail("%s: no tensor is called '%s'; 'shoal show %s' lists all", in->path,
                        in->patterns[0], in->path);
    if (code == CMD_OK && in->digest) code = add_digest(in->path, answer);
    if (code == CMD_OK && !cmd_json) print(in, answer, values, bytes);
    return code;
}

static int run(const cmd_command *self, int argc, char **argv) {
    show_input in = {.patterns = calloc((size_t)argc + 1, sizeof *in.patterns)};
    shoal_file *file;
    if (in.patterns == NULL) return cmd_fail("not enough memory");
    cmd_parse(self, argc, argv, &in);
    if (in.path == NULL) cmd_usage("show needs a file; see 'shoal show --help'");
    int code = cmd_try(shoal_file_open(in.path, &file));
    if (code == CMD_OK) {
        cJSON *answer = cJSON_CreateObject();
        code = show(&in, file, answer);
        if (code == CMD_OK && cmd_json)
            code = text_json(answer);
        else
            cJSON_Delete(answer);
        shoal_file_close(&file);
    }
    free(in.patterns);
    return code;
}

const cmd_command cmd_show = {
    .name = "show",
    .group = CMD_SEE,
    .args = "FILE [NAME...]",
    .summary = "Show what is in a file of tensors",
    .doc = "FILE is a .npy, .safetensors, .gguf, .pt or .bin. A NAME chooses "
           "tensors; * and ? stand for any "
           "characters.\n\n"
           "  shoal show model.gguf 'blk.0.*'",
    .options = options,
    .take = take,
    .run = run};
