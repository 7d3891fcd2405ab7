/* diff of a workspace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/diff_print.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/workspace.h"
#include "cli/workspace_diff.h"
#include "cli/workspace_help.h"
#include "review/diff_text.h"

enum { OPT_STAT = 1, OPT_NAME_ONLY, OPT_PATCH };

static const struct option options[] = {
    { "stat", no_argument, NULL, OPT_STAT },
    { "name-only", no_argument, NULL, OPT_NAME_ONLY },
    { "patch", no_argument, NULL, OPT_PATCH },
    { "raw", no_argument, NULL, OPT_PATCH },
    API_LONG_OPTIONS,
};

struct diff_options {
    int form;
};

/* ---- loading ---- */

static void add_path(struct buf *out, const char *id, const char *path)
{
    buf_addf(out, "/api/v1/sandboxes/%s/diff", id);
    workspace_add_query(out, "path", path);
}

static int load_path(struct api_call *call, const char *id, const char *path, json_t **ret, struct err *err)
{
    long long offset = 0;

    do {
        autodone(buf) struct buf line = BUF_EMPTY;
        autofree char *from = xprintf("%lld", offset);
        autojson page = NULL;
        json_t *more;
        int r;

        add_path(&line, id, path);
        workspace_add_query(&line, "offset", offset ? from : NULL);
        r = workspace_ask(call, "GET", NULL, &page, err, "%s", line.data);
        if (r < 0)
            return r;
        if (path && json_number(page, "total") == 0)
            return err_refuse(err, -ENOENT, path, "has no changes");
        more = json_object_get(page, "nextOffset");
        offset = json_integer_value(more);
        if (!*ret) {
            *ret = json_incref(page);
            continue;
        }
        json_array_extend(json_object_get(*ret, "files"), json_object_get(page, "files"));
        autofree char *text = xprintf("%s%s", json_text(*ret, "unifiedDiff"), json_text(page, "unifiedDiff"));
        json_object_set_new(*ret, "unifiedDiff", json_string(text));
        /* The hash stays that of the first: if anything changed until the last page, it is of another diff, and nothing is approved. */
    } while (offset > 0);
    if (*ret)
        json_object_del(*ret, "nextOffset");
    return 0;
}

int workspace_diff_load(struct api_call *call, const char *id, char **paths, int path_count, json_t **ret, struct err *err)
{
    int r = 0;

    if (path_count == 0)
        return load_path(call, id, NULL, ret, err);
    for (int i = 0; r == 0 && i < path_count; i++)
        r = load_path(call, id, paths[i], ret, err);
    return r;
}

/* ---- printing ---- */

static void print_stats(const json_t *diff, bool is_coloured)
{
    const json_t *files = json_object_get(diff, "files"), *file;
    size_t i, added = 0, removed = 0;
    int width = 0;

    json_array_foreach(files, i, file)
    {
        int one = diff_print_width(json_text(file, "projectPath"));
        width = one > width ? one : width;
    }
    json_array_foreach(files, i, file)
    {
        struct diff_stat stat = {
            .path = json_text(file, "projectPath"),
            .added = (size_t) json_number(file, "additions"),
            .removed = (size_t) json_number(file, "deletions"),
            .is_binary = json_is_true(json_object_get(file, "binary")),
            .is_too_large = json_is_true(json_object_get(file, "tooLarge")),
            .old_bytes = (unsigned long long) json_number(file, "oldSize"),
            .new_bytes = (unsigned long long) json_number(file, "fileSize"),
        };
        diff_print_stat(&stat, width, is_coloured);
        added += stat.added;
        removed += stat.removed;
    }
    if (json_array_size(files) > 0)
        diff_print_totals(json_array_size(files), added, removed);
}

static void print_names(const json_t *diff)
{
    const json_t *file;
    size_t i;

    json_array_foreach(json_object_get(diff, "files"), i, file)
    {
        output_escaped(stdout, json_text(file, "projectPath"));
        putchar('\n');
    }
}

/* Also when the server has done it: it may be another's. */
static void print_text(const json_t *diff, bool is_coloured)
{
    autodone(buf) struct buf safe = BUF_EMPTY;
    const json_t *text = json_object_get(diff, "unifiedDiff");

    diff_text_add_safe(&safe, json_text(diff, "unifiedDiff"), json_string_length(text));
    diff_print_text(safe.data ? safe.data : "", safe.len, is_coloured);
}

static int on_bytes(const void *bytes, size_t len, void *cookie, struct err *err)
{
    int r = interrupt_write(STDOUT_FILENO, bytes, len);

    (void) cookie;
    return r < 0 ? err_errno(err, r, "writing the patch") : 0;
}

static int print_patch(struct api_call *call, const char *id, const char *path, struct err *err)
{
    autodone(buf) struct buf line = BUF_EMPTY, refusal = BUF_EMPTY;
    struct client_web request = { .verb = "GET", .on_bytes = on_bytes };
    int status = 0, r;

    add_path(&line, id, path);
    workspace_add_query(&line, "format", "patch");
    workspace_add_query(&line, "limit", "100000");
    request.path = line.data;
    r = client_web(call->client, &request, &status, &refusal, err);
    if (r == 0 && status != 200) {
        autojson told = json_loadb(refusal.data ? refusal.data : "", refusal.len, 0, NULL);
        return err_set(err, status == 404 ? ERR_NOT_FOUND : ERR_FAILED_PRECONDITION, -EREMOTEIO, "%s",
                       json_text(told, "error"));
    }
    return r;
}

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct diff_options *o = call->own;

    (void) argument;
    if (o->form && o->form != option)
        return err_invalid(err, "--stat, --name-only and --patch exclude each other; choose one");
    o->form = option;
    return 0;
}

static int check(struct api_call *call, struct err *err)
{
    const struct diff_options *o = call->own;

    if (o->form == OPT_PATCH && call->options.is_json)
        return err_invalid(err, "--patch and --json exclude each other; choose one");
    if (o->form == OPT_PATCH && isatty(STDOUT_FILENO))
        return err_invalid(err, "--patch writes bytes as they are, which no terminal should get; send it to a file or a pipe");
    return 0;
}

static int run(struct api_call *call, struct err *err)
{
    const struct diff_options *o = call->own;
    char id[UUID_TEXT_MAX];
    autojson diff = NULL;
    bool is_coloured = output_is_coloured(stdout);
    int paths = call->word_count - 1, r = workspace_find(call->client, call->words[0], id, err);

    if (r == 0 && o->form == OPT_PATCH) {
        for (int i = 0; r == 0 && i < (paths ? paths : 1); i++)
            r = print_patch(call, id, paths ? call->words[1 + i] : NULL, err);
        return r;
    }
    if (r == 0)
        r = workspace_diff_load(call, id, call->words + 1, paths, &diff, err);
    if (r < 0)
        return r;
    if (call->options.is_json)
        output_json(json_incref(diff));
    else if (o->form == OPT_STAT)
        print_stats(diff, is_coloured);
    else if (o->form == OPT_NAME_ONLY)
        print_names(diff);
    else if (!call->options.is_quiet)
        print_text(diff, is_coloured);
    return 0;
}

int cmd_diff(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "diff",
        .help = DIFF_HELP API_OPTIONS_HELP,
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .own_size = sizeof(struct diff_options),
        .take = take,
        .check = check,
        .run = run,
    };

    return api_verb_run(&verb, argc, argv);
}
