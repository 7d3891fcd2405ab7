/*
 * Completes an approval or an undo after the project is written: rows of provenance, the status, an event. They are described
 * by the follow-up in the record of the transaction (review/apply_txn.h), which is the only journal:
 *
 *     1. the transaction, with the follow-up in its journal, is applied or not
 *     2. paths that were applied whole leave the delta
 *     3. rows of provenance and the status are written
 *     4. the record is closed
 *
 * After a kill, the next operation on the sandbox (review_lock_begin()) recovers transactions first, then does 2 to 4 for each
 * record that is not closed, the oldest first. Each of these steps may be repeated.
 *
 * The text of a follow-up: FORMAT, then "key\0value\0"... up to "end\0\0". Paths are any bytes. The first edition kept the
 * same pairs, with the id of the transaction, in the file `deciding` beside the delta.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "review/file_id.h"
#include "service/events.h"
#include "service/janitor.h"
#include "service/review_commit.h"
#include "service/reviews_int.h"
#include "store/applied_change_row.h"

#define FORMAT "agentfense-follow-up-1"
#define FIRST_EDITION_FILE "deciding"
#define BIT(name) SANDBOX_STATE_BIT(SANDBOX_STATE_##name)

/* The decision stands even if the database refuses the event; it is then in the log. */
void review_tell(struct service *service, const struct caller *caller, const struct sandbox_row *row, const char *type,
                 const char *claimed, json_t *details)
{
    sandbox_tell(service, caller, row, type, claimed, details);
    events_flush(service);
}

/* ---- writing ---- */

static void put_pair(struct buf *out, const char *key, const char *value)
{
    buf_add(out, key, strlen(key) + 1);
    buf_add(out, value, strlen(value) + 1);
}

static void put_row(struct buf *out, const char *kind, const struct file_change *change, const char *path)
{
    char hash[CHANGE_HASH_TEXT_MAX];
    bool is_gone = strcmp(kind, "deleted") == 0;

    shown_hash(change, hash);
    autofree char *value = xprintf("%s %llu %o %s %s", kind, is_gone ? 0 : (unsigned long long) change->new_bytes,
                                   is_gone ? 0 : (unsigned) change->new_mode, is_gone || !*hash ? "-" : hash, path);
    put_pair(out, "row", value);
}

static void put_rows(struct buf *out, const struct review_approved *approved)
{
    for (size_t i = 0; i < approved->set.count; i++) {
        const struct file_change *change = &approved->set.items[i];
        enum review_verdict verdict = approved->verdicts[i];

        if (change->is_dir || (verdict != REVIEW_VERDICT_APPLIED && verdict != REVIEW_VERDICT_PARTLY))
            continue;
        if (change->kind == FILE_CHANGE_RENAMED) {
            put_row(out, "added", change, change->scope_path);
            put_row(out, "deleted", change, change->from->path);
        } else {
            put_row(out, file_change_kind_name(change->kind), change, change->scope_path);
        }
    }
}

void review_follow_up_write(const struct review_lock *review_lock, const struct review_follow_up *what,
                            const struct review_approved *approved, struct buf *out)
{
    autofree char *by = caller_name(review_lock->caller);

    buf_add(out, FORMAT, sizeof(FORMAT));
    put_pair(out, "actor", what->actor);
    put_pair(out, "by", by);
    put_pair(out, "automatic", what->is_automatic ? "1" : "");
    put_pair(out, "ends", what->ends ? "1" : "");
    if (approved)
        put_rows(out, approved);
    put_pair(out, "end", "");
}

/* ---- reading ---- */

struct follow_up {
    const char *id, *actor, *by, *undoes; /* borrowed */
    uint64_t version;                     /* of the codebase */
    bool ends, is_automatic, is_whole;
    const char **rows, **drops; /* owned arrays, borrowed items */
    size_t row_count, row_cap, drop_count, drop_cap;
};

#define FOLLOW_UP_NONE ((struct follow_up){ .id = "", .actor = "", .by = "", .undoes = "" })

static void follow_up_done(struct follow_up *follow_up)
{
    free(follow_up->rows);
    free(follow_up->drops);
}

static void follow_up_add_drop(struct follow_up *follow_up, const char *path)
{
    vec_room(&follow_up->drops, &follow_up->drop_cap, follow_up->drop_count);
    follow_up->drops[follow_up->drop_count++] = path;
}

