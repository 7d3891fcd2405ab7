#include "runtime/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "runtime/cgroup_members.h"

#define PLACE_TRIES 1000
#define WAIT_MS 3000
/* Every process must be scheduled once before it freezes, which takes a while on a loaded machine. */
#define FREEZE_WAIT_MS 8000
#define FREEZE_AGAIN_MS 500
#define PROCS_MAX_BYTES (1 << 20)

static int cgroup_write(const struct cgroup *cgroup, const struct cgroup_dir *dir, const char *name, const char *text)
{
    return cgroup_write_file(cgroup->is_fake, dir->path, name, text);
}

static int put_number(const struct cgroup *cgroup, const struct cgroup_dir *dir, const char *name, uint64_t number)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return cgroup_write(cgroup, dir, name, text);
}

static int cgroup_read(const struct cgroup_dir *dir, const char *name, struct buf *out)
{
    autofree char *path = xprintf("%s/%s", dir->path, name);

    return file_read_kernel(path, PROCS_MAX_BYTES, out);
}

/* Without a swap limit, a memory limit only moves the problem to the disk. If the kernel does not count swap, the file does
 * not exist. */
static int limit_memory(const struct cgroup *cgroup, const struct cgroup_dir *dir, uint64_t size_bytes)
{
    int r;

    if (dir->version == 1) {
        r = put_number(cgroup, dir, "memory.limit_in_bytes", size_bytes);
        if (r == 0)
            r = put_number(cgroup, dir, "memory.memsw.limit_in_bytes", size_bytes);
        return r == -ENOENT ? 0 : r;
    }
    if ((r = put_number(cgroup, dir, "memory.max", size_bytes)) < 0)
        return r;
    r = cgroup_write(cgroup, dir, "memory.swap.max", "0");
    if (r < 0 && r != -ENOENT)
        return r;
    /* The kernel kills one process, not all, and the sandbox survives. */
    r = cgroup_write(cgroup, dir, "memory.oom.group", "0");
    return r == -ENOENT ? 0 : r;
}

/* Converts v1's shares, 2..262144 around 1024, to v2's weight, 1..10000 around 100, by the formula of container runtimes. */
static uint64_t weight_of_shares(uint32_t shares)
{
    return 1 + ((uint64_t) (shares - 2) * 9999) / 262142;
}

static int limit_cpu(const struct cgroup *cgroup, const struct cgroup_dir *dir, const struct runtime_limits *limits)
{
    char text[64];
    int r = 0;

    if (limits->cpu_quota_us && dir->version == 1) {
        if ((r = put_number(cgroup, dir, "cpu.cfs_period_us", RUNTIME_CPU_PERIOD_US)) < 0 ||
            (r = put_number(cgroup, dir, "cpu.cfs_quota_us", limits->cpu_quota_us)) < 0)
            return r;
    } else if (limits->cpu_quota_us) {
        snprintf(text, sizeof(text), "%u %d", limits->cpu_quota_us, RUNTIME_CPU_PERIOD_US);
        if ((r = cgroup_write(cgroup, dir, "cpu.max", text)) < 0)
            return r;
    }
    if (limits->cpu_shares && dir->version == 1)
        r = put_number(cgroup, dir, "cpu.shares", limits->cpu_shares);
    else if (limits->cpu_shares)
        r = put_number(cgroup, dir, "cpu.weight", weight_of_shares(limits->cpu_shares));
    return r;
}

static int set_limits(const struct cgroup *cgroup, const struct runtime_limits *limits, uint32_t pids, struct err *err)
{
    for (size_t i = 0; i < cgroup->count; i++) {
        const struct cgroup_dir *dir = &cgroup->dirs[i];
        int r = 0;

        if (dir->controllers & CGROUP_MEMORY && (r = limit_memory(cgroup, dir, limits->memory_bytes)) < 0)
            return err_errno(err, r, "setting the memory limit");
        if (dir->controllers & CGROUP_CPU && (r = limit_cpu(cgroup, dir, limits)) < 0)
            return err_errno(err, r, "setting the cpu limit");
        if (dir->controllers & CGROUP_PIDS && (r = put_number(cgroup, dir, "pids.max", pids)) < 0)
            return err_errno(err, r, "setting the pids limit");
    }
    return 0;
}

