/* Files of a running sandbox. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "service/file_search.h"
#include "service/sandbox_files.h"
#include <sandbox/v1/file.pb-c.h>

#define ETAG_MAX 64
#define PAGE_ENTRIES 1000
#define PAGE_BYTES_MAX ((size_t) 2 << 20) /* of names and paths in one answer */
#define CHUNK_BYTES 65536
#define CONTENT_BYTES_MAX ((int64_t) 1 << 30) /* that the server spools before the sandbox sees the file */

/* ---- what a path is ---- */

static void file_format_etag(const struct sandbox_file *file, char out[ETAG_MAX])
{
    snprintf(out, ETAG_MAX, "%" PRIx64 "-%" PRIx64, (uint64_t) file->mtime_ns, file->size_bytes);
}

/* `path` as path_clean() gives it. */
static Sandbox__V1__FileStat *make_file_stat(const char *path, const struct sandbox_file *file)
{
    Sandbox__V1__FileStat *out = message_new(&sandbox__v1__file_stat__descriptor);
    const char *name = strrchr(path, '/') + 1;
    char etag[ETAG_MAX];

    file_format_etag(file, etag);
    out->path = make_text(path, strlen(path));
    out->name = make_text(name, strlen(name));
    out->type = (Sandbox__V1__FileType) file->kind;
    out->size = (int64_t) file->size_bytes;
    out->mode = file->mode;
    out->modified_at = make_timestamp(file->mtime_ns);
    if (file->target)
        out->symlink_target = make_text(file->target, strlen(file->target));
    out->etag = xdup(etag);
    return out;
}

/* To be called after the service has accepted the path. */
static void file_clean_path(const char *path, struct buf *ret)
{
    if (path_clean(*path ? path : "/", *path ? strlen(path) : 1, ret) < 0)
        buf_add_char(ret, '/');
}

static int file_answer_stat(const struct request *request, const char *id, const char *path, ProtobufCMessage **ret,
                            struct err *err)
{
    autodone(sandbox_file) struct sandbox_file file = { 0 };
    autodone(buf) struct buf clean = BUF_EMPTY;
    int r = sandbox_file_stat(request->service, &request->caller, id, path, &file, err);

    if (r < 0)
        return r;
    file_clean_path(path, &clean);
    *ret = &make_file_stat(clean.data, &file)->base;
    return 0;
}

int handle_stat_file(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__StatFileRequest *in = message;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    return r < 0 ? r : file_answer_stat(request, id, in->path, ret, err);
}

/* ---- listing ---- */

