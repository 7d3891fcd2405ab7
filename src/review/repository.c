#include "review/repository.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/path.h"

enum { PART_HEAD = 1, PART_OBJECTS = 2, PART_REFS = 4, PART_COMMONDIR = 8, PART_CONFIG = 16 };

/* `is_file`: git does not accept a directory of this name. */
static const struct {
    const char *name;
    unsigned part;
    bool is_file;
} marks[] = {
    { "HEAD", PART_HEAD, true },     { "objects", PART_OBJECTS, false },
    { "refs", PART_REFS, false },    { "commondir", PART_COMMONDIR, false },
    { "config", PART_CONFIG, true },
};

/* What git reads in such a directory. */
static const char *const contents[] = {
    "HEAD",      "config", "config.worktree", "hooks",   "objects",   "refs",   "info",
    "commondir", "index",  "packed-refs",     "modules", "worktrees", "gitdir", "shallow",
};

static bool is_named(const struct path_component *c, const char *name)
{
    return strlen(name) == c->len && strncasecmp(c->name, name, c->len) == 0;
}

static char *lower_directory(const char *path, size_t len)
{
    char *directory = xdupn(path, len);

    for (char *c = directory; *c; c++)
        *c = (char) tolower((unsigned char) *c);
    return directory;
}

/* ---- paths in the changes ---- */

static void note_parts(struct repository_parts *parts, const struct edit *edit)
{
    const char *end = edit->path + strlen(edit->path);
    struct path_component c;

    for (const char *at = edit->path; path_next_component(&at, end, &c);) {
        bool is_dir = c.name + c.len < end || S_ISDIR(edit->now);
        for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
            if (!is_named(&c, marks[i].name) || (marks[i].is_file && is_dir))
                continue;
            vec_room(&parts->items, &parts->cap, parts->count);
            parts->items[parts->count++] =
                (struct repository_part){ lower_directory(edit->path, (size_t) (c.name - edit->path)), marks[i].part };
        }
    }
}

static int by_directory(const void *a, const void *b)
{
    return strcmp(((const struct repository_part *) a)->directory, ((const struct repository_part *) b)->directory);
}

void repository_parts_init(struct repository_parts *parts, const struct edit_list *edits)
{
    size_t kept = 0;

    *parts = (struct repository_parts){ .base_fd = edits->base_fd };
    for (size_t i = 0; i < edits->count; i++) {
        if (edits->items[i].now)
            note_parts(parts, &edits->items[i]);
    }
    if (parts->count > 0)
        qsort(parts->items, parts->count, sizeof(*parts->items), by_directory);
    for (size_t i = 0; i < parts->count; i++) {
        if (kept > 0 && by_directory(&parts->items[kept - 1], &parts->items[i]) == 0) {
            parts->items[kept - 1].parts |= parts->items[i].parts;
            free(parts->items[i].directory);
        } else {
            parts->items[kept++] = parts->items[i];
        }
    }
    parts->count = kept;
}

void repository_parts_done(struct repository_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        free(parts->items[i].directory);
    free(parts->items);
    *parts = (struct repository_parts){ .base_fd = -1 };
}

/* ---- judging a path ---- */

static bool is_in_base(int base_fd, const char *directory, const char *name, bool is_file)
{
    autofree char *path = xprintf("%s%s", directory, name);
    autofd int fd = path_open_beneath(base_fd, path, O_PATH, 0);
    struct stat st;

    if (fd < 0)
        return !path_is_absent(fd); /* unknown: better ask once too often */
    return !is_file || (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode));
}

static bool is_repository(const struct repository_parts *parts, const char *path, size_t len)
{
    autofree char *directory = xdupn(path, len), *lower = lower_directory(path, len);
    struct repository_part key = { .directory = lower }, *made = NULL;
    unsigned found = 0;

    if (parts->count > 0)
        made = bsearch(&key, parts->items, parts->count, sizeof(*parts->items), by_directory);
    if (made)
        found = made->parts;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        if (!(found & marks[i].part) && is_in_base(parts->base_fd, directory, marks[i].name, marks[i].is_file))
            found |= marks[i].part;
    }
    if ((found & PART_HEAD) && (found & (PART_OBJECTS | PART_REFS | PART_COMMONDIR)))
        return true;
    return (found & (PART_CONFIG | PART_OBJECTS | PART_REFS)) == (PART_CONFIG | PART_OBJECTS | PART_REFS);
}

bool repository_parts_hold(const struct repository_parts *parts, const char *path)
{
    const char *end = path + strlen(path);
    struct path_component c;

    for (const char *at = path; path_next_component(&at, end, &c);) {
        for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
            if (is_named(&c, contents[i]) && is_repository(parts, path, (size_t) (c.name - path)))
                return true;
        }
    }
    return false;
}
