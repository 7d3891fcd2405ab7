#include "service/tokens.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/mem.h"
#include "service/service_int.h"
#include "store/token_row.h"

#define SECRET_BYTES 24
#define SECRET_TEXT_MAX 256
#define TOUCH_EVERY_NS (60 * CLOCK_NS_PER_SEC)

void token_info_done(struct token_info *info)
{
    free(info->id);
    free(info->owner);
    free(info->name);
    for (size_t i = 0; info->allowed_roots && info->allowed_roots[i]; i++)
        free(info->allowed_roots[i]);
    free(info->allowed_roots);
    *info = (struct token_info){ 0 };
}

void token_list_done(struct token_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        token_info_done(&list->items[i]);
    free(list->items);
    *list = (struct token_list){ 0 };
}

static char **dup_roots(char *const *roots)
{
    size_t count = 0;
    char **copy;

    while (roots && roots[count])
        count++;
    copy = xalloc((count + 1) * sizeof(*copy));
    for (size_t i = 0; i < count; i++)
        copy[i] = xdup(roots[i]);
    return copy;
}

static struct token_info info_of(const struct token_row *row)
{
    return (struct token_info){
        .id = xdup(row->id),
        .owner = xdup(row->owner_id),
        .name = xdup(row->name),
        .is_admin = row->is_admin,
        .created_ns = row->created_ns,
        .expires_ns = row->expires_ns,
        .revoked_ns = row->revoked_ns,
        .used_ns = row->last_used_ns,
        .allowed_roots = dup_roots(row->allowed_roots),
    };
}

static void hash_of(const char *secret, unsigned char ret[TOKEN_HASH_LEN])
{
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, strlen(secret), (const uint8_t *) secret);
    sha256_digest(&sha, TOKEN_HASH_LEN, ret);
}

static int make_secret(char **ret, struct err *err)
{
    unsigned char bytes[SECRET_BYTES];
    struct buf text = BUF_EMPTY;
    int r = id_random(bytes, sizeof(bytes));

    if (r < 0) {
        err_errno(err, r, "making a token");
        return r;
    }
    buf_add_str(&text, TOKEN_PREFIX);
    for (size_t i = 0; i < sizeof(bytes); i++)
        buf_addf(&text, "%02x", bytes[i]);
    explicit_bzero(bytes, sizeof(bytes));
    *ret = buf_dup_take(&text);
    return 0;
}

int tokens_create(struct store *store, const char *owner, const char *name, bool is_admin, int64_t expires_in_ns,
                  const char *const *allowed_roots, struct token_info *ret, char **ret_secret, struct err *err)
{
    unsigned char hash[TOKEN_HASH_LEN];
    char id[ID_TEXT_MAX];
    int64_t now = clock_wall_ns();
    autofree char *secret = NULL;
    struct token_row row = {
        .id = id,
        .hash = { .data = (char *) hash, .len = sizeof(hash) },
        .owner_id = (char *) owner,
        .name = (char *) name,
        .created_ns = now,
        .expires_ns = expires_in_ns > 0 && expires_in_ns < INT64_MAX - now ? now + expires_in_ns : 0,
        .allowed_roots = (char **) allowed_roots,
        .is_admin = is_admin,
    };
    int r;

    if (!*owner)
        return err_invalid(err, "a token needs an owner");
    r = make_secret(&secret, err);
    if (r < 0)
        return r;
    id_new(TOKEN_ID_PREFIX, id);
    hash_of(secret, hash);
    r = token_row_insert(store, &row, err);
    if (r < 0)
        return r;
    *ret = info_of(&row);
    *ret_secret = steal_ptr(&secret);
    return 0;
}

int tokens_list(struct store *store, const char *owner, struct token_list *ret, struct err *err)
{
    autofree char *token = NULL;

    do {
        struct store_page page = { .limit = STORE_PAGE_MAX, .token = token };
        struct token_rows rows = { 0 };
        int r = token_row_list(store, *owner ? owner : NULL, &page, &rows, err);

        if (r < 0)
            return r;
        ret->items = xgrow(ret->items, ret->count + rows.count + 1, sizeof(*ret->items));
        for (size_t i = 0; i < rows.count; i++)
            ret->items[ret->count++] = info_of(&rows.rows[i]);
        free(token);
        token = steal_ptr(&rows.next_token);
        token_rows_done(&rows);
    } while (token);
    return 0;
}

int tokens_revoke(struct store *store, const char *id, struct err *err)
{
    return token_row_revoke(store, id, NULL, clock_wall_ns(), err);
}

static int refuse(struct err *err)
{
    return err_set_reason(err, err_set(err, ERR_UNAUTHENTICATED, -EACCES, "the token is not valid"), "TOKEN_NOT_VALID");
}

int tokens_check(struct service *service, const char *secret, struct token_info *ret, struct err *err)
{
    unsigned char hash[TOKEN_HASH_LEN];
    autodone(token_row) struct token_row row = { 0 };
    struct err ignored = ERR_NONE;
    int r;

    if (strlen(secret) > SECRET_TEXT_MAX || strncmp(secret, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) != 0)
        return refuse(err);
    hash_of(secret, hash);
    r = token_row_find(service->store, hash, &row, err);
    if (r == -ENOENT || (r == 0 && !token_row_is_good(&row, clock_wall_ns())))
        return refuse(err);
    if (r < 0)
        return r;
    token_row_touch(service->store, &row, clock_wall_ns(), TOUCH_EVERY_NS, &ignored);
    *ret = info_of(&row);
    return 0;
}
