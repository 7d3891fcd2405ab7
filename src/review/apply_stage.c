#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/xattr.h"
#include "review/apply_int.h"

#define NAMES_MAX ((size_t) 256 << 20)

char *job_quote(const char *path)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_add_char(&text, '\'');
    buf_add_excerpt(&text, path, strlen(path));
    buf_add_char(&text, '\'');
    return buf_dup_take(&text);
}

/* ---- units ---- */

/* How much of the path is there: the length of the shortest beginning that is no directory in the base. */
static size_t missing_from(int base_fd, const char *path)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        autofree char *beginning = xdupn(path, (size_t) (slash - path));
        autofd int fd = path_open_beneath(base_fd, beginning, O_PATH | O_DIRECTORY, 0);
        if (fd < 0)
            return (size_t) (slash - path);
    }
    return strlen(path);
}

static char *temp_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    char temp[ID_TEXT_MAX];

    id_new(FILE_TEMP_PREFIX, temp);
    return xprintf("%.*s%s", slash ? (int) (slash + 1 - path) : 0, path, temp);
}

/* A file keeps its owner; what is new belongs to whoever has the directory. What was checked is what is expected later; a
 * directory on the way to a chosen path was not. */
static int describe_unit(struct job *job, const struct edit *edit, struct unit *unit)
{
    const char *name;
    autofd int parent = -1;
    struct stat dir;
    int r = path_open_parent_beneath(job->base_fd, unit->path, &parent, &name);

    if (r < 0)
        return r;
    if (fstat(parent, &dir) < 0)
        return -errno;
    if (strcmp(edit->path, unit->path) == 0)
        unit->was = edit->was;
    else if (fstatat(parent, name, &unit->was, AT_SYMLINK_NOFOLLOW) < 0)
        unit->was = (struct stat){ 0 };
    const struct stat *owner = S_ISREG(unit->was.st_mode) && !unit->is_dir ? &unit->was : &dir;
    unit->uid = owner->st_uid;
    unit->gid = owner->st_gid;
    return 0;
}

/* The unit of the directory that has to be made for the path. It is among the last: what sorts between a directory and what is in
 * it are names that begin alike. */
static size_t find_unit(const struct job *job, const char *path, size_t len)
{
    for (size_t k = job->unit_count; k-- > 0;) {
        const struct unit *unit = &job->units[k];
        if (strlen(unit->path) == len && memcmp(unit->path, path, len) == 0)
            return k;
    }
    return JOB_NO_UNIT;
}

static int add_unit(struct job *job, const struct edit *edit, size_t len, struct err *err)
{
    vec_room(&job->units, &job->unit_cap, job->unit_count);
    struct unit *unit = &job->units[job->unit_count++];
    *unit = (struct unit){ .path = xdupn(edit->path, len), .is_dir = edit->path[len] || S_ISDIR(edit->now) };
    unit->temp_path = temp_beside(unit->path);
    int r = describe_unit(job, edit, unit);
    if (r == 0)
        return 0;
    autofree char *shown = job_quote(unit->path);
    return err_errno(err, r, "looking at %s in the base", shown);
}

static int plan_one(struct job *job, size_t i, struct err *err)
{
    const struct edit *edit = &job->edits->items[i];
    size_t len = missing_from(job->base_fd, edit->path);
    size_t unit = edit->path[len] ? find_unit(job, edit->path, len) : JOB_NO_UNIT;
    int r = unit == JOB_NO_UNIT ? add_unit(job, edit, len, err) : 0;

    job->unit_of[i] = unit == JOB_NO_UNIT ? job->unit_count - 1 : unit;
    job->units[job->unit_of[i]].edit_count++;
    return r;
}

