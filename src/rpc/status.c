#include "rpc/status.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <google/rpc/status.pb-c.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "rpc/metadata.h"

#define DOMAIN "agentfense"
#define TYPE_PREFIX "type.googleapis.com/"
#define ERROR_INFO_TYPE TYPE_PREFIX "google.rpc.ErrorInfo"

/* Clients accept 8 KiB of header fields by default, and otherwise reject the whole answer. The percent-encoded message may have
 * 3 KiB, and the details contain it again. */
#define DETAILS_MAX 2048
#define DETAIL_VALUE_MAX 200
#define TRAILERS_BYTES_MAX 1500

void status_done(struct status *status)
{
    buf_done(&status->message);
    buf_done(&status->details);
    buf_done(&status->trailers);
    *status = (struct status){ 0 };
}

/* A truncated text may end inside a character, and a quoted text from a client may contain any bytes. Clients reject both. */
static void status_copy_text(const char *text, char *out, size_t size)
{
    size_t len = strlen(text), used = 0;

    while (len > 0) {
        uint32_t code_point;
        size_t n = utf8_decode(text, len, &code_point), step = n ? n : 1;
        if (used + step >= size)
            break;
        if (n)
            memcpy(out + used, text, n);
        else
            out[used] = '?';
        used += step;
        text += step;
        len -= step;
    }
    out[used] = '\0';
}

static void pack_message(const ProtobufCMessage *message, struct buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);

    buf_room(out, len);
    protobuf_c_message_pack(message, (uint8_t *) out->data + out->len);
    out->len += len;
}

static void status_pack_reason(const struct call *call, struct buf *out)
{
    Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
    Google__Rpc__ErrorInfo__MetadataEntry entries[CALL_DETAILS_MAX], *list[CALL_DETAILS_MAX];
    char values[CALL_DETAILS_MAX][DETAIL_VALUE_MAX];

    for (size_t i = 0; i < call->detail_count; i++) {
        google__rpc__error_info__metadata_entry__init(list[i] = &entries[i]);
        entries[i].key = (char *) call->details[i].key;
        entries[i].value = values[i];
        status_copy_text(call->details[i].value, values[i], sizeof(values[i]));
    }
    info.reason = (char *) call->reason;
    info.domain = (char *) DOMAIN;
    info.metadata = list;
    info.n_metadata = call->detail_count;
    pack_message(&info.base, out);
}

static ProtobufCBinaryData data_of(const struct buf *bytes)
{
    return (ProtobufCBinaryData){ .data = (uint8_t *) bytes->data, .len = bytes->len };
}

/* Returns false if the details are too large. */
static bool status_pack_details(const struct status *status, const char *text, Google__Protobuf__Any **details, size_t count,
                                struct buf *out)
{
    Google__Rpc__Status whole = GOOGLE__RPC__STATUS__INIT;

    whole.code = (int32_t) status->code;
    whole.message = (char *) text;
    whole.details = details;
    whole.n_details = count;
    if (google__rpc__status__get_packed_size(&whole) > DETAILS_MAX)
        return false;
    pack_message(&whole.base, out);
    return true;
}

static void status_add_details(struct status *status, const char *text, const struct call *call)
{
    Google__Protobuf__Any anys[2] = { GOOGLE__PROTOBUF__ANY__INIT, GOOGLE__PROTOBUF__ANY__INIT },
                          *list[] = { &anys[0], &anys[1] };
    autodone(buf) struct buf reason = BUF_EMPTY, failure = BUF_EMPTY, bytes = BUF_EMPTY;
    autofree char *failure_type = NULL;
    size_t count = 1;

    status_pack_reason(call, &reason);
    anys[0].type_url = (char *) ERROR_INFO_TYPE;
    anys[0].value = data_of(&reason);
    if (call->failure) {
        pack_message(call->failure, &failure);
        anys[1].type_url = failure_type = xprintf(TYPE_PREFIX "%s", call->failure->descriptor->name);
        anys[1].value = data_of(&failure);
        count = 2;
    }
    if (status_pack_details(status, text, list, count, &bytes) ||
        (count == 2 && status_pack_details(status, text, list, 1, &bytes)))
        metadata_add_base64(&status->details, bytes.data, bytes.len);
}

void status_set(struct status *status, const struct err *err, const struct call *call)
{
    char text[ERR_TEXT_MAX];

    status->code = err->code <= ERR_UNAUTHENTICATED ? err->code : ERR_UNKNOWN;
    buf_clear(&status->message);
    buf_clear(&status->details);
    if (status->code == ERR_OK)
        return;
    status_copy_text(err->text, text, sizeof(text));
    metadata_add_percent(&status->message, text);
    if (call && call->reason)
        status_add_details(status, text, call);
}

void status_add_trailer(struct status *status, const char *name, const char *value)
{
    struct buf *out = &status->trailers;

    if (status->trailer_count == STATUS_TRAILERS_MAX || out->len + strlen(name) + 2 * strlen(value) > TRAILERS_BYTES_MAX)
        return;
    for (const char *c = name; *c; c++)
        buf_add_char(out, (char) tolower((unsigned char) *c));
    buf_add_char(out, '\0');
    if (metadata_is_binary(name)) {
        metadata_add_base64(out, value, strlen(value));
    } else {
        for (const char *c = value; *c; c++)
            buf_add_char(out, (char) (*c >= 0x20 && *c <= 0x7e ? *c : '?'));
    }
    buf_add_char(out, '\0');
    status->trailer_count++;
}
