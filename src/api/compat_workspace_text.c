#include "api/compat_workspace_text.h"

size_t compat_text_whole(const char *bytes, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = (unsigned char) bytes[len - back];

        if (c < 0x80)
            return len;
        if (c >= 0xc0)
            return back < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? len - back : len;
    }
    return len;
}
