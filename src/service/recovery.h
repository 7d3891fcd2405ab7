/*
 * At the start of a server: what the last one left. Sandboxes that still run are adopted (adoption.h); what was begun is finished or
 * undone; what is nobody's is removed. Other hosts' are not looked at.
 */
#pragma once

#include "base/err.h"

struct service;

int recovery_run(struct service *service, struct err *err);
