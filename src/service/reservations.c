#include "service/reservations.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "service/service_int.h"

void reservation_list_done(struct reservation_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].path);
        free(list->items[i].name);
        free(list->items[i].directory);
        free(list->items[i].creator);
    }
    free(list->items);
    *list = (struct reservation_list){ 0 };
}

struct reservation_search {
    const char *path;
    struct reservation_list *list;
};

static void reservation_add_row(struct service *service, struct sandbox_row *row, void *cookie)
{
    struct reservation_search *search = cookie;
    struct reservation_list *list = search->list;

    (void) service;
    if (row->no_lock || !sandbox_row_holds(row))
        return;
    for (char **path = row->reserved_paths; path && *path; path++) {
        if (*search->path && !path_is_beneath(search->path, *path) && !path_is_beneath(*path, search->path))
            continue;
        vec_room(&list->items, &list->cap, list->count);
        struct reservation *one = &list->items[list->count++];
        *one = (struct reservation){ .path = xdup(*path),
                                     .name = xdup(row->name ? row->name : ""),
                                     .directory = xdup(row->scope_path),
                                     .creator = xdup(row->creator ? row->creator : ""),
                                     .status = row->status };
        snprintf(one->id, sizeof(one->id), "%s", row->id);
    }
}

static int reservation_compare(const void *a, const void *b)
{
    return strcmp(((const struct reservation *) a)->path, ((const struct reservation *) b)->path);
}

int reservations_list(struct service *service, const struct caller *caller, const char *path, struct reservation_list *ret,
                      struct err *err)
{
    autodone(buf) struct buf clean = BUF_EMPTY;
    struct sandbox_filter filter = { .host_id = service->host_id,
                                     .base = SANDBOX_BASE_DIRECTORY,
                                     .owner_id = caller->is_admin ? NULL : caller->owner,
                                     .statuses = SANDBOX_STATUS_ANY };
    struct reservation_search search = { .path = "", .list = ret };
    int r;

    if (*path) {
        if (*path != '/' || path_clean(path, strlen(path), &clean) < 0)
            return err_reject(err, -EINVAL, path, "is no absolute path");
        search.path = clean.data;
    }
    r = service_each_sandbox(service, &filter, reservation_add_row, &search, err);
    if (r < 0)
        reservation_list_done(ret);
    else if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof(*ret->items), reservation_compare);
    return r < 0 ? r : 0;
}

void reservation_check_done(struct reservation_check *check)
{
    sandbox_scope_done(&check->scope);
    sandbox_conflicts_done(&check->room.conflicts);
}

int reservations_check(struct service *service, const struct caller *caller, const struct sandbox_scope_request *wish,
                       struct reservation_check *ret, struct err *err)
{
    struct sandbox_scope_request where = *wish;
    char no_id[] = "";
    struct sandbox_row row = { .id = no_id, .host_id = service->host_id };
    int r;

    where.state_path = service->state_dir.path;
    if (!*where.project_root)
        where.project_root = service->options.project_root;
    if (!*where.project_root && *where.scope_path == '/')
        where.project_root = where.scope_path;
    if (!*where.project_root)
        return err_invalid(err, "project_root is required: this server has no default (workspace.project_root)");
    r = sandbox_scope_resolve(&where, caller, &ret->scope, err);
    if (r < 0 || where.no_lock)
        return r;
    row.reserved_paths = ret->scope.reserved_paths;
    return sandbox_row_check_paths(service->store, &row, &ret->room, err);
}
