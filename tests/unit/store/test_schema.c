/* A database of an older version becomes one of ours. */
#include "fixture.h"

#include "store/applied_change_row.h"
#include "store/db.h"
#include "store/event_row.h"
#include "store/idempotency_row.h"
#include "store/schema.h"

#define UUID(digit) "8330000" digit "-bd63-41e4-853b-58b605352f6b"
#define ID(digit) "ws_8330000" digit "bd6341e4853b58b605352f6b"

/* As the last version that had workspaces left it. */
static void make_second(struct fixture *x)
{
    autoptr(db) db = NULL;

    store_close(steal_ptr(&x->store));
    forget_all(x);
    db = open_raw(x);
    must(db->driver->settle(db, err));
    must(schema_migrate(db, x->url, 2, err));
}

static void add_workspace(struct db *db, int status, const char *uuid, const char *key)
{
    bool is_closed = status == 4 || status == 5;

    must(db_run(db,
                "INSERT INTO workspaces VALUES ($1, 'ann', 'host_a', $2, $3, $4, 1, 'agent-7', 'agent', $5, 'why', 'fence',"
                " 'development', $6, '[\"t\"]', '{\"k\":1}', '{\"b\":2}', $7, $8, 'abc', 17, 2, $9, 20, 30, 40, $10, $11, $12,"
                " $13, 5)",
                DB_VALUES(db_text(uuid), db_bytes("/p/\xff", 4), db_bytes("/p", 2), db_bytes("/p/a\0/p/b", 10), db_int(status),
                          db_bytes("r\0\xff", 3), db_text(key), db_bytes("hash", 4), db_int(100 + status),
                          db_int(status == 4 ? 50 : 0), db_int(is_closed ? 60 : 0), db_int(status == 6 ? 70 : 0),
                          db_bytes("{}", 2)),
                NULL, NULL, err));
}

