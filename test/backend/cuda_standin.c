/* The driver's half of the stand-in: devices, memory, streams, events (cuda_standin.h). */
#include "cuda_standin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

SHOAL_API void faults_tell(const char *text);
SHOAL_API unsigned long faults_calls(void);
SHOAL_API long faults_alive(void);

enum { MOST_DEVICES = 8, DEPTH = 8 };
struct cuda_context {
    int refs;
    atomic_int error; /* all calls return it, until the context is made anew */
};
static cuda_context contexts[MOST_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local cuda_context *current[DEPTH];
static _Thread_local int depth;

/* ---- failures ---- */

static const char *const ways[] = {"now", "late", "lost", "stuck"};
static atomic_ulong failing;
static _Atomic(const char *) how; /* one of the ways */
static atomic_ulong calls, launches, products;
static atomic_long alive;

void faults_tell(const char *text) {
    const char *fail = strstr(text, "fail="), *way = strstr(text, "how=");
    if (fail) failing = strtoul(fail + 5, NULL, 10);
    for (size_t i = 0; way && i < sizeof ways / sizeof *ways; i++)
        if (!strncmp(way + 4, ways[i], strlen(ways[i]))) how = ways[i];
    atomic_store(&calls, 0);
}

unsigned long faults_calls(void) { return atomic_load(&calls); }
long faults_alive(void) { return atomic_load(&alive); }

static bool is(const char *what) {
    const char *told = how;
    return told && !strcmp(told, what);
}

static pthread_rwlock_t using =
    PTHREAD_RWLOCK_INITIALIZER; /* memory is not freed while it is used */

/* Nothing runs in a context any more once it is lost. The lock orders what was done before, for
 * sanitizers as well, which do not see the atomic numbers here. */
static void lose(cuda_context *context, cuda_code code) {
    pthread_rwlock_wrlock(&using);
    atomic_store(&context->error, code);
    pthread_rwlock_unlock(&using);
}

static cuda_code error_of(cuda_context *context) {
    pthread_rwlock_rdlock(&using);
    cuda_code code = atomic_load(&context->error);
    pthread_rwlock_unlock(&using);
    return code;
}

bool standin_fails(cuda_code *code) {
    unsigned long n = atomic_fetch_add(&calls, 1) + 1;
    cuda_context *context = depth ? current[depth - 1] : NULL;
    *code = context ? error_of(context) : CUDA_SUCCESS;
    if (*code) return true;
    if (!failing || n != failing) return false;
    if (is("lost") && context) lose(context, STANDIN_ECC);
    *code = is("lost") ? STANDIN_ECC : CUDA_OUT_OF_MEMORY;
    return true;
}

void standin_count(int by) { atomic_fetch_add(&alive, by); }

void standin_count_launch(bool is_product) {
    atomic_fetch_add(is_product ? &products : &launches, 1);
}

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("STANDIN_COUNT");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%lu %lu\n", atomic_load(&launches), atomic_load(&products));
    fclose(file);
}

_Noreturn static void give_up(const char *why) {
    fprintf(stderr, "cuda stand-in: %s\n", why);
    abort();
}

/* ---- devices and contexts ---- */

static int number(const char *variable, int otherwise) {
    const char *told = getenv(variable);
    return told && *told ? atoi(told) : otherwise;
}

int standin_capability(void) { return number("STANDIN_CAPABILITY", 80); }
int standin_threads(void) { return number("STANDIN_THREADS", STANDIN_MOST_THREADS); }

#define CALL(name, ...)                                                                            \
    SHOAL_API cuda_code name(__VA_ARGS__);                                                         \
    cuda_code name(__VA_ARGS__)
/* Of a call that may be made to fail, and needs a context. */
#define MAY_FAIL                                                                                   \
    cuda_code code;                                                                                \
    if (!depth) return STANDIN_INVALID_CONTEXT;                                                    \
    if (standin_fails(&code)) return code

