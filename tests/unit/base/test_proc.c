#include "fixture.h"

#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"

/* The children are this program again: what they see of themselves is printed to descriptor 1. */
#define SELF "/proc/self/exe"

extern char **environ;

static int print_fds(void)
{
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            dprintf(1, "%d ", fd);
    return 0;
}

static int print_fds_contents(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        char text[16] = "";

        if (fd != 1 && pread(fd, text, sizeof(text) - 1, 0) > 0)
            dprintf(1, "%d=%s ", fd, text);
    }
    return 0;
}

static int print_environment(void)
{
    for (char **e = environ; *e; e++)
        dprintf(1, "%s;", *e);
    return 0;
}

static int print_signals(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "SigBlk", 6) == 0 || strncmp(line, "SigIgn", 6) == 0)
            dprintf(1, "%s", line);
    if (f)
        fclose(f);
    return 0;
}

static int print_ids(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_CORE, &limit);
    dprintf(1, "leader=%d group=%d uid=%u gid=%u groups=%d core=%ld", getsid(0) == getpid(), getpgrp() == getpid(), getuid(),
            getgid(), getgroups(0, NULL), (long) limit.rlim_cur);
    return 0;
}

static int print_cwd(void)
{
    char path[4096];

    dprintf(1, "%s", getcwd(path, sizeof(path)) ? path : "?");
    return 0;
}

static int sleep_long(void)
{
    dprintf(1, "x");
    while (pause() < 0)
        ;
    return 1;
}

static int read_null(void)
{
    char c;

    /* Reading it ends at once, writing goes nowhere. */
    return read(0, &c, 1) == 0 && write(1, "x", 1) == 1 && write(2, "x", 1) == 1 ? 0 : 1;
}

static int exit_42(void)
{
    return 42;
}

static int die_by_term(void)
{
    raise(SIGTERM);
    return 0;
}

static const struct role {
    const char *name;
    int (*run)(void);
} roles[] = {
    { "fds", print_fds },
    { "contents", print_fds_contents },
    { "environment", print_environment },
    { "signals", print_signals },
    { "ids", print_ids },
    { "cwd", print_cwd },
    { "sleep", sleep_long },
    { "null", read_null },
    { "42", exit_42 },
    { "term", die_by_term },
};

/* Spawns a role with its output in `out` (may be NULL) and waits for it. Returns the exit code. */
static int run_role(struct proc_spec spec, const char *role, struct buf *out)
{
    const char *argv[] = { "test", role, NULL };
    struct proc_fd fds[16];
    struct proc proc = PROC_NONE;
    struct err err = ERR_NONE;
    int ends[2], status;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    spec.path = SELF;
    spec.argv = argv;
    if (spec.fd_count)
        memcpy(fds, spec.fds, spec.fd_count * sizeof(fds[0]));
    if (out)
        fds[spec.fd_count++] = (struct proc_fd){ .fd = ends[1], .target = 1 };
    spec.fds = fds;
    if (proc_spawn(&spec, &proc, &err) < 0)
        fail_msg("%s", err.text);
    close(ends[1]);
    if (out) {
        buf_clear(out);
        assert_int_equal(fd_read_all(ends[0], 1 << 20, out), 0);
    }
    close(ends[0]);
    assert_int_equal(proc_wait(&proc, &status), 0);
    proc_done(&proc);
    return proc_exit_code(status);
}

static int spawn_path(const char *path, struct proc *ret, struct err *err)
{
    const char *argv[] = { path, NULL };
    struct proc_spec spec = { .argv = argv };

    return proc_spawn(&spec, ret, err);
}

