/*
 * SPAWN: the request to start a command.
 *
 * Its strings (working directory, arguments, environment, in that order, each NUL-terminated) are one block. They follow in the
 * frame if they fit; otherwise they are in a memfd, the frame's last descriptor, which is sealed so that its content cannot
 * change after the check. The other descriptors become the command's 0, 1, 2, ...; with a terminal 3, 4, ...
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/frame.h"
#include "wire/string_block.h"

#define INIT_STRINGS_BYTES_MAX STRING_BLOCK_BYTES_MAX
#define INIT_STRINGS_COUNT_MAX STRING_BLOCK_COUNT_MAX
#define INIT_SPAWN_RLIMITS_MAX 16
#define INIT_SPAWN_FDS_MAX (FRAME_FDS_MAX - 1) /* one is reserved for the memfd */

enum init_spawn_flag {
    INIT_SPAWN_TTY = 1 << 0,        /* a terminal as 0, 1, 2 and controlling terminal, in a new session */
    INIT_SPAWN_SESSION = 1 << 1,    /* a new session; otherwise only a new process group */
    INIT_SPAWN_USER = 1 << 2,       /* use uid and gid, without supplementary groups; otherwise those of init */
    INIT_SPAWN_STRINGS_FD = 1 << 3, /* set by init_spawn_encode() */
    INIT_SPAWN_ALL = (1 << 4) - 1,
};

struct init_rlimit {
    uint32_t resource;   /* a RLIMIT_* of Linux */
    uint64_t soft, hard; /* UINT64_MAX: unlimited */
};

struct init_spawn {
    uint32_t flags;      /* of enum init_spawn_flag */
    uint32_t uid, gid;   /* never UINT32_MAX, which means "unchanged" to the kernel */
    uint16_t rows, cols; /* size of the terminal */
    uint32_t rlimit_count;
    struct init_rlimit rlimits[INIT_SPAWN_RLIMITS_MAX];
    uint32_t argc; /* at least 1 */
    uint32_t envc;
    uint32_t strings_len;
    const char *strings; /* borrowed from the frame and checked; NULL if they are in the memfd */
};

/* The command that the supervisor wants to run. Everything is borrowed. */
struct init_command {
    const char *cwd;
    /* NULL-terminated, with at least argv[0]; a name without a slash is searched in the PATH of `envp` */
    const char *const *argv;
    const char *const *envp; /* NULL-terminated */
    const int *fds;          /* 3 to INIT_SPAWN_FDS_MAX; with a terminal 0 to INIT_SPAWN_FDS_MAX - 3 */
    size_t fd_count;
};

/* For the supervisor. Uses the fields of `spawn` up to the rlimits. `buf` holds FRAME_PAYLOAD_MAX bytes. `ret_fd` is the memfd
 * or -1; the caller closes it after sending the frame. -E2BIG beyond the limits above; -EINVAL. */
int init_spawn_encode(uint64_t id, const struct init_spawn *spawn, const struct init_command *command, void *buf,
                      struct frame *ret, int *ret_fd);

/* For init: the SPAWN part of init_request_decode(). */
int init_spawn_decode(const struct frame *frame, struct init_spawn *ret);

/* Returns how many of the frame's descriptors belong to the command. */
size_t init_spawn_fd_count(const struct init_spawn *spawn, const struct frame *frame);

/* Maps the strings from their memfd, if they are not in the frame, until init_spawn_unmap_strings(). -EINVAL if size or seals
 * are wrong, -EPROTO if the strings are. */
int init_spawn_map_strings(struct init_spawn *spawn, const struct frame *frame);
void init_spawn_unmap_strings(struct init_spawn *spawn);

/* Sets `cwd`, argv and envp to point into the strings. `room` has argc + envc + 2 elements. */
struct init_vectors {
    char *cwd;
    char **argv;
    char **envp;
};
void init_spawn_vectors(const struct init_spawn *spawn, char **room, struct init_vectors *ret);
