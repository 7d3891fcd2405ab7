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
#include "review/staged_tree.h"

const char *approve_outcome_name(enum approve_outcome outcome)
{
    static const char *const names[] = { "applied", "partly",    "nothing",        "conflict",
                                         "stale",   "not_shown", "unacknowledged", "not_accepted" };

    return names[outcome];
}

/* ---- locks ---- */

void approve_locks_done(struct approve_locks *locks)
{
    delta_info_done(&locks->delta);
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
    locks->base_fd = delta_info_open_base(&locks->delta, O_RDONLY, err);
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

static int append_notes(const char *notes, size_t len, void *cookie)
{
    return change_log_index_append(*(int *) cookie, notes, len);
}

struct apply_txn_site approve_txn_site(struct approve_locks *locks)
{
    return (struct apply_txn_site){ locks->base_fd, locks->records_fd, append_notes, &locks->delta.meta_fd };
}

int approve_locks_acquire(const char *delta_path, bool is_held, struct approve_locks *ret, struct err *err)
{
    struct approve_locks *locks = ret;
    /* This needs the delta for itself, so it comes first. */
    int r = is_held ? 0 : change_recover(delta_path, err);

    *locks = APPROVE_LOCKS_NONE;
    if (r == 0)
        r = delta_info_open(delta_path, &locks->delta, err);
    if (r == 0 && !is_held)
        r = lock_delta(delta_path, locks, err);
    if (r == 0)
        r = lock_base(locks, err);
    if (r == 0)
        r = open_records(locks, err);
    if (r < 0)
        return r;
    struct apply_txn_site site = approve_txn_site(locks);
    return apply_txn_recover(&site, err);
}

int approve_recover(const char *delta_path, bool is_held, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;

    return approve_locks_acquire(delta_path, is_held, &locks, err);
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

static int on_unfinished(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    struct unfinished *ret = cookie;

    (void) id;
    (void) time_ns;
    ret->has_follow_up |= state == APPLY_TXN_FOLLOW_UP;
    ret->has_steps |= state != APPLY_TXN_FOLLOW_UP && state != APPLY_TXN_FINISHED;
    return 0;
}

static int find_unfinished(const char *delta_path, struct unfinished *ret, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : apply_txn_each_unfinished(records_fd, on_unfinished, ret);

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

static int on_follow_up(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    const struct follow_ups *all = cookie;
    autodone(apply_txn_record) struct apply_txn_record record = APPLY_TXN_RECORD_NONE;
    int r = state == APPLY_TXN_FOLLOW_UP ? apply_txn_read(all->records_fd, id, &record) : 0;

    (void) time_ns;
    if (r < 0)
        return err_errno(all->err, r, "reading the record of approval '%s'", id);
    return state == APPLY_TXN_FOLLOW_UP ? all->fn(id, &record, all->cookie, all->err) : 0;
}

int approve_each_follow_up(const char *delta_path, approve_follow_up_fn fn, void *cookie, struct err *err)
{
    autofd int records_fd = open_records_of(delta_path);
    struct err why = ERR_NONE;
    struct follow_ups all = { records_fd, fn, cookie, &why };
    int r = records_fd < 0 ? records_fd : apply_txn_each_unfinished(records_fd, on_follow_up, &all);

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
    int r = records_fd < 0 ? records_fd : apply_txn_close(records_fd, id);

    return r < 0 ? err_errno(err, r, "closing the record of approval '%s'", id) : 0;
}

int approve_was_done(const char *delta_path, const char *id, struct err *err)
{
    autodone(apply_txn_record) struct apply_txn_record record = APPLY_TXN_RECORD_NONE;
    autofd int records_fd = open_records_of(delta_path);
    int r = records_fd < 0 ? records_fd : apply_txn_read(records_fd, id, &record);

    if (r < 0)
        return r == -ENOENT ? 0 : err_errno(err, r, "reading the record of approval '%s'", id);
    return record.state == APPLY_TXN_DONE || record.state == APPLY_TXN_FOLLOW_UP || record.state == APPLY_TXN_FINISHED;
}

int approve_recover_before_delete(const char *delta_path, struct err *err)
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
    struct planned_change *plan; /* owned; one for each edit */
    struct apply_txn *txn;
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
            autofree char *shown = apply_txn_quote(file->edit->path);
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

static int plan_edits(struct approval *a, struct err *err)
{
    struct approve *out = a->out;

    a->plan = xalloc((out->edits.count + 1) * sizeof(*a->plan));
    for (size_t i = 0; i < out->edits.count; i++) {
        struct approve_file *file = &out->files[i];
        int r = planned_change_make(&out->edits, &out->edits.items[i], a->decision, a->options, file, &a->plan[i], err);
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
    return r == 0 ? plan_edits(a, err) : r;
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

static void add_changes(struct approval *a)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct planned_change *planned = &a->plan[i];
        const char *path = a->out->edits.items[i].path;
        if (!planned->is_taken || !planned->has_change)
            continue;
        struct apply_txn_change change = {
            .path = path,
            .now = planned->now,
            .is_mode_only = planned->is_mode_only,
            .was = planned->was,
            .source_fd = a->out->edits.delta.data_fd,
            .source_path = path,
            .bytes = planned->has_bytes ? &planned->bytes : NULL,
            .hash = S_ISREG(planned->now) && !planned->is_mode_only ? planned->hash : NULL,
        };
        planned->change = apply_txn_add(a->txn, &change);
    }
}

/* Not synced: it counts only if it hashes to what the diary says of it. */
static int keep_merge_bases(struct approval *a, struct err *err)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct planned_change *planned = &a->plan[i];
        char name[ID_TEXT_MAX];
        if (!planned->is_taken || !planned->keeps_merge_base)
            continue;
        id_new("kept-", name);
        autofree char *path = xprintf("pre/%s", name);
        int r = path_mkdirs_beneath(a->locks->delta.meta_fd, "pre", 0700);
        if (r == 0)
            r = file_put(a->locks->delta.meta_fd, path, planned->merge_base_bytes.data ? planned->merge_base_bytes.data : "",
                         planned->merge_base_bytes.len, 0600);
        if (r < 0)
            return err_errno(err, r, "keeping what the agent worked from; nothing was changed");
        planned->merge_base.kept = xdup(name);
    }
    return 0;
}

/* Directories have no pages. A link is known by the time it will have in its place. */
static void write_notes(struct approval *a, struct buf *notes, struct buf *back)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct planned_change *planned = &a->plan[i];
        const struct edit *edit = &a->out->edits.items[i];
        if (!planned->is_taken || !edit_is_file(edit))
            continue;
        if (S_ISDIR(edit->now))
            planned->merge_base.base = BASE_ENTRY_ABSENT;
        if (planned->has_change && S_ISLNK(edit->now)) {
            struct timespec mtime = apply_txn_staged(a->txn, planned->change)->st_mtim;
            planned->merge_base.mtime_ns = (int64_t) mtime.tv_sec * 1000000000LL + mtime.tv_nsec;
        }
        change_log_index_add_line(notes, &planned->merge_base);
        if (!S_ISDIR(edit->was.st_mode))
            change_log_index_add_line(back, &planned->before);
    }
}

