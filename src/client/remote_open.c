/* Whom we talk to: the address, and how a connection to it is made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "client/remote_int.h"

#define CONNECT_MS 10000
#define POLL_MS 1000
#define KEEPALIVE_SEC 30L

static bool host_is_near(const char *url)
{
    static const char *const near[] = { "localhost", "127.0.0.1", "[::1]" };
    const char *host = strstr(url, "://") + 3;

    for (size_t i = 0; i < ARRAY_LEN(near); i++) {
        size_t len = strlen(near[i]);
        if (strncasecmp(host, near[i], len) == 0 && strchr(":/", host[len]))
            return true;
    }
    return false;
}

static int remote_take_address(struct remote *remote, const char *server, struct err *err)
{
    size_t len = strlen(server);

    remote->server = xdup(server);
    remote->where = xdup(remote->log_path ? "the private server" : server);
    if (strncmp(server, "unix:", 5) == 0) {
        remote->socket = xdup(server + 5);
        remote->base = xdup("http://localhost");
        remote->is_near = true;
        return remote->socket[0] == '/' ? 0 : err_invalid(err, "server '%s': the path of a socket begins with '/'", server);
    }
    if (strncmp(server, "http://", 7) != 0 && strncmp(server, "https://", 8) != 0)
        return err_invalid(err, "server '%s' is neither http://..., https://... nor unix:PATH", server);
    while (len > 0 && server[len - 1] == '/')
        len--;
    remote->base = xdupn(server, len);
    remote->is_near = host_is_near(server);
    return 0;
}

static char *dup_if(const char *s)
{
    return s ? xdup(s) : NULL;
}

int remote_open(const char *server, const char *log_path, const struct client_options *o, struct remote **ret, struct err *err)
{
    autoptr(remote) remote = xnew(struct remote);
    int r;

    remote->log_path = dup_if(log_path);
    r = remote_take_address(remote, server, err);
    if (r < 0)
        return r;
    if (o->token && (!*o->token || strpbrk(o->token, "\r\n")))
        return err_invalid(err, "the token is not one line of text");
    if (o->key_file && !o->cert_file)
        return err_invalid(err, "a key of ours without a certificate says nothing to a server; give both");
    remote->token = dup_if(o->token);
    remote->ca_file = dup_if(o->ca_file);
    remote->cert_file = dup_if(o->cert_file);
    remote->key_file = dup_if(o->key_file ? o->key_file : o->cert_file);
    remote->cancel_fd = o->cancel_fd;
    remote->timeout_ms = o->timeout_ms;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    remote->easy = curl_easy_init();
    remote->multi = curl_multi_init();
    if (!remote->easy || !remote->multi)
        return err_errno(err, -ENOMEM, "making a client");
    *ret = steal_ptr(&remote);
    return 0;
}

int remote_open_twin(const struct remote *remote, struct remote **ret, struct err *err)
{
    const struct client_options same = { .token = remote->token,
                                         .ca_file = remote->ca_file,
                                         .cert_file = remote->cert_file,
                                         .key_file = remote->key_file,
                                         .timeout_ms = remote->timeout_ms,
                                         .cancel_fd = remote->cancel_fd };

    return remote_open(remote->server, remote->log_path, &same, ret, err);
}

void remote_close(struct remote *remote)
{
    if (!remote)
        return;
    curl_easy_cleanup(remote->easy);
    if (remote->multi)
        curl_multi_cleanup(remote->multi);
    if (remote->token)
        explicit_bzero(remote->token, strlen(remote->token));
    free(remote->token);
    free(remote->ca_file);
    free(remote->cert_file);
    free(remote->key_file);
    free(remote->socket);
    free(remote->server);
    free(remote->where);
    free(remote->log_path);
    free(remote->base);
    free(remote);
}

const char *remote_where(const struct remote *remote)
{
    return remote->where;
}

/* ---- connections ---- */

void remote_dress(const struct remote *remote, CURL *easy, const char *url, char *why)
{
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* names of files are not ours to tidy up */
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_SEC);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "agentfense/" AGENTFENSE_VERSION);
    if (remote->socket)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, remote->socket);
    if (remote->is_near)
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (remote->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, remote->ca_file);
    if (remote->cert_file) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, remote->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, remote->key_file);
    }
}

int remote_perform(const struct remote *remote, CURL *easy, CURLM *multi, CURLcode *ret)
{
    struct curl_waitfd cancel = { .fd = remote->cancel_fd, .events = CURL_WAIT_POLLIN };
    int running = 1, r = 0, left;
    CURLMsg *message;

    curl_multi_add_handle(multi, easy);
    while (r == 0 && running > 0) {
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            r = -EIO;
        if (r == 0 && running > 0)
            curl_multi_poll(multi, &cancel, remote->cancel_fd >= 0 ? 1 : 0, POLL_MS, NULL);
        if (cancel.revents)
            r = -ECANCELED;
    }
    *ret = CURLE_GOT_NOTHING;
    while (r == 0 && (message = curl_multi_info_read(multi, &left))) {
        if (message->msg == CURLMSG_DONE)
            *ret = message->data.result;
    }
    return r;
}

int remote_refuse(const struct remote *remote, CURLcode code, const char *why, struct err *err)
{
    const char *text = *why ? why : curl_easy_strerror(code);

    if (remote->log_path)
        return err_set(
            err, ERR_UNAVAILABLE, -EIO,
            "the private server ended before it had answered (%s); what it acknowledged before is done. Its log is '%s'", text,
            remote->log_path);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        return err_set(err, ERR_UNAVAILABLE, -ECONNREFUSED, "no server answers at %s: %s", remote->where, text);
    return err_set(err, ERR_UNAVAILABLE, -EIO, "%s: %s", remote->where, text);
}
