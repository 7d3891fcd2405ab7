#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/transfer.h"
#include "codebase/extract.h"
#include "codebase/git_filter.h"
#include <sandbox/v1/codebase.pb-c.h>

/* A running download. */
struct receiving {
    int fd; /* borrowed */
    uint64_t received, total;
    struct progress progress;
};

static int on_piece(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    const Sandbox__V1__FileChunk *chunk = (const void *) answer;
    struct receiving *receiving = cookie;
    int r = interrupt_write(receiving->fd, chunk->data.data, chunk->data.len);

    if (r == -ECANCELED)
        return err_set(err, ERR_CANCELLED, r, "interrupted");
    if (r < 0 && receiving->fd == STDOUT_FILENO)
        return output_refused(r, "writing what comes", err);
    if (r < 0)
        return err_errno(err, r, "writing what comes");
    receiving->received += chunk->data.len;
    progress_update(&receiving->progress, receiving->received, receiving->total);
    return 0;
}

static int receive(struct api_call *call, const char *method, const ProtobufCMessage *request, int fd, uint64_t total,
                   struct err *err)
{
    struct receiving receiving = { .fd = fd, .total = total };
    struct client_call wanted = { .method = method, .request = request, .on_answer = on_piece, .cookie = &receiving };
    int r;

    progress_init(&receiving.progress, "downloading", !call->options.is_json && !call->options.is_quiet);
    r = client_call(call->client, &wanted, err);
    progress_done(&receiving.progress);
    return r;
}

/* ---- looking the path up ---- */

/* Returns the path as codebases store it, without leading and trailing slashes. */
static char *trim(const char *path)
{
    size_t len;

    path += strspn(path, "/");
    len = strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    return xdupn(path, len);
}

static const char *last_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

struct search {
    const char *path;
    bool is_found, is_dir, is_executable;
    uint64_t size;
};

static int on_file(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__FileInfo *file = (const void *) item;
    struct search *search = cookie;

    (void) err;
    if (strcmp(file->path, search->path) != 0)
        return 0;
    search->is_found = true;
    search->is_dir = file->is_dir;
    search->is_executable = file->is_executable;
    search->size = (uint64_t) file->size;
    return 1;
}

static int look(struct api_call *call, const char *codebase_id, const char *path, struct search *ret, struct err *err)
{
    Sandbox__V1__ListFilesRequest request = SANDBOX__V1__LIST_FILES_REQUEST__INIT;
    autofree char *parent = xdupn(path, (size_t) (last_of(path) - path));
    int r;

    *ret = (struct search){ .path = path };
    if (!*path) {
        ret->is_dir = true;
        return 0;
    }
    if (*parent)
        parent[strlen(parent) - 1] = '\0';
    request.codebase_id = (char *) codebase_id;
    request.path = parent;
    r = client_list(call->client, "ListFiles", &request.base, on_file, ret, err);
    if (r == 0 && !ret->is_found)
        r = err_set(err, ERR_NOT_FOUND, -ENOENT, "the codebase has no '%s'", path);
    return r;
}

/* ---- a file ---- */

static int ask_for_file(struct api_call *call, const char *codebase_id, const struct search *what, int64_t version, int fd,
                        struct err *err)
{
    Sandbox__V1__DownloadFileRequest request = SANDBOX__V1__DOWNLOAD_FILE_REQUEST__INIT;

    request.codebase_id = (char *) codebase_id;
    request.file_path = (char *) what->path;
    request.version = version;
    return receive(call, "DownloadFile", &request.base, fd, what->size, err);
}

