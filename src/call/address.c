#include "call/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

void address_unmap(struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) address;
    struct sockaddr_in in = { .sin_family = AF_INET };

    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return;
    in.sin_port = in6->sin6_port;
    memcpy(&in.sin_addr, &in6->sin6_addr.s6_addr[12], sizeof(in.sin_addr));
    memset(address, 0, sizeof(*address));
    memcpy(address, &in, sizeof(in));
}

bool address_is_loopback(const struct sockaddr_storage *address)
{
    struct sockaddr_storage plain = *address;

    address_unmap(&plain);
    if (plain.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *) &plain)->sin_addr.s_addr) >> 24 == 127;
    return plain.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *) &plain)->sin6_addr);
}

void address_format(const struct sockaddr_storage *address, socklen_t len, char out[ADDRESS_TEXT_MAX])
{
    struct sockaddr_storage plain = *address;
    char host[INET6_ADDRSTRLEN];

    address_unmap(&plain);
    if (plain.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *) &plain;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
    } else if (plain.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *) &plain;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
        snprintf(out, ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
    } else if (plain.ss_family == AF_UNIX) {
        /* The path may lack a NUL at its end, and an unnamed socket has no path. */
        const struct sockaddr_un *un = (const struct sockaddr_un *) address;
        size_t room = len > offsetof(struct sockaddr_un, sun_path) ? len - offsetof(struct sockaddr_un, sun_path) : 0;
        snprintf(out, ADDRESS_TEXT_MAX, "unix:%.*s", (int) strnlen(un->sun_path, room), un->sun_path);
    } else {
        snprintf(out, ADDRESS_TEXT_MAX, "?");
    }
}
