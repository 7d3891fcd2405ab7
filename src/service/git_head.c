#include "service/git_head.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#define FILE_MAX (4u << 20)
#define DEPTH_MAX 128
#define REFS_MAX 5

static bool read_text(const char *dir, const char *name, struct buf *ret)
{
    autofree char *path = xprintf("%s/%s", dir, name);
    autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    buf_clear(ret);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fd_read_all(fd, FILE_MAX, ret) < 0 || !ret->data)
        return false;
    ret->data[strcspn(ret->data, "\r\n")] = '\0';
    return true;
}

static bool is_hash(const char *text)
{
    size_t len = strspn(text, "0123456789abcdef");

    return (len == 40 || len == 64) && (text[len] == '\0' || text[len] == ' ');
}

static bool take_hash(const char *text, char ret[GIT_HEAD_MAX])
{
    if (!is_hash(text))
        return false;
    snprintf(ret, GIT_HEAD_MAX, "%.*s", (int) strspn(text, "0123456789abcdef"), text);
    return true;
}

/* The directory of the repository, from where the path is upwards. NULL: none. */
static char *find_git(const char *path)
{
    autofree char *at = xdup(path);

    for (int i = 0; i < DEPTH_MAX && *at; i++) {
        autofree char *git = xprintf("%s/.git", at);
        autodone(buf) struct buf text = BUF_EMPTY;
        struct stat st;

        if (lstat(git, &st) == 0 && S_ISDIR(st.st_mode))
            return steal_ptr(&git);
        if (read_text(at, ".git", &text) && strncmp(text.data, "gitdir: ", 8) == 0)
            return text.data[8] == '/' ? xdup(text.data + 8) : xprintf("%s/%s", at, text.data + 8);
        *strrchr(at, '/') = '\0';
    }
    return NULL;
}

static bool find_packed(const char *dir, const char *ref, char ret[GIT_HEAD_MAX])
{
    autofree char *path = xprintf("%s/packed-refs", dir);
    FILE *file = fopen(path, "re");
    char line[1024];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *space = strchr(line, ' ');
        found = space && strcmp(space + 1, ref) == 0 && take_hash(line, ret);
    }
    if (file)
        fclose(file);
    return found;
}

bool git_head_read(const char *path, char ret[GIT_HEAD_MAX])
{
    autofree char *git = find_git(path), *common = NULL;
    autodone(buf) struct buf text = BUF_EMPTY;

    if (!git || !read_text(git, "HEAD", &text))
        return false;
    for (int i = 0; i < REFS_MAX; i++) {
        if (take_hash(text.data, ret))
            return true;
        if (strncmp(text.data, "ref: ", 5) != 0 || strstr(text.data, "..") || text.data[5] == '/')
            return false;
        autofree char *ref = xdup(text.data + 5);
        if (!common) {
            autodone(buf) struct buf where = BUF_EMPTY;
            common = !read_text(git, "commondir", &where) ? xdup(git)
                     : *where.data == '/'                 ? xdup(where.data)
                                                          : xprintf("%s/%s", git, where.data);
        }
        if (!read_text(git, ref, &text) && !read_text(common, ref, &text))
            return find_packed(common, ref, ret);
    }
    return false;
}
