/* A sandbox by what people call it. */
#include "fixture.h"

static void insert(struct fixture *x, const char *id, const char *owner, const char *name, enum sandbox_status status)
{
    autodone(sandbox_row) struct sandbox_row row = some_sandbox(owner, "", 1);

    free(row.id);
    row.id = xdup(id);
    row.name = xdup(name);
    row.status = (int) status;
    must(sandbox_row_insert(x->store, &row, NULL, err));
}

static void assert_found(struct fixture *x, const char *owner, const char *text, const char *id)
{
    autodone(sandbox_row) struct sandbox_row got = { 0 };
    struct err problem = ERR_NONE;
    int r = sandbox_row_find(x->store, owner, text, &got, &problem);

    if (r < 0)
        fail_msg("'%s': %s", text, problem.text);
    assert_string_equal(got.id, id);
}

static void assert_not_found(struct fixture *x, const char *owner, const char *text, enum err_code code)
{
    autodone(sandbox_row) struct sandbox_row got = { 0 };

    must_fail(code, sandbox_row_find(x->store, owner, text, &got, err));
}

static void by_id_prefix_uuid_and_name(void **state)
{
    struct fixture *x = *state;
    static const char a[] = "sb_0123456789abcdef", b[] = "sb_01ffffffffffffff", c[] = "ws_83300d2cbd6341e4853b58b605352f6b";

    insert(x, a, "ann", "shop", SANDBOX_STATUS_RUNNING);
    insert(x, b, "ann", "0123", SANDBOX_STATUS_RUNNING);
    insert(x, c, "ann", "", SANDBOX_STATUS_RUNNING);
    assert_found(x, "ann", a, a);
    assert_found(x, "ann", "shop", a);
    assert_found(x, "ann", "sb_012", a);
    assert_found(x, "ann", "012", a);
    assert_found(x, "ann", "012345", a);
    assert_found(x, "ann", "0123", b); /* a name wins */
    assert_found(x, "ann", "01234567-89a", a);
    assert_found(x, "ann", "83300d2c-bd63-41e4", c);
    assert_found(x, "ann", "833", c);
}

static void what_is_not_there_or_not_theirs_or_several(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row got = { 0 };
    struct err problem = ERR_NONE;

    insert(x, "sb_0123456789abcdef", "ann", "shop", SANDBOX_STATUS_RUNNING);
    insert(x, "sb_0123ffffffffffff", "ann", "", SANDBOX_STATUS_RUNNING);
    insert(x, "sb_8888888888888888", "bob", "shop", SANDBOX_STATUS_RUNNING);
    assert_not_found(x, "ann", "", ERR_NOT_FOUND);
    assert_not_found(x, "ann", "sb_", ERR_NOT_FOUND);
    assert_not_found(x, "ann", "%", ERR_NOT_FOUND);
    assert_not_found(x, "ann", "88", ERR_NOT_FOUND);
    assert_not_found(x, "ann", "0123456789abcdef0123456789abcdef0", ERR_NOT_FOUND);
    assert_not_found(x, NULL, "shop", ERR_INVALID_ARGUMENT);
    assert_int_equal(sandbox_row_find(x->store, "ann", "0123", &got, &problem), -EINVAL);
    assert_non_null(strstr(problem.text, "sb_0123456789abcdef shop"));
    assert_non_null(strstr(problem.text, "sb_0123ffffffffffff"));
}

static void deleted_ones_are_meant_last(void **state)
{
    struct fixture *x = *state;

    insert(x, "sb_0123456789abcdef", "ann", "", SANDBOX_STATUS_DELETED);
    insert(x, "sb_01ffffffffffffff", "ann", "", SANDBOX_STATUS_RUNNING);
    assert_found(x, "ann", "01", "sb_01ffffffffffffff");
    assert_found(x, "ann", "012", "sb_0123456789abcdef");
}

static void a_name_is_taken_once_by_an_owner(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1);
    struct err problem = ERR_NONE;

    insert(x, "sb_0123456789abcdef", "ann", "shop", SANDBOX_STATUS_RUNNING);
    insert(x, "sb_8888888888888888", "bob", "shop", SANDBOX_STATUS_RUNNING);
    row.name = xdup("shop");
    assert_int_equal(sandbox_row_insert(x->store, &row, NULL, &problem), -EEXIST);
    assert_string_equal(problem.reason, "NAME_TAKEN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(by_id_prefix_uuid_and_name),
        store_test(what_is_not_there_or_not_theirs_or_several),
        store_test(deleted_ones_are_meant_last),
        store_test(a_name_is_taken_once_by_an_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
