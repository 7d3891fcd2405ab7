#include "policy/rule.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "policy/atom.h"

static const char *const type_names[] = {
    [RULE_UNSPECIFIED] = "unspecified",
    [RULE_GLOB] = "glob",
    [RULE_DIRECTORY] = "directory",
    [RULE_FILE] = "file",
};

const char *rule_type_name(enum rule_type type)
{
    return type_names[type];
}

bool rule_type_parse(const char *name, enum rule_type *ret_type)
{
    for (int i = RULE_GLOB; i <= RULE_FILE; i++) {
        if (strcmp(name, type_names[i]) == 0) {
            *ret_type = (enum rule_type) i;
            return true;
        }
    }
    return false;
}

bool rule_priority_parse(const char *text, int32_t *ret_priority)
{
    char *end;
    const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;

    /* strtol() accepts leading blanks. */
    if (digits[0] < '0' || digits[0] > '9')
        return false;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < INT32_MIN || value > INT32_MAX)
        return false;
    *ret_priority = (int32_t) value;
    return true;
}

void rule_list_done(struct rule_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].pattern);
    free(list->items);
    *list = RULE_LIST_EMPTY;
}

static char *dup_shown(const char *pattern, size_t len)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, pattern, len);
    return buf_dup_take(&shown);
}

int rule_list_add(struct rule_list *list, const char *pattern, size_t pattern_len, enum rule_type type, enum level level,
                  int32_t priority, struct err *err)
{
    struct rule rule = { .type = type, .level = level, .priority = priority };
    autofree char *shown = NULL;
    int r;

    if (list->count >= RULES_MAX)
        return err_invalid(err, "more than %d rules", RULES_MAX);
    rule.pattern = xdupn(pattern, pattern_len);
    if (pattern_len == 0)
        r = err_invalid(err, "the pattern is empty");
    else if (memchr(pattern, '\0', pattern_len))
        r = err_invalid(err, "the pattern contains a NUL byte");
    else if (pattern_len > PATTERN_LEN_MAX)
        r = err_invalid(err, "the pattern is longer than %d bytes", PATTERN_LEN_MAX);
    else
        r = atom_check_rule(&rule, err);
    if (r < 0) {
        free(rule.pattern);
        shown = dup_shown(pattern, pattern_len);
        return err_wrap(err, r, "rule %zu '%s'", list->count + 1, shown);
    }
    vec_room(&list->items, &list->cap, list->count);
    list->items[list->count++] = rule;
    return 0;
}

int rule_list_add_all(struct rule_list *list, const struct rule_list *more, struct err *err)
{
    if (list->count + more->count > RULES_MAX)
        return err_invalid(err, "%zu rules together, at most %d are taken", list->count + more->count, RULES_MAX);
    for (size_t i = 0; i < more->count; i++) {
        vec_room(&list->items, &list->cap, list->count);
        list->items[list->count] = more->items[i];
        list->items[list->count++].pattern = xdup(more->items[i].pattern);
    }
    return 0;
}

int rule_list_add_short(struct rule_list *list, const char *text, struct err *err)
{
    autofree char *copy = xdup(text);
    autofree char *shown = dup_shown(text, strlen(text));
    char *equals = strrchr(copy, '=');
    int32_t priority = 0;
    enum level level;

    if (!equals)
        return err_invalid(err, "rule %zu '%s': expected PATTERN=LEVEL or PATTERN=LEVEL@PRIORITY", list->count + 1, shown);
    *equals = '\0';
    char *name = equals + 1;
    char *at = strchr(name, '@');
    if (at) {
        *at = '\0';
        if (!rule_priority_parse(at + 1, &priority))
            return err_invalid(err, "rule %zu '%s': priority '%s' is not a whole number from %d to %d", list->count + 1, shown,
                               strchr(strrchr(shown, '='), '@') + 1, INT32_MIN, INT32_MAX);
    }
    if (!level_parse(name, &level))
        return err_invalid(err, "rule %zu '%s': unknown level '%s' (one of " LEVEL_NAMES ")", list->count + 1, shown,
                           strrchr(shown, '=') + 1);
    return rule_list_add(list, copy, strlen(copy), RULE_UNSPECIFIED, level, priority, err);
}

/* Recognises common spellings only. A rule that means the same in another spelling only costs the user a needless fence. */
static bool covers_all(const struct rule *rule)
{
    static const char *const patterns[] = { "/**", "**", "/**/*", "**/*", "/" };

    for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
        if (strcmp(rule->pattern, patterns[i]) == 0 && rule->type != RULE_FILE)
            return true;
    }
    return false;
}

bool rule_list_forbids_nothing(const struct rule_list *list)
{
    bool has_all = false;

    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].level != LEVEL_WRITE)
            return false;
        has_all |= covers_all(&list->items[i]);
    }
    return has_all;
}
