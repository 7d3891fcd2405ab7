/*
 * One request to the workspace routes (/api/v1), as its handler sees it: let in by the same gate as a method, its id and its body read. The
 * table of routes is in compat_workspace_routes.c.
 *
 * A handler answers with compat_answer() or the functions of call/web.h and returns 0; or it returns a negative errno with `err` filled in, and
 * maybe a hint, details or a status of its own choosing, and the error body is made of those. A hint that nobody gave comes from the
 * error's code.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "base/err.h"
#include "base/sandbox_id.h"
#include "call/web.h"
#include "review/file_diff.h"
#include "service/caller.h"
#include "service/reviews.h"
#include "service/sandbox_care.h"
#include "service/sandbox_run.h"

struct compat_route;

struct ws {
    struct web *web;
    const struct api *api;
    struct service *service;
    struct caller caller;
    const struct compat_route *route;
    char id[SANDBOX_ID_MAX];   /* of the sandbox that "{id}" means; "" when the path has none */
    char shown[UUID_TEXT_MAX]; /* the same as the client spells it, by its UUID or its id */
    json_t *body;              /* owned: an object; NULL: there was none */

    /* Of an error. */
    int status; /* 0: what the code says */
    char *hint; /* owned; NULL: what the code says */
    bool is_retryable;
    json_t *details; /* owned */
};

typedef int compat_handler(struct ws *ws, struct err *err);

enum compat_flag {
    COMPAT_PUBLIC = 1 << 0,     /* for everybody, without authentication */
    COMPAT_NEEDS_BODY = 1 << 1, /* a request without a body is 400 */
};

struct compat_route {
    const char *verb, *path;
    compat_handler *fn;
    const char *summary;
    const char *const *keys; /* of the body, ended by NULL: any other is 400; NULL: there is no body */
    size_t body_max;         /* 0: 4 MiB */
    unsigned flags;
    enum web_answer answer;
};

/* The web_fn of all of them: `web->route->detail` is the compat_route, the cookie the api. */
void compat_run(struct web *web, void *cookie);

