#include "review/landing.h"

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
#include "review/landing_int.h"

/* ---- life ---- */

static int make_record(struct landing *l, struct err *err)
{
    autofree char *kept = xprintf("%s/kept", l->id);
    int r = mkdirat(l->site.records_fd, l->id, 0700) < 0 ? -errno : 0;

    if (r == 0)
        r = path_mkdirs_beneath(l->site.records_fd, kept, 0700);
    if (r == 0)
        l->record_fd = path_open_beneath(l->site.records_fd, l->id, O_RDONLY | O_DIRECTORY, 0);
    if (r == 0 && l->record_fd < 0)
        r = l->record_fd;
    if (r == 0)
        r = file_fsync_dir(l->site.records_fd);
    return r < 0 ? err_errno(err, r, "making a record of what is about to be written") : 0;
}

int landing_new(const struct landing_site *site, const char *undoes, struct landing **ret, struct err *err)
{
    autoptr(landing) l = xnew(struct landing);
    int r;

    l->site = *site;
    l->record_fd = -1;
    l->log = STEP_LOG_EMPTY;
    l->log.time_ns = clock_wall_ns();
    id_new(LANDING_ID_PREFIX, l->id);
    if (undoes)
        snprintf(l->log.undoes, sizeof(l->log.undoes), "%s", undoes);
    r = make_record(l, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&l);
    return 0;
}

/* Nothing has come of it. Files that were moved and moved back have another change time, so what they are is noted; a record for which
 * there is no room to do that waits for the next time. */
int landing_remove_spent(const struct landing_site *site, const char *id, const struct step_log *log)
{
    int r = step_log_clean(site->base_fd, log);

    if (r == 0 && log->state == LANDING_TAKEN_BACK && log->back.len > 0)
        r = site->note(log->back.data, log->back.len, site->cookie);
    return r < 0 ? r : file_remove_tree(site->records_fd, id);
}

bool landing_is_spent(const struct step_log *log)
{
    return log->state == LANDING_STAGING || log->state == LANDING_TAKEN_BACK;
}

void landing_free(struct landing *l)
{
    if (!l)
        return;
    if (landing_is_spent(&l->log) && l->record_fd >= 0)
        landing_remove_spent(&l->site, l->id, &l->log);
    for (size_t i = 0; i < l->wish_count; i++)
        free((char *) (uintptr_t) l->wishes[i].wish.path);
    for (size_t i = 0; i < l->unit_count; i++) {
        free(l->units[i].path);
        free(l->units[i].temp);
    }
    free(l->wishes);
    free(l->units);
    step_log_done(&l->log);
    cleanup_fd(&l->record_fd);
    free(l);
}

const char *landing_id(const struct landing *l)
{
    return l->id;
}

size_t landing_add(struct landing *l, const struct landing_wish *wish)
{
    vec_room(&l->wishes, &l->wish_cap, l->wish_count);
    struct wished *w = &l->wishes[l->wish_count];
    *w = (struct wished){ .wish = *wish, .has_hash = wish->hash };
    w->wish.path = xdup(wish->path);
    if (wish->dress)
        w->dress = *wish->dress;
    if (wish->hash)
        memcpy(w->hash, wish->hash, sizeof(w->hash));
    return l->wish_count++;
}

const struct stat *landing_staged(const struct landing *l, size_t wish)
{
    return &l->wishes[wish].staged;
}

/* ---- the journal ---- */

