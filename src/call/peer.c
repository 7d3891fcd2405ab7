#include "call/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "call/address.h"
#include "call/socket_holder.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

/* What peer_check_process() needs of a connection, and its result. */
struct peer_process {
    uint32_t cookie[2]; /* of the client's TCP socket; the kernel never reuses it */
    int proc_fd;        /* owned: /proc/PID of the process that connected a unix socket; -1: none, or closed */
    bool is_vouched;    /* a pidfd proved that it is that process and not another one with the same number */
    uint64_t inode;     /* of the client's unix socket; 0: unknown */
    pthread_mutex_t lock;
    bool is_known;
    const char *why_not; /* a literal; NULL: the process is the user's own */
};

/* The client's end of a TCP connection. */
struct client_socket {
    struct held_socket held;
    uint32_t cookie[2];
};

struct diag_request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 diag;
};

/* One end of a connection, as sock_diag writes addresses. */
static void put_end(const struct sockaddr_storage *address, __be32 words[4], __be16 *port)
{
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *) address;
        memcpy(words, &in->sin_addr, sizeof(in->sin_addr));
        *port = in->sin_port;
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) address;
        memcpy(words, &in6->sin6_addr, sizeof(in6->sin6_addr));
        *port = in6->sin6_port;
    }
}

static bool is_end(const struct inet_diag_msg *diag, const __be32 words[4], __be16 port, const struct sockaddr_storage *wanted)
{
    struct sockaddr_storage found = { .ss_family = diag->idiag_family };

    if (diag->idiag_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *) &found;
        memcpy(&in->sin_addr, words, sizeof(in->sin_addr));
        in->sin_port = port;
    } else if (diag->idiag_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &found;
        memcpy(&in6->sin6_addr, words, sizeof(in6->sin6_addr));
        in6->sin6_port = port;
    } else {
        return false;
    }
    /* A client may reach an IPv4 address with an IPv6 socket. */
    address_unmap(&found);
    if (found.ss_family != wanted->ss_family)
        return false;
    if (found.ss_family == AF_INET) {
        const struct sockaddr_in *a = (const struct sockaddr_in *) &found, *b = (const struct sockaddr_in *) wanted;
        return a->sin_port == b->sin_port && a->sin_addr.s_addr == b->sin_addr.s_addr;
    }
    const struct sockaddr_in6 *a = (const struct sockaddr_in6 *) &found, *b = (const struct sockaddr_in6 *) wanted;
    return a->sin6_port == b->sin6_port && memcmp(&a->sin6_addr, &b->sin6_addr, sizeof(a->sin6_addr)) == 0;
}

/*
 * The kernel returns the best match: without a connection that is a listening socket, and for a connection that no process holds any more
 * (TIME_WAIT, or closed with data still in flight) it reports user 0. Only an open connection with exactly these addresses counts.
 */
static bool is_connection_of(const struct inet_diag_msg *diag, const struct peer *peer)
{
    return diag->idiag_state != TCP_LISTEN && diag->idiag_state != TCP_TIME_WAIT && diag->idiag_state != TCP_CLOSE &&
           diag->idiag_state != TCP_SYN_RECV && diag->idiag_inode != 0 &&
           is_end(diag, diag->id.idiag_src, diag->id.idiag_sport, &peer->remote) &&
           is_end(diag, diag->id.idiag_dst, diag->id.idiag_dport, &peer->local);
}

/* Sends one query to sock_diag, which answers within sendto(). -ENOENT if the answer is of another kind. */
static int query_diag(const void *request, size_t request_len, void *answer, size_t answer_max, size_t part_len)
{
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    autofd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    const struct nlmsghdr *header = answer;

    if (fd < 0)
        return -errno;
    if (sendto(fd, request, request_len, 0, (const struct sockaddr *) &kernel, sizeof(kernel)) < 0)
        return -errno;
    ssize_t n = recv(fd, answer, answer_max, MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    if (!NLMSG_OK(header, (size_t) n) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        header->nlmsg_len < NLMSG_LENGTH(part_len))
        return -ENOENT;
    return 0;
}

/* Reads an attribute of exactly `len` bytes behind the fixed part of the answer. */
static bool take_attribute(const struct nlmsghdr *header, size_t part_len, unsigned type, void *ret, size_t len)
{
    size_t left = header->nlmsg_len - NLMSG_LENGTH(NLMSG_ALIGN(part_len));
    const struct rtattr *at = (const void *) ((const char *) NLMSG_DATA(header) + NLMSG_ALIGN(part_len));

    if (header->nlmsg_len < NLMSG_LENGTH(NLMSG_ALIGN(part_len)))
        return false;
    for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type == type && RTA_PAYLOAD(at) == len) {
            memcpy(ret, RTA_DATA(at), len);
            return true;
        }
    }
    return false;
}

