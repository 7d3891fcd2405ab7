/*
 * Where the sandboxes of this host and user live: one directory each (wire/sandbox_spec.h lists the files in it).
 *
 * $AGENTFENSE_STATE_DIR, or /var/lib/agentfense for root, or $XDG_STATE_HOME/agentfense (~/.local/state/agentfense). It is created when it
 * is first needed, and closed to other users. Its directory `sandboxes` contains one directory per sandbox, named by the sandbox's id. A
 * sandbox is created under a temporary name first, so a directory with an id is complete. The directory is the fact: without it a sandbox
 * does not exist, whatever a database or a claim on a name contains (sandbox_names.h).
 *
 * In a state directory of a release before ids, directories have names instead. state_dir_open() converts those of sandboxes that do not
 * run (state_dir_convert.c); the others can be used by their names until they stop.
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
    int locks_fd; /* owned: the directory `uids`, for runtime/identity.h; -1 if it does not exist and was not to be created */
    int names_fd; /* owned: the directory `names`; -1 likewise */
};

#define STATE_DIR_NONE ((struct state_dir){ .fd = -1, .sandboxes_fd = -1, .locks_fd = -1, .names_fd = -1 })
#define STATE_DIR_NAMES "names"
#define STATE_DIR_LOCK "server-lock" /* locked by the state directory's server while it lives */
#define STATE_DIR_OLD_PART "mounts"  /* where servers of the first edition kept their files */

/* Returns the path without checking that it exists; NULL when the environment does not determine it. Free it. */
char *state_dir_find_path(struct err *err);

/* Opens it, and creates it if `create`; -ENOENT otherwise. Refuses a directory that other users can write, or that another user owns. */
int state_dir_open(bool create, struct state_dir *ret, struct err *err);
/* The same for an absolute path of the caller's choice. Creates the directory if it does not exist. */
int state_dir_open_at(const char *path, struct state_dir *ret, struct err *err);
void state_dir_done(struct state_dir *state_dir);

/* Creates the directory of a new sandbox with its spec, and claims the name. If `spec->id` is NULL, it makes an id and puts it into the
 * spec; if `spec->name` is NULL too, it makes a name of the base's last component and four random characters ("shop-x3kf"). -EEXIST:
 * another sandbox of that owner has the name. Without `lasts` it does not wait for the disk; the first fsync of any file in the sandbox
 * makes the directory durable as well (fence/delta.h). */
int state_dir_create(struct state_dir *state_dir, struct sandbox_spec *spec, bool lasts, int *ret_dir_fd, struct err *err);

/* Finds the one sandbox that `word` identifies: by id, name, UUID, or the beginning of an id or a name. It looks only at names of the
 * administrator's sandboxes. A complete id or name wins over a beginning, and "sb_" alone does not count as the beginning of an id.
 * -ENOENT; -EINVAL when several match, with up to 8 of them in the error; -ENOTDIR with `ret_id` when it is not a directory. `ret_id` is
 * the name of its directory. */
int state_dir_find(const struct state_dir *state_dir, const char *word, char ret_id[SANDBOX_NAME_MAX], int *ret_dir_fd,
                   struct err *err);

/* Finds the sandbox that was created last, among those that are not in the trash. -ENOENT. */
int state_dir_find_last(const struct state_dir *state_dir, char ret_id[SANDBOX_NAME_MAX], int *ret_dir_fd, struct err *err);

/* Returns the name that users see: its name, or its id if it has none. `spec` is NULL if it cannot be read. */
void state_dir_show_name(const struct state_dir *state_dir, const char *id, const struct sandbox_spec *spec,
                         char ret_name[SANDBOX_NAME_MAX]);

/* Returns true if the supervisor of the sandbox with this name or id lives; false also if there is no such sandbox. */
bool state_dir_is_running(const struct state_dir *state_dir, const char *name);

/* sandbox_dir_unmount_leftover() by name. */
void state_dir_unmount_ended(const struct state_dir *state_dir, const char *name);

/* Removes a sandbox with its delta, and frees its name. -EBUSY while its supervisor lives. If it is not a directory, it is unlinked; the
 * target of a link is left alone. */
int state_dir_remove(struct state_dir *state_dir, const char *name, struct err *err);

/* Calls `fn` for every sandbox, with the name of its directory. A nonzero result of `fn` ends the loop and is returned. */
typedef int (*state_dir_fn)(const char *id, int dir_fd, void *cookie);
int state_dir_each(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err);
/* The same, and also calls `fn` for entries that have the name of a sandbox but cannot be opened as a directory, with `dir_fd` set to
 * -errno. */
int state_dir_each_name(const struct state_dir *state_dir, state_dir_fn fn, void *cookie, struct err *err);

/* Returns the path of one of its files, for interfaces that need a path. Free it. */
char *state_dir_path(const struct state_dir *state_dir, const char *id, const char *file);

/* Gives each stopped sandbox of a release before ids an id, a directory of that name and a claim on its name. It leaves sandboxes that fail
 * for the next time. Called by state_dir_open(). */
void state_dir_convert(struct state_dir *state_dir);

/* Moves the files of a server of the first edition from the part "mounts" into the state directory itself, and leaves a symlink for running
 * sandboxes, which know the old path. Only for a server that has locked the state directory. -EBUSY while a server of the first edition
 * runs. A call that was interrupted anywhere is finished by the next one. */
int state_dir_take_in(struct state_dir *state_dir, struct err *err);
