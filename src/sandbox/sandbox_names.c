#include "sandbox/sandbox_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/path.h"

#define ADMINISTRATOR_KEY "-"
#define KEY_BYTES_MAX 200

/* Encodes the owner as a file name. An owner may be any text: bytes other than these become %XX, and the end of a long one is replaced by a
 * hash. */
static char *owner_key(const char *owner)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    autodone(buf) struct buf key = BUF_EMPTY;

    if (!owner || !*owner)
        return xdup(ADMINISTRATOR_KEY);
    for (const char *at = owner; *at && key.len < KEY_BYTES_MAX; at++) {
        if (strchr(plain, *at))
            buf_add_char(&key, *at);
        else
            buf_addf(&key, "%%%02X", (unsigned char) *at);
    }
    if (key.len >= KEY_BYTES_MAX)
        buf_addf(&key, ".%016llx", (unsigned long long) hash_text(owner));
    return xdupn(key.data, key.len);
}

static char *claim_path(const char *owner, const char *name)
{
    autofree char *key = owner_key(owner);

    return xprintf("%s/%s", key, name);
}

int sandbox_names_lock(const struct state_dir *state_dir, int *ret_lock_fd, struct err *err)
{
    autofd int fd = path_open_beneath(state_dir->fd, STATE_DIR_NAMES, O_RDONLY | O_DIRECTORY, 0);
    int r;

    if (fd < 0)
        return err_errno(err, fd, "opening '%s/" STATE_DIR_NAMES "'", state_dir->path);
    while ((r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
        continue;
    if (r < 0)
        return err_errno(err, -errno, "locking '%s/" STATE_DIR_NAMES "'", state_dir->path);
    *ret_lock_fd = steal_fd(&fd);
    return 0;
}

/* Reads the id from a claim, whether or not the sandbox exists. */
static int read_claim(int names_fd, const char *path, char ret_id[SANDBOX_ID_MAX])
{
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(names_fd, path, SANDBOX_ID_MAX, &text);

    if (r < 0)
        return r == -EFBIG ? -EBADMSG : r;
    buf_add_char(&text, '\0');
    if (strlen(text.data) + 1 != text.len || !sandbox_id_is_valid(text.data))
        return -EBADMSG;
    memcpy(ret_id, text.data, text.len);
    return 0;
}

static bool has_directory(const struct state_dir *state_dir, const char *dir_name)
{
    struct stat st;

    /* Treat an error as an existing directory: otherwise two sandboxes might get one name. */
    return fstatat(state_dir->sandboxes_fd, dir_name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static int refuse_taken(const char *name, struct err *err)
{
    return err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "there is a sandbox '%s' already; choose another name", name);
}

static bool is_in_trash(const struct state_dir *state_dir, const char *id)
{
    autofd int dir_fd = path_open_beneath(state_dir->sandboxes_fd, id, O_RDONLY | O_DIRECTORY, 0);

    return dir_fd >= 0 && sandbox_dir_is_deleted(dir_fd);
}

static int refuse_trashed(const char *name, struct err *err)
{
    return err_set(
        err, ERR_ALREADY_EXISTS, -EEXIST,
        "a removed sandbox '%s' is still in the trash: 'agentfense restore %s' brings it back, 'agentfense rm --purge %s' "
        "frees its name",
        name, name, name);
}

static int claim(const struct state_dir *state_dir, const char *owner, const char *name, const char *id, bool lasts,
                 struct err *err)
{
    autofree char *path = claim_path(owner, name), *key = owner_key(owner);
    char other[SANDBOX_ID_MAX];
    int r;

    if (read_claim(state_dir->names_fd, path, other) == 0 && strcmp(other, id) != 0 && has_directory(state_dir, other))
        return is_in_trash(state_dir, other) ? refuse_trashed(name, err) : refuse_taken(name, err);
    r = path_mkdirs_beneath(state_dir->names_fd, key, 0700);
    if (r == 0)
        r = (lasts ? file_replace : file_put)(state_dir->names_fd, path, id, strlen(id), 0600);
    return r < 0 ? err_errno(err, r, "claiming the name '%s'", name) : 0;
}

int sandbox_names_claim(const struct state_dir *state_dir, const char *owner, const char *name, const char *id, bool lasts,
                        struct err *err)
{
    /* A running sandbox of a release before ids has its name as its directory, and no claim. */
    if ((!owner || !*owner) && has_directory(state_dir, name))
        return refuse_taken(name, err);
    return claim(state_dir, owner, name, id, lasts, err);
}

int sandbox_names_take_over(const struct state_dir *state_dir, const char *name, const char *id, struct err *err)
{
    return claim(state_dir, "", name, id, true, err);
}

void sandbox_names_release(const struct state_dir *state_dir, const char *owner, const char *name, const char *id)
{
    autofree char *path = claim_path(owner, name);
    char claimed[SANDBOX_ID_MAX];

    if (read_claim(state_dir->names_fd, path, claimed) == 0 && strcmp(claimed, id) == 0)
        path_unlink_beneath(state_dir->names_fd, path, 0);
}

int sandbox_names_find(const struct state_dir *state_dir, const char *owner, const char *name, char ret_id[SANDBOX_ID_MAX])
{
    autofree char *path = claim_path(owner, name);
    char id[SANDBOX_ID_MAX];

    if (state_dir->names_fd < 0 || read_claim(state_dir->names_fd, path, id) < 0 || !has_directory(state_dir, id))
        return -ENOENT;
    memcpy(ret_id, id, sizeof(id));
    return 0;
}

int sandbox_names_find_id(const struct state_dir *state_dir, const char *owner, const char *id, char ret_name[SANDBOX_NAME_MAX])
{
    autofree char *key = owner_key(owner);
    autofd int fd = state_dir->names_fd < 0 ? -ENOENT : path_open_beneath(state_dir->names_fd, key, O_RDONLY | O_DIRECTORY, 0);
    autodirectory dir = fd < 0 ? NULL : directory_open(fd);
    char claimed[SANDBOX_ID_MAX];

    for (const struct dirent *d; dir && (d = directory_next(dir));) {
        if (!sandbox_name_is_valid(d->d_name) || read_claim(fd, d->d_name, claimed) < 0 || strcmp(claimed, id) != 0)
            continue;
        snprintf(ret_name, SANDBOX_NAME_MAX, "%s", d->d_name);
        return 0;
    }
    return -ENOENT;
}
