#include "store/session_row.h"

#include "fixture.h"

#include <unistd.h>

static char ids[][24] = { "sess_0000000000000001", "sess_0000000000000002", "sess_0000000000000003" };
static char host[] = "host_a", shell[] = "/bin/bash";

static struct session_row of_sandbox(const struct sandbox_row *box, int at)
{
    return (struct session_row){
        .id = ids[at], .sandbox_id = box->id, .host_id = host, .shell = shell, .status = SESSION_STATUS_ACTIVE, .created_ns = at
    };
}

static void it_lives_and_ends(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row box = some_sandbox("ann", "", 1);
    struct session_row row = of_sandbox(&box, 0);
    autodone(session_row) struct session_row open = { 0 }, closed = { 0 };

    must_fail(ERR_NOT_FOUND, session_row_insert(x->store, &row, err)); /* no such sandbox */
    must(sandbox_row_insert(x->store, &box, NULL, err));
    must(session_row_insert(x->store, &row, err));
    must_fail(ERR_ALREADY_EXISTS, session_row_insert(x->store, &row, err));
    must(session_row_get(x->store, row.id, &open, err));
    assert_string_equal(open.shell, "/bin/bash");
    assert_string_equal(open.sandbox_id, box.id);
    assert_int_equal(open.status, SESSION_STATUS_ACTIVE);
    must(session_row_close(x->store, row.id, 50, err));
    must_fail(ERR_FAILED_PRECONDITION, session_row_close(x->store, row.id, 60, err));
    must(session_row_get(x->store, row.id, &closed, err));
    assert_int_equal(closed.status, SESSION_STATUS_CLOSED);
    assert_int_equal(closed.closed_ns, 50);
    must_fail(ERR_NOT_FOUND, session_row_close(x->store, ids[1], 1, err));
    must_fail(ERR_NOT_FOUND, session_row_get(x->store, "sess_", &closed, err));
}

static void it_goes_with_its_sandbox(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row box = some_sandbox("ann", "", 1);
    struct session_row row = of_sandbox(&box, 0), got;

    must(sandbox_row_insert(x->store, &box, NULL, err));
    must(session_row_insert(x->store, &row, err));
    must(sandbox_row_delete(x->store, box.id, err));
    must_fail(ERR_NOT_FOUND, session_row_get(x->store, row.id, &got, err));
}

static size_t count(struct fixture *x, const char *sandbox_id, const char *host_id, enum session_status status)
{
    autodone(session_rows) struct session_rows list = { 0 };

    must(session_row_list(x->store, sandbox_id, host_id, status, NULL, &list, err));
    return list.count;
}

static void they_are_listed_closed_and_trimmed_together(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row a = some_sandbox("ann", "", 1), b = some_sandbox("ann", "", 2);

    must(sandbox_row_insert(x->store, &a, NULL, err));
    must(sandbox_row_insert(x->store, &b, NULL, err));
    for (int i = 0; i < 3; i++) {
        struct session_row row = of_sandbox(i < 2 ? &a : &b, i);
        must(session_row_insert(x->store, &row, err));
    }
    assert_int_equal(count(x, a.id, NULL, SESSION_STATUS_UNSPECIFIED), 2);
    assert_int_equal(count(x, "sb_ffffffffffffffff", NULL, SESSION_STATUS_UNSPECIFIED), 0);
    assert_int_equal(count(x, NULL, "host_b", SESSION_STATUS_UNSPECIFIED), 0);
    struct err problem = ERR_NONE;
    assert_int_equal(session_row_close_all(x->store, a.id, NULL, 100, &problem), 2);
    assert_int_equal(count(x, NULL, host, SESSION_STATUS_ACTIVE), 1);
    assert_int_equal(session_row_close_all(x->store, NULL, host, 200, &problem), 1);
    assert_int_equal(session_row_trim(x->store, host, 200, 1, &problem), 1);
    assert_int_equal(session_row_trim(x->store, host, 200, 10, &problem), 1);
    assert_int_equal(session_row_trim(x->store, host, 200, 10, &problem), 0);
    assert_int_equal(count(x, NULL, NULL, SESSION_STATUS_CLOSED), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(it_lives_and_ends),
        store_test(it_goes_with_its_sandbox),
        store_test(they_are_listed_closed_and_trimmed_together),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
