#include "supervisor/dialect.h"

#include "fixture.h"

static void shells_are_known_by_their_name(void **state)
{
    (void) state;
    assert_string_equal(dialect_of("/bin/bash")->name, "bash");
    assert_string_equal(dialect_of("bash")->name, "bash");
    assert_string_equal(dialect_of("/opt/x/zsh")->name, "zsh");
    assert_string_equal(dialect_of("/bin/sh")->name, "sh");
    assert_string_equal(dialect_of("/bin/dash")->name, "sh");
    assert_string_equal(dialect_of("/bin/bash/")->name, "sh");
    assert_string_equal(dialect_of("")->name, "sh");
    assert_true(dialect_of("/bin/sh")->forgets_input);
    assert_false(dialect_of("/bin/bash")->forgets_input);
}

static void the_default_shell_is_there(void **state)
{
    (void) state;
    assert_int_equal(access(dialect_default_shell(), X_OK), 0);
}

/* Whatever the command is, it stays in the file: the lines are one each. */
static void the_lines_are_single_lines(void **state)
{
    const char *const shells[] = { "bash", "zsh", "sh" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        const struct dialect *dialect = dialect_of(shells[i]);
        autodone(buf) struct buf line = BUF_EMPTY;

        dialect_add_report_line(dialect, &line, 18446744073709551615ull);
        const char *const lines[] = { dialect->preamble, dialect->run_line, line.data };
        for (size_t j = 0; j < ARRAY_LEN(lines); j++) {
            size_t len = strlen(lines[j]);
            assert_int_equal(strcspn(lines[j], "\n"), len - 1);
            assert_true(len < 4096); /* one packet of a pipe */
        }
        assert_non_null(strstr(line.data, " 18446744073709551615 "));
    }
}

static void the_text_is_the_command_and_nothing_of_it_is_quoted(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char command[] = "a 'b\n\"$c\\";

    (void) state;
    dialect_add_text(&text, command, strlen(command));
    assert_true(text.len > strlen(command) + 1);
    assert_memory_equal(text.data + text.len - 1 - strlen(command), command, strlen(command));
    assert_int_equal(text.data[text.len - 1], '\n');
    /* On the first line, so that the numbers of lines are the command's. */
    assert_true(memchr(text.data, '\n', text.len) == strchr(strstr(text.data, "a 'b"), '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shells_are_known_by_their_name),
        cmocka_unit_test(the_default_shell_is_there),
        cmocka_unit_test(the_lines_are_single_lines),
        cmocka_unit_test(the_text_is_the_command_and_nothing_of_it_is_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
