#include "runtime/bwrap_args.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/bwrap_args_int.h"
#include "runtime/etc.h"
#include "runtime/seccomp.h"

#define COPY_MAX_BYTES 16384
#define INIT_MAX_BYTES (64 << 20)

#define WORD(number) WORD_OF(number)
#define WORD_OF(number) #number

const char *const bwrap_call[] = { "bwrap",
                                   "--unshare-user",
                                   "--unshare-pid",
                                   "--args",
                                   WORD(BWRAP_ARGS_FD),
                                   "--info-fd",
                                   WORD(BWRAP_INFO_FD),
                                   "--",
                                   RUNTIME_INIT,
                                   NULL };

static struct bwrap_op *bwrap_args_add(struct bwrap_args *args, const char *option, const char *first, const char *second)
{
    vec_room(&args->ops, &args->cap, args->count);
    args->ops[args->count] = (struct bwrap_op){ .option = option,
                                                .perms = -1,
                                                .fd = -1,
                                                .source_fd = -1,
                                                .first = first ? xdup(first) : NULL,
                                                .second = second ? xdup(second) : NULL,
                                                .is_staged = args->is_staging };
    return &args->ops[args->count++];
}

/* Takes a descriptor and returns the number it will have in bwrap. */
static int take_fd(struct bwrap_args *args, int fd)
{
    vec_room(&args->fds, &args->fd_cap, args->fd_count);
    args->fds[args->fd_count] = (struct proc_fd){ .fd = fd, .target = BWRAP_FIRST_FD + (int) args->fd_count };
    return args->fds[args->fd_count++].target;
}

static void add_number(struct bwrap_args *args, const char *option, unsigned number)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", number);
    bwrap_args_add(args, option, text, NULL);
}

static void add_dir(struct bwrap_args *args, const char *path)
{
    bwrap_args_add(args, "--dir", path, NULL)->perms = 0755;
}

static void add_tmpfs(struct bwrap_args *args, const char *path, int perms, uint64_t size_bytes)
{
    struct bwrap_op *op = bwrap_args_add(args, "--tmpfs", path, NULL);

    op->perms = perms;
    op->size_bytes = size_bytes;
}

static int add_file(struct bwrap_args *args, const char *path, const struct buf *text)
{
    int fd = args->is_staging ? -1 : fd_memory_file("etc", text->data, text->len);
    struct bwrap_op *op;

    if (fd < 0 && !args->is_staging)
        return fd;
    op = bwrap_args_add(args, "--file", path, NULL);
    op->perms = 0644;
    if (args->is_staging)
        buf_add(&op->text, text->data, text->len);
    else
        op->fd = take_fd(args, fd);
    return 0;
}

/* bwrap reads the whole mount table for each bind mount; copying a page or two takes a fraction of that time. */
static bool add_copy(struct bwrap_args *args, const char *full, const char *path)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = open(full, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return fd >= 0 && fd_read_all(fd, COPY_MAX_BYTES, &text) == 0 && add_file(args, path, &text) == 0;
}

/* Adds the host's file at `path`, if it exists: a symlink as the same symlink, a small file as a copy, anything else as a
 * read-only bind mount. */
static bool add_of_host(struct bwrap_args *args, const char *path)
{
    autofree char *full = xprintf("%s%s", args->root, path);
    char target[PATH_MAX];
    struct stat st;
    ssize_t len;

    if (lstat(full, &st) < 0)
        return false;
    if (S_ISLNK(st.st_mode)) {
        len = readlink(full, target, sizeof(target) - 1);
        if (len <= 0)
            return false;
        target[len] = '\0';
        bwrap_args_add(args, "--symlink", target, path);
        return true;
    }
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return false;
    if (S_ISREG(st.st_mode) && st.st_size <= COPY_MAX_BYTES && add_copy(args, full, path))
        return true;
    bwrap_args_add(args, "--ro-bind", full, path);
    return true;
}

