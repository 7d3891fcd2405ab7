#include "service/hello.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "wire/ctl_client.h"

static int receive_state(int fd, void *payload, int64_t until_ns, enum ctl_state *ret)
{
    int64_t left = (until_ns - clock_now_ns()) / CLOCK_NS_PER_MS;
    struct ctl_reply reply;
    struct frame frame;
    int r = ctl_client_receive(fd, payload, left > 0 ? (int) left : 0, &frame, &reply);

    if (r < 0)
        return r;
    frame_close_fds(&frame);
    if (reply.type == CTL_REPLY_HELLO && reply.hello.version != CTL_PROTO_VERSION)
        return -EPROTONOSUPPORT;
    if (reply.type == CTL_REPLY_HELLO)
        *ret = reply.hello.state;
    else if (reply.type == CTL_REPLY_STATE)
        *ret = reply.state.state;
    else
        return -EPROTO;
    return 0;
}

int hello_await(int fd, int timeout_ms, enum ctl_state *ret, struct err *err)
{
    int64_t until_ns = clock_now_ns() + timeout_ms * CLOCK_NS_PER_MS;
    autofree char *payload = malloc(FRAME_PAYLOAD_MAX);
    enum ctl_state state = CTL_STATE_BOOTING;
    int r = payload ? 0 : -ENOMEM;

    while (r == 0 && state == CTL_STATE_BOOTING)
        r = receive_state(fd, payload, until_ns, &state);
    if (r == -EPROTONOSUPPORT)
        return err_set(err, ERR_FAILED_PRECONDITION, r,
                       "the sandbox runs under another release of agentfense, which this one cannot talk to; end its process "
                       "agentfense-supervisor, or stop the sandbox with that release, then start it again");
    if (r < 0)
        return err_errno(err, r, "greeting the sandbox's supervisor");
    *ret = state;
    return 0;
}
