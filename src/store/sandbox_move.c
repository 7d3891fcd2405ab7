/* The two axes of a sandbox, and the only function that moves it along them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/row.h"
#include "store/sandbox_row_int.h"
#include "store/txn.h"

#define BIT(name) SANDBOX_STATUS_BIT(SANDBOX_STATUS_##name)

/* The statuses that may follow each. A move that keeps the status changes the decision. */
static const struct {
    const char *name;
    unsigned to;
} statuses[SANDBOX_STATUS_COUNT] = {
    [SANDBOX_STATUS_UNSPECIFIED] = { "unknown", 0 },
    [SANDBOX_STATUS_CREATING] = { "creating", BIT(PENDING) | BIT(RUNNING) | BIT(ERROR) | BIT(DELETING) | BIT(DELETED) },
    [SANDBOX_STATUS_PENDING] = { "pending", BIT(STARTING) | BIT(STOPPED) | BIT(ERROR) | BIT(DELETING) | BIT(DELETED) },
    [SANDBOX_STATUS_STARTING] = { "starting", BIT(RUNNING) | BIT(STOPPED) | BIT(ERROR) | BIT(DELETING) },
    [SANDBOX_STATUS_RUNNING] = { "running", BIT(STARTING) | BIT(STOPPING) | BIT(ERROR) | BIT(DELETING) },
    [SANDBOX_STATUS_STOPPING] = { "stopping", BIT(STOPPING) | BIT(STOPPED) | BIT(ERROR) | BIT(DELETING) | BIT(DELETED) },
    [SANDBOX_STATUS_STOPPED] = { "stopped", BIT(STARTING) | BIT(STOPPED) | BIT(ERROR) | BIT(DELETING) | BIT(DELETED) },
    [SANDBOX_STATUS_ERROR] = { "error", BIT(STARTING) | BIT(RUNNING) | BIT(STOPPED) | BIT(DELETING) | BIT(DELETED) },
    [SANDBOX_STATUS_DELETING] = { "deleting", BIT(DELETED) },
    [SANDBOX_STATUS_DELETED] = { "deleted", BIT(STOPPED) },
};

/* The statuses that may follow a failed creation. */
#define IF_NOT_MADE (BIT(DELETING) | BIT(DELETED))

/* The statuses that a decided sandbox may have. */
#define MAY_BE_DECIDED (BIT(STOPPED) | BIT(DELETING) | BIT(DELETED))

const char *sandbox_status_name(enum sandbox_status status)
{
    return statuses[(unsigned) status < SANDBOX_STATUS_COUNT ? status : 0].name;
}

/* ---- both axes in one word ---- */

/* SQL conditions that match sandbox_row_state(). */
static const struct {
    const char *name, *condition;
} states[SANDBOX_STATE_COUNT] = {
    [SANDBOX_STATE_CREATING] = { "creating", "status = 8" },
    [SANDBOX_STATE_ACTIVE] = { "active", "status IN (2, 5, 6)" },
    [SANDBOX_STATE_STOPPED] = { "stopped", "(decision = 0 AND (status IN (1, 3) OR (status = 4 AND deleted_ns = 0)))" },
    [SANDBOX_STATE_APPROVED] = { "approved", "(decision = 1 AND status IN (1, 3, 4))" },
    [SANDBOX_STATE_REJECTED] = { "rejected", "(decision = 2 AND status IN (1, 3, 4))" },
    [SANDBOX_STATE_DELETED] = { "deleted", "status IN (7, 9)" },
    [SANDBOX_STATE_ERROR] = { "error", "(decision = 0 AND status = 4 AND deleted_ns > 0)" },
};

const char *sandbox_state_name(enum sandbox_state state)
{
    const char *name = (unsigned) state < SANDBOX_STATE_COUNT ? states[state].name : NULL;

    return name ? name : "unknown";
}

bool sandbox_state_parse(const char *name, enum sandbox_state *ret)
{
    for (int i = 1; i < SANDBOX_STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) {
            *ret = (enum sandbox_state) i;
            return true;
        }
    }
    return false;
}

