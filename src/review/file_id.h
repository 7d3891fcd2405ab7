/*
 * The id of a changed file in the API: a UUID of version 5, with the sandbox's id as name space and the path from the sandbox's root
 * as name. So it is the same in every answer, needs no table, and says nothing that the path does not.
 */
#pragma once

#define FILE_ID_LEN 36

/* `sandbox_id` is one of base/sandbox_id.h, or its UUID, in letters of either case: the result is the same. -EINVAL when it is neither. */
int file_id_make(const char *sandbox_id, const char *scope_path, char out[FILE_ID_LEN + 1]);
