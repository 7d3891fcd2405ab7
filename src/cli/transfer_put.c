#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/transfer.h"
#include "client/tarball.h"
#include <sandbox/v1/codebase.pb-c.h>

/* A running upload. */
struct sending {
    struct api_call *call;
    int fd;                  /* a file */
    struct tarball *tarball; /* or a directory */
    uint64_t sent, total;
    struct progress progress;
    const char *local;
};

static ssize_t next_of_file(void *bytes, size_t size, void *cookie, struct err *err)
{
    struct sending *s = cookie;
    ssize_t n = interrupt_read(s->fd, bytes, size);

    if (n == -ECANCELED)
        return err_set(err, ERR_CANCELLED, (int) n, "interrupted");
    if (n < 0)
        return err_errno(err, (int) n, "reading '%s'", s->local);
    s->sent += (uint64_t) n;
    progress_update(&s->progress, s->sent, s->total);
    return n;
}

static ssize_t next_of_directory(void *bytes, size_t size, void *cookie, struct err *err)
{
    struct sending *s = cookie;
    struct tarball_counts counts;
    ssize_t n = tarball_read(s->tarball, bytes, size, err);

    tarball_count(s->tarball, &counts);
    progress_update(&s->progress, counts.bytes_read, counts.bytes);
    return n;
}

static int on_file_result(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    const Sandbox__V1__UploadResult *result = (const void *) answer;
    struct sending *s = cookie;

    (void) err;
    progress_done(&s->progress);
    if (s->call->options.is_json) {
        api_print_json(answer);
    } else if (!s->call->options.is_quiet) {
        output_escaped(stdout, result->file_path);
        printf(": %lld bytes, version %lld\n", (long long) result->size, (long long) result->version);
    }
    return 0;
}

/* The API counts the directories of an archive as files, so this prints our own count. */
static int on_archive_result(const ProtobufCMessage *answer, void *cookie, struct err *err)
{
    const Sandbox__V1__UploadArchiveResult *result = (const void *) answer;
    struct sending *s = cookie;
    struct tarball_counts counts;

    (void) err;
    progress_done(&s->progress);
    tarball_count(s->tarball, &counts);
    if (s->call->options.is_json)
        api_print_json(answer);
    else if (!s->call->options.is_quiet)
        printf("%llu file%s, %lld bytes, version %lld\n", (unsigned long long) counts.files, counts.files == 1 ? "" : "s",
               (long long) result->size, (long long) result->version);
    return 0;
}

static int send_file(struct sending *s, const char *codebase_id, const char *path, mode_t mode, struct err *err)
{
    Sandbox__V1__UploadChunk__Metadata metadata = SANDBOX__V1__UPLOAD_CHUNK__METADATA__INIT;
    Sandbox__V1__UploadChunk first = SANDBOX__V1__UPLOAD_CHUNK__INIT;
    struct client_call wanted = {
        .method = "UploadFiles", .request = &first.base, .source = next_of_file, .on_answer = on_file_result, .cookie = s
    };

    metadata.codebase_id = (char *) codebase_id;
    metadata.file_path = (char *) path;
    metadata.mode = mode & 0777;
    first.content_case = SANDBOX__V1__UPLOAD_CHUNK__CONTENT_METADATA;
    first.metadata = &metadata;
    return client_call(s->call->client, &wanted, err);
}

static int send_directory(struct sending *s, const char *codebase_id, const char *path, const struct transfer_options *o,
                          struct err *err)
{
    Sandbox__V1__ArchiveChunk__Metadata metadata = SANDBOX__V1__ARCHIVE_CHUNK__METADATA__INIT;
    Sandbox__V1__ArchiveChunk first = SANDBOX__V1__ARCHIVE_CHUNK__INIT;
    struct client_call wanted = { .method = "UploadArchive",
                                  .request = &first.base,
                                  .source = next_of_directory,
                                  .on_answer = on_archive_result,
                                  .cookie = s };
    struct tarball_counts counts;
    autoptr(tarball) tarball = NULL;
    size_t len = strlen(path);
    autofree char *prefix = len > 0 ? xprintf("%s%s", path, path[len - 1] == '/' ? "" : "/") : xdup("");
    int r = tarball_open(s->fd, prefix, o->exclude, o->exclude_count, &tarball, err);

    if (r < 0)
        return r;
    tarball_count(tarball, &counts);
    if (counts.skipped > 0 && !s->call->options.is_quiet)
        fprintf(stderr, "agentfense %s: left out %llu that are neither files, links nor directories\n", s->call->verb->name,
                (unsigned long long) counts.skipped);
    s->tarball = tarball;
    metadata.codebase_id = (char *) codebase_id;
    metadata.replace = o->replaces;
    first.content_case = SANDBOX__V1__ARCHIVE_CHUNK__CONTENT_METADATA;
    first.metadata = &metadata;
    return client_call(s->call->client, &wanted, err);
}

/* Returns the path in the codebase: the given one, or for a directory the local name in it. */
static int name_there(const char *local, const char *path, char **ret, struct err *err)
{
    const char *slash = strrchr(local, '/');
    size_t len = strlen(path);

    if (len > 0 && path[len - 1] != '/') {
        *ret = xdup(path);
        return 0;
    }
    if (strcmp(local, "-") == 0)
        return err_invalid(err, "standard input needs a path in the codebase");
    *ret = xprintf("%s%s", path, slash ? slash + 1 : local);
    return 0;
}

int transfer_put(struct api_call *call, const char *codebase_id, const char *local, const char *path,
                 const struct transfer_options *options, struct err *err)
{
    struct sending s = { .call = call, .local = local };
    bool is_input = strcmp(local, "-") == 0;
    autofd int fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(local, O_RDONLY | O_CLOEXEC);
    autofree char *name = NULL;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "'%s'", local);
    path += strspn(path, "/");
    s.fd = fd;
    s.total = S_ISREG(st.st_mode) ? (uint64_t) st.st_size : 0;
    progress_init(&s.progress, "uploading", !call->options.is_json && !call->options.is_quiet);
    if (S_ISDIR(st.st_mode)) {
        r = send_directory(&s, codebase_id, path, options, err);
    } else if (options->replaces || options->exclude_count > 0) {
        r = err_invalid(err, "--replace and --exclude are for directories, and '%s' is none", local);
    } else {
        r = name_there(local, path, &name, err);
        if (r == 0)
            r = send_file(&s, codebase_id, name, is_input ? 0 : st.st_mode, err);
    }
    progress_done(&s.progress);
    return r;
}

void transfer_options_done(struct transfer_options *options)
{
    free(options->exclude);
    *options = (struct transfer_options){ 0 };
}
