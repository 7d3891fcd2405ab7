#include "cli/workspace_table.h"

#include "cli/output.h"
#include "cli/workspace.h"

void workspace_table_print(const struct workspace_table *table, const struct api_call *call, json_t *answer)
{
    bool is_brief = call->options.is_quiet && table->id;
    autodone(grid) struct grid grid;
    const json_t *item;
    size_t i;

    grid_init(&grid, table->titles);
    if (call->options.is_json) {
        output_json(json_incref(answer));
        return;
    }
    json_array_foreach(json_object_get(answer, table->list), i, item)
    {
        if (is_brief)
            puts(json_text(item, table->id));
        else
            table->add_row(&grid, item);
    }
    if (!is_brief)
        grid_print(&grid, stdout);
}
