/*
 * The inside of a delta's change log: recording changes (change_log.c) and compacting it (change_log_rewrite.c).
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
    int fd; /* owned; O_APPEND. The number stays when the file is replaced */
    pthread_mutex_t lock;
    struct logged_change *logged; /* owned; NULL: nothing was logged. Guarded by lock, as are the next three */
    off_t size;                   /* of the file after our last write */
    bool is_torn;                 /* its last line is incomplete */
    uint64_t cleared;             /* how often it was emptied */

    off_t rewrite_min_bytes, rewrite_at_bytes; /* the smallest size at which it is compacted, and the next one */
    int64_t young_ns;
    pthread_t rewrite_thread;
    bool has_thread, is_rewriting; /* a thread must be joined; and is still at work */
    _Atomic bool is_ending;
};

/* [locked] Forgets which changes were logged, so that they are logged again. */
void change_log_forget_logged(struct change_log *change_log);

void change_log_rewrite_init(struct change_log *change_log);

/* [locked] Starts a thread that compacts the log, if it is due. */
void change_log_rewrite_if_due(struct fence *f, struct change_log *change_log);

/* Waits for the thread, which stops without finishing. */
void change_log_rewrite_end(struct change_log *change_log);
