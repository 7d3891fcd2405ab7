#include "codebase/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/size.h"
#include "codebase/steps.h"
#include "codebase/trim.h"

#define VERSION_NAME_MAX 24

static void version_name(uint64_t version, char out[VERSION_NAME_MAX])
{
    snprintf(out, VERSION_NAME_MAX, "%" PRIu64, version);
}

int settle_open_version(struct codebase *cb, uint64_t version)
{
    char name[VERSION_NAME_MAX];

    version_name(version, name);
    return path_open_beneath(cb->versions_fd, name, O_PATH | O_DIRECTORY, 0);
}

struct version_range {
    uint64_t from;           /* older layers are trimmed, though perhaps not removed yet */
    uint64_t oldest, newest; /* 0: none */
};

static int note_version(const struct file_entry *e, void *cookie)
{
    struct version_range *range = cookie;
    uint64_t n = 0;

    for (const char *c = e->name; *c; c++) {
        if (*c < '0' || *c > '9' || n > UINT64_MAX / 100)
            return FILE_WALK_SKIP;
        n = n * 10 + (uint64_t) (*c - '0');
    }
    if (n < range->from)
        return FILE_WALK_SKIP;
    if (n > range->newest)
        range->newest = n;
    if (range->oldest == 0 || n < range->oldest)
        range->oldest = n;
    return FILE_WALK_SKIP;
}

static int add_layers(struct codebase *cb, const struct version_range *range, struct codebase_meta *meta)
{
    for (uint64_t n = range->oldest; n && n <= range->newest; n++) {
        autodone(manifest) struct manifest m = MANIFEST_EMPTY;
        autofd int fd = settle_open_version(cb, n);
        int r = fd < 0 ? fd : manifest_read(fd, &m);

        if (r < 0 && r != -ENOENT)
            return r;
        if (r == 0)
            meta->undo_bytes += manifest_undo_bytes(&m);
    }
    return 0;
}

int settle_recount(struct codebase *cb, uint64_t oldest, struct codebase_meta *ret)
{
    struct codebase_meta meta = CODEBASE_META_NEW;
    struct version_range range = { .from = oldest };
    struct tree_count files;
    int r = file_walk(cb->versions_fd, ".", note_version, &range, NULL);

    if (r >= 0)
        r = add_layers(cb, &range, &meta);
    if (r >= 0)
        r = tree_count_at(cb->dir_fd, "files", &files);
    if (r < 0)
        return r;
    meta.size_bytes = files.bytes;
    meta.file_count = files.files;
    meta.version = range.newest;
    meta.oldest = range.oldest ? range.oldest : range.newest + 1;
    *ret = meta;
    return 0;
}

/* Returns 1 if it finished the version, 0 if there is no such version. */
static int finish_version(struct codebase *cb, uint64_t version, struct codebase_meta *meta)
{
    autodone(manifest) struct manifest m = MANIFEST_EMPTY;
    autofd int fd = settle_open_version(cb, version);
    int r;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    r = manifest_read(fd, &m);
    if (r >= 0)
        r = steps_perform(cb, fd, &m);
    if (r >= 0)
        r = steps_drop_sources(cb, fd, &m);
    if (r < 0)
        return r;
    manifest_count(&m, meta);
    meta->version = version;
    return 1;
}

/* Without counters the performed versions are unknown: performs all of them, from the oldest, and counts everything. */
static int rebuild_meta(struct codebase *cb, struct codebase_meta *ret)
{
    struct codebase_meta ignored = CODEBASE_META_NEW, counted;
    int r = settle_recount(cb, 1, &counted);

    if (r < 0)
        return r;
    log_warn("counting a codebase anew", LOG_STR("codebase", cb->id));
    for (uint64_t n = counted.oldest; n <= counted.version && r >= 0; n++)
        r = finish_version(cb, n, &ignored);
    if (r >= 0)
        r = settle_recount(cb, 1, ret);
    return r < 0 ? r : codebase_meta_write(cb->dir_fd, ret);
}

/* Returns false if `meta` is older than the last trim: then it counts layers that are gone and misses later versions. */
static bool has_its_layers(struct codebase *cb, const struct codebase_meta *meta)
{
    autofd int fd = meta->oldest <= meta->version ? settle_open_version(cb, meta->oldest) : -1;

    return meta->oldest > meta->version || fd >= 0;
}

