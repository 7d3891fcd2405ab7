#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/xattr.h"
#include "review/landing_int.h"

#define STATUS_BYTES_MAX ((size_t) 64 << 10)

char *landing_quote(const char *path)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_add_char(&text, '\'');
    buf_add_excerpt(&text, path, strlen(path));
    buf_add_char(&text, '\'');
    return buf_dup_take(&text);
}

char *landing_temp_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    char temp[ID_TEXT_MAX];

    id_new(FILE_TEMP_PREFIX, temp);
    return xprintf("%.*s%s", slash ? (int) (slash + 1 - path) : 0, path, temp);
}

/* ---- units ---- */

/* How much of the path is there: the length of the shortest beginning that is no directory in the project. */
static int missing_from(int base_fd, const char *path, size_t *ret_len)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        autofree char *beginning = xdupn(path, (size_t) (slash - path));
        autofd int fd = path_open_beneath(base_fd, beginning, O_PATH | O_DIRECTORY, 0);
        if (err_errno_is_short(fd))
            return fd;
        if (fd < 0) {
            *ret_len = (size_t) (slash - path);
            return 0;
        }
    }
    *ret_len = strlen(path);
    return 0;
}

/* Ours, without changing it: others may make files meanwhile. */
static mode_t read_umask(void)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const char *line =
        fd >= 0 && fd_read_all(fd, STATUS_BYTES_MAX, &text) == 0 && text.len > 0 ? strstr(text.data, "\nUmask:") : NULL;

    return line ? (mode_t) strtoul(line + strlen("\nUmask:"), NULL, 8) & 0777 : 022;
}

/* As the umask, so the directory: who may not enter it is given nothing in it. */
static mode_t mask_in(const struct landing *l, mode_t directory)
{
    return (mode_t) (0700 | (directory & 0010 ? 0070 : 0) | (directory & 0001 ? 0007 : 0)) & ~l->umask;
}

/* What is replaced keeps its mode, or gets the one that was shown; of what is brought back, all is known. */
static mode_t mode_of(const struct landing *l, const struct wished *w)
{
    bool is_new = !w->wish.dress && ((w->wish.was.st_mode ^ w->wish.now) & S_IFMT);

    return w->wish.now & (is_new ? l->units[w->unit].mask | 0700 : 0777);
}

/* A file keeps its owner; what is new belongs to whoever has the directory. */
static int describe_unit(struct landing *l, const struct wished *w, struct unit *unit)
{
    const char *name;
    autofd int parent = -1;
    struct stat dir;
    int r = path_open_parent_beneath(l->site.base_fd, unit->path, &parent, &name);

    if (r < 0)
        return r;
    if (fstat(parent, &dir) < 0)
        return -errno;
    if (strcmp(w->wish.path, unit->path) == 0)
        unit->was = w->wish.was;
    else if (fstatat(parent, name, &unit->was, AT_SYMLINK_NOFOLLOW) < 0)
        unit->was = (struct stat){ 0 };
    const struct stat *owner = S_ISREG(unit->was.st_mode) && !unit->is_dir ? &unit->was : &dir;
    unit->uid = owner->st_uid;
    unit->gid = owner->st_gid;
    unit->mask = mask_in(l, dir.st_mode);
    return 0;
}

/* The unit of the directory that has to be made for the path. It is among the last: what sorts between a directory and what is in
 * it are names that begin alike. */
static size_t find_unit(const struct landing *l, const char *path, size_t len)
{
    for (size_t k = l->unit_count; k-- > 0;) {
        const struct unit *unit = &l->units[k];
        if (strlen(unit->path) == len && memcmp(unit->path, path, len) == 0)
            return k;
    }
    return LANDING_NO_UNIT;
}

