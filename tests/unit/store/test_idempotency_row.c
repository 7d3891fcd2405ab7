#include "store/idempotency_row.h"

#include "fixture.h"

#include <unistd.h>

static struct idempotency_row some_claim(const char *key, const char *hash)
{
    struct idempotency_row row = { .owner_id = xdup("ann"),
                                   .idempotency_key = xdup(key),
                                   .method = xdup("CreateSandbox"),
                                   .host_id = xdup("host_a"),
                                   .resource_id = xdup("sb_0123456789abcdef"),
                                   .created_ns = 10,
                                   .expires_ns = 100 };

    buf_add_str(&row.hash, hash);
    return row;
}

static void the_first_does_it_and_the_others_get_its_answer(void **state)
{
    struct fixture *x = *state;
    autodone(idempotency_row) struct idempotency_row row = some_claim("k", "h"), got = { 0 }, other = some_claim("k", "h");
    enum idempotency_outcome outcome;

    must(idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    assert_int_equal(outcome, IDEMPOTENCY_TAKEN);
    must_fail(ERR_ABORTED, idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    must(idempotency_row_finish(x->store, "ann", "k", "a\0b", 3, 200, err));
    reopen(x);
    must(idempotency_row_take(x->store, &row, 150, &outcome, &got, err));
    assert_int_equal(outcome, IDEMPOTENCY_FINISHED);
    assert_int_equal(got.response.len, 3);
    assert_memory_equal(got.response.data, "a\0b", 3);
    assert_string_equal(got.resource_id, "sb_0123456789abcdef");
    /* Another owner's key is another key. */
    other.owner_id[0] = 'b';
    must(idempotency_row_take(x->store, &other, 20, &outcome, &got, err));
    assert_int_equal(outcome, IDEMPOTENCY_TAKEN);
}

static void a_key_for_another_request_is_a_conflict(void **state)
{
    struct fixture *x = *state;
    autodone(idempotency_row) struct idempotency_row row = some_claim("k", "h"), hash = some_claim("k", "i"),
                                                     method = some_claim("k", "h"), got = { 0 };
    enum idempotency_outcome outcome;

    must(idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    must_fail(ERR_ALREADY_EXISTS, idempotency_row_take(x->store, &hash, 20, &outcome, &got, err));
    method.method[0] = 'X';
    must_fail(ERR_ALREADY_EXISTS, idempotency_row_take(x->store, &method, 20, &outcome, &got, err));
    hash.idempotency_key[0] = '\0';
    must_fail(ERR_INVALID_ARGUMENT, idempotency_row_take(x->store, &hash, 20, &outcome, &got, err));
}

static void one_that_is_over_is_as_if_it_were_not(void **state)
{
    struct fixture *x = *state;
    autodone(idempotency_row) struct idempotency_row row = some_claim("k", "h"), later = some_claim("k", "i"), got = { 0 };
    enum idempotency_outcome outcome;
    struct err problem = ERR_NONE;

    must(idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    later.expires_ns = 300;
    must(idempotency_row_take(x->store, &later, 100, &outcome, &got, err));
    assert_int_equal(outcome, IDEMPOTENCY_TAKEN);
    must_fail(ERR_ABORTED, idempotency_row_take(x->store, &later, 299, &outcome, &got, err));
    assert_int_equal(idempotency_row_trim(x->store, 299, 10, &problem), 0);
    assert_int_equal(idempotency_row_trim(x->store, 300, 10, &problem), 1);
}

static void one_that_was_released_can_be_taken(void **state)
{
    struct fixture *x = *state;
    autodone(idempotency_row) struct idempotency_row row = some_claim("k", "h"), got = { 0 };
    enum idempotency_outcome outcome;

    must(idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    must(idempotency_row_release(x->store, "ann", "k", err));
    must_fail(ERR_NOT_FOUND, idempotency_row_finish(x->store, "ann", "k", "", 0, 200, err));
    must(idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    must(idempotency_row_finish(x->store, "ann", "k", "x", 1, 200, err));
    must(idempotency_row_release(x->store, "ann", "k", err)); /* too late */
    must(idempotency_row_take(x->store, &row, 20, &outcome, &got, err));
    assert_int_equal(outcome, IDEMPOTENCY_FINISHED);
}

static void what_a_dead_process_left_open_is_found(void **state)
{
    struct fixture *x = *state;
    autodone(idempotency_row) struct idempotency_row a = some_claim("a", "h"), b = some_claim("b", "h"), got = { 0 };
    autodone(idempotency_rows) struct idempotency_rows open = { 0 }, none = { 0 };
    enum idempotency_outcome outcome;

    must(idempotency_row_take(x->store, &a, 20, &outcome, &got, err));
    must(idempotency_row_take(x->store, &b, 20, &outcome, &got, err));
    must(idempotency_row_finish(x->store, "ann", "b", "", 0, 200, err));
    must(idempotency_row_list_open(x->store, "host_a", &open, err));
    assert_int_equal(open.count, 1);
    assert_string_equal(open.rows[0].idempotency_key, "a");
    assert_string_equal(open.rows[0].resource_id, "sb_0123456789abcdef");
    must(idempotency_row_list_open(x->store, "host_b", &none, err));
    assert_int_equal(none.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(the_first_does_it_and_the_others_get_its_answer), store_test(a_key_for_another_request_is_a_conflict),
        store_test(one_that_is_over_is_as_if_it_were_not),           store_test(one_that_was_released_can_be_taken),
        store_test(what_a_dead_process_left_open_is_found),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
