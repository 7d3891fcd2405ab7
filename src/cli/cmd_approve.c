/* approve, and apply, which is `approve --all --rm`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/client_verbs.h"
#include "cli/hunk_choices.h"
#include "cli/output.h"
#include "cli/review_call.h"
#include "cli/review_help.h"
#include "cli/verb.h"
#include <sandbox/v1/sandbox.pb-c.h>

enum { OPT_ACKNOWLEDGE = 1, OPT_OVERRIDE, OPT_ACTOR, OPT_VERIFY, OPT_NO_VERIFY, OPT_STOP, OPT_RM, OPT_KEEP };

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
    { "rm", no_argument, NULL, OPT_RM },
    { "keep", no_argument, NULL, OPT_KEEP },
    API_LONG_OPTIONS,
};

struct approve_options {
    bool asks, is_all, removes, keeps;
    Sandbox__V1__ApproveRequest request; /* borrows its strings from argv */
};

static struct approve_options *approve_options_of(struct api_call *call)
{
    struct approve_options *o = call->own;

    if (!o->request.base.descriptor)
        sandbox__v1__approve_request__init(&o->request);
    return o;
}

static int approve_take_text(char **ret, const char *option, const char *text, struct err *err)
{
    if (!utf8_is_valid(text, strlen(text)))
        return err_invalid(err, "%s is not UTF-8", option);
    *ret = (char *) text;
    return 0;
}

static int approve_take_option(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct approve_options *o = approve_options_of(call);
    Sandbox__V1__ApproveRequest *request = &o->request;
    const struct {
        int option;
        protobuf_c_boolean *flag;
    } flags[] = {
        { 'n', &request->dry_run },
        { 'f', &request->force },
        { 'c', &request->commit },
        { OPT_VERIFY, &request->run_hooks },
        { OPT_NO_VERIFY, &request->skip_hooks },
        { OPT_ACKNOWLEDGE, &request->acknowledge_all },
        { OPT_STOP, &request->allow_stop },
        { OPT_OVERRIDE, &request->override_acceptance },
    };

    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (flags[i].option == option)
            *flags[i].flag = true;
    }
    if (option == 'm')
        return approve_take_text(&request->commit_message, "the message", argument, err);
    if (option == OPT_ACTOR)
        return approve_take_text(&request->actor, "--actor", argument, err);
    o->asks |= option == 'p';
    o->is_all |= option == 'a';
    o->removes |= option == OPT_RM;
    o->keeps |= option == OPT_KEEP;
    return 0;
}

static int approve_check(struct api_call *call, struct err *err)
{
    struct approve_options *o = approve_options_of(call);

    if (strcmp(call->verb->name, "apply") == 0) {
        o->is_all = true;
        o->removes = !o->keeps;
    } else if (o->keeps) {
        return err_invalid(err, "--keep is for 'agentfense apply': without --rm the sandbox stays");
    } else if (o->is_all && call->word_count > 1) {
        return err_invalid(err, "--all is all; leave it out to name paths, or to be asked");
    }
    if (o->is_all && o->asks)
        return err_invalid(err, "--all is all; leave it out to name paths, or to be asked");
    if (o->asks && call->options.is_json)
        return err_invalid(err, "-p asks a person; --json is for programs");
    if (o->request.run_hooks && !o->request.dry_run)
        return err_invalid(err, "--verify is for --dry-run: otherwise the hooks are always run");
    if (*o->request.commit_message && !o->request.commit)
        return err_invalid(err, "-m is the message of a commit: --commit");
    return 0;
}

/* ---- printing ---- */

static void approve_print(const struct api_call *call, const Sandbox__V1__ApproveResponse *answer, bool is_dry, bool removes)
{
    review_print_verdicts(stdout, answer->files, answer->n_files, is_dry);
    review_print_hooks(stdout, answer->hooks, answer->n_hooks);
    printf("%s %d file%s", is_dry ? "would apply" : "applied", answer->applied, answer->applied == 1 ? "" : "s");
    if (answer->remaining > 0)
        printf("; %d file%s stay%s in the sandbox", answer->remaining, answer->remaining == 1 ? "" : "s",
               answer->remaining == 1 ? "s" : "");
    if (*answer->commit_hash)
        printf("; commit %s", answer->commit_hash);
    putchar('\n');
    if (is_dry || removes || answer->applied == 0)
        return;
    fputs("to take it back: agentfense undo ", stdout);
    output_escaped(stdout, call->words[0]);
    putchar('\n');
}

