#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "service/row_info.h"
#include "service/sandbox_index.h"
#include "service/sandboxes.h"
#include "service/service_int.h"

int refuse_sandbox(struct err *err)
{
    return err_set_reason(err, err_set(err, ERR_NOT_FOUND, -ENOENT, "sandbox not found"), "SANDBOX_NOT_FOUND");
}

int refuse_not_running(struct err *err)
{
    return err_set_reason(err, err_set(err, ERR_FAILED_PRECONDITION, -ENOTCONN, "sandbox is not running"),
                          "SANDBOX_NOT_RUNNING");
}

int service_find_sandbox(struct service *service, const struct caller *caller, const char *text, struct sandbox_row *ret,
                         struct err *err)
{
    const char *owner = caller->is_admin ? NULL : caller->owner;
    char id[SANDBOX_ID_MAX];
    int r;

    sandbox_index_refresh(service);
    r = sandbox_id_parse(text, id) == 0 ? sandbox_row_get(service->store, id, ret, err)
                                        : sandbox_row_find(service->store, owner, text, ret, err);

    if (r == 0 && !caller_sees(caller, ret->owner_id)) {
        sandbox_row_done(ret);
        r = -ENOENT;
    }
    return r == -ENOENT ? refuse_sandbox(err) : r;
}

int sandboxes_find(struct service *service, const struct caller *caller, const char *text, char ret_id[SANDBOX_ID_MAX],
                   struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_find_sandbox(service, caller, text, &row, err);

    if (r == 0)
        snprintf(ret_id, SANDBOX_ID_MAX, "%s", row.id);
    return r;
}

int service_get_sandbox(struct service *service, const struct caller *caller, const char *id, struct sandbox_row *ret,
                        struct err *err)
{
    int r = service_find_sandbox(service, caller, id, ret, err);

    if (r < 0 || ret->status != SANDBOX_STATUS_DELETED)
        return r;
    sandbox_row_done(ret);
    return refuse_sandbox(err);
}

int service_each_sandbox(struct service *service, const struct sandbox_filter *filter, service_sandbox_fn fn, void *cookie,
                         struct err *err)
{
    autofree char *token = NULL;

    do {
        struct store_page page = { .limit = STORE_PAGE_MAX, .token = token };
        autodone(sandbox_rows) struct sandbox_rows rows = { 0 };
        int r = sandbox_row_list(service->store, filter, &page, &rows, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < rows.count; i++)
            fn(service, &rows.rows[i], cookie);
        free(token);
        token = steal_ptr(&rows.next_token);
    } while (token);
    return 0;
}

int service_find_own_sandbox(struct service *service, const struct caller *caller, const char *id, struct sandbox_row *ret,
                             struct err *err)
{
    int r = service_find_sandbox(service, caller, id, ret, err);

    if (r < 0 || strcmp(ret->host_id, service->host_id) == 0)
        return r;
    sandbox_row_done(ret);
    return err_set_reason(err, err_set(err, ERR_FAILED_PRECONDITION, -EREMOTE, "sandbox '%s' lives on another host", id),
                          "OTHER_HOST");
}

static void show_broken(struct sandbox_row *row, const char *reason)
{
    if (row->status != SANDBOX_STATUS_RUNNING && row->status != SANDBOX_STATUS_STOPPING)
        row->status = SANDBOX_STATUS_ERROR;
    free(row->reason);
    row->reason = xdup(reason);
}

/* Shows in a row what the store does not know: the current step of a start, missing or damaged files, unreadable rules. Returns no error,
 * because one sandbox's error would hide the whole list. */
static void show_fact(struct service *service, struct sandbox_row *row)
{
    autofree char *step = row->status == SANDBOX_STATUS_STARTING ? sandbox_conn_dup_step(&service->conns, row->id) : NULL;
    bool is_at_rest = row->status == SANDBOX_STATUS_PENDING || row->status == SANDBOX_STATUS_STOPPED;
    autodone(rule_list) struct rule_list rules = RULE_LIST_EMPTY;
    autodone(sandbox_row) struct sandbox_row now = { 0 };
    struct err err = ERR_NONE, ignored = ERR_NONE;

    if (step) {
        free(row->reason);
        row->reason = steal_ptr(&step);
    }
    if (rules_decode(&row->rules, &rules, &err) < 0) {
        err_wrap(&err, -EBADMSG, "rules of '%s'", row->id);
        buf_done(&row->rules);
        row->rules = BUF_EMPTY;
        show_broken(row, err.text);
        return;
    }
    if (!is_at_rest || strcmp(row->host_id, service->host_id) != 0 || sandbox_index_check(service, row->id, &err) == 0)
        return;
    /* The files are also missing if the sandbox was removed after the row was read. */
    if (sandbox_row_get(service->store, row->id, &now, &ignored) == 0 && now.status == row->status)
        show_broken(row, err.text);
}

void sandbox_info_done(struct sandbox_info *info)
{
    sandbox_row_done(&info->row);
    rule_warnings_done(&info->warnings);
}

int sandboxes_get(struct service *service, const struct caller *caller, const char *id, bool with_deleted,
                  struct sandbox_info *ret, struct err *err)
{
    int r = with_deleted ? service_find_sandbox(service, caller, id, &ret->row, err)
                         : service_get_sandbox(service, caller, id, &ret->row, err);

    if (r < 0)
        return r;
    if (ret->row.status == SANDBOX_STATUS_RUNNING && strcmp(ret->row.host_id, service->host_id) == 0)
        limit_report_find(&service->state_dir, ret->row.id, &ret->held);
    show_fact(service, &ret->row);
    return 0;
}

int sandboxes_list(struct service *service, const struct caller *caller, struct sandbox_filter filter,
                   const struct store_page *page, struct sandbox_rows *ret, struct err *err)
{
    int r;

    if (!caller->is_admin && filter.owner_id && strcmp(filter.owner_id, caller->owner) != 0)
        return err_set(err, ERR_PERMISSION_DENIED, -EPERM, "only administrators list the sandboxes of other owners");
    if (!caller->is_admin)
        filter.owner_id = caller->owner;
    sandbox_index_refresh(service);
    r = sandbox_row_list(service->store, &filter, page, ret, err);
    for (size_t i = 0; r == 0 && i < ret->count; i++)
        show_fact(service, &ret->rows[i]);
    return r;
}
