/* Prints diffs: coloured where output_is_coloured(), and with bars for --stat. The texts must already be safe for a terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* State of printing one text; zeroed before its first piece. */
struct diff_print {
    bool is_coloured;
    bool in_hunk;
};

/* Prints whole lines of a text in git's format. */
void diff_print_text(struct diff_print *print, const char *text, size_t len);

/* The change of one file, as a line of --stat. */
struct diff_stat {
    const char *path;
    size_t added, removed;
    bool is_binary, is_too_large; /* printed as sizes, not as lines */
    unsigned long long old_bytes, new_bytes;
};

/* Returns the width of the name of `path`, at most 200. The column is as wide as the widest name. */
int diff_print_width(const char *path);
void diff_print_stat(const struct diff_stat *stat, int name_width, bool is_coloured);
void diff_print_totals(size_t files, size_t added, size_t removed);
