#include "store/sandbox_row.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/id.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/job.h"
#include "store/row.h"

struct moving {
    const struct sandbox_move *move;
    int64_t status; /* what it is now */
    int64_t version;
};

struct found {
    int64_t status;
    int64_t version;
    char codebase_id[ID_TEXT_MAX];
};

static int take_found(const struct db_value *columns, size_t count, void *cookie)
{
    struct found *f = cookie;

    if (count != 3 || columns[0].kind != DB_INT || columns[1].kind != DB_INT || columns[2].len >= sizeof(f->codebase_id))
        return -EUCLEAN;
    f->status = columns[0].number;
    f->version = columns[1].number;
    snprintf(f->codebase_id, sizeof(f->codebase_id), "%.*s", (int) columns[2].len, (const char *) columns[2].bytes);
    return 0;
}

/* Held, so that what is decided here is still so when it is written. */
static int find(struct db *db, const char *id, struct found *ret, struct err *err)
{
    autofree char *text =
        xprintf("SELECT status, row_version, codebase_id FROM sandboxes WHERE id = $1%s", db->driver->for_update);
    int r = db_run(db, text, DB_VALUES(db_text(id)), take_found, ret, err);

    if (r == 0)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no sandbox '%s'", id);
    return r < 0 ? r : 0;
}

static int check_found(const struct sandbox_move *move, const struct found *found, struct err *err)
{
    if (!(move->from & SANDBOX_STATUS_BIT((unsigned) found->status)))
        return err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox '%s' is %s", move->id,
                       sandbox_status_name((enum sandbox_status) found->status));
    if (move->row_version && move->row_version != found->version)
        return err_set(err, ERR_FAILED_PRECONDITION, -ESTALE, "sandbox '%s' was changed meanwhile (version %lld, now %lld)",
                       move->id, (long long) move->row_version, (long long) found->version);
    return 0;
}

static int write_move(struct db *db, const struct sandbox_move *move, const struct found *found, struct err *err)
{
    bool starts = move->to == SANDBOX_STATUS_RUNNING;
    bool ran = found->status == SANDBOX_STATUS_RUNNING || found->status == SANDBOX_STATUS_STOPPING;
    bool stops = move->to == SANDBOX_STATUS_STOPPED || (move->to == SANDBOX_STATUS_ERROR && ran);
    autofree char *reason = row_clean_reason(move->reason);
    autofree char *text =
        xprintf("UPDATE sandboxes SET status = $1, reason = $2, row_version = row_version + 1%s WHERE id = $3",
                starts  ? ", started_ns = $4"
                : stops ? ", stopped_ns = $4"
                        : "");
    const struct db_value values[] = { db_int(move->to), db_text(reason), db_text(move->id), db_int(move->now_ns) };
    int r = db_run(db, text, values, starts || stops ? 4 : 3, NULL, NULL, err);

    return r < 0 ? r : 0;
}

/* Whoever deletes a codebase holds its row and then looks for sandboxes that run; we hold it before ours counts as one. Ours is
 * held already, but the other only reads sandboxes, so they never wait for each other in a circle. */
static int do_move(struct db *db, void *cookie, struct err *err)
{
    struct moving *m = cookie;
    struct found found = { .status = 0 };
    int r = find(db, m->move->id, &found, err);

    if (r < 0)
        return r;
    m->status = found.status;
    m->version = found.version;
    r = check_found(m->move, &found, err);
    if (r == 0 && m->move->to == SANDBOX_STATUS_STARTING && *found.codebase_id)
        r = codebase_row_hold(db, found.codebase_id, err);
    if (r == 0)
        r = write_move(db, m->move, &found, err);
    if (r < 0)
        return r;
    m->status = m->move->to;
    m->version = found.version + 1;
    return 0;
}

int sandbox_row_move(struct store *store, const struct sandbox_move *move, enum sandbox_status *ret_status,
                     int64_t *ret_version, struct err *err)
{
    struct moving m = { .move = move };
    int r;

    if (!id_is_valid(SANDBOX_ID_PREFIX, move->id))
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no such sandbox");
    r = job_write(store, METER_SANDBOX_MOVE, 0, do_move, &m, err);
    if (ret_status && (r == 0 || r == -ESTALE))
        *ret_status = (enum sandbox_status) m.status;
    if (ret_version && r == 0)
        *ret_version = m.version;
    return r;
}
