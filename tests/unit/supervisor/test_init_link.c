#include "supervisor/init_link.h"

#include "fixture.h"

/* A link whose other end is ours: whatever an init may say, in whatever order. */
struct scene {
    struct reactor reactor;
    struct init_link link;
    int peer;
    int link_calls, link_result;
};

struct job {
    struct task task;
    int spawned, failed, exited, gone;
    int pty_fd;
};

static void on_link(int r, void *cookie)
{
    struct scene *scene = cookie;

    scene->link_calls++;
    scene->link_result = r;
    if (r < 0)
        watch_stop(&scene->link.watch);
}

static void on_spawned(struct task *task, int pty_fd)
{
    ((struct job *) task)->spawned++;
    ((struct job *) task)->pty_fd = pty_fd;
}

static void on_failed(struct task *task, int error, enum init_step step)
{
    (void) error;
    (void) step;
    ((struct job *) task)->failed++;
}

static void on_exited(struct task *task, const struct init_report *report)
{
    assert_true(report->exited.status >= 0);
    ((struct job *) task)->exited++;
}

static void on_gone(struct task *task)
{
    ((struct job *) task)->gone++;
}

static const struct task_ops ops = { on_spawned, on_failed, on_exited, on_gone };

static int setup(void **state)
{
    struct scene *scene = xnew(struct scene);
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(reactor_init(&scene->reactor), 0);
    assert_int_equal(init_link_open(&scene->link, &scene->reactor, pair[0], on_link, scene), 0);
    scene->peer = pair[1];
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    init_link_close(&scene->link);
    if (scene->peer >= 0)
        close(scene->peer);
    reactor_done(&scene->reactor);
    free(scene);
    return 0;
}

static void report(struct scene *scene, enum init_report_type type, uint64_t id)
{
    struct init_report m = { .type = type, .id = id };
    char payload[INIT_PROTO_SMALL_MAX];
    struct frame frame;
    int fd = -1;

    if (type == INIT_REPORT_HELLO) {
        m.hello.version = INIT_PROTO_VERSION;
        m.hello.pid = 1;
    }
    if (type == INIT_REPORT_SPAWNED)
        m.spawned.pid = 7;
    if (type == INIT_REPORT_SPAWN_FAILED) {
        m.spawn_failed.error = ENOENT;
        m.spawn_failed.step = INIT_STEP_EXEC;
    }
    assert_int_equal(init_report_encode(&m, payload, sizeof(payload), &frame), 0);
    if (type == INIT_REPORT_PTY) {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        frame.fds[0] = fd;
        frame.fd_count = 1;
    }
    assert_int_equal(frame_send(scene->peer, &frame, FRAME_WAIT), 0);
    if (fd >= 0)
        close(fd);
}

static void turn(struct scene *scene)
{
    turn_for(&scene->reactor, 5);
}

static int ask(struct scene *scene, struct job *job, uint32_t flags)
{
    static const char *const argv[] = { "x", NULL }, *const envp[] = { NULL };
    const int fds[] = { scene->peer, scene->peer, scene->peer };
    struct init_command command = {
        .cwd = "/", .argv = argv, .envp = envp, .fds = fds, .fd_count = flags & INIT_SPAWN_TTY ? 0 : 3
    };
    struct init_spawn spawn = { .flags = flags };

    *job = (struct job){ .pty_fd = -1 };
    return task_start(&job->task, &scene->link, &ops, &spawn, &command);
}

static void greet(struct scene *scene)
{
    report(scene, INIT_REPORT_HELLO, 0);
    turn(scene);
    assert_int_equal(scene->link_calls, 1);
    assert_int_equal(scene->link_result, 0);
}

static void start(struct scene *scene, struct job *job)
{
    assert_int_equal(ask(scene, job, INIT_SPAWN_SESSION), 0);
}

static void nothing_is_asked_before_hello(void **state)
{
    struct scene *scene = *state;
    struct job job;

    assert_int_equal(ask(scene, &job, INIT_SPAWN_SESSION), -ENOTCONN);
    greet(scene);
    start(scene, &job);
    report(scene, INIT_REPORT_HELLO, 0);
    turn(scene);
    assert_int_equal(scene->link_calls, 1); /* a second hello says nothing */
    task_forget(&job.task);
}

static void a_task_hears_everything_once_and_in_order(void **state)
{
    const enum init_report_type all[] = { INIT_REPORT_SPAWNED, INIT_REPORT_EXITED, INIT_REPORT_GONE };
    struct scene *scene = *state;
    struct job job;

    greet(scene);
    start(scene, &job);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (int times = 0; times < 3; times++)
            report(scene, all[i], job.task.id);
        turn(scene);
        assert_int_equal(job.spawned, 1);
        assert_int_equal(job.exited, i >= 1);
        assert_int_equal(job.gone, i >= 2);
    }
    assert_int_equal(job.failed, 0);
    assert_int_equal(job.task.pid, 7);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        report(scene, all[i], job.task.id);
    report(scene, INIT_REPORT_SPAWN_FAILED, job.task.id);
    turn(scene);
    assert_true(job.spawned == 1 && job.exited == 1 && job.gone == 1 && job.failed == 0);
}

