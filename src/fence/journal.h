/*
 * The intent log, <delta>/meta/journal: what a rename that takes several steps is about to do. It is written before the first
 * step and emptied after the last; what is found in it at mount is done to the end, so the tree is the old or the new one.
 * At most one intent at a time: whoever writes one holds fence.moves.
 */
#pragma once

#include "fence/fence_int.h"

struct journal;

/* Paths from the delta's data directory, no leading slash. */
struct intent {
    const char *from;
    const char *to;
    bool whiteout_from; /* the base has `from`: leave a marker */
    bool revert_marker; /* `to` was deleted before: remove its marker */
    bool clear_to;      /* the delta has a directory at `to`, with nothing but markers in it */
};

int journal_new(struct fence *f, struct journal **ret_journal);
void journal_free(struct journal *journal);

int journal_begin(struct fence *f, const struct intent *intent);
void journal_end(struct fence *f);

/* Before the tree is loaded. */
int journal_replay(struct fence *f);

/* The steps themselves, also for the first time. Repeating them does no harm. */
int journal_perform(struct fence *f, const struct intent *intent);

/* Text of an intent and back; for the tests. -EBADMSG for anything torn. */
void intent_write(const struct intent *intent, struct buf *out);
int intent_parse(char *bytes, size_t len, struct intent *ret); /* points into `bytes` */
