/* The cpu backend's table: devices, memory, copies. Work is done before run() and copy() return. */
#include "backend/cpu/cpu.h"

#include "backend/common.h"
#include "base/os_cpu.h"
#include "base/str.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- memory ---- */

/* Smaller blocks are left to malloc. What the cache may hold. */
#define LEAST_KEPT ((size_t)1 << 16)
#define CACHE_BYTES ((size_t)1 << 30)

static void *new_block(size_t room) {
    return room < BASE_PAGES_UNIT ? aligned_alloc(CPU_ALIGN, room) : base_pages_new(room);
}

static void free_block(void *data, size_t room) {
    if (room < BASE_PAGES_UNIT)
        free(data);
    else
        base_pages_free(data, room);
}

static void free_kept(void *context, void *block, size_t room) { free_block(block, room); }

static void keep(backend_cache *cache, void *data, size_t room) {
    if (room < LEAST_KEPT)
        free_block(data, room);
    else
        backend_cache_keep(cache, data, room);
}

static void *take_block(backend_cache *cache, size_t *room, bool brief) {
    if (*room < LEAST_KEPT) return new_block(*room);
    void *data = backend_cache_take(cache, room, brief);
    if (!data) data = new_block(*room);
    if (data) return data;
    backend_cache_clear(cache);
    return new_block(*room);
}

static shoal_status memory_new(shoal_device *device, size_t bytes, bool brief, shoal_memory **out) {
    size_t unit = bytes < LEAST_KEPT        ? CPU_ALIGN
                  : bytes < BASE_PAGES_UNIT ? LEAST_KEPT / 4
                                            : BASE_PAGES_GRAIN;
    size_t room;
    if (base_add_overflow(bytes, unit - (bytes ? 1 : 0), &room))
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %zu bytes", bytes);
    room = room / unit * unit;
    shoal_memory *memory = malloc(sizeof *memory);
    void *data = memory ? take_block(&device->cache, &room, brief) : NULL;
    if (!data) {
        free(memory);
        return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for %zu bytes", bytes);
    }
    *memory = (shoal_memory){.data = data, .bytes = bytes, .room = room};
    *out = memory;
    return SHOAL_OK;
}

shoal_status cpu_memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    return memory_new(device, bytes, false, out);
}

shoal_status cpu_workspace_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    return memory_new(device, bytes, true, out);
}

void cpu_memory_free(shoal_device *device, shoal_memory *memory) {
    if (!memory) return;
    if (!memory->imported) keep(&device->cache, memory->data, memory->room);
    free(memory);
}

static shoal_status memory_import(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out) {
    *out = malloc(sizeof **out);
    if (!*out) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory to import a block");
    **out = (shoal_memory){.data = from->data, .bytes = from->bytes, .imported = true};
    return SHOAL_OK;
}

static void *memory_host(shoal_device *device, shoal_memory *memory) { return memory->data; }

/* ---- devices ---- */

static uint32_t device_count(const shoal_host *host) { return 1; }

static shoal_status device_info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    char name[64];
    base_cpu_name(name, sizeof name);
    *out = (shoal_device_info){.memory = base_cpu_memory(),
                               .threads = base_cpu_count(),
                               .flags = SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST |
                                        SHOAL_DEVICE_IMPORT_FILE,
                               .alignment = CPU_ALIGN};
    snprintf(out->name, sizeof out->name, "%s, %u thread%s", name, out->threads,
             out->threads == 1 ? "" : "s");
    return SHOAL_OK;
}

/* The sets that src/backend/meson.build compiles, and the instructions that each needs. */
extern const cpu_kernels cpu_kernels_base;
#ifdef __x86_64__
extern const cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
extern const cpu_grouped cpu_grouped_bytes_avx512_vnni, cpu_grouped_bytes_avx512_bf16,
    cpu_grouped_bf16_avx512_bf16;
extern const cpu_digits_kernel cpu_digits_avx512_vnni[BASE_BLOCK_COUNT],
    cpu_digits_avx512_bf16[BASE_BLOCK_COUNT];
#elif defined(__aarch64__)
extern const cpu_kernels cpu_kernels_neon;
extern const cpu_grouped cpu_grouped_bytes_neon_dot, cpu_grouped_bytes_neon_i8mm,
    cpu_grouped_bf16_neon_i8mm;
#endif

