/* A diff for people: coloured where output_is_coloured(), and the bars of --stat. The texts are safe for a terminal already. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* How far the printing of one text has come; zeroed before its first piece. */
struct diff_print {
    bool is_coloured;
    bool in_hunk;
};

/* Whole lines of a text, as git lays one out. */
void diff_print_text(struct diff_print *print, const char *text, size_t len);

/* Lines that one change of a file is told in, as for --stat. */
struct diff_stat {
    const char *path;
    size_t added, removed;
    bool is_binary, is_too_large; /* told by sizes then */
    unsigned long long old_bytes, new_bytes;
};

/* How wide the name of `path` is; the largest of all is the column's, up to 200. */
int diff_print_width(const char *path);
void diff_print_stat(const struct diff_stat *stat, int name_width, bool is_coloured);
void diff_print_totals(size_t files, size_t added, size_t removed);
