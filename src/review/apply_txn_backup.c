#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/xattr.h"
#include "review/apply_txn_int.h"

static int keep_file(struct apply_txn *txn, struct staged_change *w, const char *to)
{
    autofd int from = path_open_beneath(txn->site.base_fd, w->change.path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), fd = -1;
    struct stat st;
    int r;

    if (from < 0)
        return from;
    if (fstat(from, &st) < 0)
        return -errno;
    struct apply_step_file was = apply_step_file_of(&w->change.was);
    if (!apply_step_file_matches(&was, &st))
        return -ESTALE;
    fd = path_open_beneath(txn->record_fd, to, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return fd;
    r = copyup_content(from, fd, INT64_MAX);
    xattr_copy(from, fd);
    if (r == 0 && txn->change_count <= APPLY_TXN_SYNC_EACH_MOST && fsync(fd) < 0)
        r = -errno;
    return r;
}

static int keep_link(struct apply_txn *txn, struct staged_change *w, const char *to)
{
    autofd int link = path_open_beneath(txn->site.base_fd, w->change.path, O_PATH, 0);
    char target[PATH_MAX];
    ssize_t n = link < 0 ? -1 : readlinkat(link, "", target, sizeof(target) - 1);

    if (n < 0)
        return link < 0 ? link : -errno;
    target[n] = 0;
    return symlinkat(target, txn->record_fd, to) < 0 ? -errno : 0;
}

int apply_txn_backup(struct apply_txn *txn, struct err *err)
{
    for (size_t i = 0; i < txn->change_count; i++) {
        struct staged_change *w = &txn->changes[i];
        bool is_file = S_ISREG(w->change.was.st_mode), is_link = S_ISLNK(w->change.was.st_mode);
        if ((!is_file && !is_link) || w->change.is_mode_only)
            continue;
        snprintf(w->kept, sizeof(w->kept), "%zu", txn->kept_count++);
        autofree char *to = xprintf("kept/%s", w->kept);
        int r = is_file ? keep_file(txn, w, to) : keep_link(txn, w, to);
        fault("landing-keeping");
        if (r < 0)
            return apply_txn_stage_failed(w->change.path, r, err);
    }
    if (txn->change_count > APPLY_TXN_SYNC_EACH_MOST && syncfs(txn->record_fd) < 0)
        return err_errno(err, -errno, "syncing copies of what is replaced; nothing was changed");
    autofd int kept = path_open_beneath(txn->record_fd, "kept", O_RDONLY | O_DIRECTORY, 0);
    return kept < 0 ? kept : file_fsync_dir(kept);
}
