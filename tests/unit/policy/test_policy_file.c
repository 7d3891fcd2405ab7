#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../leftover.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "policy/pattern.h"
#include "policy/policy_file.h"

#define HEAD "version: 1\nrules:\n"
#define RULE HEAD "  - pattern: /a\n    permission: read\n"
#define TWO RULE "  - pattern: /b\n    permission: "
#define RANGE "priority must be a whole number from -2147483648 to 2147483647, not "

/* A text and its length: it may contain NULs. */
#define TEXT(s) (s), sizeof(s) - 1

static void add_one(struct rule_list *rules)
{
    assert_int_equal(rule_list_add(rules, "/old", 4, RULE_GLOB, LEVEL_VIEW, 3, NULL), 0);
}

static void assert_refused(const char *text, size_t len, const char *message)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;

    add_one(&rules);
    assert_true(policy_parse_yaml(text, len, &rules, &err) < 0);
    assert_string_equal(err.text, message);
    assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
    assert_int_equal(rules.count, 1);
    assert_string_equal(rules.items[0].pattern, "/old");
    assert_true(policy_parse_yaml(text, len, &rules, NULL) < 0);
    assert_int_equal(rules.count, 1);
}

static void assert_taken(const char *text, size_t len, size_t count, struct rule_list *rules)
{
    struct err err = ERR_NONE;

    if (policy_parse_yaml(text, len, rules, &err) < 0)
        fail_msg("refused: %s", err.text);
    assert_int_equal(rules->count, count);
}

static void assert_rule(const struct rule *rule, const char *pattern, enum rule_type type, enum level level, int32_t priority)
{
    assert_string_equal(rule->pattern, pattern);
    assert_int_equal(rule->type, type);
    assert_int_equal(rule->level, level);
    assert_int_equal(rule->priority, priority);
}

static void every_key_of_a_rule_is_kept(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;

    (void) state;
    assert_taken(TEXT("version: 1\n"
                      "rules:\n"
                      "  - pattern: /logs/\n"
                      "    permission: write\n"
                      "    type: directory\n"
                      "    priority: -2147483648\n"
                      "  - { permission: none, priority: 2147483647, pattern: '**/*.key', type: glob }\n"
                      "  - {\"type\": \"file\", \"pattern\": \"/a b\", \"permission\": \"view\"}\n"
                      "  - pattern: /src\n"
                      "    permission: read\n"),
                 4, &rules);
    assert_rule(&rules.items[0], "/logs/", RULE_DIRECTORY, LEVEL_WRITE, INT32_MIN);
    assert_rule(&rules.items[1], "**/*.key", RULE_GLOB, LEVEL_NONE, INT32_MAX);
    assert_rule(&rules.items[2], "/a b", RULE_FILE, LEVEL_VIEW, 0);
    assert_rule(&rules.items[3], "/src", RULE_UNSPECIFIED, LEVEL_READ, 0);
    assert_null(rules.items[3].preset);
}

static void a_preset_comes_before_the_rules_wherever_it_is_named(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;

    (void) state;
    add_one(&rules);
    assert_taken(TEXT(RULE "extends: read-only\n"), 3, &rules);
    assert_string_equal(rules.items[0].pattern, "/old");
    assert_string_equal(rules.items[1].preset, "read-only");
    assert_rule(&rules.items[2], "/a", RULE_UNSPECIFIED, LEVEL_READ, 0);
}

