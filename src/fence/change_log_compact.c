#include "fence/change_log_compact.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fence/change_log_line.h"

/* What a line says of a path. Lines of one kind say the same to a reader. */
enum line_kind {
    LINE_CREATED,
    LINE_REMOVED,
    LINE_RENAMED_TO, /* the path is the target of a rename */
    LINE_WRITTEN,
    LINE_ATTRS,
    LINE_KINDS,
    LINE_REVERTED = LINE_KINDS, /* earlier lines do not count */
    LINE_OTHER,                 /* what a base file was, or a decision */
};

struct path_mention {
    size_t path; /* offset in compaction.paths */
    size_t line;
    enum line_kind kind;
};

struct compact_line {
    size_t at, len; /* includes its newline */
    bool stays;
};

struct compaction {
    const char *text; /* borrowed */
    struct buf paths; /* each NUL-terminated */
    struct compact_line *lines;
    size_t line_count, line_cap;
    struct path_mention *mentions;
    size_t mention_count, mention_cap;
    change_log_exists_fn is_there;
    void *cookie;
};

static enum line_kind line_kind_of(const char *change)
{
    static const struct {
        const char *name;
        enum line_kind kind;
    } kinds[] = { { "created", LINE_CREATED }, { "linked", LINE_CREATED }, { "deleted", LINE_REMOVED },
                  { "renamed", LINE_REMOVED }, { "attrs", LINE_ATTRS },    { "written", LINE_WRITTEN },
                  { "dropped", LINE_REVERTED } };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(change, kinds[i].name) == 0)
            return kinds[i].kind;
    }
    return LINE_OTHER;
}

static void compaction_add_mention(struct compaction *g, const struct buf *path, enum line_kind kind)
{
    vec_room(&g->mentions, &g->mention_cap, g->mention_count);
    g->mentions[g->mention_count++] = (struct path_mention){ g->paths.len, g->line_count - 1, kind };
    buf_add(&g->paths, path->data, path->len + 1);
}

/* Lines that no reader could use are dropped. */
static void compaction_add_line(struct compaction *g, size_t at, size_t len, int64_t young_ns)
{
    autodone(change_log_line) struct change_log_line line = CHANGE_LOG_LINE_EMPTY;
    enum line_kind kind;

    if (!change_log_line_parse(&line, g->text + at, len) || !line.change.data || !line.path.data || line.path.len == 0)
        return;
    kind = line_kind_of(line.change.data);
    vec_room(&g->lines, &g->line_cap, g->line_count);
    g->lines[g->line_count++] = (struct compact_line){ at, len + 1, line.time_ns > young_ns };
    compaction_add_mention(g, &line.path, kind);
    if (kind == LINE_REMOVED && line.to.len > 0)
        compaction_add_mention(g, &line.to, LINE_RENAMED_TO);
}

static int cmp_mention(const void *a, const void *b, void *cookie)
{
    const struct path_mention *x = a, *y = b;
    const char *paths = cookie;
    int r = strcmp(paths + x->path, paths + y->path);

    return r ? r : x->line < y->line ? -1 : x->line > y->line;
}

/* Keeps the first and the last line of each kind. */
static void compaction_keep_ends(struct compaction *g, const struct path_mention *some, size_t count)
{
    const struct path_mention *last[LINE_KINDS] = { NULL };

    for (size_t i = 0; i < count; i++) {
        if (some[i].kind >= LINE_KINDS)
            continue;
        if (!last[some[i].kind])
            g->lines[some[i].line].stays = true;
        last[some[i].kind] = &some[i];
    }
    for (size_t kind = 0; kind < LINE_KINDS; kind++) {
        if (last[kind])
            g->lines[last[kind]->line].stays = true;
    }
}

/* Handles all lines about one path. Nothing that was said before it last left the delta counts. */
static void select_lines_of_path(struct compaction *g, const struct path_mention *some, size_t count)
{
    size_t from = 0;
    bool is_open = false;

    for (size_t i = 0; i < count; i++) {
        if (some[i].kind == LINE_REVERTED)
            from = i;
    }
    for (size_t i = from; i < count; i++) {
        if (some[i].kind >= LINE_KINDS)
            g->lines[some[i].line].stays = true;
        is_open |= !g->lines[some[i].line].stays;
    }
    if (is_open && g->is_there(g->paths.data + some->path, g->cookie))
        compaction_keep_ends(g, some + from, count - from);
}

static void compaction_select_lines(struct compaction *g)
{
    if (g->mention_count > 0)
        qsort_r(g->mentions, g->mention_count, sizeof(*g->mentions), cmp_mention, g->paths.data);
    for (size_t i = 0, end; i < g->mention_count; i = end) {
        const char *path = g->paths.data + g->mentions[i].path;

        for (end = i + 1; end < g->mention_count && strcmp(path, g->paths.data + g->mentions[end].path) == 0;)
            end++;
        select_lines_of_path(g, &g->mentions[i], end - i);
    }
}

void change_log_compact(const char *text, size_t len, int64_t young_ns, change_log_exists_fn is_there, void *cookie,
                        struct buf *out)
{
    struct compaction g = { .text = text, .is_there = is_there, .cookie = cookie };
    const char *end;

    for (size_t at = 0; at < len && (end = memchr(text + at, '\n', len - at)); at = (size_t) (end - text) + 1)
        compaction_add_line(&g, at, (size_t) (end - text) - at, young_ns);
    compaction_select_lines(&g);
    for (size_t i = 0; i < g.line_count; i++) {
        if (g.lines[i].stays)
            buf_add(out, text + g.lines[i].at, g.lines[i].len);
    }
    buf_done(&g.paths);
    free(g.lines);
    free(g.mentions);
}