static void assert_no_children(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void exit_codes_are_what_a_shell_shows(void **state)
{
    (void) state;
    assert_int_equal(run_role((struct proc_spec){ 0 }, "42", NULL), 42);
    assert_int_equal(run_role((struct proc_spec){ 0 }, "term", NULL), 128 + SIGTERM);
    assert_no_children();
}

static void a_program_that_does_not_exist_is_enoent(void **state)
{
    struct proc proc = PROC_NONE;
    struct err err = ERR_NONE;
    int before = count_fds();

    (void) state;
    assert_int_equal(spawn_path("/no/such/program", &proc, &err), -ENOENT);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.text, "starting '/no/such/program': executing it: No such file or directory");
    assert_int_equal(spawn_path("no-such-program-anywhere", &proc, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'no-such-program-anywhere'"));
    assert_int_equal(spawn_path("", &proc, &err), -ENOENT);
    assert_int_equal(spawn_path("/no/\x1b[2J\xff", &proc, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'/no/\\x1b[2J\\xff'"));
    assert_int_equal(proc.pid, 0);
    assert_int_equal(proc.pidfd, -1);
    assert_int_equal(count_fds(), before);
    assert_no_children();
}

static void what_is_no_program_says_why(void **state)
{
    struct scratch *s = *state;
    struct proc proc = PROC_NONE;
    char path[600];

    put_file(s->fd, "plain", "not executable");
    put_file(s->fd, "garbage", "no format the kernel knows");
    put_file(s->fd, "script", "#!/no/such/interpreter\n");
    assert_int_equal(fchmodat(s->fd, "garbage", 0755, 0), 0);
    assert_int_equal(fchmodat(s->fd, "script", 0755, 0), 0);
    snprintf(path, sizeof(path), "%s/plain", s->path);
    assert_int_equal(spawn_path(path, &proc, NULL), -EACCES);
    snprintf(path, sizeof(path), "%s/garbage", s->path);
    assert_int_equal(spawn_path(path, &proc, NULL), -ENOEXEC);
    snprintf(path, sizeof(path), "%s/script", s->path);
    assert_int_equal(spawn_path(path, &proc, NULL), -ENOENT);
    assert_int_equal(spawn_path(s->path, &proc, NULL), -EACCES);
    assert_no_children();
}

static void a_bare_name_is_looked_up_in_the_childs_path(void **state)
{
    struct scratch *s = *state;
    char variable[1300];
    const char *argv[] = { "tool", NULL }, *envp[] = { variable, NULL };
    struct proc_spec spec = { .argv = argv, .envp = envp };
    struct proc proc = PROC_NONE;
    int status;

    /* A file of that name that cannot be run comes first, the working directory is never searched. */
    assert_int_equal(mkdirat(s->fd, "a", 0755), 0);
    assert_int_equal(mkdirat(s->fd, "b", 0755), 0);
    put_file(s->fd, "a/tool", "not executable");
    put_file(s->fd, "b/tool", "#!/bin/sh\nexit 7\n");
    put_file(s->fd, "tool", "#!/bin/sh\nexit 8\n");
    assert_int_equal(fchmodat(s->fd, "b/tool", 0755, 0), 0);
    assert_int_equal(fchmodat(s->fd, "tool", 0755, 0), 0);
    spec.cwd = s->path;
    snprintf(variable, sizeof(variable), "PATH=:.:%s/a:%s/b", s->path, s->path);
    assert_int_equal(proc_spawn(&spec, &proc, NULL), 0);
    assert_int_equal(proc_wait(&proc, &status), 0);
    assert_int_equal(proc_exit_code(status), 7);
    proc_done(&proc);
    snprintf(variable, sizeof(variable), "PATH=:%s/a:", s->path);
    assert_int_equal(proc_spawn(&spec, &proc, NULL), -EACCES);
    snprintf(variable, sizeof(variable), "PATH=:.");
    assert_int_equal(proc_spawn(&spec, &proc, NULL), -ENOENT);
}

static void the_environment_is_the_one_given_and_no_other(void **state)
{
    const char *envp[] = { "A=1", "B=", NULL };
    autodone(buf) struct buf b = BUF_EMPTY;

    (void) state;
    setenv("SECRET_TOKEN", "leak", 1);
    run_role((struct proc_spec){ .envp = envp }, "environment", &b);
    assert_string_equal(b.data, "A=1;B=;");
    run_role((struct proc_spec){ 0 }, "environment", &b);
    assert_int_equal(b.len, 0);
}

static void no_descriptor_leaks_into_a_child(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    int leaks[100];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(leaks); i++)
        leaks[i] = dup(2); /* not CLOEXEC */
    run_role((struct proc_spec){ 0 }, "fds", &b);
    for (size_t i = 0; i < ARRAY_LEN(leaks); i++)
        close(leaks[i]);
    assert_string_equal(b.data, "0 1 2 ");
}

static void listed_descriptors_arrive_under_their_numbers(void **state)
{
    struct scratch *s = *state;
    autodone(buf) struct buf b = BUF_EMPTY;
    struct proc_fd fds[4];
    int a, c;

    put_file(s->fd, "a", "aaa");
    put_file(s->fd, "c", "ccc");
    a = openat(s->fd, "a", O_RDONLY | O_CLOEXEC);
    c = openat(s->fd, "c", O_RDONLY | O_CLOEXEC);
    /* Each takes the other's number; one goes twice; one is far away. */
    fds[0] = (struct proc_fd){ .fd = a, .target = c };
    fds[1] = (struct proc_fd){ .fd = c, .target = a };
    fds[2] = (struct proc_fd){ .fd = a, .target = 0 };
    fds[3] = (struct proc_fd){ .fd = c, .target = 300 };
    run_role((struct proc_spec){ .fds = fds, .fd_count = 4 }, "contents", &b);
    close(a);
    close(c);
    char want[64];
    snprintf(want, sizeof(want), "0=aaa %d=ccc %d=aaa 300=ccc ", a < c ? a : c, a < c ? c : a);
    if (a > c)
        snprintf(want, sizeof(want), "0=aaa %d=aaa %d=ccc 300=ccc ", c, a);
    assert_string_equal(b.data, want);
}

static void unlisted_standard_descriptors_are_null(void **state)
{
    (void) state;
    assert_int_equal(run_role((struct proc_spec){ 0 }, "null", NULL), 0);
}

static int spawn_without_stdio(void *arg)
{
    const char *argv[] = { "test", "null", NULL };
    struct proc_spec spec = { .path = SELF, .argv = argv };
    struct proc proc = PROC_NONE;
    int status;

    (void) arg;
    close(0);
    close(1);
    close(2);
    return proc_spawn(&spec, &proc, NULL) == 0 && proc_wait(&proc, &status) == 0 ? proc_exit_code(status) : 1;
}

static void a_parent_without_standard_descriptors_can_spawn(void **state)
{
    (void) state;
    assert_int_equal(in_child(spawn_without_stdio, NULL), 0);
}

static void impossible_descriptors_are_refused(void **state)
{
    static const struct proc_fd twice[] = { { 2, 5 }, { 1, 5 } }, negative[] = { { -1, 5 } }, nowhere[] = { { 2, -1 } },
                                closed[] = { { 1000, 5 } }, far[] = { { 2, 1 << 30 } };
    static const struct {
        const struct proc_fd *fds;
        size_t count;
        int r;
    } cases[] = {
        { twice, 2, -EINVAL }, { negative, 1, -EINVAL }, { nowhere, 1, -EINVAL }, { closed, 1, -EBADF }, { far, 1, -EINVAL }
    };
    const char *argv[] = { "test", "42", NULL };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct proc_spec spec = { .path = SELF, .argv = argv, .fds = cases[i].fds, .fd_count = cases[i].count };
        struct err err = ERR_NONE;
        struct proc proc;

        assert_int_equal(proc_spawn(&spec, &proc, &err), cases[i].r);
        assert_non_null(strstr(err.text, "descriptor"));
    }
    assert_int_equal(proc_spawn(&(struct proc_spec){ 0 }, &(struct proc){ 0 }, NULL), -EINVAL);
    assert_no_children();
}

static void the_working_directory_is_the_one_asked_for(void **state)
{
    struct scratch *s = *state;
    autodone(buf) struct buf b = BUF_EMPTY;
    struct err err = ERR_NONE;
    const char *argv[] = { "test", "42", NULL };
    struct proc_spec bad = { .path = SELF, .argv = argv, .cwd = "/no/such/directory" };
    struct stat want, got;

    run_role((struct proc_spec){ .cwd = s->path }, "cwd", &b);
    assert_int_equal(stat(s->path, &want), 0);
    assert_int_equal(stat(b.data, &got), 0);
    assert_int_equal(got.st_ino, want.st_ino);
    assert_int_equal(proc_spawn(&bad, &(struct proc){ 0 }, &err), -ENOENT);
    assert_non_null(strstr(err.text, "changing the directory"));
}

static void sessions_groups_and_limits_are_set(void **state)
{
    static const struct proc_rlimit limits[] = { { RLIMIT_CORE, { 0, 0 } } };
    autodone(buf) struct buf b = BUF_EMPTY;

    (void) state;
    run_role((struct proc_spec){ 0 }, "ids", &b);
    assert_non_null(strstr(b.data, "leader=0 group=0"));
    run_role((struct proc_spec){ .new_group = true }, "ids", &b);
    assert_non_null(strstr(b.data, "leader=0 group=1"));
    run_role((struct proc_spec){ .new_session = true, .rlimits = limits, .rlimit_count = 1 }, "ids", &b);
    assert_non_null(strstr(b.data, "leader=1 group=1"));
    assert_non_null(strstr(b.data, "core=0"));
}

/* A pipe stands for a cgroup's file. */
static void a_child_joins_before_it_runs_and_fails_if_it_cannot(void **state)
{
    const char *argv[] = { "/bin/true", NULL };
    int ends[2], read_only, status;
    struct proc proc = PROC_NONE;
    struct err err = ERR_NONE;
    char text[8] = "";

    (void) state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(proc_spawn(&(struct proc_spec){ .argv = argv, .joins = &ends[1], .join_count = 1 }, &proc, &err), 0);
    assert_int_equal(read(ends[0], text, sizeof(text) - 1), 1);
    assert_string_equal(text, "0");
    assert_int_equal(proc_wait(&proc, &status), 0);
    proc_done(&proc);
    read_only = ends[0];
    assert_int_equal(proc_spawn(&(struct proc_spec){ .argv = argv, .joins = &read_only, .join_count = 1 }, &proc, &err),
                     -EBADF);
    assert_non_null(strstr(err.text, "cgroup"));
    close(ends[0]);
    close(ends[1]);
}

static void a_child_can_run_as_another_user(void **state)
{
    static const struct proc_user nobody = { .uid = NOBODY, .gid = NOBODY };
    const char *argv[] = { "sh", "-c", "id -u; id -g; id -G", NULL };
    autodone(buf) struct buf b = BUF_EMPTY;
    struct proc_spec spec = { .argv = argv, .user = &nobody };
    struct proc proc = PROC_NONE;
    struct err err = ERR_NONE;
    struct proc_fd out;
    int ends[2], status;

    (void) state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    out = (struct proc_fd){ .fd = ends[1], .target = 1 };
    spec.fds = &out;
    spec.fd_count = 1;
    if (geteuid() != 0) {
        assert_int_equal(proc_spawn(&spec, &proc, &err), -EPERM);
        assert_non_null(strstr(err.text, "changing the user"));
        close(ends[1]);
    } else {
        const gid_t ours = 12345;

        assert_int_equal(setgroups(1, &ours), 0);
        assert_int_equal(proc_spawn(&spec, &proc, &err), 0);
        assert_int_equal(setgroups(0, NULL), 0);
        close(ends[1]);
        assert_int_equal(fd_read_all(ends[0], 1000, &b), 0);
        assert_int_equal(proc_wait(&proc, &status), 0);
        assert_string_equal(b.data, "65534\n65534\n65534\n");
        proc_done(&proc);
    }
    close(ends[0]);
}

static void on_signal(int signal)
{
    (void) signal;
}

/* As a launcher does that resets nothing; signal() refuses these. SIG_DFL is all zero, SIG_IGN a handler of 1. */
static void ignore_signal_of_libc(int number, bool ignore)
{
    unsigned long action[8] = { ignore ? 1 : 0 };

    assert_int_equal(syscall(SYS_rt_sigaction, number, action, NULL, (NSIG - 1) / 8), 0);
}

static void signals_are_clean_whatever_the_parent_did(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    sigset_t all, before;

    (void) state;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, on_signal);
    ignore_signal_of_libc(32, true);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    run_role((struct proc_spec){ 0 }, "signals", &b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
    ignore_signal_of_libc(32, false);
    assert_string_equal(b.data, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

static struct proc spawn_sleeper(int death_signal, int out)
{
    const char *argv[] = { "test", "sleep", NULL };
    const struct proc_fd fds[] = { { out, 1 } };
    struct proc_spec spec = { .path = SELF, .argv = argv, .fds = fds, .fd_count = 1, .death_signal = death_signal };
    struct proc proc = PROC_NONE;

    require(proc_spawn(&spec, &proc, NULL) == 0, "spawning a sleeper");
    return proc;
}

static void waiting_has_a_limit_and_signals_arrive(void **state)
{
    autofd int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct proc proc = spawn_sleeper(0, null);
    int64_t begin = clock_now_ns(), took_ms;
    int status = 0, again = 0;

    (void) state;
    assert_int_equal(proc_wait_timeout(&proc, 0, &status), -ETIMEDOUT);
    assert_int_equal(proc_wait_timeout(&proc, 60, &status), -ETIMEDOUT);
    took_ms = (clock_now_ns() - begin) / CLOCK_NS_PER_MS;
    assert_in_range(took_ms, 60, 60000);
    assert_int_equal(proc_signal(&proc, SIGKILL), 0);
    assert_int_equal(proc_wait_timeout(&proc, 60000, &status), 0);
    assert_int_equal(proc_exit_code(status), 128 + SIGKILL);
    assert_int_equal(proc_wait(&proc, &again), 0);
    assert_int_equal(again, status);
    assert_int_equal(proc_wait_timeout(&proc, 0, &again), 0);
    assert_int_equal(proc_signal(&proc, SIGKILL), -ESRCH);
    proc_done(&proc);
    proc_done(&proc);
    assert_int_equal(proc_signal(&proc, SIGKILL), -ESRCH);
    assert_no_children();
}

/* The child of a child tells by the end of a pipe when it is dead. */
static int spawn_and_vanish(void *arg)
{
    spawn_sleeper(SIGKILL, *(int *) arg);
    return 0;
}

static void a_tied_child_dies_with_its_parent(void **state)
{
    char bytes[8];
    int ends[2];

    (void) state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(in_child(spawn_and_vanish, &ends[1]), 0);
    close(ends[1]);
    alarm(120);
    assert_true(fd_read_full(ends[0], bytes, sizeof(bytes)) <= 1);
    alarm(0);
    close(ends[0]);
}

static int spawn_with_few_descriptors(void *arg)
{
    int last = -1, fd, spare = 0, status;
    struct proc proc = PROC_NONE;
    const char *argv[] = { "test", "42", NULL };
    struct proc_spec spec = { .path = SELF, .argv = argv };

    (void) arg;
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 64, 64 }) == 0);
    while ((fd = dup(2)) >= 0)
        last = fd;
    for (;; spare++) {
        int r = proc_spawn(&spec, &proc, NULL);

        if (r == 0)
            break;
        CHECK(r == -EMFILE);
        CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
        CHECK(spare < 16);
        close(last--);
    }
    CHECK(spare > 0);
    CHECK(proc_wait(&proc, &status) == 0 && proc_exit_code(status) == 42);
    return 0;
}

static void without_descriptors_it_fails_whole(void **state)
{
    (void) state;
    assert_int_equal(in_child(spawn_with_few_descriptors, NULL), 0);
}

struct team {
    atomic_bool stop;
    atomic_int wrong;
};

/* Keeps malloc's and stdio's locks busy, so that a child that needed one would hang. */
static void *make_noise(void *arg)
{
    struct team *team = arg;

    while (!atomic_load(&team->stop)) {
        char text[200];

        free(xalloc(5000));
        snprintf(text, sizeof(text), "%d", rand());
        fflush(NULL);
    }
    return NULL;
}

static void *spawn_many(void *arg)
{
    const char *argv[] = { "test", "42", NULL };
    struct proc_spec spec = { .path = SELF, .argv = argv };
    struct team *team = arg;

    for (int i = 0; i < 25; i++) {
        struct proc proc = PROC_NONE;
        int status = 0;

        if (proc_spawn(&spec, &proc, NULL) < 0 || proc_wait_timeout(&proc, 120000, &status) < 0 || proc_exit_code(status) != 42)
            atomic_fetch_add(&team->wrong, 1);
        proc_done(&proc);
    }
    return NULL;
}

static void threads_can_spawn_at_once(void **state)
{
    struct team team = { 0 };
    pthread_t spawners[4], noise[2];
    int before = count_fds();

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(noise); i++)
        pthread_create(&noise[i], NULL, make_noise, &team);
    for (size_t i = 0; i < ARRAY_LEN(spawners); i++)
        pthread_create(&spawners[i], NULL, spawn_many, &team);
    for (size_t i = 0; i < ARRAY_LEN(spawners); i++)
        pthread_join(spawners[i], NULL);
    atomic_store(&team.stop, true);
    for (size_t i = 0; i < ARRAY_LEN(noise); i++)
        pthread_join(noise[i], NULL);
    assert_int_equal(atomic_load(&team.wrong), 0);
    assert_int_equal(count_fds(), before);
    assert_no_children();
}

