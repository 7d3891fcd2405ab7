#include "fixture.h"

#include <unistd.h>

static void insert(struct fixture *x, const struct codebase_row *row)
{
    must(codebase_row_insert(x->store, row, err));
}

static void what_went_in_comes_out(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row row = some_codebase("ann", 1000), got = { 0 };

    insert(x, &row);
    reopen(x);
    must(codebase_row_get(x->store, row.id, &got, err));
    assert_string_equal(got.id, row.id);
    assert_string_equal(got.name, row.name);
    assert_string_equal(got.owner_id, "ann");
    assert_string_equal(got.host_id, "host_a");
    assert_int_equal(got.size_bytes, row.size_bytes);
    assert_int_equal(got.file_count, 12);
    assert_int_equal(got.version, 3);
    assert_int_equal(got.created_ns, 1000);
    assert_int_equal(got.updated_ns, 1005);
}

static void an_id_is_taken_once(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row row = some_codebase("ann", 1);

    insert(x, &row);
    must_fail(ERR_ALREADY_EXISTS, codebase_row_insert(x->store, &row, err));
}

static void what_is_not_there_is_not_found(void **state)
{
    struct fixture *x = *state;
    struct codebase_row got = { 0 };
    static const char *const ids[] = { "cb_0123456789abcdef", "", "cb_", "../x", "cb_0123456789ABCDEF", "\xff\x1b[2J" };

    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        must_fail(ERR_NOT_FOUND, codebase_row_get(x->store, ids[i], &got, err));
        must_fail(ERR_NOT_FOUND, codebase_row_delete(x->store, ids[i], false, err));
        must_fail(ERR_NOT_FOUND, codebase_row_delete(x->store, ids[i], true, err));
    }
    struct codebase_row missing = { .id = (char *) ids[0] };
    must_fail(ERR_NOT_FOUND, codebase_row_update(x->store, &missing, err));
}

static void texts_that_are_none_are_refused(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row row = some_codebase("ann", 1);
    autodone(codebase_rows) struct codebase_rows list = { 0 };

    row.name[0] = '\xff';
    must_fail(ERR_INVALID_ARGUMENT, codebase_row_insert(x->store, &row, err));
    row.name[0] = 'n';
    row.id[0] = 'x';
    must_fail(ERR_INVALID_ARGUMENT, codebase_row_insert(x->store, &row, err));
    row.id[0] = 'c';
    free(row.name);
    row.name = xalloc((1 << 20) + 1);
    memset(row.name, 'a', 1 << 20);
    must_fail(ERR_INVALID_ARGUMENT, codebase_row_insert(x->store, &row, err));
    must_fail(ERR_INVALID_ARGUMENT, codebase_row_list(x->store, "\xc0\x80", NULL, NULL, &list, err));
}

static void pages_follow_each_other_while_rows_come_and_go(void **state)
{
    struct fixture *x = *state;
    char *ids[7];
    size_t seen = 0;
    autofree char *token = NULL;

    for (int i = 0; i < 7; i++) {
        autodone(codebase_row) struct codebase_row row = some_codebase("ann", i < 5 ? 100 : 200); /* several at one moment */
        insert(x, &row);
        ids[i] = xdup(row.id);
    }
    do {
        autodone(codebase_rows) struct codebase_rows list = { 0 };
        must(codebase_row_list(x->store, "ann", NULL, &(struct store_page){ .limit = 2, .token = token }, &list, err));
        for (size_t i = 0; i < list.count; i++) {
            size_t at = 0;
            while (at < 7 && !(ids[at] && strcmp(ids[at], list.rows[i].id) == 0))
                at++;
            assert_in_range(at, 0, 6); /* known, and not seen before */
            free(ids[at]);
            ids[at] = NULL;
            seen++;
            /* The row that the token names goes; older and newer ones come. */
            must(codebase_row_delete(x->store, list.rows[i].id, false, err));
        }
        autodone(codebase_row) struct codebase_row older = some_codebase("ann", 50), other = some_codebase("bob", 150);
        insert(x, &older);
        insert(x, &other);
        free(token);
        token = steal_ptr(&list.next_token);
    } while (token);
    assert_int_equal(seen, 7);
}

static void a_full_page_at_the_end_has_no_next(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_rows) struct codebase_rows list = { 0 }, none = { 0 };

    for (int i = 0; i < 4; i++) {
        autodone(codebase_row) struct codebase_row row = some_codebase("ann", i);
        insert(x, &row);
    }
    must(codebase_row_list(x->store, "ann", NULL, &(struct store_page){ .limit = 4 }, &list, err));
    assert_int_equal(list.count, 4);
    assert_null(list.next_token);
    for (int i = 0; i < 4; i++)
        assert_int_equal(list.rows[i].created_ns, i);
    must(codebase_row_list(x->store, "nobody", NULL, NULL, &none, err));
    assert_int_equal(none.count, 0);
    assert_null(none.next_token);
}

