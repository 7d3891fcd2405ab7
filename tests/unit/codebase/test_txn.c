#include "../leftover.h"
#include "codebase_fixture.h"

#define T0 1000000000LL

static void sync_put(struct world *w, const char *path, const char *text, int64_t when, struct codebase_seen was,
                     struct codebase_commit *ret)
{
    struct codebase_txn *txn = begin(w);
    struct codebase_change change = { path, when, was };

    delta_put(w, "source", text);
    assert_ok(codebase_txn_put(txn, &change, w->delta, "source", e_));
    commit(txn, ret);
}

static void sync_remove(struct world *w, const char *path, int64_t when, struct codebase_seen was, struct codebase_commit *ret)
{
    struct codebase_txn *txn = begin(w);
    struct codebase_change change = { path, when, was };

    assert_ok(codebase_txn_remove(txn, &change, e_));
    commit(txn, ret);
}

static void a_synced_file_moves_from_the_delta_into_the_codebase(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;

    sync_put(w, "new/dir/file", "text", T0, CODEBASE_WAS_ABSENT, &done);
    assert_file(w, "new/dir/file", "text");
    assert_false(delta_has(w, "source"));
    assert_int_equal(done.version, 1);
    assert_int_equal(done.conflict_count, 0);
    assert_int_equal(done.change_count, 3);
    assert_string_equal(done.changes[2].path, "new/dir/file");
    assert_false(done.changes[2].is_tree);
    assert_counts(w);
}

static void a_transaction_given_up_leaves_the_delta_and_no_trace(void **state)
{
    struct world *w = *state;
    struct codebase_txn *txn = begin(w);
    struct codebase_change change = { "file", T0, CODEBASE_WAS_ABSENT };

    delta_put(w, "source", "text");
    assert_ok(codebase_txn_put(txn, &change, w->delta, "source", e_));
    codebase_txn_free(txn);
    assert_true(delta_has(w, "source"));
    assert_absent(w, "file");
    assert_int_equal(names_in(w, "stage"), 0);
    assert_int_equal(version_now(w), 0);
}

static void a_newer_change_wins_and_what_it_replaced_can_be_had_back(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct codebase_seen was;

    sync_put(w, "f", "first", T0, CODEBASE_WAS_ABSENT, NULL);
    was = seen(w, "f");
    sync_put(w, "f", "theirs", T0 + 10, was, NULL);
    sync_put(w, "f", "ours", T0 + 20, was, &done);
    assert_file(w, "f", "ours");
    assert_int_equal(done.conflict_count, 1);
    assert_false(done.conflicts[0].has_lost);
    assert_int_equal(done.conflicts[0].other_ns, T0 + 10);
    assert_ok(codebase_recover_loser(w->cb, done.version, "f", "tester", NULL, e_));
    assert_file(w, "f", "theirs");
}

static void an_older_change_loses_and_can_be_had_back(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct codebase_seen was;

    sync_put(w, "f", "first", T0, CODEBASE_WAS_ABSENT, NULL);
    was = seen(w, "f");
    sync_put(w, "f", "theirs", T0 + 20, was, NULL);
    sync_put(w, "f", "ours", T0 + 10, was, &done);
    assert_file(w, "f", "theirs");
    assert_int_equal(done.conflict_count, 1);
    assert_true(done.conflicts[0].has_lost);
    assert_int_equal(done.change_count, 0);
    assert_false(delta_has(w, "source"));
    assert_counts(w);
    assert_ok(codebase_recover_loser(w->cb, done.version, "/f", "tester", NULL, e_));
    assert_file(w, "f", "ours");
}

static void an_upload_after_the_change_wins_over_its_late_sync(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct codebase_seen was;
    int64_t when;

    put(w, "f", "first");
    was = seen(w, "f");
    when = clock_wall_ns();
    put(w, "f", "uploaded");
    sync_put(w, "f", "stale", when, was, &done);
    assert_file(w, "f", "uploaded");
    assert_true(done.conflicts[0].has_lost);
}

static void a_change_of_what_nobody_else_touched_is_no_conflict(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;

    put(w, "f", "first");
    /* Its clock is far behind, but what it saw is what is there. */
    sync_put(w, "f", "second", T0, seen(w, "f"), &done);
    assert_file(w, "f", "second");
    assert_int_equal(done.conflict_count, 0);
}

