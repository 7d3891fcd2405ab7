/* A process killed at every step of every kind of change: what is there afterwards is the old or the new, and the delta goes with it. */
#include "codebase_fixture.h"

#include "base/coverage.h"

/* Runs the body in a child that dies at the point. True if it did. */
static bool dies(struct world *w, const char *point, int (*body)(struct world *w))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("AGENTFENSE_FAULT", point, 1);
        coverage_exit(body(w) < 0 ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return true;
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* One of everything: a file replaced, one that is new in a new directory, one removed, a symlink; and an old version to be
 * trimmed. */
static void prepare(struct world *w)
{
    put(w, "replaced", "old");
    put(w, "removed", "old");
    put(w, "dir/stays", "old");
    delta_put(w, "s1", "new");
    delta_put(w, "s2", "new");
    assert_int_equal(symlinkat("target", w->delta, "s3"), 0);
}

static int sync_all(struct world *w)
{
    const int64_t now = clock_wall_ns();
    struct codebase_change changes[] = {
        { "replaced", now, CODEBASE_UNSEEN },
        { "new/file", now, CODEBASE_UNSEEN },
        { "link", now, CODEBASE_UNSEEN },
        { "removed", now, CODEBASE_UNSEEN },
    };
    autodone(codebase_commit) struct codebase_commit done = CODEBASE_COMMIT_NONE;
    autoptr(codebase_txn) txn = NULL;
    int r = codebase_txn_begin(w->cb, "sb", "sync", &txn, NULL);

    if (r >= 0)
        r = codebase_txn_put(txn, &changes[0], w->delta, "s1", NULL);
    if (r >= 0)
        r = codebase_txn_put(txn, &changes[1], w->delta, "s2", NULL);
    if (r >= 0)
        r = codebase_txn_put(txn, &changes[2], w->delta, "s3", NULL);
    if (r >= 0)
        r = codebase_txn_remove(txn, &changes[3], NULL);
    return r < 0 ? r : codebase_txn_commit(txn, &done, NULL);
}

static void assert_old(struct world *w)
{
    assert_file(w, "replaced", "old");
    assert_file(w, "removed", "old");
    assert_absent(w, "new/file");
    assert_int_equal(version_now(w), 3);
    assert_true(delta_has(w, "s1") && delta_has(w, "s2") && delta_has(w, "s3"));
}

static void assert_new(struct world *w)
{
    char target[16] = "";

    assert_file(w, "replaced", "new");
    assert_file(w, "new/file", "new");
    assert_absent(w, "removed");
    assert_int_equal(readlinkat(codebase_files_fd(w->cb), "link", target, sizeof(target)), 6);
    assert_int_equal(version_now(w), 4);
    assert_false(delta_has(w, "s1") || delta_has(w, "s2") || delta_has(w, "s3"));
    assert_file_at(w, 3, "replaced", "old");
    assert_file_at(w, 3, "removed", "old");
}

static void assert_old_or_new(struct world *w)
{
    world_reopen(w);
    if (version_now(w) == 3)
        assert_old(w);
    else
        assert_new(w);
    assert_file(w, "dir/stays", "old");
    assert_counts(w);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, "stage"), 0);
}

static const char *const points[] = {
    "codebase-staged",    "codebase-manifest-written", "codebase-manifest-synced", "codebase-committed",
    "codebase-kept-old",  "codebase-put-new",          "codebase-removed",         "codebase-source-removed",
    "codebase-performed", "codebase-counted",          "codebase-trim-counted",    "codebase-layer-aside",
};

static void dying_at_each_point_leaves_the_old_or_the_new(void **state)
{
    struct world *w = *state;

    w->options.keep_versions = 3;
    for (size_t i = 0; i < ARRAY_LEN(points); i++) {
        world_reopen(w);
        prepare(w);
        if (!dies(w, points[i], sync_all))
            fail_msg("nothing passes %s", points[i]);
        assert_old_or_new(w);
        world_close(w);
        assert_int_equal(file_remove_tree(w->fd, "codebases"), 0);
        assert_int_equal(file_remove_tree(w->fd, "delta/s1"), 0);
        assert_int_equal(file_remove_tree(w->fd, "delta/s2"), 0);
        assert_int_equal(file_remove_tree(w->fd, "delta/s3"), 0);
        assert_ok(codebases_open(w->root, &w->options, &w->all, e_));
        assert_ok(codebase_create(w->all, ID, &w->cb, e_));
    }
}

static int settle_again(struct world *w)
{
    return codebases_recover(w->all, NULL);
}

