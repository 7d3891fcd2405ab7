#include "fixture.h"

#include <poll.h>
#include <pthread.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

/* Where the log goes during a test: a file that each check reads from its beginning. */
struct sink {
    struct scratch *scratch;
    int fd;
};

static int setup(void **state)
{
    struct sink *sink = xnew(struct sink);
    void *scratch = NULL;

    if (scratch_setup(&scratch) < 0)
        return -1;
    sink->scratch = scratch;
    sink->fd = openat(sink->scratch->fd, "log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log_set_fd(sink->fd);
    log_set_level(LOG_LEVEL_INFO);
    log_set_format(LOG_FORMAT_JSON);
    *state = sink;
    return sink->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    struct sink *sink = *state;
    void *scratch = sink->scratch;

    /* A line that goes through, so that the next test does not inherit "dropped" from this one. */
    log_set_fd(sink->fd);
    log_error("end");
    log_set_fd(STDERR_FILENO);
    close(sink->fd);
    free(sink);
    return scratch_teardown(&scratch);
}

#define log_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void read_log(const struct sink *sink, struct buf *out)
{
    buf_clear(out);
    lseek(sink->fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(sink->fd, 64u << 20, out), 0);
}

/* The end of a JSON string that begins at `s` with a quote, or NULL. Ours are printable ASCII. */
static const char *skip_string(const char *s)
{
    if (*s++ != '"')
        return NULL;
    for (; *s != '"'; s++) {
        if (*s < 0x20 || *s > 0x7E)
            return NULL;
        if (*s != '\\')
            continue;
        s++;
        if (*s == 'u' && strspn(s + 1, "0123456789abcdef") >= 4)
            s += 4;
        else if (*s != '"' && *s != '\\')
            return NULL;
    }
    return s + 1;
}

static const char *skip_value(const char *s)
{
    if (*s == '"')
        return skip_string(s);
    if (strncmp(s, "true", 4) == 0 || strncmp(s, "null", 4) == 0)
        return s + 4;
    if (strncmp(s, "false", 5) == 0)
        return s + 5;
    size_t digits = strspn(s, "-0123456789");
    return digits ? s + digits : NULL;
}

/* One flat JSON object and its newline. Returns what follows, or NULL. */
static const char *skip_line(const char *s)
{
    for (char before = '{'; *s == before; before = ',') {
        s = skip_string(s + 1);
        if (!s || *s != ':')
            return NULL;
        s = skip_value(s + 1);
        if (!s)
            return NULL;
    }
    return s[0] == '}' && s[1] == '\n' ? s + 2 : NULL;
}

static int count_lines(const char *s)
{
    int lines = 0;

    for (; *s; lines++) {
        const char *next = skip_line(s);

        if (!next)
            fail_msg("line %d is no JSON: %.200s", lines + 1, s);
        s = next;
    }
    return lines;
}

/* The only line, without its time. */
static const char *only_line(const struct sink *sink, struct buf *out)
{
    read_log(sink, out);
    assert_int_equal(count_lines(out->data), 1);
    assert_int_equal(strncmp(out->data, "{\"time\":\"20", 11), 0);
    assert_int_equal(out->data[32], 'Z');
    return out->data + 34;
}

static void a_line_has_time_level_message_and_fields(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    log_info("started", LOG_STR("id", "sb_1"), LOG_INT("n", -3), LOG_UINT("u", UINT64_MAX), LOG_BOOL("ok", true),
             LOG_BYTES("path", "/a/b/c", 4), LOG_STR("nothing", NULL), LOG_ERRNO("error", -ENOENT));
    assert_string_equal(
        only_line(*state, &b),
        ",\"level\":\"info\",\"msg\":\"started\",\"id\":\"sb_1\",\"n\":-3,\"u\":18446744073709551615,\"ok\":true,"
        "\"path\":\"/a/b\",\"nothing\":null,\"error\":\"No such file or directory\"}\n");
}

static void the_time_is_the_wall_clock(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    int64_t now = clock_wall_ns() / CLOCK_NS_PER_SEC;
    char text[CLOCK_TEXT_MAX];
    struct timespec t;

    log_info("now");
    read_log(*state, &b);
    snprintf(text, sizeof(text), "%.24s", b.data + 9);
    assert_int_equal(clock_parse(text, &t, NULL), 0);
    assert_in_range(t.tv_sec, now, now + 5);
}

static int evaluations;

static int evaluate(void)
{
    return ++evaluations;
}

static void what_is_below_the_level_is_neither_written_nor_evaluated(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    evaluations = 0;
    log_debug("no", LOG_INT("n", evaluate()));
    log_set_level(LOG_LEVEL_ERROR);
    log_info("no", LOG_INT("n", evaluate()));
    log_warn("no", LOG_INT("n", evaluate()));
    log_error("yes", LOG_INT("n", evaluate()));
    assert_int_equal(evaluations, 1);
    assert_string_equal(only_line(*state, &b), ",\"level\":\"error\",\"msg\":\"yes\",\"n\":1}\n");
    log_set_level(LOG_LEVEL_DEBUG);
    assert_true(log_is_on(LOG_LEVEL_DEBUG));
}

static void strange_bytes_make_valid_ascii_json(void **state)
{
    static const struct {
        const char *raw, *json;
    } cases[] = {
        { "a\"b\\c", "a\\\"b\\\\c" },
        { "\n\r\t\x01\x7f\x1b[0m", "\\u000a\\u000d\\u0009\\u0001\\u007f\\u001b[0m" },
        { "gr\xc3\xb6\xc3\x9f"
          "e",
          "gr\\u00f6\\u00dfe" },
        { "\xf0\x9f\x99\x82", "\\ud83d\\ude42" },
        { "\xf4\x8f\xbf\xbf", "\\udbff\\udfff" },
        { "x\xff\xfey", "x\\ufffd\\ufffdy" },
        { "cut \xe6\x97", "cut \\ufffd\\ufffd" },
        { "a\xe2\x80\xae"
          "b\xe2\x81\xa6",
          "a\\u202eb\\u2066" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autodone(buf) struct buf b = BUF_EMPTY;
        char want[128];

        assert_int_equal(ftruncate(((struct sink *) *state)->fd, 0), 0);
        log_info("m", LOG_STR("v", cases[i].raw));
        snprintf(want, sizeof(want), ",\"level\":\"info\",\"msg\":\"m\",\"v\":\"%s\"}\n", cases[i].json);
        assert_string_equal(only_line(*state, &b), want);
    }
}

static void every_pair_of_bytes_stays_on_one_valid_line(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    char all[512];

    for (int first = 0; first < 256; first++) {
        for (int second = 0; second < 256; second++) {
            all[2 * second] = (char) first;
            all[2 * second + 1] = (char) second;
        }
        log_info(first == 0 ? "zero" : "other", LOG_BYTES("v", all, sizeof(all)));
    }
    read_log(*state, &b);
    assert_int_equal(count_lines(b.data), 256);
}

static void a_message_cannot_forge_a_line(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    log_info("one\"}\n{\"time\":\"x", LOG_STR("k", "\n{\"level\":\"error\"}\n"));
    read_log(*state, &b);
    assert_int_equal(count_lines(b.data), 1);
    assert_int_equal(ftruncate(((struct sink *) *state)->fd, 0), 0);
    log_set_format(LOG_FORMAT_TEXT);
    log_info("one\n2026-01-01T00:00:00.000Z error forged", LOG_STR("k", "x\nerror"));
    read_log(*state, &b);
    assert_ptr_equal(strchr(b.data, '\n'), b.data + b.len - 1);
}

static void the_text_form_is_for_people(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;

    log_set_format(LOG_FORMAT_TEXT);
    log_warn("disk is \"slow\"", LOG_STR("path", "/größe"), LOG_STR("q", "a b\"c"), LOG_STR("e", ""), LOG_INT("n", 3),
             LOG_STR("x", "k=v"), LOG_BOOL("b", false), LOG_STR("bad", "\x1b[2J\xff"));
    read_log(*state, &b);
    assert_int_equal(b.data[23], 'Z');
    assert_string_equal(b.data + 24, " warn disk is \"slow\" path=/größe q=\"a b\\\"c\" e=\"\" n=3 x=\"k=v\" b=false "
                                     "bad=\"\\x1b[2J\\xff\"\n");
}

static void long_values_are_cut_and_the_fields_behind_them_stay(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    autofree char *value = xalloc(1 << 20);

    memset(value, 'x', (1 << 20) - 1);
    log_info("long", LOG_STR("v", value), LOG_INT("n", 7));
    only_line(*state, &b);
    assert_true(b.len <= LOG_LINE_MAX);
    assert_non_null(strstr(b.data, "x\",\"n\":7,\"truncated\":true}\n"));
}

static void no_escape_is_cut_in_its_middle(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    char value[3 * LOG_VALUE_MAX];

    for (size_t shift = 0; shift < 12; shift++) {
        memset(value, 'x', shift);
        for (size_t i = shift; i + 4 <= sizeof(value); i += 4)
            memcpy(value + i, "\xf0\x9f\x99\x82", 4);
        log_info("cut", LOG_BYTES("v", value, sizeof(value) - 12));
    }
    read_log(*state, &b);
    assert_int_equal(count_lines(b.data), 12);
    for (const char *at = b.data; (at = strstr(at, "\\ud83d")); at += 6)
        assert_int_equal(strncmp(at + 6, "\\ude42", 6), 0);
}

static void fields_that_do_not_fit_are_left_out(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    char value[4000];

    memset(value, 'x', sizeof(value));
    for (size_t len = 3900; len < sizeof(value); len++) {
        assert_int_equal(ftruncate(((struct sink *) *state)->fd, 0), 0);
        log_info("many", LOG_BYTES("a", value, len), LOG_BYTES("b", value, len), LOG_BYTES("c", value, len),
                 LOG_BYTES("d", value, len), LOG_BYTES("e", value, len), LOG_INT("f", 1));
        only_line(*state, &b);
        assert_true(b.len <= LOG_LINE_MAX);
        assert_string_equal(b.data + b.len - 19, ",\"truncated\":true}\n");
    }
}

static void errno_is_kept(void **state)
{
    (void) state;
    log_set_fd(-1);
    errno = EDOM;
    log_error("nowhere");
    assert_int_equal(errno, EDOM);
}

static int log_to_nobody(void *arg)
{
    sigset_t pending;
    int ends[2];

    (void) arg;
    CHECK(pipe(ends) == 0);
    close(ends[0]);
    log_set_fd(ends[1]);
    log_error("nobody listens");
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGPIPE));
    return 0;
}

