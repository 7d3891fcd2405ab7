#include "fence/caller_syscall.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

#define FIRST_PAUSE_NS (20 * 1000LL)

/* The kernel generates the text when the file is read from its beginning. */
static bool read_proc_file(int fd, char *text, size_t size)
{
    ssize_t n = pread(fd, text, size - 1, 0);

    if (n <= 0)
        return false;
    text[n] = 0;
    return true;
}

bool caller_syscall_get(pid_t thread, struct caller_syscall *ret)
{
    char path[48], text[256];

    snprintf(path, sizeof(path), "/proc/%d/syscall", (int) thread);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !read_proc_file(fd, text, sizeof(text)))
        return false;
    int64_t pause_ns = FIRST_PAUSE_NS;
    for (int64_t waited_ns = 0; strncmp(text, "running", strlen("running")) == 0 && waited_ns < CALLER_SYSCALL_WAIT_NS;
         waited_ns += pause_ns, pause_ns *= 2) {
        nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
        if (!read_proc_file(fd, text, sizeof(text)))
            return false;
    }
    unsigned long *args = ret->args;
    return sscanf(text, "%ld %lx %lx %lx %lx %lx %lx", &ret->number, &args[0], &args[1], &args[2], &args[3], &args[4],
                  &args[5]) == 7;
}
