#include "policy_text.h"

#define RULE "{\"pattern\": \"/a\", \"permission\": \"read\"}"
#define TWO "[" RULE ",\n{\"pattern\": \"/b\", "
#define SECOND "line 2: rule 2: "
#define RANGE "priority must be a whole number from -2147483648 to 2147483647, not "
#define LEVELS "(one of none, view, read, write)"
#define KEYS "(one of pattern, permission, type, priority)"

static int parse(const char *text, size_t len, struct rule_list *rules, struct err *err)
{
    return policy_parse_json(text, len, rules, err);
}

static void every_key_of_a_rule_is_kept(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;

    (void) state;
    assert_taken(
        TEXT("[{\"pattern\": \"/logs/\", \"permission\": \"write\", \"type\": \"directory\", \"priority\": -2147483648},"
             "{\"priority\": 2147483647, \"permission\": \"none\", \"type\": \"glob\", \"pattern\": \"**/*.key\"},"
             "{\"pattern\": \"/a\\u0020\\u00e9\", \"permission\": \"view\", \"type\": \"file\"},\n" RULE "]\n"),
        4, &rules);
    assert_rule(&rules.items[0], "/logs/", RULE_DIRECTORY, LEVEL_WRITE, INT32_MIN);
    assert_rule(&rules.items[1], "**/*.key", RULE_GLOB, LEVEL_NONE, INT32_MAX);
    assert_rule(&rules.items[2], "/a \xC3\xA9", RULE_FILE, LEVEL_VIEW, 0);
    assert_rule(&rules.items[3], "/a", RULE_UNSPECIFIED, LEVEL_READ, 0);
    assert_null(rules.items[3].preset);
}

static void a_preset_comes_before_the_rules_wherever_it_is_named(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;

    (void) state;
    add_one(&rules);
    assert_taken(TEXT("{\"rules\": [" RULE "], \"version\": 1, \"extends\": \"read-only\"}"), 3, &rules);
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
        { TEXT("[]"), 0 },
        { TEXT(" \t\r\n[ ]\r\n"), 0 },
        { TEXT("[" RULE "," RULE "]"), 2 },
        { TEXT("{\"version\": 1, \"rules\": []}"), 0 },
        { TEXT("{\"version\": 1, \"extends\": \"view-only\"}"), 1 },
        { TEXT("\xEF\xBB\xBF[" RULE "]"), 1 },
        { TEXT("[\r\n\t" RULE "\r\n]\r\n"), 1 },
        { TEXT("[{\"pattern\": \"/\\\"[\\\\{]\", \"permission\": \"none\"}]"), 1 },
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
    static const char empty[] = "it is empty: it needs a list of rules, or an object with the keys version, extends, rules";
    static const struct bad bad[] = {
        { TEXT(""), empty },
        { TEXT(" \n"), empty },
        { TEXT("\xEF\xBB\xBF"), empty },
        { TEXT("null"), "expected a list of rules or an object with the keys version, extends, rules, not null" },
        { TEXT("\"/a=read\""), "expected a list of rules or an object with the keys version, extends, rules, not '/a=read'" },
        { TEXT("{}"), "the key 'version' is missing, it must be 1" },
        { TEXT("{\"rules\": []}"), "the key 'version' is missing, it must be 1" },
        { TEXT("{\"version\": 1}"), "neither 'rules' nor 'extends' is given" },
        { TEXT("{\"version\": 2}"), "line 1: version must be 1, not 2" },
        { TEXT("{\"version\": 1.0}"), "line 1: version must be 1, not 1.0" },
        { TEXT("{\"version\": true}"), "line 1: version must be 1, not true" },
        { TEXT("{\"version\": [1]}"), "line 1: version must be 1, not a list" },
        { TEXT("{\"version\": \"1\"}"), "line 1: version must be a number, not the string '1': leave the quotes out" },
        { TEXT("{\"version\": 1, \"rules\": null}"), "line 1: rules must be a list of rules, not null" },
        { TEXT("{\"version\": 1,\n\n\"rules\": " RULE "}"), "line 3: rules must be a list of rules, not an object" },
        { TEXT("{\"version\": 1,\n \"extends\": 7}"), "line 2: extends must be a string, not 7" },
        { TEXT("{\"version\": 1,\n \"extends\": null}"), "line 2: extends must be a string, not null" },
        { TEXT("{\"extends\": \"agent-save\"}"), "line 1: unknown preset 'agent-save' (one of agent-safe, development, "
                                                 "full-access, read-only, view-only)" },
        { TEXT("{\"extends\": \"read-only\\u0000\"}"), "line 1: the name of the preset contains a NUL byte" },
        { TEXT("{\"version\": 1, \"rules\": [" RULE "],\n \"ruels\": []}"),
          "line 2: unknown key 'ruels' (one of version, extends, rules)" },
    };

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
}

