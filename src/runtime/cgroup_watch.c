#include "runtime/cgroup_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

/* A counter in a file of the cgroup: the open file and the key of its line. */
struct counter {
    int fd; /* owned; -1: no such limit */
    const char *key;
    uint64_t start;
};

struct cgroup_watch {
    int epoll_fd;   /* owned */
    int inotify_fd; /* owned; v2 */
    int event_fd;   /* owned; v1 memory */
    int timer_fd;   /* owned; v1 */
    bool ticks;     /* the timer repeats: v1 pids */
    struct counter memory, pids;
    struct cgroup_hits last;
};

static uint64_t read_count(const struct counter *counter)
{
    char text[1024], *at;
    ssize_t n = counter->fd < 0 ? 0 : pread(counter->fd, text, sizeof(text) - 1, 0);
    size_t len;

    if (n <= 0)
        return 0;
    text[n] = '\0';
    len = strlen(counter->key);
    for (at = text; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, counter->key, len) == 0 && at[len] == ' ')
            return strtoull(at + len + 1, NULL, 10);
    return 0;
}

static int open_counter(struct counter *counter, const struct cgroup_dir *dir, const char *file, const char *key)
{
    autofree char *path = xprintf("%s/%s", dir->path, file);

    counter->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (counter->fd < 0)
        return -errno;
    counter->key = key;
    counter->start = read_count(counter);
    return 0;
}

static int poll_also(struct cgroup_watch *watch, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno != EEXIST ? -errno : 0;
}

static int watch_file(struct cgroup_watch *watch, const struct cgroup_dir *dir, const char *file)
{
    autofree char *path = xprintf("%s/%s", dir->path, file);

    if (watch->inotify_fd < 0)
        watch->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->inotify_fd < 0 || inotify_add_watch(watch->inotify_fd, path, IN_MODIFY) < 0)
        return -errno;
    return poll_also(watch, watch->inotify_fd);
}

/* Schedules the next read of the counters in `after_ms`, and repeats it if pids are watched. */
static int set_timer(struct cgroup_watch *watch, long after_ms)
{
    const struct itimerspec when = { .it_value = { after_ms / 1000, after_ms % 1000 * CLOCK_NS_PER_MS },
                                     .it_interval.tv_sec = watch->ticks ? CGROUP_WATCH_V1_MS / 1000 : 0 };

    if (watch->timer_fd < 0) {
        watch->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (watch->timer_fd < 0 || poll_also(watch, watch->timer_fd) < 0)
            return -errno;
    }
    return timerfd_settime(watch->timer_fd, 0, &when, NULL) < 0 ? -errno : 0;
}

static int watch_memory_v1(struct cgroup_watch *watch, const struct cgroup *cgroup, const struct cgroup_dir *dir)
{
    char text[32];
    int r;

    watch->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->event_fd < 0)
        return -errno;
    snprintf(text, sizeof(text), "%d %d", watch->event_fd, watch->memory.fd);
    r = cgroup_write_file(cgroup->is_fake, dir->path, "cgroup.event_control", text);
    return r < 0 ? r : poll_also(watch, watch->event_fd);
}

static int watch_memory(struct cgroup_watch *watch, const struct cgroup *cgroup)
{
    const struct cgroup_dir *dir = cgroup_get_dir(cgroup, CGROUP_MEMORY);
    int r;

    if (!dir)
        return 0;
    if (dir->version == 1)
        return (r = open_counter(&watch->memory, dir, "memory.oom_control", "oom_kill")) < 0
                   ? r
                   : watch_memory_v1(watch, cgroup, dir);
    r = open_counter(&watch->memory, dir, "memory.events", "oom_kill");
    return r < 0 ? r : watch_file(watch, dir, "memory.events");
}

static int watch_pids(struct cgroup_watch *watch, const struct cgroup *cgroup)
{
    const struct cgroup_dir *dir = cgroup_get_dir(cgroup, CGROUP_PIDS);
    int r;

    if (!dir)
        return 0;
    if ((r = open_counter(&watch->pids, dir, "pids.events", "max")) < 0)
        return r;
    if (dir->version == 2)
        return watch_file(watch, dir, "pids.events");
    watch->ticks = true;
    return set_timer(watch, CGROUP_WATCH_V1_MS);
}

int cgroup_watch_new(const struct cgroup *cgroup, struct cgroup_watch **ret, struct err *err)
{
    autoptr(cgroup_watch) watch = xnew(struct cgroup_watch);
    int r;

    watch->inotify_fd = watch->event_fd = watch->timer_fd = watch->memory.fd = watch->pids.fd = -1;
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (watch->epoll_fd < 0)
        return err_errno(err, -errno, "watching a cgroup");
    if ((r = watch_memory(watch, cgroup)) < 0)
        return err_errno(err, r, "watching the memory of a cgroup");
    if ((r = watch_pids(watch, cgroup)) < 0)
        return err_errno(err, r, "watching the pids of a cgroup");
    *ret = steal_ptr(&watch);
    return 0;
}

void cgroup_watch_free(struct cgroup_watch *watch)
{
    if (!watch)
        return;
    cleanup_fd(&watch->memory.fd);
    cleanup_fd(&watch->pids.fd);
    cleanup_fd(&watch->inotify_fd);
    cleanup_fd(&watch->event_fd);
    cleanup_fd(&watch->timer_fd);
    cleanup_fd(&watch->epoll_fd);
    free(watch);
}

int cgroup_watch_fd(const struct cgroup_watch *watch)
{
    return watch->epoll_fd;
}

/* Returns whether there was anything to read. */
static bool cgroup_watch_drain(int fd)
{
    char bytes[4096];
    bool any = false;

    while (fd >= 0 && read(fd, bytes, sizeof(bytes)) > 0)
        any = true;
    return any;
}

void cgroup_watch_read(struct cgroup_watch *watch, struct cgroup_hits *ret)
{
    bool told_of_memory = cgroup_watch_drain(watch->event_fd);

    cgroup_watch_drain(watch->inotify_fd);
    cgroup_watch_drain(watch->timer_fd);
    ret->memory_kills = read_count(&watch->memory) - watch->memory.start;
    ret->pids_refused = read_count(&watch->pids) - watch->pids.start;
    /* v1 notifies when memory runs out, but counts the kill a moment later. */
    if (told_of_memory && ret->memory_kills == watch->last.memory_kills)
        set_timer(watch, 20);
    watch->last = *ret;
}
