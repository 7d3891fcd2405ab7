#include "fixture.h"

#include <stdio.h>

#include "base/uuid.h"
#include "store/applied_change_row.h"

static struct applied_change_row some_change(const char *approval, const char *path, int64_t applied_ns)
{
    struct applied_change_row row = {
        .id = xalloc(UUID_TEXT_MAX),
        .approval_id = xdup(approval),
        .sandbox_id = xdup("sb_1"),
        .owner_id = xdup("ann"),
        .host_id = xdup("host_a"),
        .creator = xdup("agent-7"),
        .creator_type = xdup("agent"),
        .actor = xdup("ben"),
        .file_path = xprintf("/p/%s", path),
        .relative_path = xdup(path),
        .project_root = xdup("/p"),
        .change_type = xdup("modified"),
        .size_bytes = 17,
        .mode = 0644,
        .content_hash = xdup("ff"),
        .applied_ns = applied_ns,
    };

    uuid_new(row.id);
    return row;
}

static void what_was_applied_is_found_by_path_and_stays_pending(void **state)
{
    struct fixture *x = *state;
    struct applied_change_row rows[] = { some_change("one", "a \xff", 10), some_change("one", "b", 10),
                                         some_change("two", "b", 20) };
    autodone(applied_change_rows) struct applied_change_rows got = { 0 };
    int64_t total = 0;

    must(applied_change_row_insert(x->store, rows, 3, err));
    must(applied_change_row_insert(x->store, rows, 3, err)); /* said again */
    reopen(x);
    must(applied_change_row_list(x->store, &(struct applied_change_filter){ .file_path = "/p/b" }, 10, 0, &got, &total, err));
    assert_int_equal(total, 2);
    assert_int_equal(got.count, 2);
    assert_string_equal(got.rows[0].approval_id, "two");
    assert_string_equal(got.rows[1].actor, "ben");
    assert_int_equal(got.rows[1].mode, 0644);
    applied_change_rows_done(&got);
    must(applied_change_row_list(x->store, &(struct applied_change_filter){ .project_root = "/p", .only_pending = true }, 1, 2,
                                 &got, &total, err));
    assert_int_equal(total, 3);
    assert_int_equal(got.count, 1);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        applied_change_row_done(&rows[i]);
}

static void a_commit_and_an_undo_end_pending(void **state)
{
    struct fixture *x = *state;
    struct applied_change_row rows[] = { some_change("one", "a", 10), some_change("one", "b", 10),
                                         some_change("two", "c", 20) };
    const char *ids[] = { rows[0].id, rows[2].id };
    struct applied_change_filter pending = { .only_pending = true };
    autodone(applied_change_rows) struct applied_change_rows got = { 0 };
    int64_t total = 0;

    must(applied_change_row_insert(x->store, rows, 3, err));
    assert_int_equal(applied_change_row_commit(x->store, ids, 2, "abc", "why", 99, NULL), 2);
    assert_int_equal(applied_change_row_commit(x->store, ids, 2, "other", "", 100, NULL), 0);
    must(applied_change_row_list(x->store, &pending, 10, 0, &got, &total, err));
    assert_int_equal(total, 1);
    assert_string_equal(got.rows[0].id, rows[1].id);
    applied_change_rows_done(&got);
    assert_int_equal(applied_change_row_undo(x->store, "one", 101, NULL), 2);
    must(applied_change_row_list(x->store, &pending, 10, 0, &got, &total, err));
    assert_int_equal(total, 0);
    must(applied_change_row_list(x->store, &(struct applied_change_filter){ .approval_id = "two" }, 10, 0, &got, NULL, err));
    assert_string_equal(got.rows[0].commit_hash, "abc");
    assert_string_equal(got.rows[0].commit_message, "why");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        applied_change_row_done(&rows[i]);
}

static void a_row_that_cannot_be_keeps_the_others_out(void **state)
{
    struct fixture *x = *state;
    struct applied_change_row rows[] = { some_change("one", "a", 10), some_change("one", "b", 10) };
    autodone(applied_change_rows) struct applied_change_rows got = { 0 };

    free(rows[1].creator);
    rows[1].creator = xdup("\xff");
    must_fail(ERR_INVALID_ARGUMENT, applied_change_row_insert(x->store, rows, 2, err));
    must(applied_change_row_list(x->store, &(struct applied_change_filter){ 0 }, 10, 0, &got, NULL, err));
    assert_int_equal(got.count, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        applied_change_row_done(&rows[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(what_was_applied_is_found_by_path_and_stays_pending),
        store_test(a_commit_and_an_undo_end_pending),
        store_test(a_row_that_cannot_be_keeps_the_others_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
