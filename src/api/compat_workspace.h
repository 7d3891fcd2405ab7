/*
 * A request to the workspace routes (/api/v1) as its handler sees it: authenticated by the same gate as methods, with its id and body parsed. The
 * table of routes is in compat_workspace_routes.c.
 *
 * A handler answers with compat_answer() or the functions of call/web.h and returns 0. Or it returns a negative errno with `err` filled in, after
 * setting a hint, details or a status if it likes, and compat_run() makes the error body of these. Without a hint, the error's code decides.
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
    char id[SANDBOX_ID_MAX];   /* of the sandbox that "{id}" names; "" if the path has none */
    char shown[UUID_TEXT_MAX]; /* the same in the client's spelling, a UUID or an id */
    json_t *body;              /* owned: an object; NULL: there is no body */

    /* For an error. */
    int status; /* 0: the code decides */
    char *hint; /* owned; NULL: the code decides */
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

/* The web_fn of all routes: `web->route->detail` is the compat_route, the cookie the api. */
void compat_run(struct web *web, void *cookie);

/* Adds to an error. A hint replaces an earlier one. */
void compat_hint(struct ws *ws, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void compat_detail(struct ws *ws, const char *key, json_t *value); /* takes the value */

/* Takes the value. Returns 0. */
int compat_answer(struct ws *ws, int status, json_t *value);
int compat_answer_empty(struct ws *ws, int status);

/* The HTTP status for an error's code. Unlike in /v1, a failed precondition is 409. */
int compat_status_of(enum err_code code);

/* ---- parts of requests ---- */

/*
 * A value of another type is 400. A missing value, or null, leaves the default that the caller has put into `ret`. Texts and values are borrowed
 * from the request.
 */
#define COMPAT_TEXT_MAX 4096
#define COMPAT_TEXTS_MAX 1000

/* `object` may be NULL, which has no values. `max` is in bytes; 0: COMPAT_TEXT_MAX. */
int compat_get_text(const json_t *object, const char *key, size_t max, const char **ret, struct err *err);
int compat_get_bool(const json_t *object, const char *key, bool *ret, struct err *err);
int compat_get_int(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *ret, struct err *err);
/* Nanoseconds as an integer, or text: "24h", "90m", "1h30m", "500ms", "30" (seconds). Not negative. */
int compat_get_duration(const json_t *object, const char *key, int64_t *ret_ns, struct err *err);
/* Objects and arrays with any content. */
int compat_get_object(const json_t *object, const char *key, const json_t **ret, struct err *err);
int compat_get_array(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err);
/* An array of texts. `ret` is ended by NULL and stays NULL if there is no array; its items are borrowed, so free only the array. */
int compat_get_texts(const json_t *object, const char *key, size_t max, const char ***ret, size_t *ret_count, struct err *err);
/* {"NAME": "value"}, for example an environment. */
int compat_get_pairs(const json_t *object, const char *key, size_t max, const json_t **ret, struct err *err);

/* Reads several fields in order. The pointer that is set gives a field's type. */
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

/* Parameters of the query; "" counts as missing. compat_read_query() reads flags, numbers and durations. */
int compat_query_fields(const struct ws *ws, const struct compat_field *fields, struct err *err);
#define compat_read_query(ws, err, ...)                                                                                        \
    compat_query_fields(ws, (const struct compat_field[]){ __VA_ARGS__, { .key = NULL } }, err)
int compat_query_int(const struct ws *ws, const char *name, int64_t least, int64_t most, int64_t *ret, struct err *err);
int compat_query_bool(const struct ws *ws, const char *name, bool *ret, struct err *err); /* true, false, 1, 0 */
int compat_query_duration(const struct ws *ws, const char *name, int64_t *ret_ns, struct err *err);

/* The version of the sandbox that the caller has seen: If-Match ("3", 3, or * for any), else `version` of the body or the query. 0: the
 * caller gave none. */
int compat_get_version(const struct ws *ws, int64_t *ret, struct err *err);

/* ---- answers ---- */

/* RFC 3339, UTC, nine digits. Sets nothing for 0, which means never. */
void compat_set_time(json_t *object, const char *key, int64_t wall_ns);
/* Makes text of any bytes: replaces invalid UTF-8 by U+FFFD. */
json_t *compat_text(const char *bytes, size_t len);
/* A sandbox's id in the spelling of these routes: its UUID. */
json_t *compat_uuid(const char *sandbox_id);
/* Sets nothing for "" or NULL. */
void compat_set_text(json_t *object, const char *key, const char *text);
/* How many of these bytes end with a whole character, where text comes in pieces. The rest, three bytes at most, belongs to one that is not
 * complete yet. What never will be a character counts as one. */
size_t compat_text_whole(const char *bytes, size_t len);

/* ---- a sandbox (compat_workspace_object.c) ---- */

/* `health` may be NULL if the supervisor was not asked. */
json_t *compat_object(struct ws *ws, const struct sandbox_row *row, const struct sandbox_health *health);

/* Answers with the object, and with its version as ETag. */
int compat_answer_object(struct ws *ws, int status, const struct sandbox_row *row);

/* Adds hint and details to an error by its reason. Returns `r`. */
int compat_explain(struct ws *ws, int r, const struct err *err, const struct sandbox_conflicts *conflicts);

/* ---- a command (compat_workspace_exec.c) ---- */

/* Borrows from the JSON object, except for the owned parts. */
struct compat_command {
    struct sandbox_command command;
    const char **args; /* owned: the array alone */
    struct pair_list env;
    struct buf input; /* owned */
};

void compat_command_done(struct compat_command *command);
int compat_command_read(const json_t *object, struct compat_command *ret, struct err *err);

/* The limits of a command: memoryLimitMB, cpuTimeSec, maxProcesses, maxOpenFiles, timeoutSec. */
int compat_command_read_limits(const json_t *object, struct execution_limits *ret, struct err *err);

/* ---- changes (compat_workspace_review_approve.c, compat_workspace_review_file.c) ---- */

/* A choice of changes, and what it borrows from. */
struct compat_review_choice {
    struct review_choice choice;
    const char **paths, **file_ids;  /* owned arrays */
    struct review_hunks *hunks;      /* owned, with the arrays in it */
    struct selection_range **ranges; /* owned; one for each of the hunks, or NULL */
    const char ***ids;               /* owned; likewise */
};

/* Reads fileIds, hunks, hunkRanges, and the paths under `paths_key`. */
int compat_review_choice_take(const json_t *body, const char *paths_key, struct compat_review_choice *ret, struct err *err);
void compat_review_choice_done(struct compat_review_choice *choice);

struct compat_review_file {
    const char *sandbox_id;
    const struct acceptance *acceptance;
    int64_t now_ns;
};

/* `diff` NULL leaves out the hunks. */
json_t *compat_review_file(const struct compat_review_file *about, const struct file_change *change,
                           const struct file_diff *diff);

/* Makes a list of texts from untrusted lines, escaped for display. */
json_t *compat_review_lines(const struct buf *lines);

/* [{"line", "project", "base", "agent"}], texts. */
json_t *compat_review_conflict(const struct threeway *merge);

/* Sets filePath, projectPath and id for a path from the sandbox's root. */
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
