/*
 * Tokens: the holder of a token acts as its owner. A token is shown once, when it is created; the store has only its hash.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct service;
struct store;

#define TOKEN_PREFIX "aft_"

/* Strings owned. */
struct token_info {
    char *id, *owner, *name;
    bool is_admin;
    int64_t created_ns, expires_ns, revoked_ns, used_ns;
    char **allowed_roots; /* owned, ended by NULL */
};

struct token_list {
    struct token_info *items; /* owned */
    size_t count;
};

void token_info_done(struct token_info *info);
void token_list_done(struct token_list *list);

/* `ret_secret` is what the holder presents; free it. `expires_in_ns` 0: never. */
int tokens_create(struct store *store, const char *owner, const char *name, bool is_admin, int64_t expires_in_ns,
                  const char *const *allowed_roots, struct token_info *ret, char **ret_secret, struct err *err);
/* `owner` "": all owners. */
int tokens_list(struct store *store, const char *owner, struct token_list *ret, struct err *err);
int tokens_revoke(struct store *store, const char *id, struct err *err);

/* Returns the token of a secret. -EACCES, ERR_UNAUTHENTICATED for an unknown, expired or revoked one; the error does not reveal which. */
int tokens_check(struct service *service, const char *secret, struct token_info *ret, struct err *err);
