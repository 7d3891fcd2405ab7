/*
 * What a server answers to the request for a WebSocket: whatever it is, what is taken for a whole answer is one also when more comes behind it.
 */
#include "fuzz.h"

#include "client/upgrade.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct upgrade_answer answer = { 0 }, again = { 0 };
    struct err err = ERR_NONE;
    int r = upgrade_read((const char *) data, size, KEY, &answer, &err);

    if (r != 1)
        return 0;
    require(answer.head_len <= size);
    require(upgrade_read((const char *) data, answer.head_len, KEY, &again, &err) == 1);
    require(again.head_len == answer.head_len && again.status == answer.status && again.content_bytes == answer.content_bytes);
    return 0;
}
