#include "supervisor/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "supervisor/sandbox.h"

#define TEMP_NAME "state.new"

/* Atomic, not durable: after a power cut no supervisor lives, whatever this says. */
static int replace(int dir_fd, const char *text, size_t len)
{
    autofd int fd = openat(dir_fd, TEMP_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : fd_write_full(fd, text, len);

    if (r == 0 && renameat(dir_fd, TEMP_NAME, dir_fd, "state") < 0)
        r = -errno;
    return r;
}

void state_file_write(const struct sandbox *sandbox)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r;

    buf_addf(&text, "state %s\npid %d\nstarted_ns %" PRId64 "\n", ctl_state_name(sandbox->state), (int) getpid(),
             sandbox->started_ns);
    if (sandbox->process)
        buf_addf(&text, "init %d\n", (int) sandbox->process->init_pid);
    if (sandbox->mount_point)
        buf_addf(&text, "mount %s\n", sandbox->mount_point);
    if (sandbox->failure.code != ERR_OK)
        buf_addf(&text, "error %s\n", sandbox->failure.text);
    r = replace(sandbox->dir_fd, text.data, text.len);
    if (r < 0)
        log_warn("the state file cannot be written", LOG_ERRNO("error", r));
}
