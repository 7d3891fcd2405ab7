/*
 * What a sandbox may use where nobody said: the one place for these numbers; docs/run.md has them as a table.
 *
 * A limit that was asked for and cannot be enforced is refused. One of these that cannot be enforced does not hold: 'agentfense inspect',
 * 'agentfense ls --json' and 'agentfense doctor' say so.
 */
#pragma once

#include <stdint.h>

/* Bytes of changes: 64 GiB, or half of the file system that holds them where that is less. */
uint64_t limit_default_disk(const char *dir_path);

/* Names in the delta: a million; one for each 8 KiB of a disk limit, and for each 512 bytes of a memory limit that was asked for (0: none was),
 * but never less than 16384. Each takes room on the disk that its bytes do not show, and some hundred bytes of the supervisor, which no limit of
 * the sandbox's memory holds: so the supervisor of one with 64 MiB does not need more than the sandbox. */
uint64_t limit_default_files(uint64_t disk_bytes, uint64_t memory_bytes);

/* Three quarters of the machine's memory. 0: not known. */
uint64_t limit_default_memory(void);