static void good_forms_are_taken(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        size_t count;
    } good[] = {
        { TEXT("version: 1\nextends: view-only\n"), 1 },
        { TEXT("[]\n"), 0 },
        { TEXT("- pattern: /a\n  permission: read\n- {pattern: /b, permission: none}\n"), 2 },
        { TEXT("version: 1\nrules: []\n"), 0 },
        { TEXT("{version: 1, rules: [{pattern: /a, permission: none}]}"), 1 },
        { TEXT("%YAML 1.1\n---\n# a comment\n" RULE "...\n"), 1 },
        { TEXT("version: 1\r\nrules:\r\n- pattern: /a\r\n  permission: read\r\n"), 1 },
        { TEXT("\xEF\xBB\xBF" RULE), 1 },
        { TEXT("\xEF\xBB\xBFversion: 1\r\nrules:\r\n- pattern: /a\r\n  permission: read\r\n"), 1 },
        { TEXT("version:\t1\nrules:\t[]\t# tabs between tokens\n"), 0 },
        { TEXT(HEAD "  - pattern: >-\n      /a\n    permission: |-\n      none\n"), 1 },
        { TEXT(HEAD "  - ? pattern\n    : /a\n    ? permission\n    : none\n"), 1 },
        { TEXT("version: !!int 1\nrules: !!seq [!!map {!!str pattern: !!str 7, permission: none, priority: !!int '5'}]"), 1 },
        { TEXT(HEAD "  - pattern: /\xC3\xA9/\xF0\x9F\x94\x91\n    permission: none\n"), 1 },
        { TEXT(HEAD "  - {pattern: 123, permission: none, priority: +5}\n"), 1 },
        { TEXT(HEAD "  - {pattern: '~', permission: none, priority: -0}\n"), 1 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
        assert_taken(good[i].text, good[i].len, good[i].count, &rules);
    }
}

struct bad {
    const char *text;
    size_t len;
    const char *message;
};

static void assert_all_refused(const struct bad *bad, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_refused(bad[i].text, bad[i].len, bad[i].message);
}

static void what_is_no_policy_is_refused(void **state)
{
    static const char empty[] = "it is empty: it needs 'version: 1' and 'rules' or 'extends'";
    static const char shape[] =
        "line 1: a policy must be a list of rules, or a mapping with the keys version, extends, rules, not ";
    static const struct bad bad[] = {
        { TEXT(""), empty },
        { TEXT("\xEF\xBB\xBF"), empty },
        { TEXT("\n# nothing\n\n"), empty },
        { TEXT("---\n...\n"), empty },
        { TEXT("null\n"), empty },
        { TEXT("version: 1\n"), "neither 'rules' nor 'extends' is given" },
        { TEXT("rules: []\n"), "the key 'version' is missing, it must be 1" },
        { TEXT("version: 2\nrules: []\n"), "line 1: version must be 1, not '2'" },
        { TEXT("version: 1.0\nrules: []\n"), "line 1: version must be 1, not '1.0'" },
        { TEXT("version: \"1\"\nrules: []\n"), "line 1: version must be a number, not the string '1': leave the quotes out" },
        { TEXT("version:\nrules: []\n"), "line 1: version has no value" },
        { TEXT("version: [1]\n"),
          "line 1: version must be a single value, not a list: quote values that begin with '[' or '{'" },
        { TEXT("version: 1\nrules:\n"), "line 2: rules must be a list of rules, not a single value" },
        { TEXT("version: 1\nrules:\n  a: b\n"), "line 3: rules must be a list of rules, not a mapping" },
        { TEXT("version: 1\nextends:\n  - a\n"), "line 3: extends must be a single value, not a list" },
        { TEXT("version: 1\nextends: ~\n"), "line 2: extends has no value: quote it if it is meant as text" },
        { TEXT("version: 1\n\nextends: agent-save\n"), "line 3: unknown preset 'agent-save' (one of agent-safe, development, "
                                                       "full-access, read-only, view-only)" },
        { TEXT("version: 1\nextends: \"read-only\\0\"\n"), "line 2: the name of the preset contains a NUL byte" },
        { TEXT(RULE "---\n" RULE), "line 5: a second document begins, a policy is one" },
        { TEXT(RULE "ruels: []\n"), "line 5: unknown key 'ruels' (one of version, extends, rules)" },
        { TEXT(RULE "rules: []\n"), "line 5: the key 'rules' is given twice" },
        { TEXT("version: 1\nversion: 1\n"), "line 2: the key 'version' is given twice" },
        { TEXT("\"rules\\0\": []\n"), "line 1: unknown key 'rules\\x00' (one of version, extends, rules)" },
        { TEXT("[a]: b\n"), "line 1: a key must be a single value, not a list" },
    };
    char text[256];

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
    snprintf(text, sizeof(text), "%sa single value", shape);
    assert_refused(TEXT("version\n"), text);
    assert_refused(TEXT("- pattern: /a\n"), "line 1: rule 1: the key 'permission' is missing");
}