static void add_dir(struct cgroup *cgroup, const struct cgroup_hierarchy *hierarchy, const char *name, unsigned controllers)
{
    if (cgroup->count == CGROUP_DIRS_MAX)
        return;
    cgroup->dirs[cgroup->count++] = (struct cgroup_dir){ .version = hierarchy->version,
                                                         .controllers = controllers & hierarchy->controllers,
                                                         .path = xprintf("%s/%s", hierarchy->parent, name),
                                                         .parent = xdup(hierarchy->parent) };
}

static int check_enforceable(const struct cgroup_tree *tree, unsigned wanted, struct err *err)
{
    for (unsigned bit = 1; bit & CGROUP_ALL; bit <<= 1) {
        const char *reason;

        if (wanted & bit && bit != CGROUP_FREEZER && !cgroup_tree_find(tree, bit, &reason))
            return err_set(err, ERR_FAILED_PRECONDITION, -ENOTSUP, "a %s limit cannot be enforced here: %s",
                           cgroup_controller_name(bit), reason);
    }
    return 0;
}

/* The last sandbox removes the shared parent directory (cgroup_remove()), perhaps just after the next one has made it. */
static int make_cgroup_dir(const struct cgroup_tree *tree, const struct cgroup_hierarchy *h, const char *path, struct err *err)
{
    struct err why = ERR_NONE;
    int r = -ENOENT;

    for (int i = 0; i < PLACE_TRIES && r == -ENOENT; i++) {
        why = ERR_NONE;
        r = cgroup_tree_prepare(tree, h, &why);
        if (r == 0 && mkdir(path, 0755) < 0)
            r = err_errno(&why, -errno, "making the cgroup '%s'", path);
    }
    if (r < 0 && err)
        *err = why;
    return r;
}

static int make_cgroup_dirs(const struct cgroup_tree *tree, struct cgroup *cgroup, const char *name, unsigned wanted,
                            struct err *err)
{
    for (size_t i = 0; i < tree->count; i++) {
        const struct cgroup_hierarchy *h = &tree->items[i];
        autofree char *path = xprintf("%s/%s", h->parent, name);
        int r;

        /* Freezing is optional, and one hierarchy that can freeze is enough. */
        if (!h->writable || !(h->controllers & wanted))
            continue;
        if ((r = make_cgroup_dir(tree, h, path, err)) < 0)
            return r;
        add_dir(cgroup, h, name, wanted);
        wanted &= ~h->controllers;
    }
    return 0;
}

int cgroup_new(const struct cgroup_tree *tree, const char *name, const struct runtime_limits *limits, uint32_t pids,
               struct cgroup **ret, struct err *err)
{
    autoptr(cgroup) cgroup = xnew(struct cgroup);
    unsigned wanted = CGROUP_FREEZER;
    int r;

    cgroup->is_fake = tree->is_fake;
    wanted |= limits->memory_bytes ? CGROUP_MEMORY : 0;
    wanted |= limits->cpu_quota_us || limits->cpu_shares ? CGROUP_CPU : 0;
    wanted |= pids ? CGROUP_PIDS : 0;
    if ((r = check_enforceable(tree, wanted, err)) < 0)
        return r;
    r = make_cgroup_dirs(tree, cgroup, name, wanted, err);
    if (r == 0)
        r = set_limits(cgroup, limits, pids, err);
    if (r < 0) {
        cgroup_remove(cgroup);
        return r;
    }
    *ret = steal_ptr(&cgroup);
    return 0;
}

int cgroup_find(const struct cgroup_tree *tree, const char *name, struct cgroup **ret)
{
    autoptr(cgroup) cgroup = xnew(struct cgroup);

    cgroup->is_fake = tree->is_fake;
    for (size_t i = 0; i < tree->count; i++) {
        autofree char *path = xprintf("%s/%s", tree->items[i].parent, name);

        if (access(path, F_OK) == 0)
            add_dir(cgroup, &tree->items[i], name, CGROUP_ALL);
    }
    if (cgroup->count == 0)
        return -ENOENT;
    *ret = steal_ptr(&cgroup);
    return 0;
}

