#include "review/apply_txn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_txn_int.h"

/* ---- life ---- */

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
    id_new(APPLY_TXN_ID_PREFIX, txn->id);
    if (undoes)
        snprintf(txn->journal.undoes, sizeof(txn->journal.undoes), "%s", undoes);
    r = make_record(txn, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&txn);
    return 0;
}

/* Nothing has come of it. Files that were moved and moved back have another change time, so what they are is noted; a record for which
 * there is no room to do that waits for the next time. */
int apply_txn_remove_abandoned(const struct apply_txn_site *site, const char *id, const struct apply_journal *journal)
{
    int r = apply_journal_clean(site->base_fd, journal);

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
        apply_txn_remove_abandoned(&txn->site, txn->id, &txn->journal);
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

/* ---- the journal ---- */

static void write_hash(const struct staged_change *w, char out[2 * FILE_STATE_HASH_BYTES + 1])
{
    for (size_t i = 0; w->has_hash && i < FILE_STATE_HASH_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", w->hash[i]);
}

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

/* Whether a directory of the project goes, or becomes something else. */
static bool is_leaving(const struct apply_txn *txn, const char *path, size_t len)
{
    const struct staged_change *w = apply_txn_find(txn, path, len);

    return w && S_ISDIR(w->change.was.st_mode) && !S_ISDIR(w->change.now);
}

/* Beside the topmost directory on its way that leaves: what is moved aside must not keep a directory from going. */
static char *name_aside(const struct apply_txn *txn, const char *path)
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

static void add_put(struct apply_txn *txn, const struct apply_unit *unit)
{
    struct apply_step *step = apply_journal_add(&txn->journal, APPLY_STEP_PUT, unit->path, unit->temp);
    const struct staged_change *w = apply_txn_find(txn, unit->path, strlen(unit->path));

    /* Where a directory is, it has gone by then. */
    if (!S_ISDIR(unit->was.st_mode) && unit->was.st_mode)
        step->was = apply_step_file_of(&unit->was);
    step->now = apply_step_file_of(&unit->staged);
    if (w) {
        write_hash(w, step->hash);
        memcpy(step->kept, w->kept, sizeof(step->kept));
    }
}

static void add_part(struct apply_txn *txn, const struct staged_change *w)
{
    struct apply_step *step = apply_journal_add(&txn->journal, APPLY_STEP_PART, w->change.path, NULL);

    step->now = apply_step_file_of(&w->staged);
    write_hash(w, step->hash);
}

static void add_puts(struct apply_txn *txn, bool over_dirs)
{
    for (size_t i = 0; i < txn->unit_count; i++) {
        if (S_ISDIR(txn->units[i].was.st_mode) == over_dirs)
            add_put(txn, &txn->units[i]);
    }
}

static void add_removals(struct apply_txn *txn, const struct staged_change *w)
{
    autofree char *aside = name_aside(txn, w->change.path);
    struct apply_step *step = apply_journal_add(
        &txn->journal, S_ISDIR(w->change.was.st_mode) ? APPLY_STEP_RMDIR : APPLY_STEP_REMOVE, w->change.path, aside);

    step->was = apply_step_file_of(&w->change.was);
    memcpy(step->kept, w->kept, sizeof(step->kept));
}

/* What is new comes before what is deleted: of a file that was renamed there is at every moment one. A file in the place of a
 * directory has to wait for that to be emptied, from the last to the first. Modes come last, from the deepest up. */
static void add_steps(struct apply_txn *txn)
{
    for (size_t i = 0; i < txn->journal.count; i++) {
        free(txn->journal.steps[i].path);
        free(txn->journal.steps[i].temp);
    }
    txn->journal.count = 0;
    add_puts(txn, false);
    for (size_t i = 0; i < txn->change_count; i++) {
        const struct staged_change *w = &txn->changes[i];
        if (w->unit != APPLY_TXN_NO_UNIT && strcmp(txn->units[w->unit].path, w->change.path) != 0)
            add_part(txn, w);
    }
    for (size_t i = txn->change_count; i-- > 0;) {
        const struct staged_change *w = &txn->changes[i];
        if (!w->change.now || (w->unit != APPLY_TXN_NO_UNIT && S_ISDIR(w->change.was.st_mode) && !S_ISDIR(w->change.now)))
            add_removals(txn, w);
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

/* ---- the moment ---- */

static int report_failed_step(const struct apply_journal *journal, size_t step, int r, struct err *err)
{
    autofree char *shown = apply_txn_quote(journal->steps[step].path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r, "%s was changed by somebody else meanwhile; nothing was changed", shown);
    return err_errno(err, r, "writing %s; nothing was changed", shown);
}

int apply_txn_roll_back(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, size_t *ret_left)
{
    int r = apply_journal_roll_back(site->base_fd, record_fd, journal, ret_left);

    if (r < 0)
        return r;
    apply_journal_sync(site->base_fd, journal);
    return apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLED_BACK);
}

/* All steps back. What could not be is, the next time: it will be answered that nothing was changed, so the journal says first that it is not
 * to be gone on with. */
static int roll_back_failed(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, size_t failed,
                            int r, struct err *err)
{
    size_t left;

    apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLING_BACK);
    fault("landing-given-up");
    apply_txn_roll_back(site, record_fd, journal, &left);
    report_failed_step(journal, failed, r, err);
    if (left != SIZE_MAX) {
        autofree char *shown = apply_txn_quote(journal->steps[left].path);
        err_wrap(err, r, "%s could not be put back", shown);
    }
    return r;
}

int apply_txn_complete(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err)
{
    size_t failed = 0;
    int r = apply_journal_perform(site->base_fd, journal, &failed);

    if (r < 0)
        return roll_back_failed(site, record_fd, journal, failed, r, err);
    r = apply_journal_sync(site->base_fd, journal);
    if (r < 0)
        return roll_back_failed(site, record_fd, journal, journal->count - 1, r, err);
    fault("landing-landed");
    /* All is written, whether that can be said or not; if not, it is said later. */
    apply_journal_mark(record_fd, journal, APPLY_TXN_DONE);
    return 0;
}

static void move_text(struct buf *to, const struct buf *from)
{
    buf_clear(to);
    if (from)
        buf_add(to, from->data ? from->data : "", from->len);
}

/* A journal that could not be synced may be there all the same, and must not be found: it gets the name of one that was taken back. The one
 * before it gets it otherwise, and still knows what was staged: to rename a file needs neither room nor descriptors. */
static void withdraw_journal(struct apply_txn *txn)
{
    apply_journal_mark(txn->record_fd, &txn->journal, APPLY_TXN_ROLLED_BACK);
    txn->journal.state = APPLY_TXN_STAGING;
}

int apply_txn_commit(struct apply_txn *txn, const struct apply_txn_texts *texts, struct err *err)
{
    int r;

    add_steps(txn);
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
    return apply_txn_complete(&txn->site, txn->record_fd, &txn->journal, err);
}

int apply_txn_finish_journal(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err)
{
    /* What lies aside tells what was done: it goes when the journal says that all is. */
    int r = journal->state == APPLY_TXN_INTENT ? apply_journal_mark(record_fd, journal, APPLY_TXN_DONE) : 0;

    fault("landing-done");
    if (r == 0)
        r = apply_journal_clean(site->base_fd, journal);
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
