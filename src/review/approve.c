#include "review/approve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/approve_int.h"
#include "review/staged_tree.h"

#define BUSY_WAIT_NS 50000000L

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

static int try_locks(const char *delta_path, const struct approve_lock_options *options, struct approve_locks *locks,
                     struct err *err)
{
    /* This needs the delta's lock, so it comes first. */
    int r = options->is_held ? 0 : change_recover(delta_path, err);

    if (r == 0)
        r = delta_info_open(delta_path, &locks->delta, err);
    if (r < 0)
        return r;
    if (!options->is_held) {
        locks->delta_fd = path_open_beneath(locks->delta.meta_fd, "lock", O_RDWR | O_CREAT, 0600);
        if (locks->delta_fd < 0)
            return err_errno(err, locks->delta_fd, "locking delta '%s'", delta_path);
        if (flock(locks->delta_fd, LOCK_EX | LOCK_NB) < 0)
            return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "delta '%s' is in use", delta_path);
    }
    /* If the path now leads to another directory, the changes would go to the wrong place. */
    locks->base_fd = delta_info_open_base(&locks->delta, O_RDONLY, err);
    if (locks->base_fd < 0)
        return locks->base_fd;
    /* Two writers to one base would not see each other's changes. Some file systems cannot lock directories; there we go on
     * without. */
    if (flock(locks->base_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "changes are being applied to '%s' by somebody else; try again",
                       locks->delta.base_path);
    r = path_mkdirs_beneath(locks->delta.meta_fd, "approvals", 0700);
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
    return (struct apply_txn_site){ .base_fd = locks->base_fd,
                                    .records_fd = locks->records_fd,
                                    .note = append_notes,
                                    .cookie = &locks->delta.meta_fd,
                                    .codebase = locks->codebase };
}

int approve_locks_acquire(const char *delta_path, const struct approve_lock_options *options, struct approve_locks *ret,
                          struct err *err)
{
    int64_t until_ns = clock_now_ns() + (int64_t) options->wait_ms * CLOCK_NS_PER_MS;
    struct err why;
    int r;

    for (;;) {
        why = ERR_NONE;
        *ret = APPROVE_LOCKS_NONE;
        r = try_locks(delta_path, options, ret, &why);
        if (r != -EBUSY || clock_now_ns() >= until_ns)
            break;
        approve_locks_done(ret);
        nanosleep(&(struct timespec){ .tv_nsec = BUSY_WAIT_NS }, NULL);
    }
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    ret->codebase = options->codebase;
    /* A version that a killed process began is finished before the files are read. */
    r = options->codebase ? codebase_settle(options->codebase->codebase, err) : 0;
    if (r < 0)
        return r;
    struct apply_txn_site site = approve_txn_site(ret);
    return apply_txn_recover(&site, err);
}

/* ---- a run ---- */

struct approval {
    const char *delta_path;
    const struct decision *decision;
    const struct approve_options *options;
    struct approve *out;
    struct approve_locks *locks;
};

/* Judges the changes as they are shown: without renames, in the set of all changes, whatever part of them is approved. */
static int check_acknowledged(struct approval *a, struct err *err)
{
    const struct change_set_options options = { .prefix = a->decision->prefix, .without_renames = true };
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    struct approve *out = a->out;
    int r = a->decision->acknowledges_all ? 1 : change_set_load(a->delta_path, &options, &set, err);

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
    return 0;
}

/* Makes one check for all edits before the next check, so that a refusal lists all edits that are refused for the same
 * reason. Returns 1 for a refusal. */
