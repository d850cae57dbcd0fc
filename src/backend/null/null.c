/* The null backend: it opens, allocates, takes every graph, and computes nothing: all results are
 * zero. It is the skeleton to copy for a new kind of device. Each function says what a real one
 * must do; `src/backend/ref` is the smallest backend that does it, and the conformance suite
 * (`test/conformance`) says whether yours does.
 *
 * Like a plug-in it includes the public header only and reaches Shoal through `host`. Three things
 * hold everywhere: a function that fails leaves a message by host->fail that names the thing, the
 * value and the fix; nothing may abort or exit; and memory functions, read() and write() come from
 * any thread, the other calls on one device from one thread at a time. */
#include "backend/null/null.h"

#include <stdlib.h>
#include <string.h>

/* The three handles are yours to define. Keep the host table: it is valid for ever. */
struct shoal_device {
    const shoal_host *host;
};

struct shoal_memory {
    void *data;
    size_t bytes;
    bool imported;
};

struct shoal_executable {
    uint32_t n_inputs, n_outputs;
    size_t output_bytes[];
};

/* How many devices can be opened. Open a vendor's library here at the latest, at run time
 * (dlopen), never as a link dependency. Where it is missing, or finds no device, return 0 and leave
 * the reason with host->fail: `shoal doctor` shows it. */
static uint32_t device_count(const shoal_host *host) { return 1; }

/* Describes a device without opening it. `memory` bounds what the planner puts there; `flags` say
 * what else works; `alignment` is that of memory_new. */
static shoal_status device_info(const shoal_host *host, uint32_t index, shoal_device_info *out) {
    memset(out, 0, sizeof *out);
    strcpy(out->name, "computes nothing");
    out->threads = 1;
    out->flags = SHOAL_DEVICE_HOST_MEMORY | SHOAL_DEVICE_IMPORT_HOST | SHOAL_DEVICE_IMPORT_FILE;
    out->alignment = 64;
    return SHOAL_OK;
}

/* Opens a device: contexts, queues, a thread of your own if run() is asynchronous. Keep it cheap:
 * start threads and load kernels at their first use. */
static shoal_status device_new(const shoal_host *host, uint32_t index, uint32_t threads,
                               shoal_device **out) {
    if (index > 0) return host->fail(SHOAL_NOT_FOUND, "null: there is no device %u, only 0", index);
    *out = malloc(sizeof **out);
    if (!*out) return host->fail(SHOAL_NO_MEMORY, "null: no memory for a device");
    (*out)->host = host;
    return SHOAL_OK;
}

/* Closes it. Its memory and programs have been freed and no work is under way. */
static void device_free(shoal_device *device) { free(device); }

/* Allocates uninitialised memory, aligned as device_info says. 0 bytes are a valid block. Out of
 * memory is NO_MEMORY, never a crash: the hub then places the work elsewhere. Keeping freed blocks
 * for reuse is worth it where fresh memory is slow. */
static shoal_status memory_new(shoal_device *device, size_t bytes, shoal_memory **out) {
    shoal_memory *memory = malloc(sizeof *memory);
    void *data = bytes > PTRDIFF_MAX - 64 ? NULL : aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    if (!memory || !data) {
        free(memory);
        free(data);
        return device->host->fail(SHOAL_NO_MEMORY, "null: no memory for %zu bytes", bytes);
    }
    *memory = (shoal_memory){.data = data, .bytes = bytes};
    *out = memory;
    return SHOAL_OK;
}

/* Makes a block of memory that belongs to the caller usable, without copying. It stays in place
 * until memory_free, which must leave it alone. Where that is impossible leave the IMPORT flags out
 * of device_info and fail with UNSUPPORTED. */
static shoal_status memory_import(shoal_device *device, const shoal_import *from,
                                  shoal_memory **out) {
    *out = malloc(sizeof **out);
    if (!*out) return device->host->fail(SHOAL_NO_MEMORY, "null: no memory to import a block");
    **out = (shoal_memory){.data = from->data, .bytes = from->bytes, .imported = true};
    return SHOAL_OK;
}

static void memory_free(shoal_device *device, shoal_memory *memory) {
    if (memory && !memory->imported) free(memory->data);
    free(memory);
}

/* Where the memory lies for the host. A device with memory of its own returns NULL, leaves
 * SHOAL_DEVICE_HOST_MEMORY out of its flags, and is reached by read() and write(). */
static void *memory_host(shoal_device *device, shoal_memory *memory) { return memory->data; }

static shoal_status wait_all(shoal_device *device, const shoal_points *points) {
    for (size_t i = 0; points && i < points->n_wait; i++) {
        shoal_status status = device->host->fence_wait(points->wait[i], UINT32_MAX);
        if (status != SHOAL_OK) return status;
    }
    return SHOAL_OK;
}

static shoal_status signal_all(shoal_device *device, const shoal_points *points,
                               shoal_status status, const char *message) {
    for (size_t i = 0; points && i < points->n_signal; i++)
        device->host->fence_signal(points->signal[i], status, message);
    return status;
}

