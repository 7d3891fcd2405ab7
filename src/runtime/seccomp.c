#include "runtime/seccomp.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/seccomp_program.h"

int seccomp_open_filter(struct err *err)
{
    autofd int fd = fd_memory_file("seccomp", seccomp_program, seccomp_program_bytes);

    if (fd < 0)
        return err_errno(err, fd, "making the system call filter");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_errno(err, -errno, "sealing the system call filter");
    return steal_fd(&fd);
}
