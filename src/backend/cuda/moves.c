/* What threads of a device do in order: wait for the events that mark the ends of work in the line,
 * move boxes between the device and the host by pinned memory, and answer. */
#include "backend/cuda/device.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

struct cuda_job {
    cuda_job *next;
    gpu_answer then; /* NULL: a box is moved */
    void *context;
    cuda_event *event; /* that is waited for before */
    gpu_direction direction;
    gpu_rectangle box;
};

/* ---- boxes as the driver has them ---- */

/* A part of a box: from where on, and how much. */
typedef struct part {
    size_t at[3], size[3];
} part;

static size_t offset_of(const part *p, size_t at, size_t row, size_t slice) {
    return at + p->at[0] + p->at[1] * row + p->at[2] * slice;
}

/* Where rows do not follow on one another their distance is of no use, and may exceed what is
 * allowed. */
static cuda_side side_of(const part *p, int kind, void *mem, size_t at, size_t row, size_t slice) {
    bool rows = p->size[1] > 1 || p->size[2] > 1;
    cuda_side side = {
        .kind = kind, .pitch = rows ? row : p->size[0], .height = rows && row ? slice / row : 1};
    char *first = (char *)mem + offset_of(p, at, row, slice);
    if (kind == CUDA_KIND_HOST)
        side.host = first;
    else
        side.device = (cuda_address)(uintptr_t)first;
    return side;
}

static cuda_box box_of(const part *p, cuda_side to, cuda_side from) {
    return (cuda_box){from, to, p->size[0], p->size[1], p->size[2]};
}

/* How much of a box is copied at once: so many bytes at most; single rows, where they are further
 * apart than the driver allows. */
static void choose_part(const cuda_device *d, const gpu_rectangle *box, size_t bytes, part *p) {
    size_t row = box->size[0], rows = box->size[1], slices = box->size[2];
    bool far = box->to.row > d->most_pitch || box->from.row > d->most_pitch;
    p->size[0] = row < bytes ? row : bytes;
    p->size[1] = row > bytes || far ? 1 : rows < bytes / row ? rows : bytes / row;
    p->size[2] = p->size[1] < rows || far ? 1 : bytes / row / rows;
    if (p->size[2] > slices) p->size[2] = slices;
    if (!p->size[2]) p->size[2] = 1;
}

/* Calls `each` for the parts of a box, until one fails. */
static cuda_code each_part(const gpu_rectangle *box, const part *step,
                           cuda_code (*each)(void *context, const part *p), void *context) {
    part p;
    for (p.at[2] = 0; p.at[2] < box->size[2]; p.at[2] += step->size[2])
        for (p.at[1] = 0; p.at[1] < box->size[1]; p.at[1] += step->size[1])
            for (p.at[0] = 0; p.at[0] < box->size[0]; p.at[0] += step->size[0]) {
                for (int i = 0; i < 3; i++) {
                    size_t left = box->size[i] - p.at[i];
                    p.size[i] = left < step->size[i] ? left : step->size[i];
                }
                cuda_code code = each(context, &p);
                if (code) return code;
            }
    return CUDA_SUCCESS;
}

/* ---- in the line ---- */

typedef struct direct {
    cuda_device *device;
    const gpu_rectangle *box;
    int from_kind;
} direct;

static cuda_code copy_part(void *context, const part *p) {
    const direct *x = context;
    const gpu_rectangle *b = x->box;
    const cuda_box box =
        box_of(p, side_of(p, CUDA_KIND_DEVICE, b->to.mem, b->to.at, b->to.row, b->to.slice),
               side_of(p, x->from_kind, b->from.mem, b->from.at, b->from.row, b->from.slice));
    return x->device->cuda->copy_box(&box, x->device->lanes[GPU_LINE].stream);
}

static shoal_status move_in_line(shoal_device *device, gpu_direction direction,
                                 const gpu_rectangle *box) {
    cuda_device *d = cuda_enter(device);
    direct x = {d, box, direction == GPU_COPY ? CUDA_KIND_DEVICE : CUDA_KIND_HOST};
    part step;
    choose_part(d, box, SIZE_MAX, &step);
    cuda_code code = cuda_leave(d, each_part(box, &step, copy_part, &x));
    return code ? cuda_fail(device, "cuMemcpy3DAsync", code) : SHOAL_OK;
}

/* ---- by pinned memory ---- */

typedef struct staging {
    cuda_lane *lane;
    const cuda_job *job;
    unsigned n;   /* parts that were begun */
    part last[2]; /* what is in either half */
} staging;

