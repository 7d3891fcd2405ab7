/*
 * The inside of a delta's change log: telling of changes (change_log.c), and writing its compacted text in its place (change_log_rewrite.c).
 */
#pragma once

#include <pthread.h>

#include "fence/change_log.h"

#define CHANGE_LOG_NAME "changes" /* in <delta>/meta */
#define LOGGED_SLOTS 512          /* a power of two */

struct logged_change {
    uint64_t path; /* hashes */
    uint32_t exec;
    uint32_t kinds;
};

struct change_log {
    int fd; /* owned; O_APPEND. Its number stays when it comes to stand for another file */
    pthread_mutex_t lock;
    struct logged_change *logged; /* owned, as all of these guarded by lock; NULL: nothing was */
    off_t size;                   /* of the file, as far as we wrote it */
    bool is_torn;                 /* its last line has no end */
    uint64_t cleared;             /* how often it was emptied */

    off_t rewrite_min_bytes, rewrite_at_bytes; /* at which size its compacted text is written, at the least and next */
    int64_t young_ns;
    pthread_t rewrite_thread;
    bool has_thread, is_rewriting; /* somebody is to be waited for; and still at work */
    _Atomic bool is_ending;
};

/* [locked] What was told has to be told again. */
void change_log_forget_logged(struct change_log *change_log);

void change_log_rewrite_init(struct change_log *change_log);

/* [locked] Has the compacted text written, by a thread of its own, if it is time. */
void change_log_rewrite_if_due(struct fence *f, struct change_log *change_log);

/* Waits for the thread; what it has not done is left undone. */
void change_log_rewrite_end(struct change_log *change_log);
