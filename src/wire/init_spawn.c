#include "wire/init_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "wire/init_proto.h"
#include "wire/reader.h"
#include "wire/writer.h"

/*
 * The payload:
 *
 *     u32 flags, u32 uid, u32 gid, u16 rows, u16 cols
 *     u32 number of limits, each: u32 resource, u64 soft, u64 hard
 *     u32 argc, u32 envc, u32 length of the strings
 *     the strings, unless they are in a memfd
 */

/* Nobody can change bytes or size of what carries these, not even the writer of it, and nobody can take them off again. */
#define STRINGS_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

#define RESOURCE_MAX 16

static bool has(const struct init_spawn *spawn, uint32_t flag)
{
    return (spawn->flags & flag) != 0;
}

static bool rlimit_is_valid(const struct init_rlimit *limit)
{
    return limit->resource < RESOURCE_MAX && limit->soft <= limit->hard;
}

/* What both directions check alike. */
static bool spawn_is_valid(const struct init_spawn *spawn)
{
    if ((spawn->flags & ~(uint32_t) INIT_SPAWN_ALL) != 0 || spawn->rlimit_count > INIT_SPAWN_RLIMITS_MAX)
        return false;
    if (has(spawn, INIT_SPAWN_USER) ? spawn->uid == UINT32_MAX || spawn->gid == UINT32_MAX : spawn->uid || spawn->gid)
        return false;
    for (uint32_t i = 0; i < spawn->rlimit_count; i++)
        if (!rlimit_is_valid(&spawn->rlimits[i]))
            return false;
    return true;
}

static bool fd_count_is_valid(const struct init_spawn *spawn, size_t count)
{
    size_t standard = has(spawn, INIT_SPAWN_TTY) ? 0 : 3, extra = INIT_SPAWN_FDS_MAX - 3;

    return count >= standard && count <= standard + extra;
}

/* Exactly `count` strings, the last one ended where the block ends. */
static bool strings_are_valid(const char *strings, size_t len, size_t count)
{
    const char *at = strings, *end = strings + len;
    size_t found = 0;

    if (len == 0 || end[-1] != '\0')
        return false;
    for (; at < end && found <= count; found++)
        at += strlen(at) + 1;
    return at == end && found == count;
}

static size_t string_count(const struct init_spawn *spawn)
{
    return 1 + (size_t) spawn->argc + spawn->envc;
}

static size_t fixed_len(const struct init_spawn *spawn)
{
    return 32 + 20 * (size_t) spawn->rlimit_count;
}

static void write_fixed(struct writer *w, const struct init_spawn *spawn)
{
    writer_u32(w, spawn->flags);
    writer_u32(w, spawn->uid);
    writer_u32(w, spawn->gid);
    writer_u16(w, spawn->rows);
    writer_u16(w, spawn->cols);
    writer_u32(w, spawn->rlimit_count);
    for (uint32_t i = 0; i < spawn->rlimit_count; i++) {
        writer_u32(w, spawn->rlimits[i].resource);
        writer_u64(w, spawn->rlimits[i].soft);
        writer_u64(w, spawn->rlimits[i].hard);
    }
    writer_u32(w, spawn->argc);
    writer_u32(w, spawn->envc);
    writer_u32(w, spawn->strings_len);
}

static void write_strings(struct writer *w, const struct init_command *command)
{
    writer_bytes(w, command->cwd, strlen(command->cwd) + 1);
    for (const char *const *s = command->argv; *s; s++)
        writer_bytes(w, *s, strlen(*s) + 1);
    for (const char *const *s = command->envp; *s; s++)
        writer_bytes(w, *s, strlen(*s) + 1);
}

/* Counts a vector's strings and bytes, and stops counting where both are too many anyway. */
static int measure(const char *const *strings, uint32_t *ret_count, size_t *bytes)
{
    uint32_t count = 0;

    for (; strings[count]; count++) {
        *bytes += strlen(strings[count]) + 1;
        if (count >= INIT_STRINGS_COUNT_MAX || *bytes > INIT_STRINGS_BYTES_MAX)
            return -E2BIG;
    }
    *ret_count = count;
    return 0;
}

