/* Applies changes to a directory: stages files beside their places, lists the steps, and performs all of them or none. */
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
#include "review/apply_txn_int.h"

#define STATUS_BYTES_MAX ((size_t) 64 << 10)

char *apply_txn_temp_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    char temp[ID_TEXT_MAX];

    id_new(FILE_TEMP_PREFIX, temp);
    return xprintf("%.*s%s", slash ? (int) (slash + 1 - path) : 0, path, temp);
}

/* ---- units ---- */

/* Finds the shortest prefix of the path that is not a directory in the project. `ret_len` is its length. */
static int missing_from(int base_fd, const char *path, size_t *ret_len)
{
    for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
        autofree char *beginning = xdupn(path, (size_t) (slash - path));
        autofd int fd = path_open_beneath(base_fd, beginning, O_PATH | O_DIRECTORY, 0);
        if (err_errno_is_exhaustion(fd))
            return fd;
        if (fd < 0) {
            *ret_len = (size_t) (slash - path);
            return 0;
        }
    }
    *ret_len = strlen(path);
    return 0;
}

/* Reads our umask without changing it: other threads may create files meanwhile. */
static mode_t read_umask(void)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const char *line =
        fd >= 0 && fd_read_all(fd, STATUS_BYTES_MAX, &text) == 0 && text.len > 0 ? strstr(text.data, "\nUmask:") : NULL;

    return line ? (mode_t) strtoul(line + strlen("\nUmask:"), NULL, 8) & 0777 : 022;
}

/* The directory limits the mode as the umask does: a user who may not enter it gets no access to files in it. */
static mode_t mask_in(const struct apply_txn *txn, mode_t directory)
{
    return (mode_t) (0700 | (directory & 0010 ? 0070 : 0) | (directory & 0001 ? 0007 : 0)) & ~txn->umask;
}

/* A replaced file keeps its mode, or gets the one that was shown; a restored file gets exactly its old one. */
static mode_t planned_mode(const struct apply_txn *txn, const struct staged_change *w)
{
    bool is_new = !w->change.attrs && ((w->change.was.st_mode ^ w->change.now) & S_IFMT);

    return w->change.now & (is_new ? txn->units[w->unit].mask | 0700 : 0777);
}

/* A file keeps its owner; a new one belongs to the owner of the directory. */
static int describe_unit(struct apply_txn *txn, const struct staged_change *w, struct apply_unit *unit)
{
    const char *name;
    autofd int parent = -1;
    struct stat dir;
    int r = path_open_parent_beneath(txn->site.base_fd, unit->path, &parent, &name);

    if (r < 0)
        return r;
    if (fstat(parent, &dir) < 0)
        return -errno;
    if (strcmp(w->change.path, unit->path) == 0)
        unit->was = w->change.was;
    else if (fstatat(parent, name, &unit->was, AT_SYMLINK_NOFOLLOW) < 0)
        unit->was = (struct stat){ 0 };
    const struct stat *owner = S_ISREG(unit->was.st_mode) && !unit->is_dir ? &unit->was : &dir;
    unit->uid = owner->st_uid;
    unit->gid = owner->st_gid;
    unit->mask = mask_in(txn, dir.st_mode);
    return 0;
}

/* Finds the unit of the directory that must be created for the path. It is among the last ones: only names with the same
 * prefix sort between a directory and its contents. */
static size_t find_unit(const struct apply_txn *txn, const char *path, size_t len)
{
    for (size_t k = txn->unit_count; k-- > 0;) {
        const struct apply_unit *unit = &txn->units[k];
        if (strlen(unit->path) == len && memcmp(unit->path, path, len) == 0)
            return k;
    }
    return APPLY_TXN_NO_UNIT;
}

static int add_unit(struct apply_txn *txn, const struct staged_change *w, size_t len)
{
    vec_room(&txn->units, &txn->unit_cap, txn->unit_count);
    struct apply_unit *unit = &txn->units[txn->unit_count++];
    *unit = (struct apply_unit){ .path = xdupn(w->change.path, len), .is_dir = w->change.path[len] || S_ISDIR(w->change.now) };
    unit->temp = apply_txn_temp_beside(unit->path);
    return describe_unit(txn, w, unit);
}

static int plan_change(struct apply_txn *txn, struct staged_change *w)
{
    size_t len = 0;
    int r = missing_from(txn->site.base_fd, w->change.path, &len);

    if (r < 0)
        return r;
    w->unit = w->change.path[len] ? find_unit(txn, w->change.path, len) : APPLY_TXN_NO_UNIT;
    if (w->unit == APPLY_TXN_NO_UNIT) {
        r = add_unit(txn, w, len);
        w->unit = txn->unit_count - 1;
    }
    return r;
}