int job_plan(struct job *job, struct err *err)
{
    int r = 0;

    job->unit_of = xalloc((job->edits->count + 1) * sizeof(*job->unit_of));
    for (size_t i = 0; i < job->edits->count && r == 0; i++) {
        const struct edit *edit = &job->edits->items[i];
        bool only_mode = edit->kind == CHANGE_MODE || (S_ISDIR(edit->now) && S_ISDIR(edit->was.st_mode));
        job->unit_of[i] = JOB_NO_UNIT;
        if (edit->now && !only_mode)
            r = plan_one(job, i, err);
    }
    return r;
}

/* ---- temporary names ---- */

static int note_names(struct job *job)
{
    autodone(buf) struct buf names = BUF_EMPTY;

    for (size_t i = 0; i < job->unit_count; i++)
        buf_add(&names, job->units[i].temp_path, strlen(job->units[i].temp_path) + 1);
    return names.len ? file_replace(job->meta_fd, "apply", names.data, names.len, 0600) : 0;
}

/* The file is ours, but what it makes us remove is checked to be named as only we name. */
void job_unstage_old(int base_fd, int meta_fd)
{
    autodone(buf) struct buf names = BUF_EMPTY;

    if (file_read(meta_fd, "apply", NAMES_MAX, &names) < 0)
        return;
    for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1) {
        const char *path = names.data + at, *slash = strrchr(path, '/');
        if (id_is_valid(FILE_TEMP_PREFIX, slash ? slash + 1 : path))
            file_remove_tree(base_fd, path);
    }
    unlinkat(meta_fd, "apply", 0);
}

void job_unstage(struct job *job)
{
    for (size_t i = 0; i < job->unit_count; i++) {
        if (!job->units[i].is_placed)
            file_remove_tree(job->base_fd, job->units[i].temp_path);
    }
    unlinkat(job->meta_fd, "apply", 0);
}

/* ---- staging ---- */

/* As somebody else than root the group where we may; the owner is us. */
static int give(int fd, const struct unit *unit)
{
    bool is_root = geteuid() == 0;

    return fchown(fd, is_root ? unit->uid : (uid_t) -1, unit->gid) < 0 && is_root ? -errno : 0;
}

