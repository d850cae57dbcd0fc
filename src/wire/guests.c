/* Who may come in at this user's hub: enrolled keys and tokens, kept in memory as the files were
 * when they last could be read. */
#include "wire/keys_file.h"

#include "base/log.h"
#include "base/vec.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEEP_TOKENS = 7 * 24 * 3600, MAX_TOKENS = 1000 };

static const char *const role_names[] = {"", "client", "worker", "both"};

const char *wire_role_name(wire_role role) { return role_names[role & WIRE_ROLE_BOTH]; }

bool wire_role_parse(const char *text, wire_role *out) {
    for (int role = WIRE_ROLE_CLIENT; role <= WIRE_ROLE_BOTH; role++) {
        if (strcmp(text, role_names[role])) continue;
        *out = (wire_role)role;
        return true;
    }
    return false;
}

/* ---- lines ---- */

typedef struct entry {
    char name[WIRE_MAX_NAME + 1]; /* of a peer */
    uint8_t key[WIRE_KEY];
    wire_role role;
    uint64_t expires; /* of a token */
    bool used;
} entry;

typedef BASE_VEC(entry) entries;

/* Lines of before there were roles have one word less. */
static bool parse_peer(char *const *words, int n, entry *out) {
    out->role = WIRE_ROLE_BOTH;
    if (n < 2 || n > 3 || strlen(words[0]) > WIRE_MAX_NAME) return false;
    snprintf(out->name, sizeof out->name, "%s", words[0]);
    return strlen(words[1]) == WIRE_KEY_TEXT - 1 && wire_key_parse(words[1], out->key) &&
           (n == 2 || wire_role_parse(words[2], &out->role));
}

static bool parse_token(char *const *words, int n, entry *out) {
    out->role = WIRE_ROLE_BOTH;
    if (n < 3) return false;
    out->expires = strtoull(words[1], NULL, 10);
    out->used = !strcmp(words[2], "used");
    return strlen(words[0]) == WIRE_KEY_TEXT - 1 && wire_key_parse(words[0], out->key) &&
           (out->used || !strcmp(words[2], "open")) &&
           (n == 3 || wire_role_parse(words[3], &out->role));
}

typedef bool (*parser)(char *const *words, int n, entry *out);

/* Those of a file's lines that can be read; the others are told of. */
static shoal_status load(const char *name, parser parse, entries *out) {
    base_str text = {0};
    shoal_status status = wire_file_read(name, &text);
    wire_file_cursor c = {.at = text.data};
    for (int n; status == SHOAL_OK && (n = wire_file_line(&c));) {
        entry e = {.expires = 0};
        if (!parse(c.words, n, &e))
            base_log(BASE_WARN, "keys",
                     "line %u of the file '%s' in the configuration folder is damaged, and passed "
                     "over",
                     c.line, name);
        else if (!base_vec_push(out, e))
            status = SHOAL_NO_MEMORY;
    }
    wire_file_forget(&text);
    return status;
}

static shoal_status save_peers(const entries *list) {
    base_str lines = {0};
    char key[WIRE_KEY_TEXT];
    for (size_t i = 0; i < list->count; i++)
        base_str_format(&lines, "%s %s %s\n", list->data[i].name,
                        wire_key_text(list->data[i].key, key), wire_role_name(list->data[i].role));
    shoal_status status = wire_file_write("peers", &lines);
    base_str_fini(&lines);
    return status;
}

/* Without those that have long expired. */
static shoal_status save_tokens(const entries *list) {
    base_str lines = {0};
    char key[WIRE_KEY_TEXT];
    uint64_t now = (uint64_t)time(NULL);
    for (size_t i = 0; i < list->count; i++) {
        const entry *e = &list->data[i];
        if (e->expires + KEEP_TOKENS < now) continue;
        base_str_format(&lines, "%s %llu %s %s\n", wire_key_text(e->key, key),
                        (unsigned long long)e->expires, e->used ? "used" : "open",
                        wire_role_name(e->role));
    }
    shoal_status status = wire_file_write("tokens", &lines);
    base_str_fini(&lines);
    return status;
}

static entry *find_key(const entries *list, const uint8_t *key) {
    for (size_t i = 0; i < list->count; i++)
        if (!sodium_memcmp(list->data[i].key, key, WIRE_KEY)) return &list->data[i];
    return NULL;
}

static entry *find_name(const entries *list, const char *name) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->data[i].name, name)) return &list->data[i];
    return NULL;
}

/* ---- what was last read ---- */

typedef struct cached {
    const char *name;
    parser parse;
    char path[PATH_MAX];
    struct stat seen; /* all zero: there was no file */
    bool read;        /* ever */
    bool failed;      /* the last time */
    entries list;
} cached;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cached peers = {.name = "peers", .parse = parse_peer};
static cached tokens = {.name = "tokens", .parse = parse_token};

