#include "fence/gist.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fence/record_line.h"

/* What a line says of a path. Those of one kind tell a reader the same. */
enum kind {
    MADE,
    GONE,
    CAME, /* was renamed to it */
    WRITTEN,
    ATTRS,
    KINDS,
    DROPPED = KINDS, /* what was told before does not count */
    OTHER,           /* what a base file was, or what somebody decided */
};

struct mention {
    size_t path; /* where it begins in gist.paths */
    size_t line;
    enum kind kind;
};

struct gist_line {
    size_t at, len; /* with its newline */
    bool stays;
};

struct gist {
    const char *text; /* borrowed */
    struct buf paths; /* each ended by a NUL */
    struct gist_line *lines;
    size_t line_count, line_cap;
    struct mention *mentions;
    size_t mention_count, mention_cap;
    gist_there_fn is_there;
    void *cookie;
};

static enum kind kind_of(const char *change)
{
    static const struct {
        const char *name;
        enum kind kind;
    } kinds[] = { { "created", MADE }, { "linked", MADE },     { "deleted", GONE },   { "renamed", GONE },
                  { "attrs", ATTRS },  { "written", WRITTEN }, { "dropped", DROPPED } };

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (strcmp(change, kinds[i].name) == 0)
            return kinds[i].kind;
    }
    return OTHER;
}

static void mention(struct gist *g, const struct buf *path, enum kind kind)
{
    vec_room(&g->mentions, &g->mention_cap, g->mention_count);
    g->mentions[g->mention_count++] = (struct mention){ g->paths.len, g->line_count - 1, kind };
    buf_add(&g->paths, path->data, path->len + 1);
}

/* One from which no reader gets anything is none. */
static void take_line(struct gist *g, size_t at, size_t len, int64_t young_ns)
{
    autodone(record_line) struct record_line line = RECORD_LINE_EMPTY;
    enum kind kind;

    if (!record_line_parse(&line, g->text + at, len) || !line.change.data || !line.path.data || line.path.len == 0)
        return;
    kind = kind_of(line.change.data);
    vec_room(&g->lines, &g->line_cap, g->line_count);
    g->lines[g->line_count++] = (struct gist_line){ at, len + 1, line.time_ns > young_ns };
    mention(g, &line.path, kind);
    if (kind == GONE && line.to.len > 0)
        mention(g, &line.to, CAME);
}

static int by_path_and_line(const void *a, const void *b, void *cookie)
{
    const struct mention *x = a, *y = b;
    const char *paths = cookie;
    int r = strcmp(paths + x->path, paths + y->path);

    return r ? r : x->line < y->line ? -1 : x->line > y->line;
}

/* Of those of one kind, the first and the last. */
static void keep_ends(struct gist *g, const struct mention *some, size_t count)
{
    const struct mention *last[KINDS] = { NULL };

    for (size_t i = 0; i < count; i++) {
        if (some[i].kind >= KINDS)
            continue;
        if (!last[some[i].kind])
            g->lines[some[i].line].stays = true;
        last[some[i].kind] = &some[i];
    }
    for (size_t kind = 0; kind < KINDS; kind++) {
        if (last[kind])
            g->lines[last[kind]->line].stays = true;
    }
}

/* All of one path. What was said before it left the delta last, whatever it was, says nothing any more. */
static void judge(struct gist *g, const struct mention *some, size_t count)
{
    size_t from = 0;
    bool is_open = false;

    for (size_t i = 0; i < count; i++) {
        if (some[i].kind == DROPPED)
            from = i;
    }
    for (size_t i = from; i < count; i++) {
        if (some[i].kind >= KINDS)
            g->lines[some[i].line].stays = true;
        is_open |= !g->lines[some[i].line].stays;
    }
    if (is_open && g->is_there(g->paths.data + some->path, g->cookie))
        keep_ends(g, some + from, count - from);
}

static void judge_all(struct gist *g)
{
    if (g->mention_count > 0)
        qsort_r(g->mentions, g->mention_count, sizeof(*g->mentions), by_path_and_line, g->paths.data);
    for (size_t i = 0, end; i < g->mention_count; i = end) {
        const char *path = g->paths.data + g->mentions[i].path;

        for (end = i + 1; end < g->mention_count && strcmp(path, g->paths.data + g->mentions[end].path) == 0;)
            end++;
        judge(g, &g->mentions[i], end - i);
    }
}

void gist_of(const char *text, size_t len, int64_t young_ns, gist_there_fn is_there, void *cookie, struct buf *out)
{
    struct gist g = { .text = text, .is_there = is_there, .cookie = cookie };
    const char *end;

    for (size_t at = 0; at < len && (end = memchr(text + at, '\n', len - at)); at = (size_t) (end - text) + 1)
        take_line(&g, at, (size_t) (end - text) - at, young_ns);
    judge_all(&g);
    for (size_t i = 0; i < g.line_count; i++) {
        if (g.lines[i].stays)
            buf_add(out, text + g.lines[i].at, g.lines[i].len);
    }
    buf_done(&g.paths);
    free(g.lines);
    free(g.mentions);
}
