#include "fixture.h"

#include <pthread.h>
#include <stdio.h>

#include "store/workspace_row.h"

static struct workspace_row some_workspace(const char *scope, int64_t created_ns)
{
    struct workspace_row row = {
        .id = xalloc(UUID_TEXT_MAX),
        .account_id = xdup("ann"),
        .host_id = xdup("host_a"),
        .scope_path = xdup(scope),
        .project_root = xdup("/p"),
        .reserved_paths = xalloc(2 * sizeof(char *)),
        .owner = xdup("agent-7"),
        .owner_type = xdup("agent"),
        .status = WORKSPACE_STATUS_CREATING,
        .driver = xdup("fence"),
        .preset = xdup("development"),
        .tags = xdup("[\"a\"]"),
        .metadata = xdup("{\"k\":1}"),
        .behavior = xdup("{}"),
        .base_commit = xdup("abc"),
        .created_ns = created_ns,
        .used_ns = created_ns,
        .updated_ns = created_ns,
    };

    uuid_new(row.id);
    row.reserved_paths[0] = xdup(scope);
    buf_add(&row.rules, "a\0b", 3);
    return row;
}

static int insert(struct fixture *x, struct workspace_row *row, struct err *err)
{
    struct workspace_insertion insertion = { 0 };
    int r = workspace_row_insert(x->store, row, &insertion, err);

    workspace_conflicts_done(&insertion.conflicts);
    return r;
}

static int move_from(struct fixture *x, const char *id, unsigned from, int64_t version, enum workspace_status to,
                     struct err *err)
{
    return workspace_row_move(
        x->store, &(struct workspace_move){ .id = id, .from = from, .row_version = version, .to = to, .now_ns = 5000 }, err);
}

static int move(struct fixture *x, const char *id, enum workspace_status to, struct err *err)
{
    return move_from(x, id, WORKSPACE_STATUS_ANY, 0, to, err);
}

static void what_went_in_comes_out(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row row = some_workspace("/p/s \xff", 1000), got = { 0 };

    must(insert(x, &row, err));
    reopen(x);
    must(workspace_row_get(x->store, row.id, &got, err));
    assert_string_equal(got.scope_path, "/p/s \xff");
    assert_string_equal(got.reserved_paths[0], "/p/s \xff");
    assert_null(got.reserved_paths[1]);
    assert_string_equal(got.project_root, "/p");
    assert_string_equal(got.owner, "agent-7");
    assert_string_equal(got.tags, "[\"a\"]");
    assert_string_equal(got.base_commit, "abc");
    assert_int_equal(got.rules.len, 3);
    assert_int_equal(got.status, WORKSPACE_STATUS_CREATING);
    assert_int_equal(got.row_version, 1);
    assert_false(got.no_lock);
}

static void overlaps_are_refused_and_told(void **state)
{
    struct fixture *x = *state;
    static const struct {
        const char *path;
        int overlap; /* -1: none */
    } cases[] = { { "/p/a_b", WORKSPACE_OVERLAP_EXACT },
                  { "/p/a_b/c", WORKSPACE_OVERLAP_ABOVE },
                  { "/p", WORKSPACE_OVERLAP_BENEATH },
                  { "/p/axb", -1 },
                  { "/p/a_bc", -1 },
                  { "/p/a_", -1 },
                  { "/q", -1 } };
    autodone(workspace_row) struct workspace_row first = some_workspace("/p/a_b", 1);
    struct store_stats stats;

    must(insert(x, &first, err));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(workspace_row) struct workspace_row row = some_workspace(cases[i].path, 2);
        struct workspace_insertion insertion = { 0 };
        struct err told = ERR_NONE;
        int r = workspace_row_insert(x->store, &row, &insertion, &told);

        if (cases[i].overlap < 0) {
            assert_int_equal(r, 0);
            must(move(x, row.id, WORKSPACE_STATUS_DELETED, err));
        } else {
            assert_int_equal(r, -EBUSY);
            assert_string_equal(told.reason, "SCOPE_CONFLICT");
            assert_int_equal(insertion.conflicts.count, 1);
            assert_string_equal(insertion.conflicts.items[0].id, first.id);
            assert_int_equal(insertion.conflicts.items[0].overlap, cases[i].overlap);
            assert_string_equal(insertion.conflicts.items[0].owner, "agent-7");
        }
        workspace_conflicts_done(&insertion.conflicts);
    }
    store_stats(x->store, &stats);
    assert_int_equal(stats.retries, 0); /* nothing is waited for: the other one stays */
}

