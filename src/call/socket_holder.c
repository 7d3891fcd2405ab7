#include "call/socket_holder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/directory.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"

#define STATUS_MAX (1 << 20) /* it lists all groups of the process */
#define MOUNTS_MAX (1 << 20)
#define FD_TABLE_MAX 65536  /* of a process whose descriptors we try one by one */
#define UNREADABLE_TRIES 25 /* half a second in total, for a sandbox that is starting */
#define UNREADABLE_WAIT_NS 20000000
#define FIRST_NESTED_UID 65534 /* the kernel's uid for "none"; above it are those that user namespaces get */

static const char why_not_found[] = "the process that made the connection cannot be found";
static const char why_namespace[] =
    "it comes from another user or pid namespace than the server's, as a sandbox or a container does";
static const char why_unreadable[] = "a process in another pid namespace, which cannot be looked into, may hold the connection";
static const char why_program[] = "it comes from a program that works for sandboxes";
static const char why_cgroup[] = "it was made in another cgroup than that of the process that holds it, or in a sandbox's";
static const char why_user[] = "the process that holds the connection is another user's";

/* What /proc/PID/status shows without permission to inspect the process. */
struct process_status {
    uid_t uids[4]; /* real, effective, saved, of files */
    int fd_table;  /* its descriptor numbers are below this */
    int levels;    /* of pid namespaces, counted from the one that this /proc belongs to */
};

/* The namespaces of this process, which a holder must share. */
struct own_namespaces {
    char user[32], pid[32]; /* "user:[4026531837]", unique for each namespace */
    int levels;
};

static bool is_gone(int r)
{
    return r == -ENOENT || r == -ESRCH;
}

static int read_text(int dir_fd, const char *name, size_t max, struct buf *out)
{
    autofd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int r = fd < 0 ? -errno : fd_read_all(fd, max, out);

    if (r == 0)
        buf_add_char(out, '\0');
    return r;
}

/* Returns the text behind "\nName:". */
static const char *find_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? at + strlen(name) : NULL;
}

static int read_status(int proc_fd, struct process_status *ret)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = read_text(proc_fd, "status", STATUS_MAX, &text);

    if (r < 0)
        return r;
    const char *uids = find_field(text.data, "\nUid:"), *pids = find_field(text.data, "\nNSpid:"),
               *table = find_field(text.data, "\nFDSize:");
    if (!uids || !pids || !table || sscanf(table, "%d", &ret->fd_table) != 1 ||
        sscanf(uids, "%u %u %u %u", &ret->uids[0], &ret->uids[1], &ret->uids[2], &ret->uids[3]) != 4)
        return -ENOENT;
    ret->levels = 0;
    for (const char *end = strchr(pids, '\n'); end && pids < end; ret->levels++) {
        pids += strspn(pids, "\t ");
        pids += strcspn(pids, "\t \n");
    }
    return 0;
}

static bool status_has_uid(const struct process_status *status, uid_t uid)
{
    return status->uids[0] == uid || status->uids[1] == uid || status->uids[2] == uid || status->uids[3] == uid;
}

static int read_link(int proc_fd, const char *name, char *out, size_t size)
{
    ssize_t n = readlinkat(proc_fd, name, out, size - 1);

    if (n < 0)
        return -errno;
    out[n] = '\0';
    return (size_t) n < size - 1 ? 0 : -ENAMETOOLONG;
}

static int read_namespaces(int proc_fd, struct own_namespaces *ret)
{
    int r = read_link(proc_fd, "ns/user", ret->user, sizeof(ret->user));

    return r < 0 ? r : read_link(proc_fd, "ns/pid", ret->pid, sizeof(ret->pid));
}

static int read_own(struct own_namespaces *ret)
{
    autofd int self_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct process_status status;
    int r = self_fd < 0 ? -errno : read_namespaces(self_fd, ret);

    if (r == 0)
        r = read_status(self_fd, &status);
    if (r == 0)
        ret->levels = status.levels;
    return r;
}

/* 1: the process is in all of our namespaces. */
static int is_in_own(int proc_fd, const struct own_namespaces *own)
{
    struct own_namespaces its;
    int r = read_namespaces(proc_fd, &its);

    if (r < 0)
        return r;
    return strcmp(its.user, own->user) == 0 && strcmp(its.pid, own->pid) == 0;
}

/* Whether it is one of our programs that work between a sandbox and the host. Compares names, because the file of a running program may have
 * been replaced. 1: it is. */