/* What is said of an error beside its text. The hint replaces one that is there. */
void compat_hint(struct ws *ws, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void compat_detail(struct ws *ws, const char *key, json_t *value); /* takes the value */

/* Takes the value. Returns 0. */
int compat_answer(struct ws *ws, int status, json_t *value);
int compat_answer_empty(struct ws *ws, int status);

/* The status of an error's code: unlike in /v1, what cannot be done now is a conflict, 409. */
int compat_status_of(enum err_code code);

/* ---- parts of requests ---- */

/*
 * Read strictly: what is there and is not of its type is 400, what is not there, or null, leaves the default that the caller has put into
 * `ret`. Texts and values are borrowed from the request.
 */
#define COMPAT_TEXT_MAX 4096
#define COMPAT_TEXTS_MAX 1000

/* `object` may be NULL: nothing is there. `max` is in bytes, 0: COMPAT_TEXT_MAX. */
int compat_get_text(const json_t *object, const char *key, size_t max, const char **ret, struct err *err);
int compat_get_bool(const json_t *object, const char *key, bool *ret, struct err *err);
int compat_get_int(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret, struct err *err);
/* Nanoseconds as an integer, or text: "24h", "90m", "1h30m", "500ms", "30" (seconds). Not negative. */
int compat_get_duration(const json_t *object, const char *key, int64_t *ret_ns, struct err *err);
/* Objects and arrays of anything. */
int compat_get_object(const json_t *object, const char *key, const json_t **ret, struct err *err);
int compat_get_array(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err);
/* An array of texts: `ret` is ended by NULL, its items borrowed; free the array alone. NULL when it is not there. */
int compat_get_texts(const json_t *object, const char *key, size_t max, const char ***ret, size_t *ret_count, struct err *err);
/* {"NAME": "value"}, e.g. an environment; "no object of texts". */
int compat_get_pairs(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err);

/* Several fields, each of the type whose pointer is set, in their order. */
struct compat_field {
    const char *key;
    const char **text;
    bool *flag;
    int64_t *number, *duration_ns;
    const json_t **object;
    size_t text_max;     /* as `max` of compat_get_text() */
    int64_t least, most; /* of a number */
};

int compat_get_fields(const json_t *object, const struct compat_field *fields, struct err *err);
#define compat_read(object, err, ...)                                                                                          \
    compat_get_fields(object, (const struct compat_field[]){ __VA_ARGS__, { .key = NULL } }, err)

/* Of the query: "" counts as not there. compat_read_query() is for flags, numbers and durations. */
int compat_query_fields(const struct ws *ws, const struct compat_field *fields, struct err *err);
#define compat_read_query(ws, err, ...)                                                                                        \
    compat_query_fields(ws, (const struct compat_field[]){ __VA_ARGS__, { .key = NULL } }, err)
int compat_query_int(const struct ws *ws, const char *name, int64_t least, int64_t most, int64_t *ret, struct err *err);
int compat_query_bool(const struct ws *ws, const char *name, bool *ret, struct err *err); /* true, false, 1, 0 */
int compat_query_duration(const struct ws *ws, const char *name, int64_t *ret_ns, struct err *err);

/* The version of the sandbox that the caller has seen: If-Match ("3", 3, or * for any), else the body's or the query's `version`. 0:
 * none was given. */
int compat_get_version(const struct ws *ws, int64_t *ret, struct err *err);

/* ---- answers ---- */

/* RFC 3339, UTC, nine digits. 0 is never: nothing is set. */
void compat_set_time(json_t *object, const char *key, int64_t wall_ns);
/* Any bytes as text: what is no UTF-8 becomes U+FFFD. */
json_t *compat_text(const char *bytes, size_t len);
/* The id of a sandbox as these routes spell it: its UUID. */
json_t *compat_uuid(const char *sandbox_id);
/* Nothing is set for "" or NULL. */
void compat_set_text(json_t *object, const char *key, const char *text);
/* How many of these bytes end with a whole character, where text comes in pieces. The rest, three bytes at most, belongs to one that is not
 * complete yet. What never will be a character counts as one. */
size_t compat_text_whole(const char *bytes, size_t len);

/* ---- a sandbox (compat_workspace_object.c) ---- */

/* `health` may be NULL: it was not asked. */
json_t *compat_object(struct ws *ws, const struct sandbox_row *row, const struct sandbox_health *health);

/* The object as the answer, with its version as ETag. */
int compat_answer_object(struct ws *ws, int status, const struct sandbox_row *row);

/* Hint and details of an error of the life cycle, by its reason. */
int compat_explain(struct ws *ws, int r, const struct err *err, const struct sandbox_conflicts *conflicts);

/* ---- a command (compat_workspace_exec.c) ---- */

/* Borrows from the JSON object, but for the two lists. */
struct compat_command {
    struct sandbox_command command;
    const char **args; /* owned: the array alone */
    struct pair_list env;
    struct buf input; /* owned */
};

void compat_command_done(struct compat_command *command);
int compat_command_read(const json_t *object, struct compat_command *ret, struct err *err);

/* Keys of a limits object: memoryLimitMB, cpuTimeSec, maxProcesses, maxOpenFiles, timeoutSec. */
int compat_command_read_limits(const json_t *object, struct execution_limits *ret, struct err *err);

/* ---- changes (compat_workspace_review_approve.c, compat_workspace_review_file.c) ---- */

/* What the choice borrows from. */
struct compat_review_choice {
    struct review_choice choice;
    const char **paths, **file_ids;  /* owned arrays */
    struct review_hunks *hunks;      /* owned, with the arrays in it */
    struct selection_range **ranges; /* owned; one for each of the hunks, or NULL */
    const char ***ids;               /* owned; likewise */
};

/* fileIds, hunks, hunkRanges, and paths under `paths_key`. */
int compat_review_choice_take(const json_t *body, const char *paths_key, struct compat_review_choice *ret, struct err *err);
void compat_review_choice_done(struct compat_review_choice *choice);

struct compat_review_file {
    const char *sandbox_id;
    const struct acceptance *acceptance;
    int64_t now_ns;
};

/* `diff` may be NULL: without hunks. */
json_t *compat_review_file(const struct compat_review_file *about, const struct file_change *change,
                           const struct file_diff *diff);

/* Bytes of a stranger's as text, escaped likewise. */
json_t *compat_review_lines(const struct buf *lines);

/* [{"line", "project", "base", "agent"}], texts. */
json_t *compat_review_conflict(const struct threeway *merge);

/* filePath, projectPath and id of a path from the sandbox's root. */
void compat_review_set_paths(json_t *object, const char *sandbox_id, const char *prefix, const char *scope_path);

/* ---- handlers ---- */

compat_handler compat_about, compat_create, compat_list, compat_get, compat_delete, compat_restore, compat_stop, compat_start,
    compat_workspace, compat_validate_path, compat_gc, compat_gc_preview, compat_health, compat_stats, compat_metrics,
    compat_audit, compat_audit_one, compat_driver_info, compat_driver_options, compat_driver_select, compat_driver_preference,
    compat_driver_bwrap, compat_exec, compat_process_start, compat_process_list, compat_process_end, compat_process_end_all,
    compat_process_stats, compat_log_list, compat_log_read, compat_log_follow, compat_terminal, compat_file_list,
    compat_file_read, compat_file_write, compat_file_delete, compat_file_mkdir, compat_file_download, compat_profile_list,
    compat_profile_get, compat_profile_put, compat_profile_delete, compat_execution_get, compat_execution_put, compat_diff,
    compat_diff_shown, compat_approve, compat_partial_approve, compat_reject, compat_finish, compat_discard, compat_conflicts,
    compat_rebase, compat_undo, compat_pending, compat_provenance, compat_commit_preview, compat_commit_pending;
