/* Paths of the host that sandboxes have reserved. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/handlers.h"
#include "api/request.h"
#include "base/mem.h"
#include "service/reservations.h"
#include <sandbox/v1/reservation.pb-c.h>

#define CONFLICTS_MAX 100

static Sandbox__V1__Reservation *make_reservation(const struct reservation *from)
{
    Sandbox__V1__Reservation *out = message_new(&sandbox__v1__reservation__descriptor);

    out->path = make_string(from->path);
    out->sandbox_id = make_string(from->id);
    out->name = make_string(from->name);
    out->directory = make_string(from->directory);
    out->creator = make_string(from->creator);
    out->status = make_sandbox_status(from->status);
    return out;
}

/* Sorted by path. A token is the last path of its page; no two reservations have the same path. */
int handle_list_reservations(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__ListReservationsRequest *in = message;
    autodone(reservation_list) struct reservation_list list = { 0 };
    size_t max = take_bounded_page_size(in->page_size), at = 0;
    autofree char *after = NULL;
    int r = *in->page_token ? take_page_token(in->page_token, &after, err) : 0;

    if (r == 0)
        r = reservations_list(request->service, &request->caller, in->path, &list, err);
    if (r < 0)
        return r;
    while (after && at < list.count && strcmp(list.items[at].path, after) <= 0)
        at++;
    Sandbox__V1__ListReservationsResponse *out = message_new(&sandbox__v1__list_reservations_response__descriptor);
    out->reservations = xalloc((max + 1) * sizeof(*out->reservations));
    for (; at < list.count && out->n_reservations < max; at++)
        out->reservations[out->n_reservations++] = make_reservation(&list.items[at]);
    if (at < list.count)
        out->next_page_token = make_page_token(list.items[at - 1].path);
    *ret = &out->base;
    return 0;
}

/* Whether the answer should report the error: it is a refusal and not a failure of the server. */
static bool reservation_is_refused(const struct err *err)
{
    return err->code == ERR_INVALID_ARGUMENT || err->code == ERR_FAILED_PRECONDITION || err->code == ERR_PERMISSION_DENIED ||
           err->code == ERR_NOT_FOUND;
}

int handle_check_reservation(const struct request *request, const void *message, ProtobufCMessage **ret, struct err *err)
{
    const Sandbox__V1__CheckReservationRequest *in = message;
    autodone(reservation_check) struct reservation_check check = RESERVATION_CHECK_NONE;
    const struct sandbox_conflicts *conflicts = &check.room.conflicts;
    autofree const char **reserved = xalloc((in->n_reserved_paths + 1) * sizeof(*reserved));
    struct sandbox_scope_request wish = {
        .project_root = in->project_root, .scope_path = in->directory, .reserved = reserved, .no_lock = in->no_lock
    };
    struct err why = ERR_NONE;
    int r = request_need(in->directory, "directory", err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < in->n_reserved_paths; i++)
        reserved[i] = in->reserved_paths[i];
    reserved[in->n_reserved_paths] = NULL;
    r = reservations_check(request->service, &request->caller, &wish, &check, &why);
    if (r < 0 && !reservation_is_refused(&why)) {
        *err = why;
        return r;
    }
    /* Only callers who see the other sandbox may learn its id. */
    autofree char *reserved_by =
        conflicts->count > 0 ? xprintf("'%s' is reserved by another sandbox", conflicts->items[0].wanted) : NULL;
    Sandbox__V1__CheckReservationResponse *out = message_new(&sandbox__v1__check_reservation_response__descriptor);
    out->available = r == 0;
    out->reason = make_string(why.reason);
    out->error = make_string(reserved_by ? reserved_by : why.text);
    out->directory = make_string(check.scope.scope_path);
    out->project_root = make_string(check.scope.project_root);
    while (check.scope.reserved_paths && check.scope.reserved_paths[out->n_reserved_paths])
        out->n_reserved_paths++;
    out->reserved_paths = make_texts(check.scope.reserved_paths, out->n_reserved_paths);
    out->total_conflicts = (int32_t) conflicts->count;
    out->conflicts = xalloc((conflicts->count + 1) * sizeof(*out->conflicts));
    for (size_t i = 0; i < conflicts->count && i < CONFLICTS_MAX; i++)
        out->conflicts[out->n_conflicts++] = make_reserved(request, &conflicts->items[i]);
    *ret = &out->base;
    return 0;
}
