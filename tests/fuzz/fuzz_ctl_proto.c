/*
 * The protocol of a sandbox's supervisor, in both directions: see packet.h for the way the input takes. What a decoder takes, the
 * encoder makes again, byte for byte.
 */
#include "packet.h"

#include "wire/ctl_proto.h"

static const char strings[] = "n\0\0/\0true\0A=1"; /* five, for an EXEC with argc 1 and envc 1 */

static char again[FRAME_PAYLOAD_MAX];
static const char *room[CTL_STRINGS_COUNT_MAX + 2];

static void require_text(const char *text, size_t cap)
{
    require(memchr(text, '\0', cap) != NULL);
}

/* What a listing says is there, is there, and made again it is the same. */
static void check_listing(const struct ctl_listing *listing)
{
    static uint8_t bytes[CTL_LISTING_BYTES_MAX];
    struct ctl_listing copy = { .has_more = listing->has_more };
    struct ctl_file file;

    for (size_t at = 0; ctl_listing_next(listing, &at, &file);)
        require(ctl_listing_add(&copy, bytes, &file));
    require(copy.count == listing->count && copy.len == listing->len);
    require(copy.len == 0 || memcmp(copy.bytes, listing->bytes, copy.len) == 0);
}

static void check_reply(const struct frame *frame)
{
    struct ctl_reply reply;
    struct frame made;

    if (ctl_reply_decode(frame, &reply) < 0)
        return;
    if (reply.type == CTL_REPLY_FINISHED)
        require_text(reply.finished.text, CTL_TEXT_MAX);
    else if (reply.type == CTL_REPLY_LISTING)
        check_listing(&reply.listing);
    require(ctl_reply_encode(&reply, again, sizeof(again), &made) == 0);
    require(reply.type == CTL_REPLY_OUTPUT || made.len <= CTL_PROTO_SMALL_MAX);
    require_same(frame, &made);
}

static void check_run(const struct frame *frame, struct ctl_request *request)
{
    struct ctl_run *run = &request->run;
    bool in_frame = run->strings != NULL;
    struct ctl_command command;
    struct frame made;
    int fd;

    if (ctl_run_map_strings(run, frame) < 0)
        return;
    ctl_run_command(run, room, &command);
    require(command.argv[run->argc] == NULL && command.envp[run->envc] == NULL);
    require(strlen(command.name) < CTL_NAME_MAX && strlen(command.session) < CTL_NAME_MAX);
    require(ctl_run_encode(request->type, request->tag, run, &command, frame->fds[0], again, &made, &fd) == 0);
    require(fd == -1);
    if (in_frame)
        require_same(frame, &made);
    ctl_run_unmap_strings(run);
}

static void check_request(const struct frame *frame)
{
    struct ctl_request request;
    struct frame made;

    if (ctl_request_decode(frame, &request) < 0)
        return;
    if (request.type <= CTL_REQUEST_SESSION_EXEC) {
        check_run(frame, &request);
        return;
    }
    require(ctl_request_encode(&request, again, sizeof(again), &made) == 0);
    require(request.type == CTL_REQUEST_BASE_CHANGED || request.type == CTL_REQUEST_REVERT || made.len <= CTL_PROTO_SMALL_MAX);
    require_same(frame, &made);
}

static void check(const struct frame *frame)
{
    check_reply(frame);
    check_request(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    packet_pass(data, size, strings, sizeof(strings), check);
    return 0;
}
