#include "rest/url.h"

#include <string.h>

#include "base/utf8.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int url_decode(const char *text, size_t len, bool plus_is_blank, struct buf *out, struct err *err)
{
    size_t from = out->len;

    buf_room(out, len);
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '%') {
            int high = len - i > 2 ? hex_value(text[i + 1]) : -1, low = len - i > 2 ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return err_invalid(err, "the URL has a percent sign without two hex digits");
            c = (char) (high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0')
            return err_invalid(err, "the URL contains a NUL");
        buf_add_char(out, c);
    }
    if (!utf8_is_valid(out->data ? out->data + from : "", out->len - from))
        return err_invalid(err, "the URL is not UTF-8");
    return 0;
}

int url_next_pair(const char **at, const char *end, struct buf *name, struct buf *value, struct err *err)
{
    int r;

    buf_clear(name);
    buf_clear(value);
    while (*at < end && **at == '&')
        (*at)++;
    if (*at == end)
        return 0;
    const char *stop = memchr(*at, '&', (size_t) (end - *at));
    stop = stop ? stop : end;
    const char *equals = memchr(*at, '=', (size_t) (stop - *at));
    r = url_decode(*at, (size_t) ((equals ? equals : stop) - *at), true, name, err);
    if (r == 0 && equals)
        r = url_decode(equals + 1, (size_t) (stop - equals - 1), true, value, err);
    *at = stop;
    return r < 0 ? r : 1;
}
