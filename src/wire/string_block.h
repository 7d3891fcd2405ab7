/*
 * The strings of a command as one block of bytes: a few single strings, its arguments and its environment, each NUL-terminated.
 *
 * A block follows the fixed part of a payload if it fits there. Otherwise it is in a memfd, the frame's last descriptor, which
 * is sealed so that its content cannot change after the check.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/writer.h"

#define STRING_BLOCK_BYTES_MAX (4u << 20)
#define STRING_BLOCK_COUNT_MAX 65536 /* arguments and environment together; the kernel's own limit is far lower */

/* The strings from which a sender makes a block. Everything is borrowed. */
struct string_block {
    const char *const *heads; /* the single strings, which come first */
    size_t head_count;
    const char *const *argv; /* ends with NULL */
    const char *const *envp; /* ends with NULL */
    uint32_t argc, envc;     /* these and `len`, in bytes, are set by string_block_measure() */
    uint32_t len;
};

/* -E2BIG beyond the limits above. */
int string_block_measure(struct string_block *block);

/* The following functions need a measured block. */
void string_block_write(const struct string_block *block, struct writer *writer);

/* Returns a sealed memfd with the block, or -errno. */
int string_block_seal(const struct string_block *block);

/* Returns true if the numbers are within the limits above. */
bool string_block_is_bounded(uint32_t argc, uint32_t envc, uint32_t len);

/* Returns true if the bytes are exactly `count` strings, the last of which ends where the bytes end. */
bool string_block_is_valid(const char *bytes, size_t len, size_t count);

/* Maps the block from a memfd and checks it. -EINVAL if size or seals are wrong, -EPROTO if the strings are.
 * string_block_unmap() releases it and accepts NULL. */
int string_block_map(int fd, size_t len, size_t count, const char **ret_bytes);
void string_block_unmap(const char *bytes, size_t len);

/* Sets `count` elements of `room` to the strings from `at` on and the next element to NULL. Returns the position after these
 * strings. */
const char *string_block_point(const char *at, uint32_t count, const char **room);
