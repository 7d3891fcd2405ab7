#include "codebase/trim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "codebase/manifest.h"
#include "codebase/settle.h"

#define ASIDE_PREFIX "old_"

static bool is_too_many(const struct codebase *cb, const struct codebase_meta *meta)
{
    uint64_t keep = cb->options.keep_versions ? cb->options.keep_versions : CODEBASE_KEEP_VERSIONS;

    return meta->version + 1 - meta->oldest > keep;
}

/* The manifest's mtime is the time of the version: it is written once. */
static bool is_too_old(struct codebase *cb, int version_fd)
{
    int64_t keep = cb->options.keep_ns ? cb->options.keep_ns : CODEBASE_KEEP_NS;
    struct stat st;

    return fstatat(version_fd, MANIFEST_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && clock_wall_ns() - stat_mtime_ns(&st) > keep;
}

/* Returns 1 if the oldest layer is no longer counted, 0 if it stays. */
static int forget_oldest(struct codebase *cb, struct codebase_meta *meta)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    autofd int fd = settle_open_version(cb, meta->oldest);
    uint64_t undo;
    int r;

    if (fd == -ENOENT) {
        meta->oldest++;
        return 1;
    }
    if (fd < 0)
        return fd;
    if (!is_too_many(cb, meta) && !is_too_old(cb, fd))
        return 0;
    r = manifest_read(fd, &m);
    if (r < 0)
        return r;
    undo = manifest_undo_bytes(&m);
    meta->undo_bytes -= undo < meta->undo_bytes ? undo : meta->undo_bytes;
    if (manifest_last_ns(&m) > meta->trimmed_ns)
        meta->trimmed_ns = manifest_last_ns(&m);
    meta->oldest++;
    return 1;
}

/* Moves a version into the stage, so that an incomplete version never appears under its number and the removal does not need
 * the lock. The name is not that of a living process's stage, so recovery removes what remains. */
static int move_aside(struct codebase *cb, uint64_t version)
{
    char name[24], aside[ID_TEXT_MAX];

    snprintf(name, sizeof(name), "%" PRIu64, version);
    id_new(ASIDE_PREFIX, aside);
    if (renameat(cb->versions_fd, name, cb->stage_fd, aside) < 0)
        return errno == ENOENT ? 0 : -errno;
    codebase_step("codebase-layer-aside");
    return 0;
}

static int sweep_name(const char *name, void *cookie)
{
    struct codebase *cb = cookie;

    if (id_is_valid(ASIDE_PREFIX, name))
        (void) file_remove_tree(cb->stage_fd, name);
    return 0;
}

void trim_sweep(struct codebase *cb)
{
    (void) tree_each_name(cb->stage_fd, sweep_name, cb);
}

static bool has_layer(struct codebase *cb, uint64_t version)
{
    autofd int fd = settle_open_version(cb, version);

    return fd >= 0;
}

bool trim_run(struct codebase *cb, struct codebase_meta *meta)
{
    struct codebase_meta after = *meta;
    int r = 1;

    while (after.oldest <= after.version && (r = forget_oldest(cb, &after)) > 0)
        ;
    /* Writes the counters first: a layer that is counted but missing would cause a full recount; one that exists but is not
     * counted is only removed later. */
    if (after.oldest > meta->oldest) {
        r = codebase_meta_write(cb->dir_fd, &after);
        codebase_step("codebase-trim-counted");
        if (r >= 0)
            *meta = after;
    }
    uint64_t first = meta->oldest;
    while (first > 1 && has_layer(cb, first - 1))
        first--;
    /* Oldest first, so that the layers that a killed trim leaves are directly below the kept ones, where the next trim finds
     * them. */
    for (uint64_t n = first; n < meta->oldest && r >= 0; n++)
        r = move_aside(cb, n);
    if (r < 0)
        log_warn("old versions of a codebase could not be removed", LOG_STR("codebase", cb->id), LOG_ERRNO("reason", r));
    return first < meta->oldest;
}
