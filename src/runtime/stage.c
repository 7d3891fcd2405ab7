#include "runtime/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "runtime/bwrap_args_int.h"

#define TMPFS_FLAGS (MS_NOSUID | MS_NODEV)
#define BUSY_NS (2 * CLOCK_NS_PER_SEC)
#define BUSY_STEP_US 1000

/* The owner of the tree, who is the agent inside, as with bwrap. */
struct builder {
    const char *stage;
    uid_t uid;
    gid_t gid;
    bool gives; /* the owner is another user */
};

typedef int (*build_fn)(const struct builder *builder, struct bwrap_op *op);

static char *stage_path(const struct builder *builder, const char *path)
{
    return xprintf("%s%s", builder->stage, path);
}

static int stage_chown(const struct builder *builder, const char *full)
{
    return builder->gives && lchown(full, builder->uid, builder->gid) < 0 ? -errno : 0;
}

/* Adds these mount attributes and keeps the others, including locked ones. */
static int set_attributes(const char *full, unsigned flags, uint64_t attributes)
{
    struct mount_attr attr = { .attr_set = attributes };

    return mount_setattr(AT_FDCWD, full, AT_SYMLINK_NOFOLLOW | flags, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

static int make_dir(const struct builder *builder, const char *full, mode_t mode)
{
    if (mkdir(full, mode) < 0)
        return errno == EEXIST ? 0 : -errno;
    return stage_chown(builder, full);
}

static int make_file(const struct builder *builder, const char *full, mode_t mode, const struct buf *text)
{
    autofd int fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0)
        return -errno;
    if (builder->gives && fchown(fd, builder->uid, builder->gid) < 0)
        return -errno;
    return text && text->len ? fd_pwrite_full(fd, text->data, text->len, 0) : 0;
}

static int make_link(const struct builder *builder, const char *target, const char *full)
{
    return symlink(target, full) < 0 ? -errno : stage_chown(builder, full);
}

static int mount_tmpfs(const struct builder *builder, const char *full, int mode, uint64_t size_bytes)
{
    char options[128];
    int len = snprintf(options, sizeof(options), "mode=%o,uid=%u,gid=%u", (unsigned) mode, builder->uid, builder->gid);

    if (size_bytes)
        snprintf(options + len, sizeof(options) - (size_t) len, ",size=%llu", (unsigned long long) size_bytes);
    return mount("tmpfs", full, "tmpfs", TMPFS_FLAGS, options) < 0 ? -errno : 0;
}

static int build_dir(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, op->first);

    return make_dir(builder, full, (mode_t) op->perms);
}

static int build_file(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, op->first);

    return make_file(builder, full, (mode_t) op->perms, &op->text);
}

static int build_link(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, op->second);

    return make_link(builder, op->first, full);
}

/* Mounts the source that was opened, wherever its path leads by now. The copy gets its attributes before any process can
 * reach it. */
static int attach_source(const struct builder *builder, const struct bwrap_op *op)
{
    bool is_read_only = strcmp(op->option, "--ro-bind") == 0;
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (is_read_only ? MOUNT_ATTR_RDONLY : 0) };
    autofree char *full = stage_path(builder, op->second);
    autofd int tree = open_tree(op->source_fd, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ||
        move_mount(tree, "", AT_FDCWD, full, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static int build_bind(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, op->second);
    bool is_held = op->source_fd >= 0;
    struct stat st;
    int r;

    if ((is_held ? fstat(op->source_fd, &st) : stat(op->first, &st)) < 0)
        return -errno;
    r = S_ISDIR(st.st_mode) ? make_dir(builder, full, 0755) : make_file(builder, full, 0444, NULL);
    if (r < 0)
        return r;
    if (is_held)
        return 0; /* attach_all() follows */
    if (mount(op->first, full, NULL, MS_BIND | MS_REC, NULL) < 0)
        return -errno;
    return set_attributes(full, AT_RECURSIVE, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int build_tmpfs(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, op->first);
    int r = make_dir(builder, full, 0755);

    return r < 0 ? r : mount_tmpfs(builder, full, op->perms, op->size_bytes);
}

/* EBUSY: another thread forked while one of our files was open for writing, and its child has that open until its exec. */
static int build_read_only(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, strcmp(op->first, "/") == 0 ? "" : op->first);
    int64_t deadline_ns = clock_now_ns() + BUSY_NS;
    int r = set_attributes(full, 0, MOUNT_ATTR_RDONLY);

    while (r == -EBUSY && clock_now_ns() < deadline_ns) {
        usleep(BUSY_STEP_US);
        r = set_attributes(full, 0, MOUNT_ATTR_RDONLY);
    }
    return r;
}

static int bind_devices(const struct builder *builder, const char *dev)
{
    static const char *const names[] = { "null", "zero", "full", "random", "urandom", "tty" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        autofree char *full = xprintf("%s/%s", dev, names[i]);
        autofree char *of_host = xprintf("/dev/%s", names[i]);
        int r = make_file(builder, full, 0444, NULL);

        if (r < 0)
            return r;
        if (mount(of_host, full, NULL, MS_BIND, NULL) < 0)
            return -errno;
    }
    return 0;
}

static int link_devices(const struct builder *builder, const char *dev)
{
    static const char *const links[][2] = {
        { "/proc/self/fd/0", "stdin" }, { "/proc/self/fd/1", "stdout" }, { "/proc/self/fd/2", "stderr" },
        { "/proc/self/fd", "fd" },      { "/proc/kcore", "core" },       { "pts/ptmx", "ptmx" },
    };

    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        autofree char *full = xprintf("%s/%s", dev, links[i][1]);
        int r = make_link(builder, links[i][0], full);

        if (r < 0)
            return r;
    }
    return 0;
}

