/*
 * Looking for files of a running sandbox by name, or for lines in them: a walk by the supervisor's answers, so the rules of the sandbox hold
 * and no link is followed. It ends at the first of its bounds, with what it has found until then, or when nobody waits any more.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/caller.h"

struct service;

#define FILE_SEARCH_LINE_MAX 512                  /* bytes of a line that are kept */
#define FILE_SEARCH_FILE_MAX ((uint64_t) 8 << 20) /* larger files are skipped */
#define FILE_SEARCH_ANSWER_MAX ((size_t) 2 << 20) /* bytes of all matches */
#define FILE_SEARCH_CONTEXT_MAX 10

/* All borrowed. */
struct file_search {
    const char *path;  /* a directory, or one file; "": the root */
    const char *glob;  /* with a slash it is of paths from the root, without one of names; "": every file */
    const char *text;  /* "": names are looked for */
    bool ignores_case; /* of ASCII letters in `text` */
    size_t context_lines;
    size_t max_results;
    uint64_t max_bytes; /* that are read */
    int64_t timeout_ns;
};

enum file_search_limit { FILE_SEARCH_WHOLE = 0, FILE_SEARCH_RESULTS = 1, FILE_SEARCH_BYTES = 2, FILE_SEARCH_TIME = 3 };

struct file_search_line {
    char *bytes; /* owned; may hold anything */
    size_t len;
};

struct file_search_match {
    char *path;      /* owned: "/src/a.py" */
    uint32_t number; /* of the line, from 1; 0: the name matched */
    struct file_search_line line;
    struct file_search_line *around; /* owned, each too: `before_count` lines, then those after it */
    size_t before_count, after_count;
};

struct file_search_result {
    struct file_search_match *items; /* owned */
    size_t count, cap;
    enum file_search_limit limit; /* which bound ended it */
    uint64_t searched, skipped;   /* files */
};

void file_search_result_done(struct file_search_result *result);

int file_search_run(struct service *service, const struct caller *caller, const char *id, const struct file_search *search,
                    struct file_search_result *ret, struct err *err);
