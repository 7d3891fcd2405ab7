/*
 * The sandbox that a verb is about: a name or an id on the command line, or a beginning of one that no other shares.
 */
#pragma once

#include <stdbool.h>

#include "review/edit.h"
#include "sandbox/state_dir.h"

struct pick {
    struct state_dir state_dir;
    char id[SANDBOX_NAME_MAX], name[SANDBOX_NAME_MAX]; /* the name is the id where it has none */
    int dir_fd;                                        /* owned */
    struct sandbox_spec *spec;                         /* owned */
    char *delta_path;                                  /* owned */
    bool has_delta;                                    /* one that never started has none */
};

#define PICK_NONE ((struct pick){ .state_dir = STATE_DIR_NONE, .dir_fd = -1 })

int pick_open(const char *name, struct pick *ret, struct err *err);
void pick_done(struct pick *pick);

/* It waits in the trash of a server. */
int pick_refuse_deleted(const char *name, struct err *err);

/* ERR_FAILED_PRECONDITION and -EBUSY, with what can be done. */
int pick_refuse_running(const char *name, struct err *err);

/* Nobody else works on it until the lock is closed. One that runs is ERR_FAILED_PRECONDITION. */
int pick_lock(const struct pick *pick, int *ret_lock_fd, struct err *err);

/* An approval that was cut short is finished, or taken back: whoever looks at it now must not see half of one. */
void pick_settle(const struct pick *pick);

/* Its changes; none for one without a delta. */
int pick_load_edits(const struct pick *pick, const char *const *paths, size_t path_count, struct edit_list *ret,
                    struct err *err);
