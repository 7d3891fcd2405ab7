/*
 * At the start of a server: cleans up after the previous one. It adopts sandboxes that still run (adoption.h), finishes or undoes
 * interrupted operations, and removes orphans. It leaves other hosts' objects alone.
 */
#pragma once

#include "base/err.h"

struct service;

int recovery_run(struct service *service, struct err *err);
