#include "policy/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"

struct pattern *pattern_new(void)
{
    return xnew(struct pattern);
}

void pattern_free(struct pattern *pattern)
{
    if (!pattern)
        return;
    for (size_t i = 0; i < pattern->count; i++)
        glob_done(&pattern->parts[i].glob);
    free(pattern->parts);
    free(pattern);
}

static struct pattern_part *pattern_add_part(struct pattern *pattern)
{
    pattern->parts = xgrow(pattern->parts, pattern->count + 1, sizeof(*pattern->parts));
    struct pattern_part *part = &pattern->parts[pattern->count++];
    *part = (struct pattern_part){ 0 };
    return part;
}

void pattern_add_any_depth(struct pattern *pattern)
{
    if (pattern->count == 0 || !pattern->parts[pattern->count - 1].any_depth)
        pattern_add_part(pattern)->any_depth = true;
}

void pattern_take_glob(struct pattern *pattern, struct glob *glob)
{
    pattern_add_part(pattern)->glob = *glob;
    *glob = (struct glob){ 0 };
}

void pattern_prepend_any_depth(struct pattern *pattern)
{
    if (pattern->count > 0 && pattern->parts[0].any_depth)
        return;
    pattern_add_part(pattern);
    memmove(pattern->parts + 1, pattern->parts, (pattern->count - 1) * sizeof(*pattern->parts));
    pattern->parts[0] = (struct pattern_part){ .any_depth = true };
}

static void dup_glob(const struct glob *from, struct glob *to)
{
    *to = *from;
    to->text = xdupn(from->text, from->text_len);
    to->tokens = xgrow(NULL, from->token_count, sizeof(*from->tokens));
    if (from->token_count)
        memcpy(to->tokens, from->tokens, from->token_count * sizeof(*from->tokens));
    to->ranges = xgrow(NULL, from->range_count, sizeof(*from->ranges));
    if (from->range_count)
        memcpy(to->ranges, from->ranges, from->range_count * sizeof(*from->ranges));
}

struct pattern *pattern_dup(const struct pattern *pattern, size_t skip_parts)
{
    struct pattern *copy = pattern_new();

    for (size_t i = skip_parts; i < pattern->count; i++) {
        if (pattern->parts[i].any_depth)
            pattern_add_any_depth(copy);
        else
            dup_glob(&pattern->parts[i].glob, &pattern_add_part(copy)->glob);
    }
    return copy;
}

bool pattern_is_literal(const struct pattern *pattern)
{
    for (size_t i = 0; i < pattern->count; i++) {
        if (pattern->parts[i].any_depth || pattern->parts[i].glob.shape != GLOB_LITERAL)
            return false;
    }
    return true;
}

bool pattern_equals(const struct pattern *a, const struct pattern *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct pattern_part *p = &a->parts[i], *q = &b->parts[i];
        if (p->any_depth != q->any_depth || (!p->any_depth && !glob_equals(&p->glob, &q->glob)))
            return false;
    }
    return true;
}

/* The same two-pointer match as glob_matches(), with components in place of units and `**` in place of the star. */
bool pattern_matches(const struct pattern *pattern, const char *path, size_t len)
{
    size_t p = 0, retry_part = SIZE_MAX;
    const char *at = path, *end = path + len, *retry_at = path;

    if (len == 1) /* "/" has no component */
        at = end;
    while (at < end) {
        const char *name = at + 1;
        const char *stop = memchr(name, '/', (size_t) (end - name));
        if (!stop)
            stop = end;
        if (p < pattern->count && pattern->parts[p].any_depth) {
            retry_part = p++;
            retry_at = at;
        } else if (p < pattern->count && glob_matches(&pattern->parts[p].glob, name, (size_t) (stop - name))) {
            p++;
            at = stop;
        } else if (retry_part != SIZE_MAX) {
            const char *next = memchr(retry_at + 1, '/', (size_t) (end - retry_at - 1));
            retry_at = at = next ? next : end;
            p = retry_part + 1;
        } else {
            return false;
        }
    }
    while (p < pattern->count && pattern->parts[p].any_depth)
        p++;
    return p == pattern->count;
}

static size_t leading_literal_units_len(const struct glob *glob)
{
    size_t len = 0;

    if (glob->shape == GLOB_LITERAL || glob->shape == GLOB_PREFIX)
        return glob->text_len;
    for (size_t i = 0; i < glob->token_count && glob->tokens[i].kind == GLOB_UNIT; i++) {
        char bytes[4];
        uint32_t unit = glob->tokens[i].unit;
        len += unit >= UNIT_STRAY_BYTE ? 1 : utf8_write(unit, bytes);
    }
    return len;
}

struct specificity pattern_specificity(const struct pattern *pattern)
{
    struct specificity s = { .literal = true, .anchored = pattern->count == 0 || !pattern->parts[0].any_depth };
    bool in_prefix = true;

    for (size_t i = 0; i < pattern->count; i++) {
        const struct pattern_part *part = &pattern->parts[i];

        if (in_prefix)
            s.prefix_len++; /* the slash */
        if (part->any_depth) {
            s.any_depths++;
            s.literal = in_prefix = false;
            continue;
        }
        if (in_prefix)
            s.prefix_len += (uint32_t) leading_literal_units_len(&part->glob);
        s.literal_len += (uint32_t) part->glob.literal_units;
        if (part->glob.shape != GLOB_LITERAL)
            s.literal = in_prefix = false;
    }
    return s;
}

static int compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

int pattern_specificity_cmp(const struct specificity *a, const struct specificity *b)
{
    if (a->literal != b->literal)
        return a->literal ? 1 : -1;
    if (a->anchored != b->anchored)
        return a->anchored ? 1 : -1;
    if (a->prefix_len != b->prefix_len)
        return compare_u32(a->prefix_len, b->prefix_len);
    if (a->literal_len != b->literal_len)
        return compare_u32(a->literal_len, b->literal_len);
    return compare_u32(b->any_depths, a->any_depths);
}

char *pattern_dup_literal_path(const struct pattern *pattern, size_t count)
{
    autodone(buf) struct buf path = BUF_EMPTY;

    for (size_t i = 0; i < count; i++) {
        buf_add_char(&path, '/');
        buf_add(&path, pattern->parts[i].glob.text, pattern->parts[i].glob.text_len);
    }
    if (count == 0)
        buf_add_char(&path, '/');
    return buf_dup_take(&path);
}
