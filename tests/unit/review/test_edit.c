#include "review_fixture.h"

#include <sys/resource.h>

#include "base/coverage.h"

static void every_kind_of_change_is_told_once(void **state)
{
    struct world *w = *state;

    base_put(w, "a", "a\n");
    base_put(w, "d/b", "b\n");
    base_put(w, "d/c", "c\n");
    base_put(w, "m", "m\n");
    agent_begin(w);
    agent_write(w, "a", "changed\n");
    agent_unlink(w, "d/b");
    agent_mkdir(w, "n");
    agent_create(w, "n/new", "new\n", 0644);
    agent_symlink(w, "a", "link");
    agent_chmod(w, "m", 0755);
    agent_end(w);
    assert_edits(w, "modified a, deleted d/b, added link, mode m, added n/, added n/new");
}

static void a_deleted_directory_is_told_with_its_files(void **state)
{
    struct world *w = *state;

    base_put(w, "d/a", "a\n");
    base_put(w, "d/e/b", "b\n");
    agent_begin(w);
    agent_unlink(w, "d/e/b");
    agent_rmdir(w, "d/e");
    agent_unlink(w, "d/a");
    agent_rmdir(w, "d");
    agent_end(w);
    assert_edits(w, "deleted d/, deleted d/a, deleted d/e/, deleted d/e/b");
}

/* The agent sees an empty directory and removes it. What was hidden from it is not its to delete. */
static void hidden_files_of_a_deleted_directory_stay(void **state)
{
    struct world *w = *state;
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;

    base_put(w, "d/a", "a\n");
    base_put(w, "d/secret.key", "s\n");
    base_put(w, "d/e/secret.key", "s\n");
    agent_start(w, (const char *const[]){ "**=write", "*.key=none@9", NULL }, false);
    agent_unlink(w, "d/a");
    agent_rmdir(w, "d/e");
    agent_rmdir(w, "d");
    agent_end(w);
    assert_edits(w, "deleted d/a");
    load_edits(w, &list);
    assert_int_equal(list.unseen_count, 2);
}

/* Gone and made again, the directory shows nothing of the base: the hidden file is in it all the same. */
static void hidden_files_of_a_remade_directory_stay(void **state)
{
    struct world *w = *state;

    base_put(w, "d/a", "a\n");
    base_put(w, "d/b", "b\n");
    base_put(w, "d/secret.key", "s\n");
    agent_start(w, (const char *const[]){ "**=write", "*.key=none@9", NULL }, false);
    agent_unlink(w, "d/a");
    agent_unlink(w, "d/b");
    agent_rmdir(w, "d");
    agent_mkdir(w, "d");
    agent_create(w, "d/b", "other\n", 0644);
    agent_end(w);
    assert_edits(w, "deleted d/a, modified d/b");
}

static void a_moved_directory_is_deleted_here_and_added_there(void **state)
{
    struct world *w = *state;

    base_put(w, "d/a", "a\n");
    base_put(w, "d/e/b", "b\n");
    agent_begin(w);
    agent_rename(w, "d", "n");
    agent_end(w);
    assert_edits(w, "deleted d/, deleted d/a, deleted d/e/, deleted d/e/b, added n/, added n/a, added n/e/, added n/e/b");
}

static void git_is_counted_and_not_told(void **state)
{
    struct world *w = *state;
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;

    base_put(w, ".git/config", "c\n");
    base_put(w, "sub/.git/HEAD", "h\n");
    base_put(w, "sub/f", "f\n");
    agent_begin(w);
    agent_write(w, ".git/config", "evil\n");
    agent_mkdir(w, "x");
    agent_mkdir(w, "x/.GIT");
    agent_create(w, "x/.GIT/hooks", "evil\n", 0755);
    agent_unlink(w, "sub/.git/HEAD");
    agent_rmdir(w, "sub/.git");
    agent_unlink(w, "sub/f");
    agent_rmdir(w, "sub");
    agent_create(w, ".gitignore", "x\n", 0644);
    agent_end(w);
    assert_edits(w, "added .gitignore, deleted sub/f, added x/");
    load_edits(w, &list);
    assert_true(list.git_count >= 3);
}

static void what_only_the_base_changed_is_no_edit(void **state)
{
    struct world *w = *state;

    base_put(w, "touched", "one\n");
    base_put(w, "moded", "one\n");
    base_put_mode(w, "both", "one\n", 0644);
    agent_begin(w);
    agent_chmod(w, "touched", 0600); /* copied up, and put back */
    agent_chmod(w, "touched", 0644);
    agent_chmod(w, "both", 0600);
    agent_write(w, "moded", "two\n");
    agent_end(w);
    base_put(w, "touched", "edited by its owner\n");
    base_put(w, "both", "edited by its owner\n");
    base_put_mode(w, "moded", "one\n", 0755);
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    assert_edits(w, "mode both, modified moded");
    load_edits(w, &list);
    assert_int_equal(list.items[1].now & 0777, 0755); /* the owner's mode, the agent's content */
}

