/* approve of a workspace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/chooser.h"
#include "cli/client_verbs.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "cli/workspace.h"
#include "cli/workspace_diff.h"
#include "cli/workspace_help.h"

enum { OPT_ACKNOWLEDGE = 1, OPT_OVERRIDE, OPT_ACTOR, OPT_VERIFY, OPT_NO_VERIFY, OPT_STOP };

static const struct option options[] = {
    { "patch", no_argument, NULL, 'p' },
    { "all", no_argument, NULL, 'a' },
    { "dry-run", no_argument, NULL, 'n' },
    { "force", no_argument, NULL, 'f' },
    { "acknowledge", no_argument, NULL, OPT_ACKNOWLEDGE },
    { "override-acceptance", no_argument, NULL, OPT_OVERRIDE },
    { "stop", no_argument, NULL, OPT_STOP },
    { "commit", no_argument, NULL, 'c' },
    { "message", required_argument, NULL, 'm' },
    { "actor", required_argument, NULL, OPT_ACTOR },
    { "verify", no_argument, NULL, OPT_VERIFY },
    { "no-verify", no_argument, NULL, OPT_NO_VERIFY },
    API_LONG_OPTIONS,
};

struct approve_words {
    bool asks, is_all;
    json_t *body; /* owned: what the options say of it */
};

static void set(struct approve_words *o, const char *key, json_t *value)
{
    if (!o->body)
        o->body = json_object();
    json_object_set_new(o->body, key, value);
}

static int set_text(struct approve_words *o, const char *key, const char *text, struct err *err)
{
    json_t *value = json_string(text);

    if (!value)
        return err_invalid(err, "%s is not UTF-8", key);
    set(o, key, value);
    return 0;
}

static int take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct approve_words *o = call->own;

    switch (option) {
    case 'p':
        o->asks = true;
        return 0;
    case 'a':
        o->is_all = true;
        return 0;
    case 'n':
        set(o, "dryRun", json_true());
        return 0;
    case 'f':
        set(o, "force", json_true());
        return 0;
    case 'c':
        set(o, "createCommit", json_true());
        return 0;
    case 'm':
        return set_text(o, "commitMessage", argument, err);
    case OPT_ACTOR:
        return set_text(o, "actor", argument, err);
    case OPT_VERIFY:
        set(o, "runHooks", json_true());
        return 0;
    case OPT_NO_VERIFY:
        set(o, "noVerify", json_true());
        return 0;
    case OPT_ACKNOWLEDGE:
        set(o, "acknowledge", json_true());
        return 0;
    case OPT_STOP:
        set(o, "stop", json_true());
        return 0;
    default:
        set(o, "overrideAcceptance", json_true());
        return 0;
    }
}

static int check(struct api_call *call, struct err *err)
{
    struct approve_words *o = call->own;

    if (!o->body)
        o->body = json_object();
    if (o->is_all && (o->asks || call->word_count > 1))
        return err_invalid(err, "--all is all; leave it out to name paths, or to be asked");
    if (o->asks && call->options.is_json)
        return err_invalid(err, "-p asks a person; --json is for programs");
    if (json_object_get(o->body, "runHooks") && !json_object_get(o->body, "dryRun"))
        return err_invalid(err, "--verify is for --dry-run: otherwise the hooks are always run");
    if (json_object_get(o->body, "commitMessage") && !json_object_get(o->body, "createCommit"))
        return err_invalid(err, "-m is the message of a commit: --commit");
    return 0;
}

/* ---- choosing ---- */

static json_t *chosen_ids(const json_t *file, const struct choice *choice)
{
    json_t *ids = json_array(), *hunk;
    size_t i;

    json_array_foreach(json_object_get(file, "hunks"), i, hunk)
    {
        if (choice->hunks[i])
            json_array_append_new(ids, json_string(json_text(hunk, "id")));
    }
    return ids;
}

