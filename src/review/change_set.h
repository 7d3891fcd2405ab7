/*
 * All that a review shows of a sandbox: its changes as files, with their old and new state.
 *
 * Loading walks the delta once and pairs renames. It reads no text: lines are counted, contents hashed and hunks made on
 * request (file_diff.h), so that a page of a large set costs only a page. The set keeps the results.
 *
 * The agent may be at work meanwhile. A file that disappeared or changed its kind since loading has a `failure` instead of
 * lines and has no hash, and the hash of the set is then unique.
 */
#pragma once

#include "review/acknowledge.h"
#include "review/drift.h"
#include "review/edit.h"
#include "review/reconcile.h"

#define CHANGE_HASH_BYTES 32
#define CHANGE_HASH_TEXT_MAX (2 * CHANGE_HASH_BYTES + 1)
#define CHANGE_SET_HASH_MAX (2 * CHANGE_HASH_TEXT_MAX)

enum file_change_kind {
    FILE_CHANGE_ADDED,
    FILE_CHANGE_MODIFIED, /* content, mode or a link's target; or a file became a link or a link a file */
    FILE_CHANGE_DELETED,
    FILE_CHANGE_RENAMED, /* and perhaps modified */
};

struct file_change {
    enum file_change_kind kind;
    const struct edit *edit;   /* borrowed from the set */
    const struct edit *from;   /* FILE_CHANGE_RENAMED: the deletion that belongs to it; else NULL */
    char *path;                /* owned; from the project's root */
    const char *scope_path;    /* borrowed; from the sandbox's root: file ids are made of it */
    char *old_path;            /* owned; FILE_CHANGE_RENAMED, from the project's root */
    unsigned percent;          /* FILE_CHANGE_RENAMED: similarity */
    bool is_dir;               /* a directory before and after, or created or removed: there is no file to show */
    mode_t old_mode, new_mode; /* with the kind; 0: nothing */
    uint64_t old_bytes, new_bytes;
    char *old_target, *new_target; /* owned; links */
    enum acknowledge acknowledge;

    bool is_measured; /* by file_diff_make() or change_set_measure() */
    bool is_binary, is_too_large;
    bool is_whole_only;    /* its hunks are shown, but it is too large to be approved by hunks */
    size_t added, removed; /* lines */
    bool is_hashed;
    uint8_t hash[CHANGE_HASH_BYTES]; /* of the agent's version at `path`: kind, mode, bytes */
    struct drift drift;              /* set with the hash: what it is compared with */
    int failure;                     /* a negative errno: the last attempt to read it failed */

    /* Set by file_diff_make() and change_set_measure(): the result an approval would have, and the reason of a conflict. */
    enum reconcile_state state;
    const char *reason;
};

struct change_set {
    struct file_change *items; /* owned; by path, in bytes */
    size_t count;
    struct edit_list edits;
};

#define CHANGE_SET_EMPTY ((struct change_set){ .edits = EDIT_LIST_EMPTY })

struct change_set_options {
    const char *prefix; /* the sandbox's root from the project's: "services/api"; NULL or "": the same */
    bool without_renames;
};

int change_set_load(const char *delta_path, const struct change_set_options *options, struct change_set *ret, struct err *err);
void change_set_done(struct change_set *set);

/* NULL: none. `path` starts at the project's root, or is a scope path. */
struct file_change *change_set_find(struct change_set *set, const char *project_path);
struct file_change *change_set_find_scoped(struct change_set *set, const char *scope_path);

/* Selects the changes at or below `path` (from the project's root; NULL: all), from `offset` on, at most `limit` (0: no
 * limit). Returns their places in `items`, to be freed, and their number without offset and limit. */
struct change_set_query {
    const char *path;
    size_t offset, limit;
    bool with_directories;
};

size_t *change_set_page(const struct change_set *set, const struct change_set_query *query, size_t *ret_count,
                        size_t *ret_total);

/* Counts lines and hashes, in a few threads, for those of `places` (NULL: all) that are not measured yet. */
int change_set_measure(struct change_set *set, const size_t *places, size_t count, struct err *err);

/*
 * Makes the hash of all changes with their paths, in hex. Reads each file that has no hash yet, and compares nothing. The
 * first part covers the agent's work, and is the same with and without renames. If the project has changed beneath some of it,
 * or the agent got another merge base, a '-' and a hash of these drifts follow: both parts together cover all that is shown.
 */
int change_set_hash(struct change_set *set, char out[CHANGE_SET_HASH_MAX], struct err *err);

/* Tells whether `given` equals `hash`: with all that is shown, or only the agent's part. Ignores case. */
bool change_set_hash_is(const char *hash, const char *given, bool only_the_agents);

struct change_totals {
    size_t files, added, modified, deleted, renamed; /* directories are not counted */
    size_t directories;
    size_t lines_added, lines_removed;
    uint64_t bytes;    /* of the new files */
    size_t unmeasured; /* files whose lines are not in the sums: not measured, too large or unreadable */
    size_t to_acknowledge;
};

struct change_totals change_set_totals(const struct change_set *set);

const char *file_change_kind_name(enum file_change_kind kind); /* "added", "modified", "deleted", "renamed" */
void change_hash_text(const uint8_t hash[CHANGE_HASH_BYTES], char out[CHANGE_HASH_TEXT_MAX]);
