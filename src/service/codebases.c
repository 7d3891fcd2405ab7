#include "service/codebases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/codebases_int.h"
#include "service/events.h"
#include "service/idempotency.h"
#include "service/life.h"
#include "service/pending_delete.h"
#include "service/service_int.h"
#include "service/sync.h"

#define PAGE_DEFAULT 100
#define NAME_BYTES_MAX 1024
#define PATHS_TOLD_MAX 256

int refuse_codebase(struct err *err)
{
    err_set(err, ERR_NOT_FOUND, -ENOENT, "codebase not found");
    err_set_reason(err, -ENOENT, "CODEBASE_NOT_FOUND");
    return -ENOENT;
}

void codebase_entry_done(struct codebase_entry *entry)
{
    free(entry->id);
    free(entry->name);
    free(entry->owner);
    *entry = (struct codebase_entry){ 0 };
}

void codebase_page_done(struct codebase_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        codebase_entry_done(&page->items[i]);
    free(page->items);
    free(page->next_token);
    *page = (struct codebase_page){ 0 };
}

static struct codebase_entry entry_of(const struct codebase_row *row)
{
    return (struct codebase_entry){
        .id = xdup(row->id),
        .name = xdup(row->name),
        .owner = xdup(row->owner_id),
        .size_bytes = (uint64_t) row->size_bytes,
        .file_count = (uint64_t) row->file_count,
        .version = (uint64_t) row->version,
        .created_ns = row->created_ns,
        .updated_ns = row->updated_ns,
    };
}

int service_get_codebase(struct service *service, const struct caller *caller, const char *id, struct codebase_row *ret,
                         struct err *err)
{
    int r;

    if (!id_is_valid(CODEBASE_ID_PREFIX, id))
        return refuse_codebase(err);
    r = codebase_row_get(service->store, id, ret, err);
    if (r == 0 && !caller_sees(caller, ret->owner_id)) {
        codebase_row_done(ret);
        r = -ENOENT;
    }
    return r == -ENOENT ? refuse_codebase(err) : r;
}

int service_check_host(const struct service *service, const struct codebase_row *row, struct err *err)
{
    if (strcmp(row->host_id, service->host_id) == 0)
        return 0;
    return err_set_reason(err, err_set(err, ERR_FAILED_PRECONDITION, -EREMOTE, "codebase '%s' lives on another host", row->id),
                          "OTHER_HOST");
}

int codebases_open_dir(struct service *service, const struct caller *caller, const char *id, struct codebase **ret,
                       char **ret_owner, struct err *err)
{
    autodone(codebase_row) struct codebase_row row = { 0 };
    int r = service_get_codebase(service, caller, id, &row, err);

    if (r == 0)
        r = service_check_host(service, &row, err);
    if (r < 0)
        return r;
    r = codebase_open(service->codebases, id, ret, err);
    if (r == 0 && ret_owner)
        *ret_owner = xdup(row.owner_id);
    return r == -ENOENT ? refuse_codebase(err) : r;
}

/* ---- after a commit ---- */

int codebases_refresh_row(struct service *service, struct codebase *codebase, struct err *err)
{
    struct codebase_info info;
    int r = codebase_info(codebase, &info, err);
    struct codebase_row row = { .id = (char *) codebase_id(codebase), .updated_ns = clock_wall_ns() };

    if (r < 0)
        return r;
    row.size_bytes = (int64_t) info.size_bytes;
    row.file_count = (int64_t) info.file_count;
    row.version = (int64_t) info.version;
    return codebase_row_update(service->store, &row, err);
}

void codebases_note_commit(struct service *service, struct codebase *codebase, const struct codebase_commit *commit,
                           const struct sandbox_conn *except)
{
    bool is_many = commit->change_count > PATHS_TOLD_MAX;
    autofree const char **paths = NULL;
    struct err err = ERR_NONE;

    if (commit->change_count == 0)
        return;
    /* The files are authoritative: the next change or the next start corrects a stale row. */
    if (codebases_refresh_row(service, codebase, &err) < 0)
        log_warn("size and version of a codebase could not be noted", LOG_STR("codebase_id", codebase_id(codebase)),
                 LOG_STR("error", err.text));
    for (size_t i = 0; i < commit->change_count && !is_many; i++)
        is_many = commit->changes[i].is_tree;
    if (!is_many) {
        paths = xalloc(commit->change_count * sizeof(*paths));
        for (size_t i = 0; i < commit->change_count; i++)
            paths[i] = commit->changes[i].path;
    }
    sync_tell_siblings(service, codebase_id(codebase), except, paths, is_many ? 0 : commit->change_count);
}

/* ---- create and find ---- */

static int check_new(const struct caller *caller, const char *name, const char *owner, struct err *err)
{
    if (!*name)
        return err_invalid(err, "name is required");
    if (!*owner)
        return err_invalid(err, "owner_id is required");
    if (strlen(name) > NAME_BYTES_MAX || strlen(owner) > NAME_BYTES_MAX)
        return err_invalid(err, "name and owner_id have at most %d bytes", NAME_BYTES_MAX);
    if (!caller_sees(caller, owner))
        return err_set_reason(err,
                              err_set(err, ERR_PERMISSION_DENIED, -EPERM,
                                      "this token makes codebases of '%s', not of another owner", caller->owner),
                              "OTHER_OWNER");
    return 0;
}

/* Files first, then the row, as with sandboxes. */
static int make(struct service *service, const char *id, const char *name, const char *owner, struct codebase_entry *ret,
                struct err *err)
{
    struct codebase_row row = {
        .id = (char *) id,
        .name = (char *) name,
        .owner_id = (char *) owner,
        .host_id = service->host_id,
        .created_ns = clock_wall_ns(),
    };
    autoptr(codebase) codebase = NULL;
    struct err ignored = ERR_NONE;
    int r = codebase_create(service->codebases, id, &codebase, err);

