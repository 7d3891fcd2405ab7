/*
 * What bench_exec.py measures from within one small process, so that no interpreter is in the figures:
 *
 *     bench-ctl make DIR NAME BASE [IMAGE ENGINE]
 *                                       makes the directory of a sandbox over BASE, as state_dir_create() would
 *     bench-ctl rounds DIR COUNT        a plain fork and exec of /bin/true, an exec of it in the running sandbox DIR, and the
 *                                       builtin ":" in a session there, in turn; prints the three times of each round in us
 *     bench-ctl first COMMAND...        starts it; prints the time to its first byte of output and to its end, in us
 *     bench-ctl all DIR...              one exec of /bin/true in each, asked for at once; prints the time until all have ended
 *     bench-ctl stop DIR...             stops them
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "wire/ctl_client.h"
#include "wire/sandbox_spec.h"

#define WAIT_MS 120000
#define TAG 1
#define RULE_GLOB 0
#define LEVEL_WRITE 3
#define WARM_ROUNDS 5

static char buf[FRAME_PAYLOAD_MAX];
static const char *const true_argv[] = { "/bin/true", NULL };
static const char *const builtin_argv[] = { ":", NULL };

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench-ctl: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static int connect_to(const char *dir)
{
    autofd int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct err err = ERR_NONE;
    int fd;

    if (dir_fd < 0)
        die(dir, strerror(errno));
    if (ctl_client_connect(dir_fd, &fd, &err) < 0)
        die(dir, err.text);
    return fd;
}

static void ask(int fd, enum ctl_request_type type, const struct ctl_command *command)
{
    struct ctl_run run = { 0 };
    autofd int strings_fd = -1;
    struct err err = ERR_NONE;
    struct frame frame;

    if (ctl_run_encode(type, TAG, &run, command, -1, buf, &frame, &strings_fd) < 0)
        die("a request", "cannot be encoded");
    if (ctl_client_send(fd, &frame, WAIT_MS, &err) < 0)
        die("a request", err.text);
}

static void await_finished(int fd)
{
    struct ctl_reply reply;
    struct frame frame;

    for (;;) {
        int r = ctl_client_receive(fd, buf, WAIT_MS, &frame, &reply);

        if (r < 0)
            die("a reply", strerror(-r));
        frame_close_fds(&frame);
        if (reply.type == CTL_REPLY_ERROR)
            die("the supervisor", reply.error.text);
        if (reply.type != CTL_REPLY_FINISHED)
            continue;
        if (reply.finished.end != CTL_END_EXITED || reply.finished.status != 0)
            die("the command", reply.finished.text);
        return;
    }
}

static double run_in(int fd, enum ctl_request_type type, const char *session, const char *const *argv)
{
    struct ctl_command command = { .name = "", .session = session, .cwd = "", .argv = argv };
    int64_t began_ns = clock_now_ns();

    ask(fd, type, &command);
    await_finished(fd);
    return (double) (clock_now_ns() - began_ns) / 1000;
}

static double run_plain(void)
{
    int64_t began_ns = clock_now_ns();
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execl("/bin/true", "true", (char *) NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        die("/bin/true", "does not run plainly");
    return (double) (clock_now_ns() - began_ns) / 1000;
}

static void open_session(int fd, char name[CTL_NAME_MAX])
{
    struct ctl_command command = { .name = "", .session = "", .cwd = "" };
    struct ctl_reply reply;
    struct err err = ERR_NONE;

    ask(fd, CTL_REQUEST_SESSION_OPEN, &command);
    if (ctl_client_await(fd, TAG, &reply, buf, WAIT_MS, &err) < 0)
        die("a session", err.text);
    memcpy(name, reply.ok.name, CTL_NAME_MAX);
}

static int rounds(const char *dir, const char *count)
{
    int fd = connect_to(dir);
    char session[CTL_NAME_MAX];

    open_session(fd, session);
    for (int i = -WARM_ROUNDS; i < atoi(count); i++) {
        double plain = run_plain();
        double exec = run_in(fd, CTL_REQUEST_EXEC, "", true_argv);
        double builtin = run_in(fd, CTL_REQUEST_SESSION_EXEC, session, builtin_argv);

        if (i >= 0)
            printf("%.1f %.1f %.1f\n", plain, exec, builtin);
    }
    return 0;
}

static int first(char **command)
{
    posix_spawn_file_actions_t actions;
    int64_t began_ns, first_ns;
    int fds[2], status, r;
    char byte;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        die("a pipe", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    began_ns = clock_now_ns();
    r = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
    if (r)
        die(command[0], strerror(r));
    close(fds[1]);
    if (read(fds[0], &byte, 1) != 1)
        die(command[0], "printed nothing");
    first_ns = clock_now_ns();
    while (read(fds[0], &byte, 1) > 0)
        ;
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        die(command[0], "failed");
    printf("%.1f %.1f\n", (double) (first_ns - began_ns) / 1000, (double) (clock_now_ns() - began_ns) / 1000);
    return 0;
}

static int make(const char *dir, const char *name, const char *base, const char *image, const char *engine)
{
    autoptr(sandbox_spec) spec = xnew(struct sandbox_spec);
    struct err err = ERR_NONE;

    spec->name = xdup(name);
    spec->base_path = xdup(base);
    spec->runtime = xdup(image ? "docker" : "bwrap");
    spec->image = xdup(image ? image : "");
    spec->engine = xdup(engine ? engine : "");
    spec->no_pull = true;
    spec->hostname = xdup("");
    spec->is_live = true;
    spec->created_ns = (uint64_t) clock_wall_ns();
    sandbox_spec_add_rule(spec, "**/*", RULE_GLOB, LEVEL_WRITE, 0);
    sandbox_spec_add_rule(spec, ".env", RULE_GLOB, 0, 100);
    if (mkdir(dir, 0700) < 0)
        die(dir, strerror(errno));
    autofd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, "mnt", 0700) < 0)
        die(dir, strerror(errno));
    if (sandbox_spec_store(fd, spec, false, &err) < 0)
        die(dir, err.text);
    return 0;
}