static void lists_are_of_one_owner_or_host_or_of_all(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row a = some_codebase("ann", 1), b = some_codebase("bob", 2);
    autodone(codebase_rows) struct codebase_rows mine = { 0 }, here = { 0 }, all = { 0 };

    b.host_id[5] = 'b';
    insert(x, &a);
    insert(x, &b);
    must(codebase_row_list(x->store, "bob", NULL, NULL, &mine, err));
    assert_int_equal(mine.count, 1);
    assert_string_equal(mine.rows[0].id, b.id);
    must(codebase_row_list(x->store, NULL, "host_a", NULL, &here, err));
    assert_int_equal(here.count, 1);
    assert_string_equal(here.rows[0].id, a.id);
    must(codebase_row_list(x->store, NULL, NULL, NULL, &all, err));
    assert_int_equal(all.count, 2);
}

static void a_token_that_is_none_is_refused(void **state)
{
    struct fixture *x = *state;
    static const char *const tokens[] = { "x",
                                          "cb_0",
                                          "sb_00000000000000010123456789abcdef",
                                          "cb_0000000000000001 123456789abcdef",
                                          "cb_00000000000000010123456789abcdef0",
                                          "cb_';DROP TABLE codebases;--" };

    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        autodone(codebase_rows) struct codebase_rows list = { 0 };
        must_fail(ERR_INVALID_ARGUMENT,
                  codebase_row_list(x->store, NULL, NULL, &(struct store_page){ .token = tokens[i] }, &list, err));
    }
}

static void a_late_update_changes_nothing(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row row = some_codebase("ann", 1), got = { 0 };

    insert(x, &row);
    row.version = 9;
    row.size_bytes = 900;
    row.file_count = 90;
    row.updated_ns = 99;
    must(codebase_row_update(x->store, &row, err));
    row.version = 8;
    row.size_bytes = 800;
    must(codebase_row_update(x->store, &row, err));
    must(codebase_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.version, 9);
    assert_int_equal(got.size_bytes, 900);
    assert_int_equal(got.file_count, 90);
    assert_int_equal(got.updated_ns, 99);
}

static void one_in_use_is_not_deleted_unless_forced(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row row = some_codebase("ann", 1);
    autodone(sandbox_row) struct sandbox_row box = some_sandbox("ann", row.id, 1), got = { 0 };

    insert(x, &row);
    box.status = SANDBOX_STATUS_RUNNING;
    must(sandbox_row_insert(x->store, &box, NULL, err));
    must_fail(ERR_FAILED_PRECONDITION, codebase_row_delete(x->store, row.id, false, err));
    must(codebase_row_delete(x->store, row.id, true, err));
    must(sandbox_row_get(x->store, box.id, &got, err)); /* and still says what it was made from */
    assert_string_equal(got.codebase_id, row.id);
}

static void one_whose_sandboxes_stopped_is_deleted(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row row = some_codebase("ann", 1), got = { 0 };
    autodone(sandbox_row) struct sandbox_row box = some_sandbox("ann", row.id, 1);

    insert(x, &row);
    box.status = SANDBOX_STATUS_STOPPED;
    must(sandbox_row_insert(x->store, &box, NULL, err));
    must(codebase_row_delete(x->store, row.id, false, err));
    must_fail(ERR_NOT_FOUND, codebase_row_get(x->store, row.id, &got, err));
    must_fail(ERR_NOT_FOUND,
              sandbox_row_move(
                  x->store, &(struct sandbox_move){ .id = box.id, .from = SANDBOX_STATUS_ANY, .to = SANDBOX_STATUS_STARTING },
                  NULL, err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(what_went_in_comes_out),
        store_test(an_id_is_taken_once),
        store_test(what_is_not_there_is_not_found),
        store_test(texts_that_are_none_are_refused),
        store_test(pages_follow_each_other_while_rows_come_and_go),
        store_test(a_full_page_at_the_end_has_no_next),
        store_test(lists_are_of_one_owner_or_host_or_of_all),
        store_test(a_token_that_is_none_is_refused),
        store_test(a_late_update_changes_nothing),
        store_test(one_in_use_is_not_deleted_unless_forced),
        store_test(one_whose_sandboxes_stopped_is_deleted),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
