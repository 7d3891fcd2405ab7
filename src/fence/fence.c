#include "fence/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/audit.h"
#include "fence/base_origin.h"
#include "fence/base_watch.h"
#include "fence/change_log.h"
#include "fence/delta.h"
#include "fence/fence_int.h"
#include "fence/handle.h"
#include "fence/hidden_link.h"
#include "fence/ino_map.h"
#include "fence/inode.h"
#include "fence/invalidate.h"
#include "fence/journal.h"
#include "fence/layer.h"
#include "fence/mount.h"
#include "fence/passage.h"
#include "fence/passthrough.h"
#include "fence/quota.h"
#include "fence/read_log.h"
#include "fence/revalidate.h"
#include "fence/revert.h"
#include "fence/session.h"
#include "fence/sync_age.h"
#include "fence/sync_out_int.h"
#include "fence/unwatched.h"

static void fence_init_locks(struct fence *f)
{
    pthread_rwlockattr_t attr;

    /* A writer goes first: new rules must not wait until requests pause. */
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&f->gate, &attr);
    pthread_rwlockattr_destroy(&attr);
    pthread_mutex_init(&f->quiesce_lock, NULL);
    pthread_mutex_init(&f->moves, NULL);
    pthread_mutex_init(&f->opaque, NULL);
    pthread_mutex_init(&f->names, NULL);
    for (size_t i = 0; i < STRIPES; i++) {
        pthread_mutex_init(&f->file_stripes[i], NULL);
        pthread_mutex_init(&f->dir_stripes[i], NULL);
    }
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The caller has checked base_fd, so it is used as it is: its name may lead elsewhere by now. */
static int fence_open_base(struct fence *f, const struct fence_config *config, struct err *err)
{
    const char *path = config->base_path;
    int probe;

    f->base_path = config->base_fd > 0 ? xdup(path) : realpath(path, NULL);
    if (!f->base_path)
        return err_errno(err, -errno, "base '%s'", path);
    f->base_fd = config->base_fd > 0 ? openat(config->base_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)
                                     : open(f->base_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (f->base_fd < 0)
        return err_errno(err, -errno, "base '%s'", path);
    probe = openat(f->base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (probe < 0)
        return err_errno(err, -errno, "reading base '%s'", path);
    close(probe);
    return 0;
}

/* Returns the path that a directory that does not exist yet will have, by resolving its parent. NULL and errno if the parent
 * does not exist either. */
static char *path_to_be(const char *path)
{
    size_t len = strlen(path);
    autofree char *dir = NULL, *real = NULL;
    const char *name;

    while (len > 1 && path[len - 1] == '/')
        len--;
    for (name = path + len; name > path && name[-1] != '/';)
        name--;
    if (name == path + len) {
        errno = ENOENT;
        return NULL;
    }
    dir = name == path ? xdup(".") : xdupn(path, (size_t) (name - path));
    real = realpath(dir, NULL);
    if (!real)
        return NULL;
    return xprintf("%s/%.*s", strcmp(real, "/") == 0 ? "" : real, (int) (path + len - name), name);
}

/* Creates nothing: a delta inside the base is refused before it leaves a trace there. */
static int fence_find_delta(struct fence *f, const char *path, struct err *err)
{
    f->delta_path = realpath(path, NULL);
    if (!f->delta_path && errno == ENOENT)
        f->delta_path = path_to_be(path);
    if (!f->delta_path)
        return err_errno(err, -errno, "delta '%s'", path);
    if (path_is_beneath(f->base_path, f->delta_path) || path_is_beneath(f->delta_path, f->base_path))
        return err_invalid(err, "base '%s' and delta '%s' lie in one another", f->base_path, f->delta_path);
    return 0;
}

static void collect_shared(struct fence *f, struct entry *e, void *cookie)
{
    (void) f;
    if (e->inode && e->inode->dir && inode_has(e->inode, INODE_BASE))
        inode_list_add(cookie, e->inode);
}

/* Starts to follow a live base. Directories that delta and base share are loaded from the start, so no look-up would watch
 * them. */
static void follow_live_base(struct fence *f)
{
    struct inode_list dirs = { 0 };
    struct stat st;

    f->base_watch = base_watch_new(f);
    f->poll = unwatched_poll_new(f);
    if (fstat(f->base_fd, &st) == 0)
        base_watch_add(f, f->root, &st);
    tree_lock(f);
    tree_each_below(f, f->root, collect_shared, &dirs);
    tree_unlock(f);
    for (size_t i = 0; i < dirs.count; i++) {
        struct inode_location where;
        if (inode_locate(f, dirs.items[i], &where) == 0) {
            revalidate_merged(f, where.parent, dirs.items[i], where.name);
            inode_location_done(f, &where);
        }
    }
    inode_list_done(f, &dirs);
}

static int fence_start_parts(struct fence *f, const struct fence_config *config, struct err *err)
{
    int r = journal_new(f, &f->journal);

    if (r == 0)
        r = change_log_new(f, &f->change_log);
    if (r == 0)
        r = ino_map_open(f, &f->ino_map);
    if (r == 0 && f->syncs_out)
        r = base_origins_open(f, &f->base_origins);
    if (r == 0 && f->is_live)
        r = read_log_open(f, &f->read_log);
    if (r == 0 && f->syncs_out)
        r = sync_age_load(f->meta_fd, &f->sync_ages);
    if (r < 0)
        return err_errno(err, r, "opening the delta's journal");
    r = journal_replay(f);
    if (r < 0)
        return err_errno(err, r, "finishing what was begun in the delta");
    r = revert_recover(&(struct revert_dirs){ f->base_fd, f->data_fd, f->work_fd, f->meta_fd });
    if (r < 0)
        return err_errno(err, r, "finishing a release of the delta");
    r = delta_make_roots(f, err);
    if (r < 0)
        return r;
    if (f->is_new)
        futimens(f->data_fd, (struct timespec[]){ clock_timespec_of_ns(f->version_ns), clock_timespec_of_ns(f->version_ns) });
    r = tree_init(f);
    if (r < 0)
        return err_errno(err, r, "delta '%s'", f->delta_path);
    r = sync_out_recover(f);
    if (r < 0)
        return err_errno(err, r, "finishing a hand-over of the delta");
    r = delta_load(f, err);
    if (r < 0)
        return r;
    /* Its content may have to be synced out. */
    atomic_store(&f->changes, f->root->dir->entries.count > 0);
    if (f->is_live)
        follow_live_base(f);
    f->audit = audit_new(f);
    f->invalidator = invalidator_new(f);
    r = session_new(f, config->threads, &f->session);
    return r < 0 ? err_errno(err, r, "starting a session") : 0;
}

int fence_new(const struct fence_config *config, struct fence **ret_fence, struct err *err)
{
    autoptr(fence) f = xnew(struct fence);
    int r;

    f->base_fd = f->data_fd = f->work_fd = f->meta_fd = f->lock_fd = -1;
    f->rules = ruleset_ref(config->rules);
    f->uid = config->uid;
    f->gid = config->gid;
    f->is_live = config->is_live;
    f->syncs_out = config->syncs_out;
    f->unwatched_round_ms = fault_is("quick-rounds") ? 100 : 1000;
    f->data_path = config->data_path;
    f->version_ns = config->version_time_ns;
    f->on_denial = config->on_denial;
    f->exec_of = config->exec_of;
    f->cookie = config->cookie;
    fence_init_locks(f);
    /* The kernel has already applied the caller's mask to modes; ours must not be applied again. */
    if (!config->is_at_rest) {
        raise_descriptor_limit();
        umask(0);
    }
    handles_init(&f->handles);
    quota_init(&f->quota, config->quota_bytes, config->quota_inodes);
    f->passages = passages_new();
    f->hidden_links = hidden_links_new(f);
    r = id_random(&f->hash_secret, sizeof(f->hash_secret));
    r = r < 0 ? err_errno(err, r, "asking for random bytes") : fence_open_base(f, config, err);
    if (r == 0)
        r = fence_find_delta(f, config->delta_path, err);
    if (r == 0)
        r = delta_open(f, config, err);
    if (r == 0)
        r = fence_start_parts(f, config, err);
    if (r < 0) {
        f->is_refused = true;
        return r;
    }
    *ret_fence = steal_ptr(&f);
    return 0;
}

int fence_recover_delta(const struct fence_config *config, struct err *err)
{
    autoptr(ruleset) rules = NULL;
    autoptr(fence) fence = NULL;
    struct fence_config ruleless = *config;
    int r = ruleset_new(&RULE_LIST_EMPTY, NULL, &rules, err);

    ruleless.rules = rules;
    return r < 0 ? r : fence_new(&ruleless, &fence, err);
}

static void fence_close_fds(struct fence *f)
{
    int fds[] = { f->base_fd, f->data_fd, f->work_fd, f->meta_fd, f->lock_fd };

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

void fence_free(struct fence *f)
{
    if (!f)
        return;
    mount_end(f);
    unwatched_poll_free(f->poll);
    base_watch_free(f->base_watch);
    invalidator_free(f->invalidator);
    hidden_links_free(f->hidden_links);
    audit_free(f->audit);
    session_free(f->session);
    passthrough_free(f->passthrough);
    tree_done(f);
    change_log_free(f->change_log);
    ino_map_close(f->ino_map);
    base_origins_close(f->base_origins);
    read_log_close(f->read_log);
    sync_age_free(f->sync_ages);
    journal_free(f->journal);
    passages_free(f->passages);
    quota_done(&f->quota);
    handles_done(&f->handles);
    if (f->is_refused)
        delta_undo_open(f);
    fence_close_fds(f);
    ruleset_unref(f->rules);
    free(f->base_path);
    free(f->delta_path);
    free(f);
}

int fence_mount(struct fence *f, const char *mount_point, struct err *err)
{
    int r = mount_make(f, mount_point, err);

    f->is_refused = r < 0;
    return r;
}

int fence_run(struct fence *f)
{
    int r = audit_start(f->audit);

    if (r == 0)
        r = invalidator_start(f->invalidator);
    if (r == 0 && f->base_watch)
        r = base_watch_start(f->base_watch);
    if (r == 0 && f->poll)
        r = unwatched_poll_start(f->poll);
    if (r == 0)
        r = session_run(f->session);
    mount_end(f);
    unwatched_poll_stop(f->poll);
    if (f->base_watch)
        base_watch_stop(f->base_watch);
    invalidator_stop(f->invalidator);
    audit_stop(f->audit);
    return r;
}

void fence_stop(struct fence *f)
{
    session_stop(f->session);
}

/* syncfs() on the delta's file system: there may be thousands of files and directories, most of them on disk already. */
int fence_sync(struct fence *f)
{
    if (syncfs(f->data_fd) < 0)
        return -errno;
    return change_log_sync(f->change_log);
}

/* Returns true for an absolute path without empty, "." and ".." components. */
static bool is_clean_base_path(const char *path)
{
    if (strcmp(path, "/") == 0)
        return true;
    if (*path != '/')
        return false;
    while (*path) {
        size_t len = strcspn(++path, "/");
        if (len == 0 || len > NAME_MAX || (len <= 2 && strncmp(path, "..", len) == 0))
            return false;
        path += len;
    }
    return true;
}

/* While the gate is closed no operation is about to answer from what it looked up before. */
int fence_base_changed(struct fence *f, const char *const *paths, size_t count)
{
    struct inval_batch batch = INVAL_BATCH_NONE;

    for (size_t i = 0; i < count; i++) {
        if (!is_clean_base_path(paths[i]))
            return -EINVAL;
    }
    pthread_rwlock_wrlock(&f->gate);
    if (count == 0)
        revalidate_path(f, "", &batch);
    for (size_t i = 0; i < count; i++)
        revalidate_path(f, paths[i] + 1, &batch);
    pthread_rwlock_unlock(&f->gate);
    inval_batch_send(f, &batch, true);
    return 0;
}

void fence_stats(struct fence *f, struct fence_stats *ret_stats)
{
    struct fence_stats stats = { 0 };

    for (size_t i = 0; i < POLICY_OPS; i++) {
        stats.ops[i] = atomic_load(&f->ops[i]);
        stats.denied[i] = atomic_load(&f->denied[i]);
    }
    stats.requests = session_requests(f->session);
    stats.workers = session_workers(f->session);
    stats.denials_dropped = audit_dropped(f->audit);
    stats.copied_up = atomic_load(&f->copied_up);
    stats.link_walks = hidden_links_walks(f);
    tree_lock(f);
    stats.inodes = f->nodes.count;
    tree_unlock(f);
    pthread_mutex_lock(&f->handles.lock);
    stats.handles = f->handles.count;
    pthread_mutex_unlock(&f->handles.lock);
    pthread_mutex_lock(&f->quota.lock);
    stats.used_bytes = f->quota.bytes;
    stats.used_inodes = f->quota.inodes;
    pthread_mutex_unlock(&f->quota.lock);
    *ret_stats = stats;
}
