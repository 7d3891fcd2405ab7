#include "service/git_head.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "review/git_location.h"

#define FILE_MAX (4u << 20)
#define REFS_MAX 5

static bool read_text(int dir_fd, const char *name, struct buf *ret)
{
    buf_clear(ret);
    if (file_read(dir_fd, name, FILE_MAX, ret) < 0 || !ret->data)
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

static bool find_packed(int dir_fd, const char *ref, char ret[GIT_HEAD_MAX])
{
    autofd int fd = path_open_beneath(dir_fd, "packed-refs", O_RDONLY | O_NONBLOCK, 0);
    autofile FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
    char line[1024];
    bool found = false;

    if (file)
        steal_fd(&fd);
    while (file && !found && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *space = strchr(line, ' ');
        found = space && strcmp(space + 1, ref) == 0 && take_hash(line, ret);
    }
    return found;
}

bool git_head_read(const char *path, const char *const *roots, char ret[GIT_HEAD_MAX])
{
    autodone(git_location) struct git_location location = GIT_LOCATION_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;

    if (git_location_find(path, roots, &location) < 0 || !read_text(location.git_fd, "HEAD", &text))
        return false;
    for (int i = 0; i < REFS_MAX; i++) {
        if (take_hash(text.data, ret))
            return true;
        if (strncmp(text.data, "ref: ", 5) != 0)
            return false;
        autofree char *ref = xdup(text.data + 5);
        if (!read_text(location.git_fd, ref, &text) && !read_text(location.common_fd, ref, &text))
            return find_packed(location.common_fd, ref, ret);
    }
    return false;
}
