/*
 * The id of a sandbox, and its spellings.
 *
 * New sandboxes have an id of base/id.h with this prefix: "sb_0123456789abcdef". Those that an older version made over a directory keep
 * theirs, which hold a whole UUID: "ws_83300d2cbd6341e4853b58b605352f6b". The id is also the name of the sandbox's directory.
 *
 * Clients of /api/v1 know UUIDs only. That of a "ws_" id is the one it holds. That of an "sb_" id has its digits d0 to d15 at fixed places,
 * and looks like a random UUID of version 4: d0-d7, d8-d11, "4" d12-d14, "8" d15 "00", and zeros. Both ways lose nothing.
 */
#pragma once

#include <stdbool.h>

#include "base/id.h"
#include "base/uuid.h"

#define SANDBOX_ID_PREFIX "sb_"
#define SANDBOX_ID_OLD_PREFIX "ws_"
#define SANDBOX_ID_MAX 36 /* of either kind, with the NUL */

void sandbox_id_new(char ret[SANDBOX_ID_MAX]);

/* Whether it is an id of either kind, exactly as we write it. */
bool sandbox_id_is_valid(const char *text);

/* Takes an id, or a UUID in any form that uuid_parse() takes. -EINVAL: it is neither. */
int sandbox_id_parse(const char *text, char ret[SANDBOX_ID_MAX]);

/* "" for what is no id of a sandbox. */
void sandbox_id_to_uuid(const char *id, char ret[UUID_TEXT_MAX]);
