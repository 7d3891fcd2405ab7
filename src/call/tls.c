#include "call/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Leaves out what HTTP/2 forbids under TLS 1.2 (RFC 9113, appendix A): key exchange without forward secrecy, and CBC. */
#define PRIORITY                                                                                                               \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:"                                                             \
    "+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:%SERVER_PRECEDENCE"

/* Certificates that were loaded together; sessions hold references. */
struct credentials {
    atomic_int refs;
    gnutls_certificate_credentials_t certificate; /* owned */
    bool asks_client;
};

struct tls {
    struct tls_files files; /* owned copies */
    gnutls_priority_t priority;
    pthread_mutex_t lock;
    struct credentials *credentials; /* guarded by the lock; the object itself never changes */
};

struct tls_session {
    struct credentials *credentials;
    gnutls_session_t gnutls;
    bool is_writing; /* a record with the caller's bytes has been made and not sent completely */
};

static void credentials_unref(struct credentials *credentials)
{
    if (!credentials || atomic_fetch_sub(&credentials->refs, 1) > 1)
        return;
    gnutls_certificate_free_credentials(credentials->certificate);
    free(credentials);
}
DEFINE_AUTOPTR(credentials, credentials_unref);

static int reject_file(struct err *err, const char *what, const char *path, int code)
{
    return err_set(err, ERR_INVALID_ARGUMENT, -EINVAL, "reading the %s '%s': %s", what, path, gnutls_strerror(code));
}

