#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/job.h"
#include "store/row.h"
#include "store/workspace_row_int.h"

#define TOUCH_EVERY_NS CLOCK_NS_PER_SEC

#define BIT(name) WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_##name)

static const struct {
    const char *name;
    unsigned to; /* bits: where it may go */
} statuses[WORKSPACE_STATUS_COUNT] = {
    [WORKSPACE_STATUS_NONE] = { "unknown", 0 },
    [WORKSPACE_STATUS_CREATING] = { "creating", BIT(ACTIVE) | BIT(ERROR) | BIT(DELETED) },
    [WORKSPACE_STATUS_ACTIVE] = { "active", BIT(STOPPED) | BIT(APPROVED) | BIT(REJECTED) | BIT(ERROR) | BIT(DELETED) },
    [WORKSPACE_STATUS_STOPPED] = { "stopped", BIT(ACTIVE) | BIT(APPROVED) | BIT(REJECTED) | BIT(DELETED) },
    [WORKSPACE_STATUS_APPROVED] = { "approved", BIT(STOPPED) | BIT(DELETED) },
    [WORKSPACE_STATUS_REJECTED] = { "rejected", BIT(STOPPED) | BIT(DELETED) },
    [WORKSPACE_STATUS_DELETED] = { "deleted", BIT(STOPPED) },
    [WORKSPACE_STATUS_ERROR] = { "error", BIT(DELETED) },
};

const char *workspace_status_name(enum workspace_status status)
{
    return statuses[(unsigned) status < WORKSPACE_STATUS_COUNT ? status : 0].name;
}

bool workspace_status_parse(const char *name, enum workspace_status *ret)
{
    for (int i = 1; i < WORKSPACE_STATUS_COUNT; i++) {
        if (strcmp(statuses[i].name, name) == 0) {
            *ret = (enum workspace_status) i;
            return true;
        }
    }
    return false;
}

bool workspace_status_may(enum workspace_status from, enum workspace_status to)
{
    return (unsigned) from < WORKSPACE_STATUS_COUNT && statuses[from].to & WORKSPACE_STATUS_BIT(to);
}

struct found {
    int64_t status, version;
};

static int take_found(const struct db_value *columns, size_t count, void *cookie)
{
    struct found *found = cookie;

    if (count != 2 || columns[0].kind != DB_INT || columns[1].kind != DB_INT)
        return -EUCLEAN;
    *found = (struct found){ .status = columns[0].number, .version = columns[1].number };
    return 0;
}

static int check(const struct workspace_move *move, const struct found *found, struct err *err)
{
    enum workspace_status is = (enum workspace_status) found->status;

    if (move->row_version && move->row_version != found->version)
        return err_set_reason(err,
                              err_set(err, ERR_ABORTED, -ESTALE, "sandbox %s was changed meanwhile (version %lld, now %lld)",
                                      move->id, (long long) move->row_version, (long long) found->version),
                              "VERSION_MISMATCH");
    if (!(move->from & WORKSPACE_STATUS_BIT(is)) || !workspace_status_may(is, move->to))
        return err_set_reason(err,
                              err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox %s is %s, and cannot become %s", move->id,
                                      workspace_status_name(is), workspace_status_name(move->to)),
                              "INVALID_STATE");
    return 0;
}

static const char *times_of(enum workspace_status to)
{
    switch (to) {
    case WORKSPACE_STATUS_ACTIVE:
        return ", stopped_ns = 0, used_ns = $4";
    case WORKSPACE_STATUS_STOPPED:
        return ", stopped_ns = $4, approved_ns = 0, closed_ns = 0, deleted_ns = 0"; /* also of one that comes back */
    case WORKSPACE_STATUS_APPROVED:
        return ", approved_ns = $4, closed_ns = $4";
    case WORKSPACE_STATUS_REJECTED:
        return ", closed_ns = $4";
    case WORKSPACE_STATUS_DELETED:
        return ", deleted_ns = $4";
    default:
        return "";
    }
}

/* Its paths were free meanwhile, and the workspaces may have become as many as there may be. */
static int come_back(struct db *db, const struct workspace_move *move, const struct found *found, struct err *err)
{
    struct workspace_insertion none = { 0 };
    int r;

    if (WORKSPACE_STATUS_LOCKING & WORKSPACE_STATUS_BIT(found->status) ||
        !(WORKSPACE_STATUS_LOCKING & WORKSPACE_STATUS_BIT(move->to)))
        return 0;
    r = workspace_row_check_room(db, move->id, found->status == WORKSPACE_STATUS_DELETED,
                                 move->insertion ? move->insertion : &none, err);
    workspace_conflicts_done(&none.conflicts);
    return r;
}

static int do_move(struct db *db, void *cookie, struct err *err)
{
    const struct workspace_move *move = cookie;
    autofree char *select = xprintf("SELECT status, row_version FROM workspaces WHERE id = $1%s", db->driver->for_update);
    autofree char *reason = row_clean_reason(move->reason);
    autofree char *text = xprintf("UPDATE workspaces SET status = $1, reason = $2, row_version = row_version + 1,"
                                  " updated_ns = $4%s%s WHERE id = $3",
                                  times_of(move->to), move->forgets_key ? ", idempotency_key = ''" : "");
    struct found found = { 0 };
    int r = db_run(db, select, DB_VALUES(db_text(move->id)), take_found, &found, err);

    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'", move->id);
    if (r > 0)
        r = check(move, &found, err);
    if (r == 0)
        r = come_back(db, move, &found, err);
    if (r == 0)
        r = db_run(db, text, DB_VALUES(db_int(move->to), db_text(reason), db_text(move->id), db_int(move->now_ns)), NULL, NULL,
                   err);
    return r < 0 ? r : 0;
}

int workspace_row_move(struct store *store, const struct workspace_move *move, struct err *err)
{
    return job_write(store, METER_WORKSPACE_MOVE, 0, do_move, (void *) (uintptr_t) move, err);
}

/* ---- notes ---- */

struct note {
    const char *id, *text;
    int64_t a, b;
};

static int write_note(struct db *db, void *cookie, struct err *err)
{
    const struct note *note = cookie;
    int r = db_run(db, note->text, DB_VALUES(db_text(note->id), db_int(note->a), db_int(note->b)), NULL, NULL, err);

    return r < 0 ? r : 0;
}

int workspace_row_touch(struct store *store, const char *id, int64_t now_ns, struct err *err)
{
    struct note note = { id, "UPDATE workspaces SET used_ns = $2 WHERE id = $1 AND used_ns < $3", now_ns,
                         now_ns - TOUCH_EVERY_NS };

    return job_write(store, METER_WORKSPACE_NOTE, JOB_ONE_STATEMENT | JOB_REPEATABLE, write_note, &note, err);
}

int workspace_row_measure(struct store *store, const char *id, int64_t size_bytes, int64_t file_count, struct err *err)
{
    struct note note = { id, "UPDATE workspaces SET size_bytes = $2, file_count = $3 WHERE id = $1", size_bytes, file_count };

    return job_write(store, METER_WORKSPACE_NOTE, JOB_ONE_STATEMENT | JOB_REPEATABLE, write_note, &note, err);
}