static int measure_command(const struct init_command *command, struct init_spawn *spawn)
{
    size_t bytes = strlen(command->cwd) + 1;
    int r;

    r = measure(command->argv, &spawn->argc, &bytes);
    if (r == 0)
        r = measure(command->envp, &spawn->envc, &bytes);
    if (r < 0)
        return r;
    if (bytes > INIT_STRINGS_BYTES_MAX || spawn->argc + spawn->envc > INIT_STRINGS_COUNT_MAX)
        return -E2BIG;
    spawn->strings_len = (uint32_t) bytes;
    return spawn->argc > 0 ? 0 : -EINVAL;
}

/* The strings in a memfd that nobody can change any more. Returns it or -errno. */
static int seal_strings(const struct init_command *command, size_t len)
{
    autofd int fd = memfd_create("agentfense-strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct writer w;
    void *bytes;

    if (fd < 0 || ftruncate(fd, (off_t) len) < 0)
        return -errno;
    bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    writer_init(&w, bytes, len);
    write_strings(&w, command);
    munmap(bytes, len);
    return fcntl(fd, F_ADD_SEALS, STRINGS_SEALS) < 0 ? -errno : steal_fd(&fd);
}

static void borrow_fds(struct frame *frame, const struct init_command *command, int strings_fd)
{
    for (size_t i = 0; i < command->fd_count; i++)
        frame->fds[frame->fd_count++] = command->fds[i];
    if (strings_fd >= 0)
        frame->fds[frame->fd_count++] = strings_fd;
}

int init_spawn_encode(uint64_t id, const struct init_spawn *spawn, const struct init_command *command, void *buf,
                      struct frame *ret, int *ret_fd)
{
    struct init_spawn s = *spawn;
    autofd int fd = -1;
    struct writer w;
    int r;

    s.flags &= ~(uint32_t) INIT_SPAWN_STRINGS_FD;
    if (id == 0 || !spawn_is_valid(&s) || !fd_count_is_valid(&s, command->fd_count))
        return -EINVAL;
    r = measure_command(command, &s);
    if (r < 0)
        return r;
    if (s.strings_len > FRAME_PAYLOAD_MAX - fixed_len(&s)) {
        fd = seal_strings(command, s.strings_len);
        if (fd < 0)
            return steal_fd(&fd);
        s.flags |= INIT_SPAWN_STRINGS_FD;
    }
    writer_init(&w, buf, FRAME_PAYLOAD_MAX);
    write_fixed(&w, &s);
    if (fd < 0)
        write_strings(&w, command);
    *ret = (struct frame){ .id = id, .type = INIT_REQUEST_SPAWN, .payload = buf, .len = w.len };
    borrow_fds(ret, command, fd);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static void read_rlimits(struct reader *r, struct init_spawn *spawn)
{
    spawn->rlimit_count = reader_u32(r);
    if (spawn->rlimit_count > INIT_SPAWN_RLIMITS_MAX) {
        reader_fail(r);
        return;
    }
    for (uint32_t i = 0; i < spawn->rlimit_count; i++) {
        spawn->rlimits[i].resource = reader_u32(r);
        spawn->rlimits[i].soft = reader_u64(r);
        spawn->rlimits[i].hard = reader_u64(r);
    }
}

static void read_counts(struct reader *r, struct init_spawn *spawn)
{
    spawn->argc = reader_u32(r);
    spawn->envc = reader_u32(r);
    spawn->strings_len = reader_u32(r);
    /* Each compared alone first: their sum may wrap. */
    if (spawn->argc < 1 || spawn->argc > INIT_STRINGS_COUNT_MAX || spawn->envc > INIT_STRINGS_COUNT_MAX ||
        spawn->argc + spawn->envc > INIT_STRINGS_COUNT_MAX || spawn->strings_len > INIT_STRINGS_BYTES_MAX)
        reader_fail(r);
}

static void read_strings(struct reader *r, struct init_spawn *spawn)
{
    if (has(spawn, INIT_SPAWN_STRINGS_FD))
        return;
    spawn->strings = reader_bytes(r, spawn->strings_len);
    if (spawn->strings && !strings_are_valid(spawn->strings, spawn->strings_len, string_count(spawn)))
        reader_fail(r);
}

int init_spawn_decode(const struct frame *frame, struct init_spawn *ret)
{
    struct init_spawn spawn = { 0 };
    struct reader r;

    reader_init(&r, frame->payload, frame->len);
    spawn.flags = reader_u32(&r);
    spawn.uid = reader_u32(&r);
    spawn.gid = reader_u32(&r);
    spawn.rows = reader_u16(&r);
    spawn.cols = reader_u16(&r);
    read_rlimits(&r, &spawn);
    read_counts(&r, &spawn);
    read_strings(&r, &spawn);
    if (reader_end(&r) < 0 || !spawn_is_valid(&spawn))
        return -EPROTO;
    if (has(&spawn, INIT_SPAWN_STRINGS_FD) && frame->fd_count == 0)
        return -EPROTO;
    if (!fd_count_is_valid(&spawn, init_spawn_fd_count(&spawn, frame)))
        return -EPROTO;
    *ret = spawn;
    return 0;
}

size_t init_spawn_fd_count(const struct init_spawn *spawn, const struct frame *frame)
{
    return frame->fd_count - (has(spawn, INIT_SPAWN_STRINGS_FD) ? 1 : 0);
}

/* Without the seals the sender could change the strings after they were checked, or cut them short, which is SIGBUS for the
 * reader. Only memfds have seals, so nothing else passes. */
static int check_strings_fd(int fd, size_t len)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & STRINGS_SEALS) != STRINGS_SEALS)
        return -EINVAL;
    if (fstat(fd, &st) < 0)
        return -errno;
    return len > 0 && st.st_size == (off_t) len ? 0 : -EINVAL;
}

