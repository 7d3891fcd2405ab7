/* cgroups against a plain directory that stands for cgroupfs: every host we do not have. */
#include "runtime_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

#include "runtime/cgroup.h"
#include "runtime/cgroup_watch.h"

#define ROOT true
#define USER false

/* Mounts as "v2 MOUNT ROOT" or "controllers MOUNT ROOT", MOUNT beneath the scratch directory. */
static struct cgroup_tree *tree_of(const struct scratch *scratch, const char *mounts, const char *self, bool as_root)
{
    autofree char *copy = xdup(mounts), *mountinfo = xprintf("%s/mountinfo", scratch->path),
                  *own = xprintf("%s/self", scratch->path);
    autodone(buf) struct buf text = BUF_EMPTY;
    struct cgroup_sources sources = { mountinfo, own, as_root, true };
    struct cgroup_tree *tree;
    struct err err = ERR_NONE;
    char *save;

    buf_add_str(&text, "20 1 8:1 / / rw - ext4 /dev/sda rw\n");
    for (char *line = strtok_r(copy, ";", &save); line; line = strtok_r(NULL, ";", &save)) {
        char what[64], mount[64], root[64];

        assert_int_equal(sscanf(line, "%63s %63s %63s", what, mount, root), 3);
        if (strcmp(what, "v2") == 0)
            buf_addf(&text, "30 20 0:30 %s %s%s rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", root, scratch->path,
                     mount);
        else
            buf_addf(&text, "31 20 0:31 %s %s%s rw,relatime - cgroup cgroup rw,%s\n", root, scratch->path, mount, what);
        if (*mount)
            make_dir(scratch, mount + 1);
    }
    make_file(scratch, "mountinfo", text.data, 0644);
    make_file(scratch, "self", self, 0644);
    if (cgroup_tree_new(&sources, &tree, &err) < 0)
        fail_msg("%s", err.text);
    return tree;
}

static void check_text(const struct scratch *scratch, const char *path, const char *expected)
{
    const char *text = text_of(scratch, path);

    if (!text || strcmp(text, expected) != 0)
        fail_msg("%s has '%s', not '%s'", path, text ? text : "(nothing)", expected);
}

static bool is_there(const struct scratch *scratch, const char *path)
{
    return faccessat(scratch->fd, path, F_OK, 0) == 0;
}

static const struct runtime_limits all_limits = { .memory_bytes = 64 << 20, .cpu_quota_us = 150000, .cpu_shares = 512 };

static struct cgroup *made(const struct cgroup_tree *tree, const char *name)
{
    struct cgroup *cgroup;
    struct err err = ERR_NONE;

    if (cgroup_new(tree, name, &all_limits, 77, &cgroup, &err) < 0)
        fail_msg("%s", err.text);
    return cgroup;
}

static void v2_sets_all_limits_and_hands_controllers_down(void **state)
{
    struct scratch *scratch = *state;

    make_file(scratch, "cg/cgroup.controllers", "cpuset cpu io memory pids\n", 0644);
    autoptr(cgroup_tree) tree = tree_of(scratch, "v2 /cg /", "0::/user.slice/session\n", ROOT);
    autoptr(cgroup) cgroup = made(tree, "sb_1");
    check_text(scratch, "cg/agentfense/sb_1/memory.max", "67108864");
    check_text(scratch, "cg/agentfense/sb_1/memory.swap.max", "0");
    check_text(scratch, "cg/agentfense/sb_1/memory.oom.group", "0");
    check_text(scratch, "cg/agentfense/sb_1/cpu.max", "150000 100000");
    check_text(scratch, "cg/agentfense/sb_1/cpu.weight", "20");
    check_text(scratch, "cg/agentfense/sb_1/pids.max", "77");
    check_text(scratch, "cg/cgroup.subtree_control", "+pids");
    check_text(scratch, "cg/agentfense/cgroup.subtree_control", "+pids");
    assert_int_equal(cgroup_attach(cgroup, 4711, NULL), 0);
    check_text(scratch, "cg/agentfense/sb_1/cgroup.procs", "4711");
    assert_int_equal(cgroup_freeze(cgroup, true), 0);
    check_text(scratch, "cg/agentfense/sb_1/cgroup.freeze", "1");
    assert_int_equal(cgroup_freeze(cgroup, false), 0);
    check_text(scratch, "cg/agentfense/sb_1/cgroup.freeze", "0");
    assert_int_equal(cgroup_kill(cgroup), 0);
    check_text(scratch, "cg/agentfense/sb_1/cgroup.kill", "1");
    assert_int_equal(cgroup_remove(cgroup), 0);
    assert_false(is_there(scratch, "cg/agentfense/sb_1"));
}

