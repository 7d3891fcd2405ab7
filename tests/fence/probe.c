/*
 * Does to each path it is given everything that a program can do to a path, and writes down what came of it.
 *
 *     probe SECTION PATH...      with the section one of look, open, list, change, cross, socket, destroy
 *
 * One line per call: what was called, on what, and the errno or everything it returned. Two runs in worlds that should look
 * the same must print the same bytes. Times are printed as they are when they lie before PROBE_START (ns), else as <mount> when
 * not after PROBE_READY, else as <run>, because two runs never happen at the same moment. Device numbers are printed relative
 * to that of the working directory. A call that makes something is undone, so that each path is met as the last one was.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef AT_EACCESS
#define AT_EACCESS 0x200
#endif

static int64_t start_ns, ready_ns;
static dev_t home_dev;

/* Bytes of a name so that any of them reads as one line. */
static const char *shown(const char *s)
{
    static char ring[8][PATH_MAX * 4];
    static int turn;
    char *out = ring[turn = (turn + 1) % 8], *p = out;

    for (; *s && p < out + PATH_MAX * 4 - 8; s++)
        p += *s < 33 || *s > 126 || *s == '\\' ? sprintf(p, "\\x%02x", (unsigned char) *s) : sprintf(p, "%c", *s);
    *p = '\0';
    return out;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static const char *why(long result)
{
    return result < 0 ? strerrorname_np(errno) : "ok";
}

/* Reports a call that returns nothing but success; leaves its result. */
#define TRY(call, path)                                                                                                        \
    ({                                                                                                                         \
        errno = 0;                                                                                                             \
        long result_ = (long) (call);                                                                                          \
        say("%s %s: %s", #call, shown(path), why(result_));                                                                    \
        result_;                                                                                                               \
    })

static const char *when(int64_t s, int64_t ns)
{
    static char ring[8][32];
    static int turn;
    char *out = ring[turn = (turn + 1) % 8];
    int64_t t = s * 1000000000 + ns;

    if (start_ns && t >= start_ns)
        return t <= ready_ns ? "<mount>" : "<run>";
    sprintf(out, "%" PRId64 ".%09" PRId64, s, ns);
    return out;
}

static void say_stat(const char *what, const char *path, const struct stat *st)
{
    say("%s %s: mode=%o ino=%ju dev=%s nlink=%ju uid=%u gid=%u rdev=%ju size=%jd blksize=%ld blocks=%jd atime=%s mtime=%s "
        "ctime=%s",
        what, shown(path), st->st_mode, (uintmax_t) st->st_ino, st->st_dev == home_dev ? "home" : "other",
        (uintmax_t) st->st_nlink, st->st_uid, st->st_gid, (uintmax_t) st->st_rdev, (intmax_t) st->st_size,
        (long) st->st_blksize, (intmax_t) st->st_blocks, when(st->st_atim.tv_sec, st->st_atim.tv_nsec),
        when(st->st_mtim.tv_sec, st->st_mtim.tv_nsec), when(st->st_ctim.tv_sec, st->st_ctim.tv_nsec));
}

static void say_statfs(const char *path)
{
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        say("statfs %s: %s", shown(path), why(-1));
    else
        say("statfs %s: type=%lx bsize=%ld blocks=%ju bfree=%ju bavail=%ju files=%ju ffree=%ju namelen=%ld frsize=%ld "
            "flags=%lx",
            shown(path), (long) fs.f_type, (long) fs.f_bsize, (uintmax_t) fs.f_blocks, (uintmax_t) fs.f_bfree,
            (uintmax_t) fs.f_bavail, (uintmax_t) fs.f_files, (uintmax_t) fs.f_ffree, (long) fs.f_namelen, (long) fs.f_frsize,
            (long) fs.f_flags);
}

static void say_statx(const char *path, int flags)
{
    struct statx x;

    memset(&x, 0, sizeof x);
    if (statx(AT_FDCWD, path, flags, STATX_ALL | STATX_BTIME, &x) < 0) {
        say("statx %x %s: %s", flags, shown(path), why(-1));
        return;
    }
    say("statx %x %s: mask=%x attr=%llx/%llx mode=%o ino=%llu nlink=%u uid=%u gid=%u size=%llu blocks=%llu blksize=%u atime=%s "
        "mtime=%s ctime=%s btime=%s",
        flags, shown(path), x.stx_mask & (STATX_ALL | STATX_BTIME), (unsigned long long) x.stx_attributes,
        (unsigned long long) x.stx_attributes_mask, x.stx_mode, (unsigned long long) x.stx_ino, x.stx_nlink, x.stx_uid,
        x.stx_gid, (unsigned long long) x.stx_size, (unsigned long long) x.stx_blocks, x.stx_blksize,
        when(x.stx_atime.tv_sec, x.stx_atime.tv_nsec), when(x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec),
        when(x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec), when(x.stx_btime.tv_sec, x.stx_btime.tv_nsec));
}

/* The handle holds the filesystem's node id and generation, so it tells if hidden files use up numbers. */
static void say_handle(const char *path, int flags)
{
    union {
        struct file_handle h;
        unsigned char room[sizeof(struct file_handle) + 128];
    } u = { .h.handle_bytes = 128 };
    int mount_id;
    char hex[300] = "";

    if (name_to_handle_at(AT_FDCWD, path, &u.h, &mount_id, flags) < 0) {
        say("name_to_handle_at %x %s: %s", flags, shown(path), why(-1));
        return;
    }
    for (unsigned i = 0; i < u.h.handle_bytes; i++)
        sprintf(hex + 2 * i, "%02x", u.h.f_handle[i]);
    say("name_to_handle_at %x %s: type=%d %s", flags, shown(path), u.h.handle_type, hex);
    TRY(open_by_handle_at(AT_FDCWD, &u.h, O_RDONLY), path);
}

/* What a change leaves to be seen around it. */
static void say_around(const char *path)
{
    char parent[PATH_MAX];
    struct stat st;
    char *slash;

    snprintf(parent, sizeof parent, "./%s", path);
    slash = strrchr(parent, '/');
    *slash = '\0';
    if (lstat(parent, &st) == 0)
        say_stat("around", parent, &st);
}

/* ---- look: asks, changes nothing ---- */

static void look_xattrs(const char *path)
{
    char buf[4096];
    ssize_t n = llistxattr(path, buf, sizeof buf);

    say("llistxattr %s: %zd %s", shown(path), n, why(n));
    for (char *p = buf; n > 0 && p < buf + n; p += strlen(p) + 1) {
        char value[1024];
        ssize_t m = lgetxattr(path, p, value, sizeof value - 1);

        value[m < 0 ? 0 : m] = '\0';
        say("  %s = %zd %s %s", shown(p), m, why(m), shown(value));
    }
    TRY(getxattr(path, "user.none-such", buf, sizeof buf), path);
    TRY(lgetxattr(path, "security.capability", buf, sizeof buf), path);
    TRY(lgetxattr(path, "system.posix_acl_access", buf, sizeof buf), path);
    TRY(lgetxattr(path, "trusted.overlay.opaque", buf, sizeof buf), path);
}

static void look_stats(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        say("stat %s: %s", shown(path), why(-1));
    else
        say_stat("stat", path, &st);
    if (lstat(path, &st) < 0)
        say("lstat %s: %s", shown(path), why(-1));
    else
        say_stat("lstat", path, &st);
    say_statx(path, 0);
    say_statx(path, AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC);
    say_statx(path, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC);
    say_statfs(path);
}

static void look_access(const char *path)
{
    for (int mode = 0; mode < 8; mode++) {
        say("access %d %s: %s", mode, shown(path), why(access(path, mode)));
        say("faccessat2 eaccess %d %s: %s", mode, shown(path), why(syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS)));
        say("faccessat2 nofollow %d %s: %s", mode, shown(path),
            why(syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW)));
    }
}