static void write_hash(const struct wished *w, char out[2 * IMAGE_HASH_BYTES + 1])
{
    for (size_t i = 0; w->has_hash && i < IMAGE_HASH_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", w->hash[i]);
}

struct wished *landing_find(const struct landing *l, const char *path, size_t len)
{
    size_t low = 0, high = l->wish_count;

    while (low < high) {
        size_t mid = (low + high) / 2;
        int r = strncmp(path, l->wishes[mid].wish.path, len);
        r = r == 0 && l->wishes[mid].wish.path[len] ? -1 : r;
        if (r == 0)
            return &l->wishes[mid];
        if (r < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* Whether a directory of the project goes, or becomes something else. */
static bool is_leaving(const struct landing *l, const char *path, size_t len)
{
    const struct wished *w = landing_find(l, path, len);

    return w && S_ISDIR(w->wish.was.st_mode) && !S_ISDIR(w->wish.now);
}

/* Beside the topmost directory on its way that leaves: what is moved aside must not keep a directory from going. */
static char *place_aside(const struct landing *l, const char *path)
{
    size_t len = strlen(path);

    for (;;) {
        const char *slash = memrchr(path, '/', len);
        size_t above = slash ? (size_t) (slash - path) : 0;
        if (above == 0 || !is_leaving(l, path, above))
            break;
        len = above;
    }
    autofree char *top = xdupn(path, len);
    return landing_temp_beside(top);
}

static void add_put(struct landing *l, const struct unit *unit)
{
    struct step *step = step_log_add(&l->log, STEP_PUT, unit->path, unit->temp);
    const struct wished *w = landing_find(l, unit->path, strlen(unit->path));

    /* Where a directory is, it has gone by then. */
    if (!S_ISDIR(unit->was.st_mode) && unit->was.st_mode)
        step->was = step_file_of(&unit->was);
    step->now = step_file_of(&unit->staged);
    if (w) {
        write_hash(w, step->hash);
        memcpy(step->kept, w->kept, sizeof(step->kept));
    }
}

static void add_part(struct landing *l, const struct wished *w)
{
    struct step *step = step_log_add(&l->log, STEP_PART, w->wish.path, NULL);

    step->now = step_file_of(&w->staged);
    write_hash(w, step->hash);
}

static void add_puts(struct landing *l, bool over_dirs)
{
    for (size_t i = 0; i < l->unit_count; i++) {
        if (S_ISDIR(l->units[i].was.st_mode) == over_dirs)
            add_put(l, &l->units[i]);
    }
}

static void add_leaving(struct landing *l, const struct wished *w)
{
    autofree char *aside = place_aside(l, w->wish.path);
    struct step *step = step_log_add(&l->log, S_ISDIR(w->wish.was.st_mode) ? STEP_RMDIR : STEP_REMOVE, w->wish.path, aside);

    step->was = step_file_of(&w->wish.was);
    memcpy(step->kept, w->kept, sizeof(step->kept));
}

/* What is new comes before what is deleted: of a file that was renamed there is at every moment one. A file in the place of a
 * directory has to wait for that to be emptied, from the last to the first. Modes come last, from the deepest up. */
static void add_steps(struct landing *l)
{
    for (size_t i = 0; i < l->log.count; i++) {
        free(l->log.steps[i].path);
        free(l->log.steps[i].temp);
    }
    l->log.count = 0;
    add_puts(l, false);
    for (size_t i = 0; i < l->wish_count; i++) {
        const struct wished *w = &l->wishes[i];
        if (w->unit != LANDING_NO_UNIT && strcmp(l->units[w->unit].path, w->wish.path) != 0)
            add_part(l, w);
    }
    for (size_t i = l->wish_count; i-- > 0;) {
        const struct wished *w = &l->wishes[i];
        if (!w->wish.now || (w->unit != LANDING_NO_UNIT && S_ISDIR(w->wish.was.st_mode) && !S_ISDIR(w->wish.now)))
            add_leaving(l, w);
    }
    add_puts(l, true);
    for (size_t i = l->wish_count; i-- > 0;) {
        const struct wished *w = &l->wishes[i];
        if (!w->wish.now || !w->wish.is_mode_only)
            continue;
        struct step *step = step_log_add(&l->log, STEP_MODE, w->wish.path, NULL);
        step->was = step_file_of(&w->wish.was);
        step->now = step->was;
        step->now.mode = (step->was.mode & ~(mode_t) 0777) | (w->wish.now & 0777);
    }
}

/* ---- the moment ---- */

static int say_failed(const struct step_log *log, size_t step, int r, struct err *err)
{
    autofree char *shown = landing_quote(log->steps[step].path);

    if (r == -ESTALE)
        return err_set(err, ERR_ABORTED, r, "%s was changed by somebody else meanwhile; nothing was changed", shown);
    return err_errno(err, r, "writing %s; nothing was changed", shown);
}

int landing_take_back(const struct landing_site *site, int record_fd, struct step_log *log, size_t *ret_left)
{
    int r = step_log_take_back(site->base_fd, record_fd, log, ret_left);

    if (r < 0)
        return r;
    step_log_sync(site->base_fd, log);
    return step_log_mark(record_fd, log, LANDING_TAKEN_BACK);
}

/* All steps back. What could not be is, the next time: it will be answered that nothing was changed, so the journal says first that it is not
 * to be gone on with. */
static int give_up(const struct landing_site *site, int record_fd, struct step_log *log, size_t failed, int r, struct err *err)
{
    size_t left;

    step_log_mark(record_fd, log, LANDING_GIVEN_UP);
    fault("landing-given-up");
    landing_take_back(site, record_fd, log, &left);
    say_failed(log, failed, r, err);
    if (left != SIZE_MAX) {
        autofree char *shown = landing_quote(log->steps[left].path);
        err_wrap(err, r, "%s could not be put back", shown);
    }
    return r;
}

int landing_land(const struct landing_site *site, int record_fd, struct step_log *log, struct err *err)
{
    size_t failed = 0;
    int r = step_log_land(site->base_fd, log, &failed);

    if (r < 0)
        return give_up(site, record_fd, log, failed, r, err);
    r = step_log_sync(site->base_fd, log);
    if (r < 0)
        return give_up(site, record_fd, log, log->count - 1, r, err);
    fault("landing-landed");
    /* All is written, whether that can be said or not; if not, it is said later. */
    step_log_mark(record_fd, log, LANDING_DONE);
    return 0;
}

static void take_text(struct buf *to, const struct buf *from)
{
    buf_clear(to);
    if (from)
        buf_add(to, from->data ? from->data : "", from->len);
}

/* A journal that could not be synced may be there all the same, and must not be found: it gets the name of one that was taken back. The one
 * before it gets it otherwise, and still knows what was staged: to rename a file needs neither room nor descriptors. */
static void withdraw(struct landing *l)
{
    step_log_mark(l->record_fd, &l->log, LANDING_TAKEN_BACK);
    l->log.state = LANDING_STAGING;
}

int landing_commit(struct landing *l, const struct landing_texts *texts, struct err *err)
{
    int r;

    add_steps(l);
    take_text(&l->log.notes, texts->notes);
    take_text(&l->log.back, texts->back);
    take_text(&l->log.drops, texts->drops);
    take_text(&l->log.follow_up, texts->follow_up);
    l->log.state = LANDING_INTENT;
    r = step_log_write(l->record_fd, &l->log);
    if (r < 0) {
        withdraw(l);
        return err_errno(err, r, "noting what is about to be written; nothing was changed");
    }
    fault("landing-intent");
    return landing_land(&l->site, l->record_fd, &l->log, err);
}

int landing_settle_log(const struct landing_site *site, int record_fd, struct step_log *log, struct err *err)
{
    /* What lies aside tells what was done: it goes when the journal says that all is. */
    int r = log->state == LANDING_INTENT ? step_log_mark(record_fd, log, LANDING_DONE) : 0;

    fault("landing-done");
    if (r == 0)
        r = step_log_clean(site->base_fd, log);
    fault("landing-cleaned");
    if (r == 0 && log->notes.len > 0)
        r = site->note(log->notes.data, log->notes.len, site->cookie);
    fault("landing-noted");
    if (r == 0)
        r = step_log_mark(record_fd, log, log->follow_up.len > 0 ? LANDING_FOLLOW_UP : LANDING_NOTED);
    fault("landing-follow-up");
    return r < 0 ? err_errno(err, r, "tidying up after all was written") : 0;
}

int landing_settle(struct landing *l, struct err *err)
{
    int r = landing_settle_log(&l->site, l->record_fd, &l->log, err);

    if (r == 0 && l->log.state == LANDING_NOTED)
        landing_shelve(l->site.records_fd, l->id);
    return r;
}
