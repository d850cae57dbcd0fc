/* Kernels from source. What one device has built it keeps in files for the next process: a file is
 * named by the hash of its source, of the device, its driver and the compiler's options, and says
 * all of these again; one that is broken, or of something else, is made again. */
#include "backend/gpu/gpu.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- kernels ---- */

static void add_pending(shoal_device *device, gpu_kernel *k) {
    if (k->kernel || k->is_pending) return;
    k->is_pending = true;
    k->next = device->pending;
    device->pending = k;
}

shoal_status gpu_kernel_new(shoal_device *device, base_str *text, bool alone, gpu_kernel **out) {
    size_t size;
    shoal_status status = base_str_status(text);
    char *taken = status ? NULL : base_str_take(text, &size);
    base_str_fini(text);
    if (!taken) return status ? status : gpu_fail_memory(device, "a kernel");
    uint64_t hash = base_hash(taken, strlen(taken));
    pthread_mutex_lock(&device->building);
    /* Whoever has the same hash but another text takes the next number. */
    gpu_kernel *k;
    while ((k = base_map_get(&device->kernels, hash)) && strcmp(k->text, taken)) hash++;
    if (k) {
        k->refs++;
        free(taken);
    } else if (!(k = calloc(1, sizeof *k))) {
        free(taken);
        status = gpu_fail_memory(device, "a kernel");
    } else {
        *k = (gpu_kernel){.hash = hash, .refs = 1, .text = taken};
        status = base_map_set(&device->kernels, hash, k);
        if (status) {
            free(taken);
            free(k);
        } else if (!alone) {
            add_pending(device, k);
        }
    }
    pthread_mutex_unlock(&device->building);
    *out = k;
    return status;
}

void gpu_kernel_release(shoal_device *device, gpu_kernel *kernel) {
    pthread_mutex_lock(&device->building);
    if (!--kernel->refs) {
        base_map_remove(&device->kernels, kernel->hash);
        gpu_kernel **at = &device->pending;
        while (*at && *at != kernel) at = &(*at)->next;
        if (*at) *at = kernel->next;
        if (kernel->kernel) device->driver->forget(device, kernel->kernel);
        if (kernel->program && !--kernel->program->refs) {
            device->driver->unload(device, kernel->program->program);
            free(kernel->program);
        }
        free(kernel->text);
        free(kernel);
    }
    pthread_mutex_unlock(&device->building);
}

/* ---- files ---- */

typedef struct entry {
    char magic[16];
    uint64_t source, identity, size, sum; /* sum: of the binary */
} entry;

enum { MOST_BINARY = 1 << 28, PATH_ROOM = 1024 };

static void magic_of(const shoal_device *device, char out[16]) {
    memset(out, 0, 16);
    snprintf(out, 16, "shoal %s 1\n", device->driver->name);
}

/* The entry's path, in a folder that is made when `create`; false: there is none to use. */
static bool path_of(const shoal_device *device, uint64_t source, bool create, char *out,
                    size_t room) {
    char folder[PATH_ROOM];
    if (base_os_cache_folder(create, folder, sizeof folder)) return false;
    int n = snprintf(out, room, "%s/%s", folder, device->driver->name);
    if (n < 0 || (size_t)n >= room) return false;
    if (create && mkdir(out, 0700) && errno != EEXIST) return false;
    n = snprintf(out, room, "%s/%s/%016llx-%016llx", folder, device->driver->name,
                 (unsigned long long)device->identity, (unsigned long long)source);
    return n > 0 && (size_t)n < room;
}

/* The binary of a source, to be freed; NULL: there is none that is whole. */
static unsigned char *read_entry(const shoal_device *device, uint64_t source, size_t *size) {
    char path[PATH_ROOM], magic[16];
    entry e;
    magic_of(device, magic);
    if (!path_of(device, source, false, path, sizeof path)) return NULL;
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    unsigned char *binary = NULL;
    bool fits = fread(&e, sizeof e, 1, file) == 1 && !memcmp(e.magic, magic, sizeof magic) &&
                e.source == source && e.identity == device->identity && e.size > 0 &&
                e.size < MOST_BINARY && (binary = malloc(e.size)) != NULL;
    fits = fits && fread(binary, 1, e.size, file) == e.size && fgetc(file) == EOF &&
           base_hash(binary, e.size) == e.sum;
    fclose(file);
    if (!fits) {
        free(binary);
        return NULL;
    }
    *size = e.size;
    return binary;
}

/* Written beside its place and then moved there, so that nobody reads half of it. What fails is not
 * kept, which costs time alone. */
static void write_entry(const shoal_device *device, uint64_t source, const unsigned char *binary,
                        size_t size) {
    char path[PATH_ROOM], beside[PATH_ROOM + 32];
    entry e = {.source = source,
               .identity = device->identity,
               .size = size,
               .sum = base_hash(binary, size)};
    magic_of(device, e.magic);
    if (!path_of(device, source, true, path, sizeof path)) return;
    snprintf(beside, sizeof beside, "%s.%ld-%p", path, (long)getpid(), (const void *)device);
    FILE *file = fopen(beside, "wb");
    if (!file) return;
    bool written = fwrite(&e, sizeof e, 1, file) == 1 && fwrite(binary, 1, size, file) == size;
    if (fclose(file) || !written || rename(beside, path)) unlink(beside);
}

