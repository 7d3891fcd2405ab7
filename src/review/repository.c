#include "review/repository.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/path.h"

static const char *const parts[] = {
    "HEAD", "config", "hooks", "objects", "refs", "info", "commondir", "packed-refs", "modules"
};

static bool is_part(const struct path_component *c)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        autofree char *name = xdupn(c->name, c->len);
        if (strcasecmp(name, parts[i]) == 0)
            return true;
    }
    return false;
}

static bool is_there(int root_fd, const char *directory, const char *name, bool is_dir)
{
    autofree char *path = xprintf("%s%s", directory, name);
    autofd int fd = path_open_beneath(root_fd, path, O_PATH, 0);
    struct stat st;

    if (fd < 0)
        return !path_is_absent(fd); /* nobody knows: rather asked once too often */
    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) == is_dir;
}

bool repository_holds(int data_fd, int base_fd, const char *path)
{
    struct path_component c;
    const char *end = path;

    while (*end)
        end++;
    for (const char *at = path; path_next_component(&at, end, &c);) {
        if (!is_part(&c))
            continue;
        autofree char *directory = xdupn(path, (size_t) (c.name - path));
        bool has_head = is_there(data_fd, directory, "HEAD", false) || is_there(base_fd, directory, "HEAD", false);
        bool has_objects =
            has_head && (is_there(data_fd, directory, "objects", true) || is_there(base_fd, directory, "objects", true));
        if (has_objects && (is_there(data_fd, directory, "refs", true) || is_there(base_fd, directory, "refs", true)))
            return true;
    }
    return false;
}
