/*
 * Where the sandboxes of this host and user live: one directory each (see wire/sandbox_spec.h for what is in it).
 *
 * $AGENTFENSE_STATE_DIR, or /var/lib/agentfense for root, or $XDG_STATE_HOME/agentfense (~/.local/state/agentfense). Made when
 * it is first needed, closed to everybody else. Sandboxes are in its directory `sandboxes`; one that is being made is in
 * `sandboxes` under a temporary name, so whatever has a sandbox's name is whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "sandbox/sandbox_dir.h"
#include "wire/sandbox_spec.h"

struct state_dir {
    char *path;       /* owned; absolute */
    int fd;           /* owned: the directory itself */
    int sandboxes_fd; /* owned */
    int locks_fd;     /* owned: the directory `uids`, for runtime/identity.h; -1 if it is not there and was not to be made */
};

#define STATE_DIR_NONE ((struct state_dir){ .fd = -1, .sandboxes_fd = -1, .locks_fd = -1 })

/* Where it is or would be, without looking; NULL when nothing says where. Free it. */
char *state_dir_find_path(struct err *err);

/* Opens it, and makes it when `create`. -ENOENT without. Refuses one that others can write or that belongs to somebody else. */
int state_dir_open(bool create, struct state_dir *ret, struct err *err);
/* The same at a place of the caller's choosing, an absolute path; made when it is not there. */
int state_dir_open_at(const char *path, struct state_dir *ret, struct err *err);
void state_dir_done(struct state_dir *state_dir);

/* Makes the directory of a new sandbox with its spec in it. `spec->name` may be NULL: then a name is made of the base's last
 * component and four random letters ("shop-x3kf"), and put into the spec. -EEXIST. A sandbox that is not to last at once is made
 * without waiting for the disk; the first fsync of anything in it makes it last as well (fence/delta.h). */
int state_dir_create(struct state_dir *state_dir, struct sandbox_spec *spec, bool lasts, int *ret_dir_fd, struct err *err);

/* The directory of the one sandbox whose name is `name` or, if there is none, begins with it. -ENOENT; -EINVAL when several
 * begin so, with their names in the error; -ENOTDIR with `ret_name` when that is no directory. */
int state_dir_find(const struct state_dir *state_dir, const char *name, char ret_name[SANDBOX_NAME_MAX], int *ret_dir_fd,
                   struct err *err);

/* Whether the supervisor of the sandbox of this name, or id, lives; false also when there is no such sandbox. */
bool state_dir_is_running(const struct state_dir *state_dir, const char *name);

/* sandbox_dir_unmount_leftover() by name. */
void state_dir_unmount_ended(const struct state_dir *state_dir, const char *name);

/* Removes a sandbox with its delta. -EBUSY while its supervisor lives. What is no directory is unlinked; where a link leads is left alone. */
int state_dir_remove(struct state_dir *state_dir, const char *name, struct err *err);

/* Calls `fn` for every sandbox, by name. A nonzero answer ends it and is returned. */
typedef int (*state_dir_fn)(const char *name, int dir_fd, void *cookie);
int state_dir_each(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err);
/* The same, and for what has a sandbox's name and is no directory that can be opened: its `dir_fd` is -errno. */
int state_dir_each_name(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err);

/* Whether a sandbox that does not run has its directory, with a spec that can be read. The reason in `err` if not. */
int state_dir_check(const struct state_dir *state_dir, const char *name, struct err *err);

/* The path of one of its files, for what needs a path. Free it. */
char *state_dir_path(const struct state_dir *state_dir, const char *name, const char *file);
