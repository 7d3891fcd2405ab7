/* What the tests of this directory share: a scratch directory, a process without some system calls, a change of user. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../long.h"

#include "base/mem.h"

#define NOBODY 65534

struct scratch {
    char path[512];
    int fd;
};

/* Removes by means other than the code under test: as deep as there are descriptors. */
static inline void forget(int dirfd, const char *name)
{
    DIR *dir;
    int fd;

    if (unlinkat(dirfd, name, 0) == 0)
        return;
    if (fchmodat(dirfd, name, 0700, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return;
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            forget(fd, e->d_name);
    if (dir)
        closedir(dir);
    unlinkat(dirfd, name, AT_REMOVEDIR);
}

static inline int scratch_setup(void **state)
{
    const char *tmp = getenv("TMPDIR");
    struct scratch *s = xnew(struct scratch);

    snprintf(s->path, sizeof(s->path), "%s/agentfense-base-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(s->path))
        return -1;
    s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = s;
    return s->fd < 0 ? -1 : 0;
}

static inline int scratch_teardown(void **state)
{
    struct scratch *s = *state;
    struct stat st;
    int r;

    close(s->fd);
    forget(AT_FDCWD, s->path);
    r = lstat(s->path, &st) == 0 ? -1 : 0;
    free(s);
    return r;
}

#define scratch_test(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

/* cmocka's assertions jump back into its runner, which must not happen in a forked child. */
static bool fixture_is_child;

static inline void require(bool condition, const char *what)
{
    if (condition)
        return;
    if (!fixture_is_child)
        fail_msg("%s: %s", what, strerror(errno));
    fprintf(stderr, "in a child: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static inline void put_file(int dirfd, const char *name, const char *text)
{
    int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    require(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text), name);
    close(fd);
}

static inline bool file_is(int dirfd, const char *name, const char *text)
{
    char got[4096];
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, got, sizeof(got));

    close(fd);
    return n == (ssize_t) strlen(text) && memcmp(got, text, (size_t) n) == 0;
}

#define assert_file_is(dirfd, name, text) assert_true(file_is(dirfd, name, text))

static inline bool exists(int dirfd, const char *name)
{
    struct stat st;

    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    require(dir != NULL, path);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static inline int count_fds(void)
{
    return count_entries("/proc/self/fd") - 1;
}

/* From now on these system calls answer ENOSYS, as on a kernel that never had them. For the rest of the process. */
static inline bool deny_syscalls(const int *numbers, size_t count)
{
    struct sock_filter code[32];
    struct sock_fprog program = { .filter = code };
    size_t n = 0;

    code[n++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) numbers[i], 0, 1);
        code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    }
    code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = (unsigned short) n;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Runs `fn` in a forked child, which returns 0 or the number of the line that is not as it should be; CHECK() does that. */
typedef int (*child_fn)(void *arg);

#define CHECK(condition)                                                                                                       \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);                                  \
            return 1;                                                                                                          \
        }                                                                                                                      \
    } while (0)

#define CHILD_SKIPS 77

static inline int in_child(child_fn fn, void *arg)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        fixture_is_child = true;
        _exit(fn(arg));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* For permissions that root ignores. The child should touch only what scratch_give() gave away. */
static inline int drop_root(void)
{
    if (geteuid() != 0)
        return 0;
    return syscall(SYS_setresgid, NOBODY, NOBODY, NOBODY) < 0 || syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY) < 0 ? -1 : 0;
}

static inline void scratch_give(struct scratch *s)
{
    if (geteuid() == 0)
        assert_int_equal(fchown(s->fd, NOBODY, NOBODY), 0);
}

static inline bool write_proc(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = write(fd, text, strlen(text));

    close(fd);
    return n == (ssize_t) strlen(text);
}

/* Mounts of this process (a child) are its own from now on. False where an ordinary user may not. Descriptors opened before
 * still see the old mounts. */
static inline bool have_private_mounts(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    char map[64];

    if (uid == 0 && unshare(CLONE_NEWNS) == 0)
        return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    snprintf(map, sizeof(map), "0 %u 1", uid);
    if (!write_proc("/proc/self/setgroups", "deny") || !write_proc("/proc/self/uid_map", map))
        return false;
    snprintf(map, sizeof(map), "0 %u 1", gid);
    return write_proc("/proc/self/gid_map", map) && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}
