/*
 * TLS for servers: a certificate with its key, and optionally an authority that must have issued the clients' certificates.
 *
 * The minimum is TLS 1.2 with forward secrecy and authenticated ciphers, as HTTP/2 requires. With a client authority, the handshake fails for
 * a client without a certificate of that authority, and the subject is known afterwards.
 *
 * Any number of threads may use a `struct tls`, and it may be reloaded at any time: sessions keep the certificate they began with. Only one
 * thread at a time may use a session.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

/* Paths of PEM files. Borrowed for the call. */
struct tls_files {
    const char *certificate; /* with the chain behind it */
    const char *key;
    const char *client_ca; /* NULL: clients need no certificate */
};

struct tls;

int tls_new(const struct tls_files *files, struct tls **ret, struct err *err);
void tls_free(struct tls *tls);
DEFINE_AUTOPTR(tls, tls_free);

/* Reads the same files again. On failure the old certificate stays in use. */
int tls_reload(struct tls *tls, struct err *err);

struct tls_session;

/* `fd` is a connected, non-blocking socket, which the caller keeps. `protocols` is the ALPN list, ended by NULL: the handshake fails for a
 * client that offers only other protocols. `protocols` NULL: no ALPN. -ENOMEM. */
int tls_session_new(struct tls *tls, int fd, const char *const *protocols, struct tls_session **ret);
void tls_session_free(struct tls_session *session);
DEFINE_AUTOPTR(tls_session, tls_session_free);

/*
 * The three functions below return -EAGAIN if the socket must become ready first (writable if tls_session_wants_write(), else readable); call
 * the same function again then. -EPROTO if the peer violates TLS, -ECONNRESET if it closed the connection without notice.
 */
int tls_session_handshake(struct tls_session *session);
/* Returns the number of bytes read, 0 after the peer's close notice. Read until -EAGAIN: decrypted bytes that wait do not make the socket readable. */
ssize_t tls_session_read(struct tls_session *session, void *bytes, size_t len);
/* Returns the number of bytes accepted. After -EAGAIN the bytes are being sent already: the next call must begin with the same bytes and counts them. */
ssize_t tls_session_write(struct tls_session *session, const void *bytes, size_t len);
bool tls_session_wants_write(const struct tls_session *session);

/* Sends the close notice if the socket accepts it, and does not wait for the peer's. */
void tls_session_bye(struct tls_session *session);

/* After the handshake: the subject of the client's certificate ("CN=alice,O=x"); NULL if there is none. Free it. */
char *tls_session_dup_subject(const struct tls_session *session);

/* The same for a plain GnuTLS session whose certificate was verified. */
struct gnutls_session_int;
char *tls_dup_subject(struct gnutls_session_int *session);
