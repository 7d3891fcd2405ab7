/*
 * TLS as a server speaks it: its certificate and key, and optionally an authority whose certificates clients must show.
 *
 * TLS 1.2 is the least, with forward secrecy and authenticated ciphers only, which is what HTTP/2 asks for. With a client authority a
 * connection without a certificate of its is refused in the handshake, and who it was issued to is known afterwards.
 *
 * A `struct tls` may be used by any number of threads, and reloaded at any time: sessions keep what they began with. A session belongs to
 * one thread at a time.
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
    const char *client_ca; /* NULL: clients show no certificate */
};

struct tls;

int tls_new(const struct tls_files *files, struct tls **ret, struct err *err);
void tls_free(struct tls *tls);
DEFINE_AUTOPTR(tls, tls_free);

/* Reads the same files again. On failure everything stays as it was. */
int tls_reload(struct tls *tls, struct err *err);

struct tls_session;

/* On a connected, non-blocking socket, which stays the caller's. `protocols` are those of ALPN, ended by NULL: a client that names
 * others only is refused in the handshake; NULL: none are spoken of. -ENOMEM. */
int tls_session_new(struct tls *tls, int fd, const char *const *protocols, struct tls_session **ret);
void tls_session_free(struct tls_session *session);
DEFINE_AUTOPTR(tls_session, tls_session_free);

/*
 * The three below: -EAGAIN when the socket must become ready first, writable if tls_session_wants_write(), else readable; then call the
 * same again. -EPROTO when the other side does not speak TLS as it should, -ECONNRESET when it hung up in the middle.
 */
int tls_session_handshake(struct tls_session *session);
/* Bytes read; 0 at the end that the other side announced. Read until -EAGAIN: what is decrypted already makes no socket readable. */
ssize_t tls_session_read(struct tls_session *session, void *bytes, size_t len);
/* Bytes taken. After -EAGAIN they are on their way already: the next call must begin with the same bytes, and counts them. */
ssize_t tls_session_write(struct tls_session *session, const void *bytes, size_t len);
bool tls_session_wants_write(const struct tls_session *session);

/* Announces the end, without waiting for the answer; as far as the socket takes it. */
void tls_session_bye(struct tls_session *session);

/* After the handshake. Who the client's certificate was issued to ("CN=alice,O=x"), to be freed; NULL without one. */
char *tls_session_dup_subject(const struct tls_session *session);

/* The same of a session of GnuTLS's own, whose certificate was verified. */
struct gnutls_session_int;
char *tls_dup_subject(struct gnutls_session_int *session);
