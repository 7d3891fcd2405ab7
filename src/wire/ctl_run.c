#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/ctl_int.h"
#include "wire/string_block.h"

/*
 * The payload:
 *
 *     u32 flags, u32 timeout_ms, u64 output_limit, u16 rows, u16 cols
 *     u32 argc, u32 envc, u32 length of the strings
 *     with CTL_RUN_LIMITS: u64 memory_bytes, cpu_sec, processes, files
 *     the strings, unless they are in a memfd
 */
#define FIXED_LEN 32
#define LIMITS_LEN 32

/* Strings before the arguments: the name of the exec or session; the session of a SESSION_EXEC or the note of a logged exec;
 * the working directory. */
#define HEAD_COUNT 3

static const char *const no_strings[] = { NULL };

static bool ctl_run_has_flag(const struct ctl_run *run, uint32_t flag)
{
    return (run->flags & flag) != 0;
}

bool ctl_type_is_run(enum ctl_request_type type)
{
    return type == CTL_REQUEST_EXEC || type == CTL_REQUEST_SESSION_OPEN || type == CTL_REQUEST_SESSION_EXEC;
}

/* Encoding and decoding share these checks. */

static bool flags_are_valid(enum ctl_request_type type, uint32_t flags)
{
    uint32_t allowed = CTL_RUN_ALL;

    if (type != CTL_REQUEST_EXEC)
        allowed &= ~(uint32_t) (CTL_RUN_TTY | CTL_RUN_STDIN | CTL_RUN_LOGGED | CTL_RUN_LIMITS);
    return (flags & ~allowed) == 0;
}

static bool argc_is_valid(enum ctl_request_type type, uint32_t argc)
{
    if (type == CTL_REQUEST_EXEC)
        return argc >= 1;
    return type == CTL_REQUEST_SESSION_OPEN ? argc <= 1 : argc == 1;
}

static bool names_are_valid(enum ctl_request_type type, uint32_t flags, const char *name, const char *session)
{
    if (strlen(name) >= CTL_NAME_MAX)
        return false;
    if (flags & CTL_RUN_LOGGED)
        return strlen(session) < CTL_NOTE_MAX;
    if (strlen(session) >= CTL_NAME_MAX)
        return false;
    return (session[0] != '\0') == (type == CTL_REQUEST_SESSION_EXEC);
}

static size_t string_count(const struct ctl_run *run)
{
    return HEAD_COUNT + (size_t) run->argc + run->envc;
}

static const struct field fixed_fields[] = {
    FIELD_OF(FIELD_U32, struct ctl_run, flags),
    FIELD_OF(FIELD_U32, struct ctl_run, timeout_ms),
    FIELD_OF(FIELD_U64, struct ctl_run, output_limit),
    FIELD_OF(FIELD_U16, struct ctl_run, rows),
    FIELD_OF(FIELD_U16, struct ctl_run, cols),
    FIELD_OF(FIELD_U32, struct ctl_run, argc),
    FIELD_OF(FIELD_U32, struct ctl_run, envc),
    FIELD_OF(FIELD_U32, struct ctl_run, strings_len),
    { .type = FIELD_END },
};

/* With CTL_RUN_LIMITS. */
static const struct field limit_fields[] = {
    FIELD_OF(FIELD_U64, struct ctl_limits, memory_bytes),
    FIELD_OF(FIELD_U64, struct ctl_limits, cpu_sec),
    FIELD_OF(FIELD_U64, struct ctl_limits, processes),
    FIELD_OF(FIELD_U64, struct ctl_limits, files),
    { .type = FIELD_END },
};

