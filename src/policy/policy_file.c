#include "policy/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "policy/preset.h"

/*
 * The text is read as events, and no document is built in memory: nothing nests deeper than the grammar below, and aliases are
 * refused, so no text can grow into more than it is (the "billion laughs" attack).
 *
 *     policy = { version: number, extends: text, rules: [ rule ... ] } | [ rule ... ]
 *     rule   = { pattern: text, permission: text, type: text, priority: number }
 *
 * Every read_ function finds its first event in reader->event and leaves its last one there. reader->line is the line that an
 * error is about; policy_parse_yaml() puts it before the error.
 */

#define POLICY_KEYS "version, extends, rules"
#define RULE_KEYS "pattern, permission, type, priority"

enum policy_key {
    POLICY_KEY_VERSION,
    POLICY_KEY_EXTENDS,
    POLICY_KEY_RULES,
};

static const char *const policy_keys[] = {
    [POLICY_KEY_VERSION] = "version",
    [POLICY_KEY_EXTENDS] = "extends",
    [POLICY_KEY_RULES] = "rules",
};

enum rule_key {
    RULE_KEY_PATTERN,
    RULE_KEY_PERMISSION,
    RULE_KEY_TYPE,
    RULE_KEY_PRIORITY,
};

static const char *const rule_keys[] = {
    [RULE_KEY_PATTERN] = "pattern",
    [RULE_KEY_PERMISSION] = "permission",
    [RULE_KEY_TYPE] = "type",
    [RULE_KEY_PRIORITY] = "priority",
};

struct policy_reader {
    yaml_parser_t parser;
    yaml_event_t event;     /* owned */
    const char *text;       /* borrowed */
    size_t line;            /* 0: the error is about the text as a whole */
    unsigned seen;          /* a bit for each policy_key */
    struct rule_list base;  /* the rules of the preset that the policy extends */
    struct rule_list rules; /* the text's own, kept apart from `base` so that their numbers are those of the text */
};

static void policy_reader_done(struct policy_reader *reader)
{
    yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
    rule_list_done(&reader->base);
    rule_list_done(&reader->rules);
}

/* A rule whose keys are being read. */
struct rule_draft {
    unsigned seen; /* a bit for each rule_key */
    char *pattern; /* owned */
    size_t pattern_len;
    size_t pattern_line;
    enum rule_type type;
    enum level level;
    int32_t priority;
};

static void rule_draft_done(struct rule_draft *rule)
{
    free(rule->pattern);
}

static int check_text_size(size_t len, struct err *err)
{
    if (len <= POLICY_TEXT_MAX)
        return 0;
    return err_set(err, ERR_INVALID_ARGUMENT, -EFBIG, "the text is larger than %zu MiB", POLICY_TEXT_MAX >> 20);
}

/* Enough of the text to recognise it by, safe in a one-line message. Text that needs neither escaping nor shortening stays as
 * it is, and no other text is shown like that, so comparing the result is as good as comparing the text, NULs included. */
static char *dup_excerpt(const char *bytes, size_t len)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, bytes, len);
    return buf_dup_take(&shown);
}

static char *dup_scalar_excerpt(const struct policy_reader *reader)
{
    return dup_excerpt((const char *) reader->event.data.scalar.value, reader->event.data.scalar.length);
}

static size_t line_at(const char *text, size_t offset)
{
    size_t line = 1;

    for (size_t i = 0; i < offset; i++)
        line += text[i] == '\n';
    return line;
}

/* The texts of libyaml are static; they quote nothing of the file. */
static int reject_syntax(struct policy_reader *reader, struct err *err)
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

static int reject_reference(const yaml_event_t *event, struct err *err)
{
    const yaml_char_t *name = NULL;

    if (event->type == YAML_ALIAS_EVENT)
        name = event->data.alias.anchor;
    else if (event->type == YAML_SCALAR_EVENT)
        name = event->data.scalar.anchor;
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        name = event->data.sequence_start.anchor;
    else if (event->type == YAML_MAPPING_START_EVENT)
        name = event->data.mapping_start.anchor;
    if (!name)
        return 0;
    autofree char *shown = dup_excerpt((const char *) name, strlen((const char *) name));
    if (event->type == YAML_ALIAS_EVENT)
        return err_invalid(err, "the alias '*%s' is refused: quote patterns that begin with '*'", shown);
    return err_invalid(err, "the anchor '&%s' is refused: quote values that begin with '&'", shown);
}

static int policy_next_event(struct policy_reader *reader, struct err *err)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event))
        return reject_syntax(reader, err);
    reader->line = reader->event.start_mark.line + 1;
    return reject_reference(&reader->event, err);
}

