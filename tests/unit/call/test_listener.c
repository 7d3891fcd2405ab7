#include "fixture.h"

static void open_ok(struct listener *listener, const char *address)
{
    struct err err = ERR_NONE;

    if (listener_open(listener, address, 0, &err) < 0)
        fail_msg("%s: %s", address, err.text);
}

static void refused(const char *address, int expected)
{
    struct listener listener = LISTENER_NONE;
    struct err err = ERR_NONE;

    assert_int_equal(listener_open(&listener, address, 0, &err), expected);
    assert_true(err.code != ERR_OK && err.text[0] != '\0');
    assert_int_equal(listener.fd, -1);
}

static void reachable(const struct listener *listener, int family)
{
    autofd int fd = connect_to(listener, family);

    assert_true(fd >= 0);
    autofd int other = -1;
    for (int i = 0; i < 60000 && other < 0; i++) {
        other = accept(listener->fd, NULL, NULL);
        if (other < 0)
            usleep(1000);
    }
    assert_true(other >= 0);
}

static void a_port_of_the_kernels_choice_is_told(void **state)
{
    struct listener listener = LISTENER_NONE;
    (void) state;

    open_ok(&listener, "127.0.0.1:0");
    assert_int_equal(strncmp(listener.text, "127.0.0.1:", 10), 0);
    assert_true(atoi(listener.text + 10) > 0);
    assert_true(listener.is_loopback && !listener.is_unix);
    assert_int_equal(fcntl(listener.fd, F_GETFD), FD_CLOEXEC);
    assert_true(fcntl(listener.fd, F_GETFL) & O_NONBLOCK);
    reachable(&listener, AF_INET);
    refused(listener.text, -EADDRINUSE);
    listener_done(&listener);
}

static void localhost_and_ipv6_are_loopback(void **state)
{
    struct listener listener = LISTENER_NONE;
    (void) state;

    open_ok(&listener, "localhost:0");
    assert_true(listener.is_loopback);
    reachable(&listener, AF_INET);
    listener_done(&listener);
    open_ok(&listener, "[::1]:0");
    assert_int_equal(strncmp(listener.text, "[::1]:", 6), 0);
    assert_true(listener.is_loopback);
    reachable(&listener, AF_INET6);
    assert_int_equal(connect_to(&listener, AF_INET), -1);
    listener_done(&listener);
}

static void a_port_alone_is_both_families(void **state)
{
    struct listener listener = LISTENER_NONE;
    (void) state;

    open_ok(&listener, ":0");
    assert_false(listener.is_loopback);
    reachable(&listener, AF_INET);
    reachable(&listener, AF_INET6);
    listener_done(&listener);
    open_ok(&listener, "0.0.0.0:0");
    assert_false(listener.is_loopback);
    listener_done(&listener);
}

static void what_is_no_address_is_refused(void **state)
{
    static const char *const bad[] = { "",
                                       "9000",
                                       "127.0.0.1",
                                       "127.0.0.1:",
                                       "127.0.0.1:65536",
                                       "127.0.0.1:-1",
                                       "127.0.0.1:+1",
                                       "::1:9000",
                                       "[::1:9000",
                                       "[::1]9000",
                                       "[]:1x",
                                       "example.org:80",
                                       "unix:x.sock",
                                       "unix:",
                                       "unix:/",
                                       "1.2.3:1",
                                       "[1.2]:1",
                                       "127.0.0.1:00000000080" };
    (void) state;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        refused(bad[i], -EINVAL);
    refused("unix:/nowhere/at/all/x.sock", -ENOENT);
}

static int count_entries(const char *dir)
{
    autofree char *command = xprintf("ls -A %s | wc -l", dir);
    FILE *out = popen(command, "r");
    int count = -1;

    assert_non_null(out);
    assert_int_equal(fscanf(out, "%d", &count), 1);
    pclose(out);
    return count;
}

