/*
 * Applies changes to a codebase. New files are staged in <record>/tree, each named by a number; then one transaction of the
 * codebase moves them into their places and removes deleted files. The version's reason ends with the id of the record, which
 * shows after a kill whether the version was made. A version holds no modes of directories.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/codebase_txn.h"
#include "codebase/codebase_version.h"
#include "fence/copyup.h"
#include "fence/xattr.h"
#include "review/apply_txn_int.h"

#define TREE "tree"
#define VERSION_FILE "version"
#define VERSION_TEXT_MAX 24
#define MESSAGE_MAX 128

uint64_t apply_txn_version(int record_fd)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    return file_read(record_fd, VERSION_FILE, VERSION_TEXT_MAX, &text) == 0 && text.len > 0 ? strtoull(text.data, NULL, 10) : 0;
}

/* A failure loses nothing: the codebase can tell, for as long as it keeps the version. */
static void note_version(int record_fd, uint64_t version)
{
    char text[VERSION_TEXT_MAX];
    int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", version);

    if (version > 0)
        file_put(record_fd, VERSION_FILE, text, (size_t) len, 0600);
}

/* ---- staging ---- */

/* The codebase replaces a file to change its mode; the content is then the present one. */
static int copy_base_file(const struct apply_txn *txn, const struct staged_change *w, int to)
{
    autofd int from = path_open_beneath(txn->site.base_fd, w->change.path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    struct apply_step_file was = apply_step_file_of(&w->change.was);
    struct stat st;
    int r = from;

    if (from >= 0)
        r = fstat(from, &st) < 0 ? -errno : apply_step_file_matches(&was, &st) ? copyup_content(from, to, INT64_MAX) : -ESTALE;
    if (r == 0)
        xattr_copy(from, to);
    return r;
}

static int stage_file(struct apply_txn *txn, struct staged_change *w, int tree_fd, const char *name)
{
    autofd int fd = path_open_beneath(tree_fd, name, O_RDWR | O_CREAT | O_EXCL, 0600);
    int r = fd < 0 ? fd : w->change.is_mode_only ? copy_base_file(txn, w, fd) : apply_txn_fill(&w->change, fd);

    if (r == 0)
        r = apply_txn_check_hash(w, fd);
    /* A codebase must be able to read its files. */
    if (r == 0 && fchmod(fd, (w->change.now & 0777) | 0400) < 0)
        r = -errno;
    if (r == 0 && w->change.attrs)
        futimens(fd, (struct timespec[]){ w->attrs.st_mtim, w->attrs.st_mtim });
    if (r == 0 && txn->change_count <= APPLY_TXN_SYNC_EACH_MOST && fsync(fd) < 0)
        r = -errno;
    return r;
}

static int stage_link(struct staged_change *w, int tree_fd, const char *name)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    char target[PATH_MAX];
    int r = apply_txn_read_target(&w->change, target);

    if (r == 0 && symlinkat(target, tree_fd, name) < 0)
        r = -errno;
    if (r == 0 && w->change.attrs)
        utimensat(tree_fd, name, (struct timespec[]){ w->attrs.st_mtim, w->attrs.st_mtim }, AT_SYMLINK_NOFOLLOW);
    /* An undo cannot identify the file by its inode number, because the codebase creates it anew. */
    if (r == 0)
        r = file_state_read(tree_fd, name, &state);
    w->has_hash = r == 0;
    memcpy(w->hash, state.hash, sizeof(w->hash));
    return r;
}

