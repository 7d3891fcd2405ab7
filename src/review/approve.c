#include "review/approve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/approve_int.h"
#include "review/rehearsal.h"

const char *approve_outcome_name(enum approve_outcome outcome)
{
    static const char *const names[] = { "applied", "partly",    "nothing",        "conflict",
                                         "stale",   "not_shown", "unacknowledged", "not_accepted" };

    return names[outcome];
}

/* ---- locks ---- */

void approve_locks_done(struct approve_locks *locks)
{
    delta_about_done(&locks->delta);
    cleanup_fd(&locks->delta_fd);
    cleanup_fd(&locks->base_fd);
    cleanup_fd(&locks->records_fd);
    *locks = APPROVE_LOCKS_NONE;
}

/* Two who write to one base at a time would not see each other's changes. Where directories cannot be locked, they can't. */
static int lock_base(struct approve_locks *locks, struct err *err)
{
    const char *path = locks->delta.base_path;

    /* Were it another directory by now, or one above it a link, the changes would land elsewhere. */
    locks->base_fd = delta_about_open_base(&locks->delta, O_RDONLY, err);
    if (locks->base_fd < 0)
        return locks->base_fd;
    if (flock(locks->base_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "changes are being applied to '%s' by somebody else; try again",
                       path);
    return 0;
}

static int lock_delta(const char *delta_path, struct approve_locks *locks, struct err *err)
{
    locks->delta_fd = path_open_beneath(locks->delta.meta_fd, "lock", O_RDWR | O_CREAT, 0600);
    if (locks->delta_fd < 0)
        return err_errno(err, locks->delta_fd, "locking delta '%s'", delta_path);
    if (flock(locks->delta_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", delta_path);
    return 0;
}

static int open_records(struct approve_locks *locks, struct err *err)
{
    int r = path_mkdirs_beneath(locks->delta.meta_fd, "approvals", 0700);

    if (r == 0)
        locks->records_fd = path_open_beneath(locks->delta.meta_fd, "approvals", O_RDONLY | O_DIRECTORY, 0);
    if (r == 0 && locks->records_fd < 0)
        r = locks->records_fd;
    return r < 0 ? err_errno(err, r, "opening the records of approvals") : 0;
}

static int note(const char *notes, size_t len, void *cookie)
{
    return diary_append(*(int *) cookie, notes, len);
}

struct landing_site approve_site(struct approve_locks *locks)
{
    return (struct landing_site){ locks->base_fd, locks->records_fd, note, &locks->delta.meta_fd };
}

int approve_locks_take(const char *delta_path, bool is_held, struct approve_locks *ret, struct err *err)
{
    struct approve_locks *locks = ret;
    /* This needs the delta for itself, so it comes first. */
    int r = is_held ? 0 : change_settle(delta_path, err);

    *locks = APPROVE_LOCKS_NONE;
    if (r == 0)
        r = delta_about_open(delta_path, &locks->delta, err);
    if (r == 0 && !is_held)
        r = lock_delta(delta_path, locks, err);
    if (r == 0)
        r = lock_base(locks, err);
    if (r == 0)
        r = open_records(locks, err);
    if (r < 0)
        return r;
    struct landing_site site = approve_site(locks);
    return landing_recover(&site, err);
}

int approve_recover(const char *delta_path, bool is_held, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;

    return approve_locks_take(delta_path, is_held, &locks, err);
}

/* ---- records ---- */

/* -ENOENT: nothing was ever approved. */
static int open_records_of(const char *delta_path)
{
    autofd int fd = open(delta_path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : path_open_beneath(fd, "meta/approvals", O_RDONLY | O_DIRECTORY, 0);
}

struct unfinished {
    bool has_steps, has_follow_up; /* something is left to do in the project; for the caller */
};

static int on_unfinished(const char *id, int64_t time_ns, enum landing_state state, void *cookie)
{
    struct unfinished *ret = cookie;

    (void) id;
    (void) time_ns;
    ret->has_follow_up |= state == LANDING_FOLLOW_UP;
    ret->has_steps |= state != LANDING_FOLLOW_UP && state != LANDING_NOTED;
    return 0;
}

static int find_unfinished(const char *delta_path, struct unfinished *ret, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : landing_each_unfinished(records_fd, on_unfinished, ret);

    return r < 0 && r != -ENOENT ? err_errno(err, r, "reading the records of approvals") : 0;
}

int approve_has_unfinished(const char *delta_path, struct err *err)
{
    struct unfinished found = { false, false };
    int r = find_unfinished(delta_path, &found, err);

    return r < 0 ? r : found.has_steps || found.has_follow_up;
}

struct follow_ups {
    int records_fd;
    approve_follow_up_fn fn;
    void *cookie;
    struct err *err;
};

static int on_follow_up(const char *id, int64_t time_ns, enum landing_state state, void *cookie)
{
    const struct follow_ups *all = cookie;
    autodone(landing_record) struct landing_record record = LANDING_RECORD_NONE;
    int r = state == LANDING_FOLLOW_UP ? landing_read(all->records_fd, id, &record) : 0;

    (void) time_ns;
    if (r < 0)
        return err_errno(all->err, r, "reading the record of approval '%s'", id);
    return state == LANDING_FOLLOW_UP ? all->fn(id, &record, all->cookie, all->err) : 0;
}

int approve_each_follow_up(const char *delta_path, approve_follow_up_fn fn, void *cookie, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    struct err why = ERR_NONE;
    struct follow_ups all = { records_fd, fn, cookie, &why };
    int r = records_fd < 0 ? records_fd : landing_each_unfinished(records_fd, on_follow_up, &all);

    if (r >= 0 || r == -ENOENT)
        return r < 0 ? 0 : r;
    if (why.code == ERR_OK)
        return err_errno(err, r, "reading the records of approvals");
    *err = why;
    return r;
}

int approve_close(const char *delta_path, const char *id, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : landing_close(records_fd, id);

    return r < 0 ? err_errno(err, r, "closing the record of approval '%s'", id) : 0;
}

int approve_was_done(const char *delta_path, const char *id, struct err *err)
{
    autodone(landing_record) struct landing_record record = LANDING_RECORD_NONE;
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : landing_read(records_fd, id, &record);

    if (r < 0)
        return r == -ENOENT ? 0 : err_errno(err, r, "reading the record of approval '%s'", id);
    return record.state == LANDING_DONE || record.state == LANDING_FOLLOW_UP || record.state == LANDING_NOTED;
}

int approve_tidy(const char *delta_path, struct err *err)
{
    struct unfinished found = { false, false };
    int r = find_unfinished(delta_path, &found, err);

    if (r == 0)
        r = found.has_steps;

    if (r > 0)
        r = approve_recover(delta_path, false, err);
    if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EBADMSG)
        return 0;
    return r < 0 ? err_wrap(err, r, "an approval has left something in the project") : 0;
}

/* ---- a run ---- */

struct approval {
    const struct decision *decision;
    const struct approve_options *options;
    struct approve *out;
    struct approve_locks *locks;
    struct taking *takings; /* owned; one for each edit */
    struct landing *landing;
};

static int check_acceptance(struct approval *a, struct err *err)
{
    struct approve *out = a->out;

    for (size_t i = 0; i < out->edits.count; i++) {
        int r = decision_accepts(a->decision, &out->edits, &out->edits.items[i], err);
        if (r < 0)
            return r;
        if (r > 0)
            continue;
        out->files[i].outcome = APPROVE_UNACCEPTED;
        out->unaccepted_count++;
    }
    return out->unaccepted_count > 0;
}

static int check_acknowledged(struct approval *a, const char *delta_path, struct err *err)
{
    const struct change_set_options options = { .prefix = a->decision->prefix, .without_renames = true };
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct approve *out = a->out;
    int r = a->decision->acknowledges_all ? 1 : change_set_load(delta_path, &options, &set, err);

    if (r != 0)
        return r < 0 ? r : 0;
    for (size_t i = 0; i < out->edits.count; i++) {
        struct approve_file *file = &out->files[i];
        const struct file_change *change = change_set_find_scoped(&set, file->edit->path);
        if (!change) {
            autofree char *shown = landing_quote(file->edit->path);
            return err_set(err, ERR_ABORTED, -ESTALE, "%s is being changed; try again", shown);
        }
        file->acknowledge = decision_lacks(a->decision, change);
        if (file->acknowledge == ACKNOWLEDGE_NOTHING)
            continue;
        file->outcome = APPROVE_UNACKNOWLEDGED;
        out->unacknowledged_count++;
    }
    return out->unacknowledged_count > 0;
}

static int judge_all(struct approval *a, struct err *err)
{
    struct approve *out = a->out;

    a->takings = xalloc((out->edits.count + 1) * sizeof(*a->takings));
    for (size_t i = 0; i < out->edits.count; i++) {
        struct approve_file *file = &out->files[i];
        int r = taking_make(&out->edits, &out->edits.items[i], a->decision, a->options, file, &a->takings[i], err);
        if (r < 0)
            return r;
        out->conflict_count += file->outcome == APPROVE_CONFLICT;
        out->stale_count += file->outcome == APPROVE_STALE;
        out->unshown_count += file->outcome == APPROVE_UNSHOWN;
        out->lost_hunk_count += file->has_lost_hunk;
        out->taken_count += file->outcome == APPROVE_WHOLE || file->outcome == APPROVE_PARTLY;
    }
    if (out->taken_count > 0)
        out->lacks_hooks = decision_lacks_hooks(a->decision, a->locks->base_fd);
    return out->conflict_count + out->stale_count + out->unshown_count > 0 || out->lacks_hooks;
}

/* All edits by one check before the next: who has to be told of a refusal is told of all that are refused for the same reason. */
static int check_decision(struct approval *a, const char *delta_path, struct err *err)
{
    struct approve *out = a->out;
    int r;

    out->files = xalloc((out->edits.count + 1) * sizeof(*out->files));
    for (size_t i = 0; i < out->edits.count; i++)
        out->files[i] = (struct approve_file){ .edit = &out->edits.items[i], .outcome = APPROVE_NOTHING };
    r = check_acceptance(a, err);
    if (r == 0)
        r = check_acknowledged(a, delta_path, err);
    return r == 0 ? judge_all(a, err) : r;
}

/* A directory that is there stays in the delta: nothing of it shows, and dropping it would drop what is left in it. */
static void list_drops(struct approve *out)
{
    for (size_t i = out->edits.count; i-- > 0;) {
        const struct edit *edit = &out->edits.items[i];
        if (out->files[i].outcome != APPROVE_WHOLE || S_ISDIR(edit->now))
            continue;
        vec_room(&out->drops, &out->drop_cap, out->drop_count);
        out->drops[out->drop_count++] = xprintf("/%s", edit->path);
    }
}

static void add_wishes(struct approval *a)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct taking *taking = &a->takings[i];
        const char *path = a->out->edits.items[i].path;
        if (!taking->is_taken || !taking->has_wish)
            continue;
        struct landing_wish wish = {
            .path = path,
            .now = taking->now,
            .is_mode_only = taking->is_mode_only,
            .was = taking->was,
            .source_fd = a->out->edits.delta.data_fd,
            .source_path = path,
            .bytes = taking->has_bytes ? &taking->bytes : NULL,
            .hash = S_ISREG(taking->now) && !taking->is_mode_only ? taking->hash : NULL,
        };
        taking->wish = landing_add(a->landing, &wish);
    }
}

/* Not synced: it counts only if it hashes to what the diary says of it. */
static int keep_grounds(struct approval *a, struct err *err)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct taking *taking = &a->takings[i];
        char name[ID_TEXT_MAX];
        if (!taking->is_taken || !taking->keeps_ground)
            continue;
        id_new("kept-", name);
        autofree char *path = xprintf("pre/%s", name);
        int r = path_mkdirs_beneath(a->locks->delta.meta_fd, "pre", 0700);
        if (r == 0)
            r = file_put(a->locks->delta.meta_fd, path, taking->ground_bytes.data ? taking->ground_bytes.data : "",
                         taking->ground_bytes.len, 0600);
        if (r < 0)
            return err_errno(err, r, "keeping what the agent worked from; nothing was changed");
        taking->ground.kept = xdup(name);
    }
    return 0;
}