/* Neither the length nor the time of a file, which an agent chooses, makes it the one that was seen. */
static void another_file_of_the_same_size_and_time_is_not_what_was_seen(void **state)
{
    struct timespec same[2] = { { .tv_sec = 77 }, { .tv_sec = 77 } };
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct codebase_seen was = CODEBASE_WAS_ABSENT;

    for (int i = 0; i < 2; i++) {
        struct codebase_txn *txn = begin(w);
        struct codebase_change change = { "f", T0 + 20 * i, i ? seen(w, "f") : was };

        if (i)
            was = change.seen;
        delta_put(w, "source", i ? "bbb" : "aaa");
        assert_int_equal(utimensat(w->delta, "source", same, 0), 0);
        assert_ok(codebase_txn_put(txn, &change, w->delta, "source", e_));
        commit(txn, NULL);
    }
    sync_put(w, "f", "ccc", T0 + 10, was, &done);
    assert_file(w, "f", "bbb");
    assert_int_equal(done.conflict_count, 1);
}

static void a_stale_removal_spares_what_was_made_since(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct codebase_seen was;

    sync_put(w, "f", "first", T0, CODEBASE_WAS_ABSENT, NULL);
    was = seen(w, "f");
    sync_put(w, "f", "again", T0 + 20, was, NULL);
    sync_remove(w, "f", T0 + 10, was, &done);
    assert_file(w, "f", "again");
    assert_true(done.conflicts[0].has_lost);
    sync_remove(w, "f", T0 + 10, CODEBASE_UNSEEN, NULL);
    assert_file(w, "f", "again");
    sync_remove(w, "f", T0 + 30, was, NULL);
    assert_absent(w, "f");
    assert_counts(w);
}

static void the_same_content_is_no_conflict_and_no_version(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;

    put(w, "f", "same");
    sync_put(w, "f", "same", T0, CODEBASE_WAS_ABSENT, &done);
    assert_int_equal(done.version, 1);
    assert_int_equal(done.conflict_count, 0);
    assert_false(delta_has(w, "source"));
}

static void removing_a_directory_spares_what_the_changer_did_not_list(void **state)
{
    struct world *w = *state;
    struct codebase_txn *txn;
    const char *listed[] = { "d/seen", "d/sub/seen", "d/sub", "d" };

    put(w, "d/seen", "1");
    put(w, "d/sub/seen", "2");
    put(w, "d/hidden", "3");
    txn = begin(w);
    for (size_t i = 0; i < ARRAY_LEN(listed); i++) {
        struct codebase_change change = { listed[i], clock_wall_ns(), CODEBASE_UNSEEN };
        assert_ok(codebase_txn_remove(txn, &change, e_));
    }
    commit(txn, NULL);
    assert_file(w, "d/hidden", "3");
    assert_absent(w, "d/seen");
    assert_absent(w, "d/sub/seen");
    assert_counts(w);
}

static void a_file_does_not_replace_a_directory_that_holds_something(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;

    put(w, "d/hidden", "1");
    sync_put(w, "d", "file", clock_wall_ns(), CODEBASE_UNSEEN, &done);
    assert_file(w, "d/hidden", "1");
    assert_true(done.conflict_count == 1 && done.conflicts[0].has_lost);
}

static void a_newer_change_makes_its_way_through_an_older_file(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;

    sync_put(w, "d", "a file", T0, CODEBASE_WAS_ABSENT, NULL);
    sync_put(w, "d/x", "old", T0 - 10, CODEBASE_WAS_ABSENT, NULL);
    assert_file(w, "d", "a file");
    sync_put(w, "d/x", "new", T0 + 10, CODEBASE_WAS_ABSENT, &done);
    assert_file(w, "d/x", "new");
    assert_int_equal(done.conflict_count, 1);
    assert_string_equal(done.conflicts[0].path, "d");
    assert_counts(w);
}

static void privileges_do_not_survive(void **state)
{
    struct world *w = *state;
    struct codebase_txn *txn = begin(w);
    struct codebase_change change = { "tool", T0, CODEBASE_WAS_ABSENT };

    assert_int_equal(file_put(w->delta, "source", "x", 1, 06755), 0);
    assert_ok(codebase_txn_put(txn, &change, w->delta, "source", e_));
    commit(txn, NULL);
    assert_int_equal(mode_of(w, "tool") & 07777, 0755);
}

