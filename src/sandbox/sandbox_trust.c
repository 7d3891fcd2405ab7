#include "sandbox/sandbox_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/path.h"
#include "sandbox/state_dir_int.h"

#define SPEC_FILE "spec"

static int refuse_untrusted(const char *id, const char *what, const char *why, struct err *err)
{
    return err_set(err, ERR_PERMISSION_DENIED, -EPERM, "sandbox '%s' is not served: its %s %s", id, what, why);
}

/* If an access control list lets others write, its mask shows in the group bits. */
static int check_owner(int fd, const char *id, const char *what, mode_t type, uid_t uid, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "sandbox '%s': its %s", id, what);
    if ((st.st_mode & S_IFMT) != type)
        return refuse_untrusted(id, what, type == S_IFDIR ? "is not a directory" : "is not a file", err);
    if (st.st_uid != uid)
        return refuse_untrusted(id, what, "belongs to another user", err);
    if (st.st_mode & 022)
        return refuse_untrusted(id, what, "can be written by others", err);
    return 0;
}

static int open_checked(int dirfd, const char *name, int flags, const char *id, const char *what, mode_t type, uid_t uid,
                        int *ret_fd, struct err *err)
{
    autofd int fd = path_open_beneath(dirfd, name, flags, 0);
    int r;

    if (fd == -ELOOP || fd == -ENOTDIR)
        return refuse_untrusted(id, what, "is a link, or something else than it should be", err);
    if (fd < 0)
        return err_errno(err, fd, "sandbox '%s': opening its %s", id, what);
    r = check_owner(fd, id, what, type, uid, err);
    if (r == 0)
        *ret_fd = steal_fd(&fd);
    return r;
}

static int read_spec(int spec_fd, const char *id, struct sandbox_spec **ret, struct err *err)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    autoptr(sandbox_spec) spec = NULL;
    int r = fd_read_all(spec_fd, SANDBOX_SPEC_BYTES_MAX, &bytes);

    if (r < 0)
        return err_errno(err, r, "sandbox '%s': reading its spec", id);
    r = sandbox_spec_decode(bytes.data, bytes.len, &spec, err);
    if (r < 0)
        return err_wrap(err, r, "sandbox '%s'", id);
    if (strcmp(sandbox_spec_dir_name(spec), id) != 0)
        return refuse_untrusted(id, "spec", "is that of another sandbox", err);
    *ret = steal_ptr(&spec);
    return 0;
}

int sandbox_trust_open(const struct state_dir *state_dir, const char *id, uid_t uid, int *ret_dir_fd,
                       struct sandbox_spec **ret_spec, struct err *err)
{
    autofd int dir_fd = -1, spec_fd = -1;
    int r;

    if (!sandbox_name_is_valid(id))
        return state_dir_refuse_name(id, err);
    r = open_checked(state_dir->sandboxes_fd, id, O_RDONLY | O_DIRECTORY, id, "directory", S_IFDIR, uid, &dir_fd, err);
    if (r == 0)
        r = open_checked(dir_fd, SPEC_FILE, O_RDONLY | O_NONBLOCK, id, "spec", S_IFREG, uid, &spec_fd, err);
    if (r == 0)
        r = read_spec(spec_fd, id, ret_spec, err);
    if (r != -EPERM && dir_fd >= 0)
        *ret_dir_fd = steal_fd(&dir_fd);
    return r;
}
