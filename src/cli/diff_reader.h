/* Reads a streamed diff: puts the parts of a file together that came in several messages. */
#pragma once

#include "cli/api_verb.h"
#include <sandbox/v1/review.pb-c.h>

struct diff_reader {
    /* The diff without its files, which comes first. May be NULL. */
    int (*on_diff)(const Sandbox__V1__Diff *diff, void *cookie, struct err *err);
    /* Each file, with all of its hunks. The callee frees it by sandbox__v1__file_change__free_unpacked(). */
    int (*on_file)(Sandbox__V1__FileChange *file, void *cookie, struct err *err);
    void *cookie;
};

/* Reads the changes at and below `path`, NULL for all, of the sandbox that the first word names. */
int diff_reader_run(struct api_call *call, const char *path, Sandbox__V1__DiffView view, const struct diff_reader *reader,
                    struct err *err);

/* A list of files, which takes them from a diff_reader: pass file_list_add as `on_file` and the list as its cookie. A file that is in the list
 * already is not added again. */
struct file_list {
    Sandbox__V1__FileChange **items; /* owned, each too */
    size_t count, cap;
};

int file_list_add(Sandbox__V1__FileChange *file, void *list, struct err *err);
int file_list_load(struct api_call *call, char *const *paths, size_t path_count, Sandbox__V1__DiffView view,
                   struct file_list *ret, struct err *err);
Sandbox__V1__FileChange *file_list_find(const struct file_list *list, const char *id);
void file_list_done(struct file_list *list);

int diff_reader_refuse_unchanged(const char *path, struct err *err);
