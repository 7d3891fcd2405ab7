/* Opens a client: finds the address of the server and configures libcurl for it. */
#include "client/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "client/client_int.h"

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

static int client_take_address(struct client *client, const char *server, struct err *err)
{
    size_t len = strlen(server);

    client->server = xdup(server);
    client->where = xdup(client->log_path ? "the private server" : server);
    if (strncmp(server, "unix:", 5) == 0) {
        client->socket = xdup(server + 5);
        client->base = xdup("http://localhost");
        client->is_near = true;
        return client->socket[0] == '/' ? 0 : err_invalid(err, "server '%s': the path of a socket begins with '/'", server);
    }
    if (strncmp(server, "http://", 7) != 0 && strncmp(server, "https://", 8) != 0)
        return err_invalid(err, "server '%s' is neither http://..., https://... nor unix:PATH", server);
    while (len > 0 && server[len - 1] == '/')
        len--;
    client->base = xdupn(server, len);
    client->is_near = host_is_near(server);
    return 0;
}

static char *dup_if(const char *s)
{
    return s ? xdup(s) : NULL;
}

/* Connects to `server`, whatever `o->server` says. */
static int client_connect_to(struct client *client, const char *server, const struct client_options *o, struct err *err)
{
    int r = client_take_address(client, server, err);

    if (r < 0)
        return r;
    if (o->token && (!*o->token || strpbrk(o->token, "\r\n")))
        return err_invalid(err, "the token is not one line of text");
    if (o->key_file && !o->cert_file)
        return err_invalid(err, "a client key without a certificate cannot be used; give both");
    client->token = dup_if(o->token);
    client->ca_file = dup_if(o->ca_file);
    client->cert_file = dup_if(o->cert_file);
    client->key_file = dup_if(o->key_file ? o->key_file : o->cert_file);
    client->cancel_fd = o->cancel_fd;
    client->timeout_ms = o->timeout_ms;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    client->easy = curl_easy_init();
    client->multi = curl_multi_init();
    return client->easy && client->multi ? 0 : err_errno(err, -ENOMEM, "making a client");
}

/* A private server needs no token, no timeout and no certificates. */
static int client_connect_to_own(struct client *client, const struct client_options *o, struct err *err)
{
    const struct client_options plain = { .cancel_fd = o->cancel_fd };
    int r = private_server_open(o, &client->private_server, err);

    if (r < 0)
        return r;
    if (r > 0) {
        client->log_path = xdup(client->private_server.log_path);
        return client_connect_to(client, client->private_server.address, &plain, err);
    }
    bool is_unix = strncmp(o->local_address, "unix:", 5) == 0;
    autofree char *url = xprintf("%s%s", is_unix ? "" : o->local_is_tls ? "https://" : "http://", o->local_address);
    return client_connect_to(client, url, o, err);
}

int client_open(const struct client_options *options, struct client **ret, struct err *err)
{
    autoptr(client) client = xnew(struct client);
    int r;

    client->private_server = PRIVATE_SERVER_NONE;
    r = options->server ? client_connect_to(client, options->server, options, err)
                        : client_connect_to_own(client, options, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&client);
    return 0;
}

int client_open_twin(const struct client *client, struct client **ret, struct err *err)
{
    const struct client_options same = { .token = client->token,
                                         .ca_file = client->ca_file,
                                         .cert_file = client->cert_file,
                                         .key_file = client->key_file,
                                         .timeout_ms = client->timeout_ms,
                                         .cancel_fd = client->cancel_fd };
    autoptr(client) twin = xnew(struct client);
    int r;

    twin->private_server = PRIVATE_SERVER_NONE;
    twin->log_path = dup_if(client->log_path);
    r = client_connect_to(twin, client->server, &same, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&twin);
    return 0;
}

void client_close(struct client *client)
{
    if (!client)
        return;
    curl_easy_cleanup(client->easy);
    if (client->multi)
        curl_multi_cleanup(client->multi);
    if (client->token)
        explicit_bzero(client->token, strlen(client->token));
    free(client->token);
    free(client->ca_file);
    free(client->cert_file);
    free(client->key_file);
    free(client->socket);
    free(client->server);
    free(client->where);
    free(client->log_path);
    free(client->base);
    private_server_done(&client->private_server);
    free(client);
}

bool client_is_remote(const struct client *client)
{
    return !client->log_path;
}

const char *client_where(const struct client *client)
{
    return client->where;
}

/* ---- libcurl ---- */

void client_dress(const struct client *client, CURL *easy, const char *url, char *why)
{
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* send file names such as ".." as they are */
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_SEC);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "agentfense/" AGENTFENSE_VERSION);
    if (client->socket)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket);
    if (client->is_near)
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (client->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
    if (client->cert_file) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, client->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, client->key_file);
    }
}

int client_perform(const struct client *client, CURL *easy, CURLM *multi, CURLcode *ret)
{
    struct curl_waitfd cancel = { .fd = client->cancel_fd, .events = CURL_WAIT_POLLIN };
    int running = 1, r = 0, left;
    CURLMsg *message;

    curl_multi_add_handle(multi, easy);
    while (r == 0 && running > 0) {
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            r = -EIO;
        if (r == 0 && running > 0)
            curl_multi_poll(multi, &cancel, client->cancel_fd >= 0 ? 1 : 0, POLL_MS, NULL);
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

int client_refuse(const struct client *client, CURLcode code, const char *why, struct err *err)
{
    const char *text = *why ? why : curl_easy_strerror(code);

    if (client->log_path)
        return err_set(
            err, ERR_UNAVAILABLE, -EIO,
            "the private server ended before it had answered (%s); what it acknowledged before is done. Its log is '%s'", text,
            client->log_path);
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        return err_set(err, ERR_UNAVAILABLE, -ECONNREFUSED, "no server answers at %s: %s", client->where, text);
    return err_set(err, ERR_UNAVAILABLE, -EIO, "%s: %s", client->where, text);
}
