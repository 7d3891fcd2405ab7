#include "store/event_row.h"

#include "fixture.h"

#include <malloc.h>
#include <unistd.h>

static char type_a[] = "sandbox_created", type_b[] = "permission_denied", box_a[] = "sb_a", box_b[] = "sb_b", ann[] = "ann",
            bob[] = "bob", host[] = "host_a", payload[] = "{\"path\":\"/a \\u0000 \xc3\xa9\"}", base[] = "cb_a";

static struct event_row some_event(int i)
{
    return (struct event_row){ .time_ns = 1000 + i,
                               .type = i % 2 ? type_b : type_a,
                               .sandbox_id = i % 3 ? box_b : box_a,
                               .owner_id = i % 5 ? bob : ann,
                               .host_id = host,
                               .payload = payload,
                               .codebase_id = base };
}

static int64_t append(struct fixture *x, int first, size_t count)
{
    struct event_row rows[100];
    int64_t last = 0;

    for (size_t i = 0; i < count; i++)
        rows[i] = some_event(first + (int) i);
    must(event_row_append(x->store, rows, count, &last, err));
    return last;
}

static size_t count(struct fixture *x, struct event_filter filter)
{
    autodone(event_rows) struct event_rows list = { 0 };

    must(event_row_query(x->store, &filter, 0, &list, err));
    return list.count;
}

static void they_come_back_in_order_from_where_one_was(void **state)
{
    struct fixture *x = *state;
    int64_t after = 0;
    size_t seen = 0;

    append(x, 0, 1);
    append(x, 1, 99); /* several statements */
    for (;;) {
        autodone(event_rows) struct event_rows list = { 0 };
        must(event_row_query(x->store, &(struct event_filter){ .after = after }, 7, &list, err));
        for (size_t i = 0; i < list.count; i++) {
            assert_true(list.rows[i].sequence > after);
            assert_int_equal(list.rows[i].time_ns, 1000 + seen++);
            after = list.rows[i].sequence;
        }
        if (list.count == 0)
            break;
        assert_string_equal(list.rows[0].payload, payload);
        assert_string_equal(list.rows[0].codebase_id, base);
        assert_string_equal(list.rows[0].host_id, host);
    }
    assert_int_equal(seen, 100);
}

static void filters_hold_together(void **state)
{
    struct fixture *x = *state;
    int64_t last = append(x, 0, 30);

    assert_int_equal(count(x, (struct event_filter){ .type = type_b }), 15);
    assert_int_equal(count(x, (struct event_filter){ .sandbox_id = box_a }), 10);
    assert_int_equal(count(x, (struct event_filter){ .owner_id = ann }), 6);
    assert_int_equal(count(x, (struct event_filter){ .owner_id = ann, .sandbox_id = box_a }), 2);
    assert_int_equal(count(x, (struct event_filter){ .codebase_id = "cb_b" }), 0);
    assert_int_equal(count(x, (struct event_filter){ .host_id = "host_b" }), 0);
    assert_int_equal(count(x, (struct event_filter){ .since_ns = 1010, .until_ns = 1020 }), 10);
    assert_int_equal(count(x, (struct event_filter){ .before = last }), 29);
    autodone(event_rows) struct event_rows list = { 0 };
    must(event_row_query(x->store, &(struct event_filter){ .newest_first = true }, 1, &list, err));
    assert_int_equal(list.rows[0].sequence, last);
}

static void a_batch_is_all_or_nothing(void **state)
{
    struct fixture *x = *state;
    struct event_row rows[2] = { some_event(0), some_event(1) };

    rows[1].payload = (char *) "\xff";
    must_fail(ERR_INVALID_ARGUMENT, event_row_append(x->store, rows, 2, NULL, err));
    assert_int_equal(count(x, (struct event_filter){ 0 }), 0);
    must(event_row_append(x->store, rows, 0, NULL, err));
}

static void old_ones_go_in_small_steps(void **state)
{
    struct fixture *x = *state;
    struct err problem = ERR_NONE;

    append(x, 0, 50);
    assert_int_equal(event_row_trim(x->store, 1020, 0, 8, &problem), 8);
    assert_int_equal(count(x, (struct event_filter){ 0 }), 42);
    assert_int_equal(event_row_trim(x->store, 1020, 0, 100, &problem), 12);
    assert_int_equal(event_row_trim(x->store, 1020, 0, 100, &problem), 0);
    assert_int_equal(event_row_trim(x->store, 0, 10, 100, &problem), 20);
    assert_int_equal(event_row_trim(x->store, 0, 10, 100, &problem), 0);
    assert_int_equal(count(x, (struct event_filter){ .since_ns = 1040 }), 10);
}

static void a_sequence_is_never_used_again(void **state)
{
    struct fixture *x = *state;
    struct err problem = ERR_NONE;
    int64_t last = append(x, 0, 3);

    assert_int_equal(event_row_trim(x->store, INT64_MAX, 0, 100, &problem), 3);
    reopen(x);
    assert_true(append(x, 0, 1) > last);
}

/* What a server needs of memory is not to grow with what it remembers. Sanitizers have an allocator of their own, which tells nothing. */
static void many_of_them_need_no_more_memory_than_few(void **state)
{
    struct fixture *x = *state;
    size_t before, after;

    append(x, 0, 100);
    count(x, (struct event_filter){ 0 });
    before = mallinfo2().uordblks;
    for (int i = 1; i < 200; i++)
        append(x, 100 * i, 100);
    for (int64_t last = 0; last < 20000; last += 1000) {
        autodone(event_rows) struct event_rows list = { 0 };
        must(event_row_query(x->store, &(struct event_filter){ .after = last }, 1000, &list, err));
    }
    after = mallinfo2().uordblks;
    assert_true(after < before + (1 << 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(many_of_them_need_no_more_memory_than_few),
        store_test(they_come_back_in_order_from_where_one_was),
        store_test(filters_hold_together),
        store_test(a_batch_is_all_or_nothing),
        store_test(old_ones_go_in_small_steps),
        store_test(a_sequence_is_never_used_again),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