static void approve_print_note(const char *before, const char *note)
{
    fprintf(stderr, "agentfense approve: %s", before);
    output_escaped(stderr, note);
    fputc('\n', stderr);
}

/* A dry run reports a refusal as its result, not as an error. */
static int approve_print_refusal(const struct api_call *call, const Sandbox__V1__ApproveResponse *answer)
{
    struct err err = ERR_NONE;

    err_set(&err, ERR_FAILED_PRECONDITION, -EREMOTEIO, "%s", answer->refusal->message);
    err_set_reason(&err, -EREMOTEIO, answer->refusal->reason);
    review_complete(call->words[0], -EREMOTEIO, &err);
    output_error(call->verb->name, &err);
    review_print_stopping(stderr, answer->files, answer->n_files);
    review_print_hooks(stderr, answer->hooks, answer->n_hooks);
    return EXIT_REFUSED;
}

/* ---- removing ---- */

/* Purges the sandbox, which frees its name at once: it has no changes left to restore. */
static int approve_remove(struct api_call *call, struct err *err)
{
    Sandbox__V1__DestroySandboxRequest request = SANDBOX__V1__DESTROY_SANDBOX_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.sandbox_id = call->words[0];
    request.purge = true;
    r = review_ask(call, call->words[0], "DestroySandbox", &request.base, &answer, err);
    if (r != 0 || call->options.is_json || call->options.is_quiet)
        return r < 0 ? err_wrap(err, r, "everything was applied, but the sandbox could not be removed") : r;
    fputs("removed sandbox ", stdout);
    output_escaped(stdout, call->words[0]);
    putchar('\n');
    return 0;
}

/* ---- approving ---- */

static int approve_tell(struct api_call *call, const ProtobufCMessage *message, struct err *err)
{
    const struct approve_options *o = approve_options_of(call);
    const Sandbox__V1__ApproveResponse *answer = (const void *) message;
    bool is_dry = o->request.dry_run, removes = o->removes && !is_dry && answer->remaining == 0;
    int r = 0;

    if (call->options.is_json)
        api_print_json(message);
    else if (answer->refusal)
        return approve_print_refusal(call, answer);
    else if (!call->options.is_quiet)
        approve_print(call, answer, is_dry, removes);
    if (answer->refusal)
        return EXIT_REFUSED;
    if (*answer->note && !call->options.is_json)
        approve_print_note("", answer->note);
    if (*answer->commit_error) {
        approve_print_note("it was applied, but not committed: ", answer->commit_error);
        return EXIT_OURS;
    }
    if (removes)
        r = approve_remove(call, err);
    return r;
}

static int approve_say_none(const struct api_call *call, const char *text)
{
    if (!call->options.is_quiet)
        puts(text);
    return EXIT_SUCCESS;
}

/* Returns whether the user can answer again, because files have changed since they saw them. */
static bool approve_may_ask_again(const struct err *err)
{
    return err->reason && (strcmp(err->reason, "DIFF_STALE") == 0 || strcmp(err->reason, "HUNK_UNKNOWN") == 0 ||
                           strcmp(err->reason, "FILE_UNKNOWN") == 0);
}

static int approve_send_choices(struct api_call *call, const struct hunk_choices *choices, ProtobufCMessage **answer,
                                struct client_refusal *refusal, struct err *err)
{
    struct hunk_choices_request request;
    int r;

    hunk_choices_fill(choices, &approve_options_of(call)->request, &request);
    client_refusal_done(refusal);
    *refusal = (struct client_refusal){ .type = &sandbox__v1__review_failure__descriptor };
    r = review_try(call, call->words[0], "Approve", &request.message.base, answer, refusal, err);
    hunk_choices_request_done(&request);
    return r;
}

