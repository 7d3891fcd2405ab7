/* Methods with one answer, and lists of several pages. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "client/client.h"
#include "rest/field.h"

/* A hostile server that invents reasons must not fill our memory. */
#define REASONS_MAX 256
#define REASON_MAX 64

const char *client_keep_reason(const char *reason)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *kept[REASONS_MAX]; /* guarded by lock; never freed */
    static size_t count;
    size_t len = reason ? strlen(reason) : 0, i = 0;
    const char *found = NULL;

    if (len == 0 || len >= REASON_MAX || strspn(reason, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != len)
        return NULL;
    pthread_mutex_lock(&lock);
    while (i < count && strcmp(kept[i], reason) != 0)
        i++;
    if (i == count && count < REASONS_MAX)
        kept[count++] = xdup(reason);
    if (i < count)
        found = kept[i];
    pthread_mutex_unlock(&lock);
    return found;
}

/* Callbacks borrow the answer, so this copies it. */
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

void client_refusal_done(struct client_refusal *refusal)
{
    if (refusal->failure)
        protobuf_c_message_free_unpacked(refusal->failure, NULL);
    refusal->failure = NULL;
}

int client_ask(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
               struct err *err)
{
    return client_ask_refusal(client, method, request, ret, NULL, err);
}

int client_ask_refusal(struct client *client, const char *method, const ProtobufCMessage *request, ProtobufCMessage **ret,
                       struct client_refusal *refusal, struct err *err)
{
    ProtobufCMessage *answer = NULL;
    struct client_call call = {
        .method = method, .request = request, .on_answer = keep, .cookie = &answer, .refusal = refusal
    };
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

/* The first repeated field of an answer has its items. */
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
