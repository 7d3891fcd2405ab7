/* A PostgreSQL server that goes away and comes back. with_postgres.py starts it again when it was killed. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "store/db.h"
#include "store/meta.h"
#include "store/txn.h"

static char *server_file(const char *name)
{
    return xprintf("%s/%s", getenv("AGENTFENSE_TEST_POSTGRES_DIR"), name);
}

/* SIGINT: it takes its leave; SIGQUIT: as if it had crashed. Returns when it is gone. */
static void kill_server(int sig)
{
    autofree char *path = server_file("data/postmaster.pid");
    autofile FILE *f = fopen(path, "re");
    int pid = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, sig), 0);
    while (kill(pid, 0) == 0)
        usleep(1000);
}

static int hold_down(void **state)
{
    autofree char *path = server_file("hold");

    (void) state;
    return close(open(path, O_WRONLY | O_CREAT, 0600));
}

static int let_up(void **state)
{
    autofree char *path = server_file("hold");

    (void) state;
    unlink(path);
    return 0;
}

static void wait_until_back(struct fixture *x)
{
    while (store_ping(x->store, NULL) < 0)
        usleep(10000);
}

static void a_restart_between_calls_is_not_noticed(void **state)
{
    struct fixture *x = *state;
    autofree char *value = NULL;
    struct store_stats stats;

    for (int i = 0; i < 3; i++) {
        autodone(codebase_row) struct codebase_row row = some_codebase("ann", i), got = { 0 };
        must(meta_set(x->store, "a", "1", err));
        kill_server(i == 1 ? SIGQUIT : SIGINT);
        wait_until_back(x);
        must(codebase_row_insert(x->store, &row, err)); /* one that is never sent twice */
        must(codebase_row_get(x->store, row.id, &got, err));
    }
    must(meta_get(x->store, "a", &value, err));
    store_stats(x->store, &stats);
    assert_true(stats.connects >= 4);
}

static void connections_that_were_cut_are_not_used(void **state)
{
    struct fixture *x = *state;
    autodone(codebase_row) struct codebase_row before = some_codebase("ann", 1), row = some_codebase("ann", 2);

    must(codebase_row_insert(x->store, &before, err)); /* so that it is prepared there, and would be sent at once */
    run_sql(x, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
               " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    must(codebase_row_insert(x->store, &row, err));
}

static void one_that_is_away_is_unavailable(void **state)
{
    struct fixture *x = *state;
    autoptr(store) hasty = NULL;
    autofree char *value = NULL;
    struct store *another = NULL;

    must(store_open(x->url, &(struct store_options){ .patience_ms = 50 }, &hasty, err));
    must(meta_set(hasty, "a", "1", err));
    hold_down(NULL);
    kill_server(SIGINT);
    must_fail(ERR_UNAVAILABLE, meta_get(hasty, "a", &value, err));
    must_fail(ERR_UNAVAILABLE, meta_set(hasty, "a", "2", err));
    must_fail(ERR_UNAVAILABLE, store_open(x->url, NULL, &another, err));
    let_up(NULL);
    wait_until_back(x);
    must(meta_get(hasty, "a", &value, err));
    assert_string_equal(value, "1");
}

static void a_row_that_is_held_too_long_is_told(void **state)
{
    struct fixture *x = *state;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1);
    struct sandbox_move m = { .id = row.id, .from = SANDBOX_STATUS_ANY, .to = SANDBOX_STATUS_STARTING };
    autoptr(store) hasty = NULL;
    autoptr(db) db = NULL;

    must(store_open(x->url, &(struct store_options){ .patience_ms = 50, .busy_timeout_ms = 20 }, &hasty, err));
    must(sandbox_row_insert(hasty, &row, NULL, err));
    db = open_raw(x);
    must(db_begin(db, err));
    must(db_run(db, "SELECT id FROM sandboxes FOR UPDATE", DB_NO_VALUES, NULL, NULL, err));
    must_fail(ERR_UNAVAILABLE, sandbox_row_move(hasty, &m, NULL, err));
    db_rollback(db);
    must(sandbox_row_move(hasty, &m, NULL, err));
}

