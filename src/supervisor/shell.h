/*
 * A session: a shell that keeps its state and runs one command at a time (shell_proto.h explains how).
 *
 *     opening ──▶ idle ◀──▶ busy ──▶ interrupting ──▶ settling ──▶ idle
 *                   └──────────┴──────────┴──────────────┴────▶ closed, then gone with its last process
 *
 * Commands queue. A command that takes too long, or whose client left, is interrupted: the shell and the processes started
 * since get SIGINT, then those processes SIGKILL. If the shell does not answer even then, it is ended. The next command waits
 * until no signal is pending. Only `exit` ends the session from inside. Output of background jobs while no command runs is
 * dropped.
 */
#pragma once

#include "base/err.h"
#include "wire/ctl_proto.h"

struct client;
struct sandbox;
struct shell;

/* The client gets OK or ERROR when the shell answers. */
int shell_open(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
               const struct ctl_command *wanted, struct err *err);

int shell_run(struct sandbox *sandbox, struct client *client, uint64_t tag, const struct ctl_run *asked,
              const struct ctl_command *wanted, struct err *err);

/* Ends the session with all its processes. */
int shell_close(struct sandbox *sandbox, const char *name, struct err *err);

/* A client that waits for its session to open has gone. */
void shell_lose_client(struct sandbox *sandbox, const struct client *client);

/* Ends all sessions, because the sandbox ends. */
void shell_lose_all(struct sandbox *sandbox);
