/* undo of a sandbox of 'agentfense run'; that of a workspace is in cmd_workspace_settle.c. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/verb.h"
#include "cli/workspace_help.h"
#include "review/undo.h"

static const char help[] = UNDO_HELP "  --json                 JSON on standard output\n"
                                     "  --server URL and others  of a workspace; as for 'agentfense create'\n"
                                     "  -h, --help             this text\n"
                                     "\nExits with 1 when something was changed since, and nothing was written.\n";

static const struct option long_options[] = {
    { "list", no_argument, NULL, 'l' },
    { "dry-run", no_argument, NULL, 'n' },
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

#define EXIT_MOVED 1

struct undo_words {
    const char *name, *id; /* NULL: the last */
    bool lists, is_dry, json, wants_help;
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

static int take_back(const struct pick *pick, const struct undo_words *w, const char *id, struct err *err)
{
    autodone(undo) struct undo undo = UNDO_NONE;
    struct undo_options options = { .is_dry = w->is_dry };
    json_t *moved = json_array();
    int r = undo_run(pick->delta_path, id, &options, &undo, err);

    for (size_t i = 0; r >= 0 && i < undo.moved_count; i++)
        json_array_append_new(moved, output_json_name(undo.moved[i]));
    if (r >= 0 && w->json) {
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
    return r;
}

static int undo_it(const struct undo_words *w, struct err *err)
{
    autodone(pick) struct pick pick = PICK_NONE;
    autofree struct undo_entry *entries = NULL;
    autofd int lock = -1;
    const char *id = w->id;
    size_t count = 0;
    int r = pick_open(w->name, &pick, err);

    if (r < 0)
        return r;
    r = home_lock(pick.dir_fd, &lock);
    if (r == -EBUSY)
        return err_set(err, ERR_FAILED_PRECONDITION, r, "sandbox '%s' is running; stop it first", pick.name);
    if (r < 0)
        return err_errno(err, r, "locking sandbox '%s'", pick.name);
    if (pick.has_delta)
        r = undo_list(pick.delta_path, &entries, &count, err);
    if (r < 0)
        return r;
    if (w->lists) {
        print_list(entries, count, w->json);
        return 0;
    }
    id = id ? id : last_of(entries, count);
    if (!id)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "nothing of sandbox '%s' was approved that could be taken back", pick.name);
    return take_back(&pick, w, id, err);
}

static int parse(int argc, char **argv, struct undo_words *w, struct err *err)
{
    int option;

    while ((option = getopt_long(argc, argv, "lnh", long_options, NULL)) != -1) {
        if (option == 'l')
            w->lists = true;
        else if (option == 'n')
            w->is_dry = true;
        else if (option == 'j')
            w->json = true;
        else if (option == 'h')
            w->wants_help = true;
        else
            return err_invalid(err, "see 'agentfense undo --help'");
    }
    if (w->wants_help)
        return 0;
    if (optind == argc || argc - optind > 2)
        return err_invalid(err, optind == argc ? "say which sandbox; 'agentfense ls' lists them" : "one word too many");
    w->name = argv[optind];
    w->id = argv[optind + 1];
    return 0;
}

static int run(int argc, char **argv)
{
    struct undo_words w = { 0 };
    struct err err = ERR_NONE;
    int r = parse(argc, argv, &w, &err);

    if (r == 0 && w.wants_help)
        fputs(help, stdout);
    else if (r == 0)
        r = undo_it(&w, &err);
    if (r < 0)
        return output_error("undo", &err);
    return r > 0 ? EXIT_MOVED : EXIT_SUCCESS;
}

const struct verb verb_undo = {
    .name = "undo",
    .summary = "take an approval back",
    .run = run,
    .program = CLIENT_PROGRAM,
};
