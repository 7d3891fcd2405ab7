/*
 * Messages of the API from a stranger: the first byte says which, the rest is the message. What is taken holds only text where text
 * belongs, and can be packed again; what is refused says why.
 */
#include "fuzz.h"

#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/sandbox.pb-c.h>

#include "base/mem.h"
#include "call/message.h"

static const ProtobufCMessageDescriptor *const kinds[] = {
    &sandbox__v1__create_sandbox_request__descriptor,
    &sandbox__v1__sandbox__descriptor,
    &sandbox__v1__exec_request__descriptor,
    &sandbox__v1__upload_chunk__descriptor,
    &sandbox__v1__exec_result__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *message = NULL, *again = NULL;
    struct err err = ERR_NONE;

    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *kind = kinds[data[0] % ARRAY_LEN(kinds)];
    int r = message_unpack(kind, data + 1, size - 1, &message, &err);
    if (r < 0) {
        require_refusal(r, &err);
        return 0;
    }
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = xalloc(len + 1);
    require(protobuf_c_message_pack(message, bytes) == len);
    require(message_unpack(kind, bytes, len, &again, &err) == 0);
    protobuf_c_message_free_unpacked(again, NULL);
    protobuf_c_message_free_unpacked(message, NULL);
    free(bytes);
    return 0;
}
