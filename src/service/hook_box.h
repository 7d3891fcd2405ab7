/*
 * The sandbox for an approval's hooks: it sees the project as it would be, and is confined like the agent's sandbox, by the
 * same rules and limits, but without a network, and with all host directories read-only.
 *
 *     hook_box_make    creates a directory among the sandboxes
 *     ...              the approval's dry run makes the tree at `staged_path` (review/approve.h)
 *     hook_box_run     runs one hook; files and processes that an earlier hook left are gone
 *     hook_box_done    removes everything
 *
 * Its supervisor ends with our process, even on a kill; the directory of a killed server is removed at the next start.
 */
#pragma once

#include "base/buf.h"
#include "service/hook.h"
#include "service/service_int.h"

#define HOOK_BOX_PREFIX "hook_"
#define HOOK_OUTPUT_TAIL ((size_t) 8 << 10)   /* the end of a hook's output, which is kept */
#define HOOK_OUTPUT_MAX ((uint64_t) 64 << 20) /* a hook that prints more is killed */

struct hook_box {
    struct service *service;
    char name[ID_TEXT_MAX]; /* "": none */
    int dir_fd;             /* owned */
    char *staged_path;      /* owned */
};

#define HOOK_BOX_NONE ((struct hook_box){ .dir_fd = -1 })

enum hook_status { HOOK_PASSED, HOOK_FAILED, HOOK_TIMED_OUT, HOOK_ERROR, HOOK_NOT_RUN };

const char *hook_status_name(enum hook_status status);

struct hook_result {
    char *name; /* owned */
    enum hook_source source;
    bool is_required, is_cut; /* is_cut: there was more output before the kept part */
    enum hook_status status;
    int exit_code;
    int64_t duration_ns;
    struct buf output; /* both streams in order of arrival; escaped where it could mislead a reader */
};

struct hook_results {
    struct hook_result *items; /* owned */
    size_t count, cap;
};

void hook_results_done(struct hook_results *results);

/* `workspace_dir_fd` is the directory of the sandbox under approval. */
int hook_box_make(struct service *service, const struct sandbox_row *row, int workspace_dir_fd, struct hook_box *ret,
                  struct err *err);

struct hook_call {
    const struct hook *hook;
    const char *const *env; /* NULL-terminated */
    const void *input;
    size_t input_len;
    int cancel_fd;
};

/* A hook that fails is a result, not an error. -ECANCELED: the caller no longer waits. */
int hook_box_run(struct hook_box *box, const struct hook_call *call, struct hook_result *ret, struct err *err);

void hook_box_done(struct hook_box *box);

/* Called at start: removes what killed servers left. */
void hook_boxes_sweep(struct service *service);
