#include "supervisor/shell_proto.h"

#include "fixture.h"

static void shells_are_known_by_their_name(void **state)
{
    (void) state;
    assert_string_equal(shell_proto_of("/bin/bash")->name, "bash");
    assert_string_equal(shell_proto_of("bash")->name, "bash");
    assert_string_equal(shell_proto_of("/opt/x/zsh")->name, "zsh");
    assert_string_equal(shell_proto_of("/bin/sh")->name, "sh");
    assert_string_equal(shell_proto_of("/bin/dash")->name, "sh");
    assert_string_equal(shell_proto_of("/bin/bash/")->name, "sh");
    assert_string_equal(shell_proto_of("")->name, "sh");
    assert_true(shell_proto_of("/bin/sh")->forgets_input);
    assert_false(shell_proto_of("/bin/bash")->forgets_input);
}

static void the_default_shell_is_there(void **state)
{
    (void) state;
    assert_int_equal(access(shell_proto_default_shell(), X_OK), 0);
}

/* Whatever the command is, it stays in the file: the lines are one each. */
static void the_lines_are_single_lines(void **state)
{
    const char *const shells[] = { "bash", "zsh", "sh" };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        const struct shell_proto *shell_proto = shell_proto_of(shells[i]);
        autodone(buf) struct buf line = BUF_EMPTY;

        autodone(buf) struct buf again = BUF_EMPTY;

        shell_proto_add_report_line(shell_proto, &line, 18446744073709551615ull, 0);
        shell_proto_add_report_line(shell_proto, &again, 18446744073709551615ull, 1);
        const char *const lines[] = { shell_proto->preamble, shell_proto->run_line, line.data, again.data };
        for (size_t j = 0; j < ARRAY_LEN(lines); j++) {
            size_t len = strlen(lines[j]);
            assert_int_equal(strcspn(lines[j], "\n"), len - 1);
            assert_true(len < 4096); /* one packet of a pipe */
        }
        assert_non_null(strstr(line.data, " 18446744073709551615 "));
    }
}

/* The shell as a session has it, told a few lines; what it says on its channel. */
static char *hear(const char *const shell[], const char *lines)
{
    int in[2], out[2];
    char *heard = xalloc(4096);
    size_t len = 0;
    ssize_t n;

    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(in[0], 0);
        dup2(null, 1);
        dup2(null, 2);
        dup2(out[1], 3);
        dup2(null, 4);
        execv(shell[0], (char *const *) shell);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    assert_int_equal(write(in[1], lines, strlen(lines)), strlen(lines));
    close(in[1]);
    while ((n = read(out[0], heard + len, 4095 - len)) > 0)
        len += (size_t) n;
    close(out[0]);
    waitpid(pid, NULL, 0);
    return heard;
}

/* Wherever a line is cut off, asking twice more is enough. */
static void a_line_of_which_the_begin_was_forgotten_is_overcome(void **state)
{
    static const char *const bash[] = { "/bin/bash", "--norc", "--noprofile", "--noediting", "-i", "+m", NULL };
    static const char *const zsh[] = { "/bin/zsh", "-f", "-i", "+m", NULL };
    const char *const *const shells[] = { bash, zsh };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
        const struct shell_proto *shell_proto = shell_proto_of(shells[i][0]);
        autodone(buf) struct buf first = BUF_EMPTY, second = BUF_EMPTY;

        if (access(shells[i][0], X_OK) < 0)
            continue;
        shell_proto_add_report_line(shell_proto, &first, 17, 0);
        shell_proto_add_report_line(shell_proto, &second, 17, 1);
        for (size_t cut = 1; cut < first.len; cut++) {
            autofree char *lines = xprintf("%s%s%s%s", shell_proto->preamble, first.data + cut, second.data, first.data);
            autofree char *heard = hear(shells[i], lines);

            if (!strstr(heard, "17 "))
                fail_msg("%s is deaf after '%s'", shell_proto->name, first.data + cut);
        }
    }
}

static void the_text_is_the_command_and_nothing_of_it_is_quoted(void **state)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    const char command[] = "a 'b\n\"$c\\";

    (void) state;
    shell_proto_add_text(&text, command, strlen(command));
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
        cmocka_unit_test(a_line_of_which_the_begin_was_forgotten_is_overcome),
        cmocka_unit_test(the_text_is_the_command_and_nothing_of_it_is_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