static void a_reader_that_is_gone_kills_nobody(void **state)
{
    (void) state;
    assert_int_equal(in_child(log_to_nobody, NULL), 0);
}

static void a_sigpipe_of_others_is_not_swallowed(void **state)
{
    sigset_t sigpipe, before, pending;
    int ends[2], signal;

    (void) state;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &sigpipe, &before), 0);
    pthread_kill(pthread_self(), SIGPIPE);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    log_set_fd(ends[1]);
    log_error("nobody listens");
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGPIPE));
    sigwait(&sigpipe, &signal);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
}

static void fill(int fd)
{
    char block[4096];

    memset(block, '.', sizeof(block));
    fd_set_nonblock(fd, true);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    while (write(fd, block, 1) > 0)
        ;
}

static void drain(int fd, struct buf *out)
{
    char chunk[4096];
    ssize_t n;

    fd_set_nonblock(fd, true);
    buf_clear(out);
    while ((n = read(fd, chunk, sizeof(chunk))) > 0)
        buf_add(out, chunk, (size_t) n);
}

/* So many that to wait for each would take 200 seconds. */
#define LOST 2000
#define LOST_TEXT "2000"

/* In a child, which an alarm ends if it does block. */
static int log_to_a_full_pipe(void *arg)
{
    bool blocking = *(bool *) arg;
    autodone(buf) struct buf b = BUF_EMPTY;
    int64_t begin, took_ms;
    int ends[2];

    alarm(120);
    CHECK(pipe(ends) == 0);
    fill(ends[1]);
    fd_set_nonblock(ends[1], !blocking);
    log_set_fd(ends[1]);
    begin = clock_now_ns();
    for (int i = 0; i < LOST; i++)
        log_info("lost", LOG_INT("i", i));
    took_ms = (clock_now_ns() - begin) / CLOCK_NS_PER_MS;
    CHECK(took_ms >= LOG_WAIT_MS - 10 && took_ms < LOST * LOG_WAIT_MS / 2); /* waited once, not each time */
    drain(ends[0], &b);
    log_info("back");
    log_info("again");
    drain(ends[0], &b);
    CHECK(skip_line(b.data) && skip_line(skip_line(b.data)) == b.data + b.len);
    CHECK(strstr(b.data, "\"msg\":\"back\",\"dropped\":" LOST_TEXT "}"));
    CHECK(strstr(b.data, "\"msg\":\"again\"}"));
    return 0;
}

