/*
 * The inside of a delta's diary: telling of changes (record.c), and writing its gist in its place (record_gist.c).
 */
#pragma once

#include <pthread.h>

#include "fence/record.h"

#define RECORD_NAME "changes" /* in <delta>/meta */
#define TOLD_SLOTS 512        /* a power of two */

struct told {
    uint64_t path; /* hashes */
    uint32_t exec;
    uint32_t kinds;
};

struct record {
    int fd; /* owned; O_APPEND. Its number stays when it comes to stand for another file */
    pthread_mutex_t lock;
    struct told *told; /* owned, as all of these guarded by lock; NULL: nothing was */
    off_t size;        /* of the file, as far as we wrote it */
    bool is_torn;      /* its last line has no end */
    uint64_t cleared;  /* how often it was emptied */

    off_t gist_from, gist_at; /* at which size its gist is written, at the least and next */
    int64_t young_ns;
    pthread_t gist_thread;
    bool has_thread, is_gisting; /* somebody is to be waited for; and still at work */
    _Atomic bool is_ending;
};

/* [locked] What was told has to be told again. */
void record_forget_told(struct record *record);

void record_gist_init(struct record *record);

/* [locked] Has the gist written, by a thread of its own, if it is time. */
void record_gist_consider(struct fence *f, struct record *record);

/* Waits for the thread; what it has not done is left undone. */
void record_gist_end(struct record *record);
