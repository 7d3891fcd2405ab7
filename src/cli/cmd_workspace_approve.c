/* approve of a workspace. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/client_verbs.h"
#include "cli/output.h"
#include "cli/said.h"
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
    return workspace_diff_check_paths(call->words + 1, call->word_count - 1, err);
}

static int add_paths(struct api_call *call, struct err *err)
{
    struct approve_words *o = call->own;
    json_t *paths = json_array();

    for (int i = 1; i < call->word_count; i++) {
        if (json_array_append_new(paths, json_string(call->words[i])) < 0) {
            json_decref(paths);
            return err_reject(err, -EINVAL, call->words[i], "is not UTF-8; use -p");
        }
    }
    if (json_array_size(paths) > 0)
        json_object_set(o->body, "files", paths);
    json_decref(paths);
    return 0;
}

/* ---- telling ---- */

static const char *status_of(const json_t *file, bool is_dry)
{
    const char *status = json_text(file, "status");

    if (is_dry && strcmp(status, "applied") == 0)
        return "would apply";
    return is_dry && strcmp(status, "partly") == 0 ? "would apply partly" : status;
}

static void print_file(FILE *out, const json_t *file, bool is_dry)
{
    const json_t *acknowledge = json_object_get(file, "acknowledge");
    const char *reason = json_text(file, "reason");

    fprintf(out, "  %s: ", status_of(file, is_dry));
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

static void print_files(FILE *out, const json_t *files, bool is_dry)
{
    const json_t *file;
    size_t i;

    json_array_foreach(files, i, file) print_file(out, file, is_dry);
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

    print_files(stderr, json_object_get(details, "files"), false);
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
        print_files(stdout, json_object_get(answer, "files"), is_dry);
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

static int send(struct api_call *call, const char *id, json_t **answer, struct err *err)
{
    struct approve_words *o = call->own;

    return workspace_decide(call, json_incref(o->body), answer, err, "/api/v1/sandboxes/%s/approve", id);
}

/* What a person can be asked again about. */
static bool is_stale(const json_t *answer)
{
    const char *reason = json_text(json_object_get(answer, "details"), "reason");

    return strcmp(reason, "DIFF_STALE") == 0 || strcmp(reason, "HUNK_UNKNOWN") == 0 || strcmp(reason, "FILE_UNKNOWN") == 0;
}

static int say_none(const char *what)
{
    puts(what);
    return EXIT_SUCCESS;
}

/* Until it is taken, refused for another reason, or nothing is left of it. */
static int send_said(struct api_call *call, const char *id, struct said *said, json_t **answer, struct err *err)
{
    struct approve_words *o = call->own;
    int r, again = 0;

    do {
        *err = ERR_NONE;
        said_put(said, o->body);
        r = send(call, id, answer, err);
        if (r == 0 || !is_stale(*answer))
            return r;
        struct err later = ERR_NONE;
        again = said_ask_again(said, call, id, &later);
        if (again < 0) {
            *err = later;
            return again;
        }
    } while (again == 0 && !said_is_empty(said));
    return r;
}

static int run_asking(struct api_call *call, const char *id, struct err *err)
{
    autodone(said) struct said said = SAID_NOTHING;
    autojson answer = NULL;
    int r = said_ask(&said, call, id, call->words + 1, call->word_count - 1, err);

    if (r < 0)
        return r;
    if (r > 0 || said_is_empty(&said))
        return say_none(r > 0 ? "nothing to approve" : "nothing was chosen");
    r = send_said(call, id, &said, &answer, err);
    if (r != 0 && said_is_empty(&said))
        return say_none("nothing is left of what was chosen");
    if (r == EXIT_REFUSED)
        explain(id, json_object_get(answer, "details"));
    return r == 0 ? tell(call, id, answer) : r;
}

static int run(struct api_call *call, struct err *err)
{
    struct approve_words *o = call->own;
    char id[UUID_TEXT_MAX], hash[WORKSPACE_DIFF_HASH_MAX];
    autojson answer = NULL;
    int r = workspace_find(call->client, call->words[0], id, err);

    if (r == 0 && o->asks)
        return run_asking(call, id, err);
    if (r == 0)
        r = add_paths(call, err);
    if (r == 0 && o->is_all) {
        r = workspace_diff_hash(call, id, hash, err);
        if (r == 0)
            json_object_set_new(o->body, "diffHash", json_string(hash));
    }
    if (r != 0)
        return r;
    r = send(call, id, &answer, err);
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
        .last = API_LAST_WORKSPACE,
        .help = APPROVE_HELP API_LAST_HELP API_OPTIONS_HELP APPROVE_EXIT_HELP,
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
