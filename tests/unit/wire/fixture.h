/* What the tests of this directory share: a pair of sockets, raw packets, many strings, and a count of open descriptors. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "wire/frame.h"

#define count_of(array) (sizeof(array) / sizeof((array)[0]))

static inline int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

struct pair {
    int a, b;
    int fds_before;
};

static inline int pair_setup(void **state)
{
    struct pair *p = malloc(sizeof(*p));
    int ends[2];

    p->fds_before = count_fds();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    p->a = ends[0];
    p->b = ends[1];
    *state = p;
    return 0;
}

/* Whatever the test did, it must have left as many descriptors as there were. */
static inline int pair_teardown(void **state)
{
    struct pair *p = *state;
    int before = p->fds_before;

    cleanup_fd(&p->a);
    cleanup_fd(&p->b);
    free(p);
    return count_fds() == before ? 0 : -1;
}

#define pair_test(f) cmocka_unit_test_setup_teardown(f, pair_setup, pair_teardown)

/* A packet as a stranger may send it, with any number of descriptors, all the same one. */
static inline void send_raw(int sock, const void *bytes, size_t len, size_t fd_count, int fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { (void *) bytes, len };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    assert_true(fd_count <= 64);
    if (fd_count > 0) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        for (size_t i = 0; i < fd_count; i++)
            memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &fd, sizeof(int));
    }
    assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), (ssize_t) len);
}

/* `count` strings of `len` bytes each, their NUL included. */
static inline const char **many_strings(size_t count, size_t len)
{
    const char **strings = calloc(count + 1, sizeof(*strings));
    char *text = malloc(len);

    memset(text, 'x', len - 1);
    text[len - 1] = '\0';
    for (size_t i = 0; i < count; i++)
        strings[i] = text;
    return strings;
}

static inline void free_strings(const char **strings)
{
    free((void *) strings[0]);
    free(strings);
}