static int approval_check_edits(struct approval *a, struct err *err)
{
    struct approve *out = a->out;
    size_t count = out->edits.count;
    int r;

    out->files = xalloc((count + 1) * sizeof(*out->files));
    for (size_t i = 0; i < count; i++)
        out->files[i] = (struct approve_file){ .edit = &out->edits.items[i], .outcome = APPROVE_NOTHING };
    for (size_t i = 0; i < count; i++) {
        r = decision_accepts(a->decision, &out->edits, &out->edits.items[i], err);
        if (r < 0)
            return r;
        if (r == 0)
            out->files[i].outcome = APPROVE_UNACCEPTED;
        out->unaccepted_count += r == 0;
    }
    r = out->unaccepted_count > 0 ? 1 : check_acknowledged(a, err);
    if (r != 0 || out->unacknowledged_count > 0)
        return r < 0 ? r : 1;
    out->planned = xalloc((count + 1) * sizeof(*out->planned));
    for (size_t i = 0; i < count; i++) {
        struct approve_file *file = &out->files[i];
        r = planned_make(&out->edits, file->edit, a->decision, a->options, file, &out->planned[i], err);
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

/* An existing directory stays in the delta: it is not shown as a change, and to drop it would drop the edits left in it. */
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

static void add_planned_changes(struct approval *a, struct apply_txn *txn)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct planned *planned = &a->out->planned[i];
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
        planned->change = apply_txn_add(txn, &change);
    }
}

/* Not synced: a copy counts only if its hash is the one in the change log. */
static int keep_merge_bases(struct approval *a, struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < a->out->edits.count && r == 0; i++) {
        struct planned *planned = &a->out->planned[i];
        const struct buf *bytes = &planned->merge_base_bytes;
        char name[ID_TEXT_MAX];
        if (!planned->is_taken || !planned->keeps_merge_base)
            continue;
        id_new("kept-", name);
        autofree char *path = xprintf("pre/%s", name);
        r = path_mkdirs_beneath(a->locks->delta.meta_fd, "pre", 0700);
        if (r == 0)
            r = file_put(a->locks->delta.meta_fd, path, bytes->data ? bytes->data : "", bytes->len, 0600);
        planned->merge_base.kept = xdup(name);
    }
    fault("approve-grounds-kept");
    return r < 0 ? err_errno(err, r, "keeping what the agent worked from; nothing was changed") : 0;
}

/* Directories have no lines in the change log. A link is identified by the time that it will have in its place. */
static void write_notes(struct approval *a, struct apply_txn *txn, struct buf *notes, struct buf *back)
{
    for (size_t i = 0; i < a->out->edits.count; i++) {
        struct planned *planned = &a->out->planned[i];
        const struct edit *edit = &a->out->edits.items[i];
        if (!planned->is_taken || !edit_is_file(edit))
            continue;
        if (S_ISDIR(edit->now))
            planned->merge_base.base = BASE_ENTRY_ABSENT;
        if (planned->has_change && S_ISLNK(edit->now)) {
            struct timespec mtime = apply_txn_staged(txn, planned->change)->st_mtim;
            planned->merge_base.mtime_ns = (int64_t) mtime.tv_sec * CLOCK_NS_PER_SEC + mtime.tv_nsec;
        }
        change_log_index_add_line(notes, &planned->merge_base);
        if (!S_ISDIR(edit->was.st_mode))
            change_log_index_add_line(back, &planned->before);
    }
}

static int stage_and_commit(struct approval *a, struct err *err)
{
    autodone(buf) struct buf notes = BUF_EMPTY, back = BUF_EMPTY, drops = BUF_EMPTY, follow_up = BUF_EMPTY;
    const struct apply_txn_texts texts = { &notes, &back, &drops, &follow_up };
    struct apply_txn_site site = approve_txn_site(a->locks);
    autoptr(apply_txn) txn = NULL;
    struct err later = ERR_NONE;
    int r;

    site.umask = a->options->umask;
    r = apply_txn_new(&site, NULL, &txn, err);
    if (r < 0)
        return r;
    add_planned_changes(a, txn);
    r = apply_txn_stage(txn, err);
    if (r == 0)
        r = keep_merge_bases(a, err);
    if (r < 0)
        return r;
    write_notes(a, txn, &notes, &back);
    for (size_t i = 0; i < a->out->drop_count; i++)
        buf_add(&drops, a->out->drops[i], strlen(a->out->drops[i]) + 1);
    if (a->options->owe)
        a->options->owe(a->out, &follow_up, a->options->cookie);
    r = apply_txn_commit(txn, &texts, err);
    if (r < 0)
        return r;
    memcpy(a->out->id, apply_txn_id(txn), sizeof(a->out->id));
    a->out->version = apply_txn_version_of(txn);
    /* It is applied. If the cleanup fails, the next user of the records repeats it. */
    apply_txn_finish(txn, &later);
    return 0;
}

