#include "container_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "container/init_socket.h"
#include "wire/init_proto.h"

struct door {
    char dir[32];
    int dir_fd, fd;
};

static int set_up(void **state)
{
    struct door *door = xnew(struct door);

    strcpy(door->dir, "/tmp/af-door-XXXXXX");
    assert_non_null(mkdtemp(door->dir));
    door->dir_fd = open(door->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(init_socket_open(door->dir_fd, &door->fd, NULL), 0);
    *state = door;
    return 0;
}

static int tear_down(void **state)
{
    struct door *door = *state;

    unlinkat(door->dir_fd, INIT_SOCKET_NAME, 0);
    close(door->dir_fd);
    cleanup_fd(&door->fd);
    rmdir(door->dir);
    free(door);
    return 0;
}

static int knock(const struct door *door)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/" INIT_SOCKET_NAME, door->dir);
    if (connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -errno;
}

static void whoever_is_expected_gets_the_descriptor(void **state)
{
    struct door *door = *state;
    autofd int guest = knock(door), host = -1, pidfd = -1, gift = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct frame frame;
    struct stat a, b;
    pid_t pid = 0;
    int got;

    assert_true(guest >= 0);
    assert_int_equal(init_socket_accept(door->fd, geteuid(), &host, &pid, &pidfd, NULL), 0);
    assert_true(pid == getpid() && pidfd >= 0);
    assert_int_equal(init_socket_pass_fd(host, gift, NULL), 0);
    assert_int_equal(frame_receive(guest, NULL, 0, FRAME_WAIT, &frame), 0);
    assert_true(frame.type == INIT_SOCKET_FRAME && frame.fd_count == 1);
    got = frame_take_fd(&frame, 0);
    assert_true(fstat(got, &a) == 0 && fstat(gift, &b) == 0 && a.st_rdev == b.st_rdev);
    close(got);
    close(steal_fd(&door->fd));
    assert_int_equal(knock(door), -ECONNREFUSED);
}

static void another_user_is_turned_away(void **state)
{
    struct door *door = *state;
    autofd int guest = knock(door);
    int host = -1, pidfd = -1;
    struct err err = ERR_NONE;
    pid_t pid = 0;

    assert_true(guest >= 0);
    assert_int_equal(init_socket_accept(door->fd, geteuid() + 1, &host, &pid, &pidfd, &err), -EPERM);
    assert_int_equal(err.code, ERR_FAILED_PRECONDITION);
    assert_true(host == -1 && pidfd == -1 && pid == 0);
}

static void who_has_gone_again_is_not_let_in(void **state)
{
    struct door *door = *state;
    int host = -1, pidfd = -1, guest = knock(door);
    pid_t pid = 0;

    assert_true(guest >= 0);
    close(guest);
    assert_int_equal(init_socket_accept(door->fd, geteuid(), &host, &pid, &pidfd, NULL), -ECONNRESET);
    assert_int_equal(host, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whoever_is_expected_gets_the_descriptor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_user_is_turned_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_gone_again_is_not_let_in, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
