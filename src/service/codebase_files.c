#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "codebase/codebase_export.h"
#include "codebase/codebase_get.h"
#include "codebase/codebase_import.h"
#include "codebase/codebase_list.h"
#include "codebase/codebase_put.h"
#include "service/codebases_int.h"
#include "service/events.h"
#include "service/service_int.h"

#define CHUNK_BYTES 65536

/* Of a file or of an archive. */
struct upload {
    struct service *service;
    struct codebase *codebase;
    struct codebase_put *put;
    struct codebase_import *import;
    char *owner, *path;
};

void upload_free(struct upload *upload)
{
    if (!upload)
        return;
    codebase_put_free(upload->put);
    codebase_import_free(upload->import);
    codebase_close(upload->codebase);
    free(upload->owner);
    free(upload->path);
    free(upload);
}

/* Keeps the errors of invalid requests. Adds a reason and a context that clients know to the others. */
static int fail(const char *what, int r, struct err *err)
{
    if (err->code == ERR_NOT_FOUND && !err->reason)
        err_set_reason(err, r, "FILE_NOT_FOUND");
    return err->code == ERR_INTERNAL ? err_wrap(err, r, "%s", what) : r;
}

int codebases_put(struct service *service, const struct caller *caller, const char *id, const char *path, unsigned mode,
                  struct upload **ret, struct err *err)
{
    autoptr(upload) upload = xnew(struct upload);
    int r = codebases_open_dir(service, caller, id, &upload->codebase, &upload->owner, err);

    if (r < 0)
        return r;
    upload->service = service;
    upload->path = xdup(path);
    r = codebase_put_begin(upload->codebase, path, mode ? (int) (mode & 0777) : CODEBASE_PUT_SAME_MODE, caller->owner,
                           &upload->put, err);
    if (r < 0)
        return fail("failed to write file", r, err);
    *ret = steal_ptr(&upload);
    return 0;
}

int codebases_import(struct service *service, const struct caller *caller, const char *id, bool replaces, struct upload **ret,
                     struct err *err)
{
    struct codebase_import_options options = { .is_replacing = replaces,
                                               .max_bytes = service->options.archive_bytes_max,
                                               .by = caller->owner };
    autoptr(upload) upload = xnew(struct upload);
    int r = codebases_open_dir(service, caller, id, &upload->codebase, &upload->owner, err);

    if (r < 0)
        return r;
    upload->service = service;
    upload->path = xdup("");
    r = codebase_import_begin(upload->codebase, &options, &upload->import, err);
    if (r < 0)
        return fail("failed to unpack the archive", r, err);
    *ret = steal_ptr(&upload);
    return 0;
}

int upload_write(struct upload *upload, const void *bytes, size_t len, struct err *err)
{
    int r =
        upload->put ? codebase_put_write(upload->put, bytes, len, err) : codebase_import_write(upload->import, bytes, len, err);

    return r < 0 ? fail(upload->put ? "failed to write file" : "failed to unpack the archive", r, err) : 0;
}

static int commit_put(struct upload *upload, struct upload_result *ret, struct codebase_commit *commit, struct err *err)
{
    struct codebase_put_result result;
    int r = codebase_put_commit(upload->put, &result, commit, err);

    if (r < 0)
        return fail("failed to write file", r, err);
    *ret = (struct upload_result){ .size_bytes = result.size_bytes, .file_count = 1, .version = result.version };
    memcpy(ret->md5, result.md5, sizeof(ret->md5));
    memcpy(ret->sha256, result.sha256, sizeof(ret->sha256));
    return 0;
}

static int commit_import(struct upload *upload, struct upload_result *ret, struct codebase_commit *commit, struct err *err)
{
    struct codebase_import_result result;
    int r = codebase_import_commit(upload->import, &result, commit, err);

    if (r < 0)
        return fail("failed to unpack the archive", r, err);
    *ret = (struct upload_result){ .size_bytes = result.bytes, .file_count = result.entries, .version = result.version };
    return 0;
}

