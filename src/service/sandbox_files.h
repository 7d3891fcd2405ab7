/*
 * Files of an active workspace, as its sandbox sees them: its rules hold, and links are told of, never followed. The supervisor does all of it
 * beneath its own mount; what comes back is bytes.
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
    char *target; /* of a link, when it is asked for alone */
};

void sandbox_file_done(struct sandbox_file *file);

struct sandbox_file_list {
    struct sandbox_file *items; /* owned; in the order of their names' bytes */
    size_t count, cap;
};

void sandbox_file_list_done(struct sandbox_file_list *list);

#define WORKSPACE_LISTING_MAX 100000 /* entries */

/* Paths count from the workspace, with a slash before them or not; "/" and "" are itself. ".." is refused. */
int sandbox_file_stat(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct sandbox_file *ret, struct err *err);
int sandbox_file_list(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct sandbox_file_list *ret, struct err *err);
/* Names behind `after` ("": from the beginning), at most `max` (0: all). */
int sandbox_file_list_page(struct service *service, const struct caller *caller, const char *id, const char *path,
                           const char *after, size_t max, struct sandbox_file_list *ret, bool *ret_has_more, struct err *err);

/* Content in pieces. A negative answer ends it, and is returned. */
typedef int (*sandbox_file_fn)(const void *bytes, size_t len, void *cookie);
/* `begin` hears of the file before the first piece; either may be NULL. */
typedef int (*sandbox_file_begin_fn)(const struct sandbox_file *file, void *cookie);
int sandbox_file_read(struct service *service, const struct caller *caller, const char *id, const char *path,
                      sandbox_file_begin_fn begin, sandbox_file_fn fn, void *cookie, struct err *err);

/* From `offset` on, at most `size` bytes of it; 0: to the end. */
int sandbox_file_read_part(struct service *service, const struct caller *caller, const char *id, const char *path,
                           uint64_t offset, uint64_t size, sandbox_file_begin_fn begin, sandbox_file_fn fn, void *cookie,
                           struct err *err);

/* Directories above are made. Before all of it is there the sandbox sees nothing of it. `ret_is_new`: there was none. */
int sandbox_file_write(struct service *service, const struct caller *caller, const char *id, const char *path, uint32_t mode,
                       const void *bytes, size_t len, bool *ret_is_new, struct err *err);

/* Content that is gathered in a file without a name, on the disk of the sandbox; the file is the caller's. */
int sandbox_file_spool(struct service *service, const struct caller *caller, const char *id, int *ret_fd, struct err *err);

struct sandbox_file_content {
    int fd; /* borrowed; a regular file with exactly so many bytes */
    uint64_t size_bytes;
    uint32_t mode;     /* of a new file */
    bool is_exclusive; /* there must be none: ERR_ALREADY_EXISTS */
};

int sandbox_file_put(struct service *service, const struct caller *caller, const char *id, const char *path,
                     const struct sandbox_file_content *content, bool *ret_is_new, struct err *err);
int sandbox_file_mkdir(struct service *service, const struct caller *caller, const char *id, const char *path, struct err *err);
/* -ENOENT when it is not there. */
int sandbox_file_remove(struct service *service, const struct caller *caller, const char *id, const char *path, bool recursive,
                        struct err *err);
/* Directories above `new_path` are made. Without `replaces`, ERR_ALREADY_EXISTS when something is there. ERR_FAILED_PRECONDITION: a directory
 * of the base, not all of which may move. */
int sandbox_file_rename(struct service *service, const struct caller *caller, const char *id, const char *path,
                        const char *new_path, bool replaces, struct err *err);
