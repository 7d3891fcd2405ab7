/*
 * What the agent did to the base, path by path, as a person reviews it: the changes of a delta (fence/change.h) with directories
 * spelled out, without what is not the agent's doing and without `.git`.
 *
 *  - A deleted directory is told together with every file deleted in it. A file in it that the agent never saw (a rule hid it, or it
 *    came later) is no deletion: it is counted in `unseen`, and stays.
 *  - Content or mode that only the base changed, under a copy the agent left as it was, is no change.
 *  - A new file has the mode that git would give it, and a new directory that of any: what is shown says no more of them. A directory that stays
 *    keeps its mode.
 *  - `.git` works inside a sandbox, but what happens there is not reviewed and not applied; it is counted. So are FIFOs and sockets,
 *    and directories that are nested too deep.
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
    struct stat was; /* in the base; st_mode 0: nothing there */
    mode_t now;      /* 0: nothing there */
    uint64_t now_bytes;
    size_t chosen_at; /* which of the paths that were asked for is its own, from 1; 0: none, it is one above it or all */
};

/* Bytes of all paths together. An agent can give each of a million files a path of a quarter of a megabyte, and whoever reviews has to hold
 * them: beyond this the changes cannot be listed, only discarded. */
#define EDIT_LIST_TEXT_MAX ((size_t) 1 << 29)

struct edit_list {
    struct edit *items; /* owned; by path, parents before what is in them */
    size_t count, cap;
    size_t text_bytes;      /* of the paths */
    struct path_set chosen; /* the paths that were asked for; those that name a change are marked. Empty: all changes */
    struct change_log_index log_index;
    struct delta_info delta;
    int base_fd;   /* owned */
    char **unseen; /* owned, like its elements: files in deleted directories that stay */
    size_t unseen_count, unseen_cap;
    size_t git_count;      /* changes below a `.git` */
    size_t special_count;  /* FIFOs and sockets the agent made */
    size_t deep_count;     /* directories nested too deep to be reviewed, each with all that is in it (fence/change.h) */
    const char *unmatched; /* borrowed: the first of the chosen paths that names no change; NULL: all did */
};

#define EDIT_LIST_EMPTY ((struct edit_list){ .delta = { .data_fd = -1, .meta_fd = -1 }, .base_fd = -1 })

/* All, or those at and below `paths`: from the root of the base, with or without a leading slash, or as the host has them. */
int edit_list_load(const char *delta_path, const char *const *paths, size_t path_count, struct edit_list *ret, struct err *err);
void edit_list_done(struct edit_list *list);

/* Such a path as `chosen` has it. */
int edit_list_clean(const struct edit_list *list, const char *path, struct buf *out, struct err *err);

/* Of a mode in a sandbox what a new file or directory gets of it: 0644 or 0755, or less where it was closed to the group or to others. */
mode_t edit_new_mode(mode_t mode);

/* Whether the project gave the file another mode since it had `merge_base`, and the agent yet another. */
bool edit_mode_has_moved(const struct edit *edit, mode_t merge_base, mode_t project);

/* Whether it is about a file or a link, before or after: about more than a directory. */
bool edit_is_file(const struct edit *edit);

/* How many such there are. */
size_t edit_list_files(const struct edit_list *list);

/* Whether a component of the path is `.git`, also in letters that a file system may take for it. */
bool edit_is_git(const char *path);
