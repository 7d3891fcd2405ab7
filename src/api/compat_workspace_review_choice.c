#include "api/compat_workspace_review_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/compat_workspace_json.h"
#include "base/mem.h"
#include "service/known_keys.h"

#define NAMES_MAX 100000

void compat_review_choice_done(struct compat_review_choice *choice)
{
    for (size_t i = 0; i < choice->choice.hunk_count; i++) {
        free(choice->ranges[i]);
        free(choice->ids[i]);
    }
    free(choice->ranges);
    free(choice->ids);
    free(choice->hunks);
    free(choice->paths);
    free(choice->file_ids);
    *choice = (struct compat_review_choice){ 0 };
}

static int take_range(const json_t *given, struct selection_range *ret, struct err *err)
{
    int64_t first = 0, last = 0;
    int r = json_is_object(given) ? 0 : err_invalid(err, "a range must be an object");

    if (r == 0)
        r = compat_get_int(given, "startLine", 0, UINT32_MAX, &first, err);
    if (r == 0)
        r = compat_get_int(given, "endLine", 0, UINT32_MAX, &last, err);
    if (r == 0 && (!json_object_get(given, "startLine") || !json_object_get(given, "endLine") || last < first))
        r = err_invalid(err, "a range needs a startLine and an endLine that is not before it");
    *ret = (struct selection_range){ (uint32_t) first, (uint32_t) last };
    return r;
}

/* Either a file id or a path. */
static int take_file(const json_t *given, struct review_hunks *ret, struct err *err)
{
    int r = json_is_object(given) ? 0 : err_invalid(err, "hunks are named by objects");

    ret->file_id = ret->path = "";
    if (r == 0)
        r = compat_get_text(given, "fileId", 0, &ret->file_id, err);
    if (r == 0)
        r = compat_get_text(given, "filePath", 0, &ret->path, err);
    if (r == 0)
        r = compat_get_text(given, "path", 0, &ret->path, err);
    if (r == 0 && !*ret->file_id == !*ret->path)
        r = err_invalid(err, "hunks need a fileId or a path, not both");
    return r;
}

static int take_hunks(const json_t *given, struct compat_review_choice *ret, struct err *err)
{
    static const char *const keys[] = { "fileId", "filePath", "path", "hunkIds", "ranges", NULL };
    static const char *const range_keys[] = { "startLine", "endLine", NULL };
    size_t at = ret->choice.hunk_count++;
    struct review_hunks *hunks = &ret->hunks[at];
    const json_t *ranges = NULL;
    int r = take_file(given, hunks, err);

    if (r == 0)
        r = known_keys_check(given, keys, "hunks", err);
    if (r == 0)
        r = compat_get_texts(given, "hunkIds", NAMES_MAX, &ret->ids[at], &hunks->id_count, err);
    if (r == 0)
        r = compat_get_array(given, "ranges", NAMES_MAX, &ranges, err);
    if (r < 0)
        return r;
    hunks->ids = ret->ids[at];
    ret->ranges[at] = xalloc((json_array_size(ranges) + 1) * sizeof(**ret->ranges));
    hunks->ranges = ret->ranges[at];
    for (size_t i = 0; r == 0 && i < json_array_size(ranges); i++) {
        r = take_range(json_array_get(ranges, i), &ret->ranges[at][i], err);
        if (r == 0)
            r = known_keys_check(json_array_get(ranges, i), range_keys, "a range", err);
    }
    hunks->range_count = json_array_size(ranges);
    if (r == 0 && hunks->id_count + hunks->range_count == 0)
        r = err_invalid(err, "hunks need hunkIds or ranges; name the file in files to take it whole");
    return r;
}

/* One range each; those of a file are put together. */
static int take_hunk_range(const json_t *given, size_t most, struct compat_review_choice *ret, struct err *err)
{
    static const char *const keys[] = { "fileId", "filePath", "path", "startLine", "endLine", NULL };
    struct review_hunks file = { 0 };
    struct selection_range range = { 0 };
    size_t at = 0;
    int r = take_file(given, &file, err);

    if (r == 0)
        r = known_keys_check(given, keys, "a range", err);
    if (r == 0)
        r = take_range(given, &range, err);
    if (r < 0)
        return r;
    while (at < ret->choice.hunk_count &&
           (strcmp(ret->hunks[at].file_id, file.file_id) != 0 || strcmp(ret->hunks[at].path, file.path) != 0))
        at++;
    if (at == ret->choice.hunk_count) {
        ret->hunks[ret->choice.hunk_count++] = file;
        ret->ranges[at] = xalloc(most * sizeof(**ret->ranges));
        ret->hunks[at].ranges = ret->ranges[at];
    }
    ret->ranges[at] = xgrow(ret->ranges[at], ret->hunks[at].range_count + 1, sizeof(**ret->ranges));
    ret->hunks[at].ranges = ret->ranges[at];
    ret->ranges[at][ret->hunks[at].range_count++] = range;
    return 0;
}

int compat_review_choice_take(const json_t *body, const char *paths_key, struct compat_review_choice *ret, struct err *err)
{
    const json_t *hunks = NULL, *ranges = NULL;
    struct review_choice *choice = &ret->choice;
    int r = compat_get_texts(body, paths_key, NAMES_MAX, &ret->paths, &choice->path_count, err);

    if (r == 0)
        r = compat_get_texts(body, "fileIds", NAMES_MAX, &ret->file_ids, &choice->file_id_count, err);
    if (r == 0)
        r = compat_get_array(body, "hunks", NAMES_MAX, &hunks, err);
    if (r == 0)
        r = compat_get_array(body, "hunkRanges", NAMES_MAX, &ranges, err);
    if (r < 0)
        return r;
    size_t most = json_array_size(hunks) + json_array_size(ranges) + 1;
    ret->hunks = xalloc(most * sizeof(*ret->hunks));
    ret->ranges = xalloc(most * sizeof(*ret->ranges));
    ret->ids = xalloc(most * sizeof(*ret->ids));
    for (size_t i = 0; r == 0 && i < json_array_size(hunks); i++)
        r = take_hunks(json_array_get(hunks, i), ret, err);
    for (size_t i = 0; r == 0 && i < json_array_size(ranges); i++)
        r = take_hunk_range(json_array_get(ranges, i), 1, ret, err);
    choice->paths = ret->paths;
    choice->file_ids = ret->file_ids;
    choice->hunks = ret->hunks;
    return r;
}