static void a_symlink_is_kept_as_one_and_never_followed(void **state)
{
    struct world *w = *state;
    struct codebase_txn *txn = begin(w);
    struct codebase_change link = { "link", T0, CODEBASE_WAS_ABSENT }, made = { "made", T0, CODEBASE_WAS_ABSENT };
    struct err err = ERR_NONE;
    struct stat st;
    char target[64] = "";
    int fd;

    assert_int_equal(symlinkat("/etc/passwd", w->delta, "source"), 0);
    assert_ok(codebase_txn_put(txn, &link, w->delta, "source", e_));
    assert_ok(codebase_txn_symlink(txn, &made, "/etc", e_));
    commit(txn, NULL);
    assert_false(delta_has(w, "source"));
    assert_int_equal(readlinkat(codebase_files_fd(w->cb), "link", target, sizeof(target)), 11);
    assert_int_equal(codebase_get_open(w->cb, "link", &fd, &st, &err), -ELOOP);
    assert_int_equal(codebase_get_open(w->cb, "made/passwd", &fd, &st, &err), -ELOOP);
    assert_int_equal(try_put(w, "made/new", "x", 0644, NULL, &err), -ELOOP);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    /* The link itself can be replaced. */
    put(w, "link", "text");
    assert_file(w, "link", "text");
}

static void hard_links_of_a_delta_become_files_of_their_own(void **state)
{
    struct world *w = *state;
    struct codebase_txn *txn = begin(w);
    struct codebase_change one = { "one", T0, CODEBASE_WAS_ABSENT };

    delta_put(w, "source", "text");
    assert_int_equal(linkat(w->delta, "source", w->delta, "other", 0), 0);
    assert_ok(codebase_txn_put(txn, &one, w->delta, "source", e_));
    commit(txn, NULL);
    assert_true(delta_has(w, "other"));
    autofd int fd = path_open_beneath(w->delta, "other", O_WRONLY | O_TRUNC, 0);
    assert_true(fd >= 0);
    assert_file(w, "one", "text");
}

static void a_delta_on_another_file_system_is_copied(void **state)
{
    struct world *w = *state;
    char other[] = "/tmp/codebase-test-XXXXXX";
    struct codebase_change change = { "f", T0, CODEBASE_WAS_ABSENT };
    struct codebase_txn *txn = begin(w);
    struct stat st;

    assert_non_null(mkdtemp(other));
    leftover_add(other);
    autofd int fd = open(other, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_put(fd, "source", "text", 4, 0755), 0);
    assert_ok(codebase_txn_put(txn, &change, fd, "source", e_));
    commit(txn, NULL);
    assert_file(w, "f", "text");
    assert_int_equal(mode_of(w, "f") & 0777, 0755);
    assert_int_equal(fstatat(fd, "source", &st, 0), -1);
    assert_int_equal(rmdir(other), 0);
}

static void pipes_and_reserved_names_are_refused(void **state)
{
    struct world *w = *state;
    struct codebase_txn *txn = begin(w);
    struct codebase_change pipe = { "pipe", T0, CODEBASE_UNSEEN }, marker = { "d/.wh.x", T0, CODEBASE_UNSEEN };
    struct err err = ERR_NONE;

    assert_int_equal(mkfifoat(w->delta, "source", 0644), 0);
    assert_int_equal(codebase_txn_put(txn, &pipe, w->delta, "source", &err), -EINVAL);
    assert_int_equal(codebase_txn_remove(txn, &marker, &err), -EINVAL);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    codebase_txn_free(txn);
}

/* After more changes than are kept, nobody knows when the path was changed: what is there stays, the other is kept. */
static void when_history_is_trimmed_what_is_there_stays(void **state)
{
    struct world *w = *state;
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    struct codebase_seen was;

    w->options.keep_versions = 2;
    world_reopen(w);
    sync_put(w, "f", "first", T0, CODEBASE_WAS_ABSENT, NULL);
    was = seen(w, "f");
    sync_put(w, "f", "theirs", T0 + 20, was, NULL);
    for (int i = 0; i < 4; i++)
        sync_put(w, "g", i % 2 ? "x" : "y", T0 + 30 + i, seen(w, "g"), NULL);
    sync_put(w, "f", "ours", T0 + 10, was, &done);
    assert_file(w, "f", "theirs");
    assert_true(done.conflicts[0].has_lost);
    sync_put(w, "f", "latest", T0 + 100, was, NULL);
    assert_file(w, "f", "latest");
}

