/*
 * The sandbox that an approval's hooks run in: over the project as it would be, confined as the agent's own is, by the same rules and
 * limits, but without a network, and with whatever it has of the host read-only.
 *
 *     hook_box_make    a directory of its own among the sandboxes
 *     ...              the approval is rehearsed to `staged_path` (review/approve.h)
 *     hook_box_run     once for each hook: what an earlier one did to the files, or left running, is not there for the next
 *     hook_box_done    nothing is left
 *
 * Its supervisor ends with us, however we end; the directory of one whose server was killed goes at the next start.
 */
#pragma once

#include "base/buf.h"
#include "service/hook.h"
#include "service/service_int.h"

#define HOOK_BOX_PREFIX "hook_"
#define HOOK_OUTPUT_TAIL ((size_t) 8 << 10)   /* what is kept of what one printed: its end */
#define HOOK_OUTPUT_MAX ((uint64_t) 64 << 20) /* who prints more is killed */

struct hook_box {
    struct service *service;
    char name[ID_TEXT_MAX]; /* "": there is none */
    int dir_fd;             /* owned */
    char *staged_path;      /* owned */
};

#define HOOK_BOX_NONE ((struct hook_box){ .dir_fd = -1 })

enum hook_status { HOOK_PASSED, HOOK_FAILED, HOOK_TIMED_OUT, HOOK_ERROR, HOOK_NOT_RUN };

const char *hook_status_name(enum hook_status status);

struct hook_result {
    char *name; /* owned */
    enum hook_source source;
    bool is_required, is_cut; /* there was more output, before what is kept */
    enum hook_status status;
    int exit_code;
    int64_t duration_ns;
    struct buf output; /* both streams as they came, what could mislead a reader written out */
};

struct hook_results {
    struct hook_result *items; /* owned */
    size_t count, cap;
};

void hook_results_done(struct hook_results *results);

/* `workspace_dir_fd` is the directory of the workspace that is approved. */
int hook_box_make(struct service *service, const struct sandbox_row *row, int workspace_dir_fd, struct hook_box *ret,
                  struct err *err);

struct hook_call {
    const struct hook *hook;
    const char *const *env; /* ended by NULL */
    const void *input;
    size_t input_len;
    int cancel_fd;
};

/* One that fails is a result. -ECANCELED: nobody waits any more. */
int hook_box_run(struct hook_box *box, const struct hook_call *call, struct hook_result *ret, struct err *err);

void hook_box_done(struct hook_box *box);

/* At the start: what killed servers left. */
void hook_boxes_sweep(struct service *service);
