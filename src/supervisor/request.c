#include "supervisor/request.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "supervisor/client.h"
#include "supervisor/command.h"
#include "supervisor/file_ops.h"
#include "supervisor/process.h"
#include "supervisor/sandbox.h"
#include "supervisor/sandbox_quiesce.h"
#include "supervisor/sync.h"

static void reply_ok(struct client *client, uint64_t tag)
{
    client_reply(client, &(struct ctl_reply){ .type = CTL_REPLY_OK, .tag = tag }, -1);
}

static int request_reject_not_running(struct sandbox *sandbox, struct err *err)
{
    return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox is %s, not running", ctl_state_name(sandbox->state));
}

static int run_command(struct client *client, const struct ctl_request *request, const struct ctl_command *command,
                       struct frame *frame, struct err *err)
{
    struct sandbox *sandbox = client->sandbox;
    const struct ctl_run *run = &request->run;

    if (sandbox->state != CTL_STATE_RUNNING)
        return request_reject_not_running(sandbox, err);
    if (request->type == CTL_REQUEST_SESSION_OPEN)
        return shell_open(sandbox, client, request->tag, run, command, err);
    if (request->type == CTL_REQUEST_SESSION_EXEC)
        return shell_run(sandbox, client, request->tag, run, command, err);
    return command_start(sandbox, client, request->tag, run, command, run->flags & CTL_RUN_STDIN ? frame->fds[0] : -1, err);
}

static int handle_run(struct client *client, struct ctl_request *request, struct frame *frame)
{
    struct err err = ERR_NONE;
    struct ctl_command command;
    int r = ctl_run_map_strings(&request->run, frame);

    if (r < 0)
        return r;
    autofree const char **room = xalloc(((size_t) request->run.argc + request->run.envc + 2) * sizeof(*room));
    ctl_run_command(&request->run, room, &command);
    r = run_find_tag(client->sandbox, client, request->tag) ? err_invalid(&err, "the tag is in use")
                                                            : run_command(client, request, &command, frame, &err);
    if (r < 0)
        client_error(client, request->tag, &err);
    ctl_run_unmap_strings(&request->run);
    return 0;
}

static void handle_attach(struct client *client, const struct ctl_request *request)
{
    struct run *run = run_find_name(client->sandbox, request->attach.name);
    struct err err = ERR_NONE;
    bool is_free = run && !run->client && run->is_detached;

    if (is_free && !run_find_tag(client->sandbox, client, request->tag)) {
        run_attach(run, client, request->tag);
        return;
    }
    if (is_free)
        err_invalid(&err, "the tag is in use");
    else if (run)
        err_set(&err, ERR_FAILED_PRECONDITION, -EBUSY, "another client listens to '%s'", request->attach.name);
    else
        err_set(&err, ERR_NOT_FOUND, -ENOENT, "there is no command '%s'", request->attach.name);
    client_error(client, request->tag, &err);
}

static void handle_session_close(struct client *client, const struct ctl_request *request)
{
    struct err err = ERR_NONE;

    if (shell_close(client->sandbox, request->session_close.name, &err) < 0)
        client_error(client, request->tag, &err);
    else
        reply_ok(client, request->tag);
}

static void handle_kill(struct client *client, const struct ctl_request *request)
{
    struct run *run = run_find_tag(client->sandbox, client, request->tag);

    if (run)
        run->ops->kill(run, request->kill.signal, request->kill.scope);
}

/* Input for a run that has ended is ignored, because its FINISHED is on the way. A client violates the protocol if it sends
 * input to a run without a terminal, or before its last input was acknowledged. */
static int handle_input(struct client *client, const struct ctl_request *request)
{
    struct run *run = run_find_tag(client->sandbox, client, request->tag);

    if (!run || run->phase >= RUN_ENDED)
        return 0;
    return run->ops->input ? run->ops->input(run, request->input.bytes, request->input.len) : -EPROTO;
}

