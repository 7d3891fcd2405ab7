/* reject, restore, finish, discard, undo, conflicts and rebase. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/client_verbs.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "cli/review_call.h"
#include "cli/review_help.h"
#include <sandbox/v1/sandbox.pb-c.h>

enum { OPT_STRATEGY = 1, OPT_ACTOR, OPT_OUTCOME, OPT_STOP };

struct decide_options {
    bool is_dry, lists, may_stop, is_all;
    char *actor, *strategy, *outcome;
};

#define ACTOR_OPTION                                                                                                           \
    {                                                                                                                          \
        "actor", required_argument, NULL, OPT_ACTOR                                                                            \
    }
#define STOP_OPTION                                                                                                            \
    {                                                                                                                          \
        "stop", no_argument, NULL, OPT_STOP                                                                                    \
    }

static const struct option actor_options[] = { ACTOR_OPTION, API_LONG_OPTIONS };
static const struct option finish_options[] = { ACTOR_OPTION,
                                                { "outcome", required_argument, NULL, OPT_OUTCOME },
                                                API_LONG_OPTIONS };
static const struct option discard_options[] = {
    ACTOR_OPTION, STOP_OPTION, { "all", no_argument, NULL, 'a' }, API_LONG_OPTIONS
};
static const struct option undo_options[] = {
    ACTOR_OPTION, STOP_OPTION, { "dry-run", no_argument, NULL, 'n' }, { "list", no_argument, NULL, 'l' }, API_LONG_OPTIONS
};
static const struct option rebase_options[] = {
    ACTOR_OPTION, STOP_OPTION, { "strategy", required_argument, NULL, OPT_STRATEGY }, API_LONG_OPTIONS
};
static const struct option conflicts_options[] = { API_LONG_OPTIONS };

static int decide_take_option(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct decide_options *o = call->own;

    if (option == OPT_ACTOR && !utf8_is_valid(argument, strlen(argument)))
        return err_invalid(err, "--actor is not UTF-8");
    o->is_dry |= option == 'n';
    o->lists |= option == 'l';
    o->is_all |= option == 'a';
    o->may_stop |= option == OPT_STOP;
    if (option == OPT_ACTOR)
        o->actor = (char *) argument;
    else if (option == OPT_STRATEGY)
        o->strategy = (char *) argument;
    else if (option == OPT_OUTCOME)
        o->outcome = (char *) argument;
    return 0;
}

static char *decide_actor(const struct api_call *call)
{
    const struct decide_options *o = call->own;

    return o->actor ? o->actor : (char *) "";
}

/* Finds the enum value whose name is `prefix` and `word`: "REBASE_STRATEGY_" and "ours". */
static int decide_take_word(const char *option, const char *word, const ProtobufCEnumDescriptor *descriptor, const char *prefix,
                            int *ret, struct err *err)
{
    autodone(buf) struct buf known = BUF_EMPTY;
    char name[32];

    *ret = 0;
    if (!word)
        return 0;
    for (unsigned i = 0; i < descriptor->n_values; i++) {
        int value = descriptor->values[i].value;

        review_word(descriptor, value, prefix, name);
        if (value > 0 && strcmp(name, word) == 0) {
            *ret = value;
            return 0;
        }
        if (value > 0)
            buf_addf(&known, "%s%s", known.len > 0 ? ", " : "", name);
    }
    return err_invalid(err, "%s '%s' is not known; there are %s", option, word, known.data);
}

/* ---- reject, restore ---- */

static int decide_about_each(struct api_call *call, const char *method, ProtobufCMessage *request, char **sandbox_id,
                             struct err *err)
{
    for (int i = 0; i < call->word_count; i++) {
        automessage answer = NULL;
        int r;

        *sandbox_id = call->words[i];
        r = review_ask(call, call->words[i], method, request, &answer, err);
        if (r != 0)
            return r;
        api_print(call, answer, ((const Sandbox__V1__Sandbox *) (const void *) answer)->id);
    }
    return 0;
}

static int reject_run(struct api_call *call, struct err *err)
{
    Sandbox__V1__RejectRequest request = SANDBOX__V1__REJECT_REQUEST__INIT;

    request.actor = decide_actor(call);
    return decide_about_each(call, "Reject", &request.base, &request.sandbox_id, err);
}

