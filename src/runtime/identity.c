#include "runtime/identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/id.h"

/* Maps `id` to the user namespace above ours. Returns it unchanged if the map is unreadable or has no line for it. */
static unsigned long outer_id(const char *map, unsigned long id)
{
    autofile FILE *f = fopen(map, "re");
    unsigned long inside, outside, count;

    while (f && fscanf(f, "%lu %lu %lu", &inside, &outside, &count) == 3)
        if (id >= inside && id - inside < count)
            return outside + (id - inside);
    return id;
}

/* A user namespace of an ordinary user never maps the root above it, so one level is enough. */
static bool is_root_outside(uid_t uid, gid_t gid)
{
    return outer_id("/proc/self/uid_map", uid) == 0 || outer_id("/proc/self/gid_map", gid) == 0;
}

bool identity_is_host_root(void)
{
    return geteuid() == 0 && outer_id("/proc/self/uid_map", 0) == 0;
}

int identity_check(uid_t uid, gid_t gid, struct err *err)
{
    if (uid == (uid_t) -1 || gid == (gid_t) -1)
        return err_invalid(err, "%u:%u is no user and group", uid, gid);
    if (is_root_outside(uid, gid))
        return err_invalid(err, "commands never run as root or in its group; give the sandbox a user of its own");
    if (geteuid() != 0 && (uid != geteuid() || gid != getegid()))
        return err_set(err, ERR_PERMISSION_DENIED, -EPERM, "only root can start a sandbox as another user (%u)", uid);
    return 0;
}

/* A directory in /proc belongs to the process's user. init's belongs to root because init is not dumpable, but the bwrap
 * that waits for it is visible. Without /proc the lock alone must do. */
static bool has_processes(uid_t uid)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    struct stat st;
    bool found = false;

    while (dir && !found && (entry = readdir(dir)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            found = fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid;
    if (dir)
        closedir(dir);
    return found;
}

/* Only a holder that did not release the uid can have left processes. Checking this avoids a scan of /proc. */
static bool may_have_processes(int lock_fd)
{
    struct stat st;

    return fstat(lock_fd, &st) < 0 || st.st_size > 0;
}

/* Returns the lock's descriptor; -EWOULDBLOCK if another process holds it. */
static int lock_uid(int lock_dir, uid_t uid)
{
    char name[16];

    snprintf(name, sizeof(name), "%u", uid);
    autofd int fd = openat(lock_dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    return steal_fd(&fd);
}

/* Starts at a random uid, so that a thousand supervisors starting at once do not all try the same first one. */
static int allocate_from_range(int lock_dir, uid_t first, unsigned count, struct identity *ret, struct err *err)
{
    uint32_t start = 0;

    id_random(&start, sizeof(start));
    for (unsigned i = 0; i < count; i++) {
        uid_t uid = first + (uid_t) (((uint64_t) start + i) % count);
        autofd int fd = lock_uid(lock_dir, uid);

        if (fd < 0 && fd != -EWOULDBLOCK)
            return err_errno(err, fd, "locking the user %u", uid);
        if (fd < 0 || (may_have_processes(fd) && has_processes(uid)))
            continue;
        if (pwrite(fd, "1", 1, 0) != 1)
            return err_errno(err, -errno, "noting that the user %u is taken", uid);
        *ret = (struct identity){ .uid = uid, .gid = uid, .lock_fd = steal_fd(&fd) };
        return 0;
    }
    return err_set(err, ERR_RESOURCE_EXHAUSTED, -EUSERS, "all %u users from %u on are taken by other sandboxes", count, first);
}

int identity_allocate(int lock_dir, uid_t first, unsigned count, struct identity *ret, struct err *err)
{
    if (!identity_is_host_root()) {
        *ret = (struct identity){ .uid = geteuid(), .gid = getegid(), .lock_fd = -1 };
        return 0;
    }
    if (first == 0 || count == 0 || (uint64_t) first + count > UINT32_MAX)
        return err_invalid(err, "the range of users %u+%u is empty, has root in it or leaves 32 bits", first, count);
    return allocate_from_range(lock_dir, first, count, ret, err);
}

void identity_done(struct identity *identity)
{
    /* A failure only causes an unnecessary scan of /proc. */
    if (identity->lock_fd >= 0 && ftruncate(identity->lock_fd, 0) < 0)
        errno = 0;
    cleanup_fd(&identity->lock_fd);
    *identity = IDENTITY_NONE;
}
