#include "fixture.h"

#include <unistd.h>

static void insert(struct fixture *x, struct sandbox_row *row)
{
    must(sandbox_row_insert(x->store, row, NULL, err));
}

static int move(struct fixture *x, const char *id, unsigned from, enum sandbox_status to, int64_t now, struct err *err)
{
    struct sandbox_move m = {
        .id = id, .from = from, .to = to, .now_ns = now, .reason = to == SANDBOX_STATUS_ERROR ? "why" : NULL
    };

    return sandbox_row_move(x->store, &m, NULL, err);
}

static void what_went_in_comes_out(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1000), got = { 0 };

    insert(x, &row);
    reopen(x);
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_string_equal(got.id, row.id);
    assert_string_equal(got.codebase_id, "");
    assert_string_equal(got.scope_path, row.scope_path);
    assert_string_equal(got.owner_id, "ann");
    assert_string_equal(got.host_id, "host_a");
    assert_int_equal(got.status, SANDBOX_STATUS_PENDING);
    assert_string_equal(got.reason, "");
    assert_int_equal(got.rules.len, 4);
    assert_memory_equal(got.rules.data, "a\0b\xff", 4);
    assert_int_equal(got.labels.count, 2);
    assert_string_equal(label_list_get(&got.labels, "team"), "red");
    assert_string_equal(label_list_get(&got.labels, "stage"), "");
    assert_int_equal(got.runtime, 1);
    assert_string_equal(got.image, "debian:12");
    assert_int_equal(got.memory_bytes, 1LL << 33);
    assert_int_equal(got.cpu_quota, 50000);
    assert_int_equal(got.cpu_shares, 512);
    assert_int_equal(got.pids_limit, 100);
    assert_int_equal(got.disk_bytes, 1LL << 34);
    assert_string_equal(got.network, "none");
    assert_true(got.sync_on_completion);
    assert_int_equal(got.extra.len, 2);
    assert_int_equal(got.created_ns, 1000);
    assert_int_equal(got.started_ns, 0);
    assert_int_equal(got.stopped_ns, 0);
    assert_int_equal(got.expires_ns, 2000);
    assert_int_equal(got.row_version, 1);
}

static void a_row_of_nothing_but_names_is_enough(void **state)
{
    struct fixture *x = *state;
    char id[] = "sb_0123456789abcdef", owner[] = "ann";
    struct sandbox_row row = { .id = id, .owner_id = owner };
    autodone(sandbox_row) struct sandbox_row got = { 0 };

    insert(x, &row);
    must(sandbox_row_get(x->store, id, &got, err));
    assert_string_equal(got.image, "");
    assert_int_equal(got.labels.count, 0);
    assert_int_equal(got.rules.len, 0);
    assert_false(got.sync_on_completion);
}

static void its_codebase_must_be_there(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row base = some_codebase("ann", 1);
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", base.id, 1);

    must_fail(ERR_NOT_FOUND, sandbox_row_insert(x->store, &row, NULL, err));
    must(codebase_row_insert(x->store, &base, err));
    insert(x, &row);
    must_fail(ERR_ALREADY_EXISTS, sandbox_row_insert(x->store, &row, NULL, err));
}

static void an_owner_has_as_many_as_allowed(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row a = some_sandbox("ann", "", 1), b = some_sandbox("ann", "", 2),
                                             c = some_sandbox("ann", "", 3), d = some_sandbox("bob", "", 4);
    struct sandbox_admission two = { .max_per_owner = 2 };
    int64_t count;

    must(sandbox_row_insert(x->store, &a, &two, err));
    must(sandbox_row_insert(x->store, &b, &two, err));
    must_fail(ERR_RESOURCE_EXHAUSTED, sandbox_row_insert(x->store, &c, &two, err));
    must(sandbox_row_insert(x->store, &d, &two, err));
    must(sandbox_row_count(x->store, &(struct sandbox_filter){ .owner_id = "ann" }, &count, err));
    assert_int_equal(count, 2);
    must(sandbox_row_delete(x->store, a.id, err));
    must(sandbox_row_insert(x->store, &c, &two, err));
}