/* ---- two in each other's way ---- */

struct crossing {
    struct store *store;
    pthread_barrier_t *both;
    const char *first, *second;
    int calls;
    int r;
};

static int touch_both(struct db *db, void *cookie, struct err *err)
{
    struct crossing *c = cookie;
    int r = db_run(db, "UPDATE meta SET value = value || 'x' WHERE name = $1", DB_VALUES(db_text(c->first)), NULL, NULL, err);

    if (c->calls++ == 0)
        pthread_barrier_wait(c->both); /* each has one, and now wants the other */
    if (r >= 0)
        r = db_run(db, "UPDATE meta SET value = value || 'x' WHERE name = $1", DB_VALUES(db_text(c->second)), NULL, NULL, err);
    return r < 0 ? r : 0;
}

static void *cross(void *arg)
{
    struct crossing *c = arg;

    c->r = txn_write(c->store, STORE_CALL_META_SET, 0, touch_both, c, NULL);
    return NULL;
}

static void of_two_that_wait_for_each_other_one_begins_again(void **state)
{
    struct fixture *x = *state;
    pthread_barrier_t both;
    struct crossing a = { .store = x->store, .both = &both, .first = "a", .second = "b" };
    struct crossing b = { .store = x->store, .both = &both, .first = "b", .second = "a" };
    autofree char *value = NULL;
    pthread_t thread;

    must(meta_set(x->store, "a", "", err));
    must(meta_set(x->store, "b", "", err));
    pthread_barrier_init(&both, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, cross, &a), 0);
    cross(&b);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&both);
    assert_int_equal(a.r, 0);
    assert_int_equal(b.r, 0);
    assert_true(a.calls + b.calls > 2);
    must(meta_get(x->store, "a", &value, err));
    assert_string_equal(value, "xx");
}

/* ---- the answer that does not come ---- */

struct cutting {
    int calls;
    bool cuts; /* the first time, after it wrote */
};

static int write_and_cut(struct db *db, void *cookie, struct err *err)
{
    struct cutting *c = cookie;
    int r = db_run(db, "INSERT INTO meta (name, value) VALUES ('cut' || $1, 'x')", DB_VALUES(db_text(c->calls++ ? "2" : "1")),
                   NULL, NULL, err);

    if (r >= 0 && c->cuts && c->calls == 1)
        r = db_run(db, "SELECT pg_terminate_backend(pg_backend_pid())", DB_NO_VALUES, NULL, NULL, err);
    /* Preparing the next one fails if the cut comes late. */
    while (r >= 0 && c->cuts && c->calls == 1)
        r = db_run(db, "SELECT 1", DB_NO_VALUES, NULL, NULL, err);
    return r == -ECONNABORTED ? -ECONNRESET : r;
}

static int64_t count_rows(struct fixture *x)
{
    autoptr(db) db = open_raw(x);
    int64_t count = -1;

    must(db_run_int(db, "SELECT count(*) FROM meta", DB_NO_VALUES, &count, err));
    return count;
}

static void what_may_have_been_done_is_not_repeated(void **state)
{
    struct fixture *x = *state;
    struct cutting c = { .cuts = true };
    struct err problem = ERR_NONE;

    assert_int_equal(txn_write(x->store, STORE_CALL_META_SET, TXN_ONE_STATEMENT, write_and_cut, &c, &problem), -EINPROGRESS);
    assert_int_equal(problem.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(problem.text, "look before trying again"));
    assert_int_equal(c.calls, 1);
    assert_int_equal(count_rows(x), 1); /* and here it was */
}

static void what_may_be_done_twice_is_repeated(void **state)
{
    struct fixture *x = *state;
    struct cutting c = { .cuts = true };

    must(txn_write(x->store, STORE_CALL_META_SET, TXN_ONE_STATEMENT | TXN_REPEATABLE, write_and_cut, &c, err));
    assert_int_equal(c.calls, 2);
}

