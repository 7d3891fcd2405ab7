/*
 * The wall: every operation's body begins with one call of these. What is refused here is counted and reported.
 */
#pragma once

#include "fence/fence_int.h"

/* May this be done to the inode? 0 or the errno for the caller. */
int guard_inode(struct fence *f, enum policy_op op, struct inode *inode, const struct op_caller *who);

/* May this be done to a name in a directory? On success `ret_match` (may be NULL) is a reference to where the name stands. */
int guard_name(struct fence *f, enum policy_op op, struct inode *dir, const char *name, const struct op_caller *who,
               struct match_state **ret_match);

/* A LOOKUP: 0, or -ENOENT with `ret_hidden` true when the rules, and nothing else, say so. A hidden name that may be a passage
 * is let through with *ret_maybe_passage. */
int guard_lookup(struct fence *f, struct inode *dir, const char *name, struct match_state **ret_match, bool *ret_maybe_passage);

/* Reports a refusal that became known elsewhere. */
void guard_report_denied(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                         const struct op_caller *who);
