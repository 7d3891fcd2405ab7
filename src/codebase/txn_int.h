/* A transaction from inside: wishes are gathered without the lock, and planned, judged and committed under it. */
#pragma once

#include "codebase/codebase_txn.h"
#include "codebase/manifest.h"
#include "codebase/path_map.h"
#include "codebase/stage.h"

/* What to do when a path cannot be taken as it is. */
enum txn_manner {
    TXN_STRICT, /* an upload: something of another kind in the way is an error; no judging */
    TXN_SYNC,   /* newer wins, nothing is an error */
    TXN_SEEN,   /* what is not as it was seen is an error */
    TXN_EXACT,  /* what is asked for replaces whatever is there */
};

struct txn_request {
    enum { TXN_REQUEST_PUT, TXN_REQUEST_REMOVE } op;
    char *path;          /* owned */
    unsigned object;     /* of a put: staged as n<object> */
    enum tree_kind kind; /* of a put */
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
    unsigned objects;    /* how many numbers are given away */
    size_t staged_count; /* files and directories staged, for stage_sync() */
    struct manifest manifest;
};

int txn_new(struct codebase *cb, enum txn_manner manner, const char *by, const char *reason, struct codebase_txn **ret,
            struct err *err);

/* The number of the next object. */
unsigned txn_next_object(struct codebase_txn *txn);

/* The path must be clean. Valid until the next wish. */
struct txn_request *txn_request_put(struct codebase_txn *txn, const char *path, unsigned object, enum tree_kind kind);
struct txn_request *txn_request_remove(struct codebase_txn *txn, const char *path);

/* Sync, lock, plan, commit. */
int txn_finish(struct codebase_txn *txn, struct codebase_commit *ret, struct err *err);

/* The same for one who has the lock and has synced the stage. */
int txn_finish_locked(struct codebase_txn *txn, struct codebase_meta *meta, struct codebase_commit *ret, struct err *err);

/* Turns the wishes into entries of the manifest, against what is in `files` now. */
int txn_plan(struct codebase_txn *txn, const struct codebase_meta *meta, struct codebase_commit *commit, struct err *err);

/* ---- judging ---- */

/* When each path was last changed, from the manifests that are kept; read when the first doubt comes up. */
struct txn_resolver {
    struct codebase *cb;
    const struct codebase_meta *meta;
    bool is_loaded;
    struct path_map last;  /* path -> when */
    struct path_map trees; /* the same for what changed everything beneath */
};

void txn_resolver_done(struct txn_resolver *resolver);

enum txn_verdict {
    VERDICT_FREE,     /* nobody else has changed it */
    VERDICT_WINS,     /* somebody has, but earlier */
    VERDICT_LOSES,    /* somebody has, later */
    VERDICT_THE_SAME, /* it is there already */
};

/* Whether what is at the path now is what the changer saw there. `st` NULL: nothing. */
bool txn_is_as_seen(const struct txn_request *request, const struct stat *st);

/* `st`: what is at the path now, NULL: nothing. `ret_other_ns` is when it was changed, for a conflict. */
int txn_resolver_decide(struct txn_resolver *resolver, const struct codebase_txn *txn, const struct txn_request *request,
                        const struct stat *st, enum txn_verdict *ret, int64_t *ret_other_ns);

/* When the path was last changed by a version. */
int txn_resolver_last_change(struct txn_resolver *resolver, const char *path, const struct stat *st, int64_t *ret_ns);