/* Sends the choices until the server approves them, refuses them for another reason than changed files, or no choice is left. */
static int approve_choices(struct api_call *call, struct hunk_choices *choices, ProtobufCMessage **answer, struct err *err)
{
    struct client_refusal refusal = { .type = NULL };
    int r, again = 0;

    do {
        *err = ERR_NONE;
        r = approve_send_choices(call, choices, answer, &refusal, err);
        if (r == 0 || !approve_may_ask_again(err))
            break;
        struct err later = ERR_NONE;
        again = hunk_choices_ask_again(choices, call, &later);
        if (again < 0) {
            *err = later;
            r = again;
        }
    } while (again == 0 && choices->count > 0);
    if (r < 0 && again >= 0 && choices->count > 0)
        r = review_refuse(call, r, &refusal, err);
    client_refusal_done(&refusal);
    return r;
}

static int approve_ask(struct api_call *call, struct err *err)
{
    autodone(hunk_choices) struct hunk_choices choices = { 0 };
    autodone(review_paths) struct review_paths paths = { 0 };
    automessage answer = NULL;
    int r = review_paths_take(call, 1, &paths, err);

    if (r == 0 && paths.id_count > 0)
        return err_invalid(err, "a PATH is not UTF-8; leave it out to be asked about all changes");
    if (r == 0)
        r = hunk_choices_ask(&choices, call, paths.paths, paths.path_count, err);
    if (r < 0)
        return r;
    if (r > 0 || choices.count == 0)
        return approve_say_none(call, r > 0 ? "nothing to approve" : "nothing was chosen");
    r = approve_choices(call, &choices, &answer, err);
    if (r != 0 && choices.count == 0)
        return approve_say_none(call, "nothing is left of what was chosen");
    return r == 0 ? approve_tell(call, answer, err) : r;
}

/* Reads the hash of all current changes, whether the user has seen them or not. */
static int approve_take_hash(struct api_call *call, char **ret, struct err *err)
{
    Sandbox__V1__GetDiffRequest request = SANDBOX__V1__GET_DIFF_REQUEST__INIT;
    automessage answer = NULL;
    int r;

    request.sandbox_id = call->words[0];
    request.view = SANDBOX__V1__DIFF_VIEW__DIFF_VIEW_NAMES;
    request.page_size = 1;
    r = review_ask(call, call->words[0], "GetDiff", &request.base, &answer, err);
    if (r == 0)
        *ret = xdup(((const Sandbox__V1__Diff *) (const void *) answer)->diff_hash);
    return r;
}

static int approve_run(struct api_call *call, struct err *err)
{
    struct approve_options *o = approve_options_of(call);
    Sandbox__V1__Selection selection = SANDBOX__V1__SELECTION__INIT;
    autodone(review_paths) struct review_paths paths = { 0 };
    autofree char *hash = NULL;
    automessage answer = NULL;
    int r;

    o->request.sandbox_id = call->words[0];
    o->request.umask = umask(0);
    umask((mode_t) o->request.umask);
    if (o->asks)
        return approve_ask(call, err);
    r = review_paths_take(call, 1, &paths, err);
    if (r == 0 && o->is_all)
        r = approve_take_hash(call, &hash, err);
    if (r != 0)
        return r;
    selection.all = call->word_count == 1;
    selection.paths = paths.paths;
    selection.n_paths = paths.path_count;
    selection.file_ids = paths.ids;
    selection.n_file_ids = paths.id_count;
    o->request.selection = &selection;
    if (hash)
        o->request.diff_hash = hash;
    r = review_ask(call, call->words[0], "Approve", &o->request.base, &answer, err);
    return r == 0 ? approve_tell(call, answer, err) : r;
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
        .own_size = sizeof(struct approve_options),
        .take = approve_take_option,
        .check = approve_check,
        .run = approve_run,
    };

    return api_verb_run(&verb, argc, argv);
}

int cmd_apply(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "apply",
        .last = API_LAST_WORKSPACE,
        .help = APPLY_HELP API_LAST_HELP API_OPTIONS_HELP APPROVE_EXIT_HELP,
        .letters = "panfcm:",
        .options = options,
        .words_min = 1,
        .words_max = -1,
        .own_size = sizeof(struct approve_options),
        .take = approve_take_option,
        .check = approve_check,
        .run = approve_run,
    };

    return api_verb_run(&verb, argc, argv);
}
