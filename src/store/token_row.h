/*
 * What is remembered of a token, by which a caller says who they are. The secret is not in here: only its SHA-256, which is as
 * good for recognising it and useless to whoever steals the database, because the secret is random and long.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "store/store.h"

#define TOKEN_ID_PREFIX "tok_"
#define TOKEN_HASH_LEN 32

struct token_row {
    char *id; /* all owned */
    struct buf hash;
    char *owner_id;
    char *name;
    int64_t created_ns; /* times: 0 is never */
    int64_t expires_ns;
    int64_t revoked_ns;
    int64_t last_used_ns;
    char **allowed_roots; /* ended by NULL: directories of live scopes */
    bool is_admin;
};

struct token_rows {
    struct token_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL when there are no more. A page's, not one of these */
};

void token_row_done(struct token_row *row);
void token_rows_done(struct token_rows *rows);

/* Neither revoked nor over. */
bool token_row_is_good(const struct token_row *row, int64_t now_ns);

/* ERR_ALREADY_EXISTS also when the hash is there. */
int token_row_insert(struct store *store, const struct token_row *row, struct err *err);

/* By the hash of its secret, whatever its state: ask token_row_is_good(). ERR_NOT_FOUND, with a text that says nothing of it.
 * */
int token_row_find(struct store *store, const unsigned char hash[TOKEN_HASH_LEN], struct token_row *ret, struct err *err);

/* `owner_id` may be NULL: all. */
int token_row_list(struct store *store, const char *owner_id, const struct store_page *page, struct token_rows *ret,
                   struct err *err);

/* One that was revoked keeps its first moment. ERR_NOT_FOUND, also when it is another owner's; `owner_id` NULL is anybody's. */
int token_row_revoke(struct store *store, const char *id, const char *owner_id, int64_t now_ns, struct err *err);

/* Notes that it was used now, unless that was noted less than `every_ns` ago: a request must not cost a wait for the disk. */
int token_row_touch(struct store *store, struct token_row *row, int64_t now_ns, int64_t every_ns, struct err *err);
