#include "rpc/status.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <google/rpc/status.pb-c.h>

#include "base/mem.h"
#include "rpc/metadata.h"

#define DOMAIN "agentfense"
#define ERROR_INFO_TYPE "type.googleapis.com/google.rpc.ErrorInfo"

/* Clients take 8 KiB of header fields by default; with the message in them there must be room left. */
#define DETAILS_MAX 3072
#define DETAIL_VALUE_MAX 256

void status_done(struct status *status)
{
    buf_done(&status->message);
    buf_done(&status->details);
    buf_done(&status->trailers);
    *status = (struct status){ 0 };
}

static void pack(const ProtobufCMessage *message, struct buf *out)
{
    size_t len = protobuf_c_message_get_packed_size(message);

    buf_room(out, len);
    protobuf_c_message_pack(message, (uint8_t *) out->data + out->len);
    out->len += len;
}

static void pack_reason(const struct call *call, struct buf *out)
{
    Google__Rpc__ErrorInfo info = GOOGLE__RPC__ERROR_INFO__INIT;
    Google__Rpc__ErrorInfo__MetadataEntry entries[CALL_DETAILS_MAX], *list[CALL_DETAILS_MAX];
    char values[CALL_DETAILS_MAX][DETAIL_VALUE_MAX];

    for (size_t i = 0; i < call->detail_count; i++) {
        google__rpc__error_info__metadata_entry__init(list[i] = &entries[i]);
        entries[i].key = (char *) call->details[i].key;
        entries[i].value = values[i];
        snprintf(values[i], sizeof(values[i]), "%s", call->details[i].value);
    }
    info.reason = (char *) call->reason;
    info.domain = (char *) DOMAIN;
    info.metadata = list;
    info.n_metadata = call->detail_count;
    pack(&info.base, out);
}

static void add_details(struct status *status, const struct err *err, const struct call *call)
{
    Google__Rpc__Status whole = GOOGLE__RPC__STATUS__INIT;
    Google__Protobuf__Any any = GOOGLE__PROTOBUF__ANY__INIT, *list = &any;
    autodone(buf) struct buf reason = BUF_EMPTY, bytes = BUF_EMPTY;

    pack_reason(call, &reason);
    any.type_url = (char *) ERROR_INFO_TYPE;
    any.value = (ProtobufCBinaryData){ .data = (uint8_t *) reason.data, .len = reason.len };
    whole.code = (int32_t) status->code;
    whole.message = (char *) err->text;
    whole.details = &list;
    whole.n_details = 1;
    pack(&whole.base, &bytes);
    if (bytes.len <= DETAILS_MAX)
        metadata_add_base64(&status->details, bytes.data, bytes.len);
}

void status_set(struct status *status, const struct err *err, const struct call *call)
{
    status->code = err->code <= ERR_UNAUTHENTICATED ? err->code : ERR_UNKNOWN;
    buf_clear(&status->message);
    buf_clear(&status->details);
    if (status->code == ERR_OK)
        return;
    metadata_add_percent(&status->message, err->text);
    if (call && call->reason)
        add_details(status, err, call);
}

void status_add_trailer(struct status *status, const char *name, const char *value)
{
    struct buf *out = &status->trailers;

    if (status->trailer_count == STATUS_TRAILERS_MAX)
        return;
    for (const char *c = name; *c; c++)
        buf_add_char(out, (char) tolower((unsigned char) *c));
    buf_add_char(out, '\0');
    if (metadata_is_binary(name)) {
        metadata_add_base64(out, value, strlen(value));
    } else {
        for (const char *c = value; *c; c++)
            buf_add_char(out, *c >= 0x20 && *c <= 0x7e ? *c : '?');
    }
    buf_add_char(out, '\0');
    status->trailer_count++;
}
