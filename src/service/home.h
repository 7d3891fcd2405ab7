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
#include "wire/sandbox_spec.h"

struct home {
    char *path;       /* owned; absolute */
    int fd;           /* owned: the directory itself */
    int sandboxes_fd; /* owned */
    int locks_fd;     /* owned: the directory `uids`, for runtime/identity.h; -1 if it is not there and was not to be made */
};

#define HOME_NONE ((struct home){ .fd = -1, .sandboxes_fd = -1, .locks_fd = -1 })

/* Where it is or would be, without looking; NULL when nothing says where. Free it. */
char *home_find_path(struct err *err);

/* Opens it, and makes it when `create`. -ENOENT without. Refuses one that others can write or that belongs to somebody else. */
int home_open(bool create, struct home *ret, struct err *err);
/* The same at a place of the caller's choosing, an absolute path; made when it is not there. */
int home_open_at(const char *path, struct home *ret, struct err *err);
void home_done(struct home *home);

/* Makes the directory of a new sandbox with its spec in it. `spec->name` may be NULL: then a name is made of the base's last
 * component and four random letters ("shop-x3kf"), and put into the spec. -EEXIST. A sandbox that is not to last at once is made
 * without waiting for the disk; the first fsync of anything in it makes it last as well (fence/delta.h). */
int home_create(struct home *home, struct sandbox_spec *spec, bool lasts, int *ret_dir_fd, struct err *err);

/* The directory of the one sandbox whose name is `name` or, if there is none, begins with it. -ENOENT; -EINVAL when several
 * begin so, with their names in the error; -ENOTDIR with `ret_name` when that is no directory. */
int home_find(const struct home *home, const char *name, char ret_name[SANDBOX_NAME_MAX], int *ret_dir_fd, struct err *err);

/* A supervisor holds <dir>/lock by an exclusive flock(2) as long as it lives: the kernel lets go of it however it dies, and a child
 * that inherited the descriptor keeps it. Whoever applies or removes a sandbox holds it likewise. Somebody who only asks whether
 * it is held takes it shared for a moment, so this tries for some milliseconds before it says -EBUSY. */
int home_lock(int sandbox_dir_fd, int *ret_fd);

/* Whether its supervisor lives. */
bool home_is_running(int sandbox_dir_fd);
/* The same by name, which may be an id; false also when there is no such sandbox. */
bool home_lives(const struct home *home, const char *name);

/* Takes away what is still mounted on the host of a sandbox that has ended: a container's supervisor that was killed leaves it, and
 * host_mount.h. Nothing to do while its supervisor lives. */
void home_unmount_leftover(int sandbox_dir_fd);
/* The same by name. */
void home_unmount_ended(const struct home *home, const char *name);

/* Removes a sandbox with its delta. -EBUSY while its supervisor lives. What is no directory is unlinked; where a link leads is left alone. */
int home_remove(struct home *home, const char *name, struct err *err);

/* Calls `fn` for every sandbox, by name. A nonzero answer ends it and is returned. */
typedef int (*home_fn)(const char *name, int dir_fd, void *cookie);
int home_each(const struct home *home, home_fn fn, void *cookie, struct err *err);
/* The same, and for what has a sandbox's name and is no directory that can be opened: its `dir_fd` is -errno. */
int home_each_name(const struct home *home, home_fn fn, void *cookie, struct err *err);

/* Whether a sandbox that does not run has its directory, with a spec that can be read. The reason in `err` if not. */
int home_check(const struct home *home, const char *name, struct err *err);

/* Whether its delta holds anything. What cannot be looked at counts as something. */
bool home_has_changes(int sandbox_dir_fd);

/* The path of one of its files, for what needs a path. Free it. */
char *home_path(const struct home *home, const char *name, const char *file);
