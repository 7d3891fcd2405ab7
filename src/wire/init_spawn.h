/*
 * SPAWN: the request that init start a command.
 *
 * Its strings (working directory, arguments, environment) are one block, each ended by a NUL, in that order. They follow in
 * the frame if they fit; otherwise they come in a memfd, the frame's last descriptor, sealed so that what was checked stays
 * as it was. The descriptors before it become the command's 0, 1, 2, ...; with a terminal they become 3, 4, ...
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"
#include "wire/string_block.h"

#define INIT_STRINGS_BYTES_MAX STRING_BLOCK_BYTES_MAX
#define INIT_STRINGS_COUNT_MAX STRING_BLOCK_COUNT_MAX
#define INIT_SPAWN_RLIMITS_MAX 16
#define INIT_SPAWN_FDS_MAX (FRAME_FDS_MAX - 1) /* one is kept for the memfd */

enum init_spawn_flag {
    INIT_SPAWN_TTY = 1 << 0,        /* a terminal as 0, 1 and 2 and as controlling one; a new session too */
    INIT_SPAWN_SESSION = 1 << 1,    /* a session of its own; otherwise only a process group */
    INIT_SPAWN_USER = 1 << 2,       /* uid and gid hold, and no supplementary groups; otherwise those of init */
    INIT_SPAWN_STRINGS_FD = 1 << 3, /* set by init_spawn_encode() */
    INIT_SPAWN_ALL = (1 << 4) - 1,
};

struct init_rlimit {
    uint32_t resource;   /* RLIMIT_* of Linux */
    uint64_t soft, hard; /* UINT64_MAX: none */
};

struct init_spawn {
    uint32_t flags;      /* of enum init_spawn_flag */
    uint32_t uid, gid;   /* never UINT32_MAX, which the kernel takes for "leave it" */
    uint16_t rows, cols; /* of the terminal */
    uint32_t rlimit_count;
    struct init_rlimit rlimits[INIT_SPAWN_RLIMITS_MAX];
    uint32_t argc; /* at least 1 */
    uint32_t envc;
    uint32_t strings_len;
    const char *strings; /* borrowed from the frame, and checked; NULL when they are in the memfd */
};

/* What the supervisor wants run. All borrowed. */
struct init_command {
    const char *cwd;
    const char *const *argv; /* ended by NULL, at least argv[0]; without a slash it is looked up in the PATH of `envp` */
    const char *const *envp; /* ended by NULL */
    const int *fds;          /* 3 to INIT_SPAWN_FDS_MAX of them; with a terminal from 0 to INIT_SPAWN_FDS_MAX - 3 */
    size_t fd_count;
};

/* The supervisor's side. Of `spawn` the fields up to rlimits count. `buf` holds FRAME_PAYLOAD_MAX bytes. `ret_fd` is the memfd,
 * to be closed by the caller when the frame was sent, or -1. -E2BIG: more than the limits above; -EINVAL. */
int init_spawn_encode(uint64_t id, const struct init_spawn *spawn, const struct init_command *command, void *buf,
                      struct frame *ret, int *ret_fd);

/* init's side: of init_request_decode(). */
int init_spawn_decode(const struct frame *frame, struct init_spawn *ret);

/* How many of the frame's descriptors are the command's. */
size_t init_spawn_fd_count(const struct init_spawn *spawn, const struct frame *frame);

/* Maps the strings from their memfd into `spawn`. -EINVAL when size or seals are not as they must be, -EPROTO when the strings
 * are not. Nothing to do when they came in the frame. The mapping lasts until init_spawn_unmap_strings(). */
int init_spawn_map_strings(struct init_spawn *spawn, const struct frame *frame);
void init_spawn_unmap_strings(struct init_spawn *spawn);

/* Points `cwd`, argv and envp into the strings. `room` has argc + envc + 2 elements. */
struct init_vectors {
    char *cwd;
    char **argv;
    char **envp;
};
void init_spawn_vectors(const struct init_spawn *spawn, char **room, struct init_vectors *ret);
