#include "review/apply_txn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "fence/copyup.h"
#include "fence/xattr.h"
#include "review/apply_txn_int.h"

const struct apply_txn_ops *apply_txn_ops_of(const struct apply_journal *journal)
{
    return *journal->codebase ? &apply_txn_in_codebase : &apply_txn_in_directory;
}

/* ---- life cycle ---- */

static int make_record(struct apply_txn *txn, struct err *err)
{
    autofree char *kept = xprintf("%s/kept", txn->id);
    int r = mkdirat(txn->site.records_fd, txn->id, 0700) < 0 ? -errno : 0;

    if (r == 0)
        r = path_mkdirs_beneath(txn->site.records_fd, kept, 0700);
    if (r == 0)
        txn->record_fd = path_open_beneath(txn->site.records_fd, txn->id, O_RDONLY | O_DIRECTORY, 0);
    if (r == 0 && txn->record_fd < 0)
        r = txn->record_fd;
    if (r == 0)
        r = file_fsync_dir(txn->site.records_fd);
    return r < 0 ? err_errno(err, r, "making a record of what is about to be written") : 0;
}

int apply_txn_new(const struct apply_txn_site *site, const char *undoes, struct apply_txn **ret, struct err *err)
{
    autoptr(apply_txn) txn = xnew(struct apply_txn);
    int r;

    txn->site = *site;
    txn->record_fd = -1;
    txn->journal = APPLY_JOURNAL_EMPTY;
    txn->journal.time_ns = clock_wall_ns();
    if (site->codebase)
        snprintf(txn->journal.codebase, sizeof(txn->journal.codebase), "%s", codebase_id(site->codebase->codebase));
    txn->ops = apply_txn_ops_of(&txn->journal);
    id_new(APPLY_TXN_ID_PREFIX, txn->id);
    if (undoes)
        snprintf(txn->journal.undoes, sizeof(txn->journal.undoes), "%s", undoes);
    r = make_record(txn, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&txn);
    return 0;
}

/* Nothing was applied. Moving files there and back has changed their ctime, so the change log gets their new state; if
 * there is no space for that, the record waits for the next recovery. */
int apply_txn_remove_abandoned(const struct apply_txn_site *site, const char *id, int record_fd,
                               const struct apply_journal *journal)
{
    int r = apply_txn_ops_of(journal)->clean(site, record_fd, journal);

    if (r == 0 && journal->state == APPLY_TXN_ROLLED_BACK && journal->back.len > 0)
        r = site->note(journal->back.data, journal->back.len, site->cookie);
    return r < 0 ? r : file_remove_tree(site->records_fd, id);
}

bool apply_txn_is_abandoned(const struct apply_journal *journal)
{
    return journal->state == APPLY_TXN_STAGING || journal->state == APPLY_TXN_ROLLED_BACK;
}

void apply_txn_free(struct apply_txn *txn)
{
    if (!txn)
        return;
    if (apply_txn_is_abandoned(&txn->journal) && txn->record_fd >= 0)
        apply_txn_remove_abandoned(&txn->site, txn->id, txn->record_fd, &txn->journal);
    for (size_t i = 0; i < txn->change_count; i++)
        free((char *) (uintptr_t) txn->changes[i].change.path);
    for (size_t i = 0; i < txn->unit_count; i++) {
        free(txn->units[i].path);
        free(txn->units[i].temp);
    }
    free(txn->changes);
    free(txn->units);
    apply_journal_done(&txn->journal);
    cleanup_fd(&txn->record_fd);
    free(txn);
}

const char *apply_txn_id(const struct apply_txn *txn)
{
    return txn->id;
}

size_t apply_txn_add(struct apply_txn *txn, const struct apply_txn_change *change)
{
    vec_room(&txn->changes, &txn->change_cap, txn->change_count);
    struct staged_change *w = &txn->changes[txn->change_count];
    *w = (struct staged_change){ .change = *change, .has_hash = change->hash };
    w->change.path = xdup(change->path);
    if (change->attrs)
        w->attrs = *change->attrs;
    if (change->hash)
        memcpy(w->hash, change->hash, sizeof(w->hash));
    return txn->change_count++;
}

const struct stat *apply_txn_staged(const struct apply_txn *txn, size_t change)
{
    return &txn->changes[change].staged;
}

uint64_t apply_txn_version_of(const struct apply_txn *txn)
{
    return txn->site.codebase ? apply_txn_version(txn->record_fd) : 0;
}

/* ---- staging ---- */

char *apply_txn_quote(const char *path)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    buf_add_char(&text, '\'');
    buf_add_excerpt(&text, path, strlen(path));
    buf_add_char(&text, '\'');
    return buf_dup_take(&text);
}

