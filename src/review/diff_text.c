#include "review/diff_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"

static bool is_plain(const char *name)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;

    buf_add_escaped(&escaped, name, strlen(name));
    return strcmp(escaped.data, name) == 0 && !strpbrk(name, "\"\\");
}

void diff_text_add_name(struct buf *out, const char *prefix, const char *name)
{
    if (is_plain(name)) {
        buf_addf(out, "%s%s", prefix, name);
        return;
    }
    buf_addf(out, "\"%s", prefix);
    for (const unsigned char *p = (const unsigned char *) name; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_addf(out, "\\%c", *p);
        else if (*p == '\n' || *p == '\t')
            buf_add_str(out, *p == '\n' ? "\\n" : "\\t");
        else if (*p < 0x20 || *p >= 0x7F)
            buf_addf(out, "\\%03o", *p);
        else
            buf_add_char(out, (char) *p);
    }
    buf_add_char(out, '"');
}

/* Runs of plain ASCII go in one piece; the backslash stands for itself here, as nobody will read the escapes back. */
void diff_text_add_safe(struct buf *out, const char *s, size_t len)
{
    while (len > 0) {
        size_t n = 0;
        uint32_t c;

        while (n < len && ((s[n] >= 0x20 && s[n] < 0x7F) || s[n] == '\t' || s[n] == '\n'))
            n++;
        buf_add(out, s, n);
        s += n;
        len -= n;
        if (len == 0)
            return;
        n = utf8_decode(s, len, &c);
        n = n ? n : 1;
        if (len >= 2 && s[0] == '\r' && s[1] == '\n')
            buf_add_char(out, '\r');
        else
            buf_add_escaped(out, s, n);
        s += n;
        len -= n;
    }
}

void diff_text_add_finer_mode(struct buf *out, mode_t old_mode, mode_t new_mode)
{
    if (S_ISREG(old_mode) && S_ISREG(new_mode) && ((old_mode ^ new_mode) & 0777) &&
        strcmp(diff_text_mode(old_mode), diff_text_mode(new_mode)) == 0)
        buf_addf(out, "# mode %04o, was %04o\n", (unsigned) new_mode & 0777, (unsigned) old_mode & 0777);
}

const char *diff_text_mode(mode_t mode)
{
    if (S_ISLNK(mode))
        return "120000";
    return mode & 0111 ? "100755" : "100644";
}
