/* Signals from YAML, read by libyaml. */
#include "plan/signal.h"

#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

typedef struct reader {
    yaml_document_t document;
    const char *source;
    const plan_signals *known;
    plan_signals *out;
} reader;

static plan_mark mark_of(const yaml_node_t *node) {
    return (plan_mark){(uint32_t)node->start_mark.line + 1, (uint32_t)node->start_mark.column + 1};
}

/* "config.yaml:3:5: " and the message. */
#define WRONG(r, node, ...)                                                                        \
    (base_fail(SHOAL_FORMAT, __VA_ARGS__),                                                         \
     base_fail_prefix(SHOAL_FORMAT, "%s:%zu:%zu: ", (r)->source, (node)->start_mark.line + 1,      \
                      (node)->start_mark.column + 1))

static yaml_node_t *node_of(reader *r, int index) {
    return yaml_document_get_node(&r->document, index);
}

/* NULL when the node is no scalar. */
static const char *text_of(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

static bool plain(const yaml_node_t *node) {
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static bool is_null(const yaml_node_t *node) {
    const char *text = plain(node) ? text_of(node) : NULL;
    return text && (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
}

static shoal_status read_number(reader *r, const yaml_node_t *node, const char *what, long least,
                                long most, long *out) {
    const char *text = plain(node) ? text_of(node) : NULL;
    char *end = NULL;
    errno = 0;
    *out = text ? strtol(text, &end, 10) : 0;
    if (!text || !*text || *end)
        return WRONG(r, node, "%s must be an integer%s%s", what, text ? ", not " : "",
                     text ? text : "");
    if (errno || *out < least || *out > most)
        return WRONG(r, node, "%s is %s; give %ld to %ld", what, text, least, most);
    return SHOAL_OK;
}

static shoal_status read_bool(reader *r, const yaml_node_t *node, const char *what, bool *out) {
    static const char *const words[2][3] = {{"false", "no", "off"}, {"true", "yes", "on"}};
    const char *text = plain(node) ? text_of(node) : NULL;
    for (int value = 0; text && value < 2; value++)
        for (int i = 0; i < 3; i++)
            if (!strcasecmp(text, words[value][i])) {
                *out = value;
                return SHOAL_OK;
            }
    return WRONG(r, node, "%s must be true or false%s%s", what, text ? ", not " : "",
                 text ? text : "");
}

static shoal_status read_text(reader *r, const yaml_node_t *node, const char *what, char **out) {
    const char *text = text_of(node);
    if (!text || !*text) return WRONG(r, node, "%s must be a name", what);
    *out = strdup(text);
    return *out ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "no memory for signals");
}

/* ---- keys ---- */

typedef shoal_status (*read_key)(reader *r, yaml_node_t *node, plan_signal *signal);

typedef struct key {
    const char *name;
    read_key read;
} key;

/* Reads a mapping by a table of its keys. */
static shoal_status read_keys(reader *r, yaml_node_t *node, const char *what, const key *keys,
                              uint32_t n_keys, plan_signal *signal) {
    uint32_t seen = 0;
    if (node->type != YAML_MAPPING_NODE)
        return WRONG(r, node, "%s must be a mapping of keys to values", what);
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        yaml_node_t *name = node_of(r, pair->key);
        const char *text = text_of(name);
        uint32_t k = 0;
        while (k < n_keys && !(text && !strcmp(text, keys[k].name))) k++;
        if (k == n_keys) {
            base_str known = {0};
            for (uint32_t i = 0; i < n_keys; i++)
                base_str_format(&known, "%s%s", i ? ", " : "", keys[i].name);
            shoal_status status = WRONG(r, name, "'%s' is no key of %s; there are %s",
                                        text ? text : "(a list or mapping)", what,
                                        known.data ? known.data : "others");
            base_str_fini(&known);
            return status;
        }
        if (seen >> k & 1) return WRONG(r, name, "'%s' was said before", text);
        seen |= UINT32_C(1) << k;
        SHOAL_TRY(keys[k].read(r, node_of(r, pair->value), signal));
    }
    return SHOAL_OK;
}

static shoal_status read_axis(reader *r, yaml_node_t *node, plan_signal *signal) {
    long axis;
    SHOAL_TRY(read_number(r, node, "axis", -SHOAL_MAX_RANK, SHOAL_MAX_RANK - 1, &axis));
    signal->axis = (int32_t)axis;
    signal->axis_at = mark_of(node);
    return SHOAL_OK;
}

static shoal_status read_workers(reader *r, yaml_node_t *node, plan_signal *signal) {
    signal->workers_at = mark_of(node);
    if (is_null(node)) return SHOAL_OK;
    if (node->type != YAML_SEQUENCE_NODE)
        return WRONG(r, node, "workers must be a list of numbers, or null for all");
    const yaml_node_item_t *items = node->data.sequence.items.start;
    size_t n = (size_t)(node->data.sequence.items.top - items);
    if (!n) return WRONG(r, node, "workers is empty; leave it out, or say null, for all");
    if (n > PLAN_SIGNAL_WORKERS) return WRONG(r, node, "%zu workers are too many", n);
    signal->workers = calloc(n, sizeof *signal->workers);
    if (!signal->workers) return base_fail(SHOAL_NO_MEMORY, "no memory for signals");
    for (size_t i = 0; i < n; i++) {
        long worker;
        yaml_node_t *item = node_of(r, items[i]);
        SHOAL_TRY(read_number(r, item, "a worker", 0, PLAN_SIGNAL_WORKERS - 1, &worker));
        for (size_t k = 0; k < i; k++)
            if (signal->workers[k] == (uint32_t)worker)
                return WRONG(r, item, "worker %ld is named twice", worker);
        signal->workers[signal->n_workers++] = (uint32_t)worker;
    }
    return SHOAL_OK;
}

static shoal_status read_shares(reader *r, yaml_node_t *node, plan_signal *signal) {
    if (is_null(node)) return SHOAL_OK;
    if (node->type != YAML_SEQUENCE_NODE)
        return WRONG(r, node, "shares must be a list of numbers, one per worker");
    const yaml_node_item_t *items = node->data.sequence.items.start;
    size_t n = (size_t)(node->data.sequence.items.top - items);
    double sum = 0;
    if (!n || n > PLAN_SIGNAL_WORKERS) return WRONG(r, node, "shares has %zu numbers", n);
    signal->shares = calloc(n, sizeof *signal->shares);
    if (!signal->shares) return base_fail(SHOAL_NO_MEMORY, "no memory for signals");
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *item = node_of(r, items[i]);
        const char *text = plain(item) ? text_of(item) : NULL;
        char *end = NULL;
        double share = text ? strtod(text, &end) : -1;
        if (!text || !*text || *end || !(share >= 0) || !isfinite(share))
            return WRONG(r, item, "a share must be a number of at least 0");
        sum += signal->shares[signal->n_shares++] = share;
    }
    return sum > 0 ? SHOAL_OK : WRONG(r, node, "all shares are 0");
}