static void a_bad_rule_is_named_by_its_number_and_line(void **state)
{
    static const char shape[] =
        "line 3: rule 1: a rule must be a mapping with the keys pattern, permission, type, priority, not ";
    static const struct bad bad[] = {
        { TEXT(TWO "raed\n"), "line 6: rule 2: unknown permission 'raed' (one of none, view, read, write)" },
        { TEXT(TWO "Read\n"), "line 6: rule 2: unknown permission 'Read' (one of none, view, read, write)" },
        { TEXT(TWO "\"read\\0\"\n"), "line 6: rule 2: unknown permission 'read\\x00' (one of none, view, read, write)" },
        { TEXT(TWO "\n"), "line 6: rule 2: permission has no value" },
        { TEXT(TWO "read\n    type: regex\n"), "line 7: rule 2: unknown type 'regex' (one of glob, directory, file)" },
        { TEXT(TWO "read\n    type: unspecified\n"),
          "line 7: rule 2: unknown type 'unspecified' (one of glob, directory, file)" },
        { TEXT(TWO "read\n    prioritty: 1\n"),
          "line 7: rule 2: unknown key 'prioritty' (one of pattern, permission, type, priority)" },
        { TEXT(TWO "read\n    <<: {type: file}\n"),
          "line 7: rule 2: unknown key '<<' (one of pattern, permission, type, priority)" },
        { TEXT(TWO "read\n    permission: none\n"), "line 7: rule 2: the key 'permission' is given twice" },
        { TEXT(RULE "  - permission: read\n"), "line 5: rule 2: the key 'pattern' is missing" },
        { TEXT(RULE "  - pattern: /b\n    type: file\n"), "line 5: rule 2: the key 'permission' is missing" },
        { TEXT(RULE "  - {}\n"), "line 5: rule 2: the key 'pattern' is missing" },
        { TEXT(TWO "{a: b}\n"), "line 6: rule 2: permission must be a single value, not a mapping: quote values that begin "
                                "with '[' or '{'" },
        { TEXT(RULE "  - pattern:\n      - x\n"), "line 6: rule 2: pattern must be a single value, not a list" },
        { TEXT(RULE "  - pattern: null\n"), "line 5: rule 2: pattern has no value: quote it if it is meant as text" },
        { TEXT("extends: agent-safe\n" RULE "  - pattern: /b/../c\n    permission: read\n"),
          "line 6: rule 2 '/b/../c': '..' is not allowed in a pattern" },
    };
    char text[256];

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
    snprintf(text, sizeof(text), "%sa single value", shape);
    assert_refused(TEXT(HEAD "  - /a=read\n"), text);
    snprintf(text, sizeof(text), "%sa list", shape);
    assert_refused(TEXT(HEAD "  - [/a, read]\n"), text);
}

static void a_bad_pattern_is_refused_with_its_line(void **state)
{
    static const struct bad bad[] = {
        { TEXT(HEAD "  - permission: none\n    pattern: ''\n"), "line 4: rule 1 '': the pattern is empty" },
        { TEXT(HEAD "  - pattern: \"a\\0b\"\n    permission: none\n"),
          "line 3: rule 1 'a\\x00b': the pattern contains a NUL byte" },
        { TEXT(HEAD "  - pattern: ../x\n    permission: none\n"), "line 3: rule 1 '../x': '..' is not allowed in a pattern" },
        { TEXT(HEAD "  - pattern: 'x[a'\n    permission: none\n"), "line 3: rule 1 'x[a': unclosed character class '['" },
    };

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
}

static void a_priority_is_a_whole_number_within_32_bits(void **state)
{
    static const char *const bad[] = { "2147483648", "-2147483649", "1.0",   "1e3",  "0x10", "010",
                                       "-07",        "high",        "1_000", "true", "1 0",  "99999999999999999999" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[256], message[256];
        snprintf(text, sizeof(text), HEAD "- {pattern: /a, permission: none, priority: %s}\n", bad[i]);
        snprintf(message, sizeof(message), "line 3: rule 1: " RANGE "'%s'", bad[i]);
        assert_refused(text, strlen(text), message);
    }
    assert_refused(TEXT(HEAD "- {pattern: /a, permission: none, priority: '7'}\n"),
                   "line 3: rule 1: priority must be a number, not the string '7': leave the quotes out");
    assert_refused(TEXT(HEAD "- {pattern: /a, permission: none, priority: !!int \"7\\0\"}\n"),
                   "line 3: rule 1: " RANGE "'7\\x00'");
}

