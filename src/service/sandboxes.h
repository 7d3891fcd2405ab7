/*
 * The life of sandboxes: made, started, stopped, removed, listed, their rules changed and explained.
 *
 * The row in the store is the intent, the supervisor the fact. A step writes what it is about to do before it does it, so that
 * whoever comes after a crash knows what was meant; see recovery.h.
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
 * All borrowed. Over a codebase if there is a codebase_id, and then nothing that names a directory may be given; else over a directory.
 * "" and NULL mean not given.
 */
struct sandbox_request {
    const char *codebase_id;

    const char *project_root, *scope_path; /* "": the server's default; the root, or relative to it */
    const char *const *reserved_paths;     /* the scope */
    bool no_lock;

    const char *name;
    const char *preset; /* over a directory: "development", unless there are rules */
    const struct rule_list *rules;
    const struct pair_list *labels, *env;
    int64_t expires_in_ns; /* 0: the server's default, over a codebase; negative is refused */
    int runtime;           /* 0: the server's */
    const char *driver;    /* "": over a directory what the server prefers, else fence */
    const char *image;
    const char *network; /* "none", "bridge", "host" */
    enum sandbox_sync sync;
    struct sandbox_limits limits;
    const char *profile; /* NULL: none; "": the server's default */
    const bool
        *host_mount; /* whether its files are mounted on the host, too; NULL: over a directory as the server's options say */
    bool restarts;

    const char *creator, *creator_type; /* the caller, "user" */
    const json_t *tags, *metadata;      /* a list of texts, an object */
    const json_t *behavior;             /* as behavior_normalise() gave it */

    bool starts; /* it runs when this returns, or there is nothing but a record of why not */
    const char *idempotency_key;
    bool key_lasts;        /* it is not forgotten after a day */
    bool shows_unfinished; /* who asks again while it is being made gets it as it is then */
};

/* What came of it; to be done with, also after a failure. */
struct sandbox_creation {
    struct sandbox_row row;
    struct rule_warnings warnings;
    struct sandbox_conflicts conflicts; /* after -EBUSY */
    int64_t disk_inodes;
};

void sandbox_creation_done(struct sandbox_creation *creation);
int sandboxes_create(struct service *service, const struct caller *caller, const struct sandbox_request *request,
                     struct sandbox_creation *ret, struct err *err);

/* The runtime of those that are to be no containers. */
int sandboxes_plain_runtime(const struct service *service);

/* Its id, by whatever else people call it: a UUID, a name, the beginning of its id. ERR_NOT_FOUND; ERR_INVALID_ARGUMENT: it may be several. */
int sandboxes_find(struct service *service, const struct caller *caller, const char *text, char ret_id[SANDBOX_ID_MAX],
                   struct err *err);

/* A sandbox as the API shows it. */
struct sandbox_info {
    struct sandbox_row row; /* the reason is that of its start while it starts; in ERROR if its files are gone or damaged */
    struct rule_warnings warnings; /* set where its rules are */
    struct limit_report held;      /* set by sandboxes_get() */
};

void sandbox_info_done(struct sandbox_info *info);
/* A deleted sandbox is ERR_NOT_FOUND unless it is asked for. */
int sandboxes_get(struct service *service, const struct caller *caller, const char *id, bool with_deleted,
                  struct sandbox_info *ret, struct err *err);

/* What a caller knows of the sandbox, and asks of it. */
struct sandbox_step {
    int64_t version; /* 0: any */
    unsigned states; /* bits: what it may be (store/sandbox_row.h); of sandboxes_start() */
    bool may_be_so;  /* what is so already is no error, and nothing is changed then */
};

/* One that was approved or rejected is open again afterwards. START_FAILED: it is in ERROR. */
int sandboxes_start(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                    struct sandbox_row *ret, struct err *err);
int sandboxes_stop(struct service *service, const struct caller *caller, const char *id, const struct sandbox_step *step,
                   struct sandbox_row *ret, struct err *err);

struct sandbox_deletion {
    int64_t version; /* 0: any */
    bool may_be_so;  /* one that is deleted is fine */
    bool is_forced;  /* also with changes that were to be synced and for which there is no room: they are given up */
    bool purges;     /* nothing goes to the trash, also of one that was deleted before */
};

/* Its changes stay in the trash for a while (sandbox_trash.c), if there is one. */
int sandboxes_delete(struct service *service, const struct caller *caller, const char *id,
                     const struct sandbox_deletion *deletion, struct err *err);

/* New rules for every operation that begins after this returns. */
int sandboxes_set_rules(struct service *service, const struct caller *caller, const char *id, const char *preset,
                        const struct rule_list *rules, struct sandbox_info *ret, struct err *err);

struct rule_edit;
/* The same, of the rules that it has then: nobody changes them in between. */
int sandboxes_edit_rules(struct service *service, const struct caller *caller, const char *id, const struct rule_edit *edit,
                         struct sandbox_info *ret, struct err *err);

/* `ret_rules` owns what the explanation's rule numbers mean. */
int sandboxes_explain(struct service *service, const struct caller *caller, const char *id, const char *path,
                      struct ruleset **ret_rules, struct explanation **ret, struct err *err);

/* The rows are as those of sandboxes_get(). Only administrators see the sandboxes of other owners. */
int sandboxes_list(struct service *service, const struct caller *caller, struct sandbox_filter filter,
                   const struct store_page *page, struct sandbox_rows *ret, struct err *err);
