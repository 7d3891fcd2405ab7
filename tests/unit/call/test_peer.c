#include "fixture.h"

#include <sched.h>
#include <signal.h>

#include "call/peer.h"

#define OTHER_USER 64321

/* A client in a process of its own, of another user where we may: connects, and stays until its pipe closes. */
struct visitor {
    pid_t pid;
    int stay_fd;
    uid_t uid;
};

static void visit(struct visitor *visitor, const struct listener *listener, int family)
{
    int pipes[2];

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    visitor->uid = geteuid() == 0 ? OTHER_USER : geteuid();
    visitor->pid = fork();
    assert_true(visitor->pid >= 0);
    if (visitor->pid == 0) {
        char c;
        close(pipes[1]);
        if (geteuid() == 0 && setresuid(OTHER_USER, OTHER_USER, OTHER_USER) < 0)
            _exit(1);
        if (connect_to(listener, family) < 0)
            _exit(2);
        _exit(read(pipes[0], &c, 1) == 0 ? 0 : 3);
    }
    close(pipes[0]);
    visitor->stay_fd = pipes[1];
}

static void leave(struct visitor *visitor)
{
    int status = -1;

    close(visitor->stay_fd);
    assert_int_equal(waitpid(visitor->pid, &status, 0), visitor->pid);
    assert_int_equal(status, 0);
}

static int take(const struct listener *listener)
{
    int fd = -1;

    for (int i = 0; i < 60000 && fd < 0; i++) {
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            usleep(1000);
    }
    assert_true(fd >= 0);
    return fd;
}

static void meet(const char *address, int family, enum peer_kind kind, const char *text)
{
    struct listener listener = LISTENER_NONE;
    struct visitor visitor;
    struct peer peer = { 0 };
    uid_t uid = (uid_t) -1;

    assert_int_equal(listener_open(&listener, address, 0666, NULL), 0);
    visit(&visitor, &listener, family);
    autofd int fd = take(&listener);
    assert_int_equal(peer_init(&peer, fd), 0);
    leave(&visitor);
    assert_int_equal(peer.kind, kind);
    assert_int_equal(strncmp(peer.text, text, strlen(text)), 0);
    assert_int_equal(peer_uid(&peer, &uid), 0);
    assert_int_equal(uid, visitor.uid);
    peer_done(&peer);
    listener_done(&listener);
}

static void the_user_of_a_unix_peer_is_known(void **state)
{
    autofree char *address = xprintf("unix:%s/a.sock", (char *) *state);

    meet(address, AF_UNIX, PEER_UNIX, "unix:");
}

static void the_user_of_a_loopback_peer_is_known(void **state)
{
    (void) state;
    meet("127.0.0.1:0", AF_INET, PEER_LOOPBACK, "127.0.0.1:");
    meet("[::1]:0", AF_INET6, PEER_LOOPBACK, "[::1]:");
    /* An IPv4 client of a socket with both families. */
    meet(":0", AF_INET, PEER_LOOPBACK, "127.0.0.1:");
    meet(":0", AF_INET6, PEER_LOOPBACK, "[::1]:");
}