static bool same_file(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void note_failure(cached *c) {
    if (!c->failed)
        base_log(BASE_ERROR, "keys", "%s; who was known stays so, and nobody else comes in",
                 shoal_error_message());
    c->failed = true;
}

/* True when what is known has changed. Lock held. */
static bool refresh(cached *c) {
    char path[PATH_MAX];
    struct stat now = {.st_ino = 0};
    if (wire_file_path(c->name, path, sizeof path) != SHOAL_OK) {
        note_failure(c);
        return false;
    }
    if (stat(path, &now) && errno != ENOENT) {
        base_fail_errno(errno, "looking at %s", path);
        note_failure(c);
        return false;
    }
    if (c->read && !c->failed && same_file(&now, &c->seen) && !strcmp(path, c->path)) return false;
    entries fresh = {0};
    if (load(c->name, c->parse, &fresh) != SHOAL_OK) {
        free(fresh.data);
        note_failure(c);
        return false;
    }
    free(c->list.data);
    c->list = fresh;
    c->seen = now;
    c->read = true;
    c->failed = false;
    snprintf(c->path, sizeof c->path, "%s", path);
    return true;
}

static void look_up(const uint8_t *key, wire_guest *out) {
    const entry *peer = find_key(&peers.list, key), *token = find_key(&tokens.list, key);
    bool unread = !peers.read || peers.failed || !tokens.read || tokens.failed;
    *out = (wire_guest){.standing = unread ? WIRE_UNREAD : WIRE_STRANGER};
    snprintf(out->name, sizeof out->name,
             unread ? "the files of keys cannot be read" : "unknown key");
    if (peer) {
        out->standing = WIRE_ENROLLED;
        out->role = peer->role;
        memcpy(out->name, peer->name, sizeof out->name);
    } else if (token) {
        bool expired = token->expires <= (uint64_t)time(NULL);
        out->standing = token->used || expired ? WIRE_STRANGER : WIRE_TOKEN;
        out->role = token->role;
        snprintf(out->name, sizeof out->name, "%s",
                 token->used ? "a token that has been used"
                 : expired   ? "an expired token"
                             : "a token");
    }
}

bool wire_keys_refresh(void) {
    pthread_mutex_lock(&lock);
    bool changed = refresh(&peers);
    changed |= refresh(&tokens);
    pthread_mutex_unlock(&lock);
    return changed;
}

void wire_keys_known(const uint8_t *key, wire_guest *out) {
    pthread_mutex_lock(&lock);
    look_up(key, out);
    pthread_mutex_unlock(&lock);
}

void wire_keys_who(const uint8_t *key, wire_guest *out) {
    pthread_mutex_lock(&lock);
    refresh(&peers);
    refresh(&tokens);
    look_up(key, out);
    pthread_mutex_unlock(&lock);
}

/* ---- changes ---- */

/* Letters, digits and ".-_"; others become "-". */
static void clean_name(char *name) {
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr(".-_", *at)) *at = '-';
    if (!*name) snprintf(name, WIRE_MAX_NAME + 1, "guest");
}