static void add_namespaces(struct bwrap_args *args, const struct runtime_spec *spec, const struct bwrap_probe *probe)
{
    bwrap_args_add(args, "--unshare-ipc", NULL, NULL);
    bwrap_args_add(args, "--unshare-uts", NULL, NULL);
    bwrap_args_add(args, "--unshare-cgroup", NULL, NULL);
    if (spec->net == SANDBOX_NET_NONE)
        bwrap_args_add(args, "--unshare-net", NULL, NULL);
    /* Also drops the remaining capabilities over our namespace. For old versions the filter does the same. */
    if (probe->has_disable_userns)
        bwrap_args_add(args, "--disable-userns", NULL, NULL);
    add_number(args, "--uid", runtime_spec_agent_uid(spec));
    add_number(args, "--gid", runtime_spec_agent_gid(spec));
    bwrap_args_add(args, "--hostname", runtime_spec_hostname(spec), NULL);
    /* In its own session the sandbox cannot reach the terminal of our user (CVE-2017-5226). */
    bwrap_args_add(args, "--new-session", NULL, NULL);
    bwrap_args_add(args, "--die-with-parent", NULL, NULL);
    bwrap_args_add(args, "--as-pid-1", NULL, NULL);
    bwrap_args_add(args, "--cap-drop", "ALL", NULL);
}

static void add_variable(struct bwrap_args *args, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    autofree char *name = xdupn(assignment, (size_t) (equals - assignment));

    bwrap_args_add(args, "--setenv", name, equals + 1);
}

static void add_environment(struct bwrap_args *args, const struct runtime_spec *spec)
{
    bwrap_args_add(args, "--clearenv", NULL, NULL);
    for (const char *const *entry = runtime_environment; *entry; entry++)
        add_variable(args, *entry);
    for (const char *const *entry = spec->env; entry && *entry; entry++)
        add_variable(args, *entry);
}

static int add_system(struct bwrap_args *args, struct err *err)
{
    static const char *const tops[] = { "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32" };

    if (!add_of_host(args, "/usr"))
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOENT, "the host has no /usr to show to a sandbox");
    for (size_t i = 0; i < ARRAY_LEN(tops); i++)
        add_of_host(args, tops[i]);
    return 0;
}

/* Only the parts of the host's /etc that programs need to find libraries, certificates and the time. Not all of /etc/ssl,
 * which has a directory for private keys. Parents precede their entries. */
static const char *const etc_of_host[] = {
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates/extracted",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/crypto-policies",
    "/etc/java-11-openjdk",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    "/etc/os-release",
    "/etc/protocols",
    "/etc/services",
};

/* Makes the directories between /etc and the entry explicitly, because bwrap would close them to all but their owner. */
static void add_parents(struct bwrap_args *args, const char *path)
{
    for (const char *slash = strchr(path + strlen("/etc/"), '/'); slash; slash = strchr(slash + 1, '/')) {
        autofree char *parent = xdupn(path, (size_t) (slash - path));
        bool made = false;

        for (size_t i = 0; i < args->count && !made; i++)
            made = strcmp(args->ops[i].option, "--dir") == 0 && strcmp(args->ops[i].first, parent) == 0;
        if (!made)
            add_dir(args, parent);
    }
}

static void add_etc_of_host(struct bwrap_args *args)
{
    for (size_t i = 0; i < ARRAY_LEN(etc_of_host); i++) {
        autofree char *full = xprintf("%s%s", args->root, etc_of_host[i]);
        struct stat st;

        if (lstat(full, &st) < 0)
            continue;
        add_parents(args, etc_of_host[i]);
        add_of_host(args, etc_of_host[i]);
    }
}

static int add_etc(struct bwrap_args *args, const struct runtime_spec *spec, struct err *err)
{
    size_t count;
    const struct etc_file *files = etc_files(&count);

    add_dir(args, "/etc");
    for (size_t i = 0; i < count; i++) {
        autodone(buf) struct buf text = BUF_EMPTY;
        int r;

        if (files[i].write(spec, args->root, &text) < 0)
            continue;
        r = add_file(args, files[i].path, &text);
        if (r < 0)
            return err_errno(err, r, "writing %s", files[i].path);
    }
    add_etc_of_host(args);
    return 0;
}

