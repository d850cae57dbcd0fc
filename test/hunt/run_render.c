/* Kernels as a backend for a compiler has them: rendered as C, made a library, opened and called.
 */
#include "run_render.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A kernel for arrays of pointers, whatever their number. */
typedef void (*entry)(void *const *pointers, int64_t items);

struct hunt_rendered {
    void *library;
    const fuse_step **steps; /* of all plans */
    entry *entries;          /* likewise */
    uint32_t n;
};

static const char *compiler(void) {
    const char *name = getenv("CC");
    return name && *name ? name : "cc";
}

void hunt_need_compiler(void) {
    char line[4096];
    snprintf(line, sizeof line, "command -v %s > /dev/null 2>&1", compiler());
    if (!system(line)) return;
    printf("SKIP: there is no C compiler '%s'; set CC, or apt-get install gcc\n", compiler());
    exit(77);
}

static bool is_pointer(const fuse_load *load) {
    return load->kind == FUSE_MEMORY || load->kind == FUSE_RESULT;
}

/* The kernel, and a function of one form that calls it. */
static void render(const fuse_kernel *k, uint32_t number, base_str *out) {
    char name[32];
    uint32_t n = k->n_stores;
    snprintf(name, sizeof name, "kernel_%u", number);
    fuse_render(k, name, out);
    for (uint32_t i = 0; i < k->n_loads; i++) n += is_pointer(&k->loads[i]);
    base_str_format(out, "void call_%u(void *const *p, i64 items) { %s(", number, name);
    for (uint32_t i = 0; i < n; i++) base_str_format(out, "p[%u], ", i);
    base_str_format(out, "0, items); }\n");
}

static const char *build(const base_str *source, void **library) {
    static char why[1024];
    char folder[] = "/tmp/hunt_XXXXXX", path[64], line[4608];
    const char *wrong = NULL;
    if (!mkdtemp(folder)) return "there is no folder for what is compiled";
    snprintf(path, sizeof path, "%s/kernels.c", folder);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(source->data, 1, source->size, file) != source->size)
        wrong = "the source cannot be written";
    if (file) fclose(file);
    snprintf(line, sizeof line,
             "%s -std=c11 -O0 -w -fPIC -shared -ffp-contract=off -o %s/kernels.so %s -lm",
             compiler(), folder, path);
    if (!wrong && system(line)) wrong = "what was rendered is not C";
    snprintf(path, sizeof path, "%s/kernels.so", folder);
    if (!wrong && !(*library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        snprintf(why, sizeof why, "%s", dlerror());
        wrong = why;
    }
    unlink(path);
    snprintf(path, sizeof path, "%s/kernels.c", folder);
    unlink(path);
    rmdir(folder);
    return wrong;
}

const char *hunt_compile(const fuse_plan *plans, uint32_t n, hunt_rendered **out) {
    hunt_rendered *r = *out = hunt_alloc(sizeof *r);
    base_str source;
    uint32_t n_steps = 0;
    for (uint32_t p = 0; p < n; p++) n_steps += plans[p].n_steps;
    r->steps = hunt_alloc((n_steps + (size_t)1) * sizeof *r->steps);
    r->entries = hunt_alloc((n_steps + (size_t)1) * sizeof *r->entries);
    base_str_init(&source);
    fuse_render_prelude(&fuse_dialect_c, &source);
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t s = 0; s < plans[p].n_steps; s++) {
            if (!plans[p].steps[s].kernel) continue;
            render(plans[p].steps[s].kernel, r->n, &source);
            r->steps[r->n++] = &plans[p].steps[s];
        }
    hunt_must(base_str_status(&source));
    const char *why = r->n ? build(&source, &r->library) : NULL;
    base_str_fini(&source);
    for (uint32_t i = 0; i < r->n && !why; i++) {
        char name[32];
        snprintf(name, sizeof name, "call_%u", i);
        void *symbol = dlsym(r->library, name);
        memcpy(&r->entries[i], &symbol, sizeof symbol);
        if (!symbol) why = "what was compiled is not all there";
    }
    return why;
}

void hunt_rendered_free(hunt_rendered **rendered) {
    hunt_rendered *r = *rendered;
    *rendered = NULL;
    if (!r) return;
    if (r->library) dlclose(r->library);
    free(r->steps);
    free(r->entries);
    free(r);
}

void hunt_call(const hunt_rendered *r, const fuse_plan *plan, const fuse_step *step,
               void *const *memory) {
    const fuse_kernel *k = step->kernel;
    void **pointers = hunt_alloc((k->n_loads + k->n_stores + (size_t)1) * sizeof *pointers);
    uint32_t n = 0, number = 0;
    for (uint32_t i = 0; i < k->n_loads; i++)
        if (is_pointer(&k->loads[i])) pointers[n++] = memory[plan->values[k->loads[i].value].root];
    for (uint32_t i = 0; i < k->n_stores; i++) pointers[n++] = memory[k->stores[i].value];
    while (r->steps[number] != step) number++;
    r->entries[number](pointers, fuse_items(k));
    free(pointers);
}
