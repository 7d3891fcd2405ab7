/*
 * Writing to SQLite: shared commits.
 *
 * A durable commit waits for the disk once, whatever its size, and SQLite has one writer at a time. So writers do not queue for
 * the connection one by one. A job that arrives during a commit waits in a list. After the commit, the thread of the first job
 * in the list becomes the leader and runs all of them in the next transaction. Each job runs in a savepoint, so one that fails
 * does not affect the others. All return after the commit. If the commit itself fails, the leader runs each job alone, so that
 * a job too large for the disk does not fail those that still fit. A single writer has no extra cost.
 *
 * PostgreSQL has group commits of its own, so there each job has a connection and a transaction.
 */
#include "store/txn.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "store/store_int.h"

#define BATCH_MAX 64
#define PAUSE_FIRST_NS (2 * CLOCK_NS_PER_MS)
#define PAUSE_MAX_NS (200 * CLOCK_NS_PER_MS)

struct job {
    txn_fn fn;
    void *cookie;
    unsigned flags;
    int r;
    struct err err;

    struct job *next;
    bool is_over;
    pthread_cond_t turn; /* signalled when the job is over, or its thread becomes the leader */
};

/* ---- one attempt ---- */

static void count_commit(struct store *store, uint64_t jobs)
{
    atomic_fetch_add_explicit(&store->commits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->writes, jobs, memory_order_relaxed);
}

/* The connection broke before the answer to a write arrived, so the write may have happened. */
static int job_judge_loss(const struct job *job, int r)
{
    return r == -ECONNRESET && !(job->flags & TXN_REPEATABLE) ? -EINPROGRESS : r;
}

static int job_run_alone(struct store *store, struct db *db, struct job *job)
{
    int r, answer;

    job->err = ERR_NONE;
    r = db_begin(db, &job->err);
    if (r < 0)
        return r;
    answer = job->fn(db, job->cookie, &job->err);
    if (answer < 0) {
        db_rollback(db);
        return answer;
    }
    r = db_commit(db, &job->err);
    if (r < 0)
        return job_judge_loss(job, r);
    count_commit(store, 1);
    return answer;
}

/* Without BEGIN and COMMIT: a single statement is a transaction by itself. */
static int job_run_bare(struct store *store, struct db *db, struct job *job)
{
    int r;

    job->err = ERR_NONE;
    r = job->fn(db, job->cookie, &job->err);
    if (r < 0)
        return job_judge_loss(job, r);
    count_commit(store, 1);
    return r;
}

/* ---- several in one transaction ---- */

static int job_run_in_savepoint(struct db *db, struct job *job)
{
    int r = db_run(db, "SAVEPOINT job", DB_NO_VALUES, NULL, NULL, &job->err);

    if (r < 0)
        return r;
    job->err = ERR_NONE;
    job->r = job->fn(db, job->cookie, &job->err);
    if (!db->in_transaction)
        return -ECANCELED;
    if (job->r < 0)
        r = db_run(db, "ROLLBACK TO job", DB_NO_VALUES, NULL, NULL, NULL);
    if (r >= 0)
        r = db_run(db, "RELEASE job", DB_NO_VALUES, NULL, NULL, NULL);
    return r < 0 ? r : 0;
}

/* Returns a negative errno if nothing was done. */
static int batch_run_together(struct store *store, struct db *db, struct job *first, size_t jobs)
{
    int r = db_begin(db, NULL);

    if (r < 0)
        return r;
    for (struct job *job = first; job && r == 0; job = job->next)
        r = job_run_in_savepoint(db, job);
    if (r == 0)
        r = db_commit(db, NULL);
    else
        db_rollback(db);
    if (r < 0)
        return r;
    count_commit(store, jobs);
    return 0;
}

/* ---- retries ---- */

struct attempt {
    int64_t deadline_ns;
    int64_t pause_ns;
};

static struct attempt attempt_first(const struct store *store)
{
    return (struct attempt){ .deadline_ns = clock_now_ns() + store->patience_ns, .pause_ns = PAUSE_FIRST_NS };
}

/* Decides whether to try again, and sleeps a little before that: nothing was done, and the cause may pass. The job itself may
 * fail with the same errno for a lasting reason; its code is then ERR_FAILED_PRECONDITION. */
static bool attempt_next(struct attempt *a, struct store *store, int r, const struct err *err)
{
    bool passes = r == -EBUSY || r == -ECONNRESET || r == -ECONNABORTED || r == -ECONNREFUSED || r == -EAGAIN;

    if (!passes || err->code == ERR_FAILED_PRECONDITION || clock_now_ns() + a->pause_ns > a->deadline_ns)
        return false;
    nanosleep(&(struct timespec){ .tv_nsec = (long) a->pause_ns }, NULL);
    a->pause_ns = a->pause_ns * 2 > PAUSE_MAX_NS ? PAUSE_MAX_NS : a->pause_ns * 2;
    atomic_fetch_add_explicit(&store->retries, 1, memory_order_relaxed);
    return true;
}