static void follow_up_set(struct follow_up *follow_up, const char *key, const char *value)
{
    if (strcmp(key, "id") == 0) {
        follow_up->id = value;
    } else if (strcmp(key, "actor") == 0) {
        follow_up->actor = value;
    } else if (strcmp(key, "by") == 0) {
        follow_up->by = value;
    } else if (strcmp(key, "automatic") == 0) {
        follow_up->is_automatic = *value;
    } else if (strcmp(key, "undoes") == 0) {
        follow_up->undoes = value;
    } else if (strcmp(key, "ends") == 0) {
        follow_up->ends = *value;
    } else if (strcmp(key, "end") == 0) {
        follow_up->is_whole = true;
    } else if (strcmp(key, "row") == 0) {
        vec_room(&follow_up->rows, &follow_up->row_cap, follow_up->row_count);
        follow_up->rows[follow_up->row_count++] = value;
    } else if (strcmp(key, "drop") == 0) {
        follow_up_add_drop(follow_up, value);
    }
}

/* Parses from `at` on. A NUL that is not counted ends the buffer. */
static void follow_up_parse(const struct buf *text, size_t at, struct follow_up *follow_up)
{
    while (at < text->len) {
        const char *key = text->data + at;
        at += strnlen(key, text->len - at) + 1;
        if (at >= text->len)
            return;
        const char *value = text->data + at;
        size_t len = strnlen(value, text->len - at);
        if (at + len >= text->len)
            return;
        follow_up_set(follow_up, key, value);
        at += len + 1;
    }
}

/* Borrows from both. */
static int follow_up_read(const char *id, const struct apply_txn_record *record, struct follow_up *follow_up, struct err *err)
{
    const struct buf *text = &record->follow_up;

    if (text->len >= sizeof(FORMAT) && memcmp(text->data, FORMAT, sizeof(FORMAT)) == 0)
        follow_up_parse(text, sizeof(FORMAT), follow_up);
    follow_up->id = id;
    follow_up->undoes = record->undoes;
    follow_up->version = record->version;
    for (size_t at = 0; at < record->drops.len; at += strlen(record->drops.data + at) + 1)
        follow_up_add_drop(follow_up, record->drops.data + at);
    return follow_up->is_whole ? 0 : err_set(err, ERR_DATA_LOSS, -EBADMSG, "what approval '%s' still owes is not readable", id);
}

/* ---- provenance ---- */

/* The database accepts only UTF-8. */
static char *as_text(char *path)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;
    json_t *probe = json_string(path);

    if (probe) {
        json_decref(probe);
        return path;
    }
    buf_add_escaped(&escaped, path, strlen(path));
    free(path);
    return buf_dup_take(&escaped);
}

/* Returns the path in the sandbox, borrowed from the line; NULL: the line is malformed. */
static const char *make_row(const struct review_lock *review_lock, const struct follow_up *follow_up, const char *line,
                            struct applied_change_row *ret)
{
    const struct sandbox_row *box = &review_lock->row;
    unsigned long long size = 0;
    unsigned mode = 0;
    char kind[16], hash[CHANGE_HASH_TEXT_MAX], id[FILE_ID_LEN + 1];
    int at = 0;

    if (sscanf(line, "%15s %llu %o %64s %n", kind, &size, &mode, hash, &at) < 4 || at == 0)
        return NULL;
    autofree char *name = xprintf("%s:%s", follow_up->id, line + at);
    if (file_id_make(box->id, name, id) < 0)
        return NULL;
    *ret = (struct applied_change_row){
        .id = xdup(id),
        .approval_id = xdup(follow_up->id),
        .sandbox_id = xdup(box->id),
        .owner_id = xdup(box->owner_id),
        .host_id = xdup(box->host_id),
        .creator = xdup(box->creator),
        .creator_type = xdup(box->creator_type),
        .actor = xdup(*follow_up->actor ? follow_up->actor
                      : *follow_up->by  ? follow_up->by
                                        : box->owner_id),
        .relative_path = as_text(review_lock_project_path(review_lock->prefix, line + at)),
        .file_path = as_text(xprintf("%s/%s", strcmp(box->scope_path, "/") == 0 ? "" : box->scope_path, line + at)),
        .project_root = xdup(review_lock->codebase ? codebase_id(review_lock->codebase) : box->project_root),
        .change_type = xdup(kind),
        .size_bytes = (int64_t) size,
        .mode = (int64_t) mode,
        .content_hash = xdup(strcmp(hash, "-") == 0 ? "" : hash),
        .applied_ns = clock_wall_ns(),
        .commit_hash = xdup(""),
        .commit_message = xdup(""),
    };
    /* A version counts as a commit: nothing is pending. */
    if (review_lock->codebase) {
        free(ret->commit_hash);
        ret->commit_hash = xprintf("version %" PRIu64, follow_up->version);
        ret->committed_ns = ret->applied_ns;
    }
    return line + at;
}