static int tls_load_credentials(const struct tls_files *files, struct credentials **ret, struct err *err)
{
    autoptr(credentials) made = xnew(struct credentials);

    atomic_init(&made->refs, 1);
    if (gnutls_certificate_allocate_credentials(&made->certificate) < 0)
        return err_errno(err, -ENOMEM, "preparing TLS");
    int code =
        gnutls_certificate_set_x509_key_file2(made->certificate, files->certificate, files->key, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (code < 0)
        return err_set(err, ERR_INVALID_ARGUMENT, -EINVAL, "reading the certificate '%s' and its key '%s': %s",
                       files->certificate, files->key, gnutls_strerror(code));
    if (files->client_ca) {
        code = gnutls_certificate_set_x509_trust_file(made->certificate, files->client_ca, GNUTLS_X509_FMT_PEM);
        if (code <= 0)
            return reject_file(err, "authority for clients", files->client_ca, code ? code : GNUTLS_E_NO_CERTIFICATE_FOUND);
        made->asks_client = true;
    }
    *ret = steal_ptr(&made);
    return 0;
}

int tls_new(const struct tls_files *files, struct tls **ret, struct err *err)
{
    struct credentials *credentials = NULL;
    int r = tls_load_credentials(files, &credentials, err);

    if (r < 0)
        return r;
    struct tls *tls = xnew(struct tls);
    pthread_mutex_init(&tls->lock, NULL);
    tls->credentials = credentials;
    tls->files = (struct tls_files){ .certificate = xdup(files->certificate),
                                     .key = xdup(files->key),
                                     .client_ca = files->client_ca ? xdup(files->client_ca) : NULL };
    int code = gnutls_priority_init(&tls->priority, PRIORITY, NULL);
    if (code < 0) {
        tls_free(tls);
        return err_set(err, ERR_INTERNAL, -EINVAL, "preparing TLS: %s", gnutls_strerror(code));
    }
    *ret = tls;
    return 0;
}

void tls_free(struct tls *tls)
{
    if (!tls)
        return;
    credentials_unref(tls->credentials);
    if (tls->priority)
        gnutls_priority_deinit(tls->priority);
    free((char *) tls->files.certificate);
    free((char *) tls->files.key);
    free((char *) tls->files.client_ca);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

int tls_reload(struct tls *tls, struct err *err)
{
    autoptr(credentials) other = NULL;
    int r = tls_load_credentials(&tls->files, &other, err);

    if (r < 0)
        return r;
    pthread_mutex_lock(&tls->lock);
    struct credentials *old = tls->credentials;
    tls->credentials = other;
    other = old;
    pthread_mutex_unlock(&tls->lock);
    return 0;
}

static struct credentials *tls_get_credentials(struct tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    struct credentials *credentials = tls->credentials;
    atomic_fetch_add(&credentials->refs, 1);
    pthread_mutex_unlock(&tls->lock);
    return credentials;
}

static int offer_protocols(gnutls_session_t gnutls, const char *const *protocols)
{
    gnutls_datum_t names[8];
    unsigned count = 0;

    while (protocols[count] && count < ARRAY_LEN(names)) {
        names[count] = (gnutls_datum_t){ (unsigned char *) protocols[count], (unsigned) strlen(protocols[count]) };
        count++;
    }
    return gnutls_alpn_set_protocols(gnutls, names, count, GNUTLS_ALPN_MANDATORY | GNUTLS_ALPN_SERVER_PRECEDENCE);
}

/* A server's certificate does not authenticate a client. */
static void verify_client(gnutls_session_t gnutls)
{
    static gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
                                             .data = (unsigned char *) GNUTLS_KP_TLS_WWW_CLIENT };

    gnutls_certificate_server_set_request(gnutls, GNUTLS_CERT_REQUIRE);
    gnutls_session_set_verify_cert2(gnutls, &purpose, 1, 0);
}

int tls_session_new(struct tls *tls, int fd, const char *const *protocols, struct tls_session **ret)
{
    autoptr(tls_session) session = xnew(struct tls_session);

    session->credentials = tls_get_credentials(tls);
    if (gnutls_init(&session->gnutls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS) < 0 ||
        gnutls_priority_set(session->gnutls, tls->priority) < 0 ||
        gnutls_credentials_set(session->gnutls, GNUTLS_CRD_CERTIFICATE, session->credentials->certificate) < 0 ||
        (protocols && offer_protocols(session->gnutls, protocols) < 0))
        return -ENOMEM;
    if (session->credentials->asks_client)
        verify_client(session->gnutls);
    /* The caller limits the time of a handshake. */
    gnutls_handshake_set_timeout(session->gnutls, GNUTLS_INDEFINITE_TIMEOUT);
    gnutls_transport_set_int(session->gnutls, fd);
    *ret = steal_ptr(&session);
    return 0;
}

void tls_session_free(struct tls_session *session)
{
    if (!session)
        return;
    if (session->gnutls)
        gnutls_deinit(session->gnutls);
    credentials_unref(session->credentials);
    free(session);
}

static int errno_of(ssize_t code)
{
    switch (code) {
    case GNUTLS_E_AGAIN:
    case GNUTLS_E_INTERRUPTED:
        return -EAGAIN;
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR:
        return -ECONNRESET;
    case GNUTLS_E_MEMORY_ERROR:
        return -ENOMEM;
    default:
        /* This includes a client that asks to renegotiate, which HTTP/2 forbids. */
        return -EPROTO;
    }
}

int tls_session_handshake(struct tls_session *session)
{
    int code;

    do
        code = gnutls_handshake(session->gnutls);
    while (code == GNUTLS_E_INTERRUPTED || code == GNUTLS_E_WARNING_ALERT_RECEIVED);
    if (code == 0)
        return 0;
    int r = errno_of(code);
    if (r == -EPROTO)
        gnutls_alert_send_appropriate(session->gnutls, code); /* so that the client can log the reason */
    return r;
}

ssize_t tls_session_read(struct tls_session *session, void *bytes, size_t len)
{
    ssize_t n;

    do
        n = gnutls_record_recv(session->gnutls, bytes, len);
    while (n == GNUTLS_E_INTERRUPTED || n == GNUTLS_E_WARNING_ALERT_RECEIVED);
    return n >= 0 ? n : errno_of(n);
}

ssize_t tls_session_write(struct tls_session *session, const void *bytes, size_t len)
{
    ssize_t n;

    do
        n = session->is_writing ? gnutls_record_send(session->gnutls, NULL, 0)
                                : gnutls_record_send(session->gnutls, bytes, len);
    while (n == GNUTLS_E_INTERRUPTED);
    session->is_writing = n == GNUTLS_E_AGAIN;
    return n >= 0 ? n : errno_of(n);
}

bool tls_session_wants_write(const struct tls_session *session)
{
    return gnutls_record_get_direction(session->gnutls) == 1;
}

void tls_session_bye(struct tls_session *session)
{
    gnutls_bye(session->gnutls, GNUTLS_SHUT_WR);
}

char *tls_dup_subject(gnutls_session_t session)
{
    unsigned count = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    gnutls_x509_crt_t certificate;
    gnutls_datum_t name = { 0 };
    char *subject = NULL;

    if (!chain || count == 0 || gnutls_x509_crt_init(&certificate) < 0)
        return NULL;
    if (gnutls_x509_crt_import(certificate, &chain[0], GNUTLS_X509_FMT_DER) == 0 &&
        gnutls_x509_crt_get_dn3(certificate, &name, 0) == 0)
        subject = xdupn(name.data, name.size);
    gnutls_free(name.data);
    gnutls_x509_crt_deinit(certificate);
    return subject;
}

/* The handshake verified the certificate if an authority is set; without one the server asks for no certificate. */
char *tls_session_dup_subject(const struct tls_session *session)
{
    return session->credentials->asks_client ? tls_dup_subject(session->gnutls) : NULL;
}
