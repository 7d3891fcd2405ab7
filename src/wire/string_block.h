/*
 * The strings of a command as one block of bytes: a few single ones, its arguments, its environment, each ended by a NUL.
 *
 * A block follows the fixed part of a payload if it fits there; otherwise it comes in a memfd, the frame's last descriptor,
 * sealed so that what was checked stays as it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/writer.h"

#define STRING_BLOCK_BYTES_MAX (4u << 20)
#define STRING_BLOCK_COUNT_MAX 65536 /* arguments and environment together; the kernel refuses so many long before */

/* What a sender makes a block of. All borrowed. */
struct string_block {
    const char *const *heads; /* the single strings, which come first */
    size_t head_count;
    const char *const *argv; /* ended by NULL */
    const char *const *envp; /* ended by NULL */
    uint32_t argc, envc;     /* this and the length in bytes are found by string_block_measure() */
    uint32_t len;
};

/* -E2BIG: more than the limits above. */
int string_block_measure(struct string_block *block);

/* What follows is for a block that was measured. */
void string_block_write(const struct string_block *block, struct writer *writer);

/* A sealed memfd with the block, or -errno. */
int string_block_seal(const struct string_block *block);

/* Whether a sender who keeps to the limits may have announced these. */
bool string_block_is_bounded(uint32_t argc, uint32_t envc, uint32_t len);

/* Whether these are exactly `count` strings, the last one ended where the bytes end. */
bool string_block_is_valid(const char *bytes, size_t len, size_t count);

/* Maps the block from a memfd and checks it. -EINVAL when size or seals are not as they must be, -EPROTO when the strings are
 * not. To be released by string_block_unmap(), which accepts NULL. */
int string_block_map(int fd, size_t len, size_t count, const char **ret_bytes);
void string_block_unmap(const char *bytes, size_t len);

/* Points `count` elements of `room` at the strings from `at` on, and the element behind them at NULL. Returns what follows. */
const char *string_block_point(const char *at, uint32_t count, const char **room);
