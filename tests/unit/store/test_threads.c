/* Many threads on one store, as in the server. Run under ThreadSanitizer too. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/id.h"
#include "store/db.h"
#include "store/event_row.h"
#include "store/idempotency_row.h"
#include "store/meta.h"
#include "store/txn.h"

#define THREADS 8

struct crew {
    struct fixture *x;
    pthread_barrier_t start;
    const char *id;
    bool is_early; /* its sandboxes are there before */
    _Atomic int won;
    _Atomic int refused;
    _Atomic int other; /* what must not happen */
    _Atomic int finished;
};

static void work(struct crew *crew, void *(*fn)(void *) )
{
    pthread_t threads[THREADS];

    pthread_barrier_init(&crew->start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fn, crew), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crew->start);
}

static void judge(struct crew *crew, int r, const struct err *err, enum err_code refusal)
{
    if (r == 0) {
        crew->won++;
    } else if (err->code == refusal) {
        crew->refused++;
    } else {
        crew->other++;
        fprintf(stderr, "%d: %s\n", r, err->text);
    }
}

/* ---- one wins ---- */

static void *insert_within_quota(void *arg)
{
    struct crew *crew = arg;

    pthread_barrier_wait(&crew->start);
    for (int i = 0; i < 3; i++) {
        autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", "", 1);
        struct sandbox_admission room = { .max_per_owner = 5 };
        struct err problem = ERR_NONE;
        judge(crew, sandbox_row_insert(crew->x->store, &row, &room, &problem), &problem, ERR_RESOURCE_EXHAUSTED);
    }
    return NULL;
}

static void a_quota_holds_when_all_come_at_once(void **state)
{
    struct crew crew = { .x = *state };
    int64_t count = 0;

    work(&crew, insert_within_quota);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, 5);
    must(sandbox_row_count(crew.x->store, &(struct sandbox_filter){ .owner_id = "ann" }, &count, err));
    assert_int_equal(count, 5);
}

static void *start_it(void *arg)
{
    struct crew *crew = arg;
    struct sandbox_move m = { .id = crew->id,
                              .from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_PENDING),
                              .to = SANDBOX_STATUS_STARTING };
    struct err problem = ERR_NONE;

    pthread_barrier_wait(&crew->start);
    judge(crew, sandbox_row_move(crew->x->store, &m, NULL, &problem), &problem, ERR_FAILED_PRECONDITION);
    return NULL;
}

static void one_of_many_starts_a_sandbox(void **state)
{
    struct crew crew = { .x = *state };
    autodone(codebase_row) struct codebase_row base = some_codebase("ann", 1);
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", base.id, 1);

    must(codebase_row_insert(crew.x->store, &base, err));
    must(sandbox_row_insert(crew.x->store, &row, NULL, err));
    crew.id = row.id;
    work(&crew, start_it);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, 1);
    assert_int_equal(crew.refused, THREADS - 1);
}

static void *claim_it(void *arg)
{
    struct crew *crew = arg;
    char owner[] = "ann", key[] = "k", method[] = "m";
    struct idempotency_row row = { .owner_id = owner, .idempotency_key = key, .method = method, .expires_ns = 100 };
    autodone(idempotency_row) struct idempotency_row got = { 0 };
    enum idempotency_outcome outcome;
    struct err problem = ERR_NONE;
    int r;

    pthread_barrier_wait(&crew->start);
    r = idempotency_row_take(crew->x->store, &row, 1, &outcome, &got, &problem);
    if (r == 0 && outcome == IDEMPOTENCY_FINISHED) {
        crew->finished++;
        return NULL;
    }
    judge(crew, r, &problem, ERR_ABORTED);
    if (r == 0)
        crew->other += idempotency_row_finish(crew->x->store, owner, key, "done", 4, 100, &problem) < 0;
    return NULL;
}

static void one_of_many_does_a_request(void **state)
{
    struct crew crew = { .x = *state };

    work(&crew, claim_it);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, 1);
    assert_int_equal(crew.refused + crew.finished, THREADS - 1);
}

static void *keep_it(void *arg)
{
    struct crew *crew = arg;
    autofree char *value = NULL;
    char mine[ID_TEXT_MAX];
    struct err problem = ERR_NONE;

    id_new("host_", mine);
    pthread_barrier_wait(&crew->start);
    if (meta_keep(crew->x->store, "host_id", mine, &value, &problem) < 0)
        crew->other++;
    else if (strcmp(value, mine) == 0)
        crew->won++;
    return NULL;
}

static void one_of_many_names_the_host(void **state)
{
    struct crew crew = { .x = *state };

    work(&crew, keep_it);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, 1);
}

/* ---- a codebase that goes while a sandbox starts ---- */

