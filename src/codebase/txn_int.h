/* The inside of a transaction. Requests are collected without the lock; planned, decided and committed under it. */
#pragma once

#include "codebase/codebase_txn.h"
#include "codebase/manifest.h"
#include "codebase/path_map.h"
#include "codebase/stage.h"

/* How to treat a path whose state differs from the request. */
enum txn_manner {
    TXN_STRICT, /* an upload: another type in the way is an error; times are not compared */
    TXN_SYNC,   /* the newer change wins; no error */
    TXN_SEEN,   /* a state other than the one seen is an error */
    TXN_EXACT,  /* the request replaces whatever exists */
};

struct txn_request {
    enum { TXN_REQUEST_PUT, TXN_REQUEST_REMOVE } op;
    char *path;          /* owned */
    unsigned object;     /* for a put: staged as n<object> */
    enum tree_kind kind; /* for a put */
    int64_t when_ns;
    struct codebase_seen seen;
    char *sha256, *source; /* owned, may be NULL */
    uint64_t src_ino;
    int64_t src_mtime_ns;
};

struct codebase_txn {
    struct codebase *cb; /* borrowed */
    enum txn_manner manner;
    struct stage stage;
    struct txn_request *requests;
    size_t request_count, request_cap;
    unsigned objects;    /* the number of object numbers in use */
    size_t staged_count; /* staged files and directories, for stage_sync() */
    struct manifest manifest;
};

int txn_new(struct codebase *cb, enum txn_manner manner, const char *by, const char *reason, struct codebase_txn **ret,
            struct err *err);

/* The number of the next object. */
unsigned txn_next_object(struct codebase_txn *txn);

/* The path must be clean. The result is valid until the next request. */
struct txn_request *txn_request_put(struct codebase_txn *txn, const char *path, unsigned object, enum tree_kind kind);
struct txn_request *txn_request_remove(struct codebase_txn *txn, const char *path);

/* Sync, lock, plan, commit. */
int txn_finish(struct codebase_txn *txn, struct codebase_commit *ret, struct err *err);

/* Like txn_finish(), for a caller that has the lock and has synced the stage. */
int txn_finish_locked(struct codebase_txn *txn, struct codebase_meta *meta, struct codebase_commit *ret, struct err *err);

/* Turns the requests into entries of the manifest, based on the current content of `files`. */
int txn_plan(struct codebase_txn *txn, const struct codebase_meta *meta, struct codebase_commit *commit, struct err *err);

/* ---- conflicts ---- */

/* The time of each path's last change, from the manifests that are kept; loaded at the first conflict. */
struct txn_resolver {
    struct codebase *cb;
    const struct codebase_meta *meta;
    bool is_loaded;
    struct path_map last;  /* path -> time */
    struct path_map trees; /* likewise, for changes of everything beneath the path */
};

void txn_resolver_done(struct txn_resolver *resolver);

enum txn_verdict {
    VERDICT_FREE,     /* no other change */
    VERDICT_WINS,     /* another change, but an earlier one */
    VERDICT_LOSES,    /* another change, a later one */
    VERDICT_THE_SAME, /* the codebase has the same content already */
};

/* Returns true if the path is in the state that the author saw. `st` NULL: it does not exist. */
bool txn_is_as_seen(const struct txn_request *request, const struct stat *st);

/* `st`: the current state of the path, NULL: it does not exist. For a conflict `ret_other_ns` is the time of the other change. */
int txn_resolver_decide(struct txn_resolver *resolver, const struct codebase_txn *txn, const struct txn_request *request,
                        const struct stat *st, enum txn_verdict *ret, int64_t *ret_other_ns);

/* Returns the time of the path's last change by a version. */
int txn_resolver_last_change(struct txn_resolver *resolver, const char *path, const struct stat *st, int64_t *ret_ns);
