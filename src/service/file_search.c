#include "service/file_search.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/acceptance.h"
#include "service/sandbox_care.h"
#include "service/sandbox_conn.h"
#include "wire/ctl_file_client.h"

#define TAG 1
#define DEPTH_MAX 200
#define PIECE ((size_t) 64 << 10)
#define BINARY_BYTES 8000

/* Ends the walk without an error: result->limit holds the reason. */
#define STOP 1

struct searching {
    const struct file_search *search;
    struct file_search_result *result;
    struct acceptance names;   /* owned: the glob */
    struct sandbox_conn *conn; /* owned */
    int fd;                    /* owned: to the supervisor */
    bool is_busy;              /* a reply is still outstanding, so the connection cannot be reused */
    char *payload;             /* owned; FRAME_PAYLOAD_MAX */
    char *needle;              /* owned: the text, in lower case if case is ignored */
    int cancel_fd;
    int64_t until_ns;
    uint64_t bytes_left;
    size_t answer_bytes;
    struct err *err;
};

static void searching_done(struct searching *s)
{
    if (s->fd >= 0 && !s->is_busy && s->conn)
        sandbox_conn_give_fd(s->conn, steal_fd(&s->fd));
    cleanup_fd(&s->fd);
    sandbox_conn_unref(s->conn);
    acceptance_done(&s->names);
    free(s->payload);
    free(s->needle);
}

static void line_done(struct file_search_line *line)
{
    free(line->bytes);
}

void file_search_result_done(struct file_search_result *result)
{
    for (size_t i = 0; i < result->count; i++) {
        struct file_search_match *match = &result->items[i];

        for (size_t k = 0; k < match->before_count + match->after_count; k++)
            line_done(&match->around[k]);
        free(match->around);
        line_done(&match->line);
        free(match->path);
    }
    free(result->items);
    *result = (struct file_search_result){ 0 };
}

static int stop_at(struct searching *s, enum file_search_limit limit)
{
    s->result->limit = limit;
    return STOP;
}

static int ms_left(const struct searching *s)
{
    int64_t left = (s->until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;

    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int) left;
}

/* Called before each step that takes time. */
static int check_going_on(struct searching *s)
{
    struct pollfd cancel = { .fd = s->cancel_fd, .events = POLLIN };

    if (s->cancel_fd >= 0 && poll(&cancel, 1, 0) > 0)
        return err_set(s->err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
    return ms_left(s) == 0 ? stop_at(s, FILE_SEARCH_TIME) : 0;
}

/* ---- matches ---- */

/* At most FILE_SEARCH_LINE_MAX bytes, cut between characters. */
static struct file_search_line dup_line(struct searching *s, const char *line, size_t len)
{
    if (len > 0 && line[len - 1] == '\r')
        len--;
    if (len > FILE_SEARCH_LINE_MAX) {
        len = FILE_SEARCH_LINE_MAX;
        while (len > 0 && ((unsigned char) line[len] & 0xC0) == 0x80)
            len--;
    }
    s->answer_bytes += len;
    return (struct file_search_line){ xdupn(line, len), len };
}

static int add_match(struct searching *s, const char *path, uint32_t number, struct file_search_match **ret)
{
    struct file_search_result *result = s->result;
    struct file_search_match *match;

    if (result->count >= s->search->max_results || s->answer_bytes >= FILE_SEARCH_ANSWER_MAX)
        return stop_at(s, FILE_SEARCH_RESULTS);
    vec_room(&result->items, &result->cap, result->count);
    match = &result->items[result->count++];
    *match = (struct file_search_match){ .path = xprintf("/%s", path), .number = number };
    s->answer_bytes += strlen(path);
    *ret = match;
    return 0;
}

static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t) (end - at));

    return newline ? newline : end;
}

static void add_context(struct searching *s, struct file_search_match *match, const char *text, const char *line,
                        const char *after, const char *end)
{
    size_t most = s->search->context_lines;
    const char *starts[FILE_SEARCH_CONTEXT_MAX];

    if (most == 0)
        return;
    match->around = xalloc(2 * most * sizeof(*match->around));
    for (const char *at = line; at > text && match->before_count < most;) {
        const char *start = at - 1;

        while (start > text && start[-1] != '\n')
            start--;
        starts[match->before_count++] = at = start;
    }
    for (size_t i = 0; i < match->before_count; i++) {
        const char *start = starts[match->before_count - 1 - i];
        match->around[i] = dup_line(s, start, (size_t) (line_end(start, end) - start));
    }
    for (const char *at = after + 1; at < end && match->after_count < most; match->after_count++) {
        const char *stop = line_end(at, end);
        match->around[match->before_count + match->after_count] = dup_line(s, at, (size_t) (stop - at));
        at = stop + 1;
    }
}

