/*
 * A body as JSON: it is refused with a text, or becomes a message whose JSON is taken again and stays the same from then on.
 */
#include "fuzz.h"

#include <echo.pb-c.h>

#include "base/buf.h"
#include "rest/json_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf first = BUF_EMPTY;
    autodone(buf) struct buf second = BUF_EMPTY;
    ProtobufCMessage *message = NULL, *again = NULL;
    struct err err = ERR_NONE;
    int r;

    r = json_message_parse(&echo__v1__everything__descriptor, (const char *) data, size, &message, &err);
    if (r < 0) {
        require_refusal(r, &err);
        require(!message);
        return 0;
    }
    require(protobuf_c_message_check(message));
    json_message_add(&first, message);
    protobuf_c_message_free_unpacked(message, NULL);
    require(utf8_is_valid(first.data, first.len));
    require(json_message_parse(&echo__v1__everything__descriptor, first.data, first.len, &again, &err) == 0);
    json_message_add(&second, again);
    protobuf_c_message_free_unpacked(again, NULL);
    require(strcmp(first.data, second.data) == 0);
    return 0;
}
