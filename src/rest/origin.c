#include "rest/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 255

/* The name in "name:port", "[::1]:port", "name."; false when it is none of these. */
static bool parse_name(const char *host, char out[NAME_MAX_BYTES + 1])
{
    const char *from = host, *end = host + strcspn(host, ":");

    if (*host == '[') {
        from = host + 1;
        end = strchr(from, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return false;
    }
    const char *port = *end == ']' ? end + 1 : end;
    if (*port == ':' && strspn(port + 1, "0123456789") != strlen(port + 1))
        return false;
    size_t len = (size_t) (end - from);
    if (len > 0 && from[len - 1] == '.' && *host != '[')
        len--;
    if (len == 0 || len > NAME_MAX_BYTES)
        return false;
    memcpy(out, from, len);
    out[len] = '\0';
    return true;
}

static bool is_local_address(const char *name, const struct peer *peer)
{
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, name, &four) == 1) {
        if (ntohl(four.s_addr) >> 24 == 127)
            return true;
        const struct sockaddr_in *local = (const void *) &peer->local;
        return peer->local.ss_family == AF_INET && local->sin_addr.s_addr == four.s_addr;
    }
    if (inet_pton(AF_INET6, name, &six) != 1)
        return false;
    const struct sockaddr_in6 *local = (const void *) &peer->local;
    return IN6_IS_ADDR_LOOPBACK(&six) ||
           (peer->local.ss_family == AF_INET6 && memcmp(&local->sin6_addr, &six, sizeof(six)) == 0);
}

bool origin_host_is_ours(const char *host, const struct peer *peer, const char *const *names)
{
    char name[NAME_MAX_BYTES + 1];

    if (!parse_name(host, name))
        return false;
    if (strcasecmp(name, "localhost") == 0 || is_local_address(name, peer))
        return true;
    for (; names && *names; names++)
        if (strcasecmp(name, *names) == 0)
            return true;
    return false;
}

bool origin_is_configured(const char *origin, const char *const *origins)
{
    for (; origins && *origins; origins++)
        if (strcasecmp(origin, *origins) == 0)
            return true;
    return false;
}

bool origin_is_own(const char *origin, const char *host, bool is_tls)
{
    char own[NAME_MAX_BYTES + 32];

    if (!host || strlen(host) > NAME_MAX_BYTES)
        return false;
    snprintf(own, sizeof(own), "%s://%s", is_tls ? "https" : "http", host);
    return strcasecmp(origin, own) == 0;
}
