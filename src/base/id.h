/*
 * Names that nobody can guess: a prefix that tells what is named and 64 random bits, "sb_0123456789abcdef". An id is a file
 * name, a URL segment and a log field without any quoting.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ID_PREFIX_MAX 16
#define ID_TEXT_MAX (ID_PREFIX_MAX + 16 + 1)

/* `prefix` is ours, never a peer's: at most ID_PREFIX_MAX bytes. Aborts when the kernel gives no random bytes, as it always
 * does since 3.17: there is no id to go on with. */
void id_new(const char *prefix, char out[ID_TEXT_MAX]);

/* Whether `s` is exactly the prefix and 16 lower-case hex digits. To be asked before an id from a peer becomes a path. */
bool id_is_valid(const char *prefix, const char *s);

/* Fills the bytes from the kernel's generator. 0 or -errno. */
int id_random(void *bytes, size_t len);
