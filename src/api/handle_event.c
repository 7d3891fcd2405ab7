#include <errno.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/events.h"
#include "service/sandboxes.h"

int handle_list_events(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListEventsRequest *in = message;
    autodone(event_page) struct event_page page = { 0 };
    struct event_query filter = { 0 };
    char id[SANDBOX_ID_MAX] = "";
    int r = 0;

    /* Events outlive their sandbox, so an id that is written whole is not looked up. */
    if (*in->sandbox_id && sandbox_id_parse(in->sandbox_id, id) < 0)
        r = sandboxes_find(request->service, &request->caller, in->sandbox_id, id, err);
    if (r < 0)
        return r;
    filter.page_size = take_page_size(in->page_size);
    filter.sandbox_id = id;
    filter.codebase_id = in->codebase_id;
    filter.type = in->type;
    filter.page_token = in->page_token;
    filter.newest_first = in->newest_first;
    if (in->since && in->since->seconds > 0 && in->since->seconds < INT64_MAX / CLOCK_NS_PER_SEC)
        filter.since_ns = in->since->seconds * CLOCK_NS_PER_SEC + in->since->nanos;
    r = events_list(request->service, &request->caller, &filter, &page, err);
    if (r < 0)
        return r;
    Sandbox__V1__ListEventsResponse *out = message_new(&sandbox__v1__list_events_response__descriptor);
    out->events = page.count > 0 ? xalloc(page.count * sizeof(*out->events)) : NULL;
    for (size_t i = 0; i < page.count; i++)
        out->events[out->n_events++] = make_event(&page.items[i]);
    out->next_page_token = xdup(page.next_token);
    *ret = &out->base;
    return 0;
}
