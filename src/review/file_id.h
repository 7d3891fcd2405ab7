/*
 * The id of a changed file in the API: a UUID of version 5, with the sandbox's id as name space and the path from the
 * sandbox's root as name. So it is the same in every answer, needs no table, and reveals nothing beyond the path.
 */
#pragma once

#define FILE_ID_LEN 36

/* `sandbox_id` is in the form of base/sandbox_id.h, or its UUID, in any case: the result is the same. Otherwise -EINVAL. */
int file_id_make(const char *sandbox_id, const char *scope_path, char out[FILE_ID_LEN + 1]);
