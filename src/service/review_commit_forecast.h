/*
 * Predicts whether the changes of an approval could be committed. If the project's file differs from HEAD, a commit must
 * separate that difference from the agent's lines. The prediction merges with the result of a dry run of the approval.
 */
#pragma once

#include "base/err.h"

struct review_lock;
struct review_approved;

/* Called after a dry run. NO_REPOSITORY, FOREIGN_CHANGES. */
int commit_forecast_check(struct review_lock *review_lock, const struct review_approved *approved, struct err *err);
