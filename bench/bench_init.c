/*
 * What a command costs through agentfense-init, against a plain fork and exec of the same program:
 *
 *     bench-init [--json FILE] [PROGRAM [ROUNDS]]      with AGENTFENSE_INIT naming the program init, if not the one built here
 *
 * Both are measured in turn, so that whatever else the machine does meets both alike. Times are medians in microseconds; the
 * last line is the ratio that counts: until the end of the program is known, through init / plain.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "wire/init_proto.h"

#ifndef INIT_PATH
#define INIT_PATH ""
#endif

static const char *program = "/bin/true";

struct result {
    double plain_us, exited_us, gone_us;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench-init: %s\n", what);
    exit(EXIT_FAILURE);
}

static int64_t run_plain(void)
{
    int64_t began_ns = clock_now_ns();
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execl(program, program, (char *) NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        die("the program does not run plainly");
    return clock_now_ns() - began_ns;
}

static void await(int sock, enum init_report_type type)
{
    char buf[INIT_PROTO_SMALL_MAX];
    struct init_report report;
    struct frame frame;

    if (frame_receive(sock, buf, sizeof(buf), FRAME_WAIT, &frame) < 0 || init_report_decode(&frame, &report) < 0 ||
        report.type != type)
        die("init does not answer as expected");
    if (type == INIT_REPORT_EXITED && report.exited.status != 0)
        die("the program fails through init");
}

static void run_through_init(int sock, uint64_t id, int null_fd, int64_t *ret_exited_ns, int64_t *ret_gone_ns)
{
    static char buf[FRAME_PAYLOAD_MAX];
    const char *const argv[] = { program, NULL };
    const char *const envp[] = { "PATH=/usr/bin:/bin", NULL };
    const int fds[] = { null_fd, null_fd, null_fd };
    const struct init_command command = { .cwd = "/", .argv = argv, .envp = envp, .fds = fds, .fd_count = 3 };
    const struct init_spawn spawn = { .flags = INIT_SPAWN_SESSION };
    int64_t began_ns = clock_now_ns();
    struct frame frame;
    int fd;

    if (init_spawn_encode(id, &spawn, &command, buf, &frame, &fd) < 0 || frame_send(sock, &frame, FRAME_WAIT) < 0)
        die("cannot send");
    await(sock, INIT_REPORT_SPAWNED);
    await(sock, INIT_REPORT_EXITED);
    *ret_exited_ns = clock_now_ns() - began_ns;
    await(sock, INIT_REPORT_GONE);
    *ret_gone_ns = clock_now_ns() - began_ns;
}

static int start_init(const char *path, pid_t *ret_pid)
{
    int ends[2];
    char number[16];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0)
        die("no socket");
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    snprintf(number, sizeof(number), "%d", ends[1]);
    *ret_pid = fork();
    if (*ret_pid == 0) {
        execl(path, path, "--fd", number, (char *) NULL);
        _exit(127);
    }
    close(ends[1]);
    await(ends[0], INIT_REPORT_HELLO);
    return ends[0];
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *) a, y = *(const int64_t *) b;

    return (x > y) - (x < y);
}

static double median_us(int64_t *ns, size_t count)
{
    qsort(ns, count, sizeof(*ns), by_value);
    return (double) ns[count / 2] / 1000;
}

static struct result measure(int sock, size_t rounds)
{
    autofree int64_t *plain = xalloc(rounds * sizeof(*plain));
    autofree int64_t *exited = xalloc(rounds * sizeof(*exited));
    autofree int64_t *gone = xalloc(rounds * sizeof(*gone));
    autofd int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (size_t i = 0; i < rounds; i++) {
        plain[i] = run_plain();
        run_through_init(sock, i + 1, null_fd, &exited[i], &gone[i]);
    }
    return (struct result){ .plain_us = median_us(plain, rounds),
                            .exited_us = median_us(exited, rounds),
                            .gone_us = median_us(gone, rounds) };
}

static void print(const struct result *result)
{
    printf("plain fork+exec+wait   %8.1f us\n", result->plain_us);
    printf("through init, EXITED   %8.1f us\n", result->exited_us);
    printf("through init, GONE     %8.1f us\n", result->gone_us);
    printf("ratio                  %8.2f\n", result->exited_us / result->plain_us);
}

static void write_json(const char *path, const struct result *result)
{
    autofile FILE *f = fopen(path, "we");

    if (!f)
        die("cannot write the figures");
    fprintf(f, "{\"plain_us\": %.1f, \"exited_us\": %.1f, \"gone_us\": %.1f, \"rows\": [\n", result->plain_us,
            result->exited_us, result->gone_us);
    fprintf(f, "  {\"what\": \"a command by init alone / fork+exec\", \"value\": %.3f, \"unit\": \"x\", \"target\": null, ",
            result->exited_us / result->plain_us);
    fprintf(f, "\"verdict\": \"\"}\n]}\n");
}

int main(int argc, char **argv)
{
    const char *init = getenv("AGENTFENSE_INIT"), *json = NULL;
    struct result result;
    size_t rounds = 1000;
    pid_t pid;
    int sock;

    if (argc > 2 && strcmp(argv[1], "--json") == 0) {
        json = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc > 1)
        program = argv[1];
    if (argc > 2)
        rounds = strtoul(argv[2], NULL, 10);
    if (argc > 3 || rounds == 0)
        die("usage: bench-init [--json FILE] [PROGRAM [ROUNDS]]");
    sock = start_init(init ? init : INIT_PATH, &pid);
    result = measure(sock, rounds);
    print(&result);
    if (json)
        write_json(json, &result);
    close(sock);
    waitpid(pid, NULL, 0);
    return EXIT_SUCCESS;
}
