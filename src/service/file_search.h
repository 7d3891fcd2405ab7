/*
 * Searches a running sandbox for files by name, or for lines in them. The supervisor answers every step of the walk, so the sandbox's rules
 * apply and links are not followed. The walk ends at the first limit that it reaches, with the matches found so far, or when the caller no
 * longer waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/caller.h"

struct service;

#define FILE_SEARCH_LINE_MAX 512                  /* bytes kept of a line */
#define FILE_SEARCH_FILE_MAX ((uint64_t) 8 << 20) /* larger files are skipped */
#define FILE_SEARCH_ANSWER_MAX ((size_t) 2 << 20) /* bytes of all matches together */
#define FILE_SEARCH_CONTEXT_MAX 10

/* All borrowed. */
struct file_search {
    const char *path;  /* a directory or a file; "": the root */
    const char *glob;  /* with a slash it matches paths from the root, without one names; "": every file */
    const char *text;  /* "": search for names */
    bool ignores_case; /* ASCII letters in `text` only */
    size_t context_lines;
    size_t max_results;
    uint64_t max_bytes; /* bytes to read */
    int64_t timeout_ns;
};

enum file_search_limit { FILE_SEARCH_WHOLE = 0, FILE_SEARCH_RESULTS = 1, FILE_SEARCH_BYTES = 2, FILE_SEARCH_TIME = 3 };

struct file_search_line {
    char *bytes; /* owned; may contain any byte */
    size_t len;
};

struct file_search_match {
    char *path;      /* owned: "/src/a.py" */
    uint32_t number; /* of the line, from 1; 0: the name matched */
    struct file_search_line line;
    struct file_search_line *around; /* owned, each item too: `before_count` lines, then the lines after the match */
    size_t before_count, after_count;
};

struct file_search_result {
    struct file_search_match *items; /* owned */
    size_t count, cap;
    enum file_search_limit limit; /* which limit ended the walk */
    uint64_t searched, skipped;   /* files */
};

void file_search_result_done(struct file_search_result *result);

int file_search_run(struct service *service, const struct caller *caller, const char *id, const struct file_search *search,
                    struct file_search_result *ret, struct err *err);