static int codebase_stage(struct apply_txn *txn, struct err *err)
{
    int r = apply_journal_write(txn->record_fd, &txn->journal);

    if (r == 0)
        r = path_mkdirs_beneath(txn->record_fd, TREE, 0700);
    autofd int tree_fd = r < 0 ? r : path_open_beneath(txn->record_fd, TREE, O_RDONLY | O_DIRECTORY, 0);
    if (tree_fd < 0)
        return err_errno(err, tree_fd, "making a place for what is about to be written; nothing was changed");
    for (size_t i = 0; i < txn->change_count; i++) {
        struct staged_change *w = &txn->changes[i];
        autofree char *name = xprintf("%zu", i);
        fault("landing-staging");
        if (!w->change.now || S_ISDIR(w->change.now))
            continue;
        r = S_ISLNK(w->change.now) ? stage_link(w, tree_fd, name) : stage_file(txn, w, tree_fd, name);
        if (r == 0 && fstatat(tree_fd, name, &w->staged, AT_SYMLINK_NOFOLLOW) < 0)
            r = -errno;
        if (r < 0)
            return apply_txn_stage_failed(w->change.path, r, err);
    }
    r = txn->change_count > APPLY_TXN_SYNC_EACH_MOST && syncfs(txn->record_fd) < 0 ? -errno : file_fsync_dir(tree_fd);
    return r < 0 ? err_errno(err, r, "syncing what was staged; nothing was changed") : 0;
}

/* Steps are in the order of the changes. A directory that becomes a file has its own step, as in a directory's journal. */
static void list_steps(struct apply_txn *txn)
{
    for (size_t i = 0; i < txn->change_count; i++) {
        const struct staged_change *w = &txn->changes[i];
        bool was_dir = S_ISDIR(w->change.was.st_mode), is_dir = S_ISDIR(w->change.now);
        struct apply_step *step;

        if (!w->change.now || (was_dir && !is_dir)) {
            step = apply_journal_add(&txn->journal, was_dir ? APPLY_STEP_RMDIR : APPLY_STEP_REMOVE, w->change.path, NULL);
            step->was = apply_step_file_of(&w->change.was);
            memcpy(step->kept, w->kept, sizeof(step->kept));
        }
        if (!w->change.now || (was_dir && is_dir))
            continue;
        autofree char *name = xprintf("%zu", i);
        step = apply_journal_add(&txn->journal, APPLY_STEP_PUT, w->change.path, is_dir ? NULL : name);
        if (!was_dir)
            step->was = apply_step_file_of(&w->change.was);
        if (!was_dir)
            memcpy(step->kept, w->kept, sizeof(step->kept));
        if (is_dir)
            step->now.mode = S_IFDIR | (w->change.now & 0777);
        else
            apply_txn_describe_now(w, step);
    }
}

/* ---- the version ---- */

static char *version_reason(const struct apply_txn_site *site, const char *id)
{
    return xprintf("%.*s (%s)", MESSAGE_MAX, site->codebase->message ? site->codebase->message : "approve", id);
}

struct search {
    const char *id;
    int64_t since_ns;
    uint64_t version; /* 0: none */
};

/* The newest first; a version that is older than the record cannot be its own. */
static int on_version(const struct codebase_version *version, void *cookie)
{
    struct search *search = cookie;
    size_t len = strlen(version->reason), id_len = strlen(search->id);

    if (len >= id_len + 2 && strncmp(version->reason + len - id_len - 1, search->id, id_len) == 0)
        search->version = version->number;
    return search->version > 0;
}

static struct codebase_change codebase_change_of_step(const struct apply_step *step, const struct apply_journal *journal)
{
    const struct apply_step_file *was = &step->was;
    struct codebase_change change = { .path = step->path, .when_ns = journal->time_ns, .seen = CODEBASE_WAS_ABSENT };

    if (was->mode)
        change.seen = (struct codebase_seen){ CODEBASE_SEEN_FILE, was->ino, was->size_bytes, was->mtime_ns };
    return change;
}

static bool is_over_directory(const struct apply_journal *journal, size_t i)
{
    return i > 0 && journal->steps[i - 1].kind == APPLY_STEP_RMDIR &&
           strcmp(journal->steps[i - 1].path, journal->steps[i].path) == 0;
}

static int add_puts(struct codebase_txn *txn, int tree_fd, const struct apply_journal *journal, bool over_directories,
                    struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < journal->count && r == 0; i++) {
        const struct apply_step *step = &journal->steps[i];
        struct codebase_change change = codebase_change_of_step(step, journal);
        if (step->kind == APPLY_STEP_PUT && is_over_directory(journal, i) == over_directories)
            r = step->temp ? codebase_txn_put(txn, &change, tree_fd, step->temp, err)
                           : codebase_txn_mkdir(txn, &change, step->now.mode & 0777, err);
    }
    return r;
}

