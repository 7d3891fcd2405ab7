/*
 * Sandboxes whose rows and whose supervisors may say different things: after a server's start, and when the database was away. Those that run
 * are adopted; one that ran and does not any more is in ERROR, with the reason. One whose supervisor lives and does not answer is in
 * ERROR too, and is asked again until it does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct service;
struct ward;

/* Whose sandbox it is that is adopted. */
struct adoption {
    const char *owner, *codebase_id;
    bool syncs;
    const char *event_id; /* its events in the store, from then on; NULL: they are not looked for */
    int64_t since_ns;
};

/* The sandbox of the ward's name, if it runs and answers. -ENOTCONN, -ENOENT: it does not run; otherwise somebody has it and is silent. The
 * ward's `life` is held. */
int adoption_take(struct service *service, struct ward *ward, const struct adoption *as, struct err *err);

/* At the start, with some patience for those that are slow to answer. */
int adoption_run(struct service *service, struct err *err);

/* By and by. */
void adoption_reconcile(struct service *service);