static int approval_perform_locked(struct approval *a, struct err *err)
{
    static const struct selection all = { 0 };
    const struct approve_options *options = a->options;
    struct approve *out = a->out;
    int r = selection_load(options->selection ? options->selection : &all, a->delta_path, &out->edits, err);

    if (r == 0)
        r = approval_check_edits(a, err);
    if (r != 0)
        return r;
    list_drops(out);
    planned_digest(&out->edits, out->planned, out->digest);
    /* Checked under the locks: no other holder of the locks can change anything before the transaction, which checks every
     * file again. */
    if (a->decision->hooks == DECISION_HOOKS_TRIED && memcmp(a->decision->tried, out->digest, FILE_STATE_HASH_BYTES) != 0)
        return err_set(err, ERR_ABORTED, -ESTALE, "what would be written is not what was tried before; nothing was changed");
    if (!options->is_dry)
        return out->taken_count > 0 ? stage_and_commit(a, err) : 0;
    return options->staged_tree_path ? staged_tree_make(options->staged_tree_path, a->locks->delta.base_path, a->locks->base_fd,
                                                        &out->edits, out->planned, err)
                                     : 0;
}

int approve_run(const char *delta_path, const struct decision *decision, const struct approve_options *options,
                struct approve *ret, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;
    const struct approve_lock_options lock_options = { options->is_held, options->wait_ms, options->codebase };
    struct approval a = { delta_path, decision, options, ret, &locks };
    int r;

    *ret = APPROVE_NONE;
    r = approve_locks_acquire(delta_path, &lock_options, &locks, err);
    if (r == 0)
        r = approval_perform_locked(&a, err);
    for (size_t i = 0; ret->planned && i < ret->edits.count; i++) {
        struct approve_file *file = &ret->files[i];
        if (file->outcome != APPROVE_PARTLY)
            continue;
        file->merge_base = ret->planned[i].merge_base_bytes;
        file->merge_base_mode = ret->planned[i].merge_base.mode;
        ret->planned[i].merge_base_bytes = BUF_EMPTY;
    }
    return r;
}

void approve_done(struct approve *approve)
{
    for (size_t i = 0; approve->files && i < approve->edits.count; i++) {
        threeway_done(&approve->files[i].merge);
        buf_done(&approve->files[i].merge_base);
        if (approve->planned)
            planned_done(&approve->planned[i]);
    }
    for (size_t i = 0; i < approve->drop_count; i++)
        free(approve->drops[i]);
    free(approve->files);
    free(approve->planned);
    free(approve->drops);
    edit_list_done(&approve->edits);
    *approve = APPROVE_NONE;
}

const struct approve_file *approve_find(const struct approve *approve, const char *path)
{
    size_t low = 0, high = approve->files ? approve->edits.count : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(approve->edits.items[middle].path, path);
        if (order == 0)
            return &approve->files[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The bytes are in the plan, in the project if they do not change, or else in the delta. */
int approve_foresee(const struct approve *approve, const char *path, struct contribution *ret)
{
    const struct approve_file *file = approve_find(approve, path);
    const struct planned *planned = file && approve->planned ? &approve->planned[file - approve->files] : NULL;

    if (!planned || !planned->is_taken)
        return 0;
    bool stays = planned->is_mode_only || !planned->has_change;
    const struct edit_list *edits = &approve->edits;
    int r = contribution_predict(edits->base_fd, path, planned->now, stays ? edits->base_fd : edits->delta.data_fd,
                                 planned->has_bytes ? &planned->bytes : NULL, ret);
    return r < 0 ? r : 1;
}
