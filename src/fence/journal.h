/*
 * The intent log, <delta>/meta/journal: what a rename of several steps is about to do. It is written before the first step and
 * emptied after the last. Mounting completes what it finds in it, so the tree is the old or the new one. There is at most one
 * intent at a time: its writer holds fence.moves.
 */
#pragma once

#include "fence/fence_int.h"

struct journal;

/* Paths are relative to the delta's data directory, no leading slash. */
struct intent {
    const char *from;
    const char *to;
    bool whiteout_from; /* the base has `from`: leave a marker */
    bool revert_marker; /* `to` was deleted before: remove its marker */
    bool clear_to;      /* the delta has a directory at `to` that holds nothing but markers */
};

int journal_new(struct fence *f, struct journal **ret_journal);
void journal_free(struct journal *journal);

int journal_begin(struct fence *f, const struct intent *intent);
void journal_end(struct fence *f);

/* Completes the intent of an earlier process. Call before the tree is loaded. */
int journal_replay(struct fence *f);

/* Performs the steps. Repeating them does no harm. */
int journal_perform(struct fence *f, const struct intent *intent);

/* Formats and parses an intent; for journal.c and tests. -EBADMSG for an incomplete one. */
void intent_write(const struct intent *intent, struct buf *out);
int intent_parse(char *bytes, size_t len, struct intent *ret); /* points into `bytes` */