static void workspaces_become_sandboxes(void **state)
{
    static const struct {
        const char *uuid, *id;
        int status, decision;
        enum sandbox_state state;
    } cases[] = {
        { UUID("1"), ID("1"), SANDBOX_STATUS_CREATING, SANDBOX_DECISION_OPEN, SANDBOX_STATE_CREATING },
        { UUID("2"), ID("2"), SANDBOX_STATUS_RUNNING, SANDBOX_DECISION_OPEN, SANDBOX_STATE_ACTIVE },
        { UUID("3"), ID("3"), SANDBOX_STATUS_STOPPED, SANDBOX_DECISION_OPEN, SANDBOX_STATE_STOPPED },
        { UUID("4"), ID("4"), SANDBOX_STATUS_STOPPED, SANDBOX_DECISION_APPROVED, SANDBOX_STATE_APPROVED },
        { UUID("5"), ID("5"), SANDBOX_STATUS_STOPPED, SANDBOX_DECISION_REJECTED, SANDBOX_STATE_REJECTED },
        { UUID("6"), ID("6"), SANDBOX_STATUS_DELETED, SANDBOX_DECISION_OPEN, SANDBOX_STATE_DELETED },
        { UUID("7"), ID("7"), SANDBOX_STATUS_ERROR, SANDBOX_DECISION_OPEN, SANDBOX_STATE_ERROR },
    };
    struct fixture *x = *state;
    int64_t tables = -1;

    make_second(x);
    {
        autoptr(db) db = open_raw(x);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
            add_workspace(db, (int) i + 1, cases[i].uuid, "");
    }
    reopen(x);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(sandbox_row) struct sandbox_row got = { 0 };
        must(sandbox_row_get(x->store, cases[i].id, &got, err));
        assert_int_equal(got.status, cases[i].status);
        assert_int_equal(got.decision, cases[i].decision);
        assert_int_equal(sandbox_row_state(&got), cases[i].state);
        assert_int_equal(got.started_ns, cases[i].state == SANDBOX_STATE_CREATING || cases[i].state == SANDBOX_STATE_ERROR ? 0
                                         : cases[i].state == SANDBOX_STATE_ACTIVE                                          ? 30
                                                                                  : got.created_ns);
        assert_int_equal(got.created_ns, 101 + (int) i);
        assert_string_equal(got.owner_id, "ann");
        assert_string_equal(got.host_id, "host_a");
        assert_string_equal(got.codebase_id, "");
        assert_true(sandbox_row_is_over_directory(&got));
        assert_string_equal(got.scope_path, "/p/\xff");
        assert_string_equal(got.project_root, "/p");
        assert_string_equal(got.reserved_paths[0], "/p/a");
        assert_string_equal(got.reserved_paths[1], "/p/b");
        assert_null(got.reserved_paths[2]);
        assert_true(got.no_lock);
        assert_true(got.restarts);
        assert_string_equal(got.creator, "agent-7");
        assert_string_equal(got.creator_type, "agent");
        assert_string_equal(got.reason, "why");
        assert_string_equal(got.driver, "fence");
        assert_string_equal(got.preset, "development");
        assert_int_equal(got.rules.len, 3);
        assert_memory_equal(got.rules.data, "r\0\xff", 3);
        assert_int_equal(got.labels.count, 0);
        assert_string_equal(got.tags, "[\"t\"]");
        assert_string_equal(got.metadata, "{\"k\":1}");
        assert_string_equal(got.behavior, "{\"b\":2}");
        assert_string_equal(got.base_commit, "abc");
        assert_int_equal(got.size_bytes, 17);
        assert_int_equal(got.file_count, 2);
        assert_int_equal(got.used_ns, 20);
        assert_int_equal(got.updated_ns, 30);
        assert_int_equal(got.stopped_ns, 40);
        assert_int_equal(got.approved_ns, cases[i].decision == SANDBOX_DECISION_APPROVED ? 50 : 0);
        assert_int_equal(got.closed_ns, cases[i].decision != SANDBOX_DECISION_OPEN ? 60 : 0);
        assert_int_equal(got.deleted_ns, cases[i].status == SANDBOX_STATUS_DELETED ? 70
                                         : cases[i].status == SANDBOX_STATUS_ERROR ? 30
                                                                                   : 0);
        assert_int_equal(got.extra.len, 2);
        assert_int_equal(got.row_version, 5);
        assert_false(got.sync_on_completion);
    }
    autoptr(db) db = open_raw(x);
    must(db_run_int(db, db->driver->count_tables, DB_VALUES(db_text("workspaces")), &tables, err));
    assert_int_equal(tables, 0);
}

static void sandboxes_stay_as_they_were(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row got = { 0 };

    make_second(x);
    {
        autoptr(db) db = open_raw(x);
        must(db_run(
            db,
            "INSERT INTO sandboxes VALUES ('sb_0123456789abcdef', '', $1, 'ann', 'host_a', 3, '', $1, '', 1, '', 1, 2, 3,"
            " 4, 5, 'none', 1, $1, 100, 200, 300, 0, 7)",
            DB_VALUES(db_bytes("", 0)), NULL, NULL, err));
    }
    reopen(x);
    must(sandbox_row_get(x->store, "sb_0123456789abcdef", &got, err));
    assert_int_equal(got.status, SANDBOX_STATUS_STOPPED);
    assert_int_equal(got.decision, SANDBOX_DECISION_OPEN);
    assert_int_equal(got.row_version, 7);
    assert_int_equal(got.pids_limit, 4);
    assert_string_equal(got.driver, "fence");
    assert_string_equal(got.name, "");
    assert_false(got.restarts);
    assert_true(got.sync_on_completion);
    assert_null(got.reserved_paths[0]);
}

static int claim(struct fixture *x, const char *owner, const char *key, const char *hash, struct idempotency_row *ret,
                 enum idempotency_outcome *ret_outcome, struct err *err)
{
    struct idempotency_row row = {
        .owner_id = (char *) owner, .idempotency_key = (char *) key, .method = (char *) "CreateWorkspace", .expires_ns = 999
    };
    int r;