static void a_full_pipe_drops_lines_and_says_how_many(void **state)
{
    bool blocking = false;

    (void) state;
    assert_int_equal(in_child(log_to_a_full_pipe, &blocking), 0);
}

static void a_full_blocking_pipe_does_not_block(void **state)
{
    bool blocking = true;

    (void) state;
    assert_int_equal(in_child(log_to_a_full_pipe, &blocking), 0);
}

static void a_line_given_up_in_its_middle_does_not_spoil_the_next(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    char value[4000];
    const char *newline;
    int ends[2];

    (void) state;
    memset(value, 'x', sizeof(value));
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 8192) >= 0);
    fd_set_nonblock(ends[1], true);
    log_set_fd(ends[1]);
    log_info("torn", LOG_BYTES("a", value, 4000), LOG_BYTES("b", value, 4000), LOG_BYTES("c", value, 4000));
    drain(ends[0], &b);
    assert_true(b.len > 0);
    assert_null(strchr(b.data, '\n'));
    log_info("whole");
    drain(ends[0], &b);
    newline = strchr(b.data, '\n');
    assert_ptr_equal(newline, b.data);
    assert_int_equal(count_lines(newline + 1), 1);
    close(ends[0]);
    close(ends[1]);
}

static void a_full_disk_is_told_when_there_is_room_again(void **state)
{
    struct sink *sink = *state;
    autodone(buf) struct buf b = BUF_EMPTY;
    autofd int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    log_set_fd(full);
    log_info("lost");
    log_set_fd(sink->fd);
    log_info("kept");
    assert_non_null(strstr(only_line(sink, &b), "\"dropped\":1}"));
}

