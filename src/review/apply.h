/*
 * Writing a delta's changes into its base.
 *
 * Everything is checked first: a path that is no longer what the agent worked from is a conflict, and one conflict means that nothing
 * is written. Then every new file is staged beside its place, under a temporary name, and synced; only when all of them
 * are there, each is renamed into its place. What is killed in between leaves each file old or new, and doing it again
 * finishes: what was applied is no change any more. What fails while staging, such as a full disk, leaves the base as it was.
 *
 * A directory that is new comes into its place whole, by one rename. Nothing is reached through a symlink. Modes lose set-user-ID,
 * set-group-ID and the sticky bit. As root, files keep the owner they had in the base and new ones get that of the directory
 * they come into.
 *
 * The delta stays as it is. What is applied is noted in its diary, so that a base changed after that is a conflict again.
 */
#pragma once

#include "review/edit.h"

struct apply_options {
    bool is_forced;           /* conflicts are overridden, except for files the agent never saw */
    const char *const *paths; /* only these; see edit.h */
    size_t path_count;
};

struct apply_conflict {
    char *path; /* owned */
    const char *reason;
};

struct apply {
    struct apply_conflict *conflicts; /* owned */
    size_t conflict_count, conflict_cap;
    struct edit_list edits; /* what was applied, or would have been */
    size_t done;            /* how many of them were; all, unless it failed */
};

#define APPLY_NONE ((struct apply){ .edits = EDIT_LIST_EMPTY })

/* 0 when everything is in its place, 1 when there are conflicts and nothing was written. -EBUSY while a fence uses the delta or
 * somebody else applies to the same base. `ret` is filled also on failure. */
int apply_run(const char *delta_path, const struct apply_options *options, struct apply *ret, struct err *err);
void apply_done(struct apply *apply);

/* Removes what a run that was killed had staged beside files of the base, if the delta is to be discarded now. */
void apply_clean_up(const char *delta_path);
