#include <errno.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/codebases.h"

int handle_create_codebase(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CreateCodebaseRequest *in = message;
    autodone(codebase_entry) struct codebase_entry entry = { 0 };
    /* A token already names the owner. */
    int r = codebases_create(request->service, &request->caller, in->name, *in->owner_id ? in->owner_id : request->caller.owner,
                             in->idempotency_key, &entry, err);

    if (r >= 0)
        *ret = &make_codebase(&entry)->base;
    return r;
}

int handle_get_codebase(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetCodebaseRequest *in = message;
    autodone(codebase_entry) struct codebase_entry entry = { 0 };
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r == 0)
        r = codebases_get(request->service, &request->caller, in->codebase_id, &entry, err);
    if (r >= 0)
        *ret = &make_codebase(&entry)->base;
    return r;
}

int handle_list_codebases(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListCodebasesRequest *in = message;
    autodone(codebase_page) struct codebase_page page = { 0 };
    int r = codebases_list(request->service, &request->caller, in->owner_id, take_page_size(in->page_size), in->page_token,
                           &page, err);

    if (r < 0)
        return r;
    Sandbox__V1__ListCodebasesResponse *out = message_new(&sandbox__v1__list_codebases_response__descriptor);
    out->codebases = page.count > 0 ? xalloc(page.count * sizeof(*out->codebases)) : NULL;
    for (size_t i = 0; i < page.count; i++)
        out->codebases[out->n_codebases++] = make_codebase(&page.items[i]);
    out->next_page_token = xdup(page.next_token);
    *ret = &out->base;
    return 0;
}

int handle_delete_codebase(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DeleteCodebaseRequest *in = message;
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r == 0)
        r = codebases_delete(request->service, &request->caller, in->codebase_id, in->force, err);
    if (r >= 0)
        *ret = make_empty();
    return r;
}

/* ---- files ---- */

struct file_answer {
    Sandbox__V1__ListFilesResponse *out;
    size_t cap;
    size_t bytes; /* approximate size on the wire */
};

/* The maximum message of a client, minus a margin. */
#define LISTING_BYTES_MAX (3800u << 10)
#define FILE_OVERHEAD_BYTES 40

static int add_file(const struct codebase_reader *file, void *cookie)
{
    struct file_answer *answer = cookie;
    Sandbox__V1__FileInfo *info;

    answer->bytes += strlen(file->path) + strlen(file->name) + FILE_OVERHEAD_BYTES;
    if (answer->bytes > LISTING_BYTES_MAX)
        return -EMSGSIZE;
    info = message_new(&sandbox__v1__file_info__descriptor);
    info->path = make_text(file->path, strlen(file->path));
    info->name = make_text(file->name, strlen(file->name));
    info->is_dir = file->is_dir;
    info->size = (int64_t) file->size_bytes;
    info->modified_at = make_timestamp(file->modified_ns);
    info->is_symlink = file->is_symlink;
    info->is_executable = file->is_executable;
    vec_room(&answer->out->files, &answer->cap, answer->out->n_files);
    answer->out->files[answer->out->n_files++] = info;
    return 0;
}

int handle_list_files(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListFilesRequest *in = message;
    struct file_answer answer = { 0 };
    autofree char *next = NULL;
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r < 0)
        return r;
    answer.out = message_new(&sandbox__v1__list_files_response__descriptor);
    r = codebases_list_files(request->service, &request->caller, in->codebase_id, in->path, in->recursive,
                             take_page_size(in->page_size), in->page_token, add_file, &answer, &next, err);
    if (r < 0) {
        if (answer.bytes > LISTING_BYTES_MAX)
            err_set(err, ERR_RESOURCE_EXHAUSTED, r,
                    "there are more than %zu files, too many for one answer; ask for pages with page_size",
                    answer.out->n_files);
        protobuf_c_message_free_unpacked(&answer.out->base, NULL);
        return r;
    }
    answer.out->next_page_token = make_text(next, strlen(next));
    *ret = &answer.out->base;
    return 0;
}

int handle_delete_file(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DeleteFileRequest *in = message;
    autodone(codebase_entry) struct codebase_entry entry = { 0 };
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r == 0)
        r = request_need(in->file_path, "file_path", err);
    if (r == 0)
        r = codebases_remove_file(request->service, &request->caller, in->codebase_id, in->file_path, &entry, err);
    if (r >= 0)
        *ret = &make_codebase(&entry)->base;
    return r;
}

/* ---- versions ---- */

int handle_list_versions(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListVersionsRequest *in = message;
    autodone(version_page) struct version_page page = { 0 };
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r == 0)
        r = codebases_list_versions(request->service, &request->caller, in->codebase_id, take_page_size(in->page_size),
                                    in->page_token, &page, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListVersionsResponse *out = message_new(&sandbox__v1__list_versions_response__descriptor);
    out->versions = page.count > 0 ? xalloc(page.count * sizeof(*out->versions)) : NULL;
    for (size_t i = 0; i < page.count; i++)
        out->versions[out->n_versions++] = make_version(&page.items[i]);
    out->next_page_token = xdup(page.next_token);
    *ret = &out->base;
    return 0;
}

int handle_restore_version(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__RestoreVersionRequest *in = message;
    autodone(version_entry) struct version_entry entry = { 0 };
    int r = request_need(in->codebase_id, "codebase_id", err);

    if (r == 0 && in->version < 0)
        r = err_invalid(err, "version must not be negative");
    if (r == 0)
        r = codebases_restore(request->service, &request->caller, in->codebase_id, (uint64_t) in->version, in->path, &entry,
                              err);
    if (r >= 0)
        *ret = &make_version(&entry)->base;
    return r;
}
