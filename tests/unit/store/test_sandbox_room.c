/* What a sandbox may take: paths of the host, and a place among others. */
#include "fixture.h"

#include <pthread.h>

static int insert(struct fixture *x, struct sandbox_row *row, struct err *err)
{
    struct sandbox_admission room = { 0 };
    int r = sandbox_row_insert(x->store, row, &room, err);

    sandbox_conflicts_done(&room.conflicts);
    return r;
}

static int move(struct fixture *x, const char *id, enum sandbox_status to, struct err *err)
{
    return sandbox_row_move(x->store, &(struct sandbox_move){ .id = id, .to = to, .now_ns = 5000 }, NULL, err);
}

static int decide(struct fixture *x, const char *id, enum sandbox_decision decision, struct err *err)
{
    struct sandbox_move m = { .id = id, .to = SANDBOX_STATUS_STOPPED, .decides = true, .decision = decision, .now_ns = 5000 };

    return sandbox_row_move(x->store, &m, NULL, err);
}

static void overlaps_are_refused_and_told(void **state)
{
    struct fixture *x = *state;
    static const struct {
        const char *path;
        int overlap; /* -1: none */
    } cases[] = { { "/p/a_b", SANDBOX_OVERLAP_EXACT },
                  { "/p/a_b/c", SANDBOX_OVERLAP_ABOVE },
                  { "/p", SANDBOX_OVERLAP_BENEATH },
                  { "/p/axb", -1 },
                  { "/p/a_bc", -1 },
                  { "/p/a_", -1 },
                  { "/q", -1 } };
    autodone(sandbox_row) struct sandbox_row first = some_sandbox_over("/p/a_b", 1);
    struct store_stats stats;

    must(insert(x, &first, err));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(sandbox_row) struct sandbox_row row = some_sandbox_over(cases[i].path, 2);
        struct sandbox_admission room = { 0 };
        struct err told = ERR_NONE;
        int r = sandbox_row_insert(x->store, &row, &room, &told);

        if (cases[i].overlap < 0) {
            assert_int_equal(r, 0);
            must(move(x, row.id, SANDBOX_STATUS_DELETED, err));
        } else {
            assert_int_equal(r, -EBUSY);
            assert_string_equal(told.reason, "SCOPE_CONFLICT");
            assert_int_equal(room.conflicts.count, 1);
            assert_string_equal(room.conflicts.items[0].id, first.id);
            assert_int_equal(room.conflicts.items[0].overlap, cases[i].overlap);
            assert_int_equal(room.conflicts.items[0].state, SANDBOX_STATE_CREATING);
            assert_string_equal(room.conflicts.items[0].creator, "agent-7");
        }
        sandbox_conflicts_done(&room.conflicts);
    }
    store_stats(x->store, &stats);
    assert_int_equal(stats.retries, 0); /* nothing is waited for: the other one stays */
}

static void a_stopped_one_keeps_what_it_reserved(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row first = some_sandbox_over("/p", 1), second = some_sandbox_over("/p", 2);

    must(insert(x, &first, err));
    must(move(x, first.id, SANDBOX_STATUS_RUNNING, err));
    must(move(x, first.id, SANDBOX_STATUS_STOPPING, err));
    must(move(x, first.id, SANDBOX_STATUS_STOPPED, err));
    must_fail(ERR_FAILED_PRECONDITION, insert(x, &second, err));
    must(decide(x, first.id, SANDBOX_DECISION_REJECTED, err));
    must(insert(x, &second, err));
}

static void one_that_broke_keeps_it_and_one_that_was_never_made_does_not(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row first = some_sandbox_over("/p", 1), second = some_sandbox_over("/p", 2),
                                             third = some_sandbox_over("/p", 3);

    must(insert(x, &first, err));
    must(move(x, first.id, SANDBOX_STATUS_ERROR, err));
    must(insert(x, &second, err));
    must(move(x, second.id, SANDBOX_STATUS_RUNNING, err));
    must(move(x, second.id, SANDBOX_STATUS_ERROR, err));
    must_fail(ERR_FAILED_PRECONDITION, insert(x, &third, err));
    must(move(x, second.id, SANDBOX_STATUS_DELETED, err));
    must_fail(ERR_FAILED_PRECONDITION, move(x, first.id, SANDBOX_STATUS_STARTING, err)); /* it has nothing to start */
    must(insert(x, &third, err));
}

