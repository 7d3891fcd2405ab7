/* Socket addresses: formats them as text and says whether only this host can reach them. All functions treat ::ffff:1.2.3.4, as which an IPv6
 * socket reports an IPv4 address, as 1.2.3.4. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_MAX 128

/* "127.0.0.1:9000", "[::1]:9000"; "unix:" and the path for a unix socket; "?" for any other family. */
void address_format(const struct sockaddr_storage *address, socklen_t len, char out[ADDRESS_TEXT_MAX]);

/* 127.0.0.0/8 and ::1. False for a unix socket: callers check the family first. */
bool address_is_loopback(const struct sockaddr_storage *address);

/* Turns ::ffff:1.2.3.4 into 1.2.3.4, and leaves any other address unchanged. */
void address_unmap(struct sockaddr_storage *address);