static const char *event_name(const struct policy_reader *reader)
{
    switch (reader->event.type) {
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
    autofree char *shown = dup_excerpt(given, strlen(given));
    return err_invalid(err, "the tag '%s' is refused: quote values that begin with '!'", shown);
}

/* Moves to the next key of a mapping. Returns its index in `names`, or -ENOENT without an error at the mapping's end. */
static int policy_next_key(struct policy_reader *reader, const char *const *names, size_t count, const char *all,
                           unsigned *seen, struct err *err)
{
    int r;

    r = policy_next_event(reader, err);
    if (r < 0)
        return r;
    if (reader->event.type == YAML_MAPPING_END_EVENT)
        return -ENOENT;
    if (reader->event.type != YAML_SCALAR_EVENT)
        return err_invalid(err, "a key must be a single value, not %s", event_name(reader));
    r = expect_tag(reader->event.data.scalar.tag, YAML_STR_TAG, err);
    if (r < 0)
        return r;
    autofree char *shown = dup_scalar_excerpt(reader);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(shown, names[i]) != 0)
            continue;
        if (*seen & 1u << i)
            return err_invalid(err, "the key '%s' is given twice", shown);
        *seen |= 1u << i;
        return (int) i;
    }
    return err_invalid(err, "unknown key '%s' (one of %s)", shown, all);
}

static bool is_plain_scalar(const yaml_event_t *event)
{
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag;
}

static bool is_null_scalar(const yaml_event_t *event)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

    for (size_t i = 0; is_plain_scalar(event) && i < ARRAY_LEN(nulls); i++) {
        if (strcmp((const char *) event->data.scalar.value, nulls[i]) == 0)
            return true;
    }
    return false;
}

