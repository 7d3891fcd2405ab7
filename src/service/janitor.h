/*
 * Periodic work: stops expired sandboxes, and removes them if that loses no changes, or once their retention is over; removes old events,
 * sessions and claims.
 */
#pragma once

#include "base/err.h"

struct service;

int janitor_start(struct service *service, struct err *err);
void janitor_stop(struct service *service);

/* Starts the next round now. */
void janitor_wake(struct service *service);

/* Call it when a result could not be written, most likely because the database is away. The janitor checks the state now, and repeats this
 * until everything has been written. */
void janitor_doubt(struct service *service);
