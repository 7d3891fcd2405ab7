/*
 * Durations of the store's calls: a histogram for each kind of call. Counting is lock-free; a reader may see a call counted
 * before it is in a bucket.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STORE_CALL_CALLS(X)                                                                                                    \
    X(CODEBASE_INSERT, "codebase_insert")                                                                                      \
    X(CODEBASE_GET, "codebase_get")                                                                                            \
    X(CODEBASE_LIST, "codebase_list")                                                                                          \
    X(CODEBASE_UPDATE, "codebase_update")                                                                                      \
    X(CODEBASE_DELETE, "codebase_delete")                                                                                      \
    X(SANDBOX_INSERT, "sandbox_insert")                                                                                        \
    X(SANDBOX_GET, "sandbox_get")                                                                                              \
    X(SANDBOX_LIST, "sandbox_list")                                                                                            \
    X(SANDBOX_COUNT, "sandbox_count")                                                                                          \
    X(SANDBOX_MOVE, "sandbox_move")                                                                                            \
    X(SANDBOX_UPDATE, "sandbox_update")                                                                                        \
    X(SANDBOX_NOTE, "sandbox_note")                                                                                            \
    X(SANDBOX_DELETE, "sandbox_delete")                                                                                        \
    X(SESSION_INSERT, "session_insert")                                                                                        \
    X(SESSION_GET, "session_get")                                                                                              \
    X(SESSION_LIST, "session_list")                                                                                            \
    X(SESSION_CLOSE, "session_close")                                                                                          \
    X(SESSION_TRIM, "session_trim")                                                                                            \
    X(TOKEN_INSERT, "token_insert")                                                                                            \
    X(TOKEN_FIND, "token_find")                                                                                                \
    X(TOKEN_LIST, "token_list")                                                                                                \
    X(TOKEN_REVOKE, "token_revoke")                                                                                            \
    X(TOKEN_TOUCH, "token_touch")                                                                                              \
    X(EVENT_APPEND, "event_append")                                                                                            \
    X(EVENT_QUERY, "event_query")                                                                                              \
    X(EVENT_TRIM, "event_trim")                                                                                                \
    X(IDEMPOTENCY_TAKE, "idempotency_take")                                                                                    \
    X(IDEMPOTENCY_FINISH, "claim_finish")                                                                                      \
    X(IDEMPOTENCY_LIST, "claim_list")                                                                                          \
    X(IDEMPOTENCY_TRIM, "claim_trim")                                                                                          \
    X(APPLIED_INSERT, "applied_insert")                                                                                        \
    X(APPLIED_LIST, "applied_list")                                                                                            \
    X(APPLIED_UPDATE, "applied_update")                                                                                        \
    X(META_GET, "meta_get")                                                                                                    \
    X(META_SET, "meta_set")

enum store_call {
#define X(name, text) STORE_CALL_##name,
    STORE_CALL_CALLS(X)
#undef X
        STORE_CALL_CALL_COUNT
};

/* Upper bounds in microseconds: 16, 32, 64 ... The last bucket has no bound. */
#define STORE_CALL_BUCKETS 18
#define STORE_CALL_FIRST_US 16

struct store_metrics {
    struct {
        _Atomic uint64_t count;
        _Atomic uint64_t failures; /* without NOT_FOUND and the like, which are normal answers */
        _Atomic uint64_t sum_ns;
        _Atomic uint64_t buckets[STORE_CALL_BUCKETS];
    } calls[STORE_CALL_CALL_COUNT];
};

const char *store_call_name(enum store_call call);

/* In nanoseconds; INT64_MAX for the last bucket. */
int64_t store_metrics_bucket_end_ns(unsigned bucket);

void store_metrics_add(struct store_metrics *meter, enum store_call call, int64_t ns, bool failed);
