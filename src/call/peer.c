#include "call/peer.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "call/address.h"

struct question {
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
    /* A client may reach an IPv4 address by an IPv6 socket. */
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
 * The kernel answers with the best match, which is a listening socket when there is no connection, and for one that nobody holds any more
 * (TIME_WAIT, or closed with data still on its way) it says user 0. Only the one connection, held by a process, tells us anything.
 */
static bool tells_the_owner(const struct inet_diag_msg *diag, const struct peer *peer)
{
    return diag->idiag_state != TCP_LISTEN && diag->idiag_state != TCP_TIME_WAIT && diag->idiag_state != TCP_CLOSE &&
           diag->idiag_state != TCP_SYN_RECV && diag->idiag_inode != 0 &&
           is_end(diag, diag->id.idiag_src, diag->id.idiag_sport, &peer->remote) &&
           is_end(diag, diag->id.idiag_dst, diag->id.idiag_dport, &peer->local);
}

static int ask_owner(const struct peer *peer, uid_t *ret)
{
    struct question question = {
        .header = { .nlmsg_len = sizeof(question), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
        .diag = { .sdiag_family = (__u8) peer->remote.ss_family,
                  .sdiag_protocol = IPPROTO_TCP,
                  .idiag_states = ~0u,
                  .id.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } },
    };
    union {
        struct nlmsghdr header;
        char bytes[4096];
    } answer;
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    autofd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (fd < 0)
        return -errno;
    /* The client's socket, not ours: what is remote to us is local to it. */
    put_end(&peer->remote, question.diag.id.idiag_src, &question.diag.id.idiag_sport);
    put_end(&peer->local, question.diag.id.idiag_dst, &question.diag.id.idiag_dport);
    if (sendto(fd, &question, sizeof(question), 0, (const struct sockaddr *) &kernel, sizeof(kernel)) < 0)
        return -errno;
    /* It was answered within sendto(). */
    ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    if (!NLMSG_OK(&answer.header, (size_t) n) || answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return -ENOENT;
    const struct inet_diag_msg *diag = NLMSG_DATA(&answer.header);
    if (!tells_the_owner(diag, peer))
        return -ENOENT;
    *ret = diag->idiag_uid;
    return 0;
}

/* While our end is connected no other connection can have its two addresses, so the one that was found is the one at its other end. A
 * client that reset its own and let another user's take its port fails here. */
static bool is_connected(int fd)
{
    struct tcp_info info = { 0 };
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           (info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_CLOSE_WAIT);
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
    return 0;
}

int peer_init(struct peer *peer, int fd)
{
    struct peer made = { 0 };
    socklen_t local_len = sizeof(made.local), remote_len = sizeof(made.remote);

    if (getsockname(fd, (struct sockaddr *) &made.local, &local_len) < 0 ||
        getpeername(fd, (struct sockaddr *) &made.remote, &remote_len) < 0)
        return -errno;
    if (made.local.ss_family == AF_UNIX) {
        int r = init_unix(&made, fd);
        if (r < 0)
            return r;
    } else {
        address_unmap(&made.local);
        address_unmap(&made.remote);
        address_format(&made.remote, remote_len, made.text);
        made.kind = PEER_REMOTE;
        if (address_is_loopback(&made.remote) && address_is_loopback(&made.local)) {
            made.kind = PEER_LOOPBACK;
            int r = ask_owner(&made, &made.uid);
            /* For want of descriptors or memory it is not known now; as nobody's, the connection would be refused for good. */
            if (err_errno_is_short(r))
                return r;
            made.has_uid = r == 0 && is_connected(fd);
        }
    }
    *peer = made;
    return 0;
}

void peer_done(struct peer *peer)
{
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

bool peer_is_our_user(const struct peer *peer)
{
    return peer->has_uid && peer->uid == geteuid();
}
