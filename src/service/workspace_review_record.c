/*
 * What is being done to a project, so that a kill loses neither the change nor what is known of it.
 *
 *     1. `deciding` beside the delta, durable: what will be applied, by whom, and which record of review/ was the last before it
 *     2. the landing (review/landing.h), which is all or nothing by its own journal
 *     3. what was taken whole leaves the delta
 *     4. rows of provenance, the status
 *     5. `deciding` goes
 *
 * Whoever finds `deciding` looks for a record of review/ that is younger than the one it names. If there is one, the landing came to pass, and
 * 3 to 5 are done, again or for the first time; each of them may be repeated. If there is none, it never happened.
 *
 * The file is a row of "key\0value\0". Paths are any bytes.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "service/workspace_commit.h"
#include "service/workspace_review_int.h"
#include "store/applied_change_row.h"

#define RECORD_FILE "deciding"
#define RECORD_BYTES_MAX ((size_t) 512 << 20)
#define BIT(name) WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_##name)

/* A database that takes nothing now does not make the decision undone: then it is in the log. */
void review_tell(struct service *service, const struct caller *caller, const struct workspace_row *row, const char *type,
                 const char *claimed, json_t *details)
{
    workspaces_tell(service, caller, row, type, claimed, details);
    events_flush(service);
}

/* ---- writing ---- */

static void put(struct buf *out, const char *key, const char *value)
{
    buf_add(out, key, strlen(key) + 1);
    buf_add(out, value, strlen(value) + 1);
}

static void put_row(struct buf *out, const char *kind, const struct file_change *change, const char *path)
{
    char hash[CHANGE_HASH_TEXT_MAX];
    bool is_gone = strcmp(kind, "deleted") == 0;

    seen_hash(change, hash);
    autofree char *value = xprintf("%s %llu %o %s %s", kind, is_gone ? 0 : (unsigned long long) change->new_bytes,
                                   is_gone ? 0 : (unsigned) change->new_mode, is_gone || !*hash ? "-" : hash, path);
    put(out, "row", value);
}

static void put_rows(struct buf *out, const struct workspace_approved *approved)
{
    for (size_t i = 0; i < approved->set.count; i++) {
        const struct file_change *change = &approved->set.items[i];
        enum workspace_verdict verdict = approved->verdicts[i];

        if (change->is_dir || (verdict != WORKSPACE_VERDICT_APPLIED && verdict != WORKSPACE_VERDICT_PARTLY))
            continue;
        if (change->kind == FILE_CHANGE_RENAMED) {
            put_row(out, "added", change, change->scope_path);
            put_row(out, "deleted", change, change->from->path);
        } else {
            put_row(out, file_change_kind_name(change->kind), change, change->scope_path);
        }
    }
}

int review_record_begin(struct still *still, struct review_record *record, const struct workspace_approved *approved,
                        struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofree char *by = caller_name(still->caller);

    id_new(LANDING_ID_PREFIX, record->id);
    put(&text, "kind", record->kind);
    put(&text, "id", record->id);
    put(&text, "actor", record->actor);
    put(&text, "by", by);
    put(&text, "automatic", record->is_automatic ? "1" : "");
    put(&text, "undoes", record->undoes ? record->undoes : "");
    put(&text, "ends", record->ends ? "1" : "");
    if (approved)
        put_rows(&text, approved);
    for (size_t i = 0; approved && record->drops && i < approved->approve.drop_count; i++)
        put(&text, "drop", approved->approve.drops[i]);
    put(&text, "end", "");
    int r = file_replace(still->dir_fd, RECORD_FILE, text.data, text.len, 0600);
    if (r < 0)
        return err_errno(err, r, "writing down what is to be done; nothing was changed");
    fault("review_recorded");
    return 0;
}

void review_record_forget(struct still *still)
{
    unlinkat(still->dir_fd, RECORD_FILE, 0);
}

/* ---- reading ---- */

