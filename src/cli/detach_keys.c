#include "cli/detach_keys.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static int parse_key(const char *text, size_t len, unsigned char *ret, struct err *err)
{
    if (len == 1) {
        *ret = (unsigned char) *text;
        return 0;
    }
    if (len == 6 && strncasecmp(text, "ctrl-", 5) == 0 && (isalpha((unsigned char) text[5]) || strchr("@[]^_\\", text[5]))) {
        *ret = (unsigned char) (toupper((unsigned char) text[5]) & 0x1f);
        return 0;
    }
    return err_invalid(err, "--detach-keys: '%.*s' is neither a character nor 'ctrl-' and one", (int) len, text);
}

int detach_keys_parse(struct detach_keys *keys, const char *text, struct err *err)
{
    *keys = (struct detach_keys){ 0 };
    while (*text) {
        size_t len = strcspn(text, ",");
        int r = keys->count == DETACH_KEYS_MAX ? err_invalid(err, "--detach-keys: more than %d keys", DETACH_KEYS_MAX)
                                               : parse_key(text, len, &keys->keys[keys->count++], err);

        if (r < 0)
            return r;
        text += len + (text[len] == ',');
    }
    return 0;
}

/* The last key did not continue the sequence. Keeps the longest suffix of the pressed keys that may still begin it, and outputs the rest. */
static void slide(struct detach_keys *keys, struct buf *out)
{
    size_t had = keys->pressed, drop = 1;

    while (drop < had && memcmp(keys->keys + drop, keys->keys, had - drop) != 0)
        drop++;
    buf_add(out, keys->keys, drop);
    keys->pressed = had - drop;
}

bool detach_keys_filter(struct detach_keys *keys, const void *bytes, size_t len, struct buf *out)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++) {
        while (keys->pressed > 0 && at[i] != keys->keys[keys->pressed])
            slide(keys, out);
        if (keys->count == 0 || at[i] != keys->keys[keys->pressed])
            buf_add_char(out, (char) at[i]);
        else if (++keys->pressed == keys->count)
            return true;
    }
    return false;
}