static size_t fixed_len(const struct ctl_run *run)
{
    return FIXED_LEN + (ctl_run_has_flag(run, CTL_RUN_LIMITS) ? LIMITS_LEN : 0);
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* Fills in the fields of `run` that describe the strings. */
static int measure_command(enum ctl_request_type type, struct string_block *block, struct ctl_run *run)
{
    int r = string_block_measure(block);

    if (r < 0)
        return r;
    run->argc = block->argc;
    run->envc = block->envc;
    run->strings_len = block->len;
    return argc_is_valid(type, run->argc) && names_are_valid(type, run->flags, block->heads[0], block->heads[1]) ? 0 : -EINVAL;
}

static void borrow_fds(struct frame *frame, int stdin_fd, int strings_fd)
{
    if (stdin_fd >= 0)
        frame->fds[frame->fd_count++] = stdin_fd;
    if (strings_fd >= 0)
        frame->fds[frame->fd_count++] = strings_fd;
}

int ctl_run_encode(enum ctl_request_type type, uint64_t tag, const struct ctl_run *run, const struct ctl_command *command,
                   int stdin_fd, void *buf, struct frame *ret, int *ret_fd)
{
    const char *heads[HEAD_COUNT] = { or_empty(command->name), or_empty(command->session), or_empty(command->cwd) };
    struct string_block block = { .heads = heads,
                                  .head_count = HEAD_COUNT,
                                  .argv = command->argv ? command->argv : no_strings,
                                  .envp = command->envp ? command->envp : no_strings };
    struct ctl_run m = *run;
    autofd int fd = -1;
    struct writer w;
    int r;

    m.flags &= ~(uint32_t) CTL_RUN_STRINGS_FD;
    if (!ctl_type_is_run(type) || tag == 0 || !flags_are_valid(type, m.flags) ||
        (ctl_run_has_flag(&m, CTL_RUN_STDIN) && stdin_fd < 0))
        return -EINVAL;
    r = measure_command(type, &block, &m);
    if (r < 0)
        return r;
    if (m.strings_len > FRAME_PAYLOAD_MAX - fixed_len(&m)) {
        fd = string_block_seal(&block);
        if (fd < 0)
            return steal_fd(&fd);
        m.flags |= CTL_RUN_STRINGS_FD;
    }
    writer_init(&w, buf, FRAME_PAYLOAD_MAX);
    fields_write(fixed_fields, &m, &w);
    if (ctl_run_has_flag(&m, CTL_RUN_LIMITS))
        fields_write(limit_fields, &m.limits, &w);
    if (fd < 0)
        string_block_write(&block, &w);
    *ret = (struct frame){ .id = tag, .type = (uint16_t) type, .payload = buf, .len = w.len };
    borrow_fds(ret, ctl_run_has_flag(&m, CTL_RUN_STDIN) ? stdin_fd : -1, fd);
    *ret_fd = steal_fd(&fd);
    return 0;
}

/* Expects that the number of strings was already checked. */
static bool strings_are_valid(enum ctl_request_type type, uint32_t flags, const char *strings)
{
    return names_are_valid(type, flags, strings, strings + strlen(strings) + 1);
}

static void read_strings(struct reader *r, enum ctl_request_type type, struct ctl_run *run)
{
    if (ctl_run_has_flag(run, CTL_RUN_STRINGS_FD))
        return;
    run->strings = reader_bytes(r, run->strings_len);
    if (run->strings && (!string_block_is_valid(run->strings, run->strings_len, string_count(run)) ||
                         !strings_are_valid(type, run->flags, run->strings)))
        reader_fail(r);
}

int ctl_run_decode(const struct frame *frame, struct ctl_run *ret)
{
    enum ctl_request_type type = (enum ctl_request_type) frame->type;
    struct ctl_run run = { 0 };
    struct reader r;

    reader_init(&r, frame->payload, frame->len);
    fields_read(fixed_fields, &run, &r);
    if (ctl_run_has_flag(&run, CTL_RUN_LIMITS))
        fields_read(limit_fields, &run.limits, &r);
    if (!flags_are_valid(type, run.flags) || !argc_is_valid(type, run.argc) ||
        !string_block_is_bounded(run.argc, run.envc, run.strings_len))
        reader_fail(&r);
    read_strings(&r, type, &run);
    if (reader_end(&r) < 0 || frame->id == 0)
        return -EPROTO;
    if (frame->fd_count != (size_t) ctl_run_has_flag(&run, CTL_RUN_STDIN) + (size_t) ctl_run_has_flag(&run, CTL_RUN_STRINGS_FD))
        return -EPROTO;
    *ret = run;
    return 0;
}

int ctl_run_map_strings(struct ctl_run *run, const struct frame *frame)
{
    const char *strings;
    int r;

    if (!ctl_run_has_flag(run, CTL_RUN_STRINGS_FD))
        return 0;
    r = string_block_map(frame->fds[frame->fd_count - 1], run->strings_len, string_count(run), &strings);
    if (r < 0)
        return r;
    if (!strings_are_valid((enum ctl_request_type) frame->type, run->flags, strings)) {
        string_block_unmap(strings, run->strings_len);
        return -EPROTO;
    }
    run->strings = strings;
    return 0;
}

void ctl_run_unmap_strings(struct ctl_run *run)
{
    if (ctl_run_has_flag(run, CTL_RUN_STRINGS_FD))
        string_block_unmap(run->strings, run->strings_len);
    run->strings = NULL;
}

void ctl_run_command(const struct ctl_run *run, const char **room, struct ctl_command *ret)
{
    const char **envp = room + run->argc + 1;

    ret->name = run->strings;
    ret->session = ret->name + strlen(ret->name) + 1;
    ret->cwd = ret->session + strlen(ret->session) + 1;
    ret->argv = room;
    ret->envp = envp;
    string_block_point(string_block_point(ret->cwd + strlen(ret->cwd) + 1, run->argc, room), run->envc, envp);
}
