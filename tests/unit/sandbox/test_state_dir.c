#include "state_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

/* ---- the directory ---- */

static void it_is_made_when_it_is_needed_and_closed_to_others(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofree char *sandboxes = xprintf("%s/sandboxes", x->state), *uids = xprintf("%s/uids", x->state);

    assert_int_equal(state_dir_open(false, &x->state_dir, &err), -ENOENT);
    assert_int_equal(access(x->state, F_OK), -1);
    umask(0);
    open_it(x);
    assert_int_equal(mode_of(x->state), 0700);
    assert_int_equal(mode_of(sandboxes), 0700);
    assert_int_equal(mode_of(uids), 0700);
    state_dir_done(&x->state_dir);
    assert_int_equal(state_dir_open(false, &x->state_dir, &err), 0);
    assert_string_equal(x->state_dir.path, x->state);
}

static void one_that_others_can_write_is_refused_with_the_remedy(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;

    open_it(x);
    state_dir_done(&x->state_dir);
    assert_int_equal(chmod(x->state, 0770), 0);
    assert_int_equal(state_dir_open(true, &x->state_dir, &err), -EPERM);
    assert_non_null(strstr(err.text, x->state));
    assert_non_null(strstr(err.text, "chmod go-w"));
    assert_int_equal(chmod(x->state, 0755), 0);
    assert_int_equal(state_dir_open(true, &x->state_dir, &err), 0);
}

static void sandboxes_that_others_can_write_are_refused(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofree char *sandboxes = xprintf("%s/sandboxes", x->state);

    open_it(x);
    state_dir_done(&x->state_dir);
    assert_int_equal(chmod(sandboxes, 0702), 0);
    assert_int_equal(state_dir_open(true, &x->state_dir, &err), -EPERM);
    assert_int_equal(chmod(sandboxes, 0700), 0);
}

static void one_of_another_owner_is_refused(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;

    if (geteuid() != 0)
        skip();
    open_it(x);
    state_dir_done(&x->state_dir);
    assert_int_equal(chown(x->state, 65534, 65534), 0);
    assert_int_equal(state_dir_open(true, &x->state_dir, &err), -EPERM);
    assert_non_null(strstr(err.text, "65534"));
    assert_non_null(strstr(err.text, "AGENTFENSE_STATE_DIR"));
}

static void a_link_in_its_place_is_not_followed(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofree char *real = xprintf("%s/real", x->dir), *link = xprintf("%s/link", x->dir);

    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, link), 0);
    setenv("AGENTFENSE_STATE_DIR", link, 1);
    assert_true(state_dir_open(true, &x->state_dir, &err) < 0);
    assert_int_equal(rmdir(real), 0); /* nothing was made in it */
    assert_int_equal(mkdir(real, 0700), 0);
    autofree char *sandboxes = xprintf("%s/sandboxes", real);
    assert_int_equal(symlink("/tmp", sandboxes), 0);
    setenv("AGENTFENSE_STATE_DIR", real, 1);
    assert_true(state_dir_open(true, &x->state_dir, &err) < 0);
}

static void a_relative_place_is_refused(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;

    setenv("AGENTFENSE_STATE_DIR", "state", 1);
    assert_int_equal(state_dir_open(true, &x->state_dir, &err), -EINVAL);
    assert_non_null(strstr(err.text, "'state'"));
}

static int find_home_of_user(void *arg)
{
    struct fixture *x = arg;
    struct err err = ERR_NONE;
    autofree char *expected = xprintf("%s/.local/state/agentfense", x->dir), *xdg = xprintf("%s/xdg", x->dir);

    unsetenv("AGENTFENSE_STATE_DIR");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", x->dir, 1);
    if (setresuid(65534, 65534, 65534) < 0 || state_dir_open(true, &x->state_dir, &err) < 0 ||
        strcmp(x->state_dir.path, expected) != 0)
        return 1;
    state_dir_done(&x->state_dir);
    setenv("XDG_STATE_HOME", xdg, 1);
    return state_dir_open(true, &x->state_dir, &err) < 0 || strncmp(x->state_dir.path, xdg, strlen(xdg)) != 0;
}