static int open_source(struct job *job, const char *path, int *ret_fd)
{
    struct stat st;
    autofd int fd = path_open_beneath(job->data_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int stage_file(struct job *job, const struct edit *edit, const struct unit *unit, const char *to)
{
    autofd int from = -1, fd = -1;
    int r = open_source(job, edit->path, &from);

    if (r < 0)
        return r;
    fd = path_open_beneath(job->base_fd, to, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return fd;
    r = copyup_content(from, fd, INT64_MAX);
    xattr_copy(from, fd);
    /* The owner before the mode: chown(2) takes bits away. */
    if (r == 0)
        r = give(fd, unit);
    if (r == 0 && fchmod(fd, edit->now & 0777) < 0)
        r = -errno;
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r;
}

static int stage_link(struct job *job, const struct edit *edit, const struct unit *unit, const char *to)
{
    char target[PATH_MAX];
    const char *name;
    autofd int link = path_open_beneath(job->data_fd, edit->path, O_PATH, 0), parent = -1;
    ssize_t n = link < 0 ? -1 : readlinkat(link, "", target, sizeof(target) - 1);
    int r;

    if (n < 0)
        return link < 0 ? link : -errno;
    target[n] = 0;
    r = path_open_parent_beneath(job->base_fd, to, &parent, &name);
    if (r < 0)
        return r;
    if (symlinkat(target, parent, name) < 0)
        return -errno;
    if (geteuid() == 0 && fchownat(parent, name, unit->uid, unit->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

/* Directories are open to us until all is in them; finish_dirs() gives them their modes. */
static int stage_dirs(struct job *job, const struct unit *unit, const char *path)
{
    autofree char *to = xprintf("%s%s", unit->temp_path, path + strlen(unit->path));

    return path_mkdirs_beneath(job->base_fd, to, 0700);
}

static int stage_one(struct job *job, size_t i)
{
    const struct edit *edit = &job->edits->items[i];
    const struct unit *unit = &job->units[job->unit_of[i]];
    autofree char *to = xprintf("%s%s", unit->temp_path, edit->path + strlen(unit->path));
    const char *slash = strrchr(edit->path, '/');
    int r = 0;

    fault("apply-staging");
    if (S_ISDIR(edit->now))
        return stage_dirs(job, unit, edit->path);
    if (edit->path[strlen(unit->path)]) {
        autofree char *parent = xdupn(edit->path, (size_t) (slash - edit->path));
        r = stage_dirs(job, unit, parent);
    }
    if (r == 0)
        r = S_ISLNK(edit->now) ? stage_link(job, edit, unit, to) : stage_file(job, edit, unit, to);
    return r;
}

struct dressing {
    struct job *job;
    const struct unit *unit;
    struct buf dirs; /* paths below the unit, each with its NUL; parents first */
};

static int on_staged(const struct file_entry *entry, void *cookie)
{
    struct dressing *d = cookie;

    if (S_ISDIR(entry->st->st_mode))
        buf_add(&d->dirs, entry->path, entry->path_len + 1);
    return FILE_WALK_ON;
}

/* As the delta has it. What mkdir(2) inherited of set-group-ID stays: it is the base's way. */
static int dress_dir(struct dressing *d, const char *below)
{
    autofree char *from = xprintf("%s%s%s", d->unit->path, *below ? "/" : "", below);
    autofree char *to = xprintf("%s%s%s", d->unit->temp_path, *below ? "/" : "", below);
    autofd int source = path_open_beneath(d->job->data_fd, from, O_PATH | O_DIRECTORY, 0);
    autofd int fd = path_open_beneath(d->job->base_fd, to, O_RDONLY | O_DIRECTORY, 0);
    struct stat was, is;
    int r;

    if (source < 0 || fd < 0)
        return source < 0 ? source : fd;
    if (fstat(source, &was) < 0 || fstat(fd, &is) < 0)
        return -errno;
    r = give(fd, d->unit);
    if (r == 0 && fchmod(fd, (was.st_mode & 0777) | (is.st_mode & S_ISGID)) < 0)
        r = -errno;
    if (r == 0 && fsync(fd) < 0 && errno != EINVAL)
        r = -errno;
    return r;
}

/* From the deepest up: a directory that we could not search any more would keep us from those in it. */
static int finish_dirs(struct job *job, const struct unit *unit)
{
    struct dressing d = { job, unit, BUF_EMPTY };
    struct err err = ERR_NONE;
    int r = file_walk(job->base_fd, unit->temp_path, on_staged, &d, &err);

    for (size_t end = d.dirs.len; r == 0 && end > 0;) {
        size_t start = end - 1;
        while (start > 0 && d.dirs.data[start - 1])
            start--;
        r = dress_dir(&d, d.dirs.data + start);
        end = start;
    }
    if (r == 0)
        r = dress_dir(&d, "");
    buf_done(&d.dirs);
    return r;
}

int job_stage(struct job *job, struct err *err)
{
    int r = note_names(job);

    if (r < 0)
        return err_errno(err, r, "noting what is about to be applied");
    for (size_t i = 0; i < job->edits->count && r == 0; i++) {
        if (job->unit_of[i] == JOB_NO_UNIT)
            continue;
        r = stage_one(job, i);
        if (r < 0) {
            autofree char *shown = job_quote(job->edits->items[i].path);
            return err_errno(err, r, "staging %s; nothing was changed", shown);
        }
    }
    for (size_t i = 0; i < job->unit_count && r == 0; i++) {
        r = job->units[i].is_dir ? finish_dirs(job, &job->units[i]) : 0;
        if (r < 0) {
            autofree char *shown = job_quote(job->units[i].path);
            return err_errno(err, r, "staging %s; nothing was changed", shown);
        }
    }
    return 0;
}