int upload_commit(struct upload *upload, struct upload_result *ret, struct err *err)
{
    autodone(codebase_commit) struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    int r = upload->put ? commit_put(upload, ret, &commit, err) : commit_import(upload, ret, &commit, err);

    if (r < 0)
        return r;
    codebases_note_commit(upload->service, upload->codebase, &commit, NULL);
    events_add(upload->service,
               &(struct event){ .type = upload->put ? "file_uploaded" : "archive_uploaded",
                                .codebase_id = codebase_id(upload->codebase),
                                .owner = upload->owner,
                                .payload = json_pack("{s:s, s:I, s:I}", "path", upload->path, "size",
                                                     (json_int_t) ret->size_bytes, "version", (json_int_t) ret->version) });
    return 0;
}

/* ---- download ---- */

int codebases_get_file(struct service *service, const struct caller *caller, const char *id, const char *path, uint64_t version,
                       codebases_bytes_fn fn, void *cookie, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    autofree char *bytes = NULL;
    autofd int fd = -1;
    struct stat st;
    int r = codebases_open_dir(service, caller, id, &codebase, NULL, err);

    if (r < 0)
        return r;
    r = version ? codebase_get_open_at(codebase, version, path, &fd, &st, err)
                : codebase_get_open(codebase, path, &fd, &st, err);
    if (r < 0)
        return err->code == ERR_NOT_FOUND ? err_set_reason(err, err_wrap(err, r, "file not found"), "FILE_NOT_FOUND")
                                          : err_wrap(err, r, "failed to read file");
    bytes = malloc(CHUNK_BYTES);
    if (!bytes)
        return err_errno(err, -ENOMEM, "failed to read file");
    for (;;) {
        ssize_t n = read(fd, bytes, CHUNK_BYTES);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, -errno, "failed to read file");
        if (n == 0)
            return 0;
        r = fn(bytes, (size_t) n, cookie);
        if (r < 0)
            return err_set(err, ERR_CANCELLED, r, "nobody reads the file any more");
    }
}

int codebases_export(struct service *service, const struct caller *caller, const char *id, const char *path,
                     codebases_bytes_fn fn, void *cookie, struct err *err)
{
    autoptr(codebase) codebase = NULL;
    int r = codebases_open_dir(service, caller, id, &codebase, NULL, err);

    return r < 0 ? r : codebase_export(codebase, *path ? path : NULL, CODEBASE_EXPORT_PLAIN, fn, cookie, err);
}

/* ---- removal ---- */

/* A directory is removed with its contents. The transaction removes only empty directories, so the deepest paths come first. */
struct doomed {
    char **paths; /* owned, each item too; as listed, a directory before its contents */
    size_t count, cap;
};

static int doom(const struct codebase_file *file, void *cookie)
{
    struct doomed *doomed = cookie;

    vec_room(&doomed->paths, &doomed->cap, doomed->count);
    doomed->paths[doomed->count++] = xdup(file->path);
    return 0;
}

static int remove_all(struct codebase *codebase, const char *path, const struct doomed *doomed, const char *by,
                      struct codebase_commit *ret, struct err *err)
{
    struct codebase_change change = { .when_ns = clock_wall_ns(), .seen = CODEBASE_UNSEEN };
    autoptr(codebase_txn) txn = NULL;
    int r = codebase_txn_begin(codebase, by, "delete", &txn, err);

    for (size_t i = doomed->count; r == 0 && i > 0; i--) {
        change.path = doomed->paths[i - 1];
        r = codebase_txn_remove(txn, &change, err);
    }
    change.path = path;
    if (r == 0)
        r = codebase_txn_remove(txn, &change, err);
    return r < 0 ? r : codebase_txn_commit(txn, ret, err);
}

static bool is_directory(struct codebase *codebase, const char *clean)
{
    autofd int fd = path_open_beneath(codebase_files_fd(codebase), clean + 1, O_PATH | O_DIRECTORY, 0);

    return fd >= 0;
}

static bool is_there(struct codebase *codebase, const char *clean)
{
    autofd int fd = path_open_beneath(codebase_files_fd(codebase), clean + 1, O_PATH, 0);

    return fd >= 0;
}