static void a_stopped_one_keeps_what_it_reserved(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row first = some_workspace("/p", 1), second = some_workspace("/p", 2);

    must(insert(x, &first, err));
    must(move(x, first.id, WORKSPACE_STATUS_ACTIVE, err));
    must(move(x, first.id, WORKSPACE_STATUS_STOPPED, err));
    must_fail(ERR_FAILED_PRECONDITION, insert(x, &second, err));
    must(move(x, first.id, WORKSPACE_STATUS_REJECTED, err));
    must(insert(x, &second, err));
}

static void who_takes_no_lock_is_in_nobodys_way(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row first = some_workspace("/p", 1), second = some_workspace("/p", 2),
                                                 elsewhere = some_workspace("/p", 3);

    first.no_lock = true;
    must(insert(x, &first, err));
    must(insert(x, &second, err));
    free(elsewhere.host_id);
    elsewhere.host_id = xdup("host_b");
    must(insert(x, &elsewhere, err));
}

static void a_key_is_good_for_one_request(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row first = some_workspace("/p", 1), again = some_workspace("/p", 2),
                                                 other = some_workspace("/q", 3);
    struct workspace_insertion insertion = { 0 };

    first.idempotency_key = xdup("key");
    buf_add_str(&first.request_hash, "hash");
    again.idempotency_key = xdup("key");
    buf_add_str(&again.request_hash, "hash");
    other.idempotency_key = xdup("key");
    buf_add_str(&other.request_hash, "hasx");
    must(insert(x, &first, err));
    assert_int_equal(workspace_row_insert(x->store, &again, &insertion, NULL), -EALREADY);
    assert_string_equal(insertion.known_id, first.id);
    assert_int_equal(insert(x, &other, NULL), -EEXIST);
    free(other.account_id);
    other.account_id = xdup("ben");
    must(insert(x, &other, err));
}

static void moves_are_those_of_the_table(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row row = some_workspace("/p", 1), got = { 0 };
    struct err told = ERR_NONE;

    must(insert(x, &row, err));
    must_fail(ERR_FAILED_PRECONDITION, move(x, row.id, WORKSPACE_STATUS_STOPPED, err));
    must(move(x, row.id, WORKSPACE_STATUS_ACTIVE, err));
    assert_int_equal(move_from(x, row.id, WORKSPACE_STATUS_ANY, 1, WORKSPACE_STATUS_STOPPED, &told), -ESTALE);
    assert_int_equal(told.code, ERR_ABORTED);
    must(move_from(x, row.id, WORKSPACE_STATUS_ANY, 2, WORKSPACE_STATUS_STOPPED, err));
    must_fail(ERR_FAILED_PRECONDITION,
              move_from(x, row.id, WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_ACTIVE), 0, WORKSPACE_STATUS_DELETED, err));
    must(move(x, row.id, WORKSPACE_STATUS_APPROVED, err));
    must_fail(ERR_FAILED_PRECONDITION, move(x, row.id, WORKSPACE_STATUS_ACTIVE, err));
    must(move(x, row.id, WORKSPACE_STATUS_DELETED, err));
    must(workspace_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.row_version, 5);
    assert_int_equal(got.approved_ns, 5000);
    assert_int_equal(got.closed_ns, 5000);
    assert_int_equal(got.deleted_ns, 5000);
    must_fail(ERR_NOT_FOUND, move(x, "00000000-0000-4000-8000-000000000000", WORKSPACE_STATUS_DELETED, err));
}

