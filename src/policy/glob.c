#include "policy/glob.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/utf8.h"

size_t unit_next(const char *bytes, size_t len, uint32_t *ret_unit)
{
    size_t n = utf8_decode(bytes, len, ret_unit);

    if (n > 0)
        return n;
    *ret_unit = UNIT_STRAY_BYTE + (unsigned char) bytes[0];
    return 1;
}

void glob_done(struct glob *glob)
{
    free(glob->text);
    free(glob->tokens);
    free(glob->ranges);
    *glob = (struct glob){ 0 };
}

static struct glob_token *glob_add_token(struct glob *glob, size_t *cap, enum glob_token_kind kind)
{
    vec_room(&glob->tokens, cap, glob->token_count);
    struct glob_token *token = &glob->tokens[glob->token_count++];
    *token = (struct glob_token){ .kind = kind };
    return token;
}

static void glob_add_range(struct glob *glob, size_t *cap, uint32_t first, uint32_t last)
{
    vec_room(&glob->ranges, cap, glob->range_count);
    glob->ranges[glob->range_count++] = (struct unit_range){ first, last };
}

/* POSIX's classes that make sense for file names, in the C locale. */
static const struct {
    const char *name;
    struct unit_range ranges[4];
    size_t count;
} named_sets[] = {
    { "alpha", { { 'A', 'Z' }, { 'a', 'z' } }, 2 },
    { "digit", { { '0', '9' } }, 1 },
    { "alnum", { { '0', '9' }, { 'A', 'Z' }, { 'a', 'z' } }, 3 },
    { "upper", { { 'A', 'Z' } }, 1 },
    { "lower", { { 'a', 'z' } }, 1 },
    { "xdigit", { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } }, 3 },
    { "space", { { '\t', '\r' }, { ' ', ' ' } }, 2 },
    { "blank", { { '\t', '\t' }, { ' ', ' ' } }, 2 },
    { "punct", { { '!', '/' }, { ':', '@' }, { '[', '`' }, { '{', '~' } }, 4 },
    { "cntrl", { { 0, 31 }, { 127, 127 } }, 2 },
    { "print", { { ' ', '~' } }, 1 },
    { "graph", { { '!', '~' } }, 1 },
};

static bool glob_add_named_set(struct glob *glob, size_t *cap, const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(named_sets); i++) {
        if (strlen(named_sets[i].name) != len || memcmp(named_sets[i].name, name, len) != 0)
            continue;
        for (size_t r = 0; r < named_sets[i].count; r++)
            glob_add_range(glob, cap, named_sets[i].ranges[r].first, named_sets[i].ranges[r].last);
        return true;
    }
    return false;
}

struct cursor {
    const char *at;
    const char *end;
};

static size_t cursor_left(const struct cursor *in)
{
    return (size_t) (in->end - in->at);
}

/* Reads one member of a class and undoes its escape. */
static bool set_unit(struct cursor *in, uint32_t *ret_unit)
{
    if (cursor_left(in) > 0 && *in->at == '\\')
        in->at++;
    if (cursor_left(in) == 0)
        return false;
    in->at += unit_next(in->at, cursor_left(in), ret_unit);
    return true;
}

/* Reads `[:name:]` at the cursor. Returns 1 if there was one, 0 if not, or a negative errno. */
static int named_set(struct glob *glob, size_t *cap, struct cursor *in, struct err *err)
{
    if (cursor_left(in) < 2 || in->at[0] != '[' || in->at[1] != ':')
        return 0;
    const char *name = in->at + 2;
    const char *close = memmem(name, (size_t) (in->end - name), ":]", 2);
    if (!close)
        return err_invalid(err, "unclosed '[:' in a character class");
    if (!glob_add_named_set(glob, cap, name, (size_t) (close - name)))
        return err_invalid(err, "unknown character class between '[:' and ':]'");
    in->at = close + 2;
    return 1;
}

/* Parses a class whose `[` has been read. As in shells, a `]` that comes first is a member. */
static int glob_parse_set(struct glob *glob, size_t *range_cap, struct glob_token *token, struct cursor *in, struct err *err)
{
    token->set_first = (uint32_t) glob->range_count;
    if (cursor_left(in) > 0 && (*in->at == '!' || *in->at == '^')) {
        token->set_negated = true;
        in->at++;
    }
    for (bool first = true;; first = false) {
        uint32_t from, to;
        int r;

        if (cursor_left(in) == 0)
            return err_invalid(err, "unclosed character class '['");
        if (*in->at == ']' && !first)
            break;
        r = named_set(glob, range_cap, in, err);
        if (r < 0)
            return r;
        if (r > 0)
            continue;
        if (!set_unit(in, &from))
            return err_invalid(err, "unclosed character class '['");
        to = from;
        if (cursor_left(in) >= 2 && in->at[0] == '-' && in->at[1] != ']') {
            in->at++;
            if (!set_unit(in, &to))
                return err_invalid(err, "unclosed character class '['");
            if (to < from)
                return err_invalid(err, "character class with a reversed range");
        }
        glob_add_range(glob, range_cap, from, to);
    }
    in->at++;
    token->set_count = (uint32_t) (glob->range_count - token->set_first);
    return 0;
}

/* The trie compares prefixes and suffixes bytewise. That gives the same result as comparing units only if the literal part is
 * valid UTF-8: a stray byte in it could be the first byte of a character in the name. */
