/*
 * Who is at the other end of a connection: by its address, and for a local one the user whose process it is.
 *
 * A unix socket tells the user by SO_PEERCRED. For TCP over loopback the kernel is asked (sock_diag) whose socket the client's end is,
 * so that another user of this host is known as what it is. That happens once, in peer_init(), while the connection is at hand to prove that
 * nobody else has taken its place meanwhile; afterwards a peer never changes, and any number of threads may look at it.
 *
 * Whose process it is says less than whose user: a sandbox of an ordinary user has that user's uid. peer_check_process() finds the process at the
 * other end and compares its namespaces with ours (socket_holder.h). It costs a look at all processes of that user, so it is asked only for those who
 * bring no token, and once for each connection, when the first of their requests is there.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/err.h"

#define PEER_TEXT_MAX 128

enum peer_kind { PEER_UNIX, PEER_LOOPBACK, PEER_REMOTE };

struct peer {
    enum peer_kind kind;
    char text[PEER_TEXT_MAX];              /* "unix:1000", "127.0.0.1:43210", "[::1]:5": for logs */
    struct sockaddr_storage local, remote; /* an IPv4 address is one here, whatever the socket's family is */
    bool has_uid;
    uid_t uid; /* with has_uid */
    bool is_tls;
    char *tls_subject;            /* owned; of a client certificate that was verified; NULL: none */
    struct peer_process *process; /* owned: how the process with that uid is found; NULL: it cannot be */
};

/* Of a connected socket, blocking or not. */
int peer_init(struct peer *peer, int fd);
void peer_done(struct peer *peer);

/* The user at the other end. -ENOENT when the kernel does not know (it is remote, or was gone already), and then it is nobody we know. */
int peer_uid(const struct peer *peer, uid_t *ret);

/* Whether the process at the other end is one of that user's own: in the user and pid namespaces of this process, and none of our programs that
 * work for sandboxes. ERR_UNAUTHENTICATED with the reason, or ERR_UNAVAILABLE when there were not the means to look. Any thread. */
int peer_check_process(const struct peer *peer, struct err *err);

/* Of the user we run as, on this host. Others may have a part of our connections only: whoever takes all that strangers may have does not
 * keep our own user out. */
bool peer_is_our_user(const struct peer *peer);
#define PEER_OTHER_USERS_MAX(connections_max) ((connections_max) - (connections_max) / 4)
