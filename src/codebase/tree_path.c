#include "codebase/tree_path.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/path.h"

#define MARKER ".wh."

static int check_component(const struct path_component *c, const char *shown, struct err *err)
{
    if (c->len > NAME_MAX)
        return err_reject(err, -ENAMETOOLONG, shown, "has a name of more than 255 bytes");
    if (c->len >= strlen(MARKER) && memcmp(c->name, MARKER, strlen(MARKER)) == 0)
        return err_reject(err, -EINVAL, shown, "has a name beginning with '.wh.', which is reserved");
    return 0;
}

int tree_path_clean(const char *path, size_t len, struct buf *out, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct path_component c;
    unsigned depth = 0;
    int r;

    buf_clear(out);
    buf_add(out, "", 0);
    if (len == 0)
        return 0;
    if (memchr(path, 0, len))
        return err_invalid(err, "the path holds a NUL byte");
    r = path_clean(path, len, &clean);
    if (r == -EXDEV)
        return err_set(err, ERR_INVALID_ARGUMENT, -EXDEV, "path traversal not allowed");
    if (r < 0)
        return err_errno(err, r, "cleaning a path");
    if (clean.len > TREE_PATH_MAX)
        return err_reject(err, -ENAMETOOLONG, clean.data, "is too long for a path");
    for (const char *at = clean.data; path_next_component(&at, clean.data + clean.len, &c);) {
        r = check_component(&c, clean.data, err);
        if (r < 0)
            return r;
        if (++depth > TREE_DEPTH_MAX)
            return err_reject(err, -ENAMETOOLONG, clean.data, "lies too deep");
    }
    buf_add(out, clean.data + 1, clean.len - 1);
    return 0;
}

int tree_path_clean_entry(const char *path, size_t len, struct buf *out, struct err *err)
{
    int r = tree_path_clean(path, len, out, err);

    if (r < 0)
        return r;
    return out->len ? 0 : err_invalid(err, "the path names the root, not something in it");
}

bool tree_path_is_in(const char *dir, const char *path)
{
    size_t len = strlen(dir);

    if (len == 0)
        return *path;
    return strncmp(dir, path, len) == 0 && path[len] == '/';
}

int tree_path_errno(struct err *err, int r, const char *what, const char *path)
{
    autodone(buf) struct buf shown = BUF_EMPTY;

    buf_add_excerpt(&shown, path, strlen(path));
    return err_errno(err, r, "%s '%s'", what, shown.data ? shown.data : "");
}

int tree_path_reject(struct err *err, enum err_code code, int r, const char *path, const char *why)
{
    err_reject(err, r, path, why);
    if (err)
        err->code = code;
    return r;
}
