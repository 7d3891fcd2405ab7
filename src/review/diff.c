#include "review/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "review/hunk.h"

#define BINARY_LOOK 8000 /* as far as git looks for a NUL */

/* One side of a comparison. */
struct side {
    mode_t mode; /* 0: nothing there */
    uint64_t size_bytes;
    struct buf bytes;
};

struct making {
    const struct edit_list *list;
    const struct edit *edit;
    bool is_exact;
    struct diff out;
};

/* ---- text ---- */

static bool is_plain(const char *name)
{
    autodone(buf) struct buf escaped = BUF_EMPTY;

    buf_add_escaped(&escaped, name, strlen(name));
    return strcmp(escaped.data, name) == 0 && !strpbrk(name, "\"\\");
}

/* "a/src/x.c", or in quotes with C escapes as git writes names it finds unusual. */
static void add_name(struct buf *out, const char *prefix, const char *name)
{
    if (is_plain(name)) {
        buf_addf(out, "%s%s", prefix, name);
        return;
    }
    buf_addf(out, "\"%s", prefix);
    for (const unsigned char *p = (const unsigned char *) name; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_addf(out, "\\%c", *p);
        else if (*p == '\n' || *p == '\t')
            buf_add_str(out, *p == '\n' ? "\\n" : "\\t");
        else if (*p < 0x20 || *p >= 0x7F)
            buf_addf(out, "\\%03o", *p);
        else
            buf_add_char(out, (char) *p);
    }
    buf_add_char(out, '"');
}

/* Runs of plain ASCII go in one piece; the backslash stands for itself here, as nobody will read the escapes back. */
static void add_safe(struct buf *out, const char *s, size_t len)
{
    while (len > 0) {
        size_t n = 0;
        uint32_t c;

        while (n < len && ((s[n] >= 0x20 && s[n] < 0x7F) || s[n] == '\t' || s[n] == '\n'))
            n++;
        buf_add(out, s, n);
        s += n;
        len -= n;
        if (len == 0)
            return;
        n = utf8_decode(s, len, &c);
        n = n ? n : 1;
        if (len >= 2 && s[0] == '\r' && s[1] == '\n')
            buf_add_char(out, '\r');
        else
            buf_add_escaped(out, s, n);
        s += n;
        len -= n;
    }
}

/* ---- hunks ---- */

static void add_hunks(struct making *m, const struct hunk_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct hunk *hunk = &list->items[i];
        m->out.added += hunk->added;
        m->out.removed += hunk->removed;
        buf_addf(&m->out.text, "%s\n", hunk->header);
        if (m->is_exact)
            buf_add(&m->out.text, hunk->lines.data, hunk->lines.len);
        else
            add_safe(&m->out.text, hunk->lines.data, hunk->lines.len);
    }
}

/* ---- the sides ---- */

static int read_link(int dirfd, const char *path, struct buf *out)
{
    autofd int fd = path_open_beneath(dirfd, path, O_PATH, 0);
    char target[PATH_MAX];
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target));

    if (n < 0)
        return fd < 0 ? fd : -errno;
    buf_add(out, target, (size_t) n);
    return 0;
}

static int read_side(int dirfd, const char *path, struct side *side, struct err *err)
{
    int r = 0;

    if (S_ISLNK(side->mode))
        r = read_link(dirfd, path, &side->bytes);
    else if (S_ISREG(side->mode) && side->size_bytes <= DIFF_FILE_MAX)
        r = file_read(dirfd, path, DIFF_FILE_MAX, &side->bytes);
    if (r == -EFBIG) { /* it has grown */
        side->size_bytes = DIFF_FILE_MAX + 1;
        buf_clear(&side->bytes);
        r = 0;
    }
    if (r == 0)
        return 0;
    autodone(buf) struct buf shown = BUF_EMPTY;
    buf_add_excerpt(&shown, path, strlen(path));
    return err_errno(err, r, "reading '%s'", shown.data);
}

static bool is_binary(const struct side *side)
{
    return side->bytes.data && memchr(side->bytes.data, 0, side->bytes.len < BINARY_LOOK ? side->bytes.len : BINARY_LOOK);
}

/* Git knows three modes of files. */
static const char *mode_text(mode_t mode)
{
    if (S_ISLNK(mode))
        return "120000";
    return mode & 0111 ? "100755" : "100644";
}

