/*
 * Hidden directories that are shown because something visible lies somewhere in them.
 */
#pragma once

#include "fence/fence_int.h"

struct passages *passages_new(void);
void passages_free(struct passages *passages);

/* Searches below the hidden directory until something visible turns up; the answer is remembered. Once shown, it stays. */
bool passage_shows(struct fence *f, struct inode *dir);

/* Whether the last search of a directory with that number ended so. */
bool passage_was_shown(struct fence *f, uint64_t ino);

/* Answers of "nothing visible" are forgotten: the base changed. */
void passages_forget_absent(struct fence *f);

/* All are: the rules changed. */
void passages_forget(struct fence *f);
