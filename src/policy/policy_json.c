#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "policy/policy_draft.h"
#include "policy/policy_file.h"

/* A full list of rules with all their keys, and some. jansson builds everything in memory, up to 80 bytes for each byte of
 * text, so what cannot be a policy is refused before. */
#define VALUES_MAX ((size_t) (RULES_MAX + 1) * 9 + 64)
#define DEPTH_MAX 16

/*
 * A walk over the tokens of a text without judging its syntax: for counting them beforehand, and for finding the line of
 * what was refused afterwards, as jansson keeps no lines.
 */
struct json_walk {
    const char *at, *end;
    size_t line;
    size_t depth; /* of what surrounds the token just given */
    size_t opened;
};

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

/* Moves past a string whose opening quote was passed. Quotes may be escaped. */
static void skip_string(struct json_walk *walk)
{
    while (walk->at < walk->end && *walk->at != '"') {
        walk->at += *walk->at == '\\' && walk->end - walk->at > 1;
        walk->line += *walk->at == '\n';
        walk->at++;
    }
    if (walk->at < walk->end)
        walk->at++;
}

static void skip_bare(struct json_walk *walk)
{
    while (walk->at < walk->end && !is_one_of(*walk->at, " \t\r\n[]{},:\""))
        walk->at++;
}

/* Moves to the start of the next value or key, whatever it is. False at the end. */
static bool walk_next(struct json_walk *walk)
{
    while (walk->at < walk->end) {
        char c = *walk->at++;

        walk->line += c == '\n';
        walk->depth = walk->opened;
        if (c == '[' || c == '{') {
            walk->opened++;
            return true;
        }
        if (c == '"') {
            skip_string(walk);
            return true;
        }
        if ((c == ']' || c == '}') && walk->opened > 0)
            walk->opened--;
        else if (!is_one_of(c, " \t\r\n]},:")) {
            skip_bare(walk);
            return true;
        }
    }
    return false;
}

struct policy_json {
    const char *text; /* borrowed */
    size_t len;
    size_t rule_depth; /* how deep a rule lies */
    struct policy_draft policy;
};

static void policy_json_done(struct policy_json *reader)
{
    policy_draft_done(&reader->policy);
}

/* The line of the nth value or key, from 1, of those at that depth. A key and its value count for two. */
static size_t line_of(const struct policy_json *reader, size_t depth, size_t nth)
{
    struct json_walk walk = { .at = reader->text, .end = reader->text + reader->len, .line = 1 };
    size_t line = 1;

    while (nth > 0 && walk_next(&walk)) {
        if (walk.depth == depth) {
            line = walk.line;
            nth--;
        }
    }
    return line;
}

static int check_extent(const struct policy_json *reader, struct err *err)
{
    struct json_walk walk = { .at = reader->text, .end = reader->text + reader->len, .line = 1 };
    size_t values = 0;

    while (walk_next(&walk)) {
        if (walk.depth > DEPTH_MAX)
            return err_invalid(err, "line %zu: nested more than %d deep", walk.line, DEPTH_MAX);
        if (++values > VALUES_MAX)
            return err_invalid(err, "line %zu: more values than %d rules can have", walk.line, RULES_MAX);
    }
    return 0;
}

/* jansson would take it for the end of the text in its message. */
static int reject_nul(const struct policy_json *reader, struct err *err)
{
    size_t line = 1;

    for (size_t i = 0; i < reader->len; i++) {
        if (reader->text[i] == '\0')
            return err_invalid(err, "line %zu: the text contains a NUL byte", line);
        line += reader->text[i] == '\n';
    }
    return 0;
}

/* A value as a message shows it: text in quotes, numbers as they are, lists and objects by name. */
static char *dup_described(const json_t *value)
{
    autofree char *shown = NULL;

    if (json_is_array(value))
        return xdup("a list");
    if (json_is_object(value))
        return xdup("an object");
    if (!json_is_string(value)) {
        char *dumped = json_dumps(value, JSON_ENCODE_ANY);
        return dumped ? dumped : xdup("?");
    }
    shown = policy_dup_shown(json_string_value(value), json_string_length(value));
    return xprintf("'%s'", shown);
}

static int expect_string(const json_t *value, const char *key, struct err *err)
{
    if (json_is_string(value))
        return 0;
    autofree char *shown = dup_described(value);
    return err_invalid(err, "%s must be a string, not %s", key, shown);
}

static int read_priority(const json_t *value, struct rule_draft *rule, struct err *err)
{
    json_int_t number = json_integer_value(value);

    if (json_is_integer(value) && number >= INT32_MIN && number <= INT32_MAX) {
        rule->priority = (int32_t) number;
        return 0;
    }
    autofree char *shown = dup_described(value);
    if (json_is_string(value))
        return policy_reject_string("priority", shown, err);
    return policy_reject_number("priority", shown, err);
}

