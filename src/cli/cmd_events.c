#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/standard_output.h"
#include "cli/api_verb.h"
#include "cli/client_verbs.h"
#include "cli/interrupt.h"
#include "cli/listing.h"
#include "cli/lookup.h"
#include "cli/output.h"
#include "cli/process_verbs.h"
#include "cli/setting_options.h"
#include "rest/json_message.h"
#include <sandbox/v1/sandbox.pb-c.h>

#define FOLLOW_MS 500
#define PAYLOAD_SHOWN 100 /* bytes in the table; --json prints all */
/* Each poll starts this long before the last event seen, because several writers may store their events slightly out of order. */
#define LOOK_BACK_SEC 2

#define EVENT_OPTIONS_HELP                                                                                                     \
    "  -f, --follow           go on with what happens from now on, until interrupted; with --json an object a line\n"          \
    "  --type TYPE            only events of this type (command_executed, permission_denied, ...)\n"                           \
    "  --since TIME           from 2026-01-02T03:04:05Z on, or of the last 90s, 15m, 2h\n"

static const char events_help[] =
    "usage: agentfense events [options] [SANDBOX]\n\n"
    "Lists what happened, the oldest first: sandboxes made and ended, commands, refusals, approvals, "
    "versions.\n\n" EVENT_OPTIONS_HELP "  --codebase CODEBASE    only those of a codebase\n" API_LAST_HELP API_OPTIONS_HELP;

static const char logs_help[] =
    "usage: agentfense logs [options] SANDBOX\n\n"
    "Lists what happened in a sandbox, the oldest first; or what one of its background processes "
    "printed.\n\n" EVENT_OPTIONS_HELP
    "  --pid PROCESS          what this process printed, by its id or pid: 'agentfense process list'\n"
    "  --tail N               of that the last N lines\n" API_LAST_HELP API_OPTIONS_HELP;

enum { OPT_TYPE = 1, OPT_CODEBASE, OPT_SINCE, OPT_PID, OPT_TAIL };

static const struct option options[] = {
    { "follow", no_argument, NULL, 'f' },
    { "type", required_argument, NULL, OPT_TYPE },
    { "codebase", required_argument, NULL, OPT_CODEBASE },
    { "since", required_argument, NULL, OPT_SINCE },
    { "pid", required_argument, NULL, OPT_PID },
    { "tail", required_argument, NULL, OPT_TAIL },
    API_LONG_OPTIONS,
};

struct events_options {
    bool follows, has_since;
    const char *type, *codebase, *process;
    int64_t tail; /* valid if has_tail */
    bool has_tail;
    Google__Protobuf__Timestamp since;
    /* State of --follow. */
    struct api_call *call;
    struct sequences {
        int64_t *items; /* owned */
        size_t count, cap;
    } seen, now; /* ids from the last poll, and from this one */
};

static int events_take_since(struct events_options *o, const char *text, struct err *err)
{
    struct timespec t;
    struct err ignored = ERR_NONE;
    int64_t ns;

    if (clock_parse_duration(text, &ns, &ignored) == 0)
        t = clock_timespec_of_ns(clock_wall_ns() - ns);
    else if (clock_parse(text, &t, &ignored) < 0)
        return err_invalid(err, "--since '%s' is neither a time (2026-01-02T03:04:05Z) nor a span (15m)", text);
    google__protobuf__timestamp__init(&o->since);
    o->since.seconds = t.tv_sec;
    o->since.nanos = (int32_t) t.tv_nsec;
    o->has_since = true;
    return 0;
}

static int events_take(struct api_call *call, int option, const char *argument, struct err *err)
{
    struct events_options *o = call->own;

    switch (option) {
    case 'f':
        o->follows = true;
        return 0;
    case OPT_TYPE:
        o->type = argument;
        return 0;
    case OPT_CODEBASE:
        o->codebase = argument;
        return 0;
    case OPT_PID:
        o->process = argument;
        return 0;
    case OPT_TAIL:
        o->has_tail = true;
        return parse_number("--tail", argument, 0, INT32_MAX, &o->tail, err);
    default:
        return events_take_since(o, argument, err);
    }
}

static void events_time_of(const Sandbox__V1__Event *event, char out[CLOCK_TEXT_MAX])
{
    out[0] = '\0';
    if (event->time)
        clock_format((struct timespec){ .tv_sec = event->time->seconds, .tv_nsec = event->time->nanos }, 3, out);
}

static void events_add_row(struct grid *grid, const ProtobufCMessage *item)
{
    const Sandbox__V1__Event *event = (const void *) item;
    char time[CLOCK_TEXT_MAX];

    events_time_of(event, time);
    grid_add(grid, time);
    grid_add(grid, event->type);
    grid_add(grid, *event->sandbox_id ? event->sandbox_id : *event->codebase_id ? event->codebase_id : "-");
    if (strlen(event->payload) <= PAYLOAD_SHOWN) {
        grid_add(grid, event->payload);
    } else {
        autofree char *start = xprintf("%.*s...", PAYLOAD_SHOWN, event->payload);
        grid_add(grid, start);
    }
}

/* ---- following ---- */