static void look_place(const char *path)
{
    char target[PATH_MAX + 1], *real;
    ssize_t n = readlink(path, target, PATH_MAX);
    int home = open(".", O_RDONLY | O_DIRECTORY), fd;

    target[n < 0 ? 0 : n] = '\0';
    say("readlink %s: %s %s", shown(path), why(n), shown(target));
    real = realpath(path, NULL);
    say("realpath %s: %s %s", shown(path), real ? "ok" : why(-1), real ? shown(real) : "");
    free(real);
    if (TRY(chdir(path), path) == 0) {
        say("getcwd: %s", getcwd(target, sizeof target) ? shown(target) : why(-1));
        say("fchdir home: %s", why(fchdir(home)));
    }
    fd = open(path, O_PATH | O_NOFOLLOW);
    say("open O_PATH %s: %s", shown(path), why(fd));
    if (fd >= 0) {
        char self[64];
        struct stat st;

        sprintf(self, "/proc/self/fd/%d", fd);
        if (fstat(fd, &st) == 0)
            say_stat("fstat of O_PATH", path, &st);
        for (int flags = 0; flags < 3; flags++) {
            int again = open(self, flags | O_NONBLOCK);

            say("reopen %d %s: %s", flags, shown(path), why(again));
            if (again >= 0)
                close(again);
        }
        n = readlink(self, target, PATH_MAX);
        target[n < 0 ? 0 : n] = '\0';
        say("readlink of O_PATH %s: %s %s", shown(path), why(n), shown(target));
        close(fd);
    }
    close(home);
}

