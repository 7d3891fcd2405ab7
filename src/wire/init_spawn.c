#include "wire/init_spawn.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/init_proto.h"
#include "wire/reader.h"
#include "wire/string_block.h"
#include "wire/writer.h"

/*
 * The payload:
 *
 *     u32 flags, u32 uid, u32 gid, u16 rows, u16 cols
 *     u32 number of limits, each: u32 resource, u64 soft, u64 hard
 *     u32 argc, u32 envc, u32 length of the strings
 *     the strings, unless they are in a memfd
 */

#define RESOURCE_MAX 16

static bool init_spawn_has_flag(const struct init_spawn *spawn, uint32_t flag)
{
    return (spawn->flags & flag) != 0;
}

static bool rlimit_is_valid(const struct init_rlimit *limit)
{
    return limit->resource < RESOURCE_MAX && limit->soft <= limit->hard;
}

/* Encoding and decoding share these checks. */
static bool spawn_is_valid(const struct init_spawn *spawn)
{
    if ((spawn->flags & ~(uint32_t) INIT_SPAWN_ALL) != 0 || spawn->rlimit_count > INIT_SPAWN_RLIMITS_MAX)
        return false;
    if (init_spawn_has_flag(spawn, INIT_SPAWN_USER) ? spawn->uid == UINT32_MAX || spawn->gid == UINT32_MAX
                                                    : spawn->uid || spawn->gid)
        return false;
    for (uint32_t i = 0; i < spawn->rlimit_count; i++)
        if (!rlimit_is_valid(&spawn->rlimits[i]))
            return false;
    return true;
}

static bool fd_count_is_valid(const struct init_spawn *spawn, size_t count)
{
    size_t standard = init_spawn_has_flag(spawn, INIT_SPAWN_TTY) ? 0 : 3, extra = INIT_SPAWN_FDS_MAX - 3;

    return count >= standard && count <= standard + extra;
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

static int measure_command(struct string_block *block, struct init_spawn *spawn)
{
    int r = string_block_measure(block);

    if (r < 0)
        return r;
    spawn->argc = block->argc;
    spawn->envc = block->envc;
    spawn->strings_len = block->len;
    return spawn->argc > 0 ? 0 : -EINVAL;
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
    struct string_block block = { .heads = &command->cwd, .head_count = 1, .argv = command->argv, .envp = command->envp };
    struct init_spawn s = *spawn;
    autofd int fd = -1;
    struct writer w;
    int r;

    s.flags &= ~(uint32_t) INIT_SPAWN_STRINGS_FD;
    if (id == 0 || !spawn_is_valid(&s) || !fd_count_is_valid(&s, command->fd_count))
        return -EINVAL;
    r = measure_command(&block, &s);
    if (r < 0)
        return r;
    if (s.strings_len > FRAME_PAYLOAD_MAX - fixed_len(&s)) {
        fd = string_block_seal(&block);
        if (fd < 0)
            return steal_fd(&fd);
        s.flags |= INIT_SPAWN_STRINGS_FD;
    }
    writer_init(&w, buf, FRAME_PAYLOAD_MAX);
    write_fixed(&w, &s);
    if (fd < 0)
        string_block_write(&block, &w);
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
    if (spawn->argc < 1 || !string_block_is_bounded(spawn->argc, spawn->envc, spawn->strings_len))
        reader_fail(r);
}

static void read_strings(struct reader *r, struct init_spawn *spawn)
{
    if (init_spawn_has_flag(spawn, INIT_SPAWN_STRINGS_FD))
        return;
    spawn->strings = reader_bytes(r, spawn->strings_len);
    if (spawn->strings && !string_block_is_valid(spawn->strings, spawn->strings_len, string_count(spawn)))
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
    if (init_spawn_has_flag(&spawn, INIT_SPAWN_STRINGS_FD) && frame->fd_count == 0)
        return -EPROTO;
    if (!fd_count_is_valid(&spawn, init_spawn_fd_count(&spawn, frame)))
        return -EPROTO;
    *ret = spawn;
    return 0;
}

size_t init_spawn_fd_count(const struct init_spawn *spawn, const struct frame *frame)
{
    return frame->fd_count - (init_spawn_has_flag(spawn, INIT_SPAWN_STRINGS_FD) ? 1 : 0);
}

int init_spawn_map_strings(struct init_spawn *spawn, const struct frame *frame)
{
    if (!init_spawn_has_flag(spawn, INIT_SPAWN_STRINGS_FD))
        return 0;
    return string_block_map(frame->fds[frame->fd_count - 1], spawn->strings_len, string_count(spawn), &spawn->strings);
}

void init_spawn_unmap_strings(struct init_spawn *spawn)
{
    if (init_spawn_has_flag(spawn, INIT_SPAWN_STRINGS_FD))
        string_block_unmap(spawn->strings, spawn->strings_len);
    spawn->strings = NULL;
}

void init_spawn_vectors(const struct init_spawn *spawn, char **room, struct init_vectors *ret)
{
    const char *at = spawn->strings;

    /* execve() declares pointers to char for historical reasons and writes nothing. */
    ret->cwd = (char *) at;
    ret->argv = room;
    ret->envp = room + spawn->argc + 1;
    at = string_block_point(at + strlen(at) + 1, spawn->argc, (const char **) ret->argv);
    string_block_point(at, spawn->envc, (const char **) ret->envp);
}
