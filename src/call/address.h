/* Addresses of sockets: as text, and whether they are of this host alone. An IPv4 address that an IPv6 socket shows as ::ffff:1.2.3.4 is
 * the IPv4 one in all of this. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#define ADDRESS_TEXT_MAX 128

/* "127.0.0.1:9000", "[::1]:9000"; a unix one is "unix:" and its path. What is none of these is "?". */
void address_format(const struct sockaddr_storage *address, socklen_t len, char out[ADDRESS_TEXT_MAX]);

/* 127.0.0.0/8 and ::1. A unix socket's is not: who asks that has seen the family already. */
bool address_is_loopback(const struct sockaddr_storage *address);

/* Turns ::ffff:1.2.3.4 into 1.2.3.4, and leaves the others. */
void address_unmap(struct sockaddr_storage *address);
