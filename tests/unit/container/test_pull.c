#include "container_fixture.h"

#include "base/clock.h"
#include "container/pull.h"

static void remember(const char *text, void *cookie)
{
    struct buf *told = cookie;

    buf_add_str(told, text);
    buf_add_char(told, '\n');
}

static const char news[] =
    "{\"status\":\"Pulling from library/x\",\"id\":\"12\"}\r\n"
    "{\"status\":\"Pulling fs layer\",\"progressDetail\":{},\"id\":\"aa\"}\n"
    "{\"status\":\"Pulling fs layer\",\"progressDetail\":{},\"id\":\"bb\"}\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":3000000,\"total\":9000000},\"id\":\"aa\"}\n"
    "{\"status\":\"Pull complete\",\"id\":\"aa\"}\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":1000000,\"total\":4000000},\"id\":\"bb\"}\n";

static void progress_is_summed_up_however_it_is_cut(void **state)
{
    (void) state;
    for (size_t step = 1; step <= sizeof(news); step = step * 2 + 1) {
        autodone(buf) struct buf told = BUF_EMPTY, text = BUF_EMPTY;
        autodone(pull) struct pull pull;

        pull_init(&pull, remember, &told);
        for (size_t at = 0; at < sizeof(news) - 1; at += step)
            pull_feed(&pull, news + at, sizeof(news) - 1 - at < step ? sizeof(news) - 1 - at : step, 0);
        pull_summary(&pull, &text);
        assert_string_equal(text.data, "1 of 2 layers, 10 of 13 MB");
        assert_false(pull.has_failed);
    }
}

static void it_is_told_once_a_second(void **state)
{
    autodone(buf) struct buf told = BUF_EMPTY;
    autodone(pull) struct pull pull;

    (void) state;
    pull_init(&pull, remember, &told);
    for (int i = 0; i < 10; i++)
        pull_feed(&pull, news, sizeof(news) - 1, 5 * CLOCK_NS_PER_SEC + i * CLOCK_NS_PER_SEC / 4);
    assert_string_equal(told.data, "1 of 2 layers, 10 of 13 MB\n1 of 2 layers, 10 of 13 MB\n1 of 2 layers, 10 of 13 MB\n");
}

static void an_error_is_kept_and_safe_to_print(void **state)
{
    static const char error[] = "{\"errorDetail\":{\"message\":\"x\"},\"error\":\"manifest for x\\u001b[0m\\nnot found\"}\n";
    autodone(buf) struct buf told = BUF_EMPTY;
    autodone(pull) struct pull pull;

    (void) state;
    pull_init(&pull, remember, &told);
    pull_feed(&pull, error, sizeof(error) - 1, 0);
    assert_true(pull.has_failed);
    assert_string_equal(pull.error, "manifest for x\\x1b[0m not found");
}

static void nonsense_does_no_harm(void **state)
{
    static const char *const lines[] = {
        "\n",
        "7\n",
        "null\n",
        "[]\n",
        "{\"id\":7,\"status\":\"Downloading\"}\n",
        "{\"id\":\"\",\"status\":\"Downloading\"}\n",
        "{\"id\":\"x\",\"status\":\"Downloading\",\"progressDetail\":7}\n",
        "{\"id\":\"y\",\"status\":\"Downloading\",\"progressDetail\":{\"current\":-5,\"total\":-1}}\n",
        "{\"error\":7}\n",
        "\xff\xfe\n",
        "{\"status\":\"Pull complete\"}\n"
    };
    autodone(buf) struct buf told = BUF_EMPTY, text = BUF_EMPTY;
    autodone(pull) struct pull pull;

    (void) state;
    pull_init(&pull, remember, &told);
    for (size_t i = 0; i < count_of(lines); i++)
        pull_feed(&pull, lines[i], strlen(lines[i]), 0);
    pull_summary(&pull, &text);
    assert_string_equal(text.data, "0 of 2 layers, 0 of 0 MB");
    assert_false(pull.has_failed);
}

static void a_line_too_long_is_passed_over_and_more_layers_are_not_counted(void **state)
{
    autofree char *filler = xalloc(4 * PULL_LINE_MAX);
    autodone(buf) struct buf told = BUF_EMPTY;
    autodone(pull) struct pull pull;

    (void) state;
    pull_init(&pull, remember, &told);
    memset(filler, 'x', 4 * PULL_LINE_MAX);
    pull_feed(&pull, "{\"error\":\"", 10, 0);
    pull_feed(&pull, filler, 4 * PULL_LINE_MAX, 0);
    assert_true(pull.line.len <= PULL_LINE_MAX);
    pull_feed(&pull, "\"}\n", 3, 0);
    assert_false(pull.has_failed);
    for (int i = 0; i < 3 * PULL_LAYERS_MAX; i++) {
        autofree char *line = xprintf("{\"status\":\"Pulling fs layer\",\"id\":\"%x\"}\n", i);

        pull_feed(&pull, line, strlen(line), 0);
    }
    assert_int_equal(pull.layer_count, PULL_LAYERS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_summed_up_however_it_is_cut),
        cmocka_unit_test(it_is_told_once_a_second),
        cmocka_unit_test(an_error_is_kept_and_safe_to_print),
        cmocka_unit_test(nonsense_does_no_harm),
        cmocka_unit_test(a_line_too_long_is_passed_over_and_more_layers_are_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