/* A call that may have no memory is tried once more, when what is kept is given back. */
#define TRY_TWICE(lane, name, made)                                                                \
    do {                                                                                           \
        cuda_code code_ = (made);                                                                  \
        if (code_ == CUDA_OUT_OF_MEMORY) {                                                         \
            backend_cache_clear(&(lane)->device->shared.cache);                                    \
            code_ = (made);                                                                        \
        }                                                                                          \
        if (code_) {                                                                               \
            (lane)->call = (name);                                                                 \
            return code_;                                                                          \
        }                                                                                          \
    } while (0)

static char *half_of(const staging *s, unsigned n) {
    return s->lane->device->pinned + n % 2 * (size_t)CUDA_HALF;
}

/* Between the host's rows and a half, where they lie close together. */
static void pack(const staging *s, const part *p, char *half) {
    const gpu_rectangle *b = &s->job->box;
    bool reads = s->job->direction == GPU_READ;
    char *host = reads ? b->to.mem : b->from.mem;
    size_t at = reads ? b->to.at : b->from.at, row = reads ? b->to.row : b->from.row;
    size_t slice = reads ? b->to.slice : b->from.slice;
    for (size_t z = 0; z < p->size[2]; z++)
        for (size_t y = 0; y < p->size[1]; y++) {
            char *there = host + offset_of(p, at, row, slice) + y * row + z * slice;
            memcpy(reads ? there : half, reads ? half : there, p->size[0]);
            half += p->size[0];
        }
}

static cuda_code await_half(const staging *s, unsigned n) {
    const cuda_device *d = s->lane->device;
    TRY_TWICE(s->lane, "cuEventSynchronize", d->cuda->event_wait(d->copied[n % 2]));
    atomic_fetch_add(&s->lane->device->shared.progress, 1);
    return CUDA_SUCCESS;
}

/* Of a part to read, what came before is taken from the other half while this comes. */
static cuda_code stage_part(void *context, const part *p) {
    staging *s = context;
    const gpu_rectangle *b = &s->job->box;
    const cuda_device *d = s->lane->device;
    bool reads = s->job->direction == GPU_READ;
    const part close = {.size = {p->size[0], p->size[1], p->size[2]}};
    unsigned n = s->n++;
    char *half = half_of(s, n);
    cuda_side host = side_of(&close, CUDA_KIND_HOST, half, 0, p->size[0], p->size[0] * p->size[1]);
    cuda_side there =
        reads ? side_of(p, CUDA_KIND_DEVICE, b->from.mem, b->from.at, b->from.row, b->from.slice)
              : side_of(p, CUDA_KIND_DEVICE, b->to.mem, b->to.at, b->to.row, b->to.slice);
    const cuda_box box = reads ? box_of(p, host, there) : box_of(p, there, host);
    s->last[n % 2] = *p;
    if (!reads) {
        cuda_code code = n > 1 ? await_half(s, n) : CUDA_SUCCESS;
        if (code) return code;
        pack(s, p, half);
    }
    TRY_TWICE(s->lane, "cuMemcpy3DAsync", d->cuda->copy_box(&box, s->lane->stream));
    TRY_TWICE(s->lane, "cuEventRecord", d->cuda->event_record(d->copied[n % 2], s->lane->stream));
    if (!reads || !n) return CUDA_SUCCESS;
    cuda_code code = await_half(s, n - 1);
    if (!code) pack(s, &s->last[(n - 1) % 2], half_of(s, n - 1));
    return code;
}

static cuda_code move_box(cuda_lane *lane, const cuda_job *job) {
    staging s = {.lane = lane, .job = job};
    part step;
    choose_part(lane->device, &job->box, CUDA_HALF, &step);
    cuda_code code = each_part(&job->box, &step, stage_part, &s);
    if (!code && job->direction == GPU_READ) {
        code = await_half(&s, s.n - 1);
        if (!code) pack(&s, &s.last[(s.n - 1) % 2], half_of(&s, s.n - 1));
    } else {
        for (unsigned i = s.n > 1 ? 2 : s.n; i > 0 && !code; i--) code = await_half(&s, s.n - i);
    }
    return code;
}

/* ---- lanes ---- */

/* An answer tells of what has failed before it, or before its event: of all, as boxes and answers
 * of several threads come in any order, and the first failure is the end of the device. Whoever is
 * answered gives memory back, so a wait that failed is made up for by one for all that is in the
 * line. */