static int insert_rows(struct review_lock *review_lock, const struct follow_up *follow_up, char ***ret_ids, struct err *err)
{
    struct applied_change_rows rows = { .rows = xalloc((follow_up->row_count + 1) * sizeof(*rows.rows)) };
    autofree const char **paths = xalloc((follow_up->row_count + 1) * sizeof(*paths));
    int r = 0;

    for (size_t i = 0; i < follow_up->row_count; i++) {
        const char *path = make_row(review_lock, follow_up, follow_up->rows[i], &rows.rows[rows.count]);
        if (path)
            paths[rows.count++] = path;
    }
    /* Before the rows, because readers of a row expect the contribution. */
    if (!review_lock->codebase)
        review_contributions_keep(review_lock, follow_up->id, rows.rows, paths, rows.count);
    if (rows.count > 0)
        r = applied_change_row_insert(review_lock->service->store, rows.rows, rows.count, err);
    if (r == 0 && ret_ids) {
        *ret_ids = xalloc((rows.count + 1) * sizeof(**ret_ids));
        for (size_t i = 0; i < rows.count; i++)
            (*ret_ids)[i] = xdup(rows.rows[i].id);
    }
    applied_change_rows_done(&rows);
    return r < 0 ? r : 0;
}

/* ---- finishing ---- */

int review_end(struct review_lock *review_lock, struct err *err)
{
    int r = review_lock_halt(review_lock, err);

    if (r == 0 && sandbox_row_state(&review_lock->row) != SANDBOX_STATE_APPROVED)
        r = life_decide(review_lock->service, &review_lock->row, SANDBOX_DECISION_APPROVED, err);
    if (r == 0)
        sandboxes_totals(review_lock->service)->approved++;
    return r;
}

/* After an undo the changes are in the sandbox again, so it can be used again. If others have reserved its paths meanwhile,
 * it stays closed until somebody restores it; the project is restored in either case. */
static int reopen_workspace(struct review_lock *review_lock, struct err *err)
{
    int r = review_reopen(review_lock, NULL, err);

    if (r != -EBUSY && r != -EDQUOT)
        return r;
    log_info("a sandbox stays approved although its approval was undone", LOG_STR("sandbox_id", review_lock->row.id),
             LOG_STR("error", err->text));
    *err = ERR_NONE;
    return 0;
}

static int do_follow_up(struct review_lock *review_lock, const struct follow_up *follow_up, char ***ret_ids, struct err *err)
{
    int r = insert_rows(review_lock, follow_up, ret_ids, err);

    review_lock_tell_version(review_lock);
    if (r == 0 && *follow_up->undoes)
        r = applied_change_row_undo(review_lock->service->store, follow_up->undoes, clock_wall_ns(), err);
    fault("review_noted");
    if (r >= 0 && follow_up->ends)
        r = review_end(review_lock, err);
    else if (r >= 0 && *follow_up->undoes && sandbox_row_state(&review_lock->row) == SANDBOX_STATE_APPROVED)
        r = reopen_workspace(review_lock, err);
    fault("review_ended");
    if (r >= 0 && !*follow_up->undoes)
        sandboxes_totals(review_lock->service)->patches++;
    return r < 0 ? r : 0;
}

struct finishing {
    struct review_lock *review_lock;
    const char *id; /* of the new transaction */
    bool only_rows, is_found;
    char ***ret_ids;
};