/* ---- building ---- */

static void keep_binary(shoal_device *device, void *program, uint64_t source) {
    size_t size = 0;
    unsigned char *binary = device->driver->binary(device, program, &size);
    if (binary && size && size < MOST_BINARY) write_entry(device, source, binary, size);
    free(binary);
}

static shoal_status program_of(shoal_device *device, const base_str *source, void **out) {
    uint64_t hash = base_hash(source->data, source->size);
    size_t size;
    unsigned char *binary = read_entry(device, hash, &size);
    *out = binary ? device->driver->load(device, binary, size) : NULL;
    free(binary);
    if (*out) return SHOAL_OK;
    SHOAL_TRY(device->driver->build(device, source, out));
    keep_binary(device, *out, hash);
    return SHOAL_OK;
}

static void name_of(const gpu_kernel *k, char out[24]) {
    snprintf(out, 24, "k%016llx", (unsigned long long)k->hash);
}

/* The kernels get their parts of a program. `building` is held. */
static shoal_status take_kernels(shoal_device *device, gpu_built *built) {
    char name[24];
    while (device->pending) {
        gpu_kernel *k = device->pending;
        name_of(k, name);
        SHOAL_TRY(device->driver->kernel(device, built->program, name, &k->kernel));
        k->program = built;
        built->refs++;
        k->is_pending = false;
        device->pending = k->next;
    }
    return SHOAL_OK;
}

static int by_hash(const void *a, const void *b) {
    const gpu_kernel *const *x = a, *const *y = b;
    return (*x)->hash < (*y)->hash ? -1 : (*x)->hash > (*y)->hash;
}

/* In the order of their hashes, so that the same kernels are the same program. */
static shoal_status render_pending(const shoal_device *device, base_str *out) {
    size_t n = 0, at = 0;
    for (const gpu_kernel *k = device->pending; k; k = k->next) n++;
    const gpu_kernel **all = calloc(n + 1, sizeof *all);
    if (!all) return gpu_fail_memory(device, "the kernels of a program");
    for (const gpu_kernel *k = device->pending; k; k = k->next) all[at++] = k;
    qsort(all, n, sizeof *all, by_hash);
    fuse_render_prelude(&device->dialect, out);
    for (size_t i = 0; i < n; i++) {
        char name[24];
        name_of(all[i], name);
        base_str_format(out, "#define NAME %s\n", name);
        base_str_text(out, all[i]->text);
        base_str_text(out, "#undef NAME\n");
    }
    free(all);
    return base_str_status(out);
}

static shoal_status build_pending(shoal_device *device) {
    base_str source;
    base_str_init(&source);
    gpu_built *built = calloc(1, sizeof *built);
    shoal_status status =
        built ? render_pending(device, &source) : gpu_fail_memory(device, "a program");
    if (!status) status = program_of(device, &source, &built->program);
    if (!status) {
        built->refs = 1;
        status = take_kernels(device, built);
        if (!--built->refs) device->driver->unload(device, built->program);
    }
    if (built && !built->refs) free(built);
    base_str_fini(&source);
    /* What cannot be built is not to be in the way of others: who needs it asks again. */
    for (; device->pending; device->pending = device->pending->next)
        device->pending->is_pending = false;
    return status;
}

/* The source of users' operations. */
static shoal_status build_alone(gpu_program *p) {
    for (uint32_t i = 0; i < p->n_launches; i++) {
        const gpu_launch *launch = &p->launches[i];
        if (!launch->custom || launch->kernel->kernel) continue;
        gpu_kernel *others = p->device->pending;
        p->device->pending = NULL;
        add_pending(p->device, launch->kernel);
        shoal_status status = build_pending(p->device);
        p->device->pending = others;
        if (status) return base_fail_prefix(status, "%s: ", launch->custom);
    }
    return SHOAL_OK;
}

shoal_status gpu_build(gpu_program *p) {
    shoal_device *device = p->device;
    pthread_mutex_lock(&device->building);
    shoal_status status = build_alone(p);
    for (int turn = 0; turn < 2 && !status; turn++) {
        bool lacks = false;
        for (uint32_t i = 0; i < p->n_launches; i++) {
            gpu_kernel *k = p->launches[i].kernel;
            if (!k || k->kernel) continue;
            lacks = true;
            add_pending(device, k);
        }
        if (!lacks) break;
        /* Another program's kernel may have been what could not be built. */
        shoal_status built = build_pending(device);
        if (!built) break;
        if (turn) status = built;
    }
    p->built = !status;
    pthread_mutex_unlock(&device->building);
    return status;
}
