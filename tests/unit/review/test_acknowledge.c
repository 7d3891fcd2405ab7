#include "review/acknowledge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_file(const char *path, enum acknowledge expected)
{
    if (acknowledge_file(path) != expected)
        fail_msg("%s: %s, not %s", path, acknowledge_name(acknowledge_file(path)), acknowledge_name(expected));
}

static void assert_link(const char *path, const char *target, enum acknowledge expected)
{
    enum acknowledge got = acknowledge_link(path, target, strlen(target));

    if (got != expected)
        fail_msg("%s -> %s: %s, not %s", path, target, acknowledge_name(got), acknowledge_name(expected));
}

static void what_runs_unasked_needs_a_word(void **state)
{
    (void) state;
    assert_file(".githooks/pre-commit", ACKNOWLEDGE_HOOK);
    assert_file("tools/hooks/post-checkout", ACKNOWLEDGE_HOOK);
    assert_file(".husky/_/x", ACKNOWLEDGE_HOOK);
    assert_file(".pre-commit-config.yaml", ACKNOWLEDGE_HOOK);
    assert_file(".github/workflows/ci.yml", ACKNOWLEDGE_CI);
    assert_file("sub/.github/workflows/ci.yml", ACKNOWLEDGE_CI);
    assert_file("Jenkinsfile", ACKNOWLEDGE_CI);
    assert_file(".gitlab-ci.yml", ACKNOWLEDGE_CI);
    assert_file(".vscode/tasks.json", ACKNOWLEDGE_EDITOR);
    assert_file("x.code-workspace", ACKNOWLEDGE_EDITOR);
    assert_file(".envrc", ACKNOWLEDGE_SHELL);
    assert_file("a/b/.envrc", ACKNOWLEDGE_SHELL);
    assert_file("package.json", ACKNOWLEDGE_PACKAGE);
    assert_file("packages/x/package.json", ACKNOWLEDGE_PACKAGE);
    assert_file(".gitmodules", ACKNOWLEDGE_GIT);
    assert_file("node_modules/.bin/tsc", ACKNOWLEDGE_PACKAGE);
    assert_file(".yarn/releases/yarn-4.cjs", ACKNOWLEDGE_PACKAGE);
    assert_file("x/.cargo/config.toml", ACKNOWLEDGE_PACKAGE);
    assert_file("tests/conftest.py", ACKNOWLEDGE_EDITOR);
    assert_file(".gdbinit", ACKNOWLEDGE_SHELL);
    assert_file(".Rprofile", ACKNOWLEDGE_SHELL);
    assert_file(".vs/x/y.json", ACKNOWLEDGE_EDITOR);
    assert_file(".idx/dev.nix", ACKNOWLEDGE_EDITOR);
    assert_file(".gitpod.yml", ACKNOWLEDGE_EDITOR);
}

static void so_does_what_assistants_are_told(void **state)
{
    static const char *const told[] = {
        "AGENTS.md",
        "sub/CLAUDE.md",
        "GEMINI.md",
        ".github/copilot-instructions.md",
        ".github/prompts/x.md",
        ".cursorrules",
        ".windsurf/x",
        ".gemini/x",
        ".codex/config.toml",
        ".kiro/steering/x.md",
        ".roo/rules/x.md",
        ".amazonq/x",
        "opencode.json",
        ".opencode/agent/x.md",
        ".clinerules/x.md",
    };

    (void) state;
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        assert_file(told[i], ACKNOWLEDGE_EDITOR);
}

static void so_do_variants_of_names(void **state)
{
    static const char *const mise[] = { "mise.local.toml",          ".mise.production.toml", ".config/mise.toml",
                                        ".config/mise/config.toml", "mise/config.toml",      ".mise/config.toml" };
    static const char *const lefthook[] = { "lefthook.yaml", ".lefthook.toml", "lefthook-local.yml", ".config/lefthook.json" };

    (void) state;
    for (size_t i = 0; i < sizeof(mise) / sizeof(mise[0]); i++)
        assert_file(mise[i], ACKNOWLEDGE_SHELL);
    for (size_t i = 0; i < sizeof(lefthook) / sizeof(lefthook[0]); i++)
        assert_file(lefthook[i], ACKNOWLEDGE_HOOK);
    assert_file("sub/.git/config", ACKNOWLEDGE_GIT);
}