static void a_life_is_a_row_of_moves(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), ran = { 0 }, again = { 0 }, broken = { 0 };

    insert(x, &row);
    must(move(x, row.id, SANDBOX_STATUS_BIT(SANDBOX_STATUS_PENDING), SANDBOX_STATUS_STARTING, 10, err));
    must(move(x, row.id, SANDBOX_STATUS_BIT(SANDBOX_STATUS_STARTING), SANDBOX_STATUS_RUNNING, 20, err));
    must(move(x, row.id, SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING), SANDBOX_STATUS_STOPPING, 30, err));
    must(move(x, row.id, SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPING), SANDBOX_STATUS_STOPPED, 40, err));
    must(sandbox_row_get(x->store, row.id, &ran, err));
    assert_int_equal(ran.status, SANDBOX_STATUS_STOPPED);
    assert_int_equal(ran.started_ns, 20);
    assert_int_equal(ran.stopped_ns, 40);
    assert_int_equal(ran.row_version, 5);
    must(move(x, row.id, SANDBOX_STATUS_ANY, SANDBOX_STATUS_STARTING, 45, err));
    must(move(x, row.id, SANDBOX_STATUS_ANY, SANDBOX_STATUS_RUNNING, 50, err));
    must(sandbox_row_get(x->store, row.id, &again, err));
    assert_int_equal(again.started_ns, 50);
    assert_int_equal(again.stopped_ns, 40); /* a new start does not forget the last stop */
    must(move(x, row.id, SANDBOX_STATUS_ANY, SANDBOX_STATUS_ERROR, 60, err));
    must(sandbox_row_get(x->store, row.id, &broken, err));
    assert_string_equal(broken.reason, "why");
    assert_int_equal(broken.stopped_ns, 60);
}

static void a_start_that_fails_is_no_stop(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), got = { 0 };

    insert(x, &row);
    must(move(x, row.id, SANDBOX_STATUS_ANY, SANDBOX_STATUS_STARTING, 10, err));
    must(move(x, row.id, SANDBOX_STATUS_ANY, SANDBOX_STATUS_ERROR, 20, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.started_ns, 0);
    assert_int_equal(got.stopped_ns, 0);
}

static void a_move_from_elsewhere_is_refused_and_tells_where_it_is(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), got = { 0 };
    struct sandbox_move m = { .id = row.id, .from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_STOPPED), .to = SANDBOX_STATUS_STARTING };
    struct err problem = ERR_NONE;

    insert(x, &row);
    assert_int_equal(sandbox_row_move(x->store, &m, NULL, &problem), -ESTALE);
    assert_int_equal(problem.code, ERR_FAILED_PRECONDITION);
    assert_string_equal(problem.reason, "INVALID_STATE");
    assert_non_null(strstr(problem.text, "pending"));
    m.from = 0;
    m.row_version = 7;
    must_fail(ERR_ABORTED, sandbox_row_move(x->store, &m, NULL, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.status, SANDBOX_STATUS_PENDING);
    assert_int_equal(got.row_version, 1);
    m.row_version = 1;
    must(sandbox_row_move(x->store, &m, &got, err));
    assert_int_equal(got.status, SANDBOX_STATUS_STARTING);
    assert_int_equal(got.row_version, 2);
    m.id = "sb_ffffffffffffffff";
    must_fail(ERR_NOT_FOUND, sandbox_row_move(x->store, &m, NULL, err));
}