static int mount_terminals(const struct builder *builder, const char *dev)
{
    autofree char *full = xprintf("%s/pts", dev);
    int r = make_dir(builder, full, 0755);

    if (r == 0 && mount("devpts", full, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") < 0)
        r = -errno;
    return r;
}

/* Builds what bwrap builds for --dev. */
static int build_dev(const struct builder *builder, struct bwrap_op *op)
{
    autofree char *full = stage_path(builder, op->first);
    int r = make_dir(builder, full, 0755);

    if (r == 0)
        r = mount_tmpfs(builder, full, 0755, 0);
    if (r < 0)
        return r;
    r = bind_devices(builder, full);
    if (r == 0)
        r = link_devices(builder, full);
    if (r == 0)
        r = mount_terminals(builder, full);
    if (r < 0)
        umount2(full, MNT_DETACH | UMOUNT_NOFOLLOW);
    return r;
}

static const struct {
    const char *option;
    build_fn fn;
} builders[] = {
    { "--dir", build_dir },     { "--file", build_file }, { "--symlink", build_link },         { "--ro-bind", build_bind },
    { "--tmpfs", build_tmpfs }, { "--dev", build_dev },   { "--remount-ro", build_read_only }, { "--bind", build_bind },
};

static int stage_build_op(const struct builder *builder, struct bwrap_op *op)
{
    for (size_t i = 0; i < ARRAY_LEN(builders); i++) {
        if (strcmp(op->option, builders[i].option) == 0)
            return builders[i].fn(builder, op);
    }
    return -EINVAL;
}

/* Without privileges we are in a user namespace without a root, where some kernels cannot mount devpts. bwrap has a root
 * while it builds. */
static void leave_devices(struct bwrap_args *args)
{
    for (size_t i = 0; i < args->count; i++) {
        const char *path = args->ops[i].first;

        if (path && (strcmp(path, "/dev") == 0 || strncmp(path, "/dev/", 5) == 0))
            args->ops[i].is_staged = false;
    }
}

/* Attached last: a mount may contain the stage, and the copy of it must be as restricted as the stage is. */
static int attach_all(const struct builder *builder, const struct bwrap_args *args, struct err *err)
{
    for (size_t i = 0; i < args->count; i++) {
        const struct bwrap_op *op = &args->ops[i];
        int r = op->source_fd >= 0 ? attach_source(builder, op) : 0;

        if (r < 0)
            return err_errno(err, r, "mounting '%s' at '%s' in the sandbox", op->first, op->second);
    }
    return 0;
}

int stage_build(const struct runtime_spec *spec, struct bwrap_args *args, struct err *err)
{
    struct builder builder = { spec->stage, spec->uid, spec->gid, spec->uid != geteuid() || spec->gid != getegid() };
    int r;

    for (size_t i = 0; i < args->count; i++) {
        struct bwrap_op *op = &args->ops[i];

        r = op->is_staged ? stage_build_op(&builder, op) : 0;
        if (r < 0 && strcmp(op->option, "--dev") == 0)
            leave_devices(args);
        else if (r < 0)
            return err_errno(err, r, "making '%s' in the sandbox (%s)", op->second ? op->second : op->first, op->option);
    }
    /* bwrap would set it on each mount. */
    r = set_attributes(spec->stage, AT_RECURSIVE, MOUNT_ATTR_NOSUID);
    return r < 0 ? err_errno(err, r, "closing the sandbox's root") : attach_all(&builder, args, err);
}

int stage_open(const char *path, uid_t uid, gid_t gid)
{
    struct builder builder = { path, uid, gid, uid != geteuid() || gid != getegid() };
    autofree char *workspace = stage_path(&builder, STAGE_WORKSPACE);
    int r;

    umask(0);
    r = mount_tmpfs(&builder, path, 0755, 0);
    if (r < 0)
        return r;
    /* Old kernels lack this call. */
    r = set_attributes(path, 0, MOUNT_ATTR_NODEV);
    if (r == 0)
        r = make_dir(&builder, workspace, 0755);
    if (r < 0)
        umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    return r;
}
