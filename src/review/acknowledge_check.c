#include "review/acknowledge_check.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/blob.h"

#define SOURCE_BYTES_MAX ((size_t) 256 << 10)
#define SOURCES_MAX 100
#define WORDS_MAX 20000
#define ATTRIBUTES_BYTES_MAX ((uint64_t) 1 << 20)

/* ---- commands named in hooks and CI files ---- */

/* Files, and directories of files, that name commands and scripts. */
static const struct {
    const char *path;
    bool is_dir;
    enum acknowledge reason;
} sources[] = {
    { ".husky", true, ACKNOWLEDGE_HOOK },
    { ".githooks", true, ACKNOWLEDGE_HOOK },
    { "hooks", true, ACKNOWLEDGE_HOOK },
    { "git-hooks", true, ACKNOWLEDGE_HOOK },
    { ".pre-commit-config.yaml", false, ACKNOWLEDGE_HOOK },
    { "lefthook.yml", false, ACKNOWLEDGE_HOOK },
    { "lefthook.yaml", false, ACKNOWLEDGE_HOOK },
    { ".lefthook.yml", false, ACKNOWLEDGE_HOOK },
    { ".agentfense/hooks.json", false, ACKNOWLEDGE_HOOK },
    { ".github/workflows", true, ACKNOWLEDGE_CI },
    { ".gitea/workflows", true, ACKNOWLEDGE_CI },
    { ".forgejo/workflows", true, ACKNOWLEDGE_CI },
    { ".gitlab-ci.yml", false, ACKNOWLEDGE_CI },
    { ".circleci/config.yml", false, ACKNOWLEDGE_CI },
    { ".travis.yml", false, ACKNOWLEDGE_CI },
    { ".cirrus.yml", false, ACKNOWLEDGE_CI },
    { "azure-pipelines.yml", false, ACKNOWLEDGE_CI },
    { "bitbucket-pipelines.yml", false, ACKNOWLEDGE_CI },
    { "Jenkinsfile", false, ACKNOWLEDGE_CI },
};

/* Files that a command runs without naming them. */
static const struct {
    const char *path, *command;
} entries[] = {
    { "makefile", "make" },       { "gnumakefile", "make" },         { "justfile", "just" },
    { ".justfile", "just" },      { "taskfile.yml", "task" },        { "taskfile.yaml", "task" },
    { "rakefile", "rake" },       { "noxfile.py", "nox" },           { "tox.ini", "tox" },
    { "gulpfile.js", "gulp" },    { "gruntfile.js", "grunt" },       { "build.gradle", "gradlew" },
    { "build.gradle", "gradle" }, { "build.gradle.kts", "gradlew" }, { "build.gradle.kts", "gradle" },
};

static const char *const shell_stdin_endings[] = { ".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl" };

static bool is_word_char(char c)
{
    return isalnum((unsigned char) c) || (c && strchr("_-./+@", c));
}

/* A path that begins with "./", or follows a variable, is taken as one from the root. Comments are skipped. */
static void add_words(struct acknowledge_check *check, const char *text, size_t len, enum acknowledge reason)
{
    for (size_t at = 0; at < len && check->word_count < WORDS_MAX;) {
        size_t end = at;
        if (text[at] == '#' && (at == 0 || isspace((unsigned char) text[at - 1]))) {
            const char *line_end = memchr(text + at, '\n', len - at);
            at = line_end ? (size_t) (line_end - text) : len;
            continue;
        }
        while (end < len && is_word_char(text[end]))
            end++;
        size_t begin = at;
        while (begin < end && (text[begin] == '/' || (text[begin] == '.' && begin + 1 < end && text[begin + 1] == '/')))
            begin++;
        if (end > begin) {
            vec_room(&check->words, &check->word_cap, check->word_count);
            check->words[check->word_count++] = (struct acknowledge_check_word){ xdupn(text + begin, end - begin), reason };
        }
        at = end + 1;
    }
}

static void read_source(struct acknowledge_check *check, const char *path, enum acknowledge reason)
{
    autodone(buf) struct buf text = BUF_EMPTY;

    if (file_read(check->edits->base_fd, path, SOURCE_BYTES_MAX, &text) >= 0)
        add_words(check, text.data ? text.data : "", text.len, reason);
}

