#include "fixture.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <time.h>

#include "call/tls.h"

/* A certificate that signs itself, for servers or for clients, and its key, as files. */
static void write_identity(const char *dir, const char *name, const char *common_name, const char *purpose)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    gnutls_datum_t pem;

    gnutls_x509_privkey_init(&key);
    assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    gnutls_x509_crt_init(&crt);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, "\x01", 1);
    gnutls_x509_crt_set_activation_time(crt, time(NULL) - 1000);
    gnutls_x509_crt_set_expiration_time(crt, time(NULL) + 100000);
    gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, common_name, (unsigned) strlen(common_name));
    gnutls_x509_crt_set_basic_constraints(crt, 1, -1);
    gnutls_x509_crt_set_key_purpose_oid(crt, purpose, 0);
    gnutls_x509_crt_set_key(crt, key);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    autofree char *crt_path = xprintf("%s/%s.crt", dir, name), *key_path = xprintf("%s/%s.key", dir, name);
    assert_int_equal(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem), 0);
    put_file(crt_path, pem.data, pem.size);
    gnutls_free(pem.data);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
    put_file(key_path, pem.data, pem.size);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

static struct tls *make_tls(const char *dir, const char *client_ca)
{
    autofree char *crt = xprintf("%s/server.crt", dir), *key = xprintf("%s/server.key", dir);
    autofree char *ca = client_ca ? xprintf("%s/%s.crt", dir, client_ca) : NULL;
    const struct tls_files files = { .certificate = crt, .key = key, .client_ca = ca };
    struct tls *tls = NULL;
    struct err err = ERR_NONE;

    write_identity(dir, "server", "server.test", GNUTLS_KP_TLS_WWW_SERVER);
    if (tls_new(&files, &tls, &err) < 0)
        fail_msg("%s", err.text);
    return tls;
}

/* Both ends of a connection in one thread, each going on when the other has said something. */
struct meeting {
    int fds[2];
    struct tls_session *server;
    gnutls_session_t client;
    gnutls_certificate_credentials_t credentials;
    int server_result, client_result;
};

static const char *const h2[] = { "h2", NULL };

static void meeting_start(struct meeting *m, struct tls *tls, const char *dir, const char *identity, const char *priority,
                          const char *alpn)
{
    const gnutls_datum_t protocol = { (unsigned char *) (uintptr_t) alpn, (unsigned) strlen(alpn) };

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, m->fds), 0);
    assert_int_equal(tls_session_new(tls, m->fds[0], h2, &m->server), 0);
    gnutls_certificate_allocate_credentials(&m->credentials);
    if (identity) {
        autofree char *crt = xprintf("%s/%s.crt", dir, identity), *key = xprintf("%s/%s.key", dir, identity);
        assert_int_equal(gnutls_certificate_set_x509_key_file(m->credentials, crt, key, GNUTLS_X509_FMT_PEM), 0);
    }
    gnutls_init(&m->client, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    assert_int_equal(gnutls_priority_set_direct(m->client, priority, NULL), 0);
    gnutls_credentials_set(m->client, GNUTLS_CRD_CERTIFICATE, m->credentials);
    gnutls_alpn_set_protocols(m->client, &protocol, 1, 0);
    gnutls_transport_set_int(m->client, m->fds[1]);
    m->server_result = -EAGAIN;
    m->client_result = GNUTLS_E_AGAIN;
    for (int i = 0; i < 100 && (m->server_result == -EAGAIN || m->client_result == GNUTLS_E_AGAIN); i++) {
        if (m->client_result == GNUTLS_E_AGAIN)
            m->client_result = gnutls_handshake(m->client);
        if (m->server_result == -EAGAIN)
            m->server_result = tls_session_handshake(m->server);
    }
}

static void meeting_end(struct meeting *m)
{
    tls_session_free(m->server);
    gnutls_deinit(m->client);
    gnutls_certificate_free_credentials(m->credentials);
    close(m->fds[0]);
    close(m->fds[1]);
}

static void what_is_written_is_read(void **state)
{
    autoptr(tls) tls = make_tls(*state, NULL);
    struct meeting m;
    char bytes[16];

    meeting_start(&m, tls, *state, NULL, "NORMAL", "h2");
    assert_int_equal(m.server_result, 0);
    assert_int_equal(m.client_result, 0);
    assert_null(tls_session_dup_subject(m.server));
    assert_int_equal(tls_session_read(m.server, bytes, sizeof(bytes)), -EAGAIN);
    assert_false(tls_session_wants_write(m.server));
    assert_int_equal(gnutls_record_send(m.client, "hello", 5), 5);
    assert_int_equal(tls_session_read(m.server, bytes, sizeof(bytes)), 5);
    assert_int_equal(tls_session_write(m.server, "world!", 6), 6);
    assert_int_equal(gnutls_record_recv(m.client, bytes, sizeof(bytes)), 6);
    gnutls_bye(m.client, GNUTLS_SHUT_WR);
    assert_int_equal(tls_session_read(m.server, bytes, sizeof(bytes)), 0);
    meeting_end(&m);
}

