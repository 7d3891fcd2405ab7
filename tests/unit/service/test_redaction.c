#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "service/redaction.h"

#define X REDACTION_MARK

static struct redaction *make(const char *names, const char *patterns)
{
    struct redaction *redaction = NULL;
    struct err err = ERR_NONE;
    char path[] = "/tmp/af-redaction-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, patterns, strlen(patterns)), (ssize_t) strlen(patterns));
    close(fd);
    assert_int_equal(redaction_new(names, path, &redaction, &err), 0);
    unlink(path);
    return redaction;
}

static void values_of_secrets_are_replaced(void **state)
{
    static const struct {
        const char *text, *kept;
    } cases[] = {
        { "login --token abc", "login --token " X },
        { "login --token=abc --user x", "login --token=" X " --user x" },
        { "login -password abc", "login -password " X },
        { "login --db-password 'a b' next", "login --db-password " X " next" },
        { "login --password a\\ b next", "login --password " X " next" },
        { "login --password=a\"b c\"d'e f' next", "login --password=" X " next" },
        { "PASSWORD=abc make", "PASSWORD=" X " make" },
        { "PGPASSWORD=abc psql; echo x", "PGPASSWORD=" X " psql; echo x" },
        { "export AWS_SECRET_ACCESS_KEY=\"a/b+c\" && run", "export AWS_SECRET_ACCESS_KEY=" X " && run" },
        { "sh -c 'curl --api-key abc' && echo 'hi'", "sh -c 'curl --api-key " X "' && echo 'hi'" },
        { "java -Dspring.datasource.password=abc -jar x", "java -Dspring.datasource.password=" X " -jar x" },
        { "curl -H 'Authorization: Bearer abc' https://x", "curl -H 'Authorization: " X "' https://x" },
        { "curl -H Authorization: Bearer abc https://x", "curl -H Authorization: " X " https://x" },
        { "curl -H authorization:abc https://x", "curl -H authorization:" X " https://x" },
        { "curl -H \"X-Api-Key:abc\" x", "curl -H \"X-Api-Key:" X "\" x" },
        { "curl -H 'Cookie: a=b; c=d' x", "curl -H 'Cookie: " X "' x" },
        { "curl -d '{\"user\": \"u\", \"password\": \"a b\", \"n\": 1}' x",
          "curl -d '{\"user\": \"u\", \"password\": " X ", \"n\": 1}' x" },
        { "curl -d \"{\\\"token\\\":\\\"a b\\\",\\\"n\\\":1}\" x", "curl -d \"{\\\"token\\\":" X ",\\\"n\\\":1}\" x" },
        { "curl 'https://x/?token=abc&n=1'", "curl 'https://x/?token=" X "&n=1'" },
        { "git clone https://me:abc@host/x.git", "git clone https://me:" X "@host/x.git" },
        { "git clone https://aaaaaaaaaabbbbbbbbbbcc@host/x.git", "git clone https://" X "@host/x.git" },
        { "echo ghp_abcdefghij0123456789 > f", "echo " X " > f" },
        { "echo eyJhbGciOi.eyJzdWIiOi.abc-_def done", "echo " X " done" },
        { "cat <<E\npassword: abc\nE", "cat <<E\npassword: " X "\nE" },
        { "login --token \"abc", "login --token " X },
    };
    autoptr(redaction) redaction = make("", "");

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *kept = redaction_text(redaction, cases[i].text);

        assert_string_equal(kept ? kept : cases[i].text, cases[i].kept);
        autofree char *again = redaction_text(redaction, cases[i].kept);
        assert_string_equal(again ? again : cases[i].kept, cases[i].kept);
    }
}

static void other_words_stay(void **state)
{
    static const char *const texts[] = {
        "",
        "make test",
        "run --max-tokens 100 --tokenizer x --token-file f --password-stdin --no-password x",
        "cd $PWD && PWD=/x pwd",
        "docker run -u 1000:1000 registry/secret:latest",
        "pytest -k 'test_token or secret'",
        "grep -rn password src",
        "git log --author me@host",
        "curl https://host:8080/x@y",
        "ssh user@host",
        "pip install sk-some-package-name",
        "echo monkey=1 authors=2 bypass 3",
        "--token",
        "--token --other x",
        "TOKEN=",
        "x --secret",
    };
    autoptr(redaction) redaction = make("", "");

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        autofree char *kept = redaction_text(redaction, texts[i]);

        if (kept)
            fail_msg("'%s' became '%s'", texts[i], kept);
    }
    assert_null(redaction_text(NULL, "login --token abc"));
}

static void names_and_patterns_are_added(void **state)
{
    autoptr(redaction) redaction = make("--db-pw, X-Internal", "# a comment\n\nticket ([0-9]+)\nsesame\n");
    autofree char *first = redaction_text(redaction, "x --db_pw 1 DB_PW=2 'X-Internal: 3' ticket 44 sesame ticket 55"),
                  *second = NULL;

    (void) state;
    assert_string_equal(first, "x --db_pw " X " DB_PW=" X " 'X-Internal: " X "' ticket " X " " X " ticket " X);
    second = redaction_text(redaction, "x --db-pwd 1 ticket x");
    assert_null(second);
}

static void a_file_that_cannot_be_used_is_refused(void **state)
{
    struct redaction *redaction = NULL;
    struct err err = ERR_NONE;
    char path[] = "/tmp/af-redaction-XXXXXX";
    int fd = mkstemp(path);

    (void) state;
    assert_int_equal(write(fd, "a\n(b\n", 5), 5);
    close(fd);
    assert_int_equal(redaction_new("", path, &redaction, &err), -EINVAL);
    assert_non_null(strstr(err.text, "line 2"));
    unlink(path);
    err = ERR_NONE;
    assert_int_equal(redaction_new("", path, &redaction, &err), -ENOENT);
    assert_null(redaction);
}

static void every_text_in_json_is_looked_at(void **state)
{
    autoptr(redaction) redaction = make("", "");
    json_t *value =
        json_pack("{s:s, s:i, s:[s, {s:s}]}", "command", "x --token a", "n", 1, "list", "TOKEN=b", "deep", "PASSWORD=c");
    char *text;

    (void) state;
    redaction_json(redaction, value);
    text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text,
                        "{\"command\":\"x --token " X "\",\"list\":[\"TOKEN=" X "\",{\"deep\":\"PASSWORD=" X "\"}],\"n\":1}");
    free(text);
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_secrets_are_replaced),  cmocka_unit_test(other_words_stay),
        cmocka_unit_test(names_and_patterns_are_added),    cmocka_unit_test(a_file_that_cannot_be_used_is_refused),
        cmocka_unit_test(every_text_in_json_is_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