/* Who says yes to a change that is shown with a warning has given it a word of its own. */
static void add_choices(json_t *body, const json_t *files, const struct choice_list *choices)
{
    json_t *whole = json_array(), *parts = json_array(), *known = json_array();

    for (size_t i = 0; i < choices->count; i++) {
        const json_t *file = json_array_get(files, i);
        const struct choice *choice = &choices->items[i];
        const char *id = json_text(file, "id");

        if (choice->taken == 0)
            continue;
        if (choice->is_whole)
            json_array_append_new(whole, json_string(id));
        else
            json_array_append_new(parts, json_pack("{s:s, s:o}", "fileId", id, "hunkIds", chosen_ids(file, choice)));
        if (json_object_get(file, "acknowledge"))
            json_array_append_new(known, json_string(id));
    }
    if (json_array_size(whole) > 0)
        json_object_set(body, "fileIds", whole);
    if (json_array_size(parts) > 0)
        json_object_set(body, "hunks", parts);
    if (json_array_size(known) > 0 && !json_object_get(body, "acknowledge"))
        json_object_set(body, "acknowledge", known);
    json_decref(whole);
    json_decref(parts);
    json_decref(known);
}

/* 1: nothing was chosen. Nobody else waits for our state while a person thinks. */
static int ask_for_hunks(struct api_call *call, const char *id, struct err *err)
{
    struct approve_words *o = call->own;
    autodone(choice_list) struct choice_list choices = { 0 };
    autojson diff = NULL;
    int r = workspace_diff_load(call, id, call->words + 1, call->word_count - 1, &diff, err);

    if (r < 0)
        return r;
    if (json_array_size(json_object_get(diff, "files")) == 0) {
        puts("nothing to approve");
        return 1;
    }
    api_pause(call);
    r = chooser_run(json_object_get(diff, "files"), interrupt_read, &choices, err);
    if (r == 0)
        r = api_resume(call, err);
    if (r < 0)
        return r;
    if (choices.taken == 0) {
        puts("nothing was chosen");
        return 1;
    }
    add_choices(o->body, json_object_get(diff, "files"), &choices);
    json_object_set_new(o->body, "diffHash", json_string(json_text(diff, "diffHash")));
    return 0;
}

static int add_paths(struct api_call *call, struct err *err)
{
    struct approve_words *o = call->own;
    json_t *paths = json_array();

    for (int i = 1; i < call->word_count; i++) {
        if (json_array_append_new(paths, json_string(call->words[i])) < 0) {
            json_decref(paths);
            return err_refuse(err, -EINVAL, call->words[i], "is not UTF-8; use -p");
        }
    }
    if (json_array_size(paths) > 0)
        json_object_set(o->body, "files", paths);
    json_decref(paths);
    return 0;
}

/* ---- telling ---- */

static void print_file(FILE *out, const json_t *file)
{
    const json_t *acknowledge = json_object_get(file, "acknowledge");
    const char *reason = json_text(file, "reason");

    fprintf(out, "  %s: ", json_text(file, "status"));
    output_escaped(out, json_text(file, "projectPath"));
    if (json_object_get(file, "hunksTotal"))
        fprintf(out, " (%lld of %lld hunks)", json_number(file, "hunksApplied"), json_number(file, "hunksTotal"));
    if (json_is_true(json_object_get(file, "merged")))
        fputs(" (merged)", out);
    if (*reason || acknowledge) {
        fputs(": ", out);
        output_escaped(out, acknowledge ? json_text(acknowledge, "text") : reason);
    }
    fputc('\n', out);
}

static void print_files(FILE *out, const json_t *files)
{
    const json_t *file;
    size_t i;

    json_array_foreach(files, i, file) print_file(out, file);
}

/* What they printed comes without anything that a terminal would take for more than text: the server saw to that, and so do we. */
static void print_hooks(FILE *out, const json_t *hooks)
{
    const json_t *hook;
    size_t i;

    json_array_foreach(hooks, i, hook)
    {
        const char *text = json_text(hook, "output");
        bool is_well = strcmp(json_text(hook, "status"), "passed") == 0;

        fprintf(out, "hook %s: %s%s (%lld ms)\n", json_text(hook, "name"), json_text(hook, "status"),
                is_well || json_is_true(json_object_get(hook, "required")) ? "" : ", not required",
                json_number(hook, "durationMs"));
        while (!is_well && *text) {
            size_t len = strcspn(text, "\n");
            autofree char *line = xdupn(text, len);

            fputs("  | ", out);
            output_escaped(out, line);
            fputc('\n', out);
            text += len + (text[len] == '\n');
        }
    }
}

