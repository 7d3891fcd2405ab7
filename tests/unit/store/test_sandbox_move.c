/* The two axes of a sandbox. */
#include "fixture.h"

#include <stdio.h>

#include "store/idempotency_row.h"

static struct sandbox_row insert_over(struct fixture *x, const char *path, int64_t created_ns)
{
    struct sandbox_row row = some_sandbox_over(path, created_ns);

    must(sandbox_row_insert(x->store, &row, NULL, err));
    return row;
}

static int step(struct fixture *x, const char *id, enum sandbox_status to, int64_t version, struct err *err)
{
    struct sandbox_move m = { .id = id, .to = to, .row_version = version, .now_ns = 5000 };

    return sandbox_row_move(x->store, &m, NULL, err);
}

static int decide(struct fixture *x, const char *id, enum sandbox_status to, enum sandbox_decision decision, struct err *err)
{
    struct sandbox_move m = { .id = id, .to = to, .decides = true, .decision = decision, .now_ns = 5000 };

    return sandbox_row_move(x->store, &m, NULL, err);
}

static void moves_are_those_of_the_table(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = insert_over(x, "/p", 1), got = { 0 };

    must_fail(ERR_FAILED_PRECONDITION, step(x, row.id, SANDBOX_STATUS_STOPPED, 0, err));
    must_fail(ERR_FAILED_PRECONDITION, step(x, row.id, SANDBOX_STATUS_STARTING, 0, err));
    must(step(x, row.id, SANDBOX_STATUS_RUNNING, 0, err));
    must_fail(ERR_ABORTED, step(x, row.id, SANDBOX_STATUS_STOPPING, 1, err));
    must_fail(ERR_FAILED_PRECONDITION, step(x, row.id, SANDBOX_STATUS_STOPPED, 2, err));
    must(step(x, row.id, SANDBOX_STATUS_STOPPING, 2, err));
    must(step(x, row.id, SANDBOX_STATUS_STOPPED, 3, err));
    must(decide(x, row.id, SANDBOX_STATUS_STOPPED, SANDBOX_DECISION_APPROVED, err));
    must(step(x, row.id, SANDBOX_STATUS_DELETED, 0, err));
    must_fail(ERR_FAILED_PRECONDITION, step(x, row.id, SANDBOX_STATUS_STARTING, 0, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.row_version, 6);
    assert_int_equal(got.approved_ns, 5000);
    assert_int_equal(got.closed_ns, 5000);
    assert_int_equal(got.deleted_ns, 5000);
    assert_int_equal(sandbox_row_state(&got), SANDBOX_STATE_DELETED);
    must_fail(ERR_NOT_FOUND, step(x, "sb_0000000000000000", SANDBOX_STATUS_DELETED, 0, err));
}

static void a_decided_one_is_at_rest_until_it_is_opened(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = insert_over(x, "/p", 1), got = { 0 };

    must(step(x, row.id, SANDBOX_STATUS_RUNNING, 0, err));
    must_fail(ERR_FAILED_PRECONDITION, decide(x, row.id, SANDBOX_STATUS_STOPPING, SANDBOX_DECISION_APPROVED, err));
    must(step(x, row.id, SANDBOX_STATUS_STOPPING, 0, err));
    must(decide(x, row.id, SANDBOX_STATUS_STOPPED, SANDBOX_DECISION_REJECTED, err));
    must_fail(ERR_FAILED_PRECONDITION, step(x, row.id, SANDBOX_STATUS_STARTING, 0, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_int_equal(sandbox_row_state(&got), SANDBOX_STATE_REJECTED);
    assert_int_equal(got.approved_ns, 0);
    assert_int_equal(got.closed_ns, 5000);
    must(decide(x, row.id, SANDBOX_STATUS_STARTING, SANDBOX_DECISION_OPEN, err));
    sandbox_row_done(&got);
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_int_equal(sandbox_row_state(&got), SANDBOX_STATE_ACTIVE);
    assert_int_equal(got.closed_ns, 0);
}

/* The database and the program derive the same state of every row there can be. */
static void states_are_the_same_in_the_database(void **state)
{
    struct fixture *x = *state;
    struct sandbox_count counts[SANDBOX_STATE_COUNT];
    int64_t expected[SANDBOX_STATE_COUNT] = { 0 };
    int number = 0;

    for (int status = 1; status < SANDBOX_STATUS_COUNT; status++) {
        for (int decision = 0; decision <= SANDBOX_DECISION_REJECTED; decision++) {
            for (int deleted = 0; deleted <= 1; deleted++) {
                char path[16];
                snprintf(path, sizeof(path), "/p%d", number++);
                autodone(sandbox_row) struct sandbox_row row = some_sandbox_over(path, number);
                row.status = status;
                row.decision = decision;
                row.deleted_ns = deleted;
                row.size_bytes = 10;
                must(sandbox_row_insert(x->store, &row, NULL, err));
                expected[sandbox_row_state(&row)]++;
            }
        }
    }
    must(sandbox_row_count_states(x->store, NULL, counts, err));
    for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
        enum sandbox_state parsed;
        int64_t total = 0;
        autodone(sandbox_rows) struct sandbox_rows rows = { 0 };
        assert_int_equal(counts[i].count, expected[i]);
        assert_int_equal(counts[i].size_bytes, 10 * expected[i]);
        if (i == SANDBOX_STATE_NONE)
            continue;
        assert_true(expected[i] > 0);
        must(sandbox_row_list_window(x->store, &(struct sandbox_filter){ .states = SANDBOX_STATE_BIT(i) }, 100, 0, &rows,
                                     &total, err));
        assert_int_equal(total, expected[i]);
        for (size_t k = 0; k < rows.count; k++)
            assert_int_equal(sandbox_row_state(&rows.rows[k]), i);
        assert_true(sandbox_state_parse(sandbox_state_name((enum sandbox_state) i), &parsed) && (int) parsed == i);
    }
}

static void a_key_can_be_forgotten_with_the_move(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox_over("/p", 1), got = { 0 };
    autodone(idempotency_row) struct idempotency_row there = { 0 };
    enum idempotency_outcome outcome;
    char owner[] = "ann", key[] = "key", host[] = "host_a", method[] = "CreateSandbox";
    struct idempotency_row claim = {
        .owner_id = owner, .idempotency_key = key, .host_id = host, .method = method, .resource_id = row.id, .expires_ns = 99
    };
    struct sandbox_move m = { .id = row.id, .to = SANDBOX_STATUS_ERROR, .now_ns = 5, .forgets_key = true };

    row.idempotency_key = xdup("key");
    must(idempotency_row_take(x->store, &claim, 1, &outcome, &there, err));
    must(sandbox_row_insert(x->store, &row, NULL, err));
    must(sandbox_row_move(x->store, &m, &got, err));
    assert_string_equal(got.idempotency_key, "");
    must(idempotency_row_take(x->store, &claim, 1, &outcome, &there, err));
    assert_int_equal(outcome, IDEMPOTENCY_TAKEN);
}

static void notes_count_no_version(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = insert_over(x, "/p", 1), got = { 0 };

    must(sandbox_row_touch(x->store, row.id, 3000000000, err));
    must(sandbox_row_touch(x->store, row.id, 3500000000, err));
    must(sandbox_row_measure(x->store, row.id, 17, 2, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.used_ns, 3000000000);
    assert_int_equal(got.size_bytes, 17);
    assert_int_equal(got.file_count, 2);
    assert_int_equal(got.row_version, 1);
    free(got.behavior);
    got.behavior = xdup("{\"x\":1}");
    must(sandbox_row_update(x->store, &got, err));
    must_fail(ERR_ABORTED, sandbox_row_update(x->store, &row, err));
}

static void windows_are_the_newest_first(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_rows) struct sandbox_rows page = { 0 };
    struct sandbox_filter filter = { .creator = "agent-7", .states = SANDBOX_STATE_BIT(SANDBOX_STATE_CREATING) };
    int64_t total = 0;

    for (int i = 0; i < 5; i++) {
        char path[16];
        snprintf(path, sizeof(path), "/p%d", i);
        autodone(sandbox_row) struct sandbox_row row = insert_over(x, path, 100 + i);
        if (i == 0)
            must(step(x, row.id, SANDBOX_STATUS_RUNNING, 0, err));
    }
    must(sandbox_row_list_window(x->store, &filter, 2, 1, &page, &total, err));
    assert_int_equal(total, 4);
    assert_int_equal(page.count, 2);
    assert_string_equal(page.rows[0].scope_path, "/p3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(moves_are_those_of_the_table),
        store_test(a_decided_one_is_at_rest_until_it_is_opened),
        store_test(states_are_the_same_in_the_database),
        store_test(a_key_can_be_forgotten_with_the_move),
        store_test(notes_count_no_version),
        store_test(windows_are_the_newest_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
