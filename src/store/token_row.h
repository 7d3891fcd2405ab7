/*
 * A token, by which a caller authenticates. The row has only the SHA-256 of the secret. That suffices to recognize the secret,
 * and is useless to a thief of the database, because the secret is random and long.
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
    char **allowed_roots; /* ended by NULL: the directories over which its owner may make sandboxes */
    bool is_admin;
};

struct token_rows {
    struct token_row *rows; /* owned */
    size_t count;
    char *next_token; /* owned; NULL on the last page. A page token, not one of these */
};

void token_row_done(struct token_row *row);
void token_rows_done(struct token_rows *rows);

/* Whether it is neither revoked nor expired. */
bool token_row_is_good(const struct token_row *row, int64_t now_ns);

/* ERR_ALREADY_EXISTS also if a row has the same hash. */
int token_row_insert(struct store *store, const struct token_row *row, struct err *err);

/* Finds a token by the hash of its secret, in any state: check token_row_is_good(). ERR_NOT_FOUND; the text does not mention
 * the secret. */
int token_row_find(struct store *store, const unsigned char hash[TOKEN_HASH_LEN], struct token_row *ret, struct err *err);

/* `owner_id` NULL: of any owner. */
int token_row_list(struct store *store, const char *owner_id, const struct store_page *page, struct token_rows *ret,
                   struct err *err);

/* A revoked token keeps its first time of revocation. ERR_NOT_FOUND, also for another owner's token; `owner_id` NULL: any
 * owner. */
int token_row_revoke(struct store *store, const char *id, const char *owner_id, int64_t now_ns, struct err *err);

/* Records its last use, at most once in `every_ns`: a request must not wait for the disk. */
int token_row_touch(struct store *store, struct token_row *row, int64_t now_ns, int64_t every_ns, struct err *err);