static void a_unix_socket_has_its_mode_and_goes_at_the_end(void **state)
{
    autofree char *address = xprintf("unix:%s/a.sock", (char *) *state);
    struct listener listener = LISTENER_NONE;
    struct stat st;

    mode_t before = umask(0);
    open_ok(&listener, address);
    umask(before);
    assert_string_equal(listener.text, address);
    assert_true(listener.is_unix && listener.is_loopback);
    assert_int_equal(lstat(address + 5, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    reachable(&listener, AF_UNIX);
    assert_int_equal(count_entries(*state), 1);
    listener_done(&listener);
    assert_int_equal(lstat(address + 5, &st), -1);
    assert_int_equal(listener_open(&listener, address, 0666, NULL), 0);
    assert_int_equal(lstat(address + 5, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0666);
    listener_done(&listener);
}

static void a_living_unix_socket_is_refused_and_a_dead_one_replaced(void **state)
{
    autofree char *address = xprintf("unix:%s/a.sock", (char *) *state);
    struct listener first = LISTENER_NONE, second = LISTENER_NONE;

    open_ok(&first, address);
    refused(address, -EADDRINUSE);
    reachable(&first, AF_UNIX); /* the trial was one connection, this is another */
    /* As after a crash: the file stays, nobody listens. */
    close(first.fd);
    first.fd = -1;
    open_ok(&second, address);
    reachable(&second, AF_UNIX);
    /* The file is another's now. */
    listener_done(&first);
    reachable(&second, AF_UNIX);
    assert_int_equal(count_entries(*state), 1);
    listener_done(&second);
    assert_int_equal(count_entries(*state), 0);
}

static void what_is_no_socket_is_left_alone(void **state)
{
    autofree char *address = xprintf("unix:%s/file", (char *) *state);
    autofree char *link = xprintf("%s/link", (char *) *state);
    autofree char *through = xprintf("unix:%s", link);
    struct stat st;

    put_file(address + 5, "x", 1);
    refused(address, -EEXIST);
    assert_int_equal(stat(address + 5, &st), 0);
    assert_int_equal(st.st_size, 1);
    assert_int_equal(symlink("elsewhere", link), 0);
    refused(through, -EEXIST);
    assert_int_equal(lstat(link, &st), 0);
}

static void a_path_longer_than_an_address_is_served(void **state)
{
    char name[160];
    autofree char *dir = NULL, *address = NULL;
    struct listener listener = LISTENER_NONE;
    struct stat st;

    memset(name, 'd', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    dir = xprintf("%s/%s", (char *) *state, name);
    address = xprintf("unix:%s/a.sock", dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    open_ok(&listener, address);
    assert_int_equal(lstat(address + 5, &st), 0);
    listener_done(&listener);
}

static void a_socket_of_systemd_is_taken_over(void **state)
{
    struct listener listener = LISTENER_NONE;
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    (void) state;

    assert_int_equal(bind(fd, (struct sockaddr *) &in, sizeof(in)), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(listener_adopt(&listener, fd, NULL), 0);
    assert_true(listener.is_loopback);
    assert_int_equal(strncmp(listener.text, "127.0.0.1:", 10), 0);
    reachable(&listener, AF_INET);
    listener_done(&listener);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(listener_adopt(&listener, fd, NULL), -EINVAL);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_of_the_kernels_choice_is_told),
        cmocka_unit_test(localhost_and_ipv6_are_loopback),
        cmocka_unit_test(a_port_alone_is_both_families),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test_setup_teardown(a_unix_socket_has_its_mode_and_goes_at_the_end, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_living_unix_socket_is_refused_and_a_dead_one_replaced, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(what_is_no_socket_is_left_alone, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_path_longer_than_an_address_is_served, dir_setup, dir_teardown),
        cmocka_unit_test(a_socket_of_systemd_is_taken_over),
    };
    return cmocka_run_group_tests_name("listener", tests, NULL, NULL);
}