/* Move a box of elements: device to host, host to device, within the device. Check that both boxes
 * lie inside their blocks. Start when all points to wait for are reached, reach those to signal at
 * the end, also after a failure. These are synchronous: they wait themselves and are done when they
 * return. Asynchronous ones queue, return OK, and report what happens later through the points
 * alone; use fence_then() rather than a thread that waits. */
static shoal_status read(shoal_device *device, void *to, shoal_binding from, const shoal_box *box,
                         const shoal_points *points) {
    shoal_status status = wait_all(device, points);
    return signal_all(device, points, status, status ? "null: a wait failed" : NULL);
}

static shoal_status write(shoal_device *device, shoal_binding to, const void *from,
                          const shoal_box *box, const shoal_points *points) {
    shoal_status status = wait_all(device, points);
    return signal_all(device, points, status, status ? "null: a wait failed" : NULL);
}

static shoal_status copy(shoal_device *device, shoal_binding to, shoal_binding from,
                         const shoal_box *box, const shoal_points *points) {
    shoal_status status = wait_all(device, points);
    return signal_all(device, points, status, status ? "null: a wait failed" : NULL);
}

/* Whether compile() takes this node: look at node->op (by device->host->op_name: numbers may differ
 * between versions), at the element types, at its attributes and bodies. Where the answer is no,
 * Shoal takes the operation apart or runs it elsewhere. */
static bool supports(shoal_device *device, const shoal_graph *graph, const shoal_node *node) {
    return true;
}

/* Turns a graph into something that runs: choose kernels, fuse, plan memory. The graph is checked
 * already; it may go after this call, so copy what you keep. Nodes come in an order in which each
 * value is defined before its use. An output may name an input, or the same value twice.
 *
 * Report the workspace truly: admission relies on it. in_place may be NULL; set an entry only when
 * output o may be written over that input, which then is not frozen, not larger or smaller, and
 * not read after the first write. -1 everywhere is always right. */
static shoal_status compile(shoal_device *device, const shoal_graph *graph,
                            const shoal_compile_options *options, shoal_compile_report *report,
                            shoal_executable **out) {
    shoal_executable *executable =
        malloc(sizeof *executable + graph->n_outputs * sizeof executable->output_bytes[0]);
    if (!executable) return device->host->fail(SHOAL_NO_MEMORY, "null: no memory for a program");
    executable->n_inputs = graph->n_inputs;
    executable->n_outputs = graph->n_outputs;
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const shoal_type *type = &graph->values[graph->outputs[i]].type;
        size_t bytes = shoal_dtype_size((shoal_dtype)type->dtype);
        for (uint8_t axis = 0; axis < type->rank; axis++) bytes *= (size_t)type->dims[axis];
        executable->output_bytes[i] = bytes;
        if (report->in_place) report->in_place[i] = -1;
    }
    report->workspace = 0;
    report->packed = 0;
    *out = executable;
    return SHOAL_OK;
}

static void executable_free(shoal_device *device, shoal_executable *executable) {
    free(executable);
}

/* Runs a program on these buffers. Check their number and sizes: they come from another part of
 * the system. Two runs on one device may follow each other before the first is done. */
static shoal_status run(shoal_device *device, shoal_executable *executable,
                        const shoal_binding *buffers, size_t n_buffers,
                        const shoal_points *points) {
    const char *problem = "null: a wait failed";
    shoal_status status = wait_all(device, points);
    if (!status && n_buffers != (size_t)executable->n_inputs + executable->n_outputs) {
        problem = "null: the number of buffers is not that of inputs and outputs";
        status = device->host->fail(SHOAL_INVALID, "%s", problem);
    }
    for (uint32_t i = 0; !status && i < executable->n_outputs; i++) {
        shoal_binding to = buffers[executable->n_inputs + i];
        size_t bytes = executable->output_bytes[i];
        if (to.offset > to.memory->bytes || to.memory->bytes - to.offset < bytes) {
            problem = "null: an output is larger than its memory";
            status = device->host->fail(SHOAL_INVALID, "%s", problem);
        } else if (bytes) {
            memset((char *)to.memory->data + to.offset, 0, bytes);
        }
    }
    return signal_all(device, points, status, status ? problem : NULL);
}

/* The table itself; a plug-in exports it. */
const shoal_backend backend_null = {
    .abi = SHOAL_BACKEND_ABI,
    .size = sizeof(shoal_backend),
    .name = "null",
    .summary = "computes nothing: the skeleton for new backends",
    .device_count = device_count,
    .device_info = device_info,
    .device_new = device_new,
    .device_free = device_free,
    .memory_new = memory_new,
    .memory_import = memory_import,
    .memory_free = memory_free,
    .memory_host = memory_host,
    .read = read,
    .write = write,
    .copy = copy,
    .supports = supports,
    .compile = compile,
    .executable_free = executable_free,
    .run = run,
};
