/*
 * Who is at the other end of a connection: by its address, and for a local one the user whose process it is.
 *
 * A unix socket tells the user by SO_PEERCRED. For TCP over loopback the kernel is asked (sock_diag) whose socket the client's end is,
 * so that another user of this host, or a sandbox that shares the host's network, is known as what it is. That happens once, in
 * peer_init(), while the connection is at hand to prove that nobody else has taken its place meanwhile; afterwards a peer never changes,
 * and any number of threads may look at it.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#define PEER_TEXT_MAX 128

enum peer_kind { PEER_UNIX, PEER_LOOPBACK, PEER_REMOTE };

struct peer {
    enum peer_kind kind;
    char text[PEER_TEXT_MAX];              /* "unix:1000", "127.0.0.1:43210", "[::1]:5": for logs */
    struct sockaddr_storage local, remote; /* an IPv4 address is one here, whatever the socket's family is */
    bool has_uid;
    uid_t uid; /* with has_uid */
    bool is_tls;
    char *tls_subject; /* owned; of a client certificate that was verified; NULL: none */
};

/* Of a connected socket, blocking or not. */
int peer_init(struct peer *peer, int fd);
void peer_done(struct peer *peer);

/* The user at the other end. -ENOENT when the kernel does not know (it is remote, or was gone already), and then it is nobody we know. */
int peer_uid(const struct peer *peer, uid_t *ret);

/* Of the user we run as, on this host. Others may have a part of our connections only: whoever takes all that strangers may have does not
 * keep our own user out. */
bool peer_is_our_user(const struct peer *peer);
#define PEER_STRANGERS_MAX(connections_max) ((connections_max) - (connections_max) / 4)