/* Directories have no pages. A link is known by the time it will have in its place. */
static void write_notes(struct approval *a, struct buf *notes, struct buf *back)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct taking *taking = &a->takings[i];
        const struct edit *edit = &a->out->edits.items[i];
        if (!taking->is_taken || !edit_is_file(edit))
            continue;
        if (S_ISDIR(edit->now))
            taking->ground.base = DIARY_BASE_ABSENT;
        if (taking->has_wish && S_ISLNK(edit->now)) {
            struct timespec mtime = landing_staged(a->landing, taking->wish)->st_mtim;
            taking->ground.mtime_ns = (int64_t) mtime.tv_sec * 1000000000LL + mtime.tv_nsec;
        }
        diary_add_line(notes, &taking->ground);
        if (!S_ISDIR(edit->was.st_mode))
            diary_add_line(back, &taking->before);
    }
}

static void write_drops(const struct approve *out, struct buf *drops)
{
    for (size_t i = 0; i < out->drop_count; i++)
        buf_add(drops, out->drops[i], strlen(out->drops[i]) + 1);
}

static int land(struct approval *a, struct err *err)
{
    autodone(buf) struct buf notes = BUF_EMPTY, back = BUF_EMPTY, drops = BUF_EMPTY;
    struct err later = ERR_NONE;
    int r = landing_stage(a->landing, err);

    if (r == 0)
        r = keep_grounds(a, err);
    fault("approve-grounds-kept");
    if (r < 0)
        return r;
    write_notes(a, &notes, &back);
    write_drops(a->out, &drops);
    const struct landing_texts texts = { &notes, &back, &drops, a->options->follow_up };
    r = landing_commit(a->landing, &texts, err);
    if (r < 0)
        return r;
    memcpy(a->out->id, landing_id(a->landing), sizeof(a->out->id));
    /* It is done. What cannot be tidied up now is when the records are opened the next time. */
    landing_settle(a->landing, &later);
    return 0;
}

