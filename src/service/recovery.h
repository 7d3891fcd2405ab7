/*
 * At the start of a server: what the last one left. Sandboxes that still run are adopted; what was begun is finished or undone;
 * what is nobody's is removed; a sandbox that ran and does not any more is in ERROR, with the reason. Other hosts' are not looked at.
 */
#pragma once

#include "base/err.h"

struct service;

int recovery_run(struct service *service, struct err *err);

/* By and by: rows that say something else than is so, because the database was away when it came to be. */
void recovery_reconcile(struct service *service);
