/* grpc.health.v1.Health: reports to load balancers and probes whether the server accepts calls. It needs no authentication. */
#pragma once

#include <stdbool.h>

#include "call/method.h"

struct health;

/* `tables` is borrowed and ends with NULL: the services whose names Health knows. */
struct health *health_new(const struct method_table *const *tables);
/* All its calls must have ended. */
void health_free(struct health *health);

/* Health's own methods, for the caller to add to `tables`. */
const struct method_table *health_table(const struct health *health);

/* May be called from any thread. */
void health_set(struct health *health, bool is_serving);
/* Ends the Watch calls, which would run for ever otherwise. */
void health_close(struct health *health);