#define WRITERS 8
#define EACH 400

static void *write_many(void *arg)
{
    char value[3000];

    memset(value, 'v', sizeof(value));
    for (int i = 0; i < EACH; i++)
        log_info("concurrent", LOG_INT("writer", (intptr_t) arg), LOG_BYTES("v", value, (size_t) (i * 7) % sizeof(value)),
                 LOG_BYTES("w", value, i % 50 == 0 ? sizeof(value) : 1));
    return NULL;
}

struct collector {
    int fd;
    struct buf all;
    int64_t longest_ns; /* between two reads */
};

static void *collect(void *arg)
{
    struct collector *c = arg;
    char chunk[1000];
    int64_t last_ns = clock_now_ns(), now_ns;
    ssize_t n;

    for (; (n = read(c->fd, chunk, sizeof(chunk))) != 0; last_ns = now_ns) {
        if (n > 0)
            buf_add(&c->all, chunk, (size_t) n);
        now_ns = clock_now_ns();
        if (now_ns - last_ns > c->longest_ns)
            c->longest_ns = now_ns - last_ns;
    }
    return NULL;
}

static void on_alarm(int signal)
{
    (void) signal;
}

static void interrupt_often(bool on)
{
    const struct itimerval timer = { { 0, on ? 500 : 0 }, { 0, on ? 500 : 0 } };
    const struct sigaction action = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void log_from_threads(struct collector *c)
{
    pthread_t writers[WRITERS], reader;
    int ends[2];

    *c = (struct collector){ .all = BUF_EMPTY };
    assert_int_equal(pipe(ends), 0);
    c->fd = ends[0];
    log_set_fd(ends[1]);
    interrupt_often(true);
    pthread_create(&reader, NULL, collect, c);
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&writers[i], NULL, write_many, (void *) i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    interrupt_often(false);
    log_set_fd(-1);
    close(ends[1]);
    pthread_join(reader, NULL);
    close(ends[0]);
}

/* A reader that got no CPU for as long as a line waits has lost lines by right: such a round says nothing. */
static void lines_of_threads_stay_whole_though_signals_interrupt(void **state)
{
    (void) state;
    for (int i = 0; i < 20; i++) {
        struct collector c;

        log_from_threads(&c);
        bool has_kept_up = c.longest_ns < LOG_WAIT_MS * CLOCK_NS_PER_MS / 2;
        int lines = has_kept_up ? count_lines(c.all.data) : 0;
        buf_done(&c.all);
        if (has_kept_up) {
            assert_int_equal(lines, WRITERS * EACH);
            return;
        }
    }
    print_message("in no round the reader got to read every %d ms\n", LOG_WAIT_MS / 2);
    skip();
}

static void lines_of_processes_stay_whole(void **state)
{
    autodone(buf) struct buf b = BUF_EMPTY;
    pid_t pids[WRITERS];

    for (intptr_t i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            write_many((void *) i);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++)
        waitpid(pids[i], NULL, 0);
    read_log(*state, &b);
    assert_int_equal(count_lines(b.data), WRITERS * EACH);
}

static void names_of_levels_and_formats_are_known(void **state)
{
    enum log_level level = LOG_LEVEL_INFO;
    enum log_format format = LOG_FORMAT_JSON;

    (void) state;
    assert_int_equal(log_level_of_name("warn", &level), 0);
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_int_equal(log_format_of_name("text", &format), 0);
    assert_int_equal(format, LOG_FORMAT_TEXT);
    assert_int_equal(log_level_of_name("WARN", &level), -EINVAL);
    assert_int_equal(log_level_of_name("", &level), -EINVAL);
    assert_int_equal(log_format_of_name("xml", &format), -EINVAL);
    assert_int_equal(level, LOG_LEVEL_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(a_line_has_time_level_message_and_fields),
        log_test(the_time_is_the_wall_clock),
        log_test(what_is_below_the_level_is_neither_written_nor_evaluated),
        log_test(strange_bytes_make_valid_ascii_json),
        log_test(every_pair_of_bytes_stays_on_one_valid_line),
        log_test(a_message_cannot_forge_a_line),
        log_test(the_text_form_is_for_people),
        log_test(long_values_are_cut_and_the_fields_behind_them_stay),
        log_test(no_escape_is_cut_in_its_middle),
        log_test(fields_that_do_not_fit_are_left_out),
        log_test(errno_is_kept),
        log_test(a_reader_that_is_gone_kills_nobody),
        log_test(a_sigpipe_of_others_is_not_swallowed),
        log_test(a_full_pipe_drops_lines_and_says_how_many),
        log_test(a_full_blocking_pipe_does_not_block),
        log_test(a_line_given_up_in_its_middle_does_not_spoil_the_next),
        log_test(a_full_disk_is_told_when_there_is_room_again),
        log_test(lines_of_threads_stay_whole_though_signals_interrupt),
        log_test(lines_of_processes_stay_whole),
        cmocka_unit_test(names_of_levels_and_formats_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