static void glob_find_shape(struct glob *glob, const char *text, size_t len)
{
    size_t n = glob->token_count;
    bool star_first = n > 0 && glob->tokens[0].kind == GLOB_STAR;
    bool star_last = n > 0 && glob->tokens[n - 1].kind == GLOB_STAR;

    glob->shape = GLOB_OTHER;
    if (glob->literal_units == n)
        glob->shape = GLOB_LITERAL;
    else if (n == 1 && star_first)
        glob->shape = GLOB_ANY;
    else if (glob->literal_units == n - 1 && (star_first || star_last) && utf8_is_valid(text, len))
        glob->shape = star_first ? GLOB_SUFFIX : GLOB_PREFIX;

    bool keep = glob->shape != GLOB_OTHER && glob->shape != GLOB_ANY;
    glob->text = xdupn(text, keep ? len : 0);
    glob->text_len = keep ? len : 0;
}

static void glob_add_unit(struct glob *glob, size_t *cap, struct cursor *in, char *text, size_t *text_len)
{
    uint32_t unit;
    size_t n = unit_next(in->at, cursor_left(in), &unit);

    memcpy(text + *text_len, in->at, n);
    *text_len += n;
    in->at += n;
    glob_add_token(glob, cap, GLOB_UNIT)->unit = unit;
    glob->literal_units++;
}

static int glob_parse_tokens(struct glob *glob, struct cursor *in, char *text, size_t *text_len, struct err *err)
{
    size_t token_cap = 0, range_cap = 0;

    while (cursor_left(in) > 0) {
        switch (*in->at) {
        case '*':
            in->at++;
            if (glob->token_count == 0 || glob->tokens[glob->token_count - 1].kind != GLOB_STAR)
                glob_add_token(glob, &token_cap, GLOB_STAR);
            break;
        case '?':
            in->at++;
            glob_add_token(glob, &token_cap, GLOB_ONE);
            break;
        case '[': {
            in->at++;
            struct glob_token *token = glob_add_token(glob, &token_cap, GLOB_SET);
            int r = glob_parse_set(glob, &range_cap, token, in, err);
            if (r < 0)
                return r;
            break;
        }
        case '\\':
            in->at++;
            if (cursor_left(in) == 0)
                return err_invalid(err, "a backslash with nothing after it");
            glob_add_unit(glob, &token_cap, in, text, text_len);
            break;
        default:
            glob_add_unit(glob, &token_cap, in, text, text_len);
        }
    }
    return 0;
}

int glob_parse(const char *bytes, size_t len, struct glob *ret_glob, struct err *err)
{
    struct cursor in = { bytes, bytes + len };
    struct glob glob = { 0 };
    autofree char *text = xalloc(len + 1);
    size_t text_len = 0;
    int r;

    r = glob_parse_tokens(&glob, &in, text, &text_len, err);
    if (r < 0) {
        glob_done(&glob);
        return r;
    }
    glob_find_shape(&glob, text, text_len);
    *ret_glob = glob;
    return 0;
}

void glob_init_literal(struct glob *glob, const char *bytes, size_t len)
{
    size_t cap = 0;

    *glob = (struct glob){ .shape = GLOB_LITERAL, .text = xdupn(bytes, len), .text_len = len };
    for (size_t i = 0; i < len;) {
        uint32_t unit;
        i += unit_next(bytes + i, len - i, &unit);
        glob_add_token(glob, &cap, GLOB_UNIT)->unit = unit;
        glob->literal_units++;
    }
}

bool glob_token_accepts(const struct glob *glob, const struct glob_token *token, uint32_t unit)
{
    switch (token->kind) {
    case GLOB_UNIT:
        return token->unit == unit;
    case GLOB_ONE:
    case GLOB_STAR:
        return true;
    case GLOB_SET:
        break;
    }
    for (uint32_t i = 0; i < token->set_count; i++) {
        const struct unit_range *range = &glob->ranges[token->set_first + i];
        if (unit >= range->first && unit <= range->last)
            return !token->set_negated;
    }
    return token->set_negated;
}

/* The usual two-pointer match: on a mismatch the last star takes one unit more. Earlier stars need no second try, because what
 * lies between them already matched as far left as possible. */
bool glob_matches(const struct glob *glob, const char *name, size_t len)
{
    size_t t = 0, i = 0;
    size_t star = SIZE_MAX, star_at = 0;

    while (i < len) {
        uint32_t unit;
        size_t n = unit_next(name + i, len - i, &unit);

        if (t < glob->token_count && glob->tokens[t].kind == GLOB_STAR) {
            star = t++;
            star_at = i;
        } else if (t < glob->token_count && glob_token_accepts(glob, &glob->tokens[t], unit)) {
            t++;
            i += n;
        } else if (star != SIZE_MAX) {
            star_at += unit_next(name + star_at, len - star_at, &unit);
            i = star_at;
            t = star + 1;
        } else {
            return false;
        }
    }
    while (t < glob->token_count && glob->tokens[t].kind == GLOB_STAR)
        t++;
    return t == glob->token_count;
}

static bool tokens_equal(const struct glob *a, const struct glob *b, size_t i)
{
    const struct glob_token *x = &a->tokens[i], *y = &b->tokens[i];

    if (x->kind != y->kind || x->unit != y->unit || x->set_count != y->set_count || x->set_negated != y->set_negated)
        return false;
    for (uint32_t r = 0; r < x->set_count; r++) {
        const struct unit_range *p = &a->ranges[x->set_first + r], *q = &b->ranges[y->set_first + r];
        if (p->first != q->first || p->last != q->last)
            return false;
    }
    return true;
}

bool glob_equals(const struct glob *a, const struct glob *b)
{
    if (a->shape != b->shape || a->token_count != b->token_count)
        return false;
    for (size_t i = 0; i < a->token_count; i++) {
        if (!tokens_equal(a, b, i))
            return false;
    }
    return true;
}
