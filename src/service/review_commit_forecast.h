/*
 * Whether what is about to be approved could be committed. Where the project's file holds what HEAD has not, a commit needs to tell that from
 * the agent's lines; whether it can is seen by merging, with what a dry run of the approval says would be written.
 */
#pragma once

#include "base/err.h"

struct review_lock;
struct review_approved;

/* After a dry run. NO_REPOSITORY, FOREIGN_CHANGES */
int commit_forecast_check(struct review_lock *review_lock, const struct review_approved *approved, struct err *err);