static void a_short_program_is_run_to_its_end(void **state)
{
    const char *const argv[] = { "/bin/sh", "-c", "printf 'two\\nlines'; echo not this >&2; exit 3", NULL };
    const char *const leaves[] = { "/bin/sh", "-c", "echo said; sleep 2 & exit 0", NULL };
    const char *const lasts[] = { "/bin/sh", "-c", "exec sleep 60", NULL };
    autodone(buf) struct buf out = BUF_EMPTY;
    struct err err = ERR_NONE;
    int status = 0;

    (void) state;
    assert_int_equal(proc_run(&(struct proc_spec){ .argv = argv }, 60000, &out, &status, &err), 0);
    assert_int_equal(proc_exit_code(status), 3);
    assert_string_equal(out.data, "two\nlines");
    buf_clear(&out);
    assert_int_equal(proc_run(&(struct proc_spec){ .argv = leaves }, 60000, &out, &status, &err), 0);
    assert_string_equal(out.data, "said\n");
    assert_int_equal(proc_run(&(struct proc_spec){ .argv = argv }, 60000, NULL, &status, NULL), 0);
    assert_int_equal(proc_exit_code(status), 3);
    assert_int_equal(proc_run(&(struct proc_spec){ .argv = lasts }, 50, &out, &status, &err), -ETIMEDOUT);
    assert_non_null(strstr(err.text, "/bin/sh"));
}

