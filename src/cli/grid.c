#include "cli/grid.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/output.h"

static const char *const colour_codes[] = {
    [GRID_PLAIN] = "", [GRID_GOOD] = "\033[32m", [GRID_BAD] = "\033[31m", [GRID_DIM] = "\033[2m"
};

void grid_init(struct grid *grid, const char *const *titles)
{
    *grid = (struct grid){ .titles = titles };
    while (titles[grid->columns])
        grid->columns++;
    assert(grid->columns > 0);
}

void grid_done(struct grid *grid)
{
    for (size_t i = 0; i < grid->count; i++)
        free(grid->cells[i]);
    free(grid->cells);
    free(grid->colours);
    *grid = (struct grid){ 0 };
}

void grid_add_coloured(struct grid *grid, const char *text, enum grid_colour colour)
{
    struct buf cell = BUF_EMPTY;

    buf_add_escaped(&cell, text, strlen(text));
    vec_room(&grid->cells, &grid->cap, grid->count);
    vec_room(&grid->colours, &grid->colour_cap, grid->count);
    grid->colours[grid->count] = colour;
    grid->cells[grid->count++] = buf_dup_take(&cell);
}

void grid_add(struct grid *grid, const char *text)
{
    grid_add_coloured(grid, text, GRID_PLAIN);
}

void grid_add_size(struct grid *grid, long long size_bytes)
{
    char text[SIZE_TEXT_MAX];

    size_format(size_bytes > 0 ? (uint64_t) size_bytes : 0, text);
    grid_add(grid, text);
}

void grid_add_number(struct grid *grid, long long number)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", number);
    grid_add(grid, text);
}

/* Counts characters, not bytes: escaped text is UTF-8. */
static size_t width_of(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += (*text & 0xC0) != 0x80;
    return width;
}

static void print_row(FILE *out, const char *const *cells, const enum grid_colour *colours, const size_t *widths,
                      size_t columns, const char *all)
{
    for (size_t i = 0; i < columns; i++) {
        const char *code = colours ? colour_codes[colours[i]] : all;
        size_t gap = i + 1 < columns ? widths[i] - width_of(cells[i]) + 2 : 0;

        fprintf(out, "%s%s%s%*s", code, cells[i], *code ? "\033[0m" : "", (int) gap, "");
    }
    putc('\n', out);
}

void grid_print(const struct grid *grid, FILE *out)
{
    bool is_coloured = output_is_coloured(out);
    autofree size_t *widths = xalloc(grid->columns * sizeof(*widths));
    autofree enum grid_colour *plain = xalloc(grid->columns * sizeof(*plain));

    assert(grid->columns > 0);
    for (size_t i = 0; i < grid->columns; i++)
        widths[i] = width_of(grid->titles[i]);
    for (size_t i = 0; i < grid->count; i++) {
        size_t width = width_of(grid->cells[i]);
        widths[i % grid->columns] = width > widths[i % grid->columns] ? width : widths[i % grid->columns];
    }
    print_row(out, grid->titles, NULL, widths, grid->columns, is_coloured ? "\033[1m" : "");
    for (size_t i = 0; i + grid->columns <= grid->count; i += grid->columns)
        print_row(out, (const char *const *) grid->cells + i, is_coloured ? grid->colours + i : plain, widths, grid->columns,
                  "");
}
