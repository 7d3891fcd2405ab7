#include "review/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define WORTH_A_THREAD 32 /* pieces */

struct crew {
    atomic_size_t next;
    size_t count;
    crew_fn fn;
    void *cookie;
    atomic_int failed; /* whose failure it was is decided under the lock */
    pthread_mutex_t lock;
    int result;      /* guarded by the lock */
    struct err *err; /* guarded by the lock */
};

static void *work(void *cookie)
{
    struct crew *crew = cookie;

    while (!atomic_load(&crew->failed)) {
        size_t i = atomic_fetch_add(&crew->next, 1);
        struct err err = ERR_NONE;
        if (i >= crew->count)
            break;
        int r = crew->fn(i, crew->cookie, &err);
        if (r >= 0)
            continue;
        pthread_mutex_lock(&crew->lock);
        if (crew->result == 0) {
            crew->result = r;
            if (crew->err)
                *crew->err = err;
        }
        pthread_mutex_unlock(&crew->lock);
        atomic_store(&crew->failed, 1);
    }
    return NULL;
}

static size_t hands(size_t count)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = count / WORTH_A_THREAD + 1;

    if (wanted > CREW_MOST)
        wanted = CREW_MOST;
    return cpus > 0 && wanted > (size_t) cpus ? (size_t) cpus : wanted;
}

int crew_run(size_t count, crew_fn fn, void *cookie, struct err *err)
{
    struct crew crew = { .count = count, .fn = fn, .cookie = cookie, .lock = PTHREAD_MUTEX_INITIALIZER, .err = err };
    pthread_t threads[CREW_MOST];
    size_t started = 0;

    while (started + 1 < hands(count) && pthread_create(&threads[started], NULL, work, &crew) == 0)
        started++;
    work(&crew);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return crew.result;
}