int main(int argc, char **argv)
{
    static const int missing[] = { SYS_close_range, SYS_pidfd_open, SYS_pidfd_send_signal };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_codes_are_what_a_shell_shows),
        cmocka_unit_test(a_short_program_is_run_to_its_end),
        cmocka_unit_test(a_program_that_does_not_exist_is_enoent),
        scratch_test(what_is_no_program_says_why),
        scratch_test(a_bare_name_is_looked_up_in_the_childs_path),
        cmocka_unit_test(the_environment_is_the_one_given_and_no_other),
        cmocka_unit_test(no_descriptor_leaks_into_a_child),
        scratch_test(listed_descriptors_arrive_under_their_numbers),
        cmocka_unit_test(unlisted_standard_descriptors_are_null),
        cmocka_unit_test(a_parent_without_standard_descriptors_can_spawn),
        cmocka_unit_test(impossible_descriptors_are_refused),
        scratch_test(the_working_directory_is_the_one_asked_for),
        cmocka_unit_test(sessions_groups_and_limits_are_set),
        cmocka_unit_test(a_child_joins_before_it_runs_and_fails_if_it_cannot),
        cmocka_unit_test(a_child_can_run_as_another_user),
        cmocka_unit_test(signals_are_clean_whatever_the_parent_did),
        cmocka_unit_test(waiting_has_a_limit_and_signals_arrive),
        cmocka_unit_test(a_tied_child_dies_with_its_parent),
        cmocka_unit_test(without_descriptors_it_fails_whole),
        cmocka_unit_test(threads_can_spawn_at_once),
    };
    int failed;

    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(roles); i++)
        if (strcmp(argv[1], roles[i].name) == 0)
            return roles[i].run();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (deny_syscalls(missing, ARRAY_LEN(missing)))
        failed += cmocka_run_group_tests_name("without close_range and pidfds", tests, NULL, NULL);
    return failed;
}