static void anchors_aliases_and_tags_are_refused(void **state)
{
    static const char star[] = "an unquoted '*' begins an alias, which is refused: quote patterns that begin with '*' or '['";
    static const struct bad bad[] = {
        { TEXT("version: 1\nrules: &r []\n"), "line 2: the anchor '&r' is refused: quote values that begin with '&'" },
        { TEXT("&v version: 1\n"), "line 1: the anchor '&v' is refused: quote values that begin with '&'" },
        { TEXT(HEAD "  - pattern: &p /a\n"), "line 3: rule 1: the anchor '&p' is refused: quote values that begin with '&'" },
        { TEXT(HEAD "  - pattern: *key\n"), "line 3: rule 1: the alias '*key' is refused: quote patterns that begin with '*'" },
        { TEXT(HEAD "  - *r\n"), "line 3: the alias '*r' is refused: quote patterns that begin with '*'" },
        { TEXT(HEAD "  - pattern: !glob /a\n"),
          "line 3: rule 1: the tag '!glob' is refused: quote values that begin with '!'" },
        { TEXT(HEAD "  - pattern: !!binary L2E=\n"),
          "line 3: rule 1: the tag 'tag:yaml.org,2002:binary' is refused: quote values that begin with '!'" },
        { TEXT("!policy {version: 1}\n"), "line 1: the tag '!policy' is refused: quote values that begin with '!'" },
        { TEXT("version: !!str 1\n"), "line 1: the tag 'tag:yaml.org,2002:str' is refused: quote values that begin with '!'" },
    };
    char text[256];

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
    snprintf(text, sizeof(text), "line 3: rule 1: %s", star);
    assert_refused(TEXT(HEAD "  - pattern: **/*.key\n"), text);
    assert_refused(TEXT(HEAD "  - pattern: *.pem\n"), text);
}

static void text_that_is_no_yaml_is_refused_with_its_line(void **state)
{
    static const struct bad bad[] = {
        { TEXT("version: 1\nrules:\n\t- pattern: /a\n"),
          "line 3: found a tab, '@', '`' or '%' where a value begins: indent with spaces, quote the others" },
        { TEXT("version: 1\n\nrul\xFF"
               "es: []\n"),
          "line 3: not readable as UTF-8: invalid leading UTF-8 octet (0xff)" },
        { TEXT("version: 1\n\n\n# \xC3(\n"), "line 4: not readable as UTF-8: invalid trailing UTF-8 octet (0x28)" },
        { TEXT("version: 1\n# \0\n"), "line 2: not readable as UTF-8: control characters are not allowed (0x00)" },
        { TEXT("version: 1\n# \x1B[2J\n"), "line 2: not readable as UTF-8: control characters are not allowed (0x1b)" },
        { TEXT("\xFF\xFEv\0e\0r\0"), "line 1: not readable as UTF-8: invalid leading UTF-8 octet (0xff)" },
        { TEXT("version: 1\nrules: ]\n"), "line 2: while parsing a block node: did not find expected node content" },
        { TEXT("version: 1\nrules: [\n"), "line 3: while parsing a flow node: did not find expected node content" },
        { TEXT(HEAD "  - pattern: \"/a\n"), "line 4: rule 1: while scanning a quoted scalar: found unexpected end of stream" },
        { TEXT(HEAD "  - pattern: \"\\*\"\n"),
          "line 3: rule 1: while parsing a quoted scalar: found unknown escape character" },
        { TEXT(RULE "}\n"), "line 5: while parsing a block mapping: did not find expected key" },
    };

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
}

