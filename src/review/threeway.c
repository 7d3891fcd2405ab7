#include "review/threeway.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "review/libgit.h"

#define MARKER_LEAST 7 /* the usual length */
#define MARKER_MOST 1000

static const char *next_line(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t) (end - at));

    return newline ? newline + 1 : end;
}

static size_t marker_run_length(const char *at, const char *end, char c)
{
    size_t n = 0;

    while (at + n < end && at[n] == c)
        n++;
    return n;
}

/* Returns the longest run at the start of a line that looks like a marker. */
static size_t longest_marker(const struct buf *text)
{
    const char *end = text->data + text->len;
    size_t longest = 0;

    for (const char *at = text->data; at && at < end; at = next_line(at, end)) {
        if (!strchr("<|=>", *at) || *at == 0)
            continue;
        size_t n = marker_run_length(at, end, *at);
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* A length greater than any run in the texts, so that only our markers look like markers. 0: there is no such length. */
static size_t marker_size(const struct buf *base, const struct buf *project, const struct buf *agent)
{
    const struct buf *const texts[] = { base, project, agent };
    size_t size = MARKER_LEAST;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        size_t longest = longest_marker(texts[i]);
        size = longest >= size ? longest + 1 : size;
    }
    return size <= MARKER_MOST ? size : 0;
}

static bool is_marker(const char *at, const char *end, char c, size_t size)
{
    return marker_run_length(at, end, c) == size;
}

/* Extracts the conflicts from the text with markers. */
static void find_hunks(struct threeway *merge, size_t size)
{
    const char *end = merge->bytes.data + merge->bytes.len, *next;
    struct threeway_hunk *hunk = NULL;
    struct buf *into = NULL;
    uint32_t line = 1;

    for (const char *at = merge->bytes.data; at < end; at = next, line++) {
        next = next_line(at, end);
        if (!into && is_marker(at, end, '<', size)) {
            vec_room(&merge->hunks, &merge->hunk_cap, merge->hunk_count);
            hunk = &merge->hunks[merge->hunk_count++];
            *hunk = (struct threeway_hunk){ .line = line };
            into = &hunk->project;
        } else if (into && into == &hunk->project && is_marker(at, end, '|', size)) {
            into = &hunk->base;
        } else if (into && is_marker(at, end, '=', size)) {
            into = &hunk->agent;
        } else if (into && is_marker(at, end, '>', size)) {
            into = NULL;
        } else if (into) {
            buf_add(into, at, (size_t) (next - at));
        }
    }
}

static git_merge_file_input merge_input(const struct buf *text, const char *label)
{
    git_merge_file_input input = { .version = GIT_MERGE_FILE_INPUT_VERSION };

    input.ptr = text->data ? text->data : "";
    input.size = text->len;
    input.path = label;
    input.mode = 0100644;
    return input;
}

static int merge_texts(const struct libgit *git, const git_merge_file_input inputs[3], const git_merge_file_options *options,
                       struct threeway *ret, struct err *err)
{
    git_merge_file_result result = { 0 };

    if (git->git_merge_file(&result, &inputs[0], &inputs[1], &inputs[2], options) < 0)
        return libgit_failed(git, "merging", err);
    ret->is_clean = result.automergeable;
    buf_add(&ret->bytes, result.ptr, result.len);
    git->git_merge_file_result_free(&result);
    return 0;
}

int threeway_make(const struct buf *base, const struct buf *project, const struct buf *agent, enum threeway_favor favor,
                  struct threeway *ret, struct err *err)
{
    const git_merge_file_input inputs[] = { merge_input(base, "base"), merge_input(project, "project"),
                                            merge_input(agent, "agent") };
    size_t size = marker_size(base, project, agent);
    const struct libgit *git;
    git_merge_file_options options;
    int r = libgit_get(&git, err);

    if (r < 0)
        return r;
    git->git_merge_file_options_init(&options, GIT_MERGE_FILE_OPTIONS_VERSION);
    options.our_label = "project";
    options.their_label = "agent";
    options.ancestor_label = "base";
    options.flags = GIT_MERGE_FILE_STYLE_DIFF3;
    options.marker_size = (unsigned short) (size ? size : MARKER_LEAST);
    if (favor != THREEWAY_NONE)
        options.favor = favor == THREEWAY_PROJECT ? GIT_MERGE_FILE_FAVOR_OURS : GIT_MERGE_FILE_FAVOR_THEIRS;
    *ret = THREEWAY_EMPTY;
    r = merge_texts(git, inputs, &options, ret, err);
    if (r < 0)
        return r;
    if (!ret->is_clean && size > 0)
        find_hunks(ret, size);
    return 0;
}

void threeway_done(struct threeway *merge)
{
    for (size_t i = 0; i < merge->hunk_count; i++) {
        buf_done(&merge->hunks[i].project);
        buf_done(&merge->hunks[i].base);
        buf_done(&merge->hunks[i].agent);
    }
    free(merge->hunks);
    buf_done(&merge->bytes);
    *merge = THREEWAY_EMPTY;
}