int init_spawn_map_strings(struct init_spawn *spawn, const struct frame *frame)
{
    void *bytes;
    int fd, r;

    if (!has(spawn, INIT_SPAWN_STRINGS_FD))
        return 0;
    fd = frame->fds[frame->fd_count - 1];
    r = check_strings_fd(fd, spawn->strings_len);
    if (r < 0)
        return r;
    bytes = mmap(NULL, spawn->strings_len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return -errno;
    spawn->strings = bytes;
    if (strings_are_valid(spawn->strings, spawn->strings_len, string_count(spawn)))
        return 0;
    init_spawn_unmap_strings(spawn);
    return -EPROTO;
}

void init_spawn_unmap_strings(struct init_spawn *spawn)
{
    if (has(spawn, INIT_SPAWN_STRINGS_FD) && spawn->strings)
        munmap((void *) spawn->strings, spawn->strings_len);
    spawn->strings = NULL;
}

/* Points `count` elements of `room` at the strings from `at` on and ends them by NULL. Returns what follows. */
static char *point(char *at, uint32_t count, char **room)
{
    for (uint32_t i = 0; i < count; i++) {
        room[i] = at;
        at += strlen(at) + 1;
    }
    room[count] = NULL;
    return at;
}

void init_spawn_vectors(const struct init_spawn *spawn, char **room, struct init_vectors *ret)
{
    /* exec takes pointers to char for historical reasons and writes nothing. */
    char *at = (char *) spawn->strings;

    ret->cwd = at;
    ret->argv = room;
    ret->envp = room + spawn->argc + 1;
    at = point(at + strlen(at) + 1, spawn->argc, ret->argv);
    point(at, spawn->envc, ret->envp);
}