static void v1_sets_each_limit_in_its_hierarchy(void **state)
{
    struct scratch *scratch = *state;
    const char *self = "9:name=systemd:/\n4:memory:/jobs/7\n2:cpu,cpuacct:/\n8:pids:/\n6:freezer:/\n";
    autoptr(cgroup_tree) tree = NULL;

    make_dir(scratch, "m/jobs/7");
    tree = tree_of(scratch, "memory /m /;cpu,cpuacct /c /;pids /p /;freezer /f /;blkio /b /;name=systemd /s /", self, ROOT);
    assert_int_equal(tree->count, 4);
    autoptr(cgroup) cgroup = made(tree, "sb_1");
    check_text(scratch, "m/jobs/7/agentfense/sb_1/memory.limit_in_bytes", "67108864");
    check_text(scratch, "m/jobs/7/agentfense/sb_1/memory.memsw.limit_in_bytes", "67108864");
    check_text(scratch, "c/agentfense/sb_1/cpu.cfs_period_us", "100000");
    check_text(scratch, "c/agentfense/sb_1/cpu.cfs_quota_us", "150000");
    check_text(scratch, "c/agentfense/sb_1/cpu.shares", "512");
    check_text(scratch, "p/agentfense/sb_1/pids.max", "77");
    assert_int_equal(cgroup_attach(cgroup, 4711, NULL), 0);
    check_text(scratch, "m/jobs/7/agentfense/sb_1/cgroup.procs", "4711");
    check_text(scratch, "c/agentfense/sb_1/cgroup.procs", "4711");
    check_text(scratch, "p/agentfense/sb_1/cgroup.procs", "4711");
    check_text(scratch, "f/agentfense/sb_1/cgroup.procs", "4711");
    assert_int_equal(cgroup_freeze(cgroup, true), 0);
    check_text(scratch, "f/agentfense/sb_1/freezer.state", "FROZEN");
    assert_int_equal(cgroup_freeze(cgroup, false), 0);
    check_text(scratch, "f/agentfense/sb_1/freezer.state", "THAWED");
    assert_int_equal(cgroup_remove(cgroup), 0);
    assert_false(is_there(scratch, "p/agentfense"));
    assert_false(is_there(scratch, "m/jobs/7/agentfense"));
    assert_true(is_there(scratch, "m/jobs/7"));
}

static void a_hybrid_host_uses_both(void **state)
{
    struct scratch *scratch = *state;

    make_file(scratch, "u/cgroup.controllers", "", 0644);
    autoptr(cgroup_tree) tree =
                tree_of(scratch, "v2 /u /;memory /m /;cpu /c /;pids /p /", "0::/\n1:memory:/\n2:cpu:/\n3:pids:/\n", ROOT);
    autoptr(cgroup) cgroup = made(tree, "sb_1");
    check_text(scratch, "m/agentfense/sb_1/memory.limit_in_bytes", "67108864");
    assert_int_equal(cgroup_freeze(cgroup, true), 0);
    check_text(scratch, "u/agentfense/sb_1/cgroup.freeze", "1");
    assert_int_equal(cgroup_get_dir(cgroup, CGROUP_FREEZER)->version, 2);
    assert_int_equal(cgroup_get_dir(cgroup, CGROUP_MEMORY)->version, 1);
}