static int restore_run(struct api_call *call, struct err *err)
{
    Sandbox__V1__RestoreSandboxRequest request = SANDBOX__V1__RESTORE_SANDBOX_REQUEST__INIT;

    request.actor = decide_actor(call);
    return decide_about_each(call, "RestoreSandbox", &request.base, &request.sandbox_id, err);
}

/* ---- finish ---- */

static void finish_print(const Sandbox__V1__FinishSandboxResponse *answer)
{
    bool is_open = answer->decision <= SANDBOX__V1__SANDBOX_DECISION__SANDBOX_DECISION_OPEN;
    char word[32];

    printf("decided: %s", is_open ? "none"
                                  : review_word(&sandbox__v1__sandbox_decision__descriptor, (int) answer->decision,
                                                "SANDBOX_DECISION_", word));
    if (*answer->reason) {
        fputs(" (", stdout);
        output_escaped(stdout, answer->reason);
        putchar(')');
    }
    if (answer->sandbox)
        printf("; it is %s",
               review_word(&sandbox__v1__sandbox_status__descriptor, (int) answer->sandbox->status, "SANDBOX_STATUS_", word));
    putchar('\n');
}

static int finish_run(struct api_call *call, struct err *err)
{
    const struct decide_options *o = call->own;
    Sandbox__V1__FinishSandboxRequest request = SANDBOX__V1__FINISH_SANDBOX_REQUEST__INIT;
    automessage answer = NULL;
    int outcome,
        r = decide_take_word("--outcome", o->outcome, &sandbox__v1__run_outcome__descriptor, "RUN_OUTCOME_", &outcome, err);

    if (r < 0)
        return r;
    request.sandbox_id = call->words[0];
    request.actor = decide_actor(call);
    request.outcome = (Sandbox__V1__RunOutcome) outcome;
    r = review_ask(call, call->words[0], "FinishSandbox", &request.base, &answer, err);
    if (r == 0 && call->options.is_json)
        api_print_json(answer);
    else if (r == 0 && !call->options.is_quiet)
        finish_print((const void *) answer);
    return r;
}

/* ---- discard ---- */

static int discard_check(struct api_call *call, struct err *err)
{
    const struct decide_options *o = call->own;

    if (!o->is_all && call->word_count == 1)
        return err_invalid(err,
                           "give the paths of '%s' whose changes to discard, or --all for all of its changes. "
                           "'agentfense rm' removes a sandbox with its changes",
                           call->words[0]);
    if (o->is_all && call->word_count > 1)
        return err_invalid(err, "--all is all; leave it out to name paths");
    return 0;
}

static void discard_print(const struct api_call *call, const Sandbox__V1__DiscardResponse *answer)
{
    for (size_t i = 0; i < answer->n_unknown; i++) {
        fputs("agentfense discard: '", stderr);
        output_escaped(stderr, answer->unknown[i]);
        fputs("' has no changes\n", stderr);
    }
    if (!call->options.is_quiet)
        printf("discarded the changes of %d file%s; %d stay%s\n", answer->discarded, answer->discarded == 1 ? "" : "s",
               answer->remaining, answer->remaining == 1 ? "s" : "");
}

static int discard_run(struct api_call *call, struct err *err)
{
    const struct decide_options *o = call->own;
    Sandbox__V1__DiscardRequest request = SANDBOX__V1__DISCARD_REQUEST__INIT;
    Sandbox__V1__Selection selection = SANDBOX__V1__SELECTION__INIT;
    autodone(review_paths) struct review_paths paths = { 0 };
    automessage answer = NULL;
    int r = review_paths_take(call, 1, &paths, err);

    if (r != 0)
        return r;
    selection.all = o->is_all;
    selection.paths = paths.paths;
    selection.n_paths = paths.path_count;
    selection.file_ids = paths.ids;
    selection.n_file_ids = paths.id_count;
    request.sandbox_id = call->words[0];
    request.selection = &selection;
    request.allow_stop = o->may_stop;
    request.actor = decide_actor(call);
    r = review_ask(call, call->words[0], "Discard", &request.base, &answer, err);
    if (r == 0 && call->options.is_json)
        api_print_json(answer);
    else if (r == 0)
        discard_print(call, (const void *) answer);
    return r;
}

/* ---- undo ---- */