static void add_head(struct making *m, const struct side *old, const struct side *new)
{
    struct buf *out = &m->out.text;

    buf_add_str(out, "diff --git ");
    add_name(out, "a/", m->edit->path);
    buf_add_char(out, ' ');
    add_name(out, "b/", m->edit->path);
    buf_add_char(out, '\n');
    if (!old->mode)
        buf_addf(out, "new file mode %s\n", mode_text(new->mode));
    else if (!new->mode)
        buf_addf(out, "deleted file mode %s\n", mode_text(old->mode));
    else if (strcmp(mode_text(old->mode), mode_text(new->mode)) != 0)
        buf_addf(out, "old mode %s\nnew mode %s\n", mode_text(old->mode), mode_text(new->mode));
    else if (((old->mode ^ new->mode) & 0777) && !m->is_exact) /* finer than git tells, and nothing it would take */
        buf_addf(out, "# mode %04o, was %04o\n", (unsigned) new->mode & 0777, (unsigned) old->mode & 0777);
}

static void add_names(struct making *m, const struct side *old, const struct side *new, const char *before_old,
                      const char *between, const char *after)
{
    struct buf *out = &m->out.text;

    buf_add_str(out, before_old);
    if (old->mode)
        add_name(out, "a/", m->edit->path);
    else
        buf_add_str(out, "/dev/null");
    buf_add_str(out, between);
    if (new->mode)
        add_name(out, "b/", m->edit->path);
    else
        buf_add_str(out, "/dev/null");
    buf_add_str(out, after);
}

static int tell_sizes(struct making *m, const struct side *old, const struct side *new)
{
    m->out.is_too_large = true;
    add_names(m, old, new, "Files ", " and ", " are too large to compare");
    buf_addf(&m->out.text, ": %" PRIu64 " and %" PRIu64 " bytes\n", old->size_bytes, new->size_bytes);
    return 0;
}

static int compare(struct making *m, const struct side *old, const struct side *new, struct err *err)
{
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    int r;

    add_head(m, old, new);
    if (old->size_bytes > DIFF_FILE_MAX || new->size_bytes > DIFF_FILE_MAX)
        return tell_sizes(m, old, new);
    if (old->bytes.len == new->bytes.len &&
        (old->bytes.len == 0 || memcmp(old->bytes.data, new->bytes.data, old->bytes.len) == 0))
        return 0;
    if (is_binary(old) || is_binary(new)) {
        m->out.is_binary = true;
        add_names(m, old, new, "Binary files ", " and ", " differ\n");
        return 0;
    }
    r = hunk_list_make(old->bytes.data, old->bytes.len, new->bytes.data, new->bytes.len, &list, err);
    if (r == -EFBIG) /* too many lines */
        return tell_sizes(m, old, new);
    if (r < 0)
        return r;
    add_names(m, old, new, "--- ", "\n+++ ", "\n");
    add_hunks(m, &list);
    return 0;
}

/* The mode alone: no content is read for that. */
static void compare_modes(struct making *m, const struct side *old, const struct side *new)
{
    if (!m->is_exact || strcmp(mode_text(old->mode), mode_text(new->mode)) != 0)
        add_head(m, old, new);
}

/* A file that became a link is one file deleted and another added, as git has it. */
static int make(struct making *m, struct side *old, struct side *new, struct err *err)
{
    const struct side nothing = { .mode = 0 };
    int r = read_side(m->list->base_fd, m->edit->path, old, err);

    if (r == 0)
        r = read_side(m->list->delta.data_fd, m->edit->path, new, err);
    if (r < 0)
        return r;
    if (!old->mode || !new->mode || !((old->mode ^ new->mode) & S_IFMT))
        return old->mode || new->mode ? compare(m, old, new, err) : 0;
    r = compare(m, old, &nothing, err);
    return r == 0 ? compare(m, &nothing, new, err) : r;
}

int diff_make(const struct edit_list *list, const struct edit *edit, bool is_exact, struct diff *ret, struct err *err)
{
    struct making m = { list, edit, is_exact, DIFF_NONE };
    struct side old = { edit->was.st_mode, (uint64_t) edit->was.st_size, BUF_EMPTY };
    struct side new = { edit->now, edit->now_bytes, BUF_EMPTY };
    int r = 0;

    /* Git knows no directories. */
    if (!S_ISREG(old.mode) && !S_ISLNK(old.mode))
        old = (struct side){ .mode = 0 };
    if (!S_ISREG(new.mode) && !S_ISLNK(new.mode))
        new = (struct side){ .mode = 0 };
    if (edit->kind != CHANGE_MODE)
        r = make(&m, &old, &new, err);
    else if (old.mode && new.mode)
        compare_modes(&m, &old, &new);
    buf_done(&old.bytes);
    buf_done(&new.bytes);
    if (r < 0) {
        diff_done(&m.out);
        return r;
    }
    *ret = m.out;
    return 0;
}

void diff_done(struct diff *diff)
{
    buf_done(&diff->text);
    *diff = DIFF_NONE;
}
