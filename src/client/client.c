#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "api/methods.h"
#include "base/clock.h"
#include "base/mem.h"
#include "client/client_int.h"
#include "rest/field.h"

/* So long another command is waited for: most are over in a moment. */
#define WAIT_NS (5 * CLOCK_NS_PER_SEC)
#define RETRY_MS 25

struct client {
    struct remote *remote;     /* owned; NULL: in this process */
    struct embedded *embedded; /* owned */
    bool is_twin;              /* and then `embedded` is the other's */
};

/* ---- where ---- */

static bool is_cancelled(int cancel_fd, int wait_ms)
{
    struct pollfd p = { .fd = cancel_fd, .events = POLLIN };

    return poll(&p, 1, wait_ms) > 0;
}

static int refuse_busy(const struct client_options *o, struct err *err)
{
    return err_set(
        err, ERR_UNAVAILABLE, -EBUSY,
        "the state in '%s' is in use, and no server of yours answers at %s: if a server has it, say where it answers "
        "(--server URL or AGENTFENSE_URL); if another command has it, try again, or run 'agentfense serve', "
        "which many may use at once",
        o->local->mount_path, *o->local_address ? o->local_address : "any address");
}

/* Our own state first: who holds it is who to ask, while anybody may listen at the usual address. */
static int open_local(const struct client_options *o, struct client *client, struct err *err)
{
    int64_t until = clock_now_ns() + WAIT_NS;
    int r;

    while ((r = embedded_open(o->local, o->cancel_fd, &client->embedded, err)) == -EBUSY) {
        if (server_is_ours(o->local_address)) {
            bool is_unix = strncmp(o->local_address, "unix:", 5) == 0;
            autofree char *url = xprintf("%s%s", is_unix ? "" : o->local_is_tls ? "https://" : "http://", o->local_address);
            return remote_open(url, o, &client->remote, err);
        }
        if (is_cancelled(o->cancel_fd, RETRY_MS))
            return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
        if (clock_now_ns() > until)
            return refuse_busy(o, err);
    }
    return r;
}

int client_open(const struct client_options *options, struct client **ret, struct err *err)
{
    autoptr(client) client = xnew(struct client);
    int r;

    if (options->server)
        r = remote_open(options->server, options, &client->remote, err);
    else
        r = open_local(options, client, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&client);
    return 0;
}

/* The service in this process takes calls from many threads. */
int client_open_twin(const struct client *client, struct client **ret, struct err *err)
{
    autoptr(client) twin = xnew(struct client);
    int r = client->remote ? remote_open_twin(client->remote, &twin->remote, err) : 0;

    if (r < 0)
        return r;
    twin->is_twin = true;
    twin->embedded = client->embedded;
    *ret = steal_ptr(&twin);
    return 0;
}

void client_close(struct client *client)
{
    if (!client)
        return;
    remote_close(client->remote);
    if (!client->is_twin)
        embedded_close(client->embedded);
    free(client);
}

bool client_is_remote(const struct client *client)
{
    return client->remote;
}

const char *client_where(const struct client *client)
{
    return client->remote ? remote_where(client->remote) : "this process";
}

int client_health(struct client *client, struct buf *out, struct err *err)
{
    return client->remote ? remote_get(client->remote, "/health", out, err) : embedded_health(client->embedded, out, err);
}

/* ---- calls ---- */

static const struct method *find(const char *name)
{
    size_t count;
    const struct method *methods = api_methods(&count);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    }
    abort(); /* a name of ours */
}

int client_call(struct client *client, const struct client_call *call, struct err *err)
{
    const struct method *method = find(call->method);

    return client->remote ? remote_call(client->remote, method, call, err) : embedded_call(client->embedded, method, call, err);
}

int client_web(struct client *client, const struct client_web *request, int *ret_status, struct buf *ret, struct err *err)
{
    return client->remote ? remote_web(client->remote, request, ret_status, ret, err)
                          : embedded_web(client->embedded, request, ret_status, ret, err);
}

int client_connect(struct client *client, const char *path, struct carrier *ret, int *ret_status, struct buf *answer,
                   struct err *err)
{
    return client->remote ? remote_connect(client->remote, path, ret, ret_status, answer, err)
                          : embedded_connect(client->embedded, path, ret, ret_status, answer, err);
}

/* What a callback is lent, kept. */
static int keep(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    ProtobufCMessage **ret = cookie;
    size_t len = protobuf_c_message_get_packed_size(answer);
    autofree uint8_t *bytes = malloc(len + 1);

    if (!bytes)
        return err_errno(err, -ENOMEM, "an answer of %zu bytes", len);
    protobuf_c_message_pack(answer, bytes);
    *ret = protobuf_c_message_unpack(answer->descriptor, NULL, len, bytes);
    return *ret ? 0 : err_errno(err, -ENOMEM, "an answer of %zu bytes", len);
}

int client_ask(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
               struct err *err)
{
    ProtobufCMessage *answer = NULL;
    struct client_call call = { .method = method, .request = request, .on_answer = keep, .cookie = &answer };
    int r = client_call(client, &call, err);

    if (r < 0) {
        if (answer)
            protobuf_c_message_free_unpacked(answer, NULL);
        return r;
    }
    *ret = answer;
    return 0;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name)
{
    return field_find(message->descriptor, name, strlen(name));
}

/* The first list of an answer is what it lists. */
static int each_item(const ProtobufCMessage *answer, client_item_fn fn, void *cookie, struct err *err)
{
    for (unsigned i = 0; i < answer->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &answer->descriptor->fields[i];
        ProtobufCMessage **items;
        int r = 0;

        if (field->label != PROTOBUF_C_LABEL_REPEATED)
            continue;
        items = *(ProtobufCMessage ***) field_member(answer, field);
        for (size_t j = 0; r == 0 && j < *field_count(answer, field); j++)
            r = fn(items[j], cookie, err);
        return r;
    }
    return 0;
}

int client_list(struct client *client, const char *method, ProtobufCMessage *request, client_item_fn fn, void *cookie,
                struct err *err)
{
    const ProtobufCFieldDescriptor *field = field_of(request, "page_token");
    const char **place = field ? field_member(request, field) : NULL;
    const char *before = place ? *place : NULL;
    autofree char *token = NULL;
    int r;

    do {
        ProtobufCMessage *answer = NULL;

        r = client_ask(client, method, request, &answer, err);
        if (r < 0)
            break;
        r = each_item(answer, fn, cookie, err);
        free(steal_ptr(&token));
        field = field_of(answer, "next_page_token");
        if (place && field)
            token = xdup(*(const char **) field_member(answer, field));
        protobuf_c_message_free_unpacked(answer, NULL);
        if (place)
            *place = token;
    } while (r == 0 && token && *token);
    if (place)
        *place = before;
    return r < 0 ? r : 0;
}
