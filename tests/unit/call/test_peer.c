#include "fixture.h"

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

    for (int i = 0; i < 5000 && fd < 0; i++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_user_of_a_unix_peer_is_known, dir_setup, dir_teardown),
        cmocka_unit_test(the_user_of_a_loopback_peer_is_known),
        cmocka_unit_test(a_mapped_client_is_known),
        cmocka_unit_test(a_client_that_has_gone_is_nobody),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
