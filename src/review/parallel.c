#include "review/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define WORTH_A_THREAD 32 /* pieces */

struct parallel_pool {
    atomic_size_t next;
    size_t count;
    parallel_fn fn;
    void *cookie;
    atomic_int failed; /* the lock decides whose failure is returned */
    pthread_mutex_t lock;
    int result;      /* guarded by the lock */
    struct err *err; /* guarded by the lock */
};

static void *worker_thread(void *cookie)
{
    struct parallel_pool *pool = cookie;

    while (!atomic_load(&pool->failed)) {
        size_t i = atomic_fetch_add(&pool->next, 1);
        struct err err = ERR_NONE;
        if (i >= pool->count)
            break;
        int r = pool->fn(i, pool->cookie, &err);
        if (r >= 0)
            continue;
        pthread_mutex_lock(&pool->lock);
        if (pool->result == 0) {
            pool->result = r;
            if (pool->err)
                *pool->err = err;
        }
        pthread_mutex_unlock(&pool->lock);
        atomic_store(&pool->failed, 1);
    }
    return NULL;
}

static size_t thread_count(size_t count)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = count / WORTH_A_THREAD + 1;

    if (wanted > PARALLEL_THREADS_MAX)
        wanted = PARALLEL_THREADS_MAX;
    return cpus > 0 && wanted > (size_t) cpus ? (size_t) cpus : wanted;
}

int parallel_run(size_t count, parallel_fn fn, void *cookie, struct err *err)
{
    struct parallel_pool pool = { .count = count, .fn = fn, .cookie = cookie, .lock = PTHREAD_MUTEX_INITIALIZER, .err = err };
    pthread_t threads[PARALLEL_THREADS_MAX];
    size_t started = 0;

    while (started + 1 < thread_count(count) && pthread_create(&threads[started], NULL, worker_thread, &pool) == 0)
        started++;
    worker_thread(&pool);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return pool.result;
}