/* JSON as other programs write it: one line, indented with tabs, CR LF, everything outside ASCII escaped. */
static void json_is_read_as_well(void **state)
{
    static const char *const good[] = {
        "[{\"pattern\":\"/a\",\"permission\":\"read\",\"type\":\"file\",\"priority\":-7}]",
        "\xEF\xBB\xBF[\r\n\t{\r\n\t\t\"priority\": -7,\r\n\t\t\"type\": \"file\",\r\n\t\t\"permission\": \"read\",\r\n"
        "\t\t\"pattern\": \"\\/a\"\r\n\t}\r\n]\r\n",
        "{\"rules\": [{\"pattern\": \"/a\", \"permission\": \"read\", \"type\": \"file\", \"priority\": -7}], \"version\": "
        "1}\n",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
        struct err err = ERR_NONE;

        if (policy_parse_json(good[i], strlen(good[i]), &rules, &err) < 0)
            fail_msg("refused: %s", err.text);
        assert_int_equal(rules.count, 1);
        assert_rule(&rules.items[0], "/a", RULE_FILE, LEVEL_READ, -7);
    }
}

static void json_spells_characters_as_surrogates(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    static const char key[] = "[{\"permission\": \"none\", \"pattern\": \"/\\u00e9\\ud83d\\udd11\\\\ud83d\\\\udd11\"}]";
    static const char lone[] = "[{\"permission\": \"none\",\n\"pattern\": \"/\\ud83d\\u0041\"}]";
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(policy_parse_json(TEXT(key), &rules, NULL), 0);
    assert_string_equal(rules.items[0].pattern, "/\xC3\xA9\xF0\x9F\x94\x91\\ud83d\\udd11");
    assert_int_equal(policy_parse_json(TEXT(lone), &rules, &err), -EINVAL);
    assert_string_equal(err.text, "line 2: rule 1: while parsing a quoted scalar: found invalid Unicode character escape code");
    assert_int_equal(rules.count, 1);
    for (const char *end = key; *end; end++) /* an escape may be cut off anywhere */
        policy_parse_json(key, (size_t) (end - key), &rules, NULL);
    assert_int_equal(rules.count, 1);
}

