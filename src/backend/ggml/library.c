/* libggml, opened at run time: where it is looked for, and which versions will do. */
#include "backend/ggml/device.h"

#include "base/dl.h"
#include "base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    shoal_status status;
    char why[512];
    base_dl *library; /* stays open */
    ggml_library ggml;
} loader = {.once = PTHREAD_ONCE_INIT};

/* ---- folders ---- */

/* The path of the first file of a folder whose name begins so and goes on with `next`; false where
 * there is none. */
static bool find_file(const char *folder, const char *begin, const char *next, char *out,
                      size_t room) {
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    size_t n = strlen(begin);
    bool found = false;
    while (dir && !found && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, begin, n) != 0 || !entry->d_name[n] ||
            !strchr(next, entry->d_name[n]) || !strstr(entry->d_name, ".so"))
            continue;
        int length = snprintf(out, room, "%s/%s", folder, entry->d_name);
        found = length > 0 && (size_t)length < room;
    }
    if (dir) closedir(dir);
    return found;
}

/* The libraries inside a Python package have names of their own, with a number in them, and nothing
 * that says where the others are: those that libggml needs are opened first, and stay. */
static shoal_status open_folder(const char *folder, base_dl **out) {
    static const struct {
        const char *begin, *next;
    } needed[] = {{"libgomp", "-."}, {"libggml-base", "-."}, {"libggml-cpu", "-."}};
    char path[512];
    const char *name = path;
    /* Of libggml alone a number in hexadecimal digits follows; of the others a word. */
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        base_dl *library;
        if (find_file(folder, needed[i].begin, needed[i].next, path, sizeof path) &&
            base_dl_open(&name, 1, &library) == SHOAL_OK)
            base_log(BASE_DEBUG, "ggml", "uses %s", path);
    }
    if (find_file(folder, "libggml", ".", path, sizeof path) ||
        find_file(folder, "libggml-", "0123456789abcdef", path, sizeof path))
        return base_dl_open(&name, 1, out);
    return base_fail(SHOAL_NOT_FOUND, "SHOAL_GGML: there is no libggml in %s", folder);
}

static bool is_folder(const char *path) {
    DIR *dir = opendir(path);
    if (dir) closedir(dir);
    return dir != NULL;
}

/* ---- opening ---- */

static void take_log(int level, const char *text, void *context) {
    enum { GGML_WARN = 3, GGML_ERROR = 4 };
    size_t n = strcspn(text, "\n");
    if (n) base_log(level == GGML_ERROR ? BASE_WARN : BASE_DEBUG, "ggml", "%.*s", (int)n, text);
}

static shoal_status check_version(ggml_library *ggml) {
    const char *(*version)(void);
    base_dl_optional(loader.library, "ggml_version", &version);
    snprintf(ggml->version, sizeof ggml->version, "%s", version ? version() : "?");
    if (version && strncmp(ggml->version, "0.", 2) != 0)
        return base_fail(SHOAL_VERSION, "libggml %s is none of the versions 0.x that are known",
                         ggml->version);
    return SHOAL_OK;
}

/* SHOAL_GGML names the library, or a folder that has it. */
static shoal_status load(ggml_library *ggml) {
    const char *told = getenv("SHOAL_GGML");
    const char *const names[] = {told && *told ? told : "libggml.so.0", "libggml.so"};
    if (told && *told && is_folder(told))
        SHOAL_TRY(open_folder(told, &loader.library));
    else
        SHOAL_TRY(base_dl_open(names, told && *told ? 1 : 2, &loader.library));
#define FIND(result, name, arguments)                                                              \
    SHOAL_TRY(base_dl_symbol(loader.library, "ggml_" #name, &ggml->name));
    GGML_FUNCTIONS(FIND)
#undef FIND
    SHOAL_TRY(check_version(ggml));
    /* Where it ends the process, it is not to start a debugger first. */
    setenv("GGML_NO_BACKTRACE", "1", 0);
    ggml->log_set(take_log, NULL);
    if (!ggml->backend_dev_count()) ggml->backend_load_all();
    return SHOAL_OK;
}

static void load_once(void) {
    loader.status = load(&loader.ggml);
    if (loader.status)
        snprintf(loader.why, sizeof loader.why,
                 "%s; install ggml (llama.cpp and pywhispercpp have it) and name the library, or "
                 "its folder, by SHOAL_GGML",
                 shoal_error_message());
}

shoal_status ggml_open(const ggml_library **out) {
    pthread_once(&loader.once, load_once);
    *out = &loader.ggml;
    return loader.status ? base_fail(loader.status, "%s", loader.why) : SHOAL_OK;
}