/* ---- exactly what was seen ---- */

static int try_exactly(struct world *w, const char *path, const char *text, struct codebase_seen was, struct err *err)
{
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    autoptr(codebase_txn) txn = NULL;
    const struct codebase_change other = { "other", T0, CODEBASE_WAS_ABSENT }, change = { path, T0, was };

    assert_ok(codebase_txn_begin_exact(w->cb, "tester", "approve", &txn, e_));
    delta_put(w, "source", "other");
    assert_ok(codebase_txn_put(txn, &other, w->delta, "source", e_));
    if (text)
        delta_put(w, "second", text);
    if (text)
        assert_ok(codebase_txn_put(txn, &change, w->delta, "second", e_));
    else
        assert_ok(codebase_txn_remove(txn, &change, e_));
    return codebase_txn_commit(txn, &done, err);
}

static void assert_refused(struct world *w, const char *path, const char *text, struct codebase_seen was)
{
    uint64_t before = version_now(w);
    struct err err = ERR_NONE;

    assert_int_equal(try_exactly(w, path, text, was, &err), -ESTALE);
    assert_int_equal(err.code, ERR_ABORTED);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(version_now(w), before);
    assert_absent(w, "other");
    assert_int_equal(names_in(w, "stage"), 0);
}

static void who_decided_about_what_they_saw_is_refused_when_it_is_something_else(void **state)
{
    struct world *w = *state;
    struct codebase_seen was;

    put(w, "file", "one");
    put(w, "dir/in", "in");
    was = seen(w, "file");
    put(w, "file", "two");
    assert_refused(w, "file", "mine", was);
    assert_refused(w, "file", "mine", CODEBASE_WAS_ABSENT);
    assert_refused(w, "file", NULL, was);
    assert_refused(w, "dir", "a file now", CODEBASE_WAS_ABSENT);
    assert_file(w, "file", "two");
    assert_ok(try_exactly(w, "file", "mine", seen(w, "file"), e_));
    assert_file(w, "file", "mine");
    assert_file(w, "other", "other");
    assert_counts(w);
}

static void a_directory_that_is_not_empty_stays_and_refuses_nothing(void **state)
{
    struct world *w = *state;

    put(w, "dir/in", "in");
    assert_ok(try_exactly(w, "dir", NULL, seen(w, "dir"), e_));
    assert_file(w, "dir/in", "in");
    assert_file(w, "other", "other");
    assert_counts(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(a_synced_file_moves_from_the_delta_into_the_codebase),
        world_test(a_transaction_given_up_leaves_the_delta_and_no_trace),
        world_test(a_newer_change_wins_and_what_it_replaced_can_be_had_back),
        world_test(an_older_change_loses_and_can_be_had_back),
        world_test(an_upload_after_the_change_wins_over_its_late_sync),
        world_test(a_change_of_what_nobody_else_touched_is_no_conflict),
        world_test(another_file_of_the_same_size_and_time_is_not_what_was_seen),
        world_test(a_stale_removal_spares_what_was_made_since),
        world_test(the_same_content_is_no_conflict_and_no_version),
        world_test(removing_a_directory_spares_what_the_changer_did_not_list),
        world_test(a_file_does_not_replace_a_directory_that_holds_something),
        world_test(a_newer_change_makes_its_way_through_an_older_file),
        world_test(privileges_do_not_survive),
        world_test(a_symlink_is_kept_as_one_and_never_followed),
        world_test(hard_links_of_a_delta_become_files_of_their_own),
        world_test(a_delta_on_another_file_system_is_copied),
        world_test(pipes_and_reserved_names_are_refused),
        world_test(when_history_is_trimmed_what_is_there_stays),
        world_test(who_decided_about_what_they_saw_is_refused_when_it_is_something_else),
        world_test(a_directory_that_is_not_empty_stays_and_refuses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
