/*
 * Where the sandboxes of this host and user live: one directory each (see wire/sandbox_spec.h for what is in it).
 *
 * $AGENTFENSE_STATE_DIR, or /var/lib/agentfense for root, or $XDG_STATE_HOME/agentfense (~/.local/state/agentfense). Made when
 * it is first needed, closed to everybody else. Sandboxes are in its directory `sandboxes`, each in one that is called by its id; one that
 * is being made is there under a temporary name, so whatever has a sandbox's id is whole. The directory is the fact: what is not there is no
 * sandbox, whatever a database or a claim on a name says (sandbox_names.h).
 *
 * In a state directory of a release before ids, directories have names instead. Whoever opens it converts those that do not run
 * (state_dir_convert.c); the others can be used by their names until they stop.
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
    int names_fd;     /* owned: the directory `names`; -1 likewise */
};

#define STATE_DIR_NONE ((struct state_dir){ .fd = -1, .sandboxes_fd = -1, .locks_fd = -1, .names_fd = -1 })
#define STATE_DIR_NAMES "names"
#define STATE_DIR_LOCK "server-lock" /* locked by the server of the state directory while it lives */
#define STATE_DIR_OLD_PART "mounts" /* where servers of the first edition kept theirs */

/* Where it is or would be, without looking; NULL when nothing says where. Free it. */
char *state_dir_find_path(struct err *err);

/* Opens it, and makes it when `create`. -ENOENT without. Refuses one that others can write or that belongs to somebody else. */
int state_dir_open(bool create, struct state_dir *ret, struct err *err);
/* The same at a place of the caller's choosing, an absolute path; made when it is not there. */
int state_dir_open_at(const char *path, struct state_dir *ret, struct err *err);
void state_dir_done(struct state_dir *state_dir);

/* Makes the directory of a new sandbox with its spec in it, and claims the name. Where `spec->id` is NULL, an id is made and put into the spec;
 * where `spec->name` is NULL too, so is a name, of the base's last component and four random letters ("shop-x3kf"). -EEXIST: another sandbox
 * of that owner has the name. A sandbox that is not to last at once is made
 * without waiting for the disk; the first fsync of anything in it makes it last as well (fence/delta.h). */
int state_dir_create(struct state_dir *state_dir, struct sandbox_spec *spec, bool lasts, int *ret_dir_fd, struct err *err);

/* The one sandbox that is meant by an id, a name, a UUID, or the beginning of an id or a name; names are those of the administrator's sandboxes.
 * An id or a name wins over a beginning, and "sb_" alone begins no id. -ENOENT; -EINVAL when several are meant, with up to 8 of them in the
 * error; -ENOTDIR with `ret_id` when that is no directory. `ret_id` is what its directory is called. */
int state_dir_find(const struct state_dir *state_dir, const char *word, char ret_id[SANDBOX_NAME_MAX], int *ret_dir_fd,
                   struct err *err);

/* The one that was made last. -ENOENT. */
int state_dir_find_last(const struct state_dir *state_dir, char ret_id[SANDBOX_NAME_MAX], int *ret_dir_fd, struct err *err);

/* What people call it: its name, or its id where it has none. `spec` may be NULL when it cannot be read. */
void state_dir_show_name(const struct state_dir *state_dir, const char *id, const struct sandbox_spec *spec,
                         char ret_name[SANDBOX_NAME_MAX]);

/* Whether the supervisor of the sandbox of this name, or id, lives; false also when there is no such sandbox. */
bool state_dir_is_running(const struct state_dir *state_dir, const char *name);

/* sandbox_dir_unmount_leftover() by name. */
void state_dir_unmount_ended(const struct state_dir *state_dir, const char *name);

/* Removes a sandbox with its delta, and frees its name. -EBUSY while its supervisor lives. What is no directory is unlinked; where a link leads is left alone. */
int state_dir_remove(struct state_dir *state_dir, const char *name, struct err *err);

/* Calls `fn` for every sandbox, by what its directory is called. A nonzero answer ends it and is returned. */
typedef int (*state_dir_fn)(const char *id, int dir_fd, void *cookie);
int state_dir_each(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err);
/* The same, and for what could be a sandbox's directory and is none that can be opened: its `dir_fd` is -errno. */
int state_dir_each_name(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err);

/* The path of one of its files, for what needs a path. Free it. */
char *state_dir_path(const struct state_dir *state_dir, const char *id, const char *file);

/* Gives each sandbox of a release before ids that does not run an id, a directory of that name and a claim on its name. What fails is left for
 * the next time. Done by state_dir_open(). */
void state_dir_convert(struct state_dir *state_dir);

/* Moves what a server of the first edition kept in the part "mounts" into the state directory itself, and leaves a symlink for those that
 * still run and know the old path. Only for a server that has the state directory for itself. -EBUSY while a server of the first edition
 * runs. Can be cut short anywhere and is finished by the next call. */
int state_dir_take_in(struct state_dir *state_dir, struct err *err);
