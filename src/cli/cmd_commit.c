/* pending, provenance and commit: what becomes of approved changes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/client_verbs.h"
#include "cli/listing.h"
#include "cli/output.h"
#include "cli/review_call.h"

#define PAGE 1000

enum { OPT_PROJECT = 1, OPT_ACTOR, OPT_PATH };

static const struct option pending_options[] = { { "project", required_argument, NULL, OPT_PROJECT }, API_LONG_OPTIONS };
static const struct option provenance_options[] = { { "project", required_argument, NULL, OPT_PROJECT },
                                                    { "path", required_argument, NULL, OPT_PATH },
                                                    API_LONG_OPTIONS };
static const struct option commit_options[] = { { "project", required_argument, NULL, OPT_PROJECT },
                                                { "message", required_argument, NULL, 'm' },
                                                { "actor", required_argument, NULL, OPT_ACTOR },
                                                { "dry-run", no_argument, NULL, 'n' },
                                                API_LONG_OPTIONS };

struct commit_options {
    char *project, *message, *actor, *path;
    bool is_dry;
};

static int commit_take_option(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct commit_options *o = call->own;

    if (argument && !utf8_is_valid(argument, strlen(argument)))
        return err_reject(err, -EINVAL, argument, "is not UTF-8");
    if (option == 'n')
        o->is_dry = true;
    else
        *(option == OPT_PROJECT ? &o->project
          : option == 'm'       ? &o->message
          : option == OPT_ACTOR ? &o->actor
                                : &o->path) = (char *) argument;
    return 0;
}

/* Returns the directory named by --project, or "" without it. */
static int commit_find_project(const struct commit_options *o, char **ret, struct err *err)
{
    *ret = o->project ? realpath(o->project, NULL) : xdup("");
    return *ret ? 0 : err_errno(err, -errno, "--project '%s'", o->project);
}

static void grid_add_time(struct grid *grid, const Google__Protobuf__Timestamp *time)
{
    char text[CLOCK_TEXT_MAX] = "-";

    if (time)
        clock_format((struct timespec){ .tv_sec = time->seconds, .tv_nsec = time->nanos }, 0, text);
    grid_add(grid, text);
}

static void grid_add_or_dash(struct grid *grid, const char *text)
{
    grid_add(grid, *text ? text : "-");
}

/* ---- pending ---- */

static void pending_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__AppliedGroup *group = (const void *) item;

    grid_add(grid, group->sandbox_id);
    grid_add_or_dash(grid, group->creator);
    grid_add_number(grid, group->files);
    grid_add_time(grid, group->latest_applied_at);
    grid_add(grid, group->project_root);
}

static int pending_run(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "SANDBOX", "OWNER", "FILES", "APPROVED", "PROJECT", NULL };
    static const struct listing listing = { "ListPending", &sandbox__v1__list_pending_response__descriptor, titles,
                                            pending_add_row };
    Sandbox__V1__ListPendingRequest request = SANDBOX__V1__LIST_PENDING_REQUEST__INIT;
    autofree char *project = NULL;
    int r = commit_find_project(call->own, &project, err);

    request.project_root = project;
    request.page_size = PAGE;
    return r < 0 ? r : listing_print(call, &listing, &request.base, err);
}

/* ---- provenance ---- */

static void provenance_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__AppliedChange *change = (const void *) item;
    char kind[32];

    grid_add_time(grid, change->applied_at);
    grid_add(grid, review_word(&sandbox__v1__change_kind__descriptor, (int) change->kind, "CHANGE_KIND_", kind));
    grid_add(grid, change->sandbox_id);
    grid_add_or_dash(grid, change->creator);
    grid_add_or_dash(grid, change->undone_at ? "(undone)" : change->commit_hash);
}

static int provenance_run(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "APPROVED", "CHANGE", "SANDBOX", "OWNER", "COMMIT", NULL };
    static const struct listing listing = { "ListProvenance", &sandbox__v1__list_provenance_response__descriptor, titles,
                                            provenance_add_row };
    const struct commit_options *o = call->own;
    const char *word = call->word_count ? call->words[0] : o->path;
    Sandbox__V1__ListProvenanceRequest request = SANDBOX__V1__LIST_PROVENANCE_REQUEST__INIT;
    autofree char *project = o->project ? api_absolute_path(o->project) : xdup(""), *path = NULL;

    if (!word)
        return err_invalid(err, "PATH is missing; usage: agentfense provenance [options] PATH");
    if (!utf8_is_valid(word, strlen(word)))
        return err_reject(err, -EINVAL, word, "is not UTF-8");
    path = o->project ? xdup(word) : api_absolute_path(word);
    request.path = path;
    request.project_root = project;
    request.page_size = PAGE;
    return listing_print(call, &listing, &request.base, err);
}

/* ---- commit ---- */

static void commit_print_files(FILE *out, Sandbox__V1__CommitFile *const *files, size_t count)
{
    char status[32], kind[32];

    for (size_t i = 0; i < count; i++) {
        fprintf(out, "  %s %s: ",
                review_word(&sandbox__v1__commit_status__descriptor, (int) files[i]->status, "COMMIT_STATUS_", status),
                review_word(&sandbox__v1__change_kind__descriptor, (int) files[i]->kind, "CHANGE_KIND_", kind));
        output_escaped(out, files[i]->relative_path);
        fputs(*files[i]->reason ? " " : "", out);
        output_escaped(out, files[i]->reason);
        fputc('\n', out);
    }
}

