#include "service/sandbox_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/sandbox_care.h"
#include "service/sandbox_conn.h"
#include "wire/ctl_file_client.h"

#define TAG 1
#define ASK_MS 60000
#define PIECE ((size_t) 64 << 10)

void sandbox_file_done(struct sandbox_file *file)
{
    free(file->name);
    free(file->target);
    *file = (struct sandbox_file){ 0 };
}

void sandbox_file_list_done(struct sandbox_file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        sandbox_file_done(&list->items[i]);
    free(list->items);
    *list = (struct sandbox_file_list){ 0 };
}

/* A request, and what it needs. */
struct asking {
    struct sandbox_conn *conn; /* owned */
    int fd;                    /* owned */
    char *payload;             /* owned; FRAME_PAYLOAD_MAX */
    struct buf clean;
    const char *path; /* relative, as the supervisor takes it */
};

static void asking_done(struct asking *asking)
{
    cleanup_fd(&asking->fd);
    sandbox_conn_unref(asking->conn);
    free(asking->payload);
    buf_done(&asking->clean);
}

/* Refuses ".." in the text: in a tree with links its meaning is unpredictable. */
static int clean_path(const char *path, struct buf *clean, const char **ret, struct err *err)
{
    const char *end = path + strlen(path);
    struct path_component component;

    for (const char *at = path; path_next_component(&at, end, &component);) {
        if (path_component_is(&component, "..")) {
            err_reject(err, -EINVAL, path, "leaves the workspace, or might");
            return -EINVAL;
        }
    }
    if (strlen(path) >= CTL_PATH_MAX || path_clean(*path ? path : "/", *path ? strlen(path) : 1, clean) < 0) {
        err_reject(err, -EINVAL, path, "is no path");
        return -EINVAL;
    }
    *ret = clean->data[1] ? clean->data + 1 : ".";
    return 0;
}

static int begin(struct service *service, const struct caller *caller, const char *id, const char *path, struct asking *ret,
                 struct err *err)
{
    int r;

    *ret = (struct asking){ .fd = -1 };
    r = clean_path(path, &ret->clean, &ret->path, err);
    if (r == 0)
        r = sandboxes_find_conn(service, caller, id, &ret->conn, err);
    if (r == 0)
        r = sandbox_conn_take_fd(ret->conn, &ret->fd, err);
    ret->payload = r == 0 ? malloc(FRAME_PAYLOAD_MAX) : NULL;
    return r == 0 && !ret->payload ? err_errno(err, -ENOMEM, "asking the sandbox") : r;
}

/* After a complete answer, even a refusal, the connection can be reused. */
static int finish(struct asking *asking, int r)
{
    if (r >= 0 || r == -EREMOTEIO)
        sandbox_conn_give_fd(asking->conn, steal_fd(&asking->fd));
    return r;
}

static struct sandbox_file make_file(const struct ctl_file *file)
{
    return (struct sandbox_file){
        .kind = (enum sandbox_file_kind) file->kind, .mode = file->mode, .size_bytes = file->size, .mtime_ns = file->mtime_ns
    };
}

int sandbox_file_stat(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct sandbox_file *ret, struct err *err)
{
    autodone(asking) struct asking asking = { .fd = -1 };
    struct ctl_file file;
    int r = begin(service, caller, id, path, &asking, err);

    if (r < 0)
        return r;
    r = finish(&asking, ctl_client_file_stat(asking.fd, TAG, asking.path, &file, asking.payload, ASK_MS, err));
    if (r < 0)
        return r;
    *ret = make_file(&file);
    ret->target = xdup(file.text);
    return 0;
}

static int add_page(struct sandbox_file_list *list, const struct ctl_listing *listing, struct err *err)
{
    struct ctl_file file;

    for (size_t at = 0; ctl_listing_next(listing, &at, &file);) {
        if (list->count >= WORKSPACE_LISTING_MAX)
            return err_set(err, ERR_OUT_OF_RANGE, -EOVERFLOW, "the directory has more than %d entries", WORKSPACE_LISTING_MAX);
        vec_room(&list->items, &list->cap, list->count);
        list->items[list->count] = make_file(&file);
        list->items[list->count++].name = xdup(file.text);
    }
    return 0;
}