static void a_reason_that_is_no_text_is_kept_escaped(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), got = { 0 };
    struct sandbox_move m = { .id = row.id, .from = SANDBOX_STATUS_ANY, .to = SANDBOX_STATUS_ERROR, .reason = "bad \xff byte" };

    insert(x, &row);
    must(sandbox_row_move(x->store, &m, NULL, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_non_null(strstr(got.reason, "bad "));
    assert_non_null(strstr(got.reason, " byte"));
}

static void an_update_needs_the_latest_version(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), stale = { 0 }, got = { 0 };

    insert(x, &row);
    must(sandbox_row_get(x->store, row.id, &stale, err));
    buf_clear(&row.rules);
    buf_add_str(&row.rules, "new");
    label_list_add(&row.labels, "more", "yes");
    row.expires_ns = 77;
    row.status = SANDBOX_STATUS_RUNNING; /* not by this way */
    must(sandbox_row_update(x->store, &row, err));
    assert_int_equal(row.row_version, 2);
    must_fail(ERR_ABORTED, sandbox_row_update(x->store, &stale, err));
    must(sandbox_row_get(x->store, row.id, &got, err));
    assert_memory_equal(got.rules.data, "new", 4);
    assert_int_equal(got.expires_ns, 77);
    assert_int_equal(got.labels.count, 3);
    assert_int_equal(got.status, SANDBOX_STATUS_PENDING);
    assert_int_equal(got.row_version, 2);
    must(sandbox_row_delete(x->store, row.id, err));
    must_fail(ERR_NOT_FOUND, sandbox_row_update(x->store, &row, err));
    must_fail(ERR_NOT_FOUND, sandbox_row_delete(x->store, row.id, err));
}

static size_t count_list(struct fixture *x, const struct sandbox_filter *filter)
{
    autodone(sandbox_rows) struct sandbox_rows list = { 0 };
    int64_t count = -1;

    must(sandbox_row_list(x->store, filter, NULL, &list, err));
    must(sandbox_row_count(x->store, filter, &count, err));
    assert_int_equal(list.count, count);
    return list.count;
}

static void lists_are_restricted_by_what_is_asked(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row base = some_codebase("ann", 1);
    autodone(sandbox_row) struct sandbox_row a = some_sandbox("ann", base.id, 1), b = some_sandbox("ann", "", 2),
                                             c = some_sandbox("bob", "", 3);

    must(codebase_row_insert(x->store, &base, err));
    a.status = SANDBOX_STATUS_RUNNING;
    c.host_id[5] = 'b';
    c.expires_ns = 0;
    insert(x, &a);
    insert(x, &b);
    insert(x, &c);
    assert_int_equal(count_list(x, NULL), 3);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .owner_id = "ann" }), 2);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .owner_id = "an" }), 0);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .codebase_id = base.id }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .codebase_id = "cb_unknown" }), 0);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .host_id = "host_b" }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .statuses = SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .statuses = SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) |
                                                                         SANDBOX_STATUS_BIT(SANDBOX_STATUS_PENDING) }),
                     3);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .owner_id = "ann", .host_id = "host_b" }), 0);
    /* Expired: 1001 and 1002; never for the third. */
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .expires_until_ns = 1000 }), 0);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .expires_until_ns = 1001 }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .expires_until_ns = 9999 }), 2);
}

static void labels_are_found_whole(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1);
    static const struct {
        const char *key, *value;
        size_t count;
    } cases[] = {
        { "team", "red", 1 },
        { "team", "re", 0 },
        { "eam", "red", 0 },
        { "stage", "", 1 },
        { "team", "", 0 },
        { "%", "%", 0 },
        { "te_m", "red", 0 },
        { "odd\x1e\x1f\x1b", "'", 1 },
        { "odd\x1e\x1f", "\x1b'", 0 },
    };

    label_list_add(&row.labels, "odd\x1e\x1f\x1b", "'");
    insert(x, &row);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(label_list) struct label_list labels = { 0 };
        label_list_add(&labels, cases[i].key, cases[i].value);
        assert_int_equal(count_list(x, &(struct sandbox_filter){ .labels = &labels }), cases[i].count);
    }
    autodone(label_list) struct label_list both = { 0 }, many = { 0 };
    autodone(sandbox_rows) struct sandbox_rows list = { 0 };
    label_list_add(&both, "stage", "");
    label_list_add(&both, "team", "red");
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .labels = &both }), 1);
    label_list_add(&both, "team", "blue");
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .labels = &both }), 0);
    for (int i = 0; i < 9; i++)
        label_list_add(&many, "a", "b");
    must_fail(ERR_INVALID_ARGUMENT, sandbox_row_list(x->store, &(struct sandbox_filter){ .labels = &many }, NULL, &list, err));
}

