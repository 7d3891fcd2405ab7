/*
 * Hidden directories that are shown because something visible lies below them.
 */
#pragma once

#include "fence/fence_int.h"

struct passages *passages_new(void);
void passages_free(struct passages *passages);

/* Searches below the hidden directory until it finds something visible, and caches the answer. A directory that is shown stays
 * shown. */
bool passage_shows(struct fence *f, struct inode *dir);

/* Returns true if the last search of the directory with that number found something. */
bool passage_was_shown(struct fence *f, uint64_t ino);

/* Forgets the answers "nothing visible": the base changed. */
void passages_forget_absent(struct fence *f);

/* Forgets all answers: the rules changed. */
void passages_forget(struct fence *f);