    if (r < 0)
        return err_wrap(err, r, "failed to create codebase");
    row.updated_ns = row.created_ns;
    r = codebase_row_insert(service->store, &row, err);
    if (r < 0 && r != -EINPROGRESS)
        codebase_delete(service->codebases, id, &ignored);
    if (r < 0)
        return r;
    *ret = entry_of(&row);
    events_add(service, &(struct event){ .type = "codebase_created",
                                         .codebase_id = id,
                                         .owner = owner,
                                         .payload = json_pack("{s:s}", "name", name) });
    return 0;
}

int codebases_create(struct service *service, const struct caller *caller, const char *name, const char *owner, const char *key,
                     struct codebase_entry *ret, struct err *err)
{
    const char *for_whom = *owner || caller->is_admin ? owner : caller->owner;
    autodone(buf) struct buf text = BUF_EMPTY;
    char id[SANDBOX_ID_MAX];
    int r = check_new(caller, name, for_whom, err);

    if (r < 0)
        return r;
    id_new(CODEBASE_ID_PREFIX, id);
    buf_addf(&text, "%s%c%s", name, 0, for_whom);
    struct idempotency claim = {
        .owner = for_whom, .key = key, .method = "CreateCodebase", .request = &text, .resource_id = id
    };
    r = idempotency_take(service, &claim, id, err);
    if (r == IDEMPOTENCY_ANSWERED)
        return codebases_get(service, caller, id, ret, err);
    if (r < 0)
        return r;
    r = make(service, id, name, for_whom, ret, err);
    idempotency_end(service, &claim, r, id);
    return r;
}

int codebases_get(struct service *service, const struct caller *caller, const char *id, struct codebase_entry *ret,
                  struct err *err)
{
    autodone(codebase_row) struct codebase_row row = { 0 };
    int r = service_get_codebase(service, caller, id, &row, err);

    if (r == 0)
        *ret = entry_of(&row);
    return r;
}

int codebases_list(struct service *service, const struct caller *caller, const char *owner, size_t page_size, const char *token,
                   struct codebase_page *ret, struct err *err)
{
    struct store_page page = { .limit = page_size ? page_size : PAGE_DEFAULT, .token = token };
    autodone(codebase_rows) struct codebase_rows rows = { 0 };
    const char *of = *owner ? owner : NULL;
    int r = 0;

    /* A caller who asks for another owner's codebases gets an empty list. */
    if (!caller->is_admin && of && strcmp(of, caller->owner) != 0) {
        ret->next_token = xdup("");
        return 0;
    }
    r = codebase_row_list(service->store, caller->is_admin ? of : caller->owner, NULL, &page, &rows, err);
    if (r < 0)
        return r;
    ret->items = xalloc((rows.count + 1) * sizeof(*ret->items));
    for (size_t i = 0; i < rows.count; i++)
        ret->items[ret->count++] = entry_of(&rows.rows[i]);
    ret->next_token = xdup(rows.next_token ? rows.next_token : "");
    return 0;
}

/* ---- delete ---- */

/* Stops the running ones; they keep their changes. */
static int stop_users(struct service *service, const char *id, struct err *err)
{
    struct sandbox_filter filter = { .codebase_id = id,
                                     .host_id = service->host_id,
                                     .statuses = SANDBOX_STATUS_BIT(SANDBOX_STATUS_RUNNING) };
    autofree char *token = NULL;
    int r;

    do {
        struct store_page page = { .limit = STORE_PAGE_MAX, .token = token };
        autodone(sandbox_rows) struct sandbox_rows rows = { 0 };

        r = sandbox_row_list(service->store, &filter, &page, &rows, err);
        for (size_t i = 0; r == 0 && i < rows.count; i++) {
            autoptr(sandbox_conn) conn = sandbox_conn_get(&service->conns, rows.rows[i].id);

            pthread_mutex_lock(&conn->life);
            r = life_stop(service, &caller_system, conn, &rows.rows[i], err);
            pthread_mutex_unlock(&conn->life);
            if (r == -ENOTCONN)
                r = 0; /* another call stopped it */
        }
        free(token);
        token = steal_ptr(&rows.next_token);
    } while (r == 0 && token);
    return r;
}

int codebases_delete(struct service *service, const struct caller *caller, const char *id, bool is_forced, struct err *err)
{
    autodone(codebase_row) struct codebase_row row = { 0 };
    int r = service_get_codebase(service, caller, id, &row, err);

    if (r == 0)
        r = service_check_host(service, &row, err);
    if (r < 0)
        return r;
    if (is_forced)
        r = stop_users(service, id, err);
    /* The row first, so that no new sandbox can start on it. If we are killed before the files are removed, the pending delete shows what
     * was intended. */
    if (r == 0)
        r = pending_delete_add(service, id, err);
    if (r == 0)
        r = codebase_row_delete(service->store, id, is_forced, err);
    if (r < 0 && err->code == ERR_FAILED_PRECONDITION)
        return err_set_reason(
            err,
            err_set(err, ERR_FAILED_PRECONDITION, r, "codebase is used by running sandboxes; stop them, or delete it by force"),
            "CODEBASE_IN_USE");
    if (r == 0)
        r = codebase_delete(service->codebases, id, err);
    if (r < 0 && r != -ENOENT)
        return r;
    pending_delete_remove(service, id);
    events_add(service, &(struct event){
                            .type = "codebase_deleted", .codebase_id = id, .owner = row.owner_id, .payload = json_object() });
    return 0;
}
