/* Looking for a file on this machine: by the digests that this user's processes have noted, and in
 * the folders of models. What is found is read to see that it is the one, unless its digest is
 * kept. Paths never come from others. */
#define _GNU_SOURCE
#include "worker/state.h"

#include "base/os.h"
#include "model/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, MOST_DEPTH = 8, MOST_LOOKED = 200000 };

void worker_digest_text(const uint8_t *digest, char out[2 * SHOAL_DIGEST + 1]) {
    sodium_bin2hex(out, 2 * SHOAL_DIGEST + 1, digest, SHOAL_DIGEST);
}

/* ---- where ---- */

static void add_folder(base_str *list, const char *folder, const char *below) {
    if (folder && *folder) base_str_format(list, "%s%s%s", list->size ? ":" : "", folder, below);
}

/* Shoal's own, llama.cpp's and Hugging Face's. */
char *worker_models_of(const char *given) {
    base_str list = {0};
    char cache[1024];
    const char *home = getenv("HOME"), *llama = getenv("LLAMA_CACHE"), *hub = getenv("HF_HOME");
    if (!given) given = getenv("SHOAL_MODELS");
    if (given && *given) return strdup(given);
    /* The path is written also where there is no such folder yet. */
    shoal_status status = base_os_cache_folder(false, cache, sizeof cache);
    if (status == SHOAL_OK || status == SHOAL_NOT_FOUND || status == SHOAL_IO)
        add_folder(&list, cache, "/models");
    if (llama)
        add_folder(&list, llama, "");
    else
        add_folder(&list, home, "/.cache/llama.cpp");
    if (hub)
        add_folder(&list, hub, "/hub");
    else
        add_folder(&list, home, "/.cache/huggingface/hub");
    if (!list.size) base_str_text(&list, "");
    return base_str_take(&list, NULL);
}

/* ---- looking ---- */

typedef struct search {
    const worker_file *file;
    bool (*going)(void *context);
    void *context;
    uint32_t looked;
    model_map *found;
} search;

static bool hashing(void *context, uint64_t done, uint64_t all) {
    const search *s = context;
    return s->going(s->context);
}

/* Files that cannot be read are not the one. */
static void try_path(search *s, const char *path) {
    uint8_t digest[SHOAL_DIGEST];
    model_map *map;
    struct stat st;
    if (stat(path, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != s->file->bytes) return;
    if (model_map_open(path, &map) != SHOAL_OK) return;
    if (map->bytes == s->file->bytes && model_map_digest(map, hashing, s, digest) == SHOAL_OK &&
        !memcmp(digest, s->file->digest, sizeof digest))
        s->found = map;
    else
        model_map_release(map);
}

/* Folders that are links are left out: they may lead in a circle. */
static void try_folder(search *s, char *path, size_t length, int depth) {
    DIR *folder = opendir(path);
    if (!folder) return;
    const struct dirent *entry;
    while (!s->found && s->looked < MOST_LOOKED && s->going(s->context) &&
           (entry = readdir(folder))) {
        int used = snprintf(path + length, PATH_ROOM - length, "/%s", entry->d_name);
        struct stat st;
        s->looked++;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || used < 0 ||
            (size_t)used >= PATH_ROOM - length || lstat(path, &st))
            continue;
        if (S_ISDIR(st.st_mode) && depth < MOST_DEPTH)
            try_folder(s, path, length + (size_t)used, depth + 1);
        else if (!S_ISDIR(st.st_mode))
            try_path(s, path);
    }
    path[length] = 0;
    closedir(folder);
}

shoal_status worker_file_look(const char *models, const worker_file *file,
                              bool (*going)(void *context), void *context, model_map **out) {
    search s = {.file = file, .going = going, .context = context};
    char hex[2 * SHOAL_DIGEST + 1], *path = malloc(PATH_ROOM);
    *out = NULL;
    if (!path) return base_fail(SHOAL_NO_MEMORY, "no memory to look for a file");
    worker_digest_text(file->digest, hex);
    if (model_digest_link(hex, path, PATH_ROOM)) try_path(&s, path);
    /* Under its digest first: that is where it is fetched to. What a member has is not worth
     * reading all folders for. */
    for (int all = 0; all < (file->from ? 1 : 2); all++)
        for (const char *at = models; *at && !s.found;) {
            size_t n = strcspn(at, ":");
            int used =
                snprintf(path, PATH_ROOM, "%.*s%s%s", (int)n, at, all ? "" : "/", all ? "" : hex);
            if (n && used > 0 && used < PATH_ROOM) {
                if (all)
                    try_folder(&s, path, (size_t)used, 0);
                else
                    try_path(&s, path);
            }
            at += n + (at[n] == ':');
        }
    free(path);
    *out = s.found;
    return SHOAL_OK;
}
