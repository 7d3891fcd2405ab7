/* What the files of apply share: one run of it. */
#pragma once

#include "base/id.h"
#include "review/apply.h"

/* What comes into its place by one rename: a file, or a directory that is new with all in it. */
struct unit {
    char *path;      /* owned; its place in the base */
    char *temp_path; /* owned; beside it */
    struct stat was; /* of its place when it was checked; st_mode 0: nothing there */
    uid_t uid;       /* whose it shall be */
    gid_t gid;
    size_t edit_count;
    bool is_dir;
    bool is_placed;
};

struct job {
    struct apply *out;
    const struct edit_list *edits; /* of `out` */
    bool is_forced;
    int base_fd;        /* borrowed */
    int data_fd;        /* borrowed: the delta's files */
    int meta_fd;        /* borrowed */
    int diary_fd;       /* owned; for appending */
    struct unit *units; /* owned */
    size_t unit_count, unit_cap;
    size_t *unit_of; /* owned; of each edit; JOB_NO_UNIT for what is deleted or only gets another mode */
};

#define JOB_NO_UNIT SIZE_MAX

/* Fills out->conflicts. */
void job_judge(struct job *job);

/* Divides the edits into units. Nothing is written. */
int job_plan(struct job *job, struct err *err);

/* Writes the names it is going to use to <meta>/apply, then makes and syncs all of it. After a failure job_unstage(). */
int job_stage(struct job *job, struct err *err);

/* Removes what was staged and not placed, now or by a run that was killed. */
void job_unstage(struct job *job);
void job_unstage_old(int base_fd, int meta_fd);

/* "'src/x': " for messages; free it. */
char *job_quote(const char *path);
