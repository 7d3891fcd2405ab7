/* Sandboxes of a release before ids become like those of today, whatever step is the last. */
#include "state_fixture.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sandbox/sandbox_names.h"

/* As that release made it: the directory has the sandbox's name, and the spec knows no id. */
static void make_old(struct fixture *x, const char *dir_name, const char *spec_name)
{
    autoptr(sandbox_spec) spec = spec_of(spec_name, "/srv/shop");
    struct err err = ERR_NONE;
    autofd int fd = -1;

    assert_int_equal(mkdirat(x->state_dir.sandboxes_fd, dir_name, 0700), 0);
    fd = openat(x->state_dir.sandboxes_fd, dir_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(sandbox_spec_store(fd, spec, true, &err), 0);
    assert_int_equal(mkdirat(fd, "delta", 0700), 0);
    assert_int_equal(file_replace(fd, "delta/work", dir_name, strlen(dir_name), 0600), 0);
}

static void open_again(struct fixture *x)
{
    state_dir_done(&x->state_dir);
    open_it(x);
}

/* It has an id, its name and its work, and the name is its own. */
static void assert_converted(struct fixture *x, const char *name)
{
    autodone(buf) struct buf work = BUF_EMPTY;
    autoptr(sandbox_spec) spec = NULL;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX], claimed[SANDBOX_ID_MAX];
    autofd int fd = -1, other = -1;

    assert_int_equal(state_dir_find(&x->state_dir, name, id, &fd, &err), 0);
    assert_true(sandbox_id_is_valid(id));
    assert_int_equal(sandbox_spec_load(fd, &spec, &err), 0);
    assert_string_equal(spec->id, id);
    assert_string_equal(spec->name, name);
    assert_string_equal(spec->base_path, "/srv/shop");
    assert_int_equal(file_read(fd, "delta/work", 100, &work), 0);
    assert_int_equal(work.len, strlen(name));
    assert_memory_equal(work.data, name, work.len);
    assert_int_equal(sandbox_names_find(&x->state_dir, "", name, claimed), 0);
    assert_string_equal(claimed, id);
    assert_int_equal(make(x, name, &other, &err), -EEXIST);
    assert_false(sandbox_dir_is_running(fd));
}

static void one_at_rest_gets_an_id(void **state)
{
    struct fixture *x = *state;

    open_it(x);
    make_old(x, "shop", "shop");
    make_old(x, "renamed", "by-hand");
    open_again(x);
    assert_converted(x, "shop");
    assert_converted(x, "renamed");
    assert_int_equal(count_entries(x), 2);
}

static void one_that_runs_is_used_by_its_name_until_it_stops(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX];
    autofd int dir = -1, lock = -1, found = -1, other = -1;

    open_it(x);
    make_old(x, "shop", "shop");
    dir = openat(x->state_dir.sandboxes_fd, "shop", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(sandbox_dir_lock(dir, &lock), 0);
    open_again(x);
    assert_int_equal(state_dir_find(&x->state_dir, "shop", id, &found, &err), 0);
    assert_string_equal(id, "shop");
    assert_true(sandbox_dir_is_running(found));
    assert_int_equal(make(x, "shop", &other, &err), -EEXIST);
    close(steal_fd(&lock));
    open_again(x);
    assert_converted(x, "shop");
}

static void after_a_kill_at_any_step_the_next_goes_on(void **state)
{
    static const char *const faults[] = { "convert_name_claimed", "convert_spec_written", "convert_renamed" };
    struct fixture *x = *state;

    open_it(x);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct err err = ERR_NONE;
        autofd int other = -1;
        int status;
        pid_t pid;

        make_old(x, "shop", "shop");
        pid = fork();
        if (pid == 0) {
            struct state_dir own = STATE_DIR_NONE;

            setenv("AGENTFENSE_FAULT", faults[i], 1);
            state_dir_open_at(x->state, &own, &err);
            _exit(8);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(count_entries(x), 1);
        assert_int_equal(make(x, "shop", &other, &err), -EEXIST); /* nobody else gets the name meanwhile */
        open_again(x);
        assert_converted(x, "shop");
        assert_int_equal(count_entries(x), 1);
        assert_int_equal(remove_named(x, "shop", &err), 0);
    }
}

/* Made by an old program beside a new one. */
static void one_whose_name_is_taken_stays_as_it_is(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX];
    autofd int fd = -1;

    open_it(x);
    must_make(x, "shop");
    make_old(x, "shop", "shop");
    open_again(x);
    assert_int_equal(state_dir_find(&x->state_dir, "shop", id, &fd, &err), 0);
    assert_string_equal(id, "shop");
    assert_int_equal(count_entries(x), 2);
    assert_int_equal(state_dir_remove(&x->state_dir, "shop", &err), 0);
    close(steal_fd(&fd));
    assert_int_equal(state_dir_find(&x->state_dir, "shop", id, &fd, &err), 0);
    assert_true(sandbox_id_is_valid(id));
}

static void what_is_broken_stays_as_it_is(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char id[SANDBOX_NAME_MAX];
    autofd int fd = -1;

    open_it(x);
    assert_int_equal(mkdirat(x->state_dir.sandboxes_fd, "hurt", 0700), 0);
    assert_int_equal(symlinkat("/tmp", x->state_dir.sandboxes_fd, "link"), 0);
    open_again(x);
    assert_int_equal(state_dir_find(&x->state_dir, "hurt", id, &fd, &err), 0);
    assert_int_equal(state_dir_remove(&x->state_dir, "hurt", &err), 0);
    assert_int_equal(state_dir_remove(&x->state_dir, "link", &err), 0);
    assert_int_equal(count_entries(x), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        state_test(one_at_rest_gets_an_id),
        state_test(one_that_runs_is_used_by_its_name_until_it_stops),
        state_test(after_a_kill_at_any_step_the_next_goes_on),
        state_test(one_whose_name_is_taken_stays_as_it_is),
        state_test(what_is_broken_stays_as_it_is),
    };

    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