union diag_answer {
    struct nlmsghdr header;
    char bytes[4096];
};

/* `cookie` NULL: any socket with these addresses. */
static int query_owner(const struct peer *peer, const uint32_t cookie[2], struct client_socket *ret)
{
    struct diag_request request = {
        .header = { .nlmsg_len = sizeof(request), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
        .diag = { .sdiag_family = (__u8) peer->remote.ss_family,
                  .sdiag_protocol = IPPROTO_TCP,
                  .idiag_states = ~0u,
                  .id.idiag_cookie = { cookie ? cookie[0] : INET_DIAG_NOCOOKIE, cookie ? cookie[1] : INET_DIAG_NOCOOKIE } },
    };
    union diag_answer answer;

    /* We ask for the client's socket: our remote address is its local one. */
    put_end(&peer->remote, request.diag.id.idiag_src, &request.diag.id.idiag_sport);
    put_end(&peer->local, request.diag.id.idiag_dst, &request.diag.id.idiag_dport);
    int r = query_diag(&request, sizeof(request), &answer, sizeof(answer), sizeof(struct inet_diag_msg));
    if (r < 0)
        return r;
    const struct inet_diag_msg *diag = NLMSG_DATA(&answer.header);
    if (!is_connection_of(diag, peer))
        return -ENOENT;
    *ret = (struct client_socket){ .held = { .uid = diag->idiag_uid, .inode = diag->idiag_inode },
                                   .cookie = { diag->id.idiag_cookie[0], diag->id.idiag_cookie[1] } };
    take_attribute(&answer.header, sizeof(*diag), INET_DIAG_CGROUP_ID, &ret->held.cgroup_id, sizeof(ret->held.cgroup_id));
    return 0;
}

/* Returns the inode of the other end; 0 if the kernel does not report it. */
static uint64_t query_unix_peer(int fd)
{
    struct {
        struct nlmsghdr header;
        struct unix_diag_req diag;
    } request = {
        .header = { .nlmsg_len = sizeof(request), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
        .diag = { .sdiag_family = AF_UNIX,
                  .udiag_states = ~0u,
                  .udiag_show = UDIAG_SHOW_PEER,
                  .udiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
    };
    union diag_answer answer;
    struct stat st;
    uint32_t inode;

    if (fstat(fd, &st) < 0)
        return 0;
    request.diag.udiag_ino = (__u32) st.st_ino;
    if (query_diag(&request, sizeof(request), &answer, sizeof(answer), sizeof(struct unix_diag_msg)) < 0 ||
        !take_attribute(&answer.header, sizeof(struct unix_diag_msg), UNIX_DIAG_PEER, &inode, sizeof(inode)))
        return 0;
    return inode;
}

/* While our end is connected, no other connection can have the same two addresses, so the socket that was found is our peer's. This fails for
 * a client that reset its connection and let another user take over its port. */
static bool is_connected(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
}

static struct peer_process *peer_process_new(void)
{
    struct peer_process *process = xnew(struct peer_process);

    process->proc_fd = -1;
    pthread_mutex_init(&process->lock, NULL);
    return process;
}

static void peer_process_free(struct peer_process *process)
{
    if (!process)
        return;
    cleanup_fd(&process->proc_fd);
    pthread_mutex_destroy(&process->lock);
    free(process);
}

/* Returns the pid behind a pidfd; 0 if the process is gone or not visible to us. */
static pid_t pid_of_pidfd(int pidfd)
{
    char path[64], text[1024];
    int pid = 0;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : fd_read_full(fd, text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, "Pid:");
    return at && sscanf(at, "Pid: %d", &pid) == 1 && pid > 0 ? pid : 0;
}

/* Opens /proc/PID of the process that connected. A kernel without SO_PEERPIDFD only gives the pid, which another process may have by now: then
 * the check requires that the process holds the socket. */
static int open_unix_process(struct peer_process *process, int fd, pid_t pid)
{
    autofd int pidfd = -1;
    socklen_t len = sizeof(pidfd);
    char path[32];

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0) {
        pidfd = -1;
        if (err_errno_is_exhaustion(-errno))
            return -errno;
        /* Any other errno means that the process is gone. */
        if (errno != ENOPROTOOPT)
            return 0;
    }
    if (pidfd >= 0)
        pid = pid_of_pidfd(pidfd);
    if (pid <= 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d", (int) pid);
    process->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process->proc_fd < 0)
        return err_errno_is_exhaustion(-errno) ? -errno : 0;
    /* While the process exists, no other process has its pid. */
    process->is_vouched = pidfd >= 0 && pid_of_pidfd(pidfd) == pid;
    process->inode = query_unix_peer(fd);
    return 0;
}

static int init_unix(struct peer *peer, int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    peer->kind = PEER_UNIX;
    peer->uid = cred.uid;
    peer->has_uid = true;
    snprintf(peer->text, sizeof(peer->text), "unix:%u", cred.uid);
    peer->process = peer_process_new();
    return open_unix_process(peer->process, fd, cred.pid);
}

static int init_loopback(struct peer *peer, int fd)
{
    struct client_socket client;
    int r = query_owner(peer, NULL, &client);

    peer->kind = PEER_LOOPBACK;
    /* Without descriptors or memory the user is unknown only for now. Treating the peer as unknown would refuse the connection for good. */
    if (err_errno_is_exhaustion(r))
        return r;
    peer->has_uid = r == 0 && is_connected(fd);
    if (!peer->has_uid)
        return 0;
    peer->uid = client.held.uid;
    peer->process = peer_process_new();
    memcpy(peer->process->cookie, client.cookie, sizeof(client.cookie));
    return 0;
}

int peer_init(struct peer *peer, int fd)
{
    struct peer made = { 0 };
    socklen_t local_len = sizeof(made.local), remote_len = sizeof(made.remote);
    int r = 0;

    if (getsockname(fd, (struct sockaddr *) &made.local, &local_len) < 0 ||
        getpeername(fd, (struct sockaddr *) &made.remote, &remote_len) < 0)
        return -errno;
    if (made.local.ss_family == AF_UNIX) {
        r = init_unix(&made, fd);
    } else {
        address_unmap(&made.local);
        address_unmap(&made.remote);
        address_format(&made.remote, remote_len, made.text);
        made.kind = PEER_REMOTE;
        if (address_is_loopback(&made.remote) && address_is_loopback(&made.local))
            r = init_loopback(&made, fd);
    }
    if (r < 0) {
        peer_done(&made);
        return r;
    }
    *peer = made;
    return 0;
}

void peer_done(struct peer *peer)
{
    peer_process_free(peer->process);
    free(peer->tls_subject);
    *peer = (struct peer){ 0 };
}

int peer_uid(const struct peer *peer, uid_t *ret)
{
    if (!peer->has_uid)
        return -ENOENT;
    *ret = peer->uid;
    return 0;
}

static const char why_gone[] = "the process that made the connection is gone";

/* The kernel names the process that connected. It must still exist and hold the socket; otherwise it has passed the socket on. */
static int find_unix_process(const struct peer *peer, const char **ret_why)
{
    const struct peer_process *process = peer->process;
    const struct held_socket held = { .uid = peer->uid, .inode = process->inode };

    *ret_why = why_gone;
    if (process->proc_fd < 0 || (!process->is_vouched && process->inode == 0))
        return -EACCES;
    return socket_holder_check(process->proc_fd, peer->uid, process->inode ? &held : NULL, ret_why);
}

/* The cookie identifies the socket that existed when the connection was accepted. We query it again after the search, because the findings
 * say nothing if the socket was closed meanwhile. */
static int find_loopback_process(const struct peer *peer, const char **ret_why)
{
    struct client_socket before, after;
    const char *why;
    int r = query_owner(peer, peer->process->cookie, &before);

    *ret_why = why_gone;
    if (r == 0 && before.held.uid == peer->uid) {
        r = socket_holder_search(&before.held, &why);
        if (r < 0)
            *ret_why = why;
        if (r == 0)
            r = query_owner(peer, peer->process->cookie, &after);
        if (r == 0 && (after.held.uid != before.held.uid || after.held.inode != before.held.inode))
            r = -EACCES;
    } else if (r == 0) {
        r = -EACCES;
    }
    return r;
}

int peer_check_process(const struct peer *peer, struct err *err)
{
    struct peer_process *process = peer->process;
    const char *why = why_gone;
    int r = 0;

    if (process) {
        pthread_mutex_lock(&process->lock);
        if (!process->is_known) {
            r = peer->kind == PEER_UNIX ? find_unix_process(peer, &why) : find_loopback_process(peer, &why);
            process->is_known = !err_errno_is_exhaustion(r);
            process->why_not = r < 0 ? why : NULL;
            if (process->is_known) {
                cleanup_fd(&process->proc_fd);
                process->proc_fd = -1;
            }
        }
        why = process->why_not;
        pthread_mutex_unlock(&process->lock);
    }
    if (err_errno_is_exhaustion(r))
        return err_set(err, ERR_UNAVAILABLE, r, "who calls cannot be found out now: descriptors or memory are short");
    if (why)
        return err_set(err, ERR_UNAUTHENTICATED, -EACCES, "a token is needed: %s", why);
    return 0;
}

bool peer_is_our_user(const struct peer *peer)
{
    return peer->has_uid && peer->uid == geteuid();
}
