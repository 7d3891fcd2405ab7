/* A table for people: columns as wide as their widest cell, two blanks apart. It escapes all texts. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum grid_colour { GRID_PLAIN, GRID_GOOD, GRID_BAD, GRID_DIM };

struct grid {
    const char *const *titles; /* borrowed */
    size_t columns;
    char **cells; /* owned, and so are the strings; row by row */
    enum grid_colour *colours;
    size_t count, cap, colour_cap;
};

/* `titles` ends with NULL. */
void grid_init(struct grid *grid, const char *const *titles);
void grid_done(struct grid *grid);

/* Each adds the next cell of the row, from left to right. */
void grid_add(struct grid *grid, const char *text);
void grid_add_coloured(struct grid *grid, const char *text, enum grid_colour colour);
void grid_add_size(struct grid *grid, long long size_bytes);
void grid_add_number(struct grid *grid, long long number);

/* Prints the titles and rows, coloured where output_is_coloured(). */
void grid_print(const struct grid *grid, FILE *out);