/* Completes older records first: an undo, for example, would otherwise not find the rows of its approval. */
static int finish_follow_up(const char *id, const struct apply_txn_record *record, void *cookie, struct err *err)
{
    struct finishing *f = cookie;
    autodone(follow_up) struct follow_up follow_up = FOLLOW_UP_NONE;
    int r = 0;

    if (strcmp(id, f->id) != 0 && !f->is_found)
        return err_set(err, ERR_UNAVAILABLE, -EAGAIN, "approval '%s' before it could not be noted yet", id);
    if (f->is_found)
        return 0;
    f->is_found = true;
    r = follow_up_read(id, record, &follow_up, err);
    if (r == 0)
        r = f->only_rows ? insert_rows(f->review_lock, &follow_up, f->ret_ids, err)
                         : do_follow_up(f->review_lock, &follow_up, f->ret_ids, err);
    return r == 0 && !f->only_rows ? approve_close(f->review_lock->delta_path, id, err) : r;
}

static int finish_follow_ups(struct finishing *f, struct err *err)
{
    int r = approve_each_follow_up(f->review_lock->delta_path, finish_follow_up, f, err);

    return r < 0 || f->is_found ? r : err_set(err, ERR_UNAVAILABLE, -EAGAIN, "tidying up after it is not over yet");
}

int review_record_finish(struct review_lock *review_lock, const char *approval_id, char ***ret_ids, struct err *err)
{
    return finish_follow_ups(&(struct finishing){ .review_lock = review_lock, .id = approval_id, .ret_ids = ret_ids }, err);
}

int review_record_note(struct review_lock *review_lock, const char *approval_id, char ***ret_ids, struct err *err)
{
    return finish_follow_ups(
        &(struct finishing){ .review_lock = review_lock, .id = approval_id, .only_rows = true, .ret_ids = ret_ids }, err);
}

/* ---- after a kill ---- */

/* A sandbox that keeps its paths needs no drop; the transaction noted that they are no change. A copy that cannot be
 * quiesced keeps its old merge base: at worst that is a conflict later. */
static int repeat_release(struct review_lock *review_lock, const struct fence_revert *drops, size_t count, struct err *err)
{
    if (review_lock_can_drop(review_lock))
        return review_lock_release(review_lock, drops, count, err);
    if (review_lock_is_copy(review_lock) && review_lock_is_calm(review_lock))
        return review_lock_stand(review_lock, drops, count, err);
    return review_lock_release(review_lock, NULL, 0, err);
}

/* Drops only paths that were not changed since. */
static int repeat_drops(struct review_lock *review_lock, const struct follow_up *follow_up, struct err *err)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autofree struct fence_revert *drops = xalloc((follow_up->drop_count + 1) * sizeof(*drops));
    size_t count = 0;
    int r = follow_up->drop_count
                ? change_set_load(review_lock->delta_path, &(struct change_set_options){ .without_renames = true }, &set, err)
                : 0;

    if (r < 0)
        return r;
    for (size_t i = 0; i < follow_up->drop_count; i++)
        if (!change_set_find_scoped(&set, follow_up->drops[i] + 1))
            drops[count++] = (struct fence_revert){ .path = follow_up->drops[i], .replace_fd = -1 };
    return repeat_release(review_lock, drops, count, err);
}

static int recover_follow_up_steps(struct review_lock *review_lock, const struct follow_up *follow_up, struct err *err)
{
    int r = review_lock_try(review_lock, err);

    if (r == 0 && !follow_up->ends)
        r = repeat_drops(review_lock, follow_up, err);
    return r < 0 ? r : do_follow_up(review_lock, follow_up, NULL, err);
}

/* The event names the person who decided, not the caller whose operation runs the recovery. */
static void send_recovered_event(struct review_lock *review_lock, const struct follow_up *follow_up)
{
    json_t *details = json_pack("{s:s, s:b}", "approvalId", follow_up->id, "recovered", 1);

    if (follow_up->is_automatic)
        json_object_set_new(details, "automatic", json_true());
    review_tell(review_lock->service,
                &(struct caller){ .owner = strcmp(follow_up->by, CALLER_SYSTEM) == 0 ? "" : follow_up->by }, &review_lock->row,
                *follow_up->undoes ? "sandbox_undone"
                : follow_up->ends  ? "sandbox_approved"
                                   : "sandbox_partial_approved",
                follow_up->actor, details);
    log_info("what was being applied is applied", LOG_STR("sandbox_id", review_lock->row.id),
             LOG_STR("approval_id", follow_up->id));
}

