/* `shoal nearest`: the tokens whose embeddings point most nearly the same way as a word's.
 *
 * The pool multiplies the whole embedding table, cut by rows, with the few rows of the words; the
 * cosines follow from that and from the norms of the rows, which the pool computes too. */
#include "args.h"
#include "pool.h"
#include "text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 256, MOST_NEAREST = 100 };

static const char table_name[] = "token_embd.weight", tokens_key[] = "tokenizer.ggml.tokens";

typedef struct input {
    const char *model, *hub;
    const char *words[MOST_WORDS];
    int n_words, k;
} input;

static const struct argp_option options[] = {
    {"nearest", 'k', "K", 0, "Number of tokens per word (default: 5)", 0},
    {"hub", 'H', "ADDRESS", 0,
     "The pool's hub (default: SHOAL_HUB, else shm:hub if it runs, else a pool in this process)",
     0},
    CMD_OPTIONS_END};

static void take(void *to, int key, char *arg) {
    input *in = to;
    if (key == 'k') in->k = (int)args_count("--nearest", arg, 1, MOST_NEAREST);
    if (key == 'H') in->hub = arg;
    if (key != ARGP_KEY_ARG) return;
    if (in->model == NULL) {
        in->model = arg;
        return;
    }
    if (in->n_words == MOST_WORDS) cmd_usage("more than %d words", MOST_WORDS);
    in->words[in->n_words++] = arg;
}

typedef struct model {
    const input *in;
    shoal_file *file;
    uint64_t table;
    int64_t n_tokens, width;
    char **tokens; /* n_tokens of them */
    int64_t *ids;  /* token of each word */
} model;

/* ---- tokens ---- */

/* Vocabularies mark a space before a word: byte-level BPE by U+0120, SentencePiece by U+2581. */
static const char *const space_marks[] = {"\xc4\xa0", "\xe2\x96\x81"};
enum { SPACE_MARKS = sizeof space_marks / sizeof *space_marks };

static const char *without_space(const char *token) {
    for (int i = 0; i < SPACE_MARKS; i++) {
        size_t length = strlen(space_marks[i]);
        if (strncmp(token, space_marks[i], length) == 0) return token + length;
    }
    return token;
}

static int read_tokens(model *m) {
    m->tokens = calloc((size_t)m->n_tokens + 1, sizeof *m->tokens);
    m->ids = calloc((size_t)m->in->n_words + 1, sizeof *m->ids);
    if (m->tokens == NULL || m->ids == NULL)
        return cmd_fail("not enough memory for %lld tokens", (long long)m->n_tokens);
    for (int64_t i = 0; i < m->n_tokens; i++)
        if (cmd_try(shoal_file_meta(m->file, tokens_key, (uint64_t)i, &m->tokens[i])) != CMD_OK)
            return CMD_FAILED;
    return CMD_OK;
}

/* A word's token: the one with a space before it, which is how a word stands in a text, else the
 * word itself. All words that have none are named at once. */
static int find_words(model *m) {
    char missing[512] = "";
    for (int w = 0; w < m->in->n_words; w++) {
        const char *word = m->in->words[w];
        m->ids[w] = -1;
        for (int64_t i = 0; i < m->n_tokens; i++) {
            const char *plain = without_space(m->tokens[i]);
            if (strcmp(plain, word) != 0) continue;
            m->ids[w] = i;
            if (plain != m->tokens[i]) break;
        }
        size_t at = strlen(missing);
        if (m->ids[w] < 0)
            snprintf(missing + at, sizeof missing - at, "%s'%s'", at > 0 ? ", " : "", word);
    }
    if (missing[0] == 0) return CMD_OK;
    return cmd_fail("%s has no single token for %s; longer and rarer words are several tokens",
                    m->in->model, missing);
}

static int open_model(const input *in, model *m) {
    shoal_file_tensor table;
    *m = (model){.in = in};
    if (cmd_try(shoal_file_open(in->model, &m->file)) != CMD_OK ||
        cmd_try(shoal_file_find(m->file, table_name, &m->table)) != CMD_OK ||
        cmd_try(shoal_file_tensor_at(m->file, m->table, &table)) != CMD_OK)
        return CMD_FAILED;
    if (table.type.rank != 2 || shoal_dtype_kind((shoal_dtype)table.type.dtype) != 'f')
        return cmd_fail("%s: %s is not a matrix of floating-point elements", in->model, table_name);
    m->n_tokens = table.type.dims[0];
    m->width = table.type.dims[1];
    int code = read_tokens(m);
    return code == CMD_OK ? find_words(m) : code;
}