static shoal_status read_replicated(reader *r, yaml_node_t *node, plan_signal *signal) {
    return read_bool(r, node, "replicated", &signal->replicated);
}

static shoal_status read_shard(reader *r, yaml_node_t *node, plan_signal *signal) {
    static const key keys[] = {{"axis", read_axis},
                               {"workers", read_workers},
                               {"shares", read_shares},
                               {"replicated", read_replicated}};
    if (is_null(node)) return SHOAL_OK;
    signal->shard = true;
    signal->axis_at = signal->workers_at = mark_of(node);
    SHOAL_TRY(read_keys(r, node, "shard", keys, sizeof keys / sizeof *keys, signal));
    if (signal->shares && signal->n_workers && signal->n_shares != signal->n_workers)
        return WRONG(r, node, "%u shares for %u workers", signal->n_shares, signal->n_workers);
    return SHOAL_OK;
}

static shoal_status read_backward(reader *r, yaml_node_t *node, plan_signal *signal) {
    return is_null(node) ? SHOAL_OK : read_text(r, node, "backward", &signal->backward);
}

static shoal_status read_compile(reader *r, yaml_node_t *node, plan_signal *signal) {
    return read_bool(r, node, "compile", &signal->compile);
}

/* ---- the whole ---- */

static shoal_status read_signal(reader *r, yaml_node_pair_t *pair) {
    static const key keys[] = {
        {"shard", read_shard}, {"backward", read_backward}, {"compile", read_compile}};
    yaml_node_t *name = node_of(r, pair->key), *node = node_of(r, pair->value);
    plan_signal *signal = calloc(1, sizeof *signal);
    if (!signal) return base_fail(SHOAL_NO_MEMORY, "no memory for signals");
    signal->at = mark_of(name);
    signal->source = strdup(r->source);
    shoal_status status = signal->source ? read_text(r, name, "a signal's key", &signal->name)
                                         : base_fail(SHOAL_NO_MEMORY, "no memory for signals");
    if (status == SHOAL_OK && plan_signal_find(r->out, signal->name))
        status = WRONG(r, name, "signal '%s' was said before", signal->name);
    if (status == SHOAL_OK && !is_null(node))
        status = read_keys(r, node, "a signal", keys, sizeof keys / sizeof *keys, signal);
    if (status == SHOAL_OK && !base_vec_push(&r->out->list, signal)) status = SHOAL_NO_MEMORY;
    if (status != SHOAL_OK) plan_signal_free(signal);
    return status;
}