static void undo_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Approval *approval = (const void *) item;
    autofree char *undoes = *approval->undoes ? xprintf("undoes %s", approval->undoes) : NULL;
    char time[CLOCK_TEXT_MAX] = "-";

    if (approval->time)
        clock_format((struct timespec){ .tv_sec = approval->time->seconds, .tv_nsec = approval->time->nanos }, 0, time);
    grid_add(grid, approval->id);
    grid_add(grid, time);
    grid_add_number(grid, approval->paths);
    grid_add(grid, undoes ? undoes : approval->undone ? "undone" : "-");
}

static int undo_list(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "APPROVAL", "TIME", "PATHS", "NOTE", NULL };
    static const struct listing listing = { "ListApprovals", &sandbox__v1__list_approvals_response__descriptor, titles,
                                            undo_add_row };
    Sandbox__V1__ListApprovalsRequest request = SANDBOX__V1__LIST_APPROVALS_REQUEST__INIT;

    request.sandbox_id = call->words[0];
    request.page_size = 1000;
    return listing_print(call, &listing, &request.base, err);
}

static int undo_check(struct api_call *call, struct err *err)
{
    const struct decide_options *o = call->own;

    if (o->lists && call->word_count > 1)
        return err_invalid(err, "--list lists all approvals; leave '%s' out", call->words[1]);
    return o->lists && o->is_dry ? err_invalid(err, "--list undoes nothing; leave --dry-run out") : 0;
}

static int undo_run(struct api_call *call, struct err *err)
{
    const struct decide_options *o = call->own;
    Sandbox__V1__UndoApprovalRequest request = SANDBOX__V1__UNDO_APPROVAL_REQUEST__INIT;
    automessage message = NULL;
    const Sandbox__V1__UndoApprovalResponse *answer;
    int r;

    if (o->lists)
        return undo_list(call, err);
    request.sandbox_id = call->words[0];
    request.approval_id = call->word_count > 1 ? call->words[1] : (char *) "";
    request.dry_run = o->is_dry;
    request.allow_stop = o->may_stop;
    request.actor = decide_actor(call);
    r = review_ask(call, call->words[0], "UndoApproval", &request.base, &message, err);
    if (r != 0)
        return r;
    answer = (const void *) message;
    if (call->options.is_json)
        api_print_json(message);
    else if (!call->options.is_quiet && o->is_dry)
        printf("would take back approval %s\n", answer->approval_id);
    else if (!call->options.is_quiet)
        printf("took back %d path%s of approval %s\n", answer->undone, answer->undone == 1 ? "" : "s", answer->approval_id);
    if (!call->options.is_json && *answer->note)
        fprintf(stderr, "its paths are reserved by another sandbox; 'agentfense restore %s' reopens it when they are free\n",
                call->words[0]);
    return 0;
}

/* ---- conflicts, rebase ---- */

static int conflicts_run(struct api_call *call, struct err *err)
{
    Sandbox__V1__GetConflictsRequest request = SANDBOX__V1__GET_CONFLICTS_REQUEST__INIT;
    const Sandbox__V1__GetConflictsResponse *answer;
    automessage message = NULL;
    char word[32];
    int r;

    request.sandbox_id = call->words[0];
    r = review_ask(call, call->words[0], "GetConflicts", &request.base, &message, err);
    if (r != 0)
        return r;
    answer = (const void *) message;
    if (call->options.is_json)
        api_print_json(message);
    for (size_t i = 0; !call->options.is_json && !call->options.is_quiet && i < answer->n_files; i++)
        review_print_path(
            stdout, review_word(&sandbox__v1__merge_state__descriptor, (int) answer->files[i]->state, "MERGE_STATE_", word),
            answer->files[i]->path, answer->files[i]->reason);
    if (!call->options.is_json && !call->options.is_quiet)
        printf("%d conflict%s; %d of its files changed in the project too\n", answer->conflicts,
               answer->conflicts == 1 ? "" : "s", answer->moved);
    return answer->conflicts > 0 ? EXIT_REFUSED : 0;
}

static void rebase_print(const Sandbox__V1__RebaseResponse *answer)
{
    char word[32];

    for (size_t i = 0; i < answer->n_files; i++) {
        const Sandbox__V1__RebasedFile *file = answer->files[i];

        review_print_path(stdout,
                          review_word(&sandbox__v1__rebase_outcome__descriptor, (int) file->outcome, "REBASE_OUTCOME_", word),
                          file->path, file->reason);
    }
    if (answer->conflicts == 0)
        puts("its changes are based on the current project");
    else
        printf("%d conflict%s left\n", answer->conflicts, answer->conflicts == 1 ? " is" : "s are");
}