/* What the reason means in the words of these verbs. */
static void explain(const char *id, const json_t *details)
{
    const char *reason = json_text(details, "reason");

    print_files(stderr, json_object_get(details, "files"));
    print_hooks(stderr, json_object_get(details, "hooks"));
    if (strcmp(reason, "DIFF_NOT_SERVED") == 0 || strcmp(reason, "DIFF_STALE") == 0)
        fprintf(stderr, "look at them first: agentfense diff %.8s; or say --all\n", id);
    else if (strcmp(reason, "CONFLICTS") == 0)
        fprintf(stderr, "'agentfense conflicts %.8s' tells more, 'agentfense rebase %.8s --strategy merge' may help\n", id, id);
    else if (strcmp(reason, "UNACKNOWLEDGED") == 0)
        fputs("look at these, and say --acknowledge\n", stderr);
}

static int tell(struct api_call *call, const char *id, json_t *answer)
{
    long long applied = json_number(answer, "applied"), remaining = json_number(answer, "remaining");
    bool is_dry = json_is_true(json_object_get(answer, "dryRun"));
    const char *commit = json_text(answer, "commitHash"), *wrong = json_text(answer, "commitError");

    if (call->options.is_json) {
        output_json(json_incref(answer));
    } else if (!call->options.is_quiet) {
        print_files(stdout, json_object_get(answer, "files"));
        print_hooks(stdout, json_object_get(answer, "hooks"));
        printf("%s %lld file%s", is_dry ? "would apply" : "applied", applied, applied == 1 ? "" : "s");
        if (remaining > 0)
            printf("; %lld file%s stay%s in the workspace", remaining, remaining == 1 ? "" : "s", remaining == 1 ? "s" : "");
        if (*commit)
            printf("; commit %s", commit);
        putchar('\n');
        if (!is_dry && applied > 0)
            printf("to take it back: agentfense undo %.8s\n", id);
    }
    if (*json_text(answer, "note") && !call->options.is_json) {
        fputs("agentfense approve: ", stderr);
        output_escaped(stderr, json_text(answer, "note"));
        fputc('\n', stderr);
    }
    if (!*wrong)
        return EXIT_SUCCESS;
    fputs("agentfense approve: it was applied, but not committed: ", stderr);
    output_escaped(stderr, wrong);
    fputc('\n', stderr);
    return EXIT_OURS;
}

static int run(struct api_call *call, struct err *err)
{
    struct approve_words *o = call->own;
    char id[UUID_TEXT_MAX];
    autojson answer = NULL;
    autojson diff = NULL;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r == 0 && o->asks)
        r = ask_for_hunks(call, id, err);
    else if (r == 0)
        r = add_paths(call, err);
    if (r == 0 && o->is_all) {
        r = workspace_diff_load(call, id, NULL, 0, &diff, err);
        if (r == 0)
            json_object_set_new(o->body, "diffHash", json_string(json_text(diff, "diffHash")));
    }
    if (r != 0)
        return r < 0 ? r : EXIT_SUCCESS;
    r = workspace_decide(call, json_incref(o->body), &answer, err, "/api/v1/sandboxes/%s/approve", id);
    if (r == EXIT_REFUSED && !call->options.is_json)
        explain(id, json_object_get(answer, "details"));
    return r == 0 ? tell(call, id, answer) : r;
}

static void done(struct api_call *call)
{
    json_decref(((struct approve_words *) call->own)->body);
}

int cmd_approve(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "approve",
        .help = APPROVE_HELP API_OPTIONS_HELP APPROVE_EXIT_HELP,
        .letters = "panfcm:",
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .own_size = sizeof(struct approve_words),
        .take = take,
        .check = check,
        .run = run,
        .done = done,
    };

    return api_verb_run(&verb, argc, argv);
}
