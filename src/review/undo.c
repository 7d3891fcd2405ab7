#include "review/undo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/apply_txn_int.h"
#include "review/approve_int.h"

/* The state to which one path is restored. */
struct restored_path {
    const struct apply_step *step;
    mode_t now;
    bool is_mode_only;
    struct stat was; /* the present state */
    struct stat attrs;
    char *source; /* owned */
};

struct undo_apply {
    struct undo *out;
    struct approve_locks *locks;
    int record_fd; /* owned: of the transaction that is undone */
    struct apply_journal journal;
    struct restored_path *backs; /* owned */
    size_t count, cap;
};

static void undo_apply_done(struct undo_apply *u)
{
    for (size_t i = 0; i < u->count; i++)
        free(u->backs[i].source);
    free(u->backs);
    apply_journal_done(&u->journal);
    cleanup_fd(&u->record_fd);
}

static void add_moved(struct undo *out, const char *path)
{
    vec_room(&out->moved, &out->moved_cap, out->moved_count);
    out->moved[out->moved_count++] = xdup(path);
}

static bool has_hash(const struct file_state *state, const char *hash)
{
    char text[2 * FILE_STATE_HASH_BYTES + 1];

    for (size_t i = 0; i < FILE_STATE_HASH_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", state->hash[i]);
    return strcmp(text, hash) == 0;
}

/* The file has the content that was written, even if somebody else wrote it. */
static bool is_as_written(const struct apply_step *step, const struct file_state *state)
{
    const struct stat *st = &state->st;

    if ((st->st_mode ^ step->now.mode) & S_IFMT)
        return false;
    if (S_ISDIR(st->st_mode) || apply_step_file_matches(&step->now, st))
        return true;
    if (!S_ISLNK(st->st_mode) && (!S_ISREG(st->st_mode) || ((st->st_mode ^ step->now.mode) & 0777)))
        return false;
    return *step->hash && has_hash(state, step->hash);
}

static struct restored_path *add_restored_path(struct undo_apply *u, const struct apply_step *step, const struct stat *is)
{
    vec_room(&u->backs, &u->cap, u->count);
    struct restored_path *back = &u->backs[u->count++];
    *back = (struct restored_path){ .step = step, .was = *is, .now = step->was.mode };
    back->attrs.st_uid = step->was.uid;
    back->attrs.st_gid = step->was.gid;
    back->attrs.st_mtim = clock_timespec_of_ns(step->was.mtime_ns);
    if (*step->kept)
        back->source = xprintf("kept/%s", step->kept);
    return back;
}

/* A directory replaced a file, or a file a directory: the old one has its own step, which belongs to the put. */
static bool is_removed_for_put(const struct undo_apply *u, const struct apply_step *step)
{
    for (size_t i = 0; i < u->journal.count; i++) {
        const struct apply_step *other = &u->journal.steps[i];
        if (other->kind == APPLY_STEP_PUT && other != step && strcmp(other->path, step->path) == 0)
            return true;
    }
    return false;
}

static const struct apply_step *find_rmdir(const struct undo_apply *u, const char *path)
{
    for (size_t i = 0; i < u->journal.count; i++) {
        const struct apply_step *step = &u->journal.steps[i];
        if (step->kind == APPLY_STEP_RMDIR && strcmp(step->path, path) == 0)
            return step;
    }
    return NULL;
}

static void check_put(struct undo_apply *u, const struct apply_step *step, const struct file_state *state)
{
    const struct apply_step *dir = step->was.mode ? NULL : find_rmdir(u, step->path);

    if (!state->st.st_mode && !step->was.mode && !dir) /* gone, as it was before */
        return;
    if (!is_as_written(step, state))
        add_moved(u->out, step->path);
    else
        add_restored_path(u, dir ? dir : step, &state->st);
}

static int check_step(struct undo_apply *u, const struct apply_step *step)
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;
    int r = file_state_read(u->locks->base_fd, step->path, &state);

    if (r < 0)
        return r;
    if (step->kind == APPLY_STEP_PUT || step->kind == APPLY_STEP_PART) {
        check_put(u, step, &state);
    } else if (step->kind == APPLY_STEP_MODE) {
        if (((state.st.st_mode ^ step->now.mode) & (S_IFMT | 0777)))
            add_moved(u->out, step->path);
        else
            add_restored_path(u, step, &state.st)->is_mode_only = true;
    } else if (step->kind == APPLY_STEP_RMDIR) {
        if (!is_removed_for_put(u, step) && !state.st.st_mode)
            add_restored_path(u, step, &state.st);
        else if (state.st.st_mode && !S_ISDIR(state.st.st_mode) && !is_removed_for_put(u, step))
            add_moved(u->out, step->path);
    } else if (state.st.st_mode) {
        add_moved(u->out, step->path);
    } else {
        add_restored_path(u, step, &state.st);
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct restored_path *) a)->step->path, ((const struct restored_path *) b)->step->path);
}

static int check_restored_paths(struct undo_apply *u, struct err *err)
{
    for (size_t i = 0; i < u->journal.count; i++) {
        int r = check_step(u, &u->journal.steps[i]);
        if (r < 0) {
            autofree char *shown = apply_txn_quote(u->journal.steps[i].path);
            return err_errno(err, r, "reading %s", shown);
        }
    }
    if (u->count > 0)
        qsort(u->backs, u->count, sizeof(*u->backs), by_path);
    return 0;
}

/* ---- the transaction ---- */