/* Splits `local` into an existing directory and a name in it. */
static int open_place(const char *local, const char *name, int *ret_dirfd, char **ret_name, struct err *err)
{
    autofd int fd = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *last = last_of(local);
    autofree char *parent = xdupn(local, (size_t) (last - local));

    if (fd < 0 && *last) {
        fd = open(*parent ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        name = last;
    }
    if (fd < 0)
        return err_errno(err, -errno, "'%s'", local);
    *ret_dirfd = steal_fd(&fd);
    *ret_name = xdup(name);
    return 0;
}

static int get_file(struct api_call *call, const char *codebase_id, const struct search *what, const char *local,
                    int64_t version, struct err *err)
{
    struct file_pending pending = FILE_PENDING_NONE;
    autofree char *name = NULL;
    autofd int dirfd = -1;
    int r;

    if (strcmp(local, "-") == 0)
        return ask_for_file(call, codebase_id, what, version, STDOUT_FILENO, err);
    r = open_place(local, last_of(what->path), &dirfd, &name, err);
    if (r < 0)
        return r;
    r = file_replace_begin(dirfd, name, what->is_executable ? 0755 : 0644, &pending);
    if (r < 0)
        return err_errno(err, r, "'%s'", local);
    r = ask_for_file(call, codebase_id, what, version, pending.fd, err);
    if (r == 0) {
        r = file_replace_commit(&pending);
        if (r < 0)
            err_errno(err, r, "'%s'", local);
    }
    file_replace_abort(&pending);
    return r;
}

/* ---- a directory ---- */

static int make_directory(const char *local, int *ret, struct err *err)
{
    if (mkdir(local, 0777) < 0 && errno != EEXIST)
        return err_errno(err, -errno, "'%s'", local);
    *ret = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_errno(err, -errno, "'%s'", local) : 0;
}

/* Opens an unnamed file, so that it never stays behind, on the file system that will hold the contents. */
static int open_unnamed(int dirfd, struct err *err)
{
    int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
        char name[] = "/tmp/agentfense-XXXXXX";
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
    }
    return fd < 0 ? err_errno(err, -errno, "making a temporary file") : fd;
}

static void print_names(const char *verb, const char *what, const struct buf *names, size_t count, const char *hint)
{
    if (count == 0)
        return;
    fprintf(stderr, "agentfense %s: %s: %s", verb, what, names->data);
    if (count > GIT_FILTER_NAMED_MAX)
        fprintf(stderr, " and %zu more", count - GIT_FILTER_NAMED_MAX);
    fprintf(stderr, "%s\n", hint);
}

/* Reads the archive twice: only after all of it is known which directories would become repositories. */
static int lay_out(struct api_call *call, int fd, int dirfd, const char *path, bool git_as_is, struct err *err)
{
    const struct extract_limits limits = { .bytes = INT64_MAX, .entries = INT64_MAX };
    struct extract_counts counts;
    autodone(git_filter) struct git_filter filter;
    int r = 0;

    git_filter_init(&filter, dirfd, path);
    if (git_as_is)
        return extract_run(fd, dirfd, &limits, &counts, err);
    struct extract_filter scan = git_filter_scan(&filter);
    r = extract_filtered(fd, dirfd, &limits, &scan, &counts, err);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = err_errno(err, -errno, "a temporary file");
    struct extract_filter take = git_filter_apply(&filter);
    if (r == 0)
        r = extract_filtered(fd, dirfd, &limits, &take, &counts, err);
    print_names(call->verb->name, "left out, because git may run it", &filter.left_out, filter.left_out_count,
                "; --git-as-is takes it as it is");
    print_names(call->verb->name, "links that lead out of the directory", &filter.links, filter.link_count, "");
    return r;
}

static int get_directory(struct api_call *call, const char *codebase_id, const char *path, const char *local, bool git_as_is,
                         struct err *err)
{
    Sandbox__V1__DownloadArchiveRequest request = SANDBOX__V1__DOWNLOAD_ARCHIVE_REQUEST__INIT;
    autofd int dirfd = -1, fd = -1;
    bool is_stream = strcmp(local, "-") == 0;
    int r = is_stream ? 0 : make_directory(local, &dirfd, err);

    if (r < 0)
        return r;
    request.codebase_id = (char *) codebase_id;
    request.path = (char *) path;
    if (is_stream)
        return receive(call, "DownloadArchive", &request.base, STDOUT_FILENO, 0, err);
    fd = open_unnamed(dirfd, err);
    if (fd < 0)
        return fd;
    r = receive(call, "DownloadArchive", &request.base, fd, 0, err);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = err_errno(err, -errno, "a temporary file");
    return r < 0 ? r : lay_out(call, fd, dirfd, path, git_as_is, err);
}

int transfer_get(struct api_call *call, const char *codebase_id, const char *path, const char *local,
                 const struct transfer_options *options, struct err *err)
{
    autofree char *trimmed = trim(path);
    struct search what = { .path = trimmed };
    int r = 0;

    /* An older version has no list of files, so the path is taken as that of a file. */
    if (options->version == 0)
        r = look(call, codebase_id, trimmed, &what, err);
    if (r < 0)
        return r;
    return what.is_dir ? get_directory(call, codebase_id, trimmed, local, options->git_as_is, err)
                       : get_file(call, codebase_id, &what, local, options->version, err);
}
