#include "runtime_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/identity.h"

/* Users of this process alone: identity_allocate() passes over one that has processes, also those of another test. */
static uid_t first_user(void)
{
    return 2010000000 + 4 * (uid_t) getpid();
}

static int open_lock(const struct scratch *scratch, uid_t user, int flags)
{
    char name[16];

    snprintf(name, sizeof(name), "%u", user);
    return openat(scratch->fd, name, flags | O_CLOEXEC, 0600);
}

static off_t note_size(const struct scratch *scratch, uid_t user)
{
    autofd int fd = open_lock(scratch, user, O_RDONLY);
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_size;
}

static void every_holder_gets_another_user(void **state)
{
    struct scratch *scratch = *state;
    struct identity taken[4];
    struct err err = ERR_NONE;

    if (!identity_is_host_root())
        skip();
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(identity_allocate(scratch->fd, first_user(), 4, &taken[i], &err), 0);
        assert_in_range(taken[i].uid, first_user(), first_user() + 3);
        assert_int_equal(taken[i].uid, taken[i].gid);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(taken[i].uid, taken[k].uid);
    }
    struct identity fifth;
    assert_int_equal(identity_allocate(scratch->fd, first_user(), 4, &fifth, &err), -EUSERS);
    assert_int_equal(err.code, ERR_RESOURCE_EXHAUSTED);
    uid_t freed = taken[2].uid;
    identity_done(&taken[2]);
    assert_int_equal(identity_allocate(scratch->fd, first_user(), 4, &fifth, &err), 0);
    assert_int_equal(fifth.uid, freed);
    identity_done(&fifth);
    for (size_t i = 0; i < 4; i++)
        identity_done(&taken[i]);
}

static void a_user_with_processes_is_passed_over(void **state)
{
    struct scratch *scratch = *state;
    struct identity identity;
    uid_t user = first_user();
    int ready[2], status;
    char byte;
    pid_t pid;

    if (!identity_is_host_root())
        skip();
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        char *const argv[] = { (char *) "sleep", (char *) "600", NULL };

        if (setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0)
            _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user has to ask for it anew */
        fcntl(ready[1], F_SETFD, FD_CLOEXEC);
        execv("/bin/sleep", argv);
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0);
    close(ready[0]);
    /* The last holder was killed: it has not taken back what it noted. */
    int lock = open_lock(scratch, user, O_WRONLY | O_CREAT);
    assert_int_equal(write(lock, "1", 1), 1);
    close(lock);
    assert_int_equal(identity_allocate(scratch->fd, user, 1, &identity, NULL), -EUSERS);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_int_equal(identity_allocate(scratch->fd, user, 1, &identity, NULL), 0);
    identity_done(&identity);
}

static void a_killed_holder_leaves_a_note_and_a_kind_one_none(void **state)
{
    struct scratch *scratch = *state;
    struct identity identity;
    uid_t user = first_user();
    int status;
    pid_t pid;

    if (!identity_is_host_root())
        skip();
    pid = fork();
    if (pid == 0)
        _exit(identity_allocate(scratch->fd, user, 1, &identity, NULL) == 0 ? 0 : 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_true(note_size(scratch, user) > 0);
    assert_int_equal(identity_allocate(scratch->fd, user, 1, &identity, NULL), 0);
    identity_done(&identity);
    assert_int_equal(note_size(scratch, user), 0);
}

static void the_lock_ends_with_its_holder(void **state)
{
    struct scratch *scratch = *state;
    struct identity identity;
    uid_t user = first_user();
    int status;
    pid_t pid;

    if (!identity_is_host_root())
        skip();
    pid = fork();
    if (pid == 0)
        _exit(identity_allocate(scratch->fd, user, 1, &identity, NULL) == 0 ? 0 : 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(identity_allocate(scratch->fd, user, 1, &identity, NULL), 0);
    identity_done(&identity);
}

static void ranges_with_root_in_them_are_refused(void **state)
{
    struct scratch *scratch = *state;
    struct identity identity;

    if (!identity_is_host_root())
        skip();
    assert_int_equal(identity_allocate(scratch->fd, 0, 10, &identity, NULL), -EINVAL);
    assert_int_equal(identity_allocate(scratch->fd, 5, 0, &identity, NULL), -EINVAL);
    assert_int_equal(identity_allocate(scratch->fd, UINT32_MAX - 1, 10, &identity, NULL), -EINVAL);
}

/* In a child that has become an ordinary user. */
static void an_ordinary_user_is_itself(void **state)
{
    struct scratch *scratch = *state;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct identity identity;
        struct err err = ERR_NONE;

        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
            _exit(1);
        if (identity_is_host_root() || identity_allocate(scratch->fd, 1000, 10, &identity, NULL) < 0)
            _exit(2);
        if (identity.uid != geteuid() || identity.lock_fd != -1 || identity_check(identity.uid, identity.gid, &err) < 0)
            _exit(3);
        _exit(identity_check(identity.uid + 1, identity.gid, &err) == -EPERM && err.code == ERR_PERMISSION_DENIED ? 0 : 4);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(every_holder_gets_another_user),       scratch_test(a_killed_holder_leaves_a_note_and_a_kind_one_none),
        scratch_test(a_user_with_processes_is_passed_over), scratch_test(the_lock_ends_with_its_holder),
        scratch_test(ranges_with_root_in_them_are_refused), scratch_test(an_ordinary_user_is_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