static int perform(struct approval *a, struct err *err)
{
    struct landing_site site = approve_site(a->locks);
    int r = landing_new(&site, NULL, &a->landing, err);

    if (r < 0)
        return r;
    add_wishes(a);
    return land(a, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Where the bytes are: in the taking, in the project if they stay, otherwise in the delta. */
static int foretell(const struct approval *a, size_t i)
{
    const struct taking *taking = &a->takings[i];
    const char *path = a->out->edits.items[i].path;
    bool stays = taking->is_mode_only || !taking->has_wish;
    autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
    int r = contribution_foresee(a->locks->base_fd, path, taking->now, stays ? a->locks->base_fd : a->out->edits.delta.data_fd,
                                 taking->has_bytes ? &taking->bytes : NULL, &c);

    return r < 0 ? r : a->options->forecast->tell(path, &c, a->options->forecast->cookie);
}

static int foretell_all(const struct approval *a, struct err *err)
{
    const struct approve_forecast *asked = a->options->forecast;

    for (size_t i = 0; i < a->out->edits.count; i++) {
        const char *path = a->out->edits.items[i].path;
        if (!a->takings[i].is_taken || !bsearch(&path, asked->paths, asked->count, sizeof(path), by_text))
            continue;
        int r = foretell(a, i);
        if (r < 0) {
            autofree char *shown = landing_quote(path);
            return err_errno(err, r, "reading what would be in %s", shown);
        }
    }
    return 0;
}

static int run_locked(struct approval *a, const char *delta_path, struct err *err)
{
    static const struct selection all = { 0 };
    const struct selection *selection = a->options->selection ? a->options->selection : &all;
    int r = selection_load(selection, delta_path, &a->out->edits, err);

    if (r < 0)
        return r;
    r = check_decision(a, delta_path, err);
    if (r != 0)
        return r;
    list_drops(a->out);
    rehearsal_digest(&a->out->edits, a->takings, a->out->digest);
    /* Under the locks: nobody who keeps to them comes between this and the landing, which checks every file once more. */
    if (a->decision->hooks == DECISION_HOOKS_TRIED && memcmp(a->decision->tried, a->out->digest, IMAGE_HASH_BYTES) != 0)
        return err_set(err, ERR_ABORTED, -ESTALE, "what would be written is not what was tried before; nothing was changed");
    if (a->options->is_dry && a->options->forecast)
        r = foretell_all(a, err);
    if (r < 0)
        return r;
    if (a->options->is_dry)
        return a->options->rehearse_path ? rehearsal_lay(a->options->rehearse_path, a->locks->delta.base_path,
                                                         a->locks->base_fd, &a->out->edits, a->takings, err)
                                         : 0;
    return a->out->taken_count > 0 ? perform(a, err) : 0;
}

static void give_ground(struct taking *taking, struct approve_file *file)
{
    file->ground = taking->ground_bytes;
    taking->ground_bytes = BUF_EMPTY;
    file->ground_mode = taking->ground.mode;
}

int approve_run(const char *delta_path, const struct decision *decision, const struct approve_options *options,
                struct approve *ret, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;
    struct approval a = { .decision = decision, .options = options, .out = ret, .locks = &locks };
    int r;

    *ret = APPROVE_NONE;
    r = approve_locks_take(delta_path, options->is_held, &locks, err);
    if (r == 0)
        r = run_locked(&a, delta_path, err);
    for (size_t i = 0; a.takings && i < ret->edits.count; i++) {
        if (ret->files[i].outcome == APPROVE_PARTLY)
            give_ground(&a.takings[i], &ret->files[i]);
        taking_done(&a.takings[i]);
    }
    free(a.takings);
    landing_free(a.landing);
    return r;
}

void approve_done(struct approve *approve)
{
    for (size_t i = 0; approve->files && i < approve->edits.count; i++) {
        threeway_done(&approve->files[i].merge);
        buf_done(&approve->files[i].ground);
    }
    for (size_t i = 0; i < approve->drop_count; i++)
        free(approve->drops[i]);
    free(approve->files);
    free(approve->drops);
    edit_list_done(&approve->edits);
    *approve = APPROVE_NONE;
}