int settle(struct codebase *cb, struct codebase_meta *ret_meta)
{
    struct codebase_meta meta;
    bool is_new = false;
    int r = codebase_meta_read(cb->dir_fd, &meta);

    if (r == -EBADMSG || r == -ENOENT)
        return rebuild_meta(cb, ret_meta);
    if (r < 0)
        return r;
    while ((r = finish_version(cb, meta.version + 1, &meta)) > 0)
        is_new = true;
    if (r >= 0 && !has_its_layers(cb, &meta))
        return rebuild_meta(cb, ret_meta);
    if (r >= 0 && is_new)
        r = codebase_meta_write(cb->dir_fd, &meta);
    if (r < 0)
        return r;
    *ret_meta = meta;
    return 0;
}

static int check_quota(struct codebase *cb, const struct manifest *m, const struct codebase_meta *meta, struct err *err)
{
    struct codebase_meta after = *meta;
    char limit[SIZE_TEXT_MAX], undo[SIZE_TEXT_MAX];
    uint64_t quota = cb->options.quota_bytes, total;

    manifest_count(m, &after);
    total = after.size_bytes + after.undo_bytes;
    if (quota == 0 || total <= quota || total <= meta->size_bytes + meta->undo_bytes)
        return 0;
    size_format(quota, limit);
    size_format(meta->undo_bytes, undo);
    return err_set(err, ERR_RESOURCE_EXHAUSTED, -EDQUOT, "the codebase may hold %s, of which earlier versions take %s", limit,
                   undo);
}

/* The new objects are synced. This writes and syncs their list and the names in the stage. */
static int write_manifest(struct stage *stage, const struct manifest *m)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = path_open_beneath(stage->fd, MANIFEST_NAME, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int r;

    if (fd < 0)
        return fd;
    manifest_format(m, &text);
    if (text.len > MANIFEST_SIZE_MAX)
        return -EFBIG;
    r = fd_write_full(fd, text.data, text.len);
    if (r < 0)
        return r;
    codebase_step("codebase-manifest-written");
    return fsync(fd) < 0 || (fsync(stage->fd) < 0 && errno != EINVAL) ? -errno : 0;
}

/* The version was not reported to any caller yet, so it may return to the stage. */
static int roll_back_version(struct stage *stage, const struct manifest *m, const char *name)
{
    struct codebase *cb = stage->cb;
    int r = steps_undo(cb, stage->fd, m);

    if (r >= 0 && renameat2(cb->versions_fd, name, cb->stage_fd, stage->name, RENAME_NOREPLACE) < 0)
        r = -errno;
    if (r >= 0)
        stage->is_committed = false;
    return r;
}

static int publish_version(struct stage *stage, struct manifest *m, struct codebase_meta *meta)
{
    struct codebase *cb = stage->cb;
    char name[VERSION_NAME_MAX];
    int r;

    version_name(m->version, name);
    if (renameat2(cb->stage_fd, stage->name, cb->versions_fd, name, RENAME_NOREPLACE) < 0)
        return -errno;
    stage->is_committed = true;
    codebase_step("codebase-committed");
    r = file_fsync_dir(cb->versions_fd);
    if (r >= 0)
        r = steps_perform(cb, stage->fd, m);
    if (r < 0)
        return roll_back_version(stage, m, name) < 0 ? -EINPROGRESS : r;
    if (steps_drop_sources(cb, stage->fd, m) < 0)
        return -EINPROGRESS;
    manifest_count(m, meta);
    meta->version = m->version;
    codebase_step("codebase-performed");
    /* If the following steps fail, the next process that settles repeats them. */
    r = codebase_meta_write(cb->dir_fd, meta);
    codebase_step("codebase-counted");
    if (r < 0)
        log_warn("the counters of a codebase were not written", LOG_STR("codebase", cb->id), LOG_ERRNO("reason", r));
    else
        stage->has_trimmed = trim_run(cb, meta);
    return 0;
}

int settle_commit(struct stage *stage, struct manifest *m, struct codebase_meta *meta, struct err *err)
{
    int r;

    m->version = meta->version + 1;
    m->time_ns = clock_wall_ns();
    r = check_quota(stage->cb, m, meta, err);
    if (r < 0)
        return r;
    r = write_manifest(stage, m);
    codebase_step("codebase-manifest-synced");
    if (r >= 0)
        r = publish_version(stage, m, meta);
    if (r == -EINPROGRESS)
        return err_set(err, ERR_INTERNAL, r, "version %" PRIu64 " could be neither finished nor undone yet", m->version);
    return r < 0 ? err_errno(err, r, "making version %" PRIu64, m->version) : 0;
}
