#include "service/recovery.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "service/adoption.h"
#include "service/codebases_int.h"
#include "service/idempotency.h"
#include "service/life.h"
#include "service/pending_delete.h"
#include "service/reviews_int.h"
#include "service/sandbox_index.h"
#include "service/service_int.h"
#include "service/sync.h"

/* ---- orphans ---- */

struct names {
    char **items; /* owned, each item too */
    size_t count, cap;
};

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

static void add_name(struct names *names, const char *name)
{
    vec_room(&names->items, &names->cap, names->count);
    names->items[names->count++] = xdup(name);
}

static int collect_codebase(const char *id, void *cookie)
{
    add_name(cookie, id);
    return 0;
}

/* A codebase without a row was either being made when a server died, and no client was told about it; or the database was replaced, perhaps
 * by an older copy, and the files are a user's work. So remove only one that was never written to or whose deletion had begun. */
static void recover_codebase(struct service *service, const char *id)
{
    autodone(codebase_row) struct codebase_row row = { 0 };
    autoptr(codebase) codebase = NULL;
    struct codebase_info info;
    struct err err = ERR_NONE;
    bool is_known = true;
    int r = codebase_row_get(service->store, id, &row, &err);

    if (r == -ENOENT)
        is_known = false;
    else if (r < 0)
        return;
    if (codebase_open(service->codebases, id, &codebase, &err) < 0 || codebase_info(codebase, &info, &err) < 0)
        return;
    if (is_known && (int64_t) info.version != row.version)
        codebases_refresh_row(service, codebase, &err);
    if (is_known)
        return;
    codebase_close(steal_ptr(&codebase));
    if (info.version == 0 || pending_delete_has(service, id))
        codebase_delete(service->codebases, id, &err);
    else
        log_warn("a codebase is not in the database; its files are left alone", LOG_STR("codebase_id", id));
}

/* Corrects counters that a killed server did not write, and removes files of codebases that were never acknowledged. */
static int recover_codebases(struct service *service, struct err *err)
{
    struct names names = { 0 };
    int r = codebases_recover(service->codebases, err);

    if (r < 0)
        log_warn("a codebase could not be put right", LOG_STR("error", err->text));
    r = codebases_each(service->codebases, collect_codebase, &names, err);
    for (size_t i = 0; r >= 0 && i < names.count; i++)
        recover_codebase(service, names.items[i]);
    names_done(&names);
    if (r >= 0)
        pending_delete_forget_all(service);
    return r < 0 ? r : 0;
}

/* A server that was killed while it changed a codebase may not have notified the sandboxes. */
static void refresh(struct sandbox_conn *conn, void *cookie)
{
    if (*conn->codebase_id)
        sync_tell_siblings(cookie, conn->codebase_id, NULL, NULL, 0);
}

int recovery_run(struct service *service, struct err *err)
{
    /* First: codebases that only a sandbox's directory knows are not orphans. */
    int r = sandbox_index_open(service, err);

    if (r == 0)
        r = recover_codebases(service, err);
    if (r == 0)
        r = adoption_run(service, err);
    if (r == 0) {
        reviews_recover(service);
        life_sweep(service);
        r = idempotency_recover(service, INT64_MAX, err);
    }
    if (r == 0)
        sandbox_conns_each_running(&service->conns, refresh, service);
    service->is_unsure = true; /* sessions may have ended while no server was there */
    return r < 0 ? err_wrap(err, r, "looking at what the last server left") : 0;
}
