/*
 * Unguessable names: a prefix for the kind of object, and 64 random bits: "sb_0123456789abcdef". An id can be a file name, a
 * URL segment and a log field without quoting.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ID_PREFIX_MAX 16
#define ID_TEXT_MAX (ID_PREFIX_MAX + 16 + 1)

/* `prefix` is a literal of ours, at most ID_PREFIX_MAX bytes. Aborts if the kernel has no random bytes, which cannot happen
 * since Linux 3.17. */
void id_new(const char *prefix, char out[ID_TEXT_MAX]);

/* Returns true if `s` is exactly the prefix and 16 lower-case hex digits. Check every id that a peer sends before it becomes
 * part of a path. */
bool id_is_valid(const char *prefix, const char *s);

/* Fills `bytes` from the kernel's random generator. Returns 0 or -errno. */
int id_random(void *bytes, size_t len);