enum sandbox_state sandbox_row_state(const struct sandbox_row *row)
{
    switch (row->status) {
    case SANDBOX_STATUS_CREATING:
        return SANDBOX_STATE_CREATING;
    case SANDBOX_STATUS_STARTING:
    case SANDBOX_STATUS_RUNNING:
    case SANDBOX_STATUS_STOPPING:
        return SANDBOX_STATE_ACTIVE;
    case SANDBOX_STATUS_DELETING:
    case SANDBOX_STATUS_DELETED:
        return SANDBOX_STATE_DELETED;
    case SANDBOX_STATUS_PENDING:
    case SANDBOX_STATUS_STOPPED:
    case SANDBOX_STATUS_ERROR:
        break;
    default:
        return SANDBOX_STATE_NONE;
    }
    if (row->decision != SANDBOX_DECISION_OPEN)
        return row->decision == SANDBOX_DECISION_APPROVED ? SANDBOX_STATE_APPROVED : SANDBOX_STATE_REJECTED;
    return row->status == SANDBOX_STATUS_ERROR && row->deleted_ns > 0 ? SANDBOX_STATE_ERROR : SANDBOX_STATE_STOPPED;
}

void sandbox_row_add_states(struct query *query, unsigned bits)
{
    const char *before = " AND (";

    for (int i = 1; i < SANDBOX_STATE_COUNT; i++) {
        if (bits & SANDBOX_STATE_BIT(i)) {
            buf_addf(&query->text, "%s%s", before, states[i].condition);
            before = " OR ";
        }
    }
    query_add_text(query, ")");
}

bool sandbox_row_holds(const struct sandbox_row *row)
{
    switch (row->status) {
    case SANDBOX_STATUS_UNSPECIFIED:
    case SANDBOX_STATUS_DELETED:
        return false;
    case SANDBOX_STATUS_ERROR:
        return row->decision == SANDBOX_DECISION_OPEN && row->deleted_ns == 0;
    default:
        return row->decision == SANDBOX_DECISION_OPEN;
    }
}

/* ---- moving ---- */

struct moving {
    const struct sandbox_move *move;
    struct sandbox_row row; /* owned: the row after the move */
};

static int reject_sandbox_state(const struct sandbox_row *row, const struct sandbox_move *move, struct err *err)
{
    const char *is = row->decision == SANDBOX_DECISION_OPEN ? sandbox_status_name((enum sandbox_status) row->status)
                                                            : sandbox_state_name(sandbox_row_state(row));
    const char *to = move->decides && move->decision != SANDBOX_DECISION_OPEN
                         ? move->decision == SANDBOX_DECISION_APPROVED ? "approved" : "rejected"
                         : sandbox_status_name(move->to);

    return err_set_reason(
        err, err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and cannot become %s", row->id, is, to),
        "INVALID_STATE");
}

static int sandbox_check_move(const struct sandbox_row *row, const struct sandbox_move *move, struct err *err)
{
    int decision = move->decides ? (int) move->decision : row->decision;
    bool is_known = (unsigned) row->status < SANDBOX_STATUS_COUNT;

    if (move->row_version && move->row_version != row->row_version)
        return err_set_reason(err,
                              err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile (version %lld, now %lld)",
                                      row->id, (long long) move->row_version, (long long) row->row_version),
                              "VERSION_MISMATCH");
    if (!is_known || !(statuses[row->status].to & SANDBOX_STATUS_BIT(move->to)) ||
        (sandbox_row_state(row) == SANDBOX_STATE_ERROR && !(IF_NOT_MADE & SANDBOX_STATUS_BIT(move->to))) ||
        (move->from && !(move->from & SANDBOX_STATUS_BIT(row->status))) ||
        (move->from_states && !(move->from_states & SANDBOX_STATE_BIT(sandbox_row_state(row)))) ||
        (decision != SANDBOX_DECISION_OPEN && !(MAY_BE_DECIDED & SANDBOX_STATUS_BIT(move->to))))
        return reject_sandbox_state(row, move, err);
    return 0;
}

static void sandbox_set_times(struct sandbox_row *row, const struct sandbox_move *move)
{
    bool ran = row->status == SANDBOX_STATUS_RUNNING || row->status == SANDBOX_STATUS_STOPPING;
    bool returns = row->status == SANDBOX_STATUS_DELETED || row->decision != SANDBOX_DECISION_OPEN;

    row->updated_ns = move->now_ns;
    if (move->to == SANDBOX_STATUS_RUNNING)
        row->started_ns = row->used_ns = move->now_ns;
    if ((move->to == SANDBOX_STATUS_STOPPED && (row->status != SANDBOX_STATUS_STOPPED || returns)) ||
        (move->to == SANDBOX_STATUS_ERROR && ran))
        row->stopped_ns = move->now_ns;
    if (move->to == SANDBOX_STATUS_DELETED || (move->to == SANDBOX_STATUS_ERROR && row->status == SANDBOX_STATUS_CREATING))
        row->deleted_ns = move->now_ns;
    else if (row->status == SANDBOX_STATUS_DELETED)
        row->deleted_ns = 0;
    if (move->decides && (int) move->decision != row->decision) {
        row->approved_ns = move->decision == SANDBOX_DECISION_APPROVED ? move->now_ns : 0;
        row->closed_ns = move->decision != SANDBOX_DECISION_OPEN ? move->now_ns : 0;
    }
}

