#include "call/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"

#define THREADS_MAX 256
#define QUEUE_MAX_DEFAULT 1024
#define STACK_BYTES (512u << 10)
#define IDLE_SECONDS 10

struct pool_job {
    struct pool_job *next;
    enum pool_kind kind;
    uint64_t number;
    pool_fn fn;
    void *arg;
};

struct pool_queue {
    struct pool_job *first, **last;
    size_t waiting;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* a call waits in a queue, or the pool is being freed */
    pthread_cond_t ended; /* a thread has ended */
    pthread_attr_t attr;
    struct pool_queue queues[2]; /* by kind */
    size_t threads_max, queue_max, lasting_max;
    size_t threads, idle, lasting;
    uint64_t submitted;
    bool is_ending;
};

int pool_new(size_t threads_max, size_t queue_max, struct pool **ret, struct err *err)
{
    struct pool *pool = xnew(struct pool);
    pthread_condattr_t clock;

    pool->threads_max = threads_max ? threads_max : THREADS_MAX;
    pool->queue_max = queue_max ? queue_max : QUEUE_MAX_DEFAULT;
    pool->lasting_max = pool->threads_max > 1 ? pool->threads_max - (pool->threads_max + 7) / 8 : 1;
    for (size_t i = 0; i < ARRAY_LEN(pool->queues); i++)
        pool->queues[i].last = &pool->queues[i].first;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->work, &clock);
    pthread_condattr_destroy(&clock);
    pthread_cond_init(&pool->ended, NULL);
    pthread_attr_init(&pool->attr);
    pthread_attr_setdetachstate(&pool->attr, PTHREAD_CREATE_DETACHED);
    int r = pthread_attr_setstacksize(&pool->attr, STACK_BYTES);
    if (r != 0) {
        pool_free(pool);
        return err_errno(err, -r, "setting the stack size of handlers");
    }
    *ret = pool;
    return 0;
}

void pool_free(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->work);
    while (pool->threads > 0)
        pthread_cond_wait(&pool->ended, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    pthread_attr_destroy(&pool->attr);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->ended);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

/* With the lock held. Returns the runnable queue whose first call has waited longest; NULL: none. */
static struct pool_queue *next_queue(struct pool *pool)
{
    struct pool_queue *brief = &pool->queues[POOL_BRIEF], *lasting = &pool->queues[POOL_LASTING];

    if (!lasting->first || pool->lasting >= pool->lasting_max)
        return brief->first ? brief : NULL;
    return brief->first && brief->first->number < lasting->first->number ? brief : lasting;
}

/* With the lock held. NULL if nothing came for a while, or if the pool is being freed. */
static struct pool_job *next_job(struct pool *pool)
{
    struct timespec until;
    struct pool_queue *queue;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_SECONDS;
    while (!(queue = next_queue(pool))) {
        /* A lasting call that may not run yet is taken by the thread that ends one. */
        if (pool->is_ending)
            return NULL;
        pool->idle++;
        int r = pthread_cond_timedwait(&pool->work, &pool->lock, &until);
        pool->idle--;
        if (r == ETIMEDOUT && !next_queue(pool))
            return NULL;
    }
    struct pool_job *job = queue->first;
    queue->first = job->next;
    if (!queue->first)
        queue->last = &queue->first;
    queue->waiting--;
    pool->lasting += job->kind == POOL_LASTING;
    return job;
}

static void *run_jobs(void *arg)
{
    struct pool *pool = arg;
    struct pool_job *job;

    pthread_mutex_lock(&pool->lock);
    while ((job = next_job(pool))) {
        pthread_mutex_unlock(&pool->lock);
        job->fn(job->arg);
        pthread_mutex_lock(&pool->lock);
        pool->lasting -= job->kind == POOL_LASTING;
        free(job);
    }
    pool->threads--;
    /* Signal with the lock held: pool_free(), which waits for the last thread, frees the pool as soon as it gets the lock. */
    pthread_cond_signal(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static size_t count_waiting(const struct pool *pool)
{
    return pool->queues[POOL_BRIEF].waiting + pool->queues[POOL_LASTING].waiting;
}

int pool_submit(struct pool *pool, enum pool_kind kind, pool_fn fn, void *arg)
{
    struct pool_job *job = xnew(struct pool_job);
    struct pool_queue *queue = &pool->queues[kind];
    int r = 0;

    *job = (struct pool_job){ .kind = kind, .fn = fn, .arg = arg };
    pthread_mutex_lock(&pool->lock);
    if (queue->waiting >= pool->queue_max) {
        r = -EAGAIN;
    } else if (pool->idle <= count_waiting(pool) && pool->threads < pool->threads_max) {
        /* Calls that wait in a queue already claim the idle threads. */
        pthread_t thread;
        if (pthread_create(&thread, &pool->attr, run_jobs, pool) == 0)
            pool->threads++;
        else if (pool->threads == 0)
            r = -EAGAIN;
    }
    if (r == 0) {
        job->number = pool->submitted++;
        *queue->last = job;
        queue->last = &job->next;
        queue->waiting++;
        pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->lock);
    if (r < 0)
        free(job);
    return r;
}

void pool_stats(struct pool *pool, struct pool_stats *ret)
{
    pthread_mutex_lock(&pool->lock);
    *ret = (struct pool_stats){
        .threads = pool->threads,
        .busy = pool->threads - pool->idle,
        .waiting = count_waiting(pool),
    };
    pthread_mutex_unlock(&pool->lock);
}
