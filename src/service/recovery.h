/*
 * At the start of a server: what the last one left. Sandboxes that still run are adopted; what was begun is finished or undone;
 * what is nobody's is removed; a sandbox that ran and does not any more is in ERROR, with the reason. Other hosts' are not looked at.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct service;
struct ward;

/* Whose sandbox it is that is adopted. */
struct recovery_ward {
    const char *owner, *codebase_id;
    bool syncs;
    const char *event_id; /* its events in the store, from then on; NULL: they are not looked for */
    int64_t since_ns;
};

/* The sandbox of the ward's name, if it runs. The ward's `life` is held. */
int recovery_adopt(struct service *service, struct ward *ward, const struct recovery_ward *as, struct err *err);

int recovery_run(struct service *service, struct err *err);

/* By and by: rows that say something else than is so, because the database was away when it came to be. */
void recovery_reconcile(struct service *service);