static int rebase_run(struct api_call *call, struct err *err)
{
    const struct decide_options *o = call->own;
    Sandbox__V1__RebaseRequest request = SANDBOX__V1__REBASE_REQUEST__INIT;
    automessage answer = NULL;
    int strategy, r = decide_take_word("--strategy", o->strategy, &sandbox__v1__rebase_strategy__descriptor, "REBASE_STRATEGY_",
                                       &strategy, err);

    if (r < 0)
        return r;
    request.sandbox_id = call->words[0];
    request.strategy = (Sandbox__V1__RebaseStrategy) strategy;
    request.allow_stop = o->may_stop;
    request.actor = decide_actor(call);
    r = review_ask(call, call->words[0], "Rebase", &request.base, &answer, err);
    if (r != 0)
        return r;
    if (call->options.is_json)
        api_print_json(answer);
    else if (!call->options.is_quiet)
        rebase_print((const void *) answer);
    return ((const Sandbox__V1__RebaseResponse *) (const void *) answer)->conflicts > 0 ? EXIT_REFUSED : 0;
}

/* ---- the verbs ---- */

#define DECIDE_VERB(verb, of_options, of_letters, least, most, checks, help_text)                                              \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .last = API_LAST_WORKSPACE,                                                                                        \
            .help = help_text API_LAST_HELP API_OPTIONS_HELP,                                                                  \
            .letters = of_letters,                                                                                             \
            .options = of_options,                                                                                             \
            .words_min = least,                                                                                                \
            .words_max = most,                                                                                                 \
            .own_size = sizeof(struct decide_options),                                                                         \
            .take = decide_take_option,                                                                                        \
            .check = checks,                                                                                                   \
            .run = verb##_run,                                                                                                 \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

DECIDE_VERB(
    reject, actor_options, "", 1, -1, NULL,
    "usage: agentfense reject [options] SANDBOX...\n\n"
    "Rejects the changes of a sandbox and stops it. Its changes stay on disk until the sandbox is removed ('agentfense\n"
    "prune'). Until then 'agentfense restore' brings it back.\n\n"
    "  --actor NAME           who decides\n")
DECIDE_VERB(
    restore, actor_options, "", 1, -1, NULL,
    "usage: agentfense restore [options] SANDBOX...\n\n"
    "Brings a sandbox back that was rejected, approved or removed: it is stopped then, with all its changes. One that was\n"
    "removed can be restored for as long as the server keeps it ('agentfense inspect' shows until when), unless it was "
    "removed\n"
    "with --purge.\n\n"
    "  --actor NAME           who decides\n")
DECIDE_VERB(
    finish, finish_options, "", 1, 1, NULL,
    "usage: agentfense finish [options] SANDBOX\n\n"
    "Reports that the agent has finished its work in a sandbox. The server then approves or rejects it, if its behavior\n"
    "asks for that (autoApprove, autoReject), and stops or removes it (stopOn, deleteOn). Otherwise it stays.\n\n"
    "  --outcome NAME         completed (the default), failed or cancelled\n"
    "  --actor NAME           who does this\n")
DECIDE_VERB(discard, discard_options, "a", 1, -1, discard_check, DISCARD_HELP)
DECIDE_VERB(undo, undo_options, "nl", 1, 2, undo_check, UNDO_HELP)
DECIDE_VERB(conflicts, conflicts_options, "", 1, 1, NULL,
            "usage: agentfense conflicts [options] SANDBOX\n\n"
            "Compares the changes of a sandbox with the current project: which files can be written unchanged, which would be\n"
            "merged, and which are in conflict. Exits with 1 when there are conflicts.\n\n")
DECIDE_VERB(rebase, rebase_options, "", 1, 1, NULL,
            "usage: agentfense rebase [options] SANDBOX\n\n"
            "Rebases the changes of a sandbox onto the current project. Exits with 1 when conflicts are left.\n\n"
            "  --strategy NAME        regenerate (the default: only looks), merge, ours (the project's side of conflicts)\n"
            "                         or theirs (the sandbox's side)\n"
            "  --stop                 it may be stopped for this and started again, where its driver needs that\n"
            "  --actor NAME           who decides\n")