static void only_what_has_a_limit_is_touched(void **state)
{
    struct scratch *scratch = *state;
    const struct runtime_limits memory = { .memory_bytes = 8 << 20 };
    autoptr(cgroup) cgroup = NULL;

    autoptr(cgroup_tree) tree = tree_of(scratch, "memory /m /;cpu /c /;pids /p /", "1:memory:/\n2:cpu:/\n3:pids:/\n", ROOT);
    assert_int_equal(cgroup_new(tree, "sb_1", &memory, 0, &cgroup, NULL), 0);
    assert_true(is_there(scratch, "m/agentfense/sb_1"));
    assert_false(is_there(scratch, "c/agentfense"));
    assert_false(is_there(scratch, "p/agentfense"));
    assert_int_equal(cgroup_freeze(cgroup, true), -ENOTSUP);
}

static void a_limit_without_its_controller_is_refused_and_nothing_left(void **state)
{
    struct scratch *scratch = *state;
    struct err err = ERR_NONE;
    autoptr(cgroup) cgroup = NULL;

    autoptr(cgroup_tree) tree = tree_of(scratch, "pids /p /", "3:pids:/\n", ROOT);
    assert_int_equal(cgroup_new(tree, "sb_1", &all_limits, 77, &cgroup, &err), -ENOTSUP);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "a memory limit cannot be enforced here"));
    assert_false(is_there(scratch, "p/agentfense"));
}

static void a_host_without_cgroups_says_so(void **state)
{
    struct scratch *scratch = *state;
    const char *reason = NULL;

    autoptr(cgroup_tree) tree = tree_of(scratch, "", "", ROOT);
    assert_null(cgroup_tree_find(tree, CGROUP_MEMORY, &reason));
    assert_non_null(strstr(reason, "no cgroup file system"));
}

static void a_user_gets_the_delegated_cgroup(void **state)
{
    struct scratch *scratch = *state;

    make_file(scratch, "cg/user/me.scope/cgroup.controllers", "memory pids\n", 0644);
    make_file(scratch, "cg/user/me.scope/cgroup.procs", "", 0644);
    autoptr(cgroup_tree) tree = tree_of(scratch, "v2 /cg /", "0::/user/me.scope\n", USER);
    assert_int_equal(tree->count, 1);
    assert_true(tree->items[0].is_own);
    assert_non_null(cgroup_tree_find(tree, CGROUP_MEMORY, NULL));
    assert_null(cgroup_tree_find(tree, CGROUP_CPU, NULL));
    assert_non_null(strstr(tree->items[0].parent, "/cg/user/me.scope/agentfense"));
}

static void a_supervisor_in_the_leaf_finds_the_same_place(void **state)
{
    struct scratch *scratch = *state;

    make_file(scratch, "cg/me.scope/cgroup.controllers", "memory pids\n", 0644);
    make_dir(scratch, "cg/me.scope/agentfense-host");
    autoptr(cgroup_tree) tree = tree_of(scratch, "v2 /cg /", "0::/me.scope/agentfense-host\n", USER);
    assert_non_null(strstr(tree->items[0].parent, "/cg/me.scope/agentfense"));
    assert_null(strstr(tree->items[0].parent, "agentfense-host"));
}

static void a_part_of_a_hierarchy_mounted_in_a_container_is_understood(void **state)
{
    struct scratch *scratch = *state;

    autoptr(cgroup_tree) tree = tree_of(scratch, "memory /m /docker/abc;pids /p /docker/abc",
                                        "1:memory:/docker/abc/x\n3:pids:/elsewhere\n", ROOT);
    autofree char *inner = xprintf("%s/m/x/agentfense", scratch->path), *outer = xprintf("%s/p/agentfense", scratch->path);
    assert_string_equal(tree->items[0].parent, inner);
    assert_string_equal(tree->items[1].parent, outer);
}