struct known {
    struct buf text;
    const char *kind, *id, *actor, *by, *undoes; /* borrowed from the text */
    bool ends, is_automatic, is_whole;
    const char **rows, **drops; /* owned arrays, borrowed items */
    size_t row_count, row_cap, drop_count, drop_cap;
};

static void known_done(struct known *known)
{
    buf_done(&known->text);
    free(known->rows);
    free(known->drops);
}

static void take(struct known *known, const char *key, const char *value)
{
    if (strcmp(key, "kind") == 0) {
        known->kind = value;
    } else if (strcmp(key, "id") == 0) {
        known->id = value;
    } else if (strcmp(key, "actor") == 0) {
        known->actor = value;
    } else if (strcmp(key, "by") == 0) {
        known->by = value;
    } else if (strcmp(key, "automatic") == 0) {
        known->is_automatic = *value;
    } else if (strcmp(key, "undoes") == 0) {
        known->undoes = value;
    } else if (strcmp(key, "ends") == 0) {
        known->ends = *value;
    } else if (strcmp(key, "end") == 0) {
        known->is_whole = true;
    } else if (strcmp(key, "row") == 0) {
        vec_room(&known->rows, &known->row_cap, known->row_count);
        known->rows[known->row_count++] = value;
    } else if (strcmp(key, "drop") == 0) {
        vec_room(&known->drops, &known->drop_cap, known->drop_count);
        known->drops[known->drop_count++] = value;
    }
}

/* -ENOENT: there is none. */
static int load(struct still *still, struct known *ret, struct err *err)
{
    int r = file_read(still->dir_fd, RECORD_FILE, RECORD_BYTES_MAX, &ret->text);

    if (r < 0)
        return r == -ENOENT ? r : err_errno(err, r, "reading what was being done");
    ret->kind = ret->id = ret->actor = ret->by = ret->undoes = "";
    for (size_t at = 0; at < ret->text.len;) {
        const char *key = ret->text.data + at;
        at += strnlen(key, ret->text.len - at) + 1;
        if (at >= ret->text.len)
            break;
        const char *value = ret->text.data + at;
        size_t len = strnlen(value, ret->text.len - at);
        if (at + len >= ret->text.len)
            break;
        take(ret, key, value);
        at += len + 1;
    }
    return ret->is_whole && id_is_valid(LANDING_ID_PREFIX, ret->id)
               ? 0
               : err_set(err, ERR_DATA_LOSS, -EBADMSG, "what was being done is not readable any more");
}

/* ---- provenance ---- */

/* The database takes UTF-8. */
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

/* The path in the sandbox, borrowed from the line; NULL: the line is none of ours. */
static const char *make_row(const struct still *still, const struct known *known, const char *approval_id, const char *line,
                            struct applied_change_row *ret)
{
    const struct workspace_row *box = &still->row;
    unsigned long long size = 0;
    unsigned mode = 0;
    char kind[16], hash[CHANGE_HASH_TEXT_MAX], id[FILE_ID_LEN + 1];
    int at = 0;

    if (sscanf(line, "%15s %llu %o %64s %n", kind, &size, &mode, hash, &at) < 4 || at == 0)
        return NULL;
    autofree char *name = xprintf("%s:%s", approval_id, line + at);
    if (file_id_make(box->id, name, id) < 0)
        return NULL;
    *ret = (struct applied_change_row){
        .id = xdup(id),
        .approval_id = xdup(approval_id),
        .workspace_id = xdup(box->id),
        .account_id = xdup(box->account_id),
        .host_id = xdup(box->host_id),
        .owner = xdup(box->owner),
        .owner_type = xdup(box->owner_type),
        .actor = xdup(*known->actor ? known->actor
                      : *known->by  ? known->by
                                    : box->account_id),
        .relative_path = as_text(still_project_path(still->prefix, line + at)),
        .file_path = as_text(xprintf("%s/%s", strcmp(box->scope_path, "/") == 0 ? "" : box->scope_path, line + at)),
        .project_root = xdup(box->project_root),
        .change_type = xdup(kind),
        .size_bytes = (int64_t) size,
        .mode = (int64_t) mode,
        .content_hash = xdup(strcmp(hash, "-") == 0 ? "" : hash),
        .applied_ns = clock_wall_ns(),
        .commit_hash = xdup(""),
        .commit_message = xdup(""),
    };
    return line + at;
}

