/*
 * Starts a sandbox: first its identity, then fence and runtime side by side, then the link to init. The sandbox is RUNNING once
 * init has said HELLO, which arrives through the reactor, and FAILED if it does not.
 */
#pragma once

struct sandbox;

/* Call it in the supervisor's mount namespace (namespace.h). Reports failures through sandbox_fail(). */
void boot(struct sandbox *sandbox);

/* Counts and reports the limits that were hit since the last call. The process that hit a limit may end before the event
 * arrives. */
void boot_report_limits(struct sandbox *sandbox);

/* Like boot_report_limits(), after a command was killed, perhaps by the memory limit. For a container another process
 * counts, so this waits for its report. */
void boot_await_limits(struct sandbox *sandbox);

/* Undoes boot(): kills everything that runs in the sandbox. Acknowledged writes are in the delta. */
void boot_undo(struct sandbox *sandbox);
