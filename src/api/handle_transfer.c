#include <errno.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/codebases.h"

/* ---- in ---- */

/* What differs between the two upload methods: how to begin and what to answer. */
struct upload_kind {
    int (*begin)(const ProtobufCMessage *message, struct service *service, const struct caller *caller, struct upload **ret,
                 struct err *err);
    ProtobufCMessage *(*answer)(const ProtobufCMessage *first, const struct upload_result *result);
    int64_t (*announced)(const ProtobufCMessage *first); /* in bytes; 0: unknown */
};

static int upload_begin_file(const ProtobufCMessage *message, struct service *service, const struct caller *caller,
                             struct upload **ret, struct err *err)
{
    const Sandbox__V1__UploadChunk__Metadata *metadata = ((const Sandbox__V1__UploadChunk *) (const void *) message)->metadata;
    int r = request_need(metadata->codebase_id, "codebase_id", err);

    if (r < 0)
        return err_invalid(err, "codebase_id is required in metadata");
    if (request_need(metadata->file_path, "file_path", err) < 0)
        return err_invalid(err, "file_path is required in metadata");
    return codebases_put(service, caller, metadata->codebase_id, metadata->file_path, metadata->mode, ret, err);
}

static ProtobufCMessage *upload_answer_file(const ProtobufCMessage *first, const struct upload_result *result)
{
    const Sandbox__V1__UploadChunk__Metadata *metadata = ((const Sandbox__V1__UploadChunk *) (const void *) first)->metadata;
    Sandbox__V1__UploadResult *out = message_new(&sandbox__v1__upload_result__descriptor);

    out->codebase_id = xdup(metadata->codebase_id);
    out->file_path = xdup(metadata->file_path);
    out->size = (int64_t) result->size_bytes;
    out->checksum = xdup(result->md5);
    out->sha256 = xdup(result->sha256);
    out->version = (int64_t) result->version;
    return &out->base;
}

static int64_t file_size(const ProtobufCMessage *first)
{
    return ((const Sandbox__V1__UploadChunk *) (const void *) first)->metadata->total_size;
}

static int64_t archive_size(const ProtobufCMessage *first)
{
    return ((const Sandbox__V1__ArchiveChunk *) (const void *) first)->metadata->total_size;
}

static int upload_begin_archive(const ProtobufCMessage *message, struct service *service, const struct caller *caller,
                                struct upload **ret, struct err *err)
{
    const Sandbox__V1__ArchiveChunk__Metadata *metadata =
        ((const Sandbox__V1__ArchiveChunk *) (const void *) message)->metadata;

    if (request_need(metadata->codebase_id, "codebase_id", err) < 0)
        return err_invalid(err, "codebase_id is required in metadata");
    return codebases_import(service, caller, metadata->codebase_id, metadata->replace, ret, err);
}

static ProtobufCMessage *upload_answer_archive(const ProtobufCMessage *first, const struct upload_result *result)
{
    const Sandbox__V1__ArchiveChunk__Metadata *metadata = ((const Sandbox__V1__ArchiveChunk *) (const void *) first)->metadata;
    Sandbox__V1__UploadArchiveResult *out = message_new(&sandbox__v1__upload_archive_result__descriptor);

    out->codebase_id = xdup(metadata->codebase_id);
    out->file_count = (int64_t) result->file_count;
    out->size = (int64_t) result->size_bytes;
    out->version = (int64_t) result->version;
    return &out->base;
}

static const struct upload_kind file_kind = { upload_begin_file, upload_answer_file, file_size },
                                archive_kind = { upload_begin_archive, upload_answer_archive, archive_size };

/* Both messages are a oneof of metadata and data with the same layout. */
_Static_assert(offsetof(Sandbox__V1__UploadChunk, content_case) == offsetof(Sandbox__V1__ArchiveChunk, content_case) &&
                   offsetof(Sandbox__V1__UploadChunk, data) == offsetof(Sandbox__V1__ArchiveChunk, data) &&
                   (int) SANDBOX__V1__UPLOAD_CHUNK__CONTENT_METADATA == (int) SANDBOX__V1__ARCHIVE_CHUNK__CONTENT_METADATA &&
                   (int) SANDBOX__V1__UPLOAD_CHUNK__CONTENT_DATA == (int) SANDBOX__V1__ARCHIVE_CHUNK__CONTENT_DATA,
               "two messages of one shape");