static void look_watch(const char *path)
{
    int in = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), fan = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);

    say("inotify_add_watch %s: %s", shown(path), why(inotify_add_watch(in, path, IN_ALL_EVENTS)));
    say("inotify_add_watch onlydir nofollow %s: %s", shown(path),
        why(inotify_add_watch(in, path, IN_ALL_EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW)));
    say("fanotify_init: %s", why(fan));
    if (fan >= 0) {
        say("fanotify_mark %s: %s", shown(path), why(fanotify_mark(fan, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, path)));
        close(fan);
    }
    close(in);
}

static void look_exec(const char *path)
{
    pid_t pid;
    int status;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);

        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execl(path, path, (char *) NULL);
        _exit(100 + (errno == EACCES ? 1 : errno == ENOENT ? 2 : errno == ENOEXEC ? 3 : errno == ENOTDIR ? 4 : 5));
    }
    waitpid(pid, &status, 0);
    say("execve %s: %x", shown(path), status);
}

static void look(const char *path)
{
    char longer[PATH_MAX * 2], target[PATH_MAX];
    static const char *const tails[] = { "/", "/.", "/..", "/x", "//", "/.wh.x", "/.wh..wh..opq" };
    struct statvfs vfs;

    look_stats(path);
    look_access(path);
    look_place(path);
    look_xattrs(path);
    look_watch(path);
    look_exec(path);
    say_handle(path, 0);
    say_handle(path, 0x200 /* AT_HANDLE_FID */);
    say("statvfs %s: %s", shown(path), why(statvfs(path, &vfs)));
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        struct stat st;

        if (strcmp(path, ".") == 0 && strcmp(tails[i], "/..") == 0)
            continue; /* outside the mount */
        snprintf(longer, sizeof longer, "%s%s", path, tails[i]);
        if (lstat(longer, &st) < 0)
            say("lstat %s: %s", shown(longer), why(-1));
        else
            say_stat("lstat", longer, &st);
        say("access %s: %s", shown(longer), why(access(longer, F_OK)));
        say("readlink %s: %s", shown(longer), why(readlink(longer, target, sizeof target)));
    }
}

/* ---- open: every way to open, then what the descriptor gives ---- */

