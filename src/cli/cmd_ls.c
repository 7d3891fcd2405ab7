#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/age.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "review/edit.h"
#include "sandbox/limit_report.h"
#include "sandbox/state_dir.h"

static const char help[] =
    "usage: agentfense ls [--json] [-q]\n"
    "\n"
    "Lists the sandboxes that 'agentfense run' made: name, id, running, stopped or broken, how many files are changed, age, "
    "and\n"
    "the directory each was made over; why, of one that is broken. Those of 'agentfense create' are listed by\n"
    "'agentfense ps', workspaces by 'agentfense ps -w'.\n"
    "\n"
    "  -q, --quiet            names only\n"
    "  --json                 JSON on standard output, with the limits that those that run are held to\n"
    "  -h, --help             this text\n";

static const struct option long_options[] = {
    { "quiet", no_argument, NULL, 'q' },
    LOCAL_LONG_OPTIONS,
};

#define ID_WIDTH 19 /* of "sb_" and 16 digits */

struct ls_options {
    bool only_names;
};

/* One line of the list. */
struct row {
    char *id;        /* what its directory is called */
    char *name;      /* the id where it has none */
    char *directory; /* NULL: its spec cannot be read */
    char *broken;    /* why it is, or NULL */
    bool is_running;
    bool has_changes; /* whether `changes` is known */
    size_t changes;
    uint64_t created_ns;
    struct limit_report limits;
};

struct listing {
    const struct state_dir *state_dir;
    bool is_json, only_names;
    struct row *rows; /* owned */
    size_t count, cap;
};

static void count_changes(const struct listing *l, int dir_fd, struct row *row)
{
    autodone(edit_list) struct edit_list edits = EDIT_LIST_EMPTY;
    autofree char *delta_path = state_dir_path(l->state_dir, row->id, "delta");
    struct err err = ERR_NONE;

    row->has_changes =
        faccessat(dir_fd, "delta/meta/format", F_OK, AT_SYMLINK_NOFOLLOW) < 0 && !sandbox_dir_has_changes(dir_fd);
    if (row->has_changes) /* nothing was written in it yet */
        return;
    if (edit_list_load(delta_path, NULL, 0, &edits, &err) == 0) {
        row->has_changes = true;
        row->changes = edit_list_files(&edits);
        return;
    }
    row->broken = xdup(err.text);
}

/* One that is broken is listed too, so that it can be discarded. */
static int on_sandbox(const char *id, int dir_fd, void *cookie)
{
    struct listing *l = cookie;
    autoptr(sandbox_spec) spec = NULL;
    struct err err = ERR_NONE;
    char name[SANDBOX_NAME_MAX];

    if (dir_fd >= 0 && sandbox_dir_is_deleted(dir_fd))
        return 0;
    vec_room(&l->rows, &l->cap, l->count);
    struct row *row = &l->rows[l->count++];
    if (dir_fd < 0)
        err_errno(&err, dir_fd, "opening its directory");
    else
        sandbox_spec_load(dir_fd, &spec, &err);
    state_dir_show_name(l->state_dir, id, spec, name);
    *row = (struct row){ .id = xdup(id), .name = xdup(name) };
    if (l->only_names)
        return 0;
    row->is_running = dir_fd >= 0 && sandbox_dir_is_running(dir_fd);
    if (!spec) {
        row->broken = xdup(err.text);
        return 0;
    }
    row->directory = xdup(spec->base_path);
    row->created_ns = spec->created_ns;
    if (l->is_json)
        limit_report_read(dir_fd, &row->limits);
    count_changes(l, dir_fd, row);
    return 0;
}

static const char *state_of(const struct row *row)
{
    return row->is_running ? "running" : row->broken ? "broken" : "stopped";
}

static int by_name(const void *a, const void *b)
{
    const struct row *one = a, *other = b;
    int order = strcmp(one->name, other->name);

    return order ? order : strcmp(one->id, other->id);
}