static int upload_take_piece(const ProtobufCMessage *message, struct upload *upload, struct err *err)
{
    const Sandbox__V1__UploadChunk *chunk = (const void *) message;

    switch (chunk->content_case) {
    case SANDBOX__V1__UPLOAD_CHUNK__CONTENT_METADATA:
        return err_invalid(err, "metadata already received");
    case SANDBOX__V1__UPLOAD_CHUNK__CONTENT_DATA:
        return upload_write(upload, chunk->data.data, chunk->data.len, err);
    default:
        return 0;
    }
}

static int upload_take_pieces(struct call *call, struct upload *upload, int64_t *ret_bytes, struct err *err)
{
    *ret_bytes = 0;
    for (;;) {
        autorequest piece = NULL;
        int r = call_recv(call, &piece, err);

        if (r <= 0)
            return r;
        r = upload_take_piece(piece, upload, err);
        if (r < 0)
            return r;
        if (((const Sandbox__V1__UploadChunk *) (const void *) piece)->content_case == SANDBOX__V1__UPLOAD_CHUNK__CONTENT_DATA)
            *ret_bytes += (int64_t) ((const Sandbox__V1__UploadChunk *) (const void *) piece)->data.len;
    }
}

/* Node's HTTP/2 client gives up in two steps: it ends the stream as if everything had been sent, and resets it with the next frame. The announced
 * size and a last check for cancellation keep half a file from replacing a whole one. */
static int upload_check_whole(struct call *call, const struct upload_kind *kind, const ProtobufCMessage *first, int64_t bytes,
                              struct err *err)
{
    int64_t announced = kind->announced(first);

    if (call_is_cancelled(call))
        return err_set(err, ERR_CANCELLED, -ECANCELED, "the call was cancelled");
    if (announced > 0 && bytes != announced)
        return err_invalid(err, "total_size is %lld, and %lld bytes were sent", (long long) announced, (long long) bytes);
    return 0;
}

static int upload_take_first(struct call *call, ProtobufCMessage **ret, struct err *err)
{
    int r = call_recv(call, ret, err);

    if (r < 0)
        return r;
    if (r == 0)
        return err_invalid(err, "no metadata received");
    if (((Sandbox__V1__UploadChunk *) *ret)->content_case != SANDBOX__V1__UPLOAD_CHUNK__CONTENT_METADATA)
        return err_invalid(err, "metadata must be sent first");
    return 0;
}

static int upload_run(struct call *call, void *cookie, const struct upload_kind *kind, struct err *err)
{
    autorequest first = NULL;
    autoptr(upload) upload = NULL;
    struct upload_result result;
    struct request request;
    int64_t bytes;
    int r = request_admit(call, cookie, &request, err);

    if (r == 0)
        r = upload_take_first(call, &first, err);
    if (r == 0)
        r = kind->begin(first, request.service, &request.caller, &upload, err);
    if (r == 0)
        r = upload_take_pieces(call, upload, &bytes, err);
    if (r == 0)
        r = upload_check_whole(call, kind, first, bytes, err);
    if (r == 0)
        r = upload_commit(upload, &result, err);
    return r < 0 ? r : answer_send(call, kind->answer(first, &result), err);
}

int handle_upload_files(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, upload_run(call, cookie, &file_kind, err), err);
}

int handle_upload_archive(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, upload_run(call, cookie, &archive_kind, err), err);
}

/* ---- out ---- */

static int download_send_piece(const void *bytes, size_t len, void *cookie)
{
    Sandbox__V1__FileChunk chunk = SANDBOX__V1__FILE_CHUNK__INIT;
    int r = 0;

    for (size_t at = 0; r == 0 && at < len; at += chunk.data.len) {
        chunk.data.len = len - at < 65536 ? len - at : 65536;
        chunk.data.data = (uint8_t *) bytes + at;
        r = call_send(cookie, &chunk.base);
    }
    return r;
}

int handle_download_file(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DownloadFileRequest *in = message;
    int r = request_need(in->codebase_id, "codebase_id", err);

    (void) ret;
    if (r == 0)
        r = request_need(in->file_path, "file_path", err);
    if (r == 0 && in->version < 0)
        r = err_invalid(err, "version must not be negative");
    return r < 0 ? r
                 : codebases_get_file(request->service, &request->caller, in->codebase_id, in->file_path,
                                      (uint64_t) in->version, download_send_piece, request->call, err);
}

int handle_download_archive(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DownloadArchiveRequest *in = message;
    int r = request_need(in->codebase_id, "codebase_id", err);

    (void) ret;
    return r < 0 ? r
                 : codebases_export(request->service, &request->caller, in->codebase_id, in->path, download_send_piece,
                                    request->call, err);
}