/* Moves to the value of a key, which must be a scalar other than null. */
static int policy_next_value(struct policy_reader *reader, const char *key, const char *tag, struct err *err)
{
    const yaml_event_t *event = &reader->event;
    int r;

    r = policy_next_event(reader, err);
    if (r < 0)
        return r;
    bool is_flow = (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE) ||
                   (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
    if (event->type != YAML_SCALAR_EVENT)
        return err_invalid(err, "%s must be a single value, not %s%s", key, event_name(reader),
                           is_flow ? ": quote values that begin with '[' or '{'" : "");
    if (is_null_scalar(event))
        return err_invalid(err, "%s has no value%s", key, event->data.scalar.length ? ": quote it if it is meant as text" : "");
    return expect_tag(event->data.scalar.tag, tag, err);
}

static int next_number(struct policy_reader *reader, const char *key, struct err *err)
{
    int r = policy_next_value(reader, key, YAML_INT_TAG, err);

    if (r < 0 || is_plain_scalar(&reader->event) || reader->event.data.scalar.tag)
        return r;
    autofree char *shown = dup_scalar_excerpt(reader);
    return err_invalid(err, "%s must be a number, not the string '%s': leave the quotes out", key, shown);
}

static int read_priority(struct policy_reader *reader, struct rule_draft *rule, struct err *err)
{
    int r = next_number(reader, "priority", err);

    if (r < 0)
        return r;
    const char *text = (const char *) reader->event.data.scalar.value;
    const char *digits = text + (*text == '-' || *text == '+');
    /* Some readers of YAML take 010 for ten and others for eight, so it is refused. */
    bool is_octal = digits[0] == '0' && digits[1] != '\0';
    if (strlen(text) == reader->event.data.scalar.length && !is_octal && rule_priority_parse(text, &rule->priority))
        return 0;
    autofree char *shown = dup_scalar_excerpt(reader);
    return err_invalid(err, "priority must be a whole number from %d to %d, not '%s'", INT32_MIN, INT32_MAX, shown);
}

static int read_rule_value(struct policy_reader *reader, enum rule_key key, struct rule_draft *rule, struct err *err)
{
    int r;

    if (key == RULE_KEY_PRIORITY)
        return read_priority(reader, rule, err);
    r = policy_next_value(reader, rule_keys[key], YAML_STR_TAG, err);
    if (r < 0)
        return r;
    autofree char *shown = dup_scalar_excerpt(reader);
    if (key == RULE_KEY_PATTERN) {
        rule->pattern_line = reader->line;
        rule->pattern_len = reader->event.data.scalar.length;
        rule->pattern = xdupn(reader->event.data.scalar.value, rule->pattern_len);
    }
    if (key == RULE_KEY_PERMISSION && !level_parse(shown, &rule->level))
        return err_invalid(err, "unknown permission '%s' (one of " LEVEL_NAMES ")", shown);
    if (key == RULE_KEY_TYPE && !rule_type_parse(shown, &rule->type))
        return err_invalid(err, "unknown type '%s' (one of glob, directory, file)", shown);
    return 0;
}

static int read_rule_keys(struct policy_reader *reader, struct rule_draft *rule, struct err *err)
{
    size_t first_line = reader->line;
    int key, r;

    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return err_invalid(err, "a rule must be a mapping with the keys " RULE_KEYS ", not %s", event_name(reader));
    r = expect_tag(reader->event.data.mapping_start.tag, YAML_MAP_TAG, err);
    if (r < 0)
        return r;
    while ((key = policy_next_key(reader, rule_keys, ARRAY_LEN(rule_keys), RULE_KEYS, &rule->seen, err)) >= 0) {
        r = read_rule_value(reader, (enum rule_key) key, rule, err);
        if (r < 0)
            return r;
    }
    if (key != -ENOENT)
        return key;
    reader->line = first_line;
    if (!rule->pattern)
        return err_invalid(err, "the key 'pattern' is missing");
    if (!(rule->seen & 1u << RULE_KEY_PERMISSION))
        return err_invalid(err, "the key 'permission' is missing");
    return 0;
}

static int policy_read_rules(struct policy_reader *reader, struct err *err)
{
    int r;

    if (reader->event.type != YAML_SEQUENCE_START_EVENT)
        return err_invalid(err, "rules must be a list of rules, not %s", event_name(reader));
    r = expect_tag(reader->event.data.sequence_start.tag, YAML_SEQ_TAG, err);
    while (r >= 0) {
        autodone(rule_draft) struct rule_draft rule = { 0 };

        r = policy_next_event(reader, err);
        if (r < 0 || reader->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        r = read_rule_keys(reader, &rule, err);
        if (r < 0)
            return err_wrap(err, r, "rule %zu", reader->rules.count + 1);
        reader->line = rule.pattern_line;
        r = rule_list_add(&reader->rules, rule.pattern, rule.pattern_len, rule.type, rule.level, rule.priority, err);
    }
    return r;
}

static int read_policy_value(struct policy_reader *reader, enum policy_key key, struct err *err)
{
    int r;

    if (key == POLICY_KEY_RULES) {
        r = policy_next_event(reader, err);
        return r < 0 ? r : policy_read_rules(reader, err);
    }
    r = key == POLICY_KEY_VERSION ? next_number(reader, "version", err)
                                  : policy_next_value(reader, "extends", YAML_STR_TAG, err);
    if (r < 0)
        return r;
    autofree char *shown = dup_scalar_excerpt(reader);
    const char *text = (const char *) reader->event.data.scalar.value;
    if (key == POLICY_KEY_VERSION)
        return strcmp(shown, "1") == 0 ? 0 : err_invalid(err, "version must be 1, not '%s'", shown);
    if (strlen(text) != reader->event.data.scalar.length)
        return err_invalid(err, "the name of the preset contains a NUL byte");
    return preset_add(text, &reader->base, err);
}

static int read_policy(struct policy_reader *reader, struct err *err)
{
    int key, r;

    if (reader->event.type == YAML_SEQUENCE_START_EVENT)
        return policy_read_rules(reader, err);
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return err_invalid(err, "a policy must be a list of rules, or a mapping with the keys " POLICY_KEYS ", not %s",
                           event_name(reader));
    r = expect_tag(reader->event.data.mapping_start.tag, YAML_MAP_TAG, err);
    if (r < 0)
        return r;
    while ((key = policy_next_key(reader, policy_keys, ARRAY_LEN(policy_keys), POLICY_KEYS, &reader->seen, err)) >= 0) {
        r = read_policy_value(reader, (enum policy_key) key, err);
        if (r < 0)
            return r;
    }
    if (key != -ENOENT)
        return key;
    reader->line = 0;
    if (!(reader->seen & 1u << POLICY_KEY_VERSION))
        return err_invalid(err, "the key 'version' is missing, it must be 1");
    if (!(reader->seen & (1u << POLICY_KEY_RULES | 1u << POLICY_KEY_EXTENDS)))
        return err_invalid(err, "neither 'rules' nor 'extends' is given");
    return 0;
}

static int read_stream(struct policy_reader *reader, struct err *err)
{
    int r;

    r = policy_next_event(reader, err); /* the stream's start */
    if (r >= 0)
        r = policy_next_event(reader, err); /* the document's, or the end */
    if (r >= 0 && reader->event.type == YAML_DOCUMENT_START_EVENT)
        r = policy_next_event(reader, err);
    if (r < 0)
        return r;
    if (reader->event.type == YAML_STREAM_END_EVENT ||
        (reader->event.type == YAML_SCALAR_EVENT && is_null_scalar(&reader->event))) {
        reader->line = 0;
        return err_invalid(err, "it is empty: it needs 'version: 1' and 'rules' or 'extends'");
    }
    r = read_policy(reader, err);
    if (r >= 0)
        r = policy_next_event(reader, err); /* the document's end */
    if (r >= 0)
        r = policy_next_event(reader, err);
    if (r >= 0 && reader->event.type != YAML_STREAM_END_EVENT)
        return err_invalid(err, "a second document begins, a policy is one");
    return r;
}

int policy_parse_yaml(const char *text, size_t len, struct rule_list *rules, struct err *err)
{
    autodone(policy_reader) struct policy_reader reader = { 0 };
    autodone(rule_list) struct rule_list all = RULE_LIST_EMPTY;
    int r;

    r = check_text_size(len, err);
    if (r < 0)
        return r;
    /* libyaml takes a byte order mark for an indentation by one once its encoding is fixed, which it is below. */
    if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        len -= 3;
    }
    reader.text = text;
    if (!yaml_parser_initialize(&reader.parser))
        return err_set(err, ERR_RESOURCE_EXHAUSTED, -ENOMEM, "out of memory");
    /* By default libyaml accepts UTF-16 too, which other programs would read as something else. */
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *) (len ? text : ""), len);
    r = read_stream(&reader, err);
    if (r < 0)
        return reader.line > 0 ? err_wrap(err, r, "line %zu", reader.line) : r;
    r = rule_list_add_all(&all, &reader.base, err);
    if (r >= 0)
        r = rule_list_add_all(&all, &reader.rules, err);
    return r < 0 ? r : rule_list_add_all(rules, &all, err);
}

