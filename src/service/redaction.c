#include "service/redaction.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
#define SPACES " \t\r\n"
#define ENDS SPACES ";|&<>)" /* end a word of a shell command */
#define NAME_MAX_LEN 64
#define FILE_BYTES_MAX ((size_t) 1 << 20)
#define MATCHES_MAX 1000
#define USER_IS_TOKEN_LEN 20 /* in a URL without a password, a user of at least this length is a token */

struct redaction {
    char **names; /* owned, normalised */
    size_t name_count, name_cap;
    regex_t *patterns; /* owned */
    size_t pattern_count, pattern_cap;
};

void redaction_free(struct redaction *redaction)
{
    if (!redaction)
        return;
    for (size_t i = 0; i < redaction->name_count; i++)
        free(redaction->names[i]);
    for (size_t i = 0; i < redaction->pattern_count; i++)
        regfree(&redaction->patterns[i]);
    free(redaction->names);
    free(redaction->patterns);
    free(redaction);
}

/* ---- names ---- */

/* Lower case, with '_' for '-'. Of a long name it keeps the end, which identifies a secret. */
static void name_normalise(const char *name, size_t len, char ret[NAME_MAX_LEN])
{
    size_t skip = len >= NAME_MAX_LEN ? len - (NAME_MAX_LEN - 1) : 0;

    for (size_t i = skip; i < len; i++)
        ret[i - skip] = (char) (name[i] == '-' ? '_' : tolower((unsigned char) name[i]));
    ret[len - skip] = '\0';
}

static bool name_ends_with(const char *name, const char *word, bool apart)
{
    size_t len = strlen(name), word_len = strlen(word);

    if (len < word_len || strcmp(name + len - word_len, word) != 0)
        return false;
    return !apart || len == word_len || name[len - word_len - 1] == '_';
}

