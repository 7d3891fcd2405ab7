/* grpc.health.v1.Health: whether the server takes calls, as load balancers and probes ask. For everybody, without authentication. */
#pragma once

#include <stdbool.h>

#include "call/method.h"

struct health;

/* `tables` ends with NULL and is borrowed: what is served, and hence known by name. */
struct health *health_new(const struct method_table *const *tables);
/* No call of it may be at work any more. */
void health_free(struct health *health);

/* Its methods, for the list that `tables` is. */
const struct method_table *health_table(const struct health *health);

/* From any thread. */
void health_set(struct health *health, bool is_serving);
/* Ends the calls that watch: they would be at work for ever. */
void health_close(struct health *health);