static void tags_are_found_whole(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), none = some_sandbox("ann", "", 2),
                                             bare = some_sandbox("ann", "", 3);
    static const struct {
        const char *tag;
        size_t count;
    } cases[] = {
        { "red", 1 },  { "re", 0 },  { "a,b", 1 },    { "a", 0 },           { "q\"uo", 1 },   { "uo", 0 },
        { "last", 1 }, { "las", 0 }, { "back\\", 1 }, { "red\",\"a,b", 0 }, { "ünïcode", 1 }, { "", 0 },
    };
    const char *const both[] = { "red", "last" }, *const other[] = { "red", "blue" },
                      *const many[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9" }, *const comma[] = { "," };
    autodone(sandbox_rows) struct sandbox_rows list = { 0 };

    free(row.tags);
    row.tags = xdup("[\"red\",\"a,b\",\"q\\\"uo\",\"back\\\\\",\"ünïcode\",\"last\"]");
    free(none.tags);
    none.tags = xdup("[]");
    free(bare.tags);
    bare.tags = xdup("");
    insert(x, &row);
    insert(x, &none);
    insert(x, &bare);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(count_list(x, &(struct sandbox_filter){ .tags = &cases[i].tag, .tag_count = 1 }), cases[i].count);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .tags = both, .tag_count = 2 }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .tags = other, .tag_count = 2 }), 0);
    must_fail(ERR_INVALID_ARGUMENT,
              sandbox_row_list(x->store, &(struct sandbox_filter){ .tags = many, .tag_count = 9 }, NULL, &list, err));
    must_fail(ERR_INVALID_ARGUMENT,
              sandbox_row_list(x->store, &(struct sandbox_filter){ .tags = comma, .tag_count = 1 }, NULL, &list, err));
}

static void names_and_decisions_restrict(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1), other = some_sandbox("ann", "", 2);

    free(row.name);
    row.name = xdup("shop");
    row.decision = SANDBOX_DECISION_REJECTED;
    insert(x, &row);
    insert(x, &other);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .name = "shop" }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .name = "sho" }), 0);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .decisions = 1 << SANDBOX_DECISION_REJECTED }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .decisions = 1 << SANDBOX_DECISION_OPEN }), 1);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .decisions = 1 << SANDBOX_DECISION_APPROVED }), 0);
    assert_int_equal(count_list(x, &(struct sandbox_filter){ .decisions = 7 }), 2);
}

static void pages_keep_to_the_filter(void **state)
{
    struct fixture *x = *state;
    autofree char *token = NULL;
    size_t pages = 0, seen = 0;

    for (int i = 0; i < 10; i++) {
        autodone(sandbox_row) struct sandbox_row row = some_sandbox(i % 2 ? "ann" : "bob", "", i);
        insert(x, &row);
    }
    do {
        autodone(sandbox_rows) struct sandbox_rows list = { 0 };
        must(sandbox_row_list(x->store, &(struct sandbox_filter){ .owner_id = "ann" },
                              &(struct store_page){ .limit = 2, .token = token }, &list, err));
        for (size_t i = 0; i < list.count; i++)
            assert_int_equal(list.rows[i].created_ns, 2 * seen++ + 1);
        pages++;
        free(token);
        token = steal_ptr(&list.next_token);
    } while (token);
    assert_int_equal(seen, 5);
    assert_int_equal(pages, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(what_went_in_comes_out),
        store_test(a_row_of_nothing_but_names_is_enough),
        store_test(its_codebase_must_be_there),
        store_test(an_owner_has_as_many_as_allowed),
        store_test(a_life_is_a_row_of_moves),
        store_test(a_start_that_fails_is_no_stop),
        store_test(a_move_from_elsewhere_is_refused_and_tells_where_it_is),
        store_test(a_reason_that_is_no_text_is_kept_escaped),
        store_test(an_update_needs_the_latest_version),
        store_test(lists_are_restricted_by_what_is_asked),
        store_test(labels_are_found_whole),
        store_test(tags_are_found_whole),
        store_test(names_and_decisions_restrict),
        store_test(pages_keep_to_the_filter),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
