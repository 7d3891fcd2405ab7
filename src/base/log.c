#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

/* Reserved at the end of every line for ,"dropped":<20 digits>,"truncated":true}\n */
#define TAIL_MAX 64

static const char *const level_names[] = { "debug", "info", "warn", "error" };
static const char *const format_names[] = { "json", "text" };

static atomic_int level_now = LOG_LEVEL_INFO;
static atomic_int format_now = LOG_FORMAT_JSON;

/* The mutex keeps lines of this process whole where write(2) does not, and guards the other members. */
static struct {
    pthread_mutex_t lock;
    int fd; /* borrowed */
    uint64_t dropped;
    bool torn;    /* the last line was abandoned in its middle: the next one starts with a newline */
    bool stalled; /* the last line was abandoned: do not wait again until a line goes through */
} out = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = STDERR_FILENO };

struct log_line {
    enum log_format format;
    bool truncated;
    size_t len;
    char bytes[LOG_LINE_MAX]; /* bytes[0] is a newline, sent only after a torn line */
};

bool log_is_on(enum log_level level)
{
    return (int) level >= atomic_load_explicit(&level_now, memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
    atomic_store(&level_now, (int) level);
}

void log_set_format(enum log_format format)
{
    atomic_store(&format_now, (int) format);
}

void log_set_fd(int fd)
{
    pthread_mutex_lock(&out.lock);
    out.fd = fd;
    out.torn = out.stalled = false;
    pthread_mutex_unlock(&out.lock);
}

static int index_of(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return (int) i;
    return -EINVAL;
}

int log_level_of_name(const char *name, enum log_level *ret)
{
    int i = index_of(level_names, ARRAY_LEN(level_names), name);

    if (i < 0)
        return i;
    *ret = (enum log_level) i;
    return 0;
}

int log_format_of_name(const char *name, enum log_format *ret)
{
    int i = index_of(format_names, ARRAY_LEN(format_names), name);

    if (i < 0)
        return i;
    *ret = (enum log_format) i;
    return 0;
}

static bool has_room(const struct log_line *line, size_t len)
{
    return len <= sizeof(line->bytes) - TAIL_MAX - line->len;
}

static bool log_line_put(struct log_line *line, const char *s, size_t len)
{
    if (!has_room(line, len))
        return false;
    memcpy(line->bytes + line->len, s, len);
    line->len += len;
    return true;
}

static bool put_str(struct log_line *line, const char *s)
{
    return log_line_put(line, s, strlen(s));
}

/* Writes the character at `s` as JSON in ASCII. Returns the number of bytes it consumed, 1 for an invalid one. */
static size_t escape_json(const char *s, size_t len, char ret[16])
{
    uint32_t cp = 0xFFFD;
    size_t n = utf8_decode(s, len, &cp);

    if (cp == '"' || cp == '\\')
        snprintf(ret, 16, "\\%c", (char) cp);
    else if (cp >= 0x20 && cp < 0x7F)
        snprintf(ret, 16, "%c", (char) cp);
    else if (cp <= 0xFFFF)
        snprintf(ret, 16, "\\u%04x", (unsigned) cp);
    else
        snprintf(ret, 16, "\\u%04x\\u%04x", (unsigned) (0xD7C0 + (cp >> 10)), (unsigned) (0xDC00 + (cp & 0x3FF)));
    return n ? n : 1;
}

/* Like escape_json() for the text format: keeps characters that buf_add_escaped() considers safe. */
static size_t escape_text(const char *s, size_t len, bool quoted, char ret[16])
{
    autodone(buf) struct buf shown = BUF_EMPTY;
    uint32_t cp;
    size_t n = utf8_decode(s, len, &cp);

    if (n == 1 && cp >= 0x20 && cp < 0x7F && cp != '\\') {
        snprintf(ret, 16, quoted && cp == '"' ? "\\%c" : "%c", (char) cp);
        return 1;
    }
    n = n ? n : 1;
    buf_add_escaped(&shown, s, n);
    snprintf(ret, 16, "%s", shown.data);
    return n;
}

/* Appends the value without its quotes. Cuts it before the first character that exceeds the limit, and keeps space for the
 * closing quote. */
static void put_escaped(struct log_line *line, const char *s, size_t len, bool quoted)
{
    size_t written = 0;

    for (size_t i = 0; i < len;) {
        char escaped[16];
        size_t n, from;

        from = line->format == LOG_FORMAT_JSON ? escape_json(s + i, len - i, escaped)
                                               : escape_text(s + i, len - i, quoted, escaped);
        n = strlen(escaped);
        if (written + n > LOG_VALUE_MAX || !has_room(line, n + 1)) {
            line->truncated = true;
            return;
        }
        log_line_put(line, escaped, n);
        written += n;
        i += from;
    }
}

static bool needs_quotes(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) s[i] <= ' ' || strchr("\"=\\", s[i]))
            return true;
    return len == 0;
}

static bool put_text(struct log_line *line, const char *s, size_t len)
{
    bool quoted = line->format == LOG_FORMAT_JSON || needs_quotes(s, len);

    if (!has_room(line, 2))
        return false;
    if (quoted)
        put_str(line, "\"");
    put_escaped(line, s, len, quoted);
    if (quoted)
        put_str(line, "\"");
    return true;
}

static size_t length_of(const struct log_field *field)
{
    /* A string longer than LOG_VALUE_MAX is cut anyway, so its end does not matter. */
    return field->len == LOG_LEN_OF_STRING ? strnlen(field->bytes, LOG_VALUE_MAX + 1) : field->len;
}

