#include "review/attribution.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

#define NAME_MOST 200

/* Removes control characters, and the brackets and line ends by which git separates names from addresses. */
static void add_clean(struct buf *out, const char *text, size_t len)
{
    while (len > 0 && (*text == ' ' || *text == '\t')) {
        text++;
        len--;
    }
    for (uint32_t c; len > 0 && out->len < NAME_MOST;) {
        size_t n = utf8_decode(text, len, &c);
        if (n > 0 && c >= 0x20 && c != 0x7F && c != '<' && c != '>' && !(c >= 0x80 && c < 0xA0) &&
            !(c >= 0x202A && c <= 0x202E) && !(c >= 0x2066 && c <= 0x2069))
            buf_add(out, text, n);
        n = n ? n : 1;
        text += n;
        len -= n;
    }
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
}

void person_make(const char *text, const char *address, struct person *ret)
{
    const char *open = text ? strchr(text, '<') : NULL, *close = open ? strchr(open, '>') : NULL;

    *ret = (struct person){ 0 };
    if (text)
        add_clean(&ret->name, text, open ? (size_t) (open - text) : strlen(text));
    if (close)
        add_clean(&ret->mail, open + 1, (size_t) (close - open - 1));
    if (ret->name.len == 0)
        buf_add_str(&ret->name, ATTRIBUTION_NOBODY);
    if (ret->mail.len == 0)
        add_clean(&ret->mail, address ? address : ATTRIBUTION_ADDRESS, strlen(address ? address : ATTRIBUTION_ADDRESS));
}

void person_done(struct person *person)
{
    buf_done(&person->name);
    buf_done(&person->mail);
}

int attribution_parse_mode(const char *text, enum attribution_mode *ret, struct err *err)
{
    static const char *const names[] = { "agent", "reviewer", "coauthored" };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum attribution_mode) i;
            return 0;
        }
    }
    return err_reject(err, -EINVAL, text, "is none of agent, reviewer, coauthored");
}

void attribution_author(const struct attribution *a, struct person *ret)
{
    person_make(a->mode == ATTRIBUTION_REVIEWER ? a->reviewer : a->agent, a->address, ret);
}

void attribution_committer(const struct attribution *a, struct person *ret)
{
    person_make(a->reviewer && *a->reviewer ? a->reviewer : NULL, a->address, ret);
}

static const struct attribution_word *find_word(const struct attribution_word *words, size_t count, const char *name,
                                                size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0)
            return &words[i];
    }
    return NULL;
}

static int expand_template(const char *template, const struct attribution_word *words, size_t count, struct buf *out,
                           struct err *err)
{
    for (const char *open; (open = strstr(template, "{{.")); template = strstr(open, "}}") + 2) {
        const char *close = strstr(open, "}}");
        const struct attribution_word *word = close ? find_word(words, count, open + 3, (size_t) (close - open - 3)) : NULL;
        if (!word) {
            autofree char *shown = close ? xdupn(open, (size_t) (close + 2 - open)) : xdup(open);
            return err_reject(err, -EINVAL, shown, "is no word of a commit message's template");
        }
        buf_add(out, template, (size_t) (open - template));
        buf_add_str(out, word->value ? word->value : "");
    }
    buf_add_str(out, template);
    return 0;
}

int attribution_message(const struct attribution *a, const char *template, const struct attribution_word *words, size_t count,
                        struct buf *out, struct err *err)
{
    struct person other;
    int r = expand_template(template && *template ? template : ATTRIBUTION_TEMPLATE, words, count, out, err);

    if (r < 0)
        return r;
    while (out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = 0;
    buf_add_char(out, '\n');
    if (a->mode != ATTRIBUTION_COAUTHORED || !a->reviewer || !*a->reviewer)
        return 0;
    person_make(a->reviewer, a->address, &other);
    buf_addf(out, "\nCo-authored-by: %s <%s>\n", other.name.data, other.mail.data);
    person_done(&other);
    return 0;
}