static void paths_choose(void **state)
{
    static const char *const given[][3] = {
        { "a", "modified a" },
        { "/d", "deleted d/b, modified d/c" },
        { "./d//b", "deleted d/b" },
        { "n/e/f", "added n/, added n/e/, added n/e/f" }, /* with the directories it needs */
        { "d/", "deleted d/b, modified d/c" },
        { ".", "modified a, deleted d/b, modified d/c, added n/, added n/e/, added n/e/f, added n/g" },
        { "d/bb", "", "unmatched" },
    };
    struct world *w = *state;

    base_put(w, "a", "a\n");
    base_put(w, "d/b", "b\n");
    base_put(w, "d/c", "c\n");
    agent_begin(w);
    agent_write(w, "a", "x\n");
    agent_write(w, "d/c", "x\n");
    agent_unlink(w, "d/b");
    agent_mkdir(w, "n");
    agent_mkdir(w, "n/e");
    agent_create(w, "n/e/f", "f\n", 0644);
    agent_create(w, "n/g", "g\n", 0644);
    agent_end(w);
    for (size_t i = 0; i < ARRAY_LEN(given); i++) {
        autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
        autodone(buf) struct buf text = BUF_EMPTY;
        struct err err = ERR_NONE;
        assert_int_equal(edit_list_load(w->delta, given[i], 1, &list, &err), 0);
        describe_edits(&list, &text);
        assert_string_equal(text.data ? text.data : "", given[i][1]);
        assert_int_equal(list.unmatched != NULL, given[i][2] != NULL);
    }
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    autofree char *absolute = xprintf("%s/d/b", w->base);
    struct err err = ERR_NONE;
    assert_int_equal(edit_list_load(w->delta, (const char *const[]){ absolute }, 1, &list, &err), 0);
    assert_int_equal(list.count, 1);
    edit_list_done(&list);
    assert_int_equal(edit_list_load(w->delta, (const char *const[]){ "../x" }, 1, &list, &err), -EINVAL);
}

static void a_file_in_the_place_of_a_directory(void **state)
{
    struct world *w = *state;

    base_put(w, "d/a", "a\n");
    base_put(w, "f", "f\n");
    agent_begin(w);
    agent_unlink(w, "d/a");
    agent_rmdir(w, "d");
    agent_create(w, "d", "now a file\n", 0644);
    agent_unlink(w, "f");
    agent_mkdir(w, "f");
    agent_create(w, "f/in", "in\n", 0644);
    agent_end(w);
    assert_edits(w, "modified d, deleted d/a, modified f, added f/in");
}

static void a_base_that_is_gone_is_an_error(void **state)
{
    struct world *w = *state;
    autodone(edit_list) struct edit_list list = EDIT_LIST_EMPTY;
    struct err err = ERR_NONE;

    agent_begin(w);
    agent_create(w, "f", "f\n", 0644);
    agent_end(w);
    assert_int_equal(unlinkat(w->f.fd, "base", AT_REMOVEDIR), 0);
    assert_int_equal(edit_list_load(w->delta, NULL, 0, &list, &err), -ENOENT);
    assert_non_null(strstr(err.text, w->base));
}

/* Killed between the steps of a rename: what the journal promises is done before anybody reads the delta. */
static void a_rename_cut_short_is_finished_first(void **state)
{
    struct world *w = *state;
    int status;
    pid_t pid;

    base_put(w, "a", "a\n");
    pid = fork();
    if (pid == 0) {
        setenv("AGENTFENSE_FAULT", "rename-whiteout", 1);
        agent_begin(w);
        agent_rename(w, "a", "b");
        coverage_exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status)) /* a release has no such points */
        skip();
    mode_t mask = umask(027);
    assert_edits(w, "deleted a, added b");
    assert_int_equal(umask(mask), 027);
}

/* All of it or an error, however few descriptors there are: a review that lacks a change is worse than none. */
static void without_descriptors_nothing_is_left_out(void **state)
{
    struct world *w = *state;
    char long_name[251];
    struct rlimit was, limit;
    unsigned refused = 0;

    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = 0;
    base_put(w, long_name, "long\n");
    base_put(w, "d/a", "a\n");
    base_put(w, "d/e/b", "b\n");
    base_put(w, "gone", "g\n");
    base_put(w, "kept", "k\n");
    base_put(w, "m", "m\n");
    base_put(w, "touched", "t\n");
    agent_begin(w);
    agent_unlink(w, long_name);
    agent_unlink(w, "d/e/b");
    agent_rmdir(w, "d/e");
    agent_mkdir(w, "d/e");
    agent_create(w, "d/e/c", "c\n", 0644);
    agent_unlink(w, "gone");
    agent_write(w, "m", "M\n");
    agent_write(w, "touched", "t\n");
    agent_symlink(w, "kept", "link");
    agent_mkdir(w, "n");
    agent_end(w);

    autodone(edit_list) struct edit_list all = EDIT_LIST_EMPTY;
    autodone(buf) struct buf expected = BUF_EMPTY;
    load_edits(w, &all);
    describe_edits(&all, &expected);
    assert_non_null(strstr(expected.data, "deleted gone, added link, modified m, added n/, deleted xxx"));

    autofd int first_free = dup(STDERR_FILENO);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    for (rlim_t more = 0; more < 32; more++) {
        struct edit_list list = EDIT_LIST_EMPTY;
        autodone(buf) struct buf text = BUF_EMPTY;
        struct err err = ERR_NONE;
        limit = (struct rlimit){ .rlim_cur = (rlim_t) first_free + more, .rlim_max = was.rlim_max };
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        int r = edit_list_load(w->delta, NULL, 0, &list, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        if (r < 0) {
            refused++;
            continue;
        }
        describe_edits(&list, &text);
        assert_string_equal(text.data, expected.data);
        edit_list_done(&list);
    }
    assert_in_range(refused, 5, 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(every_kind_of_change_is_told_once),
        world_test(a_deleted_directory_is_told_with_its_files),
        world_test(hidden_files_of_a_deleted_directory_stay),
        world_test(hidden_files_of_a_remade_directory_stay),
        world_test(a_moved_directory_is_deleted_here_and_added_there),
        world_test(git_is_counted_and_not_told),
        world_test(what_only_the_base_changed_is_no_edit),
        world_test(paths_choose),
        world_test(a_file_in_the_place_of_a_directory),
        world_test(a_base_that_is_gone_is_an_error),
        world_test(a_rename_cut_short_is_finished_first),
        world_test(without_descriptors_nothing_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
