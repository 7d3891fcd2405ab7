#include "supervisor/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/boot_prepare.h"
#include "supervisor/limit_default.h"
#include "supervisor/sandbox.h"

#define TEMP_NAME "state.new"

/* Atomic but not durable: after a power failure no supervisor runs, whatever the file says. */
static int state_file_replace(int dir_fd, const char *text, size_t len)
{
    autofd int fd = openat(dir_fd, TEMP_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_full(fd, text, len);

    if (r == 0 && renameat(dir_fd, TEMP_NAME, dir_fd, "state") < 0)
        r = -errno;
    return r;
}

/* Without `reason` the limit is enforced. sandbox/limit_report.h reads these lines. */
static void add_limit(struct buf *text, const char *name, uint64_t value, bool is_asked, const char *reason)
{
    if (value)
        buf_addf(text, "limit %s %" PRIu64 " %s%s%s\n", name, value, is_asked ? "asked" : "default", reason ? " " : "",
                 reason ? reason : "");
}

/* Only the fence enforces these. */
static void add_file_limits(struct buf *text, const struct sandbox *sandbox)
{
    const struct sandbox_spec *spec = sandbox->spec;
    struct fence_server_limits held = { 0 };
    const char *reason = sandbox->fence_server ? NULL : "only the fence counts changes";

    if (sandbox->fence_server)
        held = fence_server_limits(sandbox->fence_server);
    else
        fence_server_choose_limits(spec, sandbox->dir_path, &held);
    add_limit(text, "disk", held.bytes, spec->quota_bytes, reason);
    add_limit(text, "files", held.files, spec->quota_inodes, reason);
}

static void add_limits(struct buf *text, const struct sandbox *sandbox)
{
    const struct runtime_limits *held = &sandbox->process->limits;
    const struct sandbox_spec *spec = sandbox->spec;

    if (held->memory_bytes)
        add_limit(text, "memory", held->memory_bytes, spec->memory_bytes, NULL);
    else
        add_limit(text, "memory", limit_default_memory(), false,
                  sandbox_spec_is_container(spec) ? "the memory of a container is its engine's"
                                                  : "no cgroup for memory is ours");
    add_limit(text, "cpu_quota", held->cpu_quota_us, true, NULL);
    add_limit(text, "cpu_shares", held->cpu_shares, true, NULL);
    add_limit(text, "pids", held->pids ? held->pids : RUNTIME_PIDS_DEFAULT, spec->pids,
              held->pids ? NULL : "no cgroup for processes is ours, and before Linux 5.14 nothing else holds them");
    add_file_limits(text, sandbox);
}

void state_file_write(const struct sandbox *sandbox)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    buf_addf(&text, "state %s\npid %d\nstarted_ns %" PRId64 "\n", ctl_state_name(sandbox->state), (int) getpid(),
             sandbox->started_ns);
    if (sandbox->process)
        buf_addf(&text, "init %d\n", (int) sandbox->process->init_pid);
    if (sandbox->process)
        add_limits(&text, sandbox);
    if (sandbox->mount_point)
        buf_addf(&text, "mount %s\n", sandbox->mount_point);
    if (sandbox->failure.code != ERR_OK)
        buf_addf(&text, "error %s\n", sandbox->failure.text);
    r = state_file_replace(sandbox->dir_fd, text.data, text.len);
    if (r < 0)
        log_warn("the state file cannot be written", LOG_ERRNO("error", r));
}