static int add_unit(struct landing *l, const struct wished *w, size_t len)
{
    vec_room(&l->units, &l->unit_cap, l->unit_count);
    struct unit *unit = &l->units[l->unit_count++];
    *unit = (struct unit){ .path = xdupn(w->wish.path, len), .is_dir = w->wish.path[len] || S_ISDIR(w->wish.now) };
    unit->temp = landing_temp_beside(unit->path);
    return describe_unit(l, w, unit);
}

static int plan_one(struct landing *l, struct wished *w)
{
    size_t len = 0;
    int r = missing_from(l->site.base_fd, w->wish.path, &len);

    if (r < 0)
        return r;
    w->unit = w->wish.path[len] ? find_unit(l, w->wish.path, len) : LANDING_NO_UNIT;
    if (w->unit == LANDING_NO_UNIT) {
        r = add_unit(l, w, len);
        w->unit = l->unit_count - 1;
    }
    return r;
}

int landing_stage_failed(const char *path, int r, struct err *err)
{
    autofree char *shown = landing_quote(path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r, "%s changed while it was being read; nothing was changed", shown);
    return err_errno(err, r, "staging %s; nothing was changed", shown);
}

static int plan(struct landing *l, struct err *err)
{
    for (size_t i = 0; i < l->wish_count; i++) {
        struct wished *w = &l->wishes[i];
        w->unit = LANDING_NO_UNIT;
        int r = w->wish.now && !w->wish.is_mode_only ? plan_one(l, w) : 0;
        if (r < 0)
            return landing_stage_failed(w->wish.path, r, err);
    }
    return 0;
}

/* ---- staging ---- */

/* As somebody else than root the group where we may; the owner is us. */
static int give(int fd, const struct wished *w, const struct unit *unit)
{
    bool is_root = geteuid() == 0;
    uid_t uid = w && w->wish.dress ? w->dress.st_uid : unit->uid;
    gid_t gid = w && w->wish.dress ? w->dress.st_gid : unit->gid;

    return fchown(fd, is_root ? uid : (uid_t) -1, gid) < 0 && is_root ? -errno : 0;
}

