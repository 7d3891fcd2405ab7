/*
 * What the supervisor last said of itself, for people and for whoever finds the sandbox without a supervisor: lines
 * "key value" in <dir>/state. The truth about a living one is on its control socket, whether it lives is in its lock.
 */
#pragma once

struct sandbox;

void state_file_write(const struct sandbox *sandbox);
