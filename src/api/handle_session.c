#include <errno.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/sessions.h"

int handle_create_session(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CreateSessionRequest *in = message;
    autodone(pair_list) struct pair_list env = PAIR_LIST_EMPTY;
    autodone(session_info) struct session_info info = { 0 };
    struct session_request wanted = { .env = &env };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = take_duration(in->idle_timeout, "idle_timeout", &wanted.idle_ns, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < in->n_env; i++)
        pair_list_add(&env, in->env[i]->key, in->env[i]->value);
    wanted.sandbox_id = in->sandbox_id;
    wanted.shell = in->shell;
    wanted.workdir = in->workdir;
    r = sessions_create(request->service, &request->caller, &wanted, &info, err);
    if (r >= 0)
        *ret = &make_session(&info)->base;
    return r;
}

int handle_get_session(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__GetSessionRequest *in = message;
    autodone(session_info) struct session_info info = { 0 };
    int r = request_need(in->session_id, "session_id", err);

    if (r == 0)
        r = sessions_get(request->service, &request->caller, in->session_id, &info, err);
    if (r >= 0)
        *ret = &make_session(&info)->base;
    return r;
}

int handle_list_sessions(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListSessionsRequest *in = message;
    autodone(session_list) struct session_list sessions = { 0 };
    int r = request_need(in->sandbox_id, "sandbox_id", err);

    if (r == 0)
        r = sessions_list(request->service, &request->caller, in->sandbox_id, &sessions, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListSessionsResponse *out = message_new(&sandbox__v1__list_sessions_response__descriptor);
    out->sessions = sessions.count > 0 ? xalloc(sessions.count * sizeof(*out->sessions)) : NULL;
    for (size_t i = 0; i < sessions.count; i++)
        out->sessions[out->n_sessions++] = make_session(&sessions.items[i]);
    *ret = &out->base;
    return 0;
}

int handle_destroy_session(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__DestroySessionRequest *in = message;
    int r = request_need(in->session_id, "session_id", err);

    if (r == 0)
        r = sessions_destroy(request->service, &request->caller, in->session_id, err);
    if (r >= 0)
        *ret = make_empty();
    return r;
}
