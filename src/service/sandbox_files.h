/*
 * Files of an active workspace, as its sandbox sees them: its rules apply, and links are reported but never followed. The supervisor does
 * all the work beneath its own mount and returns only bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "service/caller.h"

struct service;

enum sandbox_file_kind {
    SANDBOX_FILE_REGULAR = 1,
    SANDBOX_FILE_DIRECTORY = 2,
    SANDBOX_FILE_SYMLINK = 3,
    SANDBOX_FILE_OTHER = 4,
};

/* Texts owned. */
struct sandbox_file {
    enum sandbox_file_kind kind;
    uint32_t mode; /* permission bits */
    uint64_t size_bytes;
    int64_t mtime_ns;
    char *name;   /* in a listing */
    char *target; /* of a link; not in a listing */
};

void sandbox_file_done(struct sandbox_file *file);

struct sandbox_file_list {
    struct sandbox_file *items; /* owned; sorted by the bytes of their names */
    size_t count, cap;
};

void sandbox_file_list_done(struct sandbox_file_list *list);

#define WORKSPACE_LISTING_MAX 100000 /* entries */

/* Paths start at the workspace, with or without a leading slash; "/" and "" are the workspace itself. ".." is refused. */
int sandbox_file_stat(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct sandbox_file *ret, struct err *err);
int sandbox_file_list(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct sandbox_file_list *ret, struct err *err);
/* Returns names after `after` ("": from the start), at most `max` (0: all). */
int sandbox_file_list_page(struct service *service, const struct caller *caller, const char *id, const char *path,
                           const char *after, size_t max, struct sandbox_file_list *ret, bool *ret_has_more, struct err *err);

/* Receives the content in pieces. A negative result ends the reading and is returned. */
typedef int (*sandbox_file_fn)(const void *bytes, size_t len, void *cookie);
/* Called before the first piece. Either callback may be NULL. */
typedef int (*sandbox_file_begin_fn)(const struct sandbox_file *file, void *cookie);
int sandbox_file_read(struct service *service, const struct caller *caller, const char *id, const char *path,
                      sandbox_file_begin_fn begin, sandbox_file_fn fn, void *cookie, struct err *err);

/* Reads from `offset`, at most `size` bytes; 0: to the end. */
int sandbox_file_read_part(struct service *service, const struct caller *caller, const char *id, const char *path,
                           uint64_t offset, uint64_t size, sandbox_file_begin_fn begin, sandbox_file_fn fn, void *cookie,
                           struct err *err);

/* Creates missing parents. The sandbox sees the file only when it is complete. `ret_is_new`: it did not exist before. */
int sandbox_file_write(struct service *service, const struct caller *caller, const char *id, const char *path, uint32_t mode,
                       const void *bytes, size_t len, bool *ret_is_new, struct err *err);

/* Creates an unnamed file on the sandbox's disk to collect content in. The caller owns the descriptor. */
int sandbox_file_spool(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);

struct sandbox_file_content {
    int fd; /* borrowed; a regular file of exactly `size` bytes */
    uint64_t size_bytes;
    uint32_t mode;     /* of a new file */
    bool is_exclusive; /* ERR_ALREADY_EXISTS if the file exists */
};

int sandbox_file_put(struct service *service, const struct caller *caller, const char *id, const char *path,
                     const struct sandbox_file_content *content, bool *ret_is_new, struct err *err);
int sandbox_file_mkdir(struct service *service, const struct caller *caller, const char *id, const char *path, struct err *err);
/* -ENOENT if it does not exist. */
int sandbox_file_remove(struct service *service, const struct caller *caller, const char *id, const char *path, bool recursive,
                        struct err *err);
/* Creates missing parents of `new_path`. Without `replaces`, ERR_ALREADY_EXISTS if it exists. ERR_FAILED_PRECONDITION: a directory of the
 * base, parts of which may not move. */
int sandbox_file_rename(struct service *service, const struct caller *caller, const char *id, const char *path,
                        const char *new_path, bool replaces, struct err *err);