static bool name_is_secret(const struct redaction *redaction, const char *name)
{
    static const char *const words[] = { "password",    "passwd",     "passphrase", "secret",      "token",
                                         "apikey",      "api_key",    "access_key", "private_key", "secret_key",
                                         "account_key", "credential", "credentials" };
    static const char *const apart[] = { "pass", "auth", "authorization", "cookie" };

    if (strncmp(name, "no_", 3) == 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (name_ends_with(name, words[i], false))
            return true;
    for (size_t i = 0; i < ARRAY_LEN(apart); i++)
        if (name_ends_with(name, apart[i], true))
            return true;
    for (size_t i = 0; i < redaction->name_count; i++)
        if (strcmp(name, redaction->names[i]) == 0)
            return true;
    return false;
}

/* ---- values ---- */

static bool is_end(char c, const char *ends)
{
    return !c || strchr(ends, c);
}

/* Returns the end of a word as a shell reads it, including quoted parts. A quote at the end of a word closes one that was opened before it. */
static const char *word_end(const char *at, const char *ends)
{
    while (!is_end(*at, ends)) {
        const char *closing;

        if (*at == '\\' && at[1]) {
            at += 2;
        } else if ((*at == '"' || *at == '\'') && is_end(at[1], ends)) {
            return at;
        } else if ((*at == '"' || *at == '\'') && (closing = strchr(at + 1, *at))) {
            at = closing + 1;
        } else {
            at++;
        }
    }
    return at;
}

/* "Bearer x": a value of two words. */
static const char *credentials_end(const char *at)
{
    static const char *const schemes[] = { "basic", "bearer", "digest", "negotiate", "token", "apikey" };
    const char *end = word_end(at, ENDS), *next = end + strspn(end, " \t");

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if ((size_t) (end - at) == strlen(schemes[i]) && strncasecmp(at, schemes[i], strlen(schemes[i])) == 0 && *next)
            return word_end(next, ENDS);
    return end;
}

/* The end of text in escaped quotes, as in JSON in a quoted argument. */
static const char *escaped_end(const char *at)
{
    const char *closing = strstr(at + 2, "\\\"");

    return closing ? closing + 2 : at + strlen(at);
}

/* NAME=value, --NAME value, NAME: value, "NAME": value */
enum form { FORM_NONE, FORM_ASSIGNED, FORM_OPTION, FORM_HEADER, FORM_JSON };

/* Returns the form of a name that ends at `at`, and where its value begins. A JSON key has its closing quote at `at`. */
static enum form value_begin(const char *name, const char *at, bool is_option, const char **ret)
{
    const char *colon = at + strspn(at, "\\\"'");
    bool is_key = colon > at && colon - at <= 2, is_header = memchr(name, '-', (size_t) (at - name));

    *ret = at + 1;
    if (*at == '=')
        return FORM_ASSIGNED;
    if (is_key)
        colon += strspn(colon, SPACES);
    if ((is_key || colon == at) && *colon == ':' &&
        (is_key || is_header || is_end(colon[1], SPACES) || strncasecmp(name, "authorization", 13) == 0)) {
        *ret = colon + 1 + strspn(colon + 1, SPACES);
        return is_key ? FORM_JSON : FORM_HEADER;
    }
    *ret = at + strspn(at, SPACES);
    return is_option && *ret > at && **ret != '-' ? FORM_OPTION : FORM_NONE;
}

static const char *value_end(const char *name, const char *at, enum form form)
{
    if (strncmp(at, REDACTION_MARK, strlen(REDACTION_MARK)) == 0)
        return at + strlen(REDACTION_MARK);
    if (form == FORM_HEADER && name_ends_with(name, "cookie", true))
        return at + strcspn(at, "\"'\n");
    if (name_ends_with(name, "authorization", true))
        return credentials_end(at);
    if (form == FORM_JSON && at[0] == '\\' && at[1] == '"')
        return escaped_end(at);
    return word_end(at, form == FORM_JSON ? ENDS ",}]" : ENDS);
}

/* ---- a text ---- */

static void replace(struct buf *out, const char *from, const char *begin)
{
    buf_add(out, from, (size_t) (begin - from));
    buf_add_str(out, REDACTION_MARK);
}

/* `at` is the start of a name: replaces its value if the name is that of a secret. Returns where to continue. */
static const char *take_name(const struct redaction *redaction, const char *at, struct buf *out)
{
    size_t len = strspn(at, NAME_CHARS), dashes = strspn(at, "-");
    const char *end = at + len, *begin = end, *behind = end;
    enum form form = FORM_NONE;
    char name[NAME_MAX_LEN];

    name_normalise(at + dashes, len - dashes, name);
    if (len > dashes && name_is_secret(redaction, name))
        form = value_begin(at + dashes, end, dashes > 0, &begin);
    if (form != FORM_NONE)
        behind = value_end(name, begin, form);
    if (form == FORM_NONE || behind <= begin) {
        buf_add(out, at, len);
        return end;
    }
    replace(out, at, begin);
    return behind;
}

/* "://user:password@host" */
static const char *take_url(const char *at, struct buf *out)
{
    const char *user = at + 3;
    size_t len = strcspn(user, "/?#\"'<>" SPACES);
    const char *host = memrchr(user, '@', len), *colon = host ? memchr(user, ':', (size_t) (host - user)) : NULL;

    if (host && ((colon && colon + 1 < host) || (!colon && host - user >= USER_IS_TOKEN_LEN))) {
        replace(out, at, colon ? colon + 1 : user);
        return host;
    }
    buf_add(out, at, 3);
    return user;
}

/* Returns the length of a word that looks like a token of a known kind; 0: it does not. */
static size_t token_len(const char *at)
{
    static const struct {
        const char *prefix;
        size_t len_min;
    } kinds[] = { { "ghp_", 20 },   { "gho_", 20 }, { "ghu_", 20 },  { "ghs_", 20 },  { "ghr_", 20 },  { "github_pat_", 30 },
                  { "glpat-", 20 }, { "sk-", 20 },  { "xoxb-", 16 }, { "xoxp-", 16 }, { "xoxa-", 16 }, { "xoxr-", 16 },
                  { "xoxs-", 16 },  { "npm_", 30 }, { "pypi-", 30 }, { "hf_", 24 },   { "AIza", 35 },  { "aft_", 20 } };
    size_t len = strspn(at, NAME_CHARS), first, second;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (len >= kinds[i].len_min && strncmp(at, kinds[i].prefix, strlen(kinds[i].prefix)) == 0 &&
            strcspn(at, "0123456789") < len) /* sk-some-longer-name has no digit */
            return len;
    /* A JSON Web Token: three parts. */
    if (strncmp(at, "eyJ", 3) != 0 || at[len] != '.')
        return 0;
    first = len;
    second = strspn(at + first + 1, NAME_CHARS);
    return second > 2 && at[first + 1 + second] == '.' ? strspn(at, NAME_CHARS ".") : 0;
}

static void scan(const struct redaction *redaction, const char *text, struct buf *out)
{
    const char *at = text;

    while (*at) {
        size_t len = token_len(at);

        if (len > 0) {
            buf_add_str(out, REDACTION_MARK);
            at += len;
        } else if (strchr(NAME_CHARS, *at)) {
            at = take_name(redaction, at, out);
        } else if (strncmp(at, "://", 3) == 0) {
            at = take_url(at, out);
        } else {
            buf_add_char(out, *at++);
        }
    }
}

static void apply_pattern(const regex_t *pattern, struct buf *text)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    const char *at = text->data;
    regmatch_t found[2];

    for (int i = 0; i < MATCHES_MAX && *at && regexec(pattern, at, 2, found, at == text->data ? 0 : REG_NOTBOL) == 0; i++) {
        const regmatch_t *one = found[1].rm_so >= 0 ? &found[1] : &found[0];

        if (one->rm_eo > one->rm_so) {
            replace(&out, at, at + one->rm_so);
            at += one->rm_eo;
        } else {
            buf_add_char(&out, *at++);
        }
    }
    buf_add_str(&out, at);
    buf_clear(text);
    buf_add(text, out.data, out.len);
}