static void a_user_has_one_below_home(void **state)
{
    struct fixture *x = *state;
    int status;
    pid_t pid;

    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(x->dir, 65534, 65534), 0);
    pid = fork();
    if (pid == 0)
        _exit(find_home_of_user(x));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- sandboxes ---- */

static void a_sandbox_has_its_parts(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1;
    autoptr(sandbox_spec) spec = NULL;
    autofree char *dir = NULL;
    char id[SANDBOX_NAME_MAX];
    autofd int found = -1;

    open_it(x);
    assert_int_equal(make(x, "shop", &fd, &err), 0);
    assert_int_equal(state_dir_find(&x->state_dir, "shop", id, &found, &err), 0);
    dir = xprintf("%s/sandboxes/%s", x->state, id);
    assert_int_equal(mode_of(dir), 0700);
    assert_int_equal(faccessat(fd, "mnt", F_OK, 0), -1); /* whoever mounts something there makes it */
    assert_int_equal(faccessat(fd, "lock", F_OK, 0), 0);
    assert_int_equal(sandbox_spec_load(fd, &spec, &err), 0);
    assert_string_equal(spec->id, id);
    assert_int_equal(strncmp(id, SANDBOX_ID_PREFIX, 3), 0);
    assert_string_equal(spec->name, "shop");
    assert_string_equal(spec->base_path, "/srv/shop");
    assert_false(sandbox_dir_is_running(fd));
    assert_names(x, "shop ");
}

static void a_name_is_taken_once(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1;

    open_it(x);
    must_make(x, "shop");
    assert_int_equal(make(x, "shop", &fd, &err), -EEXIST);
    assert_int_equal(err.code, ERR_ALREADY_EXISTS);
    assert_non_null(strstr(err.text, "'shop'"));
    assert_names(x, "shop ");
    assert_int_equal(count_entries(x), 1); /* no temporary one is left */
}

static void unsafe_names_are_refused(void **state)
{
    static const char *const names[] = { "", ".", "..", "a/b", "../x", ".hidden", "-x", "a b", "a\n", "\033[2J" };
    struct fixture *x = *state;

    open_it(x);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct err err = ERR_NONE;
        char found[SANDBOX_NAME_MAX];
        int fd = -1;
        if (*names[i]) /* "" is none */
            assert_int_equal(make(x, names[i], &fd, &err), -EINVAL);
        assert_null(strchr(err.text, '\033'));
        assert_int_equal(state_dir_find(&x->state_dir, names[i], found, &fd, &err), -EINVAL);
        assert_int_equal(state_dir_remove(&x->state_dir, names[i], &err), -EINVAL);
        assert_int_equal(fd, -1);
    }
    assert_names(x, "");
}

static void names_are_made_of_the_base(void **state)
{
    static const char *const bases[][2] = {
        { "/srv/shop", "shop-" },      { "/srv/my shop//", "my-shop-" },   { "/", "sandbox-" },
        { "/srv/.config", "config-" }, { "/srv/\xc3\xa9t\xc3\xa9", "t-" }, { "/srv/--x--", "x-" },
    };
    struct fixture *x = *state;

    open_it(x);
    for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
        struct err err = ERR_NONE;
        autofd int fd = -1;
        autoptr(sandbox_spec) spec = spec_of(NULL, bases[i][0]);
        autoptr(sandbox_spec) loaded = NULL;
        assert_int_equal(state_dir_create(&x->state_dir, spec, true, &fd, &err), 0);
        assert_non_null(spec->name);
        assert_int_equal(strncmp(spec->name, bases[i][1], strlen(bases[i][1])), 0);
        assert_int_equal(strlen(spec->name), strlen(bases[i][1]) + 4);
        assert_int_equal(sandbox_spec_load(fd, &loaded, &err), 0);
        assert_string_equal(loaded->name, spec->name);
    }
    struct err err = ERR_NONE;
    autofd int fd = -1;
    autofree char *base = xprintf("/srv/%0200d", 0);
    autoptr(sandbox_spec) spec = spec_of(NULL, base);
    assert_int_equal(state_dir_create(&x->state_dir, spec, true, &fd, &err), 0);
    assert_int_equal(strlen(spec->name), SANDBOX_NAME_MAX - 1);
}

