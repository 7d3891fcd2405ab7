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
#include "review/landing_int.h"

static int keep_file(struct landing *l, struct wished *w, const char *to)
{
    autofd int from = path_open_beneath(l->site.base_fd, w->wish.path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0), fd = -1;
    struct stat st;
    int r;

    if (from < 0)
        return from;
    if (fstat(from, &st) < 0)
        return -errno;
    struct step_file was = step_file_of(&w->wish.was);
    if (!step_file_is(&was, &st))
        return -ESTALE;
    fd = path_open_beneath(l->record_fd, to, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return fd;
    r = copyup_content(from, fd, INT64_MAX);
    xattr_copy(from, fd);
    if (r == 0 && l->wish_count <= LANDING_SYNC_EACH_MOST && fsync(fd) < 0)
        r = -errno;
    return r;
}

static int keep_link(struct landing *l, struct wished *w, const char *to)
{
    autofd int link = path_open_beneath(l->site.base_fd, w->wish.path, O_PATH, 0);
    char target[PATH_MAX];
    ssize_t n = link < 0 ? -1 : readlinkat(link, "", target, sizeof(target) - 1);

    if (n < 0)
        return link < 0 ? link : -errno;
    target[n] = 0;
    return symlinkat(target, l->record_fd, to) < 0 ? -errno : 0;
}

int landing_keep(struct landing *l, struct err *err)
{
    for (size_t i = 0; i < l->wish_count; i++) {
        struct wished *w = &l->wishes[i];
        bool is_file = S_ISREG(w->wish.was.st_mode), is_link = S_ISLNK(w->wish.was.st_mode);
        if ((!is_file && !is_link) || w->wish.is_mode_only)
            continue;
        snprintf(w->kept, sizeof(w->kept), "%zu", l->kept_count++);
        autofree char *to = xprintf("kept/%s", w->kept);
        int r = is_file ? keep_file(l, w, to) : keep_link(l, w, to);
        fault("landing-keeping");
        if (r < 0)
            return landing_stage_failed(w->wish.path, r, err);
    }
    if (l->wish_count > LANDING_SYNC_EACH_MOST && syncfs(l->record_fd) < 0)
        return err_errno(err, -errno, "syncing copies of what is replaced; nothing was changed");
    autofd int kept = path_open_beneath(l->record_fd, "kept", O_RDONLY | O_DIRECTORY, 0);
    return kept < 0 ? kept : file_fsync_dir(kept);
}