static int all(int count, char **dirs)
{
    struct ctl_command command = { .name = "", .session = "", .cwd = "", .argv = true_argv };
    autofree int *fds = xalloc((size_t) count * sizeof(*fds));
    int64_t began_ns;

    for (int i = 0; i < count; i++)
        fds[i] = connect_to(dirs[i]);
    began_ns = clock_now_ns();
    for (int i = 0; i < count; i++)
        ask(fds[i], CTL_REQUEST_EXEC, &command);
    for (int i = 0; i < count; i++)
        await_finished(fds[i]);
    printf("%.1f\n", (double) (clock_now_ns() - began_ns) / 1000);
    return 0;
}

static int stop(int count, char **dirs)
{
    struct ctl_request request = { .type = CTL_REQUEST_STOP, .tag = TAG };
    struct err err = ERR_NONE;
    struct frame frame;

    for (int i = 0; i < count; i++) {
        int fd = connect_to(dirs[i]);

        if (ctl_request_encode(&request, buf, sizeof(buf), &frame) == 0)
            ctl_client_send(fd, &frame, WAIT_MS, &err);
        close(fd);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";

    signal(SIGPIPE, SIG_IGN);
    if (strcmp(verb, "make") == 0 && (argc == 5 || argc == 7))
        return make(argv[2], argv[3], argv[4], argv[5], argc == 7 ? argv[6] : NULL);
    if (strcmp(verb, "rounds") == 0 && argc == 4)
        return rounds(argv[2], argv[3]);
    if (strcmp(verb, "first") == 0 && argc > 2)
        return first(argv + 2);
    if (strcmp(verb, "all") == 0 && argc > 2)
        return all(argc - 2, argv + 2);
    if (strcmp(verb, "stop") == 0 && argc > 2)
        return stop(argc - 2, argv + 2);
    fprintf(stderr, "usage: bench-ctl make|rounds|first|all|stop ...; see bench/exec/bench_ctl.c\n");
    return 2;
}
