/* What the files of approve and undo share. */
#pragma once

#include "review/approve.h"

/* What is to be done for one edit. */
struct taking {
    bool is_taken; /* it gets notes */
    bool has_wish; /* something is written */
    size_t wish;   /* its index in the landing */
    mode_t now;    /* as in struct landing_wish */
    bool is_mode_only;
    struct stat was;
    bool has_bytes; /* `bytes` are written, not what the delta has */
    struct buf bytes;
    uint8_t hash[IMAGE_HASH_BYTES]; /* of what is written; for files */
    struct diary_page ground;       /* from now on; borrows its path, owns `kept` */
    struct buf ground_bytes;        /* to be kept as the ground, if `keeps_ground` */
    bool keeps_ground;
    struct diary_page before; /* the ground until now; borrows all */
};

/* Reconciles the edit and says what to do. Fills `file` and, unless it is refused, `ret`. */
int taking_make(const struct edit_list *list, const struct edit *edit, const struct decision *decision,
                const struct approve_options *options, struct approve_file *file, struct taking *ret, struct err *err);
void taking_done(struct taking *taking);

/* What must not move while we look at it and then write. */
struct approve_locks {
    struct delta_about delta;
    int delta_fd, base_fd, records_fd; /* owned */
};

#define APPROVE_LOCKS_NONE ((struct approve_locks){ DELTA_ABOUT_NONE, -1, -1, -1 })

/* Takes them, and then finishes what was cut short. */
int approve_locks_take(const char *delta_path, bool is_held, struct approve_locks *ret, struct err *err);
void approve_locks_done(struct approve_locks *locks);

/* Where something lands under these locks; its notes go to the diary. Borrows from `locks`. */
struct landing_site approve_site(struct approve_locks *locks);
