/* A landing in a directory: which steps there are, and all of them, or none. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "review/apply_txn_int.h"

/* Whether a directory of the project goes, or becomes something else. */
static bool is_leaving(const struct apply_txn *txn, const char *path, size_t len)
{
    const struct staged_change *w = apply_txn_find(txn, path, len);

    return w && S_ISDIR(w->change.was.st_mode) && !S_ISDIR(w->change.now);
}

/* Beside the topmost directory on its way that leaves: what is moved aside must not keep a directory from going. */
static char *place_aside(const struct apply_txn *txn, const char *path)
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
    if (w)
        apply_txn_describe_now(w, step);
    step->now = apply_step_file_of(&unit->staged);
    if (w)
        memcpy(step->kept, w->kept, sizeof(step->kept));
}

static void add_part(struct apply_txn *txn, const struct staged_change *w)
{
    struct apply_step *step = apply_journal_add(&txn->journal, APPLY_STEP_PART, w->change.path, NULL);

    apply_txn_describe_now(w, step);
}

static void add_puts(struct apply_txn *txn, bool over_dirs)
{
    for (size_t i = 0; i < txn->unit_count; i++) {
        if (S_ISDIR(txn->units[i].was.st_mode) == over_dirs)
            add_put(txn, &txn->units[i]);
    }
}

static void add_leaving(struct apply_txn *txn, const struct staged_change *w)
{
    autofree char *aside = place_aside(txn, w->change.path);
    struct apply_step *step = apply_journal_add(
        &txn->journal, S_ISDIR(w->change.was.st_mode) ? APPLY_STEP_RMDIR : APPLY_STEP_REMOVE, w->change.path, aside);

    step->was = apply_step_file_of(&w->change.was);
    memcpy(step->kept, w->kept, sizeof(step->kept));
}

/* What is new comes before what is deleted: of a file that was renamed there is at every moment one. A file in the place of a
 * directory has to wait for that to be emptied, from the last to the first. Modes come last, from the deepest up. */
static void list_steps(struct apply_txn *txn)
{
    add_puts(txn, false);
    for (size_t i = 0; i < txn->change_count; i++) {
        const struct staged_change *w = &txn->changes[i];
        if (w->unit != APPLY_TXN_NO_UNIT && strcmp(txn->units[w->unit].path, w->change.path) != 0)
            add_part(txn, w);
    }
    for (size_t i = txn->change_count; i-- > 0;) {
        const struct staged_change *w = &txn->changes[i];
        if (!w->change.now || (w->unit != APPLY_TXN_NO_UNIT && S_ISDIR(w->change.was.st_mode) && !S_ISDIR(w->change.now)))
            add_leaving(txn, w);
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

static int say_failed(const struct apply_journal *journal, size_t step, int r, struct err *err)
{
    autofree char *shown = apply_txn_quote(journal->steps[step].path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r, "%s was changed by somebody else meanwhile; nothing was changed", shown);
    return err_errno(err, r, "writing %s; nothing was changed", shown);
}

/* `ret_left`: the last step that is not as it was; SIZE_MAX: all are. Those of which somebody has made something else stay so. */
static int take_back_steps(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, size_t *ret_left)
{
    int r = apply_journal_roll_back(site->base_fd, record_fd, journal, ret_left);

    if (r < 0)
        return r;
    apply_journal_sync(site->base_fd, journal);
    return apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLED_BACK);
}

/* All steps back. What could not be is, the next time: it will be answered that nothing was changed, so the journal says first that it is not
 * to be gone on with. */
static int give_up(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, size_t failed, int r,
                   struct err *err)
{
    size_t left;

    apply_journal_mark(record_fd, journal, APPLY_TXN_ROLLING_BACK);
    fault("landing-given-up");
    take_back_steps(site, record_fd, journal, &left);
    say_failed(journal, failed, r, err);
    if (left != SIZE_MAX) {
        autofree char *shown = apply_txn_quote(journal->steps[left].path);
        err_wrap(err, r, "%s could not be put back", shown);
    }
    return r;
}

static int perform(const struct apply_txn_site *site, const char *id, int record_fd, struct apply_journal *journal,
                   struct err *err)
{
    size_t failed = 0;
    int r = apply_journal_perform(site->base_fd, journal, &failed);

    (void) id;
    if (r < 0)
        return give_up(site, record_fd, journal, failed, r, err);
    r = apply_journal_sync(site->base_fd, journal);
    if (r < 0)
        return give_up(site, record_fd, journal, journal->count - 1, r, err);
    fault("landing-landed");
    /* All is written, whether that can be said or not; if not, it is said later. */
    apply_journal_mark(record_fd, journal, APPLY_TXN_DONE);
    return 0;
}

static int take_back(const struct apply_txn_site *site, int record_fd, struct apply_journal *journal, struct err *err)
{
    size_t left;

    (void) err;
    return take_back_steps(site, record_fd, journal, &left);
}

static int clean(const struct apply_txn_site *site, int record_fd, const struct apply_journal *journal)
{
    (void) record_fd;
    return apply_journal_clean(site->base_fd, journal);
}

const struct landing_ops apply_txn_in_directory = {
    apply_txn_stage_in_directory, list_steps, perform, perform, take_back, clean
};
