/*
 * The protocol with agentfense-init, in both directions: the input is one packet, sent through a real socket with as many
 * descriptors as its header announces. Whatever it is, no descriptor stays behind; and what a decoder takes, the encoder makes
 * again, byte for byte.
 */
#include "packet.h"

#include "wire/init_proto.h"

static const char strings[] = "/\0/bin/true\0A=1"; /* three, for a SPAWN with argc 1 and envc 1 */

static char again[FRAME_PAYLOAD_MAX];
static char *room[INIT_STRINGS_COUNT_MAX + 2];

static void check_report(const struct frame *frame)
{
    struct init_report report;
    struct frame made;

    if (init_report_decode(frame, &report) < 0)
        return;
    require(init_report_encode(&report, again, INIT_PROTO_SMALL_MAX, &made) == 0);
    require_same(frame, &made);
}

static void check_spawn(const struct frame *frame, struct init_request *request)
{
    struct init_spawn *spawn = &request->spawn;
    bool in_frame = spawn->strings != NULL;
    struct init_vectors vectors;
    struct frame made;
    int fd;

    if (init_spawn_map_strings(spawn, frame) < 0)
        return;
    init_spawn_vectors(spawn, room, &vectors);
    require(vectors.argv[spawn->argc] == NULL && vectors.envp[spawn->envc] == NULL);
    const struct init_command command = { .cwd = vectors.cwd,
                                          .argv = (const char *const *) vectors.argv,
                                          .envp = (const char *const *) vectors.envp,
                                          .fds = frame->fds,
                                          .fd_count = init_spawn_fd_count(spawn, frame) };
    require(init_spawn_encode(frame->id, spawn, &command, again, &made, &fd) == 0);
    require(fd == -1);
    if (in_frame)
        require_same(frame, &made);
    init_spawn_unmap_strings(spawn);
}

static void check_request(const struct frame *frame)
{
    struct init_request request;
    struct frame made;

    if (init_request_decode(frame, &request) < 0)
        return;
    if (request.type == INIT_REQUEST_SPAWN) {
        check_spawn(frame, &request);
        return;
    }
    require(init_request_encode(&request, again, INIT_PROTO_SMALL_MAX, &made) == 0);
    require_same(frame, &made);
}

static void check(const struct frame *frame)
{
    check_report(frame);
    check_request(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    packet_pass(data, size, strings, sizeof(strings), check);
    return 0;
}
