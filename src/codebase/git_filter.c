#include "codebase/git_filter.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"

enum { MARK_HEAD = 1, MARK_OBJECTS = 2, MARK_REFS = 4, MARK_COMMONDIR = 8 };

static const struct {
    const char *name;
    unsigned mark;
} marks[] = { { "HEAD", MARK_HEAD }, { "objects", MARK_OBJECTS }, { "refs", MARK_REFS }, { "commondir", MARK_COMMONDIR } };

/* The parts of a `.git` that contain history or state; directories with everything beneath. */
static const char *const history[] = {
    "HEAD",
    "objects",
    "refs",
    "packed-refs",
    "index",
    "logs",
    "ORIG_HEAD",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "MERGE_MSG",
    "lfs",
    "MERGE_MODE",
    "shallow",
    "AUTO_MERGE",
    "description",
    "COMMIT_EDITMSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "info/exclude",
    "info/refs",
    "info/sparse-checkout",
};

static bool is_named(const struct path_component *c, const char *name)
{
    return strlen(name) == c->len && strncasecmp(c->name, name, c->len) == 0;
}

static char *lowercase_copy(const char *text, size_t len)
{
    char *copy = xdupn(text, len);

    for (char *c = copy; *c; c++)
        *c = (char) tolower((unsigned char) *c);
    return copy;
}

void git_filter_init(struct git_filter *filter, int to_dirfd, const char *path)
{
    *filter = (struct git_filter){ .to_dirfd = to_dirfd, .path = path };
}

void git_filter_done(struct git_filter *filter)
{
    for (size_t i = 0; i < filter->count; i++)
        free(filter->directories[i].path);
    free(filter->directories);
    buf_done(&filter->left_out);
    buf_done(&filter->links);
}

static void name_one(struct buf *names, size_t *count, const char *path, const char *more)
{
    if ((*count)++ >= GIT_FILTER_NAMED_MAX)
        return;
    buf_add_str(names, *count > 1 ? ", " : "");
    buf_add_excerpt(names, path, strlen(path));
    buf_add_str(names, more);
}

/* `is_dir` is about the entry itself; a HEAD that is a directory does not count. */
static void note_marks(struct git_filter *filter, const char *path, bool is_dir)
{
    const char *end = path + strlen(path);
    struct path_component c;

    for (const char *at = path; path_next_component(&at, end, &c);) {
        for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
            if (!is_named(&c, marks[i].name) || (marks[i].mark == MARK_HEAD && (is_dir || c.name + c.len < end)))
                continue;
            vec_room(&filter->directories, &filter->cap, filter->count);
            filter->directories[filter->count++] =
                (struct git_filter_directory){ lowercase_copy(path, (size_t) (c.name - path)), marks[i].mark };
        }
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct git_filter_directory *) a)->path, ((const struct git_filter_directory *) b)->path);
}

/* Sorts the directories and merges duplicates. */
static void sort_marks(struct git_filter *filter)
{
    size_t kept = 0;

    if (filter->count > 0)
        qsort(filter->directories, filter->count, sizeof(*filter->directories), by_path);
    for (size_t i = 0; i < filter->count; i++) {
        if (kept > 0 && by_path(&filter->directories[kept - 1], &filter->directories[i]) == 0) {
            filter->directories[kept - 1].marks |= filter->directories[i].marks;
            free(filter->directories[i].path);
        } else {
            filter->directories[kept++] = filter->directories[i];
        }
    }
    filter->count = kept;
}

static bool is_here(const struct git_filter *filter, const char *directory, const char *name)
{
    autofree char *path = xprintf("%s%s", directory, name);
    autofd int fd = path_open_beneath(filter->to_dirfd, path, O_PATH, 0);

    return fd >= 0 || !path_is_absent(fd);
}

/* Returns true if the entry must be left out so that its directory does not become a repository: a HEAD, or a mark beside an
 * existing HEAD. */
static bool is_mark_of_repository(const struct git_filter *filter, const char *path)
{
    const char *end = path + strlen(path);
    struct path_component c;

    for (const char *at = path; path_next_component(&at, end, &c);) {
        unsigned mark = 0, found = 0;
        for (size_t i = 0; i < ARRAY_LEN(marks); i++)
            mark |= is_named(&c, marks[i].name) ? marks[i].mark : 0;
        if (!mark || filter->count == 0)
            continue;
        autofree char *directory = xdupn(path, (size_t) (c.name - path)),
                      *key_path = lowercase_copy(path, (size_t) (c.name - path));
        struct git_filter_directory key = { .path = key_path };
        const struct git_filter_directory *made = bsearch(&key, filter->directories, filter->count, sizeof(key), by_path);
        found = made ? made->marks : 0;
        bool has_head = is_here(filter, directory, "HEAD");
        for (size_t i = 0; i < ARRAY_LEN(marks); i++)
            found |= !(found & marks[i].mark) && is_here(filter, directory, marks[i].name) ? marks[i].mark : 0;
        if (!(found & MARK_HEAD) || !(found & ~(unsigned) MARK_HEAD))
            continue;
        if ((mark == MARK_HEAD && c.name + c.len == end) || mark == MARK_COMMONDIR || (has_head && mark != MARK_HEAD))
            return true;
    }
    return false;
}