/* Runs the job on a connection from the pool, and on another one if that breaks. */
static int job_run_pooled(struct store *store, struct pool *pool, struct job *job, bool bare)
{
    struct attempt a = attempt_first(store);
    struct db *db;
    int r;

    do {
        job->err = ERR_NONE;
        r = pool_take(pool, a.deadline_ns, &db, &job->err);
        if (r < 0)
            continue;
        r = bare ? job_run_bare(store, db, job) : job_run_alone(store, db, job);
        pool_give(pool, db);
    } while (r < 0 && attempt_next(&a, store, r, &job->err));
    return r;
}

/* ---- leading ---- */

static void batch_run(struct store *store, struct job *first, size_t jobs)
{
    struct db *db;
    int r = -ECANCELED;

    if (jobs > 1 && pool_take(&store->writers, clock_now_ns() + store->patience_ns, &db, NULL) == 0) {
        r = batch_run_together(store, db, first, jobs);
        pool_give(&store->writers, db);
    }
    for (struct job *job = first; job && r < 0; job = job->next)
        job->r = job_run_pooled(store, &store->writers, job, false);
}

/* Removes waiting jobs from the list. */
static struct job *batch_take(struct store *store, size_t *ret_count)
{
    struct job *first = store->job_first, *last = first;

    for (*ret_count = 1; last->next && *ret_count < BATCH_MAX; ++*ret_count)
        last = last->next;
    store->job_first = last->next;
    if (!last->next)
        store->job_end = &store->job_first;
    last->next = NULL;
    return first;
}

/* Do not touch a job after is_over once the lock is released: its thread may have returned and freed its stack. */
static void batch_end(struct store *store, struct job *first)
{
    for (struct job *job = first, *next; job; job = next) {
        next = job->next;
        job->is_over = true;
        pthread_cond_signal(&job->turn);
    }
    store->job_is_led = false;
    if (store->job_first)
        pthread_cond_signal(&store->job_first->turn);
}

static void job_run_shared(struct store *store, struct job *job)
{
    pthread_cond_init(&job->turn, NULL);
    pthread_mutex_lock(&store->job_lock);
    *store->job_end = job;
    store->job_end = &job->next;
    while (!job->is_over && store->job_is_led)
        pthread_cond_wait(&job->turn, &store->job_lock);
    while (!job->is_over) {
        size_t jobs;
        struct job *first = batch_take(store, &jobs);
        store->job_is_led = true;
        pthread_mutex_unlock(&store->job_lock);
        batch_run(store, first, jobs);
        pthread_mutex_lock(&store->job_lock);
        batch_end(store, first);
    }
    pthread_mutex_unlock(&store->job_lock);
    pthread_cond_destroy(&job->turn);
}

/* ---- entry points ---- */

/* Errors about rows are not failures of the database. */
static bool job_is_failure(const struct job *job)
{
    return job->r < 0 && (job->err.code == ERR_UNAVAILABLE || job->err.code == ERR_RESOURCE_EXHAUSTED ||
                          job->err.code == ERR_INTERNAL || job->err.code == ERR_DATA_LOSS);
}

static int txn_finish(struct store *store, enum store_call call, int64_t began_ns, struct job *job, struct err *err)
{
    store_metrics_add(&store->meter, call, clock_now_ns() - began_ns, job_is_failure(job));
    if (job->r >= 0)
        return job->r;
    if (job->r == -EINPROGRESS)
        err_set(&job->err, ERR_UNAVAILABLE, job->r,
                "database '%s' went away before it could say whether this was done; look before trying again",
                store->config.shown);
    if (err)
        *err = job->err;
    return job->r;
}

int txn_write(struct store *store, enum store_call call, unsigned flags, txn_fn fn, void *cookie, struct err *err)
{
    struct job job = { .fn = fn, .cookie = cookie, .flags = flags };
    int64_t began = clock_now_ns();

    if (store->driver->one_writer)
        job_run_shared(store, &job);
    else
        job.r = job_run_pooled(store, &store->readers, &job, flags & TXN_ONE_STATEMENT);
    return txn_finish(store, call, began, &job, err);
}

int txn_read(struct store *store, enum store_call call, txn_fn fn, void *cookie, struct err *err)
{
    struct job job = { .fn = fn, .cookie = cookie, .flags = TXN_REPEATABLE };
    struct attempt a = attempt_first(store);
    int64_t began = clock_now_ns();
    struct db *db;

    do {
        job.err = ERR_NONE;
        job.r = pool_take(&store->readers, a.deadline_ns, &db, &job.err);
        if (job.r < 0)
            continue;
        job.r = fn(db, cookie, &job.err);
        pool_give(&store->readers, db);
    } while (job.r < 0 && attempt_next(&a, store, job.r, &job.err));
    return txn_finish(store, call, began, &job, err);
}