static void print_row(const struct row *row, int width)
{
    char age[AGE_TEXT_MAX], changes[24] = "?";

    age_format((int64_t) row->created_ns, age);
    if (row->has_changes)
        snprintf(changes, sizeof(changes), "%zu", row->changes);
    printf("%-*s  %-*s  %-7s  %7s  %4s  ", width, row->name, ID_WIDTH, row->id, state_of(row), changes, age);
    output_escaped(stdout, row->directory ? row->directory : "?");
    if (row->broken) {
        fputs("  (", stdout);
        output_escaped(stdout, row->broken);
        putchar(')');
    }
    putchar('\n');
}

static void print_text(const struct listing *l)
{
    int width = 4;

    for (size_t i = 0; i < l->count; i++)
        width = (int) strlen(l->rows[i].name) > width ? (int) strlen(l->rows[i].name) : width;
    printf("%-*s  %-*s  %-7s  %7s  %4s  %s\n", width, "NAME", ID_WIDTH, "ID", "STATE", "CHANGES", "AGE", "DIRECTORY");
    for (size_t i = 0; i < l->count; i++)
        print_row(&l->rows[i], width);
}

static json_t *limits_json(const struct limit_report *limits)
{
    json_t *list = json_array();

    for (size_t i = 0; i < limits->count; i++) {
        const struct limit_in_force *limit = &limits->items[i];
        json_t *one = json_pack("{s:o, s:I, s:b}", "name", output_json_name(limit->name), "value", (json_int_t) limit->value,
                                "isDefault", limit->is_default);

        if (*limit->not_enforced)
            json_object_set_new(one, "notEnforced", output_json_name(limit->not_enforced));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *row_json(const struct row *row)
{
    char created[CLOCK_TEXT_MAX] = "";
    json_t *json = json_pack("{s:s, s:s, s:s, s:o}", "name", row->name, "id", row->id, "state", state_of(row), "directory",
                             row->directory ? output_json_name(row->directory) : json_null());

    json_object_set_new(json, "changes", row->has_changes ? json_integer((json_int_t) row->changes) : json_null());
    if (row->broken)
        json_object_set_new(json, "reason", output_json_name(row->broken));
    if (row->created_ns && clock_format(clock_timespec_of_ns((int64_t) row->created_ns), CLOCK_DIGITS_FEWEST, created) == 0)
        json_object_set_new(json, "created", json_string(created));
    if (row->limits.count > 0)
        json_object_set_new(json, "limits", limits_json(&row->limits));
    return json;
}

static void print(const struct listing *l)
{
    json_t *all;

    if (!l->is_json && !l->only_names) {
        print_text(l);
        return;
    }
    all = l->is_json ? json_array() : NULL;
    for (size_t i = 0; i < l->count; i++) {
        if (!l->is_json)
            puts(l->rows[i].name);
        else
            json_array_append_new(all, l->only_names ? json_string(l->rows[i].name) : row_json(&l->rows[i]));
    }
    if (l->is_json)
        output_json(json_pack("{s:o}", "sandboxes", all));
}

static int run_ls(const struct local_call *call, struct err *err)
{
    const struct ls_options *o = call->own;
    autodone(state_dir) struct state_dir state_dir = STATE_DIR_NONE;
    struct listing l = { .state_dir = &state_dir, .is_json = call->is_json, .only_names = o->only_names };
    int r = state_dir_open(false, &state_dir, err);

    if (r == 0)
        r = state_dir_each_name(&state_dir, on_sandbox, &l, err);
    if (r == -ENOENT) /* nobody has made one yet */
        r = 0;
    if (l.count > 0)
        qsort(l.rows, l.count, sizeof(*l.rows), by_name);
    if (r == 0)
        print(&l);
    for (size_t i = 0; i < l.count; i++) {
        free(l.rows[i].id);
        free(l.rows[i].name);
        free(l.rows[i].directory);
        free(l.rows[i].broken);
    }
    free(l.rows);
    return r;
}

static int take(void *own, int option, struct err *err)
{
    struct ls_options *o = own;

    (void) option;
    (void) err;
    o->only_names = true;
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct local_verb verb = {
        .name = "ls",
        .help = help,
        .letters = "qh",
        .options = long_options,
        .take = take,
        .run = run_ls,
    };
    struct ls_options own = { 0 };

    return local_verb_run(&verb, &own, argc, argv);
}

const struct verb verb_ls = {
    .name = "ls",
    .summary = "list the sandboxes of 'run'",
    .run = run,
};
