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
    /* Reading ahead, as devices do it, too. */
    fuse_work work = {.each = number % 4 + 1};
    work.keeps = work.each > 1 && fuse_reduced_count(k) <= work.each;
    fuse_render(k, &work, name, out);
    for (uint32_t i = 0; i < k->n_loads; i++) n += is_pointer(&k->loads[i]);
    base_str_format(out,
                    "#ifndef __OPENCL_C_VERSION__\nvoid call_%u(void *const *p, i64 items) { %s(",
                    number, name);
    for (uint32_t i = 0; i < n; i++) base_str_format(out, "p[%u], ", i);
    base_str_format(out, "0, items); }\n#endif\n");
}

/* Writes a source and runs a compiler on it. */
static bool compiles(const char *command, const char *path, const char *prelude,
                     const base_str *kernels) {
    char line[4608];
    FILE *file = fopen(path, "w");
    if (!file) return false;
    bool written = fprintf(file, "%s%s", prelude, kernels->data) > 0;
    if (fclose(file) || !written) return false;
    snprintf(line, sizeof line, "%s %s", command, path);
    return !system(line);
}

/* The same kernels are OpenCL C. */
static const char *check_opencl(const char *folder, const base_str *kernels) {
    static const char command[] =
        "clang -x cl -cl-std=CL1.2 -w -fsyntax-only -Xclang -finclude-default-header";
    static int has_clang = -1;
    char path[64];
    base_str prelude;
    base_str_init(&prelude);
    fuse_render_prelude(&fuse_dialect_opencl, &prelude);
    hunt_must(base_str_status(&prelude));
    snprintf(path, sizeof path, "%s/kernels.cl", folder);
    if (has_clang < 0)
        has_clang = !system("command -v clang > /dev/null 2>&1 && echo '' | "
                            "clang -x cl -Xclang -finclude-default-header -fsyntax-only - "
                            "> /dev/null 2>&1");
    bool fits = !has_clang || compiles(command, path, prelude.data, kernels);
    unlink(path);
    base_str_fini(&prelude);
    return fits ? NULL : "what was rendered is not OpenCL C";
}

static const char *build(const base_str *kernels, bool opencl, void **library) {
    char folder[] = "/tmp/hunt_XXXXXX", path[64], command[4352];
    const char *wrong = NULL;
    base_str prelude;
    if (!mkdtemp(folder)) return "there is no folder for what is compiled";
    base_str_init(&prelude);
    fuse_render_prelude(&fuse_dialect_c, &prelude);
    hunt_must(base_str_status(&prelude));
    snprintf(path, sizeof path, "%s/kernels.c", folder);
    snprintf(command, sizeof command,
             "%s -std=c11 -O0 -w -fPIC -shared -ffp-contract=off -lm -o %s/kernels.so", compiler(),
             folder);
    if (!compiles(command, path, prelude.data, kernels)) wrong = "what was rendered is not C";
    unlink(path);
    snprintf(path, sizeof path, "%s/kernels.so", folder);
    if (!wrong && !(*library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) wrong = dlerror();
    if (!wrong && opencl) wrong = check_opencl(folder, kernels);
    unlink(path);
    rmdir(folder);
    base_str_fini(&prelude);
    return wrong;
}

const char *hunt_compile(const fuse_plan *plans, uint32_t n, bool opencl, hunt_rendered **out) {
    hunt_rendered *r = *out = hunt_alloc(sizeof *r);
    base_str kernels;
    uint32_t n_steps = 0;
    for (uint32_t p = 0; p < n; p++) n_steps += plans[p].n_steps;
    r->steps = hunt_alloc((n_steps + (size_t)1) * sizeof *r->steps);
    r->entries = hunt_alloc((n_steps + (size_t)1) * sizeof *r->entries);
    base_str_init(&kernels);
    for (uint32_t p = 0; p < n; p++)
        for (uint32_t s = 0; s < plans[p].n_steps; s++) {
            if (!plans[p].steps[s].kernel) continue;
            render(plans[p].steps[s].kernel, r->n, &kernels);
            r->steps[r->n++] = &plans[p].steps[s];
        }
    hunt_must(base_str_status(&kernels));
    const char *why = r->n ? build(&kernels, opencl, &r->library) : NULL;
    base_str_fini(&kernels);
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