static int recover_follow_up(const char *id, const struct apply_txn_record *record, void *cookie, struct err *err)
{
    struct review_lock *review_lock = cookie;
    autodone(follow_up) struct follow_up follow_up = FOLLOW_UP_NONE;
    int r = follow_up_read(id, record, &follow_up, err);

    if (r == 0)
        r = recover_follow_up_steps(review_lock, &follow_up, err);
    /* A record that cannot be read now cannot be read later either; that was reported. */
    if (r == -EBADMSG)
        review_record_left(review_lock, err);
    if (r == 0 || r == -EBADMSG)
        r = approve_close(review_lock->delta_path, id, err);
    if (r == 0 && follow_up.is_whole)
        send_recovered_event(review_lock, &follow_up);
    return r;
}

static int recover_transactions(struct review_lock *review_lock, struct err *err)
{
    int r = approve_has_unfinished(review_lock->delta_path, err);

    if (r <= 0)
        return r;
    r = review_lock_try(review_lock, err);
    if (r == 0)
        r = approve_recover(review_lock->delta_path, review_lock_is_locked(review_lock), review_lock_lands_in(review_lock),
                            err);
    return r < 0 ? r : approve_each_follow_up(review_lock->delta_path, recover_follow_up, review_lock, err);
}

/* Completes an operation of a killed server of the first edition. Its transactions have no follow-up. */
static int recover_first_edition(struct review_lock *review_lock, struct err *err)
{
    autodone(follow_up) struct follow_up follow_up = FOLLOW_UP_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;
    int r = file_read(review_lock->dir_fd, FIRST_EDITION_FILE, APPLY_TXN_FOLLOW_UP_MAX, &text);

    if (r < 0)
        return r == -ENOENT ? 0 : err_errno(err, r, "reading what was being done");
    follow_up_parse(&text, 0, &follow_up);
    if (!follow_up.is_whole || !id_is_valid(APPLY_TXN_ID_PREFIX, follow_up.id)) {
        err_set(err, ERR_DATA_LOSS, -EBADMSG, "what was being done is not readable any more");
        review_record_left(review_lock, err);
        *err = ERR_NONE;
    } else {
        r = review_lock_try(review_lock, err);
        if (r == 0)
            r = approve_recover(review_lock->delta_path, review_lock_is_locked(review_lock), review_lock_lands_in(review_lock),
                                err);
        if (r == 0)
            r = approve_was_done(review_lock->delta_path, follow_up.id, err);
        bool was_done = r > 0;
        if (was_done)
            r = recover_follow_up_steps(review_lock, &follow_up, err);
        if (r < 0)
            return r;
        if (was_done)
            send_recovered_event(review_lock, &follow_up);
    }
    return unlinkat(review_lock->dir_fd, FIRST_EDITION_FILE, 0) < 0 ? err_errno(err, -errno, "removing what was done") : 0;
}

void review_record_left(const struct review_lock *review_lock, const struct err *why)
{
    log_warn("what was being applied could not be finished", LOG_STR("sandbox_id", review_lock->row.id),
             LOG_STR("error", why->text));
    if (err_is_transient(why))
        janitor_doubt(review_lock->service);
}

void review_record_recover(struct review_lock *review_lock)
{
    struct err err = ERR_NONE;
    int r = recover_first_edition(review_lock, &err);

    if (r == 0)
        r = recover_transactions(review_lock, &err);
    if (r < 0)
        review_record_left(review_lock, &err);
}

static int recover_sandbox(const char *name, int dir_fd, void *cookie)
{
    static const struct caller system = { .owner = "", .is_admin = true, .cancel_fd = -1 };
    struct service *service = cookie;
    autodone(review_lock) struct review_lock review_lock = REVIEW_LOCK_NONE;
    struct err err = ERR_NONE;

    if (!sandbox_id_is_valid(name))
        return 0;
    autofree char *delta_path = sandboxes_path(service, name, "delta");
    if (faccessat(dir_fd, FIRST_EDITION_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && approve_has_unfinished(delta_path, &err) == 0)
        return 0;
    err = ERR_NONE;
    if (review_lock_begin(service, &system, name, 0, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED), "recovered", &review_lock,
                          &err) < 0)
        log_warn("what was being applied is not looked at", LOG_STR("sandbox_id", name), LOG_STR("error", err.text));
    return 0;
}

void reviews_recover(struct service *service)
{
    struct err err = ERR_NONE;

    if (state_dir_each(&service->state_dir, recover_sandbox, service, &err) < 0)
        log_warn("approvals that were cut short are not looked at", LOG_STR("error", err.text));
}
