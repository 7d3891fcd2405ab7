/*
 * A session: a shell that remembers, and runs one command at a time (see shell_proto.h for how).
 *
 *     opening ──▶ idle ◀──▶ busy ──▶ interrupting ──▶ settling ──▶ idle
 *                   └──────────┴──────────┴──────────────┴────▶ closed, then gone with its last process
 *
 * Commands queue. One that takes too long, or whose client left, is interrupted: SIGINT to the shell and to what it started
 * since, then SIGKILL to the latter. A shell that does not come back even then is ended. The next command waits until no signal
 * is on its way any more. `exit`, and only that, ends the session from inside. What background jobs print while no command runs is dropped.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

struct client;
struct sandbox;
struct shell;

/* The client hears OK or ERROR when the shell answers. */
int shell_open(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
               const struct ctl_command *wanted, struct err *err);

int shell_run(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
              const struct ctl_command *wanted, struct err *err);

/* Ends it with all its processes. */
int shell_close(struct sandbox *sandbox, const char *name, struct err *err);

/* A client that waits for its session to open has gone. */
void shell_lose_client(struct sandbox *sandbox, const struct client *client);

/* The sandbox ends: all sessions do. */
void shell_lose_all(struct sandbox *sandbox);