static void a_bad_rule_is_named_by_its_number_and_line(void **state)
{
    static const char shape[] = "a rule must be an object with the keys pattern, permission, type, priority, not ";
    static const struct bad bad[] = {
        { TEXT(TWO "\"permission\": \"raed\"}]"), SECOND "unknown permission 'raed' " LEVELS },
        { TEXT(TWO "\"permission\": \"READ\"}]"), SECOND "unknown permission 'READ' " LEVELS },
        { TEXT(TWO "\"permission\": \"\"}]"), SECOND "unknown permission '' " LEVELS },
        { TEXT(TWO "\"permission\": \"read\\u0000\"}]"), SECOND "unknown permission 'read\\x00' " LEVELS },
        { TEXT(TWO "\"permission\": 3}]"), SECOND "permission must be a string, not 3" },
        { TEXT(TWO "\"permission\": null}]"), SECOND "permission must be a string, not null" },
        { TEXT(TWO "\"type\": \"regex\"}]"), SECOND "unknown type 'regex' (one of glob, directory, file)" },
        { TEXT(TWO "\"type\": [\"glob\"]}]"), SECOND "type must be a string, not a list" },
        { TEXT(TWO "\"prioritty\": 1}]"), SECOND "unknown key 'prioritty' " KEYS },
        { TEXT(TWO "\"preset\": null}]"), SECOND "unknown key 'preset' " KEYS },
        { TEXT(TWO "\"\\u202E\": null}]"), SECOND "unknown key '\\u202e' " KEYS },
        { TEXT(TWO "\"type\": \"file\"}]"), SECOND "the key 'permission' is missing" },
        { TEXT("[" RULE ",\n{\"permission\": \"read\"}]"), SECOND "the key 'pattern' is missing" },
        { TEXT("[" RULE ",\n{\"pattern\": {}}]"), SECOND "pattern must be a string, not an object" },
        { TEXT("{\"version\": 1, \"extends\": \"agent-safe\", \"rules\": [\n\n" RULE ",\n{\"pattern\": \"/../b\",\n"
               "\"permission\": \"none\"}]}"),
          "line 4: rule 2 '/../b': '..' is not allowed in a pattern" },
    };
    char text[256];

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
    snprintf(text, sizeof(text), SECOND "%s'/a=read'", shape);
    assert_refused(TEXT("[" RULE ",\n\"/a=read\"]"), text);
    snprintf(text, sizeof(text), SECOND "%sa list", shape);
    assert_refused(TEXT("[" RULE ",\n[" RULE "]]"), text);
}

static void a_bad_pattern_is_refused_with_its_line(void **state)
{
    static const struct bad bad[] = {
        { TEXT("[{\"pattern\": \"\", \"permission\": \"none\"}]"), "line 1: rule 1 '': the pattern is empty" },
        { TEXT("[{\"pattern\": \"a\\u0000b\", \"permission\": \"none\"}]"),
          "line 1: rule 1 'a\\x00b': the pattern contains a NUL byte" },
        { TEXT("[{\"pattern\": \"/x/..\", \"permission\": \"none\"}]"),
          "line 1: rule 1 '/x/..': '..' is not allowed in a pattern" },
        { TEXT("[{\"pattern\": \"x[a\", \"permission\": \"none\"}]"), "line 1: rule 1 'x[a': unclosed character class '['" },
    };

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
}

static void a_priority_is_a_whole_number_within_32_bits(void **state)
{
    static const char *const bad[] = { "2147483648", "-2147483649", "9223372036854775807", "1.0", "1.5", "true", "null" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char text[256], message[256];
        snprintf(text, sizeof(text), TWO "\"permission\": \"none\", \"priority\": %s}]", bad[i]);
        snprintf(message, sizeof(message), SECOND RANGE "%s", bad[i]);
        assert_refused(text, strlen(text), message);
    }
    assert_refused(TEXT(TWO "\"priority\": \"7\"}]"),
                   SECOND "priority must be a number, not the string '7': leave the quotes out");
    assert_refused(TEXT(TWO "\"priority\": [7]}]"), SECOND RANGE "a list");
    assert_refused(TEXT(TWO "\"priority\": 99999999999999999999}]"), "line 2: too big integer near '99999999999999999999'");
    assert_refused(TEXT(TWO "\"priority\": 007}]"), "line 2: invalid token near '0'");
}

