#include "codebase/codebase_put.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/md5.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

struct codebase_put {
    struct codebase_txn *txn; /* owned */
    struct buf path;
    int mode;
    int fd; /* owned; the staged file */
    unsigned object;
    uint64_t size_bytes;
    struct md5_ctx md5;
    struct sha256_ctx sha256;
};

void codebase_put_free(struct codebase_put *put)
{
    if (!put)
        return;
    cleanup_fd(&put->fd);
    codebase_txn_free(put->txn);
    buf_done(&put->path);
    free(put);
}

/* Returns the mode of the existing file, 0 if there is none. Reports a reason to refuse the upload before its content is sent;
 * the commit checks again. */
static int check_target(struct codebase *cb, const char *path, mode_t *ret_mode, struct err *err)
{
    autofd int fd = path_open_beneath(cb->files_fd, path, O_PATH, 0);
    struct stat st = { 0 };

    *ret_mode = 0;
    if (fd == -ENOENT)
        return 0;
    if (fd == -ELOOP)
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, fd, path, "leads through a symbolic link");
    if (fd == -ENOTDIR)
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, fd, path, "leads through a file");
    if (fd < 0)
        return tree_path_errno(err, fd, "looking at", path);
    if (fstat(fd, &st) < 0)
        return tree_path_errno(err, -errno, "looking at", path);
    if (S_ISDIR(st.st_mode))
        return tree_path_reject(err, ERR_FAILED_PRECONDITION, -EISDIR, path, "is a directory");
    *ret_mode = S_ISREG(st.st_mode) ? st.st_mode : 0;
    return 0;
}

int codebase_put_begin(struct codebase *cb, const char *path, int mode, const char *by, struct codebase_put **ret,
                       struct err *err)
{
    autoptr(codebase_put) put = xnew(struct codebase_put);
    char object[OBJECT_NAME_MAX];
    mode_t there;
    int r;

    put->fd = -1;
    put->mode = mode;
    md5_init(&put->md5);
    sha256_init(&put->sha256);
    r = tree_path_clean_entry(path, strlen(path), &put->path, err);
    if (r >= 0)
        r = check_target(cb, put->path.data, &there, err);
    if (r >= 0)
        r = txn_new(cb, TXN_STRICT, by, "upload", &put->txn, err);
    if (r < 0)
        return r;
    put->object = txn_next_object(put->txn);
    object_name('n', put->object, object);
    put->fd = path_open_beneath(put->txn->stage.fd, object, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (put->fd < 0)
        return tree_path_errno(err, put->fd, "staging", put->path.data);
    *ret = steal_ptr(&put);
    return 0;
}

int codebase_put_write(struct codebase_put *put, const void *bytes, size_t len, struct err *err)
{
    uint64_t quota = put->txn->cb->options.quota_bytes;
    int r;

    /* The commit checks the quota exactly; this stops an endless upload from filling the disk. */
    if (quota && (len > quota || put->size_bytes > quota - len))
        return tree_path_reject(err, ERR_RESOURCE_EXHAUSTED, -EDQUOT, put->path.data, "is larger than a codebase may be");
    r = fd_write_full(put->fd, bytes, len);
    if (r < 0)
        return tree_path_errno(err, r, "writing", put->path.data);
    md5_update(&put->md5, len, bytes);
    sha256_update(&put->sha256, len, bytes);
    put->size_bytes += len;
    return 0;
}

static void hex_of(const uint8_t *bytes, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void finish_digests(struct codebase_put *put, struct codebase_put_result *ret)
{
    uint8_t md5[MD5_DIGEST_SIZE], sha256[SHA256_DIGEST_SIZE];

    md5_digest(&put->md5, sizeof(md5), md5);
    sha256_digest(&put->sha256, sizeof(sha256), sha256);
    hex_of(md5, sizeof(md5), ret->md5);
    hex_of(sha256, sizeof(sha256), ret->sha256);
    ret->size_bytes = put->size_bytes;
}

static int set_mode(struct codebase_put *put, struct err *err)
{
    mode_t mode = (mode_t) put->mode & 0777, there;

    if (put->mode == CODEBASE_PUT_SAME_MODE) {
        int r = check_target(put->txn->cb, put->path.data, &there, err);

        if (r < 0)
            return r;
        mode = 0644 | (there & 0111);
    }
    return fchmod(put->fd, mode | 0600) < 0 ? tree_path_errno(err, -errno, "writing", put->path.data) : 0;
}

int codebase_put_commit(struct codebase_put *put, struct codebase_put_result *ret, struct codebase_commit *ret_commit,
                        struct err *err)
{
    struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    struct codebase_put_result result = { 0 };
    int r = set_mode(put, err);

    if (r < 0)
        return r;
    finish_digests(put, &result);
    cleanup_fd(&put->fd);
    put->fd = -1;
    txn_request_put(put->txn, put->path.data, put->object, TREE_FILE)->sha256 = xdup(result.sha256);
    r = txn_finish(put->txn, &commit, err);
    if (r < 0)
        return r;
    result.version = commit.version;
    *ret = result;
    if (ret_commit)
        *ret_commit = commit;
    else
        codebase_commit_done(&commit);
    return 0;
}