void cgroup_free(struct cgroup *cgroup)
{
    if (!cgroup)
        return;
    for (size_t i = 0; i < cgroup->count; i++) {
        free(cgroup->dirs[i].path);
        free(cgroup->dirs[i].parent);
    }
    free(cgroup);
}

const struct cgroup_dir *cgroup_get_dir(const struct cgroup *cgroup, unsigned controller)
{
    for (size_t i = 0; i < cgroup->count; i++)
        if (cgroup->dirs[i].controllers & controller)
            return &cgroup->dirs[i];
    return NULL;
}

/* Since Linux 5.5 a thread that moves itself does not take the lock that all forks of the machine share. Moving another
 * process takes it and waits until every CPU has noticed. */
int cgroup_open_procs(const struct cgroup *cgroup, int ret_fds[CGROUP_DIRS_MAX])
{
    int count = 0;

    for (size_t i = 0; i < cgroup->count; i++) {
        autofree char *path = xprintf("%s/tasks", cgroup->dirs[i].path);

        if (cgroup->dirs[i].version != 1)
            continue;
        ret_fds[count] = open(path, O_WRONLY | O_CLOEXEC);
        if (ret_fds[count] < 0) {
            int r = -errno;

            while (count > 0)
                close(ret_fds[--count]);
            return r;
        }
        count++;
    }
    return count;
}

int cgroup_attach(struct cgroup *cgroup, pid_t pid, struct err *err)
{
    for (size_t i = 0; i < cgroup->count; i++) {
        int r = put_number(cgroup, &cgroup->dirs[i], "cgroup.procs", (uint64_t) pid);

        if (r < 0)
            return err_errno(err, r, "moving process %d into the cgroup '%s'", pid, cgroup->dirs[i].path);
    }
    return 0;
}

/* Tells whether the file contains "key value" or, if `key` is NULL, begins with the value. */
static bool cgroup_file_has(const struct cgroup_dir *dir, const char *file, const char *key, const char *value)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char *at;

    if (cgroup_read(dir, file, &text) < 0 || !text.data)
        return false;
    at = key ? strstr(text.data, key) : text.data;
    return at && strncmp(at + (key ? strlen(key) : 0), value, strlen(value)) == 0;
}

static int put_frozen(struct cgroup *cgroup, const struct cgroup_dir *dir, bool on)
{
    return dir->version == 2 ? cgroup_write(cgroup, dir, "cgroup.freeze", on ? "1" : "0")
                             : cgroup_write(cgroup, dir, "freezer.state", on ? "FROZEN" : "THAWED");
}

static bool is_frozen(const struct cgroup_dir *dir, bool on)
{
    return dir->version == 2 ? cgroup_file_has(dir, "cgroup.events", "frozen ", on ? "1" : "0")
                             : cgroup_file_has(dir, "freezer.state", NULL, on ? "FROZEN" : "THAWED");
}

/* cgroup v1 can get stuck in FREEZING if a process forks, or waits for a frozen one. Thawing and freezing again resolves
 * that. */
int cgroup_freeze(struct cgroup *cgroup, bool on)
{
    const struct cgroup_dir *dir = cgroup_get_dir(cgroup, CGROUP_FREEZER);
    int64_t begin_ns = clock_now_ns();
    int64_t again_ns = begin_ns + FREEZE_AGAIN_MS * CLOCK_NS_PER_MS;
    int r;

    if (!dir)
        return -ENOTSUP;
    r = put_frozen(cgroup, dir, on);
    if (r < 0 || cgroup->is_fake)
        return r;
    while (!is_frozen(dir, on)) {
        int64_t now_ns = clock_now_ns();

        if (now_ns > begin_ns + FREEZE_WAIT_MS * CLOCK_NS_PER_MS)
            return -ETIMEDOUT;
        if (on && dir->version == 1 && now_ns > again_ns) {
            again_ns = now_ns + FREEZE_AGAIN_MS * CLOCK_NS_PER_MS;
            put_frozen(cgroup, dir, false);
            r = put_frozen(cgroup, dir, true);
            if (r < 0)
                return r;
        }
        poll(NULL, 0, 1);
    }
    return 0;
}

