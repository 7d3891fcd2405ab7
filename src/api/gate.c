#include "api/gate.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "service/tokens.h"

static bool is_allowed(const struct api *api, uid_t uid)
{
    for (size_t i = 0; i < api->allowed_uid_count; i++) {
        if (api->allowed_uids[i] == uid)
            return true;
    }
    return false;
}

static int pass_by_token(const struct api *api, struct call *call, const char *header, struct err *err)
{
    static const char scheme[] = "Bearer ";
    struct token_info info = { 0 };
    int r;

    if (strncasecmp(header, scheme, strlen(scheme)) != 0)
        return err_set(err, ERR_UNAUTHENTICATED, -EACCES, "authorization must be 'Bearer TOKEN'");
    r = tokens_check(api->service, header + strlen(scheme) + strspn(header + strlen(scheme), " "), &info, err);
    if (r < 0)
        return r;
    call->owner = steal_ptr(&info.owner);
    call->is_admin = info.is_admin;
    /* An administrator's token without directories allows all of them. */
    if (!info.is_admin || info.allowed_roots[0])
        call->allowed_roots = steal_ptr(&info.allowed_roots);
    token_info_done(&info);
    return 0;
}

int gate_pass(const struct api *api, struct call *call, struct err *err)
{
    const char *header = call_header(call, "authorization");
    uid_t uid;

    if (header)
        return pass_by_token(api, call, header, err);
    if (api->needs_token || call->peer->kind == PEER_REMOTE)
        return err_set(err, ERR_UNAUTHENTICATED, -EACCES,
                       "a token is needed: 'agentfense token create' makes one, to be sent as 'authorization: Bearer TOKEN'");
    /* Only browsers send these headers. A page's request is not the user's request, whoever served the page. */
    if (call_header(call, "origin") || call_header(call, "sec-fetch-site"))
        return err_set(err, ERR_UNAUTHENTICATED, -EACCES, "a token is needed: requests of web pages are not taken without one");
    if (peer_uid(call->peer, &uid) < 0)
        return err_set(err, ERR_UNAUTHENTICATED, -EACCES,
                       "the user at the other end of the connection cannot be told; use a token");
    if (!is_allowed(api, uid))
        return err_set(err, ERR_UNAUTHENTICATED, -EACCES, "user %u may not call this server without a token", (unsigned) uid);
    int r = peer_check_process(call->peer, err);
    if (r < 0)
        return r;
    call->owner = xdup("");
    call->is_admin = true;
    return 0;
}