static void lower(char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] >= 'A' && bytes[i] <= 'Z')
            bytes[i] = (char) (bytes[i] | 0x20);
    }
}

/* `text` is shown, `folded` is compared: the same bytes, or in lower case. */
static int match_lines(struct searching *s, const char *path, const char *text, const char *folded, size_t len)
{
    const char *end = text + len, *counted = text;
    size_t needle_len = strlen(s->needle), at = 0;
    uint32_t number = 1;

    while (at < len) {
        const char *found = memmem(folded + at, len - at, s->needle, needle_len), *line, *after;
        struct file_search_match *match;
        int r;

        if (!found)
            return 0;
        line = text + (found - folded);
        after = line_end(line, end);
        while (line > text && line[-1] != '\n')
            line--;
        for (; counted < line; counted++)
            number += *counted == '\n';
        r = add_match(s, path, number, &match);
        if (r != 0)
            return r;
        match->line = dup_line(s, line, (size_t) (after - line));
        add_context(s, match, text, line, after, end);
        at = (size_t) (after - text) + 1;
    }
    return 0;
}

/* ---- content ---- */

/* Reads to the end, or until the time is up. */
static int read_pipe(struct searching *s, int pipe_fd, struct buf *out)
{
    struct pollfd fds[] = { { .fd = pipe_fd, .events = POLLIN }, { .fd = s->cancel_fd, .events = POLLIN } };

    for (;;) {
        int r = check_going_on(s);
        ssize_t n;

        if (r != 0)
            return r;
        if (poll(fds, 2, ms_left(s)) <= 0)
            continue;
        buf_room(out, PIECE);
        n = read(pipe_fd, out->data + out->len, PIECE);
        if (n < 0 && errno != EINTR)
            return err_errno(s->err, -errno, "reading a file");
        if (n == 0)
            return 0;
        out->len += n > 0 ? (size_t) n : 0;
        if (out->len > FILE_SEARCH_FILE_MAX)
            return err_set(s->err, ERR_INTERNAL, -EPROTO, "the sandbox's supervisor answers something else");
    }
}

/* Returns false if the file was not read: with `ret_end` 0 the search goes on, otherwise it ends with that result. */
static bool read_content(struct searching *s, const char *path, uint64_t size, struct buf *out, int *ret_end)
{
    struct ctl_reply reply;
    struct ctl_file file;
    autofd int pipe_fd = -1;
    int r = ctl_client_file_read(s->fd, TAG, path, 0, size, &file, &pipe_fd, s->payload, ms_left(s), s->err);

    if (r == 0) {
        s->is_busy = true;
        r = read_pipe(s, pipe_fd, out);
    }
    if (r == 0)
        r = ctl_client_await(s->fd, TAG, &reply, s->payload, ms_left(s), s->err);
    s->is_busy = r != 0 && r != -EREMOTEIO;
    if (r == -EREMOTEIO) {
        *s->err = ERR_NONE;
        *ret_end = 0;
        return false;
    }
    *ret_end = r == -ETIMEDOUT ? stop_at(s, FILE_SEARCH_TIME) : r;
    return r == 0;
}

static int search_content(struct searching *s, const char *path, uint64_t size)
{
    autodone(buf) struct buf content = BUF_EMPTY;
    autofree char *folded = NULL;
    int r = check_going_on(s);

    if (r != 0)
        return r;
    if (size > FILE_SEARCH_FILE_MAX) {
        s->result->skipped++;
        return 0;
    }
    if (size > s->bytes_left)
        return stop_at(s, FILE_SEARCH_BYTES);
    s->bytes_left -= size;
    if (size > 0 && !read_content(s, path, size, &content, &r)) {
        s->result->skipped += r == 0;
        return r;
    }
    if (content.len > 0 && memchr(content.data, '\0', content.len < BINARY_BYTES ? content.len : BINARY_BYTES)) {
        s->result->skipped++;
        return 0;
    }
    s->result->searched++;
    if (content.len == 0)
        return 0;
    if (s->search->ignores_case) {
        folded = xdupn(content.data, content.len);
        lower(folded, content.len);
    }
    return match_lines(s, path, content.data, folded ? folded : content.data, content.len);
}

static int search_file(struct searching *s, const char *path, const struct ctl_file *file)
{
    struct file_search_match *ignored;

    if (*s->search->glob && acceptance_check(&s->names, path, false).status != ACCEPTANCE_ACCEPTED)
        return 0;
    if (*s->needle)
        return file->kind == CTL_FILE_REGULAR ? search_content(s, path, file->size) : 0;
    s->result->searched++;
    return add_match(s, path, 0, &ignored);
}

/* ---- the walk ---- */

static int search_dir(struct searching *s, const char *dir, unsigned depth);

