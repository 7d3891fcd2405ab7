/*
 * What rules mean, by examples: those of the product's documents first, then each sentence of the rules' definition. Each path
 * is checked with the compiled ruleset and with explain_path(), which does not share its automaton.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/explain.h"

#include "rules_from_text.h"

static const struct example {
    const char *rules;
    const char *levels; /* "PATH LEVEL; PATH LEVEL" */
} examples[] = {
    /* The priority algorithm of the concepts, security and architecture pages. */
    { "**/*=read; /secrets/**=none; /secrets/public.key=read",
      "/secrets/private.key none; /secrets/public.key read; /app/main.py read; /secrets none; /secrets/deep/x none" },
    { "**/*=read; /secrets/**=none; file:/secrets/public.key=read", "/secrets/private.key none; /secrets/public.key read" },
    /* Building permission rules, in full. */
    { "**/*=read; /output/**=write@10; **/.env*=none@100; /secrets/**=none@100; **/*.key=none@100; "
      "/secrets/public.key=read@200",
      "/README.md read; /output/log.txt write; /output write; /.env none; /a/.env.local none; /secrets/private.key none; "
      "/secrets/public.key read; /id.key none; /output/x.key none" },
    /* The kinds table: glob, directory by its slash, file. */
    { "**/*.py=read", "/a.py read; /src/deep/b.py read; /a.pyc none; /src none" },
    { "*.env*=none; **/*=read", "/.env none; /.env.local none; /.env.production none; /prod.env none; /conf/.env none" },
    { "/docs/=read", "/docs read; /docs/a read; /docs/sub/b read; /docsx none" },
    { "/config.yaml=read", "/config.yaml read; /config.yml none; /sub/config.yaml none" },
    /* Four levels of the security page. */
    { "**/.env*=none; /secrets/**=none; **/*=read", "/.env none; /secrets/x none; /x/secrets/y read" },
    { "/metadata/**=view", "/metadata view; /metadata/a.json view; /other none" },
    { "**/*.py=read; /docs/**=read", "/x.py read; /docs/guide.md read; /x.md none" },
    { "**/*=read; /output/**=write; /tmp/**=write", "/x read; /output/a write; /tmp write; /tmpx read" },
    { "/configs/**=view", "/configs/api.yaml view" },
    /* Default deny. */
    { "**/*=none; /src/**=read; /output/**=write", "/x none; /src/a.c read; /src read; /output/r write; /output write" },
    /* Hide git history; mind the typo. */
    { "**/*=read; **/.git/**=none", "/.git none; /.git/config none; /sub/.git/HEAD none; /.gitignore read" },
    { "**/*=read; /secret/**=none", "/secrets/x read" },
    /* The ci-pipeline preset: no priorities at all. */
    { "**/*=read; /build/**=write; /dist/**=write; **/node_modules/**=none; **/.env*=none",
      "/build/x write; /dist write; /node_modules none; /a/node_modules/b/c.js none; /.env none; /x/.env.local none; "
      "/build/.env none; /app.js read" },
    { "**/.env*=none; **/*=read", "/.env none; /x read" },
    /* The first plan. */
    { "/docs/**=write; **/*.py=read", "/docs/a.md write; /docs/conf.py write; /src/a.py read; /src/a.md none" },

    /* Where the old engine was surprising. */
    { "**/*=read; **/secrets/**=none",
      "/secrets none; /secrets/a none; /x/secrets none; /x/secrets/a/b none; /x/y/secrets/a none; /secretsx read" },
    { "/a/**=read; /a/foo/**=none; **/foo/bar=view", "/foo/bar view; /x/foo/bar view; /x/y/foo/bar view; /a/foo/bar none" },
    { "**/*=view; **/*=read", "/x read" },
    { "**/*=read; **/*=view", "/x view" },
    { "/logs/**=read; /logs/*.log=write", "/logs/a.log write; /logs/a.txt read; /logs/sub/a.log read; /logs read" },
    { "/logs/*.log=write; /logs/**=read", "/logs/a.log write" },
    { "directory:/docs=read; /docs/readme.md=write", "/docs/readme.md write; /docs/other read" },
    { "/docs/readme.md=read", "/docs/readme.md read; /docs none; /docs/other none" },
    { "{a}/**=read", "/{a}/x read; /a/x none" },
    { "preset:view-only; **/*=read", "/any read" },
    { "a**=read", "/a read; /ab read; /ab/c none" },
    { "/f?.txt=read", "/f1.txt read; /f12.txt none; /f\xc3\xa9.txt read; /f.txt none" },
    { "directory:/=read", "/ read; /a/b read" },
    { "dir/**=read", "/dir read; /dir/a read; /x/dir/a none" },
    { "/src/**/*.py=read", "/src none; /src/a.py read; /src/x/y/a.py read; /src/a.txt none" },
    { "/src/**/test=read", "/src/test read; /src/a/b/test read; /src/test/x none" },
    { "/src/**/test/*.py=read", "/src/test/a.py read; /src/a/b/test/c.py read; /src/test/x/a.py none" },
    { "/a/**/b/**/c=read", "/a/b/c read; /a/x/b/y/z/c read; /a/c none; /b/c none" },

    /* Inference: a path without wildcards is a file for itself and covers what lies beneath as a glob. */
    { "/x=read", "/x read; /x/a read; /x/a/b read; /xy none" },
    { "/x=read; /x/a/**=view", "/x/a/b view; /x read; /x/c read" },
    { "directory:/x=view; /x=read", "/x read; /x/a view" },
    { "glob:/docs/=read", "/docs read; /docs/a read" },
    { "glob:/docs=read", "/docs read; /docs/a read" },
    { "file:/docs=read", "/docs read; /docs/a none" },
    { "file:/a*=read", "/a* read; /ab none" },
    { "directory:/a*=read", "/a*/x read; /ab/x none" },
    { "/a\\*=read", "/a* read; /ab none; /a*/beneath read" },
    { "/[id]/page=read", "/i/page read; /d/page read; /[id]/page none" },
    { "file:/[id]/page=read", "/[id]/page read; /i/page none" },

    /* Wildcards: one component, leading dots included; classes; escapes. */
    { "/*=read", "/a read; /.hidden read; /a/b none" },
    { "/a/*/c=read", "/a/b/c read; /a/.b/c read; /a/c none; /a/b/b/c none" },
    { "/[a-c]x=read", "/ax read; /cx read; /dx none; /-x none" },
    { "/[!a-c]x=read", "/dx read; /ax none" },
    { "/[^a]x=read", "/bx read; /ax none" },
    { "/[]x]=read", "/] read; /x read; /[]x] none" },
    { "/[a\\-z]=read", "/a read; /- read; /b none" },
    { "/[[:digit:]]*=read", "/1x read; /x1 none" },
    { "/**=read", "/ read; /a/b/c read" },
    { "**=read", "/ read; /a/b/c read" },
    { "**/*=read", "/ none; /a read; /a/b/c read" },
    { "/x/**=read", "/x read; /x/.y/z read" },
    { "/x/**/=read", "/x read; /x/y read" },
    { "/**/x=read", "/x read; /a/b/x read" },
    { "/x/**/**/y=read", "/x/y read; /x/a/b/y read" },

    /* Cleaning and anchoring. */
    { "//a///b=read", "/a/b read" },
    { "./a/./b=read", "/a/b read" },
    { "a/b=read", "/a/b read; /x/a/b none" },
    { "/A=read", "/A read; /a none" },
    { "\\ =read", "/  read; / none" },

    /* A bare name floats when it hides, is anchored when it grants. */
    { "**/*=read; .env=none", "/.env none; /a/b/.env none; /.env/x none; /a/.envx read" },
    { "**/*=read; node_modules/=none", "/node_modules none; /a/node_modules/b/c none; /node_modules_x read" },
    { "**/*=read; *.key=none", "/x.key none; /a/b/x.key none" },
    { "**/*=read; *=none", "/x none; /x/y none" },
    { "README.md=read", "/README.md read; /sub/README.md none" },
    { "*.md=read", "/a.md read; /sub/a.md none" },
    { "src/=read", "/src read; /src/a read; /x/src none" },
    { "**/*=read; file:id_rsa=none", "/id_rsa none; /home/.ssh/id_rsa none" },

    /* Which rule wins: priority, then kind. */
    { "/a/b=none; /a/**=read@1", "/a/b read; /a/c read" },
    { "/a/b=read; /a/**=none@1", "/a/b none" },
    { "/x/**=read@-5; **/*=view", "/x/a view" },
    { "**/*=view@-1; /x/**=read@-5", "/x/a view; /y view" },
    { "/a/=read; /a/*=view", "/a/x read" },
    { "/a/=read; file:/a/x=view", "/a/x view; /a/y read" },
    { "/a/=none; /a/*=write; **/*=read", "/a none; /a/x none; /b read" },

    /* Grants among themselves. */
    { "/a/b*=view; /a/*=read", "/a/bc view; /a/c read" },
    { "/a*=view; **/ab=read", "/ab view" },
    { "/*/x=view; /a/*=read", "/a/x read" },
    { "**/a/*=view; **/*=read", "/a/x view" },
    { "/?b=view; /a?=read", "/ab read" },
    { "/a?=read; /?b=view", "/ab read" },
    { "/?b=read; /[a]b=view", "/ab view" },
    { "/a/*/c=view; /a/**/c=read", "/a/b/c view" },
    { "/a/**/c=view; /a/**/b/**/c=read", "/a/b/c read" },

    /* A none hides unless the winning grant lies within it. */
    { "/a/**=none; /a/b/**=read", "/a none; /a/b read; /a/b/c read; /a/c none" },
    { "/a/b/**=read; /a/**=none", "/a/b/c read" },
    { "**/*.pem=none; /certs/**=read", "/certs/x.pem none; /certs/x.crt read" },
    { "**/*.pem=none; /certs/*.pem=read", "/certs/x.pem read; /x.pem none" },
    { "**/*=read; **/x*=none; **/*y=view", "/xy none; /x none; /y view" },
    { "/a*=none; /*b=read; **/*=view", "/ab none; /b read; /c view" },
    { "/[a-m]*=none; /[a-c]*=read", "/b1 read; /k1 none" },
    { "/[a-c]*=none; /[a-m]*=read", "/b1 none; /k1 read" },
    { "/?"
      "?=none; /a?=read",
      "/ab read; /bb none" },
    { "/a/*/c=none; /a/**=read", "/a/b/c none; /a/b read" },
    { "/a/**=none; /a/**=read", "/a/x read" },
    { "/a/**=read; /a/**=none", "/a/x none" },
    { "**/*=none; **/*.md=read", "/a.md read; /x/a.md read; /a.txt none" },
    { "/a/**=none; /a/b=none; /a/b/c=read", "/a/b/c read; /a/b none; /a/b/d none" },

    /* Hidden directories hide what lies in them. */
    { "/secrets=none; **/*=read", "/secrets none; /secrets/x none; /other read" },
    { "/secrets=none; /secrets/public.key=read", "/secrets none; /secrets/public.key read; /secrets/x none" },
    { "/a=none; /a/b/**=read", "/a/b/c none" },
    { "/a/=none; /a/b/=read", "/a none; /a/b read; /a/b/c read; /a/c none" },
    { "**/.ssh=none; **/*=read", "/.ssh none; /.ssh/config none; /x/.ssh/y/z none" },
    { "**/.ssh=none; /x/.ssh/*.pub=read; **/*=read", "/x/.ssh/a.pub none" },
    { "**/.ssh=none; /x/.ssh/known_hosts=read", "/x/.ssh/known_hosts read; /x/.ssh/other none" },
    { "**/.ssh=none@5; /x/.ssh/known_hosts=read", "/x/.ssh/known_hosts none" },
    { "**/.ssh=none@5; /x/.ssh/known_hosts=read@6", "/x/.ssh/known_hosts read" },
    { "/a/**=none@9; /a/b/c=read@5; **/*=view", "/a/b/c none; /x view" },
    { "/a/b=none; /a/b/c/d=read; /a/b/c=none", "/a/b/c/d read; /a/b/c none" },
    { "file:/a=none; **/*=read", "/a none; /a/b none" },
    { "**/*=write; /a/*=none", "/a/b none; /a/b/c none; /a write" },
    { "/**=none; /x=read", "/ none; /x read; /y none" },

    /* Workspace prefixes mean the root. */
    { "/workspace/src/**=read", "/src read; /src/a read; /workspace/src/a none" },
    { "/workspace/secrets/**=none; **/*=read", "/secrets/a none; /workspace/secrets/a none; /x read" },
    { "/workspace/=read", "/ read; /x read" },
    { "/workspace=read", "/workspace read; /x none" },
    { "workspace/x=read", "/workspace/x read; /x none" },

    /* Exact types: a name with wildcard characters; what hides holds in both readings. */
    { "**/*=read; file:*.pem=none", "/a.pem none; /x/b.pem none; /*.pem none; /a.pen read" },
    { "**/*=read; directory:/build*=none", "/build1/x none; /build*/x none; /x read" },
    { "**/*=read; file:/[id=none", "/[id none; /i read" },

    /* Odd names. */
    { "/a\xff*=read", "/a\xffz read; /az none" },
    { "/\xc3*=read", "/\xc3 read; /\xc3z read; /\xc3\xa9 none" },
    { "/*\xa9=read", "/z\xa9 read; /\xc3\xa9 none" },
    { "/new\nline=read", "/new\nline read" },
    { "**/*=read; **/...=none", "/... none; /.... read" },

    /* Presets. */
    { "preset:agent-safe",
      "/src/app.py read; /output/r.txt write; /output write; /tmp/x write; /.env none; /a/.env.local none; /secrets/x none; "
      "/a/secrets none; /a/b/x.key none; /x.pem none; /credentials.json none; /.git none; /.git/config none; /.gitignore read; "
      "/.ssh/id_rsa none; /.ssh/config read; /.npmrc none; /.netrc none; /.pypirc none; /.git-credentials none; "
      "/.aws/credentials none; /.kube/config none; /a.p12 none; /a.pfx none; /a.jks none; /a.keystore none; "
      "/.env.example read; /.env.sample read; /conf/.env.prod.example read; /secrets/db.yaml.example read; "
      "/lib/python3.11/site-packages/certifi/cacert.pem read; /node_modules/x/cert.pem read; "
      "/venv/site-packages/botocore/credentials.py read; /node_modules/aws/credentials/index.js read; "
      "/venv/site-packages/pkg/secrets/api.py read; /secrets/site-packages/x.pem none; /node_modules/x/.env none; "
      "/node_modules/x/a.key none; /output/venv/site-packages/certifi/cacert.pem write; /output/.env none; "
      "/tmp/node_modules/a/credentials.js write" },
    { "preset:development",
      "/src/app.py write; /.env none; /.env.example write; /secrets/x none; /x.key none; /x.pem none; /.git/config write; "
      "/src/credentials.py write; /credentials.json none; /.aws/config none; /node_modules/certs/ca.pem write" },
    { "preset:read-only", "/x read; /.env read" },
    { "preset:full-access", "/x write; /.env write" },
    { "preset:view-only", "/x view; /a/b/c view" },
    { "preset:agent-safe; /logs/**=write", "/logs/a write; /logs write; /logs/.env none" },
    { "preset:agent-safe; **/.git/**=read@200", "/.git/config read; /.git read; /.env none" },
    { "preset:agent-safe; /config/.env=read", "/config/.env none" },
    { "preset:agent-safe; /config/.env=read@101", "/config/.env read; /.env none" },

    /* Nothing said, nothing shown. */
    { "", "/ none; /x none; /a/b none" },
};