/* Without sandboxes and --project, the project of the current directory is used. */
static int commit_choose_project(const struct api_call *call, char **ret, struct err *err)
{
    const struct commit_options *o = call->own;

    if (o->project || call->word_count > 0)
        return commit_find_project(o, ret, err);
    *ret = api_absolute_path(".");
    return 0;
}

static int commit_preview(struct api_call *call, char *project, ProtobufCMessage **ret, struct client_refusal *refusal,
                          struct err *err)
{
    Sandbox__V1__PreviewCommitRequest request = SANDBOX__V1__PREVIEW_COMMIT_REQUEST__INIT;

    request.project_root = project;
    request.sandbox_ids = call->words;
    request.n_sandbox_ids = (size_t) call->word_count;
    return review_try(call, call->word_count ? call->words[0] : "", "PreviewCommit", &request.base, ret, refusal, err);
}

static int commit_send(struct api_call *call, char *project, ProtobufCMessage **ret, struct client_refusal *refusal,
                       struct err *err)
{
    const struct commit_options *o = call->own;
    Sandbox__V1__CommitChangesRequest request = SANDBOX__V1__COMMIT_CHANGES_REQUEST__INIT;

    request.project_root = project;
    request.sandbox_ids = call->words;
    request.n_sandbox_ids = (size_t) call->word_count;
    request.message = o->message ? o->message : (char *) "";
    request.actor = o->actor ? o->actor : (char *) "";
    return review_try(call, call->word_count ? call->words[0] : "", "CommitChanges", &request.base, ret, refusal, err);
}

static void commit_print_preview(const Sandbox__V1__PreviewCommitResponse *answer)
{
    commit_print_files(stdout, answer->files, answer->n_files);
    if (answer->blocked > 0)
        puts("nothing can be committed before that");
    else
        printf("would commit %lld file%s\n", (long long) answer->pending, answer->pending == 1 ? "" : "s");
}

static void commit_print(const Sandbox__V1__CommitChangesResponse *answer)
{
    if (!*answer->commit_hash)
        puts("nothing to commit");
    else
        printf("committed %lld file%s: %s\n", (long long) answer->files, answer->files == 1 ? "" : "s", answer->commit_hash);
}

static int commit_refuse(struct api_call *call, int r, const struct client_refusal *refusal, const struct err *err)
{
    const Sandbox__V1__CommitFailure *failure = (const void *) refusal->failure;

    r = review_refuse(call, r, refusal, err);
    if (r != EXIT_REFUSED || !failure || call->options.is_json)
        return r;
    commit_print_files(stderr, failure->files, failure->n_files);
    if ((size_t) failure->total > failure->n_files)
        fprintf(stderr, "  and %zu more\n", (size_t) failure->total - failure->n_files);
    return r;
}

static int commit_run(struct api_call *call, struct err *err)
{
    const struct commit_options *o = call->own;
    struct client_refusal refusal = { .type = &sandbox__v1__commit_failure__descriptor };
    autofree char *project = NULL;
    automessage answer = NULL;
    int r = commit_choose_project(call, &project, err);

    if (r != 0)
        return r;
    r = o->is_dry ? commit_preview(call, project, &answer, &refusal, err) : commit_send(call, project, &answer, &refusal, err);
    if (r < 0)
        r = commit_refuse(call, r, &refusal, err);
    else if (call->options.is_json)
        api_print_json(answer);
    else if (!call->options.is_quiet && o->is_dry)
        commit_print_preview((const void *) answer);
    else if (!call->options.is_quiet)
        commit_print((const void *) answer);
    client_refusal_done(&refusal);
    return r;
}

/* ---- the verbs ---- */

#define COMMIT_VERB(verb, of_letters, most, help_text)                                                                         \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .help = help_text API_OPTIONS_HELP,                                                                                \
            .letters = of_letters,                                                                                             \
            .options = verb##_options,                                                                                         \
            .words_max = most,                                                                                                 \
            .own_size = sizeof(struct commit_options),                                                                         \
            .take = commit_take_option,                                                                                        \
            .run = verb##_run,                                                                                                 \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

COMMIT_VERB(pending, "", 0,
            "usage: agentfense pending [options]\n\n"
            "Lists the sandboxes with approved changes that are not committed yet.\n\n"
            "  --project DIR          only of this project\n")
COMMIT_VERB(provenance, "", 1,
            "usage: agentfense provenance [options] PATH\n\n"
            "Shows which sandboxes changed a file, who approved the changes, and which commit has them.\n\n"
            "  --project DIR          the project that PATH counts from; without: PATH counts from here\n")
COMMIT_VERB(commit, "m:n", -1,
            "usage: agentfense commit [options] [SANDBOX...]\n\n"
            "Commits the changes that were approved and not committed yet: those of each SANDBOX, or without one those of the\n"
            "project. Other changes stay out of the commit, staged or not, also in the same files.\n\n"
            "  -m, --message TEXT     the message; without: one that lists the changes\n"
            "  --project DIR          the project; without: that of the first sandbox, or the current directory\n"
            "  --actor NAME           who commits: 'Name <mail>'\n"
            "  -n, --dry-run          only print what would be committed\n")
