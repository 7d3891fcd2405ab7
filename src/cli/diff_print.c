#include "cli/diff_print.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static const char *colour_of(const char *line, bool in_hunk)
{
    if (*line == '@')
        return "\033[36m";
    if (!in_hunk)
        return "\033[1m";
    return *line == '+' ? "\033[32m" : *line == '-' ? "\033[31m" : NULL;
}

/* Inside a hunk, the first character of a line determines its kind. */
void diff_print_text(struct diff_print *print, const char *text, size_t len)
{
    const char *stop = text + len;

    if (!print->is_coloured) {
        fwrite(text, 1, len, stdout);
        return;
    }
    for (const char *line = text, *end; line < stop; line = end + 1) {
        size_t left = (size_t) (stop - line);

        end = memchr(line, '\n', left);
        end = end ? end : stop;
        if (!print->in_hunk && left > 3 && strncmp(line, "@@ ", 3) == 0)
            print->in_hunk = true;
        else if (print->in_hunk && left > 11 && strncmp(line, "diff --git ", 11) == 0)
            print->in_hunk = false;
        const char *colour = colour_of(line, print->in_hunk);
        printf("%s%.*s%s\n", colour ? colour : "", (int) (end - line), line, colour ? "\033[0m" : "");
    }
}

int diff_print_width(const char *path)
{
    autodone(buf) struct buf name = BUF_EMPTY;

    buf_add_escaped(&name, path, strlen(path));
    return name.len > 200 ? 200 : (int) name.len;
}

static void print_bar(size_t count, char sign, bool is_coloured)
{
    if (count == 0)
        return;
    printf("%s", is_coloured ? sign == '+' ? "\033[32m" : "\033[31m" : "");
    for (size_t i = 0; i < count; i++)
        putchar(sign);
    printf("%s", is_coloured ? "\033[0m" : "");
}

/* Scales a bar to at most 40 characters, but to at least one if `part` is not 0. */
static size_t scaled(size_t part, size_t whole)
{
    size_t n = whole <= 40 ? part : part * 40 / whole;

    return n || !part ? n : 1;
}

void diff_print_stat(const struct diff_stat *stat, int name_width, bool is_coloured)
{
    autodone(buf) struct buf name = BUF_EMPTY;
    size_t total = stat->added + stat->removed;

    buf_add_escaped(&name, stat->path, strlen(stat->path));
    printf(" %-*s | ", name_width, name.data ? name.data : "");
    if (stat->is_binary || stat->is_too_large) {
        printf("%s %llu -> %llu bytes\n", stat->is_binary ? "Bin" : "Large", stat->old_bytes, stat->new_bytes);
        return;
    }
    printf("%zu%s", total, total ? " " : "");
    print_bar(scaled(stat->added, total), '+', is_coloured);
    print_bar(scaled(stat->removed, total), '-', is_coloured);
    putchar('\n');
}

void diff_print_totals(size_t files, size_t added, size_t removed)
{
    printf(" %zu file%s changed", files, files == 1 ? "" : "s");
    if (added)
        printf(", %zu insertion%s(+)", added, added == 1 ? "" : "s");
    if (removed)
        printf(", %zu deletion%s(-)", removed, removed == 1 ? "" : "s");
    putchar('\n');
}