/* Step by step, and in the middle of each recovery once more. */
static void dying_again_during_recovery_changes_nothing_of_that(void **state)
{
    struct world *w = *state;
    int passed = 0;

    for (int first = 1;; first++) {
        char point[32], again[32];

        snprintf(point, sizeof(point), "codebase-step:%d", first);
        for (int second = 1;; second++) {
            snprintf(again, sizeof(again), "codebase-step:%d", second);
            prepare(w);
            bool has_died = dies(w, point, sync_all);
            bool has_died_again = has_died && dies(w, again, settle_again);
            assert_old_or_new(w);
            passed++;
            assert_ok(codebase_delete(w->all, ID, e_));
            codebase_close(w->cb);
            for (int i = 1; i <= 3; i++) {
                snprintf(again, sizeof(again), "delta/s%d", i);
                assert_int_equal(file_remove_tree(w->fd, again), 0);
            }
            assert_ok(codebase_create(w->all, ID, &w->cb, e_));
            if (!has_died) {
                print_message("%d ways to die\n", passed);
                assert_true(first > 12);
                return;
            }
            if (!has_died_again)
                break;
        }
    }
}

static int make_another(struct world *w)
{
    struct codebase *cb = NULL;

    return codebase_create(w->all, "cb_ffffffffffffffff", &cb, NULL);
}

static int delete_it(struct world *w)
{
    return codebase_delete(w->all, ID, NULL);
}

static void a_codebase_half_made_or_half_deleted_is_removed(void **state)
{
    struct world *w = *state;
    struct codebase *cb = NULL;
    struct err err = ERR_NONE;

    assert_true(dies(w, "codebase-furnished", make_another));
    assert_int_equal(names_in(w, ""), 2);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, ""), 1);
    put(w, "d/f", "1");
    assert_true(dies(w, "codebase-deleted", delete_it));
    assert_int_equal(codebase_open(w->all, ID, &cb, &err), -ENOENT);
    assert_ok(codebases_recover(w->all, e_));
    assert_int_equal(names_in(w, ""), 0);
}

static int import_something(struct world *w)
{
    autodone(buf) struct buf tar = BUF_EMPTY;

    tar_add(&tar, "f", '0', "x", NULL, 0644);
    tar_end(&tar);
    return try_import(w, &tar, NULL, NULL, NULL);
}

static void an_import_that_dies_before_its_commit_leaves_nothing(void **state)
{
    struct world *w = *state;

    assert_true(dies(w, "codebase-extracted", import_something));
    assert_ok(codebases_recover(w->all, e_));
    assert_absent(w, "f");
    assert_int_equal(names_in(w, "stage"), 0);
}

/* ---- a step that cannot be done ---- */

static void a_version_whose_steps_fail_is_undone(void **state)
{
    struct world *w = *state;
    struct codebase_info before, after;

    prepare(w);
    assert_ok(codebase_info(w->cb, &before, e_));
    setenv("AGENTFENSE_FAULT", "codebase-last-step-fails", 1);
    assert_int_equal(sync_all(w), -ENOSPC);
    unsetenv("AGENTFENSE_FAULT");
    assert_old(w);
    assert_counts(w);
    assert_ok(codebase_info(w->cb, &after, e_));
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(names_in(w, "stage"), 0);
    assert_int_equal(sync_all(w), 0);
    assert_new(w);
}

/* The server died after the commit; the agent's sandbox goes on with its delta before anybody settled. */
static void what_was_put_under_a_sources_name_since_is_spared(void **state)
{
    struct world *w = *state;

    prepare(w);
    assert_true(dies(w, "codebase-committed", sync_all));
    assert_int_equal(unlinkat(w->delta, "s1", 0), 0);
    delta_put(w, "s1", "another");
    world_reopen(w);
    assert_file(w, "replaced", "new");
    assert_true(delta_has(w, "s1"));
    assert_false(delta_has(w, "s2"));
}

/* A delta that recovery cannot find keeps its file, and the codebase gets one of its own: nobody writes into it. */
static void a_codebase_shares_no_file_with_a_delta_that_moved(void **state)
{
    struct world *w = *state;
    struct stat st;

    prepare(w);
    assert_true(dies(w, "codebase-committed", sync_all));
    assert_int_equal(renameat(w->fd, "delta", w->fd, "moved"), 0);
    world_reopen(w);
    assert_file(w, "replaced", "new");
    assert_int_equal(fstatat(codebase_files_fd(w->cb), "replaced", &st, 0), 0);
    assert_int_equal(st.st_nlink, 1);
    autofd int fd = path_open_beneath(w->delta, "s1", O_WRONLY | O_TRUNC, 0);
    assert_true(fd >= 0);
    assert_file(w, "replaced", "new");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(dying_at_each_point_leaves_the_old_or_the_new),
        world_test(dying_again_during_recovery_changes_nothing_of_that),
        world_test(a_codebase_half_made_or_half_deleted_is_removed),
        world_test(an_import_that_dies_before_its_commit_leaves_nothing),
        world_test(a_version_whose_steps_fail_is_undone),
        world_test(what_was_put_under_a_sources_name_since_is_spared),
        world_test(a_codebase_shares_no_file_with_a_delta_that_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
