/*
 * Private to the module: periodic work on sandboxes over directories.
 */
#pragma once

#include "service/sandbox_care.h"
#include "service/service_int.h"

/* sandboxes_check() without the check of the mount; takes no lock. */
void sandbox_ask_supervisor(struct service *service, const char *id, struct sandbox_health *ret);

/* For the janitor. Takes the locks itself. */
void sandboxes_tend(struct service *service);