int sandbox_file_list_page(struct service *service, const struct caller *caller, const char *id, const char *path,
                           const char *after, size_t max, struct sandbox_file_list *ret, bool *ret_has_more, struct err *err)
{
    autodone(sandbox_file_list) struct sandbox_file_list list = { 0 };
    autodone(asking) struct asking asking = { .fd = -1 };
    struct ctl_listing listing = { .has_more = true };
    int r = begin(service, caller, id, path, &asking, err);

    while (r == 0 && listing.has_more && (max == 0 || list.count < max)) {
        const char *last = list.count ? list.items[list.count - 1].name : after;
        size_t before = list.count;

        r = ctl_client_file_list(asking.fd, TAG, asking.path, last, &listing, asking.payload, ASK_MS, err);
        if (r == 0)
            r = add_page(&list, &listing, err);
        if (r == 0 && list.count == before)
            break;
    }
    if (asking.payload)
        finish(&asking, r);
    if (r < 0)
        return r;
    *ret_has_more = listing.has_more;
    while (max > 0 && list.count > max) {
        sandbox_file_done(&list.items[--list.count]);
        *ret_has_more = true;
    }
    *ret = list;
    list = (struct sandbox_file_list){ 0 };
    return 0;
}

int sandbox_file_list(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct sandbox_file_list *ret, struct err *err)
{
    bool has_more;

    return sandbox_file_list_page(service, caller, id, path, "", 0, ret, &has_more, err);
}

static int pass_on(int pipe_fd, sandbox_file_fn fn, void *cookie, struct err *err)
{
    autofree char *piece = xalloc(PIECE);

    for (;;) {
        ssize_t n = read(pipe_fd, piece, PIECE);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "reading a file");
        if (n == 0)
            return 0;
        int r = fn(piece, (size_t) n, cookie);
        if (r < 0)
            return r;
    }
}

int sandbox_file_read_part(struct service *service, const struct caller *caller, const char *id, const char *path,
                           uint64_t offset, uint64_t size, sandbox_file_begin_fn begin_fn, sandbox_file_fn fn, void *cookie,
                           struct err *err)
{
    autodone(asking) struct asking asking = { .fd = -1 };
    struct sandbox_file told = { 0 };
    struct ctl_reply reply;
    struct ctl_file file;
    autofd int pipe_fd = -1;
    int r = begin(service, caller, id, path, &asking, err);

    if (r < 0)
        return r;
    r = ctl_client_file_read(asking.fd, TAG, asking.path, offset, size, &file, &pipe_fd, asking.payload, ASK_MS, err);
    if (r < 0)
        return finish(&asking, r);
    told = make_file(&file);
    r = begin_fn ? begin_fn(&told, cookie) : 0;
    if (r == 0)
        r = pass_on(pipe_fd, fn, cookie, err);
    if (r < 0)
        return r;
    return finish(&asking, ctl_client_await(asking.fd, TAG, &reply, asking.payload, ASK_MS, err));
}

int sandbox_file_read(struct service *service, const struct caller *caller, const char *id, const char *path,
                      sandbox_file_begin_fn begin_fn, sandbox_file_fn fn, void *cookie, struct err *err)
{
    return sandbox_file_read_part(service, caller, id, path, 0, 0, begin_fn, fn, cookie, err);
}

int sandbox_file_put(struct service *service, const struct caller *caller, const char *id, const char *path,
                     const struct sandbox_file_content *content, bool *ret_is_new, struct err *err)
{
    autodone(asking) struct asking asking = { .fd = -1 };
    uint32_t flags = CTL_FILE_PARENTS | (content->is_exclusive ? CTL_FILE_EXCLUSIVE : 0);
    struct ctl_file file;
    int r = begin(service, caller, id, path, &asking, err);

    if (r < 0)
        return r;
    r = ctl_client_file_stat(asking.fd, TAG, asking.path, &file, asking.payload, ASK_MS, err);
    if (r < 0 && (r != -EREMOTEIO || err->code != ERR_NOT_FOUND))
        return finish(&asking, r);
    *ret_is_new = r < 0;
    *err = ERR_NONE;
    return finish(&asking, ctl_client_file_write(asking.fd, TAG, asking.path, flags, content->mode, content->size_bytes,
                                                 content->fd, asking.payload, ASK_MS, err));
}

