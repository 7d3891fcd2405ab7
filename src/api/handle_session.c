#include <errno.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/sessions.h"

static int create(struct call *call, void *cookie, struct err *err)
{
    autorequest request = NULL;
    autodone(pair_list) struct pair_list env = PAIR_LIST_EMPTY;
    autodone(session_info) struct session_info info = { 0 };
    struct session_request wanted = { .env = &env };
    struct caller caller;
    int r = request_take(call, cookie, &request, &caller, err);

    if (r < 0)
        return r;
    const Sandbox__V1__CreateSessionRequest *in = (void *) request;
    r = request_need(in->sandbox_id, "sandbox_id", err);
    if (r == 0)
        r = take_duration(in->idle_timeout, "idle_timeout", &wanted.idle_ns, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < in->n_env; i++)
        pair_list_add(&env, in->env[i]->key, in->env[i]->value);
    wanted.sandbox_id = in->sandbox_id;
    wanted.shell = in->shell;
    wanted.workdir = in->workdir;
    r = sessions_create(service_of(cookie), &caller, &wanted, &info, err);
    return r < 0 ? r : answer_send(call, &make_session(&info)->base, err);
}

int handle_create_session(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, create(call, cookie, err), err);
}

static int get(struct call *call, void *cookie, struct err *err)
{
    autorequest request = NULL;
    autodone(session_info) struct session_info info = { 0 };
    struct caller caller;
    int r = request_take(call, cookie, &request, &caller, err);

    if (r < 0)
        return r;
    const Sandbox__V1__GetSessionRequest *in = (void *) request;
    r = request_need(in->session_id, "session_id", err);
    if (r == 0)
        r = sessions_get(service_of(cookie), &caller, in->session_id, &info, err);
    return r < 0 ? r : answer_send(call, &make_session(&info)->base, err);
}

int handle_get_session(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, get(call, cookie, err), err);
}

static int list(struct call *call, void *cookie, struct err *err)
{
    autorequest request = NULL;
    autodone(session_list) struct session_list sessions = { 0 };
    struct caller caller;
    int r = request_take(call, cookie, &request, &caller, err);

    if (r < 0)
        return r;
    const Sandbox__V1__ListSessionsRequest *in = (void *) request;
    r = request_need(in->sandbox_id, "sandbox_id", err);
    if (r == 0)
        r = sessions_list(service_of(cookie), &caller, in->sandbox_id, &sessions, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListSessionsResponse *out = xnew(Sandbox__V1__ListSessionsResponse);
    sandbox__v1__list_sessions_response__init(out);
    out->sessions = sessions.count > 0 ? xalloc(sessions.count * sizeof(*out->sessions)) : NULL;
    for (size_t i = 0; i < sessions.count; i++)
        out->sessions[out->n_sessions++] = make_session(&sessions.items[i]);
    return answer_send(call, &out->base, err);
}

int handle_list_sessions(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, list(call, cookie, err), err);
}

static int destroy(struct call *call, void *cookie, struct err *err)
{
    autorequest request = NULL;
    struct caller caller;
    int r = request_take(call, cookie, &request, &caller, err);

    if (r < 0)
        return r;
    const Sandbox__V1__DestroySessionRequest *in = (void *) request;
    r = request_need(in->session_id, "session_id", err);
    if (r == 0)
        r = sessions_destroy(service_of(cookie), &caller, in->session_id, err);
    if (r < 0)
        return r;
    Sandbox__V1__Empty *empty = xnew(Sandbox__V1__Empty);
    sandbox__v1__empty__init(empty);
    return answer_send(call, &empty->base, err);
}

int handle_destroy_session(struct call *call, void *cookie, struct err *err)
{
    return request_end(call, destroy(call, cookie, err), err);
}
