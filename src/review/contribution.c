#include "review/contribution.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "review/file_state.h"

#define FORMAT "agentfense-contribution-1"
#define FILE_MAX ((size_t) 32 << 20) /* more than two files of FILE_STATE_BYTES_MAX */

static void contribution_side_done(struct contribution_side *side)
{
    buf_done(&side->bytes);
    *side = (struct contribution_side){ 0 };
}

void contribution_done(struct contribution *c)
{
    free(c->path);
    contribution_side_done(&c->before);
    contribution_side_done(&c->after);
    *c = CONTRIBUTION_NONE;
}

/* ---- on disk: NUL-terminated strings, then the bytes of both sides ---- */

static void put_text(struct buf *out, const char *text)
{
    buf_add(out, text, strlen(text) + 1);
}

static void hash_side(const struct contribution_side *side, char out[2 * FILE_STATE_HASH_BYTES + 1])
{
    autodone(file_state) struct file_state state = FILE_STATE_NONE;

    file_state_of_bytes(side->bytes.data ? side->bytes.data : "", side->bytes.len, 0600, &state);
    for (size_t i = 0; i < FILE_STATE_HASH_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", state.hash[i]);
}

static void put_side(struct buf *out, const struct contribution_side *side)
{
    char hash[2 * FILE_STATE_HASH_BYTES + 1];

    hash_side(side, hash);
    autofree char *line = xprintf("%o %d %zu %s %s", (unsigned) side->mode, side->has_bytes, side->bytes.len, hash,
                                  *side->blob ? side->blob : "-");
    put_text(out, line);
}

int contribution_keep(int dir_fd, const char *name, const struct contribution *c)
{
    autodone(buf) struct buf out = BUF_EMPTY;

    put_text(&out, FORMAT);
    put_text(&out, c->path);
    put_side(&out, &c->before);
    put_side(&out, &c->after);
    buf_add(&out, c->before.bytes.data ? c->before.bytes.data : "", c->before.bytes.len);
    buf_add(&out, c->after.bytes.data ? c->after.bytes.data : "", c->after.bytes.len);
    return file_put(dir_fd, name, out.data, out.len, 0600);
}

static const char *next_word(const struct buf *text, size_t *at)
{
    const char *word = text->data + *at, *end = *at < text->len ? memchr(word, 0, text->len - *at) : NULL;

    if (!end)
        return NULL;
    *at += (size_t) (end - word) + 1;
    return word;
}

struct side_line {
    size_t len;
    char hash[2 * FILE_STATE_HASH_BYTES + 1];
};

static bool parse_line(const char *line, struct contribution_side *side, struct side_line *ret)
{
    unsigned mode = 0;
    int has_bytes = 0;

    if (!line || sscanf(line, "%o %d %zu %64s %40s", &mode, &has_bytes, &ret->len, ret->hash, side->blob) != 5)
        return false;
    side->mode = mode;
    side->has_bytes = has_bytes;
    if (strcmp(side->blob, "-") == 0)
        side->blob[0] = 0;
    return true;
}

static bool parse_bytes(const struct buf *text, size_t *at, const struct side_line *line, struct contribution_side *side)
{
    char hash[2 * FILE_STATE_HASH_BYTES + 1];

    if (line->len > text->len - *at)
        return false;
    buf_add(&side->bytes, text->data + *at, line->len);
    *at += line->len;
    hash_side(side, hash);
    return strcmp(hash, line->hash) == 0;
}

int contribution_load(int dir_fd, const char *name, struct contribution *ret)
{
    autodone(contribution) struct contribution c = CONTRIBUTION_NONE;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct side_line before, after;
    size_t at = 0;
    int r = file_read(dir_fd, name, FILE_MAX, &text);

    if (r < 0)
        return r;
    const char *format = next_word(&text, &at), *path = format ? next_word(&text, &at) : NULL;
    if (!path || strcmp(format, FORMAT) != 0)
        return -EBADMSG;
    c.path = xdup(path);
    if (!parse_line(next_word(&text, &at), &c.before, &before) || !parse_line(next_word(&text, &at), &c.after, &after) ||
        !parse_bytes(&text, &at, &before, &c.before) || !parse_bytes(&text, &at, &after, &c.after) || at != text.len)
        return -EBADMSG;
    *ret = contribution_steal(&c);
    return 0;
}

static int sweep_contribution(const struct file_entry *entry, void *cookie)
{
    const struct timespec *kept = &entry->st->st_mtim;
    int64_t kept_ns = (int64_t) kept->tv_sec * CLOCK_NS_PER_SEC + kept->tv_nsec;

    if (S_ISREG(entry->st->st_mode) && kept_ns < *(const int64_t *) cookie)
        unlinkat(entry->dirfd, entry->name, 0);
    return FILE_WALK_SKIP;
}

int contribution_sweep(int dir_fd, int64_t before_ns, struct err *err)
{
    return file_walk(dir_fd, ".", sweep_contribution, &before_ns, err);
}