static void json_is_read_as_strictly(void **state)
{
    static const struct bad bad[] = {
        { TEXT("[{\"pattern\": \"/a\",\n\"pattern\": \"/b\"}]"), "line 2: rule 1: the key 'pattern' is given twice" },
        { TEXT("{\"version\": 1,\n\"version\": 1}"), "line 2: the key 'version' is given twice" },
        { TEXT("{\"version\": \"1\"}"), "line 1: version must be a number, not the string '1': leave the quotes out" },
        { TEXT("{\"version\": 1, \"rules\": null}"), "line 1: rules must be a list of rules, not a single value" },
        { TEXT("[{\"pattern\": \"/a\",\n\"permission\": null}]"),
          "line 2: rule 1: permission has no value: quote it if it is meant as text" },
        { TEXT("[{\"permission\": \"none\", \"pattern\": \"a\\u0000b\"}]"),
          "line 1: rule 1 'a\\x00b': the pattern contains a NUL byte" },
        { TEXT("[{\"pat\\u0000tern\": 1}]"),
          "line 1: rule 1: unknown key 'pat\\x00tern' (one of pattern, permission, type, priority)" },
        { TEXT("[\n\0]"), "line 2: not readable as UTF-8: control characters are not allowed (0x00)" },
        { TEXT("[]\n[]"), "line 2: did not find expected <document start>" },
        { TEXT("[{\"pattern\": \"/a\" \"permission\": \"read\"}]"),
          "line 1: rule 1: while parsing a flow mapping: did not find expected ',' or '}'" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
        struct err err = ERR_NONE;

        assert_true(policy_parse_json(bad[i].text, bad[i].len, &rules, &err) < 0);
        assert_string_equal(err.text, bad[i].message);
        assert_int_equal(rules.count, 0);
    }
}

static void add_rules(struct buf *text, size_t count)
{
    buf_add_str(text, HEAD);
    for (size_t i = 0; i < count; i++)
        buf_addf(text, "- pattern: /d%zu\n  permission: none\n", i);
}

static void ten_thousand_rules_are_taken_and_no_more(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    add_rules(&text, RULES_MAX);
    assert_taken(text.data, text.len, RULES_MAX, &rules);
    assert_rule(&rules.items[RULES_MAX - 1], "/d9999", RULE_UNSPECIFIED, LEVEL_NONE, 0);
    assert_refused(text.data, text.len, "10001 rules together, at most 10000 are taken");

    buf_clear(&text);
    add_rules(&text, RULES_MAX + 1);
    assert_refused(text.data, text.len, "line 20003: more than 10000 rules");
}

static void a_preset_counts_towards_the_limit(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    buf_add_str(&text, "extends: read-only\n");
    add_rules(&text, RULES_MAX);
    assert_refused(text.data, text.len, "10001 rules together, at most 10000 are taken");
}

static void long_values_are_bounded_and_shown_short(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    buf_add_str(&text, HEAD "- permission: none\n  pattern: ");
    size_t start = text.len;
    for (size_t i = 0; i < PATTERN_LEN_MAX; i++)
        buf_add_char(&text, 'a');
    assert_taken(text.data, text.len, 1, &rules);
    buf_add_char(&text, 'a');
    assert_true(policy_parse_yaml(text.data, text.len, &rules, &err) < 0);
    assert_non_null(strstr(err.text, "... (4097 bytes)': the pattern is longer than 4096 bytes"));
    assert_memory_equal(err.text, "line 4: rule 1 'aaa", 19);

    memcpy(text.data + start - 9, "pattrn : ", 9);
    assert_refused(text.data, text.len, "line 4: rule 1: unknown key 'pattrn' (one of pattern, permission, type, priority)");
    buf_clear(&text);
    for (size_t i = 0; i < 500000; i++)
        buf_add_str(&text, "\xC3\xA9");
    buf_add_str(&text, "\n");
    assert_true(policy_parse_yaml(text.data, text.len, &rules, &err) < 0);
    assert_int_equal(rules.count, 1);
}

static void values_are_shown_escaped_and_cut_between_characters(void **state)
{
    (void) state;
    assert_refused(TEXT(TWO "\"\\e[31mred\\n\\u202E\"\n"),
                   "line 6: rule 2: unknown permission '\\x1b[31mred\\n\\u202e' (one of none, view, read, write)");
    assert_refused(
        TEXT(TWO "x\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"
                 "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"
                 "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\n"),
        "line 6: rule 2: unknown permission 'x\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"
        "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"
        "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9... (73 bytes)' (one of none, view, "
        "read, write)");
}

static void repeat(struct buf *text, const char *piece, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buf_add_str(text, piece);
}

static void deep_nesting_ends_at_the_first_needless_level(void **state)
{
    static const char *const pieces[] = { "[", "{", "- ", "{a: ", "? ", "[[{" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
        autodone(buf) struct buf text = BUF_EMPTY;
        struct err err = ERR_NONE;

        repeat(&text, pieces[i], 200000);
        assert_int_equal(policy_parse_yaml(text.data, text.len, &rules, &err), -EINVAL);
        assert_true(err.text[0] != '\0');
        buf_clear(&text);
        buf_add_str(&text, HEAD "- pattern: ");
        repeat(&text, pieces[i], 200000);
        assert_int_equal(policy_parse_yaml(text.data, text.len, &rules, &err), -EINVAL);
        assert_int_equal(rules.count, 0);
    }
}

static void text_above_the_limit_is_not_looked_at(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(policy_parse_yaml("", POLICY_TEXT_MAX + 1, &rules, &err), -EFBIG);
    assert_string_equal(err.text, "the text is larger than 16 MiB");
    assert_int_equal(policy_parse_yaml(NULL, 0, &rules, &err), -EINVAL);
}

static char *dup_scratch_path(const char *name)
{
    static char dir[] = "/tmp/agentfense-policy-XXXXXX";
    static bool made;

    if (!made) {
        assert_non_null(mkdtemp(dir));
        leftover_add(dir);
    }
    made = true;
    return xprintf("%s/%s", dir, name);
}

static void write_file(const char *path, const char *text, size_t len)
{
    autofd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_full(fd, text, len), 0);
}

static void assert_load_fails(const char *path, int expected, const char *reason)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autofree char *message = xprintf("policy file '%s': %s", path, reason);
    struct err err = ERR_NONE;

    assert_int_equal(policy_file_load(path, &rules, &err), expected);
    assert_string_equal(err.text, message);
    assert_int_equal(rules.count, 0);
}

