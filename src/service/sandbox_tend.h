/*
 * Inside the module: what is asked of a sandbox over a directory without being told to. Takes the lock itself.
 */
#pragma once

#include "service/sandbox_care.h"
#include "service/service_int.h"

/* sandboxes_check() without its mount; takes no lock. */
void sandbox_ask_supervisor(struct service *service, const char *id, struct sandbox_health *ret);

/* By the janitor. */
void sandboxes_tend(struct service *service);