static void a_unique_beginning_finds_it(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char found[SANDBOX_NAME_MAX];
    autofd int a = -1, b = -1, c = -1;
    autoptr(sandbox_spec) one = NULL;
    autoptr(sandbox_spec) shop = NULL;

    open_it(x);
    must_make(x, "shop-one");
    must_make(x, "shop-two");
    must_make(x, "shop");
    assert_int_equal(state_dir_find(&x->state_dir, "shop-o", found, &a, &err), 0);
    assert_int_equal(sandbox_spec_load(a, &one, &err), 0);
    assert_string_equal(one->name, "shop-one");
    assert_int_equal(state_dir_find(&x->state_dir, "shop", found, &b, &err), 0);
    assert_int_equal(sandbox_spec_load(b, &shop, &err), 0);
    assert_string_equal(shop->name, "shop");
    assert_string_equal(shop->id, found);
    assert_int_equal(state_dir_find(&x->state_dir, "shop-", found, &c, &err), -EINVAL);
    assert_non_null(strstr(err.text, "shop-one, shop-two"));
    assert_int_equal(state_dir_find(&x->state_dir, "blog", found, &c, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'blog'"));
    assert_names(x, "shop shop-one shop-two ");
}

/* A process that holds the lock as a supervisor does, until it is killed. */
static pid_t hold_lock(int dir_fd)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = openat(dir_fd, "lock", O_RDWR);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || write(ready[1], "1", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void it_runs_while_its_lock_is_held(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1, lock = -1;
    pid_t pid;

    open_it(x);
    assert_int_equal(make(x, "shop", &fd, &err), 0);
    pid = hold_lock(fd);
    assert_true(sandbox_dir_is_running(fd));
    assert_int_equal(sandbox_dir_lock(fd, &lock), -EBUSY);
    assert_int_equal(remove_named(x, "shop", &err), -EBUSY);
    assert_non_null(strstr(err.text, "is running"));
    assert_names(x, "shop ");
    assert_int_equal(faccessat(fd, "spec", F_OK, 0), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(sandbox_dir_is_running(fd));
    assert_false(sandbox_dir_is_running(fd)); /* asking leaves no lock behind */
    assert_int_equal(sandbox_dir_lock(fd, &lock), 0);
    assert_true(sandbox_dir_is_running(fd));
}

static void removing_takes_all_of_it(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1;

    open_it(x);
    must_make(x, "other");
    assert_int_equal(make(x, "shop", &fd, &err), 0);
    assert_int_equal(mkdirat(fd, "delta", 0700), 0);
    assert_int_equal(mkdirat(fd, "delta/data", 0), 0);
    assert_int_equal(remove_named(x, "shop", &err), 0);
    assert_names(x, "other ");
    assert_int_equal(count_entries(x), 1);
    assert_int_equal(remove_named(x, "shop", &err), -ENOENT);
    assert_int_equal(state_dir_remove(&x->state_dir, "sb_0123456789abcdef", &err), -ENOENT);
}

/* As of a container's supervisor that was killed. */
static void a_mount_that_was_left_behind_does_not_keep_it(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1;
    char path[64];

    open_it(x);
    assert_int_equal(make(x, "shop", &fd, &err), 0);
    assert_int_equal(mkdirat(fd, "mnt", 0700), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d/mnt", fd);
    if (mount("left", path, "tmpfs", 0, "size=4k") < 0)
        skip();
    assert_int_equal(remove_named(x, "shop", &err), 0);
    assert_names(x, "");
    assert_int_equal(count_entries(x), 0);
}

static void one_whose_delta_is_in_use_is_not_removed(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    autofd int fd = -1, lock = -1;

    open_it(x);
    assert_int_equal(make(x, "shop", &fd, &err), 0);
    assert_int_equal(mkdirat(fd, "delta", 0700), 0);
    assert_int_equal(mkdirat(fd, "delta/meta", 0700), 0);
    lock = openat(fd, "delta/meta/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(remove_named(x, "shop", &err), -EBUSY);
    assert_int_equal(faccessat(fd, "spec", F_OK, 0), 0);
}

static void what_a_crash_left_is_swept_later(void **state)
{
    struct fixture *x = *state;
    struct timespec long_ago[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
    static const char *const left[] = { ".af-tmp-0123456789abcdef", ".af-tmp-0123456789abcde0", ".af-tmp-mine" };

    open_it(x);
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        assert_int_equal(mkdirat(x->state_dir.sandboxes_fd, left[i], 0700), 0);
        if (i != 1) /* the second was made a moment ago */
            assert_int_equal(utimensat(x->state_dir.sandboxes_fd, left[i], long_ago, 0), 0);
    }
    must_make(x, "shop");
    assert_int_equal(faccessat(x->state_dir.sandboxes_fd, left[0], F_OK, 0), -1);
    assert_int_equal(faccessat(x->state_dir.sandboxes_fd, left[1], F_OK, 0), 0);
    assert_int_equal(faccessat(x->state_dir.sandboxes_fd, left[2], F_OK, 0), 0);
    assert_names(x, "shop ");
}

static void a_link_under_a_name_is_no_sandbox(void **state)
{
    struct fixture *x = *state;
    struct err err = ERR_NONE;
    char found[SANDBOX_NAME_MAX];
    autofd int fd = -1;

    open_it(x);
    assert_int_equal(symlinkat("../uids", x->state_dir.sandboxes_fd, "evil"), 0);
    assert_names(x, "");
    assert_int_equal(state_dir_find(&x->state_dir, "evil", found, &fd, &err), -ENOTDIR);
    assert_string_equal(found, "evil");
    assert_int_equal(make(x, "evil", &fd, &err), -EEXIST);
    assert_int_equal(state_dir_remove(&x->state_dir, "evil", &err), 0);
    assert_int_equal(faccessat(x->state_dir.fd, "uids", F_OK, 0), 0);
    assert_int_equal(make(x, "evil", &fd, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        state_test(it_is_made_when_it_is_needed_and_closed_to_others),
        state_test(one_that_others_can_write_is_refused_with_the_remedy),
        state_test(sandboxes_that_others_can_write_are_refused),
        state_test(one_of_another_owner_is_refused),
        state_test(a_link_in_its_place_is_not_followed),
        state_test(a_relative_place_is_refused),
        state_test(a_user_has_one_below_home),
        state_test(a_sandbox_has_its_parts),
        state_test(a_name_is_taken_once),
        state_test(unsafe_names_are_refused),
        state_test(names_are_made_of_the_base),
        state_test(a_unique_beginning_finds_it),
        state_test(it_runs_while_its_lock_is_held),
        state_test(removing_takes_all_of_it),
        state_test(a_mount_that_was_left_behind_does_not_keep_it),
        state_test(one_whose_delta_is_in_use_is_not_removed),
        state_test(what_a_crash_left_is_swept_later),
        state_test(a_link_under_a_name_is_no_sandbox),
    };

    /* Where we may: a mount that a failed test leaves behind goes with this process. */
    if (unshare(CLONE_NEWNS) == 0)
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return chdir("/") < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