static void a_file_is_read_by_what_its_name_ends_in(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autofree char *yaml = dup_scratch_path("p.yaml"), *json = dup_scratch_path("p.json"), *link = dup_scratch_path("link");
    static const char bad[] = "version: 1\nrules:\n- pattern: /a\n  permission: raed\n";

    (void) state;
    write_file(yaml, TEXT(RULE));
    write_file(json, TEXT("[{\"pattern\": \"/j\", \"permission\": \"none\"}]"));
    assert_int_equal(symlink(yaml, link), 0);
    assert_int_equal(policy_file_load(yaml, &rules, NULL), 0);
    assert_int_equal(policy_file_load(json, &rules, NULL), 0);
    assert_int_equal(policy_file_load(link, &rules, NULL), 0);
    assert_int_equal(rules.count, 3);
    assert_rule(&rules.items[1], "/j", RULE_UNSPECIFIED, LEVEL_NONE, 0);
    write_file(yaml, TEXT(bad));
    assert_load_fails(yaml, -EINVAL, "line 4: rule 1: unknown permission 'raed' (one of none, view, read, write)");
    write_file(json, TEXT(bad));
    assert_load_fails(json, -EINVAL, "line 4: rule 1: unknown permission 'raed' (one of none, view, read, write)");
    unlink(yaml);
    unlink(json);
    unlink(link);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    autofree char *dir = dup_scratch_path(""), *missing = dup_scratch_path("none.yaml"), *fifo = dup_scratch_path("fifo");
    autofree char *large = dup_scratch_path("large.json");
    autofree char *spaces = xalloc(POLICY_TEXT_MAX + 1);

    (void) state;
    assert_load_fails(missing, -ENOENT, "it cannot be opened: No such file or directory");
    assert_load_fails(dir, -EISDIR, "it is a directory");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_load_fails(fifo, -EINVAL, "not a regular file ('-' reads standard input)");
    write_file(large, spaces, POLICY_TEXT_MAX + 1);
    assert_load_fails(large, -EFBIG, "the text is larger than 16 MiB");
    unlink(fifo);
    unlink(large);
}

static void a_dash_is_standard_input(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    int ends[2], saved = dup(STDIN_FILENO);
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fd_write_full(ends[1], TEXT(RULE)), 0);
    close(ends[1]);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    close(ends[0]);
    assert_int_equal(policy_file_load("-", &rules, &err), 0);
    assert_int_equal(rules.count, 1);
    assert_int_equal(policy_file_load("-", &rules, &err), -EINVAL); /* drained by now */
    assert_string_equal(err.text, "policy from standard input: it is empty: it needs 'version: 1' and 'rules' or 'extends'");
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static int remove_scratch(void **state)
{
    autofree char *dir = dup_scratch_path("");

    (void) state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_a_rule_is_kept),
        cmocka_unit_test(a_preset_comes_before_the_rules_wherever_it_is_named),
        cmocka_unit_test(good_forms_are_taken),
        cmocka_unit_test(what_is_no_policy_is_refused),
        cmocka_unit_test(a_bad_rule_is_named_by_its_number_and_line),
        cmocka_unit_test(a_bad_pattern_is_refused_with_its_line),
        cmocka_unit_test(a_priority_is_a_whole_number_within_32_bits),
        cmocka_unit_test(anchors_aliases_and_tags_are_refused),
        cmocka_unit_test(text_that_is_no_yaml_is_refused_with_its_line),
        cmocka_unit_test(json_is_read_as_well),
        cmocka_unit_test(json_spells_characters_as_surrogates),
        cmocka_unit_test(json_is_read_as_strictly),
        cmocka_unit_test(ten_thousand_rules_are_taken_and_no_more),
        cmocka_unit_test(a_preset_counts_towards_the_limit),
        cmocka_unit_test(long_values_are_bounded_and_shown_short),
        cmocka_unit_test(values_are_shown_escaped_and_cut_between_characters),
        cmocka_unit_test(deep_nesting_ends_at_the_first_needless_level),
        cmocka_unit_test(text_above_the_limit_is_not_looked_at),
        cmocka_unit_test(a_file_is_read_by_what_its_name_ends_in),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
        cmocka_unit_test(a_dash_is_standard_input),
    };

    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
