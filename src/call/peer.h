/*
 * Who is at the other end of a connection: by its address, and for a local one the user whose process it is.
 *
 * A unix socket tells the user by SO_PEERCRED. For TCP over loopback the kernel is asked (sock_diag) whose socket the client's end is,
 * so that another user of this host, or a sandbox that shares the host's network, is known as what it is. Asked once for each
 * connection, when somebody first wants to know: `peer_uid()`.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#define PEER_TEXT_MAX 128

enum peer_kind { PEER_UNIX, PEER_LOOPBACK, PEER_REMOTE };

struct peer {
    enum peer_kind kind;
    char text[PEER_TEXT_MAX]; /* "unix:1000", "127.0.0.1:43210", "[::1]:5": for logs */
    struct sockaddr_storage local, remote;
    bool has_uid;
    uid_t uid; /* of a unix peer at once, of a loopback one after peer_uid() */
    bool is_tls;
    char *tls_subject; /* owned; of a client certificate that was verified; NULL: none */
};

/* Of a connected socket. */
int peer_init(struct peer *peer, int fd);
void peer_done(struct peer *peer);

/* The user at the other end. -ENOENT when the kernel does not know (it is remote, or the socket is gone), and then it is nobody we know. */
int peer_uid(struct peer *peer, uid_t *ret);
