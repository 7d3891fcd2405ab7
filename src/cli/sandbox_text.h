/* Names of the API's enum values, for people. */
#pragma once

#include "cli/grid.h"
#include <sandbox/v1/sandbox.pb-c.h>

const char *sandbox_status_text(Sandbox__V1__SandboxStatus status); /* "running" */
enum grid_colour sandbox_status_colour(Sandbox__V1__SandboxStatus status);
const char *sandbox_decision_text(Sandbox__V1__SandboxDecision decision); /* "open" */
const char *permission_text(Sandbox__V1__Permission permission);          /* "read" */