static void sandbox_apply_move(struct sandbox_row *row, const struct sandbox_move *move)
{
    sandbox_set_times(row, move);
    row->status = (int) move->to;
    if (move->decides)
        row->decision = (int) move->decision;
    free(row->reason);
    row->reason = row_clean_reason(move->reason);
    if (move->forgets_key)
        row->idempotency_key[0] = '\0';
    if (move->forgets_name)
        row->name[0] = '\0';
    row->row_version++;
}

static int sandbox_write_row(struct db *db, const struct sandbox_row *row, struct err *err)
{
    int r = db_run(db,
                   "UPDATE sandboxes SET status = $1, decision = $2, reason = $3, idempotency_key = $4, name = $5,"
                   " started_ns = $6, used_ns = $7, updated_ns = $8, stopped_ns = $9, approved_ns = $10, closed_ns = $11,"
                   " deleted_ns = $12, row_version = $13 WHERE id = $14",
                   DB_VALUES(db_int(row->status), db_int(row->decision), db_text(row->reason), db_text(row->idempotency_key),
                             db_text(row->name), db_int(row->started_ns), db_int(row->used_ns), db_int(row->updated_ns),
                             db_int(row->stopped_ns), db_int(row->approved_ns), db_int(row->closed_ns), db_int(row->deleted_ns),
                             db_int(row->row_version), db_text(row->id)),
                   NULL, NULL, err);

    return r < 0 ? r : 0;
}

/* Locks the row, so that it cannot change between the check and the write. */
static int sandbox_load_row(struct db *db, const char *id, struct sandbox_row *ret, struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;

    table_select(&sandbox_table, &query);
    query_add(&query, " WHERE id = ", db_text(id));
    query_add_text(&query, db->driver->for_update);
    return table_get(&sandbox_table, &query, db, id, ret, err);
}

static int sandbox_forget_key(struct db *db, const struct sandbox_row *row, struct err *err)
{
    int r = db_run(db, "DELETE FROM claims WHERE owner_id = $1 AND idempotency_key = $2 AND resource_id = $3",
                   DB_VALUES(db_text(row->owner_id), db_text(row->idempotency_key), db_text(row->id)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

/* A sandbox that is restored or reopened must pass the checks of an insertion: others may have taken its paths and its
 * place. */
static int sandbox_check_room(struct db *db, const struct sandbox_row *row, const struct sandbox_move *move, struct err *err)
{
    struct sandbox_row then = *row;

    then.status = (int) move->to;
    then.decision = move->decides ? (int) move->decision : row->decision;
    if (sandbox_row_holds(row) || !sandbox_row_holds(&then))
        return 0;
    return sandbox_admission_check(db, row, row->status == SANDBOX_STATUS_DELETED, move->room, err);
}

/* Deleting a codebase locks its row and then looks for running sandboxes, so starting one locks that row first. This
 * transaction has locked the sandbox's row already, but the deletion only reads sandboxes, so they cannot deadlock. */
static int sandbox_do_move(struct db *db, void *cookie, struct err *err)
{
    struct moving *m = cookie;
    const struct sandbox_move *move = m->move;
    int r;

    sandbox_row_done(&m->row); /* from an earlier attempt */
    r = sandbox_load_row(db, move->id, &m->row, err);
    if (r == 0)
        r = sandbox_check_move(&m->row, move, err);
    if (r == 0)
        r = sandbox_check_room(db, &m->row, move, err);
    if (r == 0 && move->to == SANDBOX_STATUS_STARTING && *m->row.codebase_id)
        r = codebase_row_hold(db, m->row.codebase_id, err);
    if (r == 0 && move->forgets_key && *m->row.idempotency_key)
        r = sandbox_forget_key(db, &m->row, err);
    if (r < 0)
        return r;
    sandbox_apply_move(&m->row, move);
    return sandbox_write_row(db, &m->row, err);
}

int sandbox_row_move(struct store *store, const struct sandbox_move *move, struct sandbox_row *ret, struct err *err)
{
    struct moving m = { .move = move };
    int r;

    if (!sandbox_id_is_valid(move->id))
        return table_not_found(&sandbox_table, move->id, err);
    r = txn_write(store, STORE_CALL_SANDBOX_MOVE, 0, sandbox_do_move, &m, err);
    if (r == 0 && ret) {
        sandbox_row_done(ret);
        *ret = m.row;
    } else {
        sandbox_row_done(&m.row);
    }
    return r;
}
