#include "runtime/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/seccomp_program.h"

static int open_program(void)
{
    autofd int fd = memfd_create("seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0)
        return -errno;
    if ((r = fd_pwrite_full(fd, (const char *) seccomp_program, seccomp_program_bytes, 0)) < 0)
        return r;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    return steal_fd(&fd);
}

int seccomp_open_filter(struct err *err)
{
    int fd = open_program();

    return fd < 0 ? err_errno(err, fd, "making the system call filter") : fd;
}