static void reports_of_nobody_mean_nothing(void **state)
{
    struct scene *scene = *state;
    struct job job;

    greet(scene);
    start(scene, &job);
    for (int type = INIT_REPORT_SPAWNED; type <= INIT_REPORT_GONE; type++) {
        report(scene, (enum init_report_type) type, job.task.id + 1);
        report(scene, (enum init_report_type) type, job.task.id + INIT_LINK_BUCKETS); /* of the same bucket */
        report(scene, (enum init_report_type) type, UINT64_MAX);
    }
    turn(scene);
    assert_true(job.spawned == 0 && job.exited == 0 && job.gone == 0 && job.failed == 0);
    report(scene, INIT_REPORT_SPAWNED, job.task.id);
    turn(scene);
    assert_int_equal(job.spawned, 1);
    report(scene, INIT_REPORT_SPAWN_FAILED, job.task.id); /* too late for that */
    report(scene, INIT_REPORT_GONE, job.task.id);         /* and too early */
    turn(scene);
    assert_true(job.failed == 0 && job.gone == 0);
    task_forget(&job.task);
}

static void a_failed_one_hears_nothing_more(void **state)
{
    struct scene *scene = *state;
    struct job job;

    greet(scene);
    start(scene, &job);
    report(scene, INIT_REPORT_SPAWN_FAILED, job.task.id);
    report(scene, INIT_REPORT_SPAWN_FAILED, job.task.id);
    report(scene, INIT_REPORT_SPAWNED, job.task.id);
    report(scene, INIT_REPORT_EXITED, job.task.id);
    turn(scene);
    assert_true(job.failed == 1 && job.spawned == 0 && job.exited == 0);
    assert_int_equal(task_kill(&job.task, SIGTERM, INIT_KILL_TREE, 0), -ESRCH);
}

/* An agent can kill the process of init's that keeps a task before it has said SPAWNED, or sent the terminal. */
static void an_end_without_a_beginning_is_a_failure(void **state)
{
    struct scene *scene = *state;
    struct job job, tty;

    greet(scene);
    start(scene, &job);
    assert_int_equal(ask(scene, &tty, INIT_SPAWN_TTY), 0);
    report(scene, INIT_REPORT_EXITED, job.task.id);
    report(scene, INIT_REPORT_GONE, job.task.id);
    report(scene, INIT_REPORT_SPAWNED, tty.task.id);
    report(scene, INIT_REPORT_EXITED, tty.task.id);
    turn(scene);
    assert_true(job.failed == 1 && job.spawned == 0 && job.exited == 0 && job.gone == 0);
    assert_true(tty.failed == 1 && tty.spawned == 0 && tty.exited == 0);
}

static void a_terminal_comes_once_and_only_to_who_wants_it(void **state)
{
    struct scene *scene = *state;
    struct job plain, tty;

    greet(scene);
    start(scene, &plain);
    assert_int_equal(ask(scene, &tty, INIT_SPAWN_TTY), 0);
    report(scene, INIT_REPORT_PTY, plain.task.id);
    report(scene, INIT_REPORT_SPAWNED, tty.task.id);
    turn(scene);
    assert_true(plain.spawned == 0 && tty.spawned == 0);
    report(scene, INIT_REPORT_PTY, tty.task.id);
    report(scene, INIT_REPORT_PTY, tty.task.id);
    turn(scene);
    assert_int_equal(tty.spawned, 1);
    assert_true(tty.pty_fd >= 0);
    close(tty.pty_fd);
    /* What was not taken was closed: the next descriptor has the same number. */
    int again = open("/dev/null", O_RDONLY);
    assert_int_equal(again, tty.pty_fd);
    close(again);
    task_forget(&plain.task);
    task_forget(&tty.task);
}

static void expect_broken(struct scene *scene, const void *packet, size_t len)
{
    int calls = scene->link_calls;

    assert_int_equal(send(scene->peer, packet, len, 0), len);
    turn(scene);
    assert_int_equal(scene->link_calls, calls + 1);
    assert_true(scene->link_result < 0);
}

static void noise_ends_the_link(void **state)
{
    expect_broken(*state, "noise", 5);
}

static void a_request_is_no_report(void **state)
{
    struct scene *scene = *state;
    struct frame frame = { .type = INIT_REQUEST_SHUTDOWN };
    int calls = scene->link_calls;

    assert_int_equal(frame_send(scene->peer, &frame, FRAME_WAIT), 0);
    turn(scene);
    assert_int_equal(scene->link_calls, calls + 1);
    assert_int_equal(scene->link_result, -EPROTO);
}

static void a_frame_too_large_ends_the_link(void **state)
{
    static char packet[60000];

    expect_broken(*state, packet, sizeof(packet));
}

static void an_unknown_version_is_told(void **state)
{
    struct init_report m = { .type = INIT_REPORT_HELLO, .hello = { .version = INIT_PROTO_VERSION + 1, .pid = 1 } };
    struct scene *scene = *state;
    char payload[INIT_PROTO_SMALL_MAX];
    struct frame frame;

    assert_int_equal(init_report_encode(&m, payload, sizeof(payload), &frame), 0);
    assert_int_equal(frame_send(scene->peer, &frame, FRAME_WAIT), 0);
    turn(scene);
    assert_int_equal(scene->link_result, -EPROTONOSUPPORT);
}