static bool is_history(const char *rest)
{
    for (size_t i = 0; i < ARRAY_LEN(history); i++) {
        size_t len = strlen(history[i]);
        if (strncmp(rest, history[i], len) == 0 && (rest[len] == '\0' || rest[len] == '/'))
            return strcasecmp(rest, "objects/info/alternates") != 0 && strcasecmp(rest, "objects/info/http-alternates") != 0;
    }
    return false;
}

/* Returns the part behind the last component `.git` of a path, or NULL. */
static const char *rest_in_git(const char *path)
{
    const char *end = path + strlen(path), *rest = NULL;
    struct path_component c;

    for (const char *at = path; path_next_component(&at, end, &c);) {
        if (is_named(&c, ".git"))
            rest = c.name + c.len + (c.name + c.len < end);
    }
    return rest;
}

/* Also leaves out `modules`, the repositories of submodules, and `worktrees`: each has its own configuration and hooks. */
static enum extract_verdict decide_in_git(const char *rest, mode_t type)
{
    if (S_ISDIR(type))
        return is_history(rest) || !*rest || strncmp(rest, "info", 5) == 0 ? EXTRACT_KEEP : EXTRACT_SKIP;
    if (!S_ISREG(type))
        return EXTRACT_SKIP;
    if (strcmp(rest, "config") == 0)
        return EXTRACT_REWRITE;
    return is_history(rest) ? EXTRACT_KEEP : EXTRACT_SKIP;
}

static bool leads_out(const char *path, const char *target)
{
    const char *end = target + strlen(target);
    size_t depth = 0, climbed = 0;
    bool has_name = false;
    struct path_component c;

    for (const char *p = path; *p; p++)
        depth += *p == '/';
    if (*target == '/')
        return true;
    for (const char *at = target; path_next_component(&at, end, &c);) {
        if (path_component_is(&c, "."))
            continue;
        if (!path_component_is(&c, ".."))
            has_name = true;
        else if (has_name || ++climbed > depth) /* the name before ".." may be a link to another directory */
            return true;
    }
    return false;
}

static enum extract_verdict scan_entry(const char *path, mode_t type, const char *target, void *cookie)
{
    (void) target;
    note_marks(cookie, path, S_ISDIR(type));
    return EXTRACT_SKIP;
}

static enum extract_verdict decide_entry(const char *path, mode_t type, const char *target, void *cookie)
{
    struct git_filter *filter = cookie;
    autofree char *full = xprintf("%s%s%s", filter->path, *filter->path ? "/" : "", path);
    const char *rest = rest_in_git(full);
    enum extract_verdict verdict = EXTRACT_KEEP;

    if (rest)
        verdict = decide_in_git(rest, type);
    else if (is_mark_of_repository(filter, path))
        verdict = EXTRACT_SKIP;
    if (verdict == EXTRACT_SKIP && !S_ISDIR(type))
        name_one(&filter->left_out, &filter->left_out_count, path, "");
    if (verdict == EXTRACT_KEEP && S_ISLNK(type) && leads_out(path, target))
        name_one(&filter->links, &filter->link_count, path, "");
    return verdict;
}

static void rewrite_entry(const char *path, struct buf *bytes, void *cookie)
{
    struct git_filter *filter = cookie;
    autodone(buf) struct buf kept = BUF_EMPTY, dropped = BUF_EMPTY;

    git_filter_config(bytes->data ? bytes->data : "", bytes->len, &kept, &dropped);
    buf_clear(bytes);
    buf_add(bytes, kept.data ? kept.data : "", kept.len);
    if (dropped.len == 0)
        return;
    autodone(buf) struct buf shown = BUF_EMPTY;
    buf_add_str(&shown, " (");
    buf_add_excerpt(&shown, dropped.data, dropped.len);
    buf_add_char(&shown, ')');
    name_one(&filter->left_out, &filter->left_out_count, path, shown.data);
}

struct extract_filter git_filter_scan(struct git_filter *filter)
{
    return (struct extract_filter){ .decide = scan_entry, .cookie = filter };
}

struct extract_filter git_filter_apply(struct git_filter *filter)
{
    sort_marks(filter);
    return (struct extract_filter){ .decide = decide_entry, .rewrite = rewrite_entry, .cookie = filter };
}