/* 0 when an ordinary user is told why it gets no cgroup. */
static int ask_as_user(const struct scratch *scratch)
{
    const char *reason = NULL;

    if (geteuid() == 0 && (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
        return 1;
    autofree char *mountinfo = xprintf("%s/mountinfo", scratch->path), *self = xprintf("%s/self", scratch->path);
    const struct cgroup_sources sources = { mountinfo, self, USER, true };
    autoptr(cgroup_tree) tree = NULL;
    if (cgroup_tree_new(&sources, &tree, NULL) < 0)
        return 2;
    if (cgroup_tree_find(tree, CGROUP_MEMORY, &reason))
        return 3;
    return strstr(reason, "delegated") ? 0 : 4;
}

static void a_directory_nobody_may_write_is_no_offer(void **state)
{
    struct scratch *scratch = *state;
    int status;
    pid_t pid;

    make_file(scratch, "cg/cgroup.controllers", "memory\n", 0644);
    cgroup_tree_free(tree_of(scratch, "v2 /cg /", "0::/\n", ROOT));
    assert_int_equal(fchmodat(scratch->fd, "cg", 0555, 0), 0);
    pid = fork();
    if (pid == 0)
        _exit(ask_as_user(scratch));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool keep_second(const char *name, void *cookie)
{
    *(int *) cookie += 1;
    return strcmp(name, "sb_2") == 0;
}

static void leftovers_are_swept_by_prefix(void **state)
{
    struct scratch *scratch = *state;
    int asked = 0;

    autoptr(cgroup_tree) tree = tree_of(scratch, "memory /m /;cpu /c /;pids /p /", "1:memory:/\n2:cpu:/\n3:pids:/\n", ROOT);
    cgroup_free(made(tree, "sb_1"));
    cgroup_free(made(tree, "sb_2"));
    cgroup_free(made(tree, "xx_3"));
    assert_int_equal(cgroup_tree_sweep(tree, "sb_", keep_second, &asked), 1);
    assert_true(asked >= 2);
    assert_false(is_there(scratch, "m/agentfense/sb_1"));
    assert_false(is_there(scratch, "c/agentfense/sb_1"));
    assert_false(is_there(scratch, "p/agentfense/sb_1"));
    assert_true(is_there(scratch, "m/agentfense/sb_2"));
    assert_true(is_there(scratch, "p/agentfense/xx_3"));
}

static void a_name_is_used_once(void **state)
{
    struct scratch *scratch = *state;
    autoptr(cgroup) again = NULL;
    struct err err = ERR_NONE;

    autoptr(cgroup_tree) tree = tree_of(scratch, "memory /m /;cpu /c /;pids /p /", "1:memory:/\n2:cpu:/\n3:pids:/\n", ROOT);
    cgroup_free(made(tree, "sb_1"));
    assert_int_equal(cgroup_new(tree, "sb_1", &all_limits, 5, &again, &err), -EEXIST);
    check_text(scratch, "p/agentfense/sb_1/pids.max", "77");
}

#define MEETINGS 2000
#define MEETINGS_SHARE 200

struct comer {
    const struct cgroup_tree *tree;
    const char *name;
    struct err err; /* of the first that was refused */
};

static void *come_and_go(void *cookie)
{
    struct comer *c = cookie;
    unsigned meetings = full_or_share(MEETINGS, MEETINGS_SHARE);

    for (unsigned i = 0; i < meetings && c->err.code == ERR_OK; i++) {
        autoptr(cgroup) cgroup = NULL;
        if (cgroup_new(c->tree, c->name, &all_limits, 5, &cgroup, &c->err) == 0)
            cgroup_remove(cgroup);
    }
    return NULL;
}

static void one_begins_while_the_last_one_ends(void **state)
{
    struct scratch *scratch = *state;
    autoptr(cgroup_tree) tree = tree_of(scratch, "memory /m /;cpu /c /;pids /p /", "1:memory:/\n2:cpu:/\n3:pids:/\n", ROOT);
    struct comer one = { .tree = tree, .name = "sb_1" }, other = { .tree = tree, .name = "sb_2" };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, come_and_go, &other), 0);
    come_and_go(&one);
    pthread_join(thread, NULL);
    assert_string_equal(one.err.text, "");
    assert_string_equal(other.err.text, "");
}

static void v2_events_are_counted_and_wake_the_watch(void **state)
{
    struct scratch *scratch = *state;
    autoptr(cgroup_watch) watch = NULL;
    struct cgroup_hits hits;
    struct err err = ERR_NONE;

    make_file(scratch, "cg/cgroup.controllers", "cpu memory pids\n", 0644);
    autoptr(cgroup_tree) tree = tree_of(scratch, "v2 /cg /", "0::/\n", ROOT);
    autoptr(cgroup) cgroup = made(tree, "sb_1");
    assert_int_equal(
        cgroup_write_file(true, cgroup->dirs[0].path, "memory.events", "low 0\noom 4\noom_kill 2\noom_group_kill 9\n"), 0);
    assert_int_equal(cgroup_write_file(true, cgroup->dirs[0].path, "pids.events", "max 5\n"), 0);
    if (cgroup_watch_new(cgroup, &watch, &err) < 0)
        fail_msg("%s", err.text);
    struct pollfd p = { cgroup_watch_fd(watch), POLLIN, 0 };
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(
        cgroup_write_file(true, cgroup->dirs[0].path, "memory.events", "low 0\noom 6\noom_kill 3\noom_group_kill 9\n"), 0);
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    cgroup_watch_read(watch, &hits);
    assert_int_equal(hits.memory_kills, 1);
    assert_int_equal(hits.pids_refused, 0);
    assert_int_equal(poll(&p, 1, 0), 0);
    assert_int_equal(cgroup_write_file(true, cgroup->dirs[0].path, "pids.events", "max 12\n"), 0);
    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
    cgroup_watch_read(watch, &hits);
    assert_int_equal(hits.pids_refused, 7);
}

static void v1_pids_are_looked_at_now_and_then(void **state)
{
    struct scratch *scratch = *state;
    autoptr(cgroup_watch) watch = NULL;
    autoptr(cgroup) cgroup = NULL;
    const struct runtime_limits none = { 0 };
    struct cgroup_hits hits;

    autoptr(cgroup_tree) tree = tree_of(scratch, "pids /p /", "3:pids:/\n", ROOT);
    assert_int_equal(cgroup_new(tree, "sb_1", &none, 9, &cgroup, NULL), 0);
    assert_int_equal(cgroup_write_file(true, cgroup->dirs[0].path, "pids.events", "max 0\n"), 0);
    assert_int_equal(cgroup_watch_new(cgroup, &watch, NULL), 0);
    struct pollfd p = { cgroup_watch_fd(watch), POLLIN, 0 };
    assert_int_equal(cgroup_write_file(true, cgroup->dirs[0].path, "pids.events", "max 1\n"), 0);
    assert_int_equal(poll(&p, 1, CGROUP_WATCH_V1_MS + WAIT_MS), 1);
    cgroup_watch_read(watch, &hits);
    assert_int_equal(hits.pids_refused, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(v2_sets_all_limits_and_hands_controllers_down),
        scratch_test(v1_sets_each_limit_in_its_hierarchy),
        scratch_test(a_hybrid_host_uses_both),
        scratch_test(only_what_has_a_limit_is_touched),
        scratch_test(a_limit_without_its_controller_is_refused_and_nothing_left),
        scratch_test(a_host_without_cgroups_says_so),
        scratch_test(a_user_gets_the_delegated_cgroup),
        scratch_test(a_supervisor_in_the_leaf_finds_the_same_place),
        scratch_test(a_part_of_a_hierarchy_mounted_in_a_container_is_understood),
        scratch_test(a_directory_nobody_may_write_is_no_offer),
        scratch_test(leftovers_are_swept_by_prefix),
        scratch_test(a_name_is_used_once),
        scratch_test(one_begins_while_the_last_one_ends),
        scratch_test(v2_events_are_counted_and_wake_the_watch),
        scratch_test(v1_pids_are_looked_at_now_and_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