static int open_source(const struct landing_wish *wish, int *ret_fd)
{
    struct stat st;
    autofd int fd = path_open_beneath(wish->source_fd, wish->source_path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int fill(const struct landing_wish *wish, int fd)
{
    autofd int from = -1;
    int r;

    if (wish->bytes)
        return fd_write_full(fd, wish->bytes->data ? wish->bytes->data : "", wish->bytes->len);
    r = open_source(wish, &from);
    if (r == 0)
        r = copyup_content(from, fd, INT64_MAX);
    if (r == 0)
        xattr_copy(from, fd);
    return r;
}

/* Of the bytes that are there now, not of those that were read for it. */
static int check_hash(struct wished *w, int fd)
{
    uint8_t hash[IMAGE_HASH_BYTES];
    int r = image_hash_fd(fd, hash);

    if (r < 0)
        return r;
    if (w->has_hash && memcmp(hash, w->hash, sizeof(hash)) != 0)
        return -ESTALE;
    memcpy(w->hash, hash, sizeof(hash));
    w->has_hash = true;
    return 0;
}

static int stage_file(struct landing *l, struct wished *w, const char *to)
{
    autofd int fd = path_open_beneath(l->site.base_fd, to, O_RDWR | O_CREAT | O_EXCL, 0600);
    int r = fd < 0 ? fd : fill(&w->wish, fd);

    if (r == 0)
        r = check_hash(w, fd);
    /* The owner before the mode: chown(2) takes bits away. */
    if (r == 0)
        r = give(fd, w, &l->units[w->unit]);
    if (r == 0 && fchmod(fd, mode_of(l, w)) < 0)
        r = -errno;
    if (r == 0 && w->wish.dress)
        futimens(fd, (struct timespec[]){ w->dress.st_mtim, w->dress.st_mtim });
    if (r == 0 && l->wish_count <= LANDING_SYNC_EACH_MOST && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && fstat(fd, &w->staged) < 0)
        r = -errno;
    return r;
}

static int read_target(const struct landing_wish *wish, char target[PATH_MAX])
{
    autofd int link = -1;
    ssize_t n;

    if (wish->bytes) {
        if (wish->bytes->len >= PATH_MAX)
            return -ENAMETOOLONG;
        memcpy(target, wish->bytes->data, wish->bytes->len);
        target[wish->bytes->len] = 0;
        return 0;
    }
    link = path_open_beneath(wish->source_fd, wish->source_path, O_PATH, 0);
    n = link < 0 ? -1 : readlinkat(link, "", target, PATH_MAX - 1);
    if (n < 0)
        return link < 0 ? link : -errno;
    target[n] = 0;
    return 0;
}

static int stage_link(struct landing *l, struct wished *w, const char *to)
{
    const struct unit *unit = &l->units[w->unit];
    char target[PATH_MAX];
    const char *name;
    autofd int parent = -1;
    int r = read_target(&w->wish, target);

    if (r == 0)
        r = path_open_parent_beneath(l->site.base_fd, to, &parent, &name);
    if (r != 0)
        return r;
    if (symlinkat(target, parent, name) < 0)
        return -errno;
    const struct stat *dress = w->wish.dress ? &w->dress : NULL;
    if (geteuid() == 0 &&
        fchownat(parent, name, dress ? dress->st_uid : unit->uid, dress ? dress->st_gid : unit->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (dress)
        utimensat(parent, name, (struct timespec[]){ dress->st_mtim, dress->st_mtim }, AT_SYMLINK_NOFOLLOW);
    return fstatat(parent, name, &w->staged, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Directories are open to us until all is in them; dress_dirs() gives them their modes. */
static int stage_dirs(struct landing *l, const struct unit *unit, const char *path, size_t len)
{
    autofree char *to = xprintf("%s%.*s", unit->temp, (int) (len - strlen(unit->path)), path + strlen(unit->path));

    return path_mkdirs_beneath(l->site.base_fd, to, 0700);
}

static int stage_one(struct landing *l, struct wished *w)
{
    const struct unit *unit = &l->units[w->unit];
    const char *path = w->wish.path, *slash = strrchr(path, '/');
    autofree char *to = xprintf("%s%s", unit->temp, path + strlen(unit->path));
    int r = 0;

    fault("landing-staging");
    if (S_ISDIR(w->wish.now))
        return stage_dirs(l, unit, path, strlen(path));
    if (path[strlen(unit->path)])
        r = stage_dirs(l, unit, path, (size_t) (slash - path));
    if (r == 0)
        r = S_ISLNK(w->wish.now) ? stage_link(l, w, to) : stage_file(l, w, to);
    return r;
}

/* What mkdir(2) inherited of set-group-ID stays: it is the project's way. */
static int dress_dir(struct landing *l, struct wished *w)
{
    const struct unit *unit = &l->units[w->unit];
    autofree char *to = xprintf("%s%s", unit->temp, w->wish.path + strlen(unit->path));
    autofd int fd = path_open_beneath(l->site.base_fd, to, O_RDONLY | O_DIRECTORY, 0);
    int r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &w->staged) < 0)
        return -errno;
    r = give(fd, w, unit);
    if (r == 0 && fchmod(fd, mode_of(l, w) | (w->staged.st_mode & S_ISGID)) < 0)
        r = -errno;
    if (r == 0 && fsync(fd) < 0 && errno != EINVAL)
        r = -errno;
    if (r == 0 && fstat(fd, &w->staged) < 0)
        r = -errno;
    return r;
}

/* A directory on the way to a wish for which there is none: it was there when the agent worked in it, and is gone from the project. */
struct undressed {
    struct landing *l;
    const struct unit *unit;
};

static int dress_plainly(const struct undressed *u, int fd, const char *path)
{
    int r;

    if (landing_find(u->l, path, strlen(path)))
        return 0;
    r = give(fd, NULL, u->unit);
    return r == 0 && fchmod(fd, 0755 & (u->unit->mask | 0700)) < 0 ? -errno : r;
}

static int on_staged(const struct file_entry *entry, void *cookie)
{
    const struct undressed *u = cookie;
    autofree char *path = xprintf("%s/%s", u->unit->path, entry->path);

    if (!S_ISDIR(entry->st->st_mode))
        return FILE_WALK_ON;
    autofd int fd = path_open_beneath(entry->dirfd, entry->name, O_RDONLY | O_DIRECTORY, 0);
    int r = fd < 0 ? fd : dress_plainly(u, fd, path);
    return r < 0 ? r : FILE_WALK_ON;
}

static int dress_others(struct landing *l, struct err *err)
{
    for (size_t i = 0; i < l->unit_count; i++) {
        struct undressed u = { l, &l->units[i] };
        if (!u.unit->is_dir)
            continue;
        autofd int fd = path_open_beneath(l->site.base_fd, u.unit->temp, O_RDONLY | O_DIRECTORY, 0);
        int r = fd < 0 ? fd : file_walk(l->site.base_fd, u.unit->temp, on_staged, &u, err);
        if (r == 0)
            r = dress_plainly(&u, fd, u.unit->path);
        if (r < 0)
            return landing_stage_failed(u.unit->path, r, err);
    }
    return 0;
}

/* From the deepest up: a directory that we could not search any more would keep us from those in it. */
static int dress_dirs(struct landing *l, struct err *err)
{
    for (size_t i = l->wish_count; i-- > 0;) {
        struct wished *w = &l->wishes[i];
        int r = w->unit != LANDING_NO_UNIT && S_ISDIR(w->wish.now) ? dress_dir(l, w) : 0;
        if (r < 0)
            return landing_stage_failed(w->wish.path, r, err);
    }
    return 0;
}

static int look_at_units(struct landing *l, struct err *err)
{
    for (size_t i = 0; i < l->unit_count; i++) {
        autofd int fd = path_open_beneath(l->site.base_fd, l->units[i].temp, O_PATH, 0);
        if (fd < 0 || fstat(fd, &l->units[i].staged) < 0)
            return landing_stage_failed(l->units[i].path, fd < 0 ? fd : -errno, err);
    }
    return 0;
}

static int stage_all(struct landing *l, struct err *err)
{
    int r;

    for (size_t i = 0; i < l->wish_count; i++) {
        struct wished *w = &l->wishes[i];
        r = w->unit != LANDING_NO_UNIT ? stage_one(l, w) : 0;
        if (r < 0)
            return landing_stage_failed(w->wish.path, r, err);
    }
    r = dress_others(l, err);
    if (r == 0)
        r = dress_dirs(l, err);
    if (r == 0)
        r = look_at_units(l, err);
    if (r == 0 && l->wish_count > LANDING_SYNC_EACH_MOST && syncfs(l->site.base_fd) < 0)
        r = err_errno(err, -errno, "syncing what was staged; nothing was changed");
    return r;
}

/* ---- all of it ---- */

/* Before anything is made: so that a run which is killed leaves nothing that nobody knows of. */
static int note_names(struct landing *l, struct err *err)
{
    int r;

    for (size_t i = 0; i < l->unit_count; i++)
        step_log_add(&l->log, STEP_PUT, l->units[i].path, l->units[i].temp);
    r = step_log_write(l->record_fd, &l->log);
    return r < 0 ? err_errno(err, r, "noting what is about to be written; nothing was changed") : 0;
}

int landing_stage(struct landing *l, struct err *err)
{
    int r;

    l->umask = read_umask();
    r = plan(l, err);
    if (r == 0)
        r = note_names(l, err);
    fault("landing-noted-names");
    if (r == 0)
        r = stage_all(l, err);
    if (r == 0)
        r = landing_keep(l, err);
    fault("landing-staged");
    return r;
}