static shoal_status add_peer(entries *list, const uint8_t *key, wire_role role, char *name) {
    char plain[WIRE_MAX_NAME - 4];
    entry e = {.role = role};
    clean_name(name);
    snprintf(plain, sizeof plain, "%s", name);
    for (unsigned n = 2; find_name(list, name) && n < 1000; n++)
        snprintf(name, WIRE_MAX_NAME + 1, "%s-%u", plain, n);
    memcpy(e.key, key, WIRE_KEY);
    snprintf(e.name, sizeof e.name, "%s", name);
    return base_vec_push(list, e) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

static shoal_status enrol(const uint8_t *token, const uint8_t *key, char *name, entries *users,
                          entries *open) {
    SHOAL_TRY(load("tokens", parse_token, open));
    SHOAL_TRY(load("peers", parse_peer, users));
    entry *used = find_key(open, token), *before = find_key(users, key);
    if (!used || used->used || used->expires <= (uint64_t)time(NULL))
        return base_fail(SHOAL_DENIED, "the token has been used or has expired: ask for a new one");
    used->used = true;
    if (before) { /* it has come again */
        before->role = used->role;
        memcpy(name, before->name, sizeof before->name);
    } else {
        SHOAL_TRY(add_peer(users, key, used->role, name));
    }
    SHOAL_TRY(save_tokens(open));
    return save_peers(users);
}

shoal_status wire_keys_enrol(const uint8_t *token, const uint8_t *key,
                             char name[WIRE_MAX_NAME + 1]) {
    entries users = {0}, open = {0};
    int held;
    SHOAL_TRY(wire_file_lock(&held));
    shoal_status status = enrol(token, key, name, &users, &open);
    free(users.data);
    free(open.data);
    close(held);
    return status;
}

static shoal_status unknown_name(const entries *list, const char *name) {
    base_str names = {0};
    for (size_t i = 0; i < list->count; i++)
        base_str_format(&names, "%s%s", i ? ", " : "", list->data[i].name);
    shoal_status status = base_fail(SHOAL_NOT_FOUND, "no user '%s' is enrolled here; enrolled: %s",
                                    name, names.size ? names.data : "none");
    base_str_fini(&names);
    return status;
}

/* A file that is read, edited and written, while nobody else does. */
typedef struct change {
    const char *name;
    parser parse;
    shoal_status (*edit)(entries *list, const void *context);
    shoal_status (*save)(const entries *list);
} change;

static shoal_status make(const change *c, const void *context) {
    entries list = {0};
    int held;
    SHOAL_TRY(wire_file_lock(&held));
    shoal_status status = load(c->name, c->parse, &list);
    if (status == SHOAL_OK) status = c->edit(&list, context);
    if (status == SHOAL_OK) status = c->save(&list);
    free(list.data);
    close(held);
    return status;
}

/* With the role 0 it is taken out. */
typedef struct new_role {
    const char *name;
    wire_role role;
} new_role;

static shoal_status edit_role(entries *list, const void *context) {
    const new_role *to = context;
    entry *e = find_name(list, to->name);
    if (!e) return unknown_name(list, to->name);
    e->role = to->role;
    if (!to->role) memmove(e, e + 1, (size_t)(list->data + list->count-- - (e + 1)) * sizeof *e);
    return SHOAL_OK;
}

static shoal_status change_peer(const char *name, wire_role role) {
    static const change c = {"peers", parse_peer, edit_role, save_peers};
    return make(&c, &(new_role){name, role});
}

shoal_status wire_keys_revoke(const char *name) { return change_peer(name, 0); }

shoal_status wire_keys_set_role(const char *name, wire_role role) {
    return change_peer(name, role);
}

shoal_status wire_keys_each(void (*each)(void *context, const char *name, const char *key,
                                         wire_role role),
                            void *context) {
    entries list = {0};
    char key[WIRE_KEY_TEXT];
    shoal_status status = load("peers", parse_peer, &list);
    for (size_t i = 0; status == SHOAL_OK && i < list.count; i++)
        each(context, list.data[i].name, wire_key_text(list.data[i].key, key), list.data[i].role);
    free(list.data);
    return status;
}

/* ---- tokens ---- */

static bool still_open(const entry *token) {
    return !token->used && token->expires > (uint64_t)time(NULL);
}

static shoal_status edit_add(entries *list, const void *context) {
    size_t open = 0;
    for (size_t i = 0; i < list->count; i++) open += still_open(&list->data[i]);
    if (open >= MAX_TOKENS)
        return base_fail(SHOAL_BUSY, "%zu tokens are open, the most: cancel some", open);
    return base_vec_push(list, *(const entry *)context) ? SHOAL_OK : SHOAL_NO_MEMORY;
}

shoal_status wire_keys_add_token(const uint8_t *key, uint64_t expires, wire_role role) {
    static const change c = {"tokens", parse_token, edit_add, save_tokens};
    entry e = {.role = role, .expires = expires};
    memcpy(e.key, key, WIRE_KEY);
    return make(&c, &e);
}

shoal_status wire_keys_each_token(void (*each)(void *context, const char *key, uint64_t expires,
                                               wire_role role),
                                  void *context) {
    entries list = {0};
    char key[WIRE_KEY_TEXT];
    shoal_status status = load("tokens", parse_token, &list);
    for (size_t i = 0; status == SHOAL_OK && i < list.count; i++)
        if (still_open(&list.data[i]))
            each(context, wire_key_text(list.data[i].key, key), list.data[i].expires,
                 list.data[i].role);
    free(list.data);
    return status;
}

static shoal_status edit_cancel(entries *list, const void *context) {
    const char *beginning = context;
    char key[WIRE_KEY_TEXT];
    entry *found = NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (!still_open(&list->data[i]) ||
            strncmp(wire_key_text(list->data[i].key, key), beginning, strlen(beginning)))
            continue;
        if (found)
            return base_fail(SHOAL_INVALID, "several open tokens begin with '%s': give more digits",
                             beginning);
        found = &list->data[i];
    }
    if (!found)
        return base_fail(SHOAL_NOT_FOUND,
                         "no open token begins with '%s'; `shoal invite --list` shows them",
                         beginning);
    found->used = true;
    return SHOAL_OK;
}

shoal_status wire_keys_cancel_token(const char *beginning) {
    static const change c = {"tokens", parse_token, edit_cancel, save_tokens};
    return make(&c, beginning);
}