static void write_drops(const struct approve *out, struct buf *drops)
{
    for (size_t i = 0; i < out->drop_count; i++)
        buf_add(drops, out->drops[i], strlen(out->drops[i]) + 1);
}

static int stage_and_commit(struct approval *a, struct err *err)
{
    autodone(buf) struct buf notes = BUF_EMPTY, back = BUF_EMPTY, drops = BUF_EMPTY;
    struct err later = ERR_NONE;
    int r = apply_txn_stage(a->txn, err);

    if (r == 0)
        r = keep_merge_bases(a, err);
    fault("approve-grounds-kept");
    if (r < 0)
        return r;
    write_notes(a, &notes, &back);
    write_drops(a->out, &drops);
    const struct apply_txn_texts texts = { &notes, &back, &drops, a->options->follow_up };
    r = apply_txn_commit(a->txn, &texts, err);
    if (r < 0)
        return r;
    memcpy(a->out->id, apply_txn_id(a->txn), sizeof(a->out->id));
    /* It is done. What cannot be tidied up now is when the records are opened the next time. */
    apply_txn_finish(a->txn, &later);
    return 0;
}

static int apply_planned(struct approval *a, struct err *err)
{
    struct apply_txn_site site = approve_txn_site(a->locks);
    int r = apply_txn_new(&site, NULL, &a->txn, err);

    if (r < 0)
        return r;
    add_changes(a);
    return stage_and_commit(a, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Where the bytes are: in the taking, in the project if they stay, otherwise in the delta. */
static int forecast_edit(const struct approval *a, size_t i)
{
    const struct planned_change *planned = &a->plan[i];
    const char *path = a->out->edits.items[i].path;
    bool stays = planned->is_mode_only || !planned->has_change;
    autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
    int r = contribution_predict(a->locks->base_fd, path, planned->now, stays ? a->locks->base_fd : a->out->edits.delta.data_fd,
                                 planned->has_bytes ? &planned->bytes : NULL, &c);

    return r < 0 ? r : a->options->forecast->report(path, &c, a->options->forecast->cookie);
}

static int forecast_edits(const struct approval *a, struct err *err)
{
    const struct approve_forecast *asked = a->options->forecast;

    for (size_t i = 0; i < a->out->edits.count; i++) {
        const char *path = a->out->edits.items[i].path;
        if (!a->plan[i].is_taken || !bsearch(&path, asked->paths, asked->count, sizeof(path), by_text))
            continue;
        int r = forecast_edit(a, i);
        if (r < 0) {
            autofree char *shown = apply_txn_quote(path);
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
    staged_tree_digest(&a->out->edits, a->plan, a->out->digest);
    /* Under the locks: nobody who keeps to them comes between this and the landing, which checks every file once more. */
    if (a->decision->hooks == DECISION_HOOKS_TRIED && memcmp(a->decision->tried, a->out->digest, FILE_STATE_HASH_BYTES) != 0)
        return err_set(err, ERR_ABORTED, -ESTALE, "what would be written is not what was tried before; nothing was changed");
    if (a->options->is_dry && a->options->forecast)
        r = forecast_edits(a, err);
    if (r < 0)
        return r;
    if (a->options->is_dry)
        return a->options->staged_tree_path ? staged_tree_make(a->options->staged_tree_path, a->locks->delta.base_path,
                                                               a->locks->base_fd, &a->out->edits, a->plan, err)
                                            : 0;
    return a->out->taken_count > 0 ? apply_planned(a, err) : 0;
}

static void move_merge_base(struct planned_change *planned, struct approve_file *file)
{
    file->merge_base = planned->merge_base_bytes;
    planned->merge_base_bytes = BUF_EMPTY;
    file->merge_base_mode = planned->merge_base.mode;
}

int approve_run(const char *delta_path, const struct decision *decision, const struct approve_options *options,
                struct approve *ret, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;
    struct approval a = { .decision = decision, .options = options, .out = ret, .locks = &locks };
    int r;

    *ret = APPROVE_NONE;
    r = approve_locks_acquire(delta_path, options->is_held, &locks, err);
    if (r == 0)
        r = run_locked(&a, delta_path, err);
    for (size_t i = 0; a.plan && i < ret->edits.count; i++) {
        if (ret->files[i].outcome == APPROVE_PARTLY)
            move_merge_base(&a.plan[i], &ret->files[i]);
        planned_change_done(&a.plan[i]);
    }
    free(a.plan);
    apply_txn_free(a.txn);
    return r;
}

void approve_done(struct approve *approve)
{
    for (size_t i = 0; approve->files && i < approve->edits.count; i++) {
        threeway_done(&approve->files[i].merge);
        buf_done(&approve->files[i].merge_base);
    }
    for (size_t i = 0; i < approve->drop_count; i++)
        free(approve->drops[i]);
    free(approve->files);
    free(approve->drops);
    edit_list_done(&approve->edits);
    *approve = APPROVE_NONE;
}
