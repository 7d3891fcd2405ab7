#include "review/line_distance.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"

#define STEPS_MOST ((uint64_t) 40 << 20)

struct hashed_lines {
    const uint64_t *hashes; /* borrowed */
    size_t count;
};

static size_t count_lines(const char *text, size_t len)
{
    size_t lines = len > 0 && text[len - 1] != '\n';

    for (const char *at = text, *end = text + len; at < end && (at = memchr(at, '\n', (size_t) (end - at))); at++)
        lines++;
    return lines;
}

/* A hash collision makes the texts seem more alike, which only costs time. */
static uint64_t *hash_lines(const char *text, size_t len, size_t count)
{
    uint64_t *hashes = xgrow(NULL, count + 1, sizeof(*hashes));
    size_t n = 0;

    for (size_t at = 0; at < len; n++) {
        uint64_t hash = 14695981039346656037u; /* FNV-1a */
        do {
            hash = (hash ^ (uint8_t) text[at]) * 1099511628211u;
        } while (text[at++] != '\n' && at < len);
        hashes[n] = hash;
    }
    return hashes;
}

static void trim_equal_ends(struct hashed_lines *a, struct hashed_lines *b)
{
    while (a->count > 0 && b->count > 0 && a->hashes[0] == b->hashes[0]) {
        a->hashes++;
        b->hashes++;
        a->count--;
        b->count--;
    }
    while (a->count > 0 && b->count > 0 && a->hashes[a->count - 1] == b->hashes[b->count - 1]) {
        a->count--;
        b->count--;
    }
}

static bool is_easy(size_t a, size_t b)
{
    return (a <= LINE_DISTANCE_EASY && b <= LINE_DISTANCE_EASY) ||
           (uint64_t) a * b <= (uint64_t) LINE_DISTANCE_EASY * LINE_DISTANCE_EASY / 4;
}

/* Myers' greedy search: how far each diagonal gets with `d` lines added and removed, for growing `d`; given up early. */
static bool are_texts_near(const struct hashed_lines *a, const struct hashed_lines *b)
{
    autofree int64_t *furthest = xalloc((2 * LINE_DISTANCE_MOST + 3) * sizeof(*furthest));
    int64_t *on = furthest + LINE_DISTANCE_MOST + 1, n = (int64_t) a->count, m = (int64_t) b->count;
    uint64_t steps = 0;

    for (int64_t d = 0; d <= LINE_DISTANCE_MOST; d++) {
        for (int64_t k = -d; k <= d; k += 2) {
            int64_t x = k == -d || (k != d && on[k - 1] < on[k + 1]) ? on[k + 1] : on[k - 1] + 1;
            int64_t from = x;
            while (x < n && x - k < m && x - k >= 0 && a->hashes[x] == b->hashes[x - k])
                x++;
            on[k] = x;
            steps += (uint64_t) (x - from) + 1;
            if (x >= n && x - k >= m)
                return true;
        }
        if (steps > STEPS_MOST)
            return false;
    }
    return false;
}

bool line_distance_is_small(const char *was, size_t was_len, const char *now, size_t now_len)
{
    struct hashed_lines a = { NULL, count_lines(was, was_len) }, b = { NULL, count_lines(now, now_len) };

    if (is_easy(a.count, b.count))
        return true;
    autofree uint64_t *a_hashes = hash_lines(was, was_len, a.count), *b_hashes = hash_lines(now, now_len, b.count);
    a.hashes = a_hashes;
    b.hashes = b_hashes;
    trim_equal_ends(&a, &b);
    return is_easy(a.count, b.count) || are_texts_near(&a, &b);
}