static int insert_rows(struct still *still, const struct known *known, const char *approval_id, char ***ret_ids,
                       struct err *err)
{
    struct applied_change_rows rows = { .rows = xalloc((known->row_count + 1) * sizeof(*rows.rows)) };
    autofree const char **paths = xalloc((known->row_count + 1) * sizeof(*paths));
    int r = 0;

    for (size_t i = 0; i < known->row_count; i++) {
        const char *path = make_row(still, known, approval_id, known->rows[i], &rows.rows[rows.count]);
        if (path)
            paths[rows.count++] = path;
    }
    /* Before the rows: whoever finds one finds this. */
    workspace_contributions_keep(still, approval_id, rows.rows, paths, rows.count);
    if (rows.count > 0)
        r = applied_change_row_insert(still->service->store, rows.rows, rows.count, err);
    if (r == 0 && ret_ids) {
        *ret_ids = xalloc((rows.count + 1) * sizeof(**ret_ids));
        for (size_t i = 0; i < rows.count; i++)
            (*ret_ids)[i] = xdup(rows.rows[i].id);
    }
    applied_change_rows_done(&rows);
    return r < 0 ? r : 0;
}

/* ---- finishing ---- */

static int end_workspace(struct still *still, struct err *err)
{
    int r = still_halt(still, err);

    if (r == 0 && still->row.status != WORKSPACE_STATUS_APPROVED)
        r = workspace_step(still->service, &still->row, BIT(STOPPED) | BIT(ACTIVE), 0, WORKSPACE_STATUS_APPROVED, NULL, err);
    if (r == 0)
        workspaces_totals(still->service)->approved++;
    return r;
}

/* What it took back is a change again: whoever has it can go on. If others have reserved its paths meanwhile, that has to wait until
 * somebody restores it; the project is what it was in either case. */
static int reopen_workspace(struct still *still, struct err *err)
{
    int r = workspace_reopen(still, NULL, err);

    if (r != -EBUSY && r != -EDQUOT)
        return r;
    log_info("a sandbox stays approved although its approval was undone", LOG_STR("sandbox_id", still->row.id),
             LOG_STR("error", err->text));
    *err = ERR_NONE;
    return 0;
}

static int finish(struct still *still, const struct known *known, const char *approval_id, char ***ret_ids, struct err *err)
{
    int r = insert_rows(still, known, approval_id, ret_ids, err);

    if (r == 0 && *known->undoes)
        r = applied_change_row_undo(still->service->store, known->undoes, clock_wall_ns(), err);
    fault("review_noted");
    if (r >= 0 && known->ends)
        r = end_workspace(still, err);
    else if (r >= 0 && *known->undoes && still->row.status == WORKSPACE_STATUS_APPROVED)
        r = reopen_workspace(still, err);
    if (r < 0)
        return r; /* the record stays, and with it the intention */
    review_record_forget(still);
    if (strcmp(known->kind, "approve") == 0)
        workspaces_totals(still->service)->patches++;
    return 0;
}

int review_record_finish(struct still *still, const char *approval_id, char ***ret_ids, struct err *err)
{
    autodone(known) struct known known = { .text = BUF_EMPTY };
    int r = load(still, &known, err);

    return r < 0 ? r : finish(still, &known, approval_id, ret_ids, err);
}

int review_record_note(struct still *still, const char *approval_id, char ***ret_ids, struct err *err)
{
    autodone(known) struct known known = { .text = BUF_EMPTY };
    int r = load(still, &known, err);

    return r < 0 ? r : insert_rows(still, &known, approval_id, ret_ids, err);
}

/* ---- after a kill ---- */

/* Of one that goes on with what it has, it stays; that it is no change was noted with the landing. A copy that cannot be held is left on its old
 * ground: at worst that is a conflict later. */
