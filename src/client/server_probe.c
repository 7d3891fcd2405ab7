#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "call/peer.h"
#include "client/client_int.h"

#define ACCEPT_TRIES 40 /* one second in all */
#define ACCEPT_WAIT_MS 25

/* The kernel knows the owner of the other end of a TCP connection only once the server has accepted it, which takes a while on a busy machine. */
static bool find_peer(int fd, struct peer *ret, uid_t *ret_uid)
{
    for (int i = 0; i < ACCEPT_TRIES; i++) {
        if (i > 0)
            poll(NULL, 0, ACCEPT_WAIT_MS);
        if (peer_init(ret, fd) < 0)
            return false;
        if (peer_uid(ret, ret_uid) == 0)
            return true;
        bool is_loopback = ret->kind == PEER_LOOPBACK;
        peer_done(ret);
        if (!is_loopback)
            return false;
    }
    return false;
}

/* A sandbox on the host's network runs with its owner's uid, so it could listen on this address, receive the owner's token and pose as the server.
 * So this also checks the process. It does not for unix sockets, because sandboxes cannot create files where ours are. */
static bool is_ours(int fd)
{
    struct err ignored = ERR_NONE;
    struct peer peer;
    uid_t uid;
    bool yes;

    if (!find_peer(fd, &peer, &uid))
        return false;
    if (uid == geteuid())
        yes = peer.kind == PEER_UNIX || peer_check_process(&peer, &ignored) == 0;
    else
        yes = uid == 0;
    peer_done(&peer);
    return yes;
}

static bool socket_is_ours(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect(fd, (const struct sockaddr *) &address, sizeof(address)) == 0 && is_ours(fd);
}

/* The kernel reports the owner of a socket only for addresses of this host. */
bool server_is_ours(const char *address)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(address, ':');
    struct addrinfo *found = NULL;
    bool yes = false;

    if (strncmp(address, "unix:", 5) == 0)
        return socket_is_ours(address + 5);
    if (!colon)
        return false;
    bool has_brackets = address[0] == '[' && colon > address + 1;
    autofree char *host = xdupn(address + has_brackets, (size_t) (colon - address) - 2 * (size_t) has_brackets);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return false;
    for (struct addrinfo *at = found; at && !yes; at = at->ai_next) {
        autofd int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        yes = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 && is_ours(fd);
    }
    freeaddrinfo(found);
    return yes;
}