static int is_for_sandboxes(int proc_fd)
{
    static const char *const names[] = { "agentfense-supervisor", "agentfense-container", "agentfense-egress",
                                         "agentfense-init" };
    char path[PATH_MAX];
    int r = read_link(proc_fd, "exe", path, sizeof(path));

    if (r < 0)
        return r;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

/* 1: the process has a descriptor of the socket. */
static int has_socket(int proc_fd, uint64_t inode)
{
    char wanted[48], link[48];
    int len = snprintf(wanted, sizeof(wanted), "socket:[%" PRIu64 "]", inode);
    int fd = openat(proc_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autodirectory dir = directory_take(fd < 0 ? -errno : fd);

    if (!dir)
        return -errno;
    errno = 0;
    for (const struct dirent *d; (d = directory_next(dir));) {
        ssize_t n = readlinkat(dirfd(dir), d->d_name, link, sizeof(link));

        if (n == len && memcmp(link, wanted, (size_t) len) == 0)
            return 1;
        errno = 0;
    }
    return -errno;
}

/*
 * The same for a non-dumpable process, such as init in each sandbox and any agent that makes itself one: /proc shows its descriptors to root
 * alone. The owner of its user namespace may still fetch them. -EACCES if that is not us, or if there are too many.
 */
static int has_socket_to_fetch(int proc_fd, pid_t pid, uint64_t inode, struct process_status *ret_status)
{
    autofd int pidfd = (int) syscall(SYS_pidfd_open, pid, 0);
    int saved = errno, r = read_status(proc_fd, ret_status);

    /* The process still existed after the pidfd was opened by its number, so it is the same process. */
    if (r < 0)
        return r;
    if (pidfd < 0 || ret_status->fd_table > FD_TABLE_MAX)
        return pidfd < 0 && err_errno_is_exhaustion(-saved) ? -saved : -EACCES;
    for (int i = 0; i < ret_status->fd_table; i++) {
        autofd int fd = (int) syscall(SYS_pidfd_getfd, pidfd, i, 0);
        struct stat st;

        if (fd < 0 && errno != EBADF)
            return errno == ESRCH || err_errno_is_exhaustion(-errno) ? -errno : -EACCES;
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode)
            return 1;
    }
    return 0;
}

/* ---- cgroups ---- */

/* Returns the mount point of cgroup v2, from lines like "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw". NULL: not mounted. */
static char *dup_cgroup_root(void)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char *line, *rest;

    if (read_text(AT_FDCWD, "/proc/self/mountinfo", MOUNTS_MAX, &text) < 0)
        return NULL;
    for (line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char root[PATH_MAX], place[PATH_MAX];

        if (strstr(line, " - cgroup2 ") && sscanf(line, "%*s %*s %*s %4095s %4095s", root, place) == 2 &&
            strcmp(root, "/") == 0)
            return xdup(place);
    }
    return NULL;
}

/* The id of a cgroup is its directory's inode. False only if the process is known to be in another cgroup. */
static bool is_in_cgroup(int proc_fd, uint64_t cgroup_id)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofree char *root = dup_cgroup_root();
    struct stat st;

    if (!root || read_text(proc_fd, "cgroup", STATUS_MAX, &text) < 0)
        return true;
    const char *path = strncmp(text.data, "0::", 3) == 0 ? text.data + 3 : find_field(text.data, "\n0::");
    if (!path)
        return true;
    autofree char *own = xdupn(path, strcspn(path, "\n"));
    autofree char *full = xprintf("%s%s", root, own);
    if (strstr(own, "/agentfense/"))
        return false;
    /* "/../x" is outside of our cgroup namespace. */
    if (strstr(own, "/.."))
        return true;
    return stat(full, &st) < 0 || st.st_ino == cgroup_id;
}

/* ---- one process ---- */

/* The verdict about one process. */
enum holder_kind { NOT_A_HOLDER, OWN_HOLDER, FOREIGN_HOLDER };

/* Classifies a process of the user that holds the socket or connected it. */
static int check_process(int proc_fd, uid_t uid, const struct own_namespaces *own, uint64_t cgroup_id, const char **ret_why)
{
    struct process_status status;
    int r = is_in_own(proc_fd, own);

    *ret_why = why_namespace;
    if (r <= 0)
        return err_errno_is_exhaustion(r) ? r : -EACCES;
    *ret_why = why_program;
    r = is_for_sandboxes(proc_fd);
    if (r != 0)
        return err_errno_is_exhaustion(r) ? r : -EACCES;
    *ret_why = why_user;
    r = read_status(proc_fd, &status);
    if (r < 0 || status.uids[1] != uid)
        return err_errno_is_exhaustion(r) ? r : -EACCES;
    *ret_why = why_cgroup;
    return cgroup_id == 0 || is_in_cgroup(proc_fd, cgroup_id) ? 0 : -EACCES;
}

int socket_holder_check(int proc_fd, uid_t uid, const struct held_socket *held, const char **ret_why)
{
    struct own_namespaces own;
    int r = read_own(&own);

    *ret_why = why_not_found;
    if (r == 0 && held)
        r = has_socket(proc_fd, held->inode);
    else if (r == 0)
        r = 1;
    if (r <= 0)
        return err_errno_is_exhaustion(r) ? r : -EACCES;
    return check_process(proc_fd, uid, &own, held ? held->cgroup_id : 0, ret_why);
}

/* ---- all processes ---- */

/* Whether a process whose directory in /proc has this owner may have the uid. The directory of a non-dumpable process belongs to root of the
 * host or of the user namespace in which the process was started. */
