/*
 * When files were changed whose hand-over failed.
 *
 * A change is as old as the ctime of the file in the delta. Whoever takes files gives them second names; when the taking fails, those go
 * again, and each of both makes the file look as if it had just been changed: tried once more, it would win over what others have done in
 * the meantime. So what a failed hand-over had is noted, and counts as long as the file is the one it was.
 *
 * The note is in meta/tried too, for the next fence, as far as there is room: most that fail do so because there is none.
 */
#pragma once

#include "fence/sync_out_int.h"

struct sync_ages;

/* What the last fence left. */
int sync_age_load(int meta_fd, struct sync_ages **ret);
void sync_age_free(struct sync_ages *sync_ages);

/* Behind the closed gate. The hand-over of the list failed. */
void sync_age_note(struct fence *f, const struct sync_out_list *list);

/* It did not: what is left in the delta has its note still. */
void sync_age_forget(struct fence *f, const struct sync_out_list *list);

/* When the file of the delta was changed. */
int64_t sync_age_of(const struct fence *f, const char *path, const struct stat *st);
