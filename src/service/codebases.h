/*
 * The codebases: their rows in the store, their files on disk, and the sandboxes over them.
 *
 * A function that changes files notifies every running sandbox over the codebase before it returns, so that the next operation in such a
 * sandbox sees the change.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "service/caller.h"

struct service;

/* Strings owned. */
struct codebase_entry {
    char *id, *name, *owner;
    uint64_t size_bytes, file_count, version;
    int64_t created_ns, updated_ns;
};

void codebase_entry_done(struct codebase_entry *entry);

struct codebase_page {
    struct codebase_entry *items; /* owned */
    size_t count;
    char *next_token; /* owned; "" on the last page */
};

void codebase_page_done(struct codebase_page *page);

int codebases_create(struct service *service, const struct caller *caller, const char *name, const char *owner, const char *key,
                     struct codebase_entry *ret, struct err *err);
int codebases_get(struct service *service, const struct caller *caller, const char *id, struct codebase_entry *ret,
                  struct err *err);
/* `owner` "": all owners that the caller sees. */
int codebases_list(struct service *service, const struct caller *caller, const char *owner, size_t page_size, const char *token,
                   struct codebase_page *ret, struct err *err);
/* -EBUSY while sandboxes run over it, unless `is_forced`: then it stops them. */
int codebases_delete(struct service *service, const struct caller *caller, const char *id, bool is_forced, struct err *err);

/* ---- files ---- */

struct upload;

struct upload_result {
    uint64_t size_bytes, file_count, version;
    char md5[33], sha256[65];
};

/* Uploads a file in pieces. The codebase does not change before upload_commit() returns 0. */
int codebases_put(struct service *service, const struct caller *caller, const char *id, const char *path, unsigned mode,
                  struct upload **ret, struct err *err);
/* The same for all files of a tar archive. */
int codebases_import(struct service *service, const struct caller *caller, const char *id, bool replaces, struct upload **ret,
                     struct err *err);
int upload_write(struct upload *upload, const void *bytes, size_t len, struct err *err);
int upload_commit(struct upload *upload, struct upload_result *ret, struct err *err);
void upload_free(struct upload *upload); /* discards an uncommitted upload */
DEFINE_AUTOPTR(upload, upload_free);

/* Receives the bytes of a download, piece by piece. A negative errno ends it. */
typedef int (*codebases_bytes_fn)(const void *bytes, size_t len, void *cookie);

int codebases_get_file(struct service *service, const struct caller *caller, const char *id, const char *path, uint64_t version,
                       codebases_bytes_fn fn, void *cookie, struct err *err);
int codebases_export(struct service *service, const struct caller *caller, const char *id, const char *path,
                     codebases_bytes_fn fn, void *cookie, struct err *err);
int codebases_remove_file(struct service *service, const struct caller *caller, const char *id, const char *path,
                          struct codebase_entry *ret, struct err *err);

struct codebase_reader {
    const char *path, *name; /* borrowed for the call */
    bool is_dir, is_symlink, is_executable;
    uint64_t size_bytes;
    int64_t modified_ns;
};

typedef int (*codebases_file_fn)(const struct codebase_reader *file, void *cookie);

/* `limit` 0: all. The caller owns `ret_next`; it is "" on the last page. */
int codebases_list_files(struct service *service, const struct caller *caller, const char *id, const char *path,
                         bool is_recursive, size_t limit, const char *token, codebases_file_fn fn, void *cookie,
                         char **ret_next, struct err *err);

/* ---- versions ---- */

struct version_entry {
    uint64_t number;
    int64_t created_ns;
    char *author, *reason; /* owned */
    uint64_t changes;
    char **conflicts; /* owned, each item too */
    size_t conflict_count;
};

struct version_page {
    struct version_entry *items; /* owned; the newest first */
    size_t count;
    char *next_token; /* owned */
};

void version_entry_done(struct version_entry *entry);
void version_page_done(struct version_page *page);
int codebases_list_versions(struct service *service, const struct caller *caller, const char *id, size_t page_size,
                            const char *token, struct version_page *ret, struct err *err);
/* `path` "": the whole codebase. */
int codebases_restore(struct service *service, const struct caller *caller, const char *id, uint64_t version, const char *path,
                      struct version_entry *ret, struct err *err);