/* A file system that does not tell letters apart takes these for the same. */
static void the_case_of_letters_does_not_matter(void **state)
{
    (void) state;
    assert_file(".VSCode/tasks.json", ACKNOWLEDGE_EDITOR);
    assert_file(".EnvRC", ACKNOWLEDGE_SHELL);
    assert_file(".GitHub/WorkFlows/x", ACKNOWLEDGE_CI);
    assert_file("Hooks/PRE-commit", ACKNOWLEDGE_HOOK);
}

static void ordinary_files_need_none(void **state)
{
    static const char *const plain[] = { "src/main.c",
                                         "Makefile",
                                         "README.md",
                                         "src/hooks/use-state.js",
                                         "github/workflows/x",
                                         ".github/CODEOWNERS",
                                         "my.vscode/x",
                                         "x.vscode",
                                         ".vscode",
                                         "package.json.md",
                                         "notpackage.json",
                                         "pre-commit",
                                         ".pth",
                                         "tests/test_setup.py",
                                         "AGENTS.md.txt",
                                         "docs/agents.rst",
                                         "config.toml",
                                         "cargo/config.toml",
                                         "mise.md",
                                         "lefthook.md",
                                         "lefthooks.yml",
                                         "bin/tsc",
                                         ".yarn/cache/x",
                                         ".github/ISSUE_TEMPLATE/x.md",
                                         ".config/app/x",
                                         "my_conftest.py",
                                         ".gitattributes",
                                         ".venv/lib/x.py" };

    (void) state;
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        assert_file(plain[i], ACKNOWLEDGE_NOTHING);
}

static void a_link_that_may_leave_needs_a_word(void **state)
{
    (void) state;
    assert_link("a", "/etc/passwd", ACKNOWLEDGE_LINK);
    assert_link("a", "../x", ACKNOWLEDGE_LINK);
    assert_link("d/a", "../../x", ACKNOWLEDGE_LINK);
    assert_link("d/a", "./../.././x", ACKNOWLEDGE_LINK);
    assert_link("d/a", "b/../../x", ACKNOWLEDGE_LINK);
    /* `b` may be a link itself. */
    assert_link("d/a", "b/../x", ACKNOWLEDGE_LINK);
    assert_link("d/a", "../x", ACKNOWLEDGE_NOTHING);
    assert_link("d/a", "b", ACKNOWLEDGE_NOTHING);
    assert_link("d/e/a", "../../x/y", ACKNOWLEDGE_NOTHING);
    assert_link("a", "..x/..", ACKNOWLEDGE_LINK);
    assert_link("a", "..x", ACKNOWLEDGE_NOTHING);
}

static void a_link_into_a_repository_or_in_the_place_of_a_known_file(void **state)
{
    (void) state;
    assert_link("a", ".git/hooks", ACKNOWLEDGE_GIT);
    assert_link("d/a", "../.GIT/config", ACKNOWLEDGE_GIT);
    assert_link(".envrc", "harmless", ACKNOWLEDGE_SHELL);
    assert_link(".vscode", "conf", ACKNOWLEDGE_EDITOR);
    assert_link("sub/.VSCode", "conf", ACKNOWLEDGE_EDITOR);
    assert_link(".github", "gh", ACKNOWLEDGE_CI);
    assert_link(".github/workflows", "../wf", ACKNOWLEDGE_CI);
    assert_link(".config", "conf", ACKNOWLEDGE_SHELL);
    assert_link("hooks", "scripts", ACKNOWLEDGE_HOOK);
    assert_link("my.vscode", "conf", ACKNOWLEDGE_NOTHING);
    assert_link("workflows", "conf", ACKNOWLEDGE_NOTHING);
}

static void every_reason_has_words(void **state)
{
    (void) state;
    for (enum acknowledge reason = ACKNOWLEDGE_GIT; reason <= ACKNOWLEDGE_PACKAGE; reason++) {
        assert_true(strlen(acknowledge_name(reason)) > 0);
        assert_true(strlen(acknowledge_text(reason)) > 0);
    }
    assert_string_equal(acknowledge_name(ACKNOWLEDGE_PACKAGE), "package");
    assert_string_equal(acknowledge_name(ACKNOWLEDGE_NOTHING), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_runs_unasked_needs_a_word),
        cmocka_unit_test(so_does_what_assistants_are_told),
        cmocka_unit_test(so_do_variants_of_names),
        cmocka_unit_test(the_case_of_letters_does_not_matter),
        cmocka_unit_test(ordinary_files_need_none),
        cmocka_unit_test(a_link_that_may_leave_needs_a_word),
        cmocka_unit_test(a_link_into_a_repository_or_in_the_place_of_a_known_file),
        cmocka_unit_test(every_reason_has_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