    buf_add_str(&row.hash, hash);
    r = idempotency_row_take(x->store, &row, INT64_C(4000000000000000000), ret_outcome, ret, err);
    buf_done(&row.hash);
    return r;
}

static void keys_become_claims_that_do_not_end(void **state)
{
    struct fixture *x = *state;
    autodone(idempotency_row) struct idempotency_row got = { 0 };
    autodone(idempotency_rows) struct idempotency_rows open = { 0 };
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    enum idempotency_outcome outcome = IDEMPOTENCY_TAKEN;

    make_second(x);
    {
        autoptr(db) db = open_raw(x);
        add_workspace(db, 3, UUID("3"), "key");
        add_workspace(db, 1, UUID("1"), "half");
        add_workspace(db, 2, UUID("2"), "both");
        must(db_run(db, "INSERT INTO claims VALUES ('ann', 'both', 'CreateSandbox', $1, 'host_a', 'sb_1', 1, $1, 1, 2)",
                    DB_VALUES(db_bytes("", 0)), NULL, NULL, err));
    }
    reopen(x);
    must(claim(x, "ann", "key", "hash", &got, &outcome, err));
    assert_int_equal(outcome, IDEMPOTENCY_FINISHED);
    assert_int_equal(got.response.len, strlen(ID("3")));
    assert_memory_equal(got.response.data, ID("3"), got.response.len);
    must_fail(ERR_ALREADY_EXISTS, claim(x, "ann", "key", "other", &got, &outcome, err));
    must(idempotency_row_list_open(x->store, "host_a", &open, err));
    assert_int_equal(open.count, 1);
    assert_string_equal(open.rows[0].resource_id, ID("1"));
    must(sandbox_row_get(x->store, ID("3"), &row, err));
    assert_string_equal(row.idempotency_key, "key");
}

static void what_refers_to_a_workspace_refers_to_its_sandbox(void **state)
{
    struct fixture *x = *state;
    autodone(event_rows) struct event_rows events = { 0 };
    autodone(applied_change_rows) struct applied_change_rows changes = { 0 };

    make_second(x);
    {
        autoptr(db) db = open_raw(x);
        add_workspace(db, 3, UUID("3"), "");
        must(db_run(
            db,
            "INSERT INTO events (time_ns, type, sandbox_id, codebase_id, owner_id, host_id, payload) VALUES"
            " (1, 'a', '" UUID("3") "', '', 'ann', 'host_a', ''), (2, 'b', 'sb_0123456789abcdef', 'cb_1', 'ann', 'host_a', ''),"
                                    " (3, 'c', '', 'cb_1', 'ann', 'host_a', '')",
            DB_NO_VALUES, NULL, NULL, err));
        must(db_run(db,
                    "INSERT INTO applied_changes VALUES ('1', 'apr', '" UUID(
                        "3") "', 'ann', 'host_a', 'agent-7', 'agent', 'ben',"
                             " $1, $1, $1, 'modified', 1, 2, 'ff', 10, 0, 0, '', '')",
                    DB_VALUES(db_bytes("/p", 2)), NULL, NULL, err));
    }
    reopen(x);
    must(event_row_query(x->store, &(struct event_filter){ 0 }, 0, &events, err));
    assert_int_equal(events.count, 3);
    assert_string_equal(events.rows[0].sandbox_id, ID("3"));
    assert_string_equal(events.rows[1].sandbox_id, "sb_0123456789abcdef");
    assert_string_equal(events.rows[2].sandbox_id, "");
    must(applied_change_row_list(x->store, &(struct applied_change_filter){ .sandbox_id = ID("3"), .owner_id = "ann" }, 10, 0,
                                 &changes, NULL, err));
    assert_int_equal(changes.count, 1);
    assert_string_equal(changes.rows[0].creator, "agent-7");
    assert_string_equal(changes.rows[0].creator_type, "agent");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(workspaces_become_sandboxes),
        store_test(sandboxes_stay_as_they_were),
        store_test(keys_become_claims_that_do_not_end),
        store_test(what_refers_to_a_workspace_refers_to_its_sandbox),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