/* Two escapes of a surrogate pair, as \ud83d\udd11, at `at`: their code point, or 0. */
static unsigned surrogate_pair_at(const char *at, const char *end)
{
    unsigned high, low;
    char escapes[13];

    if (end - at < 12 || memchr(at, '\0', 12))
        return 0;
    memcpy(escapes, at, 12);
    escapes[12] = '\0';
    if (sscanf(escapes, "\\u%4x\\u%4x", &high, &low) != 2)
        return 0;
    bool is_pair = high >= 0xD800 && high < 0xDC00 && low >= 0xDC00 && low < 0xE000;
    return is_pair ? 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00) : 0;
}

int policy_parse_json(const char *text, size_t len, struct rule_list *rules, struct err *err)
{
    autodone(buf) struct buf yaml = BUF_EMPTY;
    const char *end = text + len;
    int r;

    r = check_text_size(len, err);
    if (r < 0)
        return r;
    for (const char *at = text; at < end;) {
        unsigned code = *at == '\\' ? surrogate_pair_at(at, end) : 0;
        size_t width = code ? 12 : *at == '\\' && end - at > 1 ? 2 : 1; /* passes an escaped backslash whole */

        if (code)
            buf_addf(&yaml, "\\U%08X", code);
        else
            buf_add(&yaml, at, width);
        at += width;
    }
    return policy_parse_yaml(yaml.data, yaml.len, rules, err);
}

/* O_NONBLOCK: opening a FIFO would wait for its writer. */
static int open_policy_file(const char *path, int *ret_fd, struct err *err)
{
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "it cannot be opened");
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_INVALID_ARGUMENT, -EISDIR, "it is a directory");
    if (!S_ISREG(st.st_mode))
        return err_invalid(err, "not a regular file ('-' reads standard input)");
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int load_policy(const char *path, struct rule_list *rules, struct err *err)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    bool from_stdin = strcmp(path, "-") == 0;
    size_t path_len = strlen(path);
    autofd int fd = -1;
    int r;

    r = from_stdin ? 0 : open_policy_file(path, &fd, err);
    if (r < 0)
        return r;
    r = fd_read_all(from_stdin ? STDIN_FILENO : fd, POLICY_TEXT_MAX, &text);
    if (r == -EFBIG)
        return check_text_size(POLICY_TEXT_MAX + 1, err);
    if (r < 0)
        return err_errno(err, r, "it cannot be read");
    if (path_len >= 5 && strcmp(path + path_len - 5, ".json") == 0)
        return policy_parse_json(text.data, text.len, rules, err);
    return policy_parse_yaml(text.data, text.len, rules, err);
}

int policy_file_load(const char *path, struct rule_list *rules, struct err *err)
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    int r = load_policy(path, rules, err);

    if (r >= 0)
        return 0;
    if (strcmp(path, "-") == 0)
        return err_wrap(err, r, "policy from standard input");
    buf_add_escaped(&shown, path, strlen(path)); /* in full: nobody can search for a shortened path */
    return err_wrap(err, r, "policy file '%s'", shown.data);
}