static bool host_runs(const struct bwrap_args *args, const char *name, char found[64])
{
    static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin" };

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        autofree char *full = xprintf("%s%s/%s", args->root, dirs[i], name);

        snprintf(found, 64, "%s/%s", dirs[i], name);
        if (access(full, X_OK) == 0)
            return true;
    }
    return false;
}

/* Adds our own files: init, and the name `python` if there is only python3. */
static void add_own(struct bwrap_args *args, const struct runtime_spec *spec)
{
    char found[64];

    add_dir(args, "/run");
    add_dir(args, RUNTIME_DIR);
    add_dir(args, RUNTIME_DIR "/bin");
    if (!host_runs(args, "python", found) && host_runs(args, "python3", found))
        bwrap_args_add(args, "--symlink", found, RUNTIME_DIR "/bin/python");
    if (spec->init_path)
        bwrap_args_add(args, "--ro-bind", spec->init_path, RUNTIME_INIT);
}

static int add_init_copy(struct bwrap_args *args, const struct runtime_spec *spec, struct err *err)
{
    char link[32];
    struct bwrap_op *op;
    int fd;

    if (spec->init_path)
        return 0;
    /* Opened again: a duplicate would share its file position with other starts. */
    snprintf(link, sizeof(link), "/proc/self/fd/%d", spec->init_fd);
    fd = open(link, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "opening init by its descriptor");
    op = bwrap_args_add(args, "--file", RUNTIME_INIT, NULL);
    op->perms = 0555;
    if (!args->is_staging) {
        op->fd = take_fd(args, fd);
        return 0;
    }
    autofd int read_once = fd;
    int r = fd_read_all(read_once, INIT_MAX_BYTES, &op->text);
    return r < 0 ? err_errno(err, r, "reading init") : 0;
}

/* The kernel shows the keys of a user to all processes of that user, in every namespace. Their names reveal what is mounted
 * and who is logged in where. A user of the sandbox's own has no keys. */
static void hide_keys(struct bwrap_args *args, const struct runtime_spec *spec)
{
    static const char *const files[] = { "/proc/keys", "/proc/key-users" };

    for (size_t i = 0; i < ARRAY_LEN(files) && spec->uid == geteuid(); i++) {
        autofree char *full = xprintf("%s%s", args->root, files[i]);

        if (access(full, F_OK) == 0)
            bwrap_args_add(args, "--ro-bind", "/dev/null", files[i]);
    }
}

static void add_proc(struct bwrap_args *args, const struct runtime_spec *spec)
{
    bool was_staging = args->is_staging;

    /* Only bwrap is in the pid namespace that this /proc shows. */
    if (was_staging)
        add_dir(args, "/proc");
    args->is_staging = false;
    bwrap_args_add(args, "--proc", "/proc", NULL);
    hide_keys(args, spec);
    args->is_staging = was_staging;
}

/* Adds /dev as bwrap makes it (null, zero, full, random, urandom, tty, pts), read-only except for a /dev/shm of limited
 * size. */
static void add_devices(struct bwrap_args *args)
{
    bwrap_args_add(args, "--dev", "/dev", NULL);
    add_tmpfs(args, "/dev/shm", 01777, RUNTIME_SHM_BYTES);
    bwrap_args_add(args, "--remount-ro", "/dev", NULL);
}

static void add_scratch(struct bwrap_args *args, const struct runtime_spec *spec)
{
    add_tmpfs(args, "/tmp", 01777, spec->tmp_bytes ? spec->tmp_bytes : RUNTIME_TMP_BYTES);
    add_dir(args, "/var");
    bwrap_args_add(args, "--symlink", "/tmp", "/var/tmp");
    add_dir(args, "/home");
    add_tmpfs(args, RUNTIME_HOME, 0755, RUNTIME_HOME_BYTES);
}

/* Returns -1 if the path cannot be opened without following a link. */
static int open_source(const char *path)
{
    autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    autofd int fd = root < 0 ? -1 : path_open_beneath(root, path[1] ? path + 1 : ".", O_PATH, 0);
    struct stat st;

    return fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode) ? -1 : steal_fd(&fd);
}

