/*
 * Every operation's body begins by calling one of these. Refusals are counted and reported.
 */
#pragma once

#include "fence/fence_int.h"

/* Returns 0 if the operation on the inode is allowed, or the negative errno for the caller. */
int guard_inode(struct fence *f, enum policy_op op, struct inode *inode, const struct op_caller *who);

/* Returns 0 if the operation on a name in a directory is allowed. On success `ret_match`, which may be NULL, is a reference to
 * the state of the name. */
int guard_name(struct fence *f, enum policy_op op, struct inode *dir, const char *name, const struct op_caller *who,
               struct match_state **ret_match);

/* Checks a LOOKUP. Returns -EACCES if the rules hide the name and everything that could be below it. A hidden name that may be
 * a passage passes with *ret_maybe_passage. */
int guard_lookup(struct fence *f, struct inode *dir, const char *name, struct match_state **ret_match, bool *ret_maybe_passage);

/* Counts and reports a refusal that was found elsewhere. */
void guard_report_denied(struct fence *f, enum policy_op op, struct inode *dir, const char *name, enum level level, int error,
                         const struct op_caller *who);