static void a_transaction_that_did_not_come_to_its_commit_is_repeated(void **state)
{
    struct fixture *x = *state;
    struct cutting c = { .cuts = true };

    must(txn_write(x->store, STORE_CALL_META_SET, 0, write_and_cut, &c, err));
    assert_int_equal(c.calls, 2);
    assert_int_equal(count_rows(x), 1); /* the first was taken back */
}

static void a_commit_without_an_answer_is_not_repeated(void **state)
{
    struct fixture *x = *state;
    struct cutting c = { .cuts = false };
    struct err problem = ERR_NONE;

    run_sql(x, "CREATE FUNCTION agentfense.cut() RETURNS trigger LANGUAGE plpgsql AS"
               " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); RETURN NULL; END';"
               "CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON agentfense.meta DEFERRABLE INITIALLY DEFERRED"
               " FOR EACH ROW EXECUTE FUNCTION agentfense.cut()");
    assert_int_equal(txn_write(x->store, STORE_CALL_META_SET, 0, write_and_cut, &c, &problem), -EINPROGRESS);
    assert_int_equal(problem.code, ERR_UNAVAILABLE);
    assert_int_equal(c.calls, 1);
}

/* ---- in the middle of everything ---- */

#define WRITERS 4

struct load {
    struct store *store;
    _Atomic bool is_over;
    _Atomic int other;
    _Atomic int done;
    pthread_mutex_t lock;
    struct buf told; /* guarded by it */
};

static void *write_rows(void *arg)
{
    struct load *load = arg;

    for (int64_t i = 0; !load->is_over; i++) {
        autodone(codebase_row) struct codebase_row row = some_codebase("ann", i);
        struct err problem = ERR_NONE;
        int r = codebase_row_insert(load->store, &row, &problem);
        if (r == 0) {
            pthread_mutex_lock(&load->lock);
            buf_add(&load->told, row.id, strlen(row.id) + 1);
            pthread_mutex_unlock(&load->lock);
            load->done++;
        } else if (problem.code != ERR_UNAVAILABLE) {
            fprintf(stderr, "%d: %s\n", r, problem.text);
            load->other++;
        }
    }
    return NULL;
}

static void wait_for_more(struct load *load, int more)
{
    int until = load->done + more;

    while (load->done < until && load->other == 0)
        usleep(1000);
}

static void what_was_acknowledged_outlives_the_server(void **state)
{
    struct fixture *x = *state;
    struct load load = { .store = x->store, .lock = PTHREAD_MUTEX_INITIALIZER, .told = BUF_EMPTY };
    pthread_t threads[WRITERS];

    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_rows, &load), 0);
    for (int i = 0; i < 4; i++) {
        wait_for_more(&load, 100);
        kill_server(i % 2 ? SIGINT : SIGQUIT);
    }
    wait_for_more(&load, 100);
    load.is_over = true;
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(load.other, 0);
    for (size_t at = 0; at < load.told.len; at += strlen(load.told.data + at) + 1) {
        autodone(codebase_row) struct codebase_row got = { 0 };
        must(codebase_row_get(x->store, load.told.data + at, &got, err));
    }
    buf_done(&load.told);
}

#define server_test(f) cmocka_unit_test_setup_teardown(f, fixture_setup, teardown)

static int teardown(void **state)
{
    return let_up(state) | fixture_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        server_test(a_restart_between_calls_is_not_noticed),
        server_test(connections_that_were_cut_are_not_used),
        server_test(one_that_is_away_is_unavailable),
        server_test(a_row_that_is_held_too_long_is_told),
        server_test(of_two_that_wait_for_each_other_one_begins_again),
        server_test(what_may_have_been_done_is_not_repeated),
        server_test(what_may_be_done_twice_is_repeated),
        server_test(a_transaction_that_did_not_come_to_its_commit_is_repeated),
        server_test(a_commit_without_an_answer_is_not_repeated),
        server_test(what_was_acknowledged_outlives_the_server),
    };

    if (!on_postgres()) {
        printf("skipped: this is about a PostgreSQL server, which with_postgres.py starts\n");
        return TEST_SKIPPED;
    }
    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