static void text_that_is_no_json_is_refused_with_its_line(void **state)
{
    static const struct bad bad[] = {
        { TEXT("[" RULE ",\n"), "line 2: ']' expected near end of file" },
        { TEXT("[" RULE ",\n]"), "line 2: unexpected token near ']'" },
        { TEXT("[\n" RULE "]\n[]"), "line 3: end of file expected near '['" },
        { TEXT("[] true"), "line 1: end of file expected near 'true'" },
        { TEXT("# comment\n[]"), "line 1: invalid token near '#'" },
        { TEXT("[NaN]"), "line 1: invalid token near 'NaN'" },
        { TEXT("{'version': 1}"), "line 1: string or '}' expected near '''" },
        { TEXT("[\n\"\xFF\"]"), "line 2: unable to decode byte 0xff near '\"'" },
        { TEXT("\xFF\xFE[\0]\0"), "line 1: the text contains a NUL byte" },
        { TEXT("[\n\0]"), "line 2: the text contains a NUL byte" },
        { TEXT("[\"a\tb\"]"), "line 1: control character 0x9 near '\"a'" },
        { TEXT("[{\"pattern\": \"/a\",\n\"pattern\": \"/b\"}]"), "line 2: duplicate object key near '\"pattern\"'" },
        { TEXT("{\"version\": 1, \"version\": 1}"), "line 1: duplicate object key near '\"version\"'" },
        { TEXT("[{\"pat\\u0000tern\": 1}]"), "line 1: NUL byte in object key not supported near '\"pat\\\\u0000tern\"'" },
    };

    (void) state;
    assert_all_refused(bad, ARRAY_LEN(bad));
}

static void add_rules(struct buf *text, size_t count)
{
    buf_add_char(text, '[');
    for (size_t i = 0; i < count; i++)
        buf_addf(text, "%s{\"pattern\": \"/d%zu\", \"permission\": \"none\", \"type\": \"file\", \"priority\": 1}",
                 i ? ",\n" : "", i);
    buf_add_char(text, ']');
}

static void ten_thousand_rules_are_taken_and_no_more(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;

    (void) state;
    add_rules(&text, RULES_MAX);
    assert_taken(text.data, text.len, RULES_MAX, &rules);
    assert_rule(&rules.items[RULES_MAX - 1], "/d9999", RULE_FILE, LEVEL_NONE, 1);
    assert_refused(text.data, text.len, "10001 rules together, at most 10000 are taken");

    buf_clear(&text);
    add_rules(&text, RULES_MAX + 1);
    assert_refused(text.data, text.len, "line 10001: more than 10000 rules");
}

static void repeat(struct buf *text, const char *piece, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buf_add_str(text, piece);
}

static void what_would_only_fill_memory_is_refused_before_it_is_built(void **state)
{
    static const char *const deep[] = { "[", "{\"a\":", "[{\"a\":", "{" };
    static const char *const wide[] = { "{},", "[],", "0,", "\"\",", "[0]," };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(deep); i++) {
        autodone(buf) struct buf text = BUF_EMPTY;
        repeat(&text, deep[i], 100000);
        assert_refused(text.data, text.len, "line 1: nested more than 16 deep");
    }
    for (size_t i = 0; i < ARRAY_LEN(wide); i++) {
        autodone(buf) struct buf text = BUF_EMPTY;
        buf_add_char(&text, '[');
        repeat(&text, wide[i], 1000000);
        assert_refused(text.data, text.len, "line 1: more values than 10000 rules can have");
    }
}

static void long_values_are_bounded_and_shown_short(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    buf_add_str(&text, "[{\"permission\": \"none\", \"pattern\": \"");
    repeat(&text, "a", PATTERN_LEN_MAX);
    buf_add_str(&text, "\"}]");
    assert_taken(text.data, text.len, 1, &rules);
    memcpy(text.data + text.len - 3, "a\"}", 3);
    buf_add_char(&text, ']');
    assert_true(policy_parse_json(text.data, text.len, &rules, &err) < 0);
    assert_non_null(strstr(err.text, "... (4097 bytes)': the pattern is longer than 4096 bytes"));

    buf_clear(&text);
    buf_add_str(&text, "[{\"permission\": \"");
    repeat(&text, "abcdefgh", 1000000);
    buf_add_str(&text, "\"}]");
    assert_refused(text.data, text.len,
                   "line 1: rule 1: unknown permission 'abcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefgh... "
                   "(8000000 bytes)' " LEVELS);
    assert_int_equal(rules.count, 1);
}

static void text_above_the_limit_is_not_looked_at(void **state)
{
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    struct err err = ERR_NONE;

    (void) state;
    assert_int_equal(policy_parse_json("", POLICY_TEXT_MAX + 1, &rules, &err), -EFBIG);
    assert_string_equal(err.text, "the text is larger than 16 MiB");
    assert_int_equal(policy_parse_json(NULL, 0, &rules, &err), -EINVAL);
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
        cmocka_unit_test(text_that_is_no_json_is_refused_with_its_line),
        cmocka_unit_test(ten_thousand_rules_are_taken_and_no_more),
        cmocka_unit_test(what_would_only_fill_memory_is_refused_before_it_is_built),
        cmocka_unit_test(long_values_are_bounded_and_shown_short),
        cmocka_unit_test(text_above_the_limit_is_not_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