static void *start_or_delete(void *arg)
{
    struct crew *crew = arg;
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", crew->id, 1);
    struct sandbox_move m = { .id = row.id, .from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_PENDING), .to = SANDBOX_STATUS_STARTING };
    struct err problem = ERR_NONE;
    int r = crew->is_early ? sandbox_row_insert(crew->x->store, &row, NULL, &problem) : 0;
    bool deletes = pthread_barrier_wait(&crew->start) == PTHREAD_BARRIER_SERIAL_THREAD;

    if (deletes) {
        r = codebase_row_delete(crew->x->store, crew->id, false, &problem);
        crew->finished = r == 0 ? 1 : 2;
        crew->other += r < 0 && problem.code != ERR_FAILED_PRECONDITION;
        return NULL;
    }
    if (r == 0 && !crew->is_early)
        r = sandbox_row_insert(crew->x->store, &row, NULL, &problem);
    if (r == 0)
        r = sandbox_row_move(crew->x->store, &m, NULL, &problem);
    judge(crew, r, &problem, ERR_NOT_FOUND);
    return NULL;
}

static void a_codebase_goes_or_a_sandbox_starts_on_it_but_not_both(void **state)
{
    struct fixture *x = *state;

    for (int i = 0; i < 30; i++) {
        struct crew crew = { .x = x, .is_early = i % 2 };
        autodone(codebase_row) struct codebase_row base = some_codebase("ann", 1);
        must(codebase_row_insert(x->store, &base, err));
        crew.id = base.id;
        work(&crew, start_or_delete);
        assert_int_equal(crew.other, 0);
        if (crew.finished == 1)
            assert_int_equal(crew.won, 0);
        else
            assert_true(crew.won > 0);
    }
}

/* ---- the order of events ---- */

#define BATCHES 20

static void *append_batches(void *arg)
{
    struct crew *crew = arg;
    char type[] = "t";
    struct event_row rows[3] = { { .type = type }, { .type = type }, { .type = type } };

    pthread_barrier_wait(&crew->start);
    for (int i = 0; i < BATCHES; i++) {
        struct err problem = ERR_NONE;
        crew->other += event_row_append(crew->x->store, rows, 3, NULL, &problem) < 0;
    }
    crew->finished++;
    return NULL;
}

/* Going on from the last sequence that was seen must find every event. */
static void *follow(void *arg)
{
    struct crew *crew = arg;
    int64_t after = 0;
    bool over = false;

    while (!over) {
        autodone(event_rows) struct event_rows list = { 0 };
        struct err problem = ERR_NONE;
        over = crew->finished == THREADS;
        if (event_row_query(crew->x->store, &(struct event_filter){ .after = after }, 50, &list, &problem) < 0)
            crew->other++;
        over = over && list.count == 0;
        crew->won += (int) list.count;
        if (list.count)
            after = list.rows[list.count - 1].sequence;
    }
    return NULL;
}

static void whoever_follows_events_misses_none(void **state)
{
    struct crew crew = { .x = *state };
    pthread_t reader;

    assert_int_equal(pthread_create(&reader, NULL, follow, &crew), 0);
    work(&crew, append_batches);
    pthread_join(reader, NULL);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, THREADS * BATCHES * 3);
}

/* ---- several stores ---- */

static void *open_and_write(void *arg)
{
    struct crew *crew = arg;
    autoptr(store) store = NULL;
    struct err problem = ERR_NONE;

    pthread_barrier_wait(&crew->start);
    judge(crew, store_open(crew->x->url, &patient, &store, &problem), &problem, ERR_OK);
    for (int i = 0; store && i < 10; i++) {
        autodone(codebase_row) struct codebase_row row = some_codebase("ann", i);
        judge(crew, codebase_row_insert(store, &row, &problem), &problem, ERR_OK);
    }
    return NULL;
}

static void several_servers_start_at_once_on_nothing(void **state)
{
    struct crew crew = { .x = *state };
    autodone(codebase_rows) struct codebase_rows list = { 0 };

    store_close(steal_ptr(&crew.x->store));
    forget_all(crew.x);
    work(&crew, open_and_write);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, THREADS * 11);
    reopen(crew.x);
    must(codebase_row_list(crew.x->store, NULL, NULL, NULL, &list, err));
    assert_int_equal(list.count, THREADS * 10);
}

/* ---- a job that fails among others ---- */

struct naming {
    char name[ID_TEXT_MAX];
    bool fails;
};

