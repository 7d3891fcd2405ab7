#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "policy/policy_draft.h"
#include "policy/policy_file.h"

/*
 * The document is read as events and never built in memory: nothing nests deeper than the grammar below asks for, and
 * there are no aliases, so no text can grow into more than it is (the "billion laughs").
 *
 *     policy = { version: number, extends: text, rules: [ rule ... ] }
 *     rule   = { pattern: text, permission: text, type: text, priority: number }
 *
 * Every read_ function finds its first event in reader->event and leaves its last there. Where reading stops, reader->line
 * says; policy_parse_yaml() puts it before the error.
 */
struct yaml_reader {
    yaml_parser_t parser;
    yaml_event_t event; /* owned */
    const char *text;   /* borrowed */
    size_t line;        /* 0: the whole text is meant */
    struct policy_draft policy;
};

static void yaml_reader_done(struct yaml_reader *reader)
{
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    policy_draft_done(&reader->policy);
}

static size_t line_at(const char *text, size_t offset)
{
    size_t line = 1;

    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

/* What libyaml says is static text; nothing of the file is in it. */
static int reject_syntax(struct yaml_reader *reader, struct err *err)
{
    const yaml_parser_t *parser = &reader->parser;

    if (parser->error == YAML_MEMORY_ERROR)
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory");
    if (parser->error == YAML_READER_ERROR) {
        reader->line = line_at(reader->text, parser->problem_offset);
        return err_invalid(err, "not readable as UTF-8: %s (0x%02x)", parser->problem, (unsigned) parser->problem_value);
    }
    reader->line = parser->problem_mark.line + 1;
    if (parser->context && strcmp(parser->context, "while scanning an alias") == 0)
        return err_invalid(err, "an unquoted '*' begins an alias, which is refused: quote patterns that begin with '*' or '['");
    if (strcmp(parser->problem, "found character that cannot start any token") == 0)
        return err_invalid(err, "found a tab, '@', '`' or '%%' where a value begins: indent with spaces, quote the others");
    if (parser->context)
        return err_invalid(err, "%s: %s", parser->context, parser->problem);
    return err_invalid(err, "%s", parser->problem);
}

static const yaml_char_t *event_anchor(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

static int reject_reference(const yaml_event_t *event, struct err *err)
{
    bool alias = event->type == YAML_ALIAS_EVENT;
    const char *name = (const char *) (alias ? event->data.alias.anchor : event_anchor(event));

    if (!name)
        return 0;
    autofree char *shown = policy_dup_shown(name, strlen(name));
    if (alias)
        return err_invalid(err, "the alias '*%s' is refused: quote patterns that begin with '*'", shown);
    return err_invalid(err, "the anchor '&%s' is refused: quote values that begin with '&'", shown);
}

static int next_event(struct yaml_reader *reader, struct err *err)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event))
        return reject_syntax(reader, err);
    reader->line = reader->event.start_mark.line + 1;
    return reject_reference(&reader->event, err);
}

static const char *kind_name(yaml_event_type_t type)
{
    switch (type) {
    case YAML_SCALAR_EVENT:
        return "a single value";
    case YAML_SEQUENCE_START_EVENT:
        return "a list";
    case YAML_MAPPING_START_EVENT:
        return "a mapping";
    default:
        return "nothing";
    }
}

static int expect_tag(const yaml_char_t *tag, const char *wanted, struct err *err)
{
    const char *given = (const char *) tag;

    if (!given || strcmp(given, wanted) == 0)
        return 0;
    autofree char *shown = policy_dup_shown(given, strlen(given));
    return err_invalid(err, "the tag '%s' is refused: quote values that begin with '!'", shown);
}

static int expect_mapping(const struct yaml_reader *reader, const char *what, const char *keys, struct err *err)
{
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return err_invalid(err, "%s must be a mapping with the keys %s, not %s", what, keys, kind_name(reader->event.type));
    return expect_tag(reader->event.data.mapping_start.tag, YAML_MAP_TAG, err);
}

/* Moves to the next key of a mapping. Returns 1, or 0 at the mapping's end. */
static int next_key(struct yaml_reader *reader, struct err *err)
{
    int r = next_event(reader, err);

    if (r < 0)
        return r;
    if (reader->event.type == YAML_MAPPING_END_EVENT)
        return 0;
    if (reader->event.type != YAML_SCALAR_EVENT)
        return err_invalid(err, "a key must be a single value, not %s", kind_name(reader->event.type));
    r = expect_tag(reader->event.data.scalar.tag, YAML_STR_TAG, err);
    return r < 0 ? r : 1;
}

