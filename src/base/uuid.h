/*
 * UUIDs as text: "83300d2c-bd63-41e4-853b-58b605352f6b". What we write is lower case with hyphens; what people send us may be upper
 * case, in braces, behind "urn:uuid:" or without hyphens.
 */
#pragma once

#include <stdbool.h>

#define UUID_TEXT_MAX 37 /* with the NUL */

/* A random one, version 4. Aborts when the kernel gives no random bytes. */
void uuid_new(char out[UUID_TEXT_MAX]);

/* -EINVAL for what is none. */
int uuid_parse(const char *text, char out[UUID_TEXT_MAX]);

/* Whether one that we write may begin with the text, in either case; "" begins none. */
bool uuid_may_begin(const char *text);