static void use_descriptor(int fd, const char *path)
{
    char buf[64], self[64], name[PATH_MAX];
    struct stat st;
    ssize_t n;
    void *map;

    if (fstat(fd, &st) == 0)
        say_stat("  fstat", path, &st);
    n = read(fd, buf, sizeof buf - 1);
    buf[n < 0 ? 0 : n] = '\0';
    say("  read: %zd %s %s", n, why(n), shown(buf));
    n = pread(fd, buf, 5, 3);
    say("  pread: %zd %s", n, why(n));
    say("  lseek data %jd hole %jd", (intmax_t) lseek(fd, 0, SEEK_DATA), (intmax_t) lseek(fd, 0, SEEK_HOLE));
    map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    say("  mmap: %s", map == MAP_FAILED ? why(-1) : "ok");
    if (map != MAP_FAILED)
        munmap(map, 4096);
    sprintf(self, "/proc/self/fd/%d", fd);
    n = readlink(self, name, sizeof name - 1);
    name[n < 0 ? 0 : n] = '\0';
    say("  is named: %s", shown(name));
    say("  flags: %x flock: %s", fcntl(fd, F_GETFL), why(flock(fd, LOCK_EX | LOCK_NB)));
    say("  fsync: %s fdatasync: %s syncfs: %s", why(fsync(fd)), why(fdatasync(fd)), why(syncfs(fd)));
}

static void open_one(const char *path, int flags, const char *label)
{
    struct stat before;
    bool was_there = lstat(path, &before) == 0;
    int fd = open(path, flags, 0644);

    say("open %s %s: %s", label, shown(path), why(fd));
    if (fd >= 0) {
        use_descriptor(fd, path);
        close(fd);
        if (!was_there && (flags & O_CREAT))
            say("  unlink what was made: %s", why(unlink(path)));
    }
}

static void open_all(const char *path)
{
    static const struct {
        int flag;
        const char *name;
    } ways[] = { { O_RDONLY, "rdonly" }, { O_WRONLY, "wronly" }, { O_RDWR, "rdwr" } },
      extras[] = { { 0, "" },
                   { O_APPEND, "append" },
                   { O_DIRECTORY, "directory" },
                   { O_NOFOLLOW, "nofollow" },
                   { O_EXCL, "excl" },
                   { O_CREAT, "creat" },
                   { O_CREAT | O_EXCL, "creat+excl" },
                   { O_CREAT | O_NOFOLLOW, "creat+nofollow" },
                   { O_CREAT | O_DIRECTORY, "creat+directory" },
                   { O_CREAT | O_APPEND | O_EXCL, "creat+append+excl" },
                   { O_TMPFILE, "tmpfile" },
                   { O_NOATIME, "noatime" },
                   { O_DIRECT, "direct" },
                   { O_SYNC, "sync" },
                   { O_PATH | O_DIRECTORY, "path+directory" },
                   { O_CLOEXEC | O_NOCTTY, "cloexec" } };
    struct open_how how = { .flags = O_RDONLY | O_NONBLOCK, .resolve = RESOLVE_BENEATH };
    char tail[PATH_MAX];

    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        for (size_t j = 0; j < sizeof ways / sizeof *ways; j++) {
            char label[64];

            sprintf(label, "%s+%s", ways[j].name, extras[i].name);
            open_one(path, ways[j].flag | extras[i].flag | O_NONBLOCK, label);
        }
    }
    for (int i = 0; i < 3; i++) {
        static const uint64_t resolves[] = { RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV | RESOLVE_IN_ROOT };
        long fd;

        how.resolve = resolves[i];
        /* A rename anywhere on the host, in the middle of a ".." beneath a directory, is an answer to try again. */
        do
            fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
        while (fd < 0 && errno == EAGAIN);
        say("openat2 %d %s: %s", i, shown(path), why(fd));
        if (fd >= 0)
            close((int) fd);
    }
    snprintf(tail, sizeof tail, "%s/", path);
    open_one(tail, O_RDONLY | O_NONBLOCK, "trailing slash");
    open_one(tail, O_RDWR | O_CREAT | O_NONBLOCK, "trailing slash, creat");
}

