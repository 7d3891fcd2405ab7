#include "service/idempotency.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/service_int.h"
#include "store/idempotency_row.h"

#define KEEP_NS (24LL * 3600 * CLOCK_NS_PER_SEC)
#define KEY_BYTES_MAX 256

int idempotency_take(struct service *service, const struct idempotency *claim, char ret_id[SANDBOX_ID_MAX], struct err *err)
{
    int64_t now = clock_wall_ns();
    unsigned char hash[SHA256_DIGEST_SIZE];
    struct idempotency_row row = {
        .owner_id = (char *) claim->owner,
        .idempotency_key = (char *) claim->key,
        .method = (char *) claim->method,
        .hash = { .data = (char *) hash, .len = sizeof(hash) },
        .host_id = service->host_id,
        .resource_id = (char *) claim->resource_id,
        .created_ns = now,
        .expires_ns = claim->lasts ? INT64_MAX : now + KEEP_NS,
    };
    autodone(idempotency_row) struct idempotency_row found = { 0 };
    enum idempotency_outcome outcome;
    struct sha256_ctx sha;
    int r;

    if (!*claim->key)
        return 0;
    if (strlen(claim->key) > KEY_BYTES_MAX)
        return err_invalid(err, "idempotency_key has more than %d bytes", KEY_BYTES_MAX);
    sha256_init(&sha);
    sha256_update(&sha, claim->request->len, (const uint8_t *) claim->request->data);
    sha256_digest(&sha, sizeof(hash), hash);
    r = idempotency_row_take(service->store, &row, now, &outcome, &found, err);
    if (r == -EALREADY)
        snprintf(ret_id, SANDBOX_ID_MAX, "%s", found.resource_id);
    if (r < 0)
        return err_set_reason(err, r, "IDEMPOTENCY_KEY");
    if (outcome == IDEMPOTENCY_TAKEN)
        return 0;
    snprintf(ret_id, SANDBOX_ID_MAX, "%.*s", (int) found.response.len, found.response.data ? found.response.data : "");
    return IDEMPOTENCY_ANSWERED;
}

static void end_claim(struct service *service, const char *owner, const char *key, bool is_done, const char *id, bool lasts)
{
    int64_t expires_ns = lasts ? INT64_MAX : clock_wall_ns() + KEEP_NS;
    struct err err = ERR_NONE;
    int r = is_done ? idempotency_row_finish(service->store, owner, key, id, strlen(id), expires_ns, &err)
                    : idempotency_row_release(service->store, owner, key, &err);

    if (r < 0)
        log_warn("an idempotency key stays open", LOG_STR("error", err.text));
}

/* Returns 1, 0, or a negative errno if it is not known: the database does not answer, or the object is still being made. */
static int was_made(struct service *service, const char *id)
{
    autodone(sandbox_row) struct sandbox_row sandbox = { 0 };
    autodone(codebase_row) struct codebase_row codebase = { 0 };
    struct err ignored = ERR_NONE;
    int r = sandbox_row_get(service->store, id, &sandbox, &ignored);

    if (r == 0 && sandbox.status == SANDBOX_STATUS_CREATING)
        return -EINPROGRESS;
    if (r == -ENOENT)
        r = codebase_row_get(service->store, id, &codebase, &ignored);
    return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

void idempotency_end(struct service *service, const struct idempotency *claim, int r, const char *id)
{
    int made = r == 0;

    if (!*claim->key)
        return;
    if (r == -EINPROGRESS)
        made = was_made(service, id);
    if (made >= 0)
        end_claim(service, claim->owner, claim->key, made > 0, id, claim->lasts);
}

int idempotency_recover(struct service *service, int64_t older_than_ns, struct err *err)
{
    autodone(idempotency_rows) struct idempotency_rows rows = { 0 };
    int r = idempotency_row_list_open(service->store, service->host_id, &rows, err);

    for (size_t i = 0; r >= 0 && i < rows.count; i++) {
        const struct idempotency_row *row = &rows.rows[i];
        int made = row->created_ns < older_than_ns ? was_made(service, row->resource_id) : -EINPROGRESS;

        if (made >= 0)
            end_claim(service, row->owner_id, row->idempotency_key, made > 0, row->resource_id, row->expires_ns == INT64_MAX);
    }
    return r < 0 ? r : 0;
}
