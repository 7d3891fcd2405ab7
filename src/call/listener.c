#include "call/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "call/address.h"

#define UNIX_PREFIX "unix:"
#define UNIX_MODE 0600
#define HOST_MAX 64

/* Connects through the directory's descriptor, because a path may be longer than a socket address. */
static void address_in(int dir_fd, const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
}

/* 0: the name is free, or a socket that nobody listens on. */
static int check_nobody_listens(int dir_fd, const char *name)
{
    struct sockaddr_un address;
    struct stat st;
    autofd int place = -1, fd = -1;

    /* Connect to the very file that was checked: a symbolic link would lead elsewhere. */
    place = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(place, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", place);
    if (connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0)
        return -EADDRINUSE;
    /* EAGAIN: the queue is full, so somebody listens. EPROTOTYPE: a socket of another type, which is not ours to replace. */
    return errno == ECONNREFUSED ? 0 : -EADDRINUSE;
}

/* The name appears when the socket already listens with its final mode: clients that find it can connect, and nobody else ever could. */
static int bind_unix(struct listener *listener, int dir_fd, const char *name, mode_t mode)
{
    autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    char temp[ID_TEXT_MAX];
    struct sockaddr_un address;
    struct stat st = { 0 };
    int r = 0;

    if (fd < 0)
        return -errno;
    id_new(FILE_TEMP_PREFIX, temp);
    address_in(dir_fd, temp, &address);
    /* bind(2) creates the file with the socket's mode, so it is never open to others. */
    if (fchmod(fd, mode & UNIX_MODE) < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
        return -errno;
    if (fchmodat(dir_fd, temp, mode, 0) < 0 || listen(fd, SOMAXCONN) < 0 ||
        fstatat(dir_fd, temp, &st, AT_SYMLINK_NOFOLLOW) < 0 || renameat(dir_fd, temp, dir_fd, name) < 0)
        r = -errno;
    if (r < 0) {
        unlinkat(dir_fd, temp, 0);
        return r;
    }
    listener->unlink_dev = st.st_dev;
    listener->unlink_ino = st.st_ino;
    listener->fd = steal_fd(&fd);
    return 0;
}

/* Splits "/run/x.sock" into the directory and the name in it. */
static int open_parent(const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    autofree char *dir = NULL;

    if (!slash || slash[1] == '\0')
        return -EINVAL;
    dir = slash == path ? xdup("/") : xdupn(path, (size_t) (slash - path));
    *ret_name = slash + 1;
    int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_unix(struct listener *listener, const char *path, mode_t mode, struct err *err)
{
    const char *name = NULL;
    autofd int dir_fd = -1;

    if (path[0] != '/')
        return err_reject(err, -EINVAL, path, "is no absolute path for a socket");
    dir_fd = open_parent(path, &name);
    if (dir_fd < 0)
        return err_errno(err, dir_fd, "opening the directory of the socket '%s'", path);
    int r = check_nobody_listens(dir_fd, name);
    if (r == -EADDRINUSE)
        return err_set(err, ERR_ALREADY_EXISTS, r, "somebody listens on '%s' already", path);
    if (r == -EEXIST)
        return err_set(err, ERR_ALREADY_EXISTS, r, "'%s' is there and is no socket", path);
    if (r == 0)
        r = bind_unix(listener, dir_fd, name, mode ? mode : UNIX_MODE);
    if (r < 0)
        return err_errno(err, r, "listening on '%s'", path);
    listener->text = xprintf(UNIX_PREFIX "%s", path);
    listener->unlink_path = xdup(path);
    listener->is_loopback = listener->is_unix = true;
    return 0;
}

/* "host:port" and "[host]:port"; an empty host means every address. */
static int split_address(const char *address, char host[HOST_MAX], const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address, *end = colon;

    if (!colon || strspn(colon + 1, "0123456789") != strlen(colon + 1) || colon[1] == '\0' || strlen(colon + 1) > 5 ||
        atoi(colon + 1) > UINT16_MAX)
        return -EINVAL;
    if (*begin == '[') {
        begin++;
        if (end <= begin || *--end != ']' || !memchr(begin, ':', (size_t) (end - begin)))
            return -EINVAL;
    } else if (memchr(begin, ':', (size_t) (end - begin))) {
        return -EINVAL; /* an IPv6 address without brackets: which colon is the port's? */
    }
    if ((size_t) (end - begin) >= HOST_MAX)
        return -EINVAL;
    memcpy(host, begin, (size_t) (end - begin));
    host[end - begin] = '\0';
    *ret_port = colon + 1;
    return 0;
}

static int bind_tcp(struct listener *listener, const char *host, const char *port)
{
    const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM };
    struct addrinfo *info = NULL;
    struct in_addr whole;
    const int yes = 1, no = 0;

    /* getaddrinfo() would also take "1.2.3" for 1.2.0.3. */
    if (!strchr(host, ':') && inet_pton(AF_INET, host, &whole) != 1)
        return -EINVAL;
    if (getaddrinfo(host, port, &hints, &info) != 0)
        return -EINVAL;
    autofd int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -errno : 0;
    /* REUSEADDR: connections of an earlier server in TIME_WAIT must not keep us from the port. It does not let two
     * listen at once. */
    if (r == 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
                   (info->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) < 0) ||
                   bind(fd, info->ai_addr, info->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0))
        r = -errno;
    freeaddrinfo(info);
    if (r == 0)
        listener->fd = steal_fd(&fd);
    return r;
}

/* Asks the kernel for the address, because the kernel chose the port if 0 was requested. */
static int listener_describe(struct listener *listener)
{
    struct sockaddr_storage address = { 0 };
    socklen_t len = sizeof(address);
    char text[ADDRESS_TEXT_MAX];

    if (getsockname(listener->fd, (struct sockaddr *) &address, &len) < 0)
        return -errno;
    address_format(&address, len, text);
    listener->text = xdup(text);
    listener->is_unix = address.ss_family == AF_UNIX;
    listener->is_loopback = listener->is_unix || address_is_loopback(&address);
    return 0;
}

static int open_tcp(struct listener *listener, const char *address, struct err *err)
{
    char host[HOST_MAX];
    const char *port, *first = host, *second = NULL;

    if (split_address(address, host, &port) < 0)
        return err_reject(err, -EINVAL, address, "is no address to listen on: HOST:PORT, [HOST]:PORT, :PORT or unix:PATH");
    if (strcmp(host, "localhost") == 0) {
        first = "127.0.0.1";
        second = "::1";
    } else if (host[0] == '\0') {
        first = "::";
        second = "0.0.0.0";
    }
    int r = bind_tcp(listener, first, port);
    if ((r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL) && second)
        r = bind_tcp(listener, second, port);
    if (r == -EINVAL)
        return err_reject(err, r, address, "is no address to listen on: names other than localhost are not looked up");
    if (r == 0)
        r = listener_describe(listener);
    if (r == -EADDRINUSE)
        return err_set(err, ERR_ALREADY_EXISTS, r, "somebody listens on '%s' already", address);
    return r < 0 ? err_errno(err, r, "listening on '%s'", address) : 0;
}

int listener_open(struct listener *listener, const char *address, mode_t unix_mode, struct err *err)
{
    struct listener made = LISTENER_NONE;
    int r;

    if (strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        r = open_unix(&made, address + strlen(UNIX_PREFIX), unix_mode, err);
    else
        r = open_tcp(&made, address, err);
    if (r < 0) {
        listener_done(&made);
        return r;
    }
    *listener = made;
    return 0;
}

int listener_adopt(struct listener *listener, int fd, struct err *err)
{
    struct listener made = { .fd = fd };
    int listens = 0, r = 0;
    socklen_t len = sizeof(listens);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
        r = -errno;
    else if (!listens)
        r = -EINVAL;
    if (r == 0)
        r = fd_set_nonblock(fd, true);
    if (r == 0)
        r = fd_cloexec(fd, true);
    if (r == 0)
        r = listener_describe(&made);
    if (r < 0) {
        listener_done(&made);
        return err_errno(err, r, "taking over the listening socket %d", fd);
    }
    *listener = made;
    return 0;
}

static void remove_file(const struct listener *listener)
{
    const char *name = NULL;
    struct stat st;
    autofd int dir_fd = open_parent(listener->unlink_path, &name);

    /* Another server may have replaced the file and listen on it. */
    if (dir_fd >= 0 && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == listener->unlink_dev &&
        st.st_ino == listener->unlink_ino)
        unlinkat(dir_fd, name, 0);
}

void listener_done(struct listener *listener)
{
    if (listener->unlink_path)
        remove_file(listener);
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener->text);
    free(listener->unlink_path);
    *listener = LISTENER_NONE;
}