static shoal_status check_backward(reader *r, const plan_signal *signal) {
    if (!signal->backward || plan_signal_find(r->out, signal->backward) ||
        (r->known && plan_signal_find(r->known, signal->backward)))
        return SHOAL_OK;
    return base_fail(SHOAL_FORMAT,
                     "%s:%u:%u: signal '%s' has backward: %s, and there is no such signal",
                     r->source, signal->at.line, signal->at.column, signal->name, signal->backward);
}

static shoal_status read_all(reader *r) {
    yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (!root || is_null(root)) return SHOAL_OK;
    if (root->type != YAML_MAPPING_NODE)
        return WRONG(r, root, "a mapping of signals to what they say is needed");
    for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
         pair < root->data.mapping.pairs.top; pair++)
        SHOAL_TRY(read_signal(r, pair));
    for (size_t i = 0; i < r->out->list.count; i++)
        SHOAL_TRY(check_backward(r, r->out->list.data[i]));
    return SHOAL_OK;
}

static shoal_status parser_failure(const yaml_parser_t *parser, const char *source) {
    return base_fail(SHOAL_FORMAT, "%s:%zu:%zu: %s", source, parser->problem_mark.line + 1,
                     parser->problem_mark.column + 1,
                     parser->problem ? parser->problem : "this is no YAML");
}

shoal_status plan_signals_parse(const char *text, size_t bytes, const char *source,
                                const plan_signals *known, plan_signals *out) {
    reader r = {.source = source, .known = known, .out = out};
    yaml_parser_t parser;
    *out = (plan_signals){0};
    if (bytes > PLAN_SIGNAL_TEXT)
        return base_fail(SHOAL_FORMAT, "%s has %zu bytes; the most is %d", source, bytes,
                         PLAN_SIGNAL_TEXT);
    if (!yaml_parser_initialize(&parser)) return base_fail(SHOAL_NO_MEMORY, "no memory for YAML");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    shoal_status status = SHOAL_OK;
    if (!yaml_parser_load(&parser, &r.document)) {
        status = parser_failure(&parser, source);
    } else {
        yaml_document_t second;
        status = read_all(&r);
        if (status == SHOAL_OK && yaml_parser_load(&parser, &second)) {
            if (yaml_document_get_root_node(&second))
                status = base_fail(SHOAL_FORMAT, "%s holds more than one document", source);
            yaml_document_delete(&second);
        } else if (status == SHOAL_OK) {
            status = parser_failure(&parser, source);
        }
        yaml_document_delete(&r.document);
    }
    yaml_parser_delete(&parser);
    if (status != SHOAL_OK) plan_signals_fini(out);
    return status;
}

/* ---- lists ---- */

plan_signal *plan_signal_find(const plan_signals *signals, const char *name) {
    for (size_t i = 0; i < signals->list.count; i++)
        if (!strcmp(signals->list.data[i]->name, name)) return signals->list.data[i];
    return NULL;
}

shoal_status plan_signal_set(plan_signals *signals, plan_signal *signal) {
    for (size_t i = 0; i < signals->list.count; i++) {
        if (strcmp(signals->list.data[i]->name, signal->name)) continue;
        plan_signal_free(signals->list.data[i]);
        signals->list.data[i] = signal;
        return SHOAL_OK;
    }
    return base_vec_push(&signals->list, signal) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static void *copy_bytes(const void *from, size_t bytes, bool *failed) {
    void *to = from ? malloc(bytes ? bytes : 1) : NULL;
    if (to)
        memcpy(to, from, bytes);
    else
        *failed |= from != NULL;
    return to;
}

static char *copy_string(const char *from, bool *failed) {
    return copy_bytes(from, from ? strlen(from) + 1 : 0, failed);
}

shoal_status plan_signal_copy(const plan_signal *from, plan_signal **out) {
    bool failed = false;
    plan_signal *to = calloc(1, sizeof *to);
    if (!to) return base_fail(SHOAL_NO_MEMORY, "no memory for a signal");
    *to = *from;
    to->name = copy_string(from->name, &failed);
    to->source = copy_string(from->source, &failed);
    to->backward = copy_string(from->backward, &failed);
    to->workers = copy_bytes(from->workers, from->n_workers * sizeof *from->workers, &failed);
    to->shares = copy_bytes(from->shares, from->n_shares * sizeof *from->shares, &failed);
    if (failed) {
        plan_signal_free(to);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a signal");
    }
    *out = to;
    return SHOAL_OK;
}

void plan_signal_free(plan_signal *signal) {
    if (!signal) return;
    free(signal->name);
    free(signal->source);
    free(signal->workers);
    free(signal->shares);
    free(signal->backward);
    free(signal);
}

void plan_signals_fini(plan_signals *signals) {
    for (size_t i = 0; i < signals->list.count; i++) plan_signal_free(signals->list.data[i]);
    free(signals->list.data);
    *signals = (plan_signals){0};
}