/* Bytes taken before -EAGAIN arrive once, although the buffer they are in has moved and grown. */
static void a_full_socket_loses_and_doubles_nothing(void **state)
{
    autoptr(tls) tls = make_tls(*state, NULL);
    const size_t total = 1u << 20;
    unsigned char *sent = malloc(total), *got = malloc(total);
    size_t out = 0, in = 0, waits = 0;
    struct meeting m;

    for (size_t i = 0; i < total; i++)
        sent[i] = (unsigned char) (i * 31 + (i >> 8));
    meeting_start(&m, tls, *state, NULL, "NORMAL", "h2");
    assert_int_equal(m.server_result, 0);
    while (in < total) {
        while (out < total) {
            size_t len = total - out;
            unsigned char *moved = malloc(len);
            memcpy(moved, sent + out, len);
            ssize_t n = tls_session_write(m.server, moved, len);
            free(moved);
            if (n == -EAGAIN) {
                assert_true(tls_session_wants_write(m.server));
                waits++;
                break;
            }
            assert_true(n > 0);
            out += (size_t) n;
        }
        ssize_t n = gnutls_record_recv(m.client, got + in, total - in);
        if (n != GNUTLS_E_AGAIN) {
            assert_true(n > 0);
            in += (size_t) n;
        }
    }
    assert_true(waits > 0);
    assert_memory_equal(sent, got, total);
    meeting_end(&m);
    free(sent);
    free(got);
}

static void old_versions_and_other_protocols_are_refused(void **state)
{
    autoptr(tls) tls = make_tls(*state, NULL);
    struct meeting m;

    meeting_start(&m, tls, *state, NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.1:+SHA1", "h2");
    assert_int_equal(m.server_result, -EPROTO);
    meeting_end(&m);
    meeting_start(&m, tls, *state, NULL, "NORMAL", "http/1.1");
    assert_int_equal(m.server_result, -EPROTO);
    meeting_end(&m);
    meeting_start(&m, tls, *state, NULL, "NORMAL:-VERS-ALL:+VERS-TLS1.2", "h2");
    assert_int_equal(m.server_result, 0);
    meeting_end(&m);
}

static void a_client_shows_a_certificate_of_the_authority(void **state)
{
    struct meeting m;

    write_identity(*state, "alice", "alice", GNUTLS_KP_TLS_WWW_CLIENT);
    write_identity(*state, "mallory", "alice", GNUTLS_KP_TLS_WWW_CLIENT);
    write_identity(*state, "web", "web", GNUTLS_KP_TLS_WWW_SERVER);
    autoptr(tls) tls = make_tls(*state, "alice");
    meeting_start(&m, tls, *state, "alice", "NORMAL", "h2");
    assert_int_equal(m.server_result, 0);
    autofree char *subject = tls_session_dup_subject(m.server);
    assert_string_equal(subject, "CN=alice");
    meeting_end(&m);
    meeting_start(&m, tls, *state, "mallory", "NORMAL", "h2");
    assert_int_equal(m.server_result, -EPROTO);
    meeting_end(&m);
    meeting_start(&m, tls, *state, NULL, "NORMAL", "h2");
    assert_int_equal(m.server_result, -EPROTO);
    meeting_end(&m);
    autoptr(tls) web = make_tls(*state, "web");
    meeting_start(&m, web, *state, "web", "NORMAL", "h2");
    assert_int_equal(m.server_result, -EPROTO);
    meeting_end(&m);
}

static void reloading_takes_the_new_files_or_keeps_the_old(void **state)
{
    autoptr(tls) tls = make_tls(*state, NULL);
    autofree char *key = xprintf("%s/server.key", (char *) *state);
    struct meeting before, after;
    struct err err = ERR_NONE;
    unsigned count;
    char bytes[4];

    meeting_start(&before, tls, *state, NULL, "NORMAL", "h2");
    write_identity(*state, "server", "other.test", GNUTLS_KP_TLS_WWW_SERVER);
    assert_int_equal(tls_reload(tls, NULL), 0);
    meeting_start(&after, tls, *state, NULL, "NORMAL", "h2");
    const gnutls_datum_t *a = gnutls_certificate_get_peers(before.client, &count);
    const gnutls_datum_t *b = gnutls_certificate_get_peers(after.client, &count);
    assert_true(a->size != b->size || memcmp(a->data, b->data, a->size) != 0);
    /* The old session goes on. */
    assert_int_equal(gnutls_record_send(before.client, "x", 1), 1);
    assert_int_equal(tls_session_read(before.server, bytes, sizeof(bytes)), 1);
    meeting_end(&before);
    meeting_end(&after);
    put_file(key, "rubbish", 7);
    assert_int_equal(tls_reload(tls, &err), -EINVAL);
    assert_non_null(strstr(err.text, "server.key"));
    meeting_start(&after, tls, *state, NULL, "NORMAL", "h2");
    assert_int_equal(after.server_result, 0);
    meeting_end(&after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_full_socket_loses_and_doubles_nothing, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(old_versions_and_other_protocols_are_refused, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_client_shows_a_certificate_of_the_authority, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(reloading_takes_the_new_files_or_keeps_the_old, dir_setup, dir_teardown),
    };
    return cmocka_run_group_tests_name("tls", tests, NULL, NULL);
}