static int check_path(struct ruleset *rules, const struct example *example, char *path, const char *expected)
{
    autoptr(explanation) e = NULL;
    struct err err = ERR_NONE;

    if (explain_path(rules, path, &e, &err) < 0)
        fail_msg("%s", err.text);
    if (strcmp(level_name(ruleset_level_of(rules, path)), expected) != 0)
        fail_msg("rules '%s', path '%s': is %s, expected %s", example->rules, path, level_name(ruleset_level_of(rules, path)),
                 expected);
    if (strcmp(level_name(e->level), expected) != 0)
        fail_msg("rules '%s', path '%s': explained as %s, expected %s", example->rules, path, level_name(e->level), expected);
    if (e->cause == EXPLAIN_GRANTED)
        assert_int_equal(ruleset_rules(rules)->items[e->rule].level, e->level);
    return 1;
}

static int check_example(const struct example *example)
{
    struct ruleset *rules = ruleset_from_text(example->rules, false);
    char *copy = xdup(example->levels), *save = NULL;
    int checked = 0;

    for (char *line = strtok_r(copy, ";", &save); line; line = strtok_r(NULL, ";", &save)) {
        line += strspn(line, " ");
        char *space = strrchr(line, ' ');
        *space = '\0';
        checked += check_path(rules, example, line, space + 1);
    }
    free(copy);
    ruleset_unref(rules);
    return checked;
}

