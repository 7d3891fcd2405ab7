/*
 * UUIDs as text: "83300d2c-bd63-41e4-853b-58b605352f6b". We write them in lower case with hyphens, and accept upper case,
 * braces, a prefix "urn:uuid:" and missing hyphens.
 */
#pragma once

#include <stdbool.h>

#define UUID_TEXT_MAX 37 /* including the NUL */

/* Makes a random UUID (version 4). Aborts if the kernel has no random bytes. */
void uuid_new(char out[UUID_TEXT_MAX]);

/* Returns -EINVAL if the text is not a UUID. */
int uuid_parse(const char *text, char out[UUID_TEXT_MAX]);

/* Returns true if a UUID in our form can begin with this text, in either case; false for "". */
bool uuid_may_begin(const char *text);
