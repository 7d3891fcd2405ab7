/*
 * Two texts that have much in common, and a choice among their hunks. All hunks make the one text of the other, none leave it, and any
 * choice gives what the lines of the chosen hunks say, read as whoever applies a unified diff reads them.
 *
 * Four bytes choose. Each of the others is a piece of text and says which of the texts gets it.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "review/hunk.h"

static void add_piece(struct buf *text, uint8_t what)
{
    if (what < 60)
        buf_add_char(text, (char) ('0' + what % 12));
    if (what < 40 || what == 60)
        buf_add_char(text, '\n');
    if (what > 60)
        buf_add(text, "\0\r\\", 3);
}

static bool is_chosen(uint32_t choice, size_t i)
{
    return choice >> (i % 32) & 1;
}

/* A line with its newline, which it has not when the next line of the hunk says so. */
static const char *next_line(const char **at, const char *end, size_t *ret_len)
{
    const char *line = *at, *newline = memchr(line, '\n', (size_t) (end - line));
    size_t len;

    require(newline);
    len = (size_t) (newline - line) + 1;
    *at = newline + 1;
    if (*at < end && **at == '\\') {
        len--;
        newline = memchr(*at, '\n', (size_t) (end - *at));
        require(newline);
        *at = newline + 1;
    }
    *ret_len = len - 1;
    return line;
}

static void apply_lines(const struct hunk *hunk, const struct buf *was, size_t *place, struct buf *out)
{
    const char *at = hunk->lines.data, *end = at + hunk->lines.len;

    while (at < end) {
        size_t len;
        const char *line = next_line(&at, end, &len);
        require(*line == ' ' || *line == '+' || *line == '-');
        if (*line != '+') {
            require(was->len - *place >= len && memcmp(was->data + *place, line + 1, len) == 0);
            *place += len;
        }
        if (*line != '-')
            buf_add(out, line + 1, len);
    }
}

static void skip_lines(const struct buf *was, size_t *line, size_t upto, size_t *place, struct buf *out)
{
    for (; *line < upto; ++*line) {
        require(*place < was->len);
        const char *from = was->data + *place, *newline = memchr(from, '\n', was->len - *place);
        size_t len = newline ? (size_t) (newline - from) + 1 : was->len - *place;
        buf_add(out, from, len);
        *place += len;
    }
}

static void apply_chosen(const struct hunk_list *list, const struct buf *was, uint32_t choice, struct buf *out)
{
    size_t place = 0, line = 0;

    for (size_t i = 0; i < list->count; i++) {
        const struct hunk *hunk = &list->items[i];
        size_t before = hunk->old_lines ? hunk->old_start - 1 : hunk->old_start;
        skip_lines(was, &line, before, &place, out);
        if (is_chosen(choice, i))
            apply_lines(hunk, was, &place, out);
        else
            skip_lines(was, &line, before + hunk->old_lines, &place, out);
        line = before + hunk->old_lines;
    }
    if (was->len > place)
        buf_add(out, was->data + place, was->len - place);
}

static void require_pick(const struct hunk_list *list, const struct buf *was, const struct buf *now, uint32_t choice,
                         const struct buf *expected)
{
    autodone(buf) struct buf out = BUF_EMPTY;
    bool *chosen = malloc(list->count + 1);
    struct err err = ERR_NONE;

    require(chosen);
    for (size_t i = 0; i < list->count; i++)
        chosen[i] = is_chosen(choice, i);
    require(hunk_list_pick(was->data, was->len, now->data, now->len, list, chosen, &out, &err) == 0);
    require(out.len == expected->len && (out.len == 0 || memcmp(out.data, expected->data, out.len) == 0));
    free(chosen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autodone(buf) struct buf was = BUF_EMPTY, now = BUF_EMPTY, some = BUF_EMPTY;
    autodone(hunk_list) struct hunk_list list = HUNK_LIST_EMPTY;
    struct err err = ERR_NONE;
    uint32_t choice = 0;

    if (size < 4)
        return 0;
    memcpy(&choice, data, 4);
    for (size_t i = 4; i < size; i++) {
        if ((data[i] & 3) != 2)
            add_piece(&was, data[i] >> 2);
        if ((data[i] & 3) != 1)
            add_piece(&now, data[i] >> 2);
    }
    require(hunk_list_make(was.data, was.len, now.data, now.len, &list, &err) == 0);
    require_pick(&list, &was, &now, 0, &was);
    require_pick(&list, &was, &now, UINT32_MAX, &now);
    apply_chosen(&list, &was, choice, &some);
    require_pick(&list, &was, &now, choice, &some);
    for (size_t i = 0; i < list.count; i++) {
        require(hunk_list_find(&list, list.items[i].id) == &list.items[i]);
        require(list.items[i].added + list.items[i].removed > 0);
    }
    return 0;
}