static int read_rule_value(struct rule_draft *rule, const char *name, const json_t *value, struct err *err)
{
    int key = rule_draft_accept_key(rule, name, strlen(name), err);

    if (key < 0)
        return key;
    if (key == RULE_KEY_PRIORITY)
        return read_priority(value, rule, err);
    int r = expect_string(value, name, err);
    if (r < 0)
        return r;
    return rule_draft_set_text(rule, (enum rule_key) key, json_string_value(value), json_string_length(value), err);
}

static int read_rule_keys(json_t *object, struct rule_draft *rule, struct err *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object)) {
        autofree char *shown = dup_described(object);
        return err_invalid(err, "a rule must be an object with the keys " RULE_KEYS ", not %s", shown);
    }
    json_object_foreach(object, name, value)
    {
        int r = read_rule_value(rule, name, value, err);
        if (r < 0)
            return r;
    }
    return rule_draft_check(rule, err);
}

static int read_rule(struct policy_json *reader, json_t *object, struct err *err)
{
    autodone(rule_draft) struct rule_draft rule = { 0 };
    int r;

    r = read_rule_keys(object, &rule, err);
    if (r < 0)
        return err_wrap(err, r, "rule %zu", reader->policy.rules.count + 1);
    return policy_draft_add_rule(&reader->policy, &rule, err);
}

static int read_rules(struct policy_json *reader, const json_t *array, struct err *err)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        int r = read_rule(reader, json_array_get(array, i), err);
        if (r < 0)
            return err_wrap(err, r, "line %zu", line_of(reader, reader->rule_depth, i + 1));
    }
    return 0;
}

static int read_version(const json_t *value, struct err *err)
{
    if (json_is_integer(value) && json_integer_value(value) == 1)
        return 0;
    autofree char *shown = dup_described(value);
    return json_is_string(value) ? policy_reject_string("version", shown, err) : policy_reject_version(shown, err);
}

/* All but the rules themselves. Returns the key. */
static int read_policy_value(struct policy_json *reader, const char *name, const json_t *value, struct err *err)
{
    int key, r = 0;

    key = policy_draft_accept_key(&reader->policy, name, strlen(name), err);
    if (key == POLICY_KEY_VERSION)
        r = read_version(value, err);
    if (key == POLICY_KEY_EXTENDS)
        r = expect_string(value, name, err);
    if (key == POLICY_KEY_EXTENDS && r >= 0)
        r = policy_draft_set_extends(&reader->policy, json_string_value(value), json_string_length(value), err);
    if (key == POLICY_KEY_RULES && !json_is_array(value)) {
        autofree char *shown = dup_described(value);
        r = err_invalid(err, "rules must be a list of rules, not %s", shown);
    }
    return r < 0 ? r : key;
}

static int read_policy(struct policy_json *reader, json_t *object, struct err *err)
{
    const char *name;
    json_t *value;
    size_t nth = 0;
    int key, r;

    reader->rule_depth = 2;
    json_object_foreach(object, name, value)
    {
        nth += 2;
        key = read_policy_value(reader, name, value, err);
        if (key < 0)
            return err_wrap(err, key, "line %zu", line_of(reader, 1, nth));
        r = key == POLICY_KEY_RULES ? read_rules(reader, value, err) : 0;
        if (r < 0)
            return r;
    }
    return policy_draft_check(&reader->policy, err);
}

static int read_root(struct policy_json *reader, json_t *root, struct err *err)
{
    reader->rule_depth = 1;
    if (json_is_array(root))
        return read_rules(reader, root, err);
    if (json_is_object(root))
        return read_policy(reader, root, err);
    autofree char *shown = dup_described(root);
    return err_invalid(err, "expected a list of rules or an object with the keys " POLICY_KEYS ", not %s", shown);
}

/* NUL is let in here because jansson's own refusal speaks of its flags; the values are checked later. */
static json_t *parse_json_text(const struct policy_json *reader, struct err *err)
{
    json_error_t error;
    json_t *root = json_loadb(reader->text, reader->len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

    if (!root) {
        /* The text quotes the file. */
        autofree char *shown = policy_dup_shown(error.text, strlen(error.text));
        err_invalid(err, "line %d: %s", error.line, shown);
    }
    return root;
}

static bool is_blank(const struct policy_json *reader)
{
    for (size_t i = 0; i < reader->len; i++) {
        if (!is_one_of(reader->text[i], " \t\r\n"))
            return false;
    }
    return true;
}

int policy_parse_json(const char *text, size_t len, struct rule_list *rules, struct err *err)
{
    autodone(policy_json) struct policy_json reader = { .text = text, .len = len };
    int r;

    r = policy_check_size(len, err);
    if (r < 0)
        return r;
    policy_skip_byte_order_mark(&reader.text, &reader.len);
    if (is_blank(&reader))
        return err_invalid(err, "it is empty: it needs a list of rules, or an object with the keys " POLICY_KEYS);
    r = reject_nul(&reader, err);
    if (r >= 0)
        r = check_extent(&reader, err);
    if (r < 0)
        return r;
    json_t *root = parse_json_text(&reader, err);
    if (!root)
        return -EINVAL;
    r = read_root(&reader, root, err);
    json_decref(root);
    return r < 0 ? r : policy_draft_finish(&reader.policy, rules, err);
}