/* ---- list: directory streams down to the cookies ---- */

struct raw_entry {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

static void list(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    int64_t cookies[4096];
    size_t count = 0;
    char buf[1 << 16];
    long n;

    say("list %s: %s", shown(path), why(fd));
    if (fd < 0)
        return;
    while ((n = syscall(SYS_getdents64, fd, buf, 512)) > 0) {
        for (long at = 0; at < n;) {
            struct raw_entry *e = (struct raw_entry *) (buf + at);

            say("  entry %s ino=%ju off=%jd type=%d reclen=%d", shown(e->name), (uintmax_t) e->ino, (intmax_t) e->off, e->type,
                e->reclen);
            if (count < 4096)
                cookies[count++] = e->off;
            at += e->reclen;
        }
        say("  chunk of %ld, tell %jd", n, (intmax_t) lseek(fd, 0, SEEK_CUR));
    }
    say("  end: %s", why(n));
    for (size_t i = 0; i < count; i++) {
        say("  seek %jd: %s", (intmax_t) cookies[i], why(lseek(fd, cookies[i], SEEK_SET)));
        n = syscall(SYS_getdents64, fd, buf, 280);
        say("    then %ld %s", n, n > 0 ? shown(((struct raw_entry *) buf)->name) : why(n));
    }
    for (int64_t odd = 1; odd < 1 << 20; odd = odd * 7 + 1) {
        say("  seek odd %jd: %s", (intmax_t) odd, why(lseek(fd, odd, SEEK_SET)));
        n = syscall(SYS_getdents64, fd, buf, sizeof buf);
        say("    then %ld %s", n, n > 0 ? shown(((struct raw_entry *) buf)->name) : why(n));
    }
    say("  seek end %jd", (intmax_t) lseek(fd, 0, SEEK_END));
    close(fd);
}

/* ---- change: what would alter one path ---- */

static void change_attributes(const char *path)
{
    struct timespec times[2] = { { 1500000000, 123456789 }, { 1500000001, 987654321 } };
    struct timespec omit[2] = { { 0, UTIME_OMIT }, { 0, UTIME_OMIT } }, now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };
    struct stat st;
    int fd, flags = 0;

    TRY(chmod(path, 0600), path);
    TRY(chmod(path, 0755), path);
    TRY(chmod(path, 06755), path);
    TRY(lchown(path, (uid_t) -1, (gid_t) -1), path);
    TRY(lchown(path, getuid(), getgid()), path);
    TRY(chown(path, 0, 0), path);
    TRY(utimensat(AT_FDCWD, path, times, 0), path);
    TRY(utimensat(AT_FDCWD, path, omit, AT_SYMLINK_NOFOLLOW), path);
    if (lstat(path, &st) == 0)
        say_stat("after utimensat", path, &st);
    TRY(utimensat(AT_FDCWD, path, now, AT_SYMLINK_NOFOLLOW), path);
    TRY(setxattr(path, "user.probe", "v", 1, 0), path);
    TRY(setxattr(path, "user.probe", "w", 1, XATTR_CREATE), path);
    TRY(setxattr(path, "user.none", "w", 1, XATTR_REPLACE), path);
    TRY(setxattr(path, "trusted.probe", "v", 1, 0), path);
    TRY(setxattr(path, "security.probe", "v", 1, 0), path);
    look_xattrs(path);
    TRY(removexattr(path, "user.probe"), path);
    TRY(removexattr(path, "user.probe"), path);
    TRY(truncate(path, 3), path);
    TRY(truncate(path, 10000), path);
    TRY(truncate(path, -1), path);
    fd = open(path, O_RDWR | O_NONBLOCK);
    say("open to change %s: %s", shown(path), why(fd));
    if (fd >= 0) {
        TRY(write(fd, "written", 7), path);
        TRY(ftruncate(fd, 4), path);
        TRY(fallocate(fd, 0, 0, 100), path);
        TRY(fallocate(fd, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, 0, 50), path);
        TRY(ioctl(fd, FS_IOC_GETFLAGS, &flags), path);
        TRY(copy_file_range(fd, &(off_t){ 0 }, fd, &(off_t){ 200 }, 10, 0), path);
        TRY(fchmod(fd, 0640), path);
        TRY(futimens(fd, times), path);
        close(fd);
    }
    if (lstat(path, &st) == 0)
        say_stat("after changes", path, &st);
}

