/*
 * Whether what is about to be approved could be committed. Where the project's file holds what HEAD has not, a commit needs to tell that from
 * the agent's lines; whether it can is seen by merging, with what a dry run of the approval says would be written.
 *
 *     commit_forecast_begin   the files that hold something of others: `paths`, for the dry run. None: it can be committed
 *     commit_forecast_take    what the dry run says of each
 *     commit_forecast_judge   whether they can be told apart
 */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"

struct contribution;
struct forecast_file;
struct still;
struct workspace_approved;

struct commit_forecast {
    struct forecast_file *files; /* owned, in the order of `paths` */
    const char **paths;          /* owned array: in the sandbox; sorted */
    size_t count;
    int fd; /* owned: where contributions are */
};

#define COMMIT_FORECAST_NONE ((struct commit_forecast){ .fd = -1 })

/* NO_REPOSITORY */
int commit_forecast_begin(struct still *still, const struct workspace_approved *approved, struct commit_forecast *ret,
                          struct err *err);
/* An approve_forecast_fn. */
int commit_forecast_take(const char *path, struct contribution *contribution, void *cookie);
/* FOREIGN_CHANGES */
int commit_forecast_judge(struct still *still, struct commit_forecast *forecast, struct err *err);
void commit_forecast_done(struct commit_forecast *forecast);