/* Returns a memory file. It is the only descriptor of ours that goes into the sandbox. */
static int make_content(const void *bytes, size_t len)
{
    autofd int fd = memfd_create("content", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : len ? fd_write_full(fd, bytes, len) : 0;

    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? r : steal_fd(&fd);
}

int sandbox_file_write(struct service *service, const struct caller *caller, const char *id, const char *path, uint32_t mode,
                       const void *bytes, size_t len, bool *ret_is_new, struct err *err)
{
    autofd int fd = make_content(bytes, len);
    const struct sandbox_file_content content = { .fd = fd, .size_bytes = len, .mode = mode };

    return fd < 0 ? err_errno(err, fd, "keeping the content")
                  : sandbox_file_put(service, caller, id, path, &content, ret_is_new, err);
}

int sandbox_file_spool(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err)
{
    autoptr(sandbox_conn) conn = NULL;
    autofd int dir_fd = -1;
    int r = sandboxes_find_conn(service, caller, id, &conn, err);

    if (r == 0)
        r = sandboxes_open_dir(service, caller, id, &dir_fd, err);
    if (r < 0)
        return r;
    *ret_fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return *ret_fd < 0 ? err_errno(err, -errno, "keeping the content") : 0;
}

int sandbox_file_rename(struct service *service, const struct caller *caller, const char *id, const char *path,
                        const char *new_path, bool replaces, struct err *err)
{
    autodone(asking) struct asking asking = { .fd = -1 };
    autodone(buf) struct buf clean = BUF_EMPTY;
    const char *to = NULL;
    int r = clean_path(new_path, &clean, &to, err);

    if (r == 0)
        r = begin(service, caller, id, path, &asking, err);
    if (r < 0)
        return r;
    if (strcmp(asking.path, ".") == 0 || strcmp(to, ".") == 0)
        return err_invalid(err, "the root of a sandbox has no other name");
    r = finish(&asking,
               ctl_client_file_rename(asking.fd, TAG, asking.path, to, CTL_FILE_PARENTS | (replaces ? 0 : CTL_FILE_EXCLUSIVE),
                                      asking.payload, ASK_MS, err));
    if (r == -ECONNRESET)
        err_set(err, ERR_UNAVAILABLE, r, "the sandbox was started by an earlier release; stop and start it to rename files");
    return r;
}

int sandbox_file_mkdir(struct service *service, const struct caller *caller, const char *id, const char *path, struct err *err)
{
    autodone(asking) struct asking asking = { .fd = -1 };
    int r = begin(service, caller, id, path, &asking, err);

    if (r < 0 || strcmp(asking.path, ".") == 0)
        return r;
    return finish(&asking,
                  ctl_client_file_mkdir(asking.fd, TAG, asking.path, CTL_FILE_PARENTS, 0777, asking.payload, ASK_MS, err));
}

int sandbox_file_remove(struct service *service, const struct caller *caller, const char *id, const char *path, bool recursive,
                        struct err *err)
{
    autodone(asking) struct asking asking = { .fd = -1 };
    int r = begin(service, caller, id, path, &asking, err);

    if (r < 0)
        return r;
    if (strcmp(asking.path, ".") == 0)
        return err_invalid(err, "the workspace itself is not to be deleted");
    r = finish(&asking, ctl_client_file_remove(asking.fd, TAG, asking.path, recursive ? CTL_FILE_RECURSIVE : 0, asking.payload,
                                               ASK_MS, err));
    return r == -EREMOTEIO && err->code == ERR_NOT_FOUND ? -ENOENT : r;
}