/* New files come before deletions, so that a renamed file exists at every moment. Deletions go from the deepest up, and
 * make room for a file in the place of a directory. */
static int add_codebase_changes(struct codebase_txn *txn, int tree_fd, const struct apply_journal *journal, struct err *err)
{
    int r = add_puts(txn, tree_fd, journal, false, err);

    for (size_t i = journal->count; i-- > 0 && r == 0;) {
        struct codebase_change change = codebase_change_of_step(&journal->steps[i], journal);
        if (journal->steps[i].kind == APPLY_STEP_REMOVE || journal->steps[i].kind == APPLY_STEP_RMDIR)
            r = codebase_txn_remove(txn, &change, err);
    }
    return r == 0 ? add_puts(txn, tree_fd, journal, true, err) : r;
}

static int make_version(const struct apply_txn_site *site, const char *id, int record_fd, const struct apply_journal *journal,
                        uint64_t *ret_version, struct err *err)
{
    autodone(codebase_commit) struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    autofree char *reason = version_reason(site, id);
    autoptr(codebase_txn) txn = NULL;
    autofd int tree_fd = path_open_beneath(record_fd, TREE, O_RDONLY | O_DIRECTORY, 0);
    int r = tree_fd < 0 ? err_errno(err, tree_fd, "opening what was staged") : 0;

    if (r == 0)
        r = codebase_txn_begin_exact(site->codebase->codebase, site->codebase->by, reason, &txn, err);
    if (r == 0)
        r = add_codebase_changes(txn, tree_fd, journal, err);
    if (r == 0)
        r = codebase_txn_commit(txn, &commit, err);
    if (r == 0)
        *ret_version = commit.change_count > 0 ? commit.version : 0;
    return r;
}

/* The version exists, even if that cannot be noted now; then it is noted later. */
static void note_version_done(int record_fd, struct apply_journal *journal, uint64_t version)
{
    fault("landing-version-made");
    note_version(record_fd, version);
    fault("landing-landed");
    apply_journal_mark(record_fd, journal, APPLY_TXN_DONE);
}

static int codebase_perform(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                            struct err *err)
{
    struct err why = ERR_NONE;
    uint64_t version = 0;
    int r = make_version(site, id, record_fd, journal, &version, &why);

    /* -EINPROGRESS: the version is begun, and the next user of the codebase finishes it. */
    if (r < 0 && r != -EINPROGRESS) {
        apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLED_BACK);
        if (err)
            *err = why;
        return err_wrap(err, r, "nothing was changed");
    }
    note_version_done(record_fd, journal, version);
    return 0;
}

static int codebase_resume(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                           struct err *err)
{
    struct search search = { .id = id };
    int r;

    if (!site->codebase || strcmp(codebase_id(site->codebase->codebase), journal->codebase) != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EOPNOTSUPP, "an approval into codebase '%s' is not finished yet",
                       journal->codebase);
    r = codebase_settle(site->codebase->codebase, err);
    if (r == 0)
        r = codebase_versions(site->codebase->codebase, on_version, &search, err);
    if (r < 0)
        return r;
    if (search.version == 0)
        return codebase_perform(site, id, record_fd, journal, err);
    note_version_done(record_fd, journal, search.version);
    return 0;
}

static int codebase_roll_back(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err)
{
    (void) site;
    (void) err;
    return apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLED_BACK);
}

static int codebase_clean(const struct apply_txn_site *site, int record_fd, const struct apply_journal *journal)
{
    int r = file_remove_tree(record_fd, TREE);

    (void) site;
    (void) journal;
    return r == -ENOENT ? 0 : r;
}

const struct apply_txn_ops apply_txn_in_codebase = { codebase_stage,  list_steps,         codebase_perform,
                                                     codebase_resume, codebase_roll_back, codebase_clean };
