/* What the tests of this directory share. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "call/listener.h"

/* A directory of the test's own in *state. */
static inline int dir_setup(void **state)
{
    char *dir = xdup("/tmp/af-call-XXXXXX");

    *state = dir;
    return mkdtemp(dir) && chmod(dir, 0755) == 0 ? 0 : -1;
}

static inline int dir_teardown(void **state)
{
    autofd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = file_remove_tree(tmp, strrchr(*state, '/') + 1);

    free(*state);
    return r;
}

static inline void put_file(const char *path, const void *bytes, size_t len)
{
    autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(fd_write_full(fd, bytes, len), 0);
}

/* A client's end of a connection to where the listener listens; by IPv4 or IPv6 as told, for one that has both. */
static inline int connect_to(const struct listener *listener, int family)
{
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof(address);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || getsockname(listener->fd, (struct sockaddr *) &address, &len) < 0)
        return -1;
    in_port_t port = ((struct sockaddr_in *) &address)->sin_port;
    if (family == AF_INET) {
        struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        memcpy(&address, &in, len = sizeof(in));
    } else if (family == AF_INET6) {
        struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        memcpy(&address, &in6, len = sizeof(in6));
    } else {
        struct sockaddr_un un = { .sun_family = AF_UNIX };
        strcpy(un.sun_path, listener->unlink_path);
        memcpy(&address, &un, len = sizeof(un));
    }
    if (connect(fd, (struct sockaddr *) &address, len) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}