static const struct {
    const cpu_kernels *kernels;
    unsigned needs;
    /* Of a set that is another but for some products: its name, and these. */
    const char *name;
    const cpu_grouped *bytes, *bfloats;
    const cpu_digits_kernel *digits;
} sets[] = {
    {&cpu_kernels_base, 0},
#ifdef __x86_64__
    {&cpu_kernels_avx2, BASE_CPU_AVX2},
    {&cpu_kernels_avx512, BASE_CPU_AVX512},
    {&cpu_kernels_avx512, BASE_CPU_VNNI, "avx512_vnni", &cpu_grouped_bytes_avx512_vnni, NULL,
     cpu_digits_avx512_vnni},
    {&cpu_kernels_avx512, BASE_CPU_BF16, "avx512_bf16", &cpu_grouped_bytes_avx512_bf16,
     &cpu_grouped_bf16_avx512_bf16, cpu_digits_avx512_bf16},
#elif defined(__aarch64__)
    {&cpu_kernels_neon, 0},
    {&cpu_kernels_neon, BASE_CPU_DOT, "neon_dot", &cpu_grouped_bytes_neon_dot, NULL},
    {&cpu_kernels_neon, BASE_CPU_I8MM, "neon_i8mm", &cpu_grouped_bytes_neon_i8mm,
     &cpu_grouped_bf16_neon_i8mm},
#endif
};

enum { N_SETS = sizeof sets / sizeof *sets };
static cpu_kernels tables[N_SETS];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
    for (size_t i = 0; i < N_SETS; i++) {
        tables[i] = *sets[i].kernels;
        if (sets[i].name) tables[i].name = sets[i].name;
        if (sets[i].bytes) tables[i].bytes = sets[i].bytes;
        if (sets[i].bfloats) tables[i].bfloats = sets[i].bfloats;
        if (sets[i].digits) tables[i].digits = sets[i].digits;
    }
}

size_t cpu_kernel_sets(const cpu_kernels *out[CPU_MOST_SETS]) {
    static_assert((int)N_SETS <= (int)CPU_MOST_SETS, "there is room for all");
    pthread_once(&tables_once, make_tables);
    unsigned has = base_cpu_features();
    size_t n = 0;
    for (size_t i = 0; i < N_SETS; i++)
        if ((sets[i].needs & has) == sets[i].needs) out[n++] = &tables[i];
    return n;
}

/* The best that the processor has, or the one that SHOAL_CPU names. */
static shoal_status choose_kernels(const cpu_kernels **out) {
    const cpu_kernels *found[CPU_MOST_SETS];
    size_t n = cpu_kernel_sets(found);
    *out = found[n - 1];
    const char *name = getenv("SHOAL_CPU");
    if (!name || !*name) return SHOAL_OK;
    base_str known;
    base_str_init(&known);
    for (size_t i = 0; i < n; i++) {
        *out = found[i];
        if (!strcmp(found[i]->name, name)) break;
        base_str_format(&known, "%s%s", i ? ", " : "", found[i]->name);
        *out = NULL;
    }
    shoal_status status = SHOAL_OK;
    if (!*out)
        status = base_fail(SHOAL_INVALID, "SHOAL_CPU is '%s'; this processor has: %s", name,
                           known.data ? known.data : "");
    base_str_fini(&known);
    return status;
}

shoal_status cpu_instructions(const char **out) {
    const cpu_kernels *kernels;
    SHOAL_TRY(choose_kernels(&kernels));
    *out = kernels->name;
    return SHOAL_OK;
}

static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    if (index > 0) return base_fail(SHOAL_NOT_FOUND, "cpu: there is no device %u, only 0", index);
    shoal_device *device = calloc(1, sizeof *device);
    if (!device) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for a device");
    shoal_status status = choose_kernels(&device->kernels);
    if (!status) status = base_pool_new(threads ? threads : base_cpu_count(), &device->pool);
    if (status) {
        free(device);
        return status;
    }
    backend_cache_init(&device->cache, CACHE_BYTES, free_kept, NULL);
    device->host = host;
    *out = device;
    return SHOAL_OK;
}

static void device_free(shoal_device *device) {
    if (!device) return;
    backend_cache_fini(&device->cache);
    base_pool_destroy(&device->pool);
    free(device);
}

typedef struct range {
    cpu_range work;
    void *context;
    int64_t count;
    uint32_t parts;
} range;