/* On a stage we make the bind mount ourselves, because root can pass directories that are closed to the sandbox's user. A
 * path with a link is left to bwrap, and so to that user's rights: the owner of the link must not lead root elsewhere. The
 * mount point is made in any case, because the root is read-only for bwrap. */
static int add_staged_mount(struct bwrap_args *args, const struct runtime_mount *mount, struct err *err)
{
    const char *option = mount->read_only ? "--ro-bind" : "--bind";
    autofd int fd = open_source(mount->src);
    struct stat st;
    int r = 0;

    if (fd >= 0) {
        bwrap_args_add(args, option, mount->src, mount->dst)->source_fd = steal_fd(&fd);
        return 0;
    }
    if (stat(mount->src, &st) < 0)
        return err_errno(err, -errno, "the source '%s' of a mount", mount->src);
    if (S_ISDIR(st.st_mode))
        add_dir(args, mount->dst);
    else
        r = add_file(args, mount->dst, &BUF_EMPTY);
    args->is_staging = false;
    bwrap_args_add(args, option, mount->src, mount->dst);
    args->is_staging = true;
    return r < 0 ? err_errno(err, r, "making '%s' in the sandbox", mount->dst) : 0;
}

/* "/mnt/a/b" needs "/mnt" and "/mnt/a", open to all; bwrap makes the last one, a directory or file like the source. */
static int add_mounts(struct bwrap_args *args, const struct runtime_spec *spec, struct err *err)
{
    for (size_t i = 0; i < spec->mount_count; i++) {
        const struct runtime_mount *mount = &spec->mounts[i];
        int r;

        for (const char *slash = strchr(mount->dst + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
            autofree char *parent = xdupn(mount->dst, (size_t) (slash - mount->dst));

            add_dir(args, parent);
        }
        if (!args->is_staging)
            bwrap_args_add(args, mount->read_only ? "--ro-bind" : "--bind", mount->src, mount->dst);
        else if ((r = add_staged_mount(args, mount, err)) < 0)
            return r;
    }
    return 0;
}

static int add_filter(struct bwrap_args *args, struct err *err)
{
    int fd = seccomp_open_filter(err);

    if (fd < 0)
        return fd;
    fd = take_fd(args, fd);
    bwrap_args_add(args, "--seccomp", NULL, NULL)->fd = fd;
    return 0;
}

static int bwrap_args_fill(struct bwrap_args *args, const struct runtime_spec *spec, const struct bwrap_probe *probe,
                           struct err *err)
{
    int r;

    add_namespaces(args, spec, probe);
    add_environment(args, spec);
    if (spec->stage) {
        /* --dev-bind, because devices must stay usable. Everything on the stage has its own mount attributes already. */
        bwrap_args_add(args, "--dev-bind", spec->stage, "/");
        args->is_staging = true;
    }
    if ((r = add_system(args, err)) < 0 || (r = add_etc(args, spec, err)) < 0)
        return r;
    add_own(args, spec);
    if ((r = add_init_copy(args, spec, err)) < 0)
        return r;
    add_proc(args, spec);
    add_devices(args);
    add_scratch(args, spec);
    if ((r = add_mounts(args, spec, err)) < 0)
        return r;
    if (!spec->stage)
        bwrap_args_add(args, "--bind", spec->workspace, RUNTIME_WORKSPACE);
    /* After everything that makes mount points: from now on nobody can add a file beside the mounts. */
    bwrap_args_add(args, "--remount-ro", "/", NULL);
    args->is_staging = false;
    bwrap_args_add(args, "--chdir", RUNTIME_WORKSPACE, NULL);
    return add_filter(args, err);
}

int bwrap_args_new(const struct runtime_spec *spec, const struct bwrap_probe *probe, const char *root, struct bwrap_args **ret,
                   struct err *err)
{
    autoptr(bwrap_args) args = xnew(struct bwrap_args);
    int r;

    args->root = root;
    r = bwrap_args_fill(args, spec, probe, err);
    args->root = NULL;
    if (r < 0)
        return r;
    *ret = steal_ptr(&args);
    return 0;
}
