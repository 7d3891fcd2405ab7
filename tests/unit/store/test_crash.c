/* A process that writes with several threads is killed at a random moment, again and again: what it had been told is stored is
 * there afterwards, and the database is whole. */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "store/db.h"
#include "store/event_row.h"

#define ROUNDS 50
#define ROUNDS_SHARE 15
#define WRITERS 4
#define ID_LEN (sizeof("cb_") - 1 + 16)

struct writer {
    struct store *store;
    int told_fd;
};

/* Tells of each row after the call returned, in one write, which a pipe keeps whole. */
static void *write_rows(void *arg)
{
    const struct writer *w = arg;

    for (int64_t i = 0;; i++) {
        struct codebase_row row = some_codebase("ann", i);
        char type[] = "codebase_created";
        struct event_row event = { .type = type, .codebase_id = row.id };
        if (codebase_row_insert(w->store, &row, NULL) < 0 || event_row_append(w->store, &event, 1, NULL, NULL) < 0 ||
            write(w->told_fd, row.id, ID_LEN) != (ssize_t) ID_LEN)
            _exit(1);
        codebase_row_done(&row);
    }
    return NULL;
}

static void write_until_killed(const char *url, int told_fd)
{
    struct writer w = { .told_fd = told_fd };
    pthread_t threads[WRITERS];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (store_open(url, &patient, &w.store, NULL) < 0)
        _exit(2);
    for (int i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, write_rows, &w);
    pause();
    _exit(3);
}

static unsigned random_below(unsigned n)
{
    unsigned value;

    assert_int_equal(id_random(&value, sizeof(value)), 0);
    return value % n;
}

/* All ids that it told before it died. */
static void run_and_kill(const char *url, struct buf *told)
{
    int ends[2], status;
    unsigned wanted = random_below(40);
    char id[ID_LEN];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        write_until_killed(url, ends[1]);
    }
    close(ends[1]);
    for (unsigned i = 0; i < wanted && fd_read_full(ends[0], id, ID_LEN) == (ssize_t) ID_LEN; i++)
        buf_add(told, id, ID_LEN);
    usleep(random_below(3000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (fd_read_full(ends[0], id, ID_LEN) == (ssize_t) ID_LEN)
        buf_add(told, id, ID_LEN);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status)); /* it did not fail on its own */
}

static void assert_all_there(struct store *store, const struct buf *told)
{
    for (size_t at = 0; at < told->len; at += ID_LEN) {
        autodone(codebase_row) struct codebase_row got = { 0 };
        char id[ID_LEN + 1] = { 0 };
        memcpy(id, told->data + at, ID_LEN);
        must(codebase_row_get(store, id, &got, err));
    }
}

static void what_was_acknowledged_is_there_after_a_kill(void **state)
{
    struct fixture *x = *state;
    autodone(buf) struct buf told = BUF_EMPTY;
    unsigned rounds = full_or_share(ROUNDS, ROUNDS_SHARE);
    int64_t rows = 0, events = 0;

    for (unsigned i = 0; i < rounds; i++) {
        store_close(steal_ptr(&x->store)); /* SQLite must not be open across a fork */
        run_and_kill(x->url, &told);
        must(store_open(x->url, &patient, &x->store, err)); /* looks at every page */
        assert_all_there(x->store, &told);
    }
    assert_true(told.len / ID_LEN > rounds / 5);
    autoptr(db) db = open_raw(x);
    must(db_run_int(db, "SELECT count(*) FROM codebases", DB_NO_VALUES, &rows, err));
    must(db_run_int(db, "SELECT count(*) FROM events", DB_NO_VALUES, &events, err));
    assert_true(rows >= (int64_t) (told.len / ID_LEN));
    assert_in_range(rows - events, 0, rounds * WRITERS);
    if (!on_postgres())
        run_sql(x, "PRAGMA integrity_check; PRAGMA foreign_key_check");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        store_test(what_was_acknowledged_is_there_after_a_kill),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
