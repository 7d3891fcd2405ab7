#include "store/token_row.h"

#include "fixture.h"

#include <unistd.h>

static struct token_row some_token(const char *id, char fill)
{
    struct token_row row = {
        .id = xdup(id), .owner_id = xdup("ann"), .name = xdup("laptop"), .created_ns = 10, .expires_ns = 100, .is_admin = true
    };

    buf_room(&row.hash, TOKEN_HASH_LEN);
    for (int i = 0; i < TOKEN_HASH_LEN; i++)
        buf_add_char(&row.hash, fill);
    row.allowed_roots = xalloc(3 * sizeof(char *));
    row.allowed_roots[0] = xdup("/srv/a b");
    row.allowed_roots[1] = xdup("/srv/\xff");
    return row;
}

static const unsigned char *hash_of(const struct token_row *row)
{
    return (const unsigned char *) row->hash.data;
}

static void it_is_found_by_its_hash(void **state)
{
    struct fixture *x = *state;
    autodone(token_row) struct token_row row = some_token("tok_0000000000000001", '\0'), got = { 0 };
    unsigned char other[TOKEN_HASH_LEN] = { 1 };

    must(token_row_insert(x->store, &row, err));
    must(token_row_find(x->store, hash_of(&row), &got, err));
    assert_string_equal(got.id, row.id);
    assert_string_equal(got.owner_id, "ann");
    assert_string_equal(got.name, "laptop");
    assert_true(got.is_admin);
    assert_string_equal(got.allowed_roots[0], "/srv/a b");
    assert_string_equal(got.allowed_roots[1], "/srv/\xff");
    assert_null(got.allowed_roots[2]);
    must_fail(ERR_NOT_FOUND, token_row_find(x->store, other, &got, err));
}

static void a_hash_and_an_id_are_there_once(void **state)
{
    struct fixture *x = *state;
    autodone(token_row) struct token_row a = some_token("tok_0000000000000001", 'a'),
                                         b = some_token("tok_0000000000000002", 'a'),
                                         c = some_token("tok_0000000000000001", 'c'),
                                         d = some_token("tok_0000000000000004", 'd');

    must(token_row_insert(x->store, &a, err));
    must_fail(ERR_ALREADY_EXISTS, token_row_insert(x->store, &b, err));
    must_fail(ERR_ALREADY_EXISTS, token_row_insert(x->store, &c, err));
    d.hash.len = 31;
    must_fail(ERR_INVALID_ARGUMENT, token_row_insert(x->store, &d, err));
}

static void it_ends_by_time_or_by_being_revoked(void **state)
{
    struct fixture *x = *state;
    autodone(token_row) struct token_row row = some_token("tok_0000000000000001", 'a'), got = { 0 };

    must(token_row_insert(x->store, &row, err));
    assert_true(token_row_is_good(&row, 99));
    assert_false(token_row_is_good(&row, 100));
    row.expires_ns = 0;
    assert_true(token_row_is_good(&row, INT64_MAX));
    must_fail(ERR_NOT_FOUND, token_row_revoke(x->store, row.id, "bob", 40, err));
    must(token_row_revoke(x->store, row.id, "ann", 50, err));
    must(token_row_revoke(x->store, row.id, NULL, 60, err));
    must(token_row_find(x->store, hash_of(&row), &got, err));
    assert_int_equal(got.revoked_ns, 50);
    assert_false(token_row_is_good(&got, 1));
    must_fail(ERR_NOT_FOUND, token_row_revoke(x->store, "tok_ffffffffffffffff", NULL, 1, err));
}

static void its_use_is_noted_now_and_then(void **state)
{
    struct fixture *x = *state;
    autodone(token_row) struct token_row row = some_token("tok_0000000000000001", 'a'), got = { 0 };
    struct store_stats before, after;

    must(token_row_insert(x->store, &row, err));
    must(token_row_touch(x->store, &row, 1000, 60, err));
    store_stats(x->store, &before);
    must(token_row_touch(x->store, &row, 1059, 60, err));
    store_stats(x->store, &after);
    assert_int_equal(before.commits, after.commits);
    must(token_row_find(x->store, hash_of(&row), &got, err));
    assert_int_equal(got.last_used_ns, 1000);
    must(token_row_touch(x->store, &row, 1060, 60, err));
    assert_int_equal(row.last_used_ns, 1060);
}

static void lists_are_of_one_owner_or_of_all(void **state)
{
    struct fixture *x = *state;
    autodone(token_row) struct token_row a = some_token("tok_0000000000000001", 'a'),
                                         b = some_token("tok_0000000000000002", 'b');
    autodone(token_rows) struct token_rows mine = { 0 }, page = { 0 };

    b.owner_id[0] = 'A';
    must(token_row_insert(x->store, &a, err));
    must(token_row_insert(x->store, &b, err));
    must(token_row_list(x->store, "ann", NULL, &mine, err));
    assert_int_equal(mine.count, 1);
    must(token_row_list(x->store, NULL, &(struct store_page){ .limit = 1 }, &page, err));
    assert_int_equal(page.count, 1);
    assert_non_null(page.next_token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(it_is_found_by_its_hash),
        store_test(a_hash_and_an_id_are_there_once),
        store_test(it_ends_by_time_or_by_being_revoked),
        store_test(its_use_is_noted_now_and_then),
        store_test(lists_are_of_one_owner_or_of_all),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
