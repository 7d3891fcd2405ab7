/*
 * The protocol with agentfense-init, in both directions: the input is one packet, sent through a real socket with as many
 * descriptors as its header announces. Whatever it is, no descriptor stays behind; and what a decoder takes, the encoder makes
 * again, byte for byte.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/init_proto.h"

#define PACKET_MAX (FRAME_PAYLOAD_MAX + 20)
#define FD_COUNT_AT 6 /* in the header */

static const char strings[] = "/\0/bin/true\0A=1"; /* three, for a SPAWN with argc 1 and envc 1 */

static int ends[2], null_fd, strings_fd;
static char payload[FRAME_PAYLOAD_MAX], again[FRAME_PAYLOAD_MAX];
static char *room[INIT_STRINGS_COUNT_MAX + 2];

static void set_up(void)
{
    static bool done;

    if (done)
        return;
    done = true;
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    strings_fd = memfd_create("strings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    require(write(strings_fd, strings, sizeof(strings)) == (ssize_t) sizeof(strings));
    require(fcntl(strings_fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
}

/* The last descriptor is one that may hold the strings of a SPAWN. */
static void send_packet(const uint8_t *data, size_t size)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE((FRAME_FDS_MAX + 1) * sizeof(int))];
    } control = { .bytes = { 0 } };
    struct iovec iov = { (void *) data, size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    size_t count = size > FD_COUNT_AT ? data[FD_COUNT_AT] % (FRAME_FDS_MAX + 2) : 0;

    if (count > 0) {
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (size_t i = 0; i < count; i++)
            memcpy(CMSG_DATA(cmsg) + i * sizeof(int), i + 1 == count ? &strings_fd : &null_fd, sizeof(int));
    }
    require(sendmsg(ends[0], &msg, MSG_DONTWAIT) == (ssize_t) size);
}

static void require_same(const struct frame *a, const struct frame *b)
{
    require(a->type == b->type && a->id == b->id && a->len == b->len);
    require(a->len == 0 || memcmp(a->payload, b->payload, a->len) == 0);
}

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

/* Descriptors are given the lowest free number, so one that was left behind shows. */
static int next_fd(void)
{
    int fd = dup(null_fd);

    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame frame;
    int before, r;

    if (size > PACKET_MAX)
        return 0;
    set_up();
    before = next_fd();
    send_packet(data, size);
    r = frame_receive(ends[1], payload, sizeof(payload), FRAME_NOWAIT, &frame);
    require(r == 0 || r == -EPROTO || r == -EMSGSIZE || (r == -ECONNRESET && size == 0));
    if (r == 0) {
        check_report(&frame);
        check_request(&frame);
        frame_close_fds(&frame);
    }
    require(next_fd() == before);
    return 0;
}
