/*
 * A command as an agent wrote it: what is kept of it is text if it was, and says where something was taken out.
 */
#include "fuzz.h"

#include "base/mem.h"
#include "service/redaction.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct redaction *redaction;
    autofree char *text = xdupn((const char *) data, size), *kept = NULL;
    struct err err = ERR_NONE;

    if (!redaction)
        require(redaction_new("x-own", "", &redaction, &err) == 0);
    kept = redaction_text(redaction, text);
    if (!kept)
        return 0;
    require(strstr(kept, REDACTION_MARK));
    require(!utf8_is_valid(text, strlen(text)) || utf8_is_valid(kept, strlen(kept)));
    return 0;
}
