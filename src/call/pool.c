#include "call/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"

#define THREADS_MAX 256
#define LINE_MAX_DEFAULT 1024
#define STACK_BYTES (512u << 10)
#define IDLE_SECONDS 10

struct job {
    struct job *next;
    pool_fn fn;
    void *arg;
};

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* something stands in line, or the end has come */
    pthread_cond_t ended; /* a thread is gone */
    pthread_attr_t attr;
    struct job *first, **last;
    size_t threads_max, line_max;
    size_t threads, idle, waiting;
    bool is_ending;
};

int pool_new(size_t threads_max, size_t line_max, struct pool **ret, struct err *err)
{
    struct pool *pool = xnew(struct pool);
    pthread_condattr_t clock;

    pool->threads_max = threads_max ? threads_max : THREADS_MAX;
    pool->line_max = line_max ? line_max : LINE_MAX_DEFAULT;
    pool->last = &pool->first;
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

/* With the lock held. NULL after nothing came for a while, or at the end. */
static struct job *next_job(struct pool *pool)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_SECONDS;
    while (!pool->first) {
        if (pool->is_ending)
            return NULL;
        pool->idle++;
        int r = pthread_cond_timedwait(&pool->work, &pool->lock, &until);
        pool->idle--;
        if (r == ETIMEDOUT && !pool->first)
            return NULL;
    }
    struct job *job = pool->first;
    pool->first = job->next;
    if (!pool->first)
        pool->last = &pool->first;
    pool->waiting--;
    return job;
}

static void *run_jobs(void *arg)
{
    struct pool *pool = arg;
    struct job *job;

    pthread_mutex_lock(&pool->lock);
    while ((job = next_job(pool))) {
        pthread_mutex_unlock(&pool->lock);
        job->fn(job->arg);
        free(job);
        pthread_mutex_lock(&pool->lock);
    }
    pool->threads--;
    /* Signalled with the lock held: whoever waits for the last thread frees the pool as soon as it gets the lock. */
    pthread_cond_signal(&pool->ended);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int pool_submit(struct pool *pool, pool_fn fn, void *arg)
{
    struct job *job = xnew(struct job);
    int r = 0;

    *job = (struct job){ .fn = fn, .arg = arg };
    pthread_mutex_lock(&pool->lock);
    if (pool->waiting >= pool->line_max) {
        r = -EAGAIN;
    } else if (pool->idle <= pool->waiting && pool->threads < pool->threads_max) {
        /* Those that are idle are spoken for by what stands in line already. */
        pthread_t thread;
        if (pthread_create(&thread, &pool->attr, run_jobs, pool) == 0)
            pool->threads++;
        else if (pool->threads == 0)
            r = -EAGAIN;
    }
    if (r == 0) {
        *pool->last = job;
        pool->last = &job->next;
        pool->waiting++;
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
        .waiting = pool->waiting,
    };
    pthread_mutex_unlock(&pool->lock);
}
