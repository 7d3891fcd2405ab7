#include "supervisor/job.h"

#include <errno.h>
#include <stdio.h>

#include "supervisor/client.h"

void job_report_progress(const struct job *job)
{
    waker_wake(&job->queue->waker);
}

static void *job_thread(void *cookie)
{
    struct job *job = cookie;
    const struct job_queue *queue = job->queue;

    job->ops->run(job);
    job->has_ended = true;
    waker_wake(&queue->waker);
    return NULL;
}

void job_reject(struct job *job, enum err_code code, const char *why)
{
    struct err err = ERR_NONE;

    err_set(&err, code, -EBUSY, "%s", why);
    if (job->client)
        client_error(job->client, job->tag, &err);
    job->ops->free(job);
}

static void job_unlink(struct job *job)
{
    struct job **at = &job->queue->jobs;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    job->queue->count--;
}

static void job_finish(struct job *job)
{
    pthread_join(job->thread, NULL);
    job_unlink(job);
    job->queue->running--;
    if (job->ops->progress)
        job->ops->progress(job);
    job->ops->finish(job);
    if (job->r < 0 && job->client)
        client_error(job->client, job->tag, &job->err);
    job->ops->free(job);
}

static void job_queue_start_some(struct job_queue *queue)
{
    for (struct job *job = queue->jobs, *next; job && queue->running < queue->parallel_max; job = next) {
        next = job->next;
        if (job->is_running)
            continue;
        if (pthread_create(&job->thread, NULL, job_thread, job) == 0) {
            job->is_running = true;
            queue->running++;
        } else {
            char why[80];

            snprintf(why, sizeof(why), "no thread can be started for %s", queue->noun);
            job_unlink(job);
            job_reject(job, ERR_RESOURCE_EXHAUSTED, why);
        }
    }
}

static void job_queue_on_wake(void *cookie)
{
    struct job_queue *queue = cookie;

    for (struct job *job = queue->jobs, *next; job; job = next) {
        next = job->next;
        if (job->has_ended)
            job_finish(job);
        else if (job->is_running && job->ops->progress)
            job->ops->progress(job);
    }
    job_queue_start_some(queue);
}

void job_queue_add(struct job_queue *queue, struct reactor *reactor, struct job *job)
{
    struct job **at = &queue->jobs;
    char why[80];

    if (queue->count >= queue->count_max ||
        (!waker_is_open(&queue->waker) && waker_open(&queue->waker, reactor, job_queue_on_wake, queue) < 0)) {
        snprintf(why, sizeof(why), "too many %s are waiting", queue->noun);
        job_reject(job, ERR_RESOURCE_EXHAUSTED, why);
        return;
    }
    while (*at)
        at = &(*at)->next;
    *at = job;
    job->queue = queue;
    queue->count++;
    job_queue_start_some(queue);
}

void job_queue_lose_client(struct job_queue *queue, const struct client *client)
{
    for (struct job *job = queue->jobs; job; job = job->next) {
        if (job->client != client)
            continue;
        job->client = NULL;
        if (job->ops->cancel)
            job->ops->cancel(job);
    }
}

void job_queue_stop(struct job_queue *queue)
{
    for (struct job *job = queue->jobs; job; job = job->next) {
        if (job->ops->cancel)
            job->ops->cancel(job);
    }
    while (queue->jobs) {
        struct job *job = queue->jobs;

        if (job->is_running) {
            job_finish(job);
            continue;
        }
        job_unlink(job);
        job_reject(job, ERR_ABORTED, "the sandbox has ended");
    }
    waker_close(&queue->waker);
}
