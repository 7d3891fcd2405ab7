/*
 * Ids of sandboxes and their two spellings.
 *
 * A new sandbox is "sb_" and 16 hex digits; one that was a workspace before there was one kind of sandbox is "ws_" and 32 (wire/sandbox_spec.h
 * checks both). /api/v1 spells every id as a UUID: the digits of "ws_" are one; those of "sb_0123456789abcdef" become
 * "01234567-89ab-4cde-8f00-000000000000", which is a UUID of version 4 that no generator of random ones will meet.
 */
#pragma once

#include "base/uuid.h"
#include "wire/sandbox_spec.h"

void sandbox_id_new(char ret_id[SANDBOX_ID_MAX]);

/* `id` is valid. */
void sandbox_id_to_uuid(const char *id, char ret_uuid[UUID_TEXT_MAX]);

/* Reads an id, or a UUID however it is spelled (base/uuid.h). -EINVAL. */
int sandbox_id_parse(const char *text, char ret_id[SANDBOX_ID_MAX]);