static bool put_value(struct log_line *line, const struct log_field *field)
{
    char text[128];

    switch (field->kind) {
    case LOG_KIND_BYTES:
        return field->bytes ? put_text(line, field->bytes, length_of(field)) : put_str(line, "null");
    case LOG_KIND_INT:
        snprintf(text, sizeof(text), "%" PRId64, (int64_t) field->number);
        break;
    case LOG_KIND_UINT:
        snprintf(text, sizeof(text), "%" PRIu64, field->number);
        break;
    case LOG_KIND_JSON:
        return put_str(line, field->bytes);
    case LOG_KIND_BOOL:
        return put_str(line, field->number ? "true" : "false");
    case LOG_KIND_ERRNO: {
        int r = (int) (int64_t) field->number;
        const char *reason = strerror_r(r < 0 ? -r : r, text, sizeof(text));

        return put_text(line, reason, strlen(reason));
    }
    }
    return put_str(line, text);
}

/* Removes a field that does not fit and sets "truncated". */
static void put_field(struct log_line *line, const struct log_field *field)
{
    size_t mark = line->len;
    bool json = line->format == LOG_FORMAT_JSON, whole;

    whole = put_str(line, json ? ",\"" : " ") && put_str(line, field->key) && put_str(line, json ? "\":" : "=") &&
            put_value(line, field);
    if (!whole) {
        line->len = mark;
        line->truncated = true;
    }
}

static void put_head(struct log_line *line, enum log_level level, const struct log_field *msg)
{
    char time[CLOCK_TEXT_MAX];

    clock_format(clock_timespec_of_ns(clock_wall_ns()), 3, time);
    if (line->format == LOG_FORMAT_JSON) {
        put_str(line, "{\"time\":\"");
        put_str(line, time);
        put_str(line, "\",\"level\":\"");
        put_str(line, level_names[level]);
        put_str(line, "\"");
        put_field(line, msg);
        return;
    }
    put_str(line, time);
    put_str(line, " ");
    put_str(line, level_names[level]);
    put_str(line, " ");
    put_escaped(line, msg->bytes, length_of(msg), false);
}

/* Uses the space that has_room() reserved. */
static void put_tail(struct log_line *line, uint64_t dropped)
{
    bool json = line->format == LOG_FORMAT_JSON;
    char *at = line->bytes + line->len, *end = line->bytes + sizeof(line->bytes);

    if (dropped)
        at += snprintf(at, (size_t) (end - at), json ? ",\"dropped\":%" PRIu64 : " dropped=%" PRIu64, dropped);
    if (line->truncated)
        at += snprintf(at, (size_t) (end - at), "%s", json ? ",\"truncated\":true" : " truncated=true");
    at += snprintf(at, (size_t) (end - at), "%s", json ? "}\n" : "\n");
    line->len = (size_t) (at - line->bytes);
}

/* A write of more than PIPE_BUF may block on a pipe although poll() reports it writable. Regular files take any length at once. */
static size_t piece_of(int fd, size_t len)
{
    struct stat st;

    if (len <= PIPE_BUF || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)))
        return len;
    return PIPE_BUF;
}

static int wait_writable(int fd, int64_t deadline_ns)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    int64_t left_ms = (deadline_ns - clock_now_ns() + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    int r = poll(&p, 1, left_ms > 0 ? (int) left_ms : 0);

    if (r < 0)
        return -errno;
    return r == 0 ? -ETIMEDOUT : 0;
}

/* Returns the number of bytes written before it gave up. */
static size_t write_bytes(int fd, const char *bytes, size_t len, int wait_ms)
{
    int64_t deadline_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    size_t done = 0;

    while (done < len) {
        ssize_t n;
        int r = wait_writable(fd, deadline_ns);

        if (r == -EINTR)
            continue;
        if (r < 0)
            break;
        n = write(fd, bytes + done, piece_of(fd, len - done));
        if (n > 0)
            done += (size_t) n;
        else if (n < 0 && errno == EAGAIN && clock_now_ns() < deadline_ns)
            poll(NULL, 0, 1); /* poll() reported space, but less than this piece needs */
        else if (n == 0 || errno != EINTR)
            break;
    }
    return done;
}

/* Writing to a pipe without a reader raises SIGPIPE in the writing thread. Blocks the signal and consumes it, unless it was
 * pending before. */
static size_t write_without_sigpipe(int fd, const char *bytes, size_t len, int wait_ms)
{
    sigset_t sigpipe, before, pending;
    size_t done;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    done = write_bytes(fd, bytes, len, wait_ms);
    if (done < len && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&sigpipe, NULL, &(struct timespec){ 0 }) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return done;
}

static void send_line(struct log_line *line)
{
    const char *bytes;
    size_t len, done;

    pthread_mutex_lock(&out.lock);
    put_tail(line, out.dropped);
    bytes = line->bytes + (out.torn ? 0 : 1);
    len = line->len - (out.torn ? 0 : 1);
    done = write_without_sigpipe(out.fd, bytes, len, out.stalled ? 0 : LOG_WAIT_MS);
    out.stalled = done < len;
    if (done == len) {
        out.torn = false;
        out.dropped = 0;
    } else {
        /* If only the leading newline was written, it repaired the torn line. */
        out.torn = done > 0 ? !(out.torn && done == 1) : out.torn;
        out.dropped++;
    }
    pthread_mutex_unlock(&out.lock);
}

void log_write(enum log_level level, const struct log_field *fields, size_t count)
{
    struct log_line line;
    int saved = errno;

    line.format = (enum log_format) atomic_load_explicit(&format_now, memory_order_relaxed);
    line.truncated = false;
    line.bytes[0] = '\n';
    line.len = 1;
    put_head(&line, level, &fields[0]);
    for (size_t i = 1; i < count; i++)
        put_field(&line, &fields[i]);
    send_line(&line);
    errno = saved;
}
