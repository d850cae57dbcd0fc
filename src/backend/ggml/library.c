/* libggml, opened at run time: where it is looked for, and which versions will do. */
#include "backend/ggml/device.h"

#include "base/dl.h"
#include "base/log.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEEDED = 3 };

static struct {
    pthread_once_t once;
    shoal_status status;
    char why[512];
    base_dl *library, *needed[NEEDED]; /* stay open */
    ggml_library ggml;
} loader = {.once = PTHREAD_ONCE_INIT};

/* ---- folders ---- */

/* Whether a file is the library `name`: of that name, or with a number behind it in hexadecimal
 * digits, as libraries inside Python packages have. */
static bool is_library(const char *file, const char *name) {
    size_t n = strlen(name);
    if (strncmp(file, name, n) != 0) return false;
    if (file[n] == '-') n += 1 + strspn(file + n + 1, "0123456789abcdef");
    return !strncmp(file + n, ".so", 3);
}

static bool find_library(const char *folder, const char *name, char *out, size_t room) {
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir(dir))) {
        if (!is_library(entry->d_name, name)) continue;
        int length = snprintf(out, room, "%s/%s", folder, entry->d_name);
        found = length > 0 && (size_t)length < room;
    }
    if (dir) closedir(dir);
    return found;
}

/* Libraries inside a Python package do not say where the others are: those that libggml may need
 * are opened first, and stay. */
static shoal_status open_folder(const char *folder, base_dl **out) {
    static const char *const needed[NEEDED] = {"libgomp", "libggml-base", "libggml-cpu"};
    char path[512];
    const char *name = path;
    for (size_t i = 0; i < NEEDED; i++)
        if (find_library(folder, needed[i], path, sizeof path) &&
            base_dl_open(&name, 1, &loader.needed[i]) != SHOAL_OK)
            base_log(BASE_DEBUG, "ggml", "%s", shoal_error_message());
    if (!find_library(folder, "libggml", path, sizeof path))
        return base_fail(SHOAL_NOT_FOUND, "SHOAL_GGML: there is no libggml in %s", folder);
    return base_dl_open(&name, 1, out);
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

/* ggml ends the process after it has told of this. */
static void tell_end(const char *message) {
    base_log(BASE_ERROR, "ggml", "libggml ends this process: %.*s", (int)strcspn(message, "\n"),
             message);
}

static void be_told(const ggml_library *ggml) {
    void *(*set_abort_callback)(void (*told)(const char *message));
    ggml->log_set(take_log, NULL);
    /* Versions without it write what they end by to standard error. */
    base_dl_optional(loader.library, "ggml_set_abort_callback", &set_abort_callback);
    if (set_abort_callback) set_abort_callback(tell_end);
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

/* One whose devices are libraries of their own finds those beside it, or where it is told; but, of
 * those with a number in their names, the processors' alone. */
static void load_devices(const ggml_library *ggml, const char *folder) {
    static const char *const others[] = {"libggml-vulkan", "libggml-cuda", "libggml-hip",
                                         "libggml-sycl", "libggml-metal"};
    char path[512];
    ggml->backend_load_all_from_path(folder);
    for (size_t i = 0; folder && i < sizeof others / sizeof *others; i++)
        if (find_library(folder, others[i], path, sizeof path) &&
            strrchr(path, '/')[1 + strlen(others[i])] == '-')
            ggml->backend_load(path);
}

/* Where it ends the process, it is not to start a debugger first; and Vulkan is not to multiply
 * numbers of 32 bits as those of 16. Who sets these variables has the last word. */
static void set_variables(void) {
    static const char *const names[] = {"GGML_NO_BACKTRACE", "GGML_VK_DISABLE_F16",
                                        "GGML_VK_DISABLE_COOPMAT", "GGML_VK_DISABLE_COOPMAT2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], "1", 0);
}

/* SHOAL_GGML names the library, or a folder that has it. */
static shoal_status load(ggml_library *ggml) {
    const char *told = getenv("SHOAL_GGML");
    const char *const names[] = {told && *told ? told : "libggml.so.0", "libggml.so"};
    bool in_folder = told && *told && is_folder(told);
    set_variables();
    if (in_folder)
        SHOAL_TRY(open_folder(told, &loader.library));
    else
        SHOAL_TRY(base_dl_open(names, told && *told ? 1 : 2, &loader.library));
    SHOAL_TRY(check_version(ggml));
#define FIND(result, name, arguments)                                                              \
    SHOAL_TRY(base_dl_symbol(loader.library, "ggml_" #name, &ggml->name));
    GGML_FUNCTIONS(FIND)
#undef FIND
    be_told(ggml);
    if (!ggml->backend_dev_count()) load_devices(ggml, in_folder ? told : NULL);
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