static void change_names(const char *path)
{
    static const struct {
        const char *name;
        mode_t mode;
    } nodes[] = { { "file", S_IFREG | 0644 },
                  { "fifo", S_IFIFO | 0644 },
                  { "socket", S_IFSOCK | 0644 },
                  { "char", S_IFCHR | 0644 },
                  { "block", S_IFBLK | 0644 } };
    struct stat st;

    if (mkdir(path, 0755) == 0) {
        say("mkdir %s: ok", shown(path));
        if (lstat(path, &st) == 0)
            say_stat("  new directory", path, &st);
        say("  rmdir: %s", why(rmdir(path)));
    } else
        say("mkdir %s: %s", shown(path), why(-1));
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        int r = mknod(path, nodes[i].mode, makedev(1, 3));

        say("mknod %s %s: %s", nodes[i].name, shown(path), why(r));
        if (r == 0)
            say("  unlink: %s", why(unlink(path)));
    }
    if (symlink("somewhere/else", path) == 0)
        say("symlink %s: ok, unlink %s", shown(path), why(unlink(path)));
    else
        say("symlink %s: %s", shown(path), why(-1));
}

static void change(const char *path)
{
    struct stat st;
    bool was_there = lstat(path, &st) == 0;

    change_names(path);
    if (!was_there)
        say("mknod to change %s: %s", shown(path), why(mknod(path, S_IFREG | 0644, 0)));
    change_attributes(path);
    if (!was_there)
        say("unlink %s: %s", shown(path), why(unlink(path)));
}

/* ---- cross: two paths at once ---- */

static void report_rename(const char *from, const char *to, unsigned flags)
{
    long r = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);

    say("renameat2 %u %s -> %s: %s", flags, shown(from), shown(to), why(r));
    if (r == 0 && flags == RENAME_EXCHANGE)
        say("  and back: %s", why(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags)));
    else if (r == 0)
        say("  and back: %s", why(syscall(SYS_renameat2, AT_FDCWD, to, AT_FDCWD, from, RENAME_NOREPLACE)));
}

/* What we have of our own to put in the way: made again before each use, because a rename may have eaten it. */
static void make_mine(void)
{
    int fd = open("probe-file", O_RDWR | O_CREAT | O_TRUNC, 0644);

    if (fd >= 0)
        close(fd);
    mkdir("probe-dir", 0755);
}

static void cross_with(const char *path, const char *mine)
{
    static const unsigned flags[] = { 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT,
                                      RENAME_NOREPLACE | RENAME_EXCHANGE };
    struct stat st;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        make_mine();
        if (flags[i] != 0 || lstat(path, &st) < 0)
            report_rename(mine, path, flags[i]);
        make_mine();
        report_rename(path, mine, flags[i]);
    }
    make_mine();
    if (link(mine, path) == 0)
        say("link %s -> %s: ok, unlink %s", shown(mine), shown(path), why(unlink(path)));
    else
        say("link %s -> %s: %s", shown(mine), shown(path), why(-1));
}

