/* cgroups against this kernel, where we may make them. Each test makes its own and removes it. */
#include "runtime_fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/proc.h"
#include "runtime/cgroup.h"
#include "runtime/cgroup_watch.h"

#define STILL_MS 100 /* in which a process that runs would be seen to */

struct real {
    struct cgroup_tree *tree;
    struct cgroup *cgroup;
    char name[ID_TEXT_MAX];
};

static int real_setup(void **state)
{
    struct real *real = xnew(struct real);

    id_new("sbunit_", real->name);
    assert_int_equal(cgroup_tree_new(NULL, &real->tree, NULL), 0);
    *state = real;
    return 0;
}

static int real_teardown(void **state)
{
    struct real *real = *state;

    if (real->cgroup) {
        cgroup_kill(real->cgroup);
        cgroup_remove(real->cgroup);
    }
    cgroup_free(real->cgroup);
    cgroup_tree_free(real->tree);
    free(real);
    return 0;
}

static void need(const struct real *real, unsigned controller)
{
    const char *reason;

    if (cgroup_tree_find(real->tree, controller, &reason))
        return;
    print_message("skipped: no %s cgroup: %s\n", cgroup_controller_name(controller), reason);
    skip();
}

static void make(struct real *real, const struct runtime_limits *limits, uint32_t pids)
{
    struct err err = ERR_NONE;

    if (cgroup_new(real->tree, real->name, limits, pids, &real->cgroup, &err) < 0)
        fail_msg("%s", err.text);
}

/* A child that waits for its place in the cgroup and then does its work. */
static pid_t child_in(struct real *real, void (*work)(void))
{
    int go[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        if (read(go[0], &byte, 1) >= 0)
            work();
        _exit(0);
    }
    close(go[0]);
    assert_int_equal(cgroup_attach(real->cgroup, pid, NULL), 0);
    close(go[1]);
    return pid;
}

static void eat(void)
{
    size_t size = 256 << 20;
    char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (size_t i = 0; bytes != MAP_FAILED && i < size; i += 4096)
        bytes[i] = 1;
}

/* Thirty that stay for as long as their parent does. */
static void multiply(void)
{
    for (int i = 0; i < 30; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
}

static void multiply_and_stay(void)
{
    multiply();
    for (;;)
        pause();
}

static volatile unsigned *counter; /* shared with the children */

static void count_up(void)
{
    for (;;) {
        ++*counter;
        poll(NULL, 0, 1);
    }
}

/* Within `ms`: an answer of true comes as soon as it is known. */
static bool counts_within(int ms)
{
    int64_t deadline_ns = clock_now_ns() + ms * CLOCK_NS_PER_MS;
    unsigned before = *counter;

    while (*counter == before && clock_now_ns() < deadline_ns)
        poll(NULL, 0, 1);
    return *counter != before;
}

/* The watch may wake its reader before the count has grown. */
static void wait_for_hit(struct cgroup_watch *watch, const uint64_t *count, struct cgroup_hits *hits)
{
    int64_t deadline_ns = clock_now_ns() + WAIT_MS * CLOCK_NS_PER_MS;

    while (*count == 0 && clock_now_ns() < deadline_ns) {
        struct pollfd p = { cgroup_watch_fd(watch), POLLIN, 0 };

        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        cgroup_watch_read(watch, hits);
    }
}

static void a_memory_hog_is_ended_and_told(void **state)
{
    const struct runtime_limits limits = { .memory_bytes = 32 << 20 };
    struct real *real = *state;
    autoptr(cgroup_watch) watch = NULL;
    struct cgroup_hits hits = { 0 };
    int status;

    need(real, CGROUP_MEMORY);
    make(real, &limits, 0);
    assert_int_equal(cgroup_watch_new(real->cgroup, &watch, NULL), 0);
    pid_t pid = child_in(real, eat);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    wait_for_hit(watch, &hits.memory_kills, &hits);
    assert_int_equal(hits.memory_kills, 1);
}

static void too_many_processes_are_refused_and_told(void **state)
{
    const struct runtime_limits none = { 0 };
    struct real *real = *state;
    autoptr(cgroup_watch) watch = NULL;
    struct cgroup_hits hits = { 0 };
    int status;

    need(real, CGROUP_PIDS);
    make(real, &none, 10);
    assert_int_equal(cgroup_watch_new(real->cgroup, &watch, NULL), 0);
    pid_t pid = child_in(real, multiply);
    waitpid(pid, &status, 0);
    wait_for_hit(watch, &hits.pids_refused, &hits);
    assert_true(hits.pids_refused >= 1);
}

static void a_frozen_process_stands_still(void **state)
{
    const struct runtime_limits none = { 0 };
    struct real *real = *state;
    int status;

    need(real, CGROUP_FREEZER);
    make(real, &none, 0);
    pid_t pid = child_in(real, count_up);
    assert_true(counts_within(WAIT_MS));
    assert_int_equal(cgroup_freeze(real->cgroup, true), 0);
    assert_false(counts_within(STILL_MS));
    assert_int_equal(cgroup_freeze(real->cgroup, false), 0);
    assert_true(counts_within(WAIT_MS));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void killing_takes_all_even_the_frozen(void **state)
{
    const struct runtime_limits none = { 0 };
    struct real *real = *state;
    int status;

    need(real, CGROUP_FREEZER);
    make(real, &none, 0);
    pid_t pids[] = { child_in(real, count_up), child_in(real, count_up), child_in(real, multiply_and_stay) };
    assert_int_equal(cgroup_freeze(real->cgroup, true), 0);
    assert_int_equal(cgroup_kill(real->cgroup), 0);
    for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFSIGNALED(status));
    }
    assert_int_equal(cgroup_remove(real->cgroup), 0);
    assert_int_not_equal(access(real->cgroup->dirs[0].path, F_OK), 0);
}