/* Sections and the keys in them, in lower case; a star stands for a subsection. */
static const struct {
    const char *section, *key;
    bool is_url;
} keys[] = {
    { "core", "repositoryformatversion", false },
    { "core", "filemode", false },
    { "core", "bare", false },
    { "core", "logallrefupdates", false },
    { "core", "ignorecase", false },
    { "core", "precomposeunicode", false },
    { "core", "symlinks", false },
    { "core", "autocrlf", false },
    { "core", "eol", false },
    { "extensions", "objectformat", false },
    { "user", "name", false },
    { "user", "email", false },
    { "init", "defaultbranch", false },
    { "remote.*", "url", true },
    { "remote.*", "pushurl", true },
    { "remote.*", "fetch", false },
    { "branch.*", "remote", false },
    { "branch.*", "merge", false },
    { "submodule.*", "url", true },
    { "submodule.*", "active", false },
};

/* Other URLs can start programs: "ext::sh -c ...", or a host name that ssh parses as an option. A path could name a repository
 * with malicious hooks. */
static bool is_plain_url(const char *value)
{
    static const char *const schemes[] = { "https://", "http://", "ssh://", "git://" };
    const char *host = NULL;

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        size_t len = strlen(schemes[i]);
        if (strncmp(value, schemes[i], len) == 0)
            host = value + len;
    }
    if (!host && strchr(value, '@') && strchr(strchr(value, '@'), ':') && !strstr(value, "::"))
        host = value;
    return host && isalnum((unsigned char) *host) && !strstr(host, "@-");
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && isblank((unsigned char) *at))
        at++;
    return at;
}

static bool is_plain_text(const char *text)
{
    for (; *text; text++) {
        if (iscntrl((unsigned char) *text) || strchr("\"\\;#[]", *text))
            return false;
    }
    return true;
}

/* Accepts "[name]" or "[name "sub"]" with nothing behind it. No key is kept from any other section. */
static void read_section(const char *line, const char *end, struct buf *section, struct buf *header)
{
    const char *close = memrchr(line, ']', (size_t) (end - line));
    autofree char *text =
        close && skip_blanks(close + 1, end) == end ? xdupn(line + 1, (size_t) (close - line - 1)) : xdup("?");
    char *quote = strchr(text, '"'), *last = strrchr(text, '"');

    buf_clear(section);
    buf_clear(header);
    if (quote && (quote == last || last[1] || quote == text))
        quote = text; /* leaves an empty name */
    else if (quote)
        *last = '\0';
    for (const char *c = text; *c && c != quote && !isblank((unsigned char) *c); c++)
        buf_add_char(section, (char) tolower((unsigned char) *c));
    buf_addf(header, "[%s", section->data ? section->data : "");
    if (quote && quote != text && is_plain_text(quote + 1)) {
        buf_add_str(section, ".*");
        buf_addf(header, " \"%s\"", quote + 1);
    } else if (quote) {
        buf_add_str(section, "?");
    }
    buf_add_str(header, "]");
}

static bool is_kept(const char *section, const char *key, const char *value)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].key, key) == 0)
            return is_plain_text(value) && (!keys[i].is_url || is_plain_url(value));
    }
    return false;
}

/* Understands only the plainest form: values with quotes, escapes or continuation lines are dropped. */
static void filter_key(const char *line, const char *end, const struct buf *section, struct buf *header, struct buf *out,
                       struct buf *dropped)
{
    size_t len = 0;

    while (line + len < end && (isalnum((unsigned char) line[len]) || line[len] == '-'))
        len++;
    autofree char *key = lowercase_copy(line, len);
    const char *at = skip_blanks(line + len, end);
    bool has_value = at < end && *at == '=';
    const char *begin = has_value ? skip_blanks(at + 1, end) : end;
    while (end > begin && isspace((unsigned char) end[-1]))
        end--;
    autofree char *value = xdupn(begin, (size_t) (end - begin));
    if (len > 0 && has_value && section->data && is_kept(section->data, key, value)) {
        if (header->len > 0)
            buf_addf(out, "%s\n", header->data);
        buf_clear(header);
        buf_addf(out, "\t%s = %s\n", key, value);
        return;
    }
    buf_addf(dropped, "%s%s.%s", dropped->len ? " " : "", section->data ? section->data : "", key);
}

void git_filter_config(const char *text, size_t len, struct buf *out, struct buf *dropped)
{
    autodone(buf) struct buf section = BUF_EMPTY, header = BUF_EMPTY;
    const char *end = text + len;
    bool goes_on = false;

    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t) (end - line));
        stop = stop ? stop : end;
        const char *at = skip_blanks(line, stop), *last = stop;
        while (last > at && isspace((unsigned char) last[-1]))
            last--;
        bool is_continued = goes_on;
        goes_on = last > at && last[-1] == '\\';
        if (is_continued)
            ; /* continues a dropped line */
        else if (at < last && *at == '[')
            read_section(at, last, &section, &header);
        else if (at < last && *at != '#' && *at != ';')
            filter_key(at, last, &section, &header, out, dropped);
        line = stop + 1;
    }
}