static int release_again(struct still *still, const struct fence_drop *drops, size_t count, struct err *err)
{
    if (still_can_drop(still))
        return still_release(still, drops, count, err);
    if (still_is_copy(still) && still_is_calm(still))
        return still_stand(still, drops, count, err);
    return still_release(still, NULL, 0, err);
}

/* Only what nobody has changed since. */
static int drop_again(struct still *still, const struct known *known, struct err *err)
{
    autodone(change_set) struct change_set set = CHANGE_SET_EMPTY;
    autofree struct fence_drop *drops = xalloc((known->drop_count + 1) * sizeof(*drops));
    size_t count = 0;
    int r = known->drop_count
                ? change_set_load(still->delta_path, &(struct change_set_options){ .without_renames = true }, &set, err)
                : 0;

    if (r < 0)
        return r;
    for (size_t i = 0; i < known->drop_count; i++)
        if (!change_set_find_scoped(&set, known->drops[i] + 1))
            drops[count++] = (struct fence_drop){ .path = known->drops[i], .replace_fd = -1 };
    return release_again(still, drops, count, err);
}

static int recover(struct still *still, const struct known *known, struct err *err)
{
    const char *id = known->id;
    int r = still_try(still, err);

    if (r == 0)
        r = approve_recover(still->delta_path, still_is_locked(still), err);
    if (r == 0)
        r = approve_was_done(still->delta_path, id, err);
    if (r < 0)
        return r;
    if (r == 0) {
        review_record_forget(still);
        return 0;
    }
    r = drop_again(still, known, err);
    if (r == 0)
        r = finish(still, known, id, NULL, err);
    if (r < 0)
        return r;
    json_t *details = json_pack("{s:s, s:b}", "approvalId", id, "recovered", 1);
    if (known->is_automatic)
        json_object_set_new(details, "automatic", json_true());
    /* By whoever decided it, not by whoever comes first now. */
    review_tell(still->service, &(struct caller){ .owner = strcmp(known->by, CALLER_SYSTEM) == 0 ? "" : known->by },
                &still->row,
                *known->undoes ? "workspace_undone"
                : known->ends  ? "workspace_approved"
                               : "workspace_partial_approved",
                known->actor, details);
    log_info("what was being applied is applied", LOG_STR("sandbox_id", still->row.id), LOG_STR("approval_id", id));
    return 0;
}

void review_record_left(const struct still *still, const struct err *why)
{
    log_warn("what was being applied could not be finished", LOG_STR("sandbox_id", still->row.id), LOG_STR("error", why->text));
    if (err_is_passing(why))
        janitor_doubt(still->service);
}

void review_record_recover(struct still *still)
{
    autodone(known) struct known known = { .text = BUF_EMPTY };
    struct err err = ERR_NONE;
    int r = load(still, &known, &err);

    if (r == -ENOENT)
        return;
    if (r == 0)
        r = recover(still, &known, &err);
    if (r == -EBADMSG)
        review_record_forget(still);
    if (r < 0)
        review_record_left(still, &err);
}

static int recover_one(const char *name, int dir_fd, void *cookie)
{
    static const struct caller system = { .owner = "", .is_admin = true, .cancel_fd = -1 };
    struct service *service = cookie;
    autodone(still) struct still still = STILL_NONE;
    struct err err = ERR_NONE;
    char id[UUID_TEXT_MAX];

    if (!workspace_id_of_name(name, id) || faccessat(dir_fd, RECORD_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (still_begin(service, &system, id, 0, BIT(ACTIVE) | BIT(STOPPED) | BIT(APPROVED), "recovered", &still, &err) < 0)
        log_warn("what was being applied is not looked at", LOG_STR("sandbox_id", id), LOG_STR("error", err.text));
    return 0;
}

void workspaces_recover_reviews(struct service *service)
{
    struct err err = ERR_NONE;

    if (state_dir_each(&service->state_dir, recover_one, service, &err) < 0)
        log_warn("approvals that were cut short are not looked at", LOG_STR("error", err.text));
}