static void who_comes_back_needs_its_paths(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row first = some_workspace("/p", 1), second = some_workspace("/p/a", 2),
                                                 got = { 0 };
    struct workspace_insertion insertion = { .max = 2 };
    struct workspace_move back = {
        .id = first.id, .from = WORKSPACE_STATUS_ANY, .to = WORKSPACE_STATUS_STOPPED, .now_ns = 7000, .insertion = &insertion
    };
    struct err told = ERR_NONE;

    must(insert(x, &first, err));
    must(move(x, first.id, WORKSPACE_STATUS_ACTIVE, err));
    must(move(x, first.id, WORKSPACE_STATUS_APPROVED, err));
    must(move(x, first.id, WORKSPACE_STATUS_DELETED, err));
    must(insert(x, &second, err));
    assert_int_equal(workspace_row_move(x->store, &back, &told), -EBUSY);
    assert_string_equal(told.reason, "SCOPE_CONFLICT");
    assert_int_equal(insertion.conflicts.count, 1);
    assert_string_equal(insertion.conflicts.items[0].id, second.id);
    workspace_conflicts_done(&insertion.conflicts);
    must(move(x, second.id, WORKSPACE_STATUS_ERROR, err));
    insertion.max = 1; /* the other is one */
    must_fail(ERR_RESOURCE_EXHAUSTED, workspace_row_move(x->store, &back, err));
    insertion.max = 2;
    must(workspace_row_move(x->store, &back, err));
    must(workspace_row_get(x->store, first.id, &got, err));
    assert_int_equal(got.status, WORKSPACE_STATUS_STOPPED);
    assert_int_equal(got.stopped_ns, 7000);
    assert_int_equal(got.approved_ns + got.closed_ns + got.deleted_ns, 0);
    must_fail(ERR_FAILED_PRECONDITION, insert(x, &second, err)); /* it has its paths again */
}

static void notes_count_no_version(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_row) struct workspace_row row = some_workspace("/p", 1), got = { 0 };

    must(insert(x, &row, err));
    must(workspace_row_touch(x->store, row.id, 3000000000, err));
    must(workspace_row_touch(x->store, row.id, 3500000000, err));
    must(workspace_row_measure(x->store, row.id, 17, 2, err));
    must(workspace_row_get(x->store, row.id, &got, err));
    assert_int_equal(got.used_ns, 3000000000);
    assert_int_equal(got.size_bytes, 17);
    assert_int_equal(got.file_count, 2);
    assert_int_equal(got.row_version, 1);
    free(got.behavior);
    got.behavior = xdup("{\"x\":1}");
    must(workspace_row_update(x->store, &got, err));
    must_fail(ERR_ABORTED, workspace_row_update(x->store, &row, err));
}

static void lists_are_the_newest_first_and_counted(void **state)
{
    struct fixture *x = *state;
    autodone(workspace_rows) struct workspace_rows page = { 0 };
    struct workspace_count counts[WORKSPACE_STATUS_COUNT];
    struct workspace_filter filter = { .owner = "agent-7", .statuses = WORKSPACE_STATUS_BIT(WORKSPACE_STATUS_CREATING) };
    int64_t total = 0;

    for (int i = 0; i < 5; i++) {
        char path[16];
        snprintf(path, sizeof(path), "/p%d", i);
        autodone(workspace_row) struct workspace_row row = some_workspace(path, 100 + i);
        must(insert(x, &row, err));
        if (i == 0)
            must(move(x, row.id, WORKSPACE_STATUS_ACTIVE, err));
    }
    must(workspace_row_list(x->store, &filter, 2, 1, false, &page, &total, err));
    assert_int_equal(total, 4);
    assert_int_equal(page.count, 2);
    assert_string_equal(page.rows[0].scope_path, "/p3");
    must(workspace_row_count(x->store, &(struct workspace_filter){ .account_id = "ann" }, counts, err));
    assert_int_equal(counts[WORKSPACE_STATUS_CREATING].count, 4);
    assert_int_equal(counts[WORKSPACE_STATUS_ACTIVE].count, 1);
}

#define RACERS 8

struct race {
    struct fixture *x;
    int won;
    pthread_mutex_t lock;
};

static void *race(void *arg)
{
    struct race *race = arg;
    autodone(workspace_row) struct workspace_row row = some_workspace("/p/race", 1);
    int r = insert(race->x, &row, NULL);

    pthread_mutex_lock(&race->lock);
    race->won += r == 0;
    pthread_mutex_unlock(&race->lock);
    return NULL;
}

static void of_many_at_once_one_gets_it(void **state)
{
    struct race all = { .x = *state, .lock = PTHREAD_MUTEX_INITIALIZER };
    pthread_t threads[RACERS];

    for (int i = 0; i < RACERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, &all), 0);
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(all.won, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(what_went_in_comes_out),
        store_test(overlaps_are_refused_and_told),
        store_test(a_stopped_one_keeps_what_it_reserved),
        store_test(who_takes_no_lock_is_in_nobodys_way),
        store_test(a_key_is_good_for_one_request),
        store_test(moves_are_those_of_the_table),
        store_test(who_comes_back_needs_its_paths),
        store_test(notes_count_no_version),
        store_test(lists_are_the_newest_first_and_counted),
        store_test(of_many_at_once_one_gets_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
