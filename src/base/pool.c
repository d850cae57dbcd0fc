/* A pool of threads.
 *
 * Tasks are handed out by one number, the ticket: the run's generation above, tasks left below. A
 * thread takes a task by lowering it with compare-and-swap. That succeeds only while the run it
 * belongs to still has tasks, so that a thread which comes late can neither take a task of a later
 * run with an earlier run's arguments nor be waited for: a run ends when its tasks have ended, not
 * when every thread has looked.
 *
 * Threads, and the caller at the end, spin for a little before they sleep (spin.h).
 *
 * A kernel that packs threads which often sleep onto few cores may leave one of ours on the
 * caller's core, where each only takes the other's time. So a thread that finds itself there
 * leaves. */
#include "base/pool.h"

#include "base/os_cpu.h"
#include "base/spin.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LEFT UINT64_C(0xffffffff)

struct base_pool {
    uint32_t threads;
    bool started;
    uint32_t n_started;
    pthread_t *handles;

    _Atomic(uint64_t) ticket;
    _Atomic(base_task) task;
    _Atomic(void *) context;
    _Atomic(uint64_t) unfinished;
    atomic_int caller_cpu;

    pthread_mutex_t lock;
    pthread_cond_t work;     /* a new generation, or stop */
    pthread_cond_t finished; /* unfinished fell to 0 */
    uint32_t sleepers;
    bool stop;
};

/* Does tasks until none are left of the run that is going on. */
static void work(base_pool *pool) {
    uint64_t ticket = atomic_load(&pool->ticket);
    while (ticket & LEFT) {
        base_task task = atomic_load_explicit(&pool->task, memory_order_relaxed);
        void *context = atomic_load_explicit(&pool->context, memory_order_relaxed);
        if (!atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket - 1)) continue;
        task(context, (uint32_t)(ticket & LEFT) - 1);
        if (atomic_fetch_sub(&pool->unfinished, 1) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->finished);
            pthread_mutex_unlock(&pool->lock);
        }
        ticket = atomic_load(&pool->ticket);
    }
}

static bool has_tasks(void *context) {
    base_pool *pool = context;
    return atomic_load_explicit(&pool->ticket, memory_order_relaxed) & LEFT;
}

static bool has_ended(void *context) {
    base_pool *pool = context;
    return !atomic_load(&pool->unfinished);
}

static void *thread_main(void *argument) {
    base_pool *pool = argument;
    for (;;) {
        if (has_tasks(pool)) {
            int cpu = atomic_load_explicit(&pool->caller_cpu, memory_order_relaxed);
            if (base_cpu_now() == cpu) base_cpu_leave(cpu);
        }
        work(pool);
        if (base_spin(has_tasks, pool)) continue;
        pthread_mutex_lock(&pool->lock);
        pool->sleepers++;
        while (!pool->stop && !(atomic_load(&pool->ticket) & LEFT))
            pthread_cond_wait(&pool->work, &pool->lock);
        pool->sleepers--;
        bool stop = pool->stop;
        pthread_mutex_unlock(&pool->lock);
        if (stop) return NULL;
    }
}

shoal_status base_pool_new(uint32_t threads, base_pool **out) {
    if (!threads) threads = 1;
    base_pool *pool = calloc(1, sizeof *pool);
    pthread_t *handles = calloc(threads, sizeof *handles);
    if (!pool || !handles) {
        free(pool);
        free(handles);
        return base_fail(SHOAL_NO_MEMORY, "no memory for a pool of %u threads", threads);
    }
    *pool = (base_pool){.threads = threads, .handles = handles};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->finished, NULL);
    *out = pool;
    return SHOAL_OK;
}

void base_pool_destroy(base_pool **pool) {
    base_pool *p = *pool;
    *pool = NULL;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_started; i++) pthread_join(p->handles[i], NULL);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->handles);
    free(p);
}

uint32_t base_pool_threads(const base_pool *pool) { return pool->threads; }

static void start(base_pool *pool) {
    pool->started = true;
    /* The host's signals are not for our threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->n_started + 1 < pool->threads &&
           !pthread_create(&pool->handles[pool->n_started], NULL, thread_main, pool))
        pool->n_started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wait_for_end(base_pool *pool) {
    if (base_spin(has_ended, pool)) return;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->unfinished)) pthread_cond_wait(&pool->finished, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void base_pool_run(base_pool *pool, uint32_t n_tasks, base_task task, void *context) {
    if (n_tasks < 2 || pool->threads < 2) {
        for (uint32_t i = 0; i < n_tasks; i++) task(context, i);
        return;
    }
    if (!pool->started) start(pool);
    atomic_store(&pool->task, task);
    atomic_store(&pool->context, context);
    atomic_store(&pool->unfinished, n_tasks);
    atomic_store(&pool->caller_cpu, base_cpu_now());
    uint64_t generation = (atomic_load(&pool->ticket) | LEFT) + 1;
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->ticket, generation | n_tasks);
    if (pool->sleepers) pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    work(pool);
    wait_for_end(pool);
}
