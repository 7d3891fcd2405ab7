#include "supervisor/request.h"

#include <errno.h>
#include <signal.h>
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

static int request_start(struct client *client, const struct ctl_request *request, const struct ctl_command *command,
                         struct frame *frame, struct err *err)
{
    struct sandbox *sandbox = client->sandbox;
    const struct ctl_run *run = &request->run;

    if (run_find_tag(sandbox, client, request->tag))
        return err_invalid(err, "the tag is in use");
    if (sandbox->state != CTL_STATE_RUNNING)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "the sandbox is %s, not running", ctl_state_name(sandbox->state));
    if (request->type == CTL_REQUEST_SESSION_OPEN)
        return shell_open(sandbox, client, request->tag, run, command, err);
    if (request->type == CTL_REQUEST_SESSION_EXEC)
        return shell_run(sandbox, client, request->tag, run, command, err);
    return command_start(sandbox, client, request->tag, run, command, run->flags & CTL_RUN_STDIN ? frame->fds[0] : -1, err);
}

static int handle_run(struct client *client, struct ctl_request *request, struct frame *frame, struct err *err)
{
    struct ctl_command command;
    int r = ctl_run_map_strings(&request->run, frame);

    if (r < 0)
        return r;
    autofree const char **room = xalloc(((size_t) request->run.argc + request->run.envc + 2) * sizeof(*room));
    ctl_run_command(&request->run, room, &command);
    r = request_start(client, request, &command, frame, err);
    ctl_run_unmap_strings(&request->run);
    return r;
}

static int handle_attach(struct client *client, const struct ctl_request *request, struct err *err)
{
    struct run *run = run_find_name(client->sandbox, request->attach.name);

    if (!run)
        return err_set(err, ERR_NOT_FOUND, -ENOENT, "there is no command '%s'", request->attach.name);
    if (run->client || !run->is_detached)
        return err_set(err, ERR_FAILED_PRECONDITION, -EBUSY, "another client listens to '%s'", request->attach.name);
    if (run_find_tag(client->sandbox, client, request->tag))
        return err_invalid(err, "the tag is in use");
    run_attach(run, client, request->tag);
    return 0;
}

/* KILL, INPUT and RESIZE. A run that has ended meanwhile is ignored, because its FINISHED is on the way. A client violates the protocol
 * if it sends input to a run without a terminal, or before its last input was acknowledged. */
static int handle_for_run(struct client *client, const struct ctl_request *request)
{
    struct run *run = run_find_tag(client->sandbox, client, request->tag);

    if (!run)
        return 0;
    if (request->type == CTL_REQUEST_KILL) {
        run->ops->kill(run, request->kill.signal, request->kill.scope);
    } else if (request->type == CTL_REQUEST_INPUT) {
        if (run->phase < RUN_ENDED)
            return run->ops->input ? run->ops->input(run, request->input.bytes, request->input.len) : -EPROTO;
    } else if (run->ops->resize) {
        /* Without the operation, the client holds the terminal's master and sets the size itself. */
        run->ops->resize(run, request->resize.rows, request->resize.cols);
    }
    return 0;
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

static int handle_rules(struct client *client, const struct frame *frame, struct err *err)
{
    autodone(buf) struct buf bytes = BUF_EMPTY;
    int r = read_rules(frame->fds[0], &bytes);

    /* Setting rules would wait for the fence's gate in the thread that must read the RELEASE. */
    if (sandbox_quiesce_is_active(client->sandbox))
        return err_set(err, ERR_UNAVAILABLE, -EBUSY, "the sandbox's files are held still: try again");
    return r < 0 ? err_errno(err, r, "reading the new rules") : sandbox_set_rules(client->sandbox, bytes.data, bytes.len, err);
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
    client_ok(client, request->tag);
    client_send_events(client);
}

static int reply_ok_if_done(int r, struct client *client, const struct ctl_request *request)
{
    if (r == 0)
        client_ok(client, request->tag);
    return r;
}

/* Sets `err` for a valid request that fails. */
static int request_execute(struct client *client, struct ctl_request *request, struct frame *frame, struct err *err)
{
    struct sandbox *sandbox = client->sandbox;

    switch (request->type) {
    case CTL_REQUEST_EXEC:
    case CTL_REQUEST_SESSION_OPEN:
    case CTL_REQUEST_SESSION_EXEC:
        return handle_run(client, request, frame, err);
    case CTL_REQUEST_SESSION_CLOSE:
        return reply_ok_if_done(shell_close(sandbox, request->session_close.name, err), client, request);
    case CTL_REQUEST_ATTACH:
        return handle_attach(client, request, err);
    case CTL_REQUEST_KILL:
    case CTL_REQUEST_RESIZE:
    case CTL_REQUEST_INPUT:
        return handle_for_run(client, request);
    case CTL_REQUEST_END:
        return process_end(sandbox, client, request->tag, request->end.name, request->end.grace_ms, err);
    case CTL_REQUEST_SET_RULES:
        return reply_ok_if_done(handle_rules(client, frame, err), client, request);
    case CTL_REQUEST_STATUS:
        handle_status(client, request);
        return 0;
    case CTL_REQUEST_SYNC:
    case CTL_REQUEST_BASE_CHANGED:
        sync_request(sandbox, client, request);
        return 0;
    case CTL_REQUEST_QUIESCE:
    case CTL_REQUEST_REVERT:
    case CTL_REQUEST_RELEASE:
        return sandbox_quiesce_request(sandbox, client, request, frame, err);
    case CTL_REQUEST_FILE:
        file_ops_request(sandbox, client, request, frame);
        return 0;
    case CTL_REQUEST_WATCH:
        handle_watch(client, request);
        return 0;
    case CTL_REQUEST_STOP:
        sandbox_stop(sandbox, request->stop.grace_ms);
        return 0;
    }
    return -EPROTO;
}

int request_handle(struct client *client, struct frame *frame)
{
    struct ctl_request request;
    struct err err = ERR_NONE;
    int r = ctl_request_decode(frame, &request);

    if (r == 0)
        r = request_execute(client, &request, frame, &err);
    if (err.code == ERR_OK)
        return r;
    client_error(client, request.tag, &err);
    return 0;
}