static void run_part(void *context, uint32_t index) {
    const range *r = context;
    int64_t each = r->count / r->parts, rest = r->count % r->parts, i = index;
    int64_t begin = each * i + (i < rest ? i : rest);
    r->work(r->context, index, begin, begin + each + (i < rest));
}

void cpu_parallel(shoal_device *device, int64_t count, int64_t grain, cpu_range work,
                  void *context) {
    range r = {work, context, count, base_pool_threads(device->pool)};
    if (grain < 1) grain = 1;
    if (count / grain < r.parts) r.parts = count / grain > 1 ? (uint32_t)(count / grain) : 1;
    base_pool_run(device->pool, r.parts, run_part, &r);
}

/* ---- programs ---- */

static backend_span span_of(shoal_binding place) {
    return (backend_span){place.memory->data, place.memory->bytes, place.offset};
}

static shoal_status read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                         const shoal_points *points) {
    return backend_copy_box(backend_host_span(to), span_of(from), box, points);
}

static shoal_status write(shoal_device *device, shoal_binding to, const void *from,
                          const shoal_box *box, const shoal_points *points) {
    return backend_copy_box(span_of(to), backend_host_span(from), box, points);
}

static shoal_status copy(shoal_device *device, shoal_binding to, shoal_binding from,
                         const shoal_box *box, const shoal_points *points) {
    return backend_copy_box(span_of(to), span_of(from), box, points);
}

static bool supports(shoal_device *device, const shoal_graph *g, const shoal_node *node) {
    return cpu_supports(device->kernels, g, node);
}

struct shoal_executable {
    cpu_program *program;
};

static shoal_status compile(shoal_device *device, const shoal_graph *g,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out) {
    shoal_executable *executable = malloc(sizeof *executable);
    if (!executable) return base_fail(SHOAL_NO_MEMORY, "cpu: no memory for a program");
    shoal_status status = cpu_program_new(device, g, options, report, &executable->program);
    if (status)
        free(executable);
    else
        *out = executable;
    return status;
}

static void executable_free(shoal_device *device, shoal_executable *executable) {
    if (executable) cpu_program_destroy(&executable->program);
    free(executable);
}

static shoal_status run_program(shoal_device *device, const cpu_program *program,
                                const shoal_binding *buffers, size_t n_buffers) {
    const shoal_graph *g = program->g;
    if (n_buffers != (size_t)g->n_inputs + g->n_outputs)
        return base_fail(SHOAL_INVALID, "cpu: %zu buffers for %u inputs and %u outputs", n_buffers,
                         g->n_inputs, g->n_outputs);
    void **at = calloc(n_buffers + 1, sizeof *at);
    shoal_status status = at ? SHOAL_OK : base_fail(SHOAL_NO_MEMORY, "cpu: no memory for a run");
    for (size_t i = 0; !status && i < n_buffers; i++) {
        bool in = i < g->n_inputs;
        const shoal_memory *memory = buffers[i].memory;
        const shoal_type *type = &g->values[in ? g->inputs[i] : g->outputs[i - g->n_inputs]].type;
        status =
            backend_bind((backend_span){memory->data, memory->bytes, buffers[i].offset},
                         (size_t)base_type_bytes(type), shoal_dtype_size((shoal_dtype)type->dtype),
                         in ? "input" : "output", in ? i : i - g->n_inputs, &at[i]);
    }
    if (!status) status = cpu_program_run(device, program, at);
    free(at);
    return status;
}

static shoal_status run(shoal_device *device, shoal_executable *executable,
                        const shoal_binding *buffers, size_t n_buffers,
                        const shoal_points *points) {
    shoal_status status = backend_wait_all(points);
    if (!status) status = run_program(device, executable->program, buffers, n_buffers);
    return backend_signal_all(points, status);
}

const shoal_backend backend_cpu = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .name = "cpu",
    .summary = "the processor's cores: vector kernels over a pool of threads",
    .device_count = device_count,
    .device_info = device_info,
    .device_new = device_new,
    .device_free = device_free,
    .memory_new = cpu_memory_new,
    .memory_import = memory_import,
    .memory_free = cpu_memory_free,
    .memory_host = memory_host,
    .read = read,
    .write = write,
    .copy = copy,
    .supports = supports,
    .compile = compile,
    .executable_free = executable_free,
    .run = run,
};
