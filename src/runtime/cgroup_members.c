#include "runtime/cgroup_members.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"

#define PROCS_MAX_BYTES (1u << 20)
#define HELD_MAX 64 /* at a time, to use few descriptors */

struct members {
    pid_t *pids; /* owned; sorted */
    size_t count, cap;
};

static int by_number(const void *a, const void *b)
{
    pid_t x = *(const pid_t *) a, y = *(const pid_t *) b;

    return x < y ? -1 : x > y;
}

static void read_members(const char *path, struct members *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char *save, *word;

    *ret = (struct members){ 0 };
    if (file_read_kernel(path, PROCS_MAX_BYTES, &text) < 0 || !text.data)
        return;
    for (word = strtok_r(text.data, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
        vec_room(&ret->pids, &ret->cap, ret->count);
        ret->pids[ret->count++] = (pid_t) strtol(word, NULL, 10);
    }
    if (ret->count > 1)
        qsort(ret->pids, ret->count, sizeof(ret->pids[0]), by_number);
}

static bool cgroup_members_has(const struct members *members, pid_t pid)
{
    return members->count && bsearch(&pid, members->pids, members->count, sizeof(pid), by_number);
}

/* A pidfd was opened for a pid from the list, and the pid is still on the list. So it refers to a member, or to a process
 * that is gone, which a signal does not affect. */
static void kill_some(const char *path, const pid_t *pids, size_t count)
{
    struct members now;
    int fds[HELD_MAX];

    for (size_t i = 0; i < count; i++) /* 0: a process of another pid namespace */
        fds[i] = pids[i] > 0 ? (int) syscall(SYS_pidfd_open, pids[i], 0) : -1;
    read_members(path, &now);
    for (size_t i = 0; i < count; i++) {
        if (fds[i] < 0)
            continue;
        if (cgroup_members_has(&now, pids[i]))
            syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL, 0);
        close(fds[i]);
    }
    free(now.pids);
}

bool cgroup_members_kill(const char *procs_path)
{
    struct members members;

    read_members(procs_path, &members);
    for (size_t i = 0; i < members.count; i += HELD_MAX)
        kill_some(procs_path, members.pids + i, members.count - i < HELD_MAX ? members.count - i : HELD_MAX);
    free(members.pids);
    return members.count > 0;
}