static void answer(cuda_lane *lane, const cuda_job *job) {
    const cuda_device *d = lane->device;
    shoal_status status = SHOAL_OK;
    if (job->event) {
        cuda_code code = d->cuda->event_wait(job->event);
        d->cuda->event_free(job->event);
        if (code) d->cuda->stream_wait(d->lanes[GPU_LINE].stream);
        if (code && !lane->failed) {
            lane->call = "work on it";
            lane->failed = code;
        }
    }
    if (lane->failed)
        status = base_fail(SHOAL_LOST, "cuda: %s is lost: %s failed: %s", d->shared.name,
                           lane->call, cuda_error(d->cuda, lane->failed));
    job->then(job->context, status);
}

static void *serve(void *context) {
    cuda_lane *lane = context;
    cuda_device *d = lane->device;
    base_os_thread_name("shoal-cuda");
    cuda_enter(&d->shared);
    pthread_mutex_lock(&lane->lock);
    while (true) {
        cuda_job *job = lane->first;
        if (!job && lane->closing) break;
        if (!job) {
            pthread_cond_wait(&lane->changed, &lane->lock);
            continue;
        }
        lane->first = job->next;
        if (!job->next) lane->end = &lane->first;
        lane->busy = true;
        pthread_mutex_unlock(&lane->lock);
        if (job->then)
            answer(lane, job);
        else if (!lane->failed)
            lane->failed = move_box(lane, job);
        free(job);
        pthread_mutex_lock(&lane->lock);
        lane->busy = false;
        pthread_cond_broadcast(&lane->changed);
    }
    pthread_mutex_unlock(&lane->lock);
    cuda_leave(d, CUDA_SUCCESS);
    return NULL;
}

shoal_status cuda_lane_open(cuda_device *device, gpu_queue queue) {
    cuda_lane *lane = &device->lanes[queue];
    lane->device = device;
    lane->end = &lane->first;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    lane->started = pthread_create(&lane->thread, NULL, serve, lane) == 0;
    if (lane->started) return SHOAL_OK;
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
    return base_fail(SHOAL_NO_MEMORY, "cuda: no thread for %s", device->shared.name);
}

void cuda_lane_close(cuda_lane *lane) {
    pthread_mutex_lock(&lane->lock);
    lane->closing = true;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}

static void push(cuda_lane *lane, cuda_job *job) {
    pthread_mutex_lock(&lane->lock);
    *lane->end = job;
    lane->end = &job->next;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

shoal_status cuda_move(shoal_device *device, gpu_queue queue, gpu_direction direction,
                       const gpu_rectangle *box) {
    if (queue == GPU_LINE) return move_in_line(device, direction, box);
    cuda_job *job = calloc(1, sizeof *job);
    if (!job) return gpu_fail_memory(device, "a box");
    job->direction = direction;
    job->box = *box;
    push(&((cuda_device *)device)->lanes[queue], job);
    return SHOAL_OK;
}

/* Marks the end of what is in the line by an event. */
static shoal_status mark(shoal_device *device, cuda_event **event) {
    cuda_device *d = cuda_enter(device);
    const char *call = "cuEventCreate";
    cuda_code code = d->cuda->event_new(event, CUDA_EVENT_BLOCKING | CUDA_EVENT_UNTIMED);
    if (!code) {
        call = "cuEventRecord";
        code = d->cuda->event_record(*event, d->lanes[GPU_LINE].stream);
        if (code) d->cuda->event_free(*event);
    }
    cuda_leave(d, code);
    return code ? cuda_fail(device, call, code) : SHOAL_OK;
}

shoal_status cuda_ask(shoal_device *device, gpu_queue queue, gpu_answer then, void *context) {
    cuda_job *job = calloc(1, sizeof *job);
    if (!job) return gpu_fail_memory(device, "an answer");
    job->then = then;
    job->context = context;
    shoal_status status = queue == GPU_LINE ? mark(device, &job->event) : SHOAL_OK;
    if (status)
        free(job);
    else
        push(&((cuda_device *)device)->lanes[queue], job);
    return status;
}

void cuda_finish(shoal_device *device, gpu_queue queue) {
    cuda_lane *lane = &((cuda_device *)device)->lanes[queue];
    if (queue == GPU_LINE) {
        cuda_device *d = cuda_enter(device);
        cuda_leave(d, d->cuda->stream_wait(lane->stream));
        return;
    }
    pthread_mutex_lock(&lane->lock);
    while (lane->first || lane->busy) pthread_cond_wait(&lane->changed, &lane->lock);
    pthread_mutex_unlock(&lane->lock);
}