static void rules_give_the_documented_levels(void **state)
{
    int checked = 0;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        checked += check_example(&examples[i]);
    print_message("%zu rulesets, %d paths\n", ARRAY_LEN(examples), checked);
    assert_true(checked >= 150);
}

static void a_real_workspace_directory_keeps_its_prefix(void **state)
{
    struct ruleset *rules = ruleset_from_text("/workspace/src/**=read", true);

    (void) state;
    assert_int_equal(ruleset_level_of(rules, "/workspace/src/a"), LEVEL_READ);
    assert_int_equal(ruleset_level_of(rules, "/src/a"), LEVEL_NONE);
    ruleset_unref(rules);
}

typedef bool (*hint_fn)(struct ruleset *rules, const struct match_state *match);

static bool hint(hint_fn ask, const char *text, const char *path)
{
    struct ruleset *rules = ruleset_from_text(text, false);
    struct match_state *at = match_state_ref(ruleset_root(rules));
    char *copy = xdup(path), *save = NULL;

    for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        struct match_state *next = ruleset_step(rules, at, name, strlen(name));
        match_state_unref(at);
        at = next;
    }
    bool answer = ask(rules, at);
    match_state_unref(at);
    free(copy);
    ruleset_unref(rules);
    return answer;
}

static bool may_show_below(const char *text, const char *path)
{
    return hint(ruleset_may_show_below, text, path);
}

