#include "codebase/codebase_import.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/extract.h"
#include "codebase/tree_path.h"
#include "codebase/txn_int.h"

#define TREE "tree" /* the directory of the stage into which it unpacks */

struct codebase_import {
    struct codebase_txn *txn; /* owned */
    bool is_replacing;
    struct path_map laid; /* for a replacing import: the names it has put */
    struct extract_limits limits;
    int tree_fd;          /* owned */
    int in_fd, thread_fd; /* owned; our end and the thread's end */
    pthread_t thread;
    bool is_running;
    /* belong to the thread until it is joined */
    struct extract_counts counts;
    struct err err;
    int result;
};

static void *unpacker_thread(void *cookie)
{
    struct codebase_import *import = cookie;

    import->result = extract_run(import->thread_fd, import->tree_fd, &import->limits, &import->counts, &import->err);
    /* A sender that continues gets EPIPE and then reads the result. */
    shutdown(import->thread_fd, SHUT_RDWR);
    return NULL;
}

static void join_unpacker(struct codebase_import *import)
{
    cleanup_fd(&import->in_fd);
    import->in_fd = -1;
    if (import->is_running)
        pthread_join(import->thread, NULL);
    import->is_running = false;
}

void codebase_import_free(struct codebase_import *import)
{
    if (!import)
        return;
    join_unpacker(import);
    cleanup_fd(&import->thread_fd);
    cleanup_fd(&import->tree_fd);
    codebase_txn_free(import->txn);
    path_map_done(&import->laid);
    free(import);
}

static struct extract_limits limits_of(const struct codebase *cb, const struct codebase_import_options *options)
{
    struct extract_limits limits = { .bytes = options->max_bytes ? options->max_bytes : CODEBASE_IMPORT_BYTES,
                                     .entries = options->max_entries ? options->max_entries : CODEBASE_IMPORT_ENTRIES };

    if (cb->options.quota_bytes && cb->options.quota_bytes < limits.bytes)
        limits.bytes = cb->options.quota_bytes;
    return limits;
}

static int start_unpacker(struct codebase_import *import)
{
    int pair[2];

    if (mkdirat(import->txn->stage.fd, TREE, 0755) < 0)
        return -errno;
    import->tree_fd = path_open_beneath(import->txn->stage.fd, TREE, O_PATH | O_DIRECTORY, 0);
    if (import->tree_fd < 0)
        return import->tree_fd;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    import->in_fd = pair[0];
    import->thread_fd = pair[1];
    int r = -pthread_create(&import->thread, NULL, unpacker_thread, import);
    import->is_running = r == 0;
    return r;
}

int codebase_import_begin(struct codebase *cb, const struct codebase_import_options *options, struct codebase_import **ret,
                          struct err *err)
{
    autoptr(codebase_import) import = xnew(struct codebase_import);
    int r;

    import->tree_fd = import->in_fd = import->thread_fd = -1;
    import->is_replacing = options->is_replacing;
    import->limits = limits_of(cb, options);
    r = txn_new(cb, options->is_replacing ? TXN_EXACT : TXN_STRICT, options->by, "archive", &import->txn, err);
    if (r < 0)
        return r;
    r = start_unpacker(import);
    if (r < 0)
        return err_errno(err, r, "beginning to unpack an archive");
    *ret = steal_ptr(&import);
    return 0;
}

static int result_of(struct codebase_import *import, struct err *err)
{
    join_unpacker(import);
    if (import->result < 0 && err)
        *err = import->err;
    return import->result;
}

