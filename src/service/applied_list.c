#include "service/applied_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "service/sandbox_care.h"

static int by_sandbox_path_age(const void *a, const void *b)
{
    const struct applied_change_row *one = *(struct applied_change_row *const *) a,
                                    *two = *(struct applied_change_row *const *) b;
    int order = strcmp(one->sandbox_id, two->sandbox_id);

    order = order ? order : strcmp(one->file_path, two->file_path);
    return order ? order : (one > two) - (one < two);
}

static int by_newest(const void *a, const void *b)
{
    const struct applied_group *one = a, *two = b;

    return (one->newest > two->newest) - (one->newest < two->newest);
}

/* A file counts once, with the values of its newest row. */
static void add_to_group(struct applied_group *group, const struct applied_change_row *row, bool is_new_file)
{
    group->changes++;
    if (row < group->newest)
        group->newest = row;
    if (!is_new_file)
        return;
    group->files++;
    group->added += strcmp(row->change_type, "added") == 0;
    group->modified += strcmp(row->change_type, "modified") == 0;
    group->deleted += strcmp(row->change_type, "deleted") == 0;
}

size_t applied_group_rows(const struct applied_change_rows *rows, struct applied_group *groups)
{
    autofree struct applied_change_row **sorted = xalloc((rows->count + 1) * sizeof(*sorted));
    size_t count = 0;

    for (size_t i = 0; i < rows->count; i++)
        sorted[i] = &rows->rows[i];
    if (rows->count > 0)
        qsort(sorted, rows->count, sizeof(*sorted), by_sandbox_path_age);
    for (size_t i = 0; i < rows->count; i++) {
        bool is_other = i == 0 || strcmp(sorted[i]->sandbox_id, sorted[i - 1]->sandbox_id) != 0;

        if (is_other)
            groups[count++] = (struct applied_group){ .newest = sorted[i] };
        add_to_group(&groups[count - 1], sorted[i], is_other || strcmp(sorted[i]->file_path, sorted[i - 1]->file_path) != 0);
    }
    if (count > 0)
        qsort(groups, count, sizeof(*groups), by_newest);
    return count;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

size_t applied_count_files(const struct applied_change_rows *rows)
{
    autofree const char **paths = xalloc((rows->count + 1) * sizeof(*paths));
    size_t count = 0;

    for (size_t i = 0; i < rows->count; i++)
        paths[i] = rows->rows[i].file_path;
    if (rows->count > 0)
        qsort(paths, rows->count, sizeof(*paths), by_text);
    for (size_t i = 0; i < rows->count; i++)
        count += i == 0 || strcmp(paths[i], paths[i - 1]) != 0;
    return count;
}

static char *real_root(const char *root)
{
    char *real = *root ? realpath(root, NULL) : NULL;

    return real ? real : xdup(root);
}

int applied_find_path(struct service *service, const struct caller *caller, const char *path, const char *project_root,
                      char **ret_path, char **ret_root, struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    autofree char *root = NULL, *whole = NULL;
    int r = *path ? 0 : err_invalid(err, "path is required");

    if (r == 0 && *project_root)
        r = sandboxes_find_root(caller, project_root, &root, err);
    else if (r == 0) /* the server's default root is not the caller's choice */
        root = *path == '/' ? xdup("") : real_root(sandboxes_project_root(service));
    if (r < 0)
        return r;
    if (*path != '/' && !*root)
        return err_invalid(err, "a path that is not absolute needs a projectRoot");
    whole = *path == '/' ? xdup(path) : xprintf("%s/%s", root, path);
    if (path_clean(whole, strlen(whole), &clean) < 0)
        return err_reject(err, -EINVAL, path, "is no path");
    *ret_path = buf_dup_take(&clean);
    *ret_root = *project_root ? steal_ptr(&root) : NULL;
    return 0;
}
