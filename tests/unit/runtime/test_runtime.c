/* The runtime from its user's side, with the mock behind it; the real one is tried by tests/runtime. */
#include "runtime_fixture.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "runtime/bwrap.h"
#include "runtime/mock.h"
#include "wire/runtime_type.h"

static struct runtime_spec mock_spec(const struct scratch *scratch, const char *const *argv)
{
    struct runtime_spec spec = plain_spec();

    spec.workspace = scratch->path;
    spec.init_path = "/bin/sh";
    spec.init_argv = argv;
    return spec;
}

static struct runtime *new_mock(void)
{
    struct runtime *runtime;
    struct err err = ERR_NONE;

    assert_int_equal(mock_runtime_new(&runtime, &err), 0);
    return runtime;
}

static struct runtime_process *started(struct runtime *runtime, const struct runtime_spec *spec)
{
    struct runtime_process *process;
    struct err err = ERR_NONE;

    if (runtime_start(runtime, spec, &process, &err) < 0)
        fail_msg("%s", err.text);
    return process;
}

/* Waits for the process to end without reaping it: the next waitid() gets its status. */
static void await_end(const struct runtime_process *process)
{
    siginfo_t info;

    assert_int_equal(waitid(P_PID, (id_t) process->proc.pid, &info, WEXITED | WNOWAIT), 0);
}

static void init_has_its_socket_and_the_workspace(void **state)
{
    const char *const argv[] = { "-c", "pwd >&3", NULL };
    struct scratch *scratch = *state;
    autoptr(runtime) runtime = new_mock();
    struct runtime_spec spec = mock_spec(scratch, argv);
    char text[128] = "";
    int pair[2], status;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    spec.init_socket = pair[1];
    autoptr(runtime_process) process = started(runtime, &spec);
    close(pair[1]);
    assert_true(fd_read_full(pair[0], text, sizeof(text) - 1) > 0);
    close(pair[0]);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, scratch->path);
    assert_int_equal(proc_wait(&process->proc, &status), 0);
    assert_int_equal(status, 0);
    assert_int_equal(process->limits.pids, RUNTIME_PIDS_DEFAULT);
}

static void a_bad_spec_never_reaches_the_implementation(void **state)
{
    struct scratch *scratch = *state;
    autoptr(runtime) runtime = new_mock();
    struct runtime_spec spec = mock_spec(scratch, NULL);
    struct runtime_process *process = NULL;
    struct err err = ERR_NONE;

    spec.id = "../x";
    assert_int_equal(runtime_start(runtime, &spec, &process, &err), -EINVAL);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_null(process);
}

static void a_failure_can_be_arranged_once(void **state)
{
    const char *const argv[] = { "-c", "exit 0", NULL };
    struct scratch *scratch = *state;
    autoptr(runtime) runtime = new_mock();
    struct runtime_spec spec = mock_spec(scratch, argv);
    struct runtime_process *process = NULL;
    struct err err = ERR_NONE;

    mock_fail_next(runtime, -ENOSPC, "no room");
    assert_int_equal(runtime_start(runtime, &spec, &process, &err), -ENOSPC);
    assert_string_equal(err.text, "no room");
    process = started(runtime, &spec);
    runtime_process_free(process);
}

static void events_come_one_by_one(void **state)
{
    const char *const argv[] = { "-c", "sleep 30", NULL };
    const struct runtime_event event = { RUNTIME_EVENT_MEMORY, 2, 64, NULL };
    struct scratch *scratch = *state;
    autoptr(runtime) runtime = new_mock();
    struct runtime_spec spec = mock_spec(scratch, argv);
    autoptr(runtime_process) process = started(runtime, &spec);
    struct runtime_event got;

    assert_int_equal(runtime_event_fd(process), -1);
    assert_int_equal(runtime_next_event(process, &got), 0);
    mock_push_event(process, &event);
    assert_int_equal(runtime_next_event(process, &got), 1);
    assert_int_equal(got.count, 2);
    assert_int_equal(runtime_next_event(process, &got), 0);
    assert_int_equal(runtime_freeze(process, true), -ENOTSUP);
}

static void an_early_end_is_explained(void **state)
{
    const char *const loud[] = { "-c", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", NULL };
    const char *const silent[] = { "-c", "exit 9", NULL };
    struct scratch *scratch = *state;
    autoptr(runtime) runtime = new_mock();
    struct runtime_spec spec = mock_spec(scratch, loud);
    struct err err = ERR_NONE;

    autoptr(runtime_process) one = started(runtime, &spec);
    await_end(one); /* runtime_explain() takes one that has not ended after a second for one that runs */
    assert_int_equal(runtime_explain(one, &err), -EIO);
    assert_non_null(strstr(err.text, "setting up uid map: Permission denied"));
    assert_non_null(strstr(err.text, "agentfense doctor"));
    spec.init_argv = silent;
    autoptr(runtime_process) two = started(runtime, &spec);
    await_end(two);
    assert_int_equal(runtime_explain(two, &err), -EIO);
    assert_non_null(strstr(err.text, "code 9"));
}

static void a_missing_bwrap_is_one_clear_line(void **state)
{
    struct bwrap_probe probe = { .path = "/no/such/bwrap", .has_size = true };
    struct scratch *scratch = *state;
    autoptr(runtime) runtime = bwrap_runtime_of_probe(&probe);
    struct runtime_process *process = NULL;
    struct runtime_spec spec = plain_spec();
    struct err err = ERR_NONE;

    spec.workspace = scratch->path;
    assert_int_equal(runtime_start(runtime, &spec, &process, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/no/such/bwrap"));
}

/* Which of them can be made depends on what is installed here. */
static void each_runtime_has_a_constructor(void **state)
{
    autofree char *names = xdup(RUNTIME_TYPE_NAMES);
    char *rest;

    (void) state;
    for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        autoptr(runtime) runtime = NULL;
        struct err err = ERR_NONE;
        int r = runtime_new(name, &runtime, &err);

        assert_int_equal(r == 0, runtime != NULL);
        assert_int_not_equal(r, -EINVAL);
    }
}

static void an_unknown_runtime_is_refused_with_those_there_are(void **state)
{
    struct runtime *runtime;
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(runtime_new("chroot", &runtime, &err), -EINVAL);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_string_equal(err.text, "runtime: 'chroot' is not one of: bwrap docker");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(init_has_its_socket_and_the_workspace),
        scratch_test(a_bad_spec_never_reaches_the_implementation),
        scratch_test(a_failure_can_be_arranged_once),
        scratch_test(events_come_one_by_one),
        scratch_test(an_early_end_is_explained),
        scratch_test(a_missing_bwrap_is_one_clear_line),
        cmocka_unit_test(each_runtime_has_a_constructor),
        cmocka_unit_test(an_unknown_runtime_is_refused_with_those_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