/* An IPv6 socket that reaches an IPv4 address. */
static void a_mapped_client_is_known(void **state)
{
    struct listener listener = LISTENER_NONE;
    struct sockaddr_in in;
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
    socklen_t len = sizeof(in);
    struct peer peer;
    uid_t uid;
    (void) state;

    assert_int_equal(listener_open(&listener, "127.0.0.1:0", 0, NULL), 0);
    assert_int_equal(getsockname(listener.fd, (struct sockaddr *) &in, &len), 0);
    autofd int client = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    in6.sin6_port = in.sin_port;
    memcpy(in6.sin6_addr.s6_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
    assert_int_equal(connect(client, (struct sockaddr *) &in6, sizeof(in6)), 0);
    autofd int fd = take(&listener);
    assert_int_equal(peer_init(&peer, fd), 0);
    assert_int_equal(peer_uid(&peer, &uid), 0);
    assert_int_equal(uid, geteuid());
    peer_done(&peer);
    listener_done(&listener);
}

/* The kernel would say 0 of a connection that no process holds any more, and that is root. */
static void a_client_that_has_gone_is_nobody(void **state)
{
    (void) state;
    for (int reset = 0; reset < 2; reset++) {
        const struct linger at_once = { .l_onoff = 1 };
        struct listener listener = LISTENER_NONE;
        struct peer peer = { 0 };
        uid_t uid = 77;

        assert_int_equal(listener_open(&listener, "127.0.0.1:0", 0, NULL), 0);
        int client = connect_to(&listener, AF_INET);
        autofd int fd = take(&listener);
        assert_int_equal(write(client, "x", 1), 1);
        if (reset)
            setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        close(client);
        int r = peer_init(&peer, fd);
        if (r == 0)
            assert_int_equal(peer_uid(&peer, &uid), -ENOENT);
        else
            assert_int_equal(r, -ENOTCONN);
        assert_int_equal(uid, 77);
        peer_done(&peer);
        listener_done(&listener);
    }
}

/* ---- whose process it is ---- */

struct met {
    struct listener listener;
    struct peer peer;
    int client, fd;
};

static void met_init(struct met *met, const char *address, int family)
{
    *met = (struct met){ .listener = LISTENER_NONE };
    assert_int_equal(listener_open(&met->listener, address, 0, NULL), 0);
    met->client = connect_to(&met->listener, family);
    assert_true(met->client >= 0);
    met->fd = take(&met->listener);
    assert_int_equal(peer_init(&met->peer, met->fd), 0);
}

static void met_done(struct met *met)
{
    peer_done(&met->peer);
    if (met->client >= 0)
        close(met->client);
    close(met->fd);
    listener_done(&met->listener);
}

static void expect_refusal(const struct peer *peer, const char *part)
{
    struct err err = ERR_NONE;

    assert_true(peer_check_process(peer, &err) < 0);
    assert_int_equal(err.code, ERR_UNAUTHENTICATED);
    if (!strstr(err.text, part))
        fail_msg("'%s' does not say '%s'", err.text, part);
}

static void a_process_beside_us_is_the_user_s_own(void **state)
{
    autofree char *address = xprintf("unix:%s/a.sock", (char *) *state);
    const struct {
        const char *address;
        int family;
    } ways[] = { { address, AF_UNIX }, { "127.0.0.1:0", AF_INET }, { "[::1]:0", AF_INET6 }, { ":0", AF_INET } };
    struct met met;

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        met_init(&met, ways[i].address, ways[i].family);
        assert_int_equal(peer_check_process(&met.peer, NULL), 0);
        /* It is not asked again. */
        close(met.client);
        met.client = -1;
        assert_int_equal(peer_check_process(&met.peer, NULL), 0);
        met_done(&met);
    }
}

static void a_connection_that_was_closed_is_nobody_s(void **state)
{
    autofree char *address = xprintf("unix:%s/a.sock", (char *) *state);

    for (int i = 0; i < 2; i++) {
        struct met met;

        met_init(&met, i ? address : "127.0.0.1:0", i ? AF_UNIX : AF_INET);
        close(met.client);
        met.client = -1;
        expect_refusal(&met.peer, "");
        met_done(&met);
    }
}

/* In a message that nobody has read, where no process holds it. */
static void a_connection_on_its_way_is_nobody_s(void **state)
{
    autofree char *address = xprintf("unix:%s/a.sock", (char *) *state);

    for (int i = 0; i < 2; i++) {
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
        char text[] = "x";
        struct iovec byte = { .iov_base = text, .iov_len = 1 };
        struct msghdr message = {
            .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes)
        };
        struct met met;
        int ends[2];

        met_init(&met, i ? address : "127.0.0.1:0", i ? AF_UNIX : AF_INET);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        memcpy(CMSG_DATA(&control.header), &met.client, sizeof(int));
        assert_int_equal(sendmsg(ends[0], &message, 0), 1);
        close(met.client);
        met.client = -1;
        expect_refusal(&met.peer, "cannot be found");
        close(ends[0]);
        close(ends[1]);
        met_done(&met);
    }
}

/* A child that holds the connection as well, in a user namespace of its own. */
static void a_connection_that_another_namespace_holds_too_is_nobody_s(void **state)
{
    int ready[2], status = -1;
    struct met met;
    char c;
    (void) state;

    met_init(&met, "127.0.0.1:0", AF_INET);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(met.fd);
        c = unshare(CLONE_NEWUSER) == 0 ? 'y' : 'n';
        if (write(ready[1], &c, 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    if (c == 'y')
        expect_refusal(&met.peer, "namespace");
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
    met_done(&met);
    if (c != 'y')
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_user_of_a_unix_peer_is_known, dir_setup, dir_teardown),
        cmocka_unit_test(the_user_of_a_loopback_peer_is_known),
        cmocka_unit_test(a_mapped_client_is_known),
        cmocka_unit_test(a_client_that_has_gone_is_nobody),
        cmocka_unit_test_setup_teardown(a_process_beside_us_is_the_user_s_own, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_connection_that_was_closed_is_nobody_s, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_connection_on_its_way_is_nobody_s, dir_setup, dir_teardown),
        cmocka_unit_test(a_connection_that_another_namespace_holds_too_is_nobody_s),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
