#include "runtime/etc.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define RESOLV_MAX_BYTES 65536

static bool host_has(const char *root, const char *path)
{
    autofree char *full = xprintf("%s%s", root, path);

    return access(full, X_OK) == 0;
}

static int write_passwd(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    const char *shell = host_has(root, "/bin/bash") ? "/bin/bash" : "/bin/sh";

    buf_add_str(out, "root:x:0:0:root:/root:/usr/sbin/nologin\n");
    buf_addf(out, RUNTIME_USER ":x:%u:%u:" RUNTIME_USER ":" RUNTIME_HOME ":%s\n", runtime_spec_agent_uid(spec),
             runtime_spec_agent_gid(spec), shell);
    buf_add_str(out, "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    return 0;
}

static int write_group(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    (void) root;
    buf_addf(out, "root:x:0:\n" RUNTIME_USER ":x:%u:\nnogroup:x:65534:\n", runtime_spec_agent_gid(spec));
    return 0;
}

static int write_hosts(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    (void) root;
    buf_addf(out, "127.0.0.1 localhost %s\n::1 localhost ip6-localhost ip6-loopback\n", runtime_spec_hostname(spec));
    return 0;
}

static int write_hostname(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    (void) root;
    buf_addf(out, "%s\n", runtime_spec_hostname(spec));
    return 0;
}

/* Without a network, a query to name servers would only wait for its time-out. */
static int write_nsswitch(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    (void) root;
    buf_addf(out,
             "passwd: files\ngroup: files\nshadow: files\nhosts: files%s\nnetworks: files\nprotocols: files\n"
             "services: files\nethers: files\nrpc: files\n",
             spec->net == SANDBOX_NET_HOST ? " dns" : "");
    return 0;
}

/* The index of a repository records inode numbers, change times and owners of the host. The fence shows others, because the
 * real ones would reveal hidden files, so the first `git status` would read every file again. Times and sizes are enough. */
static int write_gitconfig(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    (void) spec;
    (void) root;
    buf_add_str(out, "[core]\n\tcheckStat = minimal\n\ttrustctime = false\n");
    return 0;
}

/* The file is often a symlink into /run, so it is read here and passed as text. */
static int write_resolv(const struct runtime_spec *spec, const char *root, struct buf *out)
{
    autofree char *path = xprintf("%s/etc/resolv.conf", root);
    struct stat st;

    if (spec->net != SANDBOX_NET_HOST)
        return -ENOENT;
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? fd_read_all(fd, RESOLV_MAX_BYTES, out) : -EINVAL;
}

static const struct etc_file files[] = {
    { "/etc/passwd", write_passwd },
    { "/etc/group", write_group },
    { "/etc/hosts", write_hosts },
    { "/etc/hostname", write_hostname },
    { "/etc/nsswitch.conf", write_nsswitch },
    { "/etc/gitconfig", write_gitconfig },
    { "/etc/resolv.conf", write_resolv },
};

const struct etc_file *etc_files(size_t *ret_count)
{
    *ret_count = ARRAY_LEN(files);
    return files;
}