static bool may_write_child(const char *text, const char *path)
{
    return hint(ruleset_may_write_child, text, path);
}

static bool writes_all_below(const char *text, const char *path)
{
    return hint(ruleset_writes_all_below, text, path);
}

/* A hidden directory in which nothing can be visible must cost no search: "maybe" would be wrong here, not just slow. */
static void hidden_directories_are_searched_only_when_something_in_them_can_be_visible(void **state)
{
    (void) state;
    assert_false(may_show_below("**/*=read; /secrets/**=none", "/secrets"));
    assert_false(may_show_below("**/*=read; /secrets/**=none", "/secrets/deep"));
    assert_false(may_show_below("preset:development", "/.aws"));
    assert_false(may_show_below("preset:agent-safe", "/.git"));
    assert_false(may_show_below("/src/**=read", "/docs"));
    assert_false(may_show_below("", "/"));
    assert_false(may_show_below("**/*=read; /a=none", "/a"));
    assert_true(may_show_below("**/*=read; /secrets/**=none; /secrets/public.key=read", "/secrets"));
    assert_false(may_show_below("**/*=read; /secrets/**=none; /secrets/public.key=read", "/secrets/deep"));
    assert_true(may_show_below("**/*.py=read", "/src"));
    assert_true(may_show_below("/docs/a/readme.md=read", "/docs"));
    assert_true(may_show_below("/docs/a/readme.md=read", "/docs/a"));
    assert_false(may_show_below("/docs/a/readme.md=read", "/docs/b"));
    assert_true(may_show_below("**/*=none; /src/**=read", "/"));
    assert_true(may_show_below("/a/**=none; **/*.py=read@1", "/a/b"));
    assert_false(may_show_below("/a/**=none@1; **/*.py=read", "/a/b"));
}