static void handle_resize(struct client *client, const struct ctl_request *request)
{
    struct run *run = run_find_tag(client->sandbox, client, request->tag);

    /* Without the operation, the client holds the terminal's master and sets the size itself. */
    if (run && run->ops->resize)
        run->ops->resize(run, request->resize.rows, request->resize.cols);
}

static void handle_end(struct client *client, const struct ctl_request *request)
{
    struct err err = ERR_NONE;

    if (process_end(client->sandbox, client, request->tag, request->end.name, request->end.grace_ms, &err) < 0)
        client_error(client, request->tag, &err);
}

static int read_rules(int fd, struct buf *out)
{
    struct stat st;

    /* Only a regular file, such as a memory file, cannot block us. */
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || lseek(fd, 0, SEEK_SET) < 0)
        return -EINVAL;
    return fd_read_all(fd, SANDBOX_SPEC_BYTES_MAX, out);
}

static void handle_rules(struct client *client, const struct ctl_request *request, struct frame *frame)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    struct err err = ERR_NONE;
    int r = read_rules(frame->fds[0], &bytes);

    /* Setting rules would wait for the fence's gate in the thread that must read the RELEASE. */
    if (sandbox_quiesce_is_active(client->sandbox))
        r = err_set(&err, ERR_UNAVAILABLE, -EBUSY, "the sandbox's files are held still: try again");
    else if (r < 0)
        err_errno(&err, r, "reading the new rules");
    else
        r = sandbox_set_rules(client->sandbox, bytes.data, bytes.len, &err);
    if (r < 0)
        client_error(client, request->tag, &err);
    else
        reply_ok(client, request->tag);
}

static void handle_status(struct client *client, const struct ctl_request *request)
{
    struct ctl_reply reply = { .type = CTL_REPLY_STATUS, .tag = request->tag };

    sandbox_get_status(client->sandbox, &reply.status);
    client_reply(client, &reply, -1);
}

static void handle_watch(struct client *client, const struct ctl_request *request)
{
    client->watches = true;
    client->watch_tag = request->tag;
    client->watched = request->watch.after;
    reply_ok(client, request->tag);
    client_send_events(client);
}

int request_handle(struct client *client, struct frame *frame)
{
    struct ctl_request request;
    int r = ctl_request_decode(frame, &request);

    if (r < 0)
        return r;
    switch (request.type) {
    case CTL_REQUEST_EXEC:
    case CTL_REQUEST_SESSION_OPEN:
    case CTL_REQUEST_SESSION_EXEC:
        return handle_run(client, &request, frame);
    case CTL_REQUEST_SESSION_CLOSE:
        handle_session_close(client, &request);
        return 0;
    case CTL_REQUEST_ATTACH:
        handle_attach(client, &request);
        return 0;
    case CTL_REQUEST_KILL:
        handle_kill(client, &request);
        return 0;
    case CTL_REQUEST_RESIZE:
        handle_resize(client, &request);
        return 0;
    case CTL_REQUEST_INPUT:
        return handle_input(client, &request);
    case CTL_REQUEST_END:
        handle_end(client, &request);
        return 0;
    case CTL_REQUEST_SET_RULES:
        handle_rules(client, &request, frame);
        return 0;
    case CTL_REQUEST_STATUS:
        handle_status(client, &request);
        return 0;
    case CTL_REQUEST_SYNC:
    case CTL_REQUEST_BASE_CHANGED:
        sync_request(client->sandbox, client, &request);
        return 0;
    case CTL_REQUEST_QUIESCE:
    case CTL_REQUEST_REVERT:
    case CTL_REQUEST_RELEASE:
        sandbox_quiesce_request(client->sandbox, client, &request, frame);
        return 0;
    case CTL_REQUEST_FILE:
        file_ops_request(client->sandbox, client, &request, frame);
        return 0;
    case CTL_REQUEST_WATCH:
        handle_watch(client, &request);
        return 0;
    case CTL_REQUEST_STOP:
        sandbox_stop(client->sandbox, request.stop.grace_ms);
        return 0;
    }
    return -EPROTO;
}
