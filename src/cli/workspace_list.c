#include "cli/workspace_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/age.h"
#include "cli/grid.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_table.h"

#define PAGE 1000

static enum grid_colour colour_of(const char *status)
{
    if (strcmp(status, "active") == 0 || strcmp(status, "approved") == 0)
        return GRID_GOOD;
    return strcmp(status, "error") == 0 ? GRID_BAD : GRID_DIM;
}

static void add_age(struct grid *grid, const char *time)
{
    char age[AGE_TEXT_MAX];
    struct timespec t = { 0 };
    struct err ignored = ERR_NONE;

    age_format(clock_parse(time, &t, &ignored) == 0 ? t.tv_sec * CLOCK_NS_PER_SEC : 0, age);
    grid_add(grid, age);
}

static void add_row(struct grid *grid, const json_t *item)
{
    const char *owner = json_text(item, "owner"), *name = workspace_name_of(item);

    grid_add(grid, json_text(item, "id"));
    grid_add(grid, *name ? name : "-");
    grid_add_coloured(grid, json_text(item, "status"), colour_of(json_text(item, "status")));
    grid_add(grid, *owner ? owner : "-");
    grid_add_number(grid, json_number(item, "fileCount"));
    grid_add_size(grid, json_number(item, "sizeBytes"));
    add_age(grid, json_text(item, "createdAt"));
    grid_add(grid, json_text(item, "scopePath"));
    grid_add(grid, *json_text(item, "errorMessage") ? json_text(item, "errorMessage") : "-");
}

/* All pages as one. */
static int load(struct api_call *call, const char *status, const char *owner, json_t **ret, struct err *err)
{
    size_t count = 0, total = 0;

    do {
        autodone(buf) struct buf path = BUF_EMPTY;
        autojson page = NULL;
        int r;

        buf_addf(&path, "/api/v1/sandboxes?limit=%d&offset=%zu", PAGE, total);
        workspace_add_statuses(&path, status);
        workspace_add_query(&path, "owner", owner);
        r = workspace_ask(call, "GET", NULL, &page, err, "%s", path.data);
        if (r < 0)
            return r;
        count = json_array_size(json_object_get(page, "sandboxes"));
        total += count;
        if (*ret)
            json_array_extend(json_object_get(*ret, "sandboxes"), json_object_get(page, "sandboxes"));
        else
            *ret = json_incref(page);
    } while (count == PAGE);
    return 0;
}

int workspace_list(struct api_call *call, const char *status, const char *owner, struct err *err)
{
    static const char *const titles[] = { "ID", "NAME", "STATUS", "OWNER", "FILES", "SIZE", "AGE", "SCOPE", "REASON", NULL };
    static const struct workspace_table table = { "sandboxes", "id", titles, add_row };
    autojson all = NULL;
    int r = load(call, status, owner, &all, err);

    if (r == 0)
        workspace_table_print(&table, call, all);
    return r;
}