static void leftovers_of_the_dead_are_swept(void **state)
{
    const struct runtime_limits none = { 0 };
    struct real *real = *state;
    autoptr(cgroup) found = NULL;
    int status;

    need(real, CGROUP_PIDS);
    make(real, &none, 10);
    pid_t pid = child_in(real, count_up);
    assert_int_equal(cgroup_tree_sweep(real->tree, real->name, NULL, NULL), 1);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(cgroup_find(real->tree, real->name, &found), -ENOENT);
}

/* On this kernel v2 may have no controllers; its own files work all the same. */
static void v2_freezes_and_kills_at_one_stroke(void **state)
{
    const struct runtime_limits none = { 0 };
    struct real *real = *state;
    int status;

    for (size_t i = 0; i < real->tree->count; i++)
        if (real->tree->items[i].version == 1)
            real->tree->items[i].writable = false;
    need(real, CGROUP_FREEZER);
    make(real, &none, 0);
    assert_int_equal(real->cgroup->dirs[0].version, 2);
    pid_t pid = child_in(real, count_up);
    assert_int_equal(cgroup_freeze(real->cgroup, true), 0);
    assert_false(counts_within(STILL_MS));
    assert_int_equal(cgroup_kill(real->cgroup), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* The rule of v2: no processes beside the cgroups that controllers are handed to. */
static void a_v2_cgroup_is_emptied_into_its_leaf(void **state)
{
    const struct runtime_limits none = { 0 };
    struct real *real = *state;
    autofd int root = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    autodone(buf) struct buf text = BUF_EMPTY;
    int status;

    for (size_t i = 0; i < real->tree->count; i++)
        if (real->tree->items[i].version == 1)
            real->tree->items[i].writable = false;
    need(real, CGROUP_FREEZER);
    make(real, &none, 0);
    pid_t pid = child_in(real, count_up);
    assert_int_equal(cgroup_tree_evacuate(real->tree, real->cgroup->dirs[0].path), 0);
    autofree char *where = xprintf("%d/cgroup", pid), *leaf = xprintf("%s/" CGROUP_LEAF, real->cgroup->dirs[0].path);
    assert_int_equal(file_read(root, where, 4096, &text), 0);
    assert_non_null(strstr(text.data, "/" CGROUP_LEAF "\n"));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < WAIT_MS / 10 && rmdir(leaf) < 0; i++)
        poll(NULL, 0, 10);
}

#define real_test(f) cmocka_unit_test_setup_teardown(f, real_setup, real_teardown)

static bool lists(const struct cgroup_dir *place, pid_t pid)
{
    autofree char *path = xprintf("%s/cgroup.procs", place->path);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    autodone(buf) struct buf pids = BUF_EMPTY;
    char line[16];

    snprintf(line, sizeof(line), "%d\n", pid);
    assert_int_equal(fd_read_all(fd, 4096, &pids), 0);
    return pids.data && strcmp(pids.data, line) == 0;
}

static void a_child_goes_in_through_the_doors(void **state)
{
    const struct runtime_limits limits = { .memory_bytes = 64 << 20 };
    const char *argv[] = { "sleep", "60", NULL };
    struct real *real = *state;
    struct proc proc = PROC_NONE;
    int procs_fds[CGROUP_DIRS_MAX], count, status;
    size_t in = 0;

    need(real, CGROUP_MEMORY);
    make(real, &limits, 0);
    count = cgroup_open_procs(real->cgroup, procs_fds);
    assert_true(count >= 0);
    const struct proc_spec spec = { .argv = argv, .joins = procs_fds, .join_count = (size_t) count };
    assert_int_equal(proc_spawn(&spec, &proc, NULL), 0);
    for (size_t i = 0; i < real->cgroup->count; i++) {
        bool is_in = lists(&real->cgroup->dirs[i], proc.pid);

        assert_int_equal(is_in, real->cgroup->dirs[i].version == 1);
        in += is_in;
    }
    assert_int_equal(in, count);
    proc_signal(&proc, SIGKILL);
    assert_int_equal(proc_wait(&proc, &status), 0);
    proc_done(&proc);
    while (count > 0)
        close(procs_fds[--count]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        real_test(a_memory_hog_is_ended_and_told),       real_test(too_many_processes_are_refused_and_told),
        real_test(a_frozen_process_stands_still),        real_test(killing_takes_all_even_the_frozen),
        real_test(leftovers_of_the_dead_are_swept),      real_test(v2_freezes_and_kills_at_one_stroke),
        real_test(a_v2_cgroup_is_emptied_into_its_leaf), real_test(a_child_goes_in_through_the_doors),
    };

    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