static bool is_flow(const yaml_event_t *event)
{
    return (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
}

static bool is_plain(const yaml_event_t *event)
{
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag;
}

static bool is_null(const yaml_event_t *event)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

    for (size_t i = 0; is_plain(event) && i < ARRAY_LEN(nulls); i++) {
        if (strcmp((const char *) event->data.scalar.value, nulls[i]) == 0)
            return true;
    }
    return false;
}

/* Moves to the value of a key, which must be a scalar other than null. */
static int next_value(struct yaml_reader *reader, const char *key, const char *tag, struct err *err)
{
    const yaml_event_t *event = &reader->event;
    int r;

    r = next_event(reader, err);
    if (r < 0)
        return r;
    if (event->type != YAML_SCALAR_EVENT)
        return err_invalid(err, "%s must be a single value, not %s%s", key, kind_name(event->type),
                           is_flow(event) ? ": quote values that begin with '[' or '{'" : "");
    if (is_null(event))
        return err_invalid(err, "%s has no value%s", key, event->data.scalar.length ? ": quote it if it is meant as text" : "");
    return expect_tag(event->data.scalar.tag, tag, err);
}

static const char *scalar_text(const struct yaml_reader *reader)
{
    return (const char *) reader->event.data.scalar.value;
}

static size_t scalar_len(const struct yaml_reader *reader)
{
    return reader->event.data.scalar.length;
}

/* The scalar in quotes, for a message. */
static char *dup_quoted(const struct yaml_reader *reader)
{
    autofree char *shown = policy_dup_shown(scalar_text(reader), scalar_len(reader));

    return xprintf("'%s'", shown);
}

static int next_number(struct yaml_reader *reader, const char *key, struct err *err)
{
    int r = next_value(reader, key, YAML_INT_TAG, err);

    if (r < 0 || is_plain(&reader->event) || reader->event.data.scalar.tag)
        return r;
    autofree char *shown = dup_quoted(reader);
    return policy_reject_string(key, shown, err);
}

/* 010 is ten to some readers of YAML and eight to others, so it is neither here. */
static bool is_octal(const char *digits)
{
    digits += *digits == '-' || *digits == '+';
    return digits[0] == '0' && digits[1] != '\0';
}

static int read_priority(struct yaml_reader *reader, struct rule_draft *rule, struct err *err)
{
    int r = next_number(reader, "priority", err);

    if (r < 0)
        return r;
    const char *text = scalar_text(reader);
    if (strlen(text) == scalar_len(reader) && !is_octal(text) && rule_priority_parse(text, &rule->priority))
        return 0;
    autofree char *shown = dup_quoted(reader);
    return policy_reject_number("priority", shown, err);
}

static int read_rule_value(struct yaml_reader *reader, struct rule_draft *rule, size_t *pattern_line, struct err *err)
{
    static const char *const names[] = { "pattern", "permission", "type" };
    int key, r;

    key = rule_draft_accept_key(rule, scalar_text(reader), scalar_len(reader), err);
    if (key < 0)
        return key;
    if (key == RULE_KEY_PRIORITY)
        return read_priority(reader, rule, err);
    r = next_value(reader, names[key], YAML_STR_TAG, err);
    if (r < 0)
        return r;
    if (key == RULE_KEY_PATTERN)
        *pattern_line = reader->line;
    return rule_draft_set_text(rule, (enum rule_key) key, scalar_text(reader), scalar_len(reader), err);
}

static int read_rule_keys(struct yaml_reader *reader, struct rule_draft *rule, size_t *pattern_line, struct err *err)
{
    size_t first_line = reader->line;
    int r;

    r = expect_mapping(reader, "a rule", RULE_KEYS, err);
    while (r >= 0) {
        r = next_key(reader, err);
        if (r == 0)
            break;
        if (r > 0)
            r = read_rule_value(reader, rule, pattern_line, err);
    }
    if (r < 0)
        return r;
    reader->line = first_line;
    return rule_draft_check(rule, err);
}

static int read_rule(struct yaml_reader *reader, struct err *err)
{
    autodone(rule_draft) struct rule_draft rule = { 0 };
    size_t pattern_line = 0;
    int r;

    r = read_rule_keys(reader, &rule, &pattern_line, err);
    if (r < 0)
        return err_wrap(err, r, "rule %zu", reader->policy.rules.count + 1);
    reader->line = pattern_line;
    return policy_draft_add_rule(&reader->policy, &rule, err);
}

