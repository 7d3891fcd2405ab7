/*
 * What has to be done now and then: sandboxes that have expired are stopped, and removed when nothing of theirs would be lost, or
 * their retention is over; old events, sessions and claims go.
 */
#pragma once

#include "base/err.h"

struct service;

int janitor_start(struct service *service, struct err *err);
void janitor_stop(struct service *service);

/* Does what waits now instead of at its next round. */
void janitor_wake(struct service *service);

/* What came to be could not be written, most likely because the database is away: it looks into it now, and again and again until all that
 * is written is so. */
void janitor_doubt(struct service *service);