int handle_list_directory(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListDirectoryRequest *in = message;
    autodone(sandbox_file_list) struct sandbox_file_list list = { 0 };
    autodone(buf) struct buf dir = BUF_EMPTY;
    size_t max = take_page_size(in->page_size), bytes = 0;
    autofree char *after = NULL;
    char id[SANDBOX_ID_MAX];
    bool has_more = false;
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    max = max == 0 || max > PAGE_ENTRIES ? PAGE_ENTRIES : max;
    if (r == 0)
        r = take_page_token(in->page_token, &after, err);
    if (r == 0 && strlen(after) > NAME_MAX)
        r = err_invalid(err, "page_token is not of this list");
    if (r == 0)
        r = sandbox_file_list_page(request->service, &request->caller, id, in->path, after, max, &list, &has_more, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListDirectoryResponse *out = message_new(&sandbox__v1__list_directory_response__descriptor);
    file_clean_path(in->path, &dir);
    out->files = list.count > 0 ? xalloc(list.count * sizeof(*out->files)) : NULL;
    while (out->n_files < list.count && bytes < PAGE_BYTES_MAX) {
        const struct sandbox_file *file = &list.items[out->n_files];
        autofree char *path = xprintf("%s/%s", dir.data[1] ? dir.data : "", file->name);

        bytes += 3 * (strlen(path) + strlen(file->name));
        out->files[out->n_files++] = make_file_stat(path, file);
    }
    if (has_more || out->n_files < list.count)
        out->next_page_token = make_page_token(list.items[out->n_files - 1].name);
    *ret = &out->base;
    return 0;
}

/* ---- reading ---- */

struct reading {
    struct call *call;
    const char *path;
    struct err *err;
};

static int file_check_regular(const struct sandbox_file *file, struct err *err)
{
    static const char *const kinds[] = { "something else", "a file", "a directory", "a symbolic link", "no regular file" };

    if (file->kind == SANDBOX_FILE_REGULAR)
        return 0;
    return err_invalid(err, "it is %s", kinds[file->kind <= SANDBOX_FILE_OTHER ? file->kind : 0]);
}

static int file_send_stat(const struct sandbox_file *file, void *cookie)
{
    struct reading *reading = cookie;
    Sandbox__V1__ReadFileChunk chunk = SANDBOX__V1__READ_FILE_CHUNK__INIT;
    autodone(buf) struct buf clean = BUF_EMPTY;
    int r = file_check_regular(file, reading->err);

    if (r < 0)
        return r;
    file_clean_path(reading->path, &clean);
    chunk.file = make_file_stat(clean.data, file);
    r = call_send(reading->call, &chunk.base);
    protobuf_c_message_free_unpacked(&chunk.file->base, NULL);
    return r;
}

static int file_send_bytes(const void *bytes, size_t len, void *cookie)
{
    const struct reading *reading = cookie;
    Sandbox__V1__ReadFileChunk chunk = SANDBOX__V1__READ_FILE_CHUNK__INIT;
    int r = 0;

    for (size_t at = 0; r == 0 && at < len; at += chunk.data.len) {
        chunk.data.len = len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES;
        chunk.data.data = (uint8_t *) bytes + at;
        r = call_send(reading->call, &chunk.base);
    }
    return r;
}

int handle_read_file(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ReadFileRequest *in = message;
    struct reading reading = { request->call, in->path, err };
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    (void) ret;
    if (r == 0)
        r = request_need(in->path, "path", err);
    if (r == 0 && (in->offset < 0 || in->length < 0))
        r = err_invalid(err, "offset and length must not be negative");
    return r < 0 ? r
                 : sandbox_file_read_part(request->service, &request->caller, id, in->path, (uint64_t) in->offset,
                                          (uint64_t) in->length, file_send_stat, file_send_bytes, &reading, err);
}

/* ---- writing ---- */

/* If the file changes between this check and the operation, the operation wins. */
static int file_check_etag(const struct request *request, const char *id, const char *path, const char *wanted, struct err *err)
{
    autodone(sandbox_file) struct sandbox_file file = { 0 };
    char etag[ETAG_MAX];
    int r;

    if (!*wanted)
        return 0;
    r = sandbox_file_stat(request->service, &request->caller, id, path, &file, err);
    if (r < 0)
        return r;
    file_format_etag(&file, etag);
    if (strcmp(wanted, etag) == 0)
        return 0;
    return err_set_reason(err, err_set(err, ERR_ABORTED, -ESTALE, "the file is not as its etag says"), "ETAG_MISMATCH");
}

static int file_take_metadata(struct call *call, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__WriteFileChunk *first;
    int r = call_recv(call, ret, err);

    if (r < 0)
        return r;
    if (r == 0)
        return err_invalid(err, "no metadata received");
    first = (const void *) *ret;
    if (first->content_case != SANDBOX__V1__WRITE_FILE_CHUNK__CONTENT_METADATA)
        return err_invalid(err, "metadata must be sent first");
    if (first->metadata->mode > 0777)
        return err_invalid(err, "mode has more than permission bits");
    if (first->metadata->total_size < 0 || first->metadata->total_size > CONTENT_BYTES_MAX)
        return err_invalid(err, "total_size must be between 0 and %lld", (long long) CONTENT_BYTES_MAX);
    if (first->metadata->exclusive && *first->metadata->etag)
        return err_invalid(err, "exclusive and etag contradict each other");
    return request_need(first->metadata->path, "path", err);
}

/* Writes the content into the file until the stream ends. */
static int file_take_content(struct call *call, int fd, int64_t *ret_bytes, struct err *err)
{
    *ret_bytes = 0;
    for (;;) {
        autorequest piece = NULL;
        int r = call_recv(call, &piece, err);
        const Sandbox__V1__WriteFileChunk *chunk = (const void *) piece;

        if (r <= 0)
            return r;
        if (chunk->content_case == SANDBOX__V1__WRITE_FILE_CHUNK__CONTENT_METADATA)
            return err_invalid(err, "metadata already received");
        if (chunk->content_case != SANDBOX__V1__WRITE_FILE_CHUNK__CONTENT_DATA || chunk->data.len == 0)
            continue;
        *ret_bytes += (int64_t) chunk->data.len;
        if (*ret_bytes > CONTENT_BYTES_MAX)
            return err_set(err, ERR_OUT_OF_RANGE, -EFBIG, "the content has more than %lld bytes",
                           (long long) CONTENT_BYTES_MAX);
        r = fd_write_full(fd, chunk->data.data, chunk->data.len);
        if (r < 0)
            return err_errno(err, r, "keeping the content");
    }
}

/* As with uploads, a client that gives up may seem to have sent everything. */
static int file_check_whole(struct call *call, int64_t announced, int64_t bytes, struct err *err)
{
    if (call_is_cancelled(call))
        return err_set(err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
    if (announced > 0 && bytes != announced)
        return err_invalid(err, "total_size is %lld, and %lld bytes were sent", (long long) announced, (long long) bytes);
    return 0;
}

static int write_file(struct call *call, void *cookie, struct err *err)
{
    const Sandbox__V1__WriteFileChunk__Metadata *metadata = NULL;
    autorequest first = NULL;
    ProtobufCMessage *stat = NULL;
    autofd int fd = -1;
    struct sandbox_file_content content = { 0 };
    struct request request;
    char id[SANDBOX_ID_MAX];
    int64_t bytes = 0;
    bool is_new = false;
    int r = request_admit(call, cookie, &request, err);

    if (r == 0)
        r = file_take_metadata(call, &first, err);
    if (r == 0) {
        metadata = ((const Sandbox__V1__WriteFileChunk *) (const void *) first)->metadata;
        r = request_find_sandbox(&request, metadata->sandbox_id, id, err);
    }
    if (r == 0)
        r = sandbox_file_spool(request.service, &request.caller, id, &fd, err);
    if (r == 0)
        r = file_take_content(call, fd, &bytes, err);
    if (r == 0)
        r = file_check_whole(call, metadata->total_size, bytes, err);
    if (r == 0)
        r = file_check_etag(&request, id, metadata->path, metadata->etag, err);
    if (r < 0)
        return r;
    content.fd = fd;
    content.size_bytes = (uint64_t) bytes;
    content.mode = metadata->mode ? metadata->mode : 0644;
    content.is_exclusive = metadata->exclusive;
    r = sandbox_file_put(request.service, &request.caller, id, metadata->path, &content, &is_new, err);
    if (r == 0)
        r = file_answer_stat(&request, id, metadata->path, &stat, err);
    if (r < 0)
        return r;
    Sandbox__V1__WriteFileResult *out = message_new(&sandbox__v1__write_file_result__descriptor);
    out->file = (Sandbox__V1__FileStat *) stat;
    out->created = is_new;
    return answer_send(call, &out->base, err);
}

int handle_write_file(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, write_file(call, cookie, err), err);
}

/* ---- names ---- */

int handle_make_directory(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__MakeDirectoryRequest *in = message;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = request_need(in->path, "path", err);
    if (r == 0)
        r = sandbox_file_mkdir(request->service, &request->caller, id, in->path, err);
    return r < 0 ? r : file_answer_stat(request, id, in->path, ret, err);
}

int handle_remove_file(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__RemoveFileRequest *in = message;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = request_need(in->path, "path", err);
    if (r == 0)
        r = file_check_etag(request, id, in->path, in->etag, err);
    if (r == 0)
        r = sandbox_file_remove(request->service, &request->caller, id, in->path, in->recursive, err);
    if (r >= 0)
        *ret = make_empty();
    return r;
}

int handle_rename_file(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__RenameFileRequest *in = message;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = request_need(in->path, "path", err);
    if (r == 0)
        r = request_need(in->new_path, "new_path", err);
    if (r == 0)
        r = sandbox_file_rename(request->service, &request->caller, id, in->path, in->new_path, in->replace, err);
    return r < 0 ? r : file_answer_stat(request, id, in->new_path, ret, err);
}

/* ---- search ---- */

#define RESULTS_DEFAULT 200
#define RESULTS_MAX 1000
#define BYTES_DEFAULT ((int64_t) 64 << 20)
#define BYTES_MAX ((int64_t) 1 << 30)
#define SEARCH_NS_DEFAULT (10 * CLOCK_NS_PER_SEC)
#define SEARCH_NS_MAX (60 * CLOCK_NS_PER_SEC)
#define TEXT_BYTES_MAX 4096

static int search_take_request(const Sandbox__V1__SearchFilesRequest *in, struct file_search *ret, struct err *err)
{
    int64_t timeout_ns;
    int r = take_duration(in->timeout, "timeout", &timeout_ns, err);

    if (r < 0)
        return r;
    if (in->context_lines < 0 || in->context_lines > FILE_SEARCH_CONTEXT_MAX)
        return err_invalid(err, "context_lines must be between 0 and %d", FILE_SEARCH_CONTEXT_MAX);
    if (in->max_results < 0 || in->max_results > RESULTS_MAX)
        return err_invalid(err, "max_results must be between 0 and %d", RESULTS_MAX);
    if (in->max_bytes < 0 || in->max_bytes > BYTES_MAX)
        return err_invalid(err, "max_bytes must be between 0 and %lld", (long long) BYTES_MAX);
    if (timeout_ns > SEARCH_NS_MAX)
        return err_invalid(err, "timeout must be at most %lld s", (long long) (SEARCH_NS_MAX / CLOCK_NS_PER_SEC));
    if (!*in->text && !*in->glob)
        return err_invalid(err, "text or glob is required");
    if (strchr(in->text, '\n') || strlen(in->text) > TEXT_BYTES_MAX)
        return err_invalid(err, "text must be part of one line, of at most %d bytes", TEXT_BYTES_MAX);
    *ret = (struct file_search){
        .path = in->path,
        .glob = in->glob,
        .text = in->text,
        .ignores_case = in->ignore_case,
        .context_lines = (size_t) in->context_lines,
        .max_results = in->max_results ? (size_t) in->max_results : RESULTS_DEFAULT,
        .max_bytes = (uint64_t) (in->max_bytes ? in->max_bytes : BYTES_DEFAULT),
        .timeout_ns = timeout_ns ? timeout_ns : SEARCH_NS_DEFAULT,
    };
    return 0;
}

static char **make_search_lines(const struct file_search_line *lines, size_t count)
{
    char **texts = count > 0 ? xalloc(count * sizeof(*texts)) : NULL;

    for (size_t i = 0; i < count; i++)
        texts[i] = make_text(lines[i].bytes, lines[i].len);
    return texts;
}

static Sandbox__V1__SearchMatch *make_search_match(const struct file_search_match *match)
{
    Sandbox__V1__SearchMatch *out = message_new(&sandbox__v1__search_match__descriptor);

    out->path = make_text(match->path, strlen(match->path));
    out->line = (int32_t) match->number;
    out->text = match->line.bytes ? make_text(match->line.bytes, match->line.len) : xdup("");
    out->n_before = match->before_count;
    out->before = make_search_lines(match->around, match->before_count);
    out->n_after = match->after_count;
    out->after = make_search_lines(match->around + match->before_count, match->after_count);
    return out;
}

int handle_search_files(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__SearchFilesRequest *in = message;
    autodone(file_search_result) struct file_search_result found = { 0 };
    struct file_search search;
    char id[SANDBOX_ID_MAX];
    int r = request_find_sandbox(request, in->sandbox_id, id, err);

    if (r == 0)
        r = search_take_request(in, &search, err);
    if (r == 0)
        r = file_search_run(request->service, &request->caller, id, &search, &found, err);
    if (r < 0)
        return r;
    Sandbox__V1__SearchFilesResponse *out = message_new(&sandbox__v1__search_files_response__descriptor);
    out->matches = found.count > 0 ? xalloc(found.count * sizeof(*out->matches)) : NULL;
    for (size_t i = 0; i < found.count; i++)
        out->matches[out->n_matches++] = make_search_match(&found.items[i]);
    out->limit = (Sandbox__V1__SearchFilesResponse__Limit) found.limit;
    out->files_searched = (int64_t) found.searched;
    out->files_skipped = (int64_t) found.skipped;
    *ret = &out->base;
    return 0;
}
