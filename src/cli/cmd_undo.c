/* undo of a sandbox of 'agentfense run'; that of a workspace is in cmd_workspace_settle.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/local_verb.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/undo.h"

static const char help[] = UNDO_HELP "  --last                 the sandbox of 'agentfense run' that was made last\n"
                                     "  --json                 JSON on standard output\n"
                                     "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                                     "  -h, --help             this text\n"
                                     "\nExits with 1 when something was changed since, and nothing was written.\n";

static const struct option long_options[] = {
    { "list", no_argument, NULL, 'l' },
    { "dry-run", no_argument, NULL, 'n' },
    LOCAL_LAST_OPTION,
    LOCAL_LONG_OPTIONS,
};

#define EXIT_MOVED 1

struct undo_words {
    bool lists, is_dry;
};

static json_t *entry_json(const struct undo_entry *entry, const char *time)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:b}", "id", entry->id, "time", time, "undoes", entry->undoes, "paths",
                     (json_int_t) entry->path_count, "undone", entry->is_undone);
}

static void print_list(const struct undo_entry *entries, size_t count, bool json)
{
    json_t *all = json_array();

    for (size_t i = 0; i < count; i++) {
        char time[CLOCK_TEXT_MAX];

        clock_format(clock_timespec_of_ns(entries[i].time_ns), 0, time);
        json_array_append_new(all, entry_json(&entries[i], time));
        if (!json)
            printf("%s  %s  %zu path%s%s%s%s\n", entries[i].id, time, entries[i].path_count,
                   entries[i].path_count == 1 ? "" : "s", *entries[i].undoes ? "  undoes " : "", entries[i].undoes,
                   entries[i].is_undone ? "  (undone)" : "");
    }
    if (json)
        output_json(json_pack("{s:o}", "approvals", all));
    else
        json_decref(all);
}

static const char *last_of(const struct undo_entry *entries, size_t count)
{
    for (size_t i = count; i-- > 0;)
        if (!entries[i].is_undone && !*entries[i].undoes)
            return entries[i].id;
    return NULL;
}

static int take_back(const struct pick *pick, const struct local_call *call, const char *id, struct err *err)
{
    const struct undo_words *w = call->own;
    autodone(undo) struct undo undo = UNDO_NONE;
    struct undo_options options = { .is_dry = w->is_dry };
    json_t *moved = json_array();
    int r = undo_run(pick->delta_path, id, &options, &undo, err);

    for (size_t i = 0; r >= 0 && i < undo.moved_count; i++)
        json_array_append_new(moved, output_json_name(undo.moved[i]));
    if (r >= 0 && call->is_json) {
        output_json(json_pack("{s:s, s:s, s:I, s:O, s:b}", "sandbox", pick->name, "approval", id, "undone",
                              (json_int_t) undo.done_count, "changed_since", moved, "dry_run", w->is_dry));
    } else if (r == 0 && w->is_dry) {
        printf("would take back approval %s\n", id);
    } else if (r == 0) {
        printf("took back %zu path%s of approval %s\n", undo.done_count, undo.done_count == 1 ? "" : "s", id);
    } else if (r > 0) {
        fputs("agentfense undo: nothing was written; these were changed since:\n", stderr);
        for (size_t i = 0; i < undo.moved_count; i++) {
            fputs("  ", stderr);
            output_escaped(stderr, undo.moved[i]);
            fputc('\n', stderr);
        }
    }
    json_decref(moved);
    return r > 0 ? EXIT_MOVED : r;
}

static int run_undo(const struct local_call *call, struct err *err)
{
    const struct undo_words *w = call->own;
    autodone(pick) struct pick pick = PICK_NONE;
    autofree struct undo_entry *entries = NULL;
    autofd int lock = -1;
    const char *id = call->words[1];
    size_t count = 0;
    int r = pick_open(call->words[0], &pick, err);

    if (r == 0)
        r = pick_lock(&pick, &lock, err);
    if (r == 0 && pick.has_delta)
        r = undo_list(pick.delta_path, &entries, &count, err);
    if (r < 0)
        return r;
    if (w->lists) {
        print_list(entries, count, call->is_json);
        return 0;
    }
    id = id ? id : last_of(entries, count);
    if (!id)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "nothing of sandbox '%s' was approved that could be taken back", pick.name);
    return take_back(&pick, call, id, err);
}

static int take(void *own, int option, struct err *err)
{
    struct undo_words *w = own;

    (void) err;
    *(option == 'l' ? &w->lists : &w->is_dry) = true;
    return 0;
}

static int run(int argc, char **argv)
{
    static const struct local_verb verb = {
        .name = "undo",
        .help = help,
        .letters = "lnh",
        .options = long_options,
        .words_min = 1,
        .words_max = 2,
        .wanted = LOCAL_SANDBOX_WANTED,
        .take = take,
        .run = run_undo,
    };
    struct undo_words own = { 0 };

    return local_verb_run(&verb, &own, argc, argv);
}

const struct verb verb_undo = {
    .name = "undo",
    .summary = "take an approval back",
    .run = run,
    .program = CLIENT_PROGRAM,
};