static void a_directory_is_writable_when_some_child_could_be(void **state)
{
    (void) state;
    assert_true(may_write_child("**/*=write", "src"));
    assert_false(may_write_child("**/*=read", "src"));
    assert_false(may_write_child("**/*=write; /src/**=read@10", "src"));
    assert_true(may_write_child("**/*=read; /src/gen/**=write", "src"));
    assert_false(may_write_child("**/*=read; /src/gen/**=write", "lib"));
    assert_true(may_write_child("**/*=read; /src/*.log=write", "src"));
    assert_false(may_write_child("**/*=read@5; /src/*.log=write", "src"));
    assert_false(may_write_child("**/*=write; /src/**=none", "src"));
}

/* A directory may be renamed only where this holds, so "no" for plain cases would make tools copy instead. */
static void a_subtree_is_all_write_unless_a_rule_reaches_into_it(void **state)
{
    (void) state;
    assert_true(writes_all_below("**/*=write", "/src"));
    assert_true(writes_all_below("**=write", "/"));
    assert_true(writes_all_below("/a/**=write; /b/**=none", "/a"));
    assert_true(writes_all_below("preset:full-access", "/src/deep"));
    assert_true(writes_all_below("**/*=read; /out/**=write", "/out"));
    assert_true(writes_all_below("**/*.key=none; /out/**=write@5", "/out"));
    assert_false(writes_all_below("**/*.key=none; /out/**=write", "/out"));
    assert_false(writes_all_below("preset:development", "/src"));
    assert_false(writes_all_below("/a/*=write", "/a"));
    assert_false(writes_all_below("/a/**=write; /a/b/c=read", "/a"));
    assert_true(writes_all_below("/a/**=write; /a/b/c=read", "/a/x"));
    assert_false(writes_all_below("**/*=read", "/src"));
    assert_true(writes_all_below("/d/=write; /other/**=read", "/d"));
    assert_false(writes_all_below("/**=write; .env=none", "/d"));
    assert_false(writes_all_below("/**=write; /d/**=view", "/d/e"));
    assert_false(writes_all_below("/d/*.txt=write", "/d"));
    assert_false(writes_all_below("/d/x/**=write", "/d"));
}

static int collect(const char *path, void *cookie)
{
    strcat(cookie, path);
    strcat(cookie, " ");
    return 0;
}

static void writable_roots_are_the_literal_directories_of_write_rules(void **state)
{
    char found[256] = "";
    struct ruleset *rules = ruleset_from_text("**/*=read; /output/**=write; /a/b/=write; directory:/c=write; /d/*=write; "
                                              "/e=write; **/f/**=write; /g/**=write; /g/**=none@1; /workspace/h/**=write",
                                              false);

    (void) state;
    assert_int_equal(ruleset_each_writable_root(rules, collect, found), 0);
    assert_string_equal(found, "/output /a/b /c /h ");
    ruleset_unref(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_give_the_documented_levels),
        cmocka_unit_test(a_real_workspace_directory_keeps_its_prefix),
        cmocka_unit_test(hidden_directories_are_searched_only_when_something_in_them_can_be_visible),
        cmocka_unit_test(a_directory_is_writable_when_some_child_could_be),
        cmocka_unit_test(a_subtree_is_all_write_unless_a_rule_reaches_into_it),
        cmocka_unit_test(writable_roots_are_the_literal_directories_of_write_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