static void close_model(model *m) {
    for (int64_t i = 0; m->tokens != NULL && i < m->n_tokens; i++) free(m->tokens[i]);
    free(m->tokens);
    free(m->ids);
    if (m->file != NULL) shoal_file_close(&m->file);
}

/* ---- the product ---- */

/* What the pool computes: scores [n_tokens][n_words], and the squared norms of the table's rows. */
typedef struct result {
    float *scores, *squares;
} result;

/* The rows of the words, [n_words][width], out of the table. */
static int gather(const model *m, shoal_tensor *table, shoal_tensor **out) {
    shoal_tensor *rows[MOST_WORDS] = {NULL};
    int code = CMD_OK;
    for (int w = 0; w < m->in->n_words && code == CMD_OK; w++) {
        const int64_t start[] = {m->ids[w], 0}, limit[] = {m->ids[w] + 1, m->width};
        code = cmd_try(shoal_slice(table, start, limit, NULL, &rows[w]));
    }
    if (code == CMD_OK) code = cmd_try(shoal_concatenate(rows, (uint32_t)m->in->n_words, 0, out));
    for (int w = 0; w < m->in->n_words; w++) shoal_tensor_free(&rows[w]);
    return code;
}

/* The table as float32, its rows cut over the workers by their weights. */
static int place_table(const model *m, const cmd_pool *pool, shoal_tensor **out) {
    double weights[ARGS_MOST_SLOTS + 1];
    uint32_t slots[ARGS_MOST_SLOTS], n = 0;
    shoal_tensor *loaded = NULL, *single = NULL;
    for (uint32_t i = 0; i < pool->status.n_slots && n < ARGS_MOST_SLOTS; i++) {
        if (!pool->slots[i].compute || pool->slots[i].weight <= 0) continue;
        weights[n] = pool->slots[i].weight;
        slots[n++] = pool->slots[i].slot;
    }
    if (n == 0)
        return cmd_fail("the pool %s has no workers; start one with: shoal worker",
                        pool->status.address);
    weights[n] = 1; /* of the columns, which are not cut */
    const shoal_layout layout = {.size = sizeof layout,
                                 .parts = (uint32_t[]){n, 1},
                                 .weights = weights,
                                 .copies = 1,
                                 .slots = slots,
                                 .n_slots = n};
    int code = cmd_try(shoal_file_load(m->file, m->table, pool->session, &loaded));
    if (code == CMD_OK) code = cmd_try(shoal_convert(loaded, SHOAL_F32, &single));
    if (code == CMD_OK) code = cmd_try(shoal_place(single, &layout, out));
    shoal_tensor_free(&loaded);
    shoal_tensor_free(&single);
    return code;
}

static int compute(const model *m, const cmd_pool *pool, result *out) {
    enum { TABLE, WORDS, WORDS_T, SCORES, PRODUCTS, SQUARES, COUNT };
    shoal_tensor *t[COUNT] = {NULL};
    size_t n_tokens = (size_t)m->n_tokens, n_scores = n_tokens * (size_t)m->in->n_words;
    out->scores = calloc(n_scores + 1, sizeof(float));
    out->squares = calloc(n_tokens + 1, sizeof(float));
    if (out->scores == NULL || out->squares == NULL)
        return cmd_fail("not enough memory for %zu scores", n_scores);
    int code = place_table(m, pool, &t[TABLE]);
    if (code == CMD_OK) code = gather(m, t[TABLE], &t[WORDS]);
    if (code == CMD_OK) code = cmd_try(shoal_transpose(t[WORDS], NULL, &t[WORDS_T]));
    if (code == CMD_OK) code = cmd_try(shoal_matmul(t[TABLE], t[WORDS_T], &t[SCORES]));
    if (code == CMD_OK) code = cmd_try(shoal_multiply(t[TABLE], t[TABLE], &t[PRODUCTS]));
    if (code == CMD_OK)
        code = cmd_try(shoal_reduce(t[PRODUCTS], "add", (int64_t[]){1}, 1, false, &t[SQUARES]));
    if (code == CMD_OK)
        code = cmd_try(shoal_read(t[SCORES], out->scores, n_scores * sizeof(float)));
    if (code == CMD_OK)
        code = cmd_try(shoal_read(t[SQUARES], out->squares, n_tokens * sizeof(float)));
    for (int i = 0; i < COUNT; i++) shoal_tensor_free(&t[i]);
    return code;
}

