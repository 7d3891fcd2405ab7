/*
 * The default limits of a sandbox, all in one place; docs/run.md has them as a table.
 *
 * A requested limit that cannot be enforced is refused. A default limit that cannot be enforced does not apply: 'agentfense
 * inspect' and 'agentfense doctor' report that.
 */
#pragma once

#include <stdint.h>

/* Bytes of changes: 64 GiB, or half of their file system if that is less. */
uint64_t limit_default_disk(const char *dir_path);

/* Names in the delta: a million, or fewer if there is a limit: one for each 8 KiB of a disk limit and for each 512 bytes of
 * a requested memory limit (0: none), but at least 16384. Each name takes disk space beyond its bytes, and some hundred
 * bytes of the supervisor's memory, which the sandbox's memory limit does not cover. This way the supervisor of a sandbox
 * with 64 MiB needs no more than the sandbox itself. */
uint64_t limit_default_files(uint64_t disk_bytes, uint64_t memory_bytes);

/* Three quarters of the machine's memory. 0: unknown. */
uint64_t limit_default_memory(void);