static void who_takes_no_lock_is_in_nobodys_way(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row first = some_sandbox_over("/p", 1), second = some_sandbox_over("/p", 2),
                                             elsewhere = some_sandbox_over("/p", 3);

    first.no_lock = true;
    must(insert(x, &first, err));
    must(insert(x, &second, err));
    free(elsewhere.host_id);
    elsewhere.host_id = xdup("host_b");
    must(insert(x, &elsewhere, err));
}

static void who_comes_back_needs_its_paths(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row first = some_sandbox_over("/p", 1), second = some_sandbox_over("/p/a", 2),
                                             got = { 0 };
    struct sandbox_admission room = { .max_over_directories = 2 };
    struct sandbox_move back = { .id = first.id, .to = SANDBOX_STATUS_STOPPED, .decides = true, .now_ns = 7000, .room = &room };
    struct err told = ERR_NONE;

    must(insert(x, &first, err));
    must(move(x, first.id, SANDBOX_STATUS_RUNNING, err));
    must(move(x, first.id, SANDBOX_STATUS_STOPPING, err));
    must(move(x, first.id, SANDBOX_STATUS_STOPPED, err));
    must(decide(x, first.id, SANDBOX_DECISION_APPROVED, err));
    must(move(x, first.id, SANDBOX_STATUS_DELETED, err));
    must(insert(x, &second, err));
    assert_int_equal(sandbox_row_move(x->store, &back, NULL, &told), -EBUSY);
    assert_string_equal(told.reason, "SCOPE_CONFLICT");
    assert_int_equal(room.conflicts.count, 1);
    assert_string_equal(room.conflicts.items[0].id, second.id);
    sandbox_conflicts_done(&room.conflicts);
    must(move(x, second.id, SANDBOX_STATUS_ERROR, err));
    room.max_over_directories = 1; /* the other is one */
    must_fail(ERR_RESOURCE_EXHAUSTED, sandbox_row_move(x->store, &back, NULL, err));
    room.max_over_directories = 2;
    must(sandbox_row_move(x->store, &back, &got, err));
    assert_int_equal(got.status, SANDBOX_STATUS_STOPPED);
    assert_int_equal(got.decision, SANDBOX_DECISION_OPEN);
    assert_int_equal(got.stopped_ns, 7000);
    assert_int_equal(got.approved_ns + got.closed_ns + got.deleted_ns, 0);
    must_fail(ERR_FAILED_PRECONDITION, insert(x, &second, err)); /* it has its paths again */
}

static void the_number_over_directories_is_the_hosts(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row base = some_codebase("ann", 1);
    autodone(sandbox_row) struct sandbox_row first = some_sandbox_over("/p/a", 1), second = some_sandbox_over("/p/b", 2),
                                             other = some_sandbox("ann", base.id, 3);
    struct sandbox_admission room = { .max_over_directories = 1 };
    struct err told = ERR_NONE;

    must(codebase_row_insert(x->store, &base, err));
    must(sandbox_row_insert(x->store, &other, &room, err));
    must(sandbox_row_insert(x->store, &first, &room, err));
    assert_int_equal(sandbox_row_insert(x->store, &second, &room, &told), -EDQUOT);
    assert_string_equal(told.reason, "TOO_MANY_SANDBOXES");
    must(move(x, first.id, SANDBOX_STATUS_DELETED, err));
    must(sandbox_row_insert(x->store, &second, &room, err));
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
    autodone(sandbox_row) struct sandbox_row row = some_sandbox_over("/p/race", 1);
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
        store_test(overlaps_are_refused_and_told),
        store_test(a_stopped_one_keeps_what_it_reserved),
        store_test(one_that_broke_keeps_it_and_one_that_was_never_made_does_not),
        store_test(who_takes_no_lock_is_in_nobodys_way),
        store_test(who_comes_back_needs_its_paths),
        store_test(the_number_over_directories_is_the_hosts),
        store_test(of_many_at_once_one_gets_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