static int plan_units(struct apply_txn *txn, struct err *err)
{
    for (size_t i = 0; i < txn->change_count; i++) {
        struct staged_change *w = &txn->changes[i];
        w->unit = APPLY_TXN_NO_UNIT;
        int r = w->change.now && !w->change.is_mode_only ? plan_change(txn, w) : 0;
        if (r < 0)
            return apply_txn_stage_failed(w->change.path, r, err);
    }
    return 0;
}

/* ---- staging ---- */

/* Without root, sets only the group, if we may; the owner is our user. */
static int directory_give(int fd, const struct staged_change *w, const struct apply_unit *unit)
{
    bool is_root = geteuid() == 0;
    uid_t uid = w && w->change.attrs ? w->attrs.st_uid : unit->uid;
    gid_t gid = w && w->change.attrs ? w->attrs.st_gid : unit->gid;

    return fchown(fd, is_root ? uid : (uid_t) -1, gid) < 0 && is_root ? -errno : 0;
}

static int open_source(const struct apply_txn_change *change, int *ret_fd)
{
    struct stat st;
    autofd int fd = path_open_beneath(change->source_fd, change->source_path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -ESTALE;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int apply_txn_fill(const struct apply_txn_change *change, int fd)
{
    autofd int from = -1;
    int r;

    if (change->bytes)
        return fd_write_full(fd, change->bytes->data ? change->bytes->data : "", change->bytes->len);
    r = open_source(change, &from);
    if (r == 0)
        r = copyup_content(from, fd, INT64_MAX);
    if (r == 0)
        xattr_copy(from, fd);
    return r;
}

/* Hashes the bytes that are in the file now, not those that were read for it. */
int apply_txn_check_hash(struct staged_change *w, int fd)
{
    uint8_t hash[FILE_STATE_HASH_BYTES];
    int r = file_state_hash_fd(fd, hash);

    if (r < 0)
        return r;
    if (w->has_hash && memcmp(hash, w->hash, sizeof(hash)) != 0)
        return -ESTALE;
    memcpy(w->hash, hash, sizeof(hash));
    w->has_hash = true;
    return 0;
}

static int stage_file(struct apply_txn *txn, struct staged_change *w, const char *to)
{
    autofd int fd = path_open_beneath(txn->site.base_fd, to, O_RDWR | O_CREAT | O_EXCL, 0600);
    int r = fd < 0 ? fd : apply_txn_fill(&w->change, fd);

    if (r == 0)
        r = apply_txn_check_hash(w, fd);
    /* The owner comes before the mode, because chown(2) clears bits. */
    if (r == 0)
        r = directory_give(fd, w, &txn->units[w->unit]);
    if (r == 0 && fchmod(fd, planned_mode(txn, w)) < 0)
        r = -errno;
    if (r == 0 && w->change.attrs)
        futimens(fd, (struct timespec[]){ w->attrs.st_mtim, w->attrs.st_mtim });
    if (r == 0 && txn->change_count <= APPLY_TXN_SYNC_EACH_MOST && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && fstat(fd, &w->staged) < 0)
        r = -errno;
    return r;
}

int apply_txn_read_target(const struct apply_txn_change *change, char target[PATH_MAX])
{
    autofd int link = -1;
    ssize_t n;

    if (change->bytes) {
        if (change->bytes->len >= PATH_MAX)
            return -ENAMETOOLONG;
        memcpy(target, change->bytes->data, change->bytes->len);
        target[change->bytes->len] = 0;
        return 0;
    }
    link = path_open_beneath(change->source_fd, change->source_path, O_PATH, 0);
    n = link < 0 ? -1 : readlinkat(link, "", target, PATH_MAX - 1);
    if (n < 0)
        return link < 0 ? link : -errno;
    target[n] = 0;
    return 0;
}

static int stage_link(struct apply_txn *txn, struct staged_change *w, const char *to)
{
    const struct apply_unit *unit = &txn->units[w->unit];
    char target[PATH_MAX];
    const char *name;
    autofd int parent = -1;
    int r = apply_txn_read_target(&w->change, target);

    if (r == 0)
        r = path_open_parent_beneath(txn->site.base_fd, to, &parent, &name);
    if (r != 0)
        return r;
    if (symlinkat(target, parent, name) < 0)
        return -errno;
    const struct stat *attrs = w->change.attrs ? &w->attrs : NULL;
    if (geteuid() == 0 &&
        fchownat(parent, name, attrs ? attrs->st_uid : unit->uid, attrs ? attrs->st_gid : unit->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (attrs)
        utimensat(parent, name, (struct timespec[]){ attrs->st_mtim, attrs->st_mtim }, AT_SYMLINK_NOFOLLOW);
    return fstatat(parent, name, &w->staged, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Directories are writable for us until they are complete; set_staged_dir_modes() then sets their modes. */
static int stage_dirs(struct apply_txn *txn, const struct apply_unit *unit, const char *path, size_t len)
{
    autofree char *to = xprintf("%s%.*s", unit->temp, (int) (len - strlen(unit->path)), path + strlen(unit->path));

    return path_mkdirs_beneath(txn->site.base_fd, to, 0700);
}

static int stage_change(struct apply_txn *txn, struct staged_change *w)
{
    const struct apply_unit *unit = &txn->units[w->unit];
    const char *path = w->change.path, *slash = strrchr(path, '/');
    autofree char *to = xprintf("%s%s", unit->temp, path + strlen(unit->path));
    int r = 0;

    fault("landing-staging");
    if (S_ISDIR(w->change.now))
        return stage_dirs(txn, unit, path, strlen(path));
    if (path[strlen(unit->path)])
        r = stage_dirs(txn, unit, path, (size_t) (slash - path));
    if (r == 0)
        r = S_ISLNK(w->change.now) ? stage_link(txn, w, to) : stage_file(txn, w, to);
    return r;
}

/* The set-group-ID bit that mkdir(2) inherited stays, because the project shares files that way. */
static int set_staged_dir_mode(struct apply_txn *txn, struct staged_change *w)
{
    const struct apply_unit *unit = &txn->units[w->unit];
    autofree char *to = xprintf("%s%s", unit->temp, w->change.path + strlen(unit->path));
    autofd int fd = path_open_beneath(txn->site.base_fd, to, O_RDONLY | O_DIRECTORY, 0);
    int r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &w->staged) < 0)
        return -errno;
    r = directory_give(fd, w, unit);
    if (r == 0 && fchmod(fd, planned_mode(txn, w) | (w->staged.st_mode & S_ISGID)) < 0)
        r = -errno;
    if (r == 0 && fsync(fd) < 0 && errno != EINVAL)
        r = -errno;
    if (r == 0 && fstat(fd, &w->staged) < 0)
        r = -errno;
    return r;
}

/* A parent directory without a planned change of its own: it existed when the agent worked in it, and is gone from the
 * project. */
struct unplanned_parent {
    struct apply_txn *txn;
    const struct apply_unit *unit;
};

static int set_parent_mode(const struct unplanned_parent *u, int fd, const char *path)
{
    int r;

    if (apply_txn_find(u->txn, path, strlen(path)))
        return 0;
    r = directory_give(fd, NULL, u->unit);
    return r == 0 && fchmod(fd, 0755 & (u->unit->mask | 0700)) < 0 ? -errno : r;
}

static int on_staged(const struct file_entry *entry, void *cookie)
{
    const struct unplanned_parent *u = cookie;
    autofree char *path = xprintf("%s/%s", u->unit->path, entry->path);

    if (!S_ISDIR(entry->st->st_mode))
        return FILE_WALK_ON;
    autofd int fd = path_open_beneath(entry->dirfd, entry->name, O_RDONLY | O_DIRECTORY, 0);
    int r = fd < 0 ? fd : set_parent_mode(u, fd, path);
    return r < 0 ? r : FILE_WALK_ON;
}

static int set_parent_modes(struct apply_txn *txn, struct err *err)
{
    for (size_t i = 0; i < txn->unit_count; i++) {
        struct unplanned_parent u = { txn, &txn->units[i] };
        if (!u.unit->is_dir)
            continue;
        autofd int fd = path_open_beneath(txn->site.base_fd, u.unit->temp, O_RDONLY | O_DIRECTORY, 0);
        int r = fd < 0 ? fd : file_walk(txn->site.base_fd, u.unit->temp, on_staged, &u, err);
        if (r == 0)
            r = set_parent_mode(&u, fd, u.unit->path);
        if (r < 0)
            return apply_txn_stage_failed(u.unit->path, r, err);
    }
    return 0;
}

/* From the deepest up: otherwise a directory that we can no longer search would keep us from those in it. */
static int set_staged_dir_modes(struct apply_txn *txn, struct err *err)
{
    for (size_t i = txn->change_count; i-- > 0;) {
        struct staged_change *w = &txn->changes[i];
        int r = w->unit != APPLY_TXN_NO_UNIT && S_ISDIR(w->change.now) ? set_staged_dir_mode(txn, w) : 0;
        if (r < 0)
            return apply_txn_stage_failed(w->change.path, r, err);
    }
    return 0;
}

static int look_at_units(struct apply_txn *txn, struct err *err)
{
    for (size_t i = 0; i < txn->unit_count; i++) {
        autofd int fd = path_open_beneath(txn->site.base_fd, txn->units[i].temp, O_PATH, 0);
        if (fd < 0 || fstat(fd, &txn->units[i].staged) < 0)
            return apply_txn_stage_failed(txn->units[i].path, fd < 0 ? fd : -errno, err);
    }
    return 0;
}

static int stage_changes(struct apply_txn *txn, struct err *err)
{
    int r;

    for (size_t i = 0; i < txn->change_count; i++) {
        struct staged_change *w = &txn->changes[i];
        r = w->unit != APPLY_TXN_NO_UNIT ? stage_change(txn, w) : 0;
        if (r < 0)
            return apply_txn_stage_failed(w->change.path, r, err);
    }
    r = set_parent_modes(txn, err);
    if (r == 0)
        r = set_staged_dir_modes(txn, err);
    if (r == 0)
        r = look_at_units(txn, err);
    if (r == 0 && txn->change_count > APPLY_TXN_SYNC_EACH_MOST && syncfs(txn->site.base_fd) < 0)
        r = err_errno(err, -errno, "syncing what was staged; nothing was changed");
    return r;
}

/* ---- staging everything ---- */

/* Notes the names before any file is created, so that recovery finds the files of a killed run. */
static int note_names(struct apply_txn *txn, struct err *err)
{
    int r;

    for (size_t i = 0; i < txn->unit_count; i++)
        apply_journal_add(&txn->journal, APPLY_STEP_PUT, txn->units[i].path, txn->units[i].temp);
    r = apply_journal_write(txn->record_fd, &txn->journal);
    return r < 0 ? err_errno(err, r, "noting what is about to be written; nothing was changed") : 0;
}

static int directory_stage(struct apply_txn *txn, struct err *err)
{
    int r;

    txn->umask = read_umask() | txn->site.umask;
    r = plan_units(txn, err);
    if (r == 0)
        r = note_names(txn, err);
    fault("landing-noted-names");
    if (r == 0)
        r = stage_changes(txn, err);
    return r;
}

/* ---- steps ---- */

/* Tells whether a directory of the project is removed or becomes something else. */
static bool is_leaving(const struct apply_txn *txn, const char *path, size_t len)
{
    const struct staged_change *w = apply_txn_find(txn, path, len);

    return w && S_ISDIR(w->change.was.st_mode) && !S_ISDIR(w->change.now);
}

/* Chooses a name beside the topmost parent directory that is removed: a file moved aside inside it would keep it from being
 * removed. */
static char *path_aside(const struct apply_txn *txn, const char *path)
{
    size_t len = strlen(path);

    for (;;) {
        const char *slash = memrchr(path, '/', len);
        size_t above = slash ? (size_t) (slash - path) : 0;
        if (above == 0 || !is_leaving(txn, path, above))
            break;
        len = above;
    }
    autofree char *top = xdupn(path, len);
    return apply_txn_temp_beside(top);
}

static void add_put_step(struct apply_txn *txn, const struct apply_unit *unit)
{
    struct apply_step *step = apply_journal_add(&txn->journal, APPLY_STEP_PUT, unit->path, unit->temp);
    const struct staged_change *w = apply_txn_find(txn, unit->path, strlen(unit->path));

    /* A directory in its place has been removed by then. */
    if (!S_ISDIR(unit->was.st_mode) && unit->was.st_mode)
        step->was = apply_step_file_of(&unit->was);
    if (w)
        apply_txn_describe_now(w, step);
    step->now = apply_step_file_of(&unit->staged);
    if (w)
        memcpy(step->kept, w->kept, sizeof(step->kept));
}

static void add_part_step(struct apply_txn *txn, const struct staged_change *w)
{
    struct apply_step *step = apply_journal_add(&txn->journal, APPLY_STEP_PART, w->change.path, NULL);

    apply_txn_describe_now(w, step);
}

static void add_puts(struct apply_txn *txn, bool over_dirs)
{
    for (size_t i = 0; i < txn->unit_count; i++) {
        if (S_ISDIR(txn->units[i].was.st_mode) == over_dirs)
            add_put_step(txn, &txn->units[i]);
    }
}

static void add_leaving_step(struct apply_txn *txn, const struct staged_change *w)
{
    autofree char *aside = path_aside(txn, w->change.path);
    struct apply_step *step = apply_journal_add(
        &txn->journal, S_ISDIR(w->change.was.st_mode) ? APPLY_STEP_RMDIR : APPLY_STEP_REMOVE, w->change.path, aside);

    step->was = apply_step_file_of(&w->change.was);
    memcpy(step->kept, w->kept, sizeof(step->kept));
}

/* New files come before deletions, so that a renamed file exists at every moment. A file in the place of a directory waits
 * until that is empty, from the last to the first. Modes come last, from the deepest up. */
static void list_steps(struct apply_txn *txn)
{
    add_puts(txn, false);
    for (size_t i = 0; i < txn->change_count; i++) {
        const struct staged_change *w = &txn->changes[i];
        if (w->unit != APPLY_TXN_NO_UNIT && strcmp(txn->units[w->unit].path, w->change.path) != 0)
            add_part_step(txn, w);
    }
    for (size_t i = txn->change_count; i-- > 0;) {
        const struct staged_change *w = &txn->changes[i];
        if (!w->change.now || (w->unit != APPLY_TXN_NO_UNIT && S_ISDIR(w->change.was.st_mode) && !S_ISDIR(w->change.now)))
            add_leaving_step(txn, w);
    }
    add_puts(txn, true);
    for (size_t i = txn->change_count; i-- > 0;) {
        const struct staged_change *w = &txn->changes[i];
        if (!w->change.now || !w->change.is_mode_only)
            continue;
        struct apply_step *step = apply_journal_add(&txn->journal, APPLY_STEP_MODE, w->change.path, NULL);
        step->was = apply_step_file_of(&w->change.was);
        step->now = step->was;
        step->now.mode = (step->was.mode & ~(mode_t) 0777) | (w->change.now & 0777);
    }
}

/* ---- the commit ---- */

static int step_failed(const struct apply_journal *journal, size_t step, int r, struct err *err)
{
    autofree char *shown = apply_txn_quote(journal->steps[step].path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r, "%s was changed by somebody else meanwhile; nothing was changed", shown);
    return err_errno(err, r, "writing %s; nothing was changed", shown);
}

/* `ret_left` is the last step that was not rolled back, because somebody else changed the file, or SIZE_MAX. Such files
 * stay changed. */
static int roll_back_steps(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, size_t *ret_left)
{
    int r = apply_journal_roll_back(site->base_fd, record_fd, journal, ret_left);

    if (r < 0)
        return r;
    apply_journal_sync(site->base_fd, journal);
    return apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLED_BACK);
}

/* Rolls back all steps; the next recovery continues if that fails. The caller reports that nothing was changed, so the
 * journal is first marked as one that must not be performed. */
static int fail_and_roll_back(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, size_t failed,
                              int r, struct err *err)
{
    size_t left;

    apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLING_BACK);
    fault("landing-given-up");
    roll_back_steps(site, record_fd, journal, &left);
    step_failed(journal, failed, r, err);
    if (left != SIZE_MAX) {
        autofree char *shown = apply_txn_quote(journal->steps[left].path);
        err_wrap(err, r, "%s could not be put back", shown);
    }
    return r;
}

static int directory_perform(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                             struct err *err)
{
    size_t failed = 0;
    int r = apply_journal_perform(site->base_fd, journal, &failed);

    (void) id;
    if (r < 0)
        return fail_and_roll_back(site, record_fd, journal, failed, r, err);
    r = apply_journal_sync(site->base_fd, journal);
    if (r < 0)
        return fail_and_roll_back(site, record_fd, journal, journal->count - 1, r, err);
    fault("landing-landed");
    /* All is written, even if that cannot be noted now; then it is noted later. */
    apply_journal_mark(record_fd, journal, APPLY_TXN_DONE);
    return 0;
}

static int directory_roll_back(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err)
{
    size_t left;

    (void) err;
    return roll_back_steps(site, record_fd, journal, &left);
}

static int directory_clean(const struct apply_txn_site *site, int record_fd, const struct apply_journal *journal)
{
    (void) record_fd;
    return apply_journal_clean(site->base_fd, journal);
}

const struct apply_txn_ops apply_txn_in_directory = { directory_stage,   list_steps,          directory_perform,
                                                      directory_perform, directory_roll_back, directory_clean };
