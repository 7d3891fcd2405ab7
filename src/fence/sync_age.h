/*
 * The change times of files whose sync-out failed.
 *
 * A change is as old as the ctime of the file in the delta. A sync-out links the files elsewhere; when it fails, those links
 * are removed, and both steps make a file look as if it had just been changed: at the next attempt it would win over what
 * others have changed in the meantime. So the times of a failed sync-out are recorded, and count as long as the file is
 * unchanged.
 *
 * The record is in meta/tried too, for the next fence, if there is space: most sync-outs that fail do so for lack of it.
 */
#pragma once

#include "fence/sync_out_int.h"

struct sync_ages;

/* Loads what the last fence recorded. */
int sync_age_load(int meta_fd, struct sync_ages **ret);
void sync_age_free(struct sync_ages *sync_ages);

/* [gate closed] The sync-out of the list failed. */
void sync_age_note(struct fence *f, const struct sync_out_list *list);

/* It succeeded: only what is left in the delta keeps its record. */
void sync_age_forget(struct fence *f, const struct sync_out_list *list);

/* When the file of the delta was changed. */
int64_t sync_age_of(const struct fence *f, const char *path, const struct stat *st);
