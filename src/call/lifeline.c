#include "call/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/mem.h"

int lifeline_open_dir(int state_fd, bool create, int *ret_fd, struct err *err)
{
    struct stat st;
    int r = create && mkdirat(state_fd, LIFELINE_DIR, 0700) < 0 && errno != EEXIST ? -errno : 0;
    autofd int fd = r < 0 ? r : openat(state_fd, LIFELINE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (r == 0 && (fd < 0 || fstat(fd, &st) < 0))
        r = -errno;
    if (r < 0)
        return err_errno(err, r, "opening the directory '" LIFELINE_DIR "' of the state directory");
    if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return err_set(err, ERR_FAILED_PRECONDITION, -EPERM,
                       "the directory '" LIFELINE_DIR
                       "' of the state directory has mode %04o and belongs to uid %u; it must have "
                       "mode 0700 and belong to you: remove it",
                       (unsigned) st.st_mode & 07777, (unsigned) st.st_uid);
    *ret_fd = steal_fd(&fd);
    return 0;
}

int lifeline_connect(int dir_fd, const char *line)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    autofree char *text = xprintf("%s\n", line);

    /* The path of the directory may be too long for a socket's address. */
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" LIFELINE_SOCKET, dir_fd);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0)
        return errno == ECONNREFUSED ? -ENOENT : -errno;
    /* A server that has just ended is noticed when its answer is read. */
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        return -errno;
    return steal_fd(&fd);
}

int lifeline_read_answer(int fd, int cancel_fd, char ret[LIFELINE_LINE_MAX])
{
    struct pollfd fds[] = { { .fd = fd, .events = POLLIN }, { .fd = cancel_fd, .events = POLLIN } };
    size_t len = 0;

    for (;;) {
        if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            return -ECANCELED;
        ssize_t n = recv(fd, ret + len, LIFELINE_LINE_MAX - 1 - len, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return 0;
        len += (size_t) n;
        ret[len] = '\0';
        char *end = strchr(ret, '\n');
        if (end) {
            *end = '\0';
            return 1;
        }
    }
}

/* Shells change these from one command to the next. */
static bool is_volatile_variable(const char *assignment)
{
    static const char *const names[] = { "_=", "PWD=", "OLDPWD=", "SHLVL=" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strncmp(assignment, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

void lifeline_use_line(const char *settings, char ret[LIFELINE_LINE_MAX])
{
    static const char *const namespaces[] = { "/proc/self/ns/user", "/proc/self/ns/pid", "/proc/self/ns/mnt" };
    const mode_t mask = umask(077);
    uint64_t hash = hash_text(settings), environment = hash_add(HASH_START, &mask, sizeof(mask));
    struct stat st;

    umask(mask);
    for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
        if (stat(namespaces[i], &st) == 0)
            hash = hash_add(hash, &st.st_ino, sizeof(st.st_ino));
    }
    /* A sum: the order of variables means nothing. */
    for (char **at = environ; at && *at; at++)
        environment += is_volatile_variable(*at) ? 0 : hash_text(*at);
    snprintf(ret, LIFELINE_LINE_MAX, LIFELINE_USE " %016" PRIx64 " %016" PRIx64, hash, environment);
}