static void read_sources_in(struct acknowledge_check *check, const char *path, enum acknowledge reason)
{
    autodirectory dir = directory_take(path_open_beneath(check->edits->base_fd, path, O_RDONLY | O_DIRECTORY, 0));
    size_t count = 0;

    for (const struct dirent *entry; count < SOURCES_MAX && (entry = directory_next(dir)); count++) {
        autofree char *child = xprintf("%s/%s", path, entry->d_name);
        read_source(check, child, reason);
    }
}

/* Of two equal words, the one that runs on this host comes first. */
static int by_word(const void *a, const void *b)
{
    const struct acknowledge_check_word *x = a, *y = b;
    int order = strcmp(x->text, y->text);

    return order ? order : (int) x->reason - (int) y->reason;
}

static void load_words(struct acknowledge_check *check)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        if (sources[i].is_dir)
            read_sources_in(check, sources[i].path, sources[i].reason);
        else
            read_source(check, sources[i].path, sources[i].reason);
    }
    if (check->word_count > 0)
        qsort(check->words, check->word_count, sizeof(*check->words), by_word);
}

static enum acknowledge find_word(const struct acknowledge_check *check, const char *text)
{
    for (enum acknowledge reason = ACKNOWLEDGE_HOOK; reason <= ACKNOWLEDGE_CI && check->word_count > 0; reason++) {
        struct acknowledge_check_word key = { (char *) (uintptr_t) text, reason };
        if (bsearch(&key, check->words, check->word_count, sizeof(*check->words), by_word))
            return reason;
    }
    return ACKNOWLEDGE_NOTHING;
}

static bool is_script(const struct edit *edit)
{
    size_t len = strlen(edit->path);

    if (((edit->now | edit->was.st_mode) & 0111) && !S_ISDIR(edit->now))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(shell_stdin_endings); i++) {
        size_t n = strlen(shell_stdin_endings[i]);
        if (len > n && strcasecmp(edit->path + len - n, shell_stdin_endings[i]) == 0)
            return true;
    }
    return false;
}

static enum acknowledge check_named(const struct acknowledge_check *check, const struct edit *edit)
{
    enum acknowledge reason = ACKNOWLEDGE_NOTHING;

    for (size_t i = 0; reason == ACKNOWLEDGE_NOTHING && i < ARRAY_LEN(entries); i++) {
        if (strcasecmp(edit->path, entries[i].path) == 0)
            reason = find_word(check, entries[i].command);
    }
    return reason == ACKNOWLEDGE_NOTHING && is_script(edit) ? find_word(check, edit->path) : reason;
}

/* ---- attributes ---- */

/* Git's built-in filters run no program. */
static bool is_built_in(const char *value, size_t len)
{
    static const char *const names[] = {
        "ada",    "bash", "bibtex", "cpp",    "csharp", "css",    "dts",    "elixir",   "fortran", "fountain",
        "golang", "html", "java",   "kotlin", "matlab", "objc",   "pascal", "perl",     "php",     "python",
        "ruby",   "rust", "scheme", "tex",    "text",   "binary", "union",  "markdown",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strlen(names[i]) == len && strncmp(value, names[i], len) == 0)
            return true;
    }
    return false;
}

/* The word names a driver, whose programs are in the user's git configuration, or removes a filter. */
static bool is_driver(const char *word, size_t len)
{
    if (len == 7 && (*word == '-' || *word == '!') && strncmp(word + 1, "filter", 6) == 0)
        return true;
    if (len > 7 && strncmp(word, "filter=", 7) == 0)
        return true;
    if (len > 5 && strncmp(word, "diff=", 5) == 0)
        return !is_built_in(word + 5, len - 5);
    return len > 6 && strncmp(word, "merge=", 6) == 0 && !is_built_in(word + 6, len - 6);
}

static void add_driver_lines(const struct buf *text, struct buf *out)
{
    const char *end = text->data + text->len;

    for (const char *line = text->data; line && line < end;) {
        const char *stop = memchr(line, '\n', (size_t) (end - line));
        bool has_driver = false;
        stop = stop ? stop : end;
        for (const char *at = line; at < stop;) {
            size_t len = 0;
            while (at + len < stop && !isspace((unsigned char) at[len]))
                len++;
            has_driver |= is_driver(at, len);
            at += len + 1;
        }
        if (has_driver && *line != '#') {
            buf_add(out, line, (size_t) (stop - line));
            buf_add_char(out, '\n');
        }
        line = stop + 1;
    }
}

