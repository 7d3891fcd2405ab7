/* Reads a streamed diff and joins files that came in several messages. */
#pragma once

#include "cli/api_verb.h"
#include <sandbox/v1/review.pb-c.h>

struct diff_reader {
    /* Receives the diff without its files, before any file. May be NULL. */
    int (*on_diff)(const Sandbox__V1__Diff *diff, void *cookie, struct err *err);
    /* Receives each file with all of its hunks, and frees it with sandbox__v1__file_change__free_unpacked(). */
    int (*on_file)(Sandbox__V1__FileChange *file, void *cookie, struct err *err);
    void *cookie;
};

/* Reads the changes at and below `path` (NULL: all) of the sandbox that the first word names. */
int diff_reader_run(struct api_call *call, const char *path, Sandbox__V1__DiffView view, const struct diff_reader *reader,
                    struct err *err);

/* A list of files. To fill it from a diff_reader, pass file_list_add as `on_file` and the list as its cookie. Adding a file twice has no effect. */
struct file_list {
    Sandbox__V1__FileChange **items; /* owned, and so are the files */
    size_t count, cap;
};

int file_list_add(Sandbox__V1__FileChange *file, void *list, struct err *err);
int file_list_load(struct api_call *call, char *const *paths, size_t path_count, Sandbox__V1__DiffView view,
                   struct file_list *ret, struct err *err);
Sandbox__V1__FileChange *file_list_find(const struct file_list *list, const char *id);
void file_list_done(struct file_list *list);

int diff_reader_refuse_unchanged(const char *path, struct err *err);
