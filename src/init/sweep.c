#include "init/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/cleanup.h"

#define PROC_MAGIC 0x9fa0
#define PATH_ROOM 64
#define STAT_ROOM 512 /* for the first 22 fields at their maximum length */

/* A breadth-first walk. */
struct sweep {
    int proc_fd;
    int signal;
    enum sweep_order order;
    sweep_fn judge;
    void *cookie;
    size_t count;
    pid_t found[SWEEP_MAX];
};

/* The entries of getdents64(2). */
struct proc_dirent {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

/* Appends a text or a number to a path with enough room. */
static char *put_text(char *at, const char *text)
{
    size_t len = strlen(text);

    memcpy(at, text, len + 1);
    return at + len;
}

static char *put_number(char *at, pid_t number)
{
    char digits[12], *d = digits + sizeof(digits) - 1;

    *d = '\0';
    do
        *--d = (char) ('0' + number % 10);
    while ((number /= 10) > 0);
    return put_text(at, d);
}

static void sweep_visit_process(struct sweep *sweep, pid_t pid)
{
    enum sweep_verdict verdict = sweep->judge(pid, sweep->cookie);

    if (verdict == SWEEP_LEAVE_OUT || sweep->count == SWEEP_MAX)
        return;
    if (verdict == SWEEP_SIGNAL && sweep->order == SWEEP_AT_ONCE)
        kill(pid, sweep->signal);
    sweep->found[sweep->count++] = pid;
}

/* The file has numbers, each followed by a space. The end of a read may split one. */
static void read_children(struct sweep *sweep, const char *path)
{
    autofd int fd = openat(sweep->proc_fd, path, O_RDONLY | O_CLOEXEC);
    char text[1024];
    pid_t pid = 0;
    ssize_t n;

    if (fd < 0)
        return;
    while ((n = read(fd, text, sizeof(text))) > 0 && sweep->count < SWEEP_MAX) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else if (pid > 0) {
                sweep_visit_process(sweep, pid);
                pid = 0;
            }
        }
    }
}

static void visit_threads(struct sweep *sweep, char path[PATH_ROOM], char *end, const char *batch, long len)
{
    for (long at = 0; at < len;) {
        const struct proc_dirent *entry = (const struct proc_dirent *) (batch + at);

        at += entry->reclen;
        if (entry->name[0] < '0' || entry->name[0] > '9')
            continue;
        put_text(put_text(put_text(end, "/"), entry->name), "/children");
        read_children(sweep, path);
    }
}

/* Each thread has its own list of children. */
static void sweep_visit_tasks(struct sweep *sweep, pid_t pid)
{
    _Alignas(struct proc_dirent) char batch[1024];
    char path[PATH_ROOM], *end = put_text(put_number(path, pid), "/task");
    autofd int fd = openat(sweep->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;

    if (fd < 0)
        return;
    while ((n = syscall(SYS_getdents64, fd, batch, sizeof(batch))) > 0)
        visit_threads(sweep, path, end, batch, n);
}

static void signal_found(const struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->count; i++)
        if (sweep->judge(sweep->found[i], sweep->cookie) == SWEEP_SIGNAL)
            kill(sweep->found[i], sweep->signal);
}

int sweep_below(int proc_fd, pid_t root, int signal, enum sweep_order order, sweep_fn judge, void *cookie)
{
    static struct sweep sweep; /* too large for a stack */

    sweep.proc_fd = proc_fd;
    sweep.signal = signal;
    sweep.order = order;
    sweep.judge = judge;
    sweep.cookie = cookie;
    sweep.count = 0;
    sweep_visit_tasks(&sweep, root);
    for (size_t i = 0; i < sweep.count; i++)
        sweep_visit_tasks(&sweep, sweep.found[i]);
    if (order == SWEEP_TOGETHER)
        signal_found(&sweep);
    return (int) sweep.count;
}

/* Returns the part of /proc/<pid>/stat after the name, beginning with the state; NULL if the process does not exist. The
 * name may contain anything, even parentheses, but numbers follow it. */
static const char *read_stat(int proc_fd, pid_t pid, char text[STAT_ROOM])
{
    char path[PATH_ROOM], *end;
    autofd int fd = -1;
    ssize_t n;

    put_text(put_number(path, pid), "/stat");
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, STAT_ROOM - 1);
    if (n <= 0)
        return NULL;
    text[n] = '\0';
    end = strrchr(text, ')');
    return end && end[1] == ' ' ? end + 2 : NULL;
}

bool sweep_is_stopped(int proc_fd, pid_t pid)
{
    char text[STAT_ROOM];
    const char *state = read_stat(proc_fd, pid, text);

    return state && *state == 'T';
}

bool sweep_is_ended(int proc_fd, pid_t pid)
{
    char text[STAT_ROOM];
    const char *state = read_stat(proc_fd, pid, text);

    return !state || *state == 'Z' || *state == 'X';
}

uint64_t sweep_start_ticks(int proc_fd, pid_t pid)
{
    char text[STAT_ROOM];
    const char *at = read_stat(proc_fd, pid, text);
    uint64_t ticks = 0;

    /* Field 22 is the start time; the state is field 3. */
    for (int field = 3; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    for (; at && *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + (uint64_t) (*at - '0');
    return ticks;
}

/* A procfs of another pid namespace would show pids that mean other processes here. */
static bool shows_us(int proc_fd)
{
    char link[32], us[32];
    ssize_t n = readlinkat(proc_fd, "self", link, sizeof(link) - 1);

    if (n < 0)
        return false;
    link[n] = '\0';
    put_number(us, getpid());
    return strcmp(link, us) == 0;
}

/* The kernel may lack these files (CONFIG_PROC_CHILDREN). */
static bool shows_children(int proc_fd)
{
    char path[PATH_ROOM];

    put_text(put_number(put_text(path, "self/task/"), getpid()), "/children");
    return faccessat(proc_fd, path, R_OK, 0) == 0;
}

int sweep_open_proc(void)
{
    autofd int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct statfs fs;

    if (fd < 0 || fstatfs(fd, &fs) < 0)
        return -errno;
    if (fs.f_type != PROC_MAGIC || !shows_us(fd) || !shows_children(fd))
        return -ENOENT;
    return steal_fd(&fd);
}
