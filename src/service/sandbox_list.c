#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "service/row_info.h"
#include "service/sandboxes.h"
#include "service/service_int.h"

#define PAGE_DEFAULT 100

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
    int r = sandbox_id_parse(text, id) == 0 ? sandbox_row_get(service->store, id, ret, err)
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

static void set_broken(struct sandbox_info *info, const char *reason)
{
    if (info->phase != SANDBOX_RUNNING)
        info->phase = SANDBOX_ERROR;
    free(info->reason);
    info->reason = xdup(reason);
}

/* Files that are gone or damaged are shown before somebody tries to start it. */
static void check_files(struct service *service, const struct sandbox_row *row, struct sandbox_info *info)
{
    autodone(sandbox_row) struct sandbox_row now = { 0 };
    struct err err = ERR_NONE, ignored = ERR_NONE;
    bool is_at_rest = row->status == SANDBOX_STATUS_PENDING || row->status == SANDBOX_STATUS_STOPPED;

    if (!is_at_rest || strcmp(row->host_id, service->host_id) != 0 || state_dir_check(&service->state_dir, row->id, &err) == 0)
        return;
    /* Or it was removed since the row was read. */
    if (sandbox_row_get(service->store, row->id, &now, &ignored) == 0 && now.status == row->status)
        set_broken(info, err.text);
}

/* The row of one that starts knows only that it does; what it is at, whoever starts it does. One whose rules cannot be read is told
 * without them: it would take the whole list with it. */
static int make_info(struct service *service, const struct sandbox_row *row, struct sandbox_info **ret, struct err *err)
{
    autofree char *step = row->status == SANDBOX_STATUS_STARTING ? sandbox_conn_dup_step(&service->conns, row->id) : NULL;
    struct err broken = ERR_NONE;
    struct sandbox_row bare = *row;
    int r = row_info_make(row, ret, &broken);

    bare.rules = BUF_EMPTY;
    if (r < 0) {
        r = row_info_make(&bare, ret, err);
        if (r == 0)
            set_broken(*ret, broken.text);
        return r;
    }
    check_files(service, row, *ret);
    if (step) {
        free((*ret)->reason);
        (*ret)->reason = steal_ptr(&step);
    }
    return 0;
}

int sandboxes_get(struct service *service, const struct caller *caller, const char *id, struct sandbox_info **ret,
                  struct err *err)
{
    autodone(sandbox_row) struct sandbox_row row = { 0 };
    int r = service_get_sandbox(service, caller, id, &row, err);

    if (r == 0)
        r = make_info(service, &row, ret, err);
    if (r == 0 && row.status == SANDBOX_STATUS_RUNNING && strcmp(row.host_id, service->host_id) == 0)
        limit_report_find(&service->state_dir, row.id, &(*ret)->held);
    return r;
}

void sandbox_page_done(struct sandbox_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        sandbox_info_free(page->items[i]);
    free(page->items);
    free(page->next_token);
    *page = (struct sandbox_page){ 0 };
}

/* What is shown as one phase may be several in the store. */
static unsigned statuses_of(enum sandbox_phase phase)
{
    unsigned bits = 0;

    for (int status = SANDBOX_STATUS_PENDING; status < SANDBOX_STATUS_COUNT; status++) {
        if (status == SANDBOX_STATUS_DELETED)
            continue;
        if (phase == 0 || row_info_phase(status) == phase)
            bits |= SANDBOX_STATUS_BIT(status);
    }
    return bits;
}

int sandboxes_list(struct service *service, const struct caller *caller, const struct sandbox_query *query,
                   struct sandbox_page *ret, struct err *err)
{
    struct sandbox_filter filter = {
        .owner_id = caller->is_admin ? NULL : caller->owner,
        .codebase_id = *query->codebase_id ? query->codebase_id : NULL,
        .statuses = statuses_of(query->phase),
    };
    struct store_page page = { .limit = query->page_size ? query->page_size : PAGE_DEFAULT, .token = query->page_token };
    autodone(sandbox_rows) struct sandbox_rows rows = { 0 };
    int r = sandbox_row_list(service->store, &filter, &page, &rows, err);

    if (r < 0)
        return r;
    ret->items = xalloc((rows.count + 1) * sizeof(struct sandbox_info *));
    for (size_t i = 0; r == 0 && i < rows.count; i++) {
        r = make_info(service, &rows.rows[i], &ret->items[ret->count], err);
        ret->count += r == 0;
    }
    ret->next_token = xdup(rows.next_token ? rows.next_token : "");
    if (r < 0)
        sandbox_page_done(ret);
    return r;
}