int codebases_remove_file(struct service *service, const struct caller *caller, const char *id, const char *path,
                          struct codebase_entry *ret, struct err *err)
{
    struct doomed doomed = { 0 };
    struct codebase_list_options options = { .is_recursive = true };
    autodone(codebase_commit) struct codebase_commit commit = CODEBASE_COMMIT_NONE;
    autodone(codebase_entry) struct codebase_entry entry = { 0 };
    autodone(buf) struct buf clean = BUF_EMPTY;
    autoptr(codebase) codebase = NULL;
    autofree char *owner = NULL;
    int r = codebases_open_dir(service, caller, id, &codebase, &owner, err);

    /* Read the row first: after the removal nothing may fail any more. */
    if (r == 0)
        r = codebases_get(service, caller, id, &entry, err);
    if (r < 0)
        return r;
    if (path_clean(path, strlen(path), &clean) < 0 || clean.len < 2)
        return err_reject(err, -EINVAL, path, "is no path of a file");
    if (!is_there(codebase, clean.data))
        return err_set_reason(err, err_set(err, ERR_NOT_FOUND, -ENOENT, "file not found: %s", path), "FILE_NOT_FOUND");
    options.path = clean.data;
    if (is_directory(codebase, clean.data))
        r = codebase_list(codebase, &options, doom, &doomed, err);
    if (r >= 0)
        r = remove_all(codebase, clean.data, &doomed, caller->owner, &commit, err);
    for (size_t i = 0; i < doomed.count; i++)
        free(doomed.paths[i]);
    free(doomed.paths);
    if (r < 0)
        return r;
    codebases_note_commit(service, codebase, &commit, NULL);
    events_add(service, &(struct event){
                            .type = "file_deleted",
                            .codebase_id = id,
                            .owner = owner,
                            .payload = json_pack("{s:s, s:I}", "path", clean.data, "version", (json_int_t) commit.version) });
    entry.version = commit.version;
    entry.size_bytes = commit.size_bytes;
    entry.file_count = commit.file_count;
    entry.updated_ns = clock_wall_ns();
    *ret = entry;
    entry = (struct codebase_entry){ 0 };
    return 0;
}

/* ---- listing ---- */

struct listing {
    codebases_file_fn fn;
    void *cookie;
    const char *prefix; /* put before the returned paths; NULL: nothing */
    char *last;         /* owned: where the next page continues */
};

/* In a listing that is not recursive, paths begin as in the request: "/" gives "/name", "" gives "name". */
static int list_one(const struct codebase_file *file, void *cookie)
{
    struct listing *listing = cookie;
    autofree char *joined = NULL;
    struct codebase_reader told = {
        .name = file->name,
        .is_dir = file->kind == CODEBASE_DIRECTORY,
        .is_symlink = file->kind == CODEBASE_SYMLINK,
        .is_executable = file->kind == CODEBASE_FILE && (file->mode & 0111),
        .size_bytes = file->size_bytes,
        .modified_ns = file->mtime_ns,
    };

    if (listing->prefix) {
        size_t len = strlen(listing->prefix);
        joined = xprintf("%s%s%s", listing->prefix, len > 0 && listing->prefix[len - 1] != '/' ? "/" : "", file->name);
    }
    told.path = joined ? joined : file->path;
    free(listing->last);
    listing->last = xdup(file->path);
    return listing->fn(&told, listing->cookie);
}

int codebases_list_files(struct service *service, const struct caller *caller, const char *id, const char *path,
                         bool is_recursive, size_t limit, const char *token, codebases_file_fn fn, void *cookie,
                         char **ret_next, struct err *err)
{
    struct listing listing = { .fn = fn, .cookie = cookie, .prefix = is_recursive ? NULL : path };
    struct codebase_list_options options = {
        .path = path, .is_recursive = is_recursive, .after = token && *token ? token : NULL, .limit = limit
    };
    autoptr(codebase) codebase = NULL;
    int r = codebases_open_dir(service, caller, id, &codebase, NULL, err);

    if (r < 0)
        return r;
    r = codebase_list(codebase, &options, list_one, &listing, err);
    *ret_next = r == 1 && listing.last ? steal_ptr(&listing.last) : xdup("");
    free(listing.last);
    return r < 0 ? err_wrap(err, r, "failed to list files") : 0;
}