static bool may_have_uid(uid_t owner, uid_t uid)
{
    return owner == uid || owner == 0 || (geteuid() != 0 && owner >= FIRST_NESTED_UID);
}

/*
 * Tries /proc first, then pidfd_getfd(). While a sandbox starts, bubblewrap's process cannot be inspected: it has changed its credentials in the
 * new namespaces and has not executed init yet. So a process in a deeper pid namespace is tried again before it counts as a holder.
 */
static int has_socket_with_retry(int proc_fd, pid_t pid, uint64_t inode, int own_levels, struct process_status *status)
{
    int r = -EACCES;

    for (int i = 0; i < UNREADABLE_TRIES; i++) {
        r = has_socket(proc_fd, inode);
        if (r == -EACCES || r == -EPERM)
            r = has_socket_to_fetch(proc_fd, pid, inode, status);
        if (r != -EACCES || status->levels <= own_levels)
            return r;
        nanosleep(&(struct timespec){ .tv_nsec = UNREADABLE_WAIT_NS }, NULL);
    }
    return r;
}

/* `has_own`: another process of the user's own holds the socket, so this one need not be searched if it is the user's own too. */
static int classify_process(int proc_fd, pid_t pid, uid_t owner, const struct held_socket *held,
                            const struct own_namespaces *own, bool has_own, enum holder_kind *ret, const char **ret_why)
{
    struct process_status status = { 0 };
    int r = 0;

    *ret = NOT_A_HOLDER;
    if (owner != held->uid) {
        r = read_status(proc_fd, &status);
        if (r < 0 || !status_has_uid(&status, held->uid))
            return r;
    }
    if (has_own && is_in_own(proc_fd, own) == 1 && is_for_sandboxes(proc_fd) == 0)
        return 0;
    r = has_socket_with_retry(proc_fd, pid, held->inode, own->levels, &status);
    if (r == -EACCES && status.levels > own->levels) {
        *ret_why = why_unreadable;
        *ret = FOREIGN_HOLDER;
        return 0;
    }
    if (r <= 0)
        return r;
    r = check_process(proc_fd, held->uid, own, held->cgroup_id, ret_why);
    *ret = r == -EACCES ? FOREIGN_HOLDER : OWN_HOLDER;
    return r == -EACCES ? 0 : r;
}

/* Returns the pids of all processes. Free it. */
static int list_processes(int proc_fd, pid_t **ret, size_t *ret_count)
{
    autodirectory dir = directory_open(proc_fd);
    autofree pid_t *pids = NULL;
    size_t count = 0, cap = 0;

    if (!dir)
        return -errno;
    for (const struct dirent *d; (d = directory_next(dir));) {
        if (d->d_name[0] < '1' || d->d_name[0] > '9')
            continue;
        vec_room(&pids, &cap, count);
        pids[count++] = (pid_t) atoi(d->d_name);
    }
    *ret = steal_ptr(&pids);
    *ret_count = count;
    return 0;
}

/* Opens /proc/PID. -EACCES if the process cannot have the uid. */
static int open_process(int all_fd, pid_t pid, uid_t uid, int *ret_fd, uid_t *ret_owner)
{
    struct stat st;
    char name[16];

    snprintf(name, sizeof(name), "%d", (int) pid);
    if (fstatat(all_fd, name, &st, 0) < 0)
        return -errno;
    if (!may_have_uid(st.st_uid, uid))
        return -EACCES;
    *ret_fd = openat(all_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0 || fstat(*ret_fd, &st) < 0)
        return -errno;
    *ret_owner = st.st_uid;
    return 0;
}

int socket_holder_search(const struct held_socket *held, const char **ret_why)
{
    autofd int all_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found_fd = -1;
    struct own_namespaces own;
    autofree pid_t *pids = NULL;
    size_t count = 0;
    int r = all_fd < 0 ? -errno : read_own(&own);

    *ret_why = why_not_found;
    if (r == 0)
        r = list_processes(all_fd, &pids, &count);
    if (r < 0)
        return r;
    /* Newest first: that is usually the caller, and then the descriptors of other processes in our namespaces need no search. */
    while (count > 0) {
        autofd int proc_fd = -1;
        enum holder_kind found = NOT_A_HOLDER;
        uid_t owner = 0;

        r = open_process(all_fd, pids[--count], held->uid, &proc_fd, &owner);
        if (r == 0)
            r = classify_process(proc_fd, pids[count], owner, held, &own, found_fd >= 0, &found, ret_why);
        if (is_gone(r) || r == -EACCES)
            continue;
        if (r < 0)
            return r;
        if (found == FOREIGN_HOLDER)
            return -EACCES;
        if (found == OWN_HOLDER && found_fd < 0)
            found_fd = steal_fd(&proc_fd);
    }
    /* The process may have passed the socket on to one that was checked earlier. */
    return found_fd < 0 ? -EACCES : socket_holder_check(found_fd, held->uid, held, ret_why);
}
