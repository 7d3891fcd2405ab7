/*
 * Work for clients that may block: each job runs in a thread of its own, a few at a time, and is answered from the reactor.
 *
 * A job is embedded, as the first member, in the struct of its kind. It belongs to the main thread, except that `run` has it until
 * it returns. A queue starts its jobs in order of arrival and uses no descriptor before the first one.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "supervisor/reactor.h"

struct client;
struct job;

struct job_ops {
    void (*run)(struct job *job);      /* in the thread; sets `r` and `err` */
    void (*progress)(struct job *job); /* after job_report_progress() and before `finish`; may be NULL */
    void (*finish)(struct job *job);   /* after the end; answers the client, if there is one, unless `r` is negative */
    void (*cancel)(struct job *job);   /* makes `run` return soon, because nobody waits for it; NULL: it runs to its end */
    void (*free)(struct job *job);
};

struct job_queue {
    const char *noun;      /* what the jobs are, for messages: "syncs" */
    unsigned parallel_max; /* how many run at once */
    unsigned count_max;    /* how many may run or wait */
    struct job *jobs;      /* owned, in order of arrival */
    unsigned count, running;
    struct waker waker; /* open since the first job */
};

struct job {
    const struct job_ops *ops;
    struct job *next;
    struct job_queue *queue; /* borrowed */
    struct client *client;   /* borrowed; NULL: gone */
    uint64_t tag;
    bool is_running;
    pthread_t thread;
    _Atomic bool has_ended;
    int r;
    struct err err;
};

/* Takes the job. Answers now if the queue is full, otherwise later. */
void job_queue_add(struct job_queue *queue, struct reactor *reactor, struct job *job);

/* The client goes and gets no answers. */
void job_queue_lose_client(struct job_queue *queue, const struct client *client);

/* Cancels the running jobs, waits for them, and rejects the waiting ones. */
void job_queue_stop(struct job_queue *queue);

/* Answers with an error and frees the job, which is in no queue. */
void job_reject(struct job *job, enum err_code code, const char *why);

/* In the job's thread: has `progress` called in the main thread. */
void job_report_progress(const struct job *job);
