/* Inserts a sandbox's row, after checking the limits and the reserved paths. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/row.h"
#include "store/sandbox_row_int.h"
#include "store/txn.h"

void sandbox_conflicts_done(struct sandbox_conflicts *conflicts)
{
    for (size_t i = 0; i < conflicts->count; i++) {
        free(conflicts->items[i].owner_id);
        free(conflicts->items[i].creator);
        free(conflicts->items[i].path);
        free(conflicts->items[i].wanted);
    }
    free(conflicts->items);
    *conflicts = (struct sandbox_conflicts){ 0 };
}

/* ---- limits ---- */

static int reject_sandbox_count(int64_t count, unsigned max, const char *whose, struct err *err)
{
    return err_set_reason(err,
                          err_set(err, ERR_RESOURCE_EXHAUSTED, -EDQUOT,
                                  "%s %lld sandboxes, and %u are allowed; destroy one first", whose, (long long) count, max),
                          "TOO_MANY_SANDBOXES");
}

static int check_owner_limit(struct db *db, const struct sandbox_row *row, unsigned max, struct err *err)
{
    autofree char *lock = xprintf("owner %s", row->owner_id);
    int64_t count = 0;
    int r = max ? db->driver->lock(db, lock, err) : 0;

    if (r == 0 && max)
        r = db_run_int(db, "SELECT count(*) FROM sandboxes WHERE owner_id = $1 AND status <> $2",
                       DB_VALUES(db_text(row->owner_id), db_int(SANDBOX_STATUS_DELETED)), &count, err);
    return r < 0 || count < max || !max ? r : reject_sandbox_count(count, max, "you have", err);
}

static int check_host_limit(struct db *db, const struct sandbox_row *row, unsigned max, struct err *err)
{
    int64_t count = 0;
    int r = max ? db_run_int(db, "SELECT count(*) FROM sandboxes WHERE host_id = $1 AND codebase_id = '' AND status <> $2",
                             DB_VALUES(db_text(row->host_id), db_int(SANDBOX_STATUS_DELETED)), &count, err)
                : 0;

    return r < 0 || count < max || !max ? r : reject_sandbox_count(count, max, "there are", err);
}

/* ---- paths ---- */

static void add_conflict(struct sandbox_conflicts *conflicts, const struct sandbox_row *other, const char *has,
                         const char *wanted)
{
    enum sandbox_overlap overlap;

    if (strcmp(has, wanted) == 0)
        overlap = SANDBOX_OVERLAP_EXACT;
    else if (path_is_beneath(has, wanted))
        overlap = SANDBOX_OVERLAP_ABOVE;
    else if (path_is_beneath(wanted, has))
        overlap = SANDBOX_OVERLAP_BENEATH;
    else
        return;
    vec_room(&conflicts->items, &conflicts->cap, conflicts->count);
    struct sandbox_conflict *conflict = &conflicts->items[conflicts->count++];
    *conflict = (struct sandbox_conflict){ .owner_id = xdup(other->owner_id),
                                           .creator = xdup(other->creator),
                                           .path = xdup(has),
                                           .wanted = xdup(wanted),
                                           .overlap = overlap,
                                           .state = sandbox_row_state(other) };
    snprintf(conflict->id, sizeof(conflict->id), "%s", other->id);
}

/* Compares the paths here, because they may contain characters that are wildcards in SQL. */
static int sandbox_check_paths(struct db *db, const struct sandbox_row *row, struct sandbox_conflicts *conflicts,
                               struct err *err)
{
    autodone(query) struct query query = QUERY_EMPTY;
    autodone(table_rows) struct table_rows rows = { .table = &sandbox_table };
    int r;

