#include "service/known_keys.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

static bool has(const char *const *keys, const char *key)
{
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0)
            return true;
    return false;
}

static int refuse(const char *key, const char *const *keys, const char *what, struct err *err)
{
    autodone(buf) struct buf known = BUF_EMPTY, shown = BUF_EMPTY;

    for (const char *const *at = keys; *at; at++)
        buf_addf(&known, "%s%s", at == keys ? "; there are " : ", ", *at);
    buf_add_excerpt(&shown, key, strlen(key));
    return err_invalid(err, "'%s' is no key of %s%s", shown.data ? shown.data : "", what,
                       known.data ? known.data : ", which has none");
}

int known_keys_check(const json_t *object, const char *const *keys, const char *what, struct err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *) (uintptr_t) object, key, value)
    {
        (void) value;
        if (!has(keys, key))
            return refuse(key, keys, what, err);
    }
    return 0;
}