/* ---- the nearest ---- */

typedef struct neighbour {
    int64_t id;
    double cosine;
} neighbour;

/* Whether two tokens are the same word but for a space before it and the case of its letters. */
static bool same_word(const char *a, const char *b) {
    a = without_space(a);
    b = without_space(b);
    while (*a != 0 && tolower((unsigned char)*a) == tolower((unsigned char)*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

/* Finds the k tokens with the largest cosine to word w, the best first: other spellings of the word
 * and of tokens already found are left out. Returns how many there are. */
static int find_nearest(const model *m, const result *r, int w, neighbour *found) {
    int n = 0, k = m->in->k;
    for (; n < k; n++) {
        neighbour best = {-1, -INFINITY};
        for (int64_t i = 0; i < m->n_tokens; i++) {
            double norms = sqrt((double)r->squares[i] * (double)r->squares[m->ids[w]]);
            double cosine = (double)r->scores[i * m->in->n_words + w] / norms;
            if (!(cosine > best.cosine) || same_word(m->tokens[i], m->tokens[m->ids[w]])) continue;
            bool known = false;
            for (int j = 0; j < n; j++) known |= same_word(m->tokens[i], m->tokens[found[j].id]);
            if (!known) best = (neighbour){i, cosine};
        }
        if (best.id < 0) break;
        found[n] = best;
    }
    return n;
}

static void report(const model *m, const result *r, cJSON *rows) {
    neighbour found[MOST_NEAREST];
    for (int w = 0; w < m->in->n_words; w++) {
        int n = find_nearest(m, r, w, found);
        if (!cmd_json) printf("%-12s", m->in->words[w]);
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "word", m->in->words[w]);
        cJSON_AddNumberToObject(row, "token", (double)m->ids[w]);
        cJSON *list = cJSON_AddArrayToObject(row, "nearest");
        for (int i = 0; i < n; i++) {
            const char *token = without_space(m->tokens[found[i].id]);
            cJSON *item = cJSON_CreateObject();
            cJSON_AddStringToObject(item, "text", token);
            cJSON_AddNumberToObject(item, "token", (double)found[i].id);
            cJSON_AddNumberToObject(item, "cosine", found[i].cosine);
            cJSON_AddItemToArray(list, item);
            if (cmd_json) continue;
            fputs(i > 0 ? ", " : " ", stdout);
            text_print(token);
            printf(" %.2f", found[i].cosine);
        }
        if (!cmd_json) putchar('\n');
        cJSON_AddItemToArray(rows, row);
    }
}

static int work(const input *in, model *m) {
    result r = {NULL, NULL};
    cmd_pool pool;
    int code = open_model(in, m);
    if (code != CMD_OK) return code;
    if (pool_join(in->hub, 0, &pool) != CMD_OK) return CMD_FAILED;
    code = compute(m, &pool, &r);
    if (code == CMD_OK) {
        cJSON *rows = cJSON_CreateArray();
        report(m, &r, rows);
        if (cmd_json)
            code = text_json(rows);
        else
            cJSON_Delete(rows);
    }
    free(r.scores);
    free(r.squares);
    pool_close(&pool);
    return code;
}

static int run(const cmd_command *self, int argc, char **argv) {
    static input in;
    static model m;
    in.k = 5;
    cmd_parse(self, argc, argv, &in);
    if (in.n_words == 0) cmd_usage("nearest needs a model and words; see 'shoal nearest --help'");
    int code = work(&in, &m);
    close_model(&m);
    return code;
}

const cmd_command cmd_nearest = {
    .name = "nearest",
    .group = CMD_COMPUTE,
    .args = "MODEL.gguf WORD...",
    .summary = "Find the tokens of a language model that are nearest to words",
    .doc = "The pool multiplies the model's embedding table by the rows of the words; tokens are "
           "ranked by cosine similarity. A word must be a single token of the model. Other "
           "spellings of a word (capitals, a leading space) are omitted.",
    .options = options,
    .take = take,
    .run = run};