static void the_end_of_init_is_told(void **state)
{
    struct scene *scene = *state;

    greet(scene);
    close(scene->peer);
    scene->peer = -1;
    turn(scene);
    assert_int_equal(scene->link_result, -ECONNRESET);
}

/* An init that never stops talking keeps nobody else from their turn. */
static void an_endless_talker_is_interrupted(void **state)
{
    struct scene *scene = *state;

    greet(scene);
    for (int i = 0; i < 200; i++)
        report(scene, INIT_REPORT_GONE, 1000);
    turn_for(&scene->reactor, 20);
    assert_int_equal(scene->link_calls, 1);
}

/* What init does not take waits, in order, with its descriptors. */
static void nothing_is_lost_when_init_is_busy(void **state)
{
    static struct job jobs[400];
    static char payload[FRAME_PAYLOAD_MAX];
    struct scene *scene = *state;
    struct frame frame;
    size_t count = ARRAY_LEN(jobs);

    greet(scene);
    for (size_t i = 0; i < count; i++) {
        start(scene, &jobs[i]);
        assert_int_equal(task_kill(&jobs[i].task, SIGKILL, INIT_KILL_TREE, 0), 0);
    }
    assert_true(scene->link.queue_count > 0);
    for (size_t i = 0; i < count; i++) {
        struct init_request request;

        for (int part = 0; part < 2; part++) {
            while (frame_receive(scene->peer, payload, sizeof(payload), FRAME_NOWAIT, &frame) == -EAGAIN)
                turn(scene);
            assert_int_equal(init_request_decode(&frame, &request), 0);
            assert_int_equal(request.type, part == 0 ? INIT_REQUEST_SPAWN : INIT_REQUEST_KILL);
            assert_true(request.id == jobs[i].task.id);
            assert_int_equal(frame.fd_count, part == 0 ? 3 : 0);
            frame_close_fds(&frame);
        }
    }
    turn(scene);
    assert_int_equal(scene->link.queue_count, 0);
    assert_int_equal(frame_receive(scene->peer, payload, sizeof(payload), FRAME_NOWAIT, &frame), -EAGAIN);
    assert_int_equal(scene->link.watch.events, EPOLLIN);
    for (size_t i = 0; i < count; i++)
        task_forget(&jobs[i].task);
}

static void what_waits_is_bounded(void **state)
{
    struct scene *scene = *state;
    struct job *jobs = xalloc(3000 * sizeof(*jobs));
    int r = 0, started = 0;

    greet(scene);
    while (r == 0 && started < 3000) {
        r = ask(scene, &jobs[started], INIT_SPAWN_SESSION);
        started += r == 0;
    }
    assert_int_equal(r, -EAGAIN);
    assert_true(started >= INIT_LINK_SPAWNS_MAX && started < 3000);
    /* One that runs can still be killed. */
    assert_int_equal(task_kill(&jobs[0].task, SIGKILL, INIT_KILL_TREE, 0), 0);
    init_link_close(&scene->link);
    assert_int_equal(task_kill(&jobs[0].task, SIGKILL, INIT_KILL_TREE, 0), -ESRCH);
    free(jobs);
}

static void noise_of_all_kinds(void **state)
{
    struct scene *scene = *state;
    struct job jobs[4];

    greet(scene);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(scene, &jobs[i], i % 2 ? INIT_SPAWN_TTY : INIT_SPAWN_SESSION), 0);
    srand(11);
    for (int i = 0; i < 3000; i++) {
        report(scene, (enum init_report_type)(INIT_REPORT_SPAWNED + rand() % 5), (uint64_t) (1 + rand() % 6));
        turn_for(&scene->reactor, 0);
        for (int j = 0; j < 4; j++) {
            struct job *job = &jobs[j];
            assert_true(job->spawned + job->failed <= 1 && job->exited <= job->spawned && job->gone <= job->exited);
            if (job->pty_fd >= 0)
                close(job->pty_fd);
            job->pty_fd = -1;
        }
    }
    for (int j = 0; j < 4; j++)
        task_forget(&jobs[j].task);
}

#define link_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        link_test(nothing_is_asked_before_hello),
        link_test(a_task_hears_everything_once_and_in_order),
        link_test(reports_of_nobody_mean_nothing),
        link_test(a_failed_one_hears_nothing_more),
        link_test(an_end_without_a_beginning_is_a_failure),
        link_test(a_terminal_comes_once_and_only_to_who_wants_it),
        link_test(noise_ends_the_link),
        link_test(a_request_is_no_report),
        link_test(a_frame_too_large_ends_the_link),
        link_test(an_unknown_version_is_told),
        link_test(the_end_of_init_is_told),
        link_test(an_endless_talker_is_interrupted),
        link_test(nothing_is_lost_when_init_is_busy),
        link_test(what_waits_is_bounded),
        link_test(noise_of_all_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