int codebase_import_write(struct codebase_import *import, const void *bytes, size_t len, struct err *err)
{
    const char *at = bytes;

    while (len > 0 && import->in_fd >= 0) {
        ssize_t n = send(import->in_fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        at += n;
        len -= (size_t) n;
    }
    if (len == 0)
        return 0;
    /* The thread has ended. Bytes after the end of an archive, such as padding, are ignored. */
    return result_of(import, err);
}

/* ---- merging it into the codebase ---- */

static int kind_there(struct codebase *cb, const char *path, enum tree_kind *ret)
{
    autofd int fd = path_open_beneath(cb->files_fd, path, O_PATH, 0);
    struct stat st;

    *ret = TREE_NONE;
    if (fd == -ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return fd < 0 ? fd : -errno;
    *ret = tree_kind_of(st.st_mode);
    return 0;
}

static int each_in(int dirfd, const char *relpath, int (*fn)(struct codebase_import *, const char *path),
                   struct codebase_import *import)
{
    autodone(buf) struct buf path = BUF_EMPTY;
    autodirectory dir = directory_take(path_open_beneath(dirfd, *relpath ? relpath : ".", O_RDONLY | O_DIRECTORY, 0));
    int r = 0;

    if (!dir)
        return -errno;
    for (const struct dirent *e; r >= 0 && (e = directory_next(dir));) {
        buf_clear(&path);
        buf_addf(&path, "%s%s%s", relpath, *relpath ? "/" : "", e->d_name);
        r = fn(import, path.data);
    }
    return r;
}

/* A directory that does not exist yet is put with one rename; existing directories are merged entry by entry. */
static int merge_tree(struct codebase_import *import, const char *path)
{
    struct codebase_txn *txn = import->txn;
    enum tree_kind there = TREE_NONE, kind;
    char object[OBJECT_NAME_MAX];
    autofd int parent = -1;
    const char *name;
    struct stat st;
    int r = path_open_parent_beneath(import->tree_fd, path, &parent, &name);

    if (r < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return r < 0 ? r : -errno;
    kind = tree_kind_of(st.st_mode);
    if (!import->is_replacing) {
        r = kind_there(txn->cb, path, &there);
        if (r < 0)
            return r;
    }
    if (kind == TREE_DIR && there == TREE_DIR)
        return each_in(import->tree_fd, path, merge_tree, import);
    unsigned number = txn_next_object(txn);
    object_name('n', number, object);
    if (renameat(parent, name, txn->stage.fd, object) < 0)
        return -errno;
    txn_request_put(txn, path, number, kind);
    if (import->is_replacing)
        path_map_add(&import->laid, path);
    return 0;
}

/* Removes names in `files` that are not in the archive. */
static int remove_others(struct codebase_import *import, const char *path)
{
    if (!path_map_find(&import->laid, path, strlen(path)))
        txn_request_remove(import->txn, path);
    return 0;
}

static int form_wishes(struct codebase_import *import)
{
    struct codebase_txn *txn = import->txn;
    int r = each_in(import->tree_fd, "", merge_tree, import);

    if (r >= 0 && import->is_replacing)
        r = each_in(txn->cb->files_fd, "", remove_others, import);
    return r < 0 ? r : file_remove_tree(txn->stage.fd, TREE);
}

int codebase_import_commit(struct codebase_import *import, struct codebase_import_result *ret,
                           struct codebase_commit *ret_commit, struct err *err)
{
    struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    struct codebase_txn *txn = import->txn;
    struct codebase_meta meta;
    autofd int lock = -1;
    int r = result_of(import, err);

    if (r < 0)
        return r;
    codebase_step("codebase-extracted");
    r = stage_sync(&txn->stage, SIZE_MAX);
    if (r < 0)
        return err_errno(err, r, "writing an archive's files to disk");
    r = codebase_lock(txn->cb, &lock, &meta, err);
    if (r < 0)
        return r;
    r = form_wishes(import);
    if (r < 0)
        return err_errno(err, r, "laying an archive over the codebase");
    r = txn_finish_locked(txn, &meta, &commit, err);
    if (r < 0)
        return r;
    *ret = (struct codebase_import_result){ commit.version, import->counts.bytes, import->counts.entries };
    if (ret_commit)
        *ret_commit = commit;
    else
        codebase_commit_done(&commit);
    return 0;
}
