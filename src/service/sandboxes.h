/*
 * The life of sandboxes: creating, starting, stopping, removing and listing them, changing and explaining their rules.
 *
 * The row in the store is the intent, the supervisor the fact. Each step writes its intent before it acts, so that recovery after a crash
 * knows what was intended; see recovery.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sandbox_id.h"
#include "policy/explain.h"
#include "sandbox/limit_report.h"
#include "service/caller.h"
#include "service/sandbox_info.h"
#include "service/sandbox_rules.h"
#include "store/sandbox_row.h"

struct service;

/*
 * All borrowed. With a codebase_id the sandbox is over that codebase, and fields that name a directory must not be set. Without one it is
 * over a directory. "" and NULL mean not given.
 */
struct sandbox_request {
    const char *codebase_id;

    const char *project_root, *scope_path; /* "": the server's default; "": the root, and a relative path starts there */
    const char *const *reserved_paths;     /* NULL: the scope */
    bool no_lock;

    const char *name;
    const char *preset; /* NULL: "development" over a directory, unless there are rules */
    const struct rule_list *rules;
    const struct pair_list *labels, *env;
    int64_t expires_in_ns; /* 0: over a codebase the server's default; negative is refused */
    int runtime;           /* 0: the server's */
    const char *driver;    /* "": over a directory the server's preferred driver, else fence */
    const char *image;
    const char *network; /* "none", "bridge", "host" */
    enum sandbox_sync sync;
    struct sandbox_limits limits;
    const char *profile;    /* NULL: none; "": the server's default */
    const bool *host_mount; /* mount its files on the host, too; NULL: over a directory as the server's options say */
    bool restarts;

    const char *creator, *creator_type; /* not given: the caller, "user" */
    const json_t *tags, *metadata;      /* an array of strings, an object */
    const json_t *behavior;             /* from behavior_normalise() */

    bool starts; /* return after it runs; if the start fails, keep only a record of the reason */
    const char *idempotency_key;
    bool key_lasts;        /* keep the key for ever instead of a day */
    bool shows_unfinished; /* repeating the request while it is being made returns it in its current state */
};

/* The result. Call its done function also after a failure. */
struct sandbox_creation {
    struct sandbox_row row;
    struct rule_warnings warnings;
    struct sandbox_conflicts conflicts; /* set after -EBUSY */
    int64_t disk_inodes;
};

void sandbox_creation_done(struct sandbox_creation *creation);
int sandboxes_create(struct service *service, const struct caller *caller, const struct sandbox_request *request,
                     struct sandbox_creation *ret, struct err *err);

/* Returns the runtime of sandboxes that are not to be containers. */
int sandboxes_plain_runtime(const struct service *service);

/* Finds its id by a UUID, a name, or the beginning of its id. ERR_NOT_FOUND; ERR_INVALID_ARGUMENT: several match. */
int sandboxes_find(struct service *service, const struct caller *caller, const char *text, char ret_id[SANDBOX_ID_MAX],
                   struct err *err);

/* A sandbox as the API shows it. */
struct sandbox_info {
    struct sandbox_row
        row; /* the reason is the current step while it starts; the status is ERROR if its files are missing or damaged */
    struct rule_warnings warnings; /* set by functions that check its rules */
    struct limit_report held;      /* set by sandboxes_get() */
};

void sandbox_info_done(struct sandbox_info *info);
/* A deleted sandbox is ERR_NOT_FOUND without `with_deleted`. */
int sandboxes_get(struct service *service, const struct caller *caller, const char *id, bool with_deleted,
                  struct sandbox_info *ret, struct err *err);

/* The caller's preconditions for a step. */
struct sandbox_step {
    int64_t version; /* 0: any */
    unsigned states; /* bits: the states to start from (store/sandbox_row.h); only of sandboxes_start() */
    bool may_be_so;  /* a sandbox that is in the requested state already is not an error, and stays unchanged */
};

/* Resets the decision of an approved or rejected sandbox to open. START_FAILED: it is in ERROR. */
int sandboxes_start(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                    struct sandbox_row *ret, struct err *err);
int sandboxes_stop(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                   struct sandbox_row *ret, struct err *err);

struct sandbox_deletion {
    int64_t version; /* 0: any */
    bool may_be_so;  /* succeed also if it is deleted already */
    bool is_forced;  /* discard changes that should be synced but for which the codebase has no space */
    bool purges;     /* skip the trash; also removes the files of one that was deleted before */
};

/* Keeps its changes in the trash for a while (sandbox_trash.c), if the server has one. */
int sandboxes_delete(struct service *service, const struct caller *caller, const char *id,
                     const struct sandbox_deletion *deletion, struct err *err);

/* The new rules apply to every operation that begins after this returns. */
int sandboxes_set_rules(struct service *service, const struct caller *caller, const char *id, const char *preset,
                        const struct rule_list *rules, struct sandbox_info *ret, struct err *err);

struct rule_edit;
/* The same, as an edit of its current rules, in one step. */
int sandboxes_edit_rules(struct service *service, const struct caller *caller, const char *id, const struct rule_edit *edit,
                         struct sandbox_info *ret, struct err *err);

/* `ret_rules` owns the rules that the explanation's numbers refer to. */
int sandboxes_explain(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct ruleset **ret_rules, struct explanation **ret, struct err *err);

/* Rows are as from sandboxes_get(). Only administrators see sandboxes of other owners. */
int sandboxes_list(struct service *service, const struct caller *caller, struct sandbox_filter filter,
                   const struct store_page *page, struct sandbox_rows *ret, struct err *err);