static bool events_is_new(struct events_options *o, int64_t sequence)
{
    vec_room(&o->now.items, &o->now.cap, o->now.count);
    o->now.items[o->now.count++] = sequence;
    for (size_t i = 0; i < o->seen.count; i++) {
        if (o->seen.items[i] == sequence)
            return false;
    }
    return true;
}

/* Forget ids that this poll did not return: `since` only grows, so no later poll returns them. */
static void events_end_look(struct events_options *o)
{
    struct sequences old = o->seen;

    o->seen = o->now;
    o->now = old;
    o->now.count = 0;
}

static void events_print_line(const struct events_options *o, const Sandbox__V1__Event *event)
{
    autodone(buf) struct buf text = BUF_EMPTY;
    char time[CLOCK_TEXT_MAX];

    if (o->call->options.is_json) {
        json_message_add(&text, &event->base);
        json_t *value = json_loadb(text.data, text.len, 0, NULL);
        json_dumpf(value, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        json_decref(value);
    } else if (o->call->options.is_quiet) {
        printf("%lld", (long long) event->sequence);
    } else {
        events_time_of(event, time);
        buf_addf(&text, "%s  ", time);
        buf_add_escaped(&text, event->type, strlen(event->type));
        buf_addf(&text, "  %s  ", *event->sandbox_id ? event->sandbox_id : event->codebase_id);
        buf_add_escaped(&text, event->payload, strlen(event->payload));
        fputs(text.data, stdout);
    }
    putchar('\n');
}

static int events_on_event(const ProtobufCMessage *item, void *cookie, struct err *err)
{
    const Sandbox__V1__Event *event = (const void *) item;
    struct events_options *o = cookie;

    if (events_is_new(o, event->sequence)) {
        events_print_line(o, event);
        if (event->time && event->time->seconds - LOOK_BACK_SEC > o->since.seconds) {
            o->since.seconds = event->time->seconds - LOOK_BACK_SEC;
            o->since.nanos = 0;
        }
    }
    return ferror(stdout) ? output_refused(standard_output_flush(), "writing", err) : 0;
}

static bool events_is_interrupted(int wait_ms)
{
    struct pollfd p = { .fd = interrupt_fd(), .events = POLLIN };

    return poll(&p, 1, wait_ms) > 0;
}

static int events_follow(struct events_options *o, Sandbox__V1__ListEventsRequest *request, struct err *err)
{
    int r;

    if (!o->has_since)
        google__protobuf__timestamp__init(&o->since);
    for (;;) {
        r = client_list(o->call->client, "ListEvents", &request->base, events_on_event, o, err);
        if (r < 0)
            return r;
        r = standard_output_flush();
        if (r < 0)
            return output_refused(r, "writing", err);
        events_end_look(o);
        if (o->since.seconds > 0)
            request->since = &o->since;
        if (events_is_interrupted(FOLLOW_MS))
            return err_set(err, ERR_CANCELLED, -ECANCELED, "interrupted");
    }
}

static int events_run(struct api_call *call, struct err *err)
{
    static const char *const titles[] = { "TIME", "TYPE", "OF", "PAYLOAD", NULL };
    static const struct listing listing = { "ListEvents", &sandbox__v1__list_events_response__descriptor, titles,
                                            events_add_row };
    struct events_options *o = call->own;
    Sandbox__V1__ListEventsRequest request = SANDBOX__V1__LIST_EVENTS_REQUEST__INIT;
    autofree char *codebase = NULL, *sandbox = NULL;
    int r = call->word_count > 0 ? lookup_sandbox(call->client, call->words[0], &sandbox, err) : 0;

    if (r == 0 && o->process)
        return process_show_log(call, sandbox, o->process, o->has_tail ? o->tail : -1, o->follows, err);
    if (r == 0 && o->has_tail)
        return err_invalid(err, "--tail is for what a process printed: --pid");
    if (r == 0 && o->codebase)
        r = lookup_codebase(call->client, o->codebase, &codebase, err);
    if (r < 0)
        return r;
    if (sandbox)
        request.sandbox_id = sandbox;
    if (codebase)
        request.codebase_id = codebase;
    if (o->type)
        request.type = (char *) o->type;
    if (o->has_since)
        request.since = &o->since;
    o->call = call;
    return o->follows ? events_follow(o, &request, err) : listing_print(call, &listing, &request.base, err);
}

static void events_done(struct api_call *call)
{
    struct events_options *o = call->own;

    free(o->seen.items);
    free(o->now.items);
}

#define EVENTS_VERB(verb, least)                                                                                               \
    int cmd_##verb(int argc, char **argv)                                                                                      \
    {                                                                                                                          \
        static const struct api_verb self = {                                                                                  \
            .name = #verb,                                                                                                     \
            .last = API_LAST_SANDBOX,                                                                                          \
            .help = verb##_help,                                                                                               \
            .letters = "f",                                                                                                    \
            .options = options,                                                                                                \
            .words_min = least,                                                                                                \
            .words_max = 1,                                                                                                    \
            .own_size = sizeof(struct events_options),                                                                         \
            .take = events_take,                                                                                               \
            .run = events_run,                                                                                                 \
            .done = events_done,                                                                                               \
        };                                                                                                                     \
        return api_verb_run(&self, argc, argv);                                                                                \
    }

EVENTS_VERB(events, 0)
EVENTS_VERB(logs, 1)