static int read_rules(struct yaml_reader *reader, struct err *err)
{
    int r;

    r = next_event(reader, err);
    if (r < 0)
        return r;
    if (reader->event.type != YAML_SEQUENCE_START_EVENT)
        return err_invalid(err, "rules must be a list of rules, not %s", kind_name(reader->event.type));
    r = expect_tag(reader->event.data.sequence_start.tag, YAML_SEQ_TAG, err);
    while (r >= 0) {
        r = next_event(reader, err);
        if (r < 0 || reader->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        r = read_rule(reader, err);
    }
    return r;
}

static int read_version(struct yaml_reader *reader, struct err *err)
{
    int r = next_number(reader, "version", err);

    if (r < 0)
        return r;
    if (scalar_len(reader) == 1 && scalar_text(reader)[0] == '1')
        return 0;
    autofree char *shown = dup_quoted(reader);
    return policy_reject_version(shown, err);
}

static int read_policy_value(struct yaml_reader *reader, struct err *err)
{
    int key, r;

    key = policy_draft_accept_key(&reader->policy, scalar_text(reader), scalar_len(reader), err);
    switch (key) {
    case POLICY_KEY_VERSION:
        return read_version(reader, err);
    case POLICY_KEY_EXTENDS:
        r = next_value(reader, "extends", YAML_STR_TAG, err);
        return r < 0 ? r : policy_draft_set_extends(&reader->policy, scalar_text(reader), scalar_len(reader), err);
    case POLICY_KEY_RULES:
        return read_rules(reader, err);
    default:
        return key;
    }
}

static int read_policy(struct yaml_reader *reader, struct err *err)
{
    int r;

    r = expect_mapping(reader, "a policy file", POLICY_KEYS, err);
    while (r >= 0) {
        r = next_key(reader, err);
        if (r == 0)
            break;
        if (r > 0)
            r = read_policy_value(reader, err);
    }
    if (r < 0)
        return r;
    reader->line = 0;
    return policy_draft_check(&reader->policy, err);
}

/* Moves to the root of the only document. */
static int open_document(struct yaml_reader *reader, struct err *err)
{
    int r;

    r = next_event(reader, err); /* the stream's start */
    if (r >= 0)
        r = next_event(reader, err); /* the document's, or the end */
    if (r >= 0 && reader->event.type == YAML_DOCUMENT_START_EVENT)
        r = next_event(reader, err);
    if (r < 0)
        return r;
    if (reader->event.type == YAML_STREAM_END_EVENT || (reader->event.type == YAML_SCALAR_EVENT && is_null(&reader->event))) {
        reader->line = 0;
        return err_invalid(err, "it is empty: it needs 'version: 1' and 'rules' or 'extends'");
    }
    return 0;
}

static int close_document(struct yaml_reader *reader, struct err *err)
{
    int r;

    r = next_event(reader, err); /* the document's end */
    if (r >= 0)
        r = next_event(reader, err);
    if (r >= 0 && reader->event.type != YAML_STREAM_END_EVENT)
        return err_invalid(err, "a second document begins, a policy is one");
    return r;
}

static int read_stream(struct yaml_reader *reader, struct err *err)
{
    int r;

    r = open_document(reader, err);
    if (r >= 0)
        r = read_policy(reader, err);
    if (r >= 0)
        r = close_document(reader, err);
    if (r < 0 && reader->line > 0)
        return err_wrap(err, r, "line %zu", reader->line);
    return r;
}

int policy_parse_yaml(const char *text, size_t len, struct rule_list *rules, struct err *err)
{
    autodone(yaml_reader) struct yaml_reader reader = { 0 };
    int r;

    r = policy_check_size(len, err);
    if (r < 0)
        return r;
    /* With its encoding fixed libyaml takes a byte order mark for an indentation by one. */
    policy_skip_byte_order_mark(&text, &len);
    reader.text = text;
    if (!yaml_parser_initialize(&reader.parser))
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory");
    /* Left to itself libyaml would also take UTF-16, which the same file's other readers see as something else. */
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *) (len ? text : ""), len);
    r = read_stream(&reader, err);
    return r < 0 ? r : policy_draft_finish(&reader.policy, rules, err);
}
