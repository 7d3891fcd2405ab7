/*
 * The id of a sandbox and its spellings.
 *
 * New sandboxes have an id of base/id.h: "sb_0123456789abcdef". Sandboxes over a directory that an older version made keep
 * their id, which contains a whole UUID: "ws_83300d2cbd6341e4853b58b605352f6b". The id is also the name of the sandbox's
 * directory.
 *
 * Clients of /api/v1 use UUIDs. The UUID of a "ws_" id is the one it contains. The UUID of an "sb_" id contains its digits d0
 * to d15 at fixed places and has the form of a random UUID (version 4): d0-d7, d8-d11, "4" d12-d14, "8" d15 "00", and zeros.
 * Both conversions are reversible.
 */
#pragma once

#include <stdbool.h>

#include "base/id.h"
#include "base/uuid.h"

#define SANDBOX_ID_PREFIX "sb_"
#define SANDBOX_ID_OLD_PREFIX "ws_"
#define SANDBOX_ID_MAX 36 /* for both kinds, including the NUL */

void sandbox_id_new(char ret[SANDBOX_ID_MAX]);

/* Returns true for an id of either kind in exactly the form that we write. */
bool sandbox_id_is_valid(const char *text);

/* Accepts an id, or a UUID in any form that uuid_parse() accepts. Returns -EINVAL otherwise. */
int sandbox_id_parse(const char *text, char ret[SANDBOX_ID_MAX]);

/* Writes "" if `id` is not the id of a sandbox. */
void sandbox_id_to_uuid(const char *id, char ret[UUID_TEXT_MAX]);