static void add_restoring_changes(struct undo_apply *u, struct apply_txn *txn)
{
    for (size_t i = 0; i < u->count; i++) {
        const struct restored_path *back = &u->backs[i];
        struct apply_txn_change change = {
            .path = back->step->path,
            .now = back->now,
            .is_mode_only = back->is_mode_only,
            .was = back->was,
            .source_fd = u->record_fd,
            .source_path = back->source,
            .attrs = back->now ? &back->attrs : NULL,
        };
        apply_txn_add(txn, &change);
    }
}

static int apply_undo(struct undo_apply *u, const char *id, const struct buf *follow_up, struct err *err)
{
    autoptr(apply_txn) txn = NULL;
    struct err later = ERR_NONE;
    struct apply_txn_site site = approve_txn_site(u->locks);
    const struct apply_txn_texts texts = { .notes = &u->journal.back, .back = &u->journal.notes, .follow_up = follow_up };
    int r = apply_txn_new(&site, id, &txn, err);

    if (r < 0)
        return r;
    add_restoring_changes(u, txn);
    r = apply_txn_stage(txn, err);
    if (r == 0)
        r = apply_txn_commit(txn, &texts, err);
    if (r < 0)
        return r;
    u->out->done_count = u->count;
    memcpy(u->out->id, apply_txn_id(txn), sizeof(u->out->id));
    u->out->version = apply_txn_version_of(txn);
    apply_txn_finish(txn, &later);
    return 0;
}

/* ---- records ---- */

struct listing_entries {
    int records_fd;
    struct undo_entry *items;
    size_t count, cap;
};

static int on_entry(const char *id, int64_t time_ns, enum apply_txn_state state, void *cookie)
{
    struct listing_entries *list = cookie;
    struct apply_journal journal = APPLY_JOURNAL_EMPTY;
    autofd int fd = apply_txn_open(list->records_fd, id);

    if (state != APPLY_TXN_DONE && state != APPLY_TXN_FOLLOW_UP && state != APPLY_TXN_FINISHED)
        return 0;
    int r = fd < 0 ? fd : apply_journal_read(fd, &journal);
    if (r < 0)
        return r;
    vec_room(&list->items, &list->cap, list->count);
    struct undo_entry *entry = &list->items[list->count++];
    *entry = (struct undo_entry){ .time_ns = time_ns,
                                  .path_count = journal.count,
                                  .version = *journal.codebase ? apply_txn_version(fd) : 0 };
    snprintf(entry->id, sizeof(entry->id), "%s", id);
    memcpy(entry->undoes, journal.undoes, sizeof(entry->undoes));
    apply_journal_done(&journal);
    return 0;
}

static int list_entries(int records_fd, struct undo_entry **ret, size_t *ret_count)
{
    struct listing_entries list = { .records_fd = records_fd };
    int r = apply_txn_each(records_fd, on_entry, &list);

    for (size_t i = 0; i < list.count; i++) {
        for (size_t k = 0; *list.items[i].undoes && k < list.count; k++)
            list.items[k].is_undone |= strcmp(list.items[i].undoes, list.items[k].id) == 0;
    }
    if (r < 0) {
        free(list.items);
        return r;
    }
    *ret = list.items;
    *ret_count = list.count;
    return 0;
}

int undo_list(const char *delta_path, struct undo_entry **ret, size_t *ret_count, struct err *err)
{
    struct delta_info delta = DELTA_INFO_NONE;
    int r = delta_info_open(delta_path, &delta, err);

    if (r < 0)
        return r;
    autofd int records = path_open_beneath(delta.meta_fd, "approvals", O_RDONLY | O_DIRECTORY, 0);
    *ret = NULL;
    *ret_count = 0;
    if (records != -ENOENT)
        r = records < 0 ? records : list_entries(records, ret, ret_count);
    delta_info_done(&delta);
    return r < 0 ? err_errno(err, r, "reading the records of approvals") : 0;
}

static int find_record(struct undo_apply *u, const char *id, struct err *err)
{
    autofree struct undo_entry *entries = NULL;
    const struct undo_entry *found = NULL;
    size_t count = 0;
    int r = list_entries(u->locks->records_fd, &entries, &count);

    for (size_t i = 0; i < count; i++)
        found = strcmp(entries[i].id, id) == 0 ? &entries[i] : found;
    if (r == 0 && !found)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no such approval");
    if (r == 0 && found->is_undone)
        return err_set(err, ERR_FAILED_PRECONDITION, -EALREADY, "approval '%s' was undone already", id);
    if (r == 0)
        u->record_fd = apply_txn_open(u->locks->records_fd, id);
    if (r == 0)
        r = u->record_fd < 0 ? u->record_fd : apply_journal_read(u->record_fd, &u->journal);
    return r < 0 ? err_errno(err, r, "reading the record of approval '%s'", id) : 0;
}

int undo_run(const char *delta_path, const char *id, const struct undo_options *options, struct undo *ret, struct err *err)
{
    autodone(approve_locks) struct approve_locks locks = APPROVE_LOCKS_NONE;
    struct undo_apply u = { .out = ret, .locks = &locks, .record_fd = -1 };
    int r;

    *ret = UNDO_NONE;
    r = approve_locks_acquire(delta_path, &(struct approve_lock_options){ options->is_held, 0, options->codebase }, &locks,
                              err);
    if (r == 0)
        r = find_record(&u, id, err);
    if (r == 0)
        r = check_restored_paths(&u, err);
    if (r == 0 && ret->moved_count > 0)
        r = 1;
    if (r == 0 && !options->is_dry)
        r = apply_undo(&u, id, options->follow_up, err);
    undo_apply_done(&u);
    return r;
}

void undo_done(struct undo *undo)
{
    for (size_t i = 0; i < undo->moved_count; i++)
        free(undo->moved[i]);
    free(undo->moved);
    *undo = UNDO_NONE;
}
