#include "store/pool.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "base/clock.h"

void pool_init(struct pool *pool, const struct db_driver *driver, const struct db_config *config, enum db_role role, size_t max)
{
    pthread_condattr_t attr;

    *pool = (struct pool){ .driver = driver, .config = config, .role = role, .max = max > POOL_MAX ? POOL_MAX : max };
    pthread_mutex_init(&pool->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->given, &attr);
    pthread_condattr_destroy(&attr);
}

void pool_done(struct pool *pool)
{
    if (!pool->driver)
        return;
    assert(pool->out == 0);
    for (size_t i = 0; i < pool->idle_count; i++)
        db_close(pool->idle[i]);
    pthread_cond_destroy(&pool->given);
    pthread_mutex_destroy(&pool->lock);
    *pool = (struct pool){ 0 };
}

/* Waits until the caller may use a connection, and counts it. Sets `ret` to an idle connection, or to NULL if the caller must
 * open one. */
static int pool_wait_for_turn(struct pool *pool, int64_t deadline_ns, struct db **ret)
{
    struct timespec until = clock_timespec_of_ns(deadline_ns);
    int r = 0;

    pthread_mutex_lock(&pool->lock);
    if (pool->out == pool->max)
        atomic_fetch_add_explicit(&pool->waits, 1, memory_order_relaxed);
    while (pool->out == pool->max && r == 0)
        r = -pthread_cond_timedwait(&pool->given, &pool->lock, &until);
    if (pool->out < pool->max) {
        r = 0;
        pool->out++;
        *ret = pool->idle_count > 0 ? pool->idle[--pool->idle_count] : NULL;
    }
    pthread_mutex_unlock(&pool->lock);
    return r;
}

static void pool_count_out(struct pool *pool, struct db *back)
{
    pthread_mutex_lock(&pool->lock);
    pool->out--;
    if (back)
        pool->idle[pool->idle_count++] = back;
    pthread_cond_signal(&pool->given);
    pthread_mutex_unlock(&pool->lock);
}

int pool_take(struct pool *pool, int64_t deadline_ns, struct db **ret, struct err *err)
{
    struct db *db = NULL;
    int r = pool_wait_for_turn(pool, deadline_ns, &db);

    if (r < 0)
        return err_set(err, ERR_UNAVAILABLE, -EAGAIN, "database '%s': all %zu connections are busy", pool->config->shown,
                       pool->max);
    if (db && pool->driver->is_stale(db)) {
        db_close(db);
        db = NULL;
    }
    if (!db) {
        r = pool->driver->connect(pool->config, pool->role, &db, err);
        if (r < 0) {
            pool_count_out(pool, NULL);
            return r;
        }
        atomic_fetch_add_explicit(&pool->connects, 1, memory_order_relaxed);
    }
    *ret = db;
    return 0;
}

void pool_give(struct pool *pool, struct db *db)
{
    if (db->is_lost) {
        db_close(db);
        db = NULL;
    }
    pool_count_out(pool, db);
}