int apply_txn_stage_failed(const char *path, int r, struct err *err)
{
    autofree char *shown = apply_txn_quote(path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r, "%s changed while it was being read; nothing was changed", shown);
    return err_errno(err, r, "staging %s; nothing was changed", shown);
}

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

/* Keeps copies of all that will be replaced or removed. */
static int keep_old_files(struct apply_txn *txn, struct err *err)
{
    for (size_t i = 0; i < txn->change_count; i++) {
        struct staged_change *w = &txn->changes[i];
        bool is_file = S_ISREG(w->change.was.st_mode), is_link = S_ISLNK(w->change.was.st_mode);
        /* A codebase replaces a file to change its mode. */
        if ((!is_file && !is_link) || (w->change.is_mode_only && !txn->site.codebase))
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

int apply_txn_stage(struct apply_txn *txn, struct err *err)
{
    int r = txn->ops->stage(txn, err);

    if (r == 0)
        r = keep_old_files(txn, err);
    fault("landing-staged");
    return r;
}

/* ---- the journal ---- */

struct staged_change *apply_txn_find(const struct apply_txn *txn, const char *path, size_t len)
{
    size_t low = 0, high = txn->change_count;

    while (low < high) {
        size_t mid = (low + high) / 2;
        int r = strncmp(path, txn->changes[mid].change.path, len);
        r = r == 0 && txn->changes[mid].change.path[len] ? -1 : r;
        if (r == 0)
            return &txn->changes[mid];
        if (r < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

void apply_txn_describe_now(const struct staged_change *w, struct apply_step *step)
{
    step->now = apply_step_file_of(&w->staged);
    for (size_t i = 0; w->has_hash && i < FILE_STATE_HASH_BYTES; i++)
        snprintf(step->hash + 2 * i, 3, "%02x", w->hash[i]);
}

/* ---- the commit ---- */

static void move_text(struct buf *to, const struct buf *from)
{
    buf_clear(to);
    if (from)
        buf_add(to, from->data ? from->data : "", from->len);
}

/* A journal that could not be synced may still be on disk, and recovery must not perform it: it gets the name of a
 * rolled-back one. The previous journal takes that name instead if there is no new one, and still lists the staged files. A
 * rename needs neither disk space nor descriptors. */
static void withdraw_journal(struct apply_txn *txn)
{
    apply_journal_mark(txn->record_fd, &txn->journal, APPLY_TXN_ROLLED_BACK);
    txn->journal.state = APPLY_TXN_STAGING;
}

int apply_txn_commit(struct apply_txn *txn, const struct apply_txn_texts *texts, struct err *err)
{
    int r;

    apply_journal_clear(&txn->journal);
    txn->ops->list_steps(txn);
    move_text(&txn->journal.notes, texts->notes);
    move_text(&txn->journal.back, texts->back);
    move_text(&txn->journal.drops, texts->drops);
    move_text(&txn->journal.follow_up, texts->follow_up);
    txn->journal.state = APPLY_TXN_INTENT;
    r = apply_journal_write(txn->record_fd, &txn->journal);
    if (r < 0) {
        withdraw_journal(txn);
        return err_errno(err, r, "noting what is about to be written; nothing was changed");
    }
    fault("landing-intent");
    return txn->ops->perform(&txn->site, txn->id, txn->record_fd, &txn->journal, err);
}

int apply_txn_finish_journal(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err)
{
    /* The files that were moved aside show which steps were done, so they are removed only after the journal is marked as
     * done. */
    int r = journal->state == APPLY_TXN_INTENT ? apply_journal_mark(record_fd, journal, APPLY_TXN_DONE) : 0;

    fault("landing-done");
    if (r == 0)
        r = apply_txn_ops_of(journal)->clean(site, record_fd, journal);
    fault("landing-cleaned");
    if (r == 0 && journal->notes.len > 0)
        r = site->note(journal->notes.data, journal->notes.len, site->cookie);
    fault("landing-noted");
    if (r == 0)
        r = apply_journal_mark(record_fd, journal, journal->follow_up.len > 0 ? APPLY_TXN_FOLLOW_UP : APPLY_TXN_FINISHED);
    fault("landing-follow-up");
    return r < 0 ? err_errno(err, r, "tidying up after all was written") : 0;
}

int apply_txn_finish(struct apply_txn *txn, struct err *err)
{
    int r = apply_txn_finish_journal(&txn->site, txn->record_fd, &txn->journal, err);

    if (r == 0 && txn->journal.state == APPLY_TXN_FINISHED)
        apply_txn_archive(txn->site.records_fd, txn->id);
    return r;
}