static int write_name(struct db *db, void *cookie, struct err *err)
{
    const struct naming *n = cookie;
    int r = db_run(db, "INSERT INTO meta (name, value) VALUES ($1, $2)",
                   DB_VALUES(db_text(n->name), db_text(n->fails ? "no" : "yes")), NULL, NULL, err);

    if (r >= 0 && n->fails)
        return err_set(err, ERR_CANCELLED, -ECANCELED, "on second thoughts");
    return r;
}

static void *write_names(void *arg)
{
    struct crew *crew = arg;

    pthread_barrier_wait(&crew->start);
    for (int i = 0; i < 20; i++) {
        struct naming n = { .fails = i % 2 };
        struct err problem = ERR_NONE;
        int r;
        id_new("n_", n.name);
        r = txn_write(crew->x->store, STORE_CALL_META_SET, 0, write_name, &n, &problem);
        judge(crew, r > 0 ? 0 : r, &problem, ERR_CANCELLED);
    }
    return NULL;
}

static void one_that_fails_takes_only_itself_back(void **state)
{
    struct crew crew = { .x = *state };
    int64_t yes = 0, no = 0;

    work(&crew, write_names);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, THREADS * 10);
    assert_int_equal(crew.refused, THREADS * 10);
    autoptr(db) db = open_raw(crew.x);
    must(db_run_int(db, "SELECT count(*) FROM meta WHERE value = $1", DB_VALUES(db_text("yes")), &yes, err));
    must(db_run_int(db, "SELECT count(*) FROM meta WHERE value = $1", DB_VALUES(db_text("no")), &no, err));
    assert_int_equal(yes, THREADS * 10);
    assert_int_equal(no, 0);
}

/* ---- all kinds of things ---- */

static int live_once(struct store *store, const char *codebase_id, struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = some_sandbox("ann", codebase_id, 1), got = { 0 };
    autodone(sandbox_rows) struct sandbox_rows list = { 0 };
    char type[] = "sandbox_created";
    struct event_row event = { .type = type, .sandbox_id = row.id };
    struct sandbox_move m = { .id = row.id, .from = SANDBOX_STATUS_BIT(SANDBOX_STATUS_PENDING), .to = SANDBOX_STATUS_STARTING };
    int r = sandbox_row_insert(store, &row, NULL, err);

    if (r == 0)
        r = event_row_append(store, &event, 1, NULL, err);
    if (r == 0)
        r = sandbox_row_move(store, &m, NULL, err);
    if (r == 0)
        r = sandbox_row_get(store, row.id, &got, err);
    if (r == 0 && (got.status != SANDBOX_STATUS_STARTING || got.row_version != 2))
        r = err_set(err, ERR_INTERNAL, -EPROTO, "one's own write was not seen");
    if (r == 0)
        r = sandbox_row_list(store, &(struct sandbox_filter){ .owner_id = "ann" }, &(struct store_page){ .limit = 5 }, &list,
                             err);
    if (r == 0)
        r = sandbox_row_insert(store, &row, NULL, err) == -EEXIST ? 0
                                                                  : -EPROTO; /* one that fails, in the same commit as others */
    return r == 0 ? sandbox_row_delete(store, row.id, err) : r;
}

static void *live(void *arg)
{
    struct crew *crew = arg;

    pthread_barrier_wait(&crew->start);
    for (int i = 0; i < 12; i++) {
        struct err problem = ERR_NONE;
        judge(crew, live_once(crew->x->store, crew->id, &problem), &problem, ERR_OK);
    }
    return NULL;
}

static void all_kinds_of_calls_at_once(void **state)
{
    struct crew crew = { .x = *state };
    autodone(codebase_row) struct codebase_row base = some_codebase("ann", 1);
    struct store_stats stats;
    int64_t count = -1;

    must(codebase_row_insert(crew.x->store, &base, err));
    crew.id = base.id;
    work(&crew, live);
    assert_int_equal(crew.other, 0);
    assert_int_equal(crew.won, THREADS * 12);
    must(sandbox_row_count(crew.x->store, NULL, &count, err));
    assert_int_equal(count, 0);
    store_stats(crew.x->store, &stats);
    assert_int_equal(stats.calls[STORE_CALL_SANDBOX_MOVE].count, THREADS * 12);
    assert_true(stats.connects <= 8 + 1);
    if (!on_postgres())
        assert_true(stats.commits < stats.writes); /* some shared one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(a_quota_holds_when_all_come_at_once),
        store_test(one_of_many_starts_a_sandbox),
        store_test(one_of_many_does_a_request),
        store_test(one_of_many_names_the_host),
        store_test(a_codebase_goes_or_a_sandbox_starts_on_it_but_not_both),
        store_test(whoever_follows_events_misses_none),
        store_test(several_servers_start_at_once_on_nothing),
        store_test(one_that_fails_takes_only_itself_back),
        store_test(all_kinds_of_calls_at_once),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