/* Checks all directories: a process is in all of them, but one that was attached only partly is found too. Repeated killing
 * defeats a fork bomb, because the pids limit bounds it. */
int cgroup_kill(struct cgroup *cgroup)
{
    int64_t deadline_ns = clock_now_ns() + WAIT_MS * CLOCK_NS_PER_MS;

    if (cgroup->is_fake)
        return cgroup->count ? cgroup_write(cgroup, &cgroup->dirs[0], "cgroup.kill", "1") : 0;
    for (size_t i = 0; i < cgroup->count; i++) {
        const struct cgroup_dir *dir = &cgroup->dirs[i];

        if (dir->version == 2)
            cgroup_write(cgroup, dir, "cgroup.kill", "1");
        if (dir->version == 1 && dir->controllers & CGROUP_FREEZER)
            cgroup_write(cgroup, dir, "freezer.state", "THAWED");
        autofree char *procs = xprintf("%s/cgroup.procs", dir->path);
        while (cgroup_members_kill(procs)) {
            if (clock_now_ns() > deadline_ns)
                return -ETIMEDOUT;
            poll(NULL, 0, 1);
        }
    }
    return 0;
}

static int remove_directory(const struct cgroup *cgroup, const char *path)
{
    if (cgroup->is_fake) {
        autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        return file_remove_tree(root, path + 1);
    }
    return rmdir(path) < 0 && errno != ENOENT ? -errno : 0;
}

int cgroup_remove(struct cgroup *cgroup)
{
    int64_t deadline_ns = clock_now_ns() + WAIT_MS * CLOCK_NS_PER_MS;
    int result = 0;

    for (size_t i = 0; i < cgroup->count; i++) {
        int r, wait_ms = 1;

        while ((r = remove_directory(cgroup, cgroup->dirs[i].path)) == -EBUSY && clock_now_ns() < deadline_ns) {
            poll(NULL, 0, wait_ms);
            wait_ms = wait_ms < 50 ? wait_ms * 2 : 50;
        }
        if (r < 0 && result == 0)
            result = r;
        /* Removes the shared parent with the last sandbox; fails while there are others. */
        rmdir(cgroup->dirs[i].parent);
    }
    return result;
}

/* /proc shows paths relative to our own view of the hierarchy. Whether the path is right shows in the cgroup's members. */
static bool has_process(const struct cgroup_dir *dir, pid_t pid)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char line[32];
    const char *at;

    snprintf(line, sizeof(line), "%d\n", (int) pid);
    if (cgroup_read(dir, "cgroup.procs", &text) < 0 || text.len == 0)
        return false;
    at = strstr(text.data, line);
    while (at && at != text.data && at[-1] != '\n')
        at = strstr(at + 1, line);
    return at != NULL;
}

int cgroup_of_process(pid_t pid, unsigned controllers, struct cgroup **ret, struct err *err)
{
    autofree char *self = xprintf("/proc/%d/cgroup", (int) pid);
    const struct cgroup_sources sources = { "/proc/self/mountinfo", self, false, false };
    autoptr(cgroup_tree) tree = NULL;
    autoptr(cgroup) cgroup = xnew(struct cgroup);
    int r = cgroup_tree_new(&sources, &tree, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < tree->count && cgroup->count < CGROUP_DIRS_MAX; i++) {
        const struct cgroup_hierarchy *h = &tree->items[i];
        struct cgroup_dir dir = { .version = h->version, .controllers = h->controllers & controllers, .path = h->base };

        if (dir.controllers == 0 || !has_process(&dir, pid))
            continue;
        dir.path = xdup(h->base);
        dir.parent = xdup("");
        cgroup->dirs[cgroup->count++] = dir;
    }
    if (cgroup->count == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "the cgroup of process %d is not to be seen from here", (int) pid);
    *ret = steal_ptr(&cgroup);
    return 0;
}
