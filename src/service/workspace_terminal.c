#include "service/workspace_terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "service/workspace_run_int.h"
#include "service/workspaces.h"
#include "wire/ctl_client.h"

#define TAG PREPARED_TAG
#define SEND_MS 10000

_Static_assert(WORKSPACE_TERMINAL_TYPE_MAX == CTL_INPUT_MAX, "what may be typed at once");

struct workspace_terminal {
    int fd; /* owned: a connection of its own */
    char name[CTL_NAME_MAX];
    struct ctl_reply reply; /* the last, which borrows from `payload` */
    char payload[FRAME_PAYLOAD_MAX];
};

int workspace_check_active(struct service *service, const struct caller *caller, const char *id, struct err *err)
{
    autoptr(ward) ward = NULL;

    return workspaces_find_ward(service, caller, id, &ward, err);
}

void workspace_terminal_close(struct workspace_terminal *terminal)
{
    if (!terminal)
        return;
    cleanup_fd(&terminal->fd);
    free(terminal);
}

static int make(struct service *service, const struct caller *caller, const char *id, struct ward **ret_ward,
                struct workspace_terminal **ret, struct err *err)
{
    autoptr(workspace_terminal) terminal = malloc(sizeof(*terminal));
    autoptr(ward) ward = NULL;
    int r;

    if (!terminal)
        return err_errno(err, -ENOMEM, "making a terminal");
    terminal->fd = -1;
    r = workspaces_find_ward(service, caller, id, &ward, err);
    if (r == 0)
        r = ward_take_fd(ward, &terminal->fd, err);
    if (r < 0)
        return r;
    *ret_ward = steal_ptr(&ward);
    *ret = steal_ptr(&terminal);
    return 0;
}

int workspace_terminal_open(struct service *service, const struct caller *caller, const char *id,
                            const struct workspace_command *command, struct workspace_terminal **ret, struct err *err)
{
    autodone(prepared) struct prepared prepared = { 0 };
    autoptr(workspace_terminal) terminal = NULL;
    autoptr(ward) ward = NULL;
    int r = make(service, caller, id, &ward, &terminal, err);

    if (r == 0)
        r = prepared_make(service, ward, command, &prepared, err);
    if (r == 0)
        r = prepared_start(terminal->fd, &prepared, command, CTL_RUN_TTY, terminal->name, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&terminal);
    return 0;
}

static int send_request(struct workspace_terminal *terminal, const struct ctl_request *request, struct err *err)
{
    char payload[CTL_PROTO_SMALL_MAX];
    struct frame frame;
    int r = ctl_request_encode(request, payload, sizeof(payload), &frame);

    return r < 0 ? err_errno(err, r, "asking the sandbox") : ctl_client_send(terminal->fd, &frame, SEND_MS, err);
}

int workspace_terminal_attach(struct service *service, const struct caller *caller, const char *id, const char *which,
                              struct workspace_terminal **ret, struct err *err)
{
    struct ctl_request request = { .type = CTL_REQUEST_ATTACH, .tag = TAG };
    autodone(process_info) struct process_info info = { 0 };
    autoptr(workspace_terminal) terminal = NULL;
    autoptr(ward) ward = NULL;
    int r = workspace_process_find(service, caller, id, which, &info, err);

    if (r < 0)
        return r;
    if (!info.record.is_tty || !info.is_running)
        return err_set(err, ERR_FAILED_PRECONDITION, -ENOTTY, "process '%s' %s", info.record.name,
                       info.record.is_tty ? "has ended" : "has no terminal");
    r = make(service, caller, id, &ward, &terminal, err);
    if (r < 0)
        return r;
    memcpy(request.attach.name, info.record.name, sizeof(info.record.name));
    r = send_request(terminal, &request, err);
    if (r == 0)
        r = prepared_await(terminal->fd, terminal->payload, terminal->name, err);
    if (r < 0)
        return r;
    *ret = steal_ptr(&terminal);
    return 0;
}

const char *workspace_terminal_name(const struct workspace_terminal *terminal)
{
    return terminal->name;
}

int workspace_terminal_fd(const struct workspace_terminal *terminal)
{
    return terminal->fd;
}

static int take(struct workspace_terminal *terminal, struct terminal_news *ret, struct err *err)
{
    const struct ctl_reply *reply = &terminal->reply;

    if (reply->tag != TAG)
        return 0;
    switch (reply->type) {
    case CTL_REPLY_OUTPUT:
        *ret = (struct terminal_news){ .kind = TERMINAL_OUTPUT, .bytes = reply->output.bytes, .len = reply->output.len };
        return 0;
    case CTL_REPLY_OK:
        ret->kind = TERMINAL_TAKEN;
        return 0;
    case CTL_REPLY_FINISHED:
        ret->kind = TERMINAL_ENDED;
        ret->exit_code = reply->finished.end == CTL_END_LOST ? -1 : exec_exit_code(&reply->finished);
        ret->text = reply->finished.text;
        return 0;
    case CTL_REPLY_ERROR:
        return err_set(err, reply->error.code, -EREMOTEIO, "%s", reply->error.text);
    default:
        return 0;
    }
}

int workspace_terminal_receive(struct workspace_terminal *terminal, struct terminal_news *ret, struct err *err)
{
    struct frame frame = { 0 };
    int r = frame_receive(terminal->fd, terminal->payload, FRAME_PAYLOAD_MAX, FRAME_NOWAIT, &frame);

    *ret = (struct terminal_news){ .kind = TERMINAL_NOTHING };
    if (r == -EAGAIN)
        return 0;
    if (r == 0)
        r = ctl_reply_decode(&frame, &terminal->reply);
    frame_close_fds(&frame);
    return r < 0 ? err_set(err, ERR_UNAVAILABLE, r, "the sandbox has ended") : take(terminal, ret, err);
}

int workspace_terminal_type(struct workspace_terminal *terminal, const void *bytes, size_t len, struct err *err)
{
    return send_request(
        terminal, &(struct ctl_request){ .type = CTL_REQUEST_INPUT, .tag = TAG, .input = { .bytes = bytes, .len = len } }, err);
}

int workspace_terminal_resize(struct workspace_terminal *terminal, uint16_t rows, uint16_t cols, struct err *err)
{
    return send_request(
        terminal, &(struct ctl_request){ .type = CTL_REQUEST_RESIZE, .tag = TAG, .resize = { .rows = rows, .cols = cols } },
        err);
}