static int search_entry(struct searching *s, const char *dir, const struct ctl_file *file, unsigned depth)
{
    autofree char *path = strcmp(dir, ".") == 0 ? xdup(file->text) : xprintf("%s/%s", dir, file->text);

    if (file->kind != CTL_FILE_DIRECTORY)
        return search_file(s, path, file);
    if (strcmp(file->text, ".git") == 0)
        return 0;
    if (depth + 1 >= DEPTH_MAX || strlen(path) >= CTL_PATH_MAX) {
        s->result->skipped++;
        return 0;
    }
    return search_dir(s, path, depth + 1);
}

/* Copies a page of names, because the requests about these names reuse the buffer. */
static int search_page(struct searching *s, const char *dir, char last[NAME_MAX + 1], unsigned depth, bool *ret_has_more)
{
    struct ctl_listing listing;
    struct ctl_file file;
    autofree char *bytes = NULL;
    int r = ctl_client_file_list(s->fd, TAG, dir, last, &listing, s->payload, ms_left(s), s->err);

    *ret_has_more = false;
    /* The directory is gone, or may only be viewed: skip it. */
    if (r == -EREMOTEIO && depth > 0) {
        *s->err = ERR_NONE;
        return 0;
    }
    s->is_busy = r < 0 && r != -EREMOTEIO;
    if (r < 0)
        return r == -ETIMEDOUT ? stop_at(s, FILE_SEARCH_TIME) : r;
    *ret_has_more = listing.has_more;
    bytes = xdupn(listing.bytes ? (const char *) listing.bytes : "", listing.len);
    listing.bytes = (const uint8_t *) bytes;
    for (size_t at = 0; r == 0 && ctl_listing_next(&listing, &at, &file);) {
        memcpy(last, file.text, strlen(file.text) + 1);
        r = search_entry(s, dir, &file, depth);
    }
    return r;
}

static int search_dir(struct searching *s, const char *dir, unsigned depth)
{
    char last[NAME_MAX + 1] = "";
    bool has_more = true;
    int r = 0;

    while (r == 0 && has_more) {
        r = check_going_on(s);
        if (r == 0)
            r = search_page(s, dir, last, depth, &has_more);
    }
    return r;
}

static int search_from(struct searching *s, const char *path)
{
    struct ctl_file file;
    int r = ctl_client_file_stat(s->fd, TAG, path, &file, s->payload, ms_left(s), s->err);

    s->is_busy = r < 0 && r != -EREMOTEIO;
    if (r < 0)
        return r == -ETIMEDOUT ? stop_at(s, FILE_SEARCH_TIME) : r;
    return file.kind == CTL_FILE_DIRECTORY ? search_dir(s, path, 0) : search_file(s, path, &file);
}

/* ---- start ---- */

static int take_glob(struct searching *s, const char *glob)
{
    autofree char *floating = strchr(glob, '/') ? NULL : xprintf("**/%s", glob);

    if (!*glob)
        return 0;
    if (acceptance_add_glob(&s->names.allow, floating ? floating : glob) != 0)
        return err_reject(s->err, -EINVAL, glob, "is no pattern of names");
    return 0;
}

static int take_path(struct searching *s, const char *path, struct buf *clean)
{
    struct path_component component;

    for (const char *at = path, *end = path + strlen(path); path_next_component(&at, end, &component);) {
        if (path_component_is(&component, ".."))
            return err_reject(s->err, -EINVAL, path, "leaves the sandbox, or might");
    }
    if (strlen(path) >= CTL_PATH_MAX || path_clean(*path ? path : "/", *path ? strlen(path) : 1, clean) < 0)
        return err_reject(s->err, -EINVAL, path, "is no path");
    return 0;
}

int file_search_run(struct service *service, const struct caller *caller, const char *id, const struct file_search *search,
                    struct file_search_result *ret, struct err *err)
{
    autodone(searching) struct searching s = { .search = search,
                                               .result = ret,
                                               .fd = -1,
                                               .needle = xdup(search->text),
                                               .cancel_fd = caller->cancel_fd,
                                               .until_ns = clock_now_ns() + search->timeout_ns,
                                               .bytes_left = search->max_bytes,
                                               .err = err };
    autodone(buf) struct buf clean = BUF_EMPTY;
    int r;

    if (search->ignores_case)
        lower(s.needle, strlen(s.needle));
    r = take_glob(&s, search->glob);
    if (r == 0)
        r = take_path(&s, search->path, &clean);
    if (r == 0)
        r = sandboxes_find_conn(service, caller, id, &s.conn, err);
    if (r == 0)
        r = sandbox_conn_take_fd(s.conn, &s.fd, err);
    if (r < 0)
        return r;
    s.payload = malloc(FRAME_PAYLOAD_MAX);
    if (!s.payload)
        return err_errno(err, -ENOMEM, "searching");
    r = search_from(&s, clean.data[1] ? clean.data + 1 : ".");
    return r == STOP ? 0 : r;
}