char *redaction_text(const struct redaction *redaction, const char *text)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    if (!redaction || !*text)
        return NULL;
    scan(redaction, text, &out);
    for (size_t i = 0; i < redaction->pattern_count; i++)
        apply_pattern(&redaction->patterns[i], &out);
    return strcmp(out.data, text) == 0 ? NULL : buf_dup_take(&out);
}

/* Returns the replacement of a text, or NULL to keep it. A pattern may cut a character in half; then the whole text is replaced. */
static json_t *redact_string(const struct redaction *redaction, const json_t *string)
{
    autofree char *text = json_is_string(string) ? redaction_text(redaction, json_string_value(string)) : NULL;
    json_t *kept = text ? json_string(text) : NULL;

    return text && !kept ? json_string(REDACTION_MARK) : kept;
}

void redaction_json(const struct redaction *redaction, json_t *value)
{
    const char *key;
    json_t *one, *kept;
    void *next;
    size_t i;

    json_object_foreach_safe(value, next, key, one)
    {
        if ((kept = redact_string(redaction, one)))
            json_object_set_new(value, key, kept);
        else
            redaction_json(redaction, one);
    }
    json_array_foreach(value, i, one)
    {
        if ((kept = redact_string(redaction, one)))
            json_array_set_new(value, i, kept);
        else
            redaction_json(redaction, one);
    }
}

/* ---- configuration ---- */

static void add_names(struct redaction *redaction, const char *names)
{
    for (const char *at = names; *at;) {
        size_t len;
        char name[NAME_MAX_LEN];

        at += strspn(at, "," SPACES);
        at += strspn(at, "-");
        len = strcspn(at, "," SPACES);
        if (len == 0)
            continue;
        name_normalise(at, len, name);
        vec_room(&redaction->names, &redaction->name_cap, redaction->name_count);
        redaction->names[redaction->name_count++] = xdup(name);
        at += len;
    }
}

static int add_pattern(struct redaction *redaction, const char *text, const char *path, size_t line, struct err *err)
{
    char why[256];
    regex_t pattern;
    int r = regcomp(&pattern, text, REG_EXTENDED);

    if (r == 0) {
        vec_room(&redaction->patterns, &redaction->pattern_cap, redaction->pattern_count);
        redaction->patterns[redaction->pattern_count++] = pattern;
        return 0;
    }
    regerror(r, &pattern, why, sizeof(why));
    return err_invalid(err, "'%s', line %zu: '%s' is no extended regular expression: %s", path, line, text, why);
}

static int add_patterns(struct redaction *redaction, const char *path, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd_read_all(fd, FILE_BYTES_MAX, &text);
    char *rest = text.data;

    if (r < 0)
        return err_errno(err, r, "reading '%s'", path);
    for (size_t line = 1; r == 0 && rest; line++) {
        char *one = strsep(&rest, "\n");

        if (*one && *one != '#')
            r = add_pattern(redaction, one, path, line, err);
    }
    return r;
}

int redaction_new(const char *names, const char *patterns_path, struct redaction **ret, struct err *err)
{
    autoptr(redaction) redaction = xnew(struct redaction);
    int r = *patterns_path ? add_patterns(redaction, patterns_path, err) : 0;

    if (r < 0)
        return r;
    add_names(redaction, names);
    *ret = steal_ptr(&redaction);
    return 0;
}
