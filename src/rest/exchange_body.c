/* Request bodies that are the content of a file, raw or as the one file of a form. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rest/exchange_int.h"
#include "rest/field.h"
#include "rest/json_message.h"
#include "rest/request_fields.h"

#define FORM_VALUE_MAX 4096

/* Call with the lock held. Keeps the first reason. */
static void exchange_reject_body(struct exchange *exchange, const char *why)
{
    if (!exchange->body_refusal)
        exchange->body_refusal = xdup(why);
    pthread_cond_broadcast(&exchange->changed);
}

static bool has_path(const ProtobufCMessage *metadata)
{
    const ProtobufCFieldDescriptor *field = field_find(metadata->descriptor, "file_path", strlen("file_path"));

    return !field || field->type != PROTOBUF_C_TYPE_STRING || **(char **) field_member(metadata, field) != '\0';
}

static int exchange_begin_file(struct exchange *exchange, const char *filename, struct err *err)
{
    int r = 0;

    pthread_mutex_lock(&exchange->lock);
    /* The handler takes the metadata only after the file has begun. */
    if (exchange->file_has_begun)
        r = err_invalid(err, "a form has one file");
    else if (filename && !has_path(exchange->metadata))
        r = request_fields_set(exchange->metadata, &exchange->match, "path", filename, strlen(filename), err);
    if (r == 0)
        exchange->file_has_begun = true;
    pthread_mutex_unlock(&exchange->lock);
    return r;
}

static int exchange_on_part(void *cookie, const char *name, const char *filename, struct err *err)
{
    struct exchange *exchange = cookie;

    exchange->form_is_file = filename || strcmp(name, "file") == 0;
    if (exchange->form_is_file)
        return exchange_begin_file(exchange, filename, err);
    if (exchange->file_has_begun)
        return err_invalid(err, "in a form, the file comes last");
    buf_clear(&exchange->form_name);
    buf_clear(&exchange->form_value);
    buf_add_str(&exchange->form_name, name);
    return 0;
}

static int exchange_on_part_data(void *cookie, const char *bytes, size_t len, struct err *err)
{
    struct exchange *exchange = cookie;

    if (exchange->form_is_file) {
        pthread_mutex_lock(&exchange->lock);
        buf_add(&exchange->inbox, bytes, len);
        pthread_mutex_unlock(&exchange->lock);
        return 0;
    }
    if (exchange->form_value.len + len > FORM_VALUE_MAX)
        return err_invalid(err, "a field of the form is too long");
    buf_add(&exchange->form_value, bytes, len);
    return 0;
}

static int exchange_on_part_end(void *cookie, struct err *err)
{
    struct exchange *exchange = cookie;
    const struct buf *value = &exchange->form_value;

    /* No other thread uses the metadata before the file begins. */
    if (exchange->form_is_file)
        return 0;
    return request_fields_set(exchange->metadata, &exchange->match, exchange->form_name.data ? exchange->form_name.data : "",
                              value->data ? value->data : "", value->len, err);
}

static const struct multipart_ops form_ops = { .begin = exchange_on_part,
                                               .data = exchange_on_part_data,
                                               .end = exchange_on_part_end };

/* Makes the first message of the stream: the field `metadata`, from path and query. */
int exchange_prepare_stream(struct exchange *exchange, struct err *err)
{
    const ProtobufCFieldDescriptor *field = field_find(exchange->call.method->request, "metadata", strlen("metadata"));
    const ProtobufCFieldDescriptor *size;
    size_t budget = JSON_MESSAGE_MEMORY_MAX;
    int r;

    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return err_set(err, ERR_INTERNAL, -EINVAL, "this method takes no bytes");
    exchange->metadata = field_new_message(&budget, field->descriptor);
    if (!exchange->metadata)
        return err_errno(err, -ENOMEM, "making a request");
    size = field_find(exchange->metadata->descriptor, "total_size", strlen("total_size"));
    if (size && size->type == PROTOBUF_C_TYPE_INT64 && exchange->total_size >= 0 && !exchange->is_multipart)
        *(int64_t *) field_member(exchange->metadata, size) = exchange->total_size;
    r = request_fields_of_query(exchange->metadata, &exchange->match, exchange->query, exchange->query_len, err);
    if (r == 0)
        r = request_fields_of_path(exchange->metadata, &exchange->match, err);
    if (r < 0 || !exchange->is_multipart)
        return r;
    return multipart_new(exchange_header(exchange, "content-type"), &form_ops, exchange, &exchange->form, err);
}

void exchange_feed(struct exchange *exchange, const char *bytes, size_t len)
{
    struct err err = ERR_NONE;
    int r = exchange->form ? multipart_feed(exchange->form, bytes, len, &err) : 0;

    pthread_mutex_lock(&exchange->lock);
    if (r < 0)
        exchange_reject_body(exchange, err.text);
    else if (!exchange->form)
        buf_add(&exchange->inbox, bytes, len);
    pthread_mutex_unlock(&exchange->lock);
}

void exchange_finish_body(struct exchange *exchange)
{
    struct err err = ERR_NONE;
    int r = exchange->form ? multipart_finish(exchange->form, &err) : 0;

    pthread_mutex_lock(&exchange->lock);
    if (r < 0)
        exchange_reject_body(exchange, err.text);
    else if (exchange->form && !exchange->file_has_begun)
        exchange_reject_body(exchange, "the form has no file");
    exchange->body_is_complete = true;
    pthread_cond_broadcast(&exchange->changed);
    pthread_mutex_unlock(&exchange->lock);
}
