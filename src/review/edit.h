/*
 * The agent's changes to the base, path by path, as a person reviews them: the changes of a delta (fence/change.h) with
 * directories expanded, without changes that the agent did not make and without `.git`.
 *
 *  - A deleted directory is listed together with every file deleted in it. A file in it that the agent never saw (a rule hid
 *    it, or it was created later) is not a deletion: it is counted in `unseen`, and stays.
 *  - If only the base changed a content or mode, beneath a copy that the agent left as it was, that is not a change.
 *  - A new file has the mode that git would give it, and a new directory a common mode: more of it is not shown. An existing
 *    directory keeps its mode.
 *  - `.git` works inside a sandbox, but changes in it are not reviewed and not applied; they are counted. So are FIFOs and
 *    sockets, and directories that are nested too deep.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

#include "base/path_set.h"
#include "fence/change.h"
#include "fence/delta.h"
#include "review/change_log_index.h"

struct edit {
    enum change_kind kind;
    char *path;      /* owned; from the root of the base, no leading slash, any bytes */
    struct stat was; /* in the base; st_mode 0: nothing */
    mode_t now;      /* 0: nothing */
    uint64_t now_bytes;
    size_t chosen_at; /* which requested path names it, from 1; 0: none, it is above one of them or all are requested */
};

/* The limit for the bytes of all paths together. An agent can give each of a million files a path of a quarter of a
 * megabyte, and a review holds all of them in memory: beyond the limit the changes cannot be listed, only discarded. */
#define EDIT_LIST_TEXT_MAX ((size_t) 1 << 29)

struct edit_list {
    struct edit *items; /* owned; by path, parents before what is in them */
    size_t count, cap;
    size_t text_bytes;      /* of the paths */
    struct path_set chosen; /* the requested paths; those that name a change are marked. Empty: all changes */
    struct change_log_index log_index;
    struct delta_info delta;
    int base_fd;   /* owned */
    char **unseen; /* owned, like its elements: files in deleted directories that stay */
    size_t unseen_count, unseen_cap;
    size_t git_count;      /* changes below a `.git` */
    size_t special_count;  /* FIFOs and sockets of the agent */
    size_t deep_count;     /* directories nested too deep to be reviewed, each with all its content (fence/change.h) */
    const char *unmatched; /* borrowed: the first requested path that names no change; NULL: all did */
};

#define EDIT_LIST_EMPTY ((struct edit_list){ .delta = { .data_fd = -1, .meta_fd = -1 }, .base_fd = -1 })

/* Loads all changes, or those at and below `paths`: from the root of the base, with or without a leading slash, or as paths
 * of the host. */
int edit_list_load(const char *delta_path, const char *const *paths, size_t path_count, struct edit_list *ret, struct err *err);
void edit_list_done(struct edit_list *list);

/* Converts such a path to the form of `chosen`. */
int edit_list_clean(const struct edit_list *list, const char *path, struct buf *out, struct err *err);

/* The mode that a new file or directory gets from its mode in the sandbox: 0644 or 0755, or less if it was closed to group
 * or others. */
mode_t edit_new_mode(mode_t mode);

/* Tells whether the project changed the file's mode since `merge_base`, and the agent made it yet another. */
bool edit_mode_has_moved(const struct edit *edit, mode_t merge_base, mode_t project);

/* Tells whether a file or a link is involved, before or after, and not only a directory. */
bool edit_is_file(const struct edit *edit);

/* The number of such edits. */
size_t edit_list_files(const struct edit_list *list);

/* Tells whether a component of the path is `.git`, also in a form that some file system treats as the same. */
bool edit_is_git(const char *path);