static void cross(const char *path)
{
    char into[PATH_MAX];

    cross_with(path, "probe-file");
    cross_with(path, "probe-dir");
    make_mine();
    report_rename(path, "probe-absent", 0);
    report_rename(path, "probe-absent", RENAME_NOREPLACE);
    if (link(path, "probe-link") == 0)
        say("link %s -> probe-link: ok, unlink %s", shown(path), why(unlink("probe-link")));
    else
        say("link %s -> probe-link: %s", shown(path), why(-1));
    snprintf(into, sizeof into, "%s/inner", path);
    report_rename("probe-file", into, 0);
    report_rename("probe-dir", into, RENAME_NOREPLACE);
    snprintf(into, sizeof into, "%s/.wh.inner", path);
    report_rename("probe-file", into, 0);
    if (symlink(path, "probe-symlink") == 0) {
        struct stat st;

        say("stat through a link to %s: %s", shown(path), why(stat("probe-symlink", &st)));
        say("open through a link to %s: %s", shown(path), why(open("probe-symlink", O_RDONLY | O_NONBLOCK)));
        say("creat through a link to %s: %s", shown(path), why(open("probe-symlink", O_RDWR | O_CREAT | O_EXCL, 0644)));
        say("unlink: %s", why(unlink("probe-symlink")));
    }
    say("clean up: %s %s", why(unlink("probe-file")), why(rmdir("probe-dir")));
}

/* ---- socket: names in the filesystem that sockets use ---- */

static void socket_names(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), t = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (strlen(path) >= sizeof address.sun_path)
        return;
    strcpy(address.sun_path, path);
    say("connect %s: %s", shown(path), why(connect(t, (struct sockaddr *) &address, sizeof address)));
    if (bind(s, (struct sockaddr *) &address, sizeof address) == 0)
        say("bind %s: ok, unlink %s", shown(path), why(unlink(path)));
    else
        say("bind %s: %s", shown(path), why(-1));
    close(s);
    close(t);
}

/* ---- destroy: takes everything away ---- */

static void destroy(const char *path)
{
    char tail[PATH_MAX];

    snprintf(tail, sizeof tail, "%s/", path);
    TRY(unlink(tail), tail);
    TRY(rmdir(tail), tail);
    TRY(rmdir(path), path);
    TRY(unlink(path), path);
    TRY(access(path, F_OK), path);
    if (mkdir(path, 0755) == 0) {
        list(path);
        say("again away %s: %s", shown(path), why(rmdir(path)));
    } else
        say("mkdir in place of %s: %s", shown(path), why(-1));
}

/* What was unlinked is given back when the file system hears that the kernel has forgotten it, among later requests: until many of them
 * in a row find as much room as the one before. */
static void await_room(const char *path)
{
    struct statfs now, before = { 0 };

    for (int same = 0, most = 10000; same < 50 && most > 0 && statfs(path, &now) == 0; most--, usleep(1000)) {
        same = now.f_bfree == before.f_bfree && now.f_ffree == before.f_ffree ? same + 1 : 0;
        before = now;
    }
}

static const struct {
    const char *name;
    void (*run)(const char *path);
} sections[] = { { "look", look },   { "open", open_all },       { "list", list },      { "change", change },
                 { "cross", cross }, { "socket", socket_names }, { "destroy", destroy } };

int main(int argc, char **argv)
{
    struct stat st;
    const char *env;

    signal(SIGPIPE, SIG_IGN);
    umask(022);
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    if ((env = getenv("PROBE_START")))
        start_ns = atoll(env);
    if ((env = getenv("PROBE_READY")))
        ready_ns = atoll(env);
    if (argc < 3 || stat(".", &st) < 0)
        return 2;
    home_dev = st.st_dev;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (strcmp(argv[1], sections[i].name) != 0)
            continue;
        for (int j = 2; j < argc; j++) {
            say("== %s %s", argv[1], shown(argv[j]));
            sections[i].run(argv[j]);
            say_around(argv[j]);
        }
        await_room(".");
        say_statfs(".");
        return 0;
    }
    return 2;
}