    sandbox_conflicts_done(conflicts); /* from an earlier attempt */
    table_select(&sandbox_table, &query);
    query_add(&query, " WHERE host_id = ", db_text(row->host_id));
    query_add(&query, " AND id <> ", db_text(row->id));
    query_add_text(&query, " AND codebase_id = ''" SANDBOX_HOLDS);
    r = table_collect(&rows, &query, db, err);
    for (size_t i = 0; r == 0 && i < rows.count; i++) {
        const struct sandbox_row *other = (const struct sandbox_row *) rows.rows + i;

        for (char **has = other->reserved_paths; has && *has; has++)
            for (char **wanted = row->reserved_paths; *wanted; wanted++)
                add_conflict(conflicts, other, *has, *wanted);
    }
    if (r < 0 || conflicts->count == 0)
        return r;
    return err_set_reason(err,
                          err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "'%s' overlaps '%s', which sandbox %s has reserved",
                                  conflicts->items[0].wanted, conflicts->items[0].path, conflicts->items[0].id),
                          "SCOPE_CONFLICT");
}

int sandbox_admission_check(struct db *db, const struct sandbox_row *row, bool is_new, struct sandbox_admission *room,
                            struct err *err)
{
    bool reserves = !row->no_lock && row->reserved_paths && *row->reserved_paths;
    bool is_over_directory = !row->codebase_id || !*row->codebase_id;
    autofree char *lock = xprintf("reservations %s", row->host_id);
    struct sandbox_admission none = { 0 };
    int r = 0;

    if (room && room->is_there)
        return 0;
    room = room ? room : &none;
    if (reserves || (is_new && is_over_directory && room->max_over_directories))
        r = db->driver->lock(db, lock, err);
    if (r == 0 && is_new)
        r = check_owner_limit(db, row, room->max_per_owner, err);
    if (r == 0 && is_new && is_over_directory)
        r = check_host_limit(db, row, room->max_over_directories, err);
    if (r == 0 && reserves)
        r = sandbox_check_paths(db, row, &room->conflicts, err);
    sandbox_conflicts_done(&none.conflicts);
    return r;
}

/* ---- insert ---- */

struct inserting {
    const struct sandbox_row *row;
    struct sandbox_admission *room;
};

static int sandbox_check_name(struct db *db, const struct sandbox_row *row, struct err *err)
{
    int64_t count = 0;
    int r = row->name && *row->name ? db_run_int(db, "SELECT count(*) FROM sandboxes WHERE owner_id = $1 AND name = $2",
                                                 DB_VALUES(db_text(row->owner_id), db_text(row->name)), &count, err)
                                    : 0;

    if (r < 0 || count == 0)
        return r;
    return err_set_reason(err,
                          err_set(err, ERR_ALREADY_EXISTS, -EEXIST, "there is a sandbox with the name '%s' already", row->name),
                          "NAME_TAKEN");
}

static int sandbox_insert(struct db *db, void *cookie, struct err *err)
{
    const struct inserting *in = cookie;
    const struct sandbox_row *row = in->row;
    int r = row->codebase_id && *row->codebase_id ? codebase_row_hold(db, row->codebase_id, err) : 0;

    if (r == 0)
        r = sandbox_admission_check(db, row, true, in->room, err);
    if (r == 0)
        r = sandbox_check_name(db, row, err);
    return r == 0 ? table_insert(&sandbox_table, db, row, row->id, err) : r;
}

int sandbox_row_insert(struct store *store, struct sandbox_row *row, struct sandbox_admission *room, struct err *err)
{
    struct inserting in = { .row = row, .room = room };
    int r;

    r = row_check(&sandbox_table, row, err);
    if (r < 0)
        return r;
    row->row_version = 1;
    return txn_write(store, STORE_CALL_SANDBOX_INSERT, 0, sandbox_insert, &in, err);
}

/* ---- checking only ---- */

static int sandbox_find_conflicts(struct db *db, void *cookie, struct err *err)
{
    const struct inserting *in = cookie;

    return sandbox_check_paths(db, in->row, &in->room->conflicts, err);
}

int sandbox_row_check_paths(struct store *store, const struct sandbox_row *row, struct sandbox_admission *room, struct err *err)
{
    struct inserting in = { .row = row, .room = room };

    return txn_read(store, STORE_CALL_SANDBOX_LIST, sandbox_find_conflicts, &in, err);
}
