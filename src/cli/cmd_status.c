#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/size.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/grid.h"
#include "cli/output.h"
#include "cli/sandbox_text.h"
#include <sandbox/v1/codebase.pb-c.h>
#include <sandbox/v1/retention.pb-c.h>

static const char help[] = "usage: agentfense status [options]\n\n"
                           "Shows which server the verbs talk to, its health, how many sandboxes and codebases there are, and "
                           "how\nmuch disk they use. -q: nothing, only the exit code.\n\n"
                           "  --disk                 measure now, and list the sandboxes that use most\n" API_OPTIONS_HELP;

enum { OPT_DISK = 1 };

static const struct option options[] = { { "disk", no_argument, NULL, OPT_DISK }, API_LONG_OPTIONS };

#define LARGEST_SHOWN 20
#define STATUS_COUNT 6 /* of enum SandboxStatus */

struct status_options {
    bool measures;
};

struct tally {
    int64_t statuses[STATUS_COUNT], codebases;
};

static int status_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    (void) option;
    (void) argument;
    (void) err;
    ((struct status_options *) call->own)->measures = true;
    return 0;
}

static int status_on_sandbox(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    size_t status = (size_t) ((const Sandbox__V1__Sandbox *) (const void *) item)->status;

    (void) err;
    ((struct tally *) cookie)->statuses[status < STATUS_COUNT ? status : 0]++;
    return 0;
}

static int status_on_codebase(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    (void) item;
    (void) err;
    ((struct tally *) cookie)->codebases++;
    return 0;
}

/* Prints "0 pending, 1 running, ...". */
static void status_print_counts(const struct tally *tally)
{
    fputs("sandboxes:", stdout);
    for (int i = 1; i < STATUS_COUNT - 1; i++)
        printf("%s %" PRId64 " %s", i > 1 ? "," : "", tally->statuses[i], sandbox_status_text((Sandbox__V1__SandboxStatus) i));
    putchar('\n');
}

static json_t *status_counts_json(const struct tally *tally)
{
    json_t *counts = json_object();

    for (int i = 1; i < STATUS_COUNT - 1; i++)
        json_object_set_new(counts, sandbox_status_text((Sandbox__V1__SandboxStatus) i),
                            json_integer((json_int_t) tally->statuses[i]));
    return counts;
}

static void status_print_disk(const Sandbox__V1__GetDiskUseResponse *use, bool is_measured)
{
    static const char *const titles[] = { "ID", "NAME", "STATUS", "DISK", "CHANGES", NULL };
    autodone(grid) struct grid grid;
    char changes[SIZE_TEXT_MAX], disk[SIZE_TEXT_MAX], trash[SIZE_TEXT_MAX];

    grid_init(&grid, titles);
    size_format((uint64_t) use->changed_bytes, changes);
    if (!is_measured) {
        printf("disk: %s of changes when they were last measured\n", changes);
        return;
    }
    size_format((uint64_t) use->disk_bytes, disk);
    size_format((uint64_t) use->trash_disk_bytes, trash);
    printf("disk: %s, %s of it changes; %" PRId64 " in the trash with %s ('agentfense prune' frees disk)\n", disk, changes,
           use->trash, trash);
    for (size_t i = 0; i < use->n_sandboxes; i++) {
        const Sandbox__V1__SandboxDiskUse *one = use->sandboxes[i];

        grid_add(&grid, one->sandbox_id);
        grid_add(&grid, *one->name ? one->name : "-");
        grid_add_coloured(&grid, sandbox_status_text(one->status), sandbox_status_colour(one->status));
        grid_add_size(&grid, one->disk_bytes);
        grid_add_size(&grid, one->changed_bytes);
    }
    if (use->n_sandboxes > 0)
        grid_print(&grid, stdout);
}

static void status_print(const struct api_call *call, const json_t *health, const struct tally *tally)
{
    const char *version = json_string_value(json_object_get(health, "version"));

    printf("server: %s%s\n", client_where(call->client),
           client_is_remote(call->client) ? "" : " (it ends a few seconds after the last command)");
    printf("status: ");
    output_escaped(stdout, json_string_value(json_object_get(health, "status")));
    printf("\nversion: ");
    output_escaped(stdout, version ? version : "?");
    printf("\ncodebases: %" PRId64 "\n", tally->codebases);
    status_print_counts(tally);
}

static int status_run(struct api_call *call, struct err *err)
{
    const struct status_options *o = call->own;
    Sandbox__V1__ListSandboxesRequest sandboxes = SANDBOX__V1__LIST_SANDBOXES_REQUEST__INIT;
    Sandbox__V1__ListCodebasesRequest codebases = SANDBOX__V1__LIST_CODEBASES_REQUEST__INIT;
    Sandbox__V1__GetDiskUseRequest disk = SANDBOX__V1__GET_DISK_USE_REQUEST__INIT;
    autodone(buf) struct buf text = BUF_EMPTY;
    struct tally tally = { 0 };
    automessage use = NULL;
    json_t *health;
    int r = client_health(call->client, &text, err);

    if (r == 0)
        r = client_list(call->client, "ListSandboxes", &sandboxes.base, status_on_sandbox, &tally, err);
    if (r == 0)
        r = client_list(call->client, "ListCodebases", &codebases.base, status_on_codebase, &tally, err);
    disk.measure = o->measures;
    disk.max_sandboxes = o->measures ? LARGEST_SHOWN : 1;
    if (r == 0)
        r = client_ask(call->client, "GetDiskUse", &disk.base, &use, err);
    if (r < 0)
        return r;
    health = json_loadb(text.data ? text.data : "", text.len, 0, NULL);
    if (!json_is_string(json_object_get(health, "status"))) {
        json_decref(health);
        return err_set(err, ERR_UNAVAILABLE, -EPROTO, "the program that answers there is not an agentfense server");
    }
    if (call->options.is_json) {
        output_json(json_pack("{s:s, s:b, s:O, s:I, s:o, s:o}", "server", client_where(call->client), "remote",
                              client_is_remote(call->client), "health", health, "codebases", (json_int_t) tally.codebases,
                              "sandboxes", status_counts_json(&tally), "disk", api_message_json(use)));
    } else if (!call->options.is_quiet) {
        status_print(call, health, &tally);
        status_print_disk((void *) use, o->measures);
    }
    json_decref(health);
    return 0;
}

int cmd_status(int argc, char **argv)
{
    static const struct api_verb verb = {
        .name = "status",
        .help = help,
        .options = options,
        .own_size = sizeof(struct status_options),
        .take = status_take,
        .run = status_run,
    };

    return api_verb_run(&verb, argc, argv);
}