/* A file that cannot be read, is too large or is a link counts as changed. */
static bool read_drivers(int dirfd, const char *path, mode_t mode, struct buf *out)
{
    autodone(blob) struct blob blob = BLOB_NONE;

    if (mode == 0 || S_ISDIR(mode))
        return true;
    if (!S_ISREG(mode) || blob_read(dirfd, path, mode, ATTRIBUTES_BYTES_MAX, NULL, &blob) < 0 ||
        blob.size_bytes > ATTRIBUTES_BYTES_MAX)
        return false;
    add_driver_lines(&blob.bytes, out);
    return true;
}

static bool is_attributes(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strcasecmp(slash ? slash + 1 : path, ".gitattributes") == 0;
}

static enum acknowledge check_attributes(const struct acknowledge_check *check, const struct edit *edit)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY;
    const struct edit_list *edits = check->edits;

    if (!is_attributes(edit->path))
        return ACKNOWLEDGE_NOTHING;
    if (read_drivers(edits->base_fd, edit->path, edit->was.st_mode, &was) &&
        read_drivers(edits->delta.data_fd, edit->path, edit->now, &now) && was.len == now.len &&
        (was.len == 0 || memcmp(was.data, now.data, was.len) == 0))
        return ACKNOWLEDGE_NOTHING;
    return ACKNOWLEDGE_HOOK;
}

/* ---- judging a change ---- */

int acknowledge_check_init(struct acknowledge_check *check, const struct edit_list *edits, const char *prefix, struct err *err)
{
    int r;

    *check = (struct acknowledge_check){ .edits = edits, .prefix = xdup(prefix) };
    repository_parts_init(&check->repositories, edits);
    r = link_names_load(edits, check->prefix, &check->links, err);
    if (r == 0 && edits->count > 0)
        load_words(check);
    if (r < 0)
        acknowledge_check_done(check);
    return r;
}

void acknowledge_check_done(struct acknowledge_check *check)
{
    for (size_t i = 0; i < check->word_count; i++)
        free(check->words[i].text);
    free(check->words);
    free(check->prefix);
    link_names_done(&check->links);
    repository_parts_done(&check->repositories);
    *check = (struct acknowledge_check){ 0 };
}

/* A link whose target could not be read may lead anywhere. */
static enum acknowledge check_link(const struct acknowledge_check *check, const struct edit *edit)
{
    autodone(blob) struct blob blob = BLOB_NONE;

    if (!S_ISLNK(edit->now))
        return ACKNOWLEDGE_NOTHING;
    if (blob_read(check->edits->delta.data_fd, edit->path, edit->now, 0, NULL, &blob) < 0)
        return ACKNOWLEDGE_LINK;
    return acknowledge_link(edit->path, blob.bytes.data ? blob.bytes.data : "", blob.bytes.len);
}

enum acknowledge acknowledge_check_edit(const struct acknowledge_check *check, const struct edit *edit, const struct edit *from)
{
    autofree char *path = xprintf("%s%s%s", check->prefix, *check->prefix ? "/" : "", edit->path);
    bool is_all, is_link = S_ISLNK(edit->now) || S_ISLNK(edit->was.st_mode);
    enum acknowledge reason;

    if (!edit_is_file(edit))
        return ACKNOWLEDGE_NOTHING;
    reason = acknowledge_file(path);
    if (reason == ACKNOWLEDGE_NOTHING && is_link)
        reason = acknowledge_directory(path, &is_all);
    if (reason == ACKNOWLEDGE_NOTHING)
        reason = check_link(check, edit);
    if (reason == ACKNOWLEDGE_NOTHING)
        reason = link_names_check(&check->links, edit->path, is_link);
    if (reason == ACKNOWLEDGE_NOTHING && repository_parts_hold(&check->repositories, edit->path))
        reason = ACKNOWLEDGE_GIT;
    if (reason == ACKNOWLEDGE_NOTHING)
        reason = check_attributes(check, edit);
    if (reason == ACKNOWLEDGE_NOTHING)
        reason = check_named(check, edit);
    return reason == ACKNOWLEDGE_NOTHING && from ? acknowledge_check_edit(check, from, NULL) : reason;
}
