/*
 * The other end of a connection: its address and, for a local connection, the user who owns the process.
 *
 * SO_PEERCRED names the user of a unix socket. For TCP over loopback, sock_diag names the owner of the client's socket, so other users of this
 * host are recognised as such. peer_init() asks once, while the connection proves that no other process has taken over the client's address.
 * A peer never changes afterwards, so any number of threads may read it.
 *
 * The uid alone proves little, because a sandbox of an ordinary user has that user's uid. peer_check_process() finds the process at the other end
 * and compares its namespaces with ours (socket_holder.h). It has to look at all processes of that user, so callers use it only for requests
 * without a token, and once per connection, when the first such request has arrived.
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
    struct sockaddr_storage local, remote; /* IPv4 addresses are stored as such even if the socket is an IPv6 one */
    bool has_uid;
    uid_t uid; /* with has_uid */
    bool is_tls;
    char *tls_subject;            /* owned; the subject of a verified client certificate; NULL: none */
    struct peer_process *process; /* owned: what peer_check_process() needs to find the process; NULL: it cannot be found */
};

/* `fd` is a connected socket, blocking or not. */
int peer_init(struct peer *peer, int fd);
void peer_done(struct peer *peer);

/* The user at the other end. -ENOENT if the kernel does not know the user: the peer is remote or was gone already. */
int peer_uid(const struct peer *peer, uid_t *ret);

/* Returns 0 if the process at the other end is the user's own: it is in the user and pid namespaces of this process and is not one of our programs
 * that work for sandboxes. ERR_UNAUTHENTICATED with the reason, or ERR_UNAVAILABLE if descriptors or memory ran out. Any thread may call it. */
int peer_check_process(const struct peer *peer, struct err *err);

/* Whether the peer is local and runs as our own user. Other peers may use only a part of our connections, so they cannot lock our own user out. */
bool peer_is_our_user(const struct peer *peer);
#define PEER_OTHER_USERS_MAX(connections_max) ((connections_max) - (connections_max) / 4)