CALL(cuInit, unsigned flags) {
    return number("STANDIN_DEVICES", 1) ? CUDA_SUCCESS : CUDA_NO_DEVICE;
}
CALL(cuDriverGetVersion, int *version) { return *version = 12040, CUDA_SUCCESS; }
CALL(cuDeviceGetCount, int *count) { return *count = number("STANDIN_DEVICES", 1), CUDA_SUCCESS; }
CALL(cuDeviceGet, int *device, int index) { return *device = index, CUDA_SUCCESS; }

CALL(cuDeviceGetName, char *name, int room, int device) {
    snprintf(name, (size_t)room, "Stand-in GPU %d", device);
    return CUDA_SUCCESS;
}

CALL(cuDeviceTotalMem_v2, size_t *bytes, int device) {
    return *bytes = (size_t)1 << 31, CUDA_SUCCESS;
}

CALL(cuDeviceGetAttribute, int *value, int what, int device) {
    switch (what) {
    case CUDA_MOST_THREADS: *value = standin_threads(); break;
    case CUDA_MOST_PITCH: *value = number("STANDIN_PITCH", INT32_MAX); break;
    case CUDA_UNITS: *value = 4; break;
    case CUDA_MAJOR: *value = standin_capability() / 10; break;
    case CUDA_MINOR: *value = standin_capability() % 10; break;
    default: return STANDIN_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CALL(cuGetErrorName, cuda_code code, const char **name) {
    static const struct {
        cuda_code code;
        const char *name;
    } names[] = {{STANDIN_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
                 {CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
                 {STANDIN_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
                 {CUDA_NO_BINARY, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                 {STANDIN_ECC, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                 {STANDIN_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
                 {STANDIN_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) return *name = names[i].name, CUDA_SUCCESS;
    return STANDIN_INVALID_VALUE;
}

CALL(cuDevicePrimaryCtxRetain, cuda_context **context, int device) {
    cuda_code code;
    if (standin_fails(&code)) return code;
    pthread_mutex_lock(&lock);
    contexts[device].refs++;
    pthread_mutex_unlock(&lock);
    standin_count(1);
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, int device) {
    pthread_mutex_lock(&lock);
    if (contexts[device].refs-- == 0) give_up("a context is released twice");
    if (!contexts[device].refs) atomic_store(&contexts[device].error, CUDA_SUCCESS);
    pthread_mutex_unlock(&lock);
    standin_count(-1);
    return CUDA_SUCCESS;
}

CALL(cuCtxPushCurrent_v2, cuda_context *context) {
    if (depth == DEPTH) give_up("contexts are pushed and not popped");
    current[depth++] = context;
    return CUDA_SUCCESS;
}

CALL(cuCtxPopCurrent_v2, cuda_context **context) {
    if (!depth) return STANDIN_INVALID_CONTEXT;
    *context = current[--depth];
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

typedef struct block {
    struct block *next;
    char *host;
    size_t bytes;
} block;
static block *blocks;

void *standin_host(cuda_address address, size_t bytes) {
    char *host = (char *)(uintptr_t)(address - STANDIN_OFFSET);
    if (!bytes) return host;
    pthread_mutex_lock(&lock);
    const block *b = blocks;
    while (b && !(host >= b->host && (size_t)(host - b->host) <= b->bytes &&
                  bytes <= b->bytes - (size_t)(host - b->host)))
        b = b->next;
    pthread_mutex_unlock(&lock);
    if (!b) give_up("an address is outside of all memory of the device");
    return host;
}

CALL(cuMemAlloc_v2, cuda_address *address, size_t bytes) {
    MAY_FAIL;
    block *b = malloc(sizeof *b);
    char *host = b && bytes ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (!host) {
        free(b);
        return bytes ? CUDA_OUT_OF_MEMORY : STANDIN_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    *b = (block){blocks, host, bytes};
    blocks = b;
    pthread_mutex_unlock(&lock);
    standin_count(1);
    *address = (uintptr_t)host + STANDIN_OFFSET;
    return CUDA_SUCCESS;
}

CALL(cuMemFree_v2, cuda_address address) {
    if (!depth) return STANDIN_INVALID_CONTEXT;
    char *host = (char *)(uintptr_t)(address - STANDIN_OFFSET);
    pthread_mutex_lock(&lock);
    block **at = &blocks;
    while (*at && (*at)->host != host) at = &(*at)->next;
    block *b = *at;
    if (!b) give_up("what is freed is no memory of the device");
    *at = b->next;
    pthread_mutex_unlock(&lock);
    pthread_rwlock_wrlock(&using);
    free(host);
    pthread_rwlock_unlock(&using);
    free(b);
    standin_count(-1);
    return CUDA_SUCCESS;
}

CALL(cuMemHostAlloc, void **host, size_t bytes, unsigned flags) {
    MAY_FAIL;
    if (!(*host = malloc(bytes))) return CUDA_OUT_OF_MEMORY;
    standin_count(1);
    return CUDA_SUCCESS;
}

CALL(cuMemFreeHost, void *host) {
    pthread_rwlock_wrlock(&using);
    free(host);
    pthread_rwlock_unlock(&using);
    standin_count(-1);
    return CUDA_SUCCESS;
}

/* ---- streams ---- */

typedef struct item {
    struct item *next;
    void (*work)(void *context); /* NULL: it fails, or never ends */
    void *context;
} item;
struct cuda_stream {
    cuda_context *context;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    item *first, **end;
    unsigned long enqueued, done;
    bool closing;
};
struct cuda_event {
    cuda_stream *stream;
    unsigned long after; /* so many of the stream's items are done */
};

/* It begins late, so that who does not wait finds nothing done. */
static void do_item(const item *i, cuda_context *context) {
    static atomic_uint count;
    if (atomic_fetch_add(&count, 1) % 8 == 0) usleep(50);
    while (!i->work && is("stuck")) pause();
    if (!i->work) {
        lose(context, STANDIN_LAUNCH_FAILED);
        return;
    }
    pthread_rwlock_rdlock(&using);
    if (!atomic_load(&context->error)) i->work(i->context);
    pthread_rwlock_unlock(&using);
}

static void *serve(void *context) {
    cuda_stream *stream = context;
    pthread_mutex_lock(&stream->lock);
    while (true) {
        item *i = stream->first;
        if (!i && stream->closing) break;
        if (!i) {
            pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        stream->first = i->next;
        if (!i->next) stream->end = &stream->first;
        pthread_mutex_unlock(&stream->lock);
        do_item(i, stream->context);
        free(i->context);
        free(i);
        pthread_mutex_lock(&stream->lock);
        stream->done++;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

CALL(cuStreamCreate, cuda_stream **stream, unsigned flags) {
    MAY_FAIL;
    cuda_stream *s = calloc(1, sizeof *s);
    if (!s) return CUDA_OUT_OF_MEMORY;
    s->context = current[depth - 1];
    s->end = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, serve, s)) give_up("no thread");
    standin_count(1);
    *stream = s;
    return CUDA_SUCCESS;
}

CALL(cuStreamDestroy_v2, cuda_stream *s) {
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
    standin_count(-1);
    return CUDA_SUCCESS;
}

/* In turn: whether it fails is asked first. */
cuda_code standin_enqueue(cuda_stream *stream, void (*work)(void *), void *context) {
    cuda_code code = CUDA_SUCCESS;
    item *i = malloc(sizeof *i);
    bool fails = depth ? standin_fails(&code) : false;
    if (!depth) code = STANDIN_INVALID_CONTEXT;
    bool later = fails && code == CUDA_OUT_OF_MEMORY && (is("late") || is("stuck"));
    if (!i || (code && !later)) {
        free(i);
        free(context);
        return code ? code : CUDA_OUT_OF_MEMORY;
    }
    *i = (item){.work = later ? NULL : work, .context = context};
    pthread_mutex_lock(&stream->lock);
    *stream->end = i;
    stream->end = &i->next;
    stream->enqueued++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return CUDA_SUCCESS;
}

static cuda_code await(cuda_stream *s, unsigned long done) {
    pthread_mutex_lock(&s->lock);
    while (s->done < done) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return error_of(s->context);
}

CALL(cuStreamSynchronize, cuda_stream *stream) {
    MAY_FAIL;
    pthread_mutex_lock(&stream->lock);
    unsigned long all = stream->enqueued;
    pthread_mutex_unlock(&stream->lock);
    return await(stream, all);
}

CALL(cuEventCreate, cuda_event **event, unsigned flags) {
    MAY_FAIL;
    if (!(*event = calloc(1, sizeof **event))) return CUDA_OUT_OF_MEMORY;
    standin_count(1);
    return CUDA_SUCCESS;
}

CALL(cuEventDestroy_v2, cuda_event *event) {
    free(event);
    standin_count(-1);
    return CUDA_SUCCESS;
}

static void nothing(void *context) {}

CALL(cuEventRecord, cuda_event *event, cuda_stream *stream) {
    cuda_code code = standin_enqueue(stream, nothing, NULL);
    if (code) return code;
    pthread_mutex_lock(&stream->lock);
    event->stream = stream;
    event->after = stream->enqueued;
    pthread_mutex_unlock(&stream->lock);
    return CUDA_SUCCESS;
}

CALL(cuEventSynchronize, cuda_event *event) {
    MAY_FAIL;
    return event->stream ? await(event->stream, event->after) : CUDA_SUCCESS;
}

/* ---- copies ---- */

static char *side_of(const cuda_side *side, const cuda_box *box) {
    size_t last = ((box->depth - 1) * side->height + box->height - 1) * side->pitch + box->width;
    return side->kind == CUDA_KIND_DEVICE ? standin_host(side->device, last) : (char *)side->host;
}

static void copy_box(void *context) {
    const cuda_box *box = context;
    char *to = side_of(&box->to, box);
    const char *from = side_of(&box->from, box);
    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memcpy(to + (z * box->to.height + y) * box->to.pitch,
                   from + (z * box->from.height + y) * box->from.pitch, box->width);
}

static bool is_allowed(const cuda_side *side, const cuda_box *box) {
    return side->pitch >= box->width && side->pitch <= (size_t)number("STANDIN_PITCH", INT32_MAX) &&
           side->height >= box->height && !side->x && !side->y && !side->z;
}

CALL(cuMemcpy3DAsync_v2, const cuda_box *box, cuda_stream *stream) {
    bool rows = box->height > 1 || box->depth > 1;
    if (!box->width || !box->height || !box->depth) return STANDIN_INVALID_VALUE;
    if (rows && (!is_allowed(&box->to, box) || !is_allowed(&box->from, box)))
        return STANDIN_INVALID_VALUE;
    cuda_box *kept = malloc(sizeof *kept);
    if (!kept) return CUDA_OUT_OF_MEMORY;
    *kept = *box;
    return standin_enqueue(stream, copy_box, kept);
}

CALL(cuMemcpyDtoDAsync_v2, cuda_address to, cuda_address from, size_t bytes, cuda_stream *stream) {
    cuda_box *kept = malloc(sizeof *kept);
    if (!kept) return CUDA_OUT_OF_MEMORY;
    *kept = (cuda_box){.from = {.kind = CUDA_KIND_DEVICE, .device = from, .height = 1},
                       .to = {.kind = CUDA_KIND_DEVICE, .device = to, .height = 1},
                       .width = bytes,
                       .height = 1,
                       .depth = 1};
    return standin_enqueue(stream, copy_box, kept);
}
